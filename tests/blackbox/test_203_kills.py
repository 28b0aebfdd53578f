# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random under the load of real clients (paho-mqtt, 3.1.1 and 5.0), again and again: what was acknowledged is
there, once where QoS 2 says so, in each publisher's order, for sessions that were connected and for those that were away; in
the stream too; and the retained message is no older than the last acknowledged one.

SLUICE_KILLS: how often (default 10; the nightly form says 200)."""
import os
import random
import time

import pytest

from harness import engines
from harness.gateway import Gateway
from harness.ledger import Ledger
from harness.streams import client, read_to_end
from harness.wait import until

KILLS = int(os.environ.get("SLUICE_KILLS", "10"))
SETUPS = [s for s in (("uring", 2), ("epoll-et", 1)) if s[0] in engines.selected()]
LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": 10000000,
                      "max_queued_bytes": "1g", "receive_max": 1000, "inflight_max": 20}}


def wait_ready(gateway):
    def ready():
        gateway.forget_addresses()
        return gateway._is_ready()
    until(ready, lambda: gateway.explain("the gateway is ready"), 30)
    gateway.forget_addresses()


def nothing_waits(gateway):
    return gateway.metric("sluice_mqtt_queued") == 0 and gateway.metric("sluice_mqtt_in_flight") == 0


def retained(gateway):
    with client(gateway, "reader") as c:
        c.subscribe("keep/#", qos=1)
        return c.message().payload


@pytest.mark.guard(60 + 6 * KILLS)
@pytest.mark.parametrize("engine,workers", SETUPS, ids=lambda v: str(v))
def test_killed_at_random_under_load(sluice, engine, workers):
    engines.need(engine)
    seed = int(os.environ.get("SLUICE_SEED", KILLS))
    chance = random.Random(seed)
    gateway = Gateway(sluice, engine, workers=workers, listeners=LISTENERS,
                      sections={"stream all": {"topics": ["load/#"]}})
    book = Ledger(lambda: gateway.address("mqtt"), filling=3000)
    try:
        gateway.start()
        online, away = ["online0", "online1"], ["away0", "away1"]
        book.subscribe(online + away)
        book.start(online)
        longest_s = 0
        for _ in range(KILLS):
            time.sleep(chance.uniform(0, 0.5))
            gateway.process.kill()
            gateway.process.wait()
            started = time.monotonic()
            gateway.spawn()
            # The port is another one: clients find it again.
            wait_ready(gateway)
            longest_s = max(longest_s, time.monotonic() - started)
        until(lambda: book.total() > 50, "messages are acknowledged", 30)
        book.finish()
        taken = book.drain(away, lambda: nothing_waits(gateway), 30 + 2 * KILLS)
        book.end_online()
        for s in taken + book.online:
            book.judge(s.got, s.name)
        book.judge([(0, m["payload"].encode(), m["offset"]) for m in read_to_end(gateway, "all")], "the stream")
        book.judge_retained(retained(gateway), "a new subscriber")
        print(f"{KILLS} kills: {book.total()} acknowledged, longest start {longest_s:.2f} s")
        gateway.remove()
    finally:
        book.over = True
        gateway.kill()
