# Text goes to standard output, the summary to standard error.
$ reprise run synthetic:tiny hi --max-tokens 4 2>/dev/null | wc -l
1
$ reprise run synthetic:tiny hi --max-tokens 4 --isa portable 2>&1 >/dev/null | sed 's/[0-9.]\+/N/g'
ended: max_tokens N
synthetic:tiny,layers=N,dtype=qN_N,seed=N on cpu (portable, N threads), level N, FULL_AND_PIECEWISE
N pieces, N compiled, N distinct; N traces, N compiles; loaded in N ms (device N, trace N, compile N, weights N, runner N, capture N)
N + N tokens; first token after N ms (N s from program start); prefill N tok/s, decode N tok/s; N MB at most
$ reprise run synthetic:tiny hi --max-tokens 4 --quiet >/dev/null
$ reprise run synthetic:tiny --prompt hi --max-tokens 2 --json | field prompt_ids finish_reason prompts
prompt_ids [104, 105]
finish_reason "length"
prompts 1
$ reprise run synthetic:tiny --prompt-ids '[104, 105]' --max-tokens 2 --json | field prompt_ids
prompt_ids [104, 105]
$ reprise run synthetic:tiny --prompt-ids @ids.txt --max-tokens 2 --json | field prompt_ids
prompt_ids [104, 105]

# However it runs, the tokens are the same.
$ same "--prompt hello --max-tokens 12" "--prompt hello --max-tokens 12 -O0" "--prompt hello --max-tokens 12 --level 2" "--prompt hello --max-tokens 12 --isa portable" "--prompt hello --max-tokens 12 --threads 1 -cc.cudagraph_mode=FULL" "--prompt-ids 104,101,108,108,111 --max-tokens 12"
$ same "--prompt hello --max-tokens 12 --temperature 0.8 --seed 7" "--prompt hello --max-tokens 12 --temperature 0.8 --seed 7 --level 1"

# Each setting of sampling, driven to its end, leaves the best token alone; another seed gives others.
$ same "--prompt hello --max-tokens 6" "--prompt hello --max-tokens 6 --temperature 50 --top-k 1" "--prompt hello --max-tokens 6 --temperature 50 --min-p 1" "--prompt hello --max-tokens 6 --temperature 50 --top-p 0.000001"
$ same "--prompt hello --max-tokens 6 --temperature 50 --seed 1" "--prompt hello --max-tokens 6 --temperature 50 --seed 2" | cut -d : -f 1
differs

# Several prompts run in one batch, and each answer is told as it ends.
$ reprise run synthetic:tiny --prompt-file prompts.txt --max-tokens 3 --json | events
output 3
summary 1
$ reprise run synthetic:tiny --prompt-file prompts.txt --max-tokens 3 --json | field prompt_ids finish_reason prompts
prompt_ids [[111, 110, 101], [116, 119, 111, 32, 119, 111, 114, 100, 115], [116, 104, 114, 101, 101]]
finish_reason ["length", "length", "length"]
prompts 3
$ reprise run synthetic:tiny --prompt-file - --max-tokens 3 --json < prompts.txt | events
output 3
summary 1
$ reprise run synthetic:tiny --prompt-file prompts.txt --max-tokens 3 --quiet | grep -a '^==>'
==> prompt 1 <==
==> prompt 2 <==
==> prompt 3 <==

# What cannot run says so.
$ reprise run nofile.gguf hi
! reprise: cannot open 'nofile.gguf': No such file or directory
? 1
$ reprise run prompts.txt hi
! reprise: prompts.txt: no GGUF file: it does not start with the bytes 'GGUF'
? 1
$ reprise run synthetic:tinny hi
! reprise: synthetic:tinny: no synthetic model 'tinny', did you mean 'tiny': a model is a .gguf file, the name smollm2, or synthetic:NAME with NAME tiny, tiny-32, tiny-64, smollm2-135m, llama-1b or llama-8b
? 2
$ reprise run synthetic:tiny,layers=0 hi
! reprise: synthetic:tiny,layers=0: layers=0: expected 1 to 4096
? 2
$ reprise run nobody/model hi
! reprise: no model 'nobody/model': a model is a .gguf file, the name smollm2, or synthetic:NAME with NAME tiny, tiny-32, tiny-64, smollm2-135m, llama-1b or llama-8b
? 2
$ reprise run synthetic:tiny hello-world --max-model-len 4
! reprise: prompt of 11 tokens leaves no room in max_model_len 4; shorten it or raise max_model_len
? 2
$ reprise run synthetic:tiny --prompt-ids 1,2,999999
! reprise: token id 999999 at position 2 of the prompt is outside the vocabulary of 288; ids go from 0 to 287
? 2
$ reprise run synthetic:tiny ""
! reprise: the prompt has no token; give at least one character or id
? 2
$ reprise run synthetic:tiny hi --chat-template foo
! reprise: unknown chat template 'foo': --chat-template takes auto, chatml or none
? 2
$ reprise serve synthetic:tiny --port 8000
! reprise: serve is not supported here: there is no HTTP server in this version; use reprise run --prompt-file for batches
? 3

