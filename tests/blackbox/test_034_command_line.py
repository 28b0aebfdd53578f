# SPDX-License-Identifier: Apache-2.0
"""The commands that need no running gateway: what they print, where to, and their exit statuses."""
import os
import re
import subprocess

import pytest

from harness.wait import GUARD_S

GOOD = 'listener a { protocol = frame; bind = "127.0.0.1:0"; mode = echo }\n'


def run(sluice, *arguments, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([sluice, *arguments], stderr=subprocess.PIPE, text=True, timeout=GUARD_S,
                          stdin=subprocess.DEVNULL, **options)


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.conf"
    path.write_text(GOOD)
    return str(path)


def test_check_says_ok(sluice, good):
    result = run(sluice, "check", "-c", good)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{good}: ok\n", "")
    for spelling in (["--config", good], [f"--config={good}"]):
        assert run(sluice, "check", *spelling).stdout == result.stdout


def test_check_without_a_file_looks_at_the_defaults(sluice, tmp_path):
    result = run(sluice, "check", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "(defaults): ok\n")
    assert not os.listdir(tmp_path)


def test_printed_configuration_is_a_configuration(sluice, good, tmp_path):
    first = run(sluice, "check", "--print", "-c", good)
    assert first.returncode == 0 and first.stdout.startswith(f"# {good}: ok\n"), first
    again = tmp_path / "again.conf"
    again.write_text(first.stdout)
    second = run(sluice, "check", "-c", str(again), "--print")
    assert second.returncode == 0, second
    assert second.stdout.splitlines()[1:] == first.stdout.splitlines()[1:]


def test_all_mistakes_are_reported_at_once(sluice, tmp_path):
    path = tmp_path / "bad.conf"
    path.write_text('workers = many\n\nlistener a {\n  protocol = coap\n  max_frmae = 1k\n}\n')
    result = run(sluice, "check", "-c", str(path))
    assert result.returncode == 2 and result.stdout == "", result
    lines = result.stderr.splitlines()
    for number, pattern in ((1, "workers.*'many'.*auto"), (3, "bind is missing"), (4, "'coap'.*allowed: frame, mqtt"),
                            (5, "max_frmae.*did you mean 'max_frame'")):
        assert any(line.startswith(f"{path}:{number}: ") and re.search(pattern, line) for line in lines), result


@pytest.mark.parametrize("name", ["minimal", "edge-box", "cloud-vm", "mqtt-site", "bench"])
def test_examples_of_the_documentation(sluice, name):
    repo = os.environ.get("REPO")
    if not repo:
        pytest.skip("REPO is not set")
    result = run(sluice, "check", "-c", f"{repo}/docs/examples/{name}.conf")
    assert result.returncode == 0, result


@pytest.mark.parametrize("arguments, said", [
    (["check", "-c"], "a file is missing after -c"),
    (["check", "--config="], "a file is missing after --config="),
    (["check", "-c", "a", "-c", "b"], "the file is given twice"),
    (["check", "a"], "unexpected argument (a file is given with -c): a"),
    (["check", "--pint"], "unknown option --pint"),
    (["check", "-c", "/"], "/: can not read: Is a directory (EISDIR)"),
    (["version", "x"], "unexpected argument x"),
    (["chekc"], "unknown command 'chekc'; did you mean 'check'?"),
    (["help", "chekc"], "unknown command 'chekc'; did you mean 'check'?"),
    ([], "a command is missing"),
])
def test_wrong_usage_is_status_2_and_explained(sluice, arguments, said):
    result = run(sluice, *arguments)
    assert result.returncode == 2 and said in result.stderr and result.stdout == "", result


def test_every_command_has_its_page(sluice):
    listed = re.findall(r"^  (\w+) +\S", run(sluice, "help").stdout, re.M)
    assert {"run", "check", "probe", "tune", "bench", "ctl", "version", "help"} <= set(listed)
    for command in listed:
        page = run(sluice, "help", command)
        assert page.returncode == 0 and page.stdout.startswith(f"usage: sluice {command}"), (command, page)
        assert re.search(r"[Ee]xit status", page.stdout), f"{command}: its exit statuses are not told"
        assert run(sluice, command, "--help").stdout == page.stdout, command


def test_version_line(sluice):
    line = run(sluice, "version").stdout
    assert re.fullmatch(r"sluice \S+ \(\S+\) (musl static|glibc, development build), "
                        r"engines: uring, epoll-et, epoll-lt, poll, select\n", line), line
    assert run(sluice, "--version").stdout == line


def test_output_that_can_not_be_written_is_not_success(sluice):
    with open("/dev/full", "w") as full:
        result = run(sluice, "help", stdout=full)
    assert result.returncode == 1 and "No space left on device" in result.stderr, result
