/* What GPUs are given: the grid of ops, random graphs, loops and branches, and what has a form of its own there (scans, sorting, top-k and scatters along
 * every axis, lines longer than a tile or a chunk, products of two computed operands at every stride). Compiled for sm_90 where
 * NVRTC is found; run on a GPU, or in small on the emulated one, where the bits are those of the cpu. */
#include "support/check.h"
#include "support/control_cases.h"
#include "support/gpu.h"
#include "support/gpu_graphs.h"
#include "support/op_grid.h"
#include "support/random_effects.h"
#include "support/random_ranks.h"
#include "support/random_types.h"
#include "support/thorough.h"

/* --- graphs -------------------------------------------------------------------------- */

typedef struct listing {
    base_buf text, ret;
    uint32_t n;
} listing;

static void begin(listing *l, const char *inputs) {
    *l = (listing){0};
    base_buf_init(&l->text, 0);
    base_buf_init(&l->ret, 0);
    base_buf_printf(&l->text, "graph @g(%s) where T in [1,64] {\n", inputs);
}

static void out(listing *l, const char *op) {
    base_buf_printf(&l->text, "  %%v%u = %s\n", l->n, op);
    base_buf_printf(&l->ret, "%s%%v%u", l->n ? ", " : "", l->n);
    l->n++;
}

/* And its second result. */
static void both_out(listing *l, const char *op) {
    char second[64];
    (void)snprintf(second, sizeof second, "result %%v%u {index=1}", l->n);
    out(l, op);
    out(l, second);
}

static void finish(listing *l, gpu_graphs *q) {
    base_buf_printf(&l->text, "  ret %s\n}\n", l->ret.data);
    gpu_graphs_add_text(q, l->text.data, false);
    base_buf_done(&l->text);
    base_buf_done(&l->ret);
}

/* Along each axis of [T, 5, 40] and along a long line; x has ties. */
static void scans(gpu_graphs *q, const char *type, bool small) {
    char inputs[160], op[128];
    bool f64 = strcmp(type, "f64") == 0, i64 = strcmp(type, "i64") == 0;
    listing l;
    (void)snprintf(inputs, sizeof inputs, "%%a: f32[T,5,40], %%b: f32[2,%d]", small ? 4200 : 9000);
    begin(&l, inputs);
    for (int i = 0; i < 2; i++) {
        base_buf_printf(&l.text,
                        "  %%s%d = const 8\n  %%r%d = mul %%%c, %%s%d\n  %%f%d = round %%r%d\n", i,
                        i, 'a' + i, i, i, i);
        base_buf_printf(&l.text, "  %%%c = %s %%f%d%s%s%s\n", 'x' + i,
                        strcmp(type, "f32") ? "cast" : "neg", i,
                        strcmp(type, "f32") ? " {dtype=" : "", strcmp(type, "f32") ? type : "",
                        strcmp(type, "f32") ? "}" : "");
    }
    for (int axis = 0; axis < 3; axis++) {
        (void)snprintf(op, sizeof op, "cumsum %%x {axis=%d}", axis);
        out(&l, op);
        (void)snprintf(op, sizeof op, "sort %%x {axis=%d, descending=%s}", axis,
                       axis == 1 ? "true" : "false");
        both_out(&l, op);
    }
    out(&l, "cumsum %y {axis=1}");
    both_out(&l, "sort %y {axis=1, descending=true}");
    both_out(&l, "sort %y {axis=1}");
    if (!f64 && !i64) {
        both_out(&l, "topk %x {k=1}");
        both_out(&l, "topk %x {k=3}");
        both_out(&l, "topk %x {k=40}");
        both_out(&l, "topk %y {k=1}");
        both_out(&l, "topk %y {k=5}");
        both_out(&l, "topk %y {k=50}");
    }
    finish(&l, q);
}

