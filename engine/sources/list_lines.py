"""The lines of a text list, one by one: what each says, or why it cannot be used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Final

from wire.errors import DatasetInvalid

MAX_LINES: Final = 5_000_000
_MAX_LINE_BYTES: Final = 16 * 2**10
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_AS_UTF8: Final = "Save the list as plain text in UTF-8."


class LineRefused(ValueError):
    """Says why, as the end of the sentence "train.txt line 7 was left out: ..."."""


@dataclass(frozen=True, slots=True)
class Line:
    path: str
    label: str
    """The class's name, empty where the line gives none and need not."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How lines are read: the label is the last word, and the path before it may hold blanks."""

    classes: tuple[str, ...] | None
    """Labels count these from 0; None: the label is the name."""
    labels_needed: bool = True

    def line(self, text: str) -> Line:
        """What one line says.

        Raises:
            LineRefused: it has no label, or one that is no class.
        """
        path, label = self._split(text)
        if path.lower().startswith(("http://", "https://")):
            raise LineRefused("it is a web address; download the images first")
        if "\0" in path:
            raise LineRefused("its path holds a NUL character")
        if "\0" in label:
            raise LineRefused("its label holds a NUL character")
        return Line(path, label)

    def _split(self, text: str) -> tuple[str, str]:
        path, word = _last_word(text)
        if not self.labels_needed:
            return self._with_label_if_any(text, path, word)
        if not path:
            raise LineRefused("it has no label")
        return path, self._class_name(word)

    def _with_label_if_any(self, text: str, path: str, word: str) -> tuple[str, str]:
        """Where a line need not have a label, a path with blanks must not lose its end."""
        if not path or (self.classes is None and not PurePosixPath(path).suffix):
            return text, ""
        if self.classes is None:
            return path, word
        if not re.fullmatch(r"-?\d+", word):
            is_label = PurePosixPath(path).suffix and not PurePosixPath(word).suffix
            return path if is_label else text, ""
        try:
            return path, self._class_name(word)
        except LineRefused:
            return path, ""

    def _class_name(self, word: str) -> str:
        if self.classes is None:
            return word
        if not re.fullmatch(r"-?[0-9]{1,9}", word):
            raise LineRefused(f"its label {word[:40]!r} is no number that counts the lines of labels.txt")
        label = int(word)
        if not 0 <= label < len(self.classes):
            raise LineRefused(f"its label {label} is not in labels.txt, which has 0 to {len(self.classes) - 1}")
        return self.classes[label]


def lines_of(file: BinaryIO | Iterable[bytes], shown: str) -> Iterator[tuple[int, str]]:
    """Line numbers, counted from 1, and texts without blanks around; empty lines are passed over.

    Raises:
        DatasetInvalid: it is no UTF-8 text, or too long.
    """
    for number, raw in enumerate(_raw_lines(file), start=1):
        if number > MAX_LINES:
            raise DatasetInvalid(
                f"{shown} has more than {MAX_LINES:,} lines.", hint="Split it, and make several datasets."
            )
        if number == 1 and raw.startswith(_UTF16_BOMS):
            raise DatasetInvalid(f"{shown} is text in UTF-16.", hint=_AS_UTF8)
        if len(raw) > _MAX_LINE_BYTES:
            raise DatasetInvalid(
                f"{shown} line {number} has more than {_MAX_LINE_BYTES:,} bytes.", hint="Give one image a line."
            )
        try:
            text = (raw.removeprefix(_UTF8_BOM) if number == 1 else raw).decode().strip()
        except UnicodeDecodeError:
            raise DatasetInvalid(f"{shown} line {number} is not UTF-8.", hint=_AS_UTF8) from None
        if text:
            yield number, text


def class_names(file: BinaryIO | Iterable[bytes], shown: str) -> tuple[str, ...]:
    """A labels file: one class a line; blank lines may stand at its end alone, else all labels after would shift.

    Raises:
        DatasetInvalid: it names none, leaves a line out, or names a class twice.
    """
    line_of: dict[str, int] = {}
    for number, text in lines_of(file, shown):
        if number != len(line_of) + 1:
            raise DatasetInvalid(
                f"{shown} line {len(line_of) + 1} is empty.", hint="Give one class a line: labels count them from 0."
            )
        if "\0" in text:
            raise DatasetInvalid(f"{shown} line {number} holds a NUL character.", hint=_AS_UTF8)
        if text in line_of:
            raise DatasetInvalid(
                f"{shown} names the class {text!r} twice: line {line_of[text]} and line {number}.",
                hint="Give each class a name of its own.",
            )
        line_of[text] = number
    if not line_of:
        raise DatasetInvalid(f"{shown} is empty.", hint="Give one class a line: labels count them from 0.")
    return tuple(line_of)


def _last_word(text: str) -> tuple[str, str]:
    *path, word = text.rsplit(maxsplit=1)
    return "".join(path), word


def _raw_lines(file: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    if not hasattr(file, "readline"):
        yield from file
        return
    while raw := file.readline(_MAX_LINE_BYTES + 1):
        yield raw
