/* Rows that products on tensor cores norm themselves: x / sqrt(scale * sum of squares + eps) * gain, rounded to bf16. The operations are those of the nodes, and
 * the sum has the order of every sum of the kernel IR (16 lanes and a tree), so that the bits are those of a kernel of its own; but a row is read once, all of it at
 * once, and gains, which nothing writes, before the wait.
 *
 * K: of a row, 4096 at most, where a sum has one chunk; THREADS: of the block that makes a row, or 32: a warp of it does. */
template <int K, int THREADS>
struct rk_norm {
    enum {
        ALONE = THREADS > 32,
        N = (K + THREADS - 1) / THREADS, /* elements of a thread */
        HELD = N < 64 ? N : 64           /* at once */
    };
    static_assert(K <= 4096, "a sum of one chunk");
    float gain[ALONE ? N : 1];
    const float *gains; /* of a row that a warp makes */

    /* Before the wait. `room`, which nothing else uses before the rows are made, gets gains for all warps where they fit in its bytes. */
    RP_INLINE_MEMBER void before(const float *from, char *room, int bytes)
    {
        gains = from;
        if (ALONE) {
#pragma unroll
            for (int i = 0; i < N; i++) gain[ALONE ? i : 0] = i * THREADS + (int)threadIdx.x < K ? from[i * THREADS + threadIdx.x] : 0.0f;
        } else if (bytes >= K * 4) {
            for (int i = threadIdx.x; i < K; i += blockDim.x) ((float *)room)[i] = from[i];
            gains = (const float *)room;
        }
    }
    /* By all threads of the block, between the wait and the first row. */
    RP_INLINE_MEMBER void ready() const
    {
        if (!ALONE) __syncthreads();
    }

    RP_INLINE int place(int i) { return i * THREADS + (ALONE ? (int)threadIdx.x : rk_lane()); }

    RP_INLINE void load(float *v, const float *x, int first)
    {
#pragma unroll
        for (int i = 0; i < HELD; i++) v[i] = place(first + i) < K ? rp_from_bits((rp_u32)rk_peek((const rp_i32 *)x + place(first + i))) : 0.0f;
    }

    /* Of squares in shared memory, 16 lanes each in their order: a lane has its own one behind the other, so that four come at once, and the next while
     * those are added. */
    RP_INLINE float sum_of_block(const float *v)
    {
        enum { STRIDE = (K / 16 + 3) / 4 * 4 + 4, FOURS = K / 64, AHEAD = 4 };
        static_assert(K % 16 == 0 || !ALONE, "lanes of equal length");
        __shared__ int4 part[ALONE ? STRIDE * 4 + 2 * AHEAD : 1]; /* all lanes, and what is read behind the last */
        __shared__ float all;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (place(i) < K) ((float *)part)[place(i) % 16 * STRIDE + place(i) / 16] = v[i] * v[i];
        __syncthreads();
        if (threadIdx.x < 32) {
            float sum = 0.0f;
            const int4 *mine = part + threadIdx.x % 16 * (STRIDE / 4);
            int4 now[AHEAD], next[AHEAD];
#pragma unroll
            for (int j = 0; j < AHEAD; j++) next[j] = mine[j];
#pragma unroll 1
            for (int first = 0; first < FOURS; first += AHEAD) {
#pragma unroll
                for (int j = 0; j < AHEAD; j++) {
                    now[j] = next[j];
                    next[j] = mine[first + AHEAD + j]; /* what lies behind the last is not added */
                }
#pragma unroll
                for (int j = 0; j < AHEAD; j++) {
                    if (FOURS % AHEAD && first + j >= FOURS) break;
                    sum = sum + rp_from_bits((rp_u32)now[j].x);
                    sum = sum + rp_from_bits((rp_u32)now[j].y);
                    sum = sum + rp_from_bits((rp_u32)now[j].z);
                    sum = sum + rp_from_bits((rp_u32)now[j].w);
                }
            }
            for (int i = K / 64 * 4; i < K / 16; i++) sum = sum + ((const float *)mine)[i];
            sum = rk_warp_end<RK_SUM>(sum);
            if (threadIdx.x == 0) all = sum;
        }
        __syncthreads();
        return all;
    }

    RP_INLINE float sum_of_warp(float sum, const float *v, int first)
    {
        float square[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) square[i] = v[i] * v[i];
        return rk_warp_rounds<RK_SUM, HELD>(sum, square, K - (long long)first * THREADS);
    }

    RP_INLINE_MEMBER void make(const float *x, rp_u16 *to, float scale, float eps) const
    {
        float v[HELD], sum = 0.0f;
        load(v, x, 0);
        if (ALONE) {
            sum = sum_of_block(v);
        } else {
#pragma unroll
            for (int first = 0; first < N; first += HELD) {
                if (first) load(v, x, first);
                sum = sum_of_warp(sum, v, first);
            }
            sum = rk_warp_end<RK_SUM>(sum);
        }
        const float by = 1.0f / rp_sqrtf(sum * scale + eps);
#pragma unroll
        for (int first = 0; first < N; first += HELD) {
            if (N > HELD) load(v, x, first);
#pragma unroll
            for (int i = 0; i < HELD; i++) {
                const int at = place(first + i);
                if (at < K) to[at] = rp_f32_to_bf16(v[i] * by * (ALONE ? gain[ALONE ? i : 0] : gains[at]));
            }
        }
    }
};
