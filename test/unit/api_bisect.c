/* The search for a wrong kernel, with a compiler that is wrong on purpose: the interpreter, in which a fault is planted. */
#include "support/check.h"

#include <math.h>

#include "api/trial.h"
#include "base/alloc.h"
#include "pass/pipeline.h"
#include "reprise/reprise.h"
#include "support/golden.h"
#include "support/random_graph.h"

/* What is wrong: op, where its first operand is an op of that kind (none: any), on elements above `from`, by a factor; by a
 * difference where they are i64. */
typedef struct fault {
    ir_op op, operand;
    double from, factor;
    uint32_t compiles;
} fault;
static fault planted;
static ir_op beside_op = IR_OP_COUNT_;   /* where there is a node of it, too */
static uint32_t last_wrong = UINT32_MAX; /* later compiles are right */

typedef struct callable {
    rp_graph *g;
} callable;

static void spoil(void *user, const ir_graph *g, ir_ref r, ir_value *const *value) {
    const fault *f = user;
    const ir_node *n = ir_node_at(g, r);
    if (n->op != f->op || f->compiles > last_wrong) return;
    if (f->operand != IR_OP_COUNT_ && ir_node_at(g, n->in[0])->op != f->operand) return;
    bool beside = beside_op == IR_OP_COUNT_;
    for (ir_ref k = 0; k < ir_graph_count(g); k++)
        beside = beside || ir_node_at(g, k)->op == beside_op;
    for (int64_t i = 0; beside && i < value[r]->n; i++)
        if (n->dtype == RP_DTYPE_I64)
            ir_value_set_int(value[r], i, ir_value_int(value[r], i) + (int64_t)f->factor);
        else if (value[r]->data[i] > f->from)
            value[r]->data[i] = ir_round(n->dtype, value[r]->data[i] * f->factor);
}

static ir_value value_of(const rp_buffer *b) {
    ir_value v = {.rank = b->rank, .n = 1};
    for (uint32_t i = 0; i < b->rank; i++) v.n *= v.dim[i] = b->dim[i];
    v.data = base_alloc_array((size_t)v.n + 1, sizeof *v.data);
    assert_non_null(v.data);
    if (b->data) ir_unpack(b->dtype, b->data, v.n, v.data);
    return v;
}

static rp_status run(void *self, const rp_buffer *inputs, uint32_t n_inputs, rp_buffer *outputs,
                     uint32_t n_outputs, rp_error *err) {
    const ir_eval_watch watch = {&planted, spoil};
    const callable *c = self;
    int64_t symbols[16];
    ir_value in[64], out[64];
    CHECK_OK(rp_graph_read_symbols(c->g, inputs, n_inputs, symbols, err), err);
    assert_true(n_inputs < 64 && n_outputs < 64);
    for (uint32_t i = 0; i < n_inputs; i++) in[i] = value_of(&inputs[i]);
    const ir_eval_leaves leaves = {in, NULL, NULL};
    rp_status st = ir_eval_watched(trace_graph_ir(c->g), &leaves, symbols, &watch, out, err);
    for (uint32_t i = 0; i < n_outputs && st == RP_OK; i++) {
        ir_pack(outputs[i].dtype, out[i].data, out[i].n, outputs[i].data);
        ir_value_done(&out[i]);
    }
    for (uint32_t i = 0; i < n_inputs; i++) {
        const ir_graph *g = trace_graph_ir(c->g);
        if (st == RP_OK && ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i))->mutates)
            ir_pack(inputs[i].dtype, in[i].data, in[i].n, inputs[i].data);
        ir_value_done(&in[i]);
    }
    return st;
}

static rp_status compile(void *user, const rp_graph *g, const rp_backend_options *options,
                         rp_callable *out, rp_error *err) {
    callable *c = base_alloc(sizeof *c);
    (void)user, (void)options, (void)err;
    assert_non_null(c);
    c->g = (rp_graph *)(uintptr_t)g;
    planted.compiles++;
    *out = (rp_callable){.run = run, .free = base_free, .self = c};
    return RP_OK;
}

static int registered(void **state) {
    rp_error err = {0};
    rp_backend_desc d = {.size = sizeof d, .name = "planted", .compile = compile};
    (void)state;
    CHECK_OK(rp_backend_register(&d, &err), &err);
    return 0;
}

static rp_graph *parse(const char *text) {
    rp_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    return g;
}

