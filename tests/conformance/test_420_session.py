# SPDX-License-Identifier: Apache-2.0
"""Sessions: clean start, expiry, and what is kept for a client that is away."""
import time

import pytest
from harness.wait import in_time, until
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
NEVER = 0xFFFFFFFF


def kept(broker, v, client_id=None, clean=False, **more):
    """A client whose session outlives the connection."""
    props = {"props": {"session_expiry": 100}} if v == V5 else {}
    return broker.connect(v, client_id or broker.name(), clean=clean, **{**props, **more})


def end(broker, v, client_id=None):
    broker.connect(v, client_id or broker.name(), clean=True).bye()


@pytest.mark.core
@both
@shows(v5="3.1.2-4 3.1.2-5 3.1.2-6 3.1.2-23 3.2.2-2 3.2.2-3 3.1.3-2 3.1.4-4",
       v3="3.1.2-4 3.1.2-6 3.2.2-1 3.2.2-2 3.2.2-3 3.1.3-2 3.1.4-3 4.1.0-1")
def test_session_present_tells_whether_there_was_a_session(broker, v):
    def present(clean):
        client = kept(broker, v, clean=clean)
        client.bye()
        return client.connack.session_present
    assert [present(c) for c in (False, False, True, True, False)] == [False, True, False, False, v == V5]
    # In 3.1.1 a clean session ends with its connection, in 5.0 the expiry interval decides.
    assert present(False)
    end(broker, v)


@pytest.mark.core
@both
@shows(v5="3.1.2-5 3.1.2-23 4.5.0-1 4.1.0-1", v3="3.1.2-4 3.1.2-5 4.5.0-1 4.1.0-1")
def test_subscriptions_and_messages_are_kept(broker, v):
    client, publisher = kept(broker, v), broker.connect(v)
    client.subscribe((broker.name("one"), 1), (broker.name("two"), 2), (broker.name("zero"), 0))
    client.bye()  # away from now on; a line that is cut is so only when the broker has seen it
    for i in range(6):
        publisher.publish(broker.name(("one", "two")[i % 2]), b"%d" % i, 1 + i % 2)
    client = kept(broker, v)
    assert client.connack.session_present
    for i in range(6):
        client.message(topic=broker.name(("one", "two")[i % 2]), payload=b"%d" % i, qos=1 + i % 2, dup=False)
    client.ping()
    publisher.publish(broker.name("zero"), b"live", 0)
    client.message(payload=b"live")
    end(broker, v)


@both
@shows(v5="3.1.2-4 3.2.2-2", v3="3.1.2-6 3.2.2-1")
def test_a_clean_start_forgets_everything(broker, v):
    client, publisher = kept(broker, v), broker.connect(v)
    client.subscribe(broker.name("t"), qos=2)
    publisher.publish(broker.name("t"), b"in flight", 2)
    client.message(answer=False)
    client.drop()
    publisher.publish(broker.name("t"), b"waiting", 1)
    client = kept(broker, v, clean=True)
    assert not client.connack.session_present
    publisher.publish(broker.name("t"), b"not subscribed any more", 1)
    client.watch().nothing_before(publisher, 1)
    end(broker, v)


@shows(v5="3.1.2-23 4.1.0-2")
def test_a_session_without_expiry_ends_with_its_connection(broker):
    for props in (None, {"session_expiry": 0}):
        broker.connect(V5, broker.name(), clean=False, props=props).drop()
        gone = until(lambda: not present(broker), "the session is gone")
        assert gone


def present(broker):
    client = broker.connect(V5, broker.name(), clean=False)
    client.bye()
    return client.connack.session_present


@shows(v3="3.1.2-6 4.1.0-2")
def test_a_clean_session_of_3_ends_with_its_connection(broker):
    client = broker.connect(V311, broker.name(), clean=True)
    client.subscribe(broker.name("t"), qos=1)
    client.bye()
    client = broker.connect(V311, broker.name(), clean=False)
    assert not client.connack.session_present
    publisher = broker.connect(V311)
    publisher.publish(broker.name("t"), b"x", 1)
    client.watch().nothing_before(publisher, 1)
    end(broker, V311)


@pytest.mark.core
@shows(v5="4.1.0-2 3.1.2-23")
def test_a_session_expires(broker):
    """Not before its interval, and then with all it held."""
    publisher = broker.connect(V5)

    def attempt(pace):
        client = broker.connect(V5, broker.name(), props={"session_expiry": 2})
        client.subscribe(broker.name("t"), qos=1)
        pace.start()
        client.drop()
        time.sleep(1)
        client = broker.connect(V5, broker.name(), clean=False, props={"session_expiry": 1})
        pace.end()
        assert client.connack.session_present, "within its interval"
        client.drop()
    in_time(attempt, 1.9)
    publisher.publish(broker.name("t"), b"x", 1)
    time.sleep(2.6)
    client = broker.connect(V5, broker.name(), clean=False)
    assert not client.connack.session_present, "after its interval"
    client.watch().nothing_before(publisher, 1)


