/* Poison, the audit of pointers, outputs that were overwritten, and frees beside a capture: the same on every device, with values where
 * the device runs anything. */
#include "support/safety.h"

#include <pthread.h>
#include <stdatomic.h>

#include "autograph/manager.h"
#include "base/status.h"
#include "support/autographs.h"

static const char *device;

enum { N = 4, SIZES = 24 };

static bool computes(void) {
    return strcmp(device, "null") != 0;
}

typedef struct user {
    bench b;
    affine m; /* y = 3 x + 1 */
    int runs;
    void *slot;        /* of the argument, as the last run was given it */
    rp_buffer foreign; /* memory of nobody's */
} user;

static void user_open(user *u) {
    memset(u, 0, sizeof *u);
    bench_open(&u->b, device, RP_GROWTH_RESERVE);
    affine_open(&u->m, u->b.device, 0, 3, 1);
}

static void user_close(user *u) {
    affine_close(&u->m);
    bench_close(&u->b);
}

static rp_status remembers(void *data, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    user *u = data;
    u->runs++;
    u->slot = args->item[0].tensor.data;
    return affine_call(&u->m, call, args, result, err);
}

/* Whoever looks at its argument while it is captured sees no caller's values. */
static void slots_are_poisoned(void **state) {
    user u;
    rp_error err = {0};
    float x[N] = {1, 2, 3, 4};
    unsigned char seen[sizeof x] = {0}, poison[sizeof x];
    /* No arithmetic and no bound leaves it as it is. */
    static const uint32_t on_host[N] = {0xffb3ff81, 0xc580c581, 0x45804581, 0xffb3ff81};
    (void)state;
    user_open(&u);
    memset(poison, 0xff, sizeof poison);
    if (strncmp(device, "cuda", 4) != 0) memcpy(poison, on_host, sizeof poison);
    rp_function *f = function_of(&u.b, "f", remembers, &u);
    rp_value in = floats(x, N);
    rp_output *o = run_items(f, &in, 1);
    assert_int_equal(rp_output_ran(o), RP_RAN_CAPTURE);
    assert_true(u.runs == 2 && u.slot != x);
    CHECK_OK(rp_stream_copy(u.b.stream, seen, u.slot, sizeof seen, &err), &err);
    CHECK_OK(rp_stream_synchronize(u.b.stream, &err), &err);
    assert_memory_equal(seen, poison, sizeof seen);
    if (computes())
        assert_true(values_of(o)[N - 1] == 13); /* of the caller's values all the same */
    rp_output_free(o);
    user_close(&u);
}

enum { MANY = 21 };

typedef struct looks {
    int runs;
    int64_t seen[2][MANY]; /* bytes of the argument and the state, in the last run */
} looks;

static rp_status looks_at_both(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    looks *l = data;
    rp_buffer y = args->item[0].tensor;
    const size_t size = MANY * rp_dtype_block_bytes(y.dtype);
    l->runs++;
    for (int i = 0; i < 2; i++) memcpy(l->seen[i], args->item[i].tensor.data, size);
    rp_status st = rp_call_output(call, &y, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), y.data, args->item[1].tensor.data, size, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static int64_t integer_at(rp_dtype t, const void *at, int i) {
    switch (t) {
    case RP_DTYPE_I8: return ((const signed char *)at)[i];
    case RP_DTYPE_U8: return ((const uint8_t *)at)[i];
    case RP_DTYPE_I16: return ((const int16_t *)at)[i];
    case RP_DTYPE_I32: return ((const int32_t *)at)[i];
    default: return ((const int64_t *)at)[i];
    }
}

/* Of every width they are 1 and 0, which are no harm as an index or a length; of a state the first one is 2. */
static void integers_are_harmless(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_I8, RP_DTYPE_U8, RP_DTYPE_I16, RP_DTYPE_I32,
                                     RP_DTYPE_I64};
    static int64_t given[2][MANY];
    (void)state;
    if (strncmp(device, "cuda", 4) == 0) return; /* the host does not read what lies there */
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        user u;
        looks l = {0};
        rp_buffer b[2];
        user_open(&u);
        memset(given, 0x33, sizeof given);
        for (int i = 0; i < 2; i++) b[i] = (rp_buffer){types[k], 1, {MANY}, given[i]};
        rp_function *f = function_of(&u.b, "f", looks_at_both, &l);
        rp_value in[] = {rp_value_tensor(b[0]), rp_value_state(b[1])};
        rp_output *o = run_items(f, in, 2);
        assert_int_equal(rp_output_ran(o), RP_RAN_CAPTURE);
        assert_int_equal(l.runs, 2);
        for (int i = 0; i < 2; i++) {
            int ones = 0;
            assert_int_equal(integer_at(types[k], l.seen[i], 0), 1 + i);
            for (int e = 1; e < MANY; e++) {
                const int64_t v = integer_at(types[k], l.seen[i], e);
                if (v < 0 || v > 1 + (i && e % 8 == 0)) fail_msg("[%d] is %lld", e, (long long)v);
                ones += v == 1;
            }
            assert_true(ones > 0 && ones < MANY - 1);
        }
        rp_output_free(o);
        user_close(&u);
    }
}

