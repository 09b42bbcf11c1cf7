#!/bin/sh
# lint.sh BUILD: the checks of our own; the compilers' are in the Makefile.
cd "$(dirname "$0")/.." || exit 1
B=$1 bad=0
check() {
    name=$1
    shift
    if out=$("$@" 2>&1); then
        echo "ok $name"
    else
        printf '%s\nFAILED %s\n' "$out" "$name"
        bad=1
    fi
}
symbols() {
    nm -g --defined-only "$B/libreprise.a" |
        awk 'NF == 3 && $3 !~ /^rp_/ { print "exported, but not rp_: " $3; bad = 1 } END { exit bad }'
}
# Room prefixes: what one object defines for others starts with its room's name (or rp_).
prefixes() {
    find "$B/obj/src" -name '*.o' | while read -r o; do
        room=${o#"$B"/obj/src/}
        nm -g --defined-only "$o" | awk -v room="${room%%/*}" -v sub_room="$(basename "$(dirname "$o")")" -v o="$o" \
            'NF == 3 && index($3, room "_") != 1 && index($3, sub_room "_") != 1 && $3 !~ /^(rp_|LLVMFuzzer)/ {
                print o ": " $3 " does not start with " room "_" }'
    done | awk '{ print; bad = 1 } END { exit bad }'
}
length() {
    find src tools include -name '*.[ch]' | xargs awk 'END { } { n[FILENAME]++ }
        END { for (f in n) if (n[f] > 1000) { print f ": " n[f] " lines; split it"; bad = 1 } exit bad }'
}
check "layers (ARCHITECTURE.md)" scripts/layers.sh
check "banned functions" scripts/banned.sh
check "headers alone" scripts/headers.sh
check "exported symbols" symbols
check "room prefixes" prefixes
check "file length" length
check "docs/env.md" scripts/env-doc.sh check
exit $bad