static rp_bisection *bisect(const rp_graph *g, const char *setting, const char *sizes) {
    rp_error err = {0};
    rp_bisection *b = NULL;
    rp_bisect_options o = RP_BISECT_OPTIONS_INIT;
    rp_compilation_config *cfg = rp_config_new();
    o.sizes = sizes;
    o.seed = 3;
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    if (strstr(setting, "backend")) CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_graph_bisect(g, cfg, &o, &b, &err), &err);
    rp_config_free(cfg);
    return b;
}

static rp_bisect_info info_of(const rp_bisection *b) {
    rp_error err = {0};
    rp_bisect_info i = RP_BISECT_INFO_INIT;
    CHECK_OK(rp_bisection_get_info(b, &i, &err), &err);
    return i;
}

/* Softmax, a gate, a matrix. */
static const char net[] = "graph @net(%x: f32[T,48], %w: f32[48,32]) -> (f32[T,32], f32[T,1]) "
                          "where T in [1,64] {\n"
                          "  %0 = amax %x {axis=1, keep=true} : f32[T,1]\n"
                          "  %1 = sub %x, %0 : f32[T,48]\n"
                          "  %2 = exp %1 : f32[T,48]\n"
                          "  %3 = sum %2 {axis=1, keep=true} : f32[T,1]\n"
                          "  %4 = div %2, %3 : f32[T,48]\n"
                          "  %5 = sigmoid %4 : f32[T,48]\n"
                          "  %6 = mul %5, %x : f32[T,48]\n"
                          "  %7 = matmul %6, %w : f32[T,32]\n"
                          "  %8 = tanh %7 : f32[T,32]\n"
                          "  %9 = add %8, %3 : f32[T,32]\n"
                          "  %10 = sqrt %3 : f32[T,1]\n"
                          "  ret %9, %10\n}\n";

/* What is left still is wrong, alone, and is no larger the second time. */
static void fails_alone(const rp_bisect_info *i) {
    rp_graph *g = parse(i->reduced);
    rp_bisection *b = bisect(g, "backend=planted", *i->sizes ? i->sizes : NULL);
    rp_bisect_info again = info_of(b);
    assert_true(again.differs);
    assert_string_equal(again.op, i->op);
    assert_int_equal(again.nodes, i->nodes);
    /* What is told is of this graph, with these sizes. */
    assert_string_equal(again.element, i->element);
    assert_true(again.want == i->want && again.got == i->got && again.ulps == i->ulps);
    rp_bisection_free(b);
    rp_graph_free(g);
}

typedef struct planting {
    fault f;
    const char *node; /* of the net; NULL: it is not to be found */
    uint32_t most;    /* nodes that may be left */
} planting;

