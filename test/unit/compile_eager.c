/* The eager backend against the interpreter (bounds) and against compiled code (bits), for all ops on small
 * graphs and for seeded random graphs. */
#include "support/check.h"
#include "support/plan_run.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"
#include "compile/builtin.h"
#include "compile/portable/kernels.h"

#define BOUND 1e-4

static compile_toolchain toolchain;
static cache_store *store;
static char folder[64];

static plan_run_options eager(uint32_t threads, gen_isa isa) {
    static const compile_toolchain none;
    return (plan_run_options){
        .backend = &compile_eager, .isa = isa, .toolchain = &none, .threads = threads};
}

/* All instruction sets get their turn. */
static gen_isa next_isa(void) {
    static unsigned turn;
    return (gen_isa)(turn++ % ((unsigned)gen_isa_best() + 1));
}

static plan_run_options inductor(void) {
    return (plan_run_options){.backend = &compile_inductor,
                              .isa = next_isa(),
                              .toolchain = &toolchain,
                              .store = store,
                              .threads = 2};
}

static void copy_states(const random_leaves *l, ir_value *to) {
    for (uint32_t i = 0; i < l->n[IR_LEAF_STATE]; i++) {
        const ir_value *v = &l->leaf[IR_LEAF_STATE][i];
        to[i] = *v;
        to[i].data = base_alloc_array((size_t)v->n + 1, sizeof *v->data);
        memcpy(to[i].data, v->data, (size_t)v->n * sizeof *v->data);
    }
}

/* Interpreter, eager in its plainest form and for an instruction set, and compiled code where there is a compiler. */
static void compare(const ir_graph *g, const random_leaves *l, const char *what, bool with_code) {
    rp_error err = {0};
    ir_value states[8] = {{0}}, *want = base_alloc_array(ir_output_count(g) + 1, sizeof *want);
    plan_run a, b, c;
    plan_run_options o1 = eager(1, GEN_ISA_PORTABLE), o2 = eager(2, next_isa()), oc = inductor();
    const char *d;
    copy_states(l, states);
    CHECK_OK(
        ir_eval(g, l->leaf[IR_LEAF_INPUT], l->leaf[IR_LEAF_PARAM], states, l->symbols, want, &err),
        &err);
    if (plan_run_graph(g, l, &o1, &a, &err) != RP_OK) fail_msg("%s: eager: %s", what, err.text);
    CHECK_OK(plan_run_graph(g, l, &o2, &b, &err), &err);
    if ((d = plan_run_is_off(g, &a, want, states, NULL, BOUND)))
        fail_msg("%s: eager is off: %s", what, d);
    if ((d = plan_run_differs(g, &a, &b)))
        fail_msg("%s: portable and %s on two threads differ: %s", what, gen_isa_name(o2.isa), d);
    for (int passes = 0; with_code && toolchain.path && passes < 2; passes++) {
        oc.passes = passes;
        if (plan_run_graph(g, l, &oc, &c, &err) != RP_OK)
            fail_msg("%s: inductor: %s", what, err.text);
        if ((d = plan_run_differs(g, &a, &c)))
            fail_msg("%s: eager and compiled code %s passes differ: %s", what,
                     passes ? "with" : "without", d);
        plan_run_done(&c);
    }
    for (uint32_t i = 0; i < ir_output_count(g); i++) ir_value_done(&want[i]);
    for (uint32_t i = 0; i < l->n[IR_LEAF_STATE]; i++) ir_value_done(&states[i]);
    base_free(want);
    plan_run_done(&a);
    plan_run_done(&b);
}

static ir_graph *parse(const char *text) {
    rp_error err = {0};
    ir_graph *g;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    return g;
}

static void check_text(const char *text, bool with_code) {
    rp_error err = {0};
    ir_graph *g = parse(text);
    for (uint64_t seed = 1; seed < 4; seed++) {
        random_leaves l;
        CHECK_OK(random_leaves_new(g, seed, &l, &err), &err);
        compare(g, &l, text, with_code && seed == 1);
        random_leaves_done(&l);
    }
    ir_graph_free(g);
}

