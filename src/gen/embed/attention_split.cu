/* Attention of few rows over keys and values of bf16 on tensor cores; stands behind attention.cu and tensor.cu.
 *
 * Split-KV (as Flash-Decoding does it: Dao et al., 2023): the positions of a row are chunks of 64, which the warps of a cluster of blocks take in turn, each for
 * all heads of a kv head (at most 8), so that a key and a value are read once. They go from memory to the registers of mma without shared memory: which position
 * is which row of an operand, and which dim which column, is free, and chosen so that a lane's share is 16 bytes in a row. Chunks whose loads are under way keep
 * the memory busy while others are multiplied.
 *
 * Queries times scale * log2 e, and weights, are sums of two bf16, which fill the two halves of an operand that fewer than 9 heads leave empty. Weights are
 * powers of two of scores less a whole number, so to join chunks is to scale by powers of two, which is exact, and to add, in ascending order: the bits of a result
 * depend on the context alone, whatever the number of blocks and warps. */
#define RK_LOG2_E 1.44269504f
#define RK_SPLIT_CHUNK 64
#define RK_SPLIT_ROOM (32 << 10) /* bytes of a block for results of chunks, about */
#define RK_SPLIT_LEAST -1e30f    /* base of a chunk in which no score is finite */

/* 2^d of a whole number d <= 0. */
RP_INLINE float rk_power_of_two(float d) { return d > -127.0f ? __int_as_float(((int)d + 127) << 23) : 0.0f; }

/* a and b as bf16, and what that leaves of them. */
RP_INLINE void rk_pack_twice(float a, float b, rp_u32 *high, rp_u32 *low)
{
    *high = rk_pack(a, b);
    *low = rk_pack(a - __uint_as_float(*high << 16), b - __uint_as_float(*high & 0xffff0000u));
}

/* What products of the two gave; infinities are those of the first. */
RP_INLINE float rk_whole(float high, float low)
{
    const float x = high + low;
    return x == x ? x : high;
}

/* HD: of a head, a multiple of 16, at most 128; BLOCK: positions of a cache block, a multiple of 16; BLOCKS: of a cluster; WARPS: of a block. */
template <int HEADS, int KV_HEADS, int HD, int BLOCK, int BLOCKS, int WARPS>
struct rk_attn_split {
    typedef rp_u16 element;
    enum {
        N = WARPS * 32,
        C = RK_SPLIT_CHUNK,
        cells = C / 16, /* of 16 positions of a cache block, in a chunk */
        group = HEADS / KV_HEADS,
        parts = (group + 7) / 8,
        units = KV_HEADS * parts,              /* of a row */
        queries = (group + parts - 1) / parts, /* that a cluster takes, or fewer */
        pieces = HD / 8,                       /* of 16 bytes, of a position */
        k_pieces = (pieces + 3) / 4,           /* of a lane and position: t + 4 s */
        v_pieces = (pieces + 7) / 8,           /* g + 8 s */
        held = 2 * k_pieces > 4 * v_pieces ? 2 * k_pieces : 4 * v_pieces, /* of a cell */
        steps = 2 * cells,                     /* the keys of each cell, then the values */
        ahead = 2,                             /* steps under way */
        fours = v_pieces * 16 * queries,       /* of the result: [v_pieces][4][queries][4 t] are dims 64 s + 16 t + 4 k .. */
        owned = fours / BLOCKS,                /* that a block joins */
        fit = RK_SPLIT_ROOM / (fours * 16 + queries * 8) / WARPS,
        slots = (fit < 1 ? 1 : fit > 16 ? 16 : fit) * WARPS, /* chunks of a block in a round */
        joins = (2 * owned + N - 1) / N        /* pairs of outputs of a thread */
    };
    typedef rk_few<float, 4> four;

    struct room {
        four out[slots * BLOCKS][owned];
        float base[slots * BLOCKS][queries], sum[slots * BLOCKS][queries];
    };

    /* Where a row's keys and values are. A cell's number counts those of all kv heads. */
    struct cache {
        const element *k, *v;
        const rp_i32 *table;
        int kv_head, n;

