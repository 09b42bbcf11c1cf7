/* Kernels of decode steps of many sequences by themselves, on cuda:0, which is the emulated GPU where no other is asked for: attention whose blocks take several rows and
 * kv heads in turn, near what it is by definition; gates and up, near it, too; the largest logit of each row, which is the first largest of those that the kernel left. What nobody may read is
 * NaN. */
#include <math.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "compile/nvrtc.h"
#include "gen/decode.h"
#include "gen/exchange.h"
#include "gen/pack.h"
#include "hal/hal.h"
#include "support/check.h"
#include "support/gpu.h"

enum { CELL = 16, MOST = GEN_DECODE_MOST, MAX_SHARED = 227 << 10 };

static const char *why_not;
static hal_device *device;
static cache_store *store;

/* Vocabularies that end within a job, and multiprocessors so few that blocks take several rows, of one kv head or of each in turn, or jobs; where `parts`, neighbouring ones. */
static const struct shape {
    gen_step s;
    uint32_t n_sm;
    int32_t longest; /* position of one row */
    bool parts;
} shapes[] = {
    {{.hidden = 64, .heads = 8, .kv_heads = 2, .head_dim = 32, .ffn = 32, .vocab = 320},
     1,
     500,
     false},
    {{.hidden = 320, .heads = 9, .kv_heads = 3, .head_dim = 64, .ffn = 224, .vocab = 1000},
     2,
     500,
     false},
    {{.hidden = 384, .heads = 2, .kv_heads = 1, .head_dim = 64, .ffn = 320, .vocab = 440},
     3,
     60,
     true},
    {{.hidden = 64, .heads = 8, .kv_heads = 1, .head_dim = 128, .ffn = 32, .vocab = 130},
     2,
     2100,
     false},
    {{.hidden = 96, .heads = 2, .kv_heads = 2, .head_dim = 64, .ffn = 32, .vocab = 288},
     3,
     500,
     false},
    /* more blocks than a warp has lanes, and so few jobs that blocks could share them */
    {{.hidden = 512, .heads = 1, .kv_heads = 1, .head_dim = 32, .ffn = 32, .vocab = 2100},
     40,
     90,
     false}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static struct code {
    gen_decode d;
    hal_module *module;
    hal_function of[GEN_DECODE_KERNELS_];
} codes[N_SHAPES][2]; /* of some rows, of all */

/* Those that a step of so many rows runs. */
static const struct code *code_of(size_t shape, uint32_t rows) {
    return &codes[shape][rows > GEN_DECODE_SOME];
}

#define NEEDS_GPU() \
    if (why_not) SKIP_TEST("%s", why_not)

/* --- the device ---------------------------------------------------------------------- */

static void *room(size_t size) {
    void *p = base_alloc(size);
    assert_non_null(p);
    return p;
}

static void *put(const void *from, size_t size) {
    void *at = NULL;
    rp_error err = {0};
    CHECK_OK(device->ops->alloc(device, HAL_DEVICE_MEMORY, size, &at, &err), &err);
    CHECK_OK(device->ops->copy(device, at, from, size, &err), &err);
    return at;
}

static void get(void *to, const void *from, size_t size) {
    rp_error err = {0};
    CHECK_OK(device->ops->copy(device, to, from, size, &err), &err);
    CHECK_OK(device->ops->synchronize(device, &err), &err);
}

static void drop(void *at, size_t size) {
    device->ops->release(device, at, size);
}

/* blocks: 0: as many as it has of itself. */
static hal_launch launch_of(const struct code *c, gen_decode_kernel k, uint32_t blocks,
                            void *const *arg, uint32_t n_arg, const long long *dim,
                            uint32_t n_dim) {
    const gen_decode_launch l = gen_decode_launch_of(&c->d, k);
    return (hal_launch){.kind = HAL_KERNEL,
                        .name = "decode",
                        .fn = c->of[k],
                        .arg = arg,
                        .dim = dim,
                        .items = blocks ? blocks : l.blocks,
                        .grain = 1,
                        .threads = l.threads,
                        .per_block = 1,
                        .shared = (uint32_t)l.shared,
                        .n_arg = n_arg,
                        .n_dim = n_dim};
}

static void run(const hal_launch *list, uint32_t n) {
    rp_error err = {0};
    CHECK_OK(device->ops->launch(device, list, n, 0, &err), &err);
    CHECK_OK(device->ops->synchronize(device, &err), &err);
}

/* --- numbers ------------------------------------------------------------------------- */

enum { BESIDE = 256 }; /* elements behind results */
enum { BF16_NAN = 0x7fc0, MARK_16 = 0x7fb5, MARK_32 = 0x7fb5a5a5 };

static uint16_t bf16(double x) {
    const float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16); /* no NaN */
}

