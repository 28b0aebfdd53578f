# SPDX-License-Identifier: Apache-2.0
"""What DHCP servers and cables do wrong, each named in the log or in `ctl net`, none of it fatal."""
import re
import time

import pytest

from fake_dhcp import ACK, DISCOVER, NAK, OFFER, REQUEST, FakeDhcp
from lab import ip, show, until


def usual(server, kind, asked):
    return [(OFFER if kind == DISCOVER else ACK, server.usual())]


@pytest.fixture
def fake(lab):
    made = []

    def make(answer, **more):
        made.append(FakeDhcp(lab, answer, **more))
        return made[-1]
    yield make
    for server in made:
        server.close()


def wait_bound(lab):
    until(lambda: lab.interface()["dhcp4"]["state"] == "bound", "a lease")
    return lab.interface()


def test_no_server_is_said_and_asking_goes_on(lab, fake):
    server = fake(lambda s, kind, asked: [])
    lab.start_client()
    lab.wait_log(r"no address: no DHCP server has answered \d+ requests \(selecting\)")
    assert lab.interface()["state"] == "configuring"
    server.answer = usual
    wait_bound(lab)


def test_no_carrier_is_said(lab):
    lab.server("ip", "link", "set", "s0", "down")
    lab.start_client()
    lab.wait_log("v0: no carrier: is the cable in")
    assert lab.interface()["state"] == "no-carrier"


def test_no_interface_is_said(lab):
    ip("link", "del", "v0")
    lab.start_client()
    lab.wait_log("no interface to use: no Ethernet device")


def test_no_block_for_the_interface(lab):
    lab.start_client('network lan { match = "mac:02:00:00:00:00:99"; }\n')
    lab.wait_log("no interface to use: no network block matches")
    assert lab.interface()["state"] == "unused"


def test_refused_at_restart(lab, fake):
    server = fake(usual)
    lab.start_client()
    wait_bound(lab)
    lab.stop_client()
    ip("addr", "flush", "dev", "v0")
    refused = []

    def refuse_once(s, kind, asked):
        if not refused:
            refused.append(kind)
            return [(NAK, {54: s.source, 56: b"wrong network\n"})]
        return usual(s, kind, asked)
    server.answer, server.seen = refuse_once, []
    lab.start_client()
    wait_bound(lab)
    lab.wait_log(r"the server refused the address: wrong network\?")
    kinds = server.types()
    assert kinds == [REQUEST, DISCOVER, REQUEST]
    assert 50 in server.seen[0][1] and 54 not in server.seen[0][1]  # INIT-REBOOT
    assert 50 not in server.seen[1][1]


def test_refusals_without_end_are_not_a_flood(lab, fake):
    server = fake(lambda s, kind, asked: [(OFFER, s.usual())] if kind == DISCOVER else [(NAK, {54: s.source})])
    began = time.monotonic()
    lab.start_client()
    time.sleep(4)
    until(lambda: len(server.seen) >= 4, "it goes on asking")
    assert len(server.seen) < 14 * (time.monotonic() - began) / 4, server.types()
    assert lab.interface()["dhcp4"]["naks"] >= 2


def test_lease_of_zero_seconds(lab, fake):
    fake(lambda s, kind, asked: [(OFFER if kind == DISCOVER else ACK, s.usual(lease=0))])
    lab.start_client()
    row = wait_bound(lab)
    assert row["dhcp4"]["lease_seconds"] == 60 and "60 s" in row["dhcp4"]["note"]


def test_server_id_of_zero(lab, fake):
    fake(lambda s, kind, asked: [(OFFER if kind == DISCOVER else ACK, s.usual(server=b"\0\0\0\0"))])
    lab.start_client()
    row = wait_bound(lab)
    assert row["dhcp4"]["server"] == "10.9.0.1" and "server id" in row["dhcp4"]["note"]


def test_answers_that_are_none(lab, fake):
    """Garbage in front of each good answer, and offers of addresses no host may have."""
    def answer(s, kind, asked):
        good = usual(s, kind, asked)
        return [(b"\x02" * 300, None), (b"\x02\x01\x06\0", None), (b"", None), *good]
    fake(answer)
    lab.start_client()
    wait_bound(lab)


def test_silence_after_a_restart_uses_the_lease_that_still_runs(lab, fake):
    server = fake(usual)
    lab.start_client()
    wait_bound(lab)
    lab.stop_client()
    ip("addr", "flush", "dev", "v0")
    server.answer = lambda s, kind, asked: []
    lab.start_client()
    lab.wait_log("no server answers; the saved lease is still running and is used")
    assert lab.has_address("10.9.0.50/24")
    server.answer = usual
    wait_bound(lab)


def test_two_interfaces_in_one_network(lab):
    lab.add_link("v1", "s1")
    lab.start_client('network a { match = "name:v0"; address = "10.9.0.5/24"; gateway = "10.9.0.1"; }\n'
                     'network b { match = "name:v1"; address = "10.9.0.6/24"; }\n')
    lab.wait_log(r"v0 and v1 are in one network \(10\.9\.0\.\d/24\): packets to it leave by v0 only")
    metrics = re.findall(r"10\.9\.0\.0/24 dev (v\d) .*metric (\d+)", show("route"))
    assert len({m for _, m in metrics}) == 2


def test_a_static_block_that_two_interfaces_match(lab):
    lab.add_link("v1", "s1")
    lab.start_client('network a { match = "name:v*"; address = "10.9.0.5/24"; }\n')
    lab.wait_log("used by another interface already")
    both = [lab.has_address("10.9.0.5/24", name) for name in ("v0", "v1")]
    assert sorted(both) == [False, True]
