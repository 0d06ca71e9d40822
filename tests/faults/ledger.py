"""The faults, by number, and the mark that says which of them a test is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import pytest

How = Literal["real", "scripted", "simulated"]
"""Real: what happens in the field happens. Scripted: the trainer is the scripted one. Simulated: something pretends."""

FAULTS: dict[str, str] = {
    "1": "Trainer killed in the middle of an epoch",
    "2": "Trainer killed while it writes a checkpoint",
    "3": "Trainer hangs",
    "4": "Trainer aborts",
    "5": "A job that dies in its first second, every time",
    "6": "Agent killed",
    "7": "Supervisor stopped for longer than its lease, then goes on",
    "8": "Celery worker killed while an import runs",
    "9": "Celery worker alive, but taking no messages",
    "10": "Celery beat dead; two of them",
    "11": "Redis killed and started again",
    "12": "Redis emptied",
    "13": "Redis away for long",
    "14": "Redis has no memory left",
    "15": "Database crashes and starts again",
    "16": "Database away for long",
    "17": "Database takes no more connections",
    "18": "Deadlock or serialisation error",
    "19": "Connection lost during COMMIT",
    "20": "Disk full during an upload",
    "21": "Disk full during an import",
    "22": "Disk full during a checkpoint",
    "23": "Disk of the database full",
    "24": "Little room left on the disk",
    "25": "Power lost",
    "26": "Newest checkpoint truncated, or a bit of it flipped",
    "27": "Every checkpoint bad",
    "28": "Device out of memory",
    "29": "Host out of memory",
    "30": "Loss not finite",
    "31": "GPU off the bus",
    "32": "GPU memory errors, and throttling",
    "33": "A stranger's process on our GPU",
    "34": "Worker host gone",
    "35": "Worker host cut off from the database",
    "36": "Clock set two hours forward or back",
    "37": "Every Celery message twice, and out of order",
    "38": "Every third Celery message lost",
    "39": "Damaged images in a dataset",
    "40": "Truncated or lying archive",
    "41": "Web server restarted during an upload",
    "42": "Client gone during an upload; two clients at the same upload",
    "43": "Browser asleep, then back",
    "44": "Upgrade while two jobs train",
}
ADDED: dict[str, str] = {
    "A1": "Cancelled while it starts",
    "A2": "Cancelled while it saves",
    "A3": "Cancelled twice",
    "A4": "A trainer that writes 1 GB of log",
    "A5": "A spec of the previous version",
    "A6": "Dataset file deleted under a running job",
    "A7": "A hundred reconnects a second",
}
TITLES = FAULTS | ADDED

Test = TypeVar("Test", bound=Callable[..., object])


def fault(number: str, *, title: str = "", how: How, inject: str = "") -> Callable[[Test], Test]:
    """Mark a test as one fault of the list. Its docstring says what is checked, for ``docs/faults.md``.

    Args:
        number: of the list, or one of the added ones. Several tests may share it: all of them must pass.
        title: what is special about this test; the list's own title where it is empty.
        how: how true to life it is.
        inject: with what the fault is made (``SIGKILL``, ``tmpfs of 2 MB``).
    """
    if number not in TITLES:
        raise KeyError(f"there is no fault {number!r}; add it to tests/faults/ledger.py")
    return pytest.mark.fault(number, title or TITLES[number], how, inject)
