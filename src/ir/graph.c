/* The graph: nodes in chunks in an arena, a hash table over pure nodes, leaves, outputs. Nodes never move and are never
 * changed once added. build.c adds them. */
#include "ir/cell.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/site.h"

#define CHUNK 256u

static ir_cell *cell_at(const ir_graph *g, ir_ref r) {
    assert(r < g->n);
    return &g->chunk[r / CHUNK][r % CHUNK];
}

/* Graph names come from user functions and files: what does not print becomes '_'. */
static char *clean_name(base_arena *arena, const char *name) {
    size_t len = strlen(name);
    char *s = base_arena_strn(arena, *name ? name : "graph",
                              len == 0            ? 5
                              : len > IR_MAX_NAME ? IR_MAX_NAME
                                                  : len);
    if (!s) return NULL;
    for (char *p = s; *p; p++)
        if (!ir_name_char(*p)) *p = '_';
    if (!ir_alpha(*s)) *s = '_';
    return s;
}

static bool rehash(ir_graph *g, uint32_t n_slot) {
    ir_ref *slot = base_arena_array(g->arena, n_slot, sizeof *slot);
    if (!slot) return false;
    memset(slot, 0xff, n_slot * sizeof *slot);
    for (uint32_t i = 0; i < g->n_slot; i++) {
        if (g->slot[i] == IR_NONE) continue;
        uint32_t s = cell_at(g, g->slot[i])->hash & (n_slot - 1);
        while (slot[s] != IR_NONE) s = (s + 1) & (n_slot - 1);
        slot[s] = g->slot[i];
    }
    g->slot = slot;
    g->n_slot = n_slot;
    return true;
}

ir_graph *ir_graph_new(const char *name) {
    base_arena *arena = base_arena_new();
    ir_graph *g = arena ? base_arena_alloc(arena, sizeof *g) : NULL;
    if (g) {
        g->arena = arena;
        atomic_init(&g->shares, 1);
        atomic_init(&g->text, NULL);
        g->depth = 1;
        g->name = clean_name(arena, name);
        g->dims = ir_dims_new(arena);
    }
    if (!g || !g->name || !g->dims || !rehash(g, 256)) {
        base_arena_free(arena);
        return NULL;
    }
    return g;
}

void ir_graph_free(ir_graph *g) {
    if (!g || atomic_fetch_sub(&g->shares, 1) != 1) return;
    for (ir_inner *i = g->inner; i; i = i->next) ir_graph_free(i->g);
    ir_site_table_done(g->sites);
    base_free(atomic_load(&g->text));
    base_arena_free(g->arena);
}

/* Counts are no part of what a graph says, so a reader may take a share. */
static ir_graph *unlock(const ir_graph *g) {
    return (ir_graph *)(uintptr_t)g;
}

ir_graph *ir_graph_share(const ir_graph *g) {
    assert(g->finished);
    atomic_fetch_add(&unlock(g)->shares, 1);
    return unlock(g);
}

const char *ir_graph_text(const ir_graph *g) {
    rp_error none = {0};
    char *text = atomic_load(&unlock(g)->text), *before = NULL;
    assert(g->finished);
    if (text || ir_print_string(g, &text, &none) != RP_OK) return text;
    if (atomic_compare_exchange_strong(&unlock(g)->text, &before, text)) return text;
    base_free(text); /* another thread was faster */
    return before;
}

bool ir_graph_is_finished(const ir_graph *g) {
    return g->finished;
}

uint32_t ir_graph_size(const ir_graph *g) {
    return g->n + g->n_inside;
}

uint32_t ir_graph_depth(const ir_graph *g) {
    return g->depth;
}

ir_site_link **ir_graph_sites(ir_graph *g, ir_ref r) {
    return &cell_at(g, r)->sites;
}

ir_site_table **ir_graph_site_table(ir_graph *g) {
    return &g->sites;
}

const char *ir_graph_name(const ir_graph *g) {
    return g->name;
}

base_arena *ir_graph_arena(ir_graph *g) {
    return g->arena;
}

