# SPDX-License-Identifier: Apache-2.0
"""Streams: what is published under a stream's filters is kept and read back, over HTTP and over MQTT, by offset and by
time, after kill -9 too; retention, named consumers, shared consumption, reload. On every engine, with 1 and 2 workers."""
import collections
import datetime
import json
import subprocess
import threading
import time

import pytest

from harness import engines, http
from harness.streams import (LISTENERS, client, expect_count, payloads_of, publish_all, read, read_to_end,
                             stream_gateway, subscribe, take)
from harness.wait import until
from mqtt import wire
from mqtt.client import V311

# Every engine; those that are chosen by themselves with one worker too.
ENGINES = [(e, w) for e in engines.selected() for w in ((1, 2) if e in ("uring", "epoll-et") else (2,))]
FEW = [(e, 2) for e in engines.selected() if e in ("uring", "epoll-et")]
STREAMS = {
    "all": {"topics": ["s/#"]},
    "some": {"topics": ["s/+/up", "exact"]},
    "quick": {"topics": ["quick/#"], "sync": "interval"},
}


def setups(list_):
    return pytest.mark.parametrize("setup", list_, ids=[f"{e}-{w}w" for e, w in list_])


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}-{p[1]}w")
def gateway(request, sluice):
    engine, workers = request.param
    engines.need(engine)
    listeners = {**LISTENERS, "denying": {"protocol": "mqtt", "bind": "127.0.0.1:0",
                                          "deny_subscribe": ["$stream/some"]}}
    with stream_gateway(sluice, engine, workers, STREAMS, listeners=listeners) as running:
        yield running


def in_order(messages):
    """Offsets of each partition are dense, and messages are merged by time."""
    last, seen = 0, {}
    for m in messages:
        expected = seen.get(m["partition"])
        assert expected is None or m["offset"] == expected, m
        seen[m["partition"]] = m["offset"] + 1
        assert m["time_ms"] >= last or len(seen) > 1, m
        last = m["time_ms"]


def restart_killed(gateway):
    gateway.process.kill()
    gateway.process.wait()
    gateway.forget_addresses()
    gateway.start()


# --- what is kept ---

def test_published_messages_are_read_back(gateway):
    sent = [f"m{i}" for i in range(300)]
    before = len(read_to_end(gateway, "all"))
    publish_all(gateway, "s/a/up", [p.encode() for p in sent], qos=1, clients=5)
    for name in ("all", "some"):
        messages = expect_count(gateway, name, 300)
        in_order(messages)
    messages = read_to_end(gateway, "all")[before:]
    assert sorted(m["payload"] for m in messages) == sorted(sent)
    assert {m["topic"] for m in messages} == {"s/a/up"} and {m["qos"] for m in messages} == {1}
    # Each publisher's own are in its order.
    for first in range(5):
        own = [m["payload"] for m in messages if m["payload"] in sent[first::5]]
        assert own == sent[first::5]


def test_filters_and_qos(gateway):
    before = {name: len(read_to_end(gateway, name)) for name in STREAMS}
    with client(gateway) as c:
        for qos in (0, 1, 2):
            c.publish("exact", b"q%d" % qos, qos)
            c.publish("s/down", b"only all", qos)
            c.publish("elsewhere", b"nowhere", qos)
            c.publish("quick/x", b"quick", qos)
        c.bye()
    assert [m["payload"] for m in expect_count(gateway, "some", before["some"] + 3)[before["some"]:]] == ["q0", "q1", "q2"]
    assert len(expect_count(gateway, "all", before["all"] + 3)) == before["all"] + 3
    assert len(expect_count(gateway, "quick", before["quick"] + 3)) == before["quick"] + 3


