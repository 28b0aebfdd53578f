# SPDX-License-Identifier: Apache-2.0
"""PUBLISH as the broker sends it: identifiers, DUP, and the sender's side of QoS 1 and 2."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])


def pair(broker, v, qos, **more):
    subscriber, publisher = broker.connect(v, **more), broker.connect(v)
    subscriber.subscribe(broker.name("t"), qos=qos)
    return subscriber, publisher


@both
@pytest.mark.parametrize("qos", [1, 2])
@shows(v5="2.2.1-4 4.3.2-1 4.3.2-2 4.3.3-1 4.3.3-2", v3="2.3.1-1 2.3.1-4 4.3.2-1 4.3.3-1")
def test_identifiers_in_use_are_different(broker, v, qos):
    subscriber, publisher = pair(broker, v, qos)
    count = 20
    for i in range(count):
        publisher.publish(broker.name("t"), b"%d" % i, qos)
    got = [subscriber.message(answer=False, qos=qos, dup=False, payload=b"%d" % i) for i in range(count)]
    idents = [m.ident for m in got]
    assert len(set(idents)) == count and 0 not in idents, idents
    for message in got:
        subscriber.answer(message)
    subscriber.ping()


@both
@pytest.mark.parametrize("qos", [1, 2])
@shows(v5="4.3.2-3 4.3.3-3 4.4.0-1", v3="4.3.2-1 4.3.3-1")
def test_nothing_is_sent_again_on_a_live_connection(broker, v, qos):
    """However long no acknowledgement comes."""
    subscriber, publisher = pair(broker, v, qos)
    publisher.publish(broker.name("t"), b"once", qos)
    message = subscriber.message(answer=False)
    assert subscriber.is_quiet(1.5)
    subscriber.answer(message)
    subscriber.ping()


@both
@shows(v5="4.3.3-4 4.3.3-5 4.3.3-6 3.6.2-1 2.2.1-5 4.4.0-1", v3="4.3.3-1 2.3.1-6")
def test_pubrec_is_answered_by_pubrel(broker, v):
    subscriber, publisher = pair(broker, v, 2)
    publisher.publish(broker.name("t"), b"x", 2)
    message = subscriber.message(answer=False, qos=2)
    subscriber.ack(wire.PUBREC, message.ident)
    subscriber.expect(wire.PUBREL, ident=message.ident, reason=0)
    # No PUBLISH again, and no PUBREL by itself.
    assert subscriber.is_quiet(0.5)
    # A repeated PUBREC gets its PUBREL again.
    subscriber.ack(wire.PUBREC, message.ident)
    subscriber.expect(wire.PUBREL, ident=message.ident)
    subscriber.ack(wire.PUBCOMP, message.ident)
    subscriber.ping()


@both
@shows(v5="4.6.0-5", v3="4.6.0-4")
def test_pubrels_are_in_the_order_of_the_pubrecs(broker, v):
    subscriber, publisher = pair(broker, v, 2)
    for i in range(6):
        publisher.publish(broker.name("t"), b"%d" % i, 2)
    idents = [subscriber.message(answer=False).ident for _ in range(6)]
    order = [idents[i] for i in (3, 0, 5, 1, 2, 4)]
    subscriber.send(*[wire.ack(v, wire.PUBREC, i) for i in order])
    for ident in order:
        subscriber.expect(wire.PUBREL, ident=ident)
    subscriber.send(*[wire.ack(v, wire.PUBCOMP, i) for i in order])
    subscriber.ping()


@pytest.mark.parametrize("kind,qos", [(wire.PUBACK, 1), (wire.PUBREC, 2)], ids=["puback", "pubrec"])
@shows(v5="4.4.0-2 4.3.3-4")
def test_a_negative_acknowledgement_ends_the_exchange(broker, kind, qos):
    """No PUBREL after a failed PUBREC, and nothing is sent again when the client is back."""
    subscriber, publisher = pair(broker, V5, qos, client_id=broker.name(), props={"session_expiry": 100})
    for reason in (0x80, 0x83, 0x87, 0x90, 0x97, 0x99):
        publisher.publish(broker.name("t"), b"x", qos)
        message = subscriber.message(answer=False)
        subscriber.ack(kind, message.ident, reason)
        subscriber.ping()
    subscriber.drop()
    again = broker.connect(V5, broker.name(), clean=False)
    assert again.connack.session_present
    again.ping()


@both
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
@shows(v5="3.8.4-8 3.3.1-2", v3="3.8.4-6 3.3.1-2")
def test_the_lesser_qos_counts(broker, v, granted, published):
    subscriber, publisher = pair(broker, v, granted)
    publisher.publish(broker.name("t"), b"x", published)
    subscriber.message(qos=min(granted, published), dup=False)
    subscriber.ping()


@both
@shows(v5="4.3.3-4 4.6.0-5", v3="4.3.3-1 4.6.0-6")
def test_mixed_qos_in_one_stream(broker, v):
    subscriber, publisher = pair(broker, v, 2)
    for i in range(30):
        publisher.publish(broker.name("t"), b"%d" % i, i % 3)
    seen = {0: [], 1: [], 2: []}
    for _ in range(30):
        message = subscriber.message()
        seen[message.qos].append(int(message.payload))
    assert seen == {q: list(range(q, 30, 3)) for q in range(3)}


@both
@shows(v5="2.2.1-4", v3="2.3.1-4")
def test_identifiers_are_used_again_after_their_exchange(broker, v):
    """More messages than there are identifiers in flight; each exchange is completed at once."""
    subscriber, publisher = pair(broker, v, 1)
    for i in range(700):
        publisher.send(wire.publish(v, broker.name("t"), b"%d" % i, 1, i % 5 + 1))
        publisher.expect(wire.PUBACK, ident=i % 5 + 1)
        assert subscriber.message(payload=b"%d" % i).ident != 0
