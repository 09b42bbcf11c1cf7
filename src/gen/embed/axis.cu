/* Along one axis of dense memory [outer, n, inner], as CUDA C: cumulative sums, the k largest, sorting. What they
 * give is defined in src/gen/axis.c and sort.c, and is the same here bit for bit.
 *
 * A line is the n elements of one (outer, inner), `step` apart. All threads of a block take a line together, or every
 * thread has one of its own: neighbours lie side by side, so that is for an `inner` of a warp and more. */

/* Elements as they lie in memory, as they are added up, and their order as unsigned integers: -0 equals 0, a NaN is last. */
RP_INLINE rp_u32 rk_order(rp_u32 u) { return u >> 31 ? ~u : u | 0x80000000u; }
RP_INLINE rp_u32 rk_key(float x) { return x == x ? rk_order(rp_bits(x + 0.0f)) : 0xffffffffu; }

struct rk_e_f32 {
    typedef float memory;
    typedef float number;
    typedef rp_u32 order;
    RP_INLINE float zero() { return -0.0f; } /* what changes no sum */
    RP_INLINE float get(float x) { return x; }
    RP_INLINE float put(float x) { return x; }
    RP_INLINE rp_u32 key(float x) { return rk_key(x); }
};
template <bool BF16>
struct rk_e_half {
    typedef rp_u16 memory;
    typedef float number;
    typedef rp_u32 order;
    RP_INLINE float zero() { return -0.0f; }
    RP_INLINE float get(rp_u16 x) { return BF16 ? rp_bf16_to_f32(x) : rp_f16_to_f32(x); }
    RP_INLINE rp_u16 put(float x) { return BF16 ? rp_f32_to_bf16(x) : rp_f32_to_f16(x); }
    RP_INLINE rp_u32 key(rp_u16 x) { return rk_key(get(x)); }
};
typedef rk_e_half<false> rk_e_f16;
typedef rk_e_half<true> rk_e_bf16;
struct rk_e_f64 {
    typedef double memory;
    typedef double number;
    typedef rp_u64 order;
    RP_INLINE double zero() { return -0.0; }
    RP_INLINE double get(double x) { return x; }
    RP_INLINE double put(double x) { return x; }
    RP_INLINE rp_u64 key(double x)
    {
        const rp_u64 u = rp_bits64(x + 0.0), top = (rp_u64)1 << 63;
        return x != x ? ~(rp_u64)0 : u >> 63 ? ~u : u | top;
    }
};
struct rk_e_i32 {
    typedef rp_u32 memory;
    typedef rp_u32 number;
    typedef rp_u32 order;
    RP_INLINE rp_u32 zero() { return 0; }
    RP_INLINE rp_u32 get(rp_u32 x) { return x; }
    RP_INLINE rp_u32 put(rp_u32 x) { return x; }
    RP_INLINE rp_u32 key(rp_u32 x) { return x ^ 0x80000000u; }
};
/* Of 16 and 8 bits, added up in 32. */
template <class M, rp_u32 FLIP>
struct rk_e_small {
    typedef M memory;
    typedef rp_u32 number;
    typedef rp_u32 order;
    RP_INLINE rp_u32 zero() { return 0; }
    RP_INLINE rp_u32 get(M x) { return x; }
    RP_INLINE M put(rp_u32 x) { return (M)x; }
    RP_INLINE rp_u32 key(M x) { return x ^ FLIP; }
};
typedef rk_e_small<rp_u16, 0x8000u> rk_e_i16;
typedef rk_e_small<rp_u8, 0x80u> rk_e_i8;
typedef rk_e_small<rp_u8, 0u> rk_e_u8;
struct rk_e_i64 {
    typedef rp_u64 memory;
    typedef rp_u64 number;
    typedef rp_u64 order;
    RP_INLINE rp_u64 zero() { return 0; }
    RP_INLINE rp_u64 get(rp_u64 x) { return x; }
    RP_INLINE rp_u64 put(rp_u64 x) { return x; }
    RP_INLINE rp_u64 key(rp_u64 x) { return x ^ (rp_u64)1 << 63; }
};

/* --- cumulative sums ---------------------------------------------------------------- */

#define RK_SCAN_CHUNK 4096
#define RK_SCAN_THREADS 256

