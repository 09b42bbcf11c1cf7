#include "bench/gpu/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "hal/cuda/code.h"

/* The text of model.cu, with a NUL behind it. */
extern const char kernels[];
__asm__(".pushsection .rodata\n"
        "kernels: .incbin \"bench/gpu/model.cu\"\n"
        ".byte 0\n"
        ".popsection\n");

enum {
    SEED_HEAD = 1,
    SEED_GAIN = 2,
    SEED_EMBEDDING = 3,
    SEED_LAYER = 16,
    READ_ROOM = 12 * 16384,
    READ_PIECE = 16384
};

static const float embedding_scale = 1.7f;

static uint32_t seed_of(uint32_t layer, gen_step_matrix m) {
    return m == GEN_STEP_HEAD ? SEED_HEAD : SEED_LAYER * (layer + 1) + m;
}

/* Products keep the size of their rows; what all layers add to the residual stream is as large as what they began with. */
static float scale_of(const model *m, gen_step_matrix x) {
    float layers = x == GEN_STEP_O || x == GEN_STEP_DOWN ? 2.0f * (float)m->s.layers : 1.0f;
    return sqrtf(3.0f / (float)gen_step_k(&m->s, x) / layers);
}

static rp_status launch(const model *m, const char *name, unsigned gx, unsigned gy,
                        unsigned threads, unsigned shared, void **args, rp_error *err) {
    const cuda_driver *cu = m->gpu->cu;
    void *f;
    RP_TRY(cuda_check(cu, cu->module_function(&f, m->module, name), name, err));
    if (shared > 48 << 10)
        RP_TRY(
            cuda_check(cu, cu->function_set(f, CUDA_FUNCTION_MAX_SHARED, (int)shared), name, err));
    return cuda_check(cu, cu->launch(f, gx, gy, 1, threads, 1, 1, shared, m->stream, args, NULL),
                      name, err);
}

static rp_status get(const model *m, size_t size, const char *what, uint64_t *out, rp_error *err) {
    return cuda_gpu_alloc(m->gpu, size, what, out, err);
}

static rp_status send(const model *m, uint64_t to, const void *from, size_t size, rp_error *err) {
    const cuda_driver *cu = m->gpu->cu;
    RP_TRY(cuda_check(cu, cu->copy_in(to, from, size, m->stream), "copy to the GPU", err));
    return cuda_check(cu, cu->stream_synchronize(m->stream), "copy to the GPU", err);
}

/* ---- filling --------------------------------------------------------------------------------------- */

/* Which row of the model each packed row is, on the GPU. */
static rp_status send_rows(const model *m, gen_step_matrix x, uint64_t *out, rp_error *err) {
    uint32_t n = gen_batch_rows(&m->t.batch, x);
    uint32_t *rows = base_alloc_array(n, sizeof *rows);
    if (!rows) return rp_fail(err, RP_NOMEM, "rows of a matrix");
    for (uint32_t i = 0; i < n; i++) rows[i] = gen_batch_row(&m->t.batch, x, i);
    rp_status st = get(m, n * sizeof *rows, "rows of a matrix", out, err);
    if (st == RP_OK) st = send(m, *out, rows, n * sizeof *rows, err);
    base_free(rows);
    return st;
}

static rp_status fill_matrix(model *m, gen_step_matrix x, rp_error *err) {
    uint64_t rows = 0;
    uint32_t layers = x == GEN_STEP_HEAD ? 1 : m->s.layers;
    int k = (int)gen_step_k(&m->s, x), unit = GEN_BATCH_TILE_ROWS;
    uint64_t n = gen_batch_bytes(&m->t.batch, x) / 16;
    float scale = scale_of(m, x);
    rp_status st = send_rows(m, x, &rows, err);
    for (uint32_t l = 0; st == RP_OK && l < layers; l++) {
        uint32_t seed = seed_of(l, x);
        void *args[] = {&m->matrix[l][x], &rows, &k, &unit, &n, &seed, &scale};
        st = launch(m, "fill_tiles", 4096, 1, 256, 0, args, err);
    }
    if (st == RP_OK)
        st = cuda_check(m->gpu->cu, m->gpu->cu->stream_synchronize(m->stream), "weights", err);
    cuda_gpu_free(m->gpu, rows);
    return st;
}

