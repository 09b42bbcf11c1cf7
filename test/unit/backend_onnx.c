/* Graphs as ONNX models, and the libraries that run them: the same results as the library's own within rounding, one model for all sizes, and
 * reasons where there is no form. Libraries that are not here are skipped. */
#include "support/jits.h"
#include "support/random_graph.h"
#include "support/random_types.h"
#include "support/thorough.h"

#include <math.h>

#include "api/offer.h"
#include "api/trial.h"
#include "backend/onnx.h"
#include "backend/session.h"
#include "backend/wire.h"
#include "base/alloc.h"
#include "base/status.h"
#include "split/sides.h"
#include "trace/trace.h"

static float x[4096], w[4096], odd[4096]; /* odd: with NaNs, infinities, zeros of both signs */

static int fill(void **state) {
    (void)state;
    for (int i = 0; i < 4096; i++) {
        x[i] = (float)(i % 17) / 8 - 1;
        w[i] = (float)(i % 13) / 16 - 0.25f;
        odd[i] = i % 11 == 3 ? NAN : i % 29 == 5 ? INFINITY : i % 23 == 7 ? -0.0f : x[i];
    }
    return 0;
}

/* --- functions ---------------------------------------------------------------------------------- */

static rp_status attention(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    rp_tensor q = rp_matmul(a, b, false), k = rp_linear(a, b);
    rp_tensor s = rp_mul_scalar(rp_matmul(q, k, true), 0.125);
    rp_tensor mask = rp_tril_mask(rp_jit_graph(call), rp_tensor_dim(a, 0), rp_tensor_dim(a, 0), 0);
    s = rp_softmax(rp_masked_fill(s, rp_not(mask), -1e9), -1);
    *result = rp_jit_value(call, rp_matmul(s, q, false));
    return RP_OK;
}

/* Every operator of floats that has one operand, then sums of what they give. */
static rp_status elementwise(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    b = rp_slice(b, 0, 0, 1);
    rp_tensor p = rp_add_scalar(rp_abs(a), 0.5);
    rp_tensor y[] = {rp_neg(a),    rp_sqrt(p),   rp_rsqrt(p),  rp_recip(p),   rp_exp(a),
                     rp_log(p),    rp_sin(a),    rp_cos(a),    rp_tanh(a),    rp_erf(a),
                     rp_floor(a),  rp_ceil(a),   rp_round(a),  rp_sigmoid(a), rp_sub(a, b),
                     rp_div(a, p), rp_max(a, b), rp_min(a, b), rp_pow(p, b),  rp_fma(a, b, p)};
    rp_tensor sum = y[0];
    for (size_t i = 1; i < sizeof y / sizeof *y; i++) sum = rp_add(sum, y[i]);
    *result = rp_jit_value(call, sum);
    return RP_OK;
}

static rp_status choices(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    b = rp_slice(b, 0, 1, 2);
    rp_tensor c = rp_or(rp_and(rp_lt(a, b), rp_ge(a, rp_neg(b))), rp_xor(rp_le(a, b), rp_gt(a, b)));
    c = rp_and(c, rp_or(rp_ne(a, b), rp_not(rp_eq(a, b))));
    rp_tensor y = rp_add(rp_where(c, a, b), rp_cast(c, RP_DTYPE_F32));
    rp_tensor at = rp_argmax(y, -1, false);
    y = rp_add(rp_cumsum(y, 0), rp_cast(rp_unsqueeze(at, 1), RP_DTYPE_F32));
    y = rp_mul(y, rp_sum(rp_prod(rp_abs(y), 1, true), 0, true));
    y = rp_concat((rp_tensor[]){y, rp_broadcast(rp_amax(a, 0, true), rp_tensor_shape(y)),
                                rp_sub(a, rp_amin(a, 1, true))},
                  3, 1);
    *result = rp_jit_value(call, y);
    return RP_OK;
}

/* What ONNX leaves open of a NaN, or a library has otherwise. */
static rp_status strays(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    static rp_value out[12];
    b = rp_slice(b, 0, 0, 1);
    rp_tensor y[] = {rp_max(a, b),         rp_max(b, a),          rp_min(a, b),
                     rp_min(b, a),         rp_amax(a, 0, false),  rp_amax(a, 1, true),
                     rp_amin(a, 1, false), rp_argmax(a, 1, true), rp_exp(a),
                     rp_gt(a, b),          rp_ge(b, a),           rp_cast(a, RP_DTYPE_BOOL)};
    for (int i = 0; i < 12; i++) out[i] = rp_jit_value(call, y[i]);
    *result = rp_value_tuple(out, 12);
    return RP_OK;
}

