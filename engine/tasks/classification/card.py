from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from wire.cards import TaskCard


class ClassificationOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        title="Label smoothing",
        description="Share of each target that is spread over all classes; 0.1 is common with many classes.",
        json_schema_extra={"group": "Optimisation"},
    )


CARD = TaskCard(
    name="classification",
    label="Classification",
    summary="One class for each image.",
    options=ClassificationOptions,
    implementation="engine.tasks.classification.task:Classification",
    main_series="val/top1",
    main_better="higher",
)
