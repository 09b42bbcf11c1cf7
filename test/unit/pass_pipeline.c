/* The pipeline on random graphs: values stay bit for bit, the text law holds after every pass, names are checked. */
#include "support/check.h"

#include "base/file.h"
#include "pass/pipeline.h"
#include "support/same.h"
#include "support/trees.h"

static void every_pass_keeps_values_and_text(void **state) {
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    uint32_t n, before = 0, after = 0;
    const pass_info *table = pass_table(&n);
    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL, *all = NULL;
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        for (uint32_t i = 0; i < n; i++) {
            ir_graph *h = NULL;
            if (!table[i].run) continue;
            CHECK_OK(pass_run(table[i].name, g, &h, &err), &err);
            CHECK_OK(ir_verify(h, &err), &err);
            CHECK_OK(pass_check_text(h, &err), &err); /* law 1, in every build */
            check_same_results(g, h, seed);
            ir_graph_free(h);
        }
        CHECK_OK(pass_run_all(g, NULL, &all, &err), &err);
        CHECK_OK(pass_check_text(all, &err), &err);
        check_same_results(g, all, seed);
        before += ir_graph_count(g);
        after += ir_graph_count(all);
        ir_graph_free(all);
        ir_graph_free(g);
    }
    print_message("%u nodes became %u\n", before, after);
    assert_true(after < before);
}

static void twice_is_once(void **state) {
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL, *a = NULL, *b = NULL;
        char *s = NULL, *t = NULL;
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        CHECK_OK(pass_run_all(g, NULL, &a, &err), &err);
        CHECK_OK(pass_run_all(a, NULL, &b, &err), &err);
        CHECK_OK(ir_print_string(a, &s, &err), &err);
        CHECK_OK(ir_print_string(b, &t, &err), &err);
        assert_string_equal(s, t);
        base_free(s);
        base_free(t);
        ir_graph_free(a);
        ir_graph_free(b);
        ir_graph_free(g);
    }
}

static void leaves_keep_their_order(void **state) {
    rp_error err = {0};
    rp_graph *g = NULL;
    ir_graph *h = NULL;
    small_llama_options opt = {.layers = 2, .weights = RP_DTYPE_Q4_1};
    (void)state;
    CHECK_OK(small_llama_new(&opt, &g, &err), &err);
    const ir_graph *in = trace_graph_ir(g);
    CHECK_OK(pass_run_all(in, NULL, &h, &err), &err);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(ir_leaf_count(in, (ir_leaf)k), ir_leaf_count(h, (ir_leaf)k));
        for (uint32_t i = 0; i < ir_leaf_count(in, (ir_leaf)k); i++)
            assert_string_equal(ir_node_at(in, ir_leaf_at(in, (ir_leaf)k, i))->name,
                                ir_node_at(h, ir_leaf_at(h, (ir_leaf)k, i))->name);
    }
    check_same_results(in, h, 3);
    ir_graph_free(h);
    rp_graph_free(g);
}

static void names_are_checked(void **state) {
    static const char *const good[] = {"fold", "simplify", "eliminate_noops",
                                       "cse",  "dce",      "fuse_norm_quant"};
    static const char *const bad[] = {"fold", "simplfy"};
    rp_error err = {0}, e1 = {0}, e2 = {0}, e3 = {0};
    ir_graph *g = NULL, *h = NULL;
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    (void)state;
    CHECK_OK(random_graph_new(1, &opt, &g, &err), &err);
    CHECK_OK(pass_check_names(good, 6, &err), &err);
    assert_int_equal(pass_check_names(bad, 2, &e1), RP_CONFIG);
    assert_string_equal(e1.text, "no pass simplfy; nearest: simplify");
    assert_int_equal(pass_run("fuse_norm_quant", g, &h, &e2), RP_CONFIG);
    const pass_options skip_bad = {.skip = bad, .n_skip = 2};
    assert_int_equal(pass_run_all(g, &skip_bad, &h, &e3), RP_CONFIG);
    const pass_options skip_two = {.skip = (const char *[]){"fold", "eliminate_noops"},
                                   .n_skip = 2};
    const pass_options skip_needed = {.skip = (const char *[]){"inplace"}, .n_skip = 1};
    rp_error e4 = {0};
    assert_int_equal(pass_run_all(g, &skip_needed, &h, &e4), RP_CONFIG);
    assert_non_null(strstr(e4.text, "pass inplace cannot be left out"));
    assert_true(pass_is_skipped(&skip_two, "simplify"));
    assert_true(pass_is_skipped(&skip_two, "fold"));
    assert_false(pass_is_skipped(&skip_two, "cse"));
    assert_false(pass_is_skipped(NULL, "fold"));
    ir_graph_free(g);
}

