#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The simulator's tests, under ASan and UBSan: the cases that every engine has to pass with one transcript
# (sim_conform), the seeds that once found a fault (regress.txt), and a range of seeds of each scenario (sim_conn). A
# scenario with all its seeds counts as one test, a listed seed as one. A failure prints the command that repeats it.
#
# SIM_SEEDS: seeds of each scenario (default 120, about a minute on two cores). SIM_FIRST: the first one (default 1).
set -uo pipefail
cd "$REPO/tests/sim" || exit 1

passed=0 failed=0 skipped=0
outdir=$OUT/asan/sim
log=$OUT/asan/sim.log
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
seeds=${SIM_SEEDS:-120} first=${SIM_FIRST:-1}

# count_in PROGRAM LOG STATUS: adds the counts of the last line; a program without one, or that ended badly and blames
# nobody, is a failure.
count_in() {
    local line p f s
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$2" | tail -n 1)
    if [ -z "$line" ]; then
        printf 'FAIL %s: no count (exit status %d)\n' "$1" "$3"
        failed=$((failed + 1))
        return
    fi
    read -r p f s < <(awk '{ print $1, $3, $5 }' <<<"$line")
    if [ "$3" -ne 0 ] && [ "$f" -eq 0 ]; then
        printf 'FAIL %s: exit status %d without a failed test\n' "$1" "$3"
        f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# run_counted NAME COMMAND...: shows all but the count line.
run_counted() {
    local name=$1 rc=0
    shift
    "$@" >"$log" 2>&1 </dev/null || rc=$?
    grep -vE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | sed "s|repeat: sim_conn|repeat: $outdir/sim_conn|"
    count_in "$name" "$log" "$rc"
}

printf '== simulator, build\n'
if ! make --no-print-directory -j"$(nproc)" CC=gcc BUILD="$OUT/asan/obj" FLAGS="$OUT/asan/obj/flags.mk" OUTDIR="$outdir" \
    >"$OUT/asan/sim-build.log" 2>&1; then
    grep -E '(error|undefined reference|warning):?' "$OUT/asan/sim-build.log" | head -n 40
    printf 'FAIL sim: does not build (see %s)\n0 passed, 1 failed, 0 skipped\n' "$OUT/asan/sim-build.log"
    exit 1
fi

printf '== the same cases on every engine\n'
run_counted sim_conform "$outdir/sim_conform"

printf '== seeds that found a fault\n'
while read -r scenario seed note; do
    case $scenario in '' | '#'*) continue ;; esac
    if "$outdir/sim_conn" --scenario "$scenario" --seed "$seed" >"$log" 2>&1 </dev/null; then
        passed=$((passed + 1))
    else
        tail -n 60 "$log"
        printf 'FAIL sim/%s/%s: again: %s\n' "$scenario" "$seed" "$note"
        failed=$((failed + 1))
    fi
done <regress.txt

printf '== scenarios, %d seeds each from %d\n' "$seeds" "$first"
run_counted sim_conn "$outdir/sim_conn" --first "$first" --count "$seeds"

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
