"""Writes docs/faults.md from what ``pytest tests/faults --faults-json FILE`` found.

The page names every fault of the list, also one that has no test: that one is not passed, and so is a skipped one.

    python scripts/faults_page.py var/faults.json [--write docs/faults.md]
    python scripts/faults_page.py --chaos var/chaos.json --write docs/faults.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT_DIR = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT_DIR))

from tests.faults.ledger import ADDED, FAULTS  # noqa: E402

BEGIN, END = "<!-- {name} begins: written by a program -->", "<!-- {name} ends -->"
MOST_CHAOS_RUNS = 5
HEAD = """\
# Every fault survived

Two parts, each written by a program. `make test-faults` injects each fault of the list once, in a short form, and
writes the first; `make chaos MINUTES=n` lets faults happen at random to three hosts and writes a line of the second.

**Real**: what happens in the field happens (processes are killed, servers stopped, disks filled). **Scripted**: the
supervisors are real, and the trainer is the scripted one, which keeps the same promises without a network.
**Simulated**: something pretends, because the thing itself cannot be had in a test (a GPU that falls off its bus, a
power cut).

After each fault the history of every job is checked: events without a gap or a double, in the files and in the rows;
attempts closed in order; no device with two owners and no job with two trainers at a time; no process, lease, lock or
temporary file left. A skipped test counts as not passed, and so does a fault without a test.
"""
TABLE = """\
| fault | what happens | how | injected | what is checked | verdict | seconds |
|---|---|---|---|---|---|---|
"""
CHAOS_TABLE = """\
| when | seed | minutes | faults | kinds | jobs done | events | gaps | overlaps | left over | verdict |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def main() -> int:
    arguments = _parser().parse_args()
    page: Path | None = arguments.write
    before = page.read_text() if page is not None and page.exists() else ""
    suite, chaos = _part(before, "suite"), _part(before, "chaos")
    if arguments.found is not None:
        suite = suite_part(json.loads(arguments.found.read_text()))
    if arguments.chaos is not None:
        chaos = chaos_part(json.loads(arguments.chaos.read_text()), chaos)
    text = f"{HEAD}\n## The faults, one by one\n\n{_marked('suite', suite)}\n## Chaos\n\n{_marked('chaos', chaos)}"
    if page is None:
        sys.stdout.write(text)
    else:
        page.write_text(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found", type=Path, nargs="?", help="what pytest wrote")
    parser.add_argument("--chaos", type=Path, help="what scripts/chaos.py wrote: a line more")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="instead of printing it")
    return parser


def suite_part(found: Mapping[str, Any]) -> str:
    """The figures and the table of one run."""
    rows: Sequence[Mapping[str, Any]] = found["rows"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    told = f"**{_passed(rows, FAULTS)} of {len(FAULTS)}** and **{_passed(rows, ADDED)} of {len(ADDED)}** added ones"
    lines = [line for number, title in (FAULTS | ADDED).items() for line in _lines(number, title, rows)]
    return f"{told}, with seed {found['seed']}.\n\n{versions}\n\n{TABLE}{''.join(lines)}"


def chaos_part(run: Mapping[str, Any], before: str) -> str:
    """One more line; the last few runs are kept."""
    kept = [f"{line}\n" for line in before.splitlines() if line.startswith("| 2")]
    cells = (
        *(run["when"], run["seed"], run["minutes"], run["n_faults"]),
        ", ".join(f"{kind} {n}" for kind, n in sorted(run["kinds"].items())),
        *(f"{run['n_done']} of {run['n_jobs']}", f"{run['n_events']:,}", run["n_gaps"], run["n_overlaps"]),
        *(run["n_left_over"], run["verdict"]),
    )
    return CHAOS_TABLE + "".join([*kept, _row(cells)][-MOST_CHAOS_RUNS:])


def _passed(rows: Iterable[Mapping[str, Any]], numbers: Iterable[str]) -> int:
    """How many faults have a test, and no test that did not pass."""
    by_number: dict[str, set[str]] = {}
    for row in rows:
        by_number.setdefault(row["number"], set()).add(row["verdict"])
    return sum(by_number.get(number) == {"passed"} for number in numbers)


def _lines(number: str, title: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    mine = [row for row in rows if row["number"] == number]
    if not mine:
        return [_row((number, title, "", "", "", "not tested", ""))]
    return [
        _row((number, row["title"], row["how"], row["inject"], row["checked"], row["verdict"], f"{row['seconds']:.1f}"))
        for row in _merged(mine)
    ]


def _merged(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The cases of one parametrised test as one row: the worst verdict, the seconds together."""
    merged: dict[str, dict[str, Any]] = {}
    for row in rows:
        test = row["test"].partition("[")[0]
        one = merged.setdefault(test, {**row, "seconds": 0.0})
        one["seconds"] += row["seconds"]
        if row["verdict"] != "passed":
            one["verdict"] = row["verdict"]
    return list(merged.values())


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |\n"


def _marked(name: str, text: str) -> str:
    return f"{BEGIN.format(name=name)}\n\n{text.strip() or 'No run is recorded yet.'}\n\n{END.format(name=name)}\n"


def _part(page: str, name: str) -> str:
    _, _, rest = page.partition(BEGIN.format(name=name))
    return rest.partition(END.format(name=name))[0].strip()


if __name__ == "__main__":
    raise SystemExit(main())
