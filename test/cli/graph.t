# Graphs in text form.
$ reprise opt graph.ir --passes none
graph @rms(%x: f32[B,8]) -> f32[B,8] where B in [1,64] {
  %0 = mul %x, %x                           : f32[B,8]
  %1 = sum %0 {axis=1, keep=true}           : f32[B,1]
  %2 = const 0x1p-3                         : f32[]
  %3 = mul %1, %2                           : f32[B,1]
  %4 = rsqrt %3                             : f32[B,1]
  %5 = mul %x, %4                           : f32[B,8]
  ret %5
}
$ reprise opt graph.ir --json | events
stage 1
$ reprise eval graph.ir > seeded; reprise eval graph.ir --seed 0 | cmp - seeded; reprise eval graph.ir --seed 1 | cmp -s - seeded; echo $?
1
$ reprise eval graph.ir --sizes B=1 --seed 3
out0[0,0] = -0x1.948626p-7 (-0.0123450933)
out0[0,1] = 0x1.49843ep-6 (0.0201120954)
out0[0,2] = -0x1.fbda9ep-2 (-0.495951146)
out0[0,3] = -0x1.a830dcp-3 (-0.207124442)
out0[0,4] = -0x1.263fbcp+0 (-1.14941001)
out0[0,5] = -0x1.c1d4b8p+0 (-1.75715208)
out0[0,6] = -0x1.845f3p+0 (-1.51707745)
out0[0,7] = 0x1.000aa2p+0 (1.00016224)
$ reprise eval graph.ir --sizes B=1 --seed 3 --json | events
value 8
summary 1
# An event has what its line has: the output, each index, the value to the last bit.
$ reprise eval graph.ir --sizes B=3 --seed 3 | sed 's/ (.*//' > lines; reprise eval graph.ir --sizes B=3 --seed 3 --json | python3 -c 'import json,sys; [print(o["output"] + str(o["index"]).replace(" ", ""), "=", o["text"], *[o["value"]] * (o["value"] != float.fromhex(o["text"]))) for o in map(json.loads, sys.stdin) if o["event"] == "value"]' | diff lines - && wc -l < lines
24
$ reprise eval graph.ir --sizes B=1 --json | field backend seed values
backend "interp"
seed "0"
values 8
$ reprise eval graph.ir --sizes B=5 --seed 9 | wc -l
40
$ for s in fusion kir schedule c schedule-cuda cuda plan; do reprise opt graph.ir --stage $s --isa portable | grep -c rsqrt >/dev/null && echo $s; done
fusion
kir
schedule
c
schedule-cuda
cuda
plan
$ reprise opt graph.ir --stage schedule | sed -n '/^schedule/,$p'
schedule cpu {
  launch grain 283
  %1 grid
    %4 vector tail 8
    %14 serial
}
$ reprise opt graph.ir --stage schedule-cuda | sed -n '/^schedule/,$p'
schedule cuda {
  launch threads 128 per_block 8 per_sm 16 grain 222
  buf held0 register
  %1 half
    %4 thread
    %8 thread
    %18 thread
}
$ reprise opt graph.ir --stage c --isa amx >/dev/null
! reprise: warning: isa=amx becomes avx512: no amx templates yet
$ reprise eval graph.ir --sizes B=2,B=3
! reprise: size 'B' is given twice
? 2
$ reprise eval graph.ir --sizes B=65
! reprise: B=65: a number from 1 to 64 is expected
? 2
$ reprise eval graph.ir --sizes N=1
! reprise: the graph has no size called 'N'
? 2
$ reprise eval graph.ir --sizes B
! reprise: size 'B' is not NAME=NUMBER; write for example T=4,R=2
? 2
$ reprise eval graph.ir --backend cuda:1
! reprise: --backend=cuda:1: expected interp, cpu, cpu-eager or cuda
? 2
$ reprise eval broken.ir
! reprise: broken.ir: line 2: unknown op 'frob'
? 1
$ reprise eval nofile.ir
! reprise: cannot read nofile.ir: No such file or directory
? 1
$ reprise eval - < graph.ir | wc -l
16

# The compiled graph and the library's own kernels agree with the interpreter.
$ reprise eval attention.ir --seed 5 > a; for b in cpu cpu-eager; do reprise eval attention.ir --seed 5 --backend $b > b; python3 -c 'import re; f = lambda n: [float(re.search(r"\((.*)\)", l)[1]) for l in open(n)]; a, b = f("a"), f("b"); print(len(a) == len(b) > 0, max(abs(x - y) for x, y in zip(a, b)) < 1e-4)'; done
True True
True True
# A tensor that cannot be is named with its size.
$ printf 'graph @huge(%%x: f32[4294967296,4294967296]) -> f32[4294967296,4294967296] {\n  %%0 = add %%x, %%x : f32[4294967296,4294967296]\n  ret %%0\n}\n' > huge.ir; reprise opt huge.ir --stage plan
! reprise: line 2: add f32[4294967296,4294967296] takes 7.38e+19 bytes; a tensor may take 2^61 at most
? 3
# What the message says holds: 2^62 bytes are refused, 2^61 are not.
$ sed 's/4294967296,/1073741824,/g; s/4294967296/1073741824/g' huge.ir > over.ir; reprise opt over.ir --stage plan
! reprise: line 2: add f32[1073741824,1073741824] takes 4.61e+18 bytes; a tensor may take 2^61 at most
? 3
$ sed 's/,1073741824/,536870912/g' over.ir > most.ir; reprise opt most.ir --stage plan | head -n 1
plan huge: 1 pieces, 1 compiled, 1 distinct, 1 launches, arena 0 bytes, weights 0 bytes