def test_payloads_and_properties(gateway):
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    props = {"content_type": "text/plain", "response_topic": "r", "correlation_data": b"\x00\xff",
             "user_property": [("a", "1"), ("a", "2")]}
    with client(gateway) as c:
        for payload in (b"", "gr\u00fc\u00df\n\u0001".encode(), b"\x00", b"\xff\xfe", b"x" * 100000, b"\x01" * 100000):
            c.publish("s/p", payload, 1, props=props)
        c.bye()
    messages = read_to_end(gateway, "all", start)
    assert [m.get("payload", m.get("payload_base64")) for m in messages][:4] == ["", "gr\u00fc\u00df\n\u0001", "AA==", "//4="]
    assert messages[4]["payload"] == "x" * 100000 and messages[5]["payload"] == "\u0001" * 100000
    m = messages[0]
    assert (m["content_type"], m["response_topic"], m["correlation_base64"]) == ("text/plain", "r", "AP8=")
    assert [(p["name"], p["value"]) for p in m["user_properties"]] == [("a", "1"), ("a", "2")]


# --- reading over HTTP ---

def test_from_offset_time_and_place(gateway):
    first = read_to_end(gateway, "all")
    publish_all(gateway, "s/t", [b"old"], clients=1)
    mark = expect_count(gateway, "all", len(first) + 1)[-1]
    time.sleep(0.03)
    moment = time.time()
    time.sleep(0.03)
    publish_all(gateway, "s/t", [b"new1", b"new2"], clients=1)
    expect_count(gateway, "all", len(first) + 3)
    stamp = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for start in (f"@{moment:.3f}", stamp):
        assert read(gateway, "all", **{"from": start}).payloads() == ["new1", "new2"]
    back = read(gateway, "all", **{"from": mark["offset"], "partition": mark["partition"]})
    assert back.messages[0] == mark
    assert read(gateway, "all", **{"from": "-1ms"}).last["end"]
    assert len(read_to_end(gateway, "all", "-1h")) == len(first) + 3
    assert read(gateway, "all", **{"from": "latest"}).messages == []


def test_pages_go_on_where_they_ended(gateway):
    publish_all(gateway, "s/pages", [b"%d" % i for i in range(50)], clients=3)
    whole = expect_count(gateway, "all", 50)
    for limit in (1, 7, 1000):
        if limit == 1:
            where, got = "earliest", []
            for _ in range(10):
                answer = read(gateway, "all", **{"from": where, "limit": 1})
                assert len(answer.messages) == 1
                got += answer.messages
                where = answer.last["next"]
            assert got == whole[:10]
        else:
            assert read_to_end(gateway, "all", limit=limit) == whole


def test_a_long_poll_ends_with_the_first_message(gateway):
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    got = []
    reader = threading.Thread(target=lambda: got.append(read(gateway, "all", **{"from": start, "wait": "60s"})))
    reader.start()
    until(lambda: gateway.metric("sluice_admin_conns_open") >= 2, "the reader waits")
    publish_all(gateway, "s/poll", [b"here"])
    reader.join(30)
    assert not reader.is_alive() and got[0].payloads() == ["here"]
    # Nothing comes: the answer is empty, and says where to go on.
    answer = read(gateway, "all", **{"from": got[0].last["next"], "wait": "50ms"})
    assert answer.messages == [] and answer.last["next"] == got[0].last["next"] and answer.last["end"]


def test_follow_goes_on(gateway):
    sock = http.connect(gateway.settings["ctl_socket"])
    with sock, sock.makefile("rb") as stream:
        sock.sendall(b"GET /api/streams/all/messages?follow=1&from=latest HTTP/1.0\r\nHost: sluice\r\n\r\n")
        while stream.readline() != b"\r\n":
            pass
        for i in range(3):
            publish_all(gateway, "s/follow", [b"f%d" % i])
            assert json.loads(stream.readline())["payload"] == f"f{i}"


def test_wrong_questions(gateway):
    for query in ("from=soon", "limit=0", "limit=10001", "wait=5", "wait=1h", "follow=2", "partition=64", "x=1"):
        assert gateway.request(f"/api/streams/all/messages?{query}").status == 400, query
    assert gateway.request("/api/streams/all/messages?partition=63").status == 404
    for path in ("/api/streams/none", "/api/streams/none/messages", "/api/streams/all/other",
                 "/api/streams/all/messages/more"):
        assert gateway.request(path).status == 404, path
    assert gateway.request("/api/streams/all", "DELETE").status == 405
    assert gateway.request("/api/streams/all/consumers/nobody", "DELETE").status == 404


