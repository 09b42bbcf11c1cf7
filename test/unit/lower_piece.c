/* Lowering of what a layer has: the same text every time, and a clean failure wherever memory runs out. */
#include "support/check.h"
#include "support/small_llama.h"

#include "base/alloc.h"
#include "target/target.h"
#include "pass/pipeline.h"
#include "reprise/op.h"

static ir_graph *layer_graph(rp_dtype weights, rp_numerics numerics) {
    small_llama_options o = {.layers = 1, .weights = weights, .numerics = numerics};
    rp_error err = {0};
    rp_graph *g;
    ir_graph *opt;
    CHECK_OK(small_llama_new(&o, &g, &err), &err);
    CHECK_OK(pass_run_all(trace_graph_ir(g), NULL, &opt, &err), &err);
    rp_graph_free(g);
    return opt;
}

static void text_is_the_same_every_time(void **state) {
    ir_graph *g = layer_graph(RP_DTYPE_Q4_1, RP_NUMERICS_DEFAULT);
    lower_options o = {.isa = GEN_ISA_AVX2};
    rp_error err = {0};
    lower_piece a, b;
    (void)state;
    CHECK_OK(target_lower(g, &o, &a, &err), &err);
    CHECK_OK(target_lower(g, &o, &b, &err), &err);
    assert_string_equal(a.source, b.source);
    assert_int_equal(a.n_launches, b.n_launches);
    for (uint32_t i = 0; i < a.n_launches; i++)
        assert_string_equal(a.launches[i].name, b.launches[i].name);
    lower_done(&a);
    lower_done(&b);
    ir_graph_free(g);
}

/* Two pairs of matrices behind one input: the weights of the second pair begin behind both matrices of the first. */
static void segments_begin_behind_those_in_front(void **state) {
    static const char text[] =
        "graph @pairs(%x: f32[T,64]) -> (f32[T,64], f32[T,96]) where T in [1,64] {\n"
        "  %a = param @a : q4_1[64,64]\n  %b = param @b : q4_1[64,64]\n"
        "  %c = param @c : q4_1[96,64]\n  %d = param @d : q4_1[96,64]\n"
        "  %q = quantize %x {dtype=i16b32}\n  %y = dequant %q\n"
        "  %da = dequant %a\n  %db = dequant %b\n  %dc = dequant %c\n  %dd = dequant %d\n"
        "  %ma = matmul %y, %da {trans_b=true}\n  %mb = matmul %y, %db {trans_b=true}\n"
        "  %mc = matmul %y, %dc {trans_b=true}\n  %md = matmul %y, %dd {trans_b=true}\n"
        "  %sa = tanh %ma\n  %sc = tanh %mc\n  %g = mul %sa, %mb\n  %h = mul %sc, %md\n"
        "  ret %g, %h\n}\n";
    /* 64 columns of two matrices are 8 tiles of 16 rows. */
    static const char *const want[2][2] = {{"w + 0 * RP_TILE_q4_1(64)", "w + 8 * RP_TILE_q4_1(64)"},
                                           {"a1 + (0 + (item - 0) * ", "a1 + (8 + (item - "}};
    rp_error err = {0};
    ir_graph *g, *opt;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(pass_run_all(g, NULL, &opt, &err), &err);
    for (int gpu = 0; gpu < 2; gpu++) {
        lower_options o = {.isa = GEN_ISA_PORTABLE, .target = gpu ? GEN_CUDA : GEN_HOST};
        lower_piece p;
        CHECK_OK(target_lower(opt, &o, &p, &err), &err);
        for (int i = 0; i < 2; i++)
            if (!strstr(p.source, want[gpu][i])) fail_msg("no %s in %s", want[gpu][i], p.source);
        lower_done(&p);
    }
    ir_graph_free(opt);
    ir_graph_free(g);
}

/* Functions of one unit must not clash, whatever the pieces of a step are. */
static void names_are_distinct(void **state) {
    static const rp_dtype weights[] = {RP_DTYPE_Q4_1, RP_DTYPE_F32, RP_DTYPE_BF16};
    rp_error err = {0};
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        ir_graph *g = layer_graph(weights[t], RP_NUMERICS_DEFAULT);
        lower_options o = {.isa = GEN_ISA_PORTABLE};
        lower_piece p;
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        for (uint32_t i = 0; i < p.n_launches; i++)
            for (uint32_t k = 0; k < i; k++)
                if (!p.launches[i].attention)
                    assert_string_not_equal(p.launches[i].name, p.launches[k].name);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* Products that were joined into one segment are not packed as segments of their own, too. */
static void every_matrix_is_packed_once(void **state) {
    static const uint32_t n_matrices = 7; /* q, k, v, output, gate, up, down */
    ir_graph *g = layer_graph(RP_DTYPE_Q4_1, RP_NUMERICS_DEFAULT);
    lower_options o = {.isa = GEN_ISA_PORTABLE};
    rp_error err = {0};
    lower_piece p;
    uint32_t n = 0, joined = 0;
    (void)state;
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_packs; i++)
        for (uint32_t k = 0; k < p.packs[i].n_sections; k++) {
            n += p.packs[i].sections[k].n_params;
            joined += p.packs[i].sections[k].n_params > 1;
        }
    assert_int_equal(n, n_matrices);
    assert_int_equal(joined, 1); /* gate and up */
    lower_done(&p);
    ir_graph_free(g);
}

