# SPDX-License-Identifier: Apache-2.0
"""TLS servers: the handshake over suites and kinds of keys, the choice of a certificate, resumption, records in every
size and cut, and the end of a connection. Clients are OpenSSL's, and exact bytes."""
import os
import socket
import ssl
import struct

import pytest

from harness import pki as pki_of
from harness.client import Device, ack, frame, hello
from harness.tls import (ALERT, DATA, HANDSHAKE, Cut, TlsDevice, client_hello, context, read_record, record)
from harness.wait import until

SUITES = ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
          "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"]
OLD_SUITES = ["AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256", "DHE-RSA-AES128-GCM-SHA256"]


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    return pki_of.standard(tmp_path_factory.mktemp("pki"))


def tls_block(pki, *names, **more):
    return {"cert": [pki.cert(n) for n in names], "key": [pki.key(n) for n in names], **more}


@pytest.fixture(scope="module", name="process")
def running(pki, sluice, engine):
    from harness.gateway import Gateway
    both = tls_block(pki, "server", "server-rsa", "other", alpn="mqtt x-test")
    listeners = {"echo": {"mode": "echo", "max_frame": "1m", "tls": both},
                 "publish": {"mode": "publish", "anonymous": True, "tls": tls_block(pki, "server")},
                 "plain": {"mode": "echo"}}
    with Gateway(sluice, engine, workers=2, listeners=listeners) as gateway:
        yield gateway


@pytest.fixture(name="gateway")
def checked(process):
    yield from process.for_one_test()


def echoes(device, payload):
    device.send(frame(payload))
    assert device.recv_frame() == payload


def failures(gateway, reason):
    return gateway.metric("sluice_tls_handshake_failures_total", reason=reason)


def expect_failure(gateway, before, reason):
    until(lambda: failures(gateway, reason) == before + 1, lambda: gateway.explain(f"one more {reason}"))


@pytest.mark.parametrize("suite", SUITES)
def test_suite(gateway, pki, suite):
    with TlsDevice(gateway.address("echo"), context(pki, ciphers=suite)) as device:
        assert device.sock.version() == "TLSv1.2"
        assert device.sock.cipher()[0] == suite
        echoes(device, b"over " + suite.encode())


def test_p256_alone(gateway, pki):
    """Without X25519, which all other tests here agree on."""
    with TlsDevice(gateway.address("echo"), context(pki, groups="prime256v1")) as device:
        echoes(device, b"P-256")


def test_slow_curves_are_refused(gateway, pki):
    before = failures(gateway, "no_common_cipher")
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        TlsDevice(gateway.address("echo"), context(pki, groups="secp521r1"))
    expect_failure(gateway, before, "no_common_cipher")


@pytest.mark.parametrize("suite", OLD_SUITES)
def test_suite_without_forward_secrecy_or_aead_is_refused(gateway, pki, suite):
    before = failures(gateway, "no_common_cipher")
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        TlsDevice(gateway.address("echo"), context(pki, ciphers=suite + ":@SECLEVEL=0"))
    expect_failure(gateway, before, "no_common_cipher")


def test_a_client_of_tls_13_alone_is_told(gateway, pki):
    made = context(pki, version=ssl.TLSVersion.TLSv1_3)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION|HANDSHAKE_FAILURE"):
        TlsDevice(gateway.address("echo"), made)


def test_a_client_of_13_and_12_gets_12(gateway, pki):
    with TlsDevice(gateway.address("echo"), context(pki, version=ssl.TLSVersion.TLSv1_3)) as device:
        assert device.sock.version() == "TLSv1.2"
        echoes(device, b"1.2")


@pytest.mark.parametrize("name,subject", [("localhost", "server"), ("gw.example", "server"),
                                          ("a.other.example", "other"), ("unknown.example", "server")])
def test_server_name_chooses_the_certificate(gateway, pki, name, subject):
    made = context(pki)
    made.check_hostname = False
    with TlsDevice(gateway.address("echo"), made, name=name) as device:
        names = dict(x[0] for x in device.sock.getpeercert()["subject"])
        assert names["commonName"] == subject


def test_chain_is_sent_whole(gateway, pki):
    """The client knows only the root; the server's certificate comes from an authority below it."""
    with TlsDevice(gateway.address("publish"), context(pki, ca="ca")) as device:
        device.send(hello("chain"))
        device.expect(ack(0))


def test_alpn(gateway, pki):
    with TlsDevice(gateway.address("echo"), context(pki, alpn=["x-test", "mqtt"])) as device:
        assert device.sock.selected_alpn_protocol() == "mqtt"
    with TlsDevice(gateway.address("echo"), context(pki, alpn=["h2"])) as device:
        assert device.sock.selected_alpn_protocol() is None
        echoes(device, b"no common name is no failure")


def resumed(gateway):
    return gateway.metric("sluice_tls_handshakes_total", kind="resumed")


def test_session_is_resumed_by_every_worker(gateway, pki):
    made = context(pki)
    made.options |= ssl.OP_NO_TICKET
    with TlsDevice(gateway.address("echo"), made) as device:
        echoes(device, b"first")
        session = device.sock.session
    before = resumed(gateway)
    for i in range(8):  # more connections than workers
        with TlsDevice(gateway.address("echo"), made, session=session) as device:
            assert device.sock.session_reused
            echoes(device, b"again %d" % i)
    assert resumed(gateway) == before + 8


def test_session_of_another_listener_is_not_resumed(gateway, pki):
    made = context(pki)
    made.options |= ssl.OP_NO_TICKET
    with TlsDevice(gateway.address("echo"), made) as device:
        echoes(device, b"first")
        session = device.sock.session
    with TlsDevice(gateway.address("publish"), made, session=session) as device:
        assert not device.sock.session_reused


