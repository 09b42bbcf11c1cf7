/* The op table, made from ops.def. Holds no rule of any op: shapes are in shape.c, values in eval. */
#include <string.h>

#include "ir/graph.h"

#define A(key) (1u << IR_ATTR_##key)
static const ir_op_info table[] = {
#define OP(name, kind, arity, attrs, expr) \
    [IR_##name] = {#name, IR_KIND_##kind, arity, attrs, #expr},
#include "ir/ops.def"
#undef OP
};
#undef A

const ir_op_info *ir_op_table(ir_op op) {
    static const ir_op_info none = {"?", IR_KIND_LEAF, 0, 0, ""};
    return (unsigned)op < IR_OP_COUNT_ ? &table[op] : &none;
}

ir_op ir_op_find(const char *name) {
    for (unsigned i = 0; i < IR_OP_COUNT_; i++)
        if (strcmp(table[i].name, name) == 0) return (ir_op)i;
    return IR_OP_COUNT_;
}

bool ir_op_on_integers(ir_op op) {
    switch (op) {
    case IR_neg:
    case IR_abs:
    case IR_not:
    case IR_cast:
    case IR_floor:
    case IR_ceil:
    case IR_round:
    case IR_add:
    case IR_sub:
    case IR_mul:
    case IR_max:
    case IR_min:
    case IR_eq:
    case IR_ne:
    case IR_lt:
    case IR_le:
    case IR_gt:
    case IR_ge:
    case IR_and:
    case IR_or:
    case IR_where: return true;
    default: return false;
    }
}
