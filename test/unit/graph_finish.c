/* Graphs that are finished beside the thread that begins them: each once, all before the close, and the first failure is told. */
#include "support/check.h"

#include <dirent.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "graph/finish.h"
#include "hal/hal.h"

enum { GRAPHS = 100, BYTES = 1000 };

static const hal_device_ops *own;
static atomic_int n_finished, n_bad; /* calls; of those, without a graph */
static int fail_at;                  /* which call fails; 0: none */
static bool both_fail; /* the first two calls, which are under way together, the second one first */
static int others;     /* threads of the process beside the two */

static int count_threads(void) {
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static rp_status begin(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch,
                       const char *label, hal_graph **out, rp_error *err) {
    return own->graph_build(d, list, n, scratch, label, out, err);
}

static rp_status finish(hal_graph *g, rp_error *err) {
    int nth = atomic_fetch_add(&n_finished, 1) + 1;
    if (!g) atomic_fetch_add(&n_bad, 1);
    while (both_fail && nth == 1 && atomic_load(&n_finished) < 2) (void)usleep(100);
    /* The other one has nothing to do after its failure, and ends. */
    while (both_fail && nth == 1 && count_threads() > others + 1) (void)usleep(100);
    if (both_fail && nth <= 2) return rp_fail(err, RP_DEVICE, "graph %d is too much", nth);
    return nth == fail_at ? rp_fail(err, RP_DEVICE, "graph %d is too much", nth) : RP_OK;
}

static size_t bytes(const hal_graph *g) {
    (void)g;
    return BYTES;
}

static void kernel(void *const *arg, const long long *dim, long long first, long long end,
                   void *scratch) {
    (void)arg, (void)dim, (void)first, (void)end, (void)scratch;
}

static rp_status run(hal_device *d, uint32_t n, uint64_t *out_bytes, rp_error *err) {
    const hal_launch l = {
        .kind = HAL_KERNEL, .name = "k", .fn = {.host = kernel}, .items = 1, .grain = 1};
    device_graph *graph[GRAPHS];
    graph_finisher *f = NULL;
    CHECK_OK(graph_finisher_open(&f, err), err);
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(graph_finisher_reserve(f, err), err);
        CHECK_OK(device_graph_begin(d, &l, 1, 0, "g", &graph[i], err), err);
        assert_true(graph[i]->begun);
        graph_finisher_add(f, graph[i]);
    }
    rp_status st = graph_finisher_close(f, out_bytes, err);
    for (uint32_t i = 0; i < n; i++) {
        bool fails = fail_at || both_fail;
        assert_true(fails || !graph[i]->begun);
        if (!fails) CHECK_OK(device_graph_launch(graph[i], err), err);
        device_graph_free(graph[i]);
    }
    return st;
}

static void open_parts(hal_device **d, hal_device_ops *ops) {
    rp_error err = {0};
    CHECK_OK(hal_open("cpu", 1, d, &err), &err);
    own = (*d)->ops;
    *ops = *own;
    ops->graph_begin = begin;
    ops->graph_finish = finish;
    ops->graph_bytes = bytes;
    (*d)->ops = ops;
    n_finished = n_bad = 0;
    fail_at = 0;
    both_fail = false;
}

static void close_parts(hal_device *d) {
    d->ops = own;
    hal_close(d);
    assert_int_equal(n_bad, 0);
    assert_int_equal(base_live(), 0);
}

static void each_is_finished_once(void **state) {
    static const uint32_t counts[] = {0, 1, 2, 63, 64, 65, GRAPHS};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        hal_device *d = NULL;
        hal_device_ops ops;
        rp_error err = {0};
        uint64_t all = 7;
        open_parts(&d, &ops);
        CHECK_OK(run(d, counts[i], &all, &err), &err);
        assert_int_equal(n_finished, counts[i]);
        assert_int_equal(all, counts[i] * BYTES);
        close_parts(d);
    }
}

static void the_first_failure_is_told(void **state) {
    (void)state;
    for (int at = 1; at <= GRAPHS; at += 9) {
        hal_device *d = NULL;
        hal_device_ops ops;
        rp_error err = {0};
        char want[40];
        uint64_t all = 0;
        open_parts(&d, &ops);
        fail_at = at;
        assert_int_equal(run(d, GRAPHS, &all, &err), RP_DEVICE);
        (void)snprintf(want, sizeof want, "graph %d is too much", at);
        assert_string_equal(err.text, want);
        assert_true(all < GRAPHS * BYTES);
        close_parts(d);
    }
}

static void a_later_failure_is_not_told(void **state) {
    hal_device *d = NULL;
    hal_device_ops ops;
    rp_error err = {0};
    uint64_t all = 0;
    (void)state;
    open_parts(&d, &ops);
    both_fail = true;
    others = count_threads();
    assert_int_equal(run(d, GRAPHS, &all, &err), RP_DEVICE);
    assert_string_equal(err.text, "graph 2 is too much");
    assert_int_equal(n_finished, 2);
    close_parts(d);
}

/* Where there is one part, nothing is left to be finished. */
static void one_part_is_a_whole(void **state) {
    const hal_launch l = {
        .kind = HAL_KERNEL, .name = "k", .fn = {.host = kernel}, .items = 1, .grain = 1};
    hal_device *d = NULL;
    hal_device_ops ops;
    device_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    open_parts(&d, &ops);
    d->ops = own;
    CHECK_OK(device_graph_begin(d, &l, 1, 0, "g", &g, &err), &err);
    assert_false(g->begun);
    CHECK_OK(device_graph_finish(g, &err), &err);
    CHECK_OK(device_graph_launch(g, &err), &err);
    device_graph_free(g);
    assert_int_equal(n_finished, 0);
    close_parts(d);
}

/* Of one graph there is no second thread. */
static void a_thread_that_fails_is_done_without(void **state) {
    hal_device *d = NULL;
    hal_device_ops ops;
    rp_error err = {0};
    uint64_t all = 0;
    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++)
        for (uint32_t n = nth == 1 ? 1 : GRAPHS; n <= GRAPHS; n += GRAPHS - 1) {
            open_parts(&d, &ops);
            base_sys_fail_nth(nth);
            CHECK_OK(run(d, n, &all, &err), &err);
            assert_true(base_sys_fail_nth(0));
            assert_int_equal(n_finished, n);
            assert_int_equal(all, n * BYTES);
            close_parts(d);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_finished_once),
        cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(a_later_failure_is_not_told),
        cmocka_unit_test(one_part_is_a_whole),
        cmocka_unit_test(a_thread_that_fails_is_done_without),
    };
    return cmocka_run_group_tests_name("graph_finish", tests, NULL, NULL);
}
