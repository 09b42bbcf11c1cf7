/* The groups that a node could join: those that make or read what it reads, and what each would save.
 *
 * A value remembers so many of the groups that touched it, so a weight that thousands of groups read costs each of them as
 * much as one that few read: the latest of those that a node could join through it, which are loops with room, before any others. Of
 * the rest a node is told how many there are. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pass/fuser.h"
#include "pass/runs.h"

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
    if (u->n_touched[s] > u->touched[s].n && pass_list_push(u, &u->far, s) != RP_OK) return false;
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

/* Leaves that `reader` reads through r; what groups make is counted as a source. */
static bool count_leaves(fuser *u, ir_ref reader, ir_ref r) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *o = ir_node_at(u->g, n->in[i]);
        if (!pass_sees_through(u, reader, n->in[i])) continue;
        if (!(o->n_in ? count_leaves(u, reader, n->in[i]) : count_value(u, n->in[i]))) return false;
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
    u->far.n = 0;
    if (!pass_each_row_source(u, r, count_source, NULL) || !count_leaves(u, r, r))
        return rp_fail(u->err, RP_NOMEM, "fusion");
    if (u->n_candidates > 1)
        qsort(u->candidates, u->n_candidates, sizeof *u->candidates, latest_first);
    for (uint32_t i = 0; i < u->n_candidates; i++) u->candidate_of[u->candidates[i].group] = i;
    return RP_OK;
}

const pass_candidate *pass_candidate_of(const fuser *u, uint32_t group) {
    return u->round[group] == u->n_rounds ? &u->candidates[u->candidate_of[group]] : NULL;
}

typedef struct pair {
    ir_ref value;
    uint32_t group;
} pair;

static bool touches(fuser *u, ir_ref s, uint32_t group) {
    const pair key = {s, group};
    uint64_t is;
    u->f->steps++;
    return base_map_get(u->touches, &key, sizeof key, &is);
}

rp_status pass_count_far(fuser *u, ir_ref r) {
    pass_fusion *f = u->f;
    const uint32_t own = f->group_of[r];
    for (uint32_t i = 0; i < u->far.n; i++) {
        const ir_ref s = u->far.at[i];
        uint32_t n = u->n_touched[s];
        for (uint32_t k = 0; k < u->n_candidates; k++)
            n -= u->candidates[k].group != own && touches(u, s, u->candidates[k].group);
        n -= touches(u, s, own);
        if (n == 0) continue;
        if ((f->n_far & (f->n_far - 1)) == 0) {
            pass_far *bigger =
                base_arena_array(f->arena, f->n_far ? f->n_far * 2u : 1u, sizeof *bigger);
            if (!bigger) return rp_fail(u->err, RP_NOMEM, "fusion");
            if (f->n_far) memcpy(bigger, f->far, f->n_far * sizeof *bigger);
            f->far = bigger;
        }
        f->far[f->n_far++] = (pass_far){r, s, n};
    }
    return RP_OK;
}

/* Whether no node could join the group through a value that it touches, which an epilogue does not. */
static bool is_closed(const fuser *u, uint32_t group) {
    const pass_group *gr = &u->f->groups[group];
    return gr->kind != PASS_LOOP || gr->n_nodes >= PASS_MAX_FUSION;
}

static rp_status touch(fuser *u, ir_ref s, uint32_t group) {
    pass_list *l = &u->touched[s];
    const pair key = {s, group};
    uint32_t at = 0;
    while (at < l->n && l->at[at] != group) at++;
    if (at < l->n || !weighs(ir_node_at(u->g, s))) return RP_OK;
    if (!touches(u, s, group)) {
        RP_TRY(base_map_put(u->touches, &key, sizeof key, 0, u->err));
        u->n_touched[s]++;
    }
    if (l->n < WINDOW) return pass_list_push(u, l, group);
    for (at = 0; at < WINDOW && !is_closed(u, l->at[at]);) at++;
    if (at == WINDOW && is_closed(u, group)) return RP_OK;
    if (at == WINDOW) at = 0;
    memmove(l->at + at, l->at + at + 1, (WINDOW - 1 - at) * sizeof *l->at);
    l->at[WINDOW - 1] = group;
    return RP_OK;
}

static rp_status touch_operands(fuser *u, ir_ref reader, ir_ref r, uint32_t group) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *o = ir_node_at(u->g, n->in[i]);
        if (pass_sees_through(u, reader, n->in[i]) && o->n_in)
            RP_TRY(touch_operands(u, reader, n->in[i], group));
        else
            RP_TRY(touch(u, n->in[i], group));
    }
    return RP_OK;
}

rp_status pass_touch_values(fuser *u, ir_ref r, uint32_t group) {
    RP_TRY(touch(u, r, group));
    return touch_operands(u, r, r, group);
}
