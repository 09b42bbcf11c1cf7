/* The CUDA parts of hal against a driver that is not there: what each refusal says, and that no call may fail without a
 * clean error that leaves nothing behind. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/file.h"
#include "hal/cuda/chain.h"
#include "hal/cuda/code.h"
#include "hal/cuda/device.h"
#include "hal/cuda/gpu.h"
#include "support/cuda_fake.h"
#include "support/trees.h"

/* Everything that a compiled chain of kernels needs, in the order of its life. */
typedef struct life {
    cuda_gpu gpu;
    char *cubin;
    void *module, *function, *stream;
    uint64_t memory;
    cuda_chain chain;
} life;

enum { N_KERNELS = 3 };

static rp_status add_kernels(life *l, rp_error *err) {
    void *parameters[] = {&l->memory};
    cuda_launch k = {l->function, {132, 1, 1}, 256, 1024, parameters};
    RP_TRY(cuda_chain_init(&l->chain, &cuda_fake_driver, true, err));
    for (int i = 0; i < N_KERNELS; i++) RP_TRY(cuda_chain_add(&l->chain, &k, err));
    return cuda_chain_finish(&l->chain, l->stream, err);
}

static rp_status live(life *l, rp_error *err) {
    const cuda_driver *cu = &cuda_fake_driver;
    size_t n = 0;
    RP_TRY(cuda_gpu_open(cu, 0, 90, &l->gpu, err));
    RP_TRY(cuda_compile(&cuda_fake_nvrtc, &(cuda_source){"text", "cases.cu", "sm_90a"}, NULL,
                        &l->cubin, &n, err));
    RP_TRY(cuda_code_load(cu, l->cubin, &l->module, err));
    RP_TRY(cuda_code_kernel(cu, l->module, "kernel", 1024, &l->function, err));
    RP_TRY(cuda_gpu_alloc(&l->gpu, 100, "weights", &l->memory, err));
    RP_TRY(cuda_check(cu, cu->stream_new(&l->stream, CUDA_STREAM_NON_BLOCKING), "stream", err));
    RP_TRY(add_kernels(l, err));
    return cuda_chain_launch(&l->chain, l->stream, err);
}

static void end(life *l) {
    const cuda_driver *cu = &cuda_fake_driver;
    cuda_chain_done(&l->chain);
    if (l->stream) (void)cu->stream_free(l->stream);
    cuda_gpu_free(&l->gpu, l->memory);
    if (l->module) (void)cu->module_free(l->module);
    base_free(l->cubin);
    cuda_gpu_close(&l->gpu);
}

static void each_call_may_fail(void **state) {
    size_t before = base_live();
    uint32_t nth = 0;
    rp_status st = RP_DEVICE;
    (void)state;
    while (st != RP_OK) {
        life l = {.chain = {.cu = &cuda_fake_driver}};
        rp_error err = {0};
        cuda_fake_reset();
        cuda_fake.fail_nth = ++nth;
        st = live(&l, &err);
        end(&l);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
        assert_int_equal(err.code, st);
        if (st != RP_OK)
            assert_true(err.text[0] && nth == cuda_fake.n_calls - (st == RP_INVALID ? 2 : 0));
    }
    assert_true(nth > 20); /* the last turn asked for more calls than there are */
    assert_int_equal(nth, cuda_fake.n_calls + 1);
}

static void each_allocation_may_fail(void **state) {
    size_t before = base_live();
    (void)state;
    FOR_EACH_ALLOC_FAILURE (n) {
        life l = {.chain = {.cu = &cuda_fake_driver}};
        rp_error err = {0};
        cuda_fake_reset();
        rp_status st = live(&l, &err);
        end(&l);
        assert_true(st == RP_OK || st == RP_NOMEM);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
    }
}

static void count_bytes(void *user, void *at, size_t offset, size_t n) {
    (void)offset;
    memset(at, 1, n);
    *(size_t *)user += n;
}

static rp_status send(size_t size, size_t *sent, rp_error *err) {
    hal_device *d = NULL;
    const hal_source from = {count_bytes, sent, size, 1};
    RP_TRY(cuda_device_open(&cuda_fake_driver, 0, &d, err));
    rp_status st = d->ops->upload(d, sent, &from, err);
    if (st == RP_OK) st = d->ops->upload(d, sent, &from, err);
    hal_close(d);
    return st;
}

/* A slot is filled again only when what it held has gone; a second upload has the slots of the first. */
static void an_upload_may_fail_at_each_call(void **state) {
    const size_t size = 5 * (size_t)HAL_PART / 2;
    rp_status st = RP_DEVICE;
    size_t before = base_live(), sent = 0;
    uint32_t nth = 0;
    (void)state;
    for (; st != RP_OK; nth++) {
        rp_error err = {0};
        cuda_fake_reset();
        cuda_fake.fail_nth = nth + 1;
        sent = 0;
        st = send(size, &sent, &err);
        assert_int_equal(err.code, st);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
    }
    assert_int_equal(nth, cuda_fake.n_calls + 1);
    assert_int_equal(sent, 2 * size);
    assert_non_null(strstr(cuda_fake.log,
                           "host_alloc event_new event_new context_set event_synchronize copy_in "
                           "event_record context_set event_synchronize copy_in event_record "
                           "context_set event_synchronize copy_in event_record stream_synchronize "
                           "context_set context_set event_synchronize copy_in event_record"));
}

