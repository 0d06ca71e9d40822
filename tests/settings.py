"""Settings of the tests: everything below one temporary folder, which child processes share through the environment.

``DATABASE_URL`` is honoured, so the same tests run on PostgreSQL.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

if "FOVEA_TEST_ROOT" not in os.environ:
    os.environ["FOVEA_TEST_ROOT"] = tempfile.mkdtemp(prefix="fovea-tests-")
_ROOT = Path(os.environ["FOVEA_TEST_ROOT"])
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
os.environ["DATA_DIR"] = str(_ROOT / _WORKER)
os.environ["CACHE_DIR"] = str(_ROOT / _WORKER / "cache")
os.environ["REDIS_URL"] = os.environ.get("FOVEA_TEST_REDIS_URL") or f"unix://{_ROOT / _WORKER / 'redis.sock'}?db=0"
Path(os.environ["DATA_DIR"]).mkdir(parents=True, exist_ok=True)

from config.settings import *  # noqa: E402, F403
from config.settings import DATABASES  # noqa: E402

TEST_ROOT = _ROOT
SERVE_SOCKET = _ROOT / _WORKER / "serve.sock"
SECRET_KEY = "only-for-tests"  # noqa: S105
ALLOWED_HOSTS = ["*"]
# How full the disk of a test machine is says nothing about the code.
DISK_RESERVE_GIB = 0.0
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, because processes that a test starts read it too.
    DATABASES["default"]["TEST"] = {"NAME": str(_ROOT / _WORKER / "test.sqlite3")}
if name := os.environ.get("FOVEA_TEST_DATABASE"):
    # In a process that a test started: the database that the test made.
    DATABASES["default"]["NAME"] = name

if command := os.environ.get("FOVEA_TEST_ENGINE"):
    ENGINE_COMMAND = command.split(os.pathsep)

if hang_s := os.environ.get("FOVEA_TEST_HANG_S"):
    HANG_LEAST_S = float(hang_s)

if grace_s := os.environ.get("FOVEA_TEST_GRACE_S"):
    STOP_GRACE_S = float(grace_s)

if canary_s := os.environ.get("FOVEA_TEST_CANARY_S"):
    CANARY_EVERY_S, CANARY_PATIENCE_S = (float(text) for text in canary_s.split(","))

if os.environ.get("FOVEA_TEST_NEXT_RELEASE"):
    INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults.next_release"]  # noqa: F405

if beat_s := os.environ.get("FOVEA_TEST_BEAT_S"):
    for entry in CELERY_BEAT_SCHEDULE.values():  # noqa: F405
        entry["schedule"] = float(beat_s)
