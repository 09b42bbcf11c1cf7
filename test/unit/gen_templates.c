/* The matmul and attention templates against their definition, written out here scalar by scalar, bit
 * for bit: every format, row count, share of the tiles, instruction set and compiler. Float64
 * bounds say that the definition itself is right. */
#include "support/attention_room.h"

#include "gen/pack.h"

static const rp_dtype dtypes[TPL_FORMATS] = {RP_DTYPE_F32,  RP_DTYPE_F16,  RP_DTYPE_BF16,
                                             RP_DTYPE_Q4_0, RP_DTYPE_Q4_1, RP_DTYPE_Q8_0};

/* --- matrices in GGUF layout ----------------------------------------------- */

static rp_u16 random_half(float scale) {
    return rp_f32_to_f16(random_unit() * scale);
}

static void random_matrix(int f, uint8_t *w, size_t n_blocks) {
    size_t bytes = rp_dtype_block_bytes(dtypes[f]);
    for (size_t b = 0; b < n_blocks; b++, w += bytes) {
        float x = random_unit();
        rp_u16 h = f == TPL_BF16 ? rp_f32_to_bf16(x) : rp_f32_to_f16(x);
        if (f == TPL_F32)
            memcpy(w, &x, 4);
        else if (f == TPL_F16 || f == TPL_BF16)
            memcpy(w, &h, 2);
        else {
            for (size_t i = 0; i < bytes; i++) w[i] = (uint8_t)random_bits();
            h = random_half(0.02f);
            memcpy(w, &h, 2);
            h = random_half(0.1f);
            if (f == TPL_Q4_1) memcpy(w + 2, &h, 2);
        }
    }
}

typedef struct weight {
    float d, m; /* of its block; plain types: m is the weight */
    int q;
} weight;

static weight weight_at(int f, const uint8_t *w, size_t row, size_t k, size_t at) {
    size_t bytes = rp_dtype_block_bytes(dtypes[f]), block = rp_dtype_block(dtypes[f]), i = at % 32;
    const uint8_t *b = w + (row * k + at) / block * bytes;
    weight r = {0};
    rp_u16 h, h2 = 0;
    memcpy(&h, b, 2);
    if (f == TPL_Q4_1) memcpy(&h2, b + 2, 2);
    const uint8_t *qs = b + (f == TPL_Q4_1 ? 4 : 2);
    int nibble = f == TPL_Q4_0 || f == TPL_Q4_1 ? qs[i % 16] >> (i < 16 ? 0 : 4) & 15 : 0;
    r.d = rp_f16_to_f32(h);
    r.m = rp_f16_to_f32(h2);
    if (f == TPL_Q4_0) r.q = nibble - 8;
    if (f == TPL_Q4_1) r.q = nibble;
    if (f == TPL_Q8_0) r.q = (int8_t)qs[i];
    if (f == TPL_F32) memcpy(&r.m, b, 4);
    if (f == TPL_F16) r.m = rp_f16_to_f32(h);
    if (f == TPL_BF16) r.m = rp_bf16_to_f32(h);
    return r;
}

static float value_of(int f, weight w) {
    if (f == TPL_Q4_1) return w.d * (float)w.q + w.m;
    return f > TPL_Q4_1 || f == TPL_Q4_0 ? w.d * (float)w.q : w.m;
}

/* The definitions at the heads of matmul.c.inc and matmul_float.c.inc. */
static float dot_quant(int f, const uint8_t *w, size_t n, size_t k, const char *row) {
    const rp_i16 *q = (const rp_i16 *)(const void *)row;
    float acc = 0.0f;
    for (size_t b = 0; b < k / 32; b++) {
        rp_i32 dot = 0, sum = RP_QROW_SUM(row, k)[b];
        weight at = {0};
        for (size_t i = 0; i < 32; i++) {
            at = weight_at(f, w, n, k, b * 32 + i);
            dot += at.q * q[b * 32 + i];
        }
        float d = RP_QROW_D(row, k)[b], add = (at.d * d) * (float)dot;
        if (f == TPL_Q4_1) add = add + (at.m * d) * (float)sum;
        acc = acc + add;
    }
    return acc;
}

