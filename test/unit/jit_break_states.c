/* States and the host behind graph breaks: which contents each of them sees. */
#include <math.h>
#include <stdlib.h>

#include "front/recording.h"
#include "support/breaks.h"

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

/* Both ways come to the same write, in front of which each has made something else of what it overwrites. */
static rp_status overwritten(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor memory = rp_jit_tensor(call, &args->item[0]);
    rp_tensor a = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    bool first = rp_item(rp_sum(a, 0, false)) > 0;
    rp_tensor kept = first ? rp_add_scalar(memory, 1) : rp_neg(memory);
    (void)rp_update(memory, rp_mul_scalar(a, 2));
    rp_jit_break(call, "memory is written");
    *result = rp_jit_value(call, rp_add(kept, a));
    return RP_OK;
}

static void two_ways_to_one_write(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        int level = i / 2 % 2 + 1;
        bool is_state = i / 4;
        float memory[4] = {5, 6, 7, 8};
        rp_jit *f = make(overwritten, level, NULL);
        for (int k = 0; k < 6; k++) {
            const bool first = k % 2 == i % 2;
            const float by = first ? 1 : -1, was = memory[0];
            float a[4] = {by * (float)(k + 1), by, by, by};
            rp_value v[] = {f32_of(memory, 1, 4, 0), f32_of(a, 1, 4, 0)};
            v[0].state = is_state;
            rp_value args = rp_value_tuple(v, 2);
            rp_output *o = jit_ok(f, &args);
            const float *is = jit_result(o)->tensor.data;
            assert_true(is[0] == (first ? was + 1 : -was) + a[0]);
            assert_true(memory[0] == 2 * a[0]);
            rp_output_free(o);
        }
        assert_int_equal(jit_info(f).compiles, 2);
        rp_jit_free(f);
    }
}

/* user: whether a break, or the end of the function, needs what was overwritten. */
static rp_status too_late(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_tensor memory = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    (void)rp_update(memory, rp_neg(memory));
    rp_jit_break(call, "memory is written");
    rp_tensor sum = rp_sum(memory, 0, false);
    if (*(bool *)user) (void)rp_item(sum);
    *result = rp_jit_value(call, sum);
    return RP_OK;
}

static void what_is_overwritten_is_not_read(void **state) {
    const int line = __LINE__ - 7; /* of the sum */
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool at_break = i % 2;
        char want[320], item[160];
        rp_error err = {0};
        rp_output *o = NULL;
        float memory[4] = {5, 6, 7, 8};
        rp_jit *f = make(too_late, i / 2, &at_break);
        rp_value v = f32_of(memory, 1, 4, 0), args = rp_value_tuple(&v, 1);
        v.state = true;
        (void)snprintf(item, sizeof item, at_break ? "%s:%d: " : "", __FILE__, line + 1);
        (void)snprintf(want, sizeof want, "forward: %s%s:%d: f32[4] is read behind", item, __FILE__,
                       line);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_UNSUPPORTED);
        if (strncmp(err.text, want, strlen(want)) != 0) fail_msg("%s, not %s", err.text, want);
        rp_jit_free(f);
    }
}

/* The same of an argument that is no state: the sum is that of before. */
static void what_an_argument_was_is_read(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        bool at_break = i % 2;
        float memory[4] = {5, 6, 7, 8};
        rp_jit *f = make(too_late, i / 2, &at_break);
        rp_value v = f32_of(memory, 1, 4, 0), args = rp_value_tuple(&v, 1);
        for (int k = 0; k < 4; k++) {
            const float was[4] = {memory[0], memory[1], memory[2], memory[3]};
            rp_output *o = jit_ok(f, &args);
            assert_true(*(const float *)jit_result(o)->tensor.data ==
                        was[0] + was[1] + was[2] + was[3]);
            for (int j = 0; j < 4; j++) assert_true(memory[j] == -was[j]);
            assert_int_equal(rp_output_ran(o), i / 2 == 0 ? RP_RAN_EAGER
                                               : k == 0   ? RP_RAN_CAPTURE
                                                          : RP_RAN_REPLAY);
            rp_output_free(o);
        }
        rp_jit_free(f);
    }
}

/* The argument is 4 ones: 2, 3 and 4 are its versions, of which the first and the second are read when the third is there. */
static rp_status all_versions(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    rp_tensor one = rp_update(a, rp_add_scalar(a, 1));
    rp_tensor two = rp_update(one, rp_add_scalar(one, 1));
    rp_jit_break(call, "two versions in one piece");
    rp_tensor three = rp_update(two, rp_add_scalar(two, 1));
    rp_jit_break(call, "a third one");
    *result = rp_jit_value(
        call, rp_add(rp_mul_scalar(a, 1000),
                     rp_add(rp_mul_scalar(one, 100), rp_add(rp_mul_scalar(two, 10), three))));
    return RP_OK;
}

