# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made with the openssl program: authorities, servers, devices, and every broken kind."""
import os
import subprocess

EC, RSA = ("EC", "ec_paramgen_curve:P-256"), ("RSA", "rsa_keygen_bits:2048")


def run(*args, text=None):
    done = subprocess.run(["openssl", *args], input=text, capture_output=True, check=False)
    assert done.returncode == 0, f"openssl {args}: {done.stderr.decode()}"
    return done.stdout


class Pki:
    """Files in one directory. A name stands for NAME.pem (certificates, own first) and NAME.key."""

    def __init__(self, directory):
        self.directory = str(directory)
        self.serial = 1000

    def path(self, name):
        return os.path.join(self.directory, name)

    def cert(self, name):
        return self.path(name + ".pem")

    def key(self, name):
        return self.path(name + ".key")

    def make_key(self, name, kind=EC):
        run("genpkey", "-algorithm", kind[0], "-pkeyopt", kind[1], "-out", self.key(name))

    def authority(self, name, issuer=None, kind=EC):
        return self.issue(name, issuer or name, kind, extensions=["basicConstraints=critical,CA:TRUE",
                                                                 "keyUsage=critical,keyCertSign,cRLSign"])

    def issue(self, name, issuer, kind=EC, cn=None, san=None, days=30, extensions=(), chain=(), start=None,
              digest="sha256"):
        """san: "DNS:a,DNS:*.b". days below 0: ended. start: "20400101000000Z", for ten years. chain: names whose own
        certificates follow."""
        self.make_key(name, kind)
        self.serial += 1
        subject = f"/O=test/CN={cn if cn is not None else name}"
        lines = ["basicConstraints=CA:FALSE"] if not extensions else list(extensions)
        if san:
            lines.append("subjectAltName=" + san)
        with open(self.path(name + ".ext"), "w") as f:
            f.write("\n".join(lines) + "\n")
        request = run("req", "-new", "-key", self.key(name), "-subj", subject, "-sha256")
        if start:
            return self._issue_from(name, issuer, request, start, chain)
        dates = ["-days", str(days)]
        signer = ["-key", self.key(name)] if issuer == name else ["-CA", self.cert(issuer), "-CAkey", self.key(issuer)]
        own = run("x509", "-req", *signer, "-set_serial", str(self.serial), *dates, "-" + digest, "-extfile",
                  self.path(name + ".ext"), text=request)
        return self._write(name, own, chain)

    def _write(self, name, own, chain):
        with open(self.cert(name), "wb") as f:
            f.write(own)
            for other in chain:  # its own certificate, which comes first there
                f.write(run("x509", "-in", self.cert(other)))
        return name

    def _issue_from(self, name, issuer, request, start, chain):
        """`openssl x509` can not say when a certificate begins, `openssl ca` can."""
        base = self.path(name)
        for file, text in ((".request", request), (".index", b""), (".conf", (
                f"[ca]\ndefault_ca = a\n[a]\ndatabase = {base}.index\nnew_certs_dir = {self.directory}\n"
                f"rand_serial = yes\ndefault_md = sha256\npolicy = any\nunique_subject = no\n[any]\ncommonName = supplied\n").encode())):
            with open(base + file, "wb") as f:
                f.write(text)
        end = f"{int(start[:4]) + 10}{start[4:]}"
        own = run("ca", "-batch", "-notext", "-config", base + ".conf", "-cert", self.cert(issuer), "-keyfile", self.key(issuer),
                  "-in", base + ".request", "-startdate", start, "-enddate", end, "-extfile", base + ".ext")
        return self._write(name, own, chain)

    def digest(self, name):
        der = run("x509", "-in", self.cert(name), "-outform", "DER")
        return run("dgst", "-sha256", "-r", text=der).split()[0].decode()

    def crl(self, name, issuer, revoked):
        """A revocation list NAME.pem with the certificates of these names."""
        base = self.path(name)
        with open(base + ".index", "w") as f:
            for one in revoked:
                serial = run("x509", "-in", self.cert(one), "-noout", "-serial").decode().strip().split("=")[1]
                f.write(f"R\t351231235959Z\t200101000000Z\t{serial}\tunknown\t/CN={one}\n")
        with open(base + ".conf", "w") as f:
            f.write(f"[ca]\ndefault_ca = a\n[a]\ndatabase = {base}.index\ndefault_md = sha256\n"
                    f"default_crl_days = 30\n")
        run("ca", "-gencrl", "-config", base + ".conf", "-cert", self.cert(issuer), "-keyfile", self.key(issuer),
            "-out", self.cert(name))
        return name


def standard(directory):
    """What most tests need: an authority with an intermediate one, servers with both kinds of key, devices."""
    pki = Pki(directory)
    pki.authority("ca")
    pki.authority("sub", "ca")
    pki.issue("server", "sub", san="DNS:localhost,DNS:gw.example", chain=["sub"])
    pki.issue("server-rsa", "ca", kind=RSA, san="DNS:localhost")
    pki.issue("other", "ca", san="DNS:*.other.example")
    pki.issue("device", "ca", cn="device-7", san="DNS:device-7.fleet,email:seven@fleet,URI:urn:dev:7")
    return pki
