#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes update files and public keys for them; the format is in docs/updates.md and appliance/init/update_header.h.

    update_file.py make --key KEY.pem --arch x86_64 --version 1.2.3 --build SECONDS --image FILE --output FILE
    update_file.py key KEY.pem          the public key as the line of /etc/sluice/update.pub; a private key will do

The private key stays with openssl, which signs; this file only lays out bytes.
"""

import argparse
import hashlib
import re
import struct
import subprocess
import sys

MAGIC = b"SLUICEUP"
FORMAT = 1
HEADER_BYTES = 512
SIGNATURE_AT = 448
ARCHES = {"x86_64": 1, "aarch64": 2}
POINT_BYTES = 65


def openssl(*args, data=None):
    done = subprocess.run(["openssl", *args], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"openssl {args[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def public_point(path):
    """The uncompressed P-256 point of a private or public key in PEM."""
    with open(path, "rb") as file:
        public = b"PUBLIC KEY" in file.read()
    der = openssl("pkey", *(["-pubin"] if public else []), "-in", path, "-pubout", "-outform", "DER")
    # SubjectPublicKeyInfo of id-ecPublicKey with prime256v1 (RFC 5480) has exactly this beginning.
    prefix = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
    if not der.startswith(prefix) or len(der) != len(prefix) + POINT_BYTES:
        sys.exit(f"{path}: not a key on the curve P-256 (openssl ecparam -name prime256v1 -genkey makes one)")
    return der[len(prefix):]


def der_integers(der):
    """r and s of an ECDSA signature in DER (RFC 3279, section 2.2.3)."""
    at, out = 2, []
    for _ in range(2):
        length = der[at + 1]
        out.append(int.from_bytes(der[at + 2:at + 2 + length], "big"))
        at += 2 + length
    return out


def version_number(text):
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if not match or any(int(part) > 65535 for part in match.groups()):
        sys.exit(f"version {text!r}: three numbers are needed, as in 1.2.3")
    major, minor, patch = map(int, match.groups())
    return major << 48 | minor << 32 | patch << 16


def header(args, image):
    """The header up to its signature."""
    version_text = args.version.encode()
    if not re.fullmatch(rb"[!#-\[\]-~]{1,63}", version_text):
        sys.exit("version: at most 63 printable characters without spaces, quotes and backslashes")
    head = MAGIC + struct.pack(">HHHHQQQ", FORMAT, HEADER_BYTES, ARCHES[args.arch], 0, version_number(args.version),
                               args.build, len(image))
    head += hashlib.sha256(image).digest() + version_text.ljust(64, b"\0")
    head += hashlib.sha256(public_point(args.key)).digest()[:8]
    return head.ljust(SIGNATURE_AT, b"\0")


def make(args):
    with open(args.image, "rb") as file:
        image = file.read()
    head = header(args, image)
    r, s = der_integers(openssl("dgst", "-sha256", "-sign", args.key, data=head))
    with open(args.output, "wb") as file:
        file.write(head + r.to_bytes(32, "big") + s.to_bytes(32, "big") + image)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("make")
    for name in ("key", "version", "image", "output"):
        one.add_argument("--" + name, required=True)
    one.add_argument("--arch", choices=ARCHES, required=True)
    one.add_argument("--build", type=int, required=True)
    commands.add_parser("key").add_argument("file")
    args = parser.parse_args()
    if args.command == "key":
        print(public_point(args.file).hex())
    else:
        make(args)


main()
