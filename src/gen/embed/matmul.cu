/* Matrix times matrix for packed weights, as CUDA C: layouts, order of additions and so every bit as in matmul.c.inc.
 *
 * A block takes an item, which is COLUMNS columns, 16, 32 or 64 of every matrix of a segment, for up to RK_MM_ROWS rows, or of float rows those of a tile. For quantised
 * weights each lane makes what one block of 32 contributes to one column, an exact integer dot and its scales; then one thread a
 * column adds the contributions of a row in ascending order. Weights do not change while a model runs, so the first of them are
 * under way before the kernels in front have ended. All threads of a block call these functions together; what they leave in
 * acc[rows][COLUMNS] is visible to all when they return. */
#define RK_MM_ROWS 8
#define RK_MM_PART 4096 /* floats of shared memory for contributions: RK_MM_ROWS rows of 128 columns four times */
#define RK_MM_HELD 8    /* blocks of weights that a lane has on the way at most */

RP_INLINE float rk_half(const rp_u8 *p) { return rk_f16_to_f32(*(const rp_u16 *)p); }

/* Adds up N sums over as many lanes, the least significant bit of whose number is `bit`: lane number i of them gets the sum of s[i]. Integers, so in
 * any order. */
template <int N>
RP_INLINE rp_i32 rk_gather_sums(rp_i32 *s, int lane, int bit)
{
#pragma unroll
    for (int n = N / 2; n; n /= 2) {
        const bool high = lane & n * bit;
#pragma unroll
        for (int i = 0; i < n; i++) {
            const rp_i32 give = high ? s[i] : s[i + n], keep = high ? s[i + n] : s[i];
            s[i] = keep + __shfl_xor_sync(RK_WARP, give, n * bit);
        }
    }
    return s[0];
}

/* 16 bytes of a packed row. Rows of an odd number of blocks of 32 begin at multiples of 8. */
template <int WHOLE>
RP_INLINE int4 rk_row_piece(const char *at)
{
    if (WHOLE) return *(const int4 *)at;
    const int2 a = ((const int2 *)at)[0], b = ((const int2 *)at)[1];
    const int4 both = {a.x, a.y, b.x, b.y};
    return both;
}

/* Eight words of weights as dot() takes them. */
struct rk_words {
    rp_i32 v[8];
};

/* A format: bytes of a block of 32 k of 16 rows, or of one k. 16 lanes take such a block, in pieces of 16 bytes that lie one
 * behind the other, and each the numbers of x that its pieces meet; dot() is the exact dot of column row_of(lane), in every lane
 * its own. value() is the
 * weight k of row r of the tile at w as the host's exact numerics have it. */
struct rk_q4 {
    /* chunks of 64 bytes: u16 [16 rows][2], nibble i of u16 h is the weight 8c + 2i + h. A lane has a chunk of 4 rows. */
    RP_INLINE int row_of(int lane) { return lane % 4 * 4 + lane / 4; }
    RP_INLINE rk_words load(const rp_u8 *chunks, int lane)
    {
        const int4 a = __ldcs((const int4 *)chunks + lane);
        const rp_i32 raw[4] = {a.x, a.y, a.z, a.w};
        rk_words w;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w.v[i] = raw[i] & 0x0f0f0f0f; /* 0 4 1 5 */
            w.v[4 + i] = raw[i] >> 4 & 0x0f0f0f0f; /* 2 6 3 7 */
        }
        return w;
    }
    typedef int4 numbers;
    template <int WHOLE>
    RP_INLINE numbers numbers_of(const char *x, int lane)
    {
        return rk_row_piece<WHOLE>(x + lane / 4 * 16);
    }
    RP_INLINE rp_i32 dot(const rk_words &w, const numbers &q, int lane)
    {
        const rp_i32 x04 = (rp_i32)__byte_perm(q.x, q.z, 0x5410), x15 = (rp_i32)__byte_perm(q.x, q.z, 0x7632);
        const rp_i32 x26 = (rp_i32)__byte_perm(q.y, q.w, 0x5410), x37 = (rp_i32)__byte_perm(q.y, q.w, 0x7632);
        rp_i32 s[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i] = __dp2a_hi(x15, w.v[i], __dp2a_lo(x04, w.v[i], 0));
            s[i] = __dp2a_hi(x37, w.v[4 + i], __dp2a_lo(x26, w.v[4 + i], s[i]));
        }
        return rk_gather_sums<4>(s, lane, 4);
    }
    RP_INLINE float nibble(const rp_u8 *chunks, int r, int j)
    {
        const rp_u16 h = *(const rp_u16 *)(chunks + j / 8 * 64 + r * 4 + (j & 1) * 2);
        return (float)(h >> (j % 8 / 2 * 4) & 15);
    }
};

