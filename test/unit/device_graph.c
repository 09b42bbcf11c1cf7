/* Graphs over memory of a device that somebody frees. */
#include "support/check.h"
#include "support/devices.h"

#include "base/alloc.h"
#include "device/graph.h"
#include "device/stream.h"
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
        for (int k = 0; k < 2; k++) assert_false(device_graph_valid(&g));
    }
    base_free(g.used);
    rp_device_close(d);
}

static uint32_t n_parts_freed;

static void count_part(device_part *p) {
    (void)p;
    n_parts_freed++;
}

/* A part is the stream's from then on, also where there is no memory to keep it. */
static void a_part_that_cannot_be_kept_goes(void **state) {
    device_part part = {.free = count_part};
    rp_error err = {0};
    (void)state;
    rp_device *d = device_open_ok("cpu", 1);
    rp_stream *s = stream_open_ok(d);
    (void)base_alloc_fail_nth(1);
    rp_status st = device_stream_keep(s, &part, &err);
    assert_true(base_alloc_fail_nth(0));
    assert_int_equal(st, RP_NOMEM);
    assert_int_equal(n_parts_freed, 1);
    rp_stream_close(s);
    rp_device_close(d);
}

static uint32_t begun;

static rp_status count_begin(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch,
                             const char *label, hal_graph **out, rp_error *err) {
    (void)d, (void)list, (void)n, (void)scratch, (void)label, (void)out;
    begun++;
    return rp_fail(err, RP_UNSUPPORTED, "not here");
}

/* Whose launches have memory that nobody registered, also where the making of a graph is only begun. */
static void a_list_is_looked_at_before_it_is_begun(void **state) {
    static float own[4], foreign[4];
    rp_error err = {0};
    rp_device *d = device_open_ok("null", 1);
    hal_device *root = device_root(d);
    const hal_device_ops *was = root->ops;
    hal_device_ops ops = *was;
    void *args[] = {own};
    const hal_launch one = {.kind = HAL_KERNEL, .name = "one", .items = 1, .arg = args, .n_arg = 1};
    device_graph *g = NULL;
    (void)state;
    ops.graph_begin = count_begin;
    root->ops = &ops;
    CHECK_OK(hal_range_add(root, own, sizeof own, "own", &err), &err);
    assert_int_equal(device_graph_begin(root, &one, 1, 0, "g", &g, &err), RP_UNSUPPORTED);
    assert_int_equal(begun, 1);
    args[0] = foreign;
    err = (rp_error){0};
    assert_int_equal(device_graph_begin(root, &one, 1, 0, "g", &g, &err), RP_INTERNAL);
    assert_int_equal(begun, 1);
    assert_non_null(strstr(err.text, "argument 0"));
    assert_null(g);
    root->ops = was;
    hal_range_remove(root, own);
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_that_came_again_is_other_memory),
                                       cmocka_unit_test(a_part_that_cannot_be_kept_goes),
                                       cmocka_unit_test(a_list_is_looked_at_before_it_is_begun)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
