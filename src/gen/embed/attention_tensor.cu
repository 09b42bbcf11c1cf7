/* Attention of many rows over keys and values of bf16 on tensor cores; stands behind attention_split.cu.
 *
 * A block takes 128 rows for one head, a request at a time; a warp has 16 or 32 of them, whose queries it keeps as operands of mma. Positions go in tiles of
 * 64, of which the next is on its way to shared memory: scores, a running maximum and sum, weights rounded to bf16 times values (as FlashAttention-2 does it:
 * Dao, 2023). Queries are multiplied by scale * log2 e and rounded to bf16. Where the rows are of many requests, they are taken one by one, as in
 * attention_split.cu. */
#define RK_FLASH_ROWS 128
#define RK_FLASH_KEYS 64
#define RK_FLASH_RUNS 4 /* requests of a tile at most */

#ifndef RK_EMULATED
/* 16 bytes to shared memory, or as many zeros; there for the thread after rk_copied. */
RP_INLINE void rk_copy(rp_u32 to, const void *from, bool has)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(has ? 16 : 0) : "memory");
}
/* A thread's copies so far arrive at the barrier when they are there; wgmma reads them behind rk_copies_visible. */
RP_INLINE void rk_copies_arrive(rp_u32 bar) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory"); }
RP_INLINE void rk_copies_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/* What wgmma has left in a register: nothing that reads it is moved in front of the wait. */
RP_INLINE void rk_is_there(float &x) { asm volatile("" : "+f"(x)::"memory"); }
RP_INLINE void rk_is_there(rp_u32 &x) { asm volatile("" : "+r"(x)::"memory"); }
/* The 128 threads behind them. */
RP_INLINE void rk_sync_copiers() { asm volatile("bar.sync 2, 128;" ::: "memory"); }
RP_INLINE void rk_copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif

/* What a tile of rows is made of, for blocks of N threads. SPREAD: blocks for each head of a tile, of which those after the first have work where rows are taken
 * one by one. */
template <int HEADS, int KV_HEADS, int HD, int BLOCK, int SPREAD, int N>
struct rk_attn_runs {
    typedef rp_u16 element;
    enum { units = HEADS * SPREAD /* of a tile of rows */ };
    typedef rk_attn_split<HEADS, KV_HEADS, HD, BLOCK, 1, N / 32> single;
    /* Requests and positions of a tile's rows, -1: there is none. */
    struct tile {
        rp_i32 seq[RK_FLASH_ROWS], pos[RK_FLASH_ROWS];
    };
    struct room : tile {
        typename single::room row;
    };
    /* Where the keys and values of a request are, n positions for one kv head. */
    struct cache {
        const element *k, *v;
        const rp_i32 *table;
        int kv_head, n;
    };

    /* Runs of rows of one request. Every warp counts by itself. */
    RP_INLINE int count_runs(const tile &r)
    {
        int runs = 0;
#pragma unroll
        for (int k = 0; k < RK_FLASH_ROWS / 32; k++) {
            const int i = rk_lane() + 32 * k, seq = r.seq[i];
            runs += seq >= 0 && (i == 0 || r.seq[i - 1] != seq);
        }
        for (int o = 1; o < 32; o *= 2) runs += __shfl_xor_sync(RK_WARP, runs, o);
        return runs;
    }

    /* *end: of the run that begins at row `first`. Gives the positions that count for any row of it. */
    RP_INLINE int find_run(const tile &r, int first, int count, int *end)
    {
        int stop = count, n = 0;
#pragma unroll
        for (int k = 0; k < RK_FLASH_ROWS / 32; k++) {
            const int i = rk_lane() + 32 * k;
            if (i > first && i < stop && r.seq[i] != r.seq[first]) stop = i;
        }
        for (int o = 1; o < 32; o *= 2) {
            const int other = __shfl_xor_sync(RK_WARP, stop, o);
            stop = other < stop ? other : stop;
        }
#pragma unroll
        for (int k = 0; k < RK_FLASH_ROWS / 32; k++) {
            const int i = rk_lane() + 32 * k;
            if (i >= first && i < stop && r.pos[i] + 1 > n) n = r.pos[i] + 1;
        }
        for (int o = 1; o < 32; o *= 2) {
            const int other = __shfl_xor_sync(RK_WARP, n, o);
            n = other > n ? other : n;
        }
        *end = stop;
        return n;
    }