# Logits that are no numbers end the request that has them, with one line.
$ cp "$here/../fuzz/corpus/fuzz_gguf/llama" nan.gguf; reprise run nan.gguf hi --raw --max-tokens 2 2>&1 | head -n 2
reprise: logit of token 0 is nan; the step computed garbage; the packed weights are sound, so look at the model
ended: error
$ printf 'a\nb\n' > two.txt; reprise run nan.gguf --prompt-file two.txt --raw --max-tokens 2 --quiet
==> prompt 1 <==
|
|
==> prompt 2 <==
|
! reprise: two.txt:1: logit of token 0 is nan; the step computed garbage; the packed weights are sound, so look at the model
! reprise: two.txt:2: logit of token 0 is nan; the step computed garbage; the packed weights are sound, so look at the model
? 1
$ reprise run nan.gguf --prompt-file two.txt --raw --max-tokens 2 --json 2>/dev/null | events; reprise run nan.gguf hi --raw --isa portable --json 2>/dev/null | field finish_reason finish_detail
output 1
error 1
output 1
error 1
summary 1
finish_reason "error"
finish_detail "logit of token 0 is nan; the step computed garbage; the packed weights are sound, so look at the model"
$ reprise score nan.gguf --prompt a --continuation b --quiet
! reprise: scoring token 65 at position 1: logit of token 0 is nan; the step computed garbage; the packed weights are sound, so look at the model
? 1

# A step that fails before any text writes no line.
$ reprise run synthetic:tiny hi --require-graph --cudagraph-capture-sizes 1 --max-tokens 2 2>err.txt | wc -c; tail -n 1 err.txt
0
reprise: prefill or mixed step of 2 tokens cannot run as a graph: more tokens than the largest graph (1); give up require_graph or change the capture sizes

# What is wrong with a prompt of a file says where.
$ printf 'short\n\nfar too long\n' > long.txt; reprise run synthetic:tiny --prompt-file long.txt --max-model-len 8
! reprise: long.txt:3: prompt of 12 tokens leaves no room in max_model_len 8; shorten it or raise max_model_len
? 2
$ printf 'far too long\n' | reprise run synthetic:tiny --prompt-file - --max-model-len 8
! reprise: standard input:1: prompt of 12 tokens leaves no room in max_model_len 8; shorten it or raise max_model_len
? 2
$ printf 'fine\r\nna\303\257ve\r\nab\377\n' > latin.txt; reprise run synthetic:tiny --prompt-file latin.txt
! reprise: latin.txt:3: byte 0xff at offset 2 is no UTF-8 text; write it in UTF-8
? 2
$ printf 'a\nb\0c\n' > nul.txt; reprise run synthetic:tiny --prompt-file nul.txt
! reprise: nul.txt:2: byte 0x00 at offset 1 is no UTF-8 text; write it in UTF-8
? 2
$ printf 'a\nb\nc' > open.txt; reprise run synthetic:tiny --prompt-file open.txt --max-tokens 1 --json | events
output 3
summary 1
$ : > none.txt; reprise run synthetic:tiny --prompt-file none.txt
! reprise: none.txt:1: no prompt in 0 bytes; write one a line
? 2
$ mkdir -p folder; reprise run synthetic:tiny --prompt-file folder
! reprise: cannot read folder: Is a directory
? 1
$ printf '\357\273\277hi\r\n' > mark.txt; reprise run synthetic:tiny --prompt-file mark.txt --max-tokens 1 --json | field prompt_ids
prompt_ids [104, 105]

