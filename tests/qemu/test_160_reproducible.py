# SPDX-License-Identifier: Apache-2.0
"""Equal inputs give equal bytes: the initramfs and the EFI file, built again in another place after the kernel's tree has held
something else. tests/build/double.sh compiles everything twice."""
import hashlib
import os
import re
import shutil
import subprocess

import pytest

from harness.vm import out

REPO = os.environ["REPO"]
ARCH = "x86_64"
FILES = ("sluice", "initramfs.cpio", "sluice.efi")


def hashes(directory):
    return {name: hashlib.sha256((directory / ARCH / name).read_bytes()).hexdigest() for name in FILES}


def build(directory, commit, epoch):
    """A kernel with its gateway, in a directory of its own, from the shared cache."""
    (directory / ARCH).mkdir(parents=True)
    shutil.copyfile(out(ARCH, "update.pub"), directory / ARCH / "update.pub")
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD",)}
    env.update(SLUICE_OUT=str(directory), SLUICE_COMMIT=commit, SOURCE_DATE_EPOCH=str(epoch))
    done = subprocess.run([f"{REPO}/build.sh", "kernel", "--arch", ARCH], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return hashes(directory)


@pytest.mark.nightly
@pytest.mark.guard(1800)
def test_two_builds_are_identical(tmp_path):
    version = open(out(ARCH, "obj/gen/version.h")).read()
    commit = re.search(r'SLUICE_COMMIT "(.*)"', version)[1]
    date = re.search(r'SLUICE_BUILD_DATE "(.*)"', version)[1]
    epoch = subprocess.run(["date", "-u", "-d", date, "+%s"], capture_output=True, text=True, check=True).stdout.strip()
    first = {name: hashlib.sha256(open(out(ARCH, name), "rb").read()).hexdigest() for name in FILES}
    other = build(tmp_path / "other", "bbbbbbbbbbbb", epoch)
    again = build(tmp_path / "elsewhere", commit, epoch)
    assert first == again
    for name in FILES:
        assert first[name] != other[name], f"{name} does not depend on what went in"
