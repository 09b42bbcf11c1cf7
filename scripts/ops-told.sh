#!/bin/bash
# ops-told.sh: each op of src/ir/ops.def is in docs/ir.md, and each call of the public headers that makes tensors has the macro that
# tells the caller's line (include/reprise/tensor.h, RP_AT).
cd "$(dirname "$0")/.." || exit 1
bad=0
listed=$(sed -n '/^## Ops/,/^## /p' docs/ir.md | grep -o '`[^`]*`')
for op in $(sed -n 's/^OP(\([a-z0-9_]*\), *\([A-Z]*\),.*/\1/p' src/ir/ops.def); do
    case $op in input | param | state) continue ;; esac # syntax of the language
    grep -qw -- "$op" <<<"$listed" || { echo "docs/ir.md: the list of ops lacks $op"; bad=1; }
done
for h in include/reprise/*.h; do
    while read -r call; do
        grep -q "define $call(" "$h" || { echo "$h: $call has no macro that tells the caller's line (RP_AT)"; bad=1; }
    done < <(tr '\n' ' ' <"$h" | grep -oE 'RP_API (rp_tensor|void) rp_[a-z0-9_]*\([^;]*;' |
        grep -E '^RP_API rp_tensor |rp_tensor \*' | sed 's/^RP_API [a-z_]* \(rp_[a-z0-9_]*\)(.*/\1/' | grep -vx rp_at)
done
exit $bad
