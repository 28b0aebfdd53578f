# SPDX-License-Identifier: Apache-2.0
"""What kernel TLS costs in the appliance's own kernel: memory of an idle connection in user space, and the gateway's CPU for a
delivery beside a plain one. Both ends run inside, the gateway observed by `sluice bench mqtt`. Under TCG only ratios mean
something, and AES costs more there than on a CPU, since each of its instructions is emulated by a function."""
import json
import re

import pytest

from blackbox import pki as pki_of
from harness.helper import helper
from harness.overlay import overlay
from harness.vm import SLOWER, Vm, out

pytestmark = [pytest.mark.nightly, pytest.mark.guard(600)]

CONNS = 1000
USER_BYTES_MAX = 2048
RATIO_MAX = 1.6  # of instructions, which do not depend on the host: 1.51 in each run so far
CONFIG = """
workers = 1;
admin {{ bind = "0.0.0.0:9600"; anonymous = yes; }}
listener plain {{ protocol = mqtt; bind = "127.0.0.1:1883"; anonymous = yes; }}
listener tls {{ protocol = mqtt; bind = "127.0.0.1:8883"; anonymous = yes;
    tls {{ cert = "/etc/sluice/server.pem"; key = "/etc/sluice/server.key"; handshakes_per_address = 256; sessions = {sessions}; }} }}
"""
MESSAGES = ["pairs", "--pairs", "50", "--rate", "4000", "--size", "64", "--duration", "10s", "--warmup", "2s"]
IDLE = ["idle", "--conns", str(CONNS), "--connect-rate", "40", "--duration", "1s"]
GUARD_S = 280 * SLOWER


def documents(console):
    """What `sluice bench mqtt --json` printed, in order."""
    decoder, found = json.JSONDecoder(), []
    for match in re.finditer(r'^\{\s*"format"', console, re.M):
        try:
            found.append(decoder.raw_decode(console[match.start():])[0])
        except ValueError:
            pass
    return found


def measure(tmp_path, pki, load, sessions="yes"):
    """One machine: the load over plain connections and over TLS, and the gateway's own counters of kernel TLS."""
    runs = []
    for port, more in ((1883, []), (8883, ["--cafile", "/etc/sluice/ca.pem"])):
        words = ["bench", "mqtt", *load, "--to", f"127.0.0.1:{port}", "--json", "--wait", "sleep", "--timeout", "120s", *more]
        runs.append("exec:/sluice:" + ",".join(words))
    archive = overlay(str(tmp_path / "over.cpio"), {
        "sluice": out("x86_64", "sluice"), "beside": helper("beside", "x86_64"), "etc/sluice/sluice.conf": CONFIG.format(sessions=sessions).encode(),
        "etc/sluice/server.pem": pki.cert("server"), "etc/sluice/server.key": pki.key("server"), "etc/sluice/ca.pem": pki.cert("ca")})
    with Vm("x86_64", "q35", memory=256, cpus=1, counted=True, initrd=archive, append="rdinit=/beside beside=accept:8883+sleep:3+" + "+".join(runs),
            ports=[9600]) as vm:
        vm.wait_console(r"(?s)beside: exec .*beside: exec ", GUARD_S)
        found = documents(vm.console())
        assert len(found) == 2 and all(d["measured"] and d["errors_total"] == 0 for d in found), vm.explain(found)
        taken = re.findall(r'^sluice_tls_kernel_total\{.*direction="(\w+)".*\} (\d+)$', vm.get("/metrics").body.decode(), re.M)
        return found, {d: sum(int(n) for way, n in taken if way == d) for d in ("send", "receive")}


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    return pki_of.standard(tmp_path_factory.mktemp("pki"))


def test_idle_connections(tmp_path, pki):
    (plain, tls), taken = measure(tmp_path, pki, IDLE, sessions="no")
    assert taken == {"send": CONNS, "receive": CONNS}
    each = [d["memory"]["private_each"] for d in (plain, tls)]
    print(f"user-space bytes for each of {CONNS} idle connections: plain {each[0]:.0f}, kernel TLS {each[1]:.0f}")
    assert each[1] <= USER_BYTES_MAX


def test_messages(tmp_path, pki):
    (plain, tls), taken = measure(tmp_path, pki, MESSAGES)
    assert min(taken.values()) == tls["clients"]
    cpu = [d["server"]["cpu_us_per_exchange"] for d in (plain, tls)]
    print(f"CPU of a delivery: plain {cpu[0]:.1f} us, kernel TLS {cpu[1]:.1f} us, ratio {cpu[1] / cpu[0]:.2f}")
    assert 0 < cpu[0] < cpu[1] < RATIO_MAX * cpu[0]
