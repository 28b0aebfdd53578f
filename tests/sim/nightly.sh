#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulator's tests over seeds that no change runs: other ones each day, the first of which is printed. 2,000 seeds
# are some 6,000 power cuts.
days=$(($(date +%s) / 86400))
export SIM_SEEDS="${SIM_SEEDS:-2000}" SIM_FIRST="${SIM_FIRST:-$((days % 10000 * 10000))}"
exec "$(dirname "$0")/suite.sh"
