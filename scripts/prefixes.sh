#!/bin/sh
# prefixes.sh BUILD: what an object of the library or the command defines for others starts with a prefix of its room in
# ARCHITECTURE.md's table, or with rp_ where it is public; public headers define rp_ and RP_ alone.
cd "$(dirname "$0")/.." || exit 1
B=$1 bad=0
find "$B/obj/src" "$B/obj/tools" -name '*.o' 2>/dev/null | LC_ALL=C sort | while read -r o; do
    src=${o#"$B"/obj/}
    [ ! -f "${src%.o}.c" ] || echo "$o" # objects of files that are gone stay behind
done | xargs -r nm -A -g --defined-only | awk -v root="$B/obj/" '
    FNR == NR {
        if ($0 !~ /^\| `(src|tools)\//) next
        split($0, col, / *\| */)
        gsub(/`/, "", col[2])
        n = split(col[3], p, /[` ]+/)
        for (i = 1; i <= n; i++) if (p[i] != "") allowed[col[2], ++count[col[2]]] = p[i]
        next
    }
    NF != 3 { next }
    {
        $1 = substr($1, length(root) + 1)
        sub(/\.o:.*/, ".c", $1)
        name = $3
        split($1, dir, "/")
        room = dir[1] == "src" ? "src/" dir[2] "/" : dir[1] "/"
        ok = name ~ /^rp_/ && dir[1] == "src" || dir[1] == "tools" && name == "main"
        for (i = 1; i <= count[room]; i++) if (index(name, allowed[room, i]) == 1) ok = 1
        if (!ok) { print $1 ": " name " has no prefix of its room"; bad = 1 }
        seen++
    }
    END { if (!seen) print "no objects under the build folder"; exit bad || !seen }' ARCHITECTURE.md - || bad=1
# C names of public headers live in the name spaces of everybody who includes them.
awk '
    /^[ \t]*#[ \t]*define[ \t]/ { name = $0; sub(/^[ \t]*#[ \t]*define[ \t]+/, "", name); sub(/[^A-Za-z0-9_].*/, "", name) }
    /^typedef .*;$/ { name = $0; sub(/;$/, "", name); sub(/.*[ *]/, "", name); if ($0 ~ /\(\*/) { name = $0; sub(/.*\(\*/, "", name); sub(/\).*/, "", name) } }
    /^} [A-Za-z_]+;$/ { name = $2; sub(/;/, "", name) }
    /^RP_API / { match($0, /[A-Za-z0-9_]+\(/); name = substr($0, RSTART, RLENGTH - 1) }
    name != "" && name !~ /^(rp_|RP_|REPRISE_)/ { print FILENAME ":" FNR ": " name " is not rp_, RP_ or REPRISE_"; bad = 1 }
    { name = "" }
    END { exit bad }' include/reprise/*.h || bad=1
exit $bad
