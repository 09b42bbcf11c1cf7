/* Two graphs with the same leaves give the same bits. */
#ifndef SUPPORT_SAME_H
#define SUPPORT_SAME_H

#include "base/alloc.h"
#include "support/check.h"
#include "support/small_llama.h"

static inline void check_same_value(const ir_value *a, const ir_value *b, const char *what) {
    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++)
        if (memcmp(&a->data[i], &b->data[i], sizeof(double)) != 0 &&
            (a->data[i] == a->data[i] || b->data[i] == b->data[i]))
            fail_msg("%s: element %lld is %a, not %a", what, (long long)i, b->data[i], a->data[i]);
}

/* The interpreter on random leaves; states included. NaN is one value. Symbols must be in the same order. */
static inline void check_same_results(const ir_graph *g, const ir_graph *h, uint64_t seed) {
    rp_error err = {0};
    random_leaves a, b;
    uint32_t n = ir_output_count(g);
    ir_value *x = base_alloc_array(n + 1u, sizeof *x), *y = base_alloc_array(n + 1u, sizeof *y);
    assert_int_equal(ir_output_count(h), n);
    CHECK_OK(random_leaves_new(g, seed, &a, &err), &err);
    CHECK_OK(random_leaves_new(h, seed, &b, &err), &err);
    small_llama_tame(g, &a);
    small_llama_tame(h, &b);
    CHECK_OK(ir_eval(g, a.leaf[0], a.leaf[1], a.leaf[2], a.symbols, x, &err), &err);
    CHECK_OK(ir_eval(h, b.leaf[0], b.leaf[1], b.leaf[2], b.symbols, y, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        check_same_value(&x[i], &y[i], "output");
        ir_value_done(&x[i]);
        ir_value_done(&y[i]);
    }
    for (uint32_t i = 0; i < a.n[2]; i++) check_same_value(&a.leaf[2][i], &b.leaf[2][i], "state");
    random_leaves_done(&a);
    random_leaves_done(&b);
    base_free(x);
    base_free(y);
}

#endif
