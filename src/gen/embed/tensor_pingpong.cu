/* Products of many rows on tensor cores by two groups of warps in turns (ping-pong): while one multiplies a job, the other is done with the results of the job
 * before. Stands behind tensor.cu.
 *
 * A job is 128 columns of the result for COLUMNS rows, all of it by 4 warps, which have two tiles of 16 columns each: tiles i and i + 4 of what is in shared
 * memory. Where an element has two sums, of a gate and of what it lets through, the copies put these there, so that one thread has both. Chunks go through one
 * ring in the order of jobs. A group waits for its turn before it looks for its first chunk, since barriers of the ring tell one round from the next alone. A
 * third group fetches, and leaves its registers to the others. */

template <int K_, int COLUMNS_, int CHUNK_, int STAGES_>
struct rk_pingpong_rows {
    enum {
        K = K_, COLUMNS = COLUMNS_, STAGES = STAGES_, SLICES = 1, SPLITS = 1, OWN = 1, GROUP = 128, WORKERS = 2 * GROUP, THREADS = WORKERS + GROUP,
        FETCHERS = GROUP / 32, OF_TILES = FETCHERS - 1, READERS = GROUP / 32,
        CHUNK = CHUNK_, CHUNKS = (K + CHUNK - 1) / CHUNK, SLICE = CHUNKS,
        TILE_BYTES = K * 32, TILE_CHUNK = CHUNK * 32, W_BYTES = 8 * TILE_CHUNK,
        X_BYTES = COLUMNS * CHUNK * 2, STAGE = W_BYTES + X_BYTES,
        ROOM = 2 * 16 * 20 * 4, /* of a warp's results */
        SUMS = STAGES * STAGE, BARS = SUMS + WORKERS / 32 * ROOM, TURNS = BARS + STAGES * 16, BYTES = TURNS + 16
    };
    static_assert(K % 16 == 0 && COLUMNS % 16 == 0, "tile");
    /* Of two matrices, the tiles of a unit of 32 columns are two of the one, then two of the other. */
    RP_INLINE int place(int tile, int mats) { return mats == 2 ? tile % 4 / 2 * 4 + tile / 4 * 2 + tile % 2 : tile; }
};

/* Sums of a job: d[set][4 j + e] is row 8 j + 2 t + e % 2, column g + e / 2 * 8 of tile 4 set + the warp's of four. */
template <class T>
struct rk_pingpong_part {
    enum { SETS = 2, APART = 64, ROWS = T::COLUMNS };
    float d[2][T::COLUMNS / 2];

    RP_INLINE int tile(int set) { return threadIdx.x / 32 % 4 + 4 * set; }
    RP_INLINE_MEMBER const float *set(int i) const { return d[i]; }

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    /* n: chunks that the block has used. other: whose turn is next. */
    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, rp_u32 other, int n)
    {
        const bool first = threadIdx.x % 32 == 0;
        int slot = n % T::STAGES, parity = n / T::STAGES & 1, last = 0;
        for (int chunk = 0; chunk < T::CHUNKS; chunk++) {
            const int steps = rk_steps<T>(chunk);
            const rp_u32 at = ring + slot * T::STAGE;
            rk_barrier_wait(full + 8 * slot, parity);
            rk_wgmma_begin();
#pragma unroll
            for (int s = 0; s < T::CHUNK / 16; s++) {
                if (T::K % T::CHUNK && s >= steps) break;
#pragma unroll
                for (int i = 0; i < 2; i++)
                    rk_wgmma<T::COLUMNS>(d[i], rk_operand(at + (4 * i) * T::TILE_CHUNK + s * 512, T::TILE_CHUNK, 256, 3),
                                         rk_operand(at + T::W_BYTES + s * 2 * (T::COLUMNS * 16), T::COLUMNS * 16, 128, 0), chunk > 0 || s > 0);
            }
            rk_wgmma_end();
            rk_wgmma_wait<1>();
            if (chunk > 0 && first) rk_barrier_arrive(empty + 8 * last);
            last = slot;
            if (++slot == T::STAGES) {
                slot = 0;
                parity ^= 1;
            }
        }
        if (first) rk_barrier_arrive(other);
        rk_wgmma_wait<0>();
        if (first) rk_barrier_arrive(empty + 8 * last);
    }
