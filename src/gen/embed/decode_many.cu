/* The matrices of a decode step of more sequences, up to 64; stands behind decode.cu, whose rules these kernels keep, and tensor_results.cu, whose products they are:
 *
 *   embed, (qkv, attention, o, up, down) a layer; the last layer ends with gather, first, up, down, logits, largest
 *
 * A norm is no pass over the row here either: who ends a row of the residual stream leaves it times the gains of the norm behind, rounded to bf16 in tiles for the product that reads it, and sums
 * of squares of its pieces of 32 columns, [piece][64]; who reads it multiplies sums by 1 / rms. Attention and gate and up leave tiles, too. So nothing runs between the products. */
enum { RK_MANY = 64, RK_MANY_PIECE = 32 };

/* 1 / rms of every row. */
RP_INLINE float *rk_many_scales()
{
    __shared__ float scales[RK_MANY];
    return scales;
}

/* Of rows of K elements from their sums of squares, at arg[AT]: PARTS threads side by side share a row. EPS: bits of a float. */
template <int K, rp_u32 EPS, int AT>
struct rk_many_normed : rk_by_elements {
    RP_INLINE float scale(long long row) { return rk_many_scales()[row]; }
    struct facts : rk_by_elements::facts {
        enum { PARTS = 256 / RK_MANY, PIECES = K / RK_MANY_PIECE, EACH = (PIECES + PARTS - 1) / PARTS };
        static_assert(PARTS == 4 && K % RK_MANY_PIECE == 0, "a quad a row, whole pieces");
        float part[EACH];

        RP_INLINE_MEMBER void ask(char *const *arg, const long long *)
        {
            const int row = threadIdx.x / PARTS, first = threadIdx.x % PARTS;
            const rp_i32 *from = (const rp_i32 *)arg[AT] + first * RK_MANY + row;
#pragma unroll
            for (int i = 0; i < EACH; i++) part[i] = i * PARTS + first < PIECES ? rp_from_bits((rp_u32)rk_peek(from + i * (PARTS * RK_MANY))) : 0.0f;
        }

        RP_INLINE_MEMBER void settle()
        {
            float s = 0.0f;
#pragma unroll
            for (int i = 0; i < EACH; i++) s += part[i];
            s = rk_quad_sum(s);
            if (threadIdx.x % PARTS == 0) rk_many_scales()[threadIdx.x / PARTS] = rp_rsqrt(s * (1.0f / K) + rp_from_bits(EPS));
            rk_sync_workers();
        }
    };
};

/* A row of the residual stream as the next product reads it, and its piece's square: for a warp, a lane a column. */
RP_INLINE void rk_many_put_row(char *x, char *squares, int row, int column, int high, float v, float gain)
{
    const rk_tiles tiles = {RK_MANY, high};
    float s = v * v;
    ((rp_u16 *)x)[rk_tile_column(row, column, tiles)] = rk_half(v * gain);
#pragma unroll
    for (int o = 16; o; o /= 2) s += __shfl_xor_sync(RK_WARP, s, o);
    if (threadIdx.x % 32 == 0) ((float *)squares)[column / RK_MANY_PIECE * RK_MANY + row] = s;
}

