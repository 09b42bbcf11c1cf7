# Settings: unknown ones name the nearest (exit 2), known ones without machinery say why (exit 3).
$ reprise run synthetic:tiny hi -cc.levle=3
! reprise: unknown setting levle; did you mean level? 'reprise help config' lists all
? 2
$ reprise run synthetic:tiny hi -cc.level=4
! reprise: level=4: expected 0 to 3 or one of NO_COMPILATION, NONE, DYNAMO_AS_IS, STOCK_TORCH_COMPILE, DYNAMO_ONCE, DYNAMO_TRACE_ONCE, PIECEWISE, VLLM_COMPILE
? 2
$ reprise run synthetic:tiny hi --level 4
! reprise: level=4: expected 0 to 3 or one of NO_COMPILATION, NONE, DYNAMO_AS_IS, STOCK_TORCH_COMPILE, DYNAMO_ONCE, DYNAMO_TRACE_ONCE, PIECEWISE, VLLM_COMPILE
? 2
$ reprise run synthetic:tiny hi -cc '{"level":'
! reprise: configuration is not JSON: unexpected token near end of file at line 1 column 9; write {"level":3}
? 2
$ reprise run synthetic:tiny hi -cc '[]'
! reprise: configuration must be a JSON object, as in {"level":3}
? 2
$ reprise run synthetic:tiny hi -cc.
! reprise: -cc. needs the name of a setting: -cc.level=3
? 2
$ reprise run synthetic:tiny hi -cc.level
! reprise: -cc.level needs a value: -cc.level=VALUE
? 2
$ reprise run synthetic:tiny hi --level 2 -cc.backend=mine
! reprise: backend=mine: models take only inductor and eager, at each level; functions (rp_jit_new) and graphs (rp_compile) take others
? 2
$ reprise run synthetic:tiny hi --level 1 -cc.backend=mine
! reprise: backend=mine: models take only inductor and eager, at each level; functions (rp_jit_new) and graphs (rp_compile) take others
? 2
$ reprise run synthetic:tiny hi --max-tokens 1 --level 3 -cc.splitting_ops='["unified_attention"]' --json | field cudagraph_mode skips
cudagraph_mode "NONE"
skips [{"what": "splitting_ops: unified_attention", "reason": "no op of the graph has this name"}, {"what": "cudagraph_mode=PIECEWISE becomes NONE", "reason": "splitting_ops is empty, so attention is inside the one piece"}, {"what": "prefill or mixed step", "reason": "cudagraph_mode is NONE", "count": 1}]
! reprise: warning: splitting_ops: unified_attention: no op of the graph has this name
$ reprise run synthetic:tiny hi --cudagraph-mode PIECEWIZE
! reprise: cudagraph_mode="PIECEWIZE": expected 0 to 2 or one of NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE
? 2
$ reprise run synthetic:tiny hi -cc.tensor_parallel_size=2
! reprise: tensor_parallel_size=2 is not supported: a model runs on one device; leave it at 1
? 3
$ reprise run synthetic:tiny hi --tensor-parallel-size 2
! reprise: tensor_parallel_size=2 is not supported: a model runs on one device; leave it at 1
? 3
$ reprise run synthetic:tiny hi --block-size=32
! reprise: kv_cache_block_size=32 is not supported: attention kernels read blocks of 16; leave it at 16
? 3
$ reprise run synthetic:tiny hi -cc.compile_mm_encoder=true
! reprise: compile_mm_encoder=true is not supported: no architecture here has a vision encoder; leave it at false
? 3
$ reprise run synthetic:tiny hi -cc.recompile_limit=1 -cc.gpu_memory_utilization=0.9
! reprise: recompile_limit=1 is not supported: sizes of a model or a graph are symbols, so nothing is compiled again; functions (rp_jit_new) take it; leave it at 8
? 3
$ reprise run synthetic:tiny hi -cc.custom_ops=none -cc.gpu_memory_utilization=0.95
! reprise: gpu_memory_utilization=0.95 is not supported on cpu, which has no memory of its own: the KV cache is as large as max_num_seqs and max_model_len ask for; leave it at 0.9
? 3
$ reprise run synthetic:tiny hi -cc.performance_mode=throughput
! reprise: performance_mode=throughput is not supported: balanced captures up to the largest batch, too; use it
? 3
$ reprise run synthetic:tiny hi --sealed=maybe
! reprise: sealed="maybe": expected one of off, warn, fatal
? 2
# Without a driver, and with one that has fewer GPUs; the emulated one has one.
$ reprise run synthetic:tiny hi --device cuda:99 2>&1 | grep -c -e 'no CUDA driver (libcuda.so.1) on this machine; install' -e 'no cuda:99 here'
1
$ reprise run synthetic:tiny hi --device cuda:99 2>/dev/null
? 3
$ LD_LIBRARY_PATH=$EMULATED_GPU reprise run synthetic:tiny hi --device cuda:7
! reprise: no cuda:7 here; there is cuda:0 alone
? 3
$ LD_LIBRARY_PATH=$EMULATED_GPU reprise doctor | grep gpu
ok   gpu       emulated GPU: sm_90, driver of CUDA 13.0, 17.2 GB
# A GPU that others have, that is full, that fails, a driver that is old, a kernel that does not compile.
$ LD_LIBRARY_PATH=$EMULATED_GPU EMU_FAIL=cuDevicePrimaryCtxRetain:46 reprise run synthetic:tiny hi --device cuda:0
! reprise: cuda:0 (emulated GPU) is busy: another process has it for itself, or its compute mode forbids all (nvidia-smi -q -d COMPUTE); wait, name another GPU in CUDA_VISIBLE_DEVICES, or use --device cpu
? 1
$ LD_LIBRARY_PATH=$EMULATED_GPU EMU_FAIL=cuDevicePrimaryCtxRetain:2 reprise run synthetic:tiny hi --device cuda:0
! reprise: cuda:0 (emulated GPU) has no memory left for a context: nvidia-smi shows who has it; end one of them, name another GPU in CUDA_VISIBLE_DEVICES, or use --device cpu
? 1
$ LD_LIBRARY_PATH=$EMULATED_GPU EMU_VERSION=12010 reprise run synthetic:tiny hi --device cuda:0
! reprise: the CUDA driver is of CUDA 12.1, which is too old; update it to 12.4
? 3
$ LD_LIBRARY_PATH=$EMULATED_GPU REPRISE_NVRTC=$EMULATED_GPU/libcuda.so.1 EMU_BREAK=mm_fused_matmul_1 reprise run synthetic:tiny hi --device cuda:0 --cache-dir broken 2>&1 | sed 's/:[0-9]*:[0-9]*:/:N:N:/'
reprise: NVRTC does not compile kernel mm_fused_matmul_1 (code 6): generated.cu:N:N: error: 'no_such_thing' was not declared in this scope; REPRISE_LOGS=output_code prints the text, REPRISE_NVRTC names another library
$ LD_LIBRARY_PATH=$EMULATED_GPU REPRISE_NVRTC=$EMULATED_GPU/libcuda.so.1 EMU_BREAK=mm_fused_matmul_1 reprise run synthetic:tiny hi --device cuda:0 --cache-dir broken 2>/dev/null
? 1
$ LD_LIBRARY_PATH=$EMULATED_GPU REPRISE_NVRTC=$EMULATED_GPU/libcuda.so.1 EMU_LOSE=200:700 reprise run synthetic:tiny hi --device cuda:0 --max-tokens 60 --ignore-eos --quiet >/dev/null
! reprise: cuda:0 is lost to this process: waiting for an event: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, 700), last launched: graph step decode_r1_q1_t1; close what uses it and start a new process (CUDA_LAUNCH_BLOCKING=1 with cudagraph_mode=NONE names the kernel), or use --device cpu
? 1
$ mkdir none; : > none/libcuda.so.1; LD_LIBRARY_PATH=none reprise doctor | grep gpu; rm -r none
ok   gpu       none: no CUDA driver (libcuda.so.1) on this machine; install NVIDIA's driver or use --device cpu
$ reprise run synthetic:tiny hi --device gpu
! reprise: device=gpu: expected cpu, null, cuda or cuda:N
? 2
$ reprise run synthetic:tiny hi -cc.use_cudagraph=false --cudagraph-mode=FULL
! reprise: use_cudagraph=false contradicts cudagraph_mode=FULL; give one of the two
? 2

