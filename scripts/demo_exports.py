"""The last part of the demo: every export that can be made here, the table of what they answer, and the bundle."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from demo_server import DATA_DIR, DemoError, Server

OUTCOMES = {"passed": "passed", "failed": "failed", "not_run": "not run"}
HEADS = ("backend", "precision", "verdict", "accuracy", "change", "p50 ms", "p95 ms", "img/s", "size")
NO_FIGURE = "-"


def exported(api: Server, run_id: int, wait_for: Callable[[Server, int, str], Any]) -> None:
    """Export a run to every target, print what was measured, and save the bundle of what may be handed out.

    Raises:
        DemoError: an export was refused or failed its verification, or there is nothing to hand out.
    """
    started = api.post(f"/trainings/{run_id}/exports", {"targets": _targets(api)})
    problems = [_wait(api, each["export"], wait_for) for each in started]
    ids = {each["export"]["id"] for each in started}
    rows = [row for row in api.get(f"/trainings/{run_id}/exports") if row["id"] in ids]
    for line in table(rows):
        print(line)
    deliverable = [row["id"] for row in rows if row["is_deliverable"]]
    if not deliverable:
        raise DemoError("No export may be handed out: see the table.")
    path = DATA_DIR / "demo" / f"run-{run_id}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    api.download(f"/trainings/{run_id}/bundle?{'&'.join(f'export={number}' for number in deliverable)}", path)
    print(f"bundle: {path}", flush=True)
    problems += [f"{row['title']}: {' '.join(row['reasons'])}" for row in rows if row["outcome"] == "failed"]
    if found := [problem for problem in problems if problem]:
        raise DemoError("\n".join(found))


def table(rows: list[Any]) -> list[str]:
    """A row for each export, its reason at the end."""
    cells = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    reasons = ["", *(" ".join(row["reasons"]) for row in rows)]
    lines = (
        "  ".join(
            text.ljust(width) if column < 3 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return [f"{line}  {reason}".rstrip() for line, reason in zip(lines, reasons, strict=True)]


def wanted() -> set[str]:
    """What TARGETS names; empty for all that there are.

    Raises:
        DemoError: one is not written as it has to be.
    """
    named = os.environ.get("TARGETS", "").split()
    for target in named:
        if not all(target.partition(":")):
            raise DemoError(f"TARGETS={' '.join(named)}: {target!r} is no target. Write onnx:fp32 tensorrt_rtx:int8.")
    return set(named)


def _targets(api: Server) -> list[dict[str, Any]]:
    """What is installed and wanted, in the order of the form.

    Raises:
        DemoError: something is wanted that cannot be had.
    """
    there = {
        f"{backend['name']}:{precision}": {"backend": {"name": backend["name"], "options": {}}, "precision": precision}
        for backend in api.get("/backends")
        if not backend["missing"]
        for precision in backend["precisions"]
    }
    if unknown := sorted(wanted() - there.keys()):
        raise DemoError(f"TARGETS: there is no {', '.join(unknown)}. There is: {', '.join(there)}.")
    return [target for name, target in there.items() if not wanted() or name in wanted()]


def _wait(api: Server, export: Any, wait_for: Callable[[Server, int, str], Any]) -> str:
    """Empty, or why it was not made: the others go on."""
    try:
        wait_for(api, export["id"], export["title"].partition(" of ")[0])
    except DemoError as problem:
        return str(problem)
    return ""


def _cells(row: Any) -> tuple[str, ...]:
    figures = row["figures"] or {}

    def figure(name: str, form: str) -> str:
        value = figures.get(name)
        return NO_FIGURE if value is None else form.format(value)

    return (
        row["backend_label"],
        row["precision"],
        OUTCOMES.get(row["outcome"], row["status"]),
        figure("accuracy", "{:.2%}"),
        figure("change_points", "{:+.2f}"),
        figure("p50_ms", "{:.2f}"),
        figure("p95_ms", "{:.2f}"),
        figure("images_per_s", "{:,.0f}"),
        NO_FIGURE if figures.get("bytes") is None else f"{figures['bytes'] / 2**20:.1f} MiB",
    )
