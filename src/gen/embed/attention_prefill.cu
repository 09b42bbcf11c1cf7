/* Attention of many rows over keys and values of bf16 on tensor cores, heads of 64 or 128 dims; stands behind attention_tensor.cu, whose tiles of rows, runs of
 * requests and rounding it has, with tiles of 128 positions.
 *
 * A group of four warps copies tiles of keys and values from the blocks of the cache to two rings in shared memory, and leaves its registers to two others,
 * which have 64 rows each with their queries as operands in registers (as FlashAttention-3 does it: Shah et al., 2024). The scores of a tile and the values of
 * the tile before are multiplied together; meanwhile the other group makes weights of its scores. A block takes one item after the other, and those who copy are up
 * to two tiles ahead, in the next item too. */
template <int HEADS, int KV_HEADS, int HD, int BLOCK, int SPREAD>
struct rk_attn_prefill : rk_attn_runs<HEADS, KV_HEADS, HD, BLOCK, SPREAD, 384> {
    typedef rk_attn_runs<HEADS, KV_HEADS, HD, BLOCK, SPREAD, 384> runs;
    typedef typename runs::element element;
    typedef typename runs::cache cache;
    enum {
        WORKERS = 256, N = 384,
        COPIERS = (N - WORKERS) / 32, /* warps */
        REGISTERS_OF_WORKERS = 232, REGISTERS_OF_COPIERS = 40, /* of 168 each */
        KEYS = 128,        /* of a tile */
        STAGES = 2,        /* tiles of keys, and of values, in shared memory */
        cells = KEYS / 16, /* which lie in one piece in the cache */
        pieces = HD / 8,   /* of 16 bytes, of a position */
        TILE = KEYS * HD * 2,
        BARS = 2 * STAGES * TILE,
        TURNS = BARS + 4 * STAGES * 8, /* a barrier a group */
        bytes = TURNS + 2 * 8
    };
    static_assert((HD == 64 || HD == 128) && cells % COPIERS == 0, "what wgmma reads");
    typedef typename runs::tile tile;
    struct room : runs::room {
        tile copied; /* what copiers are at, who may be an item ahead */
    };
    /* Of rows g and g + 8 of 16: positions that count, the result so far, queries. s: scores, then weights; [4 j + e]: row g + e / 2 * 8, key 8 j + 2 t + e % 2. */
    struct state {
        int n[2];
        float top[2], sum[2], by[2], s[KEYS / 2], o[HD / 2];
        rp_u32 q[HD / 16][4], p[KEYS / 16][4];
    };
    /* A ring's tile number i. */
    struct ring {
        rp_u32 tiles, bars;
        RP_INLINE_MEMBER rp_u32 tile(int i) const { return tiles + i % STAGES * TILE; }
        RP_INLINE_MEMBER rp_u32 full(int i) const { return bars + i % STAGES * 8; }
        RP_INLINE_MEMBER rp_u32 empty(int i) const { return bars + (STAGES + i % STAGES) * 8; }
        RP_INLINE_MEMBER void wait_full(int i) const { rk_barrier_wait(full(i), i / STAGES & 1); }
        RP_INLINE_MEMBER void wait_empty(int i) const { rk_barrier_wait(empty(i), i / STAGES & 1 ^ 1); }
        /* All lanes of a warp have read it. */
        RP_INLINE_MEMBER void give(int i) const
        {
            __syncwarp();
            if (rk_lane() == 0) rk_barrier_arrive(empty(i));
        }
    };
    RP_INLINE ring keys() { return ring{rk_shared(rk_dynamic), rk_shared(rk_dynamic) + BARS}; }
    RP_INLINE ring values() { return ring{rk_shared(rk_dynamic) + STAGES * TILE, rk_shared(rk_dynamic) + BARS + 2 * STAGES * 8}; }

    /* Where piece c of a position lies in a tile: 128 bytes of each one after the other, swizzled. */
    RP_INLINE rp_u32 place(int position, int c) { return c / 8 * (KEYS * 128) + position * 128 + ((c ^ position) & 7) * 16; }

