# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Debian's binary packages that are taken apart for what is in them (the boot loader, the Python of a guest), never
# installed: pinned, fetched and checked like the sources (fetch.sh), for any architecture whatever the machine's own
# is. A pinned package that has left the archive is replaced by the archive's current one, whose hash comes from the
# signed index.

# deb_field NAME ARCH FIELD: suite version licence pool sha
deb_field() {
    awk -v name="$1" -v arch="$2" -v field="$3" '
        BEGIN { at["suite"] = 3; at["version"] = 4; at["licence"] = 5; at["pool"] = 7; at["sha"] = 8 }
        $1 == "deb" && $2 == name && $6 == arch { print $at[field] }' "$PINS"
}

debian_arch() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; esac }

# deb_index_take NAME ARCH: prints VERSION POOL FILE SHA of the newest package of the pinned suite.
deb_index_take() {
    local name=$1 arch=$2 state=$CACHE/apt-$2
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    printf 'deb [arch=%s signed-by=%s] %s %s main\n' "$arch" "$KEYRING" "$(mirror_uri)" \
        "$(deb_field "$name" "$arch" suite)" >"$state/sources.list"
    set -- -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root \
        -o APT::Architecture="$arch" -o APT::Architectures::="$arch"
    if [ -z "$(find "$state/stamp" -mmin -60 2>/dev/null)" ]; then apt-get "$@" update >&2 && touch "$state/stamp"; fi
    apt-cache "$@" --no-all-versions show "$name" | awk '
        /^Version:/ { version = $2 }
        /^Filename:/ { file = $2; pool = $2; sub(/\/[^\/]*$/, "", pool); sub(/.*\//, "", file) }
        /^SHA256:/ { sha = $2 }
        END { if (sha == "") exit 1; print version, pool, file, sha }'
}

# Runs as a step: the record says which file is in use.
deb_resolve() {
    local name=$1 arch=$2 record=$3 version file
    version=$(deb_field "$name" "$arch" version)
    file=${name}_${version#*:}_$arch.deb
    mkdir -p "${record%/*}"
    if fetch_file "$(deb_field "$name" "$arch" pool)" "$file" "$(deb_field "$name" "$arch" sha)"; then
        printf '%s %s %s\n' "$version" "$file" "$(deb_field "$name" "$arch" sha)" >"$record.new"
    else
        local pool sha
        echo "the pinned version of $name is not in the archive any more: looking for the current one"
        read -r version pool file sha < <(deb_index_take "$name" "$arch")
        fetch_file "$pool" "$file" "$sha"
        printf '%s %s %s\n' "$version" "$file" "$sha" >"$record.new"
    fi
    mv "$record.new" "$record"
}

deb_record() { printf '%s/resolved/deb-%s-%s-%s\n' "$CACHE" "$1" "$2" "$(deb_field "$1" "$2" sha | cut -c1-16)"; }
deb_version() { cut -d' ' -f1 "$(deb_record "$1" "$2")"; }
deb_sha() { cut -d' ' -f3 "$(deb_record "$1" "$2")"; }
deb_path() { awk -v c="$CACHE/downloads" '{ print c "/" $3 "/" $2 }' "$(deb_record "$1" "$2")"; }

# deb_fetch NAME ARCH: makes the package available; without network when it is in the cache.
deb_fetch() {
    local name=$1 arch=$2 record
    [ -n "$(deb_field "$name" "$arch" sha)" ] || die "toolchain/pins names no package $name for $arch"
    record=$(deb_record "$name" "$arch")
    if [ ! -f "$record" ] || [ ! -f "$(deb_path "$name" "$arch")" ]; then
        step "fetch $name $(deb_field "$name" "$arch" version) ($arch)" deb_resolve "$name" "$arch" "$record"
    fi
    [ "$(deb_version "$name" "$arch")" = "$(deb_field "$name" "$arch" version)" ] ||
        note "$name: the pinned $(deb_field "$name" "$arch" version) has left the archive;" \
            "$(deb_version "$name" "$arch") is used, verified by the archive's signature"
}

# debs_unpack DIRECTORY ARCH NAME...: lays out what is in the packages.
debs_unpack() {
    local directory=$1 arch=$2 name
    shift 2
    for name; do
        deb_fetch "$name" "$arch"
        dpkg-deb -x "$(deb_path "$name" "$arch")" "$directory"
    done
}

# For update-deps: each package's pin moves to what the archive has now.
debs_update() {
    local name arch version pool file sha new=$CACHE/tmp/pins.new
    while read -r name arch; do
        rm -f "$CACHE/apt-$arch/stamp"
        read -r version pool file sha < <(deb_index_take "$name" "$arch" 2>/dev/null) ||
            die "$name: no package for $arch in $(deb_field "$name" "$arch" suite)"
        printf '  %-10s %s -> %s (%s)\n' "$name" "$(deb_field "$name" "$arch" version)" "$version" "$arch"
        fetch_file "$pool" "$file" "$sha" >/dev/null || die "$file: could not be fetched"
        awk -v name="$name" -v arch="$arch" -v version="$version" -v pool="$pool" -v sha="$sha" '
            $1 == "deb" && $2 == name && $6 == arch { $4 = version; $7 = pool; $8 = sha } { print }' "$PINS" >"$new"
        cmp -s "$new" "$PINS" || cat "$new" >"$PINS"
    done < <(awk '$1 == "deb" { print $2, $6 }' "$PINS")
    rm -f "$new"
}
