/* The work of an item, by which items are dealt to threads: every loop and reduction counts as often as it runs. */
#include "support/check.h"

#include "kir/kir.h"

/* A kernel over the symbol T in [lo, hi]. */
static kir_func *kernel(int64_t lo, int64_t hi, kir_ref *item, kir_ref *t) {
    base_arena *arena = base_arena_new();
    ir_dims *dims = ir_dims_new(arena);
    (void)ir_dim_symbol(dims, "T", lo, hi, 1);
    kir_func *f = kir_new("f", KIR_KERNEL, dims);
    base_arena_free(arena);
    (void)kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);
    *t = kir_dim(f, f->dims, ir_dim_symbol(f->dims, "T", lo, hi, 1));
    *item = kir_begin(f, KIR_PAR, kir_const_i(f, 4));
    return f;
}

static kir_ref unary(kir_func *f, ir_op op, kir_ref a) {
    return kir_alu(f, op, a, KIR_NONE, KIR_NONE);
}

static void blocks_count_as_often_as_they_run(void **state) {
    kir_ref item, t, j, v;
    kir_func *f = kernel(1, 8, &item, &t);
    (void)state;
    v = kir_load(f, 0, item); /* 1 */
    j = kir_begin(f, KIR_LOOP, kir_const_i(f, 5));
    kir_store(f, 0, j, unary(f, IR_exp, v)); /* 5 times 8 + 1 */
    j = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, 7));
    v = kir_load(f, 0, j);
    v = kir_yield(f, unary(f, IR_neg, v)); /* 5 times 7 times 3 */
    kir_store(f, 0, item, v);              /* 5 */
    kir_end(f);
    kir_begin_if(f, kir_bin(f, KIR_ILT, item, kir_const_i(f, 2)));
    kir_store(f, 0, item, v = kir_load(f, 0, item)); /* 2: as if it always ran */
    kir_end(f);
    kir_end(f);
    rp_error err = {0};
    CHECK_OK(kir_status(f, &err), &err);
    assert_true(kir_item_cost(f, NULL) == 1 + 5 * (9 + 7 * 3 + 1) + 2);
    kir_free(f);
}

/* The work of one store in a loop of T, or of at most `most`. */
static double stores(int64_t lo, int64_t hi, int64_t most, const int64_t *symbols) {
    kir_ref item, t, j;
    kir_func *f = kernel(lo, hi, &item, &t);
    j = kir_begin(f, KIR_LOOP, most ? kir_bin(f, KIR_IMIN, t, kir_const_i(f, most)) : t);
    kir_store(f, 0, j, kir_const_f(f, 1));
    kir_end(f);
    kir_end(f);
    double work = kir_item_cost(f, symbols);
    kir_free(f);
    return work;
}

static void sizes_that_are_not_known_are_guessed(void **state) {
    const int64_t ten[] = {10};
    (void)state;
    assert_true(stores(1, 1000, 0, ten) == 10);
    assert_true(stores(1, 1000, 16, ten) == 10);
    assert_true(stores(1, 1000, 7, ten) == 7);
    assert_true(stores(1, 64, 0, NULL) == 64);      /* as many as there may be, */
    assert_true(stores(1, 1000, 0, NULL) == 256);   /* but no more than 256, */
    assert_true(stores(300, 1000, 0, NULL) == 300); /* unless there are */
    assert_true(stores(1, 1000, 16, NULL) == 16);
}

static void functions_of_many_instructions_weigh_more(void **state) {
    static const ir_op heavy[] = {IR_exp,  IR_log, IR_sin,     IR_cos,
                                  IR_tanh, IR_erf, IR_sigmoid, IR_pow};
    (void)state;
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++) assert_true(ir_op_is_heavy(heavy[i]));
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        kir_ref item, t, v;
        const ir_op_info *info = ir_op_table((ir_op)op);
        if (!ir_op_on_floats((ir_op)op) || op == IR_cast || op == IR_bitcast) continue;
        kir_func *f = kernel(1, 8, &item, &t);
        v = kir_load(f, 0, item);
        (void)kir_alu(f, (ir_op)op, v, info->arity > 1 ? v : KIR_NONE,
                      info->arity > 2 ? v : KIR_NONE);
        kir_end(f);
        if (kir_item_cost(f, NULL) != 1 + (ir_op_is_heavy((ir_op)op) ? 8 : 1))
            fail_msg("%s: %g", info->name, kir_item_cost(f, NULL));
        kir_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_count_as_often_as_they_run),
        cmocka_unit_test(sizes_that_are_not_known_are_guessed),
        cmocka_unit_test(functions_of_many_instructions_weigh_more),
    };
    return cmocka_run_group_tests_name("kir_cost", tests, NULL, NULL);
}