static void a_planted_fault_is_found(void **state) {
    static const planting cases[] = {
        {{IR_sigmoid, IR_OP_COUNT_, -HUGE_VAL, 1.0001, 0}, "%5 = sigmoid %4 : f32[T,48]", 1},
        {{IR_exp, IR_OP_COUNT_, -HUGE_VAL, 1.0001, 0}, "%2 = exp %1 : f32[T,48]", 1},
        {{IR_matmul, IR_OP_COUNT_, -HUGE_VAL, 1.001, 0},
         "%7 = matmul %6, %w {trans_b=false} : f32[T,32]",
         1},
        /* an ulp of an op that rounds once is a fault */
        {{IR_sub, IR_OP_COUNT_, -HUGE_VAL, 1 + 0x1p-23, 0}, "%1 = sub %x, %0 : f32[T,48]", 1},
        /* only where it is fused with what is before it */
        {{IR_div, IR_exp, -HUGE_VAL, 1.01, 0}, "%4 = div %2, %3 : f32[T,48]", 2},
        {{IR_mul, IR_sigmoid, -HUGE_VAL, 1.01, 0}, "%6 = mul %5, %x : f32[T,48]", 2},
        /* only for some values */
        {{IR_tanh, IR_OP_COUNT_, 0.5, 1.01, 0}, "%8 = tanh %7 : f32[T,32]", 1},
        /* within the bounds of docs/ir.md */
        {{IR_exp, IR_OP_COUNT_, -HUGE_VAL, 1 + 0x1p-24, 0}, NULL, 0},
        {{IR_sqrt, IR_OP_COUNT_, HUGE_VAL, 2, 0}, NULL, 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_graph *g = parse(net);
        planted = cases[k].f;
        rp_bisection *b = bisect(g, "backend=planted", "T=5");
        rp_bisect_info i = info_of(b);
        assert_int_equal(i.runs, planted.compiles);
        assert_int_equal(i.differs, cases[k].node != NULL);
        if (i.differs) {
            assert_string_equal(i.node, cases[k].node);
            assert_string_equal(i.op, ir_op_table(cases[k].f.op)->name);
            if (i.nodes > cases[k].most) fail_msg("case %zu leaves %s", k, i.reduced);
            assert_true(i.ulps > i.bound);
            assert_true(i.operands[0].min <= i.operands[0].max);
            fails_alone(&i);
        }
        rp_bisection_free(b);
        rp_graph_free(g);
    }
}

/* A loop in a branch. */
static const char within[] =
    "graph @within(%p: bool[], %h: f32[4], %x: f32[T,4]) -> f32[4] where T in [1,8] {\n"
    "  %0 = abs %x\n"
    "  %1 = cond %p, %h, %0 {then=graph @zero(%h: f32[4], %x: f32[T,4]) where T in [1,8] {\n"
    "    %0 = neg %h\n    ret %0 },\n"
    "    else=graph @sums(%h: f32[4], %x: f32[T,4]) where T in [1,8] {\n"
    "    %0 = scan %h, %x {carried=1, sliced=1, body=graph @step(%h: f32[4], %x: f32[4]) {\n"
    "      %0 = sigmoid %x\n      %1 = add %h, %0\n      ret %1, %0 }}\n    ret %0 }}\n"
    "  ret %1\n}\n";

/* A fault within a graph within the graph is made small there, and what it is of is told. */
static void a_fault_of_a_body_is_found(void **state) {
    (void)state;
    planted = (fault){IR_sigmoid, IR_OP_COUNT_, -HUGE_VAL, 1.001, 0};
    rp_graph *g = parse(within);
    rp_bisection *b = bisect(g, "backend=planted", "T=5");
    rp_bisect_info i = info_of(b);
    assert_true(i.differs);
    assert_string_equal(i.op, "sigmoid");
    assert_string_equal(i.node, "%0 = sigmoid %x : f32[4]");
    assert_string_equal(
        i.body,
        "else @sums of %1 = cond %p, %h, %0 {else=@sums, then=@zero} : f32[4], body @step "
        "of %0 = scan %h, %x {body=@step, carried=1, length=T, sliced=1} : (f32[4], f32[T,4])");
    assert_int_equal(i.nodes, 1);
    assert_int_equal(i.runs, planted.compiles);
    fails_alone(&i);
    rp_bisection_free(b);
    rp_graph_free(g);
}

/* One of the loop itself is told of the loop. */
static void a_fault_of_a_loop_is_no_body_s(void **state) {
    static const char text[] =
        "graph @loop(%h: f32[4], %x: f32[T,4]) -> f32[4] where T in [1,8] {\n"
        "  %0 = scan %h, %x {carried=1, sliced=1, body=graph @step(%h: f32[4], %x: f32[4]) {\n"
        "    %0 = mul %h, %x\n    ret %0, %0 }}\n"
        "  %1 = result %0 {index=1}\n  %2 = sum %1 {axis=0}\n  ret %2\n}\n";
    (void)state;
    planted = (fault){IR_scan, IR_OP_COUNT_, -HUGE_VAL, 1.001, 0};
    rp_graph *g = parse(text);
    rp_bisection *b = bisect(g, "backend=planted", "T=5");
    rp_bisect_info i = info_of(b);
    if (i.differs) assert_string_equal(i.body, "");
    if (i.differs) assert_null(strchr(i.node, '\n'));
    assert_true(i.differs);
    rp_bisection_free(b);
    rp_graph_free(g);
}

/* The range of an operand is that of its values, also where all of them are below 0: here one is, with this seed. */
static void a_range_may_be_below_zero(void **state) {
    static const char text[] = "graph @below(%x: f32[8]) -> f32[8] {\n"
                               "  %0 = exp %x : f32[8]\n"
                               "  ret %0\n}\n";
    (void)state;
    planted = (fault){IR_exp, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0};
    rp_graph *g = parse(text);
    rp_bisection *b = bisect(g, "backend=planted", NULL);
    rp_bisect_info i = info_of(b);
    assert_true(i.differs && i.n_operands == 1);
    if (!(i.operands[0].min <= i.operands[0].max && i.operands[0].max < 0))
        fail_msg("%s: from %g to %g", i.reduced, i.operands[0].min, i.operands[0].max);
    rp_bisection_free(b);
    rp_graph_free(g);
}

/* Memory that is left wrong, where no output shows it. */
static void a_wrong_write_is_found(void **state) {
    static const char text[] = "graph @writes(%x: f32[8], %m: f32[16] mutates) -> f32[8] {\n"
                               "  %0 = neg %x : f32[8]\n"
                               "  %1 = exp %0 : f32[8]\n"
                               "  %2 = update %m, %1 {offsets=[4]} : f32[16]\n"
                               "  %3 = abs %x : f32[8]\n"
                               "  ret %3\n}\n";
    (void)state;
    planted = (fault){IR_update, IR_OP_COUNT_, 0.5, 1.5, 0};
    rp_graph *g = parse(text);
    rp_bisection *b = bisect(g, "backend=planted", NULL);
    rp_bisect_info i = info_of(b);
    assert_true(i.differs);
    assert_string_equal(i.op, "update");
    assert_int_equal(strncmp(i.element, "input:m[", 8), 0);
    assert_true(i.want > 0.5 && fabs(i.got / i.want - 1.5) < 0x1p-20); /* what was left there */
    assert_int_equal(i.nodes, 1);
    fails_alone(&i);
    rp_bisection_free(b);
    planted.op = IR_OP_COUNT_; /* a right write is none */
    b = bisect(g, "backend=planted", NULL);
    assert_false(info_of(b).differs);
    rp_bisection_free(b);
    rp_graph_free(g);
}

/* A kernel that leaves nothing but a write, wrong by less than what is in front of it may be off by. */
static void a_kernel_that_only_writes_is_tried(void **state) {
    static const char text[] = "graph @writes(%x: f32[64], %m: f32[64] mutates) -> f32[64] {\n"
                               "  %0 = const 1000 : f32[]\n"
                               "  %1 = exp %x : f32[64]\n"
                               "  %2 = mul %1, %0 : f32[64]\n"
                               "  %3 = sin %2 : f32[64]\n"
                               "  %4 = cumsum %3 {axis=0} : f32[64]\n"
                               "  %5 = update %m, %4 {offsets=[0]} : f32[64]\n"
                               "  %6 = abs %x : f32[64]\n"
                               "  ret %6\n}\n";
    (void)state;
    planted = (fault){IR_update, IR_OP_COUNT_, -HUGE_VAL, 1 + 0x1p-23, 0};
    rp_graph *g = parse(text);
    rp_bisection *b = bisect(g, "backend=planted", NULL);
    rp_bisect_info i = info_of(b);
    assert_true(i.differs);
    assert_string_equal(i.op, "update");
    assert_int_equal(i.nodes, 1);
    fails_alone(&i);
    rp_bisection_free(b);
    rp_graph_free(g);
}

/* Their bits are no doubles: two numbers below 0 would both be NaN, the least of all would be as good as 0, and large ones
 * would be as good as their neighbours (what is found of those is smaller ones). */
static void whole_numbers_are_compared_as_such(void **state) {
    static const int64_t least = INT64_MIN, large = INT64_C(1) << 60;
    static const int64_t cases[][2] = {{-1, -2}, {7, 8}, {0, least}, {large, large + 1}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[256];
        const int64_t want = cases[k][0], by = cases[k][1] - want;
        (void)snprintf(text, sizeof text,
                       "graph @whole(%%x: i64[4]) -> i64[4] {\n"
                       "  %%0 = sub %%x, %%x : i64[4]\n"
                       "  %%1 = const %lld : i64[]\n"
                       "  %%2 = max %%0, %%1 : i64[4]\n"
                       "  %%3 = min %%2, %%1 : i64[4]\n"
                       "  ret %%3\n}\n",
                       (long long)want);
        planted = (fault){IR_min, IR_OP_COUNT_, 0, (double)by, 0};
        rp_graph *g = parse(text);
        rp_bisection *b = bisect(g, "backend=planted", NULL);
        rp_bisect_info i = info_of(b);
        assert_true(i.differs);
        assert_string_equal(i.op, "min");
        if (want != large && (i.want != (double)want || i.got != (double)cases[k][1]))
            fail_msg("%g instead of %g, told as %g instead of %g", (double)cases[k][1],
                     (double)want, i.got, i.want);
        rp_bisection_free(b);
        rp_graph_free(g);
    }
}

/* The line of the program that made the node. */
static void the_call_site_is_named(void **state) {
    rp_error err = {0};
    (void)state;
    planted = (fault){IR_tanh, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0};
    rp_graph *g = rp_graph_new("sited");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(7)), y = rp_exp(x);
    rp_tensor z = rp_tanh(y);
    const int line = __LINE__ - 1;
    z = rp_neg(z);
    CHECK_OK(rp_graph_finish(g, &z, 1, &err), &err);
    rp_bisection *b = bisect(g, "backend=planted", NULL);
    rp_bisect_info i = info_of(b);
    char want[64];
    (void)snprintf(want, sizeof want, ":%d rp_tanh", line);
    assert_true(i.differs);
    if (!strstr(i.sites, want)) fail_msg("%s, not %s", i.sites, want);
    rp_bisection_free(b);
    rp_graph_free(g);
}

