/* Who reads from whom among groups, and an order that stays topological while reads are added.
 *
 * Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs" (2006): a read that agrees
 * with the order costs nothing; one that does not moves only the groups between both ends that hang on them. Nodes are
 * placed in the order of the graph, so those are few; where they are not, the fusion is left out rather than searched for. */
#include <stdlib.h>
#include <string.h>

#include "pass/fuser.h"

#define MAX_SEARCH 64 /* groups looked at for one read */

rp_status pass_list_push(fuser *u, pass_list *l, uint32_t v) {
    /* Grown by doubling at powers of two; old arrays die with the arena. */
    if ((l->n & (l->n - 1)) == 0) {
        uint32_t *bigger = base_arena_array(u->f->arena, l->n ? l->n * 2u : 1u, sizeof *bigger);
        if (!bigger) return rp_fail(u->err, RP_NOMEM, "fusion");
        if (l->n) memcpy(bigger, l->at, l->n * sizeof *bigger);
        l->at = bigger;
    }
    l->at[l->n++] = v;
    return RP_OK;
}

/* All that `from` leads to by `next`, at positions in [lo, hi]; false when there are more than `most`. The list has
 * room for every group. */
static bool reach(fuser *u, const pass_list *next, uint32_t from, uint32_t lo, uint32_t hi,
                  uint32_t most, pass_list *out) {
    u->n_marks++;
    out->n = 0;
    out->at[out->n++] = from;
    u->mark[from] = u->n_marks;
    for (uint32_t i = 0; i < out->n; i++) {
        const pass_list *l = &next[out->at[i]];
        for (uint32_t k = 0; k < l->n; k++) {
            uint32_t g = l->at[k];
            u->f->steps++;
            if (u->mark[g] == u->n_marks || u->position[g] < lo || u->position[g] > hi) continue;
            if (out->n == most) return false;
            u->mark[g] = u->n_marks;
            out->at[out->n++] = g;
        }
    }
    return true;
}

static pass_verdict search(fuser *u, uint32_t a, uint32_t b, uint32_t most) {
    uint32_t lo = u->position[a], hi = u->position[b];
    if (!reach(u, u->readers, a, lo, hi, most, &u->forward)) return PASS_FAR;
    if (u->mark[b] == u->n_marks) return PASS_CYCLE;
    return reach(u, u->reads, b, lo, hi, most, &u->backward) ? PASS_FREE : PASS_FAR;
}

pass_verdict pass_order_check(fuser *u, uint32_t a, uint32_t b) {
    u->f->steps++;
    if (u->position[b] < u->position[a]) return PASS_FREE;
    return search(u, a, b, MAX_SEARCH);
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The positions of a list in place of its groups, then sorted; `group` says who stood there. */
static void sort_by_position(fuser *u, pass_list *l, uint32_t *group) {
    for (uint32_t i = 0; i < l->n; i++) {
        group[u->position[l->at[i]]] = l->at[i];
        l->at[i] = u->position[l->at[i]];
    }
    qsort(l->at, l->n, sizeof *l->at, ascending);
}

/* What b hangs on comes first, then what hangs on a, in the places that both had. */
static void reorder(fuser *u) {
    pass_list *f = &u->forward, *b = &u->backward;
    uint32_t n = f->n + b->n, i = 0, k = 0;
    uint32_t *group = u->group_at, *moved = u->moved;
    sort_by_position(u, f, group);
    sort_by_position(u, b, group);
    for (uint32_t j = 0; j < b->n; j++) moved[j] = group[b->at[j]];
    for (uint32_t j = 0; j < f->n; j++) moved[b->n + j] = group[f->at[j]];
    for (uint32_t j = 0; j < n; j++) {
        bool first = k == f->n || (i < b->n && b->at[i] < f->at[k]);
        u->position[moved[j]] = first ? b->at[i++] : f->at[k++];
    }
}

rp_status pass_order_add(fuser *u, uint32_t a, uint32_t b) {
    const pass_list *l = &u->reads[a];
    /* Members in a row often read from the same group. */
    if (a == b || (l->n && l->at[l->n - 1] == b)) return RP_OK;
    if (u->position[b] > u->position[a]) {
        if (search(u, a, b, u->cap) != PASS_FREE)
            return rp_fail(u->err, RP_INTERNAL, "fusion made a cycle");
        reorder(u);
    }
    RP_TRY(pass_list_push(u, &u->reads[a], b));
    return pass_list_push(u, &u->readers[b], a);
}
