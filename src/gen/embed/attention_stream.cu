/* Attention of rows that are enough for all multiprocessors over keys and values of bf16 on tensor cores; stands behind attention_split.cu, whose arithmetic it
 * has, bit for bit.
 *
 * Blocks stay, each with a part of the rows and kv heads. A warp asks for the cells of its chunks some cells ahead, over the borders of rows, by bulk copies to a
 * ring of its own in shared memory, so that the block meets only when the results of chunks are joined, and memory is busy with what comes next meanwhile. */
#define RK_STREAM_ROWS 64 /* of a step at most */

/* SLOTS: cells of a warp under way; CHUNKS: whose results a block has at once, a multiple of WARPS. */
template <int HEADS, int KV_HEADS, int HD, int BLOCK, int WARPS, int SLOTS, int CHUNKS>
struct rk_attn_stream {
    typedef rp_u16 element;
    typedef rk_attn_split<HEADS, KV_HEADS, HD, BLOCK, 1, WARPS> split;
    typedef typename split::cache cache;
    typedef typename split::guess guess;
    enum {
        N = WARPS * 32,
        units = split::units,
        key_pieces = 2 * split::k_pieces, /* of a lane and cell */
        value_pieces = 4 * split::v_pieces,
        half = 32 * HD, /* bytes of a cell's keys, and of its values */
        slot = 2 * half,
        ring = SLOTS * slot /* of a warp */
    };
    static_assert(CHUNKS % WARPS == 0 && SLOTS <= 32, "chunks of all warps, cells of a look at the table");

    struct room {
        typename split::four out[CHUNKS][split::fours];
        float base[CHUNKS][split::queries], sum[CHUNKS][split::queries];
        float top[split::queries], shrink[split::queries];
        rp_u64 full[WARPS][SLOTS]; /* barriers */
        rp_i32 seq[RK_STREAM_ROWS], n[RK_STREAM_ROWS]; /* of a row: its request, 0 for none; positions */
    };
    enum { bytes = (int)sizeof(room) + WARPS * ring }; /* of dynamic shared memory: the rings, then the room */

    RP_INLINE guess no_guess() { return split::no_guess(); }
    RP_INLINE guess announce(const element *k, const element *v, const rp_i32 *positions, const rp_i32 *tables, long long n_tables, rp_size width,
                             long long n_blocks, long long item)
    {
        return split::template announce<SLOTS>(k, v, positions, tables, n_tables, width, n_blocks, item);
    }

    RP_INLINE room &room_of() { return *(room *)(rk_dynamic + WARPS * ring); }
    RP_INLINE int warp() { return (int)threadIdx.x / 32; }

    /* What a step gives all items. */
    struct step {
        const float *q;
        const element *k, *v;
        const rp_i32 *seqs, *positions, *tables;
        float *to;
        long long n_tables;
        rp_size width;
        float scale;
        int rows, items;

        RP_INLINE_MEMBER cache cache_of(int item, int seq, int n) const
        {
            const cache c = {k, v, tables + seq * width, item / split::parts % KV_HEADS, n};
            return c;
        }
    };

    /* The cells that the warp is to ask for: number i of an item is next, and goes to a slot of the ring. */
    struct walk {
        int item, i, at;
        int found, later; /* places of cells, one a lane: of this item, of the block's next */
        cache from;

        RP_INLINE_MEMBER bool has() const { return cache::position_of(warp(), WARPS, i) < (rp_u32)from.n; }

        RP_INLINE_MEMBER void look(const step &s, const room &r, int where)
        {
            item = where;
            i = 0;
            from = s.cache_of(item, item < s.items ? r.seq[item / units] : 0, item < s.items ? r.n[item / units] : 0);
        }

        /* At the block's item `where`; what is later is looked up long before. */
        RP_INLINE_MEMBER void open(const step &s, const room &r, int where)
        {
            const int next = where + (int)gridDim.x;
            look(s, r, next);
            const int ahead = from.look_up(warp(), WARPS, 0, from.n);
            look(s, r, where);
            found = later;
            later = ahead;
        }

