"""The single answers of an evaluation as pictures: those that a filter leaves, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, TypeVar, get_args
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.http import QueryDict

from dashboard.errors import RequestInvalid
from dashboard.gallery import MOST_CLASSES_TO_CHOOSE, SPLIT_LABELS, Pager, StoredDataset, stored_dataset, text_of
from engine.store.predictions import Filters, Prediction, PredictionsReader, Sort
from jobs.lineage import dataset_job_id
from jobs.models import Job
from wire.errors import FoveaError
from wire.manifests import SplitName

Wrong: TypeAlias = Literal["true", "false", "all"]

Name = TypeVar("Name", bound=str)

MOST_WRONG_FIRST: Final[Sort] = "-loss"
ORDERS: Final[dict[Sort, str]] = {
    "-loss": "Most wrong first",
    "loss": "Most right first",
    "-confidence": "Surest first",
    "name": "By file name",
}
ANSWERS: Final[dict[Wrong, str]] = {"true": "Wrong answers", "false": "Right answers", "all": "All answers"}


@dataclass(frozen=True, slots=True)
class Shown:
    """Which answers are shown; without any wish those of a split that are most wrong."""

    split: SplitName
    label: int | None = None
    predicted: int | None = None
    wrong: Wrong = "true"
    sort: Sort = MOST_WRONG_FIRST
    q: str = ""

    @classmethod
    def of_query(cls, query: QueryDict, classes: Sequence[str], split: SplitName) -> Self:
        """What an address asks for; ``split`` is taken where it names none.

        Raises:
            RequestInvalid: no such split, class, kind of answer or order.
        """
        label, predicted = (_label(query.get(name, ""), classes) for name in ("label", "predicted"))
        return cls(
            split=_one_of(query.get("split", ""), get_args(SplitName), split, "split"),
            label=label,
            predicted=predicted,
            wrong=_one_of(query.get("wrong", ""), get_args(Wrong), _usually_wrong(label, predicted), "kind of answer"),
            sort=_one_of(query.get("sort", ""), tuple(ORDERS), MOST_WRONG_FIRST, "order"),
            q=text_of(query.get("q", "")),
        )

    @property
    def active(self) -> bool:
        return self != Shown(self.split)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What stands in an address that asks for this."""
        values = {"split": self.split, "label": self.label, "predicted": self.predicted, "q": self.q}
        chosen = [(name, str(value)) for name, value in values.items() if value not in (None, "")]
        if self.wrong != _usually_wrong(self.label, self.predicted):
            chosen.append(("wrong", self.wrong))
        return chosen if self.sort == MOST_WRONG_FIRST else [*chosen, ("sort", self.sort)]

    @property
    def filters(self) -> Filters:
        wrong = {"true": True, "false": False, "all": None}[self.wrong]
        return Filters(split=self.split, label=self.label, predicted=self.predicted, wrong=wrong, q=self.q)

    @property
    def api_query(self) -> str:
        """The same answers as the API calls them."""
        values = {name: value for name, value in self.filters.items() if value not in (None, "")}
        return urlencode({name: str(value).lower() if name == "wrong" else value for name, value in values.items()}
                         | {"sort": self.sort})  # fmt: skip


def _usually_wrong(label: int | None, predicted: int | None) -> Wrong:
    return "true" if label is None and predicted is None else "all"


def _label(number: str, classes: Sequence[str]) -> int | None:
    if not number:
        return None
    if number.isdecimal() and len(number) < 10 and int(number) < len(classes):
        return int(number)
    raise RequestInvalid(f"There is no class {number!r}.", hint=f"Classes are counted from 0 to {len(classes) - 1}.")


def _one_of(typed: str, known: Sequence[Name], otherwise: Name, what: str) -> Name:
    for name in known:
        if name == typed:
            return name
    if not typed:
        return otherwise
    raise RequestInvalid(f"There is no {what} {typed!r}.", hint=f"Choose of: {', '.join(known)}.")


@dataclass(frozen=True, slots=True)
class AnsweredImage:
    """One picture with what it is and what it was taken for."""

    place: int
    """In the order of the filter, counted from 0."""
    prediction: Prediction
    truth: str
    predicted: str
    """Empty where there is no answer."""


@dataclass(frozen=True, slots=True)
class AnsweredImages:
    """What ``templates/evaluation/images.html`` is given."""

    evaluation_id: int
    run_id: int
    dataset: StoredDataset | None
    """None where its pictures are not there, or not for this person."""
    shown: Shown
    page: Pager
    tiles: list[AnsweredImage]
    classes: list[tuple[int, str]]
    """To choose from."""
    names: Sequence[str]

    @property
    def hidden(self) -> list[tuple[str, str]]:
        return [("job", str(self.evaluation_id)), *self.shown.pairs]

    @property
    def query(self) -> str:
        return urlencode(self.hidden)

    @property
    def of_split(self) -> str:
        """What addresses of this split's pictures begin with."""
        return f"?job={self.evaluation_id}&split={self.shown.split}"

    @property
    def page_query(self) -> str:
        """With the page, as an address that a person keeps."""
        page = [("page", str(self.page.number))] if self.page.number > 1 else []
        return urlencode([*self.hidden, *page])

    @property
    def truth(self) -> str:
        return "" if self.shown.label is None else self.names[self.shown.label]

    @property
    def predicted(self) -> str:
        return "" if self.shown.predicted is None else self.names[self.shown.predicted]

    @property
    def split_label(self) -> str:
        return SPLIT_LABELS[self.shown.split].lower()

    @property
    def answers(self) -> str:
        return ANSWERS[self.shown.wrong]

    @property
    def answer_choices(self) -> list[tuple[Wrong, str]]:
        return list(ANSWERS.items())

    @property
    def order_choices(self) -> list[tuple[Sort, str]]:
        return list(ORDERS.items())

    @property
    def order(self) -> str:
        return ORDERS[self.shown.sort].lower()


def answered_images(
    user: User, evaluation: Job, reader: PredictionsReader, query: QueryDict, split: SplitName
) -> AnsweredImages:
    """Cost: two queries of the database, and four of the answers."""
    names = reader.classes
    shown = Shown.of_query(query, names, split)
    page = Pager.of_query(query.get("page", ""), reader.count(**shown.filters))
    found = reader.page(sort=shown.sort, offset=page.offset, limit=page.page_size, **shown.filters)
    return AnsweredImages(
        evaluation_id=evaluation.pk,
        run_id=evaluation.part_of_id or 0,
        dataset=dataset_shown(user, evaluation),
        shown=shown,
        page=page,
        tiles=[_tile(place, one, names) for place, one in enumerate(found, start=page.offset)],
        classes=list(enumerate(names))[:MOST_CLASSES_TO_CHOOSE],
        names=names,
    )


def _tile(place: int, one: Prediction, names: Sequence[str]) -> AnsweredImage:
    truth, predicted = ("" if label is None else names[label] for label in (one.label, one.predicted))
    return AnsweredImage(place, one, truth, predicted)


def dataset_shown(user: User, evaluation: Job) -> StoredDataset | None:
    """An evaluation may be seen by more people than the pictures it was made on, and outlive them."""
    dataset_id = dataset_job_id(evaluation.spec)
    if dataset_id is None:
        return None
    try:
        return stored_dataset(user, dataset_id)
    except FoveaError:
        return None
