# SPDX-License-Identifier: Apache-2.0
"""SUBSCRIBE and UNSUBSCRIBE: answers, replacement, several filters, overlap."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])


@pytest.mark.core
@both
@shows(v5="3.8.4-1 3.8.4-2 3.8.4-5 3.8.4-6 3.8.4-7 3.9.3-1 3.9.3-2 2.2.1-6",
       v3="3.8.4-1 3.8.4-2 3.8.4-4 3.8.4-5 3.9.3-1 3.9.3-2 2.3.1-7")
def test_each_filter_has_its_code(broker, v):
    client = broker.connect(v)
    for ident in (1, 300, 65535):
        filters = [(broker.name("a"), 2), (broker.name("b"), 0), (broker.name("c/#"), 1), (broker.name("+"), 2)]
        assert client.subscribe(*filters, ident=ident) == [2, 0, 1, 2]
    client.publish(broker.name("c/x"), b"x", 2)
    client.message(topic=broker.name("c/x"), qos=1)


@both
@shows(v5="3.8.4-5 3.8.4-7 3.9.3-1 3.9.3-2", v3="3.8.4-4 3.8.4-5 3.9.3-1 3.9.3-2")
def test_one_refused_filter_does_not_stop_the_others(broker, v):
    client = broker.connect(v, listener="denying")
    bad = 0x87 if v == V5 else 0x80
    assert client.subscribe((broker.name("a"), 0), ("secret/x", 1), (broker.name("b"), 1), ("#", 0)) == [0, bad, 1, bad]
    client.publish(broker.name("b"), b"x", 1)
    client.message(topic=broker.name("b"))


@both
@shows(v5="3.8.4-3", v3="3.8.4-3")
def test_the_same_filter_again_replaces_the_subscription(broker, v):
    client = broker.connect(v)
    for qos in (0, 2, 1, 0):
        assert client.subscribe(broker.name("t"), qos=qos) == [qos]
        client.publish(broker.name("t"), b"x", 2)
        # One message, with what was granted last.
        client.message(qos=qos)
        client.ping()


@pytest.mark.core
@both
@shows(v5="3.8.4-4 3.8.4-3", v3="3.8.4-3")
def test_replacing_a_subscription_loses_nothing(broker, v):
    subscriber, publisher = broker.connect(v), broker.connect(v)
    subscriber.subscribe(broker.name("t"), qos=1)
    total, sent, seen = 200, 0, []
    while len(seen) < total:
        if sent < total:
            publisher.send(*[wire.publish(v, broker.name("t"), b"%d" % (sent + i), 1, i + 1) for i in range(20)])
            subscriber.send(wire.subscribe(v, 9, [(broker.name("t"), 1)]))
            for i in range(20):
                publisher.expect(wire.PUBACK, ident=i + 1)
            sent += 20
        it = subscriber.recv()
        if it.kind == wire.PUBLISH:
            subscriber.answer(it)
            seen.append(int(it.payload))
    assert seen == list(range(total))


@pytest.mark.core
@both
@shows(v5="3.3.4-2 3.8.4-8", v3="3.3.5-1 3.8.4-6")
def test_overlapping_subscriptions(broker, v):
    """One copy with the highest granted QoS, or a copy for each: the highest is among them."""
    client = broker.connect(v).watch()
    client.subscribe((broker.name("a/+"), 1), (broker.name("#"), 0), (broker.name("a/b"), 2), (broker.name("a/#"), 0))
    client.publish(broker.name("a/b"), b"x", 2)
    assert max(m.qos for m in client.messages_before(client)) == 2


@both
@shows(v5="3.10.4-4 3.10.4-5 3.10.4-6 3.11.3-1 3.11.3-2 2.2.1-6", v3="3.10.4-4 3.10.4-5 3.10.4-6 2.3.1-7")
def test_unsubscribe_is_answered(broker, v):
    client = broker.connect(v)
    client.subscribe((broker.name("a"), 0), (broker.name("b"), 0))
    codes = client.unsubscribe(broker.name("b"), broker.name("none"), broker.name("a"))
    assert v < V5 or codes == [0, 0x11, 0]
    codes = client.unsubscribe(broker.name("a"))
    assert v < V5 or codes == [0x11]
    for topic in "ab":
        client.publish(broker.name(topic), b"x")
    client.ping()


@pytest.mark.core
@both
@shows(v5="3.10.4-1 3.10.4-2", v3="3.10.4-1 3.10.4-2")
def test_unsubscribe_takes_exactly_the_filter(broker, v):
    filters = ["a/b", "a/+", "a/#", "+/b", "A/b", "a/b/", "$share/g/a/b"]
    client = broker.connect(v).watch()
    wanted = [broker.name() + "/" + f if not f.startswith("$") else f"$share/{broker.name()}/{broker.name()}/a/b"
              for f in filters]
    if v < V5:
        wanted.pop()
    client.subscribe(*[(f, 0) for f in wanted])
    for remaining in range(len(wanted), 0, -1):
        client.publish(broker.name("a/b"), b"%d" % remaining)
        # There is a message as long as one of the matching filters is left.
        matching = [f for f in wanted[len(wanted) - remaining:] if not f.endswith("b/") and "/A/" not in f]
        assert bool(client.messages_before(client)) == bool(matching), (remaining, matching)
        codes = client.unsubscribe(wanted[len(wanted) - remaining])
        assert v < V5 or codes == [0]
    client.publish(broker.name("a/b"), b"none left")
    client.nothing_before(client)


@both
@pytest.mark.parametrize("qos", [1, 2])
@shows(v5="3.10.4-3 3.10.4-2", v3="3.10.4-3 3.10.4-2")
def test_started_deliveries_are_completed_after_unsubscribe(broker, v, qos):
    client, publisher = broker.connect(v, broker.name(), clean=False), broker.connect(v)
    client.subscribe(broker.name("t"), qos=2)
    publisher.publish(broker.name("t"), b"started", qos)
    message = client.message(answer=False, payload=b"started")
    client.unsubscribe(broker.name("t"))
    publisher.publish(broker.name("t"), b"too late", qos)
    client.answer(message)
    client.ping()
    client.bye()


@shows(v5="3.10.4-3 4.4.0-1")
def test_a_started_delivery_is_sent_again_though_unsubscribed(broker):
    client, publisher = broker.connect(V5, broker.name(), props={"session_expiry": 100}), broker.connect(V5)
    client.subscribe(broker.name("t"), qos=1)
    publisher.publish(broker.name("t"), b"started", 1)
    message = client.message(answer=False, payload=b"started")
    client.unsubscribe(broker.name("t"))
    client.drop()
    client = broker.connect(V5, broker.name(), clean=False)
    client.message(payload=b"started", ident=message.ident, dup=True)
    client.ping()


@shows(v5="3.8.3-3")
def test_no_local(broker):
    """Not back to the client that published, whatever the version of the others; per subscription and per client id,
    not per connection."""
    client, other = broker.connect(V5, broker.name(), props={"session_expiry": 100}), broker.connect(V5)
    client.watch()
    client.subscribe(broker.name("t"), qos=1, no_local=True)
    other.subscribe(broker.name("t"), qos=1, no_local=True)
    client.publish(broker.name("t"), b"mine", 1)
    other.message(payload=b"mine")
    other.publish(broker.name("t"), b"theirs", 1)
    client.message(payload=b"theirs")
    client.nothing_before(other)
    # An overlapping subscription without the option brings it back.
    client.subscribe(broker.name("+"), qos=0)
    client.publish(broker.name("t"), b"now mine too", 1)
    client.message(payload=b"now mine too", qos=0)
    other.message(payload=b"now mine too")
    # A later connection of the same client is the same publisher.
    client.unsubscribe(broker.name("+"))
    client.drop()
    client = broker.connect(V5, broker.name(), clean=False)
    client.publish(broker.name("t"), b"mine again", 1)
    other.message(payload=b"mine again")
    client.ping()


@shows(v5="3.8.3-3")
def test_no_local_holds_for_wills_and_retained_messages(broker):
    watcher = broker.connect(V5)
    watcher.subscribe(broker.name("t"))
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100}, will=wire.Will(broker.name("t"), b"will"))
    client.subscribe(broker.name("t"), no_local=True)
    client.drop()
    watcher.message(payload=b"will")
    broker.connect(V5, broker.name(), clean=False).ping()


@pytest.mark.core
@shows(v5="3.3.4-3 3.3.4-4 3.3.4-5")
def test_subscription_identifiers(broker):
    client = broker.connect(V5).watch()
    client.subscribe((broker.name("a/+"), 0), props={"subscription_id": 1})
    client.subscribe((broker.name("a/#"), 0), (broker.name("a/b/c"), 0), props={"subscription_id": 268435455})
    client.subscribe((broker.name("a/b"), 0), props={"subscription_id": 128})
    client.subscribe((broker.name("+/b"), 0))
    for topic, ids in (("a/x", {1, 268435455}), ("a/b", {1, 268435455, 128}), ("a/b/c", {268435455}), ("z/b", set())):
        client.publish(broker.name(topic), b"x")
        copies = client.messages_before(client)
        assert copies
        got = [i for copy in copies for i in copy.props.get("subscription_id", [])]
        assert set(got) == ids, (topic, got)
        # Of several copies each has its own.
        assert len(copies) == 1 or all(len(c.props.get("subscription_id", [])) <= 1 for c in copies)


@shows(v5="3.8.4-3 3.3.4-3")
def test_replacing_changes_the_subscription_identifier(broker):
    client = broker.connect(V5)
    for props, ids in (({"subscription_id": 5}, [5]), ({"subscription_id": 6}, [6]), (None, None),
                       ({"subscription_id": 7}, [7])):
        client.subscribe((broker.name("t"), 0), props=props)
        client.publish(broker.name("t"), b"x")
        assert client.message().props.get("subscription_id") == ids


@shows(v5="3.3.4-3 3.1.2-5")
def test_subscription_identifiers_are_part_of_the_session(broker):
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100})
    client.subscribe((broker.name("t"), 1), props={"subscription_id": 42})
    client.bye()
    publisher = broker.connect(V5)
    publisher.publish(broker.name("t"), b"while away", 1)
    client = broker.connect(V5, broker.name(), clean=False)
    assert client.message(payload=b"while away").props == {"subscription_id": [42]}
    publisher.publish(broker.name("t"), b"when back", 1)
    assert client.message(payload=b"when back").props == {"subscription_id": [42]}


def test_properties_in_subscribe_and_unsubscribe_are_accepted(broker):
    client = broker.connect(V5)
    pairs = {"user_property": [("a", "b"), ("a", "b")]}
    assert client.subscribe((broker.name("t"), 1), props=pairs) == [1]
    client.send(wire.unsubscribe(V5, 7, [broker.name("t")], props=pairs))
    assert client.expect(wire.UNSUBACK, ident=7).reasons == [0]


@pytest.mark.core
def test_a_subscription_is_in_force_when_it_is_acknowledged(broker):
    """A message published after the SUBACK, by whichever client on whichever worker, is delivered."""
    publishers = [broker.connect(V5) for _ in range(4)]
    subscribers = [broker.connect(V5) for _ in range(4)]
    for round_ in range(10):
        for s, subscriber in enumerate(subscribers):
            topic = broker.name(f"{round_}/{s}")
            subscriber.subscribe(topic)
            for p, publisher in enumerate(publishers):
                publisher.publish(topic, b"%d" % p)
            assert sorted(subscriber.message(topic=topic).payload for _ in publishers) == [b"0", b"1", b"2", b"3"]
