/* What the autotuner chooses by a clock that a test sets, what it keeps, and that no choice changes a bit. */
#include <inttypes.h>

#include "support/check.h"
#include "support/dumped.h"
#include "support/heard.h"
#include "support/plan_run.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "compile/tune.h"

static char folder[512];
static cache_store *store;
static compile_toolchain toolchain;
static hal_device *device;

static const char product[] =
    "graph @g(%x: f32[96,64], %w: f32[40,64]) -> f32[96,40] {\n"
    "  %y = matmul %x, %w {trans_b=true} : f32[96,40]\n  %0 = exp %y : f32[96,40]\n  ret %0\n}\n";

/* Steps of several knobs. */
static const char chain[] = "graph @g(%x: f32[64,4096]) -> f32[64,4096] {\n"
                            "  %0 = exp %x : f32[64,4096]\n  ret %0\n}\n";

/* --- a clock ---------------------------------------------------------------------------- */

static struct {
    const char *fastest; /* takes half of what all others do */
    const char *better;  /* takes three quarters */
    int64_t now, reading;
    uint32_t n;
    bool fails;
    uint32_t crowded; /* every so many readings other programs hold the cores; 0: never */
    uint32_t quick;   /* so many times as fast; 0: once */
    uint32_t most;    /* launches of a reading */
    long long items;  /* of the last launch */
    char label[64];   /* of the first kernel, */
    int64_t second;   /* and when another one began; 0: there is none */
    uint32_t n_seen;  /* choices by kernel, and what runs: */
    struct {
        char text[96];
        hal_function fn;
        long long items, grain;
    } seen[96];
} fake;

/* What runs is that of the choice, in each pass. */
static void check_runs(const compile_trial *t, const char *choice) {
    char text[96];
    const hal_launch *l = &t->launches[0];
    uint32_t i = 0;
    (void)snprintf(text, sizeof text, "%.40s %.50s", t->label, choice);
    while (i < fake.n_seen && strcmp(fake.seen[i].text, text) != 0) i++;
    if (i == fake.n_seen) {
        assert_true(fake.n_seen < 96);
        memcpy(fake.seen[i].text, text, sizeof text);
        fake.seen[i].fn = l->fn;
        fake.seen[i].items = l->items;
        fake.seen[i].grain = l->grain;
        fake.n_seen++;
    }
    assert_ptr_equal(fake.seen[i].fn.handle, l->fn.handle);
    assert_true(fake.seen[i].items == l->items && fake.seen[i].grain == l->grain);
}

static int64_t fake_now(void *user) {
    (void)user;
    return fake.now;
}

static rp_status fake_time(void *user, const compile_trial *t, int64_t *ns, rp_error *err) {
    base_buf b;
    (void)user;
    if (fake.fails) return rp_fail(err, RP_DEVICE, "the clock has stopped");
    base_buf_init(&b, 0);
    base_buf_puts(&b, "");
    lower_choice_print(t->choice, false, &b);
    const bool is = fake.fastest && b.len && strcmp(b.data, fake.fastest) == 0;
    const bool near = fake.better && b.len && strcmp(b.data, fake.better) == 0;
    check_runs(t, b.data);
    base_buf_done(&b);
    assert_true(t->n > 0 && t->launches[0].items > 0);
    *ns = (is ? 1000 : near ? 1500 : 2000) * (int64_t)t->n / (fake.quick ? fake.quick : 1);
    if (t->n > fake.most) fake.most = t->n;
    fake.items = t->launches[0].items;
    if (!*fake.label) (void)snprintf(fake.label, sizeof fake.label, "%s", t->label);
    if (!fake.second && strcmp(fake.label, t->label) != 0) fake.second = fake.now;
    fake.now += fake.reading;
    fake.n++;
    if (fake.crowded && fake.n % fake.crowded == 0) t->device->counters.crowded_lists++;
    return RP_OK;
}

static compile_tuner tuner_of(const char *fastest) {
    memset(&fake, 0, sizeof fake);
    fake.fastest = fastest;
    fake.reading = 1;
    return (compile_tuner){
        .device = device, .list = true, .budget = 1000000, .now = fake_now, .time = fake_time};
}

/* --- processes ---------------------------------------------------------------------------- */

static ir_graph *parsed(const char *text) {
    ir_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    return g;
}

