/* Products of bf16 weights and float rows on tensor cores, as CUDA C. Rows are rounded to bf16 (nearest even), sums and what follows are float32. docs/ir.md
 * says how far results may be from those of matmul.cu.
 *
 * Weights: tiles of 16 columns of the result, [k][16], the two halves of row k exchanged where k & 4 (gen/pack.h): what ldmatrix reads without bank conflicts
 * and what wgmma calls the 32-byte swizzle.
 *
 * Weights are asked for before rk_wait. The order of a sum depends on K alone. */

/* ---- instructions: the emulated GPU of the tests has its own ------------------------------------------------------------------------- */

#ifndef RK_EMULATED

extern __shared__ __align__(1024) char rk_dynamic[];

RP_INLINE rp_u32 rk_shared(const void *p) { return (rp_u32)__cvta_generic_to_shared(p); }

RP_INLINE void rk_barrier_init(rp_u32 bar, rp_u32 arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

RP_INLINE void rk_barriers_visible()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Arrives, and waits for so many bytes more. */
RP_INLINE void rk_barrier_expect(rp_u32 bar, rp_u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

RP_INLINE void rk_barrier_wait(rp_u32 bar, rp_u32 parity)
{
    asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT_%=;\n}" ::"r"(bar), "r"(parity)
                 : "memory");
}

/* Weights to shared memory, where the barrier expects them; what is read once a step must not push anything else out of L2. */
RP_INLINE void rk_fetch_once(rp_u32 to, const void *from, rp_u32 bytes, rp_u32 bar)
{
    rp_u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar), "l"(policy)
                 : "memory");
}

RP_INLINE void rk_barrier_arrive(rp_u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }

RP_INLINE void rk_fetch(rp_u32 to, const void *from, rp_u32 bytes, rp_u32 bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
RP_INLINE void rk_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RP_INLINE void rk_wgmma_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int N>
RP_INLINE void rk_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
#endif

/* The first 256 threads of a block. */
RP_INLINE void rk_sync_workers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

/* 8x8 matrices, whose rows of 16 bytes lanes 8 i .. 8 i + 7 name: lane 4 g + t gets elements 2 t, 2 t + 1 of row g. */
RP_INLINE void rk_matrix_4(rp_u32 *v, rp_u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at)
                 : "memory");
}

RP_INLINE void rk_matrix_2(rp_u32 *v, rp_u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(at) : "memory");
}

/* The same turned: elements 2 t, 2 t + 1 of column g. */
RP_INLINE void rk_matrix_4_turned(rp_u32 *v, rp_u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at)
                 : "memory");
}

/* c += a * b of 16 rows, 16 k, 8 columns. */
RP_INLINE void rk_mma(float *c, const rp_u32 *a, const rp_u32 *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* lo and hi rounded to bf16, nearest even. */
RP_INLINE rp_u32 rk_pack(float lo, float hi)
{
    rp_u32 two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(hi), "f"(lo));
    return two;
}

