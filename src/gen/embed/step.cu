/* What the templates of a step in CUDA C share: instructions, the step's record, attention of one new token a sequence over cached
 * blocks. The text in front of this one defines RP_ROOM, RP_X_COLUMNS, RP_HEADS .. RP_AHEAD. */

typedef unsigned char rp_u8;
typedef unsigned short rp_u16;
typedef unsigned int rp_u32;
typedef unsigned long long rp_u64;

#define RP_INF __int_as_float(0x7f800000)
#define RP_INLINE static __device__ __forceinline__
#define RP_INLINE_MEMBER __device__ __forceinline__

/* One step's state: what changes from step to step, in device memory. Read before the wait by every kernel. */
struct rp_step {
    int position[RP_ROOM]; /* of the token that is computed now: how many are cached */
    int token[RP_ROOM];    /* its id */
    unsigned done;   /* blocks of head that have ended; 0 between steps */
};

/* ---- instructions ----------------------------------------------------------------------------------------------------------------- */

RP_INLINE void rp_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }
RP_INLINE void rp_wait_for_others() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
RP_INLINE rp_u32 rp_shared(const void *p) { return (rp_u32)__cvta_generic_to_shared(p); }

RP_INLINE void rp_barrier_init(rp_u32 bar, rp_u32 arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

RP_INLINE void rp_barriers_visible()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

RP_INLINE void rp_barrier_expect(rp_u32 bar, rp_u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

RP_INLINE void rp_barrier_wait(rp_u32 bar, rp_u32 parity)
{
    asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT_%=;\n}" ::"r"(bar), "r"(parity)
                 : "memory");
}

/* For what other blocks of the cluster have sent. */
RP_INLINE void rp_barrier_wait_cluster(rp_u32 bar, rp_u32 parity)
{
    asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT_%=;\n}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

RP_INLINE rp_u64 rp_read_once()
{
    rp_u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/* Weights to shared memory, where the barrier expects them; they are read once a step and must not push anything else out of L2. */
RP_INLINE void rp_fetch(rp_u32 to, const char *from, rp_u32 bytes, rp_u32 bar, rp_u64 policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar), "l"(policy)
                 : "memory");
}

/* Memory that other kernels write: never from the first-level cache. */
RP_INLINE uint4 rp_load(const void *p)
{
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}

