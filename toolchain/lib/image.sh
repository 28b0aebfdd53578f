# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The disk image, made of files only: no root, no loop device, no mount. docs/image.md describes the layout.
#
#   1 sluice-bios   the loader's second stage for BIOS
#   2 sluice-esp    FAT16: the loaders, the two slots, the loader's environment, the operator's configuration
#   3 sluice-state  raw: the state record
#   4 sluice-data   ext4, grown at first boot
#
# An image for U-Boot without EFI (--extlinux) has the uncompressed kernel on its ESP instead of loaders and slots.
#
# Everything on the ESP that is ever written later (slots, environment) has its full size from the start: an
# update overwrites sectors in place and changes neither the FAT nor a directory.
# Equal inputs give equal bytes: fixed identifiers, all times are SOURCE_DATE_EPOCH.

# mke2fs and sfdisk are for administrators, but work on files for anybody.
PATH=$PATH:/usr/sbin:/sbin
MIB=1048576
IMAGE_BYTES_MAX=$((32 * MIB))
SLOT_BYTES=$((8 * MIB))
ESP_BYTES=$((18 * MIB))
DATA_BYTES_MIN=$((10 * MIB))
ENV_BYTES=512

IMAGE_DISK_ID=6a1f0c52-5d8e-4b7e-9c1a-736c75696365
IMAGE_BIOS_ID=6a1f0c52-5d8e-4b7e-9c1a-736c75690001
IMAGE_ESP_ID=6a1f0c52-5d8e-4b7e-9c1a-736c75690002
IMAGE_STATE_ID=6a1f0c52-5d8e-4b7e-9c1a-736c75690003
IMAGE_DATA_ID=6a1f0c52-5d8e-4b7e-9c1a-736c75690004
IMAGE_DATA_FS_ID=6a1f0c52-5d8e-4b7e-9c1a-736c75690014
IMAGE_HASH_SEED=6a1f0c52-5d8e-4b7e-9c1a-736c75690024
IMAGE_FAT_SERIAL=51CE0001
TYPE_BIOS=21686148-6449-6E6F-744E-656564454649
TYPE_ESP=C12A7328-F81F-11D2-BA4B-00A0C93EC93B
TYPE_STATE=5D6E3C1B-2E5B-4C55-8F0D-736C75696365
TYPE_DATA=0FC63DAF-8483-4772-8E79-3D69D8477DE4

# size_bytes TEXT: 64m, 1g, 33554432
size_bytes() {
    local number=${1%[kKmMgG]} unit=${1##*[0-9]}
    case $number in '' | *[!0-9]*) return 1 ;; esac
    case $unit in
        '') echo "$number" ;;
        [kK]) echo $((number * 1024)) ;;
        [mM]) echo $((number * MIB)) ;;
        [gG]) echo $((number * 1024 * MIB)) ;;
        *) return 1 ;;
    esac
}

