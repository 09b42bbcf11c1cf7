/* What the rules of each target make of every kernel of models and of random graphs: it verifies, and its text reads back. */
#include "support/check.h"

#include "base/alloc.h"
#include "sched/rules.h"
#include "target/target.h"
#include "pass/pipeline.h"
#include "support/random_graph.h"
#include "support/small_llama.h"
#include "trace/trace.h"

/* The text of one function and its schedule at p; where it ends. */
static const char *check_one(const char *p) {
    const char *schedule = strstr(p, "\nschedule ");
    const char *end = schedule ? strstr(schedule, "\n}\n") : NULL;
    sched *s = NULL;
    rp_error err = {0};
    base_buf again;
    assert_non_null(end);
    end += 3;
    /* Verifies. */
    CHECK_OK(sched_parse(p, (size_t)(end - p), &s, &err), &err);
    base_buf_init(&again, 0);
    sched_print(s, &again);
    assert_int_equal(again.len, end - p);
    assert_memory_equal(again.data, p, again.len);
    base_buf_done(&again);
    sched_free(s);
    return end;
}

/* Functions of g; 0 where the target refuses one. */
static uint32_t check_graph(const ir_graph *g, const sched_target *t) {
    ir_graph *opt = NULL;
    lower_piece p = {0};
    rp_error err = {0};
    base_buf text;
    uint32_t n = 0;
    base_buf_init(&text, 0);
    const lower_options o = {.isa = GEN_ISA_PORTABLE, .schedule = &text, .scheduled = t};
    CHECK_OK(pass_run_all(g, NULL, &opt, &err), &err);
    rp_status st = target_lower(opt, &o, &p, &err);
    if (st != RP_UNSUPPORTED) CHECK_OK(st, &err);
    for (const char *at = text.data; st == RP_OK && at && *at; n++) at = check_one(at);
    lower_done(&p);
    base_buf_done(&text);
    ir_graph_free(opt);
    return n;
}

static void kernels_of_a_model(void **state) {
    const small_llama_options o = {.layers = 2, .weights = RP_DTYPE_Q4_1};
    rp_error err = {0};
    rp_graph *g = NULL;
    (void)state;
    CHECK_OK(small_llama_new(&o, &g, &err), &err);
    for (uint32_t t = 0; sched_target_at(t); t++)
        assert_true(check_graph(trace_graph_ir(g), sched_target_at(t)) > 10);
    rp_graph_free(g);
}

static void kernels_of_random_graphs(void **state) {
    enum { N = 100 };
    const random_graph_options all = RANDOM_GRAPH_ALL;
    uint32_t n[8] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= N; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL;
        CHECK_OK(random_graph_new(seed, &all, &g, &err), &err);
        for (uint32_t t = 0; sched_target_at(t); t++) n[t] += check_graph(g, sched_target_at(t));
        ir_graph_free(g);
    }
    for (uint32_t t = 0; sched_target_at(t); t++) {
        print_message("%u functions for %s\n", n[t], sched_target_at(t)->name);
        assert_true(n[t] >= 2 * N);
    }
}

/* A block of a GPU has 40 KB for what its items keep, to the byte; a CPU does not mind. */
static void scratch_has_a_limit_on_a_gpu(void **state) {
    (void)state;
    for (int more = 0; more < 2; more++) {
        char text[300];
        const int n = (40 << 10) / 4 + 16 * more;
        rp_error err = {0};
        kir_func *f = NULL;
        sched *s = NULL;
        (void)snprintf(text, sizeof text,
                       "kernel @wide() {\n  buf y: f32 = arg 0, written\n"
                       "  buf row: f32 = scratch %d, written\n  %%0 = const.i %d\n"
                       "  %%1 = par %%0 {\n    %%2 = loop %%0 {\n      %%3 = load row[%%2] : f32\n"
                       "      store y[%%2], %%3\n    }\n  }\n}\n",
                       n, n);
        CHECK_OK(kir_parse(text, strlen(text), &f, &err), &err);
        CHECK_OK(sched_cpu.make(f, &s, &err), &err);
        assert_int_equal(s->launch.scratch, 4 * n);
        sched_free(s);
        s = NULL;
        assert_int_equal(sched_cuda.make(f, &s, &err), more ? RP_UNSUPPORTED : RP_OK);
        if (more)
            assert_string_equal(err.text, "kernel wide: 41024 bytes of scratch an item; a CUDA "
                                          "block has 40960");
        sched_free(s);
        kir_free(f);
    }
}