/* --- elementwise ------------------------------------------------------------------ */

/* Functions are kept away from their poles, jumps see exact values. */
static const char *const operand_of[IR_OP_COUNT_] = {
    [IR_sqrt] = "%pos", [IR_rsqrt] = "%pos", [IR_recip] = "%pos",
    [IR_log] = "%pos",  [IR_div] = "%x",     [IR_pow] = "%pos"};

static bool is_boolean(ir_op op) {
    return ir_op_operands(op) == IR_BITS;
}

static const char *bits_of(const char *type) {
    return strcmp(type, "f32") == 0 ? "i32" : strcmp(type, "i32") == 0 ? "f32" : "i16";
}

static void elementwise_text(base_buf *b, ir_op op, const char *type) {
    const ir_op_info *info = ir_op_table(op);
    const char *a = operand_of[op] ? operand_of[op] : is_boolean(op) ? "%c" : "%x";
    base_buf_printf(b, "graph @g(%%x: %s[T,5], %%y: %s[5]) where T in [1,64] {\n", type, type);
    base_buf_puts(b, "  %one = const 1\n  %xf = cast %x {dtype=f32}\n  %pos32 = add %xf, %one\n");
    base_buf_printf(b,
                    "  %%half = const 0.25\n  %%abs = abs %%xf\n  %%pos2 = add %%abs, %%half\n  "
                    "%%pos = cast %%pos2 {dtype=%s}\n",
                    type);
    base_buf_puts(b, "  %c = lt %x, %y\n  %d = ge %y, %y\n  %q = abs %y\n  %q2 = add %q, %q\n");
    if (op == IR_cast)
        base_buf_puts(b, "  %r = cast %x {dtype=bf16}\n");
    else if (op == IR_bitcast)
        base_buf_printf(b, "  %%r = bitcast %%x {dtype=%s}\n", bits_of(type));
    else if (op == IR_where)
        base_buf_puts(b, "  %r = where %c, %x, %y\n");
    else if (info->arity == 1)
        base_buf_printf(b, "  %%r = %s %s\n", info->name, a);
    else if (info->arity == 3)
        base_buf_printf(b, "  %%r = %s %%x, %%y, %%x\n", info->name);
    else if (op == IR_div)
        base_buf_printf(b, "  %%r = div %%x, %%pos\n");
    else
        base_buf_printf(b, "  %%r = %s %s, %s\n", info->name, a, is_boolean(op) ? "%d" : "%y");
    base_buf_puts(b, "  ret %r\n}\n");
}

/* Booleans are made by comparisons here, and integers have no fraction. */
static bool takes_ints(ir_op op) {
    return ir_op_on_integers(op) && !is_boolean(op) && ir_op_operands(op) != IR_REALS;
}

static void every_elementwise_op(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16", "i32"};
    (void)state;
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        if (ir_op_table((ir_op)op)->kind != IR_KIND_ELEMENTWISE) continue;
        for (size_t t = 0; t < 4; t++) {
            base_buf b;
            if (t == 3 ? !takes_ints((ir_op)op) : !ir_op_on_floats((ir_op)op)) continue;
            base_buf_init(&b, 0);
            elementwise_text(&b, (ir_op)op, types[t]);
            check_text(b.data, t == 0 || t == 3);
            base_buf_done(&b);
        }
    }
}

