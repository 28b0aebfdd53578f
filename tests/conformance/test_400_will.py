# SPDX-License-Identifier: Apache-2.0
"""Wills: when they are published, when not, and with what."""
import time

import pytest
from harness.wait import in_time
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311, Will

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])


def watcher(broker, v=V5, qos=2, topic="will", **options):
    client = broker.connect(v).watch()
    client.subscribe(broker.name(topic), qos=qos, **options)
    return client


@pytest.mark.core
@both
@pytest.mark.parametrize("qos", [0, 1, 2])
@shows(v5="3.1.2-7 3.1.2-8 3.1.2-9 3.1.2-12 3.1.2-14", v3="3.1.2-8 3.1.2-9 3.1.2-14 3.1.2-16")
def test_a_will_is_published_when_the_connection_is_cut(broker, v, qos):
    watch = watcher(broker, v)
    for cut in ("drop", "reset"):
        client = broker.connect(v, will=Will(broker.name("will"), b"\0gone\xff", qos))
        getattr(client, cut)()
        watch.message(topic=broker.name("will"), payload=b"\0gone\xff", qos=qos, retain=False)
    # It was not retained.
    late = watcher(broker, v)
    assert late.is_quiet(0.1)


@both
@shows(v5="3.1.2-15", v3="3.1.2-17")
def test_a_retained_will(broker, v):
    watch = watcher(broker, v)
    broker.connect(v, will=Will(broker.name("will"), b"kept", 1, retain=True)).drop()
    watch.message(payload=b"kept", retain=False)
    late = broker.connect(v)
    late.subscribe(broker.name("will"), qos=1)
    late.message(payload=b"kept", retain=True, qos=1)
    # An empty will that is retained removes what is retained.
    broker.connect(v, will=Will(broker.name("will"), b"", 1, retain=True)).drop()
    watch.message(payload=b"")
    late.message(payload=b"", retain=False)
    last = broker.connect(v)
    last.subscribe(broker.name("will"), qos=1)
    assert last.is_quiet(0.1)


@pytest.mark.core
@both
@shows(v5="3.14.4-3 3.1.2-10 3.1.2-8", v3="3.14.4-3 3.1.2-10 3.1.2-8")
def test_a_normal_disconnect_discards_the_will(broker, v):
    watch, other = watcher(broker, v), broker.connect(v)
    broker.connect(v, will=Will(broker.name("will"))).bye()
    client = broker.connect(v, will=Will(broker.name("will")))
    client.send(wire.disconnect(v))
    client.drop()
    assert watch.is_quiet(0.3)
    watch.nothing_before(other)


@shows(v5="3.1.2-8")
def test_disconnect_with_will(broker):
    watch = watcher(broker)
    for reason in (0x04, 0x80, 0x81, 0x97):
        broker.connect(V5, will=Will(broker.name("will"), b"%d" % reason)).bye(reason)
        watch.message(payload=b"%d" % reason)


@both
@shows(v3="3.1.2-12")
def test_without_a_will_nothing_is_published(broker, v):
    watch = broker.connect(v).watch()
    watch.subscribe("#")
    for _ in range(3):
        broker.connect(v, broker.name()).drop()
    assert [m for m in watch.messages_before(broker.connect(v)) if not m.retain] == []


@both
@shows(v5="3.1.2-8 4.13.1-1", v3="3.1.2-8 4.8.0-1")
def test_a_will_is_published_when_the_broker_ends_the_connection(broker, v):
    watch = watcher(broker, v)
    client = broker.connect(v, will=Will(broker.name("will"), b"after an error"))
    client.send(wire.publish(v, "a", b"", 3, 1))
    client.rest()
    watch.message(payload=b"after an error")
    client = broker.connect(v, keep_alive=1, will=Will(broker.name("will"), b"after silence"))
    watch.message(payload=b"after silence")


@both
@shows(v5="3.1.2-10 3.1.2-8", v3="3.1.2-10")
def test_a_will_is_published_once(broker, v):
    watch = watcher(broker, v)
    keep = {"props": {"session_expiry": 100}} if v == V5 else {}
    client = broker.connect(v, broker.name(), clean=False, will=Will(broker.name("will"), b"once"), **keep)
    client.drop()
    watch.message(payload=b"once")
    # The session goes on; the will of the earlier connection does not.
    client = broker.connect(v, broker.name(), clean=False, **keep)
    assert client.connack.session_present
    client.drop()
    client = broker.connect(v, broker.name(), clean=True)
    client.bye()
    assert watch.is_quiet(0.3)


