/* Attention of few rows over keys and values of bf16 on tensor cores; stands behind attention.cu and tensor.cu.
 *
 * Split-KV (as Flash-Decoding does it: Dao et al., 2023): the positions of a row are chunks of 64, which the warps of a cluster of blocks take in turn, each for
 * all heads of a kv head (at most 8), so that a key and a value are read once. A chunk is four cells of 16 positions, which one warp takes one after the other, or a
 * team of four warps all at once: that is how one row keeps a whole GPU busy. Keys and values go from memory to the registers of mma without shared memory: which position
 * is which row of an operand, and which dim which column, is free, and chosen so that a lane's share is 16 bytes in a row. Chunks whose loads are under way keep
 * the memory busy while others are multiplied.
 *
 * Queries times scale * log2 e, and weights, are sums of two bf16, which fill the two halves of an operand that fewer than 9 heads leave empty. Weights are
 * powers of two of scores less a whole number, so to join cells, and then chunks, is to scale by powers of two, which is exact, and to add, in ascending order: the
 * bits of a result depend on the context alone, whatever the number of blocks and warps. */
#define RK_LOG2_E 1.44269504f
#define RK_SPLIT_CHUNK 64
#define RK_SPLIT_ROOM (32 << 10) /* bytes of a block for results of chunks, about; half of it where there are teams */
#define RK_SPLIT_LEAST -1e30f    /* base of a cell in which no score is finite */

/* p, here and not where it is used. */
template <class T>
RP_INLINE T *rk_ready(T *p)
{
#ifndef RK_EMULATED
    asm volatile("" : "+l"(p));
#endif
    return p;
}

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

/* HD: of a head, a multiple of 16, at most 128; BLOCK: positions of a cache block, a multiple of 16; BLOCKS: of a cluster; WARPS: of a block; TEAM: warps of a
 * chunk, 1 or 4. */
template <int HEADS, int KV_HEADS, int HD, int BLOCK, int BLOCKS, int WARPS, int TEAM = 1>
struct rk_attn_split {
    typedef rp_u16 element;
    enum {
        N = WARPS * 32,
        C = RK_SPLIT_CHUNK,
        cells = C / 16, /* of 16 positions of a cache block, in a chunk */
        teams = WARPS / TEAM,
        group = HEADS / KV_HEADS,
        parts = (group + 7) / 8,
        units = KV_HEADS * parts,              /* of a row */
        queries = (group + parts - 1) / parts, /* that a cluster takes, or fewer */
        pieces = HD / 8,                       /* of 16 bytes, of a position */
        k_pieces = (pieces + 3) / 4,           /* of a lane and position: t + 4 s */
        v_pieces = (pieces + 7) / 8,           /* g + 8 s */
        fours = v_pieces * 16 * queries,       /* of the result: [v_pieces][4][queries][4 t] are dims 64 s + 16 t + 4 k .. */
        owned = fours / BLOCKS,                /* that a block joins */
        part = fours * 16 + queries * 8,       /* bytes of a chunk's result, and of a cell's */
        fit = (TEAM > 1 ? RK_SPLIT_ROOM / 2 : RK_SPLIT_ROOM) / part / WARPS,
        slots = (fit < 1 ? 1 : fit > 16 ? 16 : fit) * WARPS, /* chunks of a block in a round */
        sets = TEAM > 1 && 2 * WARPS * part <= RK_SPLIT_ROOM * 5 / 8 ? 2 : 1, /* of results of cells */
        held = TEAM > 1 ? WARPS : 1,
        joins = (2 * owned + N - 1) / N /* pairs of outputs of a thread */
    };
    static_assert(TEAM == 1 || (TEAM == cells && WARPS % TEAM == 0), "a warp of a team takes a cell");
    static_assert(owned * BLOCKS == fours, "a block expects what it owns");
    typedef rk_few<float, 2> two;
    typedef rk_few<float, 4> four;

    struct room {
        four out[slots * BLOCKS][owned];
        float base[slots * BLOCKS][queries], sum[slots * BLOCKS][queries];
        rp_u64 arrived; /* the barrier on which a round's results come */
        four cell[sets][held][TEAM > 1 ? fours : 1]; /* of teams */
        float cell_base[sets][held][queries], cell_sum[sets][held][queries];
    };

