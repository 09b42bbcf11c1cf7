/* Functions with graph breaks: right results, host code once a call, as many graphs as there are between breaks, what is told. */
#include "support/breaks.h"

#include "base/alloc.h"
#include "support/heard.h"

static void a_branch_on_data(void **state) {
    static const int64_t rows[] = {2, 2, 8, 8, 2, 3, 100, 2, 5};
    (void)state;
    fill();
    for (int level = 0; level <= 2; level += 2) {
        seen s = {0, 0, 0};
        rp_jit *f = make(by_sum, level, &s);
        for (int i = 0; i < 9; i++) {
            rp_output *o = run2(f, x, rows[i], 3);
            check_by_sum(o, x, (int)rows[i] * 3);
            assert_int_equal(s.runs, i + 1); /* once a call */
            if (level && i > 5) assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
            rp_output_free(o);
        }
        rp_jit_info info = jit_info(f);
        assert_int_equal(info.calls, 9);
        if (level) {
            assert_int_equal(info.compiles, 3); /* [2,3], then [s0,3] above and below */
            assert_int_equal(info.entries, 2);
            assert_int_equal(info.graphs, 2 + 2 + 1);
            assert_int_equal(info.breaks, 2);
        }
        rp_jit_free(f);
    }
}

/* Nothing is computed on either side of a break: an argument is read, or not even that. */
static rp_status reads_alone(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    double first = 3;
    (void)err;
    if (user)
        first = rp_item(rp_jit_tensor(call, &args->item[0]));
    else
        rp_jit_break(call, "builtin: print");
    *result = rp_value_float(first);
    return RP_OK;
}

static void nothing_is_computed(void **state) {
    static int reads = 1;
    (void)state;
    for (int level = 0; level <= 2; level++)
        for (int how = 0; how < 2; how++) {
            rp_jit *f = make(reads_alone, level, how ? &reads : NULL);
            for (int i = 0; i < 3; i++) {
                float one = (float)i + 7;
                rp_value v = f32_of(&one, 0, 0, 0), args = rp_value_tuple(&v, 1);
                rp_output *o = jit_ok(f, &args);
                assert_true(jit_result(o)->as.number == (how ? (double)one : 3));
                if (level && i) assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
                rp_output_free(o);
            }
            if (level) assert_int_equal(jit_info(f).graphs, 0);
            rp_jit_free(f);
        }
}

/* The seed's BrokenAttention. */
static rp_status attention(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    if (rp_dim_gt(rp_tensor_dim(a, 0), 8)) {
        rp_jit_break(call, "builtin: print"); /* Graph break here! */
        ++*(int *)user;
    }
    rp_tensor q = rp_matmul(a, b, false), out = rp_exp(rp_matmul(q, a, true));
    out = rp_div(out, rp_sum(out, -1, true));
    *result = rp_jit_value(call, rp_matmul(out, a, false));
    return RP_OK;
}

static void a_print(void **state) {
    static const int64_t rows[] = {4, 16, 16, 12, 5, 16};
    static const int prints[] = {0, 1, 2, 3, 3, 4};
    rp_output *both[2];
    int n[2] = {0, 0};
    rp_jit *f = make(attention, 2, &n[0]), *plain = make(attention, 0, &n[1]);
    base_buf heard;
    (void)state;
    fill();
    heard_start(&heard, "graph_breaks");
    for (int i = 0; i < 6; i++) {
        rp_value v[] = {f32_of(x, 2, rows[i], 8), f32_of(w, 2, 8, 8)};
        rp_value args = rp_value_tuple(v, 2);
        both[0] = jit_ok(f, &args);
        both[1] = jit_ok(plain, &args);
        assert_int_equal(n[0], prints[i]);
        assert_int_equal(n[1], prints[i]);
        assert_memory_equal(jit_result(both[0])->tensor.data, jit_result(both[1])->tensor.data,
                            (size_t)rows[i] * 8 * sizeof(float));
        rp_output_free(both[0]);
        rp_output_free(both[1]);
    }
    CHECK_HEARD(&heard, "[graph_breaks] Graph break in user code at ");
    CHECK_HEARD(&heard, "[graph_breaks] Reason: Unsupported: builtin: print");
    CHECK_HEARD(&heard, ", in forward");
    CHECK_HEARD(&heard, "rp_jit_break(call, \"builtin: print\"); /* Graph break here! */");
    heard_done(&heard);
    rp_jit_free(f);
    rp_jit_free(plain);
}

