/* Attention of a decode step (decode.cu, behind which it stands): one new token a sequence over cached blocks. */

/* Where results go, WIDE elements a row: float32 rows, x of decode.cu's o, tiles of decode_many.cu's. */
template <int WIDE>
struct rk_attended_rows {
    float *to;
    RP_INLINE_MEMBER void put(int row, int column, float v) const { to[(long long)row * WIDE + column] = v; }
};
template <int WIDE>
struct rk_attended_x {
    rp_u16 *to;
    RP_INLINE_MEMBER void put(int row, int column, float v) const { to[(long long)row * WIDE + rk_place_of(column)] = rk_half(v); }
};
struct rk_attended_tiles {
    rp_u16 *to;
    rk_tiles tiles;
    RP_INLINE_MEMBER void put(int row, int column, float v) const { to[rk_tile_column(row, column, tiles)] = rk_half(v); }
};

/* One cluster of BLOCKS blocks a row and kv head; all query heads of the kv head together. A warp takes cells of 16 cached positions, the first of them (with AHEAD the next one, too) before the
 * wait; the last warp of the first block takes the new position after it. Every warp ends with a maximum, a sum and weighted values a head. A block joins those of its warps and sends each part
 * to the block that owns these outputs, which joins the blocks' parts. Both in fixed order. */
template <int HEADS, int KV_HEADS, int HD, int BLOCKS, int WARPS, bool AHEAD>
struct rk_decode_attention {
    enum {
        THREADS = WARPS * 32,
        QUERIES = HEADS / KV_HEADS, QUERIES_2 = QUERIES > 4 ? 8 : QUERIES > 2 ? 4 : QUERIES, /* to a power of two */
        OUTPUTS = QUERIES_2 * HD,
        OWN = OUTPUTS / BLOCKS,                  /* outputs of a block */
        OWN_HEADS = OWN > HD ? OWN / HD : 1,     /* heads that they are of */
        SENT_BYTES = BLOCKS * (OWN * 4 + OWN_HEADS * 8),
        WORKERS = BLOCKS * WARPS - 1,
        D = HD / 32
    };
    static_assert(QUERIES <= 8 && OWN >= 8 && OWN % 2 == 0 && HD % 32 == 0, "attention");

    struct room {
        float out[WARPS][OUTPUTS];
        rk_two stats[WARPS][QUERIES_2]; /* maximum, sum */
        float sent[BLOCKS][OWN];        /* by the blocks of the cluster */
        rk_two sent_stats[BLOCKS][OWN_HEADS];
        rp_u64 bar;
    };

    struct caches {
        const rp_u16 *k, *v;
        const rp_i32 *table; /* of the row */
        int head;

        RP_INLINE_MEMBER long long place(int block) const { return ((long long)block * KV_HEADS + head) * 16 * HD; }
        RP_INLINE_MEMBER long long at(int cell) const { return place(rk_settled(table + cell)); }
    };

    /* 16 cached positions: lane 4g+t has dims 32d + 8t .. + 7 of positions g and g + 8. So keys are B fragments; values are, once each 8x8 of them has been turned, with
     * dims 32d + 8t + 2i, + 1 as columns of tile 4d + i. */
    struct cell {
        int4 k[2][D], v[2][D];

        /* Values of positions outside [from, to) are 0, since 0 times what is there may be NaN. */
        template <bool EARLY>
        RP_INLINE_MEMBER void load(const caches &c, long long at, int from, int to)
        {
            const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
            const int4 none = {0, 0, 0, 0};
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int row = 8 * j + g;
#pragma unroll
                for (int d = 0; d < D; d++) {
                    const long long place = at + row * HD + 32 * d + 8 * t;
                    const bool has = row >= from && row < to;
                    k[j][d] = !has ? none : EARLY ? rk_load_early(c.k + place) : rk_load(c.k + place);
                    v[j][d] = !has ? none : EARLY ? rk_load_early(c.v + place) : rk_load(c.v + place);
                }
            }
        }