    /* Rows of many requests, one by one; called, so that registers are dealt for the other rows. */
    RP_CALL void rows(room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables,
                        float *to, long long n_tables, rp_size table_width, float scale, long long row0, int count, int unit)
    {
        rp_u32 phase = 0;
        for (int i = unit; i < count * single::units; i += units) {
            __syncthreads(); /* the row before is done with shared memory */
            typename single::state w;
            single::run(r.row, w, q, k, v, seqs, positions, tables, to, n_tables, table_width, scale, row0 * single::units + i, single::no_guess(), phase);
        }
    }

    /* An item: a head of a tile of rows, the last tile first, since it has most to do; then the other units. WAY says whether tiles of many requests are done, and of few:
     * by request(), a run of rows. */
    template <class WAY>
    RP_FN void run_by(typename WAY::room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                   long long n_rows, long long n_tables, rp_size table_width, float scale, long long item)
    {
        const long long n_tiles = (n_rows + RK_FLASH_ROWS - 1) / RK_FLASH_ROWS, other = item - n_tiles * HEADS, others = units - HEADS;
        const int unit = (int)(other < 0 ? item % HEADS : HEADS + other % (others ? others : 1)), id = threadIdx.x;
        const long long row0 = (n_tiles - 1 - (other < 0 ? item / HEADS : other / (others ? others : 1))) * RK_FLASH_ROWS;
        const int count = n_rows - row0 < RK_FLASH_ROWS ? (int)(n_rows - row0) : RK_FLASH_ROWS;
        /* The rows of one request are together, so that a glance tells most tiles of one. */
        const bool several = seqs[row0] != seqs[row0 + count - 1];
        if ((other >= 0 || !WAY::FEW) && !several) return;
        __syncthreads(); /* the item before is done with shared memory */
        if (id < RK_FLASH_ROWS) { /* as many threads at least */
            const bool padding = id >= count || seqs[row0 + id] < 0 || positions[row0 + id] < 0;
            r.seq[id] = padding ? -1 : seqs[row0 + id];
            r.pos[id] = padding ? -1 : positions[row0 + id];
        }
        __syncthreads();
        if (several && count_runs(r) > RK_FLASH_RUNS) {
            if (WAY::MANY) rows(r, q, k, v, seqs, positions, tables, to, n_tables, table_width, scale, row0, count, unit);
            return;
        }
        if (other >= 0 || !WAY::FEW) return;
        for (int i = id; i < count * HD; i += N)
            if (r.seq[i / HD] < 0) to[((row0 + i / HD) * HEADS + unit) * HD + i % HD] = 0.0f;
        for (int i = 0, end; i < count; i = end) {
            const int seq = r.seq[i], n = find_run(r, i, count, &end);
            const cache from = {k, v, tables + (seq < 0 ? 0 : seq) * table_width, unit / (HEADS / KV_HEADS), n};
            if (seq >= 0) WAY::request(r, q, from, to, row0, i, end, unit, scale * RK_LOG2_E);
        }
    }
};

