/* The largest of each row of floats and where it is, as CUDA C: of equals the first, a NaN is largest, -0 equals 0 (topk of one).
 *
 * A cluster of blocks takes a row; each of its threads has every so many pieces, AHEAD of which are on their way at once, and the best of all is found by order of one
 * number, the value's rank above the place from behind. Block 0 of the cluster reads what the others found. */

struct alignas(16) rk_top_piece {
    float one[4];
};

RP_INLINE int rk_top_key(float x)
{
    const int b = (int)rp_bits(x + 0.0f);
    return x == x ? b ^ (int)((rp_u32)(b >> 31) >> 1) : 0x7fffffff;
}

/* The number with that key; of zeros +0. */
RP_INLINE float rk_top_value(int key) { return rp_from_bits((rp_u32)(key ^ (int)((rp_u32)(key >> 31) >> 1))); }

RP_INLINE long long rk_top_rank(int key, long long at)
{
    return (long long)((rp_u64)(rp_u32)key << 32 | (rp_u64)(0xffffffffu - (rp_u32)at));
}

RP_INLINE long long rk_top_more(long long a, long long b) { return a > b ? a : b; }

/* The best of this thread's elements of x[n], which come in ascending order; index and count are of the threads of the cluster. */
template <int AHEAD>
RP_INLINE long long rk_top_own(const float *x, long long n, int index, int count)
{
    const rk_top_piece *pieces = (const rk_top_piece *)x;
    const rp_u32 whole = (rp_u64)x % sizeof(rk_top_piece) ? 0 : (rp_u32)(n / 4);
    int best = (int)0x80000000; /* less than the key of any number */
    rp_u32 place = 0xffffffffu;
    for (rp_u32 first = index; first < whole; first += count * AHEAD) {
        rk_top_piece p[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * count < whole) p[i] = pieces[first + i * count];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = rk_top_key(p[i].one[e]);
                if (first + i * count >= whole || key <= best) continue;
                best = key;
                place = (first + i * count) * 4 + e;
            }
    }
    for (long long at = (long long)whole * 4 + index; at < n; at += count) {
        const int key = rk_top_key(x[at]);
        if (key <= best) continue;
        best = key;
        place = (rp_u32)at;
    }
    return rk_top_rank(best, place);
}

RP_INLINE long long rk_top_of_warp(long long best)
{
#pragma unroll
    for (int o = 16; o; o /= 2) best = rk_top_more(best, __shfl_down_sync(RK_WARP, best, o));
    return best;
}

template <int BLOCKS, int THREADS, int AHEAD>
struct rk_top {
    struct room {
        long long part[THREADS / 32], all;
    };
    RP_INLINE void meet()
    {
        if (BLOCKS > 1) {
            rk_cluster_arrive();
            rk_cluster_wait();
        } else {
            __syncthreads();
        }
    }
    /* The row x[n]; every thread of the cluster calls it. */
    RP_INLINE void run(room &r, const float *x, long long n, float *value, rp_i32 *place)
    {
        const int id = threadIdx.x, rank = BLOCKS > 1 ? rk_cluster_rank() : 0;
        long long best = rk_top_of_warp(rk_top_own<AHEAD>(x, n, rank * THREADS + id, BLOCKS * THREADS));
        if (id % 32 == 0) r.part[id / 32] = best;
        __syncthreads();
        if (id < 32) {
            best = rk_top_of_warp(r.part[id % (THREADS / 32)]);
            if (id == 0) r.all = best;
        }
        meet();
        if (rank == 0 && id == 0) {
            for (int i = 1; i < BLOCKS; i++) best = rk_top_more(best, *rk_of_block(&r.all, i));
            const rp_i32 at = (rp_i32)(0xffffffffu - (rp_u32)best);
            *value = x[at];
            *place = at;
        }
        meet(); /* nobody ends, or goes on, while block 0 reads */
    }
};
