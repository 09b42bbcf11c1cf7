/* Products of up to 8 rows on tensor cores. Stands behind tensor.cu. */

/* Every warp has a slice of k, and a ring of its own in shared memory that its first lane fills by bulk copies of CHUNK steps of k. Units of TILES tiles at most, for up to ROWS
 * rows of K. Before the wait, CAP copies of a warp are under way: many would delay the few bytes that the kernels in front still wait for. The result's columns are the rows of mma, so one to 8 rows cost the same; partial sums are added in the order of warps. */
template <int K_, int ROWS_, int TILES_, int CHUNK_, int SLOTS_, int CAP_>
struct rk_few_rows {
    enum {
        K = K_, ROWS = ROWS_, TILES = TILES_, SLOTS = SLOTS_, CAP = CAP_, WARPS = 8, THREADS = WARPS * 32,
        STEPS = K / 16, SLICE = (STEPS + WARPS - 1) / WARPS,          /* of 16 k: of all, of a warp */
        CHUNK = CHUNK_, CHUNKS = (SLICE + CHUNK - 1) / CHUNK,          /* steps of a copy, copies of a tile's slice */
        WHOLE = SLICE % CHUNK == 0 && STEPS % CHUNK == 0,             /* no copy is shorter than others */
        CHUNK_BYTES = CHUNK * 512, TILE_BYTES = K * 32,
        COLUMNS = TILES * 16,
        X_ROW = K * 2 + 16, /* bytes of a row; odd multiples of 16 keep ldmatrix from conflicts */
        PART = WARPS * ROWS * COLUMNS, /* partial sums of a unit; there are two sets */
        RING = 0, X = RING + WARPS * SLOTS * CHUNK_BYTES, ZERO = X + ROWS * X_ROW, PARTS = ZERO + 16,
        SUMS = PARTS + 2 * PART * 4, BARS = SUMS + ROWS * COLUMNS * 4, BYTES = BARS + WARPS * SLOTS * 8
    };
    static_assert(K % 16 == 0 && ROWS <= 8, "tile");
};

/* A warp's ring. All lanes count along, the first one fetches: U::at(unit) says where a unit lies. */
template <class T, class U>
struct rk_ring {
    const char *w;
    rp_u32 slots, bars, parity;
    int steps, chunks; /* of this warp's slice, its copies a tile */
    int unit, tile, chunk; /* to be fetched next */
    rk_unit u;
    int slot;

    RP_INLINE_MEMBER bool more() const { return unit < U::N; }

    RP_INLINE_MEMBER void fetch(int to)
    {
        const int left = steps - chunk * T::CHUNK, bytes = (left < T::CHUNK ? left : T::CHUNK) * 512;
        rk_barrier_expect(bars + 8 * to, bytes);
        rk_fetch_once(slots + to * T::CHUNK_BYTES, w + (u.first + (long long)tile * u.step) * T::TILE_BYTES + chunk * T::CHUNK_BYTES, bytes, bars + 8 * to);
        if (++chunk < chunks) return;
        chunk = 0;
        if (++tile < u.tiles) return;
        tile = 0;
        unit += gridDim.x;
        if (more()) u = U::at(unit);
    }

    RP_INLINE_MEMBER void start(const char *weights)
    {
        const int warp = threadIdx.x / 32, left = T::STEPS - warp * T::SLICE;
        steps = left < 0 ? 0 : left < T::SLICE ? left : (int)T::SLICE;
        chunks = (steps + T::CHUNK - 1) / T::CHUNK;
        w = weights + warp * T::SLICE * 512;
        slots = rk_shared(rk_dynamic) + T::RING + warp * T::SLOTS * T::CHUNK_BYTES;
        bars = rk_shared(rk_dynamic) + T::BARS + warp * T::SLOTS * 8;
        parity = 0;
        slot = tile = chunk = 0;
        unit = steps ? (int)blockIdx.x : (int)U::N;
        if (more()) u = U::at(unit);
        if (threadIdx.x % 32 == 0) {
            for (int i = 0; i < T::SLOTS; i++) rk_barrier_init(bars + 8 * i, 1);
            rk_barriers_visible();
            for (int i = 0; i < T::CAP && more(); i++) fetch(i);
        }
        __syncwarp();
    }

    /* The rest of the ring, each copy when one before it has arrived. */
    RP_INLINE_MEMBER void fill()
    {
        if (T::CAP < T::SLOTS && threadIdx.x % 32 == 0)
            for (int i = T::CAP; i < T::SLOTS && more(); i++) {
                rk_barrier_wait(bars + 8 * (i - T::CAP), 0);
                fetch(i);
            }
        __syncwarp();
    }