/* Into every axis, with indices of their own and shared ones, more than a tile of them, beyond both ends. */
static void scatters(gpu_graphs *q, const char *type, const char *join, const char *index) {
    static const char inputs[] =
        "%a: f32[T,7,40], %b: f32[T,90,40], %i: i32[T,90,40], %c: f32[3,7], %d: f32[3,1500], "
        "%j: i32[1500], %k: i32[90]";
    static const char names[] = "abcd";
    bool plain = strcmp(type, "f32") == 0, wide = strcmp(index, "i64") == 0;
    char op[160];
    listing l;
    begin(&l, inputs);
    for (int i = 0; i < 4; i++) {
        base_buf_printf(&l.text, "  %%e%d = const 4\n  %%m%d = mul %%%c, %%e%d\n", i, i, names[i],
                        i);
        base_buf_printf(&l.text, "  %%%c = %s %%m%d%s%s%s\n", 'w' + i, plain ? "neg" : "cast", i,
                        plain ? "" : " {dtype=", plain ? "" : type, plain ? "" : "}");
    }
    for (int i = 0; i < 3; i++) /* -8 .. 55 */
        base_buf_printf(&l.text,
                        "  %%n%d = const 8 : i32[]\n  %%o%d = sub %%%c, %%n%d\n  %%p%d = %s "
                        "%%o%d%s\n",
                        i, i, 'i' + i, i, i, wide ? "cast" : "neg", i, wide ? " {dtype=i64}" : "");
    base_buf_puts(&l.text, "  %s0 = reshape %p2 {shape=[1,90,1]}\n"
                           "  %s1 = reshape %p1 {shape=[1,1500]}\n"
                           "  %s2 = slice %s0 {axis=1, start=0, stop=7}\n"
                           "  %s3 = reshape %s2 {shape=[7,1,1]}\n"
                           "  %t0 = permute %w {axes=[1,0,2]}\n");
    (void)snprintf(op, sizeof op, "%s %%w, %%p0, %%x {axis=1}", join);
    out(&l, op);
    (void)snprintf(op, sizeof op, "%s %%w, %%s0, %%x {axis=1}", join);
    out(&l, op);
    (void)snprintf(op, sizeof op, "%s %%y, %%s1, %%z {axis=1}", join);
    out(&l, op);
    (void)snprintf(op, sizeof op, "%s %%t0, %%s3, %%t0 {axis=0}", join);
    out(&l, op);
    finish(&l, q);
}

/* Where blocks share the targets of a line: indices that go over the targets and beyond both ends, that are more than a block looks at
 * at once, and that are nearly all of few targets, so that its list has no room for them; rows of more than one part, lines with
 * indices of their own, and so many of those that each thread has one. */