static compile_options options(compile_tuner *t) {
    return (compile_options){.backend = &compile_inductor,
                             .isa = gen_isa_best(),
                             .toolchain = &toolchain,
                             .store = store,
                             .threads = 1,
                             .passes = true,
                             .tuner = t};
}

/* A start of its own but for the folder. The plan as bytes, owned by the caller. */
static char *start(const char *text, compile_tuner *t, size_t *size, uint32_t *compiles) {
    rp_error err = {0};
    compile_stats stats = {0};
    plan *p = NULL;
    char *bytes = NULL;
    ir_graph *g = parsed(text);
    const compile_options o = options(t);
    fake.n_seen = 0;
    CHECK_OK(compile_graph(g, &o, &p, &stats, &err), &err);
    CHECK_OK(plan_save(p, &bytes, size, &err), &err);
    if (compiles) *compiles = stats.compiles;
    compile_tuner_done(t);
    plan_free(p);
    ir_graph_free(g);
    return bytes;
}

static void forget_records(void) {
    char path[600];
    (void)snprintf(path, sizeof path, "%s/objects/tuning", folder);
    tree_list files = tree_files(path);
    for (size_t i = 0; i < files.n; i++) {
        char one[900];
        (void)snprintf(one, sizeof one, "%s/%s", path, files.path[i]);
        assert_int_equal(base_path_remove(one, NULL), RP_OK);
    }
    tree_list_free(&files);
}

/* --- what is chosen ------------------------------------------------------------------------- */

static void the_fastest_is_taken_and_kept(void **state) {
    base_buf heard;
    size_t n_rules, n_first, n_second;
    uint32_t compiles = 7;
    (void)state;
    forget_records();
    char *rules = start(product, NULL, &n_rules, NULL);
    compile_tuner t = tuner_of("rows=24");
    const uint64_t none = compile_tune_readings();
    heard_start(&heard, "autotuning");
    char *first = start(product, &t, &n_first, NULL);
    assert_int_equal(compile_tune_readings() - none, fake.n);
    CHECK_HEARD(&heard, "[autotuning] AUTOTUNE mm(96x64, 64x40)\n");
    CHECK_HEARD(&heard, "[autotuning]   mm_2 0.0010 ms 100.0% ROWS=24\n");
    CHECK_HEARD(&heard, " 0.0020 ms 50.0%");
    CHECK_HEARD(&heard, "[autotuning] SingleProcess AUTOTUNE benchmarking takes ");
    heard_done(&heard);
    assert_true(fake.n > 0);
    assert_true(n_first != n_rules || memcmp(first, rules, n_rules) != 0);
    /* The next process measures nothing and compiles nothing, and has the same plan, whatever a clock would say. */
    t = tuner_of("rows=48");
    const uint64_t before = compile_tune_readings();
    char *second = start(product, &t, &n_second, &compiles);
    assert_int_equal(compile_tune_readings(), before);
    assert_int_equal(fake.n, 0);
    assert_int_equal(compiles, 0);
    assert_int_equal(n_second, n_first);
    assert_memory_equal(first, second, n_first);
    base_free(rules);
    base_free(first);
    base_free(second);
}

/* Kernels that are alike are measured once, and all have what was found. */
static void what_is_alike_is_measured_once(void **state) {
    static const char twice[] =
        "graph @g(%x: f32[96,64], %y: f32[96,64], %w: f32[40,64]) -> (f32[96,40], f32[96,40]) {\n"
        "  %0 = matmul %x, %w {trans_b=true} : f32[96,40]\n"
        "  %1 = matmul %y, %w {trans_b=true} : f32[96,40]\n  ret %0, %1\n}\n";
    static const char once[] = "graph @g(%x: f32[96,64], %w: f32[40,64]) -> f32[96,40] {\n"
                               "  %0 = matmul %x, %w {trans_b=true} : f32[96,40]\n  ret %0\n}\n";
    uint32_t functions[2], readings[2];
    (void)state;
    for (int k = 0; k < 2; k++) {
        rp_error err = {0};
        plan *p = NULL;
        ir_graph *g = parsed(k ? twice : once);
        forget_records();
        compile_tuner t = tuner_of("rows=24");
        const compile_options o = options(&t);
        CHECK_OK(compile_graph(g, &o, &p, NULL, &err), &err);
        assert_int_equal(t.undecided, 0);
        readings[k] = fake.n;
        functions[k] = p->n_functions;
        plan_free(p);
        compile_tuner_done(&t);
        ir_graph_free(g);
    }
    assert_true(readings[0] > 0);
    assert_int_equal(readings[1], readings[0]);
    assert_int_equal(functions[1], functions[0]);
}