static double wide(uint16_t h) {
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return (double)f;
}

static double normal(uint64_t seed, uint64_t at) {
    const double u = (double)(base_philox_bits(seed, 2 * at) >> 11) * 0x1p-53,
                 v = (double)(base_philox_bits(seed, 2 * at + 1) >> 11) * 0x1p-53;
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

static double small_integer(uint64_t seed, uint64_t at) {
    return (double)(base_philox_bits(seed, at) % 5) - 2;
}

static uint16_t *filled(size_t n, uint16_t v) {
    uint16_t *p = room(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = v;
    return p;
}

/* --- attention ----------------------------------------------------------------------- */

typedef struct attention {
    const gen_step *s;
    uint32_t rows, width, n_blocks, queries;
    uint16_t *q, *k, *v;
    int32_t seqs[MOST], positions[MOST], *tables;
    size_t q_size, cache_size, tables_size; /* bytes */
} attention;

/* Cells that are not full and exactly full, fewer of them than warps, more than a ring has slots, two a warp in rows behind each other. */
static int32_t position_of(uint32_t row, int32_t longest) {
    static const int32_t all[] = {16, 0, 500, 3, 15, 17, 100, 250, 200};
    return row == 6 ? longest : all[row % 9];
}

/* Every third row is of the sequence of another such row; some rows are padding, whose positions say nothing. */
static void place_rows(attention *a, int32_t longest) {
    uint32_t first = a->rows > 1 ? 1 : 0;
    for (uint32_t r = 0; r < a->rows; r++) {
        const bool other = r % 3 == 1;
        a->seqs[r] = (int32_t)(!other ? r : r + 3 < a->rows ? r + 3 : first);
        a->positions[r] = position_of(r, longest);
        if (r % 8 == 5) {
            a->seqs[r] = -1;
            a->positions[r] = 1000000;
        }
    }
}

static uint32_t cells_of(const attention *a, uint32_t row) {
    return a->seqs[row] < 0 ? 0 : (uint32_t)a->positions[row] / CELL + 1;
}

/* Tables of blocks in no order; all else in them is a block that holds NaN alone, the last one. */
static void place_blocks(attention *a) {
    for (uint32_t r = 0; r < a->rows; r++) a->n_blocks += cells_of(a, r);
    const uint32_t n = a->n_blocks++;
    int32_t *order = room(n * sizeof *order);
    for (uint32_t i = 0; i < n; i++) order[i] = (int32_t)i;
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t j = (uint32_t)(base_philox_bits(11, i) % (i + 1));
        const int32_t was = order[i];
        order[i] = order[j];
        order[j] = was;
    }
    a->tables_size = (size_t)a->rows * a->width * sizeof *a->tables;
    a->tables = room(a->tables_size);
    for (size_t i = 0; i < (size_t)a->rows * a->width; i++) a->tables[i] = (int32_t)n;
    for (uint32_t r = 0, used = 0; r < a->rows; r++)
        for (uint32_t i = 0; i < cells_of(a, r); i++)
            a->tables[(uint32_t)a->seqs[r] * a->width + i] = order[used++];
    base_free(order);
}

static size_t cached_at(const attention *a, uint32_t row, uint32_t head, int32_t position) {
    const size_t block =
        (size_t)a->tables[(uint32_t)a->seqs[row] * a->width + (uint32_t)position / CELL];
    return ((block * a->s->kv_heads + head) * CELL + (size_t)position % CELL) * a->s->head_dim;
}

/* A query head looks at a position of its own, which counts about as much as all others together, so that it shows when any of these is left out: the new one, the first of
 * the last cell, the first, the last of the first cell. */
static int32_t looks_at(const attention *a, uint32_t row, uint32_t head) {
    const int32_t new = a->positions[row];
    const int32_t all[] = {new, new / CELL *CELL, 0, new < CELL ? new : CELL - 1,
                           (int32_t)(base_philox_bits(row, head) % (uint32_t)(new + 1))};
    return all[head % 5];
}

static void fill_attention(attention *a) {
    const uint32_t hd = a->s->head_dim, heads = a->s->heads;
    const size_t n = (size_t)a->n_blocks * a->s->kv_heads * CELL * hd;
    a->cache_size = n * sizeof *a->k;
    a->q_size = (size_t)a->rows * heads * hd * sizeof *a->q;
    a->k = filled(n, BF16_NAN);
    a->v = filled(n, BF16_NAN);
    a->q = filled(a->q_size / sizeof *a->q, BF16_NAN);
    for (uint32_t r = 0; r < a->rows; r++) {
        if (a->seqs[r] < 0) continue;
        for (uint32_t h = 0; h < a->s->kv_heads; h++)
            for (int32_t j = 0; j <= a->positions[r]; j++)
                for (size_t d = 0, at = cached_at(a, r, h, j); d < hd; d++, at++) {
                    a->k[at] = bf16(normal(1, at));
                    a->v[at] = bf16(normal(2, at));
                }
        const double most = (1 + log(a->positions[r] + 1)) / sqrt(hd);
        for (uint32_t h = 0; h < heads; h++) {
            const size_t at = cached_at(a, r, h / a->queries, looks_at(a, r, h % a->queries));
            for (uint32_t d = 0; d < hd; d++)
                a->q[((size_t)r * heads + h) * hd + d] = bf16(most * wide(a->k[at + d]));
        }
    }
}

static attention attention_of(const struct shape *s, uint32_t rows) {
    attention a = {.s = &s->s,
                   .rows = rows,
                   .width = (uint32_t)s->longest / CELL + 33,
                   .queries = s->s.heads / s->s.kv_heads};
    place_rows(&a, s->longest);
    place_blocks(&a);
    fill_attention(&a);
    return a;
}

static void attention_done(attention *a) {
    base_free(a->q);
    base_free(a->k);
    base_free(a->v);
    base_free(a->tables);
}

/* By definition, of one head, and how far off a result may be: all weights but the largest, which is 1, are rounded to bf16 before they meet values, each by 2^-8 of it at most and none as
 * another (3.5 is six deviations). Scores and sums are in float32. */
static void attend(const attention *a, uint32_t row, uint32_t head, double *want, double *off) {
    const uint32_t hd = a->s->head_dim, n = (uint32_t)a->positions[row] + 1;
    const uint16_t *q = a->q + ((size_t)row * a->s->heads + head) * hd;
    double *s = room(n * sizeof *s), top = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < n; j++) {
        const uint16_t *k = a->k + cached_at(a, row, head / a->queries, (int32_t)j);
        s[j] = 0;
        for (uint32_t d = 0; d < hd; d++) s[j] += wide(q[d]) * wide(k[d]);
        s[j] /= sqrt(hd);
        top = fmax(top, s[j]);
    }
    for (uint32_t j = 0; j < n; j++) sum += s[j] = exp(s[j] - top);
    for (uint32_t d = 0; d < hd; d++) {
        double all = 0, rounded = 0, squares = 0;
        want[d] = 0;
        for (uint32_t j = 0; j < n; j++) {
            const double x = s[j] / sum *
                             wide(a->v[cached_at(a, row, head / a->queries, (int32_t)j) + d]);
            want[d] += x;
            all += fabs(x);
            if (s[j] == 1) continue;
            rounded += fabs(x);
            squares += x * x;
        }
        off[d] = 0x1p-8 * fmin(rounded, 3.5 * sqrt(squares)) + 0x1p-12 * all;
    }
    base_free(s);
}

