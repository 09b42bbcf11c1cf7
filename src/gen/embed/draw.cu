/* A token drawn from a row of logits, as engine/sampler.c and engine/logits.c draw it, whose result is the definition: weights in
 * float, sums in double, in the same order, which is blocks of 256 with 8 lanes where nothing is cut off and candidate by candidate else.
 *
 * Candidates have an order of one number, their rank: by logit and then by id, or by id alone. The next ones in that order come in chunks, found by a radix
 * search, sorted in shared memory and added up by one thread, which stops where the host stops; as a rule there is one chunk.
 * The first digit of a rank is the distance from the largest logit, which spreads logits better than their bits. One block a row. */
#define RK_DRAW_CHUNK 1024
#define RK_DRAW_DIGIT 11
#define RK_DRAW_GROUP 32 /* digits that are counted together, too */
#define RK_DRAW_ID_BITS 21
#define RK_DRAW_BLOCK 256
#define RK_DRAW_LANES 8
#define RK_DRAW_AHEAD 4 /* pieces of a thread that are on their way at once */

struct alignas(16) rk_draw_piece {
    float one[4];
};

struct rk_draw_room {
    union {
        rp_u32 count[1 << RK_DRAW_DIGIT];              /* by digit */
        double part[GEN_DRAW_VOCAB / RK_DRAW_BLOCK]; /* sums of whole blocks */
    };
    rp_u64 rank[RK_DRAW_CHUNK]; /* of a chunk, the first candidate first */
    float weight[RK_DRAW_CHUNK];
    rp_u32 group[(1 << RK_DRAW_DIGIT) / RK_DRAW_GROUP];
    double sum;
    rp_u32 n, visited;
    bool ends, more; /* no candidate is behind the chunk; the walk goes on */
    int digit, id;
};

/* A row and the order of its candidates. Threads of a block have the same. */
struct rk_draw_order {
    const float *x;
    long long n;
    float top, scale;
    double least; /* weight of a candidate */
    float floor;  /* no candidate's power of two is as low */
    bool by_id;
    rp_u32 held; /* candidates of the first chunk, where that is the one in the room */
};

/* As weights() in engine/logits.c. */
RP_INLINE float rk_draw_weight(const rk_draw_order &o, float x)
{
    const float magic = 12582912.0f, t = (x - o.top) * o.scale;
    if (!(t > -115.0f)) return 0.0f;
    const float whole = t + magic, f = t - (whole - magic);
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    return p * rp_from_bits((rp_bits(whole) - rp_bits(magic) + 127) << 23);
}

/* A candidate. Most logits are none by their power of two, and where no weight is asked for that decides. */
RP_INLINE bool rk_draw_may(const rk_draw_order &o, float x)
{
    if (!((x - o.top) * o.scale > o.floor)) return false;
    return !(o.least > 0) || (double)rk_draw_weight(o, x) >= o.least;
}

RP_INLINE void rk_draw_limit(rk_draw_order &o, double least)
{
    const float below = (float)((int)(rp_bits64(least) >> 52) - 1023 - 1); /* of the power of two that least has, with room for roundings */
    o.least = least;
    o.floor = least > 0 && below > -115.0f ? below : -115.0f;
}

/* The first digit of a rank by logit. */
RP_INLINE int rk_draw_digit(const rk_draw_order &o, float x)
{
    const int last = (1 << RK_DRAW_DIGIT) - 1;
    const float behind = (o.top - x) * 32.0f;
    return behind < (float)last ? last - (int)behind : 0;
}

RP_INLINE rp_u64 rk_draw_rank(const rk_draw_order &o, float x, long long id)
{
    const rp_u64 place = ((rp_u64)1 << RK_DRAW_ID_BITS) - 1 - (rp_u64)id;
    if (o.by_id) return place;
    const int bits = (int)rp_bits(x + 0.0f); /* -0 equals 0 */
    const rp_u32 key = (rp_u32)(bits ^ (int)((rp_u32)(bits >> 31) >> 1)) ^ 0x80000000u;
    return (rp_u64)rk_draw_digit(o, x) << (32 + RK_DRAW_ID_BITS) | (rp_u64)key << RK_DRAW_ID_BITS | place;
}

