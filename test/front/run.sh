#!/bin/bash
# examples/recompile.c tells what recompile.txt has, but for times and lines: two compiles for five sizes, and why.
here=$(cd "$(dirname "$0")" && pwd)
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
example=$here/../../${B:-build}/examples/recompile
[ -x "$example" ] || { echo "FAIL recompile: there is no $example"; exit 1; }
"$example" >"$tmp/out" 2>"$tmp/err" && echo "PASS runs" || echo "FAIL runs: $(tail -n 1 "$tmp/err")"
grep -v '^\[inductor\]' "$tmp/out" | sed -E 's/\]: [0-9.]+/]/; s/(recompile\.c):[0-9]+/\1/' >"$tmp/told"
if diff "$here/recompile.txt" "$tmp/told" >"$tmp/diff"; then echo "PASS told"; else echo "FAIL told: $(head -n 3 "$tmp/diff" | tr '\n' ' ')"; fi
