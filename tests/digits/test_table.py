"""docs/digits.md and the tests beside it say the same."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings

WANTED = {*range(10, 25), *range(53, 59)}


def _rows():
    text = (settings.BASE_DIR / "docs" / "digits.md").read_text()
    return re.findall(r"^\| T-(\d+) \| (.+?) \| (.+?) \| (.+?) \|$", text, flags=re.MULTILINE)


def _tests():
    here = Path(__file__).parent
    return {name for file in here.glob("test_*.py") for name in re.findall(r"def (test_t\d+\w+)\(", file.read_text())}


def test_every_behaviour_is_answered_once():
    ids = [int(number) for number, *_ in _rows()]
    assert ids == sorted(WANTED)


def test_the_table_names_the_tests_that_there_are_by_the_ids_they_bear():
    by_name: dict[str, set[int]] = {}
    for number, _, _, tests in _rows():
        for name in re.findall(r"`(\w+)`", tests):
            by_name.setdefault(name, set()).add(int(number))
    assert by_name.keys() == _tests()
    for name, numbers in by_name.items():
        borne = re.match(r"test((?:_t\d+)+)_", name)
        assert borne
        assert numbers == {int(number) for number in borne[1].split("_t")[1:]}
