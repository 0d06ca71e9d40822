"""Tables as CSV files, sent row by row, however long they are."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

ROWS_A_CHUNK: Final = 500
_WIDE = "\uff1d\uff0b\uff0d\uff20"
"""The same signs as a Japanese keyboard has them."""
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", *_WIDE)


def csv_cell(value: object) -> str:
    """The text of a cell; one that begins like a formula gets an apostrophe, for a spreadsheet would run it.

    Numbers are no formulas, whatever their sign.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def csv_response(filename: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> StreamingHttpResponse:
    """A download. ``rows`` is drawn from while it is sent, never as a whole."""
    response = StreamingHttpResponse(_chunks(header, iter(rows)), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = content_disposition_header(True, filename) or "attachment"  # noqa: FBT003
    return response


async def _chunks(header: Sequence[str], rows: Iterator[Sequence[object]]) -> AsyncIterator[str]:
    # Rows come from files and databases: they are read beside the event loop, one chunk at a time.
    yield _lines([header])
    while chunk := await sync_to_async(_some_of)(rows):
        yield _lines(chunk)


def _some_of(rows: Iterator[Sequence[object]]) -> list[Sequence[object]]:
    return list(islice(rows, ROWS_A_CHUNK))


def _lines(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([csv_cell(value) for value in row] for row in rows)
    return text.getvalue()
