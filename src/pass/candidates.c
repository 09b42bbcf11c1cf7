/* The groups that a node could join: those that make or read what it reads, and what each would save.
 *
 * A value remembers the latest groups that touched it, so a weight that thousands of groups read costs each of them as
 * much as one that few read. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pass/fuser.h"

#define WINDOW 16 /* groups that a value remembers */
#define MANY (INT64_C(1) << 44)

int64_t pass_nominal_elements(const ir_graph *g, const ir_shape *s) {
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        if (__builtin_mul_overflow(n, ir_dim_nominal(ir_graph_dims(g), s->dim[i]), &n) || n > MANY)
            return MANY;
    return n;
}

static int64_t bytes_of(const ir_graph *g, const ir_node *n) {
    return pass_nominal_elements(g, &n->shape) * (int64_t)rp_dtype_block_bytes(n->dtype) /
           (int64_t)rp_dtype_block(n->dtype);
}

int64_t pass_most_rows(const ir_graph *g, const pass_rows *r) {
    return r->n ? ir_dim_nominal(ir_graph_dims(g), r->at[r->n - 1]) : 0;
}

static pass_candidate *find(fuser *u, uint32_t group) {
    if (u->round[group] == u->n_rounds) return &u->candidates[u->candidate_of[group]];
    if (u->n_candidates == u->cap_candidates) {
        uint32_t cap = u->cap_candidates ? u->cap_candidates * 2 : 64;
        pass_candidate *bigger = base_arena_array(u->f->arena, cap, sizeof *bigger);
        if (!bigger) return NULL;
        if (u->n_candidates) memcpy(bigger, u->candidates, u->n_candidates * sizeof *bigger);
        u->candidates = bigger;
        u->cap_candidates = cap;
    }
    u->round[group] = u->n_rounds;
    u->candidate_of[group] = u->n_candidates;
    u->candidates[u->n_candidates] = (pass_candidate){.group = group, .keeps = UINT32_MAX};
    return &u->candidates[u->n_candidates++];
}

static bool weighs(const ir_node *n) {
    return n->op != IR_const;
}

/* Value s, which the node reads, in every group that has it. */
static bool count_value(fuser *u, ir_ref s) {
    const ir_node *n = ir_node_at(u->g, s);
    if (!weighs(n) || u->stamp[s] == u->n_stamps) return true;
    u->stamp[s] = u->n_stamps;
    int64_t bytes = bytes_of(u->g, n);
    uint32_t own = u->f->group_of[s];
    for (uint32_t i = 0; i < u->touched[s].n; i++) {
        u->f->steps++;
        if (u->touched[s].at[i] == own) continue;
        pass_candidate *c = find(u, u->touched[s].at[i]);
        if (!c) return false;
        c->saved += bytes;
    }
    pass_candidate *c = own == NO_GROUP ? NULL : find(u, own);
    if (c) c->saved += bytes;
    return own == NO_GROUP || c;
}

static bool count_source(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    (void)user;
    pass_candidate *c = find(u, u->f->group_of[p]);
    if (!c) return false;
    c->shares = true;
    c->keeps &= keeps;
    return count_value(u, p);
}

/* Leaves that r reads through views; what groups make is counted as a source. */
static bool count_leaves(fuser *u, ir_ref r) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *o = ir_node_at(u->g, n->in[i]);
        if (!pass_is_transparent(o)) continue;
        if (!(o->n_in ? count_leaves(u, n->in[i]) : count_value(u, n->in[i]))) return false;
    }
    return true;
}

static int latest_first(const void *a, const void *b) {
    uint32_t x = ((const pass_candidate *)a)->group, y = ((const pass_candidate *)b)->group;
    return (x < y) - (x > y);
}

rp_status pass_find_candidates(fuser *u, ir_ref r) {
    u->n_rounds++;
    u->n_stamps++;
    u->n_candidates = 0;
    if (!pass_each_row_source(u, r, count_source, NULL) || !count_leaves(u, r))
        return rp_fail(u->err, RP_NOMEM, "fusion");
    if (u->n_candidates > 1)
        qsort(u->candidates, u->n_candidates, sizeof *u->candidates, latest_first);
    for (uint32_t i = 0; i < u->n_candidates; i++) u->candidate_of[u->candidates[i].group] = i;
    return RP_OK;
}

const pass_candidate *pass_candidate_of(const fuser *u, uint32_t group) {
    return u->round[group] == u->n_rounds ? &u->candidates[u->candidate_of[group]] : NULL;
}

static rp_status touch(fuser *u, ir_ref s, uint32_t group) {
    pass_list *l = &u->touched[s];
    uint32_t at = 0;
    while (at < l->n && l->at[at] != group) at++;
    if (at < l->n || !weighs(ir_node_at(u->g, s))) return RP_OK;
    if (l->n < WINDOW) return pass_list_push(u, l, group);
    memmove(l->at, l->at + 1, (WINDOW - 1) * sizeof *l->at);
    l->at[WINDOW - 1] = group;
    return RP_OK;
}

static rp_status touch_operands(fuser *u, ir_ref r, uint32_t group) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *o = ir_node_at(u->g, n->in[i]);
        if (pass_is_transparent(o) && o->n_in)
            RP_TRY(touch_operands(u, n->in[i], group));
        else
            RP_TRY(touch(u, n->in[i], group));
    }
    return RP_OK;
}

rp_status pass_touch_values(fuser *u, ir_ref r, uint32_t group) {
    RP_TRY(touch(u, r, group));
    return touch_operands(u, r, group);
}