/* Two streams of one GPU, with an event between them. */
static rp_status order_two_queues(rp_error *err) {
    hal_device *d = NULL, *q = NULL;
    hal_event *e = NULL;
    rp_status st = cuda_device_open(&cuda_fake_driver, 0, &d, err);
    if (st == RP_OK) st = hal_queue(d, &q, err);
    if (st == RP_OK) st = d->ops->event_new(d, &e, err);
    if (st == RP_OK) st = d->ops->event_record(d, e, err);
    if (st == RP_OK) st = q->ops->event_wait(q, e, err);
    if (st == RP_OK) st = q->ops->event_synchronize(e, err);
    if (e) d->ops->event_free(e);
    hal_close(q);
    hal_close(d);
    return st;
}

/* run with each call of the driver failing once, and then with none: nothing is left. Gives how many failures nobody told. */
static uint32_t fail_each_call(rp_status (*run)(rp_error *err)) {
    size_t before = base_live();
    uint32_t n_calls = 0, untold = 0;
    for (uint32_t nth = 0; nth <= n_calls + 1; nth++) {
        const bool fails = nth > 0 && nth <= n_calls;
        rp_error err = {0};
        cuda_fake_reset();
        cuda_fake.fail_nth = fails ? nth : 0;
        rp_status st = run(&err);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
        assert_int_equal(err.code, st);
        if (!fails) CHECK_OK(st, &err);
        if (nth == 0) n_calls = cuda_fake.n_calls;
        untold += fails && st == RP_OK;
    }
    return untold;
}

/* Three launches, of which the second has nothing to do. */
static rp_status time_launches(rp_error *err) {
    const hal_launch list[] = {
        {.kind = HAL_KERNEL, .name = "one", .items = 1, .threads = 32, .per_block = 1},
        {.kind = HAL_KERNEL, .name = "none", .items = 0, .threads = 32, .per_block = 1},
        {.kind = HAL_KERNEL, .name = "last", .items = 1, .threads = 32, .per_block = 1}};
    hal_device *d = NULL;
    int64_t ns[3] = {0};
    rp_status st = cuda_device_open(&cuda_fake_driver, 0, &d, err);
    if (st == RP_OK) st = hal_time(d, list, 3, 0, ns, err);
    if (st == RP_OK) { /* events of the fake are a millisecond apart */
        assert_int_equal(ns[0], 1000000);
        assert_int_equal(ns[1], 0);
        assert_int_equal(ns[2], 1000000);
    }
    hal_close(d);
    return st;
}

static void timing_may_fail_at_each_call(void **state) {
    (void)state;
    assert_int_equal(fail_each_call(time_launches), 0);
    assert_non_null(strstr(cuda_fake.log, "event_new event_record context_set launch event_new "
                                          "event_record context_set event_new event_record "
                                          "context_set launch event_new event_record context_set "
                                          "stream_synchronize event_elapsed event_elapsed "
                                          "event_free event_free event_free event_free"));
}

static char code_path[512];

/* Code from a file, a kernel of it, a graph of that. */
static rp_status run_module(rp_error *err) {
    hal_device *d = NULL;
    hal_module *m = NULL;
    hal_graph *g = NULL;
    hal_launch one = {.kind = HAL_KERNEL, .name = "one", .items = 1, .threads = 32, .per_block = 1};
    rp_status st = cuda_device_open(&cuda_fake_driver, 0, &d, err);
    if (st == RP_OK) st = d->ops->module_load(d, code_path, &m, err);
    if (st == RP_OK) st = d->ops->module_symbol(m, "one", &one.fn, err);
    if (st == RP_OK) st = d->ops->function_caches(d, one.fn, err);
    if (st == RP_OK) st = d->ops->launch(d, &one, 1, 0, err);
    if (st == RP_OK) st = d->ops->graph_build(d, &one, 1, 0, NULL, &g, err);
    if (st == RP_OK) st = d->ops->graph_launch(g, err);
    if (d) d->ops->graph_free(g);
    if (d) assert_int_equal(atomic_load(&((cuda_device *)d)->unfinished), 0);
    if (d) d->ops->module_free(m);
    hal_close(d);
    return st;
}

