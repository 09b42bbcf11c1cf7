#!/bin/sh
# man.sh 1|3 VERSION: a manual page on standard output. 1: the command, from docs/cli.md and docs/env.md, which are
# written from the tables of the code. 3: the library, from the head of each public header and what it declares.
set -eu
cd "$(dirname "$0")/.."
roff='
function text(s) {
    gsub(/\\\|/, "|", s); gsub(/\\/, "\\e", s); gsub(/`/, "", s); gsub(/-/, "\\-", s)
    return s ~ /^[.\047]/ ? "\\&" s : s
}
function title(name, section) {
    printf ".TH %s %s \"\" \"reprise %s\" \"reprise\"\n.SH NAME\n", name, section, version
}'
command_page() {
    awk -v version="$1" "$roff"'
    FNR == 1 {
        if (FILENAME ~ /cli/) title("REPRISE", 1)
        print FILENAME ~ /cli/ ? "reprise \\- traces, compiles, caches and runs transformers\n.SH SYNOPSIS\n" \
            ".B reprise\n.I COMMAND\n[\n.I ARGUMENTS\n] [\n.I FLAGS\n]\n.SH COMMANDS" : ".SH ENVIRONMENT"
        table = 0
        next
    }
    /^Written / { next }
    /^## / { sub(/^## /, ""); $0 = toupper($0); print ".SH \"" text($0) "\""; table = 0; next }
    /^\|---/ { table = 1; next }
    /^\| / && table {
        gsub(/\\\|/, "\001")
        split($0, cell, / *\| */)
        gsub(/\001/, "|", cell[2]); gsub(/\001/, "|", cell[3])
        print ".TP\n.B " text(cell[2])
        if (FILENAME ~ /env/) print text(cell[4]) (cell[3] == "-" ? "" : " (" text(cell[3]) ")")
        else print text(cell[3]) (cell[4] ~ /^`/ ? " (setting " text(cell[4]) ")" : "")
        next
    }
    /^\| / { next }
    /^    / { sub(/^ */, ""); print ".PP\n.B " text($0); next }
    /^$/ { next }
    { if (table) { print ".SH NOTES"; table = 0 } print text($0) }' docs/cli.md docs/env.md
    printf '.SH SEE ALSO\n.BR libreprise (3)\n'
}
library_page() {
    awk -v version="$1" "$roff"'
    BEGIN {
        title("LIBREPRISE", 3)
        print "libreprise \\- a compiler and graph manager for transformers as a C library\n.SH SYNOPSIS\n.nf\n" \
            "#include <reprise/reprise.h>\n.sp\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs reprise)\n.fi\n.SH DESCRIPTION\n" \
            "Every call that can fail returns an\n.B rp_status\nand takes an\n.B rp_error\nlast. " \
            "The contract of each call stands in its header; this page lists what there is."
    }
    FNR == 1 {
        name = FILENAME
        sub(/^include\//, "", name)
        print ".SH \"" toupper(text(name)) "\""
        head = 1
    }
    head {
        line = $0
        head = line !~ /\*\//
        sub(/^ *\/?\*+\/? ?/, "", line); sub(/ *\*\/.*/, "", line)
        print line == "" ? ".PP" : text(line)
        if (!head) print ".PP"
        next
    }
    /^RP_API / {
        match($0, /rp_[a-z0-9_]+\(/)
        print ".B " substr($0, RSTART, RLENGTH - 1) "\n.br"
    }' include/reprise/reprise.h $(ls include/reprise/*.h | grep -v /reprise.h)
    printf '.SH SEE ALSO\n.BR reprise (1)\n'
}
case $1 in
1) command_page "$2" ;;
3) library_page "$2" ;;
esac
