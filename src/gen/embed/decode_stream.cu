/* Attention of a decode step of sequences that are enough for all multiprocessors; stands behind decode_attention.cu, whose arithmetic it has.
 *
 * A block takes rows and kv heads in turn, gridDim.x apart. Each warp has every WARPS-th cell of 16 positions, which bulk copies bring to a ring of its own: of its first row those of earlier steps
 * before the wait, as far as the ring goes, all others after it, and those of the next row while the last ones of this are used. The block meets only at the end of a row. */
template <int HEADS, int KV_HEADS, int HD, int WARPS, int SLOTS>
struct rk_decode_stream {
    typedef rk_decode_attention<HEADS, KV_HEADS, HD, 1, WARPS, false> one;
    enum { HALF = 16 * HD * 2, SLOT = 2 * HALF, BYTES = WARPS * SLOTS * SLOT }; /* bytes of a cell's keys; of dynamic shared memory */

    struct room {
        typename one::room joined;
        rp_u64 full[WARPS][SLOTS];
    };

    /* A row and kv head: which sequence, where its new position is, and of its table what this warp begins with. */
    struct place {
        int row, head, position, n, seq, likely; /* n: cells; 0: there is none */
        bool known;                              /* `likely` is of the row's sequence */

        RP_INLINE_MEMBER void ask(int item, long long items, const char *seqs, const char *positions, const char *tables, long long width)
        {
            /* The table of the sequence that a row is of as a rule is asked for together with which it is. A row of padding has none: it reads position 0 of the first one, and nobody reads what
             * becomes of it. */
            const int first = cell(threadIdx.x % 32);
            n = 0;
            if (item >= items) return;
            row = item / KV_HEADS;
            head = item % KV_HEADS;
            const int of = rk_settled((const rp_i32 *)seqs + row), at = rk_settled((const rp_i32 *)positions + row);
            likely = first < width ? rk_settled((const rp_i32 *)tables + row * width + first) : 0;
            seq = of < 0 ? 0 : of;
            known = of == row;
            position = of < 0 ? 0 : at;
            n = position / 16 + 1;
        }
        RP_INLINE_MEMBER int mine() const { return (n + WARPS - 1 - (int)threadIdx.x / 32) / WARPS; } /* cells of the warp */
    };

    /* The i-th cell of the warp. */
    RP_INLINE int cell(int i) { return (int)threadIdx.x / 32 + i * WARPS; }

    /* What a warp asks for, with all of its lanes: cells of one row, behind them those of the next, as the ring has room. places: of the next 32 of them, one a lane. */
    struct walk {
        const rp_u16 *k, *v;
        rp_u32 ring, full;
        int slot, under_way; /* to fill next; cells that are in the ring or on their way */
        const rp_i32 *table;
        int n, mine, head, sent, places; /* of the row: cells, those of the warp, of these asked for */
        bool known;                      /* the first places are there */

        RP_INLINE_MEMBER void open(const place &p, const char *tables, long long width)
        {
            n = p.n;
            mine = p.mine();
            head = p.head;
            table = (const rp_i32 *)tables + p.seq * width;
            sent = 0;
            places = p.likely;
            known = p.known;
        }

        /* EARLY: before the wait. */
        template <bool EARLY>
        RP_INLINE_MEMBER void send(int end)
        {
            for (; sent < end && under_way < SLOTS; sent++, under_way++) {
                if (sent % 32 == 0 && (sent || !known)) {
                    const int at = cell(sent + (int)threadIdx.x % 32);
                    places = at < n ? rk_settled(table + at) : 0;
                }
                const int block = __shfl_sync(RK_WARP, places, sent % 32);
                const long long at = ((long long)block * KV_HEADS + head) * 16 * HD;
                const rp_u32 bar = full + 8 * slot, to = ring + slot * SLOT;
                slot = slot + 1 == SLOTS ? 0 : slot + 1;
                if (threadIdx.x % 32) continue;
                rk_barrier_expect(bar, SLOT);
                if (EARLY) {
                    rk_fetch_early(to, k + at, HALF, bar);
                    rk_fetch_early(to + HALF, v + at, HALF, bar);
                } else {
                    rk_fetch_once(to, k + at, HALF, bar);
                    rk_fetch_once(to + HALF, v + at, HALF, bar);
                }
            }
        }
    };

    template <class OUT>
    RP_INLINE void run(room &r, const char *q, const char *k, const char *v, const char *seqs, const char *positions, const char *tables, const OUT &to, long long width, long long items, float scale)
    {
        const int warp = threadIdx.x / 32, step = gridDim.x;
        int item = blockIdx.x;
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
        place now, next;
        now.ask(item, items, seqs, positions, tables, width);
        walk cells = {(const rp_u16 *)k, (const rp_u16 *)v, rk_shared(rk_dynamic) + warp * (SLOTS * SLOT), rk_shared(r.full[warp])};
        cells.open(now, tables, width);
        cells.template send<true>((now.n - 1) % WARPS == warp ? cells.mine - 1 : cells.mine);
        rk_wait();
        cells.template send<false>(cells.mine);
        for (int used = 0, parity = 0; item < items; item += step, now = next) {
            const int mine = now.mine();
            bool ahead = false; /* it asks for the next row's cells already */
            next.ask(item + step, items, seqs, positions, tables, width);
            one::load_queries(queries, (const rp_u16 *)q, now.row, now.head);
            w.clear();
            for (int i = 0; i < mine; i++) {
                const int count = now.position + 1 - cell(i) * 16;
                const char *at = rk_dynamic + warp * (SLOTS * SLOT) + used * SLOT;
                rk_barrier_wait(rk_shared(&r.full[warp][used]), parity);
                c.take(c.k, at, 16);
                c.take(c.v, at + HALF, count);
                if (++used == SLOTS) {
                    used = 0;
                    parity ^= 1;
                }
                __syncwarp(); /* the slot has been read */
                cells.under_way--;
                if (!ahead && cells.sent == mine && next.n) {
                    cells.open(next, tables, width);
                    ahead = true;
                }
                cells.template send<false>(cells.mine);
                c.turn();
                w.add(queries, c, 0, count, scale);
            }
            if (!ahead && next.n) cells.open(next, tables, width);
            cells.template send<false>(cells.mine);
            w.store(r.joined.out[warp], r.joined.stats[warp]);
            __syncthreads();
            one::send_block(r.joined, 0);
            __syncthreads();
            one::join(r.joined, 0, now.row, now.head, to);
        }
    }
};
