#!/bin/bash
# cpu.sh [BUILD]: reprise beside llama.cpp and torch.compile on this CPU, on the same GGUF and with as many threads,
# interleaved; prints a table and writes it to bench/results/. README.md says which claim each row stands for.
#
#   ROUNDS=5      rounds of all programs; medians are over rounds
#   THREADS=2     of every program
#   PEERS="llama torch"     which of them (scripts/peers.sh sets them up); empty: none
#   PARTS="decode prefill batch start memory"     what to measure
#   TORCH="bfloat16 float32"    dtypes of the torch peer
#   SHORT=1       one round of few tokens, to see that it works; nothing is written to bench/results/
#   MODEL=FILE    another GGUF;  RESULTS=FOLDER  another folder
set -u
cd "$(dirname "$0")/.."
B=${1-build}
: "${SHORT:=}" "${ROUNDS:=${SHORT:+1}}" "${ROUNDS:=5}" "${THREADS:=2}" "${PEERS=llama torch}" "${TORCH:=bfloat16 float32}"
: "${PARTS:=decode prefill batch start memory}" "${RESULTS:=bench/results}"
. bench/lib.sh
# Lengths: decode steps after a context, prefill, sequences of a batch and their context and steps, long context.
context=128 steps=128 prompt=480 seqs=16 batch_context=128 batch_steps=64 long=2048
[ -n "$SHORT" ] && steps=16 batch_steps=8 long=512
tmp=$(mktemp -d)
samples=$tmp/samples
mkdir -p "$samples" "$B/bench/micro"
peer_pids=
trap 'for p in $peer_pids; do kill "$p" 2>/dev/null; done; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

part() { case " $PARTS " in *" $1 "*) ;; *) return 1 ;; esac; }
say() { echo "bench: $*" >&2; }
die() { say "$*"; exit 1; }

model=${MODEL:-$(scripts/fetch-model.sh)} || die "no model"
size=$(wc -c <"$model")
for m in read_limit start; do
    ${CC:-gcc} -std=gnu11 -O2 -pthread "bench/micro/$m.c" -o "$B/bench/micro/$m" || die "bench/micro/$m.c does not compile"
done
peers=
[ -n "$PEERS" ] && { peers=$(scripts/peers.sh $PEERS) || die "peers are missing (PEERS= measures without them)"; }
wants() { case " $PEERS " in *" $1 "*) ;; *) return 1 ;; esac; }
load=$(cut -d' ' -f1 /proc/loadavg)
awk "BEGIN { exit !($load > 1) }" && say "the machine is busy (load $load): these numbers will not be worth keeping"
started=$(date -u '+%Y-%m-%d %H:%M UTC')

# ---- who answers ----------------------------------------------------------------------------------
llama_bench() { # ARGUMENTS: tokens per second
    "$peers/llama/bin/llama-bench" -m "$model" -t "$THREADS" -r 1 -o jsonl "$@" 2>"$tmp/llama.err" | json_number avg_ts
}
llama_batch() {
    "$peers/llama/bin/llama-batched-bench" -m "$model" -t "$THREADS" -c $((seqs * (batch_context + batch_steps) + 256)) \
        -npp "$batch_context" -ntg "$batch_steps" -npl "$seqs" --output-format jsonl 2>"$tmp/llama.err" | json_number speed_tg
}
REPRISE_CACHE_DIR=$tmp/cache
export REPRISE_CACHE_DIR
measures=
part decode || part prefill || part batch && measures=1
if [ -n "$measures" ]; then
    open_peer reprise "$B/bench/engine" "$model" threads="$THREADS" || die "the engine is needed"
    part decode || part prefill && open_peer level0 "$B/bench/engine" "$model" threads="$THREADS" level=0
    if wants torch && { part decode || part prefill; }; then
        export TORCHINDUCTOR_CACHE_DIR=$tmp/inductor
        for t in $TORCH; do open_peer "$t" "$peers/torch/bin/python3" bench/torch_peer.py "$model" "$t" "$THREADS"; done
        say "torch.compile compiles its graphs (minutes)"
        for t in $TORCH; do
            ask "$t" "decode $context 1" >/dev/null
            ask "$t" "prefill $prompt" >/dev/null
            put "compile_$t" "$(ask "$t" compile)"
        done
    fi
fi