        RP_INLINE_MEMBER void send_cell(room &r)
        {
            const int cell = __shfl_sync(RK_WARP, found, i % 32);
            if (rk_lane() == 0) {
                const rp_u32 to = rk_shared(rk_dynamic) + warp() * ring + at * slot, bar = rk_shared(&r.full[warp()][at]);
                rk_barrier_expect(bar, slot);
                rk_fetch_once(to, from.k + (rp_size)cell * (16 * HD), half, bar);
                rk_fetch_once(to + half, from.v + (rp_size)cell * (16 * HD), half, bar);
            }
            i++;
            at = at + 1 < SLOTS ? at + 1 : 0;
        }

        /* The next cell is asked for, where there is one. */
        RP_INLINE_MEMBER void send(const step &s, room &r)
        {
            while (item < s.items && !has()) open(s, r, item + (int)gridDim.x);
            if (item >= s.items) return;
            if (i % 32 == 0 && i) found = from.look_up(warp(), WARPS, i, from.n);
            send_cell(r);
        }
    };

    /* Asks for as much as the ring holds. What small reads give comes late once the memory is full of copies, so the rows' requests and positions and the tables of
     * the first two items are asked for first, and then the cells that the hint names, which are the right ones as a rule. Gives the cells of those that were not. */
    RP_INLINE int begin(walk &w, const step &s, room &r, const guess &hint)
    {
        const int id = threadIdx.x, first = blockIdx.x, next = first + (int)gridDim.x, row = first / units, next_row = next / units;
        const int seq = id < s.rows ? s.seqs[id] : -1, position = id < s.rows ? s.positions[id] : -1;
        const cache likely = s.cache_of(first, row, hint.n), likely_next = s.cache_of(next, next_row, 0);
        const int found = likely.look_up(warp(), WARPS, 0, row < s.n_tables ? s.width * BLOCK : 0);
        const int later = likely_next.look_up(warp(), WARPS, 0, next < s.items && next_row < s.n_tables ? s.width * BLOCK : 0);
        int sent = 0;
        static_assert(N >= RK_STREAM_ROWS, "a thread for each row");
        w.item = first;
        w.at = w.i = 0;
        w.from = likely;
        w.found = hint.found;
        while (sent < SLOTS && w.has() && __shfl_sync(RK_WARP, w.found, sent) >= 0) {
            w.send_cell(r);
            sent++;
        }
        if (id < s.rows) {
            r.seq[id] = seq < 0 ? 0 : seq;
            r.n[id] = seq < 0 || position < 0 ? 0 : position + 1;
        }
        __syncthreads();
        w.look(s, r, next);
        w.later = next < s.items && r.seq[next_row] != next_row ? w.from.look_up(warp(), WARPS, 0, w.from.n) : later;
        w.look(s, r, first);
        w.found = r.seq[row] != row ? w.from.look_up(warp(), WARPS, 0, w.from.n) : found;
        const bool differs = (int)cache::position_of(warp(), WARPS, rk_lane()) < w.from.n && w.found != hint.found;
        const bool wrong = hint.n != w.from.n || __any_sync(RK_WARP, differs);
        for (int i = 0; wrong && i < sent; i++) rk_barrier_wait(rk_shared(&r.full[warp()][i]), 0);
        w.i = wrong ? 0 : sent;
        for (int i = w.i; i < SLOTS; i++) w.send(s, r);
        return wrong ? sent : 0;
    }

