# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Built dependencies, one directory each below $CACHE/built, named by a hash of all that went in: the sources, the
# recipe's own text, the compiler and its flags, the shims, and the directories of what it builds on. A build
# happens in a scratch directory and is renamed into place whole, so a half-finished one is never used; a lock
# a name keeps two builds at the same time from doing the work twice.

hash_text() { sha256sum | cut -c1-16; }

# cache_build TITLE NAME KEY COMMAND...: sets CACHE_DIR. The command is called with a scratch directory and the
# directory to fill as further arguments.
cache_build() {
    local title=$1 name=$2 key=$3 lock_fd
    shift 3
    CACHE_DIR=$CACHE/built/$name-$key
    [ ! -d "$CACHE_DIR" ] || return 0
    mkdir -p "$CACHE/built" "$CACHE/locks" "$CACHE/tmp"
    exec {lock_fd}>"$CACHE/locks/$name"
    flock "$lock_fd"
    # Another build may have finished it while this one waited.
    [ -d "$CACHE_DIR" ] || step "$title" cache_build_locked "$name" "$CACHE_DIR" "$@"
    exec {lock_fd}>&-
}

cache_build_locked() {
    local name=$1 final=$2 scratch
    shift 2
    scratch=$(mktemp -d "$CACHE/tmp/$name.XXXXXX")
    # shellcheck disable=SC2064 # the path is wanted as it is now
    trap "rm -rf '$scratch'" EXIT
    mkdir "$scratch/src" "$scratch/out"
    SCRATCH=$scratch "$@" "$scratch/src" "$scratch/out"
    mv -T "$scratch/out" "$final"
}

cache_unpack() {
    local archive=$1 dir=$2
    shift 2
    mkdir -p "$dir"
    tar -C "$dir" --strip-components=1 --no-same-owner -xf "$archive" "$@"
}
