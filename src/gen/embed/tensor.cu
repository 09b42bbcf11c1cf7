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

/* A matrix of 8x8, of which lane 4 g + t has elements 2 t, 2 t + 1 of row g: those of column g. */
RP_INLINE rp_u32 rk_turned(rp_u32 two)
{
    rp_u32 v;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(two));
    return v;
}

RP_INLINE float rk_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Bytes come as far as the second-level cache: nothing that is computed depends on it. Multiples of 16. */
RP_INLINE void rk_fetch_ahead(const void *from, rp_u32 bytes)
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/* What may be about to change, and must not stay in the first-level cache. */
RP_INLINE rp_i32 rk_peek(const rp_i32 *p)
{
    rp_i32 v;
    asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

/* The same before the wait, of what a kernel in front may be writing: old or new, and good for a hint alone. */
RP_INLINE rp_i32 rk_guess(const rp_i32 *p)
{
    return rk_peek(p);
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

/* ---- results ----------------------------------------------------------------------------------------------------------------------------------
 *
 * An epilogue P of N units of COLUMNS columns of up to MATS matrices. DIRECT: each element is by itself, ask() loads what it will need besides the sums (ASKED
 * floats at most) and put() does the rest, so that many loads are under way at once; with PAIRS it gets the neighbour's sum behind its own, or
 * ask_pair() and put_pair() do both. put() has a row and how far `below` it the element is: within a tile of rows. Of NEAR sums, put_near() is sooner done. Else end() does a row of a unit, by a warp. */

/* No sums have fewer steps. */
struct rk_far {
    enum { NEAR = 0 };
    RP_INLINE bool near(const float *) { return false; }
    RP_INLINE void put_near(char *const *, const long long *, int, long long, int, const float *, const float *, int = 0) {}
};
struct rk_by_elements : rk_far {
    enum { DIRECT = 1 };
    RP_INLINE void end(char *const *, const long long *, int, long long, float *) {}
};
struct rk_by_rows : rk_far {
    enum { DIRECT = 0 };
    RP_INLINE void ask(char *const *, const long long *, int, long long, int, float *) {}
    RP_INLINE void put(char *const *, const long long *, int, long long, int, const float *, const float *, int = 0) {}
};
/* Which of n rows of a table is wanted: as gather clamps it. */
RP_INLINE long long rk_row_of(const rp_i32 *at, long long i, long long n)
{
    const long long row = at[i] < n ? at[i] : n - 1;
    return row > 0 ? row : 0;
}

/* In whose scope a sigmoid of |x| < 80 has fewer steps, and the same bits: nothing overflows, nothing is subnormal. What is rounded to bf16 there is a result of
 * arithmetic, whose NaN is the one that a conversion gives, and is stored as it is: that rounds it. */
struct rk_near {
    RP_INLINE bool is(float x) { return fabsf(x) < 80.0f; }
#ifndef RK_EMULATED
    RP_INLINE float rp_round_bf16(float x) { return x; }
    RP_INLINE rp_u16 rk_f32_to_bf16(float x) { return (rp_u16)rk_pack(x, 0.0f); }
#endif
    RP_INLINE float rp_expf(float x) { return rp_exp_near(x); }
    RP_INLINE float rp_over(float x)
    {
#ifdef RK_EMULATED
        return 1.0f / x;
#else
        float r;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
        return __fmaf_rn(r, __fmaf_rn(-x, r, 1.0f), r);
#endif
    }
};

/* Rows as products of many want them: tiles of `columns` of them, 192 or a power of two, [k / 8][high][8] each; 1: one behind the other. A tile of 64 is no higher than
 * what there is, since the rows are read by every block. */
struct rk_tiles {
    int columns, high;
};
RP_INLINE int rk_high(int columns, long long rows) { return columns == 64 && rows < 64 ? ((int)rows + 15) & ~15 : columns; }
RP_INLINE rk_tiles rk_tiles_of(int columns, long long rows)
{
    const rk_tiles t = {columns, rk_high(columns, rows)};
    return t;
}

/* Where element (row, column) of rows of k lies in tiles, as if it were element (tile_row, tile_column) of rows one behind the other. */
RP_INLINE rp_u32 rk_in_tile(long long row, rk_tiles t) { return t.columns == 192 ? (rp_u32)row % 192 : (rp_u32)row & (rp_u32)(t.columns - 1); }
RP_INLINE long long rk_tile_row(long long row, rk_tiles t) { return row - rk_in_tile(row, t); }
RP_INLINE long long rk_tile_column(long long row, int column, rk_tiles t)
{
    return t.columns > 1 ? (long long)(column / 8) * (t.high * 8) + rk_in_tile(row, t) * 8 + column % 8 : column;
}

/* Rows that a kernel does not make; else a maker's row() is for all threads of a block, or for a warp. start(), before the wait, has shared memory that is free
 * until rows are made; ready() is for all threads behind the wait. */
struct rk_making {
    RP_INLINE void start(char *const *, char *, int) {}
    RP_INLINE void ready() {}
};
struct rk_rows_in_memory {
    enum { MADE = 0 };
    struct maker : rk_making {
        RP_INLINE void row(char *const *, const long long *, char *, long long) {}
    };
};

/* ---- up to 8 rows ----------------------------------------------------------------------------------------------------------------------- */

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
template <class T, class X>
RP_FN void rk_stage(const typename X::type *x, int n)
{
    /* All that a thread brings at once, where it is no more than registers hold. */
    enum { SHARE = (T::ROWS * (T::K / 8) + T::THREADS - 1) / T::THREADS, AHEAD = SHARE < 32 ? SHARE : 32 };
    const int total = n * (T::K / 8); /* eight elements a thread */
    for (int first = threadIdx.x; first < total; first += AHEAD * T::THREADS) {
        int4 v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (first + j * T::THREADS < total) v[j] = X::load(x + (rp_size)(first + j * T::THREADS) * 8);
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
        rk_stage<T, X>((const typename X::type *)x, rows);
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

/* ---- many rows ---------------------------------------------------------------------------------------------------------------------------- */

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

/* What a block makes at once: so many tiles of weights, which are n_units units. */
struct rk_job {
    long long first;
    int tiles, unit, n_units;
};

/* TILES tiles of weights, 128 or 64 columns of the result, for COLUMNS rows. A warp or four fetch chunks of k into a ring, 8 warps multiply. SLICES of k are summed apart
 * and then added; SPLITS blocks of a cluster have as many slices each, and share what is left to do. */
template <int K_, int TILES_, int COLUMNS_, int CHUNK_, int STAGES_, int SLICES_, int SPLITS_, int PIECE_>
struct rk_many_rows {
    enum {
        K = K_, TILES = TILES_, COLUMNS = COLUMNS_, STAGES = STAGES_, SLICES = SLICES_, SPLITS = SPLITS_, WORKERS = 256,
        FETCHERS = SLICES == 1 ? 4 : 1, OF_TILES = FETCHERS == 1 ? 1 : FETCHERS - 1, /* warps that fetch, and of these tiles of weights */
        THREADS = WORKERS + FETCHERS * 32, READERS = WORKERS / 32, /* warps that read a chunk */
        CHUNK = CHUNK_, CHUNKS = (K + CHUNK - 1) / CHUNK, SLICE = (CHUNKS + SLICES - 1) / SLICES,
        OWN = SLICES / SPLITS, /* slices of a block */
        TILE_BYTES = K * 32, TILE_CHUNK = CHUNK * 32, W_BYTES = TILES * TILE_CHUNK,
        X_BYTES = COLUMNS * CHUNK * 2, STAGE = W_BYTES + X_BYTES,
        ROW = 132, /* floats of a row of sums: no conflicts */
        PIECE = PIECE_, PIECES = COLUMNS / PIECE, SUM = PIECE * ROW, /* rows whose sums are in shared memory at once */
        BARS = STAGES * STAGE + SUM * 4, BYTES = BARS + STAGES * 16,
        SUMS = SPLITS > 1 ? 0 : STAGES * STAGE /* of a cluster's only job: where its ring was */
    };
    static_assert(K % 16 == 0 && (TILES == 8 || (TILES == 4 && PIECES == 1)) && COLUMNS % 64 == 0 && COLUMNS % PIECE == 0, "tile");
    static_assert(SPLITS == 1 || (OWN * SPLITS == SLICES && PIECES == 1 && OWN * SUM * 4 <= BARS), "slices");
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
    s.row_tiles = (int)((rows + T::COLUMNS - 1) / T::COLUMNS);
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

    RP_INLINE_MEMBER void open(const rk_share &s, const char *weights, const char *rows)
    {
        const rk_job job = P::job(at / s.row_tiles);
        tiles = job.tiles;
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
            const int tiles = tile < c.tiles ? (c.tiles - tile + T::OF_TILES - 1) / T::OF_TILES : 0;
            const bool rows = rk_fetcher<T>() == T::FETCHERS - 1;
            rk_barrier_expect(bar, tiles * bytes + (rows ? steps * 32 * s.high : 0));
        }
        __syncwarp();
        if (tile >= c.tiles) return;
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
        const int mine = s.jobs > s.block ? (s.jobs - s.block + s.blocks - 1) / s.blocks : 0;
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

/* Two warpgroups: of 8 tiles each takes 4 for all rows, of 4 all for half of the rows. wgmma reads both operands as the copies left them; rows that are not there are
 * what lies behind the others, and so are their sums. Sums: [4 j + e] is row 8 j + 2 t + e % 2, column g + e / 2 * 8 of the warp's 16. */
template <class T>
struct rk_part {
    enum {
        WIDE = T::TILES == 8, SETS = 1, APART = 0, ROWS = WIDE ? (int)T::COLUMNS : T::COLUMNS / 2,
        BEHIND = T::SLICES == 1 /* chunks still multiplied while the next is waited for; few rows wait for memory alone, which shall have their room at once */
    };
    float d[ROWS / 2];

    RP_INLINE int tile(int) { return WIDE ? threadIdx.x / 32 : threadIdx.x / 32 % 4; }
    RP_INLINE int row() { return WIDE ? 0 : threadIdx.x / 128 * ROWS; }
    RP_INLINE_MEMBER const float *set(int) const { return d; }

    RP_INLINE_MEMBER void add(const rk_part &other)
    {
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++) d[i] += other.d[i];
    }

    /* Chunks [begin, end); n: those that the block has used. */
    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, int high, int &n, int begin, int end)
    {
        const rp_u32 w = WIDE ? threadIdx.x / 128 * (4 * T::TILE_CHUNK) : 0, x = T::W_BYTES + row() * 16;
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
                               chunk > begin || s > 0);
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

/* 8 warps, each 32 columns of the result for a half or a quarter of the rows. */
template <class T>
struct rk_part {
    enum { ACROSS = T::TILES / 2, SETS = 2, APART = 16, ROWS = T::COLUMNS / (8 / ACROSS) };
    float c[2][ROWS / 8][4];

    RP_INLINE int tile(int set) { return threadIdx.x / 32 % ACROSS * 2 + set; }
    RP_INLINE int row() { return threadIdx.x / 32 / ACROSS * ROWS; }
    RP_INLINE_MEMBER const float *set(int i) const { return c[i][0]; }

    RP_INLINE_MEMBER void add(const rk_part &other)
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++) c[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4] += other.c[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4];
    }

    RP_INLINE_MEMBER void multiply(rp_u32 ring, rp_u32 full, rp_u32 empty, int high, int &n, int begin, int end)
    {
        const int lane = threadIdx.x % 32, k = lane / 16 * 8 + lane % 8;
        const rp_u32 a_at = tile(0) * T::TILE_CHUNK + k * 32 + ((lane / 8 & 1) ^ (k / 4 & 1)) * 16;
        const rp_u32 b_at = T::W_BYTES + ((lane / 8 & 1) * high + row() + lane / 16 * 8 + lane % 8) * 16;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < ROWS / 8; j++) c[i][j][0] = c[i][j][1] = c[i][j][2] = c[i][j][3] = 0.0f;
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

/* Epilogues of rows first, first + step .. of a piece, whose sums the blocks of a cluster have: a lane a column, a warp a row of a unit, N of them at once. */
template <class P>
struct rk_results {
    typedef typename P::tile T;
    /* Beside the sums of wide tiles registers have room for 16 floats or so. A block of a cluster has no more than its share. */
    enum {
        WARPS = T::WORKERS / 32, MOST = T::PIECE / (P::ASKED == 1 ? 4 : T::COLUMNS > 128 ? 16 : 8),
        SHARE = ((T::PIECE + T::SPLITS - 1) / T::SPLITS * P::UNITS + WARPS - 1) / WARPS, N = T::SPLITS > 1 && SHARE < MOST ? SHARE : MOST,
        EACH = N * WARPS
    };
    rk_job job;
    long long row0;
    int first, step, pairs; /* of a row and a unit; P::UNITS a row, some of which may be missing */
    float asked[N][P::ASKED];

    RP_INLINE_MEMBER void start(const rk_job &j, long long from, int rows, int f, int s)
    {
        job = j;
        row0 = from;
        first = f;
        step = s;
        pairs = rows > f ? (rows - f + s - 1) / s * P::UNITS : 0;
    }

    /* Of the pairs from `from` on this warp's j-th; its row within the piece. */
    RP_INLINE int pair_of(int from, int j) { return from + (int)threadIdx.x / 32 + j * (T::WORKERS / 32); }
    RP_INLINE_MEMBER int row_of(int p) const { return first + p / P::UNITS * step; }
    RP_INLINE_MEMBER bool has(int p) const { return p < pairs && p % P::UNITS < job.n_units; }

    /* Pairs from `from` on: as many as the warps take at once. WHOLE: all of them are there. */
    template <bool WHOLE>
    RP_INLINE_MEMBER void ask_all(char *const *arg, const long long *dim, int from)
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int p = pair_of(from, j);
            if (WHOLE || has(p)) P::ask(arg, dim, job.unit + p % P::UNITS, row0 + row_of(p), threadIdx.x % 32, asked[j]);
        }
    }

    /* The lane's sum, over all slices. */
    RP_INLINE float sum_of(const float *own)
    {
        float part[T::SPLITS > 1 ? (int)T::SLICES : 1];
        if (T::SPLITS == 1) return *own;
#pragma unroll
        for (int i = 0; T::SPLITS > 1 && i < T::SLICES; i++) part[T::SPLITS > 1 ? i : 0] = *rk_of_block(own + i % T::OWN * T::SUM, i / T::OWN);
#pragma unroll
        for (int i = 1; T::SPLITS > 1 && i < T::SLICES; i++) part[0] += part[T::SPLITS > 1 ? i : 0];
        return part[0];
    }

    /* What is not there is read, too, and not used: loads behind conditions would be made one after the other, and other blocks' memory is far. */
    template <bool WHOLE>
    RP_INLINE_MEMBER void put_all(char *const *arg, const long long *dim, int from, const float *sums) const
    {
        const int mats = job.tiles * 16 / (job.n_units * P::COLUMNS);
        float s[N][P::MATS];
        bool near = P::NEAR && WHOLE;
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int p = pair_of(from, j), row = WHOLE || row_of(p) < T::PIECE ? row_of(p) : 0;
            const float *own = sums + row * T::ROW + p % P::UNITS * mats * P::COLUMNS + threadIdx.x % 32;
            s[j][0] = sum_of(own);
#pragma unroll
            for (int m = 1; m < P::MATS; m++) s[j][m] = P::PAIRS ? __shfl_xor_sync(RK_WARP, s[j][0], 1) : m < mats ? sum_of(own + m * P::COLUMNS) : 0.0f;
            near = near && P::near(s[j]);
        }
#pragma unroll
        for (int j = 0; near && j < N; j++) {
            const int p = pair_of(from, j);
            P::put_near(arg, dim, job.unit + p % P::UNITS, row0 + row_of(p), threadIdx.x % 32, s[j], asked[j]);
        }
#pragma unroll
        for (int j = 0; !near && j < N; j++) {
            const int p = pair_of(from, j);
            if (WHOLE || has(p)) P::put(arg, dim, job.unit + p % P::UNITS, row0 + row_of(p), threadIdx.x % 32, s[j], asked[j]);
        }
    }

    RP_INLINE_MEMBER bool whole(int from) const { return from + EACH <= pairs && job.n_units == P::UNITS; }

    RP_INLINE_MEMBER void ask(char *const *arg, const long long *dim, int from)
    {
        if (whole(from))
            ask_all<true>(arg, dim, from);
        else
            ask_all<false>(arg, dim, from);
    }

    RP_INLINE_MEMBER void put(char *const *arg, const long long *dim, int from, const float *sums) const
    {
        if (whole(from))
            put_all<true>(arg, dim, from, sums);
        else
            put_all<false>(arg, dim, from, sums);
    }
};