#else
    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, rp_u32 other, int n)
    {
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, k = lane / 16 * 8 + lane % 8;
        const rp_u32 a_at = warp * T::TILE_CHUNK + k * 32 + ((lane / 8 & 1) ^ (k / 4 & 1)) * 16;
        const rp_u32 b_at = T::W_BYTES + ((lane / 8 & 1) * T::COLUMNS + lane / 16 * 8 + lane % 8) * 16;
        int slot = n % T::STAGES, parity = n / T::STAGES & 1;
#pragma unroll
        for (int i = 0; i < T::COLUMNS / 2; i++) d[0][i] = d[1][i] = 0.0f;
        for (int chunk = 0; chunk < T::CHUNKS; chunk++) {
            const int steps = rk_steps<T>(chunk);
            const rp_u32 at = ring + slot * T::STAGE;
            rk_barrier_wait(full + 8 * slot, parity);
#pragma unroll
            for (int s = 0; s < T::CHUNK / 16; s++) {
                rp_u32 a[2][4];
                if (T::K % T::CHUNK && s >= steps) break;
                rk_matrix_4_turned(a[0], at + a_at + s * 512);
                rk_matrix_4_turned(a[1], at + a_at + 4 * T::TILE_CHUNK + s * 512);
#pragma unroll
                for (int j = 0; j < T::COLUMNS / 16; j++) {
                    rp_u32 b[4];
                    rk_matrix_4(b, at + b_at + (s * 2 * T::COLUMNS + j * 16) * 16);
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        rk_mma(d[i] + 8 * j, a[i], b);
                        rk_mma(d[i] + 8 * j + 4, a[i], b + 2);
                    }
                }
            }
            __syncwarp();
            if (lane == 0) rk_barrier_arrive(empty + 8 * slot);
            if (++slot == T::STAGES) {
                slot = 0;
                parity ^= 1;
            }
        }
        if (lane == 0) rk_barrier_arrive(other);
    }
#endif
};

/* Results that go to tiles for the product behind (P::TILED), whose 8 columns of 8 rows are one behind the other. Elements are computed where their sums are, 16 rows of
 * 16 columns at a time; four lanes then have a row's 8 columns. Sums stay in registers, which are not counted by a loop: those of the 16 rows go through a lane's own room. */
template <class P, class S>
struct rk_tile_results {
    enum { HIGH = 16, ROW = 20, FLOATS = 32 * ROW, N = 1, EACH = 8 };
    const rk_job &job;
    long long row0;
    int rows;
    float *room;

    RP_INLINE_MEMBER void start(char *const *, const long long *, float (*)[P::ASKED]) const {}
    RP_INLINE_MEMBER float *own() const { return room + threadIdx.x % 32 * ROW; }

    RP_INLINE_MEMBER void stage(const S &part, int piece) const
    {
#pragma unroll
        for (int p = 0; p < S::ROWS / HIGH; p++) {
            if (p != piece) continue;
#pragma unroll
            for (int i = 0; i < 2 * EACH; i += 4) {
                const float *d = part.set(i / EACH) + EACH * p + i % EACH;
                const int4 four = {(int)__float_as_uint(d[0]), (int)__float_as_uint(d[1]), (int)__float_as_uint(d[2]), (int)__float_as_uint(d[3])};
                *(int4 *)(own() + i) = four;
            }
        }
    }