        /* Of cell lane % 4 of chunk c + lane / 4 * step; positions from `end` on have none. */
        RP_INLINE_MEMBER int look_up(int c, int step, rp_size end) const
        {
            const rp_size p = (rp_size)(c + rk_lane() / cells * step) * C + rk_lane() % cells * 16;
            return p < end ? (table[p / BLOCK] * KV_HEADS + kv_head) * (BLOCK / 16) + (int)(p % BLOCK / 16) : 0;
        }
    };

    /* What a lane has under way, and what it has made of its chunk. Of scores and weights it has those of head g, positions 4 t .. of each cell. */
    struct state {
        int4 x[ahead][held];
        rp_u32 q[2 * k_pieces][4];
        float s[cells][4], o[8 * v_pieces][4], base, sum;
    };

    /* A lane's share of a step: of the keys of positions 4 (g / 2) + g % 2 + {0, 2}, or of the values of positions 4 t .. */
    RP_INLINE void fetch(int4 *to, const cache &from, int step, int c, int cell)
    {
        const int lane = rk_lane(), g = lane / 4, t = lane % 4, i = step % cells, p = c * C + i * 16;
        const bool values = step >= cells;
        const element *at = (values ? from.v : from.k) + (rp_size)cell * (16 * HD);
#pragma unroll
        for (int j = 0; j < (values ? 4 : 2); j++)
#pragma unroll
            for (int s = 0; s < (values ? v_pieces : k_pieces); s++) {
                const int position = values ? 4 * t + j : g / 2 * 4 + g % 2 + 2 * j, piece = values ? g + 8 * s : t + 4 * s;
                const int4 none = {0, 0, 0, 0};
                to[values ? s * 4 + j : s * 2 + j] = p + position < from.n && piece < pieces ? rk_load(at + position * HD + piece * 8) : none;
            }
    }

    RP_INLINE void start(state &w, const float *q, int heads, float scale)
    {
        const int g = rk_lane() / 4, t = rk_lane() % 4;
#pragma unroll
        for (int s = 0; s < k_pieces; s++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int d = (t + 4 * s) * 8 + h * 4;
                rp_u32 *to = w.q[2 * s + h];
                int4 x = {0, 0, 0, 0};
                if (g < heads && d < HD) x = rk_load(q + g * HD + d);
                rk_pack_twice(__int_as_float(x.x) * scale, __int_as_float(x.y) * scale, &to[0], &to[1]);
                rk_pack_twice(__int_as_float(x.z) * scale, __int_as_float(x.w) * scale, &to[2], &to[3]);
            }
    }

    /* Scores of a cell. */
    RP_INLINE void score(state &w, const int4 *x, int i)
    {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int s = 0; s < k_pieces; s++) {
                const int4 k = x[s * 2 + j];
                const rp_u32 b[4] = {(rp_u32)k.x, (rp_u32)k.y, (rp_u32)k.z, (rp_u32)k.w};
                rk_mma(c, w.q[2 * s], b);
                rk_mma(c, w.q[2 * s + 1], b + 2);
            }
            w.s[i][2 * j] = rk_whole(c[0], c[2]);
            w.s[i][2 * j + 1] = rk_whole(c[1], c[3]);
        }
    }

    /* Scores of a chunk, of which `left` positions exist, become weights. */
    RP_INLINE void weigh(state &w, int left)
    {
        const int t = rk_lane() % 4;
        float top = -RP_INF, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < cells; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (16 * i + 4 * t + e >= left) w.s[i][e] = -RP_INF;
                top = w.s[i][e] > top ? w.s[i][e] : top;
            }
        for (int o = 1; o < 4; o *= 2) {
            const float other = __shfl_xor_sync(RK_WARP, top, o);
            top = other > top ? other : top;
        }
        w.base = top == -RP_INF ? RK_SPLIT_LEAST : (top + 12582912.0f) - 12582912.0f; /* to a whole number */
