# SPDX-License-Identifier: Apache-2.0
"""Topic names and filters: which filter matches which name, and which are refused."""
import pytest
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311

both = pytest.mark.parametrize("v", [V311, V5], ids=["v3", "v5"])

# filter: (names it matches, names it does not match)
MATCHES = {
    "sport/tennis/#": (["sport/tennis", "sport/tennis/x", "sport/tennis/x/y", "sport/tennis/"], ["sport", "sport/tennisx"]),
    "sport/#": (["sport", "sport/", "sport//", "sport/a/b/c/d/e/f/g"], ["Sport/a", "sports", "/sport"]),
    "sport/+": (["sport/", "sport/a"], ["sport", "sport/a/b", "sport/a/"]),
    "+/tennis/#": (["a/tennis", "/tennis", "a/tennis/b"], ["tennis", "a/b/tennis"]),
    "sport/+/player1": (["sport/a/player1", "sport//player1"], ["sport/player1", "sport/a/b/player1"]),
    "+": (["a", "x y"], ["/a", "a/", "a/b"]),
    "/+": (["/a", "/"], ["a", "a/b", "/a/b"]),
    "+/+": (["a/b", "/a", "a/", "/"], ["a", "a/b/c"]),
    "a/+/#": (["a/b", "a/", "a/b/c/d"], ["a", "b/c"]),
    "+/+/+/#": (["a/b/c", "//", "a/b/c/d/e"], ["a/b", "a"]),
    "/": (["/"], ["", "//", "a/"]),
    "a//b": (["a//b"], ["a/b", "a/x/b"]),
    "a/$x/+": (["a/$x/y"], ["a/x/y"]),
    "#": (["a", "a/b/c", "/", "a/$x"], []),
}


@pytest.mark.core
@both
@pytest.mark.parametrize("text", list(MATCHES), ids=lambda t: t.replace("/", "|"))
@shows(v5="3.3.2-3 4.7.1-1 4.7.1-2", v3="3.3.2-3 4.7.1-2 4.7.1-3")
def test_filters_match_as_they_should(broker, v, text):
    """The names of this test are told apart from others by their payload, as a name of its own in front would
    change what is tested."""
    client, mark = broker.connect(v), broker.name().encode()
    client.watch()
    client.subscribe(text)
    good, bad = MATCHES[text]
    for names, expected in ((good, True), (bad, False)):
        for name in filter(None, names):
            client.publish(name, mark)
            got = [m for m in client.messages_before(client) if m.payload == mark]
            assert bool(got) == expected, (text, name, got)
            assert all(m.topic == name for m in got)


@pytest.mark.core
@both
@shows(v5="4.7.2-1", v3="4.7.2-1")
def test_wildcards_do_not_match_what_begins_with_a_dollar(broker, v):
    client, other = broker.connect(v).watch(), broker.connect(v).watch()
    client.subscribe(("#", 0), ("+/#", 0), ("+/x", 0), ("+", 0))
    other.subscribe(("$own/#", 0), ("$own/+", 1), ("$alone", 0))
    mark = broker.name().encode()
    for name in ("$own/x", "$own", "$alone", "$"):
        client.publish(name, mark)
        assert not [m for m in client.messages_before(client) if m.payload == mark or m.topic.startswith("$")], name
    got = {m.topic for m in other.messages_before(client) if m.payload == mark}
    # Whether clients may publish there is the broker's affair; if so, the exact filters match.
    assert got in (set(), {"$own/x", "$own", "$alone"})


@both
@shows(v5="4.7.2-1", v3="4.7.2-1")
def test_wildcards_do_not_match_sys_topics(broker, v):
    """Retained or not."""
    client = broker.connect(v).watch()
    client.subscribe(("#", 0), ("+/broker/#", 0), ("+/+/uptime", 0))
    assert not [m for m in client.messages_before(client) if m.topic.startswith("$")]


BAD_FILTERS = ["", "a/#/b", "#/", "#a", "a#", "a/b#", "a/#b", "##", "+a", "a+", "a/+b", "a/b+/c", "++", "a/++", "#+", "+#"]


