/* Loops that become part of the one loop that reads them.
 *
 * Placing decides by node: one that reads from two loops joins one of them, and the other one stores what it makes. Where
 * no other group reads it, and every node that does could have joined it, its nodes are computed where they are read. */
#include <string.h>

#include "pass/fuser.h"

#define MANY (UINT32_MAX - 1)

typedef struct merger {
    fuser *u;
    uint32_t
        *only; /* by group: the only other one that reads from it, NO_GROUP for none, or MANY */
    pass_list *may;   /* by group: nodes that could have joined it */
    uint32_t *marked; /* by ref: the last group that it could have joined, and 1 */
    uint32_t from;    /* the group whose reads are looked at */
    uint32_t reader;  /* the group that reads */
    bool reads;       /* from `from` */
    uint32_t keeps;   /* rows in which all those reads stay */
} merger;

uint32_t pass_merged_into(const fuser *u, uint32_t gi) {
    while (u->into[gi] != NO_GROUP) gi = u->into[gi];
    return gi;
}

static bool note_reader(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    merger *m = user;
    const uint32_t gi = u->f->group_of[p];
    (void)keeps;
    if (gi == NO_GROUP || gi == m->reader) return true;
    m->only[gi] = m->only[gi] == NO_GROUP || m->only[gi] == m->reader ? m->reader : MANY;
    return true;
}

static rp_status find_readers(merger *m) {
    fuser *u = m->u;
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++) {
        m->reader = u->f->group_of[r];
        if (m->reader != NO_GROUP) (void)pass_each_source(u, r, note_reader, m);
    }
    for (uint32_t i = 0; i < u->f->n_refusals; i++) {
        const pass_refusal *x = &u->f->refusals[i];
        if (x->reason == pass_elsewhere) RP_TRY(pass_list_push(u, &m->may[x->group], x->node));
    }
    return RP_OK;
}

static bool note_read(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    merger *m = user;
    if (u->f->group_of[p] != m->from) return true;
    m->reads = true;
    m->keeps &= keeps;
    return true;
}

/* Rotary embeddings have switches of their own. */
static bool turns(const fuser *u, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (u->turned.reads[gr->nodes[i]] != IR_NONE || u->turned.ends[gr->nodes[i]] != IR_NONE)
            return true;
    return false;
}

static bool is_simple(const fuser *u, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        const ir_node *n = ir_node_at(u->g, gr->nodes[i]);
        if (ir_op_table(n->op)->kind != IR_KIND_ELEMENTWISE ||
            pass_reads_overwritten(u, gr->nodes[i]))
            return false;
    }
    return true;
}

/* Whether all that reads group a in group b could have joined it, and b keeps its rows; *by are those of both. */
static bool merges(merger *m, uint32_t a, uint32_t b, pass_rows *by) {
    fuser *u = m->u;
    const pass_group *from = &u->f->groups[a], *to = &u->f->groups[b];
    if (from->kind != PASS_LOOP || to->kind != PASS_LOOP || m->may[a].n == 0 ||
        from->n_nodes + to->n_nodes > PASS_MAX_FUSION || !is_simple(u, from) || turns(u, from) ||
        turns(u, to))
        return false;
    for (uint32_t i = 0; i < m->may[a].n; i++) m->marked[m->may[a].at[i]] = a + 1;
    *by = pass_common_rows(&to->by, &from->by, UINT32_MAX);
    m->from = a;
    for (uint32_t i = 0; i < to->n_nodes && by->n > 0; i++) {
        m->reads = false, m->keeps = UINT32_MAX;
        (void)pass_each_row_source(u, to->nodes[i], note_read, m);
        if (!m->reads) continue;
        if (m->marked[to->nodes[i]] != a + 1) return false;
        *by = pass_common_rows(&u->rows[to->nodes[i]], by, m->keeps);
    }
    for (uint32_t i = 0; i < from->n_nodes && by->n > 0; i++)
        if (pass_loses_threads(u, from->nodes[i], to, by)) return false;
    return by->n > 0 && by->at[by->n - 1] == to->by.at[to->by.n - 1];
}

/* No cycle comes of it: nothing else waits for a, and what a waits for b waits for, too. */
static rp_status merge(fuser *u, uint32_t a, uint32_t b, pass_rows by) {
    pass_group *from = &u->f->groups[a], *to = &u->f->groups[b];
    ir_ref *nodes = base_arena_array(u->f->arena, from->n_nodes + to->n_nodes, sizeof *nodes);
    uint32_t n = 0, i = 0, k = 0;
    if (!nodes) return rp_fail(u->err, RP_NOMEM, "fusion");
    while (i < from->n_nodes || k < to->n_nodes) {
        const bool first = k == to->n_nodes || (i < from->n_nodes && from->nodes[i] < to->nodes[k]);
        nodes[n++] = first ? from->nodes[i++] : to->nodes[k++];
    }
    for (i = 0; i < from->n_nodes; i++) u->f->group_of[from->nodes[i]] = b;
    for (i = 0; i < u->reads[a].n; i++) RP_TRY(pass_list_push(u, &u->reads[b], u->reads[a].at[i]));
    to->nodes = nodes;
    to->n_nodes = n;
    to->by = by;
    from->n_nodes = 0;
    u->reads[a].n = 0;
    u->into[a] = b;
    return RP_OK;
}

rp_status pass_merge_loops(fuser *u) {
    const uint32_t n = u->f->n_groups;
    merger m = {.u = u,
                .only = base_arena_array(u->f->arena, n + 1u, sizeof *m.only),
                .may = base_arena_array(u->f->arena, n + 1u, sizeof *m.may),
                .marked = base_arena_array(u->f->arena, u->cap, sizeof *m.marked)};
    pass_rows by;
    if (!m.only || !m.may || !m.marked) return rp_fail(u->err, RP_NOMEM, "fusion");
    memset(m.only, 0xff, (n + 1u) * sizeof *m.only);
    RP_TRY(find_readers(&m));
    for (uint32_t a = n; a-- > 0;) {
        if (m.only[a] >= MANY) continue;
        const uint32_t b = pass_merged_into(u, m.only[a]);
        if (b != a && merges(&m, a, b, &by)) RP_TRY(merge(u, a, b, by));
    }
    return RP_OK;
}
