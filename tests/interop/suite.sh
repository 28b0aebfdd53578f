#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The interop tests: mosquitto's clients, paho-mqtt and MQTT.js against the gateway's broker.
#
# usage: suite.sh [pytest arguments: files, -k ..., --broker HOST:PORT]
# Needs SLUICE, or --broker to test another broker, and NPM_MODULES for MQTT.js.
here=$(cd "$(dirname "$0")" && pwd)
SUITE_DIR=$here BLACKBOX_SHARDS=${BLACKBOX_SHARDS:-2} exec "$here/../blackbox/suite.sh" "$@"
