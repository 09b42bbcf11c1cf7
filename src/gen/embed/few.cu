/* Few float rows times packed weights, as CUDA C: chains of fused multiply-adds over chunks of 256 k, whose sums are added, ascending, as in
 * matmul_float.c.inc. Weights that are floats, too, come by copies on their way to shared memory, a ring of slabs for each warp: half a
 * warp has a chunk of the 16 columns of a tile, a chain for each column and row. Those of blocks are read where they lie. Behind tile.cu. */
#define RK_FEW_K 16     /* of a slab */
#define RK_FEW_STAGES 2 /* slabs of a half warp: one is under way */
#define RK_FEW_WARPS 8  /* of a block that have rings, at most */
#define RK_FEW_APART 64 /* bytes between halves: each half of the banks has one of them */
#define RK_FEW_ROOM(threads, per_k) \
    (((threads) / 32 < RK_FEW_WARPS ? (threads) / 32 : RK_FEW_WARPS) * RK_FEW_STAGES * (2 * RK_FEW_K * (per_k) + RK_FEW_APART))

/* Four columns of a tile of weights from r on. */
template <class F>
RP_INLINE float4 rk_mm_four(const rp_u8 *tile, int k, int r)
{
    const float4 v = {F::value(tile, k, r), F::value(tile, k, r + 1), F::value(tile, k, r + 2), F::value(tile, k, r + 3)};
    return v;
}

/* The chunk of k from `first` to `end` of N rows at x, `step` apart, times four columns of a tile of weights. */
template <class F, class X, int N>
RP_INLINE void rk_mm_chunk(const typename X::type *x, rp_size step, const rp_u8 *tile, int r, int first, int end, float4 *s)
{
    const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < N; i++) s[i] = zero;
#pragma unroll 8
    for (int k = first; k < end; k++) {
        const float4 w = rk_mm_four<F>(tile, k, r);
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float v = X::get(x[i * step + k]);
            s[i].x = rp_fmaf(v, w.x, s[i].x);
            s[i].y = rp_fmaf(v, w.y, s[i].y);
            s[i].z = rp_fmaf(v, w.z, s[i].z);
            s[i].w = rp_fmaf(v, w.w, s[i].w);
        }
    }
}

/* Chunks [c0, c0 + m) of weights in blocks, into part[n][m][COLUMNS]. */
template <class F, class X, int K, int COLUMNS, int THREADS>
RP_INLINE void rk_mm_blocks(const typename X::type *rows, int n, const rp_u8 *w, int c0, int m, float *part)
{
    enum { FOURS = COLUMNS / 4 };
    for (int u = threadIdx.x; u < m * FOURS; u += THREADS) {
        const int c = u % FOURS * 4, first = (c0 + u / FOURS) * 256, end = first + 256 < K ? first + 256 : K;
        const rp_u8 *tile = w + (rp_size)(c / 16) * (K / F::per * (rp_size)F::bytes);
        float4 *const to = (float4 *)part + u;
        if (n == RK_MM_ROWS) {
            float4 s[RK_MM_ROWS];
            rk_mm_chunk<F, X, RK_MM_ROWS>(rows, K, tile, c % 16, first, end, s);
#pragma unroll
            for (int i = 0; i < RK_MM_ROWS; i++) to[i * m * FOURS] = s[i];
        } else {
            for (int i = 0; i < n; i++) {
                float4 s;
                rk_mm_chunk<F, X, 1>(rows + i * (rp_size)K, K, tile, c % 16, first, end, &s);
                to[i * m * FOURS] = s;
            }
        }
    }
}

#ifdef RK_EMULATED
RP_INLINE void rk_few_wait() {}
#else
/* The oldest of the slabs that are under way is there. */
RP_INLINE void rk_few_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(RK_FEW_STAGES - 2) : "memory"); }
#endif

/* The same of float weights, of N rows; of those from n on the last one again, which is left nowhere. */
template <class F, class X, int K, int COLUMNS, int THREADS, int N>
struct rk_chains {
    typedef typename X::type type;
    enum {
        WARPS = THREADS / 32 < RK_FEW_WARPS ? THREADS / 32 : RK_FEW_WARPS,
        TILES = COLUMNS / 16,
        SLABS = (K < 256 ? K + RK_FEW_K - 1 : 256) / RK_FEW_K, /* of a chunk */
        HALF = RK_FEW_K * F::bytes,
        STAGE = 2 * HALF + RK_FEW_APART
    };
    const type *x;
    const rp_u8 *w;
    char *ring; /* of this half */
    int n, c0, m, units;
    float s[N];