typedef struct beside {
    int before, after; /* calls */
    int failing;       /* 1: before, 2: after */
} beside;

static rp_status comes_before(void *data, hal_device *queue, rp_error *err) {
    beside *b = data;
    (void)queue;
    b->before++;
    return b->failing == 1 ? rp_fail(err, RP_IO, "not before") : RP_OK;
}

static rp_status comes_after(void *data, hal_device *queue, rp_error *err) {
    beside *b = data;
    (void)queue;
    b->after++;
    return b->failing == 2 ? rp_fail(err, RP_IO, "not after") : RP_OK;
}

/* What comes in front fails: there is no call. What comes behind it fails: there is no output. */
static void a_failure_beside_a_call_is_its_own(void **state) {
    user u;
    beside b = {0};
    const autograph_around around = {comes_before, comes_after, &b};
    float x[N] = {1, 2, 3, 4};
    (void)state;
    user_open(&u);
    rp_function *f = function_of(&u.b, "f", remembers, &u);
    rp_value in = floats(x, N), args = rp_value_tuple(&in, 1);
    for (int i = 0; i < 6; i++) { /* the first one captures, if it can */
        rp_error err = {0};
        rp_output *o = NULL;
        const uint64_t replays = bench_info(&u.b).replays;
        const int runs = u.runs;
        b = (beside){.failing = i % 3};
        rp_status st = autograph_run_around(f, &args, &around, &o, &err);
        assert_int_equal(b.before, 1);
        assert_int_equal(b.after, b.failing != 1);
        assert_int_equal(st, b.failing ? RP_IO : RP_OK);
        if (b.failing) assert_string_equal(err.text, b.failing == 1 ? "not before" : "not after");
        if (b.failing) assert_null(o);
        if (b.failing == 1) assert_true(u.runs == runs && bench_info(&u.b).replays == replays);
        if (o && computes()) assert_true(values_of(o)[N - 1] == 13);
        rp_output_free(o);
    }
    user_close(&u);
}

static void overwritten_outputs_are_told(void **state) {
    (void)state;
    for (uint32_t ring = 1; ring <= 3; ring++) {
        user u;
        rp_error err = {0};
        const rp_value *v = NULL;
        rp_output *o[6];
        float x[N] = {0};
        user_open(&u);
        rp_function_options fo = RP_FUNCTION_OPTIONS_INIT;
        fo.name = "f";
        fo.fn = remembers;
        fo.user = &u;
        fo.output = ring > 1 ? RP_OUTPUT_RING : RP_OUTPUT_BORROWED;
        fo.ring = ring > 1 ? ring : 0;
        rp_function *f = function_with(&u.b, fo);
        for (uint32_t i = 0; i < 6; i++) {
            x[0] = (float)i;
            rp_value in = floats(x, N);
            o[i] = run_items(f, &in, 1);
            for (uint32_t k = 0; k <= i; k++) {
                bool there = k == 0 || k + ring > i; /* the first one has its own */
                assert_int_equal(rp_output_value(o[k], &v, &err), there ? RP_OK : RP_INVALID);
                if (there && computes()) assert_true(values_of(o[k])[0] == 3 * (float)k + 1);
            }
        }
        assert_int_equal(rp_output_value(o[1], &v, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "the output was overwritten by a later"));
        for (int i = 0; i < 6; i++) rp_output_free(o[i]);
        user_close(&u);
    }
}

