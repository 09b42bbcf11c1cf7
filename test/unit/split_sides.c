/* A graph between two compilers: whose each piece is, that pieces depend on earlier ones alone, and that together they compute what the
 * whole graph computes. */
#include "support/check.h"

#include "ir/custom.h"
#include "pass/inplace.h"
#include "split/partition.h"
#include "split/sides.h"
#include "support/random_effects.h"
#include "support/run_pieces.h"
#include "support/thorough.h"

static ir_graph *parse(const char *text) {
    rp_error err = {0};
    ir_graph *g = NULL;
    if (ir_parse(text, strlen(text), &g, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    CHECK_OK(ir_verify(g, &err), &err);
    return g;
}

static bool is_argument(const ir_node *n) {
    return n->op == IR_input || n->op == IR_param || n->op == IR_state;
}

static ir_ref root_of(const ir_graph *g, ir_ref r) {
    while (split_repeats(ir_node_at(g, r)) && ir_node_at(g, r)->n_in) r = ir_node_at(g, r)->in[0];
    return r;
}

static bool in_memory(const ir_graph *g, ir_ref r) {
    ir_ref m = ir_node_at(g, root_of(g, r))->memory;
    return m != IR_NONE && (ir_node_at(g, m)->op != IR_input || ir_node_at(g, m)->mutates);
}

static bool touches_memory(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    bool touches = n->op == IR_empty || in_memory(g, r);
    for (uint32_t i = 0; i < n->n_in; i++) touches = touches || in_memory(g, n->in[i]);
    return touches;
}

/* --- laws ------------------------------------------------------------------------------------- */

/* Nothing depends on a later piece, nor is read after it is overwritten; who takes what it is asked for. */
static void check_pieces(const ir_graph *g, const bool *takes, const split_sides *s) {
    uint32_t n_taken = 0;
    for (uint32_t i = 0; i < s->n; i++) n_taken += s->taken[i];
    assert_int_equal(n_taken, s->n_taken);
    for (uint32_t i = 1; i < s->n; i++) assert_true(s->taken[i] != s->taken[i - 1]);
    for (ir_ref r = 0, last = IR_NONE; r < ir_graph_count(g); r++) { /* what is seen of effects */
        if (ir_op_table(ir_node_at(g, r)->op)->kind != IR_KIND_EFFECT) continue;
        if (last != IR_NONE) assert_true(s->piece[last] <= s->piece[r]);
        last = r;
    }
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        const uint32_t p = s->piece[r];
        if (p == SPLIT_NO_PIECE) {
            assert_true(is_argument(n) || split_repeats(n));
            continue;
        }
        assert_true(p < s->n);
        bool used = n->op != IR_empty;
        for (ir_ref x = r; x < ir_graph_count(g); x++)
            for (uint32_t i = 0; i < ir_node_at(g, x)->n_in; i++)
                used = used || (ir_node_at(g, x)->in[i] == r && s->piece[x] == p);
        assert_true(used); /* memory is there where it is used first */
        bool made = n->op == IR_result || n->op == IR_written;
        if (s->taken[p] && !made) assert_true(takes[r]);
        for (uint32_t i = 0; i < n->n_in; i++) {
            ir_ref x = n->in[i];
            while (s->piece[x] == SPLIT_NO_PIECE && ir_node_at(g, x)->n_in)
                x = ir_node_at(g, x)->in[0];
            if (s->piece[x] != SPLIT_NO_PIECE) assert_true(s->piece[x] <= p);
            ir_ref writer = ir_writer_of(g, root_of(g, x));
            if (writer != IR_NONE && writer != r) assert_true(p <= s->piece[writer]);
        }
    }
}

/* By the interpreter: outputs, states and inputs that are written. */
static void check_equal(const ir_graph *g, const split_sides *s, uint64_t seed) {
    rp_error err = {0};
    random_leaves a, b;
    split_result r = {0};
    const uint32_t n_out = ir_output_count(g);
    ir_value *want = base_alloc_array(n_out + 1u, sizeof *want);
    ir_value *values = base_alloc_array(ir_graph_count(g) + 1u, sizeof *values);
    CHECK_OK(random_leaves_new(g, seed, &a, &err), &err);
    CHECK_OK(random_leaves_new(g, seed, &b, &err), &err);
    CHECK_OK(ir_eval(g, a.leaf[0], a.leaf[1], a.leaf[2], a.symbols, want, &err), &err);
    CHECK_OK(split_by_sides(g, s, &r, &err), &err);
    for (uint32_t i = 0; i < r.n_pieces; i++) {
        CHECK_OK(ir_verify(r.pieces[i].graph, &err), &err);
        if (i < s->n) assert_int_equal(r.pieces[i].splitting, s->taken[i]);
        if (r.pieces[i].splitting) {
            assert_int_equal(ir_leaf_count(r.pieces[i].graph, IR_LEAF_PARAM), 0);
            assert_int_equal(ir_leaf_count(r.pieces[i].graph, IR_LEAF_STATE), 0);
        }
        pieces_run(g, &r.pieces[i], &b, values);
    }
    for (uint32_t i = 0; i < n_out; i++) {
        ir_ref o = ir_output_at(g, i), m = ir_node_at(g, o)->memory;
        bool leaf = m != IR_NONE && ir_node_at(g, m)->op != IR_empty && !values[o].data;
        ir_value is = pieces_value(g, leaf ? m : o, &b, values);
        pieces_same(&want[i], &is, "output");
        ir_value_done(&want[i]);
    }
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < a.n[k]; i++)
            pieces_same(&a.leaf[k][i], &b.leaf[k][i], k == 2 ? "state" : "input");
    for (uint32_t i = 0; i < ir_graph_count(g); i++) ir_value_done(&values[i]);
    split_done(&r);
    random_leaves_done(&a);
    random_leaves_done(&b);
    base_free(want);
    base_free(values);
}

