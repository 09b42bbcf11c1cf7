#!/bin/sh
# banned.sh: functions and comment forms that the library does not use.
cd "$(dirname "$0")/.." || exit 1
files=$(find src tools include -name '*.[ch]' ! -path '*/embed/*' | LC_ALL=C sort)
LC_ALL=C awk '
FNR == 1 { in_comment = in_format = 0 }
{
    line = $0
    gsub(/\\./, "", line)                 # escaped characters
    gsub(/"[^"]*"/, "\"\"", line)         # strings
    gsub(/\/\*[^*]*(\*+[^*\/][^*]*)*\*+\//, "", line)
    if (in_comment) { if (!sub(/^.*\*\//, "", line)) next; in_comment = 0 }
    if (sub(/\/\*.*/, "", line)) in_comment = 1
    if (line ~ /\/\//) say("// comment")
    if (line ~ /(^|[^A-Za-z0-9_>.])(sprintf|vsprintf|strcpy|strcat|strtok|atoi|atol|atof|strtol|strtoul|gets|alloca|system|popen)[ ]*\(/) say("banned function")
    # The process that embeds us may have a decimal comma; the command keeps the locale it begins with.
    if (FILENAME !~ /^src\/base\/number\./) {
        if (line ~ /(^|[^A-Za-z0-9_>.])(set|use|new)locale[ ]*\(/) say("no locale is set")
        if (FILENAME ~ /^src\// && line ~ /(^|[^A-Za-z0-9_>.])(strto(d|f|ld)(_l)?|v(s|sn|f|as|d)printf)[ ]*\(/) say("numbers are read and printed by base/number.h")
        if (FILENAME ~ /^src\// && line ~ /(^|[^A-Za-z0-9_>.])(snprintf|sscanf|fprintf|fscanf|dprintf|asprintf)[ ]*\(/) in_format = 1
        if (in_format && $0 ~ /"[^"]*%[-+ #0-9.*]*l?[aefgAEFG]/) say("numbers are read and printed by base/number.h")
        if (line ~ /;/) in_format = 0
    }
    if (FILENAME ~ /^src\//) {
        if (FILENAME != "src/base/alloc.c" && line ~ /(^|[^A-Za-z0-9_>.])(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign)[ ]*\(/) say("allocate through base/alloc.h")
        # base/log.c has the one sink for users who ask by REPRISE_LOGS: a single line.
        default_sink = FILENAME == "src/base/log.c" && line ~ /fprintf\(stderr, "", word, text\)/ && !n_sinks++
        if (!default_sink && (line ~ /(^|[^A-Za-z0-9_>.])(printf|puts|putchar|perror|abort|exit|_exit)[ ]*\(/ || line ~ /f(printf|puts|write)[ ]*\([^;]*std(err|out)/)) say("the library does not print or exit")
        if (line ~ /(^|[^A-Za-z0-9_])(strn?casecmp|strcoll|strxfrm)(_l)?[ ]*\(/) say("words are compared by base_same_word, not by the locale")
        if (FILENAME != "src/base/env.c" && line ~ /(^|[^A-Za-z0-9_])(secure_)?getenv[ ]*\(/) say("read the environment through base/env.h")
    }
}
function say(what) {
    print FILENAME ":" FNR ": " what ": " $0
    bad = 1
}
END { exit bad }
' $files
