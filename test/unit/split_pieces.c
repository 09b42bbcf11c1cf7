/* Splitting: vLLM's counts, and pieces that together compute what the whole graph computes. */
#include "support/check.h"

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/eval.h"
#include "split/split.h"
#include "support/random_graph.h"
#include "support/run_pieces.h"
#include "support/small_llama.h"

static const char *const attention_op[] = {"reprise::attention"};

static ir_graph *parse(const char *text) {
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(ir_verify(g, &err), &err);
    return g;
}

/* States and inputs are in their place: no piece gives on what it wrote there. */
static void check_outputs(const ir_graph *g, const split_piece *p) {
    for (uint32_t k = 0; k < ir_output_count(p->graph); k++) {
        const ir_node *n = ir_node_at(g, p->outputs[k]);
        if (ir_node_is_effect(n) && n->memory != IR_NONE)
            assert_int_equal(ir_node_at(g, n->memory)->op, IR_empty);
    }
}

static split_result split_by(const ir_graph *g, const char *const *ops, uint32_t n) {
    rp_error err = {0};
    split_result r = {0};
    CHECK_OK(split_graph(g, ops, n, &r, &err), &err);
    for (uint32_t i = 0; i < r.n_pieces; i++) {
        CHECK_OK(ir_verify(r.pieces[i].graph, &err), &err);
        check_outputs(g, &r.pieces[i]);
    }
    return r;
}

static void check_counts(const ir_graph *g, const char *const *ops, uint32_t n, uint32_t pieces,
                         uint32_t compiled, uint32_t distinct) {
    split_result r = split_by(g, ops, n);
    assert_int_equal(r.n_pieces, pieces);
    assert_int_equal(r.n_compiled, compiled);
    assert_int_equal(r.n_distinct, distinct);
    split_done(&r);
}

static void layers_give_twice_and_one(void **state) {
    (void)state;
    for (uint32_t layers = 1; layers <= 5; layers++) {
        rp_error err = {0};
        rp_graph *g = NULL;
        small_llama_options opt = {.layers = layers, .weights = RP_DTYPE_Q4_1};
        CHECK_OK(small_llama_new(&opt, &g, &err), &err);
        const ir_graph *ir = trace_graph_ir(g);
        check_counts(ir, attention_op, 1, 2 * layers + 1, layers + 1, layers > 1 ? 3 : 2);
        const char *alias[] = {"vllm::unified_attention_with_output"};
        check_counts(ir, alias, 1, 2 * layers + 1, layers + 1, layers > 1 ? 3 : 2);
        check_counts(ir, NULL, 0, 1, 1, 1);
        rp_graph_free(g);
    }
}

static void piece_numbers_follow_order(void **state) {
    rp_error err = {0};
    rp_graph *g = NULL;
    small_llama_options opt = {.layers = 3, .weights = RP_DTYPE_F32};
    (void)state;
    CHECK_OK(small_llama_new(&opt, &g, &err), &err);
    split_result r = split_by(trace_graph_ir(g), attention_op, 1);
    for (uint32_t i = 0; i < r.n_pieces; i++) {
        assert_int_equal(r.pieces[i].submod, i);
        assert_int_equal(r.pieces[i].splitting, i % 2);
        assert_int_equal(r.pieces[i].graph_index, i % 2 ? UINT32_MAX : i / 2);
    }
    assert_int_equal(r.pieces[4].distinct, 2); /* middle layers are one text */
    assert_int_equal(r.pieces[3].distinct, 1); /* so are the attentions */
    split_done(&r);
    rp_graph_free(g);
}

