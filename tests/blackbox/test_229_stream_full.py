# SPDX-License-Identifier: Apache-2.0
"""discard = new in its corners: nothing that was acknowledged is lost, and a stream that is full has room again when its readers have
taken what it holds, whoever publishes, whoever reads and whatever changes meanwhile."""
import itertools
import signal
import subprocess

import pytest

from harness.client import Device, ack, frame, hello
from harness.remotes import Collector, Mosquitto, needed
from harness.streams import QUOTA, client, subscribe, take
from harness.uplink import all_up, drained, view
from harness.wait import GUARD_S, until
from mqtt import wire
from mqtt.wire import Will

pytestmark = pytest.mark.guard(240)


@pytest.fixture
def mosquitto():
    with Mosquitto("max_queued_bytes 0") as broker:
        yield broker


def start(make, port=None, workers=1, bytes_max="64k", uplink=None, settings=None, streams=("telemetry",), **more):
    sections = {f"stream {name}": {"topics": [f"{name[0]}/#", f"{name}/#"], "max_bytes": bytes_max, "max_age": "unlimited", "discard": "new"}
                for name in streams}
    if port:
        sections["uplink cloud"] = {"kind": "mqtt", "url": [f"mqtt://127.0.0.1:{port}"], "streams": list(streams),
                                    "client_id": "gw-%n", "backoff_min": "50ms", "backoff_max": "200ms", **(uplink or {})}
    return make(workers=workers, listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}, **more.pop("listeners", {})},
                settings={"log_max": "64m", **(settings or {})}, sections=sections, **more)


def away(gateway, mosquitto):
    mosquitto.stop()
    until(lambda: view(gateway)["workers_up"] == 0, "the uplink has noticed")


def text(n, size):
    return (b"%d " % n).ljust(size, b"x")


def fill(publishers, topic="t/x", size=1000, first=0):
    """Publishes until all are refused; the numbers of those that were acknowledged."""
    taken, full = [], set()
    for n, p in zip(itertools.count(first), itertools.cycle(publishers)):
        if len(full) == len(publishers):
            return taken
        code = p.publish(topic, text(n, size), 1 + n % 2)
        assert code in (0, 0x10, QUOTA), hex(code)
        if code == QUOTA:
            full.add(p)
        else:
            taken.append(n)
        assert n - first < 5000, "it is never full"


def senders(gateway):
    return [client(gateway, f"p{i}") for i in range(2 * gateway.workers)]


def taken_at_last(publisher, topic="t/x", payload=b"0", qos=1):
    until(lambda: publisher.publish(topic, payload, qos) in (0, 0x10), "there is room again", GUARD_S, 0.05)


def numbers(there):
    return [int(p.split()[0]) for p in there.payloads()]


def arrived(there, expected):
    until(lambda: set(expected) <= set(numbers(there)), lambda: f"missing: {sorted(set(expected) - set(numbers(there)))[:20]}", GUARD_S * 2)


def reload(gateway):
    gateway.write_config()
    gateway.signal(signal.SIGHUP)


def test_a_command_for_a_full_stream_does_not_stop_the_uplink(run_gateway, mosquitto):
    """The remote offers it with each connection, before it acknowledges anything; only the uplink can make room for it."""
    gateway = start(run_gateway, mosquitto.port, uplink={"down": ["t/cmd"]})
    all_up(gateway)
    gateway.crash()
    subprocess.run([needed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(mosquitto.port), "-t", "t/cmd", "-q", "1", "-m", "go"],
                   check=True, timeout=GUARD_S)
    mosquitto.stop()
    gateway.start()
    device = client(gateway, "device")
    device.subscribe("t/cmd", qos=1)
    taken = fill(senders(gateway))
    mosquitto.start()
    with Collector(mosquitto.port, "t/x") as there:
        arrived(there, taken)
    assert device.message().payload == b"go"


