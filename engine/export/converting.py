"""A network to the graph of the precision that was asked for; INT8 calibrated, judged and where needed repaired."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from engine.data.cache import Decoded
from engine.export.agreement import Tally, judged
from engine.export.graph import model_bytes, whole_model
from engine.export.network import network_model
from engine.export.quantise import LEAST_IMAGES, Ranges, find_ranges, layers_of, named, open_quietly, quantised
from engine.export.sample import Drawn, draw, spread
from engine.export.sensitivity import Judged, repaired
from engine.export.steps import Steps
from engine.export.verify import Trial
from engine.predict.session import Session
from engine.store.reader import DatasetReader, Sample
from wire.errors import CalibrationTooSmall
from wire.exports import KeptLayer, Passed, Quantisation
from wire.manifests import SplitName
from wire.specs import CheckpointRef, ExportSpec

log = logging.getLogger(__name__)

_N_PROBES: Final = 64
_UNSIGNED: Final = ("onnx",)
"""Backends that are fast with unsigned activations; the others refuse them."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Nothing of it where a backend wants no graph."""

    graph: bytes | None = None
    quantisation: Quantisation | None = None
    notes: tuple[str, ...] = ()

    @property
    def why_failed(self) -> str:
        """Empty, or why this is not what was asked for, as a sentence."""
        done = self.quantisation
        if done is None or len(done.kept) < done.n_layers or all(layer.why == "asked" for layer in done.kept):
            return ""
        return f"All {done.n_layers} layers had to go back to float: nothing of it is INT8."


@dataclass(frozen=True, slots=True)
class Converter:
    """Of one export."""

    spec: ExportSpec
    checkpoint: CheckpointRef
    reader: DatasetReader
    session: Session
    """On the CPU, in fp32."""
    numbers: dict[int, int]
    decoded: Callable[[SplitName], Decoded]
    steps: Steps

    def convert(self, trial: Trial | None) -> Converted:
        """The whole model as the backend takes it.

        Args:
            trial: what an INT8 network is judged on; without it nothing is put back to float.

        Raises:
            OperatorRefused: the network does something that has no translation.
            CalibrationTooSmall: there are too few training images to find ranges.
            EngineNotBuilt: an activation is not finite, so it has no range.
            SpecInvalid: a layer to keep in float does not exist.
            BuildStopped, DecodingStopped: the stop was asked for.
        """
        if self.spec.precision != "int8":
            self.steps.begin("convert")
            return Converted(self._whole(network_model(self.session, self.spec.precision)))
        return self._int8(trial)

    def _int8(self, trial: Trial | None) -> Converted:
        drawn = self._drawn()
        self.steps.begin("convert")
        network = network_model(self.session, "fp32")
        layers = layers_of(network)
        named(layers, self.spec.calibration.keep_float)  # a wrong name is told before long work
        calibration = Trial(self.reader, drawn, self.decoded("train"), self.session)
        ranges = self._ranges(network, calibration)
        network, kept = self._quantised(network, ranges, calibration, trial)
        quantisation = Quantisation(
            n_images=ranges.n_images,
            seed=self.spec.calibration.seed,
            n_layers=len(layers),
            kept=kept,
        )
        return Converted(self._whole(network), quantisation, self._notes(quantisation))

    def _whole(self, network: ModelProto) -> bytes:
        self.steps.check()
        about = {
            "checkpoint": self.checkpoint.name,
            "checkpoint_sha256": self.checkpoint.sha256,
            "precision": self.spec.precision,
        }
        return model_bytes(whole_model(network, self.session, about))

    def _drawn(self) -> Drawn:
        options = self.spec.calibration
        drawn = draw(self.reader, "train", self.numbers, n_images=options.n_images, seed=options.seed)
        if len(drawn.samples) < LEAST_IMAGES:
            raise CalibrationTooSmall(
                f"INT8 needs at least {LEAST_IMAGES} calibration images to find its ranges; there are "
                f"{len(drawn.samples)} of {options.n_images} that were asked for.",
                hint="Ask for more calibration images, or choose a dataset with more images for training.",
            )
        return drawn

    def _ranges(self, network: ModelProto, calibration: Trial) -> Ranges:
        self.steps.begin("calibrate")
        samples = calibration.drawn.samples
        log.info("Calibrating on %s training images", f"{len(samples):,}")
        batches = self._told(self._batches(calibration, samples), len(samples))
        return find_ranges(network, batches, signed=self.spec.backend.name not in _UNSIGNED)

    def _quantised(
        self, network: ModelProto, ranges: Ranges, calibration: Trial, trial: Trial | None
    ) -> tuple[ModelProto, tuple[KeptLayer, ...]]:
        keep = self.spec.calibration.keep_float
        if trial is None or not self.spec.calibration.repair:
            kept = named(layers_of(network), keep)
            return quantised(network, ranges, keep), tuple(KeptLayer(name=name, why="asked") for name in kept)
        self.steps.begin("repair")
        probes = [sample for sample, _ in spread(calibration.drawn, _N_PROBES, seed=self.spec.calibration.seed)]
        return repaired(
            *(network, ranges, keep, self._judge(trial), self._batches(calibration, probes)),
            on_progress=self.steps.progress("repair"),
            stop=self.steps.stop,
        )

    def _judge(self, trial: Trial) -> Callable[[ModelProto], Judged]:
        """By the limits of the verification, on its images: PyTorch is asked once, the network each time."""
        return partial(self._judged, trial, trial.drawn, trial.reference(trial.drawn.samples))

    def _judged(self, trial: Trial, drawn: Drawn, reference_NK: NDArray[np.float32], network: ModelProto) -> Judged:
        runtime = open_quietly(network)
        tally, start = Tally(), 0
        for pixels_BCHW in self._batches(trial, drawn.samples):
            (logits_BK,) = runtime.run(["logits"], {"pixels": pixels_BCHW})
            end = start + len(logits_BK)
            tally.add(softmax(logits_BK), reference_NK[start:end], np.array(drawn.labels[start:end]))
            start = end
        agreement = tally.agreement(drawn)
        verdict = judged(agreement, tally.n_not_finite, self.spec.verification, self.spec.precision)
        says = f"accuracy {agreement.change_points:+.2f} points, agreement {100 * agreement.agreement:.1f} %"
        return Judged(isinstance(verdict, Passed), says)

    def _batches(self, images: Trial, samples: Sequence[Sample]) -> Iterator[NDArray[np.float32]]:
        """Normalised pixels: (B, C, px, px)."""
        for pixels_BHWC in images.pixels(samples):
            self.steps.check()
            yield np.ascontiguousarray(self.session.normalised(pixels_BHWC).numpy())

    def _told(self, batches: Iterator[NDArray[np.float32]], total: int) -> Iterator[NDArray[np.float32]]:
        done = 0
        for batch in batches:
            yield batch
            done += len(batch)
            self.steps.tell("calibrate", done, total)

    def _notes(self, quantisation: Quantisation) -> tuple[str, ...]:
        if (n := quantisation.n_images) < self.spec.calibration.n_images:
            return (f"Calibrated on {n:,} images: the dataset has no more for training.",)
        return ()


def softmax(logits_BK: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(invalid="ignore", over="ignore"):
        powers_BK = np.exp(logits_BK - logits_BK.max(axis=1, keepdims=True))
        shares_BK: NDArray[np.float32] = powers_BK / powers_BK.sum(axis=1, keepdims=True)
    return shares_BK
