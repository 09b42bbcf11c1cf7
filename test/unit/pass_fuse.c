/* Fusion on random graphs and on a Llama: groups are a partition, in an order that can run, and legal; switches, reasons
 * and the log. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/log.h"
#include "pass/fuse.h"
#include "pass/product.h"
#include "pass/rows.h"
#include "reprise/graph.h"
#include "support/small_llama.h"

typedef struct fused {
    const ir_graph *g;
    pass_fusion f;
} fused;

static uint32_t place_in_group(const fused *x, ir_ref r) {
    const pass_group *gr = &x->f.groups[x->f.group_of[r]];
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (gr->nodes[i] == r) return i;
    fail_msg("node %u is not in its group", r);
    return 0;
}

/* Every value that r reads is made before it, and is stored or of the same group, read in its own row. */
static void check_reads(const fused *x, ir_ref reader, ir_ref r, bool row) {
    ir_dim rows = x->f.groups[x->f.group_of[reader]].rows;
    const ir_node *n = ir_node_at(x->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref s = n->in[i];
        bool keeps = row && pass_keeps_row(x->g, r, i, rows);
        if (pass_is_transparent(ir_node_at(x->g, s))) {
            check_reads(x, reader, s, keeps);
            continue;
        }
        uint32_t from = x->f.group_of[s], to = x->f.group_of[reader];
        assert_true(from <= to);
        if (from < to) {
            assert_true(x->f.stored[s]);
            continue;
        }
        assert_true(keeps || x->f.groups[to].kind == PASS_MATMUL);
        if (x->f.groups[to].kind == PASS_LOOP)
            assert_true(place_in_group(x, s) < place_in_group(x, reader));
    }
}

static void check_matmul(const fused *x, const pass_group *gr) {
    uint32_t members = 0;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        const pass_segment *s = &gr->segs[i];
        if (s->dead) continue;
        assert_true(s->n_mats >= 1 && s->n_mats <= PASS_MAX_MATS);
        members += s->n_mats + s->n_nodes;
        for (uint32_t k = 0; k < s->n_mats; k++) {
            pass_weights w;
            assert_int_equal(ir_node_at(x->g, s->mats[k])->op, IR_matmul);
            if (gr->n_nodes > 1 && (gr->n_segs > 1 || s->n_mats > 1))
                assert_true(pass_product_weights(x->g, s->mats[k], &w));
            assert_int_equal(ir_node_at(x->g, s->mats[k])->in[0], gr->lhs);
        }
        for (uint32_t k = 1; k < s->n_nodes; k++) assert_true(s->nodes[k - 1] < s->nodes[k]);
    }
    assert_int_equal(members, gr->n_nodes);
}

static bool cuts(const ir_graph *g, ir_ref r, ir_dim rows) {
    pass_rows of = pass_rows_of(g, r);
    for (uint32_t i = 0; i < of.n; i++)
        if (of.at[i] == rows) return true;
    return false;
}

static void check_groups(const fused *x) {
    const pass_fusion *f = &x->f;
    uint32_t members = 0, fusible = 0;
    for (ir_ref r = 0; r < ir_graph_count(x->g); r++) {
        bool none = pass_is_transparent(ir_node_at(x->g, r));
        assert_int_equal(none, f->group_of[r] == UINT32_MAX);
        fusible += !none;
        if (none) continue;
        (void)place_in_group(x, r);
        check_reads(x, r, r, true);
    }
    for (uint32_t i = 0; i < f->n_groups; i++) {
        const pass_group *gr = &f->groups[i];
        members += gr->n_nodes;
        assert_true(gr->n_nodes > 0 && gr->n_nodes <= PASS_MAX_FUSION);
        for (uint32_t k = 0; gr->kind == PASS_LOOP && k < gr->n_nodes; k++)
            assert_true(cuts(x->g, gr->nodes[k], gr->rows));
        if (gr->kind == PASS_MATMUL) check_matmul(x, gr);
        if (gr->kind == PASS_EXTERN) assert_int_equal(gr->n_nodes, 1);
    }
    assert_int_equal(members, fusible);
    for (uint32_t i = 0; i < f->n_refusals; i++) {
        assert_true(f->refusals[i].group < f->n_groups);
        assert_true(f->refusals[i].reason && f->refusals[i].reason[0]);
    }
    for (uint32_t i = 0; i < ir_output_count(x->g); i++) {
        ir_ref o = ir_output_at(x->g, i);
        if (!pass_is_transparent(ir_node_at(x->g, o))) assert_true(f->stored[o]);
    }
}

