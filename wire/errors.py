"""Every error that a person can meet, as a tree.

FoveaError                      code, message (names the thing and its value), hint (the next action)
├── UserError                   theirs to mend: the job ends FAILED
│   ├── SpecInvalid             spec.invalid
│   ├── DatasetInvalid          dataset.invalid
│   ├── DatasetMissing          dataset.missing
│   ├── ArchiveInvalid          archive.invalid
│   ├── UploadMissing           upload.missing
│   ├── UploadRefused           upload.refused
│   ├── ImageInvalid            image.invalid
│   ├── WeightsMissing          weights.missing
│   ├── WeightsMismatch         weights.mismatch
│   ├── CheckpointMissing       checkpoint.missing
│   ├── CheckpointDamaged       checkpoint.damaged
│   ├── NoCheckpointIntact      checkpoint.none_intact
│   ├── BackupDamaged           backup.damaged
│   ├── OperatorRefused         export.operator_refused
│   ├── EngineNotBuilt          export.not_built
│   ├── CalibrationTooSmall     export.calibration_too_small
│   ├── LossNotFinite           loss.not_finite
│   ├── LabelsOutOfRange        labels.out_of_range
│   ├── OutOfMemory             device.out_of_memory
│   ├── HostOutOfMemory         host.out_of_memory
│   ├── DeviceMissing           device.missing
│   ├── ActionRefused           action.refused
│   └── NotFound                not_found
└── SystemFault                 ours to mend: the job ends ERRORED, the traceback is in the log
    ├── DiskFull                disk.full
    ├── DeviceLost              device.lost
    ├── DriverMismatch          device.driver_mismatch
    ├── Hung                    process.hung
    ├── DatabaseUnavailable     database.unavailable
    ├── JobLocked               job.locked
    ├── ServeUnavailable        serve.unavailable
    ├── AttemptsExhausted       attempts.exhausted
    ├── Unattended              attempt.unattended
    └── Unexpected              unexpected
"""

from __future__ import annotations

from typing import ClassVar


class FoveaError(Exception):
    """An error with a stable code, a message that names the thing, and the next action as a hint."""

    code: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(FoveaError):
    pass


class SpecInvalid(UserError):
    code = "spec.invalid"


class DatasetInvalid(UserError):
    code = "dataset.invalid"


class DatasetMissing(UserError):
    code = "dataset.missing"


class ArchiveInvalid(UserError):
    """The file is no archive, is cut short, or holds more than it may."""

    code = "archive.invalid"


class UploadMissing(UserError):
    """An upload that has expired, or was deleted."""

    code = "upload.missing"


class UploadRefused(UserError):
    """An upload that would not fit: the message says how much is missing."""

    code = "upload.refused"


class ImageInvalid(UserError):
    """What was brought to be looked at is no image that can be read."""

    code = "image.invalid"


class WeightsMissing(UserError):
    code = "weights.missing"


class WeightsMismatch(UserError):
    code = "weights.mismatch"


class CheckpointMissing(UserError):
    code = "checkpoint.missing"


class CheckpointDamaged(UserError):
    code = "checkpoint.damaged"


class NoCheckpointIntact(UserError):
    """There are checkpoints and none can be used: whether to begin anew is for a person to say."""

    code = "checkpoint.none_intact"


class BackupDamaged(UserError):
    """A backup that is not whole, or no backup at all."""

    code = "backup.damaged"


class OperatorRefused(UserError):
    """The model computes something that the target does not know; the message names it."""

    code = "export.operator_refused"


class EngineNotBuilt(UserError):
    """The target's own compiler gave no engine."""

    code = "export.not_built"


class CalibrationTooSmall(UserError):
    """Too few training images to find the ranges of INT8 values."""

    code = "export.calibration_too_small"


class LossNotFinite(UserError):
    code = "loss.not_finite"


class LabelsOutOfRange(UserError):
    """A label that the network has no output for."""

    code = "labels.out_of_range"


class OutOfMemory(UserError):
    code = "device.out_of_memory"


class HostOutOfMemory(UserError):
    """The system ended the process because the machine's memory, or the container's, was used up."""

    code = "host.out_of_memory"


class DeviceMissing(UserError):
    code = "device.missing"


class ActionRefused(UserError):
    """The request is understood and may not be done now, for example because something depends on the object."""

    code = "action.refused"


class NotFound(UserError):
    code = "not_found"


class SystemFault(FoveaError):
    pass


class DiskFull(SystemFault):
    code = "disk.full"


class DeviceLost(SystemFault):
    """The GPU does not answer its driver any more."""

    code = "device.lost"


class DriverMismatch(SystemFault):
    """The GPU's driver is older than PyTorch was built for, or does not match its own library."""

    code = "device.driver_mismatch"


class Hung(SystemFault):
    """No step for much longer than steps take; the stacks of all threads are in the log."""

    code = "process.hung"


class DatabaseUnavailable(SystemFault):
    code = "database.unavailable"


class JobLocked(SystemFault):
    """Another process holds the job's folder."""

    code = "job.locked"


class ServeUnavailable(SystemFault):
    """The service that draws pictures and tries models does not answer."""

    code = "serve.unavailable"


class AttemptsExhausted(SystemFault):
    code = "attempts.exhausted"


class Unattended(SystemFault):
    """Why an attempt stopped by itself; another one follows."""

    code = "attempt.unattended"


class Unexpected(SystemFault):
    code = "unexpected"


def error_codes() -> dict[str, type[FoveaError]]:
    """Every code there is, with the class that carries it."""
    found: dict[str, type[FoveaError]] = {}
    pending: list[type[FoveaError]] = [FoveaError]
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if cls.code:
            found[cls.code] = cls
    return found