RP_INLINE int rp_load_int(const int *p)
{
    int v;
    asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

RP_INLINE float rp_load_float(const float *p)
{
    float v;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
    return v;
}

RP_INLINE uint4 rp_load_shared(rp_u32 at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
    return v;
}

/* c += a * b of 16 rows, 16 k, 8 columns. */
RP_INLINE void rp_mma(float *c, rp_u32 a0, rp_u32 a1, rp_u32 a2, rp_u32 a3, rp_u32 b0, rp_u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

RP_INLINE float rp_low(rp_u32 two) { return __uint_as_float(two << 16); }
RP_INLINE float rp_high(rp_u32 two) { return __uint_as_float(two & 0xffff0000u); }

/* lo and hi rounded to bf16, nearest even. */
RP_INLINE rp_u32 rp_pack(float lo, float hi)
{
    rp_u32 two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(hi), "f"(lo));
    return two;
}

RP_INLINE rp_u16 rp_bf16(float v) { return (rp_u16)rp_pack(v, 0.0f); }

RP_INLINE float rp_quad_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

/* ---- rotations and the cache -------------------------------------------------------------------------------------------------------- */

#if RP_ROPE_NEIGHBOURS
#define RP_ROPE_FIRST(i) (2 * (i))
#define RP_ROPE_SECOND(i) (2 * (i) + 1)
#else
#define RP_ROPE_FIRST(i) (i)
#define RP_ROPE_SECOND(i) ((i) + RP_HEAD_DIM / 2)
#endif

/* Caches are blocks of 16 positions, [block][kv head][head_dim / 8][16][8]: 8 positions of 8 elements are a core matrix of wgmma, and a block of a
 * kv head is contiguous. Their memory holds finite numbers from the start on (zeros), since a tile takes positions that are not there yet, times 0. */
RP_INLINE rp_u64 rp_cache_at(int block, int head) { return ((rp_u64)block * RP_KV_HEADS + head) * 16 * RP_HEAD_DIM; }
RP_INLINE int rp_in_block_of_cache(int position, int dim) { return dim / 8 * 128 + position % 16 * 8 + dim % 8; }

/* Element k of row n of what attention leaves for the next matrix: rows, or tiles of RP_X_COLUMNS rows, [k / 8][columns][8] each. */
RP_INLINE rp_u64 rp_attended_at(int n, int k)
{
    const int wide = RP_HEADS * RP_HEAD_DIM, columns = RP_X_COLUMNS;
    return columns ? (((rp_u64)(n / (columns ? columns : 1)) * (wide / 8) + k / 8) * columns + n % (columns ? columns : 1)) * 8 + k % 8 : (rp_u64)n * wide + k;
}

/* ---- attention ----------------------------------------------------------------------------------------------------------------------- */

/* One cluster of RP_SPLITS blocks a sequence and kv head; all query heads of the kv head together. A warp takes cached blocks of 16 positions, the first of
 * them before the wait; the last warp of the first block takes the new position after it. Every warp ends with a maximum, a sum and
 * weighted values a head. A block joins those of its warps and sends each part into the shared memory of the block that owns these outputs; an owner
 * joins the blocks' parts. Both in fixed order. */
#define RP_QUERIES (RP_HEADS / RP_KV_HEADS)
#define RP_QUERIES_2 (RP_QUERIES > 4 ? 8 : RP_QUERIES > 2 ? 4 : RP_QUERIES) /* power of two */
#define RP_OUTPUTS (RP_QUERIES_2 * RP_HEAD_DIM)
#define RP_THREADS (RP_ATTENTION_WARPS * 32)
#define RP_EACH (RP_OUTPUTS > 2 * RP_THREADS ? 4 : 2) /* outputs that a thread joins and sends */
#define RP_OWN (RP_OUTPUTS / RP_SPLITS)                                /* outputs of an owner */
#define RP_OWN_HEADS (RP_OWN > RP_HEAD_DIM ? RP_OWN / RP_HEAD_DIM : 1) /* heads they are of */
#define RP_SENT_BYTES (RP_SPLITS * (RP_OWN * 4 + RP_OWN_HEADS * 8))    /* that an owner gets */
#define RP_POWER(n) ((n) >= 16 ? 16 : (n) >= 8 ? 8 : (n) >= 4 ? 4 : (n) >= 2 ? 2 : 1)
#define RP_SHARE (RP_POWER(RP_THREADS / RP_OWN) > RP_SPLITS ? RP_SPLITS : RP_POWER(RP_THREADS / RP_OWN)) /* threads of one output */
#define RP_WORKERS (RP_SPLITS * RP_ATTENTION_WARPS - 1)

static_assert(RP_QUERIES <= 8 && RP_OWN >= 8 && RP_HEAD_DIM % 32 == 0 && RP_THREADS >= RP_OWN && RP_EACH * RP_THREADS >= RP_OUTPUTS, "attention");

struct rp_attention_room {
    float out[RP_ATTENTION_WARPS][RP_OUTPUTS];
    float2 stats[RP_ATTENTION_WARPS][RP_QUERIES_2]; /* maximum, sum */
    float sent[RP_SPLITS][RP_OWN];                      /* by the blocks of the cluster */
    float2 sent_stats[RP_SPLITS][RP_OWN_HEADS];
    rp_u64 bar;
};

RP_INLINE rp_u32 rp_in_block(rp_u32 shared, int rank)
{
    rp_u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
    return there;
}

RP_INLINE void rp_send(rp_u32 to, rp_u32 bar, float a, float b)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to), "f"(a), "f"(b), "r"(bar)
                 : "memory");
}

/* 8x8 elements of 2 bytes, a row a quad, turned. */
RP_INLINE rp_u32 rp_turned(rp_u32 two)
{
    rp_u32 out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(two));
    return out;
}

