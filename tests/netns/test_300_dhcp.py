# SPDX-License-Identifier: Apache-2.0
"""A real DHCP server (dnsmasq): the address and all that comes with it, over restarts, flaps and hot-plugging."""
import re
import signal

from lab import ip, show, until

RANGE = "--dhcp-range=10.9.0.50,10.9.0.99,255.255.255.0,120"


def serve(lab, *options):
    lab.server("ip", "addr", "add", "10.9.0.1/24", "dev", "s0")
    return lab.dnsmasq(RANGE, "--dhcp-authoritative", *options)


def bound(lab, name="v0"):
    return until(lambda: (lab.interface(name) or {}).get("dhcp4", {}).get("state") == "bound" and lab.interface(name),
                 f"{name} has a lease")


def text(path):
    with open(path) as f:
        return f.read()


def test_everything_that_comes_with_a_lease(lab):
    serve(lab, "--dhcp-option=6,10.9.0.1,9.9.9.9", "--dhcp-option=42,10.9.0.1", "--dhcp-option=26,1450",
          "--domain=example.org", "--dhcp-option=121,198.51.100.0/24,10.9.0.7,0.0.0.0/0,10.9.0.1")
    lab.start_client()
    row = bound(lab)
    address = next(a["address"] for a in row["addresses"] if a["address"].startswith("10.9.0."))
    assert lab.has_address(address) and row["state"] == "up" and row["gateway"] == "10.9.0.1"
    routes = show("route")
    assert re.search(r"default via 10.9.0.1 dev v0", routes)
    assert re.search(r"198.51.100.0/24 via 10.9.0.7 dev v0", routes)
    assert "mtu 1450" in show("link", "show", "dev", "v0")
    assert lab.resolv() == "search example.org\nnameserver 10.9.0.1\nnameserver 9.9.9.9\n"
    assert row["dhcp4"]["ntp"] == ["10.9.0.1"] and row["dhcp4"]["server"] == "10.9.0.1"
    assert lab.ask("net")["up"] is True


def test_a_restart_asks_for_the_same_address_in_one_exchange(lab):
    _, log = serve(lab)
    lab.start_client()
    address = bound(lab)["addresses"]
    lab.stop_client(signal.SIGKILL)  # as a power cut
    ip("addr", "flush", "dev", "v0")
    ip("link", "set", "v0", "down")
    before = text(log).count("DHCPDISCOVER")
    lab.start_client()
    row = bound(lab)
    assert [a for a in row["addresses"] if "10.9" in a["address"]] == [a for a in address if "10.9" in a["address"]]
    assert text(log).count("DHCPDISCOVER") == before
    assert row["dhcp4"]["sent"] == 1


def test_a_flap_keeps_the_address_and_asks_at_once(lab):
    _, log = serve(lab)
    lab.start_client()
    row = bound(lab)
    address = next(a["address"] for a in row["addresses"] if "10.9" in a["address"])
    acks = row["dhcp4"]["acks"]
    lab.server("ip", "link", "set", "s0", "down")
    lab.wait_log("v0: carrier lost")
    assert lab.has_address(address) and lab.interface()["state"] == "no-carrier"
    lab.server("ip", "link", "set", "s0", "up")
    # Within half a minute: it would be renewed anyway at the end of half the lease, a minute.
    until(lambda: lab.interface()["dhcp4"]["acks"] > acks, "the lease is confirmed at once")
    assert lab.has_address(address) and "given up" not in lab.log()
    assert lab.interface()["carrier_changes"] >= 2


def test_a_device_that_comes_later(lab):
    serve(lab)
    lab.start_client()
    bound(lab)
    lab.add_link("v1", "s1")
    lab.server("ip", "addr", "add", "10.8.0.1/24", "dev", "s1")
    lab.dnsmasq("--dhcp-range=10.8.0.50,10.8.0.99,255.255.255.0,120", interface="s1")
    row = bound(lab, "v1")
    assert any(a["address"].startswith("10.8.0.") for a in row["addresses"])
    assert len(re.findall(r"^default ", show("route"), re.M)) == 2  # two, with their own metrics
    ip("link", "del", "v1")
    lab.wait_log("v1 is gone")
    until(lambda: lab.interface("v1") is None, "v1 is no longer shown")
    assert lab.ask("net")["up"] is True


def test_router_advertisement_and_dhcp6(lab):
    lab.server("ip", "addr", "add", "fd00:9::1/64", "dev", "s0", "nodad")
    serve(lab, "--enable-ra", "--dhcp-range=fd00:9::100,fd00:9::1ff,64,180", "--dhcp-option=option6:dns-server,[fd00:9::1]")
    lab.start_client()
    until(lambda: lab.interface().get("dhcp6", {}).get("state") == "bound", "an address by DHCPv6")
    until(lambda: re.search(r"inet6 fd00:9::1[0-9a-f]{2}/128", show("addr", "show", "dev", "v0")), "the address is there")
    assert "default via fe80:" in show("-6", "route") and "metric 200" in show("-6", "route")
    assert "nameserver fd00:9::1\n" in lab.resolv()


def test_autoconfiguration_alone(lab):
    lab.server("ip", "addr", "add", "fd00:9::1/64", "dev", "s0", "nodad")
    lab.dnsmasq("--enable-ra", "--dhcp-range=fd00:9::,ra-only,64,600")
    lab.start_client('network lan { match = "name:v0"; dhcp4 = no; }\n')
    until(lambda: lab.interface()["state"] == "up", "an address by autoconfiguration")
    assert "dhcp4" not in lab.interface() and "dhcp6" not in lab.interface()
    assert re.search(r"inet6 fd00:9::.*/64 .*mngtmpaddr|inet6 fd00:9::.*/64", show("addr", "show", "dev", "v0"))
