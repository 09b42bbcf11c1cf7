/* Runs of functions with graph breaks that go as the run before, or nearly: what a run takes over from it (nodes in order, places of values,
 * the memory of values) is what it would have made itself. Argument: how many drawn calls (default 3000). */
#include "support/jits.h"

#include <math.h>
#include <stdlib.h>

#include "front/recording.h"
#include "trace/record.h"

enum { ROWS = 6, OPS = 12 };

static int n_calls = 3000;

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* --- nodes in order --------------------------------------------------------------------------- */

/* What a call draws behind its first break; bit i of change: op i is drawn anew for the call. */
typedef struct program {
    uint32_t seed, call, change;
} program;

/* Of a [ROWS], by ops whose attributes are numbers, sizes, types and orders, through the same lines in every call. */
static rp_tensor draw_op(rp_tensor x, rp_tensor y, uint32_t what, uint32_t k) {
    rp_tensor six =
        rp_reshape(x, RP_SHAPE(1 + k % 3, ROWS / (1 + k % 3))); /* 1 x 6, 2 x 3, 3 x 2 */
    rp_tensor cube = rp_reshape(x, k % 2 ? RP_SHAPE(2, 3, 1) : RP_SHAPE(1, 2, 3));
    switch (what % 9) {
    case 0: return rp_mul_scalar(x, 0.25 * (double)(k % 4));
    case 1: return rp_add_scalar(x, (double)(k % 3) - 1);
    case 2: return k % 2 ? rp_max(x, y) : rp_add(x, y);
    case 3:
        return rp_reshape(rp_broadcast(rp_sum(six, (int)(k / 3 % 2), true), rp_tensor_shape(six)),
                          RP_SHAPE(ROWS));
    case 4: return rp_cast(rp_cast(x, k % 2 ? RP_DTYPE_I32 : RP_DTYPE_F16), RP_DTYPE_F32);
    case 5: {
        const int order[2][3] = {{1, 0, 2}, {2, 1, 0}};
        return rp_reshape(rp_permute(cube, order[k / 2 % 2], 3), RP_SHAPE(ROWS));
    }
    case 6:
        return rp_concat((rp_tensor[]){rp_slice(x, 0, k % 5, ROWS), rp_slice(y, 0, 0, k % 5)}, 2,
                         0);
    case 7: return k % 2 ? rp_neg(x) : rp_abs(x);
    default: return rp_cumsum(x, 0);
    }
}

static rp_status drawn(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    const program *p = user;
    uint32_t seed = p->seed;
    rp_tensor v[3];
    (void)err;
    v[0] = rp_jit_tensor(call, &args->item[0]);
    v[1] = rp_jit_tensor(call, &args->item[1]);
    v[2] = rp_add(v[0], v[1]);
    rp_jit_break(call, "the ways part here");
    for (uint32_t i = 0; i < OPS; i++) {
        uint32_t what = next(&seed), k = next(&seed), at = next(&seed), anew = p->call * 77u + i;
        if (p->change >> i & 1) k = next(&anew);
        v[at % 3] = draw_op(v[at / 3 % 3], v[at / 9 % 3], what, k);
        if (i == OPS / 2) rp_jit_break(call, "another one");
    }
    *result = rp_jit_value(call, rp_add(rp_add(v[0], v[1]), v[2]));
    return RP_OK;
}

static void a_run_that_differs_anywhere_is_its_own(void **state) {
    static float a[ROWS] = {1, -2, 3, 0.5f, -0.25f, 4}, b[ROWS] = {2, 1, -1, 0, 3, -3};
    rp_value v[] = {f32_of(a, 1, ROWS, 0), f32_of(b, 1, ROWS, 0)}, args = rp_value_tuple(v, 2);
    rp_jit *f = NULL, *plain = NULL;
    program p = {0};
    (void)state;
    for (int i = 0; i < n_calls; i++) {
        rp_output *o, *q;
        if (i % 30 == 0) {
            rp_jit_free(f);
            rp_jit_free(plain);
            p.seed = (uint32_t)i + 1;
            f = jit_at(drawn, 1, RP_DYNAMIC_NONE, &p);
            plain = jit_at(drawn, 0, RP_DYNAMIC_NONE, &p);
        }
        p.call = (uint32_t)i % 7;
        p.change = i % 3 ? 1u << i % OPS : 0;
        o = jit_ok(f, &args);
        q = jit_ok(plain, &args);
        assert_memory_equal(jit_result(o)->tensor.data, jit_result(q)->tensor.data, sizeof a);
        rp_output_free(o);
        rp_output_free(q);
    }
    rp_jit_free(f);
    rp_jit_free(plain);
}