def test_streams_are_listed(gateway):
    publish_all(gateway, "s/list", [b"x" * 100], clients=1)
    rows = {s["name"]: s for s in gateway.api("/api/streams")["streams"]}
    assert set(rows) == set(STREAMS)
    row = rows["all"]
    assert row["topics"] == ["s/#"] and row["configured"] and row["sync"] == "commit"
    assert len(row["partitions"]) == gateway.workers
    assert row["messages"] == sum(p["next"] - p["first"] for p in row["partitions"]) > 0
    assert gateway.metric("sluice_stream_messages", stream="all") == row["messages"]
    one = gateway.api("/api/streams/all")
    assert one["consumers"] == [] or one["consumers"]


# --- reading over MQTT ---

def test_a_subscription_reads_and_goes_on_live(gateway):
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    publish_all(gateway, "s/live", [b"a", b"b"])
    expected = read_to_end(gateway, "all", start)
    with client(gateway) as c:
        assert subscribe(c, "all", start) == 1
        got = take(c, 2)
        for (payload, props, packet), m in zip(got, expected):
            assert (payload, packet.topic, packet.qos) == (m["payload"], "$stream/all", 1)
            assert props == {"sluice-offset": str(m["offset"]), "sluice-time": str(m["time_ms"]),
                             "sluice-partition": str(m["partition"]), "sluice-topic": "s/live"}
        publish_all(gateway, "s/live", [b"c"], clients=1)
        assert payloads_of(take(c, 1)) == ["c"]
        c.bye()


def test_from_says_where(gateway):
    publish_all(gateway, "s/from", [b"x"])
    count = len(expect_count(gateway, "all", 1))
    with client(gateway) as c:
        assert subscribe(c, "all", "earliest", qos=0) == 0
        assert len(take(c, count)) == count
        assert subscribe(c, "all", "-1h", qos=0) == 0  # replaces it
        assert len(take(c, count)) == count
        assert subscribe(c, "all") == 1  # latest
        c.ping()
        for start in ("", "soon", "0"):
            assert subscribe(c, "all", start) == 0x83, start
        assert subscribe(c, "none", "earliest") == 0x8F
        assert subscribe(c, "+", "earliest") == 0x8F
        assert subscribe(c, "#", "earliest") == 0x8F
        assert list(c.unsubscribe("$stream/all", "$stream/none")) == [0, 0x11]
        c.bye()


def test_an_older_client_reads_what_comes(gateway):
    with client(gateway, version=V311) as c:
        c.subscribe("$stream/all", qos=1)
        publish_all(gateway, "s/311", [b"plain"])
        packet = c.wait_for(wire.PUBLISH)
        assert (packet.topic, packet.payload) == ("$stream/all", b"plain")
        c.answer(packet)
        c.bye()


def test_what_is_denied(gateway):
    with client(gateway, listener="denying") as c:
        assert subscribe(c, "some", "earliest") == 0x87
        assert subscribe(c, "all", "latest") == 1
        assert c.publish("$stream/all", b"no", 1) == 0x87
        c.bye()
    assert gateway.request("/api/publish?topic=$stream/all", "POST", b"x").status == 400


def test_the_window_is_the_clients(gateway):
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    publish_all(gateway, "s/window", [b"%d" % i for i in range(20)], clients=1)
    with client(gateway, props={"receive_max": 3}) as c:
        assert subscribe(c, "all", start) == 1
        got = take(c, 3, answer=False)
        c.ping()  # three are on their way, and no more comes
        for _, _, packet in got:
            c.answer(packet)
        assert payloads_of(got) + payloads_of(take(c, 17)) == [str(i) for i in range(20)]
        c.bye()


# --- named consumers ---

def consumer_lag(gateway, name, consumer):
    return sum(c["lag"] for c in gateway.api(f"/api/streams/{name}")["consumers"] if c["name"] == consumer)