/* A reading is of as many launches as it takes, but of no more than 256 times those of one. */
static void quick_launches_are_read_together(void **state) {
    static const struct {
        uint32_t quick, most;
    } all[] = {{1, 50}, {10, 256}, {1000, 256}, {4, 200}}; /* 100 us by 2 us, .. */
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        forget_records();
        compile_tuner t = tuner_of(NULL);
        fake.quick = all[i].quick;
        base_free(start(chain, &t, &n, NULL));
        assert_int_equal(fake.most, all[i].most);
    }
}

/* Bytes of the plan, owned by the caller. */
static char *start_at(const char *text, int64_t hint, size_t *size) {
    rp_error err = {0};
    plan *p = NULL;
    char *bytes = NULL;
    ir_graph *g = parsed(text);
    compile_tuner t = tuner_of("unroll=2");
    const compile_options o = options(&t);
    ir_dims_set_hint(ir_graph_dims(g), 0, hint);
    CHECK_OK(compile_graph(g, &o, &p, NULL, &err), &err);
    CHECK_OK(plan_save(p, &bytes, size, &err), &err);
    assert_int_equal(t.undecided, 0);
    compile_tuner_done(&t);
    plan_free(p);
    ir_graph_free(g);
    return bytes;
}

/* A value in between has no bound where its symbol has none. What is found is kept for all sizes. */
static void a_symbol_is_measured_at_its_hint(void **state) {
    static const struct {
        const char *where;
        int64_t hint, at;
    } all[] = {{"[1,inf]", 24, 24},   {"[1,inf]", -1, 256}, {"[1,inf]", 0, 256},
               {"[0,inf]", 300, 300}, {"[1,64]", -1, 64},   {"[1,64]", 40, 40},
               {"[1,64]", 65, 64},    {"[512,inf]", 2, 512}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[400], told[32];
        size_t n, n_again;
        base_buf heard;
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[B,512]) -> f32[B,512] where B in %s {\n"
                       "  %%0 = cumsum %%x {axis=1} : f32[B,512]\n  %%1 = exp %%0 : f32[B,512]\n"
                       "  ret %%1\n}\n",
                       all[i].where);
        forget_records();
        heard_start(&heard, "autotuning");
        char *bytes = start_at(text, all[i].hint, &n);
        assert_true(fake.n > 0);
        if (fake.items % all[i].at != 0 || fake.items / all[i].at > 512)
            fail_msg("%s by %d: %lld items", all[i].where, (int)all[i].hint, fake.items);
        (void)snprintf(told, sizeof told, " at B=%d\n", (int)all[i].at);
        assert_true((strstr(heard.data, told) != NULL) == (all[i].hint == all[i].at));
        heard_done(&heard);
        char *again = start_at(text, 7, &n_again);
        assert_int_equal(fake.n, 0);
        assert_int_equal(n_again, n);
        assert_memory_equal(again, bytes, n);
        base_free(again);
        base_free(bytes);
    }
}

/* Of two kernels the first takes half of the time at most. */
static void kernels_share_the_budget(void **state) {
    static const char two[] = "graph @g(%x: f32[64,4096], %y: f32[96,64], %w: f32[40,64]) {\n"
                              "  %0 = exp %x : f32[64,4096]\n"
                              "  %1 = matmul %y, %w {trans_b=true} : f32[96,40]\n"
                              "  ret %0, %1\n}\n";
    size_t n;
    (void)state;
    forget_records();
    compile_tuner t = tuner_of(NULL);
    t.budget = 40;
    base_free(start(two, &t, &n, NULL));
    assert_true(fake.second > 0 && fake.second <= 20);
    assert_true(fake.now > 20 && fake.now <= 40);
}

static void nothing_better_is_kept_too(void **state) {
    size_t n, n_rules;
    (void)state;
    forget_records();
    char *rules = start(product, NULL, &n_rules, NULL);
    compile_tuner t = tuner_of(NULL);
    char *bytes = start(product, &t, &n, NULL);
    assert_true(fake.n > 0);
    assert_int_equal(n, n_rules);
    assert_memory_equal(bytes, rules, n);
    base_free(bytes);
    t = tuner_of("rows=24");
    base_free(start(product, &t, &n, NULL));
    assert_int_equal(fake.n, 0);
    base_free(rules);
}