static void modules_and_graphs_may_fail_at_each_call(void **state) {
    rp_error err = {0};
    (void)state;
    (void)snprintf(code_path, sizeof code_path, "%s/code", tree_new("hal_cuda"));
    CHECK_OK(base_file_write(code_path, "code", 4, &err), &err);
    const size_t before = base_live();
    assert_int_equal(fail_each_call(run_module), 2 + 5); /* free memory twice, what frees do */
    assert_non_null(strstr(cuda_fake.log, "module_load "));
    bool failed = true;
    for (uint32_t nth = 1; failed; nth++) {
        err = (rp_error){0};
        cuda_fake_reset();
        base_alloc_fail_nth(nth);
        rp_status st = run_module(&err);
        failed = base_alloc_fail_nth(0);
        assert_int_equal(st, failed ? RP_NOMEM : RP_OK);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
    }
}

static void queues_and_events_may_fail_at_each_call(void **state) {
    (void)state;
    assert_int_equal(fail_each_call(order_two_queues),
                     1); /* freeing an event, which nobody hears */
    assert_non_null(strstr(cuda_fake.log,
                           "event_new context_set event_record context_set stream_wait "
                           "context_set event_synchronize "));
}

/* Two pieces of memory, one of which is freed while a fill and a copy are captured; then the graph, once. */
static rp_status capture_calls(hal_device *d, rp_error *err) {
    enum { N = 1 }; /* what the fake's handles lie apart */
    void *a = NULL, *b = NULL, *c = NULL;
    hal_graph *g = NULL;
    uint32_t n = 0;
    rp_status st = d->ops->alloc(d, HAL_DEVICE_MEMORY, N, &a, err);
    if (st == RP_OK) st = d->ops->alloc(d, HAL_DEVICE_MEMORY, N, &b, err);
    if (st == RP_OK) st = hal_capture_begin(d, err);
    if (st == RP_OK) {
        rp_error none = {0};
        st = d->ops->fill(d, a, 1, N, err);
        if (st == RP_OK) st = d->ops->alloc(d, HAL_DEVICE_MEMORY, N, &c, err);
        if (c) d->ops->release(d, c, N); /* put off */
        if (st == RP_OK) st = d->ops->copy(d, b, a, N, err);
        if (st == RP_OK && (st = hal_capture_branch(d, HAL_WHILE, a, err)) == RP_OK) {
            st = d->ops->fill(d, b, 2, N, err);
            rp_status join = hal_capture_join(d, st == RP_OK ? err : &none);
            if (st == RP_OK) st = join;
        }
        rp_status end = hal_capture_end(d, "calls", &g, &n, st == RP_OK ? err : &none);
        if (st == RP_OK) st = end;
    }
    if (st == RP_OK) st = d->ops->graph_launch(g, err);
    d->ops->graph_free(g);
    if (b) d->ops->release(d, b, N);
    if (a) d->ops->release(d, a, N);
    return st;
}

/* The thread is as strict as before. */
static void expect_strict(const char *behind) {
    int mode = 0;
    (void)cuda_fake_driver.capture_mode(&mode);
    if (mode != 0) fail_msg("mode %d behind %s", mode, behind);
}

/* Code may come while calls are captured; afterwards this thread is as strict as before. */
static void code_may_come_beside_a_capture(void **state) {
    rp_error err = {0};
    hal_device *d = NULL, *other = NULL;
    hal_module *m = NULL;
    hal_graph *g = NULL;
    uint32_t n = 0;
    size_t before = base_live();
    (void)state;
    cuda_fake_reset();
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    CHECK_OK(hal_queue(d, &other, &err), &err);
    CHECK_OK(hal_capture_begin(d, &err), &err);
    CHECK_OK(other->ops->module_load(other, code_path, &m, &err), &err);
    expect_strict("module_load");
    CHECK_OK(hal_capture_end(d, "none", &g, &n, &err), &err);
    d->ops->graph_free(g);
    other->ops->module_free(m);
    hal_close(other);
    hal_close(d);
    assert_int_equal(cuda_fake.live, 0);
    assert_int_equal(base_live(), before);
}

/* Whatever another queue does meanwhile that a strict thread must not. */
static void no_thread_is_left_relaxed(void **state) {
    enum { N = 1 };
    const base_runs runs = {.run = N, .n = 1, .dim = {2}}; /* twice the same: by the kernel */
    rp_error err = {0};
    hal_device *d = NULL, *other = NULL;
    hal_reserved *r = NULL;
    hal_module *m = NULL;
    hal_graph *g = NULL;
    void *a = NULL, *b = NULL;
    uint32_t n = 0;
    size_t before = base_live();
    (void)state;
    cuda_fake_reset();
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    CHECK_OK(hal_queue(d, &other, &err), &err);
    CHECK_OK(hal_capture_begin(d, &err), &err);
    CHECK_OK(other->ops->synchronize(other, &err), &err);
    expect_strict("synchronize");
    CHECK_OK(other->ops->alloc(other, HAL_DEVICE_MEMORY, N, &a, &err), &err);
    expect_strict("alloc");
    CHECK_OK(other->ops->alloc(other, HAL_DEVICE_MEMORY, N, &b, &err), &err);
    CHECK_OK(other->ops->copy_runs(other, a, b, &runs, &err), &err);
    expect_strict("copy_runs");
    CHECK_OK(other->ops->reserve(other, 4 << 20, &r, &err), &err);
    expect_strict("reserve");
    CHECK_OK(other->ops->commit(r, 1, &err), &err);
    expect_strict("commit");
    other->ops->unreserve(r);
    expect_strict("unreserve");
    CHECK_OK(other->ops->module_load(other, code_path, &m, &err), &err);
    expect_strict("module_load");
    other->ops->module_free(m);
    expect_strict("module_free");
    other->ops->release(other, a, N);
    expect_strict("release");
    other->ops->release(other, b, N);
    CHECK_OK(hal_capture_end(d, "none", &g, &n, &err), &err);
    d->ops->graph_free(g);
    hal_close(other);
    hal_close(d);
    assert_int_equal(cuda_fake.live, 0);
    assert_int_equal(base_live(), before);
}

