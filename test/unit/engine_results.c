/* Results of steps on a device that does everything as late as it may: when the host waits. What it reads then is of the step that
 * it waited for. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/results.h"

enum { ROWS = 3, VOCAB = 4, MOST = 64 };

/* What is queued: a kernel that writes results, a copy or an event. */
typedef struct entry {
    uint64_t step;
    float *best;
    void *to;
    const void *from;
    size_t size;
    hal_event *event;
} entry;

static entry queue[MOST];
static uint32_t n_queued, n_done;

static void push(entry e) {
    assert_true(n_queued < MOST);
    queue[n_queued++] = e;
}

static rp_status late_copy(hal_device *d, void *to, const void *from, size_t size, rp_error *err) {
    (void)d, (void)err;
    push((entry){.to = to, .from = from, .size = size});
    return RP_OK;
}

static rp_status late_record(hal_device *d, hal_event *e, rp_error *err) {
    (void)d, (void)err;
    push((entry){.event = e});
    return RP_OK;
}

static void run_until(uint32_t end) {
    for (; n_done < end; n_done++) {
        const entry *e = &queue[n_done];
        if (e->to) memcpy(e->to, e->from, e->size);
        for (uint32_t i = 0; e->best && i < ROWS; i++) {
            e->best[i] = (float)(e->step * 10 + i);
            ((int32_t *)(void *)(e->best + ROWS))[i] = (int32_t)(e->step * 100 + i);
        }
    }
}

static rp_status late_event(hal_event *e, rp_error *err) {
    uint32_t end = n_queued;
    (void)err;
    while (end > 0 && queue[end - 1].event != e) end--;
    run_until(end);
    return RP_OK;
}

static rp_status late_all(hal_device *d, rp_error *err) {
    (void)d, (void)err;
    run_until(n_queued);
    return RP_OK;
}

static void open_late(hal_device **d, hal_device_ops *ops) {
    rp_error err = {0};
    CHECK_OK(hal_open("cpu", 1, d, &err), &err);
    *ops = *(*d)->ops;
    ops->copy = late_copy;
    ops->event_record = late_record;
    ops->event_synchronize = late_event;
    ops->synchronize = late_all;
    n_queued = n_done = 0;
}

static void launch(engine_results *r, uint64_t step) {
    rp_error err = {0};
    push((entry){.step = step, .best = r->best});
    CHECK_OK(engine_results_deliver(r, ROWS, &err), &err);
    CHECK_OK(engine_results_launched(r, &err), &err);
}

static void check_step(const engine_results *r, uint64_t step) {
    engine_best best = engine_results_best(r);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_true(best.logit[i] == (float)(step * 10 + i));
        assert_int_equal(best.id[i], step * 100 + i);
    }
}

static void each_wait_gives_its_step(void **state) {
    rp_error err = {0};
    (void)state;
    for (uint32_t ahead = 1; ahead <= ENGINE_FLIGHTS; ahead++) {
        hal_device *d = NULL;
        hal_device_ops late;
        open_late(&d, &late);
        const hal_device_ops *own = d->ops;
        engine_exchange x = {.needed = false};
        engine_results r = {
            .device = d, .x = &x, .max_rows = ROWS, .row_size = VOCAB * sizeof(float)};
        CHECK_OK(engine_results_open(&r, 4, &err), &err);
        d->ops = &late;
        assert_int_equal(engine_results_wait(&r, &err), RP_INTERNAL);
        for (uint64_t step = 1; step < 8; step++) {
            launch(&r, step);
            assert_int_equal(engine_results_in_flight(&r), step < ahead ? step : ahead);
            if (step < ahead) continue;
            CHECK_OK(engine_results_wait(&r, &err), &err);
            check_step(&r, step - ahead + 1);
            run_until(n_queued); /* what is behind it does not touch it */
            check_step(&r, step - ahead + 1);
        }
        engine_results_drain(&r);
        assert_int_equal(engine_results_in_flight(&r), 0);
        check_step(&r, 7);
        d->ops = own;
        engine_results_close(&r);
        hal_close(d);
    }
    assert_int_equal(base_live(), 0);
}

/* Rows up to the last one, while nothing is in flight. */
static void logits_are_of_rows_that_are_there(void **state) {
    rp_error err = {0};
    hal_device *d = NULL;
    const float *at = NULL;
    (void)state;
    CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
    engine_exchange x = {.needed = false};
    engine_results r = {.device = d, .x = &x, .max_rows = ROWS, .row_size = VOCAB * sizeof(float)};
    CHECK_OK(engine_results_open(&r, 4, &err), &err);
    for (uint32_t first = 0; first <= ROWS + 1; first++)
        for (uint32_t n = 0; n <= ROWS + 1; n++) {
            bool there = first <= ROWS && n <= ROWS && first + n <= ROWS;
            at = NULL;
            assert_int_equal(engine_results_logits(&r, first, n, &at, &err),
                             there ? RP_OK : RP_INTERNAL);
            if (there) assert_ptr_equal(at, (float *)r.logits + first * VOCAB);
        }
    CHECK_OK(engine_results_launched(&r, &err), &err);
    assert_int_equal(engine_results_logits(&r, 0, 1, &at, &err), RP_INTERNAL);
    CHECK_OK(engine_results_wait(&r, &err), &err);
    CHECK_OK(engine_results_logits(&r, 0, 1, &at, &err), &err);
    engine_results_close(&r);
    hal_close(d);
    assert_int_equal(base_live(), 0);
}

static const hal_device_ops *host;
static size_t taken, given;

static rp_status count_alloc(hal_device *d, hal_memory kind, size_t size, void **out,
                             rp_error *err) {
    taken += size;
    return host->alloc(d, kind, size, out, err);
}

static void count_release(hal_device *d, void *p, size_t size) {
    given += size;
    host->release(d, p, size);
}

/* What is said of memory is what was taken, and all of it is given back as it was taken; also where the host is not the device. */
static void bytes_are_those_that_are_taken(void **state) {
    (void)state;
    for (int needed = 0; needed < 2; needed++)
        for (uint32_t rows = 1; rows < 70; rows += 34) {
            rp_error err = {0};
            hal_device *d = NULL;
            CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
            host = d->ops;
            hal_device_ops counting = *host;
            counting.alloc = count_alloc;
            counting.release = count_release;
            d->ops = &counting;
            taken = given = 0;
            engine_exchange x = {.needed = needed};
            engine_results r = {
                .device = d, .x = &x, .max_rows = rows, .row_size = VOCAB * sizeof(float)};
            CHECK_OK(engine_results_open(&r, rows, &err), &err);
            assert_int_equal(engine_results_logits_bytes(&r) + engine_results_best_bytes(&r),
                             taken);
            engine_results_close(&r);
            assert_int_equal(given, taken);
            d->ops = host;
            hal_close(d);
        }
    assert_int_equal(base_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_that_are_taken),
        cmocka_unit_test(each_wait_gives_its_step),
        cmocka_unit_test(logits_are_of_rows_that_are_there),
    };
    return cmocka_run_group_tests_name("engine_results", tests, NULL, NULL);
}