# ---- rounds ---------------------------------------------------------------------------------------
read_limit() { put read "$("$B/bench/micro/read_limit" "$size" "$THREADS" 20 | cut -d' ' -f1)"; }
for round in $([ -n "$measures" ] && seq "$ROUNDS"); do
    say "round $round of $ROUNDS"
    if part decode; then
        read_limit
        put decode_reprise "$(ask reprise "decode $context $steps")"
        wants llama && put decode_llama "$(llama_bench -p 0 -n "$steps" -d "$context")"
        read_limit
        if wants torch; then for t in $TORCH; do put "decode_$t" "$(ask "$t" "decode $context $steps")"; done; fi
        put decode_level0 "$(ask level0 "decode $context 16")"
        put decode_run "$("$B/reprise" run "$model" --prompt-ids "$(seq -s, 1000 $((999 + context)))" --ignore-eos \
            --max-tokens $((steps + 1)) --threads "$THREADS" --json 2>"$tmp/run.err" | json_number decode_tok_s)"
    fi
    if part prefill; then
        put prefill_reprise "$(ask reprise "prefill $prompt")"
        wants llama && put prefill_llama "$(llama_bench -p "$prompt" -n 0)"
        if wants torch; then for t in $TORCH; do put "prefill_$t" "$(ask "$t" "prefill $prompt")"; done; fi
        put prefill_level0 "$(ask level0 "prefill $prompt")"
    fi
    if part batch; then
        put batch_reprise "$(ask reprise "batch $seqs $batch_context $batch_steps")"
        wants llama && put batch_llama "$(llama_batch)"
    fi
done
for p in reprise level0 $TORCH; do close_peer "$p"; done

# ---- start-up and memory: whole processes, seen from outside ----------------------------------------
# observe NAME ARGUMENTS...: samples NAME_first, NAME_exit (ms), NAME_peak (bytes)
observe() {
    local name=$1 first end peak code
    shift
    read -r first end peak code < <("$B/bench/micro/start" "$B/reprise" run "$model" --threads "$THREADS" --quiet "$@" 2>"$tmp/run.err")
    [ "${code:-1}" = 0 ] || { say "$name: exit ${code-}: $(tail -n 1 "$tmp/run.err")"; return; }
    put "${name}_first" "$first"
    put "${name}_exit" "$end"
    put "${name}_peak" "$peak"
}
if part start; then
    for round in $(seq "$ROUNDS"); do
        REPRISE_CACHE_DIR=$tmp/cold.$round
        observe cold "What is the sea?" --max-tokens 1
        observe warm "What is the sea?" --max-tokens 1
        put warm_inside "$("$B/reprise" run "$model" --threads "$THREADS" --json "What is the sea?" --max-tokens 1 \
            2>"$tmp/run.err" | json_number wall_to_first_token_ms)"
        rm -rf "$tmp/cold.$round"
    done
fi
if part memory; then
    REPRISE_CACHE_DIR=$tmp/memory
    ids=$(seq -s, 1000 $((999 + long - 32)))
    observe long_cold --prompt-ids "$ids" --max-tokens 32 --ignore-eos
    observe long_warm --prompt-ids "$ids" --max-tokens 32 --ignore-eos
fi