/* Embedded tokens, which begin the residual stream: a block a row, a thread 8 columns. Waits before it lets the next one start, as begin does. arg: table, gains, ids, residual, x, squares. */
template <int K, int VOCAB>
RP_FN void rk_many_embed(char *const *arg, int rows)
{
    const rk_tiles tiles = rk_tiles_of(RK_MANY, rows);
    static_assert(RK_MANY_PIECE == 32, "a quad a piece");
    rk_wait();
    rk_launch_dependents();
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const rp_u16 *from = (const rp_u16 *)arg[0] + rk_row_of((const rp_i32 *)arg[2], row, VOCAB) * K;
        float *residual = (float *)arg[3] + (long long)row * K;
        for (int first = threadIdx.x / 32 * 256; first < K; first += 256 * 8) {
            const int at = first + (int)threadIdx.x % 32 * 8;
            const bool has = at < K;
            const int4 none = {0, 0, 0, 0}, eight = has ? *(const int4 *)(from + at) : none;
            const rp_u32 two[4] = {(rp_u32)eight.x, (rp_u32)eight.y, (rp_u32)eight.z, (rp_u32)eight.w};
            const rk_two *gain = (const rk_two *)((const float *)arg[1] + (has ? at : 0));
            float s = 0.0f;
            int made[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const rk_two v = {rk_low(two[i]), rk_high(two[i])};
                s = __fmaf_rn(v.a, v.a, s);
                s = __fmaf_rn(v.b, v.b, s);
                made[i] = (int)rk_pack(v.a * gain[i].a, v.b * gain[i].b);
                if (has) *(rk_two *)(residual + at + 2 * i) = v;
            }
            const int4 x = {made[0], made[1], made[2], made[3]};
            s = rk_quad_sum(s);
            if (!has) continue;
            *(int4 *)((rp_u16 *)arg[4] + rk_tile_column(row, at, tiles)) = x;
            if (threadIdx.x % 4 == 0) ((float *)arg[5])[at / RK_MANY_PIECE * RK_MANY + row] = s;
        }
    }
}

/* Rows of float32 that are gathered, to tiles. arg: rows, which of them, tiles. */
template <int K>
RP_FN void rk_many_gather(char *const *arg, int rows)
{
    const rk_tiles tiles = rk_tiles_of(RK_MANY, rows);
    rk_launch_dependents();
    rk_wait();
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *from = (const float *)arg[0] + rk_settled((const rp_i32 *)arg[1] + row) * (long long)K;
        for (int at = threadIdx.x * 8; at < K; at += 256 * 8) *(int4 *)((rp_u16 *)arg[2] + rk_tile_column(row, at, tiles)) = rk_rows_f32::load(from + at);
    }
}

/* The largest logit of each row, a warp: of those that the blocks of rk_many_logits found. arg: ranks, value, place. */
template <int BLOCKS>
RP_FN void rk_many_largest(char *const *arg, int rows)
{
    rk_launch_dependents();
    rk_wait();
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long *ranks = (const long long *)arg[0] + row * BLOCKS;
        long long best = ranks[threadIdx.x < BLOCKS ? threadIdx.x : 0];
#pragma unroll
        for (int i = 32; i < BLOCKS; i += 32) best = rk_top_more(best, ranks[i + threadIdx.x < BLOCKS ? i + threadIdx.x : 0]);
        best = rk_top_of_warp(best);
        if (threadIdx.x) continue;
        ((float *)arg[1])[row] = rk_top_value((int)(best >> 32));
        ((rp_i32 *)arg[2])[row] = (rp_i32)(0xffffffffu - (rp_u32)best);
    }
}

/* ---- epilogues: units of 32 columns -------------------------------------------------------------------------------------------------- */

/* Neighbours are the two that a rotation takes together. arg: q, k, v, positions, slots, cos, sin, squares. */
template <int HEADS, int KV_HEADS, int HD, int K, rp_u32 EPS>
struct rk_many_qkv : rk_many_normed<K, EPS, 7> {
    enum { COLUMNS = 32, MATS = 2, ASKED = 2, PAIRS = 1, PARTS = 1, PERIOD = HD, TILED = 0 };

    /* Positions of all rows, then their slots: read once, since an angle is found by its row's position. */
    RP_INLINE rp_i32 *rows_of()
    {
        __shared__ rp_i32 of[2 * RK_MANY];
        return of;
    }
    struct facts : rk_many_normed<K, EPS, 7>::facts {
        RP_INLINE_MEMBER void before(char *const *arg, const long long *dim)
        {
            const int row = threadIdx.x % RK_MANY;
            if (threadIdx.x < 2 * RK_MANY) rows_of()[threadIdx.x] = row < dim[0] ? rk_settled((const rp_i32 *)(threadIdx.x < RK_MANY ? arg[3] : arg[4]) + row) : 0;
            rk_sync_workers();
        }
    };

