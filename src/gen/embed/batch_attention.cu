/* Attention of the template of many rows; stands behind batch.cu. A decode step streams each sequence's cached blocks through shared memory, a prefill
 * multiplies tiles of queries and keys by wgmma. */

/* ---- attention of a decode step ------------------------------------------------------------------------------------------------------------ */

#if !RP_ONE_SEQUENCE
#define RP_STREAM_WARPS 8
#define RP_STREAM_BYTES (16 * RP_HEAD_DIM * 2) /* of the keys, or values, of a cached block */
#define RP_STREAM_SLOTS 3

struct rp_stream_room {
    char ring[RP_STREAM_WARPS][RP_STREAM_SLOTS][2][RP_STREAM_BYTES]; /* keys, values */
    float out[RP_STREAM_WARPS][RP_OUTPUTS];
    float2 stats[RP_STREAM_WARPS][RP_QUERIES_2];
    rp_u64 full[RP_STREAM_WARPS][RP_STREAM_SLOTS];
};

/* 4 core matrices, their rows' addresses from lanes 8 i .. of matrix i: each lane gets elements 2 t, + 1 of rows g, or of columns g. */
template <bool TURNED>
RP_INLINE uint4 rp_load_4(rp_u32 at)
{
    uint4 v;
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
    return v;
}

/* A warp's running result for heads g, over cached blocks in shared memory: maximum (of scores times log2 e), this lane's part of the sum, out[n] = dims
 * 8 n + 2 t, + 1. */
struct rp_streamed {
    rp_u32 q[RP_HEAD_DIM / 16][2];
    float top, sum, out[RP_HEAD_DIM / 8][4];

    RP_INLINE_MEMBER void start(const rp_u16 *from)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < RP_HEAD_DIM / 16; i++)
#pragma unroll
            for (int r = 0; r < 2; r++) q[i][r] = g < RP_QUERIES ? __ldcg((const rp_u32 *)(from + g * RP_HEAD_DIM + 16 * i + 8 * r + 2 * t)) : 0;
        top = -RP_INF;
        sum = 0.0f;
#pragma unroll
        for (int n = 0; n < RP_HEAD_DIM / 8; n++) out[n][0] = out[n][1] = out[n][2] = out[n][3] = 0.0f;
    }

    /* 16 positions, of which the first `count` do. */
    RP_INLINE_MEMBER void add(rp_u32 keys, rp_u32 values, int count)
    {
        const int lane = threadIdx.x % 32, t = lane % 4;
        float s[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, best = top, p[4];
#pragma unroll
        for (int i = 0; i < RP_HEAD_DIM / 16; i++) {
            const uint4 k = rp_load_4<false>(keys + ((2 * i + lane / 8 % 2) * 16 + lane / 16 * 8 + lane % 8) * 16);
            rp_mma(s[0], q[i][0], 0u, q[i][1], 0u, k.x, k.y);
            rp_mma(s[1], q[i][0], 0u, q[i][1], 0u, k.z, k.w);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            p[i] = 8 * (i / 2) + 2 * t + i % 2 < count ? s[i / 2][i % 2] * RP_SCORE_SCALE : -RP_INF;
            best = fmaxf(best, p[i]);
        }
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
        const float shrink = rp_exp2(top - best);
#pragma unroll
        for (int i = 0; i < 4; i++) p[i] = rp_exp2(p[i] - best);
        sum = sum * shrink + ((p[0] + p[1]) + (p[2] + p[3]));
        top = best;
        const rp_u32 a0 = rp_pack(p[0], p[1]), a2 = rp_pack(p[2], p[3]);
#pragma unroll
        for (int n = 0; n < RP_HEAD_DIM / 8; n += 2) {
            const uint4 v = rp_load_4<true>(values + ((n + lane / 16) * 16 + lane / 8 % 2 * 8 + lane % 8) * 16);
            out[n][0] *= shrink;
            out[n][1] *= shrink;
            out[n + 1][0] *= shrink;
            out[n + 1][1] *= shrink;
            rp_mma(out[n], a0, 0u, a2, 0u, v.x, v.y);
            rp_mma(out[n + 1], a0, 0u, a2, 0u, v.z, v.w);
        }
    }

    /* To the warp's part of shared memory. */
    RP_INLINE_MEMBER void store(float *to, float2 *stats)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        sum = rp_quad_sum(sum);
        if (g >= RP_QUERIES) return;
#pragma unroll
        for (int n = 0; n < RP_HEAD_DIM / 8; n++) *(float2 *)(to + g * RP_HEAD_DIM + 8 * n + 2 * t) = make_float2(out[n][0], out[n][1]);
        if (t == 0) stats[g] = make_float2(top, sum);
    }
};

