# SPDX-License-Identifier: Apache-2.0
"""What a machine wrote to its disk, in order, and what the disk may hold after the power went at any moment of it.

QEMU's block driver blklogwrites records in the format of the kernel's dm-log-writes (Documentation/admin-guide/
device-mapper/log-writes.rst): sectors of 512 bytes; in the first one the magic, a version, a count and the sector's size;
then for each request a sector with u64 sector, sectors, flags, length of a mark, followed by the data unless it is a
discard. Integers are little-endian.

    with Vm(..., disks=[], extra=record(disk, log)): ...
    log = WriteLog(log)
    image = Replay(disk_before, log)
    image.at(point, chance)          # bytes of the disk as they may be after a cut behind that many bytes of the log
"""
import os
import struct

SECTOR = 512
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


def record(disk, log, bus="pci"):
    """Arguments for QEMU: a disk whose requests are written to log."""
    open(log, "wb").close()
    return ["-blockdev", f"driver=file,node-name=base,filename={disk},cache.direct=off,cache.no-flush=on",
            "-blockdev", f"driver=file,node-name=log,filename={log},cache.direct=off,cache.no-flush=on",
            "-blockdev", "driver=blklogwrites,node-name=recorded,file=base,log=log,log-sector-size=512",
            "-device", f"virtio-blk-{bus},drive=recorded,write-cache=on"]


class Entry:
    __slots__ = ("at", "end", "sector", "count", "flags")

    def __init__(self, at, end, sector, count, flags):
        self.at, self.end, self.sector, self.count, self.flags = at, end, sector, count, flags


class WriteLog:
    """entries: requests in order, with the places of the log where they begin and end. The machine was ended while it
    wrote: the last request may be cut off."""

    def __init__(self, path):
        self.file = open(path, "rb")
        self.bytes = os.fstat(self.file.fileno()).st_size
        magic, version, _, sector_bytes = struct.unpack("<QQQI", self._read(0, 28))
        assert magic == MAGIC and version == 1 and sector_bytes == SECTOR, (magic, version, sector_bytes)
        self.entries = []
        at = SECTOR
        while at + SECTOR <= self.bytes:
            sector, count, flags, mark = struct.unpack("<QQQQ", self._read(at, 32))
            data = 0 if flags & DISCARD else (mark if flags & MARK else count * SECTOR)
            end = at + SECTOR + (data + SECTOR - 1) // SECTOR * SECTOR
            empty = count == 0 and flags == 0
            if empty or end > self.bytes:
                break
            self.entries.append(Entry(at, end, sector, count, flags))
            at = end

    def _read(self, at, count):
        return os.pread(self.file.fileno(), count, at)

    def data(self, e):
        return self._read(e.at + SECTOR, e.count * SECTOR)

    def writes(self):
        return sum(1 for e in self.entries if e.count and not e.flags & (DISCARD | MARK))

    def flushes(self):
        return sum(1 for e in self.entries if e.flags & FLUSH)


class Replay:
    """A disk that starts as a copy of `before` and takes the requests of the log. Points must not go back."""

    def __init__(self, before, log):
        with open(before, "rb") as f:
            self.durable = bytearray(f.read())
        self.log, self.done = log, 0

    def _put(self, image, e, first=0, count=None):
        count = e.count if count is None else count
        at = (e.sector + first) * SECTOR
        if e.flags & DISCARD:
            image[at:at + count * SECTOR] = bytes(count * SECTOR)
        else:
            image[at:at + count * SECTOR] = self.log.data(e)[first * SECTOR:(first + count) * SECTOR]

    def at(self, point, chance):
        """The power goes when the log has `point` bytes. All that was written before the last flush is there. Of each
        request since, the disk has taken all, nothing, or some of its sectors, whatever came before or after it (a disk's
        cache writes back in any order); a request with FUA is there once it has ended. chance: random.Random."""
        entries = self.log.entries
        end = self.done
        while end < len(entries) and entries[end].end <= point:
            end += 1
        flushed = self.done
        for i in range(self.done, end):
            if entries[i].flags & FLUSH:
                flushed = i + 1
        for e in entries[self.done:flushed]:
            self._put(self.durable, e)
        self.done = flushed
        image = bytearray(self.durable)
        kept = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        for e in entries[flushed:end]:
            if e.flags & FUA or chance.random() < kept:
                self._put(image, e)
            elif e.count > 1 and chance.random() < 0.3:  # torn between sectors
                first = chance.randrange(e.count)
                self._put(image, e, first, chance.randrange(1, e.count - first + 1))
        return image