@pytest.mark.parametrize("source", ["new", "earliest"])
def test_partitions_that_move_twice(make_gateway, mosquitto, tmp_path, source):
    """3 workers, then 1, then 3 again: what the one had of the others goes back to them, unsent."""
    gateway = start(lambda **k: make_gateway(**k).start(), mosquitto.port, 3, "1m", {"from": source}, directory=str(tmp_path))
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        publishers = senders(gateway)
        for n, p in enumerate(publishers):
            assert p.publish("t/x", text(n, 100), 1) in (0, 0x10)
        arrived(there, range(len(publishers)))
        away(gateway, mosquitto)
        taken = fill(publishers, first=1000)
        for workers in (1, 3):
            gateway.kill()
            gateway.workers = workers
            gateway.forget_addresses()
            gateway.start()
        mosquitto.start()
        arrived(there, taken)
        drained(gateway)
        for p in senders(gateway):
            taken_at_last(p)


def test_the_log_is_full_before_the_stream(run_gateway, mosquitto):
    """What all have taken goes when the log needs its room, however much the stream may hold."""
    gateway = start(run_gateway, mosquitto.port, bytes_max="unlimited", settings={"log_max": "16m"})
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        p = client(gateway, "p")
        count = 60
        for n in range(count):
            until(lambda: p.publish("t/x", text(n, 500_000), 1) in (0, 0x10), lambda: f"{n}: {view(gateway)}", GUARD_S, 0.05)
        arrived(there, range(count))


@pytest.mark.parametrize("workers, order", [(1, "newest"), (3, "oldest")])
def test_messages_larger_than_the_bound(run_gateway, mosquitto, workers, order):
    gateway = start(run_gateway, mosquitto.port, workers, uplink={"order": order})
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        publishers = senders(gateway)
        sizes = itertools.cycle([200_000, 10, 70_000, 3000])
        for n, p in zip(range(8), itertools.cycle(publishers)):
            taken_at_last(p, payload=text(n, next(sizes)), qos=1 + n % 2)
        arrived(there, range(8))
        away(gateway, mosquitto)
        taken = fill(publishers, size=100_000, first=100) + fill(publishers, size=10, first=200)
        mosquitto.start()
        arrived(there, taken)
        for p in publishers:
            taken_at_last(p, payload=text(1, 100_000))


def test_idle_workers_leave_room(run_gateway, mosquitto):
    gateway = start(run_gateway, mosquitto.port, 8)
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        publishers = [client(gateway, f"p{i}") for i in range(24)]
        for n, p in enumerate(publishers):
            assert p.publish("t/x", text(n, 10), 1) in (0, 0x10)
        for n in range(100, 500):
            taken_at_last(publishers[0], payload=text(n, 1000))
        arrived(there, range(100, 500))
        away(gateway, mosquitto)
        taken = fill(publishers, first=1000)
        mosquitto.start()
        arrived(there, taken)
        for p in publishers:
            taken_at_last(p)


def test_an_uplink_that_leaves_messages_out_makes_room_too(run_gateway):
    with Mosquitto("max_queued_bytes 0\nmax_packet_size 3000") as mosquitto:
        gateway = start(run_gateway, mosquitto.port, 2)
        all_up(gateway)
        away(gateway, mosquitto)
        publishers = senders(gateway)
        assert publishers[0].publish("t/x", b"1", 1, props={"message_expiry": 1}) in (0, 0x10)
        fill(publishers, size=5000)
        mosquitto.start()
        drained(gateway)
        for p in publishers:
            taken_at_last(p)
        rows = view(gateway)["workers"]  # one of them may have had no room for any
        assert sum(row["dropped"].get("too_large", 0) for row in rows) > 5, rows


