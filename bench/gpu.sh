#!/bin/bash
# gpu.sh [BUILD]: decode steps and prefills of Llama-shaped models in bf16 beside torch.compile on this GPU, interleaved;
# prints tables and writes them to bench/results/. Each result is checked against a slow float32 reference in the same run.
#
#   ROUNDS=7      rounds of both programs, which go first in turns; medians are over rounds
#   STEPS=50      steps in a row of one measurement, 60 at most
#   CASES="1b:1 .. 1b:prefill512"     shape and sequences, or tokens of a prefill
#   CONTEXT=1024  cached positions before the first step
#   ENGINE="1b:1 .."  the cases in which the engine (what `reprise run --device cuda:0` uses) is measured beside both, through bench/engine
#   TOGETHER=8    cases of one shape that are opened at a time: torch compiles for all at once. 8B takes 17 GB a program: 1 for a GPU of 80 GB
#   PEERS=torch   empty: none;  PYTHON=python3  one that has torch
#   SETTINGS=...  of bench/gpu/step, for all cases
#   RESULTS=FOLDER  another folder; empty: nothing is written
set -u
cd "$(dirname "$0")/.."
B=${1-build}
: "${ROUNDS:=7}" "${STEPS:=50}" "${CASES:=1b:1 1b:8 1b:64 135m:1 8b:1 8b:32 1b:prefill2048 1b:prefill512}" "${CONTEXT:=1024}" "${PEERS=torch}" "${PYTHON:=python3}"
: "${ENGINE=1b:1 1b:8 1b:64 135m:1 8b:1 8b:32 1b:prefill2048 1b:prefill512}"
: "${SETTINGS:=}" "${TOGETHER:=8}" "${RESULTS=bench/results}"
. bench/lib.sh
tmp=$(mktemp -d)
samples=$tmp/samples
mkdir -p "$samples"
peer_pids=
trap 'for p in $peer_pids; do kill "$p" 2>/dev/null; done; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

say() { echo "bench: $*" >&2; }
# fact NAME: of the line that the program was ready with
fact() { echo "$ready" | sed -n "s/.*$1=\"\\([^\"]*\\)\".*/\\1/p; s/.*$1=\\([^\" ]*\\).*/\\1/p" | head -n 1; }
wants_engine() { case " $ENGINE " in *" $1 "*) ;; *) return 1 ;; esac; }
wants_torch() { case " $PEERS " in *" torch "*) ;; *) return 1 ;; esac; }

# Says why there is nothing to measure, with the program's own exit code.
"$B/bench/gpu/step" 1b 1 "$CONTEXT" probe=1 </dev/null >/dev/null || exit $?
started=$(date -u '+%Y-%m-%d %H:%M UTC')
failed=
table=$tmp/table prefills=$tmp/prefills
details=$tmp/details engines=$tmp/engines

# The engine's tokens per second as milliseconds of a step, or of a prefill.
ask_engine() { # NAME WHAT STEPS
    local rate n=$2 question="batch $2 $CONTEXT $3"
    [ "$n" = 1 ] && question="decode $CONTEXT $3"
    [ "$n" != "${n#prefill}" ] && n=${n#prefill} question="prefill ${n#prefill}"
    rate=$(ask "$engine" "$question")
    [ -n "$rate" ] && put "$1.engine" "$(calc %.5f "1000 * $n / $rate")"
    [ "$2" = "$n" ] && put "$1.engine_host" "$(ask "$engine" host)"
}
one_round() { # NAME ROUND STEPS WHAT
    local order="ours torch engine"
    [ $(($2 % 2)) = 0 ] && order="engine torch ours"
    for who in $order; do
        [ "$who" = engine ] && opened "$engine" && ask_engine "$1" "$4" "$3"
        [ "$who" = ours ] && put "$1.ours" "$(ask "$ours" "time $3")"
        [ "$who" = torch ] && opened "$torch" && put "$1.torch" "$(ask "$torch" "time $3")"
    done
}

of_torch() { # NAME: median and spread
    have "$1.torch" && echo "$(median "$1.torch") ($(stat "$1.torch" min) - $(stat "$1.torch" max))" || echo -
}
detail() { # SHAPE, WHAT
    echo "- $1, $2: $(fact nodes) kernels, graph built in $(fact build_us) us, NVRTC $(fact compile_ms) ms, torch compiled in $(
        eval "echo \"\${version_$torch-} -\"" | cut -d' ' -f2) s; tiles $(fact tiles)" >>"$details"
}

