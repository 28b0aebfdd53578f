# SPDX-License-Identifier: Apache-2.0
"""Message expiry: what is passed on of the interval, and what is no longer delivered."""
import time

from harness.wait import in_time
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311


@shows(v5="3.3.2-6")
def test_the_interval_is_passed_on(broker):
    subscriber, old, publisher = broker.connect(V5), broker.connect(V311), broker.connect(V5)
    for client in (subscriber, old):
        client.subscribe(broker.name("t"), qos=1)
    for seconds in (10, 3600, 0xFFFFFFFF):
        start = time.monotonic()
        publisher.publish(broker.name("t"), b"x", 1, props={"message_expiry": seconds})
        left = subscriber.message().props["message_expiry"]
        assert seconds - (time.monotonic() - start) - 1 <= left <= seconds
        old.message(payload=b"x")
    publisher.publish(broker.name("t"), b"for ever", 1)
    assert subscriber.message().props == {}


@shows(v5="3.3.2-5 3.3.2-6 3.1.2-23")
def test_what_waits_for_an_absent_client_expires(broker):
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100})
    client.subscribe(broker.name("t"), qos=2)
    client.bye()
    publisher = broker.connect(V5)
    start = time.monotonic()
    for i, seconds in enumerate((1, 60, 1, None)):
        props = {"message_expiry": seconds} if seconds else None
        publisher.publish(broker.name("t"), b"%d" % i, 1 + i % 2, props=props)
    time.sleep(2.1)
    client = broker.connect(V5, broker.name(), clean=False)
    left = client.message(payload=b"1").props["message_expiry"]
    waited = time.monotonic() - start
    assert 60 - waited - 1 <= left <= 58, left
    assert client.message(payload=b"3").props == {}
    client.ping()


@shows(v5="3.3.2-5 3.3.2-6")
def test_retained_messages_expire(broker):
    publisher = broker.connect(V5)

    def attempt(pace):
        publisher.publish(broker.name("long"), b"y", retain=True, props={"message_expiry": 60})
        pace.start()
        publisher.publish(broker.name("short"), b"x", retain=True, props={"message_expiry": 1})
        client = broker.connect(V5)
        client.subscribe(broker.name("#"))
        assert {client.message(retain=True).topic for _ in range(2)} == {broker.name("short"), broker.name("long")}
    in_time(attempt, 0.9)
    time.sleep(2.1)
    client = broker.connect(V5).watch()
    client.subscribe(broker.name("#"))
    assert client.message(topic=broker.name("long"), retain=True).props["message_expiry"] <= 58
    client.nothing_before(publisher)
    publisher.publish(broker.name("long"), b"", retain=True)


@shows(v5="3.3.2-5 4.9.0-2")
def test_what_waits_for_the_window_expires(broker):
    client, publisher = broker.connect(V5, props={"receive_max": 1}), broker.connect(V5)
    client.subscribe(broker.name("t"), qos=1)
    publisher.publish(broker.name("t"), b"first", 1)
    publisher.publish(broker.name("t"), b"expires", 1, props={"message_expiry": 1})
    publisher.publish(broker.name("t"), b"stays", 1, props={"message_expiry": 60})
    first = client.message(answer=False, payload=b"first")
    time.sleep(2.1)
    client.answer(first)
    assert client.message(payload=b"stays").props["message_expiry"] <= 58
    client.ping()


@shows(v5="4.3.3-7 4.3.3-13 4.4.0-1")
def test_a_message_that_was_sent_does_not_expire(broker):
    """Once the PUBLISH went out the exchange is completed, across a reconnect too."""
    publisher = broker.connect(V5)

    def attempt(pace):
        client = broker.connect(V5, broker.name(), props={"session_expiry": 100})
        client.subscribe(broker.name("t"), qos=2)
        got = []
        for payload in (b"one", b"two"):
            pace.start()
            publisher.publish(broker.name("t"), payload, 2, props={"message_expiry": 1})
            pace()
            got.append(client.message(answer=False, payload=payload))
        return client, *got
    client, one, two = in_time(attempt, 0.9)
    client.ack(wire.PUBREC, one.ident)
    client.expect(wire.PUBREL, ident=one.ident)
    time.sleep(2.1)
    client.ack(wire.PUBCOMP, one.ident)
    client.ping()
    client.drop()
    client = broker.connect(V5, broker.name(), clean=False)
    client.message(payload=b"two", ident=two.ident, dup=True, qos=2)
    client.ping()


@shows(v5="4.3.3-13")
def test_a_received_exchange_goes_on_though_its_message_expired(broker):
    publisher = broker.connect(V5)
    publisher.send(wire.publish(V5, broker.name("t"), b"x", 2, 5, props={"message_expiry": 1}))
    publisher.expect(wire.PUBREC, ident=5)
    time.sleep(1.6)
    publisher.send(wire.publish(V5, broker.name("t"), b"x", 2, 5, dup=True, props={"message_expiry": 1}))
    publisher.expect(wire.PUBREC, ident=5)
    publisher.ack(wire.PUBREL, 5)
    publisher.expect(wire.PUBCOMP, ident=5, reason=0)
