# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The recipes of the dependencies: kernel headers, musl, and the libraries, for the variant that was selected.
# Recipes run in cache_build: $1 is an empty scratch directory, $2 the directory to fill. All paths are
# mapped out of the debug information, so that the place of the cache leaves no trace in the result.

LIBRARIES="liburing bearssl libucl yyjson llhttp libsodium"
JOBS=${JOBS:-$(nproc)}

path_map() { printf -- '-ffile-prefix-map=%s=/usr/cache -ffile-prefix-map=%s=/usr/src' "$CACHE" "$1"; }

# The user-space headers of the kernel, for both architectures. Only what `make headers` reads is unpacked.
recipe_headers() {
    local src=$1 out=$2 archive arch
    archive=$(dep_paths linux | grep -F .orig.tar)
    cache_unpack "$archive" "$src" --wildcards --anchored '*/Makefile' '*/Kbuild' '*/scripts' '*/include' \
        '*/usr' '*/arch/x86/entry' '*/arch/x86/tools' '*/arch/arm64/tools' --exclude='*.dts' --exclude='*.dtsi'
    for arch in x86 arm64; do
        make -C "$src" -j"$JOBS" ARCH=$arch O="$src/../build-$arch" headers
        mkdir -p "$out/$arch"
        (cd "$src/../build-$arch/usr/include" && find . -name "*.h" -print0 | tar --null -T - -cf -) | tar -C "$out/$arch" -xf -
    done
}

# musl and the kernel headers as one sysroot, with the compiler driver that uses it as bin/ARCH-sluice-cc.
recipe_sysroot() {
    local src=$1 out=$2 archive cross=${V_TOOLS} patch
    archive=$(dep_paths musl | grep -F .orig.tar)
    cache_unpack "$archive" "$src"
    cache_unpack "$(dep_paths musl | grep -F .debian.tar)" "$src/debian"
    while read -r patch; do
        case $patch in '' | '#'*) continue ;; esac
        patch -d "$src" -p1 <"$src/debian/patches/$patch"
    done <"$src/debian/patches/series"
    (
        cd "$src" || exit
        CC=${cross}gcc CFLAGS="-O2 -g -fPIE -fstack-protector-strong $(path_map "$src")" \
            ./configure --target="$V_ARCH-linux-musl" "AR=${cross}ar" "RANLIB=${cross}ranlib" --prefix=/ --disable-shared --disable-wrapper
        make -j"$JOBS"
        make DESTDIR="$out" install
    )
    cp -r "$HEADERS_DIR/$(kernel_arch "$V_ARCH")/." "$out/include/"
    mkdir -p "$out/bin"
    write_driver "${cross}gcc" >"$out/bin/$V_ARCH-sluice-cc"
    chmod 755 "$out/bin/$V_ARCH-sluice-cc"
}

