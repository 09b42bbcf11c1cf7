/* What ops need of several sizes at once: few entries serve them, with the values of level 0, and a guard that fails is told. */
#include "support/heard.h"
#include "support/jits.h"

enum { MOST = 4096 };

#define FUNCTION(name, ...)                                                                      \
    static rp_status name(void *user, rp_jit_call *call, const rp_value *args, rp_value *result, \
                          rp_error *err) {                                                       \
        rp_tensor x = rp_jit_tensor(call, &args->item[0]),                                       \
                  y = rp_jit_tensor(call, &args->item[1]);                                       \
        (void)user, (void)err;                                                                   \
        __VA_ARGS__                                                                              \
        *result = rp_jit_value(call, y);                                                         \
        return RP_OK;                                                                            \
    }
#define SIZE(x, axis) rp_tensor_dim(x, axis)

/* Caches of keys and values that grow by concatenation: A + B == C + D. */
FUNCTION(grown, {
    rp_tensor q = rp_jit_tensor(call, &args->item[2]), v = rp_jit_tensor(call, &args->item[3]);
    rp_tensor k2[] = {x, q}, v2[] = {y, v};
    y = rp_matmul(rp_softmax(rp_matmul(q, rp_concat(k2, 2, 0), true), -1), rp_concat(v2, 2, 0),
                  false);
})
/* A * B == C * D */
FUNCTION(shaped_as, y = rp_add(y, rp_reshape(x, rp_tensor_shape(y)));)
/* A <= B, where both change. */
FUNCTION(cut, y = rp_add(x, rp_slice(y, 0, 0, SIZE(x, 0)));)
/* A + B <= 12, of numbers that are there. */
FUNCTION(placed, {
    rp_tensor all = rp_iota(rp_jit_graph(call), RP_DTYPE_F32, RP_SHAPE(12, 4), 0);
    y = rp_slice(all, 0, 0, rp_dim_add(SIZE(x, 0), SIZE(y, 0)));
})
/* A <= B, where they are equal. */
FUNCTION(written, y = rp_update_at(y, x, RP_SHAPE(0, 0));)
/* An image padded to even sizes, pooled and stretched again: A + A % 2 == 2 * ((A + A % 2) // 2) for any A. */
FUNCTION(evened, {
    x = rp_reshape(x, RP_SHAPE(1, 1, SIZE(x, 0), SIZE(x, 1)));
    for (int a = 2; a < 4; a++)
        x = rp_pad(x, a, 0, rp_dim_mod(rp_dim_sub(2, rp_dim_mod(SIZE(x, a), 2)), 2), 0);
    x = rp_add(x, rp_upsample_nearest2d(rp_avg_pool2d(x, 2, 0, 0), 2));
    y = rp_mul_scalar(rp_reshape(x, RP_SHAPE(SIZE(x, 2), SIZE(x, 3))), 2);
})
/* A * (A + 1) is even, but of a symbol that is seen where A is. */
FUNCTION(pairs_of, {
    rp_dim n = SIZE(x, 0);
    x = rp_broadcast(rp_sum(x, 1, true), RP_SHAPE(n, rp_dim_add(n, 1)));
    y = rp_reshape(x, RP_SHAPE(rp_dim_floordiv(rp_dim_mul(n, rp_dim_add(n, 1)), 2), 2));
})
/* A cache of the last six: A + B >= 6 behind a question of more. */
FUNCTION(windowed, {
    rp_tensor two[] = {x, y};
    y = rp_concat(two, 2, 0);
    rp_dim n = SIZE(y, 0);
    if (rp_dim_gt(n, 6)) y = rp_slice(y, 0, rp_dim_sub(n, 6), n);
})
/* By as many indices as there are rows, and elements of a row. */
FUNCTION(sorted, {
    x = rp_gather(x, rp_argsort(rp_slice(y, 1, 0, 1), 0, true));
    x = rp_squeeze(x, 1);
    y = rp_add(y, rp_take_along(x, 1, rp_argsort(x, 1, true)));
})
FUNCTION(sum, y = rp_add(x, y);)
FUNCTION(doubled, {
    rp_tensor two[] = {x, x};
    y = rp_add(rp_concat(two, 2, 0), y);
})

typedef struct sizes {
    uint32_t n;
    int64_t dim[4][2];
} sizes;

static rp_status run(rp_jit *f, const sizes *z, float *data, rp_output **out, rp_error *err) {
    rp_value v[4];
    for (uint32_t i = 0; i < z->n; i++)
        v[i] = f32_of(data + i * MOST, 2, z->dim[i][0], z->dim[i][1]);
    rp_value all = rp_value_tuple(v, z->n);
    return rp_jit_run(f, &all, out, err);
}

static void fill(float *data) {
    for (int i = 0; i < 4 * MOST; i++) data[i] = (float)((i * 7919) % 1009) / 512 - 1;
}

