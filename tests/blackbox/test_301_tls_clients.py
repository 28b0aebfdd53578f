# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS: certificates of clients, good and of every broken kind, required and optional, denied by list and digest,
and the name in them."""
import ssl

import pytest

from harness import pki as pki_of
from harness.client import ack, frame, hello
from harness.tls import TlsDevice, context
from harness.wait import until

GOOD, NONE = "good", "none"


@pytest.fixture(scope="module", name="pki")
def made(tmp_path_factory):
    pki = pki_of.standard(tmp_path_factory.mktemp("pki"))
    pki.authority("foreign-ca")
    pki.issue("foreign", "foreign-ca")
    pki.issue("expired", "ca", days=-1)
    pki.issue("revoked", "ca")
    pki.issue("denied", "ca")
    pki.issue("below", "sub", chain=["sub"])
    pki.issue("unchained", "sub")
    pki.issue("rsa-device", "ca", kind=pki_of.RSA)
    pki.issue("server-only", "ca", extensions=["basicConstraints=CA:FALSE", "keyUsage=critical,keyAgreement"])
    pki.issue("critical", "ca", extensions=["basicConstraints=CA:FALSE", "1.2.3.4=critical,ASN1:NULL"])
    pki.crl("crl", "ca", ["revoked"])
    with open(pki.path("digests"), "w") as f:
        f.write("# lost in the field\n" + pki.digest("denied") + "\n")
    return pki


def listener(pki, **tls):
    return {"mode": "publish", "anonymous": True,
            "tls": {"cert": pki.cert("server"), "key": pki.key("server"), "client_ca": pki.cert("ca"), **tls}}


@pytest.fixture(scope="module", name="process")
def running(pki, sluice, engine):
    from harness.gateway import Gateway
    deny = [pki.cert("crl"), pki.path("digests")]
    listeners = {"required": listener(pki, deny=deny), "optional": listener(pki, client_auth="optional", deny=deny),
                 "dns": listener(pki, identity="san_dns"), "uri": listener(pki, identity="san_uri"),
                 "email": listener(pki, identity="san_email")}
    with Gateway(sluice, engine, workers=2, listeners=listeners) as gateway:
        yield gateway


@pytest.fixture(name="gateway")
def checked(process):
    yield from process.for_one_test()


def attempt(gateway, pki, where, cert):
    """A whole connection: the gateway's verdict on a certificate comes behind the client's own handshake."""
    tls = context(pki, cert=cert)
    tls.options |= ssl.OP_NO_TICKET
    with TlsDevice(gateway.address(where), tls) as device:
        device.send(hello(f"client-{cert}"))
        device.expect(ack(0))
        device.send(frame(b"x"))
        device.expect(ack(1))


@pytest.mark.parametrize("cert", ["device", "rsa-device", "below"])
@pytest.mark.parametrize("where", ["required", "optional"])
def test_good_certificate(gateway, pki, where, cert):
    attempt(gateway, pki, where, cert)


def test_without_certificate(gateway, pki):
    attempt(gateway, pki, "optional", None)
    refused(gateway, pki, "required", None, "no_certificate")


def refused(gateway, pki, where, cert, reason):
    def count():
        return gateway.metric("sluice_tls_handshake_failures_total", reason=reason)
    before = count()
    with pytest.raises((OSError, AssertionError)):
        attempt(gateway, pki, where, cert)
    until(lambda: count() == before + 1, lambda: gateway.explain(f"{reason} is counted"))
    gateway.wait_log(rf"127\.0\.0\.1:\d+ on listener {where}: TLS handshake failed: {reason}")


@pytest.mark.parametrize("where", ["required", "optional"])
@pytest.mark.parametrize("cert,reason", [
    ("foreign", "certificate_untrusted"), ("expired", "certificate_expired"), ("revoked", "certificate_revoked"),
    ("denied", "certificate_revoked"), ("unchained", "certificate_untrusted"),
    ("server-only", "certificate_wrong_usage"), ("critical", "certificate_invalid")])
def test_broken_certificate(gateway, pki, where, cert, reason):
    """With client_auth = optional a certificate may be absent, but not wrong."""
    refused(gateway, pki, where, cert, reason)


@pytest.mark.parametrize("where,name", [("required", "device-7"), ("dns", "device-7.fleet"), ("uri", "urn:dev:7"),
                                        ("email", "seven@fleet")])
def test_name_of_a_client(gateway, pki, where, name):
    with TlsDevice(gateway.address(where), context(pki, cert="device")) as device:
        device.send(hello("named"))
        device.expect(ack(0))
        gateway.wait_log(f"certificate of {name}")


def test_certificate_without_that_name(gateway, pki):
    refused(gateway, pki, "dns", "rsa-device", "certificate_no_identity")


def test_resumed_session_keeps_the_name(gateway, pki):
    tls = context(pki, cert="device")
    tls.options |= ssl.OP_NO_TICKET
    session = None
    for number in range(4):
        with TlsDevice(gateway.address("required"), tls, session=session) as device:
            device.send(hello("back"))
            device.expect(ack(0))
            assert device.sock.session_reused == (number > 0)
            session = session or device.sock.session
    gateway.wait_log(", resumed, certificate of device-7")
