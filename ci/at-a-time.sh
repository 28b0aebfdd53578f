# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For suites of many programs: several run side by side, and what each prints stays together.

# at_a_time JOBS DIR COMMAND NAME...: calls COMMAND NAME for each name, JOBS at a time, each in a subshell. What one prints
# is shown when it has ended. DIR is an empty directory for that, and for files that COMMAND leaves.
at_a_time() {
    local jobs=$1 dir=$2 command=$3 name running=0
    shift 3
    for name in "$@"; do
        if [ "$running" -ge "$jobs" ]; then
            wait -n
            running=$((running - 1))
        fi
        (
            "$command" "$name" >"$dir/${name//\//.}.output" 2>&1
            flock "$dir" cat "$dir/${name//\//.}.output"
        ) &
        running=$((running + 1))
    done
    wait
}