#pragma unroll
        for (int i = 0; i < cells; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                w.s[i][e] = rk_exp2(w.s[i][e] - w.base);
                sum = sum + w.s[i][e];
            }
        sum = sum + __shfl_xor_sync(RK_WARP, sum, 1);
        w.sum = sum + __shfl_xor_sync(RK_WARP, sum, 2);
    }

    RP_INLINE rp_u32 word(const int4 &x, int i) { return (rp_u32)(i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w); }

    /* Weights times values of a cell. */
    RP_INLINE void gather(state &w, const int4 *x, int i)
    {
        rp_u32 a[4];
        rk_pack_twice(w.s[i][0], w.s[i][1], &a[0], &a[1]);
        rk_pack_twice(w.s[i][2], w.s[i][3], &a[2], &a[3]);
#pragma unroll
        for (int s = 0; s < v_pieces; s++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const rp_u32 half = j % 2 ? 0x7632 : 0x5410;
                const rp_u32 b[2] = {__byte_perm(word(x[s * 4], j / 2), word(x[s * 4 + 1], j / 2), half),
                                     __byte_perm(word(x[s * 4 + 2], j / 2), word(x[s * 4 + 3], j / 2), half)};
                rk_mma(w.o[s * 8 + j], a, b);
            }
    }

    /* To the blocks that own the outputs, and makes room for the next chunk. */
    RP_INLINE void hand_over(state &w, room &r, int at)
    {
        const int g = rk_lane() / 4, t = rk_lane() % 4;
#pragma unroll
        for (int s = 0; s < v_pieces; s++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                four x;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float *o = w.o[s * 8 + k % 2 * 4 + e];
                    x.one[e] = rk_whole(o[k / 2], o[k / 2 + 2]);
                }
                const int f = ((s * 4 + k) * queries + g) * 4 + t;
                if (g < queries) *rk_of_block(&r.out[at][f % owned], f / owned) = x;
            }
