# SPDX-License-Identifier: Apache-2.0
"""Limits on how many and how fast: max_conns of a listener and of the process, max_conns_per_address,
accept_rate. Each refusal is counted by its name, and each limit frees again."""
import time

from conftest import shared_gateway
from harness.client import Device, Ended, frame
from harness.wait import until

LISTENERS = {
    "few": {"mode": "echo", "max_conns": 5},
    "shared": {"mode": "echo", "max_conns_per_address": 3},
    "calm": {"mode": "echo", "accept_rate": 20},
    "echo": {"mode": "echo"},
}
gateway_process, gateway = shared_gateway(listeners=LISTENERS, workers=2)


def is_served(device):
    try:
        device.send(frame(b"served?"))
        device.expect(frame(b"served?"))
        return True
    except (Ended, OSError):
        return False


def close_all(devices):
    for device in devices:
        device.close()


def admitted(gateway, listener, count, **options):
    """Opens count connections one after the other; returns (served, refused)."""
    served, refused = [], []
    for _ in range(count):
        device = Device(gateway.address(listener), **options)
        (served if is_served(device) else refused).append(device)
    return served, refused


def test_max_conns_of_a_listener(gateway):
    watch = gateway.watch_closes()
    served, refused = admitted(gateway, "few", 9)
    assert (len(served), len(refused)) == (5, 4)
    watch.expect("conn_limit", 4)
    # Other listeners are not concerned; a place that is given back serves again.
    with Device(gateway.address("echo")) as other:
        assert is_served(other)
    served.pop().close()

    def place_is_free():
        device = Device(gateway.address("few"))
        if is_served(device):
            served.append(device)
            return True
        device.close()
        return False
    until(place_is_free, "a freed place serves again", poll_s=0.02)
    assert all(is_served(d) for d in served)
    close_all(served + refused)


def test_max_conns_per_address(gateway):
    watch = gateway.watch_closes()
    served, refused = admitted(gateway, "shared", 6, source="127.0.0.21")
    assert (len(served), len(refused)) == (3, 3)
    watch.expect("address_limit", 3)
    elsewhere, none = admitted(gateway, "shared", 3, source="127.0.0.22")
    assert (len(elsewhere), none) == (3, [])
    close_all(served + refused + elsewhere)
    gateway.expect_no_conns()
    again, none = admitted(gateway, "shared", 3, source="127.0.0.21")
    assert (len(again), none) == (3, [])
    close_all(again)


def test_address_counts_do_not_leak(gateway):
    """Hundreds of visits, orderly, reset and refused, leave the address at zero."""
    for round_number in range(60):
        devices = [Device(gateway.address("shared"), source="127.0.0.23") for _ in range(5)]
        for index, device in enumerate(devices):
            if (round_number + index) % 2:
                device.reset()
            else:
                device.close()
    gateway.expect_no_conns()
    served, refused = admitted(gateway, "shared", 4, source="127.0.0.23")
    assert (len(served), len(refused)) == (3, 1)
    close_all(served + refused)


def test_accept_rate(gateway):
    """A burst of three seconds' worth does not get in at once: the rest is refused by name or waits."""
    watch = gateway.watch_closes()
    opened_before = gateway.metric("sluice_conns_opened_total")
    start = time.monotonic()
    devices = []
    for _ in range(100):
        devices.append(Device(gateway.address("calm")))
    time.sleep(max(0.0, start + 0.3 - time.monotonic()))
    opened = until(lambda: gateway.metric("sluice_conns_opened_total") - opened_before - watch.delta("accept_rate"), "one is served")
    took = time.monotonic() - start
    # A second's worth may come as a burst, then 20 a second.
    assert opened <= 20 + 20 * (took + 1), f"{opened} admitted in {took:.2f} s"
    close_all(devices)
    gateway.expect_no_conns()
    # It ends by itself: some time later a new connection is served.
    until(lambda: _visit(gateway, "calm"), "the listener serves again", poll_s=0.05)


def _visit(gateway, listener):
    with Device(gateway.address(listener)) as device:
        return is_served(device)


def test_max_conns_of_the_process(engine, run_gateway):
    gateway = run_gateway(engine, workers=2, settings={"max_conns": 16},
                          listeners={"a": {"mode": "echo"}, "b": {"mode": "ack"}})
    watch = gateway.watch_closes()
    served, refused = admitted(gateway, "a", 12)
    more_served, more_refused = [], []
    for _ in range(12):
        device = Device(gateway.address("b"))
        try:
            device.send(frame(b"x"))
            device.recv_ack()
            more_served.append(device)
        except (Ended, OSError):
            more_refused.append(device)
    # Workers may divide the number between them, so one may be full before the other.
    count = len(served) + len(more_served)
    assert 8 <= count <= 16, count
    watch.expect("conn_limit", 24 - count)
    close_all(served + refused + more_served + more_refused)
    gateway.expect_no_conns()
    assert _visit(gateway, "a")
