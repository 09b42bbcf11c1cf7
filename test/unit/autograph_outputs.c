/* Automatic graphs: whose memory outputs are in by each policy, how long, and the structure of results. */
#include "support/autographs.h"

#include "base/alloc.h"

static float first_of(rp_output *o) {
    float y = values_of(o)[0];
    rp_output_free(o);
    return y;
}

/* --- policies of outputs --------------------------------------------------------------------------- */

static rp_function *with_policy(const bench *b, affine *m, rp_output_policy p, uint32_t ring) {
    return function_giving(b, "f", affine_call, m, p, ring);
}

static rp_output *run_one(rp_function *f, float x) {
    static float in[1];
    rp_value v = floats(in, 1);
    in[0] = x;
    return run_items(f, &v, 1);
}

/* An output may be read until the graph writes there again, and says so afterwards: never another call's values. */
static void overwritten_outputs_are_told(void **state) {
    (void)state;
    for (uint32_t ring = 1; ring <= 3; ring++) {
        bench b;
        affine m;
        rp_error err = {0};
        rp_output *o[8];
        const rp_value *v = NULL;
        bench_open(&b, "cpu", RP_GROWTH_RESERVE);
        affine_open(&m, b.device, 0, 1, 0);
        rp_function *f = with_policy(&b, &m, ring > 1 ? RP_OUTPUT_RING : RP_OUTPUT_BORROWED,
                                     ring > 1 ? ring : 0);
        for (uint32_t i = 0; i < 8; i++) {
            o[i] = run_one(f, (float)i);
            for (uint32_t k = 0; k <= i; k++) {
                bool there = k == 0 || k + ring > i; /* the first one has its own */
                assert_int_equal(rp_output_value(o[k], &v, &err), there ? RP_OK : RP_INVALID);
                if (there) assert_true(values_of(o[k])[0] == (float)k);
            }
        }
        assert_int_equal(rp_output_value(o[1], &v, &err), RP_INVALID);
        assert_string_equal(err.text,
                            "the output was overwritten by a later call; use it before that, or "
                            "have it copied: RP_OUTPUT_COPY or a larger ring for an automatic "
                            "graph, rp_jit_run_into for a function that compiles itself");
        for (int i = 0; i < 8; i++) rp_output_free(o[i]);
        affine_close(&m);
        bench_close(&b);
    }
}

/* Outputs outlive everything but the memory that they lie in, which they keep. */
static void outputs_outlive_the_manager(void **state) {
    size_t live = base_live();
    (void)state;
    rp_output *o[3];
    for (int policy = 0; policy < 3; policy++) {
        bench b;
        affine m;
        bench_open(&b, "cpu", policy == 1 ? RP_GROWTH_EXACT : RP_GROWTH_RESERVE);
        affine_open(&m, b.device, 0, 1, 1);
        rp_function *f = with_policy(&b, &m, (rp_output_policy)policy, policy == 2 ? 2 : 0);
        rp_output_free(run_one(f, 1));
        o[policy] = run_one(f, 5);
        affine_close(&m);
        rp_autograph_destroy(b.graphs);
        rp_stream_close(b.stream);
        rp_device_close(b.device);
    }
    for (int policy = 0; policy < 3; policy++) assert_true(first_of(o[policy]) == 6);
    assert_int_equal(base_live(), live);
}

/* A list of two outputs, one of them twice, with literals and names. */
static rp_status structured(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    static rp_value item[4], inner[2];
    static const char *const name[] = {"y", "n", "both", "s"};
    affine *m = user;
    rp_buffer y[2];
    rp_status st = rp_call_compiled(call, m[0].c, &args->item[0].tensor, 1, &y[0], 1, err);
    if (st == RP_OK) st = rp_call_compiled(call, m[1].c, &y[0], 1, &y[1], 1, err);
    if (st != RP_OK) return st;
    inner[0] = rp_value_tensor(y[1]);
    inner[1] = rp_value_tensor(y[0]);
    item[0] = rp_value_tensor(y[0]);
    item[1] = rp_value_float(0.5);
    item[2] = rp_value_tuple(inner, 2);
    item[3] = rp_value_string("it's");
    *result = rp_value_map(name, item, 4);
    return RP_OK;
}

