# SPDX-License-Identifier: Apache-2.0
"""Retained messages: what is kept, replaced and removed, and when it is sent."""
import pytest
from harness.wait import until
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])


def retained(broker, v, text, **options):
    """What a new client is sent for a subscription: {topic: (payload, qos)}."""
    client, publisher = broker.connect(v).watch(), broker.connect(v)
    client.subscribe(text, qos=2, **options)
    # A message on the topic itself, so that retained ones that are sent later than the SUBACK are seen as well.
    got = client.messages_before(publisher)
    if not got:
        assert client.is_quiet(0.1)
    assert all(m.retain and not m.dup for m in got), got
    assert len({m.topic for m in got}) == len(got), got
    client.bye()
    return {m.topic: (m.payload, m.qos) for m in got}


def wait_retained(broker, v, text, count):
    """The same where it may take long: waits for that many."""
    client = broker.connect(v)
    client.subscribe(text, qos=2)
    got = [client.message(retain=True) for _ in range(count)]
    return {m.topic: (m.payload, m.qos) for m in got}


@pytest.mark.core
@both
@shows(v5="3.3.1-5 3.3.1-9 3.3.1-8", v3="3.3.1-5 3.3.1-6 3.3.1-7 3.3.1-8 3.3.1-12")
def test_the_last_retained_message_is_kept(broker, v):
    publisher = broker.connect(v)
    topic = broker.name("t")
    for qos in (0, 1, 2, 0, 1):
        publisher.publish(topic, b"qos %d" % qos, qos, retain=True)
        kept = {topic: (b"qos %d" % qos, qos)}
        if qos == 0:
            # Nothing says when the broker has it: another client, of another worker, may still be sent the one before.
            until(lambda: wait_retained(broker, v, topic, 1) == kept, f"{kept} is kept")
        assert wait_retained(broker, v, topic, 1) == kept
    # A message that is not retained changes nothing.
    publisher.publish(topic, b"passing", 1)
    publisher.publish(topic, b"", 1)
    assert wait_retained(broker, v, topic, 1) == {topic: (b"qos 1", 1)}
    publisher.publish(topic, b"", 1, retain=True)


@both
@shows(v5="3.3.1-6 3.3.1-7 3.3.1-12", v3="3.3.1-10 3.3.1-11 3.3.1-9")
def test_an_empty_retained_message_removes(broker, v):
    publisher, watcher = broker.connect(v), broker.connect(v).watch()
    topic = broker.name("t")
    watcher.subscribe(topic, qos=2)
    publisher.publish(topic, b"kept", 1, retain=True)
    # An established subscription gets it, and the empty one, like any other message.
    watcher.message(payload=b"kept", retain=False)
    for _ in range(2):
        publisher.publish(topic, b"", 1, retain=True)
        watcher.message(payload=b"", retain=False)
        assert retained(broker, v, topic) == {}
    watcher.nothing_before(publisher)


@both
@shows(v5="3.3.1-8", v3="3.3.1-12")
def test_a_message_without_retain_is_not_kept(broker, v):
    broker.connect(v).publish(broker.name("t"), b"x", 2)
    assert retained(broker, v, broker.name("#")) == {}


@pytest.mark.core
@both
@shows(v5="3.3.1-9 3.3.2-3", v3="3.3.1-6 3.3.2-3")
def test_wildcards_find_retained_messages(broker, v):
    publisher = broker.connect(v)
    names = ["a", "a/b", "a/b/c", "a/", "b/b", "A"]
    for name in names:
        publisher.publish(broker.name(name), name.encode(), 1, retain=True)
    for text, found in (("#", names), ("+", ["a", "A"]), ("+/b", ["a/b", "b/b"]), ("a/#", ["a", "a/b", "a/b/c", "a/"]),
                        ("a/+", ["a/b", "a/"]), ("+/+/+", ["a/b/c"]), ("a/b", ["a/b"]), ("c/#", [])):
        got = wait_retained(broker, v, broker.name(text), len(found)) if found else retained(broker, v, broker.name(text))
        assert got == {broker.name(n): (n.encode(), 1) for n in found}, text
    for name in names:
        publisher.publish(broker.name(name), b"", 1, retain=True)
    assert retained(broker, v, broker.name("#")) == {}


@both
@shows(v5="3.3.1-9 3.8.4-4", v3="3.8.4-3 3.3.1-8")
def test_subscribing_again_sends_them_again(broker, v):
    publisher, client = broker.connect(v), broker.connect(v)
    publisher.publish(broker.name("t"), b"x", 1, retain=True)
    for qos in (1, 1, 0, 2):
        client.subscribe(broker.name("t"), qos=qos)
        client.message(payload=b"x", retain=True, qos=min(qos, 1))
        client.ping()
    publisher.publish(broker.name("t"), b"", retain=True)


@pytest.mark.core
@shows(v5="3.3.1-9 3.3.1-10 3.3.1-11")
def test_retain_handling(broker):
    publisher = broker.connect(V5)
    topic = broker.name("t")
    publisher.publish(topic, b"x", 1, retain=True)
    for handling, first, second in ((0, True, True), (1, True, False), (2, False, False)):
        client = broker.connect(V5).watch()
        for expected in (first, second):
            client.subscribe(topic, retain_handling=handling)
            if expected:
                client.message(payload=b"x", retain=True)
            else:
                assert client.is_quiet(0.1)
        # After an unsubscribe it is a new subscription.
        client.unsubscribe(topic)
        client.subscribe(topic, retain_handling=handling)
        if handling < 2:
            client.message(payload=b"x", retain=True)
        else:
            assert client.is_quiet(0.1)
        client.publish(topic, b"live")
        client.message(payload=b"live", retain=False)
    publisher.publish(topic, b"", retain=True)


