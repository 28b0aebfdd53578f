# SPDX-License-Identifier: Apache-2.0
"""`sluice ctl update FILE` over links that are slow, break, and come back: through the real gateway, whose init is played here.
What init does with the bytes is in tests/qemu/test_410_update.py."""
import base64
import json
import os
import random
import socket
import subprocess
import threading
import time

import pytest

from harness import config, engines
from harness.gateway import Gateway
from harness.link import Link, end_listening
from harness.wait import GUARD_S, until

HEADER_BYTES = 512
PART_BYTES = 131072


class FakeInit:
    """Takes an update in parts as appliance/init/update.c does."""

    def __init__(self, path):
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(16)
        self.lock = threading.Lock()
        self.clear()
        threading.Thread(target=self._run, daemon=True).start()

    def clear(self):
        self.state, self.file, self.data, self.parts, self.begun = "idle", "", b"", [], 0

    def _run(self):
        while True:
            try:
                peer, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        with peer, peer.makefile("rwb") as lines:
            for line in lines:
                asked = json.loads(line)
                with self.lock:
                    result = self._answer(asked.get("args"))
                answer = {"ok": False, "error": result} if isinstance(result, str) else {"ok": True, "result": result}
                lines.write(json.dumps(answer).encode() + b"\n")
                lines.flush()

    def _answer(self, args):
        if args is None:
            return {"state": self.state, "id": 1, "received": len(self.data), "part_pending": False, "error": "",
                    "target": "b", "target_version": "9.9.9"}
        if args["op"] == "begin":
            again = self.state == "writing" and args.get("file") == self.file
            if self.state == "writing" and not again:
                return "another update is being written"
            self.begun += not again
            self.state, self.file = "writing", args["file"]
            return {"id": 1, "part_bytes": PART_BYTES, "started": not again, "received": len(self.data)}
        if args["op"] == "finish":
            self.state = "written"
            return {"finishing": True}
        if args["offset"] != len(self.data):
            return f"the next part begins at {len(self.data)}"
        part = base64.b64decode(args["data"])
        self.data += part
        self.parts.append(len(part))
        return {"received": len(self.data)}


INIT_PATH = f"/tmp/sluice-fake-init-{os.getpid()}"


@pytest.fixture(scope="module", name="gateway")
def _gateway(sluice):
    """One for all engines: the admin port has its own."""
    with Gateway(sluice, engines.selected()[0], listeners={"echo": config.ECHO}, env={"SLUICE_INIT_SOCKET": INIT_PATH}) as gateway:
        yield gateway


@pytest.fixture(scope="module", name="init_process")
def _init_process():
    fake = FakeInit(INIT_PATH)
    yield fake
    end_listening(fake.server)
    os.unlink(INIT_PATH)


@pytest.fixture(name="init")
def _init(init_process):
    init_process.clear()
    return init_process


@pytest.fixture(name="link")
def _link(gateway):
    link = Link(gateway.settings["ctl_socket"])
    yield link
    link.close()


@pytest.fixture(scope="module", name="update")
def _update(tmp_path_factory):
    path = tmp_path_factory.mktemp("update") / "file.update"
    path.write_bytes(b"SLUICEUP" + random.Random(330).randbytes(400000))
    return path


def start(gateway, link, *words):
    return subprocess.Popen([*gateway.command, "ctl", "--addr", "{}:{}".format(*link.address), "update", *words], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def end(process):
    text = process.communicate(timeout=GUARD_S)[0]
    return process.returncode, text


def test_a_slow_link_gets_small_parts(gateway, init, link, update):
    link.slow, link.slow_until = 2500, 5000
    code, text = end(start(gateway, link, str(update)))
    assert code == 0 and "version 9.9.9 is in slot b" in text, text
    assert init.data == update.read_bytes() and init.begun == 1
    # Those that were slow are small, and grow as soon as the link is quick.
    assert init.parts[0] <= 2048 and max(init.parts[:3]) <= 4096 and max(init.parts) > 32768, init.parts


def test_goes_on_after_cuts(gateway, init, link, update):
    """Connections end in the midst of parts; what was acknowledged is not sent again."""
    link.cuts = [9000, 60000, 200000, 400000]
    code, text = end(start(gateway, link, str(update)))
    assert code == 0 and "the connection was lost at" in text and "version 9.9.9 is in slot b" in text, text
    assert not link.cuts and init.data == update.read_bytes() and init.begun == 1


def test_goes_on_when_the_link_is_back(gateway, init, link, update):
    link.slow, link.slow_until = 50000, 1 << 30
    process = start(gateway, link, str(update))
    until(lambda: len(init.data) > 5000, "parts have come")
    link.away, link.cuts = True, [0]
    until(lambda: not link.cuts, "the link is cut")
    before = len(init.data)
    time.sleep(0.6)  # tries of the client find nobody
    assert process.poll() is None and len(init.data) <= before + PART_BYTES
    link.away, link.slow_until = False, 0
    code, text = end(process)
    assert code == 0 and init.data == update.read_bytes(), text


def test_goes_on_in_another_run(gateway, init, link, update, tmp_path):
    """Who sent it was ended; the same file goes on where it was, another one is refused."""
    link.slow, link.slow_until = 50000, 1 << 30
    process = start(gateway, link, str(update))
    until(lambda: len(init.data) > 5000, "parts have come")
    process.kill()
    process.communicate()
    link.slow_until = 0
    other = tmp_path / "other.update"
    other.write_bytes(b"SLUICEUP" + bytes(5000))
    code, text = end(start(gateway, link, str(other)))
    assert code != 0 and "another update is being written" in text, text
    code, text = end(start(gateway, link, str(update)))
    assert code == 0 and "going on at" in text, text
    assert init.data == update.read_bytes() and init.begun == 1


def test_an_end_is_told(gateway, init, link, update):
    """The appliance gave the update up meanwhile: that is no lost connection."""
    link.slow, link.slow_until = 50000, 1 << 30
    process = start(gateway, link, str(update))
    until(lambda: len(init.data) > 5000, "parts have come")
    with init.lock:
        init.state, init.data = "idle", b""
    code, text = end(process)
    assert code != 0 and "the update was not taken" in text and "connection was lost" not in text, text