@both
@shows(v5="4.7.1-1 4.7.1-2 4.7.3-1 3.8.4-7", v3="4.7.1-2 4.7.1-3 4.7.3-1")
def test_bad_filters_are_refused(broker, v):
    """In the SUBACK or by the end of the connection; they are never in force."""
    wrong = []
    for bad in BAD_FILTERS:
        client = broker.connect(v)
        client.send(wire.subscribe(v, 5, [(bad, 0)]))
        packets = [client.recv()] if v == V5 else None
        if v < V5:
            client.send(wire.PING)
            try:
                packets = [client.recv()]
            except AssertionError:
                packets = []
        told = [(p.kind, p.reason if p.kind == wire.DISCONNECT else p.reasons) for p in packets]
        if told not in ([], [(wire.SUBACK, [0x8F])], [(wire.SUBACK, [0x80])], [(wire.DISCONNECT, 0x8F)],
                        [(wire.DISCONNECT, 0x81)], [(wire.DISCONNECT, 0x82)]):
            wrong.append(f"{bad!r}: {packets}")
    assert not wrong, "\n".join(wrong)


@both
def test_bad_filters_in_unsubscribe(broker, v):
    """They can not be held, so nothing is deleted; or they are an error."""
    for bad in ("a/#/b", "+a"):
        client = broker.connect(v)
        client.send(wire.unsubscribe(v, 5, [bad]), wire.PING)
        try:
            it = client.recv()
        except AssertionError:
            continue
        if it.kind == wire.UNSUBACK:
            assert v < V5 or it.reasons[0] in (0x11, 0x8F, 0x80), it
        else:
            assert it.kind == wire.DISCONNECT and it.reason in (0x81, 0x82, 0x8F), it


BAD_SHARES = ["$share", "$share/", "$share//a", "$share/g", "$share/g/", "$share/g+/a", "$share/+/a", "$share/#/a", "$share/#",
              "$share/a#/b", "$share/g/a/#/b", "$share/g/a+"]


@shows(v5="4.8.2-1 4.8.2-2")
def test_bad_shared_filters_are_refused(broker):
    wrong = []
    for bad in BAD_SHARES:
        client = broker.connect(V5)
        client.send(wire.subscribe(V5, 5, [(bad, 0)]))
        it = client.recv()
        told = (it.kind, it.reason if it.kind == wire.DISCONNECT else it.reasons)
        allowed = [(wire.SUBACK, [0x8F]), (wire.SUBACK, [0x80]), (wire.DISCONNECT, 0x8F), (wire.DISCONNECT, 0x81),
                   (wire.DISCONNECT, 0x82)]
        # "$share" alone is a filter like others, of one level.
        if told not in allowed and not (bad == "$share" and told == (wire.SUBACK, [0])):
            wrong.append(f"{bad!r}: {it}")
    assert not wrong, "\n".join(wrong)


@both
def test_deep_and_wide_topics(broker, v):
    """Many levels, long levels, many subscriptions on one way through the levels."""
    client = broker.connect(v).watch()
    levels = [f"l{i}" for i in range(30)]
    deep = broker.name("/".join(levels))
    filters = [broker.name("/".join(levels[:i] + ["#"])) for i in range(0, 30, 3)]
    client.subscribe(*[(f, 0) for f in filters], (deep, 0), (broker.name("/".join(["+"] * 30)), 0))
    client.publish(deep, b"x")
    assert client.messages_before(client)
    client.unsubscribe(*filters, deep)
    client.publish(deep, b"y")
    assert [m.payload for m in client.messages_before(client)] == [b"y"]
    client.publish(deep + "/more", b"z")
    client.nothing_before(client)


@both
def test_topics_with_more_levels_than_the_broker_takes(broker, v):
    """Taken or refused, but never half."""
    client = broker.connect(v)
    many = broker.name("/".join("x" * 200))
    client.send(wire.subscribe(v, 1, [(many, 0)]), wire.publish(v, many, b"x"), wire.PING)
    seen = []
    try:
        while not seen or seen[-1].kind != wire.PINGRESP:
            seen.append(client.recv())
    except AssertionError:
        return
    assert seen[0].kind in (wire.SUBACK, wire.DISCONNECT), seen
    if seen[0].kind == wire.SUBACK:
        assert [p.kind for p in seen[1:]] == ([wire.PUBLISH] if seen[0].reasons == [0] else []) + [wire.PINGRESP], seen
