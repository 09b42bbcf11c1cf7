# A folder of its own: filled, listed, explained, damaged, moved.
$ reprise cache dir --cache-dir own
own
$ for c in ls verify "why synthetic:tiny" "prune --max-bytes 0" "export x"; do reprise cache $c --cache-dir own; echo $?; done; ls -d own
1
1
1
1
1
! reprise: the cache is not usable: there is no folder own; the first run or compile makes it
! reprise: the cache is not usable: there is no folder own; the first run or compile makes it
! reprise: the cache is not usable: there is no folder own; the first run or compile makes it
! reprise: the cache is not usable: there is no folder own; the first run or compile makes it
! reprise: the cache is not usable: there is no folder own; the first run or compile makes it
! ls: cannot access 'own': No such file or directory
? 2
$ mkdir own; reprise cache ls --cache-dir own --quiet
$ reprise cache why synthetic:tiny --cache-dir own
no plan is stored
$ reprise compile synthetic:tiny --cache-dir own --json | field traces pieces.total pieces.compiled
traces 2
pieces.total 4
pieces.compiled 2
$ reprise compile synthetic:tiny --cache-dir own --json | field traces compiles
traces 0
compiles 0
$ reprise cache ls --cache-dir own --json | events | sed 's/[0-9]\+/N/'
object N
summary N
$ reprise cache why synthetic:tiny --cache-dir own | sed 's/plan [0-9a-f]*/plan KEY/; s/all [0-9]* /all N /'
plan KEY: all N factors equal
$ reprise cache why synthetic:tiny --level 0 --cache-dir own | grep -o 'backend [^;]*'
backend "inductor" -> "eager"
$ reprise cache why synthetic:tiny -cc.cudagraph_mode=NONE --max-model-len 99 --cache-dir own | sed 's/plan [0-9a-f]*/plan KEY/; s/all [0-9]* /all N /'
plan KEY: all N factors equal
$ reprise cache why synthetic:tiny --level 0 --cache-dir own | grep -o 'splitting_ops [^;]*'
splitting_ops ["reprise::attention"] -> []
$ reprise cache why synthetic:tiny -cc.skip_passes=fold,cse,dce,simplify,eliminate_noops --cache-dir own | grep -o 'skip_passes [^;]*'
skip_passes [] -> ["fold","cse","dce","simplify","eliminate_noops"...
! values that end in ... are cut; --json has them whole
$ reprise cache ls --cache-dir own --quiet | sed -n 's/^plan  *[0-9a-f]*  *[0-9]*  [-0-9: ]*//p' | sed 's/isa=[a-z0-9]*/isa=ISA/; s/  code .*//'
synthetic:tiny,layers=2,dtype=q4_1,seed=0  backend="inductor" numerics="default" target.isa=ISA max_num_seqs=64 max_num_batched_tokens=512
$ reprise compile synthetic:tiny --level 2 -cc.skip_passes=fold -cc.pass_config.fuse_norm_quant=false --cache-dir apart --quiet; reprise cache ls --cache-dir apart --quiet | grep -o ' splitting_ops=.*  code'
 splitting_ops=[] skip_passes=["fold"] pass_config.fuse_norm_quant=false  code
$ REPRISE_CC=cc reprise compile synthetic:tiny --cache-dir apart --quiet; reprise cache ls --cache-dir apart --quiet | grep -c '^plan .* compiler='
1
$ LD_LIBRARY_PATH=$EMULATED_GPU reprise cache why synthetic:tiny --device cuda:0 --cache-dir own | grep -E '^  target(.isa)? ' | sed 's/isa "[a-z0-9]*"/isa "ISA"/'
  target "cpu" -> "cuda"
  target.isa "ISA" -> "sm_90"
$ mkdir -p own/models/m.tmp-00000001-1-1-1; printf 12345 >own/models/m.tmp-00000001-1-1-1/part; touch -d '2 days ago' own/models/*; printf 123 >own/quarantine/x; reprise cache ls --cache-dir own --json | field objects takes.plan.files takes.weights.files takes.leftovers.bytes takes.quarantine.bytes takes.working.bytes; reprise cache ls --cache-dir own 2>&1 >/dev/null | grep -v scratch | sed 's/  *[0-9]* files  *[0-9]* bytes/ N files N bytes/; s/[0-9]* objects, [0-9]* bytes/N objects, N bytes/'
objects 7
takes.plan.files 1
takes.weights.files 1
takes.leftovers.bytes 5
takes.quarantine.bytes 3
takes.working.bytes 0
N objects, N bytes in own
  plan N files N bytes
  code N files N bytes
  weights N files N bytes
  tuning N files N bytes
  texts N files N bytes
  quarantine N files N bytes
  leftovers N files N bytes
$ reprise cache ls --cache-dir own --quiet | sed -n 's/^plan .*  \(code\) [1-9][0-9]* \(weights\) [1-9][0-9]*$/\1 \2/p'; rm own/quarantine/x
code weights
$ reprise compile synthetic:tiny,layers=3 -O0 --cache-dir own --quiet; set -- $(reprise cache ls --cache-dir own --json | python3 -c 'import json, sys; k = {"eager" in o["settings"]: o["key"][:12] for o in map(json.loads, sys.stdin) if o.get("kind") == "plan"}; print(k[False], k[True])'); reprise cache why $1 $2 --cache-dir own --quiet | grep -oE 'plan|  backend .*'; reprise cache why $1 $2 --cache-dir own --json | field event
plan
  backend "inductor" -> "eager"
event "why"
$ reprise cache why synthetic:tiny --cache-dir own --quiet | sed 's/plan [0-9a-f]*/plan KEY/; s/[0-9]* of [0-9]* /N of N /; s/all [0-9]* /all N /' | grep plan
plan KEY: all N factors equal
plan KEY (another model): N of N factors differ
$ reprise compile synthetic:tiny --numerics exact --cache-dir own --quiet; reprise cache why $(keys code 2) --cache-dir own --quiet | sed 's/code [0-9a-f]* -> [0-9a-f]*/code A -> B/; s/"[0-9a-f]*"/HASH/g'; reprise cache why $(keys weights 2) --cache-dir own 2>/dev/null | sed 's/"[^"]*"/V/g; s/^weights.*/weights/'
code A -> B: 1 of 5 factors differ
  source HASH -> HASH
weights
  content V -> V
  layout V -> V
# What was learned of a compiler is an entry, too.
$ printf '#!/bin/sh\nexec cc "$@"\n' > learned-cc; chmod +x learned-cc; REPRISE_CC=$PWD/learned-cc reprise compile synthetic:tiny --cache-dir own --quiet; reprise cache why $(keys tuning 2) --cache-dir own --quiet | sed 's/tuning [0-9a-f]* -> [0-9a-f]*/tuning A -> B/; s/"[^"]*"/V/g'; reprise cache ls --cache-dir own 2>/dev/null | grep -c 'program=.*/learned-cc$'
tuning A -> B: 3 of 6 factors differ
  program V -> V
  size V -> V
  changed V -> V
1
# Long values are cut between characters.
$ for x in a ab; do d=$x$(printf '\303\251%.0s' $(seq 30)); mkdir $d; cp learned-cc $d/cc; REPRISE_CC=$d/cc reprise compile synthetic:tiny --cache-dir cut --quiet; done; reprise cache why $(reprise cache ls --cache-dir cut --quiet | awk '/^tuning/ { print $2 }') --cache-dir cut --quiet > why.txt; grep -o '\.\.\."' why.txt | wc -l; python3 -c 'open("why.txt", "rb").read().decode()'; rm -r cut why.txt
2
$ reprise cache why $(keys code 1) $(keys plan 1) --cache-dir own 2>&1 | sed 's/[0-9a-f]\{12\}/KEY/g'
reprise: KEY is code and KEY is plan; compare two of one kind
$ reprise cache ls --cache-dir own --quiet | grep '^weights' | grep -c 'synthetic:tiny,layers=3'
1
$ for f in "ls -cc.threads=3" 'prune -cc {"level":3} --max-bytes 1' "dir -cc 2"; do reprise cache $f --cache-dir own; echo $?; done
2
2
2
! reprise: cache ls does nothing with --compilation-config threads=3, a setting of a model: leave it out
! reprise: cache prune does nothing with --compilation-config {"level":3}, a setting of a model: leave it out
! reprise: cache dir does nothing with --compilation-config 2, a setting of a model: leave it out
$ reprise cache dir -cc '{"cache_dir":"own","level":3}'
! reprise: cache dir does nothing with --compilation-config {"cache_dir":"own","level":3}, a setting of a model: leave it out
? 2
$ reprise cache dir -cc.cache_dir=own; reprise cache dir -cc '{"cache_dir":"own"}'
own
own
$ for f in "ls --threads 3" "ls --max-bytes 5" "verify -O0" "why synthetic:tiny --max-bytes 5"; do reprise cache $f --cache-dir own; echo $?; done
2
2
2
2
! reprise: cache ls does nothing with --threads, a setting of a model: leave it out
! reprise: cache ls does nothing with --max-bytes, which is for cache prune
! reprise: cache verify does nothing with --optimization-level, a setting of a model: leave it out
! reprise: cache why does nothing with --max-bytes, which is for cache prune
$ reprise cache why nothing such --cache-dir own
! reprise: no entry begins with 'nothing', or what its key was made of is not stored; see reprise cache ls
? 1
$ reprise cache export own.bundle --cache-dir own | sed 's/[0-9]\+/N/g'
N files, N bytes exported
$ reprise cache import own.bundle --cache-dir other | sed 's/[0-9]\+/N/g'
N files, N bytes imported
$ reprise cache export - --cache-dir own 2>said | reprise cache import - --cache-dir piped | sed 's/[0-9]\+/N/g'; sed 's/[0-9]\+/N/g' said
N files, N bytes imported
N files, N bytes exported
$ head -c -100 own.bundle >half.bundle; reprise cache import half.bundle --cache-dir halved 2>&1 | sed 's/[0-9]\+/N/'; reprise cache import prompts.txt --cache-dir damaged 2>/dev/null; ls -d damaged
reprise: half.bundle is cut short; export it again; files taken ahead of that: N
! ls: cannot access 'damaged': No such file or directory
? 2
$ mkfifo pipe; reprise cache import pipe --cache-dir named | sed 's/[0-9]\+/N/g' & reprise cache export pipe --cache-dir own --quiet >/dev/null; wait; [ -p pipe ] && echo a pipe
N files, N bytes imported
a pipe
$ echo old >target; chmod 640 target; ln -s target link; reprise cache export link --cache-dir own >/dev/null; readlink link; stat -c %a target; cmp target own.bundle
target
640
$ reprise cache export /dev/full --cache-dir own; echo $?; [ -c /dev/full ] && echo a device
1
a device
! reprise: cannot write /dev/full: No space left on device
$ reprise cache export . --cache-dir own; echo $?; reprise cache export no/such --cache-dir own; echo $?; reprise cache export - --json --cache-dir own
1
1
{"event":"error","code":2,"message":"cache export - writes the bundle to standard output, where the events of --json go: leave one out"}
! reprise: cannot write .: Is a directory
! reprise: cannot write no/such: No such file or directory
! reprise: cache export - writes the bundle to standard output, where the events of --json go: leave one out
? 2
$ reprise run synthetic:tiny hi --max-tokens 2 --cache-dir other --json | field traces compiles
traces 0
compiles 0
$ reprise cache verify --cache-dir own | sed 's/^[0-9]*/N/'
N objects, 0 bad
$ for f in $(find own/objects/plan -type f); do printf x | dd of="$f" bs=1 seek=100 conv=notrunc status=none; done; reprise cache verify --cache-dir own >/dev/null 2>&1
? 1
$ reprise compile synthetic:tiny --cache-dir own --json | field traces compiles
traces 2
compiles 0
$ mkdir empty; for n in 1 4k 4K 5m 5M 2g 2G; do reprise cache prune --max-bytes=$n --cache-dir empty; done | uniq -c | sed 's/^ *//'; rm -r empty
7 0 objects removed, 0 bytes left
$ for n in -1 18446744073709551616 17179869184G 1T ''; do reprise cache prune --max-bytes="$n" --cache-dir own 2>&1; echo $?; done | sort | uniq -c | sed 's/^ *//'
5 2
1 reprise: --max-bytes=-1: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M or 2G
1 reprise: --max-bytes=17179869184G: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M or 2G
1 reprise: --max-bytes=18446744073709551616: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M or 2G
1 reprise: --max-bytes=1T: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M or 2G
1 reprise: --max-bytes=: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M or 2G
$ reprise cache prune --max-bytes 18446744073709551615 --cache-dir own | sed 's/ [0-9]* bytes/ N bytes/'
0 objects removed, N bytes left
$ reprise cache prune --max-bytes 0 --cache-dir own | sed 's/^[0-9]* objects/N objects/'
N objects removed, 0 bytes left
$ reprise cache ls --cache-dir own --json | field objects bad takes.texts.files
objects 0
bad 0
takes.texts.files 0
$ reprise cache ls --cache-dir /dev/null/x
! reprise: the cache is not usable: cannot make folder '/dev/null': Not a directory
? 1
$ reprise run synthetic:tiny hi -O0 --max-tokens 1 --cache-dir /dev/null/x --json 2>&1 >/dev/null | grep -c uncached
1
$ reprise cache import prompts.txt
! reprise: prompts.txt is no cache bundle or is damaged (Unknown frame descriptor)
? 1
