# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # the V_ variables are read by the files that source this one
#
# The ways the gateway is compiled. A variant names the compiler, the flags beyond the make file's own, and the set
# of dependencies it links with (D_*): sanitized variants need their dependencies sanitized too.
#
#   x86_64 aarch64   the product: static-pie against musl
#   dev              host compiler and libc, no optimisation, for gdb and valgrind
#   clang            host libc, clang, for its warnings
#   asan tsan        host libc under AddressSanitizer and UBSan, or ThreadSanitizer, for the tests
#   fuzz             clang, ready for libFuzzer

HOST_ARCH=$(uname -m)

# The prefix of the host's tools for an architecture: empty when it is the host's own.
tool_prefix() {
    case $1 in
        "$HOST_ARCH") ;;
        x86_64) printf 'x86_64-linux-gnu-' ;;
        aarch64) printf 'aarch64-linux-gnu-' ;;
        *) die "unknown architecture '$1'" "known: x86_64, aarch64" ;;
    esac
}

kernel_arch() { case $1 in x86_64) echo x86 ;; aarch64) echo arm64 ;; esac }

# variant_select NAME: sets V_NAME, V_ARCH, V_LIBC, V_CC, V_TOOLS, V_CFLAGS, V_LDFLAGS, D_NAME, D_CC, D_CFLAGS, and V_SMALL:
# what is added for code that no message passes through.
variant_select() {
    V_NAME=$1 V_ARCH=$HOST_ARCH V_LIBC=glibc V_TOOLS='' V_CC=gcc V_CFLAGS='' V_LDFLAGS='' V_SMALL=''
    D_NAME=$1 D_CFLAGS='-O2 -g -fno-omit-frame-pointer'
    local ubsan='-fsanitize=undefined -fno-sanitize-recover=undefined'
    case $1 in
        x86_64 | aarch64)
            V_ARCH=$1 V_LIBC=musl V_TOOLS=$(tool_prefix "$1")
            V_CC=$1-sluice-cc
            # Nothing unwinds at run time (the debugger reads .debug_frame): a tenth of the file less.
            V_SMALL='-Os -Wno-format-truncation' # a cut that is meant, in texts for people, looks the same to gcc there
            V_CFLAGS='-O2 -g -fno-plt -ftls-model=local-exec -fno-asynchronous-unwind-tables -fno-unwind-tables'
            V_LDFLAGS='-Wl,-z,relro,-z,now,-z,noexecstack,--gc-sections,--build-id=sha1'
            D_CFLAGS='-O2 -g -fstack-protector-strong -ffunction-sections -fdata-sections -fPIE \
-fno-asynchronous-unwind-tables -fno-unwind-tables'
            case $1 in
                x86_64)
                    V_CFLAGS+=' -fcf-protection=full' D_CFLAGS+=' -fcf-protection=full'
                    V_LDFLAGS+=' -Wl,-z,pack-relative-relocs' # 2 bytes a relocation; binutils 2.40 has it for x86 only
                    ;;
                aarch64) V_CFLAGS+=' -mbranch-protection=standard' D_CFLAGS+=' -mbranch-protection=standard' ;;
            esac
            ;;
        dev) D_NAME=host V_CFLAGS='-Og -g3 -fno-omit-frame-pointer' ;;
        clang) D_NAME=host V_CC=clang V_CFLAGS='-O2 -g' ;;
        asan)
            # UBSan's checks around a shift or an index hide its range from gcc, which then warns of conversions that are
            # fine; the product and the clang variant compile the same sources with that warning on.
            V_CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address $ubsan -Wno-conversion"
            V_LDFLAGS="-fsanitize=address $ubsan"
            D_CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address'
            ;;
        tsan)
            V_CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=thread'
            V_LDFLAGS='-fsanitize=thread'
            D_CFLAGS=$V_CFLAGS
            # A fence alone is not modelled by TSan; what stands on either side of it is atomic, and that is.
            V_CFLAGS+=' -Wno-tsan'
            ;;
        fuzz)
            V_CC=clang
            V_CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address $ubsan"
            V_LDFLAGS="-fsanitize=address $ubsan"
            D_CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address'
            ;;
        *) die "unknown variant '$1'" ;;
    esac
    D_CC=$V_CC
    if [ "$D_NAME" = host ]; then D_CC=gcc; fi
    V_AR=${V_TOOLS}ar
}

variant_require() {
    case $1 in
        x86_64 | aarch64) if [ "$1" = "$HOST_ARCH" ]; then host_require base; else host_require base "$1"; fi ;;
        clang | fuzz) host_require base "$1" ;;
        *) host_require base ;;
    esac
}

cc_identity() { "$1" -dumpmachine && "$1" --version | head -n 1; }
