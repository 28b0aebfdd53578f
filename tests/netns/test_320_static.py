# SPDX-License-Identifier: Apache-2.0
"""Static addresses, routes, servers and MTU, by configuration and by words of the kernel's command line."""
import re

from lab import show, until

BLOCK = '''network lan {
    match = "name:v0"; address = "192.0.2.5/24 2001:db8::5/64"; gateway = "192.0.2.1 fe80::1";
    routes = "10.0.0.0/8 via 192.0.2.254"; dns = "192.0.2.53"; mtu = 1400; slaac = no;
}
'''


def test_all_of_a_block(lab):
    lab.start_client(BLOCK)
    until(lambda: lab.interface()["state"] == "up", "the interface is up")
    assert lab.has_address("192.0.2.5/24")
    until(lambda: lab.has_address("2001:db8::5/64"), "the IPv6 address")
    routes = show("route")
    assert re.search(r"default via 192.0.2.1 dev v0 .*metric 50", routes)
    assert re.search(r"10.0.0.0/8 via 192.0.2.254 dev v0", routes)
    assert "default via fe80::1 dev v0" in show("-6", "route")
    assert lab.resolv() == "nameserver 192.0.2.53\n"
    assert "mtu 1400" in show("link", "show", "dev", "v0")
    assert "dhcp4" not in lab.interface()


def test_words_of_the_command_line_change_single_keys(lab):
    lab.start_client(BLOCK, "--words", "sluice.conf.network.lan.address=192.0.2.6/24 sluice.conf.network.lan.gateway=192.0.2.1 "
                                       "sluice.conf.log.level=debug quiet")
    until(lambda: lab.has_address("192.0.2.6/24"), "the address of the command line")
    settings = {row["key"]: row for row in lab.ask("config")["settings"]}
    assert settings["network.lan.address"]["source"] == "kernel command line"
    assert settings["log.level"]["value"] == "debug"
    assert settings["network.lan.mtu"]["source"].startswith("default ") and settings["network.lan.mtu"]["line"] == 4
    assert settings["network.lan.vlan"]["source"] == "built in"


def test_an_unknown_key_of_the_command_line_is_named_and_left_out(lab):
    lab.start_client(BLOCK, "--words", "sluice.conf.wrokers=2")
    lab.wait_log(r"kernel command line: unknown key 'wrokers'.*did you mean 'workers'")
    until(lambda: lab.has_address("192.0.2.5/24"), "the rest is in force")
    answer = lab.ask("config")
    assert answer["in_force"] == "reduced"
    assert [s["state"] for s in answer["sources"] if s["name"] == "kernel command line"] == ["left out"]
    assert any("wrokers" in p for p in answer["problems"])


def test_a_block_nobody_can_use_is_refused_with_its_line(lab):
    lab.start_client('network lan { address = "192.0.2.5/24"; gateway = "198.51.100.1" }\n')
    lab.wait_log(r"default .*:2: network lan: gateway: is in none of the networks of address")
    assert lab.ask("config")["in_force"] == "built in"
