/* Products of bf16 weights on the tensor cores of the emulated GPU: near what they are by definition, the same bits with fusion and
 * without, the bits of the host where they are refused or not wanted. */
#include <math.h>

#include "support/both_gpu.h"
#include "support/thorough.h"

#define SEED 7

static compile_nvrtc other; /* for a GPU that has mma alone */

static plan_run run(const both *b, plan_run_options o, const char *what) {
    rp_error err = {0};
    plan_run r = {0};
    if (plan_run_graph(b->g, &b->l, &o, &r, &err) != RP_OK) fail_msg("%s: %s", what, err.text);
    return r;
}

/* The same, with what goes behind a product in a piece of its own. */
static plan_run run_apart(const both *b, const char *what) {
    static const char *const behind[] = {
        "reprise::sigmoid", "reprise::mul",      "reprise::add",      "reprise::sub",
        "reprise::concat",  "reprise::kv_store", "reprise::quantize", "reprise::dequant"};
    plan_run_options o = both_on_gpu(true, false);
    o.splitting_ops = behind;
    o.n_splitting_ops = sizeof behind / sizeof *behind;
    return run(b, o, what);
}

/* Elements of a matrix, to be freed. */
static double *all_bf16(const ir_value *v) {
    const int64_t n = v->dim[0] * v->dim[1];
    double *to = test_malloc((size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++) to[i] = both_bf16(v, i);
    return to;
}

/* Of products. Four are added beside each other, of which none waits for the one in front of it. */
static double sum_of(const double *x, const double *w, int64_t k) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    assert_int_equal(k % 4, 0);
    for (int64_t l = 0; l < k; l += 4) {
        s0 += x[l] * w[l];
        s1 += x[l + 1] * w[l + 1];
        s2 += x[l + 2] * w[l + 2];
        s3 += x[l + 3] * w[l + 3];
    }
    return s0 + s1 + (s2 + s3);
}

static double size_of(const double *x, const double *w, int64_t k) {
    double all = 0;
    for (int64_t l = 0; l < k; l++) all += fabs(x[l] * w[l]);
    return all;
}

/* Output o, [rows, n], is input 0 times param o: docs/ir.md has the bound. */
static void check_product(const both *b, const plan_run *r, uint32_t o, const char *what) {
    const ir_value *x = &b->l.leaf[IR_LEAF_INPUT][0], *w = &b->l.leaf[IR_LEAF_PARAM][o];
    const int64_t k = x->dim[1], n = w->dim[0];
    double *xs = all_bf16(x), *ws = all_bf16(w);
    const float *y = r->out[o];
    for (int64_t i = 0; i < x->dim[0]; i++)
        for (int64_t j = 0; j < n; j++) {
            const double sum = sum_of(xs + i * k, ws + j * k, k);
            double far = fabs(sum - (double)y[i * n + j]);
            const double most = ((double)k / 16 + 40) * 0x1p-21;
            /* The sizes of all together are as much as the sum at least. */
            if (far <= most * fabs(sum)) continue;
            if (!(far <= most * size_of(xs + i * k, ws + j * k, k)))
                fail_msg("%s: output %u, row %lld, column %lld: %.9g, want %.9g", what, o,
                         (long long)i, (long long)j, (double)y[i * n + j], sum);
        }
    test_free(xs);
    test_free(ws);
}

static void check_same(const both *b, const plan_run *x, const plan_run *y, const char *what,
                       const char *how) {
    const char *d = plan_run_differs(b->g, x, y);
    if (d) fail_msg("%s, %s: %s", what, how, d);
}

/* k: of all; three widths, none of which is a whole tile, one of them half of one. */
static void check_shape(int rows, int k, int widest) {
    char text[600], what[64];
    (void)snprintf(what, sizeof what, "%d rows of %d, %d columns", rows, k, widest);
    (void)snprintf(
        text, sizeof text,
        "graph @g(%%x: bf16[T,%d]) where T in [%d,%d] {\n"
        "  %%a = param @a : bf16[5,%d]\n  %%b = param @b : bf16[80,%d]\n"
        "  %%c = param @c : bf16[%d,%d]\n  %%0 = matmul %%x, %%a {trans_b=true}\n"
        "  %%1 = matmul %%x, %%b {trans_b=true}\n  %%2 = matmul %%x, %%c {trans_b=true}\n"
        "  ret %%0, %%1, %%2 }\n",
        k, rows, rows, k, k, widest, k);
    both b = both_of(text, SEED);
    plan_run fused = run(&b, both_on_gpu(true, false), what);
    for (uint32_t o = 0; o < 3; o++) check_product(&b, &fused, o, what);
    if (rows > 8 && !getenv("REPRISE_TEST_GPU")) {
        plan_run_options o = both_on_gpu(true, false);
        o.nvrtc = &other;
        plan_run plain = run(&b, o, what);
        for (uint32_t i = 0; i < 3; i++) check_product(&b, &plain, i, what);
        plan_run_done(&plain);
    }
    plan_run_done(&fused);
    both_done(&b);
}