/* No capture is under way: memory goes at once, and its queue is waited for. */
static void expect_no_capture(hal_device *d, uint32_t nth) {
    rp_error err = {0};
    void *p = NULL;
    cuda_fake.fail_nth = 0;
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, 64, &p, &err), &err);
    const char *log = cuda_fake.log + strlen(cuda_fake.log);
    d->ops->release(d, p, 64);
    if (!strstr(log, "stream_synchronize ") || !strstr(log, "memory_free"))
        fail_msg("behind call %u: %s", nth, log);
}

static void a_capture_may_fail_at_each_call(void **state) {
    uint32_t n = UINT32_MAX;
    (void)state;
    for (uint32_t nth = 0; nth <= n; nth++) { /* 0: none fails */
        size_t before = base_live();
        rp_error err = {0};
        hal_device *d = NULL;
        cuda_fake_reset();
        CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
        uint32_t opened = cuda_fake.n_calls;
        cuda_fake.fail_nth = nth ? opened + nth : 0;
        rp_status st = capture_calls(d, &err);
        if (nth == 0) n = cuda_fake.n_calls - opened;
        if (nth == 0) CHECK_OK(st, &err);
        assert_int_equal(err.code, st);
        int mode =
            0; /* of a thread that captures nothing: also where a release could not be put off */
        (void)cuda_fake_driver.capture_mode(&mode);
        assert_int_equal(mode, 0);
        if (nth > 0) expect_no_capture(d, nth);
        hal_close(d);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
    }
    assert_true(n > 15);
    const char *begin = strstr(cuda_fake.log, "capture_to"), *end;
    assert_non_null(begin);
    end = strstr(begin, "capture_end");
    assert_true(end && strstr(begin, "memory_free") > end); /* of what was freed meanwhile */
}

static void a_capture_may_fail_at_each_allocation(void **state) {
    const size_t before = base_live();
    bool failed = true;
    (void)state;
    for (uint32_t nth = 1; failed; nth++) {
        rp_error err = {0};
        hal_device *d = NULL;
        cuda_fake_reset();
        CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
        base_alloc_fail_nth(nth);
        const rp_status st = capture_calls(d, &err);
        failed = base_alloc_fail_nth(0);
        if (!failed) CHECK_OK(st, &err);
        assert_int_equal(err.code, st);
        expect_no_capture(d, nth);
        assert_int_equal(atomic_load(&((cuda_device *)d)->unfinished), 0);
        hal_close(d);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
    }
}

static void a_capture_waits_for_nothing(void **state) {
    rp_error err = {0};
    hal_device *d = NULL;
    uint32_t n = 0;
    hal_graph *g = NULL;
    (void)state;
    cuda_fake_reset();
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    CHECK_OK(hal_capture_begin(d, &err), &err);
    assert_int_equal(hal_capture_begin(d, NULL), RP_INVALID);
    assert_int_equal(d->ops->synchronize(d, NULL), RP_INVALID);
    assert_int_equal(hal_capture_end(d, "g", &g, &n, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "waiting for the device while calls are captured"));
    assert_int_equal(hal_capture_end(d, "g", &g, &n, NULL), RP_INVALID);
    base_error_clear(&err);
    /* What the driver says at the end. */
    cuda_fake.fail_one = "capture_end";
    cuda_fake.fail_code = 901;
    CHECK_OK(hal_capture_begin(d, &err), &err);
    assert_int_equal(hal_capture_end(d, "g", &g, &n, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "ended the capture"));
    hal_close(d);
    assert_int_equal(cuda_fake.live, 0);
}

static uint32_t waits(void) {
    uint32_t n = 0;
    for (const char *at = cuda_fake.log; (at = strstr(at, "stream_synchronize ")); at++) n++;
    return n;
}

