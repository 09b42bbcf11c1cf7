#!/bin/bash
# ops.sh [BUILD]: the functions of ops/cases.list in float32, by reprise and by torch.compile (Inductor) in turns; prints a
# table and, where all of it was measured, writes it to bench/results/. Every result is compared with torch's in the same run.
#
#   ROUNDS=7      rounds of all programs; medians are over rounds
#   THREADS=2     of both programs; a second pair runs with one, for the gain of the others
#   GAIN=1        empty: without that pair
#   DEVICE=cuda:0 there, in float32 on both sides (no TF32), each a captured graph; no second pair, no floors
#   OPS=.         cases whose name matches (grep -E)
#   WINDOW=100    milliseconds of one measurement, three runs at least
#   PEERS=torch   empty: reprise alone; "torch openvino onnxrt": OpenVINO and ONNX Runtime behind our backends, too, in a table
#                 of their own (REPRISE_OPENVINO and REPRISE_ONNXRUNTIME name their libraries; else scripts/peers.sh gets them)
#   TORCH_MODE=default      of torch.compile
#   TORCH_FREEZING=1        weights are constants that Inductor may pack, as reprise packs them
#   TORCH_PYTHON=FILE       a python3 that has torch, instead of the one that scripts/peers.sh makes
#   SETTINGS=...  of reprise (KEY=VALUE ...)
#   SHORT=1       one short round; nothing is written to bench/results/
#   RESULTS=FOLDER          another folder
set -u
cd "$(dirname "$0")/.."
B=${1-build}
: "${SHORT:=}" "${ROUNDS:=${SHORT:+1}}" "${ROUNDS:=7}" "${THREADS:=2}" "${PEERS=torch}" "${OPS:=.}" "${GAIN=1}" "${SETTINGS:=}"
: "${WINDOW:=${SHORT:+1}}" "${WINDOW:=100}" "${TORCH_MODE:=default}" "${TORCH_FREEZING:=1}" "${TORCH_PYTHON:=}"
: "${RESULTS:=bench/results}"
: "${DEVICE:=cpu}"
[ "$THREADS" = 1 ] || [ "$DEVICE" != cpu ] && GAIN=
. bench/lib.sh
list=bench/ops/cases.list
tmp=$(mktemp -d)
samples=$tmp/samples
mkdir -p "$samples"
peer_pids=
trap 'for p in $peer_pids; do kill "$p" 2>/dev/null; done; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

say() { echo "bench: $*" >&2; }
die() { say "$*"; exit 1; }
wants() { case " $PEERS " in *" $1 "*) ;; *) return 1 ;; esac; }
wants_torch() { wants torch; }
# library PEER VARIABLE: where its C library is, as the environment or scripts/peers.sh has it
library() {
    [ -n "${!2-}" ] || export "$2=$(scripts/peers.sh "$1" 2>&1 | sed -n "s/^peers: export $2=//p" | tail -n 1)"
    [ -n "${!2}" ]
}
# cases: "name | title" of those that are measured
cases() { grep -v '^#' "$list" | awk -F ' *[|] *' -v ops="$OPS" '$1 ~ ops { print $1 "|" $2 }'; }
[ -n "$(cases)" ] || die "no case of $list matches OPS=$OPS"

python=$TORCH_PYTHON
if wants_torch && [ -z "$python" ]; then
    python=$(scripts/peers.sh torch)/torch/bin/python3 || die "torch is missing (PEERS= measures without it)"
fi
load=$(cut -d' ' -f1 /proc/loadavg)
awk "BEGIN { exit !($load > 1) }" && say "the machine is busy (load $load): ratios count, times do not"
started=$(date -u '+%Y-%m-%d %H:%M UTC')

