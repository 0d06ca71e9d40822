"""What is asked of a service every half minute, by programs that cannot read its log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from config import healthy
from config.env import BASE_DIR
from wire.layout import Storage


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    return Storage(tmp_path)


@pytest.fixture
def answering(monkeypatch):
    """A server that answers 200 where it is asked for by this name, 400 otherwise, or the status that the test says."""
    servers = []

    def start(name="localhost", status=200):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status if self.headers["Host"] == name else 400)
                self.end_headers()

            def log_message(self, *_args):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        servers.append((server, thread))
        monkeypatch.setenv("PORT", str(server.server_port))

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_web_server_is_asked_by_a_name_that_it_knows_and_not_through_a_proxy(answering, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    answering()
    assert healthy.trouble_of_web() == ""


@pytest.mark.parametrize("status", [503, 500])
def test_a_web_server_that_fails_is_not_well(answering, status):
    answering(status=status)
    assert healthy.trouble_of_web().endswith(f"answers {status}")


def test_a_web_server_that_does_not_know_the_name_says_what_to_change(answering):
    answering("fovea.example.org")
    assert healthy.trouble_of_web().endswith("answers 400: ALLOWED_HOSTS must name localhost")


def test_a_web_server_that_is_gone_is_named_with_its_address(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("PORT", str(port))
    assert f"http://127.0.0.1:{port}/healthz does not answer" in healthy.trouble_of_web()


@pytest.mark.parametrize("service", ["worker", "agent"])
def test_a_service_is_well_as_long_as_its_last_sign_of_life_is_young(place, service):
    trouble = healthy.SERVICES[service]
    assert f"no {service} has worked here" in trouble()
    sign = place.sign_path(socket.gethostname(), service)
    sign.parent.mkdir(parents=True)
    sign.touch()
    assert trouble() == ""
    os.utime(sign, (time.time() - 600,) * 2)
    assert "600 s old" in trouble()


def test_the_answer_is_the_exit_status_and_costs_no_django(place):
    command = [sys.executable, "-X", "importtime", "-m", "config.healthy", "serve"]
    done = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "serve.sock does not answer" in done.stderr
    assert "django" not in done.stderr
    place.run_dir.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.serve_socket_path))
        listener.listen()
        done = subprocess.run(command[:1] + command[3:], cwd=BASE_DIR, check=False)
    assert done.returncode == 0
