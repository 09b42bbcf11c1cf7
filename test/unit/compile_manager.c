/* A third compiler: what it gives a handle for is loaded in the next process, the rest is compiled again. */
#include "support/check.h"
#include "support/heard.h"
#include "support/plans.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"
#include "target/target.h"

static char folder[64];

/* --- a compiler that counts ------------------------------------------------------------- */

static struct {
    uint32_t opened, compiled, loaded;
    bool gives_handle, refuses, forgets, fails;
    bool runs; /* says that it ran a program */
    uint64_t hash;
    uint32_t order[16];       /* sizes of sources, as compiled */
    uint32_t functions, told; /* compiled; those whose unit's factors are stored by then */
} c;

static rp_status count_open(const compile_host *h, rp_error *err) {
    (void)h;
    c.opened++;
    return c.refuses ? rp_fail(err, RP_UNSUPPORTED, "not on this host") : RP_OK;
}

static rp_status give_hash(const compile_host *h, cache_key *k, rp_error *err) {
    (void)h;
    return cache_key_addf(k, err, "compiler", "%llu", (unsigned long long)c.hash);
}

static rp_status count_compile(const compile_host *h, const compile_unit *u, compile_code *out,
                               char **handle, rp_error *err) {
    char *factors = NULL;
    if (h->store && cache_get_text(h->store, u->key, "code_factors.json", &factors, NULL) == RP_OK)
        c.told += u->n_functions;
    base_free(factors);
    out->ran = c.runs;
    if (c.compiled < 16) c.order[c.compiled] = (uint32_t)strlen(u->source);
    c.compiled++;
    c.functions += u->n_functions;
    if (c.fails) return rp_fail(err, RP_INTERNAL, "no code today");
    if (c.gives_handle) {
        *handle = base_strdup("shelf 3");
        if (!*handle) return rp_fail(err, RP_NOMEM, "handle");
    }
    return RP_OK;
}

static rp_status count_load(const compile_host *h, const compile_unit *u, const char *handle,
                            compile_code *out, rp_error *err) {
    (void)h;
    (void)u;
    (void)out;
    (void)err;
    assert_string_equal(handle, "shelf 3");
    c.loaded++;
    return c.forgets ? RP_NOT_FOUND : RP_OK;
}

static rp_compiler counting(bool generates) {
    return (rp_compiler){.name = "counting",
                         .initialize_cache = count_open,
                         .compute_hash = give_hash,
                         .lower = generates ? target_lower : compile_eager.lower,
                         .compile = count_compile,
                         .load = count_load};
}

/* --- processes, one after the other --------------------------------------------------------- */

static rp_graph *llama(void) {
    rp_error err = {0};
    rp_graph *g = NULL;
    small_llama_options opt = {.layers = 3, .weights = RP_DTYPE_Q4_1};
    CHECK_OK(small_llama_new(&opt, &g, &err), &err);
    return g;
}

static compile_options options(const rp_compiler *compiler, cache_store *store) {
    static const compile_toolchain none;
    static const char *const ops[] = {"reprise::attention"};
    return (compile_options){.backend = compiler,
                             .isa = GEN_ISA_PORTABLE,
                             .splitting_ops = ops,
                             .n_splitting_ops = 1,
                             .toolchain = &none,
                             .store = store,
                             .threads = 1};
}

/* What a process does that knows no more than the folder; counts start at 0. */
static rp_status process(compile_stats *stats, rp_error *err) {
    const rp_compiler compiler = counting(false);
    cache_store *store = NULL;
    plan *p = NULL;
    rp_graph *g = llama();
    CHECK_OK(cache_store_open(folder, &store, err), err);
    compile_options opt = options(&compiler, store);
    c.opened = c.compiled = c.loaded = 0;
    rp_status st = compile_graph(trace_graph_ir(g), &opt, &p, stats, err);
    if (st != RP_OK) assert_null(p);
    plan_free(p);
    cache_store_close(store);
    rp_graph_free(g);
    return st;
}

