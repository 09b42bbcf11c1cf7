/* rp_call_if and rp_call_while: the first call, in which the host decides, and replays, in which the device does, give the same. */
#include "support/branches.h"

#include <dlfcn.h>

#include "base/alloc.h"
#include "hal/hal.h"
#include "support/autographs.h"
#include "support/kernels.h"

enum { LIMIT = 5 };

static const char *device;

/* x += 1, and whether it is less than LIMIT: a compiled graph, or on a GPU a kernel. */
typedef struct stepper {
    rp_compiled *c;
    void *limit; /* on a GPU */
} stepper;

typedef struct world {
    bench b;
    affine m;
    stepper s;
    void *flag, *other; /* one bool and one float of the device */
    rp_buffer y, t, more, ignored;
    int runs, bodies;
} world;

static void to_device(const world *w, void *at, const void *from, size_t bytes) {
    rp_error err = {0};
    CHECK_OK(rp_stream_copy(w->b.stream, at, from, bytes, &err), &err);
    CHECK_OK(rp_stream_synchronize(w->b.stream, &err), &err);
}

static float read_float(const world *w, const void *at) {
    rp_error err = {0};
    float x = 0;
    CHECK_OK(rp_stream_copy(w->b.stream, &x, at, sizeof x, &err), &err);
    CHECK_OK(rp_stream_synchronize(w->b.stream, &err), &err);
    return x;
}

static void stepper_open(stepper *s, world *w) {
    rp_error err = {0};
    const float limit = LIMIT;
    if (w->m.weights) {
        CHECK_OK(rp_device_alloc(w->b.device, sizeof limit, &s->limit, &err), &err);
        to_device(w, s->limit, &limit, sizeof limit);
        return;
    }
    rp_graph *g = rp_graph_new("step");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(1)), one = rp_const(g, RP_DTYPE_F32, 1);
    rp_tensor y = rp_add(x, one), out[] = {y, rp_lt(y, rp_const(g, RP_DTYPE_F32, LIMIT))};
    CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
    CHECK_OK(rp_compile_on(w->b.device, g, NULL, &s->c, &err), &err);
    rp_graph_free(g);
}

static rp_status step(const world *w, rp_call *call, const rp_buffer *x, const rp_buffer *more,
                      rp_error *err) {
    rp_buffer out[] = {w->t, *more};
    if (w->s.limit) {
        void *parameters[] = {(void *)(uintptr_t)&x->data, (void *)(uintptr_t)&more->data,
                              (void *)(uintptr_t)&w->s.limit};
        return rp_call_check(call, "cuLaunchKernel",
                             kernels_launch(rp_call_stream(call), KERNEL_STEP, 1, parameters), err);
    }
    rp_status st = rp_compiled_run_on(w->s.c, rp_call_stream(call), x, 1, out, 2, err);
    if (st != RP_OK) return st;
    return rp_stream_copy(rp_call_stream(call), x->data, w->t.data, sizeof(float), err);
}

static void world_open(world *w) {
    rp_error err = {0};
    memset(w, 0, sizeof *w);
    bench_open(&w->b, device, RP_GROWTH_RESERVE);
    affine_open(&w->m, w->b.device, 0, 3, 1);
    stepper_open(&w->s, w);
    CHECK_OK(rp_device_alloc(w->b.device, 1, &w->flag, &err), &err);
    CHECK_OK(rp_device_alloc(w->b.device, sizeof(float), &w->other, &err), &err);
}

static void world_close(world *w) {
    rp_device_free(w->b.device, w->flag);
    rp_device_free(w->b.device, w->other);
    rp_device_free(w->b.device, w->s.limit);
    rp_compiled_free(w->s.c);
    affine_close(&w->m);
    bench_close(&w->b);
}

/* The output, as large as x and with its value, and what the loops want. */
static rp_status ask(world *w, rp_call *call, const rp_buffer *x, rp_error *err) {
    w->runs++;
    w->y = *x;
    w->t = (rp_buffer){RP_DTYPE_F32, 1, {1}, NULL};
    w->more = w->ignored = (rp_buffer){RP_DTYPE_BOOL, 1, {1}, NULL};
    rp_status st = rp_call_output(call, &w->y, err);
    if (st == RP_OK) st = rp_call_temp(call, &w->t, err);
    if (st == RP_OK) st = rp_call_temp(call, &w->more, err);
    if (st == RP_OK) st = rp_call_temp(call, &w->ignored, err);
    if (st != RP_OK) return st;
    return rp_stream_copy(rp_call_stream(call), w->y.data, x->data, sizeof(float), err);
}

