# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The boot loader: GRUB, made from Debian's packages into one file a platform, with its configuration
# (image/grub.cfg) in a memory disk inside. The same configuration decides on UEFI, BIOS and U-Boot.

# What each platform's loader carries; nothing is loaded from the disk.
LOADER_MODULES="part_gpt fat memdisk tar normal test echo sleep reboot loadenv serial terminal"

loader_platform_modules() {
    case $1 in
        i386-pc) echo "$LOADER_MODULES biosdisk linux smbios" ;;
        # Under Secure Boot GRUB opens a system only when some verifier takes part. The one that measures into a TPM does,
        # and is welcome; what may run is decided by the firmware, to which `chainloader` hands the file.
        x86_64-efi) echo "$LOADER_MODULES chain tpm smbios" ;;
        *) echo "$LOADER_MODULES chain tpm" ;;
    esac
}

# PLATFORM -> the package that has its modules.
loader_package() {
    case $1 in
        i386-pc) echo grub-pc-bin ;;
        x86_64-efi) echo grub-efi-amd64-bin ;;
        arm64-efi) echo grub-efi-arm64-bin ;;
    esac
}

loader_platforms() { case $1 in x86_64) echo "x86_64-efi i386-pc" ;; aarch64) echo arm64-efi ;; esac }

# Runs in cache_build: $1 platform, $2 architecture of its package, $3 command line, then scratch and result.
recipe_loader() {
    local platform=$1 arch=$2 cmdline=$3 src=$4 out=$5 prefix=/sluice extra=()
    dpkg-deb -x "$(deb_path grub-common "$(debian_arch "$HOST_ARCH")")" "$src/tools"
    dpkg-deb -x "$(deb_path "$(loader_package "$platform")" "$arch")" "$src/modules"
    mkdir "$src/memdisk"
    sed "s|@CMDLINE@|$cmdline|" "$REPO/image/grub.cfg" >"$src/memdisk/grub.cfg"
    tar -C "$src/memdisk" --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 \
        -cf "$src/memdisk.tar" grub.cfg
    # shellcheck disable=SC2016 # GRUB's own variable
    printf 'set prefix=(memdisk)\n' >"$src/early.cfg"
    case $platform in
        # The loader comes from the BIOS boot partition; its files are on the second one of the same disk.
        i386-pc) prefix='(,gpt2)/sluice' ;;
        # There is no shim to ask here: the firmware itself checks each slot against the owner's keys.
        *) extra=(--disable-shim-lock) ;;
    esac
    # shellcheck disable=SC2046 # a list of modules
    "$src/tools/usr/bin/grub-mkimage" -O "$platform" -d "$src/modules/usr/lib/grub/$platform" -o "$out/loader" \
        -m "$src/memdisk.tar" -p "$prefix" -c "$src/early.cfg" "${extra[@]}" $(loader_platform_modules "$platform")
    [ "$platform" != i386-pc ] || cp "$src/modules/usr/lib/grub/i386-pc/boot.img" "$out/boot.img"
}

# loader_build PLATFORM CMDLINE: leaves the directory with `loader` (and `boot.img`) in CACHE_DIR.
loader_build() {
    local platform=$1 cmdline=$2 arch=amd64 key
    [ "$platform" != arm64-efi ] || arch=arm64
    deb_fetch grub-common "$(debian_arch "$HOST_ARCH")"
    deb_fetch "$(loader_package "$platform")" "$arch"
    key=$({
        deb_sha grub-common "$(debian_arch "$HOST_ARCH")"
        deb_sha "$(loader_package "$platform")" "$arch"
        cat "$REPO/image/grub.cfg"
        printf '%s\n' "$platform" "$cmdline"
        declare -f recipe_loader loader_platform_modules loader_package
        printf '%s\n' "$LOADER_MODULES"
    } | hash_text)
    cache_build "build the boot loader for $platform" "loader-$platform" "$key" \
        recipe_loader "$platform" "$arch" "$cmdline"
}

# loader_program PLATFORM SCRIPT FILE: an EFI program that runs a script of GRUB's, for tests: a system that stands still, or
# starts a kernel in a way that goes wrong.
loader_program() {
    local platform=$1 script=$2 file=$3 arch=amd64 dir
    [ "$platform" != arm64-efi ] || arch=arm64
    deb_fetch grub-common "$(debian_arch "$HOST_ARCH")"
    deb_fetch "$(loader_package "$platform")" "$arch"
    dir=$(mktemp -d)
    dpkg-deb -x "$(deb_path grub-common "$(debian_arch "$HOST_ARCH")")" "$dir/tools"
    dpkg-deb -x "$(deb_path "$(loader_package "$platform")" "$arch")" "$dir/modules"
    printf '%s\n' "$script" >"$dir/grub.cfg"
    printf 'set prefix=(memdisk)\n' >"$dir/early.cfg"
    tar -C "$dir" -cf "$dir/memdisk.tar" grub.cfg
    "$dir/tools/usr/bin/grub-mkimage" -O "$platform" -d "$dir/modules/usr/lib/grub/$platform" -o "$file" \
        -m "$dir/memdisk.tar" -p /none -c "$dir/early.cfg" \
        memdisk tar normal echo sleep reboot part_gpt fat chain linux
    rm -rf "$dir"
}

le_bytes() { # VALUE COUNT: little-endian
    local value=$1 i
    for ((i = 0; i < $2; i++)); do
        # shellcheck disable=SC2059 # the format is the byte
        printf "\\x$(printf %02x $((value >> (8 * i) & 255)))"
    done
}

put_bytes() { dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# loader_install_bios IMAGE DIR SECTOR: the first stage into the disk's first sector, beside the partition table, the rest
# into the BIOS boot partition that begins at SECTOR. The two are told where they are in sectors: offset 0x5c of
# the first stage, and the block list at the end of the loader's own first sector.
loader_install_bios() {
    local image=$1 dir=$2 sector=$3 core=$2/loader stage
    stage=$(mktemp "$OUT/.stage.XXXXXX")
    head -c 440 "$dir/boot.img" >"$stage"
    le_bytes "$sector" 8 | put_bytes "$stage" $((0x5c))
    # Some BIOSes give the wrong drive number for a hard disk; two NOPs skip the check that would believe them.
    printf '\x90\x90' | put_bytes "$stage" $((0x66))
    dd if="$stage" of="$image" conv=notrunc status=none
    cp "$core" "$stage"
    le_bytes $((sector + 1)) 8 | put_bytes "$stage" $((512 - 12))
    dd if="$stage" of="$image" bs=512 seek="$sector" conv=notrunc status=none
    rm -f "$stage"
}