/* Results of the tiles of weights whose sums a warp has, without the other warps: 16 rows at a time go through shared memory of its own, from which lanes get
 * neighbouring columns of two rows. part: SETS tiles (tile(): which of the job's) of ROWS rows from row() on; the sums of an element's matrices, if there are
 * several, are in as many sets. What an element needs besides is asked for one round ahead. */
template <class P, class S>
struct rk_warp_results {
    enum {
        HIGH = 32 / S::SETS, ROW = 20, /* of a piece, and floats of one of its rows: few conflicts */
        N = P::ASKED > 1 ? 4 : HIGH / 2, /* elements of a lane at once */
        PARTS = HIGH / 2 / N, ROUNDS = S::SETS / P::MATS * PARTS, /* of a piece */
        FLOATS = S::SETS * HIGH * ROW
    };
    const rk_job &job;
    long long row0;
    int rows;
    float *room;

    RP_INLINE_MEMBER int unit(int round) const { return S::tile(round % ROUNDS / PARTS * P::MATS) / 2; }
    RP_INLINE_MEMBER int column(int round) const { return S::tile(round % ROUNDS / PARTS * P::MATS) % 2 * 16 + threadIdx.x % 16; }
    RP_INLINE_MEMBER int row(int round, int i) const { return round / ROUNDS * HIGH + (round % PARTS * N + i) * 2 + threadIdx.x % 32 / 16; }
    RP_INLINE_MEMBER bool is_whole(int round) const { return (round / ROUNDS + 1) * HIGH <= rows; } /* all rows of the piece are there */