static void results_keep_their_structure(void **state) {
    bench b;
    affine m[2];
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m[0], b.device, 0, 1, 1);
    affine_open(&m[1], b.device, 0, 10, 0);
    rp_function *f = function_of(&b, "it's", structured, m);
    for (int i = 0; i < 3; i++) {
        rp_output *o = run_one(f, (float)i);
        const rp_value *v = result_of(o);
        assert_int_equal(v->kind, RP_VALUE_MAP);
        assert_string_equal(v->name[2], "both");
        assert_string_equal(v->item[3].as.string, "it's");
        assert_true(v->item[1].as.number == 0.5);
        assert_true(*(float *)v->item[0].tensor.data == (float)i + 1);
        assert_true(*(float *)v->item[2].item[0].tensor.data == 10 * ((float)i + 1));
        assert_ptr_equal(v->item[2].item[1].tensor.data, v->item[0].tensor.data);
        assert_false(v->item[0].state);
        rp_output_free(o);
    }
    char *text = bench_text(&b);
    assert_non_null(strstr(text,
                           "\n    Output Template: {'y': FakeTensor(shape=[1], "
                           "dtype='torch.float32', device='cpu'), 'n': 0.5, 'both': (FakeTensor("));
    assert_non_null(strstr(text, "'s': \"it's\"}\n"));
    assert_non_null(strstr(text, "(_cached_hash=None, func_name=\"it's\", tensor_static_infos="));
    rp_free(text);
    affine_close(&m[0]);
    affine_close(&m[1]);
    bench_close(&b);
}

/* The same memory for both, in another order and with another literal. */
typedef struct ordered {
    affine *m;
    int64_t first;
} ordered;

static rp_status in_order(void *user, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    static rp_value item[2];
    const ordered *o = user;
    rp_buffer y[2];
    rp_status st = rp_call_compiled(call, o->m->c, &args->item[0].tensor, 1, &y[0], 1, err);
    if (st == RP_OK) st = rp_call_compiled(call, o->m->c, &y[0], 1, &y[1], 1, err);
    if (st != RP_OK) return st;
    item[0] = rp_value_tensor(y[o->first]);
    item[1] = rp_value_int(o->first);
    *result = rp_value_tuple(item, 2);
    return RP_OK;
}

static void functions_of_one_name_give_what_is_theirs(void **state) {
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 1, 1);
    ordered of[] = {{&m, 0}, {&m, 1}};
    rp_function *f[2];
    for (int k = 0; k < 2; k++) f[k] = function_of(&b, "layer", in_order, &of[k]);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            rp_output *o = run_one(f[k], (float)i);
            const rp_value *v = result_of(o);
            assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            assert_int_equal(v->item[1].as.integer, k);
            assert_true(*(float *)v->item[0].tensor.data == (float)(i + k + 1));
            rp_output_free(o);
        }
    affine_close(&m);
    bench_close(&b);
}

/* A number says which of two is computed: results of one function need not be of one type, nor of one rank. */
static rp_compiled *of_form(rp_device *d, rp_dtype t, uint32_t rank) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("form");
    rp_tensor y = rp_cast(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "B", 1, 4096))), t);
    for (uint32_t r = 1; r < rank; r++) y = rp_unsqueeze(y, 0);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(d, g, NULL, &c, &err), &err);
    rp_graph_free(g);
    return c;
}

