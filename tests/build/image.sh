#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The disk image as a file, with a stand-in for the system: its layout, its formats, that equal inputs give equal bytes,
# and the commands around it: update, sbom, and flash onto a file behind a made-up sysfs. What boots is tests/qemu.
set -uo pipefail

passed=0 failed=0 skipped=0
scratch=$(mktemp -d)
loop=''
cleanup() {
    ! mountpoint -q "$scratch/mnt" 2>/dev/null || umount "$scratch/mnt"
    [ -z "$loop" ] || losetup -d "$loop"
    rm -rf "$scratch"
}
trap cleanup EXIT
export SLUICE_OUT=$scratch/out SOURCE_DATE_EPOCH=1790000000 MTOOLS_SKIP_CHECK=1 PATH=$PATH:/usr/sbin:/sbin
build() { env -u OUT -u LOGS -u REPO SLUICE_CACHE="$CACHE" "$REPO/build.sh" "$@"; }
MIB=1048576

# check NAME COMMAND...: one test.
check() {
    local name=$1
    shift
    if "$@" >"$scratch/output" 2>&1; then
        printf 'ok %s\n' "$name"
        passed=$((passed + 1))
    else
        cut -c 1-300 "$scratch/output" | tail -n 30 | sed 's/^/    /'
        printf 'FAIL image/%s: %s\n' "$name" "$(tail -n 1 "$scratch/output" | cut -c 1-200)"
        failed=$((failed + 1))
    fi
}

# refuses TEXT COMMAND...: it fails and says so.
refuses() {
    local text=$1
    shift
    if "$@" >"$scratch/said" 2>&1; then
        echo "it was not refused: $*"
        return 1
    fi
    cat "$scratch/said"
    grep -qF -- "$text" "$scratch/said"
}

# A system that is none: recognisable bytes, and an odd size.
{ printf 'MZ'; seq 1 200000; } >"$scratch/system"

make_image() { build image --arch "$1" --efi "$scratch/system" --output "$2" "${@:3}"; }

is_small() { [ "$(stat -c %s "$1")" -le $((32 * MIB)) ]; }

has_partitions() {
    local table name
    table=$(sfdisk -d "$1")
    printf '%s\n' "$table"
    for name in sluice-bios sluice-esp sluice-state sluice-data; do grep -q "name=\"$name\"" <<<"$table" || return 1; done
    sfdisk --verify "$1"
}

slots_hold_it() {
    local slot
    for slot in a b; do
        mtype -i "$1@@2M" "::/sluice/$slot.efi" >"$scratch/slot"
        [ "$(stat -c %s "$scratch/slot")" -eq $((8 * MIB)) ] || { echo "slot $slot has not its full size"; return 1; }
        head -c "$(stat -c %s "$scratch/system")" "$scratch/slot" | cmp - "$scratch/system" || return 1
        tail -c "+$(($(stat -c %s "$scratch/system") + 1))" "$scratch/slot" | tr -d '\0' | cmp - /dev/null || return 1
    done
}

environment_is_a_sector() {
    local name
    for name in bootenv bootgood; do
        mtype -i "$1@@2M" "::/sluice/$name" >"$scratch/env"
        [ "$(stat -c %s "$scratch/env")" -eq 512 ] && head -n 2 "$scratch/env" | tail -n 1 | grep -qx slot=a || return 1
    done
}

data_is_clean() {
    local start size
    read -r start size < <(sfdisk -d "$1" | sed -n 's/.*start= *\([0-9]*\), size= *\([0-9]*\),.*sluice-data.*/\1 \2/p')
    dd if="$1" of="$scratch/data" bs=512 skip="$start" count="$size" status=none
    e2fsck -fn "$scratch/data"
}

has_loader() { mdir -i "$1@@2M" -b ::/EFI/BOOT | grep -qi "$2"; }

has_bios_loader() {
    # The first stage names the sector of the second, and that one the sector after it.
    [ "$(od -An -tu8 -j 92 -N 8 "$1" | tr -d ' ')" = 2048 ] &&
        [ "$(od -An -tu8 -j $((2048 * 512 + 500)) -N 8 "$1" | tr -d ' ')" = 2049 ] &&
        [ "$(od -An -tx1 -j 510 -N 2 "$1" | tr -d ' ')" = 55aa ]
}

is_the_same_again() {
    local other=$scratch/other.img
    make_image "$1" "$other" && cmp "$other" "$2"
}

is_gcp() { [ "$(tar -tzf "$1")" = disk.raw ] && [ "$(tar -xzOf "$1" | wc -c)" -eq $((1024 * MIB)) ]; }

