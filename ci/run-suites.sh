#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs test suites and sums their counts. Called by `./build.sh test` with the suites to run; what they need is built already.
#
# Suites run one after the other, but for two queues beside them, of which each runs one suite at a time: those that ci/suites
# marks `beside` only compute and run at low priority, those marked `waits` wait for clocks and peers and take little of a CPU.
# What they say is shown when the suite before it has ended. One that is marked `alone` waits for both queues.
#
# A suite prints what it likes, `FAIL name: what` for each failure, `SKIP name: reason` for each test that could not run
# here, and `N passed, N failed, N skipped` as its last line. Its whole output is kept in $OUT/test-logs/SUITE.log; shown live
# are headings (`== `), failures, skips and the count. A suite that prints no count, runs over its limit, is missing, or
# exits non-zero without a failure of its own counts as one failure.
set -euo pipefail

LOG_DIR=$OUT/test-logs
mkdir -p "$LOG_DIR"
passed=0 failed=0 skipped=0
results=$(mktemp -d)
failures=$results/failures suite_pid='' beside_pids='' beside=()
BESIDE_NICE=19
# timeout(1) passes the signal on to all that the suite started.
end_suites() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$suite_pid$beside_pids" ] || kill -TERM $suite_pid $beside_pids 2>/dev/null || true
    exit 130
}
trap 'wait; rm -rf "$results"' EXIT
trap end_suites INT TERM

# The lines of a suite's output that are worth seeing while it runs. `not ok` is TAP's failure.
compact() {
    grep --line-buffered -E '^(== |FAIL|SKIP|not ok|[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$)' |
        sed -u -E 's/^(.{200}).*/\1/; s/^/  /'
}

# run_suite NAME LIMIT_S SCRIPT: leaves its counts in $results/NAME.counts and what failed in $results/NAME.failures.
run_suite() {
    local name=$1 limit_s=$2 script=$REPO/$3 log=$LOG_DIR/$1.log rc=0 start=$SECONDS count p f s follower
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
        follower=$!
        wait "$suite_pid" || rc=$?
        suite_pid=''
        wait "$follower" || true
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
    echo "$p $f $s" >"$results/$name.counts"
    if [ "$f" -gt 0 ]; then
        { grep -E '^(FAIL|not ok)' "$log" || tail -n 20 "$log"; } | cut -c 1-300 | sed "s/^/$name: /" >"$results/$name.failures"
        echo "$name: the whole output: $log" >>"$results/$name.failures"
    fi
    printf '=== suite %s: %d passed, %d failed, %d skipped in %d s\n' "$name" "$p" "$f" "$s" $((SECONDS - start))
}

# beside_job QUEUE NAME LIMIT_S SCRIPT: the background process of run_beside. The queue's locked file keeps to one at a time.
beside_job() {
    local queue=$1
    shift
    trap - EXIT
    trap end_suites INT TERM
    suite_pid='' beside_pids=''
    exec 9>"$results/queue.$queue"
    flock 9
    [ "$queue" = waits ] || renice -n "$BESIDE_NICE" -p "$BASHPID" >/dev/null
    run_suite "$@" 9>&-
    touch "$results/$1.ended"
}

# run_beside QUEUE NAME LIMIT_S SCRIPT: returns at once.
run_beside() {
    beside_job "$@" >"$results/$2.output" 2>&1 &
    beside_pids+=" $!"
    beside+=("$2")
}

show_ended() {
    local name
    for name in "${beside[@]}"; do
        [ -e "$results/$name.ended" ] || continue
        cat "$results/$name.output"
        rm "$results/$name.ended"
    done
}

end_beside() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$beside_pids" ] || wait $beside_pids || true
    beside_pids=''
    show_ended
}

for wanted in "$@"; do
    while read -r name limit_s _ script when <&3; do
        [ "$name" = "$wanted" ] || continue
        case $when in
            beside | waits) run_beside "$when" "$name" "$limit_s" "$script" ;;
            alone)
                end_beside
                run_suite "$name" "$limit_s" "$script"
                ;;
            *)
                run_suite "$name" "$limit_s" "$script"
                show_ended
                ;;
        esac
    done 3< <(cat "$REPO/ci/suites" "$REPO/ci/nightly" | grep -vE '^ *(#|$)')
done
end_beside

for name in "$@"; do
    # A suite without counts was ended from outside.
    p=0 f=1 s=0
    [ ! -s "$results/$name.counts" ] || read -r p f s <"$results/$name.counts"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ -e "$results/$name.failures" ]; then
        cat "$results/$name.failures"
    elif [ "$f" -gt 0 ]; then
        echo "$name: ended before it had told its counts"
    fi
done >"$failures"

if [ -s "$failures" ]; then
    printf '\n=== failures\n'
    cat "$failures"
fi
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