/* A block a kv head and sequence, where these are enough for all multiprocessors. Each warp streams every 8th cached block through a ring of its own; the
 * block with the new position is asked for after the wait, the others before it as far as the ring goes. */
extern "C" __global__ void __launch_bounds__(RP_STREAM_WARPS * 32, RP_HEAD_DIM <= 64 ? 2 : 1)
    rp_batch_stream(const rp_u16 *q, const rp_u16 *keys, const rp_u16 *values, rp_u16 *to, const rp_step *step, const int *table)
{
    rp_stream_room *room = (rp_stream_room *)rp_memory;
    const int head = blockIdx.x, b = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const rp_u32 ring = rp_shared(room->ring[warp]), full = rp_shared(room->full[warp]);
    const rp_u64 policy = rp_read_once();
    rp_streamed r;

    rp_launch_dependents();
    if (lane == 0) {
        for (int i = 0; i < RP_STREAM_SLOTS; i++) rp_barrier_init(full + 8 * i, 1);
        rp_barriers_visible();
    }
    __syncwarp();
    table += b * RP_MAX_BLOCKS;
    const int position = rp_load_int(step->position + b), last = position / 16, n = last < warp ? 0 : (last - warp) / RP_STREAM_WARPS + 1;
    int fetched = 0, places = 0; /* places: the table's entries of the warp's next 32 blocks, one a lane */
    /* Up to `end` of the warp's blocks; all lanes take part. */
    auto fetch = [&](int end) {
        for (; fetched < end; fetched++) {
            if (fetched % 32 == 0) {
                const int i = warp + (fetched + lane) * RP_STREAM_WARPS;
                places = i <= last ? rp_load_int(table + i) : 0;
            }
            const rp_u64 from = rp_cache_at(__shfl_sync(~0u, places, fetched % 32), head);
            const rp_u32 bar = full + 8 * (fetched % RP_STREAM_SLOTS), at = ring + fetched % RP_STREAM_SLOTS * 2 * RP_STREAM_BYTES;
            if (lane) continue;
            rp_barrier_expect(bar, 2 * RP_STREAM_BYTES);
            rp_fetch(at, (const char *)(keys + from), RP_STREAM_BYTES, bar, policy);
            rp_fetch(at + RP_STREAM_BYTES, (const char *)(values + from), RP_STREAM_BYTES, bar, policy);
        }
    };
    const int old = n && last % RP_STREAM_WARPS == warp ? n - 1 : n; /* without the new position's */
    fetch(old < RP_STREAM_SLOTS ? old : RP_STREAM_SLOTS);
    rp_wait_for_others();
    fetch(n < RP_STREAM_SLOTS ? n : RP_STREAM_SLOTS);
    r.start(q + ((rp_u64)b * RP_HEADS + head * RP_QUERIES) * RP_HEAD_DIM);
    for (int i = 0; i < n; i++) {
        const rp_u32 at = ring + i % RP_STREAM_SLOTS * 2 * RP_STREAM_BYTES;
        rp_barrier_wait(full + 8 * (i % RP_STREAM_SLOTS), i / RP_STREAM_SLOTS & 1);
        r.add(at, at + RP_STREAM_BYTES, position + 1 - (warp + i * RP_STREAM_WARPS) * 16);
        __syncwarp();
        fetch(i + 1 + RP_STREAM_SLOTS < n ? i + 1 + RP_STREAM_SLOTS : n);
    }
    r.store(room->out[warp], room->stats[warp]);
    __syncthreads();
    for (int f = threadIdx.x; f < RP_QUERIES * RP_HEAD_DIM; f += RP_STREAM_WARPS * 32) {
        float top = -RP_INF, sum = 0.0f, out = 0.0f;
#pragma unroll
        for (int w = 0; w < RP_STREAM_WARPS; w++) top = fmaxf(top, room->stats[w][f / RP_HEAD_DIM].x);
#pragma unroll
        for (int w = 0; w < RP_STREAM_WARPS; w++) {
            const float2 stats = room->stats[w][f / RP_HEAD_DIM];
            const float weight = rp_weight(stats.x, top);
            sum = fmaf(weight, stats.y, sum);
            out = fmaf(weight, room->out[w][f], out);
        }
        to[rp_attended_at(b, head * RP_QUERIES * RP_HEAD_DIM + f)] = rp_bf16(__fdividef(out, sum));
    }
}
#endif

/* ---- attention of a prefill --------------------------------------------------------------------------------------------------------------- */

