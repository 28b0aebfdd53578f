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

# step TITLE COMMAND... runs the command with errexit in force, its output in a log file.
# The subshell is started in the background because bash switches errexit off inside any tested command.
step() {
    local title=$1 log start rc=0 pid
    shift
    mkdir -p "$LOGS"
    log=$LOGS/$(printf '%s' "$title" | tr -cs 'A-Za-z0-9._-' '-').log
    start=$(date +%s%N)
    [ ! -t 1 ] || printf '  %-52s ...\r' "$title"
    (
        set -euo pipefail
        "$@"
    ) >"$log" 2>&1 </dev/null &
    pid=$!
    wait "$pid" || rc=$?
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