# No host compiler and nothing cached: level 0, saying what was looked for; one that was named and is not there is an error.
# With a cache nothing is looked for.
$ PATH=nowhere REPRISE_CC= "$REPRISE" run synthetic:tiny hi --max-tokens 1 --cache-dir cc1 --quiet >/dev/null
! reprise: warning: no C compiler (no cc, gcc or clang in PATH=nowhere) and nothing cached: running at level 0 with the built-in portable kernels, which is slow; install gcc or set REPRISE_CC
$ PATH= "$REPRISE" compile synthetic:tiny --cache-dir cc2 --quiet
! reprise: warning: no C compiler (no cc, gcc or clang in an empty PATH) and nothing cached: running at level 0 with the built-in portable kernels, which is slow; install gcc or set REPRISE_CC
$ for cc in nowhere/cc mycc "ccache gcc"; do PATH=nowhere REPRISE_CC=$cc "$REPRISE" run synthetic:tiny hi --max-tokens 1 --cache-dir cc3 --quiet; done
! reprise: REPRISE_CC=nowhere/cc: there is no such program; correct or unset it
! reprise: REPRISE_CC=mycc: PATH has no such program; correct or unset it
! reprise: REPRISE_CC=ccache gcc: PATH has no such program; name one program, without arguments
? 3
$ REPRISE_CC=false reprise run synthetic:tiny hi --max-tokens 1 --cache-dir cc5 2>&1 | sed 's#/[a-z/]*/##'
reprise: false --version exited with 1; set REPRISE_CC to a C compiler
$ reprise compile synthetic:tiny --cache-dir cc6 --quiet; PATH=nowhere REPRISE_CC=nowhere/cc "$REPRISE" run synthetic:tiny hi --max-tokens 1 --cache-dir cc6 --quiet >/dev/null

# Counts are of what was done: nothing is compiled at level 0, chosen or forced.
$ bare() { PATH=nowhere "$REPRISE" "$@"; }; bare run synthetic:tiny hi --max-tokens 1 --cache-dir cc7 --json 2>/dev/null | field level pieces.total pieces.compiled compiles; bare run synthetic:tiny hi --max-tokens 1 --cache-dir cc7 2>&1 >/dev/null | grep -o '[0-9]* pieces, .* compiles'
level 0
pieces.total 1
pieces.compiled 0
compiles 0
1 pieces, 0 compiled, 1 distinct; 0 traces, 0 compiles
$ reprise run synthetic:tiny hi --max-tokens 1 --cache-dir cc8 --level 0 --json | field pieces.compiled compiles; reprise run synthetic:tiny hi --max-tokens 1 --cache-dir cc8 --level 0 --json | field pieces.compiled compiles
pieces.compiled 0
compiles 0
pieces.compiled 0
compiles 0

# Compilers that fail, and folders that cannot take what is made, are one line or none.
$ printf '#!/bin/sh\ncase $1 in --version) echo cc 1 ;; *) echo "x.c:1: error: one"; echo two; exit 1 ;; esac\n' > badcc; chmod +x badcc; REPRISE_CC=./badcc reprise run synthetic:tiny hi --cache-dir bad1
! reprise: ./badcc failed on generated code (exit 1): error: one; REPRISE_CC names another compiler
? 1
$ printf '#!/bin/sh\ncase $1 in --version) echo cc 1 ;; *) echo "/usr/bin/ld: cannot find -lm"; echo "collect2: error: ld returned 1 exit status"; exit 1 ;; esac\n' > badld; chmod +x badld; REPRISE_CC=./badld reprise run synthetic:tiny hi --cache-dir bad1
! reprise: ./badld failed on generated code (exit 1): /usr/bin/ld: cannot find -lm; REPRISE_CC names another compiler
? 1
$ for says in 'echo cannot go on; echo see above' ':' 'echo a.c: undefined reference to f; echo 1 error'; do printf '#!/bin/sh\ncase $1 in --version) echo cc 1 ;; *) %s; exit 3 ;; esac\n' "$says" > oddcc; chmod +x oddcc; REPRISE_CC=./oddcc reprise run synthetic:tiny hi --cache-dir bad1; done
! reprise: ./oddcc failed on generated code (exit 3): cannot go on; REPRISE_CC names another compiler
! reprise: ./oddcc failed on generated code (exit 3): no message; REPRISE_CC names another compiler
! reprise: ./oddcc failed on generated code (exit 3): a.c: undefined reference to f; REPRISE_CC names another compiler
? 1
$ printf '#!/bin/sh\ncase $1 in --version) echo cc 1 ;; esac\n' > idlecc; chmod +x idlecc; REPRISE_CC=./idlecc reprise run synthetic:tiny hi --cache-dir bad2
! reprise: ./idlecc ended well and wrote nothing; REPRISE_CC names another compiler
? 1
$ TMPDIR=nowhere reprise run synthetic:tiny hi --max-tokens 1 --cache-dir bad3 --quiet >/dev/null
! reprise: warning: no temporary folder can be made in nowhere: No such file or directory; /tmp is used
$ reprise compile synthetic:tiny --cache-dir bad4 --quiet; rm bad4/objects/weights/*; (ulimit -f 16; reprise run synthetic:tiny hi --max-tokens 1 --cache-dir bad4 --quiet 2>&1 >/dev/null | sed 's#weights/[0-9a-f]*#weights/KEY#'); reprise cache verify --cache-dir bad4 | sed 's/^[0-9]*/N/'
reprise: warning: nothing more is written to the cache: cannot write bad4/objects/weights/KEY: File too large
N objects, 0 bad