static void shared_scatters(gpu_graphs *q, const char *type, const char *join, const char *index) {
    static const char inputs[] = "%a: f32[100,3], %b: f32[9000,3], %i: i32[9000], %c: f32[20,150], "
                                 "%d: f32[70,150], %e: f32[2,9,1100], %f: f32[2,21,1100]";
    static const char names[] = "abcdef";
    static const char *const ops[] = {
        "%s %%g, %%spread, %%h {axis=0}", /* a row has an index */
        "%s %%g, %%few, %%h {axis=0}",    /* .. few have */
        "%s %%t, %%along, %%u {axis=1}",  /* an element of lines behind each other */
        "%s %%j, %%rows, %%k {axis=0}",   /* parts of wide rows */
        "%s %%j, %%own, %%k {axis=0}",    /* lines between each other */
        "%s %%l, %%lines, %%m {axis=1}",  /* so many */
    };
    static const char to[] = "ghjklm";
    const bool plain = strcmp(type, "f32") == 0;
    char op[160];
    listing l;
    begin(&l, inputs);
    for (int i = 0; i < 6; i++)
        base_buf_printf(&l.text,
                        "  %%e%d = const 4\n  %%m%d = mul %%%c, %%e%d\n  %%%c = %s %%m%d%s%s%s\n",
                        i, i, names[i], i, to[i], plain ? "neg" : "cast", i,
                        plain ? "" : " {dtype=", plain ? "" : type, plain ? "" : "}");
    base_buf_printf(
        &l.text,
        "  %%n0 = iota {axis=0, dtype=i32, shape=[9000]}\n  %%n1 = const 37 : i32[]\n"
        "  %%n2 = mul %%n0, %%n1\n  %%n3 = add %%n2, %%i\n  %%n4 = const 113 : i32[]\n"
        "  %%n5 = remainder %%n3, %%n4\n  %%n6 = const 6 : i32[]\n  %%n7 = sub %%n5, %%n6\n"
        "  %%n8 = const 9 : i32[]\n  %%n9 = floor_divide %%i, %%n8\n"
        "  %%q0 = cast %%n7 {dtype=%s}\n  %%q1 = cast %%n9 {dtype=%s}\n"
        "  %%spread = reshape %%q0 {shape=[9000,1]}\n  %%few = reshape %%q1 {shape=[9000,1]}\n"
        "  %%q2 = slice %%q0 {axis=0, start=0, stop=4500}\n"
        "  %%along = reshape %%q2 {shape=[3,1500]}\n"
        "  %%t = permute %%g {axes=[1,0]}\n  %%u0 = permute %%h {axes=[1,0]}\n"
        "  %%u = slice %%u0 {axis=1, start=0, stop=1500}\n"
        "  %%q3 = slice %%q1 {axis=0, start=0, stop=70}\n  %%rows = reshape %%q3 {shape=[70,1]}\n"
        "  %%r0 = iota {axis=0, dtype=i32, shape=[70,150]}\n"
        "  %%r1 = iota {axis=1, dtype=i32, shape=[70,150]}\n  %%r2 = mul %%r0, %%r1\n"
        "  %%r3 = const 23 : i32[]\n  %%r4 = remainder %%r2, %%r3\n"
        "  %%own = cast %%r4 {dtype=%s}\n"
        "  %%w0 = iota {axis=1, dtype=i32, shape=[2,21,1100]}\n"
        "  %%w1 = iota {axis=2, dtype=i32, shape=[2,21,1100]}\n  %%w7 = mul %%w0, %%w1\n"
        "  %%w8 = iota {axis=0, dtype=i32, shape=[2,21,1100]}\n  %%w2 = add %%w7, %%w8\n"
        "  %%w3 = const 12 : i32[]\n  %%w4 = remainder %%w2, %%w3\n"
        "  %%w5 = const 1 : i32[]\n  %%w6 = sub %%w4, %%w5\n  %%lines = cast %%w6 {dtype=%s}\n",
        index, index, index, index);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        (void)snprintf(op, sizeof op, ops[i], join);
        out(&l, op);
    }
    finish(&l, q);
}

/* Rows longer than a block holds: sums of whole chunks and parts of one, of more of them than blocks have halves of warps, zeros of either sign
 * (of rows that are not made in runs) and values of which one is no number, where only the order says which is the largest. */
static void long_rows(gpu_graphs *q, const char *type, bool small) {
    static const char *const reduces[] = {"sum", "amax", "amin", "argmax"};
    const int lengths[] = {9000, 12288, small ? 40001 : 270001};
    const int rows[] = {small ? 9 : 70, small ? 9 : 70, 2};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i += small ? 2 : 1) {
        char inputs[64], op[96];
        listing l;
        (void)snprintf(inputs, sizeof inputs, "%%a: f32[%d,%d]", rows[i], lengths[i]);
        begin(&l, inputs);
        base_buf_printf(
            &l.text,
            "  %%e = abs %%a\n  %%c = const 50\n  %%d = mul %%a, %%c\n  %%x = cast %%d {dtype=%s}\n"
            "  %%z = const 0\n  %%o = mul %%%s, %%z\n  %%zeros = cast %%o {dtype=%s}\n"
            "  %%f = sub %%e, %%a\n  %%r = div %%f, %%f\n"
            "  %%odd = cast %%r {dtype=%s}\n",
            type, i < 2 ? "a" : "e", type, type);
        for (size_t k = 0; k < sizeof reduces / sizeof *reduces; k++) {
            (void)snprintf(op, sizeof op, "%s %%x {axis=1, keep=false}", reduces[k]);
            out(&l, op);
            (void)snprintf(op, sizeof op, "%s %%zeros {axis=1, keep=false}", reduces[k]);
            out(&l, op);
            (void)snprintf(op, sizeof op, "%s %%odd {axis=1, keep=false}", reduces[k]);
            if (strcmp(type, "f32") == 0 || strcmp(type, "f64") == 0) out(&l, op);
        }
        finish(&l, q);
    }
}