static const front_recording *recording_of(const rp_jit *f) {
    assert_int_equal(f->n_entries, 1);
    return f->entries->recording;
}

static void equal_runs_take_over_every_node(void **state) {
    static float a[ROWS] = {1, 2, 3, 4, 5, 6}, b[ROWS] = {6, 5, 4, 3, 2, 1};
    rp_value v[] = {f32_of(a, 1, ROWS, 0), f32_of(b, 1, ROWS, 0)}, args = rp_value_tuple(v, 2);
    program p = {.seed = 4};
    rp_jit *f = jit_at(drawn, 1, RP_DYNAMIC_NONE, &p);
    uint32_t n = 0, nodes = 0;
    (void)state;
    for (int i = 0; i < 8; i++) {
        rp_output_free(jit_ok(f, &args));
        const front_recording *rec = recording_of(f);
        if (i == 2) n = rec->asked.path.n;
        if (i == 2) nodes = ir_graph_count(rec->g->ir);
        if (i < 2) continue;
        assert_int_equal(rec->asked.path.n, n);
        assert_int_equal(rec->asked.path.next, n);
        assert_int_equal(ir_graph_count(rec->g->ir), nodes);
    }
    assert_in_range(n, OPS, nodes);
    rp_jit_free(f);
}

/* The node that the path has for this; IR_NONE: none. */
static ir_ref followed(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n, const ir_attr *attrs,
                       uint32_t n_attrs) {
    rp_tensor x = trace_path_follow(g, op, in, n, attrs, n_attrs);
    assert_true(!x.graph || (x.graph == g && x.id == g->id));
    return x.graph ? x.ref : IR_NONE;
}

/* Each thing that tells one node from another, alone. */
static void a_node_is_told_by_all_that_makes_it(void **state) {
    rp_graph *g = rp_graph_new("told"), *h = rp_graph_new("other");
    trace_asked asked = {.first = 1, .now = 1};
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3));
    rp_tensor y = rp_input(g, "y", RP_DTYPE_F32, RP_SHAPE(2, 3));
    rp_tensor in[] = {x, y}, strange = rp_input(h, "x", RP_DTYPE_F32, RP_SHAPE(2, 3));
    ir_ref sum = rp_sum(x, 1, true).ref;
    ir_attr is[] = {{.key = IR_ATTR_AXIS, .u.i = 1}, {.key = IR_ATTR_KEEP, .u.i = 1}};
    ir_attr swapped[] = {is[1], is[0]}, other[] = {is[0], is[1]};
    (void)state;
    rp_tensor kept = x; /* from an earlier run */
    kept.id = g->id + 1;
    g->asked = &asked;
    assert_true(trace_ask(g, sum));
    asked.at[sum] = 0;
    trace_path_note(g, sum, is, 2);
    assert_int_equal(followed(g, IR_sum, in, 1, is, 2), IR_NONE); /* nothing is next */
    asked.path.next = 0;
    other[0].u.i = 0;
    assert_int_equal(strange.ref, x.ref);
    assert_int_equal(followed(g, IR_sum, &strange, 1, is, 2), IR_NONE);
    strange.id = 0; /* not told */
    assert_int_equal(followed(g, IR_sum, &strange, 1, is, 2), IR_NONE);
    assert_int_equal(followed(g, IR_sum, &kept, 1, is, 2), IR_NONE);
    assert_int_equal(followed(g, IR_sum, in, 1, swapped, 2), IR_NONE);
    assert_int_equal(followed(g, IR_sum, in, 1, other, 2), IR_NONE);
    assert_int_equal(followed(g, IR_sum, in, 1, is, 1), IR_NONE);
    assert_int_equal(followed(g, IR_sum, in, 2, is, 2), IR_NONE);
    assert_int_equal(followed(g, IR_sum, &y, 1, is, 2), IR_NONE);
    assert_int_equal(followed(g, IR_amax, in, 1, is, 2), IR_NONE);
    g->err.code = RP_INVALID;
    assert_int_equal(followed(g, IR_sum, in, 1, is, 2), IR_NONE);
    g->err.code = RP_OK;
    assert_int_equal(asked.path.next, 0);
    assert_int_equal(followed(g, IR_sum, in, 1, is, 2), sum);
    assert_int_equal(asked.path.next, 1);
    assert_int_equal(asked.at[sum], 1);
    base_free(asked.path.v);
    base_free(asked.at);
    g->asked = NULL;
    rp_graph_free(g);
    rp_graph_free(h);
}

