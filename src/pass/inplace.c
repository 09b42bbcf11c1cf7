/* Orders reads of memory before the effect that overwrites it, and copies what cannot be read before.
 *
 * A read that comes later than the write moves ahead of it, with all that it needs, unless it depends on the write. Then, as
 * for outputs, which are read last, and for an effect that reads what it overwrites, the outermost view that is read (below
 * broadcasts, which would only enlarge it) is copied before the write, and later reads take the copy. */
#include "pass/inplace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "pass/passes.h"
#include "pass/rebuild.h"

#define NONE UINT32_MAX

/* --- reads -------------------------------------------------------------------- */

static bool is_view(const ir_node *n) {
    return n->memory == IR_NONE &&
           (ir_op_table(n->op)->kind == IR_KIND_VIEW || n->op == IR_dequant);
}

/* Has no launch of its own: it is read where its users run. */
static bool is_lazy(const ir_node *n) {
    return ir_op_table(n->op)->kind == IR_KIND_LEAF || n->op == IR_written || is_view(n);
}

/* The version behind value r that something overwrites, or IR_NONE. */
static ir_ref version_behind(const ir_graph *g, ir_ref r) {
    while (is_view(ir_node_at(g, r))) r = ir_node_at(g, r)->in[0];
    return ir_writer_of(g, r);
}

static ir_ref skip_views(const ir_graph *g, ir_ref r) {
    while (is_view(ir_node_at(g, r))) r = ir_node_at(g, r)->in[0];
    return r;
}

static void add_read(const ir_graph *g, pass_reads *p, ir_ref reader, uint32_t index, ir_ref r) {
    ir_ref w = version_behind(g, r);
    if (w == IR_NONE) return;
    if (p->first) {
        p->read[p->n] = (pass_read){reader, index, skip_views(g, r), p->first[w]};
        p->first[w] = p->n;
    }
    p->n++;
}

/* Counts where there are no arrays yet. */
static void each_read(const ir_graph *g, pass_reads *p) {
    uint32_t n = ir_graph_count(g);
    p->n = 0;
    for (ir_ref r = 0; r < n; r++) {
        const ir_node *x = ir_node_at(g, r);
        uint64_t writes = ir_node_writes(x);
        for (uint32_t i = 0; i < x->n_in && !is_lazy(x); i++)
            if (i >= 64 || !(writes >> i & 1)) add_read(g, p, r, i, x->in[i]);
    }
    for (uint32_t i = 0; i < ir_output_count(g); i++) add_read(g, p, n, i, ir_output_at(g, i));
}

rp_status pass_reads_find(const ir_graph *g, base_arena *arena, pass_reads *out, rp_error *err) {
    pass_reads p = {0};
    uint32_t n = ir_graph_count(g);
    each_read(g, &p);
    p.read = base_arena_array(arena, p.n + 1u, sizeof *p.read);
    p.first = base_arena_array(arena, n + 1u, sizeof *p.first);
    if (!p.read || !p.first) return rp_fail(err, RP_NOMEM, "reads of %u nodes", n);
    memset(p.first, 0xff, n * sizeof *p.first);
    each_read(g, &p);
    *out = p;
    return RP_OK;
}

bool pass_reads_before(const ir_graph *g, const pass_reads *p) {
    bool ok = true;
    for (uint32_t i = 0; i < p->n; i++)
        ok = ok && p->read[i].reader < ir_writer_of(g, p->read[i].version);
    return ok;
}

rp_status pass_check_inplace(const ir_graph *g, bool *out, rp_error *err) {
    pass_reads p;
    base_arena *arena = base_arena_new();
    if (!arena) return rp_fail(err, RP_NOMEM, "reads");
    rp_status st = pass_reads_find(g, arena, &p, err);
    if (st == RP_OK) *out = pass_reads_before(g, &p);
    base_arena_free(arena);
    return st;
}

/* --- which reads move, which are copied --------------------------------------------- */

typedef struct orderer {
    const ir_graph *g;
    pass_reads reads;
    bool *copied;  /* by read */
    bool *is_copy; /* by ref: map leads to a copy of the value */
    ir_ref *raw;   /* by ref: what map was before that */
    ir_ref *stack; /* nodes to visit or to emit */
    uint32_t *seen, n_seen;
    base_arena *arena;
    uint32_t n_stack, cap_stack;
} orderer;

