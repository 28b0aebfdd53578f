# SPDX-License-Identifier: Apache-2.0
"""A small NATS client for tests: publish, subscribe, and the requests of JetStream's API that are needed here
(docs.nats.io, "JetStream wire API")."""
import json
import socket

from .wait import GUARD_S, until


class Client:
    def __init__(self, port, timeout_s=GUARD_S, login=None, tls=None):
        """login: makes the members of CONNECT out of the INFO. tls: an ssl context."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.settimeout(timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        line = self._line()
        assert line.startswith(b"INFO ")
        info = json.loads(line[5:])
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            self.file = self.socket.makefile("rb")
        connect = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1,
                   **(login(info) if login else {})}
        self.send(b"CONNECT " + json.dumps(connect).encode() + b"\r\nPING\r\n")
        while (line := self._line()) != b"PONG":
            assert not line.startswith(b"-ERR"), line
        self.sids, self.inbox = 0, f"_INBOX.t{id(self):x}"

    def send(self, data):
        self.socket.sendall(data)

    def _line(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("the server closed the connection")
        return line.rstrip(b"\r\n")

    def subscribe(self, subject):
        self.sids += 1
        self.send(f"SUB {subject} {self.sids}\r\nPING\r\n".encode())
        while self._line() != b"PONG":
            pass
        return self.sids

    def publish(self, subject, payload=b"", reply=""):
        self.send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")

    def next(self):
        """(subject, headers, payload) of the next message."""
        while True:
            fields = self._line().split()
            if fields and fields[0] == b"PING":
                self.send(b"PONG\r\n")
            if not fields or fields[0] not in (b"MSG", b"HMSG"):
                continue
            body = self.file.read(int(fields[-1]) + 2)[:-2]
            head = int(fields[-2]) if fields[0] == b"HMSG" else 0
            return fields[1].decode(), body[:head].decode(), body[head:]

    def request(self, subject, body=None):
        self.sids += 1
        reply, self.early = f"{self.inbox}.{self.sids}", []
        self.send(f"SUB {reply} {self.sids}\r\nUNSUB {self.sids} 1\r\n".encode())
        self.publish(subject, json.dumps(body).encode() if body is not None else b"", reply)
        while True:
            got, headers, payload = self.next()
            if got != reply:
                self.early.append(payload.decode())
                continue
            assert not headers.startswith("NATS/1.0 503"), f"{subject}: no responders"
            return json.loads(payload)

    def stream_create(self, name, subjects, replicas=1):
        answer = self.request(f"$JS.API.STREAM.CREATE.{name}", {
            "name": name, "subjects": subjects, "storage": "file", "retention": "limits", "num_replicas": replicas,
            "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_consumers": -1, "max_msg_size": -1, "discard": "old",
            "duplicate_window": 600 * 10**9})
        assert "error" not in answer, answer
        return answer

    def stream_state(self, name):
        answer = self.request(f"$JS.API.STREAM.INFO.{name}")
        assert "error" not in answer, answer
        return answer["state"]

    def stream_message(self, name, sequence):
        import base64
        answer = self.request(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": sequence})
        assert "error" not in answer, answer
        message = answer["message"]
        return (message["subject"], base64.b64decode(message.get("hdrs", "")).decode(),
                base64.b64decode(message.get("data", "")).decode())

    def stream_payloads(self, name):
        """All there is, by a consumer that the server pushes to."""
        count, subject = self.stream_state(name)["messages"], f"{self.inbox}.all"
        self.subscribe(subject)
        answer = self.request(f"$JS.API.CONSUMER.CREATE.{name}", {"stream_name": name, "config": {
            "deliver_subject": subject, "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant"}})
        assert "error" not in answer, answer
        payloads = self.early  # what came before the answer
        while len(payloads) < count:
            payloads.append(self.next()[2].decode())
        return payloads

    def wait_count(self, name, count, guard_s=None):
        until(lambda: self.stream_state(name)["messages"] >= count,
              lambda: f"{count} messages in {name}; there are {self.stream_state(name)['messages']}", guard_s or GUARD_S * 4)

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
