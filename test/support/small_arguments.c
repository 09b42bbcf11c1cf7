/* One copy brings the small arguments of a replay, whatever they are: dense, strided, with rows that a graph has more; and every one of
 * them arrives, also where the same graph is given memory of the device, of the host, and pinned memory by turns. */
#include "support/small_arguments.h"

#include <dlfcn.h>

#include "support/autographs.h"
#include "support/kernels.h"

static const char *device;

enum { N = 6, ROWS = 4 };

typedef struct user {
    bench b;
    affine m; /* y = 3 x + 1, of rows */
} user;

enum { ENOUGH = 2 << 20 }; /* with which slots take as much as with less */

static void user_open(user *u, uint64_t max_bytes) {
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    o.max_bytes = max_bytes;
    memset(u, 0, sizeof *u);
    bench_open_with(&u->b, device, &o);
    affine_open(&u->m, u->b.device, ROWS, 3, 1);
}

static void user_close(user *u) {
    affine_close(&u->m);
    bench_close(&u->b);
}

/* Each of the arguments by itself, as a tuple of results. */
static rp_status each(void *data, rp_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    static rp_value y[N];
    user *u = data;
    for (uint32_t i = 0; i < args->n; i++) {
        rp_value x = args->item[i], tuple = rp_value_tuple(&x, 1);
        rp_status st = affine_call(&u->m, call, &tuple, &y[i], err);
        if (st != RP_OK) return st;
        y[i].rows = x.rows;
    }
    *result = rp_value_tuple(y, args->n);
    return RP_OK;
}

/* Copies that streams of the emulated GPU were given; 0 on a real one. */
static unsigned copies(void) {
    void *emu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    unsigned (*count)(void) = emu ? (unsigned (*)(void))(uintptr_t)dlsym(emu, "emu_copies") : NULL;
    unsigned n = count ? count() : 0;
    if (emu) (void)dlclose(emu);
    return n;
}

static bool is_emulated(void) {
    return copies() > 0;
}

/* Every element of each result is as it must be: argument i begins with first + i and goes on by one. */
static void check_results(const user *u, const rp_output *o, float first, int64_t rows) {
    rp_error err = {0};
    float y[ROWS * ROWS];
    const rp_value *r = result_of(o);
    assert_int_equal(r->n, N);
    for (uint32_t i = 0; i < N; i++) {
        const rp_buffer *b = &r->item[i].tensor;
        assert_int_equal(b->dim[0], rows);
        size_t n = (size_t)(rows * ROWS);
        CHECK_OK(rp_stream_copy(u->b.stream, y, b->data, n * sizeof *y, &err), &err);
        CHECK_OK(rp_stream_synchronize(u->b.stream, &err), &err);
        for (size_t k = 0; k < n; k++)
            if (y[k] != 3 * (first + (float)i + (float)k) + 1)
                fail_msg("argument %u, element %zu: %g", i, k, (double)y[k]);
    }
}

/* 0: dense; 1: each second is the upper half of rows of twice the size; 2: rows that a graph has more. */
static void give_arguments(float x[N][ROWS * ROWS * 2], rp_value *in, float first, int how) {
    int64_t rows = how == 2 ? 3 : 2;
    for (int i = 0; i < N; i++) {
        int64_t pitch = how == 1 && i % 2 ? 2 * ROWS : ROWS;
        for (int64_t k = 0; k < rows * ROWS; k++)
            x[i][k / ROWS * pitch + k % ROWS] = first + (float)i + (float)k;
        in[i] = rows_of(x[i], rows, ROWS);
        if (pitch != ROWS) {
            in[i].strided = true;
            in[i].stride[0] = pitch;
            in[i].stride[1] = 1;
        }
        if (how == 2) in[i] = rp_value_rows(in[i].tensor);
    }
}

