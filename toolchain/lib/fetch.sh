# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sources of the dependencies: pinned in toolchain/pins, fetched through apt, checked, kept in the cache.
#
# A pinned file is asked for by its path in the pool and checked against its SHA-256; no package index is needed
# for that. Only when it has left the archive are the signed source indexes fetched, into a private
# apt state below the cache (the machine's own is never touched), and the newest version of the same series that the
# archive can deliver is taken; its hashes come from the signed index. The choice is recorded in the cache, so that
# later builds need no network and use the same files, and it is named in $OUT/lock-report.txt.

PINS=$REPO/toolchain/pins
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
FETCH_SUITES="bookworm trixie sid"

pin_names() { awk '$1 == "dep" { print $2 }' "$PINS"; }

# pin_field NAME FIELD: source suite series version licence parts pool
pin_field() {
    awk -v name="$1" -v field="$2" '
        BEGIN { n = split("source suite series version licence parts pool", f, " "); for (i = 1; i <= n; i++) at[f[i]] = i + 2 }
        $1 == "dep" && $2 == name { print $at[field] }' "$PINS"
}

pin_files() { awk -v name="$1" '$1 == "file" && $2 == name { print $3, $4 }' "$PINS"; }

# The hash of a dependency's pin: what was asked for. A resolution is valid for exactly this.
pin_hash() {
    { pin_field "$1" version && pin_files "$1"; } | sha256sum | cut -c1-16
}

# The archive this machine uses, read from its own apt configuration.
mirror_uri() {
    local uri=${SLUICE_MIRROR:-}
    if [ -z "$uri" ] && command -v apt-get >/dev/null 2>&1; then
        # shellcheck disable=SC2016 # apt fills these in
        uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
            awk '$1 ~ /\/debian\/?$/ && $2 !~ /-/ { print $1; exit }')
    fi
    [ -n "$uri" ] || die "no Debian archive in this machine's apt sources" \
        "Set SLUICE_MIRROR to the URI of a Debian archive (the directory that holds pool/ and dists/)."
    printf '%s\n' "${uri%/}"
}

apt_private() {
    local state=$CACHE/apt
    "$@" -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root
}

# fetch_file POOL FILE SHA256: leaves the checked file in the cache, or fails.
fetch_file() {
    local pool=$1 file=$2 sha=$3 dest=$CACHE/downloads/$3/$2 part escaped
    if [ -f "$dest" ]; then
        printf '%s  %s\n' "$sha" "$dest" | sha256sum --check --status && return 0
        rm -f "$dest"
    fi
    escaped=${file//+/%2b}
    escaped=${escaped//\~/%7e}
    mkdir -p "${dest%/*}" "$CACHE/tmp"
    part=$(mktemp -d "$CACHE/tmp/fetch.XXXXXX")
    if /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file \
        "$(mirror_uri)/$pool/$escaped" "$part/file" "SHA256:$sha" &&
        printf '%s  %s\n' "$sha" "$part/file" | sha256sum --check --status; then
        mv "$part/file" "$dest"
        rmdir "$part"
        return 0
    fi
    rm -rf "$part"
    return 1
}

# The signed indexes of the suites, at most one refresh an hour.
index_refresh() {
    local state=$CACHE/apt suite mirror
    if [ -n "$(find "$state/stamp" -mmin -60 2>/dev/null)" ]; then return 0; fi
    mirror=$(mirror_uri)
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    for suite in $FETCH_SUITES; do
        printf 'deb-src [signed-by=%s] %s %s main\n' "$KEYRING" "$mirror" "$suite"
    done >"$state/sources.list"
    apt_private apt-get update && touch "$state/stamp"
}

# index_candidates SOURCE SERIES: "VERSION POOL FILE SHA256" lines, newest version first.
index_candidates() {
    apt_private apt-cache showsrc --only-source "$1" | awk -v series="$2" '
        function flush(  i) {
            if (index(version, series) == 1) for (i = 1; i <= n; i++) print version, pool, files[i]
            n = 0; version = ""; sums = 0
        }
        /^Package:/ { flush() }
        /^Version:/ { version = $2; sub(/^[0-9]+:/, "", version) }
        /^Directory:/ { pool = $2 }
        /^Checksums-Sha256:/ { sums = 1; next }
        sums && /^ / { files[++n] = $3 " " $1; next }
        { sums = 0 }
        END { flush() }' | sort -u | sort -s -k1,1Vr
}

parts_filter() {
    case $1 in
        orig) grep -E ' [^ ]*\.orig\.tar\.[a-z0-9]+ [0-9a-f]+$' ;;
        orig+debian) grep -E ' [^ ]*\.(orig|debian)\.tar\.[a-z0-9]+ [0-9a-f]+$' ;;
        *) die "toolchain/pins: unknown parts '$1'" ;;
    esac
}

