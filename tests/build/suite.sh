#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the build promises: both architectures give one small static file that runs, clang accepts the sources, an
# unchanged tree is not compiled again, a clean copy of the tree builds without network, from the cached sources alone and
# in another place, to the same bytes, and what was compiled once is taken from the cache unless it has changed.
set -uo pipefail
. "$REPO/toolchain/lib/log.sh"
. "$REPO/toolchain/lib/variants.sh"
. "$REPO/toolchain/lib/gateway.sh"

passed=0 failed=0 skipped=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# check NAME COMMAND...: one test.
check() {
    local name=$1
    shift
    if "$@" >"$scratch/output" 2>&1; then
        printf 'ok %s\n' "$name"
        passed=$((passed + 1))
    else
        cut -c 1-300 "$scratch/output" | tail -n 30 | sed 's/^/    /'
        printf 'FAIL build/%s: %s\n' "$name" "$(tail -n 1 "$scratch/output" | cut -c 1-200)"
        failed=$((failed + 1))
    fi
}

skip() {
    printf 'SKIP build/%s: %s\n' "$1" "$2"
    skipped=$((skipped + 1))
}

reports_version() { "$@" version | tee /dev/stderr | grep -qF "$(cat "$REPO/VERSION")"; }

holds_no_path() { ! grep -aqF -e "$REPO" -e "$CACHE" -e "$HOME/" "$1" || { echo "$1 holds a path of this machine"; return 1; }; }

has_symbols() { readelf -SW "$1" | grep -q '\.debug_info' || { echo "$1 has no debug information"; return 1; }; }

machine_is() { readelf -hW "$1" | grep -q "Machine:.*$2" || { readelf -hW "$1"; return 1; }; }

# Nothing is compiled when nothing changed.
is_incremental() {
    local before after
    before=$(stat -c %Y.%s "$SLUICE")
    "$REPO/build.sh" gateway && after=$(stat -c %Y.%s "$SLUICE") || return 1
    ! grep -q '^  CC ' "$OUT/logs/compile-$HOST_ARCH.log" || { echo "an unchanged tree was compiled again"; return 1; }
    [ "$before" = "$after" ] || { echo "the binary was written again"; return 1; }
}

refuses_unknown_arch() { ! "$REPO/build.sh" gateway --arch vax && ! "$REPO/build.sh" frobnicate; }

# A copy of the sources as git sees them (without git: all but the results), built with a cache that holds only the
# downloads, in a network namespace that has no network.
copy_tree() {
    mkdir -p "$1"
    if git -C "$REPO" rev-parse --git-dir >/dev/null 2>&1; then
        # A file that is deleted but still in the index is listed and not there.
        git -C "$REPO" ls-files -z --cached --others --exclude-standard |
            tar -C "$REPO" --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -C "$1" -xf -
    else
        tar -C "$REPO" --exclude=./out -cf - . | tar -C "$1" -xf -
    fi
}

rebuilds_offline() {
    local cache=$scratch/cache
    copy_tree "$scratch/tree"
    mkdir -p "$cache"
    cp -r "$CACHE/resolved" "$cache/resolved"
    cp -rl "$CACHE/downloads" "$cache/downloads" 2>/dev/null || cp -r "$CACHE/downloads" "$cache/downloads"
    # The kernel headers are text; making them again would say nothing about reproducibility and takes long.
    mkdir "$cache/built"
    cp -r "$CACHE"/built/headers-* "$cache/built/"
    build_copy "$@"
}

# build_copy COMMIT EPOCH: the copy, with its own cache.
build_copy() {
    env -u SLUICE_OUT -u OUT -u REPO -u CACHE -u LOGS SLUICE_CACHE="$scratch/cache" SLUICE_COMMIT="$1" SOURCE_DATE_EPOCH="$2" \
        ${NO_NETWORK:+unshare -n} "$scratch/tree/build.sh" gateway
}

compiled() { grep -c '^  CC ' "$scratch/tree/out/logs/compile-$HOST_ARCH.log"; }

# The objects of the copy's first build were compiled there; those of $SLUICE may come from the cache: is_reproducible
# says that they are the same.
takes_objects() {
    local count
    rm -rf "$scratch/tree/out"
    build_copy "$@" || return 1
    count=$(compiled)
    [ "$count" -eq 0 ] || { echo "$count files were compiled again"; return 1; }
    is_reproducible
}

# One header has changed: what includes it is compiled, and nothing else is.
compiles_what_changed() {
    local count users
    printf '#define SLUICE_A_CHANGE 1\n' >>"$scratch/tree/appliance/proto/ws_frame.h"
    rm -rf "$scratch/tree/out"
    build_copy "$@" || return 1
    count=$(compiled)
    users=$(find "$scratch/tree/out/$HOST_ARCH/obj" -name '*.d' -exec grep -lF proto/ws_frame.h {} + | wc -l)
    [ "$count" -gt 0 ] && [ "$count" -eq "$users" ] && return
    echo "$count files were compiled, $users include the header"
    return 1
}

is_reproducible() {
    cmp "$SLUICE" "$scratch/tree/out/$HOST_ARCH/sluice"
}

echo "== build: the product"
for arch in x86_64 aarch64; do
    file=$OUT/$arch/sluice
    if [ ! -e "$file" ]; then
        skip "$arch" "not built on this host"
        continue
    fi
    case $arch in x86_64) machine=X86-64 ;; aarch64) machine=AArch64 ;; esac
    check "$arch/machine" machine_is "$file" "$machine"
    check "$arch/static-pie-and-small" product_check "$file"
    check "$arch/no-machine-paths" holds_no_path "$file"
    check "$arch/symbols-beside-it" has_symbols "$file.debug"
    if [ "$arch" = "$HOST_ARCH" ]; then
        check "$arch/runs" reports_version "$file"
    elif command -v "qemu-$arch" >/dev/null 2>&1; then
        check "$arch/runs-under-qemu" reports_version "qemu-$arch" "$file"
    else
        skip "$arch/runs-under-qemu" "qemu-$arch is not installed"
    fi
done
check clang/accepts-the-sources test -x "$OUT/clang/sluice"
check clang/runs reports_version "$OUT/clang/sluice"

echo "== build: the command"
check refuses-unknown-arch-and-command refuses_unknown_arch
check incremental is_incremental
check lint "$REPO/ci/lint.sh"

echo "== build: offline and reproducible"
commit=$(sed -n 's/.*SLUICE_COMMIT "\(.*\)"/\1/p' "$OUT/$HOST_ARCH/obj/gen/version.h")
date=$(sed -n 's/.*SLUICE_BUILD_DATE "\(.*\)"/\1/p' "$OUT/$HOST_ARCH/obj/gen/version.h")
if unshare -n true 2>/dev/null; then
    NO_NETWORK=1 check offline-from-the-cache rebuilds_offline "$commit" "$(date -u -d "$date" +%s)"
else
    skip offline-from-the-cache "no network namespace can be made here"
    NO_NETWORK='' check rebuild-from-the-cache rebuilds_offline "$commit" "$(date -u -d "$date" +%s)"
fi
check reproducible is_reproducible
check objects/taken takes_objects "$commit" "$(date -u -d "$date" +%s)"
check objects/changed-header compiles_what_changed "$commit" "$(date -u -d "$date" +%s)"

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