/* Gives what lies at a place that the function finds by itself: no argument's, nor the call's. */
static rp_status reads_foreign_memory(void *data, rp_call *call, const rp_value *args,
                                      rp_value *result, rp_error *err) {
    const user *u = data;
    rp_buffer y = args->item[0].tensor;
    rp_status st = rp_call_output(call, &y, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), y.data, u->foreign.data, N * sizeof(float), err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static void foreign_memory_is_in_no_graph(void **state) {
    user u;
    float x[N] = {1}, foreign[N] = {7, 8};
    (void)state;
    user_open(&u);
    u.foreign.data = foreign;
    rp_function *f = function_of(&u.b, "f", reads_foreign_memory, &u);
    for (int i = 0; i < 3; i++) {
        rp_value in = floats(x, N);
        rp_output *o = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
        if (!strstr(rp_output_reason(o), "registered range") &&
            !strstr(rp_output_reason(o), "memory of the host that is not pinned"))
            fail_msg("%s", rp_output_reason(o));
        foreign[1] = 8 + (float)i;
        rp_output_free(o);
        o = run_items(f, &in, 1);
        assert_true(values_of(o)[1] == foreign[1]); /* a copy is one on every device */
        rp_output_free(o);
    }
    assert_int_equal(bench_info(&u.b).graph_count, 0);
    user_close(&u);
}

/* --- memory that is freed --------------------------------------------------------------------- */

static void *memory_with(const user *u, float value) {
    void *p = NULL;
    rp_error err = {0};
    CHECK_OK(rp_device_alloc(u->b.device, N * sizeof value, &p, &err), &err);
    CHECK_OK(rp_stream_copy(u->b.stream, p, &value, sizeof value, &err), &err);
    CHECK_OK(rp_stream_synchronize(u->b.stream, &err), &err);
    return p;
}

/* The same where memory was before, among some that is tried; NULL: the allocator gives other addresses. */
static void *memory_again(const user *u, const void *at, float value) {
    enum { TRIES = 64 };
    void *p[TRIES] = {NULL}, *found = NULL;
    for (int i = 0; i < TRIES && !found; i++) {
        p[i] = memory_with(u, value);
        if (p[i] == at) found = p[i];
    }
    for (int i = 0; i < TRIES; i++)
        if (p[i] != found) rp_device_free(u->b.device, p[i]);
    return found;
}

static void gives(rp_function *f, float want, rp_ran ran) {
    static float x[N];
    rp_value in = floats(x, N);
    rp_output *o = run_items(f, &in, 1);
    assert_int_equal(rp_output_ran(o), ran);
    if (computes()) assert_true(values_of(o)[0] == want);
    rp_output_free(o);
}

/* What was freed is gone, although somebody has other memory there by now. */
static void memory_that_came_again_is_other_memory(void **state) {
    user u;
    (void)state;
    user_open(&u);
    void *next = memory_with(&u, 2);
    u.foreign.data = memory_with(&u, 1);
    const void *was = u.foreign.data;
    rp_function *f = function_of(&u.b, "f", reads_foreign_memory, &u);
    gives(f, 1, RP_RAN_CAPTURE);
    gives(f, 1, RP_RAN_REPLAY);
    rp_device_free(u.b.device, u.foreign.data);
    u.foreign.data = next;
    void *others = memory_again(&u, was, 99);
    if (others) gives(f, 2, RP_RAN_CAPTURE);
    if (others) gives(f, 2, RP_RAN_REPLAY);
    rp_device_free(u.b.device, others);
    rp_device_free(u.b.device, next);
    user_close(&u);
    if (!others) SKIP_TEST("no memory of this allocator comes again at the address that it had");
}

typedef struct freer {
    rp_device *d;
    atomic_bool stop;
    atomic_int rounds;
    rp_error err;
} freer;

static void *free_often(void *arg) {
    freer *me = arg;
    while (!atomic_load(&me->stop) && me->err.code == RP_OK) {
        void *p = NULL;
        if (rp_device_alloc(me->d, 4096, &p, &me->err) == RP_OK) rp_device_free(me->d, p);
        (void)atomic_fetch_add(&me->rounds, 1);
    }
    return NULL;
}

static void one_thread_captures_while_another_frees(void **state) {
    static float x[SIZES];
    user u;
    pthread_t t;
    (void)state;
    user_open(&u);
    freer other = {.d = u.b.device};
    rp_function *f = function_of(&u.b, "f", remembers, &u);
    assert_int_equal(pthread_create(&t, NULL, free_often, &other), 0);
    while (atomic_load(&other.rounds) == 0) (void)sched_yield();
    for (int round = 0; round < 2; round++)
        for (int n = 1; n <= SIZES; n++) {
            rp_value in = floats(x, n);
            x[0] = (float)n;
            rp_output *o = run_items(f, &in, 1);
            assert_int_equal(rp_output_ran(o), round ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            if (computes()) assert_true(values_of(o)[0] == 3 * (float)n + 1);
            rp_output_free(o);
        }
    atomic_store(&other.stop, true);
    assert_int_equal(pthread_join(t, NULL), 0);
    if (other.err.code != RP_OK) fail_msg("%s", other.err.text);
    assert_int_equal(bench_info(&u.b).invalidated, 0);
    user_close(&u);
}

int safety_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_poisoned),
        cmocka_unit_test(integers_are_harmless),
        cmocka_unit_test(a_failure_beside_a_call_is_its_own),
        cmocka_unit_test(overwritten_outputs_are_told),
        cmocka_unit_test(foreign_memory_is_in_no_graph),
        cmocka_unit_test(memory_that_came_again_is_other_memory),
        cmocka_unit_test(one_thread_captures_while_another_frees),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
