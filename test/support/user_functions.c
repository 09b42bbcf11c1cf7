/* What a function may do on a GPU, and what it may not: each is right in every call, and one that cannot be captured is told why,
 * once. */
#include "support/user_functions.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "hal/cuda/guard.h"
#include "support/autographs.h"
#include "support/heard.h"
#include "support/kernels.h"

static const char *device;

typedef struct user {
    bench b;
    affine m;
    int runs;
    float host[4];
    void *at;
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

/* The kernel twice, one behind the other: 3 (3 x + 1) + 1. */
static rp_status twice(user *u, rp_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_value mid;
    u->runs++;
    rp_status st = affine_call(&u->m, call, args, &mid, err);
    rp_value again = rp_value_tuple(&mid, 1);
    return st == RP_OK ? affine_call(&u->m, call, &again, result, err) : st;
}

static rp_status plain(void *data, rp_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    return twice(data, call, args, result, err);
}

static bool is_emulated(void) {
    void *emu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    bool is = emu && dlsym(emu, "emu_left");
    if (emu) (void)dlclose(emu);
    return is;
}

static void check_value(rp_output *o, rp_ran ran, float want) {
    assert_int_equal(rp_output_ran(o), ran);
    assert_true(values_of(o)[0] == want);
    rp_output_free(o);
}

static void kernels_are_captured(void **state) {
    user u;
    float x[2] = {1, 2};
    (void)state;
    user_open(&u);
    rp_function *f = function_of(&u.b, "f", plain, &u);
    for (int i = 0; i < 5; i++, x[0]++) {
        rp_value in = floats(x, 2);
        check_value(run_items(f, &in, 1), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE, 9 * x[0] + 4);
    }
    assert_int_equal(u.runs, 2);
    assert_int_equal(bench_info(&u.b).graph_count, 1);
    char *text = bench_text(&u.b);
    assert_non_null(strstr(text,
                           "    Output Template: FakeTensor(shape=[2], dtype='torch.float32', "
                           "device='cuda:0')\n    Layer None: Graph Status: Valid"));
    rp_free(text);
    user_close(&u);
}

/* The list that the driver has recorded, in the order of the function. */
static void what_was_captured_is_told(void **state) {
    user u;
    float x[2] = {1, 2};
    base_buf said;
    (void)state;
    user_open(&u);
    rp_function *f = function_of(&u.b, "f", plain, &u);
    rp_value in = floats(x, 2);
    heard_start(&said, "bytecode");
    rp_output_free(run_items(f, &in, 1));
    const char *list = strstr(said.data, "[bytecode] REPLAY LIST f: ");
    if (!list || !strstr(list, " nodes of the driver\n")) fail_msg("%s", said.data);
    int launches = 0;
    for (const char *at = list; (at = strstr(at, " LAUNCH affine blocks 1x1x1 threads ")); at++)
        launches++;
    if (launches != 2) fail_msg("%s", list);
    heard_done(&said);
    user_close(&u);
}

/* Arguments in memory of the host, of the device, and in other memory of it each time; outputs of every policy. */
static void ends_of_copies_move(void **state) {
    enum { N = 3 };
    rp_error err = {0};
    (void)state;
    for (int policy = 0; policy < 3; policy++) {
        user u;
        void *at[2] = {NULL, NULL};
        user_open(&u);
        for (int i = 0; i < 2; i++)
            CHECK_OK(rp_device_alloc(u.b.device, N * sizeof(float), &at[i], &err), &err);
        rp_function *f = function_giving(&u.b, "f", plain, &u, (rp_output_policy)policy, 2);
        rp_output *held = NULL;
        float before = 0;
        for (int i = 0; i < 12; i++) {
            float x[N] = {(float)i, 1, 2};
            void *on = i % 3 == 2 ? NULL : at[i % 3];
            if (on) CHECK_OK(rp_stream_copy(u.b.stream, on, x, sizeof x, &err), &err);
            rp_value in = floats(on ? on : x, N);
            rp_output *y = run_items(f, &in, 1);
            assert_int_equal(rp_output_ran(y), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            assert_true(values_of(y)[0] == 9 * x[0] + 4 && values_of(y)[N - 1] == 22);
            if (held && policy != RP_OUTPUT_BORROWED) assert_true(values_of(held)[0] == before);
            rp_output_free(held);
            held = y;
            before = 9 * x[0] + 4;
        }
        rp_output_free(held);
        assert_int_equal(u.runs, 2);
        for (int i = 0; i < 2; i++) rp_device_free(u.b.device, at[i]);
        user_close(&u);
    }
}

typedef struct nest {
    user *u;
    rp_function *inner;
} nest;

static rp_status calls_another(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    const nest *n = data;
    rp_value mid = rp_value_none();
    rp_status st = rp_call_function(call, n->inner, args, &mid, err);
    rp_value again = rp_value_tuple(&mid, 1);
    return st == RP_OK ? affine_call(&n->u->m, call, &again, result, err) : st;
}

static void nested_functions_are_one_graph(void **state) {
    user u;
    float x = 1;
    (void)state;
    user_open(&u);
    nest n = {&u, function_of(&u.b, "inner", plain, &u)};
    rp_function *f = function_of(&u.b, "outer", calls_another, &n);
    for (int i = 0; i < 3; i++, x++) {
        rp_value in = floats(&x, 1);
        check_value(run_items(f, &in, 1), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE, 27 * x + 13);
    }
    assert_int_equal(bench_info(&u.b).graph_count, 1);
    user_close(&u);
}

/* Two compiled graphs with a kernel of the user's own between them. */
typedef struct mixed {
    user *u;
    rp_compiled *c; /* 2 x + shift */
    float shift[2];
} mixed;

static rp_status compiled_and_own(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                  rp_error *err) {
    const mixed *m = data;
    rp_buffer y;
    rp_value mid = rp_value_none();
    rp_status st = rp_call_compiled(call, m->c, &args->item[0].tensor, 1, &y, 1, err);
    rp_value v = rp_value_tensor(y), tuple = rp_value_tuple(&v, 1);
    if (st == RP_OK) st = affine_call(&m->u->m, call, &tuple, &mid, err);
    if (st == RP_OK) st = rp_call_compiled(call, m->c, &mid.tensor, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static void compile_shift(mixed *m) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("shift");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "B", 1, 64)));
    rp_tensor b = rp_param(g, "shift", RP_DTYPE_F32, RP_SHAPE(1));
    rp_tensor y = rp_add(rp_add(x, x), b);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(m->u->b.device, g, NULL, &m->c, &err), &err);
    CHECK_OK(rp_compiled_bind(m->c, "shift", &m->shift[0], &err), &err);
    rp_graph_free(g);
}

