#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The conformance tests: every numbered statement of MQTT 5.0 and 3.1.1 that binds a server.
#
# usage: suite.sh [pytest arguments: files, -k ..., --broker HOST:PORT]
# Needs SLUICE, or --broker to test another broker. The runner is that of the black-box suite.
here=$(cd "$(dirname "$0")" && pwd)
SUITE_DIR=$here BLACKBOX_SHARDS=${BLACKBOX_SHARDS:-3} exec "$here/../blackbox/suite.sh" "$@"