/* --- texts -------------------------------------------------------------------------------------- */

static bool is_among(const char *op, const char *list) {
    char word[32];
    (void)snprintf(word, sizeof word, " %s ", op);
    return strstr(list, word) != NULL;
}

/* Of g without ops of the list. form: "to..": whose the pieces are, taken or of ours. */
static split_sides sides_of(const ir_graph *g, const char * not, uint32_t most, char form[200]) {
    rp_error err = {0};
    split_sides s = {0};
    bool takes[1000] = {0};
    assert_true(ir_graph_count(g) < 1000);
    for (ir_ref r = 0; r < ir_graph_count(g); r++)
        takes[r] = !is_argument(ir_node_at(g, r)) && !touches_memory(g, r) &&
                   !is_among(ir_op_table(ir_node_at(g, r)->op)->name, not );
    CHECK_OK(split_in_sides(g, takes, most, &s, &err), &err);
    check_pieces(g, takes, &s);
    assert_true(s.n < 200);
    for (uint32_t i = 0; i < s.n; i++) form[i] = s.taken[i] ? 't' : 'o';
    form[s.n] = 0;
    return s;
}

static void pieces_follow_the_changes_of_side(void **state) {
    static const struct {
        const char *body, *form;
    } cases[] = {
        /* nothing, everything */
        {"%a = neg %x\n  %b = exp %a\n  ret %b", "t"},
        {"%a = cumsum %x {axis=0}\n  %b = cumsum %a {axis=0}\n  ret %b", "o"},
        {"ret %x", ""},
        /* in a row */
        {"%a = neg %x\n  %b = exp %a\n  %c = cumsum %b {axis=0}\n  %d = neg %c\n  %e = exp %d\n"
         "  ret %e",
         "tot"},
        /* what does not depend on each other is one piece, wherever it is */
        {"%a = cumsum %x {axis=0}\n  %b = neg %x\n  %c = cumsum %y {axis=0}\n  %d = exp %b\n"
         "  ret %a, %c, %d",
         "to"},
        {"%a = cumsum %x {axis=0}\n  %b = neg %a\n  %c = exp %b\n  %d = neg %y\n  %e = exp %d\n"
         "  ret %c, %e",
         "ot"},
        /* a side path would be a circle: %e reads both the piece of %a and what was made of it */
        {"%a = neg %x\n  %b = exp %a\n  %c = cumsum %b {axis=0}\n  %d = neg %b\n  %e = mul %d, %c\n"
         "  %f = neg %e\n  ret %f",
         "tot"},
        /* one node is not worth it, unless it is a product */
        {"%a = cumsum %x {axis=0}\n  %b = neg %a\n  %c = cumsum %b {axis=0}\n  ret %c", "o"},
        {"%a = cumsum %w {axis=0}\n  %b = matmul %a, %w\n  %c = cumsum %b {axis=0}\n  ret %c",
         "oto"},
        {"%a = cumsum %x {axis=0}\n  %v = reshape %a {shape=[2,2]}\n  %c = cumsum %v {axis=0}\n"
         "  ret %c",
         "o"},
        /* a view that is returned is made where what it shows is */
        {"%a = neg %x\n  %b = exp %a\n  %v = reshape %b {shape=[2,2]}\n  %c = cumsum %b {axis=0}\n"
         "  ret %v, %c",
         "to"},
        {"%a = neg %x\n  %b = exp %a\n  %c = cumsum %b {axis=0}\n  %v = reshape %c {shape=[2,2]}\n"
         "  %d = neg %c\n  %e = exp %d\n  ret %v, %e",
         "tot"},
        /* one that is not taken is copied for who takes what reads it, and no piece where nobody does */
        {"%a = permute %w {axes=[1,0]}\n  %b = neg %a\n  %c = exp %b\n  ret %c", "ot"},
        {"%a = permute %w {axes=[1,0]}\n  %b = neg %w\n  %c = exp %b\n  %d = cumsum %a {axis=0}\n"
         "  ret %c, %d",
         "to"},
        /* results are where the op is */
        {"%a = neg %x\n  %b = exp %a\n  %t = topk %b {k=2}\n  %i = result %t {index=1}\n"
         "  %j = cast %i {dtype=f32}\n  %k = mul %j, %t\n  ret %k",
         "t"},
        {"%a = neg %x\n  %b = exp %a\n  %t = sort %b {axis=0, descending=false}\n"
         "  %i = result %t {index=1}\n  %j = cast %i {dtype=f32}\n  %k = mul %j, %t\n  ret %k, %i",
         "tot"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600], form[200];
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[4], %%y: f32[4], %%w: f32[2,2]) {\n  %s\n}\n",
                       cases[i].body);
        ir_graph *g = parse(text);
        split_sides s = sides_of(g, " cumsum permute sort ", 64, form);
        if (strcmp(form, cases[i].form) != 0)
            fail_msg("%s\nis '%s', not '%s'", cases[i].body, form, cases[i].form);
        check_equal(g, &s, 5 + i);
        split_sides_done(&s);
        ir_graph_free(g);
    }
}

