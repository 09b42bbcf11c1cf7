/* Rows that several loops load, loaded once: which they are, and that results stay. */
#include "support/check.h"

#include "base/alloc.h"
#include "kir/kir.h"

enum { ROWS = 3, N = 20, ROOM = ROWS * N + 8 };

/* Row i of x, from `from` on, is reduced; `n` of its elements from `again` on are written, less what came out. */
typedef struct form {
    rp_dtype dtype;
    int64_t from, again, n;
    bool in_place, one_block,
        of_items; /* writes to x; all in one block; the first load is no loop's */
    int64_t most;
    uint32_t want; /* temporaries: of what is held, or of the results of a loop that is cut */
    enum {
        BY_NUMBER,
        LOOKED_UP,      /* i says which it is, .. */
        LOOKED_UP_ANEW, /* .. and is written after the first loop, .. */
        LOOKED_UP_TWICE /* .. or another says it in the second */
    } row;
} form;

/* i: 0, or what says which row it is. */
static kir_ref element(kir_func *f, uint32_t i, kir_ref row, kir_ref j, int64_t from) {
    const uint32_t x = 0;
    if (i) row = kir_to_index(f, kir_load(f, i, row));
    kir_ref at = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, row, kir_const_i(f, N)), j);
    return kir_load(f, x, kir_bin(f, KIR_IADD, at, kir_const_i(f, from)));
}

static kir_func *make(const form *c) {
    kir_func *f = kir_new("rows", KIR_KERNEL, NULL);
    (void)kir_add_buf(f, "x", KIR_ARG, c->dtype, 0, 0, 0);
    const uint32_t y = kir_add_buf(f, "y", KIR_ARG, c->dtype, c->in_place ? 0 : 1, 0, 0);
    const uint32_t i = c->row ? kir_add_buf(f, "i", KIR_ARG, RP_DTYPE_I32, 2, 0, 0) : 0;
    const bool twice = c->row == LOOKED_UP_TWICE;
    const uint32_t i2 = twice ? kir_add_buf(f, "i2", KIR_ARG, RP_DTYPE_I32, 3, 0, 0) : i;
    kir_ref row = kir_begin(f, KIR_PAR, kir_const_i(f, c->of_items ? N : ROWS)), v;
    if (c->of_items) {
        v = kir_load(f, 0, kir_bin(f, KIR_IADD, row, kir_const_i(f, c->from)));
        row = kir_const_i(f, 0);
    } else {
        kir_ref j = kir_begin_reduce(f, KIR_MAX, kir_const_i(f, N));
        v = element(f, i, row, j, c->from);
        if (c->one_block) v = kir_alu(f, IR_mul, v, element(f, i, row, j, c->from), KIR_NONE);
        v = kir_yield(f, v);
    }
    if (c->row == LOOKED_UP_ANEW)
        kir_store(f, i, row, kir_from_index(f, KIR_I32, kir_const_i(f, 0)));
    kir_ref k = kir_begin(f, KIR_LOOP, kir_const_i(f, c->n));
    kir_ref w = c->one_block ? v
                             : kir_alu(f, IR_sub, element(f, i2, row, k, c->again), v, KIR_NONE);
    kir_store(f, y, kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, row, kir_const_i(f, N)), k), w);
    kir_end(f);
    kir_end(f);
    return f;
}