static fused fuse(const ir_graph *g, const pass_options *opt) {
    rp_error err = {0};
    fused x = {.g = g};
    CHECK_OK(pass_fuse(g, opt, &x.f, &err), &err);
    return x;
}

static bool is_refused(const fused *x, ir_ref r, uint32_t group) {
    for (uint32_t i = 0; i < x->f.n_refusals; i++)
        if (x->f.refusals[i].node == r && x->f.refusals[i].group == group) return true;
    return false;
}

/* Of pairs of groups that read value s, those without a reason: none of either, and no count of what is too far back. */
static uint32_t untold_pairs(const fused *x, ir_ref s, const char *what) {
    uint32_t untold = 0;
    for (ir_ref r = 0; r < ir_graph_count(x->g); r++) {
        const ir_node *n = ir_node_at(x->g, r);
        uint32_t others = 0, told = 0;
        if (pass_is_transparent(n) || n->in[0] != s) continue;
        bool seen[512] = {false};
        for (ir_ref q = 0; q < r; q++) {
            uint32_t gi = x->f.group_of[q];
            if (gi == UINT32_MAX || seen[gi] || ir_node_at(x->g, q)->in[0] != s) continue;
            seen[gi] = true;
            others += gi != x->f.group_of[r];
            told += is_refused(x, r, gi);
        }
        for (uint32_t i = 0; i < x->f.n_far; i++)
            if (x->f.far[i].node == r && x->f.far[i].value == s) told += x->f.far[i].n_groups;
        if (told != others) print_message("%s: %u of %u told of node %u\n", what, told, others, r);
        untold += told != others;
    }
    return untold;
}

/* Of more groups than a value remembers, the loops that have room are remembered, and the rest counted. */
static void what_is_too_far_back_is_counted(void **state) {
    enum { PRODUCTS = 40 };
    rp_error err = {0};
    ir_graph *g = NULL;
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "graph @far(%x: f32[64,64]");
    for (uint32_t i = 0; i < PRODUCTS; i++) base_buf_printf(&b, ", %%w%u: f32[64,8]", i);
    base_buf_puts(&b, ") {\n  %a = exp %x\n  %s = sum %a {axis=1}\n");
    for (uint32_t i = 0; i < PRODUCTS; i++)
        base_buf_printf(&b, "  %%c%u = matmul %%x, %%w%u\n", i, i);
    base_buf_puts(&b, "  %b = tanh %x\n  %t = sum %b {axis=1}\n  ret %s, %t");
    for (uint32_t i = 0; i < PRODUCTS; i++) base_buf_printf(&b, ", %%c%u", i);
    base_buf_puts(&b, "\n}\n");
    CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
    fused x = fuse(g, NULL);
    check_groups(&x);
    assert_int_equal(x.f.n_groups, PRODUCTS + 1);
    assert_int_equal(x.f.groups[0].n_nodes, 4);
    assert_true(x.f.n_far > 0);
    assert_int_equal(untold_pairs(&x, ir_leaf_at(g, IR_LEAF_INPUT, 0), "products"), 0);
    pass_fusion_done(&x.f);
    ir_graph_free(g);
    base_buf_done(&b);
}

/* Reads of values of other groups. */
static uint32_t check_reasons(const fused *x, ir_ref reader, ir_ref r) {
    const ir_node *n = ir_node_at(x->g, r);
    uint32_t reads = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref s = n->in[i];
        uint32_t from = x->f.group_of[s], to = x->f.group_of[reader];
        if (pass_is_transparent(ir_node_at(x->g, s))) {
            reads += check_reasons(x, reader, s);
        } else if (from != to) {
            assert_true(is_refused(x, reader, from));
            reads++;
        }
    }
    return reads;
}

