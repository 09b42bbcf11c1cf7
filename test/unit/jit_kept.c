/* Tensors and sizes that a function keeps from one call to the next: an error of the call that uses them, whatever they are used for, and
 * whatever lies at their place now. */
#include "support/jits.h"

#include <pthread.h>
#include <semaphore.h>

enum { N = 4 };

typedef enum use {
    USE_OPERAND,
    USE_FIRST,
    USE_SHAPE,
    USE_AXIS,
    USE_MATMUL,
    USE_RESULT,
    USE_ITEM,
    USE_ITEM_ITSELF,
    USE_READ,
    USE_COND,
    USE_SIZE,
    USE_QUESTION,
    USE_VALUE,
    USE_VALUE_AS_RESULT,
    USES
} use;

static struct {
    use how;
    bool breaks, keep;
    rp_tensor x;
    rp_dim n;
    rp_value v;
} kept;

static void same(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                 void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_neg(in[0]);
}

static rp_tensor misuse(rp_jit_call *call, rp_tensor x) {
    rp_tensor out[1];
    switch (kept.how) {
    case USE_FIRST: return rp_mul(kept.x, x);
    case USE_SHAPE: return rp_broadcast(x, rp_tensor_shape(kept.x));
    case USE_AXIS: return rp_add(rp_sum(kept.x, 0, true), x);
    case USE_MATMUL: return rp_add(rp_matmul(kept.x, x, false), x);
    case USE_RESULT: return kept.x;
    case USE_ITEM: return rp_mul_scalar(x, rp_item(rp_sum(kept.x, 0, false)));
    case USE_ITEM_ITSELF: return rp_mul_scalar(x, rp_item(kept.x));
    case USE_READ: return rp_jit_read(call, kept.x).data ? x : rp_neg(x);
    case USE_COND:
        return rp_cond(rp_item(rp_sum(x, 0, false)) > 0 ? kept.x : kept.x, same, same, NULL, &x, 1,
                       out, 1);
    case USE_SIZE: return rp_broadcast(rp_sum(x, 0, true), RP_SHAPE(rp_dim_add(kept.n, 1)));
    case USE_QUESTION: return rp_dim_gt(kept.n, 2) ? x : rp_neg(x);
    case USE_VALUE: return rp_add(x, rp_jit_tensor(call, &kept.v));
    default: return rp_add(x, kept.x);
    }
}

static rp_status keeping(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = rp_mul_scalar(x, 2);
    (void)user, (void)err;
    if (kept.breaks) rp_jit_break(call, "builtin: print");
    if (kept.keep) {
        kept.x = y;
        kept.n = rp_tensor_dim(x, 0);
        kept.v = rp_jit_value(call, y);
        y = rp_add_scalar(y, 1);
    } else if (kept.how == USE_VALUE_AS_RESULT) {
        (void)rp_jit_value(call, y);
        *result = kept.v;
        return RP_OK;
    } else {
        y = misuse(call, x);
    }
    *result = rp_jit_value(call, y);
    return RP_OK;
}

static rp_status run(rp_jit *f, int64_t n, rp_error *err) {
    float x[N + 8] = {1, 2, 3, 4};
    rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
    rp_output *o = NULL;
    rp_status st = rp_jit_run(f, &args, &o, err);
    rp_output_free(o);
    return st;
}

/* between: graphs that are traced and freed meanwhile, so that their places are used again. */
static void check_use(use how, int level, bool breaks, int between) {
    rp_error err = {0};
    rp_jit *f = jit_at(keeping, level, RP_DYNAMIC_ALL, NULL);
    kept.how = how;
    kept.breaks = breaks;
    kept.keep = true;
    CHECK_OK(run(f, N, &err), &err);
    for (int i = 0; i < between; i++) rp_graph_free(rp_graph_new("other"));
    kept.keep = false;
    if (!breaks)
        rp_jit_reset(f); /* with breaks the function runs at each call, on the same recording */
    rp_status st = run(f, N, &err);
    bool symbol = kept.n.graph != NULL;
    if (symbol || (how != USE_SIZE && how != USE_QUESTION)) {
        if (st != RP_INVALID) fail_msg("use %d, level %d: taken", (int)how, level);
        bool told = strstr(err.text, "kept from an earlier call") ||
                    strstr(err.text, "another graph than this call's") ||
                    strstr(err.text, "no tensor of the arguments of this call") ||
                    strstr(err.text, "a tensor that is not of this call") ||
                    strstr(err.text, "is not a tensor of graph");
        if (!told) fail_msg("use %d, level %d: %s", (int)how, level, err.text);
    }
    rp_jit_free(f);
}