/* Where an element of a row lies: rows of float32, or tiles of rows that are bf16. */
static size_t result_at(const attention *a, bool tiles, uint32_t row, uint32_t column) {
    const size_t high = (a->rows + 15) / 16 * 16;
    return tiles ? column / 8 * (high * 8) + row * 8 + column % 8
                 : (size_t)row * a->s->heads * a->s->head_dim + column;
}

/* Tiles are rounded once again. */
static void check_near(const attention *a, bool tiles, const void *got, const char *what) {
    const uint32_t hd = a->s->head_dim;
    double want[128], off[128];
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t h = 0; a->seqs[r] >= 0 && h < a->s->heads; h++) {
            attend(a, r, h, want, off);
            for (uint32_t d = 0; d < hd; d++) {
                const size_t at = result_at(a, tiles, r, h * hd + d);
                const double x = tiles ? wide(((const uint16_t *)got)[at])
                                       : (double)((const float *)got)[at];
                if (!(fabs(x - want[d]) <= off[d] + (tiles ? 0x1.02p-8 * fabs(want[d]) : 0)))
                    fail_msg("%s: row %u at position %d, head %u, element %u: %g, want %g", what, r,
                             a->positions[r], h, d, x, want[d]);
            }
        }
}

/* What lies beside the rows. */
static void check_marks(const attention *a, bool tiles, const void *got, size_t n,
                        const char *what) {
    const uint32_t across = a->s->heads * a->s->head_dim, high = (a->rows + 15) / 16 * 16;
    for (size_t i = 0; i < n; i++) {
        const size_t row = !tiles ? i / across : i < (size_t)high * across ? i / 8 % high : high;
        const bool kept = tiles ? ((const uint16_t *)got)[i] == MARK_16
                                : ((const uint32_t *)got)[i] == MARK_32;
        if (row >= a->rows && !kept) fail_msg("%s: wrote beside its rows, at %zu", what, i);
    }
}

