"""``python -m engine <verb> --dir DIR``: one attempt of one job, from lock to exit report.

Needs no database and no server: a folder with a ``spec.json`` is a job. Exit status: 0 succeeded, 64 the user's to
mend, 70 ours to mend, 74 the disk is full (make room, run it again to continue), 75 stopped on request or shut out by
another process (run it again to continue).
"""

from __future__ import annotations

import argparse
import faulthandler
import fcntl
import logging
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from pydantic import ValidationError

from engine.context import Context
from engine.emit import JsonlSink, json_of
from engine.faults import as_fovea_error
from engine.lease import Lease, LeaseOver
from engine.stop import BeatWatch, Stop, listen
from wire.errors import DiskFull, FoveaError, JobLocked, SpecInvalid, Unattended, UserError
from wire.events import Outcome, RunEnded
from wire.layout import AttemptDir, JobDir
from wire.specs import SPEC, AnySpec, ExitReport

VERBS = {
    "train": "engine.train.verb:run",
    "import": "engine.importing.pipeline:run",
    "evaluate": "engine.evaluate.verb:run",
    "classify": "engine.classify.verb:run",
    "export": "engine.export.verb:run",
}
EXIT_STATUS: dict[Outcome, int] = {"succeeded": 0, "failed": 64, "errored": 70, "cancelled": 75, "paused": 75}
DISK_WAS_FULL = 74
"""In place of 70: the report that would say it may not fit on the disk either."""

log = logging.getLogger("engine")


def main(argv: Sequence[str]) -> int:
    # Threads that spin while they wait take the cores from whatever else the machine does, and from one another: beside
    # other work a training of small images ran several times slower. Read once, when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if argv[:1] == ["preview"]:
        from engine import preview

        return preview.main(argv[1:])
    if argv[:1] == ["serve"]:
        from engine.serve import service

        return service.main(argv[1:])
    arguments = _parser().parse_args(argv)
    if arguments.verb == "import":
        # It multiplies nothing large, and its workers want the cores; NumPy loads in half the time without threads.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.nice(int(os.environ.get("FOVEA_NICE") or 0))
    _show_stacks()
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s  %(message)s", datefmt="%H:%M:%S")
    job = JobDir(arguments.dir.resolve())
    if not job.path.is_dir():
        print(f"There is no folder {job.path}.", file=sys.stderr)  # noqa: T201
        return EXIT_STATUS["failed"]
    n = arguments.attempt or job.latest_attempt() + 1
    try:
        lease = Lease.of(job.attempt(n))
        with _locked(job, n):
            report = _attempt(arguments.verb, job, n, lease)
            return DISK_WAS_FULL if report.code == DiskFull.code else EXIT_STATUS[report.outcome]
    except LeaseOver as error:
        print(f"This attempt may not work any more: {error}.", file=sys.stderr)  # noqa: T201
    except JobLocked as error:
        print(f"{error.message} {error.hint}", file=sys.stderr)  # noqa: T201
    except OSError as error:
        if not isinstance(as_fovea_error(error), DiskFull):
            raise
        with suppress(OSError):  # the log is on that disk as well
            print(f"The disk is full: {error}.", file=sys.stderr)  # noqa: T201
        return DISK_WAS_FULL
    return EXIT_STATUS["paused"]


def _show_stacks() -> None:
    """Into the log: of all threads, when SIGUSR1 asks what a process that seems to hang is doing, and when it crashes.

    File descriptor 2 and not ``sys.stderr``, whose lock a hanging thread may hold.
    """
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    faulthandler.enable(file=2, all_threads=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine",
        description="Runs one job in a folder that holds its spec.json. Run it again to continue one that was stopped.",
        epilog="python -m engine preview --help: how images will look to the network. "
        "python -m engine serve --help: pictures and trained models on call.",
    )
    parser.add_argument("verb", choices=[*VERBS, "preview", "serve"], help="what to do")
    parser.add_argument("--dir", type=Path, required=True, help="the job's folder")
    parser.add_argument("--attempt", type=int, help="number of this attempt (default: one more than the latest)")
    return parser


