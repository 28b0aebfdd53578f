# SPDX-License-Identifier: Apache-2.0
"""Listeners on IPv4, IPv6, both at once, and a unix socket: the same protocol, and peers named as they came."""
import os
import socket

import pytest

from harness.client import Device, ack, frame
from harness.wait import until


def ipv6_refusal():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return None
    except OSError as e:
        return f"no IPv6 here: {e.strerror}"


def say(address, count=3, **options):
    device = Device(address, **options)
    for number in range(1, count + 1):
        device.send(frame(b"hello over there"))
        device.expect(ack(number))
    return device


@pytest.mark.parametrize("workers", [1, 2])
def test_unix_listener(engine, run_gateway, make_gateway, workers):
    gateway = make_gateway(engine, workers=workers)
    path = f"{gateway.directory}/devices.sock"
    gateway.listeners = {"local": {"mode": "ack", "bind": f"unix:{path}"},
                         "pub": {"mode": "publish", "bind": f"unix:{path}.pub"}}
    gateway.start()
    devices = [say(path) for _ in range(20)]
    assert {c["peer"] for c in gateway.conns()} == {"unix"}
    for device in devices:
        device.close()
    for name in ("a", "b", "c", "d"):  # some of them belong to the other worker
        with Device(f"{path}.pub") as device:
            device.say_hello(name)
            gateway.api(f"/api/publish?topic=devices/{name}/down", "POST", b"down the pipe")
            assert device.recv_frame() == b"down the pipe"
    gateway.expect_no_conns()
    mode = os.stat(path).st_mode & 0o777
    assert mode & 0o007 == 0, f"others may connect: {mode:o}"


def test_ipv6_listener(engine, run_gateway):
    why = ipv6_refusal()
    if why:
        pytest.skip(why)
    gateway = run_gateway(engine, workers=2, listeners={
        "six": {"mode": "ack", "bind": "[::1]:0"}, "both": {"mode": "ack", "bind": "[::]:0"}})
    with say(gateway.address("six")) as device:
        assert gateway.conn_of(device)["peer"] == f"[::1]:{device.local[1]}"
    port = gateway.address("both")[1]
    with say(("::1", port)) as six, say(("127.0.0.1", port)) as four:
        peers = {c["peer"] for c in gateway.conns("?listener=both")}
        assert peers == {six.peer_text, four.peer_text}, peers


def test_address_limit_counts_each_family(engine, run_gateway):
    """An IPv4 client of an IPv6 listener counts by its IPv4 address."""
    why = ipv6_refusal()
    if why:
        pytest.skip(why)
    gateway = run_gateway(engine, listeners={
        "both": {"mode": "ack", "bind": "[::]:0", "max_conns_per_address": 2}})
    port = gateway.address("both")[1]
    watch = gateway.watch_closes()
    devices = [say(("127.0.0.1", port)) for _ in range(2)] + [say(("::1", port)) for _ in range(2)]
    with Device(("127.0.0.1", port)) as refused:
        refused.expect_end()
    watch.expect("address_limit")
    for device in devices:
        device.close()


def test_stale_unix_socket_is_taken_over(engine, make_gateway):
    """A file left by a killed gateway is no obstacle, one that somebody listens on is."""
    gateway = make_gateway(engine)
    path = f"{gateway.directory}/devices.sock"
    gateway.listeners = {"local": {"mode": "ack", "bind": f"unix:{path}"}}
    gateway.start()
    gateway.process.kill()
    gateway.process.wait()
    assert os.path.exists(path)
    gateway.start()
    say(path).close()
    second = make_gateway(engine, listeners={"local": {"mode": "ack", "bind": f"unix:{path}"}})
    second.spawn()
    assert second.wait_exit() > 0
    assert path in second.stderr() and "EADDRINUSE" in second.stderr()
    until(lambda: not gateway.conns(), "the probe of the second is gone")
    say(path).close()
