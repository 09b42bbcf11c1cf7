/* Graph breaks and others: functions inside of functions, threads that share what was recorded. */
#include "support/breaks.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

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
    (void)alarm(60); /* nobody holds what was recorded any more */
    (void)learn(&l);
    (void)alarm(0);
    rp_jit_free(l.f);
}

/* A run that learns of sizes while the call that made the entry tells its guards: they are told under the lock, and nothing but the lock orders
 * the two for who looks (the thread sanitizer): the flags here do not. */
static atomic_int telling; /* 1: an entry's guards have been printed; 2: they have changed since */

static void wait_until(int what) {
    while (atomic_load_explicit(&telling, memory_order_relaxed) != what) (void)sched_yield();
}

static void guards_told(void *user, rp_log_level level, const char *text) {
    (void)user, (void)level, (void)text;
    if (atomic_load_explicit(&telling, memory_order_relaxed)) return;
    atomic_store_explicit(&telling, 1, memory_order_relaxed);
    wait_until(2);
}

static void *learn_meanwhile(void *user) {
    wait_until(1);
    (void)learn(user);
    atomic_store_explicit(&telling, 2, memory_order_relaxed);
    return NULL;
}

static void guards_change_while_they_are_told(void **state) {
    float none[12] = {0};
    learner l = {.f = NULL};
    pthread_t thread;
    (void)state;
    l.f = make(learning, 2, &l);
    rp_output_free(run1(l.f, none, 3)); /* the next entry has a symbol */
    atomic_store(&telling, 0);
    assert_int_equal(pthread_create(&thread, NULL, learn_meanwhile, &l), 0);
    rp_log_set_callback(guards_told, NULL);
    assert_int_equal(rp_log_set_channels("guards", NULL), RP_OK);
    (void)alarm(60);
    rp_output_free(run1(l.f, none, 12)); /* which these values do not ask about */
    (void)alarm(0);
    (void)pthread_join(thread, NULL);
    assert_int_equal(rp_log_set_channels(NULL, NULL), RP_OK);
    rp_log_set_callback(NULL, NULL);
    rp_jit_free(l.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_functions_call_each_other),
        cmocka_unit_test(a_function_that_calls_itself_is_refused),
        cmocka_unit_test(threads_share_a_recording),
        cmocka_unit_test(a_call_that_waits_looks_again),
        cmocka_unit_test(guards_change_while_they_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
