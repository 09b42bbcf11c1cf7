/* A decode step of a Llama-shaped model in bf16, one new token a sequence and up to 8 sequences, as kernels of one chain:
 *
 *   begin, attention, o, up, down, (qkv, attention, o, up, down) a layer; the last layer ends with first, up, down, logits
 *
 * Stands behind tensor.cu, whose instructions and packed weights these are; kernels that instantiate it come from gen/decode.c.
 *
 * Order. Every kernel lets the next one start at once, reads what no kernel of the chain writes (weights, gains, cached keys and values of earlier steps), waits, and only then
 * touches anything else. begin, which is qkv of embedded tokens, alone waits before it lets the next one start: whatever starts behind it finds the inputs of the step, which the kernel in front of
 * it writes, and may read them before its own wait.
 *
 * Matrices. Each warp has a slice of k and a ring of its own in shared memory, which its first lane fills with bulk copies. x is the B fragment of mma, kept in registers: rows of x lie in its
 * order (rk_place_of), so that a lane's share of 32 k is 16 bytes. One to 8 rows cost the same. Sums: k in the warp's order, then warps 0, 1, ..: the same for every run.
 *
 * A norm is no pass over the row: x, rounded to bf16, is multiplied by the norm's gains and rounded again where it is read, and sums by 1 / rms of x behind the product. The residual stream is float32
 * and is touched only by the elements' owners; what the next matrix reads is its bf16 copy. */

/* What CUDA has types for and the emulated GPU has not. */
struct alignas(8) rk_two {
    float a, b;
};

#ifdef RK_EMULATED
RP_INLINE void rk_barrier_wait_cluster(rp_u32 at, rp_u32 parity) { rk_barrier_wait(at, parity); }
#else
/* For what other blocks of the cluster have sent. */
RP_INLINE void rk_barrier_wait_cluster(rp_u32 bar, rp_u32 parity)
{
    asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT_%=;\n}" ::"r"(bar), "r"(parity)
                 : "memory");
}
#endif

RP_INLINE float rk_low(rp_u32 two) { return __uint_as_float(two << 16); }
RP_INLINE float rk_high(rp_u32 two) { return __uint_as_float(two & 0xffff0000u); }
RP_INLINE rp_u16 rk_half(float x) { return (rp_u16)rk_pack(x, 0.0f); }

RP_INLINE float rk_quad_sum(float v)
{
    v += __shfl_xor_sync(RK_WARP, v, 1);
    return v + __shfl_xor_sync(RK_WARP, v, 2);
}

/* Where element k of a row of x lies: of 32, lane t of a quad has 8 in a row, which are its pairs of the B fragments of two steps. */
RP_INLINE int rk_place_of(int k) { return k / 32 * 32 + k % 8 / 2 * 8 + k % 32 / 8 * 2 + k % 2; }

/* ---- a matrix times the step's rows ------------------------------------------------------------------------------------------------- */

/* Units of TILES tiles of 16 columns of the result, dealt to BLOCKS. CHUNK times 32 k are one copy; SLOTS of them are a warp's ring, of which CAP are in flight before the wait;
 * partial sums of GROUP units meet at one barrier. ROWS: 1, or up to 8. */