/* Equal text although leaves have other names: the canonical form. */
static void names_do_not_tell_pieces_apart(void **state) {
    ir_graph *g = parse("graph @g(%x: f32[4,8]) -> f32[4,8] {\n"
                        "  %0 = param @a : f32[8]\n"
                        "  %1 = param @b : f32[8]\n"
                        "  %2 = mul %x, %0 : f32[4,8]\n"
                        "  %3 = exp %2 : f32[4,8]\n"
                        "  %4 = mul %3, %1 : f32[4,8]\n"
                        "  ret %4\n}\n");
    const char *ops[] = {"reprise::exp"};
    (void)state;
    check_counts(g, ops, 1, 3, 2, 1);
    ir_graph_free(g);
}

static void splitting_ops_in_a_row_share_a_piece(void **state) {
    ir_graph *g = parse("graph @g(%x: f32[4,8]) -> f32[4,8] {\n"
                        "  %0 = neg %x : f32[4,8]\n"
                        "  %1 = exp %0 : f32[4,8]\n"
                        "  %2 = log %1 : f32[4,8]\n"
                        "  %3 = neg %2 : f32[4,8]\n"
                        "  ret %3\n}\n");
    const char *both[] = {"reprise::exp", "reprise::log"}, *one[] = {"reprise::exp"},
               *none[] = {"other::exp"};
    (void)state;
    check_counts(g, both, 2, 3, 2, 1);
    check_counts(g, one, 1, 3, 2, 2);
    check_counts(g, none, 1, 1, 1, 1);
    ir_graph_free(g);
}

static void first_and_last_may_split(void **state) {
    ir_graph *g = parse("graph @g(%x: f32[4,8]) -> f32[4,8] {\n"
                        "  %0 = exp %x : f32[4,8]\n"
                        "  %1 = neg %0 : f32[4,8]\n"
                        "  %2 = exp %1 : f32[4,8]\n"
                        "  ret %2\n}\n");
    const char *ops[] = {"reprise::exp"};
    (void)state;
    check_counts(g, ops, 1, 3, 1, 1);
    ir_graph_free(g);
}

#define ATTN "{head_dim=32, heads=1, kv_heads=1}"

/* Two attentions between which nothing happens but the allocation of the second one's output. */
static const char only_empty[] =
    "graph @g(%q: f32[4,32], %i: i32[4], %b: i32[1,1]) -> f32[4,32] {\n"
    "  %0 = state @k : f16[1,1,16,32]\n"
    "  %1 = neg %q : f32[4,32]\n"
    "  %2 = empty {dtype=f32, shape=[4,32]} : f32[4,32]\n"
    "  %3 = attention %1, %0, %0, %i, %i, %b, %2 {head_dim=32, heads=1, kv_heads=1} : f32[4,32]\n"
    "  %4 = empty {dtype=f32, shape=[4,32]} : f32[4,32]\n"
    "  %5 = attention %3, %0, %0, %i, %i, %b, %4 {head_dim=32, heads=1, kv_heads=1} : f32[4,32]\n"
    "  %6 = neg %5 : f32[4,32]\n"
    "  ret %6\n}\n";

static void a_piece_of_one_empty_joins_the_one_before(void **state) {
    ir_graph *g = parse(only_empty);
    (void)state;
    split_result r = split_by(g, attention_op, 1);
    /* vLLM keeps the two ids: the second attention does not join the first */
    assert_int_equal(r.n_pieces, 4);
    assert_int_equal(r.n_compiled, 2);
    assert_true(r.pieces[1].splitting && r.pieces[2].splitting);
    split_done(&r);
    ir_graph_free(g);
}

/* An allocation that is to split does, alone as it is. */
static void an_empty_that_splits_stays(void **state) {
    static const char *const ops[] = {"reprise::attention", "reprise::empty"};
    ir_graph *g = parse(only_empty);
    (void)state;
    split_result r = split_by(g, ops, 2);
    assert_int_equal(r.n_pieces, 3); /* what is in front, all four, what is behind */
    assert_int_equal(r.n_compiled, 2);
    split_done(&r);
    split_result alone = split_by(g, ops + 1, 1);
    assert_int_equal(alone.n_pieces, 5);
    assert_int_equal(alone.n_compiled, 3);
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(alone.pieces[i].splitting, i % 2);
    split_done(&alone);
    ir_graph_free(g);
}

