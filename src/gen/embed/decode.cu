/* A decode step of a Llama-shaped model in bf16 for up to 8 sequences, as plain kernels of one chain with programmatic edges:
 *
 *   embed, (qkv, attention, o, up, down) a layer, head
 *
 * In front of this text stand RP_BATCH, RP_HIDDEN .. and one tile a matrix (gen/decode.c), then step.cu.
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

#define RP_COLUMNS (RP_BATCH == 1 ? 1 : 8) /* sequences as partial sums are stored */
/* Registers for two blocks of one sequence on a multiprocessor: the next kernel's blocks come in while the last ones of this one run. */
#define RP_BOUNDS(tile) __launch_bounds__(tile::THREADS, RP_BATCH == 1 ? 2 : 1)

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
            for (int i = 0; i < T::SLOTS; i++) rp_barrier_init(bars + 8 * i, 1);
            rp_barriers_visible();
            for (; to_fetch < T::CAP && to_fetch < T::SLOTS && to_fetch < total; to_fetch++) fetch(to_fetch);
        }
        __syncwarp();
    }

    RP_INLINE_MEMBER void fetch(int to)
    {
        rp_barrier_expect(bars + 8 * to, T::CHUNK_BYTES);
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
        const bool turned = head < RP_HEADS + RP_KV_HEADS, cached = head >= RP_HEADS;
        rp_u16 *to = !cached ? q + (rp_u64)(b * RP_HEADS + head) * RP_HEAD_DIM : turned ? k + rp_cache_at(block, head - RP_HEADS)
                                                                                        : v + rp_cache_at(block, head - RP_HEADS - RP_KV_HEADS);
        const int one = RP_ROPE_FIRST(i), other = RP_ROPE_SECOND(i);
        to[cached ? rp_in_block_of_cache(position, one) : one] = rp_bf16(turned ? first * turn.x - second * turn.y : first);
        to[cached ? rp_in_block_of_cache(position, other) : other] = rp_bf16(turned ? second * turn.x + first * turn.y : second);
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
