"""Exports as the page shows them: a line of the verification table each, with everything that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from django.contrib.auth.models import User
from django.db.models import Max

from dashboard.forms.export_form import PRECISION_LABELS
from dashboard.gallery import SPLIT_LABELS
from jobs.exports import ExportRow, export_for, export_report_of, exports_of
from jobs.models import Attempt
from jobs.states import ENDED, Status
from wire.errors import FoveaError
from wire.exports import TRIED_ELSEWHERE, ExportReport, Interval, KeptLayer, Latency, NotRun, Speed

DELIVERED: Final = frozenset({"model", "engine", "weights"})
"""Roles of the files that people download; the others go along in the bundle."""
STAGE_LABELS: Final = {
    "prepare": "Preparing",
    "calibrate": "Calibrating",
    "convert": "Converting",
    "repair": "Repairing",
    "build": "Building",
    "verify": "Verifying",
    "measure": "Measuring",
    "store": "Storing",
}
_PILLS: Final = {"passed": "succeeded", "failed": "failed", "not_run": "paused"}
MINUS: Final = "\N{MINUS SIGN}"
EN_DASH: Final = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class FileLink:
    path: str
    """Relative to the export's folder."""
    name: str


@dataclass(frozen=True)
class ExportLine:
    """A target of the run, or an earlier export of one."""

    row: ExportRow
    report: ExportReport | None
    problem: FoveaError | None
    """Why the report cannot be read, where there should be one."""
    attempt: int | None
    """The newest, whose log is linked."""

    @property
    def precision(self) -> str:
        return PRECISION_LABELS[self.row.precision]

    @property
    def name(self) -> str:
        return f"{self.row.backend_label} {self.precision}"

    # State.

    @property
    def live(self) -> bool:
        return Status(self.row.status) not in ENDED

    @property
    def can_try_again(self) -> bool:
        """Nothing was made: a conversion that was refused or broke off, or one that was cancelled."""
        return not self.live and not self.row.has_files

    @property
    def failed(self) -> bool:
        return not self.live and (self.row.outcome == "failed" or self.row.error is not None)

    @property
    def state(self) -> str:
        """For the stylesheet."""
        if self.live:
            return "live"
        if self.row.override:
            return "overridden"
        return "failed" if self.failed else self.row.outcome or "cancelled"

    @property
    def word(self) -> str:
        """The verdict, or what is done to reach one."""
        if self.row.status in {Status.WAITING, Status.QUEUED}:
            return "Waiting"
        if self.row.status == Status.CANCELLING:
            return "Cancelling"
        if self.live:
            return STAGE_LABELS.get(self.row.stage, "Starting")
        if self.failed:
            return "Failed"
        return {"passed": "Passed", "not_run": "Not run"}.get(self.row.outcome, "Cancelled")

    @property
    def pill(self) -> str:
        """The class of the verdict's pill."""
        if self.live:
            return self.row.status
        return _PILLS.get("failed" if self.failed else self.row.outcome, "cancelled")

    @property
    def progress(self) -> float | None:
        return min(1.0, self.row.done / self.row.total) if self.row.total else None

    @property
    def not_run(self) -> str:
        """What is known, and what is not, of an export that has this verdict; empty of others."""
        verdict = self.report and self.report.verdict
        if not self.report or not isinstance(verdict, NotRun):
            return ""
        if self.speed:  # it answers; there were no images to hold the answers against
            return f"Runs, but was not verified: {verdict.reason}. Nothing is known about its answers."
        known = next((note for note in self.report.notes if note.startswith(TRIED_ELSEWHERE)), "")
        unknown = "Nothing is known about its speed." if known else "Nothing is known about its answers or its speed."
        return " ".join(filter(None, [f"Built, not run: {verdict.reason}.", known, unknown]))

    # Accuracy.

    @property
    def verified_on(self) -> str:
        """``all 359 validation images``, ``1,000 of 5,000 validation images, seed 0``; empty where it was not."""
        found = self.report and self.report.agreement
        if not found:
            return ""
        split = SPLIT_LABELS[found.split].lower()
        if found.n_images >= found.n_of:
            return f"all {found.n_of:,} {split} images"
        seed = "" if found.seed is None else f", seed {found.seed}"
        return f"{found.n_images:,} of {found.n_of:,} {split} images{seed}"

    @property
    def accuracy(self) -> str:
        """In per cent, as ``agreement``."""
        found = self.report and self.report.agreement
        return f"{found.accuracy * 100:.2f}" if found else ""

    @property
    def agreement(self) -> str:
        found = self.report and self.report.agreement
        return f"{found.agreement * 100:.2f}" if found else ""

    @property
    def accuracy_interval(self) -> str:
        found = self.report and self.report.agreement
        return _range(found.accuracy_interval, 100, signed=False) if found else ""

    @property
    def change(self) -> str:
        """In points, with its sign."""
        found = self.report and self.report.agreement
        return _signed(found.change_points) if found else ""

    @property
    def change_interval(self) -> str:
        found = self.report and self.report.agreement
        return _range(found.change_interval, 1, signed=True) if found else ""

    @property
    def max_difference(self) -> str:
        found = self.report and self.report.agreement
        return _small(found.max_difference) if found else ""

    @property
    def mean_difference(self) -> str:
        found = self.report and self.report.agreement
        return _small(found.mean_difference) if found else ""

    # Speed.

    @property
    def speed(self) -> Speed | None:
        return self.report.speed if self.report else None

    @cached_property
    def latency(self) -> Latency | None:
        """Of batch 1."""
        return _latency(self.speed, 1)

    @property
    def rates(self) -> list[tuple[int, float | None]]:
        """Images a second by batch."""
        found = [(batch, _latency(self.speed, batch)) for batch in (1, 8, 32)]
        return [(batch, each.images_per_s if each else None) for batch, each in found]

    @property
    def cold_ms(self) -> float | None:
        speed = self.speed
        return speed.load_ms + speed.first_ms if speed else None

    @property
    def measured_on(self) -> str:
        """``CPU (…), 2 threads, 32 px``; empty where it was not."""
        speed = self.speed
        if not speed:
            return ""
        threads = f", {speed.threads} thread{'s' if speed.threads != 1 else ''}" if speed.threads else ""
        return f"{speed.device}{threads}, {speed.image_px} px"

    # INT8.

    @property
    def kept_asked(self) -> list[KeptLayer]:
        return self._kept("asked")

    @property
    def kept_hurt(self) -> list[KeptLayer]:
        return self._kept("hurt")

    def _kept(self, why: str) -> list[KeptLayer]:
        found = self.report and self.report.quantisation
        return [layer for layer in found.kept if layer.why == why] if found else []

    # Files.

    @property
    def downloads(self) -> list[FileLink]:
        """Files that a person may want by themselves."""
        files = self.report.files if self.report else ()
        return [FileLink(file.path, file.path.rpartition("/")[2]) for file in files if file.role in DELIVERED]

    @property
    def bytes(self) -> int:
        if self.report:
            return self.report.bytes
        return (self.row.figures.bytes if self.row.figures else None) or 0

    @property
    def ticked(self) -> bool:
        """Whether it is taken unless somebody says otherwise."""
        return self.row.is_deliverable and self.row.override is None


