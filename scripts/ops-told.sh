#!/bin/bash
# ops-told.sh: each op of src/ir/ops.def is in docs/ir.md, in the list of ops and in the rows of its facts, and each call of the public
# headers that makes tensors has the macro that tells the caller's line (include/reprise/tensor.h, RP_AT).
cd "$(dirname "$0")/.." || exit 1
bad=0
listed=$(sed -n '/^## Ops/,/^## /p' docs/ir.md | grep -v '^| `[A-Z]' | grep -o '`[^`]*`')
for op in $(sed -n 's/^OP(\([a-z0-9_]*\), *\([A-Z]*\),.*/\1/p' src/ir/ops.def); do
    case $op in input | param | state) continue ;; esac # syntax of the language
    grep -qw -- "$op" <<<"$listed" || { echo "docs/ir.md: the list of ops lacks $op"; bad=1; }
done
# Lines "FACT op": words in capitals behind the kind, but for attributes, A(KEY).
facts=$(sed -n 's/^OP(\([a-z0-9_]*\), *[A-Z]*,\(.*\)/\1 \2/p' src/ir/ops.def | sed 's/A([A-Z_0-9]*)//g' |
    while read -r op rest; do grep -oE '\b[A-Z][A-Z_]{3,}\b' <<<"$rest" | sed "s/\$/ $op/"; done)
rows=$(sed -n 's/^| `\([A-Z][A-Z_]*\)` | `\([^`]*\)` |.*/\1 \2/p' docs/ir.md)
for fact in $( (cut -d ' ' -f 1 <<<"$facts"; cut -d ' ' -f 1 <<<"$rows") | sort -u); do
    has=$(sed -n "s/^$fact //p" <<<"$facts" | sort | xargs)
    told=$(sed -n "s/^$fact //p" <<<"$rows" | tr ' ' '\n' | sort | xargs)
    [ "$has" = "$told" ] || { echo "docs/ir.md: $fact is true of '$has', not of '$told'"; bad=1; }
done
for h in include/reprise/*.h; do
    while read -r call; do
        grep -q "define $call(" "$h" || { echo "$h: $call has no macro that tells the caller's line (RP_AT)"; bad=1; }
    done < <(tr '\n' ' ' <"$h" | grep -oE 'RP_API (rp_tensor|void) rp_[a-z0-9_]*\([^;]*;' |
        grep -E '^RP_API rp_tensor |rp_tensor \*' | sed 's/^RP_API [a-z_]* \(rp_[a-z0-9_]*\)(.*/\1/' | grep -vx rp_at)
done
exit $bad