# A block of the loader's environment: the lines, filled up with '#' to one sector, so that a write of it is whole or
# not done.
env_block() {
    local text='# GRUB Environment Block' line
    for line in "$@"; do text+=$'\n'$line; done
    text+=$'\n'
    [ ${#text} -le "$ENV_BYTES" ] || die "the loader's environment is over $ENV_BYTES bytes: $*"
    printf '%s' "$text"
    printf '%*s' $((ENV_BYTES - ${#text})) '' | tr ' ' '#'
}

# sign_efi IN OUT: with the owner's key when one was given, else a copy.
sign_efi() {
    if [ -n "${SB_KEY:-}" ]; then
        sbsign --key "$SB_KEY" --cert "$SB_CERT" --output "$2" "$1"
    else
        cp "$1" "$2"
    fi
}

# slot_file IN OUT: a slot's content: the system, filled up with zeros to SLOT_BYTES. A signature has to come after the
# filling, as the last thing of the file, so its size is found out first.
slot_file() {
    local in=$1 out=$2 room=$SLOT_BYTES signature
    [ "$(stat -c %s "$in")" -le "$SLOT_BYTES" ] || { echo "$in: over $SLOT_BYTES bytes, it does not fit a slot"; return 1; }
    cp "$in" "$out.plain"
    if [ -n "${SB_KEY:-}" ]; then
        truncate -s %8 "$out.plain"
        sign_efi "$out.plain" "$out"
        signature=$(($(stat -c %s "$out") - $(stat -c %s "$out.plain")))
        room=$((SLOT_BYTES - signature))
        [ "$(stat -c %s "$out.plain")" -le "$room" ] || { echo "$in: with its signature it does not fit a slot"; return 1; }
    fi
    truncate -s "$room" "$out.plain"
    sign_efi "$out.plain" "$out"
    rm "$out.plain"
    [ "$(stat -c %s "$out")" -eq "$SLOT_BYTES" ] || { echo "$out: the signature changed its size"; return 1; }
}

# image_slots DIR FAT: the loader, the two slots and the loader's environment.
image_slots() {
    local dir=$1 fat=$2 name name_efi=BOOTX64.EFI
    [ "$IMAGE_ARCH" = x86_64 ] || name_efi=BOOTAA64.EFI
    mmd -i "$fat" ::/EFI ::/EFI/BOOT
    sign_efi "$IMAGE_LOADER_EFI/loader" "$dir/loader.efi"
    mcopy -i "$fat" "$dir/loader.efi" "::/EFI/BOOT/$name_efi"
    mcopy -i "$fat" "$dir/slot" ::/sluice/a.efi
    mcopy -i "$fat" "$dir/slot" ::/sluice/b.efi
    env_block slot=a try= tried= >"$dir/bootenv"
    env_block slot=a >"$dir/bootgood"
    for name in bootenv bootgood; do mcopy -i "$fat" "$dir/$name" "::/sluice/$name"; done
    [ -n "$IMAGE_APPEND" ] || return 0
    env_block "args=$IMAGE_APPEND" >"$dir/args"
    mcopy -i "$fat" "$dir/args" ::/sluice/args
}

# image_extlinux DIR FAT IMAGE: what U-Boot's own boot menu needs. Its booti takes no EFI file: the kernel is the plain Image.
image_extlinux() {
    mmd -i "$2" ::/extlinux
    sed "s|@CMDLINE@|$IMAGE_CMDLINE $IMAGE_APPEND|" "$REPO/image/extlinux.conf" >"$1/extlinux.conf"
    mcopy -i "$2" "$1/extlinux.conf" ::/extlinux/extlinux.conf
    mcopy -i "$2" "$3" ::/sluice/Image
}

# image_esp DIR SYSTEM: the ESP as DIR/esp from DIR/slot or SYSTEM, the loader and what the operator added.
image_esp() {
    local dir=$1 fat=$1/esp
    truncate -s "$ESP_BYTES" "$fat"
    # 2 KiB clusters: FAT16 for every size here. 8 reserved sectors and FATs of whole 2 KiB put the data area on a
    # 4 KiB boundary.
    mformat -i "$fat" -T $((ESP_BYTES / 512)) -h 64 -s 32 -H 4096 -c 4 -R 8 -r 32 -L $((2 * ESP_BYTES / MIB)) -N "$IMAGE_FAT_SERIAL" -v SLUICE ::
    mmd -i "$fat" ::/sluice
    if [ -n "$IMAGE_EXTLINUX" ]; then image_extlinux "$dir" "$fat" "$2"; else image_slots "$dir" "$fat"; fi
    if [ -n "$IMAGE_CONFIG" ]; then mcopy -i "$fat" "$IMAGE_CONFIG" ::/sluice.conf; fi
}

image_data() {
    local fs=$1 bytes=$2 empty=$3
    mkdir -p "$empty"
    truncate -s "$bytes" "$fs"
    # The file system grows online to whatever the disk has; -E resize reserves descriptors for 1 TiB.
    E2FSPROGS_FAKE_TIME=$SOURCE_DATE_EPOCH mke2fs -q -F -t ext4 -b 4096 -m 0 -L sluice-data -U "$IMAGE_DATA_FS_ID" \
        -O 64bit,metadata_csum,has_journal,^resize_inode,meta_bg,extent,dir_index,large_file \
        -J size=4 -E "hash_seed=$IMAGE_HASH_SEED,root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0" -d "$empty" "$fs"
}

# image_disk DIR BYTES: the partition table and everything in its place, as DIR/disk.
image_disk() {
    local dir=$1 bytes=$2 disk=$1/disk start=2048 esp state data data_sectors
    esp=$((start + MIB / 512)) state=$((start + (MIB + ESP_BYTES) / 512)) data=$((start + (2 * MIB + ESP_BYTES) / 512))
    data_sectors=$((bytes / 512 - data - 2048))
    truncate -s "$bytes" "$disk"
    sfdisk -q --no-reread --no-tell-kernel --wipe never "$disk" <<TABLE
label: gpt
label-id: $IMAGE_DISK_ID
unit: sectors
first-lba: 34
start=$start, size=$((MIB / 512)), type=$TYPE_BIOS, uuid=$IMAGE_BIOS_ID, name=sluice-bios
start=$esp, size=$((ESP_BYTES / 512)), type=$TYPE_ESP, uuid=$IMAGE_ESP_ID, name=sluice-esp, attrs=LegacyBIOSBootable
start=$state, size=$((MIB / 512)), type=$TYPE_STATE, uuid=$IMAGE_STATE_ID, name=sluice-state
start=$data, size=$data_sectors, type=$TYPE_DATA, uuid=$IMAGE_DATA_ID, name=sluice-data
TABLE
    image_data "$dir/data" $((data_sectors * 512)) "$dir/empty"
    dd if="$dir/esp" of="$disk" bs=1M seek=$((esp / 2048)) conv=notrunc,sparse status=none
    dd if="$dir/data" of="$disk" bs=1M seek=$((data / 2048)) conv=notrunc,sparse status=none
    if [ "$IMAGE_ARCH" = x86_64 ]; then loader_install_bios "$disk" "$IMAGE_LOADER_BIOS" "$start"; fi
}

# image_convert DIR FORMAT FINAL
image_convert() {
    local dir=$1 format=$2 final=$3
    case $format in
        raw) mv "$dir/disk" "$final.new" ;;
        qcow2) qemu-img convert -q -f raw -O qcow2 "$dir/disk" "$final.new" ;;
        # Azure takes fixed disks only, of whole MiB.
        vhd) qemu-img convert -q -f raw -O vpc -o subformat=fixed,force_size=on "$dir/disk" "$final.new" ;;
        gcp)
            mv "$dir/disk" "$dir/disk.raw"
            tar -C "$dir" --format=oldgnu --sparse --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
                --mode=0644 -cf - disk.raw | gzip -n -9 >"$final.new"
            ;;
    esac
    # An image that did not change keeps its time: `run` refreshes its disk from a newer one.
    if cmp -s "$final.new" "$final"; then rm "$final.new"; else mv "$final.new" "$final"; fi
}

# Runs as a step. $1: format, $2: bytes of the disk, $3: the system, $4: the result.
image_make() {
    local dir
    dir=$(mktemp -d "$OUT/.image.XXXXXX")
    # shellcheck disable=SC2064 # the path as it is now
    trap "rm -rf '$dir'" EXIT
    export MTOOLS_SKIP_CHECK=1 TZ=UTC MTOOLSRC=/dev/null
    [ -n "$IMAGE_EXTLINUX" ] || slot_file "$3" "$dir/slot"
    image_esp "$dir" "$3"
    image_disk "$dir" "$2"
    image_convert "$dir" "$1" "$4"
}

image_suffix() { case $1 in raw) echo img ;; qcow2) echo qcow2 ;; vhd) echo vhd ;; gcp) echo tar.gz ;; esac }