        /* The same from shared memory, of which positions before `to` are there. Rows are 32 banks or a multiple apart, so that quads beside each other read what is 32 dims apart. */
        RP_INLINE_MEMBER void take(int4 (*x)[D], const char *from, int to)
        {
            const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
            const int4 none = {0, 0, 0, 0};
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int row = 8 * j + g;
                int4 piece[D];
#pragma unroll
                for (int d = 0; d < D; d++) {
                    const int of = (d | 1) < D ? d ^ (g & 1) : d;
                    piece[d] = row < to ? *(const int4 *)(from + row * (2 * HD) + of * 64 + t * 16) : none;
                }
#pragma unroll
                for (int d = 0; d < D; d++) x[j][d] = (d | 1) < D && g % 2 ? piece[d ^ 1] : piece[d];
            }
        }

        RP_INLINE_MEMBER void turn()
        {
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int d = 0; d < D; d++) {
                    v[j][d].x = (int)rk_turned((rp_u32)v[j][d].x);
                    v[j][d].y = (int)rk_turned((rp_u32)v[j][d].y);
                    v[j][d].z = (int)rk_turned((rp_u32)v[j][d].z);
                    v[j][d].w = (int)rk_turned((rp_u32)v[j][d].w);
                }
        }
    };

    /* A warp's running result for heads g: maximum (of scores times log2 e), this lane's part of the sum, and out[4d + i] = dims 32d + 8t + 2i, + 1. */
    struct running {
        float top, sum, out[HD / 8][4];

        RP_INLINE_MEMBER void clear()
        {
            top = -RP_INF;
            sum = 0.0f;
#pragma unroll
            for (int n = 0; n < HD / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) out[n][i] = 0.0f;
        }

        RP_INLINE void add_product(float *c, rp_u32 a0, rp_u32 a2, int b0, int b1)
        {
            const rp_u32 a[4] = {a0, 0, a2, 0}, b[2] = {(rp_u32)b0, (rp_u32)b1};
            rk_mma(c, a, b);
        }

        /* Of a cell, positions [from, to) count, at least one. */
        RP_INLINE_MEMBER void add(const int4 *q, const cell &c, int from, int to, float scale)
        {
            const int t = threadIdx.x % 4;
            float s[2][4];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
#pragma unroll
                for (int d = 0; d < D; d++) {
                    add_product(s[j], (rp_u32)q[d].x, (rp_u32)q[d].y, c.k[j][d].x, c.k[j][d].y);
                    add_product(s[j], (rp_u32)q[d].z, (rp_u32)q[d].w, c.k[j][d].z, c.k[j][d].w);
                }
            }
            float best = -RP_INF;
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int row = 8 * j + 2 * t + i;
                    s[j][i] = row >= from && row < to ? s[j][i] * scale : -RP_INF;
                    best = fmaxf(best, s[j][i]);
                }
            best = fmaxf(best, __shfl_xor_sync(RK_WARP, best, 1));
            best = fmaxf(best, __shfl_xor_sync(RK_WARP, best, 2));
            best = fmaxf(best, top);
            const float shrink = rk_exp2(top - best);
            float p[4];
#pragma unroll
            for (int i = 0; i < 4; i++) p[i] = rk_exp2(s[i / 2][i % 2] - best);
            sum = sum * shrink + ((p[0] + p[1]) + (p[2] + p[3]));
            top = best;
            const rp_u32 a0 = rk_pack(p[0], p[1]), a2 = rk_pack(p[2], p[3]);
#pragma unroll
            for (int n = 0; n < HD / 8; n++) {
                out[n][0] *= shrink;
                out[n][1] *= shrink;
            }
#pragma unroll
            for (int d = 0; d < D; d++) {
                add_product(out[4 * d], a0, a2, c.v[0][d].x, c.v[1][d].x);
                add_product(out[4 * d + 1], a0, a2, c.v[0][d].y, c.v[1][d].y);
                add_product(out[4 * d + 2], a0, a2, c.v[0][d].z, c.v[1][d].z);
                add_product(out[4 * d + 3], a0, a2, c.v[0][d].w, c.v[1][d].w);
            }
        }

        /* To the warp's part of shared memory. */
        RP_INLINE_MEMBER void store(float *to, rk_two *stats)
        {
            const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
            sum = rk_quad_sum(sum);
            if (g >= QUERIES_2) return;
#pragma unroll
            for (int n = 0; n < HD / 8; n++) {
                const rk_two two = {out[n][0], out[n][1]};
                *(rk_two *)(to + g * HD + n / 4 * 32 + 8 * t + n % 4 * 2) = two;
            }
            const rk_two s = {top, sum};
            if (t == 0) stats[g] = s;
        }
    };

    /* What a part with this maximum counts beside one with the maximum top. */
    RP_INLINE float weight(float mine, float top) { return mine == -RP_INF ? 0.0f : rk_exp2(mine - top); }

    template <class X>
    RP_INLINE void give(room &r, X *p, const X &x, int rank)
    {
        if (BLOCKS > 1)
            rk_send(p, x, &r.bar, rank);
        else
            *p = x;
    }

    /* Joins the warps' parts of this block, two outputs at a time, and sends them to their owner. */
    RP_INLINE void send_block(room &r, int rank)
    {
        for (int f = threadIdx.x * 2; f < OUTPUTS; f += THREADS * 2) {
            const int head = f / HD, owner = f / OWN;
            float top = -RP_INF, sum = 0.0f;
            rk_two out = {0.0f, 0.0f};
#pragma unroll
            for (int w = 0; w < WARPS; w++) top = fmaxf(top, r.stats[w][head].a);
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                const rk_two s = r.stats[w][head], o = *(const rk_two *)(r.out[w] + f);
                const float x = weight(s.a, top);
                sum = __fmaf_rn(x, s.b, sum);
                out.a = __fmaf_rn(x, o.a, out.a);
                out.b = __fmaf_rn(x, o.b, out.b);
            }
            give(r, (rk_two *)(r.sent[rank] + f % OWN), out, owner);
            if (f % (OWN < HD ? OWN : HD) == 0) {
                const rk_two s = {top, sum};
                give(r, &r.sent_stats[rank][f % OWN / HD], s, owner);
            }
        }
    }

    /* Threads that join an output together. */
    RP_INLINE int share()
    {
        int n = 1;
        while (n < 16 && n * 2 <= BLOCKS && n * 2 * OWN <= THREADS) n *= 2;
        return n;
    }

    /* Joins what all blocks have sent for this block's outputs. */
    template <class OUT>
    RP_INLINE void join(const room &r, int rank, int row, int head, const OUT &to)
    {
        const int n = share(), sub = threadIdx.x % n;
        for (int first = 0; first < OWN; first += THREADS / n) {
            const int mine = first + threadIdx.x / n, at = mine < OWN ? mine : 0, f = rank * OWN + mine;
            float top = -RP_INF, sum = 0.0f, out = 0.0f;
            for (int i = sub; i < BLOCKS; i += n) top = fmaxf(top, r.sent_stats[i][at / HD].a);
            for (int o = 1; o < n; o *= 2) top = fmaxf(top, __shfl_xor_sync(RK_WARP, top, o));
            for (int i = sub; i < BLOCKS; i += n) {
                const rk_two s = r.sent_stats[i][at / HD];
                const float x = weight(s.a, top);
                sum = __fmaf_rn(x, s.b, sum);
                out = __fmaf_rn(x, r.sent[i][at], out);
            }
            for (int o = 1; o < n; o *= 2) {
                sum += __shfl_xor_sync(RK_WARP, sum, o);
                out += __shfl_xor_sync(RK_WARP, out, o);
            }
            if (sub || mine >= OWN || f >= QUERIES * HD) continue;
            to.put(row, head * QUERIES * HD + f, out / sum);
        }
    }

    RP_INLINE void load_queries(int4 *to, const rp_u16 *q, int row, int head)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const int4 none = {0, 0, 0, 0};
