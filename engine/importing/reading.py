"""From a tree to rows, bytes and a report: every file is opened once, in the tree's order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Final

from engine.formats import DatasetFormat, FoundImage, Stray
from engine.importing.checks import Looks
from engine.importing.crew import ImportStopped, Looked, StopWish, look_through, n_workers_for
from engine.importing.statistics import PixelStatistics
from engine.sources.tree import Tree
from engine.store.report import ReportWriter
from engine.store.writer import DatasetWriter, NewSample
from wire.manifests import Refused
from wire.specs import ImportOptions

log = logging.getLogger(__name__)

_KEPT_REFUSALS: Final = 100
_MAX_LOGGED: Final = 200


class Reading:
    """Takes in what a layout finds."""

    def __init__(
        self, writer: DatasetWriter, report: ReportWriter, statistics: PixelStatistics, options: ImportOptions
    ) -> None:
        self.writer = writer
        self.report = report
        self.statistics = statistics
        self._classes = frozenset(options.classes)
        self.label_of: dict[str, int] = {}
        """In the order of first sight."""
        self.n_files = 0
        """About how many there are to come; ``n_found`` counts those that came."""
        self.n_found = 0
        self.n_done = 0
        self.n_refused = 0
        self.first_refused: list[Refused] = []
        self.clutter: Counter[str] = Counter()

    def run(
        self,
        tree: Tree,
        layout: DatasetFormat,
        *,
        scratch_dir: Path,
        stop: StopWish,
        on_progress: Callable[[int, int], None],
    ) -> None:
        """Raises ``ImportStopped`` when that was asked for. ``on_progress`` is told how many files of how many."""
        self.n_files = len(tree.names()) + len(tree.strays())
        images = self._images(tree, layout)
        n_workers = n_workers_for(self.n_files)
        with closing(
            look_through(images, tree.read, n_workers=n_workers, scratch_dir=scratch_dir, stop=stop)
        ) as batches:
            for batch in batches:
                self._take(batch)
                on_progress(self.n_done, max(self.n_done, self.n_files))
                if stop.asked:
                    raise ImportStopped
        self.n_files = self.n_found

    def _images(self, tree: Tree, layout: DatasetFormat) -> Iterator[FoundImage]:
        """What is worth opening; the rest goes into the report."""
        for found in chain(layout.read(tree), tree.strays()):
            self.n_found += 1
            if isinstance(found, Stray):
                self._leave_out(found)
            elif self._classes and found.label not in self._classes:
                self.n_done += 1
                self.report.add(found.name, "class_not_chosen", "its class was not chosen", label=found.label)
            else:
                yield found

    def _take(self, batch: list[Looked]) -> None:
        """Images into the dataset, the rest into the report."""
        samples, looks = [], []
        for one in batch:
            if isinstance(one.answer, Looks):
                found, look = one.found, one.answer
                label = self.label_of.setdefault(found.label, len(self.label_of))
                samples.append(
                    NewSample(found.name, found.split, label, look.width, look.height, one.data, look.sha256)
                )
                looks.append(look)
            else:
                self._refuse(one.found.name, one.answer, label=one.found.label)
        self.n_done += len(samples)
        if samples:
            self.writer.add_many(samples)
            self.statistics.add(looks)

    def _leave_out(self, stray: Stray) -> None:
        if stray.clutter:
            self.n_done += 1
            self.clutter[stray.name.rpartition("/")[2]] += 1
            self.report.add(stray.name, "ignored", stray.reason)
        else:
            self._refuse(stray.name, stray.reason)

    def _refuse(self, name: str, reason: str, *, label: str | None = None) -> None:
        self.n_done += 1
        self.n_refused += 1
        self.report.add(name, "refused", reason, label=label)
        if self.n_refused <= _KEPT_REFUSALS:
            self.first_refused.append(Refused(name=name, reason=reason))
        if self.n_refused <= _MAX_LOGGED:
            log.warning("%s was left out: %s", name, reason)
        elif self.n_refused == _MAX_LOGGED + 1:
            log.warning("More was left out; the report names all of it.")