image_usage() {
    die "$1" "usage: ./build.sh image [--arch x86_64|aarch64] [--format raw|qcow2|vhd|gcp] [--size SIZE] [--config FILE]" \
        "       [--update-key PUBLIC.pem] [--sb-key KEY --sb-cert CERT] [--extlinux] [--append ARGUMENTS]" \
        "       [--efi FILE] [--output FILE]"
}

# Sets the IMAGE_ and SB_ variables from the command line.
image_arguments() {
    IMAGE_ARCH=$HOST_ARCH IMAGE_FORMAT=raw IMAGE_SIZE='' IMAGE_CONFIG='' IMAGE_EXTLINUX='' IMAGE_APPEND='' IMAGE_EFI=''
    IMAGE_OUTPUT='' IMAGE_UPDATE_KEYS=() SB_KEY='' SB_CERT=''
    while [ $# -gt 0 ]; do
        case $1 in
            --extlinux) IMAGE_EXTLINUX=1; shift; continue ;;
            --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
        esac
        [ $# -ge 2 ] || image_usage "image: '$1' is unknown or needs a value"
        case $1 in
            --arch) IMAGE_ARCH=$2 ;;
            --format) IMAGE_FORMAT=$2 ;;
            --size) IMAGE_SIZE=$2 ;;
            --config) IMAGE_CONFIG=$2 ;;
            --append) IMAGE_APPEND=$2 ;;
            --efi) IMAGE_EFI=$2 ;;
            --output) IMAGE_OUTPUT=$2 ;;
            --update-key) IMAGE_UPDATE_KEYS+=("$2") ;;
            --sb-key) SB_KEY=$2 ;;
            --sb-cert) SB_CERT=$2 ;;
            *) image_usage "image: unknown argument '$1'" ;;
        esac
        shift 2
    done
    case $IMAGE_ARCH in x86_64 | aarch64) ;; *) image_usage "unknown architecture '$IMAGE_ARCH'" ;; esac
    [ -n "$(image_suffix "$IMAGE_FORMAT")" ] || image_usage "unknown format '$IMAGE_FORMAT'"
    [ -z "$SB_KEY$SB_CERT" ] || { [ -r "$SB_KEY" ] && [ -r "$SB_CERT" ]; } ||
        image_usage "--sb-key and --sb-cert name two files that can be read"
    if [ -n "$IMAGE_EXTLINUX" ]; then
        [ "$IMAGE_ARCH" = aarch64 ] || image_usage "--extlinux is for arm64 boards whose U-Boot has no EFI"
        [ -z "$SB_KEY" ] || image_usage "--extlinux: without EFI nobody checks a signature"
        # The kernel is not compressed; the disk stays at its size.
        ESP_BYTES=$((22 * MIB)) DATA_BYTES_MIN=$((6 * MIB))
    fi
    local file
    for file in "$IMAGE_CONFIG" "$IMAGE_EFI" "${IMAGE_UPDATE_KEYS[@]}"; do
        [ -z "$file" ] || [ -r "$file" ] || image_usage "$file: can not be read"
    done
}