/* Memory that goes meanwhile waits for the other queues: to wait for one that captures would end its capture. */
static void nobody_waits_for_a_queue_that_captures(void **state) {
    rp_error err = {0};
    hal_device *d = NULL, *queue[2] = {NULL};
    void *p = NULL;
    (void)state;
    cuda_fake_reset();
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    for (int i = 0; i < 2; i++) CHECK_OK(hal_queue(d, &queue[i], &err), &err);
    for (uint32_t want = 2; want <= 3; want++) { /* of three queues */
        CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, 64, &p, &err), &err);
        if (want == 2) CHECK_OK(hal_capture_begin(queue[0], &err), &err);
        cuda_fake.log[0] = 0;
        d->ops->release(d, p, 64);
        if (waits() != want) fail_msg("%u of %u: %s", waits(), want, cuda_fake.log);
        if (want == 2) CHECK_OK(hal_capture_end(queue[0], "none", NULL, NULL, &err), &err);
    }
    for (int i = 0; i < 2; i++) hal_close(queue[i]);
    hal_close(d);
    assert_int_equal(cuda_fake.live, 0);
}

static void check_waits(hal_device *d, uint32_t want) {
    void *p = NULL;
    rp_error err = {0};
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, 64, &p, &err), &err);
    cuda_fake.log[0] = 0;
    d->ops->release(d, p, 64);
    assert_int_equal(waits(), want);
}

/* Queues of another GPU know nothing of its memory, and may be busy for long. */
static void memory_waits_for_queues_of_its_gpu(void **state) {
    rp_error err = {0};
    hal_device *d[2], *queue[3] = {NULL};
    (void)state;
    cuda_fake_reset();
    cuda_fake.n_devices = 2;
    for (int i = 0; i < 2; i++) CHECK_OK(cuda_device_open(&cuda_fake_driver, i, &d[i], &err), &err);
    for (int i = 0; i < 3; i++) CHECK_OK(hal_queue(d[i > 0], &queue[i], &err), &err);
    for (int i = 0; i < 2; i++) check_waits(d[i], 2 + (uint32_t)i);
    /* Who has left is not waited for, whenever it came. */
    hal_close(queue[0]);
    for (int i = 0; i < 2; i++) check_waits(d[i], 1 + 2 * (uint32_t)i);
    for (int i = 1; i < 3; i++) hal_close(queue[i]);
    for (int i = 0; i < 2; i++) hal_close(d[i]);
    assert_int_equal(cuda_fake.live, 0);
}

/* What is lost is one GPU, and what it has lost is told of it alone. */
static void a_lost_gpu_is_not_the_other(void **state) {
    rp_error err = {0};
    hal_device *d[2];
    void *p = NULL;
    (void)state;
    cuda_fake_reset();
    cuda_fake.n_devices = 2;
    for (int i = 0; i < 2; i++) CHECK_OK(cuda_device_open(&cuda_fake_driver, i, &d[i], &err), &err);
    cuda_fake.fail_one = "stream_synchronize";
    cuda_fake.fail_code = 719;
    assert_int_equal(d[1]->ops->synchronize(d[1], &err), RP_DEVICE);
    assert_non_null(strstr(err.text, "cuda:1 is lost to this process: "));
    cuda_fake.fail_one = NULL;
    err = (rp_error){0};
    CHECK_OK(d[0]->ops->synchronize(d[0], &err), &err);
    CHECK_OK(d[0]->ops->alloc(d[0], HAL_DEVICE_MEMORY, 64, &p, &err), &err);
    d[0]->ops->release(d[0], p, 64);
    assert_int_equal(d[1]->ops->synchronize(d[1], &err), RP_DEVICE);
    for (int i = 0; i < 2; i++) hal_close(d[i]);
    assert_int_equal(cuda_fake.live, 0);
}

static void a_kernel_that_is_not_there_is_named(void **state) {
    rp_error err = {0};
    void *function = NULL;
    (void)state;
    cuda_fake_reset();
    cuda_fake.fail_one = "module_function";
    cuda_fake.fail_code = 500;
    assert_int_equal(cuda_code_kernel(&cuda_fake_driver, NULL, "third", 64, &function, &err),
                     RP_DEVICE);
    assert_non_null(strstr(err.text, "third"));
    assert_null(function);
    assert_null(strstr(cuda_fake.log, "function_set"));
}

static void what_is_put_off_keeps_its_context(void **state) {
    rp_error err = {0};
    hal_device *d = NULL, *other = NULL;
    void *p = NULL;
    (void)state;
    cuda_fake_reset();
    cuda_fake.n_devices = 2;
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 1, &other, &err), &err);
    CHECK_OK(other->ops->alloc(other, HAL_DEVICE_MEMORY, 64, &p, &err), &err);
    CHECK_OK(hal_capture_begin(d, &err), &err);
    other->ops->release(other, p, 64);
    hal_close(other);
    assert_null(strstr(cuda_fake.log, "memory_free"));
    CHECK_OK(hal_capture_end(d, "none", NULL, NULL, &err), &err);
    const char *freed = strstr(cuda_fake.log, "memory_free");
    assert_non_null(freed);
    assert_non_null(strstr(freed, "context_release")); /* which would have taken the memory along */
    hal_close(d);
    assert_int_equal(cuda_fake.live, 0);
}

