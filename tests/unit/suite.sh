#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The unit tests: every tests/unit/test_*.c is one cmocka program against libsluice.a, run under ASan with UBSan and
# again under TSan (the data races of the rings show only there). Counted are the tests that cmocka reports; a
# program that dies, leaks or reports nothing is one more failure. UNIT_JOBS programs (default: one more than processors,
# since a third of their time is waiting) run at a time; those named *_mt, whose threads race each other, run alone.
set -uo pipefail
. "$REPO/ci/at-a-time.sh"
cd "$REPO/tests/unit" || exit 1

passed=0 failed=0 skipped=0
counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT
# Not detect_stack_use_after_return: gcc 12's stand-in stack gives less than 64 bytes of alignment.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
export CMOCKA_MESSAGE_OUTPUT=TAP
# One test program may take this long.
PROGRAM_LIMIT_S=240

fail() {
    printf 'FAIL %s: %s\n' "$1" "$2"
    not_ok=$((not_ok + 1))
}

# run_program VARIANT/NAME: leaves its counts of passed, failed and skipped tests in $counts/VARIANT.NAME.
run_program() {
    local name=$1 variant=${1%/*} program=$OUT/${1%/*}/unit/${1#*/} source=${1#*/}.c log rc=0 ok=0 not_ok=0 skip=0
    # Make leaves an older program in place when the new one does not compile.
    if [ ! -x "$program" ] || [ "$source" -nt "$program" ] || [ "$OUT/$variant/obj/libsluice.a" -nt "$program" ]; then
        fail "$name" "does not build (see $OUT/$variant/unit-build.log)"
    else
        run_built
    fi
    echo "$ok $not_ok $skip" >"$counts/${name//\//.}"
}

run_built() {
    local run=(timeout --kill-after=5 "$PROGRAM_LIMIT_S")
    log=$program.log
    # TSan of gcc 12 cannot place its shadow memory where the kernel randomises addresses widely.
    if [ "$variant" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then run+=(setarch "$(uname -m)" -R); fi
    (
        scratch=$(mktemp -d)
        trap 'rm -rf "$scratch"' EXIT
        cd "$scratch" || exit 1
        TMPDIR=$scratch "${run[@]}" "$program"
    ) >"$log" 2>&1 </dev/null || rc=$?
    # A skipped test is `ok` or, in cmocka 1.1, `not ok`, with the word SKIP; it is not a failure.
    skip=$(grep -cE '^(not )?ok [0-9]+.*# SKIP' "$log")
    ok=$(grep -E '^ok [0-9]+' "$log" | grep -vc '# SKIP')
    not_ok=$(grep -E '^not ok [0-9]+' "$log" | grep -vc '# SKIP')
    printf '%s: %d ok, %d not ok, %d skipped, exit %d\n' "$name" "$ok" "$not_ok" "$skip" "$rc"
    sed -nE "s|^(not )?ok [0-9]+ (- )?# SKIP (.*)|SKIP $name \3: skipped by the test|p" "$log"
    grep -E '^not ok [0-9]+' "$log" | grep -v '# SKIP' | sed -E "s|^not ok [0-9]+ (- )?|FAIL $name |"
    if [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ]; then
        fail "$name" "over $PROGRAM_LIMIT_S s"
    elif [ "$rc" -ne 0 ] && [ "$not_ok" -eq 0 ]; then
        fail "$name" "exit status $rc"
    elif [ $((ok + not_ok + skip)) -eq 0 ]; then
        fail "$name" "reported no test"
    fi
    if [ "$rc" -ne 0 ]; then sed 's/^/    /' "$log" | tail -n 80; fi
}

side_by_side=() alone=()
# TSan first: its programs run longest, and the last ones then leave no processor idle for long.
for variant in tsan asan; do
    printf '== unit tests, %s: build\n' "$variant"
    if ! make -k -j"$(nproc)" --no-print-directory CC=gcc BUILD="$OUT/$variant/obj" FLAGS="$OUT/$variant/obj/flags.mk" \
        OUTDIR="$OUT/$variant/unit" >"$OUT/$variant/unit-build.log" 2>&1; then
        grep -E '(error|Error|undefined reference|warning):?' "$OUT/$variant/unit-build.log" | head -n 40
    fi
    for source in test_*.c; do
        [ -e "$source" ] || continue
        case $source in
            *_mt.c) alone+=("$variant/${source%.c}") ;;
            *) side_by_side+=("$variant/${source%.c}") ;;
        esac
    done
done
printf '== unit tests\n'
at_a_time "${UNIT_JOBS:-$(($(nproc) + 1))}" "$counts" run_program "${side_by_side[@]}"
at_a_time 1 "$counts" run_program "${alone[@]}"
for name in "${side_by_side[@]}" "${alone[@]}"; do
    if [ -s "$counts/${name//\//.}" ]; then
        read -r ok not_ok skip <"$counts/${name//\//.}"
        passed=$((passed + ok)) failed=$((failed + not_ok)) skipped=$((skipped + skip))
    else
        printf 'FAIL %s: ended without a count\n' "$name"
        failed=$((failed + 1))
    fi
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
