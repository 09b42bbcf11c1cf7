#!/bin/bash
# scale.sh BUILD: milliseconds from the text of a graph to the C of its kernels (`reprise opt --stage c`), least of
# three, for chains of 1000, 3000 and 10,000 nodes. Nothing is compiled.
set -u
R=$1/reprise
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

# graph KIND NODES: elementwise ops in one row, or a permute and an add that are a kernel each.
graph() {
    awk -v kind="$1" -v n="$2" 'BEGIN {
        print "graph @chain(%x: f32[64,64]) -> f32[64,64] {"
        if (kind == "kernels") n /= 2
        for (i = 0; i < n; i++) {
            at = i ? "%a" i - 1 : "%x"
            if (kind == "elementwise") printf "  %%a%d = %s %s\n", i, i % 2 ? "exp" : "neg", at
            else printf "  %%p%d = permute %s {axes=[1,0]}\n  %%a%d = add %%p%d, %%x\n", i, at, i, i
        }
        print "  ret %a" n - 1 "\n}"
    }'
}
ms() {
    for _ in 1 2 3; do
        start=$(date +%s%N)
        "$R" opt "$1" --stage c >/dev/null || exit 1
        echo $((($(date +%s%N) - start) / 1000000))
    done | sort -n | head -n 1
}

printf '| chain | 1000 | 3000 | 10,000 |\n|---|---:|---:|---:|\n'
for kind in elementwise kernels; do
    printf '| %s |' "$kind"
    for n in 1000 3000 10000; do
        graph "$kind" "$n" >"$tmp/g.ir"
        printf ' %s |' "$(ms "$tmp/g.ir")"
    done
    echo
done
