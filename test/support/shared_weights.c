/* They read one copy, whoever opened it, and say so; whoever closes first, the others go on, and the last one gives it back. */
#include "support/shared_weights.h"

#include <sys/mman.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/at_once.h"
#include "support/check.h"
#include "support/engines.h"
#include "support/trees.h"

enum { N_OUT = 6, THREADS = 4, ROUNDS = 3 };

static const char *device;
static char where[600];
static const char model[] = "synthetic:tiny";

static rp_engine *open_as(const char *name, const char *what, const char *seqs) {
    char on[64], how_many[64];
    (void)snprintf(on, sizeof on, "device=%s", name);
    (void)snprintf(how_many, sizeof how_many, "max_num_seqs=%s", seqs);
    const char *settings[] = {
        where, on, "level=3", "max_model_len=32", "max_num_batched_tokens=8", how_many, NULL};
    return engine_must(what, settings);
}

static rp_engine *open_one(void) {
    return open_as(device, model, "2");
}

static const void *copy_of(const rp_engine *e) {
    size_t size = 0;
    return engine_weights_packed(e->weights, &size);
}

static void generate(rp_engine *e, int32_t out[N_OUT]) {
    assert_int_equal(engine_greedy(e, plain_prompt, 5, N_OUT, out), N_OUT);
}

static void check_generates(rp_engine *e, const int32_t want[N_OUT]) {
    int32_t got[N_OUT];
    generate(e, got);
    assert_memory_equal(got, want, sizeof got);
}

static void check_says(rp_engine *e, int engines) {
    assert_int_equal(engine_count(e, "weights_shared.engines"), engines);
    long long bytes = engine_count(e, "weights_shared.bytes");
    if (engines == 1) {
        assert_int_equal(bytes, 0);
    } else {
        size_t packed = 0;
        (void)engine_weights_packed(e->weights, &packed);
        assert_true(bytes >= (long long)packed && bytes <= engine_count(e, "memory.weights"));
    }
}

static void engines_read_one_copy(void **state) {
    int32_t want[N_OUT];
    (void)state;
    for (int first = 0; first < 3; first++) { /* that is closed */
        rp_engine *e[3] = {open_one()};
        generate(e[0], want);
        check_says(e[0], 1);
        e[1] = open_as(device, model, "4"); /* other graphs and caches, the same weights */
        e[2] = open_as(strcmp(device, "cuda:0") == 0 ? "cuda" : device, model, "2");
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(copy_of(e[i]), copy_of(e[0]));
            assert_false(i && engine_weights_were_packed(e[i]->weights));
            check_says(e[i], 3);
            check_generates(e[i], want);
        }
        for (int k = 0; k < 3; k++) {
            rp_engine_close(e[(first + k) % 3]);
            for (int i = k + 1; i < 3; i++) {
                check_says(e[(first + i) % 3], 2 - k);
                check_generates(e[(first + i) % 3], want);
            }
        }
    }
}

static void others_have_their_own(void **state) {
    (void)state;
    rp_engine *e = open_one(), *other = open_as(device, "synthetic:tiny,seed=9", "2");
    assert_ptr_not_equal(copy_of(e), copy_of(other));
    check_says(e, 1);
    rp_engine_close(other);
    rp_engine_close(e);
}

