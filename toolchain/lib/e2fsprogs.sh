# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# e2fsck and mke2fs of e2fsprogs, static, for the appliance's data partition: PID 1 runs them in a helper process to
# check and repair the file system, and to make it anew when it is beyond repair.

# recipe_e2fsprogs SRC OUT: only the two programs, without what they can do for people at a terminal.
recipe_e2fsprogs() {
    local src=$1 out=$2 cflags
    cache_unpack "$(dep_paths e2fsprogs)" "$src"
    cd "$src" || exit
    cflags="-Os -ffunction-sections -fdata-sections -fstack-protector-strong -fPIE $(path_map "$src")"
    # The driver links with musl by itself; --build keeps configure from running what it made for the other architecture.
    ./configure --build=x86_64-pc-linux-gnu --host="$V_ARCH-linux-musl" CC="$D_CC" AR="$V_AR" RANLIB="${V_TOOLS}ranlib" \
        STRIP="${V_TOOLS}strip" BUILD_CC=gcc CFLAGS="$cflags" LDFLAGS="-Wl,--gc-sections -Wl,-z,relro,-z,now" \
        --prefix=/ --enable-libuuid --enable-libblkid --disable-nls --disable-debugfs --disable-imager \
        --disable-resizer --disable-defrag --disable-uuidd --disable-fsck --disable-e2initrd-helper --disable-tdb \
        --disable-backtrace --disable-fuse2fs --without-libarchive --without-pthread --without-crond-dir \
        --without-systemd-unit-dir --without-udev-rules-dir
    make -j"$JOBS" libs
    make -j"$JOBS" -C e2fsck e2fsck
    make -j"$JOBS" -C misc mke2fs
    mkdir -p "$out"
    for file in e2fsck/e2fsck misc/mke2fs; do
        "${V_TOOLS}objcopy" --strip-all "$file" "$out/${file##*/}"
        if readelf -lW "$out/${file##*/}" | grep -q INTERP; then
            echo "${file##*/} asks for a dynamic loader"
            return 1
        fi
    done
}

# e2fsprogs_build ARCH: leaves $OUT/ARCH/e2fsck and $OUT/ARCH/mke2fs. The variant was selected and its dependencies
# prepared.
e2fsprogs_build() {
    local key
    dep_fetch e2fsprogs
    key=$(dep_key e2fsprogs e2fsprogs "${SYSROOT_DIR##*/}" "$(cc_identity "$D_CC")")
    cache_build "build e2fsprogs $(dep_version e2fsprogs) for $1" "e2fsprogs-$1" "$key" recipe_e2fsprogs
    install -m 755 "$CACHE_DIR/e2fsck" "$CACHE_DIR/mke2fs" "$OUT/$1/"
}