static rp_status copied(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)n, (void)err;
    memcpy(args[1].data, args[0].data, 4 * sizeof(float));
    return RP_OK;
}

/* What is written is read before, although nothing but memory says so; what is seen of effects is in their order. */
static void memory_has_one_version(void **state) {
    static const struct {
        const char *body, *form;
    } cases[] = {
        /* the write depends on nothing that takes time: without the read it would be first */
        {"%a = neg %x\n  %b = exp %a\n  %c = cumsum %b {axis=0}\n  %d = neg %c\n  %e = exp %d\n"
         "  %f = add %e, %s\n  %u = update %s, %x\n  ret %f",
         "toto"},
        {"%a = neg %x\n  %b = exp %a\n  %v = reshape %m {shape=[2,2]}\n"
         "  %f = reshape %b {shape=[2,2]}\n  %c = add %f, %v\n  %u = update %m, %x\n  ret %c",
         "to"},
        /* memory of its own is there when it is written */
        {"%o = empty {dtype=f32, shape=[4]}\n  %a = neg %x\n  %b = exp %a\n"
         "  %c = cumsum %b {axis=0}\n  %d = neg %c\n  %e = exp %d\n  %u = update %o, %e\n"
         "  %f = neg %u\n  %g = neg %f\n  %h = exp %g\n  ret %h",
         "totot"},
        /* returned where it is, and once more */
        {"%a = neg %x\n  %b = exp %a\n  %u = update %s, %b\n  %c = neg %b\n  ret %u, %c, %c", "to"},
        /* a param, and an argument that is returned */
        {"%a = neg %x\n  %b = exp %a\n  %c = cumsum %b {axis=0}\n  %d = neg %c\n  %e = exp %d\n"
         "  %f = custom %e {name=\"sides::seen\"}\n  %g = custom %x {name=\"sides::seen\"}\n"
         "  ret %f, %g",
         "toto"},
        {"%p = param @p : f32[4]\n  %a = mul %x, %p\n  %b = exp %a\n  %c = cumsum %b {axis=0}\n"
         "  %d = mul %c, %p\n  %e = exp %d\n  ret %e, %x",
         "tot"},
    };
    rp_error err = {0};
    rp_op_desc d = {.size = sizeof d, .name = "sides::seen", .result_like = 0, .cpu = copied};
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600], form[200];
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[4], %%m: f32[4] mutates) {\n  %%s = state @s : f32[4]\n"
                       "  %s\n}\n",
                       cases[i].body);
        ir_graph *g = parse(text);
        split_sides s = sides_of(g, " cumsum custom ", 64, form);
        if (strcmp(form, cases[i].form) != 0)
            fail_msg("%s\nis '%s', not '%s'", cases[i].body, form, cases[i].form);
        check_equal(g, &s, 5 + i);
        split_sides_done(&s);
        ir_graph_free(g);
    }
}

