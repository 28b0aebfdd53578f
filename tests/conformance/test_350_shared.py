# SPDX-License-Identifier: Apache-2.0
"""Shared subscriptions: one member for each message, and what happens when members come and go."""
import pytest
from harness.wait import until
from mqtt import wire
from mqtt.statements import shows
from mqtt.wire import V5, V311


def members(broker, count, text="t", group="g", qos=2, first=0, **more):
    made = [broker.connect(V5, f"{broker.name()}-{group}-{i}", **more) for i in range(first, first + count)]
    for client in made:
        client.watch()
        assert client.subscribe((f"$share/{broker.name()}{group}/{broker.name(text)}", qos)) == [qos]
    return made


def who_has_it(one, two):
    """Of two members the one that a message has come to, and the other one."""
    def look():
        return (one, two) if not one.is_quiet(0.02) else (two, one) if not two.is_quiet(0.02) else None
    return until(look, "one of them has it")


def share_out(clients, publisher, qos=0):
    return [[m.payload for m in c.messages_before(publisher, qos)] for c in clients]


@pytest.mark.core
@pytest.mark.parametrize("qos", [0, 1, 2])
@shows(v5="4.8.2-1 4.8.2-2 4.8.2-3")
def test_each_message_goes_to_one_member_of_each_group(broker, qos):
    one, two = members(broker, 3, group="one"), members(broker, 2, group="two")
    alone, publisher = broker.connect(V5).watch(), broker.connect(V5)
    alone.subscribe(broker.name("t"), qos=2)
    sent = [b"%d" % i for i in range(60)]
    for payload in sent:
        publisher.publish(broker.name("t"), payload, qos)
    for group in (one, two):
        shares = share_out(group, publisher, qos)
        assert sorted(sum(shares, [])) == sorted(sent)
        assert all(shares), f"a member got nothing: {[len(s) for s in shares]}"
        # Each member sees its messages in order.
        assert all(s == sorted(s, key=int) for s in shares)
    assert [m.payload for m in alone.messages_before(publisher, qos)] == sent


@shows(v5="4.8.2-3 3.8.4-8")
def test_the_granted_qos_of_the_member_counts(broker):
    publisher = broker.connect(V5)
    for granted in (0, 1, 2):
        (member,) = members(broker, 1, text=f"t{granted}", group=f"q{granted}", qos=granted)
        for published in (0, 1, 2):
            publisher.publish(broker.name(f"t{granted}"), b"x", published)
            member.message(qos=min(granted, published))


@shows(v5="4.8.2-1 3.10.4-1")
def test_shared_and_plain_subscriptions_are_different(broker):
    (member,) = members(broker, 1)
    member.subscribe(broker.name("t"), qos=0)
    publisher = broker.connect(V5)
    publisher.publish(broker.name("t"), b"x", 1)
    assert sorted(m.qos for m in member.messages_before(publisher)) == [0, 1]
    assert member.unsubscribe(broker.name("t")) == [0]
    publisher.publish(broker.name("t"), b"y", 1)
    assert [m.payload for m in member.messages_before(publisher)] == [b"y"]
    assert member.unsubscribe(f"$share/{broker.name()}other/{broker.name('t')}") == [0x11]
    assert member.unsubscribe(f"$share/{broker.name()}g/{broker.name('t')}") == [0]
    publisher.publish(broker.name("t"), b"z", 1)
    member.nothing_before(publisher)


@shows(v5="3.8.4-3")
def test_subscribing_again_does_not_take_two_shares(broker):
    first, second = members(broker, 2)
    for _ in range(3):
        first.subscribe((f"$share/{broker.name()}g/{broker.name('t')}", 1))
    publisher = broker.connect(V5)
    for i in range(20):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
    shares = share_out((first, second), publisher, 1)
    assert sorted(sum(shares, []), key=int) == [b"%d" % i for i in range(20)]


def test_no_retained_messages_for_shared_subscriptions(broker):
    publisher = broker.connect(V5)
    publisher.publish(broker.name("t"), b"x", 1, retain=True)
    (member,) = members(broker, 1)
    assert member.is_quiet(0.2)
    publisher.publish(broker.name("t"), b"", 1, retain=True)


@pytest.mark.core
@pytest.mark.parametrize("text", ["#", "+/x", "a/+/#"])
@shows(v5="4.8.2-2 3.3.2-3")
def test_shared_filters_with_wildcards(broker, text):
    (member,) = members(broker, 1, text=text)
    publisher = broker.connect(V5)
    publisher.publish(broker.name("a/x"), b"in")
    assert [m.topic for m in member.messages_before(publisher)] == [broker.name("a/x")]