def test_a_consumer_goes_on_after_its_client(gateway):
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    publish_all(gateway, "s/cons", [b"%d" % i for i in range(10)], clients=1)
    with client(gateway) as c:
        assert subscribe(c, "all", start, consumer="c1") == 1
        assert payloads_of(take(c, 4)) == ["0", "1", "2", "3"]
        take(c, 2, answer=False)
        until(lambda: consumer_lag(gateway, "all", "c1") == 6, "four are acknowledged")
    with client(gateway) as c:
        assert subscribe(c, "all", "latest", consumer="c1") == 1  # its own place counts
        assert payloads_of(take(c, 6)) == ["4", "5", "6", "7", "8", "9"]
        until(lambda: consumer_lag(gateway, "all", "c1") == 0, "all are acknowledged")
        assert gateway.request("/api/streams/all/consumers/c1", "DELETE").status == 409
        c.bye()
    until(lambda: gateway.request("/api/streams/all/consumers/c1", "DELETE").status == 200, "it is forgotten")
    assert not [c for c in gateway.api("/api/streams/all")["consumers"] if c["name"] == "c1"]


def test_a_shared_consumer_gives_each_message_to_one(gateway):
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    sent = [str(i) for i in range(400)]
    members = [client(gateway) for _ in range(3)]
    for m in members:
        assert subscribe(m, "all", start, share="team") == 1
    publish_all(gateway, "s/share", [p.encode() for p in sent], clients=4)
    got = collections.Counter()
    deadline = time.monotonic() + 60
    while sum(got.values()) < len(sent) and time.monotonic() < deadline:
        for m in members:
            if m.early or m.buffer or not m.is_quiet(0.02):
                got.update(payloads_of(take(m, 1)))
    assert sorted(got) == sorted(sent) and set(got.values()) == {1}
    until(lambda: consumer_lag(gateway, "all", "team") == 0, "all are acknowledged")
    for m in members:
        m.bye()


def test_what_a_member_leaves_goes_to_another(gateway):
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    stays, goes = client(gateway), client(gateway)
    assert subscribe(goes, "all", start, share="pair") == 1
    publish_all(gateway, "s/pair", [b"%d" % i for i in range(30)], clients=1)
    assert len(take(goes, 30, answer=False)) == 30
    assert subscribe(stays, "all", start, share="pair") == 1
    stays.ping()
    goes.drop()
    assert sorted(payloads_of(take(stays, 30)), key=int) == [str(i) for i in range(30)]
    until(lambda: consumer_lag(gateway, "all", "pair") == 0, "all are acknowledged")
    stays.bye()


def test_a_durable_session_reads_as_well(gateway):
    """The answer of a SUBSCRIBE that changes nothing of the session waits for no commit."""
    start = read(gateway, "all", **{"from": "latest"}).last["next"]
    publish_all(gateway, "s/dur", [b"%d" % i for i in range(20)], clients=1)
    expiry = {"session_expiry": 60}
    with client(gateway, "durable", clean=False, props=expiry) as c:
        assert subscribe(c, "none", start) == 0x8F  # refused, and answered
        assert subscribe(c, "all", start, consumer="dur") == 1
        take(c, 5)
        take(c, 5, answer=False)
    with client(gateway, "durable", clean=False, props=expiry) as c:
        assert c.connack.session_present
        c.ping()  # what was on its way belongs to the stream: nothing is sent again before it is asked for
        assert subscribe(c, "all", start, consumer="dur") == 1
        assert payloads_of(take(c, 15)) == [str(i) for i in range(5, 20)]
        c.bye()


# --- restarts ---

def wait_written(gateway):
    """Nothing more is appended to the log: so many looks in a row say so, which a gateway that stands still does not answer."""
    seen = []

    def at_rest():
        seen.append((gateway.metric("sluice_store_records_total"), gateway.metric("sluice_store_commits_total")))
        return len(seen) > 8 and seen[-1] == seen[-9]
    until(at_rest, lambda: f"the log is at rest: {seen[-9:]}", poll_s=0.05)