/* Rows by computed indices, some of them outside; sizes as values, views of forms of sizes. */
static rp_status moves(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_tensor_dim(a, 0), k = rp_tensor_dim(a, 1);
    rp_graph *g = rp_jit_graph(call);
    static rp_value out[4];
    (void)user, (void)err;
    rp_tensor at =
        rp_sub(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(n), 0), rp_dim_value(g, 2, RP_DTYPE_I32));
    rp_tensor rows = rp_gather(a, rp_mul(at, rp_dim_value(g, 2, RP_DTYPE_I32)));
    rp_tensor flat = rp_reshape(rows, RP_SHAPE(rp_dim_mul(n, k)));
    out[0] = rp_jit_value(call, rp_slice(flat, 0, rp_dim_sub(n, 1), rp_dim_mul(n, 2)));
    out[1] = rp_jit_value(call, rp_mul(rp_transpose(rows, 0, 1), rp_dim_value(g, n, RP_DTYPE_F32)));
    out[2] = args->item[1];
    out[3] = rp_jit_value(call, rp_add(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(3, n), 1),
                                       rp_dim_value(g, rp_dim_add(n, k), RP_DTYPE_I32)));
    (void)b;
    *result = rp_value_tuple(out, 4);
    return RP_OK;
}

static void check_close(const rp_value *a, const rp_value *b) {
    for (uint32_t i = 0; i < a->n; i++) check_close(&a->item[i], &b->item[i]);
    if (a->kind != RP_VALUE_TENSOR) return;
    const rp_buffer *p = &a->tensor, *q = &b->tensor;
    assert_int_equal(p->dtype, q->dtype);
    assert_int_equal(p->rank, q->rank);
    for (uint32_t d = 0; d < p->rank; d++) assert_int_equal(p->dim[d], q->dim[d]);
    size_t n = backend_bytes(p);
    if (p->dtype != RP_DTYPE_F32) {
        assert_memory_equal(p->data, q->data, n);
        return;
    }
    for (size_t i = 0; i < n / sizeof(float); i++) {
        double is = ((const float *)p->data)[i], want = ((const float *)q->data)[i];
        if (is == want || (isnan(is) && isnan(want))) continue;
        if (isinf(want) || !(fabs(is - want) <= 1e-4 * (1 + fabs(want))))
            fail_msg("element %d is %g; it should be %g", (int)i, is, want);
    }
}

/* --- libraries -------------------------------------------------------------------------------------- */

static void check_library(const backend_library *by) {
    static const rp_jit_fn fn[] = {attention, elementwise, choices, moves, strays};
    static const int64_t rows[] = {4, 9, 16, 5};
    char named[48];
    rp_error err = {0};
    (void)snprintf(named, sizeof named, "threads=2 backend=%s", by->name);
    if (by->ready(&err) != RP_OK) SKIP_TEST("%s", err.text);
    for (size_t k = 0; k < sizeof fn / sizeof *fn; k++) {
        rp_jit *f = jit_by(jit_options(fn[k]), named),
               *plain = jit_by(jit_options(fn[k]), "backend=eager");
        for (int i = 0; i < 4; i++) {
            float *from = fn[k] == strays ? odd : x;
            rp_value v[] = {f32_of(from, 2, rows[i], 8), f32_of(w, 2, 8, 8)},
                     args = rp_value_tuple(v, 2);
            rp_output *o = jit_ok(f, &args), *p = jit_ok(plain, &args);
            if (*rp_output_reason(o)) fail_msg("function %d: %s", (int)k, rp_output_reason(o));
            check_close(jit_result(o), jit_result(p));
            rp_output_free(o);
            rp_output_free(p);
        }
        assert_int_equal(jit_info(f).compiles, 2); /* of numbers, and of any size */
        rp_jit_free(f);
        rp_jit_free(plain);
    }
}

