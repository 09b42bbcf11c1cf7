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
$ reprise explain synthetic:tiny --max-num-seqs 3 --isa portable --json | python3 -c 'import json,sys; c = json.loads(sys.stdin.read())["coverage"]; print(c["sizes"], c["without_graph"], len(c["runs"])); [print(r) for r in c["runs"][:3]]'
1024 0 72
{'kind': 'decode', 'from': 1, 'to': 1, 'mode': 'FULL', 'key': 'decode_r1_q1_t1', 'max_padding': 0, 'reason': ''}
{'kind': 'decode', 'from': 2, 'to': 2, 'mode': 'FULL', 'key': 'decode_r2_q1_t2', 'max_padding': 0, 'reason': ''}
{'kind': 'decode', 'from': 3, 'to': 3, 'mode': 'FULL', 'key': 'decode_r3_q1_t3', 'max_padding': 0, 'reason': ''}
# The launches of a piece are below it where there are several.
$ reprise explain synthetic:tiny --times 3 --isa portable | awk 'on > 1 { piece = $7 ~ /submod/; if (piece && alone) print alone; alone = piece ? $7 : "" } /^times/ || on { on++ }'
model.submod_1
