/* Backends of others: who compiles a function's graphs, what happens where they do not, what is told. */
#include "support/jits.h"
#include "support/readers.h"

#include "support/heard.h"

static reader r;
static float x[64], y[64];

static int fresh(void **state) {
    (void)state;
    rp_log_set_callback(NULL, NULL); /* where a test before failed, it still listened */
    r = (reader){0};
    for (int i = 0; i < 64; i++) {
        x[i] = (float)(i % 17) / 8 - 1;
        y[i] = (float)(i % 5) - 2;
    }
    return 0;
}

static int registered(void **state) {
    rp_error err = {0};
    rp_backend_desc d = {.size = sizeof d,
                         .name = "reader",
                         .ready = reader_ready,
                         .compile = reader_compile,
                         .user = &r};
    (void)state;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    return 0;
}

/* -(a + b * 3), all but the first element; what nobody reads is not there. */
static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    (void)rp_tanh(a);
    rp_tensor sum = rp_add(a, rp_mul_scalar(b, 3));
    *result = rp_jit_value(call, rp_neg(rp_slice(sum, 0, 1, rp_tensor_dim(a, 0))));
    return RP_OK;
}

static rp_output *run(rp_jit *f, int64_t n) {
    rp_value v[] = {f32_of(x, 1, n, 0), f32_of(y, 1, n, 0)}, args = rp_value_tuple(v, 2);
    return jit_ok(f, &args);
}

static void check(const rp_output *o, int64_t n) {
    const rp_buffer *b = &jit_result(o)->tensor;
    assert_int_equal(b->dim[0], n - 1);
    for (int64_t i = 1; i < n; i++)
        assert_true(((const float *)b->data)[i - 1] == -(x[i] + y[i] * 3));
}

/* Sizes are numbers, then symbols, as with inductor; its callables are freed. A backend that is named is asked without a level. */
static void a_backend_computes_the_graph(void **state) {
    static const char *const settings[] = {"backend=reader", "level=1 backend=reader",
                                           "level=2 backend=reader"};
    static const int64_t n[] = {8, 16, 5, 8, 30};
    (void)state;
    for (int k = 0; k < 3; k++) {
        r = (reader){0};
        rp_jit *f = jit_by(jit_options(forward), settings[k]);
        for (int i = 0; i < 5; i++) {
            rp_output *o = run(f, n[i]);
            check(o, n[i]);
            assert_int_equal(rp_output_ran(o), i < 2 ? RP_RAN_CAPTURE : RP_RAN_REPLAY);
            assert_string_equal(rp_output_reason(o), "");
            rp_output_free(o);
        }
        assert_int_equal(r.compiles, 2);
        assert_int_equal(r.runs, 5);
        assert_string_equal(r.last, "forward");
        assert_int_equal(r.nodes, 7); /* without the tanh */
        assert_int_equal(jit_info(f).entries, 2);
        rp_jit_free(f);
        assert_int_equal(r.frees, 2);
    }
}

/* --- what it does not take, and what fails ------------------------------------------------------ */

static rp_status products(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_sum(rp_mul(a, b), 0, false));
    return RP_OK;
}

static void what_it_does_not_take_is_inductors(void **state) {
    base_buf heard;
    rp_jit *f = jit_by(jit_options(products), "backend=reader");
    rp_jit *plain = jit_at(products, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    heard_start(&heard, "inductor");
    for (int i = 0; i < 3; i++) {
        rp_output *o = run(f, 8), *p = run(plain, 8);
        assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_string_equal(rp_output_reason(o),
                            "backend=reader does not take graph @forward, which inductor compiles: "
                            "no sum here");
        assert_true(*(float *)jit_result(o)->tensor.data == *(float *)jit_result(p)->tensor.data);
        rp_output_free(o);
        rp_output_free(p);
    }
    assert_int_equal(r.compiles, 1);
    assert_int_equal(r.runs, 0);
    CHECK_HEARD(&heard, "backend=reader does not take graph @forward");
    CHECK_HEARD(&heard, "Step 3: inductor done compiling");
    heard_done(&heard);
    rp_jit_free(f);
    rp_jit_free(plain);
}

static void a_failure_is_an_error(void **state) {
    rp_error err = {0};
    rp_output *o = NULL;
    rp_jit *f = jit_by(jit_options(forward), "backend=reader");
    rp_value v[] = {f32_of(x, 1, 8, 0), f32_of(y, 1, 8, 0)}, args = rp_value_tuple(v, 2);
    (void)state;
    r.broken = true;
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INTERNAL);
    assert_string_equal(err.text,
                        "forward: backend reader: compiling failed (internal) and gave no reason");
    r.reason = "out of ideas";
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INTERNAL);
    assert_non_null(strstr(err.text, "backend reader: out of ideas"));
    r.broken = false;
    r.absent = true;
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_UNSUPPORTED);
    r.absent = false;
    rp_output_free(jit_ok(f, &args));
    r.failing = true;
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_DEVICE);
    assert_non_null(strstr(err.text, "backend reader: out of ideas"));
    assert_null(o);
    rp_jit_free(f);
}

