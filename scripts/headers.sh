#!/bin/sh
# headers.sh: every header compiles alone, the public ones also as C++ and in strict C.
cd "$(dirname "$0")/.." || exit 1
bad=0
for h in include/reprise/*.h; do
    for lang in "gcc -x c -std=c11" "gcc -x c -std=c99" "g++ -x c++ -std=c++11"; do
        echo "#include \"reprise/${h##*/}\"" |
            $lang -Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only - || { echo "$h: does not stand alone ($lang)"; bad=1; }
    done
done
for h in $(find src tools -name '*.h' ! -path '*/embed/*'); do
    case $h in src/*) name=${h#src/} ;; *) name=$h ;; esac
    echo "#include \"$name\"" | gcc -x c -std=c11 -D_GNU_SOURCE -Iinclude -Isrc -I. -Wall -Wextra -Werror -fsyntax-only - ||
        { echo "$h: does not stand alone"; bad=1; }
done
exit $bad
