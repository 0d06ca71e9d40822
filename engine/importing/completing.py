"""What is known only when the last image was read: the choice, the splits, and the facts of the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, Final

from engine.formats import natural_key
from engine.importing import cautions
from engine.importing.choosing import Choosing
from engine.importing.mean_image import MAX_IMAGES, write_mean_image
from engine.importing.reading import Reading
from engine.importing.split import draw_missing
from wire.errors import DatasetInvalid
from wire.events import Notice
from wire.manifests import DatasetManifest, ReportKind, SplitName, Warned
from wire.specs import ImportSpec

_NAMED: Final = 5
_CLASSES_IN_META: Final = 1000
_CHOICES: Final[dict[ReportKind, str]] = {
    "class_not_chosen": "of classes that were not chosen",
    "duplicate": "exact duplicates",
    "leak": "also in validation or test",
    "class_too_small": "of classes that are too small",
    "over_maximum": "over the maximum of their class",
}


class Completing:
    """Ends the writing of a dataset whose images are all there."""

    def __init__(self, spec: ImportSpec, reading: Reading) -> None:
        self._spec = spec
        self._options = spec.options
        self._writer = reading.writer
        self._report = reading.report
        self._reading = reading

    def run(self, declared: Sequence[str], *, licence: str, format_name: str, mean_path: Path) -> DatasetManifest:
        """``declared`` are the classes that the layout names."""
        writer, options = self._writer, self._options
        class_of = {label: name for name, label in self._reading.label_of.items()}
        n_leaks = Choosing(writer, self._report, options, class_of).run()
        classes = self._named_classes(class_of)
        notes = [*self._clutter_notes(), *draw_missing(writer, range(len(classes)), options)]
        counts: dict[SplitName, list[int]] = {}
        for split, label, n_images in writer.tally():
            counts.setdefault(split, [0] * len(classes))[label] = n_images
        mean, std, colour = self._reading.statistics.summary(writer.ids("train"), writer.ids())
        width_px, height_px = writer.size_range("width"), writer.size_range("height")
        n_averaged = self._write_mean_image(mean_path, width_px.median, height_px.median)
        if n_averaged < sum(counts.get("train", ())):
            notes.append(f"The mean image is of {n_averaged:,} training images, evenly taken.")
        return DatasetManifest(
            name=self._spec.name,
            task=self._spec.task,
            classes=classes,
            counts={split: tuple(n) for split, n in counts.items()},
            width_px=width_px,
            height_px=height_px,
            colour=colour,
            mean=mean,
            std=std,
            image_bytes=writer.image_bytes,
            samples_sha256=writer.samples_sha256(),
            source={**self._spec.source.model_dump(), "format": format_name},
            licence=licence,
            n_found=self._reading.n_found,
            refused=tuple(self._reading.first_refused),
            created_at=datetime.now(UTC),
            fovea_version=_version(),
            left_out=dict(sorted(self._report.n_left_out.items())),
            n_flagged=self._report.n_flagged,
            warnings=tuple(self._warnings(declared, classes, counts, n_leaks)),
            options=options.model_dump(mode="json"),
            notes=tuple(notes),
        )

    def _named_classes(self, class_of: dict[int, str]) -> tuple[str, ...]:
        """Classes in natural order; labels were given in the order of first sight until now."""
        label_of = {class_of[label]: label for label in self._writer.labels()}
        classes = tuple(sorted(label_of, key=natural_key))
        if len(classes) < 2:
            raise self._too_few(classes)
        self._writer.relabel({label_of[name]: label for label, name in enumerate(classes)})
        return classes

    def _too_few(self, classes: Sequence[str]) -> DatasetInvalid:
        found = f"only one class, {classes[0]!r}" if classes else "no image that can be read"
        chosen = ", ".join(f"{n:,} {_CHOICES[kind]}" for kind, n in self._report.n_left_out.items() if kind in _CHOICES)
        hint = "Classification needs at least two classes, each a folder with its images."
        if chosen and len(self._reading.label_of) != len(classes):
            found = f"only one class left, {classes[0]!r}," if classes else "no image left"
            hint = "Change the options on classes and duplicates, so that at least two classes stay."
        chosen = f" The options left out: {chosen}." if chosen else ""
        refusals = first_refusals(self._reading.first_refused, self._reading.n_refused)
        return DatasetInvalid(
            f"Of {self._reading.n_found:,} files in {self._spec.name!r}, there is {found}.{chosen}{refusals}", hint=hint
        )

    def _write_mean_image(self, path: Path, width_px: int, height_px: int) -> int:
        """Returns of how many images it is: of training, or of all where there is none."""
        split: SplitName | None = "train"
        if not (n_images := sum(1 for _ in self._writer.ids(split))):
            split, n_images = None, self._writer.n_samples
        stride = -(-n_images // MAX_IMAGES)
        ids = islice(self._writer.ids(split), 0, None, stride)
        write_mean_image(path, map(self._writer.image, ids), width_px=width_px, height_px=height_px)
        return -(-n_images // stride)

    def _warnings(
        self, declared: Sequence[str], classes: Sequence[str], counts: dict[SplitName, list[int]], n_leaks: int
    ) -> Iterator[Warned]:
        chosen = frozenset(self._options.classes or declared)
        had_images = frozenset(self._reading.label_of)
        yield from cautions.missing([name for name in declared if name in chosen], classes, had_images)
        yield from cautions.alike(classes)
        yield from cautions.counted(classes, counts)
        yield from cautions.conflicts(self._writer.conflicts())
        yield from cautions.leaks(n_leaks, kept=self._options.leaks == "keep")

    def _clutter_notes(self) -> Iterator[str]:
        for name, n_files in sorted(self._reading.clutter.items())[:_NAMED]:
            yield f"{n_files:,} x {name} left out: written by an operating system, not by a person."


def notices(manifest: DatasetManifest) -> Iterator[Notice]:
    """What a person should read where the import is shown."""
    if n_refused := manifest.left_out.get("refused", 0):
        text = (
            f"{n_refused:,} of {manifest.n_found:,} files were left out.{first_refusals(manifest.refused, n_refused)}"
        )
        yield Notice(level="warning", code="import.refused", text=text)
    chosen = [f"{manifest.left_out[kind]:,} {what}" for kind, what in _CHOICES.items() if manifest.left_out.get(kind)]
    if chosen:
        text = f"Left out by the options of this import: {', '.join(chosen)}."
        yield Notice(level="info", code="import.left_out", text=text)
    for warned in manifest.warnings:
        yield Notice(level="warning", code=f"import.{warned.code}", text=warned.text)


def first_refusals(refused: Sequence[Any], n_refused: int) -> str:
    first = "; ".join(f"{one.name}: {one.reason}" for one in refused[:_NAMED])
    more = n_refused - _NAMED
    return (f" {first}" + (f"; and {more:,} more." if more > 0 else ".")) if first else ""


def meta(manifest: DatasetManifest) -> dict[str, Any]:
    """What pages show without opening the folder."""
    return {
        "n_images": manifest.n_images(),
        "n_classes": len(manifest.classes),
        "classes": list(manifest.classes[:_CLASSES_IN_META]),
        "counts": {split: sum(counts) for split, counts in manifest.counts.items()},
        "class_counts": {split: list(counts[:_CLASSES_IN_META]) for split, counts in manifest.counts.items()},
        "width_px": manifest.width_px.model_dump(),
        "height_px": manifest.height_px.model_dump(),
        "colour": manifest.colour,
        "mean": list(manifest.mean),
        "std": list(manifest.std),
        "image_bytes": manifest.image_bytes,
        "n_found": manifest.n_found,
        "n_refused": manifest.left_out.get("refused", 0),
        "left_out": dict(manifest.left_out),
        "n_flagged": manifest.n_flagged,
        "warnings": [warned.model_dump() for warned in manifest.warnings],
        "options": manifest.options,
        "source": manifest.source,
        "licence": manifest.licence,
        "notes": list(manifest.notes),
    }


def _version() -> str:
    try:
        return metadata.version("fovea")
    except metadata.PackageNotFoundError:
        return ""