# ours and torch with all threads, ours1 and torch1 with one. Caches of their own, so that each compiles.
who=
start() { # NAME COMMAND...
    export REPRISE_CACHE_DIR=$tmp/cache.$1 TORCHINDUCTOR_CACHE_DIR=$tmp/inductor.$1
    open_peer "$@" && who+=" $1"
}
# shellcheck disable=SC2086
if [ "$DEVICE" = cpu ]; then
    start ours "$B/bench/ops/ops" "$list" "threads=$THREADS" $SETTINGS || exit 1
else
    start ours "$B/bench/ops/ops" "$list" --device "$DEVICE" $SETTINGS || exit 1
fi
wants_torch && start torch "$python" bench/ops/torch_peer.py "$list" "$THREADS" "$TORCH_FREEZING" "$TORCH_MODE" "$DEVICE"
behind= # compilers of others behind our backends
for pair in openvino:REPRISE_OPENVINO onnxrt:REPRISE_ONNXRUNTIME; do
    peer=${pair%:*}
    wants "$peer" || continue
    library "$peer" "${pair#*:}" || { say "$peer: no library"; continue; }
    start "$peer" "$B/bench/ops/ops" "$list" "threads=$THREADS" level=2 "backend=$peer" && behind+=" $peer"
done
if [ -n "$GAIN" ]; then
    # shellcheck disable=SC2086
    start ours1 "$B/bench/ops/ops" "$list" threads=1 $SETTINGS
    wants_torch && start torch1 "$python" bench/ops/torch_peer.py "$list" 1 "$TORCH_FREEZING" "$TORCH_MODE"
fi
# turned ROUND NAME...: the names, beginning with the ROUND-th
turned() {
    local n=$(($1 % ($# - 1)))
    shift
    echo "${@:n+1}" "${@:1:n}"
}

# ---- one case after the other ---------------------------------------------------------------------
: >"$tmp/rows" >"$tmp/missing" >"$tmp/ratios" >"$tmp/slow_threads" >"$tmp/behind" >"$tmp/not_taken"
missing() { echo "$1: $2" >>"$tmp/missing"; }
# compile NAME CASE: opens it; a number in compile_NAME.CASE, or the reason
compile() {
    local answer
    answer=$(ask "$1" "open $2")
    case $answer in
    compiled*) put "compile_$1.$2" "${answer#compiled }" ;;
    *) echo "${answer#missing }" >"$tmp/why.$1.$2"; return 1 ;;
    esac
}
declare -A off_of # results of those behind our backends, from torch's
same= # results of one thread and of all are the same bytes
compare() { # CASE
    local p
    ask ours "dump $tmp/out" >/dev/null
    off=- same=-
    opened torch && have "compile_torch.$1" && off=$(ask torch "check $tmp/out")
    off=${off#off }
    if opened ours1 && have "compile_ours1.$1"; then
        ask ours1 "dump $tmp/out1" >/dev/null
        same=yes
        cmp -s "$tmp/out" "$tmp/out1" || same=NO
    fi
    for p in $behind; do
        off_of[$p]=-
        have "compile_$p.$1" || continue
        ask "$p" "dump $tmp/out" >/dev/null
        opened torch && have "compile_torch.$1" && off_of[$p]=$(ask torch "check $tmp/out")
        off_of[$p]=${off_of[$p]#off }
    done
    rm -f "$tmp/out" "$tmp/out1"
}
bad=
measure_case() { # CASE TITLE
    local p round ready=
    for p in $who; do compile "$p" "$1" && ready+=" $p"; done
    case " $ready " in
    *" ours "*) ;;
    *)
        missing "$2" "$(cat "$tmp/why.ours.$1")"
        echo "| $2 | missing | | | | | | | |" >>"$tmp/rows"
        for p in $ready; do ask "$p" close >/dev/null; done
        return
        ;;
    esac
    compare "$1"
    for round in $(seq "$ROUNDS"); do
        for p in $(turned "$round" $ready); do put "$p.$1" "$(ask "$p" "time $WINDOW")"; done
    done
    for p in $ready; do ask "$p" close >/dev/null; done
    table_row "$1" "$2"
    [ -z "$behind" ] || behind_row "$1" "$2"
}
spread() { have "$1" && printf '%.4g (%.4g - %.4g)' "$(median "$1")" "$(stat "$1" min)" "$(stat "$1" max)" || printf -; }
quotient() { have "$1" && have "$2" && calc %.3f "$(median "$1") / $(median "$2")"; }
judge() { # WHAT OFF
    case $2 in - | [0-9]*e-0[4-9] | [0-9]*e-[1-9][0-9] | 0.0e+00) ;; *) bad+="$1: off by $2"$'\n' ;; esac
}
table_row() { # CASE TITLE
    local r g gt
    r=$(quotient "torch.$1" "ours.$1") g=$(quotient "ours1.$1" "ours.$1") gt=$(quotient "torch1.$1" "torch.$1")
    [ -n "$r" ] && echo "$r $2" >>"$tmp/ratios"
    [ -n "$g" ] && [ -n "$gt" ] && awk "BEGIN { exit !($gt >= 1.5 && $g < 1.5) }" && echo "$2 ($g, torch $gt)" >>"$tmp/slow_threads"
    judge "$2" "$off"
    [ "$same" = NO ] && bad+="$2: one thread gives other bits"$'\n'
    echo "| $2 | $(spread "ours.$1") | $(spread "torch.$1") | ${r:--} | ${g:--} | ${gt:--} | $off | $(
        have "compile_ours.$1" && calc %.2f "$(median "compile_ours.$1")") | $(
        have "compile_torch.$1" && calc %.2f "$(median "compile_torch.$1")") |" >>"$tmp/rows"
}
behind_row() { # CASE TITLE
    local p row="| $2 | $(spread "ours.$1")"
    for p in $behind; do
        row+=" | $(spread "$p.$1") | $(quotient "$p.$1" "ours.$1" | grep . || echo -) | ${off_of[$p]} | $(
            have "compile_$p.$1" && calc %.2f "$(median "compile_$p.$1")")"
        judge "$2 by $p" "${off_of[$p]}"
        have "$p.$1" || echo "$2, $p: $(cat "$tmp/why.$p.$1")" >>"$tmp/not_taken"
    done
    echo "$row |" >>"$tmp/behind"
}
while IFS='|' read -r name title; do
    say "$title"
    measure_case "$name" "$title"
