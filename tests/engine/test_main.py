from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine import __main__ as engine_main
from tests.surroundings import until
from wire.events import ENVELOPE, AttemptStarted, Event, RunEnded
from wire.layout import JobDir
from wire.specs import Choice, ExitReport, TrainSpec

SPEC = TrainSpec(dataset="../1/artifacts/dataset", model=Choice(name="lenet5")).model_dump_json()


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    (tmp_path / "job").mkdir()
    job = JobDir(tmp_path / "job")
    job.spec_path.write_text(SPEC)
    return job


def _start(job: JobDir, script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kits.scripted_verb", "train", "--dir", str(job.path), *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, "SCRIPT": script, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(job: JobDir, script: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    process = _start(job, script, *arguments, **environment)
    out, err = process.communicate()
    return process.returncode, out, err


def _engine(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "engine", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _exit(job: JobDir, n: int = 1) -> ExitReport:
    return ExitReport.model_validate_json(job.attempt(n).exit_path.read_bytes())


def _events(job: JobDir) -> list[Event]:
    return [ENVELOPE.validate_json(line).event for line in job.events_path.read_bytes().splitlines()]


def _has_begun(job: JobDir) -> bool:
    return job.events_path.exists() and b"attempt.started" in job.events_path.read_bytes()


def test_help_lists_the_verbs():
    shown = _engine("--help")
    assert shown.returncode == 0
    assert {"train", "import", "preview"} <= set(
        shown.stdout.replace(",", " ").replace("{", " ").replace("}", " ").split()
    )


def test_a_success_ends_with_its_event_and_then_its_report(job):
    assert _run(job, "succeed")[0] == 0
    assert _events(job) == [AttemptStarted(n=1), RunEnded(outcome="succeeded")]
    assert _exit(job) == ExitReport(outcome="succeeded", last_seq=2)


def test_attempts_count_on_and_share_one_file_of_events(job):
    assert [_run(job, "succeed")[0] for _ in range(2)] == [0, 0]
    assert _run(job, "succeed", "--attempt", "7")[0] == 0
    assert [event.n for event in _events(job) if isinstance(event, AttemptStarted)] == [1, 2, 7]
    assert _exit(job, 7).last_seq == 6


@pytest.mark.parametrize(
    ("script", "status", "outcome", "code"),
    [
        ("user", 64, "failed", "loss.not_finite"),
        ("memory", 64, "failed", "device.out_of_memory"),
        ("surprise", 70, "errored", "unexpected"),
    ],
)
def test_an_error_is_reported_by_whose_it_is(job, script, status, outcome, code):
    returncode, out, err = _run(job, script)
    report = _exit(job)
    assert returncode == status
    assert (report.outcome, report.code, report.last_seq) == (outcome, code, 2)
    assert _events(job)[-1] == RunEnded(outcome=outcome, code=code, message=report.message, hint=report.hint)
    assert report.message in out
    assert ("Traceback" in err) == (outcome == "errored")


@pytest.mark.parametrize(("script", "status"), [("succeed", 0), ("user", 64), ("surprise", 70)])
def test_where_the_report_cannot_be_written_the_exit_status_says_how_it_ended(job, script, status):
    job.attempt(1).exit_path.with_suffix(".tmp").mkdir(parents=True)
    returncode, out, _ = _run(job, script, "--attempt", "1")
    assert returncode == status
    assert "The exit report cannot be written" in out
    assert not job.attempt(1).exit_path.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("wish", "outcome"), [("", "cancelled"), ("cancel", "cancelled"), ("pause\n", "paused")])
def test_a_signal_asks_and_the_stop_file_says_for_what(job, number, wish, outcome):
    # A child of a Celery worker inherits an ignored SIGINT.
    process = _start(job, "wait", IGNORE_SIGINT="1")
    until(lambda: _has_begun(job))
    if wish:
        job.attempt(1).stop_path.write_text(wish)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, err) == (75, "")
    assert _exit(job).outcome == outcome
    assert _events(job)[-1] == RunEnded(outcome=outcome)
    assert "Traceback" not in out


