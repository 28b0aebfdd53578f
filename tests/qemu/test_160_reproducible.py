# SPDX-License-Identifier: Apache-2.0
"""Equal inputs give equal bytes: the initramfs and the EFI file, built again after the tree has held something else."""
import hashlib
import os
import subprocess

import pytest

REPO = os.environ["REPO"]


def build(directory, arch, commit):
    """A kernel with its gateway, in a directory of its own, from the shared cache. Returns the hashes of its files."""
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD",)}
    env.update(SLUICE_OUT=str(directory), SLUICE_COMMIT=commit, SOURCE_DATE_EPOCH="1700000000")
    done = subprocess.run([f"{REPO}/build.sh", "kernel", "--arch", arch], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: hashlib.sha256((directory / arch / name).read_bytes()).hexdigest()
            for name in ("sluice", "initramfs.cpio", "sluice.efi")}


@pytest.mark.guard(400)
def test_two_builds_are_identical(tmp_path):
    first = build(tmp_path / "one", "x86_64", "aaaaaaaaaaaa")
    other = build(tmp_path / "two", "x86_64", "bbbbbbbbbbbb")
    again = build(tmp_path / "elsewhere", "x86_64", "aaaaaaaaaaaa")
    assert first == again
    for name in first:
        assert first[name] != other[name], f"{name} does not depend on what went in"
