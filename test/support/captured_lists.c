/* Kernels of one compiled graph overlap within a captured function, those of the user and what stands beside them never. The emulated
 * GPU ends the program where a kernel behind a programmatic edge does not wait, or touches before it waits what is not its to touch. */
#include "support/captured_lists.h"

#include "support/autographs.h"
#include "support/heard.h"

static const char *device;

enum { N = 8 };

typedef struct lists {
    bench b;
    affine own;     /* a kernel of the user's */
    rp_compiled *c; /* y = (x @ w) @ w, which is two kernels */
    float w[N * N]; /* 2 on the diagonal */
    int calls;      /* of c */
    bool between;   /* own is called behind each of them */
} lists;

static void lists_open(lists *l) {
    rp_error err = {0};
    memset(l, 0, sizeof *l);
    bench_open(&l->b, device, RP_GROWTH_RESERVE);
    affine_open(&l->own, l->b.device, N, 1, 0);
    for (int i = 0; i < N; i++) l->w[i * N + i] = 2;
    rp_graph *g = rp_graph_new("twice");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "B", 1, 64), N));
    rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(N, N));
    rp_tensor y = rp_matmul(rp_matmul(x, w, false), w, false);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(l->b.device, g, NULL, &l->c, &err), &err);
    CHECK_OK(rp_compiled_bind(l->c, "w", l->w, &err), &err);
    rp_graph_free(g);
}

static void lists_close(lists *l) {
    rp_compiled_free(l->c);
    affine_close(&l->own);
    bench_close(&l->b);
}

static rp_status call_lists(void *data, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    lists *l = data;
    rp_value x = args->item[0];
    rp_status st = RP_OK;
    for (int i = 0; i < l->calls && st == RP_OK; i++) {
        rp_buffer y;
        st = rp_call_compiled(call, l->c, &x.tensor, 1, &y, 1, err);
        if (st == RP_OK) x = rp_value_tensor(y);
        rp_value tuple = rp_value_tuple(&x, 1);
        if (st == RP_OK && l->between) st = affine_call(&l->own, call, &tuple, &x, err);
    }
    *result = x;
    return st;
}

/* Programmatic edges of a graph with so many calls. */
static uint64_t edges_of(int calls, bool between) {
    lists l;
    float x[2 * N] = {0};
    lists_open(&l);
    l.calls = calls;
    l.between = between;
    rp_function *f = function_of(&l.b, "f", call_lists, &l);
    for (int turn = 0; turn < 4; turn++) {
        x[N] = (float)turn;
        rp_value in = rows_of(x, 2, N);
        rp_output *o = run_items(f, &in, 1);
        if (rp_output_ran(o) != (turn ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("call %d: %s", turn, rp_output_reason(o));
        assert_true(values_of(o)[N] == x[N] * (float)(1 << 2 * calls));
        rp_output_free(o);
    }
    uint64_t n = bench_info(&l.b).programmatic_edges;
    rp_function_free(f);
    assert_int_equal(bench_info(&l.b).programmatic_edges, 0);
    lists_close(&l);
    return n;
}

static void kernels_of_one_list_overlap(void **state) {
    (void)state;
    assert_int_equal(edges_of(1, false), 1);
    assert_int_equal(edges_of(3, false), 3); /* a list waits for the one in front of it */
}

/* Of all graphs that are there, and no longer of one that is gone. */
static void edges_add_up(void **state) {
    lists l;
    rp_function *f[3];
    float x[2 * N] = {0};
    (void)state;
    lists_open(&l);
    for (int i = 0; i < 3; i++) {
        rp_value in = rows_of(x, 2, N);
        l.calls = i + 1;
        f[i] = function_of(&l.b, "f", call_lists, &l);
        rp_output_free(run_items(f[i], &in, 1));
    }
    assert_int_equal(bench_info(&l.b).programmatic_edges, 1 + 2 + 3);
    rp_function_free(f[1]);
    assert_int_equal(bench_info(&l.b).programmatic_edges, 1 + 3);
    rp_function_free(f[0]);
    rp_function_free(f[2]);
    lists_close(&l);
}

static void kernels_of_the_user_do_not(void **state) {
    (void)state;
    assert_int_equal(edges_of(1, true), 1);
    assert_int_equal(edges_of(2, true), 2);
}

static void the_log_counts_them(void **state) {
    base_buf heard;
    (void)state;
    heard_start(&heard, "+cudagraphs");
    (void)edges_of(2, true);
    CHECK_HEARD(&heard, ", 2 programmatic edges, ");
    heard_done(&heard);
}

int captured_lists_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_one_list_overlap), cmocka_unit_test(edges_add_up),
        cmocka_unit_test(kernels_of_the_user_do_not), cmocka_unit_test(the_log_counts_them)};
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