@pytest.mark.core
@shows(v5="4.5.0-1")
def test_a_member_that_leaves_gets_no_more(broker):
    """However it leaves: by UNSUBSCRIBE, DISCONNECT, or a cut of the line, with its session kept or not."""
    stays, unsubscribes, says_bye, drops = members(broker, 4, props={"session_expiry": 100})
    publisher = broker.connect(V5)
    unsubscribes.unsubscribe(f"$share/{broker.name()}g/{broker.name('t')}")
    says_bye.bye(props={"session_expiry": 0})
    drops.drop()
    if broker.gateway:
        drops_is_gone(broker)
    for i in range(30):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
    # An absent member's share is not left with it while another is there.
    assert len(stays.messages_before(publisher, 1)) == 30
    unsubscribes.nothing_before(publisher, 1)


def drops_is_gone(broker):
    open_now = {c.sock.getsockname()[1] for c in type(broker.connect(V5)).everyone if c.sock.fileno() >= 0}
    until(lambda: all(int(c["peer"].rsplit(":", 1)[1]) in open_now for c in broker.gateway.conns()),
          "the gateway has seen the cut")


@shows(v5="4.5.0-1 3.1.2-23")
def test_messages_wait_when_all_members_are_away(broker):
    one, two = members(broker, 2, props={"session_expiry": 100})
    one.bye()
    two.bye()
    publisher = broker.connect(V5)
    for i in range(10):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
    got = []
    for i in range(2):
        client = broker.connect(V5, f"{broker.name()}-g-{i}", clean=False)
        got += [m.payload for m in client.messages_before(publisher, 1)]
    assert sorted(got, key=int) == [b"%d" % i for i in range(10)]


@shows(v5="4.8.2-4")
def test_a_qos_2_message_begun_with_a_member_is_completed_with_it(broker):
    one, two = members(broker, 2, props={"session_expiry": 100})
    publisher = broker.connect(V5)
    publisher.publish(broker.name("t"), b"x", 2)
    # Whoever has it has begun; it goes away without an answer.
    has, other = who_has_it(one, two)
    message = has.message(answer=False, payload=b"x", qos=2)
    has.drop()
    assert other.is_quiet(0.3)
    back = broker.connect(V5, has.id, clean=False)
    back.message(payload=b"x", ident=message.ident, dup=True, qos=2)
    back.ping()
    other.ping()


@shows(v5="4.8.2-5")
def test_a_qos_2_message_begun_with_a_member_goes_to_no_other(broker):
    one, two = members(broker, 2, props={"session_expiry": 1})
    publisher = broker.connect(V5)
    publisher.publish(broker.name("t"), b"x", 2)
    has, other = who_has_it(one, two)
    has.message(answer=False, payload=b"x", qos=2)
    has.drop()
    # Its session ends, and the message with it.
    assert other.is_quiet(2.5)
    other.ping()


@pytest.mark.parametrize("kind,qos", [(wire.PUBACK, 1), (wire.PUBREC, 2)], ids=["puback", "pubrec"])
@shows(v5="4.8.2-6")
def test_a_message_that_its_member_refuses_is_discarded(broker, kind, qos):
    one, two = members(broker, 2)
    publisher = broker.connect(V5)
    publisher.publish(broker.name("t"), b"x", qos)
    has, other = who_has_it(one, two)
    message = has.message(answer=False, payload=b"x", qos=qos)
    has.ack(kind, message.ident, 0x97)
    has.ping()
    assert other.is_quiet(0.2)
    # And the group works on.
    publisher.publish(broker.name("t"), b"y", qos)
    assert sum(share_out((one, two), publisher, qos), []) == [b"y"]


@shows(v5="4.8.2-3")
def test_a_member_whose_window_is_full_is_passed_over(broker):
    (full,), (free,) = members(broker, 1, props={"receive_max": 1}), members(broker, 1, first=1)
    publisher, got = broker.connect(V5), []
    for i in range(12):
        publisher.publish(broker.name("t"), b"%d" % i, 1)
        got += [m.payload for m in free.messages_before(publisher, 1)]
    # One message is held and not answered; nothing is lost when it is answered at last.
    held = full.message(answer=False)
    assert got == [b"%d" % i for i in range(12) if b"%d" % i != held.payload]
    full.answer(held)
    full.ping()


def test_shared_filters_in_3(broker):
    """3.1.1 does not know them: what is allowed is to serve them, or to take the text as a plain filter."""
    client = broker.connect(V311)
    assert client.subscribe((f"$share/{broker.name()}/t", 1))[0] in (1, 0x80)


@shows(v5="3.3.4-3")
def test_subscription_identifiers_of_shared_subscriptions(broker):
    client = broker.connect(V5).watch()
    client.subscribe((f"$share/{broker.name()}/{broker.name('t')}", 0), props={"subscription_id": 7})
    client.subscribe((broker.name("t"), 0), props={"subscription_id": 8})
    client.publish(broker.name("t"), b"x")
    got = [i for m in client.messages_before(client) for i in m.props["subscription_id"]]
    assert sorted(got) == [7, 8]
