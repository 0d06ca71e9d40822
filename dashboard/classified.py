"""Answers of a classification as its page shows them: a filtered table, page by page, and the surest of each class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self, get_args
from urllib.parse import urlencode

from django.http import QueryDict

from dashboard.errors import RequestInvalid
from dashboard.gallery import MOST_CLASSES_TO_CHOOSE, Pager, text_of
from engine.store.predictions import Filters, Prediction, PredictionsReader, Sort

CLASSES_A_PAGE: Final = 10
TOP_CHOICES: Final = (6, 12, 24, 60)
SHOWN_TOP: Final = 5
"""Answers in a row of the table; the rest is in the CSV file."""
NOTHING: Final = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Shown:
    """Which images, and in which order."""

    label: int | None = None
    predicted: int | None = None
    wrong: bool = False
    unreadable: bool = False
    q: str = ""
    sort: Sort = "id"

    @classmethod
    def of_query(cls, query: QueryDict, n_classes: int) -> Self:
        """What an address asks for.

        Raises:
            RequestInvalid: no such class or order.
        """
        return cls(
            label=_label(query.get("label", ""), n_classes),
            predicted=_label(query.get("predicted", ""), n_classes),
            wrong=query.get("wrong", "") == "true",
            unreadable=query.get("unreadable", "") == "true",
            q=text_of(query.get("q", "")),
            sort=_sort(query.get("sort", "")),
        )

    @property
    def filters(self) -> Filters:
        return Filters(
            label=self.label,
            predicted=self.predicted,
            wrong=True if self.wrong else None,
            unreadable=True if self.unreadable else None,
            q=self.q,
        )

    @property
    def active(self) -> bool:
        return replace(self, sort="id") != Shown()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What stands in an address that asks for this: of the page and of the API alike."""
        values: dict[str, object] = {
            "label": self.label,
            "predicted": self.predicted,
            "wrong": "true" if self.wrong else None,
            "unreadable": "true" if self.unreadable else None,
            "q": self.q or None,
            "sort": None if self.sort == "id" else self.sort,
        }
        return [(name, str(value)) for name, value in values.items() if value is not None]

    @property
    def query(self) -> str:
        return urlencode(self.pairs)

    def sorted_by(self, sort: Sort) -> str:
        return replace(self, sort=sort).query


@dataclass(frozen=True, slots=True)
class Column:
    label: str
    query: str
    """Of the address that orders by it."""
    order: str
    """ascending or descending where the table is ordered by it."""
    css: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """One row."""

    one: Prediction
    truth: str
    top: list[tuple[str, str]]
    """Class and probability; the first is what it is taken for."""

    @property
    def confidence(self) -> str:
        return share_text(self.one.confidence)

    @property
    def loss(self) -> str:
        return NOTHING if self.one.loss is None else f"{self.one.loss:.3g}"


@dataclass(frozen=True, slots=True)
class Table:
    """What ``templates/classify/table.html`` is given."""

    shown: Shown
    page: Pager
    rows: list[Answered]
    columns: list[Column]
    classes: list[tuple[int, str]]

    @property
    def page_query(self) -> str:
        page = [("page", str(self.page.number))] if self.page.number > 1 else []
        return urlencode([*self.shown.pairs, *page])


@dataclass(frozen=True, slots=True)
class Surest:
    """One image among the surest of a class."""

    one: Prediction
    share: str
    truth: str
    """Where it is another class than that."""


@dataclass(frozen=True, slots=True)
class ClassTop:
    label: int
    name: str
    images: list[Surest]


@dataclass(frozen=True, slots=True)
class Tops:
    """What ``templates/classify/top.html`` is given."""

    n: int
    q: str
    page: Pager
    classes: list[ClassTop]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        text = [("q", self.q)] if self.q else []
        return [("view", "top"), ("n", str(self.n)), *text]

    @property
    def query(self) -> str:
        return urlencode(self.pairs)

    @property
    def choices(self) -> tuple[int, ...]:
        return TOP_CHOICES


