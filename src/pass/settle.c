/* The end of fusion: nodes sink out of epilogues where that saves a store, groups get their order.
 *
 * Placing looks at what a node reads. Whether its own value must be stored is known only when all are placed: a
 * node at the end of an epilogue that only one loop reads, and whose operands are in memory anyway, moves to that
 * loop, which then computes what it would have loaded. */
#include <string.h>

#include "base/log.h"
#include "pass/fuser.h"

/* --- sinking ------------------------------------------------------------- */

#define MANY (UINT32_MAX - 1)

/* Who reads the values: by ref, the one group, NO_GROUP for none or MANY. */
typedef struct readers {
    uint32_t *group;
    bool *off_row; /* some read leaves the row */
} readers;

static void add_reader(readers *x, ir_ref value, uint32_t group, bool row) {
    x->group[value] = x->group[value] == NO_GROUP || x->group[value] == group ? group : MANY;
    x->off_row[value] = x->off_row[value] || !row;
}

typedef struct visit {
    readers *x;
    uint32_t group;
} visit;

static bool visit_source(fuser *u, ir_ref p, bool row, void *user) {
    visit *v = user;
    (void)u;
    add_reader(v->x, p, v->group, row);
    return true;
}

static void find_readers(fuser *u, readers *x) {
    uint32_t n = ir_graph_count(u->g);
    memset(x->group, 0xff, n * sizeof *x->group);
    memset(x->off_row, 0, n * sizeof *x->off_row);
    for (ir_ref r = 0; r < n; r++) {
        visit v = {x, u->f->group_of[r]};
        if (v.group != NO_GROUP) (void)pass_each_source(u, r, true, visit_source, &v);
    }
    visit out = {x, MANY};
    for (uint32_t i = 0; i < ir_output_count(u->g); i++) {
        ir_ref o = ir_output_at(u->g, i);
        if (pass_is_transparent(ir_node_at(u->g, o)))
            (void)pass_each_source(u, o, true, visit_source, &out);
        else
            add_reader(x, o, MANY, true);
    }
}

typedef struct stored_check {
    const readers *x;
    uint32_t from, to;
    bool all;
} stored_check;

/* In memory without r: of another group, or of r's own and read by others than r's group. */
static bool is_stored(fuser *u, ir_ref p, bool row, void *user) {
    stored_check *c = user;
    (void)row;
    c->all = c->all && (u->f->group_of[p] != c->from ||
                        (c->x->group[p] != c->from && c->x->group[p] != NO_GROUP));
    return true;
}

static bool sinks(fuser *u, const readers *x, ir_ref r) {
    const pass_group *from = &u->f->groups[u->f->group_of[r]];
    if (x->group[r] >= MANY || x->group[r] == u->f->group_of[r] || x->off_row[r]) return false;
    const pass_group *to = &u->f->groups[x->group[r]];
    stored_check c = {x, u->f->group_of[r], x->group[r], true};
    if (to->kind != PASS_LOOP || to->rows != from->rows || to->n_nodes >= PASS_MAX_FUSION)
        return false;
    return pass_each_source(u, r, true, is_stored, &c) && c.all;
}

static void drop(ir_ref *list, uint32_t *n, ir_ref r) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] != r) list[kept++] = list[i];
    *n = kept;
}

/* r comes before everything that reads it. */
static rp_status prepend(fuser *u, pass_group *gr, ir_ref r) {
    ir_ref *list = base_arena_array(u->f->arena, gr->n_nodes + 1u, sizeof *list);
    uint32_t at = 0;
    if (!list) return rp_fail(u->err, RP_NOMEM, "fusion");
    while (at < gr->n_nodes && gr->nodes[at] < r) at++;
    memcpy(list, gr->nodes, at * sizeof *list);
    list[at] = r;
    memcpy(list + at + 1, gr->nodes + at, (gr->n_nodes - at) * sizeof *list);
    gr->nodes = list;
    gr->n_nodes++;
    return RP_OK;
}

static bool add_dep(fuser *u, ir_ref p, bool row, void *user) {
    uint32_t g = *(uint32_t *)user, h = u->f->group_of[p];
    (void)row;
    if (h != g) u->deps[(size_t)g * u->words + h / 64] |= UINT64_C(1) << (h % 64);
    return true;
}