static void casts_between_all_types(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16", "i32", "i16", "i8", "u8", "bool"};
    (void)state;
    for (size_t from = 0; from < 8; from++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(&b, "graph @g(%%x: %s[T,21]) where T in [1,64] {\n", types[from]);
        for (size_t to = 0; to < 8; to++)
            base_buf_printf(&b, "  %%%zu = cast %%x {dtype=%s}\n", to, types[to]);
        base_buf_puts(&b, "  %big = const 1000\n  %f = cast %x {dtype=f32}\n  %g = mul %f, %big\n");
        for (size_t to = 3; to < 7; to++)
            base_buf_printf(&b, "  %%1%zu = cast %%g {dtype=%s}\n", to, types[to]);
        base_buf_puts(&b, "  ret ");
        bool first = true;
        for (size_t to = 0; to < 8; to++)
            if (to != from) {
                base_buf_printf(&b, "%s%%%zu", first ? "" : ", ", to);
                first = false;
            }
        base_buf_puts(&b, ", %13, %14, %15, %16\n}\n");
        check_text(b.data, true);
        base_buf_done(&b);
    }
}

/* --- everything else ------------------------------------------------------------------ */

static void reductions(void **state) {
    static const char *const ops[] = {"sum", "prod", "amax", "amin", "argmax"};
    static const char *const types[] = {"f32", "f16", "bf16", "i32"};
    (void)state;
    for (size_t t = 0; t < 4; t++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(&b, "graph @g(%%x: %s[T,3,70], %%y: %s[5,T]) where T in [1,64] {\n",
                        types[t], types[t]);
        for (size_t o = 0; o < 5; o++)
            for (int axis = 0; axis < 3; axis++)
                base_buf_printf(&b, "  %%%zu%d = %s %%x {axis=%d, keep=%s}\n", o + 1, axis, ops[o],
                                axis, axis == 1 ? "true" : "false");
        base_buf_puts(
            &b, "  %s = slice %x {axis=2, start=3, stop=40}\n  %p = permute %s {axes=[2,0,1]}\n");
        base_buf_puts(&b,
                      "  %q = sum %p {axis=2}\n  %z = sum %y {axis=1}\n  %all = sum %z {axis=0}\n");
        base_buf_puts(&b, "  ret %10, %11, %12, %20, %21, %22, %30, %31, %32, %40, %41, %42, %50, "
                          "%51, %52, %q, %z, %all\n}\n");
        check_text(b.data, true);
        base_buf_done(&b);
    }
}

static void texts(const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++) check_text(list[i], true);
}
#define TEXTS(list) texts(list, sizeof(list) / sizeof *(list))

static void views_and_moves(void **state) {
    static const char *const list[] = {
        /* reshapes of dense, sliced and permuted values */
        "graph @a(%x: f32[T,96]) where T in [1,40] { %q = slice %x {axis=1, start=32, stop=96}\n"
        " %h = reshape %q {shape=[T,4,16]}\n %n = neg %h\n %p = permute %h {axes=[1,0,2]}\n %r = "
        "reshape %p {shape=[4*T,16]}\n"
        " %e = exp %r\n %f = reshape %h {shape=[T,2,2,4,4]}\n %g = abs %f\n ret %n, %e, %g, %h, %p "
        "}",
        /* leaves and parts as outputs; one value twice */
        "graph @b(%x: f32[T,8], %i: i32[T]) where T in [1,40] { %w = param @w : f16[3,8]\n %v = "
        "slice %x {axis=1, start=2, stop=5}\n"
        " %n = neg %x\n %m = reshape %n {shape=[8*T]}\n %k = const 2.5\n %y = broadcast %k "
        "{shape=[T,2]}\n"
        " %a = add %x, %x\n ret %v, %n, %m, %w, %i, %y, %k, %a }",
        "graph @b2(%x: f32[T,8]) where T in [1,40] { %q = param @q : q4_0[3,32]\n %a = neg %x\n %r "
        "= reshape %a {shape=[8*T]}\n"
        " ret %a, %a, %x, %r, %x, %r, %q }",
        "graph @c(%x: f32[T,6], %y: f32[T,3]) where T in [1,40] { %c = concat %x, %y, %x "
        "{axis=1}\n %d = concat %x, %x {axis=0}\n"
        " %s = concat %d, %x {axis=0}\n %h = cast %c {dtype=f16}\n %k = concat %h, %h {axis=-1}\n "
        "ret %c, %d, %s, %k }",
        "graph @d(%i: i32[T], %j: i32[T,2]) where T in [1,40] { %w = param @w : f32[9,6]\n %q = "
        "param @q : q4_1[12,64]\n"
        " %b = param @b : bf16[20]\n %z = param @z : q4_0[4,32]\n %e = param @e : q8_0[5,32]\n %g "
        "= gather %w, %i\n %h = gather %w, %j\n %d = dequant %q\n %k = gather %d, %i\n"
        " %dz = dequant %z\n %l = gather %dz, %j\n %de = dequant %e\n %o = gather %de, %i\n %m = "
        "gather %b, %i\n %wt = permute %w {axes=[1,0]}\n %n = gather %wt, %i\n"
        " %x = sub %i, %i\n %y = add %i, %i\n %r = gather %w, %y\n ret %g, %h, %k, %l, %o, %m, %n, "
        "%r }",
        "graph @e(%x: f32[T,3]) where T in [1,40] { %a = iota {axis=0, dtype=i32, shape=[T,3]}\n "
        "%b = iota {axis=1, dtype=f32, shape=[T,3]}\n"
        " %c = cast %a {dtype=f32}\n %d = mul %c, %b\n %s = add %d, %x\n ret %s, %a, %b }",
        "graph @f(%x: f32[3,T,4], %y: f32[T,1]) where T in [1,40] { %a = mul %x, %y\n %b = sum %a "
        "{axis=1}\n %p = permute %x {axes=[2,1,0]}\n"
        " %c = add %p, %y\n %d = broadcast %y {shape=[2,T,5]}\n %e = exp %d\n ret %b, %c, %e }",
        "graph @g(%x: f32[], %y: f32[1]) { %a = add %x, %y\n %b = neg %x\n %c = reshape %y "
        "{shape=[]}\n %d = mul %b, %c\n ret %a, %d }",
    };
    (void)state;
    TEXTS(list);
}