template <int K_, int UNITS_, int TILES_, int BLOCKS_, int WARPS_, int CHUNK_, int SLOTS_, int GROUP_, int CAP_, int ROWS_>
struct rk_decode_tile {
    enum {
        K = K_, UNITS = UNITS_, TILES = TILES_, BLOCKS = BLOCKS_, WARPS = WARPS_, CHUNK = CHUNK_, SLOTS = SLOTS_, GROUP = GROUP_, CAP = CAP_, ROWS = ROWS_,
        THREADS = WARPS * 32, COLUMNS = TILES * 16,
        SLICE = K / 32 / WARPS, CHUNKS = SLICE / CHUNK, /* of 32 k, of a warp; its copies a tile */
        PAIR_BYTES = 1024, CHUNK_BYTES = CHUNK * PAIR_BYTES, TILE_BYTES = K * 32,
        PART = WARPS * COLUMNS * ROWS,            /* partial sums of a unit */
        EACH = (UNITS + BLOCKS - 1) / BLOCKS,     /* units of a block, at most */
        SETS = EACH > GROUP ? 2 : 1,
        N_X = ROWS == 1 ? (SLICE + 7) / 8 : SLICE, /* pieces of 16 bytes of x, of a lane */
        STREAM = N_X > 32,                         /* more than registers can hold: x is read again for every tile, a chunk at a time */
        PARTS = WARPS * SLOTS * CHUNK_BYTES, SQUARES = PARTS + SETS * GROUP * PART * 4, SCALES = SQUARES + WARPS * ROWS * 4, BARS = (SCALES + ROWS * 4 + 7) / 8 * 8,
        BYTES = BARS + WARPS * SLOTS * 8
    };
    static_assert(K % 32 == 0 && K / 32 % WARPS == 0 && SLICE % CHUNK == 0 && CAP <= SLOTS && (ROWS == 8 || (ROWS == 1 && !STREAM)), "tile");
};

/* A warp's ring. All lanes count along, the first one fetches. U: which tile of the packed weights is one of a unit. */
template <class T, class U>
struct rk_decode_ring {
    const char *w;
    rp_u32 slots, bars, parity;
    int slot, next, total; /* copies: the one to fetch next, all of the block */

    RP_INLINE_MEMBER void fetch(int to)
    {
        const int chunk = next % T::CHUNKS, tile = next / T::CHUNKS % T::TILES, unit = (int)blockIdx.x + next / (T::CHUNKS * T::TILES) * T::BLOCKS;
        rk_barrier_expect(bars + 8 * to, T::CHUNK_BYTES);
        rk_fetch_once(slots + to * T::CHUNK_BYTES, w + (long long)U::tile(unit, tile) * T::TILE_BYTES + chunk * T::CHUNK_BYTES, T::CHUNK_BYTES, bars + 8 * to);
        next++;
    }

    RP_INLINE_MEMBER void start(const char *weights, int units)
    {
        const int warp = threadIdx.x / 32;
        w = weights + warp * T::SLICE * T::PAIR_BYTES;
        slots = rk_shared(rk_dynamic) + warp * T::SLOTS * T::CHUNK_BYTES;
        bars = rk_shared(rk_dynamic) + T::BARS + warp * T::SLOTS * 8;
        parity = 0;
        slot = next = 0;
        total = units * T::TILES * T::CHUNKS;
        if (threadIdx.x % 32 == 0) {
            for (int i = 0; i < T::SLOTS; i++) rk_barrier_init(bars + 8 * i, 1);
            rk_barriers_visible();
            while (next < T::CAP && next < total) fetch(next);
        }
        __syncwarp();
    }

    /* The rest of the ring, each copy when one before it has arrived: many copies in flight would delay the small loads of others. */
    RP_INLINE_MEMBER void fill()
    {
        if (T::CAP < T::SLOTS && threadIdx.x % 32 == 0)
            while (next < T::SLOTS && next < total) {
                rk_barrier_wait(bars + 8 * (next - T::CAP), 0);
                fetch(next);
            }
        __syncwarp();
    }

    /* The address of the next chunk, once it is there. */
    RP_INLINE_MEMBER rp_u32 take() const
    {
        rk_barrier_wait(bars + 8 * slot, parity);
        return slots + slot * T::CHUNK_BYTES;
    }

    /* The chunk has been used by all lanes: its slot is filled again. */
    RP_INLINE_MEMBER void give()
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0 && next < total) fetch(slot);
        if (++slot == T::SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
};