# The disk's size in bytes: what was asked for, else the smallest of the format.
image_size() {
    local smallest=$((4 * MIB + ESP_BYTES + DATA_BYTES_MIN)) bytes unit=$MIB
    # Google's import takes whole GiB only.
    [ "$IMAGE_FORMAT" != gcp ] || { unit=$((1024 * MIB)) smallest=$unit; }
    if [ -z "$IMAGE_SIZE" ]; then echo "$smallest"; return 0; fi
    bytes=$(size_bytes "$IMAGE_SIZE") || image_usage "--size '$IMAGE_SIZE' is no size; 64m, 1g are"
    [ "$bytes" -ge "$smallest" ] || image_usage "--size $IMAGE_SIZE is too small: the least is $((smallest / MIB))m"
    [ $((bytes % unit)) -eq 0 ] || image_usage "--size $IMAGE_SIZE: the format '$IMAGE_FORMAT' takes whole $((unit / MIB)) MiB"
    echo "$bytes"
}

command_image() {
    local bytes final built=''
    unset BUILD
    image_arguments "$@"
    bytes=$(image_size)
    host_require base image
    [ -z "$SB_KEY" ] || host_require secureboot
    case $IMAGE_FORMAT in qcow2 | vhd) host_require qemu-img ;; esac
    version_select
    if [ -z "$IMAGE_EFI" ]; then
        image_system
        IMAGE_EFI=$OUT/$IMAGE_ARCH/sluice.efi
        [ -z "$IMAGE_EXTLINUX" ] || IMAGE_EFI=$OUT/$IMAGE_ARCH/Image
        built=1
    fi
    IMAGE_CMDLINE=$(image_cmdline "$IMAGE_ARCH")
    case $IMAGE_ARCH in
        x86_64)
            loader_build i386-pc "$IMAGE_CMDLINE"
            IMAGE_LOADER_BIOS=$CACHE_DIR
            loader_build x86_64-efi "$IMAGE_CMDLINE"
            ;;
        aarch64) loader_build arm64-efi "$IMAGE_CMDLINE" ;;
    esac
    IMAGE_LOADER_EFI=$CACHE_DIR
    mkdir -p "$OUT/$IMAGE_ARCH"
    final=${IMAGE_OUTPUT:-$OUT/$IMAGE_ARCH/sluice.$(image_suffix "$IMAGE_FORMAT")}
    step "make the image for $IMAGE_ARCH ($IMAGE_FORMAT)" image_make "$IMAGE_FORMAT" "$bytes" "$IMAGE_EFI" "$final"
    if [ -z "$IMAGE_SIZE" ] && [ "$IMAGE_FORMAT" = raw ] && [ "$(stat -c %s "$final")" -gt "$IMAGE_BYTES_MAX" ]; then
        die "$final: over $IMAGE_BYTES_MAX bytes"
    fi
    # Of what was given with --efi nothing is known.
    [ -z "$built" ] || sbom_write "$IMAGE_ARCH" "$final"
    say "$final: $(stat -c %s "$final") bytes"
}