static void engines_of_one_rp_device_share_them(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    rp_engine *on = NULL;
    int32_t want[N_OUT];
    (void)state;
    rp_engine *e = open_one();
    generate(e, want);
    CHECK_OK(rp_device_open(device, 1, &d, &err), &err);
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = model;
    o.device = d;
    o.config = rp_config_new();
    const char *const settings[] = {where, "level=3", "max_model_len=32",
                                    "max_num_batched_tokens=8", "max_num_seqs=2"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK_OK(rp_config_set(o.config, settings[i], &err), &err);
    CHECK_OK(rp_engine_open(&o, &on, &err), &err);
    rp_device_close(d);
    assert_ptr_equal(copy_of(on), copy_of(e));
    rp_engine_close(e);
    check_generates(on, want);
    rp_engine_close(on);
}

/* Memory that is there is not asked for again. */
static void what_is_there_is_not_needed(void **state) {
    rp_error err = {0};
    size_t with = 0, size = 0, alone = 0;
    (void)state;
    rp_engine *e = open_one();
    engine_weights_options o = {.source = e->source,
                                .store = e->store,
                                .model = e->plans.model,
                                .head = e->plans.head,
                                .n_positions = e->max_model_len,
                                .device = e->device,
                                .device_name = e->config->device};
    (void)engine_weights_packed(e->weights, &size);
    CHECK_OK(engine_weights_need(&o, &with, &err), &err);
    alone = engine_weights_bytes(e->weights);
    assert_true(with > 0 && with + size <= alone); /* rope tables are of one engine */
    /* Of an engine that shares nothing: all that was brought, tensors of either plan as they are in the file, too. */
    hal_device_info info;
    size_t whole = 0;
    e->device->ops->info(e->device, &info);
    CHECK_OK(cache_store_open(tree_new("elsewhere"), &o.store, &err), &err);
    CHECK_OK(engine_weights_need(&o, &whole, &err), &err);
    if (!info.unified) assert_int_equal(whole, alone);
    assert_true(whole >= with + size);
    cache_store_close(o.store);
    rp_engine_close(e);
}

/* One byte of the first page, which without huge pages is a view of the file. */
static void damage(rp_engine *e) {
    enum { PAGE = 4096 };
    rp_error err = {0};
    hal_device_info info;
    char page[PAGE];
    char *at = (char *)(uintptr_t)copy_of(e);
    hal_device *d = e->device;
    d->ops->info(d, &info);
    CHECK_OK(d->ops->copy(d, page, at, PAGE, &err), &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
    if (info.unified)
        assert_ptr_equal(
            mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            at);
    page[1000] ^= 1;
    CHECK_OK(d->ops->copy(d, at, page, PAGE, &err), &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
}

/* Nobody else gets what was found damaged, and who has it is not disturbed by who comes. */
static void damaged_weights_are_not_given_on(void **state) {
    rp_error err = {0};
    int32_t want[N_OUT];
    (void)state;
    rp_engine *e = open_one();
    generate(e, want);
    damage(e);
    assert_int_equal(engine_weights_check(e->weights, &err), RP_CORRUPT);
    rp_engine *sound = open_one();
    assert_ptr_not_equal(copy_of(sound), copy_of(e));
    check_says(e, 1);
    check_generates(sound, want);
    rp_engine *next = open_one();
    assert_ptr_equal(copy_of(next), copy_of(sound));
    rp_engine_close(sound);
    rp_engine_close(e);
    check_generates(next, want);
    rp_engine_close(next);
}

typedef struct client {
    int32_t want[N_OUT], got[ROUNDS][N_OUT];
    rp_error err;
} client;

/* As a thread of its own, which may fail no test. */
static void *come_and_go(void *item) {
    client *c = item;
    char on[64];
    (void)snprintf(on, sizeof on, "device=%s", device);
    const char *settings[] = {
        where, on, "level=3", "max_model_len=32", "max_num_batched_tokens=8", "max_num_seqs=2",
        NULL};
    for (int i = 0; i < ROUNDS; i++) {
        rp_engine *e = engine_with(model, settings, &c->err);
        if (!e) return NULL;
        (void)engine_greedy(e, plain_prompt, 5, N_OUT, c->got[i]);
        rp_engine_close(e);
    }
    return NULL;
}

static void threads_come_and_go(void **state) {
    static client all[THREADS];
    int32_t want[N_OUT];
    (void)state;
    rp_engine *e = open_one(); /* so that nobody has to compile */
    generate(e, want);
    rp_engine_close(e);
    at_once(come_and_go, all, sizeof *all, THREADS);
    for (int i = 0; i < THREADS; i++) {
        if (all[i].err.code != RP_OK) fail_msg("%s", all[i].err.text);
        for (int k = 0; k < ROUNDS; k++) assert_memory_equal(all[i].got[k], want, sizeof want);
    }
}

static void all_is_given_back(void **state) {
    size_t live = 0;
    (void)state;
    rp_engine *e = open_one();
    for (int i = 0; i < 6; i++) {
        rp_engine *other = open_one();
        rp_engine_close(i % 2 ? other : e);
        if (!(i % 2)) e = other;
        if (i == 1) live = base_live();
        if (i > 1) assert_int_equal(base_live(), live);
    }
    rp_engine_close(e);
}

int shared_weights_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_read_one_copy),
        cmocka_unit_test(others_have_their_own),
        cmocka_unit_test(engines_of_one_rp_device_share_them),
        cmocka_unit_test(what_is_there_is_not_needed),
        cmocka_unit_test(damaged_weights_are_not_given_on),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(all_is_given_back),
    };
    device = name;
    (void)snprintf(where, sizeof where, "cache_dir=%s", tree_new("shared"));
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
