/* Which reductions are made in runs: by what is known of sizes. A size that is a symbol counts as its largest value along the
 * axis, where too much work for one block costs more than a launch too many (the target says where it does not), and at its nominal one
 * elsewhere. */
#include "pass/runs.h"

#define MOST_WAYS 64

static int64_t length_of(const ir_graph *g, ir_dim d, bool nominal) {
    int64_t lo, hi;
    if (nominal) return ir_dim_nominal(ir_graph_dims(g), d);
    ir_dim_bounds(ir_graph_dims(g), d, &lo, &hi);
    return hi;
}

/* A float product is one chain of all its elements. */
static bool has_runs(const ir_node *n) {
    return ir_op_table(n->op)->kind == IR_KIND_REDUCE &&
           (n->op != IR_prod || !ir_dtype_is_real(n->dtype));
}

static bool is_split(const fuser *u, ir_ref r) {
    const pass_splits *s = u->opt ? u->opt->splits : NULL;
    const ir_node *n = ir_node_at(u->g, r);
    if (!s || !has_runs(n)) return false;
    const ir_shape *x = &ir_node_at(u->g, n->in[0])->shape;
    const uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    int64_t inner = 1, blocks = pass_nominal_elements(u->g, &n->shape);
    for (uint32_t d = axis + 1; d < x->rank && inner < s->side_by_side; d++)
        inner *= ir_dim_nominal(ir_graph_dims(u->g), x->dim[d]);
    if (inner >= s->narrow) blocks /= inner < s->side_by_side ? inner : s->side_by_side;
    return length_of(u->g, x->dim[axis], s->nominal) >= s->least && blocks <= s->most;
}

/* Short values are computed once and read by all rows; memory that is overwritten later is read by members of groups, which are put
 * in front of that. */
static bool may_see_through(const fuser *u, ir_ref o) {
    const ir_node *n = ir_node_at(u->g, o);
    return ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE &&
           pass_nominal_elements(u->g, &n->shape) >= u->opt->splits->least &&
           !pass_reads_overwritten(u, o);
}

/* ways: in which a reduction gets there; 0: it does not. */
static void note(fuser *u, ir_ref o, uint32_t ways) {
    if (ways && (pass_is_transparent(ir_node_at(u->g, o)) || may_see_through(u, o)))
        u->through[o] += u->through[o] > MOST_WAYS ? 0 : ways;
    else
        u->needed[o] = true;
}

/* What is read in very many ways is computed once, and so is what takes long where the target stores that. */
static void settle(fuser *u, ir_ref r) {
    const ir_node *n = ir_node_at(u->g, r);
    if (pass_is_transparent(n)) return;
    const bool often = u->through[r] > 1 || (u->through[r] && u->needed[r]);
    if (ir_op_table(n->op)->kind != IR_KIND_ELEMENTWISE || u->through[r] > MOST_WAYS ||
        (often && u->opt->splits->once && ir_op_is_heavy(n->op))) {
        u->needed[r] = true;
        u->through[r] = 0;
    }
}

void pass_find_runs(fuser *u) {
    const uint32_t n = ir_graph_count(u->g);
    bool any = false;
    for (ir_ref r = 0; r < n; r++) any = (u->f->split[r] = is_split(u, r)) || any;
    for (ir_ref r = 0; !any && r < n; r++) u->needed[r] = true;
    if (!any) return;
    for (uint32_t i = 0; i < ir_output_count(u->g); i++) u->needed[ir_output_at(u->g, i)] = true;
    for (ir_ref r = n; r-- > 0;) {
        const ir_node *x = ir_node_at(u->g, r);
        settle(u, r);
        const uint32_t ways = u->f->split[r] ? 1 : u->through[r];
        for (uint32_t i = 0; i < x->n_in; i++) {
            if (ways) note(u, x->in[i], ways);
            if (u->needed[r] && !u->f->split[r]) note(u, x->in[i], 0);
        }
    }
}

bool pass_sees_through(const fuser *u, ir_ref r, ir_ref o) {
    return pass_is_transparent(ir_node_at(u->g, o)) || (u->f->split[r] && u->through[o]);
}

static bool has_split(const fuser *u, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (u->f->split[gr->nodes[i]]) return true;
    return false;
}

static ir_dim last(const pass_rows *r) {
    return r->n ? r->at[r->n - 1] : IR_DIM_BAD;
}

const char *pass_why_no_runs(fuser *u, ir_ref r, const pass_candidate *c, const pass_rows *common) {
    const pass_group *gr = &u->f->groups[c->group];
    if (!u->f->split[r] && !has_split(u, gr)) return NULL;
    if (u->f->split[r] && c->shares) return "a split reduction reads what the group computes";
    if (last(common) != last(&u->rows[r]) || last(common) != last(&gr->by))
        return "a split reduction has too few rows for the rest";
    return NULL;
}
