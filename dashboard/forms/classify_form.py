"""The form that starts a classification: where the images are, which checkpoint, how many answers for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.contrib.auth.models import User

from dashboard.forms.import_sources import PathField, SourceFields, Way, sentence_of, values_of, way_offered
from jobs.evaluations import classification_for
from jobs.models import Job
from jobs.requests import ClassificationRequest, SourceRequest
from jobs.services import source_request_of
from wire.errors import FoveaError, UploadMissing
from wire.serving import MAX_TOP
from wire.specs import ClassifySpec

MAX_TITLE = 200
USUAL_TOP = 5
_FOLDER = ("Folder", "Every image in it and below. A folder that is called like a class tells the truth of its images.")
_LISTS = {
    "train_list": ("List of images", "A line for each image: its path and, where it is known, its label."),
    "labels_list": ("Class names", "One name a line; a label is then a line number counted from 0."),
}


@dataclass(frozen=True, slots=True)
class EarlierClassification:
    """One to be done again."""

    job: Job
    spec: ClassifySpec
    source: SourceRequest | None
    """None where what it read is gone."""
    missing: str

    @property
    def top(self) -> int:
        return self.spec.top


def earlier_classification(user: User, job_id: int) -> EarlierClassification:
    """Raises ``NotFound`` where there is none for this user."""
    job = classification_for(user, job_id)
    spec = ClassifySpec.model_validate(job.spec)
    try:
        return EarlierClassification(job, spec, source_request_of(spec.source), "")
    except UploadMissing as error:
        return EarlierClassification(job, spec, None, sentence_of(error).replace("then import it", "here"))


@dataclass
class ClassifyForm:
    """What a person has filled in so far; ``data`` is what the page sent."""

    user: User
    run: Job
    way_wanted: str = ""
    data: Mapping[str, str] | None = None
    earlier: EarlierClassification | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shown: dict[str, str] = dict(self.data or {})
        if self.data is None and self.earlier and self.earlier.source:
            shown = values_of(self.earlier.source)
        self.source = SourceFields(self.user, self._way(), shown)

    def _way(self) -> Way:
        wanted = self.way_wanted
        if self.data is None and not wanted and self.earlier:
            wanted = self.earlier.spec.source.kind
        return way_offered(wanted)

    # What the page shows.

    @property
    def way(self) -> Way:
        return self.source.way

    @property
    def folder(self) -> PathField:
        shown = next(each for each in self.source.folders if each.name == "path")
        return replace(shown, label=_FOLDER[0], help=_FOLDER[1])

    @property
    def lists(self) -> list[PathField]:
        shown = {each.name: each for each in self.source.lists}
        return [replace(shown[name], label=label, help=text) for name, (label, text) in _LISTS.items()]

    @property
    def title(self) -> str:
        if self.data is not None:
            return self.data.get("title", "")
        return self.earlier.job.title if self.earlier else ""

    @property
    def top(self) -> str:
        if self.data is not None:
            return self.data.get("top", "")
        return str(self.earlier.top if self.earlier else USUAL_TOP)

    @property
    def checkpoint(self) -> str:
        return (self.data or {}).get("checkpoint", "")

    @property
    def private(self) -> bool:
        if self.data is not None:
            return self.data.get("private") == "on"
        return bool(self.earlier and self.earlier.job.private)

    # What was asked for.

    def request(self) -> ClassificationRequest | None:
        """None where something is wrong; the errors then stand beside their fields."""
        if self.way == "lists" and not (self.source.text("train_list") or self.source.text("train_upload")):
            self.source.errors["train_list"] = "Give the list of the images."
        source = self.source.request()
        top, title = self._checked_top(), self._checked_title()
        checkpoint = self._checked_checkpoint()
        if source is None or top is None or self.errors:
            return None
        return ClassificationRequest(
            run=self.run.pk, checkpoint=checkpoint, source=source, title=title, top=top, private=self.private
        )

    def refuse(self, error: FoveaError) -> None:
        self.source.refuse(error)

    def _checked_top(self) -> int | None:
        text = self.top.strip() or str(USUAL_TOP)
        if text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= MAX_TOP:
            return int(text)
        self.errors["top"] = f"A whole number from 1 to {MAX_TOP}."
        return None

    def _checked_title(self) -> str:
        title = self.title.strip()
        if len(title) > MAX_TITLE:
            self.errors["title"] = f"A name has at most {MAX_TITLE} characters; this one has {len(title)}."
        return title

    def _checked_checkpoint(self) -> int | None:
        text = self.checkpoint
        if text and not (text.isascii() and text.isdecimal() and len(text) < 16):
            self.errors["checkpoint"] = "Choose one of the list."
            return None
        return int(text) if text else None
