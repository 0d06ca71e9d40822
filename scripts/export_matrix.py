"""Every network of the form to every target, in one table: what came out of it, and how far from PyTorch it answers.

A network of each kind is trained for a moment on some of the bundled digits, then exported with the engine alone, one
target after the other. Verdicts, agreement and differences do not depend on how busy the machine
is; times would, and are left to ``benchmarks/exported.py``.

    python scripts/export_matrix.py [--models resnet18 lenet5] [--at-once 2] [--work FOLDER] [--write docs/exports.md]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pydantic import BaseModel

PROJECT_DIR = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT_DIR))

from engine.catalog import backend_cards, model_cards  # noqa: E402
from wire.cards import BackendCard, ModelCard  # noqa: E402
from wire.events import ENVELOPE, ArtifactMade  # noqa: E402
from wire.exports import ExportReport, Failed, NotRun, Verdict  # noqa: E402
from wire.layout import ExportDir, JobDir  # noqa: E402
from wire.specs import (  # noqa: E402
    CheckpointRef,
    Choice,
    ExitReport,
    ExportPrecision,
    ExportSpec,
    FromSample,
    ImportOptions,
    ImportSpec,
    TrainOptions,
    TrainSpec,
)

EPOCHS = 12
EPOCHS_OF = {"mobilenet_v3_small": 40, "swin_tiny": 4}
"""Statistics of the first follow slowly (a momentum of 0.01): before some 300 steps it answers at chance. The second
is slow on a processor, and knows enough by then.
"""
LARGEST_PX = 96
"""Larger networks are tried at this size: what they compute is the same, in a sixth of the time."""
N_PER_CLASS = 30
ENGINE = """
import sys
from engine.__main__ import main
from engine.export import latency
latency.WARM_UP_RUNS = latency.LEAST_RUNS = latency.FEWEST_RUNS = 1
latency.WARM_UP_S = latency.BUDGET_S = latency.PATIENCE_S = 0.0
sys.exit(main(sys.argv[1:]))
"""
"""The engine without its patience for timing, which takes most of an export and is not told here."""
HEAD = """# Every network to every target

Written by `make export-matrix`. A network of each kind, trained for a moment on {n_per_class} bundled digits of each
class at {px} px or less, exported with the engine alone and verified on all validation images. "Largest difference" is
that of any probability of any image, from the picture's bytes to the answer, against PyTorch. Engines run on a GPU
alone; without one their verdict is "not run".

{versions}

| network | target | verdict | accuracy | change | agreement | largest difference | kept in float | size | why |
|---|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    model: ModelCard
    backend: BackendCard
    precision: ExportPrecision
    report: ExportReport | None
    exit: ExitReport

    @property
    def markdown(self) -> str:
        verdict, why = _said(self.report.verdict) if self.report else ("failed", f"{self.exit.message}")
        agreement = self.report.agreement if self.report else None
        kept = self.report.quantisation.kept if self.report and self.report.quantisation else None
        cells = (
            self.model.label,
            f"{self.backend.label} {self.precision}",
            verdict,
            f"{agreement.accuracy:.2%}" if agreement else "",
            f"{agreement.change_points:+.2f}" if agreement else "",
            f"{agreement.agreement:.2%}" if agreement else "",
            f"{agreement.max_difference:.1e}" if agreement else "",
            "" if kept is None else str(len(kept)),
            f"{self.report.bytes / 2**20:.1f} MiB" if self.report else "",
            why.replace("|", "/").replace("\n", " ")[:300],
        )
        return f"| {' | '.join(cells)} |"


def _said(verdict: Verdict) -> tuple[str, str]:
    match verdict:
        case Failed():
            return "failed", " ".join(verdict.reasons)
        case NotRun():
            return "not run", verdict.reason
        case _:
            return "passed", ""


