/* A cache of random keys and values, attention by its definition, and calls of the kernels in any grouping. */
#ifndef SUPPORT_ATTENTION_ROOM_H
#define SUPPORT_ATTENTION_ROOM_H

#include <math.h>

#define TPL_FILE "unit/gen_templates.inc"
#include "support/templates.h"

typedef struct room {
    int f, heads, kv, hd, requests, stride, rows;
    int block; /* positions a block */
    int len[4];
    uint8_t *k, *v;
    rp_i32 *table, *req, *pos;
    float *q, *want, *got;
    size_t n; /* elements of q and out */
} room;

static size_t cache_at(const room *m, int req, int h, int t, int d) {
    size_t at = ((size_t)m->table[req * m->stride + t / m->block] * (size_t)m->kv + (size_t)h);
    return (at * (size_t)m->block + (size_t)(t % m->block)) * (size_t)m->hd + (size_t)d;
}

static float cache_load(const room *m, const uint8_t *c, size_t at) {
    rp_u16 h;
    float x;
    memcpy(&h, c + at * 2, 2);
    if (m->f == TPL_F32) memcpy(&x, c + at * 4, 4);
    return m->f == TPL_F32 ? x : m->f == TPL_F16 ? rp_f16_to_f32(h) : rp_bf16_to_f32(h);
}

static void cache_store(const room *m, uint8_t *c, size_t at, float x) {
    rp_u16 h = m->f == TPL_F16 ? rp_f32_to_f16(x) : rp_f32_to_bf16(x);
    if (m->f == TPL_F32)
        memcpy(c + at * 4, &x, 4);
    else
        memcpy(c + at * 2, &h, 2);
}

/* A running maximum, sum and weighted values, in float32 and in float64. */
typedef struct attended {
    float top, sum, out[1024];
    double dtop, dsum, dout[1024];
} attended;

/* Positions [from, end) by themselves. */
static void attend_chunk(const room *m, int row, int head, int from, int end, attended *to) {
    int h = head / (m->heads / m->kv), req = m->req[row];
    const float *q = m->q + ((size_t)row * (size_t)m->heads + (size_t)head) * (size_t)m->hd;
    float s[RP_ATTN_CHUNK], lanes[16] = {0}, scale = 0.3f;
    double e[RP_ATTN_CHUNK];
    *to = (attended){.top = RP_ATTN_LEAST, .dtop = -(double)INFINITY};
    for (int t = from; t < end; t++) {
        float a[4] = {0};
        double dot = 0;
        for (int d = 0; d < m->hd; d++) {
            float k = cache_load(m, m->k, cache_at(m, req, h, t, d));
            a[d % 4] = a[d % 4] + k * q[d];
            dot += (double)k * (double)q[d];
        }
        s[t - from] = ((a[0] + a[1]) + (a[2] + a[3])) * scale;
        e[t - from] = dot * (double)scale;
        to->top = s[t - from] > to->top ? s[t - from] : to->top;
        to->dtop = fmax(to->dtop, e[t - from]);
    }
    for (int t = from; t < end; t++) {
        float p = rp_expf(s[t - from] - to->top);
        double dp = exp(e[t - from] - to->dtop);
        lanes[t % 16] += p;
        to->dsum += dp;
        for (int d = 0; d < m->hd; d++) {
            float v = cache_load(m, m->v, cache_at(m, req, h, t, d));
            to->out[d] = to->out[d] + p * v;
            to->dout[d] += dp * (double)v;
        }
    }
    to->sum = rp_tree_sum(lanes);
}

static void attend_join(const room *m, attended *to, const attended *from) {
    float top = from->top > to->top ? from->top : to->top;
    float a = rp_expf(to->top - top), b = rp_expf(from->top - top);
    double dtop = fmax(from->dtop, to->dtop), da = exp(to->dtop - dtop),
           db = exp(from->dtop - dtop);
    to->top = top;
    to->dtop = dtop;
    to->sum = to->sum * a + from->sum * b;
    to->dsum = to->dsum * da + from->dsum * db;
    for (int d = 0; d < m->hd; d++) {
        to->out[d] = to->out[d] * a + from->out[d] * b;
        to->dout[d] = to->dout[d] * da + from->dout[d] * db;
    }
}

