# SPDX-License-Identifier: Apache-2.0
"""mosquitto_pub, mosquitto_sub and mosquitto_rr, in every version and QoS."""
import shutil
import time

import pytest
from programs import Program

VERSIONS = ["31", "311", "5"]
versions = pytest.mark.parametrize("v", VERSIONS, ids=[f"v{v}" for v in VERSIONS])
every_qos = pytest.mark.parametrize("qos", [0, 1, 2])

pytestmark = pytest.mark.skipif(not shutil.which("mosquitto_rr"), reason="mosquitto-clients is not installed")


def run(broker, program, v, *args, text=None):
    host, port = broker.address()
    return Program(["stdbuf", "-oL", f"mosquitto_{program}", "-h", host, "-p", str(port), "-V", f"mqttv{v}", *map(str, args)], text)


def subscribed(broker, v, *args):
    """A mosquitto_sub that has its SUBACK (it says so with -d)."""
    sub = run(broker, "sub", v, "-d", "-F", "GOT %t %q %r %p", *args)
    sub.wait_line(b"Subscribed")
    return sub


def got(lines):
    return [line[4:] for line in lines if line and line.startswith(b"GOT ")]


@versions
@every_qos
def test_lines_from_pub_to_sub(broker, v, qos):
    topic, count = broker.name("t"), 200
    sub = subscribed(broker, v, "-t", topic, "-q", qos, "-C", count)
    run(broker, "pub", v, "-t", topic, "-q", qos, "-l", text=b"".join(b"line %d\n" % i for i in range(count))).wait()
    expected = [b"%s %d 0 line %d" % (topic.encode(), qos, i) for i in range(count)]
    assert got(sub.wait()) == expected


@versions
def test_a_large_payload(broker, v):
    topic = broker.name("t")
    sub = subscribed(broker, v, "-t", topic, "-q", 1, "-C", 1)
    run(broker, "pub", v, "-t", topic, "-q", 1, "-s", text=b"x" * 200000).wait()
    assert got(sub.wait()) == [topic.encode() + b" 1 0 " + b"x" * 200000]


@versions
@every_qos
def test_retained_and_removed(broker, v, qos):
    topic = broker.name("t")
    run(broker, "pub", v, "-t", topic, "-q", qos, "-r", "-m", "kept").wait()
    assert got(subscribed(broker, v, "-t", broker.name("#"), "-q", 2, "-C", 1).wait()) == \
        [b"%s %d 1 kept" % (topic.encode(), qos)]
    run(broker, "pub", v, "-t", topic, "-q", qos, "-r", "-n").wait()
    # --retained-only and -W: ends by itself when nothing comes.
    sub = run(broker, "sub", v, "-F", "GOT %t %q %r %p", "-t", topic, "-W", 1)
    assert got(sub.wait(27)) == []


@versions
@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_that_is_kept(broker, v, qos):
    topic, ident = broker.name("t"), broker.name("id").replace("/", "")
    keep = ["-c", "-i", ident] + (["-x", "60"] if v == "5" else [])
    sub = run(broker, "sub", v, "-d", "-t", topic, "-q", qos, "-E", *keep)
    sub.wait()
    run(broker, "pub", v, "-t", topic, "-q", qos, "-l", text=b"".join(b"%d\n" % i for i in range(50))).wait()
    sub = run(broker, "sub", v, "-F", "GOT %t %q %r %p", "-t", topic, "-q", qos, "-C", 50, *keep)
    assert got(sub.wait()) == [b"%s %d 0 %d" % (topic.encode(), qos, i) for i in range(50)]
    run(broker, "sub", v, "-t", topic, "-E", "-i", ident).wait()


@versions
@every_qos
def test_a_will(broker, v, qos):
    topic = broker.name("will")
    sub = subscribed(broker, v, "-t", topic, "-q", qos, "-C", 1)
    client = run(broker, "sub", v, "-d", "-t", broker.name("other"), "--will-topic", topic, "--will-payload", "gone",
                 "--will-qos", qos)
    client.wait_line(b"Subscribed")
    client.end()
    assert got(sub.wait()) == [b"%s %d 0 gone" % (topic.encode(), qos)]


@pytest.mark.parametrize("v", ["311", "5"])
def test_request_and_response(broker, v):
    request, reply = broker.name("request"), broker.name("reply")
    responder = subscribed(broker, v, "-t", request, "-C", 1)
    rr = run(broker, "rr", v, "-t", request, "-e", reply, "-m", "question", "-q", 1)
    assert got(responder.wait()) == [b"%s 0 0 question" % request.encode()]
    run(broker, "pub", v, "-t", reply, "-m", "answer", "-q", 1).wait()
    assert b"answer" in rr.wait()


def test_properties(broker):
    topic = broker.name("t")
    sub = run(broker, "sub", 5, "-d", "-t", topic, "-q", 1, "-C", 1, "-F", "GOT %p|%C|%R|%D|%P|%E")
    sub.wait_line(b"Subscribed")
    props = ["content-type", "text/plain"], ["response-topic", "r/t"], ["correlation-data", "id7"], \
        ["user-property", "a", "b"], ["message-expiry-interval", "100"]
    began = time.monotonic()
    run(broker, "pub", 5, "-t", topic, "-q", 1, "-m", "x", *[x for p in props for x in ("-D", "publish", *p)]).wait()
    (line,) = got(sub.wait())
    before, _, left = line.rpartition(b"|")
    assert before == b"x|text/plain|r/t|id7|a:b" and 99 - (time.monotonic() - began) <= int(left) <= 100, line


def test_topic_aliases(broker):
    """mosquitto_pub uses an alias for all lines after the first when told to."""
    topic = broker.name("t")
    sub = subscribed(broker, "5", "-t", topic, "-q", 1, "-C", 20)
    run(broker, "pub", 5, "-t", topic, "-q", 1, "-l", "-D", "publish", "topic-alias", 3,
        text=b"".join(b"%d\n" % i for i in range(20))).wait()
    assert got(sub.wait()) == [b"%s 1 0 %d" % (topic.encode(), i) for i in range(20)]


def test_shared_subscriptions(broker):
    topic, count = broker.name("t"), 40
    members = [subscribed(broker, "5", "-t", f"$share/{broker.name()}/{topic}", "-q", 1) for _ in range(2)]
    run(broker, "pub", 5, "-t", topic, "-q", 1, "-l", text=b"".join(b"%d\n" % i for i in range(count))).wait()
    seen = []
    for member in members:
        for _ in range(count // 2):
            seen.append(int(member.wait_line(b"GOT ").split()[-1]))
    assert sorted(seen) == list(range(count))


def test_a_wrong_password(broker):
    host, port = broker.address("guarded")
    for v in VERSIONS:
        for password, good in (("s3cret", True), ("wrong", False)):
            program = Program(["mosquitto_pub", "-h", host, "-p", str(port), "-V", f"mqttv{v}", "-u", "u", "-P", password,
                               "-t", broker.name("t"), "-m", "x", "-q", "1"])
            lines = []
            while (line := program.line()) is not None:
                lines.append(line)
            assert (program.process.wait() == 0) == good, (v, password, lines)
