# SPDX-License-Identifier: Apache-2.0
"""Certificates, keys, authorities and deny lists are read again on a reload: nobody who is connected notices, new
handshakes use what is new, and a mistake leaves everything as it was and says which file and why."""
import json
import os
import signal
import subprocess

import pytest

from harness import pki as pki_of
from harness.client import ack, frame, hello
from harness.tls import TlsDevice, context
from harness.wait import until


@pytest.fixture(name="pki")
def made(tmp_path):
    return pki_of.standard(tmp_path)


def listeners(pki, **more):
    return {"tls": {"mode": "publish", "anonymous": True, "tls": {
        "cert": pki.cert("server"), "key": pki.key("server"), **more}}}


def reload(gateway):
    before = gateway.status()["reloads"]
    gateway.write_config()
    gateway.signal(signal.SIGHUP)
    until(lambda: gateway.status()["reloads"] != before, lambda: gateway.explain("the reload is done"))


def serial(gateway, pki):
    with TlsDevice(gateway.address("tls"), context(pki)) as device:
        return device.sock.getpeercert()["serialNumber"]


def test_new_certificate_for_new_handshakes(engine, run_gateway, pki):
    gateway = run_gateway(engine, workers=2, listeners=listeners(pki))
    first = serial(gateway, pki)
    with TlsDevice(gateway.address("tls"), context(pki)) as device:
        device.send(hello("stays"))
        device.expect(ack(0))
        pki.issue("server", "sub", san="DNS:localhost", chain=["sub"], days=20)
        reload(gateway)
        device.send(frame(b"still here"))
        device.expect(ack(1))
        assert serial(gateway, pki) != first
    assert gateway.metric("sluice_tls_certificate_end_seconds", listener="tls", file=pki.cert("server")) > 0
    gateway.wait_log(r"the certificate in .*server\.pem ends in \d+ days")


def test_a_crowd_is_not_dropped(engine, run_gateway, sluice, pki):
    """`./build.sh bench tls reload` does it with 5,000."""
    gateway = run_gateway(engine, workers=2, listeners={"tls": {"protocol": "mqtt", "anonymous": True, "tls": {
        "cert": pki.cert("server"), "key": pki.key("server"), "handshakes_per_address": 256}}})
    before = serial(gateway, pki)
    command = [sluice, "bench", "mqtt", "idle", "--to", f"127.0.0.1:{gateway.address('tls')[1]}", "--cafile", pki.cert("ca"),
               "--conns", "200", "--connect-rate", "1000", "--duration", "3s", "--json", "--wait", "sleep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crowd:
        until(lambda: gateway.metric("sluice_tls_handshakes_total") >= 201, "all are connected")
        pki.issue("server", "sub", san="DNS:localhost", chain=["sub"])
        reload(gateway)
        assert serial(gateway, pki) != before
        document = json.loads(crowd.communicate()[0])
    assert document["alive"] == 200 and document["errors_total"] == 0


def deny(pki, kind, names):
    """Writes the deny list; returns its path."""
    if kind == "revocation list":
        return pki.cert(pki.crl("revoked", "ca", names))
    with open(pki.path("deny"), "w") as f:
        f.write("".join(pki.digest(n) + "\n" for n in names))
    return pki.path("deny")


@pytest.mark.parametrize("kind", ["digests", "revocation list"])
def test_denied_after_a_reload(engine, run_gateway, pki, kind):
    gateway = run_gateway(engine, listeners=listeners(pki, client_ca=pki.cert("ca"), deny=deny(pki, kind, [])))
    tls = context(pki, cert="device")
    with TlsDevice(gateway.address("tls"), tls) as device:
        device.send(hello("a"))
        device.expect(ack(0))
        session = device.sock.session
        deny(pki, kind, ["device"])
        reload(gateway)
        device.send(frame(b"x"))
        device.expect(ack(1))
    with pytest.raises((OSError, AssertionError)):  # also not by the session of before
        with TlsDevice(gateway.address("tls"), tls, session=session) as device:
            device.send(hello("b"))
            device.expect(ack(0))


def broken(pki, kind):
    """Makes the server's files wrong; returns what is said of it."""
    if kind == "no file":
        os.unlink(pki.cert("server"))
        return r"server\.pem: can not be read: .*ENOENT"
    if kind == "no key":
        os.unlink(pki.key("server"))
        return r"server\.key: can not be read"
    if kind == "other key":
        pki.make_key("server")
        return r"server\.key: is not the key of the certificate in .*server\.pem"
    if kind == "rsa key":
        pki.make_key("server", pki_of.RSA)
        return r"server\.key: is not the key of the certificate in .*server\.pem"
    if kind == "not PEM":
        text = open(pki.cert("server")).read().splitlines()
        text[3] = "*" * 64
        open(pki.cert("server"), "w").write("\n".join(text) + "\n")
        return r"server\.pem:4: not valid PEM"
    if kind == "cut":
        text = open(pki.cert("server")).read().split("-----END")[0].splitlines()
        open(pki.cert("server"), "w").write("\n".join(text[:6]) + "\n-----END CERTIFICATE-----\n")
        return r"server\.pem:1: the certificate is damaged at its byte \d+"
    if kind == "key in the certificate's place":
        open(pki.cert("server"), "w").write(open(pki.key("server")).read())
        return r"server\.pem: no certificate in it"
    if kind == "encrypted key":
        pki_of.run("pkcs8", "-topk8", "-in", pki.key("server"), "-passout", "pass:x", "-out", pki.path("sealed"))
        os.replace(pki.path("sealed"), pki.key("server"))
        return r"server\.key:1: the private key is encrypted"
    if kind == "small RSA":
        pki.issue("server", "ca", kind=("RSA", "rsa_keygen_bits:1024"))
        return r"server\.key: an RSA key of 1024 bits; allowed: 2048 to 4096"
    raise KeyError(kind)


KINDS = ["no file", "no key", "other key", "rsa key", "not PEM", "cut", "key in the certificate's place",
         "encrypted key", "small RSA"]


@pytest.mark.parametrize("kind", KINDS)
def test_check_names_the_mistake(make_gateway, sluice, pki, kind):
    import re
    gateway = make_gateway(listeners=listeners(pki))
    said = broken(pki, kind)
    gateway.write_config()
    done = subprocess.run([sluice, "check", "-c", gateway.config_path], capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode == 2
    assert re.search("listener tls: tls: .*" + said, done.stderr), done.stderr


def test_refused_reload_changes_nothing(engine, run_gateway, pki):
    gateway = run_gateway(engine, listeners=listeners(pki))
    first = serial(gateway, pki)
    pki.make_key("server")
    gateway.signal(signal.SIGHUP)
    gateway.wait_log("reload: refused, .*is not the key of the certificate")
    assert serial(gateway, pki) == first


def test_deny_list_by_a_stranger_is_refused(make_gateway, sluice, pki):
    pki.authority("stranger")
    pki.crl("crl", "stranger", [])
    gateway = make_gateway(listeners=listeners(pki, client_ca=pki.cert("ca"), deny=pki.cert("crl")))
    gateway.write_config()
    done = subprocess.run([sluice, "check", "-c", gateway.config_path], capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode == 2 and "not signed by a certificate in client_ca" in done.stderr
