/* Computes ops over constants while compiling.
 *
 * Only where every device would give the same bits: ops that are exact or correctly rounded in float64 first and then in
 * their own type. exp and its kind, and fma, which would be rounded twice, are left to run time; so is NaN, whose bits are
 * the machine's. Only uniform results: a tensor of constants has no form in the IR. */
#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "pass/passes.h"
#include "pass/rebuild.h"
#include "pass/rules.h"

/* Up to it a constant's double holds every integer. */
#define MAX_EXACT 0x1p53

static bool is_exact(ir_op op, rp_dtype in) {
    if (op == IR_sqrt || op == IR_recip || op == IR_div)
        return rp_dtype_is_float(in) || in == RP_DTYPE_F64;
    return ir_op_on_integers(op);
}

/* The operands' values; false when one is not constant. */
static bool constants(const ir_graph *g, const ir_node *n, double *x) {
    if (ir_op_table(n->op)->kind != IR_KIND_ELEMENTWISE || n->n_in > 3) return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref c = pass_constant_of(g, n->in[i]);
        if (c == IR_NONE) return false;
        x[i] = ir_attr_float(ir_node_at(g, c), IR_ATTR_VALUE, 0);
    }
    return true;
}

static double bitcast_of(rp_dtype from, rp_dtype to, double x) {
    int64_t v = ir_to_i64(x), most = (int64_t)MAX_EXACT;
    if (isnan(x)) return x;
    if (from == RP_DTYPE_I64) memcpy(&x, &v, sizeof x);
    x = ir_bitcast(from, to, x);
    if (to != RP_DTYPE_I64) return x;
    memcpy(&v, &x, sizeof v);
    return v > most || v < -most ? (double)NAN : (double)v;
}

/* NAN where it is left to run time: NaN, and integers that a double may not hold. */
static double result_of(const ir_node *n, rp_dtype in, const double *x) {
    int64_t v[3] = {0}, most = (int64_t)MAX_EXACT;
    if (n->op == IR_bitcast) return bitcast_of(in, n->dtype, x[0]);
    if (in != RP_DTYPE_I64 || n->dtype != RP_DTYPE_I64) {
        double y = ir_apply(n->op, in, n->dtype, x);
        return !ir_dtype_is_real(n->dtype) && fabs(y) > MAX_EXACT ? (double)NAN : y;
    }
    for (uint32_t i = 0; i < n->n_in; i++) v[i] = ir_to_i64(x[i]);
    v[0] = ir_apply_i64(n->op, v);
    return v[0] > most || v[0] < -most ? (double)NAN : (double)v[0];
}

rp_status pass_fold_node(ir_graph *g, ir_ref r, ir_ref *out, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    double x[3] = {0};
    *out = r;
    if (!constants(g, n, x)) return RP_OK;
    rp_dtype in = ir_node_at(g, n->in[n->n_in - 1])->dtype;
    double v = result_of(n, in, x);
    if (!is_exact(n->op, in) || isnan(v)) return RP_OK;
    ir_ref c;
    RP_TRY(ir_add_const(g, n->dtype, v, &c, err));
    if (n->shape.rank > 0) {
        ir_attr shape = {.key = IR_ATTR_SHAPE, .n = n->shape.rank, .u.dims = n->shape.dim};
        RP_TRY(ir_add(g, IR_broadcast, &c, 1, &shape, 1, &c, err));
    }
    *out = c;
    return RP_OK;
}

static rp_status fold(pass_rebuild *b, ir_ref r, ir_ref *out) {
    RP_TRY(ir_copy_node(b->out, b->in, r, b->map, out, b->err));
    return pass_fold_node(b->out, *out, out, b->err);
}

rp_status pass_fold(const ir_graph *in, ir_graph **out, rp_error *err) {
    return pass_rebuild_graph(in, fold, NULL, out, err);
}
