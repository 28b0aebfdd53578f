# SPDX-License-Identifier: Apache-2.0
"""What the tests of the appliance share: machines (vm.py), their monitor (qmp.py), archives that go over the built-in
initramfs (overlay.py), and the black-box suite's clients, which are imported from its directory as `blackbox`."""
import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _import_blackbox():
    """The other suite's package is called harness too, so it gets another name here."""
    directory = os.path.join(os.path.dirname(ROOT), "blackbox", "harness")
    spec = importlib.util.spec_from_file_location(
        "blackbox", os.path.join(directory, "__init__.py"), submodule_search_locations=[directory])
    module = importlib.util.module_from_spec(spec)
    sys.modules["blackbox"] = module
    spec.loader.exec_module(module)


if "blackbox" not in sys.modules:
    _import_blackbox()
    # The MQTT client of the conformance tests (blackbox.streams has it) waits as its own suite does.
    sys.modules[__name__ + ".wait"] = importlib.import_module("blackbox.wait")
