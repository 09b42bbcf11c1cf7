# A value that a variable of the environment does not take is one line with the name, the value and what is taken.
$ REPRISE_ISA=sse reprise run synthetic:tiny hi
! reprise: REPRISE_ISA=sse: expected one of portable, avx2, avx512, amx
? 2
$ REPRISE_DEBUG=yes reprise compile synthetic:tiny
! reprise: REPRISE_DEBUG=yes: expected one of 0, 1
? 2
$ REPRISE_DISABLE_COMPILE_CACHE=2 reprise run synthetic:tiny hi
! reprise: REPRISE_DISABLE_COMPILE_CACHE=2: expected one of 0, 1
? 2
$ REPRISE_LOGGING_LEVEL=loud reprise cache ls
! reprise: REPRISE_LOGGING_LEVEL=loud: expected one of error, warning, info, debug
? 2
$ REPRISE_LOGS=recompile reprise run synthetic:tiny hi
! reprise: REPRISE_LOGS=recompile: unknown log name 'recompile'; did you mean recompiles
? 2
$ REPRISE_COMPILE_CACHE_SAVE_FORMAT=zip reprise explain synthetic:tiny
! reprise: REPRISE_COMPILE_CACHE_SAVE_FORMAT=zip: expected one of binary, unpacked
? 2
$ REPRISE_CACHE_DIR=ids.txt reprise doctor
! reprise: REPRISE_CACHE_DIR=ids.txt: expected a folder
? 2
$ REPRISE_DEBUG_DUMP_PATH=ids.txt reprise run synthetic:tiny hi
! reprise: REPRISE_DEBUG_DUMP_PATH=ids.txt: expected a folder
? 2
# A folder for the stages of compiling that cannot be is told with what asked for it.
$ REPRISE_DEBUG_DUMP_PATH=ids.txt/sub reprise run synthetic:tiny hi
! reprise: cannot make folder 'ids.txt': Not a directory; debug_dump_path, $REPRISE_DEBUG_DUMP_PATH or $REPRISE_DEBUG asks for it
? 1
$ XDG_CACHE_HOME=ids.txt reprise score synthetic:tiny --prompt a --continuation b
! reprise: XDG_CACHE_HOME=ids.txt: expected a folder
? 2
$ TMPDIR=ids.txt reprise run synthetic:tiny hi
! reprise: TMPDIR=ids.txt: expected a folder
? 2
$ REPRISE_NVRTC=./no-such-lib reprise opt graph.ir
! reprise: REPRISE_NVRTC=./no-such-lib: expected a library
? 2
$ REPRISE_MODELS=nowhere:ids.txt reprise run synthetic:tiny hi
! reprise: REPRISE_MODELS=nowhere:ids.txt: expected folders
? 2
$ REPRISE_CC_TIMEOUT=soon reprise cache ls
! reprise: REPRISE_CC_TIMEOUT=soon: expected seconds, as in 300
? 2
$ REPRISE_AUTOTUNE_BUDGET=-1 reprise run synthetic:tiny hi
! reprise: REPRISE_AUTOTUNE_BUDGET=-1: expected seconds, as in 20
? 2
$ REPRISE_ISA=sse failing run synthetic:tiny hi --json
2
$ REPRISE_ISA=sse reprise help >/dev/null
$ REPRISE_ISA=PORTABLE REPRISE_DEBUG=0 reprise run synthetic:tiny hi --max-tokens 1 --json | field isa
isa "portable"
$ REPRISE_LOG=fusion REPRISE_TEST_X=1 reprise cache dir --cache-dir x; REPRISE_THREADS=1 reprise cache dir --cache-dir x
x
x
! reprise: warning: REPRISE_LOG is no variable of reprise and does nothing; did you mean REPRISE_LOGS
! reprise: warning: REPRISE_THREADS is no variable of reprise and does nothing; see reprise help env

# What the ones do that vLLM has, by our name and by theirs.
$ REPRISE_DISABLE_COMPILE_CACHE=1 reprise run synthetic:tiny hi --max-tokens 1 --cache-dir none --json -O0 | field cache_hits skips; [ -e none ] || echo nothing
cache_hits 0
skips [{"what": "cache", "reason": "REPRISE_DISABLE_COMPILE_CACHE=1 switches the cache off"}, {"what": "prefill or mixed step", "reason": "cudagraph_mode is NONE", "count": 1}]
nothing
! reprise: warning: running uncached: REPRISE_DISABLE_COMPILE_CACHE=1 switches the cache off
$ VLLM_DISABLE_COMPILE_CACHE=1 reprise run synthetic:tiny hi --max-tokens 1 --cache-dir none --quiet -O0 >/dev/null
! reprise: warning: VLLM_DISABLE_COMPILE_CACHE is read as REPRISE_DISABLE_COMPILE_CACHE
! reprise: warning: running uncached: VLLM_DISABLE_COMPILE_CACHE=1 switches the cache off
$ REPRISE_LOGGING_LEVEL=ERROR VLLM_DISABLE_COMPILE_CACHE=1 reprise run synthetic:tiny hi --max-tokens 1 --cache-dir none --quiet -O0 >/dev/null
$ VLLM_LOGGING_LEVEL=DEBUG reprise compile synthetic:tiny --quiet 2>&1 | head -n 1
reprise: warning: VLLM_LOGGING_LEVEL is read as REPRISE_LOGGING_LEVEL
$ VLLM_LOGGING_LEVEL=CRITICAL reprise compile synthetic:tiny --quiet
! reprise: VLLM_LOGGING_LEVEL=CRITICAL: expected one of error, warning, info, debug
? 2
$ VLLM_LOGGING_LEVEL=DEBUG REPRISE_LOGGING_LEVEL=error reprise compile synthetic:tiny --quiet
$ VLLM_LOGGING_LEVEL=DEBUG reprise compile synthetic:tiny --quiet --log-level error