/* Two elements times their gains, rounded; adds their squares. */
RP_INLINE int rk_gain(int x, int gain, float &sum)
{
    const float a = rk_low((rp_u32)x), b = rk_high((rp_u32)x);
    sum = __fmaf_rn(a, a, sum);
    sum = __fmaf_rn(b, b, sum);
    return (int)rk_pack(a * rk_low((rp_u32)gain), b * rk_high((rp_u32)gain));
}

/* Rows of x as the kernels of a step leave them. */
template <int K>
struct rk_decode_x {
    const rp_u16 *x;
    RP_INLINE_MEMBER int4 load(int row, int at) const { return rk_load(x + (long long)row * K + at); }
    template <class T>
    RP_INLINE_MEMBER void spread(int) const
    {
    }
};

/* Embedded tokens, which begin the residual stream. */
template <int K, int VOCAB>
struct rk_decode_embedded {
    const rp_u16 *table;
    const rp_i32 *ids;
    float *residual;

    RP_INLINE_MEMBER const rp_u32 *pairs(int row) const { return (const rp_u32 *)(table + rk_row_of(ids, row, VOCAB) * K); }
    RP_INLINE_MEMBER int4 load(int row, int at) const
    {
        const rp_u32 *p = pairs(row) + (at / 32 * 32 + at % 32 / 4) / 2;
        const int4 v = {(int)p[0], (int)p[4], (int)p[8], (int)p[12]};
        return v;
    }
    /* A share of the residual stream to each block. */
    template <class T>
    RP_INLINE_MEMBER void spread(int rows) const
    {
        for (int i = (int)blockIdx.x * T::THREADS + threadIdx.x; i < rows * (K / 2); i += T::BLOCKS * T::THREADS) {
            const rp_u32 two = pairs(i / (K / 2))[i % (K / 2)];
            const rk_two wide = {rk_low(two), rk_high(two)};
            *(rk_two *)(residual + 2 * (long long)i) = wide;
        }
    }
};

/* Rows of float32, gathered. */
template <int K>
struct rk_decode_gathered {
    const float *x;
    const rp_i32 *rows;

    RP_INLINE float element(const float *p) { return rp_from_bits((rp_u32)rk_peek((const rp_i32 *)p)); }
    RP_INLINE_MEMBER int4 load(int row, int at) const
    {
        const float *p = x + rk_settled(rows + row) * (long long)K + at / 32 * 32 + at % 32 / 4;
        int4 v;
        v.x = (int)rk_pack(element(p), element(p + 1));
        v.y = (int)rk_pack(element(p + 8), element(p + 9));
        v.z = (int)rk_pack(element(p + 16), element(p + 17));
        v.w = (int)rk_pack(element(p + 24), element(p + 25));
        return v;
    }
};

/* A warp's slice of x as B fragments. One row: lane 4g+t holds the g-th of eight times 32 k, so that a load is whole lines, and their product takes it as column g alone; the columns are
 * added at the end. More: lane 4g+t holds row g. NORMED: what is multiplied is x times gains. */
template <class T, bool NORMED>
struct rk_decode_rows {
    int4 v[T::STREAM ? 1 : T::N_X], gain[NORMED ? T::N_X : 1];
    float squares; /* of the lane's elements */
    int rows;      /* that there are */

    RP_INLINE_MEMBER bool has(int i) const
    {
        return T::ROWS == 1 ? 8 * i + 7 < T::SLICE || 8 * i + (int)(threadIdx.x % 32 / 4) < T::SLICE : (int)(threadIdx.x % 32 / 4) < rows;
    }

    /* Elements from the start of the row. */
    RP_INLINE int at(int i)
    {
        const int lane = threadIdx.x % 32, start = threadIdx.x / 32 * T::SLICE * 32;
        return T::ROWS == 1 ? start + i * 256 + lane * 8 : start + i * 32 + lane % 4 * 8;
    }

    template <class X>
    RP_INLINE_MEMBER int4 load(const X &x, int i) const
    {
        const int4 none = {0, 0, 0, 0};
        return has(i) ? x.load(T::ROWS == 1 ? 0 : threadIdx.x % 32 / 4, at(i)) : none;
    }

