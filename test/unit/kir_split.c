/* Loop splitting: equal results on every case, and no condition or division left where it should take
 * them apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "support/kir_cases.h"

static uint32_t count(const kir_func *f, kir_op op) {
    uint32_t n = 0;
    for (kir_ref i = 0; i < f->n_insts; i++) n += f->insts[i].op == op;
    return n;
}

static kir_func *split(const kir_func *f) {
    kir_func *out = NULL;
    rp_error err = {0};
    if (kir_split_loops(f, &out, &err) != RP_OK) fail_msg("%s", err.text);
    assert_int_equal(kir_verify(out, &err), RP_OK);
    return out;
}

static void results_stay(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        const kir_case *c = &kir_cases[i];
        kir_func *f = c->make(c->name), *g = split(f);
        kir_case_data want, got;
        int64_t symbols[1] = {KIR_CASE_T};

        assert_true(kir_case_data_init(&want, c) && kir_case_data_init(&got, c));
        assert_int_equal(kir_run(f, want.arg, symbols, NULL, 0, c->items, NULL), RP_OK);
        assert_int_equal(kir_run(g, got.arg, symbols, NULL, 0, c->items, NULL), RP_OK);
        assert_int_equal(kir_case_compare(c, &want, &got, "split"), 0);
        kir_case_data_done(&want);
        kir_case_data_done(&got);
        kir_free(f);
        kir_free(g);
    }
}

static kir_func *case_named(const char *name) {
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        if (strcmp(kir_cases[i].name, name) == 0) return kir_cases[i].make(name);
    }
    fail_msg("no case %s", name);
    return NULL;
}

/* Heads, then two halves each, every index affine. */
static void rope_becomes_affine(void **state) {
    kir_func *f = case_named("rope"), *g = split(f);

    (void)state;
    assert_true(count(f, KIR_IMOD) > 0 && count(f, KIR_ILT) > 0);
    assert_int_equal(count(g, KIR_LOOP), 3);
    assert_int_equal(count(g, KIR_IMOD) + count(g, KIR_IDIV), 0);
    assert_int_equal(count(g, KIR_ILT) + count(g, KIR_ISELECT) + count(g, KIR_SELECT), 0);
    kir_free(f);
    kir_free(g);
}

static void concat_becomes_stretches(void **state) {
    kir_func *f = case_named("concat"), *g = split(f);

    (void)state;
    assert_int_equal(count(g, KIR_LOOP), 3);
    assert_int_equal(count(g, KIR_SELECT) + count(g, KIR_IMOD), 0);
    kir_free(f);
    kir_free(g);
}

/* The clamps of dropped reads vanish with the conditions. */
static void clamps_need_no_stretch_of_their_own(void **state) {
    kir_func *f = case_named("clamped"), *g = split(f);

    (void)state;
    assert_int_equal(count(g, KIR_LOOP), 3);
    assert_int_equal(count(g, KIR_SELECT) + count(g, KIR_IMIN) + count(g, KIR_IMAX), 0);
    kir_free(f);
    kir_free(g);
}

/* Many stretches would be much code: the loop stays whole. */
static void many_stretches_stay_together(void **state) {
    kir_func *f = kir_new("f", KIR_KERNEL, NULL), *g;
    uint32_t y = kir_add_buf(f, "y", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);
    kir_ref v = kir_const_f(f, 0.0), j;

    (void)state;
    (void)kir_begin(f, KIR_PAR, kir_const_i(f, 2));
    j = kir_begin(f, KIR_LOOP, kir_const_i(f, 64));
    for (int i = 1; i < 8; i++) {
        v = kir_select(f, kir_bin(f, KIR_ILT, j, kir_const_i(f, i * 8)), v, kir_const_f(f, i));
    }
    kir_store(f, y, j, v);
    kir_end(f);
    kir_end(f);
    g = split(f);
    assert_int_equal(count(g, KIR_LOOP), 1);
    assert_int_equal(count(g, KIR_SELECT), 7);
    kir_free(f);
    kir_free(g);
}

/* Who calls a fragment gives it all of its parameters, also those that it does not read. */
static void fragments_keep_their_parameters(void **state) {
    static const char text[] = "fragment @f() params 3 {\n  buf y: f32 = arg 0, written\n"
                               "  %0 = param 0\n  %1 = const.i 4\n  %2 = loop %1 {\n"
                               "    %3 = iadd %0, %2\n    %4 = load y[%3] : f32\n"
                               "    store y[%2], %4\n  }\n}\n";
    rp_error err = {0};
    kir_func *f = NULL;
    (void)state;
    if (kir_parse(text, strlen(text), &f, &err) != RP_OK) fail_msg("%s", err.text);
    kir_func *g = split(f);
    assert_int_equal(g->n_params, 3);
    kir_free(g);
    kir_free(f);
}

