/* Causal grouped-query attention over a paged KV cache, as CUDA C: the cache's layout, the definition and so every bit as in
 * attention.c.inc. Here for few rows; attention_tile.cu is for many.
 *
 * A cluster of blocks takes a row and the heads of a kv head (at most 8), so that a key and a value are read once for all of
 * them. Its blocks take chunks in turn; each leaves what a chunk gave in its shared memory, where the owner of an output finds
 * it and joins the chunks in ascending order. */
#define RK_ATTN_CHUNK 128
#define RK_ATTN_LEAST -3.402823466e38f
#define RK_ATTN_SPLIT 8     /* blocks of a cluster at most, and as many are launched */
#define RK_ATTN_THREADS 256 /* of a block */

#define RK_ATTN_BLOCKS(n) RK_BLOCKS(n)

/* Threads of the BLOCKS blocks of a cluster meet: what they wrote before arriving is there for all after the wait. */
template <int BLOCKS>
RP_INLINE void rk_arrive()
{
    if (BLOCKS > 1) rk_cluster_arrive();
}
template <int BLOCKS>
RP_INLINE void rk_meet()
{
    if (BLOCKS > 1)
        rk_cluster_wait();
    else
        __syncthreads();
}

#ifdef RK_EMULATED
RP_INLINE float rk_from_half(rp_u16 h) { return rp_f16_to_f32(h); }
#else
RP_INLINE float rk_from_half(rp_u16 h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
#endif

struct rk_kv_f32 {
    typedef float type;
    RP_INLINE float get(float x) { return x; }
};
struct rk_kv_f16 {
    typedef rp_u16 type;
    RP_INLINE float get(rp_u16 x) { return rk_from_half(x); }
};
struct rk_kv_bf16 {
    typedef rp_u16 type;
    RP_INLINE float get(rp_u16 x) { return rp_bf16_to_f32(x); }
};

/* n elements, loaded and stored at once. */
template <class E, int n>
struct alignas(sizeof(E) * n) rk_few {
    E one[n];
};

/* A warp turns the scores of a chunk's first m positions at s into weights, and gives their maximum and sum; those of the other positions are 0. */
RP_INLINE void rk_attn_weigh(float *s, int m, float *top, float *sum)
{
    const int lane = rk_lane();
    float x[RK_ATTN_CHUNK / 32], most = RK_ATTN_LEAST, all = 0.0f;
#pragma unroll
    for (int j = 0; j < RK_ATTN_CHUNK / 32; j++) {
        x[j] = lane + 32 * j < m ? s[lane + 32 * j] : -RP_INF;
        most = x[j] > most ? x[j] : most;
    }
#pragma unroll
    for (int o = 16; o; o /= 2) {
        const float other = __shfl_xor_sync(RK_WARP, most, o);
        most = other > most ? other : most;
    }
#pragma unroll
    for (int j = 0; j < RK_ATTN_CHUNK / 32; j++) {
        x[j] = rp_expf(x[j] - most);
        s[lane + 32 * j] = x[j];
        all = rk_warp_step<RK_SUM>(all, x[j], m - 32 * j);
    }
    *top = most;
    *sum = rk_warp_end<RK_SUM>(all);
}

/* A running maximum takes that of the next chunk in: what the sums so far, and those of the chunk, count from then on. */
RP_INLINE void rk_attn_join(float *top, float next, float *a, float *b)
{
    const bool more = next > *top;
    const float e = rp_expf(more ? *top - next : next - *top); /* the other of the two is exp(0) */
    *a = more ? e : 1.0f;
    *b = more ? 1.0f : e;
    *top = more ? next : *top;
}

/* HD: of a head; BLOCK: positions of a cache block; BLOCKS: of a cluster. */
template <class KV, int HEADS, int KV_HEADS, int HD, int BLOCK, int BLOCKS>
struct rk_attn {
    typedef typename KV::type element;
    enum {
        N = RK_ATTN_THREADS,
        C = RK_ATTN_CHUNK,
        group = HEADS / KV_HEADS,
        most = HD > 512 ? 1 : HD > 256 ? 2 : HD > 128 ? 4 : 8,
        parts = (group + most - 1) / most,
        units = KV_HEADS * parts,              /* of a row */
        queries = (group + parts - 1) / parts, /* that a cluster takes, or fewer */
        wide = HD * sizeof(element) % 16 ? 1 : 16 / (int)sizeof(element), /* elements of a piece, which is loaded at once */
        pieces = HD / wide,
        pairs = HD % 2 ? 1 : 2, /* dims of a value that a thread sums */
        tile = HD > 512 ? 8 : HD > 256 ? 16 : HD > 128 ? 32 : HD > 64 || HD % 4 ? 64 : 128, /* rows in shared memory */
        share = tile == 128 ? 2 : 4, /* threads of a score */
        own = 4 / share,             /* partial sums of each */
        stride = HD + (HD % 4 ? 1 : 16 / (int)sizeof(element)),
        held = (tile * pieces + N - 1) / N,
        outputs = queries * HD,
        sums = (outputs / pairs + N - 1) / N, /* pairs of outputs of a thread */
        slots = outputs > 768 ? 1 : outputs > 384 ? 2 : outputs > 192 ? 4 : 8, /* chunks whose results a block holds */
        owned = (outputs + BLOCKS - 1) / BLOCKS,                 /* outputs that a block joins .. */
        joins = (owned + N - 1) / N,                                             /* .. and each of its threads */
        entries = (C + BLOCK - 2) / BLOCK + 1                                    /* blocks of the cache of a chunk, at most */
    };
    typedef rk_few<element, wide> piece;

    struct result {
        float out[outputs], top[queries], sum[queries];
    };
    struct room {
        union {
            element k[tile * stride];
            float v[tile * HD];
            int4 aligned;
        };
        rk_few<float, 4> query[queries * HD / 4 + 1];
        float s[queries][C];
        result all[slots];
        rp_i32 block[entries], seq, pos;
    };
    /* What the threads of a block have on the way. */
    struct stream {
        piece k[held], v[held];
    };

    /* This thread's pieces of rows [t, t + tile) of a chunk, of which `count` exist. */
    RP_INLINE void bring(piece *to, const element *cache, const rp_i32 *block, int kv_head, int t0, int t, int count)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N, row = t + at / pieces;
            if (at >= tile * pieces || row >= count) continue;
            const int p = t0 + row, b = block[p / BLOCK - t0 / BLOCK];
            to[i] = ((const piece *)(cache + (((rp_size)b * KV_HEADS + kv_head) * BLOCK + p % BLOCK) * HD))[at % pieces];
        }
    }

    RP_INLINE void put_keys(room &r, const piece *from)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N;
            if (at < tile * pieces) *(piece *)(r.k + at / pieces * stride + at % pieces * wide) = from[i];
        }
    }

    RP_INLINE void put_values(room &r, const piece *from)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N;
            rk_few<float, wide < 4 ? wide : 4> x;
            if (at >= tile * pieces) continue;