static void products(void **state) {
    static const char *const list[] = {
        "graph @a(%x: f32[T,70], %y: f32[70,5]) where T in [1,40] { %a = matmul %x, %y\n %w = "
        "param @w : f32[33,70]\n"
        " %b = matmul %x, %w {trans_b=true}\n %s = sum %b {axis=1, keep=true}\n %c = mul %b, %s\n "
        "ret %a, %b, %c }",
        "graph @b(%x: f32[2,T,16], %y: f32[3,16], %z: f16[2,5,16], %u: f32[2,5,16]) where T in "
        "[1,40] {\n"
        " %a = matmul %x, %y {trans_b=true}\n %b = matmul %z, %u {trans_b=true}\n %e = exp %u\n %v "
        "= slice %u {axis=0, start=1, stop=2}\n"
        " %f = matmul %e, %v {trans_b=true}\n %g = matmul %x, %u {trans_b=true}\n ret %a, %b, %f, "
        "%g }",
        /* every format of weights, float and packed rows, odd numbers of columns */
        "graph @c(%x: f32[T,64]) where T in [1,40] { %p = param @p : q4_0[40,64]\n %q = param @q : "
        "q4_1[33,64]\n %r = param @r : q8_0[96,64]\n"
        " %s = param @s : f16[7,64]\n %t = param @t : bf16[64,64]\n %dp = dequant %p\n %dq = "
        "dequant %q\n %dr = dequant %r\n"
        " %1 = matmul %x, %dp {trans_b=true}\n %2 = matmul %x, %dq {trans_b=true}\n %3 = matmul "
        "%x, %dr {trans_b=true}\n"
        " %4 = matmul %x, %s {trans_b=true}\n %h = cast %x {dtype=bf16}\n %5 = matmul %h, %t "
        "{trans_b=true}\n"
        " %i = quantize %x {dtype=i16b32}\n %di = dequant %i\n %6 = matmul %di, %dp "
        "{trans_b=true}\n %7 = matmul %di, %dq {trans_b=true}\n"
        " %8 = matmul %di, %dr {trans_b=true}\n %9 = matmul %di, %s {trans_b=true}\n ret %1, %2, "
        "%3, %4, %5, %6, %7, %8, %9 }",
        /* rows that are a part, a view, dequantised */
        "graph @d(%x: f32[T,128]) where T in [1,40] { %w = param @w : q4_1[40,64]\n %dw = dequant "
        "%w\n %a = slice %x {axis=1, start=64, stop=128}\n"
        " %1 = matmul %a, %dw {trans_b=true}\n %i = quantize %x {dtype=i16b32}\n %d = dequant %i\n "
        "%s = slice %d {axis=1, start=32, stop=96}\n"
        " %2 = matmul %s, %dw {trans_b=true}\n %e = reshape %d {shape=[2*T,64]}\n %3 = matmul %e, "
        "%dw {trans_b=true}\n ret %1, %2, %3 }",
        /* gate and up, residual, norm: what a layer has */
        "graph @e(%x: f32[T,64]) where T in [1,40] { %g = param @g : q4_1[96,64]\n %u = param @u : "
        "q4_1[96,64]\n %o = param @o : q4_1[64,96]\n"
        " %n = param @n : f32[64]\n %k = const 0.015625\n %eps = const 0.00001\n %sq = mul %x, "
        "%x\n %ss = sum %sq {axis=1, keep=true}\n"
        " %ms = mul %ss, %k\n %me = add %ms, %eps\n %rs = rsqrt %me\n %xn = mul %x, %rs\n %xw = "
        "mul %xn, %n\n %i = quantize %xw {dtype=i16b32}\n"
        " %di = dequant %i\n %dg = dequant %g\n %du = dequant %u\n %do = dequant %o\n %a = matmul "
        "%di, %dg {trans_b=true}\n"
        " %b = matmul %di, %du {trans_b=true}\n %s = sigmoid %a\n %as = mul %a, %s\n %h = mul %as, "
        "%b\n %hi = quantize %h {dtype=i16b32}\n"
        " %dh = dequant %hi\n %y = matmul %dh, %do {trans_b=true}\n %r = add %x, %y\n ret %r }",
    };
    (void)state;
    TEXTS(list);
}