def table_of(reader: PredictionsReader, query: QueryDict, *, has_truth: bool) -> Table:
    """Cost: four queries of the predictions, however many there are."""
    names = reader.classes
    shown = Shown.of_query(query, len(names))
    page = Pager.of_query(query.get("page", ""), reader.count(**shown.filters))
    found = reader.page(sort=shown.sort, offset=page.offset, limit=page.page_size, **shown.filters)
    rows = [
        Answered(one, name_of(names, one.label), [(name_of(names, n), share_text(p)) for n, p in one.top[:SHOWN_TOP]])
        for one in found
    ]
    classes = list(enumerate(names))[:MOST_CLASSES_TO_CHOOSE]
    return Table(shown, page, rows, _columns(shown, has_truth=has_truth), classes)


def tops_of(reader: PredictionsReader, query: QueryDict) -> Tops:
    """Cost: two queries for each of at most ``CLASSES_A_PAGE`` classes.

    Raises:
        RequestInvalid: not one of the offered numbers.
    """
    names = reader.classes
    text = text_of(query.get("q", ""))
    labels = [label for label, name in enumerate(names) if text.casefold() in name.casefold()]
    n = _top(query.get("n", ""))
    page = _page_of_classes(query.get("page", ""), len(labels))
    classes = [
        ClassTop(label, names[label], [_surest(one, label, names) for one in reader.top_of_class(label, n)])
        for label in labels[page.offset : page.offset + page.page_size]
    ]
    return Tops(n, text, page, classes)


def share_text(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.1f} %"


def name_of(names: tuple[str, ...], label: int | None) -> str:
    return names[label] if label is not None and 0 <= label < len(names) else ""


def _surest(one: Prediction, label: int, names: tuple[str, ...]) -> Surest:
    share = next((probability for number, probability in one.top if number == label), None)
    return Surest(one, share_text(share), "" if one.label == label else name_of(names, one.label))


def _page_of_classes(typed: str, n_classes: int) -> Pager:
    page = Pager(1, n_classes, CLASSES_A_PAGE)
    number = int(typed) if typed.isdecimal() and len(typed) < 10 else 1
    return replace(page, number=max(1, min(number, page.n_pages)))


def _columns(shown: Shown, *, has_truth: bool) -> list[Column]:
    def column(label: str, first: Sort, then: Sort, css: str = "") -> Column:
        """A second choice of the column turns the order round."""
        order = {first: _order(first), then: _order(then)}.get(shown.sort, "")
        return Column(label, shown.sorted_by(then if shown.sort == first else first), order, css)

    columns = [column("Name", "name", "id"), Column("Answers", "", "")]
    columns.append(column("Confidence", "-confidence", "confidence", "num"))
    if has_truth:
        columns.insert(1, Column("Truth", "", ""))
        columns.append(column("Loss", "-loss", "loss", "num"))
    return columns


def _order(sort: Sort) -> str:
    if sort == "id":
        return ""
    return "descending" if sort.startswith("-") else "ascending"


def _label(number: str, n_classes: int) -> int | None:
    if not number:
        return None
    if number.isascii() and number.isdecimal() and len(number) < 10 and int(number) < n_classes:
        return int(number)
    raise RequestInvalid(f"There is no class {number!r}.", hint=f"Classes are counted from 0 to {n_classes - 1}.")


def _sort(wanted: str) -> Sort:
    known: tuple[Sort, ...] = get_args(Sort)
    for sort in known:
        if sort == (wanted or "id"):
            return sort
    raise RequestInvalid(f"There is no order {wanted!r}.", hint=f"Choose of: {', '.join(known)}.")


def _top(number: str) -> int:
    if not number:
        return TOP_CHOICES[1]
    if number.isascii() and number.isdecimal() and len(number) < 4 and int(number) in TOP_CHOICES:
        return int(number)
    raise RequestInvalid(
        f"{number!r} images of each class are not offered.", hint=f"Choose of: {', '.join(map(str, TOP_CHOICES))}."
    )