/* What is right is within its bounds: op by op, and fused. */
static void what_is_right_is_not_found(void **state) {
    static const char *const levels[] = {"level=0", "level=2"};
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        const random_graph_options o = RANDOM_GRAPH_ALL;
        rp_error err = {0};
        ir_graph *ir = NULL;
        rp_graph *g = NULL;
        CHECK_OK(random_graph_new(seed, &o, &ir, &err), &err);
        CHECK_OK(trace_graph_wrap(ir, &g, &err), &err);
        for (int k = 0; k < (seed % 6 ? 1 : 2); k++) {
            rp_bisection *b = bisect(g, levels[k], NULL);
            rp_bisect_info i = info_of(b);
            if (i.differs)
                fail_msg("seed %d at %s: %s: %g ulps of %g\n%s", (int)seed, levels[k], i.node,
                         i.ulps, i.bound, i.reduced);
            rp_bisection_free(b);
        }
        rp_graph_free(g);
    }
}

/* Where each node runs alone there are no kernels to search one by one. */
static void kernels_of_one_node_are_run_once(void **state) {
    static const char text[] = "graph @two(%x: f32[64,8]) -> (f32[64,8], f32[64]) {\n"
                               "  %0 = exp %x : f32[64,8]\n"
                               "  %1 = sum %0 {axis=1} : f32[64]\n"
                               "  %2 = tanh %1 : f32[64]\n"
                               "  ret %0, %2\n}\n";
    static const char *const settings[] = {"backend=eager", "backend=aot_eager", "level=2"};
    (void)state;
    rp_graph *g = parse(text);
    for (uint32_t k = 0; k < 3; k++) {
        rp_bisection *b = bisect(g, settings[k], NULL);
        assert_int_equal(info_of(b).runs,
                         k < 2 ? 3 : 4); /* the whole and each output; its kernel */
        rp_bisection_free(b);
    }
    rp_graph_free(g);
}

