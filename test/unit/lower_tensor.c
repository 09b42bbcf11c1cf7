/* Products on tensor cores: every column of every matrix is of one job, and no job has none; what follows a product is its kernel's. */
#include "support/check.h"

#include "compile/tune_record.h"
#include "gen/pack.h"
#include "target/cuda/tensor_group.h"
#include "target/target.h"
#include "pass/pipeline.h"

/* Columns of a part dealt to jobs one after the other, as a block takes them. */
static int64_t jobs_of(int64_t columns, int64_t each) {
    int64_t jobs = 0;
    for (int64_t at = 0; at < columns; at += each) jobs++;
    return jobs;
}

static void check(const int64_t blocks[3], const uint32_t mats[3], int64_t of, int64_t tiles) {
    pass_segment s[3];
    target_tensor_part parts[3];
    target_tensor_parts g = {.parts = parts, .columns = of};
    int64_t want = 0, most = 1;
    for (uint32_t i = 0; i < 3 && blocks[i]; i++) {
        /* A job holds so many tiles of weights, or one unit where that is more. */
        int64_t per_unit = mats[i] * (LOWER_COLUMNS / GEN_TILE_ROWS),
                units = per_unit > tiles ? 1 : tiles / per_unit;
        s[i] = (pass_segment){.n_mats = mats[i]};
        parts[i] = (target_tensor_part){.s = &s[i], .units = blocks[i] * LOWER_COLUMNS / of};
        want += jobs_of(blocks[i] * LOWER_COLUMNS, units * LOWER_COLUMNS);
        if (units > most) most = units;
        assert_int_equal(target_job_units(&parts[i], tiles), units);
        g.n_parts++;
    }
    assert_int_equal(target_count_jobs(&g, tiles), want);
    assert_int_equal(target_most_job(&g, tiles), most);
}

static void jobs_hold_every_column(void **state) {
    (void)state;
    for (int64_t of = GEN_TILE_ROWS; of <= LOWER_COLUMNS; of *= 2)
        for (int64_t a = 1; a <= 33; a++)
            for (uint32_t m = 1; m <= 3; m++) {
                const int64_t tiles = a % 2 ? TARGET_JOB_TILES : TARGET_JOB_TILES / 2;
                check((const int64_t[]){a, 0, 0}, (const uint32_t[]){m, 0, 0}, of, tiles);
                check((const int64_t[]){a, 35 - a, 7}, (const uint32_t[]){m, 1, 2}, of, tiles);
            }
}

/* What is chosen for some rows of one product, or of several, each of so many blocks of columns and of so many matrices. */
static target_many for_some_rows(int64_t blocks, uint32_t mats, uint32_t n_parts, int64_t k) {
    pass_segment s = {.n_mats = mats};
    target_tensor_part parts[3];
    target_tensor_parts g = {.parts = parts, .n_parts = n_parts, .k = k, .direct = true};
    target_many list[TARGET_N_MANYS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_parts; i++)
        parts[i] = (target_tensor_part){.s = &s, .units = blocks};
    g.columns = LOWER_COLUMNS;
    g.units = blocks * n_parts;
    target_fit_many(&g, list, &n, 0, 4096);
    assert_true(n > 1);
    for (uint32_t i = 1; i < n; i++) assert_true(list[i].most > list[i - 1].most);
    return list[0];
}

/* A unit of several matrices is not cut: it fills a job, of which there is one for every number of matrices. */
static void jobs_hold_whole_units(void **state) {
    (void)state;
    for (uint32_t mats = 1; mats <= PASS_MAX_MATS; mats++)
        for (int64_t blocks = 1; blocks <= 4096; blocks *= 2)
            for (int64_t k = 128; k <= 8192; k *= 4)
                for (uint32_t parts = 1; parts <= 3; parts += 2) {
                    const int64_t unit = mats * (LOWER_COLUMNS / GEN_TILE_ROWS);
                    const target_many m = for_some_rows(blocks, mats, parts, k);
                    assert_int_equal(m.most, TARGET_SOME_ROWS);
                    if (m.tiles < unit)
                        fail_msg("%u matrices, %d blocks, k %d: %d tiles", mats, (int)blocks,
                                 (int)k, (int)m.tiles);
                }
    /* as narrow as it may be where that is the least for the busiest block */
    assert_int_equal(for_some_rows(16, 2, 1, 128).tiles, TARGET_JOB_TILES / 2);
    assert_int_equal(for_some_rows(16, 4, 1, 128).tiles, TARGET_JOB_TILES);
}

