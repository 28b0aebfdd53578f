#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes every tests/fuzz/fuzz_*.c under libFuzzer with ASan and UBSan, starting from its seeds in
# tests/fuzz/corpus/TARGET. One target is one test. FUZZ_SECONDS (default 10) is the time of each, FUZZ_TARGETS
# narrows the list. FUZZ_JOBS (default: the number of processors) run at a time. What a run finds on its way is kept in $OUT/fuzz/TARGET/corpus and used by the next; an input
# that breaks the target is kept in $OUT/fuzz/TARGET and its path printed.
set -uo pipefail
. "$REPO/ci/at-a-time.sh"
cd "$REPO/tests/fuzz" || exit 1

FUZZ_SECONDS=${FUZZ_SECONDS:-10}
RSS_MB_MAX=2048
INPUT_S_MAX=5
passed=0 failed=0
verdicts=$(mktemp -d)
trap 'rm -rf "$verdicts"' EXIT
export ASAN_OPTIONS=detect_leaks=1
export UBSAN_OPTIONS=print_stacktrace=1

fail() {
    printf 'FAIL %s: %s\n' "$1" "$2"
    touch "$verdicts/$1.failed"
}

targets=${FUZZ_TARGETS:-}
if [ -z "$targets" ]; then
    for source in fuzz_*.c; do
        [ ! -e "$source" ] || targets+=" ${source%.c}"
    done
fi

run_target() {
    local target=$1 dir=$OUT/fuzz/$1 seeds=corpus/$1 log rc=0
    [ -e "$target.c" ] || { fail "$target" "tests/fuzz/$target.c does not exist"; return; }
    mkdir -p "$dir/corpus"
    printf '== %s, %s s\n' "$target" "$FUZZ_SECONDS"
    if ! make --no-print-directory CC=clang BUILD="$OUT/fuzz/obj" FLAGS="$OUT/fuzz/obj/flags.mk" OUTDIR="$OUT/fuzz" \
        "$OUT/fuzz/$target/run" >"$dir/build.log" 2>&1; then
        tail -n 20 "$dir/build.log"
        fail "$target" "does not build (see $dir/build.log)"
        return
    fi
    log=$dir/run.log
    local args=(-max_total_time="$FUZZ_SECONDS" -timeout="$INPUT_S_MAX" -rss_limit_mb="$RSS_MB_MAX" -print_final_stats=1
        -artifact_prefix="$dir/")
    if [ -f "$target.dict" ]; then args+=(-dict="$PWD/$target.dict"); fi
    if [ -d "$seeds" ]; then seeds=$PWD/$seeds; else seeds=''; fi
    (
        scratch=$(mktemp -d)
        trap 'rm -rf "$scratch"' EXIT
        cd "$scratch" || exit 1
        timeout --kill-after=10 $((FUZZ_SECONDS + 60)) "$dir/run" "${args[@]}" "$dir/corpus" ${seeds:+"$seeds"}
    ) >"$log" 2>&1 </dev/null || rc=$?
    if [ "$rc" -eq 0 ]; then
        printf '%s: %s inputs\n' "$target" "$(awk '/stat::number_of_executed_units/ { print $2 }' "$log")"
        touch "$verdicts/$target.passed"
    else
        grep -vE '^#[0-9]+' "$log" | tail -n 60
        fail "$target" "exit status $rc ($(grep -oE 'Test unit written to .*' "$log" | head -n 1); log $log)"
    fi
}

if [ -z "$targets" ]; then targets=none; fi
# shellcheck disable=SC2086 # a list of names
at_a_time "${FUZZ_JOBS:-$(nproc)}" "$verdicts" run_target $targets
for target in $targets; do
    if [ -e "$verdicts/$target.passed" ]; then
        passed=$((passed + 1))
    else
        [ -e "$verdicts/$target.failed" ] || fail "$target" "ended without a verdict"
        failed=$((failed + 1))
    fi
done
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
