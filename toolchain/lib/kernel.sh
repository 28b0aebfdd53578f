# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The kernel with the whole of user space inside it: fragments of kconfig/ over allnoconfig, compiled once into the
# cache, and linked again whenever the initramfs changes.
#
# Two stages, because they change at a different pace. The compiled tree is cached like every dependency, by the hash of
# the source, the merged fragments, the compiler and this recipe. The link (a new initramfs, nothing compiled but a few
# version strings) happens in that tree under a lock: kbuild sees by itself what follows from the new archive. The tree is
# built inside its own source directory, since kbuild names everything relative to it then: it may be moved, and where it
# lies leaves no trace in the result.

# The compressed kernel with initramfs, as an EFI program: what an image's slot holds.
EFI_BYTES_MAX=$((8 * 1024 * 1024))

# Sources that no configuration of ours compiles: half of the tree's size. Kconfig and Makefiles of them stay, since
# kbuild reads all of these.
KERNEL_UNUSED=(
    '*/Documentation/*.rst' '*/Documentation/*.yaml' '*/Documentation/*.txt' '*/tools/testing'
    '*/drivers/gpu/*.[ch]' '*/drivers/staging/*.[ch]' '*/drivers/media/*.[ch]' '*/drivers/net/wireless/*.[ch]'
    '*/drivers/infiniband/hw/*.[ch]' '*/sound/*.c' '*/samples/*.[ch]'
)

kernel_fragments() { printf '%s\n' "$REPO"/kconfig/common/*.config "$REPO/kconfig/$1"/*.config; }

kernel_require() {
    if [ "$1" = "$HOST_ARCH" ]; then host_require base kernel; else host_require base kernel "$1"; fi
}

# kernel_make ARCH TREE TARGET...: kbuild without anything of this machine or moment in the result.
kernel_make() {
    local arch=$1 tree=$2 stamp
    shift 2
    stamp=$(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %e %H:%M:%S UTC %Y')
    make -C "$tree" -j"$JOBS" ARCH="$(kernel_arch "$arch" | sed s/^x86$/x86_64/)" CROSS_COMPILE="$(tool_prefix "$arch")" \
        KBUILD_BUILD_USER=sluice KBUILD_BUILD_HOST=sluice KBUILD_BUILD_VERSION=1 KBUILD_BUILD_TIMESTAMP="$stamp" "$@"
}

kernel_targets() { case $1 in x86_64) echo bzImage vmlinux ;; aarch64) echo Image vmlinuz.efi ;; esac; }

# kernel_config_check CONFIG FRAGMENT...: each line of each fragment holds in the result. kconfig drops silently what it
# does not know and what lacks a dependency; here it is named.
kernel_config_check() {
    local config=$1
    shift
    awk '
        FNR == NR {
            if (match($0, /^CONFIG_[A-Z0-9a-z_]+=/)) have[substr($0, 1, RLENGTH - 1)] = substr($0, RLENGTH + 1)
            next
        }
        /^CONFIG_[A-Za-z0-9_]+=/ {
            name = $0; sub(/=.*/, "", name); value = substr($0, length(name) + 2); count++
            if (have[name] != value) {
                printf "%s: %s=%s is asked for, the result has %s\n", FILENAME, name, value, name in have ? have[name] : "none"
                bad++
            }
        }
        /^# CONFIG_[A-Za-z0-9_]+ is not set$/ {
            count++
            if ($2 in have) { printf "%s: %s has to be off, the result has %s\n", FILENAME, $2, have[$2]; bad++ }
        }
        END { printf "%d symbols asked for, %d not as asked\n", count, bad; exit bad > 0 }' "$config" "$@"
}

# recipe_kernel ARCH SRC OUT: the compiled tree, around an empty initramfs.
recipe_kernel() {
    local arch=$1 out=$3 fragments exclude=() pattern tree=$3/tree
    mapfile -t fragments < <(kernel_fragments "$arch")
    for pattern in "${KERNEL_UNUSED[@]}"; do exclude+=("--exclude=$pattern"); done
    cache_unpack "$(dep_paths linux)" "$tree" --wildcards "${exclude[@]}"
    cat "${fragments[@]}" >"$out/fragments"
    KCONFIG_ALLCONFIG=$out/fragments kernel_make "$arch" "$tree" allnoconfig
    kernel_config_check "$tree/.config" "${fragments[@]}"
    cp "$tree/.config" "$out/config"
    cp "$REPO/kconfig/common/bootconfig" "$tree/bootconfig"
    gcc -O2 -o "$out/gen_init_cpio" "$tree/usr/gen_init_cpio.c"
    "$out/gen_init_cpio" -t 0 /dev/null >"$tree/initramfs.cpio"
    # shellcheck disable=SC2046 # a list of targets
    SOURCE_DATE_EPOCH=0 kernel_make "$arch" "$tree" $(kernel_targets "$arch")
}

