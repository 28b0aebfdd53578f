# SPDX-License-Identifier: Apache-2.0
"""Name servers that never answer: a real socket takes the questions and says nothing. The uplink says so by name and waits longer each
time, the other uplink and the devices notice nothing, and no attempt leaves a thread of its own behind; when answers come it
connects and hands over all that was kept."""
import os
import socket
import struct
import threading
import time

import pytest

from harness.remotes import Collector, Mosquitto
from harness.streams import client
from harness.wait import GUARD_S, until

pytestmark = pytest.mark.guard(120)
A, AAAA, CLASS_IN = 1, 28, 1


class NameServer:
    """Of its own loopback address, port 53. Counts questions; answers with 127.0.0.1 while `answers` is set."""

    def __init__(self):
        self.address = f"127.53.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250 + 1}"
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.sock.bind((self.address, 53))
        except PermissionError:
            self.sock.close()
            pytest.skip("port 53 can not be bound here")
        self.questions, self.answers = 0, False
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                question, peer = self.sock.recvfrom(2048)
            except OSError:
                return
            self.questions += 1
            if not self.answers:
                continue
            end = question.index(b"\0", 12) + 5
            kind = struct.unpack("!H", question[end - 4:end - 2])[0]
            record = b"\xc0\x0c" + struct.pack("!HHIH", A, CLASS_IN, 60, 4) + socket.inet_aton("127.0.0.1") if kind == A else b""
            head = question[:2] + b"\x81\x80" + struct.pack("!HHHH", 1, 1 if record else 0, 0, 0)
            self.sock.sendto(head + question[12:end] + record, peer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


def in_namespace(sluice, resolv_conf):
    """The gateway with that file in place of /etc/resolv.conf; only it sees it."""
    who = [] if os.geteuid() == 0 else ["-U", "-r"]
    return ["unshare", *who, "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', str(resolv_conf), sluice]


def uplink(gateway, name):
    return next(u for u in gateway.api("/api/uplinks")["uplinks"] if u["name"] == name)


def row(gateway, name):
    return uplink(gateway, name)["workers"][0]


def threads_and_cpu_s(gateway):
    with open(f"/proc/{gateway.pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[17]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_silent_name_servers(make_gateway, sluice, tmp_path):
    with NameServer() as names, Mosquitto() as broker:
        resolv_conf = tmp_path / "resolv.conf"
        resolv_conf.write_text(f"nameserver {names.address}\noptions timeout:8 attempts:2\n")
        common = {"kind": "mqtt", "streams": ["telemetry"], "connect_timeout": "300ms", "backoff_min": "50ms", "backoff_max": "400ms"}
        urls = [f"mqtt://{host}.example:{broker.port}" for host in ("one", "two")]
        gateway = make_gateway(command=in_namespace(sluice, resolv_conf), listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0"}},
                               sections={"stream telemetry": {"topics": ["t/#"]},
                                         "uplink silent": {**common, "url": urls, "client_id": "silent-%n", "prefix": "silent/"},
                                         "uplink other": {**common, "connect_timeout": "10s", "url": [f"mqtt://127.0.0.1:{broker.port}"],
                                                          "client_id": "other-%n", "prefix": "other/"}})
        gateway.start()
        begun = time.monotonic()
        with Collector(broker.port, "other/#", client="o") as other, Collector(broker.port, "silent/#", client="s") as late:
            until(lambda: row(gateway, "silent")["error"] == "resolve_timeout", lambda: row(gateway, "silent"))
            gateway.wait_log(r"uplink silent: mqtt://one\.example:\d+: resolve_timeout \(.*one\.example\)")
            before_threads, before_cpu = threads_and_cpu_s(gateway)
            start, before = time.monotonic(), row(gateway, "silent")["retries"]
            with client(gateway, "dev") as p:
                for n in range(200):
                    assert p.publish("t/a", b"m%d" % n, 1) < 0x80
            other.wait([f"m{n}" for n in range(200)])
            until(lambda: row(gateway, "silent")["retries"] >= before + 8, "it tries on", GUARD_S * 2)
            elapsed = time.monotonic() - start
            threads, cpu = threads_and_cpu_s(gateway)
            # Each of the eight waited for its 300 ms, and each round for a back-off; a machine that spins uses all of its time.
            assert elapsed >= 8 * 0.3 * 0.9, elapsed
            assert cpu - before_cpu < elapsed / 2, (cpu, before_cpu, elapsed)
            assert threads <= before_threads + 1, "look-ups pile up"  # one for each URL
            # A and AAAA for each URL, sent twice in the 8 s that a look-up lasts; not for each attempt.
            assert names.questions <= 8 * (1 + (time.monotonic() - begun) / 8), names.questions
            assert row(gateway, "silent")["error"] == "resolve_timeout" and row(gateway, "other")["retries"] == 0
            assert uplink(gateway, "silent")["lag_messages"] == 200 and uplink(gateway, "other")["lag_messages"] == 0
            assert gateway.metric("sluice_uplink_error_info", uplink="silent", error="resolve_timeout") == 1
            names.answers = True
            late.wait([f"m{n}" for n in range(200)], GUARD_S * 6)
            until(lambda: uplink(gateway, "silent")["lag_messages"] == 0, "drained")