/* A maximum and a minimum in front of the sum that reads the same: these go from the end on. */
static void long_softmax(gpu_graphs *q, int rows, int length) {
    char text[400];
    (void)snprintf(
        text, sizeof text,
        "graph @g(%%a: f32[%d,%d]) {\n  %%m = amax %%a {axis=1, keep=true}\n"
        "  %%n = amin %%a {axis=1, keep=true}\n  %%d = sub %%a, %%m\n  %%e = exp %%d\n"
        "  %%s = sum %%e {axis=1, keep=true}\n  %%r = add %%s, %%n\n  ret %%m, %%n, %%r\n}\n",
        rows, length);
    gpu_graphs_add_text(q, text, false);
}

/* Both operands computed: layouts, batches that are shared, chunks of k and an epilogue. */
static void products(gpu_graphs *q, const char *x, const char *w) {
    static const char inputs[] = "%a: f32[2,T,300], %b: f32[2,300,37], %c: f32[37,300], %d: "
                                 "f32[T,3,40], %e: f32[T,3,40], %f: f32[37]";
    listing l;
    begin(&l, inputs);
    base_buf_printf(&l.text,
                    "  %%x = cast %%a {dtype=%s}\n  %%w = cast %%b {dtype=%s}\n"
                    "  %%n = cast %%c {dtype=%s}\n  %%h = cast %%d {dtype=%s}\n"
                    "  %%g = cast %%e {dtype=%s}\n",
                    x, w, w, x, w);
    base_buf_puts(&l.text, "  %hp = permute %h {axes=[1,0,2]}\n  %gp = permute %g {axes=[1,0,2]}\n"
                           "  %r = slice %x {axis=2, start=20, stop=60}\n"
                           "  %s = slice %w {axis=1, start=3, stop=43}\n");
    out(&l, "matmul %x, %w");
    out(&l, "matmul %x, %n {trans_b=true}");
    out(&l, "matmul %hp, %gp {trans_b=true}");
    out(&l, "matmul %r, %s");
    base_buf_puts(&l.text, "  %m = matmul %x, %w\n  %y = mul %m, %m\n");
    out(&l, "add %y, %f");
    finish(&l, q);
}

/* Rows by packed weights of `type`: y = x w, and of two matrices sigmoid(x v) (x w). */
static void packed(gpu_graphs *q, const char *rows, int k, int columns, const char *x,
                   const char *type, bool both) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "graph @g(%%x: %s[%s,%d])%s {\n", x, rows, k,
                    strcmp(rows, "T") ? "" : " where T in [1,200]");
    base_buf_printf(&b, "  %%w = param @w : %s[%d,%d]\n", type, columns, k);
    base_buf_puts(&b, "  %y = matmul %x, %w {trans_b=true}\n");
    if (both)
        base_buf_printf(&b,
                        "  %%v = param @v : %s[%d,%d]\n  %%z = matmul %%x, %%v {trans_b=true}\n"
                        "  %%s = sigmoid %%z\n  %%m = mul %%s, %%y\n",
                        type, columns, k);
    base_buf_printf(&b, "  ret %s\n}\n", both ? "%m" : "%y");
    gpu_graphs_add_text(q, b.data, false);
    base_buf_done(&b);
}

/* A product of n matrices. */
static void strided(gpu_graphs *q, int n, int rows, int k, int columns, bool trans) {
    char text[256];
    (void)snprintf(text, sizeof text,
                   "graph @g(%%x: f32[%d,%d,%d], %%w: f32[%d,%d,%d]) {\n"
                   "  %%y = matmul %%x, %%w%s\n  ret %%y\n}\n",
                   n, rows, k, n, trans ? columns : k, trans ? k : columns,
                   trans ? " {trans_b=true}" : "");
    gpu_graphs_add_text(q, text, false);
}

