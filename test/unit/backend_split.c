/* Backends at level 3: what is between splitting ops is theirs, the ops themselves are inductor's, for graphs and functions, with and without
 * graphs of pieces; what they do not take is told. */
#include "support/heard.h"
#include "support/jits.h"
#include "support/readers.h"

#include "api/trial.h"
#include "trace/trace.h"

static reader r;
static float x[16], y[16];

static int fresh(void **state) {
    (void)state;
    rp_log_set_callback(NULL, NULL);
    r = (reader){0};
    for (int i = 0; i < 16; i++) {
        x[i] = (float)(i * 7 % 17) / 8 - 1;
        y[i] = (float)(i % 5) - 2;
    }
    return 0;
}

static rp_status supports(void *user, const rp_graph *g, uint32_t i, rp_error *err) {
    rp_node n = reader_node(g, i);
    (void)user;
    return reader_knows(&n) ? RP_OK : rp_fail(err, RP_UNSUPPORTED, "no %s here", n.op);
}

/* The same twice: one says what it lacks, the other finds out. */
static int registered(void **state) {
    rp_error err = {0};
    rp_backend_desc d = {.size = sizeof d, .name = "whole", .compile = reader_compile, .user = &r};
    (void)state;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    d.name = "asked";
    d.supports = supports;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    return 0;
}

#define SPLIT "level=3 threads=1 splitting_ops=[\"reprise::cumsum\"]"

/* --- graphs ------------------------------------------------------------------------------------ */

static rp_compilation_config *config_of(const char *settings, const char *backend) {
    rp_error err = {0};
    char list[160], *at = list;
    rp_compilation_config *c = rp_config_new();
    (void)snprintf(list, sizeof list, "%s backend=%s", settings, backend);
    for (char *one; (one = strtok_r(at, " ", &at));) CHECK_OK(rp_config_set(c, one, &err), &err);
    return c;
}

