/* Scatters along one axis of dense memory [outer, n, inner], as CUDA C. What they give is defined in src/gen/scatter.c, and is the
 * same here bit for bit: the k sources of a line are joined in ascending order.
 *
 * Different targets are independent. So targets are divided: a block has a range of those of a line, or of neighbouring lines
 * whose indices are the same, looks at all indices for the sources of its range, and each of its warps joins those of its own
 * targets. Where there are lines enough, every thread has one of its own instead (rk_scatter_alone). */

#define RK_NO_TARGET 0xffffffffu

RP_INLINE long long rk_index(long long i, long long n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* Up to N sources v of one column, in order, at their targets (NULL: no source). What is there is read for all of them at once: the
 * later of one target takes what the one before left. */
template <class J, int N>
RP_INLINE void rk_join_some(typename J::T *const *to, typename J::T *v)
{
    typename J::T is[N];
#pragma unroll
    for (int i = 0; i < N; i++) is[i] = to[i] ? *to[i] : (typename J::T)0;
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int e = 0; e < i; e++)
            if (to[e] == to[i]) is[i] = v[e];
        v[i] = J::of(is[i], v[i]);
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (to[i]) *to[i] = v[i];
}

/* A line by one thread. */
template <class J, class I>
RP_FN void rk_scatter_alone(const typename J::T *x, const I *index, const typename J::T *src, typename J::T *y, long long n,
                            long long k, long long step)
{
    enum { N = 8 };
    for (long long first = 0; first < n; first += N) {
        typename J::T v[N];
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = first + i < n ? x[(first + i) * step] : (typename J::T)0;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (first + i < n) y[(first + i) * step] = J::kept(v[i]);
    }
    for (long long first = 0; n > 0 && first < k; first += N) {
        typename J::T *to[N], v[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const bool is = first + i < k;
            to[i] = is ? y + rk_index(index[(first + i) * step], n) * step : 0;
            v[i] = is ? src[(first + i) * step] : (typename J::T)0;
        }
        rk_join_some<J, N>(to, v);
    }
}

template <int BYTES>
struct rk_index_bits {
    typedef rp_u32 U;
};
template <>
struct rk_index_bits<8> {
    typedef rp_u64 U;
};

/* Over a warp: the bits that some lane has, and the sum. */
RP_INLINE rp_u32 rk_or_lanes(rp_u32 v) { return __reduce_or_sync(RK_WARP, v); }
RP_INLINE int rk_sum_lanes(int v) { return (int)__reduce_add_sync(RK_WARP, (rp_u32)v); }

/* What a scatter is of. Entries of the index of line o, j are index_step apart, from index + o * index_outer (+ j) on. */
template <class T, class I>
struct rk_scatter_of {
    typedef typename rk_index_bits<sizeof(I)>::U U;
    const T *x;
    const I *index;
    const T *src;
    T *y;
    long long outer, n, k, inner, index_outer, index_step;
};

/* By blocks of THREADS. COLUMNS: neighbours of inner that share indices and are a block's, 32 of them a warp's at once; 1: each has
 * indices of its own, or inner is 1, and a warp joins 32 sources at once. */
template <class J, class I, int THREADS, int COLUMNS>
struct rk_scatter {
    typedef typename J::T T;
    enum {
        WARPS = THREADS / 32,
        AHEAD = 64 / (int)sizeof(I), /* indices that a thread has under way */
        ROUND = AHEAD * THREADS,
        LIST = 2 * THREADS,
        LEAST = 8, /* targets of a range that are worth a block that looks at all indices */
        N = sizeof(T) > 4 ? 4 : 8, /* sources that a lane has under way, */
        SOME = 4, /* and of those, that it joins at once */
        MORE = sizeof(T) > 4 ? 8 : 16 /* sources under way that have one target */
    };
    /* Sources of the range in order: the target's number in it, and the position. own: entries of the list that are a warp's. */
    struct room {
        long long from[LIST];
        rp_u32 to[LIST], found[2][32];
        rp_u16 own[WARPS][64];
    };
    typedef rk_scatter_of<T, I> of;

    /* From the first target of the range, and the first source, on. */
    struct part {
        const T *x, *src;
        T *y;
        const I *index;
        I begin, last; /* last: of all targets, as far as an index can have its number */
        typename of::U least, reach; /* indices from the least to one that is larger by `reach`, those beyond either end, too, are for the range, .. */
        bool any;                    /* .. if any is */
        rp_u32 size, columns;
    };

    /* Place of this thread's i-th index in a round: those of a warp lie together, and before those of the next one. */
    RP_INLINE int place(int i) { return (int)(threadIdx.x / 32 * (32 * AHEAD) + i * 32) + rk_lane(); }