    /* The lane's shares of the cell in a slot; positions from `left` on are zeros. */
    RP_INLINE void take_keys(int4 *to, const char *from)
    {
        const int g = rk_lane() / 4, t = rk_lane() % 4;
        const int4 none = {0, 0, 0, 0};
#pragma unroll
        for (int p = 0; p < key_pieces; p++) {
            const int piece = t + p / 2 * 4;
            to[p] = piece < split::pieces ? *(const int4 *)(from + split::key_position(g, p % 2) * (2 * HD) + piece * 16) : none;
        }
    }
    RP_INLINE void take_values(int4 *to, const char *from, int left)
    {
        const int g = rk_lane() / 4, t = rk_lane() % 4;
        const int4 none = {0, 0, 0, 0};
#pragma unroll
        for (int p = 0; p < value_pieces; p++) {
            const int piece = g + p / 4 * 8, position = 4 * t + p % 4;
            to[p] = position < left && piece < split::pieces ? *(const int4 *)(from + half + position * (2 * HD) + piece * 16) : none;
        }
    }

    /* The warp's chunks of a round [first, end), of a row of n positions. at, phase: of the ring's slot that is next. */
    RP_INLINE void sweep(typename split::state &w, walk &ahead, const step &s, room &r, int &at, int &phase, int first, int end, int n)
    {
        for (int c = first + warp(); c < end; c += WARPS) {
            typename split::result mine;
            mine.clear();
#pragma unroll 1
            for (int p = c * split::C; p < n && p < (c + 1) * split::C; p += 16) {
                const char *from = rk_dynamic + warp() * ring + at * slot;
                float x[4], base, sum;
                rk_barrier_wait(rk_shared(&r.full[warp()][at]), phase);
                take_keys(w.k, from);
                take_values(w.v, from, n - p);
                split::score(w, w.k, x);
                split::weigh(x, n - p, &base, &sum);
                split::gather(mine, x, base, sum, w.v);
                __syncwarp();
                ahead.send(s, r);
                phase ^= at + 1 == SLOTS;
                at = at + 1 < SLOTS ? at + 1 : 0;
            }
            split::hand_over(mine, r, c - first);
        }
    }

    /* Where the heads of an item begin, how many there are. */
    RP_INLINE int head_of(int item) { return item / split::parts % KV_HEADS * split::group + item % split::parts * split::queries; }
    RP_INLINE int heads_of(int item)
    {
        const int left = split::group - head_of(item) % split::group;
        return left < split::queries ? left : split::queries;
    }

    /* By all threads of the block, between the wait and the end of the kernel. */
    RP_FN void run(const step &s, const guess &hint)
    {
        room &r = room_of();
        walk ahead;
        typename split::state w;
        int4 asked[key_pieces];
        int item = blockIdx.x;
        if (item >= s.items) return;
        if (rk_lane() == 0) {
            for (int i = 0; i < SLOTS; i++) rk_barrier_init(rk_shared(&r.full[warp()][i]), 1);
            rk_barriers_visible();
        }
        __syncwarp();
        split::ask_queries(asked, s.q + (rp_size)(item / units * HEADS + head_of(item)) * HD, heads_of(item));
        const int wrong = begin(ahead, s, r, hint);
        int at = wrong % SLOTS, phase = wrong / SLOTS;
        for (; item < s.items; item += (int)gridDim.x) {
            const int n = r.n[item / units], chunks = (n + split::C - 1) / split::C, heads = heads_of(item), next = item + (int)gridDim.x;
            float *to = s.to + (rp_size)(item / units * HEADS + head_of(item)) * HD;
            typename split::outputs all;
            split::start(w, asked, s.scale * RK_LOG2_E);
            if (next < s.items) split::ask_queries(asked, s.q + (rp_size)(next / units * HEADS + head_of(next)) * HD, heads_of(next));
            split::clear(all);
            for (int first = 0; first < chunks; first += CHUNKS) {
                const int end = chunks - first < CHUNKS ? chunks : first + CHUNKS;
                sweep(w, ahead, s, r, at, phase, first, end, n);
                __syncthreads();
                split::weigh_chunks(r, end - first, first > 0);
                split::join(r, all, 0, end - first);
                __syncthreads(); /* the results have been read */
            }
            if (n > 0) split::finish(all, to, 0, heads);
            for (int d = threadIdx.x; n <= 0 && d < heads * HD; d += N) to[d] = 0.0f; /* of padding */
        }
    }
};