static void check(rp_jit *f, rp_jit *plain, const sizes *z) {
    static float a[4 * MOST], b[4 * MOST];
    rp_error err = {0};
    rp_output *is = NULL, *want = NULL;
    fill(a);
    fill(b);
    CHECK_OK(run(plain, z, a, &want, &err), &err);
    CHECK_OK(run(f, z, b, &is, &err), &err);
    const rp_buffer *p = &jit_result(want)->tensor, *q = &jit_result(is)->tensor;
    assert_int_equal(p->rank, 2);
    assert_int_equal(q->rank, 2);
    assert_memory_equal(p->dim, q->dim, 2 * sizeof *p->dim);
    for (int64_t i = 0; i < p->dim[0] * p->dim[1]; i++) {
        double far = (double)((float *)p->data)[i] - (double)((float *)q->data)[i];
        if (!(far <= 1e-5 && far >= -1e-5)) fail_msg("element %d is off by %g", (int)i, far);
    }
    for (int i = 0; i < 4 * MOST; i++) assert_true(a[i] == b[i]); /* written alike */
    rp_output_free(is);
    rp_output_free(want);
}

#define GROWN(a, b)                   \
    {                                 \
        4, {                          \
            {a, 8}, {a, 8}, {b, 8}, { \
                b, 8                  \
            }                         \
        }                             \
    }
#define TWO(a, b, c, d) \
    {                   \
        2, {            \
            {a, b}, {   \
                c, d    \
            }           \
        }               \
    }

static void few_entries_serve_them(void **state) {
    static const struct {
        rp_jit_fn fn;
        uint32_t most; /* entries */
        sizes call[7];
    } cases[] = {
        {grown,
         2,
         {GROWN(4, 2), GROWN(6, 3), GROWN(9, 4), GROWN(13, 2), GROWN(15, 3), GROWN(3, 3),
          GROWN(18, 7)}},
        {shaped_as,
         2,
         {TWO(4, 6, 4, 6), TWO(3, 5, 3, 5), TWO(7, 2, 7, 2), TWO(2, 9, 2, 9), TWO(5, 5, 5, 5),
          TWO(8, 3, 8, 3), TWO(2, 2, 2, 2)}},
        {cut,
         2,
         {TWO(3, 4, 9, 4), TWO(4, 4, 12, 4), TWO(5, 4, 10, 4), TWO(2, 4, 8, 4), TWO(6, 4, 9, 4),
          TWO(7, 4, 20, 4), TWO(8, 4, 16, 4)}},
        {written,
         2,
         {TWO(3, 4, 3, 8), TWO(4, 4, 4, 8), TWO(5, 4, 5, 8), TWO(2, 4, 2, 8), TWO(6, 4, 6, 8),
          TWO(7, 4, 7, 8), TWO(9, 4, 9, 8)}},
        {evened,
         2,
         {TWO(4, 4, 2, 2), TWO(7, 3, 2, 2), TWO(8, 9, 2, 2), TWO(2, 5, 2, 2), TWO(12, 2, 2, 2),
          TWO(15, 6, 2, 2), TWO(9, 8, 2, 2)}},
        {windowed,
         2,
         {TWO(5, 4, 4, 4), TWO(6, 4, 3, 4), TWO(6, 4, 2, 4), TWO(5, 4, 5, 4), TWO(7, 4, 2, 4),
          TWO(6, 4, 9, 4), TWO(6, 4, 1, 4)}},
        {pairs_of,
         2,
         {TWO(4, 4, 2, 2), TWO(6, 4, 2, 2), TWO(8, 4, 2, 2), TWO(2, 4, 2, 2), TWO(12, 4, 2, 2),
          TWO(14, 4, 2, 2), TWO(20, 4, 2, 2)}},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rp_jit *f = jit_at(cases[c].fn, 1, RP_DYNAMIC_AUTO, NULL);
        rp_jit *plain = jit_at(cases[c].fn, 0, RP_DYNAMIC_AUTO, NULL);
        for (int i = 0; i < 7; i++) check(f, plain, &cases[c].call[i]);
        if (jit_info(f).entries > cases[c].most)
            fail_msg("case %d: %u entries; %u are enough", (int)c, (unsigned)jit_info(f).entries,
                     cases[c].most);
        rp_jit_free(f);
        rp_jit_free(plain);
    }
}

/* Three calls, of which the last holds what is needed, but not what was enough for it: said tells what failed. */
static void check_guard(rp_jit_fn fn, const sizes *call, const char *needed, const char *failed) {
    base_buf said;
    rp_jit *f = jit_at(fn, 1, RP_DYNAMIC_AUTO, NULL), *plain = jit_at(fn, 0, RP_DYNAMIC_AUTO, NULL);
    heard_start(&said, "recompiles,dynamic");
    for (int i = 0; i < 3; i++) check(f, plain, &call[i]);
    CHECK_HEARD(&said, needed);
    CHECK_HEARD(&said, failed);
    assert_int_equal(jit_info(f).entries, 3);
    heard_done(&said);
    rp_jit_free(f);
    rp_jit_free(plain);
}

