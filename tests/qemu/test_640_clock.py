# SPDX-License-Identifier: Apache-2.0
"""The wall clock jumps by years while the gateway runs, both ways, and stands elsewhere again at the next start: sessions
that expire in a day are still there, nothing acknowledged is lost, a stream keeps everything, without an age limit and with one of a
week, and an uplink to a real Mosquitto goes on over all of it."""
import json
import socket

import pytest

from blackbox.remotes import Collector, Mosquitto
from blackbox.streams import V5, Client
from blackbox.wait import until
from harness.disk import MIB, make_disk
from harness.helper import helper
from harness.overlay import overlay
from harness.vm import BOOT_GUARD_S, SHORT_GUARD_S, Vm

ARCH, MACHINE = "x86_64", "q35"
YEAR_S = 365 * 86400
CONF = """
stream kept { topics = ["t/#"]; max_age = 0; }
stream aged { topics = ["t/#"]; max_age = 7d; }
uplink cloud { kind = mqtt; url = ["mqtt://10.0.2.2:%d"]; streams = ["aged"]; client_id = "gw-%%n"; backoff_max = 1s; keepalive = 2s; }
listener mqtt { protocol = mqtt; bind = "0.0.0.0:1883"; anonymous = yes; }
admin { bind = "0.0.0.0:9600"; anonymous = yes; }
"""


def set_clock(vm, seconds):
    with socket.create_connection(vm.address(7099), SHORT_GUARD_S) as s:
        s.settimeout(SHORT_GUARD_S)
        s.sendall(b"%d" % seconds)
        return int(s.makefile().readline())


def session(vm, name, clean=False):
    c = Client(vm.address(1883), V5)
    c.sock.settimeout(SHORT_GUARD_S)
    return c.hello(name, clean, props={"session_expiry": 86400})


def publish(vm, first, count):
    with session(vm, "publisher") as p:
        for i in range(first, first + count):
            assert p.publish("t/x", b"%d" % i, 1 + i % 2) < 0x80
        p.bye()


def receive(vm, name, count):
    with session(vm, name) as s:
        assert s.connack.session_present, name
        got = [int(s.message().payload) for _ in range(count)]
        s.subscribe("sync")  # SUBACK: what was acknowledged is on disk
        s.bye()
    return got


def stream(vm):
    """What both streams hold: the same."""
    held = []
    for name in ("kept", "aged"):
        lines = [json.loads(line) for line in vm.get(f"/api/streams/{name}/messages?from=earliest&limit=1000").text().splitlines()]
        held.append(sorted(int(m["payload"]) for m in lines[:-1]))
    assert held[0] == held[1]
    return held[0]


def uplinked(vm, there, count):
    """All has arrived, nothing was dropped, and the connection stands."""
    there.wait(str(n) for n in range(count))
    row = json.loads(vm.get("/api/uplinks").text())["uplinks"][0]
    assert row["lag_messages"] == 0 and row["workers_up"] >= 1, row
    assert all(sum(w["dropped"].values()) == 0 and w["retries"] < 20 for w in row["workers"]), row


def in_order(got, numbers):
    """Of both QoS each in its order."""
    assert sorted(got) == sorted(numbers)
    for odd in (0, 1):
        assert [i for i in got if i % 2 == odd] == [i for i in sorted(numbers) if i % 2 == odd]


@pytest.mark.guard(400)
def test_years_forward_and_back(tmp_path):
    with Mosquitto() as broker, Collector(broker.port, "t/#") as there:
        years_forward_and_back(tmp_path, broker, there)


def years_forward_and_back(tmp_path, broker, there):
    disk = str(tmp_path / "disk")
    make_disk(disk, 96 * MIB)
    initrd = overlay(str(tmp_path / "initrd"), {"etc/sluice/sluice.conf": (CONF % broker.port).encode(), "meddle": helper("meddle", ARCH)})

    def machine(*extra):
        return Vm(ARCH, MACHINE, memory=192, disks=[{"file": disk, "cache": "writeback"}], initrd=initrd,
                  append="rdinit=/meddle meddle=clock", ports=(1883, 9600, 7099), extra=extra)

    def ready(vm):
        vm.wait_console(r"gateway ready")
        until(lambda: vm.get("/readyz").status == 200, "the gateway serves", BOOT_GUARD_S)

    with machine() as vm:
        ready(vm)
        for name in ("first", "second"):
            with session(vm, name, clean=True) as s:
                s.subscribe("t/#", qos=2)
                s.bye()
        publish(vm, 0, 20)
        later = set_clock(vm, 10 * YEAR_S)
        publish(vm, 20, 20)
        in_order(receive(vm, "first", 40), range(40))
        earlier = set_clock(vm, -20 * YEAR_S)
        assert later - earlier > 19 * YEAR_S
        publish(vm, 40, 20)
        in_order(receive(vm, "first", 20), range(40, 60))
        assert stream(vm) == list(range(60))
        uplinked(vm, there, 60)
        vm.cut_power()
    # The next start has the right time again: ten years after the last record.
    with machine() as vm:
        ready(vm)
        assert stream(vm) == list(range(60))
        publish(vm, 60, 20)
        set_clock(vm, -8 * YEAR_S)
        publish(vm, 80, 20)
        assert stream(vm) == list(range(100))
        uplinked(vm, there, 100)
        assert vm.get("/readyz").status == 200
        Client.end_all()