    /* Of the piece: columns g and g + 8 of rows 2 t and 2 t + 1, and of those 8 below; v: rows g, columns 2 t and 2 t + 1. */
    RP_INLINE_MEMBER void make(rp_u32 *v) const
    {
        float s[EACH][2];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int j = 0; j < EACH; j += 4) {
                const int4 four = *(const int4 *)(own() + m * EACH + j);
                s[j][m] = __int_as_float(four.x);
                s[j + 1][m] = __int_as_float(four.y);
                s[j + 2][m] = __int_as_float(four.z);
                s[j + 3][m] = __int_as_float(four.w);
            }
        rk_elements<P, EACH, EACH / 2>::run(s, v); /* registers have room for no more at once */
        __syncwarp();
#pragma unroll
        for (int j = 0; j < EACH / 2; j++) v[j] = rk_turned(v[j]);
    }

    RP_INLINE_MEMBER void run(char *const *arg, const long long *dim, const S &part, float (*)[P::ASKED]) const
    {
        const rk_tiles tiles = P::tiles(dim); /* of several rows: so many are never one behind the other */
        const int lane = threadIdx.x % 32, unit = S::tile(0) / 2, column = (job.unit + unit) * P::COLUMNS + S::tile(0) % 2 * 16;
        const int pieces = (rows < S::ROWS ? rows + HIGH - 1 : S::ROWS) / HIGH, across = tiles.high * 16;
        char *const base = P::result(arg) + (long long)(column / 8) * across + lane * 4;
        if (unit >= job.n_units || column >= P::ACROSS) return;
#pragma unroll 1
        for (int piece = 0; piece < pieces; piece++) {
            rp_u32 v[EACH / 2];
            const long long row = row0 + piece * HIGH;
            const rp_u32 in = rk_in_tile(row, tiles);
            char *const to = base + (row - in) * (P::ACROSS * 2) + in * 16;
            stage(part, piece);
            make(v);
#pragma unroll
            for (int i = 0; i < 2; i++) { /* rows 8 below */
                if (piece * HIGH + i * 8 + lane / 4 >= rows) continue;
                *(rp_u32 *)(to + i * 128) = v[2 * i];
                *(rp_u32 *)(to + i * 128 + across) = v[2 * i + 1];
            }
        }
    }
};

/* What a warp does with its sums of a job. */
template <class P, class S, bool TILED = P::TILED>
struct rk_results_in_turn {
    typedef typename rk_results_of_warp<P, S>::type type;
};
template <class P, class S>
struct rk_results_in_turn<P, S, true> {
    typedef rk_tile_results<P, S> type;
};

/* Every second job of the block. */
template <class P>
RP_FN void rk_pingpong_jobs(char *const *arg, const long long *dim, const rk_share &s, rp_u32 ring, rp_u32 full, rp_u32 empty, long long rows)
{
    typedef typename P::tile T;
    typedef rk_pingpong_part<T> sums;
    typedef typename rk_results_in_turn<P, sums>::type results;
    static_assert(results::FLOATS * 4 <= T::ROOM, "room of a warp");
    const int group = threadIdx.x / T::GROUP;
    const rp_u32 turns = ring + T::TURNS, own = turns + 8 * group, other = turns + 8 * (1 - group);
    int n = group * T::CHUNKS, turn = group;
    for (int at = s.block + group * s.blocks; at < s.jobs; at += 2 * s.blocks, n += 2 * T::CHUNKS, turn++) {
        const rk_job job = P::job(at / s.row_tiles);
        const long long row0 = (long long)(at % s.row_tiles) * T::COLUMNS;
        sums part;
        if (turn > 0) rk_barrier_wait(own, turn - 1 & 1);
        part.multiply(ring, full, empty, other, n);
        const results r = {job, row0, rows - row0 < T::COLUMNS ? (int)(rows - row0) : (int)T::COLUMNS,
                           (float *)(rk_dynamic + T::SUMS + threadIdx.x / 32 * T::ROOM)};
        float asked[results::N][P::ASKED];
        r.start(arg, dim, asked);
        r.run(arg, dim, part, asked);
    }
}

/* As rk_run_many; elements have results by themselves, of one matrix or of two. */
template <class P>
RP_FN void rk_run_pingpong(char *const *arg, const long long *dim, const char *x, const char *w, long long rows)
{
    typedef typename P::tile T;
    static_assert(P::DIRECT && (P::PAIRS || P::MATS <= 2), "results");
    const rk_share s = rk_share_of<P>(rows);
    const rp_u32 ring = rk_shared(rk_dynamic), full = ring + T::BARS, empty = full + T::STAGES * 8;
    if (threadIdx.x == 0) {
        rk_ring_open<T>(full, empty);
        for (int i = 0; i < 2; i++) rk_barrier_init(ring + T::TURNS + 8 * i, T::READERS);
        rk_barriers_visible();
    }
    __syncthreads();
    if (threadIdx.x >= T::WORKERS) {
        rk_give_registers<24>();
        const rk_source<P> source = {w, x, ring, full, empty, s};
        source.run();
    } else {
        rk_take_registers<240>();
        rk_wait();
        rk_pingpong_jobs<P>(arg, dim, s, ring, full, empty, rows);
    }
}
