# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The commands of build.sh: their arguments, and in which order the parts are called.

command_help() {
    cat <<'HELP'
usage: ./build.sh COMMAND [options]

  gateway [--arch x86_64|aarch64]   build out/<arch>/sluice, one static binary (default: this machine's architecture)
  image [--arch A] [--format raw|qcow2|vhd|gcp] [--size SIZE]
                                    build out/<arch>/sluice.img, a disk that boots (docs/image.md has all options)
  kernel [--arch x86_64|aarch64]    build the kernel with the gateway inside: out/<arch>/sluice.efi and its parts
  update --key PRIVATE.pem          a signed update file of the same system (docs/updates.md)
  flash [--image FILE] DEVICE       write the image to a disk, and read it back
  sbom [--arch A]                   out/<arch>/sbom.spdx.json, which `image` writes too
  run [--arch A] [--firmware bios|uefi|uboot] [--fresh] [--config FILE] [--forward HOST:GUEST]...
                                    boot the appliance in QEMU; Ctrl-C shuts it down (docs/image.md has all options)
  run --native [ARGUMENT...]        build and run the gateway alone, on this machine
  dev                               build out/dev/sluice for gdb and valgrind: host libc, symbols, no optimisation
  test [SUITE...]                   run the test suites listed in ci/suites (default: all of them);
                                    `test nightly` runs the long ones of ci/nightly
  fuzz [TARGET] [--seconds N]       run the fuzz targets, N seconds each (default 20)
  bench [NAME...] [OPTION...]       run the benchmarks (docs/bench.md): the engines beside each other, or one of mqtt, tls,
                                    start, sessions, drain, backlog, durable, log, log-isolation, and of the
                                    appliance boot, hardening
  lint                              shellcheck, line and file length, paths that belong to one machine
  update-deps                       move the pins in toolchain/pins to the archive's current versions
  clean                             remove out/; the cache of dependencies stays

Environment
  SLUICE_CACHE    where dependencies are kept (default: ~/.cache/sluice); later builds work offline from it, and take the
                  objects that earlier builds compiled from the same bytes (at most 1 GiB)
  SLUICE_OUT      where results go (default: out)
  SLUICE_MIRROR   a Debian archive's URI, if the machine's apt sources name none
  BUILD           where the objects of `dev` go (default: out/dev/obj)
  JOBS            how many jobs at a time (default: the number of processors)
HELP
}

command_gateway() {
    local arch=$HOST_ARCH
    while [ $# -gt 0 ]; do
        case $1 in
            --arch) [ $# -ge 2 ] || die "--arch needs a value: x86_64 or aarch64"; arch=$2; shift 2 ;;
            --arch=*) arch=${1#*=}; shift ;;
            *) die "gateway: unknown argument '$1'" "usage: ./build.sh gateway [--arch x86_64|aarch64]" ;;
        esac
    done
    case $arch in x86_64 | aarch64) ;; *) die "unknown architecture '$arch'" "known: x86_64, aarch64" ;; esac
    unset BUILD
    variant_build "$arch"
    say "$OUT/$arch/sluice: $(stat -c %s "$OUT/$arch/sluice") bytes"
}

command_kernel() {
    local arch=$HOST_ARCH
    while [ $# -gt 0 ]; do
        case $1 in
            --arch) [ $# -ge 2 ] || die "--arch needs a value: x86_64 or aarch64"; arch=$2; shift 2 ;;
            --arch=*) arch=${1#*=}; shift ;;
            *) die "kernel: unknown argument '$1'" "usage: ./build.sh kernel [--arch x86_64|aarch64]" ;;
        esac
    done
    case $arch in x86_64 | aarch64) ;; *) die "unknown architecture '$arch'" "known: x86_64, aarch64" ;; esac
    unset BUILD
    kernel_build "$arch"
    say "$OUT/$arch/sluice.efi: $(stat -c %s "$OUT/$arch/sluice.efi") bytes"
}

command_dev() {
    variant_build dev
    say "$OUT/dev/sluice"
}

command_update_deps() {
    host_require base
    pins_update
    debs_update
}

command_clean() { rm -rf "$OUT"; }

