#!/bin/bash
# The checks of `make check` catch what they are for: each is run on a copy with one fault planted.
# They need the sources, so they are left out of a distributed folder.
[ -d src/base ] || { echo "SKIP house: this folder carries no sources"; exit 0; }
copy=$REPRISE_TEST_TMP/copy
mkdir -p "$copy"

# expect NAME SCRIPT TEXT: SCRIPT must refuse the copy with a line that holds TEXT.
expect() {
    local out
    if out=$(cd "$copy" && "scripts/$2" ${4-} 2>&1); then
        echo "FAIL $1: $2 accepted it"
    elif grep -qF -- "$3" <<<"$out"; then
        echo "PASS $1"
    else
        echo "FAIL $1: $2 said ${out:0:200}"
    fi
}
fresh() {
    rm -rf "$copy"
    mkdir -p "$copy"/{include/reprise,src/base,src/ir,src/pass,src/serve,tools,include,docs,examples}
    cp -r scripts ARCHITECTURE.md "$copy"
    cp src/base/env.def "$copy/src/base"
    cp docs/env.md "$copy/docs"
    echo "$2" > "$copy/$1"
}

fresh src/ir/x.c '#include "base/str.h"'
(cd "$copy" && scripts/layers.sh && scripts/banned.sh && scripts/env-doc.sh check) &&
    echo "PASS clean" || echo "FAIL clean: a clean copy is refused"
fresh src/ir/x.c '#include "pass/pass.h"'
expect layer_upward layers.sh "ir may not use pass"
fresh src/base/x.c '#include "config/config.h"'
expect layer_base layers.sh "base may not use config"
fresh tools/x.c '#include "base/str.h"'
expect layer_tools layers.sh "tools may not use base"
fresh src/serve/x.c '#include "ir/graph.h"'
expect layer_serve layers.sh "serve may not use ir"
fresh src/pass/x.c '#include "fuse.h"'
expect layer_rooted layers.sh "is not rooted"
# Ways around a plain #include.
while IFS='|' read -r name file line text; do
    fresh "$file" "$line"
    expect "layer_$name" layers.sh "$file:1: $text"
done <<'TEXT'
angle|src/ir/x.c|#include <pass/pass.h>|ir may not use pass
angle_tools|tools/x.c|#include <base/str.h>|tools may not use base
inc|src/ir/x.c.inc|#include "pass/pass.h"|ir may not use pass
def|src/ir/x.def|#include "pass/pass.h"|ir may not use pass
dots|src/ir/x.c|#include "../pass/pass.h"|"../pass/pass.h" leaves its folder
dots_inside|src/ir/x.c|#include "ir/../pass/pass.h"|"ir/../pass/pass.h" leaves its folder
from_top|src/ir/x.c|#include "src/pass/pass.h"|ir may not use pass
extern|src/ir/x.c|extern rp_status pass_run(const char *name);|declares pass_run of pass
extern_data|src/ir/x.h|    extern const int pass_table[];|declares pass_table of pass
prototype|tools/x.c|void base_free(void *p);|declares base_free of base
TEXT
for line in '#include <sys/stat.h>' 'extern int ir_x;' 'static int pass_x;' '#include <reprise/log.h>' 'extern char **environ;'; do
    fresh src/ir/x.c "$line"
    (cd "$copy" && scripts/layers.sh) >/dev/null && echo "PASS layer allows $line" || echo "FAIL layer allows: $line is refused"
done

# Names that objects define, and those of public headers.
while IFS='|' read -r name file line text; do
    fresh "$file" "$line"
    mkdir -p "$copy/include/reprise" "$copy/build/obj/${file%/*}"
    [ -e "$copy/include/reprise/x.h" ] || echo '#define RP_X 1' >"$copy/include/reprise/x.h"
    [[ $file == *.c ]] || { file=src/ir/y.c; mkdir -p "$copy/build/obj/src/ir"; echo 'int ir_y;' >"$copy/$file"; }
    (cd "$copy" && gcc -c "$file" -o "build/obj/${file%.c}.o")
    if [ "$text" ]; then expect "prefix_$name" prefixes.sh "$text" build
    else (cd "$copy" && scripts/prefixes.sh build) && echo "PASS prefix_$name" || echo "FAIL prefix_$name: refused"; fi