@pytest.mark.parametrize("size", [0, 1, 4000, 16384, 16385, 100_000, 900_000])
def test_sizes(gateway, pki, size):
    payload = os.urandom(size)
    with TlsDevice(gateway.address("echo"), context(pki)) as device:
        echoes(device, payload)


def test_many_frames_in_one_record_and_a_frame_in_many(gateway, pki):
    with TlsDevice(gateway.address("echo"), context(pki)) as device:
        device.send(b"".join(frame(b"%d" % i) for i in range(500)))
        for i in range(500):
            assert device.recv_frame() == b"%d" % i
        for byte in frame(b"one at a time"):
            device.send(bytes([byte]))
        assert device.recv_frame() == b"one at a time"


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_records_in_pieces(gateway, pki, piece):
    with Cut(gateway.address("echo"), context(pki)) as device:
        device.run(device.tls.do_handshake, piece)
        device.run(lambda: device.tls.write(frame(b"x" * 3000)), piece)
        got = b""
        while len(got) < 3004:
            got += device.run(lambda: device.tls.read(4096), piece)
        assert got == frame(b"x" * 3000)


def test_connection_moves_to_its_owner_with_what_came_behind(gateway, pki):
    """The hello decides the worker; the frames behind it, and half a record, travel along."""
    for i in range(12):
        with Cut(gateway.address("publish"), context(pki)) as device:
            device.run(device.tls.do_handshake, 65536)
            device.tls.write(hello(f"mover-{i}") + frame(b"1"))
            device.tls.write(frame(b"2" * 2000))
            data = device.outgoing.read()
            device.sock.sendall(data[:-700])
            got = b""
            while len(got) < 24:
                got += device.run(lambda: device.tls.read(4096), 65536)
            device.sock.sendall(data[-700:])
            while len(got) < 36:
                got += device.run(lambda: device.tls.read(4096), 65536)
            assert got == ack(0) + ack(1) + ack(2)


def test_close_notify_is_answered(gateway, pki):
    closes = gateway.watch_closes()
    with TlsDevice(gateway.address("echo"), context(pki)) as device:
        echoes(device, b"x")
        device.plain = device.sock.unwrap()  # waits for the gateway's close_notify
        assert device.plain.recv(1) == b""
        device.sock = device.plain
    closes.expect("peer_closed")


def test_gateway_says_goodbye(gateway, pki):
    with TlsDevice(gateway.address("publish"), context(pki)) as device:
        device.send(frame(b"not a hello"))
        assert device.sock.recv(1) == b""  # an end without close_notify would raise
    gateway.expect_no_conns()


def test_plain_bytes_on_a_tls_port(gateway):
    before = failures(gateway, "not_tls")
    with Device(gateway.address("echo")) as device:
        device.send(frame(b"plain"))
        device.expect_end()
    expect_failure(gateway, before, "not_tls")
    gateway.wait_log(r"127\.0\.0\.1:\d+ on listener echo: TLS handshake failed: not_tls")


@pytest.mark.parametrize("what,data", [
    ("empty record", record(HANDSHAKE, b"")), ("oversized record", struct.pack(">BHH", 22, 0x0301, 20000)),
    ("data first", record(DATA, b"hello")), ("not a hello", record(HANDSHAKE, b"\x02\0\0\0")),
    ("length over the message", record(HANDSHAKE, b"\x01\0\0\x05abcde")),
    ("two hellos", client_hello() + client_hello()), ("a fatal alert", record(ALERT, b"\x02\x28"))])
def test_malformed_handshakes_end(gateway, what, data):
    closes = gateway.watch_closes()
    with Device(gateway.address("echo")) as device:
        device.send(data)
        device.drain_to_end()
    closes.expect("tls_handshake_failed")


def test_renegotiation_is_refused(gateway, pki):
    """OpenSSL's s_client asks for it with R."""
    import subprocess
    host, port = gateway.address("echo")
    closes = gateway.watch_closes()
    client = subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", pki.cert("ca"),
                             "-legacy_renegotiation"], input=b"R\n", capture_output=True, timeout=30, check=False)
    assert b"Verify return code: 0" in client.stdout
    closes.expect("tls_renegotiation")


def test_altered_record_ends_the_connection(gateway, pki):
    closes = gateway.watch_closes()
    with Cut(gateway.address("echo"), context(pki)) as device:
        device.run(device.tls.do_handshake, 65536)
        device.tls.write(frame(b"good"))
        data = bytearray(device.outgoing.read())
        data[-1] ^= 1
        device.sock.sendall(data)
        kind, _ = read_record(device)
        assert kind == ALERT
        device.expect_end()
    closes.expect("tls_bad_record")


def test_oversized_record_ends_the_connection(gateway, pki):
    closes = gateway.watch_closes()
    with Cut(gateway.address("echo"), context(pki)) as device:
        device.run(device.tls.do_handshake, 65536)
        device.sock.sendall(struct.pack(">BHH", 23, 0x0303, 16384 + 2048))
        device.drain_to_end()
    closes.expect("tls_bad_record")


def test_half_open_in_the_middle_of_a_handshake(gateway, pki):
    before = failures(gateway, "peer_closed")
    with Cut(gateway.address("echo"), context(pki)) as device:
        with pytest.raises(ssl.SSLWantReadError):
            device.tls.do_handshake()
        device.push(65536)
        read_record(device)
        device.sock.shutdown(socket.SHUT_WR)
        device.drain_to_end()
    expect_failure(gateway, before, "peer_closed")


def test_plain_listener_beside_it_is_plain(gateway):
    with Device(gateway.address("plain")) as device:
        device.send(frame(b"plain"))
        device.expect(frame(b"plain"))