# The compiler driver: the host's gcc, looking only into the sysroot, linking static-pie with musl's start files.
write_driver() {
    local gcc=$1 inc libgcc begin end
    inc=$("$gcc" -print-file-name=include)
    libgcc=$("$gcc" -print-libgcc-file-name)
    begin=$("$gcc" -print-file-name=crtbeginS.o)
    end=$("$gcc" -print-file-name=crtendS.o)
    cat <<DRIVER
#!/bin/sh
# $gcc for musl: static-pie, nothing of the host's C library.
sys=\${0%/*}/..
link=yes
for arg; do
    case \$arg in
        -c | -S | -E | -M | -MM | -r | -shared | -fsyntax-only | -nostdlib | -print-* | -dump* | --version | -v) link=no ;;
    esac
done
if [ \$link = no ]; then
    exec $gcc -nostdinc -isystem "\$sys/include" -isystem "$inc" -fPIE "\$@"
fi
exec $gcc -nostdinc -isystem "\$sys/include" -isystem "$inc" -fPIE -static-pie -nostdlib -nostartfiles \\
    "\$sys/lib/rcrt1.o" "\$sys/lib/crti.o" "$begin" "\$@" -L"\$sys/lib" \\
    -Wl,--start-group -lc "$libgcc" -Wl,--end-group "$end" "\$sys/lib/crtn.o"
DRIVER
}

# recipe_objects NAME SRC OUT CFLAGS FILE...: a static library of these files.
recipe_objects() {
    local name=$1 src=$2 out=$3 cflags=$4
    shift 4
    # From within the sources: the compiler's working directory is part of the debug information.
    make -C "$src" -f "$REPO/toolchain/staticlib.mk" -j"$JOBS" CC="$D_CC" AR="$V_AR" \
        CFLAGS="$D_CFLAGS $(path_map "$src") $cflags" SRC="$src" OBJ="$src/../obj" LIB="$out/lib/$name.a" SRCS="$*"
}

recipe_liburing() {
    local src=$1 out=$2 libc=()
    cache_unpack "$(dep_paths liburing)" "$src"
    # Without libc the library has its own start of system calls; a sanitizer needs to see the libc's.
    case $D_NAME in asan | tsan | fuzz) libc=(--use-libc) ;; esac
    cd "$src" || exit
    ./configure --prefix=/ --cc="$D_CC" --cxx=false "${libc[@]}"
    make -C src -j"$JOBS" CC="$D_CC" AR="$V_AR" CFLAGS="$D_CFLAGS $(path_map "$src")" liburing.a
    mkdir -p "$out/lib" "$out/include"
    cp src/liburing.a "$out/lib/"
    cp -r src/include/. "$out/include/"
}

# getentropy() is asked for by name: BearSSL's own detection does not know musl.
recipe_bearssl() {
    local src=$1 out=$2 files
    cache_unpack "$(dep_paths bearssl)" "$src"
    files=$(cd "$src/src" && find . -name '*.c' | sed 's|^\./|src/|' | LC_ALL=C sort | tr '\n' ' ')
    # shellcheck disable=SC2086 # a list of files
    recipe_objects libbearssl "$src" "$out" "-I$src/src -I$src/inc -DBR_USE_GETENTROPY=1 -DBR_USE_URANDOM=0 -DBR_RDRAND=0" $files
    mkdir -p "$out/include"
    cp "$src"/inc/*.h "$out/include/"
}

# Only the parser's side of libucl: no signatures, no downloads, no regular expressions in schemas, no Lua.
recipe_libucl() {
    local src=$1 out=$2
    cache_unpack "$(dep_paths libucl)" "$src" --wildcards '*/contrib/libucl' '*/contrib/uthash' '*/LICENSE*'
    cp -r "$REPO/toolchain/shims/libucl" "$src/shim"
    recipe_objects libucl "$src" "$out" \
        "-std=gnu11 -w $V_SMALL -D_GNU_SOURCE -DHAVE_ATOMIC_BUILTINS=1 -I$src/shim -I$src/contrib/libucl -I$src/contrib/uthash" \
        contrib/libucl/ucl_util.c contrib/libucl/ucl_parser.c contrib/libucl/ucl_emitter.c contrib/libucl/ucl_emitter_streamline.c \
        contrib/libucl/ucl_hash.c contrib/libucl/ucl_schema.c contrib/libucl/ucl_msgpack.c contrib/libucl/ucl_sexp.c
    mkdir -p "$out/include"
    cp "$src/contrib/libucl/ucl.h" "$out/include/"
}

recipe_yyjson() {
    local src=$1 out=$2
    cache_unpack "$(dep_paths yyjson)" "$src" --wildcards '*/src' '*/LICENSE'
    recipe_objects libyyjson "$src" "$out" "-std=gnu11 $V_SMALL -DYYJSON_DISABLE_UTILS=1" src/yyjson.c
    mkdir -p "$out/include"
    cp "$src/src/yyjson.h" "$out/include/"
}

recipe_llhttp() {
    local src=$1 out=$2
    cache_unpack "$(dep_paths llhttp)" "$src" --wildcards '*/src/llhttp'
    recipe_objects libllhttp "$src" "$out" "-std=gnu11 -I$src/src/llhttp" \
        src/llhttp/api.c src/llhttp/http.c src/llhttp/llhttp.c
    mkdir -p "$out/include"
    cp "$src/src/llhttp/llhttp.h" "$out/include/"
}

# Only the signature of Ed25519 and what it needs; the shim stands for the rest of the library.
recipe_libsodium() {
    local src=$1 out=$2 lib=src/libsodium header
    cache_unpack "$(dep_paths libsodium)" "$src" --wildcards '*/src/libsodium' '*/LICENSE'
    cp "$REPO/toolchain/shims/libsodium/rest.c" "$src/rest.c"
    recipe_objects libsodium "$src" "$out" \
        "-std=gnu11 -w $V_SMALL -D_GNU_SOURCE -DCONFIGURED=1 -DSODIUM_STATIC=1 -DHAVE_TI_MODE=1 -I$src/$lib/include/sodium" \
        $lib/crypto_sign/ed25519/ref10/keypair.c $lib/crypto_sign/ed25519/ref10/sign.c $lib/crypto_core/ed25519/ref10/ed25519_ref10.c \
        $lib/crypto_hash/sha512/cp/hash_sha512_cp.c $lib/crypto_verify/sodium/verify.c rest.c
    mkdir -p "$out/include/sodium"
    for header in crypto_sign_ed25519 crypto_hash_sha512 export; do cp "$src/$lib/include/sodium/$header.h" "$out/include/sodium/"; done
}

# dep_key NAME RECIPE EXTRA...: the hash of everything that decides the result.
dep_key() {
    local name=$1
    shift
    {
        cat "$(dep_record "$name")"
        declare -f "recipe_$1" recipe_objects cache_unpack path_map write_driver
        cat "$REPO/toolchain/staticlib.mk"
        printf '%s\n' "$@"
        if [ "$name" = libsodium ]; then cat "$REPO"/toolchain/shims/libsodium/*; fi
        if [ "$name" = libucl ]; then cat "$REPO"/toolchain/shims/libucl/*.h "$REPO"/toolchain/shims/libucl/*/*.h; fi
    } | hash_text
}

# deps_prepare: everything the selected variant links with. Sets HEADERS_DIR, SYSROOT_DIR, DEP_DIRS and makes D_CC,
# V_CC absolute for musl variants.
deps_prepare() {
    local name key
    for name in $(pin_names); do dep_fetch "$name"; done
    lock_report

    key=$(dep_key linux headers)
    cache_build "build kernel headers $(dep_version linux)" headers "$key" recipe_headers
    HEADERS_DIR=$CACHE_DIR SYSROOT_DIR=''
    if [ "$V_LIBC" = musl ]; then
        key=$(dep_key musl sysroot "${HEADERS_DIR##*/}" "$V_ARCH" "$(cc_identity "${V_TOOLS}gcc")")
        cache_build "build musl $(dep_version musl) for $V_ARCH" "sysroot-$V_ARCH" "$key" recipe_sysroot
        SYSROOT_DIR=$CACHE_DIR
        V_CC=$SYSROOT_DIR/bin/$V_ARCH-sluice-cc
        D_CC=$V_CC
    fi
    DEP_DIRS=''
    for name in $LIBRARIES; do
        key=$(dep_key "$name" "$name" "$D_CFLAGS" "$V_SMALL" "${SYSROOT_DIR##*/}" "$(cc_identity "$D_CC")")
        cache_build "build $name $(dep_version "$name") for $D_NAME" "$name-$D_NAME" "$key" "recipe_$name"
        DEP_DIRS+="$CACHE_DIR "
    done
}
