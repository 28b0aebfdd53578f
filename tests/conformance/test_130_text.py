# SPDX-License-Identifier: Apache-2.0
"""UTF-8: which strings are refused wherever a string stands, and that none is changed on its way."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311, Will

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])

ILL_FORMED = {
    "stray continuation": b"a\x80b", "lone lead byte": b"a\xc3", "overlong slash": b"\xc0\xaf", "overlong NUL": b"\xc0\x80",
    "overlong of three": b"\xe0\x80\xaf", "overlong of four": b"\xf0\x80\x80\xaf", "first surrogate": b"\xed\xa0\x80",
    "last surrogate": b"\xed\xbf\xbf", "surrogate pair": b"\xed\xa0\xbd\xed\xb8\x80", "above U+10FFFF": b"\xf4\x90\x80\x80",
    "byte FF": b"\xff", "byte FE": b"a\xfe", "five byte form": b"\xf8\x88\x80\x80\x80", "cut sequence": b"\xe2\x82",
}
NUL = {"NUL alone": b"\0", "NUL within": b"a\0b", "NUL at the end": b"ab\0"}
GOOD = ["ä", "€uro", "\uFEFF", "a\uFEFFb", "😀", "\U0010FFFD", "\uD7FF", "\uE000", "a b", "é", "é", "A/ä/€/😀", "'\"\\", "%i"]


def in_connected(v, bad):
    """Packets with the string in every place a client has after CONNECT."""
    yield "topic", wire.publish(v, bad)
    yield "filter", wire.subscribe(v, 1, [(bad, 0)])
    yield "second filter", wire.subscribe(v, 1, [("a", 0), (bad, 0)])
    yield "filter to unsubscribe", wire.unsubscribe(v, 1, [bad])
    if v == V5:
        yield "response topic", wire.publish(v, "a", props={"response_topic": bad})
        yield "content type", wire.publish(v, "a", props={"content_type": bad})
        yield "user property name", wire.publish(v, "a", props={"user_property": (bad, "v")})
        yield "user property value", wire.publish(v, "a", props={"user_property": ("n", bad)})
        yield "reason string", wire.ack(v, wire.PUBACK, 1, props={"reason_string": bad})
        yield "user property in SUBSCRIBE", wire.subscribe(v, 1, [("a", 0)], props={"user_property": ("n", bad)})


def in_connect(v, bad):
    yield "client id", wire.connect(v, bad)
    yield "user name", wire.connect(v, "", user=bad, password=b"x")
    yield "will topic", wire.connect(v, "", will=Will(bad))
    if v == V5:
        yield "user property in CONNECT", wire.connect(v, "", props={"user_property": ("n", bad)})
        yield "authentication method", wire.connect(v, "", props={"auth_method": bad})
        yield "will content type", wire.connect(v, "", will=Will("t", props={"content_type": bad}))


@both
@shows(v5="1.5.4-1 1.5.4-2 1.5.7-1 3.3.2-1 3.3.2-13 3.3.2-19 3.8.3-1 3.10.3-1 4.7.3-2 4.13.1-1",
       v3="1.5.3-1 1.5.3-2 3.3.2-1 3.8.3-1 3.10.3-1 4.7.3-2")
def test_bad_strings_end_the_connection(broker, v):
    wrong = []
    for what, bad in {**ILL_FORMED, **NUL}.items():
        for place, packet in in_connected(v, bad):
            client = broker.connect(v)
            client.send(packet)
            told = [(p.kind, p.reason) for p in client.rest()]
            if told not in ([[]] if v < V5 else [[(wire.DISCONNECT, r)] for r in (0x81, 0x82, 0x90, 0x8F)]):
                wrong.append(f"{what} as {place}: {told}")
    assert not wrong, "\n".join(wrong)


@both
@shows(v5="1.5.4-1 1.5.4-2 3.1.3-4 3.1.3-11 3.1.3-12 3.1.4-1 3.1.3-8",
       v3="1.5.3-1 1.5.3-2 3.1.3-4 3.1.3-10 3.1.3-11 3.1.4-1")
def test_bad_strings_in_connect_are_refused(broker, v):
    wrong = []
    for what, bad in {**ILL_FORMED, **NUL}.items():
        for place, packet in in_connect(v, bad):
            client = broker.raw(v)
            client.send(packet)
            told = [(p.kind, p.reason) for p in client.rest()]
            good = [[]] if v < V5 else [[], [(wire.CONNACK, 0x81)], [(wire.CONNACK, 0x85)], [(wire.CONNACK, 0x90)]]
            if told not in good and not (v < V5 and place == "client id" and told == [(wire.CONNACK, 2)]):
                wrong.append(f"{what} as {place}: {told}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.core
@both
@shows(v5="1.5.4-3 4.7.3-4 3.3.2-3", v3="1.5.3-3 4.7.3-4 3.3.2-3")
def test_strings_are_passed_on_as_they_are(broker, v):
    """As topic, and matched with nothing but themselves: composed and decomposed letters differ, a byte order
    mark stays, case counts."""
    client = broker.connect(v)
    for i, good in enumerate(GOOD):
        client.subscribe(broker.name(good), qos=0)
    for i, good in enumerate(GOOD):
        client.publish(broker.name(good), b"%d" % i)
        client.message(topic=broker.name(good), payload=b"%d" % i)
    for other in ("Ä", "\uFEFF\uFEFF", "ab", "😁"):
        client.publish(broker.name(other), b"to nobody")
    client.ping()


@both
@shows(v5="4.7.3-4", v3="4.7.3-4")
def test_levels_are_not_normalized(broker, v):
    topics = ["a", "a/", "/a", "a//b", "a/./b", "a/b", "A/b", "a/b ", " a/b", "a/../a/b", "/", "//"]
    client = broker.connect(v)
    client.watch()
    for topic in topics:
        client.subscribe(broker.name() + "/" + topic)
    for topic in topics:
        client.publish(broker.name() + "/" + topic, topic.encode())
        client.message(topic=broker.name() + "/" + topic, payload=topic.encode())
    client.nothing_before(client)


@shows(v5="1.5.4-3 1.5.7-1 3.3.2-17 3.3.2-20 3.3.2-15")
def test_strings_in_properties_are_passed_on_as_they_are(broker):
    client = broker.connect(V5)
    topic = broker.name("t")
    client.subscribe(topic)
    for good in GOOD:
        props = {"content_type": good, "response_topic": good, "user_property": [(good, good), ("", ""), (good, good)]}
        client.publish(topic, props=props)
        assert client.message(topic=topic).props == props


@both
@shows(v5="4.7.3-3", v3="4.7.3-3")
def test_topics_of_the_greatest_length(broker, v):
    """65,535 bytes is what a length field holds; no more can be said."""
    name = broker.name("x")
    longest = name + "y" * (65535 - len(name))
    client = broker.connect(v)
    client.subscribe(longest)
    client.publish(longest, b"long")
    client.message(topic=longest, payload=b"long")
