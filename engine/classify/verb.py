"""``classify``: whatever images were brought through one checkpoint, to a row for each.

All is written into the scratch folder and moved at the end; one that was stopped or killed begins again. Memory does
not grow with the number of images, but for their names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from engine.classify.items import Item, items_of
from engine.classify.looking import Looked, look
from engine.context import Context
from engine.data.ahead import N_DECODE_THREADS, map_ahead
from engine.device import Device, choose_device, n_physical_cores
from engine.emit import Throttle
from engine.predict.answers import UNKNOWN, Answer, read_answers
from engine.predict.publishing import clean, publish
from engine.predict.session import Session
from engine.sources.opening import open_source, source_shown
from engine.sources.tree import SourceStopped, Tree
from engine.store.predictions import Prediction, PredictionsWriter
from wire.errors import DatasetInvalid
from wire.events import AttemptStarted, Notice, Outcome, Progress
from wire.layout import PredictionsDir
from wire.specs import ClassifySpec

log = logging.getLogger(__name__)

TOP: Final = 5
"""Of the summary's top-5, whatever number of classes the rows name."""
_PROGRESS_INTERVAL_S: Final = 0.25
_NAMED_IN_NOTICE: Final = 5


class _Stopped(Exception):
    """The stop was asked for."""


def run(spec: ClassifySpec, context: Context) -> Outcome:
    """Classify; leaves predictions, or nothing. An image that cannot be read becomes a row that says why.

    Raises:
        CheckpointMissing, CheckpointDamaged: the weights cannot be used.
        DatasetMissing, DatasetInvalid, ArchiveInvalid, UploadMissing: the source cannot be read, or holds no file.
        DeviceMissing: a GPU is asked for and none is visible.
        DiskFull: there is no room to unpack the source or for the predictions.
    """
    context.sink.emit(AttemptStarted(n=context.n))
    beside = clean(context, context.job.classification_dir)
    torch.set_num_threads(n_physical_cores())
    torch.backends.cudnn.benchmark = True
    device = choose_device(spec.device)
    path = context.job.resolve(spec.checkpoint.path)
    session = Session.open(path, sha256=spec.checkpoint.sha256, device=device.torch)
    try:
        _Classification(spec, context, session, device).run(beside)
    except (_Stopped, SourceStopped):
        return context.stop.outcome
    return "succeeded"


@dataclass(slots=True)
class _Tally:
    """What the summary counts."""

    n_images: int = 0
    n_with_truth: int = 0
    """Of those that have an answer."""
    n_right: int = 0
    n_among_top: int = 0
    n_unreadable: int = 0
    first_unreadable: list[str] = field(default_factory=list)

    def add(self, looked: Looked, answer: Answer | None) -> None:
        self.n_images += 1
        if answer is None:
            self.n_unreadable += 1
            if len(self.first_unreadable) < _NAMED_IN_NOTICE:
                self.first_unreadable.append(f"{looked.item.name}: {looked.error}")
        elif answer.label is not None:
            self.n_with_truth += 1
            self.n_right += answer.predicted == answer.label
            self.n_among_top += answer.label in dict(answer.top[:TOP])

    def share(self, n: int) -> float | None:
        return n / self.n_with_truth if self.n_with_truth else None


