#include "support/op_grid.h"

#include <float.h>
#include <math.h>

#include "support/check.h"

/* Who gets the graphs. */
typedef struct taker {
    op_grid_fn *fn;
    void *user;
} taker;

static void returns(op_grid *q, double ulps, double slack, const char *name) {
    assert_true(q->n < OP_GRID_OUTPUTS);
    (void)snprintf(q->out[q->n], sizeof q->out[0], "%s", name);
    q->ulps[q->n] = ulps;
    q->slack[q->n++] = slack;
}

static void finish(op_grid *q) {
    base_buf_puts(&q->text, "  ret ");
    for (uint32_t i = 0; i < q->n; i++)
        base_buf_printf(&q->text, "%s%%%s", i ? ", " : "", q->out[i]);
    base_buf_puts(&q->text, "\n}\n");
}

static void take(const taker *to, op_grid *q, bool special) {
    finish(q);
    q->special = special;
    to->fn(q, to->user);
    base_buf_done(&q->text);
}

void op_grid_special(const ir_graph *g, random_leaves *l) {
    static const double floats[] = {0.0,   -0.0,     1.0,     -1.0,      0.5,     2.5,
                                    -3.5,  INFINITY, NAN,     -INFINITY, FLT_MAX, -FLT_MAX,
                                    1e-42, -1e-42,   FLT_MIN, 65504,     -65520,  2e-7,
                                    100.0, -88.0,    3e9,     -3e9,      16777217};
    static const double ints[] = {0,   1,    -1,    INT32_MIN, INT32_MAX, 65536, -32769, 255,
                                  256, -128, 46341, 16777217,  33562625,  -2049, 65521};
    /* Between floats, between halves, beyond 2^53 where a double rounds, and the ends. */
    static const int64_t wide[] = {0,
                                   1,
                                   -1,
                                   INT64_MIN,
                                   INT64_MAX,
                                   INT64_C(1) << 53,
                                   (INT64_C(1) << 53) + 1,
                                   -(INT64_C(1) << 53) - 1,
                                   INT32_MIN,
                                   INT64_C(4294967296),
                                   255,
                                   -32769,
                                   65521,
                                   2049,
                                   (INT64_C(1) << 54) + (INT64_C(1) << 46) + 1,
                                   INT64_C(3037000500),
                                   -2147483649};
    for (uint32_t i = 0; i < 2 && i < l->n[IR_LEAF_INPUT]; i++) {
        ir_value *v = &l->leaf[IR_LEAF_INPUT][i];
        rp_dtype t = ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i))->dtype;
        bool f = ir_dtype_is_real(t);
        if (t == RP_DTYPE_I64) {
            int64_t many = (int64_t)(sizeof wide / sizeof *wide);
            for (int64_t k = 0; k < v->n; k++)
                ir_value_set_int(v, k, wide[i ? k / many % many : k % many]);
            continue;
        }
        int64_t n = f ? (int64_t)(sizeof floats / sizeof *floats)
                      : (int64_t)(sizeof ints / sizeof *ints);
        for (int64_t k = 0; k < v->n; k++) {
            int64_t at = i ? k / n % n : k % n;
            v->data[k] = ir_round(t, f ? floats[at] : ints[at]);
        }
    }
}

/* --- elementwise ---------------------------------------------------------------------- */

static bool is_integer(const char *type) {
    return type[0] == 'i' || type[0] == 'u';
}

static bool is_small(const char *type) {
    return strstr("i16 i8 u8", type) != NULL;
}

static bool takes_ints(ir_op op, const char *type) {
    return ir_op_on_integers(op) && ir_op_operands(op) != IR_REALS &&
           !(ir_op_is_random(op) && is_small(type));
}

/* Of floats: by comparing them first. */
static bool is_boolean(ir_op op) {
    return ir_op_operands(op) == IR_BITS;
}

static double bound_of(ir_op op, const char *type) {
    const double ulps = ir_op_ulps(op, strcmp(type, "f64") == 0);
    return strcmp(type, "f32") == 0 || strcmp(type, "f64") == 0 ? ulps : ulps > 0 ? 1 : 0;
}

