/* The end of fusion: nodes sink out of epilogues where that saves a store, groups get their order.
 *
 * Placing looks at what a node reads. Whether its own value must be stored is known only when all are placed: a
 * node at the end of an epilogue that only one loop reads, and whose operands are in memory anyway, moves to that
 * loop, which then computes what it would have loaded. */
#include <string.h>

#include "pass/fuser.h"

/* --- sinking ------------------------------------------------------------- */

#define MANY (UINT32_MAX - 1)

/* Who reads the values. By ref: the nodes, and of their groups the one, NO_GROUP for none or MANY. */
typedef struct readers {
    pass_list *nodes;
    bool *returned;
    uint32_t *group;
} readers;

typedef struct visit {
    readers *x;
    ir_ref reader; /* IR_NONE: the graph's caller */
    rp_status st;
} visit;

static bool note_reader(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    visit *v = user;
    (void)keeps;
    if (v->reader == IR_NONE)
        v->x->returned[p] = true;
    else
        v->st = pass_list_push(u, &v->x->nodes[p], v->reader);
    return v->st == RP_OK;
}

typedef struct row_check {
    ir_ref value;
    uint32_t keeps;
} row_check;

static bool check_row(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    row_check *c = user;
    (void)u;
    if (p == c->value) c->keeps &= keeps;
    return true;
}

/* The groups that read a value, of its readers' as they are now. */
static void find_groups(fuser *u, readers *x, ir_ref value) {
    x->group[value] = x->returned[value] ? MANY : NO_GROUP;
    for (uint32_t i = 0; i < x->nodes[value].n && x->group[value] != MANY; i++) {
        ir_ref r = x->nodes[value].at[i];
        uint32_t *one = &x->group[value];
        u->f->steps++;
        *one = *one == NO_GROUP || *one == u->f->group_of[r] ? u->f->group_of[r] : MANY;
    }
}

/* Rows in which all reads of a value stay. Takes all that its readers read, which may be many: for a value that has a reason. */
static pass_rows rows_of_reads(fuser *u, const readers *x, ir_ref value) {
    pass_rows rows = u->rows[value];
    for (uint32_t i = 0; i < x->nodes[value].n && rows.n > 0; i++) {
        ir_ref r = x->nodes[value].at[i];
        row_check c = {.value = value, .keeps = UINT32_MAX};
        (void)pass_each_row_source(u, r, check_row, &c);
        rows = pass_common_rows(&u->rows[r], &rows, c.keeps);
    }
    return rows;
}

static rp_status find_readers(fuser *u, readers *x) {
    uint32_t n = ir_graph_count(u->g);
    visit v = {.x = x};
    for (ir_ref r = 0; r < n && v.st == RP_OK; r++) {
        v.reader = r;
        if (u->f->group_of[r] != NO_GROUP) (void)pass_each_source(u, r, note_reader, &v);
    }
    RP_TRY(v.st);
    v.reader = IR_NONE;
    for (uint32_t i = 0; i < ir_output_count(u->g); i++) {
        ir_ref o = ir_output_at(u->g, i);
        if (pass_is_transparent(ir_node_at(u->g, o)))
            (void)pass_each_source(u, o, note_reader, &v);
        else
            x->returned[o] = true;
    }
    for (ir_ref r = 0; r < n; r++) find_groups(u, x, r);
    return RP_OK;
}

typedef struct stored_check {
    const readers *x;
    uint32_t from;
    bool all;
} stored_check;

/* In memory without r: of another group, or of r's own and read by others than r's group. */
static bool is_stored(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    stored_check *c = user;
    (void)keeps;
    c->all = c->all && (u->f->group_of[p] != c->from || c->x->group[p] != c->from);
    return true;
}

bool pass_reads_overwritten(const fuser *u, ir_ref r) {
    const pass_reads *p = &u->overwritten;
    uint32_t lo = 0, hi = p->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p->read[mid].reader < r)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->n && p->read[lo].reader == r;
}

