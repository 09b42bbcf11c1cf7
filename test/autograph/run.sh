#!/bin/bash
# examples/autograph.c prints the block that MagiCompiler's documentation shows for its example (layer.txt), byte for byte but for
# the device; and with reserved memory the same without an invalid graph.
here=$(cd "$(dirname "$0")" && pwd)
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
example=$here/../../${B:-build}/examples/autograph
[ -x "$example" ] || { echo "FAIL autograph: there is no $example"; exit 1; }
check() { if diff "$2" "$3" >"$tmp/diff"; then echo "PASS $1"; else echo "FAIL $1: $(head -n 3 "$tmp/diff" | tr '\n' ' ')"; fi; }
# part N: the N-th block of signatures.
part() { awk -v n="$1" '/^StaticSignature/ { k++; on = 1 } !/^(StaticSignature| )/ { on = 0 } on && k == n' "$tmp/out"; }

"$example" >"$tmp/out" 2>"$tmp/err" && echo "PASS runs" || echo "FAIL runs: $(tail -n 1 "$tmp/err")"
sed "s/cuda:0/cpu/" "$here/layer.txt" >"$tmp/want"
part 1 >"$tmp/exact"
part 2 >"$tmp/reserved"
check exact "$tmp/want" "$tmp/exact"
sed -i 's/Invalid$/Valid/' "$tmp/want"
check reserved "$tmp/want" "$tmp/reserved"
cat >"$tmp/want" <<'END'
First run (graph capture): Output shape = [2, 512, 1024]
Cached graphs count: 1
Second run (graph replay): Output shape = [2, 512, 1024]
Cached graphs count: 1
Third run (tensor expansion): Output shape = [2, 1024, 1024]
Cached graphs count: 1
Static tensor memory usage: 16.00 MB
END
head -n 7 "$tmp/out" >"$tmp/head"
check counts "$tmp/want" "$tmp/head"