static void memory_of_another_gpu_is_not_reached(void **state) {
    rp_error err = {0};
    hal_device *d = NULL;
    void *p = NULL;
    (void)state;
    cuda_fake_reset();
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, 64, &p, &err), &err);
    assert_true(d->ops->reaches(d, p));
    cuda_fake.elsewhere = (uint64_t)(uintptr_t)p;
    assert_false(d->ops->reaches(d, p));
    d->ops->release(d, p, 64);
    hal_close(d);
    assert_int_equal(cuda_fake.live, 0);
}

static void a_chain_has_programmatic_edges(void **state) {
    life l = {.chain = {.cu = &cuda_fake_driver}};
    rp_error err = {0};
    (void)state;
    cuda_fake_reset();
    CHECK_OK(live(&l, &err), &err);
    assert_int_equal(cuda_fake.n_nodes, N_KERNELS);
    assert_int_equal(cuda_fake.n_programmatic, N_KERNELS - 1);
    assert_non_null(strstr(cuda_fake.log, "graph_instantiate graph_upload graph_launch"));
    assert_int_equal(l.gpu.n_sm, 132);
    assert_int_equal(l.gpu.capability, 90);
    end(&l);
}

/* What is sent, and what is captured, has a programmatic edge behind each kernel of its list but the last, and none where it has to wait for more. */
static uint32_t edges_sent(const hal_launch *list, uint32_t n) {
    rp_error err = {0};
    hal_device *d = NULL;
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    cuda_fake.n_programmatic = 0;
    CHECK_OK(d->ops->launch(d, list, n, 0, &err), &err);
    CHECK_OK(d->ops->launch(d, list, n, 0, &err), &err);
    hal_close(d);
    return cuda_fake.n_programmatic;
}

static uint32_t edges_captured(const hal_launch *list, uint32_t n, bool inside) {
    rp_error err = {0};
    hal_device *d = NULL;
    hal_graph *g = NULL;
    uint32_t n_launches = 0;
    void *pred = NULL;
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, 1, &pred, &err), &err);
    CHECK_OK(hal_capture_begin(d, &err), &err);
    if (inside) CHECK_OK(hal_capture_branch(d, HAL_IF, pred, &err), &err);
    CHECK_OK(d->ops->launch(d, list, n, 0, &err), &err);
    CHECK_OK(d->ops->launch(d, list, n, 0, &err), &err);
    if (inside) CHECK_OK(hal_capture_join(d, &err), &err);
    CHECK_OK(hal_capture_end(d, "g", &g, &n_launches, &err), &err);
    uint32_t edges = d->ops->graph_programmatic(g);
    d->ops->graph_free(g);
    d->ops->release(d, pred, 1);
    hal_close(d);
    assert_int_equal(cuda_fake.live, 0);
    return edges;
}