/* Every number of rows with one length of a sum at least, every length with numbers of rows of each kind; with THOROUGH each with each. */
static void products_are_near_whatever_the_shape(void **state) {
    static const int rows[] = {1, 2, 7, 8, 9, 63, 64, 65, 130};
    static const int ks[] = {16, 576, 1040};
    (void)state;
    NEEDS_GPU();
    for (size_t k = 0; k < sizeof ks / sizeof *ks; k++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            if (r % 3 == k || THOROUGH()) check_shape(rows[r], ks[k], 161);
}

/* So many columns that blocks share jobs of 96 of them, the last one with 32 (8 of them there); and as many blocks as jobs, of 128. */
static void shared_jobs_hold_every_column(void **state) {
    (void)state;
    NEEDS_GPU();
    check_shape(9, 512, 1640);
    check_shape(64, 528, 2136);
}

/* So long sums, of few columns and 257 to 512 rows, are of two halves: by two blocks, with fusion and without, or by one beside columns whose sums are not. */
static void long_sums_are_of_two_halves(void **state) {
    static const char text[] =
        "graph @g(%%x: bf16[T,8192], %%r: f32[T,1100]) where T in [300,300] {\n"
        "  %%a = param @a : bf16[1100,8192]\n  %%b = param @b : bf16[40,8192]\n"
        "  %%0 = matmul %%x, %%a {trans_b=true}\n%s }\n";
    static const char *const more[] = {"  %1 = add %r, %0\n  ret %1", "  ret %0",
                                       "  %1 = matmul %x, %b {trans_b=true}\n  ret %0, %1"};
    both b[3];
    plan_run fused[3];
    (void)state;
    NEEDS_GPU();
    if (!getenv("REPRISE_TEST_GPU") && !THOROUGH())
        SKIP_TEST("it takes long on the emulated GPU; THOROUGH=1 runs it");
    for (int i = 0; i < 3; i++) {
        char graph[sizeof text + 80];
        (void)snprintf(graph, sizeof graph, text, more[i]);
        b[i] = both_of(graph, SEED);
        fused[i] = run(&b[i], both_on_gpu(true, false), more[i]);
    }
    plan_run apart = run_apart(&b[0], "halves");
    check_same(&b[0], &fused[0], &apart, "halves", "with fusion and without");
    check_product(&b[1], &fused[1], 0, "halves");
    check_product(&b[2], &fused[2], 1, "beside halves");
    assert_memory_equal(fused[1].out[0], fused[2].out[0], 300 * 1100 * sizeof(float));
    plan_run_done(&apart);
    for (int i = 0; i < 3; i++) {
        plan_run_done(&fused[i]);
        both_done(&b[i]);
    }
}

/* Enough columns for tiles of more rows. */
static void wide_tiles_add_alike(void **state) {
    (void)state;
    NEEDS_GPU();
    check_shape(67, 16, 16900);
    check_shape(135, 336, 8500); /* more chunks than a ring has */
    check_shape(150, 16, 16900);
}

/* A gate, a residual that is written in place of, what several products share, and a matrix that lies [k][n]. */
static void epilogues_get_their_sums(void **state) {
    static const char *const rows[] = {"[1,1]", "[6,6]", "[40,40]", "[129,129]"};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1200];
        rp_error err = {0};
        (void)snprintf(
            text, sizeof text,
            "graph @g(%%x: bf16[T,64], %%r: f32[T,70]) where T in %s {\n"
            "  %%g = param @g : bf16[70,64]\n  %%u = param @u : bf16[70,64]\n"
            "  %%d = param @d : bf16[64,70]\n  %%f = param @f : f32[70,64]\n"
            "  %%0 = matmul %%x, %%g {trans_b=true}\n  %%1 = matmul %%x, %%u {trans_b=true}\n"
            "  %%s = sigmoid %%0\n  %%2 = mul %%0, %%s\n  %%3 = mul %%2, %%1\n"
            "  %%h = cast %%3 {dtype=bf16}\n  %%4 = matmul %%x, %%d\n"
            "  %%5 = add %%r, %%4\n  ret %%h, %%5, %%1 }\n",
            rows[i]);
        both b = both_of(text, SEED);
        if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
        plan_run fused = run(&b, both_on_gpu(true, false), rows[i]), apart = run_apart(&b, rows[i]),
                 exact = run(&b, both_on_gpu(true, true), rows[i]);
        const char *d = plan_run_is_off(b.g, &fused, b.want, b.states, b.inputs, 1e-2);
        if (d) fail_msg("%s rows: %s", rows[i], d);
        check_same(&b, &fused, &apart, rows[i], "with fusion and without");
        check_same(&b, &exact, &b.code, rows[i], "exact, and on the cpu");
        plan_run_done(&fused);
        plan_run_done(&apart);
        plan_run_done(&exact);
        both_done(&b);
    }
}

