#!/bin/bash
# run.sh BUILD [test|test-quick|programs|gpu]: runs every test and ends with "N passed, N failed, N skipped".
#
#   BUILD/test/*/*    cmocka programs (a skip prints "skip: reason" first) and corpus replays
#   test/*/run.sh     suites over the built command; lines PASS name / FAIL name: why / SKIP name: why
#   BUILD/examples/*  each must end with 0
#   test/NAME@cuda    the same programs where functions and graphs run on a GPU, the emulated one but for "gpu" (not for "programs")
#
# "programs" leaves the suites and the model out; "quick" also every program with "slow" in its name;
# "gpu" runs only BUILD/test/gpu/*, test/gpu/run.sh and the other programs that use a GPU where there is one, and tells of each how long it took.
# GPU_TOOL='compute-sanitizer --tool memcheck --error-exitcode 9' runs those of "gpu" by it.
# THOROUGH=1 repeats more often what is alike; "programs" does.
# A test sees REPRISE (the command), REPRISE_TEST_MODEL (the model, unset when it cannot be had),
# REPRISE_TEST_TMP (an empty folder of its own, where its cache is, too) and TMPDIR (another one, with a short name, in
# memory where that is possible). It writes nowhere else: a run of everything fails when / or $HOME or the checkout, or
# /tmp by this project's name, holds more after it. ONLY=pattern (grep -E) selects.
set -u
cd "$(dirname "$0")/.."
# Everything in B/tmp and B/log is removed first, so B is looked at before.
[ -n "${1-}" ] && [ -d "$1/test" ] || { echo "run.sh: '${1-}' is no build folder; run make programs first" >&2; exit 2; }
B=$(realpath --relative-to=. "$1") what=${2-test}
: "${TIMEOUT:=600}" "${SUITE_TIMEOUT:=600}" "${JOBS:=2}" "${ONLY:=}" "${BLESS:=}"
export REPRISE=$PWD/$B/reprise ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=1:quarantine_size_mb=64} B TIMEOUT
unset REPRISE_LOGS XDG_CACHE_HOME
log=$B/log
rm -rf "$log" "$B/tmp"
mkdir -p "$log" "$B/tmp"

# Sanitizers (programs) and quick runs do with the synthetic models.
if [ -z "${REPRISE_TEST_MODEL-}" ] && [ "$what" != quick ] && [ "$what" != programs ]; then
    if model=$(scripts/fetch-model.sh 2>"$log/fetch"); then
        export REPRISE_TEST_MODEL=$model
    else
        echo "no model: $(tail -n 1 "$log/fetch")" >&2
    fi
fi

# Where TMPDIR lies: some tests write and fsync thousands of small files, and load code from there.
short=$(mktemp -d /dev/shm/reprise-test.XXXXXX 2>/dev/null) &&
    cp /bin/true "$short" 2>/dev/null && "$short/true" 2>/dev/null && [ "$(df -Pm "$short" | awk 'END { print $4 }')" -gt 2000 ] ||
    { rm -rf "$short"; short=$(mktemp -d "${TMPDIR:-/tmp}/reprise-test.XXXXXX") || exit 1; }
trap 'rm -rf "$short" "$B/tmp/.cc" "$B/tmp/.bin"' EXIT
# What gcc compiles for one test it need not compile for another, nor in make check once more what it compiled in make test
# (test/support/cc). What no run of a day has asked for goes.
if [ -x "$B/cc/cc1" ] && command -v gcc >/dev/null; then
    cc=$PWD/$B/tmp/.cc
    said=$PWD/$B/said
    [ "${B#build/}" = "$B" ] || said=$PWD/build/said
    mkdir -p "$cc/real" "$said"
    find "$said" -type f -mtime +0 -delete 2>/dev/null
    ln -s "$said" "$cc/said"
    export REPRISE_TEST_SAID=$said # of NVRTC, by test/support/hasty.c
    for name in cc1 cc1plus; do
        real=$(gcc -print-prog-name=$name)
        [ -x "$real" ] && ln -s "$real" "$cc/real/$name" && cp "$B/cc/cc1" "$cc/$name"
    done
    export COMPILER_PATH=$cc${COMPILER_PATH:+:$COMPILER_PATH}
fi
# Where python3 is a script that looks for the real one, it does so once, not in each of some hundred calls.
if python=$(python3 -S -c 'import sys; print(sys.executable)' 2>/dev/null) && [ -x "$python" ]; then
    mkdir -p "$B/tmp/.bin"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$B/tmp/.bin/python3"
    chmod +x "$B/tmp/.bin/python3"
    export PATH=$PWD/$B/tmp/.bin:$PATH
fi
outside() {
    {
        find / "$HOME" "$HOME/.cache" /tmp -mindepth 1 -maxdepth 1 ! -path "$short"
        git status --porcelain
    } 2>/dev/null | LC_ALL=C sort -u
}

# one NAME LIMIT COMMAND...: runs it in its own folders, keeps output, exit code, seconds and those of processors, user's and system's.
one() {
    local name=$1 limit=$2 start=$SECONDS
    shift 2
    export REPRISE_TEST_TMP=$PWD/$B/tmp/$name TMPDIR
    TMPDIR=$(mktemp -d "$short/XXXX")
    export REPRISE_CACHE_DIR=$REPRISE_TEST_TMP/cache
    mkdir -p "$REPRISE_TEST_TMP" "$(dirname "$log/$name")"
    timeout -k 5 "$limit" $GPU_TOOL "$@" >"$log/$name.out" 2>&1 </dev/null
    echo "exit $? $limit" >>"$log/$name.out"
    local spent=$((SECONDS - start))
    times >"$TMPDIR/times"
    echo "$name $spent $(tail -n 1 "$TMPDIR/times")" >>"$log/times"
    rm -rf "$REPRISE_TEST_TMP" "$TMPDIR"
}
export -f one
export log short

