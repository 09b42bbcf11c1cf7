/* A decode step of a Llama-shaped model in bf16 for up to 8 sequences, as plain kernels of one chain with programmatic edges:
 *
 *   embed, (qkv, attention, o, up, down) a layer, head
 *
 * The text in front of this one defines RP_HIDDEN .. RP_MAX_BLOCKS and one tile a matrix (gen/decode.c).
 *
 * Order. Every kernel lets the next one start at once (launch_dependents first), reads what no kernel of the chain writes (weights,
 * cached keys and values of earlier steps, the step's record), then waits for the kernels in front of it, and only then touches anything
 * else. Three kernels of a chain may run at the same time and completion is handed on by the wait alone, so every kernel executes it. The
 * step's record is written by the last kernel, after its wait, when nothing else runs.
 *
 * Matrices. Weights are packed in units of RP_*_ROWS rows (8 or 16) so that 16 bytes of shared memory are a lane's part of the A
 * fragment of mma.m16n8k16: [unit][pair of k16 steps][8-row half][lane][8 elements]; lane 4g+t holds row g, k = 32 pair + 8t .. +7. x is the B
 * fragment with the same order of k, so the sums are over the same products. One to 8 sequences cost the same. Each warp has a slice of k
 * and a ring of its own in shared memory, which its first lane fills with bulk copies; a slot is refilled once its warp has used it, so
 * there is no second barrier and nothing to deadlock on. Sums: k in the warp's order, then warps 0, 1, .. : the same for every run.
 *
 * The residual stream is float32 and is touched only by the rows' owners; what the next matrix reads is its bf16 copy. */

typedef unsigned char rp_u8;
typedef unsigned short rp_u16;
typedef unsigned int rp_u32;
typedef unsigned long long rp_u64;

#define RP_INF __int_as_float(0x7f800000)
#define RP_INLINE static __device__ __forceinline__
#define RP_INLINE_MEMBER __device__ __forceinline__
#define RP_COLUMNS (RP_BATCH == 1 ? 1 : 8) /* sequences as partial sums are stored */
/* Registers for two blocks of one sequence on a multiprocessor: the next kernel's blocks come in while the last ones of this one run. */
#define RP_BOUNDS(tile) __launch_bounds__(tile::THREADS, RP_BATCH == 1 ? 2 : 1)

/* One step's state: what changes from step to step, in device memory. Read before the wait by every kernel. */
struct rp_step {
    int position[8]; /* of the token that is computed now: how many are cached */
    int token[8];    /* its id */
    unsigned done;   /* blocks of head that have ended; 0 between steps */
};

/* ---- instructions ----------------------------------------------------------------------------------------------------------------- */

RP_INLINE void rp_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }
RP_INLINE void rp_wait_for_others() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
RP_INLINE rp_u32 rp_shared(const void *p) { return (rp_u32)__cvta_generic_to_shared(p); }