static void one_copy_brings_them(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        float x[N][ROWS * ROWS * 2];
        user u;
        user_open(&u, 0);
        rp_function *f = function_of(&u.b, "f", each, &u);
        for (int turn = 0; turn < 5; turn++) {
            rp_value in[N];
            give_arguments(x, in, (float)turn, how);
            unsigned before = copies();
            rp_output *o = run_items(f, in, N);
            unsigned after = copies();
            if (rp_output_ran(o) != (turn ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
                fail_msg("call %d: %s", turn, rp_output_reason(o));
            if (turn && is_emulated()) assert_int_equal(after - before, 1);
            check_results(&u, o, (float)turn, how == 2 ? 3 : 2);
            rp_output_free(o);
        }
        user_close(&u);
    }
}

/* Bits of `turn` say which arguments lie on the device; pinned memory is read when the stream comes there. */
static void arguments_change_places(void **state) {
    enum { TURNS = 40 };
    user u;
    rp_error err = {0};
    float x[N][ROWS * ROWS * 2];
    void *on[N], *pinned = NULL;
    (void)state;
    user_open(&u, 0);
    for (int i = 0; i < N; i++)
        CHECK_OK(rp_device_alloc(u.b.device, sizeof x[i], &on[i], &err), &err);
    (void)rp_stream_handle(u.b.stream);
    assert_int_equal(kernels_driver()->host_alloc(&pinned, sizeof x[0], CUDA_HOST_PORTABLE), 0);
    rp_function *f = function_of(&u.b, "f", each, &u);
    for (int turn = 0; turn < TURNS; turn++) {
        rp_value in[N];
        int where = turn * 11 % (1 << N);
        give_arguments(x, in, (float)turn, 0);
        for (int i = 0; i < N; i++) {
            if (!(where >> i & 1)) continue;
            CHECK_OK(rp_stream_copy(u.b.stream, on[i], x[i], sizeof x[i], &err), &err);
            in[i].tensor.data = on[i];
        }
        if (turn % 3 == 0) in[turn % N].tensor.data = memcpy(pinned, x[turn % N], sizeof x[0]);
        rp_output *o = run_items(f, in, N);
        assert_int_equal(rp_output_ran(o), turn ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        check_results(&u, o, (float)turn, 2);
        rp_output_free(o);
    }
    (void)rp_stream_handle(u.b.stream);
    (void)kernels_driver()->host_free(pinned);
    for (int i = 0; i < N; i++) rp_device_free(u.b.device, on[i]);
    user_close(&u);
}

/* Together with a large one, which has a copy of its own; and where max_bytes has no room for what they are packed in. */
static void what_is_not_packed_arrives_too(void **state) {
    enum { LARGE = 5 << 10 }; /* rows of 16 bytes */
    static float large[LARGE * ROWS];
    uint64_t needed = 0;
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        float x[N][ROWS * ROWS * 2];
        user u;
        user_open(&u, limited ? needed + 1024 : ENOUGH);
        rp_function *f = function_of(&u.b, "f", each, &u);
        for (int turn = 0; turn < 3; turn++) {
            rp_value in[N];
            give_arguments(x, in, (float)turn, 0);
            large[LARGE * ROWS - 1] = (float)turn;
            in[N - 1] = rows_of(large, LARGE, ROWS);
            unsigned before = copies();
            rp_output *o = run_items(f, in, N);
            unsigned n = copies() - before;
            if (rp_output_ran(o) != (turn ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
                fail_msg("call %d: %s", turn, rp_output_reason(o));
            if (turn && is_emulated()) assert_int_equal(n, limited ? N : 2);
            float y = 0;
            rp_error err = {0};
            const float *last = result_of(o)->item[N - 1].tensor.data;
            CHECK_OK(rp_stream_copy(u.b.stream, &y, last + LARGE * ROWS - 1, sizeof y, &err), &err);
            CHECK_OK(rp_stream_synchronize(u.b.stream, &err), &err);
            assert_true(y == 3 * (float)turn + 1);
            rp_autograph_info info = bench_info(&u.b);
            if (!turn) needed = info.bytes;
            rp_output_free(o);
        }
        user_close(&u);
    }
}

/* Room that a large graph took is there again when it has gone. */
static void room_that_comes_back_is_used(void **state) {
    enum { LARGE = 5 << 10 };
    static float large[LARGE * ROWS];
    uint64_t needed = 0;
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        float x[N][ROWS * ROWS * 2];
        rp_value in[N];
        user u;
        user_open(&u, limited ? needed + 1024 : ENOUGH);
        rp_function *f = function_of(&u.b, "f", each, &u);
        for (int turn = 0; turn < 2; turn++) {
            give_arguments(x, in, (float)turn, 0);
            in[N - 1] = rows_of(large, LARGE, ROWS);
            rp_output_free(run_items(f, in, N));
            rp_autograph_info info = bench_info(&u.b);
            if (!turn) needed = info.bytes;
        }
        rp_function_free(f);
        f = function_of(&u.b, "g", each, &u);
        for (int turn = 0; turn < 3; turn++) {
            give_arguments(x, in, (float)turn, 0);
            unsigned before = copies();
            rp_output *o = run_items(f, in, N);
            unsigned n = copies() - before;
            if (turn && is_emulated()) assert_int_equal(n, 1);
            check_results(&u, o, (float)turn, 2);
            rp_output_free(o);
        }
        user_close(&u);
    }
}

/* 1 + what the address in the table leads to. */
static rp_status reads_through(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    rp_buffer y = args->item[0].tensor;
    long long n = y.dim[0];
    void *at = args->item[0].tensor.data, *parameters[] = {&at, &y.data, &n};
    (void)data;
    rp_status st = rp_call_output(call, &y, err);
    parameters[1] = &y.data;
    if (st == RP_OK)
        st = rp_call_check(call, "cuLaunchKernel",
                           kernels_launch(rp_call_stream(call), KERNEL_THROUGH, n, parameters),
                           err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

/* Neither what is read nor, while it stays where it is, its address; another address is one copy. */
static void a_table_needs_no_copy(void **state) {
    enum { TURNS = 8, MANY = 4096 };
    static float x[MANY];
    user u;
    rp_error err = {0};
    void *at[2];
    (void)state;
    user_open(&u, 0);
    for (int i = 0; i < 2; i++) CHECK_OK(rp_device_alloc(u.b.device, sizeof x, &at[i], &err), &err);
    rp_function *f = function_of(&u.b, "f", reads_through, &u);
    for (int turn = 0; turn < TURNS; turn++) {
        bool other = turn && turn / 2 % 2 != (turn - 1) / 2 % 2;
        void *here = at[turn / 2 % 2];
        x[MANY - 1] = (float)turn;
        CHECK_OK(rp_stream_copy(u.b.stream, here, x, sizeof x, &err), &err);
        rp_value in = rp_value_indirect((rp_buffer){RP_DTYPE_F32, 1, {MANY}, here});
        unsigned before = copies();
        rp_output *o = run_items(f, &in, 1);
        unsigned n = copies() - before;
        if (rp_output_ran(o) != (turn ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("call %d: %s", turn, rp_output_reason(o));
        /* The first replay writes the table of the graph. */
        if (turn && is_emulated()) assert_int_equal(n, turn == 1 || other);
        assert_true(values_of(o)[MANY - 1] == (float)turn + 1);
        rp_output_free(o);
    }
    for (int i = 0; i < 2; i++) rp_device_free(u.b.device, at[i]);
    user_close(&u);
}

int small_arguments_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_copy_brings_them), cmocka_unit_test(arguments_change_places),
        cmocka_unit_test(what_is_not_packed_arrives_too),
        cmocka_unit_test(room_that_comes_back_is_used), cmocka_unit_test(a_table_needs_no_copy)};
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
