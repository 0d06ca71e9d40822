from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent

import pytest
from django.conf import settings

LACKING = """
    import pytest

    def test_with_a_browser():
        pytest.skip("Chromium is not installed")
"""
LACKING_MODULE = """
    import pytest

    pytest.skip("no PostgreSQL", allow_module_level=True)
"""
EXPECTED_TO_FAIL = """
    import pytest

    @pytest.mark.xfail(reason="a known defect of the library")
    def test_known():
        assert False
"""


@pytest.fixture
def run_pytest(tmp_path):
    def run(body, *, require_all):
        (tmp_path / "test_it.py").write_text(dedent(body))
        options = ["-p", "no:django", "-p", "no:cacheprovider", "-p", "tests.require_all", "--rootdir", str(tmp_path)]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, str(tmp_path)],
            cwd=settings.BASE_DIR,
            env={**os.environ, "REQUIRE_ALL": "1" if require_all else ""},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("body", [LACKING, LACKING_MODULE])
def test_a_skip_fails_where_everything_is_required(run_pytest, body):
    result = run_pytest(body, require_all=True)

    assert result.returncode != 0
    assert "skipped while REQUIRE_ALL=1: " in result.stdout


def test_a_skip_is_named_elsewhere(run_pytest):
    result = run_pytest(LACKING, require_all=False)

    assert result.returncode == 0
    assert "1 tests: Chromium is not installed" in result.stdout


def test_an_expected_failure_is_no_skip(run_pytest):
    assert run_pytest(EXPECTED_TO_FAIL, require_all=True).returncode == 0
