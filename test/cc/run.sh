#!/bin/bash
# What gcc says of a text is said again to all tests (support/cc/cc1.c), and of no other text, flags or refusal.
[ -x "$B/cc/cc1" ] && command -v gcc >/dev/null || { echo "SKIP cc: gcc compiles each text by itself here"; exit 0; }
t=$REPRISE_TEST_TMP
unset COMPILER_PATH
mkdir -p "$t/store/real" "$t/store/said" # of its own: others compile meanwhile
ln -s "$(gcc -print-prog-name=cc1)" "$t/store/real/cc1"
cp "$B/cc/cc1" "$t/store/cc1"
export COMPILER_PATH=$t/store
said() { find "$t/store/said" -type f | wc -l; }
# compile NAME TEXT FLAG..: to NAME.o, all of one source file
compile() {
    local name=$1
    echo "$2" >"$t/one.c"
    shift 2
    gcc -pipe "$@" -c "$t/one.c" -o "$t/out.o" 2>"$t/$name.err" && mv "$t/out.o" "$t/$name.o"
}
check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@"; then echo "PASS $name"; else echo "FAIL $name: $*"; fi
}
differ() { ! cmp -s "$t/$1.o" "$t/$2.o"; }

compile first "int f(void) { return 1; }" -O1
before=$(said)
check a_text_is_kept [ "$before" = 1 ]
compile again "int f(void) { return 1; }" -O1
check the_same_text_is_compiled_once [ "$(said)" = "$before" ]
check and_gives_the_same cmp "$t/first.o" "$t/again.o"
find "$t/store/said" -type f -exec touch -d '3 days ago' {} +
compile again "int f(void) { return 1; }" -O1
check what_is_asked_for_is_new_again [ -z "$(find "$t/store/said" -type f -mtime +0)" ]
compile text "int f(void) { return 2; }" -O1
check another_text_is_another differ first text
compile flags "int f(void) { return 1; }" -O0
check other_flags_are_another differ first flags
before=$(said)
for round in 1 2; do
    if compile refused "int f(void) { return x; }" -O1; then echo "FAIL refused_$round: accepted"; fi
    check "what_is_refused_is_refused_with_its_line_$round" grep -q "undeclared" "$t/refused.err"
done
check a_refusal_is_not_kept [ "$(said)" = "$before" ]
