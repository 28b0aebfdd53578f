#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The one entry to building, testing and running Sluice; `./build.sh help` lists what it does. The work is in
# toolchain/lib (build) and ci (tests). Nothing outside $OUT and $CACHE is written, except for host packages that are
# missing and that it installs.
set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OUT=${SLUICE_OUT:-$REPO/out}
CACHE=${SLUICE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sluice}
LOGS=$OUT/logs
export LC_ALL=C REPO OUT CACHE LOGS

for part in log host fetch debs cache variants deps npm gateway e2fsprogs kernel loader image sbom flash run commands; do
    # shellcheck disable=SC1090 # the list above
    . "$REPO/toolchain/lib/$part.sh"
done

command=${1:-help}
[ $# -eq 0 ] || shift
case $command in
    gateway | kernel | dev | image | update | sbom | flash | run | test | fuzz | bench | lint | clean | help) "command_$command" "$@" ;;
    update-deps) command_update_deps "$@" ;;
    -h | --help) command_help ;;
    *) die "unknown command '$command'" "./build.sh help lists them" ;;
esac