static void pairs_that_share_data_have_a_reason(void **state) {
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    uint32_t pairs = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL, *h = NULL;
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        CHECK_OK(pass_run_all(g, NULL, &h, &err), &err);
        fused x = fuse(h, NULL);
        for (ir_ref r = 0; r < ir_graph_count(h); r++)
            if (x.f.group_of[r] != UINT32_MAX) pairs += check_reasons(&x, r, r);
        pass_fusion_done(&x.f);
        ir_graph_free(h);
        ir_graph_free(g);
    }
    print_message("%u reads between groups\n", pairs);
    assert_true(pairs > 100);
}

static void random_graphs_fuse_legally(void **state) {
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    uint32_t nodes = 0, groups = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL, *h = NULL;
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        CHECK_OK(pass_run_all(g, NULL, &h, &err), &err);
        fused x = fuse(h, NULL);
        check_groups(&x);
        groups += x.f.n_groups;
        for (ir_ref r = 0; r < ir_graph_count(h); r++) nodes += x.f.group_of[r] != UINT32_MAX;
        pass_fusion_done(&x.f);
        ir_graph_free(h);
        ir_graph_free(g);
    }
    print_message("%u nodes in %u groups\n", nodes, groups);
    assert_true(groups * 3 < nodes);
}

static void check_text(const char *text) {
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    fused x = fuse(g, NULL);
    check_groups(&x);
    pass_fusion_done(&x.f);
    ir_graph_free(g);
}

/* As many rows on both sides, and yet others: a softmax and its transpose, a product and its own. */
static void readers_of_other_rows_stay_apart(void **state) {
    static const char *const last[] = {"add %4, %5", "add %5, %4", "fma %5, %4, %4",
                                       "fma %4, %5, %4", "fma %4, %4, %5"};
    (void)state;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            "graph @softmax(%%x: f32[8,8]) -> f32[8,8] {\n"
            "  %%0 = amax %%x {axis=1, keep=true}\n  %%1 = sub %%x, %%0\n  %%2 = exp %%1\n"
            "  %%3 = sum %%2 {axis=1, keep=true}\n  %%4 = div %%2, %%3\n"
            "  %%5 = permute %%4 {axes=[1,0]}\n  %%6 = %s\n  ret %%6\n}\n",
            last[i]);
        check_text(text);
    }
    check_text("graph @product(%x: f32[32,32]) -> f32[32,32] {\n"
               "  %w = param @w : f32[32,32]\n"
               "  %0 = matmul %x, %w {trans_b=true}\n  %1 = neg %0\n"
               "  %2 = permute %1 {axes=[1,0]}\n  %3 = add %2, %0\n  ret %3\n}\n");
}

typedef void (*link_fn)(base_buf *b, uint32_t i);

static void link_exp(base_buf *b, uint32_t i) {
    base_buf_printf(b, "  %%a%u = %s %%a%u\n", i + 1, i % 2 ? "exp" : "neg", i);
}

/* A kernel each. */
static void link_permute(base_buf *b, uint32_t i) {
    base_buf_printf(b, "  %%p%u = permute %%a%u {axes=[1,0]}\n  %%a%u = add %%p%u, %%x\n", i, i,
                    i + 1, i);
}

/* Every value is also read far behind. */
static void link_far(base_buf *b, uint32_t i) {
    base_buf_printf(b, "  %%p%u = permute %%a%u {axes=[1,0]}\n  %%b%u = exp %%p%u\n", i, i, i, i);
    base_buf_printf(b, "  %%a%u = add %%b%u, %%b%u\n", i + 1, i, i / 2);
}

static void link_product(base_buf *b, uint32_t i) {
    base_buf_printf(b, "  %%m%u = matmul %%x, %%a%u {trans_b=true}\n  %%a%u = add %%m%u, %%x\n", i,
                    i, i + 1, i);
}

/* All read %x, and none may join another. */
static void link_reader(base_buf *b, uint32_t i) {
    base_buf_printf(b, "  %%m%u = matmul %%x, %%a%u\n  %%a%u = matmul %%x, %%m%u {trans_b=true}\n",
                    i, i, i + 1, i);
}

/* Of fusing the graph that b, which it frees, is the text of. */
static uint64_t steps_of(base_buf *b) {
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(base_buf_status(b, &err), &err);
    CHECK_OK(ir_parse(b->data, b->len, &g, &err), &err);
    fused x = fuse(g, NULL);
    check_groups(&x);
    uint64_t steps = x.f.steps;
    pass_fusion_done(&x.f);
    ir_graph_free(g);
    base_buf_done(b);
    return steps;
}

