# SPDX-License-Identifier: Apache-2.0
"""Handshakes under pressure (`./build.sh bench tls storm` has the figures of 5,000): a storm is served whole while connected devices are answered, clients that hold places
without using them give way, and none waits beyond the deadline."""
import threading

import pytest

from harness import pki as pki_of
from harness.client import Device, frame
from harness.tls import TlsDevice, client_hello, context
from harness.wait import until


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    return pki_of.standard(tmp_path_factory.mktemp("pki"))


def listeners(pki, **more):
    return {"echo": {"mode": "echo", "tls": {"cert": pki.cert("server"), "key": pki.key("server"), **more}}}


def test_storm_is_served(engine, run_gateway, pki):
    gateway = run_gateway(engine, workers=1, listeners=listeners(pki, handshakes_per_address=8))
    tls, served, errors = context(pki), [], []

    def client(count):
        try:
            for _ in range(count):
                with TlsDevice(gateway.address("echo"), tls) as device:
                    device.send(frame(b"storm"))
                    served.append(device.recv_frame())
        except Exception as e:  # told by the main thread
            errors.append(e)

    with TlsDevice(gateway.address("echo"), tls) as before:
        threads = [threading.Thread(target=client, args=(5,)) for _ in range(20)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            before.send(frame(b"established"))
            assert before.recv_frame() == b"established"
        for t in threads:
            t.join()
    assert not errors and len(served) == 100
    assert gateway.metric("sluice_tls_handshakes_total", kind="full") >= 101


def test_silent_clients_do_not_keep_others_out(engine, run_gateway, pki):
    """More half handshakes than one address may have: the next client waits until one of them gives way."""
    gateway = run_gateway(engine, workers=1, listeners=listeners(pki, handshakes_per_address=4))
    silent = []
    for _ in range(4):
        silent.append(Device(gateway.address("echo")))
        silent[-1].send(client_hello())
    until(lambda: gateway.metric("sluice_tls_handshaking") == 4, "their handshakes are under way")
    with TlsDevice(gateway.address("echo"), context(pki)) as device:
        device.send(frame(b"in"))
        assert device.recv_frame() == b"in"
    assert gateway.metric("sluice_tls_handshake_failures_total", reason="slow") >= 1
    for device in silent:
        device.close()
    gateway.expect_no_conns()


@pytest.mark.parametrize("first", [b"", client_hello()[:20], client_hello()])
def test_deadline(engine, run_gateway, pki, first):
    gateway = run_gateway(engine, listeners=listeners(pki, handshake_timeout="1s"))
    closes = gateway.watch_closes()
    with Device(gateway.address("echo")) as device:
        device.send(first)
        device.drain_to_end()
    closes.expect("tls_handshake_timeout")
    gateway.wait_log("closed: tls_handshake_timeout")


def test_one_byte_at_a_time(engine, run_gateway, pki):
    """A slow-loris is ended by the deadline, however busy it looks."""
    gateway = run_gateway(engine, listeners=listeners(pki, handshake_timeout="1s"))
    closes = gateway.watch_closes()
    with Device(gateway.address("echo")) as device:
        data = iter(client_hello() * 100)
        try:
            while True:
                device.sock.settimeout(0.02)
                device.send(bytes([next(data) if not closes.delta("tls_handshake_timeout") else 0]))
                try:
                    if device.sock.recv(1) == b"":
                        break
                except TimeoutError:
                    pass
        except OSError:
            pass
    closes.expect("tls_handshake_timeout")
