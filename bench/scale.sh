#!/bin/bash
# scale.sh BUILD: how the time of compiling grows. First from the text of a graph to the C of its kernels (`reprise opt --stage
# c`), then to its plan (`--stage plan`), for chains of 100, 1000 and 10,000 nodes, nothing being compiled: milliseconds of processor
# time beyond those of a chain of one, least of five, and how many times those of 1000 per node. Then what the layers of a model add to a first start and to a
# warm one: medians of eleven rounds. A second layer brings the one piece that is between layers, and its kernels; the others are equal to it.
set -u
R=$1/reprise
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

# graph KIND NODES: elementwise ops in one row, a permute and an add that are a kernel each, a recurrence of slices and steps, updates
# of one state, a scatter and an exp, a product and an exp, or sums that all live until they are added up.
graph() {
    awk -v kind="$1" -v n="$2" 'BEGIN {
        if (kind ~ /^(kernels|updates|scatters|products|sums)$/) n = int((n + 1) / 2)
        if (kind == "steps") n = int((n + 2) / 3)
        if (kind == "steps") printf "graph @chain(%%x: f32[%d,64]) -> f32[1,64] {\n", n
        else if (kind == "updates") print "graph @chain(%x: f32[8]) {\n  %s = state @s : f32[8]"
        else if (kind == "scatters") print "graph @chain(%x: f32[48], %i: i32[7], %s: f32[7]) {"
        else if (kind == "sums") print "graph @chain(%x: f32[64,64]) {"
        else print "graph @chain(%x: f32[64,64]) -> f32[64,64] {"
        for (i = 0; i < n; i++) {
            at = i ? "%a" i - 1 : kind == "updates" ? "%s" : "%x"
            if (kind == "steps") {
                printf "  %%r%d = slice %%x {axis=0, start=%d, stop=%d}\n", i, i, i + 1
                if (i) printf "  %%m%d = mul %s, %%r0\n  %%a%d = add %%m%d, %%r%d\n", i, at, i, i, i
                else print "  %a0 = neg %r0"
            } else if (kind == "updates") printf "  %%b%d = add %s, %%x\n  %%a%d = update %s, %%b%d\n", i, at, i, at, i
            else if (kind == "scatters") printf "  %%b%d = scatter_add %s, %%i, %%s {axis=0}\n  %%a%d = exp %%b%d\n", i, at, i, i
            else if (kind == "products") printf "  %%b%d = matmul %s, %%x\n  %%a%d = exp %%b%d\n", i, at, i, i
            else if (kind == "sums") printf "  %%c%d = cumsum %s {axis=%d}\n", i, i ? "%c" i - 1 : "%x", i % 2
            else if (kind == "elementwise") printf "  %%a%d = %s %s\n", i, i % 2 ? "exp" : "neg", at
            else printf "  %%p%d = permute %s {axes=[1,0]}\n  %%a%d = add %%p%d, %%x\n", i, at, i, i
        }
        if (kind == "sums") for (i = 0; i < n; i++) printf "  %%a%d = add %%c%d, %s\n", i, i, i ? "%a" i - 1 : "%x"
        print "  ret %a" n - 1 "\n}"
    }'
}
# cpu_ms TIMES COMMAND...: processor time of one run, waited-for children included
cpu_ms() {
    local n=$1 i TIMEFORMAT='%3U %3S'
    shift
    { time for ((i = 0; i < n; i++)); do "$@" >/dev/null 2>"$tmp/err" || return; done; } 2>&1 | awk -v n="$n" '{ print ($1 + $2) * 1000 / n }'
}
# least COMMAND...: of five
least() { for _ in 1 2 3 4 5; do "$@"; done | sort -g | head -n 1; }
calc() { awk "BEGIN { printf \"$1\", $2 }"; }

lower() { # STAGE KIND NODES: runs enough of them to be measured
    graph "$2" "$3" >"$tmp/g.ir"
    least cpu_ms $((2000 / $3 > 20 ? 20 : 2000 / $3 + 1)) "$R" opt "$tmp/g.ir" --stage "$1"
}
table() { # STAGE KIND...
    local stage=$1 kind none few some many
    shift
    printf '| chain, to %s | 100 | 1000 | 10,000 | 10,000 a node |\n|---|---:|---:|---:|---:|\n' "$stage"
    for kind in "$@"; do
        none=$(lower "$stage" "$kind" 1) few=$(lower "$stage" "$kind" 100) some=$(lower "$stage" "$kind" 1000)
        many=$(lower "$stage" "$kind" 10000)
        printf '| %s | %s | %s | %s | %s |\n' "$kind" "$(calc %.1f "$few - $none")" "$(calc %.1f "$some - $none")" \
            "$(calc %.1f "$many - $none")" "$(calc '%.2f x' "($many - $none) / ($some - $none) / 10")"
    done
}
table c elementwise kernels steps
echo
table plan kernels steps updates scatters products sums

# start MODEL: milliseconds until one token is there
start() {
    local TIMEFORMAT=%3R
    { time REPRISE_CACHE_DIR=$tmp/cache "$R" run "$1" --raw --prompt-ids 1 --max-tokens 1 --quiet >/dev/null 2>"$tmp/err"; } 2>&1 | awk '{ print $1 * 1000 }'
}
sizes='1 2 128'
for n in $sizes; do
    "$R" synth "tiny,layers=$n" --out "$tmp/$n.gguf" >/dev/null 2>&1 || exit 1
done
# In turns, because a start is mostly a C compiler, whose time varies by more than all layers take.
for _ in {1..11}; do
    for n in $sizes; do
        rm -rf "$tmp/cache"
        echo "first $n $(start "$tmp/$n.gguf")"
        echo "warm $n $(start "$tmp/$n.gguf")"
    done
done | sort -k1,1 -k2,2n -k3,3g | awk '
    { of[$1, $2, ++count[$1, $2]] = $3 }
    function median(kind, n) { return of[kind, n, int((count[kind, n] + 1) / 2)] }
    function row(kind) {
        printf "| %s | %.0f | %.0f | %.0f (%.0f-%.0f) | %.2f |\n", kind, median(kind, 1), median(kind, 2), median(kind, 128), of[kind, 128, 1],
            of[kind, 128, count[kind, 128]], (median(kind, 128) - median(kind, 2)) / 126
    }
    END {
        print "\n| start | 1 layer | 2 layers | 128 layers | a layer behind two |\n|---|---:|---:|---:|---:|"
        row("first")
        row("warm")
    }'
