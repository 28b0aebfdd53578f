# SPDX-License-Identifier: Apache-2.0
"""The appliance's network and where its configuration comes from, in whole machines: DHCP of QEMU's user network, static
addresses, a VLAN, NoCloud volumes of both kinds, a cloud's metadata, words of the command line, a device with two queues."""
import os
import re
import socket
import subprocess
import sys
import textwrap

import pytest

from blackbox import http
from blackbox.wait import until
from harness import image
from harness.vm import BOOT_GUARD_S, SHORT_GUARD_S, Vm, end_with_parent

USER_DATA = "#sluice-config\ndrain_timeout = 3s\nlog { level = debug }\n"


class Api:
    """The admin port of a machine, by forwarded port or by a socket that is made elsewhere."""

    def __init__(self, address):
        self.address = address

    def get(self, name):
        session = http.Session(self.address, SHORT_GUARD_S)
        try:
            answer = session.request(f"/api/appliance/{name}")
        finally:
            session.close()
        assert answer.status == 200, answer.body
        return answer.json()

    def settings(self):
        return {row["key"]: row for row in self.get("config")["settings"]}

    def source(self, name):
        return next(s for s in self.get("config")["sources"] if name in s["name"])

    def interface(self, name="eth0"):
        return next((row for row in self.get("net")["interfaces"] if row["name"] == name), None)


def iso(directory, user_data):
    source = directory / "seed"
    source.mkdir()
    (source / "meta-data").write_text("instance-id: test\n")
    (source / "user-data").write_text(user_data)
    path = str(directory / "cidata.iso")
    subprocess.run(["genisoimage", "-quiet", "-volid", "cidata", "-rock", "-joliet", "-output", path, str(source)], check=True)
    return path


def fat(directory, user_data, label="CIDATA"):
    path = str(directory / "cidata.img")
    with open(path, "wb") as f:
        f.truncate(1 << 20)
    subprocess.run(["mformat", "-i", path, "-v", label, "-t", "64", "-h", "2", "-s", "16", "::"], check=True)
    for name, text in (("meta-data", "instance-id: test\n"), ("user-data", user_data)):
        (directory / name).write_text(text)
        subprocess.run(["mcopy", "-i", path, str(directory / name), f"::{name}"], check=True)
    return path


def leased(api):
    return until(lambda: api.interface().get("dhcp4", {}).get("state") == "bound" and api.interface(), "a lease", SHORT_GUARD_S)


@pytest.mark.parametrize("arch, machine", [("x86_64", "q35"), ("aarch64", "virt")])
def test_dhcp_iso9660_and_words(tmp_path, arch, machine):
    words = "sluice.conf.workers=1 sluice.conf.log.connections=yes"
    with Vm(arch, machine, disks=[iso(tmp_path, USER_DATA)], append=words) as vm:
        vm.wait_ready()
        api = Api(vm.address(9600))
        row = leased(api)
        assert row["state"] == "up" and row["driver"] == "virtio_net" and row["gateway"] == "10.0.2.2"
        assert any(a["address"] == "10.0.2.15/24" for a in row["addresses"])
        settings = api.settings()
        assert settings["drain_timeout"]["source"] == "cidata user-data" and settings["drain_timeout"]["line"] == 2
        assert settings["log.level"]["value"] == "debug"
        assert settings["workers"]["source"] == "kernel command line" and settings["workers"]["value"] == "1"
        assert settings["listener.devices.bind"]["source"].startswith("default")
        assert api.get("config")["in_force"] == "sources"
        until(lambda: api.get("config")["accepted"], "the gateway has confirmed it", SHORT_GUARD_S)
        # A person's view of the same.
        for name, said in (("config", r"drain_timeout.*cidata user-data"), ("net", r"eth0 +up .*10\.0\.2\.15/24")):
            status, text = image.ctl(vm, name)
            assert status == 0 and re.search(said, text), text
        net = api.get("net")
        (nic,) = net["layout"]["nics"]
        assert nic["queues"][0]["rps"] == "3" and nic["rfs"] == 32768  # one queue, two CPUs
        assert {i["result"] for i in nic["irqs"] if "queue" in i} <= {"set"}
        assert [s["name"] for s in net["sysctls"] if s["result"] == "failed"] == []


def test_vfat(tmp_path):
    with Vm("aarch64", disks=[fat(tmp_path, USER_DATA)]) as vm:
        vm.wait_ready()
        row = Api(vm.address(9600)).settings()["drain_timeout"]
        assert (row["value"], row["source"], row["line"]) == ("3s", "cidata user-data", 2)


def test_vfat_with_what_is_not_for_us_static_and_vlan(tmp_path):
    words = ("sluice.conf.network.lan.address=10.0.2.15/24 sluice.conf.network.lan.gateway=10.0.2.2 "
             "sluice.conf.network.lan.dns=10.0.2.3 sluice.conf.network.v5.vlan=5 sluice.conf.network.v5.address=192.0.2.1/24")
    with Vm("x86_64", "q35", disks=[fat(tmp_path, "#cloud-config\nusers: []\n")], append=words) as vm:
        vm.wait_console(r"cidata user-data: it is cloud-init's YAML")
        vm.wait_ready()
        api = Api(vm.address(9600))
        assert "dhcp4" not in api.interface()
        vlan = until(lambda: api.interface("v5"), "the VLAN's interface", SHORT_GUARD_S)
        assert vlan["vlan"] == 5 and vlan["addresses"][0]["address"] == "192.0.2.1/24"
        assert "YAML" in api.source("cidata")["problem"]