    /* The address of the next chunk, once it is there. */
    RP_INLINE_MEMBER rp_u32 take() const
    {
        rk_barrier_wait(bars + 8 * slot, parity);
        return slots + slot * T::CHUNK_BYTES;
    }

    /* All lanes have used it: its slot is filled again. */
    RP_INLINE_MEMBER void give()
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0 && more()) fetch(slot);
        if (++slot == T::SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
};

/* n rows as bf16. */
template <class P>
RP_FN void rk_stage(char *const *arg, const long long *dim, const typename P::rows::type *x, int n)
{
    typedef typename P::tile T;
    typedef typename P::rows X;
    /* All that a thread brings at once, where it is no more than registers hold. */
    enum { SHARE = (T::ROWS * (T::K / 8) + T::THREADS - 1) / T::THREADS, AHEAD = SHARE < 32 ? SHARE : 32 };
    const int total = n * (T::K / 8); /* eight elements a thread */
    for (int first = threadIdx.x; first < total; first += AHEAD * T::THREADS) {
        int4 v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (first + j * T::THREADS < total) {
                const int i = first + j * T::THREADS;
                v[j] = X::load(x + P::place(arg, dim, i / (T::K / 8)) * T::K + i % (T::K / 8) * 8);
            }
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int i = first + j * T::THREADS;
            if (i < total) *(int4 *)(rk_dynamic + T::X + i / (T::K / 8) * T::X_ROW + i % (T::K / 8) * 16) = v[j];
        }
    }
}

/* N steps of k, of which shared memory is asked for at once: even ones are added to c, odd ones to d. x: of the lane, lanes from 16 on those of the next step. */
template <int N>
RP_INLINE void rk_few_steps(float *c, float *d, rp_u32 w, rp_u32 x, rp_u32 x_step)
{
    rp_u32 a[N][4], b[N + 1][2];
#pragma unroll
    for (int s = 0; s < N; s++) {
        rk_matrix_4_turned(a[s], w + s * 512);
        if (s % 2 == 0 && s + 1 < N) rk_matrix_4(b[s], x + s * x_step);
        if (s % 2 == 0 && s + 1 == N) rk_matrix_2(b[s], x + s * x_step);
    }
#pragma unroll
    for (int s = 0; s < N; s++) rk_mma(s % 2 ? d : c, a[s], b[s]);
}

/* One tile's sums over the warp's slice, to parts[warp][row][columns]. */
template <class T, class R>
RP_INLINE void rk_few_tile(R &ring, rp_u32 x, rp_u32 x_step, float *parts)
{
    const int lane = threadIdx.x % 32, k = lane / 16 * 8 + lane % 8, half = (lane / 8 & 1) ^ (k / 4 & 1);
    const rp_u32 own = k * 32 + half * 16;
    float c[4] = {0, 0, 0, 0}, d[4] = {0, 0, 0, 0};
    for (int chunk = 0; chunk < ring.chunks; chunk++) {
        const int left = ring.steps - chunk * T::CHUNK;
        const rp_u32 at = ring.take() + own, from = x + chunk * T::CHUNK * x_step;
        if (T::WHOLE || left >= T::CHUNK) {
            rk_few_steps<T::CHUNK>(c, d, at, from, x_step);
        } else {
#pragma unroll
            for (int s = 0; s < T::CHUNK; s++) {
                if (s >= left) break;
                rk_few_steps<1>(s % 2 ? d : c, d, at + s * 512, from + s * x_step, x_step);
            }
        }
        ring.give();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = lane % 4 * 2 + (i & 1), column = lane / 4 + (i & 2) * 4;
        if (row < T::ROWS) parts[(threadIdx.x / 32 * T::ROWS + row) * T::COLUMNS + column] = c[i] + d[i];
    }
}

/* Column c of a row, over all slices of k. */
template <class T>
RP_INLINE float rk_few_sum(const float *parts, int row, int c)
{
    float s = 0.0f;
#pragma unroll
    for (int v = 0; v < T::WARPS; v++) s += parts[(v * T::ROWS + row) * T::COLUMNS + c];
    return s;
}