@shows(v5="4.1.0-1 4.1.0-2")
def test_the_interval_begins_when_the_connection_ends(broker):
    def attempt(pace):
        client = broker.connect(V5, broker.name(), props={"session_expiry": 1})
        client.subscribe(broker.name("t"), qos=1)
        time.sleep(2.2)
        client.publish(broker.name("t"), b"still there", 1)
        client.message(payload=b"still there")
        pace.start()
        client.drop()
        client = broker.connect(V5, broker.name(), clean=False)
        pace.end()
        assert client.connack.session_present
    in_time(attempt, 0.9)


@shows(v5="3.1.2-23 4.1.0-2")
def test_disconnect_changes_the_interval(broker):
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100})
    client.bye(props={"session_expiry": 0})
    client = broker.connect(V5, broker.name(), clean=False, props={"session_expiry": 1})
    assert not client.connack.session_present
    client.bye(props={"session_expiry": 100})
    time.sleep(2.2)
    client = broker.connect(V5, broker.name(), clean=False)
    assert client.connack.session_present
    client.bye()


@shows(v5="4.13.1-1")
def test_disconnect_can_not_begin_an_interval(broker):
    """Where CONNECT asked for none, an interval in DISCONNECT is a protocol error. The will is not discarded."""
    client = broker.connect(V5, broker.name())
    client.send(wire.disconnect(V5, 0, props={"session_expiry": 10}))
    client.expect_end(0x82)
    assert not present(broker)


@shows(v5="3.1.2-23")
def test_a_session_for_ever(broker):
    client = broker.connect(V5, broker.name(), props={"session_expiry": NEVER})
    told = client.connack.props.get("session_expiry", NEVER)
    assert told > 3600
    client.drop()
    client = broker.connect(V5, broker.name(), clean=False)
    assert client.connack.session_present
    client.bye()


@shows(v5="4.1.0-2")
def test_an_interval_that_is_too_long_is_told(broker):
    """What the broker keeps instead is in the CONNACK, and is what counts."""
    def attempt(pace):
        client = broker.connect(V5, broker.name(), listener="capped", props={"session_expiry": 100})
        assert client.connack.props["session_expiry"] == 2
        pace.start()
        client.drop()
        client = broker.connect(V5, broker.name(), clean=False, listener="capped", props={"session_expiry": 1})
        pace.end()
        assert client.connack.session_present and client.connack.props.get("session_expiry", 1) == 1
        return client
    client = in_time(attempt, 1.9)
    client.bye(props={"session_expiry": 100})
    time.sleep(3.6)
    assert not present(broker)


@shows(v5="3.1.2-23", v3="3.1.2-4")
def test_a_session_may_be_resumed_with_the_other_version(broker):
    """The session belongs to the client id, not to the version of one connection."""
    client, publisher = kept(broker, V311), broker.connect(V5)
    client.subscribe(broker.name("t"), qos=1)
    client.bye()
    publisher.publish(broker.name("t"), b"x", 1, props={"content_type": "a/b"})
    client = kept(broker, V5)
    assert client.connack.session_present
    assert client.message(payload=b"x").props == {"content_type": "a/b"}
    client.bye()
    publisher.publish(broker.name("t"), b"y", 1)
    client = kept(broker, V311)
    client.message(payload=b"y")
    client.bye()
    end(broker, V311)


@both
@shows(v5="3.1.3-2", v3="3.1.3-2")
def test_sessions_of_different_ids_are_different(broker, v):
    """Ids differ by every byte, case and length."""
    ids = [broker.name(x) for x in ("a", "A", "a ", "aa", "ä", "a/", "a\u0308")]
    for i in ids:
        kept(broker, v, i).bye()
    for i in ids[::2]:
        end(broker, v, i)
    assert [kept(broker, v, i).connack.session_present for i in ids] == [i not in ids[::2] for i in ids]
    for i in ids:
        end(broker, v, i)


@both
@shows(v5="4.5.0-1", v3="3.1.2-5 4.5.0-1")
def test_a_full_queue_drops_and_says_nothing_wrong(broker, v):
    """Of more messages than the queue of an absent client holds, those that are kept come in order, once."""
    more = {"listener": "queue"}
    client, publisher = kept(broker, v, **more), broker.connect(v)
    client.subscribe(broker.name("t"), qos=1)
    client.bye()
    for i in range(20):
        assert publisher.publish(broker.name("t"), b"%d" % i, 1) == 0
    client = kept(broker, v, **more)
    client.fence = None
    seen = []
    while not seen or not client.is_quiet(0.5):  # they are read from the disk
        it = client.recv()
        seen.append(int(it.payload))
        client.answer(it)
    assert 1 <= len(seen) <= 5 + 2 and seen == sorted(set(seen)), seen
    end(broker, v)