/* 16 cached positions: lane 4g+t has dims 32d + 8t .. + 7 of positions g and g + 8. So keys are B fragments; values are, once each 8x8 of them has been
 * turned, with dims 32d + 8t + 2i, + 1 as columns of tile 4d + i. */
struct rp_cached {
    uint4 k[2][RP_HEAD_DIM / 32], v[2][RP_HEAD_DIM / 32];

    /* The cache from element `at` on; values of rows outside [from, to) are 0, since 0 times what is there may be NaN. */
    RP_INLINE_MEMBER void load(const rp_u16 *keys, const rp_u16 *values, rp_u64 at, int from, int to)
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int row = 8 * j + g;
#pragma unroll
            for (int d = 0; d < RP_HEAD_DIM / 32; d++) {
                const rp_u64 place = at + rp_in_block_of_cache(row, 32 * d + 8 * t);
                k[j][d] = rp_load(keys + place);
                v[j][d] = row >= from && row < to ? rp_load(values + place) : make_uint4(0, 0, 0, 0);
            }
        }
    }

    RP_INLINE_MEMBER void turn()
    {
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int d = 0; d < RP_HEAD_DIM / 32; d++)
                v[j][d] = make_uint4(rp_turned(v[j][d].x), rp_turned(v[j][d].y), rp_turned(v[j][d].z), rp_turned(v[j][d].w));
    }
};

/* A warp's running result for heads g: maximum (of scores times log2 e), this lane's part of the sum, and
 * out[4d + i] = dims 32d + 8t + 2i, + 1. */
struct rp_running {
    float top, sum, out[RP_HEAD_DIM / 8][4];

    RP_INLINE_MEMBER void clear()
    {
        top = -RP_INF;
        sum = 0.0f;
#pragma unroll
        for (int n = 0; n < RP_HEAD_DIM / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) out[n][i] = 0.0f;
    }

    /* Positions base .. base + 15, of which those in [from, to) count. At least one does. */
    RP_INLINE_MEMBER void add(const uint4 *q, const rp_cached &c, int base, int from, int to)
    {
        const int lane = threadIdx.x % 32, t = lane % 4;
        float s[2][4];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
#pragma unroll
            for (int d = 0; d < RP_HEAD_DIM / 32; d++) {
                rp_mma(s[j], q[d].x, 0u, q[d].y, 0u, c.k[j][d].x, c.k[j][d].y);
                rp_mma(s[j], q[d].z, 0u, q[d].w, 0u, c.k[j][d].z, c.k[j][d].w);
            }
        }
        float best = -RP_INF;
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int position = base + 8 * j + 2 * t + i;
                s[j][i] = position >= from && position < to ? s[j][i] * RP_SCORE_SCALE : -RP_INF;
                best = fmaxf(best, s[j][i]);
            }
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
        best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
        best = fmaxf(best, top);
        const float shrink = exp2f(top - best);
        float p[4];
#pragma unroll
        for (int i = 0; i < 4; i++) p[i] = exp2f(s[i / 2][i % 2] - best);
        sum = sum * shrink + ((p[0] + p[1]) + (p[2] + p[3]));
        top = best;
        const rp_u32 a0 = rp_pack(p[0], p[1]), a2 = rp_pack(p[2], p[3]);
#pragma unroll
        for (int n = 0; n < RP_HEAD_DIM / 8; n++) {
            out[n][0] *= shrink;
            out[n][1] *= shrink;
        }
#pragma unroll
        for (int d = 0; d < RP_HEAD_DIM / 32; d++) {
            rp_mma(out[4 * d], a0, 0u, a2, 0u, c.v[0][d].x, c.v[1][d].x);
            rp_mma(out[4 * d + 1], a0, 0u, a2, 0u, c.v[0][d].y, c.v[1][d].y);
            rp_mma(out[4 * d + 2], a0, 0u, a2, 0u, c.v[0][d].z, c.v[1][d].z);
            rp_mma(out[4 * d + 3], a0, 0u, a2, 0u, c.v[0][d].w, c.v[1][d].w);
        }
    }

    /* To the warp's part of shared memory. */
    RP_INLINE_MEMBER void store(float *to, float2 *stats)
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        sum = rp_quad_sum(sum);
        if (g >= RP_QUERIES_2) return;