# All forms of one setting, in any case; the last one wins; a typed --level replaces -O2.
$ reprise run synthetic:tiny hi --max-tokens 1 --json | field level cudagraph_mode
level 3
cudagraph_mode "FULL_AND_PIECEWISE"
$ reprise run synthetic:tiny hi --max-tokens 1 --json --level 2 | field level cudagraph_mode
level 2
cudagraph_mode "NONE"
$ reprise run synthetic:tiny hi --max-tokens 1 --json --level=3 | field level cudagraph_mode
level 3
cudagraph_mode "PIECEWISE"
$ reprise run synthetic:tiny hi --max-tokens=1 --json -O1 | field level cudagraph_mode
level 3
cudagraph_mode "PIECEWISE"
$ reprise run synthetic:tiny hi --max-tokens=1 --json -O 0 | field level cudagraph_mode
level 0
cudagraph_mode "NONE"
$ reprise run synthetic:tiny hi --max-tokens=1 --json -cc '{"level":3,"cudagraph_mode":"full"}' | field level cudagraph_mode
level 3
cudagraph_mode "FULL"
$ reprise run synthetic:tiny hi --max-tokens=1 --json '-cc={"mode":3,"cudagraph_mode":"None"}' | field level cudagraph_mode
level 3
cudagraph_mode "NONE"
$ reprise run synthetic:tiny hi --max-tokens=1 --json -cc 1 | field level cudagraph_mode
level 1
cudagraph_mode "NONE"
$ reprise run synthetic:tiny hi --max-tokens=1 --json -cc=3 | field level cudagraph_mode
level 3
cudagraph_mode "PIECEWISE"
$ reprise run synthetic:tiny hi -cc 4
! reprise: level=4: expected 0 to 3 or one of NO_COMPILATION, NONE, DYNAMO_AS_IS, STOCK_TORCH_COMPILE, DYNAMO_ONCE, DYNAMO_TRACE_ONCE, PIECEWISE, VLLM_COMPILE
? 2
$ reprise run --max-tokens=1 --json synthetic:tiny --cudagraph-capture-sizes 1 2 4 hi | field config.cudagraph_capture_sizes prompt_ids
config.cudagraph_capture_sizes [1, 2, 4]
prompt_ids [104, 105]
! reprise: warning: decode batches of more than 4 requests: no captured size holds them; they run without a graph
$ reprise run --max-tokens=1 --json --cudagraph-capture-sizes 4 2 -- synthetic:tiny 1 | field config.cudagraph_capture_sizes prompt_ids
config.cudagraph_capture_sizes [2, 4]
prompt_ids [49]
! reprise: warning: decode batches of more than 4 requests: no captured size holds them; they run without a graph
$ reprise run --max-tokens=1 --json --cudagraph-capture-sizes=4 synthetic:tiny 1 | field config.cudagraph_capture_sizes prompt_ids
config.cudagraph_capture_sizes [4]
prompt_ids [49]
! reprise: warning: decode batches of more than 4 requests: no captured size holds them; they run without a graph
$ reprise run synthetic:tiny hi --max_tokens=1 --json --compilation_config '{"level":1}' | field level cudagraph_mode
level 1
cudagraph_mode "NONE"
$ for f in -cc --compilation-config --compilation_config; do for is in = ' '; do reprise run synthetic:tiny hi --max-tokens=1 --json $f.level${is}1 | field level; done; done | uniq -c | sed 's/^ *//'
6 level 1
$ reprise run synthetic:tiny hi --max-tokens=1 --json --compilation-config.level 1 -cc.level=2 | field level cudagraph_mode
level 2
cudagraph_mode "NONE"
$ reprise run synthetic:tiny hi --max-tokens=1 --json --enforce-eager | field level cudagraph_mode config.enforce_eager
level 0
cudagraph_mode "NONE"
config.enforce_eager true
$ reprise run synthetic:tiny hi --max-tokens=1 --json --enforce-eager=false | field level config.enforce_eager
level 3
config.enforce_eager false
$ reprise run synthetic:tiny hi --max-tokens=1 --json --sealed | field config.sealed
config.sealed "fatal"
$ reprise run synthetic:tiny hi --max-tokens=1 --json --sealed off | field config.sealed
config.sealed "off"
$ reprise run synthetic:tiny hi --max-tokens=1 --json --sealed fatal | field config.sealed
config.sealed "fatal"
$ reprise run --max-tokens 1 --json --threads 1 --max-num-seqs 4 --max-model-len=64 -- synthetic:tiny -hi | field threads config.max_num_seqs config.max_model_len finish_reason
threads 1
config.max_num_seqs 4
config.max_model_len 64
finish_reason "length"
# Limits that are written down hold.
$ reprise run synthetic:tiny hi --threads 257
! reprise: threads=257: expected an integer from 0 to 256
? 2
$ reprise run synthetic:tiny hi --seed 9223372036854775808
! reprise: --seed=9223372036854775808: expected a number from 0 to 9223372036854775807
? 2
$ reprise score synthetic:tiny --prompt a --continuation b --top-logits 1025
! reprise: --top-logits=1025: expected a number from 0 to 1024
? 2