static void check_process(uint32_t compiled, uint32_t loaded) {
    rp_error err = {0};
    compile_stats s = {0};
    CHECK_OK(process(&s, &err), &err);
    assert_int_equal(c.opened, 1);
    assert_int_equal(c.compiled, compiled);
    assert_int_equal(c.loaded, loaded);
    assert_int_equal(s.cache_hits, c.forgets ? 0 : loaded);
    assert_int_equal(s.compiles, 0); /* no host compiler ran */
    assert_int_equal(s.distinct, 3);
}

/* Three layers: first, middle and last piece, and attention. */
enum { DISTINCT = 4 };

static void no_handle_is_no_error(void **state) {
    (void)state;
    memset(&c, 0, sizeof c);
    check_process(DISTINCT, 0);
    check_process(DISTINCT, 0);
}

static void a_handle_is_loaded(void **state) {
    (void)state;
    memset(&c, 0, sizeof c);
    base_buf heard;
    c.gives_handle = true;
    c.hash = 1;
    heard_start(&heard, "cache");
    check_process(DISTINCT, 0);
    CHECK_HEARD(&heard,
                "[cache] store the 0-th graph for shape None from counting via handle shelf 3\n");
    CHECK_HEARD(&heard,
                "[cache] store the 1-th graph for shape None from counting via handle shelf 3\n");
    base_buf_clear(&heard);
    check_process(0, DISTINCT);
    CHECK_HEARD(
        &heard,
        "[cache] Directly load the 1-th graph for shape None from counting via handle shelf 3\n");
    assert_null(strstr(heard.data, "store the"));
    heard_done(&heard);
}

static void the_hash_is_in_the_key(void **state) {
    (void)state;
    memset(&c, 0, sizeof c);
    c.gives_handle = true;
    c.hash = 2;
    check_process(DISTINCT, 0);
    c.hash = 3;
    check_process(DISTINCT, 0);
    c.hash = 2;
    check_process(0, DISTINCT);
}

static void what_is_gone_is_compiled_again(void **state) {
    (void)state;
    memset(&c, 0, sizeof c);
    c.gives_handle = true;
    c.hash = 4;
    check_process(DISTINCT, 0);
    c.forgets = true;
    check_process(DISTINCT, DISTINCT);
}