/* Few rows (few.cu): of every number of chains a thread may have, a chunk and parts of one, more chunks than there is memory for. */
static void few(gpu_graphs *q) {
    packed(q, "1", 2201, 40, "f32", "f32", false);
    packed(q, "2", 100, 40, "f32", "f16", false);
    packed(q, "3", 300, 40, "bf16", "bf16", true);
    packed(q, "4", 512, 16, "f16", "f32", false);
    packed(q, "7", 5000, 33, "f32", "f32", false);
}

/* Every size of a tile (tile.cu), rows of several and of a part of one, whole chunks of k and parts of one for each number of
 * groups, rows that may be copied by four elements and not. */
static void tiles(gpu_graphs *q, bool small) {
    packed(q, "T", 576, 40, "f32", "f32", false);
    packed(q, "40", 2201, 40, "f32", "f32", false);
    packed(q, "100", 300, 40, "f32", "f16", true);
    packed(q, "33", 1100, 64, "f16", "f32", false);
    packed(q, "33", 40, 8448, "f32", "f32", true);
    packed(q, "20", 4400, 64, "f32", "bf16", false);
    strided(q, 70, 34, 260, 36, false);
    strided(q, 3, 35, 1540, 37, true);
    if (small) return;
    packed(q, "130", 300, 1440, "f32", "f32", false);
    packed(q, "130", 1024, 1440, "f32", "f32", false);
    packed(q, "130", 700, 1440, "f32", "bf16", true);
    packed(q, "T", 2050, 64, "f32", "bf16", false);
    packed(q, "8", 1300, 70, "f32", "f32", false);
    packed(q, "200", 2304, 32, "f32", "f32", true);
    packed(q, "140", 600, 8512, "f32", "bf16", true);
    packed(q, "64", 2304, 128, "f32", "f32", false);
    packed(q, "70", 1100, 100, "f32", "f32", true);
    packed(q, "130", 5632, 192, "f32", "f32", false);
    strided(q, 70, 130, 64, 130, true);
    strided(q, 70, 65, 257, 66, true);
    strided(q, 1, 40, 2600, 300, false);
}

/* What no kernel writes on the cpu: leaves, views of them, memory, one value twice, and what passes find to be a leaf. */
static void returns(gpu_graphs *q) {
    gpu_graphs_add_text(
        q,
        "graph @g(%x: f32[T,3], %m: f32[4] mutates) where T in [1,64] {\n  %w = param @w : f32[5]\n"
        "  %s = state @s : f32[4]\n  %n = neg %x\n  %z = const 0\n  %v = sub %w, %z\n"
        "  %a = update %s, %m\n  %b = update %m, %a\n  %y = reshape %x {shape=[3,T]}\n"
        "  %c = reshape %a {shape=[4]}\n  %d = broadcast %b {shape=[4]}\n"
        "  ret %x, %w, %n, %n, %n, %x, %v, %a, %b, %y, %c, %d\n}\n",
        false);
}

static void take_control(const char *text, void *q) {
    gpu_graphs_add_text(q, text, false);
}

/* Launched and as graphs. */
static void loops_and_branches(gpu_graphs *q) {
    control_each(take_control, q);
    gpu_graphs_add_text(q, control_wide, false);
}

/* Values that lie across those beside them, which a block reads together; of these some are known before, some are looked up. */
static void across(gpu_graphs *q) {
    static const char inputs[] =
        "%a: bf16[128,96], %b: f32[128,96], %y: f32[96,128], %z: f32[96,128], %i: i32[96]";
    listing l;
    begin(&l, inputs);
    base_buf_puts(&l.text, "  %pa = permute %a {axes=[1,0]}\n  %c = cast %pa {dtype=f32}\n"
                           "  %pb = permute %b {axes=[1,0]}\n  %m = mul %pb, %z\n"
                           "  %g = gather %y, %i\n");
    out(&l, "add %c, %y");
    out(&l, "add %m, %y");
    out(&l, "add %c, %g");
    finish(&l, q);
    /* Loops within those whose iterations are all written out. */
    gpu_graphs_add_text(q,
                        "graph @g(%x: f32[64,32], %y: f32[64,8,32,4]) {\n  %e = exp %x\n"
                        "  %b = reshape %e {shape=[64,1,32,1]}\n  %m = mul %y, %b\n"
                        "  %s = amax %m {axis=3}\n  ret %m, %s\n}\n",
                        false);
}