# Threads that no core is for are told.
$ one() { python3 -c 'import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.execv(sys.argv[1], sys.argv[1:])' "$REPRISE" run synthetic:tiny hi --max-tokens 1 --json --threads $1 | field skips; }; one 1; one 2
skips []
skips [{"what": "2 threads", "reason": "1 of them may run at once, the others are waited for; --threads 0 takes one for each core"}]

# Too much memory is told with the setting that asked for it, and a value that is less.
$ (ulimit -v 400000; reprise run synthetic:tiny hi -O0 --threads 1 --max-num-batched-tokens 1048576 2>&1 | sed 's/=[0-9]* needs/=N needs/')
reprise: no memory for what the kernels of a step leave for one another: 3019.9 MB at max_num_batched_tokens=1048576; max_num_batched_tokens=N needs less
$ (ulimit -v 560000; reprise run synthetic:tiny hi -O0 --threads 1 --max-num-seqs 65536 --max-num-batched-tokens 65536 2>&1 | sed 's/=[0-9]* needs/=N needs/')
reprise: no memory for the KV cache: 272.6 MB at max_num_seqs=65536; max_num_seqs=N needs less
# And before weights are packed.
$ (ulimit -v 560000; reprise run synthetic:tiny hi -O0 --threads 1 --max-num-seqs 65536 --max-num-batched-tokens 65536 --cache-dir unpacked 2>/dev/null); reprise cache ls --cache-dir unpacked --quiet | cut -d ' ' -f 1
plan
