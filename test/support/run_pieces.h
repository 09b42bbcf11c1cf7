/* Pieces of a graph by the interpreter, one after the other. */
#ifndef SUPPORT_RUN_PIECES_H
#define SUPPORT_RUN_PIECES_H

#include "support/check.h"
#include "support/random_graph.h"

#include "base/alloc.h"
#include "split/split.h"

/* Sizes of g's symbols in the order of the piece. */
static inline void pieces_symbols(const ir_graph *g, const ir_graph *piece, const int64_t *symbols,
                                  int64_t *out) {
    const ir_dims *t = ir_graph_dims(piece);
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++)
        out[i] = symbols[ir_dims_find(ir_graph_dims(g), ir_dims_symbol(t, i)->name)];
}

/* The value of a ref of the whole graph: a leaf's, or what an earlier piece gave. */
static inline ir_value pieces_value(const ir_graph *g, ir_ref r, const random_leaves *v,
                                    const ir_value *values) {
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < ir_leaf_count(g, (ir_leaf)k); i++)
            if (ir_leaf_at(g, (ir_leaf)k, i) == r) return v->leaf[k][i];
    return values[r];
}

/* values: by ref of g; those that the piece gives are filled. Attention gives back its buffer. */
static inline void pieces_run(const ir_graph *g, const split_piece *p, random_leaves *v,
                              ir_value *values) {
    rp_error err = {0};
    int64_t symbols[8];
    uint32_t n_out = ir_output_count(p->graph);
    ir_value *leaf[3];
    const ir_ref *refs[3] = {p->inputs, p->params, p->states};
    pieces_symbols(g, p->graph, v->symbols, symbols);
    for (int k = 0; k < 3; k++) {
        const uint32_t n = ir_leaf_count(p->graph, (ir_leaf)k);
        leaf[k] = base_alloc_array(n + 1u, sizeof(ir_value));
        for (uint32_t i = 0; i < n; i++) leaf[k][i] = pieces_value(g, refs[k][i], v, values);
    }
    ir_value *out = base_alloc_array(n_out + 1u, sizeof *out);
    CHECK_OK(ir_eval(p->graph, leaf[0], leaf[1], leaf[2], symbols, out, &err), &err);
    for (uint32_t i = 0; i < n_out; i++) {
        ir_value_done(&values[p->outputs[i]]);
        values[p->outputs[i]] = out[i];
    }
    base_free(out);
    for (int k = 0; k < 3; k++) base_free(leaf[k]);
}

static inline void pieces_same(const ir_value *a, const ir_value *b, const char *what) {
    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++)
        if (memcmp(&a->data[i], &b->data[i], sizeof(double)) != 0 &&
            (a->data[i] == a->data[i] || b->data[i] == b->data[i]))
            fail_msg("%s: element %lld is %a, not %a", what, (long long)i, b->data[i], a->data[i]);
}

#endif