/* A piece of any number of them, but of one that has a piece before it, stays. */
static void pieces_of_empties(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_puts(&b, "graph @g(%q: f32[4,32], %i: i32[4], %b: i32[1,1]) {\n"
                          "  %k = state @k : f16[1,1,16,32]\n  %x = neg %q\n"
                          "  %o = empty {dtype=f32, shape=[4,32]}\n"
                          "  %a0 = attention %x, %k, %k, %i, %i, %b, %o " ATTN "\n");
        for (uint32_t i = 0; i < n; i++)
            base_buf_printf(&b, "  %%o%u = empty {dtype=f32, shape=[4,32]}\n", i);
        for (uint32_t i = 0; i < n; i++)
            base_buf_printf(&b,
                            "  %%a%u = attention %%a%u, %%k, %%k, %%i, %%i, %%b, %%o%u " ATTN "\n",
                            i + 1, i, i);
        base_buf_printf(&b, "  %%y = neg %%a%u\n  ret %%y\n}\n", n);
        assert_false(b.failed);
        ir_graph *g = parse(b.data);
        split_result r = split_by(g, attention_op, 1);
        assert_int_equal(r.n_pieces, n == 1 ? 4 : 5);
        assert_int_equal(r.n_compiled, n == 1 ? 2 : 3);
        split_done(&r);
        ir_graph_free(g);
        base_buf_done(&b);
    }
}

/* --- pieces one after the other equal the whole --------------------------------------------- */

static void check_equal(const ir_graph *g, const char *const *ops, uint32_t n_ops, uint64_t seed) {
    rp_error err = {0};
    random_leaves a, b;
    uint32_t n_out = ir_output_count(g);
    ir_value *want = base_alloc_array(n_out, sizeof *want);
    ir_value *values = base_alloc_array(ir_graph_count(g) + 1u, sizeof *values);
    CHECK_OK(random_leaves_new(g, seed, &a, &err), &err);
    CHECK_OK(random_leaves_new(g, seed, &b, &err), &err);
    small_llama_tame(g, &a);
    small_llama_tame(g, &b);
    CHECK_OK(ir_eval(g, a.leaf[0], a.leaf[1], a.leaf[2], a.symbols, want, &err), &err);
    split_result r = split_by(g, ops, n_ops);
    for (uint32_t i = 0; i < r.n_pieces; i++) pieces_run(g, &r.pieces[i], &b, values);
    for (uint32_t i = 0; i < n_out; i++) {
        pieces_same(&want[i], &values[ir_output_at(g, i)], "output");
        ir_value_done(&want[i]);
    }
    for (uint32_t i = 0; i < a.n[2]; i++) pieces_same(&a.leaf[2][i], &b.leaf[2][i], "state");
    for (uint32_t i = 0; i < ir_graph_count(g); i++) ir_value_done(&values[i]);
    split_done(&r);
    random_leaves_done(&a);
    random_leaves_done(&b);
    base_free(want);
    base_free(values);
}

static void pieces_compute_the_whole(void **state) {
    static const char *const lists[][2] = {{"reprise::matmul", "reprise::exp"},
                                           {"reprise::mul", "reprise::sum"},
                                           {"reprise::add", "reprise::gather"}};
    const random_graph_options opt = RANDOM_GRAPH_ALL;
    uint32_t pieces = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL;
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        split_result r = split_by(g, lists[seed % 3], 2);
        pieces += r.n_pieces;
        split_done(&r);
        check_equal(g, lists[seed % 3], 2, seed);
        ir_graph_free(g);
    }
    assert_true(pieces > 180); /* the lists do split */
}

static void pieces_compute_the_model(void **state) {
    rp_error err = {0};
    rp_graph *g = NULL;
    small_llama_options opt = {.layers = 2, .weights = RP_DTYPE_Q4_1};
    (void)state;
    CHECK_OK(small_llama_new(&opt, &g, &err), &err);
    check_equal(trace_graph_ir(g), attention_op, 1, 7);
    rp_graph_free(g);
}

