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

static void memory_of_another_size_is_other_memory(void **state) {
    static char memory[256];
    rp_error err = {0};
    device_graph g = {.queue = NULL};
    rp_device *d = device_open_ok("cpu", 1);
    void **used = base_alloc_array(1, sizeof *used);
    (void)state;
    assert_non_null(used);
    used[0] = memory;
    CHECK_OK(hal_range_add(device_root(d), memory, 64, "a block", &err), &err);
    CHECK_OK(device_graph_uses(&g, d, used, 1, device_frees(d), &err), &err);
    assert_true(device_graph_valid(&g));
    count_a_free(d);
    assert_true(device_graph_valid(&g));
    place_anew(d, memory, 128);
    assert_false(device_graph_valid(&g));
    place_anew(d, memory, 32);
    assert_false(device_graph_valid(&g));
    place_anew(d, memory, 0);
    assert_false(device_graph_valid(&g));
    base_free(g.used);
    base_free(g.used_size);
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_of_another_size_is_other_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
