/* A call of an automatic graph without memory: whichever allocation fails, nothing is left, and the next call has the right result. */
#include "support/autographs.h"

#include "autograph/memory.h"
#include "base/alloc.h"

enum { TEMPS = 9 }; /* more than what is made room for at once, twice */

/* x + 1 so many times, each in memory of its own. */
static rp_status adds_in_many(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_value in = args->item[0];
    rp_status st = RP_OK;
    for (int i = 0; st == RP_OK && i < TEMPS; i++) {
        rp_buffer t = in.tensor;
        rp_value of = rp_value_tuple(&in, 1), y;
        st = affine_call(user, call, &of, &y, err);
        if (st == RP_OK) st = rp_call_temp(call, &t, err);
        if (st == RP_OK)
            st = rp_stream_copy(rp_call_stream(call), t.data, y.tensor.data, sizeof(float), err);
        in = rp_value_tensor(t);
        *result = y;
    }
    return st;
}

/* Fails the n-th allocation of a first call, 0: none; false: there are not so many. */
static bool fail_nth(const affine *m, uint64_t n) {
    float x = 1;
    rp_error err = {0};
    rp_output *o = NULL;
    rp_value in = floats(&x, 1), args = rp_value_tuple(&in, 1);
    bench b = {.device = m->device};
    CHECK_OK(rp_stream_open(b.device, &b.stream, &err), &err);
    CHECK_OK(rp_autograph_create(b.stream, NULL, &b.graphs, &err), &err);
    rp_function *f = function_of(&b, "f", adds_in_many, (void *)(uintptr_t)m);
    (void)base_alloc_fail_nth(n);
    rp_status st = rp_autograph_run(f, &args, &o, &err);
    const bool failed = base_alloc_fail_nth(0);
    if (!failed) CHECK_OK(st, &err);
    if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
    assert_int_equal(o != NULL, st == RP_OK);
    if (!o) o = run_ok(f, &args);
    assert_true(values_of(o)[0] == 1 + TEMPS);
    rp_output_free(o);
    rp_autograph_destroy(b.graphs);
    rp_stream_close(b.stream);
    return failed;
}

static void a_first_call_without_memory(void **state) {
    bench b;
    affine m;
    uint64_t n = 1;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 1, 1);
    (void)fail_nth(&m, 0); /* what a device keeps */
    const size_t live = base_live();
    while (fail_nth(&m, n)) {
        assert_int_equal(base_live(), live);
        n++;
    }
    assert_true(n > TEMPS);
    affine_close(&m);
    bench_close(&b);
}

/* Whole blocks, at least one, of no negative size and no more than there can be. */
static void bytes_are_those_of_whole_blocks(void **state) {
    static const struct {
        rp_buffer b;
        bool known;
        size_t bytes;
    } is[] = {
        {{RP_DTYPE_F32, 0, {0}, NULL}, true, 4},
        {{RP_DTYPE_BF16, 3, {2, 3, 5}, NULL}, true, 60},
        {{RP_DTYPE_I64, 2, {7, 0}, NULL}, true, 0},
        {{RP_DTYPE_Q8_0, 2, {3, 64}, NULL}, true, 3 * 2 * 34},
        {{RP_DTYPE_Q8_0, 2, {64, 33}, NULL}, false, 0},
        {{RP_DTYPE_Q8_0, 2, {64, 31}, NULL}, false, 0},
        {{RP_DTYPE_Q8_0, 2, {33, 32}, NULL}, true, 33 * 34},
        {{RP_DTYPE_Q8_0, 0, {0}, NULL}, false, 0},
        {{RP_DTYPE_F32, 2, {4, -1}, NULL}, false, 0},
        {{RP_DTYPE_F32, 2, {-4, 0}, NULL}, false, 0},
        {{RP_DTYPE_U8, 3, {1 << 30, 1 << 30, 15}, NULL}, true, (size_t)15 << 60},
        {{RP_DTYPE_U8, 3, {1 << 30, 1 << 30, 16}, NULL}, false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        size_t bytes = 0;
        if (autograph_bytes(&is[i].b, &bytes) != is[i].known || bytes != is[i].bytes)
            fail_msg("case %zu: %zu bytes", i, bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_first_call_without_memory),
                                       cmocka_unit_test(bytes_are_those_of_whole_blocks)};
    return cmocka_run_group_tests_name("unit/autograph_memory", tests, NULL, NULL);
}