    template <bool WHOLE>
    RP_INLINE_MEMBER void ask_some(char *const *arg, const long long *dim, int round, float (*asked)[P::ASKED]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (WHOLE || row(round, i) < rows) P::ask(arg, dim, job.unit + unit(round), row0 + row(round, i), column(round), asked[i]);
    }

    RP_INLINE_MEMBER void ask(char *const *arg, const long long *dim, int round, float (*asked)[P::ASKED]) const
    {
        if (unit(round) >= job.n_units) return;
        if (is_whole(round))
            ask_some<true>(arg, dim, round, asked);
        else
            ask_some<false>(arg, dim, round, asked);
    }

    RP_INLINE_MEMBER void stage(const S &part, int piece) const
    {
        float *const to = room + threadIdx.x % 4 * 2 * ROW + threadIdx.x % 32 / 4;
        __syncwarp(); /* the piece before has been read */
#pragma unroll
        for (int p = 0; p < S::ROWS / HIGH; p++) {
            if (p != piece) continue;
#pragma unroll
            for (int set = 0; set < S::SETS; set++)
#pragma unroll
                for (int i = 0; i < HIGH / 2; i++) to[(set * HIGH + i / 4 * 8 + i % 2) * ROW + (i & 2) * 4] = part.set(set)[HIGH / 2 * p + i];
        }
        __syncwarp();
    }