done <<'TEXT'
function|src/ir/x.c|int pass_x(void) { return 0; }|src/ir/x.c: pass_x has no prefix
data|src/ir/x.c|int x;|src/ir/x.c: x has no prefix
tools|tools/x.c|int helper(void) { return 0; }|tools/x.c: helper has no prefix
tools_rp|tools/x.c|int rp_helper(void) { return 0; }|tools/x.c: rp_helper has no prefix
good|tools/x.c|int tool_x; int main(void) { return tool_x; }|
macro|include/reprise/x.h|#define LIMIT 3|LIMIT is not rp_
type|include/reprise/x.h|typedef int limit;|limit is not rp_
good_header|include/reprise/x.h|typedef bool (*rp_x_fn)(void *user);|
TEXT

# How long a file may be.
fresh src/ir/x.c "$(yes | head -n 1001)"
expect length_source length.sh "src/ir/x.c: 1001 lines, 1000"
for f in examples/x.c examples/bindings/x.py; do
    fresh src/ir/x.c ''
    mkdir -p "$copy/examples/bindings"
    yes | head -n 151 >"$copy/$f"
    expect "length_${f##*.}" length.sh "$f: 151 lines, 150"
    yes | head -n 150 >"$copy/$f"
    (cd "$copy" && scripts/length.sh) && echo "PASS length_${f##*.}_most" || echo "FAIL length_${f##*.}_most: 150 lines are refused"
done

fresh src/ir/x.c ''
mkdir "$copy/src/attic"
echo 'int x;' > "$copy/src/attic/x.c"
expect layer_unknown layers.sh 'the room "attic" is not in the table'
for call in 'free(p);' 'strcpy(a, b);' 'x = strncasecmp(a, b, n);' 'x = getenv("A");' 'fprintf(stderr, "x");' 'abort();' 'y(); // why'; do
    fresh src/ir/x.c "$call"
    expect "banned ${call%%[( ]*}" banned.sh "src/ir/x.c:1"
done
# Numbers whose text a decimal comma would change, on one line and on two.
for call in 'x = strtod(z, &end);' 'x = strtof(z, &end);' 'vsnprintf(b, n, fmt, ap);' 'setlocale(LC_ALL, "");' 'snprintf(b, n, "%.1f", x);' \
    'sscanf(z, "%u %lf", &n, &x);' $'snprintf(b, n,\n"%u %a", i, x);'; do
    fresh src/ir/x.c "$call"
    expect "banned number ${call%%[( ]*}" banned.sh "src/ir/x.c:"
done
fresh src/base/number.c 'vsnprintf(b, n, fmt, ap); uselocale(c);'
printf '%s\n' 'snprintf(b, n, "%d%% of %s", i, z);' 'base_buf_printf(b, "%g", x);' 'base_snprintf(b, n, "%g", x);' >"$copy/src/ir/x.c"
(cd "$copy" && scripts/banned.sh) && echo "PASS banned number allows" || echo "FAIL banned number allows: integers and base/number.h are refused"
# The one line that may write to standard error, and a second one beside it.
fresh src/base/log.c "$(grep -h 'fprintf(stderr' src/base/log.c)"
(cd "$copy" && scripts/banned.sh) && echo "PASS banned sink" || echo "FAIL banned sink: the default sink is refused"
grep -h 'fprintf(stderr' src/base/log.c >> "$copy/src/base/log.c"
expect "banned second sink" banned.sh "src/base/log.c:2"
fresh src/ir/x.c '/* free(p) in a comment, */ char *s = "abort()"; d->free(d);'
(cd "$copy" && scripts/banned.sh) && echo "PASS banned allows" || echo "FAIL banned allows: text and members are no calls"
fresh src/base/env.def 'ENV(X, "REPRISE_NEW", "1", "0, 1", "a new one")'
expect env_doc env-doc.sh "REPRISE_NEW" check
# One line is an op, its declaration and its place.
fresh src/ir/ops.def "$(cat src/ir/ops.def; echo 'OP(softsign, REAL, 1, 0, ULPS(2, 2), a / (1.0f + rp_absf(a)), )')"
cp include/reprise/elementwise.h "$copy/include/reprise"
expect ops_header ops-header.sh "rp_softsign(rp_tensor a);" check
(cd "$copy" && scripts/ops-header.sh && scripts/ops-header.sh check) && grep -q ' X(softsign)' "$copy/include/reprise/elementwise.h" &&
    echo "PASS ops_header writes" || echo "FAIL ops_header writes: the header lacks an op"