static void each_version_is_what_it_was(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level++) {
        rp_jit *f = make(all_versions, level, NULL);
        for (int k = 0; k < 4; k++) {
            float memory[4] = {1, 1, 1, 1};
            rp_value v = f32_of(memory, 1, 4, 0), args = rp_value_tuple(&v, 1);
            rp_output *o = jit_ok(f, &args);
            for (int j = 0; j < 4; j++) {
                assert_true(((const float *)jit_result(o)->tensor.data)[j] == 1234);
                assert_true(memory[j] == 4);
            }
            rp_output_free(o);
        }
        rp_jit_free(f);
    }
}

static float written_by_host[4];

/* args: one, at written_by_host, which the host writes behind a break. */
static rp_status host_writes(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), v, i;
    (void)user, (void)err;
    rp_tensor twice = rp_mul_scalar(a, 2), more = rp_add_scalar(twice, 1);
    rp_topk(a, 1, &v, &i);
    rp_jit_break(call, "a library that writes");
    for (int k = 0; k < 4; k++) written_by_host[k] += 100;
    rp_tensor all[] = {twice, more, rp_broadcast(v, RP_SHAPE(4)),
                       rp_broadcast(rp_cast(i, RP_DTYPE_F32), RP_SHAPE(4)), a};
    static rp_value out[5];
    for (int k = 0; k < 5; k++) out[k] = rp_jit_value(call, all[k]);
    *result = rp_value_tuple(out, 5);
    return RP_OK;
}

/* What was asked for in front of a break has values of then in every call, the first and those op by op, too. */
static void host_code_writes_behind_what_was_asked_for(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level++) {
        rp_jit *f = make(host_writes, level, NULL);
        for (int k = 0; k < 4; k++) {
            for (int j = 0; j < 4; j++) written_by_host[j] = (float)(j + k);
            rp_value v = f32_of(written_by_host, 1, 4, 0), args = rp_value_tuple(&v, 1);
            rp_output *o = jit_ok(f, &args);
            const rp_value *is = jit_result(o);
            for (int j = 0; j < 4; j++) {
                const float was = (float)(j + k);
                assert_true(((const float *)is->item[0].tensor.data)[j] == 2 * was);
                assert_true(((const float *)is->item[1].tensor.data)[j] == 2 * was + 1);
                assert_true(((const float *)is->item[2].tensor.data)[j] == (float)(3 + k));
                assert_true(((const float *)is->item[3].tensor.data)[j] == 3);
                assert_true(((const float *)is->item[4].tensor.data)[j] == was + 100);
            }
            rp_output_free(o);
        }
        rp_jit_free(f);
    }
}

/* Two memories of one form, of which a run asks one after the other. */
static rp_status pairing(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), one, other;
    rp_graph *g = rp_jit_graph(call);
    (void)user, (void)err;
    one = rp_update(rp_empty(g, RP_DTYPE_F32, RP_SHAPE(4)), rp_add_scalar(a, 1));
    other = rp_update(rp_empty(g, RP_DTYPE_F32, RP_SHAPE(4)), rp_add_scalar(a, 1));
    rp_jit_break(call, "a look at memory");
    other = rp_update(other, rp_mul_scalar(a, 3));
    *result = rp_jit_value(call, rp_sub(one, other));
    return RP_OK;
}

static void memory_that_is_asked_for_twice_is_two(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level += 2) {
        rp_jit *f = make(pairing, level, NULL);
        for (int i = 0; i < 4; i++) {
            float a[4] = {(float)i, 2, -3, 0.5f}, want[4];
            rp_value v = f32_of(a, 1, 4, 0), args = rp_value_tuple(&v, 1);
            for (int k = 0; k < 4; k++) want[k] = a[k] + 1 - a[k] * 3;
            rp_output *o = jit_ok(f, &args);
            assert_memory_equal(jit_result(o)->tensor.data, want, sizeof want);
            rp_output_free(o);
        }
        rp_jit_free(f);
    }
}

/* Of what its runs take, a recording keeps little. */
static int n_told;

static rp_status tell(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    (void)call, (void)n_args, (void)err;
    n_told++;
    memcpy(args[1].data, args[0].data, 4 * sizeof(float));
    return RP_OK;
}

enum { FIRST_UNREAD = 1, SECOND_UNREAD = 2, READ_LATER = 4, ASKED_AGAIN = 8, ALL_TOLD = 16 };

static int n_told_of(int how) {
    bool first = how & (FIRST_UNREAD | READ_LATER | ASKED_AGAIN);
    return first + !!(how & SECOND_UNREAD);
}

