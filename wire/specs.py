"""What a job is asked to do: the content of ``spec.json``, all that the engine needs to know.

Options carry their own form: ``title`` is the label, ``description`` the help text, bounds are the field's own, and
``json_schema_extra`` may hold ``group`` (the form's section), ``unit``, ``labels`` (value -> label of a choice) and
``advanced``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

Resize: TypeAlias = Literal["squash", "crop", "fill", "half_crop"]
Colour: TypeAlias = Literal["rgb", "grey"]
Optimiser: TypeAlias = Literal["sgd", "nesterov", "adamw"]
Schedule: TypeAlias = Literal["cosine", "one_cycle", "step"]
Augmentation: TypeAlias = Literal["none", "shift", "flip", "photo", "strong"]
Precision: TypeAlias = Literal["auto", "fp32", "bf16", "fp16"]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


def _ui(group: str, *, unit: str = "", advanced: bool = False, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"group": group, "unit": unit, "advanced": advanced, "labels": labels or {}}


class TrainOptions(_Spec):
    """The choices of the training form, whatever the task and the model."""

    epochs: int = Field(15, ge=1, le=10_000, title="Epochs", json_schema_extra=_ui("Training"))
    batch_size: int = Field(64, ge=1, le=8192, title="Batch size", json_schema_extra=_ui("Training", unit="images"))
    image_px: int = Field(
        32,
        ge=8,
        le=1024,
        title="Image size",
        description="Height and width that the network sees.",
        json_schema_extra=_ui("Images", unit="px"),
    )
    resize: Resize = Field(
        "squash",
        title="Resize mode",
        description="How a picture of another shape becomes square.",
        json_schema_extra=_ui(
            "Images",
            labels={
                "squash": "Squash: ignore the aspect ratio",
                "crop": "Crop: keep the ratio, cut the longer side",
                "fill": "Fill: keep the ratio, pad the shorter side",
                "half_crop": "Half crop, half fill",
            },
        ),
    )
    colour: Colour = Field(
        "rgb", title="Colour", json_schema_extra=_ui("Images", labels={"rgb": "Colour (RGB)", "grey": "Greyscale"})
    )
    augmentation: Augmentation = Field(
        "none",
        title="Augmentation",
        description="Random changes to each training image, anew in each epoch.",
        json_schema_extra=_ui(
            "Images",
            labels={
                "none": "None",
                "shift": "Shift: small moves, turns and scaling (digits, text)",
                "flip": "Flip and shift (small photographs)",
                "photo": "Photo: random crop, flip, colour",
                "strong": "Strong: photo with turns and erased patches",
            },
        ),
    )
    optimiser: Optimiser = Field(
        "adamw",
        title="Optimiser",
        json_schema_extra=_ui(
            "Optimisation",
            labels={
                "sgd": "SGD with momentum",
                "nesterov": "SGD with Nesterov momentum",
                "adamw": "AdamW",
            },
        ),
    )
    learning_rate: float = Field(
        1e-3,
        gt=0,
        le=1e30,
        title="Learning rate",
        description="The highest value that the schedule reaches.",
        json_schema_extra=_ui("Optimisation"),
    )
    momentum: float = Field(
        0.9,
        ge=0,
        lt=1,
        title="Momentum",
        description="Used by SGD.",
        json_schema_extra=_ui("Optimisation", advanced=True),
    )
    weight_decay: float = Field(0.01, ge=0, le=10, title="Weight decay", json_schema_extra=_ui("Optimisation"))
    schedule: Schedule = Field(
        "cosine",
        title="Schedule",
        json_schema_extra=_ui(
            "Optimisation",
            labels={
                "cosine": "Cosine with warm-up",
                "one_cycle": "One cycle",
                "step": "Step: a tenth at 50 % and 75 %",
            },
        ),
    )
    warmup_pct: float = Field(
        5.0,
        ge=0,
        le=50,
        title="Warm-up",
        description="Share of all steps in which the learning rate rises.",
        json_schema_extra=_ui("Optimisation", unit="% of steps", advanced=True),
    )
    precision: Precision = Field(
        "auto",
        title="Precision",
        description="Auto is bf16 where the device has units for it, else fp32.",
        json_schema_extra=_ui(
            "Device",
            labels={
                "auto": "Auto",
                "fp32": "fp32",
                "bf16": "bf16 (mixed)",
                "fp16": "fp16 (mixed, dynamic loss scaling)",
            },
        ),
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, title="Seed", json_schema_extra=_ui("Training"))
    log_every: int = Field(
        0,
        ge=0,
        le=100_000,
        title="Log every",
        description="0 chooses about twenty points an epoch.",
        json_schema_extra=_ui("Training", unit="steps", advanced=True),
    )
    checkpoint_every: int = Field(
        0,
        ge=0,
        le=10_000_000,
        title="Checkpoint every",
        description="0 saves at the end of each epoch and, within long epochs, about once a minute.",
        json_schema_extra=_ui("Training", unit="steps", advanced=True),
    )


class Choice(_Spec):
    """A card by name, and the options it declares."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class FromScratch(_Spec):
    kind: Literal["scratch"] = "scratch"


