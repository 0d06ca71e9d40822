"""Text lists of paths and labels, as DIGITS took them."""

from __future__ import annotations

from wire.cards import FormatCard

CARD = FormatCard(
    name="lists",
    label="Text lists",
    summary="train.txt with a path and a label a line; val.txt, test.txt and labels.txt may lie beside it.",
    implementation="engine.formats.lists.reader:ListsFormat",
    task="classification",
)
