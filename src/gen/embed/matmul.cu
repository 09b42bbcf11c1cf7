/* Matrix times matrix for packed weights, as CUDA C: layouts, order of additions and so every bit as in matmul.c.inc.
 *
 * A block takes an item, which is 32 columns of every matrix of a segment, for up to RK_MM_ROWS rows. For quantised
 * weights each thread makes what one block of 32 contributes to one column, an exact integer dot and its scales; then one thread a
 * column adds the contributions of a row in ascending order. All threads of a block call these functions together;
 * what they leave in acc[rows][COLUMNS] is visible to all when they return. */
#define RK_MM_THREADS 256
#define RK_MM_ROWS 8
#define RK_MM_PART 4096 /* floats of shared memory for contributions: RK_MM_ROWS rows of 128 columns four times */

RP_INLINE rp_u32 rk_u32(const rp_u8 *p) { return *(const rp_u32 *)p; }
RP_INLINE float rk_half(const rp_u8 *p) { return rp_f16_to_f32(*(const rp_u16 *)p); }

/* A format: bytes of a block of 32 k of 16 rows, or of one k. Of row r of the tile at w: words() gives the weights of a
 * block as 8 x 4 bytes, k ascending; value() the weight k as the host's exact numerics have it. */
struct rk_q4 {
    /* chunks of 64 bytes: u16 [16 rows][2], nibble i of u16 h is the weight 8c + 2i + h */
    RP_INLINE void words(const rp_u8 *chunks, int r, rp_i32 *v)
    {
        for (int c = 0; c < 4; c++) {
            const rp_u32 raw = rk_u32(chunks + c * 64 + r * 4);
            const rp_u32 even = raw & 0x0f0f0f0fu, odd = raw >> 4 & 0x0f0f0f0fu; /* 0 4 1 5, 2 6 3 7 */
            v[c * 2] = (rp_i32)__byte_perm(even, odd, 0x6420);
            v[c * 2 + 1] = (rp_i32)__byte_perm(even, odd, 0x7531);
        }
    }
    RP_INLINE float nibble(const rp_u8 *chunks, int r, int j)
    {
        const rp_u16 h = *(const rp_u16 *)(chunks + j / 8 * 64 + r * 4 + (j & 1) * 2);
        return (float)(h >> (j % 8 / 2 * 4) & 15);
    }
};

struct rk_q4_1 {
    enum { bytes = 320, per = 32, less = 0, has_min = 1 };
    RP_INLINE void words(const rp_u8 *w, int r, rp_i32 *v) { rk_q4::words(w + 64, r, v); }
    RP_INLINE float scale(const rp_u8 *w, int r) { return rk_half(w + r * 2); }
    RP_INLINE float least(const rp_u8 *w, int r) { return rk_half(w + 32 + r * 2); }
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        const rp_u8 *w = tile + k / 32 * bytes;
        return scale(w, r) * rk_q4::nibble(w + 64, r, k % 32) + least(w, r);
    }
};

struct rk_q4_0 {
    enum { bytes = 288, per = 32, less = 8, has_min = 0 };
    RP_INLINE void words(const rp_u8 *w, int r, rp_i32 *v) { rk_q4::words(w + 32, r, v); }
    RP_INLINE float scale(const rp_u8 *w, int r) { return rk_half(w + r * 2); }
    RP_INLINE float least(const rp_u8 *, int) { return 0.0f; }
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        const rp_u8 *w = tile + k / 32 * bytes;
        return scale(w, r) * (rk_q4::nibble(w + 32, r, k % 32) - 8.0f);
    }
};

