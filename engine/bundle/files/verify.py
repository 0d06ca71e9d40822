"""Says whether this bundle is whole and still answers as it was measured: ``python verify.py``; 0 means PASS.

First every file is held against SHA256SUMS. Then the golden images go through each model: ONNX models through ONNX
Runtime, the weights through PyTorch and engines through TensorRT, where those are installed. What could not be run is
told, and is no reason to fail.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
SUMS = "SHA256SUMS"
NOT_OURS = ("__pycache__", "rebuilt")
"""Folders that come into being by using the bundle; nor is a folder looked into that begins with a dot."""
PROGRAMS = (".py", ".pyc", ".pyd", ".so")
"""Endings of what Python takes for a module: one that lies here goes before the library of its name."""

Row: TypeAlias = tuple[str, str, str]
"""What it is, PASS, FAIL or NOT RUN, and why."""


def listed() -> dict[str, str]:
    """Path -> hash."""
    lines = (HERE / SUMS).read_text(encoding="ascii").splitlines()
    return {path: sha256 for sha256, _, path in (line.partition("  ") for line in lines)}


def present(folder: Path = HERE) -> Iterator[str]:
    """Paths of all files that are here, but for the list itself."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            is_venv = (path / "pyvenv.cfg").exists() and not any(path.glob("__init__.*"))
            if not is_venv and not path.name.startswith(".") and path.name not in NOT_OURS:
                yield from present(path)
        elif path != HERE / SUMS:
            yield path.relative_to(HERE).as_posix()


def check_files() -> dict[str, str]:
    """Path -> what is wrong with it."""
    try:
        sums = listed()
    except (OSError, ValueError):
        return {SUMS: "missing"}
    found = set(present())
    problems = dict.fromkeys(sums.keys() - found, "missing")
    problems |= dict.fromkeys(found - sums.keys(), "not listed")
    for path in sums.keys() & found:
        if not (HERE / path).is_file():
            problems[path] = "not a plain file"
            continue
        with (HERE / path).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sums[path]:
                problems[path] = "changed"
    return dict(sorted(problems.items()))


def is_program(path: str) -> bool:
    return path.lower().endswith(PROGRAMS)


def judged(name: str, cases: list[dict[str, Any]], probabilities: Callable[[bytes], Any]) -> Row:
    """Every golden image through one model; ``probabilities`` takes the bytes of a PNG."""
    import numpy as np

    if not cases:
        return name, "NOT RUN", "the bundle has no golden images of it"
    largest, tolerance = 0.0, max(case["tolerance"] for case in cases)
    for case in cases:
        expected = np.asarray(case["probabilities"])
        answer = np.asarray(probabilities((HERE / case["image"]).read_bytes()))
        difference = float(np.abs(answer - expected).max()) if answer.shape == expected.shape else float("nan")
        if not difference <= case["tolerance"]:
            return name, "FAIL", f"{case['image']}: differs by {difference:.2g}, and may by {case['tolerance']:.2g}"
        largest = max(largest, difference)
    return name, "PASS", f"{len(cases)} images, differ by {largest:.2g} at most, and may by {tolerance:.2g}"


def onnx_row(model: dict[str, Any], cases: list[dict[str, Any]]) -> Row:
    from predict import Model, decode

    loaded = Model(model["name"])
    return judged(model["name"], cases, lambda data: loaded.probabilities(decode(data)))


def weights_row(model: dict[str, Any], cases: list[dict[str, Any]]) -> Row:
    building = model["building"]
    if building is None:
        return model["name"], "NOT RUN", "its network is not one that load_weights.py can build"
    needed = ["torch", "safetensors", building["module"].partition(".")[0]]
    missing = [name for name in needed if name != "network" and importlib.util.find_spec(name) is None]
    if missing:
        return model["name"], "NOT RUN", f"not installed: {', '.join(missing)}"
    sys.path.insert(0, str(HERE / "weights"))
    from load_weights import load, probabilities

    network = load()
    return judged(model["name"], cases, lambda data: probabilities(network, data))


def engine_row(model: dict[str, Any], cases: list[dict[str, Any]]) -> Row:
    from predict import decode
    from run_engine import Engine, WhyNot

    try:
        engine = Engine(model)
    except WhyNot as reason:
        return model["name"], "NOT RUN", str(reason)
    return judged(model["name"], cases, lambda data: engine.probabilities(decode(data)))


def row_of(model: dict[str, Any], cases: list[dict[str, Any]], problems: dict[str, str]) -> Row:
    spoilt = [file["path"] for file in model["files"] if file["path"] in problems]
    spoilt += [case["image"] for case in cases if case["image"] in problems]
    if spoilt:
        return model["name"], "FAIL", f"not run: {spoilt[0]} is {problems[spoilt[0]]}"
    run = onnx_row if model["onnx"] else weights_row if model["backend"] == "pytorch" else engine_row
    try:
        return run(model, cases)
    except ModuleNotFoundError as error:
        return model["name"], "NOT RUN", f"not installed: {error.name}"
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises, the others are still tried
        return model["name"], "FAIL", f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def main() -> int:
    problems = check_files()
    for path, problem in problems.items():
        print(f"FILE     {ascii(path)[1:-1]}: {problem}")
    if not problems:
        print(f"FILES    {len(listed())}, all as they were")
    if {SUMS, "bundle.json", "golden.json"} & problems.keys() or any(map(is_program, problems)):
        print("FAIL     not run: what is needed to run the models is not as it was")
        return 1
    index = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
    golden = json.loads((HERE / "golden.json").read_text(encoding="utf-8"))["cases"]
    rows = [row_of(one, [case for case in golden if case["model"] == one["name"]], problems) for one in index["models"]]
    width = max(len(name) for name, _, _ in rows)
    for name, verdict, why in rows:
        print(f"{verdict:8} {name:{width}}  {why}")
    passed = not problems and all(verdict != "FAIL" for _, verdict, _ in rows)
    if passed and all(verdict != "PASS" for _, verdict, _ in rows):
        print("PASS, for the files alone: no model could be run here")
    else:
        print("PASS" if passed else "FAIL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