/* No cycle can come of it: the loop waited for the epilogue already, and so for all that r reads. */
static rp_status sink(fuser *u, readers *x, ir_ref r) {
    pass_group *from = &u->f->groups[u->f->group_of[r]];
    uint32_t to = x->group[r];
    for (uint32_t i = 0; i < from->n_segs; i++)
        if (!from->segs[i].dead) drop(from->segs[i].nodes, &from->segs[i].n_nodes, r);
    drop(from->nodes, &from->n_nodes, r);
    RP_TRY(prepend(u, &u->f->groups[to], r));
    u->f->group_of[r] = to;
    (void)pass_each_source(u, r, true, add_dep, &to);
    find_readers(u, x);
    return RP_OK;
}

static rp_status sink_epilogues(fuser *u) {
    uint32_t n = ir_graph_count(u->g);
    readers x = {base_arena_array(u->f->arena, n + 1u, sizeof *x.group),
                 base_arena_array(u->f->arena, n + 1u, sizeof *x.off_row)};
    if (!x.group || !x.off_row) return rp_fail(u->err, RP_NOMEM, "fusion");
    find_readers(u, &x);
    for (ir_ref r = n; r-- > 0;) {
        uint32_t gi = u->f->group_of[r];
        if (gi == NO_GROUP || u->f->groups[gi].kind != PASS_MATMUL ||
            ir_node_at(u->g, r)->op == IR_matmul)
            continue;
        if (sinks(u, &x, r)) RP_TRY(sink(u, &x, r));
    }
    return RP_OK;
}

/* --- order -------------------------------------------------------------- */

static rp_status order_groups(fuser *u) {
    uint32_t n = u->f->n_groups, done = 0;
    uint32_t *where = base_arena_array(u->f->arena, n + 1u, sizeof *where);
    pass_group *sorted = base_arena_array(u->f->arena, n + 1u, sizeof *sorted);
    if (!where || !sorted) return rp_fail(u->err, RP_NOMEM, "fusion");
    for (uint32_t i = 0; i < n; i++) where[i] = NO_GROUP;
    while (done < n) {
        uint32_t best = NO_GROUP;
        for (uint32_t i = 0; i < n && best == NO_GROUP; i++) {
            bool ready = where[i] == NO_GROUP;
            for (uint32_t b = 0; ready && b < n; b++)
                if (pass_dep_get(u, i, b) && where[b] == NO_GROUP) ready = false;
            if (ready) best = i;
        }
        if (best == NO_GROUP) return rp_fail(u->err, RP_INTERNAL, "fusion made a cycle");
        sorted[done] = u->f->groups[best];
        where[best] = done++;
    }
    u->f->groups = sorted;
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++)
        if (u->f->group_of[r] != NO_GROUP) u->f->group_of[r] = where[u->f->group_of[r]];
    for (uint32_t i = 0; i < u->f->n_refusals; i++)
        u->f->refusals[i].group = where[u->f->refusals[i].group];
    return RP_OK;
}

static bool mark_stored(fuser *u, ir_ref p, bool row, void *user) {
    (void)row;
    if (u->f->group_of[p] != *(uint32_t *)user) u->f->stored[p] = true;
    return true;
}

static void mark_all_stored(fuser *u) {
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++) {
        uint32_t gi = u->f->group_of[r];
        if (gi != NO_GROUP) (void)pass_each_source(u, r, true, mark_stored, &gi);
    }
    uint32_t none = NO_GROUP;
    for (uint32_t i = 0; i < ir_output_count(u->g); i++) {
        ir_ref o = ir_output_at(u->g, i);
        if (pass_is_transparent(ir_node_at(u->g, o)))
            (void)pass_each_source(u, o, true, mark_stored, &none);
        else
            u->f->stored[o] = true;
    }
}

static void log_groups(const fuser *u) {
    const pass_fusion *f = u->f;
    if ((u->opt && u->opt->quiet) || !base_log_on(RP_LOG_CH_FUSION, false)) return;
    uint32_t before = 0;
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++) before += f->group_of[r] != NO_GROUP;
    base_log_ch(RP_LOG_CH_FUSION, false, "Fusion Round 1: fused %u nodes into %u", before,
                f->n_groups);
    for (uint32_t i = 0; i < f->n_refusals && base_log_on(RP_LOG_CH_FUSION, true); i++)
        base_log_ch(RP_LOG_CH_FUSION, true, "cannot fuse %s with group %u: %s",
                    ir_op_table(ir_node_at(u->g, f->refusals[i].node)->op)->name,
                    f->refusals[i].group, f->refusals[i].reason);
}

rp_status pass_settle_groups(fuser *u) {
    RP_TRY(sink_epilogues(u));
    RP_TRY(order_groups(u));
    mark_all_stored(u);
    log_groups(u);
    return RP_OK;
}