static void check_attention(const struct code *c, const attention *a, bool tiles) {
    const gen_decode_kernel kernel = tiles ? GEN_DECODE_ATTENTION : GEN_DECODE_LAST;
    const size_t n = (size_t)(MOST + 16) * a->s->heads * a->s->head_dim,
                 size = n * (tiles ? sizeof(uint16_t) : sizeof(float)),
                 ints = a->rows * sizeof *a->seqs;
    const long long dim[] = {a->rows, a->width, 1};
    char what[96];
    uint32_t *got = room(n * sizeof *got);
    for (size_t i = 0; i < n; i++) {
        if (tiles)
            ((uint16_t *)got)[i] = MARK_16;
        else
            got[i] = MARK_32;
    }
    (void)snprintf(what, sizeof what, "%s, %u rows, %u kv heads of %u",
                   tiles ? "attention" : "last", a->rows, a->s->kv_heads, a->s->head_dim);
    void *const arg[] = {
        put(a->q, a->q_size), put(a->k, a->cache_size), put(a->v, a->cache_size),
        put(a->seqs, ints),   put(a->positions, ints),  put(a->tables, a->tables_size),
        put(got, size)};
    const hal_launch l = launch_of(c, kernel, 0, arg, 7, dim, 3);
    run(&l, 1);
    get(got, arg[6], size);
    check_near(a, tiles, got, what);
    check_marks(a, tiles, got, n, what);
    const size_t sizes[] = {a->q_size, a->cache_size,  a->cache_size, ints,
                            ints,      a->tables_size, size};
    for (int i = 0; i < 7; i++) drop(arg[i], sizes[i]);
    base_free(got);
}

static void attention_is_near_whoever_takes_a_row(void **state) {
    static const uint32_t rows[] = {9, 17, 33};
    (void)state;
    NEEDS_GPU();
    for (size_t s = 0; s < N_SHAPES; s++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            attention a = attention_of(&shapes[s], rows[i]);
            assert_int_equal(gen_decode_launch_of(&codes[s][1].d, GEN_DECODE_LAST).blocks,
                             2 * shapes[s].n_sm);
            check_attention(&codes[s][1], &a, false);
            check_attention(&codes[s][1], &a, true);
            attention_done(&a);
        }
}

/* --- gate and up --------------------------------------------------------------------- */

/* Weights in units of 32 columns, gate before up; sums are exact. */
static void fill_gates(const gen_step *s, uint16_t *w, char *packed) {
    const size_t tile = gen_pack_tile_size(RP_DTYPE_BF16, s->hidden);
    for (size_t i = 0; i < (size_t)2 * s->ffn * s->hidden; i++)
        w[i] = bf16(small_integer(6, i) / 8);
    for (uint32_t t = 0; t < s->ffn / 8; t++) {
        gen_pack_tile(RP_DTYPE_BF16, w, (int64_t)2 * s->ffn, s->hidden, t, packed + t * tile);
        gen_pack_swizzle(s->hidden, packed + t * tile);
    }
}

static double product_of(const uint16_t *w, const uint16_t *x, const gen_step *s, uint32_t column,
                         uint32_t high, uint32_t row) {
    double sum = 0;
    for (uint32_t k = 0; k < s->hidden; k++)
        sum += wide(w[(size_t)column * s->hidden + k]) *
               wide(x[k / 8 * (high * 8) + row * 8 + k % 8]);
    return sum;
}

static void check_gates(const gen_step *s, const uint16_t *w, const uint16_t *x, uint32_t rows,
                        const uint16_t *got) {
    const uint32_t high = (rows + 15) / 16 * 16;
    for (uint32_t r = 0; r < high; r++)
        for (uint32_t c = 0; c < s->ffn; c++) {
            const uint32_t column = c / 32 * 64 + c % 32;
            const double scale = 1 / sqrt(1 + r / 4.0 + (double)s->eps);
            const uint16_t bits = got[c / 8 * (high * 8) + r * 8 + c % 8];
            if (r >= rows) {
                if (bits != MARK_16) fail_msg("%u rows: wrote row %u, column %u", rows, r, c);
                continue;
            }
            const double gate = product_of(w, x, s, column, high, r) * scale,
                         up = product_of(w, x, s, column + 32, high, r) * scale,
                         want = gate / (1 + exp(-gate)) * up;
            if (!(fabs(wide(bits) - want) <= 0x1.02p-8 * fabs(want) + 1e-30))
                fail_msg("%u rows: column %u of row %u is %g, want %g", rows, c, r, wide(bits),
                         want);
        }
}