/* From the rules' own by one step at a time. */
static void descending_goes_on_from_the_best(void **state) {
    base_buf heard;
    size_t n;
    (void)state;
    forget_records();
    compile_tuner t = tuner_of("unroll=2");
    t.list = false;
    t.descend = true;
    heard_start(&heard, "autotuning");
    base_free(start(chain, &t, &n, NULL));
    CHECK_HEARD(&heard, "100.0% UNROLL=2\n");
    /* Near the best, which was not in the first list. */
    CHECK_HEARD(&heard, " UNROLL=4\n");
    CHECK_HEARD(&heard, " UNROLL=2, GRAIN=2\n");
    assert_null(strstr(heard.data, "UNROLL=8"));
    heard_done(&heard);
}

static uint32_t readings_of(const char *text, compile_tuner *t, bool list, bool descend) {
    size_t n;
    fake.n = 0;
    fake.now = 0;
    t->list = list;
    t->descend = descend;
    t->budget = 1000000;
    t->undecided = 0;
    base_free(start(text, t, &n, NULL));
    assert_int_equal(t->undecided, 0);
    return fake.n;
}

static void one_search_goes_on_where_another_ended(void **state) {
    base_buf heard;
    (void)state;
    forget_records();
    compile_tuner t = tuner_of("unroll=2 grain=2");
    fake.better = "unroll=2";
    assert_true(readings_of(chain, &t, true, false) > 0);
    heard_start(&heard, "autotuning");
    assert_true(readings_of(chain, &t, true, true) > 0);
    CHECK_HEARD(&heard, "100.0% UNROLL=2, GRAIN=2\n");
    CHECK_HEARD(&heard, "66.7% UNROLL=2\n"); /* is where it began */
    heard_done(&heard);
    assert_int_equal(readings_of(chain, &t, true, true), 0);
    assert_int_equal(readings_of(chain, &t, true, false), 0);
    assert_int_equal(readings_of(chain, &t, false, true), 0);
    /* Two steps from the rules': who descends does not come there, and goes on from there once the list has it. */
    forget_records();
    t = tuner_of("unroll=4");
    assert_true(readings_of(chain, &t, false, true) > 0);
    assert_int_equal(readings_of(chain, &t, false, true), 0);
    assert_true(readings_of(chain, &t, true, false) > 0);
    assert_true(readings_of(chain, &t, false, true) > 0);
    assert_int_equal(readings_of(chain, &t, true, true), 0);
    forget_records();
    t = tuner_of(NULL);
    assert_true(readings_of(chain, &t, false, true) > 0);
    assert_true(readings_of(chain, &t, true, false) > 0);
    assert_int_equal(readings_of(chain, &t, true, true), 0);
}

/* Wherever the budget cuts, the next process ends where one would have come without. */
static void a_search_that_was_cut_is_gone_on_with(void **state) {
    size_t n_want, n;
    uint32_t cut = 0;
    (void)state;
    forget_records();
    compile_tuner t = tuner_of("unroll=2 grain=2");
    fake.better = "unroll=2";
    const uint32_t all = readings_of(chain, &t, false, true);
    char *want = start(chain, &t, &n_want, NULL);
    for (uint32_t budget = 5; budget < all; budget += all / 5) {
        forget_records();
        fake.now = 0;
        t.budget = budget;
        t.undecided = 0;
        base_free(start(chain, &t, &n, NULL));
        assert_true(fake.now <= (int64_t)budget); /* in all passes together */
        cut += t.undecided;
        const bool decided = t.undecided == 0;
        assert_int_equal(readings_of(chain, &t, false, true) == 0, decided);
        char *got = start(chain, &t, &n, NULL);
        assert_int_equal(n, n_want);
        assert_memory_equal(got, want, n);
        base_free(got);
    }
    assert_true(cut > 0);
    base_free(want);
}

/* --- what else there is of it ------------------------------------------------------------------- */

static size_t files_in(const char *below) {
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", folder, below);
    tree_list files = tree_files(path);
    const size_t n = files.n;
    tree_list_free(&files);
    return n;
}