/* The graph of a text, lowered for a GPU; the caller frees both. */
static void lower_text(const char *text, lower_piece *p, ir_graph **g) {
    lower_options o = {.target = GEN_CUDA};
    rp_error err = {0};
    CHECK_OK(ir_parse(text, strlen(text), g, &err), &err);
    CHECK_OK(target_lower(*g, &o, p, &err), &err);
}

/* Kernels of a row of heads that are turned by angles, which are gathered in the same group by an input of that type, and stored. */
static uint32_t kernels_of_turned_heads(const char *type, bool scaled) {
    static const char text[] =
        "graph @g(%%x: bf16[T,64], %%i: %s[T], %%s: i32[T]) where T in [1,1], P in [1,64] {\n"
        "  %%w = param @w : bf16[48,64]\n  %%ks = state @ks : bf16[16,3,16,16]\n"
        "  %%tc = param @cos : f32[P,8]\n  %%ts = param @sin : f32[P,8]\n"
        "  %%cos = gather %%tc, %%i\n  %%sin = gather %%ts, %%i\n"
        "  %%0 = matmul %%x, %%w {trans_b=true}\n  %%k = const 0x1.8p+0 : f32[]\n"
        "  %%1 = mul %%0, %%k\n  %%p = reshape %%%d {shape=[T,3,8,2]}\n"
        "  %%c = reshape %%cos {shape=[T,1,8,1]}\n  %%d = reshape %%sin {shape=[T,1,8,1]}\n"
        "  %%a = slice %%p {axis=3, start=0, stop=1}\n  %%b = slice %%p {axis=3, start=1, stop=2}\n"
        "  %%2 = mul %%a, %%c\n  %%3 = mul %%b, %%d\n  %%4 = sub %%2, %%3\n"
        "  %%5 = mul %%b, %%c\n  %%6 = mul %%a, %%d\n  %%7 = add %%5, %%6\n"
        "  %%8 = concat %%4, %%7 {axis=3}\n  %%9 = reshape %%8 {shape=[T,48]}\n"
        "  %%10 = kv_store %%ks, %%9, %%s\n  ret %%10, %%cos, %%sin }\n";
    char graph[sizeof text];
    lower_options o = {.target = GEN_CUDA};
    lower_piece p;
    rp_error err = {0};
    ir_graph *g, *opt;
    (void)snprintf(graph, sizeof graph, text, type, scaled);
    CHECK_OK(ir_parse(graph, strlen(graph), &g, &err), &err);
    CHECK_OK(pass_run_all(g, NULL, &opt, &err), &err);
    CHECK_OK(target_lower(opt, &o, &p, &err), &err);
    const uint32_t n = p.n_launches;
    lower_done(&p);
    ir_graph_free(opt);
    ir_graph_free(g);
    return n;
}

static void angles_are_gathered_by_the_product(void **state) {
    (void)state;
    assert_int_equal(kernels_of_turned_heads("i32", false), 1);
    assert_int_not_equal(kernels_of_turned_heads("i64", false),
                         1); /* read as 32 bits, each second place would be 0 */
    /* What is turned is the sums, or there is a kernel for it. */
    assert_true(kernels_of_turned_heads("i32", true) > kernels_of_turned_heads("i32", false));
}

/* The symbol of the first launch of a head whose rows are gathered, for so many of them; `more` is what it returns besides. */
static const char *gather_of(int64_t rows, const char *more, lower_piece *p, ir_graph **g) {
    static const char text[] =
        "graph @g(%%last: f32[T,64], %%heads: f32[T,64], %%rows: i32[R]) where T in [1,64], R in "
        "[1,64] {\n"
        "  %%w = param @w : bf16[64,64]\n  %%l = gather %%last, %%rows\n"
        "  %%h = gather %%heads, %%rows\n  %%x = cast %%h {dtype=bf16}\n"
        "  %%y = matmul %%x, %%w {trans_b=true}\n  %%z = add %%y, %%l\n  ret %%z%s }\n";
    char graph[sizeof text + 20];
    (void)snprintf(graph, sizeof graph, text, more);
    lower_text(graph, p, g);
    const lower_alt *alt = p->launches[0].alts;
    while (alt->max < rows) alt++;
    return alt->symbol;
}

