/* Functions with graph breaks: right results, host code once a call, as many graphs as there are between breaks, what is told. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "support/heard.h"
#include "support/jits.h"

enum { MOST = 4096 };
static float x[MOST], w[MOST];

static void fill(void) {
    for (int i = 0; i < MOST; i++) {
        x[i] = (float)(i % 17) / 8 - 0.75f;
        w[i] = (float)(i % 13) / 16 - 0.25f;
    }
}

static rp_jit *make(rp_jit_fn fn, int level, void *user) {
    return jit_at(fn, level, RP_DYNAMIC_AUTO, user);
}

/* Sum of |x|, above or below the limit in args[1]: two ways on, with y made before the break. */
typedef struct seen {
    int runs, prints;
    double sum;
} seen;

static rp_status by_sum(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    seen *s = user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), y = rp_mul_scalar(a, 2);
    (void)err;
    s->runs++;
    s->sum = rp_item(rp_sum(rp_sum(rp_abs(y), -1, false), -1, false));
    y = s->sum > 8 ? rp_add_scalar(y, 1) : rp_neg(y);
    *result = rp_jit_value(call, y);
    return RP_OK;
}

static rp_output *run2(rp_jit *f, float *data, int64_t rows, int64_t cols) {
    rp_value v = f32_of(data, 2, rows, cols), args = rp_value_tuple(&v, 1);
    return jit_ok(f, &args);
}

static void check_by_sum(const rp_output *o, const float *data, int n) {
    const float *y = jit_result(o)->tensor.data;
    double sum = 0;
    for (int i = 0; i < n; i++) sum += fabs((double)data[i] * 2);
    for (int i = 0; i < n; i++) assert_true(y[i] == (sum > 8 ? data[i] * 2 + 1 : -(data[i] * 2)));
}

static void a_branch_on_data(void **state) {
    static const int64_t rows[] = {2, 2, 8, 8, 2, 3, 100, 2, 5};
    (void)state;
    fill();
    for (int level = 0; level <= 2; level += 2) {
        seen s = {0, 0, 0};
        rp_jit *f = make(by_sum, level, &s);
        for (int i = 0; i < 9; i++) {
            rp_output *o = run2(f, x, rows[i], 3);
            check_by_sum(o, x, (int)rows[i] * 3);
            assert_int_equal(s.runs, i + 1); /* once a call */
            if (level && i > 5) assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
            rp_output_free(o);
        }
        rp_jit_info info = jit_info(f);
        assert_int_equal(info.calls, 9);
        if (level) {
            assert_int_equal(info.compiles, 3); /* [2,3], then [s0,3] above and below */
            assert_int_equal(info.entries, 2);
            assert_int_equal(info.graphs, 2 + 2 + 1);
            assert_int_equal(info.breaks, 2);
        }
        rp_jit_free(f);
    }
}

/* The seed's BrokenAttention. */
static rp_status attention(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    if (rp_dim_gt(rp_tensor_dim(a, 0), 8)) {
        rp_jit_break(call, "builtin: print"); /* Graph break here! */
        ++*(int *)user;
    }
    rp_tensor q = rp_matmul(a, b, false), out = rp_exp(rp_matmul(q, a, true));
    out = rp_div(out, rp_sum(out, -1, true));
    *result = rp_jit_value(call, rp_matmul(out, a, false));
    return RP_OK;
}

static void a_print(void **state) {
    static const int64_t rows[] = {4, 16, 16, 12, 5, 16};
    static const int prints[] = {0, 1, 2, 3, 3, 4};
    rp_output *both[2];
    int n[2] = {0, 0};
    rp_jit *f = make(attention, 2, &n[0]), *plain = make(attention, 0, &n[1]);
    base_buf heard;
    (void)state;
    fill();
    heard_start(&heard, "graph_breaks");
    for (int i = 0; i < 6; i++) {
        rp_value v[] = {f32_of(x, 2, rows[i], 8), f32_of(w, 2, 8, 8)};
        rp_value args = rp_value_tuple(v, 2);
        both[0] = jit_ok(f, &args);
        both[1] = jit_ok(plain, &args);
        assert_int_equal(n[0], prints[i]);
        assert_int_equal(n[1], prints[i]);
        assert_memory_equal(jit_result(both[0])->tensor.data, jit_result(both[1])->tensor.data,
                            (size_t)rows[i] * 8 * sizeof(float));
        rp_output_free(both[0]);
        rp_output_free(both[1]);
    }
    CHECK_HEARD(&heard, "[graph_breaks] Graph break in user code at ");
    CHECK_HEARD(&heard, "[graph_breaks] Reason: Unsupported: builtin: print");
    CHECK_HEARD(&heard, ", in forward");
    CHECK_HEARD(&heard, "rp_jit_break(call, \"builtin: print\"); /* Graph break here! */");
    heard_done(&heard);
    rp_jit_free(f);
    rp_jit_free(plain);
}

