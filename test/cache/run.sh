#!/bin/bash
# Warm starts of the built command: the cache folder is filled, moved, and used with PATH and the compiler taken away.
# Under strace, where there is one, the kernel is the witness that no process is started.
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export REPRISE=${REPRISE:-$root/build/reprise}
[ -x "$REPRISE" ] || { echo "FAIL cache: there is no $REPRISE"; exit 1; }
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
unset REPRISE_LOGS REPRISE_ISA REPRISE_CC REPRISE_CACHE_DIR
bad=0
pass() { echo "PASS $1"; }
fail() { echo "FAIL $1: $2"; bad=1; }
# number NAME: an integer of the summary, the last line of stdin.
number() { tail -n 1 | grep -o "\"$1\":[0-9]*" | head -n 1 | grep -o '[0-9]*$'; }
tokens() { tail -n 1 | grep -o '"output_ids":\[[0-9,]*\]'; }

# on_terminal COMMAND...: its stderr is a pseudo-terminal, whose text goes to $tmp/terminal; stdout is stdout.
has_terminal=$(type -P script)
on_terminal() {
    [ -n "$has_terminal" ] || { "$@"; return; }
    local line
    printf -v line '%q ' "$@"
    SHELL=/bin/bash script -qec "$line >$(printf %q "$tmp/stdout")" "$tmp/terminal" >/dev/null || return
    cat "$tmp/stdout"
}

# The bars that $tmp/terminal shows: in order, each from its start, drawn over one line that ends up empty.
bars() { # NAME
    local seen
    [ -n "$has_terminal" ] || { echo "SKIP $1: no script(1), so no terminal"; return; }
    seen=$(grep -aoE '(compiling|packing|capturing) +\[#* *\] [0-9.]+ of [0-9.]+' "$tmp/terminal")
    [ "$(awk '{ print $1 }' <<<"$seen" | uniq | xargs)" = "compiling packing capturing" ] ||
        { fail "$1" "drawn: $(tr '\n' ';' <<<"$seen")"; return; }
    grep -aqP ' of [0-9.]+( MB)?\x1b\[K\r\x1b\[K$' "$tmp/terminal" || { fail "$1" "the last bar stays"; return; }
    pass "$1"
}

# run DIR ARGS...: bare, with the cache in DIR.
bare() {
    local dir=$1
    shift
    mkdir -p "$tmp/none"
    env -i PATH="$tmp/none" TMPDIR="$tmp" "$REPRISE" run "$@" --cache-dir "$dir" --json
}

check() { # NAME MODEL
    local name=$1 model=$2 cold warm n
    rm -rf "$tmp/cold" "$tmp/moved"
    cold=$(on_terminal "$REPRISE" run "$model" "Say hello." --max-tokens 8 --cache-dir "$tmp/cold" --json) ||
        { fail "$name" "the cold run ended with $?"; return; }
    bars "bars of a cold start${name#warm after a move}"
    n=$(number compiles <<<"$cold")
    [ "${n:-0}" -gt 0 ] || { fail "$name" "the cold run compiled ${n:-nothing}"; return; }
    mv "$tmp/cold" "$tmp/moved"
    warm=$(bare "$tmp/moved" "$model" "Say hello." --max-tokens 8) ||
        { fail "$name" "the warm run ended with $?"; return; }
    for what in traces compiles; do
        n=$(number $what <<<"$warm")
        [ "$n" = 0 ] || { fail "$name" "$what $n in the warm run"; return; }
    done
    [ "$(number level <<<"$warm")" = 3 ] || { fail "$name" "the warm run was not at level 3"; return; }
    [ "$(tokens <<<"$warm")" = "$(tokens <<<"$cold")" ] || { fail "$name" "other tokens"; return; }
    pass "$name"
}