/* Ops that it has no operator for, in the midst of others. */
static rp_status ranked(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_tensor values, indices, sorted, from;
    static rp_value out[3];
    (void)user, (void)err;
    rp_tensor y = rp_tanh(rp_matmul(a, b, false));
    rp_topk(rp_softmax(y, -1), 3, &values, &indices);
    rp_tensor z = rp_matmul(y, rp_linear(b, b), false);
    rp_sort(rp_exp(rp_neg(z)), -1, true, &sorted, &from);
    out[0] = rp_jit_value(call, rp_mul(z, rp_sum(values, 1, true)));
    out[1] = rp_jit_value(call, indices);
    out[2] = rp_jit_value(call, sorted);
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

/* Pieces of it, and inductor's the rest; of numbers, and of any size. */
static void check_partial(const backend_library *by) {
    static const int64_t rows[] = {4, 9, 16, 5};
    char named[48];
    rp_error err = {0};
    (void)snprintf(named, sizeof named, "threads=2 backend=%s", by->name);
    if (by->ready(&err) != RP_OK) SKIP_TEST("%s", err.text);
    rp_jit *f = jit_by(jit_options(ranked), named),
           *plain = jit_by(jit_options(ranked), "backend=eager");
    for (int i = 0; i < 4; i++) {
        rp_value v[] = {f32_of(x, 2, rows[i], 8), f32_of(w, 2, 8, 8)}, args = rp_value_tuple(v, 2);
        rp_output *o = jit_ok(f, &args), *p = jit_ok(plain, &args);
        if (!strstr(rp_output_reason(o), "compiles 2 of 3 pieces of graph @forward, inductor") ||
            !strstr(rp_output_reason(o), "topk of f32: it has no operator") ||
            !strstr(rp_output_reason(o), "sort of f32: it has no operator"))
            fail_msg("%s", rp_output_reason(o));
        check_close(jit_result(o), jit_result(p));
        rp_output_free(o);
        rp_output_free(p);
    }
    rp_jit_free(f);
    rp_jit_free(plain);
}

static rp_status run_random(const api_trial *t, const char *backend, api_values *out,
                            uint32_t *pieces, rp_error *err) {
    char named[48];
    const rp_config_note *note;
    rp_compilation_config *cfg = rp_config_new();
    (void)snprintf(named, sizeof named, "backend=%s", backend);
    CHECK_OK(rp_config_set(cfg, "level=2", err), err);
    CHECK_OK(rp_config_set(cfg, named, err), err);
    rp_status st = api_trial_compiled(t, NULL, cfg, out, err);
    const char *told = rp_config_notes(cfg, &note) ? strstr(note[0].reason, " of ") : NULL;
    *pieces += told ? (uint32_t)atoi(told + 4) : 0;
    rp_config_free(cfg);
    return st;
}

/* Graphs of every kind of op, which it takes in part; the values stay far from where a rounding decides. */
static void check_random(const backend_library *by) {
    const uint64_t n = THOROUGH() ? 200 : 24;
    uint32_t pieces = 0;
    for (uint64_t seed = 1; seed <= n; seed++) {
        random_graph_options opt = RANDOM_GRAPH_ALL;
        api_values is = {0}, want = {0};
        api_trial t = {0};
        ir_graph *g = NULL;
        rp_error err = {0};
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        CHECK_OK(api_trial_init(&t, g, NULL, seed, &err), &err);
        CHECK_OK(run_random(&t, "eager", &want, &(uint32_t){0}, &err), &err);
        rp_status st = run_random(&t, by->name, &is, &pieces, &err);
        if (st != RP_OK) fail_msg("seed %d: %s", (int)seed, err.text);
        for (uint32_t i = 0; i < want.n; i++)
            if (!(random_graph_error(&want.v[i], is.v[i].data) < 1e-3))
                fail_msg("seed %d: value %u is off by %g", (int)seed, i,
                         random_graph_error(&want.v[i], is.v[i].data));
        api_values_done(&is);
        api_values_done(&want);
        api_trial_done(&t);
        ir_graph_free(g);
    }
    if (pieces < n) fail_msg("%u pieces", pieces);
}

static void openvino_computes_pieces(void **state) {
    (void)state;
    check_partial(&backend_openvino);
    check_random(&backend_openvino);
}

static void onnx_runtime_computes_pieces(void **state) {
    (void)state;
    check_partial(&backend_onnxrt);
    check_random(&backend_onnxrt);
}

static void openvino_computes(void **state) {
    (void)state;
    check_library(&backend_openvino);
}

static void onnx_runtime_computes(void **state) {
    (void)state;
    check_library(&backend_onnxrt);
}

/* An error, not another backend: the user named one that is not there. */
static void a_library_that_is_not_here_is_told(void **state) {
    static const backend_library *const all[] = {&backend_openvino, &backend_onnxrt};
    int absent = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_output *o = NULL;
        if (all[i]->ready(&err) == RP_OK) continue;
        absent++;
        char named[48];
        (void)snprintf(named, sizeof named, "backend=%s", all[i]->name);
        rp_jit *f = jit_by(jit_options(elementwise), named);
        rp_value v[] = {f32_of(x, 2, 8, 8), f32_of(w, 2, 8, 8)}, args = rp_value_tuple(v, 2);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_UNSUPPORTED);
        assert_non_null(strstr(err.text, i ? "REPRISE_ONNXRUNTIME" : "REPRISE_OPENVINO"));
        rp_jit_free(f);
    }
    if (!absent) SKIP_TEST("both libraries are here");
}