static void lost_allocations_are_reported(void **state) {
    kir_func *f = case_named("rope"), *g = NULL;
    size_t live = base_live();
    bool fired = true;

    (void)state;
    for (uint64_t n = 1; fired; n++) {
        rp_error err = {0};
        rp_status st;
        base_alloc_fail_nth(n);
        st = kir_split_loops(f, &g, &err);
        fired = base_alloc_fail_nth(0);
        assert_int_equal(st, fired ? RP_NOMEM : RP_OK);
        if (st == RP_OK) kir_free(g);
        assert_int_equal(base_live(), live);
    }
    kir_free(f);
}

/* --- rows that are staged ------------------------------------------------------------------- */

enum { ITEMS = 2 * KIR_STAGED_ROWS, WIDTH = 8, MOST_READ = 5, ROOM = 4096 };

/* Item i of tile j reads element i + stride * j of so many buffers, none in front of the first, and stores their sum. */
static kir_func *reads_of(int64_t stride, uint32_t n) {
    kir_func *f = kir_new("f", KIR_KERNEL, NULL);
    uint32_t y = kir_add_buf(f, "y", KIR_ARG, RP_DTYPE_F32, 0, 0, 0), x[MOST_READ];
    for (uint32_t b = 0; b < n; b++) {
        char name[16];
        (void)snprintf(name, sizeof name, "x%u", b);
        x[b] = kir_add_buf(f, name, KIR_ARG, RP_DTYPE_F32, b + 1, 0, 0);
    }
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, ITEMS));
    kir_ref j = kir_begin(f, KIR_LOOP, kir_const_i(f, WIDTH)), sum = KIR_NONE;
    kir_ref first = kir_const_i(f, stride < 0 ? -stride * (WIDTH - 1) : 0);
    kir_ref at = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, j, kir_const_i(f, stride)),
                         kir_bin(f, KIR_IADD, i, first));
    for (uint32_t b = 0; b < n; b++) {
        kir_ref v = kir_load(f, x[b], at);
        sum = b ? kir_alu(f, IR_add, sum, v, KIR_NONE) : v;
    }
    kir_store(f, y, kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, i, kir_const_i(f, WIDTH)), j), sum);
    kir_end(f);
    kir_end(f);
    return f;
}

/* The temporaries of what is staged, with equal results; 0: nothing is. */
static uint32_t staged(int64_t stride, uint32_t n) {
    static float x[MOST_READ][ROOM], y[2][ITEMS * WIDTH];
    kir_func *f = reads_of(stride, n), *g = NULL;
    rp_error err = {0};
    uint32_t temporaries = 0;
    for (uint32_t b = 0; b < MOST_READ; b++)
        for (uint32_t i = 0; i < ROOM; i++) x[b][i] = (float)(i * (b + 1));
    if (kir_stage_rows(f, &g, &err) != RP_OK) fail_msg("%s", err.text);
    if (g) {
        assert_int_equal(kir_verify(g, &err), RP_OK);
        assert_int_equal(
            kir_run(f, (void *[]){y[0], x[0], x[1], x[2], x[3], x[4]}, NULL, NULL, 0, ITEMS, NULL),
            RP_OK);
        assert_int_equal(kir_run(g, (void *[]){y[1], x[0], x[1], x[2], x[3], x[4]}, NULL, NULL, 0,
                                 ITEMS / KIR_STAGED_ROWS, NULL),
                         RP_OK);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        for (uint32_t b = 0; b < g->n_bufs; b++) temporaries += g->bufs[b].space == KIR_SCRATCH;
    }
    kir_free(g);
    kir_free(f);
    return temporaries;
}

/* What is 16 elements away, or further, in either direction, lies in another cache line. */
static void far_reads_are_staged(void **state) {
    static const int64_t far[] = {16, 17, 64, -16, -17, -64}, near[] = {0, 1, 2, 15, -1, -15};
    (void)state;
    for (int i = 0; i < 6; i++) {
        if (staged(far[i], 1) != 1) fail_msg("by %d", (int)far[i]);
        if (staged(near[i], 1) != 0) fail_msg("by %d", (int)near[i]);
    }
}

/* A block has temporaries for three of them; others are read as they were. */
static void reads_beyond_the_most_stay(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= MOST_READ; n++) assert_int_equal(staged(64, n), n < 3 ? n : 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_stay),
        cmocka_unit_test(rope_becomes_affine),
        cmocka_unit_test(concat_becomes_stretches),
        cmocka_unit_test(clamps_need_no_stretch_of_their_own),
        cmocka_unit_test(many_stretches_stay_together),
        cmocka_unit_test(far_reads_are_staged),
        cmocka_unit_test(reads_beyond_the_most_stay),
        cmocka_unit_test(fragments_keep_their_parameters),
        cmocka_unit_test(lost_allocations_are_reported),
    };
    return cmocka_run_group_tests_name("kir_split", tests, NULL, NULL);
}
