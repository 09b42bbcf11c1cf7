#!/bin/bash
# What the command needs: its largest resident set beside the size of the model, cold and, with 2048 tokens in the KV
# cache, warm, and no allocation for a further token. Seen from outside: by the kernel's own count, and through an
# interposed malloc (preload/alloc_count.c). Other modes and several requests: decode.c.
here=$(cd "$(dirname "$0")" && pwd)
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
export REPRISE_CACHE_DIR=${REPRISE_CACHE_DIR:-$tmp/cache}
model=${REPRISE_TEST_MODEL-}

# peak ARGUMENTS...: bytes of VmHWM of the command, and its exit code
peak() {
    python3 -c '
import os, resource, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, use = os.wait4(p.pid, 0)
print(use.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))' "$REPRISE" "$@"
}

small() {
    if [ -z "$model" ]; then
        echo "SKIP small: the model cannot be had"
        return
    fi
    local size ids state bytes code
    size=$(wc -c <"$model")
    for state in cold warm; do
        # What a start needs besides is gone before the first step: a prefill of one chunk shows that.
        ids=$(seq -s, 1000 $([ $state = cold ] && echo 1511 || echo 2983))
        read -r bytes code < <(peak run "$model" --prompt-ids "$ids" --max-tokens 65 --ignore-eos --quiet)
        if [ "$code" != 0 ]; then
            echo "FAIL small $state: exit $code"
        elif [ "$bytes" -gt $((size + 150000000)) ]; then
            echo "FAIL small $state: $bytes bytes resident, over $size of the model + 150 MB"
        else
            echo "PASS small $state"
        fi
    done
}

# steps NAME ARGUMENTS...: no step of a run that writes 160 tokens allocates
steps() {
    local name=$1 file=$tmp/allocations looked_at dirty calls
    shift
    "$REPRISE" run "$@" --max-tokens 9 --quiet >/dev/null 2>&1 </dev/null # fills the cache
    rm -f "$file"
    ALLOC_COUNT_FILE=$file LD_PRELOAD=$tmp/alloc_count.so "$REPRISE" run "$@" --max-tokens 160 --ignore-eos --quiet \
        >/dev/null 2>"$tmp/err" </dev/null || { echo "FAIL allocations $name: $(tail -n 1 "$tmp/err")"; return; }
    read -r looked_at dirty calls < <(tail -n 1 "$file")
    if [ "$(wc -l <"$file")" != 1 ]; then
        echo "FAIL allocations $name: a warm run started another process"
    elif [ "$looked_at" -lt 100 ] || [ "$calls" -lt 100 ]; then
        echo "FAIL allocations $name: only $looked_at steps and $calls allocations were seen"
    elif [ "$dirty" != 0 ]; then
        echo "FAIL allocations $name: $dirty of $looked_at steps allocate"
    else
        echo "PASS allocations $name"
    fi
}

small
if ! ${CC:-gcc} -std=gnu11 -O2 -w -fPIC -shared "$here/preload/alloc_count.c" -o "$tmp/alloc_count.so" -ldl 2>"$tmp/err"; then
    echo "SKIP allocations: no shim: $(head -n 1 "$tmp/err")"
else
    steps tiny synthetic:tiny "abc"
    if [ -n "$model" ]; then steps model "$model" "Hello"; else echo "SKIP allocations model: the model cannot be had"; fi
fi
