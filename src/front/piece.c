/* Pieces: what a step computes, as a graph of its own. */
#include "front/recording.h"

#include <stdio.h>

#include "base/alloc.h"
#include "ir/site.h"
#include "ir/told.h"

typedef struct cutting {
    const ir_graph *g;
    uint8_t *mark; /* by ref */
    bool *written; /* by leaf */
    ir_ref *map;
    ir_graph *to;
    front_piece *out;
} cutting;

void front_mark_needed(const ir_graph *g, uint8_t *mark, front_needed_fn fn, void *user) {
    for (ir_ref r = ir_graph_count(g); r-- > 0;) {
        const ir_node *n = ir_node_at(g, r);
        if (mark[r] & (FRONT_OUT | FRONT_DO)) mark[r] |= FRONT_NEED;
        if (!(mark[r] & FRONT_NEED)) continue;
        fn(user, r);
        if (mark[r] & FRONT_GIVEN) continue;
        if (n->op == IR_result) mark[n->in[0]] &= (uint8_t)~FRONT_GIVEN; /* it has all or none */
        for (uint32_t i = 0; i < n->n_in; i++) mark[n->in[i]] |= FRONT_NEED;
    }
}

static void note_written(void *user, ir_ref r) {
    cutting *c = user;
    const ir_node *n = ir_node_at(c->g, r);
    uint64_t writes = c->mark[r] & FRONT_GIVEN ? 0 : ir_node_writes(n);
    for (uint32_t i = 0; i < n->n_in && i < 64; i++)
        if (writes >> i & 1) c->written[ir_node_at(c->g, n->in[i])->memory] = true;
}

static rp_status add_given(cutting *c, ir_ref r, rp_error *err) {
    const ir_node *n = ir_node_at(c->g, r);
    ir_shape shape = n->shape;
    char name[24];
    (void)snprintf(name, sizeof name, "in%u", c->out->n_in);
    for (uint32_t d = 0; d < shape.rank; d++) {
        shape.dim[d] = ir_dim_import(ir_graph_dims(c->to), ir_graph_dims(c->g), shape.dim[d]);
        if (shape.dim[d] == IR_DIM_BAD) return rp_fail(err, RP_NOMEM, "sizes of a piece");
    }
    RP_TRY(ir_add_leaf(c->to, IR_LEAF_INPUT, name, n->dtype, shape, &c->map[r], err));
    if (n->memory != IR_NONE && c->written[n->memory]) ir_input_mutates(c->to, c->map[r]);
    c->out->in[c->out->n_in++] = r;
    return RP_OK;
}

/* The first that the piece computes of r. */
static ir_ref reader_of(const cutting *c, ir_ref r) {
    for (ir_ref k = r + 1; k < ir_graph_count(c->g); k++) {
        const ir_node *n = ir_node_at(c->g, k);
        bool computed = c->mark[k] & FRONT_NEED && !(c->mark[k] & FRONT_GIVEN);
        for (uint32_t i = 0; computed && i < n->n_in; i++)
            if (n->in[i] == r) return k;
    }
    return r;
}

/* What cannot be made again. */
static rp_status refuse(const cutting *c, ir_ref r, rp_error *err) {
    rp_status st = rp_fail(err, RP_UNSUPPORTED,
                           "%s is read behind a graph break that its memory was written in front "
                           "of; read it before, or read what was written",
                           ir_type_of(c->g, r).s);
    if (err) ir_site_blame(c->g, reader_of(c, r), err);
    return st;
}

static rp_status copy_nodes(cutting *c, rp_error *err) {
    for (ir_ref r = 0; r < ir_graph_count(c->g); r++) {
        const ir_node *n = ir_node_at(c->g, r);
        if (!(c->mark[r] & FRONT_NEED)) continue;
        if (c->mark[r] & FRONT_GIVEN) {
            RP_TRY(add_given(c, r, err));
            continue;
        }
        if (n->op == IR_input || (ir_node_is_effect(n) && !(c->mark[r] & FRONT_DO)))
            return refuse(c, r, err);
        rp_status st = ir_copy_node(c->to, c->g, r, c->map, &c->map[r], err);
        if (st != RP_OK) {
            if (err) ir_site_blame(c->g, r, err);
            return st;
        }
    }
    return RP_OK;
}