/* The definition at the head of attention.c.inc, for one row and head; *error is the distance to float64. */
static void attend_by_definition(const room *m, int row, int head, float *out, double *error) {
    static attended all, next;
    int n = m->pos[row] + 1;
    for (int t = 0; t < n; t += RP_ATTN_CHUNK) {
        int end = t + RP_ATTN_CHUNK < n ? t + RP_ATTN_CHUNK : n;
        attend_chunk(m, row, head, t, end, t == 0 ? &all : &next);
        if (t > 0) attend_join(m, &all, &next);
    }
    float by = 1.0f / all.sum;
    for (int d = 0; d < m->hd; d++) {
        out[d] = all.out[d] * by;
        *error = fmax(*error, fabs((double)out[d] - all.dout[d] / all.dsum));
    }
}

enum { STRIDE = 24, CELLS = 61 /* blocks; a prime */ };

static void room_new(room *m, int f, const int shape[4], const int *len, int requests) {
    int blocks = 1, row = 0, kv = shape[1], hd = shape[2], heads = shape[0];
    *m = (room){.f = f,
                .heads = heads,
                .kv = kv,
                .hd = hd,
                .requests = requests,
                .stride = STRIDE,
                .block = shape[3]};
    m->table = base_alloc(4 * STRIDE * sizeof *m->table);
    for (int r = 0; r < requests; r++) {
        m->len[r] = len[r];
        m->rows += len[r];
        for (int b = 0; b < (len[r] + m->block - 1) / m->block; b++)
            m->table[r * STRIDE + b] = blocks++;
    }
    for (int i = 1; i < blocks; i++) /* blocks lie anywhere: block b is now (b * 7) mod a prime */
        for (int j = 0; j < requests * STRIDE; j++)
            if (m->table[j] == i) {
                m->table[j] = -(i * 7 % CELLS);
                break;
            }
    for (int j = 0; j < requests * STRIDE; j++)
        m->table[j] = m->table[j] < 0 ? -m->table[j] : m->table[j];
    size_t cells = CELLS * (size_t)(kv * hd * m->block), bytes = f == TPL_F32 ? 4 : 2;
    m->n = (size_t)(m->rows * heads * hd);
    m->k = base_alloc_aligned(cells * bytes, 64);
    m->v = base_alloc_aligned(cells * bytes, 64);
    m->q = base_alloc(m->n * 4);
    m->want = base_alloc(m->n * 4);
    m->got = base_alloc(m->n * 4);
    m->req = base_alloc((size_t)m->rows * 4);
    m->pos = base_alloc((size_t)m->rows * 4);
    memset(m->k, 0xff, cells * bytes); /* NaN in every slot that holds nothing */
    memset(m->v, 0xff, cells * bytes);
    for (size_t i = 0; i < m->n; i++) m->q[i] = random_unit();
    for (int r = 0; r < requests; r++)
        for (int t = 0; t < len[r]; t++, row++) {
            m->req[row] = r;
            m->pos[row] = t;
            for (int h = 0; h < kv; h++)
                for (int d = 0; d < hd; d++) {
                    cache_store(m, m->k, cache_at(m, r, h, t, d), random_unit());
                    cache_store(m, m->v, cache_at(m, r, h, t, d), random_unit());
                }
        }
}

static void room_done(room *m) {
    void *all[] = {m->table, m->k, m->v, m->q, m->want, m->got, m->req, m->pos};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) base_free(all[i]);
}

static rp_attn room_args(const room *m, int row0, int rows, int row_tile) {
    size_t at = (size_t)(row0 * m->heads * m->hd);
    return (rp_attn){.q = m->q + at,
                     .k = m->k,
                     .v = m->v,
                     .table = m->table,
                     .row_req = m->req + row0,
                     .row_pos = m->pos + row0,
                     .out = m->got + at,
                     .rows = rows,
                     .n_heads = m->heads,
                     .n_kv = m->kv,
                     .hd = m->hd,
                     .table_stride = m->stride,
                     .q_stride = m->heads * m->hd,
                     .out_stride = m->heads * m->hd,
                     .row_tile = row_tile,
                     .scale = 0.3f,
                     .block_size = m->block};
}

typedef struct grouping {
    int rows, row_tile; /* rows a call; rows a tile */
    int share;          /* items at once; 0: half of them */
} grouping;

static void room_run(const room *m, const tpl_unit *t, int row0, const grouping *g, void *scratch) {
    for (int row = row0; row < m->rows; row += g->rows) {
        rp_attn a =
            room_args(m, row, m->rows - row < g->rows ? m->rows - row : g->rows, g->row_tile);
        long long items = RP_ATTN_ITEMS(a.rows, a.n_heads);
        long long share = g->share ? g->share : (items + 1) / 2;
        for (long long at = (items - 1) / share * share; at >= 0; at -= share)
            t->attn[m->f](&a, at, at + share < items ? at + share : items, scratch);
    }
}

#endif
