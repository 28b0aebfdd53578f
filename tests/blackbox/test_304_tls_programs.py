# SPDX-License-Identifier: Apache-2.0
"""Whole programs over TLS: `sluice pub` and `sub`, and mosquitto's clients, with and without own certificates."""
import subprocess

import pytest

from harness import pki as pki_of
from harness.remotes import needed
from harness.wait import GUARD_S


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    pki = pki_of.standard(tmp_path_factory.mktemp("pki"))
    pki.authority("stranger")
    return pki


@pytest.fixture(scope="module", name="gateway")
def running(pki, sluice, engine):
    from harness.gateway import Gateway
    tls = {"cert": pki.cert("server"), "key": pki.key("server")}
    listeners = {"open": {"protocol": "mqtt", "anonymous": True, "tls": tls},
                 "certified": {"protocol": "mqtt", "tls": {**tls, "client_ca": pki.cert("ca")}}}
    with Gateway(sluice, engine, workers=2, listeners=listeners) as gateway:
        yield gateway


def sluice_client(sluice, gateway, pki, verb, where, *args, ca="ca", cert=None, host="localhost"):
    port = str(gateway.address(where)[1])
    own = ["--cert", pki.cert(cert), "--key", pki.key(cert)] if cert else []
    return subprocess.run([sluice, verb, "-h", host, "-p", port, "--cafile", pki.cert(ca), *own, *args],
                          capture_output=True, text=True, timeout=GUARD_S, check=False)


@pytest.mark.parametrize("where,cert", [("open", None), ("certified", "device")])
def test_pub_and_sub(sluice, gateway, pki, where, cert):
    payload = "x" * 50_000
    done = sluice_client(sluice, gateway, pki, "pub", where, "-t", f"t/{where}", "-q", "2", "-r", "-m", payload,
                         cert=cert)
    assert done.returncode == 0, done.stderr
    got = sluice_client(sluice, gateway, pki, "sub", where, "-t", f"t/{where}", "-C", "1", "-q", "1", cert=cert)
    assert got.returncode == 0 and got.stdout == payload + "\n", got.stderr


@pytest.mark.parametrize("args,said", [
    ({"ca": "stranger"}, "TLS: certificate_untrusted"), ({"host": "127.0.0.1"}, "TLS: certificate_wrong_name"),
    ({"where": "certified"}, "TLS: peer_alert: handshake_failure")])
def test_refusals_have_names(sluice, gateway, pki, args, said):
    args = dict(args)
    where = args.pop("where", "open")
    done = sluice_client(sluice, gateway, pki, "pub", where, "-t", "t", "-m", "x", **args)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_any_name(sluice, gateway, pki):
    done = sluice_client(sluice, gateway, pki, "pub", "open", "-t", "t", "-m", "x", "--insecure", host="127.0.0.1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where,cert", [("open", None), ("certified", "device")])
def test_mosquitto(gateway, pki, where, cert):
    host, port = "localhost", str(gateway.address(where)[1])
    own = ["--cert", pki.cert(cert), "--key", pki.key(cert)] if cert else []
    common = ["-h", host, "-p", port, "--cafile", pki.cert("ca"), "--tls-alpn", "mqtt", *own]
    subprocess.run([needed("mosquitto_pub"), *common, "-t", f"m/{where}", "-m", "kept", "-q", "1", "-r"], check=True,
                   timeout=GUARD_S)
    got = subprocess.run(["mosquitto_sub", *common, "-t", f"m/{where}", "-C", "1"], check=True, capture_output=True,
                         timeout=GUARD_S)
    assert got.stdout == b"kept\n"


def test_a_client_that_wants_small_records(run_gateway, pki, engine):
    """RFC 6066 section 4: openssl ends the connection at a record larger than it has asked for."""
    tls = {"cert": pki.cert("server"), "key": pki.key("server")}
    gateway = run_gateway(engine, listeners={"echo": {"protocol": "frame", "mode": "echo", "max_frame": "64k", "tls": tls}})
    frame = (20_000).to_bytes(4, "big") + bytes(range(250)) * 80
    port = gateway.address("echo")[1]
    client = subprocess.Popen(["openssl", "s_client", "-quiet", "-maxfraglen", "512", "-CAfile", pki.cert("ca"), "-connect",
                               f"localhost:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        client.stdin.write(frame)
        client.stdin.flush()
        assert client.stdout.read(len(frame)) == frame
    finally:
        client.kill()
        client.wait()