static void blocks_as_they_are(void **state) {
    static const char *const list[] = {
        "graph @a(%i: i32[T]) where T in [1,40] { %q = param @q : q4_1[12,64]\n %g = gather %q, "
        "%i\n %s = slice %q {axis=1, start=32, stop=64}\n"
        " %h = gather %s, %i\n %c = concat %g, %h {axis=1}\n %d = dequant %c\n %e = dequant %s\n "
        "ret %d, %e }",
        "graph @b(%x: f32[T,64], %i: i32[3]) where T in [1,40] { %p = quantize %x {dtype=i16b32}\n "
        "%g = gather %p, %i\n %c = concat %p, %g {axis=0}\n"
        " %d = dequant %c\n %s = slice %p {axis=0, start=0, stop=1}\n %e = dequant %s\n ret %d, "
        "%e, %p, %s }",
        /* rows that lie across others */
        "graph @c(%x: f32[64,T]) where T in [1,40] { %t = permute %x {axes=[1,0]}\n %p = quantize "
        "%t "
        "{dtype=i16b32}\n %d = dequant %p\n ret %p, %d }",
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_text(list[i], false);
}

/* --- effects ---------------------------------------------------------------------------- */

#define CACHES "%k = state @k : f16[NB,2,4,8]\n %v = state @v : f16[NB,2,4,8]\n"
static const char kv_text[] = "graph @kv(%q: f32[T,32], %kx: f32[T,16], %vx: f32[T,16], %seqs: "
                              "i32[T], %pos: i32[T], %slots: i32[T], %tables: i32[S,B])"
                              " where T in [1,16], S in [1,4], B in [1,8], NB in [1,32] {\n " CACHES
                              " %h = mul %kx, %kx\n %kt = kv_store %k, %h, %slots\n %vt = kv_store "
                              "%v, %vx, %slots\n %o = empty {dtype=f32, shape=[T,32]}\n"
                              " %qq = neg %q\n %a = attention %qq, %kt, %vt, %seqs, %pos, "
                              "%tables, %o {head_dim=8, heads=4, kv_heads=2, scale=0.25}\n"
                              " %r = add %a, %q\n ret %r }";

/* Two requests of 9 and 3 positions, the last five of the first and all of the second in this step, one padding row. */
static void fill_step(random_leaves *l) {
    static const int seqs[9] = {0, 0, 0, 0, 0, 1, 1, 1, -1}, pos[9] = {4, 5, 6, 7, 8, 0, 1, 2, 0};
    static const int tables[2][3] = {{3, 5, 1}, {4, 0, 0}};
    for (int t = 0; t < 9; t++) {
        l->leaf[IR_LEAF_INPUT][3].data[t] = seqs[t];
        l->leaf[IR_LEAF_INPUT][4].data[t] = pos[t];
        l->leaf[IR_LEAF_INPUT][5].data[t] =
            seqs[t] < 0 ? -1 : tables[seqs[t]][pos[t] / 4] * 4 + pos[t] % 4;
    }
    for (int i = 0; i < 6; i++) l->leaf[IR_LEAF_INPUT][6].data[i] = tables[i / 3][i % 3];
}

static void resize(random_leaves *l, const ir_graph *g, const int64_t *symbols) {
    rp_error err = {0};
    for (uint32_t i = 0; i < ir_dims_symbol_count(ir_graph_dims(g)); i++)
        l->symbols[i] = symbols[i];
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < l->n[k]; i++) {
            const ir_node *n = ir_node_at(g, ir_leaf_at(g, (ir_leaf)k, i));
            int64_t dim[IR_MAX_RANK];
            for (uint32_t d = 0; d < n->shape.rank; d++)
                dim[d] = ir_dim_eval(ir_graph_dims(g), n->shape.dim[d], symbols);
            ir_value_done(&l->leaf[k][i]);
            CHECK_OK(ir_random_value(n->dtype, dim, n->shape.rank, 2, 77 + i, &l->leaf[k][i], &err),
                     &err);
        }
}

