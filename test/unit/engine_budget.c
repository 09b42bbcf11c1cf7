/* Memory of steps and weights that fit alone, and not together, is refused before weights are packed; what the line says
 * to do helps. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/memory.h"
#include "engine/engine.h"
#include "engine/kv_memory.h"
#include "engine/packed.h"
#include "engine/room.h"
#include "engine/runner.h"
#include "support/engines.h"
#include "support/gpu.h"
#include "support/trees.h"

#define MODEL "synthetic:tiny"

static const char *machine, *why_not;

/* What a test lets an engine have: of this machine, of the emulated GPU. */
typedef void (*limit_fn)(uint64_t size);

static void limit_host(uint64_t size) {
    char text[64];
    int n = snprintf(text, sizeof text, "MemAvailable: %llu kB\n", (unsigned long long)size >> 10);
    tree_write(machine, "proc/meminfo", text, (size_t)n);
    base_memory_root(machine);
}

static void limit_gpu(uint64_t size) {
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)size);
    assert_int_equal(setenv("EMU_MEMORY", text, 1), 0);
}

static void no_limit(void) {
    base_memory_root(NULL);
    (void)unsetenv("EMU_MEMORY");
}

typedef struct sizes {
    uint64_t steps, weights; /* steps: with the KV cache */
} sizes;

static sizes measure(const char *const *settings) {
    engine_memory m;
    hal_device_info info;
    rp_engine *e = engine_must(MODEL, settings);
    engine_runner_memory(e->runner, &m);
    e->device->ops->info(e->device, &info);
    const uint64_t live = hal_live_bytes(e->device);
    sizes s = {info.unified ? live : live - m.weights, m.weights};
    rp_engine_close(e);
    return s;
}

/* Opens with what the line says, of which the setting comes last and so wins. */
static void take_advice(const char *text, const char *device, const char *const *before) {
    char advice[64] = "";
    const char *at = strrchr(text, ';');
    const char *settings[8] = {device};
    int n = 1;
    if (!at || sscanf(at, "; %63s fits", advice) != 1 || !strstr(at, " fits"))
        fail_msg("no setting that fits in '%s'", text);
    while (*before) settings[n++] = *before++;
    settings[n] = advice;
    rp_engine_close(engine_must(MODEL, settings));
}

static void sums_are_judged(const char *device, limit_fn limit, const char *const *lengths,
                            const char *part) {
    rp_error err = {0};
    const char *settings[8] = {device, NULL};
    char cache[600], other[600];
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", tree_new("cache"));
    (void)snprintf(other, sizeof other, "cache_dir=%s", tree_new("other"));
    for (int i = 0; lengths[i]; i++) settings[2 + i] = lengths[i];
    settings[1] = other;
    const sizes s = measure(settings);
    settings[1] = cache;
    limit(s.steps + s.weights * 3 / 4);
    assert_null(engine_with(MODEL, settings, &err));
    assert_int_equal(err.code, RP_NOMEM);
    if (!strstr(err.text, part) || !strstr(err.text, "weights") || strchr(err.text, '\n'))
        fail_msg("'%s' does not name '%s'", err.text, part);
    tree_list files = tree_files(cache + strlen("cache_dir="));
    for (size_t i = 0; i < files.n; i++) assert_null(strstr(files.path[i], "weights/"));
    tree_list_free(&files);
    take_advice(err.text, device, lengths);
    err = (rp_error){0};
    limit(s.weights / 2);
    assert_null(engine_with(MODEL, settings, &err));
    assert_int_equal(err.code, RP_NOMEM);
    no_limit();
}

static const char *const long_ones[] = {"max_model_len=2048", "max_num_seqs=8", NULL};
static const char *const wide[] = {"max_model_len=64", "max_num_seqs=2",
                                   "max_num_batched_tokens=4096", NULL};

static void a_host_is_asked_for_the_sum(void **state) {
    (void)state;
    sums_are_judged("device=cpu", limit_host, long_ones, "max_model_len=2048");
    sums_are_judged("device=cpu", limit_host, wide, "max_num_batched_tokens=4096");
}