# processes DIR: runs with the cache in DIR and prints how many processes the kernel saw start; ends as the command did.
# Threads are clones with CLONE_THREAD (posix_spawn shares memory, too); the first execve is the command itself.
processes() {
    local rc
    strace -f -e trace=execve,execveat,fork,vfork,clone,clone3 -o "$tmp/trace" \
        "$REPRISE" run synthetic:tiny x --max-tokens 4 --cache-dir "$1" --threads 2 >"$tmp/out" 2>&1
    rc=$?
    awk '/execve(at)?\(/ { e++ } /v?fork\(/ || /clone3?\(/ && !/CLONE_THREAD/ { c++ } END { print e - 1 + c }' "$tmp/trace"
    return $rc
}

no_process() { # DIR
    local n rc name="warm starts no process"
    command -v strace >/dev/null || { echo "SKIP $name: no strace here"; return; }
    strace -f -o "$tmp/trace" true 2>/dev/null || { echo "SKIP $name: strace may not trace here"; return; }
    # the witness must see a compiler that is only asked for its version
    n=$(REPRISE_CC=false processes "$tmp/none")
    [ "${n:-0}" -gt 0 ] || { fail "$name" "strace does not show the processes of a cold start"; return; }
    n=$(processes "$1")
    rc=$?
    [ $rc = 0 ] || { fail "$name" "the run ended with $rc: $(tail -n 1 "$tmp/out")"; return; }
    [ "$n" = 0 ] || { fail "$name" "$n calls that start one, such as $(grep -m 2 -oE 'execve(at)?\("[^"]*"' "$tmp/trace" | tail -n 1)"; return; }
    pass "$name"
}

# What is told of a plan and of packed weights (cache ls, cache why) is there before them: a start that is killed in between
# would leave those whose text nobody writes any more.
told_first() {
    local n name="objects come after what is told of them"
    command -v strace >/dev/null || { echo "SKIP $name: no strace here"; return; }
    strace -f -o "$tmp/trace" true 2>/dev/null || { echo "SKIP $name: strace may not trace here"; return; }
    strace -f -e trace=/rename -o "$tmp/trace" "$REPRISE" run synthetic:tiny x --max-tokens 1 --cache-dir "$tmp/told" >"$tmp/out" 2>&1 ||
        { fail "$name" "the run ended with $?"; return; }
    n=$(grep -oE '(objects/(plan|weights)|plans)/[0-9a-f]{32}(/[a-z_.]*)?"' "$tmp/trace" | awk -F/ '
        /^objects/ { there[substr($3, 1, 32)] = $2; n++ }
        /^plans/ { if ($2 in there) { print $3 " after its " there[$2]; exit } told[$2]++ }
        END { for (k in there) if (told[k] < 2) print there[k] " without texts"; print n }')
    [ "$n" = 2 ] && pass "$name" || fail "$name" "$(head -n 1 <<<"$n")"
}

portable() {
    local out
    out=$(bare "$tmp/empty" synthetic:tiny hello --max-tokens 4 2>"$tmp/err") ||
        { fail "no compiler, nothing cached" "ended with $?"; return; }
    [ "$(number level <<<"$out")" = 0 ] || { fail "no compiler, nothing cached" "not level 0"; return; }
    grep -q "portable kernels" <<<"$out" || { fail "no compiler, nothing cached" "no skip says so"; return; }
    grep -qi "no C compiler" "$tmp/err" || { fail "no compiler, nothing cached" "no warning: $(cat "$tmp/err")"; return; }
    pass "no compiler, nothing cached"
}

# ---- folders that are mounted in an odd way, in a mount namespace of their own ----

if unshare -m true 2>/dev/null; then ns() { unshare -m "$@"; }
else ns() { unshare -Urm "$@"; }; fi

# mounted NAME SCRIPT ARG...: the script (bash -e, after `mounts`, which must work) in a namespace; it fails by its exit
# code, and what it printed says why.
mounted() {
    local name=$1 mounts=$2 script=$3 out
    export tmp root
    ns bash -ec "$mounts" >/dev/null 2>&1 || { echo "SKIP $name: no such mount is permitted here"; return; }
    out=$(ns bash -ec "$mounts
        summary() { tail -n 1 | grep -o \"\\\"\$1\\\":[^,]*\" | head -n 1 | cut -d: -f2; }
        is() { [ \"\$2\" = \"\$3\" ] || { echo \"\$1 is \$2, not \$3\"; exit 1; }; }
        tiny() { \"\$REPRISE\" run synthetic:tiny hi --max-tokens 2 --json \"\$@\"; }
        $script" 2>&1) || { fail "$name" "$(tail -n 3 <<<"$out" | cut -c 1-400)"; return; }
    pass "$name"
}

# Runs a command to which the kernel gives no memory files.
cat >"$tmp/no_memfd" <<'PY'
#!/usr/bin/env python3
import ctypes, os, struct, sys
number = {"x86_64": 319, "aarch64": 279}[os.uname().machine]
code = b"".join(struct.pack("HBBI", *i) for i in
                [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50000 | 38), (6, 0, 0, 0x7fff0000)])
room = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(room)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0): sys.exit("no seccomp")
os.execvp(sys.argv[1], sys.argv[1:])
PY
chmod +x "$tmp/no_memfd"

odd_mounts() {
    rm -rf "$tmp/baked" "$tmp/mnt"
    mkdir "$tmp/mnt"
    "$REPRISE" compile synthetic:tiny --cache-dir "$tmp/baked" --quiet >/dev/null 2>&1
    mounted "a noexec mount" 'mount -t tmpfs -o noexec,mode=755 none "$tmp/mnt"; cp -r "$tmp/baked/." "$tmp/mnt"' '
        out=$(tiny --cache-dir "$tmp/mnt")
        is compiles "$(summary compiles <<<"$out")" 0
        is level "$(summary level <<<"$out")" 3
        is quarantine "$(ls "$tmp/mnt/quarantine")" ""
        "$REPRISE" doctor --cache-dir "$tmp/mnt" | grep -q "noexec: code is loaded from memory" || { echo doctor; exit 1; }'
    mounted "a noexec mount, and memory that is not executed" 'mount -t tmpfs -o noexec,mode=755 none "$tmp/mnt"; cp -r "$tmp/baked/." "$tmp/mnt"
        "$tmp/no_memfd" true' '
        mkdir "$tmp/copies"; export TMPDIR="$tmp/copies"
        out=$("$tmp/no_memfd" "$REPRISE" run synthetic:tiny hi --max-tokens 2 --json --cache-dir "$tmp/mnt")
        is compiles "$(summary compiles <<<"$out")" 0
        is level "$(summary level <<<"$out")" 3
        is left "$(ls "$tmp/copies")" ""'
    case $root/:$tmp/ in # which the mounts would hide
    /tmp/* | /dev/shm/* | *:/tmp/* | *:/dev/shm/*) echo "SKIP no place where code may be executed: this checkout lies in one that is taken away" ;;
    *) mounted "no place where code may be executed" 'for d in "$tmp/mnt" /tmp /dev/shm; do mount -t tmpfs -o noexec,mode=755 none $d; done
        cp -r "$tmp/baked/." "$tmp/mnt"; "$tmp/no_memfd" true' '
        export TMPDIR=/tmp
        out=$("$tmp/no_memfd" "$REPRISE" run synthetic:tiny hi --max-tokens 2 --json --cache-dir "$tmp/mnt" 2>"$tmp/err")
        is level "$(summary level <<<"$out")" 0
        grep -q "cannot be executed" <<<"$out" || { echo "no reason: $out"; exit 1; }
        is left "$(find /tmp /dev/shm -mindepth 1)" ""' ;;
    esac
    mounted "a read-only mount" 'mount --bind "$tmp/baked" "$tmp/mnt"; mount -o remount,ro,bind "$tmp/mnt"' '
        out=$(tiny --cache-dir "$tmp/mnt" 2>"$tmp/err")
        is compiles "$(summary compiles <<<"$out")" 0
        is skips "$(summary skips <<<"$out")" "[]"
        is warnings "$(cat "$tmp/err")" ""
        out=$(tiny -O0 --cache-dir "$tmp/mnt" 2>"$tmp/err")
        grep -q "\"what\":\"cache\",\"reason\":\"[^\"]*Read-only" <<<"$out" || { echo "no skip: $out"; exit 1; }
        is warnings "$(wc -l <"$tmp/err")" 1
        "$REPRISE" cache ls --cache-dir "$tmp/mnt" >/dev/null
        "$REPRISE" cache why synthetic:tiny --cache-dir "$tmp/mnt" >/dev/null
        "$REPRISE" cache export "$tmp/bundle" --cache-dir "$tmp/mnt" >/dev/null
        ! "$REPRISE" cache import "$tmp/bundle" --cache-dir "$tmp/mnt"'
    mounted "a full disk" 'mount -t tmpfs -o size=2m,mode=755 none "$tmp/mnt"; cp -r "$tmp/baked/." "$tmp/mnt"
        dd if=/dev/zero of="$tmp/mnt/filler" bs=4k status=none || true' '
        out=$(tiny --cache-dir "$tmp/mnt")
        is compiles "$(summary compiles <<<"$out")" 0
        out=$(tiny -O0 --cache-dir "$tmp/mnt" 2>"$tmp/err")
        grep -q "\"what\":\"cache\",\"reason\":\"[^\"]*No space" <<<"$out" || { echo "no skip: $out"; exit 1; }
        "$REPRISE" cache ls --cache-dir "$tmp/mnt" >/dev/null
        "$REPRISE" cache prune --max-bytes 0 --cache-dir "$tmp/mnt" | grep -qE "^[1-9][0-9]* objects removed"'
    mounted "nothing can be written" 'for d in /tmp /dev/shm "$tmp"; do mount --bind $d $d; mount -o remount,ro,bind $d; done' '
        out=$(tiny --cache-dir "$tmp/none" 2>&1)
        is level "$(summary level <<<"$out")" 0
        grep -q "no room to compile" <<<"$out" || { echo "no reason: $out"; exit 1; }
        out=$("$REPRISE" eval "$root/test/cli/graph.ir" --backend cpu 2>&1)
        grep -q "no room to compile" <<<"$out" || { echo "no reason for a graph: $out"; exit 1; }
        grep -q "out0" <<<"$out" || { echo "no values of a graph: $out"; exit 1; }
        out=$(tiny --cache-dir "$tmp/baked")
        is level "$(summary level <<<"$out")" 3
        is compiles "$(summary compiles <<<"$out")" 0'
}

# Baked by root, used by somebody else.
other_user() {
    local name="a cache that root baked" out
    [ "$(id -u)" = 0 ] || { echo "SKIP $name: only root can bake it"; return; }
    command -v setpriv >/dev/null || { echo "SKIP $name: no setpriv"; return; }
    rm -rf "$tmp/root" && (umask 022 && mkdir "$tmp/root") && cp "$REPRISE" "$tmp/root/reprise"
    (umask 002 && "$tmp/root/reprise" compile synthetic:tiny --cache-dir "$tmp/root/cache" --quiet >/dev/null 2>&1)
    # from within the folder, whose parents others need not be able to see
    out=$(cd "$tmp/root" && setpriv --reuid 4242 --regid 4242 --clear-groups ./reprise run synthetic:tiny hi --max-tokens 2 --cache-dir cache --json 2>&1)
    [ "$(number compiles <<<"$out")" = 0 ] && grep -q '"skips":\[\]' <<<"$out" && pass "$name" ||
        fail "$name" "$(tail -n 1 <<<"$out" | head -c 300)"
    out=$(cd "$tmp/root" && setpriv --reuid 4242 --regid 4242 --clear-groups ./reprise doctor --cache-dir cache 2>&1)
    grep -q '^BAD  cache     cache: what it holds is used, nothing is added: cache folder cache cannot be written' <<<"$out" &&
        pass "$name, as doctor tells it" || fail "$name, as doctor tells it" "$(grep cache <<<"$out")"
}

check "warm after a move" synthetic:tiny
no_process "$tmp/moved"
told_first
portable
odd_mounts
other_user
if [ -n "${REPRISE_TEST_MODEL-}" ]; then
    check "warm after a move, real model" "$REPRISE_TEST_MODEL"
else
    echo "SKIP warm after a move, real model: REPRISE_TEST_MODEL names no GGUF file of SmolLM2"
fi
[ -n "${REPRISE_TEST_TMP-}" ] || rm -rf "$tmp"
exit $bad
