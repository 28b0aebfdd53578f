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


def publish_until_refused(gateway, first, most=20000, size=4000):
    """Numbers that were acknowledged, and the reason of the refusal."""
    taken = []
    with client(gateway, "publisher") as p:
        for i in range(first, first + most):
            reason = p.publish("t/x", b"%d" % i + b" " * size, 1 + i % 2)
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


@pytest.mark.parametrize("engine", ENGINES)
def test_no_room_for_a_single_segment(sluice, engine, place):
    """Segments are larger than what is free, from the start: not even the reserve is there. Everybody is answered: what would
    have to be kept is refused by name, all else is served; with room it is kept."""
    engines.need(engine)
    place.fill()
    forever = {"session_expiry": 0xFFFFFFFF}
    gateway = Gateway([*place.inside, sluice], engine, listeners=LISTENERS,
                      settings={"data_dir": f"{place.mount}/data", "log_max": "96m"})  # segments of 16 MiB
    try:
        gateway.start()
        names = ["d0", "d1"]
        durable = {n: Client(gateway.address("mqtt"), V5).hello(n, False, props=forever) for n in names}
        for s in durable.values():
            assert s.subscribe(("t/#", wire.options(1))) == [QUOTA]
            assert s.unsubscribe("t/#") == [0x83]  # what an earlier one might have changed could not be on disk
            s.ping()
        with Client(gateway.address("mqtt"), wire.V311).hello("old", False) as old:
            assert old.subscribe(("t/#", wire.options(1))) == [0x80]
            old.ping()
        assert gateway.metric("sluice_store_state", state="full") >= 1
        with client(gateway, "plain") as s, client(gateway, "talker") as p:
            s.subscribe("t/#", qos=2)
            for qos in (0, 1, 2):  # nobody would have to have it after a crash
                assert p.publish("t/x", b"%d" % qos, qos) == 0
                assert s.message().payload == b"%d" % qos
            assert p.publish("keep", b"r", 1, retain=True) == QUOTA
            p.ping()
            s.ping()
        place.make_room()
        until(lambda: all(s.subscribe(("t/#", wire.options(1))) == [1] for s in durable.values()), "it is kept", 30, 0.2)
        with client(gateway, "talker") as p:
            assert p.publish("t/x", b"kept", 1) == 0
        gateway.process.kill()
        gateway.process.wait()
        Client.end_all()
        gateway.forget_addresses()
        gateway.start()
        for name in names:
            with Client(gateway.address("mqtt"), V5).hello(name, False, props=forever) as s:
                assert s.connack.session_present
                assert s.message().payload == b"kept"
        Client.end_all()
        gateway.stop()
    finally:
        Client.end_all()
        gateway.kill()
        gateway.remove()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_reserve_is_for_what_frees_space(sluice, engine, place):
    """A full log takes no new subscription (0x97), so that its reserve is there for those who drain it: all they have to say is kept,
    and then there is room again."""
    engines.need(engine)
    gateway = Gateway([*place.inside, sluice], engine, listeners=LISTENERS,
                      settings={"data_dir": f"{place.mount}/data", "log_max": "16m"})
    forever = {"session_expiry": 0xFFFFFFFF}
    try:
        gateway.start()
        with Client(gateway.address("mqtt"), V5).hello("away", True, props=forever) as s:
            s.subscribe("t/#", qos=2)
            s.bye()
        taken, reason = publish_until_refused(gateway, 0, size=40000)
        assert reason == QUOTA
        grows = Client(gateway.address("mqtt"), V5).hello("grows", False, props=forever)
        codes = [grows.subscribe((f"s/{n}/" + "x" * 30000, wire.options(1)))[0] for n in range(200)]
        assert QUOTA in codes and set(codes) <= {1, QUOTA}, set(codes)
        grows.ping()
        with client(gateway, "plain") as p:  # nothing of it would be kept
            p.subscribe("q", qos=1)
            assert p.publish("q", b"1", 1) == 0
            assert p.message().payload == b"1"
        with Client(gateway.address("mqtt"), V5).hello("away", False, props=forever) as s:
            assert s.connack.session_present
            got = []
            while len(got) < len(taken):
                packet = s.wait_for(wire.PUBLISH)
                got.append(int(packet.payload.split()[0]))
                s.answer(packet)
            assert sorted(got) == taken
            assert s.subscribe(("t/#", wire.options(2))) == [2]  # replaced: nothing grows
            s.bye()
        until(lambda: grows.subscribe(("s/#", wire.options(1))) == [1], "there is room again", 30, 0.2)
        Client.end_all()
        gateway.stop()
    finally:
        Client.end_all()
        gateway.kill()
        gateway.remove()