row() { # NAME SHAPE BATCH
    local ms limit bytes weights
    ms=$(median "$1.ours") bytes=$(fact bytes) weights=$(fact weights)
    limit=$(calc %.0f "$weights / $(median "$1.read") / 1e6")
    echo "| $2 | $3 | $ms ($(stat "$1.ours" min) - $(stat "$1.ours" max)) | $(of_torch "$1") | $(ratio "$1.torch" "$1.ours") | $(
        calc %.0f "$bytes / $ms / 1e6") | $(calc '%.0f %%' "100 * $bytes / $ms / 1e6 / $limit") of $limit | $(fact hidden_error) | $(
        fact ids) | $(fact replays) | $(median "$1.host") |" >>"$table"
    detail "$2" "batch $3"
}

# The engine's own answers beside those of numerics=exact: of 32 tokens of each sequence, or of a prompt's tokens.
row_of_engine() { # NAME SHAPE WHAT
    have "$1.engine" || return
    local said question="check $3 $CONTEXT 32"
    [ "$3" != "${3#prefill}" ] && question="check 1 ${3#prefill} 0"
    said=$(ask "$engine" "$question")
    [ -n "$said" ] || failed=1
    says() { echo "$said" | sed -n "s/.*$1=\([^ ]*\).*/\1/p"; }
    echo "| $2 | ${3#prefill}$([ "$3" != "${3#prefill}" ] && echo " tokens of a prefill") | $(median "$1.engine") ($(stat "$1.engine" min) - $(stat "$1.engine" max)) | $(
        of_torch "$1") | $(ratio "$1.torch" "$1.engine") | $(have "$1.engine_host" && median "$1.engine_host" || echo -) | $(
        says off), $(says mean) | $(says likeliest), $(says gap) | $(says repeats) |" >>"$engines"
}

row_of_prefill() { # NAME SHAPE TOKENS
    local ms
    ms=$(median "$1.ours")
    echo "| $2 | $3 | $ms ($(stat "$1.ours" min) - $(stat "$1.ours" max)) | $(of_torch "$1") | $(ratio "$1.torch" "$1.ours") | $(
        calc %.0f "$(fact flops) / $ms / 1e9") | $(fact hidden_error) | $(fact ids) | $(fact replays) |" >>"$prefills"
    detail "$2" "prefill of $3"
}

