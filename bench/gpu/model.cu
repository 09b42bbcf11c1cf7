/* Fillers, the slow float32 reference and a reader; see model.h. One matrix element is uniform in [-scale, scale], rounded to bf16. */
typedef unsigned long long u64;
typedef unsigned u32;
typedef unsigned short u16;

__device__ float uniform(u32 seed, u64 i)
{
    u64 z = i * 2 + 1 + seed * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (float)(int)(z >> 40) * (2.0f / 16777216.0f) - 1.0f;
}

__device__ u16 bf16(float v)
{
    const u32 u = __float_as_uint(v);
    return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

__device__ float wide(u16 v) { return __uint_as_float((u32)v << 16); }
__device__ float element(u32 seed, u64 i, float scale) { return wide(bf16(uniform(seed, i) * scale)); }
__device__ u64 thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

/* ---- filling ---- */

/* n pieces of 16 bytes of a packed matrix in tiles of 128 rows, [tile][k / 8][128][8]; rows: which row of the model each packed row is, ~0 for none. */
extern "C" __global__ void fill_tiles(u16 *out, const u32 *rows, int k, int unit, u64 n, u32 seed, float scale)
{
    for (u64 q = thread(); q < n; q += (u64)gridDim.x * blockDim.x) {
        const u64 k8 = q / unit % (k / 8), tile = q / unit / (k / 8);
        const u32 row = rows[tile * unit + q % unit];
        for (int e = 0; e < 8; e++) out[q * 8 + e] = row == ~0u ? 0 : bf16(uniform(seed, (u64)row * k + k8 * 8 + e) * scale);
    }
}

extern "C" __global__ void fill_rows(u16 *out, u64 n, u32 seed, float scale, float around)
{
    for (u64 i = thread(); i < n; i += (u64)gridDim.x * blockDim.x) out[i] = bf16(uniform(seed, i) * scale + around);
}

/* One layer's cached positions, in blocks for ours and in rows for the reference. */
extern "C" __global__ void fill_cache(u16 *cache, float *ref, const int *table, int max_blocks, int batch, int heads, int dim, int context,
                                      int max_len, u32 seed)
{
    const u64 n = (u64)batch * context * heads * dim;
    for (u64 i = thread(); i < n; i += (u64)gridDim.x * blockDim.x) {
        const int e = i % dim, h = i / dim % heads, p = i / dim / heads % context, b = i / dim / heads / context;
        const u16 v = bf16(uniform(seed, i) * 1.7f);
        cache[(((u64)table[b * max_blocks + p / 16] * heads + h) * (dim / 8) + e / 8) * 128 + p % 16 * 8 + e % 8] = v;
        ref[(((u64)b * max_len + p) * heads + h) * dim + e] = wide(v);
    }
}

/* ---- the reference ---- */

__device__ float sum_of(float v)
{
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

/* A block a sequence. */
extern "C" __global__ void ref_embed(float *x, const int *tokens, int k, u32 seed, float scale)
{
    for (int i = threadIdx.x; i < k; i += blockDim.x) x[(u64)blockIdx.x * k + i] = element(seed, (u64)tokens[blockIdx.x] * k + i, scale);
}

extern "C" __global__ void ref_norm(float *out, const float *x, const u16 *gain, int k, float eps)
{
    __shared__ float part[32];
    float s = 0;
    x += (u64)blockIdx.x * k;
    for (int i = threadIdx.x; i < k; i += blockDim.x) s += x[i] * x[i];
    s = sum_of(s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < (int)blockDim.x / 32; i++) s += part[i];
    for (int i = threadIdx.x; i < k; i += blockDim.x)
        out[(u64)blockIdx.x * k + i] = x[i] * wide(gain[i]) / sqrtf(s / k + eps);
}

/* A warp a row; every weight is made once for up to 64 rows of x. add: to what is there. */
extern "C" __global__ void ref_matrix(float *y, const float *x, int n, int rows, int k, u32 seed, float scale, int add)
{
    const int row = thread() / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    for (int first = 0; first < n; first += 16) {
        float s[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        for (int i = lane; i < k; i += 32) {
            const float w = element(seed, (u64)row * k + i, scale);
#pragma unroll
            for (int b = 0; b < 16; b++)
                if (first + b < n) s[b] += w * x[(u64)(first + b) * k + i];
        }
#pragma unroll
        for (int b = 0; b < 16; b++) {
            if (first + b >= n) break;
            const float sum = sum_of(s[b]);
            float *to = y + (u64)(first + b) * rows + row;
            if (lane == 0) *to = sum + (add ? *to : 0.0f);
        }
    }
}

/* Turns q and k (halves), stores k and v. A block a head of q, k, v and a sequence, a thread a pair. */
extern "C" __global__ void ref_rope(float *qkv, float *keys, float *values, const float2 *rope, int heads, int kv, int dim, int position,
                                    int one_sequence, int max_len)
{
    const int head = blockIdx.x, b = blockIdx.y, i = threadIdx.x;
    float *row = qkv + ((u64)b * (heads + 2 * kv) + head) * dim;
    const int sequence = one_sequence ? 0 : b;
    position += one_sequence ? b : 0;
    const float2 turn = rope[(u64)position * (dim / 2) + i];
    const float a = row[i], c = row[i + dim / 2];
    const bool turned = head < heads + kv;
    const float first = turned ? a * turn.x - c * turn.y : a, second = turned ? c * turn.x + a * turn.y : c;
    float *to = head < heads ? row : (turned ? keys : values) + (((u64)sequence * max_len + position) * kv + (head - heads) % kv) * dim;
    to[i] = first;
    to[i + dim / 2] = second;
}

/* A block a head and sequence. */
extern "C" __global__ void ref_attention(float *out, const float *qkv, const float *keys, const float *values, int heads, int kv, int dim,
                                         int position, int one_sequence, int max_len)
{
    extern __shared__ float score[];
    __shared__ float total;
    const int head = blockIdx.x, b = blockIdx.y, from = head / (heads / kv);
    const float *q = qkv + ((u64)b * (heads + 2 * kv) + head) * dim;
    const int sequence = one_sequence ? 0 : b;
    position += one_sequence ? b : 0;
    for (int p = threadIdx.x; p <= position; p += blockDim.x) {
        const float *key = keys + (((u64)sequence * max_len + p) * kv + from) * dim;
        float s = 0;
        for (int i = 0; i < dim; i++) s += q[i] * key[i];
        score[p] = s / sqrtf((float)dim);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float top = score[0], sum = 0;
        for (int p = 1; p <= position; p++) top = fmaxf(top, score[p]);
        for (int p = 0; p <= position; p++) {
            score[p] = expf(score[p] - top);
            sum += score[p];
        }
        total = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float s = 0;
        for (int p = 0; p <= position; p++) s += score[p] * values[(((u64)sequence * max_len + p) * kv + from) * dim + i];
        out[((u64)b * heads + head) * dim + i] = s / total;
    }
}

extern "C" __global__ void ref_silu(float *out, const float *gate_up, int ffn, int n)
{
    const int i = thread();
    if (i >= n) return;
    const float *row = gate_up + (u64)(i / ffn) * 2 * ffn;
    const float g = row[i % ffn];
    out[i] = g / (1.0f + expf(-g)) * row[ffn + i % ffn];
}

/* best: {id, bits of its logit, bits of the logit of ids[b]}. A block of 256 a sequence. */
extern "C" __global__ void ref_argmax(int *best, const float *logits, const int *ids, int n)
{
    __shared__ float value[256];
    __shared__ int at[256];
    logits += (u64)blockIdx.x * n;
    float top = logits[0];
    int id = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        if (logits[i] > top) {
            top = logits[i];
            id = i;
        }
    value[threadIdx.x] = top;
    at[threadIdx.x] = id;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < 256; i++)
        if (value[i] > top || (value[i] == top && at[i] < id)) {
            top = value[i];
            id = at[i];
        }
    best[blockIdx.x * 3] = id;
    best[blockIdx.x * 3 + 1] = __float_as_int(top);
    best[blockIdx.x * 3 + 2] = __float_as_int(logits[ids[blockIdx.x]]);
}

/* ---- reading alone: 12 copies of 16 KB in flight a block ---- */

__device__ u32 at_shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }

extern "C" __global__ void read_all(const char *from, u64 pieces)
{
    extern __shared__ __align__(128) char room[];
    __shared__ u64 bars[12];
    if (threadIdx.x) return;
    for (int i = 0; i < 12; i++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at_shared(bars + i)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 n = (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x;
    for (u64 i = 0; i < n + 12; i++) {
        const u32 bar = at_shared(bars + i % 12);
        if (i >= 12)
            asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT_%=;\n}" ::"r"(bar),
                         "r"((u32)(i / 12 - 1) & 1)
                         : "memory");
        if (i >= n) continue;
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(16384) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         at_shared(room + i % 12 * 16384)),
                     "l"(from + (blockIdx.x + i * gridDim.x) * 16384), "r"(16384), "r"(bar)
                     : "memory");
    }
}
