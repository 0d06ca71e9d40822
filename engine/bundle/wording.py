"""Names, numbers and tables as text that stays text: no name that somebody chose becomes markup, a line or a cell."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

UNKNOWN: Final = "not measured"
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#|~!$])")
_MOST_IN_A_NAME: Final = 60


def one_line(text: str) -> str:
    """Without line breaks and other control characters: each is written as Python writes it in a string."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def plain(text: str) -> str:
    """For Markdown: every sign that means something there is escaped."""
    escaped = html.escape(_MARKUP.sub(r"\\\1", one_line(text).strip()), quote=False)
    # An address of the web would become a link by itself.
    return escaped.replace("://", ":\\//").replace("www.", "www\\.")


def folder_name(title: str, otherwise: str) -> str:
    """A name that every file system takes: small letters, digits and hyphens."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join(words)[:_MOST_IN_A_NAME].strip("-") or otherwise


def percent(share: float | None, digits: int = 2) -> str:
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def size(n_bytes: int) -> str:
    return f"{n_bytes:,} bytes" if n_bytes < 10_000 else f"{n_bytes / 1e6:.2f} MB"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """Cells are Markdown already. ``numbers``: those behind the first column end at the right."""
    rule = [":--", *["--:" if numbers else ":--"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *rows])


def listing(items: Iterable[str]) -> str:
    return "".join(f"- {item}\n" for item in items)