static void every_form(gpu_graphs *q, bool small) {
    static const char *const types[] = {"f32", "i64", "f64", "bf16", "f16", "i32"};
    static const char *const values[] = {"f32", "i64", "f64", "i32"};
    static const char *const joins[] = {"scatter_add", "scatter_prod", "scatter_amax",
                                        "scatter_amin"};
    for (size_t i = 0; i < (small ? 3 : 6); i++) scans(q, types[i], small);
    for (size_t t = 0; t < (small ? 1 : 4); t++)
        for (size_t j = 0; j < (small ? 1 : THOROUGH() ? 4 : 2); j++)
            scatters(q, values[t], joins[(j + t) % 4], (t + j) % 2 ? "i64" : "i32");
    for (size_t i = 0; i < (small ? 0 : 6); i++) scatters(q, types[i], "scatter", "i64");
    if (!small) scatters(q, "bool", "scatter", "i32");
    shared_scatters(q, "f32", "scatter_add", "i64");
    shared_scatters(q, "i8", "scatter", "i32");
    for (size_t i = 0; i < (small ? 0 : 4); i++) {
        static const char *const others[] = {"i16", "f64", "i64", "bool"};
        shared_scatters(q, others[i], i < 3 ? joins[i + 1] : "scatter", i % 2 ? "i64" : "i32");
    }
    for (size_t i = 0; i < (small ? 1 : 4); i++) long_rows(q, values[i], small);
    long_softmax(q, 130, 8193);
    if (!small) long_softmax(q, 200, 33000);
    products(q, "f32", "f32");
    across(q);
    few(q);
    tiles(q, small);
    returns(q);
    if (small) return;
    loops_and_branches(q);
    products(q, "bf16", "f32");
    products(q, "f16", "bf16");
}

/* --- what other tests run -------------------------------------------------------------- */

static void take_grid(const op_grid *g, void *user) {
    gpu_graphs_add_text(user, g->text.data, g->special);
}

/* Of the grid the graphs of types of 8 and 16 bits. */
static void take_small(const op_grid *g, void *user) {
    const char *of = strstr(g->text.data, "(%x: ");
    if (of && (strncmp(of + 5, "i16[", 4) == 0 || strncmp(of + 5, "i8[", 3) == 0 ||
               strncmp(of + 5, "u8[", 3) == 0))
        take_grid(g, user);
}

static void small_integers(gpu_graphs *q) {
    op_grid_elementwise(take_small, q);
    op_grid_reductions(take_small, q);
    op_grid_scans(take_small, q);
    op_grid_scatters(take_small, q);
    op_grid_fours(take_small, q);
}

static void every_op(gpu_graphs *q) {
    op_grid_elementwise(take_grid, q);
    op_grid_reductions(take_grid, q);
    op_grid_products(take_grid, q);
    op_grid_scans(take_grid, q);
    op_grid_scatters(take_grid, q);
    op_grid_fours(take_grid, q);
}

/* Of values of any rank and type over several symbols. */
static void random_ranks(gpu_graphs *q, uint64_t first, uint32_t n) {
    rp_error err = {0};
    for (uint32_t i = 0; i < n; i++) {
        ir_graph *g = NULL;
        CHECK_OK(random_ranks_new(first + i, 4 + i % 11, false, &g, &err), &err);
        gpu_graphs_add(q, g, false);
    }
}

/* Of every op in every type that it takes. */
static void random_types(gpu_graphs *q, uint64_t first, uint32_t n) {
    rp_error err = {0};
    for (uint64_t i = first; i < first + n; i++) {
        ir_graph *g = NULL;
        CHECK_OK(random_types_new(i, 16 + (uint32_t)(i % 40), &g, &err), &err);
        gpu_graphs_add(q, g, false);
    }
}

