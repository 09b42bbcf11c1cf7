/* What a function may give beside whole outputs: its arguments and states come back as the caller's own, parts of outputs as views of them,
 * and what lies elsewhere is right, without a graph. */
#include "support/result_functions.h"

#include "base/status.h"
#include "support/autographs.h"

static const char *device;

enum { ROWS = 2, COLUMNS = 4, N = ROWS * COLUMNS };

typedef enum gift {
    ARGUMENT,
    PART_OF_ARGUMENT,
    PART_OF_OUTPUT,
    VIEW_OF_OUTPUT, /* columns first */
    STATE,
    PART_OF_STATE,
    N_CAPTURED,
    TEMP = N_CAPTURED,
    MEMORY_OF_ITS_OWN
} gift;

typedef struct giver {
    bench b;
    affine m; /* y = 3 x + 1 */
    gift gift;
    int runs;
    void *own; /* of the device, with 5 in front */
} giver;

static void read_from(const giver *u, void *to, const void *at, size_t bytes) {
    rp_error err = {0};
    CHECK_OK(rp_stream_copy(u->b.stream, to, at, bytes, &err), &err);
    CHECK_OK(rp_stream_synchronize(u->b.stream, &err), &err);
}

static void write_to(const giver *u, void *at, const void *from, size_t bytes) {
    rp_error err = {0};
    CHECK_OK(rp_stream_copy(u->b.stream, at, from, bytes, &err), &err);
    CHECK_OK(rp_stream_synchronize(u->b.stream, &err), &err);
}

static void *new_floats(const giver *u, size_t n) {
    void *p = NULL;
    rp_error err = {0};
    CHECK_OK(rp_device_alloc(u->b.device, n * sizeof(float), &p, &err), &err);
    return p;
}

static void giver_open(giver *u, gift g) {
    const float five = 5;
    memset(u, 0, sizeof *u);
    bench_open(&u->b, device, RP_GROWTH_RESERVE);
    affine_open(&u->m, u->b.device, COLUMNS, 3, 1);
    u->gift = g;
    u->own = new_floats(u, COLUMNS);
    write_to(u, u->own, &five, sizeof five);
}

static void giver_close(giver *u) {
    rp_device_free(u->b.device, u->own);
    affine_close(&u->m);
    bench_close(&u->b);
}

static rp_value second_row(rp_value v) {
    v.tensor.dim[0] = 1;
    v.rows = false;
    v.tensor.data = (float *)v.tensor.data + COLUMNS;
    return v;
}

static rp_status choose(const giver *u, rp_call *call, const rp_value *args, rp_value y,
                        rp_value *out, rp_error *err) {
    static const int64_t columns_first[] = {1, COLUMNS};
    rp_buffer row = {RP_DTYPE_F32, 2, {1, COLUMNS}, u->own};
    switch (u->gift) {
    case ARGUMENT: *out = args->item[0]; break;
    case PART_OF_ARGUMENT: *out = second_row(args->item[0]); break;
    case PART_OF_OUTPUT: *out = second_row(y); break;
    case VIEW_OF_OUTPUT:
        y.tensor.dim[0] = COLUMNS;
        y.tensor.dim[1] = ROWS;
        *out = rp_value_strided(y.tensor, columns_first);
        break;
    case STATE: *out = args->item[1]; break;
    case PART_OF_STATE: *out = second_row(args->item[1]); break;
    case TEMP:
        RP_TRY(rp_call_temp(call, &row, err));
        RP_TRY(rp_stream_copy(rp_call_stream(call), row.data, u->own, sizeof(float), err));
        *out = rp_value_tensor(row);
        break;
    case MEMORY_OF_ITS_OWN: *out = rp_value_tensor(row); break;
    }
    return RP_OK;
}

/* (3 x + 1, what is chosen); args: x, a state. */
static rp_status gives(void *user, rp_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    static rp_value item[2];
    giver *u = user;
    rp_value tuple = rp_value_tuple(args->item, 1);
    u->runs++;
    RP_TRY(affine_call(&u->m, call, &tuple, &item[0], err));
    item[0].rows = args->item[0].rows;
    RP_TRY(choose(u, call, args, item[0], &item[1], err));
    *result = rp_value_tuple(item, 2);
    return RP_OK;
}

