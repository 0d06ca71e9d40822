"""What the disk would hold if the power went after any system call, worked out from the calls that a process made.

The model is a strict one: bytes are lost that were not synced, a name that was made or renamed is lost until its folder
was synced, and whatever may have reached the disk by chance may also have reached it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wire.layout import JobDir

CALLS = "openat,write,pwrite64,writev,pwritev,ftruncate,fsync,fdatasync,rename,renameat,renameat2"
_CALL = re.compile(r"^(?P<pid>\d+)\s+(?P<name>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+)(?P<more>.*)$")
_UNFINISHED = re.compile(r"^(?P<pid>\d+)\s+(?P<begun>.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(?P<pid>\d+)\s+<\.\.\. \w+ resumed>(?P<rest>.*)$")
_FD = re.compile(r"^\d+<(?P<path>[^>]*)>")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def traced(command: list[str], trace: Path) -> list[str]:
    """Run it to its end, and give the calls by which it changed files, in order of their ends."""
    subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-y", "-s", "600", "-e", f"trace={CALLS}", "-o", str(trace), "--", *command],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return list(_whole(trace.read_text(errors="replace").splitlines()))


def _whole(lines: list[str]) -> Iterator[str]:
    """Calls that another thread's came between, put together where they ended."""
    begun: dict[str, str] = {}
    for line in lines:
        if found := _UNFINISHED.match(line):
            begun[found["pid"]] = found["begun"]
        elif found := _RESUMED.match(line):
            yield f"{found['pid']} {begun.pop(found['pid'], '')}{found['rest']}"
        else:
            yield line


class Disk:
    """What is not safe yet, below the folder of one job."""

    def __init__(self, job: JobDir) -> None:
        self._job = job
        self._root = str(job.path)
        self.unsynced: set[str] = set()
        """Files with bytes that were not synced."""
        self.unnamed: set[str] = set()
        """Names that their folder may forget."""
        self.n_renamed = 0
        self.announced: list[str] = []

    def play(self, calls: list[str]) -> None:
        """Assert after each call that a power cut would leave everything whole or absent."""
        for line in calls:
            if (found := _CALL.match(line)) and int(found["result"]) >= 0:
                self._do(found["name"], found["arguments"], found["more"])

    def _do(self, name: str, arguments: str, more: str) -> None:
        match name:
            case "openat":
                path = more.strip().removeprefix("<").partition(">")[0]
                if self._is_ours(path) and "O_CREAT" in arguments and path not in self.unsynced:
                    self.unnamed.add(path)
            case "fsync" | "fdatasync":
                self._sync(self._path(arguments))
            case "rename" | "renameat" | "renameat2":
                source, target = _TEXT.findall(arguments)[:2]
                self._rename(source, target)
            case _:
                path = self._path(arguments)
                if self._is_ours(path):
                    self._write(path, arguments)

    def _path(self, arguments: str) -> str:
        found = _FD.match(arguments)
        return found["path"] if found else ""

    def _is_ours(self, path: str) -> bool:
        return path.startswith(f"{self._root}/") and not path.endswith(("/lock", "/log.txt", "/beat"))

    def _sync(self, path: str) -> None:
        self.unsynced.discard(path)
        self.unnamed = {name for name in self.unnamed if str(Path(name).parent) != path}

    def _rename(self, source: str, target: str) -> None:
        if not self._is_ours(target):
            return
        self.n_renamed += 1
        half = _below(self.unsynced, source)
        assert not half, f"{target} would be there, and {half} cut short"
        inside = {name for name in _below(self.unnamed, source) if name != source}
        assert not inside, f"{target} would be there, and lack {inside}"
        if self._is_artifact(target):
            events = str(self._job.events_path)
            assert events not in self.unsynced, f"{target} would be there, and be ahead of its events"
        self.unnamed = {name for name in self.unnamed if name != source} | {target}

    def _is_artifact(self, path: str) -> bool:
        return path.startswith(f"{self._job.artifacts_dir}/") and path.endswith(".pt")

    def _write(self, path: str, arguments: str) -> None:
        self.unsynced.add(path)
        text = arguments.replace('\\"', '"')
        if path != str(self._job.events_path) or '"kind":"artifact.made"' not in text:
            return
        told = re.search(r'"path":"([^"]+)"', text)
        assert told is not None, text
        self.announced.append(told[1])
        place = str(self._job.resolve(told[1]))
        missing = _below(self.unsynced, place) | _below(self.unnamed, place)
        assert not missing, f"{told[1]} would be announced, and {missing} be gone"


def _below(paths: set[str], place: str) -> set[str]:
    return {path for path in paths if path == place or path.startswith(f"{place}/")}


def announced_in(job: JobDir) -> list[str]:
    """What the events name, in order."""
    lines = [json.loads(line)["event"] for line in job.events_path.read_text().splitlines()]
    return [event["path"] for event in lines if event["kind"] == "artifact.made"]