static rp_status as_asked(void *user, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_compiled *const *c = user;
    rp_buffer y;
    rp_status st =
        rp_call_compiled(call, c[args->item[1].as.integer], &args->item[0].tensor, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static void results_of_each_form_have_their_memory(void **state) {
    static const int64_t sizes[] = {9, 4000, 3};
    enum { FORMS = 3 };
    bench b;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_EXACT);
    rp_compiled *c[FORMS] = {of_form(b.device, RP_DTYPE_F32, 1), of_form(b.device, RP_DTYPE_F64, 1),
                             of_form(b.device, RP_DTYPE_F32, 3)};
    rp_function *f = function_of(&b, "forms", as_asked, c);
    for (int turn = 0; turn < 3; turn++)
        for (int k = 0; k < 3 * FORMS; k++) {
            const int64_t n = sizes[k / FORMS];
            float x[4000];
            for (int i = 0; i < 4000; i++) x[i] = (float)(i + 100 * k + turn);
            rp_value item[] = {floats(x, n), rp_value_int(k % FORMS)};
            rp_output *o = run_items(f, item, 2);
            const rp_buffer *y = &result_of(o)->tensor;
            assert_int_equal(y->dtype, k % FORMS == 1 ? RP_DTYPE_F64 : RP_DTYPE_F32);
            assert_int_equal(y->rank, k % FORMS == 2 ? 3 : 1);
            assert_int_equal(y->dim[y->rank - 1], n);
            for (int i = 0; i < n; i++)
                assert_true((k % FORMS == 1 ? ((const double *)y->data)[i]
                                            : (double)((const float *)y->data)[i]) == (double)x[i]);
            rp_output_free(o);
        }
    for (int k = 0; k < FORMS; k++) rp_compiled_free(c[k]);
    bench_close(&b);
}

/* Reads memory that it has from elsewhere. */
typedef struct reader {
    affine *m;
    rp_buffer from;
} reader;

static rp_status read_held(void *user, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    const reader *r = user;
    rp_buffer y;
    (void)args;
    rp_status st = rp_call_compiled(call, r->m->c, &r->from, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

/* It goes with its output, which no graph would notice. */
static void memory_of_another_output_is_in_no_graph(void **state) {
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 1, 1);
    rp_output *held = run_one(function_of(&b, "f", affine_call, &m), 4);
    reader r = {&m, result_of(held)->tensor};
    rp_function *f = function_of(&b, "g", read_held, &r);
    for (int i = 0; i < 2; i++) {
        rp_value none = rp_value_none();
        rp_output *o = run_ok(f, &none);
        assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
        assert_non_null(strstr(rp_output_reason(o), "lies in no registered range"));
        assert_true(values_of(o)[0] == 6);
        rp_output_free(o);
    }
    rp_output_free(held);
    affine_close(&m);
    bench_close(&b);
}

/* rp_device_free leaves memory of outputs alone, in blocks and in reserved slots, and it is not counted as the caller's. */
static void memory_of_outputs_is_not_of_rp_device_alloc(void **state) {
    bench b;
    affine m;
    rp_error err = {0};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 1, 1);
    rp_function_options fo = RP_FUNCTION_OPTIONS_INIT;
    fo.name = "f";
    fo.fn = affine_call;
    fo.user = &m;
    fo.output = RP_OUTPUT_BORROWED;
    rp_function *f = function_with(&b, fo);
    for (int i = 0; i < 3; i++) {
        rp_device_info info = RP_DEVICE_INFO_INIT;
        rp_output *o = run_one(f, (float)i);
        CHECK_OK(rp_device_get_info(b.device, &info, &err), &err);
        assert_int_equal(info.allocated, 0);
        rp_device_free(b.device, result_of(o)->tensor.data);
        assert_true(values_of(o)[0] == (float)i + 1);
        rp_output_free(o);
    }
    affine_close(&m);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overwritten_outputs_are_told),
        cmocka_unit_test(outputs_outlive_the_manager),
        cmocka_unit_test(results_keep_their_structure),
        cmocka_unit_test(functions_of_one_name_give_what_is_theirs),
        cmocka_unit_test(results_of_each_form_have_their_memory),
        cmocka_unit_test(memory_of_another_output_is_in_no_graph),
        cmocka_unit_test(memory_of_outputs_is_not_of_rp_device_alloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
