# SPDX-License-Identifier: Apache-2.0
"""The power of a machine goes while clients write, and it starts again on its disk: nothing that was acknowledged is lost
for a session or a stream, and nothing comes twice that QoS 2 forbids. What QEMU has written is with the host's kernel, so
this is a disk without a cache of its own; test_630_moments.py is about one that loses what was not flushed."""
import random
import time

import pytest

from blackbox.ledger import Ledger
from blackbox.streams import read_to_end
from blackbox.wait import until
from harness.site import AWAY, MACHINES, Site
from harness.vm import BOOT_GUARD_S


def power_cuts(arch, directory, cuts):
    site = Site(arch, directory)
    book = Ledger(site.address, filling=600, burst=2, pause_s=0.03)
    chance = random.Random(cuts)
    try:
        site.start()
        book.subscribe(AWAY + ["online0"])
        book.start(["online0"])
        for _ in range(cuts):
            before = book.total()
            until(lambda: book.total() > before + 20, "messages are acknowledged", BOOT_GUARD_S)
            time.sleep(chance.uniform(0, 1.5))
            site.cut()
            site.start()
        book.finish(BOOT_GUARD_S)
        taken = book.drain(AWAY, site.nothing_waits, BOOT_GUARD_S)
        book.end_online()
        for s in taken + book.online:
            book.judge(s.got, s.name)
        book.judge([(0, m["payload"].encode(), m["offset"]) for m in read_to_end(site, "all")], "the stream")
        book.judge_retained(book.retained(BOOT_GUARD_S), "a new subscriber")
        print(f"{arch}: {cuts} power cuts, {book.total()} messages acknowledged, {book.refused()} refused")
    finally:
        book.over = True
        site.stop()


ARCHS = pytest.mark.parametrize("arch", list(MACHINES))


@ARCHS
@pytest.mark.guard(400)
def test_power_cuts_under_load(arch, tmp_path):
    power_cuts(arch, str(tmp_path), 2)


@ARCHS
@pytest.mark.nightly
@pytest.mark.guard(3000)
def test_twenty_power_cuts_under_load(arch, tmp_path):
    power_cuts(arch, str(tmp_path), 20)