static bool never(void *user, uint32_t runs) {
    (void)user;
    return runs < 2;
}

static void the_search_can_be_stopped(void **state) {
    rp_error err = {0};
    rp_bisection *b = NULL;
    rp_bisect_options o = RP_BISECT_OPTIONS_INIT;
    rp_compilation_config *cfg = rp_config_new();
    (void)state;
    planted = (fault){IR_exp, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0};
    rp_graph *g = parse(net);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "backend=planted", &err), &err);
    o.wanted = never;
    assert_int_equal(rp_graph_bisect(g, cfg, &o, &b, &err), RP_CANCELLED);
    o.wanted = NULL;
    o.sizes = "Q=1";
    assert_int_equal(rp_graph_bisect(g, cfg, &o, &b, &err), RP_CONFIG);
    assert_int_equal(rp_graph_bisect(NULL, cfg, &o, &b, &err), RP_INVALID);
    assert_null(b);
    rp_config_free(cfg);
    rp_graph_free(g);
}

/* The net under max_runs, NULL where it is not known. */
static rp_bisection *bisect_within(uint32_t max_runs) {
    rp_error err = {0};
    rp_bisection *b = NULL;
    rp_bisect_options o = RP_BISECT_OPTIONS_INIT;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = parse(net);
    o.sizes = "T=5";
    o.seed = 3;
    o.max_runs = max_runs;
    planted.compiles = 0;
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "backend=planted", &err), &err);
    rp_status st = rp_graph_bisect(g, cfg, &o, &b, &err);
    if (st != RP_OK) {
        if (st != RP_CANCELLED) fail_msg("%s", err.text);
        char want[64];
        (void)snprintf(want, sizeof want, "no difference in %u run", max_runs);
        if (!strstr(err.text, want) || !strstr(err.text, "max_runs")) fail_msg("%s", err.text);
    }
    rp_config_free(cfg);
    rp_graph_free(g);
    return b;
}