# Closed streams fail as such and never stand for a file that is opened later.
$ reprise run synthetic:tiny hi --max-tokens 1 --quiet >&-
! reprise: cannot write to standard output
? 1
$ reprise run synthetic:tiny --prompt-file - <&-
! reprise: cannot read standard input: Bad file descriptor
? 1
$ (REPRISE_LOGS=cache reprise compile synthetic:tiny --cache-dir closed 2>&-); reprise cache verify --cache-dir closed | sed 's/^[0-9]*/N/'; grep -rl 'Using cache directory' closed
N objects, 0 bad
? 1

$ mkfifo held; "$REPRISE" run synthetic:tiny --prompt-file held --max-tokens 1 --quiet >/dev/null 2>&- <&- & exec 9>held; readlink /proc/$!/fd/0 /proc/$!/fd/2; echo hi >&9; exec 9>&-; wait $!
/dev/null
/dev/null

# Text that is no UTF-8 is refused in the same words wherever it comes from.
$ reprise run synthetic:tiny $'ab\377'
! reprise: the prompt: byte 0xff at offset 2 is no UTF-8 text; write it in UTF-8
? 2
$ reprise run synthetic:tiny --prompt $'\303'
! reprise: --prompt: byte 0xc3 at offset 0 is no UTF-8 text; write it in UTF-8
? 2
$ for text in $'\xf4\x8f\xbf\xbf' $'\xf4\x90\x80\x80' $'\xf0\x8f\xbf\xbf' $'\xe0\x9f\xbf' $'\xc1\xbf'; do reprise run synthetic:tiny "$text" --max-tokens 1 --quiet >/dev/null; done
! reprise: the prompt: byte 0xf4 at offset 0 is no UTF-8 text; write it in UTF-8
! reprise: the prompt: byte 0xf0 at offset 0 is no UTF-8 text; write it in UTF-8
! reprise: the prompt: byte 0xe0 at offset 0 is no UTF-8 text; write it in UTF-8
! reprise: the prompt: byte 0xc1 at offset 0 is no UTF-8 text; write it in UTF-8
? 2
$ printf 'ok\nab\355\240\200\n' | reprise run synthetic:tiny --prompt-file -
! reprise: standard input:2: byte 0xed at offset 2 is no UTF-8 text; write it in UTF-8
? 2
$ reprise run synthetic:tiny hi --stop $'a\200'
! reprise: --stop: byte 0x80 at offset 1 is no UTF-8 text; write it in UTF-8
? 2
$ reprise score synthetic:tiny --prompt $'a\377' --continuation b
! reprise: --prompt: byte 0xff at offset 1 is no UTF-8 text; write it in UTF-8
? 2
$ reprise score synthetic:tiny --prompt a --continuation $'\300\257'
! reprise: --continuation: byte 0xc0 at offset 0 is no UTF-8 text; write it in UTF-8
? 2

# A top_k of -1 is off, as in vLLM.
$ same "--prompt hello --max-tokens 12 --temperature 0.8 --seed 7" "--prompt hello --max-tokens 12 --temperature 0.8 --seed 7 --top-k -1"
$ reprise run synthetic:tiny hi --top-k -2
! reprise: --top-k=-2: expected a number from -1 to 2147483647
? 2

