/* Causal grouped-query attention over a paged KV cache, as CUDA C: the cache's layout, the order of additions and so every bit
 * as in attention.c.inc. A block takes one row of one head. */
#define RK_ATTN_KEPT 2048 /* scores in shared memory; those of a longer context are made twice, a part at a time */

struct rk_kv_f32 {
    typedef float type;
    RP_INLINE float get(float x) { return x; }
};
struct rk_kv_f16 {
    typedef rp_u16 type;
    RP_INLINE float get(rp_u16 x) { return rp_f16_to_f32(x); }
};
struct rk_kv_bf16 {
    typedef rp_u16 type;
    RP_INLINE float get(rp_u16 x) { return rp_bf16_to_f32(x); }
};

/* What is loaded at once: 16 bytes where rows are whole ones of that. */
template <class E, int WHOLE>
struct rk_piece {
    typedef int4 type;
    enum { n = 16 / sizeof(E) };
};
template <class E>
struct rk_piece<E, 0> {
    typedef E type;
    enum { n = 1 };
};

/* HD: of a head; BLOCK: positions of a cache block; N: threads, at least HD + 16. */
template <class KV, int HEADS, int KV_HEADS, int HD, int BLOCK, int N>
struct rk_attn {
    typedef typename KV::type element;
    typedef rk_piece<element, HD * sizeof(element) % 16 == 0> how;
    typedef typename how::type piece;
    enum {
        pieces = HD / how::n,                                    /* of a row */
        tile = 16384 / (HD * (int)sizeof(element)),              /* rows of V in shared memory at once */
        held = (tile * pieces + N - 1) / N                       /* pieces of them that a thread brings */
    };

    RP_INLINE const piece *row_of(const element *cache, const rp_i32 *blocks, int kv_head, int t)
    {
        return (const piece *)(cache + (((rp_size)blocks[t / BLOCK] * KV_HEADS + kv_head) * BLOCK + t % BLOCK) * HD);
    }

    RP_INLINE float score(const float *q, const piece *k, float scale)
    {
        float p[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < pieces; i++) {
            union { piece all; element one[how::n]; } x;
            x.all = k[i];
#pragma unroll
            for (int j = 0; j < how::n; j++)
                p[(i * how::n + j) % 4] = p[(i * how::n + j) % 4] + KV::get(x.one[j]) * q[i * how::n + j];
        }
        return ((p[0] + p[1]) + (p[2] + p[3])) * scale;
    }

    /* Largest value of all threads; a NaN counts as none. */
    RP_FN float top_of(float mine, float *room)
    {
        for (int o = 16; o; o /= 2) {
            const float other = __shfl_xor_sync(RK_WARP, mine, o);
            mine = other > mine ? other : mine;
        }
        if (rk_lane() == 0) room[threadIdx.x / 32] = mine;
        __syncthreads();
        for (int i = 0; i < N / 32; i++) mine = room[i] > mine ? room[i] : mine;
        return mine;
    }

    /* This thread's pieces of rows [t, end) of V, at most a tile. */
    RP_INLINE void bring(piece *to, const element *v, const rp_i32 *blocks, int kv_head, int t, int end)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N, row = t + at / pieces;
            if (at < tile * pieces && row < end) to[i] = row_of(v, blocks, kv_head, row)[at % pieces];
        }
    }

    /* o + s[0] * V[t0][id] + ... for m positions in turn, V by way of shared memory. `mine` has the first tile. */
    RP_FN float weigh(float o, const float *s, const element *v, const rp_i32 *blocks, int kv_head, int t0, int m, piece *mine)
    {
        __shared__ piece rows[tile * pieces];
        const int id = threadIdx.x;
        for (int t = 0; t < m; t += tile) {
            const int count = m - t < tile ? m - t : tile;
#pragma unroll
            for (int i = 0; i < held; i++)
                if (id + i * N < count * pieces) rows[id + i * N] = mine[i];
            __syncthreads();
            if (t + tile < m) bring(mine, v, blocks, kv_head, t0 + t + tile, t0 + m);
            if (id < HD) {
                const element *at = (const element *)rows + id;
#pragma unroll 8
                for (int j = 0; j < count; j++) o = o + s[t + j] * KV::get(at[j * HD]);
            }
            __syncthreads();
        }
        return o;
    }

    RP_FN void run(const float *q, const element *k, const element *v, const rp_i32 *seqs,
                          const rp_i32 *positions, const rp_i32 *tables, float *out, rp_size width, float scale,
                          long long item)
    {
        __shared__ float s[RK_ATTN_KEPT], query[HD], lane[16], room[32];
        const long long row = item / HEADS;
        const int head = (int)(item % HEADS), kv_head = head / (HEADS / KV_HEADS), id = threadIdx.x;
        const int seq = seqs[row], pos = positions[row], n = pos + 1;
        float *to = out + item * HD, top = -RP_INF;
        piece mine[held];
        __syncthreads(); /* the item before is done with shared memory */
        if (seq < 0 || pos < 0) {
            for (int d = id; d < HD; d += N) to[d] = 0.0f;
            return;
        }
        const rp_i32 *blocks = tables + seq * width;
        for (int d = id; d < HD; d += N) query[d] = q[item * HD + d];
        bring(mine, v, blocks, kv_head, 0, n < RK_ATTN_KEPT ? n : RK_ATTN_KEPT);
        __syncthreads();
        for (int t = id; t < n; t += N) {
            const float x = score(query, row_of(k, blocks, kv_head, t), scale);
            if (t < RK_ATTN_KEPT) s[t] = x;
            top = x > top ? x : top;
        }
        top = top_of(top, room);
        float sum = 0.0f, o = 0.0f;
        for (int t0 = 0; t0 < n; t0 += RK_ATTN_KEPT) {
            const int m = n - t0 < RK_ATTN_KEPT ? n - t0 : RK_ATTN_KEPT;
            if (t0) bring(mine, v, blocks, kv_head, t0, t0 + m);
            for (int t = id; t < m; t += N) {
                const float x = t0 ? score(query, row_of(k, blocks, kv_head, t0 + t), scale) : s[t];
                s[t] = rp_expf(x - top);
            }
            __syncthreads();
            if (id >= N - 16)
                for (int t = id - (N - 16); t < m; t += 16) sum = sum + s[t];
            o = weigh(o, s, v, blocks, kv_head, t0, m, mine);
        }
        if (id >= N - 16) lane[id - (N - 16)] = sum;
        __syncthreads();
        const float by = 1.0f / rk_tree<RK_SUM>(lane);
        if (id < HD) to[id] = o * by;
    }
};