    template <bool WHOLE>
    RP_INLINE_MEMBER void put_some(char *const *arg, const long long *dim, int round, const float (*asked)[P::ASKED]) const
    {
        const float *const from = room + round % ROUNDS / PARTS * P::MATS * (HIGH * ROW);
        float s[N][P::MATS];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float *own = from + row(round, i) % HIGH * ROW;
#pragma unroll
            for (int m = 0; m < P::MATS; m++) s[i][m] = own[m * (HIGH * ROW) + threadIdx.x % 16];
        }
        bool near = P::NEAR && WHOLE;
#pragma unroll
        for (int i = 0; i < N; i++) near = near && P::near(s[i]);
        if (near) { /* all of them, so that the compiler has several to work at */
#pragma unroll
            for (int i = 0; i < N; i++)
                P::put_near(arg, dim, job.unit + unit(round), row0 + row(round, 0), column(round), s[i], asked[i], row(round, i) - row(round, 0));
            return;
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            if (WHOLE || row(round, i) < rows)
                P::put(arg, dim, job.unit + unit(round), row0 + row(round, 0), column(round), s[i], asked[i], row(round, i) - row(round, 0));
    }

    RP_INLINE_MEMBER void put(char *const *arg, const long long *dim, int round, const float (*asked)[P::ASKED]) const
    {
        if (unit(round) >= job.n_units) return;
        if (is_whole(round))
            put_some<true>(arg, dim, round, asked);
        else
            put_some<false>(arg, dim, round, asked);
    }

