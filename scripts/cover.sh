#!/bin/sh
# cover.sh BUILD: line coverage per room from the gcov data that a test run left under BUILD.
cd "$(dirname "$0")/.." || exit 1
B=$1
find "$B/obj/src" -name '*.gcda' | while read -r d; do
    gcov -n -o "$d" "$d" 2>/dev/null
done | awk -F"'" '/^File /{ file = $2 }
    /^Lines executed/ && file ~ /^src\// && !seen[file]++ {
        split($0, a, /[:% ]+/); split(file, p, "/")
        n[p[2]] += a[5]; hit[p[2]] += a[5] * a[3] / 100
    }
    END { for (r in n) printf "%-10s %5.1f %% of %d lines\n", r, 100 * hit[r] / n[r], n[r] }' | sort
