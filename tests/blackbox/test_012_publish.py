# SPDX-License-Identifier: Apache-2.0
"""publish mode: hello, tokens, take-over, and the way of a frame from one device to others through topics, on
one worker and on two (where connections move to the owner of their id)."""
import json

import pytest

from harness import config, engines, scenarios
from harness.client import HEARTBEAT, Device, Ended, ack, frame, hello
from harness.gateway import Gateway
from harness.wait import GUARD_S, until

ENGINES = [(e, w) for e in engines.selected() for w in (1, 2)]


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w")
def gateway(request, sluice):
    engine, workers = request.param
    engines.need(engine)
    with Gateway(sluice, engine, workers=workers, listeners=scenarios.LISTENERS) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_left(gateway):
    yield
    gateway.expect_no_conns()


def test_hello_is_acked_with_zero(gateway):
    for ident in ("a", "x" * 256, "Gerät-7", "日本", "with space", '"quoted"', "a.b:c_d"):
        with Device(gateway.address("devices")) as device:
            device.say_hello(ident)
            device.send(frame(b"one") + frame(b"two"))
            device.expect(ack(1) + ack(2))


def test_unknown_members_and_odd_json_are_fine(gateway):
    bodies = [b'{"id":"m1","version":3,"tags":["x",{"y":null}]}', b' {\n"id" :\t"m2" } \r\n',
              b'{"token":"t","id":"m3"}', b'{"id":"\\u0061\\u0062"}']
    for body in bodies:
        with Device(gateway.address("devices")) as device:
            device.send(frame(body))
            assert device.recv_ack() == 0


def test_hello_split_at_every_byte(gateway):
    """The part before the cut is read before the connection moves, the rest after."""
    body = hello("split-me")
    stream = body + frame(b"data")
    for cut in range(1, len(stream)):
        with Device(gateway.address("devices")) as device:
            device.send(stream[:cut])
            if cut >= len(body):
                device.expect(ack(0))
            device.send(stream[cut:])
            device.expect(ack(1) if cut >= len(body) else ack(0) + ack(1))


def test_frames_behind_the_hello_move_along(gateway):
    """Hello and a hundred frames in one piece: none is lost or reordered by the move."""
    for name in ("m-a", "m-b", "m-c", "m-d", "m-e", "m-f"):
        with Device(gateway.address("devices")) as device:
            device.send(hello(name) + b"".join(frame(b"%d" % i) for i in range(100)) + HEARTBEAT)
            device.expect(b"".join(ack(i) for i in range(101)) + HEARTBEAT)


def test_half_close_right_behind_the_hello(gateway):
    for name in ("h-a", "h-b", "h-c", "h-d"):
        with Device(gateway.address("devices")) as device:
            device.send(hello(name) + frame(b"last words"))
            device.half_close()
            device.expect(ack(0) + ack(1))
            assert device.expect_end() == ("eof", b"")


def test_half_close_behind_nothing_but_the_hello(gateway):
    """It moves to the worker of its id, waits there for its subscription, and hears that it is known."""
    for i in range(20):
        with Device(gateway.address("devices")) as device:
            device.send(hello(f"n-{i}"))
            device.half_close()
            device.expect(ack(0))
            assert device.expect_end() == ("eof", b"")


def test_bad_hellos(gateway):
    scenarios.bad_hellos(gateway)


def test_oversize_hello(gateway):
    """A hello has a bound of its own, below max_frame."""
    watch = gateway.watch_closes()
    with Device(gateway.address("devices")) as device:
        device.send((5000).to_bytes(4, "big") + b'{"id":"x"')
        device.expect_end()
    reasons = until(watch.deltas, "a close is counted")
    assert set(reasons) <= {"bad_hello", "frame_too_large"}, reasons


def test_tokens(gateway):
    watch = gateway.watch_closes()
    for token in (None, "", "s3cre", "s3cret ", "S3CRET", "s3cret\u0000"):
        with Device(gateway.address("guarded")) as device:
            device.send(hello("guest", token))
            _, data = device.expect_end()
            assert data == b""
    refused = until(lambda: sum(watch.deltas().values()) == 6 and watch.deltas(), watch.deltas)
    assert refused.get("auth_failed", 0) >= 5 and set(refused) <= {"auth_failed", "bad_hello"}, refused
    with Device(gateway.address("guarded")) as device:
        device.say_hello("guest", "s3cret")