    /* Gains in the order of x, rounded to bf16. */
    RP_INLINE_MEMBER void before(const float *gains)
    {
        if (!NORMED) return;
#pragma unroll
        for (int i = 0; i < T::N_X; i++) {
            const rk_two *g = (const rk_two *)(gains + (T::ROWS == 1 && !has(i) ? 0 : at(i) / 32 * 32 + at(i) % 32 / 4));
            gain[i].x = (int)rk_pack(g[0].a, g[0].b);
            gain[i].y = (int)rk_pack(g[4].a, g[4].b);
            gain[i].z = (int)rk_pack(g[8].a, g[8].b);
            gain[i].w = (int)rk_pack(g[12].a, g[12].b);
        }
    }

    template <class X>
    RP_INLINE_MEMBER void after(const X &x)
    {
        static_assert(!(NORMED && T::STREAM), "a normed row is kept in registers");
        squares = 0.0f;
        if (T::STREAM) return;
#pragma unroll
        for (int i = 0; i < T::N_X; i++) v[i] = load(x, i);
        if (!NORMED) return;
#pragma unroll
        for (int i = 0; i < T::N_X; i++) {
            v[i].x = rk_gain(v[i].x, gain[i].x, squares);
            v[i].y = rk_gain(v[i].y, gain[i].y, squares);
            v[i].z = rk_gain(v[i].z, gain[i].z, squares);
            v[i].w = rk_gain(v[i].w, gain[i].w, squares);
        }
    }

    RP_INLINE_MEMBER int4 fragment(int pair) const
    {
        if (T::ROWS > 1) return v[T::STREAM ? 0 : pair];
        const int4 x = v[T::STREAM ? 0 : pair / 8];
        int4 b;
#ifdef RK_EMULATED
        const int4 none = {0, 0, 0, 0};
        b = (int)(threadIdx.x % 32 / 4) == pair % 8 ? x : none;
#else
        /* volatile: chosen when it is needed, not kept in registers for all pairs */
        asm volatile("{\n.reg .pred p;\nsetp.eq.s32 p, %8, %9;\nselp.b32 %0, %4, 0, p;\nselp.b32 %1, %5, 0, p;\nselp.b32 %2, %6, 0, p;\n"
                     "selp.b32 %3, %7, 0, p;\n}"
                     : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
                     : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(threadIdx.x % 32 / 4), "r"(pair % 8));
#endif
        return b;
    }
};

/* A tile's sums over the warp's slice, to part[column][row]. */
template <class T, bool NORMED, class R, class X>
RP_INLINE void rk_decode_tile_of(R &ring, const rk_decode_rows<T, NORMED> &rows, const X &x, float *part)
{
    const int lane = threadIdx.x % 32, k = lane / 16 * 8 + lane % 8, half = (lane / 8 & 1) ^ (k / 4 & 1), g = lane / 4, t = lane % 4;
    const rp_u32 own = k * 32 + half * 16;
    float c[4] = {0, 0, 0, 0}, d[4] = {0, 0, 0, 0};
#pragma unroll
    for (int chunk = 0; chunk < T::CHUNKS; chunk++) {
        rp_u32 a[2 * T::CHUNK][4];
        int4 xs[T::STREAM ? T::CHUNK : 1];
        if (T::STREAM) {
#pragma unroll
            for (int p = 0; p < T::CHUNK; p++) xs[p] = rows.load(x, chunk * T::CHUNK + p);
        }
        const rp_u32 at = ring.take() + own;
#pragma unroll
        for (int s = 0; s < 2 * T::CHUNK; s++) rk_matrix_4_turned(a[s], at + s * 512);
#pragma unroll
        for (int p = 0; p < T::CHUNK; p++) {
            const int4 b = T::STREAM ? xs[p] : rows.fragment(chunk * T::CHUNK + p);
            const rp_u32 first[2] = {(rp_u32)b.x, (rp_u32)b.y}, second[2] = {(rp_u32)b.z, (rp_u32)b.w};
            rk_mma(c, a[2 * p], first);
            rk_mma(d, a[2 * p + 1], second);
        }
        ring.give();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) c[i] += d[i];
    if (T::ROWS == 1) {
        const float low = rk_quad_sum(c[0] + c[1]), high = rk_quad_sum(c[2] + c[3]);
        if (t == 0) {
            part[g] = low;
            part[g + 8] = high;
        }
    } else {
        const rk_two low = {c[0], c[1]}, high = {c[2], c[3]};
        *(rk_two *)(part + g * 8 + 2 * t) = low;
        *(rk_two *)(part + (g + 8) * 8 + 2 * t) = high;
    }
}