static void a_list_has_programmatic_edges(void **state) {
    static char code;
    hal_launch list[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        list[i] = (hal_launch){.name = "k",
                               .fn = {.handle = &code},
                               .items = i == 1 ? 0 : 4, /* the second is no launch */
                               .threads = 32,
                               .per_block = 1};
    cuda_fake_reset();
    assert_int_equal(edges_sent(list, 4), 2 * 2);
    assert_int_equal(edges_sent(list, 1), 0);
    cuda_fake_reset();
    assert_int_equal(edges_captured(list, 4, false), 2 * 2);
    cuda_fake_reset();
    assert_int_equal(edges_captured(list + 1, 1, false), 0);
    cuda_fake_reset();
    assert_int_equal(edges_captured(list, 4, true), 0); /* bodies of branches have full edges */
    cuda_fake_reset();
    cuda_fake.capability = 80;
    assert_int_equal(edges_captured(list, 4, false), 0);
    assert_int_equal(edges_sent(list, 4), 0);
}

/* What other processes take of the GPU meanwhile is not the graph's. */
static void a_graph_has_its_own_bytes_alone(void **state) {
    static char code;
    const hal_launch one = {
        .name = "k", .fn = {.handle = &code}, .items = 4, .threads = 32, .per_block = 1};
    rp_error err = {0};
    hal_device *d = NULL;
    hal_graph *g = NULL;
    (void)state;
    cuda_fake_reset();
    CHECK_OK(cuda_device_open(&cuda_fake_driver, 0, &d, &err), &err);
    cuda_fake.taken_beside = 1 << 20;
    CHECK_OK(d->ops->graph_build(d, &one, 1, 0, "g", &g, &err), &err);
    assert_true(d->ops->graph_bytes(g) >=
                cuda_fake.taken_beside); /* as the driver's piece would be */
    d->ops->graph_free(g);
    cuda_fake.taken_beside = 512 << 20;
    CHECK_OK(d->ops->graph_build(d, &one, 1, 0, "g", &g, &err), &err);
    assert_true(d->ops->graph_bytes(g) < 4 << 20);
    d->ops->graph_free(g);
    hal_close(d);
}

static void refuses(rp_status want, const char *text) {
    cuda_gpu g = {0};
    rp_error err = {0};
    assert_int_equal(cuda_gpu_open(&cuda_fake_driver, 0, 90, &g, &err), want);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    assert_int_equal(cuda_fake.live, 0);
}

static void what_is_not_usable_is_said(void **state) {
    cuda_gpu g = {0};
    rp_error err = {0};
    (void)state;
    cuda_fake_reset();
    cuda_fake.version = 12010;
    refuses(RP_UNSUPPORTED, "of CUDA 12.1, which is too old; update it to 12.4");
    cuda_fake_reset();
    cuda_fake.fail_one = "init";
    cuda_fake.fail_code = CUDA_NO_DEVICE;
    refuses(RP_UNSUPPORTED, "finds no GPU");
    cuda_fake_reset();
    cuda_fake.n_devices = 0;
    refuses(RP_UNSUPPORTED, "finds no GPU");
    cuda_fake_reset();
    cuda_fake.capability = 80;
    refuses(RP_UNSUPPORTED, "cuda:0 (Fake GPU) has compute capability 8.0; 9.0 or more");
    cuda_fake_reset();
    assert_int_equal(cuda_gpu_open(&cuda_fake_driver, 1, 90, &g, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no cuda:1 here; there is cuda:0 alone"));
    cuda_fake.fail_one = "context_retain";
    cuda_fake.fail_code = CUDA_OUT_OF_MEMORY;
    refuses(RP_NOMEM, "cuda:0 (Fake GPU) has no memory left for a context: nvidia-smi shows");
    cuda_fake.fail_code = CUDA_DEVICE_UNAVAILABLE;
    refuses(RP_DEVICE, "cuda:0 (Fake GPU) is busy: another process has it for itself, or its ");
    cuda_fake.fail_code = 999;
    refuses(RP_DEVICE, "context of the GPU: told to fail (CUDA_ERROR_FAKE, 999)");
}

static void a_text_that_does_not_compile_is_named(void **state) {
    char *cubin = NULL;
    size_t n = 0;
    rp_error err = {0};
    (void)state;
    cuda_fake_reset();
    cuda_fake.compiles = false;
    assert_int_equal(cuda_compile(&cuda_fake_nvrtc, &(cuda_source){"text", "a.cu", "sm_90a"}, NULL,
                                  &cubin, &n, &err),
                     RP_INVALID);
    assert_null(cubin);
    assert_string_equal(err.text, "NVRTC does not compile a.cu (code 6): cases.cu(3): error: no "
                                  "such thing");
    assert_int_equal(cuda_fake.live, 0);
}

/* The fake NVRTC's error is in line 3. */
static void its_kernel_is_named_where_the_log_has_a_line(void **state) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"\n__global__ void __launch_bounds__(256, 1) one(int *p) {\n x;\n}\n", "kernel one "},
        {"__global__ void one(int *p) {\n}\nint f(int a);\n__global__ void RK_CLUSTER(8) two_b(int "
         "*p) {\n}\n",
         "kernel two_b "},
        {"\n\nint f(int a);\n__global__ void two_b(int *p) {\n}\n", "kernel two_b "},
        {"__global__ void one(int *p) {\n}\nint f(int a);\n", "kernel one "},
        {"\n\nint f(int a);\n", "cases.cu "},
        {"__global__ void", "cases.cu "},
        {"", "cases.cu "}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i / 2].text;
        char *cubin = NULL, want[80];
        size_t n = 0;
        rp_error err = {0};
        cuda_fake_reset();
        cuda_fake.compiles = false;
        cuda_fake.colons = i % 2;
        const cuda_source source = {text, "cases.cu", "sm_90a"};
        assert_int_equal(cuda_compile(&cuda_fake_nvrtc, &source, NULL, &cubin, &n, &err),
                         RP_INVALID);
        (void)snprintf(want, sizeof want, "NVRTC does not compile %s(code 6): cases.cu%s: error",
                       cases[i / 2].want, i % 2 ? ":3" : "(3)");
        if (!strstr(err.text, want)) fail_msg("'%s' does not say '%s'", err.text, want);
    }
}

/* Besides those of every text there is room for 14. */
static void options_end(void **state) {
    const char *options[16] = {0};
    (void)state;
    cuda_fake_reset();
    for (int n = 0; n < 16; n++) {
        char *cubin = NULL;
        size_t size = 0;
        rp_error err = {0};
        rp_status st = cuda_compile(&cuda_fake_nvrtc, &(cuda_source){"text", "a.cu", "sm_90a"},
                                    options, &cubin, &size, &err);
        if ((st == RP_OK) != (n <= 14)) fail_msg("%d options: %s", n, err.text);
        if (st != RP_OK) assert_string_equal(err.text, "a.cu: more than 14 options");
        base_free(cubin);
        options[n] = "-lineinfo";
    }
    assert_int_equal(cuda_fake.live, 0);
}