RP_INLINE int rk_draw_id(rp_u64 rank) { return (1 << RK_DRAW_ID_BITS) - 1 - (int)(rank & ((1 << RK_DRAW_ID_BITS) - 1)); }

/* Calls f(logit, id) for this thread's part of the row. */
template <class F>
RP_INLINE void rk_draw_each(const rk_draw_order &o, F f)
{
    const rk_draw_piece *pieces = (const rk_draw_piece *)o.x;
    const long long whole = (rp_u64)o.x % sizeof(rk_draw_piece) ? 0 : o.n / 4;
    for (long long first = threadIdx.x; first < whole; first += GEN_EXCHANGE_THREADS * RK_DRAW_AHEAD) {
        rk_draw_piece p[RK_DRAW_AHEAD];
#pragma unroll
        for (int i = 0; i < RK_DRAW_AHEAD; i++)
            if (first + i * GEN_EXCHANGE_THREADS < whole) p[i] = pieces[first + i * GEN_EXCHANGE_THREADS];
#pragma unroll
        for (int i = 0; i < RK_DRAW_AHEAD; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (first + i * GEN_EXCHANGE_THREADS < whole) f(p[i].one[e], (first + i * GEN_EXCHANGE_THREADS) * 4 + e);
    }
    for (long long at = whole * 4 + threadIdx.x; at < o.n; at += GEN_EXCHANGE_THREADS) f(o.x[at], at);
}

/* From r.count of that many digits, those from the top that make the next chunk: r.n candidates down to r.digit. */
RP_INLINE void rk_draw_cut(rk_draw_room &r, int digits, rp_u32 want)
{
    if (threadIdx.x < digits / RK_DRAW_GROUP) {
        rp_u32 sum = 0;
        for (int i = 0; i < RK_DRAW_GROUP; i++) sum += r.count[threadIdx.x * RK_DRAW_GROUP + i];
        r.group[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int d = digits;
        rp_u32 n = 0;
        while (d > 0 && n < want) {
            const bool whole = d % RK_DRAW_GROUP == 0 && n + r.group[d / RK_DRAW_GROUP - 1] < want;
            const rp_u32 more = whole ? r.group[d / RK_DRAW_GROUP - 1] : r.count[d - 1];
            if (n + more > RK_DRAW_CHUNK) break;
            n += more;
            d -= whole ? RK_DRAW_GROUP : 1;
        }
        r.n = n;
        r.digit = d;
    }
    __syncthreads();
}

/* The least rank of the next chunk, of candidates below `before`: there are fewer than `want` in it where one more digit would be too
 * many. 0 where there are no others. */
RP_CALL rp_u64 rk_draw_bound(rk_draw_room &r, const rk_draw_order &o, rp_u64 before, rp_u32 want)
{
    rp_u64 prefix = 0; /* the digits of a rank above its last `left` bits */
    for (int left = o.by_id ? 2 * RK_DRAW_DIGIT : 64;;) {
        const int shift = left > RK_DRAW_DIGIT ? left - RK_DRAW_DIGIT : 0, digits = 1 << (left - shift);
        for (int i = threadIdx.x; i < digits; i += GEN_EXCHANGE_THREADS) r.count[i] = 0;
        __syncthreads();
        if (left == 64 && !~before) {
            rk_draw_each(o, [&](float x, long long) {
                if (rk_draw_may(o, x)) atomicAdd(&r.count[rk_draw_digit(o, x)], 1u);
            });
        } else {
            rk_draw_each(o, [&](float x, long long id) {
                const rp_u64 rank = rk_draw_rank(o, x, id);
                if (rank >= before || (left < 64 && rank >> left != prefix)) return;
                if (rk_draw_may(o, x)) atomicAdd(&r.count[rank >> shift & (rp_u64)(digits - 1)], 1u);
            });
        }
        __syncthreads();
        rk_draw_cut(r, digits, want);
        const bool found = r.n > 0 || r.digit == 0;
        prefix = prefix << (left - shift) | (rp_u64)(found ? r.digit : r.digit - 1);
        left = shift;
        __syncthreads();
        if (found) return prefix << left;
    }
}

/* From the first to the last. */
RP_CALL void rk_draw_sort(rk_draw_room &r, int n)
{
    int all = 1;
    while (all < n) all *= 2;
    for (int i = n + threadIdx.x; i < all; i += GEN_EXCHANGE_THREADS) r.rank[i] = 0;
    __syncthreads();
    for (int size = 2; size <= all; size *= 2)
        for (int stride = size / 2; stride; stride /= 2) {
            for (int i = threadIdx.x; i < all / 2; i += GEN_EXCHANGE_THREADS) {
                const int a = 2 * i - (i & (stride - 1)), b = a + stride;
                const rp_u64 first = r.rank[a], second = r.rank[b];
                if ((first < second) == ((a & size) == 0)) {
                    r.rank[a] = second;
                    r.rank[b] = first;
                }
            }
            __syncthreads();
        }
}

/* The next candidates below `before`; returns how many. */
RP_CALL rp_u32 rk_draw_chunk(rk_draw_room &r, const rk_draw_order &o, rp_u64 before, rp_u32 want)
{
    const rp_u64 bound = rk_draw_bound(r, o, before, want);
    const int digit = o.by_id ? 0 : (int)(bound >> (64 - RK_DRAW_DIGIT));
    if (threadIdx.x == 0) {
        r.n = 0;
        r.ends = bound == 0;
    }
    __syncthreads();
    rk_draw_each(o, [&](float x, long long id) {
        if (digit > 0 && rk_draw_digit(o, x) < digit) return;
        const rp_u64 rank = rk_draw_rank(o, x, id);
        if (rank < before && rank >= bound && rk_draw_may(o, x)) r.rank[atomicAdd(&r.n, 1u)] = rank;
    });
    __syncthreads();
    const rp_u32 n = r.n;
    rk_draw_sort(r, (int)n);
    for (rp_u32 i = threadIdx.x; i < n; i += GEN_EXCHANGE_THREADS) r.weight[i] = rk_draw_weight(o, o.x[rk_draw_id(r.rank[i])]);
    __syncthreads();
    return n;
}

/* Adds up the weights of candidates in order, `most` of them at most, until the sum reaches `enough` or is above `wanted`. Every thread finds
 * the sum, the number and the id of the last of them in the room. */
RP_CALL void rk_draw_walk(rk_draw_room &r, rk_draw_order &o, rp_u32 most, double enough, double wanted)
{
    rp_u64 before = ~(rp_u64)0;
    double sum = 0;
    rp_u32 visited = 0;
    __syncthreads(); /* all have read what the last walk left */
    for (bool first = true;; first = false) {
        if (!first || !o.held) o.held = rk_draw_chunk(r, o, before, most < RK_DRAW_CHUNK ? most : RK_DRAW_CHUNK);
        const rp_u32 n = o.held;
        if (threadIdx.x == 0) {
            bool more = n > 0;
            rp_u32 i = 0;
            for (; more && i < n; i++) {
                sum += (double)r.weight[i];
                more = ++visited < most && sum < enough && !(wanted < sum);
            }
            if (i > 0) r.id = rk_draw_id(r.rank[i - 1]);
            r.sum = sum;
            r.visited = visited;
            r.more = more && !r.ends;
        }
        __syncthreads();
        if (n > 0) before = r.rank[n - 1];
        if (!first) o.held = 0;
        if (!r.more) break;
        __syncthreads();
    }
}

/* The sum of all weights, of whole blocks in r.part (engine_logits_sum). */
RP_CALL double rk_draw_total(rk_draw_room &r, const rk_draw_order &o)
{
    const long long blocks = o.n / RK_DRAW_BLOCK, tail = o.n % RK_DRAW_BLOCK;
    const int lane = threadIdx.x % RK_DRAW_LANES;
    for (long long first = 0; first < blocks * RK_DRAW_LANES; first += GEN_EXCHANGE_THREADS) {
        const long long block = (first + threadIdx.x) / RK_DRAW_LANES;
        double own = 0, sum = 0;
#pragma unroll 8
        for (int i = 0; i < RK_DRAW_BLOCK / RK_DRAW_LANES; i++)
            if (block < blocks) own += (double)rk_draw_weight(o, o.x[block * RK_DRAW_BLOCK + i * RK_DRAW_LANES + lane]);
        for (int i = 0; i < RK_DRAW_LANES; i++) sum += __shfl_sync(RK_WARP, own, (int)(threadIdx.x % 32 - lane + i));
        if (block < blocks && lane == 0) r.part[block] = sum;
    }
    for (long long i = threadIdx.x; i < tail; i += GEN_EXCHANGE_THREADS) r.weight[i] = rk_draw_weight(o, o.x[blocks * RK_DRAW_BLOCK + i]);
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0, rest = 0;
#pragma unroll 8
        for (long long i = 0; i < blocks; i++) sum += r.part[i];
        for (long long i = 0; i < tail; i++) rest += (double)r.weight[i];
        r.sum = sum + rest;
    }
    __syncthreads();
    return r.sum;
}

/* The last token that has a weight. */
RP_INLINE int rk_draw_last(const rk_draw_order &o)
{
    long long at = o.n - 1;
    while (at > 0 && !(rk_draw_weight(o, o.x[at]) > 0.0f)) at--;
    return (int)at;
}

/* Among all (engine_logits_draw). */
RP_CALL void rk_draw_among_all(rk_draw_room &r, const rk_draw_order &o, double uniform)
{
    const double wanted = uniform * rk_draw_total(r, o);
    const long long blocks = o.n / RK_DRAW_BLOCK;
    double sum = 0;
    if (threadIdx.x == 0) {
        rp_u32 block = 0;
        for (; block < blocks && !(sum + r.part[block] > wanted); block++) sum += r.part[block];
        r.n = block * RK_DRAW_BLOCK;
        r.id = -1;
    }
    __syncthreads();
    for (long long from = r.n;; from += RK_DRAW_CHUNK) {
        const long long n = o.n - from < RK_DRAW_CHUNK ? o.n - from : RK_DRAW_CHUNK;
        __syncthreads(); /* of the chunk before, and its token */
        if (r.id >= 0) break;
        for (long long i = threadIdx.x; i < n; i += GEN_EXCHANGE_THREADS) r.weight[i] = rk_draw_weight(o, o.x[from + i]);
        __syncthreads();
        if (threadIdx.x != 0) continue;
        for (long long i = 0; i < n && r.id < 0; i++) {
            sum += (double)r.weight[i];
            if (sum > wanted && r.weight[i] > 0.0f) r.id = (int)(from + i);
        }
        if (r.id < 0 && from + n >= o.n) r.id = rk_draw_last(o);
    }
}

RP_INLINE double rk_draw_double(const rp_i32 *words) { return rp_from_bits64((rp_u64)(rp_u32)words[0] | (rp_u64)(rp_u32)words[1] << 32); }

/* Of the row x[n], whose largest logit is top, a number: every thread of the block calls it and finds the token in r.id. */
RP_CALL void rk_draw(rk_draw_room &r, const float *x, long long n, float top, const rp_i32 *p)
{
    const double top_p = rk_draw_double(p + GEN_DRAW_TOP_P), min_p = rk_draw_double(p + GEN_DRAW_MIN_P);
    const double uniform = rk_draw_double(p + GEN_DRAW_UNIFORM), never = rp_from_bits64((rp_u64)0x7ff << 52);
    const rp_u32 all = (rp_u32)n, k = p[GEN_DRAW_TOP_K] > 0 && p[GEN_DRAW_TOP_K] < n ? (rp_u32)p[GEN_DRAW_TOP_K] : 0;
    rk_draw_order o = {x, n, top, rp_from_bits((rp_u32)p[GEN_DRAW_SCALE]), 0, 0, true, 0};
    rk_draw_limit(o, min_p);
    if (k == 0 && top_p >= 1 && !(min_p > 0)) {
        rk_draw_among_all(r, o, uniform);
        return;
    }
    rp_u32 most = k ? k : all;
    double total = 0;
    if (k == 0 && min_p > 0) {
        rk_draw_walk(r, o, all, never, never);
        total = r.sum;
    } else if (k == 0) {
        total = rk_draw_total(r, o);
    }
    if (k || top_p < 1) {
        const double share = (1 - top_p) * total / (double)n * 0.999;
        if (k == 0 && share > o.least) rk_draw_limit(o, share); /* what is lighter cannot reach the nucleus */
        o.by_id = false;
        o.held = 0;
        if (k) {
            rk_draw_walk(r, o, most, never, never);
            total = r.sum;
        }
        if (top_p < 1) rk_draw_walk(r, o, most, top_p * total, never);
        most = r.visited;
    }
    rk_draw_walk(r, o, most, never, uniform * r.sum);
}