static void run_gates(const struct code *c, uint32_t rows) {
    const gen_step *s = &c->d.s;
    const uint32_t high = (rows + 15) / 16 * 16, n = high * s->ffn, n_x = high * s->hidden;
    const size_t packed_size = s->ffn / 8 * gen_pack_tile_size(RP_DTYPE_BF16, s->hidden);
    const long long dim[] = {rows};
    uint16_t *w = filled((size_t)2 * s->ffn * s->hidden, 0), *x = filled(n_x, BF16_NAN),
             *got = filled(n + BESIDE, MARK_16);
    char *packed = room(packed_size);
    float squares[256 * MOST];
    fill_gates(s, w, packed);
    for (uint32_t r = 0; r < MOST; r++) {
        for (uint32_t k = 0; r < rows && k < s->hidden; k++)
            x[k / 8 * (high * 8) + r * 8 + k % 8] =
                bf16(small_integer(7, (uint64_t)r * s->hidden + k));
        for (uint32_t p = 0; p < s->hidden / 32; p++)
            squares[p * MOST + r] = r < rows ? (float)(32 * (1 + r / 4.0)) : NAN;
    }
    const size_t sizes[] = {packed_size, n_x * sizeof *x, (n + BESIDE) * sizeof *got,
                            sizeof squares};
    const void *const from[] = {packed, x, got, squares};
    void *at[4];
    for (int i = 0; i < 4; i++) at[i] = put(from[i], sizes[i]);
    void *const arg[] = {at[0], at[1], at[0], at[2], at[3]}; /* gains are in x already */
    const hal_launch l = launch_of(c, GEN_DECODE_UP, 0, arg, 5, dim, 1);
    run(&l, 1);
    get(got, at[2], sizes[2]);
    check_gates(s, w, x, rows, got);
    for (uint32_t i = n; i < n + BESIDE; i++) assert_int_equal(got[i], MARK_16);
    for (int i = 0; i < 4; i++) drop(at[i], sizes[i]);
    base_free(w);
    base_free(x);
    base_free(got);
    base_free(packed);
}

static void every_column_is_of_one_block(void **state) {
    static const uint32_t rows[] = {9, 33};
    (void)state;
    NEEDS_GPU();
    for (size_t s = 0; s < N_SHAPES; s++) {
        const gen_decode_job *up = &codes[s][1].d.job[GEN_DECODE_UP],
                             *logits = &codes[s][1].d.job[GEN_DECODE_LOGITS];
        if (shapes[s].parts) assert_true(up->parts == 3 && logits->parts == 3);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            run_gates(code_of(s, rows[i]), rows[i]);
    }
}

/* --- the largest logit --------------------------------------------------------------- */

/* What columns are told apart by, the first elements of a row; the others are small integers, so that sums are exact and many of them equal. */
enum { ALIKE, PICKED, HIDDEN, LAST, BELOW, SIGNS, N_MARKED = 8 };

/* What becomes of a row's logits. */
typedef enum kind {
    TWINS, /* the largest twice, */
    PLAIN, /* or as it comes */
    NEGATIVE,
    ALL_LEAST, /* -inf */
    ALL_MOST,  /* +inf */
    FEW_MOST,  /* and -inf */
    NAN_MOST,  /* some NaN, +inf */
    NAN_LEAST, /* some NaN, -inf */
    ALL_NAN,
    ONE_NUMBER, /* the last column, beside -inf */
    ZEROS,      /* of both signs */
    N_KINDS
} kind;

typedef struct head {
    const gen_decode *d;
    uint32_t rows, high, k, vocab, columns; /* columns: those of whole units, too */
    uint16_t *w, *x;                        /* w: [columns][k], not packed */
    float squares[256 * MOST];              /* of a row: as many as it has pieces */
    size_t x_size, packed_size;
    char *packed;
} head;

static kind kind_of(uint32_t row) {
    return (kind)(row % (N_KINDS + 4) < N_KINDS ? row % (N_KINDS + 4) : TWINS);
}

