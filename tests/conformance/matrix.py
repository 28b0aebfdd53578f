#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/conformance.md from the statement lists and the tests' own marks.

usage: matrix.py [--check]
With --check nothing is written: the exit status says whether the file is up to date. The tests are read as
text, not imported, so that nothing but python3 is needed.
"""
import ast
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from mqtt import statements  # noqa: E402

PAGE = os.path.join(HERE, "..", "..", "docs", "conformance.md")
KEYWORDS = {"v5": "5.0", "v3": "3.1.1"}

HEAD = """# MQTT conformance

Written by `tests/conformance/matrix.py` from the tests: do not edit. Each numbered statement of the two standards
that binds a server, in our words, and the tests that show it. The tests speak to the gateway with exact bytes, on
every I/O engine, with one worker and with two (`tests/conformance/suite.sh`; `--broker HOST:PORT` runs them against
any other broker). Every packet that arrives in any test is also judged by the decoder of the suite, which refuses
whatever the standard does not let a server send.

"""


def marks(tree):
    """(test or row, version, numbers) of every mark in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "shows":
                    yield from ((node.name, *pair) for pair in numbers(call))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "case":
            yield from ((f"\"{node.args[0].value}\"", *pair) for pair in numbers(node))


def numbers(call):
    for keyword in call.keywords:
        if keyword.arg in KEYWORDS:
            for number in keyword.value.value.split():
                yield KEYWORDS[keyword.arg], number


def collect():
    shown = {version: {} for version in statements.FILES}
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        with open(path) as f:
            tree = ast.parse(f.read())
        name = os.path.basename(path)[:-3]
        for test, version, number in marks(tree):
            shown[version].setdefault(number, {}).setdefault(name, []).append(test)
    return shown


def section(version, shown):
    known = statements.KNOWN[version]
    bound = {n: w for n, (scope, w) in known.items() if scope == "S"}
    without = [n for n in bound if n not in shown]
    lines = [f"## MQTT {version}", "",
             f"{len(bound)} statements bind the server: {len(bound) - len(without)} are shown by tests, "
             f"{len(without)} are not.", ""]
    if without:
        lines += ["### Without a test", ""] + [f"- `MQTT-{n}` {bound[n]}" for n in without] + [""]
    lines += ["### Shown", "", "| statement | what it asks | shown by |", "|---|---|---|"]
    for number, words in bound.items():
        if number in shown:
            tests = "; ".join(f"`{name}`: " + ", ".join(dict.fromkeys(t.removeprefix("test_") for t in found))
                              for name, found in shown[number].items())
            lines.append(f"| MQTT-{number} | {words.replace('|', chr(92) + '|')} | {tests} |")
    others = {"C": "Of the client alone"}
    for scope, title in others.items():
        found = [f"| MQTT-{n} | {w} |" for n, (s, w) in known.items() if s == scope]
        lines += ["", f"### {title}", "", "| statement | what it asks |", "|---|---|", *found]
    return lines + [""]


def main():
    shown = collect()
    page = HEAD + "\n".join("\n".join(section(version, shown[version])) for version in statements.FILES)
    old = ""
    if os.path.exists(PAGE):
        with open(PAGE) as f:
            old = f.read()
    if "--check" in sys.argv[1:]:
        if page != old:
            sys.exit("docs/conformance.md is not what tests/conformance/matrix.py writes: run it")
        return
    with open(PAGE, "w") as f:
        f.write(page)
    for version in statements.FILES:
        bound = [n for n, (s, _) in statements.KNOWN[version].items() if s == "S"]
        missing = [n for n in bound if n not in shown[version]]
        print(f"MQTT {version}: {len(bound) - len(missing)} of {len(bound)} statements are shown")
        for number in missing:
            print(f"  MQTT-{number} {statements.KNOWN[version][number][1]}")


main()