#pragma unroll
        for (int n = 0; n < RP_HEAD_DIM / 8; n += 2)
            *(float4 *)(to + g * RP_HEAD_DIM + n / 4 * 32 + 8 * t + n % 4 * 2) = make_float4(out[n][0], out[n][1], out[n + 1][0], out[n + 1][1]);
        if (t == 0) stats[g] = make_float2(top, sum);
    }
};

/* What a part with this maximum counts beside one with the maximum top. */
RP_INLINE float rp_weight(float mine, float top) { return mine == -RP_INF ? 0.0f : exp2f(mine - top); }

/* Joins the warps' parts of this block, RP_EACH outputs a thread, and sends them to their owner. */
RP_INLINE void rp_send_block(rp_attention_room *room, int rank)
{
    const int f = threadIdx.x * RP_EACH, head = f / RP_HEAD_DIM, owner = f / RP_OWN;
    if (f >= RP_OUTPUTS) return;
    float top = -RP_INF, sum = 0.0f, out[RP_EACH];
    float2 stats[RP_ATTENTION_WARPS];
#pragma unroll
    for (int w = 0; w < RP_ATTENTION_WARPS; w++) {
        stats[w] = room->stats[w][head];
        top = fmaxf(top, stats[w].x);
    }
#pragma unroll
    for (int i = 0; i < RP_EACH; i++) out[i] = 0.0f;
#pragma unroll
    for (int w = 0; w < RP_ATTENTION_WARPS; w++) {
        const float weight = rp_weight(stats[w].x, top);
        sum = fmaf(weight, stats[w].y, sum);
#pragma unroll
        for (int i = 0; i < RP_EACH; i++) out[i] = fmaf(weight, room->out[w][f + i], out[i]);
    }
    const rp_u32 bar = rp_in_block(rp_shared(&room->bar), owner);
    const rp_u32 to = rp_in_block(rp_shared(&room->sent[rank][f % RP_OWN]), owner);
#pragma unroll
    for (int i = 0; i < RP_EACH; i += 2) rp_send(to + 4 * i, bar, out[i], out[i + 1]);
    if (f % (RP_OWN < RP_HEAD_DIM ? RP_OWN : RP_HEAD_DIM) == 0)
        rp_send(rp_in_block(rp_shared(&room->sent_stats[rank][f % RP_OWN / RP_HEAD_DIM]), owner), bar, top, sum);
}

