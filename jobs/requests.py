"""What a person asks for: the body of a submit, before it becomes a job with a spec."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from wire.specs import Choice, FromPublished, FromScratch, ImportOptions, Source, TrainOptions


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class CheckpointInit(_Request):
    """Begin from a checkpoint that an earlier run made."""

    kind: Literal["checkpoint"] = "checkpoint"
    artifact: int


InitRequest: TypeAlias = Annotated[FromScratch | FromPublished | CheckpointInit, Field(discriminator="kind")]


class TrainingRequest(_Request):
    title: str = Field("", max_length=200)
    dataset: int
    """Id of the import job that made the dataset."""
    model: Choice
    task: Choice = Choice(name="classification")
    init: InitRequest = FromScratch()
    options: TrainOptions = TrainOptions()
    devices: list[str] = Field(default_factory=lambda: ["any"], min_length=1)
    """``any``, ``cpu``, or the UUID of a device."""
    private: bool = False
    notes: str = ""
    retry_of: int | None = None


class ImportRequest(_Request):
    name: str = Field(min_length=1, max_length=200)
    source: Source
    options: ImportOptions = ImportOptions()
    format: str = "auto"
    private: bool = False
