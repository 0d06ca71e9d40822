"""What the environment may say, read once and strictly: an unusable value stops the start with one line that names it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from environs import Env

BASE_DIR = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Environment:
    """Fovea's settings from outside. Each is documented in ``docs/settings.md``."""

    data_dir: Path
    cache_dir: Path
    host: str
    port: int
    database_url: str
    redis_url: str
    weights_dir: Path | None
    secret_key: str
    debug: bool
    allowed_hosts: list[str]
    trusted_origins: list[str]


def read_environment() -> Environment:
    env = Env()
    data_dir = Path(env.str("DATA_DIR", str(BASE_DIR / "var"))).expanduser().resolve()
    weights_dir = env.str("WEIGHTS_DIR", "")
    return Environment(
        data_dir=data_dir,
        cache_dir=Path(env.str("CACHE_DIR", str(data_dir / "cache"))).expanduser().resolve(),
        host=env.str("HOST", "127.0.0.1"),
        port=env.int("PORT", 8000),
        database_url=env.str("DATABASE_URL", ""),
        redis_url=env.str("REDIS_URL", ""),
        weights_dir=Path(weights_dir).expanduser().resolve() if weights_dir else None,
        secret_key=env.str("SECRET_KEY", ""),
        debug=env.bool("DEBUG", False),
        allowed_hosts=env.list("ALLOWED_HOSTS", []),
        trusted_origins=env.list("TRUSTED_ORIGINS", []),
    )