/* --- states and host reads ---------------------------------------------------------------------- */

/* state = state + x, seen by the host at the break; then state * 2 or state - 1 by what it holds. */
static rp_status counting(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    float *memory = user;
    rp_tensor total = rp_jit_tensor(call, &args->item[0]), a = rp_jit_tensor(call, &args->item[1]);
    rp_tensor before = rp_mul_scalar(total, 3), now = rp_update(total, rp_add(total, a));
    (void)err;
    rp_jit_break(call, "a look at memory");
    float first = memory[0];
    rp_buffer b = rp_jit_read(call, now);
    if (!b.data || ((float *)b.data)[0] != first) return RP_DEVICE;
    now = rp_update(now, first > 4 ? rp_mul_scalar(now, 2) : rp_add_scalar(now, -1));
    rp_tensor out = rp_add(before, now);
    *result = rp_jit_value(call, out);
    return RP_OK;
}

static void states_are_written_in_front_of_a_break(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level += 2) {
        float memory[4] = {0, 1, 2, 3}, a[4] = {3, 0.5f, 1, 2}, want[4];
        rp_jit *f = make(counting, level, memory);
        for (int i = 0; i < 6; i++) {
            rp_value v[] = {f32_of(memory, 1, 4, 0), f32_of(a, 1, 4, 0)};
            v[0].state = true;
            rp_value args = rp_value_tuple(v, 2);
            float out[4];
            bool twice = memory[0] + a[0] > 4;
            for (int k = 0; k < 4; k++) {
                float sum = memory[k] + a[k];
                want[k] = twice ? sum * 2 : sum + -1;
                out[k] = memory[k] * 3 + want[k];
            }
            rp_output *o = jit_ok(f, &args);
            assert_memory_equal(jit_result(o)->tensor.data, out, sizeof out);
            assert_memory_equal(memory, want, sizeof want);
            rp_output_free(o);
        }
        if (level) assert_int_equal(jit_info(f).entries, 1);
        rp_jit_free(f);
    }
}

/* What was made of a state, or a view of it, before it is written; where it is used again the memory has something else. */
typedef enum kept_kind {
    KEPT_RESHAPE,
    KEPT_SLICE,
    KEPT_TURN,
    KEPT_LATER, /* a view that is read in one segment more before the state is written */
    KEPT_AGAIN, /* computed, and asked for again behind the break */
    KEPT_KINDS
} kept_kind;

static rp_tensor kept_of(rp_tensor total, kept_kind kind) {
    switch (kind) {
    case KEPT_SLICE: return rp_slice(total, 0, 1, 3);
    case KEPT_TURN: return rp_transpose(rp_reshape(total, RP_SHAPE(2, 2)), 0, 1);
    case KEPT_AGAIN: return rp_mul_scalar(total, 3);
    default: return rp_reshape(total, RP_SHAPE(2, 2));
    }
}

static rp_status keeping(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    kept_kind kind = *(const kept_kind *)user;
    rp_tensor total = rp_jit_tensor(call, &args->item[0]), a = rp_jit_tensor(call, &args->item[1]);
    rp_tensor kept = kept_of(total, kind), first = rp_mul_scalar(kept, 0.5);
    (void)err;
    if (kind == KEPT_LATER) {
        rp_jit_break(call, "before it is written");
        first = rp_add(first, kept);
    }
    (void)rp_update(total, rp_add(total, a));
    rp_jit_break(call, "after it was written");
    if (kind == KEPT_AGAIN) (void)kept_of(total, kind);
    *result = rp_jit_value(call, rp_add(first, kept));
    return RP_OK;
}

