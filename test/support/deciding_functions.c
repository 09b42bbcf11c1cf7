#include "support/deciding_functions.h"

#include "base/status.h"
#include "support/autographs.h"

static const char *device;

enum { N = 4, CALLS = 4, BYTES = N * sizeof(float) };

static bool computes(void) {
    return strcmp(device, "null") != 0;
}

static bool is_host(void) {
    return strncmp(device, "cuda", 4) != 0;
}

typedef struct user {
    bench b;
    affine m;    /* y = 3 x + 1; on the host */
    float *w[2]; /* N of the device: 100, .. and 200, .. */
    int turn;
} user;

static void user_open(user *u) {
    rp_error err = {0};
    memset(u, 0, sizeof *u);
    bench_open(&u->b, device, RP_GROWTH_RESERVE);
    affine_open(&u->m, u->b.device, 0, 3, 1);
    for (int k = 0; k < 2; k++) {
        void *p = NULL;
        float first[N];
        for (int i = 0; i < N; i++) first[i] = (float)(100 * (k + 1) + i);
        CHECK_OK(rp_device_alloc(u->b.device, BYTES, &p, &err), &err);
        u->w[k] = p;
        CHECK_OK(rp_stream_copy(u->b.stream, p, first, BYTES, &err), &err);
        CHECK_OK(rp_stream_synchronize(u->b.stream, &err), &err);
    }
}

static void user_close(user *u) {
    for (int k = 0; k < 2; k++) rp_device_free(u->b.device, u->w[k]);
    affine_close(&u->m);
    bench_close(&u->b);
}

/* An output of N, in *y and *result. */
static rp_status give(rp_call *call, rp_buffer *y, rp_value *result, rp_error *err) {
    *y = (rp_buffer){RP_DTYPE_F32, 1, {N}, NULL};
    rp_status st = rp_call_output(call, y, err);
    if (st == RP_OK) *result = rp_value_tensor(*y);
    return st;
}

static rp_status from_turns(void *data, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    user *u = data;
    rp_buffer y;
    (void)args;
    rp_status st = give(call, &y, result, err);
    return st == RP_OK
               ? rp_stream_copy(rp_call_stream(call), y.data, u->w[u->turn++ % 2], BYTES, err)
               : st;
}

/* Leaves what it was given in one of two. */
static rp_status to_turns(void *data, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    user *u = data;
    rp_stream *s = rp_call_stream(call);
    rp_buffer y;
    rp_status st = give(call, &y, result, err);
    if (st == RP_OK)
        st = rp_stream_copy(s, u->w[u->turn++ % 2], args->item[0].tensor.data, BYTES, err);
    return st == RP_OK ? rp_stream_copy(s, y.data, u->w[0], BYTES, err) : st;
}

static rp_status part_in_turns(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    user *u = data;
    rp_stream *s = rp_call_stream(call);
    rp_buffer y;
    rp_status st = give(call, &y, result, err);
    if (st == RP_OK) st = rp_stream_fill(s, y.data, 0, BYTES, err);
    return st == RP_OK ? rp_stream_copy(s, (float *)y.data + u->turn++ % 2,
                                        args->item[0].tensor.data, sizeof(float), err)
                       : st;
}

static rp_status bytes_in_turns(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    user *u = data;
    rp_buffer y;
    (void)args;
    rp_status st = give(call, &y, result, err);
    return st == RP_OK
               ? rp_stream_fill(rp_call_stream(call), y.data, u->turn++ % 2 ? 0 : 64, BYTES, err)
               : st;
}