/* Hillis and Steele over the 16 lanes that a thread belongs to. */
template <class T>
RP_INLINE T rk_scan_16(T v)
{
#pragma unroll
    for (int d = 1; d < 16; d *= 2) {
        const T before = __shfl_sync(RK_WARP, v, rk_lane() - d & 31);
        if ((rk_lane() & 15) >= d) v = v + before;
    }
    return v;
}

/* By RK_SCAN_THREADS threads: a chunk is read, scanned in blocks of 16 and written while it is in registers. */
template <class E>
RP_FN void rk_cumsum_line(const typename E::memory *x, typename E::memory *y, long long n, long long step)
{
    typedef typename E::number T;
    enum { ROUNDS = RK_SCAN_CHUNK / RK_SCAN_THREADS, BLOCKS = RK_SCAN_CHUNK / 16, OF_ROUND = RK_SCAN_THREADS / 16 };
    __shared__ T before[BLOCKS + 1]; /* sums of blocks, then of those in front of each */
    T chunks = E::zero();
    for (long long first = 0; first < n; first += RK_SCAN_CHUNK) {
        const int m = n - first < RK_SCAN_CHUNK ? (int)(n - first) : RK_SCAN_CHUNK, blocks = (m + 15) / 16;
        T v[ROUNDS];
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            const int i = r * RK_SCAN_THREADS + threadIdx.x;
            v[r] = i < m ? E::get(x[(first + i) * step]) : E::zero();
        }
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            v[r] = rk_scan_16(v[r]);
            if ((rk_lane() & 15) == 15) before[r * OF_ROUND + threadIdx.x / 16] = v[r];
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            T sum = E::zero();
#pragma unroll 16
            for (int b = 0; b < blocks; b++) {
                const T own = before[b];
                before[b] = sum;
                sum = sum + own;
            }
            before[BLOCKS] = sum;
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            const int i = r * RK_SCAN_THREADS + threadIdx.x;
            if (i < m) y[(first + i) * step] = E::put(chunks + (before[r * OF_ROUND + threadIdx.x / 16] + v[r]));
        }
        chunks = chunks + before[BLOCKS];
        __syncthreads();
    }
}

/* By one thread. */
template <class E>
RP_FN void rk_cumsum_alone(const typename E::memory *x, typename E::memory *y, long long n, long long step)
{
    typename E::number chunks = E::zero(), blocks = E::zero(), t[16];
    for (long long i = 0; i < n; i += 16) {
        if (i % RK_SCAN_CHUNK == 0) {
            chunks = chunks + blocks;
            blocks = E::zero();
        }
#pragma unroll
        for (int l = 0; l < 16; l++) t[l] = i + l < n ? E::get(x[(i + l) * step]) : E::zero();
#pragma unroll
        for (int d = 1; d < 16; d *= 2)
#pragma unroll
            for (int l = 15; l >= d; l--) t[l] = t[l] + t[l - d];
#pragma unroll
        for (int l = 0; l < 16; l++)
            if (i + l < n) y[(i + l) * step] = E::put(chunks + (blocks + t[l]));
        blocks = blocks + t[15];
    }
}

/* --- the k largest ------------------------------------------------------------------- */

/* The largest of all threads' numbers; every thread gets it. */
RP_INLINE rp_u64 rk_block_most(rp_u64 v)
{
    __shared__ rp_u64 part[32];
    for (int o = 16; o; o /= 2) {
        const rp_u64 other = __shfl_xor_sync(RK_WARP, v, o);
        if (other > v) v = other;
    }
    __syncthreads(); /* the result before has been read */
    if (rk_lane() == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    for (int i = 0; i < (int)blockDim.x / 32; i++) v = part[i] > v ? part[i] : v;
    return v;
}

/* Element `at` among all: its value, and of equal ones the first is more. */
template <class E>
RP_INLINE rp_u64 rk_rank(typename E::memory x, rp_u32 at)
{
    return (rp_u64)E::key(x) << 32 | (0xffffffffu - at);
}

/* The k best of n <= 2^32 - 1 elements of 32 bits at most, one after the other. HELD: ranks that a thread keeps, for all of the
 * line; 0: they are made again for each. */
template <class E, int HELD>
RP_FN void rk_topk(const typename E::memory *x, typename E::memory *values, rp_i32 *indices, long long n, int k)
{
    rp_u64 held[HELD ? HELD : 1], most = ~(rp_u64)0;
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        const rp_u32 i = h * blockDim.x + threadIdx.x;
        held[h] = i < n ? rk_rank<E>(x[i], i) : 0;
    }
    for (int j = 0; j < k; j++) {
        rp_u64 best = 0; /* less than any rank */
        if (HELD) {
#pragma unroll
            for (int h = 0; h < HELD; h++)
                if (held[h] <= most && held[h] > best) best = held[h];
        } else {
            for (long long i = threadIdx.x; i < n; i += blockDim.x) {
                const rp_u64 rank = rk_rank<E>(x[i], (rp_u32)i);
                if (rank <= most && rank > best) best = rank;
            }
        }
        best = rk_block_most(best);
        if (threadIdx.x == 0) {
            const rp_u32 at = 0xffffffffu - (rp_u32)best;
            values[j] = x[at];
            indices[j] = (rp_i32)at;
        }
        most = best - 1;
    }
}

