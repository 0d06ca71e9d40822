"""What the environment may say, read once and strictly: an unusable value stops the start with one line about it."""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from environs import Env, EnvError

BASE_DIR = Path(__file__).resolve().parent.parent
MAX_AMOUNT = 1_000_000
"""Of GiB or days; more is no date and no disk."""
SHORTEST_LEASE_S, LONGEST_LEASE_S = 2.0, 3600.0
_URL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
LOG_LEVELS = ("INFO", "DEBUG", "WARNING", "ERROR")
LOG_FORMATS = ("text", "json")


class SettingError(Exception):
    """A setting from outside cannot be used. The message is one line and names the setting."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Fovea's settings from outside: the field ``data_dir`` is the variable ``DATA_DIR``. See ``docs/settings.md``."""

    data_dir: Path
    cache_dir: Path
    cache_max_gib: float
    host: str
    port: int
    database_url: str
    redis_url: str
    weights_dir: Path | None
    import_roots: list[Path]
    upload_max_gib: float
    upload_quota_gib: float
    upload_keep_days: float
    disk_reserve_gib: float
    engine_command: list[str]
    secret_key: str
    debug: bool
    allowed_hosts: list[str]
    trusted_origins: list[str]
    https_only: bool
    url_prefix: str
    lease_s: float
    starts_jobs: bool
    log_format: str
    log_level: str


def read_environment() -> Environment:
    """Read every setting.

    Raises:
        SettingError: A value has the wrong type or lies out of its range.
    """
    env = Env()
    try:
        return _read(env)
    except EnvError as problem:
        raise SettingError(str(problem)) from None


def _read(env: Env) -> Environment:
    data_dir = _folder(env.str("DATA_DIR", "") or str(BASE_DIR / "var"))
    weights_dir = env.str("WEIGHTS_DIR", "")
    import_roots: list[str] = env.list("IMPORT_ROOTS", [])
    offered = [_folder(root) for root in import_roots]
    for root in offered:
        if data_dir.is_relative_to(root):
            raise SettingError(
                f'Environment variable "IMPORT_ROOTS" invalid: {root} holds DATA_DIR {data_dir}, where the images of '
                "everybody lie"
            )
    port = env.int("PORT", 8000)
    if not 0 < port < 65536:
        raise SettingError(f'Environment variable "PORT" invalid: {port} is not between 1 and 65535')
    return Environment(
        data_dir=data_dir,
        cache_dir=_folder(env.str("CACHE_DIR", "") or str(data_dir / "cache")),
        cache_max_gib=env.float("CACHE_MAX_GIB", 50.0),
        host=env.str("HOST", "") or "127.0.0.1",
        port=port,
        database_url=_secret(env, "DATABASE_URL"),
        redis_url=_secret(env, "REDIS_URL"),
        weights_dir=_folder(weights_dir) if weights_dir else None,
        import_roots=offered,
        upload_max_gib=_amount(env, "UPLOAD_MAX_GIB", 200.0),
        upload_quota_gib=_amount(env, "UPLOAD_QUOTA_GIB", 500.0),
        upload_keep_days=_amount(env, "UPLOAD_KEEP_DAYS", 7.0),
        disk_reserve_gib=_amount(env, "DISK_RESERVE_GIB", 5.0),
        engine_command=shlex.split(env.str("ENGINE_COMMAND", "")) or [sys.executable, "-m", "engine"],
        secret_key=_secret(env, "SECRET_KEY"),
        debug=env.bool("DEBUG", False),
        allowed_hosts=env.list("ALLOWED_HOSTS", []),
        trusted_origins=env.list("TRUSTED_ORIGINS", []),
        https_only=env.bool("HTTPS_ONLY", False),
        url_prefix=_prefix(env.str("URL_PREFIX", "")),
        lease_s=_lease_s(env),
        starts_jobs=env.bool("STARTS_JOBS", True),
        log_format=_one_of(env, "LOG_FORMAT", LOG_FORMATS).lower(),
        log_level=_one_of(env, "LOG_LEVEL", LOG_LEVELS).upper(),
    )


def _secret(env: Env, name: str) -> str:
    """The variable, or what stands in the file that ``<name>_FILE`` names: nobody sees that in a list of processes."""
    text: str = env.str(name, "")
    path: str = env.str(f"{name}_FILE", "")
    if not path:
        return text
    if text:
        raise SettingError(f'Environment variable "{name}_FILE" invalid: "{name}" is set as well, and which counts?')
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingError(f'Environment variable "{name}_FILE" invalid: {path} cannot be read ({problem})') from None


def _one_of(env: Env, name: str, choices: Sequence[str]) -> str:
    """The first is the default; capitals or not is all the same."""
    text: str = env.str(name, "") or choices[0]
    if text.lower() not in {choice.lower() for choice in choices}:
        raise SettingError(f'Environment variable "{name}" invalid: {text} is none of {", ".join(choices)}')
    return text


def _amount(env: Env, name: str, default: float) -> float:
    amount = env.float(name, default)
    if not 0 <= amount <= MAX_AMOUNT or math.isnan(amount):
        raise SettingError(f'Environment variable "{name}" invalid: {amount:g} is not between 0 and {MAX_AMOUNT:,}')
    return amount


def _lease_s(env: Env) -> float:
    lease_s = env.float("LEASE_S", 60.0)
    if not SHORTEST_LEASE_S <= lease_s <= LONGEST_LEASE_S:
        raise SettingError(
            f'Environment variable "LEASE_S" invalid: {lease_s:g} is not between {SHORTEST_LEASE_S:g} and'
            f" {LONGEST_LEASE_S:g} seconds"
        )
    return lease_s


def _prefix(text: str) -> str:
    """``fovea/`` -> ``/fovea``; empty stays empty."""
    names = text.strip("/").split("/") if text.strip("/") else []
    if not all(_URL_NAME.fullmatch(name) for name in names):
        raise SettingError(
            f'Environment variable "URL_PREFIX" invalid: {text} is no folder of a site, such as /fovea; letters,'
            " digits, - and _ may stand in it"
        )
    return "".join(f"/{name}" for name in names)


def _folder(text: str) -> Path:
    return Path(text).expanduser().resolve()