static void views_of_states_are_as_they_were(void **state) {
    (void)state;
    for (kept_kind kind = 0; kind < KEPT_KINDS; kind++)
        for (int level = 0; level <= 2; level++) {
            float memory[4] = {0, 1, 2, 3}, a[4] = {3, 0.5f, 1, 2};
            float scale = kind == KEPT_LATER ? 2.5f : kind == KEPT_AGAIN ? 4.5f : 1.5f;
            rp_jit *f = make(keeping, level, &kind);
            for (int i = 0; i < 4; i++) {
                rp_value v[] = {f32_of(memory, 1, 4, 0), f32_of(a, 1, 4, 0)};
                v[0].state = true;
                rp_value args = rp_value_tuple(v, 2);
                float was[4];
                memcpy(was, memory, sizeof was);
                rp_output *o = jit_ok(f, &args);
                const float *y = jit_result(o)->tensor.data;
                for (int k = 0; k < (kind == KEPT_SLICE ? 2 : 4); k++) {
                    int from = kind == KEPT_SLICE  ? k + 1
                               : kind == KEPT_TURN ? k % 2 * 2 + k / 2
                                                   : k;
                    if (y[k] != was[from] * scale)
                        fail_msg("kind %d level %d call %d: [%d] = %g, not %g", (int)kind, level, i,
                                 k, (double)y[k], (double)(was[from] * scale));
                }
                for (int k = 0; k < 4; k++) assert_true(memory[k] == was[k] + a[k]);
                rp_output_free(o);
            }
            rp_jit_free(f);
        }
}

/* Versions of one segment, of which the host reads one: 0: the argument, 1: written in between, 2: the last. */
static rp_status reading(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    int which = *(const int *)user % 3;
    bool all = *(const int *)user >= 3;
    rp_tensor v[3] = {rp_jit_tensor(call, &args->item[0])};
    v[1] = rp_update(v[0], rp_add_scalar(v[0], 1));
    v[2] = rp_update(v[1], rp_mul_scalar(v[1], 3));
    rp_buffer b = {.data = NULL};
    if (all) b = rp_jit_read(call, v[which]);
    double is = all ? 0 : rp_item(v[which]);
    rp_tensor now = rp_update(v[2], rp_add_scalar(v[2], 1));
    rp_jit_break(call, "written once more");
    if (all && !b.data) return RP_DEVICE;
    if (all) is = (double)((float *)b.data)[0]; /* until the function returns */
    (void)err;
    *result = rp_jit_value(call, is > 4 ? rp_add_scalar(now, 1) : rp_neg(now));
    ((int *)user)[1] = (int)is;
    return RP_OK;
}

static void the_host_reads_the_version_it_asks_for(void **state) {
    (void)state;
    for (int kind = 0; kind < 6; kind++)
        for (int level = 0; level <= 2; level++) {
            int user[2] = {kind, 0};
            float memory[1] = {1};
            rp_jit *f = make(reading, level, user);
            for (int i = 0; i < 4; i++) {
                rp_value v = f32_of(memory, 1, 1, 0), args;
                float was = memory[0], last = (was + 1) * 3 + 1;
                float is = kind % 3 == 0 ? was : kind % 3 == 1 ? was + 1 : (was + 1) * 3;
                v.state = true;
                args = rp_value_tuple(&v, 1);
                rp_output *o = jit_ok(f, &args);
                if (user[1] != (int)is)
                    fail_msg("kind %d level %d call %d: %d read, not %g", kind, level, i, user[1],
                             (double)is);
                assert_true(*(float *)jit_result(o)->tensor.data == (is > 4 ? last + 1 : -last));
                assert_true(memory[0] == last);
                rp_output_free(o);
            }
            rp_jit_free(f);
        }
}

/* --- a loop of the host ------------------------------------------------------------------------- */

/* Halves until the largest is below 1: a break a round. */
static rp_status halved(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    while (!rp_jit_failed(call) && rp_item(rp_amax(a, 0, false)) >= 1) {
        a = rp_mul_scalar(a, 0.5);
        ++*(int *)user;
    }
    rp_value item[] = {rp_jit_value(call, a), rp_value_int(*(int *)user)};
    static rp_value kept[2];
    memcpy(kept, item, sizeof kept);
    *result = rp_value_tuple(kept, 2);
    return RP_OK;
}