RP_INLINE void rp_barrier_init(rp_u32 bar)
{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
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

/* Weights to shared memory; they are read once a step and must not push anything else out of L2. */
RP_INLINE void rp_fetch(rp_u32 to, const char *from, rp_u32 bytes, rp_u32 bar, rp_u64 policy)
{
    rp_barrier_expect(bar, bytes);
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

/* ---- a matrix times the step's rows ------------------------------------------------------------------------------------------------- */

/* The tile of one matrix. CHUNK_PAIRS pairs of k16 steps are one copy; SLOTS of them are a warp's ring, of which CAP are in flight before the
 * wait; partial sums of GROUP units meet at one barrier. */
template <int K_, int ROWS_, int UNITS_, int BLOCKS_, int WARPS_, int CHUNK_PAIRS_, int SLOTS_, int GROUP_, int CAP_>
struct rp_tile {
    static const int K = K_, ROWS = ROWS_, UNITS = UNITS_, BLOCKS = BLOCKS_, WARPS = WARPS_, SLOTS = SLOTS_, GROUP = GROUP_, CAP = CAP_;
    static const int THREADS = WARPS * 32, HALVES = ROWS / 8;
    static const int PAIRS = K / 32, SLICE = PAIRS / WARPS; /* of a unit, of a warp */
    static const int CHUNK_PAIRS = CHUNK_PAIRS_, CHUNKS = SLICE / CHUNK_PAIRS;
    static const int PAIR_BYTES = HALVES * 512, CHUNK_BYTES = CHUNK_PAIRS * PAIR_BYTES;
    static const int UNIT_BYTES = PAIRS * PAIR_BYTES, SLICE_BYTES = SLICE * PAIR_BYTES;
    static const int RING_BYTES = WARPS * SLOTS * CHUNK_BYTES;
    static const int PARTS = WARPS * ROWS * RP_COLUMNS; /* partial sums of a unit */
    static const int EACH = (UNITS + BLOCKS - 1) / BLOCKS; /* units of a block, at most */
    static const int N_X = RP_BATCH == 1 ? (SLICE + 7) / 8 : SLICE;
    /* With more x than registers can hold, x is read again for every unit, a chunk at a time. */
    static const bool STREAM = N_X > 32;
    static_assert(K % 32 == 0 && PAIRS % WARPS == 0 && SLICE % CHUNK_PAIRS == 0 && (ROWS == 8 || ROWS == 16), "tile");
};

/* A warp's ring. All lanes count along, the first one fetches. */
template <class T>
struct rp_ring {
    const char *from; /* the warp's slice of the block's first unit */
    rp_u32 slots, bars;
    rp_u64 policy;
    int slot, chunk, to_fetch, total; /* chunk, to_fetch: within the unit; next to be fetched of total */
    rp_u32 parity;

    RP_INLINE const char *source(const char *base, int i)
    {
        return base + (rp_u64)(i / T::CHUNKS) * T::BLOCKS * T::UNIT_BYTES + (i % T::CHUNKS) * T::CHUNK_BYTES;
    }

    RP_INLINE_MEMBER void start(const char *w, rp_u32 ring, rp_u32 barriers, int n_units)
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        from = w + (rp_u64)blockIdx.x * T::UNIT_BYTES + warp * T::SLICE_BYTES;
        slots = ring + warp * T::SLOTS * T::CHUNK_BYTES;
        bars = barriers + warp * T::SLOTS * 8;
        policy = rp_read_once();
        total = n_units * T::CHUNKS;
        to_fetch = 0;
        slot = 0;
        parity = 0;
        if (lane == 0) {
            for (int i = 0; i < T::SLOTS; i++) rp_barrier_init(bars + 8 * i);
            rp_barriers_visible();
            for (; to_fetch < T::CAP && to_fetch < T::SLOTS && to_fetch < total; to_fetch++) fetch(to_fetch);
        }
        __syncwarp();
    }

    RP_INLINE_MEMBER void fetch(int to)
    {
        rp_fetch(slots + to * T::CHUNK_BYTES, source(from, to_fetch), T::CHUNK_BYTES, bars + 8 * to, policy);
    }

    /* The rest of the ring, each copy when one before it has arrived: many copies in flight would delay the small loads of others. */
    RP_INLINE_MEMBER void fill()
    {
        if (T::CAP < T::SLOTS && threadIdx.x % 32 == 0)
            for (; to_fetch < T::SLOTS && to_fetch < total; to_fetch++) {
                rp_barrier_wait(bars + 8 * (to_fetch - T::CAP), 0);
                fetch(to_fetch);
            }
        __syncwarp();
    }

    /* The address of the next chunk, once it is there. */
    RP_INLINE_MEMBER rp_u32 take()
    {
        rp_barrier_wait(bars + 8 * slot, parity);
        return slots + slot * T::CHUNK_BYTES;
    }

    /* The chunk has been used by all lanes: its slot is filled again. */
    RP_INLINE_MEMBER void give()
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0 && to_fetch < total) {
            fetch(slot);
            to_fetch++;
        }
        if (++slot == T::SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
};

/* Two elements times their gains, rounded; adds their squares. */
RP_INLINE rp_u32 rp_gain(rp_u32 x, rp_u32 gain, float &sum)
{
    const float a = rp_low(x), b = rp_high(x);
    sum = fmaf(a, a, sum);
    sum = fmaf(b, b, sum);
    return rp_pack(a * rp_low(gain), b * rp_high(gain));
}

RP_INLINE void rp_gain4(uint4 &x, const uint4 &gain, float &sum)
{
    x.x = rp_gain(x.x, gain.x, sum);
    x.y = rp_gain(x.y, gain.y, sum);
    x.z = rp_gain(x.z, gain.z, sum);
    x.w = rp_gain(x.w, gain.w, sum);
}

/* A warp's slice of x as B fragments. One sequence: lane 4g+t holds pair 8i+g, so that a load is whole lines, and a pair's product takes it as column
 * g alone; the columns are added at the end. More: lane 4g+t holds sequence g. */
template <class T, bool NORM>
struct rp_rows {
    uint4 v[T::STREAM ? 1 : T::N_X];
    uint4 gain[NORM ? T::N_X : 1];
    float squares; /* of the lane's elements */

    RP_INLINE bool has(int i)
    {
        return RP_BATCH == 1 ? 8 * i + 7 < T::SLICE || 8 * i + (int)(threadIdx.x % 32 / 4) < T::SLICE : (int)(threadIdx.x % 32 / 4) < RP_BATCH;
    }

    /* Elements from the start of the row. */
    RP_INLINE int at(int i)
    {
        const int lane = threadIdx.x % 32, start = threadIdx.x / 32 * T::SLICE * 32;
        return RP_BATCH == 1 ? start + i * 256 + lane * 8 : start + i * 32 + lane % 4 * 8;
    }

    RP_INLINE uint4 load(const rp_u16 *x, int i)
    {
        const int row = RP_BATCH == 1 ? 0 : threadIdx.x % 32 / 4;
        return has(i) ? rp_load(x + (rp_u64)row * T::K + at(i)) : make_uint4(0, 0, 0, 0);
    }

    RP_INLINE_MEMBER void before(const rp_u16 *gains)
    {
        if (NORM) {
#pragma unroll
            for (int i = 0; i < T::N_X; i++)
                gain[i] = RP_BATCH > 1 || has(i) ? __ldg((const uint4 *)(gains + at(i))) : make_uint4(0, 0, 0, 0);
        }
    }

    RP_INLINE_MEMBER void after(const rp_u16 *x)
    {
        static_assert(!(NORM && T::STREAM), "a normed row is kept in registers");
        squares = 0.0f;
        if (T::STREAM) return;
#pragma unroll
        for (int i = 0; i < T::N_X; i++) v[i] = load(x, i);
        if (NORM) {
#pragma unroll
            for (int i = 0; i < T::N_X; i++) rp_gain4(v[i], gain[i], squares);
        }
    }

    RP_INLINE_MEMBER uint4 fragment(int pair) const
    {
        if (RP_BATCH > 1) return v[T::STREAM ? 0 : pair];
        const uint4 x = v[T::STREAM ? 0 : pair / 8];
        uint4 b; /* volatile: chosen when it is needed, not kept in registers for all pairs */
        asm volatile("{\n.reg .pred p;\nsetp.eq.s32 p, %8, %9;\nselp.b32 %0, %4, 0, p;\nselp.b32 %1, %5, 0, p;\nselp.b32 %2, %6, 0, p;\n"
                     "selp.b32 %3, %7, 0, p;\n}"
                     : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
                     : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(threadIdx.x % 32 / 4), "r"(pair % 8));
        return b;
    }
};

RP_INLINE float rp_quad_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

/* The unit's sums over the warp's slice, to parts[row][column]. */
template <class T>
RP_INLINE void rp_store_parts(float *parts, const float *c)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    parts += threadIdx.x / 32 * T::ROWS * RP_COLUMNS;
    if (RP_BATCH == 1) {
        const float low = rp_quad_sum(c[0] + c[1]), high = T::HALVES == 2 ? rp_quad_sum(c[2] + c[3]) : 0.0f;
        if (t == 0) {
            parts[g] = low;
            if (T::HALVES == 2) parts[g + 8] = high;
        }
    } else {
        *(float2 *)(parts + g * 8 + 2 * t) = make_float2(c[0], c[1]);
        if (T::HALVES == 2) *(float2 *)(parts + (g + 8) * 8 + 2 * t) = make_float2(c[2], c[3]);
    }
}