/* Joins what all blocks have sent for this block's outputs, each by RP_SHARE neighbouring threads. */
RP_INLINE void rp_join(const rp_attention_room *room, int rank, int b, int head, rp_u16 *to)
{
    const int mine = threadIdx.x / RP_SHARE, sub = threadIdx.x % RP_SHARE, f = rank * RP_OWN + mine;
    if (threadIdx.x / 32 * 32 >= RP_OWN * RP_SHARE) return; /* whole warps */
    const int at = mine < RP_OWN ? mine : 0;
    float top = -RP_INF, sum = 0.0f, out = 0.0f;
    float2 stats[RP_SPLITS / RP_SHARE];
#pragma unroll
    for (int i = 0; i < RP_SPLITS / RP_SHARE; i++) {
        stats[i] = room->sent_stats[i * RP_SHARE + sub][at / RP_HEAD_DIM];
        top = fmaxf(top, stats[i].x);
    }
#pragma unroll
    for (int o = 1; o < RP_SHARE; o *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
#pragma unroll
    for (int i = 0; i < RP_SPLITS / RP_SHARE; i++) {
        const float weight = rp_weight(stats[i].x, top);
        sum = fmaf(weight, stats[i].y, sum);
        out = fmaf(weight, room->sent[i * RP_SHARE + sub][at], out);
    }
#pragma unroll
    for (int o = 1; o < RP_SHARE; o *= 2) {
        sum += __shfl_xor_sync(~0u, sum, o);
        out += __shfl_xor_sync(~0u, out, o);
    }
    if (sub == 0 && mine < RP_OWN && f < RP_QUERIES * RP_HEAD_DIM) to[rp_attended_at(b, head * RP_QUERIES * RP_HEAD_DIM + f)] = rp_bf16(__fdividef(out, sum));
}

#if !defined RP_ONE_SEQUENCE || !RP_ONE_SEQUENCE
extern "C" __global__ void __cluster_dims__(RP_SPLITS, 1, 1) __launch_bounds__(RP_THREADS, RP_HEAD_DIM <= 64 && RP_ATTENTION_WARPS == 4 ? 4 : 1)
    rp_decode_attention(const rp_u16 *q, const rp_u16 *keys, const rp_u16 *values, rp_u16 *to, const rp_step *step, const int *table)
{
    __shared__ __align__(16) rp_attention_room room;
    const int rank = blockIdx.x, head = blockIdx.y, b = blockIdx.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const bool fresh = rank == 0 && warp == RP_ATTENTION_WARPS - 1;
    const int worker = rank * RP_ATTENTION_WARPS + warp - (rank > 0);
    rp_cached c, next;
    rp_running r;
    uint4 queries[RP_HEAD_DIM / 32];

    rp_launch_dependents();
    if (threadIdx.x == 0) {
        rp_barrier_init(rp_shared(&room.bar), 1);
        rp_barriers_visible();
        rp_barrier_expect(rp_shared(&room.bar), RP_SENT_BYTES);
    }
    table += b * RP_MAX_BLOCKS;
    /* Asked for together; the table has an entry whether or not it is in use. */
    const int position = rp_load_int(step->position + b), n = (position + 15) / 16;
    int i = worker;
    const int first = rp_load_int(table + (i < RP_MAX_BLOCKS ? i : 0));
    const int second = RP_AHEAD && RP_WORKERS < RP_MAX_BLOCKS ? rp_load_int(table + (i + RP_WORKERS < RP_MAX_BLOCKS ? i + RP_WORKERS : 0)) : 0;
    r.clear();
    if (!fresh && i < n) {
        c.load(keys, values, rp_cache_at(first, head), 0, position - i * 16);
        if (RP_AHEAD && i + RP_WORKERS < n) next.load(keys, values, rp_cache_at(second, head), 0, position - (i + RP_WORKERS) * 16);
        c.turn();
    }
    const rp_u64 now = fresh ? rp_cache_at(rp_load_int(table + position / 16), head) : 0;
    /* No block may send before the others' barriers are there. */
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    rp_wait_for_others();
#pragma unroll
    for (int d = 0; d < RP_HEAD_DIM / 32; d++)
        queries[d] = g < RP_QUERIES
                         ? rp_load(q + ((rp_u64)b * RP_HEADS + head * RP_QUERIES + g) * RP_HEAD_DIM + 32 * d + 8 * t)
                         : make_uint4(0, 0, 0, 0);
    if (fresh) {
        c.load(keys, values, now, position % 16, position % 16 + 1);
        c.turn();
        r.add(queries, c, position / 16 * 16, position, position + 1);
    } else {
        for (; i < n; i += RP_WORKERS) {
            const int then = i + RP_WORKERS;
            r.add(queries, c, i * 16, 0, position);
            if (then >= n) break;
            if (RP_AHEAD) {
                c = next;
                if (then + RP_WORKERS < n)
                    next.load(keys, values, rp_cache_at(rp_load_int(table + then + RP_WORKERS), head), 0, position - (then + RP_WORKERS) * 16);
            } else {
                c.load(keys, values, rp_cache_at(rp_load_int(table + then), head), 0, position - then * 16);
            }
            c.turn();
        }
    }
    r.store(room.out[warp], room.stats[warp]);
    __syncthreads();
    rp_send_block(&room, rank);
    rp_barrier_wait_cluster(rp_shared(&room.bar), 0);
    rp_join(&room, rank, b, head, to);
}
#endif

/* ---- argmax ----------------------------------------------------------------------------------------------------------------------------- */

struct rp_best {
    float value;
    int id;
};

/* The larger; of equals the smaller id. */
RP_INLINE rp_best rp_better(rp_best a, rp_best b) { return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a; }
