# SPDX-License-Identifier: Apache-2.0
"""Accounts, tokens and SCRAM exchanges as others make them: Python's hashlib and hmac."""
import base64
import hashlib
import hmac
import json
import os
import time

SALT = b"0123456789abcdef"
SECRET = "0123456789abcdef0123456789abcdef"


def b64(data):
    return base64.b64encode(data).decode()


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def crypt_line(user, password, iterations=101):
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), SALT, iterations)
    return f"{user}:$7${iterations}${b64(SALT)}${b64(key)}\n"


def scram_line(user, password, iterations=4096):
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return f"{user}:SCRAM-SHA-256${iterations}:{b64(SALT)}${b64(stored)}:{b64(hmac.digest(salted, b'Server Key', 'sha256'))}\n"


def token(secret=SECRET, lasts=3600, header=None, **claims):
    claims = {"exp": int(time.time()) + lasts, **claims}
    head = url64(json.dumps(header or {"alg": "HS256", "typ": "JWT"}).encode())
    text = f"{head}.{url64(json.dumps(claims).encode())}"
    return f"{text}.{url64(hmac.digest(secret.encode(), text.encode(), 'sha256'))}"


class Scram:
    """The client's side of RFC 5802 with SHA-256."""

    def __init__(self, user, password):
        self.user, self.password, self.nonce = user, password, b64(os.urandom(18))
        self.bare = f"n={user},r={self.nonce}"

    @property
    def first(self):
        return f"n,,{self.bare}".encode()

    def final(self, challenge):
        challenge = challenge.decode()
        fields = dict(part.split("=", 1) for part in challenge.split(","))
        assert fields["r"].startswith(self.nonce) and len(fields["r"]) > len(self.nonce)
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = f"c=biws,r={fields['r']}"
        message = f"{self.bare},{challenge},{without_proof}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature))
        self.expected = b"v=" + base64.b64encode(
            hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256"))
        return f"{without_proof},p={b64(proof)}".encode()


class Files:
    """Files beside a gateway's configuration, replaced as a whole."""

    def __init__(self, directory):
        self.directory = directory

    def write(self, name, text):
        path = f"{self.directory}/{name}"
        with open(path + ".new", "w") as f:
            f.write(text)
        os.replace(path + ".new", path)
        return path
