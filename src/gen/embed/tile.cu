/* A tile of a product of floats, as CUDA C: R rows and C columns by a block, whose threads hold their sums in registers and take
 * both operands from slabs in shared memory, while the next ones are under way. The order of additions, and so every bit, is
 * that of matmul_float.c.inc: chunks of 256 k, each a chain of fused multiply-adds, whose sums are added, ascending. Groups of
 * threads take chunks in turns, so that each thread has more sums, and reads less of a slab for each of them. Behind matmul.cu. */
#define RK_TILE_CHUNK 256
#define RK_TILE_K 16                 /* of a slab */
#define RK_TILE_STAGES 4             /* slabs of a group: three are under way */
#define RK_TILE_PITCH (RK_TILE_K + 4) /* between rows of x in a slab */

/* Bytes of shared memory of a block: what groups exchange and the sums at last, then slabs. */
#define RK_TILE_SUMS(R, C, groups) (((groups) > 1 ? (groups) - 1 : 1) * (R) * (C) * 4)
#define RK_TILE_SLAB(R, C) ((R) * RK_TILE_PITCH + RK_TILE_K * (C)) /* floats */
#define RK_TILE_ROOM(R, C, groups) (RK_TILE_SUMS(R, C, groups) + (groups) * RK_TILE_STAGES * RK_TILE_SLAB(R, C) * 4)

