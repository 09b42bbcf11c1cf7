#!/bin/bash
# Scripts that install, fetch and pack, in a copy of them and with tools that only say what they are asked for: nothing is fetched or installed.
[ -d src/base ] || { echo "SKIP scripts: this folder carries no sources"; exit 0; }
copy=$REPRISE_TEST_TMP/copy
tools=$REPRISE_TEST_TMP/tools # in front of all others
said=$REPRISE_TEST_TMP/said
is() { [ "$2" = "$3" ] && echo "PASS $1" || echo "FAIL $1: '${3:0:300}' for '${2:0:300}'"; }
fresh() {
    rm -rf "$copy" "$tools" "$said"
    mkdir -p "$copy" "$tools"
    cp -r scripts "$copy"
}
# tool NAME [TEXT]: says its arguments, then runs TEXT.
tool() {
    printf '#!/bin/sh\necho "%s $*" >>"%s"\n%s\n' "$1" "$said" "${2-}" >"$tools/$1"
    chmod +x "$tools/$1"
}
# ours NAME...: these alone are to be found, beside the tools.
ours() {
    for t in "$@"; do ln -s "$(command -v "$t")" "$tools/$t"; done
}
told() { cat "$said" 2>/dev/null; }

# --- setup.sh
packages() { # those that it wants, one a line, as dpkg-query tells them
    sed -n '/^packages="/,/"$/p' scripts/setup.sh | tr -d '"' | sed 's/^packages=//' | xargs -n 1 printf '%s installed\n'
}
setup() { # WITHOUT [ARGUMENT]: a pattern of what is not installed
    fresh
    ours sh cat mkdir
    tool dpkg-query "cat $copy/have"
    tool apt-get "${apt-}"
    tool id "echo ${id:-0}"
    tool python3
    tool pip
    packages | grep -v "$1" >"$copy/have"
    rm -f "$said"
    (cd "$copy" && PATH=$tools scripts/setup.sh ${2+"$2"} 2>&1)
    echo $?
}
is setup_nothing 0 "$(setup none)"
setup none >/dev/null
is setup_asks_once "dpkg-query -W" "$(told | cut -d ' ' -f 1,2)"
is setup_missing "setup: installing libjansson-dev patch
0" "$(setup '^\(libjansson-dev\|patch\) ')"
setup '^\(libjansson-dev\|patch\) ' >/dev/null
is setup_installs "apt-get update -q
apt-get install -q -y --no-install-recommends libjansson-dev patch" "$(told | grep ^apt-get)"
is setup_checks "setup: installing clang-14 clang-format-14 clang-tidy-14 llvm-14
0" "$(setup none check)"
is setup_browser "setup: installing chromium-headless-shell
0" "$(setup none test)"
is setup_without_browser "setup: installing chromium-headless-shell
setup: no chromium-headless-shell here; a test is skipped
0" "$(apt='case "$*" in *chromium*) exit 1 ;; esac' setup none test)"
is setup_browser_by_nobody 0 "$(id=7 setup none test)"
is setup_browser_not_now "setup: installing chromium-headless-shell
setup: no chromium-headless-shell here; a test is skipped
0" "$(apt='exit 100' setup none test)"
id=7 setup none test >/dev/null
tool sudo 'exit 1'
is setup_asks_nobody "0 -n apt-get update -q" "$(cd "$copy" && PATH=$tools scripts/setup.sh test >/dev/null 2>&1; echo $?) $(told | sed -n 's/^sudo //p')"
setup none test >/dev/null
tool chromium
: >"$said"
is setup_has_browser "0 dpkg-query" "$(cd "$copy" && PATH=$tools scripts/setup.sh test 2>&1; echo $?) $(told | cut -d ' ' -f 1)"
is setup_root "setup: missing packages, and neither root nor sudo to install them; run as root: apt-get install gcc
1" "$(id=7 setup '^gcc ')"
id=7 setup '^gcc ' >/dev/null
tool sudo 'exec "$@"'
(PATH=$tools "$copy/scripts/setup.sh" 2>/dev/null)
is setup_sudo "sudo apt-get update -q
sudo apt-get install -q -y --no-install-recommends gcc" "$(told | grep ^sudo)"
setup none >/dev/null
rm "$tools/dpkg-query"
case $(PATH=$tools "$copy/scripts/setup.sh" 2>&1; echo $?) in
"setup: no dpkg here; make sure that these (or their like) are installed: gcc make "*"
0") echo "PASS setup_elsewhere" ;;
*) echo "FAIL setup_elsewhere: without dpkg-query it says something else" ;;
esac