/* However few runs there are for parts. */
static void a_difference_that_was_seen_is_told(void **state) {
    (void)state;
    planted = (fault){IR_div, IR_exp, -HUGE_VAL, 1.01, 0};
    rp_bisection *b = bisect_within(0);
    const uint32_t all = info_of(b).runs;
    assert_false(info_of(b).cut_short);
    rp_bisection_free(b);
    assert_true(all > 3);
    for (uint32_t n = 1; n <= all; n++) {
        b = bisect_within(n);
        assert_non_null(b);
        rp_bisect_info i = info_of(b);
        assert_true(i.differs);
        assert_int_equal(i.runs, n);
        assert_int_equal(i.cut_short, n < all);
        assert_int_equal(i.unreduced, n == 1);
        assert_int_equal(i.piece, 0);
        if (n == 1) assert_int_equal(i.nodes, 11);
        if (n == 1) assert_string_equal(i.sizes, "T=5");
        rp_bisection_free(b);
    }
}

/* Seen in the whole once, and in nothing behind it. */
static void a_difference_of_the_whole_alone_is_told(void **state) {
    (void)state;
    planted = (fault){IR_exp, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0};
    last_wrong = 1;
    rp_bisection *b = bisect_within(0);
    rp_bisect_info i = info_of(b);
    last_wrong = UINT32_MAX;
    assert_true(i.differs);
    assert_true(i.unreduced);
    assert_false(i.cut_short);
    assert_int_equal(i.nodes, 11);
    assert_int_equal(i.inputs, 2);
    assert_true(i.runs > 1 && i.ulps > i.bound);
    rp_bisection_free(b);
}

/* What is right takes so many runs; with one less that is not known. */
static void runs_that_end_the_search_are_no_answer(void **state) {
    (void)state;
    planted = (fault){IR_exp, IR_OP_COUNT_, HUGE_VAL, 2, 0};
    rp_bisection *b = bisect_within(0);
    const uint32_t all = info_of(b).runs;
    rp_bisection_free(b);
    b = bisect_within(all);
    assert_non_null(b);
    assert_false(info_of(b).differs);
    assert_false(info_of(b).cut_short);
    rp_bisection_free(b);
    for (uint32_t n = 1; n < all; n++) assert_null(bisect_within(n));
}

/* Many outputs, of which some are wrong, and sizes that stand beside numbers which are none. */
static const char wide[] =
    "graph @wide(%x: f32[T,12], %y: f32[S,12], %z: f32[40,2]) -> (f32[T,12], f32[S,12], f32[T,12], "
    "f32[S], f32[T,8], f32[40], f32[20]) where T in [1,64], S in [1,64] {\n"
    "  %0 = exp %x\n  %1 = sigmoid %y\n  %2 = tanh %0\n  %3 = mul %1, %1\n"
    "  %4 = sum %3 {axis=1}\n  %5 = slice %2 {axis=1, start=2, stop=10}\n"
    "  %6 = mul %z, %z\n  %7 = sum %6 {axis=1}\n  %8 = reshape %7 {shape=[20,2]}\n"
    "  %9 = amax %8 {axis=1}\n  ret %0, %1, %2, %4, %5, %7, %9\n}\n";
/* The same op twice in a chain, and one that needs what is between. */
static const char chain[] =
    "graph @chain(%x: f32[96,40]) -> (f32[96], f32[96,40]) {\n"
    "  %0 = tanh %x\n  %1 = neg %0\n  %2 = tanh %1\n  %3 = abs %2\n  %4 = mul %3, %0\n"
    "  %5 = sqrt %3\n  %6 = add %4, %5\n  %7 = sum %6 {axis=1}\n  ret %7, %2\n}\n";