is_vhd() { tail -c 512 "$1" | head -c 8 | grep -qx conectix && [ $((($(stat -c %s "$1") - 512) % MIB)) -eq 0 ]; }

echo "== image: layout"
for arch in x86_64 aarch64; do
    image=$scratch/$arch.img
    check "$arch/made" make_image "$arch" "$image"
    check "$arch/small" is_small "$image"
    check "$arch/partitions" has_partitions "$image"
    check "$arch/slots" slots_hold_it "$image"
    check "$arch/environment" environment_is_a_sector "$image"
    check "$arch/data" data_is_clean "$image"
    check "$arch/same-again" is_the_same_again "$arch" "$image"
done
check x86_64/loader has_loader "$scratch/x86_64.img" BOOTX64.EFI
check x86_64/bios-loader has_bios_loader "$scratch/x86_64.img"
check aarch64/loader has_loader "$scratch/aarch64.img" BOOTAA64.EFI

echo "== image: formats and options"
check gcp/made make_image x86_64 "$scratch/gcp" --format gcp
check gcp/content is_gcp "$scratch/gcp"
check vhd/made make_image x86_64 "$scratch/vhd" --format vhd
check vhd/content is_vhd "$scratch/vhd"
check qcow2/made make_image x86_64 "$scratch/qcow2" --format qcow2
check qcow2/content qemu-img compare -f qcow2 -F raw "$scratch/qcow2" "$scratch/x86_64.img"
printf 'log { level = debug; }\n' >"$scratch/sluice.conf"
check config/made make_image x86_64 "$scratch/with-config" --config "$scratch/sluice.conf" --size 48m
check config/there cmp <(mtype -i "$scratch/with-config@@2M" ::/sluice.conf) "$scratch/sluice.conf"
check extlinux/made make_image aarch64 "$scratch/extlinux" --extlinux --append quiet
check extlinux/small is_small "$scratch/extlinux"
check extlinux/kernel cmp <(mtype -i "$scratch/extlinux@@2M" ::/sluice/Image) "$scratch/system"
check extlinux/words grep -q "append .*quiet sluice.slot=a sluice.loader=extlinux" \
    <(mtype -i "$scratch/extlinux@@2M" ::/extlinux/extlinux.conf)
check extlinux/refuses-x86 refuses "for arm64 boards" make_image x86_64 "$scratch/x" --extlinux
check refuses-small refuses "too small" make_image x86_64 "$scratch/x" --size 16m
check refuses-format refuses "unknown format" make_image x86_64 "$scratch/x" --format iso
check refuses-lonely-key refuses "two files" make_image x86_64 "$scratch/x" --sb-key "$scratch/system"
truncate -s 9M "$scratch/large"
check refuses-large refuses "does not fit a slot" build image --efi "$scratch/large" --output "$scratch/x"

echo "== image: updates and bill of materials"
openssl ecparam -name prime256v1 -genkey -noout -out "$scratch/key.pem"
openssl ecparam -name secp384r1 -genkey -noout -out "$scratch/wrong.pem" 2>/dev/null
update_is_whole() {
    local bytes
    bytes=$(stat -c %s "$scratch/system")
    [ "$(head -c 8 "$1")" = SLUICEUP ] && [ "$(stat -c %s "$1")" -eq $((bytes + 512)) ] &&
        tail -c "$bytes" "$1" | cmp - "$scratch/system"
}
check update/made build update --key "$scratch/key.pem" --efi "$scratch/system" --version 1.2.3 --output "$scratch/update"
check update/content update_is_whole "$scratch/update"
check update/refuses-curve refuses "P-256" build update --key "$scratch/wrong.pem" --efi "$scratch/system"
check update/refuses-version refuses "three numbers" build update --key "$scratch/key.pem" --efi "$scratch/system" --version x
mkdir -p "$SLUICE_OUT/$HOST_ARCH"
cp "$scratch/system" "$SLUICE_OUT/$HOST_ARCH/sluice.efi"
cp "$SLUICE" "$SLUICE_OUT/$HOST_ARCH/sluice"
sbom=$SLUICE_OUT/$HOST_ARCH/sbom.spdx.json
lists_all() {
    local name
    for name in linux musl bearssl sluice $(awk '$1 == "dep" { print $2 }' "$REPO/toolchain/pins"); do
        grep -q "\"name\": \"$name\"" "$sbom" || { echo "$name is not listed"; return 1; }
    done
}
check sbom/made build sbom
check sbom/valid "$PYTHON" "$REPO/image/sbom.py" check "$sbom"
check sbom/lists-all lists_all
sed '0,/"licenseDeclared"/s//"other"/' "$sbom" >"$scratch/broken.json"
check sbom/finds-a-gap refuses "no licenseDeclared" "$PYTHON" "$REPO/image/sbom.py" check "$scratch/broken.json"

