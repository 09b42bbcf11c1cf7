/* Parts dealt to threads: each is done once, by a thread whose number nobody else has meanwhile. */
#include "support/check.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/parts.h"

enum { MOST = 300 };

typedef struct dealt {
    atomic_uint done[MOST];
    atomic_bool busy[BASE_PARTS_THREADS];
    atomic_uint wrong;
    uint64_t n;
    uint32_t most; /* numbers are below */
} dealt;

static void take(void *user, uint32_t thread, uint64_t part) {
    dealt *d = user;
    if (part >= d->n || thread >= d->most || atomic_exchange(&d->busy[thread], true)) {
        atomic_fetch_add(&d->wrong, 1);
        return;
    }
    atomic_fetch_add(&d->done[part], 1);
    atomic_store(&d->busy[thread], false);
}

static void each_part_is_done_once(void **state) {
    static const uint64_t parts[] = {0, 1, 2, 15, 16, 17, MOST};
    static const uint32_t threads[] = {0, 1, 2, BASE_PARTS_THREADS, BASE_PARTS_THREADS + 1, 200};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
            dealt d = {.n = parts[i], .most = threads[k] ? threads[k] : 1};
            if (d.most > d.n) d.most = (uint32_t)d.n;
            if (d.most > BASE_PARTS_THREADS) d.most = BASE_PARTS_THREADS;
            base_parts(parts[i], threads[k], take, &d);
            assert_int_equal(atomic_load(&d.wrong), 0);
            for (uint64_t p = 0; p < MOST; p++)
                assert_int_equal(atomic_load(&d.done[p]), p < parts[i]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_part_is_done_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
