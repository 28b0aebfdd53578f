# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the user sees of a build: one line a step, with its elapsed time. A step's own output goes to a file
# under $LOGS; when the step fails, the file's last lines and its path are shown and the build ends.

say() { printf '%s\n' "$*"; }
note() { printf '  note: %s\n' "$*" >&2; }

die() {
    printf '\nbuild.sh: error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}

# group_run COMMAND... runs the command with errexit in force, in a process group of its own, and leaves its status in
# GROUP_STATUS. It returns 0 and must stand alone: bash switches errexit off inside any tested command. Its own
# group, so that an interrupt ends all that the command started and not only this shell.
group_run() {
    local pid
    GROUP_STATUS=0
    set -m
    (
        set +m
        set -euo pipefail
        "$@"
    ) </dev/null &
    pid=$!
    set +m
    # shellcheck disable=SC2064 # the number as it is now
    trap "kill -TERM -- -$pid 2>/dev/null; wait; exit 130" INT TERM
    wait "$pid" || GROUP_STATUS=$?
    trap - INT TERM
}

# step TITLE COMMAND... is group_run with the output in a log file and one line on the terminal.
step() {
    local title=$1 log start rc
    shift
    mkdir -p "$LOGS"
    log=$LOGS/$(printf '%s' "$title" | tr -cs 'A-Za-z0-9._-' '-').log
    start=$(date +%s%N)
    [ ! -t 1 ] || printf '  %-52s ...\r' "$title"
    group_run "$@" >"$log" 2>&1
    rc=$GROUP_STATUS
    local ms=$((($(date +%s%N) - start) / 1000000))
    if [ "$rc" -ne 0 ]; then
        printf '  %-52s FAILED after %d.%d s\n' "$title" $((ms / 1000)) $((ms % 1000 / 100))
        printf -- '--- last lines of %s\n' "$log" >&2
        tail -n 20 "$log" | cut -c 1-400 >&2
        printf -- '--- the whole log: %s\n' "$log" >&2
        exit "$rc"
    fi
    printf '  %-52s %4d.%d s\n' "$title" $((ms / 1000)) $((ms % 1000 / 100))
}
