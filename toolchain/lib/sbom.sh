# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The bill of materials of what was built: out/<arch>/sbom.spdx.json (image/sbom.py writes it).

# The binary packages that an architecture's image holds parts of, for sbom.py.
sbom_debs() {
    local platform package arch deb_arch
    deb_arch=$(debian_arch "$1")
    for platform in $(loader_platforms "$1"); do
        package=$(loader_package "$platform")
        printf '%s %s\n' "$package" "$deb_arch"
    done
    printf 'grub-common %s\n' "$(debian_arch "$HOST_ARCH")"
}

# sbom_write ARCH [IMAGE]: of what $OUT/ARCH holds. Without a system (an image made with --efi) there is nothing to say.
sbom_write() {
    local arch=$1 image=${2:-} dir=$OUT/$1 package deb_arch
    if [ ! -f "$dir/sluice.efi" ] || [ ! -f "$dir/sluice" ]; then return 0; fi
    sbom_debs "$arch" | while read -r package deb_arch; do
        printf '%s %s %s %s %s %s %s\n' "$package" "$(deb_version "$package" "$deb_arch")" \
            "$(deb_field "$package" "$deb_arch" licence)" "$deb_arch" "$(deb_sha "$package" "$deb_arch")" \
            "$(basename "$(deb_path "$package" "$deb_arch")")" "$(deb_field "$package" "$deb_arch" pool)"
    done >"$dir/sbom.debs"
    "$HOST_PYTHON" "$REPO/image/sbom.py" write --arch "$arch" --version "$VERSION" --commit "$SLUICE_COMMIT" \
        --created "$BUILD_DATE" --lock "$OUT/lock-report.txt" --debs "$dir/sbom.debs" \
        --gcc "$("$(tool_prefix "$arch")gcc" -dumpfullversion)" --system "$dir/sluice.efi" --binary "$dir/sluice" \
        --linked "musl $LIBRARIES" ${image:+--image "$image"} --output "$dir/sbom.spdx.json.new"
    rm "$dir/sbom.debs"
    mv "$dir/sbom.spdx.json.new" "$dir/sbom.spdx.json"
}

command_sbom() {
    local arch=$HOST_ARCH platform deb_arch
    case ${1:-} in --arch=*) arch=${1#*=} ;; --arch) arch=${2:-} ;; '') ;; *) die "usage: ./build.sh sbom [--arch A]" ;; esac
    case $arch in x86_64 | aarch64) ;; *) die "unknown architecture '$arch'" ;; esac
    [ -f "$OUT/$arch/sluice.efi" ] || die "there is no system for $arch yet" "./build.sh image --arch $arch makes it"
    host_require base image
    version_select
    lock_report
    deb_arch=$(debian_arch "$arch")
    for platform in $(loader_platforms "$arch"); do deb_fetch "$(loader_package "$platform")" "$deb_arch"; done
    deb_fetch grub-common "$(debian_arch "$HOST_ARCH")"
    sbom_write "$arch"
    say "$OUT/$arch/sbom.spdx.json"
}