# The suites of a list (ci/suites, ci/nightly; none named: both) as lines NAME LIMIT NEEDS SCRIPT.
suites() {
    local lists=("$@")
    [ $# -gt 0 ] || lists=(suites nightly)
    cat "${lists[@]/#/$REPO/ci/}" | grep -vE '^ *(#|$)'
}

# What a suite finds in its environment; README and ci/suites describe it.
suite_environment() {
    export SLUICE=$OUT/$HOST_ARCH/sluice SLUICE_ASAN=$OUT/asan/sluice SLUICE_TSAN=$OUT/tsan/sluice
    export ARCH_SLUICE_aarch64=$OUT/aarch64/sluice ARCH_SLUICE_x86_64=$OUT/x86_64/sluice PYTHON=$HOST_PYTHON
    NPM_MODULES=$(npm_modules)
    export NPM_MODULES
    export HOST_ARCH BINARY_BYTES_MAX
}

# build_for_suites NEEDS...: each variant once, in its own subshell so that one that fails names itself and ends the run.
build_for_suites() {
    local need kernels=()
    for need in $(printf '%s\n' "$@" | tr ',' '\n' | sort -u); do
        case $need in
            -) ;;
            native) variant_build "$HOST_ARCH" ;;
            aarch64 | x86_64 | asan | tsan | clang) variant_build "$need" ;;
            fuzz) variant_build fuzz lib ;;
            kernel-x86_64 | kernel-aarch64) kernels+=("${need#kernel-}") ;;
            images) host_require image update qemu-img ;;
            qemu) host_require qemu image update secureboot run-x86_64 run-uefi-x86_64 run-aarch64 run-uboot-aarch64 ;;
            npm) npm_build ;;
            clients) host_require clients ;;
            browser) host_require browser ;;
            peers) host_require peers ;;
            *) die "ci/suites: unknown need '$need'" ;;
        esac
    done
    kernels_build "${kernels[@]}"
}

prepare_suites() {
    host_require base test lint
    build_for_suites "$@"
}

command_test() {
    local wanted=("$@") name needs=() line
    unset BUILD
    if [ ${#wanted[@]} -eq 0 ]; then mapfile -t wanted < <(suites suites | awk '{ print $1 }'); fi
    if [ "${wanted[*]}" = nightly ]; then mapfile -t wanted < <(suites nightly | awk '{ print $1 }'); fi
    for name in "${wanted[@]}"; do
        line=$(suites | awk -v n="$name" '$1 == n { print $3 }')
        [ -n "$line" ] || die "no suite '$name'" "known: $(suites | awk '{ printf "%s ", $1 }')"
        needs+=("$line")
    done
    # The last line is the count whatever happens, so a build that fails is a failed test.
    group_run prepare_suites "${needs[@]}"
    if [ "$GROUP_STATUS" -ne 0 ]; then
        printf '\nFAIL build: the tests could not be built\n0 passed, 1 failed, 0 skipped\n'
        exit 1
    fi
    suite_environment
    exec "$REPO/ci/run-suites.sh" "${wanted[@]}"
}

command_fuzz() {
    local seconds=20 target=''
    while [ $# -gt 0 ]; do
        case $1 in
            --seconds) [ $# -ge 2 ] || die "--seconds needs a number"; seconds=$2; shift 2 ;;
            --seconds=*) seconds=${1#*=}; shift ;;
            -*) die "fuzz: unknown option '$1'" "usage: ./build.sh fuzz [TARGET] [--seconds N]" ;;
            *) target=fuzz_${1#fuzz_}; shift ;;
        esac
    done
    case $seconds in '' | *[!0-9]*) die "--seconds needs a number, not '$seconds'" ;; esac
    unset BUILD
    variant_build fuzz lib
    suite_environment
    FUZZ_SECONDS=$seconds FUZZ_TARGETS=$target exec "$REPO/tests/fuzz/suite.sh"
}

# `bench boot` and `bench hardening` are about the appliance: kernels of both architectures, for the first Debian's to compare with.
command_bench_appliance() {
    local what=$1 arch archs=()
    shift
    for arch in x86_64 aarch64; do
        case " $* " in *" --arch "*) case " $* " in *" --arch $arch "*) ;; *) continue ;; esac ;; esac
        archs+=("$arch")
    done
    host_require base qemu
    for arch in "${archs[@]}"; do
        kernel_build "$arch"
        if [ "$what" = boot ]; then debian_kernel_prepare "$arch"; fi
    done
    suite_environment
    exec "${PYTHON:-/usr/bin/python3}" "$REPO/tests/bench/$what.py" "$@"
}

command_bench() {
    unset BUILD
    case ${1:-} in boot | hardening) command_bench_appliance "$@" ;; esac
    variant_build "$HOST_ARCH"
    suite_environment
    case " $* " in
        " log "*" --guest "*)
            host_require base qemu
            kernel_build x86_64
            ;;
    esac
    # The brokers to compare with; --newest brings its own.
    case " $* " in
        *" --newest "*) ;;
        " mqtt "* | " tls "* | " drain "* | " backlog "* | " durable "*) host_require peers ;;
    esac
    [ -x "$REPO/tests/bench/run.sh" ] || die "tests/bench/run.sh is missing or not executable"
    exec "$REPO/tests/bench/run.sh" "$@"
}

command_lint() {
    host_require lint
    exec "$REPO/ci/lint.sh"
}
