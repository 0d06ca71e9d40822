"""Writes what the browser and the reader know about events, from the one place that defines them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.card_docs import render_cards
from wire.events import ENVELOPE, SCHEMA_VERSION

Schema = dict[str, Any]

_WHERE = (
    "A running job appends one JSON object a line to `events.jsonl`; the same objects come from"
    " `/api/v1/jobs/<id>/events?after=` and over the socket `/ws/jobs/<id>/`."
)
_PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def envelope_schema() -> Schema:
    """JSON schema of an envelope as it is written: every field is present, defaults too."""
    schema: Schema = ENVELOPE.json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def event_schemas(schema: Schema) -> list[tuple[str, Schema]]:
    """The members of the union, in the order in which ``wire.events`` lists them."""
    names = [_ref_name(member) for member in schema["properties"]["event"]["oneOf"]]
    return [(name, schema["$defs"][name]) for name in names]


def typescript_type(schema: Schema) -> str:
    """The TypeScript type of one property.

    Raises:
        ValueError: the schema uses a construct that no event needed before; teach it here.
    """
    if "$ref" in schema:
        return _ref_name(schema)
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return " | ".join(json.dumps(value) for value in values)
    if "anyOf" in schema:
        return " | ".join(typescript_type(member) for member in schema["anyOf"])
    match schema.get("type"):
        case "array":
            return _array_of(typescript_type(schema["items"]))
        case "object":
            values = schema.get("additionalProperties", True)
            return f"Record<string, {'unknown' if values is True else typescript_type(values)}>"
        case str(name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
    raise ValueError(f"no TypeScript type for {schema!r}")


def render_schema(schema: Schema) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def render_types(schema: Schema) -> str:
    """``events.d.ts``: one interface a definition, the union of events, and the envelope."""
    events = event_schemas(schema)
    event_names = {name for name, _ in events}
    parts = ["// Written by `manage.py export_schema` from wire/events.py. Change it there."]
    parts += [_interface(name, body) for name, body in schema["$defs"].items() if name not in event_names]
    parts += [_interface(name, body) for name, body in events]
    parts.append("export type Event =\n" + "\n".join(f"  | {name}" for name, _ in events) + ";")
    parts.append('export type EventKind = Event["kind"];')
    envelope = {**schema, "properties": {**schema["properties"], "event": {"$ref": "#/$defs/Event"}}}
    parts.append(_interface("Envelope", envelope))
    return "\n\n".join(parts) + "\n"


def render_docs(schema: Schema) -> str:
    """``docs/events.md``: a table for each kind of event."""
    lines = [
        "# Events",
        "",
        "Written by `manage.py export_schema` from `wire/events.py`; a test compares them.",
        "",
        f"Schema version {SCHEMA_VERSION}. {_WHERE}",
        "",
        "## The envelope",
        "",
        _one_line(schema.get("description", "")),
        "",
        *_field_table({**schema, "properties": {**schema["properties"], "event": {"type": "Event"}}}),
    ]
    for _, body in event_schemas(schema):
        lines += ["", f"## `{body['properties']['kind']['const']}`", ""]
        lines += [_one_line(body.get("description", "")), ""] if body.get("description") else []
        lines += _field_table(body)
    for name in sorted(set(schema["$defs"]) - {name for name, _ in event_schemas(schema)}):
        body = schema["$defs"][name]
        lines += ["", f"## {name}", "", _one_line(body.get("description", "")), "", *_field_table(body)]
    return "\n".join(lines) + "\n"


def rendered_files(root: Path) -> dict[Path, str]:
    """What should be in each generated file below the project's root."""
    schema = envelope_schema()
    generated = root / "static" / "js" / "generated"
    return {
        generated / "events.schema.json": render_schema(schema),
        generated / "events.d.ts": render_types(schema),
        root / "docs" / "events.md": render_docs(schema),
        root / "docs" / "cards.md": render_cards(),
    }


def _ref_name(schema: Schema) -> str:
    return str(schema["$ref"]).rsplit("/", 1)[-1]


def _array_of(item: str) -> str:
    return f"({item})[]" if " " in item else f"{item}[]"


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _interface(name: str, body: Schema) -> str:
    lines = [f"/** {_one_line(body['description'])} */"] if body.get("description") else []
    lines.append(f"export interface {name} {{")
    required = set(body.get("required", ()))
    for field, schema in body["properties"].items():
        mark = "" if field in required else "?"
        lines.append(f"  {field}{mark}: {typescript_type(schema)};")
    lines.append("}")
    return "\n".join(lines)


def _field_table(body: Schema) -> list[str]:
    rows = ["| field | type | default |", "|---|---|---|"]
    for field, schema in body["properties"].items():
        if field == "kind":
            continue
        type_text = "Event" if schema.get("type") == "Event" else typescript_type(schema)
        default = f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
        rows.append(f"| `{field}` | `{type_text.replace('|', chr(92) + '|')}` | {default} |")
    return rows


class Command(BaseCommand):
    help = "Write the JSON schema, the TypeScript types and the documentation of events, and that of cards."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="only compare; fail where a file is not as generated")

    def handle(self, *_args: object, check: bool, **_options: object) -> None:
        files = rendered_files(Path(settings.BASE_DIR))
        if check:
            self._compare(files)
            return
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def _compare(self, files: dict[Path, str]) -> None:
        stale = [
            str(path.relative_to(settings.BASE_DIR))
            for path, text in files.items()
            if not path.is_file() or path.read_text(encoding="utf-8") != text
        ]
        if stale:
            raise CommandError(f"Not as generated: {', '.join(stale)}. Run `manage.py export_schema`.")
        self.stdout.write("Generated files are up to date.")