static void step_of_a_cache(void **state) {
    static const char *const split[] = {"reprise::attention"};
    rp_error err = {0};
    ir_graph *g = parse(kv_text);
    random_leaves l;
    plan_run whole, pieces;
    const char *d;
    plan_run_options o = eager(2, gen_isa_best());
    (void)state;
    CHECK_OK(random_leaves_new(g, 5, &l, &err), &err);
    int64_t symbols[4] = {0};
    static const struct {
        const char *name;
        int64_t v;
    } sizes[] = {{"T", 9}, {"S", 2}, {"B", 3}, {"NB", 6}};
    for (size_t i = 0; i < 4; i++)
        symbols[ir_dims_find(ir_graph_dims(g), sizes[i].name)] = sizes[i].v;
    resize(&l, g, symbols);
    fill_step(&l);
    compare(g, &l, "kv", true);
    CHECK_OK(plan_run_graph(g, &l, &o, &whole, &err), &err);
    o.splitting_ops = split;
    o.n_splitting_ops = 1;
    CHECK_OK(plan_run_graph(g, &l, &o, &pieces, &err), &err);
    if ((d = plan_run_differs(g, &whole, &pieces))) fail_msg("whole and in pieces: %s", d);
    plan_run_done(&whole);
    plan_run_done(&pieces);
    random_leaves_done(&l);
    ir_graph_free(g);
}

static rp_status twice(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    const float *x = args[0].data;
    float *y = args[1].data;
    int64_t n = args[0].dim[0] * args[0].dim[1];
    (void)call;
    if (n_args != 2 || args[1].dim[1] != 6) return rp_fail(err, RP_INVALID, "not [rows,6]");
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    return RP_OK;
}