/* One pair of k16 steps: a holds the lane's part of one or two halves. */
template <class T>
RP_INLINE void rp_pair(float *c, float *d, const uint4 *a, const uint4 &b)
{
    if (T::HALVES == 2) {
        rp_mma(c, a[0].x, a[1].x, a[0].y, a[1].y, b.x, b.y);
        rp_mma(d, a[0].z, a[1].z, a[0].w, a[1].w, b.z, b.w);
    } else {
        rp_mma(c, a[0].x, 0u, a[0].y, 0u, b.x, b.y);
        rp_mma(d, a[0].z, 0u, a[0].w, 0u, b.z, b.w);
    }
}

template <class T, bool NORM>
RP_INLINE void rp_unit(rp_ring<T> &ring, const rp_rows<T, NORM> &rows, const rp_u16 *x, float *parts)
{
    float c[4] = {0, 0, 0, 0}, d[4] = {0, 0, 0, 0};
#pragma unroll
    for (int chunk = 0; chunk < T::CHUNKS; chunk++) {
        uint4 a[T::CHUNK_PAIRS * T::HALVES], xs[T::STREAM ? T::CHUNK_PAIRS : 1];
        if (T::STREAM) {
#pragma unroll
            for (int p = 0; p < T::CHUNK_PAIRS; p++) xs[p] = rp_rows<T, NORM>::load(x, chunk * T::CHUNK_PAIRS + p);
        }
        const rp_u32 at = ring.take() + threadIdx.x % 32 * 16;
#pragma unroll
        for (int i = 0; i < T::CHUNK_PAIRS * T::HALVES; i++) a[i] = rp_load_shared(at + i * 512);
#pragma unroll
        for (int p = 0; p < T::CHUNK_PAIRS; p++)
            rp_pair<T>(c, d, a + p * T::HALVES, T::STREAM ? xs[p] : rows.fragment(chunk * T::CHUNK_PAIRS + p));
        ring.give();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) c[i] += d[i];
    rp_store_parts<T>(parts, c);
}