class _Classification:
    """One classification under way."""

    def __init__(self, spec: ClassifySpec, context: Context, session: Session, device: Device) -> None:
        self._spec = spec
        self._context = context
        self._session = session
        self._device = device
        self._throttle = Throttle(_PROGRESS_INTERVAL_S)
        self._tally = _Tally()

    def run(self, beside: Path) -> None:
        job = self._context.job
        log.info("%s, %s on %s", self._session.model, self._spec.checkpoint.name, self._device.label)
        began_at = time.monotonic()
        source = open_source(
            self._spec.source,
            job,
            scratch_dir=job.scratch_dir / "source",
            on_progress=self._unpacked,
            stop=self._context.stop,
            labels_needed=False,
        )
        predictions = PredictionsWriter(PredictionsDir(beside).predictions_path, self._session.classes)
        with source as tree, predictions as writer:
            items = items_of(tree, self._spec.source, self._session.classes)
            if not items:
                raise DatasetInvalid(
                    f"There is no file to classify in {source_shown(self._spec.source)}.",
                    hint="Bring an archive, a folder or a list with images.",
                )
            self._classify(tree, items, writer)
            self._tell("store", 0, 0)
            writer.finish()
        took_s = time.monotonic() - began_at
        self._say(took_s)
        publish(self._context, beside, job.classification_dir, artifact="predictions", meta=self._meta(took_s))

    def _classify(self, tree: Tree, items: Sequence[Item], writer: PredictionsWriter) -> None:
        looked = map_ahead(
            partial(look, tree, self._session), items, n_threads=N_DECODE_THREADS, n_ahead=2 * N_DECODE_THREADS
        )
        with closing(looked):
            while batch := list(islice(self._unless_stopped(looked), self._session.batch_size)):
                self._store(batch, self._answers(batch), writer)
                if self._throttle.open() or self._tally.n_images == len(items):
                    self._tell("classify", self._tally.n_images, len(items))

    def _unless_stopped(self, looked: Iterator[Looked]) -> Iterator[Looked]:
        for one in looked:
            if self._context.stop.asked:
                raise _Stopped
            yield one

    def _answers(self, batch: Sequence[Looked]) -> Iterator[Answer]:
        """Of those that can be read, in their order."""
        readable = [(one.pixels_HWC, one.item.label) for one in batch if one.pixels_HWC is not None]
        if not readable:
            return iter(())
        images_NHWC = np.stack([pixels_HWC for pixels_HWC, _ in readable])
        labels_N = torch.tensor([UNKNOWN if label is None else label for _, label in readable])
        logits_NK = self._session.logits(self._session.normalised(images_NHWC))
        top = max(self._spec.top, TOP)
        return read_answers(logits_NK, labels_N.to(logits_NK.device), top=top).each()

    def _store(self, batch: Sequence[Looked], answers: Iterator[Answer], writer: PredictionsWriter) -> None:
        rows: list[Prediction] = []
        for one in batch:
            answer = next(answers) if one.pixels_HWC is not None else None
            self._tally.add(one, answer)
            id_ = self._tally.n_images
            if answer is not None:
                rows.append(answer.prediction(id_, one.item.name, n_top=self._spec.top))
            else:
                rows.append(unreadable(id_, one))
            if one.thumbnail is not None:
                writer.add_thumbnail(id_, one.thumbnail)
        writer.add(rows)

    def _say(self, took_s: float) -> None:
        tally = self._tally
        log.info("%s images in %.1f s", f"{tally.n_images:,}", took_s)
        if tally.n_with_truth:
            log.info(
                "top-1 %.2f %% of %s whose class is known",
                100 * tally.n_right / tally.n_with_truth,
                f"{tally.n_with_truth:,}",
            )
        if not tally.n_unreadable:
            return
        more = tally.n_unreadable - len(tally.first_unreadable)
        text = (
            f"{tally.n_unreadable:,} of {tally.n_images:,} files cannot be read as images. "
            f"{'; '.join(tally.first_unreadable)}" + (f"; and {more:,} more." if more else ".")
        )
        self._context.sink.emit(Notice(level="warning", code="classify.unreadable", text=text))
        log.warning(text)

    def _meta(self, took_s: float) -> dict[str, Any]:
        """What pages and lists show without opening the folder."""
        tally = self._tally
        return {
            "checkpoint": self._spec.checkpoint.model_dump(),
            "source": source_shown(self._spec.source),
            "n_classes": len(self._session.classes),
            "n_images": tally.n_images,
            "n_unreadable": tally.n_unreadable,
            "n_with_truth": tally.n_with_truth,
            "top1": tally.share(tally.n_right),
            "top5": tally.share(tally.n_among_top) if len(self._session.classes) > TOP else None,
            "top": self._spec.top,
            "images_s": round(tally.n_images / took_s, 1) if took_s else None,
            "device": self._device.label,
        }

    def _unpacked(self, done: int, total: int) -> None:
        if self._throttle.open():
            self._tell("unpack", done, total)

    def _tell(self, stage: str, done: int, total: int) -> None:
        self._context.sink.emit(Progress(stage=stage, done=done, total=total))


def unreadable(id_: int, looked: Looked) -> Prediction:
    return Prediction(
        id=id_,
        split=None,
        sample=None,
        name=looked.item.name,
        label=looked.item.label,
        predicted=None,
        confidence=None,
        truth_probability=None,
        loss=None,
        error=looked.error,
    )