static void custom_op(void **state) {
    rp_op_desc d = {.size = sizeof d, .name = "test::twice", .result_like = 0, .cpu = twice};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    check_text("graph @a(%x: f32[T,9]) where T in [1,40] { %s = slice %x {axis=1, start=3}\n %a = "
               "custom %s {name=\"test::twice\"}\n"
               " %b = custom %a {name=\"test::twice\"}\n %c = add %b, %s\n ret %c, %b }",
               true);
}

static void any_size(void **state) {
    static const char *const list[] = {
        "graph @a(%x: f32[B,T,3]) where B in [1,5], T in [1,7] { %e = exp %x\n %r = reshape %e "
        "{shape=[B*T,3]}\n %s = sum %r {axis=1, keep=true}\n %d = div %r, %s\n ret %e, %d }",
        "graph @b(%x: f32[B,T]) where B in [1,5], T in [1,7] { %p = permute %x {axes=[1,0]}\n %r = "
        "reshape %p {shape=[T*B]}\n %i = iota {axis=0, dtype=f32, shape=[B*T]}\n %a = add %r, %i\n "
        "ret %a }",
        "graph @c(%x: f32[T,2]) where T in [1,9] { %a = slice %x {axis=0, start=T//2}\n %b = neg "
        "%a\n "
        "%c = slice %x {axis=0, stop=T-T//2-T%2}\n %d = exp %c\n ret %b, %d }",
        "graph @d(%x: f32[B,T,4]) where B in [1,3], T in [2,9] { %a = slice %x {axis=1, "
        "stop=(T+1)//2}\n %r = reshape %a {shape=[B*((T+1)//2),2,2]}\n %s = sum %r {axis=0}\n %y = "
        "neg %a\n ret %s, %y }",
        "graph @e(%x: f32[T,U]) where T in [1,inf], U in [1,inf] { %a = neg %x\n %b = exp %a\n "
        "ret %b }"};
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_text(list[i], true);
}

#define ENTRY(name) {"@" #name, portable_##name},
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_ELEMENTWISE(kind, ENTRY(name)) IR_OF_REDUCTIONS(kind, ENTRY(name))

static void names_are_found(void **state) {
    static const struct {
        const char *name;
        gen_host_fn fn;
    } all[] = {
#include "ir/ops.def"
        PORTABLE_KERNELS(ENTRY) PORTABLE_X86_KERNELS(ENTRY)};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (compile_builtin_find(all[i].name) != all[i].fn) fail_msg("%s", all[i].name);
    assert_non_null(compile_builtin_find("@attention_portable"));
    assert_null(compile_builtin_find("@reshape"));
    assert_null(compile_builtin_find("add"));
}
#undef OP
#undef ENTRY

/* Products run the kernel of the instruction set that was asked for. */
static void products_name_their_instruction_set(void **state) {
#if defined(__x86_64__)
    static const char *const suffix[] = {[GEN_ISA_PORTABLE] = "",
                                         [GEN_ISA_AVX2] = "_avx2",
                                         [GEN_ISA_AVX512] = "_avx512",
                                         [GEN_ISA_AMX] = "_avx512"};
    (void)state;
    for (size_t isa = 0; isa < sizeof suffix / sizeof *suffix; isa++) {
        lower_options o = {.isa = (gen_isa)isa};
        rp_error err = {0};
        lower_piece p;
        char want[2][40];
        ir_graph *g = parse("graph @e(%x: f32[8,64], %y: f32[64,8]) { %w = param @w : q4_1[40,64]\n"
                            " %d = dequant %w\n %a = matmul %x, %d {trans_b=true}\n"
                            " %b = matmul %x, %y\n ret %a, %b }");
        CHECK_OK(compile_eager.lower(g, &o, &p, &err), &err);
        (void)snprintf(want[0], sizeof want[0], "@matmul_q4_1%s", suffix[isa]);
        (void)snprintf(want[1], sizeof want[1], "@matmul%s", suffix[isa]);
        assert_int_equal(p.n_launches, 2);
        for (uint32_t i = 0; i < 2; i++) assert_string_equal(p.launches[i].alts[0].symbol, want[i]);
        lower_done(&p);
        ir_graph_free(g);
    }
#else
    (void)state;
#endif
}

