/* Graphs over memory of a device that somebody frees. */
#include "support/check.h"
#include "support/devices.h"

#include "base/alloc.h"
#include "device/graph.h"
#include "reprise/reprise.h"

static void count_a_free(rp_device *d) {
    rp_error err = {0};
    void *p = NULL;
    CHECK_OK(rp_device_alloc(d, 4, &p, &err), &err);
    rp_device_free(d, p);
}

/* The device gives out the same address again, for a block of this size. */
static void place_anew(rp_device *d, const void *at, size_t size) {
    rp_error err = {0};
    hal_range_remove(device_root(d), at);
    if (size) CHECK_OK(hal_range_add(device_root(d), at, size, "a block", &err), &err);
    count_a_free(d);
}

/* Of whichever size, the same one included. */
static void memory_that_came_again_is_other_memory(void **state) {
    static const size_t sizes[] = {128, 32, 64, 0};
    static char memory[256];
    rp_error err = {0};
    device_graph g = {.queue = NULL};
    rp_device *d = device_open_ok("cpu", 1);
    hal_used *used = base_alloc_array(1, sizeof *used);
    (void)state;
    assert_non_null(used);
    CHECK_OK(hal_range_add(device_root(d), memory, 64, "a block", &err), &err);
    *used = (hal_used){memory, hal_range_serial(device_root(d), memory)};
    device_graph_uses(&g, d, used, 1, device_frees(d));
    assert_true(device_graph_valid(&g));
    count_a_free(d);
    assert_true(device_graph_valid(&g));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        place_anew(d, memory, sizes[i]);
        assert_false(device_graph_valid(&g));
    }
    base_free(g.used);
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_that_came_again_is_other_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