/* --- if ---------------------------------------------------------------------------------------- */

static rp_status step_y(void *user, rp_call *call, rp_error *err) {
    world *w = user;
    w->bodies++;
    return step(w, call, &w->y, &w->more, err);
}

/* x + 1 where the flag is set, else x; args: x, the flag. */
static rp_status if_flag(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    world *w = user;
    rp_status st = ask(w, call, &args->item[0].tensor, err);
    if (st == RP_OK) st = rp_call_if(call, &args->item[1].tensor, step_y, w, err);
    if (st == RP_OK) *result = rp_value_tensor(w->y);
    return st;
}

static void check_flag(world *w, rp_function *f, float x, bool flag, rp_ran ran, float want) {
    rp_value in[] = {floats(&x, 1), rp_value_state((rp_buffer){RP_DTYPE_BOOL, 1, {1}, w->flag})};
    to_device(w, w->flag, &flag, 1);
    rp_output *o = run_items(f, in, 2);
    if (rp_output_ran(o) != ran) fail_msg("ran %d: %s", rp_output_ran(o), rp_output_reason(o));
    assert_true(values_of(o)[0] == want);
    rp_output_free(o);
}

static void a_branch_is_decided_by_the_device(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        world w;
        world_open(&w);
        rp_function *f = function_of(&w.b, "f", if_flag, &w);
        for (int i = 0; i < 7; i++) {
            bool flag = (i + first) % 2;
            check_flag(&w, f, (float)i, flag, i ? RP_RAN_REPLAY : RP_RAN_CAPTURE,
                       (float)(i + flag));
        }
        assert_int_equal(w.runs, 2);
        assert_int_equal(w.bodies, 1 + first); /* in the first call, and in its capture */
        assert_int_equal(bench_info(&w.b).graph_count, 1);
        world_close(&w);
    }
}

/* Behind the body, which is over then. */
static rp_status asks_behind(void *user, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    world *w = user;
    rp_status st = if_flag(user, call, args, result, err);
    rp_buffer t = w->y;
    if (st == RP_OK) st = rp_call_temp(call, &t, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), t.data, w->y.data, sizeof(float), err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), w->y.data, t.data, sizeof(float), err);
    return st;
}

static void memory_is_asked_for_behind_a_branch(void **state) {
    (void)state;
    for (int flag = 0; flag < 2; flag++) {
        world w;
        world_open(&w);
        rp_function *f = function_of(&w.b, "f", asks_behind, &w);
        for (int i = 0; i < 3; i++)
            check_flag(&w, f, (float)i, flag, i ? RP_RAN_REPLAY : RP_RAN_CAPTURE,
                       (float)(i + flag));
        world_close(&w);
    }
}

/* --- while ------------------------------------------------------------------------------------- */

static rp_status until_limit(void *user, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    world *w = user;
    rp_status st = ask(w, call, &args->item[0].tensor, err);
    if (st == RP_OK) st = rp_stream_fill(rp_call_stream(call), w->more.data, 1, 1, err);
    if (st == RP_OK) st = rp_call_while(call, &w->more, step_y, w, err);
    if (st == RP_OK) *result = rp_value_tensor(w->y);
    return st;
}

static void a_loop_ends_by_the_device(void **state) {
    world w;
    (void)state;
    world_open(&w);
    rp_function *f = function_of(&w.b, "f", until_limit, &w);
    for (int i = 0; i < 8; i++) {
        float x = (float)((i * 3) % 8);
        rp_value in = floats(&x, 1);
        rp_output *o = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_true(values_of(o)[0] == (x < LIMIT ? LIMIT : x + 1));
        rp_output_free(o);
    }
    assert_int_equal(w.runs, 2);
    world_close(&w);
}

static rp_status step_other(void *user, rp_call *call, rp_error *err) {
    world *w = user;
    rp_buffer other = {RP_DTYPE_F32, 1, {1}, w->other};
    return step(w, call, &other, &w->ignored, err);
}

static rp_status step_and_ask(void *user, rp_call *call, rp_error *err) {
    world *w = user;
    rp_buffer flag = {RP_DTYPE_BOOL, 1, {1}, w->flag};
    rp_status st = rp_call_if(call, &flag, step_other, w, err);
    return st == RP_OK ? step_y(w, call, err) : st;
}

