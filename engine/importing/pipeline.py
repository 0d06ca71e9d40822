"""The import verb: source, layout, images one by one, splits, manifest; then the folder becomes an artifact.

All is written into the scratch folder and moved at the end, so an attempt that was killed leaves nothing that the next
one could take for a dataset.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, Final

from engine.context import Context
from engine.data.ahead import N_DECODE_THREADS, map_ahead
from engine.emit import Throttle
from engine.formats import DatasetFormat, Found, Stray, natural_key
from engine.importing.checks import CheckedImage, check
from engine.importing.source import Tree, format_of, tree_of
from engine.importing.split import draw_missing
from engine.importing.statistics import PixelStatistics
from engine.store.writer import DatasetWriter, NewSample, fsync_path
from wire.errors import DatasetInvalid
from wire.events import ArtifactMade, AttemptStarted, Notice, Outcome, Progress
from wire.manifests import DatasetManifest, Refused, SplitName
from wire.specs import ImportSpec

log = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S: Final = 0.25
_NAMED_IN_NOTICE: Final = 5
_CLASSES_IN_META: Final = 1000


class _Stopped(Exception):
    """The stop was asked for."""


def run(spec: ImportSpec, context: Context) -> Outcome:
    """Import; an import that was stopped or killed begins again from the start.

    Raises:
        DatasetMissing: the source is not there.
        DatasetInvalid: it holds no layout that is known, no readable image, or fewer than two classes.
        DiskFull: there is no room for the dataset.
    """
    context.sink.emit(AttemptStarted(n=context.n))
    _clean(context)
    try:
        _Import(spec, context).run()
    except _Stopped:
        return context.stop.outcome
    finally:
        shutil.rmtree(context.job.scratch_dir, ignore_errors=True)
    return "succeeded"


def _clean(context: Context) -> None:
    """Remove what an earlier attempt left, also a dataset that it could not announce any more."""
    for folder in (context.job.scratch_dir, context.job.dataset_dir):
        shutil.rmtree(folder, ignore_errors=True)
    context.job.scratch_dir.mkdir(parents=True)


class _Import:
    """One import under way: what was met so far."""

    def __init__(self, spec: ImportSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self._throttle = Throttle(_PROGRESS_INTERVAL_S)
        self._statistics = PixelStatistics()
        self._label_of: dict[str, int] = {}
        self._refused: list[Refused] = []
        self._clutter: Counter[str] = Counter()

    def run(self) -> None:
        self._tell("preparing", 0, 0)
        tree = tree_of(self._spec, self._context.job)
        card, layout = format_of(self._spec, tree.root)
        log.info("Layout: %s", card.label)
        folder = self._context.job.scratch_dir / "dataset"
        with DatasetWriter(folder) as writer:
            self._read(tree.root, layout, writer)
            self._tell("storing", 0, 0)
            manifest = self._complete(tree, card.name, writer)
            writer.finish(manifest)
        self._publish(folder, manifest)

    def _read(self, root: Path, layout: DatasetFormat, writer: DatasetWriter) -> None:
        """Check every file and store those that are images, as they come."""
        n_files = sum(1 for _ in self._unless_stopped(layout.read(root)))
        found = self._without_clutter(self._unless_stopped(layout.read(root)))
        checked = map_ahead(partial(check, root), found, n_threads=N_DECODE_THREADS, n_ahead=2 * N_DECODE_THREADS)
        with closing(checked):
            for done, result in enumerate(checked, start=1):
                if isinstance(result, CheckedImage):
                    self._store(result, writer)
                else:
                    self._refused.append(result)
                    log.warning("%s was left out: %s", result.name, result.reason)
                if self._throttle.open():
                    self._tell("reading", done, n_files)
        self._tell("reading", n_files, n_files)

    def _store(self, image: CheckedImage, writer: DatasetWriter) -> None:
        found = image.found
        label = self._label_of.setdefault(found.label, len(self._label_of))
        writer.add(NewSample(found.name, found.split, label, image.width, image.height, image.data))
        self._statistics.add(image)

    def _complete(self, tree: Tree, format_name: str, writer: DatasetWriter) -> DatasetManifest:
        """All that is known only when the last image was read."""
        classes = self._named_classes(writer)
        notes = [*self._clutter_notes(), *draw_missing(writer, range(len(classes)), self._spec.options)]
        counts: dict[SplitName, list[int]] = {}
        for split, label, n_images in writer.tally():
            counts.setdefault(split, [0] * len(classes))[label] = n_images
        untrained = [name for name, n in zip(classes, counts.get("train", [0] * len(classes)), strict=True) if not n]
        if untrained:
            notes.append(f"Classes without a training image: {', '.join(untrained[:_NAMED_IN_NOTICE])}.")
        mean, std = self._statistics.mean_std(writer.ids("train"))
        return DatasetManifest(
            name=self._spec.name,
            task=self._spec.task,
            classes=classes,
            counts={split: tuple(n) for split, n in counts.items()},
            width_px=writer.size_range("width"),
            height_px=writer.size_range("height"),
            colour=self._statistics.colour,
            mean=mean,
            std=std,
            image_bytes=writer.image_bytes,
            samples_sha256=writer.samples_sha256(),
            source={**self._spec.source.model_dump(), "format": format_name},
            licence=tree.licence,
            n_found=writer.n_samples + len(self._refused),
            refused=tuple(self._refused),
            created_at=datetime.now(UTC),
            fovea_version=_version(),
            notes=tuple(notes),
        )

    def _named_classes(self, writer: DatasetWriter) -> tuple[str, ...]:
        """Classes in natural order; labels were given in the order of first sight until now."""
        classes = tuple(sorted(self._label_of, key=natural_key))
        if len(classes) < 2:
            found = f"only one class, {classes[0]!r}" if classes else "no image that can be read"
            raise DatasetInvalid(
                f"Of {writer.n_samples + len(self._refused):,} files in {self._spec.name!r}, there is {found}."
                f"{self._first_refusals()}",
                hint="Classification needs at least two classes, each a folder with its images.",
            )
        writer.relabel({self._label_of[name]: label for label, name in enumerate(classes)})
        return classes

    def _publish(self, folder: Path, manifest: DatasetManifest) -> None:
        """Move the complete folder to its place and announce it; events first, so that none is behind the artifact."""
        target = self._context.job.dataset_dir
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
        fsync_path(target.parent)
        if self._refused:
            text = f"{len(self._refused):,} of {manifest.n_found:,} files were left out.{self._first_refusals()}"
            self._context.sink.emit(Notice(level="warning", code="import.refused", text=text))
        self._context.sink.sync()
        self._context.sink.emit(
            ArtifactMade(
                artifact="dataset",
                name="dataset",
                path=target.relative_to(self._context.job.path).as_posix(),
                sha256=manifest.samples_sha256,
                bytes=sum(file.stat().st_size for file in target.iterdir()),
                meta=_meta(manifest),
            )
        )
        self._context.sink.sync()

    def _first_refusals(self) -> str:
        first = "; ".join(f"{refused.name}: {refused.reason}" for refused in self._refused[:_NAMED_IN_NOTICE])
        more = len(self._refused) - _NAMED_IN_NOTICE
        return (f" {first}" + (f"; and {more:,} more." if more > 0 else ".")) if first else ""

    def _clutter_notes(self) -> Iterator[str]:
        for name, n_files in sorted(self._clutter.items()):
            yield f"{n_files:,} x {name} left out: written by an operating system, not by a person."

    def _without_clutter(self, found: Iterator[Found]) -> Iterator[Found]:
        for one in found:
            if isinstance(one, Stray) and one.clutter:
                self._clutter[Path(one.name).name] += 1
            else:
                yield one

    def _unless_stopped(self, found: Iterator[Found]) -> Iterator[Found]:
        for one in chain(found, (None,)):
            if self._context.stop.asked:
                raise _Stopped
            if one is not None:
                yield one

    def _tell(self, stage: str, done: int, total: int) -> None:
        self._context.sink.emit(Progress(stage=stage, done=done, total=total))


def _meta(manifest: DatasetManifest) -> dict[str, Any]:
    """What pages show without opening the folder."""
    return {
        "n_images": manifest.n_images(),
        "n_classes": len(manifest.classes),
        "classes": list(manifest.classes[:_CLASSES_IN_META]),
        "counts": {split: sum(counts) for split, counts in manifest.counts.items()},
        "width_px": manifest.width_px.model_dump(),
        "height_px": manifest.height_px.model_dump(),
        "colour": manifest.colour,
        "mean": list(manifest.mean),
        "std": list(manifest.std),
        "image_bytes": manifest.image_bytes,
        "n_found": manifest.n_found,
        "n_refused": len(manifest.refused),
        "licence": manifest.licence,
        "notes": list(manifest.notes),
    }


def _version() -> str:
    try:
        return metadata.version("fovea")
    except metadata.PackageNotFoundError:
        return ""
