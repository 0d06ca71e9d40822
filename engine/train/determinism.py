"""How exactly a device repeats itself, and what it said when it could not."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

import torch

_NO_FIXED_ORDER: Final = re.compile(r"^(\S+) does not have a deterministic implementation")
_CUBLAS: Final = "CUBLAS_WORKSPACE_CONFIG"


class Determinism:
    """Within it, torch computes as ``wanted`` says; afterwards as before.

    Operations that cannot be had in a fixed order are computed all the same, and their names kept. Cost where it is not
    wanted: none, and the fastest kernels are searched for, which pays because sizes stay the same.

    Args:
        wanted: the option of that name.
        known: operations that earlier attempts met.
    """

    def __init__(self, *, wanted: bool, known: Iterable[str] = ()) -> None:
        self.wanted = wanted
        self._operations = set(known)
        self._stack = ExitStack()

    @property
    def operations(self) -> list[str]:
        """Those that have no fixed order on this device, as torch names them."""
        return sorted(self._operations)

    def __enter__(self) -> Self:
        keep = self._stack.callback
        keep(setattr, torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
        torch.backends.cudnn.benchmark = not self.wanted
        if not self.wanted:
            return self
        keep(
            torch.use_deterministic_algorithms,
            torch.are_deterministic_algorithms_enabled(),
            warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        torch.use_deterministic_algorithms(True, warn_only=True)  # noqa: FBT003 - torch's own signature
        filling: Any = torch.utils.deterministic
        keep(setattr, filling, "fill_uninitialized_memory", filling.fill_uninitialized_memory)
        filling.fill_uninitialized_memory = False  # nothing here reads what it has not written
        if _CUBLAS not in os.environ:  # read when the first matrix is multiplied on a GPU
            keep(os.environ.pop, _CUBLAS, None)
            os.environ[_CUBLAS] = ":4096:8"
        self._stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("always", message=_NO_FIXED_ORDER.pattern)
        self._shown = warnings.showwarning
        warnings.showwarning = self._note
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _note(self, message: Warning | str, *about: Any, **more: Any) -> None:
        if found := _NO_FIXED_ORDER.match(str(message)):
            self._operations.add(found[1])
        else:
            self._shown(message, *about, **more)
