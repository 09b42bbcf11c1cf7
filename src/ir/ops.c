/* The op table, made from ops.def. Holds no rule of any op: shapes are in shape*.c, values in eval. */
#include <string.h>

#include "ir/graph.h"

/* Facts. Units in the last place are kept in tenths. */
enum {
    COMMUTES = 1,
    HEAVY = 2,
    COMPARES = 4,
    REALS = 8,
    BITS = 16,
    PLAIN = 32,
    RANDOM = 64,
    RUN_BY_HOST = 128,
    READ_BY_HOST = 256,
    F32_SHIFT = 12,
    F64_SHIFT = 20
};

#define A(key) (1u << IR_ATTR_##key)
#define ULPS(f32, f64) (int)((f32)*10) << F32_SHIFT | (int)((f64)*10) << F64_SHIFT
static const ir_op_info table[] = {
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    [IR_##name] = {#name, IR_KIND_##kind, arity, attrs, facts, #expr, #ints},
#include "ir/ops.def"
#undef OP
};
#undef ULPS

const ir_op_info *ir_op_table(ir_op op) {
    static const ir_op_info none = {"?", IR_KIND_LEAF, 0, 0, 0, "", ""};
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

bool ir_op_commutes(ir_op op) {
    return ir_op_table(op)->facts & COMMUTES;
}

bool ir_op_is_heavy(ir_op op) {
    return ir_op_table(op)->facts & HEAVY;
}

bool ir_op_is_random(ir_op op) {
    return ir_op_table(op)->facts & RANDOM;
}

bool ir_op_run_by_host(ir_op op) {
    return ir_op_table(op)->facts & RUN_BY_HOST;
}

bool ir_op_read_by_host(ir_op op) {
    return ir_op_table(op)->facts & READ_BY_HOST;
}

bool ir_op_compares(ir_op op) {
    return ir_op_table(op)->facts & COMPARES;
}

ir_operands ir_op_operands(ir_op op) {
    const uint32_t facts = ir_op_table(op)->facts;
    if (facts & PLAIN) return IR_PLAIN;
    if (facts & BITS) return IR_BITS;
    if (facts & REALS || !ir_op_on_integers(op)) return IR_REALS;
    return ir_op_on_floats(op) ? IR_NUMBERS : IR_INTS;
}

double ir_op_ulps(ir_op op, bool f64) {
    return (ir_op_table(op)->facts >> (f64 ? F64_SHIFT : F32_SHIFT) & 255) / 10.0;
}

bool ir_op_has_graphs(ir_op op) {
    return ir_op_table(op)->attr_mask & (A(BODY) | A(COND) | A(ELSE) | A(THEN));
}

bool ir_op_is_call(ir_op op) {
    return op == IR_custom || ir_op_has_graphs(op);
}