/* The unit's results: this thread's element of each set of THREADS, for which it asked before. */
template <class P>
RP_FN void rk_few_results(char *const *arg, const long long *dim, int unit, int mats, int rows, const float *parts, const float (*asked)[P::ASKED])
{
    typedef typename P::tile T;
#pragma unroll
    for (int j = 0; j < (T::ROWS * P::COLUMNS + T::THREADS - 1) / T::THREADS; j++) {
        const int i = threadIdx.x + j * T::THREADS, row = i / P::COLUMNS, c = i % P::COLUMNS;
        float s[P::MATS];
        if (row >= rows) break;
#pragma unroll
        for (int m = 0; m < P::MATS; m++) s[m] = P::PAIRS ? rk_few_sum<T>(parts, row, c ^ m) : m < mats ? rk_few_sum<T>(parts, row, m * P::COLUMNS + c) : 0.0f;
        P::put(arg, dim, unit, row, c, s, asked[j]);
    }
}

/* The same by rows. */
template <class P>
RP_FN void rk_few_rows_of(char *const *arg, const long long *dim, int unit, int mats, int rows, const float *parts)
{
    typedef typename P::tile T;
    float *const sums = (float *)(rk_dynamic + T::SUMS);
    const int columns = mats * P::COLUMNS, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < rows * columns; i += T::THREADS) sums[i] = rk_few_sum<T>(parts, i / columns, i % columns);
    __syncthreads();
    if (warp < rows) P::end(arg, dim, unit, warp, sums + warp * columns);
}

/* What the unit's results need besides sums. */
template <class P>
RP_INLINE void rk_few_ask(char *const *arg, const long long *dim, int unit, int rows, float (*asked)[P::ASKED])
{
    typedef typename P::tile T;
    if (!P::DIRECT || unit >= P::N) return;
#pragma unroll
    for (int j = 0; j < (T::ROWS * P::COLUMNS + T::THREADS - 1) / T::THREADS; j++) {
        const int i = threadIdx.x + j * T::THREADS;
        if (i < rows * P::COLUMNS) P::ask(arg, dim, unit, i / P::COLUMNS, i % P::COLUMNS, asked[j]);
    }
}

/* P: tile, type of rows, an epilogue, and where its units lie: at(). rows: up to T::ROWS, which lie at x, or the only one is MADE here. */
template <class P>
RP_FN void rk_run_few(char *const *arg, const long long *dim, const char *x, const char *w, int rows)
{
    typedef typename P::tile T;
    typedef typename P::rows X;
    static_assert(!P::MADE || T::ROWS == 1, "several rows are made once, for all blocks");
    enum { EACH = (T::ROWS * P::COLUMNS + T::THREADS - 1) / T::THREADS };
    float *parts = (float *)(rk_dynamic + T::PARTS), *other = parts + T::PART;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    rk_ring<T, P> ring;
    typename P::maker maker;
    ring.start(w);
    maker.start(arg, (char *)parts, 2 * T::PART * 4);
    ring.fill();
    rk_wait();
    float asked[EACH][P::ASKED];
    rk_few_ask<P>(arg, dim, blockIdx.x, rows, asked);
    maker.ready();
    if (threadIdx.x < 4) ((rp_u32 *)(rk_dynamic + T::ZERO))[threadIdx.x] = 0;
    if (P::MADE)
        maker.row(arg, dim, rk_dynamic + T::X, 0);
    else
        rk_stage<P>(arg, dim, (const typename P::rows::type *)x, rows);
    __syncthreads();
    /* A lane's row of x; rows that are not there are zeros, all in one place. */
    const bool has = lane % 8 < rows;
    const rp_u32 from = rk_shared(rk_dynamic) + (has ? T::X + lane % 8 * T::X_ROW + (warp * T::SLICE + lane / 16) * 32 + (lane / 8 & 1) * 16 : T::ZERO), step = has ? 32 : 0;
    for (int unit = blockIdx.x; unit < P::N; unit += gridDim.x) {
        const rk_unit u = P::at(unit);
        const int mats = u.tiles * 16 / P::COLUMNS;
        if (unit != (int)blockIdx.x) rk_few_ask<P>(arg, dim, unit, rows, asked);
        for (int j = 0; j < u.tiles; j++) rk_few_tile<T>(ring, from, step, parts + j * 16);
        __syncthreads();
        if (P::DIRECT)
            rk_few_results<P>(arg, dim, unit, mats, rows, parts, asked);
        else
            rk_few_rows_of<P>(arg, dim, unit, mats, rows, parts);
        float *const used = parts; /* while the next unit's are written */
        parts = other;
        other = used;
    }
}