static float dot_single(int f, const uint8_t *w, size_t n, size_t k, const float *x) {
    float sum = 0;
    for (size_t c = 0; c < k; c += 256) {
        float chain = 0;
        for (size_t i = c; i < k && i < c + 256; i++)
            chain = fmaf(x[i], value_of(f, weight_at(f, w, n, k, i)), chain);
        sum = c ? sum + chain : chain;
    }
    return sum;
}

/* --- matmul ------------------------------------------------------------------ */

#define ROWS_MAX 27

typedef struct product {
    int f;
    size_t n, k, tiles, row_size;
    uint8_t *w, *packed;
    float *x, *want, *got;
    char *rows;
    void *scratch;
} product;

static void product_new(product *p, int f, bool quant, size_t n, size_t k) {
    size_t tile = gen_pack_tile_size(dtypes[f], (int64_t)k);
    size_t blocks = n * k / rp_dtype_block(dtypes[f]);
    *p = (product){.f = f, .n = n, .k = k, .row_size = RP_QROW_SIZE(k)};
    p->tiles = quant ? (size_t)gen_pack_tiles((int64_t)n) : (n + 31) / 32 * 2;
    size_t columns = p->tiles * 16;
    p->w = base_alloc(blocks * rp_dtype_block_bytes(dtypes[f]));
    p->packed = base_alloc_aligned(p->tiles * tile, 64);
    p->x = base_alloc(ROWS_MAX * k * 4);
    p->rows = base_alloc(ROWS_MAX * p->row_size);
    p->want = base_alloc(ROWS_MAX * columns * 4);
    p->got = base_alloc(ROWS_MAX * columns * 4);
    p->scratch = base_alloc_aligned(RP_MM_SCRATCH(k) * 4 + RP_MMF_SCRATCH, 64);
    random_matrix(f, p->w, blocks);
    for (size_t t = 0; t < p->tiles; t++)
        gen_pack_tile(dtypes[f], p->w, (int64_t)n, (int64_t)k, (int64_t)t, p->packed + t * tile);
    for (size_t i = 0; i < ROWS_MAX * k; i++) p->x[i] = random_normal();
    for (size_t r = 0; quant && r < ROWS_MAX; r++)
        rp_quant_row(p->x + r * k, (long long)k, p->rows + r * p->row_size);
    memset(p->want, 0, ROWS_MAX * columns * 4);
    for (size_t r = 0; r < ROWS_MAX; r++)
        for (size_t c = 0; c < n; c++)
            p->want[r * columns + c] = quant ? dot_quant(f, p->w, c, k, p->rows + r * p->row_size)
                                             : dot_single(f, p->w, c, k, p->x + r * k);
}

static void product_done(product *p) {
    void *all[] = {p->w, p->packed, p->x, p->rows, p->want, p->got, p->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) base_free(all[i]);
}

/* rows of x from row0 on, tiles [begin, end). */
static void product_run(const product *p, const tpl_unit *t, bool quant, size_t row0, size_t rows,
                        size_t begin, size_t end) {
    size_t columns = p->tiles * 16;
    tpl_mm m = {.w = p->packed,
                .y = p->got + row0 * columns,
                .rows = (long long)rows,
                .k = (long long)p->k,
                .begin = (long long)begin,
                .end = (long long)end,
                .stride = (long long)columns,
                .scratch = p->scratch,
                .block = 12 + (long long)(row0 % 2) * 12};
    m.x = quant ? (const void *)(p->rows + row0 * p->row_size) : (const void *)(p->x + row0 * p->k);
    (quant ? t->quant : t->single)[p->f](&m);
}

static void product_check(product *p, bool quant, const char *what) {
    size_t tiles = p->tiles, columns = tiles * 16;
    for (int u = 0; u < n_units; u++) {
        const tpl_unit *t = units[u].t;
        for (size_t rows = 1; rows <= ROWS_MAX; rows += rows < 13 ? 1 : 7) {
            memset(p->got, 0xff, ROWS_MAX * columns * 4);
            product_run(p, t, quant, 0, rows, 0, tiles);
            assert_same_bits(p->want, p->got, rows * columns, what, units[u].name);
        }
        memset(p->got, 0xff, ROWS_MAX * columns * 4); /* ragged shares of rows and tiles */
        for (size_t r = 0; r < ROWS_MAX; r += 5)
            for (size_t c = 0; c < tiles; c += 2)
                product_run(p, t, quant, r, ROWS_MAX - r < 5 ? ROWS_MAX - r : 5, c,
                            c + 2 < tiles ? c + 2 : tiles);
        assert_same_bits(p->want, p->got, ROWS_MAX * columns, what, units[u].name);
    }
}

