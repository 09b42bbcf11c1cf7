/* The graph: nodes in chunks in an arena, a hash table over pure nodes, leaves, outputs.
 *
 * Nodes never move and are never changed once added. Equal pure nodes are one node; params and states
 * are told apart by name, inputs by being created. Nothing is folded or simplified here, that is
 * the passes' work. */
#include "ir/graph.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/node.h"
#include "ir/site.h"

#define CHUNK 256u

typedef struct cell {
    ir_node node;
    uint32_t hash;
    ir_ref writer; /* effect that overwrites this version */
    ir_site_link *sites;
} cell;

typedef struct leaf_list {
    ir_ref *ref;
    uint32_t n, cap;
} leaf_list;

/* A graph that is an attribute of a node. */
typedef struct inner {
    ir_graph *g;
    struct inner *next;
} inner;

struct ir_graph {
    base_arena *arena;
    atomic_uint shares;
    _Atomic(char *) text; /* of a finished graph, once somebody has asked */
    inner *inner;
    uint32_t n_inside, depth; /* nodes of inner graphs; 1 without any */
    const char *name;
    ir_dims *dims;
    cell **chunk;
    uint32_t n_chunk, cap_chunk;
    uint32_t n;
    ir_ref *slot; /* open addressing over mergeable nodes; IR_NONE = free */
    uint32_t n_slot, n_used;
    leaf_list leaf[3];
    ir_ref *out;
    uint32_t n_out;
    bool finished;
    ir_site_table *sites; /* NULL: no node has one */
};

