"""An export that was just made, tried: opened by its runtime, compared with PyTorch, timed, and given golden images."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import torch

from engine.catalog import backend_cards
from engine.export.agreement import Tally, doubt, judged
from engine.export.backends import Backend, Made, Runtime
from engine.export.golden import N_IMAGES, make_golden, tolerance
from engine.export.latency import measure
from engine.export.sample import Drawn, draw
from engine.export.steps import Steps
from engine.export.verify import Trial, compare
from engine.predict.session import Session
from engine.store.predictions import PredictionsWriter
from engine.store.reader import DatasetReader
from wire.exports import (
    MEASURED_BATCHES,
    TRIED_ELSEWHERE,
    Agreement,
    Failed,
    GoldenImage,
    NotRun,
    Passed,
    Speed,
    Verdict,
)
from wire.layout import ExportDir
from wire.specs import ExportSpec

log = logging.getLogger(__name__)

NO_IMAGES: Final = "the dataset has neither validation nor test images"
_SAME_GRAPH_IN: Final = "onnx"
"""The backend in which a graph is tried whose own runtime cannot run here."""


@dataclass(slots=True)
class Tried:
    """What came of it."""

    verdict: Verdict
    agreement: Agreement | None = None
    speed: Speed | None = None
    golden: tuple[GoldenImage, ...] = ()
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bench:
    """What exports of a checkpoint are tried on."""

    spec: ExportSpec
    reader: DatasetReader
    session: Session
    """PyTorch's, on the job's device."""
    numbers: dict[int, int]
    trial: Trial | None
    """None where the dataset has no images to verify on."""
    steps: Steps

    def try_out(self, backend: Backend, made: Made, folder: ExportDir) -> Tried:
        """Verify, measure, and write golden images and answers into ``folder``.

        Raises:
            BuildStopped: the stop was asked for.
            OperatorRefused: the runtime does not know an operator of the graph.
        """
        self.steps.begin("verify")
        device = self.session.device
        if reason := backend.why_not_run(folder, device):
            return self._not_run(reason, folder)
        with closing(backend.open(folder, device)) as runtime:
            tried = self._verified(runtime, folder)
            limit = tolerance(self.spec.precision, is_measured=True, seen=None)
            tried.golden = self._golden(folder, runtime, limit)
        self.steps.begin("measure")
        most = made.profile.most_batch if made.profile else max(MEASURED_BATCHES)
        measured = measure(
            lambda: backend.open(folder, device),
            image_px=self.session.image_px,
            batches=[batch for batch in MEASURED_BATCHES if batch <= most],
            on_progress=self.steps.progress("measure"),
            stop=self.steps.stop,
        )
        tried.speed = measured.speed
        tried.notes += measured.notes
        if most < max(MEASURED_BATCHES):
            tried.notes.append(f"Built for at most {most} images at once: larger batches were not measured.")
        return tried

    def _verified(self, runtime: Runtime, folder: ExportDir) -> Tried:
        if self.trial is None:
            return Tried(NotRun(reason=NO_IMAGES))
        with PredictionsWriter(folder.predictions_path, self.session.classes) as writer:
            tally = self._compared(self.trial, runtime, writer)
            writer.finish()
        options, precision = self.spec.verification, self.spec.precision
        agreement = tally.agreement(self.trial.drawn)
        verdict = judged(agreement, tally.n_not_finite, options, precision)
        notes = [doubt(agreement, options)] if isinstance(verdict, Passed) else []
        log.info("%s: %s", runtime.device, told(agreement))
        return Tried(verdict, agreement, notes=[note for note in notes if note])

    def _not_run(self, reason: str, folder: ExportDir) -> Tried:
        log.info("Not run: %s.", reason)
        tried, seen = Tried(NotRun(reason=reason)), None
        tally = self._same_graph_elsewhere(folder)
        if tally is not None and self.trial is not None:
            agreement = tally.agreement(self.trial.drawn)
            verdict = judged(agreement, tally.n_not_finite, self.spec.verification, self.spec.precision)
            seen = agreement.max_difference
            tried.notes.append(f"{TRIED_ELSEWHERE}: {told(agreement)}.")
            if isinstance(verdict, Failed):
                # No engine answers better than the graph that it is made of.
                text = f"It could not be run here ({reason}), and its graph does not hold in ONNX Runtime."
                tried.verdict = Failed(reasons=(text, *verdict.reasons))
        limit = tolerance(self.spec.precision, is_measured=False, seen=seen)
        tried.golden = self._golden(folder, None, limit)
        return tried

    def _same_graph_elsewhere(self, folder: ExportDir) -> Tally | None:
        card = backend_cards().get(_SAME_GRAPH_IN)
        if self.trial is None or card is None or card.missing or not folder.model_path.is_file():
            return None
        with closing(card.load()().open(folder, torch.device("cpu"))) as runtime:
            return self._compared(self.trial, runtime, None)

    def _compared(self, trial: Trial, runtime: Runtime, writer: PredictionsWriter | None) -> Tally:
        on_progress, stop = self.steps.progress("verify"), self.steps.stop
        return compare(runtime, trial, writer=writer, on_progress=on_progress, stop=stop)

    def _golden(self, folder: ExportDir, runtime: Runtime | None, limit: float) -> tuple[GoldenImage, ...]:
        self.steps.check()
        return make_golden(folder, self.reader, self._golden_images(), self.session, runtime, tolerance=limit)

    def _golden_images(self) -> Drawn:
        if self.trial is not None:
            return self.trial.drawn
        seed = self.spec.verification.seed
        return draw(self.reader, "train", self.numbers, n_images=N_IMAGES, seed=seed)


def told(agreement: Agreement) -> str:
    """A clause with the main figures."""
    return (
        f"accuracy {100 * agreement.accuracy:.2f} % on {agreement.n_images:,} images, PyTorch "
        f"{100 * agreement.reference_accuracy:.2f} %; the same first answer for {100 * agreement.agreement:.2f} %; "
        f"probabilities differ by at most {agreement.max_difference:.2g}"
    )
