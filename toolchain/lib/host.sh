# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What a build needs from the host, in one list, and the installation of what is missing (Debian 12, 13).
# Each line: the feature that needs it, a test that it is there, the package that provides it.

HOST_PYTHON=/usr/bin/python3

host_needs() {
    local clang_major
    clang_major=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
    cat <<NEEDS
base    gcc                       gcc
base    file:/usr/include/stdio.h libc6-dev
base    make                      make
base    patch                     patch
base    xz                        xz-utils
base    flock                     util-linux
base    git                       git
base    file:$KEYRING             debian-archive-keyring
aarch64 aarch64-linux-gnu-gcc     gcc-aarch64-linux-gnu
x86_64  x86_64-linux-gnu-gcc      gcc-x86-64-linux-gnu
clang   clang                     clang
fuzz    clang                     clang
fuzz    clang-rt                  libclang-rt-${clang_major:-14}-dev
test    file:/usr/include/cmocka.h libcmocka-dev
test    $HOST_PYTHON              python3
test    py:pytest                 python3-pytest
test    qemu-aarch64              qemu-user
test    file:/usr/sbin/dnsmasq    dnsmasq-base
test    file:/bin/ip              iproute2
lint    shellcheck                shellcheck
npm     node                      nodejs
npm     npm                       npm
clients mosquitto_rr              mosquitto-clients
clients py:paho.mqtt.client       python3-paho-mqtt
browser chromium                  chromium
peers   mosquitto                 mosquitto
peers   nats-server               nats-server
kernel  flex                      flex
kernel  bison                     bison
kernel  bc                        bc
kernel  zstd                      zstd
kernel  hexdump                   bsdextrautils
kernel  perl                      perl
kernel  file:/usr/include/libelf.h libelf-dev
qemu    qemu-system-x86_64        qemu-system-x86
qemu    qemu-system-aarch64       qemu-system-arm
qemu    py:pytest                 python3-pytest
qemu    mformat                   mtools
qemu    genisoimage               genisoimage
qemu    file:/usr/sbin/dnsmasq    dnsmasq-base
image   sfdisk                    fdisk
image   mformat                   mtools
image   mke2fs                    e2fsprogs
image   dpkg-deb                  dpkg
image   $HOST_PYTHON              python3
image   lib:libdevmapper.so.1.02.1 libdevmapper1.02.1
update  openssl                   openssl
qemu-img qemu-img                 qemu-utils
run-x86_64 qemu-system-x86_64     qemu-system-x86
run-x86_64 file:/usr/share/seabios/bios-256k.bin seabios
run-uefi-x86_64 file:/usr/share/OVMF/OVMF_CODE_4M.fd ovmf
run-aarch64 qemu-system-aarch64   qemu-system-arm
run-aarch64 file:/usr/share/AAVMF/AAVMF_CODE.fd qemu-efi-aarch64
run-uboot-aarch64 file:/usr/lib/u-boot/qemu_arm64/u-boot.bin u-boot-qemu
secureboot sbsign                 sbsigntool
NEEDS
}

host_has() {
    case $1 in
        file:*) [ -e "${1#file:}" ] ;;
        lib:*) ls /lib/*/"${1#lib:}" /usr/lib/*/"${1#lib:}" >/dev/null 2>&1 ;;
        py:*) "$HOST_PYTHON" -c "import ${1#py:}" 2>/dev/null ;;
        clang-rt) [ -e "$(clang -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-$(uname -m).a" ] ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

host_missing() {
    local feature test package
    host_needs | while read -r feature test package; do
        case " $* " in *" $feature "*) host_has "$test" || printf '%s\n' "$package" ;; esac
    done | sort -u
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

host_apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

host_install() {
    # The machine's package lists may be old or empty; refresh them only when they do not serve.
    host_apt_install "$@" || { as_root apt-get update && host_apt_install "$@"; }
}

# host_require FEATURE... installs what these features need and the host lacks. Two rounds: the package of the
# compiler's runtime is named after the version of the compiler, which may come with the first round.
host_require() {
    local missing round
    for round in 1 2; do
        missing=$(host_missing "$@" | tr '\n' ' ')
        [ -n "$missing" ] || return 0
        command -v apt-get >/dev/null 2>&1 ||
            die "missing on this machine: $missing" "This is not Debian: install their equivalents and run again."
        if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
            die "missing packages: $missing" "Run as root or with sudo:  apt-get install $missing"
        fi
        # shellcheck disable=SC2086 # a list of package names
        step "install host packages (round $round): $missing" host_install $missing
    done
    missing=$(host_missing "$@" | tr '\n' ' ')
    [ -z "$missing" ] || die "still missing after installation: $missing"
}
