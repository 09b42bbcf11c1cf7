/* Matrix times matrix where both lie in memory as they were computed, at any strides, as CUDA C: the order of additions, and so
 * every bit, of matmul_float.c.inc. After matmul.cu. */
#define RK_ANY_ROWS 32 /* of a tile, and as many columns, one a lane */
#define RK_ANY_K 32
#define RK_ANY_THREADS 256
#define RK_CHUNK 256 /* of k: one chain of fused multiply-adds */

/* to[i][kk] is element first + kk of row i; `step` apart rows are, `k_step` its elements. What lies side by side is read side by
 * side. */
template <class X>
RP_INLINE void rk_any_load(const typename X::type *x, long long step, long long k_step, int rows, int n,
                           float (*to)[RK_ANY_K + 1])
{
    for (int u = threadIdx.x; u < RK_ANY_ROWS * RK_ANY_K; u += RK_ANY_THREADS) {
        const int i = k_step == 1 ? u / RK_ANY_K : u % RK_ANY_ROWS, kk = k_step == 1 ? u % RK_ANY_K : u / RK_ANY_ROWS;
        to[i][kk] = i < rows && kk < n ? X::get(x[i * step + kk * k_step]) : 0.0f;
    }
}

/* acc[RK_ANY_ROWS][RK_ANY_ROWS] of `rows` rows and `columns` columns. All RK_ANY_THREADS threads together; acc is visible to all
 * when they return. */
template <class X, class W>
RP_FN void rk_mm_any(const typename X::type *x, long long x_step, long long x_k, int rows, const typename W::type *w,
                     long long w_step, long long w_k, int columns, long long k, float *acc)
{
    enum { OWN = RK_ANY_ROWS / (RK_ANY_THREADS / 32) }; /* rows of a warp */
    __shared__ float xs[RK_ANY_ROWS][RK_ANY_K + 1], ws[RK_ANY_ROWS][RK_ANY_K + 1];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float chain[OWN] = {0}, sum[OWN] = {0};
    for (long long first = 0; first < k; first += RK_ANY_K) {
        const int n = k - first < RK_ANY_K ? (int)(k - first) : RK_ANY_K;
        __syncthreads();
        rk_any_load<X>(x + first * x_k, x_step, x_k, rows, n, xs);
        rk_any_load<W>(w + first * w_k, w_step, w_k, columns, n, ws);
        __syncthreads();
        for (int kk = 0; kk < n; kk++) {
#pragma unroll
            for (int i = 0; i < OWN; i++) chain[i] = rp_fmaf(xs[warp * OWN + i][kk], ws[lane][kk], chain[i]);
        }
        if (first + RK_ANY_K < k && (first + RK_ANY_K) % RK_CHUNK) continue;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            sum[i] = first < RK_CHUNK ? chain[i] : sum[i] + chain[i];
            chain[i] = 0.0f;
        }
    }
#pragma unroll
    for (int i = 0; i < OWN; i++) acc[(warp * OWN + i) * RK_ANY_ROWS + lane] = sum[i];
    __syncthreads();
}