/* A call whose result nobody reads is done at its place: in front of the break, or behind it; and one that is read behind it, or asked for again there, once. */
static rp_status telling(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), told = a;
    rp_graph *g = rp_jit_graph(call);
    const rp_shape shape = rp_tensor_shape(a);
    (void)user, (void)err;
    double how = rp_item(rp_slice(a, 0, 0, 1));
    const int is = (int)how, before = n_told;
    if (how != how) return RP_INVALID;
    if (n_told_of(is & ~SECOND_UNREAD))
        told = rp_custom(g, "breaks::tell", &a, 1, RP_DTYPE_F32, shape);
    rp_jit_break(call, "a look at who was told");
    if (!rp_jit_failed(call)) assert_int_equal(n_told - before, n_told_of(is & ~SECOND_UNREAD));
    if (is & SECOND_UNREAD) {
        rp_tensor y = rp_add_scalar(a, 1);
        (void)rp_custom(g, "breaks::tell", &y, 1, RP_DTYPE_F32, shape);
    }
    if (is & ASKED_AGAIN) told = rp_custom(g, "breaks::tell", &a, 1, RP_DTYPE_F32, shape);
    *result = rp_jit_value(call, rp_neg(is & READ_LATER ? told : a));
    return RP_OK;
}

static void what_the_host_is_told_it_is_told_once(void **state) {
    const rp_op_desc d = {.size = sizeof d, .name = "breaks::tell", .n_results = 1, .cpu = tell};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    for (int level = 0; level <= 2; level++) {
        rp_jit *f = make(telling, level, NULL);
        for (int i = 0; i < 3 * ALL_TOLD; i++) {
            const int how = i * 7 % ALL_TOLD;
            float a[4] = {(float)how, 1, 2, 3};
            rp_value v[] = {f32_of(a, 1, 4, 0)}, args = rp_value_tuple(v, 1);
            n_told = 0;
            rp_output *o = jit_ok(f, &args);
            assert_int_equal(n_told, n_told_of(how));
            const float *y = jit_result(o)->tensor.data;
            for (int k = 0; k < 4; k++) assert_true(y[k] == -a[k]);
            rp_output_free(o);
        }
        rp_jit_free(f);
    }
}

/* x = x * 2 - 1, looked at each time. n_held: how often it then had a value that a later step need not compute again. */
typedef struct loop {
    int turns, n_held;
} loop;

static rp_status looping(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    loop *l = user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    for (int i = 0; i < l->turns; i++) {
        a = rp_add_scalar(rp_mul_scalar(a, 2), -1);
        if (rp_item(rp_sum(a, 0, false)) > 1e30) break;
        if (call->session) l->n_held += front_holds(call->session, a.ref);
        if (call->session) assert_true(call->session->kept_bytes <= FRONT_KEPT_ON_THE_WAY);
    }
    *result = rp_jit_value(call, a);
    return RP_OK;
}

static int held_of(int level, int turns, float *data, int n) {
    loop l = {.turns = turns};
    rp_value v[] = {f32_of(data, 1, n, 0)}, args = rp_value_tuple(v, 1);
    rp_jit *f = make(looping, level, &l);
    rp_output *o = jit_ok(f, &args);
    const float *y = jit_result(o)->tensor.data;
    for (int i = 0; i < n; i += n / 4) assert_true(y[i] == 1 - ldexpf(1 - data[i], turns));
    rp_output_free(o);
    rp_jit_free(f);
    return l.n_held;
}

/* Breaks in a loop: what lies in front of one is not computed again at the next, also while nobody knows what will be read, as far as there is room. */
static void nothing_is_computed_again(void **state) {
    enum { LARGE = 10000000 };
    float small[4] = {1, 0.5f, 2, 1}, *large = calloc(LARGE, sizeof *large);
    (void)state;
    assert_non_null(large);
    for (int level = 0; level <= 2; level++) assert_int_equal(held_of(level, 20, small, 4), 20);
    const int held = held_of(0, 6, large, LARGE);
    assert_true(held > 1 && held < 6);
    free(large);
}

static void a_recording_keeps_little(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    front_room room = {0};
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    room.wanted = 4096;
    front_room_clear(&room, d, false);
    assert_int_equal(room.size, 0);
    room.wanted = 4096;
    front_room_clear(&room, d, true);
    assert_int_equal(room.size, 4096);
    room.wanted = FRONT_MOST_KEPT + FRONT_OWN_ALIGN;
    front_room_clear(&room, d, true);
    assert_int_equal(room.size, FRONT_MOST_KEPT);
    assert_int_equal(room.wanted, 0);
    front_room_done(&room);
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_written_in_front_of_a_break),
        cmocka_unit_test(views_of_states_are_as_they_were),
        cmocka_unit_test(the_host_reads_the_version_it_asks_for),
        cmocka_unit_test(two_ways_to_one_write),
        cmocka_unit_test(what_is_overwritten_is_not_read),
        cmocka_unit_test(what_an_argument_was_is_read),
        cmocka_unit_test(each_version_is_what_it_was),
        cmocka_unit_test(host_code_writes_behind_what_was_asked_for),
        cmocka_unit_test(memory_that_is_asked_for_twice_is_two),
        cmocka_unit_test(what_the_host_is_told_it_is_told_once),
        cmocka_unit_test(nothing_is_computed_again),
        cmocka_unit_test(a_recording_keeps_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
