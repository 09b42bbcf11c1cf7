/* What prelude.h needs to be CUDA C, and reductions over a thread block or a warp.
 *
 * No header, so NVRTC takes it as it is. Compile with -fmad=false (rounding as written); division and
 * square root are the IEEE ones by default. prelude.h and kernel.h follow: the formulas of the host. */
typedef signed char rp_i8;
typedef unsigned char rp_u8;
typedef short rp_i16;
typedef unsigned short rp_u16;
typedef int rp_i32;
typedef unsigned int rp_u32;
typedef long long rp_i64;
typedef unsigned long long rp_u64;
typedef unsigned long long rp_size;

#define RP_FN static __device__ __forceinline__
#define RP_INLINE static __device__ __forceinline__
#define RP_INLINE_MEMBER __device__ __forceinline__
#define RP_CALL static __device__ __noinline__
#define RP_INF __int_as_float(0x7f800000)
#define RP_NAN __int_as_float(0x7fc00000)
#define __builtin_nanf(text) RP_NAN
#define __builtin_sqrtf(x) __fsqrt_rn(x)
#define __builtin_sqrt(x) __dsqrt_rn(x)

RP_INLINE rp_u32 rp_bits(float x) { return __float_as_uint(x); }
RP_INLINE float rp_from_bits(rp_u32 u) { return __uint_as_float(u); }
RP_INLINE rp_u64 rp_bits64(double x) { return (rp_u64)__double_as_longlong(x); }
RP_INLINE double rp_from_bits64(rp_u64 u) { return __longlong_as_double((long long)u); }

#ifndef rk_f16_to_f32 /* one instruction, which a GPU that is not there has not */
RP_INLINE float rk_f16_to_f32(rp_u16 h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
#endif

/* NaN keeps its upper bits, as on the host. */
#if __CUDA_ARCH__ >= 800 && !defined RK_EMULATED
RP_INLINE rp_u16 rk_f32_to_bf16(float x)
{
    rp_u32 two; /* of one at a time there is a slower one */
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(0.0f), "f"(x));
    return (rp_u16)(x != x ? __float_as_uint(x) >> 16 | 0x40u : two);
}
#define rp_f32_to_bf16 rk_f32_to_bf16

/* 1 / x rounded once, as a division is, for x of 1 or more: without the branch of a division, around which the compiler would not move other elements' work.
 * A step of Newton is exact up to 2^126. Beyond, the result is subnormal, and rounded twice: what looks like a tie the second time may be none. */
RP_INLINE float rk_near_over(float y)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
    return __fmaf_rn(r, __fmaf_rn(-y, r, 1.0f), r);
}
RP_INLINE float rk_over(float x)
{
    const bool large = x >= 0x1p126f;
    const float y = large ? x * 0x1p-32f : x;
    float r = rk_near_over(y);
    const float off = __fmaf_rn(-y, r, 1.0f), small = r * 0x1p-32f, rest = __fmaf_rn(-small, 0x1p32f, r);
    const int up = rest == 0x1p-118f && off > 0.0f, down = rest == -0x1p-118f && off < 0.0f;
    asm("{\n.reg .pred p;\nsetp.ge.f32 p, %1, 0f7e800000;\nselp.f32 %0, %2, %0, p;\n}" : "+f"(r) : "f"(x), "f"(__int_as_float(__float_as_int(small) + up - down)));
    return x == RP_INF ? 0.0f : r;
}
RP_INLINE float rk_two_over(float x) { return 2.0f * rk_near_over(x); }
RP_INLINE float rk_at_most(float x, float c)
{
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(c));
    return y;
}
#define rp_at_most rk_at_most
#define rp_two_over rk_two_over
#define rp_minus_exact(x, a, b) __fmaf_rn(-(a), b, x)
#define rp_over rk_over
#endif