struct rk_q4_1 : rk_q4 {
    enum { bytes = 320, per = 32, first = 64, less = 0, has_min = 1 };
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        const rp_u8 *w = tile + k / 32 * bytes;
        return rk_half(w + r * 2) * nibble(w + first, r, k % 32) + rk_half(w + 32 + r * 2);
    }
};

struct rk_q4_0 : rk_q4 {
    enum { bytes = 288, per = 32, first = 32, less = 8, has_min = 0 };
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        const rp_u8 *w = tile + k / 32 * bytes;
        return rk_half(w + r * 2) * (nibble(w + first, r, k % 32) - 8.0f);
    }
};

struct rk_q8_0 {
    enum { bytes = 544, per = 32, first = 32, less = 0, has_min = 0 };
    /* i8 [16 pairs][16 rows][2]. A lane has pairs lane / 2 and 8 more of 8 rows. */
    RP_INLINE int row_of(int lane) { return lane % 2 * 8 + lane / 2; }
    RP_INLINE rk_words load(const rp_u8 *pairs, int lane)
    {
        const int4 a = __ldcs((const int4 *)pairs + lane), b = __ldcs((const int4 *)pairs + 16 + lane);
        const rk_words w = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
        return w;
    }
    typedef int2 numbers;
    template <int WHOLE>
    RP_INLINE numbers numbers_of(const char *x, int lane)
    {
        const numbers q = {((const rp_i32 *)x)[lane / 2], ((const rp_i32 *)x)[lane / 2 + 8]};
        return q;
    }
    RP_INLINE rp_i32 dot(const rk_words &w, const numbers &q, int lane)
    {
        rp_i32 s[8];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i * 2] = __dp2a_lo(q.y, w.v[4 + i], __dp2a_lo(q.x, w.v[i], 0));
            s[i * 2 + 1] = __dp2a_hi(q.y, w.v[4 + i], __dp2a_hi(q.x, w.v[i], 0));
        }
        return rk_gather_sums<8>(s, lane, 2);
    }
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        const rp_u8 *w = tile + k / 32 * bytes;
        return rk_half(w + r * 2) * (float)(rp_i8)w[first + k % 32 / 2 * 32 + r * 2 + (k & 1)];
    }
};

struct rk_f32 {
    enum { bytes = 64, per = 1 };
    RP_INLINE float value(const rp_u8 *tile, int k, int r) { return ((const float *)tile)[k * 16 + r]; }
};

struct rk_f16 {
    enum { bytes = 32, per = 1 };
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        return rp_f16_to_f32(((const rp_u16 *)tile)[k * 16 + r]);
    }
};

struct rk_bf16 {
    enum { bytes = 32, per = 1 };
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        return rp_bf16_to_f32(((const rp_u16 *)tile)[k * 16 + r]);
    }
};

/* Elements of float rows. */
struct rk_x_f32 {
    typedef float type;
    RP_INLINE float get(float x) { return x; }
};
struct rk_x_f16 {
    typedef rp_u16 type;
    RP_INLINE float get(rp_u16 x) { return rp_f16_to_f32(x); }
};
struct rk_x_bf16 {
    typedef rp_u16 type;
    RP_INLINE float get(rp_u16 x) { return rp_bf16_to_f32(x); }
};

