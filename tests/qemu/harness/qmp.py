# SPDX-License-Identifier: Apache-2.0
"""QEMU's machine monitor: one JSON object a line over a unix socket. Commands wait for their answer; events that come
between are kept."""
import json
import socket

from blackbox.wait import until


class QmpError(AssertionError):
    pass


class Qmp:
    def __init__(self, path, guard_s):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(guard_s)
        self.events = []
        until(lambda: self._connect(path), f"QEMU opens {path}", guard_s)
        self.stream = self.sock.makefile("rb")
        self._read()
        self.command("qmp_capabilities")

    def _connect(self, path):
        try:
            self.sock.connect(path)
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def _read(self):
        line = self.stream.readline()
        if not line:
            raise QmpError("QEMU closed its monitor")
        return json.loads(line)

    def command(self, name, **arguments):
        request = {"execute": name}
        if arguments:
            request["arguments"] = {k.replace("_", "-"): v for k, v in arguments.items()}
        self.sock.sendall(json.dumps(request).encode() + b"\n")
        while True:
            answer = self._read()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise QmpError(f"{name}: {answer['error']}")
            self.events.append(answer)

    def human(self, line):
        return self.command("human-monitor-command", command_line=line)

    def close(self):
        self.sock.close()