    RP_INLINE int part(int) { return 0; }

    RP_INLINE void ask_at(char *const *arg, long long row, int at, float *asked)
    {
        const long long angle = rows_of()[row] * (long long)(HD / 2) + at % HD / 2;
        asked[0] = ((const float *)arg[5])[angle];
        asked[1] = ((const float *)arg[6])[angle];
    }

    /* Where element `at` of a row belongs; none: it is kept nowhere. */
    RP_INLINE rp_u16 *place(char *const *arg, long long row, int at)
    {
        if (at < HEADS * HD) return (rp_u16 *)arg[0] + row * (HEADS * HD) + at;
        const int slot = rows_of()[RK_MANY + row], head = at / HD - HEADS, h = head % KV_HEADS;
        char *const cache = head < KV_HEADS ? arg[1] : arg[2];
        return slot < 0 ? (rp_u16 *)0 : (rp_u16 *)cache + (((long long)(slot / 16) * KV_HEADS + h) * 16 + slot % 16) * HD + at % HD;
    }

    RP_INLINE void ask(char *const *arg, const long long *, int unit, long long row, int column, float *asked) { ask_at(arg, row, unit * 32 + column, asked); }
    RP_INLINE void ask_pair(rk_number<0>, char *const *arg, const long long *, int unit, long long row, int column, float *asked) { ask_at(arg, row, unit * 32 + column, asked); }

    /* s: the element's sum, its neighbour's. */
    RP_INLINE void put(char *const *arg, const long long *, int unit, long long row, int column, const float *s, const float *asked, int = 0)
    {
        const int at = unit * 32 + column;
        const float scale = rk_many_scales()[row], own = s[0] * scale, other = s[1] * scale;
        rp_u16 *to = place(arg, row, at);
        float v = own;
        if (at < (HEADS + KV_HEADS) * HD) v = at % 2 ? own * asked[0] + other * asked[1] : own * asked[0] - other * asked[1];
        if (to) *to = rk_half(v);
    }

    RP_INLINE void put_pair(rk_number<0>, char *const *arg, const long long *, int unit, long long row, int column, const float *s, const float *asked)
    {
        const int at = unit * 32 + column;
        const float scale = rk_many_scales()[row], even = s[0] * scale, odd = s[1] * scale;
        rp_u16 *to = place(arg, row, at);
        const bool turned = at < (HEADS + KV_HEADS) * HD;
        if (to) *(rp_u32 *)to = turned ? rk_pack(even * asked[0] - odd * asked[1], odd * asked[0] + even * asked[1]) : rk_pack(even, odd);
    }
};

/* Adds the product's rows to the residual stream, and leaves x. arg: the old residual, the new one, x, gains, squares, which rows the old are (GATHERED). */
template <int K, bool GATHERED>
struct rk_many_residual : rk_by_elements {
    enum { COLUMNS = 32, MATS = 1, ASKED = 2, PAIRS = 0, TILED = 0, TOGETHER = 1 };
    static_assert(K % COLUMNS == 0, "whole units");

    RP_INLINE void ask(char *const *arg, const long long *, int unit, long long row, int column, float *asked)
    {
        const long long from = GATHERED ? rk_settled((const rp_i32 *)arg[5] + row) : row;
        const int at = unit * COLUMNS + column;
        asked[0] = rp_from_bits((rp_u32)rk_peek((const rp_i32 *)arg[0] + from * K + at));
        asked[1] = ((const float *)arg[3])[at];
    }

    RP_INLINE void put(char *const *arg, const long long *dim, int unit, long long row, int column, const float *s, const float *asked, int = 0)
    {
        const int at = unit * COLUMNS + column;
        const float v = asked[0] + s[0];
        ((float *)arg[1])[row * K + at] = v;
        rk_many_put_row(arg[2], arg[4], (int)row, at, rk_high(RK_MANY, dim[0]), v, asked[1]);
    }
};

