"""What the options of an import do, and in which order.

1. ``classes``: files of other classes are not even opened.
2. Every other file is opened; what is no image that can be read is refused.
3. ``duplicates``: of equal bytes in one class and one given split the first stays, where duplicates are dropped.
4. ``leaks``: training images with the bytes of an image that the source gives for validation or test are removed from
   training; where they are to be kept, those still there after step 6 are flagged. Splits that are drawn later cannot
   leak: equal bytes go the same way.
5. ``min_per_class``: classes that have fewer images by now, over all splits, leave.
6. ``max_per_class``: of each class and given split as many are drawn by the seed, before validation and test are.
7. ``val_pct``, ``test_pct``: drawn where the source gives none (``engine/importing/split.py``).

Equal bytes in different classes are kept, and told: which of them is right, only a person can know.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from engine.importing.split import rank
from engine.store.report import ReportWriter
from engine.store.writer import DatasetWriter
from wire.errors import SpecInvalid
from wire.manifests import ReportKind, SplitName
from wire.specs import ImportOptions

_SPLIT_NAMES: Final[dict[SplitName, str]] = {"train": "training", "val": "validation", "test": "test"}
_LEAK: Final = "the same bytes as {twin}, which is for {split}"
_NAMED: Final = 5


def check_classes(wanted: Sequence[str], there: Sequence[str]) -> None:
    """Every class to keep must be one that the layout names.

    Raises:
        SpecInvalid: one is not.
    """
    unknown = [name for name in wanted if name not in set(there)]
    if not unknown:
        return
    nearest = [(name, difflib.get_close_matches(name, there, n=1)) for name in unknown[:_NAMED]]
    guesses = "; ".join(f"for {name!r} perhaps {near[0]!r}" for name, near in nearest if near)
    some = ", ".join(repr(name) for name in there[:_NAMED])
    raise SpecInvalid(
        f"Of the classes to keep, {', '.join(map(repr, unknown[:_NAMED]))}"
        f"{f' and {len(unknown) - _NAMED:,} more' if len(unknown) > _NAMED else ''} "
        f"{'is' if len(unknown) == 1 else 'are'} not among the {len(there):,} classes that were found.",
        hint=f"Correct the list of classes: {guesses or f'there are {some}'}.",
    )


class Choosing:
    """Steps 3 to 6. ``class_of`` names the classes by their present labels."""

    def __init__(
        self, writer: DatasetWriter, report: ReportWriter, options: ImportOptions, class_of: Mapping[int, str]
    ) -> None:
        self._writer = writer
        self._report = report
        self._options = options
        self._class_of = class_of

    def run(self) -> int:
        """Returns how many leaks there were, dropped or kept."""
        writer, options = self._writer, self._options
        writer.begin_choosing()
        if options.duplicates == "drop":
            writer.mark_duplicates()
            self._tell("duplicate", "the same bytes as {twin}, of the same class")
            writer.drop_marked()
        n_leaks = 0 if options.leaks == "keep" else self._drop_leaks()
        if options.min_per_class > 1:
            writer.mark_classes_below(options.min_per_class)
            self._tell("class_too_small", f"its class has fewer than {options.min_per_class:,} images")
            writer.drop_marked()
        if options.max_per_class:
            writer.mark_beyond(options.max_per_class, partial(rank, options.seed))
            self._tell("over_maximum", f"{options.max_per_class:,} other images of its class were drawn")
            writer.drop_marked()
        return self._flag_leaks() if options.leaks == "keep" else n_leaks

    def _drop_leaks(self) -> int:
        self._writer.mark_leaks()
        n_leaks = self._tell("leak", _LEAK)
        self._writer.drop_marked()
        return n_leaks

    def _flag_leaks(self) -> int:
        self._writer.mark_leaks()
        n_leaks = self._tell("leak", _LEAK, kept=True)
        self._writer.unmark()
        return n_leaks

    def _tell(self, kind: ReportKind, reason: str, *, kept: bool = False) -> int:
        n_told = 0
        for marked in self._writer.marked():
            n_told += 1
            split = _SPLIT_NAMES[marked.same_as_split] if marked.same_as_split else ""
            told = reason.replace("{split}", split).replace("{twin}", marked.same_as_name or "")
            self._report.add(
                marked.name, kind, told, label=self._class_of[marked.label], same_as=marked.same_as, kept=kept
            )
        return n_told