    /* Where the e-th of `count` elements of the range lies; -1: there is none. */
    RP_INLINE long long kept_at(const of &s, const part &p, bool whole, long long e, long long count)
    {
        if (e >= count || (!whole && e % COLUMNS >= p.columns)) return -1;
        return whole ? e : e / COLUMNS * s.inner + e % COLUMNS;
    }

    /* x as it is. */
    RP_INLINE void keep(const of &s, const part &p)
    {
        const bool whole = p.columns == s.inner; /* rows lie behind each other */
        const long long count = (long long)p.size * (whole ? p.columns : COLUMNS);
        for (long long first = threadIdx.x; first < count; first += 4 * THREADS) {
            T v[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const long long at = kept_at(s, p, whole, first + i * THREADS, count);
                v[i] = at >= 0 ? p.x[at] : (T)0;
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const long long at = kept_at(s, p, whole, first + i * THREADS, count);
                if (at >= 0) p.y[at] = J::kept(v[i]);
            }
        }
    }

    /* The warp's own first `count` entries, where each lane has columns. */
    RP_INLINE void join_rows(const room &r, const of &s, const part &p, int count)
    {
        const rp_u16 *const own = r.own[threadIdx.x / 32];
        for (int first = 0; first < count; first += N)
            for (rp_u32 column = rk_lane(); column < p.columns; column += 32) {
                T v[N];
#pragma unroll
                for (int i = 0; i < N; i++)
                    v[i] = first + i < count ? p.src[r.from[own[first + i]] * s.inner + column] : (T)0;
#pragma unroll
                for (int i = 0; i < N; i += SOME) {
                    T *to[SOME];
#pragma unroll
                    for (int e = 0; e < SOME; e++)
                        to[e] = first + i + e < count ? p.y + column + r.to[own[first + i + e]] * s.inner : 0;
                    rk_join_some<J, SOME>(to, v + i);
                }
            }
    }

    /* The same where all of them have one target. */
    RP_INLINE void join_target(const room &r, const of &s, const part &p, int count)
    {
        const rp_u16 *const own = r.own[threadIdx.x / 32];
        for (rp_u32 column = rk_lane(); count > 0 && column < p.columns; column += 32) {
            T *const to = p.y + column + r.to[own[0]] * s.inner;
            T all = *to;
            for (int first = 0; first < count; first += MORE) {
                T v[MORE];
#pragma unroll
                for (int i = 0; i < MORE; i++)
                    v[i] = first + i < count ? p.src[r.from[own[first + i]] * s.inner + column] : (T)0;
#pragma unroll
                for (int i = 0; i < MORE; i++)
                    if (first + i < count) all = J::of(all, v[i]);
            }
            *to = all;
        }
    }

    /* The same where each lane has a source: those of one target hand theirs to each other. */
    RP_INLINE void join_elements(const room &r, const of &s, const part &p, int count)
    {
        for (int first = 0; first < count; first += 32) {
            const bool is = first + rk_lane() < count;
            const int e = is ? r.own[threadIdx.x / 32][first + rk_lane()] : 0;
            const rp_u32 to = is ? r.to[e] : RK_NO_TARGET;
            const T v = is ? p.src[r.from[e] * s.inner] : (T)0;
            const rp_u32 same = __match_any_sync(RK_WARP, to);
            T all = is ? p.y[to * s.inner] : (T)0;
            for (rp_u32 left = is ? same : 0; __any_sync(RK_WARP, left != 0); left &= left - 1) {
                const T one = (T)__shfl_sync(RK_WARP, v, left ? __ffs((int)left) - 1 : 0);
                if (left) all = J::of(all, one);
            }
            __syncwarp(); /* all have read what was there */
            if (is && (same & ((1u << rk_lane()) - 1)) == 0) p.y[to * s.inner] = all;
            __syncwarp();
        }
    }

    /* The first `count` sources of the list: every WARPS-th target is this warp's. */
    RP_INLINE void join(room &r, const of &s, const part &p, int count)
    {
        const rp_u32 warp = threadIdx.x / 32, below = (1u << rk_lane()) - 1;
        int own = 0;
        for (int first = 0; first < count; first += 32) {
            const int e = first + rk_lane();
            const bool mine = e < count && r.to[e] % WARPS == warp;
            const rp_u32 all = __ballot_sync(RK_WARP, mine);
            if (mine) r.own[warp][own + __popc(all & below)] = (rp_u16)e;
            own += __popc(all);
            if (own < 32 && first + 32 < count) continue;
            __syncwarp();
            if (COLUMNS == 1)
                join_elements(r, s, p, own);
            else if (p.size <= WARPS)
                join_target(r, s, p, own);
            else
                join_rows(r, s, p, own);
            __syncwarp();
            own = 0;
        }
    }