/* silu(gate) * up, in tiles. arg: result, squares. */
template <int FFN, int K, rp_u32 EPS>
struct rk_many_gate : rk_many_normed<K, EPS, 1> {
    enum { COLUMNS = 32, MATS = 2, ASKED = 1, PAIRS = 0, TILED = 1, ACROSS = FFN, NEAR = 1 };

    RP_INLINE rk_tiles tiles(const long long *dim) { return rk_tiles_of(RK_MANY, dim[0]); }
    RP_INLINE char *result(char *const *arg) { return arg[0]; }
    RP_INLINE bool near(const float *) { return true; }
    /* Beyond 2^125 the quotient is as good as 0. */
    RP_INLINE rp_u16 value(const float *s) { return rk_half(s[0] * rk_near::rp_over(1.0f + rk_exp2(fminf(s[0] * -1.44269504f, 125.0f))) * s[1]); }
    RP_INLINE rp_u16 value_near(const float *s) { return value(s); }

    RP_INLINE void ask(char *const *, const long long *, int, long long, int, float *) {}
    RP_INLINE void put(char *const *arg, const long long *dim, int unit, long long row, int column, const float *s, const float *, int = 0)
    {
        const float scale = rk_many_scales()[row], scaled[2] = {s[0] * scale, s[1] * scale};
        const int at = unit * COLUMNS + column;
        if (at < FFN) ((rp_u16 *)arg[0])[rk_tile_column(row, at, tiles(dim))] = value(scaled);
    }
    RP_INLINE void put_near(char *const *arg, const long long *dim, int unit, long long row, int column, const float *s, const float *asked, int = 0)
    {
        put(arg, dim, unit, row, column, s, asked);
    }
};

/* Logits, in jobs of JOB columns, and of each row the largest that a block has; the last unit may have columns that are none. Logits are written unless word UNREAD of the
 * exchange's state says that nobody reads them. arg: result, squares, ranks (rk_top_rank) [row][BLOCKS], state. */
template <int VOCAB, int K, rp_u32 EPS, int JOB, int BLOCKS, int UNREAD>
struct rk_many_logits : rk_many_normed<K, EPS, 1> {
    enum { COLUMNS = 32, MATS = 1, ASKED = 1, PAIRS = 0, TILED = 0, KEEPS = 1 };

    struct facts : rk_many_normed<K, EPS, 1>::facts {
        rp_i32 none;

        RP_INLINE_MEMBER void ask(char *const *arg, const long long *dim)
        {
            none = rk_peek((const rp_i32 *)arg[3] + UNREAD);
            rk_many_normed<K, EPS, 1>::facts::ask(arg, dim);
        }
        RP_INLINE_MEMBER bool unread() const { return none; }
    };

    RP_INLINE void ask(char *const *, const long long *, int, long long, int, float *) {}
    RP_INLINE void put(char *const *arg, const long long *, int unit, long long row, int column, const float *s, const float *, int below = 0)
    {
        const int at = unit * COLUMNS + column;
        if (at < VOCAB) ((float *)arg[0])[(row + below) * VOCAB + at] = s[0] * rk_many_scales()[row + below];
    }

    /* A thread's own, of the rows that its sums are of; columns come in ascending order. Of equals the first, and a NaN is largest, as rk_top has it; of a row of -inf column 0, which is of
     * lanes that have it from the start. */
    struct kept {
        float best[RK_MANY / 4];
        int column[RK_MANY / 4];

        RP_INLINE_MEMBER kept()
        {
#pragma unroll
            for (int i = 0; i < RK_MANY / 4; i++) {
                best[i] = -RP_INF;
                column[i] = threadIdx.x % 32 / 4;
            }
        }

        template <class S>
        RP_INLINE int row(int i) { return S::row() + i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2; }

