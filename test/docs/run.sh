#!/bin/bash
# What docs/logs.md and docs/choosing.md show is what the command prints: every ```console block is run line by line, in a
# cache folder of its own (choosing.md: of the page). Times, sizes in MiB, keys and paths of this run are masked on both sides. BLESS=1 rewrites the blocks.
# Then the folder of debug_dump_path: all stages are there, `reprise opt` gives every graph back, and the source is
# that of the code which was compiled.
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export REPRISE=${REPRISE:-$root/build/reprise}
[ -x "$REPRISE" ] || { echo "FAIL docs: there is no $REPRISE"; exit 1; }
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
export LC_ALL=C
unset REPRISE_LOGS REPRISE_ISA REPRISE_CC REPRISE_DEBUG REPRISE_DEBUG_DUMP_PATH
mkdir -p "$tmp/work" && cd "$tmp/work" || exit 1
pass() { echo "PASS $1"; }
fail() { echo "FAIL $1: $2"; }

cat >blocks.py <<'PY'
import os, re, subprocess, sys
doc, bin_dir, cache, bless = *sys.argv[1:4], os.environ.get("BLESS")
env = dict(os.environ, PATH=bin_dir + ":" + os.environ["PATH"])
MASKS = [(r"\b[0-9a-f]{32}\b", "KEY"), (r"[0-9]+(\.[0-9]+)? (ms|secs|s|MiB)\b", r"N \2"), (r"0x[0-9a-f]+", "0xN"),
         (r"(model|head)  *[0-9.]+e?-?[0-9]*x", r"\1 Nx")]
def mask(lines):
    for a, b in MASKS: lines = [re.sub(a, b, l) for l in lines]
    return lines
def run(block, cache):
    out = []
    for cmd in [l for l in block if l.startswith("$ ")]:
        p = subprocess.run(["bash", "-c", cmd[2:]], env=dict(env, REPRISE_CACHE_DIR=cache), text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        out += [cmd] + p.stdout.splitlines()
    return out
text = open(doc).read().split("\n")
new, i, n, bad = [], 0, 0, 0
while i < len(text):
    new.append(text[i])
    i += 1
    if new[-1] != "```console": continue
    end = text.index("```", i)
    want, n = text[i:end], n + 1
    got = run(want, os.path.abspath(cache.replace("N", str(n))))
    if mask(got) == mask(want): new += want
    else:
        bad += 1
        new += got
        if not bless:
            import difflib
            print(*difflib.unified_diff(mask(want), mask(got), "docs", "printed", lineterm=""), sep="\n")
    i = end
if bad and bless:
    open(doc, "w").write("\n".join(new))
    bad = 0
sys.exit(1 if bad or not n else 0)
PY
mkdir -p bin && ln -sf "$REPRISE" bin/reprise
# As from the root of the sources.
ln -s "$(dirname "$REPRISE")" build
ln -s "$root/examples" examples
page() {
    python3 blocks.py "$root/docs/$1.md" "$PWD/bin" "$2" && pass "docs_$1" ||
        fail "docs_$1" "a block of docs/$1.md is not what is printed; BLESS=1 rewrites it"
}
page logs cacheN
if [ -d "$root/examples" ]; then page choosing choosing; else echo "SKIP docs_choosing: this folder carries no sources of examples"; fi

# What docs/seeds.md names is there.
if [ ! -d "$root/src" ]; then echo "SKIP docs_guides: this folder carries no sources"
elif python3 "$root/test/docs/guides.py" "$root"; then pass docs_guides
else fail docs_guides "docs/seeds.md names what is not there"; fi

# Every channel of the table has a section there.
missing=
for name in $(sed -n 's/^ *X([A-Z_]*, "\([a-z_]*\)",.*/\1/p' "$root/include/reprise/log.h"); do
    grep -q "^### .*\`$name\`" "$root/docs/logs.md" || missing+=" $name"
done
[ -z "$missing" ] && pass docs_channels || fail docs_channels "docs/logs.md has no section for$missing"

# The list is that of the command, and each of its lines is one that was printed above.
"$REPRISE" help logs --markdown >channels.md
python3 - "$root/docs/logs.md" channels.md "${BLESS-}" <<'PY' && pass docs_channel_lines || fail docs_channel_lines "BLESS=1 rewrites the list"
import re, sys
path, bless = sys.argv[1], sys.argv[3]
doc, want = open(path).read(), open(sys.argv[2]).read()
have = re.search(r"^\| channel \|.*\n(\|.*\n)*", doc, re.M).group(0)
if have != want and bless: open(path, "w").write(doc.replace(have, want))
mask = lambda z: re.sub(r"[0-9a-f]{32}|[0-9.]+ ms", "N", z)
rows = re.findall(r"^\| `(\w+)` \| .* \| (?:`(.*)`)? ?\|$", want, re.M)
bad = [] if have == want or bless else ["the list differs"]
bad += ["no such line of " + n for n, line in rows if line and mask(f"[{n}] {line}") not in mask(doc)]
if [n for n, line in rows if not line] != ["aot", "autotuning"]: bad += ["a channel has no line"]
print(*bad, sep="\n")
sys.exit(1 if bad or len(rows) < 17 else 0)
PY

# --- the dump of a whole model -----------------------------------------------------------
export REPRISE_CACHE_DIR=$PWD/cache
set -- "$REPRISE" compile synthetic:tiny,layers=3 --isa portable -cc.compile_cache_save_format=unpacked
"$@" --quiet || fail dump "compiling without a dump"
"$@" -cc.debug_dump_path=d --json >out 2>&1
grep -q '"traces":2,"compiles":0' out && pass dump_traces_again ||
    fail dump_traces_again "not 2 traces and 0 compiles: $(grep -o '"traces":[^{]*"kernels"' out)"
want="0_traced.head.ir 0_traced.head.sh 0_traced.model.ir 0_traced.model.sh 1_split.head.submod_000.ir 1_split.head.txt"
for p in 0 1 2; do want+=" 1_split.model.submod_00$p.ir"; done
want+=" 1_split.model.txt"
for p in head.submod_000 model.submod_00{0,1,2}; do
    for s in 1_fold 2_gather 3_simplify 4_cse 5_dce; do want+=" 2_pass.$p.$s.ir"; done
done
for p in head.submod_000 model.submod_00{0,1,2}; do want+=" 3_fusion.$p.txt"; done
for p in head.submod_000 model.submod_00{0,2}; do want+=" 4_kernels.$p.kir"; done
for p in head.submod_000 model.submod_00{0,2}; do want+=" 4_schedule.$p.sched"; done
for p in head.submod_000 model.submod_00{0,1,2}; do
    [ $p = model.submod_001 ] || want+=" 5_source.$p.bench.c" # nothing in it can be timed alone
    want+=" 5_source.$p.c"
done
want+=" 6_plan.head.txt 6_plan.model.txt"
[ "$(ls d/rank_0 | xargs)" = "$want" ] && pass dump_files ||
    fail dump_files "$(diff <(tr ' ' '\n' <<<"$want") <(ls d/rank_0) | grep '[<>]' | xargs)"

differs=
for f in d/rank_0/*.ir; do "$REPRISE" opt --passes none "$f" | cmp -s - "$f" || differs+=" ${f##*/}"; done
[ -z "$differs" ] && pass dump_reads_back || fail dump_reads_back "reprise opt changes$differs"