static rp_status computed_in_turns(void *data, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    user *u = data;
    rp_buffer x = {RP_DTYPE_F32, 1, {N}, u->w[u->turn++ % 2]}, y;
    (void)args;
    rp_status st = rp_call_compiled(call, u->m.c, &x, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static rp_status computed_to_turns(void *data, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    user *u = data;
    rp_stream *s = rp_call_stream(call);
    rp_buffer to = {RP_DTYPE_F32, 1, {N}, u->w[u->turn++ % 2]}, y;
    rp_status st = give(call, &y, result, err);
    if (st == RP_OK) st = rp_compiled_run_on(u->m.c, s, &args->item[0].tensor, 1, &to, 1, err);
    return st == RP_OK ? rp_stream_copy(s, y.data, u->w[0], BYTES, err) : st;
}

/* Params in turns. */
static rp_status bound_in_turns(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    static float scale[2] = {2, 3};
    user *u = data;
    rp_status st = rp_compiled_bind(u->m.c, "scale", &scale[u->turn++ % 2], err);
    return st == RP_OK ? affine_call(&u->m, call, args, result, err) : st;
}

/* Those below look at their second argument, one integer that is 3. */
static rp_status row(void *data, rp_call *call, const rp_value *args, rp_value *result,
                     rp_error *err) {
    int32_t at = *(const int32_t *)args->item[1].tensor.data;
    rp_stream *s = rp_call_stream(call);
    rp_buffer y;
    (void)data;
    rp_status st = give(call, &y, result, err);
    if (st == RP_OK) st = rp_stream_fill(s, y.data, 0, BYTES, err);
    return st == RP_OK ? rp_stream_copy(s, y.data, (const float *)args->item[0].tensor.data + at,
                                        sizeof(float), err)
                       : st;
}

static rp_status which_argument(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    int32_t at = *(const int32_t *)args->item[1].tensor.data;
    user *u = data;
    rp_buffer y;
    rp_status st =
        rp_call_compiled(call, u->m.c, &args->item[at == 3 ? 0 : 2].tensor, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static rp_status position_in_state(void *data, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    int32_t at = *(const int32_t *)args->item[1].tensor.data;
    rp_stream *s = rp_call_stream(call);
    float *state = args->item[2].tensor.data;
    rp_buffer y;
    (void)data;
    rp_status st = give(call, &y, result, err);
    if (st == RP_OK)
        st = rp_stream_copy(s, state + at, args->item[0].tensor.data, sizeof(float), err);
    return st == RP_OK ? rp_stream_copy(s, y.data, state, BYTES, err) : st;
}

static rp_status byte_of_an_argument(void *data, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    int32_t at = *(const int32_t *)args->item[1].tensor.data;
    rp_buffer y;
    (void)data;
    rp_status st = give(call, &y, result, err);
    return st == RP_OK
               ? rp_stream_fill(rp_call_stream(call), y.data, (uint8_t)(at * 16), BYTES, err)
               : st;
}

typedef struct deciding {
    rp_function_fn fn;
    const char *reason; /* what differs */
    bool host;          /* it looks at values, or calls a compiled graph */
    float want[2];      /* of the first element, by turns */
} deciding;

static const deciding all[] = {
    {from_turns, "(copy: where from differs)", false, {100, 200}},
    {to_turns, "(copy: where to differs)", false, {1, 1}},
    {part_in_turns, "(copy: where to differs)", false, {1, 0}},
    {bytes_in_turns, "(fill: its byte differs)", false, {0, 0}},
    {computed_in_turns, "(affine: x differs)", true, {301, 601}},
    {computed_to_turns, "(affine: out0 differs)", true, {4, 4}},
    {bound_in_turns, "(affine: scale differs)", true, {3, 4}},
    {row, "(copy: where from differs)", true, {4, 4}},
    {which_argument, "(affine: x differs)", true, {4, 4}},
    {position_in_state, "(copy: where to differs)", true, {5, 5}},
    {byte_of_an_argument, "(fill: its byte differs)", true, {0, 0}},
};

static void check_one(user *u, rp_function *f, const deciding *d) {
    float x[N] = {1, 2, 3, 4}, other[N] = {5, 6, 7, 8};
    int32_t three = 3;
    rp_value in[3] = {floats(x, N), rp_value_tensor((rp_buffer){RP_DTYPE_I32, 1, {1}, &three}),
                      floats(other, N)};
    if (d->fn == position_in_state) in[2] = rp_value_state(in[2].tensor);
    for (int i = 0; i < CALLS; i++) {
        int turn = u->turn;
        rp_output *o = run_items(f, in, d->host ? 3 : 1);
        const char *why = rp_output_reason(o);
        const float *y = values_of(o);
        if (rp_output_ran(o) != RP_RAN_EAGER || !strstr(why, d->reason))
            fail_msg("%s: ran %d, '%s'", d->reason, (int)rp_output_ran(o), why);
        if (computes() && d->fn != bytes_in_turns && d->fn != byte_of_an_argument)
            assert_true(y[0] == d->want[turn % 2]);
        if (computes() && d->fn == bytes_in_turns)
            assert_int_equal(*(const unsigned char *)y, turn % 2 ? 0 : 64);
        if (computes() && d->fn == byte_of_an_argument)
            assert_int_equal(*(const unsigned char *)y, 48);
        rp_output_free(o);
    }
}

static void other_memory_is_told(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        user u;
        if (all[k].host && !is_host()) continue;
        user_open(&u);
        check_one(&u, function_of(&u.b, "f", all[k].fn, &u), &all[k]);
        assert_int_equal(bench_info(&u.b).graph_count, 0);
        user_close(&u);
    }
}

/* Parts of every kind of memory, at places that each run has anew. */
static rp_status always_the_same(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                 rp_error *err) {
    const user *u = data;
    rp_stream *s = rp_call_stream(call);
    rp_buffer y, t = {RP_DTYPE_F32, 1, {N}, NULL};
    float *state = args->item[1].tensor.data;
    const float *x = args->item[0].tensor.data, *same = args->item[2].tensor.data;
    RP_TRY(give(call, &y, result, err));
    RP_TRY(rp_call_temp(call, &t, err));
    RP_TRY(rp_stream_copy(s, (float *)t.data + 1, x + 2, 2 * sizeof(float), err));
    RP_TRY(rp_stream_copy(s, t.data, same, sizeof(float), err));
    RP_TRY(rp_stream_copy(s, state + 3, (float *)t.data + 1, sizeof(float), err));
    RP_TRY(rp_stream_fill(s, (float *)t.data + 3, 0, sizeof(float), err));
    RP_TRY(rp_stream_copy(s, u->w[1], t.data, BYTES, err));
    RP_TRY(rp_stream_copy(s, y.data, u->w[1], BYTES, err));
    return rp_stream_copy(s, (float *)y.data + 3, state + 3, sizeof(float), err);
}

static void the_same_memory_is_found_again(void **state) {
    user u;
    void *kept = NULL;
    rp_error err = {0};
    (void)state;
    user_open(&u);
    rp_function *f = function_of(&u.b, "f", always_the_same, &u);
    CHECK_OK(rp_device_alloc(u.b.device, BYTES, &kept, &err), &err);
    for (int i = 0; i < CALLS; i++) {
        float x[N] = {(float)i, 1, (float)(10 + i), 3};
        rp_value in[3] = {floats(x, N), rp_value_state((rp_buffer){RP_DTYPE_F32, 1, {N}, kept}),
                          floats(x, N)};
        rp_output *o = run_items(f, in, 3);
        const float *y = values_of(o);
        if (rp_output_ran(o) != (i ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("%s", rp_output_reason(o));
        if (computes()) assert_true(y[0] == x[0] && y[1] == x[2] && y[2] == 3 && y[3] == x[2]);
        rp_output_free(o);
    }
    rp_device_free(u.b.device, kept);
    user_close(&u);
}

int deciding_functions_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_memory_is_told),
        cmocka_unit_test(the_same_memory_is_found_again),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