static double marked(const head *h, uint32_t column, uint32_t k) {
    const uint32_t first = h->vocab * 5 / 7;
    const bool picked = column == first || column == first + 8 || column == h->vocab - 2;
    switch (k) {
    case ALIKE: return 1;
    case PICKED: return picked ? 1 : -1;
    case HIDDEN: return picked ? 0 : 1;
    case LAST: return column == h->vocab - 1 ? 0 : -4;
    case BELOW: return -8;
    case SIGNS: return column % 2 ? 1 : -1;
    default: return 0;
    }
}

/* The i-th pair of equal columns: in two blocks, the first of them in the later one, then at all distances. */
static uint32_t twins_of(const head *h, uint32_t i, uint32_t *second) {
    static const uint32_t apart[] = {8, 1, 16, 24, 32, 64, 96, 128, 256, 384, 640};
    const gen_decode_job *j = &h->d->job[GEN_DECODE_LOGITS];
    uint32_t by = i ? apart[i % 11] : j->tiles * 16, first = (j->blocks - 1) * by + 5;
    if (by >= h->vocab) by = h->vocab / 3;
    if (i || first + by >= h->vocab) first = (uint32_t)(base_philox_bits(5, i) % (h->vocab - by));
    *second = first + by;
    return first;
}

static void fill_weights(head *h) {
    const size_t tile = gen_pack_tile_size(RP_DTYPE_BF16, h->k);
    h->w = filled((size_t)h->columns * h->k, BF16_NAN);
    for (uint32_t c = 0; c < h->vocab; c++)
        for (uint32_t k = 0; k < h->k; k++) {
            const size_t at = (size_t)c * h->k + k;
            h->w[at] = bf16(k < N_MARKED ? marked(h, c, k) : small_integer(3, at));
        }
    for (uint32_t i = 0; i < h->rows; i++) {
        uint32_t second;
        const uint32_t first = twins_of(h, i, &second);
        memcpy(h->w + (size_t)second * h->k + N_MARKED, h->w + (size_t)first * h->k + N_MARKED,
               (h->k - N_MARKED) * sizeof *h->w);
    }
    h->packed_size = h->columns / 16 * tile;
    h->packed = room(h->packed_size);
    for (uint32_t t = 0; t < h->columns / 16; t++) {
        gen_pack_tile(RP_DTYPE_BF16, h->w, h->columns, h->k, t, h->packed + t * tile);
        gen_pack_swizzle(h->k, h->packed + t * tile);
    }
}

/* Element k of a row; the first ones say which kind it is. */
static double element(const head *h, uint32_t row, uint32_t k) {
    static const struct {
        uint32_t at;
        double x;
    } mark[N_KINDS] = {[NEGATIVE] = {BELOW, 64},        [ALL_LEAST] = {ALIKE, -INFINITY},
                       [ALL_MOST] = {ALIKE, INFINITY},  [FEW_MOST] = {PICKED, INFINITY},
                       [NAN_MOST] = {HIDDEN, INFINITY}, [NAN_LEAST] = {HIDDEN, -INFINITY},
                       [ONE_NUMBER] = {LAST, 3e38},     [ZEROS] = {SIGNS, 1e-30}};
    const kind is = kind_of(row);
    uint32_t second;
    if (k < N_MARKED) return k == mark[is].at ? mark[is].x : 0;
    if (is == ZEROS) return 0;
    if (is == TWINS) return wide(h->w[(size_t)twins_of(h, row, &second) * h->k + k]);
    return small_integer(4, (uint64_t)row * h->k + k);
}

static size_t x_at(const head *h, uint32_t row, uint32_t k) {
    return k / 8 * (h->high * 8) + row * 8 + k % 8;
}

/* Of a row's squares all pieces have the same. */
static double mean_square(uint32_t row) {
    return kind_of(row) == ALL_NAN ? NAN : kind_of(row) == ZEROS ? 1e36 : 1 + row / 4.0;
}

static head head_of(const gen_decode *d, uint32_t rows) {
    head h = {.d = d,
              .rows = rows,
              .high = (rows + 15) / 16 * 16,
              .k = d->s.hidden,
              .vocab = d->s.vocab,
              .columns = (d->s.vocab + 31) / 32 * 32};
    fill_weights(&h);
    h.x_size = (size_t)h.high * h.k * sizeof *h.x;
    h.x = filled(h.x_size / sizeof *h.x, BF16_NAN);
    for (uint32_t r = 0; r < MOST; r++) {
        for (uint32_t k = 0; r < rows && k < h.k; k++)
            h.x[x_at(&h, r, k)] = bf16(element(&h, r, k));
        for (uint32_t p = 0; p < h.k / 32; p++)
            h.squares[p * MOST + r] = r < rows ? (float)(32 * mean_square(r)) : NAN;
    }
    return h;
}

