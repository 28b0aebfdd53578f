# SPDX-License-Identifier: Apache-2.0
"""Small disks for tests: a GPT with the partitions the appliance looks for by name, and its state record.

    make_disk(path, 64 << 20, table_mib=16, data_mib=8)   # a disk that is larger than the image that was flashed on it
"""
import binascii
import os
import struct
import subprocess
import tempfile
import uuid

BLOCK = 512
MIB = 1 << 20
TYPE = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4").bytes_le
STATE_SLOT_STRIDE, STATE_SLOT_BYTES = 65536, 8192


def _header(my, other, entries_at, last_usable, entries, disk_guid):
    head = struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, my, other, 34, last_usable, disk_guid,
                       entries_at, 128, 128, binascii.crc32(entries))
    return (head[:16] + struct.pack("<I", binascii.crc32(head)) + head[20:]).ljust(BLOCK, b"\0")


def make_disk(path, disk_bytes, table_mib=16, data_mib=8, file_system=True):
    """partitions: sluice-state (1 MiB) and sluice-data, in a table that covers table_mib of the disk. Returns the byte at
    which sluice-data begins."""
    blocks = table_mib * MIB // BLOCK
    state_at, data_at = 1 * MIB // BLOCK, 2 * MIB // BLOCK
    parts = [("sluice-state", state_at, data_at - 1), ("sluice-data", data_at, data_at + data_mib * MIB // BLOCK - 1)]
    entries = b"".join(struct.pack("<16s16sQQQ72s", TYPE, uuid.uuid4().bytes, first, last, 0, name.encode("utf-16-le"))
                       for name, first, last in parts).ljust(128 * 128, b"\0")
    guid = uuid.uuid4().bytes
    with open(path, "wb") as f:
        f.truncate(disk_bytes)
        f.write(struct.pack("<446xB3sB3sII48xH", 0, b"\0\2\0", 0xee, b"\xff\xff\xff", 1, blocks - 1, 0xaa55))
        f.write(_header(1, blocks - 1, 2, blocks - 34, entries, guid) + entries)
        f.seek((blocks - 33) * BLOCK)
        f.write(entries + _header(blocks - 1, 1, blocks - 33, blocks - 34, entries, guid))
        if file_system:
            with tempfile.NamedTemporaryFile() as part:
                part.truncate(data_mib * MIB)
                subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-L", "sluice-data", part.name], check=True)
                f.seek(data_at * BLOCK)
                f.write(part.read())
    return data_at * BLOCK


def state_values(path):
    """The newest whole slot of the record, as {name: bytes}, and its generation."""
    found = []
    with open(path, "rb") as f:
        for slot in range(2):
            f.seek(MIB + slot * STATE_SLOT_STRIDE)
            data = f.read(STATE_SLOT_BYTES)
            magic, _, count, generation = struct.unpack_from("<8sIIQ", data)
            if magic == b"SLUICEST":
                found.append((generation, data[32:32 + count]))
    if not found:
        return {}, 0
    generation, data = max(found)
    values = {}
    while data:
        name_len, value_len = struct.unpack_from("<BH", data)
        values[data[3:3 + name_len].decode()] = data[3 + name_len:3 + name_len + value_len]
        data = data[3 + name_len + value_len:]
    return values, generation


def damage(path, at, length):
    """Overwrites part of a disk with what no file system wrote."""
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(os.urandom(length))


def debugfs(path, at, *commands):
    """Changes the file system that begins at a byte of a disk, past the kernel: what a fault of the medium would leave."""
    for command in commands:
        subprocess.run(["/sbin/debugfs", "-w", "-R", command, f"{path}?offset={at}"], check=True, capture_output=True)


def _crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def put_state(path, values, generation=1000):
    """Writes a slot of the record as init would."""
    entries = b"".join(struct.pack("<BH", len(name), len(value)) + name.encode() + value for name, value in values.items())
    head = struct.pack("<8sIIQII", b"SLUICEST", 1, len(entries), generation, 0, 0)
    crc = _crc32c(head + entries)
    slot = (head[:24] + struct.pack("<II", crc, 0) + entries).ljust(STATE_SLOT_BYTES, b"\0")
    with open(path, "r+b") as f:
        f.seek(MIB)
        f.write(slot)