RP_INLINE float rk_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 16 bytes that other kernels write: never from the first-level cache. */
RP_INLINE int4 rk_load(const void *p)
{
    int4 v;
    asm volatile("ld.global.cg.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}

#endif

/* Descriptor of an operand of wgmma. Elements along k, no swizzle (0): core matrices of 8x8 are `leading` bytes apart in k, `stride` in the other
 * direction. Elements along the rows, 32 bytes swizzled (3): 16 rows from the next 16, 8 k from the next 8. */
RP_INLINE rp_u64 rk_operand(rp_u32 at, rp_u32 leading, rp_u32 stride, int swizzle)
{
    return (rp_u64)((at & 0x3ffff) >> 4) | (rp_u64)(leading >> 4) << 16 | (rp_u64)(stride >> 4) << 32 | (rp_u64)swizzle << 62;
}

/* Rows in memory: load() gives 8 elements as bf16. */
struct rk_rows_bf16 {
    typedef rp_u16 type;
    RP_INLINE int4 load(const rp_u16 *p) { return rk_load(p); }
};
struct rk_rows_f32 {
    typedef float type;
    RP_INLINE int4 load(const float *p)
    {
        const int4 a = rk_load(p), b = rk_load(p + 4);
        int4 v;
        v.x = (int)rk_pack(__int_as_float(a.x), __int_as_float(a.y));
        v.y = (int)rk_pack(__int_as_float(a.z), __int_as_float(a.w));
        v.z = (int)rk_pack(__int_as_float(b.x), __int_as_float(b.y));
        v.w = (int)rk_pack(__int_as_float(b.z), __int_as_float(b.w));
        return v;
    }
};

/* Columns of a result that a block makes at once: `tiles` tiles of the packed weights, the first at `first`, `step` apart. */
struct rk_unit {
    long long first;
    int tiles, step;
};

/* ---- up to 8 rows ----------------------------------------------------------------------------------------------------------------------- */

/* Every warp has a slice of k, and a ring of its own in shared memory that its first lane fills by bulk copies. Units of TILES tiles at most, for up to ROWS
 * rows of K. The result's columns are the rows of mma, so one to 8 rows cost the same; partial sums are added in the order of warps. */
template <int K_, int ROWS_, int TILES_, int SLOTS_>
struct rk_few_rows {
    enum {
        K = K_, ROWS = ROWS_, TILES = TILES_, SLOTS = SLOTS_, WARPS = 8, THREADS = WARPS * 32,
        STEPS = K / 16, SLICE = (STEPS + WARPS - 1) / WARPS,          /* of 16 k: of all, of a warp */
        CHUNKS = (SLICE + 7) / 8, CHUNK = (SLICE + CHUNKS - 1) / CHUNKS, /* copies of a tile's slice, steps of a copy */
        CHUNK_BYTES = CHUNK * 512, TILE_BYTES = K * 32,
        COLUMNS = TILES * 16,
        X_ROW = SLICE * 32 + 16, /* bytes of a row's slice; odd multiples of 16 keep ldmatrix from conflicts */
        RING = 0, X = RING + WARPS * SLOTS * CHUNK_BYTES, ZERO = X + WARPS * ROWS * X_ROW, PARTS = ZERO + 16,
        SUMS = PARTS + WARPS * ROWS * COLUMNS * 4, BARS = SUMS + ROWS * COLUMNS * 4, BYTES = BARS + WARPS * SLOTS * 8
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
            for (int i = 0; i < T::SLOTS && more(); i++) fetch(i);
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

/* The warp's slice of n rows, as bf16. */
template <class T, class X>
RP_FN void rk_stage(const typename X::type *x, int n, int steps)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, per = steps * 2; /* eight elements a lane */
    char *to = rk_dynamic + T::X + warp * T::ROWS * T::X_ROW;
    x += warp * T::SLICE * 16;
    if (threadIdx.x < 4) ((rp_u32 *)(rk_dynamic + T::ZERO))[threadIdx.x] = 0;
    for (int r = 0; r < n; r++) {
#pragma unroll 4
        for (int i = lane; i < per; i += 32) *(int4 *)(to + r * T::X_ROW + i * 16) = X::load(x + (rp_size)r * T::K + i * 8);
    }
}

/* One tile's sums over the warp's slice, to parts[warp][row][columns]. */
template <class T, class R>
RP_INLINE void rk_few_tile(R &ring, rp_u32 x, rp_u32 x_step, float *parts)
{
    const int lane = threadIdx.x % 32, k = lane / 16 * 8 + lane % 8, half = (lane / 8 & 1) ^ (k / 4 & 1);
    const rp_u32 own = k * 32 + half * 16;
    float c[4] = {0, 0, 0, 0}, d[4] = {0, 0, 0, 0};
    for (int chunk = 0; chunk < ring.chunks; chunk++) {
        const int left = ring.steps - chunk * T::CHUNK, n = left < T::CHUNK ? left : (int)T::CHUNK;
        const rp_u32 at = ring.take() + own;
#pragma unroll
        for (int s = 0; s < T::CHUNK; s++) {
            rp_u32 a[4], b[2];
            if (s >= n) break;
            rk_matrix_4_turned(a, at + s * 512);
            rk_matrix_2(b, x + (chunk * T::CHUNK + s) * x_step);
            rk_mma(s & 1 ? d : c, a, b);
        }
        ring.give();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = lane % 4 * 2 + (i & 1), column = lane / 4 + (i & 2) * 4;
        if (row < T::ROWS) parts[(threadIdx.x / 32 * T::ROWS + row) * T::COLUMNS + column] = c[i] + d[i];
    }
}

/* P: tile, type of rows, units N and at(), end(): the epilogue of a row of a unit, by a warp. rows: up to T::ROWS. */
template <class P>
RP_FN void rk_run_few(char *const *arg, const long long *dim, const char *x, const char *w, int rows)
{
    typedef typename P::tile T;
    typedef typename P::rows X;
    float *const parts = (float *)(rk_dynamic + T::PARTS), *const sums = (float *)(rk_dynamic + T::SUMS);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    rk_ring<T, P> ring;
    ring.start(w);
    rk_wait();
    rk_stage<T, X>((const typename X::type *)x, rows, ring.steps);
    __syncthreads();
    /* A lane's row of x; rows that are not there are zeros, all in one place. */
    const bool has = lane % 8 < rows;
    const rp_u32 from = rk_shared(rk_dynamic) + (has ? T::X + (warp * T::ROWS + lane % 8) * T::X_ROW + (lane / 8 & 1) * 16 : T::ZERO), step = has ? 32 : 0;
    for (int unit = blockIdx.x; unit < P::N; unit += gridDim.x) {
        const rk_unit u = P::at(unit);
        const int columns = u.tiles * 16;
        for (int j = 0; j < u.tiles; j++) rk_few_tile<T>(ring, from, step, parts + j * 16);
        __syncthreads();
        for (int i = threadIdx.x; i < rows * columns; i += T::THREADS) {
            const float *p = parts + i / columns * T::COLUMNS + i % columns;
            float s = 0.0f;
#pragma unroll
            for (int v = 0; v < T::WARPS; v++) s += p[v * T::ROWS * T::COLUMNS];
            sums[i] = s;
        }
        __syncthreads();
        if (warp < rows) P::end(arg, dim, unit, warp, sums + warp * columns);
    }
}

/* ---- many rows ---------------------------------------------------------------------------------------------------------------------------- */

/* n rows of K as bf16 [tile of COLUMNS rows][K / 8][COLUMNS][8]: what a bulk copy brings is what ldmatrix reads. Rows that fill the last tile are zeros. */
template <class X, int K, int COLUMNS>
RP_FN void rk_arrange_rows(const typename X::type *x, char *to, long long n)
{
    const long long total = (n + COLUMNS - 1) / COLUMNS * COLUMNS * (K / 8);
    rk_wait();
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total; i += (long long)gridDim.x * blockDim.x) {
        const long long row = i / (COLUMNS * (K / 8)) * COLUMNS + i % COLUMNS;
        const int k = (int)(i / COLUMNS % (K / 8)) * 8;
        const int4 none = {0, 0, 0, 0};
        *(int4 *)(to + i * 16) = row < n ? X::load(x + row * K + k) : none;
    }
}

/* What a block makes at once: up to 8 tiles, which are n_units units. */
struct rk_job {
    long long first;
    int tiles, unit, n_units;
};

/* 128 columns of the result for COLUMNS rows. One warp fetches chunks of k into a ring, 8 warps multiply. */
template <int K_, int COLUMNS_, int CHUNK_, int STAGES_>
struct rk_many_rows {
    enum {
        K = K_, COLUMNS = COLUMNS_, STAGES = STAGES_, WORKERS = 256, THREADS = WORKERS + 32, CHUNK = CHUNK_, CHUNKS = (K + CHUNK - 1) / CHUNK,
        TILE_BYTES = K * 32, TILE_CHUNK = CHUNK * 32, W_BYTES = 8 * TILE_CHUNK, X_BYTES = COLUMNS * CHUNK * 2, STAGE = W_BYTES + X_BYTES,
        ROW = 132, /* floats of a row of sums: no conflicts */
        PIECE = 64, PIECES = COLUMNS / PIECE, /* rows whose sums are in shared memory at once */
        SUMS = STAGES * STAGE, BARS = SUMS + PIECE * ROW * 4, BYTES = BARS + STAGES * 16
    };
    static_assert(K % 16 == 0 && COLUMNS % 64 == 0, "tile");
};

template <class T>
RP_INLINE int rk_steps(int chunk)
{
    return T::K % T::CHUNK && chunk == T::CHUNKS - 1 ? T::K % T::CHUNK / 16 : T::CHUNK / 16;
}

/* The warp that fetches: a lane a tile of weights, and one for the rows. */
template <class P>
struct rk_source {
    typedef typename P::tile T;
    const char *w, *x;
    rp_u32 ring, full, empty;
    int row_tiles, jobs;

    RP_INLINE_MEMBER void weights(int i) const
    {
        const int at = blockIdx.x + i / T::CHUNKS * gridDim.x, chunk = i % T::CHUNKS, slot = i % T::STAGES, bytes = rk_steps<T>(chunk) * 512;
        const rk_job job = P::job(at / row_tiles);
        const int lane = threadIdx.x % 32;
        if (lane == 0) rk_barrier_expect(full + 8 * slot, job.tiles * bytes + rk_steps<T>(chunk) * 32 * T::COLUMNS);
        __syncwarp();
        if (lane < job.tiles)
            rk_fetch(ring + slot * T::STAGE + lane * T::TILE_CHUNK, w + (job.first + lane) * T::TILE_BYTES + chunk * T::TILE_CHUNK, bytes, full + 8 * slot);
    }

    RP_INLINE_MEMBER void rows(int i) const
    {
        const int at = blockIdx.x + i / T::CHUNKS * gridDim.x, chunk = i % T::CHUNKS, slot = i % T::STAGES;
        if (threadIdx.x % 32 == 8)
            rk_fetch(ring + slot * T::STAGE + T::W_BYTES, x + ((long long)(at % row_tiles) * (T::K / 8) + chunk * (T::CHUNK / 8)) * (T::COLUMNS * 16),
                 rk_steps<T>(chunk) * 32 * T::COLUMNS, full + 8 * slot);
    }

    RP_INLINE_MEMBER void run() const
    {
        const int mine = jobs > (int)blockIdx.x ? (jobs - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x : 0;
        const int total = mine * T::CHUNKS, ahead = total < T::STAGES ? total : (int)T::STAGES;
        for (int i = 0; i < ahead; i++) weights(i);
        rk_wait();
        for (int i = 0; i < ahead; i++) rows(i);
        for (int i = ahead; i < total; i++) {
            rk_barrier_wait(empty + 8 * (i % T::STAGES), (i / T::STAGES - 1) & 1);
            weights(i);
            rows(i);
        }
    }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Two warpgroups, each 64 columns of the result for all rows: wgmma reads both operands as the copies left them. Sums: [4 j + e] is row
 * 8 j + 2 t + e % 2, column g + e / 2 * 8 of the warp's 16. */
template <class T>
struct rk_part {
    float d[T::COLUMNS / 2];

    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, int &n)
    {
        const rp_u32 own = threadIdx.x / 128 * (4 * T::TILE_CHUNK);
        const bool first = threadIdx.x % 32 == 0;
        for (int chunk = 0; chunk < T::CHUNKS; chunk++, n++) {
            const int slot = n % T::STAGES, steps = rk_steps<T>(chunk);
            const rp_u32 at = ring + slot * T::STAGE;
            rk_barrier_wait(full + 8 * slot, n / T::STAGES & 1);
            rk_wgmma_begin();
#pragma unroll
            for (int s = 0; s < T::CHUNK / 16; s++) {
                if (T::K % T::CHUNK && s >= steps) break;
                rk_wgmma<T::COLUMNS>(d, rk_operand(at + own + s * 512, T::TILE_CHUNK, 256, 3),
                                     rk_operand(at + T::W_BYTES + s * 2 * (T::COLUMNS * 16), T::COLUMNS * 16, 128, 0), chunk > 0 || s > 0);
            }
            rk_wgmma_end();
            rk_wgmma_wait<1>();
            if (chunk > 0 && first) rk_barrier_arrive(empty + 8 * ((n - 1) % T::STAGES));
        }
        rk_wgmma_wait<0>();
        if (first) rk_barrier_arrive(empty + 8 * ((n - 1) % T::STAGES));
    }

    /* Rows [64 piece, + 64). */
    RP_INLINE_MEMBER void store(float *sums, int piece) const
    {
        float *to = sums + threadIdx.x % 4 * 2 * T::ROW + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int p = 0; p < T::PIECES; p++)
#pragma unroll
            for (int i = 0; i < 32; i++)
                if (p == piece) to[(i / 4 * 8 + i % 2) * T::ROW + (i & 2) * 4] = d[32 * p + i];
    }
};

#else

/* 8 warps, each 32 columns of the result for half of the rows. */
template <class T>
struct rk_part {
    enum { HALF = T::COLUMNS / 2 };
    float c[2][HALF / 8][4];

    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, int &n)
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, k = lane / 16 * 8 + lane % 8;
        const rp_u32 a_at = warp % 4 * (2 * T::TILE_CHUNK) + k * 32 + ((lane / 8 & 1) ^ (k / 4 & 1)) * 16;
        const rp_u32 b_at = T::W_BYTES + ((lane / 8 & 1) * T::COLUMNS + warp / 4 * HALF + lane / 16 * 8 + lane % 8) * 16;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < HALF / 8; j++) c[i][j][0] = c[i][j][1] = c[i][j][2] = c[i][j][3] = 0.0f;
        for (int chunk = 0; chunk < T::CHUNKS; chunk++, n++) {
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
                for (int j = 0; j < HALF / 16; j++) {
                    rp_u32 b[4];
                    rk_matrix_4(b, at + b_at + (s * 2 * T::COLUMNS + j * 16) * 16);
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
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < HALF / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int row = warp / 4 * HALF + j * 8;
                    if (row / T::PIECE == piece)
                        sums[(row % T::PIECE + lane % 4 * 2 + (e & 1)) * T::ROW + warp % 4 * 32 + i * 16 + lane / 4 + (e & 2) * 4] = c[i][j][e];
                }
    }
};

