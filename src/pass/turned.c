/* Two forms: the concat of x0 cos - x1 sin and x1 cos + x0 sin, of halves or of neighbours; and x cos + rotate_half(x) sin. */
#include "pass/turned.h"

enum { MOST_STEPS = 6 }; /* ops between a norm's sum and its result */

static const ir_node *node(const ir_graph *g, ir_ref r) {
    return ir_node_at(g, r);
}

/* What r is a view, or another format, of. */
static ir_ref behind(const ir_graph *g, ir_ref r) {
    for (;;) {
        const ir_node *n = node(g, r);
        if (ir_op_table(n->op)->kind != IR_KIND_VIEW && n->op != IR_cast) return r;
        r = n->in[0];
    }
}

/* --- norms --------------------------------------------------------------------------------- */

/* r = 1 / sqrt(a sum along the last axis, scaled and moved by what is the same for all of it). */
static bool is_scale(const ir_graph *g, ir_ref r, int steps) {
    const ir_node *n = node(g, behind(g, r));
    if (n->op == IR_sum)
        return ir_attr_int(n, IR_ATTR_AXIS, 0) + 1 == (int64_t)node(g, n->in[0])->shape.rank;
    if (steps == 0) return false;
    switch (n->op) {
    case IR_rsqrt:
    case IR_sqrt: return is_scale(g, n->in[0], steps - 1);
    case IR_mul:
    case IR_add:
    case IR_div:
    case IR_max: return is_scale(g, n->in[0], steps - 1) || is_scale(g, n->in[1], steps - 1);
    default: return false;
    }
}

static bool is_root(const ir_graph *g, ir_ref r, ir_op op) {
    const ir_node *n = node(g, behind(g, r));
    return n->op == op && is_scale(g, n->in[0], MOST_STEPS);
}

/* x times a root, weighted and shifted or not. */
static bool is_norm(const ir_graph *g, ir_ref r, int steps) {
    const ir_node *n = node(g, behind(g, r));
    if (n->op != IR_mul && n->op != IR_add && n->op != IR_div) return false;
    for (uint32_t i = 0; i < 2; i++) {
        if (n->op == IR_mul && is_root(g, n->in[i], IR_rsqrt)) return true;
        if (n->op == IR_div && i == 1 && is_root(g, n->in[i], IR_sqrt)) return true;
    }
    return steps > 0 && (is_norm(g, n->in[0], steps - 1) || is_norm(g, n->in[1], steps - 1));
}

/* --- turning --------------------------------------------------------------------------------- */

/* The value, behind slices, that is a factor of both; IR_NONE where there is none. */
static ir_ref common_factor(const ir_graph *g, const ir_node *a, const ir_node *b) {
    if (a->op != IR_mul || b->op != IR_mul) return IR_NONE;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 2; k++) {
            ir_ref x = behind(g, a->in[i]);
            if (x == behind(g, b->in[k]) && node(g, a->in[i])->op == IR_slice &&
                node(g, b->in[k])->op == IR_slice && is_norm(g, x, 2))
                return x;
        }
    return IR_NONE;
}

/* The concat of a difference and a sum, of four products of the head. */
static void find_pairs(const ir_graph *g, ir_ref r, pass_turned *t) {
    const ir_node *n = node(g, r);
    if (n->n_in != 2) return;
    const ir_node *lo = node(g, behind(g, n->in[0])), *hi = node(g, behind(g, n->in[1]));
    if (lo->op != IR_sub || hi->op != IR_add) return;
    const ir_ref mul[] = {behind(g, lo->in[0]), behind(g, lo->in[1]), behind(g, hi->in[0]),
                          behind(g, hi->in[1])};
    ir_ref head = common_factor(g, node(g, mul[0]), node(g, mul[1]));
    if (head == IR_NONE || common_factor(g, node(g, mul[2]), node(g, mul[3])) != head) return;
    for (int i = 0; i < 4; i++) t->reads[mul[i]] = head;
    t->ends[r] = head;
}

/* The concat of the second half of a head, negated, and its first half. */
static ir_ref turned_half(const ir_graph *g, ir_ref r, ir_ref *neg) {
    const ir_node *n = node(g, r);
    if (n->op != IR_concat || n->n_in != 2) return IR_NONE;
    *neg = behind(g, n->in[0]);
    const ir_node *a = node(g, *neg), *b = node(g, n->in[1]);
    bool is_half = a->op == IR_neg && node(g, a->in[0])->op == IR_slice && b->op == IR_slice;
    return is_half && behind(g, a->in[0]) == behind(g, n->in[1]) ? behind(g, n->in[1]) : IR_NONE;
}

/* x cos + rotate_half(x) sin. */
static void find_halves(const ir_graph *g, ir_ref r, pass_turned *t) {
    const ir_node *n = node(g, r);
    for (uint32_t i = 0; i < 2; i++) {
        ir_ref straight = behind(g, n->in[i]), crossed = behind(g, n->in[1 - i]), neg = IR_NONE;
        const ir_node *a = node(g, straight), *b = node(g, crossed);
        if (a->op != IR_mul || b->op != IR_mul) return;
        for (uint32_t k = 0; k < 2; k++) {
            ir_ref half = behind(g, b->in[k]), head = turned_half(g, half, &neg);
            if (head == IR_NONE || !is_norm(g, head, 2)) continue;
            if (behind(g, a->in[0]) != head && behind(g, a->in[1]) != head) continue;
            t->reads[straight] = head;
            t->reads[half] = head;
            t->reads[neg] = head;
            t->ends[r] = head;
            return;
        }
    }
}

void pass_turned_find(const ir_graph *g, pass_turned *out) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        ir_op op = node(g, r)->op;
        if (op == IR_concat) find_pairs(g, r, out);
        if (op == IR_add) find_halves(g, r, out);
    }
}
