/* A function with two outputs, whose memory grows one by one: what is held afterwards has its own values, or is told to be overwritten. */
#include "support/held_outputs.h"

#include "base/status.h"
#include "support/autographs.h"

static const char *device;

enum { LARGE = 1 << 19 }; /* more than what is set aside for one element */

/* A copy of each argument. */
static rp_status copies_two(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    static rp_value item[2];
    (void)user;
    for (int i = 0; i < 2; i++) {
        const rp_buffer *x = &args->item[i].tensor;
        rp_buffer y = *x;
        RP_TRY(rp_call_output(call, &y, err));
        RP_TRY(rp_stream_copy(rp_call_stream(call), y.data, x->data,
                              (size_t)x->dim[0] * sizeof(float), err));
        item[i] = rp_value_tensor(y);
    }
    *result = rp_value_tuple(item, 2);
    return RP_OK;
}

static rp_function *copying_two(const bench *b, rp_output_policy p) {
    return function_giving(b, "two", copies_two, NULL, p, 2);
}

/* With value and -value in front. */
static rp_output *call_two(const bench *b, rp_function *f, int64_t n, int64_t m, float value) {
    static float x[LARGE], y[LARGE];
    rp_value in[] = {floats(x, n), floats(y, m)};
    rp_error err = {0};
    x[0] = value;
    y[0] = -value;
    rp_output *o = run_items(f, in, 2);
    CHECK_OK(rp_stream_synchronize(b->stream, &err), &err);
    return o;
}

static float front_of(const bench *b, const rp_value *v) {
    float x = 0;
    rp_error err = {0};
    CHECK_OK(rp_stream_copy(b->stream, &x, v->tensor.data, sizeof x, &err), &err);
    CHECK_OK(rp_stream_synchronize(b->stream, &err), &err);
    return x;
}

/* Whether o is there; then it has these values. */
static bool is_there(const bench *b, const rp_output *o, float value) {
    const rp_value *v = NULL;
    rp_error err = {0};
    if (rp_output_value(o, &v, &err) != RP_OK) {
        assert_non_null(strstr(err.text, "the output was overwritten by a later call"));
        return false;
    }
    assert_true(front_of(b, &v->item[0]) == value);
    assert_true(front_of(b, &v->item[1]) == -value);
    return true;
}

/* More memory for the first output, the second, or both: only in the last case nothing is written to what is held. */
static void a_slot_that_stays_is_overwritten(void **state) {
    (void)state;
    for (int k = 0; k < 6; k++) {
        bench b;
        int which = k / 2 + 1;
        int64_t n = which & 1 ? LARGE : 1, m = which & 2 ? LARGE : 1;
        bench_open(&b, device, (rp_growth)(k % 2));
        rp_function *f = copying_two(&b, RP_OUTPUT_BORROWED);
        rp_output *first = call_two(&b, f, 1, 1, 1), *held = call_two(&b, f, 1, 1, 2);
        rp_output_free(call_two(&b, f, n, m, 3));
        assert_true(is_there(&b, held, 2)); /* a capture writes to no slot */
        rp_output *large = call_two(&b, f, n, m, 4);
        assert_int_equal(rp_output_ran(large), RP_RAN_REPLAY);
        assert_true(is_there(&b, first, 1) && is_there(&b, large, 4));
        assert_int_equal(is_there(&b, held, 2), which == 3);
        rp_output_free(first);
        rp_output_free(held);
        rp_output_free(large);
        bench_close(&b);
    }
}

/* Sizes up and down, each twice, and larger ones from time to time; by each policy. */
static void held_outputs_have_their_values_or_are_told(void **state) {
    enum { CALLS = 400, HELD = 8 };
    (void)state;
    for (int k = 0; k < 6; k++) {
        bench b;
        uint32_t seed = 5, n_there = 0;
        int64_t n = 1, m = 1;
        rp_output *held[HELD] = {NULL};
        bench_open(&b, device, (rp_growth)(k % 2));
        rp_function *f = copying_two(&b, (rp_output_policy)(k / 2));
        for (int i = 0; i < CALLS; i++) {
            if (i % 2 == 0) {
                seed = seed * 1664525u + 1013904223u;
                n = 1 + (seed >> 8) % (2 + i / 16);
                m = 1 + (seed >> 16) % (2 + i / 16);
            }
            rp_output_free(held[i % HELD]);
            held[i % HELD] = call_two(&b, f, n, m, (float)(i + 1));
            for (int j = i; j >= 0 && j > i - HELD; j--)
                n_there += is_there(&b, held[j % HELD], (float)(j + 1));
        }
        assert_true(n_there >= CALLS && bench_info(&b).replays > CALLS / 4);
        for (int i = 0; i < HELD; i++) rp_output_free(held[i]);
        bench_close(&b);
    }
}

int held_outputs_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_that_stays_is_overwritten),
        cmocka_unit_test(held_outputs_have_their_values_or_are_told),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
