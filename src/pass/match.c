/* Applies one rule to one node. Values are compared by ref: the graph shares equal nodes. */
#include <math.h>
#include <string.h>

#include "pass/rules.h"

typedef struct matcher {
    const pass_rule *rule;
    ir_graph *g;
    ir_ref bound[PASS_RULE_TERMS]; /* by term, for VALUE and CONST */
    ir_ref root;
    ir_ref inner; /* the matched operand of root, for conditions on both */
    rp_error *err;
} matcher;

ir_ref pass_constant_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    while (n->op == IR_broadcast || n->op == IR_reshape) {
        r = n->in[0];
        n = ir_node_at(g, r);
    }
    return n->op == IR_const ? r : IR_NONE;
}

static bool same_number(double a, double b) {
    return a == b && signbit(a) == signbit(b);
}

/* The first term of the same variable decides; later ones must agree. */
static bool bind(matcher *m, uint32_t t, ir_ref r) {
    const pass_term *x = &m->rule->term[t];
    for (uint32_t i = 0; i < t; i++)
        if (m->rule->term[i].kind == x->kind && m->rule->term[i].letter == x->letter &&
            m->bound[i] != IR_NONE && m->bound[i] != r)
            return false;
    m->bound[t] = r;
    return true;
}

static bool match(matcher *m, uint32_t t, ir_ref r);

static bool match_operands(matcher *m, const pass_term *x, const ir_node *n, bool swap) {
    for (uint32_t i = 0; i < x->n_in; i++)
        if (!match(m, x->in[i], n->in[swap ? 1 - i : i])) return false;
    return true;
}

static bool match(matcher *m, uint32_t t, ir_ref r) {
    const pass_term *x = &m->rule->term[t];
    const ir_node *n = ir_node_at(m->g, r);
    ir_ref c;
    switch (x->kind) {
    case PASS_TERM_VALUE: return bind(m, t, r);
    case PASS_TERM_CONST: return (c = pass_constant_of(m->g, r)) != IR_NONE && bind(m, t, c);
    case PASS_TERM_NUMBER:
        c = pass_constant_of(m->g, r);
        return c != IR_NONE &&
               same_number(ir_attr_float(ir_node_at(m->g, c), IR_ATTR_VALUE, 0), x->number);
    case PASS_TERM_OP: break;
    }
    if (n->op != x->op || n->n_in != x->n_in) return false;
    if (r != m->root) m->inner = r;
    ir_ref saved[PASS_RULE_TERMS];
    memcpy(saved, m->bound, sizeof saved);
    if (match_operands(m, x, n, false)) return true;
    memcpy(m->bound, saved, sizeof saved);
    return ir_op_commutes(n->op) && match_operands(m, x, n, true);
}

/* --- conditions ----------------------------------------------------------------- */

/* Every value of a is a value of b. */
static bool widens(rp_dtype a, rp_dtype b) {
    static const uint32_t bits[RP_DTYPE_COUNT_] = {
        [RP_DTYPE_BOOL] = 1, [RP_DTYPE_U8] = 8,   [RP_DTYPE_I8] = 7,
        [RP_DTYPE_I16] = 15, [RP_DTYPE_I32] = 31, [RP_DTYPE_I64] = 63};
    static const uint32_t mantissa[RP_DTYPE_COUNT_] = {
        [RP_DTYPE_F32] = 24, [RP_DTYPE_F16] = 11, [RP_DTYPE_BF16] = 8, [RP_DTYPE_F64] = 53};
    if (a == b) return true;
    if (ir_dtype_is_f8(a)) return rp_dtype_is_float(b) || b == RP_DTYPE_F64;
    if (rp_dtype_is_float(a)) return b == RP_DTYPE_F32 || b == RP_DTYPE_F64;
    if (!bits[a]) return false;
    if (ir_dtype_is_real(b)) return bits[a] <= mantissa[b];
    bool is_signed = a != RP_DTYPE_U8 && a != RP_DTYPE_BOOL;
    return bits[a] <= bits[b] && !(is_signed && b == RP_DTYPE_U8) && b != RP_DTYPE_BOOL;
}

/* Whether a cast to c is that through b: of an integer in floats what does not fit saturates. */
static bool joins(rp_dtype a, rp_dtype b, rp_dtype c) {
    const bool turns = ir_dtype_is_integer(a) && ir_dtype_is_real(b) && ir_dtype_is_integer(c);
    return widens(a, b) && (!turns || widens(a, c));
}

static bool in_order(const ir_node *n) {
    const ir_attr *a = ir_attr_get(n, IR_ATTR_AXES);
    for (uint32_t i = 0; a && i < a->n; i++)
        if (a->u.ints[i] != i) return false;
    return a != NULL;
}

