# SPDX-License-Identifier: Apache-2.0
"""Ways to put a batch on disk, `sluice bench log`, here and in a virtual machine. Usage: log.py [--guest] [--dir DIR] [OPTION...]

Options that are not known here go to `sluice bench log`. --guest: the appliance's kernel under QEMU (TCG) with ext4 on a disk of
virtio-blk, whose cache is the host's file with every flush passed on (cache=none where the file system takes O_DIRECT).
"""
import os
import re
import subprocess
import sys
import tempfile
import time

import arguments
import gateway as gw

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "qemu"))

GUEST_DIR = "/var/lib/sluice"
DISK_BYTES = 1 << 30


def here(directory, options):
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=directory) as work:
        print(f"kernel {os.uname().release}, {os.uname().machine}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", flush=True)
        return subprocess.run([gw.SLUICE, "bench", "log", "--dir", work, *options], check=False).returncode


def guest(directory, options):
    from harness.disk import make_disk
    from harness.helper import helper
    from harness.overlay import overlay
    from harness.vm import Vm
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=directory) as work:
        disk = f"{work}/disk"
        make_disk(disk, DISK_BYTES, table_mib=DISK_BYTES >> 20, data_mib=(DISK_BYTES >> 20) - 8)
        over = overlay(f"{work}/over.cpio", {"beside": helper("beside", "x86_64"), "bench/sluice": gw.SLUICE})
        words = ",".join(["bench", "log", "--dir", GUEST_DIR, *options])
        with Vm("x86_64", "q35", memory=512, ports=[7000], initrd=over,
                append=f"rdinit=/beside beside=accept:7000+exec:/bench/sluice:{words}",
                disks=[{"file": disk, "cache": "none"}]) as vm:
            ended = vm.wait_console(r"^beside: exec \S+: status (-?\d+)", guard_s=900)
            table = re.search(r"^ +bytes  file.*?(?=^beside: exec)", vm.console(), re.M | re.S)
            print(table[0] if table else vm.console()[-3000:], end="", flush=True)
            return int(ended[1])


def main():
    parser = arguments.Parser(__doc__)
    parser.add_argument("--guest", action="store_true")
    parser.add_argument("--dir", help="whose disk is measured; default: that of temporary files")
    a, options = parser.parse_known_args()
    arguments.need_gateway()
    return (guest if a.guest else here)(a.dir, options)


if __name__ == "__main__":
    sys.exit(main())