#pragma unroll
        for (int d = 0; d < D; d++) to[d] = g < QUERIES ? rk_load(q + (row * HEADS + head * QUERIES + g) * HD + 32 * d + 8 * t) : none;
    }

    template <class OUT>
    RP_INLINE void run(room &r, const char *q, const char *k, const char *v, const char *seqs, const char *positions, const char *tables, const OUT &to, long long width, long long items, float scale)
    {
        const int item = (int)blockIdx.x / BLOCKS, head = item % KV_HEADS, row = item / KV_HEADS, rank = BLOCKS > 1 ? rk_cluster_rank() : 0;
        const int warp = threadIdx.x / 32;
        const bool fresh = rank == 0 && warp == WARPS - 1;
        const int worker = rank * WARPS + warp - (rank > 0);
        cell c, next;
        running w;
        int4 queries[D];

        rk_launch_dependents();
        if (item >= items) { /* the whole cluster */
            rk_wait();
            return;
        }
        if (BLOCKS > 1 && threadIdx.x == 0) {
            rk_barrier_init(rk_shared(&r.bar), 1);
            rk_barriers_visible();
            rk_barrier_expect(rk_shared(&r.bar), SENT_BYTES);
        }
        /* A row of padding has no sequence: it reads position 0 of the first one, and nobody reads what becomes of it. */
        const int seq = rk_settled((const rp_i32 *)seqs + row), position = rk_settled((const rp_i32 *)positions + row), n = seq < 0 ? 0 : (position + 15) / 16;
        const caches from = {(const rp_u16 *)k, (const rp_u16 *)v, (const rp_i32 *)tables + (seq < 0 ? 0 : seq) * width, head};
        int i = worker;
        w.clear();
        if (!fresh && i < n) {
            c.template load<true>(from, from.at(i), 0, position - i * 16);
            if (AHEAD && i + WORKERS < n) next.template load<true>(from, from.at(i + WORKERS), 0, position - (i + WORKERS) * 16);
            c.turn();
        }
        const long long now = fresh ? from.at(position / 16) : 0;
        /* No block may send before the others' barriers are there. */
        if (BLOCKS > 1) {
            rk_cluster_arrive();
            rk_cluster_wait();
        }
        rk_wait();
        load_queries(queries, (const rp_u16 *)q, row, head);
        if (fresh) {
            c.template load<false>(from, now, position % 16, position % 16 + 1);
            c.turn();
            w.add(queries, c, position % 16, position % 16 + 1, scale);
        } else {
            for (; i < n; i += WORKERS) {
                const int then = i + WORKERS;
                w.add(queries, c, 0, position - i * 16, scale);
                if (then >= n) break;
                if (AHEAD) {
                    c = next;
                    if (then + WORKERS < n) next.template load<false>(from, from.at(then + WORKERS), 0, position - (then + WORKERS) * 16);
                } else {
                    c.template load<false>(from, from.at(then), 0, position - then * 16);
                }
                c.turn();
            }
        }
        w.store(r.out[warp], r.stats[warp]);
        __syncthreads();
        send_block(r, rank);
        if (BLOCKS > 1)
            rk_barrier_wait_cluster(rk_shared(&r.bar), 0);
        else
            __syncthreads();
        join(r, rank, row, head, to);
    }
};
