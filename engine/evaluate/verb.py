"""``evaluate``: one checkpoint over the splits of one dataset, to a report and a row for each image.

All is written into the scratch folder and moved at the end; an evaluation that was stopped or killed begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import torch

from engine.context import Context
from engine.data.cache import Decoded, DecodingStopped, decoded
from engine.data.loader import BatchLoader
from engine.device import Device, choose_device, n_physical_cores
from engine.emit import Throttle
from engine.evaluate.metrics import TOP, split_evaluation
from engine.evaluate.report import make_meta, make_report, not_finite_note, precision_note, split_note
from engine.predict.answers import UNKNOWN, Answers, joined, read_answers
from engine.predict.matching import Note, check_match, classes_note, no_class_in_common, numbers_of
from engine.predict.publishing import clean, publish
from engine.predict.session import Session
from engine.store.predictions import Prediction, PredictionsWriter
from engine.store.reader import DatasetReader
from wire.errors import DatasetInvalid
from wire.evaluation import SplitEvaluation
from wire.events import AttemptStarted, Notice, Outcome, Progress
from wire.layout import PredictionsDir
from wire.manifests import DatasetManifest, SplitName
from wire.specs import EvaluateSpec

log = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S: Final = 0.25


class _Stopped(Exception):
    """The stop was asked for."""


def run(spec: EvaluateSpec, context: Context) -> Outcome:
    """Evaluate; leaves a report, or nothing.

    Raises:
        CheckpointMissing, CheckpointDamaged: the weights cannot be used.
        DatasetMissing, DatasetInvalid: there is nothing to evaluate on, or no class that the checkpoint knows.
        DeviceMissing: a GPU is asked for and none is visible.
    """
    context.sink.emit(AttemptStarted(n=context.n))
    beside = clean(context, context.job.evaluation_dir)
    torch.set_num_threads(n_physical_cores())
    torch.backends.cudnn.benchmark = True
    with DatasetReader(context.job.resolve(spec.dataset)) as reader:
        splits = _splits(spec, reader.manifest)
        device = choose_device(spec.device)
        path = context.job.resolve(spec.checkpoint.path)
        session = Session.open(path, sha256=spec.checkpoint.sha256, device=device.torch)
        check_match(session.task, session.classes, reader.manifest)
        try:
            _Evaluation(spec, context, reader, session, device).run(splits, beside)
        except (_Stopped, DecodingStopped):
            return context.stop.outcome
    return "succeeded"


def _splits(spec: EvaluateSpec, manifest: DatasetManifest) -> tuple[SplitName, ...]:
    there = tuple(split for split in dict.fromkeys(spec.splits) if manifest.n_images(split))
    if not there:
        raise DatasetInvalid(
            f"The dataset {manifest.name!r} has no images in {' or '.join(spec.splits)} to evaluate on.",
            hint="Import the images again with a share for validation or test.",
        )
    return there


class _Evaluation:
    """One evaluation under way."""

    def __init__(
        self, spec: EvaluateSpec, context: Context, reader: DatasetReader, session: Session, device: Device
    ) -> None:
        self._spec = spec
        self._context = context
        self._reader = reader
        self._session = session
        self._device = device
        self._throttle = Throttle(_PROGRESS_INTERVAL_S)
        self._n_rows = self._n_done = 0
        number_of = numbers_of(session.classes, reader.manifest)
        n_labels = len(reader.manifest.classes)
        self._label_of_K = np.array([number_of.get(label, UNKNOWN) for label in range(n_labels)], np.int64)

    def run(self, splits: Sequence[SplitName], beside: Path) -> None:
        manifest, folder = self._reader.manifest, PredictionsDir(beside)
        log.info("%s, %s on %s, %s", self._session.model, self._spec.checkpoint.name, manifest.name, self._device.label)
        notes = [*self._notes(splits)]
        evaluated: list[SplitEvaluation] = []
        n_images = sum(manifest.n_images(split) for split in splits)
        with PredictionsWriter(folder.predictions_path, self._session.classes) as writer:
            for split in splits:
                answers = self._answers(split, writer, n_images)
                if not len(answers.labels_N):
                    notes.append(split_note(manifest, split, known=True))
                    continue
                evaluated.append(split_evaluation(split, answers, self._session.classes))
                if n_without := int((~answers.is_finite_N).sum()):
                    notes.append(not_finite_note(split, n_without, len(answers.labels_N)))
                log.info("%s: top-1 %.2f %%", split, 100 * evaluated[-1].top1)
            if not evaluated:
                raise no_class_in_common(self._session.classes, manifest, splits)
            self._tell("store", 0, 0)
            writer.finish()
        report = make_report(
            *(self._spec, self._context.job, self._session, manifest, evaluated),
            notes=notes,
            device=self._device.label,
        )
        folder.report_path.write_text(report.model_dump_json(indent=1))
        self._say(notes)
        publish(self._context, beside, self._context.job.evaluation_dir, artifact="report", meta=make_meta(report))

    def _say(self, notes: Sequence[Note]) -> None:
        for note in notes:
            self._context.sink.emit(Notice(level=note.level, code=note.code, text=note.text))
            log.log(logging.WARNING if note.level == "warning" else logging.INFO, note.text)

    def _notes(self, splits: Sequence[SplitName]) -> Iterator[Note]:
        manifest = self._reader.manifest
        for split in dict.fromkeys(self._spec.splits):
            if split not in splits:
                yield split_note(manifest, split)
        unknown = [label for label, known in enumerate(self._label_of_K) if known == UNKNOWN]
        n_left_out = sum(manifest.counts[split][label] for split in splits for label in unknown)
        if n_left_out:
            yield classes_note([manifest.classes[label] for label in unknown], n_left_out)
        if self._session.precision != self._session.trained_precision:
            yield precision_note(self._session)

    def _answers(self, split: SplitName, writer: PredictionsWriter, n_images: int) -> Answers:
        """About the images of a split whose class the checkpoint knows; each is also written as a row."""
        images = self._decoded(split)
        names = [sample.name for sample in self._reader.samples(split)]
        parts: list[Answers] = []
        start = 0
        with closing(self._loader(images).epoch(0)) as batches:
            for batch in batches:
                if self._context.stop.asked:
                    raise _Stopped
                answers = read_answers(self._session.logits(batch.images_BCHW), batch.labels_B, top=TOP)
                end = start + len(answers.labels_N)
                writer.add(
                    self._rows(split, answers, zip(images.ids_N[start:end].tolist(), names[start:end], strict=True))
                )
                parts.append(answers.of_known_truth())
                self._n_done += end - start
                start = end
                if self._throttle.open() or self._n_done == n_images:
                    self._tell("evaluate", self._n_done, n_images)
        return joined(parts)

    def _loader(self, images: Decoded) -> BatchLoader:
        """The batches of the training's validation, with the labels of the checkpoint."""
        return BatchLoader(
            Decoded(images.images_NHWC, self._label_of_K[images.labels_N], images.ids_N),
            batch_size=self._session.batch_size,
            seed=0,
            shuffle=False,
            augment=None,
            mean=self._session.mean,
            std=self._session.std,
            device=self._device.torch,
        )

    def _rows(self, split: SplitName, answers: Answers, images: Iterable[tuple[int, str]]) -> Iterator[Prediction]:
        for (sample, name), answer in zip(images, answers.each(), strict=True):
            if answer.label is None:
                continue
            self._n_rows += 1
            yield answer.prediction(self._n_rows, name, split=split, sample=sample)

    def _decoded(self, split: SplitName) -> Decoded:
        throttle = Throttle(_PROGRESS_INTERVAL_S)

        def tell(done: int, total: int) -> None:
            if throttle.open() or done == total:
                self._tell("prepare", done, total)

        return decoded(
            self._reader,
            split,
            image_px=self._session.image_px,
            resize=self._session.resize,
            colour=self._session.colour,
            cache_dir=self._context.cache_dir,
            on_progress=tell,
            stop=self._context.stop,
        )

    def _tell(self, stage: str, done: int, total: int) -> None:
        self._context.sink.emit(Progress(stage=stage, done=done, total=total))