static rp_function *giving(giver *u, rp_output_policy p) {
    return function_giving(&u->b, "gives", gives, u, p, 2);
}

static void expect_ran(const rp_output *o, rp_ran ran) {
    if (rp_output_ran(o) != ran) fail_msg("ran %d: %s", rp_output_ran(o), rp_output_reason(o));
}

/* What came back for x, whose k-th element is first + k, in memory at `at`. */
static void check_gift(const giver *u, const rp_output *o, const float *at, const float *state,
                       float first) {
    const rp_value *r = result_of(o), *v = &r->item[1];
    const float *y = r->item[0].tensor.data, *data = v->tensor.data;
    float got[N] = {0};
    const float *whose[] = {at, at + COLUMNS, y + COLUMNS, y, state, state + COLUMNS};
    bool part = u->gift % 2 && u->gift != VIEW_OF_OUTPUT, output = data >= y && data < y + N;
    if (u->gift == PART_OF_OUTPUT) part = true;
    assert_ptr_equal(data, whose[u->gift]);
    assert_false(v->state);
    assert_int_equal(v->tensor.dim[0], part ? 1 : u->gift == VIEW_OF_OUTPUT ? COLUMNS : ROWS);
    if (u->gift == VIEW_OF_OUTPUT) assert_true(v->strided && v->stride[1] == COLUMNS);
    read_from(u, got, data, (part ? COLUMNS : N) * sizeof *got);
    float x = part ? first + COLUMNS : first;
    if (u->gift == STATE || u->gift == PART_OF_STATE) x = part ? 100 + COLUMNS : 100;
    for (int k = 0; k < (part ? COLUMNS : N); k++)
        assert_true(got[k] == (output ? 3 * (x + (float)k) + 1 : x + (float)k));
}