/* Heads that are turned and stored, of one tile and a half together, by angles that are inputs or gathered and returned; and packed blocks, which rows are
 * made of. */
static void check_columns(int rows, bool gathers) {
    static const char *const angles[][3] = {
        {"%cos: f32[T,8], %sin: f32[T,8]", "", ""},
        {"%i: i32[T], %j: i32[T]",
         "  %tc = param @cos : f32[9,8]\n  %ts = param @sin : f32[7,8]\n"
         "  %cos = gather %tc, %i\n  %sin = gather %ts, %j\n",
         ", %cos, %sin"}};
    const char *const *of = angles[gathers];
    char text[1800];
    (void)snprintf(
        text, sizeof text,
        "graph @g(%%x: bf16[T,64], %s, %%s: i32[T], %%e: bf16[T,64]) where T in [%d,%d] {\n"
        "  %%k = param @k : bf16[48,64]\n  %%v = param @v : bf16[48,64]\n"
        "  %%w = param @w : bf16[64,64]\n%s"
        "  %%ks = state @ks : bf16[16,3,16,16]\n  %%vs = state @vs : bf16[16,3,16,16]\n"
        "  %%0 = matmul %%x, %%k {trans_b=true}\n  %%1 = matmul %%x, %%v {trans_b=true}\n"
        "  %%p = reshape %%0 {shape=[T,3,8,2]}\n"
        "  %%c = reshape %%cos {shape=[T,1,8,1]}\n  %%d = reshape %%sin {shape=[T,1,8,1]}\n"
        "  %%a = slice %%p {axis=3, start=0, stop=1}\n"
        "  %%b = slice %%p {axis=3, start=1, stop=2}\n"
        "  %%2 = mul %%a, %%c\n  %%3 = mul %%b, %%d\n  %%4 = sub %%2, %%3\n"
        "  %%5 = mul %%b, %%c\n  %%6 = mul %%a, %%d\n  %%7 = add %%5, %%6\n"
        "  %%8 = concat %%4, %%7 {axis=3}\n  %%9 = reshape %%8 {shape=[T,48]}\n"
        "  %%10 = kv_store %%ks, %%9, %%s\n  %%11 = kv_store %%vs, %%1, %%s\n"
        "  %%12 = matmul %%e, %%w {trans_b=true}\n  %%13 = quantize %%12 {dtype=i16b32}\n"
        "  %%14 = dequant %%13\n  ret %%10, %%11, %%14%s }\n",
        of[0], rows, rows, of[1], of[2]);
    both b = both_of(text, SEED);
    ir_value *in = b.l.leaf[IR_LEAF_INPUT];
    for (int j = 0; j < rows; j++) in[3].data[j] = 2 * j % 255;
    for (int j = 0; gathers && j < rows; j++)
        in[1].data[j] = j % 13 - 2; /* also beyond the table */
    for (int j = 0; gathers && j < rows; j++) in[2].data[j] = (3 * j + 1) % 11 - 1;
    plan_run fused = run(&b, both_on_gpu(true, false), "columns"), apart = run_apart(&b, "columns");
    check_same(&b, &fused, &apart, "columns", "with fusion and without");
    plan_run_done(&fused);
    plan_run_done(&apart);
    both_done(&b);
}

/* Angles that are inputs and gathered ones in turns, with THOROUGH both of each number of rows. */
static void columns_end_where_the_matrix_does(void **state) {
    static const int rows[] = {1, 6, 40, 130};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int gathers = 0; gathers < 2; gathers++)
            if (gathers == (int)(i % 2) || THOROUGH()) check_columns(rows[i], gathers);
}