/* By both of two ops, by each of them. */
static void check_splits(const ir_graph *g, const char *const ops[2], uint64_t seed) {
    check_equal(g, ops, 2, seed);
    check_equal(g, ops, 1, seed + 1);
    check_equal(g, ops + 1, 1, seed + 2);
}

/* A graph may return what it wrote to a state or an input, in a piece in front of the last one, within it, or as a view: it is read where it lies. */
static void returned_versions_stay_where_they_are(void **state) {
    static const char *const texts[] = {
        "graph @f(%x: f32[4]) {\n  %s = state @s : f32[4]\n  %m = mul %s, %x\n"
        "  %u = update %s, %m\n  %q = neg %m\n  ret %u, %q }",
        "graph @f(%x: f32[4]) {\n  %s = state @s : f32[4]\n  %m = mul %s, %x\n"
        "  %u = update %s, %m\n  %q = cumsum %m {axis=0}\n  %n = neg %q\n  ret %n, %u }",
        "graph @f(%x: f32[4]) {\n  %s = state @s : f32[2,2]\n  %v = reshape %x {shape=[2,2]}\n"
        "  %u = update %s, %v\n  %r = reshape %u {shape=[4]}\n  %q = cumsum %r {axis=0}\n"
        "  ret %r, %q, %u }"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ir_graph *g = parse(texts[i]);
        split_result r = split_by(g, (const char *[]){"cumsum"}, 1);
        uint32_t effects = 0;
        for (uint32_t k = 0; k < r.n_pieces; k++)
            for (ir_ref n = 0; n < ir_graph_count(r.pieces[k].graph); n++)
                effects += ir_node_is_effect(ir_node_at(r.pieces[k].graph, n));
        assert_int_equal(effects, 1);
        split_done(&r);
        ir_graph_free(g);
    }
}

/* Views of what the last, splitting piece makes are returned by that; memory is a leaf of every piece that uses it. */
static void versions_cross_borders(void **state) {
    static const char *const ops[] = {"reprise::exp", "reprise::update"};
    ir_graph *g =
        parse("graph @g(%x: f32[4], %m: f32[4] mutates) {\n"
              "  %s = state @s : f32[4]\n  %o = empty {dtype=f32, shape=[4]}\n"
              "  %a = neg %x\n  %n = add %a, %s\n  %u = update %s, %n\n  %b = mul %u, %m\n"
              "  %w = update %o, %b\n  %c = sub %w, %u\n  %i = update %m, %c\n"
              "  %z = slice %w {axis=0, stop=1}\n  %y = update %i, %z {offsets=[2]}\n"
              "  %e = exp %c\n  %q = add %y, %e\n  %l = update %u, %q\n  %p = exp %q\n"
              "  %r = reshape %p {shape=[2,2]}\n  %t = reshape %l {shape=[2,2]}\n"
              "  ret %r, %t, %c\n}\n");
    (void)state;
    check_splits(g, ops, 3);
    split_result r = split_by(g, ops, 2);
    for (uint32_t i = 0; i < r.n_pieces; i++)
        for (uint32_t k = 0; k < ir_leaf_count(r.pieces[i].graph, IR_LEAF_INPUT); k++) {
            ir_ref leaf = ir_leaf_at(r.pieces[i].graph, IR_LEAF_INPUT, k);
            bool written = ir_writer_of(r.pieces[i].graph, leaf) != IR_NONE;
            assert_int_equal(ir_node_at(r.pieces[i].graph, leaf)->mutates, written);
        }
    split_done(&r);
    ir_graph_free(g);
}

