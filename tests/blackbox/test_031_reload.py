# SPDX-License-Identifier: Apache-2.0
"""SIGHUP and /api/reload: changed limits apply, listeners come and go, nobody is dropped, and a mistake in the
file leaves everything as it was and says so."""
import signal
import socket

import pytest

from harness import scenarios
from harness.client import Device, ack, frame
from harness.wait import holds, until

LISTENERS = {"echo": {"mode": "echo", "max_frame": "1k"}, "ack": {"mode": "ack"}}


@pytest.fixture
def gateway(engine, run_gateway):
    return run_gateway(engine, workers=2, listeners=LISTENERS)


def generation(gateway):
    return gateway.status()["reloads"]


def reload(gateway, how="signal"):
    """Writes the configuration and has it applied."""
    before = generation(gateway)
    gateway.write_config()
    if how == "signal":
        gateway.signal(signal.SIGHUP)
    else:
        gateway.api("/api/reload", "POST")
    until(lambda: generation(gateway) != before, lambda: gateway.explain("the reload is applied"))
    gateway.forget_addresses()


def takes(gateway, listener, size):
    with Device(gateway.address(listener)) as device:
        device.send(frame(b"t" * size))
        try:
            return device.recv_frame() == b"t" * size
        except AssertionError:
            return False


@pytest.mark.parametrize("how", ["signal", "api"])
def test_changed_limit_applies_and_connections_survive(gateway, how):
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"before"))
        device.expect(frame(b"before"))
        assert not takes(gateway, "echo", 2000)
        gateway.listeners["echo"]["max_frame"] = "8k"
        reload(gateway, how)
        until(lambda: takes(gateway, "echo", 2000), "the new limit applies")
        device.send(frame(b"after"))
        device.expect(frame(b"after"))


def test_frame_under_way_survives(gateway):
    """Half a frame is in when the reload happens."""
    with Device(gateway.address("ack")) as device:
        device.send(frame(b"half before, half after")[:11])
        gateway.listeners["ack"]["max_frame"] = "2k"
        reload(gateway)
        device.send(frame(b"half before, half after")[11:])
        device.expect(ack(1))


def test_listener_added(gateway):
    gateway.listeners["extra"] = {"mode": "ack"}
    reload(gateway)
    with Device(gateway.address("extra")) as device:
        device.send(frame(b"x"))
        device.expect(ack(1))
    assert takes(gateway, "echo", 100)


def test_listener_removed_keeps_its_connections(gateway):
    address = gateway.address("ack")
    with Device(address) as device:
        device.send(frame(b"1"))
        device.expect(ack(1))
        del gateway.listeners["ack"]
        reload(gateway)

        def refused():
            try:
                with socket.create_connection(address, 2) as sock:
                    sock.settimeout(2)
                    return sock.recv(1) == b""
            except OSError as e:
                return isinstance(e, ConnectionError)
        until(refused, "the removed listener refuses")
        device.send(frame(b"2"))
        device.expect(ack(2))
        assert takes(gateway, "echo", 100)
    # And it may come back.
    gateway.listeners["ack"] = {"mode": "ack"}
    reload(gateway)
    with Device(gateway.address("ack")) as device:
        device.send(frame(b"back"))
        device.expect(ack(1))


def test_listener_moves_to_another_port(gateway):
    old = gateway.address("echo")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Device(old) as device:
        device.send(frame(b"old"))
        device.expect(frame(b"old"))
        gateway.listeners["echo"]["bind"] = f"127.0.0.1:{port}"
        reload(gateway)
        until(lambda: gateway.address("echo") == ("127.0.0.1", port) or gateway.forget_addresses(),
              "it has moved")
        assert takes(gateway, "echo", 100)
        device.send(frame(b"still"))
        device.expect(frame(b"still"))


BROKEN = [
    ("listener echo {", r"sluice\.conf:\d+"),
    ("no_such_key = 1;", r"sluice\.conf:\d+.*no_such_key"),
    ('engine = "kqueue";', r"sluice\.conf:\d+.*engine"),
    ("workers = -1;", r"sluice\.conf:\d+.*workers"),
    ('drain_timeout = "soon";', r"sluice\.conf:\d+.*drain_timeout"),
    ('listener bad { protocol = frame; bind = "127.0.0.1:99999"; mode = echo; }',
     r"sluice\.conf:\d+.*bind"),
    ('listener bad { protocol = frame; bind = "127.0.0.1:0"; mode = whisper; }',
     r"sluice\.conf:\d+.*mode"),
]


@pytest.mark.parametrize("how", ["signal", "api"])
def test_mistake_keeps_the_old_configuration(gateway, how):
    before = generation(gateway)
    with Device(gateway.address("echo")) as device:
        for text, message in BROKEN:
            gateway.write_config("\n" + text + "\n")
            if how == "signal":
                gateway.signal(signal.SIGHUP)
                gateway.wait_log(message)
            else:
                response = gateway.request("/api/reload", "POST")
                assert response.status in (400, 409, 422), response.body
                assert "error" in response.json(), response.body
            device.send(frame(b"unharmed"))
            device.expect(frame(b"unharmed"))
        assert generation(gateway) == before
        assert takes(gateway, "echo", 1024) and not takes(gateway, "echo", 1025)
    # The next good file is taken.
    gateway.listeners["echo"]["max_frame"] = "2k"
    reload(gateway, how)
    until(lambda: takes(gateway, "echo", 2000), "the new limit applies")


def test_address_that_can_not_be_bound_keeps_the_old_configuration(gateway):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        before = generation(gateway)
        gateway.listeners["extra"] = {"mode": "ack", "bind": f"127.0.0.1:{port}"}
        gateway.write_config()
        gateway.signal(signal.SIGHUP)
        gateway.wait_log(rf"{port}.*EADDRINUSE|EADDRINUSE.*{port}")
        assert generation(gateway) == before
        assert takes(gateway, "echo", 100)


def test_missing_file_keeps_the_old_configuration(gateway):
    import os
    os.rename(gateway.config_path, gateway.config_path + ".away")
    gateway.signal(signal.SIGHUP)
    gateway.wait_log(r"ENOENT")
    assert takes(gateway, "echo", 100)


def test_reload_under_load(gateway):
    """Ten reloads, listeners coming and going, while devices echo without a pause: nobody is dropped."""
    load = scenarios.Load(gateway, devices=6)
    try:
        for number in range(10):
            if number % 2:
                gateway.listeners["extra"] = {"mode": "ack"}
            else:
                gateway.listeners.pop("extra", None)
            gateway.listeners["echo"]["max_frame"] = f"{number + 1}k"
            reload(gateway, "signal" if number % 3 else "api")
            load.wait_progress(50)
    finally:
        ended = load.stop()
    assert ended == 0, f"{ended} connections were dropped"


def test_many_signals_at_once(gateway):
    with Device(gateway.address("echo")) as device:
        for _ in range(50):
            gateway.signal(signal.SIGHUP)
        holds(lambda: gateway.process.poll() is None, "it lives", 0.3)
        device.send(frame(b"alive"))
        device.expect(frame(b"alive"))