static void what_is_kept_is_refused(void **state) {
    (void)state;
    for (int level = 0; level <= 1; level++)
        for (int how = 0; how < USES; how++)
            for (int breaks = 0; breaks < 2; breaks++) {
                check_use((use)how, level, breaks, 0);
                check_use((use)how, level, breaks, 511);
                check_use((use)how, level, breaks, 1000);
            }
}

/* Nor is there a tensor of a call that it was not given. */
static rp_status adds_leaf(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_graph *g = rp_jit_graph(call);
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = x;
    const int how = *(int *)user;
    (void)err;
    if (how > 3) rp_jit_break(call, "builtin: print");
    if (how % 4 == 0) y = rp_input(g, "extra", RP_DTYPE_F32, rp_tensor_shape(x));
    if (how % 4 == 1) y = rp_mutable_input(g, "extra", RP_DTYPE_F32, rp_tensor_shape(x));
    if (how % 4 == 2) y = rp_param(g, "extra", RP_DTYPE_F32, rp_tensor_shape(x));
    if (how % 4 == 3) y = rp_state(g, "extra", RP_DTYPE_F32, rp_tensor_shape(x));
    *result = rp_jit_value(call, rp_add(x, y));
    return RP_OK;
}

static void inputs_are_arguments(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level++)
        for (int how = 0; how < 8; how++) {
            rp_error err = {0};
            rp_jit *f = jit_at(adds_leaf, level, RP_DYNAMIC_AUTO, &how);
            for (int i = 0; i < 2; i++) {
                err = (rp_error){0};
                assert_int_equal(run(f, N, &err), RP_INVALID);
                if (!strstr(err.text, "jit_kept.c:") ||
                    !strstr(err.text, ": 'extra' is no argument of the call; a function that "))
                    fail_msg("%d: %s", how, err.text);
            }
            rp_jit_free(f);
        }
}

static rp_status failing(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user, (void)call, (void)args, (void)result, (void)err;
    return RP_DEVICE;
}

/* Calls a function that fails, and does not mind. */
static rp_status around_a_failure(void *user, rp_jit_call *call, const rp_value *args,
                                  rp_value *result, rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    rp_error ignored = {0};
    (void)err;
    assert_int_equal(run(user, N, &ignored), RP_DEVICE);
    if (!kept.keep) (void)rp_neg(kept.x);
    *result = rp_jit_value(call, rp_neg(x));
    return RP_OK;
}

/* What is kept is told to the call that uses it, also behind one within that failed. */
static void a_call_that_failed_is_over(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level++) {
        rp_error err = {0};
        rp_jit *f = jit_at(keeping, 1, RP_DYNAMIC_ALL, NULL);
        rp_jit *inner = jit_at(failing, level, RP_DYNAMIC_ALL, NULL);
        rp_jit *outer = jit_at(around_a_failure, level, RP_DYNAMIC_ALL, inner);
        kept.breaks = false;
        kept.keep = true;
        CHECK_OK(run(f, N, &err), &err);
        kept.keep = false;
        assert_int_equal(run(outer, N, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "kept from an earlier call"));
        kept.keep = true;
        CHECK_OK(run(outer, N, &err), &err);
        rp_jit_free(outer);
        rp_jit_free(inner);
        rp_jit_free(f);
    }
}

static void keeping_its_own(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                            uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    kept.x = out[0] = rp_neg(in[0]);
}

/* A graph of a branch goes with the one around it. */
static void what_is_kept_of_a_branch_is_refused(void **state) {
    rp_error err = {0};
    rp_tensor y;
    (void)state;
    rp_graph *g = rp_graph_new("around");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N));
    rp_tensor more = rp_gt(rp_sum(x, 0, false), rp_const(g, RP_DTYPE_F32, 1));
    rp_cond(more, keeping_its_own, same, NULL, &x, 1, &y, 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    rp_graph_free(g);
    g = rp_graph_new("later");
    y = rp_add(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N)), kept.x);
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    rp_graph_free(g);
}