def test_a_beat_that_grows_old_pauses_the_run(job):
    process = _start(job, "wait", FOVEA_BEAT_TIMEOUT_S="0.3")
    process.communicate()
    assert process.returncode == 75
    assert (_exit(job).outcome, _exit(job).code) == ("paused", "attempt.unattended")


def test_a_run_with_a_living_beat_is_left_alone(job):
    process = _start(job, "wait", FOVEA_BEAT_TIMEOUT_S="2")
    beat = job.attempt(1).beat_path
    until(lambda: _has_begun(job))
    for at in range(30):  # for longer than the timeout, with a clock on the wall that jumps by years
        beat.touch()
        os.utime(beat, (at * 1e7, at * 1e7))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
    process.terminate()
    process.communicate()
    assert _exit(job).outcome == "cancelled"


def test_a_second_process_on_the_same_job_is_refused(job):
    first = _start(job, "wait")
    until(lambda: _has_begun(job))
    status, _, err = _run(job, "succeed", "--attempt", "2")
    assert status == 75
    assert "attempt 1" in err
    assert (_exit(job, 2).outcome, _exit(job, 2).code) == ("errored", "job.locked")
    # Under the number of the one that runs, nothing may be written in its folder.
    assert _run(job, "succeed", "--attempt", "1")[0] == 75
    assert not job.attempt(1).exit_path.exists()
    first.terminate()
    first.communicate()
    assert [type(event) for event in _events(job)] == [AttemptStarted, RunEnded]
    assert _exit(job, 1).outcome == "cancelled"


def test_a_killed_process_leaves_no_lock_and_its_torn_line_is_mended(job):
    first = _start(job, "wait")
    until(lambda: _has_begun(job))
    first.kill()
    first.communicate()
    with job.events_path.open("ab") as events:
        events.write(b'{"seq":2,"at"')
    job.scratch_dir.mkdir()
    assert _run(job, "succeed")[0] == 0
    assert _events(job) == [AttemptStarted(n=1), AttemptStarted(n=2), RunEnded(outcome="succeeded")]
    assert not job.scratch_dir.exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "There is no spec.json"),
        ("{", "not valid at the file"),
        (SPEC.replace('"lenet5"', "3"), "train.model.name"),
        ('{"verb":"import","name":"x","source":{"kind":"sample","name":"digits"}}', "'import', not 'train'"),
    ],
)
def test_a_spec_that_cannot_be_used_is_the_users_to_mend(job, content, told):
    job.spec_path.unlink()
    if content is not None:
        job.spec_path.write_text(content)
    assert _engine("train", "--dir", str(job.path)).returncode == 64
    report = _exit(job)
    assert (report.outcome, report.code) == ("failed", "spec.invalid")
    assert told in report.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_before_the_work_begins_is_told_by_the_exit_status(job, monkeypatch, number):
    def refuse(_path: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(engine_main, "JsonlSink", refuse)
    for name in ("_show_stacks", "listen"):
        monkeypatch.setattr(engine_main, name, lambda *_: None)
    assert engine_main.main(["train", "--dir", str(job.path)]) == engine_main.DISK_WAS_FULL


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path):
    refused = _engine("train", "--dir", str(tmp_path / "nowhere"))
    assert (refused.returncode, refused.stderr) == (64, f"There is no folder {tmp_path / 'nowhere'}.\n")


def test_sigusr1_writes_the_stacks_of_all_threads_and_changes_nothing(job):
    """A supervisor asks what a process that makes no step is doing."""
    process = _start(job, "wait", FOVEA_BEAT_TIMEOUT_S="60")
    until(lambda: _has_begun(job))
    process.send_signal(signal.SIGUSR1)
    process.terminate()
    _, err = process.communicate()
    assert process.returncode == 75
    assert _exit(job).outcome == "cancelled"
    assert err.count("most recent call first") == 2  # the verb's thread, and the one that minds the beat
    assert "scripted_verb.py" in err
    assert "stop.py" in err


def test_a_crash_leaves_the_stack_in_the_log(job):
    process = _start(job, "abort")
    _, err = process.communicate()
    assert process.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in err
    assert "scripted_verb.py" in err