/* Once for each entry, not at each call. */
static void a_suppressed_failure_is_remembered(void **state) {
    base_buf heard;
    rp_jit_options o = jit_options(forward);
    o.suppress_errors = true;
    (void)state;
    heard_start(&heard, "inductor");
    for (int absent = 0; absent < 2; absent++) {
        r = (reader){.broken = !absent, .absent = absent, .reason = "out of ideas"};
        rp_jit *f = jit_by(o, "backend=reader");
        for (int i = 0; i < 6; i++) {
            int64_t n = i < 3 ? 8 : 8 + i;
            rp_output *out = run(f, n);
            check(out, n);
            assert_int_equal(rp_output_ran(out), RP_RAN_EAGER);
            assert_string_equal(rp_output_reason(out), "backend reader: out of ideas");
            rp_output_free(out);
        }
        assert_int_equal(jit_info(f).eager, 6);
        assert_int_equal(jit_info(f).entries, 2); /* the second one for all sizes */
        if (!absent) assert_int_equal(r.compiles, 2);
        rp_jit_free(f);
    }
    CHECK_HEARD(&heard, "WON'T CONVERT forward model.c line 8: backend reader: out of ideas");
    int told = 0; /* once a function */
    for (const char *at = heard.data; (at = strstr(at, "WON'T CONVERT")); at++) told++;
    assert_int_equal(told, 2);
    heard_done(&heard);
}

/* --- graph breaks ---------------------------------------------------------------------------------- */

static rp_status broken(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    rp_tensor c = rp_mul(a, b);
    rp_jit_break(call, "builtin: print");
    *result = rp_jit_value(call, rp_add(rp_neg(c), a));
    return RP_OK;
}

static void pieces_between_breaks_are_its(void **state) {
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        rp_jit_options o = jit_options(broken);
        o.suppress_errors = true;
        r = (reader){.broken = fails, .reason = "out of ideas"};
        rp_jit *f = jit_by(o, "backend=reader");
        for (int i = 0; i < 3; i++) {
            rp_output *out = run(f, 8);
            for (int k = 0; k < 8; k++)
                assert_true(((float *)jit_result(out)->tensor.data)[k] == -(x[k] * y[k]) + x[k]);
            assert_string_equal(rp_output_reason(out), fails ? "backend reader: out of ideas" : "");
            assert_int_equal(rp_output_ran(out), fails ? RP_RAN_EAGER
                                                 : i   ? RP_RAN_REPLAY
                                                       : RP_RAN_CAPTURE);
            rp_output_free(out);
        }
        assert_int_equal(r.runs, fails ? 0 : 2 * (int)jit_info(f).graphs);
        assert_true(r.compiles > 0 && r.compiles <= 2); /* in the first call alone */
        rp_jit_free(f);
    }
}

/* --- those of the library ---------------------------------------------------------------------------- */

static rp_status layer(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_softmax(rp_silu(rp_add(rp_mul_scalar(a, 1), b)), -1));
    return RP_OK;
}

static void all_of_the_library_agree(void **state) {
    static const char *const settings[] = {
        "level=0",          "backend=eager",      "backend=aot_eager",
        "backend=inductor", "backend=cudagraphs", "level=1"};
    float first[16];
    (void)state;
    for (int k = 0; k < 6; k++) {
        rp_jit *f = jit_by(jit_options(layer), settings[k]);
        for (int64_t n = 16; n > 10; n -= 2) rp_output_free(run(f, n));
        rp_output *o = run(f, 16);
        const float *is = jit_result(o)->tensor.data;
        if (k == 0) memcpy(first, is, sizeof first);
        assert_memory_equal(first, is, sizeof first);
        rp_output_free(o);
        rp_jit_free(f);
    }
}

/* --- names ---------------------------------------------------------------------------------------------- */

static void check_refused(const char *settings, rp_status st, const char *text) {
    rp_error err = {0};
    rp_jit *f = NULL;
    assert_int_equal(jit_of(jit_options(forward), settings, &f, &err), st);
    if (!strstr(err.text, text)) fail_msg("%s: %s", settings, err.text);
}

