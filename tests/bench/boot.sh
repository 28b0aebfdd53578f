#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# boot.sh: how long the appliance takes from the kernel's start to the first accepted connection, beside Debian's cloud
# kernel in the same run. Called by `./build.sh bench boot`, which builds the kernels; see boot.py --help.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-/usr/bin/python3}" "$here/boot.py" "$@"