static void quantised_products_are_as_defined(void **state) {
    static const size_t shapes[][2] = {{16, 32}, {40, 96}, {16, 576}, {70, 1536}};
    (void)state;
    for (int f = TPL_Q4_0; f <= TPL_Q8_0; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            product p;
            product_new(&p, f, true, shapes[s][0], shapes[s][1]);
            product_check(&p, true, rp_dtype_name(dtypes[f]));
            product_done(&p);
        }
}

static void single_products_are_as_defined(void **state) {
    static const size_t shapes[][2] = {{16, 32}, {40, 96}, {33, 576}, {20, 51}, {16, 1}, {7, 300}};
    (void)state;
    for (int f = TPL_F32; f < TPL_FORMATS; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            product p;
            if (shapes[s][1] % rp_dtype_block(dtypes[f])) continue;
            product_new(&p, f, false, shapes[s][0], shapes[s][1]);
            product_check(&p, false, rp_dtype_name(dtypes[f]));
            product_done(&p);
        }
}

typedef struct strided {
    size_t x[2], w[2]; /* steps between rows or columns, and k's */
} strided;

/* w[n][k] of `p` and its rows of x, laid out as `at` says. */
static void strided_check(const product *p, const strided *at, const char *what) {
    size_t size = rp_dtype_block_bytes(dtypes[p->f]), columns = p->tiles * 16;
    float *x = base_alloc((ROWS_MAX * at->x[0] + p->k * at->x[1]) * 4);
    uint8_t *w = base_alloc((p->n * at->w[0] + p->k * at->w[1]) * size);
    for (size_t r = 0; r < ROWS_MAX; r++)
        for (size_t k = 0; k < p->k; k++) x[r * at->x[0] + k * at->x[1]] = p->x[r * p->k + k];
    for (size_t c = 0; c < p->n; c++)
        for (size_t k = 0; k < p->k; k++)
            memcpy(w + (c * at->w[0] + k * at->w[1]) * size, p->w + (c * p->k + k) * size, size);
    for (int u = 0; u < n_units; u++)
        for (size_t rows = 1; rows <= ROWS_MAX; rows += rows < 14 ? 1 : 13) {
            tpl_mm m = {.x = x,
                        .w = w,
                        .y = p->got,
                        .rows = (long long)rows,
                        .k = (long long)p->k,
                        .end = (long long)p->tiles,
                        .stride = (long long)columns,
                        .scratch = p->scratch,
                        .block = 24,
                        .columns = (long long)p->n,
                        .x_step = {(long long)at->x[0], (long long)at->x[1]},
                        .w_step = {(long long)at->w[0], (long long)at->w[1]}};
            memset(p->got, 0xff, ROWS_MAX * columns * 4);
            units[u].t->strided[p->f](&m);
            for (size_t r = 0; r < rows; r++)
                assert_same_bits(p->want + r * columns, p->got + r * columns, p->n, what,
                                 units[u].name);
        }
    base_free(x);
    base_free(w);
}

static void products_of_any_layout_are_as_defined(void **state) {
    static const size_t shapes[][2] = {{16, 32}, {33, 257}, {70, 51},   {5, 3},
                                       {1, 600}, {40, 1},   {64, 1300}, {32, 516}};
    (void)state;
    for (int f = TPL_F32; f <= TPL_BF16; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            size_t n = shapes[s][0], k = shapes[s][1];
            const strided how[] = {{{k, 1}, {k, 1}},          /* [n][k] */
                                   {{k, 1}, {1, n}},          /* [k][n] */
                                   {{1, ROWS_MAX}, {1, n}},   /* x transposed */
                                   {{k + 5, 1}, {1, n + 3}},  /* parts of wider rows */
                                   {{2 * k, 2}, {3 * k, 3}}}; /* nothing side by side */
            product p;
            product_new(&p, f, false, n, k);
            for (size_t h = 0; h < sizeof how / sizeof *how; h++)
                strided_check(&p, &how[h], rp_dtype_name(dtypes[f]));
            product_done(&p);
        }
}

