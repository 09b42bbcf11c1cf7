#!/bin/sh
# fuzz.sh BUILD SECONDS: runs every fuzz target for SECONDS on its committed corpus. What it finds is
# added to the corpus by hand, after the bug is mended; new inputs stay under BUILD.
cd "$(dirname "$0")/.." || exit 1
B=$1 seconds=$2 bad=0
for t in "$B"/test/fuzz/*; do
    [ -x "$t" ] && [ -f "$t" ] || continue
    name=${t##*/}
    mkdir -p "$B/corpus/$name" "$B/found"
    if "$t" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$B/found/$name-" \
        "$B/corpus/$name" "test/fuzz/corpus/$name" >"$B/found/$name.log" 2>&1; then
        echo "PASS fuzz/$name"
    else
        echo "FAIL fuzz/$name: see $B/found/$name.log"
        bad=1
    fi
done
exit $bad
