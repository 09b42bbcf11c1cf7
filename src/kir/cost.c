/* The work of a function, counted from its instructions: a measure for tests and for dealing items to threads that no
 * machine and no clock takes part in. */
#include "kir/inst.h"

#define HEAVY 8 /* an exponential beside an addition */

/* Iterations of a loop with such an extent. */
static double clip(kir_range r) {
    if (r.hi < IR_DIM_NOMINAL) return r.hi > 0 ? (double)r.hi : 0.0;
    return r.lo > IR_DIM_NOMINAL ? (double)r.lo : IR_DIM_NOMINAL;
}

static double trips(const kir_func *f, kir_ref r, const int64_t *symbols) {
    const kir_inst *in = &f->insts[r];
    int64_t v;
    double a, b;

    if (kir_const_value(f, r, &v)) return v > 0 ? (double)v : 0.0;
    if (in->op == KIR_DIM && symbols) return (double)ir_dim_eval(f->dims, in->u.dim, symbols);
    if (in->op != KIR_IMIN) return clip(f->ranges[r]);
    a = trips(f, in->in[0], symbols);
    b = trips(f, in->in[1], symbols);
    return a < b ? a : b;
}

static double weight(const kir_inst *in) {
    switch (in->op) {
    case KIR_ALU: return ir_op_is_heavy(in->u.alu) ? HEAVY : 1;
    case KIR_SELECT:
    case KIR_CVT:
    case KIR_CVT_ODD:
    case KIR_ROUND_TO:
    case KIR_BITS:
    case KIR_SHR:
    case KIR_BAND:
    case KIR_LOAD:
    case KIR_STORE:
    case KIR_YIELD: return 1;
    default: return 0; /* counters and addresses */
    }
}

double kir_item_cost(const kir_func *f, const int64_t *symbols) {
    double times[KIR_MAX_DEPTH + 1] = {1.0}, sum = 0.0;
    uint32_t depth = 0;

    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_inst *in = &f->insts[at];
        kir_shape shape = kir_op_table(in->op)->shape;
        /* The join of a reduction happens in its loop. */
        sum += weight(in) * times[depth];
        if (shape == KIR_SHAPE_END && depth > 0) depth--;
        if (shape != KIR_SHAPE_BEGIN || depth == KIR_MAX_DEPTH) continue;
        times[depth + 1] = times[depth];
        if (in->op == KIR_LOOP || in->op == KIR_REDUCE)
            times[depth + 1] *= trips(f, in->in[0], symbols);
        depth++;
    }
    return sum;
}
