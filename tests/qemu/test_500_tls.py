# SPDX-License-Identifier: Apache-2.0
"""Kernel TLS, in the appliance's own kernel: records of every suite in both directions, alerts, the end of a connection,
records that come cut together with the handshake, connections that move, and other people's clients. The gateway under
test and its configuration are laid over the kernel's built-in files."""
import os
import ssl
import struct
import subprocess

import pytest

from blackbox import pki as pki_of
from blackbox.client import ack, frame, hello
from blackbox.prom import Metrics
from blackbox.tls import Cut, TlsDevice, context
from blackbox.wait import until
from harness.overlay import overlay
from harness.vm import SHORT_GUARD_S, SLOWER, Vm, out

SUITES = ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]
CONFIG = """
engine = "{engine}"; workers = 2;
admin {{ bind = "0.0.0.0:9600"; anonymous = yes; }}
log {{ connections = yes; }}
listener echo {{ protocol = frame; bind = "0.0.0.0:7000"; mode = echo; max_frame = 1m;
    tls {{ cert = "/etc/sluice/server.pem"; key = "/etc/sluice/server.key"; }} }}
listener devices {{ protocol = frame; bind = "0.0.0.0:7001"; mode = publish; anonymous = yes;
    tls {{ cert = "/etc/sluice/server.pem"; key = "/etc/sluice/server.key"; }} }}
listener mqtts {{ protocol = mqtt; bind = "0.0.0.0:8883"; anonymous = yes;
    tls {{ cert = "/etc/sluice/server.pem"; key = "/etc/sluice/server.key"; }} }}
"""


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    return pki_of.standard(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module", name="vm", params=["auto", "epoll-et"])
def booted(request, pki, tmp_path_factory):
    files = {"sluice": out("x86_64", "sluice"), "etc/sluice/sluice.conf": CONFIG.format(engine=request.param).encode(),
             "etc/sluice/server.pem": pki.cert("server"), "etc/sluice/server.key": pki.key("server")}
    initrd = overlay(str(tmp_path_factory.mktemp("overlay") / "tls.cpio"), files)
    with Vm("x86_64", "microvm", memory=192, initrd=initrd, ports=[7000, 7001, 8883, 9600]) as vm:
        vm.wait_ready()
        yield vm


def metric(vm, name, **labels):
    return Metrics(vm.get("/metrics").body.decode()).sum(name, **labels)


def taken_over(vm):
    return [metric(vm, "sluice_tls_kernel_total", direction=d) for d in ("send", "receive")]


def expect_close(vm, before, reason):
    until(lambda: metric(vm, "sluice_closes_total", reason=reason) == before + 1,
          lambda: vm.explain(f"one more close: {reason}"), SHORT_GUARD_S)


def closes(vm, reason):
    return metric(vm, "sluice_closes_total", reason=reason)


def tls_to(vm, port, pki, **settings):
    return TlsDevice(vm.address(port), context(pki, **settings), guard_s=SHORT_GUARD_S)


@pytest.mark.parametrize("suite", SUITES)
def test_kernel_takes_both_directions(vm, pki, suite):
    before, refused = taken_over(vm), metric(vm, "sluice_tls_kernel_refused_total")
    with tls_to(vm, 7000, pki, ciphers=suite) as device:
        for size in (0, 1, 1000, 16384, 70_000, 300_000):
            payload = os.urandom(size)
            device.send(frame(payload))
            assert device.recv_frame() == payload
    # A kernel without this cipher refuses the keys, and nothing else changes.
    config = open(out("x86_64", "kernel.config")).read()
    has = "CHACHA" not in suite or "CONFIG_CRYPTO_CHACHA20POLY1305=y" in config
    assert taken_over(vm) == [count + has for count in before]
    assert metric(vm, "sluice_tls_kernel_refused_total") == refused + (not has)


def test_close_notify_both_ways(vm, pki):
    before = closes(vm, "peer_closed")
    with tls_to(vm, 7000, pki) as device:
        device.send(frame(b"x"))
        assert device.recv_frame() == b"x"
        device.plain = device.sock.unwrap()
        assert device.plain.recv(1) == b""
        device.sock = device.plain
    expect_close(vm, before, "peer_closed")


def test_gateway_says_goodbye(vm, pki):
    with tls_to(vm, 7001, pki) as device:
        device.send(frame(b"no hello"))
        assert device.sock.recv(1) == b""


def test_altered_record(vm, pki):
    before = closes(vm, "tls_bad_record")
    with Cut(vm.address(7000), context(pki)) as device:
        device.run(device.tls.do_handshake, 65536)
        device.run(lambda: device.tls.write(frame(b"good")), 65536)
        assert device.run(lambda: device.tls.read(100), 65536) == frame(b"good")
        device.tls.write(frame(b"bad"))
        data = bytearray(device.outgoing.read())
        data[-1] ^= 1
        device.sock.sendall(data)
        device.drain_to_end()
    expect_close(vm, before, "tls_bad_record")


def test_oversized_record(vm, pki):
    before = closes(vm, "tls_bad_record")
    with Cut(vm.address(7000), context(pki)) as device:
        device.run(device.tls.do_handshake, 65536)
        device.sock.sendall(struct.pack(">BHH", 23, 0x0303, 16384 + 2048) + b"x" * 100)
        device.drain_to_end()
    expect_close(vm, before, "tls_bad_record")


def test_renegotiation_is_refused(vm, pki):
    before = closes(vm, "tls_renegotiation")
    host, port = vm.address(7000)
    subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", pki.cert("ca")],
                   input=b"R\n", capture_output=True, timeout=SHORT_GUARD_S, check=False)
    expect_close(vm, before, "tls_renegotiation")