static rp_status make_weights(model *m, rp_error *err) {
    uint64_t at, n_gain = (uint64_t)(2 * m->s.layers + 1) * m->s.hidden;
    uint64_t n_rows = (uint64_t)m->s.vocab * m->s.hidden;
    uint32_t gain_seed = SEED_GAIN, seed = SEED_EMBEDDING;
    float scale = embedding_scale, spread = 0.2f, one = 1.0f, zero = 0.0f;
    for (int x = 0; x < GEN_STEP_MATRICES_; x++)
        m->weights_size += gen_batch_bytes(&m->t.batch, (gen_step_matrix)x) *
                           (x == GEN_STEP_HEAD ? 1 : m->s.layers);
    RP_TRY(get(m, m->weights_size, "weights", &m->weights, err));
    RP_TRY(get(m, n_rows * 2, "embedding", &m->embedding, err));
    RP_TRY(get(m, n_gain * 2, "gains", &m->gains, err));
    at = m->weights; /* in the order of reading */
    for (uint32_t l = 0; l < m->s.layers; l++)
        for (int x = 0; x < GEN_STEP_HEAD; x++) {
            m->matrix[l][x] = at;
            at += gen_batch_bytes(&m->t.batch, (gen_step_matrix)x);
        }
    m->matrix[0][GEN_STEP_HEAD] = at;
    for (int x = 0; x < GEN_STEP_MATRICES_; x++) RP_TRY(fill_matrix(m, (gen_step_matrix)x, err));
    void *rows[] = {&m->embedding, &n_rows, &seed, &scale, &zero};
    RP_TRY(launch(m, "fill_rows", 4096, 1, 256, 0, rows, err));
    void *gains[] = {&m->gains, &n_gain, &gain_seed, &spread, &one};
    return launch(m, "fill_rows", 64, 1, 256, 0, gains, err);
}

/* cos and sin of every position. */
static rp_status make_rope(model *m, rp_error *err) {
    uint32_t half = m->s.head_dim / 2;
    float *turns = base_alloc_array((size_t)m->max_len * half, 2 * sizeof *turns);
    if (!turns) return rp_fail(err, RP_NOMEM, "rope");
    for (uint32_t p = 0; p < m->max_len; p++)
        for (uint32_t i = 0; i < half; i++) {
            double angle = p * pow(500000.0, -2.0 * i / m->s.head_dim);
            turns[(p * half + i) * 2] = (float)cos(angle);
            turns[(p * half + i) * 2 + 1] = (float)sin(angle);
        }
    rp_status st = get(m, (size_t)m->max_len * half * 8, "rope", &m->rope, err);
    if (st == RP_OK) st = send(m, m->rope, turns, (size_t)m->max_len * half * 8, err);
    base_free(turns);
    return st;
}

/* Blocks of all sequences, in an order of their own. */
static rp_status make_table(model *m, rp_error *err) {
    uint32_t n = m->sequences * m->s.max_blocks, state = 12345;
    int *table = base_alloc_array(n, sizeof *table);
    if (!table) return rp_fail(err, RP_NOMEM, "block table");
    for (uint32_t i = 0; i < n; i++) table[i] = (int)i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = (state = state * 1664525u + 1013904223u) % (i + 1);
        int other = table[j];
        table[j] = table[i];
        table[i] = other;
    }
    rp_status st = get(m, n * sizeof *table, "block table", &m->table, err);
    if (st == RP_OK) st = send(m, m->table, table, n * sizeof *table, err);
    base_free(table);
    return st;
}

static size_t ref_layer(const model *m) {
    return (size_t)m->sequences * m->max_len * m->s.kv_heads * m->s.head_dim;
}

static rp_status make_caches(model *m, rp_error *err) {
    int max_blocks = (int)m->s.max_blocks, batch = (int)m->sequences, heads = (int)m->s.kv_heads,
        dim = (int)m->s.head_dim, context = (int)m->context, max_len = (int)m->max_len;
    m->cache_layer = (size_t)m->sequences * m->s.max_blocks * GEN_STEP_KV_BLOCK * m->s.kv_heads *
                     m->s.head_dim;
    RP_TRY(get(m, m->cache_layer * m->s.layers * 2, "keys", &m->keys, err));
    RP_TRY(get(m, m->cache_layer * m->s.layers * 2, "values", &m->values, err));
    RP_TRY(get(m, ref_layer(m) * m->s.layers * 4, "reference keys", &m->ref_keys, err));
    RP_TRY(get(m, ref_layer(m) * m->s.layers * 4, "reference values", &m->ref_values, err));
    uint64_t n = m->cache_layer * m->s.layers;
    uint32_t any = 0;
    float zero = 0;
    void *keys[] = {&m->keys, &n, &any, &zero, &zero},
         *values[] = {&m->values, &n, &any, &zero, &zero};
    RP_TRY(launch(m, "fill_rows", 4096, 1, 256, 0, keys, err));
    RP_TRY(launch(m, "fill_rows", 4096, 1, 256, 0, values, err));
    for (uint32_t i = 0; i < 2 * m->s.layers; i++) {
        uint32_t l = i / 2, seed = 1000000 + i;
        uint64_t cache = (i % 2 ? m->values : m->keys) + l * m->cache_layer * 2,
                 ref = (i % 2 ? m->ref_values : m->ref_keys) + l * ref_layer(m) * 4;
        void *args[] = {&cache, &ref, &m->table, &max_blocks, &batch,
                        &heads, &dim, &context,  &max_len,    &seed};
        RP_TRY(launch(m, "fill_cache", 1024, 1, 256, 0, args, err));
    }
    return RP_OK;
}