static void head_done(head *h) {
    base_free(h->w);
    base_free(h->x);
    base_free(h->packed);
}

/* Sums are exact; what they are multiplied by is not. */
static void check_logits(const head *h, const float *logits) {
    for (uint32_t r = 0; r < h->rows; r++)
        for (uint32_t c = 0; c < h->vocab; c++) {
            const double scale = 1 / sqrt(mean_square(r) + (double)h->d->s.eps);
            const float got = logits[(size_t)r * h->vocab + c];
            double sum = 0;
            for (uint32_t k = 0; k < h->k; k++)
                sum += wide(h->x[x_at(h, r, k)]) * wide(h->w[(size_t)c * h->k + k]);
            const float want = (float)(sum * scale);
            if (kind_of(r) == ONE_NUMBER || kind_of(r) == ZEROS ||
                (isnan(want) ? isnan(got)
                             : got == want || fabsf(got - want) <= 1e-6f * fabsf(want)))
                continue;
            fail_msg("%u rows, %u columns: logit %u of row %u is %g, want %g", h->rows, h->vocab, c,
                     r, (double)got, (double)want);
        }
}

static uint32_t largest_of(const float *x, uint32_t n, uint32_t *alike) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[i]) && !isnan(x[best]))) best = i;
    *alike = 0;
    for (uint32_t i = 0; i < n; i++) *alike += x[i] == x[best];
    return best;
}

static void check_largest(const head *h, const float *logits, const float *values,
                          const int32_t *places) {
    uint32_t bits[MOST], twins = 0, equal = 0;
    memcpy(bits, values, sizeof bits);
    for (uint32_t r = 0; r < MOST; r++) {
        uint32_t alike, has;
        if (r >= h->rows) {
            if (bits[r] != MARK_32 || places[r] != MARK_32) fail_msg("row %u is written", r);
            continue;
        }
        const float *row = logits + (size_t)r * h->vocab;
        const uint32_t want = largest_of(row, h->vocab, &alike);
        const float largest = row[want] + 0.0f; /* of zeros +0 */
        memcpy(&has, &largest, sizeof has);
        if (largest != largest) has = 0x7fffffff;
        if (places[r] != (int32_t)want || bits[r] != has)
            fail_msg("%u rows, %u columns: the largest of row %u, which is of kind %d, is %g at "
                     "%d, not %g at %u",
                     h->rows, h->vocab, r, kind_of(r), (double)values[r], places[r],
                     (double)row[want], want);
        twins += kind_of(r) == TWINS;
        equal += kind_of(r) == TWINS && alike >= 2;
    }
    assert_true(2 * equal > twins); /* those of one row may lie on those of another */
}

/* Ranks that nobody leaves are larger than all others. */
static void fill_ranks(int64_t *ranks, size_t n) {
    for (size_t i = 0; i < n; i++) ranks[i] = INT64_C(0x7fffffff) << 32 | 0xfffffffe;
}

typedef struct found {
    float values[MOST];
    int32_t places[MOST];
} found;

/* Both kernels, the second in so many blocks. logits: [rows * vocab + BESIDE]. unread: nobody reads them. */

static found run_head(const struct code *c, const head *h, uint32_t blocks, bool unread,
                      float *logits) {
    const size_t n = (size_t)h->rows * h->vocab + BESIDE,
                 n_ranks = (size_t)c->d.job[GEN_DECODE_LOGITS].blocks * MOST;
    const long long dim[] = {h->rows};
    int64_t *ranks = room(n_ranks * sizeof *ranks);
    const int32_t state[GEN_EXCHANGE_STATE] = {[GEN_EXCHANGE_UNREAD] = unread};
    const uint32_t mark = MARK_32;
    found f;
    for (size_t i = 0; i < n; i++) memcpy(&logits[i], &mark, sizeof mark);
    for (size_t i = 0; i < MOST; i++) f.places[i] = MARK_32;
    memcpy(f.values, f.places, sizeof f.values);
    fill_ranks(ranks, n_ranks);
    const size_t sizes[] = {
        h->packed_size,          h->x_size,       n * sizeof *logits, sizeof h->squares,
        n_ranks * sizeof *ranks, sizeof f.values, sizeof f.places,    sizeof state};
    const void *const from[] = {h->packed, h->x,     logits,   h->squares,
                                ranks,     f.values, f.places, state};
    void *at[8];
    for (int i = 0; i < 8; i++) at[i] = put(from[i], sizes[i]);
    void *const first[] = {at[0], at[1], at[0], at[2], at[3], at[4], at[7]};
    void *const second[] = {at[4], at[5], at[6]};
    const hal_launch list[] = {launch_of(c, GEN_DECODE_LOGITS, 0, first, 7, dim, 1),
                               launch_of(c, GEN_DECODE_LARGEST, blocks, second, 3, dim, 1)};
    run(list, 2);
    get(logits, at[2], sizes[2]);
    get(f.values, at[5], sizes[5]);
    get(f.places, at[6], sizes[6]);
    for (int i = 0; i < 8; i++) drop(at[i], sizes[i]);
    base_free(ranks);
    return f;
}

