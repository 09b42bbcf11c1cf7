# Helpers of the bench scripts; sourced. They keep samples in files, one number a line, under $samples.

# put NAME VALUE: one more sample; refuses what is no positive number, so that a failed run is never averaged in.
put() {
    case ${2-} in
    '' | *[!0-9.]* | 0 | 0.0 | 0.00 | 0.000) echo "bench: $1: no number: ${2:-nothing}" >&2 ;;
    *) echo "$2" >>"$samples/$1" ;;
    esac
}
have() { [ -s "$samples/$1" ]; }
# stat NAME median|min|max|n
stat() {
    sort -n "$samples/$1" 2>/dev/null | awk -v what="$2" '
        { v[NR] = $1 }
        END {
            if (what == "n") { print NR; exit }
            if (!NR) { print "nan"; exit }
            if (what == "min") print v[1]
            if (what == "max") print v[NR]
            if (what == "median") print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
        }'
}
median() { stat "$1" median; }
# calc FORMAT EXPRESSION
calc() { awk "BEGIN { printf \"$1\", $2 }"; }
# lacks NAME...: those that have no sample
lacks() {
    local name
    for name in "$@"; do have "$name" || echo "$name"; done
}
# ratio NAME OTHER: of medians, "-" where one is missing
ratio() { have "$1" && have "$2" && calc %.2fx "$(median "$1") / $(median "$2")" || echo -; }
# json_number KEY: of a flat key of a JSON text on standard input
json_number() { sed -n "s/.*\"$1\": *\\([0-9.eE+-]*\\).*/\\1/p" | tail -n 1; }

# Peers that stay: one process each, a question a line, an answer a line.
# open_peer NAME COMMAND..., or start_peer NAME COMMAND... and later await_peer NAME; ask NAME QUESTION; close_peer NAME
start_peer() {
    local name=$1
    shift
    mkfifo "$tmp/$name.in" "$tmp/$name.out"
    "$@" <"$tmp/$name.in" >"$tmp/$name.out" 2>"$tmp/$name.err" &
    peer_pids="${peer_pids-} $!"
    eval "exec {in_$name}>\"$tmp/$name.in\" {out_$name}<\"$tmp/$name.out\""
}
await_peer() {
    local name=$1 answer
    eval "read -r answer <&\$out_$name" || answer=
    case $answer in
    ready*) eval "version_$name=\"${answer#ready }\"" ;;
    *)
        echo "bench: $name does not start: ${answer:-$(grep . "$tmp/$name.err" | tail -n 1)}" >&2
        eval "version_$name="
        return 1
        ;;
    esac
}
open_peer() { start_peer "$@" && await_peer "$1"; }
opened() { eval "[ -n \"\${version_$1-}\" ]"; }
ask() ( # a shell of its own: writing to a peer that has died ends only that
    answer=
    opened "$1" || exit 0
    eval "echo \"$2\" >&\$in_$1; read -r answer <&\$out_$1" 2>/dev/null
    case $answer in
    '' | error*) echo "bench: $1: $2: ${answer:-no answer; $(tail -n 1 "$tmp/$1.err")}" >&2 ;;
    *) echo "$answer" ;;
    esac
)
close_peer() {
    opened "$1" && eval "exec {in_$1}>&- {out_$1}<&-; version_$1="
    return 0
}

cpu_model() { sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1; }
cpu_flags() {
    grep -m 1 '^flags' /proc/cpuinfo | tr ' ' '\n' |
        grep -E '^(avx2|fma|f16c|avx_vnni|avx512(f|vl|bw|_vnni|vbmi|_bf16|_fp16)|amx_.*)$' | tr '\n' ' ' | sed 's/ $//'
}
slug() { tr 'A-Z' 'a-z' | sed 's/(r)//g; s/(tm)//g; s/[^a-z0-9.]\{1,\}/-/g; s/^-//; s/-$//'; }