# kernel_prepare ARCH: sets KERNEL_DIR to the compiled tree's directory in the cache.
kernel_prepare() {
    local arch=$1 key fragments
    dep_fetch linux
    mapfile -t fragments < <(kernel_fragments "$arch")
    key=$({
        cat "$(dep_record linux)" "${fragments[@]}" "$REPO/kconfig/common/bootconfig"
        declare -f recipe_kernel kernel_make kernel_targets cache_unpack
        printf '%s\n' "${KERNEL_UNUSED[@]}"
        cc_identity "$(tool_prefix "$arch")gcc"
        "$(tool_prefix "$arch")ld" --version | head -n 1
    } | hash_text)
    cache_build "compile Linux $(dep_version linux) for $arch" "kernel-$arch" "$key" recipe_kernel "$arch"
    KERNEL_DIR=$CACHE_DIR
}

# initramfs_build ARCH FILE: the archive, from rootfs/ and what was built for this architecture.
initramfs_build() {
    local arch=$1 file=$2 list
    list=$(mktemp)
    cat "$REPO/rootfs/initramfs.list" >"$list"
    cat "$REPO/rootfs/e2fsprogs.list" >>"$list"
    # The public keys that updates are checked with; `./build.sh image --update-key` writes them. Empty: no updates.
    [ -f "$OUT/$arch/update.pub" ] || : >"$OUT/$arch/update.pub"
    E2FSCK=$OUT/$arch/e2fsck MKE2FS=$OUT/$arch/mke2fs \
        ROOTFS=$REPO/rootfs SLUICE=$OUT/$arch/sluice UPDATE_PUB=$OUT/$arch/update.pub \
        "$KERNEL_DIR/gen_init_cpio" -t "$SOURCE_DATE_EPOCH" "$list" >"$file.new"
    rm -f "$list"
    mv "$file.new" "$file"
}

# kernel_link ARCH: the archive goes in and the results go to $OUT/ARCH.
kernel_link() {
    local arch=$1 out=$OUT/$1 tree=$KERNEL_DIR/tree size
    initramfs_build "$arch" "$out/initramfs.cpio"
    cmp -s "$out/initramfs.cpio" "$tree/initramfs.cpio" || cp "$out/initramfs.cpio" "$tree/initramfs.cpio"
    # shellcheck disable=SC2046 # a list of targets
    kernel_make "$arch" "$tree" $(kernel_targets "$arch")
    case $arch in
        x86_64)
            install -m 644 "$tree/arch/x86/boot/bzImage" "$out/bzImage"
            install -m 644 "$tree/arch/x86/boot/bzImage" "$out/sluice.efi"
            "$(tool_prefix "$arch")objcopy" --strip-all "$tree/vmlinux" "$out/vmlinux"
            ;;
        aarch64)
            install -m 644 "$tree/arch/arm64/boot/Image" "$out/Image"
            install -m 644 "$tree/arch/arm64/boot/vmlinuz.efi" "$out/sluice.efi"
            ;;
    esac
    install -m 644 "$tree/System.map" "$out/System.map"
    install -m 644 "$tree/.config" "$out/kernel.config"
    size=$(stat -c %s "$out/sluice.efi")
    [ "$size" -le "$EFI_BYTES_MAX" ] || { echo "$out/sluice.efi: $size bytes, the limit is $EFI_BYTES_MAX"; return 1; }
}

kernel_link_locked() {
    local lock_fd
    exec {lock_fd}>"$CACHE/locks/link-${KERNEL_DIR##*/}"
    flock "$lock_fd"
    kernel_link "$1"
}

kernel_ready() {
    kernel_require "$1"
    variant_build "$1"
    e2fsprogs_build "$1"
    kernel_prepare "$1"
}

kernel_link_step() { step "link the kernel for $1" kernel_link_locked "$1"; }

# kernel_build ARCH: leaves the kernel, the initramfs and the EFI file in $OUT/ARCH.
kernel_build() {
    kernel_ready "$1"
    kernel_link_step "$1"
}

# kernels_build ARCH...: the same for several. A link is mostly one process (the linker's passes, zstd at its highest level),
# so they run side by side. To be called within group_run, which ends them when it is interrupted.
kernels_build() {
    local arch pid links=() failed=0
    for arch in "$@"; do
        kernel_ready "$arch"
        kernel_link_step "$arch" &
        links+=($!)
    done
    for pid in "${links[@]}"; do wait "$pid" || failed=1; done
    return "$failed"
}

# --- Debian's kernel, for comparison ---

recipe_unpack_deb() {
    dpkg-deb -x "$1" "$3"
}

# debian_kernel_prepare ARCH: exports DEBIAN_KERNEL_ARCH, the directory of the unpacked package. Without it (the pinned
# one has left the archive, or there is no network) the variable stays empty, and the benchmark says so.
debian_kernel_prepare() {
    local arch=$1 darch name
    darch=$(debian_arch "$arch")
    name=$(awk -v a="$darch" '$1 == "deb" && $2 ~ /^linux-image-/ && $6 == a { print $2; exit }' "$PINS")
    group_run deb_fetch "$name" "$darch"
    [ "$GROUP_STATUS" -eq 0 ] || { note "no Debian kernel for $arch: no comparison"; return 0; }
    cache_build "unpack $name" "debian-kernel-$arch" "$(deb_sha "$name" "$darch" | cut -c1-16)" \
        recipe_unpack_deb "$(deb_path "$name" "$darch")"
    export "DEBIAN_KERNEL_$arch=$CACHE_DIR"
}
