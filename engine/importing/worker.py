"""``python -m engine.importing.worker``: decodes what comes in on standard input, until that ends.

A process of its own, because Pillow's work on small images holds the interpreter's lock, and because a picture that
takes more memory than there is should end this process and not the import.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from engine.importing import frames
from engine.importing.checks import look_at


class _Turns:
    """Of all workers of an import one at a time decodes an image that takes much memory."""

    def __init__(self, lock_path: Path, answers: BinaryIO) -> None:
        self._fd = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        self._answers = answers
        self._is_held = False

    def take(self, index: int) -> None:
        if not self._is_held:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            self._is_held = True
        frames.write_large(self._answers, index)

    def pass_on(self) -> None:
        if self._is_held:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._is_held = False


def main(lock_path: str) -> None:
    # Signals go to the whole process group; when to end is the import's to say, by closing the pipe.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    files_in, answers_out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a print somewhere must not end up among the answers
    turns = _Turns(Path(lock_path), answers_out)
    with suppress(frames.PipeClosed, BrokenPipeError):
        while True:
            files = frames.read_files(files_in)
            answers = look_at(files, on_large=turns.take)
            turns.pass_on()
            frames.write_answers(answers_out, answers)
    os._exit(0)  # what is left in the buffers has nobody to read it


if __name__ == "__main__":
    main(sys.argv[1])
