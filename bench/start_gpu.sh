#!/bin/bash
# start_gpu.sh [BUILD]: how long a start takes on this GPU, of a synthetic model in a file that lies in the page cache; prints a
# table and writes it to bench/results/.
#
#   ROUNDS=7        warm starts of each kind, in turns
#   COLD=3          starts with an empty cache, and as many whose kernels are measured (max_autotune), in turns
#   MODEL=llama-1b,dtype=bf16
#   RESULTS=FOLDER  another folder; empty: nothing is written
set -u
cd "$(dirname "$0")/.." || exit
B=$(realpath "${1-build}")
: "${ROUNDS:=7}" "${COLD:=3}" "${MODEL:=llama-1b,dtype=bf16}" "${RESULTS=bench/results}"
. bench/lib.sh
tmp=$(mktemp -d)
samples=$tmp/samples
mkdir -p "$samples"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
export REPRISE_CACHE_DIR=$tmp/cache
started=$(date -u '+%Y-%m-%d %H:%M UTC')

# start NAME FLAG...: one process; what its summary says becomes samples of NAME.
start() {
    local name=$1 key
    shift
    "$B/reprise" run "$tmp/model.gguf" --device cuda:0 --prompt-ids 1,2,3,4,5,6,7,8 --max-tokens 4 --json "$@" >"$tmp/out" 2>"$tmp/err" || {
        tail -n 1 "$tmp/err" >&2
        return 1
    }
    tail -n 1 "$tmp/out" >"$tmp/summary"
    for key in compiles wall_to_first_token_ms device_ms compile_ms pack_ms weights_ms runner_ms capture_ms captures graphs weights peak_rss_bytes; do
        json_number $key <"$tmp/summary" | grep -vx 0.0 >>"$samples/$name.$key"
    done
}
# ms NAME WHAT: a row of a time; number NAME WHAT: of a count
ms() { have "$1" && echo "| $2 | $(calc %.0f "$(median "$1")") ms | $(calc %.0f "$(stat "$1" min)") - $(calc %.0f "$(stat "$1" max)") | $(stat "$1" n) |"; }
number() { have "$1" && echo "| $2 | $(median "$1") | | $(stat "$1" n) |"; }
graphs() { # NAME WHAT: how many, how long, how large each
    have "$1.capture_ms" && ms "$1.capture_ms" "$2: $(median "$1.captures") graphs ready, $(calc %.2f "$(median "$1.graphs") / $(median "$1.captures") / 1e6") MB each"
}

"$B/reprise" synth "$MODEL" --out "$tmp/model.gguf" --quiet || exit $?
cat "$tmp/model.gguf" >/dev/null # into the page cache
full36=(--max-num-seqs 36 -cc.cudagraph_mode=FULL_DECODE_ONLY --cudagraph-capture-sizes all)
full256=(--max-num-seqs 256 -cc.cudagraph_mode=FULL_DECODE_ONLY --cudagraph-capture-sizes all)
pieces=(-cc.cudagraph_mode=PIECEWISE)
tuned=(-cc.inductor_compile_config='{"max_autotune":true}')
for _ in $(seq "$COLD"); do
    rm -rf "$REPRISE_CACHE_DIR"
    start tuned "${tuned[@]}" || exit $?
    start tuned.warm "${tuned[@]}"
    rm -rf "$REPRISE_CACHE_DIR"
    start cold || exit $?
done
for round in $(seq 0 "$ROUNDS"); do # the first packs and compiles what others do not have yet
    name=warm
    [ "$round" = 0 ] && name=first
    start $name
    start $name.full36 "${full36[@]}"
    start $name.full256 "${full256[@]}"
    start $name.pieces "${pieces[@]}"
done
report() {
    echo "# Starts on a $("$B/reprise" doctor | sed -n 's/^ok *gpu *//p')"
    echo
    echo "$started, \`bench/start_gpu.sh\`. synthetic $MODEL, $(wc -c <"$tmp/model.gguf") bytes in the page cache; medians, smallest - largest."
    echo
    echo "| what | median | spread | starts |"
    echo "|---|---:|---:|---:|"
    ms cold.wall_to_first_token_ms "first ever start (traces, compiles, packs) to its first token"
    ms cold.compile_ms "of it: compiling"
    ms cold.pack_ms "of it: packing"
    ms tuned.wall_to_first_token_ms "the same where each kernel is measured (\`max_autotune\`)"
    ms tuned.compile_ms "of it: compiling and measuring"
    ms tuned.warm.wall_to_first_token_ms "the next start with it: $(median tuned.warm.compiles 2>/dev/null || echo 0) compiles"
    ms warm.wall_to_first_token_ms "warm start of the process to its first token"
    ms warm.device_ms "of it: opening the GPU"
    ms warm.weights_ms "of it: weights, $(calc %.1f "$(median warm.weights) / $(median warm.weights_ms) / 1e6") GB/s, every byte checked"
    ms warm.runner_ms "of it: memory and code"
    graphs warm "of it: the default ladder"
    graphs warm.pieces "PIECEWISE, default ladder"
    graphs warm.full36 "FULL decode graphs of 1 to 36 sequences"
    graphs warm.full256 "FULL decode graphs of 1 to 256 sequences"
    number warm.peak_rss_bytes "resident at most, bytes"
}
report
if [ -n "$RESULTS" ]; then
    mkdir -p "$RESULTS"
    gpu=$("$B/reprise" doctor | sed -n 's/^ok *gpu *\([^:]*\):.*/\1/p')
    report >"$RESULTS/$(date -u +%F)-$(echo "$gpu" | slug)-starts.md"
fi