static void what_is_enough_is_a_guard_that_is_told(void **state) {
    static const sizes shapes[] = {TWO(4, 6, 4, 6), TWO(6, 8, 6, 8), TWO(6, 4, 4, 6)};
    static const sizes places[] = {TWO(3, 4, 2, 4), TWO(4, 4, 3, 4), TWO(10, 4, 1, 4)};
    static const sizes even[] = {TWO(4, 4, 2, 2), TWO(6, 4, 2, 2), TWO(7, 4, 2, 2)};
    (void)state;
    check_guard(shaped_as, shapes, "L[1].size()[0] == L[0].size()[0]  # test/unit/jit_needs.c:",
                ": L[1].size()[0] == L[0].size()[0]  # test/unit/jit_needs.c:");
    check_guard(placed, places,
                "eval L[0].size()[0]+L[1].size()[0] <= 12  # test/unit/jit_needs.c:",
                ": 0 <= L[0].size()[0] <= 6\n");
    check_guard(pairs_of, even, "[guard added]", ": L[0].size()[0]%2 == 0\n");
}

/* The guards' text has them, too. */
static void guards_have_divisors(void **state) {
    static const sizes even[] = {TWO(4, 4, 2, 2), TWO(6, 4, 2, 2)};
    rp_jit *f = jit_at(pairs_of, 1, RP_DYNAMIC_AUTO, NULL);
    rp_jit *plain = jit_at(pairs_of, 0, RP_DYNAMIC_AUTO, NULL);
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    for (int i = 0; i < 2; i++) check(f, plain, &even[i]);
    CHECK_OK(rp_jit_guards_text(f, &text, &err), &err);
    if (!strstr(text, "  - SHAPE_ENV: L[0].size()[0]%2 == 0\n")) fail_msg("%s", text);
    rp_free(text);
    rp_jit_free(f);
    rp_jit_free(plain);
}

/* Two marked sizes may be one, or one twice the other, where that leaves the range of each as it is. */
static void equal_sizes_keep_their_marks(void **state) {
    static const struct {
        rp_jit_fn fn;
        int64_t x[2], y[2];
        int times;
        const char *refused;
    } cases[] = {
        {sum, {2, 100}, {2, 100}, 1, NULL},
        {doubled, {2, 50}, {4, 100}, 2, NULL},
        {sum, {2, 100}, {2, 50}, 1, "not all of its range is served: L[0].size()[0] == L[1]"},
        {sum, {2, 50}, {2, 100}, 1, "not all of its range is served: L[0].size()[0] == L[1]"},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        static float data[4 * MOST];
        rp_error err = {0};
        rp_jit *f = jit_at(cases[c].fn, 1, RP_DYNAMIC_AUTO, NULL);
        rp_jit *plain = jit_at(cases[c].fn, 0, RP_DYNAMIC_AUTO, NULL);
        const int64_t *x = cases[c].x, *y = cases[c].y;
        CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, x[0], x[1], &err), &err);
        CHECK_OK(rp_jit_mark_dynamic(f, "L[1]", 0, y[0], y[1], &err), &err);
        for (int64_t n = 4; n < 8; n++) {
            const sizes z = TWO(n, 4, n * cases[c].times, 4);
            rp_output *o = NULL;
            if (!cases[c].refused) {
                check(f, plain, &z);
                continue;
            }
            assert_int_equal(run(f, &z, data, &o, &err), RP_INVALID);
            if (!strstr(err.text, cases[c].refused)) fail_msg("%s", err.text);
        }
        assert_int_equal(jit_info(f).entries, cases[c].refused ? 0 : 1);
        rp_jit_free(f);
        rp_jit_free(plain);
    }
}

/* Nor does an index of nothing need an element. */
static void no_index_needs_no_element(void **state) {
    static const sizes call[] = {TWO(3, 4, 3, 4), TWO(0, 4, 0, 4), TWO(5, 3, 5, 3),
                                 TWO(0, 6, 0, 6)};
    (void)state;
    for (int level = 1; level <= 2; level++) {
        rp_jit *f = jit_at(sorted, level, RP_DYNAMIC_AUTO, NULL);
        rp_jit *plain = jit_at(sorted, 0, RP_DYNAMIC_AUTO, NULL);
        for (size_t i = 0; i < sizeof call / sizeof *call; i++) check(f, plain, &call[i]);
        rp_jit_free(f);
        rp_jit_free(plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_entries_serve_them),
        cmocka_unit_test(what_is_enough_is_a_guard_that_is_told),
        cmocka_unit_test(guards_have_divisors),
        cmocka_unit_test(equal_sizes_keep_their_marks),
        cmocka_unit_test(no_index_needs_no_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