/* So many k's that not all of a block of rows is packed at once, and so many rows that sums wait. */
static void large_products_are_as_defined(void **state) {
    enum { ROWS = 180, N = 70, K = 1100 };
    (void)state;
    float *x = base_alloc(ROWS * K * 4), *w = base_alloc(N * K * 4);
    float *want = base_alloc(ROWS * 96 * 4), *got = base_alloc(ROWS * 96 * 4);
    void *scratch = base_alloc_aligned(RP_MMF_SCRATCH, 64);
    for (size_t i = 0; i < ROWS * K; i++) x[i] = random_normal();
    for (size_t i = 0; i < N * K; i++) w[i] = random_normal();
    memset(want, 0, ROWS * 96 * 4);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < N; c++)
            want[r * 96 + c] = dot_single(TPL_F32, (const uint8_t *)w, c, K, x + r * K);
    for (int u = 0; u < n_units; u++) {
        tpl_mm m = {.x = x,
                    .w = w,
                    .y = got,
                    .rows = ROWS,
                    .k = K,
                    .end = 6,
                    .stride = 96,
                    .scratch = scratch,
                    .block = 168,
                    .columns = N,
                    .x_step = {K, 1},
                    .w_step = {K, 1}};
        memset(got, 0xff, ROWS * 96 * 4);
        units[u].t->strided[TPL_F32](&m);
        for (size_t r = 0; r < ROWS; r++)
            assert_same_bits(want + r * 96, got + r * 96, N, "large", units[u].name);
    }
    void *all[] = {x, w, want, got, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) base_free(all[i]);
}

/* Relative to the sum of magnitudes, both definitions stay near float64. */
static void products_are_close_to_float64(void **state) {
    (void)state;
    for (int f = TPL_F32; f < TPL_FORMATS; f++)
        for (int quant = 0; quant <= (f >= TPL_Q4_0); quant++) {
            product p;
            product_new(&p, f, quant, 16, 576);
            for (size_t r = 0; r < 4; r++)
                for (size_t c = 0; c < 16; c++) {
                    double sum = 0, mass = 0;
                    for (size_t i = 0; i < p.k; i++) {
                        double t = (double)value_of(f, weight_at(f, p.w, c, p.k, i)) *
                                   (double)p.x[r * p.k + i];
                        sum += t;
                        mass += fabs(t);
                    }
                    double e = fabs((double)p.want[r * p.tiles * 16 + c] - sum) / mass,
                           bound = quant ? 1e-4 : 1e-6;
                    if (!(e < bound))
                        fail_msg("%s: relative error %g", rp_dtype_name(dtypes[f]), e);
                }
            product_done(&p);
        }
}

/* Rows of the last tile and tiles past the end hold nothing but zeros; the others do not depend on n. */
static void tiles_are_filled_with_zeros(void **state) {
    enum { ROWS = 40, K = 64 };
    (void)state;
    for (int f = TPL_F32; f < TPL_FORMATS; f++) {
        size_t bytes = ROWS * K / rp_dtype_block(dtypes[f]) * rp_dtype_block_bytes(dtypes[f]);
        size_t tile = gen_pack_tile_size(dtypes[f], K);
        uint8_t *src = base_alloc(bytes), *a = base_alloc(tile), *b = base_alloc(tile),
                *zero = base_alloc(tile);
        random_matrix(f, src, bytes / rp_dtype_block_bytes(dtypes[f]));
        for (int64_t t = 0; t < 4; t++) {
            memset(a, 0xff, tile);
            memset(b, 0xff, tile);
            gen_pack_tile(dtypes[f], src, ROWS, K, t, a);
            gen_pack_tile(dtypes[f], src, 16, K, t, b);
            if (t == 0)
                assert_memory_equal(a, b, tile);
            else
                assert_memory_equal(b, zero, tile);
            if (t < 3)
                assert_memory_not_equal(a, zero, tile);
            else
                assert_memory_equal(a, zero, tile);
        }
        base_free(src);
        base_free(a);
        base_free(b);
        base_free(zero);
    }
}