static cell *cell_at(const ir_graph *g, ir_ref r) {
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
    for (inner *i = g->inner; i; i = i->next) ir_graph_free(i->g);
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
    if (n->op != IR_custom) return 0;
    const ir_attr *name = ir_attr_get(n, IR_ATTR_NAME);
    const rp_op_desc *d = name ? ir_custom_find(name->u.s) : NULL;
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

static bool mergeable(const ir_node *n) {
    return n->op != IR_empty && n->op != IR_input && !ir_node_is_effect(n);
}

static uint32_t node_hash(const ir_node *n) {
    uint64_t h = ir_attrs_hash(n->attrs, n->n_attrs) + n->op;
    for (uint32_t i = 0; i < n->n_in; i++) h = (h ^ n->in[i]) * UINT64_C(0x9e3779b97f4a7c15);
    for (const char *s = n->name; s && *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

static bool node_equal(const ir_node *a, const ir_node *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_attrs != b->n_attrs) return false;
    if (a->name && strcmp(a->name, b->name) != 0) return false;
    if (a->n_in > 0 && memcmp(a->in, b->in, a->n_in * sizeof *a->in) != 0) return false;
    return ir_attrs_equal(a->attrs, b->attrs, a->n_attrs);
}

static ir_ref find(const ir_graph *g, const ir_node *n, uint32_t hash) {
    for (uint32_t s = hash & (g->n_slot - 1); g->slot[s] != IR_NONE;
         s = (s + 1) & (g->n_slot - 1)) {
        const cell *c = cell_at(g, g->slot[s]);
        if (c->hash == hash && node_equal(n, &c->node)) return g->slot[s];
    }
    return IR_NONE;
}

ir_ref ir_graph_find(const ir_graph *g, ir_ref r) {
    const cell *c = cell_at(g, r);
    return mergeable(&c->node) ? find(g, &c->node, c->hash) : IR_NONE;
}

static rp_status no_memory(const ir_graph *g, rp_error *err) {
    return rp_fail(err, RP_NOMEM, "graph %s: out of memory after %u nodes", g->name, g->n);
}

/* Room for one more node and its table slot. */
static rp_status reserve(ir_graph *g, rp_error *err) {
    if (ir_graph_size(g) >= IR_MAX_NODES)
        return rp_fail(err, RP_UNSUPPORTED, "graph %s: more than %u nodes", g->name, IR_MAX_NODES);
    if ((g->n_used + 1) * 2 > g->n_slot && !rehash(g, g->n_slot * 2)) return no_memory(g, err);
    if (g->n < g->n_chunk * CHUNK) return RP_OK;
    if (g->n_chunk == g->cap_chunk) {
        uint32_t cap = g->cap_chunk ? g->cap_chunk * 2 : 8;
        cell **p = base_arena_array(g->arena, cap, sizeof *p);
        if (!p) return no_memory(g, err);
        if (g->n_chunk > 0) memcpy(p, g->chunk, g->n_chunk * sizeof *p);
        g->chunk = p;
        g->cap_chunk = cap;
    }
    g->chunk[g->n_chunk] = base_arena_array(g->arena, CHUNK, sizeof(cell));
    if (!g->chunk[g->n_chunk]) return no_memory(g, err);
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

/* Appends a complete node whose parts live in the arena. */
static ir_ref append(ir_graph *g, const ir_node *n, uint32_t hash) {
    assert(!g->finished && g->n < g->n_chunk * CHUNK);
    ir_ref r = g->n++;
    cell *c = cell_at(g, r);
    *c = (cell){*n, hash, IR_NONE, NULL};
    c->node.memory = memory_of(g, n, r);
    uint64_t writes = ir_node_writes(n);
    for (uint32_t i = 0; i < n->n_in && i < 64; i++)
        if (writes >> i & 1) cell_at(g, n->in[i])->writer = r;
    if (mergeable(n)) {
        uint32_t s = hash & (g->n_slot - 1);
        while (g->slot[s] != IR_NONE) s = (s + 1) & (g->n_slot - 1);
        g->slot[s] = r;
        g->n_used++;
    }
    return r;
}

static rp_status check_open(const ir_graph *g, rp_error *err) {
    if (!g->finished) return RP_OK;
    return rp_fail(err, RP_INVALID, "graph %s is finished; build a new one", g->name);
}

static bool leaf_reserve(ir_graph *g, leaf_list *l) {
    if (l->n < l->cap) return true;
    uint32_t cap = l->cap ? l->cap * 2 : 16;
    ir_ref *p = base_arena_array(g->arena, cap, sizeof *p);
    if (!p) return false;
    if (l->n > 0) memcpy(p, l->ref, l->n * sizeof *p);
    l->ref = p;
    l->cap = cap;
    return true;
}

static bool same_shape(const ir_shape *a, const ir_shape *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

static rp_status check_leaf(const ir_graph *g, const ir_node *n, rp_error *err) {
    const char *what = ir_op_table(n->op)->name;
    if (!n->name || !ir_name_ok(n->name))
        return rp_fail(err, RP_INVALID,
                       "%s name '%.80s' must be letters, digits, _ . - / with a letter or _ first",
                       what, n->name ? n->name : "");
    return ir_check_shape(g, what, n->dtype, &n->shape, err);
}

/* One name is one leaf, of whatever kind: whoever binds by name would find the wrong one. */
static rp_status check_name(const ir_graph *g, ir_leaf kind, const char *name, rp_error *err) {
    static const char *const kinds[] = {"an input", "a param", "a state"};
    for (uint32_t k = 0; k < sizeof g->leaf / sizeof g->leaf[0]; k++)
        for (uint32_t i = 0; i < g->leaf[k].n && (k != kind || kind == IR_LEAF_INPUT); i++) {
            if (strcmp(ir_node_at(g, g->leaf[k].ref[i])->name, name) != 0) continue;
            if (k == kind) return rp_fail(err, RP_INVALID, "input '%s' exists already", name);
            return rp_fail(err, RP_INVALID,
                           "'%s' is %s of graph @%s already and cannot be %s as well; give it a "
                           "name of its own",
                           name, kinds[k], g->name, kinds[kind]);
        }
    return RP_OK;
}

rp_status ir_add_leaf(ir_graph *g, ir_leaf kind, const char *name, rp_dtype dtype, ir_shape shape,
                      ir_ref *out, rp_error *err) {
    static const ir_op op[] = {IR_input, IR_param, IR_state};
    ir_node n = {.op = op[kind], .dtype = dtype, .shape = shape, .name = name};
    RP_TRY(check_open(g, err));
    RP_TRY(check_leaf(g, &n, err));
    RP_TRY(check_name(g, kind, name, err));
    for (uint32_t i = n.shape.rank; i < IR_MAX_RANK; i++) n.shape.dim[i] = 0;
    uint32_t hash = node_hash(&n);
    ir_ref old = kind == IR_LEAF_INPUT ? IR_NONE : find(g, &n, hash);
    if (old != IR_NONE) {
        const ir_node *o = ir_node_at(g, old);
        if (o->dtype != dtype || !same_shape(&o->shape, &shape))
            return rp_fail(err, RP_INVALID, "%s '%s' is %s already, not %s",
                           ir_op_table(n.op)->name, name, ir_type_of(g, old).s,
                           ir_shape_text(g, dtype, &shape).s);
        *out = old;
        return RP_OK;
    }
    RP_TRY(reserve(g, err));
    n.name = base_arena_str(g->arena, name);
    if (!n.name || !leaf_reserve(g, &g->leaf[kind])) return no_memory(g, err);
    *out = g->leaf[kind].ref[g->leaf[kind].n++] = append(g, &n, hash);
    return RP_OK;
}

static rp_status check_operands(const ir_graph *g, ir_op op, const ir_ref *in, uint32_t n_in,
                                uint32_t n_attrs, rp_error *err) {
    const ir_op_info *info = ir_op_table(op);
    if ((unsigned)op >= IR_OP_COUNT_ || op == IR_input || op == IR_param || op == IR_state)
        return rp_fail(err, RP_INVALID, "op %d is not one that is added by operands", (int)op);
    if (info->arity >= 0 && n_in != (uint32_t)info->arity)
        return rp_fail(err, RP_INVALID, "%s: takes %d operand%s, not %u", info->name, info->arity,
                       info->arity == 1 ? "" : "s", n_in);
    uint32_t most = ir_op_is_call(op) ? 64 : IR_MAX_OPERANDS;
    if (n_in > most)
        return rp_fail(err, RP_INVALID, "%s: %u operands; %u are the most", info->name, n_in, most);
    if (n_attrs > IR_MAX_ATTRS)
        return rp_fail(err, RP_INVALID, "%s: %u attributes; %d are the most", info->name, n_attrs,
                       IR_MAX_ATTRS);
    for (uint32_t i = 0; i < n_in; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): callers fill n_in */
        if (in[i] >= g->n)
            return rp_fail(err, RP_INVALID, "%s: operand %u does not exist", info->name, i);
    return RP_OK;
}

/* Sets the types of n's results. */
static rp_status infer(ir_graph *g, ir_node *n, rp_error *err) {
    ir_type out[IR_MAX_RESULTS];
    uint32_t n_out = 1;
    RP_TRY(ir_infer(g, n, out, &n_out, err));
    n->dtype = out->dtype;
    n->shape = out->shape;
    n->n_more = n_out - 1;
    if (n->n_more == 0) return RP_OK;
    ir_type *more = base_arena_array(g->arena, n->n_more, sizeof *more);
    if (!more) return no_memory(g, err);
    memcpy(more, out + 1, n->n_more * sizeof *more);
    n->more = more;
    return RP_OK;
}

/* The node's share of its graphs, as the last thing that can fail. */
static rp_status hold_graphs(ir_graph *g, const ir_node *n, rp_error *err) {
    const ir_graph *x;
    for (uint32_t i = 0; (x = ir_node_graph(n, i)); i++) {
        inner *in = base_arena_alloc(g->arena, sizeof *in);
        if (!in) return no_memory(g, err);
        *in = (inner){ir_graph_share(x), g->inner};
        g->inner = in;
        g->n_inside += ir_graph_size(x);
        if (x->depth >= g->depth) g->depth = x->depth + 1;
    }
    return RP_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the builder's whole contract in one call */
rp_status ir_add(ir_graph *g, ir_op op, const ir_ref *in, uint32_t n_in, const ir_attr *attrs,
                 uint32_t n_attrs, ir_ref *out, rp_error *err) {
    ir_attr a[IR_MAX_ATTRS];
    int64_t axes[IR_MAX_RANK];
    ir_node n = {.op = op, .n_in = n_in, .in = in, .n_attrs = n_attrs, .attrs = attrs};
    RP_TRY(check_open(g, err));
    RP_TRY(check_operands(g, op, in, n_in, n_attrs, err));
    RP_TRY(ir_attrs_normalise(g, &n, a, &n_attrs, axes, err));
    n.attrs = a;
    n.n_attrs = n_attrs;
    bool merge = mergeable(&n);
    uint32_t hash = merge ? node_hash(&n) : 0;
    ir_ref old = merge ? find(g, &n, hash) : IR_NONE;
    if (old != IR_NONE) {
        *out = old;
        return RP_OK;
    }
    RP_TRY(ir_check_writes(g, &n, IR_NONE, err));
    RP_TRY(infer(g, &n, err));
    RP_TRY(reserve(g, err));
    if (n_in > 0) {
        ir_ref *copy = base_arena_array(g->arena, n_in, sizeof *copy);
        if (!copy) return no_memory(g, err);
        memcpy(copy, in, n_in * sizeof *copy);
        n.in = copy;
    } else {
        n.in = NULL;
    }
    n.attrs = n.n_attrs > 0 ? ir_attrs_copy(g->arena, a, n.n_attrs) : NULL;
    if (n.n_attrs > 0 && !n.attrs) return no_memory(g, err);
    RP_TRY(hold_graphs(g, &n, err));
    *out = append(g, &n, hash);
    return RP_OK;
}

rp_status ir_add1(ir_graph *g, ir_op op, ir_ref a, ir_ref *out, rp_error *err) {
    return ir_add(g, op, &a, 1, NULL, 0, out, err);
}

rp_status ir_add2(ir_graph *g, ir_op op, ir_ref a, ir_ref b, ir_ref *out, rp_error *err) {
    ir_ref in[2] = {a, b};
    return ir_add(g, op, in, 2, NULL, 0, out, err);
}

rp_status ir_add_const(ir_graph *g, rp_dtype dtype, double v, ir_ref *out, rp_error *err) {
    ir_attr a[2] = {{.key = IR_ATTR_DTYPE, .u.i = dtype}, {.key = IR_ATTR_VALUE, .u.f = v}};
    return ir_add(g, IR_const, NULL, 0, a, 2, out, err);
}

rp_status ir_add_result(ir_graph *g, ir_ref r, uint32_t i, ir_ref *out, rp_error *err) {
    ir_attr index = {.key = IR_ATTR_INDEX, .u.i = i};
    if (i > 0) return ir_add(g, IR_result, &r, 1, &index, 1, out, err);
    *out = r;
    return RP_OK;
}

ir_ref ir_result_of(const ir_graph *g, ir_ref r, uint32_t i) {
    ir_attr index = {.key = IR_ATTR_INDEX, .u.i = i};
    ir_node n = {.op = IR_result, .n_in = 1, .in = &r, .n_attrs = 1, .attrs = &index};
    return find(g, &n, node_hash(&n));
}

rp_status ir_graph_finish(ir_graph *g, const ir_ref *outputs, uint32_t n, rp_error *err) {
    RP_TRY(check_open(g, err));
    for (uint32_t i = 0; i < n; i++)
        if (outputs[i] >= g->n)
            return rp_fail(err, RP_INVALID, "graph %s: output %u does not exist", g->name, i);
    if (n > 0) {
        g->out = base_arena_array(g->arena, n, sizeof *g->out);
        if (!g->out) return no_memory(g, err);
        memcpy(g->out, outputs, n * sizeof *g->out);
    }
    g->n_out = n;
    g->finished = true;
    return RP_OK;
}

static bool import_dims(ir_graph *dst, const ir_graph *src, const ir_dim *from, uint32_t n,
                        ir_dim *to) {
    for (uint32_t i = 0; i < n; i++) {
        to[i] = ir_dim_import(dst->dims, src->dims, from[i]);
        if (to[i] == IR_DIM_BAD) return false;
    }
    return true;
}

/* Room for the dims of an attribute. */
typedef union attr_room {
    ir_dim dims[IR_MAX_RANK];
    ir_type types[IR_MAX_RESULTS];
} attr_room;

/* Dims of an attribute named in dst's table; the array goes to buf. */
static bool import_attr(ir_graph *dst, const ir_graph *src, ir_attr *a, attr_room *buf) {
    ir_attr_type type = ir_attr_key_type(a->key);
    if (type == IR_ATTR_TYPE_DIM) {
        a->u.dim = ir_dim_import(dst->dims, src->dims, a->u.dim);
        return a->u.dim != IR_DIM_BAD;
    }
    if (type == IR_ATTR_TYPE_TYPES) {
        for (uint32_t i = 0; i < a->n; i++) {
            const ir_type *x = &a->u.types[i];
            buf->types[i] = (ir_type){x->dtype, {.rank = x->shape.rank}};
            if (!import_dims(dst, src, x->shape.dim, x->shape.rank, buf->types[i].shape.dim))
                return false;
        }
        a->u.types = buf->types;
    } else if (type == IR_ATTR_TYPE_DIMS) {
        if (!import_dims(dst, src, a->u.dims, a->n, buf->dims)) return false;
        a->u.dims = buf->dims;
    }
    return true;
}

rp_status ir_copy_node_on(ir_graph *dst, const ir_graph *src, ir_ref r, const ir_ref *in,
                          ir_ref *out, rp_error *err) {
    const ir_node *n = ir_node_at(src, r);
    ir_attr a[IR_MAX_ATTRS];
    attr_room room[IR_MAX_ATTRS];
    for (uint32_t i = 0; i < n->n_attrs; i++) {
        a[i] = n->attrs[i];
        if (!import_attr(dst, src, &a[i], &room[i]))
            return rp_fail(err, RP_NOMEM, "graph %s: a size cannot be carried over", dst->name);
    }
    RP_TRY(ir_add(dst, n->op, in, n->n_in, a, n->n_attrs, out, err));
    return ir_sites_join(dst, *out, src, r) ? RP_OK : no_memory(dst, err);
}

rp_status ir_copy_node(ir_graph *dst, const ir_graph *src, ir_ref r, const ir_ref *map, ir_ref *out,
                       rp_error *err) {
    const ir_node *n = ir_node_at(src, r);
    ir_ref in[IR_MAX_OPERANDS];
    if (!n) return rp_fail(err, RP_INVALID, "graph %s has no node %u", src->name, r);
    for (uint32_t i = 0; i < n->n_in; i++) in[i] = map[n->in[i]];
    return ir_copy_node_on(dst, src, r, in, out, err);
}
