#!/bin/sh
# ops-header.sh [check]: writes include/reprise/elementwise.h from src/ir/ops.def, or fails when it is not current.
cd "$(dirname "$0")/.." || exit 1
header() {
    # Elementwise ops without attributes: name and number of operands.
    awk -F'[(,] *' '/^OP\(/ && $3 ~ /^(REAL|INTEGER|ELEMENTWISE)$/ && $5 == "0" { print $2, $4 }' src/ir/ops.def | awk '
        { name[NR] = $1; arity[NR] = $2 }
        END {
            print "/* Elementwise ops, one call each: numpy broadcasting, equal types (tensor.h says what they mean).\n *"
            print " * Written from src/ir/ops.def by scripts/ops-header.sh. */"
            print "#ifndef REPRISE_ELEMENTWISE_H\n#define REPRISE_ELEMENTWISE_H\n\n#include \"reprise/tensor.h\"\n"
            print "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
            of[1] = "rp_tensor a"
            of[2] = of[1] ", rp_tensor b"
            of[3] = of[2] ", rp_tensor c"
            for (i = 1; i <= NR; i++) print "RP_API rp_tensor rp_" name[i] "(" of[arity[i]] ");"
            print "\n/* Their names by the number of operands. */\n/* clang-format off */"
            for (n = 1; n <= 3; n++) {
                printf "#define RP_ELEMENTWISE_%d(X)", n
                for (i = 1; i <= NR; i++) if (arity[i] == n) printf " \\\n    X(%s)", name[i]
                print ""
            }
            print "/* clang-format on */\n\n#ifndef RP_NO_SITES"
            for (i = 1; i <= NR; i++)
                print "#define rp_" name[i] "(...) RP_AT(\"rp_" name[i] "\", (rp_" name[i] ")(__VA_ARGS__))"
            print "#endif\n\n#ifdef __cplusplus\n}\n#endif\n#endif"
        }'
}
[ "${1-}" = check ] || { header > include/reprise/elementwise.h; exit; }
header | diff -u include/reprise/elementwise.h - ||
    { echo "include/reprise/elementwise.h is not current: run scripts/ops-header.sh"; exit 1; }
