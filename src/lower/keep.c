/* Which members of a group keep their values while the group's kernel runs.
 *
 * A value that is not kept is computed again wherever it is read. Reductions that another member reads are always kept. An
 * elementwise value is kept where that saves more operations than it costs: by what it takes to compute and by how often its
 * readers ask for an element of it, which is more than once where they repeat it (a broadcast) or where several loops read
 * it. Values that readers inline into one loop are shared there. */
#include "lower/emit.h"

#define CHEAP 6 /* operations that a store and a load are worth */
#define MANY 8  /* evaluations from which a value is kept even in memory */

static bool is_reduction(ir_op op) {
    return ir_op_table(op)->kind == IR_KIND_REDUCE;
}

static uint32_t own_cost(ir_op op) {
    return ir_op_is_heavy(op) ? CHEAP + 1 : 1;
}

static double size_of(const lowerer *L, ir_dim d) {
    return (double)ir_dim_nominal(ir_graph_dims(L->g), d);
}

static double elements_of(const lowerer *L, const ir_shape *s) {
    double n = 1.0;
    for (uint32_t i = 0; i < s->rank; i++) n *= size_of(L, s->dim[i]);
    return n;
}

/* Values of other groups are in memory. */
static bool is_member(const lowerer *L, ir_ref r) {
    return L->f->group_of[r] == L->keep_group;
}

/* Has a place of its own: nobody computes it again. */
static bool has_place(lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    return lower_local_of(L, r)->place != LOWER_COMPUTE || L->f->stored[r] || is_reduction(n->op) ||
           n->op == IR_quantize || ir_op_table(n->op)->kind == IR_KIND_EFFECT ||
           (L->keep_whole && lower_row_count(L, &n->shape) == 1);
}

static uint32_t capped(uint32_t a, uint32_t b) {
    return a > UINT16_MAX || b > UINT16_MAX ? UINT16_MAX : a + b;
}

static uint32_t operand_cost(lowerer *L, ir_ref o) {
    const ir_node *n = ir_node_at(L->g, o);
    if (n->op == IR_const) return 0;
    if (pass_is_transparent(n)) return n->n_in ? capped(1, operand_cost(L, n->in[0])) : 1;
    return is_member(L, o) && !has_place(L, o) && !L->keep[o].kept ? L->keep[o].cost : 0;
}

static void find_cost(lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    uint32_t c = own_cost(n->op);
    for (uint32_t i = 0; i < n->n_in; i++) c = capped(c, operand_cost(L, n->in[i]));
    L->keep[r].cost = c;
}

/* Elements that r itself computes. */
static double evaluations_of(const lowerer *L, const ir_node *n) {
    bool writes = n->op == IR_kv_store || n->op == IR_update; /* a part of what they are */
    return elements_of(L, writes ? &ir_node_at(L->g, n->in[1])->shape : &n->shape);
}

/* How often one evaluation of n asks for an element of its operand. */
static double asks(const lowerer *L, const ir_node *n) {
    const ir_shape *x = n->n_in ? &ir_node_at(L->g, n->in[0])->shape : NULL;
    if (ir_op_table(n->op)->kind == IR_KIND_REDUCE)
        return size_of(L, x->dim[ir_attr_int(n, IR_ATTR_AXIS, 0)]);
    return n->op == IR_quantize ? 2.0 : 1.0;
}

static bool same_shape(const ir_node *a, const ir_node *b) {
    if (a->shape.rank != b->shape.rank) return false;
    for (uint32_t i = 0; i < a->shape.rank; i++)
        if (a->shape.dim[i] != b->shape.dim[i]) return false;
    return true;
}

/* Reader r, whose loop is that of `root`, evaluates o `times` times; in the same place if `same`. */
static void add_reader(lowerer *L, ir_ref o, ir_ref root, double times, bool same) {
    const ir_node *n = ir_node_at(L->g, o);
    if (pass_is_transparent(n)) {
        for (uint32_t i = 0; i < n->n_in; i++) add_reader(L, n->in[i], root, times, false);
        return;
    }
    if (!is_member(L, o)) return;
    lower_keep *k = &L->keep[o];
    if (same && k->root == root) return; /* one loop: found there a second time */
    k->root = same ? root : IR_NONE;
    k->evals += times;
}

static bool is_worth_it(lowerer *L, ir_ref r, const lower_space *s) {
    const ir_node *n = ir_node_at(L->g, r);
    const lower_keep *k = &L->keep[r];
    double repeats = k->evals / elements_of(L, &n->shape);
    if (k->evals <= 0.0 || lower_local_of(L, r)->place != LOWER_COMPUTE) return false;
    if (is_reduction(n->op)) return true;
    /* A reduction would choose among the parts of a concat for each element. */
    if (n->op == IR_concat && k->reduced && !s->fragment && !s->tile)
        return lower_fits_scratch(L, n);
    if (s->fragment && k->cost > CHEAP) return true;
    if (k->cost * (repeats - 1.0) <= CHEAP) return false;
    return repeats >= MANY || s->tile || lower_fits_scratch(L, n);
}

/* An effect loops over the parts of what it writes, as a concat with a place of its own does. */
static void mark_parted(lowerer *L, const ir_node *n) {
    ir_ref r = n->in[1];
    while (n->op == IR_kv_store && ir_node_at(L->g, r)->op == IR_reshape)
        r = ir_node_at(L->g, r)->in[0];
    if (is_member(L, r)) L->keep[r].parted = true;
}

/* What r's readers ask of it decides whether it is kept, and then what it asks of its operands. */
static void decide(lowerer *L, ir_ref r, const lower_space *s) {
    const ir_node *n = ir_node_at(L->g, r);
    lower_keep *k = &L->keep[r];
    k->kept = is_worth_it(L, r, s);
    bool own = k->kept || has_place(L, r);
    double times = own ? evaluations_of(L, n) : k->evals;
    ir_ref root = own ? r : k->root;
    bool inlines = ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE && root != IR_NONE;
    const bool reduces = is_reduction(n->op) ||
                         (k->reduced && !own && ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE);
    if (n->op == IR_kv_store || n->op == IR_update) mark_parted(L, n);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *o = ir_node_at(L->g, n->in[i]);
        if (L->f->split[r]) continue; /* its runs were made before */
        if (reduces && is_member(L, n->in[i])) L->keep[n->in[i]].reduced = true;
        bool part = n->op == IR_concat && (own || k->parted);
        add_reader(L, n->in[i], root, part ? elements_of(L, &o->shape) : times * asks(L, n),
                   inlines && same_shape(o, n));
    }
}

void lower_plan_keeps(lowerer *L, const lower_space *s, const ir_ref *nodes, uint32_t n) {
    L->keep_whole = !s->fragment && !s->tile;
    if (n) L->keep_group = L->f->group_of[nodes[0]];
    for (uint32_t i = 0; i < n; i++) {
        L->keep[nodes[i]] = (lower_keep){.root = IR_NONE};
        find_cost(L, nodes[i]);
    }
    for (uint32_t i = n; i-- > 0;) decide(L, nodes[i], s);
    /* With some of them kept the others cost less. */
    for (uint32_t i = 0; i < n; i++) {
        find_cost(L, nodes[i]);
        if (L->keep[nodes[i]].kept) L->keep[nodes[i]].kept = is_worth_it(L, nodes[i], s);
    }
}
