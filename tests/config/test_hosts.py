from __future__ import annotations

import socket

import pytest

from config.hosts import default_allowed_hosts, is_loopback, local_address


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_a_loopback_server_answers_to_loopback_names_alone(bind):
    assert is_loopback(bind)
    assert set(default_allowed_hosts(bind)) == {"localhost", "127.0.0.1", "[::1]"}


@pytest.mark.parametrize("bind", ["0.0.0.0", "::"])
def test_an_open_server_answers_to_the_machines_own_names_and_never_to_any(bind):
    hosts = default_allowed_hosts(bind)

    assert socket.gethostname() in hosts
    assert "*" not in hosts
    assert bind not in hosts


def test_a_server_on_one_address_answers_to_it():
    assert "10.0.0.4" in default_allowed_hosts("10.0.0.4")
    assert "[fd00::4]" in default_allowed_hosts("fd00::4")


@pytest.mark.parametrize(
    ("bind", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/"),
        ("0.0.0.0", "http://127.0.0.1:8000/"),
        ("::1", "http://[::1]:8000/"),
        ("10.0.0.4", "http://10.0.0.4:8000/"),
    ],
)
def test_the_address_that_is_printed_can_be_opened_on_this_machine(bind, address):
    assert local_address(bind, 8000) == address
