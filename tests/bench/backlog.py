# SPDX-License-Identifier: Apache-2.0
"""A long outage: memory while an uplink's backlog grows and while it drains. Usage: backlog.py [--messages N]

--messages QoS 1 messages of --size bytes go into a stream while the remote Mosquitto is down; then it is started, with a subscriber (QoS 0)
of everything that checks each message. The gateway's memory is sampled all the time. Good when its anonymous memory, from the
first twentieth of the messages on, has stayed within --flat-mib, and nothing was lost.
"""
import time

import arguments
import bulk
import drain
from bulk import mib, say


KEEP = "max_bytes = 8g;"  # by default a stream keeps 1g, of these nine million


def options():
    p = arguments.Parser(__doc__)
    p.add_argument("--messages", type=int, default=10_000_000)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--flat-mib", type=int, default=8)
    return p.parse_args()


class Samples:
    def __init__(self, g, total):
        self.g, self.total = g, total
        self.rows = []  # done, anonymous, resident

    def take(self, done):
        self.rows.append((done, self.g.memory("RssAnon"), self.g.memory("VmRSS")))

    def tell(self, what, seconds):
        """The spread of the anonymous memory after the first twentieth."""
        steady = [r[1] for r in self.rows if r[0] >= self.total // 20] or [self.rows[-1][1]]
        at = ", ".join(f"{mib(r[1])} at {r[0]:,}" for r in self.rows[::max(1, len(self.rows) // 6)])
        say(f"  {what}: {seconds:.0f} s, {self.total / seconds:,.0f}/s; anonymous {at}; "
            f"steady {mib(min(steady))} to {mib(max(steady))}, resident at most {mib(max(r[2] for r in self.rows))}")
        return steady


def main():
    a = options()
    with drain.Broker("1") as remote, drain.uplink("0", remote.port, "mqtt", "5", keep=KEEP) as g:
        grow = Samples(g, a.messages)
        began = time.monotonic()
        bulk.publish(g.port, a.messages, a.size, topic=drain.TOPIC, clients=1, window=16000, watch=grow.take)
        grow.take(a.messages)
        steady = grow.tell("backlog grew", time.monotonic() - began)
        say(f"  {g.metric('sluice_uplink_lag_messages'):,.0f} messages wait, {mib(g.metric('sluice_store_disk_bytes'))} of log")
        remote.start()
        shrink = Samples(g, a.messages)
        with drain.subscriber(remote.port) as sock:
            reader, sampled = bulk.Reader(sock, drain.TOPIC, a.size, qos=0), [0.0]

            def done(r):
                if time.monotonic() > sampled[0] + 0.5:
                    sampled[0] = time.monotonic()
                    shrink.take(len(r.numbers))
                return len(r.numbers) >= a.messages
            bulk.read_until(reader, done, 800)
        steady += shrink.tell("backlog drained", reader.last_s - reader.first_s)
        lost, twice, back = bulk.judge(reader.numbers, a.messages)
        spread = max(steady) - min(steady)
        say(f"  {lost} lost, {twice} twice, {back} out of order; anonymous memory within {mib(spread)} of itself (at most {a.flat_mib} MiB)")
        return lost == 0 and spread <= a.flat_mib << 20


bulk.run(__name__, main)