    /* Where a row's keys and values are. The number of a cell counts those of all kv heads. */
    struct cache {
        const element *k, *v;
        const rp_i32 *table;
        int kv_head, n;

        /* A warp's i-th cell is of this chunk, which one of it. */
        RP_INLINE int chunk_of(int first, int step, int i) { return first + (TEAM > 1 ? i : i / cells) * step; }
        RP_INLINE int place_of(int i) { return TEAM > 1 ? (int)threadIdx.x / 32 % TEAM : i % cells; }
        RP_INLINE rp_u32 position_of(int first, int step, int i) { return (rp_u32)chunk_of(first, step, i) * C + place_of(i) * 16; }

        /* Of the warp's cell `from` + lane; positions from `end` on have none. */
        RP_INLINE_MEMBER int look_up(int first, int step, int from, rp_size end) const
        {
            const rp_u32 p = position_of(first, step, from + rk_lane());
            return p < end ? (table[p / BLOCK] * KV_HEADS + kv_head) * (BLOCK / 16) + (int)(p % BLOCK / 16) : 0;
        }
    };

    /* What a lane has under way: keys and values of a cell. Queries. */
    struct state {
        int4 k[2 * k_pieces], v[4 * v_pieces];
        rp_u32 q[2 * k_pieces][4];
    };

    /* A lane's part of what head g has from some cells: dims 64 s + 8 j + .. of [s][j]. */
    struct result {
        float base, sum, o[v_pieces][8][2];

        RP_INLINE_MEMBER void clear()
        {
            base = RK_SPLIT_LEAST;
            sum = 0.0f;
#pragma unroll
            for (int i = 0; i < v_pieces * 16; i++) o[i / 16][i / 2 % 8][i % 2] = 0.0f;
        }
    };

    RP_INLINE int key_position(int g, int j) { return g / 2 * 4 + g % 2 + 2 * j; }

    /* Where a lane's share of a cell begins: of the keys, of positions 4 (g / 2) + g % 2 + {0, 2}; of the values, of positions 4 t .. */
    RP_INLINE const element *keys_at(const element *k, int cell) { return k + ((rp_size)cell * (16 * HD) + key_position(rk_lane() / 4, 0) * HD + rk_lane() % 4 * 8); }
    RP_INLINE const element *values_at(const element *v, int cell) { return v + ((rp_size)cell * (16 * HD) + rk_lane() % 4 * 4 * HD + rk_lane() / 4 * 8); }

    /* The share, of a cell of which `left` positions exist. */
    RP_INLINE void fetch_keys(int4 *to, const element *at, int left)
    {
        const int4 none = {0, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int s = 0; s < k_pieces; s++) {
                const int position = key_position(rk_lane() / 4, j), piece = rk_lane() % 4 + 4 * s;
                to[s * 2 + j] = position < left && piece < pieces ? rk_load(at + 2 * j * HD + s * 32) : none;
            }
    }

    RP_INLINE void fetch_values(int4 *to, const element *at, int left)
    {
        const int4 none = {0, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int s = 0; s < v_pieces; s++) {
                const int position = rk_lane() % 4 * 4 + j, piece = rk_lane() / 4 + 8 * s;
                to[s * 4 + j] = position < left && piece < pieces ? rk_load(at + j * HD + s * 64) : none;
            }
    }