/* A large [n][k] parameter that one product of few rows reads stays where it is; each of these has a reason to be packed. */
static void large_matrices_of_few_rows_are_read_where_they_lie(void **state) {
    static const struct {
        const char *text;
        bool packed;
    } cases[] = {
        {"graph @g(%x: f32[4,4096]) {\n  %w = param @w : f32[2050,4096]\n"
         "  %0 = matmul %x, %w {trans_b=true}\n  %1 = tanh %0\n  ret %1 }",
         false},
        {"graph @g(%x: f32[2,2,4096]) {\n  %w = param @w : f32[2050,4096]\n  %t = permute %w "
         "{axes=[1,0]}\n  %0 = matmul %x, %t\n  ret %0 }",
         false},
        {"graph @g(%x: f32[5,4096]) {\n  %w = param @w : f32[2050,4096]\n"
         "  %0 = matmul %x, %w {trans_b=true}\n  ret %0 }",
         true},
        {"graph @g(%x: f32[T,4096]) where T in [1,9] {\n  %w = param @w : f32[2050,4096]\n"
         "  %0 = matmul %x, %w {trans_b=true}\n  ret %0 }",
         true},
        {"graph @g(%x: f32[1,4096]) {\n  %w = param @w : f32[2000,4096]\n"
         "  %0 = matmul %x, %w {trans_b=true}\n  ret %0 }",
         true},
        {"graph @g(%x: f32[1,4096]) {\n  %w = param @w : f32[4096,2050]\n"
         "  %0 = matmul %x, %w\n  ret %0 }",
         true},
        {"graph @g(%x: f32[1,4096]) {\n  %w = param @w : bf16[4100,4096]\n"
         "  %0 = matmul %x, %w {trans_b=true}\n  ret %0 }",
         true},
        {"graph @g(%x: f32[1,4096]) {\n  %v = param @v : f32[2050,4096]\n  %w = param @w : "
         "f32[2050,4096]\n  %0 = matmul %x, %v {trans_b=true}\n  %1 = matmul %x, %w "
         "{trans_b=true}\n  %2 = mul %0, %1\n  ret %2 }",
         true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lower_options o = {.isa = GEN_ISA_PORTABLE};
        rp_error err = {0};
        lower_piece p;
        ir_graph *g = NULL;
        CHECK_OK(ir_parse(cases[i].text, strlen(cases[i].text), &g, &err), &err);
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        if ((p.n_packs > 0) != cases[i].packed) fail_msg("%s", cases[i].text);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* The rows that the output and that gate and up read. Those of q, k and v come from a kernel that stores the embedding, too. */
static void products_on_a_gpu_make_a_row_themselves(void **state) {
    ir_graph *g = layer_graph(RP_DTYPE_Q4_1, RP_NUMERICS_DEFAULT);
    lower_options o = {.target = GEN_CUDA};
    rp_error err = {0};
    lower_piece p;
    uint32_t left_out = 0;
    (void)state;
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_launches; i++) {
        const lower_launch *l = &p.launches[i];
        if (l->n_alts < 2 || l->alts[0].symbol) continue;
        left_out++;
        assert_int_equal(l->alts[0].max, 1);
        assert_null(l->alts[0].symbol);
        assert_string_equal(l->alts[1].symbol, l->name);
    }
    assert_int_equal(left_out, 2);
    lower_done(&p);
    ir_graph_free(g);
}

/* Where anybody else reads them, the kernel makes a single row, too. */
static void rows_that_others_read_are_made_for_all(void **state) {
    static const struct {
        const char *more;
        uint32_t left_out;
    } cases[] = {{"ret %0", 1},
                 {"%1 = matmul %y, %d {trans_b=true}\n  ret %0, %1", 1},
                 {"ret %0, %y", 0},
                 {"%1 = neg %y\n  ret %0, %1", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        lower_options o = {.target = GEN_CUDA};
        rp_error err = {0};
        lower_piece p;
        ir_graph *g = NULL;
        uint32_t left_out = 0;
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[T,64]) where T in [1,64] {\n  %%w = param @w : "
                       "q4_1[96,64]\n  %%h = exp %%x\n  %%q = quantize %%h {dtype=i16b32}\n"
                       "  %%y = dequant %%q\n  %%d = dequant %%w\n"
                       "  %%0 = matmul %%y, %%d {trans_b=true}\n  %s\n}\n",
                       cases[i].more);
        CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        for (uint32_t k = 0; k < p.n_launches; k++)
            left_out += p.launches[k].n_alts > 1 && !p.launches[k].alts[0].symbol;
        if (left_out != cases[i].left_out) fail_msg("%s: %u", cases[i].more, left_out);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* Kernels of which nothing ever runs. */
static uint32_t count_left_out(const ir_graph *g) {
    lower_options o = {.target = GEN_CUDA};
    rp_error err = {0};
    lower_piece p;
    uint32_t n = 0;
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_launches; i++)
        n += p.launches[i].n_alts == 1 && !p.launches[i].alts[0].symbol;
    lower_done(&p);
    return n;
}

/* The norm in front of gate and up. */
static void products_on_tensor_cores_make_all_rows(void **state) {
    ir_graph *g = layer_graph(RP_DTYPE_BF16, RP_NUMERICS_DEFAULT);
    (void)state;
    assert_int_equal(count_left_out(g), 1);
    ir_graph_free(g);
}

/* What comes from another piece, too. */
static void products_on_tensor_cores_round_rows_as_they_read_them(void **state) {
    rp_graph *g = rp_graph_new("rounded");
    rp_error err = {0};
    ir_graph *opt;
    (void)state;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 1, 1024), 64));
    rp_tensor y =
        rp_linear(rp_cast(x, RP_DTYPE_BF16), rp_param(g, "w", RP_DTYPE_BF16, RP_SHAPE(128, 64)));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(pass_run_all(trace_graph_ir(g), NULL, &opt, &err), &err);
    assert_int_equal(count_left_out(opt), 1);
    rp_graph_free(g);
    ir_graph_free(opt);
}

