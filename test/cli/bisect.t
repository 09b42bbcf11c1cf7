# A compiler that is wrong: what it makes of a sigmoid is a thousandth too large, and what is left of the graph shows it alone.
$ printf '#!/bin/bash\nset -- "$@"\nfor a in "$@"; do [ -f "$a" ] && [ "${a##*.}" != o ] && sed -i "s/= rp_over(1.0f + rp_expf(\\(.*\\)));/= 1.001f * rp_over(1.0f + rp_expf(\\1));/" "$a"; done\nexec cc "$@"\n' > wrong-cc; chmod +x wrong-cc
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --isa portable --cache-dir wrong
bisect.ir: compiled code differs from the interpreter
kernel poi_fused_sigmoid_0
node %3 = sigmoid %2 : f32[T,48]
  reads %v4: f32[T,1] in [-0.766402483, 0.638399482]
  out0[1,0] is 0.654391587 by the interpreter, 0.655045986 compiled: 1.1e+04 ulps apart, 8 allowed
reduced to 1 node and 1 input by 7 runs: reduced.ir
again: reprise bisect reduced.ir --isa=portable --cache-dir=wrong
? 4
$ REPRISE_CC=./wrong-cc reprise bisect reduced.ir --isa portable --cache-dir wrong | tail -n 2
reduced to 1 node and 1 input by 4 runs: reduced-again.ir
again: reprise bisect reduced-again.ir --isa=portable --cache-dir=wrong
# What it reads is not what it writes.
$ REPRISE_CC=./wrong-cc reprise bisect reduced-again.ir --isa portable --cache-dir wrong --out ./reduced-again.ir
! reprise: --out ./reduced-again.ir: that is what is read; name another file
? 2
$ REPRISE_CC=./wrong-cc reprise bisect - --isa portable --cache-dir wrong < reduced.ir | tail -n 1
again: reprise bisect reduced-again.ir --isa=portable --cache-dir=wrong
$ cat reduced.ir
graph @gate(%v4: f32[T,1]) -> f32[T,1] where T in [1,2] {
  %0 = sigmoid %v4                          : f32[T,1]
  ret %0
}
$ reprise bisect bisect.ir --isa portable
bisect.ir: no difference beyond rounding (1 piece, 5 runs)
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --isa portable --cache-dir wrong --sizes T=7 --out - --json
{"event":"error","code":2,"message":"--json and --out - both want standard output"}
! reprise: --json and --out - both want standard output
? 2
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --isa portable --cache-dir wrong --out other.ir --json | field differs op kernels nodes inputs reduced again
differs true
op "sigmoid"
kernels "poi_fused_sigmoid_0"
nodes 1
inputs 1
reduced "other.ir"
again "reprise bisect other.ir --isa=portable --cache-dir=wrong"
# What says where text goes and how long to search is not of the command that shows it again.
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --isa portable --cache-dir wrong --sizes T=7 --max-runs 99 --quiet --log-level error --logs graph_breaks --out other.ir --json | field again
again "reprise bisect other.ir --isa=portable --cache-dir=wrong"
# The last line is a command of a shell, whatever is in it.
$ cp bisect.ir "it's \$2.ir"; REPRISE_CC=./wrong-cc reprise bisect "it's \$2.ir" --isa portable --cache-dir 'wrong two' -cc '{"splitting_ops": []}' -cc.splitting_ops '["it is"]' --out "it's \$1.ir" | tail -n 1 | tee again
again: reprise bisect 'it'\''s $1.ir' --isa=portable --cache-dir='wrong two' -cc '{"splitting_ops": []}' -cc.splitting_ops='["it is"]'
! reprise: warning: splitting_ops: it is: no op of the graph has this name
$ eval "REPRISE_CC=./wrong-cc $(sed 's/^again: //' again)" | tail -n 2
reduced to 1 node and 1 input by 4 runs: reduced.ir
again: reprise bisect reduced.ir --isa=portable --cache-dir='wrong two' -cc '{"splitting_ops": []}' -cc.splitting_ops='["it is"]'
! reprise: warning: splitting_ops: it is: no op of the graph has this name
# In the body of a loop; where the search ends before it is looked at, the loop's kernels are named.
$ REPRISE_CC=./wrong-cc reprise bisect scan.ir --isa portable --cache-dir wrong
scan.ir: compiled code differs from the interpreter
within body @step of %0 = scan %h, %x {body=@step, carried=1, length=T, sliced=1} : (f32[8], f32[T,8])
kernel poi_fused_sigmoid_0
node %1 = sigmoid %0 : f32[8]
  reads %v2: f32[1] in [-0.766402483, -0.766402483]
  out0[0] is 0.317257822 by the interpreter, 0.317575097 compiled: 1.06e+04 ulps apart, 8 allowed
