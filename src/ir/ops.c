/* The op table, made from ops.def. Holds no rule of any op: shapes are in shape*.c, values in eval. */
#include <string.h>

#include "ir/graph.h"

#define A(key) (1u << IR_ATTR_##key)
static const ir_op_info table[] = {
#define OP(name, kind, arity, attrs, expr, ints) \
    [IR_##name] = {#name, IR_KIND_##kind, arity, attrs, #expr, #ints},
#include "ir/ops.def"
#undef OP
};
#undef A

const ir_op_info *ir_op_table(ir_op op) {
    static const ir_op_info none = {"?", IR_KIND_LEAF, 0, 0, "", ""};
    return (unsigned)op < IR_OP_COUNT_ ? &table[op] : &none;
}

ir_op ir_op_find(const char *name) {
    for (unsigned i = 0; i < IR_OP_COUNT_; i++)
        if (strcmp(table[i].name, name) == 0) return (ir_op)i;
    return IR_OP_COUNT_;
}

bool ir_op_on_integers(ir_op op) {
    const ir_op_info *x = ir_op_table(op);
    return x->kind == IR_KIND_ELEMENTWISE && *x->ints;
}

bool ir_op_on_floats(ir_op op) {
    const ir_op_info *x = ir_op_table(op);
    return x->kind == IR_KIND_ELEMENTWISE && *x->expr;
}

static bool is_transcendental(ir_op op) {
    switch (op) {
    case IR_exp:
    case IR_log:
    case IR_sin:
    case IR_cos:
    case IR_tanh:
    case IR_erf:
    case IR_sigmoid:
    case IR_pow: return true;
    default: return false;
    }
}

bool ir_op_is_heavy(ir_op op) {
    return is_transcendental(op) || op == IR_philox;
}

bool ir_op_has_graphs(ir_op op) {
    return op == IR_call || op == IR_cond || op == IR_while || op == IR_scan;
}

bool ir_op_is_call(ir_op op) {
    return op == IR_custom || ir_op_has_graphs(op);
}

bool ir_op_commutes(ir_op op) {
    return op == IR_add || op == IR_mul || op == IR_and || op == IR_or || op == IR_xor ||
           op == IR_eq || op == IR_ne;
}
