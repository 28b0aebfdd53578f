#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials of an image as SPDX 2.3 in JSON, and checks one.

    sbom.py write --arch A --version V --commit C --created TIME --lock REPORT --debs FILE --gcc VERSION
                  --system FILE --binary FILE [--image FILE] --output FILE
    sbom.py check FILE

REPORT is the build's lock report (what each pinned source was resolved to); --debs names a file with lines
NAME VERSION LICENCE ARCHITECTURE SHA256 FILE POOL of the binary packages that were taken apart.
"""

import argparse
import hashlib
import json
import re
import sys

PRODUCT = "SPDXRef-sluice-image"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def package(name, version, licence, checksum, source, purl=None):
    """One package with every field that SPDX 2.3 wants, and where it came from."""
    entry = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "sourceInfo": source,
    }
    if checksum:
        entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": checksum}]
    if purl:
        entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                  "referenceLocator": purl}]
    return entry


def quoted(version):
    return version.replace("+", "%2B")


def sources(report):
    """The pinned sources: a line NAME PINNED USED STATE LICENCE, then lines of their files' hashes."""
    found, files = [], []
    with open(report, encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if line.startswith("#") or not words:
                continue
            if line[0].isspace():
                files.append((words[0], words[1]))
            else:
                files = []
                found.append((words, files))
    out = []
    for (name, _, used, state, licence), files in found:
        listed = ", ".join(f"{file} (SHA-256 {digest})" for digest, file in files)
        note = "" if state == "pinned" else "; the archive's current version of the pinned series"
        package_name = files[0][1].split("_")[0] if files else name
        out.append(package(name, used, licence, files[0][0] if files else None,
                           f"Debian source package {package_name} {used}: {listed}{note}",
                           f"pkg:deb/debian/{package_name}@{quoted(used)}?arch=source"))
    return out


def loaders(path):
    out = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            name, version, licence, arch, digest, file, pool = line.split()
            out.append(package(name, version, licence, digest, f"Debian package {pool}/{file}",
                               f"pkg:deb/debian/{name}@{quoted(version)}?arch={arch}"))
    return out


def relate(of, kind, to):
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to}


def write(args):
    product = package("sluice-image", args.version, "Apache-2.0 AND GPL-2.0-only AND GPL-3.0-or-later",
                      sha256(args.image) if args.image else None, f"sluice at commit {args.commit}, {args.arch}")
    system = package("sluice-system", args.version, "Apache-2.0 AND GPL-2.0-only", sha256(args.system),
                     "kernel and initramfs in one EFI file")
    gateway = package("sluice", args.version, "Apache-2.0", sha256(args.binary), f"commit {args.commit}")
    libgcc = package("libgcc", args.gcc, "GPL-3.0-or-later WITH GCC-exception-3.1", None,
                     "the compiler's support library, linked into sluice")
    parts, boot = sources(args.lock), loaders(args.debs)
    relations = [relate("SPDXRef-DOCUMENT", "DESCRIBES", product["SPDXID"]),
                 relate(product["SPDXID"], "CONTAINS", system["SPDXID"]),
                 relate(system["SPDXID"], "CONTAINS", gateway["SPDXID"]),
                 relate(gateway["SPDXID"], "STATIC_LINK", libgcc["SPDXID"])]
    for part in parts:
        inside_gateway = part["name"] in args.linked.split()
        relations.append(relate(gateway["SPDXID"] if inside_gateway else system["SPDXID"],
                                "STATIC_LINK" if inside_gateway else "CONTAINS", part["SPDXID"]))
    for part in boot:
        kind = "BUILD_TOOL_OF" if part["name"] == "grub-common" else "CONTAINED_BY"
        relations.append(relate(part["SPDXID"], kind, product["SPDXID"]))
    identity = hashlib.sha256(json.dumps([product, system, gateway, parts, boot], sort_keys=True).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"sluice-{args.version}-{args.arch}",
        "documentNamespace": f"urn:sluice:sbom:{args.arch}:{identity}",
        "creationInfo": {"created": args.created, "creators": ["Tool: sluice-build"]},
        "packages": [product, system, gateway, libgcc, *parts, *boot],
        "relationships": relations,
    }
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")


def problems(document):
    """What SPDX 2.3 (clauses 6, 7 and 11) requires and the document lacks."""
    for field in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages"):
        if field not in document:
            yield f"the document has no {field}"
    if document.get("spdxVersion") != "SPDX-2.3" or document.get("dataLicense") != "CC0-1.0":
        yield "wrong version or data licence"
    creation = document.get("creationInfo", {})
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", creation.get("created", "")):
        yield "creationInfo.created is no UTC time"
    if not all(re.match(r"(Tool|Organization|Person): \S", c) for c in creation.get("creators") or [""]):
        yield "creationInfo.creators is empty or malformed"
    ids = {document.get("SPDXID")}
    for entry in document.get("packages", []):
        name = entry.get("name", "?")
        if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", entry.get("SPDXID", "")):
            yield f"{name}: malformed SPDXID"
        if entry.get("SPDXID") in ids:
            yield f"{name}: SPDXID is used twice"
        ids.add(entry.get("SPDXID"))
        for field in ("name", "versionInfo", "downloadLocation", "licenseConcluded", "licenseDeclared",
                      "copyrightText", "sourceInfo"):
            if not entry.get(field):
                yield f"{name}: no {field}"
        for checksum in entry.get("checksums", []):
            if not re.fullmatch(r"[0-9a-f]{64}", checksum["checksumValue"]):
                yield f"{name}: malformed checksum"
    described = False
    for relation in document.get("relationships", []):
        for end in ("spdxElementId", "relatedSpdxElement"):
            if relation[end] not in ids:
                yield f"a relationship names {relation[end]}, which is not there"
        described |= relation["relationshipType"] == "DESCRIBES"
    if not described:
        yield "no relationship DESCRIBES the product"


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("write")
    for name in ("arch", "version", "commit", "created", "lock", "debs", "gcc", "system", "binary", "linked", "output"):
        one.add_argument("--" + name, required=True)
    one.add_argument("--image")
    commands.add_parser("check").add_argument("file")
    args = parser.parse_args()
    if args.command == "write":
        write(args)
        return
    with open(args.file, encoding="utf-8") as file:
        found = list(problems(json.load(file)))
    for line in found:
        print(f"{args.file}: {line}")
    sys.exit(1 if found else 0)


main()