/* What is stored and read again in an epilogue is done by rows of a unit, of which the last block of packed columns may have one too many. */
static void units_end_where_the_matrix_does(void **state) {
    static const int sizes[][2] = {{1, 16}, {5, 48}, {5, 64}, {40, 40}, {130, 48}};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int t = sizes[i][0], n = sizes[i][1];
        char text[700], what[40];
        (void)snprintf(what, sizeof what, "%d rows, %d columns", t, n);
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: bf16[T,288], %%r: f32[T,1]) where T in [%d,%d] {\n"
                       "  %%g = param @g : bf16[%d,288]\n  %%u = param @u : bf16[%d,288]\n"
                       "  %%0 = matmul %%x, %%g {trans_b=true}\n  %%1 = mul %%0, %%r\n"
                       "  %%2 = matmul %%x, %%u {trans_b=true}\n  %%3 = sigmoid %%1\n"
                       "  %%4 = mul %%1, %%3\n  %%5 = mul %%4, %%2\n  ret %%0, %%1, %%5 }\n",
                       t, t, n, n);
        both b = both_of(text, SEED);
        plan_run fused = run(&b, both_on_gpu(true, false), what), apart = run_apart(&b, what);
        check_same(&b, &fused, &apart, what, "with fusion and without");
        plan_run_done(&fused);
        plan_run_done(&apart);
        both_done(&b);
    }
}

/* Gates have fewer steps where all of some are near zero: here some are and some are not. What is behind it: in rows one after the other,
 * or in tiles for the product that reads them, of which the last columns and rows are not there. */
static void check_gate(int rows, int columns, int scale, const char *behind) {
    char text[1200];
    (void)snprintf(text, sizeof text,
                   "graph @g(%%x: f32[T,16]) where T in [%d,%d] {\n"
                   "  %%g = param @g : bf16[%d,16]\n  %%u = param @u : bf16[%d,16]\n"
                   "  %%d = param @d : bf16[24,%d]\n"
                   "  %%c = const %d\n  %%y = mul %%x, %%c\n  %%z = cast %%y {dtype=bf16}\n"
                   "  %%0 = matmul %%z, %%g {trans_b=true}\n"
                   "  %%1 = matmul %%z, %%u {trans_b=true}\n"
                   "  %%s = sigmoid %%0\n  %%2 = mul %%0, %%s\n  %%3 = mul %%2, %%1\n"
                   "  %%h = cast %%3 {dtype=bf16}\n  %%r = matmul %%h, %%d {trans_b=true}\n%s }\n",
                   rows, rows, columns, columns, columns, scale, behind);
    both b = both_of(text, SEED);
    plan_run fused = run(&b, both_on_gpu(true, false), behind), apart = run_apart(&b, behind);
    check_same(&b, &fused, &apart, behind, "with fusion and without");
    plan_run_done(&fused);
    plan_run_done(&apart);
    both_done(&b);
}

static void gates_far_from_zero_have_the_same_bits(void **state) {
    (void)state;
    NEEDS_GPU();
    check_gate(150, 4304, 64, "  ret %h");
    check_gate(150, 4304, 64, "  ret %r");
    check_gate(43, 4304, 64, "  ret %h");
    check_gate(43, 4304, 64, "  ret %r");
}

/* Three tiles of 176 rows, the last one with 41: elements of the fewest steps, of which some are rounded once more and some are too far from zero. */
static void gates_of_few_steps_have_the_same_bits(void **state) {
    (void)state;
    NEEDS_GPU();
    check_gate(393, 6352, 4, "  ret %r");
    if (THOROUGH()) check_gate(300, 6352, 4, "  ret %r");
}

/* So many columns that the widest tiles are in turns, of rows that lie in tiles: who made them knows the other product by its weights alone. */
static void rows_in_tiles_lie_where_wide_products_read_them(void **state) {
    static const char text[] =
        "graph @g(%x: bf16[T,16]) where T in [393,393] {\n"
        "  %g = param @g : bf16[16,16]\n  %d = param @d : bf16[12672,16]\n"
        "  %0 = matmul %x, %g {trans_b=true}\n  %s = sigmoid %0\n"
        "  %h = cast %s {dtype=bf16}\n  %r = matmul %h, %d {trans_b=true}\n  ret %r }\n";
    (void)state;
    NEEDS_GPU();
    both b = both_of(text, SEED);
    plan_run fused = run(&b, both_on_gpu(true, false), "tiles"), apart = run_apart(&b, "tiles");
    check_same(&b, &fused, &apart, "tiles", "with fusion and without");
    plan_run_done(&fused);
    plan_run_done(&apart);
    both_done(&b);
}

