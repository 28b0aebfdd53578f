#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The appliance in virtual machines, both architectures, under TCG.
#
# usage: suite.sh [pytest arguments: files, -k ...]; nightly.sh for the long ones, marked so
# Reads OUT and REPO from the environment; the kernels and images of $OUT have to be built. The files are spread over
# QEMU_SHARDS pytest processes (default 2), because much of a machine's life is waiting. Prints a line per test, and
# last "N passed, N failed, N skipped". The exit status is 0 when nothing failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
pids=
cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null; done
    wait
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

cd "$here" || exit 1
shards=${QEMU_SHARDS:-2}
export PYTHONDONTWRITEBYTECODE=1
i=0
while [ "$i" -lt "$shards" ]; do
    QEMU_SHARD=$i/$shards QEMU_RESULT=$work/result.$i \
        /usr/bin/python3 -m pytest -p no:cacheprovider -c /dev/null --rootdir "$here" \
        -m "${QEMU_MARK:-not nightly}" "$@" &
    pids="$pids $!"
    i=$((i + 1))
done
for pid in $pids; do wait "$pid"; done
pids=

passed=0 failed=0 skipped=0 i=0
while [ "$i" -lt "$shards" ]; do
    if [ -f "$work/result.$i" ]; then
        grep -v '^counts ' "$work/result.$i"
        read -r _ p f s <<COUNTS
$(grep '^counts ' "$work/result.$i")
COUNTS
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    else
        echo "FAIL pytest process $i left no result"
        failed=$((failed + 1))
    fi
    i=$((i + 1))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