#pragma unroll
        for (int i = 0; i < 8 * v_pieces; i++) w.o[i][0] = w.o[i][1] = w.o[i][2] = w.o[i][3] = 0.0f;
        for (int b = t; b < BLOCKS && g < queries; b += 4) {
            *rk_of_block(&r.base[at][g], b) = w.base;
            *rk_of_block(&r.sum[at][g], b) = w.sum;
        }
    }

    /* The first loads of chunk c, whose cells look_up gave. */
    RP_INLINE void prime(state &w, const cache &from, int c, int found)
    {
#pragma unroll
        for (int i = 0; i < ahead; i++) fetch(w.x[i], from, i, c, __shfl_sync(RK_WARP, found, i));
    }

    /* Chunks c, c + step .. before end, after prime(); `found`: what look_up gives for the first 8. */
    RP_INLINE void sweep(state &w, room &r, const cache &from, int c, int step, int first, int end, int found)
    {
        for (int j = 0; c < end; j++, c += step) {
            int now[cells], next[cells];
#pragma unroll
            for (int i = 0; i < cells; i++) now[i] = __shfl_sync(RK_WARP, found, j % 8 * cells + i);
            if (j % 8 == 7) found = from.look_up(c + step, step, from.n);
#pragma unroll
            for (int i = 0; i < cells; i++) next[i] = __shfl_sync(RK_WARP, found, (j + 1) % 8 * cells + i);
#pragma unroll
            for (int i = 0; i < steps; i++) {
                if (i == cells) weigh(w, from.n - c * C);
                if (i < cells)
                    score(w, w.x[i % ahead], i);
                else
                    gather(w, w.x[i % ahead], i - cells);
                if (i + ahead < steps)
                    fetch(w.x[i % ahead], from, i + ahead, c, now[(i + ahead) % cells]);
                else if (c + step < end)
                    fetch(w.x[i % ahead], from, i + ahead - steps, c + step, next[(i + ahead) % cells]);
            }
            hand_over(w, r, c - first);
        }
    }

    /* The outputs of a thread: pair `at` of those that its block owns, of head g. */
    struct result {
        float base[joins], sum[joins], out[joins][2];
    };

    /* Adds n chunks. */
    RP_INLINE void join(const room &r, result &all, int rank, int n)
    {
#pragma unroll
        for (int j = 0; j < joins; j++) {
            const int at = (int)threadIdx.x + j * N, g = (rank * owned + at / 2) / 4 % queries;
            if (at >= 2 * owned) continue;
            float top = all.base[j];
#pragma unroll 8
            for (int c = 0; c < n; c++) top = r.base[c][g] > top ? r.base[c][g] : top;
            const float by = rk_power_of_two(all.base[j] - top);
            all.base[j] = top;
            all.sum[j] = all.sum[j] * by;
            all.out[j][0] = all.out[j][0] * by;
            all.out[j][1] = all.out[j][1] * by;
#pragma unroll 8
            for (int c = 0; c < n; c++) {
                const float weight = rk_power_of_two(r.base[c][g] - top);
                const rk_few<float, 2> x = ((const rk_few<float, 2> *)r.out[c])[at];
                all.sum[j] = all.sum[j] + r.sum[c][g] * weight;
                all.out[j][0] = all.out[j][0] + x.one[0] * weight;
                all.out[j][1] = all.out[j][1] + x.one[1] * weight;
            }
        }
    }

    RP_INLINE void finish(const result &all, float *to, int rank, int heads)
    {
#pragma unroll
        for (int j = 0; j < joins; j++) {
            const int at = (int)threadIdx.x + j * N, f = rank * owned + at / 2, t = f % 4, g = f / 4 % queries, k = f / 4 / queries % 4;
            const int d = f / (16 * queries) * 64 + 16 * t + 4 * k + at % 2 * 2;
            if (at >= 2 * owned || g >= heads || d >= HD) continue;
            const rk_few<float, 2> x = {{all.out[j][0] / all.sum[j], all.out[j][1] / all.sum[j]}};
            *(rk_few<float, 2> *)(to + g * HD + d) = x;
        }
    }

    /* This block's part of an item: a row and part of the heads of a kv head. */
    RP_FN void run(room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                   long long n_tables, rp_size width, float scale, long long item)
    {
        const int rank = BLOCKS > 1 ? rk_cluster_rank() : 0, mine = rank + (int)threadIdx.x / 32 * BLOCKS, step = WARPS * BLOCKS, round = slots * BLOCKS;
        const long long row = item / units;
        const int kv_head = (int)(item / parts % KV_HEADS), head = kv_head * group + (int)(item % parts) * queries;
        const int heads = group - head % group < queries ? group - head % group : queries; /* that exist */
        /* A row mostly is the request of that number: its cells are asked for together with what says so. */
        const cache guess = {k, v, tables + row * width, kv_head, 0};
        int found = guess.look_up(mine, step, row < n_tables ? width * BLOCK : 0);
        const int seq = seqs[row], n = seq < 0 ? 0 : positions[row] + 1, chunks = (n + C - 1) / C;
        const cache from = {k, v, tables + (seq < 0 ? 0 : seq) * width, kv_head, n};
        if (seq != row) found = from.look_up(mine, step, n);
        to += (row * HEADS + head) * HD;
        if (n <= 0) {
            for (int d = rank * N + (int)threadIdx.x; d < heads * HD; d += BLOCKS * N) to[d] = 0.0f;
            return;
        }
        state w;
        result all;
        start(w, q + (row * HEADS + head) * HD, heads, scale * RK_LOG2_E);
#pragma unroll
        for (int i = 0; i < 8 * v_pieces; i++) w.o[i][0] = w.o[i][1] = w.o[i][2] = w.o[i][3] = 0.0f;
#pragma unroll
        for (int j = 0; j < joins; j++) {
            all.base[j] = RK_SPLIT_LEAST;
            all.sum[j] = all.out[j][0] = all.out[j][1] = 0.0f;
        }
        for (int first = 0; first < chunks; first += round) {
            const int end = chunks - first < round ? chunks : first + round;
            rk_arrive<BLOCKS>(); /* done with the chunks before */
            if (first) found = from.look_up(first + mine, step, n);
            if (first + mine < end) prime(w, from, first + mine, found);
            rk_meet<BLOCKS>();
            sweep(w, r, from, first + mine, step, first, end, found);
            rk_arrive<BLOCKS>();
            rk_meet<BLOCKS>();
            join(r, all, rank, end - first);
        }
        finish(all, to, rank, heads);
    }
};