@shows(v5="3.3.1-10 3.1.2-5")
def test_a_subscription_of_the_session_exists_when_the_client_is_back(broker):
    publisher = broker.connect(V5)
    topic = broker.name("t")
    publisher.publish(topic, b"x", 1, retain=True)
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100})
    client.subscribe(topic, retain_handling=1)
    client.message(payload=b"x", retain=True)
    client.drop()
    client = broker.connect(V5, broker.name(), clean=False)
    # Coming back is not subscribing: nothing is sent; nor does subscribing to what is there.
    client.ping()
    client.subscribe(topic, retain_handling=1)
    assert client.is_quiet(0.1)
    publisher.publish(topic, b"", retain=True)


@pytest.mark.core
@both
@shows(v5="3.3.1-12", v3="3.3.1-9")
def test_retain_is_cleared_on_the_way_to_a_subscriber(broker, v):
    publisher, client = broker.connect(v), broker.connect(v)
    client.subscribe(broker.name("t"), qos=1)
    for retain in (True, False):
        publisher.publish(broker.name("t"), b"x", 1, retain=retain)
        client.message(payload=b"x", retain=False)
    publisher.publish(broker.name("t"), b"", retain=True)


@shows(v5="3.3.1-13 3.3.1-12")
def test_retain_as_published(broker):
    publisher = broker.connect(V5)
    for as_published in (True, False):
        client = broker.connect(V5)
        client.subscribe(broker.name("t"), retain_as_published=as_published)
        for retain in (True, False):
            publisher.publish(broker.name("t"), b"x", retain=retain)
            client.message(payload=b"x", retain=retain and as_published)
        publisher.publish(broker.name("t"), b"", retain=True)
        client.message(payload=b"", retain=as_published)


@shows(v3="3.1.2-7", v5="3.3.1-5")
def test_retained_messages_outlive_their_publisher(broker):
    for v in (V311, V5):
        topic = broker.name(f"t{v}")
        publisher = broker.connect(v)
        publisher.publish(topic, b"x", 1, retain=True)
        publisher.bye()
        assert wait_retained(broker, v, topic, 1) == {topic: (b"x", 1)}
        broker.connect(v).publish(topic, b"", 1, retain=True)


@shows(v5="3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20")
def test_properties_are_retained(broker):
    props = {"payload_format": 1, "content_type": "a/b", "response_topic": "r", "correlation_data": b"\0",
             "user_property": [("b", "1"), ("a", "2")]}
    publisher = broker.connect(V5)
    publisher.publish(broker.name("t"), b"x", 1, retain=True, props=props)
    client = broker.connect(V5)
    client.subscribe((broker.name("t"), 1), props={"subscription_id": 9})
    assert client.message(retain=True).props == {**props, "subscription_id": [9]}
    publisher.publish(broker.name("t"), b"", retain=True)


@shows(v5="3.3.1-9")
def test_retained_messages_come_before_or_after_live_ones_never_twice(broker):
    """Messages that are published and retained while the subscription is made are seen."""
    publisher = broker.connect(V5)
    for i in range(30):
        topic = broker.name(f"t{i}")
        client = broker.connect(V5)
        publisher.send(wire.publish(V5, topic, b"x", 1, 1, retain=True))
        client.send(wire.subscribe(V5, 1, [(topic, 1)]))
        publisher.expect(wire.PUBACK)
        client.wait_for(wire.SUBACK)
        client.message(payload=b"x")
        client.drop()
        publisher.publish(topic, b"", 1, retain=True)


@pytest.mark.core
@pytest.mark.parametrize("window", [1, 20])
@shows(v5="3.3.1-9 3.3.4-9", v3="3.3.1-6")
def test_many_retained_messages_under_a_small_window(broker, window):
    """Delivered in full, however slowly the client takes them, while others are served."""
    publisher, count = broker.connect(V5), 3000
    for start in range(0, count, 500):
        publisher.send(*[wire.publish(V5, broker.name(f"{i % 50}/{i}"), b"%d" % i, 0, retain=True)
                         for i in range(start, start + 500)])
        publisher.ping()
    publisher.publish(broker.name("last"), b"last", 1, retain=True)
    client = broker.connect(V5, props={"receive_max": window})
    client.subscribe(broker.name("#"), qos=1)
    seen = set()
    for i in range(count + 1):
        seen.add(client.message(retain=True).payload)
        if i % 1000 == 0:
            publisher.ping()
    assert len(seen) == count + 1
    publisher.send(*[wire.publish(V5, broker.name(f"{i % 50}/{i}"), b"", 0, retain=True) for i in range(count)])
    publisher.publish(broker.name("last"), b"", 1, retain=True)
    client.drop()


@shows(v5="3.3.1-9 3.1.2-25 3.1.2-24")
def test_retained_messages_too_large_for_the_client_are_left_out(broker):
    publisher = broker.connect(V5)
    for i, size in enumerate((5, 500, 6)):
        publisher.publish(broker.name(str(i)), b"x" * size, 1, retain=True)
    client = broker.connect(V5, props={"packet_size_max": 100, "receive_max": 1})
    client.subscribe(broker.name("+"), qos=1)
    assert sorted(len(client.message(retain=True).payload) for _ in range(2)) == [5, 6]
    assert client.is_quiet(0.1)
    for i in range(3):
        publisher.publish(broker.name(str(i)), b"", retain=True)