ir_dims *ir_graph_dims(const ir_graph *g) {
    return g->dims;
}

uint32_t ir_graph_count(const ir_graph *g) {
    return g->n;
}

const ir_node *ir_node_at(const ir_graph *g, ir_ref r) {
    return r < g->n ? &cell_at(g, r)->node : NULL;
}

uint32_t ir_leaf_count(const ir_graph *g, ir_leaf kind) {
    return g->leaf[kind].n;
}

ir_ref ir_leaf_at(const ir_graph *g, ir_leaf kind, uint32_t i) {
    return i < g->leaf[kind].n ? g->leaf[kind].ref[i] : IR_NONE;
}

uint32_t ir_output_count(const ir_graph *g) {
    return g->n_out;
}

ir_ref ir_output_at(const ir_graph *g, uint32_t i) {
    return i < g->n_out ? g->out[i] : IR_NONE;
}

uint64_t ir_node_writes(const ir_node *n) {
    if (n->op == IR_update || n->op == IR_kv_store) return 1;
    if (n->op == IR_attention) return UINT64_C(1) << 6;
    if (ir_op_has_graphs(n->op)) return ir_graphs_write(n);
    const rp_op_desc *d = ir_custom_of(n);
    return d ? d->mutates : 0;
}

bool ir_node_is_effect(const ir_node *n) {
    if (ir_op_table(n->op)->kind != IR_KIND_EFFECT) return false;
    return !ir_op_is_call(n->op) || ir_node_writes(n) != 0;
}

ir_ref ir_writer_of(const ir_graph *g, ir_ref r) {
    return cell_at(g, r)->writer;
}

ir_ref ir_maker_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    if (n->memory == IR_NONE || n->memory == r) return IR_NONE;
    return n->op == IR_written ? n->in[1] : r;
}

void ir_input_mutates(ir_graph *g, ir_ref r) {
    assert(!g->finished && ir_node_at(g, r)->op == IR_input);
    cell_at(g, r)->node.mutates = true;
}

void ir_input_settle(ir_graph *g, ir_ref r) {
    assert(!g->finished && ir_node_at(g, r)->op == IR_input);
    cell_at(g, r)->node.mutates = cell_at(g, r)->node.mutates && cell_at(g, r)->writer != IR_NONE;
}

bool ir_node_merges(const ir_node *n) {
    return n->op != IR_empty && n->op != IR_input && !ir_node_is_effect(n);
}

