#!/bin/sh
# peers.sh [llama] [torch] [openvino] [onnxrt]: sets up what bench/ is measured against, and prints the folder. Nothing lands in
# the checkout: all of it is in $REPRISE_PEERS, else ~/.cache/reprise-peers. What is there is kept.
#
#   llama  llama.cpp, from the sdist of llama-cpp-python, built with the instruction sets that this CPU grants
#   torch  PyTorch with what torch.compile needs on a CPU
#   openvino, onnxrt  OpenVINO and ONNX Runtime, for the backends of these names; says what to set in the environment
set -eu
llama_version=0.3.36 torch_version=2.15.0 openvino_version=2026.4.1 onnxruntime_version=1.32.0
peers=${REPRISE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/reprise-peers}
work=$peers/.work.$$
mkdir -p "$peers"
trap 'rm -rf "$work"' EXIT INT TERM

need() {
    missing=
    for tool in "$@"; do command -v "${tool%:*}" >/dev/null || missing="$missing ${tool#*:}"; done
    [ -z "$missing" ] || { echo "peers: missing; run: apt-get install$missing" >&2; exit 1; }
}
pip() { nice python3 -m pip "$@" --quiet --disable-pip-version-check --no-deps >&2; }

# The flags of ggml that /proc/cpuinfo grants, one a line. AMX is left out: it crashed where it was tried.
ggml_flags() {
    for pair in avx:AVX avx2:AVX2 fma:FMA f16c:F16C bmi2:BMI2 sse4_2:SSE42 avx_vnni:AVX_VNNI \
        avx512vl:AVX512 avx512vbmi:AVX512_VBMI avx512_vnni:AVX512_VNNI avx512_bf16:AVX512_BF16; do
        if grep -m 1 '^flags' /proc/cpuinfo | grep -qw "${pair%:*}"; then v=ON; else v=OFF; fi
        echo "-DGGML_${pair#*:}=$v"
    done
}

# llama.cpp: $peers/llama/{bin/llama-bench,bin/llama-batched-bench,version,flags}
setup_llama() {
    flags=$(ggml_flags)
    tools="llama-bench llama-batched-bench"
    if [ "$(cat "$peers/llama/flags" "$peers/llama/version" 2>/dev/null)" = "$flags
$llama_version" ]; then return; fi
    need cmake gcc g++ make python3 tar
    src=$peers/llama-src-$llama_version
    if [ ! -f "$src/CMakeLists.txt" ]; then
        echo "peers: fetching the sources of llama.cpp (77 MB)" >&2
        mkdir -p "$work"
        pip download --no-binary llama-cpp-python -d "$work" "llama-cpp-python==$llama_version"
        tar -xzf "$work/llama_cpp_python-$llama_version.tar.gz" -C "$work"
        rm -rf "$src"
        mv "$work/llama_cpp_python-$llama_version/vendor/llama.cpp" "$src"
    fi
    echo "peers: building llama.cpp (some minutes)" >&2
    mkdir -p "$peers/llama"
    cmake -S "$src" -B "$peers/llama" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF $flags \
        -DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF -DGGML_AMX_BF16=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
        -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
        >"$peers/llama.log" 2>&1 &&
        cmake --build "$peers/llama" -j 2 --target $tools >>"$peers/llama.log" 2>&1 ||
        { echo "peers: llama.cpp does not build; see $peers/llama.log" >&2; exit 1; }
    echo "$llama_version" >"$peers/llama/version"
    echo "$flags" >"$peers/llama/flags"
}

# PyPI's torch for Linux is linked with CUDA's libraries (3 GB). A run on the CPU calls none of them, so they
# are replaced with libraries that hold the same names and say "error" when called.
cuda_stand_ins() {
    lib=$1
    mkdir -p "$work"
    nm -D --undefined-only --with-symbol-versions "$lib"/lib*.so | awk 'NF == 2 { print $2 }' | sort -u >"$work/names"
    for f in "$lib"/lib*.so; do readelf -d "$f"; done | awk -F'[][]' '/NEEDED/ { print $2 }' | sort -u |
        grep -E '^lib(cu|nv|nccl)' | while read -r so; do
        [ -e "$lib/$so" ] && continue
        # Names with this library as version, or NVSHMEM's; names without a version are looked for anywhere.
        case $so in libnvshmem*) tag=NVSHMEM ;; *) tag=$so ;; esac
        awk -v tag="$tag" -v plain="$([ "${so%%.*}" = libcudart ] && echo 1)" -F@ '
            NF > 1 && $NF == tag { print $1 }
            NF == 1 && plain && /^(cu[A-Z]|cuFile|cusparseLt|nccl|nvshmem|nvrtc)/ { print $1 }' "$work/names" |
            sort -u >"$work/own"
        awk '/Error(String|Name)$/ { print "char *" $1 "(void) { return \"no CUDA\"; }"; next }
            { print "int " $1 "(void) { return 100; }" }' "$work/own" >"$work/stub.c"
        echo "$tag { global: *; };" >"$work/stub.map"
        gcc -shared -fPIC -w -O1 -fno-builtin -Wl,-soname,"$so" -Wl,--version-script="$work/stub.map" \
            "$work/stub.c" -o "$lib/$so"
    done
}

# torch: a virtual environment in $peers/torch, with the file "version".
setup_torch() {
    [ "$(cat "$peers/torch/version" 2>/dev/null)" = "$torch_version" ] && return
    need python3 gcc g++ nm:binutils
    python3 -c 'import ensurepip, os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null ||
        { echo "peers: missing; run: apt-get install python3-venv python3-dev" >&2; exit 1; }
    echo "peers: fetching torch (540 MB)" >&2
    rm -rf "$peers/torch"
    python3 -m venv "$peers/torch" >&2
    python=$peers/torch/bin/python3
    nice "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-cache-dir \
        "torch==$torch_version" "setuptools>=77.0.3,<82" filelock "typing-extensions>=4.13.0" "sympy>=1.13.3" mpmath networkx \
        jinja2 markupsafe fsspec numpy pyyaml tqdm gguf==0.19.0 >&2
    cuda_stand_ins "$(echo "$peers"/torch/lib/python3*/site-packages/torch/lib)"
    "$python" -c 'import gguf, torch; assert not torch.cuda.is_available(); print(torch.ones(2) + 1)' >"$peers/torch.log" 2>&1 ||
        { echo "peers: torch does not start; see $peers/torch.log" >&2; exit 1; }
    echo "$torch_version" >"$peers/torch/version"
}

# setup_library PACKAGE VERSION LIBRARY VARIABLE: a package that holds a C library.
setup_library() {
    if [ "$(cat "$peers/$1/version" 2>/dev/null)" != "$2" ]; then
        need python3
        echo "peers: fetching $1" >&2
        rm -rf "$peers/$1"
        pip install --target "$peers/$1" "$1==$2"
        echo "$2" >"$peers/$1/version"
    fi
    for file in "$peers/$1"/$3; do echo "peers: export $4=$file" >&2; done
}

[ $# -gt 0 ] || set -- llama torch
for peer in "$@"; do
    case $peer in
    llama) setup_llama ;;
    torch) setup_torch ;;
    openvino) setup_library openvino $openvino_version 'openvino/libs/libopenvino_c.so.*' REPRISE_OPENVINO ;;
    onnxrt) setup_library onnxruntime $onnxruntime_version 'onnxruntime/capi/libonnxruntime.so.*' REPRISE_ONNXRUNTIME ;;
    *) echo "peers: unknown peer \"$peer\"; known are llama, torch, openvino and onnxrt" >&2; exit 2 ;;
    esac
done
echo "$peers"