static uint64_t steps_of_chain(link_fn link, uint32_t n) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "graph @chain(%x: f32[8,8]) -> f32[8,8] {\n  %a0 = neg %x\n");
    for (uint32_t i = 0; i < n; i++) link(&b, i);
    base_buf_printf(&b, "  ret %%a%u\n}\n", n);
    return steps_of(&b);
}

/* Counted, not timed: eight times the graph is eight times the work. */
static void work_grows_with_the_graph(void **state) {
    static const struct {
        const char *name;
        link_fn link;
    } chains[] = {{"elementwise", link_exp},
                  {"permute and add", link_permute},
                  {"read far behind", link_far},
                  {"products", link_product},
                  {"products of one value", link_reader}};
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        uint64_t few = steps_of_chain(chains[i].link, 1000),
                 many = steps_of_chain(chains[i].link, 8000);
        print_message("%s: %llu and %llu steps\n", chains[i].name, (unsigned long long)few,
                      (unsigned long long)many);
        assert_true(many <= few * 10);
    }
}

static uint64_t steps_of_concat(uint32_t n) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "graph @wide(%%x: f32[%u,8]) -> f32[%u,8] {\n", n, n);
    for (uint32_t i = 0; i < n; i++)
        base_buf_printf(&b,
                        "  %%s%u = slice %%x {axis=0, start=%u, stop=%u}\n  %%e%u = exp %%s%u\n", i,
                        i, i + 1, i, i);
    base_buf_puts(&b, "  %y = concat ");
    for (uint32_t i = 0; i < n; i++) base_buf_printf(&b, "%s%%e%u", i ? ", " : "", i);
    base_buf_puts(&b, " {axis=0}\n  ret %y\n}\n");
    return steps_of(&b);
}

/* What reads many values is looked at for each group that made some, not for each value. */
static void work_grows_with_the_operands(void **state) {
    enum { OPERANDS = 400 };
    uint64_t steps = steps_of_concat(OPERANDS);
    (void)state;
    print_message("concat: %llu steps\n", (unsigned long long)steps);
    assert_true(steps <= 50 * OPERANDS);
}

/* 300 kernels hang on the first; whether the last does, too, is not searched for. */
static void far_groups_stay_apart(void **state) {
    rp_error err = {0};
    ir_graph *g = NULL;
    base_buf b;
    bool far = false;
    (void)state;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "graph @far(%x: f32[8,8], %y: f32[8,8]) -> (f32[8,8], f32[8,8]) {\n"
                      "  %a0 = exp %x\n");
    for (uint32_t i = 0; i < 300; i++) link_permute(&b, i);
    base_buf_puts(&b,
                  "  %q = permute %y {axes=[1,0]}\n  %r = exp %q\n  %s = permute %r {axes=[1,0]}\n"
                  "  %t = add %a0, %s\n  ret %t, %a300\n}\n");
    CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
    fused x = fuse(g, NULL);
    check_groups(&x);
    for (uint32_t i = 0; i < x.f.n_refusals; i++)
        far = far || strcmp(x.f.refusals[i].reason, "nodes are too far away") == 0;
    assert_true(far);
    pass_fusion_done(&x.f);
    ir_graph_free(g);
    base_buf_done(&b);
}

/* %e makes the first group read from the third, so it and the second, which reads from it, move behind that; %f then may
 * not join the first. */
static void groups_that_moved_close_no_cycle(void **state) {
    (void)state;
    check_text("graph @moved(%x: f32[8,8], %y: f32[8,8]) -> (f32[8,8], f32[8,8]) {\n"
               "  %a = exp %x\n  %p = permute %a {axes=[1,0]}\n  %d = neg %p\n  %q = exp %y\n"
               "  %e = fma %a, %x, %q\n  %f = fma %d, %x, %e\n  ret %f, %e\n}\n");
}

static rp_graph *llama(uint32_t layers) {
    rp_error err = {0};
    rp_graph *g = NULL;
    small_llama_options opt = {.layers = layers, .weights = RP_DTYPE_Q4_1};
    CHECK_OK(small_llama_new(&opt, &g, &err), &err);
    return g;
}

