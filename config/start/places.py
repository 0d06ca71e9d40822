"""Files of a foreground start, below ``DATA_DIR`` but for sockets whose path would be too long there."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from wire.layout import Storage

LONGEST_SOCKET_PATH = 100
"""Linux refuses a unix socket path of 108 bytes or more; the rest is room for temporary suffixes."""


@dataclass(frozen=True, slots=True)
class Places:
    data_dir: Path

    @property
    def run_dir(self) -> Path:
        return Storage(self.data_dir).run_dir

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def lock_path(self) -> Path:
        """flock, held by the running ``up``."""
        return self.run_dir / "up.lock"

    @property
    def state_path(self) -> Path:
        """Address and processes of the running start, for the next start and for tools beside it."""
        return self.run_dir / "state.json"

    @property
    def supervisor_conf_path(self) -> Path:
        return self.run_dir / "supervisord.conf"

    @property
    def supervisor_output_path(self) -> Path:
        """What supervisord says where it cannot log: an unusable configuration, a crash."""
        return self.logs_dir / "supervisor-output.log"

    @property
    def redis_conf_path(self) -> Path:
        return self.run_dir / "redis.conf"

    @property
    def redis_secret_path(self) -> Path:
        return self.run_dir / "redis.secret"

    @property
    def secret_key_path(self) -> Path:
        return self.data_dir / "secret.key"

    @property
    def static_stamp_path(self) -> Path:
        return self.run_dir / "static.stamp"

    @property
    def sockets_dir(self) -> Path:
        if len(os.fsencode(self.run_dir / "supervisor.sock")) < LONGEST_SOCKET_PATH:
            return self.run_dir
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"fovea-{os.getuid()}-{digest}"

    @property
    def redis_socket_path(self) -> Path:
        return self.sockets_dir / "redis.sock"

    @property
    def supervisor_socket_path(self) -> Path:
        return self.sockets_dir / "supervisor.sock"

    @property
    def serve_socket_path(self) -> Path:
        return self.sockets_dir / Storage(self.data_dir).serve_socket_path.name


@dataclass(frozen=True, slots=True)
class HostPlaces(Places):
    """Of a host that joined: ``DATA_DIR`` is shared, so what is its own lies below its name; sockets are local."""

    host: str

    @property
    def run_dir(self) -> Path:
        return Storage(self.data_dir).host_dir(self.host) / "run"

    @property
    def logs_dir(self) -> Path:
        return Storage(self.data_dir).host_dir(self.host) / "logs"

    @property
    def sockets_dir(self) -> Path:
        digest = hashlib.sha256(os.fsencode(self.run_dir)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"fovea-{os.getuid()}-{digest}"