static void a_loop_of_the_host(void **state) {
    static const float top[] = {0.5f, 5, 5, 40, 3, 0.25f, 40};
    static const int rounds[] = {0, 3, 3, 6, 2, 0, 6};
    int n = 0;
    float data[8] = {0};
    rp_jit *f = make(halved, 2, &n);
    (void)state;
    for (int i = 0; i < 7; i++) {
        rp_value v = f32_of(data, 1, 8, 0), args = rp_value_tuple(&v, 1);
        data[3] = top[i];
        n = 0;
        rp_output *o = jit_ok(f, &args);
        const rp_value *r = jit_result(o);
        assert_int_equal(n, rounds[i]);
        assert_int_equal(r->item[1].as.integer, rounds[i]); /* not that of the first run */
        assert_true(((float *)r->item[0].tensor.data)[3] == ldexpf(top[i], -rounds[i]));
        if (i == 2 || i > 4) assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
        rp_output_free(o);
    }
    assert_int_equal(jit_info(f).entries, 1);
    rp_jit_free(f);
}

/* A number that differs each time: past the limit nothing is kept, and results stay right. */
static rp_status scaled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(a, rp_item(rp_amax(a, 0, false))));
    return RP_OK;
}

static void ways_have_a_limit(void **state) {
    float data[3] = {-1, 0, 0};
    base_buf heard;
    rp_jit *f = make(scaled, 2, NULL);
    (void)state;
    heard_start(&heard, "graph_breaks");
    for (int i = 0; i < 40; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        data[2] = (float)i + 1;
        rp_output *o = jit_ok(f, &args);
        assert_true(((float *)jit_result(o)->tensor.data)[2] == data[2] * data[2]);
        assert_true(((float *)jit_result(o)->tensor.data)[0] == -data[2]);
        assert_int_equal(rp_output_ran(o), i < 8 ? RP_RAN_CAPTURE : RP_RAN_EAGER);
        if (i >= 8) assert_non_null(strstr(rp_output_reason(o), "past the recompile limit"));
        rp_output_free(o);
    }
    CHECK_HEARD(&heard, "reprise hit recompile_limit (8); function: 'forward' (model.c:8); what "
                        "follows the graph break at test/unit/jit_breaks.c:");
    heard_done(&heard);
    rp_jit_info info = jit_info(f);
    assert_int_equal(info.graphs, 1 + 8);
    assert_int_equal(info.compiles, 8);
    assert_int_equal(info.eager, 32);
    rp_jit_free(f);
}

/* Many nodes that never come again: the recording is begun anew, so it does not grow for ever. */
static rp_status scaled_often(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    double top = rp_item(rp_amax(a, 0, false));
    (void)user;
    (void)err;
    for (int i = 0; i < 64; i++) a = rp_add_scalar(a, i % 2 ? top : -top);
    *result = rp_jit_value(call, a);
    return RP_OK;
}

static void a_recording_is_begun_anew(void **state) {
    float data[3] = {-1, 0, 0};
    rp_jit *f = make(scaled_often, 1, NULL);
    (void)state;
    for (int i = 0; i < 600; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        data[2] = (float)i + 1;
        rp_output *o = jit_ok(f, &args);
        assert_memory_equal(jit_result(o)->tensor.data, data, sizeof data);
        rp_output_free(o);
    }
    rp_jit_info info = jit_info(f);
    assert_true(info.compiles > 8);
    assert_true(info.compiles < 60);
    assert_int_equal(info.entries, 1);
    rp_jit_free(f);
}

/* --- options and errors --------------------------------------------------------------------------- */

static rp_jit *with(rp_jit_options o) {
    rp_error err = {0};
    rp_jit *f = NULL;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    return f;
}

static void fullgraph_makes_a_break_an_error(void **state) {
    rp_error err = {0};
    rp_output *o = NULL;
    seen s = {0, 0, 0};
    rp_jit_options options = jit_options(by_sum);
    (void)state;
    options.fullgraph = true;
    options.user = &s;
    rp_jit *f = with(options);
    rp_value v = f32_of(x, 2, 4, 4), args = rp_value_tuple(&v, 1);
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "jit_breaks.c:"));
    assert_non_null(strstr(err.text, "graph break with fullgraph: Tensor.item()"));
    assert_true(isnan(s.sum));
    rp_jit_free(f);
}