/* --- chains of kernels --------------------------------------------------------
 * A kernel may start before the one in front of it ends. Until rk_wait it reads nothing that any kernel writes but for hints and what it is promised that none
 * in front still does, and writes nothing.
 * Every thread of every kernel calls both, since completion is handed on by the wait alone. */

RP_INLINE void rk_launch_dependents()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

RP_INLINE void rk_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* --- clusters of blocks, where there are any: else every block is one by itself --- */

#if __CUDA_ARCH__ >= 900 && !defined RK_EMULATED
#define RK_BLOCKS(n) (n) /* of a cluster for which there shall be n */
#define RK_CLUSTER(n) __cluster_dims__(n, 1, 1)
RP_INLINE int rk_cluster_rank()
{
    int r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
RP_INLINE void rk_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
RP_INLINE void rk_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/* Where another block of the cluster has what is at p in this one. */
template <class T>
RP_INLINE T *rk_of_block(T *p, int rank)
{
    rp_u64 at;
    asm("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"((rp_u64)p), "r"(rank));
    return (T *)at;
}
/* x, of 4, 8 or 16 bytes, to where that block has what is at p; the barrier at `bar` of that block gets its bytes. */
template <class T>
RP_INLINE void rk_send(T *p, const T &x, const rp_u64 *bar, int rank)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "words of one store");
    const rp_u32 *w = (const rp_u32 *)&x;
    rp_u32 to, of;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"((rp_u32)__cvta_generic_to_shared(p)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(of) : "r"((rp_u32)__cvta_generic_to_shared(bar)), "r"(rank));
    if (sizeof(T) == 4)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(w[0]), "r"(of) : "memory");
    else if (sizeof(T) == 8)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to), "r"(w[0]), "r"(w[1 % (sizeof(T) / 4)]), "r"(of)
                     : "memory");
    else
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "r"(w[0]),
                     "r"(w[1 % (sizeof(T) / 4)]), "r"(w[2 % (sizeof(T) / 4)]), "r"(w[3 % (sizeof(T) / 4)]), "r"(of)
                     : "memory");
}
#else
#define RK_BLOCKS(n) 1
#define RK_CLUSTER(n)
RP_INLINE int rk_cluster_rank() { return 0; }
RP_INLINE void rk_cluster_arrive() {}
RP_INLINE void rk_cluster_wait() { __syncthreads(); }
template <class T>
RP_INLINE T *rk_of_block(T *p, int)
{
    return p;
}
template <class T>
RP_INLINE void rk_send(T *p, const T &x, const rp_u64 *, int)
{
    *p = x;
}
#endif

/* --- vectors: neighbours that one thread reads and writes at once, in words of up to 16 bytes where they are aligned --- */

template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) rk_vec {
    T v[N];
};

template <int N, class T>
RP_INLINE rk_vec<T, N> rk_get(const T *p, bool aligned)
{
    rk_vec<T, N> r;
    if (aligned) {
        r = *(const rk_vec<T, N> *)p;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) r.v[i] = p[i];
    }
    return r;
}

template <class T, int N>
RP_INLINE void rk_put(T *p, const rk_vec<T, N> &r, bool aligned)
{
    if (aligned) {
        *(rk_vec<T, N> *)p = r;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) p[i] = r.v[i];
    }
}

/* --- reductions over a block -----------------------------------------------
 * All threads call these together. Each brings one element a round; the first 16 threads are the
 * lanes of the host and add in its order. */

enum rk_how { RK_SUM, RK_PROD, RK_MAX, RK_MIN, RK_CHAIN };
#define RK_LANES(how) ((how) == RK_PROD || (how) == RK_CHAIN ? 1 : 16)
#define RK_BLOCK 1024 /* threads at most */

template <rk_how how>
RP_INLINE float rk_join(float a, float b)
{
    if (how == RK_SUM) return a + b;
    if (how == RK_PROD) return a * b;
    if (how == RK_MAX) return (a > b || a != a) ? a : b;
    return (a < b || a != a) ? a : b;
}