uint32_t ir_node_hash(const ir_node *n) {
    uint64_t h = ir_attrs_hash(n->attrs, n->n_attrs) + n->op;
    for (uint32_t i = 0; i < n->n_in; i++) h = (h ^ n->in[i]) * UINT64_C(0x9e3779b97f4a7c15);
    for (const char *s = n->name; s && *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

bool ir_node_equal(const ir_node *a, const ir_node *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_attrs != b->n_attrs) return false;
    if (a->name && strcmp(a->name, b->name) != 0) return false;
    if (a->n_in > 0 && memcmp(a->in, b->in, a->n_in * sizeof *a->in) != 0) return false;
    return ir_attrs_equal(a->attrs, b->attrs, a->n_attrs);
}

ir_ref ir_cell_find(const ir_graph *g, const ir_node *n, uint32_t hash) {
    for (uint32_t s = hash & (g->n_slot - 1); g->slot[s] != IR_NONE;
         s = (s + 1) & (g->n_slot - 1)) {
        const ir_cell *c = cell_at(g, g->slot[s]);
        if (c->hash == hash && ir_node_equal(n, &c->node)) return g->slot[s];
    }
    return IR_NONE;
}

ir_ref ir_graph_find(const ir_graph *g, ir_ref r) {
    const ir_cell *c = cell_at(g, r);
    return ir_node_merges(&c->node) ? ir_cell_find(g, &c->node, c->hash) : IR_NONE;
}

rp_status ir_graph_full(const ir_graph *g, rp_error *err) {
    return rp_fail(err, RP_NOMEM, "graph %s: out of memory after %u nodes", g->name, g->n);
}

rp_status ir_cell_reserve(ir_graph *g, rp_error *err) {
    if (ir_graph_size(g) >= IR_MAX_NODES)
        return rp_fail(err, RP_UNSUPPORTED, "graph %s: more than %u nodes", g->name, IR_MAX_NODES);
    if ((g->n_used + 1) * 2 > g->n_slot && !rehash(g, g->n_slot * 2)) return ir_graph_full(g, err);
    if (g->n < g->n_chunk * CHUNK) return RP_OK;
    if (g->n_chunk == g->cap_chunk) {
        uint32_t cap = g->cap_chunk ? g->cap_chunk * 2 : 8;
        ir_cell **p = base_arena_array(g->arena, cap, sizeof *p);
        if (!p) return ir_graph_full(g, err);
        if (g->n_chunk > 0) memcpy(p, g->chunk, g->n_chunk * sizeof *p);
        g->chunk = p;
        g->cap_chunk = cap;
    }
    g->chunk[g->n_chunk] = base_arena_array(g->arena, CHUNK, sizeof(ir_cell));
    if (!g->chunk[g->n_chunk]) return ir_graph_full(g, err);
    g->n_chunk++;
    return RP_OK;
}

/* The leaf that node r is a version of. */
static ir_ref memory_of(const ir_graph *g, const ir_node *n, ir_ref r) {
    if (n->op == IR_state || n->op == IR_input || n->op == IR_empty) return r;
    if (n->n_in == 0) return IR_NONE;
    if (n->op == IR_written) return ir_node_at(g, n->in[0])->memory;
    if (ir_op_table(n->op)->kind != IR_KIND_EFFECT || ir_op_is_call(n->op)) return IR_NONE;
    return ir_node_at(g, n->in[__builtin_ctzll(ir_node_writes(n))])->memory;
}

static void set_writer(ir_graph *g, ir_ref r, ir_ref writer) {
    const ir_node *n = ir_node_at(g, r);
    uint64_t writes = ir_node_writes(n);
    for (uint32_t i = 0; i < n->n_in && i < 64; i++)
        if (writes >> i & 1) cell_at(g, n->in[i])->writer = writer;
}

void ir_cell_write(ir_graph *g, ir_ref r) {
    set_writer(g, r, r);
}

void ir_cell_forget_writes(ir_graph *g, ir_ref r) {
    set_writer(g, r, IR_NONE);
}

ir_ref ir_cell_append(ir_graph *g, const ir_node *n, uint32_t hash) {
    assert(!g->finished && g->n < g->n_chunk * CHUNK);
    ir_ref r = g->n++;
    ir_cell *c = cell_at(g, r);
    *c = (ir_cell){*n, hash, IR_NONE, NULL};
    c->node.memory = memory_of(g, n, r);
    ir_cell_write(g, r);
    if (ir_node_merges(n)) {
        uint32_t s = hash & (g->n_slot - 1);
        while (g->slot[s] != IR_NONE) s = (s + 1) & (g->n_slot - 1);
        g->slot[s] = r;
        g->n_used++;
    }
    return r;
}

ir_ref ir_result_of(const ir_graph *g, ir_ref r, uint32_t i) {
    ir_attr index = {.key = IR_ATTR_INDEX, .u.i = i};
    ir_node n = {.op = IR_result, .n_in = 1, .in = &r, .n_attrs = 1, .attrs = &index};
    return ir_cell_find(g, &n, ir_node_hash(&n));
}

ir_ref ir_twin_of(const ir_graph *g, ir_ref r) {
    ir_node n = *ir_node_at(g, r);
    ir_attr attrs[IR_MAX_ATTRS];
    memcpy(attrs, n.attrs, n.n_attrs * sizeof *attrs);
    for (uint32_t i = 0; i < n.n_attrs; i++)
        if (attrs[i].key == IR_ATTR_KEEP) attrs[i].u.i = !attrs[i].u.i;
    n.attrs = attrs;
    return ir_cell_find(g, &n, ir_node_hash(&n));
}