@setups(ENGINES)
def test_killed_and_started_again(sluice, setup):
    engine, workers = setup
    engines.need(engine)
    with stream_gateway(sluice, engine, workers) as gateway:
        publish_all(gateway, "s/1", [b"%d" % i for i in range(200)], qos=1, clients=4)
        with client(gateway) as c:
            assert subscribe(c, "all", "earliest", consumer="keeps") == 1
            take(c, 50)
            until(lambda: consumer_lag(gateway, "all", "keeps") == 150, "fifty are acknowledged")
        before = read_to_end(gateway, "all")
        wait_written(gateway)  # the consumer's place is written a moment after it has moved
        restart_killed(gateway)
        assert read_to_end(gateway, "all") == before
        publish_all(gateway, "s/1", [b"more"], qos=2)
        after = expect_count(gateway, "all", 201)
        assert after[:200] == before and len(after) == 201
        in_order(after)
        with client(gateway) as c:
            assert subscribe(c, "all", "latest", consumer="keeps") == 1
            rest = payloads_of(take(c, 151))
            assert len(set(rest)) == 151 and "more" in rest
            c.bye()


@setups(FEW)
def test_another_number_of_workers(sluice, setup):
    engines.need(setup[0])
    gateway = stream_gateway(sluice, setup[0], 2)
    sent = [str(i) for i in range(60)]
    try:
        gateway.start()
        publish_all(gateway, "s/w", [p.encode() for p in sent], clients=8)
        gateway.stop()
        for workers in (1, 2, 3):
            gateway.workers = workers
            gateway.forget_addresses()
            gateway.start()
            messages = expect_count(gateway, "all", len(sent))
            in_order(messages)
            assert sorted(m["payload"] for m in messages) == sorted(sent)
            sent.append(f"with {workers}")
            publish_all(gateway, "s/w", [sent[-1].encode()])
            expect_count(gateway, "all", len(sent))
            gateway.stop()
    finally:
        gateway.kill()
        gateway.remove()


@setups([(e, 1) for e in engines.selected() if e in ("uring", "epoll-et")])
def test_a_named_consumer_leaves_nothing_of_new_partitions_out(sluice, setup):
    """What is published between the start and its next SUBSCRIBE, whatever its sluice-from says."""
    engines.need(setup[0])
    gateway = stream_gateway(sluice, setup[0], 1)
    got, sent = [], []
    try:
        for workers in (1, 2, 3, 1):
            gateway.workers = workers
            gateway.forget_addresses()
            gateway.start()
            if workers == 1 and not sent:
                publish_all(gateway, "s/w", [b"before"])
                with client(gateway) as c:
                    assert subscribe(c, "all", "latest", consumer="c") == 1
                    c.bye()
            new = [f"{workers} {len(sent)} {i}" for i in range(40)]
            publish_all(gateway, "s/w", [p.encode() for p in new], clients=8)
            sent += new
            if workers == 2:
                restart_killed(gateway)
            with client(gateway) as c:
                assert subscribe(c, "all", "latest", consumer="c") == 1
                got += payloads_of(take(c, len(new)))
                until(lambda: consumer_lag(gateway, "all", "c") == 0, "all are acknowledged")
                assert c.is_quiet(0.3)
                c.bye()
            assert len(gateway.api("/api/streams/all")["partitions"]) == max(workers, len({w[0] for w in sent}))
            gateway.stop()
        assert sorted(got) == sorted(sent)
    finally:
        gateway.kill()
        gateway.remove()


# --- retention and reload ---