def run(verb: str, job: JobDir, spec: BaseModel) -> ExitReport:
    """One attempt, by a process of its own; its log stays in the job's folder."""
    job.path.mkdir(parents=True)
    job.spec_path.write_text(spec.model_dump_json())
    with (job.path / "log.txt").open("w") as log:
        command = [sys.executable, "-c", ENGINE, verb, "--dir", str(job.path)]
        subprocess.run(command, cwd=PROJECT_DIR, stdout=log, stderr=log, check=False)
    return ExitReport.model_validate_json(job.attempt(1).exit_path.read_bytes())


def digits(work: Path) -> JobDir:
    job = JobDir(work / "jobs" / "1")
    options = ImportOptions(max_per_class=N_PER_CLASS, val_pct=33)
    _expect(run("import", job, ImportSpec(name="Digits", source=FromSample(name="digits"), options=options)), job)
    return job


def trained(card: ModelCard, dataset: JobDir, job: JobDir) -> CheckpointRef:
    """A checkpoint that knows a little."""
    options = TrainOptions(
        epochs=EPOCHS_OF.get(card.name, EPOCHS),
        batch_size=16,
        image_px=min(card.default_px, LARGEST_PX),
        learning_rate=1e-3,
    )
    spec = TrainSpec(
        dataset=f"../{dataset.path.name}/artifacts/dataset",
        model=Choice(name=card.name),
        task=Choice(name="classification"),
        options=options,
        device="cpu",
    )
    _expect(run("train", job, spec), job)
    envelopes = (ENVELOPE.validate_json(line) for line in job.events_path.read_bytes().splitlines())
    made = [each.event for each in envelopes if isinstance(each.event, ArtifactMade)]
    newest = [each for each in made if each.artifact == "checkpoint"][-1]
    return CheckpointRef(
        path=f"../{job.path.name}/{newest.path}",
        sha256=newest.sha256,
        name=newest.name,
        step=newest.meta["step"],
        epoch=newest.meta.get("epoch") or 0.0,
    )


def rows_of(card: ModelCard, dataset: JobDir) -> Iterator[Row]:
    numbers = count(1)
    jobs = (JobDir(dataset.path.parent / f"{card.name}-{number}") for number in numbers)
    checkpoint = trained(card, dataset, next(jobs))
    for backend in backend_cards().values():
        for precision in backend.precisions:
            spec = ExportSpec(
                checkpoint=checkpoint,
                dataset=f"../{dataset.path.name}/artifacts/dataset",
                backend=Choice(name=backend.name, options=backend.options().model_dump(mode="json")),
                precision=precision,
            )
            job = next(jobs)
            report = run("export", job, spec)
            path = ExportDir(job.export_dir).report_path
            made = ExportReport.model_validate_json(path.read_bytes()) if path.exists() else None
            yield Row(card, backend, precision, made, report)


def _expect(report: ExitReport, job: JobDir) -> None:
    if report.outcome != "succeeded":
        sys.exit(f"{job.path}: {report.message} {report.hint}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(model_cards()), choices=list(model_cards()))
    parser.add_argument("--at-once", type=int, default=2, help="networks side by side")
    parser.add_argument("--work", type=Path, help="where the jobs lie (default: a folder that is removed)")
    parser.add_argument("--write", type=Path, help="the table's file (default: it is printed)")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with (
        nullcontext(arguments.work) if arguments.work else tempfile.TemporaryDirectory() as work,
        ThreadPoolExecutor(arguments.at_once) as pool,
    ):
        dataset = digits(Path(work))
        cards = [model_cards()[name] for name in arguments.models]
        for made in pool.map(lambda card: list(rows_of(card, dataset)), cards):
            print("\n".join(row.markdown for row in made), flush=True)
            rows += made
    if arguments.write:
        arguments.write.write_text(_document(rows))


def _document(rows: list[Row]) -> str:
    versions: dict[str, str] = {}
    for row in rows:
        versions |= row.report.versions if row.report else {}
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return (
        HEAD.format(n_per_class=N_PER_CLASS, px=LARGEST_PX, versions=told)
        + "\n".join(row.markdown for row in rows)
        + "\n"
    )


if __name__ == "__main__":
    main()