/* What an item keeps is its own, be it one element: no other item of a block may have the same place. */
static void one_temporary_makes_an_item_a_block(void **state) {
    static const char text[] = "kernel @one() {\n  buf y: f32 = arg 0, written\n"
                               "  buf a: f32 = scratch 1, written\n  %0 = const.i 200\n"
                               "  %1 = const.i 0\n  %2 = par %0 {\n    %3 = load y[%2] : f32\n"
                               "    store a[%1], %3\n    %4 = load a[%1] : f32\n"
                               "    store y[%2], %4\n  }\n}\n";
    rp_error err = {0};
    kir_func *f = NULL;
    sched *s = NULL;
    (void)state;
    CHECK_OK(kir_parse(text, strlen(text), &f, &err), &err);
    CHECK_OK(sched_cuda.make(f, &s, &err), &err);
    assert_int_equal(s->launch.per_block, 1);
    sched_free(s);
    kir_free(f);
}

/* What threads exchange of a row of doubles takes twice as much as of floats. */
static void rows_of_doubles_exchange_more(void **state) {
    (void)state;
    for (int more = 0; more < 2; more++) {
        char text[400];
        rp_error err = {0};
        kir_func *f = NULL;
        (void)snprintf(text, sizeof text,
                       "kernel @sum() {\n  buf x: f64 = arg 0\n  buf y: f64 = arg 1, written\n"
                       "  %%0 = const.i 200\n  %%1 = const.i %d\n  %%2 = par %%0 {\n"
                       "    %%3 = reduce sum %%1 {\n      %%4 = load x[%%3] : f64\n"
                       "    } %%5 = yield %%4 : f64\n    store y[%%2], %%5\n  }\n}\n",
                       (40 << 10) / 8 + more);
        CHECK_OK(kir_parse(text, strlen(text), &f, &err), &err);
        const char *why = sched_registers_refused(f);
        if (more)
            assert_string_equal(why, "more than a block exchanges");
        else
            assert_null(why);
        kir_free(f);
    }
}

/* Of a loop that has more iterations than a block threads. */
static void a_block_has_no_more_threads_than_there_may_be(void **state) {
    static const char text[] = "kernel @long() {\n  buf x: f32 = arg 0\n"
                               "  buf y: f32 = arg 1, written\n  %0 = const.i 200\n"
                               "  %1 = const.i 20000\n  %2 = par %0 {\n    %3 = loop %1 {\n"
                               "      %4 = load x[%3] : f32\n      store y[%3], %4\n    }\n"
                               "  }\n}\n";
    rp_error err = {0};
    kir_func *f = NULL;
    sched *s = NULL;
    (void)state;
    CHECK_OK(kir_parse(text, strlen(text), &f, &err), &err);
    CHECK_OK(sched_cuda.make(f, &s, &err), &err);
    assert_int_equal(s->launch.threads, sched_cuda.max_threads);
    sched_free(s);
    kir_free(f);
}

/* A register has 4 bytes, also where an element has fewer. */
static void narrow_elements_take_registers(void **state) {
    (void)state;
    for (int more = 0; more < 2; more++) {
        char text[500];
        const int n = 64 * 128 / 2; /* two of these are what 64 threads have */
        rp_error err = {0};
        kir_func *f = NULL;
        (void)snprintf(text, sizeof text,
                       "kernel @narrow() {\n  buf y: bf16 = arg 0, written\n"
                       "  buf a: bf16 = scratch %d, written\n  buf b: bf16 = scratch %d, written\n"
                       "  %%0 = const.i 200\n  %%1 = const.i 1024\n  %%2 = par %%0 {\n"
                       "    %%3 = reduce sum %%1 {\n      %%4 = load a[%%3] : f32\n"
                       "      store b[%%3], %%4\n    } %%5 = yield %%4 : f32\n"
                       "    store y[%%2], %%5\n  }\n}\n",
                       n + more, n);
        CHECK_OK(kir_parse(text, strlen(text), &f, &err), &err);
        const char *why = sched_registers_refused(f);
        if (more)
            assert_string_equal(why, "more temporaries than registers");
        else
            assert_null(why);
        kir_free(f);
    }
}

