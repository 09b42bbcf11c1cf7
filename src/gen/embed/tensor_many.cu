/* Products of many rows on tensor cores: rows in tiles, jobs, what fetches, what multiplies. Stands behind tensor.cu; what becomes of sums is tensor_results.cu. */

/* n rows of K as bf16 in tiles of COLUMNS: what a bulk copy brings is what ldmatrix reads. Rows that fill the last tile are zeros. A warp takes some rows and
 * neighbouring pieces of 8, so that it reads and writes whole lines. */
template <class X, int K, int COLUMNS>
RP_FN void rk_arrange_rows(const typename X::type *x, char *to, long long n)
{
    enum { PIECES = K % 32 ? 2 : 4, ROWS = 32 / PIECES };
    const int high = rk_high(COLUMNS, n), size = high * (K / 8);
    const long long total = (n + COLUMNS - 1) / COLUMNS * size;
    rk_wait();
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total; i += (long long)gridDim.x * blockDim.x) {
        const long long tile = i / size;
        const int rest = (int)(i % size), group = rest / 32, lane = rest % 32;
        const int in_tile = group % (high / ROWS) * ROWS + lane / PIECES, piece = group / (high / ROWS) * PIECES + lane % PIECES;
        const long long row = tile * COLUMNS + in_tile;
        const int4 none = {0, 0, 0, 0};
        *(int4 *)(to + ((tile * (K / 8) + piece) * high + in_tile) * 16) = row < n ? X::load(x + row * K + piece * 8) : none;
    }
}

/* The same of rows that are made here, in shared memory, each by a block: few of them. */
template <class P, int K, int COLUMNS>
RP_FN void rk_make_rows_apart(char *const *arg, const long long *dim, char *to, long long n)
{
    const int high = rk_high(COLUMNS, n);
    const long long total = (n + COLUMNS - 1) / COLUMNS * high;
    typename P::maker maker;
    maker.start(arg, 0, 0);
    rk_wait();
    maker.ready();
    for (long long row = blockIdx.x; row < total; row += gridDim.x) {
        if (row < n) maker.row(arg, dim, rk_dynamic, row);
        __syncthreads();
        for (int i = threadIdx.x; i < K / 8; i += blockDim.x) {
            const int4 none = {0, 0, 0, 0};
            *(int4 *)(to + ((row / COLUMNS * (K / 8) + i) * high + row % COLUMNS) * 16) = row < n ? *(const int4 *)(rk_dynamic + i * 16) : none;
        }
        __syncthreads();
    }
}

/* The same, each by one of ROWS warps. */
template <class P, int K, int COLUMNS, int ROWS>
RP_FN void rk_make_rows(char *const *arg, const long long *dim, char *to, long long n)
{
    enum { ROW = K * 2 + 16 };
    const long long tiles = (n + COLUMNS - 1) / COLUMNS * (COLUMNS / ROWS);
    const int warp = threadIdx.x / 32;
    typename P::maker maker;
    maker.start(arg, 0, 0);
    rk_wait();
    maker.ready();
    for (long long t = blockIdx.x; t < tiles; t += gridDim.x) {
        const long long row0 = t * ROWS;
        if (row0 + warp < n) maker.row(arg, dim, rk_dynamic + warp * ROW, row0 + warp);
        __syncthreads();
        for (int i = threadIdx.x; i < K / 8 * ROWS; i += ROWS * 32) {
            const int4 none = {0, 0, 0, 0};
            *(int4 *)(to + ((row0 / COLUMNS * (K / 8) + i / ROWS) * COLUMNS + row0 % COLUMNS + i % ROWS) * 16) =
                row0 + i % ROWS < n ? *(const int4 *)(rk_dynamic + i % ROWS * ROW + i / ROWS * 16) : none;
        }
        __syncthreads();
    }
}

