"""One folder a class: the layout most people have."""

from __future__ import annotations

from wire.cards import FormatCard

CARD = FormatCard(
    name="folder",
    label="Class folders",
    summary="One folder for each class, named after it; may lie below train, val and test.",
    implementation="engine.formats.folder.reader:FolderFormat",
    task="classification",
)