/* Out of memory at each allocation of reading one: a clean error, nothing left behind. */
static void reading_survives_lost_allocations(void **state) {
    static const char text[] =
        "kernel @f() {\n  buf y: f32 = arg 0, written\n"
        "  buf row: f32 = scratch 8, written\n  %0 = const.i 8\n"
        "  %1 = par %0 {\n    %2 = loop %0 {\n      %3 = load row[%2] : f32\n"
        "      store y[%2], %3\n    }\n  }\n}\nschedule cpu {\n"
        "  launch scratch 32 grain 1\n  buf row local 0\n  %1 grid\n"
        "    %2 serial\n}\n";
    size_t live = base_live();
    bool fired = true;
    (void)state;
    for (uint64_t n = 1; fired; n++) {
        sched *s = NULL;
        base_alloc_fail_nth(n);
        rp_status st = sched_parse(text, sizeof text - 1, &s, NULL);
        fired = base_alloc_fail_nth(0);
        assert_int_equal(st, fired ? RP_NOMEM : RP_OK);
        sched_free(s);
        assert_int_equal(base_live(), live);
    }
}

/* A tuner halves or doubles the items that are worth a thread: of none, no; never to none, never beyond what there is. */
static void items_of_a_thread_are_scaled(void **state) {
    static const char text[] = "kernel @f() {\n  buf y: f32 = arg 0, written\n"
                               "  %0 = const.i 8\n  %1 = const.f 0x0p+0 : f32\n"
                               "  %2 = par %0 {\n    store y[%2], %1\n  }\n}\n"
                               "schedule cpu {\n  launch grain 12\n  %2 grid\n}\n";
    static const struct {
        int64_t grain;
        int8_t doublings;
        int64_t want;
    } cases[] = {{12, 0, 12},
                 {12, 2, 48},
                 {12, -2, 3},
                 {12, -9, 1},
                 {1, -1, 1},
                 {1, 1, 2},
                 {INT64_MAX / 4, 1, INT64_MAX / 4 * 2},
                 {INT64_MAX / 4 + 1, 1, INT64_MAX / 4 + 1}};
    rp_error err = {0};
    sched *s = NULL;
    (void)state;
    CHECK_OK(sched_parse(text, sizeof text - 1, &s, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s->launch.grain = cases[i].grain;
        sched_choose(s, &(sched_choice){.grain = cases[i].doublings});
        assert_true(s->launch.grain == cases[i].want);
    }
    sched_free(s);
}

/* A loop that is to be cut becomes two, one within the other, where that is not too deep. */
static void blocks_too_deep_to_cut_stay(void **state) {
    (void)state;
    for (uint32_t depth = KIR_MAX_DEPTH - 2; depth <= KIR_MAX_DEPTH; depth++) {
        rp_error err = {0};
        sched *s = NULL;
        kir_func *f = kir_new("f", KIR_KERNEL, NULL);
        const uint32_t y = kir_add_buf(f, "y", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);
        (void)kir_begin(f, KIR_PAR, kir_const_i(f, 4));
        for (uint32_t i = 2; i < depth; i++) (void)kir_begin(f, KIR_LOOP, kir_const_i(f, 2));
        kir_ref k = kir_begin(f, KIR_LOOP, kir_const_i(f, 64));
        kir_ref at = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IDIV, k, kir_const_i(f, 8)),
                             kir_bin(f, KIR_IMOD, k, kir_const_i(f, 8)));
        kir_store(f, y, at, kir_const_f(f, 1));
        for (uint32_t i = 0; i < depth; i++) kir_end(f);
        CHECK_OK(kir_status(f, &err), &err);
        CHECK_OK(sched_make(&sched_cpu, f, &s, &err), &err);
        uint32_t loops = 0;
        for (kir_ref r = 0; r < s->f->n_insts; r++) loops += s->f->insts[r].op == KIR_LOOP;
        assert_int_equal(loops, depth < KIR_MAX_DEPTH ? depth : depth - 1);
        sched_free(s);
        kir_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_a_model),
        cmocka_unit_test(kernels_of_random_graphs),
        cmocka_unit_test(scratch_has_a_limit_on_a_gpu),
        cmocka_unit_test(one_temporary_makes_an_item_a_block),
        cmocka_unit_test(a_block_has_no_more_threads_than_there_may_be),
        cmocka_unit_test(rows_of_doubles_exchange_more),
        cmocka_unit_test(narrow_elements_take_registers),
        cmocka_unit_test(items_of_a_thread_are_scaled),
        cmocka_unit_test(blocks_too_deep_to_cut_stay),
        cmocka_unit_test(reading_survives_lost_allocations),
    };
    return cmocka_run_group_tests_name("sched_rules", tests, NULL, NULL);
}