static rp_status push(orderer *o, ir_ref r, rp_error *err) {
    if (o->n_stack == o->cap_stack) {
        uint32_t cap = o->cap_stack ? o->cap_stack * 2 : 64;
        ir_ref *bigger = base_arena_array(o->arena, cap, sizeof *bigger);
        if (!bigger) return rp_fail(err, RP_NOMEM, "order of nodes");
        if (o->n_stack) memcpy(bigger, o->stack, o->n_stack * sizeof *bigger);
        o->stack = bigger;
        o->cap_stack = cap;
    }
    o->stack[o->n_stack++] = r;
    return RP_OK;
}

static rp_status visit(orderer *o, ir_ref r, rp_error *err) {
    if (o->seen[r] == o->n_seen) return RP_OK;
    o->seen[r] = o->n_seen;
    return push(o, r, err);
}

/* Whether node `from` must wait for `to`: by operands, and by reads before writes as far as they are decided. */
static rp_status waits_for(orderer *o, ir_ref from, ir_ref to, bool *out, rp_error *err) {
    o->n_seen++;
    o->n_stack = 0;
    RP_TRY(visit(o, from, err));
    while (o->n_stack > 0) {
        ir_ref r = o->stack[--o->n_stack];
        const ir_node *n = ir_node_at(o->g, r);
        for (uint32_t i = 0; i < n->n_in; i++) RP_TRY(visit(o, n->in[i], err));
        for (uint32_t i = o->reads.first[r]; i != NONE; i = o->reads.read[i].next)
            if (!o->copied[i]) RP_TRY(visit(o, o->reads.read[i].reader, err));
    }
    *out = o->seen[to] == o->n_seen;
    return RP_OK;
}

static rp_status decide(orderer *o, rp_error *err) {
    uint32_t n = ir_graph_count(o->g);
    const pass_reads *p = &o->reads;
    /* Those in order already come first; the rest is copied until it turns out that it can move. */
    for (uint32_t i = 0; i < p->n; i++)
        o->copied[i] = p->read[i].reader >= ir_writer_of(o->g, p->read[i].version);
    for (uint32_t i = 0; i < p->n; i++) {
        ir_ref w = ir_writer_of(o->g, p->read[i].version);
        if (!o->copied[i] || p->read[i].reader == n || p->read[i].reader == w) continue;
        RP_TRY(waits_for(o, p->read[i].reader, w, &o->copied[i], err));
    }
    return RP_OK;
}

/* --- the new graph -------------------------------------------------------------------- */

static ir_ref read_value(const orderer *o, const pass_read *x) {
    return x->reader == ir_graph_count(o->g) ? ir_output_at(o->g, x->index)
                                             : ir_node_at(o->g, x->reader)->in[x->index];
}

/* What is copied of a value that is read. */
static ir_ref below_broadcasts(const ir_graph *g, ir_ref r) {
    while (ir_node_at(g, r)->op == IR_broadcast) r = ir_node_at(g, r)->in[0];
    return r;
}

/* Pushes what must be emitted before r. */
static rp_status push_missing(orderer *o, const pass_rebuild *b, ir_ref r) {
    const ir_node *n = ir_node_at(o->g, r);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (b->map[n->in[i]] == IR_NONE) RP_TRY(push(o, n->in[i], b->err));
    for (uint32_t i = o->reads.first[r]; i != NONE; i = o->reads.read[i].next) {
        const pass_read *x = &o->reads.read[i];
        ir_ref need = o->copied[i] ? below_broadcasts(o->g, read_value(o, x)) : x->reader;
        if (b->map[need] == IR_NONE) RP_TRY(push(o, need, b->err));
    }
    return RP_OK;
}

