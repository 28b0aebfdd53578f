# SPDX-License-Identifier: Apache-2.0
"""Packets that break the rules, as tables: each ends the connection, in 5.0 with the reason the standard gives,
in 3.x without a word; and the broker goes on for others."""
import pytest
from mqtt import wire
from mqtt.statements import case, shows
from mqtt.wire import V5, V311

MALFORMED, PROTOCOL, EITHER = (0x81,), (0x82,), (0x81, 0x82)



# What both versions refuse. The bytes are a function of the version.
BOTH = [
    # --- fixed header ---
    case("packet type 0", lambda v: b"\0\0", MALFORMED, v5="4.13.1-1", v3="4.8.0-1"),
    case("packet type 15 of 3.1.1, or AUTH without a method", lambda v: b"\xf0\0", EITHER, v3="4.8.0-1"),
    case("flags of PUBACK", lambda v: wire.ack(v, wire.PUBACK, 1, flags=1), MALFORMED, v5="2.1.3-1", v3="2.2.2-1 2.2.2-2"),
    case("flags of PUBREC", lambda v: wire.ack(v, wire.PUBREC, 1, flags=2), MALFORMED, v5="2.1.3-1", v3="2.2.2-1 2.2.2-2"),
    case("flags 0 of PUBREL", lambda v: wire.ack(v, wire.PUBREL, 1, flags=0), MALFORMED, v5="3.6.1-1 2.1.3-1",
         v3="3.6.1-1 2.2.2-2"),
    case("flags 3 of PUBREL", lambda v: wire.ack(v, wire.PUBREL, 1, flags=3), MALFORMED, v5="3.6.1-1", v3="3.6.1-1"),
    case("flags 15 of PUBREL", lambda v: wire.ack(v, wire.PUBREL, 1, flags=15), MALFORMED, v5="3.6.1-1", v3="3.6.1-1"),
    case("flags of PUBCOMP", lambda v: wire.ack(v, wire.PUBCOMP, 1, flags=8), MALFORMED, v5="2.1.3-1", v3="2.2.2-1"),
    case("flags 0 of SUBSCRIBE", lambda v: wire.subscribe(v, 1, [("a", 0)], flags=0), MALFORMED, v5="3.8.1-1",
         v3="3.8.1-1"),
    case("flags 6 of SUBSCRIBE", lambda v: wire.subscribe(v, 1, [("a", 0)], flags=6), MALFORMED, v5="3.8.1-1",
         v3="3.8.1-1"),
    case("flags 0 of UNSUBSCRIBE", lambda v: wire.unsubscribe(v, 1, ["a"], flags=0), MALFORMED, v5="3.10.1-1",
         v3="3.10.1-1"),
    case("flags 10 of UNSUBSCRIBE", lambda v: wire.unsubscribe(v, 1, ["a"], flags=10), MALFORMED, v5="3.10.1-1",
         v3="3.10.1-1"),
    case("flags of PINGREQ", lambda v: b"\xc1\0", MALFORMED, v5="2.1.3-1", v3="2.2.2-1 2.2.2-2"),
    case("flags of DISCONNECT", lambda v: wire.disconnect(v, flags=1), MALFORMED, v5="3.14.1-1", v3="3.14.1-1"),
    case("flags 15 of DISCONNECT", lambda v: wire.disconnect(v, flags=15), MALFORMED, v5="3.14.1-1", v3="3.14.1-1"),
    case("remaining length of five bytes", lambda v: b"\x30\x80\x80\x80\x80\x01", MALFORMED, v5="4.13.1-1", v3="4.8.0-1"),
    case("remaining length of ever more bytes", lambda v: b"\xc0\xff\xff\xff\xff\xff", MALFORMED, v5="4.13.1-1",
         v3="4.8.0-1"),
    # --- packets that a client does not send ---
    case("CONNACK from a client", lambda v: wire.packet(wire.CONNACK, 0, b"\0\0" + wire.properties(v, {})), EITHER,
         v5="4.13.1-1", v3="4.8.0-1"),
    case("SUBACK from a client", lambda v: wire.packet(wire.SUBACK, 0, b"\0\x01" + wire.properties(v, {}) + b"\0"), EITHER,
         v5="4.13.1-1", v3="4.8.0-1"),
    case("UNSUBACK from a client", lambda v: wire.packet(wire.UNSUBACK, 0, b"\0\x01" + (b"\0\0" if v == V5 else b"")),
         EITHER, v5="4.13.1-1", v3="4.8.0-1"),
    case("PINGRESP from a client", lambda v: b"\xd0\0", EITHER, v5="4.13.1-1", v3="4.8.0-1"),
    # --- PUBLISH ---
    case("QoS 3", lambda v: wire.publish(v, "a", b"", 3, 1), MALFORMED, v5="3.3.1-4", v3="3.3.1-4"),
    case("DUP with QoS 0", lambda v: wire.publish(v, "a", b"", 0, None, dup=True), MALFORMED, v5="3.3.1-2", v3="3.3.1-2"),
    case("QoS 1 with identifier 0", lambda v: wire.publish(v, "a", b"", 1, 0), EITHER, v5="4.13.1-1", v3="2.3.1-1"),
    case("QoS 2 with identifier 0", lambda v: wire.publish(v, "a", b"", 2, 0), EITHER, v5="4.13.1-1", v3="2.3.1-1"),
    case("PUBLISH without a topic", lambda v: wire.packet(wire.PUBLISH, 0, b""), MALFORMED, v5="3.3.2-1", v3="3.3.2-1"),
    case("PUBLISH of half a topic", lambda v: wire.packet(wire.PUBLISH, 0, b"\0\x04ab"), MALFORMED, v5="3.3.2-1",
         v3="3.3.2-1"),
    case("PUBLISH without its identifier", lambda v: wire.packet(wire.PUBLISH, 2, b"\0\x01a"), MALFORMED, v5="4.13.1-1",
         v3="2.3.1-1"),
    case("empty topic", lambda v: wire.publish(v, "", b"x"), EITHER, v5="4.7.3-1", v3="4.7.3-1"),
    case("# in a topic", lambda v: wire.publish(v, "a/#", b"x"), (0x90, 0x81, 0x82), v5="3.3.2-2 4.7.0-1",
         v3="3.3.2-2 4.7.1-1"),
    case("+ in a topic", lambda v: wire.publish(v, "a/+/b", b"x"), (0x90, 0x81, 0x82), v5="3.3.2-2 4.7.0-1",
         v3="3.3.2-2 4.7.1-1"),
    case("wildcard within a level of a topic", lambda v: wire.publish(v, "a+", b"x", 1, 1), (0x90, 0x81, 0x82),
         v5="3.3.2-2", v3="3.3.2-2"),
    # --- acknowledgements ---
    case("PUBACK of one byte", lambda v: wire.packet(wire.PUBACK, 0, b"\0"), MALFORMED, v5="4.13.1-1", v3="4.8.0-1"),
    case("empty PUBREL", lambda v: wire.packet(wire.PUBREL, 2, b""), MALFORMED, v5="4.13.1-1", v3="4.8.0-1"),
    case("PUBREL with identifier 0", lambda v: wire.ack(v, wire.PUBREL, 0), EITHER, v5="4.13.1-1", v3="4.8.0-1"),
    # --- SUBSCRIBE, UNSUBSCRIBE ---
    case("SUBSCRIBE without a filter", lambda v: wire.subscribe(v, 1, []), EITHER, v5="3.8.3-2", v3="3.8.3-3"),
    case("SUBSCRIBE with identifier 0", lambda v: wire.subscribe(v, 0, [("a", 0)]), EITHER, v5="4.13.1-1", v3="2.3.1-1"),
    case("a filter without options", lambda v: wire.packet(wire.SUBSCRIBE, 2, b"\0\x01" + wire.properties(v, {})
                                                           + wire.text("a")), MALFORMED, v5="3.8.3-2", v3="3.8.3-3"),
    case("subscription QoS 3", lambda v: wire.subscribe(v, 1, [("a", 3)]), EITHER, v5="4.13.1-1", v3="3.8.3-4"),
    case("reserved bit 7 of options", lambda v: wire.subscribe(v, 1, [("a", 0x80)]), MALFORMED, v5="3.8.3-5",
         v3="3.8.3-4"),
    case("reserved bit 6 of options", lambda v: wire.subscribe(v, 1, [("a", 0x40)]), MALFORMED, v5="3.8.3-5",
         v3="3.8.3-4"),
    case("reserved bits of the second options", lambda v: wire.subscribe(v, 1, [("a", 0), ("b", 0xC1)]), MALFORMED,
         v5="3.8.3-5", v3="3.8.3-4"),
    case("UNSUBSCRIBE without a filter", lambda v: wire.unsubscribe(v, 1, []), EITHER, v5="3.10.3-2", v3="3.10.3-2"),
    case("UNSUBSCRIBE with identifier 0", lambda v: wire.unsubscribe(v, 0, ["a"]), EITHER, v5="4.13.1-1", v3="2.3.1-1"),
    case("UNSUBSCRIBE of half a filter", lambda v: wire.packet(wire.UNSUBSCRIBE, 2, b"\0\x01" + wire.properties(v, {})
                                                               + b"\0\x05ab"), MALFORMED, v5="3.10.3-1", v3="3.10.3-1"),
    # --- bodies where there is none ---
    case("PINGREQ with a body", lambda v: b"\xc0\x01\0", MALFORMED, v5="4.13.1-1", v3="4.8.0-1"),
]

