# SPDX-License-Identifier: Apache-2.0
"""queue_policy = reject: a message for a session whose queue is full is refused by name, for everybody: nobody has got it when its
publisher sends it again. Also when publisher and sessions are on different workers."""
import itertools
import shutil
import subprocess
import threading

import pytest

from harness import engines
from harness.client import Device, ack, frame, hello
from harness.durable import client, crash, durable, gateways
from harness.gateway import Gateway
from harness.mqtt_peer import Client, Ended, wire
from harness.wait import until

QUOTA = 0x97
MAX = 20
LISTENERS = {
    "mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": MAX, "queue_policy": "reject"},
    "other": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": 100000, "max_queued_bytes": "64m"},
    "devices": {"protocol": "frame", "bind": "127.0.0.1:0", "mode": "publish"},
}
gateway = gateways(LISTENERS, (1, 3))


def away(gateway, name, topic="t", listener="mqtt"):
    with durable(gateway, name, True, listener) as s:
        s.subscribe(topic, qos=2)
        s.bye()


def publishers(gateway, count=6, version=wire.V5):
    """On all workers, as their ids are spread over them."""
    return [client(gateway, "other", version).hello(f"p{i}") for i in range(count)]


def row(gateway, name):
    return gateway.api(f"/api/sessions?client={name}")["sessions"][0]


def fill(gateway, name, senders, topic="t"):
    """Publishes until it is refused; returns what was accepted."""
    accepted = []
    for i, p in zip(itertools.count(), itertools.cycle(senders)):
        if p.publish(topic, b"%d" % i, 1 + i % 2) == QUOTA:
            break
        accepted.append(i)
        assert i < 10 * MAX, "it is never full"
    listed = row(gateway, name)
    assert listed["queue_policy"] == "reject" and listed["rejects"] and listed["queued"] == MAX == len(accepted)
    return accepted


def receive(s, count):
    return [int(s.message().payload) for _ in range(count)]


def refused(gateway):
    return gateway.metric("sluice_mqtt_dropped_total", reason="queue_reject")


def test_it_is_refused_for_all_and_taken_later(gateway):
    away(gateway, "full")
    away(gateway, "roomy", listener="other")
    live = client(gateway, "other").hello("live")
    live.subscribe("t", qos=2)
    senders = publishers(gateway)
    accepted = fill(gateway, "full", senders)
    assert gateway.metric("sluice_mqtt_sessions_full") == 1
    for qos, p in itertools.product((1, 2), senders):
        assert p.publish("t", b"1000", qos) == QUOTA
        assert p.publish("t", b"1000", qos, retain=True) == QUOTA
        assert p.publish("u", b"x", qos) == 0x10  # others are not held up
    assert refused(gateway) == 1 + 4 * len(senders)
    assert sorted(receive(live, MAX)) == accepted
    senders[0].publish("t", b"-1", 0)             # QoS 0 can not be refused
    assert receive(live, 1) == [-1]
    assert row(gateway, "roomy")["queued"] == MAX
    with client(gateway, "other").hello() as late:
        late.subscribe("t", qos=1)
        late.ping()                               # nothing was retained
        late.bye()
    crash(gateway)
    with client(gateway, "other").hello() as p:
        assert p.publish("t", b"1000", 1) == QUOTA
        with durable(gateway, "full") as s:
            assert sorted(receive(s, MAX)) == accepted
            until(lambda: gateway.metric("sluice_mqtt_sessions_full") == 0, "its queue has room")
            until(lambda: p.publish("t", b"1000", 1) == 0, "it is taken")
            assert receive(s, 1) == [1000]
            s.ping()
    with durable(gateway, "roomy", listener="other") as s:
        assert sorted(receive(s, MAX + 1)) == accepted + [1000]
        s.ping()


def test_a_publisher_that_can_not_be_told_is_closed(gateway):
    away(gateway, "full")
    live = client(gateway, "other").hello("live")
    live.subscribe("#", qos=1)
    fill(gateway, "full", publishers(gateway))
    receive(live, MAX)
    watch = gateway.watch_closes()
    for i in range(4):
        with client(gateway, "other", wire.V311).hello(f"old{i}") as p:
            p.send(p.publish_bytes("t", b"7", 1 + i % 2, 1))
            p.expect_end()
    watch.expect("queue_reject", 4)
    with client(gateway, "other").hello("dies", will=wire.Will("t", b"-5", 1)) as p:
        p.drop()                                  # a will can not be refused: the full one does not get it
    assert receive(live, 1) == [-5]
    until(lambda: gateway.metric("sluice_mqtt_dropped_total", reason="queue_full") == 1, "the full one did not get it")
    with durable(gateway, "full") as s:
        receive(s, MAX)

        def is_taken():  # when its acknowledgements have made room
            try:
                with client(gateway, "other", wire.V311).hello("old") as p:
                    return p.publish("t", b"7", 1) == 0
            except Ended:
                return False
        until(is_taken, "there is room")
        assert receive(s, 1) == [7] == receive(live, 1)


