#!/bin/sh
# ptx.sh: makes src/hal/embed/runs.ptx of src/hal/cuda/runs.cu, by nvcc. What an older driver reads, too, is said to be of its version.
set -eu
cd "$(dirname "$0")/.."
out=src/hal/embed/runs.ptx
nvcc -ptx -arch=sm_80 -DRUNS_KERNEL='extern "C" __global__ void' -o "$out.new" src/hal/cuda/runs.cu
sed -e '/^[[:space:]]*\/\//d' -e '/^$/d' -e 's/^\.version .*/.version 7.0/' "$out.new" >"$out"
rm "$out.new"
for arch in sm_80 sm_90 sm_100; do ptxas --gpu-name "$arch" -o /dev/null "$out"; done
