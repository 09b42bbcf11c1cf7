# A row for each number of requests; --profile adds what each launch reads, --trace what a trace viewer opens. Numbers are left out.
$ reprise bench synthetic:tiny --batch-size 1,3 --input-len 8 --output-len 4 --num-iters 2 --quiet | sed -E "s,^( *[0-9]+ +[0-9]+ +[0-9]+) .*,\1 ...,"
requests  prompt  output  prefill tok/s (least - most)  decode tok/s (least - most)  ms a step
       1       8       4 ...
       3       8       4 ...
$ reprise bench synthetic:tiny --input-len 8 --output-len 2 --num-iters 1 --profile --quiet | sed -n '3,$p' | sed -E 's/-?[0-9]+\.[0-9]+/N/g; s/ +/ /g' | head -5
times: a decode step after 8 positions, of 32; N ms as served (median), N ms launch by launch (mean; 21 launches)
limit: the packed weights, and nothing else, are read at N GB/s
 ms share MB read GB/s of limit n
 N N % N N N % 1 model.submod_0
 N N % N N N % 1 red_fused_gather_mul_sum_add_rsqrt_quantize_0
$ reprise bench synthetic:tiny --batch-size 2 --num-iters 3 --input-len 16 --output-len 5 --profile --json | events
bench 1
profile 1
summary 1
$ reprise bench synthetic:tiny --batch-size 2 --num-iters 3 --input-len 16 --output-len 5 --json | python3 -c 'import json,sys; o = json.loads(sys.stdin.readline()); print([o[k] for k in ("batch_size", "input_len", "output_len", "num_iters")]); [print(k, o[k]["min"] <= o[k]["median"] <= o[k]["max"]) for k in ("prefill_tok_s", "decode_tok_s")]; print(abs(o["step_ms"] * o["decode_tok_s"]["median"] - 2e3) < 1e-3)'
[2, 16, 5, 3]
prefill_tok_s True
decode_tok_s True
True
$ reprise bench synthetic:tiny --input-len 16 --output-len 1 --num-iters 1 --json | head -1 | field decode_tok_s step_ms
decode_tok_s null
step_ms null
# Each prompt is another, so none finds blocks of the cache that it need not compute: 3 of 64 tokens, once to warm up and twice.
$ reprise bench synthetic:tiny --batch-size 3 --input-len 64 --output-len 12 --num-iters 2 --json | tail -1 | field prefill_tokens
prefill_tokens 576
# MB are millions of the bytes that are told.
$ reprise bench synthetic:tiny,layers=32 --isa portable --input-len 8 --output-len 2 --num-iters 1 --profile --quiet >told.txt; reprise bench synthetic:tiny,layers=32 --isa portable --input-len 8 --output-len 2 --num-iters 1 --profile --json >told.json; python3 -c 'import json; t = [l.split() for l in open("told.txt") if "submod" in l]; p = json.loads(open("told.json").readlines()[1])["pieces"]; print([(a[-1], b["name"]) for a, b in zip(t, p) if a[-1] != b["name"] or a[3] != "%.2f" % (b["bytes"] / 1e6)], len(t) == len(p), max(float(a[3]) for a in t) > 0.5)'; rm told.txt told.json
[] True True
# All tokens of all requests count: they took no longer than the whole.
$ python3 -c 'import json, os, subprocess, time; t = time.monotonic(); out = subprocess.run([os.environ["REPRISE"], "bench", "synthetic:tiny", "--batch-size", "32", "--input-len", "128", "--output-len", "16", "--num-iters", "1", "--json"], capture_output=True).stdout; t = time.monotonic() - t; o = json.loads(out.splitlines()[0]); print(32 * 128 / o["prefill_tok_s"]["max"] < t, o["decode_tok_s"]["min"] > 0)'
True True
# Pieces hold their launches, one behind the other.
$ reprise bench synthetic:tiny --input-len 8 --output-len 2 --num-iters 1 --trace step.json --quiet >/dev/null; python3 -c 'import json; ev = json.load(open("step.json"))["traceEvents"]; print([e["args"]["name"] for e in ev if e["ph"] == "M"]); ev = [e for e in ev if e["ph"] == "X" and e["tid"] == 2]; whole = [e for e in ev if "submod" in e["name"]]; leaf = [e for e in ev if "submod" not in e["name"]]; end = lambda e: e["ts"] + e["dur"] + 1e-3; print(len(whole), len(leaf)); print(all(b["ts"] + 2e-3 >= end(a) for a, b in zip(leaf, leaf[1:]))); print(all(any(p["ts"] - 1e-3 <= l["ts"] and end(l) <= end(p) + 1e-3 for p in whole) for l in leaf))'
['synthetic:tiny,layers=2,dtype=q4_1,seed=0', 'a decode step as served (median)', 'its launches one by one (mean)']
5 21
True
True
$ python3 -c 'import json; ev = [e for e in json.load(open("step.json"))["traceEvents"] if e["ph"] == "X" and e["tid"] == 2 and "submod" in e["name"]]; print(ev[0]["ts"], all(abs(b["ts"] - a["ts"] - a["dur"]) < 2e-3 for a, b in zip(ev, ev[1:])))'
0.0 True
# As many at once as a step takes.
$ reprise bench synthetic:tiny --max-num-seqs 2 --batch-size 2 --input-len 4 --output-len 2 --num-iters 1 --json | head -1 | field batch_size
batch_size 2
# What cannot be measured is told before it is.
$ reprise bench synthetic:tiny --batch-size 1,x
! reprise: --batch-size=1,x: expected numbers from 1 to 1024 such as 1,8,64
? 2
$ reprise bench synthetic:tiny --batch-size 0
! reprise: --batch-size=0: expected numbers from 1 to 1024 such as 1,8,64
? 2
$ reprise bench synthetic:tiny --batch-size 1,
! reprise: --batch-size=1,: expected numbers from 1 to 1024 such as 1,8,64
? 2
$ reprise bench synthetic:tiny --batch-size 100
! reprise: --batch-size=100: a step takes 64 requests; give --max-num-seqs 100
? 2
$ reprise bench synthetic:tiny --num-iters 0
! reprise: --num-iters=0: expected a number from 1 to 1000
? 2
$ reprise bench synthetic:tiny --trace absent/step.json
! reprise: cannot write absent/step.json: No such file or directory
? 1
$ reprise bench synthetic:tiny --input-len 120 --output-len 20 --max-model-len 128
! reprise: --input-len=120 and --output-len=20: a sequence has 128 positions; give --max-model-len 148
? 2
$ reprise bench synthetic:tiny --input-len 125 --output-len 1 --max-model-len 126 --profile
! reprise: --input-len=125 and --output-len=1: a sequence has 126 positions; give --max-model-len 134
? 2
$ reprise bench synthetic:tiny --input-len 120 --output-len 8 --max-model-len 128 --profile --num-iters 1 --quiet | sed -n 's/^\(times: .*\); .* ms as.*/\1/p'
times: a decode step after 120 positions, of 2
# A rate is of steps that have all requests, and there may be none.
$ reprise bench synthetic:tiny --batch-size 4 --input-len 64 --output-len 2 --max-num-batched-tokens 64 --num-iters 1 --quiet | sed 1d
! reprise: no step had all requests at once: the first had ended when the last was through its prompt; ask for more output tokens or fewer requests
$ reprise bench synthetic:tiny --batch-size 12 --input-len 64 --output-len 40 --max-num-batched-tokens 64 --num-iters 1 --quiet | sed -E '1d; s,^( *[0-9]+ +[0-9]+ +[0-9]+) .*,\1 ...,'
      12      64      40 ...
$ reprise bench synthetic:tiny --trace - --json
{"event":"error","code":2,"message":"--trace - would be in the middle of the results; give a file"}
! reprise: --trace - would be in the middle of the results; give a file
? 2
$ reprise bench synthetic:tiny --trace /dev/full --input-len 4 --output-len 1 --num-iters 1 --quiet >/dev/null
! reprise: cannot write /dev/full: No space left on device
? 1
