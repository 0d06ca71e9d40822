from __future__ import annotations

import os
import warnings
from types import SimpleNamespace

import pytest
import torch

from engine.device import choose_device, n_physical_cores
from engine.train.precision import choose_precision
from wire.errors import DeviceMissing, DriverMismatch

pytestmark = pytest.mark.slow


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A GPU as torch describes it; nothing is computed on it."""
    properties = SimpleNamespace(name="NVIDIA H200", uuid="1-2-3", major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    return properties


def test_auto_is_the_gpu_where_there_is_one(gpu):
    device = choose_device("auto")
    assert (device.torch, device.label, device.uuids) == (torch.device("cuda", 0), "NVIDIA H200", ("GPU-1-2-3",))
    assert choose_device("cpu").torch == torch.device("cpu")


def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").torch == torch.device("cpu")
    with pytest.raises(DeviceMissing, match="sees none"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("capability", "expected"), [((7, 5), "fp32"), ((8, 0), "bf16"), ((8, 6), "bf16"), ((9, 0), "bf16")]
)
def test_auto_precision_follows_the_devices_units(gpu, capability, expected):
    gpu.major, gpu.minor = capability
    assert choose_precision("auto", choose_device("cuda")).name == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("avx2 fma", "fp32"), ("avx512f avx512_bf16", "bf16"), ("amx_bf16 amx_tile", "bf16"), ("xavx512_bf16", "fp32")],
)
def test_a_cpu_has_bf16_by_its_flags(flags, expected, monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: fpu {flags}\n")
    monkeypatch.setattr("engine.device._CPUINFO", tmp_path / "cpuinfo")
    assert choose_precision("auto", choose_device("cpu")).name == expected
    monkeypatch.setattr("engine.device._CPUINFO", tmp_path / "nothing")
    assert choose_precision("auto", choose_device("cpu")).name == "fp32"


@pytest.mark.parametrize(("wanted", "scales"), [("fp32", False), ("bf16", False), ("fp16", True)])
def test_only_fp16_scales_its_loss(wanted, scales):
    precision = choose_precision(wanted, choose_device("cpu"))
    assert precision.scaler.is_enabled() == scales
    with precision.autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted]


def test_threads_of_one_core_count_once(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr("engine.device._core_of", lambda cpu: ("0", str(cpu // 2)))
    monkeypatch.setattr("engine.device._quota_cores", lambda: None)
    assert n_physical_cores() == 2


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", 8), ("250000 100000", 3), ("50000 100000", 1), ("nonsense", 8)]
)
def test_a_containers_quota_is_heeded(quota, expected, monkeypatch, tmp_path):
    (tmp_path / "cpu.max").write_text(quota + "\n")
    monkeypatch.setattr("engine.device._CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("engine.device._core_of", lambda cpu: (str(cpu),))
    assert n_physical_cores() == expected


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).", DriverMismatch),
        ("CUDA initialization: something else", DeviceMissing),
    ],
)
def test_a_gpu_that_its_driver_keeps_from_us_is_told_as_such(told, kind, monkeypatch):
    """Torch only warns, and computes on the CPU."""

    def is_available() -> bool:
        warnings.warn(told, stacklevel=1)
        return False

    monkeypatch.setattr("torch.cuda.is_available", is_available)
    with pytest.raises(kind) as raised:
        choose_device("cuda")
    assert raised.value.hint
    if kind is DriverMismatch:
        assert "11040" in raised.value.message