/* q, k and v behind a norm's rows, turned by angles of another piece and stored; q is returned, and what is turned of it once more where `twice`;
 * also: a state that k, or its product where that is "raw", is stored to, too. */
static ir_graph *heads_of(rp_dtype cache, bool twice, const char *also) {
    rp_graph *g = rp_graph_new("heads");
    rp_dim T = rp_symbol(g, "T", 1, 1024), NB = rp_symbol(g, "NB", 1, 1024);
    rp_error err = {0};
    ir_graph *opt;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_BF16, RP_SHAPE(T, 64));
    rp_tensor cos = rp_input(g, "cos", RP_DTYPE_F32, RP_SHAPE(T, 16));
    rp_tensor sin = rp_input(g, "sin", RP_DTYPE_F32, RP_SHAPE(T, 16));
    rp_tensor slots = rp_input(g, "slots", RP_DTYPE_I32, RP_SHAPE(T));
    rp_tensor out[2];
    for (int i = 0; i < 3; i++) { /* k, v, q */
        rp_tensor y = rp_linear(x, rp_param(g,
                                            i < 1   ? "k"
                                            : i < 2 ? "v"
                                                    : "q",
                                            RP_DTYPE_BF16, RP_SHAPE(64, 64)));
        out[1] = y;
        if (i != 1) y = rp_rope_interleaved(rp_reshape(y, RP_SHAPE(T, 2, 32)), cos, sin);
        y = rp_reshape(y, RP_SHAPE(T, 64));
        if (i == 0 && also)
            (void)rp_kv_store(rp_state(g, also, cache, RP_SHAPE(NB, 2, 16, 32)),
                              strcmp(also, "raw") == 0 ? out[1] : y, slots);
        out[0] = y;
        if (i < 2)
            (void)rp_kv_store(rp_state(g, i ? "vs" : "ks", cache, RP_SHAPE(NB, 2, 16, 32)), y,
                              slots);
    }
    CHECK_OK(rp_graph_finish(g, out, twice ? 2 : 1, &err), &err);
    CHECK_OK(pass_run_all(trace_graph_ir(g), NULL, &opt, &err), &err);
    rp_graph_free(g);
    return opt;
}

static ir_graph *heads_graph(rp_dtype cache, bool twice) {
    return heads_of(cache, twice, NULL);
}

static uint32_t count_named(const ir_graph *g, const char *what) {
    lower_options o = {.target = GEN_CUDA};
    rp_error err = {0};
    lower_piece p;
    uint32_t n = 0;
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_launches; i++) n += strstr(p.launches[i].name, what) != NULL;
    lower_done(&p);
    return n;
}

/* Not where anything else wants the sums, nor into a cache of another type. */
static void products_on_tensor_cores_turn_and_store_heads(void **state) {
    ir_graph *g = heads_graph(RP_DTYPE_BF16, false), *f16 = heads_graph(RP_DTYPE_F16, false),
             *read = heads_graph(RP_DTYPE_BF16, true);
    (void)state;
    assert_int_equal(count_named(g, "mm_"), 2); /* with the launch that arranges rows */
    assert_int_equal(count_named(g, "kv_store"), 0);
    assert_int_equal(count_named(f16, "kv_store"), 1);
    assert_int_equal(count_named(read, "kv_store"), 1);
    ir_graph_free(g);
    ir_graph_free(f16);
    ir_graph_free(read);
}

/* Each product has one end: of two, neither is forgotten. */
static void heads_that_are_stored_twice_stay_two(void **state) {
    static const char *const also[] = {"ks2", "raw"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ir_graph *g = heads_of(RP_DTYPE_BF16, false, also[i]);
        if (count_named(g, "kv_store") == 0) fail_msg("%s is not stored", also[i]);
        ir_graph_free(g);
    }
}

/* Two products of which the second reads the rows of the first; these are returned, too, where `seen`. */
static ir_graph *chain_graph(bool seen) {
    rp_graph *g = rp_graph_new("chain");
    rp_error err = {0};
    rp_tensor out[2];
    ir_graph *opt;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_BF16, RP_SHAPE(rp_symbol(g, "T", 1, 1024), 64));
    rp_tensor y = rp_linear(x, rp_param(g, "up", RP_DTYPE_BF16, RP_SHAPE(128, 64)));
    out[1] = rp_cast(rp_silu(y), RP_DTYPE_BF16);
    out[0] = rp_linear(out[1], rp_param(g, "down", RP_DTYPE_BF16, RP_SHAPE(64, 128)));
    CHECK_OK(rp_graph_finish(g, out, seen ? 2 : 1, &err), &err);
    CHECK_OK(pass_run_all(trace_graph_ir(g), NULL, &opt, &err), &err);
    rp_graph_free(g);
    return opt;
}