# ---- table ------------------------------------------------------------------------------------------
row() { # SAMPLES WHAT UNIT
    have "$1" || return 0
    printf '| %s | %s | %.4g | %.4g - %.4g | %s |\n' "$2" "$3" "$(median "$1")" "$(stat "$1" min)" "$(stat "$1" max)" "$(stat "$1" n)"
}
rates() { # PART TITLE
    row "$1_reprise" "$2: reprise, level 3" tok/s
    row "$1_llama" "$2: llama.cpp" tok/s
    for t in $TORCH; do row "$1_$t" "$2: torch.compile, $t" tok/s; done
    row "$1_level0" "$2: reprise, level 0${3-}" tok/s
}
# claim WHAT VALUE FLOOR GOAL UNIT [less]: whether it is reached, in words
claim() {
    case $2 in '' | - | *nan*) return 0 ;; esac
    awk -v what="$1" -v v="$2" -v lo="$3" -v hi="$4" -v unit="$5" -v less="${6-}" 'BEGIN {
        floor = lo == "" || (less ? v <= lo : v >= lo)
        goal = hi != "" && (less ? v <= hi : v >= hi)
        word = lo == "" ? "" : goal ? "goal reached" : floor ? (hi == "" ? "floor reached" : "floor reached, goal not") : "below the floor"
        if (less && !floor) word = "over the floor"
        printf "| %s | %.4g%s | %s | %s | %s |\n", what, v, unit, lo == "" ? "-" : lo unit, hi == "" ? "-" : hi unit, word
    }'
}
quotient() { have "$1" && have "$2" && calc %.4f "$(median "$1") / $(median "$2")"; }
limit=$(have read && calc %.2f "$(median read) * 1e9 / $size")
table() {
    echo "# reprise on $(cpu_model)"
    echo
    echo "$started, \`make bench-cpu\`, $THREADS threads, $ROUNDS round(s), load average before: $load"
    echo
    echo "- CPU: $(cpu_model), $(nproc) cores granted, flags $(cpu_flags)"
    echo "- model: $(basename "$model"), $size bytes"
    echo "- reprise $("$B/reprise" --version 2>/dev/null | sed 's/^reprise //'), $(git describe --always --dirty 2>/dev/null || echo "no revision")"
    if wants llama; then
        echo "- llama.cpp of llama-cpp-python $(cat "$peers/llama/version"), built with" \
            "$(sed -n 's/^-DGGML_\(.*\)=ON$/\1/p' "$peers/llama/flags" | tr '\n' ' ')"
    fi
    if wants torch; then
        echo "- torch $(cat "$peers/torch/version"), torch.compile with frozen weights, static cache of 512"
        for t in $TORCH; do have "compile_$t" && echo "  - $t: $(median "compile_$t") s of compiling"; done
    fi
    [ -n "$limit" ] && echo "- read limit: $(median read) GB/s over $size bytes with $THREADS threads" \
        "($(stat read min) - $(stat read max), $(stat read n) times), which is $limit passes a second"
    echo
    echo '| what | unit | median | spread | rounds |'
    echo '|---|---|---:|---:|---:|'
    part decode && rates decode "decode, $steps steps from context $context" " (16 steps)"
    row decode_run "decode: \`reprise run\`, its own summary" tok/s
    part prefill && rates prefill "prefill of $prompt"
    part batch && rates batch "$seqs sequences, $batch_steps steps from context $batch_context"
    row cold_exit "first ever run, to its end" ms
    row cold_first "first ever run, to its first byte" ms
    row warm_exit "warm run, to its end" ms
    row warm_first "warm run, to its first byte" ms
    row warm_inside "warm run, to the first token by its own clock" ms
    row long_cold_peak "VmHWM with $long tokens in the KV cache, cold" bytes
    row long_warm_peak "VmHWM with $long tokens in the KV cache, warm" bytes
    echo
    part decode && wants llama && echo 'The floor of decode is either of its two: over llama.cpp, or of the read limit.' && echo
    echo '| claim | measured | floor | goal | |'
    echo '|---|---:|---:|---:|---|'
    claim "decode over llama.cpp" "$(quotient decode_reprise decode_llama)" 2.4 3 x
    have decode_reprise && claim "decode of the read limit" "$(calc %.2f "100 * $(median decode_reprise) / $limit")" 70 80 " %"
    claim "prefill over llama.cpp" "$(quotient prefill_reprise prefill_llama)" 2 "" x
    claim "$seqs sequences over llama.cpp" "$(quotient batch_reprise batch_llama)" 2 "" x
    for t in $TORCH; do
        claim "decode over torch.compile $t" "$(quotient decode_reprise "decode_$t")" "" "" x
        claim "prefill over torch.compile $t" "$(quotient prefill_reprise "prefill_$t")" "" "" x
    done
    claim "decode, level 3 over level 0" "$(quotient decode_reprise decode_level0)" "" "" x
    claim "prefill, level 3 over level 0" "$(quotient prefill_reprise prefill_level0)" "" "" x
    have warm_first && claim "warm start to first token" "$(median warm_first)" 300 200 " ms" less
    have cold_exit && claim "first ever compile, cold minus warm" "$(calc %.1f "$(median cold_exit) - $(median warm_exit)")" 2000 1500 " ms" less
    for t in cold warm; do
        have "long_${t}_peak" && claim "VmHWM over the file, $t" \
            "$(calc %.1f "($(median "long_${t}_peak") - $size) / 1e6")" 150 "" " MB" less
    done
}
table >"$tmp/table.md"
cat "$tmp/table.md"
if [ -z "$SHORT" ]; then
    mkdir -p "$RESULTS"
    file=$RESULTS/$(date -u +%Y-%m-%d)-$(cpu_model | slug).md
    cp "$tmp/table.md" "$file"
    say "written to $file"
fi