static rp_status make_reference(model *m, rp_error *err) {
    const gen_step *s = &m->s;
    size_t wide = 2 * s->ffn > (s->heads + 2 * s->kv_heads) * s->head_dim
                      ? 2 * s->ffn
                      : (s->heads + 2 * s->kv_heads) * s->head_dim;
    size_t n = m->t.rows < MODEL_ROWS ? m->t.rows : MODEL_ROWS;
    RP_TRY(get(m, n * s->hidden * 4, "reference", &m->ref_x, err));
    RP_TRY(get(m, n * s->hidden * 4, "reference", &m->ref_norm, err));
    RP_TRY(get(m, n * wide * 4, "reference", &m->ref_wide, err));
    RP_TRY(get(m, n * wide * 4, "reference", &m->ref_part, err));
    RP_TRY(get(m, n * s->vocab * 4, "reference", &m->ref_logits, err));
    return get(m, (size_t)MODEL_ROWS * 5 * 4, "reference", &m->ref_best,
               err); /* tokens, ids, results */
}

rp_status model_init(model *m, const cuda_gpu *gpu, const cuda_nvrtc *rtc, void *stream,
                     const template *t, uint32_t context, rp_error *err) {
    char *cubin = NULL;
    size_t size = 0;
    *m = (model){.gpu = gpu, .stream = stream, .t = *t, .s = t->s, .context = context};
    m->sequences = t->prefill ? 1 : t->rows;
    m->max_len = t->s.max_blocks * GEN_STEP_KV_BLOCK;
    RP_TRY(
        cuda_compile(rtc, &(cuda_source){kernels, "model.cu", "sm_90a"}, NULL, &cubin, &size, err));
    rp_status st = cuda_code_load(gpu->cu, cubin, &m->module, err);
    base_free(cubin);
    if (st == RP_OK) st = make_weights(m, err);
    if (st == RP_OK) st = make_rope(m, err);
    if (st == RP_OK) st = make_table(m, err);
    if (st == RP_OK) st = make_caches(m, err);
    if (st == RP_OK) st = make_reference(m, err);
    if (st == RP_OK) st = cuda_check(gpu->cu, gpu->cu->stream_synchronize(stream), "filling", err);
    return st;
}

void model_done(model *m) {
    const uint64_t all[] = {m->weights,  m->embedding, m->gains,    m->rope,       m->table,
                            m->keys,     m->values,    m->ref_keys, m->ref_values, m->ref_x,
                            m->ref_norm, m->ref_wide,  m->ref_part, m->ref_logits, m->ref_best};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) cuda_gpu_free(m->gpu, all[i]);
    if (m->module) (void)m->gpu->cu->module_free(m->module);
}

uint64_t model_gain(const model *m, uint32_t norm) {
    return m->gains + (uint64_t)norm * m->s.hidden * 2;
}

/* ---- the reference --------------------------------------------------------------------------------- */

/* n rows at once, see model_reference. */
typedef struct rows {
    int n, position, one_sequence;
} rows;

static rp_status ref_norm(const model *m, rows r, uint32_t norm, rp_error *err) {
    uint64_t gain = model_gain(m, norm);
    int k = (int)m->s.hidden;
    float eps = m->s.eps;
    void *args[] = {(void *)&m->ref_norm, (void *)&m->ref_x, &gain, &k, &eps};
    return launch(m, "ref_norm", (unsigned)r.n, 1, 256, 0, args, err);
}

static rp_status ref_matrix(const model *m, rows r, uint32_t layer, gen_step_matrix x,
                            uint64_t from, uint64_t to, int add, rp_error *err) {
    int k = (int)gen_step_k(&m->s, x), n_rows = (int)gen_step_rows(&m->s, x);
    uint32_t seed = seed_of(layer, x);
    float scale = scale_of(m, x);
    void *args[] = {&to, &from, &r.n, &n_rows, &k, &seed, &scale, &add};
    return launch(m, "ref_matrix", (unsigned)(n_rows + 7) / 8, 1, 256, 0, args, err);
}