# Its name stands in the list of ops, and a call that makes tensors tells where it was made.
cp docs/ir.md "$copy/docs"
cp include/reprise/tensor.h "$copy/include/reprise"
expect ops_told_op ops-told.sh "docs/ir.md: the list of ops lacks softsign"
sed -i 's/`where %bool/`softsign`, `where %bool/' "$copy/docs/ir.md"
expect ops_told_fact ops-told.sh "docs/ir.md: ULPS is true of 'cos "
sed -i 's/^| `ULPS` | `/&softsign /' "$copy/docs/ir.md"
(cd "$copy" && scripts/ops-told.sh) && echo "PASS ops_told" || echo "FAIL ops_told: all is told, and refused"
echo 'RP_API void rp_minmax(rp_tensor a, int axis, rp_tensor *least, rp_tensor *most);' >> "$copy/include/reprise/tensor.h"
expect ops_told_call ops-told.sh "tensor.h: rp_minmax has no macro"

# The rows of facts have their ops, no others, and none is of a fact that there is not.
while IFS='|' read -r name change text; do
    cp docs/ir.md "$copy/docs"
    cp src/ir/ops.def "$copy/src/ir"
    sed -i "$change" "$copy/docs/ir.md"
    expect "ops_told_$name" ops-told.sh "docs/ir.md: $text"