#if RP_ONE_SEQUENCE
#define RP_FLASH_ROWS 128 /* queries of a block, 64 a warpgroup */
#define RP_FLASH_KEYS 64  /* positions of a chunk */
#define RP_FLASH_BYTES (RP_FLASH_KEYS * RP_HEAD_DIM * 2)
#define RP_FLASH_AHEAD 3  /* chunks in shared memory */
#define RP_FLASH_BLOCK (16 * RP_HEAD_DIM * 2)

RP_INLINE void rp_copy_16(rp_u32 to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
/* Keys and values of a chunk: RP_FLASH_KEYS / 16 cached blocks as they are, each one copy, since small copies take as long as large ones. Blocks behind the
 * last one repeat it: they are masked. */
RP_INLINE void rp_flash_fetch(rp_u32 to, rp_u32 bar, const rp_u16 *keys, const rp_u16 *values, const int *table, int head, int chunk, int last)
{
    if (threadIdx.x == 0) rp_barrier_expect(bar, 2 * RP_FLASH_BYTES);
    if (threadIdx.x < RP_FLASH_KEYS / 16) {
        const int wanted = chunk * (RP_FLASH_KEYS / 16) + threadIdx.x;
        const rp_u64 from = rp_cache_at(__ldg(table + (wanted < last / 16 ? wanted : last / 16)), head);
        const rp_u32 at = to + threadIdx.x * RP_FLASH_BLOCK;
        rp_fetch_kept(at, (const char *)(keys + from), RP_FLASH_BLOCK, bar);
        rp_fetch_kept(at + RP_FLASH_BYTES, (const char *)(values + from), RP_FLASH_BLOCK, bar);
    }
}

#define RP_FLASH_SCORES (RP_FLASH_KEYS / 4) /* of a lane, of each half of the chunk */

/* A warp's 16 queries: rows g and g + 8. Scores s[h][4 i + 2 r + e] are of row r (0: g, 1: g + 8) and position 16 i + 8 h + 2 t + e. */
struct rp_flash {
    float top[2], sum[2], out[RP_HEAD_DIM / 2];

    /* Positions behind limit do not count for row r. */
    RP_INLINE_MEMBER void mask(float (*s)[RP_FLASH_SCORES], int r, int limit)
    {
        const int t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < RP_FLASH_KEYS / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (16 * i + 8 * (e / 2) + 2 * t + e % 2 > limit) s[e / 2][4 * i + 2 * r + e % 2] = -RP_INF;
    }

    /* Row r of the scores to weights. Maxima are of scores as they are; the first chunk has a position that counts for every row. */
    RP_INLINE_MEMBER void weigh(float (*s)[RP_FLASH_SCORES], int r)
    {
        float best = top[r], now = 0.0f;
#pragma unroll
        for (int i = 0; i < RP_FLASH_KEYS / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) best = fmaxf(best, s[e / 2][4 * i + 2 * r + e % 2]);
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
        const float base = best * RP_SCORE_SCALE, shrink = rp_exp2(fmaf(top[r], RP_SCORE_SCALE, -base));
#pragma unroll
        for (int i = 0; i < RP_FLASH_KEYS / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float &v = s[e / 2][4 * i + 2 * r + e % 2];
                v = rp_exp2(fmaf(v, RP_SCORE_SCALE, -base));
                now += v;
            }
        sum[r] = sum[r] * shrink + now;
        top[r] = best;
#pragma unroll
        for (int i = 0; i < RP_HEAD_DIM / 8; i++) {
            out[4 * i + 2 * r] *= shrink;
            out[4 * i + 2 * r + 1] *= shrink;
        }
    }

    RP_INLINE_MEMBER void store(rp_u16 *to, int head, int n)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float one = __fdividef(1.0f, rp_quad_sum(sum[r]));
            if (n + g + 8 * r < RP_ROWS)
#pragma unroll
                for (int i = 0; i < RP_HEAD_DIM / 8; i++)
                    *(rp_u32 *)(to + rp_attended_at(n + g + 8 * r, head * RP_HEAD_DIM + 8 * i + 2 * t)) =
                        rp_pack(out[4 * i + 2 * r] * one, out[4 * i + 2 * r + 1] * one);
        }
    }
};

