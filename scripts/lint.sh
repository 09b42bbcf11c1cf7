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
# What an object defines for others starts with a prefix of its room in ARCHITECTURE.md's table.
prefixes() {
    find "$B/obj/src" -name '*.o' | while read -r o; do
        src=${o#"$B"/obj/}
        [ -f "${src%.o}.c" ] && nm -g --defined-only "$o" | awk -v src="${src%.o}.c" 'NF == 3 { print src, $3 }'
    done | awk '
        FNR == NR {
            if ($0 !~ /^\| `src\//) next
            split($0, col, / *\| */)
            gsub(/`/, "", col[2])
            n = split(col[3], p, /[` ]+/)
            for (i = 1; i <= n; i++) if (p[i] != "") allowed[col[2], ++count[col[2]]] = p[i]
            next
        }
        {
            split($1, dir, "/")
            room = "src/" dir[2] "/"
            ok = $2 ~ /^rp_/
            for (i = 1; i <= count[room]; i++) if (index($2, allowed[room, i]) == 1) ok = 1
            if (!ok) { print $1 ": " $2 " has no prefix of its room"; bad = 1 }
        }
        END { exit bad }' ARCHITECTURE.md -
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
