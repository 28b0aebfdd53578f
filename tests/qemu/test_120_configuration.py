# SPDX-License-Identifier: Apache-2.0
"""The kernel that was built has each symbol that a fragment asks for, and the check that says so finds what it should."""
import glob
import os
import re
import subprocess

import pytest

from harness.vm import out

REPO = os.environ["REPO"]


def fragments(arch):
    return sorted(glob.glob(f"{REPO}/kconfig/common/*.config")) + sorted(glob.glob(f"{REPO}/kconfig/{arch}/*.config"))


def check(config, *files):
    """The build's own check, from its shell library."""
    script = f'. "{REPO}/toolchain/lib/kernel.sh"; kernel_config_check "$@"'
    return subprocess.run(["bash", "-c", script, "check", config, *files], capture_output=True, text=True,
                          env={**os.environ, "REPO": REPO})


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_every_symbol_is_as_asked(arch):
    result = check(out(arch, "kernel.config"), *fragments(arch))
    assert result.returncode == 0, result.stdout
    (count,) = re.findall(r"^(\d+) symbols asked for, 0 not as asked", result.stdout, re.M)
    assert int(count) > 300


@pytest.mark.parametrize("line, name", [
    ("CONFIG_NO_SUCH_SYMBOL=y", "CONFIG_NO_SUCH_SYMBOL"),
    ("CONFIG_NR_CPUS=3", "CONFIG_NR_CPUS"),
    ("# CONFIG_IO_URING is not set", "CONFIG_IO_URING"),
])
def test_what_is_not_as_asked_is_named(tmp_path, line, name):
    fragment = tmp_path / "99-wrong.config"
    fragment.write_text(line + "\n")
    result = check(out("x86_64", "kernel.config"), str(fragment))
    assert result.returncode != 0
    assert name in result.stdout and "99-wrong.config" in result.stdout


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_no_fragment_asks_twice_for_different_things(arch):
    asked = {}
    for path in fragments(arch):
        for line in open(path):
            match = re.match(r"(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set$", line.rstrip())
            if match:
                name, value = match[1] or match[3], match[2] or "n"
                assert asked.setdefault(name, value) == value, f"{path}: {name} is {asked[name]} elsewhere"


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_efi_file_fits_its_slot(arch):
    assert os.path.getsize(out(arch, "sluice.efi")) <= 8 * 1024 * 1024
    with open(out(arch, "sluice.efi"), "rb") as f:
        assert f.read(2) == b"MZ"