/* Wrong things behind a break: the call fails, and the next one is right. */
static rp_status fails_once(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    int what = *(int *)user;
    double top = rp_item(rp_amax(a, 0, false));
    if (what == 1) return rp_jit_failed(call) ? RP_DEVICE : RP_NOMEM;
    if (what == 2) a = rp_reshape(a, RP_SHAPE(5));
    if (what == 3) (void)rp_item(a);
    if (what == 4) a = rp_param(rp_jit_graph(call), "w", RP_DTYPE_F32, RP_SHAPE(3));
    (void)err;
    *result = rp_jit_value(call, rp_add_scalar(a, top > 0 ? 1 : 2));
    return RP_OK;
}

static void failures_behind_a_break(void **state) {
    static const char *const text[] = {"", "forward: nomem", "jit_breaks.c:", "not one number",
                                       "'w' is a param of a function with graph breaks"};
    float data[3] = {1, 2, 3};
    (void)state;
    for (int first = 0; first < 2; first++)
        for (int what = 1; what < 5; what++) {
            int now = first ? 0 : what;
            rp_error err = {0};
            rp_output *o = NULL;
            rp_jit *f = make(fails_once, 2, &now);
            rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
            if (first) rp_output_free(jit_ok(f, &args));
            now = what;
            assert_int_not_equal(rp_jit_run(f, &args, &o, &err), RP_OK);
            if (!strstr(err.text, text[what])) fail_msg("%d: %s", what, err.text);
            now = 0;
            o = jit_ok(f, &args);
            assert_true(((float *)jit_result(o)->tensor.data)[2] == 4);
            rp_output_free(o);
            rp_jit_free(f);
        }
}

/* A call that goes a new way fails at its end: the next one that goes it compiles it. */
static void a_way_that_failed_is_compiled_later(void **state) {
    rp_error err = {0};
    float data[3] = {1, 2, 3}, out[3] = {0};
    rp_buffer to = {RP_DTYPE_F32, 1, {3}, out};
    rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
    int what = 0;
    rp_jit *f = make(fails_once, 2, &what);
    (void)state;
    rp_output_free(jit_ok(f, &args));
    data[0] = data[1] = data[2] = -1;
    assert_int_equal(rp_jit_run_into(f, &args, NULL, 0, &err), RP_INVALID);
    uint64_t graphs = jit_info(f).graphs;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rp_jit_run_into(f, &args, &to, 1, &err), &err);
        assert_true(out[2] == 1);
        assert_int_equal(jit_info(f).graphs, graphs + 1);
    }
    assert_int_equal(jit_info(f).hits, 1);
    rp_jit_free(f);
}

/* What has run and cannot be compiled has run op by op: its results are right, and say why. */
static void what_is_suppressed_says_so(void **state) {
    float data[3] = {1, 2, 3};
    rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
    base_buf heard;
    char *cc = getenv("REPRISE_CC") ? strdup(getenv("REPRISE_CC")) : NULL;
    (void)state;
    heard_start(&heard, "graph_breaks");
    for (int first = 0; first < 2; first++) {
        int what = 0;
        rp_jit_options o = jit_options(fails_once);
        o.user = &what;
        o.suppress_errors = true;
        data[2] = 3;
        rp_jit *f = with(o);
        if (first) rp_output_free(jit_ok(f, &args));
        uint64_t hits = jit_info(f).hits, compiles = jit_info(f).compiles;
        data[0] = data[1] = data[2] = -1 - (float)first; /* the other way */
        (void)setenv("REPRISE_CC", "no-such-compiler", 1);
        for (int i = 0; i < 2; i++) {
            rp_output *is = jit_ok(f, &args);
            assert_true(((float *)jit_result(is)->tensor.data)[2] == data[2] + 2);
            assert_int_equal(rp_output_ran(is), RP_RAN_EAGER);
            assert_non_null(strstr(rp_output_reason(is), "no-such-compiler"));
            rp_output_free(is);
        }
        (void)(cc ? setenv("REPRISE_CC", cc, 1) : unsetenv("REPRISE_CC"));
        assert_int_equal(jit_info(f).eager, 2);
        assert_int_equal(jit_info(f).hits, hits);
        assert_int_equal(jit_info(f).compiles, compiles);
        rp_jit_free(f);
    }
    CHECK_HEARD(&heard, "WON'T CONVERT forward model.c line 8: ");
    heard_done(&heard);
    free(cc);
}