    RP_INLINE void ask_queries(int4 *to, const float *q, int heads)
    {
        const int g = rk_lane() / 4, t = rk_lane() % 4;
        const int4 none = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < 2 * k_pieces; i++) {
            const int d = (t + i / 2 * 4) * 8 + i % 2 * 4;
            to[i] = g < heads && d < HD ? rk_load(q + g * HD + d) : none;
        }
    }

    RP_INLINE void start(state &w, const int4 *x, float scale)
    {
#pragma unroll
        for (int i = 0; i < 2 * k_pieces; i++) {
            rk_pack_twice(__int_as_float(x[i].x) * scale, __int_as_float(x[i].y) * scale, &w.q[i][0], &w.q[i][1]);
            rk_pack_twice(__int_as_float(x[i].z) * scale, __int_as_float(x[i].w) * scale, &w.q[i][2], &w.q[i][3]);
        }
    }

    /* Scores of head g in a cell, positions 4 t .. : two sums side by side. */
    RP_INLINE void score(const state &w, const int4 *x, float *to)
    {
        float c[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
        for (int i = 0; i < 2 * k_pieces; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int4 k = x[i / 2 * 2 + j];
                const rp_u32 b[2] = {(rp_u32)(i % 2 ? k.z : k.x), (rp_u32)(i % 2 ? k.w : k.y)};
                rk_mma(c[j], w.q[i], b);
            }
#pragma unroll
        for (int e = 0; e < 4; e++) to[e] = rk_whole(c[e / 2][e % 2], c[e / 2][e % 2 + 2]);
    }

    /* Scores of a cell, of which `left` positions exist, become weights. */
    RP_INLINE void weigh(float *s, int left, float *base, float *sum)
    {
        const int t = rk_lane() % 4;
        float top = -RP_INF;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (4 * t + e >= left) s[e] = -RP_INF;
            top = s[e] > top ? s[e] : top;
        }
        for (int o = 1; o < 4; o *= 2) {
            const float other = __shfl_xor_sync(RK_WARP, top, o);
            top = other > top ? other : top;
        }
        *base = top == -RP_INF ? RK_SPLIT_LEAST : (top + 12582912.0f) - 12582912.0f; /* to a whole number */
#pragma unroll
        for (int e = 0; e < 4; e++) s[e] = rk_exp2(s[e] - *base);
        float all = (s[0] + s[1]) + (s[2] + s[3]);
        all = all + __shfl_xor_sync(RK_WARP, all, 1);
        *sum = all + __shfl_xor_sync(RK_WARP, all, 2);
    }

    RP_INLINE rp_u32 word(const int4 &x, int i) { return (rp_u32)(i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w); }

    /* Weights s times values of a cell: what a team's warp has, or added to those before, as join_cells does it. */
    RP_INLINE void gather(result &to, const float *s, float base, float sum, const int4 *x)
    {
        const float top = to.base > base ? to.base : base;
        const float old = rk_power_of_two(to.base - top), now = rk_power_of_two(base - top);
        rp_u32 a[4];
        to.base = TEAM > 1 ? base : top;
        to.sum = TEAM > 1 ? sum : to.sum * old + sum * now;
        rk_pack_twice(s[0], s[1], &a[0], &a[1]);
        rk_pack_twice(s[2], s[3], &a[2], &a[3]);
#pragma unroll
        for (int p = 0; p < v_pieces; p++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const rp_u32 half = j % 2 ? 0x7632 : 0x5410;
                const rp_u32 b[2] = {__byte_perm(word(x[p * 4], j / 2), word(x[p * 4 + 1], j / 2), half),
                                     __byte_perm(word(x[p * 4 + 2], j / 2), word(x[p * 4 + 3], j / 2), half)};
                float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                rk_mma(c, a, b);
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float one = rk_whole(c[h], c[h + 2]);
                    to.o[p][j][h] = TEAM > 1 ? one : to.o[p][j][h] * old + one * now;
                }
            }
    }

    /* Four outputs of a lane, and where they lie among those of a chunk or a cell. */
    RP_INLINE four four_of(const result &w, int s, int k)
    {
        four x;
#pragma unroll
        for (int e = 0; e < 4; e++) x.one[e] = w.o[s][k % 2 * 4 + e][k / 2];
        return x;
    }
    RP_INLINE int place_of_four(int s, int k) { return ((s * 4 + k) * queries + rk_lane() / 4) * 4 + rk_lane() % 4; }

    /* x to where block `rank` of the cluster has what p is in this one. */
    template <class X>
    RP_INLINE void give(room &r, X *p, const X &x, int rank)
    {
        if (BLOCKS > 1)
            rk_send(p, x, &r.arrived, rank);
        else
            *p = x;
    }
    template <class ROOM, class X>
    RP_INLINE void give(ROOM &, X *p, const X &x, int)
    {
        *p = x;
    }

    /* Of several blocks: before the barrier of the cluster, behind which others give. */
    RP_INLINE void prepare(room &r)
    {
        if (threadIdx.x != 0) return;
        rk_barrier_init(rk_shared(&r.arrived), 1);
        rk_barriers_visible();
    }

    /* A block gets from all blocks what it owns of n chunks. */
    RP_INLINE void expect(room &r, int n)
    {
        if (BLOCKS > 1 && threadIdx.x == 0) rk_barrier_expect(rk_shared(&r.arrived), n * (owned * 16 + queries * 8));
    }

    /* A chunk's result to the blocks that own its outputs. ROOM: as `room`, of any number of chunks. */
    template <class ROOM>
    RP_INLINE void hand_over(const result &w, ROOM &r, int at)
    {
        const int g = rk_lane() / 4, t = rk_lane() % 4;
        if (g >= queries) return;
#pragma unroll
        for (int i = 0; i < v_pieces * 4; i++) {
            const int f = place_of_four(i / 4, i % 4);
            give(r, &r.out[at][f % owned], four_of(w, i / 4, i % 4), f / owned);
        }
        for (int b = t; b < BLOCKS; b += 4) {
            give(r, &r.base[at][g], w.base, b);
            give(r, &r.sum[at][g], w.sum, b);
        }
    }

    /* A cell's result to the team. */
    RP_INLINE void show(const result &w, room &r, int set)
    {
        const int g = rk_lane() / 4, warp = (int)threadIdx.x / 32;
        if (g >= queries) return;
#pragma unroll
        for (int i = 0; i < v_pieces * 4; i++) r.cell[set][warp][place_of_four(i / 4, i % 4)] = four_of(w, i / 4, i % 4);
        if (rk_lane() % 4) return;
        r.cell_base[set][warp][g] = w.base;
        r.cell_sum[set][warp][g] = w.sum;
    }

    /* Adds the first n cells of the team and hands over what that gives: a pair of outputs a thread. */
    RP_INLINE void join_cells(room &r, int set, int n, int at)
    {
        const int warp = (int)threadIdx.x / 32 / TEAM * TEAM;
        for (int i = threadIdx.x % (TEAM * 32); i < 2 * fours; i += TEAM * 32) {
            const int f = i / 2, g = f / 4 % queries;
            float base = RK_SPLIT_LEAST, sum = 0.0f;
            two x = {{0.0f, 0.0f}};
#pragma unroll
            for (int c = 0; c < TEAM; c++) {
                const bool has = c < n; /* else what is there is of a chunk before */
                const two y = ((const two *)r.cell[set][warp + c])[i];
                const float b = has ? r.cell_base[set][warp + c][g] : RK_SPLIT_LEAST, top = base > b ? base : b;
                const float old = rk_power_of_two(base - top), now = rk_power_of_two(b - top);
                base = top;
                sum = sum * old + (has ? r.cell_sum[set][warp + c][g] * now : 0.0f);
                x.one[0] = x.one[0] * old + (has ? y.one[0] * now : 0.0f);
                x.one[1] = x.one[1] * old + (has ? y.one[1] * now : 0.0f);
            }
            give(r, (two *)r.out[at] + (f % owned * 2 + i % 2), x, f / owned);
            for (int b = i % 8; b < BLOCKS && f < 4 * queries; b += 8) { /* 8 threads a head */
                give(r, &r.base[at][g], base, b);
                give(r, &r.sum[at][g], sum, b);
            }
        }
    }

    /* The warp's cells of a round that ends with chunk `end`; first: its first chunk. */
    struct walk {
        const cache &from;
        int first, step, end, found;

        RP_INLINE_MEMBER bool has(int i) const { return cache::chunk_of(first, step, i) < end && cache::position_of(first, step, i) < (rp_u32)from.n; }
        RP_INLINE_MEMBER int position(int i) const { return (int)cache::position_of(first, step, i); }
        RP_INLINE_MEMBER int cell(int i)
        {
            if (i % 32 == 0 && i) found = from.look_up(first, step, i, from.n);
            return __shfl_sync(RK_WARP, found, i % 32);
        }
        /* Keys and values of cell i are asked for. */
        RP_INLINE_MEMBER void fetch(int4 *k, int4 *v, int i)
        {
            const int at = cell(i);
            fetch_keys(k, keys_at(from.k, at), from.n - position(i));
            fetch_values(v, values_at(from.v, at), from.n - position(i));
        }
    };

    /* Cells one after the other, of which the first has been asked for; the next is while one is used. Warps of teams go on while others of the block have a chunk. */
    RP_INLINE void sweep(state &w, room &r, walk &at, int first, int rounds)
    {
        result mine;
        mine.clear();
#pragma unroll 1
        for (int i = 0; TEAM > 1 ? i < rounds : at.has(i); i++) {
            const int chunk = cache::chunk_of(at.first, at.step, i);
            const bool has = at.has(i), more = at.has(i + 1);
            if (has) {
                const int next = more ? at.cell(i + 1) : 0;
                float s[4], base, sum;
                score(w, w.k, s);
                if (more) fetch_keys(w.k, keys_at(at.from.k, next), at.from.n - at.position(i + 1));
                weigh(s, at.from.n - at.position(i), &base, &sum);
                gather(mine, s, base, sum, w.v);
                if (more) fetch_values(w.v, values_at(at.from.v, next), at.from.n - at.position(i + 1));
            }
            if (TEAM > 1) {
                if (has) show(mine, r, i % sets);
                __syncthreads();
                if (chunk < at.end) join_cells(r, i % sets, (at.from.n - chunk * C + 15) / 16, chunk - first);
                if (sets == 1) __syncthreads();
            } else if (i % cells == cells - 1 || !more) {
                hand_over(mine, r, chunk - first);
                mine.clear();
            }
        }
    }

    /* The outputs of a thread: pair `at` of those that its block owns, of head g. */
    struct outputs {
        float top[joins], sum[joins], out[joins][2]; /* top: base of the chunks so far */
    };

    /* Bases of n chunks become their weights, which their sums then have in them, by a warp a head. */
    template <class ROOM>
    RP_INLINE void weigh_chunks(ROOM &r, int n, bool more)
    {
        for (int g = (int)threadIdx.x / 32; g < queries; g += WARPS) {
            const float before = more ? r.top[g] : RK_SPLIT_LEAST;
            float top = before;
            for (int c = rk_lane(); c < n; c += 32) top = r.base[c][g] > top ? r.base[c][g] : top;
            for (int o = 1; o < 32; o *= 2) {
                const float other = __shfl_xor_sync(RK_WARP, top, o);
                top = other > top ? other : top;
            }
            for (int c = rk_lane(); c < n; c += 32) {
                const float weight = rk_power_of_two(r.base[c][g] - top);
                r.base[c][g] = weight;
                r.sum[c][g] = r.sum[c][g] * weight;
            }
            if (rk_lane() == 0) {
                r.top[g] = top;
                r.shrink[g] = rk_power_of_two(before - top);
            }
        }
        __syncthreads();
    }

    RP_INLINE void clear(outputs &all)
    {
#pragma unroll
        for (int j = 0; j < joins; j++) {
            all.top[j] = RK_SPLIT_LEAST;
            all.sum[j] = all.out[j][0] = all.out[j][1] = 0.0f;
        }
    }

    /* Adds n chunks, which have their weights. */
    template <class ROOM>
    RP_INLINE void join(const ROOM &r, outputs &all, int rank, int n)
    {
#pragma unroll
        for (int j = 0; j < joins; j++) {
            const int at = (int)threadIdx.x + j * N, g = (rank * owned + at / 2) / 4 % queries;
            if (at >= 2 * owned) continue;
            const float by = r.shrink[g];
            float sum = all.sum[j] * by, x = all.out[j][0] * by, y = all.out[j][1] * by;
#pragma unroll 4
            for (int c = 0; c < n; c++) {
                const float weight = r.base[c][g];
                const two more = ((const two *)r.out[c])[at];
                sum = sum + r.sum[c][g];
                x = x + more.one[0] * weight;
                y = y + more.one[1] * weight;
            }
            all.sum[j] = sum;
            all.out[j][0] = x;
            all.out[j][1] = y;
        }
    }

    /* Adds n chunks once they have arrived: weigh_chunks and join for outputs so few that each of their threads has all weights sooner than threads meet. */
    RP_INLINE void take(room &r, outputs &all, int rank, int n, rp_u32 phase)
    {
#pragma unroll
        for (int j = 0; j < joins; j++) {
            const int at = (int)threadIdx.x + j * N, g = (rank * owned + at / 2) / 4 % queries;
            if (at >= 2 * owned) continue;
            if (BLOCKS > 1) rk_barrier_wait(rk_shared(&r.arrived), phase);
            float top = all.top[j];
#pragma unroll 8
            for (int c = 0; c < n; c++) top = fmaxf(top, r.base[c][g]);
            const float by = rk_power_of_two(all.top[j] - top);
            float sum = all.sum[j] * by, x = all.out[j][0] * by, y = all.out[j][1] * by;
#pragma unroll 8
            for (int c = 0; c < n; c++) {
                const float weight = rk_power_of_two(r.base[c][g] - top);
                const two more = ((const two *)r.out[c])[at];
                sum = sum + r.sum[c][g] * weight;
                x = x + more.one[0] * weight;
                y = y + more.one[1] * weight;
            }
            all.top[j] = top;
            all.sum[j] = sum;
            all.out[j][0] = x;
            all.out[j][1] = y;
        }
    }

    RP_INLINE void finish(const outputs &all, float *to, int rank, int heads)
    {
#pragma unroll
        for (int j = 0; j < joins; j++) {
            const int at = (int)threadIdx.x + j * N, f = rank * owned + at / 2, t = f % 4, g = f / 4 % queries, k = f / 4 / queries % 4;
            const int d = f / (16 * queries) * 64 + 16 * t + 4 * k + at % 2 * 2;
            if (at >= 2 * owned || g >= heads || d >= HD) continue;
            const two x = {{all.out[j][0] / all.sum[j], all.out[j][1] / all.sum[j]}};
            *(two *)(to + g * HD + d) = x;
        }
    }

    /* Where the warp's first cells are, if the row is the request of that number and tables and positions are what they were before the wait: a lane has cell
     * number lane, or -1 where none can be told. n: positions. k, v: the lane's share of the first, of which `left` positions exist, or none. arrived: at the
     * barrier of the cluster; early: the share has been asked for. */
    struct guess {
        int found, n, left;
        const element *k, *v;
        bool arrived, early;
    };

    RP_INLINE guess no_guess()
    {
        const guess none = {-1, 0, 0, 0, 0, false, false};
        return none;
    }

    /* Before the wait. What it finds is asked for as far as the second-level cache, and again at once behind the wait, when run() looks whether it was right. n_blocks:
     * of the cache. */
    template <int CELLS = 4> /* a lane each, of a warp */
    RP_INLINE guess announce(const element *k, const element *v, const rp_i32 *positions, const rp_i32 *tables, long long n_tables, rp_size width,
                             long long n_blocks, long long item)
    {
        const int row = (int)item / units, kv_head = (int)item / parts % KV_HEADS, warp = (int)threadIdx.x / 32;
        const rp_u32 first = cache::position_of((BLOCKS > 1 ? rk_cluster_rank() : 0) + warp / TEAM * BLOCKS, teams * BLOCKS, 0),
                     p = cache::position_of((BLOCKS > 1 ? rk_cluster_rank() : 0) + warp / TEAM * BLOCKS, teams * BLOCKS, rk_lane());
        guess all = no_guess();
        rk_arrive<BLOCKS>();
        all.arrived = true;
        if (row >= n_tables) return all;
        all.n = rk_guess(positions + row) + 1;
        const rp_i32 block = p / BLOCK < width ? rk_guess(tables + row * width + p / BLOCK) : -1;
        if (block >= 0 && block < n_blocks) all.found = (block * KV_HEADS + kv_head) * (BLOCK / 16) + (int)(p % BLOCK / 16);
        const int cell = __shfl_sync(RK_WARP, all.found, 0);
        if (cell >= 0) {
            all.left = all.n - (int)first;
            all.k = rk_ready(keys_at(k, cell));
            all.v = rk_ready(values_at(v, cell));
        }
        if (rk_lane() >= CELLS || (int)p >= all.n || all.found < 0) return all;
        rk_fetch_ahead(k + (rp_size)all.found * (16 * HD), 32 * HD);
        rk_fetch_ahead(v + (rp_size)all.found * (16 * HD), 32 * HD);
        return all;
    }

    /* Before the wait, too, where it is promised that no kernel of the chain writes keys and values of the cache but those of the rows' own positions: the last
     * that a row reads, which the cell must not hold. A cell that was not the right one is read again. */
    RP_INLINE void read_early(state &w, guess &hint, bool promised)
    {
        if (!promised || hint.left <= 16) return;
        hint.early = true;
#pragma unroll
        for (int i = 0; i < 2 * k_pieces; i++) w.k[i] = early_piece(hint.k + i % 2 * 2 * HD + i / 2 * 32, rk_lane() % 4 + i / 2 * 4);
#pragma unroll
        for (int i = 0; i < 4 * v_pieces; i++) w.v[i] = early_piece(hint.v + i % 4 * HD + i / 4 * 64, rk_lane() / 4 + i / 4 * 8);
    }
    RP_INLINE int4 early_piece(const element *at, int piece)
    {
        const int4 none = {0, 0, 0, 0};
        return piece < pieces ? rk_load_early(at) : none;
    }

    /* This block's part of an item: a row and part of the heads of a kv head. w has what read_early read. phase: of the barrier on which results come, 0 at first. */
    RP_FN void run(room &r, state &w, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                   long long n_tables, rp_size width, float scale, long long item, const guess &hint, rp_u32 &phase)
    {
        const int rank = BLOCKS > 1 ? rk_cluster_rank() : 0, mine = rank + (int)threadIdx.x / 32 / TEAM * BLOCKS, step = teams * BLOCKS, round = slots * BLOCKS;
        const int row = (int)item / units, kv_head = (int)item / parts % KV_HEADS, head = kv_head * group + (int)item % parts * queries;
        const int heads = group - head % group < queries ? group - head % group : queries; /* that exist */
        /* Queries and what says where keys and values are is asked for together with those, where they are guessed to be. */
        int4 asked[2 * k_pieces];
        ask_queries(asked, q + ((rp_size)row * HEADS + head) * HD, heads);
        if (hint.left > 0 && !hint.early) {
            fetch_keys(w.k, hint.k, hint.left);
            fetch_values(w.v, hint.v, hint.left);
        }
        const int seq = seqs[row], position = positions[row];
        const cache likely = {k, v, tables + row * width, kv_head, hint.n};
        if (!hint.arrived) rk_arrive<BLOCKS>(); /* done with the item before */
        int found = likely.look_up(mine, step, 0, row < n_tables ? width * BLOCK : 0);
        start(w, asked, scale * RK_LOG2_E);
        const int n = seq < 0 ? 0 : position + 1, chunks = (n + C - 1) / C;
        const cache from = {k, v, tables + (seq < 0 ? 0 : seq) * width, kv_head, n};
        if (seq != row) found = from.look_up(mine, step, 0, n);
        const bool differs = (int)cache::position_of(mine, step, rk_lane()) < n && found != hint.found;
        const bool right = hint.n == n && !__any_sync(RK_WARP, differs);
        to += ((rp_size)row * HEADS + head) * HD;
        if (n <= 0) {
            for (int d = rank * N + (int)threadIdx.x; d < heads * HD; d += BLOCKS * N) to[d] = 0.0f;
            rk_meet<BLOCKS>();
            return;
        }
        outputs all;
        clear(all);
        for (int first = 0; first < chunks; first += round) {
            const int end = chunks - first < round ? chunks : first + round;
            if (first) rk_arrive<BLOCKS>(); /* done with the chunks before */
            if (first) found = from.look_up(first + mine, step, 0, n);
            walk at = {from, first + mine, step, end, found};
            if (at.has(0) && (first || !right)) at.fetch(w.k, w.v, 0);
            rk_meet<BLOCKS>();
            expect(r, end - first);
            sweep(w, r, at, first, end - first > rank ? (end - first - rank + step - 1) / step : 0);
            if (BLOCKS == 1) __syncthreads();
            take(r, all, rank, end - first, phase);
            phase ^= 1;
        }
        finish(all, to, rank, heads);
    }
};