class FromPublished(_Spec):
    """Weights named by the model's card; looked for in the mirror directory, then in the cache, then at their URL."""

    kind: Literal["published"] = "published"
    weights: str


class FromCheckpoint(_Spec):
    """The network of an earlier run; the head is made anew where the classes differ."""

    kind: Literal["checkpoint"] = "checkpoint"
    path: str
    """Relative to the job's folder."""


Init: TypeAlias = Annotated[FromScratch | FromPublished | FromCheckpoint, Field(discriminator="kind")]


class TrainSpec(_Spec):
    verb: Literal["train"] = "train"
    schema_version: int = 1
    dataset: str
    """Folder of the dataset, relative to the job's own."""
    task: Choice = Choice(name="classification")
    model: Choice
    init: Init = FromScratch()
    options: TrainOptions = TrainOptions()
    device: Literal["auto", "cpu", "cuda"] = "auto"


class FromSample(_Spec):
    """One of the datasets that Fovea brings along."""

    kind: Literal["sample"] = "sample"
    name: str


class FromFolder(_Spec):
    """A folder tree on this machine."""

    kind: Literal["folder"] = "folder"
    path: str


Source: TypeAlias = Annotated[FromSample | FromFolder, Field(discriminator="kind")]


class ImportOptions(_Spec):
    val_pct: float = Field(
        20.0,
        ge=0,
        le=90,
        title="Validation share",
        description="Taken from each class where no split is given.",
        json_schema_extra=_ui("Split", unit="%"),
    )
    test_pct: float = Field(0.0, ge=0, le=90, title="Test share", json_schema_extra=_ui("Split", unit="%"))
    seed: int = Field(0, ge=0, le=2**31 - 1, title="Seed", json_schema_extra=_ui("Split"))

    @model_validator(mode="after")
    def _something_is_left_to_train_on(self) -> ImportOptions:
        if self.val_pct + self.test_pct > 95:
            raise ValueError("validation and test together may take at most 95 %")
        return self


class ImportSpec(_Spec):
    verb: Literal["import"] = "import"
    schema_version: int = 1
    name: str
    task: str = "classification"
    format: str = "auto"
    source: Source
    options: ImportOptions = ImportOptions()


Spec: TypeAlias = Annotated[TrainSpec | ImportSpec, Field(discriminator="verb")]
SPEC: TypeAdapter[TrainSpec | ImportSpec] = TypeAdapter(Spec)


class ExitReport(_Spec):
    """``attempts/<n>/exit.json``: how the process ended, in its own words."""

    outcome: Literal["succeeded", "failed", "errored", "cancelled", "paused"]
    code: str = ""
    message: str = ""
    hint: str = ""
    last_seq: int = 0
