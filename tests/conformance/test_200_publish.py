# SPDX-License-Identifier: Apache-2.0
"""PUBLISH as the broker receives it: the exchanges of each QoS, identifiers, and what is passed on."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V31, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
every = pytest.mark.parametrize("v", [V31, V311, V5], ids=["v3.1", "v3.1.1", "v5"])


@pytest.mark.core
@every
@pytest.mark.parametrize("qos", [0, 1, 2])
@shows(v5="3.3.4-1 4.3.1-1 4.3.2-4 4.3.3-8 4.3.3-11 2.2.1-5 2.2.1-2 3.4.2-1 3.5.2-1 3.7.2-1 4.5.0-1",
       v3="3.3.4-1 4.3.1-1 4.3.2-2 4.3.3-2 2.3.1-5 2.3.1-6 4.5.0-1")
def test_each_qos_is_answered_as_it_should_be(broker, v, qos):
    subscriber, publisher = broker.connect(v), broker.connect(v)
    subscriber.subscribe(broker.name("t"), qos=2)
    for ident in (1, 0x1234, 65535):
        payload = b"number %d" % ident
        assert publisher.publish(broker.name("t"), payload, qos, ident) == 0
        subscriber.message(topic=broker.name("t"), payload=payload, qos=qos, dup=False, retain=False)
    publisher.ping()
    subscriber.ping()


@both
@shows(v5="4.3.2-5 3.3.1-3", v3="4.3.2-2 3.3.1-3")
def test_after_puback_the_identifier_is_a_new_message(broker, v):
    subscriber, publisher = broker.connect(v), broker.connect(v)
    subscriber.subscribe(broker.name("t"), qos=1)
    for i, dup in enumerate((False, True, True, False)):
        publisher.publish(broker.name("t"), b"%d" % i, 1, 77, dup=dup)
        # What goes out is sent for the first time, whatever the publisher's DUP says.
        subscriber.message(payload=b"%d" % i, dup=False)


@pytest.mark.core
@both
@shows(v5="4.3.3-10 4.3.3-12 4.3.3-11 3.3.1-3", v3="4.3.3-2 3.3.1-3")
def test_a_qos_2_message_sent_again_is_delivered_once(broker, v):
    subscriber, publisher = broker.connect(v).watch(), broker.connect(v)
    subscriber.subscribe(broker.name("t"), qos=2)
    for round_ in range(2):
        for dup in (False, True, True):
            publisher.send(wire.publish(v, broker.name("t"), b"once", 2, 9, dup=dup))
            publisher.expect(wire.PUBREC, ident=9, reason=0)
        publisher.ack(wire.PUBREL, 9)
        publisher.expect(wire.PUBCOMP, ident=9, reason=0)
        subscriber.message(payload=b"once", qos=2, dup=False)
        # After PUBCOMP the identifier is free: the second round is another message.
    subscriber.nothing_before(publisher)


@both
@shows(v5="4.3.3-10", v3="4.3.3-2")
def test_several_qos_2_exchanges_at_once(broker, v):
    subscriber, publisher = broker.connect(v), broker.connect(v)
    subscriber.subscribe(broker.name("t"), qos=2)
    idents = [5, 3, 65535, 1]
    publisher.send(*[wire.publish(v, broker.name("t"), b"%d" % i, 2, i) for i in idents])
    for ident in idents:
        publisher.expect(wire.PUBREC, ident=ident)
    publisher.send(*[wire.ack(v, wire.PUBREL, i) for i in reversed(idents)])
    for ident in reversed(idents):
        publisher.expect(wire.PUBCOMP, ident=ident, reason=0)
    # However they are released, messages go out in the order of the PUBLISH packets.
    got = sorted(subscriber.message(qos=2).payload for _ in idents)
    assert got == sorted(b"%d" % i for i in idents)


@shows(v5="3.7.2-1 3.6.2-1")
def test_pubrel_of_an_unknown_identifier_in_5(broker):
    client = broker.connect(V5)
    client.ack(wire.PUBREL, 4711)
    client.expect(wire.PUBCOMP, ident=4711, reason=0x92)
    client.ping()


@shows(v3="4.3.3-2 2.3.1-6")
def test_pubrel_of_an_unknown_identifier_in_3(broker):
    client = broker.connect(V311)
    client.ack(wire.PUBREL, 4711)
    client.expect(wire.PUBCOMP, ident=4711)
    client.ping()


@both
def test_acknowledgements_of_unknown_identifiers_do_no_harm(broker, v):
    """Not an error: they may be left from before a session was discarded. PUBREC is answered in 5.0."""
    client = broker.connect(v)
    client.ack(wire.PUBACK, 99)
    client.ack(wire.PUBCOMP, 99)
    client.ping()
    client.ack(wire.PUBREC, 98)
    if v == V5:
        client.expect(wire.PUBREL, ident=98, reason=0x92)
    else:
        client.expect(wire.PUBREL, ident=98)
    client.ping()


@both
def test_payloads_are_bytes(broker, v):
    client = broker.connect(v)
    client.subscribe(broker.name("t"))
    for payload in (b"", b"\0", bytes(range(256)), b"\xff" * 127, b"x" * 128, b"y" * 16383, b"z" * 16384, b"w" * 200000):
        client.publish(broker.name("t"), payload)
        client.message(payload=payload)


PROPS = {"payload_format": 1, "content_type": "text/plain", "response_topic": "reply/to", "correlation_data": b"\0\xff\x01",
         "user_property": [("b", "1"), ("a", "2"), ("b", "1"), ("", "")]}


@pytest.mark.core
@pytest.mark.parametrize("qos", [0, 1, 2])
@shows(v5="3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20")
def test_properties_are_passed_on(broker, qos):
    subscriber, publisher = broker.connect(V5), broker.connect(V5)
    subscriber.subscribe(broker.name("t"), qos=2)
    publisher.publish(broker.name("t"), "ä".encode(), qos, props=PROPS)
    assert subscriber.message(qos=qos).props == PROPS
    for name, value in PROPS.items():
        publisher.publish(broker.name("t"), b"one", qos, props={name: value})
        assert subscriber.message(qos=qos).props == {name: value}
    publisher.publish(broker.name("t"), b"none", qos)
    assert subscriber.message(qos=qos).props == {}
    publisher.publish(broker.name("t"), b"zero", qos, props={"payload_format": 0, "correlation_data": b"", "content_type": ""})
    got = subscriber.message(qos=qos).props
    assert got in ({"payload_format": 0, "correlation_data": b"", "content_type": ""},), got


@shows(v5="3.3.2-17 3.3.2-18")
def test_many_user_properties_keep_their_order(broker):
    pairs = [(f"name{i % 7}", f"value{i}") for i in range(500)]
    client = broker.connect(V5)
    client.subscribe(broker.name("t"))
    client.publish(broker.name("t"), props={"user_property": pairs})
    assert client.message().props == {"user_property": pairs}


@shows(v5="3.3.2-4 3.3.2-16")
def test_properties_stay_between_versions(broker):
    """A 3.1.1 client gets the payload alone; what it publishes has no properties."""
    old, new = broker.connect(V311), broker.connect(V5)
    for client in (old, new):
        client.subscribe(broker.name("t"), qos=1)
    new.publish(broker.name("t"), b"from 5", props=PROPS)
    assert old.message(payload=b"from 5").props == {}
    assert new.message(payload=b"from 5").props == PROPS
    old.publish(broker.name("t"), b"from 3")
    assert new.message(payload=b"from 3").props == {}
    old.message(payload=b"from 3")


@shows(v5="3.4.2-1 3.5.2-1")
def test_a_publish_that_matches_nothing(broker):
    """0x10 may be told; it is a success."""
    client = broker.connect(V5)
    for qos in (1, 2):
        assert client.publish(broker.name("nobody"), b"x", qos) in (0, 0x10)


@both
@shows(v5="3.3.2-3", v3="3.3.2-3")
def test_the_topic_name_is_passed_on(broker, v):
    client = broker.connect(v)
    client.subscribe(broker.name("+/b/#"))
    for topic in ("a/b", "x/b/c", "x/b//"):
        client.publish(broker.name(topic), b"x")
        client.message(topic=broker.name(topic))


@both
@shows(v5="4.3.3-9 3.5.2-1 3.4.2-1", v3="3.3.5-2")
def test_a_publish_that_is_not_authorized(broker, v):
    """5.0 says so in the acknowledgement, after which the identifier is free; 3.1.1 acknowledges. None goes on."""
    watcher = broker.connect(v).watch()
    watcher.subscribe("readonly/#")
    client = broker.connect(v, listener="denying")
    for qos in (1, 2, 1, 2):
        assert client.publish("readonly/x", b"x", qos, 5) == (0x87 if v == V5 else 0)
    client.publish("readonly/x", b"x")
    watcher.nothing_before(client)
    client.publish(broker.name("free"), b"x", 1, 5)
    client.ping()


@shows(v5="4.3.3-9 3.5.2-1")
def test_after_a_failed_pubrec_the_identifier_is_a_new_message(broker):
    watcher = broker.connect(V5)
    watcher.subscribe(broker.name("t"), qos=2)
    client = broker.connect(V5, listener="denying")
    client.send(wire.publish(V5, "readonly/x", b"refused", 2, 5))
    client.expect(wire.PUBREC, ident=5, reason=0x87)
    client.publish(broker.name("t"), b"new", 2, 5)
    watcher.message(payload=b"new", qos=2)


@shows(v5="3.4.2-1 3.5.2-1")
def test_a_payload_that_is_not_what_its_format_says(broker):
    client = broker.connect(V5, listener="judging")
    client.subscribe(broker.name("t"), qos=2)
    for qos in (1, 2):
        assert client.publish(broker.name("t"), b"\xff", qos, props={"payload_format": 1}) == 0x99
    client.publish(broker.name("t"), b"\xff", 0, props={"payload_format": 0})
    client.message(payload=b"\xff")
    client.publish(broker.name("t"), "ä".encode(), 0, props={"payload_format": 1})
    client.message(payload="ä".encode())


@both
@shows(v5="3.2.2-9 3.2.2-10")
def test_a_maximum_qos_is_told_and_kept(broker, v):
    for listener, top in (("qos0", 0), ("bare", 1)):
        client = broker.connect(v, listener=listener)
        if v == V5:
            assert client.connack.props["qos_max"] == top
        for qos in (0, 1, 2):
            assert client.subscribe(f"{broker.name()}{listener}{qos}", qos=qos) == [min(qos, top)]
        client.send(wire.publish(v, broker.name("t"), b"x", top + 1, 1))
        client.expect_end(0x9B)


@shows(v5="3.2.2-9")
def test_no_maximum_qos_means_qos_2(broker):
    client = broker.connect(V5)
    assert "qos_max" not in client.connack.props
    assert client.publish(broker.name("t"), b"x", 2) in (0, 0x10)


@shows(v5="3.2.2-12 3.2.2-13 3.2.2-7 3.2.2-8")
def test_a_will_that_is_not_supported_is_refused(broker):
    for will, reason in ((wire.Will("w", qos=2), 0x9B), (wire.Will("w", qos=0, retain=True), 0x9A)):
        client = broker.raw(V5, listener="bare")
        client.hello(broker.name(), will=will, expect=reason)
        assert client.rest() == []
    broker.connect(V5, listener="bare", will=wire.Will("w", qos=1)).bye()


def test_a_retained_publish_where_it_is_not_supported(broker):
    client = broker.connect(V5, listener="bare")
    assert client.connack.props["retain_available"] == 0
    client.send(wire.publish(V5, broker.name("t"), b"x", retain=True))
    client.expect_end(0x9A)
