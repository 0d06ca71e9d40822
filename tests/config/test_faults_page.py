from __future__ import annotations

import json
import subprocess
import sys

from django.conf import settings

RUN = {"seed": 7, "minutes": 1.0, "n_faults": 2, "kinds": {"Redis killed": 2}, "n_jobs": 3, "n_done": 3, "n_events": 9}
CLEAN = {"n_gaps": 0, "n_overlaps": 0, "n_left_over": 0, "verdict": "passed"}


def test_each_run_of_chaos_is_a_line_of_its_own(tmp_path):
    page, found = tmp_path / "faults.md", tmp_path / "chaos.json"
    days = ["2026-01-01 10:00", "2026-01-02 10:00", "2026-01-03 10:00"]
    for day in days:
        found.write_text(json.dumps({**RUN, **CLEAN, "when": day}))
        command = ["scripts/faults_page.py", "--chaos", str(found), "--write", str(page)]
        subprocess.run([sys.executable, *command], cwd=settings.BASE_DIR, check=True)
    lines = [line for line in page.read_text().splitlines() if line.startswith("| 2026")]
    assert [line.split("|")[1].strip() for line in lines] == days
    assert all(line.count("|") == 12 for line in lines)
