"""Other hosts on the machine of the test: with names of their own, and behind a network that can be cut."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from django.conf import settings

from jobs.models import Attempt, Device, Host, Job
from tests.faults.scene import Scene
from tests.surroundings import until

OTHER = "fovea-b"
_ONE_END, _OTHER_END = "10.213.77.1", "10.213.77.2"
_RENAMED = "hostname {name} && exec {python} {manage} agent"


class OtherHost:
    """A second machine: the test's own process is the first one, with its agent in ``Scene.turn``.

    Its agent, supervisors and trainers are real processes. They share the kernel and the data folder with the test, so
    the lock on a job's folder is seen on both sides, and the clocks agree unless a test sees to it.
    """

    def __init__(self, scene: Scene, *, name: str = OTHER, network: Network | None = None, **environment: str) -> None:
        self.name = name
        self._scene = scene
        self._network = network
        self._environment = environment
        self.agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start its agent, and wait until both hosts know of each other."""
        self._scene.turn()
        manage = settings.BASE_DIR / "manage.py"
        script = _RENAMED.format(name=self.name, python=sys.executable, manage=manage)
        command = ["unshare", "--uts", "sh", "-c", script]
        if self._network is not None:
            command = [*self._network.enter, *command]
        self.agent = self._scene.run(command, **self._environment)
        until(lambda: Host.objects.filter(name=self.name).exists())
        until(lambda: Device.objects.filter(host=self.name).exists())

    def begins(self, job: Job, *, step: int = 3) -> Attempt:
        """Wait until it has taken the job, and the trainer is at work. Nobody else's agent turns meanwhile."""
        until(lambda: Attempt.objects.filter(job=job, host=self.name, ended_at=None).exists())
        self._scene.until_step(job, step)
        attempt = until(lambda: Attempt.objects.filter(job=job, pid__isnull=False, supervisor_pid__isnull=False).last())
        assert attempt.host == self.name
        assert attempt.lease_expires_at is not None
        return attempt

    def processes(self) -> list[psutil.Process]:
        """What runs there: agent, supervisors, trainers."""
        mine = []
        for process in self._scene.processes():
            with suppress(OSError):
                if Path(f"/proc/{process.pid}/ns/uts").readlink() != Path("/proc/self/ns/uts").readlink():
                    mine.append(process)
        return mine

    def vanish(self) -> None:
        """Everything at once, as when the power goes."""
        found = self.processes()
        for process in found:
            process.kill()
        psutil.wait_procs(found)
        if self.agent is not None:
            self.agent.wait()


class Network:
    """A network namespace, linked with the test's own by two virtual cards, one of which can be pulled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._card = f"fv{name[-6:]}"
        self.enter = ("ip", "netns", "exec", name)

    def build(self) -> None:
        _ip("netns", "add", self.name)
        _ip("link", "add", self._card, "type", "veth", "peer", "name", f"{self._card}b", "netns", self.name)
        _ip("address", "add", f"{_ONE_END}/30", "dev", self._card)
        _ip("link", "set", self._card, "up")
        _ip("-n", self.name, "address", "add", f"{_OTHER_END}/30", "dev", f"{self._card}b")
        _ip("-n", self.name, "link", "set", f"{self._card}b", "up")
        _ip("-n", self.name, "link", "set", "lo", "up")

    def cut(self) -> None:
        """Nothing comes through, and nobody is told."""
        _ip("link", "set", self._card, "down")

    def mend(self) -> None:
        _ip("link", "set", self._card, "up")

    def remove(self) -> None:
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._card)
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self.name)


@contextmanager
def network() -> Iterator[Network]:
    """A namespace of its own; skips, saying why, where this machine allows none."""
    if shutil.which("ip") is None:
        pytest.skip("iproute2 is not installed")
    built = Network(f"fovea-{uuid.uuid4().hex[:6]}")
    try:
        try:
            built.build()
        except subprocess.CalledProcessError as refusal:
            pytest.skip(f"this machine allows no network namespace: {refusal.stderr.decode().strip()}")
        yield built
    finally:
        built.remove()


@contextmanager
def forwarded(target: Path) -> Iterator[tuple[str, int]]:
    """An address on the test's end of the link behind which a server on a unix socket answers."""
    listener = socket.create_server((_ONE_END, 0))
    ends: list[socket.socket] = [listener]

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(target))
                ends.extend((client, server))
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=(source, sink), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        thread.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