/* What an epilogue asks: sums over warps, in their order. */
template <class T>
struct rk_decode_sums {
    const float *parts; /* of a group: [unit][warp][column][row] */

    RP_INLINE_MEMBER float value(int unit, int column, int row) const
    {
        const float *p = parts + unit * T::PART + column * T::ROWS + row;
        float s = 0.0f;
#pragma unroll
        for (int w = 0; w < T::WARPS; w++) s += p[w * T::COLUMNS * T::ROWS];
        return s;
    }

    /* 1 / rms of the row. */
    RP_INLINE_MEMBER float scale(int row) const { return ((const float *)(rk_dynamic + T::SCALES))[row]; }
};

/* 1 / rms of every row, from the sums of squares over the warps' slices; they are there behind the next barrier of the block. */
template <class T>
RP_INLINE void rk_decode_scales(float s, float eps)
{
    const int lane = threadIdx.x % 32;
    float *const all = (float *)(rk_dynamic + T::SQUARES), *to = all + threadIdx.x / 32 * T::ROWS;
    s = rk_quad_sum(s);
    if (T::ROWS == 1) {
        s += __shfl_xor_sync(RK_WARP, s, 4);
        s += __shfl_xor_sync(RK_WARP, s, 8);
        s += __shfl_xor_sync(RK_WARP, s, 16);
        if (lane == 0) to[0] = s;
    } else if (lane % 4 == 0) {
        to[lane / 4] = s;
    }
    __syncthreads();
    if (threadIdx.x >= T::ROWS) return;
    s = 0.0f;
#pragma unroll
    for (int w = 0; w < T::WARPS; w++) s += all[w * T::ROWS + threadIdx.x];
    ((float *)(rk_dynamic + T::SCALES))[threadIdx.x] = rp_rsqrt(s * (1.0f / T::K) + eps);
}

/* The body of every matrix kernel. E::before() reads inputs and what the chain does not write, E::after() what it does, E::group() uses sums. BEGINS: in front of it is who writes the inputs. */
template <class T, bool NORMED, bool BEGINS, class X, class E>
RP_INLINE void rk_decode_product(const char *w, const X &x, const char *gains, float eps, int n_rows, E &e)
{
    const int n = (T::UNITS - (int)blockIdx.x + T::BLOCKS - 1) / T::BLOCKS;
    float *const parts = (float *)(rk_dynamic + T::PARTS);
    rk_decode_ring<T, E> ring;
    rk_decode_rows<T, NORMED> rows;
    int set = 0;

    if (!BEGINS) rk_launch_dependents();
    rows.rows = n_rows;
    ring.start(w, n);
    rows.before((const float *)gains);
    if (!BEGINS) e.before();
    ring.fill();
    rk_wait();
    if (BEGINS) {
        rk_launch_dependents();
        e.before();
    }
    rows.after(x);
    e.after();
    if (NORMED) rk_decode_scales<T>(rows.squares, eps);
    for (int first = 0; first < n; first += T::GROUP) {
        const int m = n - first < T::GROUP ? n - first : T::GROUP;
        const rk_decode_sums<T> sums = {parts + set * T::GROUP * T::PART};
        for (int j = 0; j < m * T::TILES; j++)
            rk_decode_tile_of<T, NORMED>(ring, rows, x,
                                         parts + (set * T::GROUP + j / T::TILES) * T::PART + (threadIdx.x / 32 * T::COLUMNS + j % T::TILES * 16) * T::ROWS);
        __syncthreads();
        e.group(sums, (int)blockIdx.x + first * T::BLOCKS, m);
        if (T::SETS > 1) set ^= 1;
    }
}