/* --- sorting --------------------------------------------------------------------------- */

#define RK_SORT_TILE 1024

/* How many of m ascending keys come before k, those that are equal where `equals`. */
template <class O>
RP_INLINE long long rk_before(const O *key, long long m, O k, bool equals)
{
    long long low = 0;
    while (low < m) {
        const long long middle = (low + m) / 2;
        if (key[middle] < k || (equals && key[middle] == k))
            low = middle + 1;
        else
            m = middle;
    }
    return low;
}

/* Pairs of ascending runs of `width` become one; equals keep their order. Each thread finds where its elements go. */
template <class O>
RP_INLINE void rk_merge(const O *key, const rp_u32 *place, O *to_key, rp_u32 *to_place, long long n, long long width)
{
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        const long long first = i / (2 * width) * (2 * width), middle = first + width < n ? first + width : n,
                        end = middle + width < n ? middle + width : n;
        const O k = key[i];
        const long long at = i < middle ? i + rk_before(key + middle, end - middle, k, false)
                                        : first + (i - middle) + rk_before(key + first, middle - first, k, true);
        to_key[at] = k;
        to_place[at] = place[i];
    }
    __syncthreads();
}

/* A line and its places, in order, of which the first `count` are written. work: of a line of more than RK_SORT_TILE elements,
 * 24 bytes for each. */
template <class E, int DOWN>
RP_FN void rk_sort(const typename E::memory *x, typename E::memory *values, rp_i32 *indices, char *work, long long n,
                   long long step, long long count)
{
    typedef typename E::order O;
    __shared__ O keys[2][RK_SORT_TILE];
    __shared__ rp_u32 places[2][RK_SORT_TILE];
    O *key[2] = {(O *)work, (O *)work + n};
    rp_u32 *place[2] = {(rp_u32 *)(key[1] + n), (rp_u32 *)(key[1] + n) + n};
    int now = 0;
    for (long long first = 0; first < n; first += RK_SORT_TILE) {
        const int m = n - first < RK_SORT_TILE ? (int)(n - first) : RK_SORT_TILE;
        now = 0;
        for (int i = threadIdx.x; i < m; i += blockDim.x) {
            const O k = E::key(x[(first + i) * step]);
            keys[0][i] = DOWN ? ~k : k;
            places[0][i] = (rp_u32)(first + i);
        }
        __syncthreads();
        for (int width = 1; width < m; width *= 2, now ^= 1)
            rk_merge(keys[now], places[now], keys[now ^ 1], places[now ^ 1], m, width);
        for (int i = threadIdx.x; n > RK_SORT_TILE && i < m; i += blockDim.x) {
            key[0][first + i] = keys[now][i];
            place[0][first + i] = places[now][i];
        }
        if (n > RK_SORT_TILE) __syncthreads();
    }
    const rp_u32 *sorted = places[now];
    if (n > RK_SORT_TILE) {
        now = 0;
        for (long long width = RK_SORT_TILE; width < n; width *= 2, now ^= 1)
            rk_merge(key[now], place[now], key[now ^ 1], place[now ^ 1], n, width);
        sorted = place[now];
    }
    for (long long i = threadIdx.x; i < count; i += blockDim.x) {
        values[i * step] = x[sorted[i] * step];
        indices[i * step] = (rp_i32)sorted[i];
    }
    __syncthreads();
}