# What only 3.x refuses.
ONLY_3 = [
    case("options of 5.0 in 3.1.1", lambda v: wire.subscribe(v, 1, [("a", 4)]), None, v3="3.8.3-4"),
    case("retain handling in 3.1.1", lambda v: wire.subscribe(v, 1, [("a", 0x10)]), None, v3="3.8.3-4"),
    case("a reason code in PUBACK of 3.1.1", lambda v: b"\x40\x03\0\x01\0", None, v3="4.8.0-1"),
    case("a body in DISCONNECT of 3.1.1", lambda v: b"\xe0\x01\0", None, v3="4.8.0-1"),
    case("AUTH in 3.1.1", lambda v: wire.auth(), None, v3="4.8.0-1"),
]


def pub(props, topic="a", qos=0, ident=None):
    return lambda v: wire.publish(V5, topic, b"", qos, ident, props=props)


def raw(*numbers):
    return bytes(numbers)


TWICE = {"payload_format": [0, 0], "message_expiry": [1, 1], "content_type": ["a", "a"], "response_topic": ["a", "a"],
         "correlation_data": [b"a", b"a"], "topic_alias": [1, 1]}

ONLY_5 = [
    # --- variable byte integers ---
    case("remaining length in two bytes for one", lambda v: b"\xc0\x80\0", MALFORMED, v5="1.5.5-1"),
    case("property length in two bytes for one", lambda v: wire.packet(wire.PUBLISH, 0, b"\0\x01a\x80\0"), MALFORMED,
         v5="1.5.5-1"),
    case("property length of five bytes", lambda v: wire.packet(wire.PUBLISH, 0, b"\0\x01a\x80\x80\x80\x80\x01"), MALFORMED,
         v5="1.5.5-1 4.13.1-1"),
    case("subscription identifier in two bytes for one",
         lambda v: wire.subscribe(V5, 1, [("a", 0)], props=raw(0x0B, 0x81, 0)), MALFORMED, v5="1.5.5-1"),
    # --- property lengths ---
    case("no property length in PUBLISH", lambda v: wire.packet(wire.PUBLISH, 0, b"\0\x01a"), MALFORMED, v5="2.2.2-1"),
    case("no property length in SUBSCRIBE", lambda v: wire.packet(wire.SUBSCRIBE, 2, b"\0\x01"), EITHER, v5="2.2.2-1"),
    case("property length beyond the packet", lambda v: wire.packet(wire.PUBLISH, 0, b"\0\x01a\x05\x01\0"), MALFORMED,
         v5="4.13.1-1"),
    case("property that ends within its value", pub(raw(0x02, 0, 0)), MALFORMED, v5="4.13.1-1"),
    case("string property longer than the properties", pub(raw(0x03, 0, 9, 65)), MALFORMED, v5="4.13.1-1"),
    # --- unknown, misplaced, repeated, impossible properties ---
    case("property 0", pub(raw(0x00, 0)), MALFORMED, v5="4.13.1-1"),
    case("property that does not exist", pub(raw(0x7F, 0)), MALFORMED, v5="4.13.1-1"),
    case("property number of two bytes", pub(raw(0x81, 0x01, 0)), MALFORMED, v5="4.13.1-1"),
    case("session expiry in PUBLISH", pub({"session_expiry": 1}), EITHER, v5="4.13.1-1"),
    case("will delay in PUBLISH", pub({"will_delay": 1}), EITHER, v5="4.13.1-1"),
    case("reason string in PUBLISH", pub({"reason_string": "a"}), EITHER, v5="4.13.1-1"),
    case("message expiry in SUBSCRIBE", lambda v: wire.subscribe(V5, 1, [("a", 0)], props={"message_expiry": 1}), EITHER,
         v5="4.13.1-1"),
    case("subscription identifier in UNSUBSCRIBE", lambda v: wire.unsubscribe(V5, 1, ["a"], props={"subscription_id": 1}),
         EITHER, v5="4.13.1-1"),
    case("topic alias in PUBACK", lambda v: wire.ack(V5, wire.PUBACK, 1, props={"topic_alias": 1}), EITHER,
         v5="4.13.1-1"),
    case("payload format 2", pub({"payload_format": 2}), EITHER, v5="4.13.1-1"),
    case("subscription identifier in a client's PUBLISH", pub({"subscription_id": 1}), PROTOCOL, v5="3.3.4-6"),
    case("subscription identifier 0", lambda v: wire.subscribe(V5, 1, [("a", 0)], props={"subscription_id": 0}), PROTOCOL,
         v5="4.13.1-1"),
    case("two subscription identifiers", lambda v: wire.subscribe(V5, 1, [("a", 0)], props={"subscription_id": [1, 2]}),
         PROTOCOL, v5="4.13.1-1"),
    case("response topic with a wildcard", pub({"response_topic": "a/+"}), PROTOCOL, v5="3.3.2-14"),
    case("response topic with #", pub({"response_topic": "#"}), PROTOCOL, v5="3.3.2-14"),
    case("topic alias 0", pub({"topic_alias": 0}), (0x94,), v5="3.3.2-8"),
    # --- options, codes ---
    case("retain handling 3", lambda v: wire.subscribe(V5, 1, [("a", 0x30)]), PROTOCOL, v5="4.13.1-1"),
    case("no local on a shared subscription", lambda v: wire.subscribe(V5, 1, [("$share/g/a", 4)]), PROTOCOL, v5="3.8.3-4"),
    case("unknown reason in PUBACK", lambda v: wire.ack(V5, wire.PUBACK, 1, 0x42), EITHER, v5="4.13.1-1"),
    case("unknown reason in PUBREL", lambda v: wire.ack(V5, wire.PUBREL, 1, 0x91), EITHER, v5="4.13.1-1"),
    case("unknown reason in DISCONNECT", lambda v: wire.disconnect(V5, 0x42), EITHER, v5="4.13.1-1"),
    case("server's reason in DISCONNECT", lambda v: wire.disconnect(V5, 0x8E), EITHER, v5="4.13.1-1"),
    case("bytes behind PUBACK", lambda v: wire.packet(wire.PUBACK, 0, b"\0\x01\0\0\0"), MALFORMED, v5="4.13.1-1"),
    case("bytes behind DISCONNECT", lambda v: b"\xe0\x03\0\0\0", MALFORMED, v5="4.13.1-1"),
    case("flags of AUTH", lambda v: wire.auth(flags=2), MALFORMED, v5="3.15.1-1"),
    case("AUTH where CONNECT had no method", lambda v: wire.auth(0x18, {"auth_method": "m"}), PROTOCOL, v5="4.13.1-1"),
] + [(f"{name} twice", pub({name: value}), PROTOCOL) for name, value in TWICE.items()]