/* How %x and %y come to be. */
static const struct layout {
    const char *name, *inputs, *views;
    bool all_ops;
} layouts[] = {
    {"special", "%%x: %s[17,37], %%y: %s[17,37]", "", true},
    {"dense", "%%x: %s[T,37], %%y: %s[T,37]", "", false},
    {"row", "%%x: %s[T,37], %%y: %s[37]", "", false},
    {"column", "%%x: %s[T,5], %%y: %s[T,1]", "", false},
    {"scalar", "%%x: %s[T], %%y: %s[]", "", false},
    {"slices", "%%a: %s[T,41], %%b: %s[T,50]",
     "  %x = slice %a {axis=1, start=2, stop=39}\n  %y = slice %b {axis=1, start=13}\n", false},
    {"permuted", "%%a: %s[5,T,7], %%b: %s[7,1]",
     "  %x = permute %a {axes=[1,2,0]}\n  %y = broadcast %b {shape=[7,5]}\n", false},
    {"reshaped", "%%a: %s[T,36], %%b: %s[4,18,T]",
     "  %x = reshape %a {shape=[4*T,9]}\n  %p = permute %b {axes=[2,0,1]}\n"
     "  %r = reshape %p {shape=[4*T,18]}\n  %y = slice %r {axis=1, start=9}\n",
     false},
};

static void elementwise_op(op_grid *q, ir_op op, const char *type, bool bits) {
    const ir_op_info *info = ir_op_table(op);
    bool boolean = is_boolean(op) && !bits;
    const char *a = boolean ? "%bx" : "%x", *b = boolean ? "%by" : "%y";
    char name[40];
    (void)snprintf(name, sizeof name, "%s_%s", bits ? "bits" : "op", info->name);
    base_buf_printf(&q->text, "  %%%s = %s ", name, info->name);
    if (op == IR_where)
        base_buf_puts(&q->text, "%bx, %x, %y\n");
    else if (info->arity == 1)
        base_buf_printf(&q->text, "%s\n", a);
    else if (info->arity == 2)
        base_buf_printf(&q->text, "%s, %s\n", a, b);
    else
        base_buf_printf(&q->text, "%s, %s, %%x\n", a, b);
    returns(q, bound_of(op, type), 0, name);
}

static void casts(op_grid *q, const char *from) {
    static const char *const types[] = {"f32", "f16", "bf16", "i64", "i32",      "i16",
                                        "i8",  "u8",  "bool", "f64", "f8e4m3fn", "f8e5m2"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[16];
        if (strcmp(types[i], from) == 0) continue;
        (void)snprintf(name, sizeof name, "to_%s", types[i]);
        base_buf_printf(&q->text, "  %%%s = cast %%x {dtype=%s}\n", name, types[i]);
        returns(q, 0, 0, name);
    }
}

static void elementwise(const taker *to, const char *type, const struct layout *how) {
    static op_grid q;
    q = (op_grid){0};
    bool ints = is_integer(type);
    base_buf_init(&q.text, 0);
    base_buf_puts(&q.text, "graph @g(");
    base_buf_printf(&q.text, how->inputs, type, type);
    base_buf_printf(&q.text, ")%s {\n%s", strstr(how->inputs, "T") ? " where T in [1,64]" : "",
                    how->views);
    base_buf_puts(&q.text, "  %bx = lt %x, %y\n  %by = ne %y, %y\n");
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        if (ir_op_table((ir_op)op)->kind != IR_KIND_ELEMENTWISE || op == IR_cast ||
            op == IR_bitcast)
            continue;
        /* Layouts are about addresses: the cheap ops show them as well as all. */
        if (!how->all_ops && ir_op_ulps((ir_op)op, false) > 0 && op != IR_exp) continue;
        if (ints ? takes_ints((ir_op)op, type) : ir_op_on_floats((ir_op)op))
            elementwise_op(&q, (ir_op)op, type, false);
        if (ints && is_boolean((ir_op)op)) elementwise_op(&q, (ir_op)op, type, true);
    }
    if (how->all_ops) casts(&q, type);
    take(to, &q, strcmp(how->name, "special") == 0);
}