# Of several answers the one that ends first is told first, with its number and why it ended.
$ reprise run synthetic:tiny --prompt-file prompts.txt --max-tokens 12 --stop '&' --json | python3 -c 'import json,sys; [print(o["event"], o.get("index"), o["finish_reason"], o["finish_detail"]) for o in map(json.loads, sys.stdin)]'
output 2 stop stop string '&'
output 0 length max_tokens 12
output 1 length max_tokens 12
summary None ['length', 'length', 'stop'] ['max_tokens 12', 'max_tokens 12', "stop string '&'"]
$ reprise run synthetic:tiny --prompt-file prompts.txt --max-tokens 12 --stop '&' 2>&1 | grep -a -e '==>' -e ended
==> prompt 3 <==
prompt 3: 5 + 4 tokens; ended: stop string '&'
==> prompt 1 <==
prompt 1: 3 + 12 tokens; ended: max_tokens 12
==> prompt 2 <==
prompt 2: 9 + 12 tokens; ended: max_tokens 12
$ reprise run synthetic:tiny hi --max-tokens 4 2>&1 >/dev/null | grep ended
ended: max_tokens 4
$ reprise run synthetic:tiny hi --max-tokens 0 --max-model-len 16 --ignore-eos 2>&1 >/dev/null | grep ended
ended: context full: max_model_len 16
$ reprise run synthetic:tiny hi --max-tokens 99 --max-model-len 16 --ignore-eos --json | field finish_reason finish_detail
finish_reason "length"
finish_detail "context full: max_model_len 16"

