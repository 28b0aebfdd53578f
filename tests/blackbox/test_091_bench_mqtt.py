# SPDX-License-Identifier: Apache-2.0
"""`sluice bench mqtt` and the MQTT clients against this gateway's own broker, briefly: the reports are well-formed, every
message is accounted for, nothing is left. And a broker that loses, repeats and turns messages round is told on. Nothing
here judges how fast anything is."""
import json
import socket
import subprocess
import threading

import pytest

from harness.gateway import Gateway
from harness.link import end_listening

# The machine may be busy: a late generator must not make these runs invalid.
COMMON = ["--json", "--wait", "sleep", "--drain", "30s", "--duration", "1s"]
LOAD = [*COMMON, "--lag-limit", "20s", "--warmup", "200ms"]
MQTT = {"protocol": "mqtt", "anonymous": True, "max_queued_messages": 100000, "max_queued_bytes": "64m"}


@pytest.fixture(scope="module")
def gateway(sluice):
    with Gateway(sluice, "auto", workers=2, listeners={"mqtt": MQTT}) as running:
        yield running


def bench_at(sluice, port, scenario, *arguments, code=0):
    command = [sluice, "bench", "mqtt", scenario, "--to", f"127.0.0.1:{port}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done
    return json.loads(done.stdout)


@pytest.fixture
def bench(gateway, sluice):
    return lambda scenario, *arguments: bench_at(sluice, gateway.address("mqtt")[1], scenario, *arguments)


def check(report):
    assert report["measured"] and report["valid"] and report["errors_total"] == 0, report
    assert report["alive"] == report["clients"], report
    messages = report["messages"]
    assert messages["expected"] == messages["delivered"] and messages["published"] > 0, report
    assert messages["window_expected"] == messages["window_delivered"] == messages["latency_us"]["count"], report
    return messages


@pytest.mark.parametrize("version", ["3.1.1", "5.0"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_fan_in(bench, version, qos):
    messages = check(bench("fan-in", *LOAD, "--pubs", "20", "--subs", "2", "--rate", "1k", "--burst", "5", "--qos", str(qos), "--version",
                           version))
    assert messages["expected"] == 2 * messages["published"]
    assert (messages["ack_us"]["count"] > 0) == (qos > 0)


def test_fan_out_pairs_and_shared(bench):
    assert check(bench("fan-out", *LOAD, "--subs", "50", "--rate", "20"))["expected"] % 50 == 0
    messages = check(bench("pairs", *LOAD, "--pairs", "30", "--qos", "1", "--rate", "500"))
    assert messages["expected"] == messages["published"]
    messages = check(bench("shared", *LOAD, "--pubs", "5", "--subs", "6", "--groups", "2", "--rate", "500", "--version", "5.0", "--qos", "1"))
    assert messages["expected"] == 2 * messages["published"]


def test_stalled_subscribers_do_not_hold_up_the_others(bench):
    messages = check(bench("fan-in", *LOAD, "--pubs", "5", "--rate", "300", "--size", "4000", "--stalled", "3"))
    assert messages["stalled"] == 3 and messages["stalled_closed"] <= 3


def test_storm(bench):
    report = bench("storm", *COMMON, "--conns", "300", "--at-once", "20")
    assert report["storm"]["served"] == report["storm"]["started"] == 300 and report["errors_total"] == 0, report
    assert report["handshake_us"]["count"] == 300
    report = bench("storm", *COMMON, "--conns", "200", "--at-once", "200", "--hold")
    assert report["storm"]["served"] == 200 and report["storm"]["held"] and report["alive"] == 200, report


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_retained(bench, gateway, qos):
    report = bench("retained", *COMMON, "--messages", "500", "--pubs", "3", "--subs", "2", "--qos", qos)
    assert report["errors_total"] == 0 and report["messages"]["delivered"] == 1000, report
    assert report["retained"]["cleared"] == 500
    assert report["retained"]["all_us"]["count"] == 2


def test_idle(bench):
    report = bench("idle", *COMMON, "--conns", "100", "--filters", "2", "--keepalive", "1s")
    assert report["alive"] == 100 and report["errors_total"] == 0 and report["server"]["observed"], report


def test_a_broker_that_is_not_there(sluice):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    report = bench_at(sluice, port, "fan-in", *LOAD, "--timeout", "2s", code=1)
    assert not report["measured"] and "connect_refused" in report["failure"], report


def varint_packet(data):
    """(packet, rest) of the first whole packet, or (None, data)."""
    size, shift, at = 0, 0, 1
    while at < len(data):
        size |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return (data[:at + size], data[at + size:]) if len(data) >= at + size else (None, data)
        shift += 7
    return None, data


class Wicked:
    """A broker of one subscriber and one publisher that hands out messages as `deliver(n, packet)` says: a list of packets."""

    def __init__(self, deliver):
        self.deliver = deliver
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.subscriber, self.count, self.lock = None, 0, threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        data = b""
        with sock:
            while True:
                try:
                    more = sock.recv(65536)
                except OSError:
                    return
                if not more:
                    return
                data += more
                packet, data = varint_packet(data)
                while packet:
                    try:
                        self.answer(sock, packet)
                    except OSError:  # the subscriber has gone
                        return
                    packet, data = varint_packet(data)

    def answer(self, sock, packet):
        kind = packet[0] >> 4
        if kind == 1:
            sock.sendall(b"\x20\x02\x00\x00")
        elif kind == 8:
            self.subscriber = sock
            sock.sendall(b"\x90\x03" + packet[2:4] + b"\x00")
        elif kind == 3:
            with self.lock:
                out = b"".join(self.deliver(self.count, packet))
                self.count += 1
                self.subscriber.sendall(out)

    def close(self):
        end_listening(self.server)


def wicked_run(sluice, deliver):
    broker = Wicked(deliver)
    try:
        return bench_at(sluice, broker.port, "fan-in", "--json", "--wait", "sleep", "--lag-limit", "20s", "--pubs", "1", "--rate", "200",
                        "--arrival", "uniform", "--warmup", "0s", "--duration", "1s", "--drain", "1s", "--pid", "none", code=1)
    finally:
        broker.close()


def test_losses_are_counted(sluice):
    report = wicked_run(sluice, lambda n, p: [] if n % 10 == 3 else [p])
    assert report["errors"] == {"lost": report["messages"]["published"] // 10}, report


def test_repetitions_are_counted(sluice):
    report = wicked_run(sluice, lambda n, p: [p, p] if n % 10 == 3 else [p])
    assert report["errors"] == {"duplicated": report["messages"]["published"] // 10}, report


def test_a_wrong_order_is_counted(sluice):
    held = []

    def deliver(n, packet):
        if n % 10 == 3:
            held.append(packet)
            return []
        return [packet, held.pop()] if held else [packet]
    report = wicked_run(sluice, deliver)
    assert report["errors"] == {"reordered": report["messages"]["published"] // 10}, report


def test_changed_content_is_counted(sluice):
    report = wicked_run(sluice, lambda n, p: [p[:-1] + b"\x00"] if n == 5 else [p])
    assert report["errors"] == {"corrupted": 1, "lost": 1}, report


def test_rubbish_ends_the_run_with_its_name(sluice):
    report = wicked_run(sluice, lambda n, p: [b"\x10\x00"] if n == 5 else [p])
    assert report["errors"]["malformed"] == 1 and report["errors"]["lost"] > 0, report


# --- the clients ---

def test_pub_and_sub_through_the_gateway(gateway, sluice):
    port = str(gateway.address("mqtt")[1])
    for version in ("31", "311", "5"):
        for qos in ("0", "1", "2"):
            topic = f"clients/{version}/{qos}"
            sub = subprocess.Popen([sluice, "sub", "-p", port, "-V", version, "-q", qos, "-t", f"{topic}/#", "-C", "200", "-v", "-d",
                                    "-W", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert sub.stderr.readline().startswith(b"CONNACK") and sub.stderr.readline().startswith(b"SUBACK")
            lines = "".join(f"{n}\n" for n in range(200)).encode()
            subprocess.run([sluice, "pub", "-p", port, "-V", version, "-q", qos, "-t", f"{topic}/more", "-l"], input=lines, check=True,
                           timeout=60)
            out = sub.communicate(timeout=60)[0]
            assert sub.returncode == 0
            assert out == "".join(f"{topic}/more {n}\n" for n in range(200)).encode()
