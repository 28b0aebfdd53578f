#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Two clean builds of everything, each from a copy of the tree in another place and with a cache that holds only the
# downloads, give the same bytes: gateway, initramfs, EFI file, disk image, bill of materials. Compiles each kernel twice.
set -uo pipefail
passed=0 failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
COMPARED=(sluice initramfs.cpio sluice.efi sluice.img sbom.spdx.json)

# build_in PLACE ARCH: a clean copy of the tree, built there.
build_in() {
    local place=$scratch/$1 arch=$2
    if [ ! -d "$place/tree" ]; then
        mkdir -p "$place/tree" "$place/cache"
        git -C "$REPO" ls-files -z --cached --others --exclude-standard |
            tar -C "$REPO" --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -C "$place/tree" -xf -
        cp -a "$CACHE/resolved" "$CACHE/downloads" "$place/cache/"
    fi
    env -u OUT -u LOGS -u REPO -u BUILD SLUICE_OUT="$place/out" SLUICE_CACHE="$place/cache" \
        SOURCE_DATE_EPOCH=1700000000 SLUICE_COMMIT=aaaaaaaaaaaa "$place/tree/build.sh" image --arch "$arch"
}

for arch in x86_64 aarch64; do
    echo "== double: $arch"
    for place in here a/longer/way/from/here; do
        build_in "$place" "$arch" || { echo "FAIL double/$arch: the build in $place failed"; failed=$((failed + 1)); continue 2; }
    done
    for name in "${COMPARED[@]}"; do
        if cmp "$scratch/here/out/$arch/$name" "$scratch/a/longer/way/from/here/out/$arch/$name"; then
            echo "ok double/$arch/$name"
            passed=$((passed + 1))
        else
            echo "FAIL double/$arch/$name: the two builds differ"
            failed=$((failed + 1))
        fi
    done
    rm -rf "$scratch"/*/cache/built "$scratch/a/longer/way/from/here/cache/built"
done
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
