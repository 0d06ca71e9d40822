"""The archive that the browser makes of many files, read by Python's own reader."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile

import pytest
from django.conf import settings

NAMES = [
    "cat/1.jpg",
    "cat/ leading.jpg",
    "cat/trailing .jpg",
    "cat/a,b=1+1.jpg",
    "dog/$(id).jpg",
    "dog/'\"<script>.jpg",
    "猫/ねこ.jpg",
    "قط/😀.jpg",
    f"deep/{'d' * 80}/{'n' * 90}.jpg",
    f"exact/{'e' * 94}",
    *(f"lengths/{'x' * n}" for n in range(85, 100)),
    *(f"é{'x' * n}" for n in range(90, 100)),
]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_python_reads_every_member_as_it_was(tmp_path):
    contents = {name: name * (index * 37 % 90) for index, name in enumerate(NAMES)}
    path = tmp_path / "made.tar"
    wish = {"files": contents, "folders": ["none", "猫/空"], "to": str(path), "piece_bytes": 1000}
    command = ["node", "tests/js/write_tar.js"]
    subprocess.run(command, cwd=settings.BASE_DIR, input=json.dumps(wish), text=True, check=True)
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        files = {each.name: each for each in members if each.isreg()}
        assert set(files) == set(contents)
        assert {each.name for each in members if each.isdir()} == {"none", "猫/空"}
        for name, text in contents.items():
            content = archive.extractfile(files[name])
            assert content is not None
            assert content.read().decode() == text
            assert files[name].mtime == 1_700_000_000
            assert files[name].mode == 0o644
    assert path.stat().st_size % 512 == 0