echo "== image: flash"
# disk NAME MIB REMOVABLE: a disk that is a file, as sysfs would show it.
disk() {
    local sys=$scratch/sys/block/$1
    mkdir -p "$sys/holders" "$scratch/dev"
    echo $(($2 * 2048)) >"$sys/size"
    echo "$3" >"$sys/removable"
    echo 0 >"$sys/ro"
    seq 1 100000 >"$scratch/dev/$1"
    truncate -s "$2M" "$scratch/dev/$1"
}
mkdir -p "$scratch/proc"
: >"$scratch/proc/mounts"
: >"$scratch/proc/swaps"
flash() {
    FLASH_SYSFS=$scratch/sys FLASH_PROC=$scratch/proc build flash --image "$scratch/x86_64.img" "$@"
}
disk card 64 1
disk fixed 64 0
disk small 16 1
disk busy 64 1
disk held 64 1
mkdir "$scratch/sys/block/busy/busy1"
echo "/dev/busy1 /mnt vfat rw 0 0" >"$scratch/proc/mounts"
touch "$scratch/sys/block/held/holders/md0"
holds_image() { cmp -n "$(stat -c %s "$scratch/x86_64.img")" "$scratch/x86_64.img" "$scratch/dev/$1"; }
untouched() { head -c 1000 "$scratch/dev/$1" | cmp - <(seq 1 100000 | head -c 1000); }
check flash/written flash --yes "$scratch/dev/card"
check flash/content holds_image card
check flash/asks refuses "without a yes" flash "$scratch/dev/card"
check flash/refuses-fixed refuses "not removable" flash --yes "$scratch/dev/fixed"
check flash/refuses-fixed-told-once refuses "not removable" flash --yes --fixed-disk "$scratch/dev/fixed"
check flash/fixed-untouched untouched fixed
check flash/fixed-told-twice flash --yes --fixed-disk --i-know-what-is-on-it "$scratch/dev/fixed"
check flash/refuses-mounted refuses "is mounted on /mnt" flash --yes "$scratch/dev/busy"
check flash/refuses-held refuses "is held by md0" flash --yes --fixed-disk --i-know-what-is-on-it "$scratch/dev/held"
check flash/refuses-small refuses "16 MiB" flash --yes "$scratch/dev/small"
check flash/refuses-partition refuses "not a whole disk" flash --yes "$scratch/system"
check flash/busy-untouched untouched busy
# A card that loses a byte of what was written to it: the copy is right, the disk is not.
mkdir "$scratch/bin"
cat >"$scratch/bin/dd" <<'DD'
#!/bin/sh
/bin/dd "$@" || exit 1
case " $* " in *" of=$BAD_CARD bs=1M "*) printf x | /bin/dd of="$BAD_CARD" bs=1 seek=5000000 conv=notrunc status=none ;; esac
DD
chmod +x "$scratch/bin/dd"
disk bad 64 1
flash_bad() { BAD_CARD=$scratch/dev/bad PATH=$scratch/bin:$PATH flash --yes "$scratch/dev/bad"; }
check flash/finds-a-bad-card refuses "read $scratch/dev/bad back" flash_bad

# A real block device, where this machine gives one.
flash_loop() { build flash --image "$scratch/x86_64.img" --yes --fixed-disk --i-know-what-is-on-it "$loop"; }
loop_holds_image() { cmp -n "$(stat -c %s "$scratch/x86_64.img")" "$scratch/x86_64.img" "$scratch/loop"; }
mount_part() { partx -u "$loop"; mkdir -p "$scratch/mnt"; mount -o ro,noload "${loop}p4" "$scratch/mnt"; }
truncate -s 64M "$scratch/loop"
if loop=$(losetup -P -f --show "$scratch/loop" 2>/dev/null); then
    check flash/loop/refuses-fixed refuses "not removable" build flash --image "$scratch/x86_64.img" --yes "$loop"
    check flash/loop/written flash_loop
    check flash/loop/content loop_holds_image
    check flash/loop/mounted mount_part
    check flash/loop/refuses-mounted refuses "is mounted on" flash_loop
    check flash/loop/refuses-partition refuses "not a whole disk" build flash --image "$scratch/x86_64.img" --yes "${loop}p4"
else
    loop=''
    echo "SKIP image/flash/loop: no loop device can be had here"
    skipped=1
fi

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