/* --- the writer --------------------------------------------------------------------------------------- */

static void check_refused_by(bool narrow, rp_graph *g, rp_tensor y, const char *why) {
    rp_error err = {0};
    backend_model m;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    assert_int_equal(backend_onnx_write(g, narrow, &m, &err), RP_UNSUPPORTED);
    if (strcmp(err.text, why) != 0) fail_msg("'%s' is not '%s'", err.text, why);
    rp_graph_free(g);
}

static void check_refused(rp_graph *g, rp_tensor y, const char *why) {
    check_refused_by(false, g, y, why);
}

static void what_has_no_form_is_told(void **state) {
    (void)state;
    rp_graph *g = rp_graph_new("a");
    rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4)), values, indices;
    rp_topk(a, 2, &values, &indices);
    check_refused(g, values, "topk of f32: it has no operator");
    g = rp_graph_new("b");
    a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4));
    check_refused(g, rp_cast(a, RP_DTYPE_I32),
                  "cast of i32: what does not fit has a value here, and in ONNX is undefined");
    g = rp_graph_new("c");
    a = rp_input(g, "a", RP_DTYPE_I32, RP_SHAPE(4));
    check_refused(g, rp_and(a, a), "and of i32: bit by bit it has no operator");
    g = rp_graph_new("f");
    a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4));
    check_refused(g, rp_bitcast(a, RP_DTYPE_I32), "bitcast of i32: it has no operator");
    g = rp_graph_new("g");
    a = rp_input(g, "a", RP_DTYPE_I16, RP_SHAPE(4));
    check_refused(g, rp_bitcast(a, RP_DTYPE_F16), "bitcast of f16: it has no operator");
    g = rp_graph_new("d");
    a = rp_mutable_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4));
    check_refused(g, rp_update(a, rp_neg(a)), "input of f32: models write no input");
    g = rp_graph_new("e");
    a = rp_input(g, "a", RP_DTYPE_F8E5M2, RP_SHAPE(4));
    check_refused(g, rp_cast(a, RP_DTYPE_F32), "input of f8e5m2: there is no such type");
}

static void reductions_of_integers_are_refused(void **state) {
    static const char why[] = "reductions of integers are not exact there";
    static const char *const name[] = {"sum", "prod", "amax", "amin", "argmax"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        char text[96];
        rp_graph *g = rp_graph_new("a");
        rp_tensor a = rp_input(g, "a", RP_DTYPE_I32, RP_SHAPE(4));
        rp_tensor y = i == 0   ? rp_sum(a, 0, true)
                      : i == 1 ? rp_prod(a, 0, true)
                      : i == 2 ? rp_amax(a, 0, true)
                      : i == 3 ? rp_amin(a, 0, true)
                               : rp_argmax(a, 0, true);
        (void)snprintf(text, sizeof text, "%s of i32: %s", name[i], why);
        check_refused(g, y, text);
    }
}

