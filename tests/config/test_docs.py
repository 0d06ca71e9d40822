from __future__ import annotations

import dataclasses
import re

import pytest
from django.conf import settings

from config.env import Environment
from dashboard.errors import Refusal
from wire.errors import SystemFault, UserError

DOCS = settings.BASE_DIR / "docs"


def _first_cells(text):
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def _codes(base):
    below = [code for cls in base.__subclasses__() for code in _codes(cls)]
    return [*below, base.code] if base.code else below


def test_every_setting_is_documented_and_no_other():
    documented = _first_cells((DOCS / "settings.md").read_text())

    assert sorted(documented) == sorted(field.name.upper() for field in dataclasses.fields(Environment))


@pytest.mark.parametrize(
    ("heading", "base"),
    [("Yours to mend", UserError), ("Ours to mend", SystemFault), ("Of pages and the API", Refusal)],
)
def test_every_error_code_is_documented_under_whose_it_is_to_mend(heading, base):
    section = (DOCS / "errors.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]

    assert sorted(_first_cells(section)) == sorted(_codes(base))


def test_every_row_of_the_error_tables_is_full():
    rows = re.findall(r"^\| `.*$", (DOCS / "errors.md").read_text(), flags=re.MULTILINE)

    assert rows
    assert all(len([cell for cell in row.strip("|").split("|") if cell.strip()]) == 4 for row in rows)
