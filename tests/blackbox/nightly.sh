#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The black-box tests whose long form is too long for each change: two hundred kills under load. Arguments as for suite.sh.
[ $# -gt 0 ] || set -- test_203_kills.py
SLUICE_KILLS=${SLUICE_KILLS:-200} BLACKBOX_SHARDS=${BLACKBOX_SHARDS:-1} exec "$(dirname "$0")/suite.sh" "$@"
