# SPDX-License-Identifier: Apache-2.0
"""The numbered statements of the standards, and the mark that says which of them a test shows.

@shows(v5="3.1.0-1 3.1.0-2", v3="3.1.0-1") names them by the numbers of MQTT 5.0 and of MQTT 3.1.1; a number that
does not exist, or that binds the client only, is an error when the test is imported. case() does the same for a
row of a table. matrix.py reads both from the source text, so the numbers must be literal strings.
"""
import os

FILES = {"5.0": "mqtt-5.0.txt", "3.1.1": "mqtt-3.1.1.txt"}
HERE = os.path.join(os.path.dirname(__file__), "..", "statements")


def load(version):
    """{number: (scope, words)} in the order of the standard."""
    found = {}
    with open(os.path.join(HERE, FILES[version])) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                number, scope, words = (x.strip() for x in line.split("|"))
                assert number not in found and scope in "SC", line
                found[number] = scope, words
    return found


KNOWN = {version: load(version) for version in FILES}


def check(v5, v3):
    for version, numbers in (("5.0", v5), ("3.1.1", v3)):
        for number in numbers.split():
            assert number in KNOWN[version], f"MQTT {version} has no statement {number}"
            assert KNOWN[version][number][0] != "C", f"MQTT {version} {number} binds the client only"


def shows(v5="", v3=""):
    check(v5, v3)
    return lambda function: function


def case(name, *values, v5="", v3=""):
    """A row of a table: (name, *values)."""
    check(v5, v3)
    return (name, *values)