/* Shared memory of a block, behind the ring. */
template <class T>
struct rp_room {
    float parts[T::EACH > T::GROUP ? 2 : 1][T::GROUP][T::PARTS];
    float squares[T::WARPS][RP_COLUMNS];
    rp_u64 bars[T::WARPS * T::SLOTS];
};

/* What an epilogue asks: sums over warps, in their order. */
template <class T>
struct rp_sums {
    const rp_room<T> *room;
    int buffer;

    RP_INLINE_MEMBER float value(int unit, int row, int b) const
    {
        const float *p = room->parts[buffer][unit] + row * RP_COLUMNS + b;
        float s = 0.0f;
#pragma unroll
        for (int w = 0; w < T::WARPS; w++) s += p[w * T::ROWS * RP_COLUMNS];
        return s;
    }

    RP_INLINE_MEMBER float scale(int b) const /* 1 / rms of the row */
    {
        float s = 0.0f;
#pragma unroll
        for (int w = 0; w < T::WARPS; w++) s += room->squares[w][b];
        return rsqrtf(s / T::K + RP_EPS);
    }
};

/* The sum of squares of every sequence over the warp's slice. */
template <class T>
RP_INLINE void rp_store_squares(rp_room<T> *room, float s)
{
    const int lane = threadIdx.x % 32;
    s = rp_quad_sum(s);
    if (RP_BATCH == 1) {
        s += __shfl_xor_sync(~0u, s, 4);
        s += __shfl_xor_sync(~0u, s, 8);
        s += __shfl_xor_sync(~0u, s, 16);
        if (lane == 0) room->squares[threadIdx.x / 32][0] = s;
    } else if (lane % 4 == 0) {
        room->squares[threadIdx.x / 32][lane / 4] = s;
    }
}