/* x over the root of scale * its squares + eps, times w: with a parameter w the rows are a norm, which has a template; with an input they are not. Rows that
 * are returned have a kernel of their own. */
static both rows_of(int rows, int k, bool norm, bool returned, double scale, double eps) {
    char text[1200], input[40] = "", param[60] = "";
    if (norm)
        (void)snprintf(param, sizeof param, "  %%w = param @w : f32[%d]\n", k);
    else
        (void)snprintf(input, sizeof input, ", %%w: f32[%d]", k);
    (void)snprintf(
        text, sizeof text,
        "graph @g(%%x: f32[T,%d]%s) where T in [%d,%d] {\n%s"
        "  %%a = param @a : bf16[40,%d]\n  %%b = param @b : bf16[24,%d]\n"
        "  %%c = const %a\n  %%e = const %a\n"
        "  %%0 = mul %%x, %%x\n  %%1 = sum %%0 {axis=1,keep=true}\n  %%2 = mul %%1, %%c\n"
        "  %%3 = add %%2, %%e\n  %%4 = rsqrt %%3\n  %%5 = mul %%x, %%4\n"
        "  %%6 = mul %%5, %%w\n  %%7 = cast %%6 {dtype=bf16}\n"
        "  %%8 = matmul %%7, %%a {trans_b=true}\n  %%9 = matmul %%7, %%b {trans_b=true}\n"
        "  ret %%8, %%9%s }\n",
        k, input, rows, rows, param, k, k, scale, eps, returned ? ", %7" : "");
    return both_of(text, SEED);
}

static void check_made(both *b, both *returned, const char *what) {
    plan_run made = run(b, both_on_gpu(true, false), what),
             apart = run(returned, both_on_gpu(true, false), what);
    check_same(b, &made, &apart, what, "made by products and by kernels");
    plan_run_done(&made);
    plan_run_done(&apart);
    both_done(b);
    both_done(returned);
}

static void check_rows(int rows, int k, bool norm) {
    char what[64];
    (void)snprintf(what, sizeof what, "%d rows of %d, %s", rows, k, norm ? "a norm" : "no norm");
    both b = rows_of(rows, k, norm, false, 0x1p-9, 0x1p-17),
         returned = rows_of(rows, k, norm, true, 0x1p-9, 0x1p-17);
    check_made(&b, &returned, what);
}

/* Rows that are gathered, rounded and multiplied, and others that are gathered for what is behind: few of them are read where they are, unless they are returned. Places
 * in front of the table and behind it are its first and last. */
static both gathered_of(int rows, bool returned) {
    enum { TABLE = 11, PLACES = 2 };
    char text[900];
    (void)snprintf(text, sizeof text,
                   "graph @g(%%last: f32[%d,40], %%heads: f32[%d,96], %%rows: i32[R]) where R in "
                   "[%d,%d] {\n"
                   "  %%w = param @w : bf16[40,96]\n  %%l = gather %%last, %%rows\n"
                   "  %%h = gather %%heads, %%rows\n  %%x = cast %%h {dtype=bf16}\n"
                   "  %%y = matmul %%x, %%w {trans_b=true}\n  %%z = add %%y, %%l\n"
                   "  ret %%z%s }\n",
                   TABLE, TABLE, rows, rows, returned ? ", %x, %l" : "");
    both b = both_of(text, SEED);
    ir_value *places = &b.l.leaf[IR_LEAF_INPUT][PLACES];
    for (int r = 0; r < rows; r++) places->data[r] = (r * 7 + 5) % (TABLE + 4) - 2;
    return b;
}

static void rows_are_gathered_by_the_product(void **state) {
    static const int rows[] = {1, 5, 8, 9, 40};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[64];
        (void)snprintf(what, sizeof what, "%d rows that are gathered", rows[i]);
        both b = gathered_of(rows[i], false), returned = gathered_of(rows[i], true);
        check_made(&b, &returned, what);
    }
}

