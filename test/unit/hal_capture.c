/* Captures of a queue: nothing runs until the graph does, every address is audited when it comes, the first failure is that of
 * the capture; queues of one device are independent of each other. */
#include "support/check.h"

#include "base/alloc.h"
#include "hal/device.h"

enum { N = 300000 }; /* bytes: several shares for several threads */

static const char *const names[] = {"cpu", "null"};

static void *get_memory(hal_device *d) {
    void *p = NULL;
    rp_error err = {0};
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, N, &p, &err), &err);
    return p;
}

static void increment(void *const *arg, const long long *dim, long long begin, long long end,
                      void *scratch) {
    unsigned char *p = arg[0];
    (void)scratch;
    for (long long i = begin; i < end; i++) p[i] = (unsigned char)(p[i] + dim[0]);
}

static rp_status launch(hal_device *d, void *p, long long by, rp_error *err) {
    size_t size = N;
    hal_launch l = {.name = "increment",
                    .fn = {increment},
                    .arg = &p,
                    .arg_size = &size,
                    .n_arg = 1,
                    .dim = &by,
                    .n_dim = 1,
                    .items = N,
                    .grain = 1000};
    return d->ops->launch(d, &l, 1, 0, err); /* arrays on the stack: they are copied */
}

/* fill a, a += 2, copy a to b, b += 3. */
static void note_calls(hal_device *d, void *a, void *b) {
    rp_error err = {0};
    CHECK_OK(d->ops->fill(d, a, 5, N, &err), &err);
    CHECK_OK(launch(d, a, 2, &err), &err);
    CHECK_OK(d->ops->copy(d, b, a, N, &err), &err);
    CHECK_OK(launch(d, b, 3, &err), &err);
}

static void runs_when_it_is_replayed(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        rp_error err = {0};
        hal_device *d = NULL;
        hal_graph *g = NULL;
        uint32_t n = 0;
        CHECK_OK(hal_open(names[k], 3, &d, &err), &err);
        unsigned char *a = get_memory(d), *b = get_memory(d);
        CHECK_OK(hal_capture_begin(d, &err), &err);
        note_calls(d, a, b);
        assert_true(hal_capture_has_written(d, b, N) && hal_capture_has_written(d, a + 7, 9));
        assert_false(hal_capture_has_written(d, b + 1, N));
        CHECK_OK(hal_capture_end(d, "calls", &g, &n, &err), &err);
        assert_int_equal(n, 4);
        assert_int_equal(hal_device_counters(d)->launches, 0);
        assert_int_equal(a[0] + b[0] + a[N - 1], 0);
        for (int round = 0; round < 2; round++) {
            memset(b, 0, N);
            CHECK_OK(d->ops->graph_launch(g, &err), &err);
            for (int i = 0; k == 0 && i < N; i++) assert_true(a[i] == 7 && b[i] == 10);
        }
        assert_int_equal(hal_device_counters(d)->graph_nodes, 8);
        d->ops->graph_free(g);
        d->ops->release(d, a, N);
        d->ops->release(d, b, N);
        hal_close(d);
    }
    assert_int_equal(base_live(), 0);
}

/* The call that brings a bad address fails, and so does the end; nothing stays. */
static void a_bad_address_spoils_it(void **state) {
    static char outside[N];
    (void)state;
    for (int k = 0; k < 2; k++) {
        rp_error err = {0}, end = {0};
        hal_device *d = NULL;
        hal_graph *g = NULL;
        uint32_t n = 0;
        CHECK_OK(hal_open(names[k], 1, &d, &err), &err);
        void *a = get_memory(d);
        CHECK_OK(hal_capture_begin(d, &err), &err);
        CHECK_OK(launch(d, a, 1, &err), &err);
        assert_int_equal(d->ops->copy(d, outside, a, N, &err), RP_INTERNAL);
        assert_non_null(strstr(err.text, "launch 0 (copy): argument 0"));
        assert_int_equal(hal_capture_end(d, "bad", &g, &n, &end), RP_INTERNAL);
        assert_string_equal(end.text, err.text);
        CHECK_OK(hal_capture_begin(d, &err), &err); /* allowed, it is fine */
        CHECK_OK(hal_capture_allow(d, outside, N, "outside", &err), &err);
        CHECK_OK(d->ops->copy(d, outside, a, N, &err), &err);
        CHECK_OK(hal_capture_end(d, "good", NULL, NULL, &err), &err);
        d->ops->release(d, a, N);
        hal_close(d);
    }
    assert_int_equal(base_live(), 0);
}

static void waiting_and_replaying_are_refused(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        rp_error err = {0}, other = {0};
        hal_device *d = NULL;
        hal_graph *g = NULL, *h = NULL;
        uint32_t n = 0;
        CHECK_OK(hal_open(names[k], 1, &d, &err), &err);
        assert_int_equal(hal_capture_end(d, "none", &g, &n, &err), RP_INVALID);
        CHECK_OK(hal_capture_begin(d, &err), &err);
        assert_int_equal(hal_capture_begin(d, &other), RP_INVALID);
        CHECK_OK(hal_capture_end(d, "empty", &g, &n, &err), &err);
        CHECK_OK(hal_capture_begin(d, &err), &err);
        err = (rp_error){0};
        assert_int_equal(d->ops->synchronize(d, &err), RP_INVALID);
        assert_string_equal(err.text, "waiting for the device while calls are captured, which "
                                      "cannot be replayed");
        assert_int_equal(d->ops->graph_launch(g, &other), RP_INVALID);
        other = (rp_error){0};
        assert_int_equal(hal_capture_end(d, "waits", &h, &n, &other), RP_INVALID);
        assert_string_equal(other.text, err.text);
        d->ops->graph_free(g);
        hal_close(d);
    }
    assert_int_equal(base_live(), 0);
}