/* Everything left out still gives a graph of one's own. */
static void all_passes_can_be_left_out(void **state) {
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    const pass_options none = {.skip = (const char *[]){"fold", "simplify", "gather", "cse", "dce"},
                               .n_skip = 5};
    rp_error err = {0};
    ir_graph *g = NULL, *h = NULL;
    (void)state;
    CHECK_OK(random_graph_new(5, &opt, &g, &err), &err);
    CHECK_OK(pass_run_all(g, &none, &h, &err), &err);
    check_same_results(g, h, 5);
    ir_graph_free(g);
    ir_graph_free(h);
}

static uint32_t copies_of(const char *text, bool piece) {
    const pass_options opt = {.piece = piece};
    rp_error err = {0};
    ir_graph *g = NULL, *h = NULL;
    uint32_t n = 0;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(pass_run_all(g, &opt, &h, &err), &err);
    for (ir_ref r = 0; r < ir_graph_count(h); r++) n += ir_node_at(h, r)->op == IR_copy;
    ir_graph_free(g);
    ir_graph_free(h);
    return n;
}

/* Another piece may overwrite memory, so what a piece computed is not returned as memory, once its passes found that it is; what
 * was returned as memory before stays. */
static void outputs_of_pieces_are_their_own(void **state) {
    static const struct {
        uint32_t copies;
        const char *outputs, *body;
    } cases[] = {
        {0, "f32[4], f32[4]", "%n = neg %x ret %x, %n"}, /* an input as it is */
        {0, "f32[2,2], f32[4]", "%v = reshape %x {shape=[2,2]} ret %v, %x"},
        {0, "f32[4]", "%u = update %m, %x ret %u"},      /* a version of a state */
        {0, "f32[4]", "%n = neg %x ret %n"},             /* computed */
        {1, "f32[4]", "%n = neg %x %k = neg %n ret %k"}, /* nothing is left to do */
        {1, "f32[4], f32[4]", "%n = neg %x %k = neg %n ret %k, %x"},
        {2, "f32[4], f32[4]", "%n = neg %x %k = neg %n %o = neg %m %p = neg %o ret %k, %p"},
    };
    char text[400];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text,
                       "graph @piece(%%x: f32[4]) -> (%s) {\n %%m = state @m : f32[4]\n %s\n}\n",
                       cases[i].outputs, cases[i].body);
        uint32_t n = copies_of(text, true);
        if (n != cases[i].copies) fail_msg("%s: %u copies, want %u", text, n, cases[i].copies);
        assert_int_equal(copies_of(text, false), 0);
    }
}

static rp_status collect_entry(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)is_dir, (void)err;
    base_buf_printf(user, "%s ", name);
    return RP_OK;
}

/* The names sort in the order of the passes, and the last text is the result's. */
static void stages_are_dumped(void **state) {
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    char dir[64], path[96], *last = NULL, *text = NULL;
    size_t size = 0;
    rp_error err = {0};
    ir_graph *g = NULL, *h = NULL;
    base_buf names;
    (void)state;
    assert_int_equal(tree_make(dir, sizeof dir), 0);
    const pass_options dump = {.dump_dir = dir, .dump_prefix = "p."};
    base_buf_init(&names, 0);
    CHECK_OK(random_graph_new(2, &opt, &g, &err), &err);
    CHECK_OK(pass_run_all(g, &dump, &h, &err), &err);
    CHECK_OK(base_dir_list(dir, collect_entry, &names, &err), &err);
    assert_string_equal(names.data,
                        "p.1_fold.ir p.2_gather.ir p.3_simplify.ir p.4_cse.ir p.5_dce.ir ");
    (void)snprintf(path, sizeof path, "%s/p.5_dce.ir", dir);
    CHECK_OK(base_file_read(path, 1 << 20, &last, &size, &err), &err);
    CHECK_OK(ir_print_string(h, &text, &err), &err);
    assert_string_equal(last, text);
    CHECK_OK(base_path_remove(dir, &err), &err);
    base_buf_done(&names);
    base_free(last);
    base_free(text);
    ir_graph_free(g);
    ir_graph_free(h);
}

static void failed_allocations_leave_nothing(void **state) {
    rp_error e0 = {0};
    ir_graph *g = NULL;
    const random_graph_options opt = {.n_steps = 4, .symbolic = true};
    (void)state;
    CHECK_OK(random_graph_new(9, &opt, &g, &e0), &e0);
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        ir_graph *h = NULL;
        rp_status st = pass_run_all(g, NULL, &h, &err);
        ir_graph_free(h);
        if (st != RP_OK && st != RP_NOMEM)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, rp_status_name(st),
                     err.text);
        assert_int_equal(base_live(), live);
    }
    ir_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pass_keeps_values_and_text),
        cmocka_unit_test(twice_is_once),
        cmocka_unit_test(leaves_keep_their_order),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(all_passes_can_be_left_out),
        cmocka_unit_test(stages_are_dumped),
        cmocka_unit_test(outputs_of_pieces_are_their_own),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