static void few_rows_are_gathered_by_the_product(void **state) {
    static const struct {
        const char *more;
        int64_t rows;
        bool runs;
    } want[] = {{"", 1, false},    {"", 8, false},    {"", 9, true},
                {", %x", 1, true}, {", %l", 1, true}, {", %h", 8, true}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        lower_piece p;
        ir_graph *g;
        const char *symbol = gather_of(want[i].rows, want[i].more, &p, &g);
        if ((symbol != NULL) != want[i].runs)
            fail_msg("%d rows, also returned \"%s\": %s", (int)want[i].rows, want[i].more,
                     symbol ? symbol : "nothing runs");
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* Rows that a kernel makes in shared memory for the product behind it: one a block where they are few, else one a warp, each 16 bytes
 * from its neighbour's end, so that warps do not meet in a bank. */
static void made_rows_have_room(void **state) {
    static const char text[] =
        "graph @g(%x: f32[T,320]) where T in [1,4096] {\n"
        "  %w = param @w : bf16[640,320]\n  %k = const 0x1p-8\n"
        "  %eps = const 0x1p-20\n  %0 = mul %x, %x\n"
        "  %ss = sum %0 {axis=1, keep=true}\n  %ms = mul %ss, %k\n  %me = add %ms, %eps\n"
        "  %rs = rsqrt %me\n  %1 = mul %x, %rs\n  %2 = cast %1 {dtype=bf16}\n"
        "  %y = matmul %2, %w {trans_b=true}\n  ret %y }\n";
    lower_piece p;
    ir_graph *g;
    (void)state;
    lower_text(text, &p, &g);
    const lower_launch *made = &p.launches[1];
    assert_int_equal(made->n_alts, 5);
    assert_null(made->alts[0].symbol); /* the product makes its own */
    for (uint32_t i = 1; i < made->n_alts; i++) {
        const lower_alt *a = &made->alts[i];
        const uint32_t rows = i < 3 ? 1 : 4;
        assert_non_null(a->symbol);
        assert_int_equal(a->scratch, rows * (320 * 2 + 16));
        assert_int_equal(a->per_block, rows * 320 / 8);
        assert_int_equal(a->threads, rows == 1 ? 256 : rows * 32);
        if (rows > 1) assert_non_null(strstr(p.source, "320, 128, 4>(arg, dim, a1, rows)"));
    }
    lower_done(&p);
    ir_graph_free(g);
}

/* Whether a norm of %x, with this in the place of its lines, has the template of norms. */
static bool has_template(const char *squares, const char *mean, const char *eps, const char *scaled,
                         const char *gained) {
    static const char text[] =
        "graph @g(%%x: f32[T,320], %%z: f32[T,320], %%v: f32[320]) where T in [1,4096] {\n"
        "  %%w = param @w : bf16[640,320]\n  %%n = param @n : f32[320]\n"
        "  %%k = const 0x1p-8\n  %%e = const 0x1p-20\n  %%sq = mul %s\n"
        "  %%ss = sum %%sq {axis=1, keep=true}\n  %%ms = mul %s\n  %%me = add %s\n"
        "  %%rs = rsqrt %%me\n  %%xn = mul %s\n  %%xw = mul %s\n"
        "  %%c = cast %%xw {dtype=bf16}\n  %%y = matmul %%c, %%w {trans_b=true}\n  ret %%y }\n";
    char graph[sizeof text + 100];
    lower_piece p;
    ir_graph *g;
    (void)snprintf(graph, sizeof graph, text, squares, mean, eps, scaled, gained);
    lower_text(graph, &p, &g);
    bool has = strstr(p.source, "rk_norm<320, ") != NULL;
    if (has) assert_non_null(strstr(p.source, ", 0x1p-8f, 0x1p-20f);"));
    lower_done(&p);
    ir_graph_free(g);
    return has;
}

/* Every multiplication either way round; of another row, or with a gain that is computed, it is a kernel of its own. */
static void norms_have_a_template(void **state) {
    (void)state;
    assert_true(has_template("%x, %x", "%ss, %k", "%ms, %e", "%x, %rs", "%xn, %n"));
    assert_true(has_template("%x, %x", "%k, %ss", "%ms, %e", "%rs, %x", "%xn, %n"));
    assert_true(has_template("%x, %x", "%ss, %k", "%e, %ms", "%x, %rs", "%n, %xn"));
    assert_false(has_template("%x, %z", "%ss, %k", "%ms, %e", "%x, %rs", "%xn, %n"));
    assert_false(has_template("%z, %z", "%ss, %k", "%ms, %e", "%x, %rs", "%xn, %n"));
    assert_false(has_template("%x, %x", "%ss, %k", "%ms, %e", "%z, %rs", "%xn, %n"));
    assert_false(has_template("%x, %x", "%ss, %k", "%ms, %e", "%x, %rs", "%xn, %v"));
    assert_false(has_template("%x, %x", "%ss, %k", "%ms, %ms", "%x, %rs", "%xn, %n"));
    assert_false(has_template("%x, %x", "%ss, %ss", "%ms, %e", "%x, %rs", "%xn, %n"));
}

/* Whether elements behind two products have fewer steps where one of the sums is near zero: what becomes of both, and which is asked. */
static bool asks_near(const char *behind, int *which) {
    static const char text[] = "graph @g(%%x: bf16[T,64]) where T in [1,64] {\n"
                               "  %%a = param @a : bf16[64,64]\n  %%b = param @b : bf16[64,64]\n"
                               "  %%0 = matmul %%x, %%a {trans_b=true}\n"
                               "  %%1 = matmul %%x, %%b {trans_b=true}\n%s }\n";
    static const char near[] = "return rk_near::is(s[";
    char graph[sizeof text + 200];
    lower_piece p;
    ir_graph *g;
    (void)snprintf(graph, sizeof graph, text, behind);
    lower_text(graph, &p, &g);
    assert_non_null(strstr(p.source, "rk_by_elements")); /* on tensor cores */
    const char *at = strstr(p.source, near);
    if (at) *which = at[sizeof near - 1] - '0';
    lower_done(&p);
    ir_graph_free(g);
    return at != NULL;
}

/* One sum says nothing of the other. */
static void a_sum_near_zero_is_that_of_every_sigmoid(void **state) {
    int which = -1;
    (void)state;
    assert_true(asks_near("  %2 = sigmoid %0\n  %3 = mul %2, %1\n  ret %3", &which));
    assert_int_equal(which, 0);
    assert_true(asks_near("  %2 = sigmoid %1\n  %3 = mul %2, %0\n  ret %3", &which));
    assert_int_equal(which, 1);
    assert_false(asks_near("  %2 = mul %0, %1\n  ret %2", &which));
    assert_false(
        asks_near("  %2 = sigmoid %0\n  %3 = sigmoid %1\n  %4 = mul %2, %3\n  ret %4", &which));
}

/* Gates of 8192 columns, for up to 4096 rows, whose elements are what `lines` make of %0 and %1, and the product behind them. */
static void lower_gates(const char *lines, lower_piece *p, ir_graph **g) {
    static const char text[] =
        "graph @g(%%x: bf16[T,64]) where T in [1,4096] {\n  %%g = param @g : bf16[8192,64]\n"
        "  %%u = param @u : bf16[8192,64]\n  %%d = param @d : bf16[32,8192]\n"
        "  %%0 = matmul %%x, %%g {trans_b=true}\n  %%1 = matmul %%x, %%u {trans_b=true}\n%s\n"
        "  %%h = cast %%y {dtype=bf16}\n  %%r = matmul %%h, %%d {trans_b=true}\n  ret %%r }\n";
    char graph[sizeof text + 200];
    (void)snprintf(graph, sizeof graph, text, lines);
    lower_text(graph, p, g);
}

static uint32_t count(const char *text, const char *what) {
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

/* Three tiles of 176 rows hold 512; one or two, and many, are of 192, by one kernel. */
static void classes_of_equal_tiles_share_a_kernel(void **state) {
    static const struct {
        int64_t max;
        const char *rows, *product;
    } want[] = {{256, "_x256", "_m256"},
                {384, "_x192", "_p192"},
                {512, "_x176", "_p176"},
                {4096, "_x192", "_p192"}};
    lower_piece p;
    ir_graph *g;
    (void)state;
    lower_gates("  %s = sigmoid %0\n  %2 = mul %0, %s\n  %y = mul %2, %1", &p, &g);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (int product = 0; product < 2; product++) {
            const lower_launch *l = &p.launches[product];
            const lower_alt *a = l->alts;
            const char *end = product ? want[i].product : want[i].rows;
            while (a < l->alts + l->n_alts && a->max < want[i].max) a++;
            if (a == l->alts + l->n_alts || !a->symbol || !strstr(a->symbol, end))
                fail_msg("%s: %d rows are not done by %s", l->name, (int)want[i].max, end);
        }
    assert_int_equal(count(p.source, "_p192(char *"), 1);
    assert_int_equal(count(p.source, "_x192(char *"), 1);
    lower_done(&p);
    ir_graph_free(g);
}

/* What may be chosen of the rows of a tile, as text, in a graph of one product of so many rows and k, whose elements are what `lines` make of %0. */
static void check_offer(const char *rows, int k, const char *lines, const char *want) {
    char text[600], got[80] = "";
    lower_choice list[LOWER_MAX_CHOICES], c;
    lower_piece p;
    ir_graph *g;
    uint32_t n_subjects = 0;
    (void)snprintf(text, sizeof text,
                   "graph @g(%%x: bf16[T,%d], %%r: f32[T,1]) where T in %s {\n"
                   "  %%w = param @w : bf16[2048,%d]\n"
                   "  %%0 = matmul %%x, %%w {trans_b=true}\n%s }\n",
                   k, rows, k, lines);
    lower_text(text, &p, &g);
    for (uint32_t i = 0; i < p.n_kernels; i++) {
        const lower_kernel *of = &p.kernels[i];
        if (!(of->may & LOWER_MAY(ROWS))) continue;
        n_subjects++;
        const uint32_t n = lower_choices(of, GEN_ISA_PORTABLE, list);
        for (uint32_t j = 1; j < n; j++) {
            const size_t at = strlen(got);
            (void)snprintf(got + at, sizeof got - at, " %u", list[j].rows);
        }
        assert_false(lower_choice_parse(of, GEN_ISA_PORTABLE, "rows=84", &c));
        assert_false(lower_choice_parse(of, GEN_ISA_PORTABLE, "threads=64", &c));
        assert_int_equal(lower_choice_parse(of, GEN_ISA_PORTABLE, "rows=176", &c),
                         strstr(want, "176") != NULL);
    }
    if (strcmp(got, want) != 0)
        fail_msg("%s rows of k %d%s: \"%s\", want \"%s\"", rows, k, lines, got, want);
    assert_int_equal(n_subjects, *want ? 1 : 0); /* a product is measured once */
    lower_done(&p);
    ir_graph_free(g);
}

/* Where nothing but time hangs on it: not where k is in slices, and in turns only elements that have results by themselves. 2048 columns are 16 jobs: 512 rows are in tiles
 * of 64. */
static void tiles_are_offered_where_sums_ascend(void **state) {
    static const char again[] = "  %1 = mul %0, %r\n  %2 = sigmoid %1\n  %3 = mul %1, %2\n"
                                "  ret %0, %1, %3";
    (void)state;
    check_offer("[512,512]", 64, "  ret %0", " 128 176 192 256");
    check_offer("[1,4096]", 64, "  ret %0", " 128 176 192 256");
    check_offer("[600,4096]", 64, "  ret %0", " 64 176 192 256");
    check_offer("[65,65]", 64, "  ret %0", " 128 176 192 256");
    check_offer("[64,64]", 64, "  ret %0", "");
    check_offer("[1,8]", 64, "  ret %0", "");
    check_offer("[512,512]", 64, again, " 128 192 256");
    check_offer("[512,512]", 8192, "  ret %0", ""); /* of two halves */
    check_offer("[256,256]", 8192, "  ret %0", " 128 176 192 256");
}

static uint32_t kernels_of_rows(const char *rows) {
    char text[300];
    lower_piece p;
    ir_graph *g;
    (void)snprintf(text, sizeof text,
                   "graph @g(%%x: bf16[T,64]) where T in %s {\n"
                   "  %%w = param @w : bf16[2048,64]\n"
                   "  %%0 = matmul %%x, %%w {trans_b=true}\n  ret %%0 }\n",
                   rows);
    lower_text(text, &p, &g);
    const uint32_t n = p.n_kernels;
    lower_done(&p);
    ir_graph_free(g);
    return n;
}

/* What is chosen for a class of rows is measured with all kernels of the product: a record is of the text of each, and of no other's. */
static void a_record_is_of_all_kernels_of_a_product(void **state) {
    static const char text[] = "graph @g(%x: bf16[T,2048], %y: f32[8]) where T in [1,4096] {\n"
                               "  %w = param @w : bf16[2048,2048]\n"
                               "  %0 = matmul %x, %w {trans_b=true}\n  %1 = exp %y\n"
                               "  ret %0, %1 }\n";
    lower_piece p;
    ir_graph *g;
    rp_error err = {0};
    uint32_t n = 0, others = 0;
    (void)state;
    lower_text(text, &p, &g);
    const lower_kernel *of = p.kernels;
    while (!of->n_tiles) of++;
    for (uint32_t i = 0; i < p.n_kernels; i++) {
        base_hash128 was, is;
        CHECK_OK(compile_record_text(&p, of, &was, &err), &err);
        char *last = &p.source[p.kernels[i].end - 1];
        *last ^= 1;
        CHECK_OK(compile_record_text(&p, of, &is, &err), &err);
        *last ^= 1;
        const bool same = was.lo == is.lo && was.hi == is.hi, own = p.kernels[i].group == of->group;
        assert_int_equal(same, !own);
        n += own;
        others += !own;
    }
    assert_true(n > 2 && others > 0);
    lower_done(&p);
    ir_graph_free(g);
}

static void rows_that_cannot_be_have_no_kernel(void **state) {
    (void)state;
    assert_int_equal(kernels_of_rows("[1,1]"), 1);
    assert_int_equal(kernels_of_rows("[5,8]"), 1);
    assert_int_equal(kernels_of_rows("[1,8]"), 2);
    assert_int_equal(kernels_of_rows("[512,512]"), 2); /* one arranges the rows */
    assert_int_equal(kernels_of_rows("[8,9]"), 3);
    assert_int_equal(kernels_of_rows("[9,64]"), 2);
    assert_int_equal(kernels_of_rows("[512,513]"), 4);
}

/* A chosen tile is of the one class that is measured, and of rows that are made for it, by whoever makes them. */
static void a_chosen_tile_is_told_to_who_makes_its_rows(void **state) {
    static const char text[] =
        "graph @g(%x: bf16[T,64]) where T in [1,4096] {\n  %a = param @a : bf16[2048,64]\n"
        "  %b = param @b : bf16[64,2048]\n  %0 = matmul %x, %a {trans_b=true}\n"
        "  %1 = cast %0 {dtype=bf16}\n  %2 = matmul %1, %b {trans_b=true}\n  ret %2 }\n";
    lower_choice of[2] = {{.rows = 128}, {.rows = 192}};
    lower_options o = {.target = GEN_CUDA, .choices = of, .n_choices = 2};
    lower_piece p;
    rp_error err = {0};
    ir_graph *g, *opt;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(pass_run_all(g, NULL, &opt, &err), &err);
    CHECK_OK(target_lower(opt, &o, &p, &err), &err);
    assert_int_equal(p.n_launches, 3);
    for (uint32_t i = 0; i < p.n_launches; i++) {
        static const char *const chosen[] = {"_x128", "_m128c", "_p192c"};
        const lower_alt *a = p.launches[i].alts;
        while (a->max < 256) a++;
        if (!strstr(a->symbol, chosen[i]))
            fail_msg("256 rows are done by %s, not %s", a->symbol, chosen[i]);
    }
    assert_int_equal(count(p.source, "_m128c(char *"), 1);
    assert_int_equal(count(p.source, "_m128(char *"), 1); /* the class behind it */
    assert_non_null(strstr(p.source, "n <= 64 ? 64 : n <= 8448 ? 192 : "));
    lower_done(&p);
    ir_graph_free(opt);
    ir_graph_free(g);
}

/* Sums over so much k of so few columns are of two halves from 257 to 512 rows, whatever shares their kernel. */
static void long_sums_are_of_two_halves(void **state) {
    static const struct {
        int k, columns, beside; /* columns of another product of the rows; 0: none */
        const char *symbol;
        uint32_t blocks;
    } want[] = {{8192, 2048, 0, "_h128x2", 128}, {8192, 1032, 0, "_h128x2", 72},
                {8192, 2056, 0, "_m64", 0},      {8192, 1024, 0, "_m64", 0},
                {8176, 2048, 0, "_m64", 0},      {8192, 2048, 512, "_h128x1", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char graph[400], more[120] = "";
        const int k = want[i].k, beside = want[i].beside;
        lower_piece p;
        ir_graph *g;
        if (beside)
            (void)snprintf(more, sizeof more,
                           "  %%b = param @b : bf16[%d,%d]\n"
                           "  %%1 = matmul %%x, %%b {trans_b=true}\n",
                           beside, k);
        (void)snprintf(graph, sizeof graph,
                       "graph @g(%%x: bf16[T,%d]) where T in [1,4096] {\n"
                       "  %%a = param @a : bf16[%d,%d]\n"
                       "  %%0 = matmul %%x, %%a {trans_b=true}\n%s  ret %%0%s }\n",
                       k, want[i].columns, k, more, beside ? ", %1" : "");
        lower_text(graph, &p, &g);
        const lower_launch *l = &p.launches[p.n_launches - 1];
        for (int64_t rows = 256; rows <= 513; rows += rows == 256 ? 1 : 256) {
            const bool halved = rows == 257 && *want[i].symbol && strstr(want[i].symbol, "_h");
            const lower_alt *a = l->alts;
            while (a->max < rows) a++;
            if (rows == 257 ? !strstr(a->symbol, want[i].symbol) || a->blocks != want[i].blocks
                            : strstr(a->symbol, "_h") != NULL)
                fail_msg("%d columns of k %d, %d rows: %s in %u blocks", want[i].columns, k,
                         (int)rows, a->symbol, (unsigned)a->blocks);
            if (halved)
                assert_int_equal(
                    strstr(p.source, "bool sliced(const rk_job &job)\n    {\n        "
                                     "return false || (job.unit >= 0 && job.unit < 64);") != NULL,
                    beside > 0);
        }
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* What is added to a product may leave little of it, and then steps that are a few units off are many. */
static void only_products_have_the_fewest_steps(void **state) {
    static const struct {
        const char *lines;
        bool swift;
    } want[] = {
        {"  %s = sigmoid %0\n  %2 = mul %0, %s\n  %y = mul %2, %1", true},
        {"  %s = sigmoid %1\n  %2 = mul %1, %s\n  %y = mul %2, %0", true},
        {"  %s = sigmoid %0\n  %2 = mul %0, %s\n  %y = add %2, %1", false},
        {"  %s = sigmoid %0\n  %2 = mul %0, %s\n  %3 = mul %2, %1\n  %y = add %3, %1", false},
        {"  %s = sigmoid %0\n  %2 = mul %0, %s\n  %3 = mul %2, %1\n  %y = mul %3, %1", false}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        lower_piece p;
        ir_graph *g;
        lower_gates(want[i].lines, &p, &g);
        const bool swift = strstr(p.source, "SWIFT = 1") != NULL;
        if (swift != want[i].swift)
            fail_msg("%s: %s", want[i].lines, swift ? "swift" : "not swift");
        lower_done(&p);
        ir_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_hold_every_column),
        cmocka_unit_test(jobs_hold_whole_units),
        cmocka_unit_test(angles_are_gathered_by_the_product),
        cmocka_unit_test(few_rows_are_gathered_by_the_product),
        cmocka_unit_test(made_rows_have_room),
        cmocka_unit_test(norms_have_a_template),
        cmocka_unit_test(a_sum_near_zero_is_that_of_every_sigmoid),
        cmocka_unit_test(classes_of_equal_tiles_share_a_kernel),
        cmocka_unit_test(tiles_are_offered_where_sums_ascend),
        cmocka_unit_test(a_record_is_of_all_kernels_of_a_product),
        cmocka_unit_test(rows_that_cannot_be_have_no_kernel),
        cmocka_unit_test(a_chosen_tile_is_told_to_who_makes_its_rows),
        cmocka_unit_test(long_sums_are_of_two_halves),
        cmocka_unit_test(only_products_have_the_fewest_steps)};
    return cmocka_run_group_tests_name("unit/lower_tensor", tests, NULL, NULL);
}