template <class T, bool NORMED, class E>
RP_INLINE void rk_decode_matrix(const char *w, const char *x, const char *gains, float eps, int n_rows, E &e)
{
    const rk_decode_x<T::K> rows = {(const rp_u16 *)x};
    rk_decode_product<T, NORMED, false>(w, rows, gains, eps, n_rows, e);
}

/* ---- q, k, v ------------------------------------------------------------------------------------------------------------------------- */

/* A unit is a tile, of q, k or v. Neighbours are the two that a rotation takes together. X: what after() of it does, too. */
template <class T_, int HEADS, int KV_HEADS, int HD, class X = rk_decode_x<T_::K>>
struct rk_decode_qkv {
    typedef T_ T;
    enum { HALF = HD / 2, N = T::EACH * 8 * T::ROWS, EACH = (N + T::THREADS - 1) / T::THREADS };
    static_assert(T::EACH <= T::GROUP, "rotations are read for one group");
    rp_u16 *q, *k, *v;
    const rp_i32 *positions, *slots;
    const float *cos, *sin; /* [position][HALF] */
    int rows;
    const X *x;
    int slot; /* of this thread's row */
    rk_two turn[EACH];

    RP_INLINE int tile(int unit, int) { return unit; }
    RP_INLINE int pair_of(int i, int unit) { return (unit + i / (8 * T::ROWS) * T::BLOCKS) * 8 + i / T::ROWS % 8; }

    RP_INLINE_MEMBER void before()
    {
        const int row = (int)threadIdx.x % T::ROWS;
        if (row >= rows) return;
        const long long angles = rk_settled(positions + row) * (long long)HALF;
        slot = rk_settled(slots + row);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const long long at = angles + pair_of(threadIdx.x + i * T::THREADS, blockIdx.x) % HALF;
            const rk_two t = {cos[at], sin[at]};
            turn[i] = t;
        }
    }

    RP_INLINE_MEMBER void after() const
    {
        if (x) x->template spread<T>(rows);
    }

    RP_INLINE_MEMBER void put(int pair, int row, rk_two t, float even, float odd) const
    {
        const int head = pair / HALF, dim = pair % HALF * 2;
        const bool turned = head < HEADS + KV_HEADS, cached = head >= HEADS;
        const int h = head - (turned ? HEADS : HEADS + KV_HEADS);
        const rp_u32 two = turned ? rk_pack(even * t.a - odd * t.b, even * t.b + odd * t.a) : rk_pack(even, odd);
        if (!cached)
            *(rp_u32 *)(q + (row * HEADS + head) * HD + dim) = two;
        else if (slot >= 0)
            *(rp_u32 *)((turned ? k : v) + (((long long)(slot / 16) * KV_HEADS + h) * 16 + slot % 16) * HD + dim) = two;
    }

    RP_INLINE_MEMBER void group(const rk_decode_sums<T> &s, int unit, int n)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int at = threadIdx.x + i * T::THREADS, row = at % T::ROWS, pair = at / T::ROWS % 8, j = at / (8 * T::ROWS);
            if (j >= n || row >= rows) continue;
            const float scale = s.scale(row);
            put(pair_of(at, unit), row, turn[i], s.value(j, 2 * pair, row) * scale, s.value(j, 2 * pair + 1, row) * scale);
        }
    }
};

/* ---- o, up, down ----------------------------------------------------------------------------------------------------------------------- */