static void a_gpu_is_asked_for_the_sum(void **state) {
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    sums_are_judged("device=cuda:0", limit_gpu, long_ones, "max_model_len=2048");
}

/* The least memory in which there is no room for the cache: that line names a setting. */
static void a_cache_alone(const char *const *lengths, const char *setting) {
    enum { STEP = 16 << 10 };
    const char *settings[8] = {"device=cuda:0"};
    char cure[64];
    (void)snprintf(cure, sizeof cure, " MB at %s=", setting);
    for (int i = 0; lengths[i]; i++) settings[1 + i] = lengths[i];
    rp_engine_close(engine_must(MODEL, settings)); /* which leaves its plans */
    for (uint64_t size = STEP;; size += STEP) {
        rp_error err = {0};
        limit_gpu(size);
        rp_engine *e = engine_with(MODEL, settings, &err);
        no_limit();
        rp_engine_close(e);
        if (e) fail_msg("%llu bytes are enough", (unsigned long long)size);
        assert_int_equal(err.code, RP_NOMEM);
        if (!strstr(err.text, "no memory for the KV cache")) continue;
        if (!strstr(err.text, cure)) fail_msg("'%s' does not name %s", err.text, setting);
        return;
    }
}

static void a_cache_is_refused_by_what_makes_it_large(void **state) {
    static const char *const few[] = {"max_model_len=2048", "max_num_seqs=8",
                                      "max_num_batched_tokens=64", NULL};
    static const char *const many[] = {"max_model_len=64", "max_num_seqs=64",
                                       "max_num_batched_tokens=64", NULL};
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    a_cache_alone(few, "max_model_len");
    a_cache_alone(many, "max_num_seqs");
}

/* What does not fit, and the setting that is named for it. Bytes of a block are 1 << 20, so the numbers are in MB. */
static const struct {
    engine_lengths lengths;
    uint64_t tokens, steps, weights, memory;
    const char *cure;
} asks[] = {
    /* few long sequences are made shorter, many short ones fewer */
    {{.len = 8192, .seqs = 2}, 512, 10, 10, 700, "max_model_len=4096 fits"},
    {{.len = 64, .seqs = 512}, 512, 10, 10, 1400, "max_num_seqs=256 fits"},
};

static void asked(size_t i, rp_error *err) {
    hal_device *d = NULL;
    CHECK_OK(hal_open("cpu", 1, &d, err), err);
    const uint64_t mb = 1 << 20, live = hal_live_bytes(d);
    const engine_asks a = {.lengths = asks[i].lengths,
                           .tokens = asks[i].tokens,
                           .kv = engine_budget_blocks(asks[i].lengths) * mb,
                           .weights = asks[i].weights * mb};
    /* Steps were given what is not there any more. */
    const engine_budget b = {d, asks[i].memory * mb, live - asks[i].steps * mb};
    limit_host(asks[i].memory * mb - asks[i].steps * mb);
    assert_int_equal(engine_budget_judge(&b, &a, err), RP_NOMEM);
    no_limit();
    hal_close(d);
}

static void the_setting_that_is_named_is_the_one_that_asks_for_most(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        rp_error err = {0};
        asked(i, &err);
        const char *at = strrchr(err.text, ';');
        if (!at || strcmp(at + 2, asks[i].cure) != 0) fail_msg("%s", err.text);
    }
}

static void weights_alone_are_told(void **state) {
    rp_error err = {0};
    (void)state;
    limit_host(1 << 12);
    assert_null(engine_with(MODEL, NULL, &err));
    no_limit();
    if (!strstr(err.text, "the weights alone do not fit")) fail_msg("%s", err.text);
}

/* A device with so much memory, of which it tells what is out. */
static size_t has, out_there;
static bool has_unified;
static void has_info(hal_device *d, hal_device_info *out) {
    (void)d;
    *out = (hal_device_info){.unified = has_unified};
}
static rp_status has_alloc(hal_device *d, hal_memory kind, size_t size, void **out, rp_error *err) {
    (void)d, (void)kind;
    if (has == 0) return rp_fail(err, RP_DEVICE, "the device is lost");
    if (size > has) return rp_fail(err, RP_NOMEM, "none");
    out_there += size;
    *out = &out_there;
    return RP_OK;
}
static void has_release(hal_device *d, void *p, size_t size) {
    (void)d;
    assert_ptr_equal(p, &out_there);
    out_there -= size;
}

