from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys

from jobs.process import ProcessIdentity, alive, find_leader, identify, identify_self, is_locked, signal_group
from tests.surroundings import until


def sleeper(**options):
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], **options)


def test_the_same_pid_at_another_time_is_another_process():
    me = identify_self()
    assert alive(me)
    assert not alive(ProcessIdentity(me.boot_id, me.pid, me.started + 1))
    assert not alive(ProcessIdentity("an earlier boot", me.pid, me.started))


def test_a_zombie_is_dead():
    child = sleeper()
    identity = identify(child.pid)
    assert alive(identity)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify(child.pid) is None
    assert not alive(identity)
    child.wait()
    assert identify(child.pid) is None


def test_a_name_with_a_bracket_does_not_hide_the_start_time(tmp_path):
    odd = tmp_path / "a) S 1 ("
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "60"])
    assert identify(child.pid).started >= identify_self().started
    child.kill()
    child.wait()


def test_the_group_is_signalled_and_a_stranger_is_not():
    child = sleeper(start_new_session=True)
    identity = identify(child.pid)
    assert not signal_group(ProcessIdentity(identity.boot_id, identity.pid, identity.started + 1), signal.SIGKILL)
    assert child.poll() is None
    assert signal_group(identity, signal.SIGKILL)
    child.wait()
    assert not signal_group(identity, signal.SIGKILL)


def test_a_lock_ends_with_its_holder(tmp_path):
    path = tmp_path / "lock"
    assert not is_locked(path)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_locked(path)
    assert not is_locked(path)


def test_a_leader_is_found_by_what_stands_in_its_environment():
    marker = f"FOVEA_TEST_MARK={os.getpid()}"
    child = sleeper(start_new_session=True, env={**os.environ, "FOVEA_TEST_MARK": str(os.getpid())})
    member = sleeper(env={**os.environ, "FOVEA_TEST_MARK": str(os.getpid())})
    assert until(lambda: find_leader(marker)) == identify(child.pid)
    child.kill()
    child.wait()
    assert find_leader(marker) is None
    member.kill()
    member.wait()
