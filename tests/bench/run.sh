#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: the gateway's benchmarks, called by `./build.sh bench`. Each prints ratios against something
# measured in the same run; absolute figures belong to the machine of that hour. See run.py --help.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-/usr/bin/python3}" "$here/run.py" "$@"