/* The first result of a top-k is used behind the second piece, the other in all of them. */
static void results_cross_borders(void **state) {
    static const char *const ops[] = {"reprise::topk", "reprise::exp"};
    ir_graph *g = parse("graph @g(%x: f32[4,9]) {\n"
                        "  %a = neg %x\n  %t = topk %a {k=3}\n  %b = neg %t\n  %c = exp %b\n"
                        "  %i = result %t {index=1}\n  %j = cast %i {dtype=f32}\n"
                        "  %d = mul %j, %c\n  %u = topk %d {k=2}\n  %k = result %u {index=1}\n"
                        "  ret %k, %t, %d, %i\n}\n");
    (void)state;
    check_splits(g, ops, 3);
    check_counts(g, ops, 1, 4, 2, 2);
    ir_graph_free(g);
}

static rp_status nothing(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)args, (void)n, (void)err;
    return RP_OK;
}

/* Views of what a piece makes need none of their own; behind a splitting op there must be one. */
static void views_ask_for_no_piece(void **state) {
    static const char *const ops[] = {"reprise::exp"};
    static const struct {
        const char *body;
        uint32_t pieces, compiled;
    } cases[] = {
        {"%a = neg %x\n  %v = reshape %a {shape=[2,2]}\n  ret %v", 1, 1},
        {"%a = neg %x\n  %v = reshape %a {shape=[2,2]}\n  ret %v, %a", 1, 1},
        {"%e = exp %x\n  %a = neg %e\n  %v = reshape %a {shape=[2,2]}\n  ret %v", 2, 1},
        {"%e = exp %x\n  %a = neg %e\n  %v = reshape %e {shape=[2,2]}\n  ret %v, %a", 2, 1},
        {"%a = neg %x\n  %e = exp %a\n  %v = reshape %a {shape=[2,2]}\n  ret %v, %e", 2, 1},
        {"%a = neg %x\n  %e = exp %a\n  %v = reshape %e {shape=[2,2]}\n  ret %v", 3, 2},
        {"%e = exp %x\n  %v = reshape %e {shape=[2,2]}\n  ret %v", 2, 1},
        {"%e = exp %x\n  %v = reshape %x {shape=[2,2]}\n  ret %v, %e", 2, 1},
        {"%e = exp %x\n  ret %e", 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "graph @g(%%x: f32[4]) {\n  %s\n}\n", cases[i].body);
        ir_graph *g = parse(text);
        split_result r = split_by(g, ops, 1);
        if (r.n_pieces != cases[i].pieces || r.n_compiled != cases[i].compiled)
            fail_msg("%s: %u pieces, %u compiled", cases[i].body, r.n_pieces, r.n_compiled);
        for (uint32_t k = 0; k < r.n_pieces; k++) /* nor does a view go to one that splits */
            if (r.pieces[k].splitting && ir_graph_count(r.pieces[k].graph) != 2)
                fail_msg("%s: piece %u has more than exp", cases[i].body, k);
        split_done(&r);
        check_equal(g, ops, 1, 11 + i);
        ir_graph_free(g);
    }
}

/* Whichever operands an op writes: the piece says so of each. */
static void any_operand_may_be_written(void **state) {
    static const char *const ops[] = {"reprise::exp"};
    static char names[8][24];
    (void)state;
    for (uint64_t mutates = 1; mutates < 8; mutates++) {
        rp_error err = {0};
        char text[600];
        (void)snprintf(names[mutates], sizeof names[mutates], "split::writes_%d", (int)mutates);
        rp_op_desc d = {.size = sizeof d,
                        .name = names[mutates],
                        .mutates = mutates,
                        .result_like = 0,
                        .cpu = nothing};
        CHECK_OK(rp_op_register(&d, &err), &err);
        base_buf b;
        base_buf_init(&b, sizeof text);
        base_buf_puts(&b, "graph @g(");
        for (int i = 0; i < 3; i++)
            base_buf_printf(&b, "%s%%m%d: f32[4]%s", i ? ", " : "", i,
                            mutates >> i & 1 ? " mutates" : "");
        base_buf_printf(&b,
                        ") {\n  %%e = exp %%m0\n  %%a = custom %%m0, %%m1, %%m2 {name=\"%s\"}\n",
                        names[mutates]);
        base_buf_puts(&b, "  %z = exp %a\n  %y = neg %z\n  ret %e, %y\n}\n");
        ir_graph *g = parse(b.data);
        split_result r = split_by(g, ops, 1);
        uint64_t seen = 0;
        for (uint32_t i = 0; i < r.n_pieces; i++)
            for (uint32_t k = 0; k < ir_leaf_count(r.pieces[i].graph, IR_LEAF_INPUT); k++)
                if (ir_node_at(r.pieces[i].graph, ir_leaf_at(r.pieces[i].graph, IR_LEAF_INPUT, k))
                        ->mutates)
                    seen |= UINT64_C(1) << r.pieces[i].inputs[k];
        assert_int_equal(seen, mutates); /* inputs are the first nodes */
        split_done(&r);
        ir_graph_free(g);
        base_buf_done(&b);
    }
}