static void compiled_graphs_are_captured(void **state) {
    user u;
    rp_error err = {0};
    float x[3] = {1, 2, 3};
    (void)state;
    user_open(&u);
    mixed m = {.u = &u, .shift = {5, 7}};
    compile_shift(&m);
    rp_function *f = function_of(&u.b, "f", compiled_and_own, &m);
    for (int i = 0; i < 8; i++, x[2]++) {
        float shift = m.shift[i / 4];
        if (i == 4) CHECK_OK(rp_compiled_bind(m.c, "shift", &m.shift[1], &err), &err);
        rp_value in = floats(x, 3);
        rp_output *o = run_items(f, &in, 1);
        if (rp_output_ran(o) != (i % 4 ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("call %d: %s", i, rp_output_reason(o));
        assert_true(values_of(o)[2] == 2 * (3 * (2 * x[2] + shift) + 1) + shift);
        rp_output_free(o);
    }
    assert_int_equal(bench_info(&u.b).graph_count, 1);
    assert_int_equal(bench_info(&u.b).invalidated, 1);
    rp_compiled_free(m.c);
    user_close(&u);
}

/* Device memory of the caller, in place: counted once a call, also by the one that captures. */
static rp_status counts(void *data, rp_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    void *at = args->item[1].tensor.data;
    void *parameters[] = {&at};
    rp_value x = args->item[0], tuple = rp_value_tuple(&x, 1);
    rp_status st =
        rp_call_check(call, "cuLaunchKernel",
                      kernels_launch(rp_call_stream(call), KERNEL_COUNT_UP, 1, parameters), err);
    return st == RP_OK ? twice(data, call, &tuple, result, err) : st;
}

static void effects_happen_once_a_call(void **state) {
    user u;
    float x = 1, back = 0;
    rp_error err = {0};
    void *at = NULL;
    (void)state;
    user_open(&u);
    CHECK_OK(rp_device_alloc(u.b.device, sizeof(float), &at, &err), &err);
    rp_function *f = function_of(&u.b, "f", counts, &u);
    for (int i = 0; i < 10; i++) {
        rp_value in[] = {floats(&x, 1), rp_value_state((rp_buffer){RP_DTYPE_F32, 1, {1}, at})};
        check_value(run_items(f, in, 2), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE, 13);
        CHECK_OK(rp_stream_copy(u.b.stream, &back, at, sizeof back, &err), &err);
        CHECK_OK(rp_stream_synchronize(u.b.stream, &err), &err);
        assert_true(back == (float)(i + 1));
    }
    rp_value in[] = {floats(&x, 1), rp_value_state((rp_buffer){RP_DTYPE_F32, 1, {1}, &back})};
    rp_value args = rp_value_tuple(in, 2);
    rp_output *o = NULL;
    assert_int_equal(rp_autograph_run(f, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "a state lies in memory of the host"));
    rp_device_free(u.b.device, at);
    user_close(&u);
}

/* --- what is seen of kernels ----------------------------------------------------------------- */

static rp_status writes_its_argument(void *data, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    void *at = args->item[0].tensor.data, *parameters[] = {&at};
    rp_status st =
        rp_call_check(call, "cuLaunchKernel",
                      kernels_launch(rp_call_stream(call), KERNEL_COUNT_UP, 1, parameters), err);
    return st == RP_OK ? twice(data, call, args, result, err) : st;
}

/* Memory of the caller's is changed in every call, and the function is told to say so; a copy of the host's in none. */
static void a_written_argument_is_found(void **state) {
    (void)state;
    for (int on_host = 0; on_host < 2; on_host++) {
        user u;
        float x = 1, now = 0;
        rp_error err = {0};
        void *at = NULL;
        user_open(&u);
        CHECK_OK(rp_device_alloc(u.b.device, sizeof x, &at, &err), &err);
        CHECK_OK(rp_stream_copy(u.b.stream, at, &x, sizeof x, &err), &err);
        rp_function *f = function_of(&u.b, "f", writes_its_argument, &u);
        for (int i = 0; i < 4; i++) {
            rp_value in = floats(on_host ? &x : at, 1);
            rp_output *o = run_items(f, &in, 1);
            if (!on_host)
                assert_string_equal(
                    rp_output_reason(o),
                    "tensor 0 of the arguments is written; give it as rp_value_state");
            check_value(o,
                        !on_host ? RP_RAN_EAGER
                        : i      ? RP_RAN_REPLAY
                                 : RP_RAN_CAPTURE,
                        9 * (on_host ? 2 : 2 + (float)i) + 4);
            CHECK_OK(rp_stream_copy(u.b.stream, &now, at, sizeof now, &err), &err);
            CHECK_OK(rp_stream_synchronize(u.b.stream, &err), &err);
            assert_true(x == 1 && now == (on_host ? 1 : 2 + (float)i));
        }
        rp_device_free(u.b.device, at);
        user_close(&u);
    }
}

typedef struct reader {
    user *u;
    rp_buffer from;
} reader;

static rp_status reads_what_it_has(void *data, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    const reader *r = data;
    rp_value x = rp_value_tensor(r->from), tuple = rp_value_tuple(&x, 1);
    (void)args;
    return twice(r->u, call, &tuple, result, err);
}

/* It goes with its output, which no graph would notice: a kernel's argument tells where it is. */
static void memory_of_another_output_is_in_no_graph(void **state) {
    (void)state;
    for (int policy = 0; policy < 3; policy++) {
        user u;
        float x = 1;
        user_open(&u);
        rp_function *f = function_giving(&u.b, "f", plain, &u, (rp_output_policy)policy, 2);
        rp_value in = floats(&x, 1), none = rp_value_none();
        rp_output_free(run_items(f, &in, 1));
        rp_output *held = run_items(f, &in, 1);
        reader r = {&u, result_of(held)->tensor};
        rp_function *g = function_of(&u.b, "g", reads_what_it_has, &r);
        for (int i = 0; i < 2; i++) {
            rp_output *y = run_items(g, &none, 1);
            assert_non_null(strstr(rp_output_reason(y), "neither an argument nor from the call"));
            check_value(y, RP_RAN_EAGER, 9 * 13 + 4);
        }
        rp_value given = rp_value_tensor(r.from); /* as it is told to */
        check_value(run_items(f, &given, 1), RP_RAN_REPLAY, 9 * 13 + 4);
        rp_output_free(held);
        user_close(&u);
    }
}

/* --- what no graph can contain --------------------------------------------------------------- */

static rp_status waits(void *data, rp_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_status st = twice(data, call, args, result, err);
    if (st != RP_OK) return st;
    int code = kernels_driver()->stream_synchronize(rp_stream_handle(rp_call_stream(call)));
    return rp_call_check(call, "cuStreamSynchronize", code, err);
}

static rp_status waits_and_does_not_look(void *data, rp_call *call, const rp_value *args,
                                         rp_value *result, rp_error *err) {
    rp_status st = twice(data, call, args, result, err);
    (void)kernels_driver()->stream_synchronize(rp_stream_handle(rp_call_stream(call)));
    return st;
}

static rp_status allocates(void *data, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    uint64_t at = 0;
    rp_status st = twice(data, call, args, result, err);
    (void)rp_stream_handle(rp_call_stream(call));
    if (st == RP_OK)
        st = rp_call_check(call, "cuMemAlloc", kernels_driver()->memory_alloc(&at, 64), err);
    if (at) (void)kernels_driver()->memory_free(at);
    return st;
}

/* In the order of the stream, so the driver has nothing against it. */
static rp_status reads_back(void *data, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    user *u = data;
    rp_status st = twice(data, call, args, result, err);
    if (st != RP_OK) return st;
    int code = kernels_driver()->copy((uint64_t)(uintptr_t)u->host,
                                      (uint64_t)(uintptr_t)result->tensor.data, sizeof(float),
                                      rp_stream_handle(rp_call_stream(call)));
    return rp_call_check(call, "cuMemcpyAsync", code, err);
}

static rp_status reads_host_memory(void *data, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    user *u = data;
    rp_status st = twice(data, call, args, result, err);
    rp_buffer temp = {RP_DTYPE_F32, 1, {1}, NULL};
    if (st == RP_OK) st = rp_call_temp(call, &temp, err);
    if (st != RP_OK) return st;
    int code = kernels_driver()->copy((uint64_t)(uintptr_t)temp.data, (uint64_t)(uintptr_t)u->host,
                                      sizeof(float), rp_stream_handle(rp_call_stream(call)));
    return rp_call_check(call, "cuMemcpyAsync", code, err);
}

/* Of the driver's, which the library does not call. */
static void *driver_symbol(const char *name) {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *p = lib ? dlsym(lib, name) : NULL;
    if (lib) (void)dlclose(lib);
    assert_non_null(p);
    return p;
}

/* The driver would make it a part of the graph. */
static rp_status allocates_in_stream_order(void *data, rp_call *call, const rp_value *args,
                                           rp_value *result, rp_error *err) {
    int (*take)(uint64_t *, size_t, void *) =
        (int (*)(uint64_t *, size_t, void *))(uintptr_t)driver_symbol("cuMemAllocAsync");
    int (*give)(uint64_t, void *) =
        (int (*)(uint64_t, void *))(uintptr_t)driver_symbol("cuMemFreeAsync");
    uint64_t at = 0;
    rp_status st = twice(data, call, args, result, err);
    void *stream = rp_stream_handle(rp_call_stream(call));
    if (st == RP_OK) st = rp_call_check(call, "cuMemAllocAsync", take(&at, 64, stream), err);
    if (st == RP_OK) st = rp_call_check(call, "cuMemFreeAsync", give(at, stream), err);
    return st;
}

static rp_status takes_device_memory(void *data, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    user *u = data;
    void *p = NULL;
    rp_status st = twice(data, call, args, result, err);
    if (st == RP_OK) st = rp_device_alloc(u->b.device, 64, &p, err);
    rp_device_free(u->b.device, p);
    return st;
}

static rp_status waits_by_the_stream(void *data, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    rp_status st = twice(data, call, args, result, err);
    return st == RP_OK ? rp_stream_synchronize(rp_call_stream(call), err) : st;
}

static void what_no_graph_contains_is_named(void **state) {
    const char *told_of_a_call_not_looked_at =
        is_emulated() ? "a call that no capture permits (it waits, allocates, reads back or forks) "
                        "ended the capture behind kernel affine, node"
                      : "a call that no capture permits (it waits, allocates, reads back or forks) "
                        "ended the capture";
    const struct {
        rp_function_fn fn;
        const char *why;
    } cases[] = {
        {waits, "cuStreamSynchronize gave code 900: a graph can contain no call that waits"},
        /* What the driver tells of a call that nobody looked at: its kind, and of the emulated one what was in front of it. */
        {waits_and_does_not_look, told_of_a_call_not_looked_at},
        {allocates_in_stream_order,
         "the function allocates memory in stream order; take memory by rp_call_temp"},
        {allocates, "cuMemAlloc gave code 900: a graph can contain no call that waits, allocates"},
        {reads_back, "reads back: a copy of 4 bytes to the host"},
        {reads_host_memory, "copies 4 bytes from memory of the host that is not pinned"},
        {takes_device_memory,
         "rp_device_alloc while calls are captured; take memory by rp_call_temp"},
        {waits_by_the_stream, "waiting for the device while calls are captured"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        user u;
        float x[2] = {1, 1};
        user_open(&u);
        rp_function *f = function_of(&u.b, "f", cases[k].fn, &u);
        for (int i = 0; i < 3; i++, x[0]++) {
            rp_value in = floats(x, i < 2 ? 1 : 2); /* another form: not tried either */
            rp_output *o = run_items(f, &in, 1);
            if (!strstr(rp_output_reason(o), cases[k].why))
                fail_msg("\"%s\" does not say \"%s\"", rp_output_reason(o), cases[k].why);
            check_value(o, RP_RAN_EAGER, 9 * x[0] + 4);
            assert_int_equal(u.runs, i + 2); /* the first call tried once */
        }
        if (cases[k].fn == reads_back) assert_true(u.host[0] == 9 * 3 + 4);
        rp_function *other = function_of(&u.b, "g", plain, &u); /* the stream is well */
        for (int i = 0; i < 2; i++) {
            rp_value in = floats(x, 1);
            check_value(run_items(other, &in, 1), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE, 9 * x[0] + 4);
        }
        user_close(&u);
    }
}

/* --- frees meanwhile -------------------------------------------------------------------------- */

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
        atomic_fetch_add(&me->rounds, 1);
    }
    return NULL;
}

/* Every size is captured while another thread takes and frees memory all the time. */
static void one_thread_captures_while_another_frees(void **state) {
    enum { SIZES = 24 };
    static float x[SIZES];
    user u;
    pthread_t t;
    (void)state;
    user_open(&u);
    freer other = {.d = u.b.device};
    rp_function *f = function_of(&u.b, "f", plain, &u);
    assert_int_equal(pthread_create(&t, NULL, free_often, &other), 0);
    while (!atomic_load(&other.rounds))
        sched_yield(); /* captures may take less time than it takes to start */
    for (int round = 0; round < 2; round++)
        for (int n = 1; n <= SIZES; n++) {
            rp_value in = floats(x, n);
            x[0] = (float)n;
            check_value(run_items(f, &in, 1), round ? RP_RAN_REPLAY : RP_RAN_CAPTURE,
                        9 * (float)n + 4);
        }
    atomic_store(&other.stop, true);
    assert_int_equal(pthread_join(t, NULL), 0);
    if (other.err.code != RP_OK) fail_msg("%s", other.err.text);
    assert_false(cuda_guard_busy());
    user_close(&u);
}

typedef struct held {
    user *u;
    rp_output *o; /* freed inside of the call */
} held;

static rp_status frees_an_output(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                 rp_error *err) {
    held *h = data;
    rp_output_free(h->o);
    h->o = NULL;
    return twice(h->u, call, args, result, err);
}

/* The library's own frees, which a capture puts off. */
static void an_output_is_freed_inside_of_a_capture(void **state) {
    user u;
    float x = 1;
    (void)state;
    user_open(&u);
    held h = {.u = &u};
    rp_function *f = function_of(&u.b, "f", plain, &u);
    rp_function *g = function_of(&u.b, "g", frees_an_output, &h);
    rp_value in = floats(&x, 1);
    for (int i = 0; i < 3; i++) {
        h.o = run_items(f, &in, 1);
        check_value(run_items(g, &in, 1), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE, 13);
        if (i) rp_output_free(h.o);
        h.o = NULL;
    }
    user_close(&u);
}

/* --- storms ------------------------------------------------------------------------------------ */

/* Sizes of 1 to 512: no more captures than sizes, none at the end; 100 managers leave nothing. */
static void random_sizes_settle(void **state) {
    enum { MOST = 48, STORM = 600 };
    static float x[MOST];
    uint32_t seed = 7;
    user u;
    (void)state;
    user_open(&u);
    rp_function *f = function_of(&u.b, "f", plain, &u);
    for (int i = 0; i < STORM; i++) {
        seed = seed * 1664525u + 1013904223u;
        int n = 1 + (int)(seed >> 8) % MOST;
        x[n - 1] = (float)(i % 100);
        rp_value in = floats(x, n);
        rp_output *o = run_items(f, &in, 1);
        assert_true(values_of(o)[n - 1] == 9 * x[n - 1] + 4);
        rp_output_free(o);
    }
    assert_int_equal(bench_info(&u.b).captures, MOST);
    assert_int_equal(bench_info(&u.b).invalidated, 0);
    user_close(&u);
}

/* A large tensor that gets larger stays where it is: graphs made before replay. */
static void large_tensors_grow_in_place(void **state) {
    enum { FIRST = 1 << 16, GROWN = 5 };
    user u;
    rp_error err = {0};
    void *x = NULL;
    const float last = 7;
    (void)state;
    user_open(&u);
    CHECK_OK(rp_device_alloc(u.b.device, (size_t)(FIRST << GROWN) * sizeof(float), &x, &err), &err);
    rp_function *f = function_of(&u.b, "f", plain, &u);
    for (int i = 0; i < 2 * GROWN; i++) {
        int64_t n = FIRST << (i < GROWN ? i : 2 * GROWN - 1 - i);
        CHECK_OK(rp_stream_copy(u.b.stream, (float *)x + n - 1, &last, sizeof last, &err), &err);
        rp_value in = floats(x, n);
        rp_output *o = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(o), i < GROWN ? RP_RAN_CAPTURE : RP_RAN_REPLAY);
        assert_true(values_of(o)[n - 1] == 9 * last + 4);
        rp_output_free(o);
    }
    rp_autograph_info info = bench_info(&u.b);
    assert_int_equal(info.invalidated + info.eager, 0);
    rp_device_free(u.b.device, x);
    user_close(&u);
}

