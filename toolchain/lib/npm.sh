# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The npm packages that tests use as other implementations to compare and to talk with. toolchain/npm/package-lock.json
# pins each of them, and all that they need, by version and SHA-512; npm checks the hashes and runs none of the packages'
# scripts. The result is kept in the cache like a built dependency, so that later runs need no network.

npm_key() { cat "$REPO/toolchain/npm/package.json" "$REPO/toolchain/npm/package-lock.json" | hash_text; }

# The directory of the packages, whether they are there already or not.
npm_modules() { printf '%s/built/npm-%s/node_modules\n' "$CACHE" "$(npm_key)"; }

recipe_npm() {
    local out=$2
    cp "$REPO/toolchain/npm/package.json" "$REPO/toolchain/npm/package-lock.json" "$out/"
    (cd "$out" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
        --omit=optional --cache "$CACHE/npm")
}

npm_build() {
    host_require npm
    cache_build "fetch the npm packages" npm "$(npm_key)" recipe_npm
}
