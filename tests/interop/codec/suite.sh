#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The MQTT codec against the npm package mqtt-packet (compare.js), under ASan and UBSan. One seed is one test.
# CODEC_SEEDS and CODEC_PACKETS widen it. Needs node and NPM_MODULES.
set -uo pipefail
cd "$REPO/tests/interop/codec" || exit 1

passed=0 failed=0 skipped=0
packets=${CODEC_PACKETS:-40000}
outdir=$OUT/asan/codec
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1

finish() {
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ]
    exit
}

if ! command -v node >/dev/null 2>&1 || [ ! -d "${NPM_MODULES:-}/mqtt-packet" ]; then
    echo "SKIP codec: node, or the npm packages, are not there"
    skipped=1
    finish
fi
if ! make --no-print-directory CC=gcc BUILD="$OUT/asan/obj" FLAGS="$OUT/asan/obj/flags.mk" OUTDIR="$outdir"; then
    echo "FAIL codec: codec_probe does not build"
    failed=1
    finish
fi
for seed in ${CODEC_SEEDS:-1 2 3}; do
    printf '== mqtt-packet, seed %s\n' "$seed"
    if node compare.js "$NPM_MODULES" "$outdir/codec_probe" "$packets" "$seed"; then
        passed=$((passed + 1))
    else
        echo "FAIL codec: seed $seed: see the differences above"
        failed=$((failed + 1))
    fi
done
finish