/* Beside more graphs than the process has places for from the start. */
static void what_is_kept_of_many_graphs_is_refused(void **state) {
    enum { MANY = 600 };
    static rp_graph *g[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++) assert_non_null(g[i] = rp_graph_new("one"));
    for (int level = 0; level <= 1; level++)
        for (int between = 0; between < 200; between += 100) {
            rp_error err = {0};
            rp_jit *f = jit_at(keeping, level, RP_DYNAMIC_ALL, NULL);
            kept.how = USE_OPERAND;
            kept.breaks = false;
            kept.keep = true;
            CHECK_OK(run(f, N, &err), &err);
            for (int i = 0; i < between; i++) rp_graph_free(rp_graph_new("other"));
            kept.keep = false;
            rp_jit_reset(f);
            assert_int_equal(run(f, N, &err), RP_INVALID);
            if (!strstr(err.text, "kept from an earlier call"))
                fail_msg("level %d: %s", level, err.text);
            rp_jit_free(f);
        }
    for (int i = 0; i < MANY; i++) rp_graph_free(g[i]);
}

/* More graphs at once than there are places. */
static void any_number_of_graphs_lives_at_once(void **state) {
    enum { MANY = 1500 };
    static rp_graph *g[MANY];
    rp_error err = {0};
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < MANY; i++) assert_non_null(g[i] = rp_graph_new("one"));
        for (int i = 0; i < MANY; i++) {
            rp_tensor x = rp_neg(rp_input(g[i], "x", RP_DTYPE_F32, RP_SHAPE(i + 1)));
            CHECK_OK(rp_graph_finish(g[i], &x, 1, &err), &err);
            rp_graph_free(g[i]);
        }
    }
}

/* --- whose call fails ------------------------------------------------------------------------- */

static sem_t begins, inside, goes_on;

static void await(sem_t *s) {
    while (sem_wait(s) != 0) {
    }
}

/* Uses what was kept while another thread is inside of its trace, which began later. */
static rp_status misusing(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    (void)sem_post(&begins);
    await(&inside);
    rp_tensor y = rp_neg(kept.x);
    (void)sem_post(&goes_on);
    *result = rp_jit_value(call, rp_add(x, y));
    return RP_OK;
}

static rp_status waiting(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    (void)sem_post(&inside);
    await(&goes_on);
    *result = rp_jit_value(call, rp_neg(x));
    return RP_OK;
}

typedef struct other {
    rp_jit *f;
    rp_status st;
    rp_error err;
} other;

static void *call_other(void *user) {
    other *o = user;
    await(&begins);
    o->st = run(o->f, N, &o->err);
    return NULL;
}

static void the_call_of_the_thread_fails(void **state) {
    (void)state;
    for (int level = 0; level <= 1; level++) {
        rp_error err = {0};
        pthread_t thread;
        rp_jit *before = jit_at(keeping, level, RP_DYNAMIC_ALL, NULL);
        rp_jit *f = jit_at(misusing, level, RP_DYNAMIC_NONE, NULL); /* runs once */
        other o = {.f = jit_at(waiting, level, RP_DYNAMIC_ALL, NULL)};
        assert_int_equal(sem_init(&begins, 0, 0), 0);
        assert_int_equal(sem_init(&inside, 0, 0), 0);
        assert_int_equal(sem_init(&goes_on, 0, 0), 0);
        kept.keep = true;
        kept.breaks = false;
        CHECK_OK(run(before, N, &err), &err);
        rp_jit_free(before);
        assert_int_equal(pthread_create(&thread, NULL, call_other, &o), 0);
        rp_status st = run(f, N, &err);
        assert_int_equal(pthread_join(thread, NULL), 0);
        CHECK_OK(o.st, &o.err);
        assert_int_equal(st, RP_INVALID);
        assert_non_null(strstr(err.text, "kept from an earlier call"));
        rp_jit_free(f);
        rp_jit_free(o.f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_refused),
        cmocka_unit_test(inputs_are_arguments),
        cmocka_unit_test(a_call_that_failed_is_over),
        cmocka_unit_test(the_call_of_the_thread_fails),
        cmocka_unit_test(what_is_kept_of_a_branch_is_refused),
        cmocka_unit_test(what_is_kept_of_many_graphs_is_refused),
        cmocka_unit_test(any_number_of_graphs_lives_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