/* What the emulated GPU has been asked for; "" on a real one. */
static void held_by_gpu(char *out, size_t size) {
    void *emu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*left)(char *, size_t) = emu ? (void (*)(char *, size_t))(uintptr_t)dlsym(emu, "emu_left")
                                       : NULL;
    out[0] = 0;
    if (left) left(out, size);
    if (emu) (void)dlclose(emu);
}

/* Bytes of the device that are left for everybody on it. */
static size_t left_of_gpu(const user *u) {
    size_t left = 0, all = 0;
    (void)rp_stream_handle(u->b.stream);
    assert_int_equal(kernels_driver()->memory_info(&left, &all), 0);
    return left;
}

/* Neither of the host, nor of the device: counted on the emulated one, on a real one less than a graph in a hundred would take. */
static void managers_leave_nothing(void **state) {
    enum { MANAGERS = 1000, MOST_LOST = 8 << 20 };
    user u;
    float x = 1;
    char before[256] = "", now[256];
    rp_error err = {0};
    size_t live = 0, left = 0;
    (void)state;
    user_open(&u);
    for (int i = 0; i < MANAGERS; i++) {
        bench inner = u.b;
        CHECK_OK(rp_autograph_create(u.b.stream, NULL, &inner.graphs, &err), &err);
        rp_function *f = function_of(&inner, "f", plain, &u);
        rp_value in = floats(&x, 1);
        for (int k = 0; k < 2; k++)
            check_value(run_items(f, &in, 1), k ? RP_RAN_REPLAY : RP_RAN_CAPTURE, 13);
        rp_autograph_destroy(inner.graphs);
        if (i == 1) live = base_live(); /* values_of keeps its last copy */
        if (i == 1) held_by_gpu(before, sizeof before);
        if (i == MANAGERS / 10) left = left_of_gpu(&u);
        if (i > 1) assert_int_equal(base_live(), live);
        held_by_gpu(now, sizeof now);
        if (i > 1) assert_string_equal(now, before);
    }
    assert_true(left_of_gpu(&u) + MOST_LOST >= left);
    user_close(&u);
}

