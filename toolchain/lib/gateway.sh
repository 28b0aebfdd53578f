# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The gateway itself: compile a variant into $OUT/VARIANT, and for the product (musl) strip it and prove that it is
# what is promised: static, position independent, no interpreter, nothing needed at run time, small.

# The gateway, the load generator and the appliance's PID 1 are one file; the initramfs carries it once.
BINARY_BYTES_MAX=2300000

# The version, the commit and the date that go into version.h. They may be given from outside, for a source tree
# without git and for comparing two builds.
version_select() {
    local git=(git -C "$REPO")
    VERSION=${SLUICE_VERSION:-$(cat "$REPO/VERSION")}
    if [ -z "${SLUICE_COMMIT:-}" ]; then
        SLUICE_COMMIT=$("${git[@]}" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
    fi
    if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
        SOURCE_DATE_EPOCH=$("${git[@]}" log -1 --format=%ct 2>/dev/null || echo 0)
    fi
    export SOURCE_DATE_EPOCH
    BUILD_DATE=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
}

# make_appliance TARGET...: the make file with the selected variant's settings.
make_appliance() {
    local headers=''
    if [ "$V_LIBC" = glibc ]; then headers=$HEADERS_DIR/$(kernel_arch "$V_ARCH"); fi
    make -C "$REPO" -f appliance/Makefile --no-print-directory -j"$JOBS" CC="$V_CC" AR="$V_AR" BUILD="$BUILD_DIR" \
        VCFLAGS="$V_CFLAGS -ffile-prefix-map=$CACHE=cache" VLDFLAGS="$V_LDFLAGS" VSMALL="$V_SMALL" DEP_DIRS="$DEP_DIRS" HEADERS="$headers" \
        VERSION="$VERSION" COMMIT="$SLUICE_COMMIT" DATE="$BUILD_DATE" "$@"
}

# compile_variant TARGET: make, with the objects that earlier builds compiled from the same bytes (toolchain/objects.py).
compile_variant() {
    if [ -x "$HOST_PYTHON" ]; then
        make_appliance stamps
        objects restore
    fi
    make_appliance "$1"
    if [ -x "$HOST_PYTHON" ]; then objects keep; fi
}

# objects restore|keep. A fault there costs time and no result.
objects() {
    { cc_identity "$V_CC"; [ "$V_LIBC" = musl ] || getconf GNU_LIBC_VERSION; dpkg-query -W libc6-dev binutils 2>/dev/null || true; } |
        "$HOST_PYTHON" "$REPO/toolchain/objects.py" "$1" "$REPO" "$BUILD_DIR" "$CACHE" || note "objects of earlier builds: see the log"
}

# variant_build NAME [TARGET]: leaves $OUT/NAME/sluice (target all) or the library and what TARGET asks for.
variant_build() {
    local target=${2:-all} lock_fd
    variant_require "$1"
    variant_select "$1"
    deps_prepare
    version_select
    mkdir -p "$OUT/$1"
    BUILD_DIR=${BUILD:-$OUT/$1/obj}
    exec {lock_fd}>"$OUT/$1/.lock"
    flock "$lock_fd"
    step "compile $1" compile_variant "$target"
    if [ "$target" = all ]; then
        [ -f "$REPO/appliance/main.c" ] || die "appliance/main.c is missing: only $BUILD_DIR/libsluice.a was built"
        if [ "$V_LIBC" = musl ]; then
            if [ ! "$OUT/$1/sluice" -nt "$BUILD_DIR/sluice" ]; then
                step "strip and check $1" product_install "$BUILD_DIR/sluice" "$OUT/$1"
            fi
        else
            ln -sf "$BUILD_DIR/sluice" "$OUT/$1/sluice"
        fi
    fi
    exec {lock_fd}>&-
}

product_install() {
    local linked=$1 dir=$2
    "${V_TOOLS}objcopy" --only-keep-debug "$linked" "$dir/sluice.debug"
    "${V_TOOLS}objcopy" --strip-all --add-gnu-debuglink="$dir/sluice.debug" "$linked" "$dir/sluice.new"
    product_check "$dir/sluice.new"
    mv "$dir/sluice.new" "$dir/sluice"
}

# product_check FILE: every promise about the file that can be read off it, each with its own message.
product_check() {
    local file=$1 size headers dynamic bad=0
    size=$(stat -c %s "$file")
    headers=$(readelf -lhW "$file")
    dynamic=$(readelf -dW "$file")
    fail() { printf '%s: %s\n' "$file" "$1"; bad=1; }
    [ "$size" -lt "$BINARY_BYTES_MAX" ] || fail "$size bytes, the limit is $BINARY_BYTES_MAX"
    grep -q 'Type: *DYN' <<<"$headers" || fail "not position independent"
    ! grep -q 'INTERP' <<<"$headers" || fail "asks for a dynamic loader (PT_INTERP)"
    ! grep -qE '\((NEEDED|RPATH|RUNPATH|TEXTREL)\)' <<<"$dynamic" || fail "needs something at run time, or has text relocations"
    grep -q 'GNU_RELRO' <<<"$headers" || fail "no RELRO"
    grep -qE 'BIND_NOW|Flags:.*NOW' <<<"$dynamic" || fail "relocations are not bound at start (-z now)"
    grep -E 'GNU_STACK' <<<"$headers" | grep -q ' RW ' || fail "the stack is executable"
    ! grep -E '^ *LOAD' <<<"$headers" | grep -q 'RWE' || fail "a segment is writable and executable"
    [ "$bad" -eq 0 ] || return 1
    printf '%s: %s bytes, static-pie, all checks passed\n' "$file" "$size"
}
