/* Attention of many rows over keys and values of bf16 on tensor cores; stands behind attention_tile.cu and tensor.cu.
 *
 * A block takes 128 rows for one head, a request at a time; a warp has 16 of them, whose queries it keeps as operands of mma. Positions go in tiles of
 * 64: scores, a running maximum and sum, weights rounded to bf16 times values (as FlashAttention-2 does it: Dao, 2023). Queries are multiplied by
 * scale * log2 e and rounded to bf16. Where the rows are of many requests, they are taken one by one, as in attention.cu. */
#define RK_FLASH_ROWS 128
#define RK_FLASH_KEYS 64
#define RK_FLASH_RUNS 4 /* requests of a tile at most */

template <class KV, int HEADS, int KV_HEADS, int HD, int BLOCK>
struct rk_attn_flash {
    typedef rp_u16 element;
    typedef rk_attn<KV, HEADS, KV_HEADS, HD, BLOCK, 1> single;
    enum {
        N = RK_ATTN_THREADS,
        pieces = HD / 8,   /* of 16 bytes, of a position */
        row = HD * 2 + 16, /* bytes of one in shared memory; odd multiples of 16 keep ldmatrix from conflicts */
        held = (RK_FLASH_KEYS * pieces + N - 1) / N,
        tiles = RK_FLASH_KEYS / 8,
        units = HEADS * 4 /* of a tile of rows: heads, or shares of the rows by themselves */
    };
    struct tile_room {
        int4 k[RK_FLASH_KEYS * row / 16], v[RK_FLASH_KEYS * row / 16];
        rp_i32 seq[RK_FLASH_ROWS], pos[RK_FLASH_ROWS];
    };
    union room {
        tile_room tile;
        typename single::room row;
    };
    /* Of rows g and g + 8 of a warp's 16: positions that count, the result so far, queries. */
    struct state {
        int n[2];
        float top[2], sum[2], o[HD / 8][4];
        rp_u32 q[HD / 16][4];
    };