/* What is left of graphs with faults of all kinds, and after how many runs. */
static void what_is_left_is_that_of_the_file(void **state) {
    static const struct {
        const char *text, *sizes;
        fault f;
        ir_op beside;
    } cases[] = {
        {net, "T=5", {IR_sigmoid, IR_OP_COUNT_, -HUGE_VAL, 1.0001, 0}, IR_OP_COUNT_},
        {net, "T=5", {IR_matmul, IR_OP_COUNT_, 1.5, 1.01, 0}, IR_OP_COUNT_},
        {net, "T=5", {IR_div, IR_exp, -HUGE_VAL, 1.01, 0}, IR_OP_COUNT_},
        {net, "T=5", {IR_mul, IR_sigmoid, -HUGE_VAL, 1.01, 0}, IR_OP_COUNT_},
        {net, "T=64", {IR_tanh, IR_OP_COUNT_, 0.9, 1.01, 0}, IR_OP_COUNT_},
        {net, "T=7", {IR_sqrt, IR_sum, 6.93, 1.01, 0}, IR_OP_COUNT_},
        {wide, "T=5,S=9", {IR_tanh, IR_OP_COUNT_, -HUGE_VAL, 1.001, 0}, IR_OP_COUNT_},
        {wide, "T=5,S=9", {IR_tanh, IR_exp, -HUGE_VAL, 1.001, 0}, IR_OP_COUNT_},
        {wide, "T=5,S=9", {IR_sigmoid, IR_OP_COUNT_, -HUGE_VAL, 1.001, 0}, IR_OP_COUNT_},
        {wide, "T=5,S=61", {IR_mul, IR_sigmoid, 0.5, 1.001, 0}, IR_OP_COUNT_},
        {wide, "T=5,S=61", {IR_sum, IR_mul, 4.5, 1.001, 0}, IR_OP_COUNT_},
        {wide, "T=33,S=2", {IR_slice, IR_tanh, -HUGE_VAL, 2, 0}, IR_OP_COUNT_},
        {wide, "T=33,S=2", {IR_amax, IR_OP_COUNT_, 1.7, 1.001, 0}, IR_OP_COUNT_},
        {wide, "T=5,S=9", {IR_sigmoid, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0}, IR_slice},
        {wide, "T=5,S=9", {IR_tanh, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0}, IR_reshape},
        {wide, "T=5,S=9", {IR_exp, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0}, IR_amax},
        {chain, "", {IR_tanh, IR_OP_COUNT_, -HUGE_VAL, 1.001, 0}, IR_OP_COUNT_},
        {chain, "", {IR_tanh, IR_neg, -HUGE_VAL, 1.001, 0}, IR_OP_COUNT_},
        {chain, "", {IR_mul, IR_abs, -HUGE_VAL, 1.001, 0}, IR_OP_COUNT_},
        {chain, "", {IR_sum, IR_add, 22, 1.001, 0}, IR_OP_COUNT_},
        {chain, "", {IR_sqrt, IR_abs, 0.87, 1.001, 0}, IR_OP_COUNT_},
    };
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_graph *g = parse(cases[k].text);
        planted = cases[k].f;
        beside_op = cases[k].beside;
        rp_bisection *found = bisect(g, "backend=planted", cases[k].sizes);
        const rp_bisect_info i = info_of(found);
        base_buf_printf(&b, "%zu: %u runs", k, i.runs);
        if (i.differs)
            base_buf_printf(&b, "; %s\n%u nodes, %u inputs%s%s, %s\n%s", i.node, i.nodes, i.inputs,
                            *i.sizes ? ", sizes " : "", i.sizes, i.element, i.reduced);
        base_buf_putc(&b, '\n');
        rp_bisection_free(found);
        rp_graph_free(g);
    }
    beside_op = IR_OP_COUNT_;
    check_golden("test/unit/api_bisect.txt", &b);
}

/* An op that gives something else in one of its calls, and when the next pass is asked of: behind two for that one, and those that say
 * how far roundings reach. */
enum { ROUNDED_CALLS = 128 };
static uint32_t n_calls, wrong_call = UINT32_MAX;

static rp_status drift(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    const float *x = args[0].data;
    float *y = args[1].data;
    (void)call, (void)n_args, (void)err;
    const bool off = wrong_call != UINT32_MAX &&
                     (n_calls == wrong_call || n_calls == wrong_call + 2 + ROUNDED_CALLS);
    for (int64_t i = 0; i < args[0].dim[0]; i++) y[i] = x[i] + (off ? 1 : 0);
    n_calls++;
    return RP_OK;
}