@both
@shows(v5="3.1.2-8 3.1.4-3", v3="3.1.2-8 3.1.4-2")
def test_a_take_over_publishes_the_will(broker, v):
    """The earlier connection ended without a DISCONNECT of its client, and its will has no delay."""
    watch = watcher(broker, v)
    first = broker.connect(v, broker.name(), will=Will(broker.name("will"), b"first"))
    second = broker.connect(v, broker.name(), will=Will(broker.name("will"), b"second"))
    first.expect_end(0x8E)
    watch.message(payload=b"first")
    second.ping()
    second.drop()
    watch.message(payload=b"second")


@pytest.mark.core
@shows(v5="3.1.2-8 3.1.3-9")
def test_a_will_delay(broker):
    watch = watcher(broker)
    client = broker.connect(V5, broker.name(), props={"session_expiry": 100},
                            will=Will(broker.name("will"), b"late", props={"will_delay": 1}))
    start = time.monotonic()
    client.drop()
    watch.message(payload=b"late")
    assert time.monotonic() - start >= 0.9


@shows(v5="3.1.3-9 3.1.2-8")
def test_coming_back_within_the_delay_prevents_the_will(broker):
    will = Will(broker.name("will"), b"never", props={"will_delay": 1})

    def attempt(pace):
        watch = watcher(broker)
        client = broker.connect(V5, broker.name(), props={"session_expiry": 100}, will=will)
        pace.start()
        client.drop()
        client = broker.connect(V5, broker.name(), clean=False, props={"session_expiry": 100})
        pace.end()
        assert client.connack.session_present
        assert watch.is_quiet(1.6)
        client.bye()
    in_time(attempt, 0.9)


@shows(v5="3.1.3-9 3.1.2-8")
def test_a_take_over_within_the_delay_prevents_the_will(broker):
    watch = watcher(broker)
    will = Will(broker.name("will"), b"never", props={"will_delay": 1})
    first = broker.connect(V5, broker.name(), clean=False, props={"session_expiry": 100}, will=will)
    second = broker.connect(V5, broker.name(), clean=False, props={"session_expiry": 100})
    first.expect_end(0x8E)
    assert watch.is_quiet(1.6)
    second.bye()


@shows(v5="3.1.2-8 3.1.2-4")
def test_a_clean_start_within_the_delay_ends_the_session_and_publishes(broker):
    """The session ends, so the will is due at once; a new connection within the delay is a new session."""
    watch = watcher(broker)
    will = Will(broker.name("will"), b"session ended", props={"will_delay": 60})
    broker.connect(V5, broker.name(), props={"session_expiry": 100}, will=will).drop()
    client = broker.connect(V5, broker.name(), clean=True)
    assert not client.connack.session_present
    watch.message(payload=b"session ended")
    client.bye()


@shows(v5="3.1.2-8 4.1.0-2")
def test_the_end_of_the_session_publishes_before_the_delay(broker):
    watch = watcher(broker)
    for expiry, wait in ((0, 0.0), (1, 0.7)):
        start = time.monotonic()
        props = {"session_expiry": expiry} if expiry else None
        broker.connect(V5, broker.name(), props=props,
                       will=Will(broker.name("will"), b"%d" % expiry, props={"will_delay": 60})).drop()
        watch.message(payload=b"%d" % expiry)
        assert time.monotonic() - start >= wait


@shows(v5="3.14.4-3 3.1.2-10")
def test_a_normal_disconnect_discards_a_delayed_will(broker):
    watch = watcher(broker)
    broker.connect(V5, broker.name(), props={"session_expiry": 100},
                   will=Will(broker.name("will"), props={"will_delay": 1})).bye()
    assert watch.is_quiet(1.6)


@shows(v5="3.1.3-10 3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-20 3.1.2-9")
def test_the_properties_of_a_will(broker):
    watch, old = watcher(broker), watcher(broker, V311)
    props = {"payload_format": 1, "content_type": "a/b", "response_topic": "r", "correlation_data": b"\0\1",
             "user_property": [("b", "1"), ("a", "2"), ("b", "1")]}
    start = time.monotonic()
    broker.connect(V5, will=Will(broker.name("will"), b"x", 1, props={"will_delay": 0, "message_expiry": 60, **props})).drop()
    got = watch.message(payload=b"x").props
    assert 60 - (time.monotonic() - start) - 1 <= got.pop("message_expiry") <= 60
    assert got == props
    assert old.message(payload=b"x").props == {}


def test_a_will_on_a_topic_with_wildcards_is_refused(broker):
    for v in (V311, V5):
        client = broker.raw(v)
        client.send(wire.connect(v, broker.name(), will=Will("a/#")))
        told = [(p.kind, p.reason) for p in client.rest()]
        assert told in ([], [(wire.CONNACK, 0x90)], [(wire.CONNACK, 0x81)], [(wire.CONNACK, 0x82)]), told


def test_a_will_that_is_not_authorized(broker):
    client = broker.raw(V5, listener="denying")
    client.hello(broker.name(), will=Will("readonly/will"), expect=0x87)
    assert client.rest() == []
