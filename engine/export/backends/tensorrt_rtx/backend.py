"""Engines of TensorRT for RTX: each compiled by a process of its own, run by ``runtime.py`` where there is a GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from pydantic import ValidationError

import engine
from engine.export.backends import Asked, BuildJob, BuildStopped, Made
from engine.export.backends.files import write_whole
from engine.export.backends.naming import gpu_versions
from engine.export.backends.tensorrt_rtx.card import CARD, COMPUTE_CAPABILITIES, TensorRtRtxOptions
from wire.errors import ActionRefused, EngineNotBuilt, OperatorRefused, SpecInvalid
from wire.exports import FileRole, InputProfile
from wire.layout import ExportDir

if TYPE_CHECKING:
    from engine.export.backends.tensorrt_rtx.compile import Built, Order
    from engine.export.backends.tensorrt_rtx.runtime import TensorRtRtxRuntime

COMMAND: Final = (sys.executable, "-m", "engine.export.backends.tensorrt_rtx.compile")
_NAME: Final = CARD.label
_POLL_S: Final = 0.1
_LAST_WORDS_S: Final = 2.0
"""A stop goes to the whole process group, so the compiler may be gone a moment before the wish is known here."""
_PACKAGES: Final = ("tensorrt_rtx_cu13", "tensorrt_rtx_cu12", "tensorrt_rtx")
_TARGET_HINT: Final = "Export it as ONNX, which knows more, or train another model."


class TensorRtRtxBackend:
    wants_graph: Final = True

    def versions(self) -> dict[str, str]:
        for package in _PACKAGES:
            try:
                return {"tensorrt_rtx": version(package)} | gpu_versions()
            except PackageNotFoundError:
                continue
        return gpu_versions()

    def build(self, job: BuildJob) -> Made:
        assert job.graph is not None  # noqa: S101 - wants_graph
        _refuse_if_missing()
        options = _options(job)
        profile = InputProfile(**options.model_dump(exclude={"compute_capabilities"}))
        model = write_whole(job.folder.model_path, job.graph)
        files: list[tuple[FileRole, Path, str]] = [("source", model, "")]
        notes = []
        for wanted in options.compute_capabilities:
            path = job.folder.engine_path(wanted)
            built = _compile(model, path, wanted, profile, job.stop)
            notes.append(_note(wanted, built))
            job.tell(notes[-1])
            files.append(("engine", path, wanted))
        return Made(tuple(files), profile, tuple(notes))

    def why_not_run(self, folder: ExportDir, device: torch.device) -> str:
        if CARD.missing:
            return f"{_NAME} is not installed"
        if device.type != "cuda" or not torch.cuda.is_available():
            return "no CUDA device"
        present = compute_capability(device)
        if present not in COMPUTE_CAPABILITIES:
            return f"the GPU's compute capability {present} is not one that {_NAME} builds for"
        built = [name for name in COMPUTE_CAPABILITIES if folder.engine_path(name).is_file()]
        return "" if present in built else f"built for {', '.join(built) or 'none'}, this GPU has {present}"

    def open(self, folder: ExportDir, device: torch.device) -> TensorRtRtxRuntime:
        if reason := self.why_not_run(folder, device):
            raise ActionRefused(f"The engine cannot be run here: {reason}.", hint="Run it on a GPU it was built for.")
        from engine.export.backends.tensorrt_rtx.runtime import TensorRtRtxRuntime

        return TensorRtRtxRuntime(folder.engine_path(compute_capability(device)), device)


def compute_capability(device: torch.device) -> str:
    major, minor = torch.cuda.get_device_capability(device)
    return f"{major}.{minor}"


def _refuse_if_missing() -> None:
    if CARD.missing:
        raise SpecInvalid(
            f"{_NAME} is not installed here: {', '.join(CARD.missing)} cannot be imported.",
            hint="Install it on the machine that runs the jobs (requirements/base.in), or choose another target.",
        )


def _options(job: BuildJob) -> TensorRtRtxOptions:
    try:
        return TensorRtRtxOptions.model_validate(job.options)
    except ValidationError as error:
        raise SpecInvalid(f"Options of {_NAME}: {error.errors()[0]['msg']}.", hint="Correct them.") from error


def _compile(model: Path, path: Path, wanted: str, profile: InputProfile, stop: Asked) -> Built:
    from engine.export.backends.tensorrt_rtx.compile import RESULT, Built, NotBuilt, NotWritten, Order, Refused

    output = _run(Order(model=model, engine=path, compute_capability=wanted, profile=profile), stop)
    match RESULT.validate_json(output):
        case Built() as built:
            return built
        case Refused(operator=operator, node=node, reason=reason):
            verb, why = ("refuses", f": {reason}") if reason else ("does not know", ".")
            raise OperatorRefused(f"{_NAME} {verb} the operator {operator} (node {node}){why}", hint=_TARGET_HINT)
        case NotBuilt(messages=messages):
            said = " ".join(messages) or "It does not say why."
            raise EngineNotBuilt(f"{_NAME} gave no engine for {wanted}. {said}", hint=_TARGET_HINT)
        case NotWritten(errno=number):
            raise OSError(number, os.strerror(number), str(path))


def _run(order: Order, stop: Asked) -> bytes:
    """What the compiler's process printed.

    Raises:
        BuildStopped: the stop was asked for; the process has been ended.
        EngineNotBuilt: it came to an end of its own.
    """
    pipe = subprocess.PIPE
    code_dir = str(Path(engine.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": code_dir}
    command = [*COMMAND, str(os.getpid())]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        try:
            output, complaints = _communicated(process, order.model_dump_json().encode(), stop)
        finally:
            process.kill()
    if process.returncode:
        _wait_for_stop(process.returncode, stop)
        raise _crashed(order.compute_capability, process.returncode, complaints)
    return output


def _communicated(process: subprocess.Popen[bytes], sent: bytes, stop: Asked) -> tuple[bytes, bytes]:
    wanted: bytes | None = sent
    while not stop.asked:
        try:
            return process.communicate(wanted, timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            wanted = None  # it has been sent
    raise BuildStopped


def _wait_for_stop(status: int, stop: Asked) -> None:
    give_up_at = time.monotonic() + _LAST_WORDS_S
    while status == -signal.SIGTERM and not stop.asked and time.monotonic() < give_up_at:
        time.sleep(_POLL_S)
    if stop.asked:
        raise BuildStopped


def _crashed(wanted: str, status: int, complaints: bytes) -> EngineNotBuilt:
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    last = complaints.decode(errors="replace").strip().rpartition("\n")[2][:300]
    hint = "The machine may be out of memory; try it when nothing else runs." if status == -signal.SIGKILL else ""
    return EngineNotBuilt(
        f"{_NAME} ended with {how} while it built the engine for {wanted}.{f' It said: {last}' if last else ''}",
        hint=hint or _TARGET_HINT,
    )


def _note(wanted: str, built: Built) -> str:
    memory = f", {built.memory_bytes / 2**20:,.0f} MiB of GPU memory at most" if built.memory_bytes else ""
    return f"Engine for {wanted}: {built.bytes / 2**20:.1f} MiB, built in {built.seconds:.1f} s{memory}. TF32 is off."
