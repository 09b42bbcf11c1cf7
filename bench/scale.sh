#!/bin/bash
# scale.sh BUILD: how the time of compiling grows. First from the text of a graph to the C of its kernels (`reprise opt --stage
# c`) for chains of 100, 1000 and 10,000 nodes, nothing being compiled: milliseconds of processor time beyond those of a chain of
# one, least of five, and how many times those of 1000 per node. Then what the layers of a model add to a first start, less
# what they add to a warm one.
set -u
R=$1/reprise
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

# graph KIND NODES: elementwise ops in one row, a permute and an add that are a kernel each, or a recurrence of slices and steps.
graph() {
    awk -v kind="$1" -v n="$2" 'BEGIN {
        if (kind == "kernels") n = int((n + 1) / 2)
        if (kind == "steps") n = int((n + 2) / 3)
        if (kind == "steps") printf "graph @chain(%%x: f32[%d,64]) -> f32[1,64] {\n", n
        else print "graph @chain(%x: f32[64,64]) -> f32[64,64] {"
        for (i = 0; i < n; i++) {
            at = i ? "%a" i - 1 : "%x"
            if (kind == "steps") {
                printf "  %%r%d = slice %%x {axis=0, start=%d, stop=%d}\n", i, i, i + 1
                if (i) printf "  %%m%d = mul %s, %%r0\n  %%a%d = add %%m%d, %%r%d\n", i, at, i, i, i
                else print "  %a0 = neg %r0"
            } else if (kind == "elementwise") printf "  %%a%d = %s %s\n", i, i % 2 ? "exp" : "neg", at
            else printf "  %%p%d = permute %s {axes=[1,0]}\n  %%a%d = add %%p%d, %%x\n", i, at, i, i
        }
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

lower() { # KIND NODES: runs enough of them to be measured
    graph "$1" "$2" >"$tmp/g.ir"
    least cpu_ms $((2000 / $2 > 20 ? 20 : 2000 / $2 + 1)) "$R" opt "$tmp/g.ir" --stage c
}
printf '| chain | 100 | 1000 | 10,000 | 10,000 a node |\n|---|---:|---:|---:|---:|\n'
for kind in elementwise kernels steps; do
    none=$(lower "$kind" 1) few=$(lower "$kind" 100) some=$(lower "$kind" 1000) many=$(lower "$kind" 10000)
    printf '| %s | %s | %s | %s | %s |\n' "$kind" "$(calc %.1f "$few - $none")" "$(calc %.1f "$some - $none")" \
        "$(calc %.1f "$many - $none")" "$(calc '%.2f x' "($many - $none) / ($some - $none) / 10")"
done

# start CACHE MODEL: milliseconds of one token
start() { REPRISE_CACHE_DIR=$1 cpu_ms 1 "$R" run "$2" --raw --prompt-ids 1 --max-tokens 1 --quiet; }
cold() { rm -rf "$tmp/cache" && start "$tmp/cache" "$1"; }
for n in 1 128; do
    "$R" synth "tiny,layers=$n" --out "$tmp/$n.gguf" >/dev/null 2>&1 || { cat "$tmp/err"; exit 1; }
    eval "cold$n=$(least cold "$tmp/$n.gguf") warm$n=$(least start "$tmp/cache" "$tmp/$n.gguf")"
done
# shellcheck disable=SC2154
printf '\n| start | 1 layer | 128 layers | a layer |\n|---|---:|---:|---:|\n| first | %.0f | %.0f | %.2f |\n| warm | %.0f | %.0f | %.2f |\n' \
    "$cold1" "$cold128" "$(calc %f "($cold128 - $cold1) / 127")" "$warm1" "$warm128" "$(calc %f "($warm128 - $warm1) / 127")"
printf '| compiling | %.0f | %.0f | %.2f |\n' "$(calc %f "$cold1 - $warm1")" "$(calc %f "$cold128 - $warm128")" \
    "$(calc %f "($cold128 - $warm128 - $cold1 + $warm1) / 127")"
