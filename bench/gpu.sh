#!/bin/bash
# gpu.sh [BUILD]: one decode step of a Llama-shaped model in bf16 beside torch.compile (reduce-overhead) on this GPU, interleaved;
# prints a table and writes it to bench/results/. Each result is checked against a slow float32 reference in the same run.
#
#   ROUNDS=7      rounds of both programs, which go first in turns; medians are over rounds
#   STEPS=50      steps in a row of one measurement, 60 at most
#   CASES="1b:1 1b:8 135m:1 8b:1"     shape and sequences
#   CONTEXT=1024  cached positions before the first step
#   PEERS=torch   empty: none;  PYTHON=python3  one that has torch
#   SETTINGS=...  of bench/gpu/decode, for all cases
#   RESULTS=FOLDER  another folder; empty: nothing is written
set -u
cd "$(dirname "$0")/.."
B=${1-build}
: "${ROUNDS:=7}" "${STEPS:=50}" "${CASES:=1b:1 1b:8 135m:1 8b:1}" "${CONTEXT:=1024}" "${PEERS=torch}" "${PYTHON:=python3}"
: "${SETTINGS:=}" "${RESULTS=bench/results}"
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
wants_torch() { case " $PEERS " in *" torch "*) ;; *) return 1 ;; esac; }

# Says why there is nothing to measure, with the program's own exit code.
"$B/bench/gpu/decode" 1b 1 "$CONTEXT" probe=1 </dev/null >/dev/null || exit $?
started=$(date -u '+%Y-%m-%d %H:%M UTC')
failed= n=0
table=$tmp/table
details=$tmp/details

one_round() { # NAME ROUND
    local order="ours torch"
    [ $(($2 % 2)) = 0 ] && order="torch ours"
    for who in $order; do
        [ "$who" = ours ] && put "$1.ours" "$(ask "$ours" "time $STEPS")"
        [ "$who" = torch ] && opened "$torch" && put "$1.torch" "$(ask "$torch" "time $STEPS")"
    done
}

row() { # NAME SHAPE BATCH
    local ms limit bytes weights
    ms=$(median "$1.ours") bytes=$(fact bytes) weights=$(fact weights)
    limit=$(calc %.0f "$weights / $(median "$1.read") / 1e6")
    echo "| $2 | $3 | $ms ($(stat "$1.ours" min) - $(stat "$1.ours" max)) | $(have "$1.torch" &&
        echo "$(median "$1.torch") ($(stat "$1.torch" min) - $(stat "$1.torch" max))" || echo -) | $(ratio "$1.torch" "$1.ours") | $(
        calc %.0f "$bytes / $ms / 1e6") | $(calc '%.0f %%' "100 * $bytes / $ms / 1e6 / $limit") of $limit | $(fact hidden_error) | $(
        fact ids) | $(fact replays) | $(median "$1.host") |" >>"$table"
    echo "- $2, batch $3: $(fact nodes) kernels, graph built in $(fact build_us) us, NVRTC $(fact compile_ms) ms, torch compiled in $(
        eval "echo \"\${version_$torch-} -\"" | cut -d' ' -f2) s; tiles (rows, blocks, warps, pairs a copy, copies, units a barrier) $(fact tiles)" >>"$details"
}

for case in $CASES; do
    shape=${case%:*} batch=${case#*:}
    say "$shape, batch $batch"
    # shellcheck disable=SC2086
    n=$((n + 1)) ours=ours$n torch=torch$n
    if ! open_peer "$ours" "$B/bench/gpu/decode" "$shape" "$batch" "$CONTEXT" $SETTINGS; then
        failed=1
        continue
    fi
    eval "ready=\$version_$ours"
    wants_torch && open_peer "$torch" "$PYTHON" bench/gpu/torch_peer.py "$shape" "$batch" "$CONTEXT"
    for round in $(seq "$ROUNDS"); do one_round "$case" "$round"; done
    for _ in 1 2 3; do put "$case.read" "$(ask "$ours" read)"; done
    put "$case.host" "$(ask "$ours" host)"
    row "$case" "$shape" "$batch"
    close_peer "$ours"
    close_peer "$torch"
    wait
done
[ -s "$table" ] || exit 1
gpu=$(fact gpu | tr _ ' ')
report() {
    echo "# A decode step on an $gpu (driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1))"
    echo
    echo "$started, \`make bench-gpu\`$([ -n "$SETTINGS" ] && echo " with $SETTINGS"). bf16, $CONTEXT cached positions, embedding to argmax, one graph launch a step, ids handed on by the device;
medians of $ROUNDS rounds of $STEPS steps in a row (smallest - largest), both programs in each round. torch $(echo "${torch_version:-}" | cut -d' ' -f1): reduce-overhead, static cache of $((CONTEXT + 64)).
Read limit: bulk copies of all weights and nothing else, in the same run. Hidden state: norm of the difference from float32 over norm, worst of 8 steps."
    echo
    echo "| shape | batch | reprise ms | torch ms | torch / reprise | GB/s | share of the read limit | hidden state off by | ids as float32's | replays equal | host us a launch |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|"
    cat "$table"
    echo
    cat "$details"
}
torch_version=$($PYTHON -c 'import torch; print(torch.__version__)' 2>/dev/null)
report
if [ -n "$RESULTS" ]; then
    mkdir -p "$RESULTS"
    report >"$RESULTS/$(date -u +%F)-$(echo "$gpu" | slug)-decode-step.md"
fi
[ -z "$failed" ]