@contextmanager
def _locked(job: JobDir, n: int) -> Iterator[None]:
    """Hold the job for as long as this process lives; the lock file says which attempt has it.

    Raises:
        JobLocked: another process has it.
    """
    with job.lock_path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip()
            error = JobLocked(
                f"The folder {job.path} is in use by attempt {holder or '?'}.",
                hint="Wait until it has ended, or stop it first.",
            )
            if holder != str(n):  # the folder of the attempt that runs is not ours to write in
                _write_exit(job.attempt(n), _report("errored", error, last_seq=0))
            raise error from None
        lock.truncate(0)
        lock.write(str(n))
        lock.flush()
        yield


def _attempt(verb: str, job: JobDir, n: int, lease: Lease | None) -> ExitReport:
    """Do the work and tell how it ended: ``run.ended`` in the events, then the exit report, last of all."""
    attempt = job.attempt(n)
    attempt.path.mkdir(parents=True, exist_ok=True)
    stop = Stop(attempt)
    listen(stop)
    if lease is not None:
        lease.watch(stop)
    shutil.rmtree(job.scratch_dir, ignore_errors=True)
    sink = JsonlSink(job.events_path)
    context = Context(job, attempt, n, sink, stop, _cache_dir(job), _weights_dir())
    with _beat_watched(stop, attempt):
        report = _outcome(verb, context)
    shutil.rmtree(job.scratch_dir, ignore_errors=True)
    if report.message:
        log.error("%s %s", report.message, report.hint)
    with suppress(OSError):  # a full disk may refuse even this; the exit report is tried all the same
        sink.emit(RunEnded(**report.model_dump(exclude={"last_seq"})))
        sink.sync()
    report = report.model_copy(update={"last_seq": sink.last_seq})
    sink.close()
    _write_exit(attempt, report)
    return report


def _outcome(verb: str, context: Context) -> ExitReport:
    try:
        spec = _read_spec(context.job, verb)
        module, _, function = VERBS[verb].partition(":")
        outcome: Outcome = getattr(import_module(module), function)(spec, context)
    except Exception as raised:  # noqa: BLE001 - the one place where every error becomes a report
        error = as_fovea_error(raised)
        if not isinstance(error, UserError):
            with suppress(OSError):  # on a full disk the log takes no more
                traceback.print_exc()
        return _report("failed" if isinstance(error, UserError) else "errored", error, last_seq=0)
    if outcome == "paused" and context.stop.unattended:
        message = "Stopped by itself: its supervisor had not been heard of for too long."
        return ExitReport(outcome=outcome, code=Unattended.code, message=message)
    return ExitReport(outcome=outcome)


def _read_spec(job: JobDir, verb: str) -> AnySpec:
    try:
        spec = SPEC.validate_json(job.spec_path.read_bytes())
    except FileNotFoundError:
        raise SpecInvalid(f"There is no spec.json in {job.path}.", hint="Write what to do into that file.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SpecInvalid(f"spec.json is not valid at {where}: {first['msg']}.", hint="Correct it there.") from None
    if spec.verb != verb:
        raise SpecInvalid(f"spec.json is for the verb {spec.verb!r}, not {verb!r}.", hint=f"Run: {spec.verb}.")
    return spec


@contextmanager
def _beat_watched(stop: Stop, attempt: AttemptDir) -> Iterator[None]:
    """Mind the supervisor's beat where there is a supervisor to mind it; from a bare shell there is none."""
    timeout_s = float(os.environ.get("FOVEA_BEAT_TIMEOUT_S") or 0)
    if not timeout_s:
        yield
        return
    watch = BeatWatch(stop, attempt, timeout_s=timeout_s)
    watch.start()
    try:
        yield
    finally:
        watch.close()


def _cache_dir(job: JobDir) -> Path:
    if named := os.environ.get("CACHE_DIR"):
        return Path(named)
    if job.path.parent.name == "jobs":
        return job.path.parent.parent / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fovea"


def _weights_dir() -> Path | None:
    named = os.environ.get("WEIGHTS_DIR")
    return Path(named) if named else None


def _report(outcome: Outcome, error: FoveaError, *, last_seq: int) -> ExitReport:
    return ExitReport(outcome=outcome, code=error.code, message=error.message, hint=error.hint, last_seq=last_seq)


def _write_exit(attempt: AttemptDir, report: ExitReport) -> None:
    """Whoever finds the file finds all of it. Where it cannot be written, the exit status has to say enough."""
    beside = attempt.exit_path.with_suffix(".tmp")
    try:
        attempt.path.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(json_of(report))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(attempt.exit_path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        log.error("The exit report cannot be written: %s", error)  # noqa: TRY400


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
