"""Facts a running job states about itself, in the order it states them.

The engine appends them to ``events.jsonl``; the supervisor copies them to the database and to Redis; the browser draws
them. Each reader keeps one number, the last ``seq`` it has seen, and asks for what came after.

A new metric is a new series name, never a new kind. Fields are added with defaults and never renamed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

SCHEMA_VERSION = 1

Outcome: TypeAlias = Literal["succeeded", "failed", "errored", "cancelled", "paused"]
Nonfinite: TypeAlias = Literal["nan", "inf", "-inf"]


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class SeriesInfo(_Event):
    """One curve: ``split/name`` (``train/loss``, ``val/top1``, ``lr``, ``gpu0/memory_gib``), declared once."""

    name: str
    unit: str = ""
    better: Literal["lower", "higher", ""] = ""


class AttemptStarted(_Event):
    """A process began, or began again from the checkpoint of ``from_step``.

    Points of earlier attempts with a step greater than ``from_step`` are superseded by what this attempt will write.
    """

    kind: Literal["attempt.started"] = "attempt.started"
    n: int = Field(ge=1)
    from_step: int = Field(default=0, ge=0)
    schema_version: int = SCHEMA_VERSION
    total_steps: int = 0
    steps_per_epoch: int = 0
    series: tuple[SeriesInfo, ...] = ()


class Progress(_Event):
    """``done`` of ``total`` in the present stage; a total of 0 means unknown."""

    kind: Literal["progress"] = "progress"
    stage: str
    done: int
    total: int


class Scalars(_Event):
    """Values of several series at one step; a value that is not finite is null here and named in ``nonfinite``."""

    kind: Literal["scalars"] = "scalars"
    step: int
    values: dict[str, float | None]
    nonfinite: dict[str, Nonfinite] = Field(default_factory=dict)


class Notice(_Event):
    """Something a person should read on the run page; warnings and above also stand in the log."""

    kind: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    code: str
    text: str


class ArtifactMade(_Event):
    """A file or folder is complete and durable. ``path`` is relative to the job's directory."""

    kind: Literal["artifact.made"] = "artifact.made"
    artifact: Literal["dataset", "checkpoint", "report", "predictions", "export"]
    name: str
    path: str
    sha256: str
    bytes: int
    meta: dict[str, Any] = Field(default_factory=dict)


class ArtifactDropped(_Event):
    """An artifact of this job was removed by its own retention rule."""

    kind: Literal["artifact.dropped"] = "artifact.dropped"
    name: str
    reason: str


class CheckpointBest(_Event):
    """The best checkpoint so far, by ``series``."""

    kind: Literal["checkpoint.best"] = "checkpoint.best"
    step: int
    series: str
    value: float
    artifact: str


class RunEnded(_Event):
    """The attempt's last word. ``code``, ``message`` and ``hint`` are those of ``wire.errors``."""

    kind: Literal["run.ended"] = "run.ended"
    outcome: Outcome
    code: str = ""
    message: str = ""
    hint: str = ""


Event: TypeAlias = Annotated[
    AttemptStarted | Progress | Scalars | Notice | ArtifactMade | ArtifactDropped | CheckpointBest | RunEnded,
    Field(discriminator="kind"),
]


class Envelope(BaseModel):
    """An event with its place in the job: ``seq`` counts from 1 without gaps, over all attempts."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)

    seq: int = Field(ge=1)
    at: datetime
    event: Event


ENVELOPE: TypeAdapter[Envelope] = TypeAdapter(Envelope)
