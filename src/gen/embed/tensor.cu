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

RP_INLINE float rk_approx_over(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The lower halves of two words, and the lesser ones of two pairs of halves. */
RP_INLINE rp_u32 rk_low_halves(rp_u32 a, rp_u32 b) { return __byte_perm(a, b, 0x5410); }
RP_INLINE rp_u32 rk_lesser_halves(rp_u32 a, rp_u32 b) { return __vminu2(a, b); }

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

/* The same before the wait, of what the kernels that write it have written: one behind them has waited for them before it let the next one start. */
RP_INLINE rp_i32 rk_settled(const rp_i32 *p)
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

/* The same before the wait, of memory that kernels write, but none that is still at work. */
RP_INLINE int4 rk_load_early(const void *p) { return rk_load(p); }
RP_INLINE void rk_fetch_early(rp_u32 to, const void *from, rp_u32 bytes, rp_u32 bar) { rk_fetch_once(to, from, bytes, bar); }

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

/* What a block makes at once: so many tiles of weights, which are n_units units; none: it is no job. Of units of two matrices, whose tiles are two of each in turn, it may have those of the halves
 * [from, to) alone; to = 0: all. */
struct rk_job {
    long long first;
    int tiles, unit, n_units, from, to;

    RP_INLINE_MEMBER bool has(int tile) const { return tile < tiles && (!to || (tile / 4 * 2 + tile % 2 >= from && tile / 4 * 2 + tile % 2 < to)); }
};

/* ---- results ----------------------------------------------------------------------------------------------------------------------------------
 *
 * An epilogue P of N units of COLUMNS columns of up to MATS matrices. DIRECT: each element is by itself, ask() loads what it will need besides the sums (ASKED
 * floats at most) and put() does the rest, so that many loads are under way at once; with PAIRS it gets the neighbour's sum behind its own, or
 * ask_pair() and put_pair() do both. put() has a row and how far `below` it the element is: within a tile of rows. Of NEAR sums, put_near() is sooner done. Else end() does a row of a unit, by a warp. */

/* No sums have fewer steps or the fewest, none is by itself more than one, a warp need not have all of a unit's columns TOGETHER, nothing of whole rows is wanted, and jobs are not DEALT. */
struct rk_far {
    enum { NEAR = 0, SWIFT = 0, TOGETHER = 0, KEEPS = 0, DEALT = 0 };
    RP_INLINE bool near(const float *) { return false; }
    RP_INLINE void put_near(char *const *, const long long *, int, long long, int, const float *, const float *, int = 0) {}
    RP_INLINE bool sliced(const rk_job &) { return true; } /* what the tile has several slices for; else the job's sums are over all of k at once */
    RP_INLINE float scale(long long) { return 1.0f; } /* that sums of a row are multiplied by, where results are pieces of tiles */
    /* What results need of their rows, by all workers: what a step begins with before the wait, other loads behind it, which are used behind the products of the first job. */
    struct facts {
        RP_INLINE_MEMBER void before(char *const *, const long long *) {}
        RP_INLINE_MEMBER void ask(char *const *, const long long *) {}
        RP_INLINE_MEMBER void settle() {}
        RP_INLINE_MEMBER bool unread() const { return false; } /* nobody wants results but for what is kept of them */
    };
    /* What a block that KEEPS anything keeps of the results of all its jobs, and leaves behind the last one: where a warp has all of a result's sums. room: free by then. */
    struct kept {
        template <class S>
        RP_INLINE_MEMBER void take(const S &, const rk_job &) {}
        template <class S>
        RP_INLINE_MEMBER void leave(char *const *, char *) {}
    };
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
        const float r = rk_approx_over(x);
        return __fmaf_rn(r, __fmaf_rn(-x, r, 1.0f), r);
#endif
    }
};

/* In whose scope x sigmoid(x) y, of |x| < 11, has the fewest steps and is not rounded to bf16: what would be stored stays a float. It is no more than OFF units in the last place from what
 * rk_near rounds: an exponent of up to 16 is off by 2^-20, instructions by 2^-22, and a product may halve the unit. So bf16 is the same unless what it drops is as close to the middle. */
struct rk_swift {
    typedef float rp_u16;
    enum { OFF = 15 };
    RP_INLINE bool is(float x) { return fabsf(x) < 11.0f; }
    RP_INLINE float rp_round_bf16(float x) { return x; }
    RP_INLINE float rp_f32_to_bf16(float x) { return x; }
    RP_INLINE float rp_expf(float x) { return rk_exp2(x * 1.44269504f); }
    RP_INLINE float rp_over(float x) { return rk_approx_over(x); }
};

/* Rows as products of many want them: tiles of `columns` of them, a power of two, 192 or 176, [k / 8][high][8] each; 1: one behind the other. A tile of 64 is no higher than
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
RP_INLINE rp_u32 rk_in_tile(long long row, rk_tiles t)
{
    return t.columns == 192 ? (rp_u32)row % 192 : t.columns == 176 ? (rp_u32)row % 176 : (rp_u32)row & (rp_u32)(t.columns - 1);
}
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
    RP_INLINE long long place(char *const *, const long long *, long long row) { return row; } /* of a row, counted in rows */
    struct maker : rk_making {
        RP_INLINE void row(char *const *, const long long *, char *, long long) {}
    };
};
