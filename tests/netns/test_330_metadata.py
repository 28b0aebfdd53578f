# SPDX-License-Identifier: Apache-2.0
"""A cloud's metadata service, scripted: what it answers well, and all it answers badly."""
import socket
import threading

import pytest

from lab import until

NETWORK = 'network lan { match = "name:v0"; address = "169.254.169.1/24"; gateway = "169.254.169.254"; slaac = no; }\n'
GOOD = b"#sluice-config\nworkers = 2\n"


def answer(body=b"", status=200, header=b""):
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s" % (status, len(body), header, body)


class Service:
    """answers: path -> bytes, or a list of bytes used in turn (the last for ever); None = accept and say nothing."""

    def __init__(self, lab, answers):
        self.answers, self.asked = answers, []
        lab.server("ip", "addr", "add", "169.254.169.254/24", "dev", "s0")
        self.listener = lab.in_server(lambda: socket.create_server(("169.254.169.254", 80)))
        self.silent = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            request = b""
            conn.settimeout(5)
            try:
                while b"\r\n\r\n" not in request:
                    more = conn.recv(4096)
                    if not more:
                        break
                    request += more
                self._answer(conn, request)
            except OSError:
                pass

    def _answer(self, conn, request):
        line = request.split(b"\r\n")[0].decode()
        self.asked.append((line, request))
        what = self.answers.get(line.split()[1], answer(status=404))
        if isinstance(what, list):
            what = what.pop(0) if len(what) > 1 else what[0]
        if what is None:
            self.silent.append(conn)
            return
        conn.sendall(what)
        conn.close()

    def lines(self):
        return [line for line, _ in self.asked]

    def close(self):
        self.listener.close()


@pytest.fixture
def service(lab):
    made = []

    def make(answers):
        made.append(Service(lab, answers))
        return made[-1]
    yield make
    for s in made:
        s.close()


def workers(lab):
    return {row["key"]: row for row in lab.ask("config")["settings"]}["workers"]


def metadata(lab):
    return next(s for s in lab.ask("config")["sources"] if s["name"].endswith("metadata"))


EC2 = {"/latest/api/token": answer(b"TOKEN=="), "/latest/user-data": answer(GOOD)}


def test_ec2_with_token(lab, service):
    s = service(dict(EC2))
    lab.start_client(NETWORK, "--cloud", "ec2")
    until(lambda: workers(lab)["value"] == "2", "the user data is in force")
    assert workers(lab)["source"] == "ec2 metadata" and workers(lab)["line"] == 2
    assert s.lines() == ["PUT /latest/api/token HTTP/1.1", "GET /latest/user-data HTTP/1.1"]
    assert b"X-aws-ec2-metadata-token: TOKEN==\r\n" in s.asked[1][1]
    with open(f"{lab.directory}/sluice.conf") as f:
        assert 'workers = "2";' in f.read()


def test_gcp_and_openstack(lab, service):
    flavor = b"Metadata-Flavor: Google\r\n"
    service({"/computeMetadata/v1/instance/attributes/user-data": answer(GOOD, header=flavor),
             "/computeMetadata/v1/instance/attributes/sluice-conf": answer(status=404, header=flavor),
             "/openstack/latest/user_data": answer(GOOD)})
    lab.start_client(NETWORK, "--cloud", "gcp")
    until(lambda: workers(lab)["value"] == "2", "GCP's attribute is in force")
    lab.stop_client()
    lab.start_client(NETWORK, "--cloud", "openstack")
    until(lambda: workers(lab)["value"] == "2", "OpenStack's user data is in force")


def test_the_service_comes_up_late(lab, service):
    s = service({"/latest/api/token": [answer(status=503), None, b"garbage\r\n\r\n", answer(b"T")],
                 "/latest/user-data": [answer(status=401), answer(GOOD)]})
    lab.start_client(NETWORK, "--cloud", "ec2")
    until(lambda: workers(lab)["value"] == "2", "the user data is in force")
    log = lab.log()
    for said in ("status 503", "no answer within 2 s", "not HTTP", "refused the token"):
        assert said in log, log
    assert len(s.asked) == 7


@pytest.mark.parametrize("body, said", [
    (b"#cloud-config\nusers: []\n", "cloud-init's YAML"),
    (b"workers = many\n", "ec2 metadata:1: workers: 'many'"),
    (b"workers = 2\nlog {\n", "ec2 metadata:2:"),
    (b"\0\1\2\3", "ec2 metadata"),
])
def test_bad_user_data_changes_nothing(lab, service, body, said):
    service({**EC2, "/latest/user-data": answer(body)})
    lab.start_client(NETWORK, "--cloud", "ec2")
    until(lambda: metadata(lab).get("problem") or lab.ask("config")["problems"], "the mistake is shown")
    assert said in lab.log()
    assert workers(lab)["value"] == "auto" and lab.ask("config")["in_force"] == "sources"


def test_oversized_and_absent(lab, service):
    service({**EC2, "/latest/user-data": [b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", answer(status=404)]})
    lab.start_client(NETWORK, "--cloud", "ec2")
    until(lambda: metadata(lab)["state"] == "none", "there is no user data")
    assert "too large" in lab.log()


def test_nobody_there_is_asked_once_a_second(lab):
    lab.start_client(NETWORK, "--cloud", "ec2")
    until(lambda: "problem" in metadata(lab), "the silence is shown")
    assert metadata(lab)["state"] == "asking"


def test_azure_is_told(lab):
    lab.start_client(NETWORK, "--cloud", "azure")
    lab.wait_log("Azure's metadata is not read")
