"""What the browser and the reader are told about events is what ``wire.events`` says."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from jobs.management.commands.export_schema import (
    envelope_schema,
    event_schemas,
    render_docs,
    render_types,
    rendered_files,
    typescript_type,
)
from wire.events import Event, Scalars

KINDS = {member.model_fields["kind"].default for member in typing.get_args(typing.get_args(Event)[0])}


def test_generated_files_are_up_to_date(settings):
    for path, text in rendered_files(Path(settings.BASE_DIR)).items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run `manage.py export_schema`"


def test_check_names_the_file_that_is_stale(settings, tmp_path):
    settings.BASE_DIR = tmp_path
    call_command("export_schema")
    call_command("export_schema", "--check")
    (tmp_path / "docs" / "events.md").write_text("older")
    with pytest.raises(CommandError, match=r"docs/events\.md"):
        call_command("export_schema", "--check")
    (tmp_path / "docs" / "events.md").unlink()
    with pytest.raises(CommandError, match=r"docs/events\.md"):
        call_command("export_schema", "--check")


def test_every_kind_has_a_type_and_a_chapter():
    schema = envelope_schema()
    types, docs = render_types(schema), render_docs(schema)
    assert {body["properties"]["kind"]["const"] for _, body in event_schemas(schema)} == KINDS
    for kind in KINDS:
        assert f'kind: "{kind}";' in types
        assert f"## `{kind}`" in docs


def test_what_is_written_has_every_field_that_the_schema_requires():
    schema = envelope_schema()
    written = Scalars(step=1, values={"lr": None}).model_dump(mode="json")
    assert set(schema["$defs"]["Scalars"]["required"]) == set(written)
    for name, body in event_schemas(schema):
        assert set(body["required"]) == set(body["properties"]), f"{name}: a default may not be left out"
        assert body["additionalProperties"] is False


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "number"),
        ({"enum": ["nan", "inf"]}, '"nan" | "inf"'),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"type": "array", "items": {"$ref": "#/$defs/SeriesInfo"}}, "SeriesInfo[]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "Record<string, boolean>"),
        ({"type": "object", "additionalProperties": True}, "Record<string, unknown>"),
    ],
)
def test_types(schema, expected):
    assert typescript_type(schema) == expected


def test_a_construct_without_a_type_is_an_error_and_not_any():
    with pytest.raises(ValueError, match="no TypeScript type"):
        typescript_type({"type": "array2"})