/* Two products, and the launches that arrange rows for them. */
static void products_on_tensor_cores_leave_rows_arranged(void **state) {
    ir_graph *g = chain_graph(false), *seen = chain_graph(true);
    (void)state;
    assert_int_equal(count_named(g, "mm_"), 2 + 1);
    assert_int_equal(count_named(seen, "mm_"), 2 + 2);
    ir_graph_free(g);
    ir_graph_free(seen);
}

/* A tile of such rows is there as a whole: of up to 256 of them, in a power of two that most classes have. */
static void arranged_rows_have_whole_tiles(void **state) {
    enum { COLUMNS = 128 };
    const lower_options o = {.target = GEN_CUDA};
    ir_graph *g = chain_graph(false);
    rp_error err = {0};
    lower_piece p;
    (void)state;
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (int64_t rows = 1; rows <= 1024; rows++) {
        int64_t tile = 16, most = 0;
        while (tile < rows && tile < 256) tile *= 2;
        for (uint32_t i = 0; i < p.n_temps; i++) {
            const int64_t bytes = ir_dim_eval(p.dims, p.temps[i].bytes, &rows);
            if (bytes > most) most = bytes;
        }
        if (most < (rows + tile - 1) / tile * tile * COLUMNS * 2)
            fail_msg("%lld rows in %lld bytes", (long long)rows, (long long)most);
    }
    lower_done(&p);
    ir_graph_free(g);
}

/* The kernel of a GPU for so many rows of attention, and its blocks. */
static const lower_alt *attention_of(const lower_piece *p, int64_t rows, int64_t *blocks) {
    const lower_launch *l = p->launches;
    while (!l->attention) l++;
    const lower_alt *alt = l->alts;
    while (rows > alt->max) alt++;
    int64_t items = ir_dim_eval(p->dims, l->items, &rows);
    *blocks = (items + alt->per_block - 1) / alt->per_block;
    return alt;
}

static ir_graph *attention_graph(const char *cache, int head_dim) {
    char text[700];
    rp_error err = {0};
    ir_graph *g;
    (void)snprintf(text, sizeof text,
                   "graph @g(%%q: f32[T,%d], %%seqs: i32[T], %%pos: i32[T], %%bt: i32[64,64])"
                   " where T in [1,4096] {\n"
                   "  %%k = state @k : %s[99,8,16,%d]\n  %%v = state @v : %s[99,8,16,%d]\n"
                   "  %%o = empty {dtype=f32, shape=[T,%d]}\n"
                   "  %%a = attention %%q, %%k, %%v, %%seqs, %%pos, %%bt, %%o {heads=32, "
                   "head_dim=%d, kv_heads=8}\n  ret %%a }\n",
                   32 * head_dim, cache, head_dim, cache, head_dim, 32 * head_dim, head_dim);
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    return g;
}

/* No kernel of attention reads what those in front of it write before they have. */
static void waits_before_it_runs(const lower_piece *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        const char *from = p->source + p->kernels[i].begin, *wait = strstr(from, "rk_wait();"),
                   *run = strstr(from, "A::run("), *end = p->source + p->kernels[i].end;
        if (!run || run >= end) continue;
        n++;
        if (!wait || wait > run) fail_msg("%s does not wait", p->kernels[i].name);
    }
    assert_true(n > 0);
}