#endif

/* P: tile, JOBS and job(), end() as above. x: as rk_arrange_rows leaves it. */
template <class P>
RP_FN void rk_run_many(char *const *arg, const long long *dim, const char *x, const char *w, long long rows)
{
    typedef typename P::tile T;
    float *const sums = (float *)(rk_dynamic + T::SUMS);
    const int warp = threadIdx.x / 32, row_tiles = (int)((rows + T::COLUMNS - 1) / T::COLUMNS), jobs = P::JOBS * row_tiles;
    const rp_u32 ring = rk_shared(rk_dynamic), full = ring + T::BARS, empty = full + T::STAGES * 8;
    if (threadIdx.x == 0) {
        for (int i = 0; i < T::STAGES; i++) {
            rk_barrier_init(full + 8 * i, 1);
            rk_barrier_init(empty + 8 * i, 8);
        }
        rk_barriers_visible();
    }
    __syncthreads();
    if (threadIdx.x >= T::WORKERS) {
        const rk_source<P> source = {w, x, ring, full, empty, row_tiles, jobs};
        source.run();
        return;
    }
    rk_wait();
    int n = 0;
    for (int at = blockIdx.x; at < jobs; at += gridDim.x) {
        const rk_job job = P::job(at / row_tiles);
        const long long row0 = (long long)(at % row_tiles) * T::COLUMNS;
        const int here = rows - row0 < T::COLUMNS ? (int)(rows - row0) : (int)T::COLUMNS;
        rk_part<T> part;
        part.multiply(ring, full, empty, n);
        const int columns = job.tiles / job.n_units * 16;
        for (int p = 0; p < T::PIECES && p * T::PIECE < here; p++) {
            const int end = here - p * T::PIECE < T::PIECE ? here - p * T::PIECE : (int)T::PIECE;
            rk_sync_workers(); /* the sums before have been used */
            part.store(sums, p);
            rk_sync_workers();
            for (int r = warp; r < end; r += 8)
                for (int u = 0; u < job.n_units; u++) P::end(arg, dim, job.unit + u, row0 + p * T::PIECE + r, sums + r * T::ROW + u * columns);
        }
    }
}
