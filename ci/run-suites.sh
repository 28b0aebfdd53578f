#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs test suites one after the other and sums their counts. Called by `./build.sh test` with the suites to run;
# what they need is built already.
#
# A suite prints what it likes, `FAIL name: what` for each failure, `SKIP name: reason` for each test that could not run
# here, and `N passed, N failed, N skipped` as its last line. Its whole output is kept in $OUT/test-logs/SUITE.log; shown live
# are headings (`== `), failures, skips and the count. A suite that prints no count, runs over its limit, is missing, or
# exits non-zero without a failure of its own counts as one failure.
set -euo pipefail

LOG_DIR=$OUT/test-logs
mkdir -p "$LOG_DIR"
passed=0 failed=0 skipped=0
failures=$(mktemp)
suite_pid=''
trap 'rm -f "$failures"' EXIT
# timeout(1) passes the signal on to all that the suite started.
trap '[ -z "$suite_pid" ] || kill -TERM "$suite_pid" 2>/dev/null; exit 130' INT TERM

# The lines of a suite's output that are worth seeing while it runs. `not ok` is TAP's failure.
compact() {
    grep --line-buffered -E '^(== |FAIL|SKIP|not ok|[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$)' |
        sed -u -E 's/^(.{200}).*/\1/; s/^/  /'
}

# run_suite NAME LIMIT_S SCRIPT
run_suite() {
    local name=$1 limit_s=$2 script=$REPO/$3 log=$LOG_DIR/$1.log rc=0 start=$SECONDS count p f s
    printf '\n=== suite %s\n' "$name"
    if [ ! -x "$script" ]; then
        echo "FAIL $name: $3 is missing or not executable" | tee "$log"
        rc=127
    else
        : >"$log"
        timeout --kill-after=15 "$limit_s" "$script" >"$log" 2>&1 </dev/null &
        suite_pid=$!
        # The follower ends with the suite, after it has shown what was written last.
        tail -n +1 -s 0.2 -f --pid="$suite_pid" "$log" | compact &
        wait "$suite_pid" || rc=$?
        suite_pid=''
        wait || true
    fi
    count=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1 || true)
    read -r p f s < <(awk '{ print $1 + 0, $3 + 0, $5 + 0 }' <<<"${count:-0 passed, 0 failed, 0 skipped}")
    if [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ]; then
        echo "FAIL $name: over its limit of $limit_s s" | tee -a "$log"
        f=$((f + 1))
    elif [ -z "$count" ]; then
        echo "FAIL $name: no count printed (exit status $rc)" | tee -a "$log"
        f=$((f + 1))
    elif [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then
        echo "FAIL $name: exit status $rc without a failed test" | tee -a "$log"
        f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$f" -gt 0 ]; then
        { grep -E '^(FAIL|not ok)' "$log" || tail -n 20 "$log"; } | cut -c 1-300 | sed "s/^/$name: /" >>"$failures"
        echo "$name: the whole output: $log" >>"$failures"
    fi
    printf '=== suite %s: %d passed, %d failed, %d skipped in %d s\n' "$name" "$p" "$f" "$s" $((SECONDS - start))
}

for wanted in "$@"; do
    while read -r name limit_s _ script; do
        [ "$name" != "$wanted" ] || run_suite "$name" "$limit_s" "$script"
    done < <(cat "$REPO/ci/suites" "$REPO/ci/nightly" | grep -vE '^ *(#|$)')
done

if [ -s "$failures" ]; then
    printf '\n=== failures\n'
    cat "$failures"
fi
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