/* The body of every matrix kernel. E::before() reads what the chain does not write, E::after() what it does, E::group() uses sums. */
template <class T, bool NORM, class E>
RP_INLINE void rp_matrix(const char *w, const rp_u16 *x, const rp_u16 *gains, E &e)
{
    extern __shared__ __align__(128) char shared[];
    rp_room<T> *room = (rp_room<T> *)(shared + T::RING_BYTES);
    const int n = (T::UNITS - (int)blockIdx.x + T::BLOCKS - 1) / T::BLOCKS;
    rp_ring<T> ring;
    rp_rows<T, NORM> rows;
    rp_sums<T> sums = {room, 0};

    rp_launch_dependents();
    ring.start(w, rp_shared(shared), rp_shared(room->bars), n);
    rows.before(gains);
    e.before();
    ring.fill();
    rp_wait_for_others();
    rows.after(x);
    e.after();
    if (NORM) rp_store_squares<T>(room, rows.squares);
    for (int first = 0; first < n; first += T::GROUP) {
        const int m = n - first < T::GROUP ? n - first : T::GROUP;
        for (int j = 0; j < m; j++) rp_unit<T, NORM>(ring, rows, x, room->parts[sums.buffer][j]);
        __syncthreads();
        e.group(sums, blockIdx.x + first * T::BLOCKS, m);
        if (T::EACH > T::GROUP) sums.buffer ^= 1;
    }
}

/* ---- q, k, v ------------------------------------------------------------------------------------------------------------------------- */

typedef rp_tile<RP_HIDDEN, RP_QKV_TILE> rp_qkv_tile;
typedef rp_tile<RP_HEADS * RP_HEAD_DIM, RP_O_TILE> rp_o_tile;
typedef rp_tile<RP_HIDDEN, RP_UP_TILE> rp_up_tile;
typedef rp_tile<RP_FFN, RP_DOWN_TILE> rp_down_tile;
typedef rp_tile<RP_HIDDEN, RP_HEAD_TILE> rp_head_tile;

#if RP_ROPE_NEIGHBOURS
#define RP_ROPE_FIRST(i) (2 * (i))
#define RP_ROPE_SECOND(i) (2 * (i) + 1)
#else
#define RP_ROPE_FIRST(i) (i)
#define RP_ROPE_SECOND(i) ((i) + RP_HEAD_DIM / 2)
#endif

/* Element of a cache: blocks of 16 positions, [block][kv head][16][head_dim]. */
RP_INLINE rp_u64 rp_cache_at(int block, int head, int position)
{
    return (((rp_u64)block * RP_KV_HEADS + head) * 16 + position % 16) * RP_HEAD_DIM;
}

/* Local rows r and r + ROWS / 2 of a unit are the two that a rotation takes together. */
struct rp_qkv_end {
    typedef rp_qkv_tile T;
    static const int HALF = T::ROWS / 2, N = T::EACH * HALF * RP_COLUMNS, EACH = (N + T::THREADS - 1) / T::THREADS;
    static_assert(T::EACH <= T::GROUP, "the rotations are read for one group");
    rp_u16 *q, *k, *v;
    const rp_step *step;
    const int *table;
    const float2 *rope; /* cos, sin of [position][head_dim / 2] */
    int position, block; /* of this thread's sequence */
    float2 turn[EACH];

    RP_INLINE int pair_of(int v, int unit) { return (unit + v / RP_COLUMNS / HALF * T::BLOCKS) * HALF + v / RP_COLUMNS % HALF; }