update_usage() {
    die "$1" "usage: ./build.sh update --key PRIVATE.pem [--arch x86_64|aarch64] [--efi FILE] [--version V] [--output FILE]" \
        "       [--sb-key KEY --sb-cert CERT]"
}

# update: a signed update file from the system that `kernel` or `image` has built, or from --efi.
command_update() {
    local key='' arch=$HOST_ARCH efi='' version='' output=''
    SB_KEY='' SB_CERT=''
    while [ $# -gt 0 ]; do
        case $1 in --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;; esac
        [ $# -ge 2 ] || update_usage "update: '$1' is unknown or needs a value"
        case $1 in
            --key) key=$2 ;;
            --arch) arch=$2 ;;
            --efi) efi=$2 ;;
            --version) version=$2 ;;
            --output) output=$2 ;;
            --sb-key) SB_KEY=$2 ;;
            --sb-cert) SB_CERT=$2 ;;
            *) update_usage "update: unknown argument '$1'" ;;
        esac
        shift 2
    done
    case $arch in x86_64 | aarch64) ;; *) update_usage "unknown architecture '$arch'" ;; esac
    [ -n "$key" ] || update_usage "--key is missing: the owner's private key signs the update"
    [ -r "$key" ] || update_usage "$key: can not be read"
    host_require base image update
    [ -z "$SB_KEY" ] || host_require secureboot
    version_select
    if [ -z "$efi" ]; then
        # The keys that the image was built with go on.
        unset BUILD
        kernel_build "$arch"
        efi=$OUT/$arch/sluice.efi
    fi
    output=${output:-$OUT/$arch/sluice-${version:-$VERSION}.update}
    mkdir -p "$OUT/$arch"
    step "make the update for $arch" update_make "$key" "$arch" "$efi" "${version:-$VERSION}" "$output"
    say "$output: $(stat -c %s "$output") bytes"
}

# Runs as a step. Without Secure Boot the zeros that fill a slot are not sent.
update_make() {
    local key=$1 arch=$2 image=$3 version=$4 output=$5
    if [ -n "$SB_KEY" ]; then
        slot_file "$image" "$output.slot"
        image=$output.slot
    fi
    "$HOST_PYTHON" "$REPO/image/update_file.py" make --key "$key" --arch "$arch" --version "$version" \
        --build "$SOURCE_DATE_EPOCH" --image "$image" --output "$output.new"
    mv "$output.new" "$output"
    rm -f "$output.slot"
}

# Arguments that the loader adds to the system's own.
image_cmdline() { :; }

# The system itself, as one EFI file, with the public keys that it accepts updates from.
image_system() {
    local keys=$OUT/$IMAGE_ARCH/update.pub file
    mkdir -p "$OUT/$IMAGE_ARCH"
    for file in "${IMAGE_UPDATE_KEYS[@]}"; do "$HOST_PYTHON" "$REPO/image/update_file.py" key "$file"; done >"$keys.new"
    cmp -s "$keys.new" "$keys" || cp "$keys.new" "$keys"
    rm "$keys.new"
    [ -s "$keys" ] || note "no --update-key: the image takes updates only from keys in its configuration (docs/updates.md)"
    kernel_build "$IMAGE_ARCH"
}