static rp_status ref_attention(const model *m, rows r, uint32_t layer, rp_error *err) {
    int heads = (int)m->s.heads, kv = (int)m->s.kv_heads, dim = (int)m->s.head_dim,
        max_len = (int)m->max_len;
    uint64_t keys = m->ref_keys + layer * ref_layer(m) * 4,
             values = m->ref_values + layer * ref_layer(m) * 4, qkv = m->ref_wide, rope = m->rope,
             out = m->ref_part;
    void *turn[] = {&qkv, &keys, &values,     &rope,           &heads,
                    &kv,  &dim,  &r.position, &r.one_sequence, &max_len};
    void *attend[] = {&out, &qkv, &keys,       &values,         &heads,
                      &kv,  &dim, &r.position, &r.one_sequence, &max_len};
    RP_TRY(launch(m, "ref_rope", (unsigned)(heads + 2 * kv), (unsigned)r.n, m->s.head_dim / 2, 0,
                  turn, err));
    return launch(m, "ref_attention", m->s.heads, (unsigned)r.n, 256, m->max_len * 4, attend, err);
}

static rp_status ref_layer_step(const model *m, rows r, uint32_t l, rp_error *err) {
    int ffn = (int)m->s.ffn, n = ffn * r.n;
    uint64_t part = m->ref_part, wide = m->ref_wide;
    void *silu[] = {&part, &wide, &ffn, &n};
    RP_TRY(ref_norm(m, r, 2 * l, err));
    RP_TRY(ref_matrix(m, r, l, GEN_STEP_QKV, m->ref_norm, wide, 0, err));
    RP_TRY(ref_attention(m, r, l, err));
    RP_TRY(ref_matrix(m, r, l, GEN_STEP_O, part, m->ref_x, 1, err));
    RP_TRY(ref_norm(m, r, 2 * l + 1, err));
    RP_TRY(ref_matrix(m, r, l, GEN_STEP_UP, m->ref_norm, wide, 0, err));
    RP_TRY(launch(m, "ref_silu", ((unsigned)n + 255) / 256, 1, 256, 0, silu, err));
    return ref_matrix(m, r, l, GEN_STEP_DOWN, part, m->ref_x, 1, err);
}

static rp_status ref_head(const model *m, rows r, uint64_t ids, uint64_t best, rp_error *err) {
    int n = (int)m->s.vocab;
    uint64_t logits = m->ref_logits;
    void *args[] = {&best, &logits, &ids, &n};
    RP_TRY(ref_norm(m, r, 2 * m->s.layers, err));
    RP_TRY(ref_matrix(m, r, 0, GEN_STEP_HEAD, m->ref_norm, logits, 0, err));
    return launch(m, "ref_argmax", (unsigned)r.n, 1, 256, 0, args, err);
}

rp_status model_reference(const model *m, const int *tokens, uint32_t n, int position,
                          const int *ids, float *hidden, int *best, float *gap, rp_error *err) {
    const cuda_driver *cu = m->gpu->cu;
    uint64_t at_tokens = m->ref_best, at_ids = at_tokens + MODEL_ROWS * 4,
             at_best = at_ids + MODEL_ROWS * 4, x = m->ref_x;
    int results[MODEL_ROWS * 3], k = (int)m->s.hidden;
    uint32_t seed = SEED_EMBEDDING;
    float scale = embedding_scale, top, ours;
    rows r = {(int)n, position, m->t.prefill};
    void *embed[] = {&x, &at_tokens, &k, &seed, &scale};
    RP_TRY(send(m, at_tokens, tokens, n * sizeof *tokens, err));
    RP_TRY(launch(m, "ref_embed", n, 1, 256, 0, embed, err));
    for (uint32_t l = 0; l < m->s.layers; l++) RP_TRY(ref_layer_step(m, r, l, err));
    if (best) {
        RP_TRY(send(m, at_ids, ids, n * sizeof *ids, err));
        RP_TRY(ref_head(m, r, at_ids, at_best, err));
        RP_TRY(cuda_check(cu, cu->copy_out(results, at_best, n * 3 * sizeof *results, m->stream),
                          "results", err));
    }
    RP_TRY(cuda_check(cu, cu->copy_out(hidden, x, (size_t)n * m->s.hidden * 4, m->stream),
                      "results", err));
    RP_TRY(cuda_check(cu, cu->stream_synchronize(m->stream), "the reference", err));
    for (uint32_t b = 0; best && b < n; b++) {
        best[b] = results[b * 3];
        memcpy(&top, &results[b * 3 + 1], sizeof top);
        memcpy(&ours, &results[b * 3 + 2], sizeof ours);
        gap[b] = top - ours;
    }
    return RP_OK;
}

rp_status model_read(const model *m, rp_error *err) {
    uint64_t from = m->weights, pieces = m->weights_size / READ_PIECE;
    void *args[] = {&from, &pieces};
    return launch(m, "read_all", (unsigned)m->gpu->n_sm, 1, 32, READ_ROOM, args, err);
}
