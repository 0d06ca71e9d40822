"""The import verb: source, layout, images, choice, splits, manifest; then the folder becomes an artifact.

All is written into the scratch folder and moved at the end, so an attempt that was killed leaves nothing that the next
one could take for a dataset.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from engine.context import Context
from engine.emit import Throttle
from engine.formats import DatasetFormat
from engine.importing.choosing import check_classes
from engine.importing.completing import Completing, meta, notices
from engine.importing.crew import ImportStopped
from engine.importing.reading import Reading
from engine.importing.source import format_of
from engine.importing.statistics import PixelStatistics
from engine.sources.opening import open_source
from engine.sources.tree import SourceStopped, Tree
from engine.store.disk import disk_full_named, fsync_path
from engine.store.report import ReportWriter
from engine.store.writer import DatasetWriter
from wire.errors import DiskFull
from wire.events import ArtifactMade, AttemptStarted, Outcome, Progress
from wire.layout import DatasetDir
from wire.manifests import DatasetManifest
from wire.specs import ImportSpec

log = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S: Final = 0.25
_LEAST_MISSING_BYTES: Final = 16 * 2**20


def run(spec: ImportSpec, context: Context) -> Outcome:
    """Import; an import that was stopped or killed begins again from the start.

    Raises:
        DatasetMissing: the source is not there; UploadMissing, ArchiveInvalid likewise (``engine.sources.opening``).
        DatasetInvalid: it holds no layout that is known, no readable image, or fewer than two classes.
        SpecInvalid: an option does not fit what was found.
        OutOfMemory: an image took more memory than there is.
        DiskFull: there is no room for the dataset.
    """
    context.sink.emit(AttemptStarted(n=context.n))
    _clean(context)
    try:
        _Import(spec, context).run()
    except (ImportStopped, SourceStopped):
        return context.stop.outcome
    finally:
        shutil.rmtree(context.job.scratch_dir, ignore_errors=True)
    return "succeeded"


def _clean(context: Context) -> None:
    """Remove what an earlier attempt left, also a dataset that it could not announce any more."""
    for folder in (context.job.scratch_dir, context.job.dataset_dir):
        shutil.rmtree(folder, ignore_errors=True)
    context.job.scratch_dir.mkdir(parents=True)


@dataclass(frozen=True, slots=True)
class _Found:
    """The source, and how it is laid out."""

    tree: Tree
    layout: DatasetFormat
    format_name: str
    class_names: Sequence[str]


class _Import:
    """One import under way: what was met so far."""

    def __init__(self, spec: ImportSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self._throttle = Throttle(_PROGRESS_INTERVAL_S)
        self._scratch_dir = context.job.scratch_dir
        self._folder = context.job.scratch_dir / "dataset"

    def run(self) -> None:
        self._tell("preparing", 0, 0)
        with open_source(
            self._spec.source,
            self._context.job,
            scratch_dir=self._scratch_dir / "source",
            on_progress=self._preparing,
            stop=self._context.stop,
        ) as tree:
            card, layout = format_of(self._spec, tree)
            log.info("Layout: %s", card.label)
            found = _Found(tree, layout, card.name, layout.class_names(tree))
            check_classes(self._spec.options.classes, found.class_names)
            manifest = self._write(found)
        self._publish(manifest)

    def _write(self, found: _Found) -> DatasetManifest:
        with (
            DatasetWriter(self._folder) as writer,
            closing(ReportWriter(self._folder)) as report,
            closing(PixelStatistics(self._scratch_dir / "moments")) as statistics,
        ):
            reading = Reading(writer, report, statistics, self._spec.options)
            try:
                with disk_full_named(self._folder):
                    manifest = self._fill(found, reading)
                    writer.finish_rows()
                    report.finish()
                    writer.finish(manifest)
            except DiskFull as error:
                raise self._disk_full(writer, reading) from error
        return manifest

    def _fill(self, found: _Found, reading: Reading) -> DatasetManifest:
        reading.run(
            found.tree,
            found.layout,
            scratch_dir=self._scratch_dir,
            stop=self._context.stop,
            on_progress=self._reading,
        )
        self._tell("reading", reading.n_files, reading.n_files)
        self._tell("storing", 0, 0)
        return Completing(self._spec, reading).run(
            found.class_names,
            licence=found.tree.licence,
            format_name=found.format_name,
            mean_path=DatasetDir(self._folder).mean_image_path,
        )

    def _publish(self, manifest: DatasetManifest) -> None:
        """Move the complete folder to its place and announce it; events first, so that none is behind the artifact."""
        if self._context.stop.asked:
            raise ImportStopped
        target = self._context.job.dataset_dir
        target.parent.mkdir(parents=True, exist_ok=True)
        self._folder.rename(target)
        fsync_path(target.parent)
        for notice in notices(manifest):
            self._context.sink.emit(notice)
        self._context.sink.sync()
        self._context.sink.emit(
            ArtifactMade(
                artifact="dataset",
                name="dataset",
                path=target.relative_to(self._context.job.path).as_posix(),
                sha256=manifest.samples_sha256,
                bytes=sum(file.stat().st_size for file in target.iterdir()),
                meta=meta(manifest),
            )
        )
        self._context.sink.sync()

    def _disk_full(self, writer: DatasetWriter, reading: Reading) -> DiskFull:
        """How much is missing, from what the files read so far have taken."""
        n_left = reading.n_files - reading.n_done
        to_come_bytes = writer.image_bytes * n_left // max(1, reading.n_done)
        free_bytes = shutil.disk_usage(self._scratch_dir).free
        missing_bytes = max(to_come_bytes - free_bytes, _LEAST_MISSING_BYTES)
        return DiskFull(
            f"The disk of {self._context.job.path} is full: {reading.n_done:,} of {reading.n_files:,} files were read, "
            f"about {_mib(missing_bytes)} are missing for the rest.",
            hint="Free as much there, then start the import again. What was uploaded is kept.",
        )

    def _preparing(self, done: int, total: int) -> None:
        if self._throttle.open():
            self._tell("preparing", done, total)

    def _reading(self, done: int, total: int) -> None:
        if self._throttle.open():
            self._tell("reading", done, total)

    def _tell(self, stage: str, done: int, total: int) -> None:
        self._context.sink.emit(Progress(stage=stage, done=done, total=total))


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:,.0f} MiB"