    /* Once, before the first item. */
    RP_INLINE void start()
    {
        if (threadIdx.x) return;
        for (int i = 0; i < STAGES; i++) {
            rk_barrier_init(keys().full(i), N - WORKERS);
            rk_barrier_init(values().full(i), N - WORKERS);
            rk_barrier_init(keys().empty(i), WORKERS / 32);
            rk_barrier_init(values().empty(i), WORKERS / 32);
        }
        for (int i = 0; i < 2; i++) rk_barrier_init(rk_shared(rk_dynamic) + TURNS + 8 * i, WORKERS / 64); /* warps of a group */
        rk_barriers_visible();
    }

    /* ---- the warps that copy ---------------------------------------------------------------------------------------------- */

    /* The number of this lane's cell of the tile that begins at position t. */
    RP_INLINE int look_up(const cache &from, int t)
    {
        const int p = t + rk_lane() * 16;
        return rk_lane() < cells && p < from.n ? (from.table[p / BLOCK] * KV_HEADS + from.kv_head) * (BLOCK / 16) + p % BLOCK / 16 : 0;
    }

    /* Zeros where positions are not before n: weights of 0 times what is there might be NaN. WHOLE: all of them are. */
    template <bool WHOLE>
    RP_INLINE void copy(rp_u32 to, const element *from, int cell, int left)
    {
        const element *const own = from + rk_lane() * 8;
#pragma unroll
        for (int i = 0; i < cells / COPIERS; i++) {
            const int j = i * COPIERS + (int)threadIdx.x / 32 % COPIERS;
            const element *x = own + (rp_size)__shfl_sync(RK_WARP, cell, j) * (16 * HD);
#pragma unroll
            for (int k = 0; k < HD / 16; k++) {
                const int position = (k * 32 + rk_lane()) / pieces, c = (k * 32 + rk_lane()) % pieces;
                rk_copy(to + j * (16 * 128) + place(position, c), x + k * 256, WHOLE || 16 * j + position < left);
            }
        }
    }

    RP_INLINE void bring(const ring &to, int i, const element *from, int cell, int left)
    {
        to.wait_empty(i);
        if (left >= KEYS)
            copy<true>(to.tile(i), from, cell, left);
        else
            copy<false>(to.tile(i), from, cell, left);
        rk_copies_arrive(to.full(i));
    }

    RP_INLINE void produce(const cache &from, int first, int tiles)
    {
        int cell = look_up(from, 0);
        for (int i = 0; i < tiles; i++) {
            const int next = look_up(from, (i + 1) * KEYS);
            bring(keys(), first + i, from.k, cell, from.n - i * KEYS);
            bring(values(), first + i, from.v, cell, from.n - i * KEYS);
            cell = next;
        }
    }

    /* ---- groups of warps that multiply --------------------------------------------------------------------------------------- */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    /* Scores of a tile, which are there after wait(). */
    RP_INLINE void score(state &w, rp_u32 k)
    {
#pragma unroll
        for (int d = 0; d < HD / 16; d++)
            rk_wgmma_keys<KEYS>(w.s, w.q[d], rk_operand(k + d / 4 * (KEYS * 128) + d % 4 * 32, 16, 1024, 1), d > 0);
        rk_wgmma_end();
    }

    RP_INLINE void gather(state &w, rp_u32 v)
    {
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) rk_wgmma_values<HD>(w.o, w.p[j], rk_operand(v + j * 2048, KEYS * 128, 1024, 1));
        rk_wgmma_end();
    }
    /* Registers are as they shall be read. */
    RP_INLINE void begin(state &w)
    {
#pragma unroll
        for (int i = 0; i < HD / 2; i++) rk_is_there(w.o[i]);
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) rk_is_there(w.p[i / 4][i % 4]);
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) rk_is_there(w.s[i]);
        rk_copies_visible();
        rk_wgmma_begin();
    }
    /* Scores are there; values that were asked for behind them may be under way. */
    RP_INLINE void wait_scores(state &w, bool gathers)
    {
        if (gathers)
            rk_wgmma_wait<1>();
        else
            rk_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) rk_is_there(w.s[i]);
    }
    RP_INLINE void wait_values(state &w)
    {
        rk_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < HD / 2; i++) rk_is_there(w.o[i]);
    }