/* A size that nothing tells which the piece reads is that of an argument, which it reads for that alone, also where its memory has been overwritten. */
static rp_status add_sizes(cutting *c, rp_error *err) {
    uint32_t symbol;
    RP_TRY(ir_find_untold(c->to, &symbol, err));
    while (symbol != UINT32_MAX) {
        ir_ref r = ir_find_telling(c->g, c->to, symbol);
        if (r == IR_NONE) break;
        RP_TRY(add_given(c, r, err));
        RP_TRY(ir_find_untold(c->to, &symbol, err));
    }
    return RP_OK;
}

static rp_status finish(cutting *c, rp_error *err) {
    uint32_t n = 0;
    ir_ref *refs = base_alloc_array(ir_graph_count(c->g) + 1u, sizeof *refs);
    if (!refs) return rp_fail(err, RP_NOMEM, "outputs of a piece");
    for (ir_ref r = 0; r < ir_graph_count(c->g); r++) {
        if (!(c->mark[r] & FRONT_OUT)) continue;
        c->out->out[n] = r;
        refs[n++] = c->map[r];
    }
    c->out->n_out = n;
    rp_status st = ir_graph_finish(c->to, refs, n, err);
    base_free(refs);
    return st;
}

static bool is_empty(const cutting *c) {
    for (ir_ref r = 0; r < ir_graph_count(c->g); r++)
        if (c->mark[r] & (FRONT_OUT | FRONT_DO)) return false;
    return true;
}

static rp_status build(cutting *c, front_symbols_fn symbols, void *user, rp_error *err) {
    const ir_dims *from = ir_graph_dims(c->g);
    uint32_t n = ir_dims_symbol_count(from);
    rp_status st = RP_OK;
    ir_dims *t = ir_graph_dims(c->to);
    ir_dim *by = base_alloc_array(n + 1u, sizeof *by);
    if (!by) return rp_fail(err, RP_NOMEM, "sizes of a piece");
    for (uint32_t i = 0; i < n; i++) by[i] = IR_DIM_BAD;
    RP_TRY_OUT(symbols(user, t, by, err));
    ir_dims_set_import(t, from, by, n);
    RP_TRY_OUT(copy_nodes(c, err));
    RP_TRY_OUT(add_sizes(c, err));
    RP_TRY_OUT(finish(c, err));
out:
    ir_dims_set_import(t, NULL, NULL, 0);
    base_free(by);
    return st;
}

rp_status front_piece_make(const rp_graph *g, const uint8_t *mark, front_symbols_fn symbols,
                           void *user, front_piece *out, rp_error *err) {
    rp_status st = RP_OK;
    uint32_t n = ir_graph_count(g->ir);
    cutting c = {.g = g->ir, .out = out};
    *out = (front_piece){0};
    c.mark = base_alloc(n + 1u);
    c.written = base_alloc_array(n + 1u, sizeof *c.written);
    c.map = base_alloc_array(n + 1u, sizeof *c.map);
    out->in = base_alloc_array(n + 1u, sizeof *out->in);
    out->out = base_alloc_array(n + 1u, sizeof *out->out);
    if (!c.mark || !c.written || !c.map || !out->in || !out->out) {
        st = rp_fail(err, RP_NOMEM, "a piece of %u nodes", n);
        goto out;
    }
    memcpy(c.mark, mark, n);
    if (is_empty(&c)) goto out;
    front_mark_needed(c.g, c.mark, note_written, &c);
    c.to = ir_graph_new(ir_graph_name(g->ir));
    if (!c.to) {
        st = rp_fail(err, RP_NOMEM, "a piece of %u nodes", n);
        goto out;
    }
    RP_TRY_OUT(build(&c, symbols, user, err));
    RP_TRY_OUT(trace_graph_wrap(c.to, &out->graph, err));
    out->graph->numerics = g->numerics;
    c.to = NULL;
out:
    ir_graph_free(c.to);
    base_free(c.mark);
    base_free(c.written);
    base_free(c.map);
    if (st != RP_OK) front_piece_done(out);
    return st;
}

void front_piece_done(front_piece *p) {
    rp_graph_free(p->graph);
    base_free(p->in);
    base_free(p->out);
    *p = (front_piece){0};
}
