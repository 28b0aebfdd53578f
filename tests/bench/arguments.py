# SPDX-License-Identifier: Apache-2.0
"""The options that several bench scripts have, so that they are called the same and mean the same everywhere."""
import argparse
import os
import sys

import gateway as gw


def numbers(text):
    return [int(word) for word in text.split(",")]


def words(text):
    return text.split(",")


COMMON = {
    "rounds": {"type": int, "default": 3},
    "seconds": {"type": float, "default": 5, "help": "of each measured window"},
    "brokers": {"type": words},
    "cpus": {"default": "0", "help": "of the broker: 0, or 0,1 for two workers"},
    "pin": {"type": int, "default": 1 if os.cpu_count() > 1 else None, "help": "CPU of the generator"},
    "settings": {"default": "", "help": "more top-level settings of sluice"},
    "newest": {"action": "store_true", "help": "the archive's newest brokers (sid) instead of the installed ones"},
    "out": {"default": "", "help": "JSON of every run"},
}


class Parser(argparse.ArgumentParser):
    """doc: the script's docstring; common: names of COMMON; changed: what is different here, name={...}."""

    def __init__(self, doc, *common, **changed):
        super().__init__(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        for name in common:
            self.add_argument(f"--{name}", **{**COMMON[name], **changed.get(name, {})})

    def only(self, given, known):
        """Refuses names that there are not."""
        unknown = [name for name in given if name not in known]
        if unknown:
            self.error(f"unknown: {' '.join(unknown)}; known: {' '.join(known)}")


def need_gateway():
    if not os.access(gw.SLUICE, os.X_OK):
        sys.exit(f"{gw.SLUICE} is missing: run ./build.sh gateway")
