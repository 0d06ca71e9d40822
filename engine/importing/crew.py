"""Files to answers with all cores, in order: by worker processes, or in this one where there are few files."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final, NamedTuple, Protocol, TypeAlias

import engine
from engine.formats import FoundImage
from engine.importing import frames
from engine.importing.checks import Answer, look_at
from engine.sources.tree import MemberUnreadable
from wire.errors import OutOfMemory

WORKER_COMMAND: Final = (sys.executable, "-m", "engine.importing.worker")
_MAX_WORKERS: Final = 8
_BATCH_FILES: Final = 128
_BATCH_BYTES: Final = 2**20
_AHEAD_BYTES: Final = 64 * 2**20
_POLL_MS: Final = 200
_PIPE_BYTES: Final = 2**20
_LAST_WORDS_S: Final = 2.0
"""A stop goes to the whole process group, so a worker may be gone a moment before the wish is known here."""


class ImportStopped(Exception):
    """The stop was asked for."""


class StopWish(Protocol):
    @property
    def asked(self) -> bool: ...


class Looked(NamedTuple):
    """A file that was opened. ``data`` is empty where it is no image."""

    found: FoundImage
    data: bytes
    answer: Answer


Read: TypeAlias = Callable[[str], bytes]
_Batch: TypeAlias = list[tuple[FoundImage, bytes | str]]
"""Each with its bytes, or the reason why it could not be read."""


def look_through(
    found: Iterable[FoundImage], read: Read, *, n_workers: int, scratch_dir: Path, stop: StopWish
) -> Generator[list[Looked], None, None]:
    """Batches of answers, in the order of ``found``; the same whatever ``n_workers``, which may be 0.

    At most some MiB for each worker are in memory, besides files that are larger than that alone. Closing the iterator
    ends the workers.

    Raises:
        ImportStopped: the stop was asked for.
        OutOfMemory: a worker was ended from outside.
    """
    batches = _batches(found, read, stop)
    if not n_workers:
        for batch in batches:
            yield _merged(batch, look_at([data for _, data in batch if isinstance(data, bytes)]))
        return
    with _workers(n_workers, scratch_dir / "large.lock", stop) as workers, ThreadPoolExecutor(n_workers) as threads:
        try:
            yield from _ahead(batches, lambda batch: threads.submit(workers.look_at, batch), n_ahead=2 * n_workers + 1)
        finally:
            workers.end()  # before the threads, which wait for them
            threads.shutdown(cancel_futures=True)


def _ahead(
    batches: Iterator[_Batch], submit: Callable[[_Batch], Future[list[Looked]]], *, n_ahead: int
) -> Iterator[list[Looked]]:
    """Reading is this process' share of the work: it goes on while workers decode, up to so many batches or bytes."""
    pending: deque[tuple[Future[list[Looked]], int]] = deque()
    while True:
        while len(pending) < n_ahead and sum(n_bytes for _, n_bytes in pending) < _AHEAD_BYTES:
            if (batch := next(batches, None)) is None:
                break
            pending.append((submit(batch), sum(len(data) for _, data in batch)))
        if not pending:
            return
        yield pending.popleft()[0].result()


def n_workers_for(n_files: int) -> int:
    """Starting one takes as long as decoding some hundred small images."""
    if n_files < 4 * _BATCH_FILES:
        return 0
    return min(_MAX_WORKERS, len(os.sched_getaffinity(0)))


def _batches(found: Iterable[FoundImage], read: Read, stop: StopWish) -> Iterator[_Batch]:
    batch: _Batch = []
    batch_bytes = 0
    for one in found:
        try:
            data: bytes | str = read(one.name)
        except MemberUnreadable as error:
            data = str(error)
        batch.append((one, data))
        batch_bytes += len(data)
        if len(batch) >= _BATCH_FILES or batch_bytes >= _BATCH_BYTES:
            if stop.asked:
                raise ImportStopped
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


def _merged(batch: _Batch, answers: Sequence[Answer]) -> list[Looked]:
    """The answers are those of the files that could be read."""
    remaining = iter(answers)
    looked = []
    for found, data in batch:
        answer = next(remaining) if isinstance(data, bytes) else data
        looked.append(Looked(found, b"" if isinstance(answer, str) or isinstance(data, str) else data, answer))
    return looked


class _Workers:
    """A thread for each; a thread takes whichever worker is free."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], stop: StopWish) -> None:
        self._processes = processes
        self._is_ended = False
        self._stop = stop
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in processes:
            self._free.put(process)

    def look_at(self, batch: _Batch) -> list[Looked]:
        worker = self._free.get()
        try:
            files = [data for _, data in batch if isinstance(data, bytes)]
            names = [found.name for found, data in batch if isinstance(data, bytes)]
            return _merged(batch, self._answers(worker, names, files))
        finally:
            self._free.put(worker)

    def end(self) -> None:
        self._is_ended = True
        for process in self._processes:
            process.kill()

    def _answers(self, worker: subprocess.Popen[bytes], names: Sequence[str], files: Sequence[bytes]) -> list[Answer]:
        suspect: int | None = None
        try:
            frames.write_files(_pipe(worker.stdin), files)
            incoming = frames.read_answers(_StoppablePipe(_pipe(worker.stdout).fileno(), self._stop))
            while isinstance(answers := next(incoming), int):
                suspect = answers
        except (frames.PipeClosed, BrokenPipeError):
            raise self._gone(worker, names, suspect) from None
        return answers

    def _gone(self, worker: subprocess.Popen[bytes], names: Sequence[str], suspect: int | None) -> Exception:
        """Why a worker is there no more."""
        until = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < until:
            if self._is_ended or self._stop.asked:
                return ImportStopped()
            time.sleep(_POLL_MS / 1000)
        status = worker.wait()
        ended = f"signal {-status}" if status < 0 else f"status {status}"
        what = names[suspect] if suspect is not None else f"{names[0]} or one of the {len(names)} files from there on"
        return OutOfMemory(
            f"The process that decodes images was ended with {ended} while it read {what}. "
            "Most often the machine's memory (RAM) is used up.",
            hint="Leave that picture out or save it smaller, or wait until other jobs have ended; then import again.",
        )


class _StoppablePipe:
    """Reads for as long as nobody asks to stop."""

    def __init__(self, fd: int, stop: StopWish) -> None:
        self._fd = fd
        self._stop = stop
        self._held = bytearray()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def read(self, n_bytes: int) -> bytes:
        """As many bytes; fewer only where the pipe ends."""
        while len(self._held) < n_bytes:
            while not self._poll.poll(_POLL_MS):
                if self._stop.asked:
                    raise ImportStopped
            if not (block := os.read(self._fd, _PIPE_BYTES)):
                break
            self._held += block
        data = bytes(self._held[:n_bytes])
        del self._held[:n_bytes]
        return data


@contextmanager
def _workers(n_workers: int, lock_path: Path, stop: StopWish) -> Iterator[_Workers]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (_code_dir(), os.environ.get("PYTHONPATH")))),
        # Sums over a batch are small; threads for them would only take cores from the other workers.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(n_workers):
            process = subprocess.Popen(
                [*WORKER_COMMAND, str(lock_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            processes.append(process)
            # So that a batch goes in at once; where the system allows no more it is slower, no worse.
            with suppress(OSError):
                fcntl.fcntl(_pipe(process.stdin), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        yield _Workers(processes, stop)
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                _close(pipe)


def _code_dir() -> str:
    return str(Path(engine.__file__).parents[1])


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - both were asked for
    return pipe


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except BrokenPipeError:
        pass  # what was still to be written has nobody to read it