/* An output is memory of the op that made it, unless another one has that already. */
static void outputs_are_copied_where_they_must_be(void **state) {
    static const struct {
        const char *results;
        uint32_t launches;
    } cases[] = {{"%w, %e", 1}, {"%e, %w", 1}, {"%e, %e", 2}, {"%e, %r", 2}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];
        lower_options o = {.isa = GEN_ISA_PORTABLE};
        rp_error err = {0};
        lower_piece p;
        (void)snprintf(text, sizeof text,
                       "graph @e(%%x: f32[8]) { %%w = param @w : f32[8]\n %%e = exp %%x\n"
                       " %%r = reshape %%e {shape=[2,4]}\n ret %s }",
                       cases[i].results);
        ir_graph *g = parse(text);
        CHECK_OK(compile_eager.lower(g, &o, &p, &err), &err);
        if (p.n_launches != cases[i].launches)
            fail_msg("%s: %u launches", cases[i].results, p.n_launches);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* --- random graphs ---------------------------------------------------------------------- */

static void random_graphs(void **state) {
    random_graph_options all = RANDOM_GRAPH_ALL;
    const char *from = getenv("EAGER_SEED"), *count = getenv("EAGER_COUNT");
    uint64_t first = from ? strtoull(from, NULL, 0) : 1, n = count ? strtoull(count, NULL, 0) : 60;
    (void)state;
    for (uint64_t seed = first; seed < first + n; seed++) {
        rp_error err = {0};
        ir_graph *g;
        random_leaves l;
        char what[32];
        all.symbolic = seed % 4 != 0;
        CHECK_OK(random_graph_new(seed, &all, &g, &err), &err);
        CHECK_OK(random_leaves_new(g, seed * 31 + 7, &l, &err), &err);
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        compare(g, &l, what, seed % 4 == 1 || from);
        random_leaves_done(&l);
        ir_graph_free(g);
    }
}

static void lowering_survives_lost_allocations(void **state) {
    size_t live = base_live();
    ir_graph *g = parse("graph @e(%x: f32[T,64]) where T in [1,40] { %g = param @g : q4_1[40,64]\n "
                        "%d = dequant %g\n"
                        " %a = matmul %x, %d {trans_b=true}\n %s = sum %a {axis=1, keep=true}\n %c "
                        "= mul %a, %s\n ret %c }");
    lower_options o = {.isa = GEN_ISA_PORTABLE};
    (void)state;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        lower_piece p = {0};
        rp_status st = compile_eager.lower(g, &o, &p, &err);
        /* A size that could not be made may also read as one that is not known. */
        if (st == RP_OK)
            lower_done(&p);
        else
            assert_true(st == RP_NOMEM || st == RP_UNSUPPORTED);
    }
    ir_graph_free(g);
    assert_int_equal(base_live(), live);
}

static int set_up(void **state) {
    rp_error err = {0};
    (void)state;
    if (tree_make(folder, sizeof folder) != 0) return -1;
    if (compile_toolchain_find(NULL, &toolchain, &err) != RP_OK ||
        cache_store_open(folder, &store, &err) != RP_OK)
        return -1;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    cache_store_close(store);
    compile_toolchain_done(&toolchain);
    return base_path_remove(folder, NULL) == RP_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(products_name_their_instruction_set),
        cmocka_unit_test(outputs_are_copied_where_they_must_be),
        cmocka_unit_test(every_elementwise_op),
        cmocka_unit_test(casts_between_all_types),
        cmocka_unit_test(reductions),
        cmocka_unit_test(views_and_moves),
        cmocka_unit_test(products),
        cmocka_unit_test(blocks_as_they_are),
        cmocka_unit_test(step_of_a_cache),
        cmocka_unit_test(custom_op),
        cmocka_unit_test(any_size),
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(lowering_survives_lost_allocations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