    /* A round of indices from `first` on. */
    RP_INLINE void read(I *at, const of &s, const part &p, long long first)
    {
        const int count = (int)(s.k - first < ROUND ? s.k - first : ROUND);
        const I *const index = p.index + first * s.index_step;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) at[i] = place(i) < count ? index[place(i) * s.index_step] : (I)0;
    }

    /* The target's number in the range, of an index that is for one. */
    RP_INLINE rp_u32 number(const part &p, I at)
    {
        const I inside = at < 0 ? 0 : at > p.last ? p.last : at;
        return (rp_u32)((typename of::U)inside - (typename of::U)p.begin);
    }

    /* A round of indices, `at`, from `first` on: the list gets the sources of the range behind the `listed` that it has, but for the
     * first `skip`, as far as there is room. How many there are. */
    RP_INLINE int look(room &r, const of &s, const part &p, const I *at, long long first, int turn, int listed, int skip)
    {
        const int lane = rk_lane(), warp = threadIdx.x / 32, count = (int)(s.k - first < ROUND ? s.k - first : ROUND);
        const rp_u32 below = (1u << lane) - 1;
        rp_u32 mine = 0;
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if ((typename of::U)at[i] - p.least <= p.reach) mine |= 1u << i;
        if (!p.any) mine = 0;
        if (count < ROUND) {
            const int whole = (count - place(0) + 31) / 32;
            mine &= whole > 0 ? ~(~0u << 1 << (whole < AHEAD ? whole - 1 : AHEAD - 1)) : 0;
        }
        const rp_u32 some = rk_or_lanes(mine); /* few of the places have any */
        const int of_warp = rk_sum_lanes(__popc(mine));
        if (lane == 0) r.found[turn][warp] = of_warp;
        __syncthreads();
        int found = lane < WARPS ? (int)r.found[turn][lane] : 0, before = lane < warp ? found : 0;
        found = rk_sum_lanes(found);
        before = rk_sum_lanes(before) + listed - skip;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (!(some >> i & 1)) continue;
            const bool is = mine >> i & 1;
            const rp_u32 all = __ballot_sync(RK_WARP, is);
            const int e = before + __popc(all & below);
            if (is && e >= listed && e < LIST) {
                r.to[e] = number(p, at[i]);
                r.from[e] = first + place(i);
            }
            before += __popc(all);
        }
        return found;
    }

    /* A range. Where the list has no room for all of a round, that is looked at once more. */
    RP_INLINE void run(room &r, const of &s, const part &p)
    {
        int listed = 0, skip = 0;
        long long first = 0;
        I at[AHEAD];
        read(at, s, p, 0);
        keep(s, p);
        for (int turn = 0;; turn ^= 1) {
            const int found = look(r, s, p, at, first, turn, listed, skip), all = listed + found - skip;
            if (all > LIST) {
                skip += LIST - listed;
                listed = LIST;
            } else {
                skip = 0;
                listed = all;
                first += ROUND;
                read(at, s, p, first);
                if (first < s.k) continue;
            }
            __syncthreads();
            join(r, s, p, listed);
            if (first >= s.k) break;
            __syncthreads();
            listed = 0;
        }
    }

    /* As many ranges as there are blocks for. */
    RP_INLINE void all(room &r, const of &s)
    {
        const long long parts = (s.inner + COLUMNS - 1) / COLUMNS, lines = s.outer * parts, least = (s.n >> 31) + 1;
        long long ranges = lines > 0 ? gridDim.x / lines : 0;
        if (ranges > s.n / LEAST) ranges = s.n / LEAST;
        if (ranges < least) ranges = least;
        for (long long item = blockIdx.x; item < lines * ranges; item += gridDim.x) {
            const long long line = item / ranges, range = item % ranges, o = line / parts, j = line % parts * COLUMNS;
            const long long each = s.n / ranges, more = s.n % ranges; /* the first have one more */
            const long long begin = range * each + (range < more ? range : more);
            const long long most = (long long)(~(rp_u64)0 >> (65 - 8 * sizeof(I))), last = s.n - 1 < most ? s.n - 1 : most;
            part p;
            p.begin = (I)begin;
            p.last = (I)last;
            p.size = (rp_u32)(each + (range < more));
            const long long end = begin + p.size, low = begin > 0 ? begin : -most - 1, high = end <= last ? end - 1 : most;
            p.least = (typename of::U)low;
            p.reach = (typename of::U)high - p.least;
            p.any = begin <= last;
            p.columns = (rp_u32)(s.inner - j < COLUMNS ? s.inner - j : COLUMNS);
            p.x = s.x + (o * s.n + begin) * s.inner + j;
            p.y = s.y + (o * s.n + begin) * s.inner + j;
            p.src = s.src + o * s.k * s.inner + j;
            p.index = s.index + o * s.index_outer + (COLUMNS == 1 ? j : 0);
            run(r, s, p);
        }
    }
};