static void values_are_for_functions(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("plain");
    rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(1));
    (void)state;
    assert_true(isnan(rp_item(a)));
    assert_int_equal(rp_graph_finish(g, &a, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "has no value while it is traced"));
    rp_graph_free(g);
}

/* --- functions inside of functions ----------------------------------------------------------------- */

typedef struct pair {
    rp_jit *own, *other;
    pthread_barrier_t *both;
} pair;

/* Breaks, waits until the other thread is in its function too, and calls that one. */
static rp_status calls_other(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    static _Thread_local bool inside;
    pair *p = user;
    float data[3] = {1, 2, 3}, out[3];
    rp_value v = f32_of(data, 1, 3, 0), all = rp_value_tuple(&v, 1);
    rp_buffer to = {RP_DTYPE_F32, 1, {3}, out};
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    if (!inside) {
        inside = true;
        rp_jit_break(call, "another function");
        (void)pthread_barrier_wait(p->both);
        rp_status st = rp_jit_run_into(p->other, &all, &to, 1, err);
        (void)pthread_barrier_wait(p->both);
        inside = false;
        if (st != RP_OK) return st;
        if (out[2] != 4) return RP_DEVICE;
    }
    *result = rp_jit_value(call, rp_add_scalar(a, 1));
    return RP_OK;
}

static void *in_thread(void *user) {
    pair *p = user;
    float data[3] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        rp_output *o = jit_ok(p->own, &args);
        assert_true(((float *)jit_result(o)->tensor.data)[2] == 4);
        rp_output_free(o);
    }
    return NULL;
}

static void two_functions_call_each_other(void **state) {
    pthread_barrier_t both;
    pthread_t thread[2];
    pair p[2] = {{NULL, NULL, &both}, {NULL, NULL, &both}};
    (void)state;
    (void)pthread_barrier_init(&both, NULL, 2);
    p[0].own = p[1].other = make(calls_other, 2, &p[0]);
    p[1].own = p[0].other = make(calls_other, 2, &p[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, in_thread, &p[i]), 0);
    for (int i = 0; i < 2; i++) (void)pthread_join(thread[i], NULL);
    (void)pthread_barrier_destroy(&both);
    rp_jit_free(p[0].own);
    rp_jit_free(p[1].own);
}

static rp_status calls_itself(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_output *o = NULL;
    float data[3] = {1, 2, 3};
    rp_value v = f32_of(data, 1, 3, 0), all = rp_value_tuple(&v, 1);
    (void)args;
    (void)call;
    (void)result;
    return rp_jit_run(*(rp_jit **)user, &all, &o, err);
}

static void a_function_that_calls_itself_is_refused(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level += 2) {
        rp_error err = {0};
        rp_output *o = NULL;
        rp_jit *f = NULL;
        float data[3] = {1, 2, 3};
        rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
        f = make(calls_itself, level, &f);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "is called inside of its own trace or run"));
        rp_jit_free(f);
    }
}

/* --- threads and memory ------------------------------------------------------------------------------ */

static void *drawn_sizes(void *user) {
    for (int i = 0; i < 40; i++) {
        int64_t rows = 1 + i * 7 % 12;
        rp_output *o = run2(user, x, rows, 3);
        check_by_sum(o, x, (int)rows * 3);
        rp_output_free(o);
    }
    return NULL;
}

static rp_status by_amax(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    seen none = {0, 0, 0};
    (void)user;
    return by_sum(&none, call, args, result, err);
}

static void threads_share_a_recording(void **state) {
    pthread_t thread[4];
    rp_jit *f = make(by_amax, 2, NULL);
    (void)state;
    fill();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, drawn_sizes, f), 0);
    for (int i = 0; i < 4; i++) (void)pthread_join(thread[i], NULL);
    assert_int_equal(jit_info(f).calls, 160);
    rp_jit_free(f);
}

/* A run that learns of sizes while another call, for which it then no longer is, waits for it. */
typedef struct learner {
    rp_jit *f;
    atomic_bool learns, inside, waited_for;
} learner;

