# SPDX-License-Identifier: Apache-2.0
"""`sluice pub` and `sluice sub` against a scripted broker: exact bytes out, and what they make of refusals, rubbish,
silence and broken connections. `sluice import` from files. No gateway is started."""
import json
import socket
import subprocess
import threading

import pytest

CONNACK = bytes.fromhex("20020000")
CONNACK5 = bytes.fromhex("2003000000")


class Broker:
    """Serves connections one after the other, each with a script(sock); what a script raises fails the test."""

    def __init__(self, *scripts):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(20)
        self.port = self.listener.getsockname()[1]
        self.failed = None
        self.thread = threading.Thread(target=self.serve, args=(scripts,), daemon=True)
        self.thread.start()

    def serve(self, scripts):
        try:
            for script in scripts:
                sock, _ = self.listener.accept()
                with sock:
                    sock.settimeout(20)
                    script(sock)
        except Exception as e:  # noqa: BLE001 - reported by close()
            self.failed = e

    def close(self):
        self.thread.join(25)
        self.listener.close()
        if self.failed:
            raise self.failed


def take(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise AssertionError(f"the client closed after {data.hex()}, {size} bytes were expected")
        data += more
    return data


def packet(sock):
    """One whole packet with a remaining length of one or two bytes."""
    head = take(sock, 2)
    if head[1] & 0x80:
        head += take(sock, 1)
        return head + take(sock, (head[1] & 0x7F) | head[2] << 7)
    return head + take(sock, head[1])


def greet(sock, answer=CONNACK):
    connect = packet(sock)
    assert connect[0] == 0x10
    sock.sendall(answer)
    return connect


@pytest.fixture
def run(sluice):
    """run(words, *scripts, stdin=, code=) -> completed process."""
    def runner(words, *scripts, stdin=b"", code=0):
        broker = Broker(*scripts) if scripts else None
        where = ["-p", str(broker.port)] if broker else []
        done = subprocess.run([sluice, words[0], *where, *words[1:]], input=stdin, capture_output=True, timeout=60)
        if broker:
            broker.close()
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done
    return runner


def test_connect_and_publish_byte_by_byte(run):
    seen = []

    def script(sock):
        seen.append(greet(sock))
        seen.append(packet(sock))
        seen.append(packet(sock))

    run(["pub", "-t", "a/b", "-m", "hi", "-i", "me", "-k", "30"], script)
    assert seen[0] == bytes.fromhex("100e00044d51545404 02 001e 00026d65".replace(" ", ""))
    assert seen[1] == b"\x30\x07\x00\x03a/bhi"
    assert seen[2] == b"\xe0\x00"


def test_will_user_and_properties_of_5_0(run):
    seen = []

    def script(sock):
        seen.append(greet(sock, CONNACK5))
        seen.append(packet(sock))
        assert packet(sock) == b"\xe0\x00"

    run(["pub", "-V", "5", "-t", "t", "-m", "x", "-i", "i", "-u", "u", "-P", "p", "--will-topic", "w", "--will-payload", "b",
         "--will-qos", "1", "--will-retain", "-x", "7", "-D", "publish", "content-type", "c"], script)
    body = (b"\x00\x04MQTT\x05\xee\x00\x3c" b"\x05\x11\x00\x00\x00\x07" b"\x00\x01i" b"\x00" b"\x00\x01w"
            b"\x00\x01b" b"\x00\x01u" b"\x00\x01p")
    assert seen[0] == bytes([0x10, len(body)]) + body
    assert seen[1] == b"\x30\x09\x00\x01t\x04\x03\x00\x01cx"


def test_lines_with_qos_1(run):
    def script(sock):
        greet(sock)
        for number in range(1, 4):
            assert packet(sock) == b"\x32\x08\x00\x01t" + bytes([0, number]) + b"n=%d" % number
        sock.sendall(b"".join(bytes([0x40, 2, 0, number]) for number in (2, 3, 1)))
        assert packet(sock) == b"\xe0\x00"

    run(["pub", "-t", "t", "-q", "1", "-l"], script, stdin=b"n=1\nn=2\nn=3")


def test_qos_2(run):
    def script(sock):
        greet(sock)
        assert packet(sock) == b"\x34\x08\x00\x01t\x00\x01n=1"
        sock.sendall(b"\x50\x02\x00\x01")
        assert packet(sock) == b"\x62\x02\x00\x01"
        sock.sendall(b"\x70\x02\x00\x01")
        assert packet(sock) == b"\xe0\x00"

    run(["pub", "-t", "t", "-q", "2", "-m", "n=1"], script)


def test_the_brokers_receive_maximum_is_kept(run):
    def script(sock):
        greet(sock, bytes.fromhex("20060000 03 21 0002".replace(" ", "")))
        first = [packet(sock), packet(sock)]
        sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(20)
        for p in first:
            sock.sendall(b"\x40\x02" + p[5:7])
        for _ in range(3):
            sock.sendall(b"\x40\x02" + packet(sock)[5:7])
        assert packet(sock)[0] == 0xE0

    run(["pub", "-V", "5", "-t", "t", "-q", "1", "-l"], script, stdin=b"1\n2\n3\n4\n5\n")


@pytest.mark.parametrize("answer,says,code", [
    ("20020005", "not authorized (0x05)", 3),
    ("20020004", "bad user name or password", 3),
    ("40020001", "answered CONNECT with PUBACK", 1),
    ("2002000000", "malformed", 1),
    ("20030000", "closed the connection within a packet", 1),
    ("ff00", "malformed", 1),
    ("10ffffffff7f", "malformed", 1),
    ("", "closed the connection", 1),
])
def test_refusals_and_rubbish(run, answer, says, code):
    def script(sock):
        packet(sock)
        sock.sendall(bytes.fromhex(answer))

    done = run(["pub", "-t", "t", "-m", "x"], script, code=code)
    assert says in done.stderr.decode(), done.stderr


def test_reasons_of_5_0_are_named(run):
    def refused(sock):
        packet(sock)
        sock.sendall(bytes.fromhex("200a0087 07 1f0004") + b"nope")

    assert "not_authorized (0x87): nope" in run(["pub", "-V", "5", "-t", "t", "-m", "x"], refused, code=3).stderr.decode()

    def quota(sock):
        greet(sock, CONNACK5)
        packet(sock)
        sock.sendall(bytes.fromhex("4003000197"))
        packet(sock)

    assert "quota_exceeded (0x97)" in run(["pub", "-V", "5", "-t", "t", "-q", "1", "-m", "x"], quota, code=3).stderr.decode()

    def suback(sock):
        greet(sock, CONNACK5)
        packet(sock)
        sock.sendall(bytes.fromhex("9004000100 8f".replace(" ", "")))

    assert "topic_filter_invalid (0x8f)" in run(["sub", "-V", "5", "-t", "t"], suback, code=3).stderr.decode()

    def goodbye(sock):
        greet(sock, CONNACK5)
        packet(sock)
        sock.sendall(bytes.fromhex("9004000100 00".replace(" ", "")) + bytes.fromhex("e0018b"))

    assert "server_shutting_down (0x8b)" in run(["sub", "-V", "5", "-t", "t"], goodbye, code=3).stderr.decode()


def test_silence_ends(run):
    def silent(sock):
        packet(sock)
        assert sock.recv(1) == b""

    done = run(["pub", "-t", "t", "-m", "x", "--connect-timeout", "1"], silent, code=1)
    assert b"no CONNACK within 1 s" in done.stderr

    def deaf(sock):
        greet(sock)
        packet(sock)  # SUBSCRIBE
        assert packet(sock) == b"\xc0\x00"
        assert sock.recv(1) == b""

    done = run(["sub", "-t", "t", "-k", "1"], deaf, code=1)
    assert b"does not answer" in done.stderr


def test_subscribe_and_print(run):
    def script(sock):
        greet(sock)
        assert packet(sock) == b"\x82\x0c\x00\x01\x00\x03a/#\x02\x00\x01b\x02"
        sock.sendall(b"\x90\x04\x00\x01\x02\x01")
        # In two pieces, in one segment with others, QoS 2 twice.
        sock.sendall(b"\x30\x07\x00\x03a/")
        sock.sendall(b"bhi" + b"\x34\x06\x00\x01b\x00\x09x")
        assert packet(sock) == b"\x50\x02\x00\x09"
        sock.sendall(b"\x3c\x06\x00\x01b\x00\x09x")
        assert packet(sock) == b"\x50\x02\x00\x09"
        sock.sendall(b"\x62\x02\x00\x09")
        assert packet(sock) == b"\x70\x02\x00\x09"
        sock.sendall(b"\x33\x06\x00\x01b\x00\x0az")
        assert packet(sock) == b"\x40\x02\x00\x0a"
        assert packet(sock) == b"\xe0\x00"

    done = run(["sub", "-t", "a/#", "-t", "b", "-q", "2", "-C", "3", "-F", "%t:%p:%q:%r"], script)
    assert done.stdout == b"a/b:hi:0:0\nb:x:2:0\nb:z:1:1\n"


def test_json_lines(run):
    def script(sock):
        greet(sock, CONNACK5)
        packet(sock)
        sock.sendall(bytes.fromhex("900400010000"))
        body = b"\x00\x01t" + b"\x0c" + b"\x26\x00\x01k\x00\x01v" + b"\x02\x00\x00\x00\x05" + b"\xff\x00"
        sock.sendall(bytes([0x30, len(body)]) + body)
        packet(sock)

    line = json.loads(run(["sub", "-V", "5", "-t", "t", "-j", "-C", "1"], script).stdout)
    assert line["topic"] == "t" and line["payload_hex"] == "ff00" and line["payloadlen"] == 2
    assert line["properties"] == {"message_expiry_interval": 5, "user_property": [["k", "v"]]}


def test_timeout_and_exit_when_subscribed(run):
    def script(sock):
        greet(sock)
        packet(sock)
        sock.sendall(b"\x90\x03\x00\x01\x00")
        assert packet(sock) == b"\xe0\x00"

    run(["sub", "-t", "t", "-W", "2"], script, code=27)
    run(["sub", "-t", "t", "-E"], script)


def test_reconnect(run):
    def first(sock):
        greet(sock)
        packet(sock)
        sock.sendall(b"\x90\x03\x00\x01\x00\x30\x04\x00\x01t1")

    def second(sock):
        greet(sock)
        packet(sock)
        sock.sendall(b"\x90\x03\x00\x01\x00\x30\x04\x00\x01t2")
        packet(sock)

    done = run(["sub", "-t", "t", "-C", "2", "--reconnect"], first, second)
    assert done.stdout == b"1\n2\n" and b"connecting again" in done.stderr


def test_usage(run):
    for words in (["pub"], ["pub", "-t", "a/#", "-m", "x"], ["sub"], ["sub", "-t", "a", "--capath", "x"], ["import"],
                  ["bench", "mqtt", "nonsense"]):
        assert run(words, code=2).stderr


def test_import(run, tmp_path):
    more = tmp_path / "more"
    more.mkdir()
    (more / "b.conf").write_text("max_connections 7\n")
    (more / "ignored.txt").write_text("nonsense\n")
    conf = tmp_path / "mosquitto.conf"
    conf.write_text(f"listener 1883 127.0.0.1\nallow_anonymous true\ninclude_dir {more}\n")
    done = run_import(run, conf)
    assert "max_conns = 7;" in done and 'bind = "127.0.0.1:1883";' in done
    conf.write_text("listener 1883\nnonsense 1\n")
    bad = run(["import", str(conf)], code=2)
    assert f"{conf}:2: unknown option nonsense" in bad.stderr.decode() and not bad.stdout
    assert b"ENOENT" in run(["import", str(tmp_path / "none")], code=2).stderr


def run_import(run, conf):
    """What it prints; the status is 1 while something is not available in this version."""
    try:
        return run(["import", str(conf)]).stdout.decode()
    except AssertionError:
        return run(["import", str(conf)], code=1).stdout.decode()


def test_an_imported_file_passes_the_check(run, tmp_path):
    conf = tmp_path / "mosquitto.conf"
    conf.write_text("listener 1883 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\n"
                    "max_keepalive 0\nsys_interval 0\nmax_packet_size 0\nlog_type all\n"
                    "connection up\naddress b.example c.example:1884\ntopic s/# both 1 l/ r/\ntopic c in\n")
    text = run_import(run, conf)
    if "MQTT listeners are not available" in text:
        pytest.skip("this version has no MQTT listeners")
    made = tmp_path / "sluice.conf"
    made.write_text(f'data_dir = "{tmp_path}/data";\n{text}')
    run(["check", "-c", str(made)])
