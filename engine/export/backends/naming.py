"""What a runtime's device is called."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch

_CPUINFO: Final = Path("/proc/cpuinfo")


def device_name(device: torch.device) -> str:
    """``NVIDIA L4``, or ``CPU (Intel(R) Xeon(R) Processor @ 2.50GHz)``."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    model = _processor()
    return f"CPU ({model})" if model else "CPU"


def gpu_versions() -> dict[str, str]:
    """Of CUDA and of the driver, where there is a GPU."""
    if not torch.cuda.is_available() or not torch.version.cuda:
        return {}
    driver = _driver()
    return {"cuda": torch.version.cuda} | ({"driver": driver} if driver else {})


def _driver() -> str:
    """``580.95.05``; empty where its library does not answer."""
    import pynvml

    try:
        pynvml.nvmlInit()
        found = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return ""
    return found.decode() if isinstance(found, bytes) else str(found)


def _processor() -> str:
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
