"""What all specs share: nothing unknown passes, nothing changes once made, and options carry their own form."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


def ui(group: str, *, unit: str = "", advanced: bool = False, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """For ``json_schema_extra``: where and how the form shows an option."""
    return {"group": group, "unit": unit, "advanced": advanced, "labels": labels or {}}