def judge(broker, v, name, make, reasons):
    client = broker.connect(v)
    client.send(make(v))
    packets = client.rest()
    if v < V5:
        assert packets == [], f"{name}: {packets}"
        return
    told = [(p.kind, p.reason) for p in packets]
    assert len(told) == 1 and told[0][0] == wire.DISCONNECT, f"{name}: {packets}"
    assert told[0][1] in reasons, f"{name}: reason {told[0][1]:#x}, expected one of {[hex(r) for r in reasons]}"


def run(broker, v, rows):
    wrong = []
    for row in rows:
        try:
            judge(broker, v, *row)
        except AssertionError as e:
            wrong.append(str(e).split("\n")[0])
            wrong[-1] = wrong[-1] if row[0] in wrong[-1] else f"{row[0]}: {wrong[-1]}"
    assert not wrong, "\n".join([f"{len(wrong)} of {len(rows)}:"] + wrong)


@pytest.mark.core
@pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
@shows(v5="4.13.1-1 4.13.2-1 3.14.2-1 3.14.2-2", v3="4.8.0-1")
def test_packets_that_both_versions_refuse(broker, v):
    run(broker, v, BOTH)


@shows(v3="4.8.0-1")
def test_packets_that_3_refuses(broker):
    run(broker, V311, ONLY_3)


