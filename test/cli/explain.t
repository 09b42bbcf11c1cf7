# Rows that are served alike are one line; as an event the whole is an object.
$ reprise explain synthetic:tiny --max-num-seqs 64 --isa portable | sed 1,/^coverage/d
decode, requests:
      1..2     FULL      decode_r1_q1_t1, every 1 to decode_r2_q1_t2 padding at most 0 rows
      3..4     FULL      decode_r4_q1_t4          padding at most 1 rows
      5..8     FULL      decode_r8_q1_t8          padding at most 3 rows
      9..16    FULL      decode_r16_q1_t16        padding at most 7 rows
     17..64    FULL      decode_r32_q1_t32, every 16 to decode_r64_q1_t64 padding at most 15 rows
prefill of one request, and mixed batches, tokens:
      2..2     PIECEWISE piece_t2                 padding at most 0 rows
      3..4     PIECEWISE piece_t4                 padding at most 1 rows
      5..8     PIECEWISE piece_t8                 padding at most 3 rows
      9..16    PIECEWISE piece_t16                padding at most 7 rows
     17..512   PIECEWISE piece_t32, every 16 to piece_t512 padding at most 15 rows
1085 of 1085 step sizes have a graph, 2.9 % of all rows are padding
$ reprise explain synthetic:tiny --max-num-seqs 2 --max-num-batched-tokens 16 -cc.cudagraph_mode=FULL_DECODE_ONLY --isa portable | sed 1,/^coverage/d
decode, requests:
      1..2     FULL      decode_r1_q1_t1, every 1 to decode_r2_q1_t2 padding at most 0 rows
prefill of one request, and mixed batches, tokens:
      2..16    NONE (FULL_DECODE_ONLY has no graphs for prefill and mixed batches)
2 of 31 step sizes have a graph, 0.0 % of all rows are padding
$ reprise explain synthetic:tiny --max-num-seqs 3 --isa portable --json | python3 -c 'import json,sys; c = json.loads(sys.stdin.read())["coverage"]; print(c["sizes"], c["without_graph"], len(c["runs"]), c["tokens"], c["padding"]); [print(r) for r in c["runs"][:3]]'
1024 0 72 262658 7510
{'kind': 'decode', 'from': 1, 'to': 1, 'mode': 'FULL', 'key': 'decode_r1_q1_t1', 'max_padding': 0, 'reason': ''}
{'kind': 'decode', 'from': 2, 'to': 2, 'mode': 'FULL', 'key': 'decode_r2_q1_t2', 'max_padding': 0, 'reason': ''}
{'kind': 'decode', 'from': 3, 'to': 3, 'mode': 'FULL', 'key': 'decode_r3_q1_t3', 'max_padding': 0, 'reason': ''}
# The launches of a piece are below it where there are several.
$ reprise explain synthetic:tiny --times 3 --isa portable | awk 'on > 1 { piece = $7 ~ /submod/; if (piece && alone) print alone; alone = piece ? $7 : "" } /^times/ || on { on++ }'
model.submod_1

# Its stages go with it: their folder is not named.
$ reprise explain synthetic:tiny --isa portable --graphs 2>&1 | grep -c -e 'every stage' -e rank_0
0
? 1
# Its graphs as of a file, and its ledger, whose weights are those of the summary.
$ reprise explain synthetic:tiny,layers=3 --isa portable --threads 1 --graphs --quiet >told.txt; grep -E '^(graph |graph breaks|submod)' told.txt; grep -c 'refused' told.txt | sed 's/[1-9][0-9]*/some/'; grep -cE '^      %' told.txt | sed 's/[1-9][0-9]*/some/'; reprise explain synthetic:tiny,layers=3 --isa portable --threads 1 --graphs --json --quiet | python3 -c 'import json,sys; e = [json.loads(l) for l in sys.stdin]; print([x["event"] for x in e], [x.get("name") for x in e[1:]]); m = e[0]["memory"]; t = open("told.txt").read(); print([k for k in m if f" {k} {m[k]} bytes" not in t])'; rm told.txt
graph breaks 0, recompiles 0
graph @model: 231 nodes; pieces 6, launches 22; inductor for portable
submod_0, 62 nodes, 59 after the passes; kernels: 3
submod_1, splitting, 10 nodes, 9 after the passes; kernels: 1
submod_2, 88 nodes, 85 after the passes; kernels: 8
submod_3, splitting, 10 nodes, same as submod_1
submod_4, 88 nodes, same as submod_2
submod_5, splitting, 10 nodes, same as submod_1
graph @head: 53 nodes; pieces 1, launches 8; inductor for portable
submod_0, 53 nodes, 53 after the passes; kernels: 8
some
some
['summary', 'graph', 'graph'] ['model', 'head']
[]