static int times_in(const base_buf *heard, const char *text) {
    int n = 0;
    for (const char *p = heard->data; p && (p = strstr(p, text)); p++) n++;
    return n;
}

static void each_entry_comes_to_it_and_one_tells(void **state) {
    static const int64_t rows[] = {16, 12, 16, 10};
    rp_error err = {0};
    int prints = 0;
    rp_jit *f = jit_at(attention, 2, RP_DYNAMIC_NONE, &prints);
    base_buf heard;
    (void)state;
    fill();
    heard_start(&heard, "graph_breaks");
    for (int i = 0; i < 4; i++) {
        if (i == 3) rp_jit_reset(f); /* forgets what was told, too */
        rp_value v[] = {f32_of(x, 2, rows[i], 8), f32_of(w, 2, 8, 8)};
        rp_value args = rp_value_tuple(v, 2);
        rp_output_free(jit_ok(f, &args));
        if (i == 2) assert_int_equal(jit_info(f).breaks, 2);
        assert_int_equal(times_in(&heard, "Graph break in user code"), i == 3 ? 2 : 1);
    }
    CHECK_OK(rp_log_set_channels("+graph_breaks", &err), &err);
    rp_value v[] = {f32_of(x, 2, 11, 8), f32_of(w, 2, 8, 8)}, args = rp_value_tuple(v, 2);
    rp_output_free(jit_ok(f, &args));
    assert_int_equal(times_in(&heard, "Graph break in user code"), 3);
    heard_done(&heard);
    rp_jit_free(f);
}

/* --- a loop of the host ------------------------------------------------------------------------- */

/* Halves until the largest is below 1: a break a round. */
static rp_status halved(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    while (!rp_jit_failed(call) && rp_item(rp_amax(a, 0, false)) >= 1) {
        a = rp_mul_scalar(a, 0.5);
        ++*(int *)user;
    }
    rp_value item[] = {rp_jit_value(call, a), rp_value_int(*(int *)user)};
    static rp_value kept[2];
    memcpy(kept, item, sizeof kept);
    *result = rp_value_tuple(kept, 2);
    return RP_OK;
}

static void a_loop_of_the_host(void **state) {
    static const float top[] = {0.5f, 5, 5, 40, 3, 0.25f, 40};
    static const int rounds[] = {0, 3, 3, 6, 2, 0, 6};
    int n = 0;
    float data[8] = {0};
    rp_jit *f = make(halved, 2, &n);
    (void)state;
    for (int i = 0; i < 7; i++) {
        rp_value v = f32_of(data, 1, 8, 0), args = rp_value_tuple(&v, 1);
        data[3] = top[i];
        n = 0;
        rp_output *o = jit_ok(f, &args);
        const rp_value *r = jit_result(o);
        assert_int_equal(n, rounds[i]);
        assert_int_equal(r->item[1].as.integer, rounds[i]); /* not that of the first run */
        assert_true(((float *)r->item[0].tensor.data)[3] == ldexpf(top[i], -rounds[i]));
        if (i == 2 || i > 4) assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
        rp_output_free(o);
    }
    assert_int_equal(jit_info(f).entries, 1);
    rp_jit_free(f);
}

/* A number of each type that tensors have, as a float and as an integer. */
static const rp_dtype item_types[] = {
    RP_DTYPE_F64, RP_DTYPE_F32, RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_F8E4M3FN, RP_DTYPE_F8E5M2,
    RP_DTYPE_I64, RP_DTYPE_I32, RP_DTYPE_I16, RP_DTYPE_I8,   RP_DTYPE_U8,       RP_DTYPE_BOOL};
enum { N_ITEM_TYPES = sizeof item_types / sizeof *item_types };

typedef struct items {
    double is[N_ITEM_TYPES];
    int64_t whole[N_ITEM_TYPES];
} items;

static rp_status reads_items(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    items *out = user;
    (void)err;
    for (int i = 0; i < N_ITEM_TYPES; i++) {
        rp_tensor y = rp_cast(a, item_types[i]);
        out->is[i] = rp_item(y);
        out->whole[i] = rp_item_int(y);
    }
    *result = rp_jit_value(call, rp_neg(a));
    return RP_OK;
}