done < <(cases)

# ---- table ------------------------------------------------------------------------------------------
total() { cat "$samples"/"$1".* 2>/dev/null | awk '{ s += $1 } END { printf "%.4f", s }'; }
claim() { # WHAT VALUE FLOOR GOAL
    awk -v what="$1" -v v="$2" -v lo="$3" -v hi="$4" 'BEGIN {
        word = hi != "" && v >= hi ? "goal reached" : v < lo ? "below the floor" : hi == "" ? "floor reached" : "floor reached, goal not"
        printf "| %s | %.3g x | %s x | %s | %s |\n", what, v, lo, hi == "" ? "-" : hi " x", word
    }'
}
behind_table() {
    local p head="| case | reprise" rule="|---|---:"
    for p in $behind; do
        head+=" | $p | $p / reprise | off | compile s"
        rule+="|---:|---:|---:|---:"
    done
    echo "Behind our backends (docs/backends.md). There weights are inputs, which a library cannot pack ahead; reprise's are those of the table above:"
    echo
    echo "$head |"
    echo "$rule|"
    cat "$tmp/behind"
    echo
    [ -s "$tmp/not_taken" ] || return 0
    echo "Not taken:"
    echo
    sed 's/^/- /' "$tmp/not_taken"
    echo
}
# machine: what computes
machine() {
    if [ "$DEVICE" = cpu ]; then cpu_model; else nvidia-smi -i "${DEVICE#*:}" --query-gpu=name --format=csv,noheader; fi
}
table() {
    echo "# Functions of others on $(machine)"
    echo
    if [ "$DEVICE" = cpu ]; then
        echo "$started, \`make bench-ops\`, $THREADS threads, $ROUNDS round(s) of $WINDOW ms each, load average before: $load"
        echo
        echo "- CPU: $(cpu_model), $(nproc) cores granted, flags $(cpu_flags)"
    else
        echo "$started, \`DEVICE=$DEVICE bench/ops.sh build\`, $ROUNDS round(s) of $WINDOW ms each, of replays of a captured graph on both sides"
        echo
        echo "- driver $(nvidia-smi -i "${DEVICE#*:}" --query-gpu=driver_version --format=csv,noheader)"
    fi
    echo "- reprise $("$B/reprise" --version 2>/dev/null | sed 's/^reprise //'), $(git describe --always --dirty 2>/dev/null || echo "no revision")${SETTINGS:+, $SETTINGS}"
    # shellcheck disable=SC2154
    opened torch && echo "- torch $version_torch, torch.compile, mode $TORCH_MODE, freezing $TORCH_FREEZING"
    echo
    echo "Microseconds, median (smallest - largest) over rounds. Off: largest difference from torch's result over the largest result."
    echo
    echo "| case | reprise | torch | torch / reprise | gain of threads | torch's | off | compile s | torch's |"
    echo "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    cat "$tmp/rows"
    echo
    if [ -s "$tmp/missing" ]; then
        echo "Missing:"
        echo
        sed 's/^/- /' "$tmp/missing"
        echo
    fi
    [ -z "$behind" ] || behind_table
    [ -s "$tmp/ratios" ] || return 0
    if [ "$DEVICE" != cpu ]; then
        echo "Geometric mean over $(wc -l <"$tmp/ratios") cases: $(awk '{ s += log($1) } END { printf "%.2f", exp(s / NR) }' "$tmp/ratios") times torch.compile's speed."
        return 0
    fi
    echo "| claim | measured | floor | goal | |"
    echo "|---|---:|---:|---:|---|"
    claim "geometric mean over $(wc -l <"$tmp/ratios") cases" \
        "$(awk '{ s += log($1) } END { printf "%.4f", exp(s / NR) }' "$tmp/ratios")" 1.2 1.6
    sort -g "$tmp/ratios" | head -n 1 | while read -r r what; do claim "worst: $what" "$r" 0.7 1; done
    claim "compiling, all of it ($(calc %.1f "$(total compile_torch)") s by torch)" "$(calc %.4f "$(total compile_torch) / $(total compile_ours)")" 20 ""
    echo "| cases missing | $(wc -l <"$tmp/missing") | 0 | - | $([ -s "$tmp/missing" ] && echo "below the floor" || echo "floor reached") |"
    [ -n "$GAIN" ] && echo "| cases where torch's threads gain 1.5 x and ours less | $(wc -l <"$tmp/slow_threads") | 0 | - | $(
        paste -sd ';' "$tmp/slow_threads" | sed 's/;/; /g') |"
}
table >"$tmp/table.md"
cat "$tmp/table.md"
whole= # all programs started
[ "$who" = " ours torch ours1 torch1" ] && whole=1
[ "$DEVICE" != cpu ] && [ "$who" = " ours torch" ] && whole=1
for p in $who; do close_peer "$p"; done
if [ -z "$SHORT" ] && [ "$OPS" = . ] && [ -n "$whole" ]; then
    mkdir -p "$RESULTS"
    file=$RESULTS/$(date -u +%Y-%m-%d)-$(machine | slug)-ops.md
    cp "$tmp/table.md" "$file"
    say "written to $file"
elif [ -z "$SHORT" ]; then
    say "not written to $RESULTS: a table that is kept has all cases, torch, and one thread beside all"
fi
[ -z "$bad" ] || { printf '%s' "$bad" | sed 's/^/bench: WRONG: /' >&2; exit 1; }