/* Moves of them are written. */
static void what_is_computed_in_another_type_is_refused(void **state) {
    static const char why[] = "it is computed as f32 there, and need not be rounded";
    static const rp_dtype half[] = {RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[96];
        rp_error err = {0};
        backend_model m;
        rp_graph *g = rp_graph_new("a");
        rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4));
        (void)snprintf(text, sizeof text, "cast of %s: %s", rp_dtype_name(half[i]), why);
        check_refused(g, rp_cast(a, half[i]), text);
        g = rp_graph_new("b");
        a = rp_input(g, "a", half[i], RP_SHAPE(4));
        (void)snprintf(text, sizeof text, "add of %s: %s", rp_dtype_name(half[i]), why);
        check_refused(g, rp_add(a, a), text);
        g = rp_graph_new("c");
        a = rp_cast(rp_slice(rp_input(g, "a", half[i], RP_SHAPE(4)), 0, 1, 3), RP_DTYPE_F32);
        CHECK_OK(rp_graph_finish(g, &a, 1, &err), &err);
        CHECK_OK(backend_onnx_write(g, false, &m, &err), &err);
        backend_onnx_done(&m);
        rp_graph_free(g);
    }
    rp_graph *g = rp_graph_new("d");
    rp_tensor a = rp_input(g, "a", RP_DTYPE_F64, RP_SHAPE(4));
    check_refused_by(true, g, rp_neg(a), "input of f64: it is computed as f32 there");
    g = rp_graph_new("e");
    a = rp_input(g, "a", RP_DTYPE_I32, RP_SHAPE(4));
    check_refused_by(true, g, rp_cast(a, RP_DTYPE_I64), "cast of i64: it is computed as i32 there");
    g = rp_graph_new("f");
    a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4));
    check_refused_by(true, g, rp_add_scalar(rp_mul_scalar(a, NAN), 1),
                     "const of f32: a factor that is NaN is left out there");
}

/* An input that is there for the sizes that it tells. */
static bool any_unread(const ir_graph *g) {
    for (uint32_t i = 0; i < ir_leaf_count(g, IR_LEAF_INPUT); i++) {
        bool read = false;
        for (ir_ref r = 0; r < ir_graph_count(g); r++)
            for (uint32_t k = 0; k < ir_node_at(g, r)->n_in; k++)
                read = read || ir_node_at(g, r)->in[k] == ir_leaf_at(g, IR_LEAF_INPUT, i);
        if (!read) return true;
    }
    return false;
}

/* What is said of a node is what is said of a graph of it: pieces of nodes that have a form have one. */
static void pieces_of_what_has_a_form_have_one(void **state) {
    uint32_t pieces = 0, refused = 0, others = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const bool narrow = seed % 2;
        const rp_backend_desc d = {
            .size = sizeof d,
            .supports = backend_session_supports,
            .user = (void *)(uintptr_t)(narrow ? &backend_openvino : &backend_onnxrt)};
        ir_graph *ir = NULL;
        rp_graph *all = NULL, *g = NULL;
        api_offer o = {0};
        split_sides s = {0};
        split_result r = {0};
        rp_error err = {0};
        CHECK_OK(random_types_new(seed, 60, &ir, &err), &err);
        CHECK_OK(trace_graph_wrap(ir, &all, &err), &err);
        CHECK_OK(rp_graph_optimize(all, "dce", &g, &err), &err);
        ir = g->ir;
        CHECK_OK(api_offer_make(&d, g, NULL, 0, &o, &err), &err);
        CHECK_OK(split_in_sides(ir, o.takes, 64, &s, &err), &err);
        CHECK_OK(split_by_sides(ir, &s, &r, &err), &err);
        for (uint32_t i = 0; i < r.n_pieces; i++) {
            rp_graph *piece = NULL;
            backend_model m;
            refused += !r.pieces[i].splitting;
            if (!r.pieces[i].splitting) continue;
            CHECK_OK(trace_graph_wrap(ir_graph_share(r.pieces[i].graph), &piece, &err), &err);
            rp_status st = backend_onnx_write(piece, narrow, &m, &err);
            if (st == RP_OK) backend_onnx_done(&m);
            pieces += st == RP_OK;
            others += st != RP_OK;
            if (st != RP_OK && (strncmp(err.text, "input of ", 9) != 0 || !any_unread(piece->ir)))
                fail_msg("seed %d, piece %u: %s", (int)seed, i, err.text);
            err = (rp_error){0};
            rp_graph_free(piece);
        }
        split_done(&r);
        split_sides_done(&s);
        api_offer_done(&o);
        rp_graph_free(g);
        rp_graph_free(all);
    }
    if (pieces < 100 || refused < 100 || others > pieces / 10)
        fail_msg("%u pieces, %u others, %u for their sizes", pieces, refused, others);
}

static void a_graph_that_gives_nothing_is_refused(void **state) {
    rp_error err = {0};
    backend_model m;
    (void)state;
    rp_graph *g = rp_graph_new("a");
    (void)rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4));
    CHECK_OK(rp_graph_finish(g, NULL, 0, &err), &err);
    assert_int_equal(backend_onnx_write(g, false, &m, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "it gives nothing");
    rp_graph_free(g);
}

