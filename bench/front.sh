#!/bin/bash
# front.sh [BUILD]: what it costs to have a function compiled and called (front.c), by reprise and by torch.compile in turns, one thread each; prints a
# table and, where both were measured, writes it to bench/results/.
#
#   ROUNDS=5      rounds of all programs, each a process with an empty cache, and one more that finds it full; medians are over rounds
#   PEERS=torch   empty: reprise alone
#   TORCH_PYTHON=FILE       a python3 that has torch, instead of the one that scripts/peers.sh makes
#   SHORT=1       one round; nothing is written to bench/results/
#   RESULTS=FOLDER          another folder
set -u
cd "$(dirname "$0")/.." || exit 1
B=${1-build}
: "${SHORT:=}" "${ROUNDS:=${SHORT:+1}}" "${ROUNDS:=5}" "${PEERS=torch}" "${TORCH_PYTHON:=}" "${RESULTS:=bench/results}"
. bench/lib.sh
tmp=$(mktemp -d)
samples=$tmp/samples
mkdir -p "$samples"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
say() { echo "bench: $*" >&2; }
die() { say "$*"; exit 1; }

python=$TORCH_PYTHON
if [ -n "$PEERS" ] && [ -z "$python" ]; then
    python=$(scripts/peers.sh torch)/torch/bin/python3 || die "torch is missing (PEERS= measures without it)"
fi
load=$(cut -d' ' -f1 /proc/loadavg)
awk "BEGIN { exit !($load > 1) }" && say "the machine is busy (load $load): ratios count, times do not"
started=$(date -u '+%Y-%m-%d %H:%M UTC')

# once NAME COMMAND...: a process with an empty cache, then one that finds it full
once() {
    local name=$1 key value
    shift
    rm -rf "$tmp/cache"
    export REPRISE_CACHE_DIR=$tmp/cache/ours TORCHINDUCTOR_CACHE_DIR=$tmp/cache/torch
    { "$@" && "$@" again; } >"$tmp/out" 2>"$tmp/err" || die "$name: $(tail -n 1 "$tmp/err")"
    while read -r key value; do put "$name.$key" "$value"; done <"$tmp/out"
}
for _ in $(seq "$ROUNDS"); do
    once ours "$B/bench/front"
    [ -z "$PEERS" ] || once torch "$python" bench/front_peer.py
done

spread() { have "$1" && printf '%.4g (%.4g - %.4g)' "$(median "$1")" "$(stat "$1" min)" "$(stat "$1" max)" || printf -; }
row() { echo "| $2 | $(spread "ours.$1") | $(spread "torch.$1") | $(ratio "torch.$1" "ours.$1") |"; }
table() {
    echo "# Functions beside torch.compile: $(cpu_model), $started"
    echo
    echo "One thread, median of $ROUNDS rounds (smallest - largest), load before $load. \`make bench-front\`; what each line is stands in \`bench/front.c\`."
    [ -z "$PEERS" ] || echo "torch $("$python" -c 'import torch; print(torch.__version__)'), Inductor."
    echo
    echo "| | reprise | torch | torch / reprise |"
    echo "|---|---|---|---|"
    row call "a call with 16 tensors of 4 elements, ns"
    row break "what a graph break adds to a call, ns"
    row first "first compile of an attention of [8, 64], ms"
    row recompile "the call with [16, 64] behind it, ms"
    row again_first "first call where all is in the cache, ms"
    row again "the call with another size there, ms"
    row shapes "64 sizes in a row, ms in all"
}
table | tee "$tmp/table"
[ -n "$SHORT" ] || [ -z "$PEERS" ] || {
    mkdir -p "$RESULTS"
    file=$RESULTS/$(date -u +%F)-$(cpu_model | slug)-front.md
    cp "$tmp/table" "$file" && say "written to $file"
}