def test_a_framed_device_is_closed(gateway):
    away(gateway, "full", "devices/+/up")
    filling = publishers(gateway)
    for i in range(MAX):
        assert filling[i % 6].publish("devices/x/up", b"%d" % i, 1) == 0
    watch = gateway.watch_closes()
    for i in range(4):
        with Device(gateway.address("devices")) as d:
            d.send(hello(f"d{i}") + frame(b"x"))
            d.expect(ack(0))
            d.expect_end()
    watch.expect("queue_reject", 4)
    assert row(gateway, "full")["queued"] == MAX


def test_who_would_not_get_it_does_not_refuse_it(gateway):
    away(gateway, "full", "$share/g/t")
    p = publishers(gateway, 1)[0]
    for i in range(3 * MAX):  # a shared subscription keeps what its members have no room for
        assert p.publish("t", b"%d" % i, 1) == 0
    own = client(gateway).hello("own", props={"receive_max": 1})
    own.subscribe(("v", wire.options(1, no_local=True)))
    with client(gateway, "other").hello() as q:
        for i in range(1 + MAX):
            assert q.publish("v", b"%d" % i, 1) == 0
        # What another worker has answered counts for a millisecond more.
        until(lambda: q.publish("v", b"x", 1) == QUOTA, "the full session has it refused")
    assert own.publish("v", b"mine", 1) == 0x10


def test_under_load_each_has_what_was_accepted(gateway):
    """Publishers that send ahead, one session that is often full, one that is not: both have every accepted message once,
    and none that was refused."""
    count, ahead = 300, 15
    slow, fast = durable(gateway, "slow", True, receive_max=2), durable(gateway, "fast", True, "other")
    for s in (slow, fast):
        s.subscribe("load/#", qos=1)
    accepted, lost = [], []

    def publish(number):
        mine, p = [], client(gateway, "other").hello(f"load{number}")
        for at in range(0, count, ahead):
            p.send(*(p.publish_bytes(f"load/{number}", b"%d" % (number * count + i), 1, 1 + i)
                     for i in range(at, at + ahead)))
            for i in range(at, at + ahead):
                if p.wait_for(wire.PUBACK, ident=1 + i).reason == 0:
                    mine.append(number * count + i)
                else:
                    lost.append(i)
        accepted.extend(mine)

    def consume(s, got):
        try:
            while True:
                m = s.message()
                if m.payload == b"end":
                    return
                got.append(int(m.payload))
        except Ended as e:
            got.append(e)
    threads = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
    got = {"slow": [], "fast": []}
    readers = [threading.Thread(target=consume, args=(s, got[s.id])) for s in (slow, fast)]
    for t in threads + readers:
        t.start()
    for t in threads:
        t.join()
    with client(gateway, "other").hello() as p:
        until(lambda: p.publish("load/x", b"end", 1) == 0, "there is room")
    for t in readers:
        t.join()
    assert sorted(got["slow"]) == sorted(got["fast"]) == sorted(accepted)
    assert lost and len(lost) + len(accepted) == 4 * count
    assert refused(gateway) >= len(lost)
    for number in range(4):
        mine = [n for n in got["slow"] if n // count == number]
        assert mine == sorted(mine)


def test_a_program_is_told(gateway):
    if shutil.which("mosquitto_pub") is None:
        pytest.fail("mosquitto_pub is missing")
    away(gateway, "full")
    fill(gateway, "full", publishers(gateway))
    host, port = gateway.address("other")
    command = ["mosquitto_pub", "-h", host, "-p", str(port), "-t", "t", "-m", "x", "-q", "1"]
    five = subprocess.run(command + ["-V", "5"], capture_output=True, text=True, timeout=20)
    assert "quota exceeded" in (five.stdout + five.stderr).lower(), five
    done = subprocess.Popen(command + ["-V", "311"])
    until(lambda: gateway.closes("queue_reject") >= 1, "it is not answered")
    done.kill()
    done.wait()


def test_without_a_log(sluice):
    with Gateway(sluice, engines.selected()[-1], workers=2, listeners=LISTENERS, settings={"durable": "no"}) as gateway:
        away(gateway, "full")
        senders = publishers(gateway)
        accepted = fill(gateway, "full", senders)
        assert all(p.publish("t", b"x", 1) == QUOTA for p in senders)
        with durable(gateway, "full") as s:
            assert sorted(receive(s, MAX)) == accepted
            until(lambda: senders[0].publish("t", b"5", 1) == 0, "there is room")
            assert receive(s, 1) == [5]
        Client.end_all()


def test_the_last_message_may_be_larger_than_the_room(sluice):
    """So that no message is refused for ever because of its size."""
    listeners = {**LISTENERS, "mqtt": {**LISTENERS["mqtt"], "max_queued_bytes": "2k", "max_packet": "64k"}}
    with Gateway(sluice, engines.selected()[-1], listeners=listeners) as gateway:
        away(gateway, "full")
        with client(gateway, "other").hello() as p:
            assert p.publish("t", b"1" * 20000, 1) == 0
            assert p.publish("t", b"2", 1) == QUOTA
            with durable(gateway, "full") as s:
                assert len(s.message().payload) == 20000
            until(lambda: p.publish("t", b"2", 1) == 0, "there is room")
        Client.end_all()