    /* Slab t of the warp: which tile and chunk its half has, and the k of it, of which there may be none. */
    struct slab {
        int tile, chunk, first, n;
    };
    RP_INLINE_MEMBER slab at(int t) const
    {
        const int unit = (t / SLABS * WARPS + (int)threadIdx.x / 32) * 2 + rk_half_rank(), chunk = c0 + unit / TILES;
        const int first = chunk * 256 + t % SLABS * RK_FEW_K, left = (first / 256 * 256 + 256 < K ? first / 256 * 256 + 256 : K) - first;
        const slab a = {unit % TILES, unit / TILES, first, unit >= units || left < 0 ? 0 : left < RK_FEW_K ? left : RK_FEW_K};
        return a;
    }
    RP_INLINE_MEMBER void begin(int t) const
    {
        const slab a = at(t);
        const rp_u8 *from = w + ((rp_size)a.tile * K + a.first) * F::bytes;
        char *to = ring + t % RK_FEW_STAGES * STAGE;
#pragma unroll
        for (int i = 0; i < HALF / 256; i++) {
            const int piece = (i * 16 + rk_half_lane()) * 16;
            if (piece < a.n * F::bytes) rk_tile_copy4((float *)(to + piece), (const float *)(from + piece));
        }
        rk_tile_commit();
    }
    RP_INLINE_MEMBER void take(const slab &a, const char *slab)
    {
        const type *rows[N];
#pragma unroll
        for (int i = 0; i < N; i++) rows[i] = x + (i < n ? i : n - 1) * (rp_size)K + a.first;
        if (a.n == RK_FEW_K) {
#pragma unroll
            for (int k = 0; k < RK_FEW_K; k++) {
                const float v = F::value((const rp_u8 *)slab, k, rk_half_lane());
#pragma unroll
                for (int i = 0; i < N; i++) s[i] = rp_fmaf(X::get(rows[i][k]), v, s[i]);
            }
            return;
        }
        for (int k = 0; k < a.n; k++) {
            const float v = F::value((const rp_u8 *)slab, k, rk_half_lane());
#pragma unroll
            for (int i = 0; i < N; i++) s[i] = rp_fmaf(X::get(rows[i][k]), v, s[i]);
        }
    }
    RP_INLINE_MEMBER void run(float *part)
    {
        const int total = (units + 2 * WARPS - 1) / (2 * WARPS) * SLABS;
        if (threadIdx.x / 32 >= WARPS) return;
        for (int t = 0; t < RK_FEW_STAGES - 1; t++) begin(t);
        for (int t = 0; t < total; t++) {
            rk_few_wait();
            __syncwarp(); /* all have what was copied, and have read what the next one overwrites */
            begin(t + RK_FEW_STAGES - 1);
            const slab a = at(t);
            if (t % SLABS == 0) {
#pragma unroll
                for (int i = 0; i < N; i++) s[i] = 0.0f;
            }
            take(a, ring + t % RK_FEW_STAGES * STAGE);
            if (t % SLABS != SLABS - 1 || a.chunk >= m) continue;
#pragma unroll
            for (int i = 0; i < N; i++)
                if (i < n) part[(i * m + a.chunk) * COLUMNS + a.tile * 16 + rk_half_lane()] = s[i];
        }
    }
    RP_INLINE void all(const type *x, int n, const rp_u8 *w, int c0, int m, float *part)
    {
        char *ring = (char *)(part + RK_MM_PART) + threadIdx.x / 32 * (RK_FEW_STAGES * STAGE) + rk_half_rank() * (HALF + RK_FEW_APART);
        rk_chains few = {x, w, ring, n, c0, m, m * TILES};
        few.run(part);
    }
};

/* Which of the two, by what a block of weights has of k. */
template <int PER>
struct rk_mm_way {
    template <class F, class X, int K, int COLUMNS, int THREADS>
    static __device__ __forceinline__ void take(const typename X::type *x, int n, const rp_u8 *w, int c0, int m, float *part)
    {
        rk_mm_blocks<F, X, K, COLUMNS, THREADS>(x, n, w, c0, m, part);
    }
};
template <>
struct rk_mm_way<1> {
    template <class F, class X, int K, int COLUMNS, int THREADS>
    static __device__ __forceinline__ void take(const typename X::type *x, int n, const rp_u8 *w, int c0, int m, float *part)
    {
        if (n == 1)
            rk_chains<F, X, K, COLUMNS, THREADS, 1>::all(x, n, w, c0, m, part);
        else if (n == 2)
            rk_chains<F, X, K, COLUMNS, THREADS, 2>::all(x, n, w, c0, m, part);
        else if (n <= 4)
            rk_chains<F, X, K, COLUMNS, THREADS, 4>::all(x, n, w, c0, m, part);
        else
            rk_chains<F, X, K, COLUMNS, THREADS, RK_MM_ROWS>::all(x, n, w, c0, m, part);
    }
};

/* n <= RK_MM_ROWS rows at x; part: RK_MM_PART floats, and RK_FEW_ROOM bytes behind them. More rows: tile.cu. */
template <class F, class X, int K, int COLUMNS, int THREADS>
RP_FN void rk_mm_float(const char *x, int n, const rp_u8 *w, float *acc, float *part)
{
    const int chunks = (K + 255) / 256, most = RK_MM_PART / (n * COLUMNS), step = most < chunks ? most : chunks;
    const typename X::type *const rows = (const typename X::type *)x;
    for (int c0 = 0; c0 < chunks; c0 += step) {
        const int m = step < chunks - c0 ? step : chunks - c0;
        rk_mm_way<F::per>::template take<F, X, K, COLUMNS, THREADS>(rows, n, w, c0, m, part);
        __syncthreads();
        for (int i = threadIdx.x; i < n * COLUMNS; i += THREADS) {
            const float *from = part + i / COLUMNS * m * COLUMNS + i % COLUMNS;
            float a = c0 ? acc[i] + from[0] : from[0];
            for (int j = 1; j < m; j++) a = a + from[j * COLUMNS];
            acc[i] = a;
        }
        __syncthreads();
    }
}
