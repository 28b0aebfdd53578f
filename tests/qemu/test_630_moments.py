# SPDX-License-Identifier: Apache-2.0
"""Any moment of a machine's life may be the last: what it writes to its disk is recorded request by request, and the disk is
made as it may be after a cut at any point, with what was not flushed there, not there or torn. The file system's own
recovery runs over it (e2fsck replays the journal as the kernel would), the gateway starts on it, and everything is there that
had been acknowledged at that point."""
import os
import random
import shutil
import subprocess
import time

import pytest

from blackbox.gateway import Gateway
from blackbox.ledger import Ledger
from blackbox.streams import client, read_to_end
from blackbox.wait import until
from harness.site import AWAY, MACHINES, QUEUE, Site
from harness.vm import SHORT_GUARD_S, SLOWER
from harness.writelog import Replay, WriteLog, record


def run(*args, may=(0,)):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120)
    assert done.returncode in may, f"{' '.join(args)}: {done.returncode}: {done.stdout.decode(errors='replace')[-2000:]}"


def recorded_life(arch, directory, seconds):
    """A machine under load whose requests are recorded, until its power goes. Returns the disk as it was before, the log,
    and the ledger, whose marks are lengths of the log: what was acknowledged when the log was so long."""
    site = Site(arch, directory)
    log = os.path.join(directory, "log")
    book = Ledger(site.address, mark=lambda: os.stat(log).st_size, filling=600, burst=2, pause_s=0.03)
    try:
        site.start()  # the partition grows; sessions are made
        book.subscribe(AWAY)
        site.switch_off()
        before = os.path.join(directory, "before")
        shutil.copyfile(site.disk, before)
        site.start(disks=[], extra=record(site.disk, log))
        first = os.stat(log).st_size
        book.start()
        end = time.monotonic() + seconds * min(SLOWER, 3)
        until(lambda: time.monotonic() > end and book.total() > 100, "messages are acknowledged", 60 + 6 * seconds * SLOWER)
        site.cut()
        book.abandon()
    finally:
        book.over = True
        site.stop()
    return site, before, WriteLog(log), first, book


def check_point(sluice, site, image, book, point, directory):
    """What the file system and the gateway make of that disk."""
    disk, data = os.path.join(directory, "cut"), os.path.join(directory, "cut.data")
    with open(disk, "wb") as f:
        f.write(image[site.data_at:])
    run("/sbin/e2fsck", "-fy", disk, may=(0, 1))
    shutil.rmtree(data, ignore_errors=True)
    os.mkdir(data)
    run("/sbin/debugfs", "-R", f"rdump / {data}", disk)
    # They are the appliance's user's, and ours has no right to pass over that.
    run("chown", "-R", f"{os.getuid()}:{os.getgid()}", data)
    where = next(d for d, _, files in os.walk(data) if "layout.0" in files or "layout.1" in files)
    gateway = Gateway(sluice, workers=2, settings={"data_dir": os.path.dirname(where)},
                      listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", **QUEUE}},
                      sections={"stream all": {"topics": ["load/#"]}})
    try:
        gateway.start()
        again = Ledger(lambda: gateway.address("mqtt"))
        who = f"cut at {point}"
        taken = again.drain(AWAY, lambda: gateway.metric("sluice_mqtt_queued") == 0 and
                            gateway.metric("sluice_mqtt_in_flight") == 0, SHORT_GUARD_S)
        for s in taken:
            book.judge(s.got, f"{s.name}, {who}", mark=point)
        book.judge([(0, m["payload"].encode(), m["offset"]) for m in read_to_end(gateway, "all")], f"stream, {who}", point)
        if next(p for p in book.publishers if p.retain).promised(point):
            with client(gateway, "reader") as c:
                c.subscribe("keep/#", qos=1)
                book.judge_retained(c.message().payload, who, mark=point)
        damaged = gateway.metric("sluice_store_damaged_total")
        assert damaged == 0, f"{who}: {damaged} damaged places"
    finally:
        gateway.kill()
        gateway.remove()


def replayed_points(arch, directory, seconds, points):
    sluice = os.environ.get("SLUICE") or os.path.join(os.environ["OUT"], os.uname().machine, "sluice")
    seed = int(os.environ.get("SLUICE_SEED", points))
    chance = random.Random(seed)
    site, before, log, first, book = recorded_life(arch, directory, seconds)
    assert log.flushes() > 20, "the machine did not flush"
    image = Replay(before, log)
    last = log.entries[-1].end
    for point in sorted(chance.randrange(first, last + 1) for _ in range(points)):
        check_point(sluice, site, image.at(point, chance), book, point, directory)
    print(f"{arch}: {points} cuts of {log.writes()} writes and {log.flushes()} flushes, {book.total()} acknowledged, seed {seed}")


@pytest.mark.guard(400)
def test_any_moment_may_be_the_last(tmp_path):
    replayed_points("x86_64", str(tmp_path), 4, 12)


@pytest.mark.nightly
@pytest.mark.guard(3000)
@pytest.mark.parametrize("arch", list(MACHINES))
def test_two_hundred_last_moments(arch, tmp_path):
    replayed_points(arch, str(tmp_path), 20, 200)