static uint32_t count_kind(const fused *x, pass_group_kind kind) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->f.n_groups; i++) n += x->f.groups[i].kind == kind;
    return n;
}

/* One layer: norm, qkv, rope and stores, attention, rounding, o with residual, norm, gate and up with SwiGLU, down with
 * residual: 4 products and 4 loops. Outside: embedding with the angles, and the last norm. */
static void a_layer_is_nine_kernels(void **state) {
    uint32_t before = 0;
    (void)state;
    for (uint32_t layers = 1; layers <= 4; layers++) {
        rp_graph *g = llama(layers);
        fused x = fuse(trace_graph_ir(g), NULL);
        check_groups(&x);
        assert_int_equal(count_kind(&x, PASS_MATMUL), 4 * layers);
        assert_int_equal(count_kind(&x, PASS_EXTERN), layers);
        if (layers > 1) assert_int_equal(x.f.n_groups - before, 9);
        before = x.f.n_groups;
        pass_fusion_done(&x.f);
        rp_graph_free(g);
    }
}

static bool has_reason(const fused *x, const char *reason) {
    for (uint32_t i = 0; i < x->f.n_refusals; i++)
        if (strcmp(x->f.refusals[i].reason, reason) == 0) return true;
    return false;
}

static void switches_keep_their_fusion_apart(void **state) {
    static const char *const off[] = {"fuse_norm_quant", "fuse_act_quant", "fuse_rope_kvcache"};
    static const char *const reason[] = {"fuse_norm_quant is off", "fuse_act_quant is off",
                                         "fuse_rope_kvcache is off"};
    rp_graph *g = llama(2);
    fused all = fuse(trace_graph_ir(g), NULL);
    (void)state;
    for (int i = 0; i < 3; i++) {
        const pass_options opt = {.skip = &off[i], .n_skip = 1};
        fused x = fuse(trace_graph_ir(g), &opt);
        check_groups(&x);
        assert_true(x.f.n_groups > all.f.n_groups);
        for (int k = 0; k < 3; k++) assert_int_equal(has_reason(&x, reason[k]), k == i);
        pass_fusion_done(&x.f);
    }
    pass_fusion_done(&all.f);
    rp_graph_free(g);
}

/* --- the log -------------------------------------------------------------------- */

static char lines[512][200];
static int n_lines;

static void keep_line(void *user, rp_log_level level, const char *text) {
    (void)user, (void)level;
    if (n_lines < 512) (void)snprintf(lines[n_lines++], sizeof lines[0], "%s", text);
}

static uint32_t count_lines(const char *part) {
    uint32_t n = 0;
    for (int i = 0; i < n_lines; i++) n += strstr(lines[i], part) != NULL;
    return n;
}

static void the_log_counts_and_gives_reasons(void **state) {
    rp_graph *g = llama(1);
    (void)state;
    rp_log_set_callback(keep_line, NULL);
    assert_int_equal(rp_log_set_channels("+fusion", NULL), RP_OK);
    fused x = fuse(trace_graph_ir(g), NULL);
    rp_log_set_callback(NULL, NULL);
    assert_int_equal(rp_log_set_channels("", NULL), RP_OK);
    uint32_t nodes = 0;
    for (ir_ref r = 0; r < ir_graph_count(x.g); r++) nodes += x.f.group_of[r] != UINT32_MAX;
    char want[80];
    (void)snprintf(want, sizeof want, "Fusion Round 1: fused %u nodes into %u", nodes,
                   x.f.n_groups);
    assert_true(n_lines > 1);
    assert_non_null(strstr(lines[0], want));
    assert_int_equal(count_lines("cannot fuse "), x.f.n_refusals);
    /* Each node is a candidate once, and joins the first of its group; then nothing is left to join. */
    uint32_t moved = 0;
    for (uint32_t i = 0; i < x.f.n_refusals; i++) moved += x.f.refusals[i].moved;
    assert_non_null(strstr(lines[1], "=== Fusion Round 1 ==="));
    assert_int_equal(count_lines("- Fusing `op"), nodes - x.f.n_groups + moved);
    assert_int_equal(count_lines("Candidates for fusion:"), moved ? 3 : 2);
    (void)snprintf(want, sizeof want, "- Nodes remain unchanged (%u -> %u)", x.f.n_groups,
                   x.f.n_groups);
    assert_int_equal(count_lines(want), 1);
    pass_fusion_done(&x.f);
    rp_graph_free(g);
}