static void a_machine_without_the_library_is_told(void **state) {
    cuda_driver cu;
    cuda_nvrtc rtc;
    const char *path = NULL;
    char absent[256];
    rp_error err = {0};
    (void)state;
    (void)snprintf(absent, sizeof absent, "%s/libnvrtc.so", tree_new("cuda"));
    (void)setenv("REPRISE_NVRTC", absent, 1);
    assert_int_equal(cuda_nvrtc_open(&rtc, &path, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, absent));
    assert_non_null(strstr(err.text, " is no libnvrtc that can be loaded"));
    err = (rp_error){0};
    (void)setenv("REPRISE_NVRTC", "libc.so.6", 1); /* a library, but another one */
    assert_int_equal(cuda_nvrtc_open(&rtc, &path, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no nvrtcVersion"));
    assert_null(path);
    (void)unsetenv("REPRISE_NVRTC");
    err = (rp_error){0};
    if (cuda_driver_open(&cu, &err) != RP_OK)
        assert_non_null(strstr(err.text, "libcuda.so.1) on this machine; install"));
}

/* A range that takes memory twice. */
static rp_status grow_range(rp_error *err) {
    hal_device *d = NULL;
    hal_reserved *r = NULL;
    size_t was = 0;
    rp_status st = cuda_device_open(&cuda_fake_driver, 0, &d, err);
    if (st == RP_OK) st = d->ops->reserve(d, 5 << 20, &r, err);
    if (st == RP_OK) st = d->ops->commit(r, 1, err);
    if (st == RP_OK) st = d->ops->commit(r, 5 << 20, err);
    was = r ? r->committed : 0;
    if (d) assert_int_equal(hal_live_bytes(d), was);
    assert_true(st == RP_OK ? was == 6 << 20 : was == 0 || was == 2 << 20);
    if (r) d->ops->unreserve(r);
    hal_close(d);
    return st;
}

static void a_range_may_fail_at_each_call(void **state) {
    size_t before = base_live();
    (void)state;
    assert_int_equal(fail_each_call(grow_range), 3); /* what giving it back does */
    assert_non_null(strstr(cuda_fake.log,
                           "granularity address_reserve context_set memory_make memory_map "
                           "memory_access memory_set stream_synchronize context_set memory_make "
                           "memory_map memory_access memory_set stream_synchronize context_set "
                           "stream_synchronize context_set memory_unmap memory_release "
                           "memory_unmap memory_release address_free "));
    for (uint32_t k = 1; k < 40; k++) {
        rp_error err = {0};
        cuda_fake_reset();
        base_alloc_fail_nth(k);
        (void)grow_range(&err);
        base_alloc_fail_nth(0);
        assert_int_equal(cuda_fake.live, 0);
        assert_int_equal(base_live(), before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_may_fail_at_each_call),
        cmocka_unit_test(each_call_may_fail),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(an_upload_may_fail_at_each_call),
        cmocka_unit_test(queues_and_events_may_fail_at_each_call),
        cmocka_unit_test(modules_and_graphs_may_fail_at_each_call),
        cmocka_unit_test(timing_may_fail_at_each_call),
        cmocka_unit_test(code_may_come_beside_a_capture),
        cmocka_unit_test(no_thread_is_left_relaxed),
        cmocka_unit_test(a_capture_may_fail_at_each_call),
        cmocka_unit_test(a_capture_may_fail_at_each_allocation),
        cmocka_unit_test(a_capture_waits_for_nothing),
        cmocka_unit_test(nobody_waits_for_a_queue_that_captures),
        cmocka_unit_test(memory_waits_for_queues_of_its_gpu),
        cmocka_unit_test(a_lost_gpu_is_not_the_other),
        cmocka_unit_test(a_kernel_that_is_not_there_is_named),
        cmocka_unit_test(what_is_put_off_keeps_its_context),
        cmocka_unit_test(memory_of_another_gpu_is_not_reached),
        cmocka_unit_test(a_chain_has_programmatic_edges),
        cmocka_unit_test(a_list_has_programmatic_edges),
        cmocka_unit_test(a_graph_has_its_own_bytes_alone),
        cmocka_unit_test(what_is_not_usable_is_said),
        cmocka_unit_test(a_text_that_does_not_compile_is_named),
        cmocka_unit_test(its_kernel_is_named_where_the_log_has_a_line),
        cmocka_unit_test(options_end),
        cmocka_unit_test(a_machine_without_the_library_is_told),
    };
    return cmocka_run_group_tests_name("hal_cuda", tests, NULL, NULL);
}
