# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: the same scenario gives the same event names on every engine; it can be read live and
is written out when the process dies of a signal."""
import re
import signal
import subprocess

import pytest

from harness import engines
from harness.client import Device, ack, frame
from harness.wait import GUARD_S, until

LISTENERS = {"ack": {"mode": "ack"}, "devices": {"mode": "publish"}}
# Which of these an engine needs, and how often, is its own business.
OWN = {"recv_arm", "send_wait", "accept_arm", "nobufs", "wake", "timer", "loop_lag"}


def scenario(gateway):
    """One connection: two frames, an orderly end. Returns the names of its events, in order."""
    with Device(gateway.address("ack")) as device:
        device.send(frame(b"one"))
        device.expect(ack(1))
        ident = gateway.conn_of(device)["id"]
        device.send(frame(b"two"))
        device.expect(ack(2))
        until(lambda: len(events_of(gateway, ident)) >= 5, "its events are recorded")
        device.close()
        gateway.expect_no_conns()
    return events_of(gateway, ident)


def events_of(gateway, ident):
    response = gateway.request(f"/api/trace?conn={ident}")
    assert response.status == 200, response.body
    import json
    return [json.loads(line)["event"] for line in response.text().splitlines()
            if line and "event" in line]


def test_same_names_on_every_engine(run_gateway):
    seen, skipped = {}, []
    for engine in engines.selected():
        if engines.refusal(engine):
            skipped.append(engine)
            continue
        gateway = run_gateway(engine, workers=1, listeners=LISTENERS)
        names = [n for n in scenario(gateway) if n not in OWN]
        seen[engine] = names
        assert {"recv", "send", "sent", "close"} <= set(names), (engine, names)
    if len(seen) < 2:
        pytest.skip(f"fewer than two engines here; without {skipped}")
    sets = {engine: sorted(set(names)) for engine, names in seen.items()}
    assert len({tuple(s) for s in sets.values()}) == 1, sets


def test_trace_follows_a_peer(engine, run_gateway):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS)
    with Device(gateway.address("ack")) as device, Device(gateway.address("ack")) as other:
        for d in (device, other):
            d.send(frame(b"x"))
            d.expect(ack(1))
        ident = gateway.conn_of(device)["id"]
        text = subprocess.run(
            [*gateway.command, "ctl", "--socket", gateway.settings["ctl_socket"], "trace", "--conn", str(ident)],
            capture_output=True, text=True, timeout=GUARD_S)
        assert text.returncode == 0, text
        assert re.search(r"\brecv\b", text.stdout) and re.search(r"\bsend\b", text.stdout), text.stdout


def test_moves_are_recorded(engine, run_gateway):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS)
    devices = [Device(gateway.address("devices")).say_hello(f"mover-{i}") for i in range(16)]
    response = gateway.request("/api/trace")
    assert response.status == 200
    assert "move_out" in response.text() and "move_in" in response.text()
    assert gateway.metric("sluice_conns_moved_out_total") == gateway.metric("sluice_conns_moved_in_total") > 0
    for device in devices:
        device.close()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
def test_crash_writes_the_recorder(engine, make_gateway, number):
    gateway = make_gateway(engine, workers=2, listeners=LISTENERS).start()
    with Device(gateway.address("ack")) as device:
        device.send(frame(b"last"))
        device.expect(ack(1))
        gateway.signal(number)
        code = gateway.wait_exit()
    assert code == -number, f"ended with {code}, not by the signal"
    text = gateway.stderr()
    assert signal.Signals(number).name in text, text[-2000:]
    for name in ("accept", "recv", "send"):
        assert re.search(rf"\b{name}\b", text), f"no {name} event in the dump: {text[-2000:]}"