    /* This thread's pieces of positions [t, t + RK_FLASH_KEYS), zeros where they are not before n. */
    RP_INLINE void bring(int4 *to, const element *cache, const rp_i32 *blocks, int kv_head, int t, int n)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N, p = t + at / pieces;
            const int4 none = {0, 0, 0, 0};
            to[i] = at < RK_FLASH_KEYS * pieces && p < n
                        ? rk_load((const int4 *)(cache + (((rp_size)blocks[p / BLOCK] * KV_HEADS + kv_head) * BLOCK + p % BLOCK) * HD) + at % pieces)
                        : none;
        }
    }

    RP_INLINE void put(int4 *to, const int4 *from)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N;
            if (at < RK_FLASH_KEYS * pieces) to[at / pieces * (row / 16) + at % pieces] = from[i];
        }
    }

    /* Scores of a tile: [8 keys][row g: keys 2 t, + 1; row g + 8]. */
    RP_INLINE void score(const state &w, const int4 *k, float (*s)[4])
    {
        const int lane = rk_lane();
        const rp_u32 at = rk_shared(k) + (lane / 16 * 8 + lane % 8) * row + (lane / 8 & 1) * 16;
#pragma unroll
        for (int j = 0; j < tiles; j += 2) {
#pragma unroll
            for (int e = 0; e < 4; e++) s[j][e] = s[j + 1][e] = 0.0f;
#pragma unroll
            for (int d = 0; d < HD / 16; d++) {
                rp_u32 b[4];
                rk_matrix_4(b, at + j * 8 * row + d * 32);
                rk_mma(s[j], w.q[d], b);
                rk_mma(s[j + 1], w.q[d], b + 2);
            }
        }
    }

    /* Scores of positions from t on become weights, and what was summed before is scaled to the new maximum. */
    RP_INLINE void weigh(state &w, float (*s)[4], int t)
    {
        const int first = t + rk_lane() % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float top = w.top[r], sum = 0.0f;
#pragma unroll
            for (int j = 0; j < tiles; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float *x = &s[j][2 * r + e];
                    if (first + 8 * j + e >= w.n[r]) *x = -RP_INF;
                    top = *x > top ? *x : top;
                }
            for (int o = 1; o < 4; o *= 2) {
                const float other = __shfl_xor_sync(RK_WARP, top, o);
                top = other > top ? other : top;
            }
            const float base = top == -RP_INF ? 0.0f : top, by = rk_exp2(w.top[r] - base);
#pragma unroll
            for (int j = 0; j < tiles; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float *x = &s[j][2 * r + e];
                    *x = rk_exp2(*x - base);
                    sum = sum + *x;
                }
            w.top[r] = top;
            w.sum[r] = w.sum[r] * by + sum;
#pragma unroll
            for (int d = 0; d < HD / 8; d++) {
                w.o[d][2 * r] = w.o[d][2 * r] * by;
                w.o[d][2 * r + 1] = w.o[d][2 * r + 1] * by;
            }
        }
    }

    RP_INLINE void gather(state &w, const int4 *v, const float (*s)[4])
    {
        const int lane = rk_lane();
        const rp_u32 at = rk_shared(v) + lane % 16 * row + lane / 16 * 16;
#pragma unroll
        for (int j = 0; j < tiles; j += 2) {
            const rp_u32 a[4] = {rk_pack(s[j][0], s[j][1]), rk_pack(s[j][2], s[j][3]), rk_pack(s[j + 1][0], s[j + 1][1]),
                                 rk_pack(s[j + 1][2], s[j + 1][3])};
#pragma unroll
            for (int d = 0; d < HD / 16; d++) {
                rp_u32 b[4];
                rk_matrix_4_turned(b, at + j * 8 * row + d * 32);
                rk_mma(w.o[2 * d], a, b);
                rk_mma(w.o[2 * d + 1], a, b + 2);
            }
        }
    }

    RP_INLINE void start(state &w, const tile_room &r, const float *q, long long row0, int first, int end, int head, float scale)
    {
        const int mine = (int)threadIdx.x / 32 * 16 + rk_lane() / 4, d0 = rk_lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = mine + 8 * i;
            const bool has = at >= first && at < end;
            const float *from = q + ((row0 + at) * HEADS + head) * HD + d0;
            w.n[i] = has ? r.pos[at] + 1 : 0;
            w.top[i] = -RP_INF;
            w.sum[i] = 0.0f;
#pragma unroll
            for (int d = 0; d < HD / 16; d++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    w.q[d][i + 2 * h] = has ? rk_pack(from[d * 16 + h * 8] * scale, from[d * 16 + h * 8 + 1] * scale) : 0u;
        }
#pragma unroll
        for (int d = 0; d < HD / 8; d++) w.o[d][0] = w.o[d][1] = w.o[d][2] = w.o[d][3] = 0.0f;
    }

    RP_INLINE void finish(const state &w, float *to, long long row0, int head)
    {
        const int mine = (int)threadIdx.x / 32 * 16 + rk_lane() / 4, d0 = rk_lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = w.sum[i];
            sum = sum + __shfl_xor_sync(RK_WARP, sum, 1);
            sum = sum + __shfl_xor_sync(RK_WARP, sum, 2);
            if (w.n[i] <= 0) continue;
            float *at = to + ((row0 + mine + 8 * i) * HEADS + head) * HD + d0;
#pragma unroll
            for (int d = 0; d < HD / 8; d++) {
                at[d * 8] = w.o[d][2 * i] / sum;
                at[d * 8 + 1] = w.o[d][2 * i + 1] / sum;
            }
        }
    }

    /* Rows [first, end) of the tile that begins at row0, which are of one request, for one head. */
    RP_INLINE void request(tile_room &r, const float *q, const element *k, const element *v, const rp_i32 *blocks, float *to, long long row0, int first,
                           int end, int head, float scale)
    {
        const int kv_head = head / (HEADS / KV_HEADS);
        int n = 0, most; /* positions that count for any row, for any of the warp */
        state w;
        int4 key[held], value[held];
        for (int i = first; i < end; i++) n = r.pos[i] + 1 > n ? r.pos[i] + 1 : n;
        bring(key, k, blocks, kv_head, 0, n);
        bring(value, v, blocks, kv_head, 0, n);
        start(w, r, q, row0, first, end, head, scale);
        most = w.n[0] > w.n[1] ? w.n[0] : w.n[1];
        for (int o = 4; o < 32; o *= 2) {
            const int other = __shfl_xor_sync(RK_WARP, most, o);
            most = other > most ? other : most;
        }
        for (int t = 0; t < n; t += RK_FLASH_KEYS) {
            float s[tiles][4];
            __syncthreads(); /* nobody reads what was there */
            put(r.k, key);
            put(r.v, value);
            __syncthreads();
            bring(key, k, blocks, kv_head, t + RK_FLASH_KEYS, n);
            bring(value, v, blocks, kv_head, t + RK_FLASH_KEYS, n);
            if (t >= most) continue;
            score(w, r.k, s);
            weigh(w, s, t);
            gather(w, r.v, s);
        }
        finish(w, to, row0, head);
    }

    RP_FN void run(room &all, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables,
                   float *to, long long n_rows, long long n_tables, rp_size table_width, float scale, long long at)
    {
        tile_room &r = all.tile;
        const long long n_tiles = (n_rows + RK_FLASH_ROWS - 1) / RK_FLASH_ROWS, row0 = (n_tiles - 1 - at / units) * RK_FLASH_ROWS;
        const int unit = (int)(at % units), id = threadIdx.x, count = n_rows - row0 < RK_FLASH_ROWS ? (int)(n_rows - row0) : RK_FLASH_ROWS;
        int runs = 0, last = -1;
        __syncthreads(); /* the unit before is done with shared memory */
        if (id < RK_FLASH_ROWS) {
            const bool padding = id >= count || seqs[row0 + id] < 0 || positions[row0 + id] < 0;
            r.seq[id] = padding ? -1 : seqs[row0 + id];
            r.pos[id] = padding ? -1 : positions[row0 + id];
        }
        __syncthreads();
        for (int i = 0; i < count; i++) {
            runs += r.seq[i] >= 0 && r.seq[i] != last;
            last = r.seq[i] >= 0 ? r.seq[i] : last;
        }
        if (runs > RK_FLASH_RUNS) {
            for (int i = unit; i < count * single::units; i += units) {
                __syncthreads(); /* a row by itself uses the same memory */
                single::run(all.row, q, k, v, seqs, positions, tables, to, n_tables, table_width, scale, row0 * single::units + i);
            }
            return;
        }
        if (unit >= HEADS) return;
        for (int i = id; i < count * HD; i += N)
            if (r.seq[i / HD] < 0) to[((row0 + i / HD) * HEADS + unit) * HD + i % HD] = 0.0f;
        for (int i = 0, end; i < count; i = end) {
            for (end = i + 1; end < count && r.seq[end] == r.seq[i]; end++) continue;
            if (r.seq[i] >= 0)
                request(r, q, k, v, tables + r.seq[i] * table_width, to, row0, i, end, unit, scale * 1.44269504f);
        }
    }
};