/* In memory of the host, of the device, and in another place each time. */
static void gifts_are_what_they_are(void **state) {
    (void)state;
    for (int k = 0; k < N_CAPTURED * 3; k++) {
        giver u;
        float host[N], x[N], cache[N];
        giver_open(&u, (gift)(k / 3));
        float *place[] = {new_floats(&u, N), new_floats(&u, N), host}, *kept = new_floats(&u, N);
        for (int i = 0; i < N; i++) cache[i] = (float)(100 + i);
        write_to(&u, kept, cache, sizeof cache);
        rp_function *f = giving(&u, (rp_output_policy)(k % 3));
        for (int call = 0; call < 6; call++) {
            float *at = place[call % 3];
            for (int i = 0; i < N; i++) x[i] = (float)(10 * call + i);
            write_to(&u, at, x, sizeof x);
            rp_value in[] = {rows_of(at, ROWS, COLUMNS), rows_of(kept, ROWS, COLUMNS)};
            in[1].state = true;
            rp_output *o = run_items(f, in, 2);
            expect_ran(o, call ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            check_gift(&u, o, at, kept, x[0]);
            rp_output_free(o);
        }
        assert_int_equal(u.runs, 2);
        for (int i = 0; i < 2; i++) rp_device_free(u.b.device, place[i]);
        rp_device_free(u.b.device, kept);
        giver_close(&u);
    }
}

/* A strided view comes back as one; a part of it has no address, and is right without a graph. */
static void views_come_back(void **state) {
    static const char why[] = "a tensor of the result is a part of a strided view this time";
    (void)state;
    for (int part = 0; part < 2; part++) {
        giver u;
        float x[2 * N];
        for (int i = 0; i < 2 * N; i++) x[i] = (float)i;
        giver_open(&u, part ? PART_OF_ARGUMENT : ARGUMENT);
        rp_function *f = giving(&u, RP_OUTPUT_COPY);
        for (int call = 0; call < 6; call++) {
            bool strided = call % 2 == 0;
            float got[COLUMNS] = {0};
            static const int64_t stride[] = {2 * COLUMNS, 1};
            rp_value in[] = {rows_of(x, ROWS, COLUMNS), rp_value_none()};
            if (strided) in[0] = rp_value_strided(in[0].tensor, stride);
            rp_output *o = run_items(f, in, 2);
            bool eager = part && strided && call;
            expect_ran(o, eager ? RP_RAN_EAGER : call ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            if (eager) assert_non_null(strstr(rp_output_reason(o), why));
            const rp_value *v = &result_of(o)->item[1];
            /* The first call gives what the function had, which is a copy. */
            if (!part && call) assert_true(v->tensor.data == x && v->strided == strided);
            if (!part && !call) read_from(&u, got, (float *)v->tensor.data + COLUMNS, sizeof got);
            if (!part && !call) assert_true(v->tensor.data != x && got[1] == x[2 * COLUMNS + 1]);
            if (part) read_from(&u, got, v->tensor.data, sizeof got);
            if (part) assert_true(got[1] == x[(strided ? 2 : 1) * COLUMNS + 1]);
            rp_output_free(o);
        }
        giver_close(&u);
    }
}

/* As many rows as the caller gave; a part of them is not a part of what a graph has. */
static void rows_come_back(void **state) {
    enum { MANY = 9 };
    (void)state;
    for (int part = 0; part < 2; part++) {
        giver u;
        float x[MANY * COLUMNS] = {0};
        giver_open(&u, part ? PART_OF_ARGUMENT : ARGUMENT);
        rp_function *f = giving(&u, RP_OUTPUT_COPY);
        for (int64_t n = MANY; n > ROWS; n--) {
            float got = 0;
            rp_value in[] = {rp_value_rows(rows_of(x, n, COLUMNS).tensor), rp_value_none()};
            x[COLUMNS] = (float)n;
            rp_output *o = run_items(f, in, 2);
            const rp_value *v = &result_of(o)->item[1];
            assert_int_equal(result_of(o)->item[0].tensor.dim[0], n);
            if (part) {
                expect_ran(o, RP_RAN_EAGER);
                assert_non_null(strstr(rp_output_reason(o), "whose rows are rounded up"));
                read_from(&u, &got, v->tensor.data, sizeof got);
                assert_true(got == x[COLUMNS]);
            } else {
                assert_true(rp_output_ran(o) != RP_RAN_REPLAY || v->tensor.data == x);
                read_from(&u, &got, (float *)v->tensor.data + COLUMNS, sizeof got);
                assert_true(v->tensor.dim[0] == n && got == x[COLUMNS]);
            }
            rp_output_free(o);
        }
        giver_close(&u);
    }
}

/* No graph could give it, so the function is not even tried, and the output keeps what it may. */
static void what_lies_elsewhere_is_right_without_a_graph(void **state) {
    (void)state;
    for (int k = TEMP; k <= MEMORY_OF_ITS_OWN; k++) {
        giver u;
        float x[N] = {1}, got = 0;
        giver_open(&u, (gift)k);
        rp_function *f = giving(&u, RP_OUTPUT_COPY);
        for (int call = 0; call < 3; call++) {
            rp_value in[] = {rows_of(x, ROWS, COLUMNS), rp_value_none()};
            rp_output *o = run_items(f, in, 2), *other = run_items(f, in, 2);
            expect_ran(o, RP_RAN_EAGER);
            assert_string_equal(rp_output_reason(o), "a tensor of the result lies neither in an "
                                                     "output of the call nor in an argument");
            rp_output_free(other);
            read_from(&u, &got, result_of(o)->item[1].tensor.data, sizeof got);
            assert_true(got == 5);
            assert_int_equal(u.runs, 2 * (call + 1));
            rp_output_free(o);
        }
        char *text = bench_text(&u.b);
        assert_non_null(strstr(text, "Inconsistent (a tensor of the result lies neither"));
        rp_free(text);
        giver_close(&u);
    }
}

/* --- arguments alone ---------------------------------------------------------------------------- */

static rp_status gives_the_last(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    (void)user, (void)call, (void)err;
    *result = args->item[args->n - 1];
    return RP_OK;
}

/* Also where two arguments were one in the call that was captured. */
static void arguments_are_told_apart(void **state) {
    giver u;
    float x[] = {1, 2}, y[] = {3, 4};
    (void)state;
    giver_open(&u, ARGUMENT);
    rp_function *f = function_of(&u.b, "last", gives_the_last, NULL);
    for (int call = 0; call < 4; call++) {
        float got[2] = {0};
        rp_value in[] = {floats(x, 2), floats(call % 2 ? y : x, 2)};
        rp_output *o = run_items(f, in, 2);
        expect_ran(o, call ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        read_from(&u, got, result_of(o)->tensor.data, sizeof got);
        assert_memory_equal(got, call % 2 ? y : x, sizeof got);
        if (call) assert_ptr_equal(result_of(o)->tensor.data, call % 2 ? y : x);
        rp_output_free(o);
    }
    giver_close(&u);
}

static void indirect_arguments_come_back(void **state) {
    giver u;
    (void)state;
    giver_open(&u, ARGUMENT);
    rp_function *f = function_of(&u.b, "last", gives_the_last, NULL);
    float *at[] = {u.own, (float *)u.own + 1};
    for (int call = 0; call < 4; call++) {
        rp_value in = rp_value_indirect(floats(at[call % 2], 2).tensor);
        rp_output *o = run_items(f, &in, 1);
        expect_ran(o, call ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_ptr_equal(result_of(o)->tensor.data, at[call % 2]);
        rp_output_free(o);
    }
    giver_close(&u);
}

/* Adds 1 to its first argument and gives it. */
static rp_status adds_in_place(void *user, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    giver *u = user;
    rp_value tuple = rp_value_tuple(args->item, 1), y;
    size_t bytes = (size_t)args->item[0].tensor.dim[0] * COLUMNS * sizeof(float);
    RP_TRY(affine_call(&u->m, call, &tuple, &y, err));
    *result = args->item[0];
    return rp_stream_copy(rp_call_stream(call), args->item[0].tensor.data, y.tensor.data, bytes,
                          err);
}

/* What the function wrote into its copy of a strided view, or of memory of the host, is what comes back. */
static void a_written_copy_comes_back(void **state) {
    static const int64_t stride[] = {2 * COLUMNS, 1};
    giver u;
    float x[2 * N];
    (void)state;
    giver_open(&u, ARGUMENT);
    rp_function *f = function_of(&u.b, "adds", adds_in_place, &u);
    for (int call = 0; call < 4; call++) {
        float got[N] = {0};
        for (int i = 0; i < 2 * N; i++) x[i] = (float)(call + i);
        rp_value in = rp_value_strided(rows_of(x, ROWS, COLUMNS).tensor, stride);
        rp_output *o = run_items(f, &in, 1);
        expect_ran(o, RP_RAN_EAGER);
        read_from(&u, got, result_of(o)->tensor.data, sizeof got);
        for (int k = 0; k < N; k++)
            assert_true(got[k] == 3 * (float)(call + k / COLUMNS * 2 * COLUMNS + k % COLUMNS) + 1);
        assert_true(x[0] == (float)call);
        rp_output_free(o);
    }
    giver_close(&u);
}

/* An argument that lies in a state is what it was before the call. */
static void what_lies_in_a_state_comes_back_as_it_was(void **state) {
    giver u;
    float seven[N] = {7, 7, 7, 7, 7, 7, 7, 7};
    (void)state;
    giver_open(&u, ARGUMENT);
    float *kept = new_floats(&u, N), *other = new_floats(&u, N);
    rp_function *f = giving(&u, RP_OUTPUT_COPY);
    for (int call = 0; call < 4; call++) {
        bool shared = call % 2 == 0;
        float got = 0;
        write_to(&u, shared ? kept : other, seven, sizeof seven);
        rp_value in[] = {rows_of(shared ? kept : other, ROWS, COLUMNS),
                         rows_of(kept, ROWS, COLUMNS)};
        in[1].state = true;
        rp_output *o = run_items(f, in, 2);
        expect_ran(o, !call ? RP_RAN_CAPTURE : shared ? RP_RAN_EAGER : RP_RAN_REPLAY);
        const float *at = result_of(o)->item[1].tensor.data;
        assert_true(shared ? at != kept : at == other);
        read_from(&u, &got, at, sizeof got);
        assert_true(got == 7);
        rp_output_free(o);
    }
    rp_device_free(u.b.device, kept);
    rp_device_free(u.b.device, other);
    giver_close(&u);
}

int result_functions_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gifts_are_what_they_are),
        cmocka_unit_test(views_come_back),
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(what_lies_elsewhere_is_right_without_a_graph),
        cmocka_unit_test(a_written_copy_comes_back),
        cmocka_unit_test(what_lies_in_a_state_comes_back_as_it_was),
        cmocka_unit_test(arguments_are_told_apart),
        cmocka_unit_test(indirect_arguments_come_back),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
