"""Shapes that several operations share."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from ninja import Schema
from pydantic import Field

Count: TypeAlias = Annotated[int, Field(ge=0)]
JobId: TypeAlias = Annotated[int, Field(ge=1, lt=2**63)]
Page: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]


class ErrorWords(Schema):
    code: str
    message: str
    hint: str
    fields: dict[str, str]
    """What is wrong where, for a request that does not fit its schema."""


class ErrorBody(Schema):
    error: ErrorWords


REFUSED: Final = frozenset({400, 401, 403, 404, 409, 422})


def answers(body: Any, *, status: int = 200) -> dict[Any, Any]:
    """What an operation may answer: this, or an error."""
    return {status: body, REFUSED: ErrorBody}
