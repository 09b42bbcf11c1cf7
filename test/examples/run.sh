#!/bin/bash
# The examples print what test/examples/NAME.txt has, each with an empty cache, but for times, places in files, and the lines about
# compilers, which differ from machine to machine. `# ARGS` at the top of a text are the arguments. BLESS=1 rewrites the texts.
# A second process compiles nothing: it leaves the code that the first one stored, and no other.
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$root/${B:-build}/examples
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
export LC_ALL=C
cd "$root" || exit 1 # a break shows its line where the source can be read
export REPRISE_AUTOTUNE_BUDGET=0 # what is measured hangs on the machine; the rules' choices do not
unset REPRISE_LOGS REPRISE_ISA REPRISE_CC REPRISE_DEBUG REPRISE_DEBUG_DUMP_PATH
told() {
    cat -v | grep -v '^\[inductor\] ' | sed -E 's/[0-9]+(\.[0-9]+)? ms/N ms/g; s/(\.c"?(:|, line ))[0-9]+/\1N/g; s/(difference[^0-9]*)[0-9].*/\1N/
        s/[0-9]+ compiler runs, [0-9]+ from the cache/N compiler runs, N from the cache/'
}
# again NAME: it ran once in its folder.
again() {
    code >"$own/code"
    [ -s "$own/code" ] || return # it has a folder of its own
    REPRISE_CACHE_DIR=$own/cache "$bin/${1%%-*}" "${args[@]}" >/dev/null 2>"$own/err" || echo "FAIL $1-again: $(tail -n 1 "$own/err")"
    if code | diff "$own/code" - >"$own/diff"; then echo "PASS $1-warm"; else echo "FAIL $1-warm: it compiled: $(head -n 3 "$own/diff" | tr '\n' ' ')"; fi
}
code() { find "$own/cache" -path '*/objects/code/*' -printf '%p %i\n' 2>/dev/null | sort; }
for want in "$here"/*.txt; do
    name=$(basename "$want" .txt)
    read -r first <"$want"
    args=()
    [[ $first == '# '* ]] && read -ra args <<<"${first#\# }"
    [ -x "$bin/${name%%-*}" ] || { echo "FAIL $name: there is no $bin/${name%%-*}"; continue; }
    own=$tmp/$name
    mkdir -p "$own"
    { [ ${#args[@]} = 0 ] || echo "$first"; } >"$own/told"
    REPRISE_CACHE_DIR=$own/cache "$bin/${name%%-*}" "${args[@]}" >"$own/out" 2>"$own/err" || echo "exit $?" >>"$own/out"
    told <"$own/out" >>"$own/told"
    [ -z "${BLESS-}" ] || cp "$own/told" "$want"
    # Without the sources a break has no line to show.
    [ -d examples ] || { sed '/^\[graph_breaks\]     /d' "$want" >"$own/want" && want=$own/want; }
    if diff "$want" "$own/told" >"$own/diff"; then echo "PASS $name"; else echo "FAIL $name: $(head -n 3 "$own/diff" | tr '\n' ' ') $(tail -n 1 "$own/err")"; fi
    again "$name"
done
# What it prints is held against a text of its own by test/front.
args=() own=$tmp/recompile
mkdir -p "$own"
REPRISE_CACHE_DIR=$own/cache "$bin/recompile" >/dev/null 2>"$own/err" || echo "FAIL recompile: $(tail -n 1 "$own/err")"
again recompile