# --- ptx.sh
fresh
mkdir -p "$copy/src/hal/embed" "$copy/src/hal/cuda"
tool nvcc 'while [ "$1" != -o ]; do shift; done; printf "// by hand\n\n.version 8.4\n.target sm_80\n  // more\nret; // stays\n" >"$2"'
tool ptxas
(PATH=$tools:$PATH "$copy/scripts/ptx.sh")
is ptx ".version 7.0
.target sm_80
ret; // stays
0" "$(cat "$copy/src/hal/embed/runs.ptx"; ls "$copy/src/hal/embed" | grep -vc '^runs.ptx$')"
is ptx_each "ptxas --gpu-name sm_80 -o /dev/null src/hal/embed/runs.ptx
ptxas --gpu-name sm_90 -o /dev/null src/hal/embed/runs.ptx
ptxas --gpu-name sm_100 -o /dev/null src/hal/embed/runs.ptx" "$(told | grep ^ptxas)"
# What is carried is what it leaves.
is ptx_carried ".version 7.0" "$(grep -m 1 '^\.' src/hal/embed/runs.ptx)"

# --- peers.sh: what is there is kept, and told
peers() { (PATH=$tools:$PATH REPRISE_PEERS=$copy/peers "$copy/scripts/peers.sh" "$@" 2>&1); echo $?; }
version() { sed -n "s/.*$1_version=\([^ ]*\).*/\1/p" scripts/peers.sh; }
there() { # NAME VERSION FILE
    mkdir -p "$(dirname "$copy/peers/$1/$3")" && echo "$2" >"$copy/peers/$1/version" && touch "$copy/peers/$1/$3"
}
fresh
tool python3 'exit 1'
there torch "$(version torch)" x
there openvino "$(version openvino)" openvino/libs/libopenvino_c.so.7
there onnxruntime "$(version onnxruntime)" onnxruntime/capi/libonnxruntime.so.1
is peers_kept "peers: export REPRISE_OPENVINO=$copy/peers/openvino/openvino/libs/libopenvino_c.so.7
peers: export REPRISE_ONNXRUNTIME=$copy/peers/onnxruntime/onnxruntime/capi/libonnxruntime.so.1
$copy/peers
0" "$(peers torch openvino onnxrt)"
is peers_asks_nobody "" "$(told)"
is peers_unknown 'peers: unknown peer "tourch"; known are llama, torch, openvino and onnxrt
2' "$(peers tourch)"
there openvino 1.0 old
is peers_fails "peers: fetching openvino
1" "$(peers openvino)"
is peers_fetches "python3 -m pip install --target $copy/peers/openvino openvino==$(version openvino) --quiet --disable-pip-version-check --no-deps" "$(told)"
is peers_again none "$(cat "$copy/peers/openvino/version" 2>/dev/null || echo none)"
tool python3 'mkdir -p "$5/openvino/libs" && touch "$5/openvino/libs/libopenvino_c.so.9"'
peers openvino >/dev/null
rm "$said"
is peers_once "peers: export REPRISE_OPENVINO=$copy/peers/openvino/openvino/libs/libopenvino_c.so.9
$copy/peers
0" "$(peers openvino; told)"
ours sh dirname sed cat mkdir rm grep
is peers_needs 'peers: missing; run: apt-get install cmake gcc g++ make tar
1' "$(PATH=$tools REPRISE_PEERS=$copy/peers sh "$copy/scripts/peers.sh" llama 2>&1; echo $?)"

# --- dist.sh: programs that run from anywhere, with their libraries, and what tests read beside them
fresh
mkdir -p "$copy"/b/{test/unit,examples,bench,emu} "$copy"/{test/unit,bench,docs}
cp /bin/true "$copy/b/examples/hello"
cp "$(command -v expr)" "$copy/b/test/unit/sum"
cp /bin/echo "$copy/b/reprise"
touch "$copy/b/emu/libcuda.so.1" "$copy/test/unit/"{x.c,x.h,x.txt,jit_breaks.c,jit_unlowered.c} "$copy/test/run.sh" "$copy/bench/a.sh" "$copy/docs/a.md" "$copy/b/test/unit/notes"
is dist b/dist/reprise-7.1 "$(PATH=$tools:$PATH "$copy/scripts/dist.sh" b 7.1 2>&1)"
mv "$copy/b/dist/reprise-7.1" "$REPRISE_TEST_TMP/away"
rm -rf "$copy"
cd "$REPRISE_TEST_TMP/away" || exit
is dist_runs "12
a  b
1" "$(b/test/unit/sum 5 + 7; b/reprise "a  b"; b/test/unit/sum 0 + 0 >/dev/null; echo $?)"
is dist_files "README b/emu/libcuda.so.1 b/examples/hello b/reprise b/test/unit/sum bench/a.sh docs/a.md libc/ld-linux-x86-64.so.2 programs/examples-hello programs/reprise programs/test-unit-sum scripts/fetch-model.sh test/run.sh test/unit/jit_breaks.c test/unit/jit_unlowered.c test/unit/x.txt" \
    "$(find . -type f ! -name '*.so.*' -o -type f -name 'ld-*' -o -type f -path '*/emu/*' | sed 's|^\./||' | LC_ALL=C sort | xargs)"
is dist_libc libc/libc.so.6 "$(echo lib*/libc.so.*)"