static void losers_do_not_stay_in_the_cache(void **state) {
    static const char text[] = "graph @g(%x: f32[77,1031]) -> f32[77,1031] {\n"
                               "  %0 = tanh %x : f32[77,1031]\n  ret %0\n}\n";
    (void)state;
    const size_t before = files_in("objects/code"), working = files_in("tmp");
    compile_tuner t = tuner_of("unroll=4");
    assert_true(readings_of(text, &t, true, false) > 0);
    assert_int_equal(files_in("objects/code"), before + 2); /* code and its sum */
    assert_int_equal(files_in("tmp"), working);
}

/* What is above the one kernel of a dumped source is for readers. */
static void drop_comment(char *source) {
    char *from = strstr(source, "/* poi_fused"), *to = from ? strstr(from, " */\n") : NULL;
    assert_non_null(to);
    memmove(from, to + 4, strlen(to + 4) + 1);
}

static void the_dump_is_of_what_runs(void **state) {
    rp_error err = {0};
    plan *p = NULL;
    char *runs = NULL;
    ir_graph *g = parsed(chain);
    (void)state;
    forget_records();
    compile_tuner t = tuner_of("unroll=4");
    compile_options o = options(NULL);
    char *rules = dumped(g, &o, "5_source.g.submod_000.c");
    o = options(&t);
    o.keep_sources = true;
    char *source = dumped(g, &o, "5_source.g.submod_000.c");
    assert_string_not_equal(source, rules);
    drop_comment(source);
    /* Nothing is measured twice in one compile. */
    const uint32_t n = fake.n;
    assert_true(n > 0);
    CHECK_OK(compile_graph(g, &o, &p, NULL, &err), &err);
    assert_int_equal(fake.n, n);
    CHECK_OK(cache_get_text(store, p->modules[0].key, "piece.c", &runs, &err), &err);
    assert_string_equal(source, runs);
    compile_tuner_done(&t);
    free(rules);
    free(source);
    base_free(runs);
    plan_free(p);
    ir_graph_free(g);
}

static bool until_three(void *user) {
    (void)user;
    return fake.n < 3;
}

static void whoever_waits_may_stop_it(void **state) {
    rp_error err = {0};
    plan *p = NULL;
    ir_graph *g = parsed(chain);
    compile_toolchain stopped = toolchain;
    (void)state;
    forget_records();
    compile_tuner t = tuner_of(NULL);
    compile_options o = options(&t);
    stopped.wanted = until_three;
    o.toolchain = &stopped;
    assert_int_equal(compile_graph(g, &o, &p, NULL, &err), RP_CANCELLED);
    assert_int_equal(fake.n, 3);
    compile_tuner_done(&t);
    ir_graph_free(g);
}

/* By one tensor, and by all: here what is left of 4 GB holds no more than an input. */
static void what_is_too_large_is_not_compiled(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: f32[40000,40000]) -> f32[40000,40000] {\n"
        "  %0 = exp %x : f32[40000,40000]\n  ret %0\n}\n",
        "graph @g(%x: f32[1,1048576], %y: f32[1023,1]) -> f32[1023,1048576] {\n"
        "  %0 = add %x, %y : f32[1023,1048576]\n  ret %0\n}\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        base_buf heard;
        size_t n;
        base_free(start(texts[i], NULL, &n, NULL));
        const uint64_t before = base_spawn_count();
        compile_tuner t = tuner_of(NULL);
        heard_start(&heard, "autotuning");
        assert_int_equal(readings_of(texts[i], &t, true, true), 0);
        CHECK_HEARD(&heard, "submod_0 keeps the rules' choices: its memory is more than 4 GB\n");
        heard_done(&heard);
        assert_int_equal(base_spawn_count(), before);
    }
}

/* A product of the library is one that nobody measures. */
static void what_is_measured_is_not_built_in(void **state) {
    static const struct {
        const char *options, *built_in;
        bool is;
    } all[] = {{"{}", "true", true},
               {"{}", "false", false},
               {"{\"max_autotune\":true}", "true", false},
               {"{\"coordinate_descent_tuning\":true}", "true", false},
               {"{\"max_autotune\":true,\"coordinate_descent_tuning\":true}", "true", false},
               {"{\"max_autotune\":false,\"coordinate_descent_tuning\":false}", "true", true}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_error err = {0};
        bool is = !all[i].is;
        rp_compilation_config *c = rp_config_new();
        assert_non_null(c);
        CHECK_OK(rp_config_set_key(c, "inductor_compile_config", all[i].options, &err), &err);
        CHECK_OK(rp_config_set_key(c, "built_in_products", all[i].built_in, &err), &err);
        CHECK_OK(rp_config_resolve(c, NULL, &err), &err);
        CHECK_OK(compile_built_in(c, &is, &err), &err);
        if (is != all[i].is) fail_msg("%s: %d", all[i].options, is);
        rp_config_free(c);
    }
}

