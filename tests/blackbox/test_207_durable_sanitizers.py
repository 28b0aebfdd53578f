# SPDX-License-Identifier: Apache-2.0
"""The log, durable sessions and streams under the address and the thread sanitizer: two workers with their log writers and
readers, publishers whose messages cross between them, sessions that read from memory and from the log, readers of the
stream, checkpoints and reclaim of a small log; a stop in order, a kill, and what the starts find. Any report is a failure."""
import pytest

from conftest import binary
from harness import engines
from harness.gateway import Gateway
from harness.ledger import Ledger
from harness.streams import read, read_to_end
from harness.wait import until

SLOWER = 4.0
RUNS = [(kind, e) for kind in ("asan", "tsan") for e in ("uring", "epoll-et") if e in engines.selected()]
LISTENERS = {"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_messages": 1000000,
                      "max_queued_bytes": "256m", "inflight_max": 20}}


def nothing_waits(gateway):
    return gateway.metric("sluice_mqtt_queued") == 0 and gateway.metric("sluice_mqtt_in_flight") == 0


def restart(gateway):
    gateway.forget_addresses()
    gateway.start()


@pytest.mark.parametrize("kind,engine", RUNS, ids=lambda v: v)
def test_durable_load(kind, engine):
    path = binary(f"SLUICE_{kind.upper()}")
    engines.need(engine)
    gateway = Gateway(path, engine, workers=2, listeners=LISTENERS, slower=SLOWER,
                      settings={"log_max": "32m", "drain_timeout": "10s"},
                      sections={"stream all": {"topics": ["load/#"], "max_bytes": "4m"}})
    book = Ledger(lambda: gateway.address("mqtt"), filling=6000)
    try:
        gateway.start()
        book.most = 200  # what waits for the one that is away fits into the log, however long this takes
        book.subscribe(["online", "away"])
        book.start(["online"])
        # Reading while it is written; what retention took is told as missed.
        for part in range(3):
            until(lambda: book.total() > 150 * (part + 1), "messages are acknowledged", 60)
            for where in ("earliest", "latest", "-1s"):
                read(gateway, "all", **{"from": where, "limit": 200})
            gateway.request("/metrics")
            gateway.status()
        before, book.most = book.total(), 260
        until(lambda: book.total() > before + 30, "messages are acknowledged", 60)
        gateway.process.kill()
        gateway.process.wait()
        restart(gateway)
        before, book.most = book.total(), 380
        until(lambda: book.total() > before + 150, "messages are acknowledged", 60)
        book.finish(60)
        taken = book.drain(["away"], lambda: nothing_waits(gateway), 60)
        book.end_online()
        for s in taken + book.online:
            book.judge(s.got, s.name)
        gateway.stop()
        restart(gateway)
        assert read_to_end(gateway, "all"), "the stream is empty"
        gateway.stop()
    finally:
        book.over = True
        gateway.kill()
        gateway.remove()
