"""A training: the choices of its form, and the network it begins with."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from wire.specs.strict import Strict, ui

Resize: TypeAlias = Literal["squash", "crop", "fill", "half_crop"]
Colour: TypeAlias = Literal["rgb", "grey"]
Optimiser: TypeAlias = Literal["sgd", "nesterov", "adamw"]
Schedule: TypeAlias = Literal["cosine", "one_cycle", "step"]
Augmentation: TypeAlias = Literal["none", "shift", "flip", "photo", "strong"]
Precision: TypeAlias = Literal["auto", "fp32", "bf16", "fp16"]
BestBy: TypeAlias = Literal["accuracy", "loss"]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]


class TrainOptions(Strict):
    """The choices of the training form, whatever the task and the model."""

    epochs: int = Field(15, ge=1, le=10_000, title="Epochs", json_schema_extra=ui("Training"))
    batch_size: int = Field(64, ge=1, le=8192, title="Batch size", json_schema_extra=ui("Training", unit="images"))
    image_px: int = Field(
        32,
        ge=8,
        le=1024,
        title="Image size",
        description="Height and width that the network sees.",
        json_schema_extra=ui("Images", unit="px"),
    )
    resize: Resize = Field(
        "squash",
        title="Resize mode",
        description="How a picture of another shape becomes square.",
        json_schema_extra=ui(
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
        "rgb", title="Colour", json_schema_extra=ui("Images", labels={"rgb": "Colour (RGB)", "grey": "Greyscale"})
    )
    augmentation: Augmentation = Field(
        "none",
        title="Augmentation",
        description="Random changes to each training image, anew in each epoch.",
        json_schema_extra=ui(
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
        json_schema_extra=ui(
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
        json_schema_extra=ui("Optimisation"),
    )
    momentum: float = Field(
        0.9,
        ge=0,
        lt=1,
        title="Momentum",
        description="Used by SGD.",
        json_schema_extra=ui("Optimisation", advanced=True),
    )
    weight_decay: float = Field(0.01, ge=0, le=10, title="Weight decay", json_schema_extra=ui("Optimisation"))
    schedule: Schedule = Field(
        "cosine",
        title="Schedule",
        json_schema_extra=ui(
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
        json_schema_extra=ui("Optimisation", unit="% of steps", advanced=True),
    )
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        title="Averaged weights",
        description=(
            "Keeps a moving average of the weights, with this decay, and validates, saves and exports that instead. "
            "0 is off; 0.999 is usual. Early on the average forgets faster, so that short runs gain too."
        ),
        json_schema_extra=ui("Optimisation", advanced=True),
    )
    early_stopping_epochs: int = Field(
        0,
        ge=0,
        le=10_000,
        title="Stop early after",
        description=(
            "Ends the run when what the best checkpoint is chosen by has not improved for so many epochs. 0 is off."
        ),
        json_schema_extra=ui("Training", unit="epochs", advanced=True),
    )
    precision: Precision = Field(
        "auto",
        title="Precision",
        description="Auto is bf16 where the device has units for it, else fp32.",
        json_schema_extra=ui(
            "Device",
            labels={
                "auto": "Auto",
                "fp32": "fp32",
                "bf16": "bf16 (mixed)",
                "fp16": "fp16 (mixed, dynamic loss scaling)",
            },
        ),
    )
    deterministic: bool = Field(
        False,  # noqa: FBT003 - the default of a field
        title="Deterministic",
        description=(
            "Has a GPU add in a fixed order, so that a run repeats itself, and resumes exactly. It takes longer. "
            "On the CPU every run does."
        ),
        json_schema_extra=ui("Device", advanced=True),
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, title="Seed", json_schema_extra=ui("Training"))
    best_by: BestBy = Field(
        "accuracy",
        title="Best checkpoint by",
        description="On validation images; the best one is kept and evaluated.",
        json_schema_extra=ui("Training", advanced=True, labels={"accuracy": "Accuracy", "loss": "Loss"}),
    )
    keep_best: int = Field(
        1,
        ge=1,
        le=10,
        title="Best checkpoints to keep",
        description="So many of the best are kept, besides the two newest.",
        json_schema_extra=ui("Training", advanced=True),
    )
    log_every: int = Field(
        0,
        ge=0,
        le=100_000,
        title="Log every",
        description="0 chooses about twenty points an epoch.",
        json_schema_extra=ui("Training", unit="steps", advanced=True),
    )
    checkpoint_every: int = Field(
        0,
        ge=0,
        le=10_000_000,
        title="Checkpoint every",
        description="0 saves at the end of each epoch and, within long epochs, about once a minute.",
        json_schema_extra=ui("Training", unit="steps", advanced=True),
    )


class Choice(Strict):
    """A card by name, and the options it declares."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class FromScratch(Strict):
    kind: Literal["scratch"] = "scratch"


class FromPublished(Strict):
    """Weights named by the model's card; looked for in the mirror directory, then in the cache, then at their URL."""

    kind: Literal["published"] = "published"
    weights: str


class FromCheckpoint(Strict):
    """The network of an earlier run; the head is made anew where the classes differ."""

    kind: Literal["checkpoint"] = "checkpoint"
    path: str
    """Relative to the job's folder."""


Init: TypeAlias = Annotated[FromScratch | FromPublished | FromCheckpoint, Field(discriminator="kind")]


class TrainSpec(Strict):
    verb: Literal["train"] = "train"
    schema_version: int = 1
    dataset: str
    """Folder of the dataset, relative to the job's own."""
    task: Choice = Choice(name="classification")
    model: Choice
    init: Init = FromScratch()
    options: TrainOptions = TrainOptions()
    device: Device = "auto"
