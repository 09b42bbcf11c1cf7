/* One graph three ways: interpreted, compiled and eager. What the programs of test/num share.
 *
 * set_up finds a compiler (host.toolchain.path is NULL without one) and opens a cache in a folder of its own. */
#ifndef SUPPORT_BOTH_H
#define SUPPORT_BOTH_H

#include "support/check.h"
#include "support/plan_run.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"

static struct {
    char folder[64];
    compile_toolchain toolchain;
    cache_store *store;
    const rp_compiler *backend; /* NULL: compile_inductor */
} host;

static inline int both_set_up(void **state) {
    rp_error err = {0};
    (void)state;
    if (tree_make(host.folder, sizeof host.folder) != 0 ||
        compile_toolchain_find(NULL, &host.toolchain, &err) != RP_OK ||
        cache_store_open(host.folder, &host.store, &err) != RP_OK)
        return -1;
    return 0;
}

static inline int both_tear_down(void **state) {
    rp_error err = {0};
    (void)state;
    cache_store_close(host.store);
    compile_toolchain_done(&host.toolchain);
    return base_path_remove(host.folder, &err) == RP_OK ? 0 : -1;
}

typedef struct both {
    ir_graph *g; /* owned */
    random_leaves l;
    ir_value *inputs, *states, *want; /* as the interpreter left them, and its outputs */
    plan_run code, eager;
    const char *at; /* what a failed call was doing */
} both;

/* b->g is set; its leaves are made of the seed. */
static inline rp_status both_leaves(both *b, uint64_t seed, rp_error *err) {
    b->at = "leaves";
    return random_leaves_new(b->g, seed, &b->l, err);
}

/* The graph of a text, with leaves. Fails the test where the text is no graph. */
static inline both both_of(const char *text, uint64_t seed) {
    rp_error err = {0};
    both b = {0};
    if (ir_parse(text, strlen(text), &b.g, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    CHECK_OK(both_leaves(&b, seed, &err), &err);
    return b;
}

/* Element i of a float input. */
typedef double (*both_value_fn)(int64_t i, uint64_t seed);

/* NULL: inputs have what the seed gave them. */
static inline void both_fill(both *b, both_value_fn value, uint64_t seed) {
    for (uint32_t k = 0; value && k < b->l.n[IR_LEAF_INPUT]; k++) {
        ir_value *v = &b->l.leaf[IR_LEAF_INPUT][k];
        const rp_dtype t = ir_node_at(b->g, ir_leaf_at(b->g, IR_LEAF_INPUT, k))->dtype;
        for (int64_t i = 0; rp_dtype_is_float(t) && i < v->n; i++)
            v->data[i] = ir_round(t, value(i, seed));
    }
}

static inline plan_run_options both_compiled(gen_isa isa) {
    return (plan_run_options){.backend = host.backend ? host.backend : &compile_inductor,
                              .isa = isa,
                              .toolchain = &host.toolchain,
                              .store = host.store,
                              .threads = 2,
                              .built_in = true, /* as users have it */
                              .passes = true};
}

/* Memory for what v holds, and v's own shape. */
static inline ir_value both_room(const ir_value *v) {
    ir_value r = *v;
    r.data = base_alloc_array((size_t)v->n + 1, sizeof *r.data);
    assert_non_null(r.data);
    return r;
}

/* The interpreter writes in the caller's memory. */
static inline ir_value *both_copy(const both *b, ir_leaf kind) {
    ir_value *v = base_alloc_array(b->l.n[kind] + 1u, sizeof *v);
    for (uint32_t i = 0; v && i < b->l.n[kind]; i++) {
        v[i] = b->l.leaf[kind][i];
        v[i].data = base_alloc_array((size_t)v[i].n + 1u, sizeof *v[i].data);
        assert_non_null(v[i].data);
        memcpy(v[i].data, b->l.leaf[kind][i].data, (size_t)v[i].n * sizeof *v[i].data);
    }
    return v;
}

static inline rp_status both_run(both *b, gen_isa isa, rp_error *err) {
    static const compile_toolchain none;
    static uint32_t runs;
    plan_run_options o = both_compiled(isa);
    plan_run_options e = {
        .backend = &compile_eager, .isa = isa, .toolchain = &none, .threads = 1, .watch = true};
    o.watch = runs++ % 2; /* else as one list */
    b->at = "interpreter";
    b->want = base_alloc_array(ir_output_count(b->g) + 1u, sizeof *b->want);
    b->inputs = both_copy(b, IR_LEAF_INPUT);
    b->states = both_copy(b, IR_LEAF_STATE);
    if (!b->want || !b->inputs || !b->states) return rp_fail(err, RP_NOMEM, "outputs");
    RP_TRY(
        ir_eval(b->g, b->inputs, b->l.leaf[IR_LEAF_PARAM], b->states, b->l.symbols, b->want, err));
    b->at = "inductor";
    RP_TRY(plan_run_graph(b->g, &b->l, &o, &b->code, err));
    b->at = "eager";
    return plan_run_graph(b->g, &b->l, &e, &b->eager, err);
}

/* Where compiled and interpreted are farther apart than bound, or NULL. */
static inline const char *both_off(const both *b, double bound) {
    return plan_run_is_off(b->g, &b->code, b->want, b->states, b->inputs, bound);
}

/* Where compiled and eager are not the same bits, or NULL. */
static inline const char *both_differ(const both *b) {
    return plan_run_differs(b->g, &b->code, &b->eager);
}

/* Runs b, fails the test where compiled is farther than bound from interpreted, or differs from eager. */
static inline void both_agree(both *b, const char *what, double bound) {
    rp_error err = {0};
    if (both_run(b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s: %s", what, b->at, err.text);
    const char *d = both_off(b, bound);
    if (d) fail_msg("%s: compiled: %s", what, d);
    d = both_differ(b);
    if (d) fail_msg("%s: compiled and eager differ: %s", what, d);
}

static inline void both_done(both *b) {
    for (uint32_t i = 0; b->inputs && i < b->l.n[IR_LEAF_INPUT]; i++) ir_value_done(&b->inputs[i]);
    for (uint32_t i = 0; b->states && i < b->l.n[IR_LEAF_STATE]; i++) ir_value_done(&b->states[i]);
    base_free(b->inputs);
    base_free(b->states);
    for (uint32_t i = 0; b->want && i < ir_output_count(b->g); i++) ir_value_done(&b->want[i]);
    base_free(b->want);
    plan_run_done(&b->code);
    plan_run_done(&b->eager);
    random_leaves_done(&b->l);
    ir_graph_free(b->g);
}

#endif
