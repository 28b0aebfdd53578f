# SPDX-License-Identifier: Apache-2.0
"""What clients were promised, for tests that take the gateway away under them: paho-mqtt clients with sessions that publish
numbered messages and receive them, and the judge of what must be there afterwards.

    book = Ledger(lambda: gateway.address("mqtt"))
    book.subscribe(["away0", "online0"])     # durable sessions on load/#
    book.start(online=["online0"])
    ...                                      # crashes
    book.finish()                            # nothing new; what is open comes to its end
    for s in book.drain(["away0"], lambda: nothing_waits(gateway)):
        book.judge(s.got, s.name)

Each client does everything in one thread, paho's loop too: a lock around a call of paho that a callback wants as well can
not be. The publisher's window is smaller than paho's, so that paho sends at once and in order."""
import threading
import time

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .wait import GUARD_S, until

FILTER = "load/#"
WINDOW = 16
TURN_S = 0.005
CONNACK_S = 5  # a forwarded port accepts for a machine that is not there yet


class Client(paho.Client):
    """paho 1.6 looks at what is open in each attempt to connect; after two attempts in a row it has forgotten that a PUBREC
    had come, and publishes anew what the other side has taken already. And it calls a message published that was refused: refused
    has the packet identifiers of those."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.refused = set()

    def _look(self):
        packet = bytes(self._in_packet["packet"])
        if self._protocol == paho.MQTTv5 and len(packet) > 2 and packet[2] >= 0x80:
            self.refused.add(packet[0] << 8 | packet[1])

    def _handle_pubackcomp(self, cmd):
        if cmd == "PUBACK":
            self._look()
        return super()._handle_pubackcomp(cmd)

    def _handle_pubrec(self):
        self._look()
        return super()._handle_pubrec()

    def _messages_reconnect_reset_out(self):
        for m in self._out_messages.values():
            if m.state == paho.mqtt_ms_resend_pubrel:
                m.state = paho.mqtt_ms_wait_for_pubcomp
        super()._messages_reconnect_reset_out()


def paho_client(name, version, clean=False):
    args = {"client_id": name, "protocol": version}
    if version != paho.MQTTv5:
        args["clean_session"] = clean
    if hasattr(paho, "CallbackAPIVersion"):  # paho 2
        args["callback_api_version"] = paho.CallbackAPIVersion.VERSION1
    return Client(**args)


class Party(threading.Thread):
    """A client that comes back until it is done."""

    def __init__(self, book, name, version):
        super().__init__(daemon=True)
        self.book, self.name, self.version, self.failure = book, name, version, None
        self.client = paho_client(name, version)
        self.client.max_inflight_messages_set(2 * WINDOW)
        self.client.on_connect = self.on_connect
        self.up, self.connects, self.lost_sessions, self.needs_session = False, 0, 0, False

    def on_connect(self, _client, _user, flags, code, *_):
        self.up = int(getattr(code, "value", code)) == 0
        if self.up:
            self.connects += 1
            self.lost_sessions += self.needs_session and not flags["session present"]

    def connect(self):
        more = {}
        if self.version == paho.MQTTv5:
            more = {"clean_start": False, "properties": Properties(PacketTypes.CONNECT)}
            more["properties"].SessionExpiryInterval = 0xFFFFFFFF
        host, port = self.book.address()
        self.client.connect(host, port, keepalive=5, **more)

    def run(self):
        try:
            while not self.done():
                self.up = False
                try:
                    self.connect()
                except (OSError, AssertionError):  # nobody listens
                    time.sleep(0.02)
                    continue
                give_up = time.monotonic() + CONNACK_S
                while not self.done() and self.client.loop(TURN_S) == paho.MQTT_ERR_SUCCESS:
                    if self.up:
                        self.turn()
                    elif time.monotonic() > give_up:
                        break
            if self.up:
                self.client.disconnect()
        except Exception as e:  # told by finish()
            self.failure = e

    def turn(self):
        pass


class Publisher(Party):
    """numbers go from 0 to next - 1; `marks` says of each acknowledged one what book.mark() was then, in the order of the
    acknowledgements."""

    def __init__(self, book, name, qos, version, retain=False):
        super().__init__(book, name, version)
        self.qos, self.retain, self.next, self.marks, self.open, self.refused = qos, retain, 0, {}, {}, 0
        self.topic = f"{'keep' if retain else 'load'}/{name}"
        self.client.on_publish = self.on_publish
        self.pause_until = 0

    def on_publish(self, _client, _user, mid, *_):
        if mid not in self.open:
            return
        number = self.open.pop(mid)
        if mid in self.client.refused:  # nothing was promised
            self.client.refused.discard(mid)
            self.refused += 1
        else:
            self.marks[number] = self.book.mark()

    def payload(self, number):
        text = b"%s %d" % (self.name.encode(), number)
        return text + b" " * (number * 7919 % self.book.filling) if self.book.filling else text

    def turn(self):
        if self.book.quiet or len(self.open) >= WINDOW or time.monotonic() < self.pause_until:
            return
        if self.book.most is not None and self.next >= self.book.most:
            return
        for _ in range(self.book.burst):
            info = self.client.publish(self.topic, self.payload(self.next), self.qos, retain=self.retain)
            self.open[info.mid] = self.next
            self.next += 1
        self.pause_until = time.monotonic() + self.book.pause_s

    def done(self):
        return self.book.over or (self.book.quiet and not self.open)

    def promised(self, mark):
        """Numbers that were acknowledged no later than that; all when it is None."""
        return {n for n, at in self.marks.items() if mark is None or at <= mark}


class Subscriber(Party):
    """Takes what comes, in order: (qos, payload, (DUP, packet identifier, on which connection))."""

    def __init__(self, book, name, version=paho.MQTTv311):
        super().__init__(book, name, version)
        self.needs_session, self.got, self.subscribed = True, [], False
        self.client.on_message = lambda c, u, m: self.got.append((m.qos, bytes(m.payload), (m.dup, m.mid, self.connects)))
        self.client.on_subscribe = lambda *_: setattr(self, "subscribed", True)

    def done(self):
        return self.book.over


class Ledger:
    """address: where the gateway listens now; may raise OSError or AssertionError while it does not. mark: what is
    written down with each acknowledgement; must grow."""

    def __init__(self, address, mark=time.monotonic, filling=0, burst=4, pause_s=0.02):
        self.address, self.mark, self.filling, self.burst, self.pause_s = address, mark, filling, burst, pause_s
        self.quiet = self.over = False
        self.most = None  # how many messages each publisher sends until it is raised; None: as many as it can
        self.publishers, self.online = [], []

    def _subscribed(self, name, topic, guard_s=None):
        s = Subscriber(self, name)
        s.needs_session = False
        s.connect()
        until(lambda: s.client.loop(TURN_S) == 0 and s.up, f"{name} is connected", guard_s)
        s.client.subscribe(topic, qos=2)
        until(lambda: s.client.loop(TURN_S) == 0 and s.subscribed, f"{name} is subscribed", guard_s)
        return s

    def subscribe(self, names):
        """Makes sessions that wait for everything."""
        for name in names:
            self._subscribed(name, FILTER).client.disconnect()

    def retained(self, guard_s=None):
        """The retained message as a new subscriber gets it, for judge_retained; there has to be one."""
        s = self._subscribed("reader", "keep/#", guard_s)
        until(lambda: s.client.loop(TURN_S) == 0 and s.got, "a retained message comes", guard_s)
        s.client.disconnect()
        return s.got[0][1]

    def start(self, online=()):
        self.publishers = [Publisher(self, f"p{qos}{i}", qos, v) for qos in (1, 2)
                           for i, v in enumerate((paho.MQTTv311, paho.MQTTv5))]
        self.publishers.append(Publisher(self, "kept", 1, paho.MQTTv311, retain=True))
        self.online = [Subscriber(self, name) for name in online]
        for party in self.publishers + self.online:
            party.start()

    def total(self):
        return sum(len(p.marks) for p in self.publishers)

    def refused(self):
        return sum(p.refused for p in self.publishers)

    def _join(self, parties, guard_s):
        for p in parties:
            p.join(guard_s)
            assert not p.is_alive() and p.failure is None, f"{p.name}: {p.failure!r}, open: {getattr(p, 'open', None)}"
            assert p.lost_sessions == 0, f"{p.name}: its session was lost"

    def finish(self, guard_s=2 * GUARD_S):
        """Nothing new is published; what is open is brought to its end."""
        self.quiet = True
        self._join(self.publishers, guard_s)

    def abandon(self):
        """The gateway is gone for good: what is open stays open."""
        self.over = True
        self._join(self.publishers + self.online, 2 * GUARD_S)

    def drain(self, names, complete, guard_s=4 * GUARD_S):
        """Connects these sessions and reads until complete() says that nothing waits any more."""
        them = [Subscriber(self, name) for name in names]
        enough = []
        for s in them:
            s.done = lambda: self.over or bool(enough)
            s.start()
        until(lambda: all(s.connects for s in them), f"{names} are connected", guard_s)
        until(complete, lambda: f"{names} have everything; they got {[len(s.got) for s in them]}", guard_s)
        enough.append(True)
        self._join(them, guard_s)
        return them

    def end_online(self):
        self.over = True
        self._join(self.online, 2 * GUARD_S)

    def judge(self, got, who, mark=None):
        """got: (qos, payload, what else is known) in the order they came."""
        by = {}
        for _, payload, how in got:
            name, number = payload.decode().split()
            by.setdefault(name, []).append((int(number), how))
        strangers = set(by) - {p.name for p in self.publishers}
        assert not strangers, f"{who}: messages of {strangers}"
        for p in self.publishers:
            if not p.retain:
                judge_one(p, by.get(p.name, []), who, mark)

    def judge_retained(self, payload, who, mark=None):
        """The retained message is the last one that was acknowledged, or a later one."""
        p = next(p for p in self.publishers if p.retain)
        promised = p.promised(mark)
        if not promised:
            return
        assert payload is not None, f"{who}: no retained message, {max(promised)} was acknowledged"
        number = int(payload.decode().split()[1])
        assert max(promised) <= number < p.next, f"{who}: retained is {number}, acknowledged was {max(promised)}"


def judge_one(p, got, who, mark):
    numbers = [n for n, _ in got]
    missing = p.promised(mark) - set(numbers)
    assert not missing, f"{p.name} -> {who}: {len(missing)} acknowledged are missing: {sorted(missing)[:9]}"
    first = list(dict.fromkeys(numbers))
    assert first == sorted(first), f"{p.name} -> {who}: out of order: {first[:50]}"
    assert not first or first[-1] < p.next, f"{p.name} -> {who}: {first[-1]} was never sent"
    if p.qos == 2 and len(numbers) != len(first):
        seen = set()
        twice = [n for n in numbers if n in seen or seen.add(n)][:3]
        raise AssertionError(f"{p.name} -> {who}: QoS 2 twice: {[g for g in got if g[0] in twice]}")