    /* What the first round needs, while nothing else waits for it. */
    RP_INLINE_MEMBER void start(char *const *arg, const long long *dim, float (*first)[P::ASKED]) const
    {
        if (rows > 0) ask(arg, dim, 0, first);
    }

    RP_INLINE_MEMBER void run(char *const *arg, const long long *dim, const S &part, float (*next)[P::ASKED]) const
    {
        const int pieces = (rows < S::ROWS ? rows + HIGH - 1 : S::ROWS) / HIGH;
        float asked[N][P::ASKED];
        for (int round = 0; round < pieces * ROUNDS; round++) {
#pragma unroll
            for (int i = 0; i < N * P::ASKED; i++) asked[i / P::ASKED][i % P::ASKED] = next[i / P::ASKED][i % P::ASKED];
            if (round + 1 < pieces * ROUNDS) ask(arg, dim, round + 1, next);
            if (round % ROUNDS == 0) stage(part, round / ROUNDS);
            put(arg, dim, round, asked);
        }
    }
};

/* What a warp does with sums of which it has all; of pairs it is another (tensor_pairs.cu). */
template <class P, class S, bool PAIRS = P::PAIRS>
struct rk_results_of_warp {
    typedef rk_warp_results<P, S> type;
};

/* A job's sums over slices of k, ascending. */
template <class T>
RP_INLINE void rk_sum_slices(rk_part<T> &part, rp_u32 ring, rp_u32 full, rp_u32 empty, int high, int &n)
{
    part.multiply(ring, full, empty, high, n, 0, T::SLICES > 1 ? (int)T::SLICE : (int)T::CHUNKS);
    for (int begin = T::SLICE; T::SLICES > 1 && begin < T::CHUNKS; begin += T::SLICE) {
        rk_part<T> next;
        next.multiply(ring, full, empty, high, n, begin, begin + T::SLICE < T::CHUNKS ? begin + T::SLICE : (int)T::CHUNKS);
        part.add(next);
    }
}