/* --- what is not trusted ------------------------------------------------------------------------- */

static rp_status keep_tuning(void *user, const cache_entry *e, rp_error *err) {
    (void)err;
    if (e->kind == CACHE_TUNING) memcpy(user, e->key, 33);
    return RP_OK;
}

static void a_record_that_says_something_else_is_ignored(void **state) {
    static const char *const texts[] = {
        "autotune 2\nmm(...)\nsearched list\nbest rows=13\n",
        "autotune 2\nmm(...)\nsearched list\nbest vector=256\n",
        "autotune 2\nmm(...)\nsearched list\nbest rows=24 and more\n",
        "autotune 2\nmm(...)\nsearched list\nbest rules",
        "autotune 2\nmm(...)\nsearched all\nbest rules\n",
        "autotune 2\nmm(...)\nbest rules\n",
        "autotune 1\nmm(...)\nbest rules\n",
        "autotune 2\nmm(...) searched list\nbest rules\n",
        "autotune 2\nmm(...)\nsearched list\nand best rules\n",
        "autotune 2\nmm(...)\nsearched list\nbest rules\n\0!", /* with what is behind its end */
        ""};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char hex[33] = "";
        base_hash128 key;
        base_buf heard;
        size_t n;
        rp_error err = {0};
        forget_records();
        compile_tuner t = tuner_of("rows=24");
        base_free(start(product, &t, &n, NULL));
        CHECK_OK(cache_list(store, false, keep_tuning, hex, &err), &err);
        assert_int_equal(sscanf(hex, "%16" SCNx64 "%16" SCNx64, &key.hi, &key.lo), 2);
        const size_t size = strlen(texts[i]) + (i + 2 == sizeof texts / sizeof *texts ? 2 : 0);
        CHECK_OK(cache_put(store, CACHE_TUNING, key, texts[i], size, &err), &err);
        heard_start(&heard, "autotuning");
        t = tuner_of("rows=48");
        base_free(start(product, &t, &n, NULL));
        CHECK_HEARD(&heard, " is ignored: it");
        heard_done(&heard);
        assert_true(fake.n > 0);
        t = tuner_of(NULL);
        base_free(start(product, &t, &n, NULL));
        assert_int_equal(fake.n, 0);
    }
}

/* All that a reading depends on, by name: sizes are those that were measured. */
static void a_record_is_of_sizes_and_a_machine(void **state) {
    static const struct {
        const char *text, *sizes;
    } is[] = {{chain, ""},
              {"graph @g(%x: f32[T,640]) -> f32[T,640] where T in [1,64] {\n  %0 = tanh %x\n"
               "  ret %0\n}\n",
               "T=64"},
              {"graph @g(%x: f32[T,S]) -> f32[T,S] where T in [300,4096], S in [1,4096] {\n"
               "  %0 = tanh %x\n  ret %0\n}\n",
               "T=300 S=256"}};
    static const char *const names[] = {"tuned", "function", "kernel", "device", "threads", "isa"};
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        char hex[33] = "", want[64], *json = NULL;
        base_hash128 key;
        size_t n;
        rp_error err = {0};
        forget_records();
        compile_tuner t = tuner_of("grain=2");
        base_free(start(is[i].text, &t, &n, NULL));
        CHECK_OK(cache_list(store, false, keep_tuning, hex, &err), &err);
        assert_int_equal(sscanf(hex, "%16" SCNx64 "%16" SCNx64, &key.hi, &key.lo), 2);
        CHECK_OK(cache_get_text(store, key, "tuning_factors.json", &json, &err), &err);
        (void)snprintf(want, sizeof want, "\"sizes\": \"%s\"", is[i].sizes);
        if (!strstr(json, want)) fail_msg("no %s in %s", want, json);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            (void)snprintf(want, sizeof want, "\"%s\": \"", names[k]);
            if (!strstr(json, want)) fail_msg("no %s in %s", want, json);
        }
        base_free(json);
    }
}

