#!/bin/sh
# length.sh: a source has at most 1000 lines, an example 150.
cd "$(dirname "$0")/.." || exit 1
{
    find src tools include \( -name '*.[ch]' -o -name '*.inc' \) | sed 's/^/1000 /'
    find examples -type f | sed 's/^/150 /'
} | while read -r most file; do
    n=$(wc -l < "$file")
    [ "$n" -le "$most" ] || echo "$file: $n lines, $most are the most; split it"
done | { ! grep .; }
