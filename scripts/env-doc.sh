#!/bin/sh
# env-doc.sh [check]: writes docs/env.md from src/base/env.def, or fails when it is not current.
cd "$(dirname "$0")/.." || exit 1
page() {
    echo '# Environment variables'
    echo
    echo 'Written from `src/base/env.def` by `scripts/env-doc.sh`; `reprise help env --markdown` prints the same.'
    echo
    echo '| variable | default | accepted | meaning |'
    echo '|---|---|---|---|'
    awk -F'"' '/^ENV\(/ { print "| `" $2 "` | " ($4 == "" ? "-" : "`" $4 "`") " | " $6 " | " $8 " |" }' src/base/env.def
}
[ "${1-}" = check ] || { page > docs/env.md; exit; }
page | diff -u docs/env.md - || { echo "docs/env.md is not current: run scripts/env-doc.sh"; exit 1; }