static void a_damaged_file_is_ignored(void **state) {
    char path[600];
    size_t n, size;
    (void)state;
    forget_records();
    compile_tuner t = tuner_of("rows=24");
    base_free(start(product, &t, &n, NULL));
    (void)snprintf(path, sizeof path, "%s/objects/tuning", folder);
    tree_list files = tree_files(path);
    assert_int_equal(files.n, 1);
    uint8_t *bytes = tree_read(path, files.path[0], &size);
    bytes[size - 3] ^= 1;
    tree_write(path, files.path[0], bytes, size);
    free(bytes);
    tree_list_free(&files);
    t = tuner_of("rows=24");
    base_free(start(product, &t, &n, NULL));
    assert_true(fake.n > 0);
}

static void measuring_keeps_to_its_budget(void **state) {
    size_t n;
    (void)state;
    for (int64_t budget = 0; budget < 60; budget += 7) {
        forget_records();
        compile_tuner t = tuner_of("rows=24");
        t.budget = budget;
        base_free(start(product, &t, &n, NULL));
        assert_true(fake.now <= budget);
    }
    /* Too little to tell is not kept: the next process goes on. */
    forget_records();
    compile_tuner t = tuner_of("rows=24");
    t.budget = 12;
    base_free(start(product, &t, &n, NULL));
    assert_int_equal(fake.n, 12);
    assert_int_equal(t.undecided, 1);
    t = tuner_of("rows=24");
    base_free(start(product, &t, &n, NULL));
    assert_true(fake.n > 0);
}

static void a_failure_costs_the_tuning_alone(void **state) {
    base_buf heard;
    size_t n, n_rules;
    (void)state;
    forget_records();
    char *rules = start(product, NULL, &n_rules, NULL);
    compile_tuner t = tuner_of("rows=24");
    fake.fails = true;
    heard_start(&heard, "autotuning");
    char *bytes = start(product, &t, &n, NULL);
    CHECK_HEARD(&heard, "submod_0 keeps the rules' choices: the clock has stopped\n");
    heard_done(&heard);
    assert_int_equal(t.undecided, 1);
    assert_int_equal(n, n_rules);
    assert_memory_equal(bytes, rules, n);
    base_free(rules);
    base_free(bytes);
}

static void a_crowded_machine_decides_nothing(void **state) {
    base_buf heard;
    size_t n, n_rules;
    (void)state;
    forget_records();
    char *rules = start(product, NULL, &n_rules, NULL);
    compile_tuner t = tuner_of("rows=24");
    fake.crowded = 3;
    heard_start(&heard, "autotuning");
    char *bytes = start(product, &t, &n, NULL);
    CHECK_HEARD(&heard, "mm(96x64, 64x40) is not decided: other programs held the cores in ");
    heard_done(&heard);
    assert_int_equal(t.undecided, 1);
    assert_int_equal(n, n_rules);
    assert_memory_equal(bytes, rules, n);
    base_free(bytes);
    /* Nor was anything kept. Now and then is no crowd. */
    t = tuner_of("rows=24");
    fake.crowded = 10;
    bytes = start(product, &t, &n, NULL);
    assert_true(fake.n > 0);
    assert_true(n != n_rules || memcmp(bytes, rules, n) != 0);
    base_free(bytes);
    base_free(rules);
}

/* --- bits ---------------------------------------------------------------------------------------- */

static plan_run ran(const ir_graph *g, const random_leaves *v, compile_tuner *t, uint32_t threads) {
    plan_run_options o = {.backend = &compile_inductor,
                          .isa = gen_isa_best(),
                          .toolchain = &toolchain,
                          .store = store,
                          .threads = threads,
                          .open = threads ? NULL : device,
                          .passes = true,
                          .tuner = t};
    rp_error err = {0};
    plan_run r = {0};
    CHECK_OK(plan_run_graph(g, v, &o, &r, &err), &err);
    compile_tuner_done(t);
    return r;
}

/* Runs what every choice makes of g, given as the fastest. */
static void check_bits(const char *text, const char *const *choices, uint32_t n) {
    ir_graph *g = parsed(text);
    random_leaves v = {0};
    rp_error err = {0};
    CHECK_OK(random_leaves_new(g, 5, &v, &err), &err);
    plan_run want = ran(g, &v, NULL, 0);
    for (uint32_t i = 0; i < n; i++) {
        forget_records();
        compile_tuner t = tuner_of(choices[i]);
        plan_run got = ran(g, &v, &t, 0);
        if (fake.n == 0) fail_msg("nothing was measured of\n%s", text);
        const char *differs = plan_run_differs(g, &want, &got);
        if (differs) fail_msg("%s: %s in\n%s", choices[i], differs, text);
        plan_run_done(&got);
    }
    plan_run_done(&want);
    random_leaves_done(&v);
    ir_graph_free(g);
}