# Samples of a prompt: each is what its seed gives alone.
$ reprise run synthetic:tiny --prompt-file prompts.txt --temperature 1 --seed 5 --n 3 --max-tokens 6 --json > samples; events < samples; python3 -c 'import json; print(sorted((o["index"], o["sample"]) for o in map(json.loads, open("samples")) if "sample" in o))'
output 9
summary 1
[(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
$ reprise run synthetic:tiny hi --temperature 1 --n 2 --max-tokens 1 --json | field prompts samples
prompts 1
samples 2
$ for s in 5 6 7; do reprise run synthetic:tiny two\ words --temperature 1 --seed $s --max-tokens 6 --json | python3 -c 'import json,sys; print(json.loads(sys.stdin.read().splitlines()[-1])["output_ids"])'; done > alone; python3 -c 'import json; print(*[o["output_ids"] for o in sorted(map(json.loads, open("samples")), key=lambda o: o.get("sample", 9)) if o.get("index") == 1], sep="\n")' | cmp - alone; sort -u alone | wc -l
3
$ p=$(seq -s, 1 40); for i in 0 1 2 3; do reprise run synthetic:tiny --prompt-ids $p --temperature 1 --seed $i --max-tokens 3 --ignore-eos --json; done > alone; reprise run synthetic:tiny --prompt-ids $p --temperature 1 --n 4 --max-tokens 3 --ignore-eos --json > together; python3 -c 'import json; ids = lambda f, e: [o["output_ids"] for o in map(json.loads, open(f)) if o["event"] == e]; a, b = ids("alone", "summary"), ids("together", "output"); print(sorted(a) == sorted(b), len(set(map(tuple, a))))'; field prefill_tokens decode_tokens < together
True 4
prefill_tokens 65
decode_tokens 7
$ reprise run synthetic:tiny hi --n 2 --max-tokens 2 2>/dev/null | grep -a '==>'
==> prompt 1, sample 0 <==
==> prompt 1, sample 1 <==
$ run="reprise run synthetic:tiny hi --n 1024 --temperature 50 --seed 5000 --max-tokens 1"; $run --json >all.json; $run --quiet >all.txt; python3 -c 'import json; told = [(o["sample"], o["text"]) for o in map(json.loads, open("all.json")) if o["event"] == "output"]; want = "\n".join("==> prompt 1, sample %d <==\n%s" % (i, z if z[-1:] == "\n" else z + "\n") for i, z in told); print(open("all.txt", newline="").read() == want, any(z[-1:] == "\n" for _, z in told))'
True True
$ reprise run synthetic:tiny hi --n 2 --seed 9223372036854775807
! reprise: --seed=9223372036854775807: with --n=2 the last sample's seed would be above 2^63 - 1
? 2
$ reprise run synthetic:tiny hi --max-tokens 2 --logprobs 1 --quiet 2>&1 >/dev/null | wc -l; reprise run synthetic:tiny hi --max-tokens 1 2>&1 >/dev/null | grep -c decode
2
0
? 1
$ yes | head -n 4194304 >many; reprise run synthetic:tiny --prompt-file many --n 1024
! reprise: --n=1024: too many answers for 4194304 prompts
? 2
$ rm many
$ reprise run synthetic:tiny hi --n 0
! reprise: --n=0: expected a number from 1 to 1024
? 2

# Log probabilities are those of score, for people and as events.
$ reprise run synthetic:tiny --prompt-ids 1,2,3 --temperature 1 --seed 3 --max-tokens 5 --logprobs 4 --json > run.out; reprise score synthetic:tiny --prompt-ids 1,2,3 --continuation-ids "$(python3 -c 'import json; print(*json.loads(open("run.out").readlines()[-1])["output_ids"], sep=",")')" --top-logits 4 --json > score.out; python3 -c 'import json, math; got = json.loads(open("run.out").readlines()[-1])["logprobs"]; want = [json.loads(l) for l in open("score.out")][:-1]; print(len(got), all(g["id"] == w["id"] and math.isclose(g["logprob"], w["logprob"], rel_tol=2e-9) and [t[0] for t in g["top"]] == [t[0] for t in w["top"]] and abs(g["top"][0][1] - g["top"][3][1] - w["top"][0][1] + w["top"][3][1]) < 1e-5 for g, w in zip(got, want)))'
5 True
$ reprise run synthetic:tiny hi --max-tokens 2 --logprobs 0 --json | python3 -c 'import json,sys; print([len(t["top"]) for t in json.loads(sys.stdin.read())["logprobs"]])'
[0, 0]
$ reprise run synthetic:tiny hi --max-tokens 2 --json | field logprobs
logprobs null
$ run="reprise run synthetic:tiny hi --max-tokens 3 --ignore-eos --logprobs 2"; $run --json >lp.json; $run 2>lp.txt >/dev/null; python3 -c 'import json, re; want = [["%.6f" % t["logprob"]] + ["%.6f" % v for _, v in t["top"]] for t in json.load(open("lp.json"))["logprobs"]]; got = [re.findall(r"-\d+\.\d{6}", z) for z in open("lp.txt", errors="replace") if re.match(r" +-\d", z)]; print(got == want, len(got))'
True 3
$ reprise run synthetic:tiny hi --max-tokens 3 --logprobs 2 2>&1 >/dev/null | grep -c ' of ".*" -[0-9.]*, ".*" -[0-9.]*$'
3
$ reprise run synthetic:tiny hi --logprobs 2000
! reprise: --logprobs=2000: expected a number from 0 to 1024
? 2

# Conversations of several turns, whose texts may have line breaks; a system message of one's own is their first.
$ printf '[{"role":"user","content":"a\\nb"},\n {"role":"assistant","content":"c"},\n{"role":"user","content":"d"}]\n[{"role":"user","content":"hi"}]' > chats.json
$ reprise run synthetic:tiny --chat-template chatml --messages chats.json --max-tokens 1 --json | field prompt_ids prompts
prompt_ids [[257, 117, 115, 101, 114, 10, 97, 10, 98, 258, 10, 257, 97, 115, 115, 105, 115, 116, 97, 110, 116, 10, 99, 258, 10, 257, 117, 115, 101, 114, 10, 100, 258, 10, 257, 97, 115, 115, 105, 115, 116, 97, 110, 116, 10], [257, 117, 115, 101, 114, 10, 104, 105, 258, 10, 257, 97, 115, 115, 105, 115, 116, 97, 110, 116, 10]]
prompts 2
$ printf '[{"role":"system","content":"S"},{"role":"user","content":"hi"}]' | reprise run synthetic:tiny --chat-template chatml --messages - --max-tokens 1 --json | field prompt_ids
prompt_ids [257, 115, 121, 115, 116, 101, 109, 10, 83, 258, 10, 257, 117, 115, 101, 114, 10, 104, 105, 258, 10, 257, 97, 115, 115, 105, 115, 116, 97, 110, 116, 10]
$ reprise run synthetic:tiny --messages chats.json
! reprise: --messages goes into the chat template, which synthetic:tiny is without; give --chat-template chatml
? 2
$ reprise run synthetic:tiny --messages chats.json --raw
! reprise: --messages goes into the chat template, which --raw leaves out
? 2
$ reprise run synthetic:tiny --messages chats.json --system S
! reprise: --system with --messages: write it as the first message of each list
? 2
$ reprise run synthetic:tiny --messages chats.json hi
! reprise: more than one prompt; give a prompt, --prompt-file, --messages or --prompt-ids, not several
? 2
$ for text in '[{"role":"user","content":"a"}]\n\n[{"role":"me","content":"a"}]' '[{"role":"user","content":["a"]}]' '[{"role":"user","content":"a","name":"b"}]' '{"role":"user","content":"a"}' '\n[{"role":"user",\n]' ' \n' '[{"role":"user","content":"a"}]\n[{"role":"user","content":"far too long"}]'; do printf "$text" > bad.json; reprise run synthetic:tiny --chat-template chatml --messages bad.json --max-model-len 24; done
! reprise: bad.json:3: message 1 has no role that is system, user, assistant or tool
! reprise: bad.json:1: message 1 has no content that is a string
! reprise: bad.json:1: message 1 has 'name'; only role and content are read
! reprise: bad.json:1: expected a list of messages: [{"role":"user","content":".."}]
! reprise: bad.json:3: no JSON: string or '}' expected near ']'
! reprise: bad.json:1: no conversation in 2 bytes
! reprise: bad.json:2: prompt of 31 tokens leaves no room in max_model_len 24; shorten it or raise max_model_len
? 2

# A system message goes into the chat template.
$ reprise run synthetic:tiny --chat-template chatml --system S hi --max-tokens 1 --json | field prompt_ids
prompt_ids [257, 115, 121, 115, 116, 101, 109, 10, 83, 258, 10, 257, 117, 115, 101, 114, 10, 104, 105, 258, 10, 257, 97, 115, 115, 105, 115, 116, 97, 110, 116, 10]
$ reprise run synthetic:tiny --system S hi --raw
! reprise: --system goes into the chat template, which --raw leaves out
? 2
$ reprise run synthetic:tiny --system S hi --chat-template none
! reprise: --system goes into the chat template, which --chat-template none is without
? 2
$ reprise run synthetic:tiny --raw hi --chat-template chatml
! reprise: --chat-template=chatml does nothing with --raw, which leaves the template out: give one of the two
? 2
$ reprise score synthetic:tiny --prompt-ids 1 --continuation-ids 2 --chat-template chatml
! reprise: --chat-template=chatml does nothing with --prompt-ids, which leaves the template out: give one of the two
? 2
$ reprise run synthetic:tiny --system S --prompt-ids 1,2
! reprise: --system goes into the chat template, which --prompt-ids leaves out
? 2
$ reprise run synthetic:tiny hi --system S
! reprise: --system goes into the chat template, which synthetic:tiny is without; give --chat-template chatml
? 2
$ reprise run synthetic:tiny hi --chat-template chatml --system $'\377'
! reprise: --system: byte 0xff at offset 0 is no UTF-8 text; write it in UTF-8
? 2

# Flags of sampling do nothing without it, which is said.
$ reprise run synthetic:tiny hi --max-tokens 1 --top-p 0.5 --seed 3 2>&1 >/dev/null | grep note
note: --top-p, --seed: temperature is 0, which always takes the likeliest token
$ for f in "--top-p 0.5" "--top-k 4" "--min-p 0.1" "--seed 3" "--n 2"; do reprise run synthetic:tiny hi --max-tokens 1 $f 2>&1 >/dev/null | grep note: | cut -d : -f 1,2; reprise run synthetic:tiny hi --max-tokens 1 $f --temperature 0.5 2>&1 >/dev/null | grep -c 'is 0'; done
note: --top-p
0
note: --top-k
0
note: --min-p
0
note: --seed
0
note: --n
0
? 1
$ reprise run synthetic:tiny hi --max-tokens 1 --top-p 0.5 --temperature 0.5 2>&1 >/dev/null | grep note
? 1
$ reprise run synthetic:tiny hi --top-p 0
! reprise: --top-p=0: expected a number above 0, up to 1
? 2
