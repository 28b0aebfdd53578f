# SPDX-License-Identifier: Apache-2.0
"""discard = new: a stream at its bound refuses new messages rather than give up one that an uplink or a named consumer has
still to take. What was acknowledged all comes to the remote, a real Mosquitto, whatever the length of the outage."""
import itertools
import signal

import pytest

from harness.remotes import Collector, Mosquitto
from harness.streams import QUOTA, client, read_to_end, subscribe, take
from harness.uplink import all_up, drained, view
from harness.wait import GUARD_S, until
from mqtt import wire

MAX = 1 << 20
SIZE = 4000
FEW, MANY = MAX // SIZE * 3 // 4, MAX // SIZE + 10  # so many messages fit; the bound may be passed by one a worker
pytestmark = pytest.mark.guard(240)


@pytest.fixture
def mosquitto():
    with Mosquitto("max_queued_bytes 0") as broker:
        yield broker


def start(run_gateway, port=None, workers=1, discard="new"):
    sections = {"stream telemetry": {"topics": ["t/#"], "max_bytes": MAX, "discard": discard}}
    if port:
        sections["uplink cloud"] = {"kind": "mqtt", "url": [f"mqtt://127.0.0.1:{port}"], "streams": ["telemetry"],
                                    "client_id": "gw-%n", "backoff_min": "50ms", "backoff_max": "200ms"}
    return run_gateway(workers=workers, listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}},
                       settings={"log_max": "64m"}, sections=sections)


def payload(n):
    return (b"%d " % n).ljust(SIZE, b"x")


def senders(gateway, version=wire.V5):
    """On all workers, as their ids are spread over them."""
    return [client(gateway, f"p{i}", version=version) for i in range(2 * gateway.workers)]


def fill(gateway, publishers, first=0):
    """Publishes until all are refused; the numbers of those that were acknowledged."""
    taken, full = [], set()
    for n, p in zip(itertools.count(first), itertools.cycle(publishers)):
        if len(full) == len(publishers):
            break
        code = p.publish("t/dev", payload(n), 1 + n % 2)
        assert code in (0, 0x10, QUOTA), hex(code)
        if code == QUOTA:
            full.add(p)
        else:
            taken.append(n)
        assert n - first < 3 * MANY, "it is never full"
    return taken


def numbers(messages):
    return [int(m.split()[0]) for m in messages]


def held(gateway):
    return gateway.api("/api/streams/telemetry")["messages"]


@pytest.mark.parametrize("workers", [1, 3])
def test_an_outage_loses_nothing_that_was_acknowledged(run_gateway, mosquitto, workers):
    gateway = start(run_gateway, mosquitto.port, workers)
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        mosquitto.stop()
        until(lambda: view(gateway)["workers_up"] == 0, "the uplink has noticed")
        live = client(gateway, "live")
        live.subscribe("t/#", qos=0)
        publishers = senders(gateway)
        taken = fill(gateway, publishers)
        assert FEW < len(taken) < MANY + workers and held(gateway) == len(taken)
        assert gateway.metric("sluice_stream_refused_total", stream="telemetry") >= len(publishers)
        gateway.wait_log("stream telemetry: full")
        for _ in taken:
            live.message()
        assert publishers[0].publish("t/dev", payload(1), 1, retain=True) == QUOTA
        with client(gateway, "new") as new:
            new.subscribe("t/#", qos=1)
            new.ping()  # it has not become the retained message either
            new.bye()
        publishers[0].publish("t/dev", b"-1", 0)  # is delivered, and not kept
        assert live.message().payload == b"-1"
        for p in publishers:
            assert p.publish("u", b"x", 1) in (0, 0x10)  # others are not held up
        with client(gateway, "old", version=wire.V311) as old:
            old.send(old.publish_bytes("t/dev", b"7", 1, 1))
            old.expect_end()
        assert gateway.closes("stream_full") == 1
        assert gateway.metric("sluice_mqtt_dropped_total", reason="stream_full") >= len(publishers) + 2
        gateway.crash()
        gateway.start()
        assert held(gateway) == len(taken)
        publishers = senders(gateway)
        assert publishers[0].publish("t/dev", payload(0), 1) == QUOTA
        mosquitto.start()
        all_up(gateway)
        drained(gateway)
        later = 10 ** 6
        for n, p in enumerate(publishers):
            until(lambda: p.publish("t/dev", payload(later + n), 1) in (0, 0x10), "there is room again", GUARD_S, 0.05)
        drained(gateway)
        expected = taken + [later + n for n in range(len(publishers))]
        until(lambda: len(set(numbers(there.payloads()))) >= len(expected), "all has come")
        got = list(dict.fromkeys(numbers(there.payloads())))
        assert sorted(got) == expected and (workers > 1 or got == expected)
        assert all(not any(row["dropped"].values()) for row in view(gateway)["workers"])
    gateway.wait_log("stream telemetry: has room again")


def test_room_comes_as_the_uplink_sends(run_gateway, mosquitto):
    """Much more than the bound, with the remote there: whoever is refused waits a moment. The stream stays within its bound."""
    gateway = start(run_gateway, mosquitto.port, 2)
    count = 6 * MAX // SIZE
    with Collector(mosquitto.port, "t/#") as there:
        all_up(gateway)
        publishers = senders(gateway)
        for n, p in zip(range(count), itertools.cycle(publishers)):
            until(lambda: p.publish("t/dev", payload(n), 1) in (0, 0x10), lambda: f"{n}: {view(gateway)}", GUARD_S, 0.01)
        assert gateway.api("/api/streams/telemetry")["bytes"] <= MAX + 2 * 2 * SIZE
        drained(gateway)
        until(lambda: len(set(numbers(there.payloads()))) >= count, "all has come")
        assert sorted(set(numbers(there.payloads()))) == list(range(count))


def test_a_named_consumer_holds_what_it_has_not_acknowledged(run_gateway):
    gateway = start(run_gateway)
    reader = client(gateway, "reader")
    subscribe(reader, "telemetry", "earliest", consumer="one")
    publishers = senders(gateway)
    taken = fill(gateway, publishers)
    assert numbers(p for p, _, _ in take(reader, len(taken))) == taken
    until(lambda: publishers[0].publish("t/dev", payload(9999), 1) in (0, 0x10), "there is room again", GUARD_S, 0.05)
    assert numbers(p for p, _, _ in take(reader, 1)) == [9999]
    assert gateway.metric("sluice_stream_trimmed_total", stream="telemetry") > 0


def test_nobody_reads_it_and_the_policy_changes(run_gateway):
    """Without uplink and consumer nothing goes for its size; a reload can say otherwise, and back."""
    gateway = start(run_gateway)
    publishers = senders(gateway)
    taken = fill(gateway, publishers)
    assert gateway.metric("sluice_stream_trimmed_total", stream="telemetry") == 0
    assert numbers(m["payload"] for m in read_to_end(gateway, "telemetry")) == taken
    for discard, code in (("old", 0x10), ("new", QUOTA)):
        gateway.sections["stream telemetry"]["discard"] = discard
        gateway.write_config()
        gateway.signal(signal.SIGHUP)
        until(lambda: gateway.api("/api/streams/telemetry")["discard"] == discard, "reloaded")
        if discard == "old":
            for n in range(MANY):
                assert publishers[0].publish("t/dev", payload(n), 1) in (0, code)
    fill(gateway, publishers)