static rp_status emit_node(orderer *o, pass_rebuild *b, ir_ref r) {
    const ir_node *n = ir_node_at(o->g, r);
    uint64_t writes = n->op == IR_written ? 1 : ir_node_writes(n);
    ir_ref in[IR_MAX_OPERANDS];
    for (uint32_t i = 0; i < n->n_in; i++) {
        bool written = i < 64 && (writes >> i & 1);
        in[i] = written && o->is_copy[n->in[i]] ? o->raw[n->in[i]] : b->map[n->in[i]];
    }
    return ir_copy_node_on(b->out, b->in, r, in, &b->map[r], b->err);
}

static rp_status copy_value(orderer *o, pass_rebuild *b, ir_ref r) {
    const ir_node *n = ir_node_at(o->g, r);
    if (rp_dtype_is_quant(n->dtype))
        return rp_fail(b->err, RP_UNSUPPORTED,
                       "%s of %s is read after it is overwritten, and block formats are not "
                       "copied; dequant it first",
                       ir_op_table(n->op)->name, ir_type_of(o->g, r).s);
    o->raw[r] = b->map[r];
    o->is_copy[r] = true;
    return ir_add1(b->out, IR_copy, b->map[r], &b->map[r], b->err);
}

/* From here on value r, and the views that it is made of, are read from a copy. */
static rp_status read_copy(orderer *o, pass_rebuild *b, ir_ref r) {
    ir_ref base = below_broadcasts(o->g, r), from = base;
    uint32_t n = 0, depth = 1;
    while (!o->is_copy[from] && is_view(ir_node_at(o->g, from)))
        from = ir_node_at(o->g, from)->in[0];
    if (!o->is_copy[from]) RP_TRY(copy_value(o, b, from = base));
    for (ir_ref x = r; x != from; x = ir_node_at(o->g, x)->in[0]) depth++;
    ir_ref *chain = base_arena_array(o->arena, depth, sizeof *chain);
    if (!chain) return rp_fail(b->err, RP_NOMEM, "views of a copy");
    for (ir_ref x = r; x != from; x = ir_node_at(o->g, x)->in[0]) chain[n++] = x;
    while (n-- > 0) RP_TRY(emit_node(o, b, chain[n]));
    return RP_OK;
}

/* Emits r behind all that it needs and, where it overwrites a version, behind the reads of that. */
static rp_status emit(pass_rebuild *b, ir_ref r, ir_ref *out) {
    orderer *o = b->user;
    o->n_stack = 0;
    RP_TRY(push(o, r, b->err));
    while (o->n_stack > 0) {
        uint32_t n = o->n_stack;
        ir_ref x = o->stack[n - 1];
        if (b->map[x] == IR_NONE) RP_TRY(push_missing(o, b, x));
        if (o->n_stack > n) continue;
        o->n_stack--;
        if (b->map[x] != IR_NONE) continue;
        for (uint32_t i = o->reads.first[x]; i != NONE; i = o->reads.read[i].next)
            if (o->copied[i]) RP_TRY(read_copy(o, b, read_value(o, &o->reads.read[i])));
        RP_TRY(emit_node(o, b, x));
    }
    *out = b->map[r];
    return RP_OK;
}

static rp_status reorder(const ir_graph *g, ir_graph **out, rp_error *err) {
    rp_status st = RP_OK;
    uint32_t n = ir_graph_count(g);
    orderer o = {.g = g, .arena = base_arena_new()};
    if (!o.arena) return rp_fail(err, RP_NOMEM, "order of %u nodes", n);
    RP_TRY_OUT(pass_reads_find(g, o.arena, &o.reads, err));
    o.copied = base_arena_array(o.arena, o.reads.n + 1u, sizeof *o.copied);
    o.is_copy = base_arena_array(o.arena, n + 1u, sizeof *o.is_copy);
    o.raw = base_arena_array(o.arena, n + 1u, sizeof *o.raw);
    o.seen = base_arena_array(o.arena, n + 1u, sizeof *o.seen);
    if (!o.copied || !o.is_copy || !o.raw || !o.seen) {
        st = rp_fail(err, RP_NOMEM, "order of %u nodes", n);
        goto out;
    }
    RP_TRY_OUT(decide(&o, err));
    st = pass_rebuild_graph(g, emit, &o, out, err);
out:
    base_arena_free(o.arena);
    return st;
}

