# SPDX-License-Identifier: Apache-2.0
"""A gateway with a unix listener did not stop on uring: shutdown(2) of a listening unix socket leaves a
non-blocking accept at EAGAIN (seen on Linux 6.18), so the multishot accept never ended, and the worker with it."""
import signal


def test_unix_listener_stops(engine, make_gateway):
    gateway = make_gateway(engine, listeners={"tcp": {"mode": "echo"}})
    gateway.listeners["local"] = {"mode": "echo", "bind": f"unix:{gateway.directory}/local.sock"}
    gateway.start()
    gateway.signal(signal.SIGTERM)
    assert gateway.wait_exit() == 0