/* Of outputs that were given back no more waits than the manager may have. */
static void outputs_given_back_are_bounded(void **state) {
    enum { N = 2048, N_OUT = 24, MOST = 64 << 10 };
    user u;
    float x[N] = {1};
    rp_output *out[N_OUT];
    (void)state;
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    o.max_bytes = MOST;
    memset(&u, 0, sizeof u);
    bench_open_with(&u.b, device, &o);
    affine_open(&u.m, u.b.device, 0, 3, 1);
    rp_function *f = function_of(&u.b, "f", plain, &u);
    rp_value in = floats(x, N);
    rp_output_free(run_items(f, &in, 1));
    for (int i = 0; i < N_OUT; i++) {
        out[i] = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(out[i]), RP_RAN_REPLAY);
    }
    uint64_t before = bench_info(&u.b).graph_mem_pool_bytes;
    for (int i = 0; i < N_OUT; i++) rp_output_free(out[i]);
    uint64_t after = bench_info(&u.b).graph_mem_pool_bytes;
    assert_true(after > before && after - before <= MOST);
    user_close(&u);
}

/* The limit holds after every call, under each policy, for forms that are captured each, for forms on a ladder, and for many
 * signatures, whose slots are small. */
static void bytes_stay_within_a_budget(void **state) {
    enum { MOST = 1 << 20, SIZES = 512, CALLS = 250 };
    static float x[SIZES];
    (void)state;
    for (int k = 0; k < 8; k++) {
        uint32_t seed = 3;
        user u;
        rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        o.max_bytes = MOST;
        memset(&u, 0, sizeof u);
        bench_open_with(&u.b, device, &o);
        affine_open(&u.m, u.b.device, 0, 3, 1);
        rp_function *f =
            function_giving(&u.b, "storm", affine_call, &u.m, (rp_output_policy)(k / 2 % 3), 64);
        for (int i = 0; i < CALLS; i++) {
            seed = seed * 1664525u + 1013904223u;
            int64_t n = 1 + (seed >> 8) % SIZES;
            x[n - 1] = (float)i;
            rp_value in = k < 6 ? floats(x, n) : rows_of(x, 1, n); /* a signature each */
            in.rows = k % 2;
            rp_output *y = run_items(f, &in, 1);
            assert_true(values_of(y)[n - 1] == 3 * (float)i + 1);
            rp_output_free(y);
            assert_true(bench_info(&u.b).bytes <= MOST);
        }
        assert_true(k >= 6 || bench_info(&u.b).replays > 0);
        user_close(&u);
    }
}

int user_functions_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_captured),
        cmocka_unit_test(what_was_captured_is_told),
        cmocka_unit_test(ends_of_copies_move),
        cmocka_unit_test(nested_functions_are_one_graph),
        cmocka_unit_test(compiled_graphs_are_captured),
        cmocka_unit_test(effects_happen_once_a_call),
        cmocka_unit_test(a_written_argument_is_found),
        cmocka_unit_test(memory_of_another_output_is_in_no_graph),
        cmocka_unit_test(what_no_graph_contains_is_named),
        cmocka_unit_test(one_thread_captures_while_another_frees),
        cmocka_unit_test(an_output_is_freed_inside_of_a_capture),
        cmocka_unit_test(outputs_given_back_are_bounded),
        cmocka_unit_test(random_sizes_settle),
        cmocka_unit_test(bytes_stay_within_a_budget),
        cmocka_unit_test(large_tensors_grow_in_place),
        cmocka_unit_test(managers_leave_nothing),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