/* Results of elements of two matrices that go to tiles: a thread makes eight neighbouring columns of a row, which lie side by side there, and threads behind each
 * other have rows behind each other. sums: of `rows` rows from row0 on. */
template <class P, bool TILED = P::TILED>
struct rk_pieces_of_tiles {
    enum { CAN = 0 };
    RP_INLINE void run(char *const *, const long long *, const rk_job &, long long, int, const float *) {}
};
template <class P>
struct rk_pieces_of_tiles<P, true> {
    typedef typename P::tile T;
    enum { CAN = 1, EACH = 8, OF_UNIT = P::COLUMNS / EACH };

    RP_INLINE void load(float (*s)[2], const float *own, int m)
    {
#pragma unroll
        for (int j = 0; j < EACH; j += 4) {
            const int4 four = *(const int4 *)(own + j);
            s[j][m] = __int_as_float(four.x);
            s[j + 1][m] = __int_as_float(four.y);
            s[j + 2][m] = __int_as_float(four.z);
            s[j + 3][m] = __int_as_float(four.w);
        }
    }

    RP_INLINE void make(rp_u16 *to, const float *own)
    {
        float s[EACH][2];
        bool near = true;
        load(s, own, 0);
        load(s, own + P::COLUMNS, 1);
#pragma unroll
        for (int j = 0; j < EACH; j++) near = near && P::near(s[j]);
        if (near) {
            rp_u32 two[EACH / 2];
#pragma unroll
            for (int j = 0; j < EACH / 2; j++) two[j] = P::value_near(s[2 * j]) | (rp_u32)P::value_near(s[2 * j + 1]) << 16;
            const int4 all = {(int)two[0], (int)two[1], (int)two[2], (int)two[3]};
            *(int4 *)to = all;
            return;
        }
#pragma unroll 1
        for (int j = 0; j < EACH; j++) { /* seldom: little code */
            const float mine[2] = {own[j], own[P::COLUMNS + j]};
            to[j] = P::value(mine);
        }
    }