static void names_are_checked(void **state) {
    rp_error err = {0};
    rp_backend_desc d = {.size = sizeof d, .name = "reader", .compile = reader_compile};
    uint32_t n = 0;
    (void)state;
    while (rp_backend_name(n)) n++;
    assert_string_equal(rp_backend_name(0), "inductor");
    assert_string_equal(rp_backend_name(n - 1), "reader");
    assert_int_equal(rp_backend_register(&d, &err), RP_INVALID);
    assert_string_equal(err.text, "backend 'reader' is there already; choose another name");
    d.name = "eager";
    assert_int_equal(rp_backend_register(&d, &err), RP_INVALID);
    d.name = "tvm"; /* which no setting could ever choose */
    assert_int_equal(rp_backend_register(&d, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "backend name 'tvm' is taken: TVM compiles by its Python"));
    assert_null(rp_backend_name(n));
    d.name = "two words";
    assert_int_equal(rp_backend_register(&d, &err), RP_INVALID);
    d.name = "other";
    d.compile = NULL;
    assert_int_equal(rp_backend_register(&d, &err), RP_INVALID);
    char longest[65];
    (void)snprintf(longest, sizeof longest, "%064d", 0);
    d.name = longest;
    d.compile = reader_compile;
    assert_int_equal(rp_backend_register(&d, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "is not of letters, digits, _ and -, up to 63"));
    assert_null(rp_backend_name(n));
    longest[63] = 0;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    assert_string_equal(rp_backend_name(n), longest);
    check_refused(
        "backend=raeder", RP_CONFIG,
        "backend=raeder is not registered; there are inductor, eager, aot_eager, cudagraphs");
    check_refused("level=3 backend=raeder", RP_CONFIG, "backend=raeder is not registered");
    check_refused("backend=tvm", RP_UNSUPPORTED, "backend=tvm: TVM compiles by its Python");
    check_refused("backend=ipex", RP_UNSUPPORTED, "backend=ipex: ");
    check_refused("backend=torch_tensorrt", RP_UNSUPPORTED, "backend=torch_tensorrt: ");
}

/* --- rp_compile ----------------------------------------------------------------------------------------- */

/* Of an input alone (leaf 0), with a param (1), with a state (2). */
static rp_graph *doubled(int leaf) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("doubled");
    rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4));
    if (leaf == 1) a = rp_add(a, rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(4)));
    if (leaf == 2) a = rp_add(a, rp_state(g, "w", RP_DTYPE_F32, RP_SHAPE(4)));
    a = rp_mul_scalar(a, 2);
    CHECK_OK(rp_graph_finish(g, &a, 1, &err), &err);
    return g;
}