static void an_item_is_of_any_type(void **state) {
    static const float given[] = {-3,      1,        112, -2.75f,  2.75f,
                                  0x1p70f, -0x1p70f, NAN, 0x1p63f, -0x1p63f};
    items got;
    rp_jit_options o = jit_options(reads_items);
    (void)state;
    o.user = &got;
    rp_jit *f = jit_by(o, "backend=eager");
    for (size_t k = 0; k < sizeof given / sizeof *given; k++) {
        float data = given[k];
        const double d = (double)data;
        rp_value v = f32_of(&data, 1, 1, 0), args = rp_value_tuple(&v, 1);
        rp_output_free(jit_ok(f, &args));
        for (int i = 0; i < N_ITEM_TYPES; i++) {
            const bool is_float = rp_dtype_is_float(item_types[i]);
            if (k < 3 && item_types[i] != RP_DTYPE_BOOL &&
                (d > 0 || item_types[i] != RP_DTYPE_U8)) {
                if (got.is[i] != d || got.whole[i] != (int64_t)d)
                    fail_msg("%s: %g, %lld, not %g", rp_dtype_name(item_types[i]), got.is[i],
                             (long long)got.whole[i], d);
            } else if (k == 3 || k == 4) { /* towards zero */
                if (item_types[i] == RP_DTYPE_BOOL)
                    assert_true(got.is[i] == 1 && got.whole[i] == 1);
                if (is_float) assert_true(got.whole[i] == (int64_t)got.is[i]);
            } else if (k > 4 && i < 2) { /* what no integer holds */
                assert_true(got.whole[i] == (d > 0 ? INT64_MAX : d < 0 ? INT64_MIN : 0));
                assert_true(got.is[i] == d || (k == 7 && isnan(got.is[i])));
            }
        }
    }
    rp_jit_free(f);
}

/* A number that differs each time: past the limit nothing is kept, and results stay right. */
static rp_status scaled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(a, rp_item(rp_amax(a, 0, false))));
    return RP_OK;
}

static void ways_have_a_limit(void **state) {
    float data[3] = {-1, 0, 0};
    base_buf heard;
    rp_jit *f = make(scaled, 2, NULL);
    (void)state;
    heard_start(&heard, "graph_breaks");
    for (int i = 0; i < 40; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        data[2] = (float)i + 1;
        rp_output *o = jit_ok(f, &args);
        assert_true(((float *)jit_result(o)->tensor.data)[2] == data[2] * data[2]);
        assert_true(((float *)jit_result(o)->tensor.data)[0] == -data[2]);
        assert_int_equal(rp_output_ran(o), i < 8 ? RP_RAN_CAPTURE : RP_RAN_EAGER);
        if (i >= 8) assert_non_null(strstr(rp_output_reason(o), "past the recompile limit"));
        rp_output_free(o);
    }
    CHECK_HEARD(&heard, "reprise hit recompile_limit (8); function: 'forward' (model.c:8); what "
                        "follows the graph break at test/unit/jit_breaks.c:");
    heard_done(&heard);
    rp_jit_info info = jit_info(f);
    assert_int_equal(info.graphs, 1 + 8);
    assert_int_equal(info.compiles, 8);
    assert_int_equal(info.eager, 32);
    rp_jit_free(f);
}

/* Many nodes that never come again: the recording is begun anew, so it does not grow for ever. */
static rp_status scaled_often(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    double top = rp_item(rp_amax(a, 0, false));
    (void)user;
    (void)err;
    for (int i = 0; i < 64; i++) a = rp_add_scalar(a, i % 2 ? top : -top);
    *result = rp_jit_value(call, a);
    return RP_OK;
}

static void a_recording_is_begun_anew(void **state) {
    float data[3] = {-1, 0, 0};
    rp_jit *f = make(scaled_often, 1, NULL);
    (void)state;
    for (int i = 0; i < 600; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        data[2] = (float)i + 1;
        rp_output *o = jit_ok(f, &args);
        assert_memory_equal(jit_result(o)->tensor.data, data, sizeof data);
        rp_output_free(o);
    }
    rp_jit_info info = jit_info(f);
    assert_true(info.compiles > 8);
    assert_true(info.compiles < 60);
    assert_int_equal(info.entries, 1);
    rp_jit_free(f);
}