    RP_INLINE void run(char *const *arg, const long long *dim, const rk_job &job, long long row0, int rows, const float *sums)
    {
        const rk_tiles tiles = P::tiles(dim);
        rp_u16 *const result = (rp_u16 *)P::result(arg);
#pragma unroll 1
        for (int i = threadIdx.x; i < job.n_units * OF_UNIT * T::PIECE; i += T::WORKERS) {
            const int row = i % T::PIECE, unit = i / T::PIECE / OF_UNIT, c = i / T::PIECE % OF_UNIT * EACH, column = (job.unit + unit) * P::COLUMNS + c;
            if (row >= rows || column >= P::ACROSS) continue;
            make(result + rk_tile_row(row0 + row, tiles) * P::ACROSS + rk_tile_column(row0 + row, column, tiles),
                 sums + row * T::ROW + unit * 2 * P::COLUMNS + c);
        }
    }
};

/* The results of a job, piece by piece; r has asked for those of the first. */
template <class P>
RP_FN void rk_job_results(char *const *arg, const long long *dim, const rk_part<typename P::tile> &part, rk_results<P> &r, int rows)
{
    typedef typename P::tile T;
    float *const sums = (float *)(rk_dynamic + T::SUMS);
    const rk_job job = r.job;
    const long long row0 = r.row0;
    const int columns = job.tiles / job.n_units * 16;
    for (int p = 0; p < T::PIECES && p * T::PIECE < rows; p++) {
        const int n = rows - p * T::PIECE < T::PIECE ? rows - p * T::PIECE : (int)T::PIECE;
        if (p) {
            r.start(job, row0 + p * T::PIECE, n, 0, 1);
            if (P::DIRECT) r.ask(arg, dim, 0);
        }
        rk_sync_workers(); /* the sums before have been used */
        part.store(sums, p);
        rk_sync_workers();
        if (rk_pieces_of_tiles<P>::CAN) {
            rk_pieces_of_tiles<P>::run(arg, dim, job, row0 + p * T::PIECE, n, sums);
            continue;
        }
        for (int at = 0; P::DIRECT && at < r.pairs; at += r.EACH) {
            if (at) r.ask(arg, dim, at);
            r.put(arg, dim, at, sums);
        }
        for (int i = threadIdx.x / 32; !P::DIRECT && i < n * job.n_units; i += T::WORKERS / 32)
            P::end(arg, dim, job.unit + i % job.n_units, row0 + p * T::PIECE + i / job.n_units, sums + i / job.n_units * T::ROW + i % job.n_units * columns);
    }
}