/* TILES tiles of weights, 128, 96 or 64 columns of the result, for COLUMNS rows. FETCHERS warps bring chunks of k into a ring, 8 warps multiply. SLICES of k are summed apart
 * and then added; SPLITS blocks of a cluster have as many slices each, and share what is left to do. ONE: no block has more than one job, so that its sums lie where the
 * ring was. HIGH: rows that may be there, which are multiplied, of a tile that has room for COLUMNS. */
template <int K_, int TILES_, int COLUMNS_, int CHUNK_, int STAGES_, int SLICES_, int SPLITS_, int PIECE_, int ONE_, int HIGH_ = COLUMNS_, int FETCHERS_ = SLICES_ == 1 || (COLUMNS_ > 64) ? 4 : 1>
struct rk_many_rows {
    enum {
        K = K_, TILES = TILES_, COLUMNS = COLUMNS_, HIGH = HIGH_, STAGES = STAGES_, SLICES = SLICES_, SPLITS = SPLITS_, WORKERS = 256,
        FETCHERS = FETCHERS_, OF_TILES = FETCHERS == 1 ? 1 : FETCHERS - 1, /* warps that fetch, and of these tiles of weights */
        THREADS = WORKERS + FETCHERS * 32, READERS = WORKERS / 32, /* warps that read a chunk */
        CHUNK = CHUNK_, CHUNKS = (K + CHUNK - 1) / CHUNK, SLICE = (CHUNKS + SLICES - 1) / SLICES,
        OWN = SLICES / SPLITS, /* slices of a block */
        BUSY = SLICES == 1 || COLUMNS > 64, /* tensor cores set the pace, not memory */
        HALVES = SPLITS == 2 && COLUMNS == 128, /* each of two blocks ends half of the rows */
        TILE_BYTES = K * 32, TILE_CHUNK = CHUNK * 32, W_BYTES = TILES * TILE_CHUNK,
        X_BYTES = COLUMNS * CHUNK * 2, STAGE = W_BYTES + X_BYTES,
        ROW = 132, /* floats of a row of sums: no conflicts */
        PIECE = PIECE_ < HIGH ? PIECE_ : HIGH, PIECES = HIGH / PIECE, SUM = PIECE_ * ROW, /* rows whose sums are in shared memory at once; what there is for them */
        ONE = ONE_, SUMS = ONE ? 0 : STAGES * STAGE,
        BARS = STAGES * STAGE + (ONE ? 0 : SUM * 4), BYTES = BARS + STAGES * 16
    };
    static_assert(K % 16 == 0 && (TILES == 8 || ((TILES == 4 || TILES == 6) && PIECES == 1)) && COLUMNS % 64 == 0 && HIGH % 32 == 0 && HIGH % PIECE == 0, "tile");
    static_assert(SPLITS == 1 || (OWN * SPLITS == SLICES && (HALVES ? TILES == 8 && OWN == 1 && HIGH == 128 : PIECES == 1 && ONE)), "slices");
    static_assert((SPLITS > 1 && !HALVES ? (int)OWN : 1) * SUM * 4 <= BARS - SUMS, "sums");
    RP_INLINE int place(int tile, int) { return tile; }
};

