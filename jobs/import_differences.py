"""What a new import of the same images does otherwise than an earlier one, in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.catalog import format_cards
from jobs.models import Job, Upload
from jobs.requests import ImportRequest, ListFile, ListsSource, ServerFile, SourceRequest, UploadSource
from jobs.uploads import upload_id_of
from wire.specs import FromFolder, FromLists, FromSample, FromUpload, ImportOptions, ImportSpec, Source

UPLOADED_LIST = "an uploaded list"


def import_differences(earlier: Job, request: ImportRequest) -> list[str]:
    """A sentence for each choice: ``Validation share: 10 % instead of 20 %``."""
    spec = ImportSpec.model_validate(earlier.spec)
    pairs = [
        *_sources(request.source, spec.source),
        ("Format", _format_label(request.format), _format_label(spec.format)),
    ]
    for name, field in ImportOptions.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        now, before = (_option_text(name, options, extra) for options in (request.options, spec.options))
        pairs.append((field.title or name, now, before))
    return [f"{what}: {now} instead of {before}" for what, now, before in pairs if now != before]


def _sources(now: SourceRequest, before: Source) -> Iterator[tuple[str, str, str]]:
    """By field where both are of one kind, else as a whole."""
    if isinstance(now, UploadSource) and isinstance(before, FromUpload):
        if now.upload != upload_id_of(before.path):
            name = _uploaded_name(now.upload)
            yield "Source", name if name != before.name else f"another upload of {name}", before.name
        return
    told, told_before = _parts(now), _parts(before)
    if now.kind != before.kind:
        yield "Source", told["Source"], told_before["Source"]
        return
    for what in told:
        yield what, told[what] or "none", told_before[what] or "none"


def _parts(source: SourceRequest | Source) -> dict[str, str]:
    match source:
        case FromSample():
            return {"Source": f"the sample {source.name}"}
        case FromUpload():
            return {"Source": source.name}
        case UploadSource():
            return {"Source": _uploaded_name(source.upload)}
        case FromFolder():
            return {
                "Source": _real(source.path),
                "Validation folder": _real(source.val_path),
                "Test folder": _real(source.test_path),
            }
        case FromLists() | ListsSource():
            return {
                "Source": _list_text(source.train),
                "Validation list": _list_text(source.val),
                "Test list": _list_text(source.test),
                "Labels": _list_text(source.labels),
                "Folder": _real(source.folder),
            }


def _list_text(file: ListFile | str | None) -> str:
    if file is None:
        return ""
    if isinstance(file, ServerFile):
        return _real(file.path)
    upload_id = upload_id_of(file) if isinstance(file, str) else file.upload
    if upload_id is None:
        return str(file)
    return _uploaded_name(upload_id, otherwise=f"{UPLOADED_LIST} ({upload_id[:8]})")


def _uploaded_name(upload_id: str, *, otherwise: str = "an upload") -> str:
    name = Upload.objects.filter(pk=upload_id).values_list("name", flat=True).first()
    return otherwise if name is None else name


def _real(path: str) -> str:
    return str(Path(path).resolve()) if path else ""


def _format_label(name: str) -> str:
    if name == "auto":
        return "found out by itself"
    card = format_cards().get(name)
    return card.label if card else name


def _option_text(name: str, options: ImportOptions, extra: dict[str, Any]) -> str:
    """As the form shows it."""
    value: Any = getattr(options, name)
    if isinstance(value, tuple):
        return ", ".join(value) or "all"
    if name == "max_per_class" and not value:
        return "all"
    if isinstance(value, float):
        value = f"{value:g}"
    unit = extra.get("unit", "")
    return f"{extra.get('labels', {}).get(value, value)} {unit}".strip()