def test_connections_move_with_their_keys(vm, pki):
    for i in range(8):
        with tls_to(vm, 7001, pki) as device:
            device.send(hello(f"mover-{i}") + frame(b"1") + frame(b"2" * 3000))
            device.expect(ack(0) + ack(1) + ack(2))


def test_data_cut_together_with_a_resumed_handshake(vm, pki):
    """A client that resumes speaks right behind its Finished: with a part of a record there the kernel can not
    receive."""
    tls = context(pki)
    tls.options |= ssl.OP_NO_TICKET
    with TlsDevice(vm.address(7000), tls, guard_s=SHORT_GUARD_S) as device:
        device.send(frame(b"first"))
        assert device.recv_frame() == b"first"
        session = device.sock.session
    for cut in (0, 7, 600):
        with Cut(vm.address(7000), tls, session=session) as device:
            while True:
                try:
                    device.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    device.push(65536)
                    device.incoming.write(device.sock.recv(65536))
            assert device.tls.session_reused
            device.tls.write(frame(b"y" * 1000))
            data = device.outgoing.read()
            device.sock.sendall(data[:len(data) - cut])
            device.sock.sendall(data[len(data) - cut:])
            got = b""
            while len(got) < 1004:
                got += device.run(lambda: device.tls.read(4096), 65536)
            assert got == frame(b"y" * 1000)


def test_mosquitto(vm, pki):
    host, port = vm.address(8883)
    where = ["-h", host, "-p", str(port), "--cafile", pki.cert("ca"), "--tls-version", "tlsv1.2", "--insecure"]
    subprocess.run(["mosquitto_pub", *where, "-t", "t", "-m", "kept", "-q", "1", "-r"], check=True,
                   timeout=SHORT_GUARD_S)
    got = subprocess.run(["mosquitto_sub", *where, "-t", "t", "-C", "1", "-W", str(int(10 * SLOWER))], check=True,
                         capture_output=True, timeout=SHORT_GUARD_S)
    assert got.stdout == b"kept\n"


def test_openssl_s_client(vm, pki):
    host, port = vm.address(7000)
    before = taken_over(vm)
    client = subprocess.Popen(["openssl", "s_client", "-quiet", "-tls1_2", "-connect", f"{host}:{port}", "-CAfile", pki.cert("ca"),
                               "-verify_return_error"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        for size in (1, 5000, 100_000):
            payload = frame(os.urandom(size))
            client.stdin.write(payload)
            client.stdin.flush()
            assert client.stdout.read(len(payload)) == payload
        assert taken_over(vm) == [count + 1 for count in before]
    finally:
        client.kill()
        client.wait()


MQTTJS = """
const client = require("mqtt").connect({host: "%s", port: %d, protocol: "mqtts", ca: require("fs").readFileSync("%s"),
    rejectUnauthorized: true, protocolVersion: 5, maxVersion: "TLSv1.2", checkServerIdentity: () => undefined});
const fail = (what) => { console.error(what); process.exit(1); };
client.on("error", fail);
client.on("connect", () => client.subscribe("js/#", {qos: 1}, (e) => {
    if (e) fail(e);
    client.publish("js/t", Buffer.alloc(70000, "x"), {qos: 2}, (e) => { if (e) fail(e); });
}));
client.on("message", (topic, payload) => { console.log(topic, payload.length); client.end(false, {}, () => process.exit(0)); });
"""


def test_mqttjs(vm, pki):
    before = taken_over(vm)
    got = subprocess.run(["node", "-e", MQTTJS % (*vm.address(8883), pki.cert("ca"))], check=True, capture_output=True, text=True,
                         timeout=SHORT_GUARD_S, env={**os.environ, "NODE_PATH": os.environ["NPM_MODULES"]})
    assert got.stdout == "js/t 70000\n"
    assert taken_over(vm) == [count + 1 for count in before]
