#!/bin/sh
# layers.sh: refuses an #include, in quotes or angle brackets, and a declaration of another room's name that the table of
# rooms in ARCHITECTURE.md does not allow. May-use is transitive; a room that is not in the table may not exist.
cd "$(dirname "$0")/.." || exit 1
files=$(find src tools include examples \( -name '*.[ch]' -o -name '*.inc' -o -name '*.def' \) | LC_ALL=C sort)
LC_ALL=C awk '
function room_of(path) {
    sub(/^src\//, "", path)
    return substr(path, 1, index(path, "/") - 1)
}
function say(what) { print FILENAME ":" FNR ": " what; bad = 1 }
FILENAME == "ARCHITECTURE.md" {
    if ($0 !~ /^\| `(src\/[a-z]+|tools|include\/reprise)\/` /) next
    split($0, col, / *\| */)
    gsub(/`/, "", col[2])
    room = room_of(col[2])
    known[room] = 1
    gsub(/`/, "", col[3])
    n = split(col[3], prefix, / +/)
    for (i = 1; i <= n; i++) { owns[prefix[i], room] = 1; prefixes[prefix[i]] = room }
    use = col[5]
    if (use == "everything but serve") every[room] = 1
    else if (use != "-") {
        n = split(use, u, /, */)
        for (i = 1; i <= n; i++) if (u[i] == "public headers") public[room] = 1; else may[room, u[i]] = 1
    }
    next
}
!closed {
    closed = 1
    for (k in known) for (i in known) for (j in known)
        if ((i, k) in may && (k, j) in may) may[i, j] = 1
    for (k in known) if (k != "include" && !(k in public)) {
        if (k != "base") may[k, "base"] = 1
        if (k != "base") may[k, "config"] = 1
        if (k in every) for (j in known) if (j != "serve" && j != "tools") may[k, j] = 1
    }
}
FNR == 1 {
    from = room_of(FILENAME)
    embedded = FILENAME ~ /\/embed\//
    if (from == "examples") known[from] = 1
    else if (!(from in known)) { print FILENAME ": the room \"" from "\" is not in the table of ARCHITECTURE.md"; bad = 1 }
}
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    quoted = $0 ~ /include[ \t]*"/
    split($0, q, /["<>]/)
    to = q[2]
    if (to ~ /(^|\/)\.\.?\//) { say("\"" to "\" leaves its folder; write room/file.h"); next }
    if (to !~ /\//) { if (quoted && !embedded) say("\"" to "\" is not rooted; write room/file.h"); next }
    file = to
    to = to ~ /^src\// ? room_of(to) : substr(to, 1, index(to, "/") - 1)
    if (to == from || to == "reprise" || (from, to) in may) next
    if (quoted || to in known) say(from " may not use " to " (" file ")")
    next
}
# A declaration by hand goes around the includes: names of other rooms come from their headers.
/^[ \t]*extern[ \t]/ || /^[A-Za-z_]/ {
    if ($0 ~ /^(typedef|static|return|goto|case|default)[^A-Za-z0-9_]/ || $0 !~ /[ *][a-z][a-z0-9]*_[A-Za-z0-9_]*[ ]*[(\[;]/) next
    line = $0
    sub(/[ ]*[(\[;].*/, "", line)
    sub(/.*[ *]/, "", line)
    name = line
    sub(/_.*/, "_", line)
    if (line == "rp_" || !(line in prefixes) || (line, from) in owns) next
    say("declares " name " of " prefixes[line] "; include its header")
}
END { exit bad }
' ARCHITECTURE.md $files
