# SPDX-License-Identifier: Apache-2.0
"""What is told of TLS (ctl, API, metrics), what must not be told (key material, in logs, in the flight recorder, and in memory
after a reload)."""
import re
import signal
import subprocess
import threading

import pytest

from conftest import binary
from harness import engines
from harness import pki as pki_of
from harness.client import ack, frame, hello
from harness.gateway import Gateway
from harness.tls import TlsDevice, context
from harness.wait import until


@pytest.fixture(name="pki")
def made(tmp_path):
    return pki_of.standard(tmp_path)


def listeners(pki, **more):
    return {"tls": {"mode": "publish", "anonymous": True, "tls": {
        "cert": [pki.cert("server"), pki.cert("server-rsa")], "key": [pki.key("server"), pki.key("server-rsa")],
        "client_ca": pki.cert("ca"), **more}}}


def ctl(sluice, gateway, *words):
    done = subprocess.run([sluice, "ctl", "--socket", f"{gateway.directory}/ctl.sock", *words], capture_output=True, text=True,
                          timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_connections_tls_is_shown(engine, run_gateway, sluice, pki):
    gateway = run_gateway(engine, listeners={**listeners(pki), "plain": {"mode": "echo"}})
    with TlsDevice(gateway.address("tls"), context(pki, cert="device", ciphers="ECDHE-ECDSA-AES256-GCM-SHA384")) as device:
        device.send(hello("seen"))
        device.expect(ack(0))
        ident = gateway.conn_of(device)["id"]
        tls = gateway.api(f"/api/conns/{ident}")["tls"]
        assert tls == {"version": "1.2", "suite": "ECDHE-ECDSA-AES256-GCM", "resumed": False, "kernel_send": tls["kernel_send"],
                       "kernel_receive": tls["kernel_receive"], "identity": "device-7"}
        shown = ctl(sluice, gateway, "conn", ident)
        assert re.search(r"^tls +1\.2 ECDHE-ECDSA-AES256-GCM, records by the (gateway|kernel), certificate of device-7$", shown, re.M)


def test_certificates_are_shown(engine, run_gateway, sluice, pki):
    pki.issue("server", "sub", san="DNS:localhost,DNS:gw.example", chain=["sub"], days=20)
    pki.issue("server-rsa", "ca", kind=pki_of.RSA, days=300)
    with open(pki.path("deny"), "w") as f:
        f.write(pki.digest("device"))
    gateway = run_gateway(engine, listeners=listeners(pki, deny=pki.path("deny")))
    shown, = gateway.api("/api/tls")["listeners"]
    assert {k: shown[k] for k in ("listener", "client_certificates", "client_authorities", "denied", "resumption")} == {
        "listener": "tls", "client_certificates": "required", "client_authorities": 1, "denied": 1, "resumption": True}
    first, second = shown["certificates"]
    assert (first["common_name"], first["names"], first["key"], first["chain"], first["state"]) == (
        "server", ["localhost", "gw.example"], "ECDSA P-256", 2, "ends_soon")
    assert (second["key"], second["state"]) == ("RSA 2048", "valid") and 299 * 86400 < second["seconds_left"] <= 300 * 86400
    for file, certificate in (("server", first), ("server-rsa", second)):
        ends = gateway.metric("sluice_tls_certificate_end_seconds", listener="tls", file=pki.cert(file))
        said = subprocess.run(["date", "-u", "-d", certificate["not_after"], "+%s"], capture_output=True, check=True).stdout
        assert int(said) == ends
    table = ctl(sluice, gateway, "tls")
    assert re.search(rf"tls +required +{pki.cert('server')} +server +ECDSA P-256 .* (19|20) days +ends_soon", table), table


def private_numbers(pki, name):
    """The secret numbers of a key file, big-endian and little-endian, in pieces that a copy of any part would have."""
    text = pki_of.run("pkey", "-in", pki.key(name), "-noout", "-text").decode()
    found = []
    for part in ("priv", "privateExponent", "prime1", "prime2"):
        match = re.search(rf"^{part}:\s*\n((?:\s+[0-9a-f:]+\n)+)", text, re.M)
        if match:
            number = bytes.fromhex(re.sub(r"[^0-9a-f]", "", match[1])).lstrip(b"\0")
            found += [number[:16], number[-16:], number[::-1][:16]]
    assert found
    return found


def memory_of(pid):
    """All of a process's memory that it may write to, in pieces."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            addresses, mode = line.split()[:2]
            first, last = (int(x, 16) for x in addresses.split("-"))
            if "w" not in mode or "[v" in line:
                continue
            mem.seek(first)
            try:
                yield mem.read(last - first)
            except OSError:
                pass  # io_uring's rings and the like


def holds(pid, numbers):
    return [n.hex() for n in numbers if any(n in piece for piece in memory_of(pid))]


@pytest.mark.parametrize("name", ["server", "server-rsa"])
def test_an_old_key_is_in_memory_no_more(engine, run_gateway, pki, name):
    """With connections open that were made with it, whose resumption and records go on without it."""
    gateway = run_gateway(engine, workers=2, listeners=listeners(pki))
    old = private_numbers(pki, name)
    with TlsDevice(gateway.address("tls"), context(pki, cert="device")) as device:
        device.send(hello("stays"))
        device.expect(ack(0))
        assert holds(gateway.pid, old), "the key in force is found: the search works"
        pki.issue("server", "sub", san="DNS:localhost", chain=["sub"])
        pki.issue("server-rsa", "ca", kind=pki_of.RSA)
        before = gateway.status()["reloads"]
        gateway.signal(signal.SIGHUP)
        until(lambda: gateway.status()["reloads"] != before, "the reload is done")
        until(lambda: not holds(gateway.pid, old), lambda: f"the old key is wiped, not {holds(gateway.pid, old)}")
        device.send(frame(b"x"))
        device.expect(ack(1))


def test_keys_are_not_told(engine, run_gateway, sluice, pki, tmp_path):
    """Not of the listener, not of a connection: everything that the gateway says at its most talkative."""
    gateway = run_gateway(engine, listeners=listeners(pki), sections={"log": {"level": "debug"}})
    keylog = tmp_path / "keylog"
    tls = context(pki, cert="device")
    tls.keylog_filename = str(keylog)
    with TlsDevice(gateway.address("tls"), tls) as device:
        device.send(hello("talk") + frame(b"x"))
        device.expect(ack(0) + ack(1))
        said = gateway.stderr() + "".join(ctl(sluice, gateway, *words) for words in (
            ["trace"], ["log"], ["config"], ["conns"], ["tls"], ["tls", "--json"], ["status", "--json"], ["metrics"],
            ["conn", gateway.conn_of(device)["id"]]))
        master = keylog.read_text().split()[-1]
        assert len(master) == 96
    secrets = [n.hex() for n in private_numbers(pki, "server") + private_numbers(pki, "server-rsa")]
    pem = [line for line in open(pki.key("server")).read().splitlines() if "-----" not in line]
    for secret in (master, *secrets, *pem):
        assert secret.lower() not in said.lower() and secret not in said


@pytest.mark.parametrize("kind", ["asan", "tsan"])
def test_under_sanitizers(engine, kind, pki):
    """Full and resumed handshakes on two workers, moves between them, a reload and a deny list in the middle of it, refusals."""
    engines.need(engine)
    open(pki.path("deny"), "w").close()
    pki.authority("foreign-ca")
    pki.issue("foreign", "foreign-ca")
    errors = []
    with Gateway(binary(f"SLUICE_{kind.upper()}"), engine, workers=2, slower=4.0,
                 listeners=listeners(pki, deny=pki.path("deny"))) as gateway:
        def client(number):
            try:
                tls, session = context(pki, cert="device"), None
                for i in range(6):
                    with TlsDevice(gateway.address("tls"), tls, session=session, guard_s=60) as device:
                        device.send(hello(f"c{number}-{i}") + frame(b"x" * 20000))
                        device.expect(ack(0) + ack(1))
                        session = device.sock.session if number % 2 else None
            except Exception as e:  # told by the main thread
                errors.append(e)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(6)]
        for t in threads:
            t.start()
        before = gateway.status()["reloads"]
        gateway.signal(signal.SIGHUP)
        with pytest.raises((OSError, AssertionError)):
            with TlsDevice(gateway.address("tls"), context(pki, cert="foreign"), guard_s=60) as device:
                device.send(hello("no"))
                device.expect(ack(0))
        gateway.patient("/api/tls")
        gateway.patient("/metrics")
        until(lambda: gateway.status()["reloads"] != before, "the reload is done", 60)
        for t in threads:
            t.join()
        assert not errors, errors