static bool has_operator(const backend_model *m, const char *op) {
    size_t n = strlen(op);
    for (size_t i = 0; i + n <= m->n; i++)
        if (memcmp(m->data + i, op, n) == 0) return true;
    return false;
}

static void a_nan_is_not_left_to_the_library(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        rp_error err = {0};
        backend_model m;
        rp_graph *g = rp_graph_new("a");
        rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4)), b = rp_neg(a);
        rp_tensor y = i == 0   ? rp_max(a, b)
                      : i == 1 ? rp_min(a, b)
                      : i == 2 ? rp_amax(a, 0, true)
                      : i == 3 ? rp_amin(a, 0, true)
                      : i == 4 ? rp_argmax(a, 0, true)
                      : i == 5 ? rp_exp(a)
                      : i == 6 ? rp_gt(a, b)
                               : rp_cast(a, RP_DTYPE_BOOL);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        CHECK_OK(backend_onnx_write(g, true, &m, &err), &err);
        assert_true(has_operator(&m, i < 6 ? "IsNaN" : i == 6 ? "Less" : "Equal"));
        assert_false(has_operator(&m, "Greater"));
        backend_onnx_done(&m);
        rp_graph_free(g);
    }
}

/* The bytes, by onnx.proto: a small model as it must be. */
static void a_model_is_a_protocol_buffer(void **state) {
    /* ir_version, producer_name, opset_import, graph */
    static const char head[] = "\x08\x08\x12\x07reprise\x42\x02\x10\x11\x3a";
    static const char nodes[] = "\x0a\x13\x0a\x03in0\x12\x02v0\x22\x08Identity"
                                "\x0a\x0d\x0a\x02v0\x12\x02v1\x22\x03Neg";
    rp_error err = {0};
    backend_model m;
    rp_graph *g = rp_graph_new("a");
    rp_tensor a = rp_neg(rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4)));
    (void)state;
    CHECK_OK(rp_graph_finish(g, &a, 1, &err), &err);
    CHECK_OK(backend_onnx_write(g, false, &m, &err), &err);
    const size_t n = sizeof head - 1;
    assert_true(m.n > sizeof head + sizeof nodes);
    assert_memory_equal(m.data, head, n);
    assert_int_equal((unsigned char)m.data[n], m.n - n - 1); /* it ends with the graph */
    assert_memory_equal(m.data + n + 1, nodes, sizeof nodes - 1);
    assert_int_equal(m.n_sizes, 0);
    backend_onnx_done(&m);
    rp_graph_free(g);
}

/* Symbols come as vectors of sizes. */
static void sizes_are_inputs(void **state) {
    rp_error err = {0};
    backend_model m;
    rp_graph *g = rp_graph_new("a");
    rp_dim T = rp_symbol(g, "T", 1, 64);
    rp_tensor a =
        rp_reshape(rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(T, 4)), RP_SHAPE(rp_dim_mul(T, 2), 2));
    const int64_t five = 5;
    (void)state;
    CHECK_OK(rp_graph_finish(g, &a, 1, &err), &err);
    CHECK_OK(backend_onnx_write(g, false, &m, &err), &err);
    assert_int_equal(m.n_sizes, 1);
    assert_int_equal(m.sizes[0].n, 2);
    assert_int_equal(rp_dim_eval(m.sizes[0].dim[0], &five), 10);
    assert_int_equal(rp_dim_eval(m.sizes[0].dim[1], &five), 2);
    backend_onnx_done(&m);
    rp_graph_free(g);
}

/* An index is clamped to the last row of a table, however many that has: its size, less one. */
static void clamps_follow_the_table(void **state) {
    const int64_t five = 5, last = 4;
    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        rp_error err = {0};
        backend_model m;
        rp_graph *g = rp_graph_new("a");
        rp_dim rows = fixed ? rp_dim_const(5) : rp_symbol(g, "T", 1, 64);
        rp_tensor table = rp_input(g, "t", RP_DTYPE_F32, RP_SHAPE(rows, 4));
        rp_tensor y = rp_gather(table, rp_input(g, "i", RP_DTYPE_I32, RP_SHAPE(3)));
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        CHECK_OK(backend_onnx_write(g, false, &m, &err), &err);
        assert_int_equal(m.n_sizes, fixed ? 0 : 1);
        if (fixed) {
            assert_non_null(memmem(m.data, m.n, &last, sizeof last));
        } else {
            assert_int_equal(m.sizes[0].n, 1);
            assert_int_equal(rp_dim_eval(m.sizes[0].dim[0], &five) + m.sizes[0].plus, last);
        }
        backend_onnx_done(&m);
        rp_graph_free(g);
    }
}

