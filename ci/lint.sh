#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What can be judged from the text of the tracked files alone. Each rule is one test; the last line is the count.
#   shell     shellcheck finds nothing in the shell scripts
#   length    no source file over 600 lines
#   width     no line of C over 120 columns (100 is the aim; a table may need more)
#   licence   each source file opens with its SPDX line
#   paths     no path into somebody's home or working directory
#   names     no generated or built file is tracked
#   matrix    docs/conformance.md is what the conformance tests say
#   map       ARCHITECTURE.md names each source file of the gateway, and no other
#   links     what documents link to is there
set -uo pipefail
REPO=${REPO:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
cd "$REPO" || exit 1

FILE_LINES_MAX=600
LINE_COLUMNS_MAX=120
passed=0 failed=0 skipped=0

mapfile -t tracked < <(git ls-files --cached --others --exclude-standard 2>/dev/null || true)
if [ ${#tracked[@]} -eq 0 ]; then mapfile -t tracked < <(find . -type f -not -path './out/*' | sed 's|^\./||'); fi
select_files() {
    local f
    for f in "${tracked[@]}"; do
        [ -f "$f" ] || continue
        if [[ $f =~ $1 ]]; then printf '%s\n' "$f"; fi
    done
}

# verdict RULE FINDINGS
verdict() {
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        printf '%s\n' "$2" | head -n 40
        printf 'FAIL lint %s: %s findings\n' "$1" "$(printf '%s\n' "$2" | wc -l)"
        failed=$((failed + 1))
    fi
}

echo "== lint"
mapfile -t shell < <(select_files '\.sh$|^\.ci/run$')
if command -v shellcheck >/dev/null 2>&1; then
    verdict shell "$(shellcheck --format=gcc --severity=style --exclude=SC1091 "${shell[@]}" 2>&1)"
else
    echo "SKIP lint shell: shellcheck is not installed"
    skipped=$((skipped + 1))
fi

mapfile -t sources < <(select_files '\.(c|h|py|sh)$|(^|/)Makefile$|\.mk$')
verdict length "$(wc -l "${sources[@]}" | awk -v max="$FILE_LINES_MAX" '$2 != "total" && $1 > max { print $2 ": " $1 " lines" }')"

mapfile -t c_files < <(select_files '\.[ch]$')
verdict width "$(awk -v max="$LINE_COLUMNS_MAX" '{ gsub(/\t/, "        ") } length > max { print FILENAME ":" FNR ": " length " columns" }' \
    "${c_files[@]}" /dev/null)"

verdict licence "$(for f in "${sources[@]}"; do
    head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || printf '%s: no SPDX line at the top\n' "$f"
done)"

# The pattern is put together here so that this file does not match itself.
homes="/(root|work|home/[a-z]+|Users/[A-Za-z]+)""/"
verdict paths "$(select_files '\.(c|h|py|sh|md|mk|conf|txt)$|Makefile$|^ci/|^toolchain/' |
    tr '\n' '\0' | xargs -0 grep -nE "(^|[ \"'=(])$homes" 2>/dev/null)"

verdict matrix "$(python3 tests/conformance/matrix.py --check 2>&1)"

# A name there may be a pattern: mqtt_parse*.c.
map_findings() {
    local file pattern found
    mapfile -t patterns < <(grep -oE '[a-zA-Z0-9_/*]+\.[ch]\b' ARCHITECTURE.md | sort -u)
    mapfile -t gateway < <(select_files '^appliance/.*\.[ch]$')
    for file in "${gateway[@]}"; do
        [[ $file == *.c ]] || continue
        found=
        for pattern in "${patterns[@]}"; do
            # shellcheck disable=SC2053 # it is a pattern
            if [[ /$file == */$pattern ]]; then found=1; break; fi
        done
        [ -n "$found" ] || echo "$file: ARCHITECTURE.md does not say what it does"
    done
    for pattern in "${patterns[@]}"; do
        found=
        for file in "${gateway[@]}"; do
            # shellcheck disable=SC2053 # it is a pattern
            if [[ /$file == */$pattern ]]; then found=1; break; fi
        done
        [ -n "$found" ] || echo "ARCHITECTURE.md: there is no $pattern"
    done
}
verdict map "$(map_findings)"

link_findings() {
    local page target
    while IFS=: read -r page target; do
        target=${target#*](}
        target=${target%%[)#]*}
        if [ -n "$target" ] && [ ! -e "$(dirname "$page")/$target" ]; then echo "$page: there is no $target"; fi
    done < <(select_files '\.md$' | tr '\n' '\0' | xargs -0 grep -oHE '\]\([^)]+\)' | grep -vE '\]\([a-z]+://')
}
verdict links "$(link_findings)"

verdict names "$(git ls-files 2>/dev/null | grep -E '^(out|build)/|__pycache__/|\.(o|a|so|pyc|tar|img)$')"

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