/* Quantised weights times packed rows (i16b32 of K elements). */
template <class F, int K, int COLUMNS, int THREADS>
struct rk_quant {
    enum {
        blocks = K / 32,
        room = RK_MM_PART < RK_MM_HELD * THREADS ? RK_MM_PART : RK_MM_HELD * THREADS, /* contributions of a row at once */
        step = blocks * COLUMNS < room ? blocks : room / COLUMNS,                       /* blocks at once */
        each = (step * COLUMNS + THREADS - 1) / THREADS,                                /* contributions of a thread */
        whole = each * THREADS == step * COLUMNS && blocks % step == 0                  /* always as many */
    };
    struct weights {
        rk_words w;
        float scale, least;
    };
    weights held[each];

    /* Contribution u of a step is that of block u / COLUMNS to column u / 16 % (COLUMNS / 16) * 16 + row_of(u % 16). */
    RP_INLINE_MEMBER void load(const rp_u8 *w, int b0)
    {
        const int lane = threadIdx.x % 16, row = F::row_of(lane);
#pragma unroll
        for (int j = 0; j < each; j++) {
            const int u = threadIdx.x + j * THREADS, b = b0 + u / COLUMNS;
            if (!whole && (u >= step * COLUMNS || b >= blocks)) break;
            const rp_u8 *at = w + (rp_size)(u % COLUMNS / 16 * blocks + b) * F::bytes;
            held[j].w = F::load(at + F::first, lane);
            held[j].scale = rk_half(at + row * 2);
            held[j].least = F::has_min ? rk_half(at + 32 + row * 2) : 0.0f;
        }
    }

    /* What the held weights, m blocks from b0 on, contribute to the row at x. */
    RP_INLINE_MEMBER void contribute(const char *x, int b0, int m, float *part)
    {
        const int lane = threadIdx.x % 16, row = F::row_of(lane);
        typename F::numbers q[each];
        float d[each];
        rp_i32 sum[each];
#pragma unroll
        for (int j = 0; j < each; j++) {
            const int u = threadIdx.x + j * THREADS, b = b0 + u / COLUMNS;
            if (!whole && u >= m * COLUMNS) break;
            q[j] = F::template numbers_of<K / 32 * 72 % 16 == 0>(x + b * 64, lane);
            d[j] = ((const float *)(x + K * 2))[b];
            sum[j] = ((const rp_i32 *)(x + K * 2 + K / 8))[b];
        }
#pragma unroll
        for (int j = 0; j < each; j++) {
            const int u = threadIdx.x + j * THREADS;
            if (!whole && u >= m * COLUMNS) break;
            const rp_i32 dot = F::dot(held[j].w, q[j], lane) - F::less * sum[j];
            const float t = (held[j].scale * d[j]) * (float)dot;
            part[u - lane + row] = F::has_min ? t + (held[j].least * d[j]) * (float)sum[j] : t;
        }
    }

    /* n rows at x, after load(w, 0). */
    RP_INLINE_MEMBER void run(const char *x, int n, const rp_u8 *w, float *acc, float *part)
    {
        for (int b0 = 0; b0 < blocks; b0 += step) {
            const int m = step < blocks - b0 ? step : blocks - b0, rows = RK_MM_PART / (step * COLUMNS);
            if (b0) load(w, b0);
            for (int i0 = 0; i0 < n; i0 += rows) {
                const int g = rows < n - i0 ? rows : n - i0;
                for (int i = 0; i < g; i++)
                    contribute(x + (i0 + i) * (rp_size)(K / 32 * 72), b0, m, part + i * step * COLUMNS);
                __syncthreads();
                for (int t = threadIdx.x; t < g * COLUMNS; t += THREADS) {
                    const float *from = part + t / COLUMNS * step * COLUMNS + t % COLUMNS;
                    float *to = acc + i0 * COLUMNS + t, a = b0 ? *to : 0.0f;
#pragma unroll 16
                    for (int b = 0; b < m; b++) a = a + from[b * COLUMNS];
                    *to = a;
                }
                __syncthreads();
            }
        }
    }
};