@pytest.mark.core
@shows(v5="4.13.1-1 3.14.2-1 3.14.4-2")
def test_packets_that_5_refuses(broker):
    run(broker, V5, ONLY_5)


CONNECT_PROPERTIES = [
    ("session expiry twice", {"session_expiry": [1, 1]}, PROTOCOL),
    ("receive maximum 0", {"receive_max": 0}, PROTOCOL),
    ("receive maximum twice", {"receive_max": [1, 2]}, PROTOCOL),
    ("packet size maximum 0", {"packet_size_max": 0}, PROTOCOL),
    ("packet size maximum twice", {"packet_size_max": [100, 100]}, PROTOCOL),
    ("alias maximum twice", {"topic_alias_max": [0, 0]}, PROTOCOL),
    ("request problem information 2", {"request_problem_info": 2}, PROTOCOL),
    ("request response information 2", {"request_response_info": 2}, PROTOCOL),
    ("request problem information twice", {"request_problem_info": [1, 1]}, PROTOCOL),
    ("authentication data without a method", {"auth_data": b"x"}, PROTOCOL),
    ("authentication method twice", {"auth_method": ["m", "m"]}, PROTOCOL),
    ("will delay in CONNECT", {"will_delay": 1}, EITHER),
    ("message expiry in CONNECT", {"message_expiry": 1}, EITHER),
    ("assigned client id in CONNECT", {"assigned_client_id": "x"}, EITHER),
    ("server keep alive in CONNECT", {"server_keep_alive": 1}, EITHER),
    ("unknown property", b"\x7e\0", MALFORMED),
    ("half a property", b"\x11\0\0", MALFORMED),
]
WILL_PROPERTIES = [
    ("will delay twice", {"will_delay": [1, 1]}, PROTOCOL),
    ("payload format 2 in a will", {"payload_format": 2}, EITHER),
    ("session expiry in a will", {"session_expiry": 1}, EITHER),
    ("topic alias in a will", {"topic_alias": 1}, EITHER),
    ("response topic with a wildcard in a will", {"response_topic": "#"}, EITHER),
    ("unknown property in a will", b"\x7e\0", MALFORMED),
]