programs=$(find "$B/test" "$B/examples" -type f -perm -u+x ! -path "$B/test/gpu/*" 2>/dev/null | sort)
suites=$(ls test/*/run.sh 2>/dev/null | grep -v '^test/gpu/')
# What they share is told their device by REPRISE_TEST_DEVICE (test/support/elsewhere.h). Those of the second line take
# minutes where every kernel is compiled by g++ and run by fibers, and are for a real GPU.
cuda=$(echo "$B"/test/{graph/laws,cache/warm,num/{bits,bools}} "$B"/test/unit/{api_{compiled,missing},jit_{bodies,break_fails,break_sizes,break_states,break_threads,decisions,edges,graphs,guards,kept,lookup,modes,rests,run,sizes,views,written},op_attrs,pass_turned,rewrite_{limits,pass},trace_{control,sites}})
cuda_slow=$(echo "$B"/test/num/sums "$B"/test/unit/{jit_{break_paths,breaks,breaks_fuzz,fuzz,ints},pass_{attention,sdpa}})
[ "$what" = gpu ] || GPU_TOOL=
[ -z "${GPU_TOOL-}" ] || export REPRISE_TEST_SANITIZED=1
export GPU_TOOL
case $what in
programs) export THOROUGH=${THOROUGH-1} suites='' cuda='' ;;
quick) suites='' programs=$(grep -v slow <<<"$programs") ;;
gpu)
    export REPRISE_TEST_GPU=1 JOBS=${GPU_JOBS:-1} # some look at how much of the GPU is free, those of ONLY=@cuda do not
    cuda="$cuda $cuda_slow $B/test/model/oracle"
    programs=$(find "$B/test/gpu" "$B/test/nets" "$B"/test/num/{cuda,decode_many,functions,graphs_gpu,random_graphs,tensor,top} \
        "$B"/test/unit/{autograph_{deciding,held,random},device_api,engine_{ahead,cuda,draw,hidden,inputs,lost,promises,shared_cuda},gen_cuda,gen_decode,hal_device,jit_cuda,jit_unlowered,op_source,tune_cuda} \
        -type f -perm -u+x 2>/dev/null) suites=$(ls test/gpu/run.sh 2>/dev/null)
    ;;
esac
for p in $cuda; do
    [ ! -x "$p" ] || programs=$programs$'\n'$p@cuda
done
if [ -n "$ONLY" ]; then
    programs=$(sed "s|^$B/||" <<<"$programs" | grep -E -e "$ONLY" | sed "/./s|^|$B/|")
    suites=$(grep -E -e "$ONLY" <<<"$suites")
    [ -n "$programs$suites" ] || { echo "0 tests match ONLY=$ONLY; names are like test/unit/base_str or test/cli/run.sh" >&2; exit 1; }
fi

[ -n "$ONLY$BLESS" ] || outside >"$log/before"
# Side by side; what takes longest comes first, so that all ends together.
{
    for s in $suites; do echo "$(dirname "$s") $SUITE_TIMEOUT bash $s"; done
    for p in $programs; do
        # replayed corpora are arguments: test/fuzz/corpus/NAME
        echo "${p#"$B"/} $TIMEOUT $([ "$p" = "${p%@cuda}" ] || echo "env REPRISE_TEST_DEVICE=cuda") ${p%@cuda}$([ "${p%/*}" = "$B/test/fuzz" ] && echo " test/fuzz/corpus/${p##*/}")"
    done
} | LC_ALL=C sort -s -t ' ' -k1,1 | awk '
    $1 ~ /^test\/(cli|mem|model|num|fault\/cold)|engine_(cuda|decode|promises)$|laws@cuda$|warm@cuda$|^test\/docs$|^test\/nets\/language$|pass_attention$|(gen_templates|tune_cuda|sched_random)$/ { print; next }
    { rest[n++] = $0 }
    END { for (i = 0; i < n; i++) print rest[i] }' |
    xargs -r -P "$JOBS" -L 1 bash -c 'one "$@"' _
# Other programs write into /tmp, too, and nobody says who: what does not name this project, or vanishes, is theirs.
if [ -f "$log/before" ]; then
    new=$(outside | LC_ALL=C comm -13 "$log/before" -)
    [ -z "$new" ] || { sleep 3; new=$(outside | LC_ALL=C comm -13 "$log/before" -); }
    ours=$(grep -vE '^/tmp/' <<<"$new"; grep -E '^/tmp/.*reprise' <<<"$new")
    if [ -z "$new" ]; then echo "PASS outside"
    elif [ -z "$ours" ]; then echo "SKIP outside: some program, perhaps a test, left" $new
    else echo "FAIL outside: the tests left" $ours; fi
    echo "exit 0 0"
fi >"$log/run.out"
[ -s "$log/run.out" ] || rm "$log/run.out"

[ "$what" != gpu ] || awk '{ printf "%4d s  %s\n", $2, $1 }' "$log/times"
find "$log" -name '*.out' | LC_ALL=C sort | xargs -r awk -v root="$log/" -f test/summary.awk
