/* The memory of a device is taken by whom the summary says: what is gone of it is the sum of the lines, on the emulated GPU, whose driver has needs of
 * its own here. */
#include "engine/engine.h"
#include "support/gpu.h"
#include "support/heard.h"
#include "support/ledgers.h"
#include "support/trees.h"

static const char *why_not;
static const char *const on_gpu[] = {"device=cuda:0", "max_num_seqs=8", "max_model_len=512", NULL};

enum {
    CONTEXT = 300 << 20,
    MODULE = 2 << 20,
    GRAPH = 256 << 10
}; /* of the emulated driver, MODULE at least */

static void lines_are_what_is_gone(void **state) {
    static const char *const models[] = {"synthetic:tiny", "synthetic:tiny,dtype=bf16"};
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        rp_engine *e = engine_must(models[i], on_gpu);
        ledger l = ledger_of(e);
        ledger_near(models[i], ledger_sum(&l), l.total - l.free);
        assert_int_equal(l.context, CONTEXT);
        assert_true(l.weights > 0 && l.kv > 0 && l.steps > 0);
        assert_int_equal(l.kv, engine_count(e, "memory.kv"));
        /* What the engine alone has of the device is in one line each. */
        assert_int_equal(l.steps + l.kv + (long long)engine_weights_own_bytes(e->weights),
                         e->device->ops->own_bytes(e->device));
        assert_true(engine_weights_own_bytes(e->weights) > 0);
        assert_true(l.code >= engine_count(e, "launches.module_loads") * MODULE);
        assert_int_equal(l.graphs, engine_count(e, "captures") * GRAPH);
        rp_engine_close(e);
    }
}

/* What grows is in its line; of a second engine the first is what others have. */
static void so_they_are_later(void **state) {
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    rp_engine *e = engine_must("synthetic:tiny", on_gpu);
    ledger before = ledger_of(e);
    int32_t ids[200];
    rp_request_options r = plain_request(2);
    r.prompt_ids = ids;
    r.n_prompt_ids = 200;
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 200; k++) ids[k] = (i * 31 + k) % 250;
        (void)must_submit(e, &r);
    }
    must_run(e, -1);
    ledger after = ledger_of(e);
    assert_true(after.kv > before.kv);
    ledger_near("grown", ledger_sum(&after), after.total - after.free);
    rp_engine *second = engine_must("synthetic:tiny", on_gpu);
    ledger l = ledger_of(second);
    assert_int_equal(l.context, after.total - after.free);
    /* The weights are the first one's, in its lines and in its own. */
    ledger_near("second", ledger_sum(&l), l.total - l.free);
    rp_engine_close(e);
    rp_engine_close(second);
}

static void pinned_memory_is_the_host_s(void **state) {
    rp_error err = {0};
    hal_device *d = NULL;
    void *own = NULL, *mapped = NULL;
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, 4096, &own, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_MAPPED_MEMORY, 8192, &mapped, &err), &err);
    assert_int_equal(hal_live_bytes(d), 4096 + 8192);
    assert_int_equal(d->ops->own_bytes(d), 4096);
    d->ops->release(d, mapped, 8192);
    assert_int_equal(d->ops->own_bytes(d), 4096);
    d->ops->release(d, own, 4096);
    assert_int_equal(d->ops->own_bytes(d), 0);
    hal_close(d);
}

/* Each graph is told once, when it is whole: they add up to the total. */
static void check_graphs_told(const char *const *settings) {
    base_buf b;
    long long n = 0, sum = 0;
    heard_start(&b, "+cudagraphs");
    rp_engine *e = engine_must("synthetic:tiny", settings);
    for (const char *p = b.data; p && (p = strstr(p, "] captured ")); p++) {
        const char *line_end = strchr(p, '\n'), *size = strstr(p, " launches");
        unsigned long long bytes = 0;
        double ms = 0;
        while (size && size < line_end &&
               sscanf(size, ", %llu bytes, made in %lf ms", &bytes, &ms) != 2)
            size++;
        if (!size || size >= line_end || !bytes || !(ms >= 0 && ms < 60e3))
            fail_msg("%.*s: not how large it is and how long it took", (int)(line_end - p), p);
        n++;
        sum += (long long)bytes;
    }
    assert_int_equal(n, engine_count(e, "captures"));
    assert_int_equal(sum, engine_count(e, "memory.graphs"));
    rp_engine_close(e);
    heard_done(&b);
}

static void each_graph_is_told_with_its_size_and_time(void **state) {
    (void)state;
    check_graphs_told(NULL);
    if (why_not) SKIP_TEST("%s", why_not);
    check_graphs_told(on_gpu);
}

static void the_host_has_none(void **state) {
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", NULL);
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    assert_non_null(strstr(text, "\"device_memory\":null"));
    rp_engine_text_free(text);
    rp_engine_close(e);
}

int main(void) {
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0 ||
        setenv("EMU_OVERHEAD", "1", 1) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_what_is_gone),
        cmocka_unit_test(so_they_are_later),
        cmocka_unit_test(pinned_memory_is_the_host_s),
        cmocka_unit_test(each_graph_is_told_with_its_size_and_time),
        cmocka_unit_test(the_host_has_none),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
