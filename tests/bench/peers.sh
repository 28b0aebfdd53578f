#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The newest brokers of the archive (sid), to compare with, on a machine whose own release has older ones: fetched with all
# they need through apt, checked by the archive's signature, and taken apart into a directory that has its own C library
# and loader. Nothing is installed. Prints the directory; mqtt.py --newest uses it. They are kept in the cache, and are
# fetched anew when the archive has newer ones and PEERS_REFRESH=1.
set -euo pipefail

cache=${SLUICE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sluice}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
arch=$(dpkg --print-architecture)
state=$cache/peers-apt
root=$cache/peers-$arch

if [ -x "$root/usr/sbin/mosquitto" ] && [ "${PEERS_REFRESH:-0}" != 1 ]; then
    printf '%s\n' "$root"
    exit 0
fi

mirror=${SLUICE_MIRROR:-}
if [ -z "$mirror" ]; then
    # shellcheck disable=SC2016 # apt fills these in
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
        awk '$1 ~ /\/debian\/?$/ && $2 !~ /-/ { print $1; exit }')
fi
[ -n "$mirror" ] || { echo "peers: no Debian archive in this machine's apt sources; set SLUICE_MIRROR" >&2; exit 1; }

mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
printf 'deb [signed-by=%s] %s sid main\n' "$keyring" "${mirror%/}" >"$state/sources.list"
: >"$state/status"
apt=(-o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$state/lists"
    -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1
    -o APT::Install-Recommends=false)
apt-get "${apt[@]}" update >&2
rm -f "$state"/cache/archives/*.deb
# The systemd package is replaced by its small part that the brokers ask for.
apt-get "${apt[@]}" --yes --download-only install mosquitto nats-server systemd-standalone-sysusers >&2

scratch=$(mktemp -d "$cache/peers.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
for package in "$state"/cache/archives/*.deb; do dpkg-deb -x "$package" "$scratch"; done
chmod 755 "$scratch"
# The links by soname, which an installation would have made.
/sbin/ldconfig -n "$scratch"/usr/lib/*-linux-gnu*
rm -rf "$root"
mv "$scratch" "$root"
trap - EXIT
rm -f "$state"/cache/archives/*.deb
printf '%s\n' "$root"