#else
    RP_INLINE void begin(state &) {}
    RP_INLINE void score(state &w, rp_u32 k)
    {
        const int lane = rk_lane();
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
#pragma unroll
            for (int e = 0; e < 8; e++) w.s[8 * j + e] = 0.0f;
#pragma unroll
            for (int d = 0; d < HD / 16; d++) {
                rp_u32 b[4];
                rk_matrix_4(b, k + place(16 * j + lane / 16 * 8 + lane % 8, 2 * d + (lane / 8 & 1)));
                rk_mma(w.s + 8 * j, w.q[d], b);
                rk_mma(w.s + 8 * j + 4, w.q[d], b + 2);
            }
        }
    }

    RP_INLINE void gather(state &w, rp_u32 v)
    {
        const int lane = rk_lane();
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
            for (int d = 0; d < HD / 16; d++) {
                rp_u32 b[4];
                rk_matrix_4_turned(b, v + place(16 * j + lane % 16, 2 * d + lane / 16));
                rk_mma(w.o + 8 * d, w.p[j], b);
                rk_mma(w.o + 8 * d + 4, w.p[j], b + 2);
            }
    }
    RP_INLINE void wait_scores(state &, bool) {}
    RP_INLINE void wait_values(state &) {}
#endif

    /* Queries of a thread, on their way from memory. */
    typedef rk_few<float, 2> queries[2][HD / 8];

    /* Rows from `of` on. */
    RP_INLINE void ask(queries &x, const float *q, long long row0, int of, int first, int end, int head)
    {
        const int mine = of + rk_lane() / 4, d0 = rk_lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = mine + 8 * i;
            const bool has = at >= first && at < end;
            const rk_few<float, 2> *from = (const rk_few<float, 2> *)(q + ((row0 + at) * HEADS + head) * HD + d0);
#pragma unroll
            for (int d = 0; d < HD / 8; d++) {
                const rk_few<float, 2> none = {{0.0f, 0.0f}};
                x[i][d] = none;
                if (has) x[i][d] = from[d * 4];
            }
        }
    }

    RP_INLINE void load(state &w, const tile &r, const queries &x, int of, int first, int end, float scale)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = of + rk_lane() / 4 + 8 * i;
            w.n[i] = at >= first && at < end ? r.pos[at] + 1 : 0;
            w.top[i] = -RP_INF;
            w.sum[i] = 0.0f;
#pragma unroll
            for (int d = 0; d < HD / 8; d++) w.q[d / 2][i + d % 2 * 2] = rk_pack(x[i][d].one[0] * scale, x[i][d].one[1] * scale);
        }
#pragma unroll
        for (int i = 0; i < HD / 2; i++) w.o[i] = 0.0f;
    }

    /* Positions from t on that do not count. */
    RP_INLINE void mask(state &w, int t)
    {
        const int first = t + rk_lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            if (first + i / 4 * 8 + i % 2 >= w.n[i / 2 % 2]) w.s[i] = -RP_INF;
    }

    /* Scores become weights; by: what was summed before counts. */
    RP_INLINE void weigh(state &w)
    {
        float most[2][4]; /* of every fourth score: four chains */
#pragma unroll
        for (int i = 0; i < 8; i++) most[i % 2][i / 2] = w.s[i / 2 * 4 + i % 2 * 2];
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) most[i / 2 % 2][i / 4 % 4] = fmaxf(most[i / 2 % 2][i / 4 % 4], w.s[i]);
#pragma unroll
        for (int r = 0; r < 2; r++) most[r][0] = fmaxf(fmaxf(fmaxf(most[r][0], most[r][1]), fmaxf(most[r][2], most[r][3])), w.top[r]);
