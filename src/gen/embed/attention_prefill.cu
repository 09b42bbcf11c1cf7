/* Attention of many rows over keys and values of bf16 on tensor cores, heads of 64 or 128 dims; stands behind attention_tensor.cu, whose tiles of rows, runs of
 * requests and rounding it has, with tiles of 128 positions.
 *
 * A group of four warps copies tiles of keys and values from the blocks of the cache to two rings in shared memory, and leaves its registers to two others,
 * which have 64 rows each with their queries as operands in registers (as FlashAttention-3 does it: Shah et al., 2024). The scores of a tile and the values of
 * the tile before are multiplied together; meanwhile the other group makes weights of its scores. */
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
        bytes = BARS + 4 * STAGES * 8
    };
    static_assert((HD == 64 || HD == 128) && cells % COPIERS == 0, "what wgmma reads");
    struct room : runs::room {
        int used; /* tiles that went through a ring */
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
    RP_INLINE void start(room &r)
    {
        if (threadIdx.x) return;
        r.used = 0;
        for (int i = 0; i < STAGES; i++) {
            rk_barrier_init(keys().full(i), N - WORKERS);
            rk_barrier_init(values().full(i), N - WORKERS);
            rk_barrier_init(keys().empty(i), WORKERS / 32);
            rk_barrier_init(values().empty(i), WORKERS / 32);
        }
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
    RP_INLINE void wait(state &w)
    {
        rk_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) rk_is_there(w.s[i]);
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
    RP_INLINE void wait(state &) {}
#endif

    /* Rows from `of` on. */
    RP_INLINE void load(state &w, const room &r, const float *q, long long row0, int of, int first, int end, int head, float scale)
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
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float top = w.top[r], sum[2] = {0.0f, 0.0f};
#pragma unroll
            for (int i = 0; i < KEYS / 2; i++)
                if (i / 2 % 2 == r) top = fmaxf(top, w.s[i]);
            top = fmaxf(top, __shfl_xor_sync(RK_WARP, top, 1));
            top = fmaxf(top, __shfl_xor_sync(RK_WARP, top, 2));
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
    RP_INLINE void bounds(const room &r, int of, int first, int end, int *least, int *most)
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

    /* The scores of tile i are on their way. */
    template <bool MASKED>
    RP_INLINE void make_weights(state &w, int used, int i)
    {
        wait(w);
        keys().give(used + i);
        if (i) values().give(used + i - 1);
        if (MASKED) mask(w, i * KEYS);
        weigh(w);
        settle(w);
    }

    /* Tile i, but for its values. */
    template <bool MASKED>
    RP_INLINE void step(state &w, int used, int i)
    {
        const ring k = keys(), v = values();
        k.wait_full(used + i);
        v.wait_full(used + i - 1);
        begin(w);
        score(w, k.tile(used + i));
        gather(w, v.tile(used + i - 1));
        make_weights<MASKED>(w, used, i);
    }

    RP_INLINE void consume(const room &r, const float *q, float *to, long long row0, int first, int end, int head, float scale, int used, int tiles)
    {
        const ring k = keys(), v = values();
        const int group = (int)threadIdx.x / 128 * 64, mine = (int)threadIdx.x / 32 * 16;
        int least, most;
        state w;
        bounds(r, group, first, end, &least, &most);
        load(w, r, q, row0, mine, first, end, head, scale);
        const int own = (most + KEYS - 1) / KEYS, whole = least / KEYS;
        if (own > 0) {
            int i = 1;
            k.wait_full(used);
            begin(w);
            score(w, k.tile(used));
            make_weights<true>(w, used, 0);
            for (; i < whole; i++) step<false>(w, used, i);
            for (; i < own; i++) step<true>(w, used, i);
            v.wait_full(used + own - 1);
            begin(w);
            gather(w, v.tile(used + own - 1));
            wait(w);
            v.give(used + own - 1);
            finish(w, to, row0, mine, head);
        }
        for (int i = own; i < tiles; i++) { /* of the other group */
            k.wait_full(used + i);
            k.give(used + i);
            v.wait_full(used + i);
            v.give(used + i);
        }
    }

    /* Who does what of an item. Rows [first, end) of the tile that begins at row0 are of one request, for one head. */
    struct crowd {
        enum { MANY = 1, FEW = 0 };
        typedef rk_attn_prefill::room room;
        RP_INLINE void request(room &, const float *, const cache &, float *, long long, int, int, int, float) {}
    };
    template <bool COPIES>
    struct one_of {
        enum { MANY = 0, FEW = 1 };
        typedef rk_attn_prefill::room room;
        RP_INLINE void request(room &r, const float *q, const cache &from, float *to, long long row0, int first, int end, int head, float scale)
        {
            const int tiles = (from.n + KEYS - 1) / KEYS, used = r.used;
            if (COPIES)
                produce(from, used, tiles);
            else
                consume(r, q, to, row0, first, end, head, scale, used, tiles);
            __syncthreads();
            if (threadIdx.x == 0) r.used = used + tiles;
            __syncthreads();
        }
    };

    template <class WAY>
    RP_FN void run_items(room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                         long long n_rows, long long n_tables, rp_size table_width, float scale, long long n)
    {
        for (long long item = blockIdx.x; item < n; item += gridDim.x)
            runs::template run_by<WAY>(r, q, k, v, seqs, positions, tables, to, n_rows, n_tables, table_width, scale, item);
    }

    /* All n items, first those of tiles of many requests, since groups change their registers once. */
    RP_FN void run(room &r, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables, float *to,
                   long long n_rows, long long n_tables, rp_size table_width, float scale, long long n)
    {
        run_items<crowd>(r, q, k, v, seqs, positions, tables, to, n_rows, n_tables, table_width, scale, n);
        if (threadIdx.x >= WORKERS) {
            rk_give_registers<REGISTERS_OF_COPIERS>();
            run_items<one_of<true>>(r, q, k, v, seqs, positions, tables, to, n_rows, n_tables, table_width, scale, n);
        } else {
            rk_take_registers<REGISTERS_OF_WORKERS>();
            run_items<one_of<false>>(r, q, k, v, seqs, positions, tables, to, n_rows, n_tables, table_width, scale, n);
        }
    }
};