def test_takeover(gateway):
    scenarios.takeover(gateway)


def test_takeover_of_a_peer_that_does_not_read(gateway):
    """The old connection's full socket does not delay the new one."""
    watch = gateway.watch_closes()
    first = Device(gateway.address("devices"), rcvbuf=4096).say_hello("stuck")
    for _ in range(2000):
        if first.send_some(frame(b"") * 4096) == 0:
            break
    with Device(gateway.address("devices")) as second:
        second.say_hello("stuck")
    first.close()
    watch.expect("taken_over")


def test_publish_reaches_a_wildcard_monitor_in_order(gateway):
    scenarios.publish_in_order(gateway)


def test_peers_hear_each_other(gateway):
    """Every device of the room hears all, itself included, each sender's messages in order."""
    names = ["p1", "p2", "p3", "p4"]
    devices = {n: Device(gateway.address("peers")).say_hello(n) for n in names}
    try:
        # Until every device hears every other, subscriptions are still on their way.
        probes = dict.fromkeys(names, 0)
        for name in names:
            def all_hear():
                devices[name].send(frame(b"probe"))
                probes[name] += 1
                return all(_hears(d, b"probe") for d in devices.values())
            until(all_hear, f"all hear {name}", poll_s=0.02)
        for name, device in devices.items():
            device.send(b"".join(frame(b"%s:%d" % (name.encode(), i)) for i in range(50)))
        for own, device in devices.items():
            heard, acked = dict.fromkeys(names, 0), 0
            while sum(heard.values()) < 200 or acked < probes[own] + 50:
                payload = device.recv_frame()
                if len(payload) == 8 and payload[0] == 0:
                    assert int.from_bytes(payload, "big") > acked
                    acked = int.from_bytes(payload, "big")
                elif payload != b"probe":
                    name, number = payload.decode().split(":")
                    assert int(number) == heard[name]
                    heard[name] += 1
    finally:
        for device in devices.values():
            device.close()


def _hears(device, payload):
    """Whether the frame comes within a moment; acks and other probes are read past."""
    while True:
        try:
            device.sock.settimeout(0.05)
            if device.recv_frame() == payload:
                return True
        except AssertionError as e:
            if isinstance(e, Ended):
                raise
            return False
        finally:
            device.sock.settimeout(GUARD_S)


def test_admin_publish_reaches_a_device(gateway):
    names = ["d1", "d2", "d3", "d4"]
    devices = {n: Device(gateway.address("devices")).say_hello(n) for n in names}
    try:
        for name in names:
            body = json.dumps({"for": name}).encode()
            gateway.api(f"/api/publish?topic=devices/{name}/down", "POST", body)
            assert devices[name].recv_frame() == body
        for device in devices.values():
            assert device.is_quiet(0.02), "a message reached a device it was not for"
    finally:
        for device in devices.values():
            device.close()


def test_admin_publish_keeps_order(gateway):
    with Device(gateway.address("devices")) as device:
        device.say_hello("ordered")
        for number in range(50):
            gateway.api("/api/publish?topic=devices/ordered/down", "POST", b"%d" % number)
        for number in range(50):
            assert device.recv_frame() == b"%d" % number


def test_admin_publish_refuses_a_malformed_topic(gateway):
    for topic in ("", "a/%23", "a/%2B/b", "%00"):
        response = gateway.request(f"/api/publish?topic={topic}", "POST", b"x")
        assert response.status == 400, (topic, response.status, response.body)


def test_nothing_comes_after_the_device_left(gateway):
    """The subscription ends with its connection: a publish then is delivered to nobody."""
    with Device(gateway.address("devices")) as device:
        device.say_hello("leaver")
        gateway.api("/api/publish?topic=devices/leaver/down", "POST", b"here")
        assert device.recv_frame() == b"here"
    gateway.expect_no_conns()
    before = gateway.metric("sluice_delivered_total")
    gateway.api("/api/publish?topic=devices/leaver/down", "POST", b"gone")
    assert gateway.metric("sluice_delivered_total") == before


def test_frames_of_an_unheard_topic_are_acked(gateway):
    with Device(gateway.address("devices")) as device:
        device.say_hello("lonely")
        device.send(frame(b"x" * 60000) * 3)
        device.expect(ack(1) + ack(2) + ack(3))


__all__ = ["config"]