@shows(v5="3.1.4-1 3.2.2-6 3.2.2-7 3.2.2-8 3.14.0-1 4.13.2-1")
def test_connect_properties_that_are_refused(broker):
    """Refused with a CONNACK of that reason, or none, and never with a DISCONNECT."""
    wrong = []
    for rows, in_will in ((CONNECT_PROPERTIES, False), (WILL_PROPERTIES, True)):
        for name, props, reasons in rows:
            client = broker.raw(V5)
            client.send(wire.connect(V5, broker.name(), props=None if in_will else props,
                                     will=wire.Will("t", props=props) if in_will else None))
            packets = client.rest()
            if packets and ([p.kind for p in packets] != [wire.CONNACK] or packets[0].reason not in reasons):
                wrong.append(f"{name}: {packets[0]} {packets[0].reason:#x}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
def test_a_connection_that_ends_within_a_packet(broker, v):
    """Cut off at every length: no answer is owed, nothing is delivered, and the broker goes on."""
    watcher = broker.connect(v).watch()
    watcher.subscribe(broker.name("t"))
    whole = wire.publish(v, broker.name("t"), b"payload", 1, 5)
    for cut in range(1, len(whole)):
        client = broker.connect(v)
        client.send(whole[:cut])
        client.drop()
    watcher.nothing_before(broker.connect(v))


@pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])
def test_packets_cut_anywhere_are_the_same_packets(broker, v):
    topic = broker.name("t")
    client = broker.connect(v)
    client.subscribe(topic, qos=1)
    stream = wire.publish(v, topic, b"one", 1, 5) + wire.PING + wire.publish(v, topic, b"two", 0)
    for cut in range(1, len(stream)):
        client.send(stream[:cut])
        client.send(stream[cut:])
        seen = {wire.PUBLISH: [], wire.PUBACK: 0, wire.PINGRESP: 0}
        for _ in range(4):
            it = client.recv()
            if it.kind == wire.PUBLISH:
                seen[it.kind].append(it.payload)
                client.answer(it)
            else:
                seen[it.kind] += 1
        assert seen == {wire.PUBLISH: [b"one", b"two"], wire.PUBACK: 1, wire.PINGRESP: 1}