static void every_allocation_may_fail(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("a");
    rp_dim T = rp_symbol(g, "T", 1, 64);
    rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(T, 4));
    a = rp_softmax(rp_reshape(a, RP_SHAPE(4, T)), -1);
    (void)state;
    CHECK_OK(rp_graph_finish(g, &a, 1, &err), &err);
    backend_model whole;
    CHECK_OK(backend_onnx_write(g, false, &whole, &err), &err);
    const size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        backend_model m;
        rp_error why = {0};
        rp_status st = backend_onnx_write(g, false, &m, &why);
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        if (st == RP_OK) { /* with all of it */
            assert_int_equal(m.n, whole.n);
            assert_memory_equal(m.data, whole.data, m.n);
            backend_onnx_done(&m);
        }
        assert_int_equal(base_live(), live);
    }
    backend_onnx_done(&whole);
    rp_graph_free(g);
}

/* --- what is in front of a library ------------------------------------------------------------------------ */

/* Counts what is loaded; a call keeps the last input. */
static struct {
    int loaded;
    bool refuses;
    uint32_t n_in, n_given; /* of the graph alone */
    rp_buffer last;
    int64_t value[4][RP_MAX_RANK]; /* of the inputs behind those */
} fake;

static rp_status fake_load(const backend_model *m, uint32_t threads, void **out, rp_error *err) {
    if (fake.refuses) return rp_fail(err, RP_UNSUPPORTED, "not this one");
    assert_true(m->n && threads == 3);
    fake.loaded++;
    *out = &fake;
    return RP_OK;
}

static rp_status fake_run(void *loaded, const rp_buffer *in, uint32_t n_in, rp_buffer *out,
                          uint32_t n_out, rp_error *err) {
    (void)out, (void)err;
    assert_ptr_equal(loaded, &fake);
    assert_int_equal(n_out, 1);
    fake.n_in = n_in;
    fake.last = in[n_in - 1];
    for (uint32_t i = fake.n_given; i < n_in; i++) {
        assert_true(in[i].dtype == RP_DTYPE_I64 && in[i].rank == 1 && i - fake.n_given < 4);
        for (int64_t d = 0; d < in[i].dim[0]; d++)
            fake.value[i - fake.n_given][d] = ((const int64_t *)in[i].data)[d];
    }
    return RP_OK;
}

static void fake_unload(void *loaded) {
    assert_ptr_equal(loaded, &fake);
    fake.loaded--;
}

/* Sizes of a call come behind its inputs; what fails on the way, in the library or for lack of memory, leaves nothing. */
static void a_library_is_given_sizes(void **state) {
    backend_library by = {
        .name = "fake", .load = fake_load, .run = fake_run, .unload = fake_unload};
    const rp_backend_options options = {.threads = 3};
    rp_error err = {0};
    rp_callable c = {0};
    rp_status st = RP_OK;
    rp_graph *g = rp_graph_new("a");
    rp_dim rows = rp_symbol(g, "T", 1, 64);
    rp_tensor table = rp_input(g, "t", RP_DTYPE_F32, RP_SHAPE(rows, 4));
    rp_tensor y = rp_gather(table, rp_input(g, "i", RP_DTYPE_I32, RP_SHAPE(3)));
    (void)state;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    const size_t live = base_live();
    fake.refuses = true;
    assert_int_equal(backend_session_compile(&by, g, &options, &c, &err), RP_UNSUPPORTED);
    assert_int_equal(base_live(), live);
    fake.refuses = false;
    FOR_EACH_ALLOC_FAILURE (n) {
        st = backend_session_compile(&by, g, &options, &c, NULL);
        if (st == RP_OK) continue;
        assert_int_equal(st, RP_NOMEM);
        assert_int_equal(fake.loaded, 0);
        assert_int_equal(base_live(), live);
    }
    CHECK_OK(st, &err);
    int32_t at[3] = {0, 1, 2};
    float got[12];
    const rp_buffer in[] = {{RP_DTYPE_F32, 2, {5, 4}, x}, {RP_DTYPE_I32, 1, {3}, at}};
    rp_buffer out = {RP_DTYPE_F32, 2, {3, 4}, got};
    fake.n_given = 2;
    CHECK_OK(c.run(c.self, in, 2, &out, 1, &err), &err);
    assert_int_equal(fake.n_in, 3);
    assert_true(fake.last.dtype == RP_DTYPE_I64 && fake.last.rank == 1 && fake.last.dim[0] == 1);
    assert_int_equal(fake.value[0][0], 4); /* the last row */
    c.free(c.self);
    assert_int_equal(fake.loaded, 0);
    assert_int_equal(base_live(), live);
    rp_graph_free(g);
}

