/* Attention of a decode step of sequences that are enough for all multiprocessors; stands behind decode_attention.cu, whose arithmetic it has.
 *
 * A block a row and kv head. Each warp has every WARPS-th cell of 16 positions, which bulk copies bring to a ring of its own: those of earlier steps before the wait, as far as the ring goes, the
 * one with the new position after it. The block meets only at the end. */
template <int HEADS, int KV_HEADS, int HD, int WARPS, int SLOTS>
struct rk_decode_stream {
    typedef rk_decode_attention<HEADS, KV_HEADS, HD, 1, WARPS, false> one;
    typedef typename one::caches caches;
    enum { HALF = 16 * HD * 2, SLOT = 2 * HALF, BYTES = WARPS * SLOTS * SLOT }; /* bytes of a cell's keys; of dynamic shared memory */

    struct room {
        typename one::room joined;
        rp_u64 full[WARPS][SLOTS];
    };

    /* A warp's cells, which all of its lanes ask for. places: of the next 32 of them, one a lane. */
    struct walk {
        const caches &from;
        int n, sent, places; /* cells of the row */
        bool known;          /* the first places are there */
        rp_u32 ring, full;

        RP_INLINE_MEMBER int cell(int i) const { return (int)threadIdx.x / 32 + i * WARPS; }

        /* EARLY: before the wait. */
        template <bool EARLY>
        RP_INLINE_MEMBER void send(int end)
        {
            for (; sent < end; sent++) {
                if (sent % 32 == 0 && (sent || !known)) {
                    const int at = cell(sent + (int)threadIdx.x % 32);
                    places = at < n ? rk_settled(from.table + at) : 0;
                }
                const long long at = from.place(__shfl_sync(RK_WARP, places, sent % 32));
                const rp_u32 bar = full + 8 * (sent % SLOTS), to = ring + sent % SLOTS * SLOT;
                if (threadIdx.x % 32) continue;
                rk_barrier_expect(bar, SLOT);
                if (EARLY) {
                    rk_fetch_early(to, from.k + at, HALF, bar);
                    rk_fetch_early(to + HALF, from.v + at, HALF, bar);
                } else {
                    rk_fetch_once(to, from.k + at, HALF, bar);
                    rk_fetch_once(to + HALF, from.v + at, HALF, bar);
                }
            }
        }
    };

    template <class OUT>
    RP_INLINE void run(room &r, const char *q, const char *k, const char *v, const char *seqs, const char *positions, const char *tables, const OUT &to, long long width, long long items, float scale)
    {
        const int item = blockIdx.x, head = item % KV_HEADS, row = item / KV_HEADS, warp = threadIdx.x / 32;
        typename one::cell c;
        typename one::running w;
        int4 queries[one::D];

        rk_launch_dependents();
        if (item >= items) {
            rk_wait();
            return;
        }
        if (threadIdx.x % 32 == 0) {
            for (int i = 0; i < SLOTS; i++) rk_barrier_init(rk_shared(&r.full[warp][i]), 1);
            rk_barriers_visible();
        }
        __syncwarp();
        /* The table of the sequence that a row is of as a rule is asked for together with which it is. A row of padding has none: it reads position 0 of the first one, and nobody reads what
         * becomes of it. */
        const int first = warp + (int)threadIdx.x % 32 * WARPS;
        const int seq = rk_settled((const rp_i32 *)seqs + row), at = rk_settled((const rp_i32 *)positions + row), likely = first < width ? rk_settled((const rp_i32 *)tables + row * width + first) : 0;
        const int position = seq < 0 ? 0 : at, n = position / 16 + 1;
        const caches from = {(const rp_u16 *)k, (const rp_u16 *)v, (const rp_i32 *)tables + (seq < 0 ? 0 : seq) * width, head};
        const int mine = n > warp ? (n - warp + WARPS - 1) / WARPS : 0, old = (n - 1) % WARPS == warp ? mine - 1 : mine;
        walk cells = {from, n, 0, likely, seq == row, rk_shared(rk_dynamic) + warp * (SLOTS * SLOT), rk_shared(r.full[warp])};
        cells.template send<true>(old < SLOTS ? old : SLOTS);
        w.clear();
        rk_wait();
        cells.template send<false>(mine < SLOTS ? mine : SLOTS);
        one::load_queries(queries, (const rp_u16 *)q, row, head);
        for (int i = 0; i < mine; i++) {
            const int slot = i % SLOTS, count = position + 1 - cells.cell(i) * 16;
            const char *at = rk_dynamic + warp * (SLOTS * SLOT) + slot * SLOT;
            rk_barrier_wait(rk_shared(&r.full[warp][slot]), i / SLOTS & 1);
            c.take(c.k, at, 16);
            c.take(c.v, at + HALF, count);
            __syncwarp(); /* the slot has been read */
            cells.template send<false>(i + 1 + SLOTS < mine ? i + 1 + SLOTS : mine);
            c.turn();
            w.add(queries, c, 0, count, scale);
        }
        w.store(r.joined.out[warp], r.joined.stats[warp]);
        __syncthreads();
        one::send_block(r.joined, 0);
        __syncthreads();
        one::join(r.joined, 0, row, head, to);
    }
};