# Each graph is run as it stands, and gives as much as by the interpreter.
lines=
for f in d/rank_0/*.sh; do
    for by in cpu interp; do REPRISE=$REPRISE sh "$f" --backend $by --sizes T=3 >"$by" 2>&1 || lines+=" ${f##*/}: $(tail -n 1 $by)"; done
    [ "$(wc -l <cpu)" -gt 2 ] && [ "$(wc -l <cpu)" = "$(wc -l <interp)" ] || lines+=" ${f##*/} prints $(wc -l <cpu) lines"
done
[ -z "$lines" ] && pass dump_runs || fail dump_runs "$lines"

# What was compiled, kept beside the code, is made of what the dump shows.
sed -n p d/rank_0/5_source.*_[0-9][0-9][0-9].c >shown
lost=
for f in cache/plans/*/piece.c; do grep -vxqFf shown "$f" && lost+=" $f"; done
[ -z "$lost" ] && [ "$(ls cache/plans/*/piece.c | wc -l)" -ge 3 ] && pass dump_is_what_ran ||
    fail dump_is_what_ran "lines that no dumped source has are in $lost"

# REPRISE_DEBUG=1 needs no path.
REPRISE_DEBUG=1 "$REPRISE" compile synthetic:tiny --isa portable -cc.backend=eager --quiet
[ -f reprise_debug/run-*/rank_0/0_traced.model.ir ] && pass debug || fail debug "no reprise_debug/run-PID/rank_0"
rm -rf reprise_debug
REPRISE_DEBUG=1 "$REPRISE" compile synthetic:tiny -cc.backend=eager --json >out 2>err
where=$(ls -d reprise_debug/run-*/rank_0)
grep -q "\"debug_dump\":\"$where\"" out && [ "$(tail -n 1 err)" = "every stage of compiling is in $where" ] && pass debug_said ||
    fail debug_said "neither summary nor standard error name $where: $(tail -n 1 err)"
"$REPRISE" compile synthetic:tiny -cc.backend=eager --json 2>err | grep -q '"debug_dump":null' && [ ! -s err ] && pass debug_unsaid ||
    fail debug_unsaid "$(cat err)"
