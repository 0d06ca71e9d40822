from __future__ import annotations

import configparser
import shlex
import signal
import socket
import subprocess
import sys

import pytest

from config.start.places import LONGEST_SOCKET_PATH, Places
from config.start.preflight import StartError, check_folders, check_port
from config.start.programs import programs, supervisor_conf
from config.start.state import StartState, read_state, stop_left_behind
from config.start.supervisor import ProgramStatus
from config.start.watch import MANY_STARTS, QUIET_S, WINDOW_S, Watch, last_lines
from jobs.process import alive, identify

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)",
]


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def start_process():
    started = []

    def start(command):
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class TestPreflight:
    def test_a_port_in_use_is_named_with_another_to_try(self, listening):
        with pytest.raises(StartError, match=rf"PORT {listening} .*PORT={listening + 1} make run"):
            check_port("127.0.0.1", listening)

    def test_a_free_port_passes_and_stays_free(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

        check_port("127.0.0.1", port)
        check_port("127.0.0.1", port)

    @pytest.mark.parametrize("host", ["192.0.2.1", "not an address"])
    def test_an_address_of_another_machine_is_refused(self, host):
        with pytest.raises(StartError, match=f"HOST {host}"):
            check_port(host, 8000)

    def test_a_folder_that_cannot_be_written_is_named(self, tmp_path):
        blocked = tmp_path / "file"
        blocked.write_text("")

        with pytest.raises(StartError, match=f"DATA_DIR {blocked / 'data'}") as refused:
            check_folders(Places(blocked / "data"), tmp_path)
        with pytest.raises(StartError, match=f"CACHE_DIR {blocked / 'cache'}"):
            check_folders(Places(tmp_path / "data"), blocked / "cache")

        assert "\n" not in str(refused.value)


class TestSupervisorConfiguration:
    @pytest.fixture
    def conf(self, tmp_path):
        places = Places(tmp_path / "with space")
        services = programs(places=places, host="::1", port=8001, redis_server=tmp_path / "redis server")
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(supervisor_conf(services, places=places, project_dir=tmp_path))
        return parser

    def test_services_start_in_order_and_are_restarted(self, conf):
        found = {name.removeprefix("program:"): conf[name] for name in conf.sections() if name.startswith("program:")}

        assert sorted(found, key=lambda name: int(found[name]["priority"])) == [
            "redis",
            "serve",
            "web",
            "worker",
            "beat",
            "agent",
        ]
        assert {section["autorestart"] for section in found.values()} == {"true"}

    def test_paths_survive_spaces(self, conf, tmp_path):
        command = shlex.split(conf["program:redis"]["command"])

        assert command == [
            str(tmp_path / "redis server"),
            str(tmp_path / "with space" / "run" / "redis.conf"),
        ]

    def test_the_service_of_pictures_finds_data_and_socket(self, conf, tmp_path):
        places = Places(tmp_path / "with space")

        command = shlex.split(conf["program:serve"]["command"])

        assert command[command.index("--root") + 1] == str(places.data_dir)
        assert command[command.index("--socket") + 1] == str(places.serve_socket_path)

    def test_its_socket_is_short_wherever_the_data_lies(self, tmp_path):
        deep = Places(tmp_path / ("d" * 120))

        assert len(str(deep.serve_socket_path)) < LONGEST_SOCKET_PATH
        assert deep.serve_socket_path.parent == deep.sockets_dir
        assert Places(tmp_path / "d").serve_socket_path != deep.serve_socket_path

    def test_a_path_that_it_would_take_for_a_format_is_refused(self, tmp_path):
        places = Places(tmp_path / "100%")
        services = programs(places=places, host="127.0.0.1", port=8000, redis_server=None)

        with pytest.raises(StartError, match="percent sign"):
            supervisor_conf(services, places=places, project_dir=tmp_path)

    def test_no_redis_is_started_where_one_is_given(self, tmp_path):
        found = programs(places=Places(tmp_path), host="127.0.0.1", port=8000, redis_server=None)

        assert [program.name for program in found] == ["serve", "web", "worker", "beat", "agent"]


class TestState:
    def test_it_is_read_as_it_was_written(self, tmp_path, start_process):
        process = identify(start_process(SLEEP).pid)
        state = StartState("http://127.0.0.1:8000/", process, {"web": process})

        state.write(tmp_path / "state.json")

        assert read_state(tmp_path / "state.json") == state

    @pytest.mark.parametrize(
        "content", [None, "", "[]", '{"address": "http://x/"}', '{"address": 1, "supervisord": {}}']
    )
    def test_a_damaged_file_is_like_none(self, tmp_path, content):
        if content is not None:
            (tmp_path / "state.json").write_text(content)

        assert read_state(tmp_path / "state.json") is None

    def test_what_an_interrupted_start_left_behind_is_stopped(self, start_process):
        supervisord, web = start_process(SLEEP), start_process(STUBBORN)
        web.stdout.readline()
        state = StartState("", identify(supervisord.pid), {"web": identify(web.pid)})

        assert stop_left_behind(state, patience_s=0.2)

        assert supervisord.wait() == -signal.SIGTERM
        assert web.wait() == -signal.SIGKILL
        assert not stop_left_behind(state)

    def test_a_process_that_got_the_pid_of_an_ended_one_is_left_alone(self, start_process):
        now = identify(start_process(SLEEP).pid)
        ended = type(now)(now.boot_id, now.pid, now.started - 1)

        assert not stop_left_behind(StartState("", ended, {"web": ended}))

        assert alive(now)


class TestWatch:
    def test_a_service_that_keeps_dying_is_named_once_in_a_while(self):
        watch = Watch()
        said = [watch.dying([ProgramStatus("web", 1, start)], float(start)) for start in range(1, 6)]

        assert said.index(["web"]) == MANY_STARTS - 1
        assert said.count(["web"]) == 1
        later_s = 5 + QUIET_S
        again = [watch.dying([ProgramStatus("web", 1, 1000 + n)], later_s + n) for n in range(5)]
        assert again.count(["web"]) == 1

    def test_a_service_that_runs_on_is_not_named(self):
        watch = Watch()

        assert not any(watch.dying([ProgramStatus("web", 1, 1)], float(now_s)) for now_s in range(300))

    def test_few_restarts_in_a_long_time_are_none(self):
        watch = Watch()

        assert not any(watch.dying([ProgramStatus("web", 1, n)], n * WINDOW_S) for n in range(1, 10))


def test_the_end_of_a_log(tmp_path):
    log = tmp_path / "web.log"
    assert last_lines(log) == []

    log.write_bytes(b"x" * 20_000 + b"\nlast but one\n\xff last\n")

    assert last_lines(log, 2) == ["last but one", "� last"]