/* What an op leaves in memory that an earlier piece made is of the op's piece. */
static void a_version_is_of_the_piece_that_wrote_it(void **state) {
    static const char *const ops[] = {"reprise::exp"};
    rp_op_desc d = {.size = sizeof d,
                    .name = "split::writes_made",
                    .mutates = 1,
                    .result_like = 0,
                    .cpu = nothing};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    ir_graph *g = parse("graph @g(%x: f32[4]) {\n"
                        "  %o = empty {dtype=f32, shape=[4]}\n  %m = update %o, %x\n"
                        "  %e = exp %m\n  %a = custom %m, %e {name=\"split::writes_made\"}\n"
                        "  %w = written %m, %a\n  %n = neg %w\n  %z = exp %n\n  %y = neg %z\n"
                        "  ret %y, %a\n}\n");
    split_result r = split_by(g, ops, 1);
    assert_int_equal(r.n_pieces, 5);
    assert_int_equal(ir_output_count(r.pieces[0].graph), 1); /* the memory, not its next version */
    for (uint32_t i = 0; i < r.n_pieces; i++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < ir_graph_count(r.pieces[i].graph); k++)
            n += ir_node_at(r.pieces[i].graph, k)->op == IR_written;
        assert_int_equal(n, i == 2);
    }
    split_done(&r);
    ir_graph_free(g);
}

static void failed_allocations_leave_nothing(void **state) {
    rp_error err = {0};
    rp_graph *g = NULL;
    small_llama_options opt = {.layers = 1, .weights = RP_DTYPE_F32};
    (void)state;
    CHECK_OK(small_llama_new(&opt, &g, &err), &err);
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        split_result r = {0};
        rp_error e = {0};
        rp_status st = split_graph(trace_graph_ir(g), attention_op, 1, &r, &e);
        split_done(&r);
        assert_int_equal(base_live(), live);
        assert_true(st == RP_OK || st == RP_NOMEM);
    }
    rp_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_give_twice_and_one),
        cmocka_unit_test(piece_numbers_follow_order),
        cmocka_unit_test(names_do_not_tell_pieces_apart),
        cmocka_unit_test(splitting_ops_in_a_row_share_a_piece),
        cmocka_unit_test(first_and_last_may_split),
        cmocka_unit_test(a_piece_of_one_empty_joins_the_one_before),
        cmocka_unit_test(an_empty_that_splits_stays),
        cmocka_unit_test(pieces_of_empties),
        cmocka_unit_test(pieces_compute_the_whole),
        cmocka_unit_test(pieces_compute_the_model),
        cmocka_unit_test(versions_cross_borders),
        cmocka_unit_test(returned_versions_stay_where_they_are),
        cmocka_unit_test(any_operand_may_be_written),
        cmocka_unit_test(results_cross_borders),
        cmocka_unit_test(a_version_is_of_the_piece_that_wrote_it),
        cmocka_unit_test(views_ask_for_no_piece),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
