# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# flash: an image onto a disk, with more care than dd. A wrong device name costs somebody his data, so the device has to be
# a whole disk, unused, removable and large enough; each doubt has its own switch, and the last one a question.
# What was written is read back, past the page cache, and compared.

flash_usage() {
    die "$1" "usage: ./build.sh flash [--arch x86_64|aarch64] [--image FILE] [--yes] [--fixed-disk --i-know-what-is-on-it] DEVICE"
}

# The sysfs directory of a disk, "" when DEVICE is no whole disk. FLASH_SYSFS stands in for /sys in tests.
flash_sysfs() {
    local dir=${FLASH_SYSFS:-/sys}/block/${1##*/}
    [ ! -d "$dir" ] || printf '%s\n' "$dir"
}

# Who uses the disk or a part of it: mounts, swap, and what is stacked on it (LVM, RAID, dm).
flash_users() {
    local device=$1 sys=$2 part name
    for part in "$sys" "$sys/${device##*/}"*; do
        [ -d "$part" ] || continue
        name=${part##*/}
        awk -v d="/dev/$name" '$1 == d { print d " is mounted on " $2 }' "${FLASH_PROC:-/proc}/mounts"
        awk -v d="/dev/$name" '$1 == d { print d " is swap" }' "${FLASH_PROC:-/proc}/swaps"
        if [ -n "$(ls "$part/holders" 2>/dev/null)" ]; then echo "/dev/$name is held by $(ls "$part/holders")"; fi
    done
}

flash_check() {
    local device=$1 image=$2 fixed=$3 known=$4 sys users sectors bytes
    [ -e "$device" ] || die "$device: does not exist"
    sys=$(flash_sysfs "$device")
    [ -n "$sys" ] || die "$device: not a whole disk" "A partition can not take an image; name the disk it is on."
    users=$(flash_users "$device" "$sys")
    [ -z "$users" ] || die "$device: in use" "$users" "Unmount it first; there is no switch for this."
    [ "$(cat "$sys/ro" 2>/dev/null || echo 0)" = 0 ] || die "$device: write-protected"
    sectors=$(cat "$sys/size")
    bytes=$(stat -c %s "$image")
    [ $((sectors * 512)) -ge "$bytes" ] || die "$device: $((sectors / 2048)) MiB, the image has $((bytes / MIB)) MiB"
    if [ "$(cat "$sys/removable")" != 1 ] && { [ -z "$fixed" ] || [ -z "$known" ]; }; then
        die "$device: not removable: it may be this machine's own disk ($((sectors / 2048)) MiB$(flash_model "$sys"))" \
            "If it really is to be overwritten, say so twice: --fixed-disk --i-know-what-is-on-it"
    fi
}

flash_model() {
    local model
    model=$(tr -s ' ' <"$1/device/model" 2>/dev/null) || return 0
    [ -z "$model" ] || printf ', %s' "$model"
}

flash_ask() {
    local device=$1 answer
    [ -t 0 ] || die "$device: not overwritten without a yes" "Without a terminal to ask, --yes is needed."
    printf 'Everything on %s will be lost. Type its name to go on: ' "$device"
    read -r answer
    [ "$answer" = "$device" ] || die "not confirmed, nothing was written"
}

# Runs as a step. What the image does not fill is left alone, but for an old backup partition table at the disk's end,
# which some firmware would believe.
flash_write() {
    local image=$1 device=$2 bytes size
    bytes=$(stat -c %s "$image")
    dd if="$image" of="$device" bs=1M conv=notrunc,fsync oflag=direct status=none 2>/dev/null ||
        dd if="$image" of="$device" bs=1M conv=notrunc,fsync status=none
    size=$(($(cat "$(flash_sysfs "$device")/size") * 512))
    if [ "$size" -gt $((bytes + 33 * 512)) ]; then
        dd if=/dev/zero of="$device" bs=512 seek=$((size / 512 - 33)) count=33 conv=notrunc,fsync status=none
    fi
    sync "$device"
}

flash_verify() {
    local image=$1 device=$2 bytes
    bytes=$(stat -c %s "$image")
    # A device's cached pages are dropped by BLKFLSBUF; O_DIRECT reads past them in any case.
    { dd if="$device" bs=1M count=$(((bytes + MIB - 1) / MIB)) iflag=direct status=none 2>/dev/null ||
        dd if="$device" bs=1M count=$(((bytes + MIB - 1) / MIB)) status=none; } | head -c "$bytes" | cmp - "$image"
}

command_flash() {
    local arch=$HOST_ARCH image='' yes='' fixed='' known='' device=''
    while [ $# -gt 0 ]; do
        case $1 in
            --arch | --image) [ $# -ge 2 ] || flash_usage "$1 needs a value"
                if [ "$1" = --arch ]; then arch=$2; else image=$2; fi
                shift ;;
            --arch=*) arch=${1#*=} ;;
            --image=*) image=${1#*=} ;;
            --yes) yes=1 ;;
            --fixed-disk) fixed=1 ;;
            --i-know-what-is-on-it) known=1 ;;
            -*) flash_usage "flash: unknown option '$1'" ;;
            *) [ -z "$device" ] || flash_usage "flash: one device only"; device=$1 ;;
        esac
        shift
    done
    [ -n "$device" ] || flash_usage "flash: a device is missing"
    case $arch in x86_64 | aarch64) ;; *) flash_usage "unknown architecture '$arch'" ;; esac
    image=${image:-$OUT/$arch/sluice.img}
    [ -f "$image" ] || die "$image: there is no image" "./build.sh image --arch $arch makes it"
    flash_check "$device" "$image" "$fixed" "$known"
    [ -n "$yes" ] || flash_ask "$device"
    step "write $device" flash_write "$image" "$device"
    step "read $device back" flash_verify "$image" "$device"
    say "$device holds $image, verified"
}
