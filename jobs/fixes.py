"""The usual fixes of a training that failed, each as what it changes. Pure: a spec in, another one's options out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from engine.catalog import model_cards
from wire.specs import TrainSpec

IMAGE_SHARE = 0.75
IMAGE_MULTIPLE_PX = 8
SMALLEST_BATCH = 2
"""Networks that normalise over the batch cannot learn from one image."""


@dataclass(frozen=True, slots=True)
class Case:
    """The training as it was, as far as a fix needs to know."""

    spec: TrainSpec
    on_gpu: bool
    """Of the last attempt."""
    wants: tuple[str, ...]
    n_halvings: int = 0
    """How often the trainer has halved its micro-batch by itself, in vain."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a new training has otherwise than the one that failed."""

    label: str
    """Of the button."""
    words: str = ""
    """From what to what."""
    options: dict[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    from_scratch: bool = False
    import_again: bool = False
    """Of the images, first; the training waits for them."""


def change_of(name: str, case: Case) -> Change | None:
    """What the fix of this name changes; None where it does not fit, or there is no such fix."""
    fix = _FIXES.get(name)
    return None if fix is None else fix(case)


def _again(_case: Case) -> Change:
    return Change("Run again", "unchanged")


def _begin_anew(_case: Case) -> Change:
    return Change("Begin again from step 0", "unchanged")


def _smaller_batch(case: Case) -> Change | None:
    before = case.spec.options.batch_size
    after = max(SMALLEST_BATCH, before >> (1 + case.n_halvings))
    if after >= before:
        return None
    label = "Halve the batch size" if after == before // 2 else "Smaller batches"
    return Change(label, f"batch size {before} → {after}", {"batch_size": after})


def _smaller_image(case: Case) -> Change | None:
    before = case.spec.options.image_px
    card = model_cards().get(case.spec.model.name)
    least = card.min_px if card else IMAGE_MULTIPLE_PX
    after = max(least, int(before * IMAGE_SHARE) // IMAGE_MULTIPLE_PX * IMAGE_MULTIPLE_PX)
    if after >= before:
        return None
    return Change("Smaller images", f"image size {before} → {after} px", {"image_px": after})


def _bf16(case: Case) -> Change | None:
    if not case.on_gpu or case.spec.options.precision != "fp32":
        return None
    return Change("Use bf16", "precision fp32 → bf16", {"precision": "bf16"})


def _fp32(case: Case) -> Change | None:
    before = case.spec.options.precision
    if before == "fp32" or (before == "auto" and not case.on_gpu):
        return None
    return Change("Use fp32", f"precision {before} → fp32", {"precision": "fp32"})


def _lower_rate(case: Case) -> Change:
    before = case.spec.options.learning_rate
    after = float(f"{before / 10:.3g}")
    return Change("A tenth of the learning rate", f"learning rate {before:g} → {after:g}", {"learning_rate": after})


def _any_device(case: Case) -> Change | None:
    if case.wants in {(), ("any",)}:
        return None
    return Change("Use any free device", "device: any", devices=("any",))


def _on_cpu(case: Case) -> Change | None:
    if case.wants == ("cpu",) or not (case.on_gpu or case.wants):
        return None
    return Change("Use the processor", "device: CPU, which is much slower", devices=("cpu",))


def _import_again(_case: Case) -> Change:
    return Change("Import the images again", "from where they came, then train on them", import_again=True)


def _from_scratch(case: Case) -> Change | None:
    if case.spec.init.kind == "scratch":
        return None
    return Change("Start from random weights", f"start: {case.spec.init.kind} → random weights", from_scratch=True)


_FIXES: Final[dict[str, Callable[[Case], Change | None]]] = {
    "again": _again,
    "begin_anew": _begin_anew,
    "smaller_batch": _smaller_batch,
    "smaller_image": _smaller_image,
    "bf16": _bf16,
    "fp32": _fp32,
    "lower_rate": _lower_rate,
    "any_device": _any_device,
    "on_cpu": _on_cpu,
    "from_scratch": _from_scratch,
    "import_again": _import_again,
}
FIX_NAMES: Final = tuple(_FIXES)
