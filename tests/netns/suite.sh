#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The appliance's network part in network namespaces, against a real DHCP server and scripted ones.
#
# usage: suite.sh [pytest arguments: files, -k ...]
# Reads SLUICE from the environment. Needs the right to make network namespaces; without it everything is skipped. Prints a
# line per test that failed, and last "N passed, N failed, N skipped".
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$here" || exit 1
if ! unshare -n -m true 2>/dev/null; then
    echo "SKIP netns: this user may not make network namespaces"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
export PYTHONDONTWRITEBYTECODE=1 NETNS_RESULT="$work/result"
# sysfs shows the interfaces of the namespace it was mounted in.
# shellcheck disable=SC2016 # the inner shell expands them
unshare -n -m sh -c 'mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"' sh \
    /usr/bin/python3 -m pytest -p no:cacheprovider -c /dev/null --rootdir "$here" "$@"
if [ ! -f "$work/result" ]; then
    echo "FAIL pytest left no result"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
grep -v '^counts ' "$work/result"
read -r _ passed failed skipped <<COUNTS
$(grep '^counts ' "$work/result")
COUNTS
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