#pragma unroll
        for (int r = 0; r < 2; r++) most[r][0] = fmaxf(most[r][0], __shfl_xor_sync(RK_WARP, most[r][0], 1));
#pragma unroll
        for (int r = 0; r < 2; r++) most[r][0] = fmaxf(most[r][0], __shfl_xor_sync(RK_WARP, most[r][0], 2));
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float top = most[r][0];
            float sum[2] = {0.0f, 0.0f};
            const float base = top == -RP_INF ? 0.0f : top;
            w.by[r] = rk_exp2(w.top[r] - base);
#pragma unroll
            for (int i = 0; i < KEYS / 2; i++) {
                if (i / 2 % 2 != r) continue;
                w.s[i] = rk_exp2(w.s[i] - base);
                sum[i % 2] = sum[i % 2] + w.s[i];
            }
            w.top[r] = top;
            w.sum[r] = w.sum[r] * w.by[r] + (sum[0] + sum[1]);
        }
    }

    /* Weights as an operand, and what was summed before scaled to the new maximum. */
    RP_INLINE void settle(state &w)
    {
#pragma unroll
        for (int i = 0; i < HD / 2; i++) w.o[i] = w.o[i] * w.by[i / 2 % 2];
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) w.p[j][e] = rk_pack(w.s[8 * j + 2 * e], w.s[8 * j + 2 * e + 1]);
    }

    RP_INLINE void finish(const state &w, float *to, long long row0, int of, int head)
    {
        const int mine = of + rk_lane() / 4, d0 = rk_lane() % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = w.sum[r];
            sum = sum + __shfl_xor_sync(RK_WARP, sum, 1);
            sum = sum + __shfl_xor_sync(RK_WARP, sum, 2);
            if (w.n[r] <= 0) continue;
            const float by = 1.0f / sum;
            rk_few<float, 2> *at = (rk_few<float, 2> *)(to + ((row0 + mine + 8 * r) * HEADS + head) * HD + d0);
#pragma unroll
            for (int d = 0; d < HD / 8; d++) {
                const rk_few<float, 2> x = {{w.o[4 * d + 2 * r] * by, w.o[4 * d + 2 * r + 1] * by}};
                at[d * 4] = x;
            }
        }
    }

    /* Positions that count for all rows [first, end) among the group's 64 from `of` on, and for any. */
    RP_INLINE void bounds(const tile &r, int of, int first, int end, int *least, int *most)
    {
        int low = 0x7fffffff, high = 0;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int at = of + k * 32 + rk_lane(), n = at >= first && at < end ? r.pos[at] + 1 : 0;
            low = n && n < low ? n : low;
            high = n > high ? n : high;
        }
        for (int o = 1; o < 32; o *= 2) {
            const int other = __shfl_xor_sync(RK_WARP, low, o), more = __shfl_xor_sync(RK_WARP, high, o);
            low = other < low ? other : low;
            high = more > high ? more : high;
        }
        *least = low;
        *most = high;
    }

    /* Groups multiply in turns, so that the one makes weights while the other multiplies: both would wait for the same units else. turn: how many there were, of
     * both. */
    RP_INLINE void take_turn(int turn)
    {
        if (turn > 0) rk_barrier_wait(rk_shared(rk_dynamic) + TURNS + (int)threadIdx.x / 128 * 8, turn - 1 & 1);
    }
    RP_INLINE void pass_turn(int *turn)
    {
        __syncwarp();
        if (rk_lane() == 0) rk_barrier_arrive(rk_shared(rk_dynamic) + TURNS + (1 - (int)threadIdx.x / 128) * 8);
        ++*turn;
    }

    /* The scores of tile i are on their way. */
    template <bool MASKED>
    RP_INLINE void make_weights(state &w, int used, int i)
    {
        wait_scores(w, i > 0);
        keys().give(used + i);
        if (MASKED) mask(w, i * KEYS);
        weigh(w);
#pragma unroll
        for (int j = 0; j < KEYS / 2; j++) rk_is_there(w.s[j]);
        if (i) {
            wait_values(w);
            values().give(used + i - 1);
        }
        settle(w);
    }

    /* Tile i, but for its values. */
    template <bool MASKED>
    RP_INLINE void step(state &w, int used, int i, int *turn)
    {
        const ring k = keys(), v = values();
        k.wait_full(used + i);
        v.wait_full(used + i - 1);
        take_turn(*turn);
        begin(w);
        score(w, k.tile(used + i));
        gather(w, v.tile(used + i - 1));
        pass_turn(turn);
        make_weights<MASKED>(w, used, i);
    }

    RP_INLINE void consume(const tile &r, const float *q, float *to, long long row0, int first, int end, int head, float scale, int used, int tiles, int *turn)
    {
        const ring k = keys(), v = values();
        const int group = (int)threadIdx.x / 128 * 64, mine = (int)threadIdx.x / 32 * 16;
        int least, most;
        state w;
        queries x;
        ask(x, q, row0, mine, first, end, head);
        bounds(r, group, first, end, &least, &most);
        load(w, r, x, mine, first, end, scale);
        const int own = (most + KEYS - 1) / KEYS, whole = least / KEYS;
        if (own > 0) {
            int i = 1;
            k.wait_full(used);
            take_turn(*turn);
            begin(w);
            score(w, k.tile(used));
            pass_turn(turn);
            make_weights<true>(w, used, 0);
            for (; i < whole; i++) step<false>(w, used, i, turn);
            for (; i < own; i++) step<true>(w, used, i, turn);
            v.wait_full(used + own - 1);
            begin(w);
            gather(w, v.tile(used + own - 1));
            wait_values(w);
            v.give(used + own - 1);
            finish(w, to, row0, mine, head);
        }
        for (int i = own; i < tiles; i++) { /* of the other group */
            take_turn(*turn);
            pass_turn(turn);
            k.wait_full(used + i);
            k.give(used + i);
            v.wait_full(used + i);
            v.give(used + i);
        }
    }

    /* Rows of many requests are for all warps. */
    struct crowd {
        enum { MANY = 1, FEW = 0 };
        typedef rk_attn_prefill::room room;
        RP_INLINE void request(room &, const float *, const cache &, float *, long long, int, int, int, float) {}
    };

    /* The block's items, one of each round: rounds go to and fro, since the first items, which are of the last rows, have most to do. */
    RP_INLINE long long item_of(long long round)
    {
        return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    }

    /* The first row of an item, and how many there are. */
    RP_INLINE long long rows_of(long long item, long long n_rows, int *count)
    {
        const long long row0 = ((n_rows + RK_FLASH_ROWS - 1) / RK_FLASH_ROWS - 1 - item / HEADS) * RK_FLASH_ROWS;
        *count = n_rows - row0 < RK_FLASH_ROWS ? (int)(n_rows - row0) : RK_FLASH_ROWS;
        return row0;
    }

    /* Whether any tile is of many requests, so that the warps have to meet: every warp looks. */
    RP_INLINE bool any_several(const rp_i32 *seqs, long long n_rows, long long n)
    {
        bool any = false;
        for (long long item = rk_lane() * HEADS; item < n; item += 32 * HEADS) {
            int count;
            const long long row0 = rows_of(item, n_rows, &count);
            any = any || seqs[row0] != seqs[row0 + count - 1];
        }
        return __any_sync(RK_WARP, any);
    }

    /* A thread's row of an item. */
    struct glance {
        rp_i32 seq, pos;
        bool several;
    };
    RP_INLINE glance look(const rp_i32 *seqs, const rp_i32 *positions, long long n_rows, long long item, long long n, int id)
    {
        glance g = {-1, -1, false};
        if (item >= n) return g;
        int count;
        const long long row0 = rows_of(item, n_rows, &count);
        g.several = seqs[row0] != seqs[row0 + count - 1];
        if (id < count) {
            g.seq = seqs[row0 + id];
            g.pos = positions[row0 + id];
        }
        return g;
    }

    template <bool COPIES>
    RP_INLINE void meet()
    {
        if (COPIES)
            rk_sync_copiers();
        else
            rk_sync_workers();
    }

    /* Rows that are of no request become zeros. */
    RP_INLINE void clear(const tile &r, float *to, long long row0, int count, int head)
    {
        bool any = false;
#pragma unroll
        for (int k = 0; k < RK_FLASH_ROWS / 32; k++) any = any || r.seq[rk_lane() + 32 * k] < 0;
        if (!__any_sync(RK_WARP, any)) return;
        for (int i = threadIdx.x; i < count * HD; i += WORKERS)
            if (r.seq[i / HD] < 0) to[((row0 + i / HD) * HEADS + head) * HD + i % HD] = 0.0f;
    }

    /* The items of few requests, by those who copy or by those who multiply: each goes from one to the next without the others, and has looked at the next one's rows
     * before it begins with this one. */
    template <bool COPIES>
    RP_FN void run_few(tile &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                       long long n_rows, rp_size table_width, float scale, long long n)
    {
        const int id = COPIES ? (int)threadIdx.x - WORKERS : (int)threadIdx.x;
        int used = 0, turn = (int)threadIdx.x / 128; /* tiles that went through a ring; whose turn it is to multiply */
        glance next = look(seqs, positions, n_rows, item_of(0), n, id);
        for (int round = 0; item_of(round) < n; round++) {
            const long long item = item_of(round);
            const int head = (int)(item % HEADS);
            const bool several = next.several;
            int count;
            const long long row0 = rows_of(item, n_rows, &count);
            meet<COPIES>(); /* nobody reads the rows before */
            if (id < RK_FLASH_ROWS) {
                const bool padding = next.seq < 0 || next.pos < 0;
                r.seq[id] = padding ? -1 : next.seq;
                r.pos[id] = padding ? -1 : next.pos;
            }
            meet<COPIES>();
            next = look(seqs, positions, n_rows, item_of(round + 1), n, id);
            if (several && runs::count_runs(r) > RK_FLASH_RUNS) continue;
            if (!COPIES) clear(r, to, row0, count, head);
            for (int i = 0, end; i < count; i = end) {
                const int seq = r.seq[i], positions_of = runs::find_run(r, i, count, &end), tiles = (positions_of + KEYS - 1) / KEYS;
                const cache from = {k, v, tables + (seq < 0 ? 0 : seq) * table_width, head / (HEADS / KV_HEADS), positions_of};
                if (seq < 0) continue;
                if (COPIES)
                    produce(from, used, tiles);
                else
                    consume(r, q, to, row0, i, end, head, scale, used, tiles, &turn);
                used += tiles;
            }
        }
    }

    /* All n items, first those of tiles of many requests, since groups change their registers once; those behind the heads of all tiles have work with these alone. */
    RP_FN void run(room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                   long long n_rows, long long n_tables, rp_size table_width, float scale, long long n)
    {
        const long long few = n / SPREAD;
        __syncthreads(); /* barriers are there */
        if (any_several(seqs, n_rows, few)) {
            for (long long round = 0; item_of(round) < n; round++)
                runs::template run_by<crowd>(r, q, k, v, seqs, positions, tables, to, n_rows, n_tables, table_width, scale, item_of(round));
            __syncthreads(); /* nobody reads the last item's rows */
        }
        if (threadIdx.x >= WORKERS) {
            rk_give_registers<REGISTERS_OF_COPIERS>();
            run_few<true>(r.copied, q, k, v, seqs, positions, tables, to, n_rows, table_width, scale * RK_LOG2_E, few);
        } else {
            rk_take_registers<REGISTERS_OF_WORKERS>();
            run_few<false>(r, q, k, v, seqs, positions, tables, to, n_rows, table_width, scale * RK_LOG2_E, few);
        }
    }
};