done <<'TEXT'
row|/^. `RANDOM` ./d|RANDOM is true of 'philox', not of ''
more|s/^\(. `READ_BY_HOST` . `\)/\1call /|READ_BY_HOST is true of 'cond while', not of 'call cond while'
novel|s/^\(. \)`RANDOM` .*/&\n\1`NOVEL` \1`add` \1/|NOVEL is true of '', not of 'add'
TEXT

# The source hash moves with any byte or name of the sources, and with nothing else.
fresh src/ir/x.c 'int a;'
hash_of() { (cd "$copy" && scripts/embed.sh out.S "$1" "$2" && grep -o '[0-9a-f]\{64\}' out.S); }
a=$(hash_of "" src/ir/x.c)
touch -d 2001-01-01 "$copy/src/ir/x.c" "$copy/out.S"
b=$(hash_of "" src/ir/x.c)
[ -n "$a" ] && [ "$a" = "$b" ] && [ "$copy/out.S" -ot "$copy/scripts/embed.sh" ] &&
    echo "PASS hash stays" || echo "FAIL hash stays: $a, then $b, or an equal file was written again"
echo 'int b;' > "$copy/src/ir/x.c"
c=$(hash_of "" src/ir/x.c)
mv "$copy/src/ir/x.c" "$copy/src/ir/y.c"
d=$(hash_of "" src/ir/y.c)
[ "$a" != "$c" ] && [ "$c" != "$d" ] && echo "PASS hash moves" || echo "FAIL hash moves: $a $c $d"
# Each file that decides what is compiled, or how weights are packed, moves its hash; no other file does. A file is named in
# the Makefile or it lies in a room that is said here not to decide: settings of config are in the key as values, hal and
# graph act on what is made, cache only keeps it.
fresh src/ir/x.c ''
cp Makefile "$copy"
cp -r src include "$copy"
rm "$copy/src/ir/x.c"
listed() { make -s -C "$copy" --eval='print-%: ; @echo $($*)' "print-$1" 2>/dev/null; }
key=$(listed KEY_SRC) pack=$(listed PACK_SRC)
hashes() { (cd "$copy" && scripts/embed.sh out.S "" "$key" "$pack" && grep -o '[0-9a-f]\{64\}' out.S | xargs); }
read -r key0 pack0 < <(hashes)
# All of them are read for it, and a sample shows that what is read counts.
mkdir -p "$copy/bin"
printf '#!/bin/sh\nprintf "%%s\\n" "$@" >>"$READ"\nexec %s "$@"\n' "$(command -v sha256sum)" >"$copy/bin/sha256sum"
chmod +x "$copy/bin/sha256sum"
(cd "$copy" && PATH=$copy/bin:$PATH READ=$copy/read scripts/embed.sh out.S "" "$key" "$pack")
unread=$(comm -13 <(sort -u "$copy/read") <(xargs -n 1 <<<"$key $pack" | sort -u) | xargs)
[ -z "$unread" ] && [ "$(wc -l <"$copy/read")" -gt 200 ] && echo "PASS hash reads every file" || echo "FAIL hash reads every file:$unread"
still=
for f in $(xargs -n 1 <<<"$key" | awk 'NR % 9 == 1') $pack; do
    echo >> "$copy/$f"
    read -r key1 pack1 < <(hashes)
    case " $key " in *" $f "*) [ "$key1" != "$key0" ] || still="$still $f" ;; *) [ "$key1" = "$key0" ] || still="$still $f" ;; esac
    case " $pack " in *" $f "*) [ "$pack1" != "$pack0" ] || still="$still $f" ;; *) [ "$pack1" = "$pack0" ] || still="$still $f" ;; esac
    cp "$f" "$copy/$f"
done
[ -n "$key0" ] && [ "$key0" != "$pack0" ] && [ -z "$still" ] && echo "PASS hash of each file" || echo "FAIL hash of each file:$still"
open=
for f in $(cd "$copy" && find src include -type f | LC_ALL=C sort); do
    case " $key " in *" $f "*) continue ;; esac
    case $f in
    src/config/*|src/cache/*|src/hal/*|src/device/*|src/graph/*|src/autograph/*|src/front/*|src/backend/*|src/api/*|src/serve/*|src/base/*) ;;
    src/engine/*) ;; # all but plans
    *) open="$open $f" ;;
    esac
done
for f in src/engine/plans.c src/base/str.c src/gen/embed/prelude.h src/pass/simplify.rules src/model/llama.c src/ir/ops.def \
    src/compile/toolchain.c include/reprise/tensor.h; do
    case " $key " in *" $f "*) ;; *) open="$open $f" ;; esac
done
for f in src/serve/http.c tools/run.c src/engine/scheduler.c src/hal/cpu/pool.c; do
    case " $key $pack " in *" $f "*) open="$open not:$f" ;; esac
done
for f in src/gen/pack.c src/plan/pack.c src/engine/packed.c; do
    case " $pack " in *" $f "*) ;; *) open="$open $f" ;; esac
done
[ -z "$open" ] && echo "PASS deciding files" || echo "FAIL deciding files:$open"

# Scripts of targets that no test runs otherwise: what they say of what is wrong, and their exit code.
# is NAME WANT GOT
is() { [ "$2" = "$3" ] && echo "PASS $1" || echo "FAIL $1: '${3:0:300}' for '${2:0:300}'"; }
fresh src/ir/x.c ''
mkdir -p "$copy/b/test/fuzz" "$copy/test/fuzz/corpus/good"
printf '#!/bin/sh\necho "$@"\n' >"$copy/b/test/fuzz/good"
printf '#!/bin/sh\necho found; exit 77\n' >"$copy/b/test/fuzz/bad"
echo 'not a program' >"$copy/b/test/fuzz/notes"
chmod +x "$copy/b/test/fuzz"/{good,bad}
is fuzz "FAIL fuzz/bad: see b/found/bad.log
PASS fuzz/good 1" "$(cd "$copy" && scripts/fuzz.sh b 5) $?"
is fuzz_args "-max_total_time=5 -timeout=10 -rss_limit_mb=2048 -artifact_prefix=b/found/good- b/corpus/good test/fuzz/corpus/good" \
    "$(cat "$copy/b/found/good.log")"
rm "$copy/b/test/fuzz/bad"
is fuzz_good "PASS fuzz/good 0" "$(cd "$copy" && scripts/fuzz.sh b 5) $?"

# Planted bugs, where `make` refuses #error and the one test fails where it reads "wrong".
fresh src/ir/x.c 'right'
mkdir -p "$copy/test/unit" "$copy/test/mutants" "$copy/build"
echo 'int x;' >"$copy/test/unit/x.c"
printf '#!/bin/sh\ncd "$2" && ! grep "#error" src/ir/x.c\n' >"$copy/make"
printf '#!/bin/sh\ngrep -q wrong src/ir/x.c && printf "FAIL unit/x/reads: $ONLY\nFAIL s/reads\n"\ncase $ONLY in *early*) echo "FAIL unit/early/runs: always" ;; esac; echo "1 passed"\n' >"$copy/test/run.sh"
chmod +x "$copy/make" "$copy/test/run.sh"
bug() { # NAME TEST FROM TO
    printf '# test: %s\n# what it does\n--- a/src/ir/x.c\n+++ b/src/ir/x.c\n@@ -1 +1 @@\n-%s\n+%s\n' "${@:2}" >"$copy/test/mutants/$1.patch"
}
plant() { (cd "$copy" && MAKE=$copy/make scripts/mutants.sh build "$@"); }
bug caught 'unit/x reads' right wrong
bug any 'unit/x' right wrong
bug suite 's reads' right wrong
mkdir "$copy/test/s" && touch "$copy/test/s/run.sh"
is mutants_caught "caught   any: unit/x/reads: ^test/(unit/x)(/run.sh)?\$
caught   caught: unit/x/reads: ^test/(unit/x)(/run.sh)?\$
caught   suite: s/reads
3 caught, 0 survived, 0 broken 0" "$(plant) $?"
bug another 'unit/x writes' right wrong
bug harmless 'unit/x reads' right left
is mutants_survive "survived another: unit/x writes: 1 passed
survived harmless: unit/x reads: 1 passed
0 caught, 2 survived, 0 broken 1" "$(plant 'another|harmless') $?"
bug moved 'unit/x reads' left wrong
bug unbuilt 'unit/x reads' right '#error'
bug untested 'unit/y reads' right wrong
is mutants_broken "broken   moved: does not apply
broken   unbuilt: does not build: #error
broken   untested: its first line names no test
0 caught, 0 survived, 3 broken 1" "$(plant 'moved|unbuilt|untested') $?"
echo 'int x;' >"$copy/test/unit/early.c"
bug early 'unit/early runs' right wrong
is mutants_early "broken   early: without it, too: FAIL unit/early/runs: always
0 caught, 0 survived, 1 broken 1" "$(plant early) $?"
is mutants_left right "$(cat "$copy/src/ir/x.c")"

fresh src/ir/x.c ''
(cd "$copy" && scripts/compile-commands.sh 'cc -DA="b\"" -I.' a.c b.c)
is compile_commands "[{\"directory\": \"$copy\", \"file\": \"a.c\", \"command\": \"cc -DA=\\\"b\\\\\\\"\\\" -I. -c a.c\"},
{\"directory\": \"$copy\", \"file\": \"b.c\", \"command\": \"cc -DA=\\\"b\\\\\\\"\\\" -I. -c b.c\"}]" "$(cat "$copy/compile_commands.json")"

# A header that wants another one in front, of each kind.
for f in include/reprise/x.h src/ir/x.h tools/x.h; do
    fresh $f 'int rp_x(size_t n);'
    expect "header ${f%/*}" headers.sh "$f: does not stand alone"
done
fresh include/reprise/x.h 'int rp_x(int class);'
expect "header c++" headers.sh "include/reprise/x.h: does not stand alone (g++"
fresh src/ir/x.h '#include <stddef.h>
int ir_x(size_t n);'
echo 'int rp_x(int n);' >"$copy/include/reprise/x.h"
(cd "$copy" && scripts/headers.sh) && echo "PASS header allows" || echo "FAIL header allows: one that stands alone is refused"

# What lint.sh looks at itself, with libraries that the other checks have nothing to say about.
lint() { (cd "$copy" && scripts/lint.sh b 2>&1 | grep -A 3 -e '^FAILED' -e 'exported' -e 'not in' -e 'version of' -e 'clear' | head -n 4); }
libraries() { # ARCHIVE SHARED: C of both
    mkdir -p "$copy/b"
    for f in "$copy"/scripts/*.sh; do [ "${f##*/}" = lint.sh ] || printf '#!/bin/sh\n' >"$f"; done
    echo "$1" >"$copy/a.c" && echo "$2" >"$copy/s.c" && echo 'RP_0.1 { global: rp_*; other; local: *; };' >"$copy/map"
    (cd "$copy" && gcc -c a.c -o a.o && rm -f b/libreprise.a && ar rc b/libreprise.a a.o &&
        gcc -shared -fPIC s.c -Wl,--version-script=map -o b/libreprise.so.0)
}
fresh src/ir/x.c 'rp_status rp_x(int a, rp_error *err) {
    base_error_clear(err);
}
rp_status rp_y(int a) {
    return a;
}'
libraries 'int rp_a;' 'int rp_a;'
(cd "$copy" && scripts/lint.sh b) >/dev/null && echo "PASS lint" || echo "FAIL lint: nothing is wrong: $(lint)"
libraries 'int rp_a; int other;' 'int rp_a;'
expect lint_archive lint.sh 'exported, but not rp_: other' b
libraries 'int rp_a;' 'int rp_a; int other;'
expect lint_shared lint.sh 'exported, but not rp_: other' b
libraries 'int rp_a; int rp_b;' 'int rp_a;'
expect lint_lacks lint.sh 'not in the shared library: rp_b' b
libraries 'int rp_a;' 'int rp_a; int rp_b;'
expect lint_more lint.sh 'not in the archive: rp_b' b
libraries 'int rp_a;' 'int rp_a;'
printf 'rp_status rp_x(int a, rp_error *err) {\n    return a;\n}\n' >"$copy/src/ir/x.c"
expect lint_clear lint.sh 'src/ir/x.c: rp_x(int does not begin with base_error_clear(err)' b

# Lines of a room, also those of a file that is compiled twice, once.
fresh src/ir/x.c 'int main(int n, char **v) {
    if (n > 5)
        return 1;
    return !v;
}'
mkdir -p "$copy/b/obj/src/ir"
(cd "$copy" && gcc --coverage -c src/ir/x.c -o b/obj/src/ir/x.o && gcc --coverage b/obj/src/ir/x.o -o x && ./x)
is cover "ir          75.0 % of 4 lines" "$(cd "$copy" && scripts/cover.sh b)"

# What `make help` lists is a target.
lost=
for t in $(scripts/help.sh | awk -F '  +' '/^make / { print substr($1, 6) }'); do
    grep -qE "^([a-z_-]+ )*$t( [a-z_-]+)* *:" Makefile || lost+=" $t"
done
is help_targets "" "$lost"

# Every planted bug of test/mutants/ still has its place, and the test that it names is there.
lost=
for p in test/mutants/*.patch; do
    command -v patch >/dev/null || break
    patch -p1 -F3 -s -f --dry-run -r - <"$p" >/dev/null 2>&1 || lost+=" ${p##*/}"
    read -r _ _ t _ <"$p"
    t=${t%@cuda} # the same program on a GPU
    [ -f "test/$t.c" ] || [ -f "test/$t/run.sh" ] || lost+=" ${p##*/} (no test/$t)"
done
if ! command -v patch >/dev/null; then echo "SKIP mutants apply: no patch(1) here"
elif [ -z "$lost" ]; then echo "PASS mutants apply"
else echo "FAIL mutants apply: they no longer do:$lost"; fi

# A table of bench/results/ is whole: what the scripts name as needed is what was measured.
lacking() (
    samples=$copy/samples
    mkdir -p "$samples"
    . bench/lib.sh
    put a 1.5
    put b none 2>/dev/null
    lacks a b c | xargs
)
got=$(lacking)
[ "$got" = "b c" ] && grep -q '^missing=$(lacks ' bench/cpu.sh && echo "PASS bench lacks" || echo "FAIL bench lacks: got '$got'"
# Every line of bench/front.sh has a number of ours.
got=$(SHORT=1 PEERS='' bench/front.sh "${B:-build}" 2>/dev/null | grep -cE '^\| [^|]+ \| [0-9.e+]+ \([^|]+\) \| - \| - \|$')
[ "$got" = 7 ] && echo "PASS bench front" || echo "FAIL bench front: $got lines of 7"

fresh src/ir/y.c 'int b;'
cat > "$copy/use.c" <<'TEXT'
#include <stdio.h>
#include <stddef.h>
extern const char rp_embed_y_c[];
extern const size_t rp_embed_y_c_size;
int main(void) { printf("%zu %d %s", rp_embed_y_c_size, rp_embed_y_c[rp_embed_y_c_size], rp_embed_y_c); }
TEXT
if hash_of src/ir/y.c "" >/dev/null; (cd "$copy" && gcc use.c out.S -o use) 2>"$copy/err"; then
    got=$(cd "$copy" && ./use)
    [ "$got" = "7 0 int b;" ] && echo "PASS embed" || echo "FAIL embed: got '$got'"
else
    echo "FAIL embed: $(head -n 1 "$copy/err")"
fi

# pip's own temporary files lie where what is left of a killed fetch is looked for.
mkdir -p "$REPRISE_TEST_TMP/bin"
printf '#!/bin/sh\necho "$TMPDIR" >"$0.said"; exit 1\n' >"$REPRISE_TEST_TMP/bin/python3"
chmod +x "$REPRISE_TEST_TMP/bin/python3"
PATH=$REPRISE_TEST_TMP/bin:$PATH REPRISE_CACHE_DIR=$REPRISE_TEST_TMP/fetched scripts/fetch-model.sh >/dev/null 2>&1
case $(cat "$REPRISE_TEST_TMP/bin/python3.said") in
"$REPRISE_TEST_TMP"/fetched/models/*.tmp-*) echo "PASS fetch_tmpdir" ;;
*) echo "FAIL fetch_tmpdir: pip unpacks in $(cat "$REPRISE_TEST_TMP/bin/python3.said")" ;;
esac