/* A queue has counters, ranges and captures of its own; the audit knows the memory of the first one. */
static void queues_of_one_device(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        rp_error err = {0};
        hal_device *d = NULL, *q = NULL, *r = NULL;
        hal_graph *g = NULL;
        uint32_t n = 0;
        CHECK_OK(hal_open(names[k], 2, &d, &err), &err);
        CHECK_OK(hal_queue(d, &q, &err), &err);
        CHECK_OK(hal_queue(q, &r, &err), &err);
        assert_true(q->root == d && r->root == d);
        unsigned char *a = get_memory(d), *b = get_memory(r);
        CHECK_OK(hal_capture_begin(q, &err), &err);
        CHECK_OK(launch(d, a, 1, &err), &err); /* the others go on */
        CHECK_OK(launch(q, a, 1, &err), &err);
        assert_int_equal(launch(q, b, 1, &err), RP_INTERNAL); /* of a neighbour */
        CHECK_OK(hal_capture_end(q, "q", NULL, &n, &err), &err);
        assert_null(g);
        assert_int_equal(a[N - 1], k == 0);
        assert_int_equal(hal_device_counters(d)->launches, 1);
        assert_int_equal(hal_device_counters(q)->launches, 0);
        assert_int_equal(hal_live_bytes(d), N);
        assert_int_equal(hal_live_bytes(q), 0);
        r->ops->release(r, b, N);
        d->ops->release(d, a, N);
        assert_int_equal(hal_live_bytes(d), 0); /* not what it was at most */
        hal_close(r);
        hal_close(q);
        hal_close(d);
    }
    assert_int_equal(base_live(), 0);
}

/* Each memory of the first queue that calls name is told once, however many there are. */
static void what_is_used_is_told_once(void **state) {
    enum { MOST = 40 };
    (void)state;
    for (uint32_t n = 15; n <= MOST; n += n < 18 ? 1 : MOST - n) {
        rp_error err = {0};
        hal_device *d = NULL, *q = NULL;
        hal_graph *g = NULL;
        hal_used *used = NULL;
        void *p[MOST];
        uint32_t n_used = 0, n_launches = 0;
        CHECK_OK(hal_open("null", 1, &d, &err), &err);
        CHECK_OK(hal_queue(d, &q, &err), &err);
        for (uint32_t i = 0; i < n; i++) p[i] = get_memory(d);
        CHECK_OK(hal_capture_begin(q, &err), &err);
        for (uint32_t i = 0; i < 2 * n; i++) CHECK_OK(launch(q, p[i % n], 1, &err), &err);
        CHECK_OK(hal_capture_used(q, &used, &n_used, &err), &err);
        CHECK_OK(hal_capture_end(q, "used", &g, &n_launches, &err), &err);
        assert_int_equal(n_used, n);
        for (uint32_t i = 0; i < n; i++) {
            assert_ptr_equal(used[i].at, p[i]);
            for (uint32_t k = 0; k < i; k++) assert_true(used[k].serial != used[i].serial);
        }
        base_free(used);
        if (g) d->ops->graph_free(g);
        for (uint32_t i = 0; i < n; i++) d->ops->release(d, p[i], N);
        hal_close(q);
        hal_close(d);
        if (n == MOST) break;
    }
    assert_int_equal(base_live(), 0);
}

/* Joined ranges become one where they overlap or touch. */
static void ranges_join(void **state) {
    static const char at[100];
    rp_error err = {0};
    (void)state;
    hal_ranges *r = hal_ranges_new();
    CHECK_OK(hal_ranges_join(r, at + 10, 10, "a", &err), &err);
    CHECK_OK(hal_ranges_join(r, at + 30, 10, "b", &err), &err);
    assert_false(hal_ranges_cover(r, at + 10, 30));
    CHECK_OK(hal_ranges_join(r, at + 20, 5, "c", &err), &err);
    assert_true(hal_ranges_cover(r, at + 10, 15));
    assert_false(hal_ranges_cover(r, at + 10, 16));
    CHECK_OK(hal_ranges_join(r, at + 12, 20, "d", &err), &err);
    assert_true(hal_ranges_cover(r, at + 10, 30));
    assert_false(hal_ranges_cover(r, at + 9, 2));
    assert_true(hal_ranges_cover(r, at + 90, 0));
    CHECK_OK(hal_ranges_join(r, at, 0, "nothing", &err), &err);
    assert_false(hal_ranges_cover(r, at, 1));
    hal_ranges_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_when_it_is_replayed),
        cmocka_unit_test(a_bad_address_spoils_it),
        cmocka_unit_test(waiting_and_replaying_are_refused),
        cmocka_unit_test(queues_of_one_device),
        cmocka_unit_test(what_is_used_is_told_once),
        cmocka_unit_test(ranges_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