/* Ways of all recordings count, and one warning is enough for them. */
static void a_recording_begun_anew_keeps_fewer_ways(void **state) {
    float data[3] = {-1, 0, 0};
    base_buf heard;
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(scaled_often);
    o.accumulated_recompile_limit = 10;
    CHECK_OK(jit_of(o, "level=1 threads=1", &f, &err), &err);
    (void)state;
    heard_start(&heard, "");
    for (int i = 0; i < 1200; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        data[2] = (float)i + 1;
        rp_output *out = jit_ok(f, &args);
        assert_memory_equal(jit_result(out)->tensor.data, data, sizeof data);
        rp_output_free(out);
    }
    CHECK_HEARD(&heard, "reprise hit recompile_limit (8)");
    assert_null(strstr(strstr(heard.data, "reprise hit") + 1, "reprise hit"));
    rp_jit_info info = jit_info(f);
    assert_true(info.compiles >= 8 + 4 + 1); /* 10 beside the first of each recording */
    assert_true(info.compiles <= 10 + 6);
    rp_jit_reset(f); /* there is room again */
    for (int i = 0; i < 20; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        data[2] = (float)i + 1;
        rp_output_free(jit_ok(f, &args));
    }
    assert_int_equal(jit_info(f).compiles, info.compiles + 8);
    assert_non_null(strstr(strstr(heard.data, "reprise hit") + 1, "reprise hit"));
    heard_done(&heard);
    rp_jit_free(f);
}

/* Breaks of one function share the limit of all ways. */
static void ways_of_all_breaks_have_a_limit(void **state) {
    float data[3] = {-1, 0, 0};
    base_buf heard;
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(scaled);
    o.accumulated_recompile_limit = 3;
    CHECK_OK(jit_of(o, "level=1 threads=1", &f, &err), &err);
    (void)state;
    heard_start(&heard, "");
    for (int i = 0; i < 10; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        data[2] = (float)i + 1;
        rp_output *out = jit_ok(f, &args);
        assert_int_equal(rp_output_ran(out), i < 4 ? RP_RAN_CAPTURE : RP_RAN_EAGER);
        rp_output_free(out);
    }
    CHECK_HEARD(&heard, "reprise hit accumulated_recompile_limit (3); function: 'forward'");
    heard_done(&heard);
    rp_jit_free(f);
}

/* user: how many arguments are read on both sides of two breaks. */
enum { MANY = 20 };
static rp_status many_across(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    const int n = *(const int *)user;
    rp_tensor a[MANY], b[MANY];
    (void)err;
    for (int i = 0; i < n; i++) b[i] = rp_add_scalar(a[i] = rp_jit_tensor(call, &args->item[i]), i);
    rp_jit_break(call, "one");
    rp_tensor sum = b[0], product = a[0];
    for (int i = 1; i < n; i++) sum = rp_add(sum, b[i]);
    rp_jit_break(call, "two");
    for (int i = 1; i < n; i++) product = rp_add(rp_mul(product, a[i]), b[i]);
    *result = rp_jit_value(call, rp_add(sum, product));
    return RP_OK;
}

/* Pieces of few and of many values, their places on the stack and not, keep nothing of a call. */
static void many_values_cross_a_break(void **state) {
    static const int counts[] = {1, 8, 15, 16, 17, MANY};
    (void)state;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int n = counts[k];
        size_t live = 0;
        rp_jit *f = make(many_across, 2, &n);
        for (int turn = 0; turn < 6; turn++) {
            float data[MANY][4];
            rp_value v[MANY], args = rp_value_tuple(v, (uint32_t)n);
            for (int i = 0; i < n; i++) {
                for (int j = 0; j < 4; j++) data[i][j] = (float)((i * 5 + j * 3 + turn) % 7 - 3);
                v[i] = f32_of(data[i], 1, 4, 0);
            }
            rp_output *o = jit_ok(f, &args);
            for (int j = 0; j < 4; j++) {
                float sum = data[0][j], product = data[0][j];
                for (int i = 1; i < n; i++) {
                    sum += data[i][j] + (float)i;
                    product = product * data[i][j] + (data[i][j] + (float)i);
                }
                assert_true(((const float *)jit_result(o)->tensor.data)[j] == sum + product);
            }
            rp_output_free(o);
            if (turn == 3) live = base_live();
        }
        assert_int_equal(base_live(), live);
        rp_jit_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_branch_on_data),
        cmocka_unit_test(nothing_is_computed),
        cmocka_unit_test(a_print),
        cmocka_unit_test(each_entry_comes_to_it_and_one_tells),
        cmocka_unit_test(a_loop_of_the_host),
        cmocka_unit_test(ways_have_a_limit),
        cmocka_unit_test(a_recording_is_begun_anew),
        cmocka_unit_test(a_recording_begun_anew_keeps_fewer_ways),
        cmocka_unit_test(ways_of_all_breaks_have_a_limit),
        cmocka_unit_test(an_item_is_of_any_type),
        cmocka_unit_test(many_values_cross_a_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
