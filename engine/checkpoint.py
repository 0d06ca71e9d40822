"""The file of a checkpoint: written whole or not at all, and read without running anything that is in it.

The only user of ``torch.load``. A checkpoint holds tensors, numbers, strings, lists and dictionaries.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251 - only its name: torch.load raises it for what it refuses
from typing import Any, BinaryIO, TypeAlias, cast

import torch

from wire.errors import CheckpointDamaged, CheckpointMissing, WeightsMismatch

Payload: TypeAlias = dict[str, Any]

FORMAT = 1
_READ_AGAIN_AFTER_S = 1.0
"""A cable or a file server that fails for a moment makes no file a damaged one."""


@dataclass(frozen=True, slots=True)
class Written:
    sha256: str
    bytes: int


class _HashingFile:
    """A file that knows the hash of what went through it, so that no large file is read again.

    And what stopped it: torch says of a full disk that the file "is not where it was expected to be".
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.refused: OSError | None = None

    def write(self, data: bytes) -> int:
        self._sha256.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.refused = error
            raise

    def flush(self) -> None:
        self._file.flush()

    @property
    def written(self) -> Written:
        return Written(self._sha256.hexdigest(), self._file.tell())


def write_durable(payload: Payload, path: Path, *, scratch_dir: Path) -> Written:
    """Write beside, sync, rename, sync the folder: after a power cut the file is whole or absent.

    Where the disk does not take it, what was there before is as it was, and the room is given back.

    Cost: two fsyncs, and the time to write the tensors.

    Raises:
        OSError: the disk is full, or does not answer.
    """
    scratch_dir.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = scratch_dir / path.name
    try:
        written = _written(payload, beside)
        beside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(beside)  # an fsync does not know it
        raise
    _sync_folder(path.parent)
    return written


def _written(payload: Payload, path: Path) -> Written:
    with path.open("wb") as file:
        hashing = _HashingFile(file)
        try:
            torch.save({"format": FORMAT, **payload}, cast(BinaryIO, hashing))
        except Exception:
            if hashing.refused is not None:
                raise hashing.refused from None
            raise
        file.flush()
        os.fsync(file.fileno())
        return hashing.written


def read_checkpoint(path: Path, *, sha256: str = "") -> Payload:
    """What ``write_durable`` wrote, on the CPU.

    Raises:
        CheckpointMissing: there is no such file.
        CheckpointDamaged: it is not the announced one, or cannot be read.
    """
    if not path.is_file():
        raise CheckpointMissing(f"There is no checkpoint {path}.", hint="Choose another, or start from scratch.")
    hint = "Choose another checkpoint of that run."
    if sha256 and _sha256_of(path) != sha256:
        raise CheckpointDamaged(f"The checkpoint {path} is not the one that was written.", hint=hint)
    try:
        payload = _load(path)
    except (RuntimeError, EOFError, OSError, UnpicklingError) as error:
        if sha256 and not isinstance(error, UnpicklingError):
            raise  # the file is as it was written: what is missing is memory, or the disk does not answer
        raise CheckpointDamaged(f"The checkpoint {path} cannot be read.", hint=hint) from error
    if not isinstance(payload, dict) or payload.get("format") != FORMAT:
        raise CheckpointDamaged(f"{path} is not a checkpoint of this version of Fovea.", hint=hint)
    return payload


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """Named tensors of a published file, ``.safetensors`` or torch's own format.

    Raises:
        WeightsMismatch: the file holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = load_file(path) if path.suffix == ".safetensors" else _load(path)
    except (RuntimeError, EOFError, UnpicklingError, SafetensorError) as error:
        raise WeightsMismatch(f"{path} cannot be read as weights.", hint="Fetch the file again.") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsMismatch(f"{path} holds no plain table of weights.", hint="Export its state_dict alone.")
    return state


def _sha256_of(path: Path) -> str:
    """Of the file's bytes; empty where the medium does not give them back, not when it is asked again either."""
    with suppress(OSError):
        return _digest_of(path)
    time.sleep(_READ_AGAIN_AFTER_S)
    try:
        return _digest_of(path)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return ""


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 - the one place


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