/* What rp_compile says of it. */
static rp_compiled *compiled(const char *text, const char *settings, const char *backend,
                             rp_compiled_info *info) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = NULL;
    rp_compilation_config *cfg = config_of(settings, backend);
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    *info = (rp_compiled_info)RP_COMPILED_INFO_INIT;
    CHECK_OK(rp_compiled_get_info(c, info, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

/* Inductor's bits, which are the interpreter's up to rounding of sums. */
static void check_bits(const char *text, const char *told, const char *backend) {
    const char *const by[] = {"inductor", backend};
    rp_error err = {0};
    rp_graph *g = NULL;
    api_trial t = {0};
    api_values v[3] = {{0}};
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(api_trial_init(&t, trace_graph_ir(g), told, 3, &err), &err);
    CHECK_OK(api_trial_interpret(&t, NULL, &v[2], &err), &err);
    for (int k = 0; k < 2; k++) {
        rp_compilation_config *cfg = config_of(SPLIT, by[k]);
        CHECK_OK(api_trial_compiled(&t, NULL, cfg, &v[k], &err), &err);
        rp_config_free(cfg);
    }
    for (uint32_t i = 0; i < v[2].n; i++)
        for (int64_t e = 0; e < v[2].v[i].n; e++) {
            const double is = v[1].v[i].data[e], of = v[2].v[i].data[e];
            assert_true(is == v[0].v[i].data[e]);
            if (!(fabs(is - of) <= 1e-5))
                fail_msg("%s: %u, %d: %a, not %a", backend, i, (int)e, is, of);
        }
    for (int k = 0; k < 3; k++) api_values_done(&v[k]);
    api_trial_done(&t);
    rp_graph_free(g);
}

static const char split_once[] =
    "graph @forward(%x: f32[T], %y: f32[T]) where T in [2,64] {\n  %a = mul %x, %y\n"
    "  %b = neg %a\n  %c = cumsum %b {axis=0}\n  %d = neg %c\n  %e = add %d, %x\n  ret %e, %b\n}\n";

/* As is asked for, so nothing is to be told: counts alone say who compiled what. */
static void what_is_between_splitting_ops_is_theirs(void **state) {
    static const char *const by[] = {"whole", "asked"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        base_buf heard;
        rp_compiled_info info;
        r = (reader){0};
        heard_start(&heard, "");
        rp_compiled_free(compiled(split_once, SPLIT, by[k], &info));
        assert_null(strstr(heard.data ? heard.data : "", "backend="));
        assert_null(info.reason);
        heard_done(&heard);
        assert_int_equal(info.pieces, 3);
        assert_int_equal(info.compiled, 3);
        assert_int_equal(info.by_backend, 2);
        assert_string_equal(info.backend, by[k]);
        assert_int_equal(r.compiles, 2);
        check_bits(split_once, "T=7", by[k]);
        assert_int_equal(r.runs, 2);
        assert_int_equal(r.frees, r.compiles);
    }
}

/* Without such an op, or at level 2, it is one piece. */
static void what_has_no_splitting_op_is_one_piece(void **state) {
    static const char plain[] = "graph @plain(%x: f32[4], %y: f32[4]) {\n  %a = mul %x, %y\n"
                                "  %b = neg %a\n  ret %b\n}\n";
    static const char *const settings[] = {SPLIT, "level=3", "level=3 splitting_ops=[]", "level=2"};
    (void)state;
    for (int k = 0; k < 8; k++) {
        rp_compiled_info info;
        rp_compiled_free(compiled(plain, settings[k / 2], k % 2 ? "asked" : "whole", &info));
        assert_int_equal(info.pieces, 1);
        assert_int_equal(info.by_backend, 1);
        assert_null(info.reason);
    }
}

/* What a piece lacks is told; of one that says so beforehand that is the node. */
static void what_a_piece_lacks_is_told(void **state) {
    static const char text[] =
        "graph @forward(%x: f32[T], %y: f32[T]) where T in [2,64] {\n  %a = mul %x, %y\n"
        "  %b = neg %a\n  %c = cumsum %b {axis=0}\n  %d = exp %c\n  %e = add %d, %x\n"
        "  %f = neg %e\n  ret %f, %b\n}\n";
    rp_compiled_info info;
    (void)state;
    rp_compiled *c = compiled(text, SPLIT, "whole", &info);
    assert_int_equal(info.by_backend, 1);
    assert_int_equal(info.pieces, 3);
    assert_string_equal(info.reason, "backend=whole compiles 1 of 3 pieces of graph @forward, "
                                     "inductor piece 2 (no exp here)");
    rp_compiled_free(c);
    c = compiled(text, SPLIT, "asked", &info);
    assert_int_equal(info.by_backend, 2);
    assert_int_equal(info.pieces, 3);
    assert_string_equal(info.reason, "backend=asked compiles 2 of 3 pieces of graph @forward, "
                                     "inductor piece 1 (line 5: no exp here)");
    rp_compiled_free(c);
    c = compiled("graph @g(%x: f32[4]) {\n  %a = neg %x\n  %b = cumsum %a {axis=0}\n  ret %b\n}\n",
                 SPLIT, "asked", &info);
    assert_string_equal(info.reason,
                        "backend=asked does not take graph @g, which inductor compiles: nothing "
                        "beside its splitting ops is worth a call");
    assert_int_equal(info.by_backend, 0);
    rp_compiled_free(c);
}

/* Params are inputs of pieces, states stay inductor's. */
static void params_are_inputs_of_pieces(void **state) {
    static const char text[] =
        "graph @leaves(%x: f32[8]) {\n  %p = param @w : f32[8]\n  %s = state @s : f32[8]\n"
        "  %a = mul %x, %p\n  %b = neg %a\n  %c = cumsum %b {axis=0}\n  %u = update %s, %c\n"
        "  %d = mul %c, %p\n  %e = add %d, %x\n  ret %e, %u\n}\n";
    (void)state;
    for (int k = 0; k < 2; k++) {
        rp_compiled_info info;
        rp_compiled *c = compiled(text, SPLIT, k ? "asked" : "whole", &info);
        assert_int_equal(info.by_backend, 2);
        assert_non_null(strstr(
            info.reason, k ? "piece 1 (line 7: no update here)"
                           : "piece 1 (line 7: update of f32: it is in memory that calls write)"));
        rp_compiled_free(c);
        check_bits(text, NULL, k ? "asked" : "whole");
    }
    assert_int_equal(r.runs, 4);
}

/* --- functions ----------------------------------------------------------------------------------- */

static rp_status scanned(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    rp_tensor c = rp_cumsum(rp_neg(rp_mul(a, b)), 0);
    if (*(bool *)user) c = rp_exp(c);
    *result = rp_jit_value(call, rp_add(rp_neg(c), a));
    return RP_OK;
}

static const int64_t sizes[] = {8, 16, 5, 8, 3};

/* Five calls give what level 0 gives; their reason. */
static void check_function(const char *settings, bool more, const char *reason) {
    rp_jit_options o = jit_options(scanned);
    o.user = &more;
    rp_jit *f = jit_by(o, settings), *plain = jit_by(o, "level=0");
    for (int i = 0; i < 5; i++) {
        rp_value v[] = {f32_of(x, 1, sizes[i], 0), f32_of(y, 1, sizes[i], 0)},
                 args = rp_value_tuple(v, 2);
        rp_output *out = jit_ok(f, &args), *want = jit_ok(plain, &args);
        const size_t bytes = (size_t)sizes[i] * sizeof(float);
        assert_memory_equal(jit_result(out)->tensor.data, jit_result(want)->tensor.data, bytes);
        assert_int_equal(rp_output_ran(out), i < 2 ? RP_RAN_CAPTURE : RP_RAN_REPLAY);
        if (!strstr(rp_output_reason(out), reason) || (!*reason && *rp_output_reason(out)))
            fail_msg("%s: %s", settings, rp_output_reason(out));
        rp_output_free(out);
        rp_output_free(want);
    }
    assert_int_equal(jit_info(f).entries, 2);
    if (strstr(settings, "whole") || strstr(settings, "asked")) {
        char *text = NULL, told[48];
        rp_error err = {0};
        const rp_jit_info info = jit_info(f);
        assert_int_equal(info.by_backend, strstr(reason, "1 of 3") || more ? 2 : 4);
        assert_int_equal(info.pieces, 6);
        CHECK_OK(rp_jit_explain(f, &text, &err), &err);
        (void)snprintf(told, sizeof told, "pieces by %s\n",
                       strstr(settings, "whole") ? "whole" : "asked");
        if (!strstr(text, told)) fail_msg("%s", text);
        rp_free(text);
        rp_jit_reset(f);
        assert_int_equal(jit_info(f).pieces + jit_info(f).by_backend, 0);
    }
    rp_jit_free(f);
    rp_jit_free(plain);
}

static void functions_have_pieces_of_theirs(void **state) {
    (void)state;
    check_function(SPLIT " backend=whole", false, "");
    check_function(SPLIT " backend=asked", false, "");
    check_function(SPLIT " backend=whole", true, "inductor piece 2 (no exp here)");
}

/* Pieces that a graph cannot hold are called as they are, each with a warning; splitting ops are not theirs either. */
static void graphs_of_pieces_leave_theirs_out(void **state) {
    base_buf heard;
    (void)state;
    heard_start(&heard, "");
    check_function(SPLIT " cudagraph_mode=PIECEWISE backend=whole", false, "");
    CHECK_HEARD(&heard, "is computed by backend whole");
    check_function(SPLIT " cudagraph_mode=PIECEWISE backend=whole", true,
                   "backend=whole does not take graph @piece, which inductor compiles: no exp");
    heard_done(&heard);
    assert_true(r.runs > 0);
}

/* Those of the library, too. */
static void others_of_the_library_take_level_3(void **state) {
    (void)state;
    check_function(SPLIT " backend=aot_eager", false, "");
    check_function(SPLIT " backend=eager", true, "");
    check_function(SPLIT " backend=cudagraphs", true, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_between_splitting_ops_is_theirs, fresh),
        cmocka_unit_test_setup(what_has_no_splitting_op_is_one_piece, fresh),
        cmocka_unit_test_setup(what_a_piece_lacks_is_told, fresh),
        cmocka_unit_test_setup(params_are_inputs_of_pieces, fresh),
        cmocka_unit_test_setup(functions_have_pieces_of_theirs, fresh),
        cmocka_unit_test_setup(graphs_of_pieces_leave_theirs_out, fresh),
        cmocka_unit_test_setup(others_of_the_library_take_level_3, fresh),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
