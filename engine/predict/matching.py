"""Whether a checkpoint and a dataset speak of the same classes, and what is said where they do not. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wire.errors import DatasetInvalid, SpecInvalid
from wire.manifests import DatasetManifest, SplitName

SPLIT_LABELS: Final[dict[SplitName, str]] = {"train": "training", "val": "validation", "test": "test"}
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Note:
    """Stands in the report as a sentence, and on the page as a notice."""

    code: str
    text: str
    level: Literal["info", "warning"] = "info"


def check_match(task: str, classes: Sequence[str], manifest: DatasetManifest) -> None:
    """Of a checkpoint's task and classes.

    Raises:
        SpecInvalid: the dataset is for another task.
        DatasetInvalid: they have no class in common.
    """
    if manifest.task != task:
        raise SpecInvalid(
            f"The dataset {manifest.name!r} is for the task {manifest.task!r}, the checkpoint for {task!r}.",
            hint="Choose a dataset of the checkpoint's task.",
        )
    if not set(classes) & set(manifest.classes):
        raise no_class_in_common(classes, manifest, ())


def numbers_of(classes: Sequence[str], manifest: DatasetManifest) -> dict[int, int]:
    """Label of the dataset -> number of the class of the same name in the checkpoint, for those that it knows."""
    number_of = {name: number for number, name in enumerate(classes)}
    return {label: number_of[name] for label, name in enumerate(manifest.classes) if name in number_of}


def no_class_in_common(
    classes: Sequence[str], manifest: DatasetManifest, splits: Sequence[SplitName]
) -> DatasetInvalid:
    """Args: ``splits`` where only these lack the classes of the checkpoint."""
    where = f" in {' or '.join(SPLIT_LABELS[split] for split in splits)}" if splits else ""
    return DatasetInvalid(
        f"The dataset {manifest.name!r} has no image{where} of a class that the checkpoint knows: its classes are "
        f"{named(manifest.classes)}, those of the checkpoint {named(classes)}.",
        hint="Choose a dataset whose classes have the same names.",
    )


def classes_note(names: Sequence[str], n_images: int) -> Note:
    text = (
        f"{n_images:,} {'image is' if n_images == 1 else 'images are'} left out: the checkpoint does not know "
        f"{'the class' if len(names) == 1 else 'the classes'} {named(names)}."
    )
    return Note("evaluation.classes_left_out", text, "warning")


def named(names: Sequence[str]) -> str:
    """Some names for a sentence, and how many more there are."""
    first = ", ".join(repr(name) for name in names[:_NAMED])
    return first + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
