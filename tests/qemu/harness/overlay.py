# SPDX-License-Identifier: Apache-2.0
"""An archive that is unpacked over the built-in initramfs (QEMU's -initrd): a test replaces or adds files in the guest
without another kernel. Regular files, links and directories, all of root.

    vm = Vm("x86_64", initrd=overlay(path, {"etc/sluice/sluice.conf": b"..."}))
"""
import os
import stat


def _entry(name, mode, data, ino):
    name = name.encode() + b"\0"
    fields = [ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + name
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def overlay(path, files):
    """files: name in the guest -> bytes, a path on the host to copy from (executable when that is), or ("link", target)."""
    blob, ino, made = b"", 1, set()
    for name, what in files.items():
        parts = name.strip("/").split("/")
        for depth in range(1, len(parts)):
            directory = "/".join(parts[:depth])
            if directory not in made:
                made.add(directory)
                blob += _entry(directory, stat.S_IFDIR | 0o755, b"", ino)
                ino += 1
        if isinstance(what, tuple):
            mode, data = stat.S_IFLNK | 0o777, what[1].encode()
        elif isinstance(what, bytes):
            mode, data = stat.S_IFREG | 0o644, what
        else:
            mode = stat.S_IFREG | (0o755 if os.access(what, os.X_OK) else 0o644)
            with open(what, "rb") as f:
                data = f.read()
        blob += _entry("/".join(parts), mode, data, ino)
        ino += 1
    blob += _entry("TRAILER!!!", 0, b"", 0)
    with open(path, "wb") as f:
        f.write(blob)
    return path
