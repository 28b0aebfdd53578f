# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: no new connections, what was accepted is answered, everybody is told, and the deadline is kept
whatever a peer does."""
import re
import signal
import socket
import threading
import time

import pytest

from harness.client import Device, Ended, ack, frame
from harness.wait import until

SMALL = {"sndbuf": "16k", "out_max": "1m", "out_high": "512k", "send_timeout": "60s"}
LISTENERS = {"echo": {"mode": "echo"}, "small": {"mode": "echo", **SMALL},
             "devices": {"mode": "publish"}}


def packets_in(gateway):
    return gateway.metric("sluice_frames_received_total")


def refuses(address):
    try:
        with socket.create_connection(address, 2) as sock:
            # A handshake may still complete in the kernel's queue; then the end must come.
            sock.settimeout(5)
            return sock.recv(1) == b""
    except OSError:
        return True


def ended(gateway):
    assert gateway.wait_exit() == 0, gateway.explain("exit status")
    gateway.check_stderr()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_at_once_when_idle(engine, run_gateway, number):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS, settings={"drain_timeout": "60s"})
    gateway.signal(number)
    ended(gateway)


def test_idle_connections_end_orderly(engine, run_gateway):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS, settings={"drain_timeout": "60s"})
    devices = [Device(gateway.address("echo")) for _ in range(10)]
    devices += [Device(gateway.address("devices")).say_hello(f"d{i}") for i in range(10)]
    for device in devices[:10]:
        device.send(frame(b"x"))
        device.expect(frame(b"x"))
    gateway.signal(signal.SIGTERM)
    for device in devices:
        assert device.expect_end() == ("eof", b"")
        device.close()
    ended(gateway)
    assert len(re.findall(r"reason=drain|\bdrain\b", gateway.stderr())) >= 20


def test_queued_replies_are_delivered(engine, run_gateway):
    """Replies that wait for a slow reader when the signal comes reach it before the end."""
    gateway = run_gateway(engine, workers=1, listeners=LISTENERS, settings={"drain_timeout": "60s"})
    address = gateway.address("small")
    with Device(address, rcvbuf=4096) as device:
        data = b"".join(frame(bytes([i]) * 2000) for i in range(200))
        device.send(data)
        until(lambda: packets_in(gateway) == 200, lambda: f"all frames are in: {packets_in(gateway)}")
        gateway.signal(signal.SIGTERM)
        until(lambda: refuses(address), "new connections are refused")
        device.expect(data)
        assert device.expect_end() == ("eof", b"")
    ended(gateway)


def test_published_frames_are_acked_before_the_end(engine, run_gateway):
    """A device is told of every frame that was accepted; numbers have no hole."""
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS, settings={"drain_timeout": "60s"})
    devices = [Device(gateway.address("devices")).say_hello(f"p{i}") for i in range(8)]
    for device in devices:
        device.send(frame(b"m" * 100) * 50)
    until(lambda: packets_in(gateway) >= 8 * 51, "all frames are in")
    gateway.signal(signal.SIGTERM)
    for device in devices:
        device.expect(b"".join(ack(i) for i in range(1, 51)))
        assert device.expect_end() == ("eof", b"")
        device.close()
    ended(gateway)


def test_deadline_is_kept(engine, run_gateway):
    """A peer that never reads can hold the process until drain_timeout, and no longer."""
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS, settings={"drain_timeout": "1s"})
    with Device(gateway.address("small"), rcvbuf=4096) as device:
        device.send(frame(b"s" * 2000) * 200)
        until(lambda: packets_in(gateway) == 200, "all frames are in")
        start = time.monotonic()
        gateway.signal(signal.SIGTERM)
        ended(gateway)
        assert time.monotonic() - start >= 0.9, "unsent replies were given up before the deadline"


def test_second_signal_ends_at_once(engine, run_gateway):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS, settings={"drain_timeout": "10m"})
    with Device(gateway.address("small"), rcvbuf=4096) as device:
        device.send(frame(b"s" * 2000) * 200)
        until(lambda: packets_in(gateway) == 200, "all frames are in")
        gateway.signal(signal.SIGTERM)
        until(lambda: gateway.request("/readyz").status == 503, "it says that it drains")
        assert gateway.process.poll() is None
        gateway.signal(signal.SIGTERM)
        ended(gateway)


def test_readiness_while_draining(engine, run_gateway):
    """A balancer sees /readyz turn while /healthz stays good."""
    gateway = run_gateway(engine, workers=1, listeners=LISTENERS, settings={"drain_timeout": "10m"})
    with Device(gateway.address("small"), rcvbuf=4096) as device:
        device.send(frame(b"s" * 2000) * 200)
        until(lambda: packets_in(gateway) == 200, "all frames are in")
        assert gateway.request("/readyz").status == 200
        gateway.signal(signal.SIGTERM)
        until(lambda: gateway.request("/readyz").status == 503, "it says that it drains")
        assert gateway.request("/healthz").status == 200
        device.close()
    ended(gateway)


def test_stop_under_load(engine, run_gateway):
    """Every echo that comes back is whole; then the connection ends; then the process does."""
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS)
    problems, echoed = [], [0]

    def run():
        try:
            with Device(gateway.address("echo")) as device:
                number = 0
                while True:
                    payload = b"%d" % number * 50
                    device.send(frame(payload))
                    device.expect(frame(payload))
                    number += 1
                    echoed[0] += 1
        except (Ended, OSError):
            pass
        except AssertionError as e:
            problems.append(str(e))
    threads = [threading.Thread(target=run) for _ in range(6)]
    gateway.address("echo")
    for thread in threads:
        thread.start()
    until(lambda: echoed[0] > 500, "load runs")
    gateway.signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert not problems, problems
    ended(gateway)
