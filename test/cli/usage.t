# Every mistake is one line and exit 2.
$ reprise runn
! reprise: unknown command 'runn'; the nearest is run
? 2
$ reprise frobnicate
! reprise: unknown command 'frobnicate'; see reprise help
? 2
$ reprise run
! reprise: run needs more: reprise run MODEL [PROMPT]
? 2
$ reprise run synthetic:tiny
! reprise: no prompt; write it behind the model, or use --prompt-file, --messages or --prompt-ids
? 2
$ reprise run synthetic:tiny a b
! reprise: run: 'b' is one argument too many: reprise run MODEL [PROMPT]
? 2
$ reprise run synthetic:tiny a --prompt-ids 1
! reprise: more than one prompt; give a prompt, --prompt-file, --messages or --prompt-ids, not several
? 2
$ reprise run synthetic:tiny --prompt-file no-such-file
! reprise: cannot read no-such-file: No such file or directory
? 1
$ reprise run synthetic:tiny --prompt-file empty.txt
! reprise: empty.txt:1: no prompt in 3 bytes; write one a line
? 2
$ reprise run synthetic:tiny --prompt-ids 1,x
! reprise: --prompt-ids: 'x' is no token id; write 1,2,3 or [1,2,3] or @FILE
? 2
$ reprise run synthetic:tiny --prompt-ids=[1,2
! reprise: --prompt-ids: the list has no ']'
? 2
$ reprise run synthetic:tiny --prompt-ids -1
! reprise: --prompt-ids: '-1' is no token id; write 1,2,3 or [1,2,3] or @FILE
? 2
$ reprise run synthetic:tiny --prompt-ids ""
! reprise: --prompt-ids: no token id; write 1,2,3 or [1,2,3] or @FILE
? 2
$ reprise run synthetic:tiny hi --max-tokns 3
! reprise: unknown flag --max-tokns; the nearest is --max-tokens
? 2
$ reprise run synthetic:tiny hi --sede 3
! reprise: unknown flag --sede; the nearest is --seed
? 2
$ reprise run synthetic:tiny hi --bogus
! reprise: unknown flag --bogus; see reprise help run
? 2
$ reprise run synthetic:tiny hi --max-length 3
! reprise: unknown flag --max-length; see reprise help run
? 2
$ reprise run synthetic:tiny hi --wxyz
! reprise: unknown flag --wxyz; see reprise help run
? 2
$ reprise run synthetic:tiny hi -z
! reprise: unknown flag -z; see reprise help run
? 2
$ reprise run synthetic:tiny hi --dtype bfloat16
! reprise: --dtype is not supported here: weights have the types of the model's file; a synthetic model takes synthetic:NAME,dtype=bf16
? 3
$ reprise run --model synthetic:tiny
! reprise: --model is not supported here: the model stands behind the command: reprise run MODEL
? 3
$ reprise run synthetic:tiny hi --kv_cache_dtype fp8
! reprise: --kv-cache-dtype is not supported here: the cache has the type that the model's kernels read
? 3
$ reprise run synthetic:tiny hi -dp 2
! reprise: -dp is not supported here: a model runs on one device; run a process for each
? 3
# All that vllm serve has beside them.
$ for f in -tokenizer -quantization -load-format -trust-remote-code -enable-prefix-caching -enable-chunked-prefill -swap-space -cpu-offload-gb -pipeline-parallel-size -data-parallel-size -host -port -served-model-name pp q; do reprise run synthetic:tiny hi -$f 2>&1; done
reprise: --tokenizer is not supported here: a model's file has its own
reprise: --quantization is not supported here: weights have the types of the model's file
reprise: --load-format is not supported here: models are GGUF files, or synthetic:NAME
reprise: --trust-remote-code is not supported here: no code comes with a model's file
reprise: --enable-prefix-caching is not supported here: no request uses the cache of another
reprise: --enable-chunked-prefill is not supported here: prompts are always taken in chunks; see --long-prefill-token-threshold
reprise: --swap-space is not supported here: nothing is moved to the host: a request waits until there is room
reprise: --cpu-offload-gb is not supported here: weights lie on one device
reprise: --pipeline-parallel-size is not supported here: a model runs on one device
reprise: --data-parallel-size is not supported here: a model runs on one device; run a process for each
reprise: --host is not supported here: there is no HTTP server in this version
reprise: --port is not supported here: there is no HTTP server in this version
reprise: --served-model-name is not supported here: there is no HTTP server in this version
reprise: -pp is not supported here: a model runs on one device
reprise: -q is not supported here: weights have the types of the model's file
? 3
$ reprise run synthetic:tiny hi -tp 2
! reprise: tensor_parallel_size=2 is not supported: a model runs on one device; leave it at 1
? 3
$ reprise run synthetic:tiny hi --no-enforce-eager=true
! reprise: --no-enforce-eager takes no value: --enforce-eager=false says the same
? 2
$ reprise run synthetic:tiny hi --no-prompt
! reprise: unknown flag --no-prompt; see reprise help run
? 2
$ reprise run synthetic:tiny hi --max-tokens
! reprise: --max-tokens needs a value: --max-tokens=N
? 2
$ reprise run synthetic:tiny hi --max-tokens=three
! reprise: --max-tokens=three: expected a number from 0 to 16777216
? 2
$ reprise run synthetic:tiny hi --max-tokens=-1
! reprise: --max-tokens=-1: expected a number from 0 to 16777216
? 2
$ reprise run synthetic:tiny hi --temperature -1
! reprise: --temperature=-1: expected a number from 0 to 1000000
? 2
$ reprise run synthetic:tiny hi --top-p nan
! reprise: --top-p=nan: expected a number above 0, up to 1
? 2
$ reprise run synthetic:tiny hi --raw=perhaps
! reprise: --raw=perhaps: expected true or false
? 2
$ reprise run synthetic:tiny hi --stop ''
! reprise: --stop needs a text that is not empty
? 2
$ reprise run synthetic:tiny hi -O4
! reprise: -O4: expected -O0, -O1, -O2 or -O3
? 2
$ reprise run synthetic:tiny hi -Ofast
! reprise: -Ofast: expected -O0, -O1, -O2 or -O3
? 2
$ reprise run synthetic:tiny hi --log-level loud
! reprise: --log-level=loud: expected error, warning, info or debug
? 2
$ reprise run synthetic:tiny hi --enforce-eager false; reprise run synthetic:tiny hi --sealed maybe
! reprise: run: 'false' is one argument too many; a value of --enforce-eager is written --enforce-eager=false
! reprise: run: 'maybe' is one argument too many; a value of --sealed is written --sealed=maybe
? 2
$ reprise run synthetic:tiny hi --logs all,-cache
! reprise: unknown log name '-cache': none is taken away; name those that are wanted
? 2
$ reprise run synthetic:tiny hi --logs recompile
! reprise: unknown log name 'recompile'; did you mean recompiles
? 2
$ reprise score synthetic:tiny
! reprise: score needs --prompt or --prompt-ids
? 2
$ reprise score synthetic:tiny --prompt a
! reprise: score needs --continuation or --continuation-ids
? 2
$ reprise score synthetic:tiny --prompt a --prompt-ids 1 --continuation b
! reprise: give --prompt or --prompt-ids, not both
? 2
$ reprise doctor --temperature 1
! reprise: doctor does not take --temperature; see reprise help doctor
? 2
$ reprise doctor now
! reprise: doctor: 'now' is one argument too many: reprise doctor
? 2
$ reprise cache
! reprise: cache needs more: reprise cache ls|verify|why MODEL|why KEY KEY|dir|prune|export FILE|import FILE
? 2
$ reprise cache lss
! reprise: unknown cache command 'lss'; the nearest is ls
? 2
$ reprise cache ls more
! reprise: cache ls takes no more: 'more' is one argument too many
? 2
$ reprise cache export one two
! reprise: cache export takes one argument: 'two' is one too many
? 2
$ reprise cache why
! reprise: cache why needs a model, or two entries: reprise cache why MODEL, reprise cache why KEY KEY
? 2
$ reprise cache why 09b9f0
! reprise: cache why 09b9f0: one key is compared with another, or a model with all: reprise cache why KEY KEY
? 2
$ reprise cache prune
! reprise: cache prune needs --max-bytes=N: the bytes that may stay, for example 500M
? 2
$ reprise cache prune --max-bytes 99999999999999999999
! reprise: --max-bytes=99999999999999999999: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M or 2G
? 2
$ reprise cache prune --max-bytes 12X
! reprise: --max-bytes=12X: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M or 2G
? 2
$ reprise eval graph.ir --backend gpu
! reprise: --backend=gpu: expected interp, cpu, cpu-eager or cuda
? 2
$ reprise opt graph.ir --passes dce --stage c
! reprise: --passes goes with --stage graph; the other stages run all passes
? 2
$ reprise opt graph.ir --stage kernel
! reprise: --stage=kernel: expected graph, fusion, kir, schedule, c, schedule-cuda, cuda or plan
? 2
$ reprise opt graph.ir --stage fusoin
! reprise: --stage=fusoin: expected graph, fusion, kir, schedule, c, schedule-cuda, cuda or plan; the nearest is fusion
? 2
$ reprise opt graph.ir --passes dec
! reprise: no pass dec; nearest: dce
? 2
$ reprise opt graph.ir --passes canonicalize
! reprise: no pass canonicalize; there are fold, gather, simplify, cse, dce, attention, inplace, fuse_norm_quant, fuse_act_quant, fuse_rope_kvcache, enable_qk_norm_rope_fusion, fuse_qk_norm_rope_kvcache, fuse_attn_quant
? 2
$ reprise opt graph.ir --passes dce,,dce
! reprise: empty name in the list of passes 'dce,,dce'; write a,b,c
? 2
$ reprise help rum
! reprise: no help on 'rum'; the nearest is run
? 2

# With --json the same line is an event, whichever command fails and wherever the flag stands.
$ failing --json
2
$ failing frobnicate --json
2
$ failing run --json
2
$ failing run --json synthetic:tiny hi --max-tokns 3
2
$ failing run synthetic:tiny hi -cc.levle=3 --json=yes
2
$ failing run synthetic:tiny --prompt-ids 1,999 --json
2
$ failing run nofile.gguf hi --json
1
$ failing run synthetic:tiny hi --device cuda --json
3
$ failing score synthetic:tiny --json
2
$ failing eval nofile.ir --json
1
$ failing compile synthetic:tinny --json
2
$ failing explain synthetic:tinny --json
2
$ failing cache lss --json
2
$ failing opt graph.ir --stage kernel --json
2
$ failing serve synthetic:tiny --json
3
$ failing help nothing --json
2
$ REPRISE_CC=$PWD/none/cc failing doctor --json
1
$ reprise run synthetic:tiny --prompt --json --frob 2>/dev/null
? 2
$ reprise run synthetic:tiny --max_tokens --json 2>/dev/null
? 2
$ reprise run -tp --json 2>/dev/null
? 2
$ reprise run --json --json=off 2>/dev/null
? 2
$ reprise run -- synthetic:tiny a b --json 2>/dev/null
? 2