static void check_unwritten(const float *logits, size_t n) {
    const uint32_t mark = MARK_32;
    for (size_t i = 0; i < n; i++)
        if (memcmp(&logits[i], &mark, sizeof mark) != 0) fail_msg("wrote logit %zu of none", i);
}

static void check_head(const struct code *c, const head *h, uint32_t blocks) {
    const size_t n = (size_t)h->rows * h->vocab;
    float *logits = room((n + BESIDE) * sizeof *logits);
    const found read = run_head(c, h, blocks, false, logits);
    check_logits(h, logits);
    check_largest(h, logits, read.values, read.places);
    check_unwritten(logits + n, BESIDE);
    const found unread = run_head(c, h, blocks, true, logits);
    assert_memory_equal(&read, &unread, sizeof read);
    check_unwritten(logits, n + BESIDE);
    base_free(logits);
}

static void the_first_largest_logit_is_found(void **state) {
    static const uint32_t rows[] = {9, 17, 33};
    (void)state;
    NEEDS_GPU();
    for (size_t s = 0; s < N_SHAPES; s++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const struct code *c = code_of(s, rows[i]);
            head h = head_of(&c->d, rows[i]);
            check_head(c, &h, i ? rows[i] : 2);
            head_done(&h);
        }
}

/* --- code ---------------------------------------------------------------------------- */

static void compile(const compile_nvrtc *nvrtc, const struct shape *s, uint32_t most,
                    struct code *c) {
    char name[GEN_DECODE_NAME], *path = NULL;
    rp_error err = {0};
    base_buf text;
    base_buf_init(&text, 0);
    c->d = (gen_decode){.s = s->s, .most = most};
    c->d.s.eps = 1e-5f;
    c->d.s.rope_neighbours = true;
    CHECK_OK(gen_decode_fit(&c->d, s->n_sm, MAX_SHARED, &err), &err);
    CHECK_OK(gen_decode_text(&c->d, &text, &err), &err);
    const base_hash128 key = base_hash(text.data, text.len);
    CHECK_OK(compile_nvrtc_run(nvrtc, text.data, key, store, &err), &err);
    CHECK_OK(cache_get_code(store, key, compile_nvrtc_bits(nvrtc->arch), &path, &err), &err);
    CHECK_OK(device->ops->module_load(device, path, &c->module, &err), &err);
    for (unsigned k = 0; k < GEN_DECODE_KERNELS_; k++) {
        gen_decode_name(&c->d, (gen_decode_kernel)k, name);
        CHECK_OK(device->ops->module_symbol(c->module, name, &c->of[k], &err), &err);
    }
    base_free(path);
    base_buf_done(&text);
}

static int set_up(void **state) {
    compile_nvrtc nvrtc = {0};
    hal_device_info info;
    rp_error err = {0};
    (void)state;
    if (!gpu_emulate(&why_not)) return 0;
    why_not = NULL;
    CHECK_OK(hal_open("cuda:0", 1, &device, &err), &err);
    CHECK_OK(cache_store_open(NULL, &store, &err), &err);
    device->ops->info(device, &info);
    CHECK_OK(compile_nvrtc_find(info.arch, &nvrtc, &err), &err);
    for (size_t s = 0; s < N_SHAPES; s++) {
        compile(&nvrtc, &shapes[s], GEN_DECODE_SOME, &codes[s][0]);
        compile(&nvrtc, &shapes[s], GEN_DECODE_MOST, &codes[s][1]);
    }
    compile_nvrtc_done(&nvrtc);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (why_not) return 0;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (size_t i = 0; i < 2; i++) device->ops->module_free(codes[s][i].module);
    cache_store_close(store);
    hal_close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_near_whoever_takes_a_row),
        cmocka_unit_test(every_column_is_of_one_block),
        cmocka_unit_test(the_first_largest_logit_is_found),
    };
    return cmocka_run_group_tests_name("decode_many", tests, set_up, tear_down);
}
