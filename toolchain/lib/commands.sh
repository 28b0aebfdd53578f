# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The commands of build.sh: their arguments, and in which order the parts are called.

command_help() {
    cat <<'HELP'
usage: ./build.sh COMMAND [options]

  gateway [--arch x86_64|aarch64]   build out/<arch>/sluice, one static binary (default: this machine's architecture)
  run [ARGUMENT...]                 build and run the gateway; arguments go to `sluice run`
  dev                               build out/dev/sluice for gdb and valgrind: host libc, symbols, no optimisation
  test [SUITE...]                   run the test suites listed in ci/suites (default: all of them)
  fuzz [TARGET] [--seconds N]       run the fuzz targets, N seconds each (default 20)
  bench [ARGUMENT...]               run the benchmarks; arguments go to tests/bench/run.sh
  lint                              shellcheck, line and file length, paths that belong to one machine
  update-deps                       move the pins in toolchain/pins to the archive's current versions
  clean                             remove out/; the cache of dependencies stays

Environment
  SLUICE_CACHE    where dependencies are kept (default: ~/.cache/sluice); later builds work offline from it
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

command_dev() {
    variant_build dev
    say "$OUT/dev/sluice"
}

command_run() {
    unset BUILD
    variant_build "$HOST_ARCH"
    exec "$OUT/$HOST_ARCH/sluice" run "$@"
}

command_update_deps() {
    host_require base
    pins_update
}

command_clean() { rm -rf "$OUT"; }
