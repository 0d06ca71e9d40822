from __future__ import annotations

import sys

import pytest

from dashboard import previews
from dashboard.previews import Look, pictures_of
from tests.dashboard.makers import import_job

ENGINE = """
import json, os, pathlib, sys
assert sys.argv[1] == "preview"
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.write_text(json.dumps({"images": [{"png": "", "class": "environment", "name": " ".join(os.environ)}]}))
"""
LOOK = Look(8, "fill", "grey")


@pytest.fixture
def dataset(user, settings, tmp_path):
    script = tmp_path / "engine.py"
    script.write_text(ENGINE)
    settings.ENGINE_COMMAND = [sys.executable, str(script)]
    settings.CACHE_DIR = tmp_path / "cache"
    return import_job(user)


def test_the_configured_engine_makes_them_and_learns_no_secret(dataset, monkeypatch):
    for name in ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "HARMLESS"):
        monkeypatch.setenv(name, "x")
    seen = pictures_of(dataset.pk, LOOK, n=1)[0].label.split()
    assert {"HARMLESS", "CUDA_VISIBLE_DEVICES"} <= set(seen)
    assert not {"SECRET_KEY", "DATABASE_URL", "REDIS_URL"} & set(seen)


def test_they_are_made_once_and_again_when_they_were_thrown_away(dataset, settings, monkeypatch):
    made = []
    make = previews._make
    monkeypatch.setattr(previews, "_make", lambda *arguments: [made.append(1), make(*arguments)])
    first = pictures_of(dataset.pk, LOOK, n=1)
    assert pictures_of(dataset.pk, LOOK, n=1) == first
    assert len(made) == 1
    for answer in (settings.CACHE_DIR / "previews").glob("*.json"):
        answer.unlink()
    assert [tile.src for tile in pictures_of(dataset.pk, LOOK, n=1)] == [tile.src for tile in first]
    assert len(made) == 2
