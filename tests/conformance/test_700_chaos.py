# SPDX-License-Identifier: Apache-2.0
"""Many clients that come and go in every way, for a few seconds: no acknowledged message is lost, no QoS 2
message comes twice, and order holds. CHAOS_SEED repeats a run as far as threads let it."""
import os
import random
import time

import pytest
from harness.wait import until
from mqtt import wire
from mqtt.actors import END_S, Publisher, Subscriber
from mqtt.statements import shows
from mqtt.wire import V5, V311

PUBLISHERS, COUNT, CHAOS_S = 4, 200, 4


def judge(seen, publishers, exactly_once=True):
    """seen: (topic, qos, number, dup) in the order of arrival."""
    for publisher in publishers:
        for qos in (1, 2):
            numbers = [n for t, q, n, _ in seen if t == publisher.topic and q == qos]
            wanted = list(range(qos - 1, COUNT, 2))
            assert sorted(set(numbers)) == wanted, f"{publisher.topic} QoS {qos}: lost {set(wanted) - set(numbers)}"
            firsts = list(dict.fromkeys(numbers))
            if exactly_once:
                assert firsts == wanted, f"{publisher.topic} QoS {qos}: out of order: {firsts}"
            if qos == 2:
                assert len(numbers) == len(wanted), f"{publisher.topic} QoS 2: twice: {sorted(numbers)}"


@pytest.fixture
def seed():
    value = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 32)))
    print(f"CHAOS_SEED={value}")
    return value


@pytest.mark.core
@shows(v5="4.3.2-3 4.3.3-3 4.3.3-5 4.3.3-10 4.4.0-1 4.5.0-1 4.6.0-5 3.1.4-3",
       v3="4.3.2-1 4.3.2-2 4.3.3-1 4.3.3-2 4.4.0-1 4.5.0-1 4.6.0-6 3.1.4-2")
def test_no_message_is_lost_doubled_or_out_of_order(broker, seed):
    dice, calm_after = random.Random(seed), time.monotonic() + CHAOS_S
    publishers = [Publisher(broker, (V311, V5)[i % 2], broker.name(f"p{i}"), dice.random(), calm_after,
                            topic=broker.name(f"t{i}"), count=COUNT) for i in range(PUBLISHERS)]
    subscribers = []
    for i in range(6):
        def finished(i=i):
            done = {(t, q, n) for t, q, n, _ in subscribers[i].seen}
            return len(done) == PUBLISHERS * COUNT and not subscribers[i].held
        subscribers.append(Subscriber(broker, (V311, V5)[i // 3], broker.name(f"s{i}"), dice.random(), calm_after,
                                      filters=[broker.name("+")], finished=finished))
    for subscriber in subscribers:
        subscriber.start()
    until(lambda: all(s.ready.is_set() or s.problem for s in subscribers), "all are subscribed")
    run_started(publishers, subscribers)
    for subscriber in subscribers:
        judge(subscriber.seen, publishers)


def run_started(publishers, subscribers):
    for publisher in publishers:
        publisher.start()
    until(lambda: all(not a.is_alive() for a in publishers + subscribers), "all have ended", END_S * 2)
    problems = [a.problem for a in publishers + subscribers if a.problem]
    assert not problems, "\n".join(problems)
    connects = [a.connects for a in publishers + subscribers]
    assert sum(connects) > 5 * len(connects), f"too quiet to show anything: {connects}"
    print("connections", connects)


@pytest.mark.core
@shows(v5="4.8.2-4 4.5.0-1")
def test_a_shared_subscription_loses_nothing(broker, seed):
    """Members come and go; together they see every message."""
    dice, calm_after = random.Random(seed), time.monotonic() + CHAOS_S
    publishers = [Publisher(broker, V5, broker.name(f"p{i}"), dice.random(), calm_after, topic=broker.name(f"t{i}"),
                            count=COUNT) for i in range(PUBLISHERS)]
    members = []

    def finished():
        done = {(t, q, n) for m in members for t, q, n, _ in list(m.seen)}
        return len(done) == PUBLISHERS * COUNT and all(not p.is_alive() for p in publishers)
    for i in range(4):
        members.append(Subscriber(broker, V5, broker.name(f"m{i}"), dice.random(), calm_after,
                                  filters=[f"$share/{broker.name()}/{broker.name('+')}"], finished=finished))
    for member in members:
        member.start()
    until(lambda: all(m.ready.is_set() or m.problem for m in members), "all are subscribed")
    run_started(publishers, members)
    seen = [x for m in members for x in m.seen]
    judge(seen, publishers, exactly_once=False)


def test_a_storm_of_connections(broker):
    """Hundreds of clients come at the same time, with the same will, and go without a word."""
    watch = broker.connect(V5)
    watch.subscribe(broker.name("will"), qos=0)
    count = 300
    clients = [broker.raw(V5) for _ in range(count)]
    for i, client in enumerate(clients):
        client.send(wire.connect(V5, broker.name(str(i)), will=wire.Will(broker.name("will"), b"%d" % i)))
    for client in clients:
        client.expect(wire.CONNACK, reason=0)
        client.reset()
    assert {int(watch.message().payload) for _ in range(count)} == set(range(count))
