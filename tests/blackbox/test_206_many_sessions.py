# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are away with long queues: a message is stored once however many wait for it, queues lie on disk and not in
memory, and each client gets all of its own. The long form is `./build.sh bench sessions`."""
import os
import sys

import pytest

from harness import engines
from harness.gateway import Gateway

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "bench"))
import bulk  # noqa: E402

ENGINE = engines.selected()[-1]
SESSIONS, MESSAGES, SIZE = 1000, 400, 1024


@pytest.mark.guard(240)
def test_many_sessions_with_long_queues(sluice):
    with Gateway(sluice, ENGINE, listeners={"mqtt": {"protocol": "mqtt", "bind": "127.0.0.1:0", "max_queued_bytes": "64m"}}) as gateway:
        names = [f"s{i}" for i in range(SESSIONS)]
        bulk.sessions(gateway.address("mqtt")[1], iter(names), lambda name: "load/t")
        memory = gateway.metric("sluice_process_resident_memory_bytes")
        written = gateway.metric("sluice_store_written_bytes_total")
        bulk.publish(gateway.address("mqtt")[1], MESSAGES, SIZE, topic="load/t", clients=1, window=20)
        deliveries = SESSIONS * MESSAGES
        # 16 bytes in the message's record and 16 in a block of the queue, and a checkpoint; never the kilobyte for each of them.
        assert gateway.metric("sluice_store_written_bytes_total") - written < deliveries * SIZE // 10
        assert gateway.metric("sluice_process_resident_memory_bytes") - memory < deliveries * SIZE // 10
        gateway.process.kill()
        gateway.process.wait()
        gateway.forget_addresses()
        gateway.start()
        for name in names[::50]:
            sock, present = bulk.dial(gateway.address("mqtt")[1], name, clean=False)
            with sock:
                assert present, name
                reader = bulk.Reader(sock, "load/t", SIZE)
                bulk.read_until(reader, lambda r: len(r.numbers) >= MESSAGES, 60)
                sock.sendall(b"\xe0\x00")
            assert bulk.judge(reader.numbers, MESSAGES) == (0, 0, 0), name
