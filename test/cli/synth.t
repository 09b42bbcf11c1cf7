# A synthetic model as a file is the model of that name.
$ reprise synth tiny,seed=3 --out t.gguf --quiet
$ reprise run t.gguf "hello <|im_end|> é" --max-tokens 12 --quiet >of-file
$ reprise run synthetic:tiny,seed=3 "hello <|im_end|> é" --max-tokens 12 --quiet >of-name
$ cmp of-file of-name
$ reprise synth synthetic:tiny,dtype=bf16 --out - 2>said | wc -c
253312
$ cat said
-: 0.2 MB of weights
$ reprise synth tiny --out u.gguf --json
{"event":"synth","file":"u.gguf","bytes":78080}
$ reprise synth tiny
! reprise: synth needs --out FILE
? 2
$ reprise synth tinny --out x.gguf
! reprise: synthetic:tinny: no synthetic model 'tinny', did you mean 'tiny': a model is a .gguf file, the name smollm2, or synthetic:NAME with NAME tiny, tiny-32, tiny-64, smollm2-135m, llama-1b or llama-8b
? 2
$ reprise synth tiny --out /dev/full
! reprise: cannot write /dev/full: No space left on device
? 1
$ reprise synth tiny --out no-folder/x.gguf
! reprise: cannot write no-folder/x.gguf: No such file or directory
? 1
$ reprise synth tiny --out - --json
{"event":"error","code":2,"message":"--json and --out - both want standard output"}
! reprise: --json and --out - both want standard output
? 2
$ test -e x.gguf || echo nothing was left
nothing was left
