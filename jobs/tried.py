"""Exports that are asked about single images: by the service that also asks checkpoints, on its processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User

from engine.catalog import backend_cards
from jobs.access import run_for
from jobs.exports import ExportOutcome, ExportRow, export_for, exports_of
from jobs.models import Artifact
from jobs.parts import made_dir
from wire.errors import NotFound

OUTCOMES: Final[dict[ExportOutcome, str]] = {"passed": "passed", "failed": "failed", "not_run": "not run", "": ""}


@dataclass(frozen=True, slots=True)
class TriedExport:
    row: ExportRow
    why_not: str
    """Without a full stop; empty where it can be asked."""

    @property
    def name(self) -> str:
        return export_name(self.row)

    @property
    def told(self) -> str:
        """Why it cannot be asked, else its verdict."""
        if self.why_not:
            return self.why_not
        earlier = "" if self.row.is_newest else f", an earlier one, #{self.row.id}"
        return f"{OUTCOMES[self.row.outcome]}{earlier}"


def export_name(row: ExportRow) -> str:
    """``ONNX INT8``; the weights are of one precision alone."""
    card = backend_cards().get(row.backend)
    has_several = card is None or len(card.precisions) > 1
    return f"{row.backend_label} {row.precision.upper()}" if has_several else row.backend_label


def exports_to_try(user: User, run_id: int) -> list[TriedExport]:
    """All that can be had, the newest of each target first. Raises ``NotFound`` where the run is not there."""
    return [TriedExport(row, why_not_tried(row)) for row in exports_of(user, run_id) if is_made(row)]


def is_made(row: ExportRow) -> bool:
    """It has files and a verdict: an export has the first for a moment before it has ended."""
    return row.has_files and bool(row.outcome)


def export_to_try(user: User, run_id: int, export_id: int) -> Artifact:
    """What the service is asked.

    Raises:
        NotFound: run or export are not there for this user, or it is an export of another run.
        ActionRefused: it made nothing, or not yet.
    """
    run = run_for(user, run_id)
    export = export_for(user, export_id)
    if export.part_of_id != run.pk:
        raise NotFound(f"Export #{export_id} is not one of {run.title}.", hint="Choose one from the page of the run.")
    made_dir(export)
    return Artifact.objects.get(made_by=export, kind="export", trashed_at=None)


def why_not_tried(row: ExportRow) -> str:
    card = backend_cards().get(row.backend)
    if card is None or card.missing:
        return "not run here: its runtime is not installed"
    if not card.needs_cuda:
        return ""
    # Even where there is a GPU, it is left to trainings.
    reason = row.reasons[0] if row.outcome == "not_run" and row.reasons else "images are tried on the processor"
    return f"not run here: {reason}"