/* Rows that products make have the bits that a kernel of their own gives. */
static void rows_are_the_same_wherever_they_are_made(void **state) {
    static const int rows[] = {1, 6, 40, 130};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_rows(rows[i], 576, false);
        check_rows(rows[i], 576, true);
    }
    check_rows(3, 2064, true); /* more than a lane holds at once */
}

/* Squares of one of the 16 lanes of a sum, the others have none: 1, then here and there 9/8 of its last bit and half of it, which is a tie. */
static void fill_lane(both *b, int k) {
    double *x = b->l.leaf[IR_LEAF_INPUT][0].data;
    for (int j = 0; j < k; j++) {
        const int i = j / 16;
        x[j] = j % 16 != 3 ? 0 : i == 0 ? 1 : i % 5 == 1 ? 0x1.8p-12 : i % 5 == 2 ? 0x1p-12 : 0;
    }
}

/* The order of a sum is in its last bits alone, which bf16 does not show: here eps takes away the rest. */
static void squares_are_added_in_one_order(void **state) {
    static const int widths[] = {576, 2064};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int k = widths[i];
        char what[64];
        (void)snprintf(what, sizeof what, "a lane of %d squares", k / 16);
        both b = rows_of(1, k, true, false, 0.5, 0x1p-20 - 0.5),
             returned = rows_of(1, k, true, true, 0.5, 0x1p-20 - 0.5);
        fill_lane(&b, k);
        fill_lane(&returned, k);
        check_made(&b, &returned, what);
    }
}

/* K of no whole steps, other types of weights or of rows. */
static void what_is_refused_has_the_bits_of_the_host(void **state) {
    static const char text[] =
        "graph @g(%x: bf16[T,40], %y: f32[T,48], %z: f16[T,48]) where T in [11,11] {\n"
        "  %a = param @a : bf16[70,40]\n  %b = param @b : f16[33,48]\n"
        "  %c = param @c : bf16[33,48]\n  %0 = matmul %x, %a {trans_b=true}\n"
        "  %1 = matmul %y, %b {trans_b=true}\n  %2 = matmul %z, %c {trans_b=true}\n"
        "  ret %0, %1, %2 }\n";
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    both b = both_of(text, SEED);
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
    plan_run r = run(&b, both_on_gpu(true, false), "refused");
    check_same(&b, &r, &b.code, "refused", "and on the cpu");
    plan_run_done(&r);
    both_done(&b);
}

/* One matrix, of which two products want different orders. */
static void weights_lie_as_each_product_reads_them(void **state) {
    static const char text[] =
        "graph @g(%x: bf16[T,48], %z: f16[T,48]) where T in [11,11] {\n"
        "  %c = param @c : bf16[33,48]\n  %0 = matmul %x, %c {trans_b=true}\n"
        "  %1 = matmul %z, %c {trans_b=true}\n  ret %0, %1 }\n";
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    both b = both_of(text, SEED);
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
    plan_run r = run(&b, both_on_gpu(true, false), "one matrix");
    check_product(&b, &r, 0, "one matrix");
    assert_memory_equal(r.out[1], b.code.out[1], 11 * 33 * sizeof(float));
    plan_run_done(&r);
    both_done(&b);
}

static int set_up(void **state) {
    rp_error err = {0};
    if (both_gpu_set_up(state) != 0) return -1;
    return gpu.why_not || compile_nvrtc_find("sm_100", &other, &err) == RP_OK ? 0 : -1;
}

static int tear_down(void **state) {
    compile_nvrtc_done(&other);
    return both_gpu_tear_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_near_whatever_the_shape),
        cmocka_unit_test(shared_jobs_hold_every_column),
        cmocka_unit_test(long_sums_are_of_two_halves),
        cmocka_unit_test(wide_tiles_add_alike),
        cmocka_unit_test(epilogues_get_their_sums),
        cmocka_unit_test(columns_end_where_the_matrix_does),
        cmocka_unit_test(units_end_where_the_matrix_does),
        cmocka_unit_test(gates_far_from_zero_have_the_same_bits),
        cmocka_unit_test(gates_of_few_steps_have_the_same_bits),
        cmocka_unit_test(rows_in_tiles_lie_where_wide_products_read_them),
        cmocka_unit_test(rows_are_gathered_by_the_product),
        cmocka_unit_test(rows_are_the_same_wherever_they_are_made),
        cmocka_unit_test(squares_are_added_in_one_order),
        cmocka_unit_test(what_is_refused_has_the_bits_of_the_host),
        cmocka_unit_test(weights_lie_as_each_product_reads_them),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