static rp_status learning(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    learner *l = user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    if (rp_item(rp_amax(a, 0, false)) > 0) {
        if (atomic_exchange(&l->learns, false)) {
            atomic_store(&l->inside, true);
            while (!atomic_load(&l->waited_for)) (void)sched_yield();
            /* Nothing tells that the other call waits: it nearly always does by then. */
            (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
        bool many = rp_dim_gt(rp_tensor_dim(a, 0), 8);
        *result = rp_jit_value(call, many ? rp_mul_scalar(a, 2) : rp_add_scalar(a, 1));
        return RP_OK;
    }
    *result = rp_jit_value(call, rp_neg(a));
    return RP_OK;
}

static rp_output *run1(rp_jit *f, float *data, int64_t rows) {
    rp_value v = f32_of(data, 1, rows, 0), args = rp_value_tuple(&v, 1);
    return jit_ok(f, &args);
}

static void *learn(void *user) {
    learner *l = user;
    float data[12];
    for (int i = 0; i < 12; i++) data[i] = (float)i;
    rp_output *o = run1(l->f, data, 12);
    assert_true(((float *)jit_result(o)->tensor.data)[11] == 22);
    rp_output_free(o);
    return NULL;
}

static void *call_meanwhile(void *user) {
    learner *l = user;
    float data[4] = {1, 2, 3, 4};
    while (!atomic_load(&l->inside)) (void)sched_yield();
    atomic_store(&l->waited_for, true);
    for (int i = 0; i < 3; i++) {
        rp_output *o = run1(l->f, data, 4);
        assert_true(((float *)jit_result(o)->tensor.data)[3] == 5);
        rp_output_free(o);
    }
    return NULL;
}

static void a_call_that_waits_looks_again(void **state) {
    float none[12] = {0};
    learner l = {.f = NULL};
    pthread_t thread[2];
    (void)state;
    l.f = make(learning, 2, &l);
    rp_output_free(run1(l.f, none, 3));
    rp_output_free(run1(l.f, none, 12));
    atomic_store(&l.learns, true);
    assert_int_equal(pthread_create(&thread[0], NULL, learn, &l), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, call_meanwhile, &l), 0);
    for (int i = 0; i < 2; i++) (void)pthread_join(thread[i], NULL);
    rp_jit_free(l.f);
}

/* Two ways, two entries, and back. */
static rp_status whole_life(rp_error *err) {
    static const int64_t rows[] = {2, 8, 2, 8};
    rp_jit_options o = jit_options(by_amax);
    rp_jit *f = NULL;
    rp_status st = rp_jit_new(&o, &f, err);
    for (int i = 0; i < 4 && st == RP_OK; i++) {
        rp_output *out = NULL;
        rp_value v = f32_of(x, 2, rows[i], 3), args = rp_value_tuple(&v, 1);
        st = rp_jit_run(f, &args, &out, err);
        if (st == RP_OK)
            check_by_sum(out, x, (int)rows[i] * 3);
        else
            assert_null(out);
        rp_output_free(out);
    }
    rp_jit_free(f);
    return st;
}

static void every_allocation_may_fail(void **state) {
    rp_error err = {0};
    (void)state;
    fill();
    for (int i = 0; i < 2; i++) CHECK_OK(whole_life(&err), &err);
    jit_fail_each_allocation(whole_life, 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_branch_on_data),
        cmocka_unit_test(a_print),
        cmocka_unit_test(states_are_written_in_front_of_a_break),
        cmocka_unit_test(views_of_states_are_as_they_were),
        cmocka_unit_test(the_host_reads_the_version_it_asks_for),
        cmocka_unit_test(a_loop_of_the_host),
        cmocka_unit_test(ways_have_a_limit),
        cmocka_unit_test(a_recording_is_begun_anew),
        cmocka_unit_test(fullgraph_makes_a_break_an_error),
        cmocka_unit_test(failures_behind_a_break),
        cmocka_unit_test(a_way_that_failed_is_compiled_later),
        cmocka_unit_test(what_is_suppressed_says_so),
        cmocka_unit_test(values_are_for_functions),
        cmocka_unit_test(two_functions_call_each_other),
        cmocka_unit_test(a_function_that_calls_itself_is_refused),
        cmocka_unit_test(threads_share_a_recording),
        cmocka_unit_test(a_call_that_waits_looks_again),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
