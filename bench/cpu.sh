#!/bin/bash
# cpu.sh [BUILD]: reprise beside llama.cpp and torch.compile on this CPU, on the same GGUF and with as many threads,
# interleaved, the order turned every round; prints a table and, where everything was measured, writes it to
# bench/results/. README.md says which claim each row stands for.
#
#   ROUNDS=5      rounds of all programs; medians are over rounds
#   THREADS=2     of every program
#   PEERS="llama torch"     which of them (scripts/peers.sh sets them up); empty: none
#   PARTS="decode prefill batch start memory"     what to measure
#   TORCH="bfloat16 float32"          dtypes of the torch peer
#   TORCH_MODES="default max-autotune"    modes of torch.compile
#   TORCH_PYTHON=FILE   a python3 that has torch and gguf, instead of the one that scripts/peers.sh makes
#   SHORT=1       one round of few tokens, to see that it works; nothing is written to bench/results/
#   MODEL=FILE    another GGUF;  RESULTS=FOLDER  another folder
set -u
cd "$(dirname "$0")/.."
B=${1-build}
: "${SHORT:=}" "${ROUNDS:=${SHORT:+1}}" "${ROUNDS:=5}" "${THREADS:=2}" "${PEERS=llama torch}" "${TORCH:=bfloat16 float32}"
: "${TORCH_MODES:=default max-autotune}" "${TORCH_PYTHON:=}"
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
set_up=$PEERS
[ -n "$TORCH_PYTHON" ] && set_up=${PEERS/torch/}
[ -n "${set_up// /}" ] && { peers=$(scripts/peers.sh $set_up) || die "peers are missing (PEERS= measures without them)"; }
python=${TORCH_PYTHON:-$peers/torch/bin/python3}
wants() { case " $PEERS " in *" $1 "*) ;; *) return 1 ;; esac; }
load=$(cut -d' ' -f1 /proc/loadavg)
awk "BEGIN { exit !($load > 1) }" && say "the machine is busy (load $load): these numbers will not be worth keeping"
started=$(date -u '+%Y-%m-%d %H:%M UTC')