/* Of a matrix that lies the other way round likewise: columns of the last tile, and tiles past the end. */
static void so_they_are_by_k(void **state) {
    enum { N = 20, K = 3, TILES = 3, COLUMNS = 16 };
    float src[K * N], tile[K * COLUMNS];
    (void)state;
    for (int i = 0; i < K * N; i++) src[i] = (float)(i + 1);
    for (int t = 0; t < TILES; t++) {
        memset(tile, 0xff, sizeof tile);
        gen_pack_tile_by_k(RP_DTYPE_F32, src, N, K, t, tile);
        for (int k = 0; k < K; k++)
            for (int c = 0; c < COLUMNS; c++) {
                const int n = t * COLUMNS + c;
                const float want = n < N ? src[k * N + n] : 0;
                if (!(tile[k * COLUMNS + c] == want)) fail_msg("tile %d: %d, %d", t, k, c);
            }
    }
}

static void sizes_that_do_not_fit_are_zero(void **state) {
    (void)state;
    assert_int_equal(gen_pack_size(RP_DTYPE_Q4_1, 17, 64), 2 * 2 * 320);
    assert_int_equal(gen_pack_size(RP_DTYPE_Q4_1, 16, 48), 0);
    assert_int_equal(gen_pack_size(RP_DTYPE_I32, 16, 32), 0);
    assert_int_equal(gen_pack_size(RP_DTYPE_F32, 16, 0), 0);
    assert_int_equal(gen_pack_size(RP_DTYPE_F32, -1, 32), 0);
    assert_int_equal(gen_pack_size(RP_DTYPE_F32, INT64_MAX, INT64_MAX), 0);
}

/* --- attention ----------------------------------------------------------------- */

static void room_check(room *m, double bound) {
    static const grouping how[] = {{1, 1, 0},  {1, 1, 1},    {1, 1, 2}, {4, 2, 0},
                                   {4, 8, 1},  {3, 8, 5},    {7, 1, 0}, {7, 3, 2},
                                   {16, 8, 0}, {1000, 8, 0}, {5, 8, 1}, {1000, 5, 7}};
    size_t size = RP_ATTN_SCRATCH(8, m->heads / m->kv, m->hd);
    void *scratch = base_alloc_aligned(size, 64);
    double error = 0;
    for (int r = 0; r < m->rows; r++)
        for (int h = 0; h < m->heads; h++)
            attend_by_definition(m, r, h, m->want + (r * m->heads + h) * m->hd, &error);
    if (!(error < bound)) fail_msg("hd %d: %g away from float64", m->hd, error);
    for (int u = 0; u < n_units; u++)
        for (size_t c = 0; c < sizeof how / sizeof *how; c++) {
            memset(m->got, 0xff, m->n * 4);
            memset(scratch, 0xff, size);
            room_run(m, units[u].t, 0, &how[c], scratch);
            assert_same_bits(m->want, m->got, m->n, "attention", units[u].name);
        }
    base_free(scratch);
}

static void attention_is_as_defined(void **state) {
    static const int lens[] = {21, 150, 1, 32}; /* one is more than a chunk */
    (void)state;
    for (int f = TPL_F32; f <= TPL_BF16; f++) {
        /* heads, kv heads, head_dim, positions a block */
        static const int shapes[][4] = {{9, 3, 64, 16}, {4, 4, 32, 8},  {8, 1, 16, 16},
                                        {4, 1, 80, 32}, {2, 1, 8, 16},  {7, 1, 20, 24},
                                        {3, 1, 6, 16},  {5, 1, 48, 40}, {12, 1, 32, 16}};
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            room m;
            room_new(&m, f, shapes[s], lens, s == 0 ? 4 : 2);
            room_check(&m, 1e-5);
            room_done(&m);
        }
    }
}

