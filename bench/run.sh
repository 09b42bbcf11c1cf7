#!/bin/sh
# run.sh cpu|gpu|ops|front BUILD: one set of measurements (make bench-cpu, make bench-gpu, make bench-ops, make bench-front).
cd "$(dirname "$0")/.." || exit 1
script=bench/${1-cpu}.sh
if [ ! -x "$script" ]; then
    echo "bench: nothing is measured on \"$1\" in this version; there is: cpu gpu ops front" >&2
    exit 3
fi
exec "$script" "${2-build}"