/* --- memory of values ------------------------------------------------------------------------- */

/* In the block that is kept, or in one of the run, of two values at most; elsewhere the host reads a copy of what lies there. */
static bool is_owned(const front_room *m, const void *p, size_t bytes) {
    if (runs_elsewhere()) return p != NULL;
    uintptr_t kept = (uintptr_t)m->data, at = (uintptr_t)p;
    bool owned = m->data && at >= kept && at + bytes <= kept + m->size;
    for (uint32_t i = 0; i < m->n_owned; i++) {
        uintptr_t from = (uintptr_t)m->owned[i];
        owned = owned || (at >= from && at <= from + bytes + 64);
    }
    return owned;
}

/* x + 1, which the host reads, and twice that, of any size. */
static rp_status read_and_doubled(void *user, rp_jit_call *call, const rp_value *args,
                                  rp_value *result, rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = rp_add_scalar(x, 1);
    (void)err;
    rp_buffer seen = rp_jit_read(call, y);
    rp_tensor z = rp_neg(y);
    rp_buffer other = rp_jit_read(call, z);
    const float *p = seen.data, *q = other.data;
    const front_room *m = &call->session->rec->room;
    size_t bytes = (size_t)seen.dim[0] * sizeof *p;
    *(int *)user += !is_owned(m, p, bytes) || !is_owned(m, q, bytes);
    for (int64_t i = 0; p && q && i < seen.dim[0]; i++) *(int *)user += p[i] != -q[i];
    *result = rp_jit_value(call, rp_sub(y, z));
    return RP_OK;
}

static void values_of_any_size_have_memory(void **state) {
    enum { MOST = 300000 }; /* more than is kept from run to run */
    static const int64_t sizes[] = {3,    3,    20, 4,      1000, 1000, 3,
                                    MOST, MOST, 5,  100000, 3,    1000, MOST};
    static float x[MOST];
    int wrong = 0;
    rp_jit *f = jit_at(read_and_doubled, 1, RP_DYNAMIC_ALL, &wrong);
    (void)state;
    for (int i = 0; i < MOST; i++) x[i] = (float)(i % 101) - 40;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        rp_value v = f32_of(x, 1, sizes[k], 0), args = rp_value_tuple(&v, 1);
        rp_output *o = jit_ok(f, &args);
        const float *y = jit_result(o)->tensor.data;
        for (int64_t i = 0; i < sizes[k]; i++) assert_true(y[i] == 2 * (x[i] + 1));
        rp_output_free(o);
        assert_int_equal(wrong, 0);
        assert_in_range(recording_of(f)->room.size, 0, 1 << 20);
        assert_int_equal(recording_of(f)->room.n_owned, 0);
        assert_int_equal(recording_of(f)->room.used, 0);
    }
    rp_jit_free(f);
}

/* --- memory of arguments ----------------------------------------------------------------------- */

/* The state is x + 1 from the break on, and what is read of x behind it is x. */
static rp_status overwriting(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor memory = rp_jit_tensor(call, &args->item[0]), x = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    (void)rp_update(memory, rp_add_scalar(x, 1));
    rp_jit_break(call, "the state is written");
    *result = rp_jit_value(call, rp_mul_scalar(x, 2));
    return RP_OK;
}

