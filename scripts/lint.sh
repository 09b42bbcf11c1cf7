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
# Both libraries offer the same names, all of them ours; in the shared one each has a version.
symbols() {
    { nm -g --defined-only "$B/libreprise.a"; nm -D --defined-only "$B"/libreprise.so.?; } | awk '
        NF != 3 || $2 == "A" { next }
        $3 !~ /^rp_/ { print "exported, but not rp_: " $3; bad = 1; next }
        sub(/@@RP_[0-9.]+$/, "", $3) { shared[$3] = 1; next }
        $3 ~ /@/ { print "no version of ours: " $3; bad = 1; next }
        { archive[$3] = 1; n++ }
        END {
            for (name in archive) if (!(name in shared)) { print "not in the shared library: " name; bad = 1 }
            for (name in shared) if (!(name in archive)) { print "not in the archive: " name; bad = 1 }
            if (!n) print "no names found"
            exit bad || !n
        }'
}
# What a caller's rp_error says is of the last call: see base/status.h.
clearing() {
    grep -rl '^rp_status rp_' src --include='*.c' | xargs awk '
        head && /^}/ { head = "" }
        /^rp_status rp_/ { head = $2; body = "" }
        head { body = body $0 "\n" }
        head && /\{$/ {
            getline first
            if (body ~ /rp_error \*err/ && first !~ /base_error_clear\(err\);/) { print FILENAME ": " head " does not begin with base_error_clear(err)"; bad = 1 }
            head = ""
        }
        END { exit bad }'
}
check "layers (ARCHITECTURE.md)" scripts/layers.sh
check "banned functions" scripts/banned.sh
check "headers alone" scripts/headers.sh
check "exported symbols" symbols
check "public functions clear their rp_error" clearing
check "room prefixes" scripts/prefixes.sh "$B"
check "file length" scripts/length.sh
check "docs/env.md" scripts/env-doc.sh check
check "elementwise.h" scripts/ops-header.sh check
check "ops and calls are told" scripts/ops-told.sh
exit $bad