/* What a backend is not given is inductor's; the configuration keeps its wish, and notes why. */
static void rp_compile_takes_backends(void **state) {
    rp_error err = {0};
    float w[4] = {1, 2, 3, 4}, out[4];
    (void)state;
    for (int leaf = 0; leaf < 3; leaf++) {
        const rp_config_note *note;
        rp_compiled *c = NULL;
        rp_compiled_info info = RP_COMPILED_INFO_INIT;
        rp_graph *g = doubled(leaf);
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
        CHECK_OK(rp_config_set(cfg, "backend=reader", &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
        assert_string_equal(info.backend, leaf ? "inductor" : "reader");
        assert_int_equal(rp_config_notes(cfg, &note), leaf != 0);
        if (leaf) assert_string_equal(note[0].what, "backend=reader");
        if (leaf) assert_non_null(strstr(info.reason, "params or states"));
        if (!leaf) assert_null(info.reason);
        if (leaf) CHECK_OK(rp_compiled_bind(c, "w", w, &err), &err);
        rp_buffer in = {RP_DTYPE_F32, 1, {4}, x}, o = {RP_DTYPE_F32, 1, {4}, out};
        CHECK_OK(rp_compiled_run(c, &in, 1, &o, 1, &err), &err);
        for (int i = 0; i < 4; i++) assert_true(out[i] == (x[i] + (leaf ? w[i] : 0)) * 2);
        in.dim[0] = 5;
        assert_int_equal(rp_compiled_run(c, &in, 1, &o, 1, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "size mismatch"));
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
    assert_int_equal(r.compiles, 1);
    assert_int_equal(r.frees, 1);
}

/* As many sizes as a call has places for, and more: each is checked and told. */
static void any_number_of_sizes_is_taken(void **state) {
    enum { MOST = 24 };
    static const char *const settings[] = {"backend=reader", "backend=inductor"};
    static const uint32_t counts[] = {15, 16, 17, MOST};
    (void)state;
    for (int k = 0; k < 8; k++) {
        const uint32_t n = counts[k / 2];
        rp_error err = {0};
        float out[MOST][MOST];
        rp_buffer in[MOST], told[MOST];
        rp_tensor made[MOST];
        rp_compiled *c = NULL;
        rp_graph *g = rp_graph_new("sizes");
        rp_compilation_config *cfg = rp_config_new();
        for (uint32_t i = 0; i < n; i++) {
            char name[2][16];
            (void)snprintf(name[0], sizeof name[0], "x%u", i);
            (void)snprintf(name[1], sizeof name[1], "S%u", i);
            rp_dim size = rp_symbol(g, name[1], 0, MOST);
            made[n - 1 - i] = rp_neg(rp_input(g, name[0], RP_DTYPE_F32, RP_SHAPE(size)));
            in[i] = (rp_buffer){RP_DTYPE_F32, 1, {i + 1}, x + i};
            told[n - 1 - i] = (rp_buffer){.data = out[i]};
        }
        CHECK_OK(rp_graph_finish(g, made, n, &err), &err);
        CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
        CHECK_OK(rp_config_set(cfg, settings[k % 2], &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_outputs(c, in, n, told, n, &err), &err);
        for (uint32_t i = 0; i < n; i++) assert_true(told[n - 1 - i].dim[0] == i + 1);
        CHECK_OK(rp_compiled_run(c, in, n, told, n, &err), &err);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t e = 0; e <= i; e++) assert_true(out[i][e] == -x[i + e]);
        told[0].dim[0]++;
        assert_int_equal(rp_compiled_run(c, in, n, told, n, &err), RP_INVALID);
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
    assert_int_equal(r.runs, 4);
}

static rp_status called(void *user, rp_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_buffer b;
    rp_status st = rp_call_compiled(call, user, &args->item[0].tensor, 1, &b, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(b);
    return st;
}

/* A graph could not replay what somebody else computes: such a function runs as it is, and says so. */
static void its_calls_are_not_captured(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    rp_autograph *a = NULL;
    rp_function *f = NULL;
    rp_compiled *c = NULL;
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    rp_graph *g = doubled(0);
    rp_compilation_config *cfg = rp_config_new();
    rp_value v = f32_of(x, 1, 4, 0), args = rp_value_tuple(&v, 1);
    (void)state;
    CHECK_OK(rp_config_set(cfg, "level=1", &err), &err);
    CHECK_OK(rp_config_set(cfg, "backend=reader", &err), &err);
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    CHECK_OK(rp_autograph_default(d, &a, &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    o.name = "called";
    o.fn = called;
    o.user = c;
    CHECK_OK(rp_function_new(a, &o, &f, &err), &err);
    for (int turn = 0; turn < 2; turn++) {
        rp_output *out = NULL;
        x[0] = (float)turn;
        CHECK_OK(rp_autograph_run(f, &args, &out, &err), &err);
        assert_int_equal(rp_output_ran(out), RP_RAN_EAGER);
        assert_non_null(strstr(rp_output_reason(out), "is computed by backend reader"));
        assert_true(((float *)jit_result(out)->tensor.data)[0] == 2 * x[0]);
        rp_output_free(out);
    }
    rp_autograph_destroy(a);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    rp_device_close(d);
}

/* --- memory ------------------------------------------------------------------------------------------- */

static rp_status one_life(rp_error *err) {
    rp_jit *f = NULL;
    rp_output *o = NULL;
    rp_value v[] = {f32_of(x, 1, 8, 0), f32_of(y, 1, 8, 0)}, args = rp_value_tuple(v, 2);
    rp_compilation_config *c = rp_config_new();
    rp_jit_options options = jit_options(forward);
    rp_status st = c ? rp_config_set(c, "backend=reader", err) : RP_NOMEM;
    options.config = c;
    if (st == RP_OK) st = rp_jit_new(&options, &f, err);
    if (st == RP_OK) st = rp_jit_run(f, &args, &o, err);
    rp_output_free(o);
    rp_jit_free(f);
    rp_config_free(c);
    return st;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    jit_fail_each_allocation(one_life, 0);
    assert_int_equal(r.frees, r.compiles);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_backend_computes_the_graph, fresh),
        cmocka_unit_test_setup(what_it_does_not_take_is_inductors, fresh),
        cmocka_unit_test_setup(a_failure_is_an_error, fresh),
        cmocka_unit_test_setup(a_suppressed_failure_is_remembered, fresh),
        cmocka_unit_test_setup(pieces_between_breaks_are_its, fresh),
        cmocka_unit_test_setup(all_of_the_library_agree, fresh),
        cmocka_unit_test_setup(names_are_checked, fresh),
        cmocka_unit_test_setup(rp_compile_takes_backends, fresh),
        cmocka_unit_test_setup(any_number_of_sizes_is_taken, fresh),
        cmocka_unit_test_setup(its_calls_are_not_captured, fresh),
        cmocka_unit_test_setup(every_allocation_may_fail, fresh),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