# The page's cards are numbers of the summary, and pieces that are equal to others say so.
$ reprise explain synthetic:tiny --isa portable --threads 1 -cc '{"compile_sizes":[1],"inductor_compile_config":{"max_autotune":false,"coordinate_descent_tuning":false}}' --html page.html --quiet >page.txt; grep -oE 'Graph [a-z_0-9]+' page.html | sort -u; rm page.html page.txt
Graph head
Graph model
Graph model_1
$ reprise explain synthetic:tiny,layers=3 --isa portable --threads 1 --html page.html --quiet > page.txt; reprise run synthetic:tiny,layers=3 hi --max-tokens 1 --isa portable --threads 1 --json > summary.json; python3 -c 'import json,re; o = [json.loads(l) for l in open("summary.json")][-1]; c = {k: v for v, k in re.findall(r"<b>([^<]*)</b><span>([^<]*)</span>", open("page.html").read())}; want = {"level": o["level"], "graph mode": o["cudagraph_mode"], "device": o["device"], "instructions": o["isa"], "pieces": o["pieces"]["total"], "distinct": o["pieces"]["distinct"], "kernels": o["kernels"], "captures": o["captures"], "recompiles": o["recompiles"], "graph breaks": o["graph_breaks"]}; print([(k, c.get(k), v) for k, v in want.items() if c.get(k) != str(v)], sorted(set(c) - set(want)), o["captures"] > 0)'; grep -oE '<h3>submod_[0-9]+[^<]*|; [0-9]+ equal pieces [a-z ]*' page.html; rm page.html summary.json
[] ['to load'] True
<h3>submod_0
<h3>submod_1, splitting
; 3 equal pieces are compiled once
<h3>submod_2
; 2 equal pieces are compiled once
<h3>submod_0
# Bytes are in the unit that leaves less than a thousand of it.
$ printf 'graph @g(%%x: f32[249], %%y: f32[250], %%z: f32[250000]) {\n %%0 = neg %%x\n %%1 = neg %%y\n %%2 = neg %%z\n ret %%0, %%1, %%2\n}\n' >sizes.ir; reprise explain sizes.ir --isa portable --html page.html --quiet >/dev/null; grep -oE '>(996|1000|1) [KM]?B<|<a href="#graph.*</a>' page.html | sort -u; rm page.html
<a href="#graph-g">Graph g</a>
>1 KB<
>1 MB<
>996 B<
# Nothing is left of what it looked at.
$ mkdir looked; TMPDIR=$PWD/looked reprise explain synthetic:tiny --isa portable --html looked.html --quiet > looked.txt; TMPDIR=$PWD/looked reprise bisect synthetic:tiny,layers=1 --isa portable --quiet > looked.txt; ls looked; rm looked.html

# A graph: its kernels, what they compute and what was not fused.
# Nodes before the passes and after them.
$ printf 'graph @g(%%x: f32[8]) -> f32[8] {\n %%0 = neg %%x : f32[8]\n %%1 = neg %%0 : f32[8]\n %%2 = exp %%1 : f32[8]\n ret %%2\n}\n' >twice.ir; reprise explain twice.ir --isa portable | grep submod_0
submod_0, 4 nodes, 2 after the passes; kernels: 1
$ reprise explain bisect.ir --isa portable
graph @gate: 8 nodes; pieces 1, launches 2; inductor for portable
guards
  1 <= T <= 64
  input 'x' is f32[T,48]
  input 'w' is f32[48,32]
submod_0, 8 nodes, 8 after the passes; kernels: 2
  0 red_fused_exp_sum_div_sigmoid_mul_0: 768 bytes, items T
      %0 = exp %in0 : f32[T,48]
      %1 = sum %0 {axis=1, keep=true} : f32[T,1]
      %2 = div %0, %1 : f32[T,48]
      %3 = sigmoid %2 : f32[T,48]
      %4 = mul %3, %in0 : f32[T,48]
  1 mm_fused_matmul_1: 6784 bytes, items (T+47)//48
      %5 = matmul %4, %in1 {trans_b=false} : f32[T,32]
  refused %5 = matmul %4, %in1 {trans_b=false} : f32[T,32] with group 0: a product begins a kernel