void op_grid_elementwise(op_grid_fn *fn, void *user) {
    const taker all = {fn, user}, *to = &all;
    static const char *const types[] = {"f32", "f16", "bf16", "i32", "i64",
                                        "f64", "i16", "i8",   "u8"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
            if (t == 0 || i == 0 || i == 3 + t) elementwise(to, types[t], &layouts[i]);
}

/* --- reductions ---------------------------------------------------------------------- */

static void reductions(const taker *to, const char *type, const char *shape, int rank) {
    static const char *const ops[] = {"sum", "prod", "amax", "amin", "argmax"};
    static op_grid q;
    q = (op_grid){0};
    bool ints = is_integer(type);
    base_buf_init(&q.text, 0);
    base_buf_printf(&q.text, "graph @g(%%x: %s%s) where T in [1,64] {\n", type, shape);
    for (int axis = 0; axis < rank; axis++)
        for (size_t o = 0; o < 5; o++) {
            char name[40];
            (void)snprintf(name, sizeof name, "%s_%d", ops[o], axis);
            base_buf_printf(&q.text, "  %%%s = %s %%x {axis=%d, keep=%s}\n", name, ops[o], axis,
                            (o + (size_t)axis) % 2 ? "true" : "false");
            /* sums of up to 300 values under 1 */
            bool inexact = o < 2 && !ints;
            returns(&q, inexact ? (o == 0 ? 1 : 40) : 0,
                    inexact && o == 0 ? strcmp(type, "f64") == 0 ? 1e-12 : 300 * 1e-7 : 0, name);
        }
    take(to, &q, false);
}

void op_grid_reductions(op_grid_fn *fn, void *user) {
    const taker all = {fn, user}, *to = &all;
    static const char *const types[] = {"f32", "f16", "bf16", "i32", "i64",
                                        "f64", "i16", "i8",   "u8"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        if (t < 3 || t > 5) reductions(to, types[t], "[T,3,70]", 3);
        reductions(to, types[t], "[T,300]", 2);
        reductions(to, types[t], "[33]", 1);
    }
}

/* --- products --------------------------------------------------------------------------- */

/* x[T,k] against n columns of weights; `cast` rounds x first. */
static void product(op_grid *q, const char *type, int64_t n, int64_t k, bool rows_packed) {
    bool quant = type[0] == 'q';
    char name[40];
    uint32_t i = q->n;
    base_buf_printf(&q->text, "  %%w%u = param @w%u : %s[%lld,%lld]\n", i, i, type, (long long)n,
                    (long long)k);
    if (quant) base_buf_printf(&q->text, "  %%d%u = dequant %%w%u\n", i, i);
    (void)snprintf(name, sizeof name, "m%u", i);
    base_buf_printf(&q->text, "  %%%s = matmul %%%s, %%%c%u {trans_b=true}\n", name,
                    rows_packed                 ? "xd"
                    : strcmp(type, "bf16") == 0 ? "xb"
                                                : "x",
                    quant ? 'd' : 'w', i);
    returns(q, 4, (double)k * 2e-7, name);
}

static void products(const taker *to, int64_t k) {
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"};
    static const int64_t columns[] = {1, 31, 32, 33, 96};
    static op_grid q;
    q = (op_grid){0};
    base_buf_init(&q.text, 0);
    base_buf_printf(
        &q.text, "graph @g(%%x: f32[T,%lld]) where T in [1,64] {\n  %%xb = cast %%x {dtype=bf16}\n",
        (long long)k);
    if (k % 32 == 0)
        base_buf_puts(&q.text, "  %xi = quantize %x {dtype=i16b32}\n  %xd = dequant %xi\n");
    for (size_t t = 0; t < 6; t++)
        for (size_t c = 0; c < 5; c++) {
            if (types[t][0] == 'q' && k % 32) continue;
            if (c % 2 == t % 2 || c == 4) product(&q, types[t], columns[c], k, false);
            if (k % 32 == 0 && c % 2 != t % 2) product(&q, types[t], columns[c], k, true);
        }
    take(to, &q, false);
}

void op_grid_products(op_grid_fn *fn, void *user) {
    const taker all = {fn, user}, *to = &all;
    products(to, 32);
    products(to, 160);
    products(to, 7);
    products(to, 75);
}

/* --- scans -------------------------------------------------------------------------------- */

/* Along every axis; over more than one chunk where the last is long. Top-k alone and as one kernel, of values and of a
 * view, with ties and special values where `special`. */
static void scans(const taker *to, const char *type, const char *shape, int rank, int k,
                  bool special) {
    static op_grid q;
    q = (op_grid){0};
    bool ints = type[0] == 'i';
    bool wide = strcmp(type, "f64") == 0;
    double slack = ints || special ? 0 : wide ? 1e-12 : 2e-4;
    base_buf_init(&q.text, 0);
    base_buf_printf(&q.text, "graph @g(%%x: %s%s) where T in [1,64] {\n", type, shape);
    for (int axis = 0; axis < rank && !special; axis++) {
        char name[16];
        (void)snprintf(name, sizeof name, "c%d", axis);
        base_buf_printf(&q.text, "  %%%s = cumsum %%x {axis=%d}\n", name, axis);
        returns(&q, ints ? 0 : 1, slack, name);
    }
    for (int axis = 0; axis < rank; axis++) {
        base_buf_printf(&q.text,
                        "  %%s%d = sort %%x {axis=%d, descending=%s}\n"
                        "  %%p%d = result %%s%d {index=1}\n",
                        axis, axis, axis & 1 ? "true" : "false", axis, axis);
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", axis);
        returns(&q, 0, 0, name);
        (void)snprintf(name, sizeof name, "p%d", axis);
        returns(&q, 0, 0, name);
    }
    if (wide || strcmp(type, "i64") == 0) { /* no top-k */
        take(to, &q, special);
        return;
    }
    base_buf_printf(
        &q.text,
        "  %%n = neg %%x\n  %%v = topk %%x {k=%d}\n  %%i = result %%v {index=1}\n"
        "  %%w = topk %%n {k=1}\n  %%o = topk %%n {k=%d}\n  %%j = result %%o {index=1}\n",
        k, k);
    returns(&q, 0, 0, "v");
    returns(&q, 0, 0, "i");
    returns(&q, 0, 0, "w");
    returns(&q, 0, 0, "j");
    take(to, &q, special);
}

/* Elements of every type at indices with equals, one for each, for each row, or for each column, or for each row of wide ones;
 * every op that has the type. */
static void scatters(const taker *to, const char *type, const char *index) {
    static const char *const names[] = {"scatter", "scatter_add", "scatter_prod", "scatter_amax",
                                        "scatter_amin"};
    bool joins = strstr("f32 f64 i32 i64 i16 i8 u8", type) != NULL, wide = strcmp(type, "f64") == 0;
    op_grid q = {0};
    base_buf_init(&q.text, 0);
    base_buf_printf(&q.text,
                    "graph @scatters(%%x: %s[3,T,19], %%s: %s[3,T,19], %%i: %s[3,T,19]) where T in "
                    "[1,64] {\n  %%f = iota {axis=1, dtype=i32, shape=[1,T,1]}\n"
                    "  %%e = iota {axis=1, dtype=i32, shape=[3,T,1]}\n"
                    "  %%three = const 3 : i32[]\n  %%h = remainder %%f, %%three\n"
                    "  %%j = remainder %%e, %%three\n  %%u = iota {axis=2, dtype=i32, "
                    "shape=[1,1,19]}\n  %%v = floor_divide %%u, %%three\n"
                    "  %%two = const 2 : i32[]\n  %%d = iota {axis=0, dtype=i32, shape=[3,1,1]}\n"
                    "  %%w = floor_divide %%d, %%two\n",
                    type, type, index);
    for (int op = 0; op < (joins ? 5 : 1); op++) {
        const char *at[] = {"i", "h", "j", "v", "w"};
        const int axis[] = {1, 1, 1, 2, 0};
        for (int k = 0; k < 5; k++) {
            char name[32];
            (void)snprintf(name, sizeof name, "y%d%d", op, k);
            base_buf_printf(&q.text, "  %%%s = %s %%x, %%%s, %%s {axis=%d}\n", name, names[op],
                            at[k], axis[k]);
            /* The interpreter rounds each sum and product, too. */
            returns(&q, wide ? 1 : 0, 0, name);
        }
    }
    take(to, &q, false);
}

/* More rows, and columns with indices of their own, than are looked at before any is joined. */
static void long_scatter(const taker *to) {
    op_grid q = {0};
    base_buf_init(&q.text, 0);
    base_buf_puts(&q.text, "graph @rows(%x: i32[50,3], %s: i32[700,3], %c: i32[3,600]) {\n"
                           "  %e = iota {axis=0, dtype=i32, shape=[700,1]}\n"
                           "  %n = const 47 : i32[]\n  %i = remainder %e, %n\n"
                           "  %y = scatter_add %x, %i, %s {axis=0}\n"
                           "  %two = const 2 : i32[]\n  %j = remainder %c, %two\n"
                           "  %z = scatter_add %c, %j, %c {axis=0}\n");
    returns(&q, 0, 0, "y");
    returns(&q, 0, 0, "z");
    take(to, &q, false);
}

/* Of nothing there are no lines, however many parts there are of it. */
static void empty_scatter(const taker *to) {
    op_grid q = {0};
    base_buf_init(&q.text, 0);
    base_buf_puts(&q.text, "graph @nothing(%x: f64[600,5,0], %s: f64[600,2,0], %i: i64[600,2,0], "
                           "%j: i64[600,2,1]) {\n"
                           "  %y = scatter_amax %x, %i, %s {axis=1}\n"
                           "  %z = scatter %x, %j, %s {axis=1}\n");
    returns(&q, 0, 0, "y");
    returns(&q, 0, 0, "z");
    take(to, &q, false);
}

void op_grid_scatters(op_grid_fn *fn, void *user) {
    const taker all = {fn, user}, *to = &all;
    static const char *const types[] = {"f32", "f16", "bf16", "f64",  "i32",   "i64",
                                        "i16", "u8",  "i8",   "bool", "f8e5m2"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        scatters(to, types[t], t & 1 ? "i64" : "i32");
    long_scatter(to);
    empty_scatter(to);
}

/* Numbers of four bits, two a byte: of memory, of views, of what is computed before and for what is computed behind, of rows and
 * of none. */
void op_grid_fours(op_grid_fn *fn, void *user) {
    const taker all = {fn, user}, *to = &all;
    static const char *const types[] = {"i8", "u8"};
    static const char *const shapes[] = {"[T,4,14]", "[T,2]",   "[606]",
                                         "[0,4]",    "[3,2*T]", "[1,1,2,1,T,6]"};
    static const char *const halves[] = {"[T,4,7]", "[T,1]", "[303]",
                                         "[0,2]",   "[3,T]", "[1,1,2,1,T,3]"};
    for (size_t i = 0; i < 12; i++) {
        const char *type = types[i % 2], *other = types[i % 4 < 2];
        op_grid q = {0};
        base_buf_init(&q.text, 0);
        base_buf_printf(
            &q.text,
            "graph @fours(%%x: %s%s, %%b: u8%s) where T in [1,64] {\n"
            "  %%p = pack_i4 %%x\n  %%u = unpack_i4 %%b {dtype=%s}\n"
            "  %%n = not %%x\n  %%q = pack_i4 %%n\n  %%m = not %%b\n  %%v = unpack_i4 %%m "
            "{dtype=%s}\n"
            "  %%f = cast %%v {dtype=f32}\n  %%e = exp %%f\n"
            "  %%s = add %%u, %%u\n  %%a = pack_i4 %%s\n  %%c = unpack_i4 %%p {dtype=%s}\n",
            type, shapes[i / 2], halves[i / 2], type, other, type);
        returns(&q, 0, 0, "p");
        returns(&q, 0, 0, "u");
        returns(&q, 0, 0, "q");
        returns(&q, 2, 0, "e");
        returns(&q, 0, 0, "a");
        returns(&q, 0, 0, "c");
        if (i < 2) {
            base_buf_puts(&q.text,
                          "  %t = permute %x {axes=[1,2,0]}\n  %t2 = concat %t, %t {axis=2}\n"
                          "  %h = slice %x {axis=2, start=3, stop=9}\n  %k = pack_i4 %h\n"
                          "  %w = pack_i4 %t2\n  %d = permute %x {axes=[0,2,1]}\n"
                          "  %j = pack_i4 %d\n  %g = permute %b {axes=[2,0,1]}\n"
                          "  %y = unpack_i4 %g {dtype=i8}\n  %z = cast %y {dtype=i32}\n"
                          "  %r = sum %z {axis=2}\n  %l = sum %z {axis=1}\n");
            returns(&q, 0, 0, "j");
            returns(&q, 0, 0, "k");
            returns(&q, 0, 0, "w");
            returns(&q, 0, 0, "r");
            returns(&q, 0, 0, "l");
        }
        take(to, &q, false);
    }
}

void op_grid_scans(op_grid_fn *fn, void *user) {
    const taker all = {fn, user}, *to = &all;
    static const char *const types[] = {"f32", "f16", "bf16", "i32", "i16", "i8", "u8"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        scans(to, types[t], "[17,23]", 2, 23, true);
        scans(to, types[t], "[T,70]", 2, 8, false);
    }
    scans(to, "i64", "[17,23]", 2, 8, true);
    scans(to, "i64", "[T,70]", 2, 8, false);
    scans(to, "f64", "[17,23]", 2, 8, true);
    scans(to, "f64", "[3,T,70]", 3, 8, false);
    scans(to, "f64", "[2,9000]", 2, 8, false);
    scans(to, "f32", "[2,T,5,33]", 4, 33, false);
    scans(to, "f32", "[2,9000]", 2, 100, false);
    scans(to, "f32", "[5000,3]", 2, 3, false);
    scans(to, "f32", "[37]", 1, 1, false);
}
