#!/bin/bash
# mutants.sh BUILD [PATTERN]: plants the bugs of test/mutants/*.patch, one after the other, in a copy of the tree
# and runs the test that each names. Fails where no test fails, where a patch no longer applies and where the
# tree no longer builds; ends with "N caught, N survived, N broken".
#
# A patch is a unified diff below lines of "# ", of which the first names what must fail:
#
#   # test: unit/cache_store cut_objects_are_missed      a program or a suite under test/, and a case of it; @cuda: run on the emulated GPU
#
# Without a case any failure counts. PATTERN (grep -E) selects by name; MAKE and CC are those of the caller.
set -u
cd "$(dirname "$0")/.." || exit
B=$(realpath --relative-to=. "$1") pattern=${2-}
tree=$B/mutants/tree keep=$B/mutants/keep log=$B/mutants/log
baseline= # failures in the tree as it is
emu=build/emu/libcuda.so.1 # the GPU of programs that skip without one
caught=0 survived=0 broken=0

# wanted PATCH: sets test, case and goal (what to build).
wanted() {
    read -r _ _ test case < <(head -n 1 "$1")
    case=${case-} goal=
    if [ -f "test/${test%@cuda}.c" ]; then goal=build/test/${test%@cuda}; fi
    if [ -f "test/$test/run.sh" ]; then goal=all; fi
}
build() { "${MAKE:-make}" -C "$tree" --no-print-directory CONFIG=release "CC=${CC:-gcc}" -j"${JOBS:-2}" "$@"; }
# run TEST|TEST...: the lines of failures; the whole output goes to the log.
run() { (cd "$tree" && unset BLESS && ONLY="^test/($1)(/run.sh)?\$" test/run.sh build test) >"$log.run" 2>&1; grep '^FAIL ' "$log.run"; }

result() {
    printf '%-9s%s%s\n' "$1" "$name" "${2:+: $2}"
    case $1 in caught) caught=$((caught + 1)) ;; survived) survived=$((survived + 1)) ;; *) broken=$((broken + 1)) ;; esac
}

copy_tree() {
    rm -rf "$B/mutants"
    mkdir -p "$tree/build/test" "$keep" # without it run.sh takes it for no build, where only suites are wanted
    # Objects travel along with their times, so that only what a bug touches is built again.
    find . -mindepth 1 -maxdepth 1 ! -name build ! -name .git -exec cp -a {} "$tree" \;
    for d in obj gen libreprise.a libreprise-internal.a; do
        if [ "$B" = build ] && [ -e "$B/$d" ]; then cp -a "$B/$d" "$tree/build/"; fi
    done
}

# The tests must pass before anything is planted: else a failure says nothing.
check_baseline() {
    local goals=() names=() any
    for p in "${patches[@]}"; do
        wanted "$p"
        if [ -n "$goal" ]; then goals+=("$goal") names+=("$test"); fi
    done
    [ ${#goals[@]} -gt 0 ] || return
    readarray -t goals < <(printf '%s\n' "${goals[@]}" | sort -u)
    readarray -t names < <(printf '%s\n' "${names[@]}" | sort -u)
    build "$emu" "${goals[@]}" >"$log.build" 2>&1 || { tail -n 20 "$log.build"; echo "the tree does not build" >&2; exit 1; }
    any=$(IFS='|'; echo "${names[*]}")
    baseline=$(run "$any")
}

plant() { # PATCH: leaves its files as they were under $keep
    local f
    rm -rf "${keep:?}"/*
    for f in $(sed -n 's|^+++ b/||p' "$1"); do
        [ -f "$tree/$f" ] || return 1
        (cd "$tree" && cp --parents "$f" "$OLDPWD/$keep")
    done
    patch -d "$tree" -p1 -F3 -s -f --no-backup-if-mismatch -r - <"$1" >"$log.patch" 2>&1
}
restore() { # without old times: make must see the change back
    cp -r "$keep"/. "$tree"
}

try() {
    local failed
    name=$(basename "$1" .patch)
    wanted "$1"
    if [ -z "$goal" ]; then result broken "its first line names no test"; return; fi
    failed=$(grep -F -m 1 "FAIL $test/$case" <<<"$baseline")
    if [ -n "$failed" ]; then result broken "without it, too: $failed"; return; fi
    if ! plant "$1"; then
        result broken "does not apply"
    elif ! build "$emu" "$goal" >"$log.build" 2>&1; then
        result broken "does not build: $(grep -m 1 error "$log.build")"
    else
        failed=$(run "$test")
        if [ -n "$case" ]; then failed=$(grep -F "FAIL $test/$case" <<<"$failed"); fi
        if [ -n "$failed" ]; then result caught "$(head -n 1 <<<"$failed" | cut -c 6-165)"
        else result survived "$test${case:+ $case}: $(tail -n 1 "$log.run")"; fi
    fi
    restore
}

patches=()
for p in test/mutants/*.patch; do
    if basename "$p" .patch | grep -qE -e "${pattern:-.}"; then patches+=("$p"); fi
done
[ ${#patches[@]} -gt 0 ] || { echo "no patch matches '$pattern'" >&2; exit 1; }
copy_tree
check_baseline
for p in "${patches[@]}"; do try "$p"; done
echo "$caught caught, $survived survived, $broken broken"
[ $((survived + broken)) -eq 0 ]