template <rk_how how>
RP_INLINE double rk_join(double a, double b)
{
    if (how == RK_SUM || how == RK_CHAIN) return a + b;
    if (how == RK_PROD) return a * b;
    if (how == RK_MAX) return (a > b || a != a) ? a : b;
    return (a < b || a != a) ? a : b;
}

/* Integers wrap, as on the host. */
template <rk_how how>
RP_INLINE rp_i32 rk_join(rp_i32 a, rp_i32 b)
{
    if (how == RK_SUM) return (rp_i32)((rp_u32)a + (rp_u32)b);
    if (how == RK_PROD) return (rp_i32)((rp_u32)a * (rp_u32)b);
    if (how == RK_MAX) return b > a ? b : a;
    return b < a ? b : a;
}

template <rk_how how>
RP_INLINE rp_i64 rk_join(rp_i64 a, rp_i64 b)
{
    if (how == RK_SUM) return (rp_i64)((rp_u64)a + (rp_u64)b);
    if (how == RK_PROD) return (rp_i64)((rp_u64)a * (rp_u64)b);
    if (how == RK_MAX) return b > a ? b : a;
    return b < a ? b : a;
}

/* What threads exchange, the same for all reductions of a kernel. */
template <class T>
RP_INLINE T *rk_exchanged()
{
    __shared__ T part[RK_BLOCK];
    return part;
}

/* One round: element `e` of this thread, `left` elements from thread 0 on. A product has one lane, and so have sums of chunks. */
template <rk_how how, class T>
RP_INLINE T rk_block_step(T acc, T e, long long left)
{
    T *const part = rk_exchanged<T>();
    const int lanes = RK_LANES(how);
    __syncthreads();
    part[threadIdx.x] = e;
    __syncthreads();
    if (threadIdx.x < lanes) {
        const int m = left < (long long)blockDim.x ? (int)left : (int)blockDim.x;
#pragma unroll 12
        for (int k = threadIdx.x; k < m; k += lanes) acc = rk_join<how>(acc, part[k]);
    }
    return acc;
}

/* N rounds of THREADS at once, element e[i] of this thread in round i. */
template <rk_how how, int N, int THREADS, class T>
RP_INLINE T rk_block_rounds(T acc, const T *e, long long left)
{
    enum { AT_ONCE = RK_BLOCK / THREADS };
    T *const part = rk_exchanged<T>();
#pragma unroll
    for (int first = 0; first < N; first += AT_ONCE) {
        __syncthreads();
#pragma unroll
        for (int i = first; i < N && i < first + AT_ONCE; i++) part[(i - first) * THREADS + threadIdx.x] = e[i];
        __syncthreads();
        if (threadIdx.x < 16) {
            const long long rest = left - first * THREADS, most = (N - first < AT_ONCE ? N - first : AT_ONCE) * THREADS;
            const int m = (int)(rest < most ? rest : most);
#pragma unroll 16
            for (int k = threadIdx.x; k < m; k += 16) acc = rk_join<how>(acc, part[k]);
        }
    }
    return acc;
}

template <rk_how how, class T>
RP_INLINE T rk_tree(const T *lane)
{
    T l[8];
    for (int i = 0; i < 8; i++) l[i] = rk_join<how>(lane[i], lane[i + 8]);
    for (int i = 0; i < 4; i++) l[i] = rk_join<how>(l[i], l[i + 4]);
    for (int i = 0; i < 2; i++) l[i] = rk_join<how>(l[i], l[i + 2]);
    return rk_join<how>(l[0], l[1]);
}

template <rk_how how, class T>
RP_INLINE T rk_warp_end(T acc);

/* The tree over the lanes, in the first warp; every thread gets the result. */
template <rk_how how, class T>
RP_INLINE T rk_block_end(T acc)
{
    __shared__ T all;
    __syncthreads(); /* the result before has been read */
    if (threadIdx.x < 32) {
        const T mine = rk_warp_end<how>(acc);
        if (threadIdx.x == 0) all = mine;
    }
    __syncthreads();
    return all;
}

