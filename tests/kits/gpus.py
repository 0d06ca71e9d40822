"""A machine with GPUs that are not there, for this process and for those that a test starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from tests.kits import fake_nvml
from tests.kits.fake_nvml import FakeGpus

SHIM = Path(__file__).parent / "pynvml_here"


@contextmanager
def fake_gpus(folder: Path, *, n: int = 2) -> Iterator[FakeGpus]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(fake_nvml.VARIABLE, str(folder / "gpus.json"))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SHIM), str(settings.BASE_DIR)]))
        patch.setitem(sys.modules, "pynvml", fake_nvml)
        yield FakeGpus(folder / "gpus.json", n=n)
