#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiled objects of the gateway across clean checkouts: what an earlier build compiled from the same bytes in the same way is
put in place instead of being compiled again. Called by toolchain/lib/gateway.sh around make.

usage: objects.py restore|keep REPO BUILD CACHE     the compiler's identity comes on standard input

An object is known by the compiler, the command line (stamp.cc, without the places of the tree and the cache), its source, the
headers it was compiled with, and the names of all headers of the tree, since a new one could be found before the old. The
headers of an object are in the list that the compiler left for make; the last one for a source is kept beside the object.
System headers are not in it: the identity has the C library's version, and the directories of other headers are named by their
content. Kept is what was compiled since `restore`, unless a file it was made from changed in that time: its bytes may not be
those that the compiler read. Files are compressed, and checked when they are unpacked: a damaged one is the same as none.
"""
import glob
import hashlib
import os
import re
import sys
import tempfile
import zlib

FORMAT = "1"
BYTES_MAX = 1 << 30  # of all objects; beyond it, those not used for longest are removed
BEGUN = "stamp.begun"
PLACES = ("BUILD", "REPO", "CACHE")  # BUILD first: it may be below REPO


def digest(*parts):
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(b"%d:" % len(data) + data)
    return h.hexdigest()[:40]


class Objects:
    def __init__(self, repo, build, cache, identity):
        self.places = dict(zip(PLACES, (build, repo, cache)))
        self.build, self.store = build, os.path.join(cache, "objects")
        self.sources = os.path.join(repo, "appliance")
        self.digests = {}
        headers = sorted(glob.glob(f"{self.sources}/**/*.h", recursive=True))
        with open(f"{build}/stamp.cc", encoding="utf-8") as f:
            self.base = digest(FORMAT, identity, self.placeless(f.read()), *map(self.placeless, headers))

    def placeless(self, text):
        for name in PLACES:
            text = re.sub(re.escape(self.places[name]) + r"(?=[/\s=]|$)", f"@{name}@", text)
        return text

    def placed(self, text):
        return re.sub("@(BUILD|REPO|CACHE)@", lambda m: self.places[m[1]], text)

    def content(self, path):
        if path not in self.digests:
            with open(path, "rb") as f:
                self.digests[path] = digest(f.read())
        return self.digests[path]

    def source_key(self, name):
        return digest(self.base, name, self.content(f"{self.sources}/{name}.c"))

    def files(self, rule):
        return [self.placed(word) for word in rule.replace("\\\n", " ").split("\n")[0].split()[1:]]

    def object_key(self, source_key, rule):
        """rule: the make rule the compiler wrote, placeless. None when a header is gone."""
        try:
            return digest(source_key, *(self.content(path) for path in self.files(rule)))
        except OSError:
            return None

    def names(self):
        for path in sorted(glob.glob(f"{self.sources}/*.c") + glob.glob(f"{self.sources}/*/*.c")):
            yield os.path.relpath(path, self.sources)[:-2]

    def path(self, key, kind):
        return f"{self.store}/{key[:2]}/{key[2:]}.{kind}"

    def get(self, key, kind):
        path = self.path(key, kind)
        try:
            with open(path, "rb") as f:
                data = zlib.decompress(f.read())
            os.utime(path)
            return data
        except (OSError, zlib.error):
            return None

    def put(self, key, kind, data):
        path = self.path(key, kind)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_whole(path, zlib.compress(data, 1))

    def restore(self):
        """Objects that make would not find up to date: those that are missing."""
        count = 0
        for name in self.names():
            target = f"{self.build}/{name}.o"
            if os.path.exists(target):
                continue
            source_key = self.source_key(name)
            rule = self.get(source_key, "d")
            key = rule and self.object_key(source_key, rule.decode())
            data = key and self.get(key, "o")
            if data:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                write_whole(f"{self.build}/{name}.d", self.placed(rule.decode()).encode())
                write_whole(target, data)
                count += 1
        print(f"{count} objects of earlier builds")
        with open(f"{self.build}/{BEGUN}", "w", encoding="utf-8"):
            pass  # its time is by the clock that stamps the other files too

    def made_since(self, begun, target, rule):
        return os.stat(target).st_mtime_ns >= begun and all(
            max(status.st_mtime_ns, status.st_ctime_ns) < begun for status in map(os.stat, self.files(rule)))

    def keep(self):
        begun = os.stat(f"{self.build}/{BEGUN}").st_mtime_ns
        for name in self.names():
            try:
                with open(f"{self.build}/{name}.d", encoding="utf-8") as f:
                    rule = self.placeless(f.read())
                if not self.made_since(begun, f"{self.build}/{name}.o", rule):
                    continue
                source_key = self.source_key(name)
                key = self.object_key(source_key, rule)
                if key and not os.path.exists(self.path(key, "o")):
                    with open(f"{self.build}/{name}.o", "rb") as f:
                        self.put(key, "o", f.read())
                    self.put(source_key, "d", rule.encode())
            except FileNotFoundError:
                continue  # not compiled, or removed meanwhile
        self.limit()

    def limit(self):
        found = []
        for path in glob.glob(f"{self.store}/*/*"):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= BYTES_MAX:
                break
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            total -= size


def write_whole(path, data):
    """Never half a file under its name, whatever else builds at the time."""
    fd, new = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(fd, "wb") as f:
        f.write(data)
    os.chmod(new, 0o644)
    os.rename(new, path)


def main():
    what, repo, build, cache = sys.argv[1:]
    objects = Objects(repo, build, cache, sys.stdin.read())
    {"restore": objects.restore, "keep": objects.keep}[what]()


main()