/* Of graphs and of those whose values take ways through memory. */
static void random_ones(gpu_graphs *q, uint64_t first, uint32_t n, uint32_t n_effects) {
    const random_graph_options all = RANDOM_GRAPH_ALL;
    rp_error err = {0};
    for (uint32_t i = 0; i < n + n_effects; i++) {
        ir_graph *g = NULL, *moved = NULL;
        random_graph_options opt = all;
        opt.symbolic = i % 4 != 0;
        opt.control = i % 2;
        CHECK_OK(random_graph_new(first + i, &opt, &g, &err), &err);
        if (i < n) {
            gpu_graphs_add(q, g, false);
            continue;
        }
        CHECK_OK(random_effects_new(g, first + i, false, &moved, &err), &err);
        gpu_graphs_add(q, moved, false);
        ir_graph_free(g);
    }
}

/* --- where ------------------------------------------------------------------------------- */

static gpu_graphs q;

static void all_compile_for_sm_90(void **state) {
    const uint32_t n = THOROUGH() ? 5 : 3;
    (void)state;
    if (!gpu_graphs_open(GPU_GRAPHS_COMPILE, &q)) SKIP_TEST("no libnvrtc on this machine");
    every_form(&q, false);
    every_op(&q);
    random_ones(&q, 5000, n, n);
    random_ranks(&q, 5000, n);
    random_types(&q, 5000, n);
    gpu_graphs_check(&q);
    gpu_graphs_close(&q);
}

/* NUM_SEED and NUM_COUNT choose others, as many of each kind and nothing else. */
static void all_equal_the_host_on_a_gpu(void **state) {
    const char *seed = getenv("NUM_SEED"), *count = getenv("NUM_COUNT");
    const uint64_t first = seed ? strtoull(seed, NULL, 0) : 5000;
    const uint32_t n = count ? (uint32_t)strtoul(count, NULL, 0) : 400;
    (void)state;
    if (!gpu_graphs_open(GPU_GRAPHS_RUN, &q)) SKIP_TEST("no GPU, or no libnvrtc, on this machine");
    if (!count) {
        every_form(&q, false);
        every_op(&q);
    }
    random_ones(&q, first, count ? n : 300, count ? n : 200);
    random_ranks(&q, first, n);
    random_types(&q, first, n);
    gpu_graphs_check(&q);
    gpu_graphs_close(&q);
}

/* NUM_SEED and NUM_COUNT choose others, as many of each kind. */
static void random_ones_equal_the_host_on_an_emulated_gpu(void **state) {
    const char *why_not = NULL, *seed = getenv("NUM_SEED"), *count = getenv("NUM_COUNT");
    const uint64_t first = seed ? strtoull(seed, NULL, 0) : 1;
    const uint32_t n = count ? (uint32_t)strtoul(count, NULL, 0) : THOROUGH() ? 10 : 6;
    (void)state;
    if (!gpu_emulate(&why_not)) SKIP_TEST("%s", why_not);
    assert_true(gpu_graphs_open(GPU_GRAPHS_RUN, &q));
    random_ones(&q, first, n, n);
    random_ranks(&q, first, n);
    random_types(&q, first, n);
    gpu_graphs_check(&q);
    gpu_graphs_close(&q);
}

static void forms_equal_the_host_on_an_emulated_gpu(void **state) {
    const char *why_not = NULL;
    (void)state;
    if (!gpu_emulate(&why_not)) SKIP_TEST("%s", why_not);
    assert_true(gpu_graphs_open(GPU_GRAPHS_RUN, &q));
    every_form(&q, true);
    small_integers(&q);
    gpu_graphs_check(&q);
    gpu_graphs_close(&q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_compile_for_sm_90),
        cmocka_unit_test(all_equal_the_host_on_a_gpu),
        cmocka_unit_test(forms_equal_the_host_on_an_emulated_gpu),
        cmocka_unit_test(random_ones_equal_the_host_on_an_emulated_gpu),
    };
    if (getenv("NUM_KIND")) cmocka_set_test_filter(getenv("NUM_KIND")); /* one of them alone */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
