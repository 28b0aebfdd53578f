#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The black-box tests: the gateway as a process, spoken to with exact bytes, on every engine.
#
# usage: suite.sh [pytest arguments: files, -k ...]; SUITE_DIR runs another directory of such tests
# Reads SLUICE, SLUICE_ASAN, SLUICE_TSAN, ARCH_SLUICE_aarch64, OUT and REPO from the environment. The files
# are spread over BLACKBOX_SHARDS pytest processes (default 4), because most tests wait for the gateway's clocks or the disk
# and not for a CPU. Prints a line per test ("ok", "SKIP name: reason", "FAIL name: what" and the details), and last
# "N passed, N failed, N skipped". The exit status is 0 when nothing failed.
set -u
here=${SUITE_DIR:-$(cd "$(dirname "$0")" && pwd)}
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
shards=${BLACKBOX_SHARDS:-4}
export PYTHONDONTWRITEBYTECODE=1
i=0
while [ "$i" -lt "$shards" ]; do
    BLACKBOX_SHARD=$i/$shards BLACKBOX_RESULT=$work/result.$i \
        /usr/bin/python3 -m pytest -p no:cacheprovider -c /dev/null \
        --rootdir "$here" "$@" &
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
