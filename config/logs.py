"""How a line of the log looks: for people, or as one JSON object for whatever collects it.

Messages write the things that they are about as ``name=value``; those and the context become fields.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from datetime import UTC, datetime
from typing import Any, Final

from jobs.log_context import log_context

_NAMED: Final = re.compile(r"\b(job|attempt|device|upload|pid|gpu|host)=([\w.:-]+)")
_INVITATION: Final = re.compile(r"(/invite/)[^/\s]+")
TEXT_FORMAT: Final = "{asctime} {levelname} {name}: {message}{context}"


class WithContext(logging.Filter):
    """Adds ``context`` to a record, as the text to be put behind the message."""

    def filter(self, record: logging.LogRecord) -> bool:
        named = "".join(f" {name}={value}" for name, value in log_context().items())
        record.context = f" [{named[1:]}]" if named else ""
        return True


class WithoutInvitations(logging.Filter):
    """Django names the address of every answer of 400 and above; those of invitations let in whoever reads them."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if _INVITATION.search(message):
            record.msg, record.args = _INVITATION.sub(r"\1…", message), None
        return True


class JsonLines(logging.Formatter):
    """Time in UTC to the millisecond; numbers as numbers; what a fault left behind under ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            "host": socket.gethostname(),
            "process": os.getpid(),
            **{name: _number(value) for name, value in _NAMED.findall(message)},
            **log_context(),
        }
        if (status := getattr(record, "status_code", None)) is not None:
            line["status"] = status
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