/* CHAIN of floats: sums of chunks in double precision, one after the other. Where every one of them is a multiple of a bit that is near
 * enough to the largest for no sum of any of them to be rounded, the order does not matter, and the threads share them. */
struct rk_span {
    int lo, hi; /* exponents, as the bits of floats have them, of what is not 0 */
    double sum;
};

RP_INLINE void rk_span_add(rk_span &s, float e)
{
    const int own = (int)(rp_bits(e) >> 23 & 255u), x = own ? own : 1;
    if (e != 0.0f) {
        s.lo = x < s.lo ? x : s.lo;
        s.hi = x > s.hi ? x : s.hi;
    }
    s.sum += (double)e;
}

RP_INLINE rk_span rk_span_join(rk_span a, rk_span b)
{
    a.lo = b.lo < a.lo ? b.lo : a.lo;
    a.hi = b.hi > a.hi ? b.hi : a.hi;
    a.sum += b.sum;
    return a;
}

/* n of them are less than 2^(hi - 126 + log2 n) and multiples of 2^(lo - 150). With an infinity or a NaN the sum is one of them in any order. */
RP_INLINE bool rk_span_exact(rk_span s, long long n)
{
    int bits = 0;
    while (bits < 30 && 1LL << bits < n) bits++;
    return s.hi - s.lo + bits <= 29 && n <= 1LL << 29;
}