/* Adds the product's rows to the residual stream, and leaves x. A unit is a tile. GATHERED: what it is added to are rows of other memory. */
template <class T_, int HIDDEN, bool GATHERED = false>
struct rk_decode_residual {
    typedef T_ T;
    enum { N = T::EACH * 16 * T::ROWS, EACH = (N + T::THREADS - 1) / T::THREADS };
    static_assert(T::EACH <= T::GROUP, "the residual is read for one group");
    const float *from;
    const rp_i32 *which;
    float *residual;
    rp_u16 *x;
    int rows;
    float old[EACH];

    RP_INLINE int tile(int unit, int) { return unit; }
    RP_INLINE int column_of(int i, int unit) { return (unit + i / (16 * T::ROWS) * T::BLOCKS) * 16 + i / T::ROWS % 16; }

    RP_INLINE_MEMBER void before() {}

    RP_INLINE_MEMBER void after()
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int at = threadIdx.x + i * T::THREADS, column = column_of(at, blockIdx.x), row = at % T::ROWS;
            const bool has = at < N && column < HIDDEN && row < rows;
            const long long of = has && GATHERED ? rk_settled(which + row) : row;
            old[i] = has ? rp_from_bits((rp_u32)rk_peek((const rp_i32 *)from + of * HIDDEN + column)) : 0.0f;
        }
    }

    RP_INLINE_MEMBER void group(const rk_decode_sums<T> &s, int unit, int n)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int at = threadIdx.x + i * T::THREADS, row = at % T::ROWS, j = at / (16 * T::ROWS), column = column_of(at, unit);
            if (j >= n || row >= rows) continue;
            const float sum = old[i] + s.value(j, at / T::ROWS % 16, row);
            residual[(long long)row * HIDDEN + column] = sum;
            x[(long long)row * HIDDEN + rk_place_of(column)] = rk_half(sum);
        }
    }
};

/* silu(gate) * up. A unit is a tile of gate and one of up, which alternate by two in the packed weights. */
template <class T_, int FFN>
struct rk_decode_gate {
    typedef T_ T;
    rp_u16 *to;
    int rows;

    RP_INLINE int tile(int unit, int i) { return unit / 2 * 4 + unit % 2 + 2 * i; }

    RP_INLINE_MEMBER void before() {}
    RP_INLINE_MEMBER void after() {}

    RP_INLINE_MEMBER void group(const rk_decode_sums<T> &s, int unit, int n)
    {
        for (int at = threadIdx.x; at < n * 16 * T::ROWS; at += T::THREADS) {
            const int row = at % T::ROWS, column = at / T::ROWS % 16, j = at / (16 * T::ROWS);
            if (row >= rows) continue;
            const float scale = s.scale(row), gate = s.value(j, column, row) * scale, up = s.value(j, column + 16, row) * scale;
            to[(long long)row * FFN + rk_place_of((unit + j * T::BLOCKS) * 16 + column)] = rk_half(gate / (1.0f + rk_exp2(gate * -1.44269504f)) * up);
        }
    }
};

/* Logits. A unit is a tile; the last may have columns that are none. */
template <class T_, int VOCAB>
struct rk_decode_logits {
    typedef T_ T;
    float *to;
    int rows;

    RP_INLINE int tile(int unit, int) { return unit; }

    RP_INLINE_MEMBER void before() {}
    RP_INLINE_MEMBER void after() {}

    RP_INLINE_MEMBER void group(const rk_decode_sums<T> &s, int unit, int n)
    {
        for (int at = threadIdx.x; at < n * 16 * T::ROWS; at += T::THREADS) {
            const int j = at / (16 * T::ROWS), row = at / 16 % T::ROWS, column = (unit + j * T::BLOCKS) * 16 + at % 16;
            if (row < rows && column < VOCAB) to[(long long)row * VOCAB + column] = s.value(j, at % 16, row) * s.scale(row);
        }
    }
};