rp_status pass_make_inplace(const ir_graph *g, const ir_graph **out, ir_graph **made,
                            rp_error *err) {
    bool ok = false;
    ir_graph *live = NULL;
    *made = NULL;
    *out = g;
    RP_TRY(pass_check_inplace(g, &ok, err));
    if (ok) return RP_OK;
    RP_TRY(pass_dce(g, &live, err)); /* what nobody needs reads nothing */
    rp_status st = reorder(live, made, err);
    ir_graph_free(live);
    if (st == RP_OK) *out = *made;
    return st;
}

rp_status pass_inplace(const ir_graph *in, ir_graph **out, rp_error *err) {
    const ir_graph *g;
    RP_TRY(pass_make_inplace(in, &g, out, err));
    return *out ? RP_OK : pass_dce(in, out, err);
}

/* --- outputs of a piece ----------------------------------------------------------------- */

/* Memory, or a view of memory, that may be overwritten. */
static bool is_memory(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, skip_views(g, r));
    return n->op == IR_input || n->op == IR_state || n->op == IR_written ||
           ir_op_table(n->op)->kind == IR_KIND_EFFECT;
}

rp_status pass_own_outputs(const ir_graph *before, const ir_graph *g, ir_graph **made,
                           rp_error *err) {
    uint32_t n = ir_output_count(g), n_copied = 0;
    bool *copied = base_alloc_array(n + 1u, sizeof *copied);
    *made = NULL;
    if (!copied) return rp_fail(err, RP_NOMEM, "%u outputs", n);
    for (uint32_t i = 0; i < n; i++) {
        copied[i] = is_memory(g, ir_output_at(g, i)) && !is_memory(before, ir_output_at(before, i));
        n_copied += copied[i];
    }
    rp_status st = n_copied ? pass_copy_outputs(g, copied, made, err) : RP_OK;
    base_free(copied);
    return st;
}

/* What an output lies in: memory of which it is a version, or itself. */
static ir_ref storage_of(const ir_graph *g, uint32_t i) {
    const ir_ref o = ir_output_at(g, i), memory = ir_node_at(g, o)->memory;
    return memory == IR_NONE ? o : memory;
}

static bool is_leaf(const ir_node *n) {
    return n->op == IR_input || n->op == IR_param || n->op == IR_state;
}

/* A view of a version of a leaf's memory, which is that version where passes find that the view changes nothing. */
static bool is_view_of_version(const ir_graph *g, ir_ref o) {
    const ir_ref v = skip_views(g, o), memory = ir_node_at(g, v)->memory;
    return v != o && memory != IR_NONE && is_leaf(ir_node_at(g, memory));
}

/* Memory that is nobody's is the output's from the start. */
static bool is_separate(const ir_graph *g, uint32_t i) {
    const ir_ref o = storage_of(g, i);
    const ir_node *n = ir_node_at(g, o);
    if (rp_dtype_is_quant(n->dtype)) return true;
    for (uint32_t k = 0; k < i; k++)
        if (storage_of(g, k) == o) return false;
    return !is_leaf(n) && !is_view_of_version(g, ir_output_at(g, i));
}

rp_status pass_separate_outputs(const ir_graph *g, ir_graph **made, rp_error *err) {
    uint32_t n = ir_output_count(g), n_copied = 0;
    bool *copied = base_alloc_array(n + 1u, sizeof *copied);
    *made = NULL;
    if (!copied) return rp_fail(err, RP_NOMEM, "%u outputs", n);
    for (uint32_t i = 0; i < n; i++) n_copied += copied[i] = !is_separate(g, i);
    rp_status st = n_copied ? pass_copy_outputs(g, copied, made, err) : RP_OK;
    base_free(copied);
    return st;
}

void pass_copy_reason(const ir_graph *g, ir_ref r, base_buf *out) {
    ir_ref v = skip_views(g, ir_node_at(g, r)->in[0]), w = ir_writer_of(g, v);
    if (w == IR_NONE) return;
    base_buf_printf(out, "%s=%s overwrites %s before its last read", ir_name_of(g, w).s,
                    ir_op_table(ir_node_at(g, w)->op)->name, ir_name_of(g, v).s);
}