# Of a case: its programs' names, and what they are asked.
look_at() {
    local id=${1//[^a-z0-9]/_}
    shape=${1%:*} what=${1#*:} steps=$STEPS arguments="${1%:*} ${1#*:} $CONTEXT"
    [ "$what" != "${what#prefill}" ] && arguments="$shape prefill ${what#prefill}" steps=$((STEPS / 5))
    ours=ours_$id torch=torch_$id engine=engine_$id
}
# shellcheck disable=SC2086
start_case() {
    local model
    look_at "$1"
    say "$shape, $what"
    start_peer "$ours" "$B/bench/gpu/step" $arguments $SETTINGS
    wants_torch && start_peer "$torch" "$PYTHON" bench/gpu/torch_peer.py $arguments
    wants_engine "$1" || return 0
    model=synthetic:llama-$shape,dtype=bf16
    [ "$shape" = 135m ] && model=synthetic:smollm2-135m,dtype=bf16
    REPRISE_CACHE_DIR=$tmp/cache start_peer "$engine" "$B/bench/engine" "$model" device=cuda:0 \
        max_model_len=4096 # 8B has no room for 131072 positions beside the others
}
await_case() {
    look_at "$1"
    await_peer "$ours" || failed=1
    wants_torch && await_peer "$torch"
    wants_engine "$1" && { await_peer "$engine" || failed=1; }
}
measure_case() {
    local round
    look_at "$1"
    opened "$ours" || return
    eval "ready=\$version_$ours"
    for round in $(seq "$ROUNDS"); do one_round "$1" "$round" "$steps" "$what"; done
    row_of_engine "$1" "$shape" "$what"
    if [ "$what" = "${what#prefill}" ]; then
        for _ in 1 2 3; do put "$1.read" "$(ask "$ours" read)"; done
        put "$1.host" "$(ask "$ours" host)"
        row "$1" "$shape" "$what"
    else
        row_of_prefill "$1" "$shape" "${what#prefill}"
    fi
}
close_case() {
    look_at "$1"
    close_peer "$ours"
    close_peer "$torch"
    close_peer "$engine"
}

# Neighbours of one shape.
groups=() shape=
for case in $CASES; do
    if [ "${case%:*}" != "$shape" ] || [ "$n" -ge "$TOGETHER" ]; then groups+=("$case") n=1; else groups[-1]+=" $case" n=$((n + 1)); fi
    shape=${case%:*}
done
for group in "${groups[@]}"; do
    for step in start_case await_case measure_case close_case; do
        for case in $group; do $step "$case"; done
    done
    wait
done
[ -s "$table" ] || [ -s "$prefills" ] || exit 1
gpu=$(fact gpu | tr _ ' ')
report() {
    echo "# Decode steps and prefills on an $gpu (driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1))"
    echo
    echo "$started, \`make bench-gpu\`$([ -n "$SETTINGS" ] && echo " with $SETTINGS"). bf16, embedding to argmax, one graph launch a step; medians of $ROUNDS rounds of $STEPS steps
in a row ($((STEPS / 5)) prefills; smallest - largest), both programs in each round. torch $(echo "${torch_version:-}" | cut -d' ' -f1): torch.compile. Hidden state: norm of the difference from float32 over norm, the worst row (of 8 steps)."
    if [ -s "$table" ]; then
        echo
        echo "Decode: $CONTEXT cached positions, ids handed on by the device. torch: reduce-overhead, static cache of $((CONTEXT + 64)). Read limit: bulk copies of all weights and nothing else, in the same run."
        echo
        echo "| shape | batch | reprise ms | torch ms | torch / reprise | GB/s | share of the read limit | hidden state off by | ids as float32's | replays equal | host us a launch |"
        echo "|---|---|---|---|---|---|---|---|---|---|---|"
        cat "$table"
    fi
    if [ -s "$prefills" ]; then
        echo
        echo "Prefill of one sequence, the head for its last token alone. torch: default mode, is_causal."
        echo
        echo "| shape | tokens | reprise ms | torch ms | torch / reprise | TFLOP/s | hidden state off by | ids as float32's | replays equal |"
        echo "|---|---|---|---|---|---|---|---|---|"
        cat "$prefills"
    fi
    if [ -s "$engines" ]; then
        echo
        echo "The engine as it is (\`reprise run --device cuda:0\`: scheduler, step on the host, sampling included) in the same rounds, same torch. Host: from the"
        echo "moment the host has seen the tokens of a decode step until the launch of the next has returned, block tables and texts included. Right: log probabilities of 32"
        echo "tokens of three sequences, or of a prompt's, off from those of numerics=exact (float32), largest and mean; how many tokens are the likeliest by it, too, and by how"
        echo "much another was at most; sequences that answered the same when asked again."
        echo
        echo "| shape | sequences | engine ms | torch ms | torch / engine | host us a step | log probabilities off by | the likeliest, else by | the same again |"
        echo "|---|---|---|---|---|---|---|---|---|"
        cat "$engines"
    fi
    echo
    cat "$details"
}
torch_version=$($PYTHON -c 'import torch; print(torch.__version__)' 2>/dev/null)
report
if [ -n "$RESULTS" ]; then
    mkdir -p "$RESULTS"
    report >"$RESULTS/$(date -u +%F)-$(echo "$gpu" | slug)-steps.md"
fi
[ -z "$failed" ]
