"""Where a dataset came from, in words: its source, the options of its import, and what it was made again from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from django.contrib.auth.models import User
from pydantic import ValidationError

from engine.catalog import sample_cards
from jobs.access import visible_jobs
from jobs.models import Job
from jobs.services import import_differences, import_request_of
from wire.errors import FoveaError
from wire.specs import FromFolder, FromLists, FromSample, FromUpload, ImportOptions, ImportSpec, Source

NAMED_CLASSES: Final = 20


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """The dataset that this one was made again from."""

    id: int
    title: str
    differences: list[str]


@dataclass(frozen=True, slots=True)
class Origin:
    source: list[Fact]
    options: list[Fact]
    earlier: Earlier | None


def origin_of(user: User, job: Job) -> Origin | None:
    """None where the spec is of a kind that this version does not know."""
    try:
        spec = ImportSpec.model_validate(job.spec)
    except ValidationError:
        return None
    return Origin(_source_facts(spec.source), _option_facts(spec.options), _earlier_of(user, job))


def _source_facts(source: Source) -> list[Fact]:
    return [Fact(label, value) for label, value in _source_values(source) if value]


def _source_values(source: Source) -> list[tuple[str, str]]:
    match source:
        case FromSample():
            card = sample_cards().get(source.name)
            return [("Sample", card.label if card else source.name)]
        case FromUpload():
            return [("Upload", source.name)]
        case FromFolder():
            return [("Folder", source.path), ("Validation", source.val_path), ("Test", source.test_path)]
        case FromLists():
            return [
                ("Training list", _file_name(source.train)),
                ("Validation list", _file_name(source.val)),
                ("Test list", _file_name(source.test)),
                ("Class names", _file_name(source.labels)),
                ("Folder", source.folder),
            ]


def _file_name(path: str) -> str:
    return PurePosixPath(path).name


def _option_facts(options: ImportOptions) -> list[Fact]:
    """Every choice of the form, in its order, by the words of the form."""
    return [
        Fact(field.title or name, _choice(getattr(options, name), field.json_schema_extra))
        for name, field in ImportOptions.model_fields.items()
    ]


def _choice(value: Any, extra: Any) -> str:
    if isinstance(value, tuple):
        more = len(value) - NAMED_CLASSES
        return ", ".join(value[:NAMED_CLASSES]) + (f" and {more:,} more" if more > 0 else "") if value else "all"
    words = extra if isinstance(extra, dict) else {}
    if isinstance(value, str):
        return str(words.get("labels", {}).get(value, value))
    unit = words.get("unit", "")
    return "no limit" if not value and unit.startswith("images") else f"{value:g} {unit}".strip()


def _earlier_of(user: User, job: Job) -> Earlier | None:
    if job.retry_of_id is None:
        return None
    earlier = visible_jobs(user).filter(pk=job.retry_of_id).first()
    return None if earlier is None else Earlier(earlier.pk, earlier.title, _differences(earlier, job))


def _differences(earlier: Job, job: Job) -> list[str]:
    """What is not as it was, a sentence each; nothing where an upload of either has expired."""
    try:
        return list(import_differences(earlier, import_request_of(job)))
    except FoveaError:
        return []
