#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: the gateway's benchmarks, called by `./build.sh bench`. Each prints ratios against something
# measured in the same run; absolute figures belong to the machine of that hour. See run.py --help; other first arguments are
# scripts of their own, with a --help each: `mqtt` compares MQTT brokers, `tls` what TLS costs, `start` short and long logs, `sessions` is many of them with long
# queues, `drain` the uplinks beside Mosquitto's bridge, `backlog` an uplink's memory over ten million messages,
# `durable` brokers that acknowledge what is on disk, `log` ways to write to it, `log-isolation` what the log costs others.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = mqtt ]; then
    shift
    exec "$here/mqtt.sh" "$@"
fi
case ${1:-} in
    tls | start | sessions | drain | backlog | durable | log | log-isolation)
        script=${1//-/_}
        shift
        exec "${PYTHON:-/usr/bin/python3}" "$here/$script.py" "$@"
        ;;
esac
exec "${PYTHON:-/usr/bin/python3}" "$here/run.py" "$@"
