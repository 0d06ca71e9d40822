"""Two networks of a run side by side on one split, as pages and the API show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.http import QueryDict

from dashboard.errors import RequestInvalid
from dashboard.gallery import SPLIT_LABELS, Pager, StoredDataset, stored_dataset
from engine.store.comparison import KINDS, ComparisonReader, Counts, Kind, Pair
from jobs.comparison import Side, compared
from wire.errors import ActionRefused, FoveaError
from wire.manifests import SplitName

PAGE_SIZE: Final = 24
"""Images at once: each has two answers, and the panel for one image is below them."""
UNSEEN_FIRST: Final[tuple[SplitName, ...]] = ("val", "test", "train")
KIND_LABELS: Final[dict[Kind, str]] = {
    "differ": "Different answers",
    "only_a": "Only A is right",
    "only_b": "Only B is right",
    "both_wrong": "Both wrong",
    "both_right": "Both right",
}


SHARES: Final[tuple[Kind, ...]] = ("both_right", "only_a", "only_b", "both_wrong")
"""Every image is of one of these."""


@dataclass(frozen=True, slots=True)
class Part:
    kind: Kind
    label: str
    n_images: int
    start: int
    """How many images are in the parts before it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What ``templates/compare/split.html`` is given."""

    a: Side
    b: Side
    splits: tuple[SplitName, ...]
    split: SplitName
    counts: Counts
    kind: Kind
    page: Pager
    pairs: list[Pair]
    dataset: StoredDataset | None
    """None where its pictures are not there, or not for this person."""

    @property
    def sides(self) -> dict[str, str]:
        return {"a": self.a.key, "b": self.b.key}

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """What stands in an address of these images, without the page."""
        return [*self.sides.items(), ("split", self.split), ("kind", self.kind)]

    @property
    def query(self) -> str:
        return urlencode(self.hidden)

    @property
    def page_query(self) -> str:
        """With the page, as an address that a person keeps."""
        page = [("page", str(self.page.number))] if self.page.number > 1 else []
        return urlencode([*self.hidden, *page])

    @property
    def sides_query(self) -> str:
        return urlencode(self.sides)

    @property
    def split_label(self) -> str:
        return SPLIT_LABELS[self.split].lower()

    @property
    def split_choices(self) -> list[tuple[SplitName, str]]:
        return [(split, SPLIT_LABELS[split]) for split in SPLIT_LABELS if split in self.splits]

    @property
    def kind_label(self) -> str:
        return KIND_LABELS[self.kind]

    @property
    def kind_choices(self) -> list[tuple[Kind, str, int]]:
        return [(kind, label, self.counts.of_kind(kind)) for kind, label in KIND_LABELS.items()]

    @property
    def change_points(self) -> float | None:
        """How many points of accuracy B has more than A."""
        accuracy_a, accuracy_b = self.counts.accuracy_a, self.counts.accuracy_b
        return None if accuracy_a is None or accuracy_b is None else 100 * (accuracy_b - accuracy_a)

    @property
    def change(self) -> str:
        points = self.change_points
        return "" if points is None else f"{points:+.2f}".replace("-", "\N{MINUS SIGN}")

    @property
    def parts(self) -> list[Part]:
        """All images in four, in the order in which a bar shows them."""
        found: list[Part] = []
        for kind in SHARES:
            start = found[-1].start + found[-1].n_images if found else 0
            found.append(Part(kind, KIND_LABELS[kind], self.counts.of_kind(kind), start))
        return found


def read_compared(user: User, a: Side, b: Side, query: QueryDict) -> Compared:
    """What an address asks for. Cost: two queries of the database, and a pass over the answers of the split.

    Raises:
        RequestInvalid: no such split or kind.
        ActionRefused: the two cannot be compared, or saw no images in common.
        NotFound: the answers are gone.
    """
    kind = kind_of(query.get("kind", ""))
    with compared(a, b) as reader:
        split = split_of(reader, a, b, query.get("split", ""))
        counts = reader.counts(split)
        page = Pager.of_query(query.get("page", ""), counts.of_kind(kind), page_size=PAGE_SIZE)
        pairs = reader.page(split, kind, offset=page.offset, limit=page.page_size)
        splits = reader.splits
    return Compared(a, b, splits, split, counts, kind, page, pairs, _dataset_shown(user, a))


def split_of(reader: ComparisonReader, a: Side, b: Side, typed: str) -> SplitName:
    """The split that is asked for, else one that nothing was learnt from.

    Raises:
        RequestInvalid: there is no such split.
        ActionRefused: they have no images of it in common.
    """
    splits = reader.splits
    if typed and typed not in SPLIT_LABELS:
        raise RequestInvalid(f"There is no split {typed!r}.", hint=f"Choose of: {', '.join(SPLIT_LABELS)}.")
    found = next((split for split in UNSEEN_FIRST if split in splits and typed in ("", split)), None)
    if found is None:
        what = f"{SPLIT_LABELS[_split(typed)].lower()} images" if typed else "images"
        raise ActionRefused(
            f"{a.name} and {b.name} were not asked about the same {what}.",
            hint=f"They have in common: {', '.join(splits)}." if splits else "Evaluate or export again.",
        )
    return found


def kind_of(typed: str) -> Kind:
    """Raises ``RequestInvalid`` where there is no such kind of difference."""
    for kind in KINDS:
        if typed == kind:
            return kind
    if not typed:
        return "differ"
    raise RequestInvalid(f"There is no kind of difference {typed!r}.", hint=f"Choose of: {', '.join(KINDS)}.")


def asked_of(sides: Sequence[Side]) -> dict[str, Mapping[str, object]]:
    """What ``static/js/compare.js`` has to know to ask each about an image."""
    return {
        side.key: {"name": side.name, "query": _network_query(side), "why_not": side.why_not_tried} for side in sides
    }


def _network_query(side: Side) -> dict[str, int] | None:
    if side.network is None:
        return None
    return {"export": side.job_id} if side.kind == "export" else {"checkpoint": side.network.pk}


def _split(typed: str) -> SplitName:
    return next(split for split in SPLIT_LABELS if split == typed)


def _dataset_shown(user: User, side: Side) -> StoredDataset | None:
    """The answers may be seen by more people than the pictures they are about, and outlive them."""
    if side.dataset is None:
        return None
    try:
        return stored_dataset(user, side.dataset)
    except FoveaError:
        return None