        template <class S>
        RP_INLINE_MEMBER void take(const S &part, const rk_job &job)
        {
#pragma unroll
            for (int i = 0; i < S::ROWS / 4; i++) {
                const float scale = rk_many_scales()[row<S>(i)];
#pragma unroll
                for (int e = 0; e < 2 * S::SETS; e++) {
                    const int at = ((int)job.first + S::tile(e / 2)) * 16 + e % 2 * 8 + (int)threadIdx.x % 32 / 4;
                    const float v = part.set(e / 2)[i / 2 * 4 + e % 2 * 2 + i % 2] * scale;
                    const bool more = !(v <= best[i]) & (best[i] == best[i]) & (S::tile(e / 2) < job.tiles) & (VOCAB % JOB == 0 || at < VOCAB);
                    best[i] = more ? v : best[i];
                    column[i] = more ? at : column[i];
                }
            }
        }

        template <class S>
        RP_INLINE_MEMBER void leave(char *const *arg, char *room)
        {
            long long(*const all)[RK_MANY] = (long long(*)[RK_MANY])room; /* of each warp */
            const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
            rk_sync_workers(); /* results have left the room */
            for (int at = lane; at < RK_MANY; at += 32) all[warp][at] = rk_top_rank((int)0x80000000, 0);
            __syncwarp();
#pragma unroll
            for (int i = 0; i < S::ROWS / 4; i++) {
                long long most = rk_top_rank(rk_top_key(best[i]), column[i]);
#pragma unroll
                for (int o = 4; o < 32; o *= 2) most = rk_top_more(most, __shfl_xor_sync(RK_WARP, most, o));
                if (lane < 4) all[warp][row<S>(i)] = most;
            }
            rk_sync_workers();
            if (threadIdx.x >= RK_MANY) return;
            long long most = all[0][threadIdx.x];
#pragma unroll
            for (int i = 1; i < 8; i++) most = rk_top_more(most, all[i][threadIdx.x]);
            ((long long *)arg[2])[threadIdx.x * BLOCKS + blockIdx.x] = most;
        }
    };
};

/* A product: units of MATS matrices of 32 columns each, PER of them a job, which blocks take in turns; T: rk_many_rows; E: an epilogue. PARTS: of each of so many blocks that have neighbouring units,
 * of two matrices neighbouring halves of them, so that none has more than one more than another; its last job is smaller. */
template <class T, class E, int UNITS_, int PER, int PARTS>
struct rk_many_product : E {
    typedef T tile;
    enum {
        DEALT = PARTS > 0, HALVES = E::PAIRS ? 1 : (int)E::MATS, /* pieces of a unit */
        BLOCKS = PARTS ? PARTS : 1,
        PIECES = UNITS_ * HALVES, MOST = PARTS ? (PIECES + PARTS - 1) / PARTS + HALVES - 1 : 0,
        UNITS = PER, JOBS = PARTS ? PARTS * ((MOST + PER * HALVES - 1) / (PER * HALVES)) : (UNITS_ + PER - 1) / PER, ONCE = 1, OF_UNIT = 2 * HALVES
    };
    static_assert(!PARTS || HALVES == 1 || (HALVES == 2 && E::TILED && T::OF_TILES == 1), "halves");
    RP_INLINE rk_job job(int i)
    {
        if (PARTS) {
            const int of = i % BLOCKS, begin = PIECES * (long long)of / BLOCKS, end = PIECES * (long long)(of + 1) / BLOCKS;
            const int u = begin / HALVES + i / BLOCKS * PER, from = begin - u * HALVES, to = end - u * HALVES;
            const int last = to < PER * HALVES ? to : PER * HALVES, n = last > 0 ? (last + HALVES - 1) / HALVES : 0;
            const rk_job job = {(long long)u * OF_UNIT, n * OF_UNIT, u, n, HALVES > 1 && from > 0 ? from : 0, HALVES > 1 ? last : 0};
            return job;
        }
        const int u = i * PER, n = UNITS_ - u < PER ? UNITS_ - u : PER;
        const rk_job job = {(long long)u * OF_UNIT, n * OF_UNIT, u, n, 0, 0};
        return job;
    }
};
