"""The form of a new dataset: where the images come from, a name, and a ``CardForm`` over the import's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from dashboard.forms.card_form import CardForm, OptionField
from dashboard.forms.import_sources import SourceFields, Way, sentence_of, values_of, way_offered
from jobs.access import job_for
from jobs.models import Job
from jobs.requests import ImportRequest, SourceRequest
from jobs.services import import_differences, import_request_of
from wire.errors import FoveaError, NotFound, UploadMissing
from wire.specs import ImportOptions, ImportSpec

MAX_NAME = 200
PREFIX = "options"


@dataclass(frozen=True, slots=True)
class OptionGroup:
    name: str
    fields: list[OptionField]


@dataclass(frozen=True, slots=True)
class Earlier:
    """An import to be done again."""

    job: Job
    spec: ImportSpec
    request: ImportRequest | None
    """None where what it read is gone."""
    missing: str
    """What is gone, and what to do about it."""


def earlier_import(user: User, job_id: int) -> Earlier:
    """The import to repeat, as far as it still can be.

    Raises:
        NotFound: there is none, or it is a run.
    """
    job = job_for(user, job_id)
    if job.verb != "import":
        raise NotFound(f"#{job_id} is not a dataset.", hint="It is a run; train it again from its own page.")
    spec = ImportSpec.model_validate(job.spec)
    try:
        return Earlier(job, spec, import_request_of(job), "")
    except UploadMissing as error:
        return Earlier(job, spec, None, sentence_of(error))


class ImportForm:
    """What a person has filled in so far.

    ``data`` is what the page sent; without it ``earlier`` (an import to repeat) or defaults are shown, and ``values``
    of the address.
    """

    def __init__(
        self,
        user: User,
        *,
        way: str = "",
        data: Mapping[str, str] | None = None,
        earlier: Earlier | None = None,
        values: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.earlier = earlier
        shown = dict(values or {})
        if data is not None:
            shown = dict(data)
        elif earlier and earlier.request:
            shown |= values_of(earlier.request.source)
        self.source = SourceFields(user, self._way(way), shown)
        again = earlier.spec.options.model_dump() if earlier else None
        sent = None if data is None else self._sent(data)
        self.options_form = CardForm(ImportOptions, prefix=PREFIX, data=sent, values=again)
        self.name_error = ""

    def _way(self, wanted: str) -> Way:
        if self.data is None and not wanted and self.earlier:
            wanted = self.earlier.spec.source.kind
        return way_offered(wanted)

    @staticmethod
    def _sent(data: Mapping[str, str]) -> dict[str, Any]:
        """What an address or a short form leaves out is at its default."""
        defaults = CardForm(ImportOptions, prefix=PREFIX)
        shown = {f"{PREFIX}-{name}": defaults.get_initial_for_field(f, name) for name, f in defaults.fields.items()}
        return shown | {key: value for key, value in data.items() if key.startswith(f"{PREFIX}-")}

    # What the page shows.

    @property
    def way(self) -> Way:
        return self.source.way

    @property
    def name(self) -> str:
        if self.data is not None:
            return str(self.data.get("name", ""))
        return self.earlier.job.title if self.earlier else self.source.suggested_name

    @property
    def private(self) -> bool:
        if self.data is not None:
            return self.data.get("private") == "on"
        return bool(self.earlier and self.earlier.job.private)

    @property
    def format(self) -> str:
        if self.data is not None:
            return self.data.get("format", "") or "auto"
        return self.earlier.spec.format if self.earlier else "auto"

    @property
    def groups(self) -> list[OptionGroup]:
        groups: dict[str, list[OptionField]] = {}
        for field in self.options_form.option_fields:
            groups.setdefault(field.group, []).append(field)
        return [OptionGroup(name, fields) for name, fields in groups.items()]

    @property
    def n_modified(self) -> int:
        return sum(field.modified for field in self.options_form.option_fields)

    @property
    def options_open(self) -> bool:
        return bool(self.n_modified or self.options_form.errors)

    # What was asked for.

    def request(self) -> ImportRequest | None:
        """The import, or None where something is wrong; the errors then stand beside their fields."""
        source = self.source.request()
        name = self._checked_name()
        return self._request(name, source) if source and name and self.options_form.is_valid() else None

    def differences(self) -> list[str]:
        """In what this import differs from the earlier one, as sentences; a source not yet there is passed over."""
        if self.earlier is None or not self.options_form.is_valid():
            return []
        source = SourceFields(self.source.user, self.way, self.source.values).request()
        if source is None and self.earlier.request is not None:
            source = self.earlier.request.source
        if source is None:
            return []
        name = self.name.strip()[:MAX_NAME] or self.earlier.job.title
        return import_differences(self.earlier.job, self._request(name, source))

    def refuse(self, error: FoveaError) -> None:
        self.source.refuse(error)

    def _request(self, name: str, source: SourceRequest) -> ImportRequest:
        options = ImportOptions.model_validate(self.options_form.options, from_attributes=True)
        return ImportRequest(
            name=name,
            source=source,
            options=options,
            format=self.format,
            private=self.private,
            retry_of=self.earlier.job.pk if self.earlier else None,
        )

    def _checked_name(self) -> str:
        name = self.name.strip()
        if len(name) > MAX_NAME:
            self.name_error = f"A name has at most {MAX_NAME} characters; this one has {len(name)}."
            return ""
        name = name or self.source.suggested_name[:MAX_NAME]
        if not name:
            self.name_error = "Give the dataset a name."
        return name