/* 8 kv heads: as many clusters a row, of fewer blocks the more rows there are (blocks of more warps where it is one of long heads); on tensor cores then rows are streamed; then tiles of rows. */
static void attention_has_the_blocks_of_its_class(void **state) {
    static const struct {
        const char *cache, *kernel;
        int64_t rows, blocks;
        int head_dim;
    } want[] = {{"bf16", "_rows8", 1, 64, 64},        {"bf16", "_rows4", 8, 256, 64},
                {"bf16", "_stream16", 16, 128, 64},   {"bf16", "_stream64", 64, 512, 64},
                {"bf16", "_flash8", 256, 512, 64},    {"bf16", "_prefill8", 257, 514, 64},
                {"bf16", "_prefill8", 512, 1024, 64}, {"bf16", "_prefill", 2048, 512, 64},
                {"bf16", "_flash8", 128, 256, 96},    {"bf16", "_flash", 2048, 512, 96},
                {"f16", "_rows8", 1, 64, 64},         {"f16", "_rows4", 8, 256, 64},
                {"f16", "_rows2", 18, 288, 64},       {"f16", "_tiles", 64, 512, 64},
                {"f16", "_tiles", 2048, 16384, 64},   {"bf16", "_row8", 1, 64, 128},
                {"bf16", "_rows8", 2, 128, 128},      {"bf16", "_rows4", 4, 128, 128},
                {"bf16", "_rows2", 16, 256, 128},     {"bf16", "_stream64", 17, 136, 128},
                {"f16", "_rows8", 1, 64, 128}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        ir_graph *g = attention_graph(want[i].cache, want[i].head_dim);
        lower_options o = {.target = GEN_CUDA};
        rp_error err = {0};
        lower_piece p;
        int64_t blocks;
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        waits_before_it_runs(&p);
        const lower_alt *alt = attention_of(&p, want[i].rows, &blocks);
        if (!strstr(alt->symbol, want[i].kernel) || blocks != want[i].blocks)
            fail_msg("%s, %d rows: %d blocks of %s, want %d of %s", want[i].cache,
                     (int)want[i].rows, (int)blocks, alt->symbol, (int)want[i].blocks,
                     want[i].kernel);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* A product of up to 64 rows with n columns of K, and what it is lowered to. */
static ir_graph *product_of(int64_t n, int64_t k, lower_piece *p) {
    char text[300];
    lower_options o = {.target = GEN_CUDA};
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)snprintf(text, sizeof text,
                   "graph @g(%%x: bf16[T,%d]) where T in [1,64] {\n"
                   "  %%w = param @w : bf16[%d,%d]\n  %%y = matmul %%x, %%w {trans_b=true}\n"
                   "  ret %%y\n}\n",
                   (int)k, (int)n, (int)k);
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(target_lower(g, &o, p, &err), &err);
    return g;
}

/* K, rows, tiles of weights of a unit, steps of a copy, copies of a warp's ring, those of them before the wait. */
static void products_of_few_rows_ask_for_little_early(void **state) {
    static const struct {
        int64_t n, k;
        const char *one, *few;
    } want[] = {{2048, 2048, "<2048, 1, 1, 8, 2, 2>", "<2048, 8, 1, 8, 2, 2>"},
                {3072, 2048, "<2048, 1, 1, 8, 4, 2>", "<2048, 8, 1, 8, 4, 1>"},
                {2048, 8192, "<8192, 1, 1, 8, 6, 2>", "<8192, 8, 1, 8, 2, 1>"},
                {6144, 4096, "<4096, 1, 1, 8, 6, 2>", "<4096, 8, 1, 8, 4, 1>"}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        lower_piece p;
        ir_graph *g = product_of(want[i].n, want[i].k, &p);
        if (!strstr(p.source, want[i].one) || !strstr(p.source, want[i].few))
            fail_msg("%d columns of %d: neither %s nor %s", (int)want[i].n, (int)want[i].k,
                     want[i].one, want[i].few);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* Columns of K, as many matrices for an element: who shares the four slices of K of a step of 64 rows, and how many blocks that are (0: one a multiprocessor). */
static void products_of_some_rows_keep_multiprocessors_busy(void **state) {
    static const struct {
        int64_t n, k;
        const char *kernel;
        uint32_t blocks;
        const char *
            tile; /* tiles of weights of a job, rows, k of a chunk, chunks, slices, blocks that share them */
    } want[] = {{2048, 2048, "_s64x4", 88, "<2048, 6, 64, 128, 5, 4, RK_BLOCKS(4), "},
                {3072, 2048, "_s64x4", 96, "<2048, 8, 64, 128, 4, 4, RK_BLOCKS(4), "},
                {4096, 4096, "_s64x2", 128, "<4096, 4, 64, 128, 6, 4, RK_BLOCKS(2), "},
                {6144, 4096, "_s64x2", 128, "<4096, 6, 64, 128, 5, 4, RK_BLOCKS(2), "},
                {8192, 2048, "_s64x2", 128, "<2048, 8, 64, 128, 4, 4, RK_BLOCKS(2), "},
                {28672, 4096, "_s64x1", 0, "<4096, 8, 64, 128, 4, 4, RK_BLOCKS(1), "}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        lower_piece p;
        ir_graph *g = product_of(want[i].n, want[i].k, &p);
        const lower_launch *l = &p.launches[p.n_launches - 1];
        const lower_alt *alt = l->alts;
        while (alt->max < 64) alt++;
        if (!strstr(alt->symbol, want[i].kernel) || alt->blocks != want[i].blocks ||
            !strstr(p.source, want[i].tile))
            fail_msg("%d columns of %d: %u blocks of %s, want %u of %s with tiles %s",
                     (int)want[i].n, (int)want[i].k, alt->blocks, alt->symbol, want[i].blocks,
                     want[i].kernel, want[i].tile);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* Tiles of a wide product of 2048: those that fit a step in one go, then 256 rows of one tile, then 192 in turns, which two tiles of 256 are no better than. */
static void products_of_many_rows_have_tiles_that_fit(void **state) {
    static const struct {
        int64_t rows;
        const char *kernel;
    } want[] = {{128, "_m128"}, {129, "_m256"}, {256, "_m256"}, {257, "_p192"}, {4096, "_p192"}};
    static const char text[] = "graph @g(%x: bf16[T,2048]) where T in [1,4096] {\n"
                               "  %w = param @w : bf16[16384,2048]\n"
                               "  %y = matmul %x, %w {trans_b=true}\n  ret %y\n}\n";
    const lower_options o = {.target = GEN_CUDA};
    rp_error err = {0};
    ir_graph *g = NULL;
    lower_piece p;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const lower_alt *alt = p.launches[p.n_launches - 1].alts;
        while (alt->max < want[i].rows) alt++;
        if (!strstr(alt->symbol, want[i].kernel))
            fail_msg("%d rows: %s, want %s", (int)want[i].rows, alt->symbol, want[i].kernel);
    }
    lower_done(&p);
    ir_graph_free(g);
}

/* What is printed and dumped is what would be compiled, templates included. */
/* A launch is told by the fusion that it is of; what copies an output is of none, whatever is in front of it. */
static void launches_name_their_fusion(void **state) {
    static const char text[] = "graph @g(%x: f32[T,8], %y: f32[T,4]) where T in [1,64] {\n"
                               "  %0 = exp %x\n  %1 = sum %y {axis=1}\n  %2 = exp %1\n"
                               "  ret %0, %2, %0, %2 }\n";
    (void)state;
    for (int gpu = 0; gpu < 2; gpu++) {
        lower_options o = {.target = gpu ? GEN_CUDA : GEN_HOST};
        lower_piece p;
        rp_error err = {0};
        ir_graph *g;
        CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        assert_int_equal(p.n_launches, 4);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(p.launches[i].group, i < 2 ? i : UINT32_MAX);
        for (uint32_t i = 0; i < p.n_kernels; i++)
            assert_int_equal(p.kernels[i].group, i < 2 ? i : UINT32_MAX);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* What a kernel is called in tables: what is multiplied, with the columns of all products side by side, each once; else its name and
 * what it reads from others, the first few. */
static void labels_say_what_is_computed(void **state) {
    static const struct {
        const char *text, *label;
    } is[] = {
        {"graph @g(%x: f32[T,64]) where T in [1,64] {\n"
         "  %a = param @a : q4_1[64,64]\n  %b = param @b : q4_1[64,64]\n"
         "  %c = param @c : q4_1[96,64]\n  %d = param @d : q4_1[96,64]\n"
         "  %da = dequant %a\n  %db = dequant %b\n  %dc = dequant %c\n  %dd = dequant %d\n"
         "  %ma = matmul %x, %da {trans_b=true}\n  %mb = matmul %x, %db {trans_b=true}\n"
         "  %mc = matmul %x, %dc {trans_b=true}\n  %md = matmul %x, %dd {trans_b=true}\n"
         "  %g = mul %ma, %mb\n  %h = mul %mc, %md\n  ret %g, %h\n}\n",
         "mm(64x64, 64x320)"},
        {"graph @g(%x: f32[3,50,70], %w: f32[3,70,33]) {\n  %y = matmul %x, %w\n"
         "  %z = exp %y\n  ret %z\n}\n",
         "bmm(3x50x70, 3x70x33)"},
        {"graph @g(%x: f32[T,8], %y: f32[8], %s: f32[]) where T in [1,4096] {\n"
         "  %two = const 2.0\n  %0 = mul %x, %two\n  %1 = add %0, %y\n  %2 = mul %1, %s\n"
         "  ret %2\n}\n",
         "poi_fused_mul_add(256x8, 8, 1)"},
        {"graph @g(%a: f32[7], %b: f32[7], %c: f32[1], %d: f32[7], %e: f32[7]) {\n"
         "  %0 = add %a, %b\n  %1 = mul %0, %c\n  %2 = sub %1, %d\n  %3 = div %2, %e\n"
         "  ret %3\n}\n",
         "poi_fused_add_mul_sub_div(7, 7, 1, 7)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        lower_options o = {.isa = GEN_ISA_PORTABLE, .labels = true};
        lower_piece p;
        rp_error err = {0};
        ir_graph *g;
        CHECK_OK(ir_parse(is[i].text, strlen(is[i].text), &g, &err), &err);
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        assert_int_equal(p.n_kernels, 1);
        assert_string_equal(p.kernels[0].label, is[i].label);
        lower_done(&p);
        ir_graph_free(g);
    }
}

static void the_source_is_the_unit_of_all_kernels(void **state) {
    static const rp_dtype formats[] = {RP_DTYPE_Q4_1, RP_DTYPE_BF16, RP_DTYPE_F32};
    (void)state;
    for (int k = 0; k < 6; k++) {
        ir_graph *g = layer_graph(formats[k / 2], RP_NUMERICS_DEFAULT);
        lower_options o = {.isa = GEN_ISA_PORTABLE, .target = k % 2 ? GEN_CUDA : GEN_HOST};
        bool wanted[64];
        rp_error err = {0};
        lower_piece p;
        base_buf unit;
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        assert_in_range(p.n_kernels, 1, 64);
        memset(wanted, true, sizeof wanted);
        base_buf_init(&unit, 0);
        CHECK_OK(lower_unit(&p, o.isa, wanted, &unit, &err), &err);
        assert_string_equal(p.source, unit.data);
        base_buf_done(&unit);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* Neighbouring columns at once, also where a sum has several chunks: one column after the other reads memory in strides. */
static void long_columns_are_summed_row_by_row(void **state) {
    static const char *const rows[] = {"4096", "8192", "9000", "R"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[160];
        lower_options o = {.isa = GEN_ISA_PORTABLE};
        rp_error err = {0};
        ir_graph *g = NULL;
        lower_piece p;
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[%s,64])%s {\n  %%y = sum %%x {axis=0}\n  ret %%y\n}\n",
                       rows[i], *rows[i] == 'R' ? " where R in [1,10000]" : "");
        CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        if (strstr(p.source, "rk_sum16"))
            fail_msg("%s rows: a column alone\n%s", rows[i], p.source);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* What is read across rows goes down in tiles, where they are no narrower than a cache line; an item has those of 32 rows where the
 * rows have sizes. */
static void tiles_go_down_in_whole_lines(void **state) {
    static const struct {
        int columns, items;
    } cases[] = {{16 * 67, 2 * 67}, {17 * 67, 2 * 67}, {15 * 67, 64}, {64 * 3, 2 * 3}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lower_options o = {.isa = GEN_ISA_PORTABLE};
        rp_error err = {0};
        lower_piece p;
        ir_graph *g = NULL;
        int64_t items = 0;
        char text[300];
        (void)snprintf(text, sizeof text,
                       "graph @turn(%%x: f32[%d,64]) { %%0 = permute %%x {axes=[1,0]} "
                       "%%1 = add %%0, %%0 ret %%1 }",
                       cases[i].columns);
        CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        assert_int_equal(p.n_launches, 1);
        assert_true(ir_dim_is_const(p.dims, p.launches[0].items, &items));
        assert_int_equal(items, cases[i].items);
        lower_done(&p);
        ir_graph_free(g);
    }
}

static void refuses_on_a_gpu(const char *text, const char *why) {
    lower_options o = {.target = GEN_CUDA};
    rp_error err = {0};
    lower_piece p = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    assert_int_equal(target_lower(g, &o, &p, &err), RP_UNSUPPORTED);
    if (!strstr(err.text, why)) fail_msg("\"%s\" does not say \"%s\"", err.text, why);
    ir_graph_free(g);
}

static rp_status own(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)args, (void)n, (void)err;
    return RP_OK;
}

/* When it is compiled, not at the first launch. */
static void what_has_no_form_for_a_gpu_is_said(void **state) {
    rp_op_desc desc = {.size = sizeof desc, .name = "lower::own", .cpu = own};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&desc, &err), &err);
    refuses_on_a_gpu("graph @c(%x: f32[4,8]) -> f32[4,8] {\n  %0 = custom %x {name=\"lower::own\"} "
                     ": f32[4,8]\n  ret %0\n}\n",
                     "lower::own is a custom op of the host, which cannot run on a GPU");
}

/* Slices of a block format have no compiled form; what else a loop is given may be packed. */
static void slices_of_blocks_are_refused(void **state) {
    static const char *const refused =
        "scan: slices of a block format, q8_0[4,2,32], have no compiled form; dequant it";
    static const struct {
        const char *text;
        bool fits;
    } is[] = {
        {"graph @g(%h: f32[2,32]) {\n  %w = param @w : q8_0[4,2,32]\n"
         "  %0 = scan %h, %w {carried=1, sliced=1, body=graph @step(%h: f32[2,32], %w: q8_0[2,32]) "
         "{\n    %0 = dequant %w\n    %1 = add %h, %0\n    ret %1\n  }}\n  ret %0\n}\n",
         false},
        {"graph @g(%h: f32[2,32], %i: f32[2,32], %x: f32[4]) {\n  %w = param @w : q8_0[4,2,32]\n"
         "  %0 = scan %h, %i, %x, %w {carried=2, sliced=2, body=graph @step(%h: f32[2,32], %i: "
         "f32[2,32], %x: f32[], %w: q8_0[2,32]) {\n    %0 = dequant %w\n    %1 = add %h, %0\n"
         "    %2 = mul %i, %x\n    ret %1, %2\n  }}\n  ret %0\n}\n",
         false},
        {"graph @g(%h: f32[2,32], %x: f32[4]) {\n  %w = param @w : q8_0[2,32]\n"
         "  %0 = scan %h, %x, %w {carried=1, sliced=1, body=graph @step(%h: f32[2,32], %x: f32[], "
         "%w: q8_0[2,32]) {\n    %0 = dequant %w\n    %1 = mul %0, %x\n    %2 = add %h, %1\n"
         "    ret %2\n  }}\n  ret %0\n}\n",
         true}};
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++)
        for (int gpu = 0; gpu < 2; gpu++) {
            lower_options o = {.isa = GEN_ISA_PORTABLE, .target = gpu ? GEN_CUDA : GEN_HOST};
            lower_piece p;
            rp_error err = {0};
            ir_graph *g;
            CHECK_OK(ir_parse(is[i].text, strlen(is[i].text), &g, &err), &err);
            rp_status st = target_lower(g, &o, &p, &err);
            if (is[i].fits) {
                CHECK_OK(st, &err);
                lower_done(&p);
            } else {
                assert_int_equal(st, RP_UNSUPPORTED);
                if (!strstr(err.text, refused)) fail_msg("%s", err.text);
            }
            ir_graph_free(g);
        }
}

/* As many as gen/embed/product.h takes at once at most, of 76 bytes a block of 32, and one packed one. */
static void rows_of_blocks_have_room_to_lie_side_by_side(void **state) {
    enum { ROWS = 8, LANES = 76, PACKED = 72 };
    (void)state;
    for (int k = 32; k <= 4096; k *= 2) {
        char text[512];
        rp_error err = {0};
        ir_graph *g;
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[T,%d]) -> f32[T,64] where T in [1,64] {\n"
                       "  %%w = param @w : q4_1[64,%d]\n  %%q = quantize %%x {dtype=i16b32}\n"
                       "  %%y = dequant %%q\n  %%d = dequant %%w\n"
                       "  %%0 = matmul %%y, %%d {trans_b=true}\n  ret %%0\n}\n",
                       k, k);
        CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
        for (gen_isa isa = GEN_ISA_PORTABLE; isa <= GEN_ISA_AVX512; isa++) {
            lower_options o = {.isa = isa};
            lower_piece p;
            bool any = false;
            CHECK_OK(target_lower(g, &o, &p, &err), &err);
            for (uint32_t i = 0; i < p.n_launches; i++)
                any = any || p.launches[i].alts[0].scratch >= k / 32 * (ROWS * LANES + PACKED);
            lower_done(&p);
            assert_true(any);
        }
        ir_graph_free(g);
    }
}

static void lose_allocations(const ir_graph *g, gen_target target) {
    FOR_EACH_ALLOC_FAILURE (n) {
        lower_options o = {.isa = GEN_ISA_PORTABLE, .target = target};
        rp_error err = {0};
        lower_piece p = {0};
        rp_status st = target_lower(g, &o, &p, &err);
        if (st == RP_OK)
            lower_done(&p);
        else if (st != RP_NOMEM)
            fail_msg("allocation %llu: %s", (unsigned long long)n, err.text);
    }
}

static void survives_lost_allocations(void **state) {
    ir_graph *g = layer_graph(RP_DTYPE_Q4_1, RP_NUMERICS_DEFAULT);
    (void)state;
    size_t live = base_live();
    lose_allocations(g, GEN_HOST);
    lose_allocations(g, GEN_CUDA);
    assert_int_equal(base_live(), live);
    ir_graph_free(g);
}

/* Whatever would read or write it, on either device. */
static void tensors_that_cannot_be_are_named(void **state) {
#define HUGE "f32[2,4294967296,4294967296]"
    static const char *const bodies[] = {
        "  %y = scatter %x, %i, %x {axis=0} : " HUGE "\n  ret %y\n",
        "  %y = scatter_add %x, %i, %x {axis=0} : " HUGE "\n  ret %y\n",
        "  %y = cumsum %x {axis=0} : " HUGE "\n  ret %y\n",
        "  %y = sort %x {axis=0, descending=false}\n  ret %y\n",
        "  %y = exp %x\n  %z = sum %y {axis=2}\n  %w = neg %y\n  ret %w, %z\n",
        "  %a = const 1 : f32[]\n  %b = broadcast %a {shape=[4294967296,8]}\n"
        "  %c = matmul %b, %b {trans_b=true}\n  ret %c\n",
    };
#undef HUGE
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int gpu = 0; gpu < 2; gpu++) {
            const lower_options o = {.isa = GEN_ISA_PORTABLE, .target = gpu ? GEN_CUDA : GEN_HOST};
            char text[900];
            rp_error err = {0};
            lower_piece p = {0};
            ir_graph *g = NULL;
            (void)snprintf(text, sizeof text,
                           "graph @g(%%x: f32[2,4294967296,4294967296], %%i: i32[2,1,1]) {\n%s}\n",
                           bodies[i]);
            CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
            assert_int_equal(target_lower(g, &o, &p, &err), RP_UNSUPPORTED);
            if (!strstr(err.text, "4294967296,4294967296] takes ") ||
                !strstr(err.text, " bytes; a tensor may take 2^61 at most"))
                fail_msg("%s", err.text);
            ir_graph_free(g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_the_same_every_time),
        cmocka_unit_test(segments_begin_behind_those_in_front),
        cmocka_unit_test(names_are_distinct),
        cmocka_unit_test(launches_name_their_fusion),
        cmocka_unit_test(labels_say_what_is_computed),
        cmocka_unit_test(the_source_is_the_unit_of_all_kernels),
        cmocka_unit_test(long_columns_are_summed_row_by_row),
        cmocka_unit_test(tiles_go_down_in_whole_lines),
        cmocka_unit_test(what_has_no_form_for_a_gpu_is_said),
        cmocka_unit_test(slices_of_blocks_are_refused),
        cmocka_unit_test(every_matrix_is_packed_once),
        cmocka_unit_test(large_matrices_of_few_rows_are_read_where_they_lie),
        cmocka_unit_test(products_on_a_gpu_make_a_row_themselves),
        cmocka_unit_test(rows_that_others_read_are_made_for_all),
        cmocka_unit_test(products_on_tensor_cores_make_all_rows),
        cmocka_unit_test(products_on_tensor_cores_leave_rows_arranged),
        cmocka_unit_test(arranged_rows_have_whole_tiles),
        cmocka_unit_test(tensors_that_cannot_be_are_named),
        cmocka_unit_test(products_on_tensor_cores_turn_and_store_heads),
        cmocka_unit_test(heads_that_are_stored_twice_stay_two),
        cmocka_unit_test(products_on_tensor_cores_round_rows_as_they_read_them),
        cmocka_unit_test(products_of_few_rows_ask_for_little_early),
        cmocka_unit_test(products_of_some_rows_keep_multiprocessors_busy),
        cmocka_unit_test(products_of_many_rows_have_tiles_that_fit),
        cmocka_unit_test(attention_has_the_blocks_of_its_class),
        cmocka_unit_test(rows_of_blocks_have_room_to_lie_side_by_side),
        cmocka_unit_test(survives_lost_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