/* by: rows of the group that it goes to, then. */
static bool sinks(fuser *u, const readers *x, ir_ref r, pass_rows *by) {
    if (x->group[r] >= MANY || x->group[r] == u->f->group_of[r]) return false;
    /* Then the group of r comes before the effect, and another one need not. */
    if (pass_reads_overwritten(u, r)) return false;
    const pass_group *to = &u->f->groups[x->group[r]];
    stored_check c = {x, u->f->group_of[r], true};
    if (to->kind != PASS_LOOP || to->n_nodes >= PASS_MAX_FUSION) return false;
    if (!pass_each_source(u, r, is_stored, &c) || !c.all) return false;
    const pass_rows reads = rows_of_reads(u, x, r);
    *by = pass_common_rows(&reads, &to->by, UINT32_MAX);
    return by->n > 0;
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

typedef struct move {
    readers *x;
    uint32_t to;
    rp_status st;
} move;

static bool read_from(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    move *m = user;
    (void)keeps;
    find_groups(u, m->x, p);
    if (m->st == RP_OK && u->f->group_of[p] != m->to)
        m->st = pass_list_push(u, &u->reads[m->to], u->f->group_of[p]);
    return true;
}

/* No cycle can come of it: the loop waited for the epilogue already, and so for all that r reads. */
static rp_status sink(fuser *u, readers *x, ir_ref r, pass_rows by) {
    pass_group *from = &u->f->groups[u->f->group_of[r]];
    uint32_t to = x->group[r];
    RP_TRY(pass_refuse(u, r, u->f->group_of[r], "costs less where it is read"));
    u->f->refusals[u->f->n_refusals - 1].moved = true;
    for (uint32_t i = 0; i < from->n_segs; i++)
        if (!from->segs[i].dead) drop(from->segs[i].nodes, &from->segs[i].n_nodes, r);
    drop(from->nodes, &from->n_nodes, r);
    RP_TRY(prepend(u, &u->f->groups[to], r));
    u->f->groups[to].by = by;
    u->f->group_of[r] = to;
    move m = {.x = x, .to = to};
    (void)pass_each_source(u, r, read_from, &m);
    find_groups(u, x, r);
    return m.st;
}

static rp_status sink_epilogues(fuser *u) {
    uint32_t n = ir_graph_count(u->g);
    readers x = {.nodes = base_arena_array(u->f->arena, n + 1u, sizeof *x.nodes),
                 .returned = base_arena_array(u->f->arena, n + 1u, sizeof *x.returned),
                 .group = base_arena_array(u->f->arena, n + 1u, sizeof *x.group)};
    pass_rows by = {0};
    if (!x.nodes || !x.returned || !x.group) return rp_fail(u->err, RP_NOMEM, "fusion");
    RP_TRY(find_readers(u, &x));
    for (ir_ref r = n; r-- > 0;) {
        uint32_t gi = u->f->group_of[r];
        if (gi == NO_GROUP || u->f->groups[gi].kind != PASS_MATMUL ||
            ir_node_at(u->g, r)->op == IR_matmul)
            continue;
        if (sinks(u, &x, r, &by)) RP_TRY(sink(u, &x, r, by));
    }
    return RP_OK;
}

/* --- order -------------------------------------------------------------- */

/* The groups that are ready: a heap with the first at its root. */
static void heap_push(uint32_t *heap, uint32_t n, uint32_t v) {
    while (n > 0 && heap[(n - 1) / 2] > v) {
        heap[n] = heap[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    heap[n] = v;
}

/* n: how many are left without the root, which is given. */
static uint32_t heap_pop(uint32_t *heap, uint32_t n) {
    uint32_t top = heap[0], v = heap[n], at = 0;
    for (uint32_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= v) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = v;
    return top;
}

/* Each group as early as what it reads from allows, the first made first. */
static rp_status order_groups(fuser *u) {
    uint32_t n = u->f->n_groups, done = 0, kept = 0, n_heap = 0;
    uint32_t *where = base_arena_array(u->f->arena, n + 1u, sizeof *where);
    uint32_t *waits = base_arena_array(u->f->arena, n + 1u, sizeof *waits);
    uint32_t *heap = base_arena_array(u->f->arena, n + 1u, sizeof *heap);
    pass_group *sorted = base_arena_array(u->f->arena, n + 1u, sizeof *sorted);
    pass_list *behind = base_arena_array(u->f->arena, n + 1u, sizeof *behind);
    if (!where || !waits || !heap || !sorted || !behind) return rp_fail(u->err, RP_NOMEM, "fusion");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < u->reads[i].n; k++)
            RP_TRY(pass_list_push(u, &behind[u->reads[i].at[k]], i));
    for (uint32_t i = 0; i < n; i++) {
        waits[i] = u->reads[i].n;
        if (waits[i] == 0) heap_push(heap, n_heap++, i);
    }
    while (n_heap > 0) {
        uint32_t best = heap_pop(heap, --n_heap);
        done++;
        where[best] = kept;
        if (u->into[best] == NO_GROUP) sorted[kept++] = u->f->groups[best];
        for (uint32_t k = 0; k < behind[best].n; k++)
            if (--waits[behind[best].at[k]] == 0) heap_push(heap, n_heap++, behind[best].at[k]);
    }
    if (done < n) return rp_fail(u->err, RP_INTERNAL, "fusion made a cycle");
    u->f->groups = sorted;
    u->f->n_groups = kept;
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++)
        if (u->f->group_of[r] != NO_GROUP) u->f->group_of[r] = where[u->f->group_of[r]];
    /* A node that sank, or whose loop became part of another, may be where it was refused before. */
    uint32_t n_refusals = 0;
    for (uint32_t i = 0; i < u->f->n_refusals; i++) {
        pass_refusal x = u->f->refusals[i];
        x.group = where[pass_merged_into(u, x.group)];
        if (u->f->group_of[x.node] != x.group) u->f->refusals[n_refusals++] = x;
    }
    u->f->n_refusals = n_refusals;
    return RP_OK;
}

static bool mark_stored(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    (void)keeps;
    if (u->f->group_of[p] != *(uint32_t *)user) u->f->stored[p] = true;
    return true;
}

static void mark_all_stored(fuser *u) {
    for (ir_ref r = 0; r < ir_graph_count(u->g); r++) {
        uint32_t gi = u->f->group_of[r];
        if (gi != NO_GROUP) (void)pass_each_source(u, r, mark_stored, &gi);
    }
    uint32_t none = NO_GROUP;
    for (uint32_t i = 0; i < ir_output_count(u->g); i++) {
        ir_ref o = ir_output_at(u->g, i);
        if (pass_is_transparent(ir_node_at(u->g, o)))
            (void)pass_each_source(u, o, mark_stored, &none);
        else
            u->f->stored[o] = true;
    }
}

rp_status pass_settle_groups(fuser *u) {
    RP_TRY(sink_epilogues(u));
    RP_TRY(pass_merge_loops(u));
    for (uint32_t i = 0; i < u->f->n_groups; i++) {
        pass_group *gr = &u->f->groups[i];
        if (gr->kind == PASS_LOOP) gr->rows = gr->by.at[gr->by.n - 1];
    }
    RP_TRY(order_groups(u));
    mark_all_stored(u);
    pass_log_fusion(u);
    return RP_OK;
}
