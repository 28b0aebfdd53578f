# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# run: the appliance in QEMU (image/run_vm.py), or the gateway alone on this machine.

command_run() {
    local arch=$HOST_ARCH firmware='' arguments=() image=() kernel
    unset BUILD
    if [ "${1:-}" = --native ]; then
        shift
        variant_build "$HOST_ARCH"
        exec "$OUT/$HOST_ARCH/sluice" run "$@"
    fi
    while [ $# -gt 0 ]; do
        case $1 in
            --native) die "run: --native comes first; what follows it goes to \`sluice run\`" ;;
            --arch) arch=${2:-}; shift ;;
            --arch=*) arch=${1#*=} ;;
            --firmware) firmware=${2:-}; shift ;;
            --firmware=*) firmware=${1#*=} ;;
            --update-key | --config) image+=("$1" "${2:-}"); shift ;;
            *) arguments+=("$1") ;;
        esac
        shift
    done
    case $arch in x86_64 | aarch64) ;; *) die "unknown architecture '$arch'" "known: x86_64, aarch64" ;; esac
    host_require image "run-$arch" ${firmware:+"run-$firmware-$arch"}
    (command_image --arch "$arch" "${image[@]}")
    kernel=$OUT/$arch/bzImage
    [ "$arch" = x86_64 ] || kernel=$OUT/$arch/Image
    exec "$HOST_PYTHON" "$REPO/image/run_vm.py" --arch "$arch" ${firmware:+--firmware "$firmware"} \
        --image "$OUT/$arch/sluice.img" --kernel "$kernel" --dir "$OUT/$arch/run" "${arguments[@]}"
}