/* The smallest are given up; of equal ones the last. */
static void there_are_no_more_than_asked_for(void **state) {
    enum { LAYERS = 9 };
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "graph @g(%x0: f32[4]) {\n");
    for (int i = 0; i < LAYERS; i++) {
        base_buf_printf(&b, "  %%a%d = neg %%x%d\n  %%b%d = exp %%a%d\n", i, i, i, i);
        if (i == 4) base_buf_puts(&b, "  %c4 = neg %b4\n"); /* it is larger */
        base_buf_printf(&b, "  %%x%d = cumsum %%%c%d {axis=0}\n", i + 1, i == 4 ? 'c' : 'b', i);
    }
    base_buf_puts(&b, "  ret %x9\n}\n");
    assert_false(b.failed);
    ir_graph *g = parse(b.data);
    for (uint32_t most = 0; most <= LAYERS + 1; most++) {
        char form[200];
        split_sides s = sides_of(g, " cumsum ", most, form);
        assert_int_equal(s.n_taken, most < LAYERS ? most : LAYERS);
        assert_int_equal(s.n, most == 0 ? 1 : most == 1 ? 3 : 2 * s.n_taken);
        for (ir_ref r = 0; most == 1 && r < ir_graph_count(g); r++) /* the fifth layer */
            assert_int_equal(s.piece[r] != SPLIT_NO_PIECE && s.taken[s.piece[r]], r > 12 && r < 16);
        for (ir_ref r = 1; most == 2 && r < 3; r++) assert_true(s.taken[s.piece[r]]);
        check_equal(g, &s, most);
        split_sides_done(&s);
    }
    ir_graph_free(g);
    base_buf_done(&b);
}

/* --- random graphs -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t h = (a * UINT64_C(0x9e3779b97f4a7c15)) ^ (b + UINT64_C(0x632be59bd9b4e019));
    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 32;
}

/* Some ops, or some nodes, a part of them that the seed says. */
static split_sides random_sides(const ir_graph *g, uint64_t seed, uint32_t most) {
    rp_error err = {0};
    split_sides s = {0};
    bool *takes = base_alloc_array(ir_graph_count(g) + 1u, sizeof *takes);
    assert_non_null(takes);
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        bool free = is_argument(n) || (split_repeats(n) && !n->n_in);
        uint64_t of = mix(seed, seed % 2 ? (uint64_t)n->op : 1000 + r) % 8;
        takes[r] = !touches_memory(g, r) && (free || of > seed % 7);
    }
    CHECK_OK(split_in_sides(g, takes, most, &s, &err), &err);
    check_pieces(g, takes, &s);
    base_free(takes);
    return s;
}

static void random_pieces_compute_the_whole(void **state) {
    const uint64_t n = THOROUGH() ? 600 : 120;
    uint32_t several = 0, pieces = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= n; seed++) {
        rp_error err = {0};
        ir_graph *pure = NULL, *effects = NULL, *made = NULL;
        const ir_graph *g = NULL;
        random_graph_options opt = RANDOM_GRAPH_ALL;
        opt.control = seed % 5 == 0;
        CHECK_OK(random_graph_new(seed, &opt, &pure, &err), &err);
        if (seed % 3 == 0)
            CHECK_OK(random_effects_new(pure, seed, opt.control, &effects, &err), &err);
        CHECK_OK(pass_make_inplace(effects ? effects : pure, &g, &made, &err), &err);
        split_sides s = random_sides(g, seed, seed % 4 ? 64 : 2);
        if (seed % 4 == 0) assert_true(s.n_taken <= 2);
        several += s.n > 2;
        pieces += s.n;
        check_equal(g, &s, seed);
        split_sides_done(&s);
        ir_graph_free(made);
        ir_graph_free(effects);
        ir_graph_free(pure);
    }
    if (several < n / 4 || pieces < 2 * n) fail_msg("%u of several, %u pieces", several, pieces);
}

static void failed_allocations_leave_nothing(void **state) {
    ir_graph *g = parse("graph @g(%x: f32[4]) {\n  %a = neg %x\n  %b = exp %a\n"
                        "  %c = cumsum %b {axis=0}\n  %d = neg %c\n  %e = exp %d\n  ret %e\n}\n");
    bool takes[16];
    (void)state;
    for (ir_ref r = 0; r < ir_graph_count(g); r++) takes[r] = ir_node_at(g, r)->op != IR_cumsum;
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        split_sides s = {0};
        split_result r = {0};
        rp_error err = {0};
        rp_status st = split_in_sides(g, takes, 64, &s, &err);
        if (st == RP_OK) st = split_by_sides(g, &s, &r, &err);
        split_done(&r);
        split_sides_done(&s);
        assert_int_equal(base_live(), live);
        assert_true(st == RP_OK || st == RP_NOMEM);
    }
    ir_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_follow_the_changes_of_side),
        cmocka_unit_test(memory_has_one_version),
        cmocka_unit_test(there_are_no_more_than_asked_for),
        cmocka_unit_test(random_pieces_compute_the_whole),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