    RP_INLINE_MEMBER void before()
    {
        const int b = threadIdx.x % RP_COLUMNS;
        if (b >= RP_BATCH) return;
        position = rp_load_int(step->position + b);
        block = rp_load_int(table + b * RP_MAX_BLOCKS + position / 16);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            turn[i] = __ldg(rope + (rp_u64)position * (RP_HEAD_DIM / 2) + pair_of(threadIdx.x + i * T::THREADS, blockIdx.x) % (RP_HEAD_DIM / 2));
    }

    RP_INLINE_MEMBER void after() {}

    RP_INLINE_MEMBER void put(int pair, int b, float2 turn, float first, float second) const
    {
        const int head = pair / (RP_HEAD_DIM / 2), i = pair % (RP_HEAD_DIM / 2);
        rp_u16 *to = head < RP_HEADS                 ? q + (rp_u64)(b * RP_HEADS + head) * RP_HEAD_DIM
                     : head < RP_HEADS + RP_KV_HEADS ? k + rp_cache_at(block, head - RP_HEADS, position)
                                                     : v + rp_cache_at(block, head - RP_HEADS - RP_KV_HEADS, position);
        const bool turned = head < RP_HEADS + RP_KV_HEADS;
        to[RP_ROPE_FIRST(i)] = rp_bf16(turned ? first * turn.x - second * turn.y : first);
        to[RP_ROPE_SECOND(i)] = rp_bf16(turned ? second * turn.x + first * turn.y : second);
    }

    RP_INLINE_MEMBER void group(const rp_sums<T> &s, int unit, int n)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int v = threadIdx.x + i * T::THREADS, b = v % RP_COLUMNS, r = v / RP_COLUMNS % HALF, j = v / RP_COLUMNS / HALF;
            if (j >= n || b >= RP_BATCH) continue;
            const float scale = s.scale(b);
            put(pair_of(v, unit), b, turn[i], s.value(j, r, b) * scale, s.value(j, r + HALF, b) * scale);
        }
    }
};

extern "C" __global__ void RP_BOUNDS(rp_qkv_tile)
    rp_decode_qkv(const char *w, const rp_u16 *gains, const rp_u16 *x, rp_u16 *q, rp_u16 *k, rp_u16 *v, const rp_step *step, const int *table,
                  const float2 *rope)
{
    rp_qkv_end e = {q, k, v, step, table, rope};
    rp_matrix<rp_qkv_tile, true>(w, x, gains, e);
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
                const rp_u64 place = at + row * RP_HEAD_DIM + 32 * d + 8 * t;
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
RP_INLINE void rp_join(const rp_attention_room *room, int rank, rp_u16 *to)
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
    if (sub == 0 && mine < RP_OWN && f < RP_QUERIES * RP_HEAD_DIM) to[f] = rp_bf16(__fdividef(out, sum));
}

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
        rp_barrier_init(rp_shared(&room.bar));
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
        c.load(keys, values, rp_cache_at(first, head, 0), 0, position - i * 16);
        if (RP_AHEAD && i + RP_WORKERS < n) next.load(keys, values, rp_cache_at(second, head, 0), 0, position - (i + RP_WORKERS) * 16);
        c.turn();
    }
    const rp_u64 now = fresh ? rp_cache_at(rp_load_int(table + position / 16), head, 0) : 0;
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
                    next.load(keys, values, rp_cache_at(rp_load_int(table + then + RP_WORKERS), head, 0), 0, position - (then + RP_WORKERS) * 16);
            } else {
                c.load(keys, values, rp_cache_at(rp_load_int(table + then), head, 0), 0, position - then * 16);
            }
            c.turn();
        }
    }
    r.store(room.out[warp], room.stats[warp]);
    __syncthreads();
    rp_send_block(&room, rank);
    rp_barrier_wait_cluster(rp_shared(&room.bar), 0);
    rp_join(&room, rank, to + ((rp_u64)b * RP_HEADS + head * RP_QUERIES) * RP_HEAD_DIM);
}

/* ---- o, up, down ----------------------------------------------------------------------------------------------------------------------- */

