# SPDX-License-Identifier: Apache-2.0
"""NATS nkeys and JWTs for tests, signed with the openssl program: users, accounts and operators (docs.nats.io, "NKeys" and
"JWTs"; ADR-14)."""
import base64
import json
import os
import struct
import subprocess
import tempfile
import time

KINDS = {"user": 20 << 3, "account": 0, "operator": 14 << 3}
SEED = 18 << 3
PKCS8 = bytes.fromhex("302e020100300506032b657004220420")  # RFC 8410 section 7, before the seed
LIMITS = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True,
          "conn": -1, "leaf": -1}
JETSTREAM = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}  # the system account can not have it


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def base32(data):
    return base64.b32encode(data + struct.pack("<H", crc16(data))).decode().rstrip("=")


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Nkey:
    def __init__(self, kind):
        self.kind, secret, prefix = kind, os.urandom(32), KINDS[kind]
        self.seed = base32(bytes([SEED | prefix >> 5, (prefix & 31) << 3]) + secret)
        self.der = PKCS8 + secret
        public = self._openssl("pkey", "-inform", "DER", "-in", self.file(self.der), "-pubout", "-outform", "DER")[-32:]
        self.public = base32(bytes([prefix]) + public)

    @staticmethod
    def file(data):
        with tempfile.NamedTemporaryFile(delete=False) as f:
            f.write(data)
        return f.name

    @staticmethod
    def _openssl(*args):
        files = [a for a in args if a.startswith(tempfile.gettempdir())]
        try:
            return subprocess.run(["openssl", *args], check=True, capture_output=True).stdout
        finally:
            for name in files:
                os.unlink(name)

    def sign(self, data):
        return self._openssl("pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", self.file(self.der), "-in", self.file(data))


def jwt(issuer, subject, name, nats, **more):
    """Of the issuer's key about the subject's."""
    kind = subject.kind
    claims = {"jti": base32(os.urandom(32)), "iat": int(time.time()), "iss": issuer.public, "sub": subject.public, "name": name,
              "nats": {**nats, "type": kind, "version": 2}, **more}
    head = base64url(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    text = f"{head}.{base64url(json.dumps(claims).encode())}"
    return f"{text}.{base64url(issuer.sign(text.encode()))}"


class Operator:
    """An operator, its system account and one account, and users of that."""

    def __init__(self):
        self.key, self.account, self.system = Nkey("operator"), Nkey("account"), Nkey("account")
        self.jwt = jwt(self.key, self.key, "operator", {})
        self.accounts = {
            a.public: jwt(self.key, a, name, {"limits": {**LIMITS, **more}, "default_permissions": {"pub": {}, "sub": {}}})
            for a, name, more in ((self.account, "site", JETSTREAM), (self.system, "SYS", {}))}

    def server(self):
        """Lines for a server's configuration."""
        preload = "\n".join(f"  {public}: {text}" for public, text in self.accounts.items())
        return (f"operator: {self.jwt}\nsystem_account: {self.system.public}\nresolver: MEMORY\nresolver_preload {{\n{preload}\n}}\n")

    def user(self, name="u", **more):
        """(key, JWT) of a new user."""
        key = Nkey("user")
        return key, jwt(self.account, key, name, {"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}, **more)


def credentials(key, text):
    """What a .creds file holds."""
    return (f"-----BEGIN NATS USER JWT-----\n{text}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n"
            "NKEY Seed printed below can be used to sign and prove identity.\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n\n"
            "*************************************************************\n")


def login(key, text=None):
    """For harness.jetstream.Client: what its CONNECT says, signed."""
    def members(info):
        signed = {"sig": base64url(key.sign(info["nonce"].encode()))}
        return {**signed, "jwt": text} if text else {**signed, "nkey": key.public}
    return members