template <int HEADS, int KV_HEADS, int HD, int BLOCK, int SPREAD, int TALL = (HD > 64 || SPREAD > 1) ? 1 : 2>
struct rk_attn_flash : rk_attn_runs<HEADS, KV_HEADS, HD, BLOCK, SPREAD, RK_FLASH_ROWS / TALL * 2> {
    typedef rk_attn_runs<HEADS, KV_HEADS, HD, BLOCK, SPREAD, RK_FLASH_ROWS / TALL * 2> runs;
    typedef typename runs::element element;
    typedef typename runs::room room;
    typedef typename runs::cache cache;
    enum {
        MANY = 1, FEW = 1, /* requests of a tile */
        tall = TALL,       /* 16 rows of a warp, which share what it reads of keys and values */
        N = RK_FLASH_ROWS / tall * 2,
        pieces = HD / 8,   /* of 16 bytes, of a position */
        row = HD * 2 + 16, /* bytes of one in shared memory; odd multiples of 16 keep ldmatrix from conflicts */
        half = RK_FLASH_KEYS * row, /* a tile's keys, then its values */
        bytes = 2 * 2 * half,       /* of two tiles in dynamic shared memory */
        held = (RK_FLASH_KEYS * pieces + N - 1) / N,
        tiles = RK_FLASH_KEYS / 8
    };
    /* Of rows g and g + 8 of 16: positions that count, the result so far, queries. */
    struct state {
        int n[2];
        float top[2], sum[2], o[HD / 8][4];
        rp_u32 q[HD / 16][4];
    };
    /* The blocks of the cache of this thread's pieces of positions [t, t + RK_FLASH_KEYS). */
    RP_INLINE void look_up(int *to, const cache &from, int t)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int p = t + ((int)threadIdx.x + i * N) / pieces;
            to[i] = p < from.n ? from.table[p / BLOCK] : 0;
        }
    }

    /* Sends for these pieces, zeros where they are not before n. */
    RP_INLINE void bring(rp_u32 to, const cache &from, const int *block, int t)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N, p = t + at / pieces;
            const rp_size x = (((rp_size)block[i] * KV_HEADS + from.kv_head) * BLOCK + p % BLOCK) * HD + at % pieces * 8;
            if (RK_FLASH_KEYS * pieces % N && at >= RK_FLASH_KEYS * pieces) continue;
            rk_copy(to + at / pieces * row + at % pieces * 16, from.k + x, p < from.n);
            rk_copy(to + half + at / pieces * row + at % pieces * 16, from.v + x, p < from.n);
        }
    }

    /* Scores of a tile: [8 keys][row g: keys 2 t, + 1; row g + 8]. */
    RP_INLINE void score(const state *w, rp_u32 k, float (*s)[tiles][4])
    {
        const int lane = rk_lane();
        const rp_u32 at = k + (lane / 16 * 8 + lane % 8) * row + (lane / 8 & 1) * 16;
#pragma unroll
        for (int j = 0; j < tiles; j += 2) {
#pragma unroll
            for (int i = 0; i < tall; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) s[i][j][e] = s[i][j + 1][e] = 0.0f;
#pragma unroll
            for (int d = 0; d < HD / 16; d++) {
                rp_u32 b[4];
                rk_matrix_4(b, at + j * 8 * row + d * 32);
#pragma unroll
                for (int i = 0; i < tall; i++) {
                    rk_mma(s[i][j], w[i].q[d], b);
                    rk_mma(s[i][j + 1], w[i].q[d], b + 2);
                }
            }
        }
    }

    /* Positions from t on that do not count. */
    RP_INLINE void mask(const state &w, float (*s)[4], int t)
    {
        const int first = t + rk_lane() % 4 * 2;
#pragma unroll
        for (int j = 0; j < tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (first + 8 * j + e % 2 >= w.n[e / 2]) s[j][e] = -RP_INF;
    }

    /* Scores become weights, and what was summed before is scaled to the new maximum. */
    RP_INLINE void weigh(state &w, float (*s)[4])
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float top = w.top[r], sum = 0.0f;
#pragma unroll
            for (int j = 0; j < tiles; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float x = s[j][2 * r + e];
                    top = x > top ? x : top;
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

    RP_INLINE void gather(state *w, rp_u32 v, const float (*s)[tiles][4])
    {
        const int lane = rk_lane();
        const rp_u32 at = v + lane % 16 * row + lane / 16 * 16;
#pragma unroll
        for (int j = 0; j < tiles; j += 2) {
            rp_u32 a[tall][4];
#pragma unroll
            for (int i = 0; i < tall; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) a[i][e] = rk_pack(s[i][j + e / 2][e % 2 * 2], s[i][j + e / 2][e % 2 * 2 + 1]);
#pragma unroll
            for (int d = 0; d < HD / 16; d++) {
                rp_u32 b[4];
                rk_matrix_4_turned(b, at + j * 8 * row + d * 32);
#pragma unroll
                for (int i = 0; i < tall; i++) {
                    rk_mma(w[i].o[2 * d], a[i], b);
                    rk_mma(w[i].o[2 * d + 1], a[i], b + 2);
                }
            }
        }
    }

    /* Rows from `of` on. */
    RP_INLINE void start(state &w, const room &r, const float *q, long long row0, int of, int first, int end, int head, float scale)
    {
        const int mine = of + rk_lane() / 4, d0 = rk_lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = mine + 8 * i;
            const bool has = at >= first && at < end;
            const rk_few<float, 2> *from = (const rk_few<float, 2> *)(q + ((row0 + at) * HEADS + head) * HD + d0);
            w.n[i] = has ? r.pos[at] + 1 : 0;
            w.top[i] = -RP_INF;
            w.sum[i] = 0.0f;
#pragma unroll
            for (int d = 0; d < HD / 16; d++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    rk_few<float, 2> x = {{0.0f, 0.0f}};
                    if (has) x = from[d * 8 + h * 4];
                    w.q[d][i + 2 * h] = rk_pack(x.one[0] * scale, x.one[1] * scale);
                }
        }
#pragma unroll
        for (int d = 0; d < HD / 8; d++) w.o[d][0] = w.o[d][1] = w.o[d][2] = w.o[d][3] = 0.0f;
    }

    RP_INLINE void finish(const state &w, float *to, long long row0, int of, int head)
    {
        const int mine = of + rk_lane() / 4, d0 = rk_lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = w.sum[i];
            sum = sum + __shfl_xor_sync(RK_WARP, sum, 1);
            sum = sum + __shfl_xor_sync(RK_WARP, sum, 2);
            if (w.n[i] <= 0) continue;
            const float by = 1.0f / sum;
            rk_few<float, 2> *at = (rk_few<float, 2> *)(to + ((row0 + mine + 8 * i) * HEADS + head) * HD + d0);
#pragma unroll
            for (int d = 0; d < HD / 8; d++) {
                const rk_few<float, 2> x = {{w.o[d][2 * i] * by, w.o[d][2 * i + 1] * by}};
                at[d * 4] = x;
            }
        }
    }

    /* Rows [first, end) of the tile that begins at row0, which are of one request, for one head. */
    RP_INLINE void request(const room &r, const float *q, const cache &from, float *to, long long row0, int first, int end, int head, float scale)
    {
        const rp_u32 at = rk_shared(rk_dynamic);
        const int mine = (int)threadIdx.x / 32 * (16 * tall);
        int block[held], least = from.n, most = 0; /* positions that count for all rows of the warp, for any */
        state w[tall];
        look_up(block, from, 0);
        __syncthreads(); /* nobody reads what was there */
        bring(at, from, block, 0);
        look_up(block, from, RK_FLASH_KEYS);
#pragma unroll
        for (int i = 0; i < tall; i++) {
            start(w[i], r, q, row0, mine + 16 * i, first, end, head, scale);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                least = w[i].n[j] < least ? w[i].n[j] : least;
                most = w[i].n[j] > most ? w[i].n[j] : most;
            }
        }
        for (int o = 4; o < 32; o *= 2) {
            const int low = __shfl_xor_sync(RK_WARP, least, o), high = __shfl_xor_sync(RK_WARP, most, o);
            least = low < least ? low : least;
            most = high > most ? high : most;
        }
        for (int t = 0; t < from.n; t += RK_FLASH_KEYS) {
            const rp_u32 now = at + t / RK_FLASH_KEYS % 2 * (2 * half), next = at + (t / RK_FLASH_KEYS + 1) % 2 * (2 * half);
            float s[tall][tiles][4];
            rk_copied();
            __syncthreads(); /* the tile is there, and nobody reads the one before */
            if (t + RK_FLASH_KEYS < from.n) bring(next, from, block, t + RK_FLASH_KEYS);
            look_up(block, from, t + 2 * RK_FLASH_KEYS);
            if (t >= most) continue;
            score(w, now, s);
#pragma unroll
            for (int i = 0; i < tall; i++) {
                if (t + RK_FLASH_KEYS > least) mask(w[i], s[i], t);
                weigh(w[i], s[i]);
            }
            gather(w, now + half, s);
        }
#pragma unroll
        for (int i = 0; i < tall; i++) finish(w[i], to, row0, mine + 16 * i, head);
    }

    RP_FN void run(room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                   long long n_rows, long long n_tables, rp_size table_width, float scale, long long item)
    {
        runs::template run_by<rk_attn_flash>(r, q, k, v, seqs, positions, tables, to, n_rows, n_tables, table_width, scale, item);
    }
};