# ---- who answers ----------------------------------------------------------------------------------
# With flash attention (fa1) and without (fa0); the table says which is its better one, and that one counts.
llama_bench() { # 0|1 ARGUMENTS: tokens per second
    local fa=$1
    shift
    "$peers/llama/bin/llama-bench" -m "$model" -t "$THREADS" -r "${SHORT:-3}" -fa "$fa" -o jsonl "$@" 2>"$tmp/llama.err" |
        json_number avg_ts
}
llama_batch() { # 0|1
    local fa=off
    [ "$1" = 1 ] && fa=on
    "$peers/llama/bin/llama-batched-bench" -m "$model" -t "$THREADS" -c $((seqs * (batch_context + batch_steps) + 256)) -fa $fa \
        -npp "$batch_context" -ntg "$batch_steps" -npl "$seqs" --output-format jsonl 2>"$tmp/llama.err" | json_number speed_tg
}
torch_peers=
wants torch && for t in $TORCH; do for m in $TORCH_MODES; do torch_peers+=" ${t}_${m//-/_}"; done; done
torch_title() { # NAME of torch_peers, in words
    local mode=${1#*_}
    echo "${1%%_*}, ${mode//_/-}"
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
        say "torch.compile compiles its graphs (minutes)"
        for t in $torch_peers; do
            mode=${t#*_}
            open_peer "$t" "$python" bench/torch_peer.py "$model" "${t%%_*}" "$THREADS" "${mode//_/-}" || continue
            part decode && ask "$t" "decode $context 1" >/dev/null
            part prefill && ask "$t" "prefill $prompt" >/dev/null
            put "compile_$t" "$(ask "$t" compile)"
            ask "$t" compiled >"$tmp/compiled_$t"
        done
    fi
fi

# ---- rounds ---------------------------------------------------------------------------------------
# once PART WHO: one sample. `read` is the read limit; the others are programs.
once() {
    local question
    case $1 in
    decode) question="decode $context $steps" ;;
    prefill) question="prefill $prompt" ;;
    batch) question="batch $seqs $batch_context $batch_steps" ;;
    esac
    case $1:$2 in
    *:read) put read "$("$B/bench/micro/read_limit" "$size" "$THREADS" 20 | cut -d' ' -f1)" ;;
    decode:llama*) put "$1_$2" "$(llama_bench "${2#llama_fa}" -p 0 -n "$steps" -d "$context")" ;;
    prefill:llama*) put "$1_$2" "$(llama_bench "${2#llama_fa}" -p "$prompt" -n 0)" ;;
    batch:llama*) put "$1_$2" "$(llama_batch "${2#llama_fa}")" ;;
    decode:level0) put decode_level0 "$(ask level0 "decode $context 16")" ;;
    decode:run)
        put decode_run "$("$B/reprise" run "$model" --prompt-ids "$(seq -s, 1000 $((999 + context)))" --ignore-eos \
            --max-tokens $((steps + 1)) --threads "$THREADS" --json 2>"$tmp/run.err" | json_number decode_tok_s)"
        ;;
    *) put "$1_$2" "$(ask "$2" "$question")" ;;
    esac
}
# turned N NAME...: the names, beginning with the N-th; backwards in every other round.
turned() {
    local n=$(($1 % ($# - 1))) all
    shift
    all=("${@:n+1}" "${@:1:n}")
    if [ $((round % 2)) = 0 ]; then printf '%s\n' "${all[@]}" | tac; else printf '%s\n' "${all[@]}"; fi
}
llama_peers=
wants llama && llama_peers="llama_fa0 llama_fa1"
for round in $([ -n "$measures" ] && seq "$ROUNDS"); do
    say "round $round of $ROUNDS"
    part decode && for who in $(turned "$round" reprise read $llama_peers read $torch_peers level0 run); do once decode "$who"; done
    part prefill && for who in $(turned "$round" reprise $llama_peers $torch_peers level0); do once prefill "$who"; done
    part batch && for who in $(turned "$round" reprise $llama_peers); do once batch "$who"; done
done
for p in reprise level0 $torch_peers; do close_peer "$p"; done

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
    row "$1_llama_fa0" "$2: llama.cpp, -fa 0" tok/s
    row "$1_llama_fa1" "$2: llama.cpp, -fa 1" tok/s
    for t in $torch_peers; do row "$1_$t" "$2: torch.compile, $(torch_title "$t")" tok/s; done
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
# best NAME...: the one with the greatest median
best() { for n in "$@"; do have "$n" && echo "$(median "$n") $n"; done | sort -g | tail -n 1 | cut -d' ' -f2; }
over() { # PART WHO...: reprise over the best of them
    local part=$1 b
    shift
    b=$(best "${@/#/${part}_}")
    [ -n "$b" ] && quotient "${part}_reprise" "$b"
}
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
        echo "- torch $("$python" -c 'import torch; print(torch.__version__)'), torch.compile with frozen weights, static cache of 512"
        for t in $torch_peers; do
            have "compile_$t" && echo "  - $(torch_title "$t"): $(median "compile_$t") s of compiling: $(cat "$tmp/compiled_$t")"
        done
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
    part decode && wants llama && echo 'Over a peer: over its better form. The floor of decode is either of its two: over llama.cpp, or of the read limit.' && echo
    echo '| claim | measured | floor | goal | |'
    echo '|---|---:|---:|---:|---|'
    claim "decode over llama.cpp" "$(over decode llama_fa0 llama_fa1)" 2.4 3 x
    have decode_reprise && claim "decode of the read limit" "$(calc %.2f "100 * $(median decode_reprise) / $limit")" 70 80 " %"
    claim "prefill over llama.cpp" "$(over prefill llama_fa0 llama_fa1)" 2 "" x
    claim "$seqs sequences over llama.cpp" "$(over batch llama_fa0 llama_fa1)" 2 "" x
    for t in $([ -n "$torch_peers" ] && echo $TORCH); do
        modes=$(for m in $TORCH_MODES; do echo "${t}_${m//-/_}"; done)
        claim "decode over torch.compile $t" "$(over decode $modes)" "" "" x
        claim "prefill over torch.compile $t" "$(over prefill $modes)" "" "" x
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
# A table that is kept has all parts, both peers and each of their forms, measured in this run.
missing=$(lacks {decode,prefill}_{reprise,llama_fa0,llama_fa1,level0} batch_{reprise,llama_fa0,llama_fa1} decode_run \
    {decode,prefill}_{bfloat16,float32}_{default,max_autotune} {cold,warm}_first long_{cold,warm}_peak)
if [ -z "$SHORT" ] && [ -n "$missing" ]; then
    say "not written to $RESULTS, which keeps whole tables; not measured:" $missing
elif [ -z "$SHORT" ]; then
    mkdir -p "$RESULTS"
    file=$RESULTS/$(date -u +%Y-%m-%d)-$(cpu_model | slug).md
    cp "$tmp/table.md" "$file"
    say "written to $file"
fi