/* rk_tile_keep: the compiler does not make x anew for each slab, which would take as long as its copies. */
#ifdef RK_EMULATED
RP_INLINE void rk_tile_keep(int &) {}
RP_INLINE void rk_tile_keep(const float *&) {}
RP_INLINE void rk_tile_copy(float *to, const float *from) { *to = *from; }
RP_INLINE void rk_tile_copy4(float *to, const float *from) { *(float4 *)to = *(const float4 *)from; }
RP_INLINE void rk_tile_commit() {}
RP_INLINE void rk_tile_wait() {}
#else
extern __shared__ __align__(1024) char rk_dynamic[];
RP_INLINE void rk_tile_keep(int &x) { asm volatile("" : "+r"(x)); }
RP_INLINE void rk_tile_keep(const float *&x) { asm volatile("" : "+l"(x)); }
RP_INLINE void rk_tile_copy(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((rp_u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
RP_INLINE void rk_tile_copy4(float *to, const float *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((rp_u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
RP_INLINE void rk_tile_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* The oldest of the slabs that are under way is there. */
RP_INLINE void rk_tile_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(RK_TILE_STAGES - 2) : "memory"); }
#endif

/* How elements come from where they lie to a slab: on the way by themselves, or through a register that holds them for as long as
 * the threads compute. */
template <class T>
struct rk_tile_way {
    enum { HELD = 1 };
};
template <>
struct rk_tile_way<float> {
    enum { HELD = 0 };
};

/* Rows (or columns) that lie anywhere: `step` apart, k_step their elements. Those beyond n are the last one, which nobody asks for. */
template <class X>
struct rk_tile_side {
    typedef typename X::type type;
    const type *base;
    long long step, k_step;
    int n;
    RP_INLINE_MEMBER const type *at(int i, long long k) const { return base + (i < n ? i : n - 1) * step + k * k_step; }
    RP_INLINE_MEMBER float get(int i, long long k) const { return X::get(*at(i, k)); }
    /* Whether elements of one row lie side by side. */
    RP_INLINE_MEMBER bool is_row() const { return k_step == 1; }
    /* Whether four k of a row, or four rows, are 16 bytes that may be copied at once. */
    RP_INLINE_MEMBER bool has_fours(bool of_k, long long k) const
    {
        const long long near = of_k ? k_step : step, far = of_k ? step : k_step;
        return sizeof(type) == 4 && near == 1 && far % 4 == 0 && (of_k ? k : n) % 4 == 0 && ((rp_size)base & 15) == 0;
    }
    RP_INLINE_MEMBER const type *four(bool of_k, int i, long long k) const { return at(of_k || i < n ? i : n - 4, k); }
    /* Between fours of one k and of the next; of k they lie side by side. */
    RP_INLINE_MEMBER long long apart() const { return k_step; }
};

/* Columns of packed weights. */
template <class F, int K>
struct rk_tile_packed {
    typedef rp_u8 type;
    const rp_u8 *base;
    RP_INLINE_MEMBER const rp_u8 *at(int, long long) const { return base; }
    RP_INLINE_MEMBER float get(int i, long long k) const
    {
        return F::value(base + (rp_size)(i / 16) * (K / F::per * (rp_size)F::bytes), (int)k, i % 16);
    }
    RP_INLINE_MEMBER bool is_row() const { return false; }
    RP_INLINE_MEMBER bool has_fours(bool, long long) const { return false; }
    RP_INLINE_MEMBER const rp_u8 *four(bool, int, long long) const { return base; }
    RP_INLINE_MEMBER long long apart() const { return 0; }
};
template <int K>
struct rk_tile_packed<rk_f32, K> {
    typedef float type;
    const rp_u8 *base;
    RP_INLINE_MEMBER const float *at(int i, long long k) const { return (const float *)base + (i / 16 * K + (int)k) * 16LL + i % 16; }
    RP_INLINE_MEMBER float get(int i, long long k) const { return *at(i, k); }
    RP_INLINE_MEMBER bool is_row() const { return false; }
    RP_INLINE_MEMBER bool has_fours(bool of_k, long long) const { return !of_k; }
    RP_INLINE_MEMBER const float *four(bool, int i, long long k) const { return at(i, k); }
    RP_INLINE_MEMBER long long apart() const { return 16; }
};

/* acc[C / PER][R][PER], by THREADS threads in GROUPS, OWN rows a thread. All of the block together; what they leave is visible to
 * all when they return. */
template <int R, int C, int GROUPS, int OWN, int THREADS, int PER>
struct rk_tile {
    enum {
        N = THREADS / GROUPS,     /* threads of a group */
        ACROSS = N / (R / OWN),   /* that share rows */
        DOWN = R / OWN, /* between rows of a thread: those that a warp reads at once lie in different banks of memory */
        MINE = C / ACROSS,        /* columns of a thread, WIDE side by side */
        WIDE = MINE % 4 == 0 ? 4 : MINE % 2 == 0 ? 2 : 1,
        LANES = ACROSS < 8 ? ACROSS : 8, /* of a warp beside each other */
        X_HELD = R * RK_TILE_K / N,
        W_HELD = C * RK_TILE_K / N
    };
    float chain[OWN][MINE], sum[OWN][MINE];

    /* Thread t copies a slab four elements at a time, of which the j-th is number t + j * N: where those lie of k = 0, .. */
    template <int HELD, int ROWS, bool OF_K, class S>
    static __device__ __forceinline__ void places(const S &s, int t, const float **from)
    {
        enum { BESIDE = (OF_K ? RK_TILE_K : ROWS) / 4 }; /* fours */
#pragma unroll
        for (int j = 0; j < (HELD + 3) / 4; j++) {
            const int u = t + j * N, major = u / BESIDE, minor = u % BESIDE * 4;
            from[j] = (const float *)s.four(OF_K, OF_K ? major : minor, OF_K ? minor : major);
            rk_tile_keep(from[j]);
        }
    }
    /* .. and the copies, from there and `at` elements on, to where its first one goes in a slab: of all k, or of the first `left`. */
    template <int HELD, int ROWS, bool OF_K>
    static __device__ __forceinline__ void copy(const float *const *from, long long at, long long left, float *slab, int t)
    {
        enum { BESIDE = (OF_K ? RK_TILE_K : ROWS) / 4, ON = OF_K ? N / BESIDE * RK_TILE_PITCH : 4 * N };
        static_assert(!OF_K || N % BESIDE == 0, "each copy as far from the one before");
        const bool whole = left >= RK_TILE_K;
#pragma unroll
        for (int j = 0; j < (HELD + 3) / 4; j++) {
            const int u = t + j * N;
            if (HELD % 4 && u >= ROWS * RK_TILE_K / 4) break;
            if (whole || (OF_K ? u % BESIDE * 4 : u / BESIDE) < left) rk_tile_copy4(slab + j * ON, from[j] + at);
        }
    }

    /* The part of thread t of a slab of side s, [i][k] or [k][i] with `pitch` in between: begun, */
    template <int HELD, int ROWS, bool OF_K, class S>
    static __device__ __forceinline__ void begin(const S &s, long long k0, long long end, int pitch, float *slab, int t, float *held)
    {
        const bool row = s.is_row();
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            const int u = t + j * N, i = row ? u / RK_TILE_K : u % ROWS, kk = row ? u % RK_TILE_K : u / ROWS;
            if (k0 + kk >= end) continue;
            if (rk_tile_way<typename S::type>::HELD)
                held[j] = s.get(i, k0 + kk);
            else
                rk_tile_copy(slab + (OF_K ? i * pitch + kk : kk * pitch + i), (const float *)s.at(i, k0 + kk));
        }
    }
    /* and ended. */
    template <int HELD, int ROWS, bool OF_K, class S>
    static __device__ __forceinline__ void end(const S &s, int pitch, float *slab, int t, const float *held)
    {
        const bool row = s.is_row();
        if (!rk_tile_way<typename S::type>::HELD) return;
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            const int u = t + j * N, i = row ? u / RK_TILE_K : u % ROWS, kk = row ? u % RK_TILE_K : u / ROWS;
            slab[OF_K ? i * pitch + kk : kk * pitch + i] = held[j];
        }
    }

    /* Columns of one k. */
    RP_INLINE_MEMBER void take(const float *ws, float *w) const
    {
#pragma unroll
        for (int j = 0; j < MINE; j += WIDE) {
            const float *from = ws + j * ACROSS;
            if (WIDE == 4) {
                const float4 v = *(const float4 *)from;
                w[j] = v.x;
                w[j + WIDE / 4] = v.y;
                w[j + WIDE / 2] = v.z;
                w[j + WIDE - 1] = v.w;
            } else if (WIDE == 2) {
                const float2 v = *(const float2 *)from;
                w[j] = v.x;
                w[j + WIDE - 1] = v.y;
            } else {
                w[j] = *from;
            }
        }
    }

    /* Four k of a slab. */
    RP_INLINE_MEMBER void step(const float *xs, const float *ws)
    {
        float x[4][OWN], w[MINE];
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const float4 v = *(const float4 *)(xs + i * DOWN * RK_TILE_PITCH);
            x[0][i] = v.x;
            x[1][i] = v.y;
            x[2][i] = v.z;
            x[3][i] = v.w;
        }
#pragma unroll
        for (int kk = 0; kk < 4; kk++) {
            take(ws + kk * C, w);
#pragma unroll
            for (int i = 0; i < OWN; i++)
#pragma unroll
                for (int j = 0; j < MINE; j++) chain[i][j] = rp_fmaf(x[kk][i], w[j], chain[i][j]);
        }
    }
    /* One of them. */
    RP_INLINE_MEMBER void last(const float *xs, const float *ws)
    {
        float w[MINE];
        take(ws, w);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < MINE; j++) chain[i][j] = rp_fmaf(xs[i * DOWN * RK_TILE_PITCH], w[j], chain[i][j]);
    }

    /* The chains of a round, in which `had` groups had a chunk, go to the sums: those of the others by way of `room`, which all have
     * read when the next slab is there. */
    RP_INLINE_MEMBER void close(bool first, int had, int group, int t, float *room)
    {
        if (had > 1) {
            if (group > 0)
#pragma unroll
                for (int i = 0; i < OWN * MINE; i++) room[((group - 1) * OWN * MINE + i) * N + t] = chain[i / MINE][i % MINE];
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < OWN * MINE; i++) {
            float s = first ? chain[i / MINE][i % MINE] : sum[i / MINE][i % MINE] + chain[i / MINE][i % MINE];
            if (group == 0)
#pragma unroll
                for (int g = 1; g < GROUPS; g++)
                    if (g < had) s = s + room[((g - 1) * OWN * MINE + i) * N + t];
            sum[i / MINE][i % MINE] = s;
            chain[i / MINE][i % MINE] = 0.0f;
        }
    }

    template <class X, class W>
    RP_INLINE_MEMBER void run(const X &x, const W &w, long long k, float *room)
    {
        enum { SLABS = RK_TILE_CHUNK / RK_TILE_K, SLAB = RK_TILE_SLAB(R, C), W_AT = R * RK_TILE_PITCH };
        const int group = threadIdx.x / N, t = threadIdx.x % N;
        const int across = t % LANES + t / 32 % (ACROSS / LANES) * LANES;
        const int down = t / LANES % (32 / LANES) + t / (32 * (ACROSS / LANES)) * (32 / LANES);
        const long long chunks = (k + RK_TILE_CHUNK - 1) / RK_TILE_CHUNK, rounds = (chunks + GROUPS - 1) / GROUPS;
        const long long rest = k - (rounds - 1) * GROUPS * RK_TILE_CHUNK; /* of the last round on */
        const int slabs = (int)(rounds - 1) * SLABS + (rest < RK_TILE_CHUNK ? (int)(rest + RK_TILE_K - 1) / RK_TILE_K : SLABS);
        const bool x_fours = x.has_fours(true, k), w_fours = w.has_fours(false, k);
        float *const mine = room + RK_TILE_SUMS(R, C, GROUPS) / 4 + group * RK_TILE_STAGES * SLAB;
        float x_held[X_HELD], w_held[W_HELD];
        const float *x_from[(X_HELD + 3) / 4], *w_from[(W_HELD + 3) / 4];
        const long long w_apart = w.apart();
        int x_to = t / (RK_TILE_K / 4) * RK_TILE_PITCH + t % (RK_TILE_K / 4) * 4, w_to = W_AT + t * 4;
        int x_take = down * RK_TILE_PITCH, w_take = W_AT + across * WIDE;
        rk_tile_keep(x_to);
        rk_tile_keep(w_to);
        rk_tile_keep(x_take);
        rk_tile_keep(w_take);
        if (x_fours) places<X_HELD, R, true>(x, t, x_from);
        if (w_fours) places<W_HELD, C, false>(w, t, w_from);
#pragma unroll
        for (int i = 0; i < OWN * MINE; i++) chain[i / MINE][i % MINE] = sum[i / MINE][i % MINE] = 0.0f;
        long long k0 = group * RK_TILE_CHUNK, now = k0; /* of the slab that is begun, and of the one that is computed */
        for (int s = 1 - RK_TILE_STAGES; s < slabs; s++) {
            const int next = s + RK_TILE_STAGES - 1;
            float *const to = mine + next % RK_TILE_STAGES * SLAB;
            if (s >= 0) rk_tile_wait();
            __syncthreads(); /* slab s is there, and the one before was read */
            if (next < slabs) {
                if (x_fours)
                    copy<X_HELD, R, true>(x_from, k0, k - k0, to + x_to, t);
                else
                    begin<X_HELD, R, true>(x, k0, k, RK_TILE_PITCH, to, t, x_held);
                if (w_fours)
                    copy<W_HELD, C, false>(w_from, k0 * w_apart, k - k0, to + w_to, t);
                else
                    begin<W_HELD, C, false>(w, k0, k, C, to + W_AT, t, w_held);
            }
            rk_tile_commit();
            if (s >= 0) {
                const long long left = k - now;
                const float *xs = mine + s % RK_TILE_STAGES * SLAB + x_take;
                const float *ws = mine + s % RK_TILE_STAGES * SLAB + w_take;
                if (left >= RK_TILE_K) {
#pragma unroll
                    for (int kk = 0; kk < RK_TILE_K; kk += 4) step(xs + kk, ws + kk * C);
                } else {
                    for (int kk = 0; kk < left; kk++) last(xs + kk, ws + kk * C);
                }
                if ((s + 1) % SLABS == 0 || s + 1 == slabs) {
                    const long long had = chunks - s / SLABS * GROUPS;
                    close(s < SLABS, had < GROUPS ? (int)had : GROUPS, group, t, room);
                    now += (GROUPS - 1) * RK_TILE_CHUNK;
                }
                now += RK_TILE_K;
            }
            if (next < slabs) {
                end<X_HELD, R, true>(x, RK_TILE_PITCH, to, t, x_held);
                end<W_HELD, C, false>(w, C, to + W_AT, t, w_held);
            }
            k0 += (next + 1) % SLABS ? RK_TILE_K : RK_TILE_K + (GROUPS - 1) * RK_TILE_CHUNK;
        }
        __syncthreads(); /* what groups exchanged was read */
        if (group == 0)
#pragma unroll
            for (int i = 0; i < OWN; i++)
#pragma unroll
                for (int j = 0; j < MINE; j++) {
                    const int c = j / WIDE * ACROSS * WIDE + across * WIDE + j % WIDE;
                    room[(c / PER * R + down + i * DOWN) * PER + c % PER] = sum[i][j];
                }
        __syncthreads();
    }
};
