#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mqtt.sh: this broker beside others, called by `./build.sh bench mqtt`. See mqtt.py --help.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-/usr/bin/python3}" "$here/mqtt.py" "$@"