/* Registers of a thread: all warps of a group call it. */
template <int N>
RP_INLINE void rk_take_registers()
{
#if defined __CUDA_ARCH_FEAT_SM90_ALL && !defined RK_EMULATED
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N>
RP_INLINE void rk_give_registers()
{
#if defined __CUDA_ARCH_FEAT_SM90_ALL && !defined RK_EMULATED
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}

template <class T>
RP_INLINE int rk_steps(int chunk)
{
    return T::K % T::CHUNK && chunk == T::CHUNKS - 1 ? T::K % T::CHUNK / 16 : T::CHUNK / 16;
}

/* What a block does: jobs from `block` on, `blocks` apart, and of each of them `chunks` from `first` on. high: of tiles of rows. */
struct rk_share {
    int row_tiles, high, jobs, block, blocks, first, chunks;
};

template <class P>
RP_INLINE rk_share rk_share_of(long long rows)
{
    typedef typename P::tile T;
    rk_share s;
    const int rank = T::SPLITS > 1 ? rk_cluster_rank() : 0;
    s.row_tiles = P::ONCE ? 1 : (int)((rows + T::COLUMNS - 1) / T::COLUMNS);
    s.high = rk_high(T::COLUMNS, rows);
    s.jobs = P::JOBS * s.row_tiles;
    s.block = blockIdx.x / T::SPLITS;
    s.blocks = gridDim.x / T::SPLITS;
    s.first = rank * (T::OWN * T::SLICE);
    s.chunks = T::SPLITS == 1 ? (int)T::CHUNKS : T::CHUNKS - s.first < T::OWN * T::SLICE ? T::CHUNKS - s.first : T::OWN * T::SLICE;
    return s;
}

/* Of several warps that fetch, the last one fetches rows, the others every so many tiles of weights: a warp starts the copies of its lanes one by one, and nine
 * of them would take longer than the products of a chunk. */
template <class T>
RP_INLINE int rk_fetcher()
{
    return (threadIdx.x - T::WORKERS) / 32;
}
/* The tile of weights of a lane; none where there are not so many. */
template <class T>
RP_INLINE int rk_fetched_tile()
{
    const int lane = threadIdx.x % 32;
    if (T::FETCHERS == 1) return lane;
    return rk_fetcher<T>() < T::OF_TILES ? rk_fetcher<T>() + T::OF_TILES * lane : 32;
}

/* Chunks one after the other, as a warp that fetches counts them: a division for each would take longer than to start the copies. */
template <class P>
struct rk_cursor {
    typedef typename P::tile T;
    const char *w, *x; /* of the lane's tile of weights, of the rows: where the chunk is */
    int at, tiles, chunk, slot, parity;
    bool has; /* that tile is one of the job's */

    RP_INLINE_MEMBER void open(const rk_share &s, const char *weights, const char *rows)
    {
        const rk_job job = P::job(at / s.row_tiles);
        tiles = job.to ? (job.to - job.from) * 2 : job.tiles;
        has = job.has(rk_fetched_tile<T>());
        chunk = 0;
        w = weights + (job.first + rk_fetched_tile<T>()) * T::TILE_BYTES + s.first * T::TILE_CHUNK;
        x = rows + ((long long)(at % s.row_tiles) * (T::K / 8) + s.first * (T::CHUNK / 8)) * (s.high * 16);
    }

    RP_INLINE_MEMBER void next(const rk_share &s, const char *weights, const char *rows)
    {
        if (++slot == T::STAGES) {
            slot = 0;
            parity ^= 1;
        }
        w += T::TILE_CHUNK;
        x += T::CHUNK / 8 * (s.high * 16);
        if (++chunk < s.chunks) return;
        at += s.blocks;
        if (at < s.jobs) open(s, weights, rows);
    }
};

/* A warp that fetches: a lane a tile of weights, and one for the rows. Each expects what it copies. */
template <class P>
struct rk_source {
    typedef typename P::tile T;
    const char *w, *x;
    rp_u32 ring, full, empty;
    rk_share s;

    RP_INLINE_MEMBER void weights(const rk_cursor<P> &c) const
    {
        const int steps = rk_steps<T>(s.first + c.chunk), bytes = steps * 512, tile = rk_fetched_tile<T>();
        const rp_u32 to = ring + c.slot * T::STAGE + T::place(tile, P::PAIRS ? 1 : P::MATS) * T::TILE_CHUNK, bar = full + 8 * c.slot;
        if (threadIdx.x % 32 == 0) {
            const int tiles = T::OF_TILES > 1 ? (tile < c.tiles ? (c.tiles - tile + T::OF_TILES - 1) / T::OF_TILES : 0) : tile < 32 ? c.tiles : 0;
            const bool rows = rk_fetcher<T>() == T::FETCHERS - 1;
            rk_barrier_expect(bar, tiles * bytes + (rows ? steps * 32 * s.high : 0));
        }
        __syncwarp();
        if (!c.has) return;
        if (P::ONCE)
            rk_fetch_once(to, c.w, bytes, bar);
        else
            rk_fetch(to, c.w, bytes, bar);
    }

    RP_INLINE_MEMBER void rows(const rk_cursor<P> &c) const
    {
        if (rk_fetcher<T>() == T::FETCHERS - 1 && threadIdx.x % 32 == 8)
            rk_fetch(ring + c.slot * T::STAGE + T::W_BYTES, c.x, rk_steps<T>(s.first + c.chunk) * 32 * s.high, full + 8 * c.slot);
    }

    RP_INLINE_MEMBER void run() const
    {
        int mine = s.jobs > s.block ? (s.jobs - s.block + s.blocks - 1) / s.blocks : 0;
        while (P::DEALT && mine && !P::job((s.block + (mine - 1) * s.blocks) / s.row_tiles).tiles) mine--;
        const int total = mine * s.chunks, ahead = total < T::STAGES ? total : (int)T::STAGES;
        rk_cursor<P> first, c;
        first.at = s.block;
        first.slot = 0;
        first.parity = 1; /* 0 once the ring is full */
        if (total) first.open(s, w, x);
        c = first;
        for (int i = 0; i < ahead; i++, first.next(s, w, x)) weights(first);
        rk_wait();
        for (int i = 0; i < ahead; i++, c.next(s, w, x)) rows(c);
        for (int i = ahead; i < total; i++, c.next(s, w, x)) {
            rk_barrier_wait(empty + 8 * c.slot, c.parity);
            weights(c);
            rows(c);
        }
    }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Two warpgroups: of 8 tiles each takes 4 for all rows, of 6 the first or the last 4, of 4 all for half of the rows. wgmma reads both operands as the copies left them; rows that are not there are
 * what lies behind the others, and so are their sums. Sums: [4 j + e] is row 8 j + 2 t + e % 2, column g + e / 2 * 8 of the warp's 16. */
template <class T>
struct rk_part {
    enum {
        WIDE = T::TILES > 4, SETS = 1, APART = 0, ROWS = WIDE ? (int)T::HIGH : T::HIGH / 2,
        BEHIND = T::BUSY /* chunks still multiplied while the next is waited for; few rows wait for memory alone, which shall have their room at once */
    };
    float d[ROWS / 2];

    RP_INLINE int tile(int) { return WIDE ? threadIdx.x / 32 - threadIdx.x / 128 * (8 - T::TILES) : threadIdx.x / 32 % 4; }
    RP_INLINE int row() { return WIDE ? 0 : threadIdx.x / 128 * ROWS; }
    RP_INLINE bool again() { return T::TILES == 6 && threadIdx.x / 32 - 4 < 2; } /* what another warp has, too */
    RP_INLINE_MEMBER const float *set(int) const { return d; }

    RP_INLINE_MEMBER void add(const rk_part &other)
    {
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++) d[i] += other.d[i];
    }

    /* Chunks [begin, end), more of them or the first; n: those that the block has used. */
    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, int high, int &n, int begin, int end, bool more = false)
    {
        const rp_u32 w = WIDE ? threadIdx.x / 128 * ((T::TILES - 4) * T::TILE_CHUNK) : 0, x = T::W_BYTES + row() * 16;
        const bool first = threadIdx.x % 32 == 0;
        for (int chunk = begin; chunk < end; chunk++, n++) {
            const int slot = n % T::STAGES, steps = rk_steps<T>(chunk);
            const rp_u32 at = ring + slot * T::STAGE;
            rk_barrier_wait(full + 8 * slot, n / T::STAGES & 1);
            rk_wgmma_begin();
#pragma unroll
            for (int s = 0; s < T::CHUNK / 16; s++) {
                if (T::K % T::CHUNK && s >= steps) break;
                rk_wgmma<ROWS>(d, rk_operand(at + w + s * 512, T::TILE_CHUNK, 256, 3), rk_operand(at + x + s * 2 * (high * 16), high * 16, 128, 0),
                               more || chunk > begin || s > 0);
            }
            rk_wgmma_end();
            rk_wgmma_wait<BEHIND>();
            if (chunk >= begin + BEHIND && first) rk_barrier_arrive(empty + 8 * ((n - BEHIND) % T::STAGES));
        }
        rk_wgmma_wait<0>();
        if (BEHIND && first) rk_barrier_arrive(empty + 8 * ((n - 1) % T::STAGES));
    }

    /* Rows [PIECE * piece, + PIECE). */
    RP_INLINE_MEMBER void store(float *sums, int piece) const
    {
        enum { HERE = ROWS / T::PIECES };
        float *to = sums + (row() + threadIdx.x % 4 * 2) * T::ROW + tile(0) * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int p = 0; p < T::PIECES; p++)
#pragma unroll
            for (int i = 0; i < HERE / 2; i++)
                if (p == piece) to[(i / 4 * 8 + i % 2) * T::ROW + (i & 2) * 4] = d[HERE / 2 * p + i];
    }
};