static bool is_pow2(const matcher *m) {
    int exponent;
    for (uint32_t i = 0; i < m->rule->n_terms; i++) {
        if (m->rule->term[i].kind != PASS_TERM_CONST || m->bound[i] == IR_NONE) continue;
        const ir_node *c = ir_node_at(m->g, m->bound[i]);
        double v = ir_attr_float(c, IR_ATTR_VALUE, 0);
        if (c->dtype != RP_DTYPE_F32 || !isfinite(v) || fabs(frexp(v, &exponent)) != 0.5)
            return false;
        return exponent > -125 && exponent < 126;
    }
    return false;
}

static bool condition_holds(const matcher *m) {
    const ir_node *root = ir_node_at(m->g, m->root);
    const ir_node *inner = m->inner == IR_NONE ? NULL : ir_node_at(m->g, m->inner);
    switch (m->rule->condition) {
    case PASS_IF_ALWAYS:
    case PASS_IF_COMPOSE: return true;
    case PASS_IF_INT: return ir_dtype_is_integer(root->dtype);
    case PASS_IF_WIDENS:
        return inner && joins(ir_node_at(m->g, inner->in[0])->dtype, inner->dtype, root->dtype);
    case PASS_IF_IDENTITY: return in_order(root);
    case PASS_IF_POW2: return is_pow2(m);
    case PASS_IF_SIGNED: return root->dtype != RP_DTYPE_U8;
    }
    return false;
}

/* --- replacement ------------------------------------------------------------------ */

static ir_ref bound_to(const matcher *m, const pass_term *x) {
    for (uint32_t i = 0; i < m->rule->n_terms; i++)
        if (m->rule->term[i].kind == x->kind && m->rule->term[i].letter == x->letter &&
            m->bound[i] != IR_NONE)
            return m->bound[i];
    return IR_NONE;
}

/* Axis i of the outer is axis outer[i] of the inner's result, which is axis inner[outer[i]] of its operand. */
static rp_status add_composed(matcher *m, ir_ref x, ir_ref *out) {
    const ir_attr *a = ir_attr_get(ir_node_at(m->g, m->root), IR_ATTR_AXES);
    const ir_attr *b = ir_attr_get(ir_node_at(m->g, m->inner), IR_ATTR_AXES);
    int64_t axes[IR_MAX_RANK];
    for (uint32_t i = 0; i < a->n; i++) axes[i] = b->u.ints[a->u.ints[i]];
    ir_attr attr = {.key = IR_ATTR_AXES, .n = a->n, .u.ints = axes};
    return ir_add(m->g, IR_permute, &x, 1, &attr, 1, out, m->err);
}

static rp_status build(matcher *m, uint32_t t, ir_ref *out) {
    const pass_term *x = &m->rule->term[t];
    const ir_node *root = ir_node_at(m->g, m->root);
    ir_ref in[3] = {IR_NONE, IR_NONE, IR_NONE};
    if (x->kind != PASS_TERM_OP) {
        *out = bound_to(m, x);
        return RP_OK;
    }
    for (uint32_t i = 0; i < x->n_in; i++) RP_TRY(build(m, x->in[i], &in[i]));
    if (m->rule->condition == PASS_IF_COMPOSE) return add_composed(m, in[0], out);
    bool same = x->op == root->op;
    RP_TRY(ir_add(m->g, x->op, in, x->n_in, same ? root->attrs : NULL, same ? root->n_attrs : 0,
                  out, m->err));
    return pass_fold_node(m->g, *out, out, m->err);
}

static bool same_type(const ir_graph *g, const ir_node *a, const ir_node *b) {
    if (a->dtype != b->dtype || a->shape.rank != b->shape.rank) return false;
    for (uint32_t i = 0; i < a->shape.rank; i++)
        if (a->shape.dim[i] != b->shape.dim[i] &&
            ir_dim_eq(ir_graph_dims(g), a->shape.dim[i], b->shape.dim[i]) != IR_TRUE)
            return false;
    return true;
}

rp_status pass_rule_apply(const pass_rule *rule, ir_graph *g, ir_ref r, ir_ref *out,
                          rp_error *err) {
    rp_error local = {0};
    matcher m = {.rule = rule, .g = g, .root = r, .inner = IR_NONE, .err = &local};
    ir_ref made = IR_NONE;
    memset(m.bound, 0xff, sizeof m.bound);
    *out = IR_NONE;
    if (rule->term[rule->pattern].op != ir_node_at(g, r)->op) return RP_OK;
    if (!match(&m, rule->pattern, r) || !condition_holds(&m)) return RP_OK;
    rp_status st = build(&m, rule->replacement, &made);
    /* A replacement that would not fit (sizes, types) is a rule that does not apply. */
    if (st == RP_INVALID || st == RP_UNSUPPORTED) return RP_OK;
    if (st != RP_OK) return rp_fail(err, st, "%s", local.text);
    if (made != r && same_type(g, ir_node_at(g, made), ir_node_at(g, r))) *out = made;
    return RP_OK;
}