memory: arena 384 bytes (12288 at the largest sizes), packed weights 0
$ reprise explain bisect.ir --isa portable --sizes T=7 --json | python3 -c 'import json,sys; o = json.loads(sys.stdin.read()); print(o["event"], o["sizes"], [k["bytes"] for k in o["pieces"][0]["kernels"]], "rp_expf" in o["pieces"][0]["kernels"][0]["source"], sorted({s["depth"] for s in o["spans"]}))'
graph {'T': 7} [2688, 8384] True [0, 1, 2]
# What a kernel runs is below it, on the page, too.
$ reprise explain scan.ir --isa portable; reprise explain scan.ir --isa portable --html - | grep -oE '<h3>[^<]*|<summary class="k">[^<]*'
graph @sums: 4 nodes; pieces 1, launches 1; inductor for portable
guards
  1 <= T <= 64
  input 'h' is f32[8]
  input 'x' is f32[T,8]
submod_0, 4 nodes, 4 after the passes; kernels: 1
  0 scan: 224 bytes, items 1
      %0 = scan %in0, %in1 {body=@step, carried=1, length=T, sliced=1} : (f32[8], f32[T,8])
      body @step: 5 nodes; pieces 1, launches 1, times T; arena 0 bytes
        submod_0, 5 nodes, 5 after the passes; kernels: 1
          0 poi_fused_mul_sigmoid_add_0: 128 bytes, items 1
              %0 = mul %in0, %in1 : f32[8]
              %1 = sigmoid %0 : f32[8]
              %2 = add %in0, %1 : f32[8]
memory: arena 32 bytes (64 at the largest sizes), packed weights 0
<h3>submod_0
<summary class="k">scan
<h3>body @step
<h3>submod_0
<summary class="k">poi_fused_mul_sigmoid_add_0
# What is random, and what the host sees, of a graph and of one within it.
$ reprise explain noise.ir --isa portable | grep -E '^ *(random|host) '; reprise explain noise.ir --isa portable --html - | grep -oE '<th>(random|seen)[^/]*|>%[0-9]+ = (philox|while) [^<]*</td><td>[^<]*'
random %2 = philox %0, %key : i64[8]
random %3 = philox %0, %1 : i64[8]: the same bits at each call, since nothing given decides them
host %8 = while %n {body=@step, cond=@more, limit=2147483647} : i32[]: the host reads what decides, also in each replay
        random %1 = philox %n, %0 : i32[]
<th>random bits<
>%2 = philox %0, %key : i64[8]</td><td>
>%3 = philox %0, %1 : i64[8]</td><td>the same bits at each call, since nothing given decides them
<th>seen by the host<
>%8 = while %n {body=@step, cond=@more, limit=2147483647} : i32[]</td><td>the host reads what decides, also in each replay
<th>random bits<
>%1 = philox %n, %0 : i32[]</td><td>
$ reprise explain noise.ir --device cuda --json | python3 -c 'import json,sys; o = json.loads(sys.stdin.read()); print([n["op"] for n in o["random"]], [n["reason"] for n in o["host"]])'
['philox', 'philox'] ['the host reads back from the GPU what decides; where the call is captured the GPU decides']
$ reprise explain bisect.ir --device cuda --numerics exact | head -n 1
graph @gate: 8 nodes; pieces 1, launches 2; cuda for cuda
$ reprise explain bisect.ir --sizes T=65
! reprise: bisect.ir: T=65: a number from 1 to 64 is expected
? 2
$ reprise explain bisect.ir --times 3
! reprise: --times is for models: what a graph takes is not measured
? 2
$ reprise explain synthetic:tiny --sizes T=4
! reprise: --sizes is for graphs: reprise explain FILE.ir
? 2
$ reprise explain bisect.ir --html - --json
{"event":"error","code":2,"message":"--json and --html - both want standard output"}
! reprise: --json and --html - both want standard output
? 2
$ reprise explain bisect.ir --html nowhere/x.html
! reprise: cannot write nowhere/x.html
? 1
