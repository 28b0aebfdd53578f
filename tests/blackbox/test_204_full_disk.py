# SPDX-License-Identifier: Apache-2.0
"""A disk that really is full: the data directory lies on a small file system (ext4 on a loop device, tmpfs), which somebody
else fills up under load. New messages that would have to be kept are refused by name and QoS 0 goes on; a start on the full
disk serves; when there is room again, it is taken, and nothing that was acknowledged is lost."""
import os
import subprocess
import time

import pytest

from harness import engines
from harness.gateway import Gateway
from harness.streams import QUOTA, V5, Client, client, wire
from harness.wait import until

SIZE_MIB, FREE_MIB = 64, 4
ENGINES = [e for e in ("uring", "epoll-et") if e in engines.selected()]
LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": 1000000,
                      "max_queued_bytes": "1g"}}
MOUNT = {
    "ext4": 'truncate -s {size}M "$1/disk" && mke2fs -q -F -t ext4 -m 0 "$1/disk" && mount -o loop "$1/disk" "$1/mnt"',
    "tmpfs": 'mount -t tmpfs -o size={size}M none "$1/mnt"',
}


class Place:
    """A file system that only we see: it is mounted in a namespace that a sleeping process holds."""

    def __init__(self, kind, directory):
        self.mount = os.path.join(directory, "mnt")
        os.mkdir(self.mount)
        script = MOUNT[kind].format(size=SIZE_MIB) + ' && echo mounted && exec sleep 600'
        who = [] if os.geteuid() == 0 else ["-U", "-r"]
        self.holder = subprocess.Popen(["unshare", *who, "-m", "sh", "-c", script, "sh", directory], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"})
        if self.holder.stdout.readline() != "mounted\n":
            why = self.holder.stderr.read().strip().splitlines()
            self.close()
            pytest.skip(f"{kind} can not be mounted here: {why[-1] if why else 'no reason given'}")
        user = [] if os.geteuid() == 0 else ["-U"]
        self.inside = ["nsenter", "-t", str(self.holder.pid), *user, "-m"]
        self.seen = f"/proc/{self.holder.pid}/root{self.mount}"

    def fill(self):
        """Somebody else's file takes all but FREE_MIB."""
        st = os.statvfs(self.seen)
        count = st.f_bavail * st.f_frsize - (FREE_MIB << 20)
        assert count > 0
        with open(f"{self.seen}/filler", "wb") as f:
            os.posix_fallocate(f.fileno(), 0, count)

    def make_room(self):
        os.unlink(f"{self.seen}/filler")

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()


@pytest.fixture(params=["ext4", "tmpfs"])
def place(request, tmp_path):
    place = Place(request.param, str(tmp_path))
    yield place
    place.close()


def publish_until_refused(gateway, first, most=20000):
    """Numbers that were acknowledged, and the reason of the refusal."""
    taken = []
    with client(gateway, "publisher") as p:
        for i in range(first, first + most):
            reason = p.publish("t/x", b"%d" % i + b" " * 4000, 1 + i % 2)
            if reason >= 0x80:
                return taken, reason
            taken.append(i)
        p.bye()
    raise AssertionError("the disk did not fill up")


@pytest.mark.parametrize("engine", ENGINES)
def test_disk_fills_up_under_load_and_gets_room_again(sluice, engine, place):
    engines.need(engine)
    gateway = Gateway([*place.inside, sluice], engine, workers=2, listeners=LISTENERS,
                      settings={"data_dir": f"{place.mount}/data", "log_max": "56m"})
    try:
        gateway.start()
        with Client(gateway.address("mqtt"), V5).hello("away", True, props={"session_expiry": 0xFFFFFFFF}) as s:
            s.subscribe("t/#", qos=2)
            s.bye()
        place.fill()
        taken, reason = publish_until_refused(gateway, 0)
        assert taken and reason == QUOTA, (len(taken), hex(reason))
        assert gateway.metric("sluice_mqtt_dropped_total", reason="log_full") > 0
        # QoS 0 is not kept, and goes on.
        with client(gateway, "listener") as l, client(gateway, "talker") as t:
            l.subscribe("q/#", qos=0)
            t.publish("q/x", b"still here", 0)
            assert l.message().payload == b"still here"
        Client.end_all()
        gateway.process.kill()
        gateway.process.wait()
        gateway.forget_addresses()
        gateway.start()  # on the full disk
        place.make_room()

        def goes_on():
            with client(gateway, "publisher") as p:
                number = len(taken) + 100000
                if p.publish("t/x", b"%d" % number, 1) >= 0x80:
                    return False
                taken.append(number)
                return True
        until(goes_on, "messages are taken again", 30)
        with Client(gateway.address("mqtt"), V5).hello("away", False, props={"session_expiry": 0xFFFFFFFF}) as s:
            assert s.connack.session_present
            got, end = [], time.monotonic() + 60
            while len(set(got)) < len(taken) and time.monotonic() < end:
                packet = s.wait_for(wire.PUBLISH)
                got.append(int(packet.payload.split()[0]))
                s.answer(packet)
            missing = set(taken) - set(got)
            assert not missing, f"{len(missing)} acknowledged are missing: {sorted(missing)[:9]}"
            for odd in (0, 1):
                mine = [i for i in got if i % 2 == odd and i < 100000]
                assert mine == sorted(set(mine)), "out of order, or twice"
        Client.end_all()
        gateway.stop()
    finally:
        Client.end_all()
        gateway.kill()
        gateway.remove()