/* A block: 128 queries of one head, the last ones first, since they have most to do. Causal, over the cache: the prefill's own keys are in it. */
extern "C" __global__ void __launch_bounds__(256, RP_HEAD_DIM <= 64 ? 2 : 1)
    rp_batch_attention(const rp_u16 *q, const rp_u16 *keys, const rp_u16 *values, rp_u16 *to, const rp_step *step, const int *table)
{
    const int tile = gridDim.x - 1 - blockIdx.x, head = blockIdx.y, warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    const int n = tile * RP_FLASH_ROWS + warp * 16, kv_head = head / RP_QUERIES;
    const rp_u32 room = rp_shared(rp_memory), rows = room + 2 * RP_FLASH_AHEAD * RP_FLASH_BYTES, full = rows + RP_FLASH_ROWS * RP_HEAD_DIM * 2;
    rp_flash f;

    rp_launch_dependents();
    rp_wait_for_others();
    const int start = rp_load_int(step->position), end = (tile + 1) * RP_FLASH_ROWS, last = start + (end < RP_ROWS ? end : RP_ROWS) - 1;
    const int chunks = last / RP_FLASH_KEYS + 1;
    if (threadIdx.x == 0) {
        for (int i = 0; i < RP_FLASH_AHEAD; i++) rp_barrier_init(full + 8 * i, 1);
        rp_barriers_visible();
    }
    __syncthreads();
    for (int c = 0; c < RP_FLASH_AHEAD - 1 && c < chunks; c++)
        rp_flash_fetch(room + c * 2 * RP_FLASH_BYTES, full + 8 * c, keys, values, table, kv_head, c, last);
    /* Queries to core matrices [head_dim / 8][128][8]. 8 lanes write 128 bytes in a row, 4 read 64. */
#pragma unroll
    for (int i = threadIdx.x; i < RP_FLASH_ROWS * RP_HEAD_DIM / 8; i += 256) {
        const int u = i / 8 % (RP_HEAD_DIM / 8), row = i / 8 / (RP_HEAD_DIM / 8) * 8 + i % 8, from = tile * RP_FLASH_ROWS + row;
        rp_copy_16(rows + (u * RP_FLASH_ROWS + row) * 16, q + ((rp_u64)(from < RP_ROWS ? from : RP_ROWS - 1) * RP_HEADS + head) * RP_HEAD_DIM + u * 8);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* copied by threads, read by wgmma */
    f.top[0] = f.top[1] = -RP_INF;
    f.sum[0] = f.sum[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < RP_HEAD_DIM / 2; i++) f.out[i] = 0.0f;
    for (int c = 0; c < chunks; c++) {
        const rp_u32 at = room + c % RP_FLASH_AHEAD * 2 * RP_FLASH_BYTES;
        float s[2][RP_FLASH_SCORES];
        __syncthreads(); /* nobody reads the chunk before this one any more */
        if (c + RP_FLASH_AHEAD - 1 < chunks)
            rp_flash_fetch(room + (c + RP_FLASH_AHEAD - 1) % RP_FLASH_AHEAD * 2 * RP_FLASH_BYTES, full + 8 * ((c + RP_FLASH_AHEAD - 1) % RP_FLASH_AHEAD), keys,
                           values, table, kv_head, c + RP_FLASH_AHEAD - 1, last);
        rp_barrier_wait(full + 8 * (c % RP_FLASH_AHEAD), c / RP_FLASH_AHEAD & 1);
#pragma unroll
        for (int i = 0; i < RP_FLASH_SCORES; i++) s[0][i] = s[1][i] = 0.0f;
        rp_wgmma_begin();
        /* Blocks hold 16 positions: the first 8 of each are one operand, the others another. */
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int i = 0; i < RP_HEAD_DIM / 16; i++)
                rp_wgmma<RP_FLASH_KEYS / 2>(s[h], rp_operand(rows + warp / 4 * 1024 + i * 2 * (RP_FLASH_ROWS * 16), RP_FLASH_ROWS * 16, 128),
                                            rp_operand(at + h * 128 + i * 512, 256, RP_FLASH_BLOCK), i > 0);
        rp_wgmma_end();
        rp_wgmma_wait<0>();
        if ((c + 1) * RP_FLASH_KEYS > start + n) {
            f.mask(s, 0, start + n + g - c * RP_FLASH_KEYS);
            f.mask(s, 1, start + n + g + 8 - c * RP_FLASH_KEYS);
        }
        f.weigh(s, 0);
        f.weigh(s, 1);
        rp_u32 weights[RP_FLASH_KEYS / 16][4];
#pragma unroll
        for (int i = 0; i < RP_FLASH_KEYS / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) weights[i][e] = rp_pack(s[e / 2][4 * i + e % 2 * 2], s[e / 2][4 * i + e % 2 * 2 + 1]);
        rp_wgmma_begin();
#pragma unroll
        for (int i = 0; i < RP_FLASH_KEYS / 16; i++)
            rp_wgmma_turned<RP_HEAD_DIM>(f.out, weights[i], rp_operand(at + RP_FLASH_BYTES + i * RP_FLASH_BLOCK, 128, 256));
        rp_wgmma_end();
        rp_wgmma_wait<0>();
    }
    f.store(to, head, n);
}
#endif