static void failures_come_through(void **state) {
    size_t live = base_live();
    rp_error err = {0};
    (void)state;
    memset(&c, 0, sizeof c);
    c.refuses = true;
    assert_int_equal(process(NULL, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "not on this host");
    assert_int_equal(c.compiled, 0);
    memset(&c, 0, sizeof c);
    memset(&err, 0, sizeof err);
    c.fails = true;
    assert_int_equal(process(NULL, &err), RP_INTERNAL);
    assert_string_equal(err.text, "no code today");
    assert_int_equal(c.compiled, 1); /* nothing is begun after a failure */
    assert_int_equal(base_live(), live);
}

static void inductor_needs_a_store(void **state) {
    rp_error err = {0};
    rp_graph *g = llama();
    plan *p = NULL;
    compile_options opt = options(&compile_inductor, NULL);
    (void)state;
    assert_int_equal(compile_graph(trace_graph_ir(g), &opt, &p, NULL, &err), RP_INVALID);
    assert_null(p);
    rp_graph_free(g);
}

/* --- several graphs --------------------------------------------------------------------------- */

static void graphs_share_pieces_and_jobs(void **state) {
    rp_error err = {0};
    const rp_compiler compiler = counting(true);
    compile_options opt = options(&compiler, NULL);
    rp_graph *a = llama(), *b = llama();
    compile_task t[] = {
        {.g = trace_graph_ir(a), .splitting_ops = opt.splitting_ops, .n_splitting_ops = 1},
        {.g = trace_graph_ir(b), .splitting_ops = opt.splitting_ops, .n_splitting_ops = 1},
        {.g = trace_graph_ir(b)}};
    (void)state;
    memset(&c, 0, sizeof c);
    CHECK_OK(compile_graphs(t, 3, &opt, &err), &err);
    for (uint32_t i = 1; i < c.compiled; i++)
        if (c.order[i] > c.order[i - 1])
            fail_msg("a source of %u bytes after one of %u", c.order[i], c.order[i - 1]);
    assert_int_equal(t[0].stats.distinct, t[1].stats.distinct);
    /* Each function is compiled once, and counted where it is: most of them are in the third, which is one long piece. */
    assert_int_equal(c.functions, t[0].stats.kernels + t[2].stats.kernels);
    assert_int_equal(t[1].stats.kernels, 0);
    assert_true(t[2].stats.kernels > t[0].stats.kernels);
    assert_true(c.functions <
                t[0].out->n_functions + t[2].out->n_functions - 2); /* attention twice */
    assert_int_equal(t[1].out->n_launches, t[0].out->n_launches);
    assert_int_equal(t[2].stats.pieces, 1);
    for (int i = 0; i < 3; i++) plan_free(t[i].out);
    rp_graph_free(a);
    rp_graph_free(b);
}

/* Who is killed while code is made, or stored, leaves none of which nobody can say what it is. */
static void factors_are_stored_first(void **state) {
    const rp_compiler compiler = counting(true);
    cache_store *store = NULL;
    plan *p = NULL;
    rp_error err = {0};
    rp_graph *g = llama();
    (void)state;
    memset(&c, 0, sizeof c);
    CHECK_OK(cache_store_open(folder, &store, &err), &err);
    compile_options opt = options(&compiler, store);
    CHECK_OK(compile_graph(trace_graph_ir(g), &opt, &p, NULL, &err), &err);
    assert_true(c.functions > 0);
    assert_int_equal(c.told, c.functions);
    plan_free(p);
    cache_store_close(store);
    rp_graph_free(g);
}

/* What is compiled together is counted once, for whichever graphs it is. */
static void counts_add_up(void **state) {
    static const char *const sets[] = {"a", "w", "aa", "aw", "wa", "aaa", "waw", "aaww"};
    rp_graph *g = llama();
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const rp_compiler compiler = counting(true);
        compile_options opt = options(&compiler, NULL);
        compile_task t[4];
        rp_error err = {0};
        uint32_t n = (uint32_t)strlen(sets[i]), kernels = 0, compiles = 0;
        for (uint32_t k = 0; k < n; k++) /* in pieces, or whole */
            t[k] = (compile_task){.g = trace_graph_ir(g),
                                  .splitting_ops = opt.splitting_ops,
                                  .n_splitting_ops = sets[i][k] == 'a'};
        memset(&c, 0, sizeof c);
        c.runs = true;
        CHECK_OK(compile_graphs(t, n, &opt, &err), &err);
        for (uint32_t k = 0; k < n; k++) {
            kernels += t[k].stats.kernels;
            compiles += t[k].stats.compiles;
            plan_free(t[k].out);
        }
        assert_int_equal(kernels, c.functions);
        assert_int_equal(compiles, c.compiled);
        assert_true(kernels > 0);
    }
    rp_graph_free(g);
}

static void lost_memory_leaves_nothing(void **state) {
    const rp_compiler compiler = counting(false);
    compile_options opt = options(&compiler, NULL);
    rp_graph *g = llama();
    size_t live = base_live();
    (void)state;
    memset(&c, 0, sizeof c);
    c.gives_handle = true;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        compile_task t[] = {{.g = trace_graph_ir(g)},
                            {.g = trace_graph_ir(g), opt.splitting_ops, 1, NULL, {0}}};
        rp_status st = compile_graphs(t, 2, &opt, &err);
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        if (st != RP_OK) assert_true(!t[0].out && !t[1].out);
        for (int i = 0; i < 2; i++) plan_free(t[i].out);
    }
    assert_int_equal(base_live(), live);
    rp_graph_free(g);
}

static int set_up(void **state) {
    (void)state;
    return tree_make(folder, sizeof folder);
}

static int tear_down(void **state) {
    rp_error err = {0};
    (void)state;
    return base_path_remove(folder, &err) == RP_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_handle_is_no_error),
        cmocka_unit_test(a_handle_is_loaded),
        cmocka_unit_test(the_hash_is_in_the_key),
        cmocka_unit_test(what_is_gone_is_compiled_again),
        cmocka_unit_test(failures_come_through),
        cmocka_unit_test(inductor_needs_a_store),
        cmocka_unit_test(graphs_share_pieces_and_jobs),
        cmocka_unit_test(factors_are_stored_first),
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(lost_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