/* Counts the iterations in `other` where the flag is set. */
static rp_status count_iterations(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                  rp_error *err) {
    world *w = user;
    rp_status st = ask(w, call, &args->item[0].tensor, err);
    if (st == RP_OK) st = rp_stream_fill(rp_call_stream(call), w->more.data, 1, 1, err);
    if (st == RP_OK) st = rp_call_while(call, &w->more, step_and_ask, w, err);
    if (st == RP_OK) *result = rp_value_tensor(w->y);
    return st;
}

static void branches_within_loops(void **state) {
    world w;
    float want = 0;
    (void)state;
    world_open(&w);
    rp_function *f = function_of(&w.b, "f", count_iterations, &w);
    for (int i = 0; i < 6; i++) {
        bool flag = i % 3 != 1;
        float x = (float)(i % 4);
        rp_value in[] = {floats(&x, 1), rp_value_state((rp_buffer){RP_DTYPE_BOOL, 1, {1}, w.flag}),
                         rp_value_state((rp_buffer){RP_DTYPE_F32, 1, {1}, w.other})};
        to_device(&w, w.flag, &flag, 1);
        rp_output *o = run_items(f, in, 3);
        if (rp_output_ran(o) != (i ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("%s", rp_output_reason(o));
        assert_true(values_of(o)[0] == LIMIT);
        want += flag ? LIMIT - x : 0;
        assert_true(read_float(&w, w.other) == want);
        rp_output_free(o);
    }
    world_close(&w);
}

/* --- of a compiled graph ------------------------------------------------------------------------ */

static void below_limit(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                        uint32_t n_out, void *user) {
    (void)n_in, (void)n_out, (void)user;
    out[0] = rp_lt(rp_reshape(in[0], (rp_shape){.rank = 0}), rp_const(g, RP_DTYPE_F32, LIMIT));
}

static void plus_one(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    (void)n_in, (void)n_out, (void)user;
    out[0] = rp_add(in[0], rp_const(g, RP_DTYPE_F32, 1));
}

static void negated(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                    void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_neg(in[0]);
}

/* x + 1 until LIMIT, negated where x was odd, then 3 times plus one. */
static rp_compiled *compile_control(rp_device *d, rp_compilation_config *cfg) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("control");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(1)), y;
    rp_tensor whole = rp_cast(rp_reshape(x, (rp_shape){.rank = 0}), RP_DTYPE_I32);
    rp_tensor odd =
        rp_eq(rp_remainder(whole, rp_const(g, RP_DTYPE_I32, 2)), rp_const(g, RP_DTYPE_I32, 1));
    (void)rp_while(below_limit, plus_one, NULL, &x, 1, &y, 1);
    (void)rp_cond(odd, negated, plus_one, NULL, &y, 1, &y, 1);
    (void)rp_scan(g, plus_one, NULL,
                  &(rp_scan_args){.carried = &y, .n_carried = 1, .length = rp_dim_const(3)}, &y, 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    rp_graph_free(g);
    return c;
}

static rp_status call_control(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_buffer y;
    rp_status st = rp_call_compiled(call, user, &args->item[0].tensor, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static void notes_what_the_host_decides(const rp_compilation_config *cfg, bool gpu) {
    const rp_config_note *notes = NULL;
    size_t n = rp_config_notes(cfg, &notes), found = 0;
    for (size_t i = 0; i < n; i++)
        found += strstr(notes[i].reason, "the host reads back from the GPU what decides") &&
                 (strcmp(notes[i].what, "while") == 0 || strcmp(notes[i].what, "cond") == 0);
    assert_int_equal(found, gpu ? 2 : 0);
}

/* As many iterations as a graph of a GPU takes, and one more, which runs as it is. */
static void a_scan_has_an_end_in_a_capture(void **state) {
    enum { MOST = (1 << 14) / 2 }; /* one launch each, and the scan's own */
    (void)state;
    for (int n = MOST; n <= MOST + 1; n++) {
        world w;
        float x = 1;
        rp_error err = {0};
        rp_compiled *c = NULL;
        rp_value in = floats(&x, 1);
        world_open(&w);
        const bool fits = n == MOST || !w.m.weights; /* on the host it stays a loop */
        rp_graph *g = rp_graph_new("steps");
        rp_tensor y = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(1));
        const rp_scan_args s = {.carried = &y, .n_carried = 1, .length = rp_dim_const(n)};
        (void)rp_scan(g, plus_one, NULL, &s, &y, 1);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        CHECK_OK(rp_compile_on(w.b.device, g, NULL, &c, &err), &err);
        rp_function *f = function_of(&w.b, "f", call_control, c);
        rp_output *o = run_items(f, &in, 1);
        if (rp_output_ran(o) != (fits ? RP_RAN_CAPTURE : RP_RAN_EAGER))
            fail_msg("%d: %s", n, rp_output_reason(o));
        if (!fits)
            assert_non_null(
                strstr(rp_output_reason(o), "are more than a graph of a GPU takes, 8192"));
        assert_true(values_of(o)[0] == (float)(n + 1));
        rp_output_free(o);
        rp_graph_free(g);
        rp_compiled_free(c);
        world_close(&w);
    }
}

static void compiled_loops_are_captured(void **state) {
    world w;
    rp_error err = {0};
    rp_compilation_config *cfg = rp_config_new();
    (void)state;
    world_open(&w);
    rp_compiled *c = compile_control(w.b.device, cfg);
    notes_what_the_host_decides(cfg, w.m.weights);
    rp_function *f = function_of(&w.b, "f", call_control, c);
    for (int i = 0; i < 8; i++) {
        float x = (float)((i * 3) % 8), y = 0, want = x < LIMIT ? LIMIT : x;
        rp_value in = floats(&x, 1);
        rp_buffer from = {RP_DTYPE_F32, 1, {1}, &x}, to = {RP_DTYPE_F32, 1, {1}, &y};
        rp_output *o = run_items(f, &in, 1);
        want = ((i * 3) % 2 ? -want : want + 1) + 3;
        if (rp_output_ran(o) != (i ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("%s", rp_output_reason(o));
        assert_true(values_of(o)[0] == want);
        rp_output_free(o);
        CHECK_OK(rp_compiled_run(c, &from, 1, &to, 1, &err), &err); /* by the host */
        assert_true(y == want);
    }
    assert_int_equal(bench_info(&w.b).graph_count, 1);
    rp_compiled_free(c);
    rp_config_free(cfg);
    world_close(&w);
}

/* --- tables of addresses ----------------------------------------------------------------------- */

/* The address itself; args: a list of two indirect tensors. */
static rp_status gives_addresses(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                 rp_error *err) {
    world *w = user;
    rp_buffer y = {RP_DTYPE_I64, 1, {2}, NULL};
    rp_status st = rp_call_output(call, &y, err);
    w->runs++;
    for (int i = 0; i < 2 && st == RP_OK; i++)
        st = rp_stream_copy(rp_call_stream(call), (int64_t *)y.data + i,
                            args->item[0].item[i].tensor.data, sizeof(int64_t), err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

/* A call that ends between its addresses leaves the next ones their places. */
static void refuse_second_address(world *w, rp_function *f) {
    float x = 0;
    rp_error err = {0};
    rp_output *o = NULL;
    void *want[] = {w->flag, w->other};
    rp_value pair[] = {rp_value_indirect((rp_buffer){RP_DTYPE_I8, 1, {1}, w->other}),
                       rp_value_indirect((rp_buffer){RP_DTYPE_I8, 1, {1}, &x})};
    rp_value list = rp_value_list(pair, 2), args = rp_value_tuple(&list, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(rp_autograph_run(f, &args, &o, &err), RP_INVALID);
    for (int i = 0; i < 2; i++) pair[i].tensor.data = want[i];
    o = run_items(f, &list, 1);
    assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
    assert_memory_equal(values_of(o), want, sizeof want);
    rp_output_free(o);
}

static void addresses_are_read_from_a_table(void **state) {
    world w;
    float x = 0;
    rp_error err = {0};
    rp_output *o = NULL;
    (void)state;
    world_open(&w);
    rp_function *f = function_of(&w.b, "f", gives_addresses, &w);
    void *at[] = {w.flag, w.other};
    for (int i = 0; i < 8; i++) {
        void *want[] = {at[i / 2 % 2], at[i / 4]};
        rp_value pair[] = {rp_value_indirect((rp_buffer){RP_DTYPE_I8, 1, {1}, want[0]}),
                           rp_value_indirect((rp_buffer){RP_DTYPE_I8, 1, {1}, want[1]})};
        rp_value list = rp_value_list(pair, 2);
        o = run_items(f, &list, 1);
        if (rp_output_ran(o) != (i ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("%s", rp_output_reason(o));
        assert_memory_equal(values_of(o), want, sizeof want);
        rp_output_free(o);
    }
    assert_int_equal(w.runs, 2);
    assert_int_equal(bench_info(&w.b).tensor_mem_bytes, 2 * sizeof(int64_t)); /* the output alone */
    char *text = bench_text(&w.b);
    assert_non_null(strstr(text, "Indirect"));
    assert_null(strstr(text, "TensorDynamicInfo(")); /* of those that are copied */
    rp_free(text);
    rp_value bad = rp_value_indirect((rp_buffer){RP_DTYPE_F32, 1, {1}, &x}), args;
    bad.state = true;
    args = rp_value_tuple(&bad, 1);
    assert_int_equal(rp_autograph_run(f, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "a state and indirect"));
    bad = rp_value_indirect((rp_buffer){RP_DTYPE_I8, 1, {1}, &x});
    rp_value pair[] = {bad, bad}, list = rp_value_list(pair, 2);
    args = rp_value_tuple(&list, 1);
    if (w.m.weights) {
        assert_int_equal(rp_autograph_run(f, &args, &o, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "an indirect tensor lies in memory of the host"));
        refuse_second_address(&w, f);
    }
    world_close(&w);
}

/* --- what is refused ------------------------------------------------------------------------------ */

static rp_status asks_for_memory(void *user, rp_call *call, rp_error *err) {
    rp_buffer t = {RP_DTYPE_F32, 1, {1}, NULL};
    rp_status st = rp_call_temp(call, &t, err);
    (void)user;
    return st;
}

static rp_status waits(void *user, rp_call *call, rp_error *err) {
    rp_status st = step_y(user, call, err);
    return st == RP_OK ? rp_stream_synchronize(rp_call_stream(call), err) : st;
}

static rp_body_fn body_of_case;
static rp_status with_body(void *user, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    world *w = user;
    rp_status st = ask(w, call, &args->item[0].tensor, err);
    if (st == RP_OK) st = rp_call_if(call, &args->item[1].tensor, body_of_case, w, err);
    if (st == RP_OK) *result = rp_value_tensor(w->y);
    return st;
}

static int steps_of_body;

static rp_status step_often(void *user, rp_call *call, rp_error *err) {
    rp_status st = RP_OK;
    for (int i = 0; i < steps_of_body && st == RP_OK; i++) st = step_y(user, call, err);
    return st;
}

static int n_branches;

static rp_status branches_in_a_row(void *user, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    world *w = user;
    rp_status st = ask(w, call, &args->item[0].tensor, err);
    for (int i = 0; i < n_branches && st == RP_OK; i++)
        st = rp_call_if(call, &args->item[1].tensor, step_y, w, err);
    if (st == RP_OK) *result = rp_value_tensor(w->y);
    return st;
}

static void any_number_of_branches(void **state) {
    static const int counts[] = {3, 4, 5, 20};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        world w;
        n_branches = counts[i];
        world_open(&w);
        rp_function *f = function_of(&w.b, "f", branches_in_a_row, &w);
        check_flag(&w, f, 1, true, RP_RAN_CAPTURE, (float)(1 + n_branches));
        check_flag(&w, f, 2, true, RP_RAN_REPLAY, (float)(2 + n_branches));
        check_flag(&w, f, 3, false, RP_RAN_REPLAY, 3);
        world_close(&w);
    }
}

/* What a graph takes is with its bodies, which on a GPU are the driver's. */
static void memory_of_bodies_counts(void **state) {
    uint64_t bytes[2];
    (void)state;
    body_of_case = step_often;
    for (int i = 0; i < 2; i++) {
        world w;
        float x = 1;
        bool flag = true;
        steps_of_body = 1 + 15 * i;
        world_open(&w);
        rp_function *f = function_of(&w.b, "f", with_body, &w);
        rp_value in[] = {floats(&x, 1), rp_value_state((rp_buffer){RP_DTYPE_BOOL, 1, {1}, w.flag})};
        to_device(&w, w.flag, &flag, 1);
        rp_output_free(run_items(f, in, 2));
        assert_int_equal(bench_info(&w.b).graph_count, 1);
        bytes[i] = bench_info(&w.b).graph_mem_pool_bytes;
        bool on_gpu = w.m.weights != NULL;
        world_close(&w);
        if (on_gpu) return;
    }
    assert_true(bytes[1] >= bytes[0] + 15 * sizeof(hal_launch));
}

static void bodies_do_what_a_graph_can(void **state) {
    world w;
    float x = 1;
    bool flag = true;
    rp_error err = {0};
    rp_output *o = NULL;
    (void)state;
    world_open(&w);
    rp_function *f = function_of(&w.b, "f", with_body, &w),
                *g = function_of(&w.b, "g", if_flag, &w);
    rp_value in[] = {floats(&x, 1), rp_value_state((rp_buffer){RP_DTYPE_BOOL, 1, {1}, w.flag})};
    rp_value args = rp_value_tuple(in, 2);
    to_device(&w, w.flag, &flag, 1);
    body_of_case = asks_for_memory;
    assert_int_equal(rp_autograph_run(f, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "memory is asked for inside of a branch or loop"));
    body_of_case = waits;
    for (int i = 0; i < 2; i++) {
        o = run_items(f, in, 2);
        assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
        assert_non_null(strstr(rp_output_reason(o), "waiting for the device while calls are"));
        assert_true(values_of(o)[0] == 2);
        rp_output_free(o);
    }
    in[1].tensor.dtype = RP_DTYPE_I8;
    assert_int_equal(rp_autograph_run(g, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "rp_call_if: pred is i8; it is one bool"));
    assert_int_equal(rp_call_while(NULL, NULL, NULL, NULL, &err), RP_INVALID);
    assert_string_equal(err.text, "rp_call_while: call, pred, its data or body is NULL");
    in[1].tensor = (rp_buffer){RP_DTYPE_BOOL, 2, {1, 2}, w.flag};
    assert_int_equal(rp_autograph_run(g, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "rp_call_if: pred is not one bool"));
    in[1].tensor = (rp_buffer){RP_DTYPE_BOOL, 1, {2}, w.flag};
    assert_int_equal(rp_autograph_run(g, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "rp_call_if: pred is not one bool"));
    check_flag(&w, g, 4, true, RP_RAN_CAPTURE, 5); /* the stream is well */
    check_flag(&w, g, 4, false, RP_RAN_REPLAY, 4);
    world_close(&w);
}

/* The emulated driver as one without conditional nodes; false where the driver is a real one. */
static bool refuse_conditions(bool on) {
    void *emu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*refuse)(bool) = emu ? (void (*)(bool))(uintptr_t)dlsym(emu, "emu_refuse_conditions")
                               : NULL;
    if (refuse) refuse(on);
    if (emu) (void)dlclose(emu);
    return refuse != NULL;
}

/* The host decides in every call, and the reason is there. */
static void a_driver_without_conditions_is_told(void **state) {
    world w;
    (void)state;
    world_open(&w);
    if (!w.m.weights || !refuse_conditions(true)) {
        world_close(&w);
        SKIP_TEST("every driver of a real GPU that is new enough has conditional nodes");
    }
    rp_function *f = function_of(&w.b, "f", if_flag, &w),
                *g = function_of(&w.b, "g", until_limit, &w);
    for (int i = 0; i < 3; i++) {
        float x = (float)i;
        rp_value in = floats(&x, 1);
        check_flag(&w, f, x, i % 2, RP_RAN_EAGER, (float)(i + i % 2));
        rp_output *o = run_items(g, &in, 1);
        assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
        assert_string_equal(rp_output_reason(o), "this driver has no conditional nodes, by which "
                                                 "a graph branches and loops");
        assert_true(values_of(o)[0] == LIMIT);
        rp_output_free(o);
    }
    (void)refuse_conditions(false);
    world_close(&w);
}

int branches_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_branch_is_decided_by_the_device),
        cmocka_unit_test(memory_is_asked_for_behind_a_branch),
        cmocka_unit_test(a_loop_ends_by_the_device),
        cmocka_unit_test(branches_within_loops),
        cmocka_unit_test(compiled_loops_are_captured),
        cmocka_unit_test(a_scan_has_an_end_in_a_capture),
        cmocka_unit_test(addresses_are_read_from_a_table),
        cmocka_unit_test(any_number_of_branches),
        cmocka_unit_test(memory_of_bodies_counts),
        cmocka_unit_test(bodies_do_what_a_graph_can),
        cmocka_unit_test(a_driver_without_conditions_is_told),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
