# SPDX-License-Identifier: Apache-2.0
"""Connections in odd states cost no CPU while nothing happens: a level-triggered engine that is told the same
thing again and again, or a timer that is always due, would show as a busy worker."""
import signal
import time

from harness import proc
from harness.client import Device, frame, hello
from harness.wait import holds, until

LISTENERS = {
    "echo": {"mode": "echo", "sndbuf": "16k", "out_max": "256k", "out_high": "32k", "max_frame": "64k",
             "send_timeout": "10m", "idle_timeout": "10m", "packet_timeout": "10m"},
    "devices": {"mode": "publish", "hello_timeout": "10m", "idle_timeout": "10m", "packet_timeout": "10m"},
}
FLOOD = frame(b"f" * 4000)


def fill(device):
    quiet = 0
    while quiet < 5:
        if device.send_some(FLOOD * 8):
            quiet = 0
        else:
            quiet += 1
            time.sleep(0.01)


def load_of(gateway, seconds=1.0):
    before, start = proc.cpu_s(gateway.pid), time.monotonic()
    time.sleep(seconds)
    return (proc.cpu_s(gateway.pid) - before) / (time.monotonic() - start)


def odd_connections(gateway):
    """Name -> device in that state."""
    echo, devices = gateway.address("echo"), gateway.address("devices")
    odd = {name: Device(echo, rcvbuf=4096) for name in (
        "paused", "paused, then half-closed", "replies unread", "half-closed, replies unread")}
    fill(odd["paused"])
    fill(odd["paused, then half-closed"])
    odd["paused, then half-closed"].half_close()
    for name in ("replies unread", "half-closed, replies unread"):
        odd[name].send(frame(b"r" * 20000) * 2)
    odd["half-closed, replies unread"].half_close()
    for name, data in (("silent", b""), ("half a header", b"\0\0"), ("half a frame", FLOOD[:1000])):
        odd[name] = Device(echo)
        odd[name].send(data)
    odd["no hello"] = Device(devices)
    odd["half a hello"] = Device(devices)
    odd["half a hello"].send(hello("odd")[:9])
    odd["device"] = Device(devices).say_hello("device")
    return odd


def test_odd_states_are_idle(engine, run_gateway):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS)
    odd = odd_connections(gateway)
    load = load_of(gateway)
    states = {c["peer"]: c["state"] for c in gateway.conns()}
    assert load < 0.2, f"{load:.0%} of a CPU; states {states}"
    start, loops = time.monotonic(), gateway.metric("sluice_loops_total")
    time.sleep(0.5)
    more, took = gateway.metric("sluice_loops_total") - loops, time.monotonic() - start
    assert more < 400 * took, f"{more} turns of the loops in {took:.1f} s"
    for device in odd.values():
        device.reset()
    gateway.expect_no_conns()


def test_draining_is_idle(engine, run_gateway):
    """A drain that waits for stuck peers waits without turning."""
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS, settings={"drain_timeout": "10m"})
    stuck = [Device(gateway.address("echo"), rcvbuf=4096) for _ in range(4)]
    for device in stuck:
        fill(device)
    gateway.signal(signal.SIGTERM)
    until(lambda: gateway.request("/readyz").status == 503, "it drains")
    load = load_of(gateway)
    assert load < 0.2, f"{load:.0%} of a CPU while draining"
    holds(lambda: gateway.process.poll() is None, "it waits for its peers", 0.1)
    for device in stuck:
        device.reset()
    assert gateway.wait_exit() == 0


def test_nothing_at_all_is_idle(engine, run_gateway):
    gateway = run_gateway(engine, workers=2, listeners=LISTENERS)
    load = load_of(gateway)
    assert load < 0.1, f"{load:.0%} of a CPU without a connection"
