"""What usually lies behind an error, in a sentence, with the fixes that usually help. Pure: texts in, words out."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Cause:
    title: str
    """What happened, as a heading."""
    sentence: str
    """Why that happens."""
    fixes: tuple[str, ...] = ("again",)
    """Names of ``jobs.fixes``, the best first; those that do not fit the job are left out."""


DEVICE_MEMORY: Final = Cause(
    "The GPU ran out of memory",
    "The network, its gradients and one batch of images need more memory than the GPU has free.",
    ("smaller_batch", "smaller_image", "bf16"),
)
HOST_MEMORY: Final = Cause(
    "The machine ran out of memory (RAM)",
    "The run asked for more memory than the machine, or its container, has left; the system ended it to protect the "
    "rest.",
    ("smaller_batch", "smaller_image", "again"),
)
NOT_FINITE: Final = Cause(
    "The loss left the range of numbers",
    "The steps were too large for this network and these images: the weights grew until the loss was infinite, or no "
    "number at all.",
    ("lower_rate", "fp32"),
)
DISK: Final = Cause(
    "The disk is full",
    "There was no room for what the job had to write; what it had written before is kept.",
)
DRIVER: Final = Cause(
    "The GPU driver and the software do not fit together",
    "The driver was updated without a restart of the machine, or is too old for this version of PyTorch; no run can "
    "use the GPU until that is mended.",
    ("on_cpu", "again"),
)
DEVICE_LOST: Final = Cause(
    "The GPU stopped answering",
    "The GPU failed while the run used it: a hardware fault, its power or its slot.",
    ("any_device", "again"),
)
KILLED: Final = Cause(
    "Something ended the run's process from outside",
    "The process was killed by SIGKILL, and not by Fovea: by the system, an administrator, or a batch or container "
    "system whose limit it had reached.",
    ("again", "smaller_batch"),
)
CRASHED: Final = Cause(
    "The run's process crashed",
    "A library ended the process without a word of its own, which is a fault of that library, of the driver or of the "
    "machine's memory, and rarely of the settings.",
)
SHARED_MEMORY: Final = Cause(
    "The run's process could not reach memory it was given",
    "A file that was mapped into memory shrank or its disk failed, or the container has too little shared memory.",
)
HUNG: Final = Cause(
    "The run hung",
    "It made no step for much longer than its steps take, again and again; where each thread stood is kept with the "
    "attempt.",
)
GIVEN_UP: Final = Cause(
    "The run was given up",
    "Its process ended several times in a row without getting further.",
)
DATASET: Final = Cause(
    "The images are not there any more",
    "Files of the dataset were deleted, moved or changed while the run needed them.",
    ("import_again",),
)
LABELS: Final = Cause(
    "An image has a class that the network does not know",
    "The dataset's index and its list of classes do not fit together: it was changed by hand, or an import went wrong.",
    ("import_again",),
)
CHECKPOINTS: Final = Cause(
    "None of the run's checkpoints can be used",
    "Checkpoints were saved, and all of them are damaged now, or the events that name them are lost; they are kept as "
    "they are, and nothing was begun from zero unasked.",
    ("begin_anew",),
)
START_WEIGHTS: Final = Cause(
    "The weights to start from cannot be used",
    "The checkpoint or the published weights that the run begins with are missing, damaged or of another network.",
    ("from_scratch", "again"),
)
DEVICE_MISSING: Final = Cause(
    "The device that the run asks for is not there",
    "The process saw no such device: its driver is not loaded, or the device was taken out.",
    ("any_device", "on_cpu", "again"),
)
SETTINGS: Final = Cause(
    "The settings do not fit together",
    "The run was stopped before it began, because something in its settings cannot be.",
    (),
)
UNKNOWN: Final = Cause(
    "The run stopped with an error that Fovea does not know",
    "The last lines of the log are the best hint; the whole traceback is at its end.",
)

BY_CODE: Final[dict[str, Cause]] = {
    "device.out_of_memory": DEVICE_MEMORY,
    "host.out_of_memory": HOST_MEMORY,
    "loss.not_finite": NOT_FINITE,
    "disk.full": DISK,
    "device.driver_mismatch": DRIVER,
    "device.lost": DEVICE_LOST,
    "device.missing": DEVICE_MISSING,
    "process.hung": HUNG,
    "dataset.missing": DATASET,
    "dataset.invalid": DATASET,
    "labels.out_of_range": LABELS,
    "checkpoint.none_intact": CHECKPOINTS,
    "checkpoint.missing": START_WEIGHTS,
    "checkpoint.damaged": START_WEIGHTS,
    "weights.missing": START_WEIGHTS,
    "weights.mismatch": START_WEIGHTS,
    "spec.invalid": SETTINGS,
}
BY_SIGNAL: Final[dict[int, Cause]] = {
    signal.SIGKILL: KILLED,
    signal.SIGBUS: SHARED_MEMORY,
    signal.SIGSEGV: CRASHED,
    signal.SIGABRT: CRASHED,
    signal.SIGILL: CRASHED,
    signal.SIGFPE: CRASHED,
}
BY_WORDS: Final[tuple[tuple[re.Pattern[str], Cause], ...]] = (
    (re.compile(r"\(RAM\)|DefaultCPUAllocator|Cannot allocate memory|MemoryError"), HOST_MEMORY),
    (re.compile(r"CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED|out of memory", re.IGNORECASE), DEVICE_MEMORY),
    (re.compile(r"No space left on device|Disk quota exceeded"), DISK),
    (re.compile(r"version mismatch|driver (?:on your system )?is too old|CUDA driver version", re.IGNORECASE), DRIVER),
    (re.compile(r"fallen off the bus|GPU is lost|Xid \d+"), DEVICE_LOST),
    (re.compile(r"insufficient shared memory|Bus error"), SHARED_MEMORY),
    (re.compile(r"`t >= 0 && t < n_classes`|Target \d+ is out of bounds"), LABELS),
)
"""Of errors that say no code of their own; the first that is found counts."""
SILENT: Final = frozenset({"unexpected", "attempts.exhausted", ""})
"""Codes that say nothing of the cause."""


def cause_of(code: str, message: str, log_tail: str = "", signal_number: int | None = None) -> Cause:
    """What lies behind an error.

    Args:
        code: of ``wire.errors``.
        message: what the error said.
        log_tail: the last lines of the log.
        signal_number: what ended the last process, if a signal did.
    """
    if code == "device.out_of_memory" and "(RAM)" in message:
        return HOST_MEMORY
    if code not in SILENT:
        return BY_CODE.get(code, UNKNOWN)
    for words, cause in BY_WORDS:
        if words.search(message) or words.search(log_tail):
            return cause
    if signal_number in BY_SIGNAL:
        return BY_SIGNAL[signal_number]
    return GIVEN_UP if code == "attempts.exhausted" else UNKNOWN