@dataclass(frozen=True)
class ExportLines:
    """All exports of a run."""

    newest: list[ExportLine]
    """One for each target, in the order of the cards."""
    earlier: list[ExportLine]
    """Without their reports."""

    @property
    def live(self) -> list[ExportLine]:
        return [line for line in self.newest if line.live]

    @property
    def live_ids(self) -> str:
        return ",".join(str(line.row.id) for line in self.live)

    @property
    def with_files(self) -> list[ExportLine]:
        return [line for line in self.newest if line.row.has_files]

    @property
    def verified_on(self) -> str:
        """Where all that were verified were so on the same images, on which; else empty."""
        return _only({line.verified_on for line in self.newest if line.verified_on})

    @property
    def measured_on(self) -> str:
        return _only({line.measured_on for line in self.newest if line.measured_on})

    @property
    def checkpoint(self) -> str:
        """The name of the checkpoint where all are of one; else each line says its own."""
        return _only({line.row.checkpoint.name for line in self.newest if line.row.checkpoint})

    @property
    def told(self) -> str:
        """``3 passed, 1 failed, 2 to come``."""
        counts = {"passed": 0, "failed": 0, "not run": 0, "cancelled": 0, "to come": 0}
        for line in self.newest:
            counts["to come" if line.live else line.word.lower()] += 1
        return ", ".join(f"{n} {what}" for what, n in counts.items() if n)


def export_lines(user: User, run_id: int) -> ExportLines:
    """Cost: a few queries, and the reading of one JSON file for each target.

    Raises:
        NotFound: the run is not there for this user.
    """
    rows = exports_of(user, run_id)
    newest = [row for row in rows if row.is_newest]
    attempts = _attempts([row.id for row in newest])
    lines = [_line(user, row, attempts.get(row.id)) for row in newest]
    return ExportLines(lines, [ExportLine(row, None, None, None) for row in rows if not row.is_newest])


def _line(user: User, row: ExportRow, attempt: int | None) -> ExportLine:
    if not row.has_files:
        return ExportLine(row, None, None, attempt)
    try:
        return ExportLine(row, export_report_of(export_for(user, row.id)), None, attempt)
    except FoveaError as problem:
        return ExportLine(row, None, problem, attempt)


def _attempts(job_ids: Sequence[int]) -> dict[int, int]:
    found = Attempt.objects.filter(job__in=job_ids).values("job_id").annotate(newest=Max("n"))
    return {each["job_id"]: each["newest"] for each in found}


def _only(texts: set[str]) -> str:
    return next(iter(texts)) if len(texts) == 1 else ""


def _latency(speed: Speed | None, batch: int) -> Latency | None:
    return next((each for each in speed.latencies if each.batch == batch), None) if speed else None


def _signed(points: float) -> str:
    if round(points, 2) == 0:
        return "0.00"
    return f"{points:+.2f}".replace("-", MINUS)


def _range(interval: Interval, factor: float, *, signed: bool) -> str:
    lower, upper = interval.lower * factor, interval.upper * factor
    if signed:
        return f"{_signed(lower)} to {_signed(upper)}"
    return f"{lower:.1f} {EN_DASH} {upper:.1f}"


def _small(value: float) -> str:
    """Two digits that count: ``0.00031``."""
    if value == 0:
        return "0"
    if value < 0.0001:
        digits, _, power = f"{value:.1e}".partition("e-")
        return f"{digits}e{MINUS}{int(power)}"
    return f"{value:.2g}"