# index_take NAME: prints "VERSION" and "FILE SHA" lines of the newest deliverable version of the series.
index_take() {
    local name=$1 all version pool file sha ok
    all=$(index_candidates "$(pin_field "$name" source)" "$(pin_field "$name" series)" |
        parts_filter "$(pin_field "$name" parts)") || return 1
    for version in $(printf '%s\n' "$all" | awk '!seen[$1]++ { print $1 }'); do
        ok=1
        while read -r _ pool file sha; do
            fetch_file "$pool" "$file" "$sha" >&2 || ok=0
        done < <(printf '%s\n' "$all" | awk -v v="$version" '$1 == v')
        if [ "$ok" -eq 1 ]; then
            printf '%s\n' "$version"
            printf '%s\n' "$all" | awk -v v="$version" '$1 == v { print $3, $4 }'
            return 0
        fi
    done
    return 1
}

# Runs as a step: afterwards $CACHE/resolved/NAME-PINHASH holds the version and the files in use.
dep_resolve() {
    local name=$1 record=$2 file sha ok=1
    mkdir -p "${record%/*}"
    while read -r file sha; do
        fetch_file "$(pin_field "$name" pool)" "$file" "$sha" || ok=0
    done < <(pin_files "$name")
    if [ "$ok" -eq 1 ]; then
        { pin_field "$name" version && pin_files "$name"; } >"$record.new"
    else
        echo "the pinned version of $name is not in the archive any more: looking for the series"
        index_refresh
        index_take "$name" >"$record.new" || {
            echo "no version of the series '$(pin_field "$name" series)' of $name can be fetched"
            return 1
        }
    fi
    mv "$record.new" "$record"
}

dep_record() { printf '%s/resolved/%s-%s\n' "$CACHE" "$1" "$(pin_hash "$1")"; }
dep_version() { head -n 1 "$(dep_record "$1")"; }
dep_paths() { tail -n +2 "$(dep_record "$1")" | awk -v c="$CACHE/downloads" '{ print c "/" $2 "/" $1 }'; }

# dep_fetch NAME: makes the sources available; from the cache without network when they are there.
dep_fetch() {
    local name=$1 record path whole=1
    record=$(dep_record "$name")
    if [ -f "$record" ]; then
        while read -r path; do [ -f "$path" ] || whole=0; done < <(dep_paths "$name")
    else
        whole=0
    fi
    [ "$whole" -eq 1 ] || step "fetch $name $(pin_field "$name" version)" dep_resolve "$name" "$record"
    # Said once a run, however many variants are built.
    if [ "$(dep_version "$name")" != "$(pin_field "$name" version)" ] && [[ " ${FALLBACKS_NOTED:=} " != *" $name "* ]]; then
        FALLBACKS_NOTED+=" $name"
        note "$name: the pinned $(pin_field "$name" version) has left the archive; $(dep_version "$name") of the same" \
            "series is used, verified by the archive's signature (\`./build.sh update-deps\` moves the pin)"
    fi
}

# $OUT/lock-report.txt: what this build really used, for the reader and for the bill of materials.
lock_report() {
    local name state
    mkdir -p "$OUT"
    {
        printf '# name pinned used state licence, then the SHA-256 of each source file\n'
        for name in $(pin_names); do
            [ -f "$(dep_record "$name")" ] || continue
            state=pinned
            [ "$(dep_version "$name")" = "$(pin_field "$name" version)" ] || state=series-fallback
            printf '%s %s %s %s %s\n' "$name" "$(pin_field "$name" version)" "$(dep_version "$name")" \
                "$state" "$(pin_field "$name" licence)"
            tail -n +2 "$(dep_record "$name")" | awk '{ print "    " $2 "  " $1 }'
        done
    } >"$OUT/lock-report.txt"
}

# update-deps: every pin moves to the newest deliverable version of its series.
pins_update() {
    local name taken new=$CACHE/tmp/pins.new version
    mkdir -p "$CACHE/tmp"
    rm -f "$CACHE/apt/stamp"
    step "refresh the source indexes" index_refresh
    for name in $(pin_names); do
        taken=$(index_take "$name" 2>/dev/null) || die "$name: no deliverable version of series $(pin_field "$name" series)"
        version=$(printf '%s\n' "$taken" | head -n 1)
        printf '  %-10s %s -> %s\n' "$name" "$(pin_field "$name" version)" "$version"
        printf '%s\n' "$taken" | tail -n +2 >"$new.files"
        awk -v name="$name" -v version="$version" -v files="$new.files" '
            $1 == "dep" && $2 == name { $6 = version; print; while ((getline line < files) > 0) print "file", name, line; next }
            $1 == "file" && $2 == name { next }
            { print }' "$PINS" >"$new"
        cmp -s "$new" "$PINS" || cat "$new" >"$PINS"
    done
    rm -f "$new" "$new.files"
}