@setups(FEW)
def test_retention_by_bytes(sluice, setup):
    engine, workers = setup
    engines.need(engine)
    with stream_gateway(sluice, engine, workers, {"all": {"topics": ["s/#"], "max_bytes": "64k"}}) as gateway:
        publish_all(gateway, "s/r", [b"%04d" % i + b"x" * 1000 for i in range(300)], qos=1, clients=2)
        row = until(lambda: (lambda r: r if r["bytes"] <= 65536 + 8192 else None)(gateway.api("/api/streams/all")),
                    "the oldest have gone")
        assert row["messages"] > 30
        messages = read_to_end(gateway, "all")
        assert len(messages) == row["messages"]
        assert messages[-1]["payload"][:4] in ("0298", "0299")
        for p in row["partitions"]:
            if p["next"] > 1:
                assert read(gateway, "all", **{"from": "1", "partition": p["partition"], "limit": 1}).messages[0]["offset"] \
                    == p["first"]
        restart_killed(gateway)
        again = read_to_end(gateway, "all")
        assert again[-1] == messages[-1] and len(again) <= 300
        assert gateway.metric("sluice_stream_missing_total") == 0


@setups(FEW)
def test_retention_by_age(sluice, setup):
    engine, workers = setup
    engines.need(engine)
    with stream_gateway(sluice, engine, workers, {"all": {"topics": ["s/#"], "max_age": "1s"}}) as gateway:
        publish_all(gateway, "s/r", [b"old"] * 10, qos=1)
        until(lambda: gateway.api("/api/streams/all")["messages"] == 0, "all of them are too old")
        assert read_to_end(gateway, "all") == []
        publish_all(gateway, "s/r", [b"new"], qos=1)
        m = read(gateway, "all", **{"from": "earliest"}).messages
        assert not m or m[0]["payload"] == "new"
        assert sum(p["next"] for p in gateway.api("/api/streams/all")["partitions"]) >= 11


@setups(FEW)
def test_reload_adds_and_removes(sluice, setup):
    engine, workers = setup
    engines.need(engine)
    with stream_gateway(sluice, engine, workers) as gateway:
        publish_all(gateway, "s/a", [b"1"])
        gateway.sections["stream late"] = {"topics": ["late/#"]}
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        publish_all(gateway, "late/x", [b"2"])
        assert [m["payload"] for m in expect_count(gateway, "late", 1)] == ["2"]
        del gateway.sections["stream all"]
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        publish_all(gateway, "s/a", [b"3"])
        rows = {s["name"]: s for s in gateway.api("/api/streams")["streams"]}
        assert not rows["all"]["configured"] and rows["all"]["messages"] == 1
        assert [m["payload"] for m in read_to_end(gateway, "all")] == ["1"]
        restart_killed(gateway)
        assert [m["payload"] for m in read_to_end(gateway, "all")] == ["1"]
        gateway.sections["stream all"] = {"topics": ["s/#"]}
        gateway.write_config()
        gateway.api("/api/reload", "POST")
        publish_all(gateway, "s/a", [b"4"])
        assert [m["payload"] for m in expect_count(gateway, "all", 2)] == ["1", "4"]


# --- ctl ---

@setups(FEW)
def test_ctl(sluice, setup):
    engine, workers = setup
    engines.need(engine)
    with stream_gateway(sluice, engine, workers) as gateway:
        publish_all(gateway, "s/a", [b"one", b"\xff\x00\xff"])
        expect_count(gateway, "all", 2)

        def ctl(*args):
            return subprocess.run([sluice, "ctl", "--socket", gateway.settings["ctl_socket"], "streams", *args],
                                  capture_output=True, timeout=20)
        listed = ctl()
        assert listed.returncode == 0 and b"all" in listed.stdout and b"taking" in listed.stdout
        assert b"PARTITION" in ctl("all").stdout
        got = ctl("read", "all")
        assert got.returncode == 0 and b" s/a one" in got.stdout and b"(3 bytes)" in got.stdout, got
        assert b"there is more: --from" in ctl("read", "all", "--limit", "1").stderr
        lines = ctl("read", "all", "--json", "--from", "earliest").stdout.splitlines()
        assert len(lines) == 3 and json.loads(lines[0])["payload"] == "one"
        assert ctl("none").returncode == 1 and ctl("read").returncode == 1
        assert ctl("--from", "earliest").returncode == 2
        assert ctl("forget", "all", "nobody").returncode == 1