static const form forms[] = {
    {RP_DTYPE_F32, 0, 0, N, false, false, false, N, 1, BY_NUMBER},
    {RP_DTYPE_F32, 0, 0, N, false, false, false, N - 1, 0, BY_NUMBER}, /* no room */
    {RP_DTYPE_F32, 3, 3, N, false, false, false, N, 1, BY_NUMBER},
    {RP_DTYPE_F32, 3, 2, N, false, false, false, N, 1, BY_NUMBER}, /* another place: results */
    {RP_DTYPE_F32, 3, 2, N, false, false, false, N - 1, 0, BY_NUMBER},
    {RP_DTYPE_F32, 0, 0, N - 4, false, false, false, N, 1, BY_NUMBER}, /* results */
    {RP_DTYPE_F32, 0, 0, N, true, false, false, N, 0, BY_NUMBER},      /* changes in between */
    {RP_DTYPE_F32, 0, 0, N, false, true, false, N, 0,
     BY_NUMBER}, /* one loop alone; the other loads nothing */
    {RP_DTYPE_F32, 0, 0, N, false, false, true, N, 1,
     BY_NUMBER}, /* as many items as elements: results */
    {RP_DTYPE_BF16, 0, 0, N, false, false, false, N, 1, BY_NUMBER},
    {RP_DTYPE_F64, 0, 0, N, false, false, false, 2 * N, 1, BY_NUMBER},
    {RP_DTYPE_F64, 0, 0, N, false, false, false, 2 * N - 1, 0, BY_NUMBER},
    {RP_DTYPE_I32, 0, 0, N, false, false, false, N, 1,
     BY_NUMBER}, /* results; held its range would be lost */
    {RP_DTYPE_F32, 3, 3, N, false, false, false, N, 1, LOOKED_UP},
    {RP_DTYPE_F32, 3, 2, N, false, false, false, N, 1, LOOKED_UP}, /* another place: results */
    {RP_DTYPE_F32, 0, 0, N, true, false, false, N, 0, LOOKED_UP},
    {RP_DTYPE_F32, 3, 3, N, false, false, false, N, 0, LOOKED_UP_ANEW},
    {RP_DTYPE_F32, 3, 3, N, false, false, false, N, 1, LOOKED_UP_TWICE}, /* results */
};

static uint32_t temporaries_of(const kir_func *f) {
    uint32_t n = 0;
    for (uint32_t b = 0; f && b < f->n_bufs; b++) n += f->bufs[b].space == KIR_SCRATCH;
    return n;
}

static void rows_are_held_and_results_stay(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        static double x[2][ROOM], y[2][ROOM];
        int32_t rows[2][ROWS] = {{2, 0, 1}, {2, 0, 1}}, others[ROWS] = {1, 2, 0};
        kir_func *f = make(&forms[i]), *g = NULL;
        rp_error err = {0};
        CHECK_OK(kir_status(f, &err), &err);
        CHECK_OK(kir_hold_rows(f, forms[i].most, &g, &err), &err);
        if (temporaries_of(g) != forms[i].want || !g != !forms[i].want)
            fail_msg("form %zu: %u temporaries", i, temporaries_of(g));
        for (int k = 0; k < 2; k++)
            for (size_t b = 0; b < sizeof x[k]; b++) ((uint8_t *)x[k])[b] = (uint8_t)(b * 37 % 61);
        memset(y, 0, sizeof y);
        if (g) {
            CHECK_OK(kir_verify(g, &err), &err);
            for (int k = 0; k < 2; k++)
                CHECK_OK(kir_run(k ? g : f, (void *[]){x[k], y[k], rows[k], others}, NULL, NULL, 0,
                                 ROWS, &err),
                         &err);
            assert_memory_equal(y[0], y[1], sizeof y[0]);
        }
        kir_free(g);
        kir_free(f);
    }
}

/* Out of memory at each allocation: a clean error, nothing left behind. */
static void lost_allocations_are_reported(void **state) {
    kir_func *f = make(&forms[0]);
    const size_t live = base_live();
    bool fired = true;
    (void)state;
    for (uint64_t n = 1; fired; n++) {
        kir_func *g = NULL;
        base_alloc_fail_nth(n);
        rp_status st = kir_hold_rows(f, N, &g, NULL);
        fired = base_alloc_fail_nth(0);
        assert_int_equal(st, fired ? RP_NOMEM : RP_OK);
        kir_free(g);
        assert_int_equal(base_live(), live);
    }
    kir_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_held_and_results_stay),
        cmocka_unit_test(lost_allocations_are_reported),
    };
    return cmocka_run_group_tests_name("kir_hold", tests, NULL, NULL);
}
