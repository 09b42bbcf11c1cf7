/* Results of products on tensor cores whose elements come in pairs of neighbouring columns, such as those that a rotary embedding turns; stands behind tensor.cu.
 *
 * An epilogue has PARTS, of which a job's units are all of one, part(): so the job chooses once which ask_pair() and put_pair() its elements get. What pairs ask
 * for repeats itself after PERIOD columns. */
template <int>
struct rk_number {}; /* which overloaded functions take */

/* Neighbouring elements. */
RP_INLINE void rk_put_pair(float *to, float a, float b)
{
    const int2 two = {(int)__float_as_uint(a), (int)__float_as_uint(b)};
    *(int2 *)to = two;
}
RP_INLINE void rk_put_pair(rp_u16 *to, float a, float b) { *(rp_u32 *)to = rp_f32_to_bf16(a) | (rp_u32)rp_f32_to_bf16(b) << 16; }

/* As rk_warp_results. A lane gets its half of two pairs from the lane that has the other, so that nothing goes through shared memory. A piece of rows at a time, for which
 * was asked while the piece before was done, or the products of the first; sets of columns that need the same besides ask once. */
template <class P, class S>
struct rk_pair_results {
    enum {
        HIGH = S::ROWS * S::SETS <= 128 && S::ROWS % 32 == 0 ? 32 : 16, /* rows of a piece: more where registers are left beside the sums */
        EACH = HIGH / 4, ASKS = S::APART % P::PERIOD ? (int)S::SETS : 1, N = ASKS * EACH, /* of a piece: sets, rows 8 apart, columns 8 apart */
        FLOATS = 0
    };
    const rk_job &job;
    long long row0;
    int rows;
    float *room; /* not used */

    RP_INLINE int odd() { return threadIdx.x / 4 % 2; }
    RP_INLINE int row(int piece, int i) { return piece * HIGH + i / 2 * 8 + threadIdx.x % 4 * 2 + odd(); }
    RP_INLINE int column(int set, int i) { return S::tile(set) % 2 * 16 + i % 2 * 8 + (threadIdx.x % 32 / 4 & 6); }
    RP_INLINE_MEMBER int unit(int set) const { return S::tile(set) / 2; }

    template <class PART>
    RP_INLINE_MEMBER void ask(PART part, char *const *arg, const long long *dim, int piece, float (*asked)[P::ASKED]) const
    {
#pragma unroll
        for (int set = 0; set < ASKS; set++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (unit(set) < job.n_units && row(piece, i) < rows)
                    P::ask_pair(part, arg, dim, job.unit + unit(set), row0 + row(piece, i), column(set, i), asked[set * EACH + i]);
    }

    /* s[i]: a pair of row(piece, i). */
    RP_INLINE_MEMBER void pair(const S &part, int set, int piece, float (*s)[2]) const
    {
#pragma unroll
        for (int p = 0; p < S::ROWS / HIGH; p++) {
            if (p != piece) continue;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const float *own = part.set(set) + HIGH / 2 * p + i * 2;
                const float other = __shfl_xor_sync(RK_WARP, odd() ? own[0] : own[1], 4);
                s[i][0] = odd() ? other : own[0];
                s[i][1] = odd() ? own[1] : other;
            }
        }
    }

    template <class PART>
    RP_INLINE_MEMBER void put(PART part, char *const *arg, const long long *dim, const S &sums, int set, int piece, const float (*asked)[P::ASKED]) const
    {
        float s[EACH][2];
        pair(sums, set, piece, s);
        if (unit(set) >= job.n_units) return;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (row(piece, i) < rows) P::put_pair(part, arg, dim, job.unit + unit(set), row0 + row(piece, i), column(set, i), s[i], asked[i]);
    }

    template <class PART>
    RP_INLINE_MEMBER void run_part(PART part, char *const *arg, const long long *dim, const S &sums, float (*next)[P::ASKED]) const
    {
        const int pieces = (rows < S::ROWS ? rows + HIGH - 1 : S::ROWS) / HIGH;
        for (int piece = 0; piece < pieces; piece++) {
            float asked[N][P::ASKED];
#pragma unroll
            for (int i = 0; i < N * P::ASKED; i++) asked[i / P::ASKED][i % P::ASKED] = next[i / P::ASKED][i % P::ASKED];
            if (piece + 1 < pieces) ask(part, arg, dim, piece + 1, next);
#pragma unroll
            for (int set = 0; set < S::SETS; set++) put(part, arg, dim, sums, set, piece, asked + set % ASKS * EACH);
        }
    }

    /* Part I or one behind it. */
    template <int I>
    RP_INLINE_MEMBER void choose(rk_number<I> part, char *const *arg, const long long *dim, const S &sums, float (*next)[P::ASKED]) const
    {
        if (I + 1 >= P::PARTS || P::part(job.unit) == I)
            run_part(part, arg, dim, sums, next);
        else
            choose(rk_number<(I + 1 < P::PARTS ? I + 1 : I)>(), arg, dim, sums, next);
    }

    /* What the first piece needs, while nothing else waits for it. */
    template <int I>
    RP_INLINE_MEMBER void first(rk_number<I> part, char *const *arg, const long long *dim, float (*next)[P::ASKED]) const
    {
        if (I + 1 >= P::PARTS || P::part(job.unit) == I)
            ask(part, arg, dim, 0, next);
        else
            first(rk_number<(I + 1 < P::PARTS ? I + 1 : I)>(), arg, dim, next);
    }
    RP_INLINE_MEMBER void start(char *const *arg, const long long *dim, float (*next)[P::ASKED]) const { if (rows > 0) first(rk_number<0>(), arg, dim, next); }
    RP_INLINE_MEMBER void run(char *const *arg, const long long *dim, const S &sums, float (*next)[P::ASKED]) const
    {
        if (rows > 0) choose(rk_number<0>(), arg, dim, sums, next);
    }
};

template <class P, class S>
struct rk_results_of_warp<P, S, true> {
    typedef rk_pair_results<P, S> type;
};
