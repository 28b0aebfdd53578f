#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: the gateway's benchmarks, called by `./build.sh bench`. Each prints ratios against something
# measured in the same run; absolute figures belong to the machine of that hour. See run.py --help; `mqtt` as the
# first argument compares MQTT brokers (mqtt.py --help).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = mqtt ]; then
    shift
    exec "$here/mqtt.sh" "$@"
fi
exec "${PYTHON:-/usr/bin/python3}" "$here/run.py" "$@"