/* The job of a cluster: every block has the sums of its slices and takes each SPLITS-th row. */
template <class P>
RP_FN void rk_run_split(char *const *arg, const long long *dim, const rk_share &s, rp_u32 ring, rp_u32 full, rp_u32 empty, int rows)
{
    typedef typename P::tile T;
    float *const sums = (float *)(rk_dynamic + T::SUMS);
    rk_results<P> r;
    rk_part<T> part[T::OWN];
    int n = 0;
    r.start(P::job(s.block), 0, rows, rk_cluster_rank(), T::SPLITS);
    r.ask(arg, dim, 0);
#pragma unroll
    for (int i = 0; i < T::OWN; i++) {
        const int begin = s.first + i * T::SLICE, left = T::CHUNKS - begin;
        part[i].multiply(ring, full, empty, s.high, n, begin, begin + (left < T::SLICE ? left : (int)T::SLICE));
    }
    rk_sync_workers(); /* the ring has been used */
#pragma unroll
    for (int i = 0; i < T::OWN; i++) part[i].store(sums + i * T::SUM, 0);
    rk_cluster_arrive();
    rk_cluster_wait();
    for (int at = 0; at < r.pairs; at += r.EACH) {
        if (at) r.ask(arg, dim, at);
        r.put(arg, dim, at, sums);
    }
    rk_cluster_arrive();
    rk_cluster_wait(); /* nobody ends while others read what it has */
}

/* P: tile, an epilogue, JOBS and job(), and whether weights are read ONCE. x: as rk_arrange_rows leaves it. */
template <class P>
RP_FN void rk_run_many(char *const *arg, const long long *dim, const char *x, const char *w, long long rows)
{
    typedef typename P::tile T;
    const rk_share s = rk_share_of<P>(rows);
    const rp_u32 ring = rk_shared(rk_dynamic), full = ring + T::BARS, empty = full + T::STAGES * 8;
    if (threadIdx.x == 0) {
        for (int i = 0; i < T::STAGES; i++) {
            rk_barrier_init(full + 8 * i, T::FETCHERS);
            rk_barrier_init(empty + 8 * i, T::READERS);
        }
        rk_barriers_visible();
    }
    __syncthreads();
    if (threadIdx.x >= T::WORKERS) {
        if (T::FETCHERS == 4) rk_give_registers<24>();
        const rk_source<P> source = {w, x, ring, full, empty, s};
        source.run();
        return;
    }
    if (T::FETCHERS == 4) rk_take_registers<240>();
    rk_wait();
    if (T::SPLITS > 1) {
        rk_run_split<P>(arg, dim, s, ring, full, empty, (int)rows);
        return;
    }
    int n = 0;
    for (int at = s.block; at < s.jobs; at += s.blocks) {
        const long long row0 = (long long)(at % s.row_tiles) * T::COLUMNS;
        const int here = rows - row0 < T::COLUMNS ? (int)(rows - row0) : (int)T::COLUMNS;
        const rk_job job = P::job(at / s.row_tiles);
        rk_part<T> part;
        if (P::DIRECT && (P::PAIRS || P::MATS == 1)) {
            typedef typename rk_results_of_warp<P, rk_part<T>>::type results;
            const results r = {job, row0 + part.row(), here - part.row(), (float *)(rk_dynamic + T::SUMS) + threadIdx.x / 32 * results::FLOATS};
            static_assert(results::FLOATS * (T::WORKERS / 32) <= T::PIECE * T::ROW, "room of warps");
            float asked[results::N][P::ASKED];
            r.start(arg, dim, asked);
            rk_sum_slices<T>(part, ring, full, empty, s.high, n);
            r.run(arg, dim, part, asked);
            continue;
        }
        rk_results<P> r;
        r.start(job, row0, here < T::PIECE ? here : (int)T::PIECE, 0, 1);
        if (P::DIRECT) r.ask(arg, dim, 0);
        rk_sum_slices<T>(part, ring, full, empty, s.high, n);
        rk_job_results<P>(arg, dim, part, r, here);
    }
}