/* Adds a matrix' rows to the residual stream. */
template <class T_>
struct rp_residual_end {
    typedef T_ T;
    static const int N = T::EACH * T::ROWS * RP_COLUMNS, EACH = (N + T::THREADS - 1) / T::THREADS; /* values of a block, of a thread */
    static_assert(T::EACH <= T::GROUP, "the residual is read for one group");
    float *residual;
    rp_u16 *x;
    float old[EACH];

    RP_INLINE int row_of(int v, int unit) { return (unit + v / RP_COLUMNS / T::ROWS * T::BLOCKS) * T::ROWS + v / RP_COLUMNS % T::ROWS; }

    RP_INLINE_MEMBER void before() {}

    RP_INLINE_MEMBER void after()
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int v = threadIdx.x + i * T::THREADS, row = row_of(v, blockIdx.x), b = v % RP_COLUMNS;
            old[i] = v < N && row < RP_HIDDEN && b < RP_BATCH ? rp_load_float(residual + (rp_u64)b * RP_HIDDEN + row) : 0.0f;
        }
    }

    RP_INLINE_MEMBER void group(const rp_sums<T> &s, int unit, int n)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int v = threadIdx.x + i * T::THREADS, b = v % RP_COLUMNS, row = row_of(v, unit);
            if (v >= n * T::ROWS * RP_COLUMNS || b >= RP_BATCH) continue;
            const float sum = old[i] + s.value(v / RP_COLUMNS / T::ROWS, v / RP_COLUMNS % T::ROWS, b);
            residual[(rp_u64)b * RP_HIDDEN + row] = sum;
            x[(rp_u64)b * RP_HIDDEN + row] = rp_bf16(sum);
        }
    }
};

extern "C" __global__ void RP_BOUNDS(rp_o_tile)
    rp_decode_o(const char *w, const rp_u16 *attention, float *residual, rp_u16 *x)
{
    rp_residual_end<rp_o_tile> e = {residual, x};
    rp_matrix<rp_o_tile, false>(w, attention, (const rp_u16 *)0, e);
}

extern "C" __global__ void RP_BOUNDS(rp_down_tile)
    rp_decode_down(const char *w, const rp_u16 *hidden, float *residual, rp_u16 *x)
{
    rp_residual_end<rp_down_tile> e = {residual, x};
    rp_matrix<rp_down_tile, false>(w, hidden, (const rp_u16 *)0, e);
}

/* Local row r is of the gate, r + ROWS / 2 of up. */
struct rp_up_end {
    typedef rp_up_tile T;
    static const int HALF = T::ROWS / 2;
    rp_u16 *to;

    RP_INLINE_MEMBER void before() {}
    RP_INLINE_MEMBER void after() {}

    RP_INLINE_MEMBER void group(const rp_sums<T> &s, int unit, int n)
    {
        for (int v = threadIdx.x; v < n * HALF * RP_COLUMNS; v += T::THREADS) {
            const int b = v % RP_COLUMNS, r = v / RP_COLUMNS % HALF, j = v / RP_COLUMNS / HALF;
            if (b >= RP_BATCH) continue;
            const float scale = s.scale(b), gate = s.value(j, r, b) * scale, up = s.value(j, r + HALF, b) * scale;
            to[(rp_u64)b * RP_FFN + (unit + j * T::BLOCKS) * HALF + r] = rp_bf16(__fdividef(gate, 1.0f + exp2f(gate * -1.44269504f)) * up);
        }
    }
};

extern "C" __global__ void RP_BOUNDS(rp_up_tile)
    rp_decode_up(const char *w, const rp_u16 *gains, const rp_u16 *x, rp_u16 *to)
{
    rp_up_end e = {to};
    rp_matrix<rp_up_tile, true>(w, x, gains, e);
}

/* ---- head and argmax ------------------------------------------------------------------------------------------------------------------- */

struct rp_best {
    float value;
    int id;
};

/* The larger; of equals the smaller id. */
RP_INLINE rp_best rp_better(rp_best a, rp_best b) { return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a; }