#else

/* 8 warps, each 32 columns of the result for a half or a quarter of the rows, 16 at least; those that are left (of 6 tiles the last two) do what the first do. */
template <class T>
struct rk_part {
    enum { ACROSS = T::TILES / 2, DOWN = 8 / ACROSS < T::HIGH / 16 ? 8 / ACROSS : T::HIGH / 16, SETS = 2, APART = 16, ROWS = T::HIGH / DOWN };
    float c[2][ROWS / 8][4];

    RP_INLINE int tile(int set) { return threadIdx.x / 32 % ACROSS * 2 + set; }
    RP_INLINE int row() { return threadIdx.x / 32 / ACROSS % DOWN * ROWS; }
    RP_INLINE bool again() { return threadIdx.x / 32 >= ACROSS * DOWN; }
    RP_INLINE_MEMBER const float *set(int i) const { return c[i][0]; }

    RP_INLINE_MEMBER void add(const rk_part &other)
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++) c[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4] += other.c[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4];
    }

    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, int high, int &n, int begin, int end, bool more = false)
    {
        const int lane = threadIdx.x % 32, k = lane / 16 * 8 + lane % 8;
        const rp_u32 a_at = tile(0) * T::TILE_CHUNK + k * 32 + ((lane / 8 & 1) ^ (k / 4 & 1)) * 16;
        const rp_u32 b_at = T::W_BYTES + ((lane / 8 & 1) * high + row() + lane / 16 * 8 + lane % 8) * 16;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < ROWS / 8 && !more; j++) c[i][j][0] = c[i][j][1] = c[i][j][2] = c[i][j][3] = 0.0f;
        for (int chunk = begin; chunk < end; chunk++, n++) {
            const int slot = n % T::STAGES, steps = rk_steps<T>(chunk);
            const rp_u32 at = ring + slot * T::STAGE;
            rk_barrier_wait(full + 8 * slot, n / T::STAGES & 1);
#pragma unroll
            for (int s = 0; s < T::CHUNK / 16; s++) {
                rp_u32 a[2][4];
                if (T::K % T::CHUNK && s >= steps) break;
                rk_matrix_4_turned(a[0], at + a_at + s * 512);
                rk_matrix_4_turned(a[1], at + a_at + T::TILE_CHUNK + s * 512);
#pragma unroll
                for (int j = 0; j < ROWS / 16; j++) {
                    rp_u32 b[4];
                    rk_matrix_4(b, at + b_at + (s * 2 * high + j * 16) * 16);
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        rk_mma(c[i][2 * j], a[i], b);
                        rk_mma(c[i][2 * j + 1], a[i], b + 2);
                    }
                }
            }
            __syncwarp();
            if (lane == 0) rk_barrier_arrive(empty + 8 * slot);
        }
    }

    RP_INLINE_MEMBER void store(float *sums, int piece) const
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int at = row() + j * 8;
                    if (at / T::PIECE == piece)
                        sums[(at % T::PIECE + lane % 4 * 2 + (e & 1)) * T::ROW + tile(i) * 16 + lane / 4 + (e & 2) * 4] = c[i][j][e];
                }
    }
};

#endif
