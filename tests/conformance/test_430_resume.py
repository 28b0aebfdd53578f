# SPDX-License-Identifier: Apache-2.0
"""What is sent again when a client is back: PUBLISH with DUP, PUBREL, in order and with their identifiers."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])


def kept(broker, v, **more):
    props = {"props": {"session_expiry": 100}} if v == V5 else {}
    return broker.connect(v, broker.name(), clean=False, **{**props, **more})


@pytest.mark.core
@both
@pytest.mark.parametrize("qos", [1, 2])
@shows(v5="4.4.0-1 3.3.1-1 4.3.2-3 4.3.3-3 2.2.1-4", v3="4.4.0-1 3.3.1-1 2.3.1-4 4.6.0-1 4.3.2-1 4.3.3-1")
def test_unacknowledged_messages_are_sent_again(broker, v, qos):
    client, publisher = kept(broker, v), broker.connect(v)
    client.subscribe(broker.name("t"), qos=qos)
    for i in range(5):
        publisher.publish(broker.name("t"), b"%d" % i, qos)
    first = [client.message(answer=False, payload=b"%d" % i, dup=False) for i in range(5)]
    # Two are acknowledged, out of order; the others come again, as often as the client comes back.
    for i in (3, 1):
        client.answer(first[i])
    client.ping()
    for _ in range(2):
        client.drop()
        client = kept(broker, v)
        assert client.connack.session_present
        again = [client.message(answer=False, payload=b"%d" % i, dup=True, qos=qos) for i in (0, 2, 4)]
        assert [m.ident for m in again] == [first[i].ident for i in (0, 2, 4)]
    for message in again:
        client.answer(message)
    client.ping()
    client.drop()
    kept(broker, v).ping()


@pytest.mark.core
@both
@shows(v5="4.4.0-1 4.3.3-5 4.3.3-6", v3="4.4.0-1 4.3.3-1")
def test_pubrel_is_sent_again(broker, v):
    """After PUBREC the PUBREL is owed, and never the PUBLISH; the order of all is that of the PUBLISH packets or
    of the PUBRECs."""
    client, publisher = kept(broker, v), broker.connect(v)
    client.subscribe(broker.name("t"), qos=2)
    for i in range(3):
        publisher.publish(broker.name("t"), b"%d" % i, 2)
    zero, one, two = [client.message(answer=False) for _ in range(3)]
    client.ack(wire.PUBREC, zero.ident)
    client.expect(wire.PUBREL, ident=zero.ident)
    for _ in range(2):
        client.drop()
        client = kept(broker, v)
        got = [client.recv() for _ in range(3)]
        told = [(p.kind, p.ident) for p in got]
        assert sorted(told) == sorted([(wire.PUBREL, zero.ident), (wire.PUBLISH, one.ident), (wire.PUBLISH, two.ident)])
        assert [i for k, i in told if k == wire.PUBLISH] == [one.ident, two.ident]
        assert all(p.dup for p in got if p.kind == wire.PUBLISH)
    client.ack(wire.PUBCOMP, zero.ident)
    for message in (one, two):
        client.answer(message)
    client.ping()
    client.drop()
    kept(broker, v).ping()


@both
@shows(v5="4.3.3-10 4.4.0-1", v3="4.3.3-2 4.4.0-1")
def test_a_publisher_resumes_its_exchange(broker, v):
    """The broker remembers what it has received: a PUBLISH sent again is not delivered again."""
    subscriber = broker.connect(v).watch()
    subscriber.subscribe(broker.name("t"), qos=2)
    client = kept(broker, v)
    client.send(wire.publish(v, broker.name("t"), b"once", 2, 7))
    client.expect(wire.PUBREC, ident=7)
    client.drop()
    client = kept(broker, v)
    assert client.connack.session_present
    client.send(wire.publish(v, broker.name("t"), b"once", 2, 7, dup=True))
    client.expect(wire.PUBREC, ident=7, reason=0)
    client.drop()
    client = kept(broker, v)
    client.ack(wire.PUBREL, 7)
    client.expect(wire.PUBCOMP, ident=7, reason=0)
    # Delivered at the PUBLISH or at the PUBREL, as the broker likes.
    assert [m.payload for m in subscriber.messages_before(client, 2)] == [b"once"]
    # A PUBREL again is answered again: the PUBCOMP may have been lost.
    client.ack(wire.PUBREL, 7)
    assert client.expect(wire.PUBCOMP, ident=7).reason in (0, 0x92)
    client.publish(broker.name("t"), b"next", 2, 7)
    subscriber.message(payload=b"next")


@both
@shows(v5="3.1.2-4 4.3.3-12", v3="3.1.2-6 4.3.3-2")
def test_a_clean_start_forgets_the_publishers_exchange(broker, v):
    subscriber = broker.connect(v).watch()
    subscriber.subscribe(broker.name("t"), qos=2)
    client = kept(broker, v)
    client.send(wire.publish(v, broker.name("t"), b"one", 2, 7))
    client.expect(wire.PUBREC, ident=7)
    client.drop()
    client = broker.connect(v, broker.name(), clean=True)
    client.publish(broker.name("t"), b"two", 2, 7)
    # The first was delivered with its PUBLISH, or is gone as its PUBREL never came.
    assert [m.payload for m in subscriber.messages_before(client, 2)] in ([b"one", b"two"], [b"two"])


@both
@shows(v5="4.4.0-1 3.3.1-2", v3="4.4.0-1 3.3.1-2")
def test_qos_0_is_not_sent_again(broker, v):
    client, publisher = kept(broker, v), broker.connect(v)
    client.subscribe(broker.name("t"), qos=1)
    publisher.publish(broker.name("t"), b"zero", 0)
    client.message(payload=b"zero", qos=0, dup=False)
    client.drop()
    client = kept(broker, v)
    client.ping()


@pytest.mark.core
@both
@shows(v5="4.4.0-1 4.6.0-5", v3="4.6.0-1 4.6.0-6 4.4.0-1")
def test_resent_and_waiting_and_new_messages_keep_their_order(broker, v):
    client, publisher = kept(broker, v), broker.connect(v)
    client.subscribe(broker.name("t"), qos=1)
    total = 30
    for i in range(total):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
        if i == 4:
            for j in range(5):
                client.message(answer=False, payload=b"%d" % j)
            client.drop()
    client = kept(broker, v)
    for i in range(total, total + 5):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
    for i in range(total + 5):
        it = client.message(payload=b"%d" % i)
        assert it.dup or i >= 5, it  # later ones may have been sent to the old connection before its end was seen
    client.ping()


@both
@shows(v5="4.4.0-1 4.9.0-2")
def test_a_smaller_window_after_coming_back(broker, v):
    """More was in flight than the new connection allows at once."""
    client, publisher = kept(broker, v), broker.connect(v)
    client.subscribe(broker.name("t"), qos=1)
    for i in range(6):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
        client.message(answer=False)
    client.drop()
    client = kept(broker, v, **({"props": {"session_expiry": 100, "receive_max": 2}} if v == V5 else {}))
    if v == V5:
        held = [client.message(answer=False, payload=b"%d" % i, dup=True) for i in range(2)]
        assert client.is_quiet(0.2)
        for message in held:
            client.answer(message)
        for i in range(2, 6):
            client.message(payload=b"%d" % i, dup=True)
    else:
        for i in range(6):
            client.message(payload=b"%d" % i, dup=True)
    client.ping()
