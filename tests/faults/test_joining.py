"""``make worker JOIN=``: a host in a network of its own joins, works, is stopped; and what it is refused for."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db.migrations.recorder import MigrationRecorder

from config.management.commands import join_code
from config.start.invitation import Invitation, InvitationError, read_invitation
from jobs.models import Attempt, Host
from tests.faults.hosts import OTHER, forwarded, network
from tests.surroundings import until

SHARED = "postgres://fovea:secret@db.example.org/fovea"
CACHE = "redis://:secret@cache.example.org:6379/0"


@pytest.fixture
def link():
    with network() as built:
        yield built


@pytest.fixture
def joining(scene, link, tmp_path):
    """Starts ``config.start.join`` as a person would, in a checkout of the other host."""
    engine = os.environ["FOVEA_TEST_ENGINE"].replace(os.pathsep, " ")

    def join(place: Path):
        script = f"hostname {OTHER} && exec {sys.executable} -m config.start.join {place}"
        return scene.run(
            [*link.enter, "unshare", "--uts", "sh", "-c", script],
            DJANGO_SETTINGS_MODULE="config.settings",
            ENGINE_COMMAND=engine,
            CACHE_DIR=str(tmp_path / "cache of the other host"),
            DISK_RESERVE_GIB="0",
            DATA_DIR="/nonexistent",
            DATABASE_URL="",
            REDIS_URL="",
        )

    return join


@pytest.fixture
def addresses(postgres, redis_server, link):
    """Of the database and of Redis, as the other host reaches them."""
    name = os.environ["DATABASE_URL"].rpartition("/")[2]
    with (
        forwarded(postgres.folder / f".s.PGSQL.{postgres.port}") as (address, port),
        forwarded(redis_server.socket_path) as (_, redis_port),
    ):
        yield Invitation(f"postgres://fovea@{address}:{port}/{name}", f"redis://{address}:{redis_port}/0")


def test_a_host_joins_works_and_leaves_what_it_had_to_the_others(scene, addresses, joining):
    scene.turn()
    place = addresses.write(Path(settings.DATA_DIR)).parent
    process = joining(place)
    until(lambda: Host.objects.filter(name=OTHER).exists() or process.poll() is not None)
    assert process.poll() is None, scene.services_output()
    job = scene.submit(steps=300, step_s=0.02)
    until(lambda: Attempt.objects.filter(job=job, host=OTHER).exists())
    scene.until_step(job, 10)
    assert Attempt.objects.get(job=job).lease_expires_at is not None
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == 0, scene.services_output()
    scene.finish(job)
    assert (place / "hosts" / OTHER / "logs" / "agent.log").exists()
    after = scene.after(job)
    assert after[after.index("pausing") :][:4] == ["pausing", "paused", "queued", "starting"]
    assert Attempt.objects.get(job=job, n=2).host != OTHER
    scene.check(job)
    (place / "join.json").unlink()


def test_a_copy_of_the_folder_is_refused(scene, addresses, joining, tmp_path):
    scene.turn()
    copy = tmp_path / "copy"
    shutil.copytree(Path(settings.DATA_DIR) / "hosts", copy / "hosts")
    for proof in copy.glob("hosts/*/proof"):
        proof.write_text("of an earlier start")
    addresses.write(copy)
    process = joining(copy)
    assert process.wait(timeout=120) == 2
    assert "This host cannot join: this folder is not the one that" in scene.services_output()


@pytest.mark.parametrize(
    ("database_url", "redis_url", "words"),
    [
        ("", CACHE, "the database is SQLite"),
        ("sqlite:////data/fovea.sqlite3", CACHE, "the database is SQLite"),
        ("postgres://fovea@%2Frun%2Fpostgresql/fovea", CACHE, "every host's own"),
        ("postgres://fovea:secret@localhost/fovea", CACHE, "the database is named by localhost"),
        ("postgres://fovea:secret@127.0.0.1/fovea", CACHE, "the database is named by 127.0.0.1"),
        (SHARED, "", "Redis listens on a socket"),
        (SHARED, "unix://:secret@/run/redis.sock?db=0", "Redis listens on a socket"),
        (SHARED, "redis://[::1]:6379/0", "Redis is named by ::1"),
    ],
)
def test_addresses_that_another_host_cannot_use_are_refused_in_one_line_each(database_url, redis_url, words):
    (refusal,) = Invitation(database_url, redis_url).refusals()
    assert words in refusal
    assert "secret@" not in refusal.replace("redis://:secret@cache", "")
    assert "\n" not in refusal


def test_the_invitation_is_its_owner_s_alone(tmp_path, monkeypatch, capsys):
    env = join_code.ENV.__class__(
        **{**{name: getattr(join_code.ENV, name) for name in join_code.ENV.__slots__}, "data_dir": tmp_path}
    )
    monkeypatch.setattr(join_code, "ENV", env)
    with pytest.raises(SystemExit):
        call_command("join_code")
    assert not (tmp_path / "join.json").exists()
    call_command("join_code", database_url=SHARED, redis_url=CACHE)
    assert stat.S_IMODE((tmp_path / "join.json").stat().st_mode) == 0o600
    assert read_invitation(tmp_path) == read_invitation(tmp_path / "join.json") == Invitation(SHARED, CACHE)
    assert capsys.readouterr().out == f"make worker JOIN={tmp_path / 'join.json'}\n"


@pytest.mark.parametrize(
    ("text", "words"), [(None, "holds no join.json"), ("half", "is no invitation"), ("{}", "is no")]
)
def test_what_is_no_invitation_is_said_in_one_line(tmp_path, text, words):
    if text is not None:
        (tmp_path / "join.json").write_text(text)
    with pytest.raises(InvitationError, match=words):
        read_invitation(tmp_path)


def test_nobody_at_work_means_nobody_to_join(scene, postgres, monkeypatch):
    from config.start import joining

    assert joining.refusals()[0].startswith("no other host is at work there")
    scene.turn()
    assert Host.objects.count() == 1
    monkeypatch.setattr(joining, "host_name", lambda: "another")
    assert joining.refusals() == []
    Host.objects.update(versions={"fovea": "0.0.1"})
    found = joining.refusals()
    assert "runs Fovea 0.0.1" in found[0]
    assert "this folder is not the one" in found[1]
    monkeypatch.setattr(joining, "host_name", lambda: Host.objects.get().name)
    Host.objects.update(boot_id="another machine")
    assert joining.refusals()[0].startswith("another host named")
    with _migration_of_tomorrow():
        assert "of a later version" in joining.refusals()[0]


@contextmanager
def _migration_of_tomorrow():
    row = MigrationRecorder.Migration.objects.create(app="jobs", name="9999_of_tomorrow")
    yield
    row.delete()