/* Rows with many chunks behind them. */
static void long_rows_are_as_defined(void **state) {
    static const int lens[] = {2150};
    static const grouping how[] = {{1, 8, 0}, {1, 8, 1}, {3, 8, 2}, {3, 1, 1}};
    size_t size = RP_ATTN_SCRATCH(8, 3, 16);
    void *scratch = base_alloc_aligned(size, 64);
    int from = lens[0] - 3;
    room m;
    (void)state;
    room_new(&m, TPL_F16, (int[]){6, 2, 16, 104}, lens, 1);
    size_t row = (size_t)(m.heads * m.hd), at = (size_t)from * row;
    double error = 0;
    for (int r = from; r < m.rows; r++)
        for (int h = 0; h < m.heads; h++)
            attend_by_definition(&m, r, h, m.want + (r * m.heads + h) * m.hd, &error);
    assert_true(error < 1e-5);
    for (int u = 0; u < n_units; u++)
        for (size_t c = 0; c < sizeof how / sizeof *how; c++) {
            memset(m.got, 0xff, m.n * 4);
            memset(scratch, 0xff, size);
            room_run(&m, units[u].t, from, &how[c], scratch);
            assert_same_bits(m.want + at, m.got + at, 3 * row, "long rows", units[u].name);
        }
    base_free(scratch);
    room_done(&m);
}

/* A chunk whose scores are all -inf weighs nothing beside another; alone there is nothing to weigh. */
static void scores_of_minus_infinity_weigh_nothing(void **state) {
    static const int lens[] = {140};
    static const grouping how[] = {{1000, 8, 0}, {4, 8, 1}, {1, 8, 1}};
    room m;
    (void)state;
    room_new(&m, TPL_F32, (int[]){2, 1, 32, 16}, lens, 1);
    for (size_t i = 0; i < m.n; i++) m.q[i] = i % 32 == 0 ? 2.0f : 0.0f;
    for (int t = 0; t < RP_ATTN_CHUNK; t++)
        for (int d = 0; d < m.hd; d++) cache_store(&m, m.k, cache_at(&m, 0, 0, t, d), -3e38f);
    void *scratch = base_alloc_aligned(RP_ATTN_SCRATCH(8, 2, 32), 64);
    double error = 0;
    size_t from = RP_ATTN_CHUNK * 64;
    for (int r = 0; r < m.rows; r++)
        for (int h = 0; h < 2; h++)
            attend_by_definition(&m, r, h, m.want + (r * 2 + h) * 32, &error);
    for (int u = 0; u < n_units; u++)
        for (size_t c = 0; c < sizeof how / sizeof *how; c++) {
            room_run(&m, units[u].t, 0, &how[c], scratch);
            assert_same_bits(m.want + from, m.got + from, m.n - from, "-inf", units[u].name);
            for (size_t i = 0; i < m.n; i++) assert_int_equal(isnan(m.got[i]) != 0, i < from);
        }
    base_free(scratch);
    room_done(&m);
}

static void padding_rows_give_zeros(void **state) {
    static const int lens[] = {20};
    float zeros[64] = {0};
    room m;
    (void)state;
    room_new(&m, TPL_F16, (int[]){2, 1, 32, 16}, lens, 1);
    m.pos[3] = m.req[19] = -1;
    void *scratch = base_alloc_aligned(RP_ATTN_SCRATCH(8, 2, 32), 64);
    static const grouping how[] = {{20, 8, 0}, {4, 8, 1}, {1, 8, 1}};
    for (int u = 0; u < n_units; u++)
        for (size_t c = 0; c < sizeof how / sizeof *how; c++) {
            memset(m.got, 0xff, m.n * 4);
            room_run(&m, units[u].t, 0, &how[c], scratch);
            assert_same_bits(zeros, m.got + 3 * 64, 64, "padding", units[u].name);
            assert_same_bits(zeros, m.got + 19 * 64, 64, "padding", units[u].name);
            for (size_t i = 0; i < m.n; i++) assert_false(isnan(m.got[i]));
        }
    base_free(scratch);
    room_done(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_isa_was_loaded),
        cmocka_unit_test(quantised_products_are_as_defined),
        cmocka_unit_test(single_products_are_as_defined),
        cmocka_unit_test(products_of_any_layout_are_as_defined),
        cmocka_unit_test(large_products_are_as_defined),
        cmocka_unit_test(products_are_close_to_float64),
        cmocka_unit_test(tiles_are_filled_with_zeros),
        cmocka_unit_test(so_they_are_by_k),
        cmocka_unit_test(sizes_that_do_not_fit_are_zero),
        cmocka_unit_test(attention_is_as_defined),
        cmocka_unit_test(long_rows_are_as_defined),
        cmocka_unit_test(scores_of_minus_infinity_weigh_nothing),
        cmocka_unit_test(padding_rows_give_zeros),
    };
    return cmocka_run_group_tests(tests, load_units, NULL);
}