/* Nodes that move from the epilogue of a product to the loop that reads them are told with another node of that loop. */
static void nodes_that_move_are_told_with_whom(void **state) {
    static const char text[] =
        "graph @moves(%x: f32[T,64], %w: f32[64,96]) where T in [1,64] {\n"
        "  %y = matmul %x, %w\n  %e = exp %y\n  %s = sum %e {axis=1, keep=true}\n"
        "  %d = div %e, %s\n  ret %y, %d\n}\n";
    ir_graph *g = NULL;
    rp_error err = {0};
    uint32_t moved = 0, told = 0;
    (void)state;
    n_lines = 0;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    rp_log_set_callback(keep_line, NULL);
    assert_int_equal(rp_log_set_channels("+fusion", NULL), RP_OK);
    fused x = fuse(g, NULL);
    rp_log_set_callback(NULL, NULL);
    assert_int_equal(rp_log_set_channels("", NULL), RP_OK);
    for (uint32_t i = 0; i < x.f.n_refusals; i++) moved += x.f.refusals[i].moved;
    for (int i = 0; i < n_lines; i++) {
        unsigned a, b;
        const char *at = strstr(lines[i], "- Fusing `op");
        if (!at || sscanf(at, "- Fusing `op%u` with `op%u`", &a, &b) != 2) continue;
        if (a == b) fail_msg("%s", lines[i]);
        told += strstr(at, ", instead of what it was fused with") != NULL;
    }
    assert_true(moved > 0);
    assert_int_equal(told, moved);
    pass_fusion_done(&x.f);
    ir_graph_free(g);
}

static void failed_allocations_leave_nothing(void **state) {
    rp_graph *g = llama(1);
    size_t live = base_live();
    (void)state;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        pass_fusion f = {0};
        rp_status st = pass_fuse(trace_graph_ir(g), NULL, &f, &err);
        pass_fusion_done(&f);
        assert_true(st == RP_OK || st == RP_NOMEM);
        assert_int_equal(base_live(), live);
    }
    rp_graph_free(g);
}

static uint32_t count_of(const char *text, const char *what) {
    uint32_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

/* Of rows: one kernel, with one sum for the mean of both and one for the squares, whether the axis is kept or not, and asked for in
 * whichever order. */
static void a_variance_and_its_mean_are_two_sums(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_BF16};
    (void)state;
    for (int i = 0; i < 8; i++) {
        rp_error err = {0};
        char *text = NULL;
        rp_graph *g = rp_graph_new("both");
        rp_tensor x = rp_input(g, "x", types[i & 1], RP_SHAPE(64, 512)), out[2];
        if (i & 4) out[1] = rp_mean(x, 1, i & 2);
        if (i & 4)
            out[0] = rp_var(x, 1, i & 2, 1);
        else
            rp_var_mean(x, 1, i & 2, 1, &out[0], &out[1]);
        CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
        CHECK_OK(rp_graph_lower_text(g, "kir", NULL, &text, &err), &err);
        if (count_of(text, "kernel @") != 1 || count_of(text, "= reduce sum") != 2)
            fail_msg("case %d: %s", i, text);
        rp_free(text);
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_fuse_legally),
        cmocka_unit_test(pairs_that_share_data_have_a_reason),
        cmocka_unit_test(what_is_too_far_back_is_counted),
        cmocka_unit_test(readers_of_other_rows_stay_apart),
        cmocka_unit_test(work_grows_with_the_graph),
        cmocka_unit_test(work_grows_with_the_operands),
        cmocka_unit_test(far_groups_stay_apart),
        cmocka_unit_test(groups_that_moved_close_no_cycle),
        cmocka_unit_test(a_layer_is_nine_kernels),
        cmocka_unit_test(switches_keep_their_fusion_apart),
        cmocka_unit_test(the_log_counts_and_gives_reasons),
        cmocka_unit_test(nodes_that_move_are_told_with_whom),
        cmocka_unit_test(a_variance_and_its_mean_are_two_sums),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