/* A tensor that two plans read is brought once, though each has packed weights of its own. */
static void what_two_plans_read_is_needed_once(void **state) {
    static const hal_device_ops ops = {.info = has_info};
    static const plan nothing;
    hal_device d = {.ops = &ops};
    rp_error err = {0};
    size_t one = 0, both = 0;
    (void)state;
    rp_engine *e = engine_must(MODEL, NULL);
    engine_weights_options o = {.source = e->source,
                                .store = e->store,
                                .model = e->plans.model,
                                .head = &nothing,
                                .n_positions = 64,
                                .device = &d,
                                .device_name = "elsewhere"};
    CHECK_OK(engine_weights_need(&o, &one, &err), &err);
    o.head = o.model;
    CHECK_OK(engine_weights_need(&o, &both, &err), &err);
    assert_true(one > engine_packed_part(o.model));
    assert_int_equal(both - one, engine_packed_part(o.model));
    rp_engine_close(e);
}

/* Half of the largest half, quarter, .. of the setting that fits, and 1 at least. */
static void a_smaller_value_is_one_that_fits(void **state) {
    static const hal_device_ops ops = {
        .info = has_info, .alloc = has_alloc, .release = has_release};
    hal_device d = {.ops = &ops};
    const engine_room room = {"rows", "max_num_seqs", 64, HAL_DEVICE_MEMORY, 6400000};
    static const struct {
        size_t has;
        const char *text;
    } cases[] = {
        {6399999, "no memory for rows: 6.4 MB at max_num_seqs=64; max_num_seqs=16 needs less"},
        {3200000, "no memory for rows: 6.4 MB at max_num_seqs=64; max_num_seqs=16 needs less"},
        {3199999, "no memory for rows: 6.4 MB at max_num_seqs=64; max_num_seqs=8 needs less"},
        {200000, "no memory for rows: 6.4 MB at max_num_seqs=64; max_num_seqs=1 needs less"},
        {1, "no memory for rows: 6.4 MB at max_num_seqs=64; max_num_seqs=1 needs less"}};
    void *p = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        has = cases[i].has;
        assert_false(engine_room_fits(&d, &room));
        assert_int_equal(engine_room_take(&d, &room, &p, &err), RP_NOMEM);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(out_there, 0);
        assert_null(p);
    }
    rp_error err = {0};
    has = 0;
    assert_int_equal(engine_room_take(&d, &room, &p, &err), RP_DEVICE);
    assert_string_equal(err.text, "the device is lost");
    has = room.size;
    assert_true(engine_room_fits(&d, &room));
    assert_int_equal(out_there, 0);
    CHECK_OK(engine_room_take(&d, &room, &p, &err), &(rp_error){0});
    assert_int_equal(out_there, room.size);
}

/* Of memory that is the machine's a device is not asked for more than there is. */
static void more_than_the_machine_has_is_not_asked_for(void **state) {
    static const hal_device_ops ops = {
        .info = has_info, .alloc = has_alloc, .release = has_release};
    hal_device d = {.ops = &ops};
    (void)state;
    out_there = 0;
    for (int i = 0; i < 8; i++) {
        const hal_memory kind = i & 1 ? HAL_MAPPED_MEMORY : HAL_DEVICE_MEMORY;
        const engine_room room = {"rows", "max_num_seqs", 1, kind, base_memory_size() + (i >> 2)};
        has = SIZE_MAX;
        has_unified = i & 2;
        assert_int_equal(engine_room_fits(&d, &room), i < 5);
        assert_int_equal(out_there, 0);
    }
    has_unified = false;
}