static void choices_of_loops_have_the_same_bits(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: f32[7,1000], %b: f32[1000]) -> f32[7,1000] {\n"
        "  %0 = add %x, %b\n  %1 = exp %0\n  %2 = sum %1 {axis=1, keep=true}\n"
        "  %3 = div %1, %2\n  ret %3\n}\n",
        "graph @g(%x: f32[33,515]) -> (f32[515], f32[515]) {\n"
        "  %0 = sum %x {axis=0, keep=false}\n  %1 = amax %x {axis=0, keep=false}\n"
        "  ret %0, %1\n}\n",
        "graph @g(%x: f32[96,160]) -> f32[160,96] {\n"
        "  %0 = permute %x {axes=[1,0]}\n  %1 = exp %0\n  ret %1\n}\n",
        "graph @g(%x: f32[T,640]) -> f32[T,640] where T in [1,64] {\n  %0 = tanh %x\n  ret "
        "%0\n}\n"};
    static const char *const choices[] = {"vector=256", "unroll=2", "unroll=4", "unroll=8",
                                          "grain=-2",   "grain=2",  "grain=40", "tile=-2",
                                          "tile=-1",    "tile=1"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_bits(texts[i], choices, sizeof choices / sizeof *choices);
}

static void choices_of_products_have_the_same_bits(void **state) {
    static const char *const texts[] = {
        product,
        "graph @g(%x: f32[3,50,70], %w: f32[3,70,33]) -> f32[3,50,33] {\n"
        "  %y = matmul %x, %w\n  ret %y\n}\n",
        "graph @g(%x: f32[100,64]) -> f32[100,48] {\n  %w = param @w : q4_1[48,64]\n"
        "  %d = dequant %w\n  %y = matmul %x, %d {trans_b=true}\n  ret %y\n}\n"};
    static const char *const choices[] = {"rows=12", "rows=24", "rows=48", "rows=84", "rows=168"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_bits(texts[i], choices, sizeof choices / sizeof *choices);
}

static int set_up(void **state) {
    rp_error err = {0};
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", tree_new("tuned"));
    return compile_toolchain_find(NULL, &toolchain, &err) == RP_OK &&
                   cache_store_open(folder, &store, &err) == RP_OK &&
                   hal_cpu_open(2, &device, &err) == RP_OK
               ? 0
               : -1;
}

static int tear_down(void **state) {
    (void)state;
    hal_close(device);
    cache_store_close(store);
    compile_toolchain_done(&toolchain);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_taken_and_kept),
        cmocka_unit_test(what_is_alike_is_measured_once),
        cmocka_unit_test(quick_launches_are_read_together),
        cmocka_unit_test(a_symbol_is_measured_at_its_hint),
        cmocka_unit_test(kernels_share_the_budget),
        cmocka_unit_test(nothing_better_is_kept_too),
        cmocka_unit_test(descending_goes_on_from_the_best),
        cmocka_unit_test(one_search_goes_on_where_another_ended),
        cmocka_unit_test(a_search_that_was_cut_is_gone_on_with),
        cmocka_unit_test(losers_do_not_stay_in_the_cache),
        cmocka_unit_test(the_dump_is_of_what_runs),
        cmocka_unit_test(whoever_waits_may_stop_it),
        cmocka_unit_test(what_is_too_large_is_not_compiled),
        cmocka_unit_test(what_is_measured_is_not_built_in),
        cmocka_unit_test(a_record_that_says_something_else_is_ignored),
        cmocka_unit_test(a_record_is_of_sizes_and_a_machine),
        cmocka_unit_test(a_damaged_file_is_ignored),
        cmocka_unit_test(measuring_keeps_to_its_budget),
        cmocka_unit_test(a_failure_costs_the_tuning_alone),
        cmocka_unit_test(a_crowded_machine_decides_nothing),
        cmocka_unit_test(choices_of_loops_have_the_same_bits),
        cmocka_unit_test(choices_of_products_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