struct rp_head_end {
    typedef rp_head_tile T;
    rp_best best; /* of sequence threadIdx.x % RP_COLUMNS */

    RP_INLINE_MEMBER void before() {}
    RP_INLINE_MEMBER void after() {}

    RP_INLINE_MEMBER void group(const rp_sums<T> &s, int unit, int n)
    {
        for (int v = threadIdx.x; v < n * T::ROWS * RP_COLUMNS; v += T::THREADS) {
            const int b = v % RP_COLUMNS, r = v / RP_COLUMNS % T::ROWS, j = v / RP_COLUMNS / T::ROWS;
            const int row = (unit + j * T::BLOCKS) * T::ROWS + r;
            const rp_best one = {s.value(j, r, b) * s.scale(b), row};
            if (b < RP_BATCH && row < RP_VOCAB) best = rp_better(best, one);
        }
    }
};

/* Best of a column of n candidates; called by a warp, the result is in every lane. */
RP_INLINE rp_best rp_best_of(const volatile rp_best *c, int n)
{
    rp_best best = {-RP_INF, 0x7fffffff};
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        const rp_best one = {c[i * RP_COLUMNS].value, c[i * RP_COLUMNS].id};
        best = rp_better(best, one);
    }
#pragma unroll
    for (int o = 16; o; o /= 2) {
        const rp_best other = {__shfl_xor_sync(~0u, best.value, o), __shfl_xor_sync(~0u, best.id, o)};
        best = rp_better(best, other);
    }
    return best;
}

/* candidates: [blocks][RP_COLUMNS]. The block that ends last takes the best of all, which does not depend on who that is, and makes the next
 * step's record. ids gets the ids by position, rows of 8. */
extern "C" __global__ void RP_BOUNDS(rp_head_tile)
    rp_decode_head(const char *w, const rp_u16 *gains, const rp_u16 *x, rp_best *candidates, rp_step *step, int *ids)
{
    typedef rp_head_tile T;
    __shared__ rp_best mine[T::THREADS];
    __shared__ unsigned arrived;
    rp_head_end e = {{-RP_INF, 0x7fffffff}};

    rp_matrix<T, true>(w, x, gains, e);
    mine[threadIdx.x] = e.best;
    __syncthreads();
    const int warp = threadIdx.x / 32;
    for (int b = warp; b < RP_BATCH; b += T::WARPS) {
        const rp_best best = rp_best_of(mine + b, T::THREADS / RP_COLUMNS);
        if (threadIdx.x % 32 == 0) candidates[blockIdx.x * RP_COLUMNS + b] = best;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) arrived = atomicInc(&step->done, T::BLOCKS - 1);
    __syncthreads();
    if (arrived != T::BLOCKS - 1) return;
    __threadfence();
    for (int b = warp; b < RP_BATCH; b += T::WARPS) {
        const rp_best best = rp_best_of(candidates + b, T::BLOCKS);
        if (threadIdx.x % 32) continue;
        const int next = step->position[b] + 1;
        step->token[b] = best.id;
        step->position[b] = next;
        ids[(rp_u64)next * 8 + b] = best.id;
    }
}

/* ---- embedding ------------------------------------------------------------------------------------------------------------------------- */

/* One block a sequence. */
extern "C" __global__ void __launch_bounds__(256)
    rp_decode_embed(const rp_u16 *rows, const rp_step *step, float *residual, rp_u16 *x)
{
    const int b = blockIdx.x;
    rp_launch_dependents();
    rp_wait_for_others();
    const rp_u64 from = (rp_u64)rp_load_int(step->token + b) * RP_HIDDEN, to = (rp_u64)b * RP_HIDDEN;
    for (int i = threadIdx.x * 2; i < RP_HIDDEN; i += 512) {
        const rp_u32 two = *(const rp_u32 *)(rows + from + i);
        *(float2 *)(residual + to + i) = make_float2(rp_low(two), rp_high(two));
        *(rp_u32 *)(x + to + i) = two;
    }
}