/* Ranges of that device: memory comes to them out of what it has. */
static rp_status has_reserve(hal_device *d, size_t size, hal_reserved **out, rp_error *err) {
    (void)err;
    *out = base_alloc(sizeof **out);
    assert_non_null(*out);
    **out = (hal_reserved){.device = d, .at = &out_there, .size = size};
    return RP_OK;
}
static rp_status has_commit(hal_reserved *r, size_t size, rp_error *err) {
    assert_true(size <= r->size);
    if (size <= r->committed) return RP_OK;
    if (size - r->committed > has - out_there) return rp_fail(err, RP_NOMEM, "none");
    out_there += size - r->committed;
    r->committed = size;
    return RP_OK;
}
static void has_unreserve(hal_reserved *r) {
    out_there -= r->committed;
    base_free(r);
}
static rp_status has_left(hal_device *d, hal_memory kind, size_t size, void **out, rp_error *err) {
    (void)d, (void)kind;
    if (size > has - out_there) return rp_fail(err, RP_NOMEM, "none");
    out_there += size;
    *out = &out_there;
    return RP_OK;
}

/* What a cache that does not fit had of the device is not missed by the value that is named. */
static void what_did_not_fit_is_given_back_first(void **state) {
    static const hal_device_ops ops = {.info = has_info,
                                       .alloc = has_left,
                                       .release = has_release,
                                       .reserve = has_reserve,
                                       .commit = has_commit,
                                       .unreserve = has_unreserve};
    hal_device d = {.ops = &ops};
    const engine_room room = {"the KV cache", "max_num_seqs", 64, HAL_DEVICE_MEMORY, 6400};
    const size_t live = base_live();
    (void)state;
    has = 3300;
    out_there = 0;
    for (int again = 0; again < 2; again++) {
        rp_error err = {0};
        engine_kv_memory m = {.device = &d, .block = 100, .n_states = 2};
        assert_int_equal(engine_kv_memory_open(&m, 32, 32, &room, &err), RP_NOMEM);
        if (!strstr(err.text, "; max_num_seqs=16 needs less")) fail_msg("%s", err.text);
        engine_kv_memory_close(&m);
        assert_int_equal(out_there, 0);
        assert_int_equal(base_live(), live);
    }
    rp_error err = {0};
    engine_kv_memory m = {.device = &d, .block = 100, .n_states = 2};
    CHECK_OK(engine_kv_memory_open(&m, 4, 32, &room, &err), &err);
    assert_int_equal(engine_kv_memory_bytes(&m), 800);
    assert_int_equal(engine_kv_memory_grow(&m, 17, &err), RP_NOMEM);
    assert_int_equal(m.n_blocks, 4);
    CHECK_OK(engine_kv_memory_grow(&m, 16, &err), &(rp_error){0});
    assert_int_equal(m.n_blocks, 16);
    assert_int_equal(engine_kv_memory_bytes(&m), 3300); /* a block more that the other one missed */
    CHECK_OK(engine_kv_memory_grow(&m, 3, &(rp_error){0}), &(rp_error){0}); /* it never shrinks */
    assert_int_equal(m.n_blocks, 16);
    engine_kv_memory_close(&m);
    /* As many as it begins with is the least that there may be at most. */
    m = (engine_kv_memory){.device = &d, .block = 100, .n_states = 2};
    CHECK_OK(engine_kv_memory_open(&m, 4, 2, &room, &(rp_error){0}), &(rp_error){0});
    assert_int_equal(m.most, 4);
    assert_int_equal(m.n_blocks, 4);
    engine_kv_memory_close(&m);
    assert_int_equal(out_there, 0);
    assert_int_equal(base_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_asked_for_the_sum),
        cmocka_unit_test(a_gpu_is_asked_for_the_sum),
        cmocka_unit_test(a_cache_is_refused_by_what_makes_it_large),
        cmocka_unit_test(the_setting_that_is_named_is_the_one_that_asks_for_most),
        cmocka_unit_test(weights_alone_are_told),
        cmocka_unit_test(a_smaller_value_is_one_that_fits),
        cmocka_unit_test(what_two_plans_read_is_needed_once),
        cmocka_unit_test(more_than_the_machine_has_is_not_asked_for),
        cmocka_unit_test(what_did_not_fit_is_given_back_first),
    };
    machine = tree_new("machine");
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("engine_budget", tests, NULL, NULL);
}