/* Of all threads; every thread gets it. */
RP_INLINE rk_span rk_block_span(rk_span mine)
{
    __shared__ rk_span part[RK_BLOCK / 32];
    for (int o = 16; o; o /= 2) {
        const rk_span other = {__shfl_down_sync(0xffffffffu, mine.lo, o), __shfl_down_sync(0xffffffffu, mine.hi, o),
                               __shfl_down_sync(0xffffffffu, mine.sum, o)};
        mine = rk_span_join(mine, other);
    }
    __syncthreads();
    if ((threadIdx.x & 31u) == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = part[0];
    for (int i = 1; i < (int)blockDim.x / 32; i++) mine = rk_span_join(mine, part[i]);
    return mine;
}

/* ARGMAX: the first of equals; a NaN counts as largest. */
template <class T>
struct rk_best {
    T v;
    long long at; /* -1: none yet */
};

template <class T>
RP_INLINE rk_best<T> rk_better(rk_best<T> a, rk_best<T> b)
{
    if (b.at < 0) return a;
    if (a.at < 0 || ((b.v > a.v || b.v != b.v) && a.v == a.v)) return b;
    if ((b.v == a.v || (b.v != b.v && a.v != a.v)) && b.at < a.at) return b;
    return a;
}

/* --- the same over a warp, for code that one warp runs in step ----------------- */

#define RK_WARP 0xffffffffu

RP_INLINE int rk_lane() { return (int)(threadIdx.x & 31u); }

template <rk_how how, class T>
RP_INLINE T rk_warp_step(T acc, T e, long long left)
{
    if (RK_LANES(how) == 1) {
        for (int k = 0; k < 32; k++) {
            const T one = __shfl_sync(RK_WARP, e, k);
            if (k < left) acc = rk_join<how>(acc, one);
        }
        return acc;
    }
    const T far = __shfl_down_sync(RK_WARP, e, 16);
    if (rk_lane() < 16 && rk_lane() < left) acc = rk_join<how>(acc, e);
    if (rk_lane() < 16 && rk_lane() + 16 < left) acc = rk_join<how>(acc, far);
    return acc;
}

/* N rounds at once, element e[i] of this lane in round i. */
template <rk_how how, int N, class T>
RP_INLINE T rk_warp_rounds(T acc, const T *e, long long left)
{
#pragma unroll
    for (int i = 0; i < N; i++) acc = rk_warp_step<how>(acc, e[i], left - 32 * i);
    return acc;
}

template <rk_how how, class T>
RP_INLINE T rk_warp_end(T acc)
{
    if (RK_LANES(how) != 1) {
        for (int o = 8; o; o /= 2) acc = rk_join<how>(acc, __shfl_down_sync(RK_WARP, acc, o));
    }
    return __shfl_sync(RK_WARP, acc, 0);
}

template <class T>
RP_INLINE rk_best<T> rk_warp_best(rk_best<T> mine)
{
    for (int o = 16; o; o /= 2) {
        const rk_best<T> other = {__shfl_down_sync(RK_WARP, mine.v, o), __shfl_down_sync(RK_WARP, mine.at, o)};
        mine = rk_better(mine, other);
    }
    const rk_best<T> best = {__shfl_sync(RK_WARP, mine.v, 0), __shfl_sync(RK_WARP, mine.at, 0)};
    return best;
}

/* --- the same over half a warp, of which each thread is a lane of the host; both halves call these together --- */

RP_INLINE int rk_half_lane() { return (int)(threadIdx.x & 15u); }
RP_INLINE int rk_half_rank() { return (int)(threadIdx.x >> 4 & 1u); }

/* Neighbours are joined first: of maxima and minima, which give the same so, and need not wait for one another. */
template <rk_how how, int N>
struct rk_in_pairs {
    template <class T>
    RP_INLINE T of(const T *e)
    {
        return rk_join<how>(rk_in_pairs<how, N - N / 2>::of(e), rk_in_pairs<how, N / 2>::of(e + N - N / 2));
    }
};

template <rk_how how>
struct rk_in_pairs<how, 1> {
    template <class T>
    RP_INLINE T of(const T *e)
    {
        return *e;
    }
};

/* The N elements of each lane, then the tree; every thread of the half gets the result. */
template <rk_how how, int N, class T>
RP_INLINE T rk_half(const T *e, T acc)
{
    if (how == RK_SUM) {
#pragma unroll
        for (int k = 0; k < N; k++) acc = rk_join<how>(acc, e[k]);
    } else {
        acc = rk_join<how>(acc, rk_in_pairs<how, N>::of(e));
    }
    for (int o = 8; o; o /= 2) acc = rk_join<how>(acc, __shfl_down_sync(RK_WARP, acc, o));
    return __shfl_sync(RK_WARP, acc, threadIdx.x & 16u);
}

template <class T>
RP_INLINE rk_best<T> rk_half_best(rk_best<T> mine)
{
    for (int o = 8; o; o /= 2) {
        const rk_best<T> other = {__shfl_xor_sync(RK_WARP, mine.v, o), __shfl_xor_sync(RK_WARP, mine.at, o)};
        mine = rk_better(mine, other);
    }
    return mine;
}

/* --- over a block whose threads have joined elements of their own --- */

/* In any order; every thread gets the result. */
template <rk_how how, int THREADS, class T>
RP_INLINE T rk_block_any(T acc)
{
    __shared__ T all[THREADS / 32];
    for (int o = 16; o; o /= 2) acc = rk_join<how>(acc, __shfl_down_sync(RK_WARP, acc, o));
    __syncthreads(); /* the result before has been read */
    if (rk_lane() == 0) all[threadIdx.x / 32] = acc;
    __syncthreads();
    acc = all[0];
#pragma unroll
    for (int i = 1; i < THREADS / 32; i++) acc = rk_join<how>(acc, all[i]);
    return acc;
}

/* Half a warp has a chunk of a sum, each thread a lane of it: t and those of the first `left` elements, in their order. */
template <int HALVES, class T>
RP_INLINE double rk_block_halves(double t, T acc, long long left)
{
    __shared__ T all[HALVES];
    const int n = left < HALVES * 4096LL ? (int)((left + 4095) / 4096) : HALVES;
    for (int o = 8; o; o /= 2) acc += __shfl_down_sync(RK_WARP, acc, o);
    __syncthreads(); /* the sums before have been read */
    if (rk_half_lane() == 0) all[threadIdx.x / 16] = acc;
    __syncthreads();
    for (int i = 0; i < n; i++) t += (double)all[i];
    return t;
}

/* --- rows that the threads of a block hold: element (u * THREADS + thread) * V + v of N is e[u * V + v]; beyond the end is what changes nothing --- */

template <class T, int N>
RP_INLINE T *rk_row()
{
    alignas(16) __shared__ T part[N];
    return part;
}

/* By the definition: a warp a chunk, whose first 16 threads are the lanes. */
template <rk_how how, int N, int THREADS, int V, class T>
RP_INLINE T rk_held_in_order(const T *e, T start)
{
    enum { CHUNK = how == RK_SUM && N > 4096 ? 4096 : N, CHUNKS = (N + CHUNK - 1) / CHUNK };
    __shared__ T all[CHUNKS];
    T *const part = rk_row<T, N>();
    __syncthreads(); /* what was there has been read */
#pragma unroll
    for (int u = 0; u < (N + THREADS * V - 1) / (THREADS * V); u++) {
        const int at = (u * THREADS + (int)threadIdx.x) * V;
        rk_vec<T, V> r;
#pragma unroll
        for (int v = 0; v < V; v++) r.v[v] = e[u * V + v];
        if ((u + 1) * THREADS * V <= N || at < N) rk_put(part + at, r, true);
    }
    __syncthreads();
    for (int c = (int)threadIdx.x / 32; c < CHUNKS; c += THREADS / 32) {
        const int n = N % CHUNK && c == CHUNKS - 1 ? N % CHUNK : CHUNK;
        const T *const lane = part + c * CHUNK + (threadIdx.x & 15u);
        T acc = start;
#pragma unroll 32
        for (int k = 0; k < n / 16; k++) acc = rk_join<how>(acc, lane[k * 16]);
        if (n % 16 > (int)(threadIdx.x & 15u)) acc = rk_join<how>(acc, lane[n / 16 * 16]);
        for (int o = 8; o; o /= 2) acc = rk_join<how>(acc, __shfl_down_sync(RK_WARP, acc, o));
        if (rk_lane() == 0) all[c] = acc;
    }
    __syncthreads();
    if (CHUNKS == 1) return all[0];
    double sum = 0.0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) sum += (double)all[c];
    return (T)sum;
}