struct rk_q8_0 {
    enum { bytes = 544, per = 32, less = 0, has_min = 0 };
    /* i8 [16 pairs][16 rows][2] */
    RP_INLINE void words(const rp_u8 *w, int r, rp_i32 *v)
    {
        for (int i = 0; i < 8; i++) {
            const rp_u8 *at = w + 32 + i * 64 + r * 2;
            v[i] = (rp_i32)(*(const rp_u16 *)at | (rp_u32) * (const rp_u16 *)(at + 32) << 16);
        }
    }
    RP_INLINE float scale(const rp_u8 *w, int r) { return rk_half(w + r * 2); }
    RP_INLINE float least(const rp_u8 *, int) { return 0.0f; }
    RP_INLINE float value(const rp_u8 *tile, int k, int r)
    {
        const rp_u8 *w = tile + k / 32 * bytes;
        return scale(w, r) * (float)(rp_i8)w[32 + k % 32 / 2 * 32 + r * 2 + (k & 1)];
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

/* What block b adds to the product of a packed row (i16b32 of K elements) and one column. */
template <class F, int K>
RP_INLINE float rk_mm_term(const char *row, int b, const rp_i32 *v, float dw, float mw)
{
    const int2 *q = (const int2 *)(row + b * 64);
    const float d = ((const float *)(row + K * 2))[b];
    const rp_i32 sum = ((const rp_i32 *)(row + K * 2 + K / 8))[b];
    rp_i32 dot = -F::less * sum;
    for (int i = 0; i < 8; i++) {
        const int2 x = q[i];
        dot = __dp2a_lo(x.x, v[i], dot);
        dot = __dp2a_hi(x.y, v[i], dot);
    }
    const float t = (dw * d) * (float)dot;
    return F::has_min ? t + (mw * d) * (float)sum : t;
}

/* n packed rows at x. */
template <class F, int K, int COLUMNS>
RP_FN void rk_mm_quant(const char *x, int n, const rp_u8 *w, float *acc, float *part)
{
    const int blocks = K / 32, most = RK_MM_PART / (n * COLUMNS), step = most < blocks ? most : blocks;
    for (int i = threadIdx.x; i < n * COLUMNS; i += RK_MM_THREADS) acc[i] = 0.0f;
    for (int b0 = 0; b0 < blocks; b0 += step) {
        const int m = step < blocks - b0 ? step : blocks - b0;
        for (int u = threadIdx.x; u < m * COLUMNS; u += RK_MM_THREADS) {
            const int c = u % COLUMNS, b = b0 + u / COLUMNS, r = c % 16;
            const rp_u8 *at = w + (rp_size)(c / 16 * blocks + b) * F::bytes;
            rp_i32 v[8];
            F::words(at, r, v);
            const float dw = F::scale(at, r), mw = F::least(at, r);
            for (int i = 0; i < n; i++)
                part[i * m * COLUMNS + u] = rk_mm_term<F, K>(x + i * (rp_size)(K / 32 * 72), b, v, dw, mw);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n * COLUMNS; i += RK_MM_THREADS) {
            const float *from = part + i / COLUMNS * m * COLUMNS + i % COLUMNS;
            float a = acc[i];
            for (int b = 0; b < m; b++) a = a + from[b * COLUMNS];
            acc[i] = a;
        }
        __syncthreads();
    }
}

/* n float rows at x: chains of fused multiply-adds over chunks of 256 k, whose sums are added, ascending. */
template <class F, class X, int K, int COLUMNS>
RP_FN void rk_mm_float(const char *x, int n, const rp_u8 *w, float *acc, float *part)
{
    const int chunks = (K + 255) / 256, most = RK_MM_PART / (n * COLUMNS), step = most < chunks ? most : chunks;
    for (int c0 = 0; c0 < chunks; c0 += step) {
        const int m = step < chunks - c0 ? step : chunks - c0;
        for (int u = threadIdx.x; u < n * m * COLUMNS; u += RK_MM_THREADS) {
            const int c = u % COLUMNS, first = (c0 + u / COLUMNS % m) * 256, end = first + 256 < K ? first + 256 : K;
            const typename X::type *row = (const typename X::type *)x + (rp_size)(u / (m * COLUMNS)) * K;
            const rp_u8 *tile = w + (rp_size)(c / 16) * (K / F::per * (rp_size)F::bytes);
            float s = 0.0f;
            for (int k = first; k < end; k++) s = rp_fmaf(X::get(row[k]), F::value(tile, k, c % 16), s);
            part[u] = s;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n * COLUMNS; i += RK_MM_THREADS) {
            const float *from = part + i / COLUMNS * m * COLUMNS + i % COLUMNS;
            float a = c0 ? acc[i] + from[0] : from[0];
            for (int j = 1; j < m; j++) a = a + from[j * COLUMNS];
            acc[i] = a;
        }
        __syncthreads();
    }
}