/* The pass behind which the graph gives something else. */
static void the_pass_that_is_wrong_is_named(void **state) {
    static const char text[] = "graph @g(%x: f32[4]) {\n"
                               "  %0 = custom %x {name=\"bisect::drift\"} : f32[4]\n  ret %0\n}\n";
    rp_op_desc d = {.size = sizeof d, .name = "bisect::drift", .result_like = 0, .cpu = drift};
    rp_error err = {0};
    uint32_t n, n_passes = 0, n_honest = 0;
    const pass_info *table = pass_table(&n);
    (void)state;
    while (n_passes < n && table[n_passes].run) n_passes++;
    CHECK_OK(rp_op_register(&d, &err), &err);
    rp_graph *g = parse(text);
    for (uint32_t k = 0; k <= n_passes; k++) { /* what the report asks last is each pass, twice */
        planted = (fault){IR_custom, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0};
        if (k) wrong_call = n_honest - 2 * (n_passes + 1 - k) + 1;
        n_calls = 0;
        rp_bisection *b = bisect(g, "backend=planted", NULL);
        const rp_bisect_info i = info_of(b);
        assert_true(i.differs);
        assert_string_equal(i.pass, k ? table[k - 1].name : "");
        if (k == 0) n_honest = n_calls;
        rp_bisection_free(b);
    }
    wrong_call = UINT32_MAX;
    rp_graph_free(g);
}

static uint64_t n_before;

static rp_status begin(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    (void)call, (void)n_args, (void)err;
    memcpy(args[1].data, args[0].data, (size_t)args[0].dim[0] * sizeof(float));
    n_before = base_alloc_count();
    return RP_OK;
}

/* As many ops ran in between as values were made. */
static rp_status end(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    const uint64_t n = base_alloc_count() - n_before;
    const float *x = args[0].data;
    float *y = args[1].data;
    (void)call, (void)n_args, (void)err;
    for (int64_t i = 0; i < args[0].dim[0]; i++) y[i] = x[i] + (float)n;
    return RP_OK;
}

/* It is the graph behind the pass that is asked. */
static void the_pass_that_drops_a_node_is_named(void **state) {
    static const char text[] = "graph @g(%x: f32[4]) {\n"
                               "  %0 = custom %x {name=\"bisect::begin\"} : f32[4]\n"
                               "  %1 = neg %0 : f32[4]\n  %2 = neg %1 : f32[4]\n"
                               "  %3 = custom %2 {name=\"bisect::end\"} : f32[4]\n"
                               "  %4 = exp %3 : f32[4]\n  ret %4\n}\n";
    rp_op_desc d = {.size = sizeof d, .name = "bisect::begin", .result_like = 0, .cpu = begin};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    d.name = "bisect::end";
    d.cpu = end;
    CHECK_OK(rp_op_register(&d, &err), &err);
    rp_graph *g = parse(text);
    planted = (fault){IR_exp, IR_OP_COUNT_, -HUGE_VAL, 1.01, 0};
    last_wrong = 1; /* so that the whole is what is left */
    rp_bisection *b = bisect(g, "backend=planted", NULL);
    last_wrong = UINT32_MAX;
    assert_true(info_of(b).unreduced);
    assert_string_equal(info_of(b).pass, "cse");
    rp_bisection_free(b);
    rp_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_that_of_the_file),
        cmocka_unit_test(a_planted_fault_is_found),
        cmocka_unit_test(a_fault_of_a_body_is_found),
        cmocka_unit_test(a_fault_of_a_loop_is_no_body_s),
        cmocka_unit_test(a_range_may_be_below_zero),
        cmocka_unit_test(a_wrong_write_is_found),
        cmocka_unit_test(a_kernel_that_only_writes_is_tried),
        cmocka_unit_test(whole_numbers_are_compared_as_such),
        cmocka_unit_test(the_call_site_is_named),
        cmocka_unit_test(what_is_right_is_not_found),
        cmocka_unit_test(the_search_can_be_stopped),
        cmocka_unit_test(a_difference_that_was_seen_is_told),
        cmocka_unit_test(a_difference_of_the_whole_alone_is_told),
        cmocka_unit_test(kernels_of_one_node_are_run_once),
        cmocka_unit_test(runs_that_end_the_search_are_no_answer),
        cmocka_unit_test(the_pass_that_is_wrong_is_named),
        cmocka_unit_test(the_pass_that_drops_a_node_is_named),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