template <rk_how how, int N, int THREADS, int V, class T>
RP_INLINE T rk_held_in_any(const T *e, T start)
{
    return rk_block_any<how, THREADS>(rk_join<how>(start, rk_in_pairs<how, (N + THREADS * V - 1) / (THREADS * V) * V>::of(e)));
}

/* Which of two zeros, or of two NaNs, is the largest or least is said by their order alone. */
template <rk_how how, int N, int THREADS, int V, class T>
RP_INLINE T rk_held(const T *e, T start)
{
    const bool floats = (T)0.5f != (T)0;
    if (floats && how == RK_SUM) return rk_held_in_order<how, N, THREADS, V, T>(e, start);
    const T any = rk_held_in_any<how, N, THREADS, V, T>(e, start);
    return floats && (any == (T)0 || any != any) ? rk_held_in_order<how, N, THREADS, V, T>(e, start) : any;
}

/* Whatever the order, the best is the same. */
template <class T>
RP_INLINE rk_best<T> rk_block_best(rk_best<T> mine)
{
    __shared__ rk_best<T> part[RK_BLOCK / 32];
    mine = rk_warp_best(mine);
    __syncthreads();
    if (rk_lane() == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int i = 0; i < (int)blockDim.x / 32; i++) mine = rk_better(mine, part[i]);
    return mine;
}
