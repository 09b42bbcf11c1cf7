# One event a token, then the summary.
$ reprise score synthetic:tiny --prompt-ids 1,2,3 --continuation-ids 4,5,6,7 --json | events
score 4
summary 1
$ reprise score synthetic:tiny --prompt-ids 1,2,3 --continuation-ids 4,5,6,7 --json | field prompt_ids continuation_ids tokens top1
prompt_ids [1, 2, 3]
continuation_ids [4, 5, 6, 7]
tokens 4
top1 null
$ reprise score synthetic:tiny --prompt ab --continuation cd --top-logits 3 --json | head -n 1 | python3 -c 'import json,sys; o = json.load(sys.stdin); print(o["position"], o["id"], len(o["top"]))'
2 99 3
# The likeliest token is counted where it is the one that follows, however many others are told.
$ ids=$(reprise run synthetic:tiny --prompt-ids 1,2,3 --max-tokens 4 --ignore-eos --json | field output_ids | cut -d ' ' -f 2-); for k in 1 2 5; do reprise score synthetic:tiny --prompt-ids 1,2,3 --continuation-ids "$ids" --top-logits $k --json | field top1; done
top1 4
top1 4
top1 4
# Any number of tokens a forward gives the same bits.
$ for n in 1 2 3 7; do reprise score synthetic:tiny --prompt-ids 1,2,3 --continuation-ids 4,5,6,7,8,9 --top-logits 4 --step $n --quiet | cksum; done | sort -u | wc -l
1
# Each token's text stands beside it, for people and in events.
$ reprise score synthetic:tiny --prompt ab --continuation 'c "' --quiet | cut -f 1,2,4; reprise score synthetic:tiny --prompt ab --continuation c --json | head -n 1 | field text
2	99	"c"
3	32	" "
4	34	"\""
text "c"
# Ids that cannot be scored, and steps that are none.
$ reprise score synthetic:tiny --prompt-ids 1 --continuation-ids 7,999999
! reprise: token id 999999 at position 1 of the continuation is outside the vocabulary of 288; ids go from 0 to 287
? 2
$ reprise score synthetic:tiny --prompt-ids 288 --continuation-ids 7
! reprise: token id 288 at position 0 of the prompt is outside the vocabulary of 288; ids go from 0 to 287
? 2
$ reprise score synthetic:tiny --prompt-ids 1,2,3 --continuation-ids 4,5 --max-model-len 4
! reprise: prompt of 3 and continuation of 2 tokens do not fit max_model_len 4; shorten them or raise max_model_len
? 2
$ reprise score synthetic:tiny --prompt-ids 1 --continuation-ids 2 --step 0
! reprise: --step=0: expected a number from 1 to 1048576
? 2
$ reprise score synthetic:tiny --prompt "" --continuation b
! reprise: scoring wants a prompt and a continuation; got 0 and 1 ids
? 2