#pragma unroll
            for (int j = 0; j < wide; j++) {
                x.one[j % 4] = KV::get(from[i].one[j]);
                if (wide == 1 || j % 4 == 3) *(decltype(x) *)(r.v + at * wide + j / 4 * 4) = x;
            }
        }
    }

    /* Scores of rows [t, t + tile) of a chunk of m, `share` neighbouring threads each. */
    RP_INLINE void score(room &r, int t, int m, float scale)
    {
        const int row = threadIdx.x / share, part = threadIdx.x % share;
        if (row >= tile) return; /* whole warps */
        const element *k = r.k + row * stride;
        const float *query = r.query[0].one;
        float p[queries][own] = {};
#pragma unroll 4
        for (int d = part * own; d < HD; d += 4) {
            const rk_few<element, own> x = *(const rk_few<element, own> *)(k + d);
#pragma unroll
            for (int i = 0; i < queries; i++) {
                const rk_few<float, own> y = *(const rk_few<float, own> *)(query + i * HD + d);
#pragma unroll
                for (int j = 0; j < own; j++) p[i][j] = p[i][j] + KV::get(x.one[j]) * y.one[j];
            }
        }
#pragma unroll
        for (int i = 0; i < queries; i++) {
            float x = own == 2 ? p[i][0] + p[i][own - 1] : p[i][0];
            for (int o = 1; o < share; o *= 2) x = x + __shfl_xor_sync(RK_WARP, x, o);
            if (part == 0 && t + row < m) r.s[i][t + row] = x * scale;
        }
    }

    /* o += weights times values of rows [t, t + count) of a chunk. */
    RP_INLINE void gather(const room &r, rk_few<float, pairs> *o, int t, int count)
    {
#pragma unroll
        for (int j = 0; j < sums; j++) {
            const int at = ((int)threadIdx.x + j * N) * pairs, i = at / HD, d = at % HD;
            if (at >= outputs) continue;
#pragma unroll 8
            for (int k = 0; k < count; k++) {
                const rk_few<float, pairs> v = *(const rk_few<float, pairs> *)(r.v + k * HD + d);
                const float w = r.s[i][t + k];
#pragma unroll
                for (int e = 0; e < pairs; e++) o[j].one[e] = o[j].one[e] + w * v.one[e];
            }
        }
    }

    /* Chunk c, whose first pieces are on the way; `next`: the one after it, or none. */
    RP_FN void chunk(room &r, stream &on, result &to, const element *k, const element *v, int kv_head, int n, int c, float scale)
    {
        const int t0 = c * C, m = n - t0 < C ? n - t0 : C, id = threadIdx.x;
        rk_few<float, pairs> o[sums] = {};
        for (int t = 0; t < m; t += tile) {
            put_keys(r, on.k);
            __syncthreads();
            if (t + tile < m) bring(on.k, k, r.block, kv_head, t0, t + tile, m);
            score(r, t, m, scale);
            __syncthreads();
        }
        const int warp = id / 32;
        if (warp < queries) rk_attn_weigh(r.s[warp], m, &to.top[warp], &to.sum[warp]);
        for (int t = 0; t < m; t += tile) {
            put_values(r, on.v);
            __syncthreads();
            if (t + tile < m) bring(on.v, v, r.block, kv_head, t0, t + tile, m);
            gather(r, o, t, m - t < tile ? m - t : tile);
            __syncthreads();
        }
#pragma unroll
        for (int j = 0; j < sums; j++) {
            const int at = ((int)threadIdx.x + j * N) * pairs;
            if (at < outputs) *(rk_few<float, pairs> *)(to.out + at) = o[j];
        }
    }

    /* Joins chunks [first, end), which the blocks of the cluster hold, for this block's outputs. */
    RP_FN void join(const room &r, int rank, int first, int end, float *top, float *sum, float *out)
    {
#pragma unroll
        for (int j = 0; j < joins; j++) {
            const int at = rank * owned + (int)threadIdx.x + j * N, i = at / HD;
            if ((int)threadIdx.x + j * N >= owned || at >= outputs) continue;
#pragma unroll 4
            for (int c = first; c < end; c++) {
                const result *mine = &r.all[(c - first) / BLOCKS], *from = BLOCKS > 1 ? rk_of_block(mine, (c - first) % BLOCKS) : mine;
                const float m = from->top[i], l = from->sum[i], o = from->out[at];
                float a = 0.0f, b = 1.0f;
                if (c == 0)
                    top[j] = m;
                else
                    rk_attn_join(&top[j], m, &a, &b);
                sum[j] = c ? sum[j] * a + l * b : l;
                out[j] = c ? out[j] * a + o * b : o;
            }
        }
    }

    RP_INLINE void sync()
    {
        rk_arrive<BLOCKS>();
        rk_meet<BLOCKS>();
    }

    /* This block's part of an item: a row and part of the heads of a kv head. */
    RP_FN void run(room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables,
                   float *to, long long n_tables, rp_size width, float scale, long long item)
    {
        const int id = threadIdx.x, rank = BLOCKS > 1 ? rk_cluster_rank() : 0;
        const long long row = item / units;
        const int kv_head = (int)(item / parts % KV_HEADS), head = kv_head * group + (int)(item % parts) * queries;
        const int heads = group - head % group < queries ? group - head % group : queries; /* that exist */
        float top[joins], sum[joins], out[joins];
        stream on;
        /* A row mostly is the request of that number: its first chunk's blocks are asked for together with what says so. */
        if (id == 0) r.seq = seqs[row];
        if (id == 1) r.pos = positions[row];
        for (int i = id - 32; i >= 0 && i < entries; i += N - 32) {
            const rp_size at = (rp_size)rank * C / BLOCK + i;
            if (row < n_tables && at < width) r.block[i] = tables[row * width + at];
        }
        __syncthreads();
        const int seq = r.seq, n = r.pos + 1, chunks = (n + C - 1) / C;
        bool known = seq == row && row < n_tables;
        to += (row * HEADS + head) * HD;
        if (seq < 0 || n <= 0) {
            for (int d = rank * N + id; d < heads * HD; d += BLOCKS * N) to[d] = 0.0f;
            __syncthreads();
            return;
        }
        q += (row * HEADS + head) * HD;
        for (int i = id; i < outputs; i += N) r.query[0].one[i] = i < heads * HD ? q[i] : 0.0f;
        for (int first = 0; first < chunks; first += slots * BLOCKS) {
            const int left = chunks - first, end = first + (left < slots * BLOCKS ? left : slots * BLOCKS);
            for (int c = first + rank; c < end; c += BLOCKS) {
                const int t0 = c * C, m = n - t0 < C ? n - t0 : C;
                for (int i = id; i < entries && !known; i += N)
                    if (t0 / BLOCK + i <= (t0 + m - 1) / BLOCK) r.block[i] = tables[seq * width + t0 / BLOCK + i];
                known = false;
                __syncthreads();
                bring(on.k, k, r.block, kv_head, t0, 0, m);
                bring(on.v, v, r.block, kv_head, t0, 0, m);
                chunk(r, on, r.all[(c - first) / BLOCKS], k, v, kv_head, n, c, scale);
            }
            if (chunks == 1) break;
            sync();
            join(r, rank, first, end, top, sum, out);
            sync(); /* nobody's shared memory is needed any more */
        }
        __syncthreads();
        for (int at = id; at < heads * HD && chunks == 1 && rank == 0; at += N) to[at] = r.all[0].out[at] * (1.0f / r.all[0].sum[at / HD]);
#pragma unroll
        for (int j = 0; j < joins; j++) {
            const int at = rank * owned + id + j * N;
            if (id + j * N < owned && at < heads * HD && chunks > 1) to[at] = out[j] * (1.0f / sum[j]);
        }
        __syncthreads();
    }
};