reduced to 1 node and 1 input by 10 runs: reduced.ir
again: reprise bisect reduced.ir --isa=portable --cache-dir=wrong
? 4
$ REPRISE_CC=./wrong-cc reprise bisect scan.ir --isa portable --cache-dir wrong --json | field op kernels body nodes
op "sigmoid"
kernels "poi_fused_sigmoid_0"
body "body @step of %0 = scan %h, %x {body=@step, carried=1, length=T, sliced=1} : (f32[8], f32[T,8])"
nodes 1
$ REPRISE_CC=./wrong-cc reprise bisect scan.ir --isa portable --cache-dir wrong --max-runs 1 | grep -E '^(kernel|node|within)'
kernel scan (body @step: poi_fused_mul_sigmoid_add_0)
node %0 = scan %h, %x {body=@step, carried=1, length=T, sliced=1} : (f32[8], f32[T,8])
# Runs that end the search: what was seen is told, and what was not seen is not known.
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --isa portable --cache-dir wrong --max-runs 1
bisect.ir: compiled code differs from the interpreter
kernel red_fused_exp_sum_div_sigmoid_mul_0, mm_fused_matmul_1
node %5 = matmul %4, %w {trans_b=false} : f32[T,32]
  reads %4: f32[T,48] in [-0.477215827, 0.478829145]
  reads %w: f32[48,32] in [-0.996701241, 0.998479843]
  out0[0,17] is -1.9882102 by the interpreter, -1.99019861 compiled: 1.67e+04 ulps apart, 160 allowed
no part shows it again, all are left: 6 nodes and 2 inputs by 1 run: reduced.ir
the search ended at its 1 run: --max-runs looks further
again: reprise bisect reduced.ir --isa=portable --cache-dir=wrong
? 4
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --isa portable --cache-dir wrong --max-runs 3 --json | field cut_short unreduced runs nodes
cut_short true
unreduced false
runs 3
nodes 4
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --isa portable --cache-dir wrong --max-runs 1 --level 3 -cc.splitting_ops='["reprise::matmul"]' --json | field cut_short unreduced piece pieces
cut_short true
unreduced true
piece 2
pieces 2
$ reprise bisect bisect.ir --isa portable --max-runs 4
! reprise: bisect.ir: no difference in 4 runs, which ended the search before every part was looked at; allow more (max_runs, --max-runs)
? 1
$ reprise bisect bisect.ir --isa portable --max-runs 5
bisect.ir: no difference beyond rounding (1 piece, 5 runs)
$ reprise bisect bisect.ir --max-runs 0
! reprise: --max-runs=0: expected a number from 1 to 2147483647
? 2
# As git bisect run wants it: 0 is good, 125 not known.
$ for runs in 4 5; do bash -c 'reprise bisect bisect.ir --isa portable --max-runs $0 2>/dev/null; code=$?; case $code in 1|2|3) exit 125;; esac; exit $code' $runs >/dev/null; echo $?; done
125
0
# What it does not compile is right.
$ REPRISE_CC=./wrong-cc reprise bisect bisect.ir --level 0 --json | field differs runs
differs false
runs 3
# Piece by piece of a model.
$ REPRISE_CC=./wrong-cc reprise bisect synthetic:tiny,layers=1 --isa portable --cache-dir wrong --quiet
model.submod_000: no difference beyond rounding (1 piece, 6 runs)
model.submod_001: no difference beyond rounding (1 piece, 4 runs)
head.submod_000: compiled code differs from the interpreter
kernel poi_fused_sigmoid_0
node %26 = sigmoid %22 : f32[R,160]
  reads %v25: f32[R,1] in [-0.766402483, 0.638399482]
  out0[1,0] is 0.654391587 by the interpreter, 0.655045986 compiled: 1.1e+04 ulps apart, 8 allowed
reduced to 1 node and 1 input by 7 runs: reduced.ir
again: reprise bisect reduced.ir --isa=portable --cache-dir=wrong
? 4
$ reprise bisect synthetic:tiny,layers=1 -cc.backend=eager --quiet
model.submod_000: no difference beyond rounding (1 piece, 3 runs)
model.submod_001: no difference beyond rounding (1 piece, 3 runs)
head.submod_000: no difference beyond rounding (1 piece, 3 runs)
$ reprise bisect
! reprise: bisect needs more: reprise bisect FILE.ir|MODEL
? 2
$ reprise bisect nofile.ir
! reprise: cannot read nofile.ir: No such file or directory
? 1
$ reprise bisect bisect.ir --sizes T=65
! reprise: bisect.ir: T=65: a number from 1 to 64 is expected
? 2
$ reprise bisect bisect.ir --out nowhere/x.ir --seed -1
! reprise: --seed=-1: expected a number from 0 to 9223372036854775807
? 2