@pytest.mark.parametrize("content, said", [
    ("workers = many\n", "cidata user-data:1: workers: 'many'"),
    ("log {\n", "cidata user-data:1: the { opened here is never closed"),
])
def test_a_mistake_on_a_volume_leaves_the_box_reachable(tmp_path, content, said):
    with Vm("x86_64", "microvm", disks=[fat(tmp_path, content, "cidata")]) as vm:
        vm.wait_ready()
        answer = Api(vm.address(9600)).get("config")
        assert answer["in_force"] == "reduced" and any(said in p for p in answer["problems"]), answer["problems"]


CLOUDS = {
    "ec2": ("manufacturer=Amazon EC2", b"GET /latest/user-data ", b"X-aws-ec2-metadata-token: TOKEN==\r\n"),
    "gcp": ("product=Google Compute Engine", b"GET /computeMetadata/v1/instance/attributes/sluice-conf ",
            b"Metadata-Flavor: Google\r\n"),
    "openstack": ("product=OpenStack Nova", b"GET /openstack/latest/user_data ", b""),
}


@pytest.mark.parametrize("cloud", list(CLOUDS))
def test_metadata(tmp_path, cloud):
    """The firmware names the cloud, and the user network carries the service's address to a script."""
    firmware, request, needed = CLOUDS[cloud]
    script = tmp_path / "imds.py"
    script.write_text(textwrap.dedent(f"""\
        import sys
        head = b""
        while not head.endswith(b"\\r\\n\\r\\n"):
            more = sys.stdin.buffer.read(1)
            if not more:
                sys.exit()
            head += more
        if head.startswith(b"PUT /latest/api/token "):
            body = b"TOKEN=="
        elif head.startswith({request!r}) and {needed!r} in head:
            body = {USER_DATA.encode()!r}
        else:
            body = b""
        status = b"200 OK" if body else b"404 Not Found"
        sys.stdout.buffer.write(b"HTTP/1.1 " + status + b"\\r\\nMetadata-Flavor: Google\\r\\n"
                                b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
        """))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    network = (f"user,id=net0,net=169.254.169.0/24,dhcpstart=169.254.169.15,hostfwd=tcp:127.0.0.1:{port}-169.254.169.15:9600,"
               f"guestfwd=tcp:169.254.169.254:80-cmd:{sys.executable} {script}")
    extra = ["-smbios", f"type=1,{firmware}", "-netdev", network, "-device", "virtio-net-pci,netdev=net0,romfile="]
    with Vm("x86_64", "q35", ports=None, extra=extra) as vm:
        vm.wait_console(rf"configuration: sources in force \(.*{cloud} metadata")
        vm.wait_console(r"gateway ready")
        api = Api(("127.0.0.1", port))
        until(lambda: api.settings()["drain_timeout"]["value"] == "3s", "the user data is in force", SHORT_GUARD_S)
        assert api.settings()["drain_timeout"]["source"] == f"{cloud} metadata"


class TapVm(Vm):
    """A machine in a network namespace."""

    def arguments(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *super().arguments()]


def in_namespace(holder, *command):
    subprocess.run(["nsenter", f"--net=/proc/{holder.pid}/ns/net", *command], check=True)


def can_make_taps():
    return os.path.exists("/dev/net/tun") and subprocess.run(
        ["unshare", "-n", "ip", "tuntap", "add", "t0", "mode", "tap", "multi_queue"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_make_taps(), reason="no tap devices here")
def test_two_queues_on_a_tap_with_a_real_server(tmp_path):
    holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"], stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
    server = None
    try:
        until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "a namespace", SHORT_GUARD_S)
        in_namespace(holder, "ip", "tuntap", "add", "t0", "mode", "tap", "multi_queue")
        in_namespace(holder, "ip", "addr", "add", "10.9.0.1/24", "dev", "t0")
        in_namespace(holder, "ip", "link", "set", "t0", "up")
        with open(tmp_path / "dnsmasq.log", "wb") as log:
            server = subprocess.Popen(
                ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "dnsmasq", "-d", "-C", "/dev/null", "-i", "t0", "--bind-dynamic",
                 "--port=0", "--no-ping", "--user=root", "--dhcp-authoritative", "--dhcp-range=10.9.0.50,10.9.0.50,3600",
                 f"--dhcp-leasefile={tmp_path}/leases"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent)
        extra = ["-netdev", "tap,id=net0,ifname=t0,queues=2,script=no,downscript=no",
                 "-device", "virtio-net-pci,netdev=net0,mq=on,vectors=6,romfile="]
        vm = TapVm("x86_64", "q35", ports=None, extra=extra)
        vm.holder = holder
        with vm:
            vm.wait_console(r"address 10\.9\.0\.50/24 from DHCP server 10\.9\.0\.1", BOOT_GUARD_S)
            layout = vm.wait_console(r"layout: eth0 virtio_net queues 2/2 of 2, rps 0:.*").group(0)
            for queue in (0, 1):
                for kind in ("input", "output"):
                    assert re.search(rf"virtio\d+-{kind}\.{queue} -> cpu {queue}( irq| \()", layout), layout
            assert "a queue for each CPU" in layout and "refused" not in layout
            vm.wait_console(r"gateway ready")
            answer = subprocess.run(
                ["nsenter", f"--net=/proc/{holder.pid}/ns/net", sys.executable, "-c",
                 "import urllib.request as u; print(u.urlopen('http://10.9.0.50:9600/api/appliance/net').read().decode())"],
                check=True, timeout=SHORT_GUARD_S, capture_output=True, text=True).stdout
            assert '"xps":"2"' in answer.replace(" ", "")
    finally:
        for process in (server, holder):
            if process:
                process.kill()
                process.wait()