/* Each vector has a place of its own, and is that of this call. */
static void each_vector_of_sizes_is_its_own(void **state) {
    backend_library by = {
        .name = "fake", .load = fake_load, .run = fake_run, .unload = fake_unload};
    const rp_backend_options options = {.threads = 3};
    rp_error err = {0};
    rp_callable c = {0};
    rp_graph *g = rp_graph_new("a");
    rp_dim rows = rp_symbol(g, "T", 1, 64), columns = rp_symbol(g, "S", 1, 64);
    rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(rows, columns));
    rp_tensor y = rp_reshape(a, RP_SHAPE(rp_dim_mul(rows, columns)));
    y = rp_reshape(rp_neg(y), RP_SHAPE(1, columns, rows));
    (void)state;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(backend_session_compile(&by, g, &options, &c, &err), &err);
    fake.n_given = 1;
    for (int64_t n = 2; n < 7; n += 2) {
        float got[4096];
        const rp_buffer in = {RP_DTYPE_F32, 2, {n, n + 1}, x};
        rp_buffer out = {RP_DTYPE_F32, 3, {1, n + 1, n}, got};
        CHECK_OK(c.run(c.self, &in, 1, &out, 1, &err), &err);
        assert_int_equal(fake.n_in, 3);
        assert_int_equal(fake.value[0][0], n * (n + 1));
        const int64_t want[] = {1, n + 1, n};
        assert_memory_equal(fake.value[1], want, sizeof want);
    }
    c.free(c.self);
    assert_int_equal(fake.loaded, 0);
    rp_graph_free(g);
}

/* Of a message, 128 is the first length that wants two bytes. */
static void numbers_of_seven_bits_have_one_byte(void **state) {
    static const struct {
        int64_t v;
        const char *bytes;
        size_t n;
    } all[] = {{0, "\x08\x00", 2},
               {127, "\x08\x7f", 2},
               {128, "\x08\x80\x01", 3},
               {300, "\x08\xac\x02", 3},
               {16383, "\x08\xff\x7f", 3},
               {16384, "\x08\x80\x80\x01", 4},
               {-1, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        base_buf b;
        base_buf_init(&b, 0);
        backend_wire_int(&b, 1, all[i].v);
        assert_int_equal(b.len, all[i].n);
        assert_memory_equal(b.data, all[i].bytes, b.len);
        base_buf_done(&b);
    }
}

/* What was lost of an inner message is lost of the outer one. */
static void a_lost_message_is_not_written(void **state) {
    base_buf outer, inner;
    (void)state;
    base_buf_init(&outer, 0);
    base_buf_init(&inner, 0);
    backend_wire_int(&inner, 1, 1);
    inner.failed = true;
    backend_wire_message(&outer, 2, &inner);
    assert_true(outer.failed);
    base_buf_done(&outer);
    base_buf_done(&inner);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_given_sizes),
        cmocka_unit_test(each_vector_of_sizes_is_its_own),
        cmocka_unit_test(numbers_of_seven_bits_have_one_byte),
        cmocka_unit_test(a_lost_message_is_not_written),
        cmocka_unit_test(a_model_is_a_protocol_buffer),
        cmocka_unit_test(sizes_are_inputs),
        cmocka_unit_test(clamps_follow_the_table),
        cmocka_unit_test(what_has_no_form_is_told),
        cmocka_unit_test(reductions_of_integers_are_refused),
        cmocka_unit_test(what_is_computed_in_another_type_is_refused),
        cmocka_unit_test(pieces_of_what_has_a_form_have_one),
        cmocka_unit_test(a_graph_that_gives_nothing_is_refused),
        cmocka_unit_test(a_nan_is_not_left_to_the_library),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(openvino_computes),
        cmocka_unit_test(onnx_runtime_computes),
        cmocka_unit_test(openvino_computes_pieces),
        cmocka_unit_test(onnx_runtime_computes_pieces),
        cmocka_unit_test(a_library_that_is_not_here_is_told),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