static void what_lies_in_a_state_keeps_its_value(void **state) {
    rp_jit *f = jit_at(overwriting, 1, RP_DYNAMIC_NONE, NULL);
    (void)state;
    for (int i = 0; i < 4; i++) {
        float memory[4] = {1, 2, 3, (float)i};
        rp_error err = {0};
        rp_output *o = NULL;
        rp_value v[] = {f32_of(memory, 1, 4, 0), f32_of(memory, 1, 4, 0)};
        v[0].state = true;
        rp_value args = rp_value_tuple(v, 2);
        o = jit_ok(f, &args);
        const float *y = jit_result(o)->tensor.data;
        for (int k = 0; k < 3; k++) {
            assert_true(y[k] == 2 * (float)(k + 1));
            assert_true(memory[k] == (float)(k + 2));
        }
        rp_output_free(o);
        v[1].state = true;
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
    }
    rp_jit_free(f);
}

/* --- steps made again -------------------------------------------------------------------------- */

/* What the host wants of a call, and does in it. */
typedef struct wants {
    int item; /* 1: the sum, 2: the largest; 0: none */
    bool writes;
    double is;
} wants;

/* -((a + b) * a - b), a step each; c = a where it is written. */
static rp_status in_steps(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    wants *w = user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    rp_tensor y = rp_add(a, b);
    rp_jit_break(call, "the sum is there");
    y = rp_mul(y, a);
    if (w->writes) (void)rp_update(rp_jit_tensor(call, &args->item[2]), a);
    rp_jit_break(call, "and the product");
    y = rp_sub(y, b);
    if (w->item)
        w->is = rp_item(w->item == 1 ? rp_sum(y, 0, false) : rp_amax(y, 0, false));
    else
        rp_jit_break(call, "nothing is wanted");
    *result = rp_jit_value(call, rp_neg(y));
    return RP_OK;
}

/* Each call with memory of other places, as it goes: sizes, what the host wants, and whether something is written differ now and then. */
static void steps_are_made_again_elsewhere(void **state) {
    enum { MOST = 8, PLACES = 5 };
    static float a[PLACES][MOST], b[PLACES][MOST], c[MOST];
    wants w = {0};
    rp_jit *f = jit_at(in_steps, 1, RP_DYNAMIC_ALL, &w);
    (void)state;
    for (int p = 0; p < PLACES; p++)
        for (int k = 0; k < MOST; k++) {
            a[p][k] = (float)(k * 3 + p * 5) - 9;
            b[p][k] = (float)(k - p * 2);
        }
    for (int i = 0; i < 240; i++) {
        const int n = i % 40 < 20 ? 3 : 3 + i % 6;
        float *x = a[i * 7 / 3 % PLACES], *y = b[i * 3 % PLACES], sum = 0, most = -INFINITY;
        rp_value v[] = {f32_of(x, 1, n, 0), f32_of(y, 1, n, 0), f32_of(c, 1, n, 0)};
        rp_value args = rp_value_tuple(v, 3);
        w.item = i / 5 % 3;
        w.writes = i / 60 % 2 && i % 3 == 0;
        memset(c, 0, sizeof c);
        rp_output *o = jit_ok(f, &args);
        const float *is = jit_result(o)->tensor.data;
        for (int k = 0; k < n; k++) {
            const float want = (x[k] + y[k]) * x[k] - y[k];
            assert_true(is[k] == -want);
            assert_true(c[k] == (w.writes ? x[k] : 0));
            sum += want;
            most = fmaxf(most, want);
        }
        if (w.item) assert_true(w.is == (double)(w.item == 1 ? sum : most));
        rp_output_free(o);
    }
    rp_jit_free(f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_differs_anywhere_is_its_own),
        cmocka_unit_test(equal_runs_take_over_every_node),
        cmocka_unit_test(a_node_is_told_by_all_that_makes_it),
        cmocka_unit_test(values_of_any_size_have_memory),
        cmocka_unit_test(what_lies_in_a_state_keeps_its_value),
        cmocka_unit_test(steps_are_made_again_elsewhere),
    };
    if (argc > 1) n_calls = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