def test_an_uplink_is_added_and_removed(run_gateway, mosquitto):
    gateway = start(run_gateway, None, 2)
    publishers = senders(gateway)
    taken = fill(publishers)
    with Collector(mosquitto.port, "t/#") as there:
        other = dict(kind="mqtt", url=[f"mqtt://127.0.0.1:{mosquitto.port}"], streams=["telemetry"], client_id="gw-%n")
        gateway.sections["uplink all"] = {**other, "from": "earliest"}
        gateway.sections["uplink dead"] = {**other, "from": "earliest", "url": ["mqtt://127.0.0.1:9"]}
        reload(gateway)
        arrived(there, taken)
        assert all(p.publish("t/x", text(0, 1000), 1) == QUOTA for p in publishers)  # `dead` has sent nothing
        del gateway.sections["uplink dead"]
        reload(gateway)
        for p in publishers:
            taken_at_last(p, payload=text(5000, 1000))
        arrived(there, [5000])


def test_consumers_that_share_leave_and_are_forgotten(run_gateway):
    gateway = start(run_gateway)
    one, two, idle = (client(gateway, name) for name in ("one", "two", "idle"))
    for c in (one, two):
        subscribe(c, "telemetry", "earliest", share="group")
    subscribe(idle, "telemetry", "earliest", consumer="idle")
    publisher = client(gateway, "p")
    taken = fill([publisher])
    idle.drop()
    one.drop()  # what it was given goes to the other
    got = {int(payload.split()[0]) for payload, _, _ in take(two, len(taken))}
    assert got <= set(taken)
    assert publisher.publish("t/x", text(0, 1000), 1) == QUOTA
    until(lambda: gateway.request("/api/streams/telemetry/consumers/idle", "DELETE").status in (200, 204, 404), "forgotten")
    until(lambda: publisher.publish("t/x", text(7000, 1000), 1) in (0, 0x10) or
          (two.is_quiet(0.05) or two.answer(two.wait_for(wire.PUBLISH))), "there is room again", GUARD_S, 0.05)


def test_qos_2_again_and_again(run_gateway):
    """A refused one leaves its packet identifier free; the same one is taken once when there is room."""
    gateway = start(run_gateway)
    reader = client(gateway, "reader")
    subscribe(reader, "telemetry", "earliest", consumer="one")
    p = client(gateway, "p", clean=False)
    taken = fill([p])
    message = dict(qos=2, ident=77)
    for dup in (False, True, True):
        p.send(p.publish_bytes("t/x", text(9000, 10), dup=dup, **message))
        p.expect(wire.PUBREC, ident=77, reason=QUOTA)
    take(reader, len(taken))

    def accepted():
        p.send(p.publish_bytes("t/x", text(9000, 10), dup=True, **message))
        return p.expect(wire.PUBREC, ident=77).reason != QUOTA
    until(accepted, "there is room again", GUARD_S, 0.05)
    for _ in range(3):
        p.send(p.publish_bytes("t/x", text(9000, 10), dup=True, **message))
        p.expect(wire.PUBREC, ident=77, reason=0)
    p.ack(wire.PUBREL, 77)
    p.expect(wire.PUBCOMP, ident=77, reason=0)
    p.publish("t/x", text(9001, 10), 1)
    assert [int(payload.split()[0]) for payload, _, _ in take(reader, 2)] == [9000, 9001]


def test_who_can_not_be_told(run_gateway):
    """A will is dropped and counted; a framed device is closed by name."""
    frames = {"devices": {"protocol": "frame", "bind": "127.0.0.1:0", "mode": "publish"}}
    gateway = start(run_gateway, listeners=frames, streams=("telemetry", "devices"))
    publisher = client(gateway, "p")
    fill([publisher])
    fill([publisher], "devices/x/up")
    assert gateway.metric("sluice_mqtt_dropped_total", reason="stream_full") == 2
    dying = client(gateway, "dying", will=Will("t/dead", b"x", qos=1))
    dying.reset()
    until(lambda: gateway.metric("sluice_mqtt_dropped_total", reason="stream_full") == 3, "the will was refused")
    with Device(gateway.address("devices")) as device:
        device.send(hello("dev") + frame(b"x"))
        device.expect(ack(0))
        device.expect_end()
    assert gateway.closes("stream_full") == 1
