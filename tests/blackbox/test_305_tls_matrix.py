# SPDX-License-Identifier: Apache-2.0
"""Handshakes by both families of clients, OpenSSL's and BearSSL's (`sluice pub`, `sluice bench mqtt`), over kinds of keys, lengths of
chains, mutual TLS and resumption; and certificates that are broken in ways test_301 does not have."""
import json
import ssl
import subprocess

import pytest

from harness import pki as pki_of
from harness.client import ack, frame, hello
from harness.tls import Cut, TlsDevice, context
from harness.wait import GUARD_S, until

P384 = ("EC", "ec_paramgen_curve:P-384")
KEYS = {"p256": pki_of.EC, "p384": P384, "rsa2048": pki_of.RSA, "rsa3072": ("RSA", "rsa_keygen_bits:3072")}
CHAINS = [0, 1, 3]  # authorities between the certificate and the root


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    pki = pki_of.standard(tmp_path_factory.mktemp("pki"))
    below = {0: ("ca", [])}
    for depth in (1, 2, 3):
        issuer, chain = below[depth - 1]
        pki.authority(f"sub{depth}", issuer)
        below[depth] = (f"sub{depth}", [f"sub{depth}", *chain])
    for name, kind in KEYS.items():
        pki.issue(f"server-{name}", "ca", kind=kind, san="DNS:localhost")
        pki.issue(f"client-{name}", "ca", kind=kind)
    for depth in CHAINS:
        issuer, chain = below[depth]
        pki.issue(f"server-chain{depth}", issuer, san="DNS:localhost", chain=chain)
        pki.issue(f"client-chain{depth}", issuer, chain=chain)
    pki.issue("client-future", "ca", start="20400101000000Z")
    pki.issue("client-weak", "ca", kind=("RSA", "rsa_keygen_bits:1024"))
    pki.issue("client-sha1", "ca", digest="sha1")
    pki.issue("no-authority", "ca")
    pki.issue("client-below-none", "no-authority", chain=["no-authority"])
    pki.issue("client-server-use", "ca", extensions=["basicConstraints=CA:FALSE", "extendedKeyUsage=serverAuth"])
    pki.issue("client-both-uses", "ca", extensions=["basicConstraints=CA:FALSE", "extendedKeyUsage=serverAuth,clientAuth"])
    pki.issue("client-large", "ca", san=",".join(f"DNS:device-{i}.a-rather-long-name.example" for i in range(400)))
    pki.issue("server-expired", "ca", san="DNS:localhost", days=-1)
    pki.issue("server-future", "ca", san="DNS:localhost", start="20400101000000Z")
    return pki


@pytest.fixture(scope="module", name="process")
def running(pki, sluice, engine):
    from harness.gateway import Gateway
    servers = [f"server-{k}" for k in KEYS] + [f"server-chain{c}" for c in CHAINS] + ["server-expired", "server-future"]
    listeners = {n: {"protocol": "mqtt", "anonymous": True, "tls": {"cert": pki.cert(n), "key": pki.key(n)}} for n in servers}
    listeners["mutual"] = {"mode": "publish", "anonymous": True, "tls": {
        "cert": pki.cert("server"), "key": pki.key("server"), "client_ca": pki.cert("ca")}}
    with Gateway(sluice, engine, workers=2, listeners=listeners) as gateway:
        yield gateway


@pytest.fixture(name="gateway")
def checked(process):
    yield from process.for_one_test()


def bearssl(sluice, gateway, pki, where, *more, host="localhost"):
    return subprocess.run([sluice, "pub", "-h", host, "-p", str(gateway.address(where)[1]), "--cafile", pki.cert("ca"), "-t", "t",
                           "-m", "x", "-q", "1", *more], capture_output=True, text=True, timeout=GUARD_S, check=False)


@pytest.mark.parametrize("server", [f"server-{k}" for k in KEYS] + [f"server-chain{c}" for c in CHAINS])
def test_server_keys_and_chains(sluice, gateway, pki, server):
    with TlsDevice(gateway.address(server), context(pki)) as device:
        assert device.sock.version() == "TLSv1.2"
    done = bearssl(sluice, gateway, pki, server)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("client", [f"client-{k}" for k in KEYS] + [f"client-chain{c}" for c in CHAINS] + ["client-both-uses"])
def test_client_keys_and_chains(gateway, pki, client):
    with TlsDevice(gateway.address("mutual"), context(pki, cert=client)) as device:
        device.send(hello(client) + frame(b"x"))
        device.expect(ack(0) + ack(1))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_refused(gateway, pki, version):
    reason = {"reason": "no_common_version"}
    before = gateway.metric("sluice_tls_handshake_failures_total", **reason)
    made = context(pki, ciphers="ALL:@SECLEVEL=0", version=version)
    made.minimum_version = version
    with pytest.raises(ssl.SSLError):
        TlsDevice(gateway.address("server-p256"), made)
    until(lambda: gateway.metric("sluice_tls_handshake_failures_total", **reason) == before + 1, "one more no_common_version")


@pytest.mark.parametrize("client,reason", [
    ("client-future", "certificate_expired"), ("client-weak", "certificate_invalid"), ("client-sha1", "certificate_invalid"),
    ("client-below-none", "certificate_untrusted"), ("client-server-use", "certificate_wrong_usage"),
    ("client-large", "too_large")])
def test_broken_client_certificates(gateway, pki, client, reason):
    def count():
        return gateway.metric("sluice_tls_handshake_failures_total", reason=reason)
    before = count()
    made = context(pki, ciphers="ALL:@SECLEVEL=0")
    made.load_cert_chain(pki.cert(client), pki.key(client))
    with pytest.raises((OSError, AssertionError)):
        with TlsDevice(gateway.address("mutual"), made) as device:
            device.send(hello("broken"))
            device.expect(ack(0))
    until(lambda: count() == before + 1, lambda: gateway.explain(f"{reason} is counted"))


@pytest.mark.parametrize("server", ["server-expired", "server-future"])
def test_bearssl_refuses_a_server_out_of_its_time(sluice, gateway, pki, server):
    done = bearssl(sluice, gateway, pki, server)
    assert done.returncode == 1 and "certificate_expired" in done.stderr, done.stderr


def test_bearssl_resumes(sluice, gateway, pki):
    """The load generator with --resume: every connection after a client's first."""
    done = subprocess.run([sluice, "bench", "mqtt", "storm", "--to", f"127.0.0.1:{gateway.address('server-p256')[1]}", "--cafile",
                           pki.cert("ca"), "--conns", "40", "--at-once", "4", "--resume", "--json", "--wait", "sleep"],
                          capture_output=True, text=True, timeout=GUARD_S, check=False)
    document = json.loads(done.stdout)
    assert document["storm"]["served"] == 40 and document["errors_total"] == 0
    assert document["tls"] == {"full": 4, "resumed": 36}


def test_renegotiation_by_another_hello(gateway, pki):
    """Not by asking for it: a ClientHello in the middle of the stream."""
    closes = gateway.watch_closes()
    with Cut(gateway.address("mutual"), context(pki, cert="device")) as device:
        device.run(device.tls.do_handshake, 65536)
        device.run(lambda: device.tls.write(hello("a")), 65536)
        with pytest.raises(ssl.SSLError):
            device.tls.read(1)  # OpenSSL reads nothing yet
        device.sock.sendall(b"\x16\x03\x03\x00\x20" + b"\0" * 32)
        device.drain_to_end()
    assert sum(closes.deltas().values()) == 1 and "tls_bad_record" in closes.deltas()
