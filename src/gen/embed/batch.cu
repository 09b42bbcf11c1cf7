/* Many rows at once of a Llama-shaped model in bf16, as plain kernels of one chain with programmatic edges:
 *
 *   embed, (qkv, attention, o, up, down) a layer, head
 *
 * Rows are sequences of one new token each (RP_ONE_SEQUENCE 0: a decode step of up to 64) or tokens of one sequence (1: a prefill). In front of
 * this text stand RP_ROWS, RP_HIDDEN .. and one tile a matrix (gen/batch.c), then step.cu. RP_ROOM is RP_ROWS rounded up, so that every matrix' column tiles fit.
 *
 * Order. As in decode.cu: every kernel lets the next one start at once, fetches weights, waits for the kernels in front of it, and only then
 * touches anything that the chain writes.
 *
 * Matrices. wgmma with 64 rows of the weights as A and a tile of x as B, both read from shared memory as 8x8 core matrices of 128 bytes
 * without swizzle, so that a bulk copy of contiguous memory is what the instruction reads:
 *
 *   weights [128-row tile][K / 8][128][8]        x [tile of columns][K / 8][its columns][8]
 *
 * So x is laid out for the one matrix that reads it. Few large copies: a multiprocessor starts one in some 45 cycles, however small it is.
 *
 * One warp fetches chunks of 64 k into a ring, two warpgroups multiply. A matrix of few tiles is split along k over a cluster: warp w's part of
 * the sums goes to block w * SPLITS / 8, which adds the blocks' parts in their order. So sums are the same for every run.
 *
 * The residual stream is float32, [RP_HIDDEN / 8][RP_ROOM][8]. Who writes it also writes the next matrix' x, times the gains of the norm in front of it, and the
 * sums of squares of the tile's rows; who reads x multiplies its results by 1 / rms. */

#define RP_TILE_ROWS 128
#define RP_CHUNK 64 /* k of a copy */
#define RP_WORKERS_2 256 /* threads that multiply; 32 more fetch */

extern __shared__ __align__(128) char rp_memory[];

/* ---- instructions ----------------------------------------------------------------------------------------------------------------- */

/* Descriptor of an operand whose core matrices are `along_k` bytes apart in k, `along_rows` in the other direction. */
RP_INLINE rp_u64 rp_operand(rp_u32 at, rp_u32 along_k, rp_u32 along_rows)
{
    return (rp_u64)((at & 0x3ffff) >> 4) | (rp_u64)(along_k >> 4) << 16 | (rp_u64)(along_rows >> 4) << 32;
}

RP_INLINE void rp_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RP_INLINE void rp_wgmma_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int N>
RP_INLINE void rp_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

RP_INLINE void rp_barrier_arrive(rp_u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }
RP_INLINE void rp_sync_workers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

RP_INLINE void rp_fetch_kept(rp_u32 to, const char *from, rp_u32 bytes, rp_u32 bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

RP_INLINE void rp_send4(rp_u32 to, rp_u32 bar, const float *v)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "f"(v[0]), "f"(v[1]),
                 "f"(v[2]), "f"(v[3]), "r"(bar)
                 : "memory");
}

RP_INLINE rp_u32 rp_rank()
{
    rp_u32 r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

RP_INLINE float rp_exp2(float v)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

/* Sum over the 8 lanes that hold the rows of a column. */
RP_INLINE float rp_rows_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 4);
    v += __shfl_xor_sync(~0u, v, 8);
    return v + __shfl_xor_sync(~0u, v, 16);
}

/* Element 8 k8 of row n, where COLUMNS rows of K elements are a tile. Below 2^31: 8192 rows. */
template <int COLUMNS, int K>
RP_INLINE int rp_x_at(int n, int k8)
{
    return ((n / COLUMNS * (K / 8) + k8) * COLUMNS + n % COLUMNS) * 8;
}

/* ---- a matrix times all rows ---------------------------------------------------------------------------------------------------------- */

/* TILES of 128 rows by COLUMN_TILES of COLUMNS, dealt to BLOCKS (of SPLITS blocks each, one a slice of k) with a ring of STAGES chunks. */
template <int K_, int TILES_, int COLUMNS_, int COLUMN_TILES_, int SPLITS_, int STAGES_, int BLOCKS_, int X_COLUMNS_ = COLUMNS_>
struct rp_tile {
    static const int K = K_, TILES = TILES_, COLUMNS = COLUMNS_, COLUMN_TILES = COLUMN_TILES_, SPLITS = SPLITS_, STAGES = STAGES_, BLOCKS = BLOCKS_;
    static const int X_COLUMNS = X_COLUMNS_; /* of a tile of x as it lies: the head of a prefill reads 8 of them */
    static const int JOBS = TILES * COLUMN_TILES, CHUNKS = K / SPLITS / RP_CHUNK;
    static const int W_BYTES = RP_TILE_ROWS * RP_CHUNK * 2, X_BYTES = COLUMNS * RP_CHUNK * 2, STAGE_BYTES = W_BYTES + X_BYTES;
    static const int N8 = COLUMNS / 8;
    static const int GROUPS = 8 / SPLITS;                       /* of 16 rows, that a block of a cluster owns */
    static const int PART = GROUPS * N8 * 32 * 4;               /* floats it gets from each */
    static const int SENT_BYTES = SPLITS > 1 ? SPLITS * PART * 4 : 0;
    static const int PARTIALS = SPLITS > 1 ? TILES * SPLITS : TILES; /* sums of squares of a row, where this one ends a residual */
    static_assert(K % (SPLITS * RP_CHUNK) == 0 && BLOCKS % COLUMN_TILES == 0 && (SPLITS == 1 || BLOCKS == JOBS), "tile");
};

/* Shared memory of a block: ring, received parts, facts of the columns, barriers. */
template <class T>
struct rp_room {
    float sent[T::SENT_BYTES / 4 + 4];
    float scale[T::COLUMNS];
    float squares[8][T::COLUMNS];
    int position[T::COLUMNS], block[T::COLUMNS];
    rp_best best[8][T::COLUMNS];
    rp_u64 full[T::STAGES], empty[T::STAGES], received;
};

template <class T>
RP_INLINE rp_room<T> *rp_room_of()
{
    return (rp_room<T> *)(rp_memory + T::STAGES * T::STAGE_BYTES);
}

template <class T>
RP_INLINE int rp_jobs()
{
    return (T::JOBS - (int)(blockIdx.x / T::SPLITS) + T::BLOCKS - 1) / T::BLOCKS;
}

/* The warp that fetches; only its first lane does anything. first: the first column of all. */
template <class T>
struct rp_source {
    const char *w, *x;
    rp_u32 ring, full;
    rp_u64 policy;
    int first;

    RP_INLINE_MEMBER void weights(int i) const
    {
        const int job = blockIdx.x / T::SPLITS + i / T::CHUNKS * T::BLOCKS, slot = i % T::STAGES;
        const int k8 = ((int)(blockIdx.x % T::SPLITS) * T::CHUNKS + i % T::CHUNKS) * (RP_CHUNK / 8);
        rp_barrier_expect(full + 8 * slot, T::STAGE_BYTES);
        const char *from = w + ((rp_u64)(job / T::COLUMN_TILES) * (T::K / 8) + k8) * (RP_TILE_ROWS * 16);
        if (RP_ONE_SEQUENCE)
            rp_fetch_kept(ring + slot * T::STAGE_BYTES, from, T::W_BYTES, full + 8 * slot);
        else
            rp_fetch(ring + slot * T::STAGE_BYTES, from, T::W_BYTES, full + 8 * slot, policy);
    }

    RP_INLINE_MEMBER void columns(int i) const
    {
        const int slot = i % T::STAGES, column = first + (int)(blockIdx.x / T::SPLITS) % T::COLUMN_TILES * T::COLUMNS;
        const int k8 = ((int)(blockIdx.x % T::SPLITS) * T::CHUNKS + i % T::CHUNKS) * (RP_CHUNK / 8);
        const rp_u32 to = ring + slot * T::STAGE_BYTES + T::W_BYTES;
        const char *from = x + (rp_u64)rp_x_at<T::X_COLUMNS, T::K>(column, k8) * 2;
        if (T::COLUMNS == T::X_COLUMNS) {
            rp_fetch_kept(to, from, T::X_BYTES, full + 8 * slot);
        } else {
#pragma unroll
            for (int j = 0; j < RP_CHUNK / 8; j++) rp_fetch_kept(to + j * T::COLUMNS * 16, from + j * T::X_COLUMNS * 16, T::COLUMNS * 16, full + 8 * slot);
        }
    }

    RP_INLINE_MEMBER void run(rp_u32 empty) const
    {
        const int total = rp_jobs<T>() * T::CHUNKS, ahead = total < T::STAGES ? total : T::STAGES;
        for (int i = 0; i < ahead; i++) weights(i);
        rp_wait_for_others();
        for (int i = 0; i < ahead; i++) columns(i);
        for (int i = ahead; i < total; i++) {
            rp_barrier_wait(empty + 8 * (i % T::STAGES), (i / T::STAGES - 1) & 1);
            weights(i);
            columns(i);
        }
    }
};

/* One job's sums: d[4 j ..] are rows g, g and g + 8, g + 8 of the warp's 16, columns 8 j + 2 t, + 1. n: chunks that the block has used. */
template <class T>
RP_INLINE void rp_multiply(float *d, rp_u32 ring, rp_u32 full, rp_u32 empty, int &n)
{
    const rp_u32 rows = threadIdx.x / 128 * (64 * 16);
    for (int c = 0; c < T::CHUNKS; c++, n++) {
        const int slot = n % T::STAGES;
        const rp_u32 at = ring + slot * T::STAGE_BYTES;
        rp_barrier_wait(full + 8 * slot, n / T::STAGES & 1);
        rp_wgmma_begin();
#pragma unroll
        for (int k = 0; k < RP_CHUNK / 16; k++)
            rp_wgmma<T::COLUMNS>(d, rp_operand(at + rows + k * 2 * (RP_TILE_ROWS * 16), RP_TILE_ROWS * 16, 128),
                                 rp_operand(at + T::W_BYTES + k * 2 * (T::COLUMNS * 16), T::COLUMNS * 16, 128), c > 0 || k > 0);
        rp_wgmma_end();
        rp_wgmma_wait<1>();
        if (c > 0 && threadIdx.x % 32 == 0) rp_barrier_arrive(empty + 8 * ((n - 1) % T::STAGES));
    }
    rp_wgmma_wait<0>();
    if (threadIdx.x % 32 == 0) rp_barrier_arrive(empty + 8 * ((n - 1) % T::STAGES));
}

/* Sends the warp's part to its owner. */
template <class T>
RP_INLINE void rp_send_part(const float *d, rp_room<T> *room)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const rp_u32 bar = rp_in_block(rp_shared(&room->received), warp / T::GROUPS);
    const rp_u32 to = rp_in_block(rp_shared(room->sent + rp_rank() * T::PART + (warp % T::GROUPS * T::N8 * 32 + lane) * 4), warp / T::GROUPS);
#pragma unroll
    for (int j = 0; j < T::N8; j++) rp_send4(to + j * 512, bar, d + 4 * j);
}

/* Adds the blocks' parts of what this block owns and hands them to the epilogue. */
template <class T, class E>
RP_INLINE void rp_end_parts(const rp_room<T> *room, int tile, int first_8, E &e)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / T::SPLITS;
    const float4 *sent = (const float4 *)room->sent + group * T::N8 * 32 + lane;
#pragma unroll
    for (int i = 0; i < (T::N8 + T::SPLITS - 1) / T::SPLITS; i++) {
        const int j = i * T::SPLITS + warp % T::SPLITS;
        float c[4] = {0, 0, 0, 0};
        if (j >= T::N8) break;
#pragma unroll
        for (int r = 0; r < T::SPLITS; r++) {
            const float4 v = sent[r * (T::PART / 4) + j * 32];
            c[0] += v.x;
            c[1] += v.y;
            c[2] += v.z;
            c[3] += v.w;
        }
        e.put(tile * 8 + rp_rank() * T::GROUPS + group, first_8 + j, j, c);
    }
}

/* The body of every matrix kernel. E::before() reads what the chain does not write; E::begin(first column) what it does, once;
 * E::put(16 rows, 8 columns, those within the tile, sums) uses sums, E::all() those of all the tile's columns; E::end(tile) is called by all that multiply. */
template <class T, class E>
RP_INLINE void rp_matrix(const char *w, const rp_u16 *x, int first, E &e)
{
    rp_room<T> *room = rp_room_of<T>();
    const rp_u32 ring = rp_shared(rp_memory), full = rp_shared(room->full), empty = rp_shared(room->empty);
    const int jobs = rp_jobs<T>(), column = first + (int)(blockIdx.x / T::SPLITS) % T::COLUMN_TILES * T::COLUMNS;

    rp_launch_dependents();
    if (threadIdx.x == 0) {
        for (int i = 0; i < T::STAGES; i++) {
            rp_barrier_init(full + 8 * i, 1);
            rp_barrier_init(empty + 8 * i, 8);
        }
        rp_barrier_init(rp_shared(&room->received), 1);
        rp_barriers_visible();
        if (T::SPLITS > 1) rp_barrier_expect(rp_shared(&room->received), T::SENT_BYTES);
    }
    __syncthreads();
    if (T::SPLITS > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    if (threadIdx.x >= RP_WORKERS_2) {
        if (threadIdx.x == RP_WORKERS_2) {
            const rp_source<T> source = {w, (const char *)x, ring, full, rp_read_once(), first};
            source.run(empty);
        }
        __syncwarp();
        if (T::SPLITS > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        return;
    }
    rp_wait_for_others();
    e.begin(room, column);
    int n = 0;
    for (int i = 0; i < jobs; i++) {
        const int tile = ((int)(blockIdx.x / T::SPLITS) + i * T::BLOCKS) / T::COLUMN_TILES;
        float d[T::COLUMNS / 2];
#pragma unroll
        for (int j = 0; j < T::COLUMNS / 2; j++) d[j] = 0.0f;
        rp_multiply<T>(d, ring, full, empty, n);
        if (T::SPLITS > 1) {
            /* No block may send before the others' barriers are there. */
            asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
            rp_send_part<T>(d, room);
            rp_barrier_wait_cluster(rp_shared(&room->received), 0);
            rp_end_parts<T>(room, tile, column / 8, e);
        } else {
            e.all(tile * 8 + threadIdx.x / 32, column / 8, d);
        }
        e.end(room, tile, column);
    }
}

/* 1 / rms of each column, from the sums of squares of n tiles: [n][RP_ROOM]. */
template <class T>
RP_INLINE void rp_scales(rp_room<T> *room, const float *partials, int n, int column)
{
    const int each = T::COLUMNS < RP_WORKERS_2 ? RP_WORKERS_2 / T::COLUMNS : 1, parts = each < 8 ? each : 8;
    const int c = threadIdx.x % T::COLUMNS, part = threadIdx.x / T::COLUMNS;
    float s = 0.0f;
    if (part < parts)
#pragma unroll 8
        for (int i = part; i < n; i += parts) s += rp_load_float(partials + (rp_u64)i * RP_ROOM + column + c);
    if (part < parts) room->squares[part][c] = s;
    rp_sync_workers();
    if (threadIdx.x < T::COLUMNS) {
        s = 0.0f;
        for (int p = 0; p < parts; p++) s += room->squares[p][threadIdx.x];
        room->scale[threadIdx.x] = rsqrtf(s / RP_HIDDEN + RP_EPS);
    }
    rp_sync_workers();
}

typedef rp_tile<RP_HIDDEN, RP_QKV_TILE> rp_qkv_tile;
typedef rp_tile<RP_HEADS * RP_HEAD_DIM, RP_O_TILE> rp_o_tile;
typedef rp_tile<RP_HIDDEN, RP_UP_TILE> rp_up_tile;
typedef rp_tile<RP_FFN, RP_DOWN_TILE> rp_down_tile;
typedef rp_tile<RP_HIDDEN, RP_HEAD_TILE, RP_ONE_SEQUENCE ? rp_qkv_tile::COLUMNS : RP_ROOM> rp_head_tile;

#define RP_KERNEL(T) extern "C" __global__ void __cluster_dims__(T::SPLITS, 1, 1) __launch_bounds__(RP_WORKERS_2 + 32, T::COLUMNS <= 64 ? 2 : 1)

/* ---- q, k, v ------------------------------------------------------------------------------------------------------------------------- */

/* Rows g and g + 8 of 16 are the two that a rotation takes together. */
struct rp_qkv_end {
    typedef rp_qkv_tile T;
    const float *partials;
    int n_partials;
    rp_u16 *q, *k, *v;
    const rp_step *step;
    const int *table;
    const float2 *rope; /* cos, sin of [position][head_dim / 2] */
    rp_room<T> *room;

    RP_INLINE_MEMBER void begin(rp_room<T> *r, int column)
    {
        room = r;
        for (int i = threadIdx.x; i < T::COLUMNS; i += RP_WORKERS_2) {
            const int n = column + i, position = n < RP_ROWS ? rp_load_int(step->position + n) : 0;
            room->position[i] = position;
            room->block[i] = n < RP_ROWS ? rp_load_int(table + (RP_ONE_SEQUENCE ? 0 : n) * RP_MAX_BLOCKS + position / 16) : 0;
        }
        rp_scales<T>(room, partials, n_partials, column);
    }

    RP_INLINE_MEMBER void put(int group, int n8, int j, const float *c) const
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, half = RP_HEAD_DIM / 2;
        const int head = group * 8 / half, i = group * 8 % half; /* pairs i .. i + 7 of a head */
        if (head >= RP_HEADS + 2 * RP_KV_HEADS) return;
        float first[2], second[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int column = 8 * j + 2 * t + e;
            const float scale = room->scale[column], a = c[e] * scale, b = c[2 + e] * scale;
            if (head < RP_HEADS + RP_KV_HEADS) {
                const float2 turn = __ldg(rope + (rp_u64)room->position[column] * half + i + g);
                first[e] = a * turn.x - b * turn.y;
                second[e] = b * turn.x + a * turn.y;
            } else {
                first[e] = a;
                second[e] = b;
            }
        }
        /* Turned: column 8 j + g, pairs i + 2 t and + 1. */
        const rp_u32 low = rp_turned(rp_pack(first[0], first[1])), high = rp_turned(rp_pack(second[0], second[1]));
        const int n = 8 * n8 + g, position = room->position[8 * j + g], block = room->block[8 * j + g];
        if (n >= RP_ROWS) return;
        const bool cached = head >= RP_HEADS;
        rp_u16 *to = !cached                         ? q + ((rp_u64)n * RP_HEADS + head) * RP_HEAD_DIM
                     : head < RP_HEADS + RP_KV_HEADS ? k + rp_cache_at(block, head - RP_HEADS)
                                                     : v + rp_cache_at(block, head - RP_HEADS - RP_KV_HEADS);
        const int dim = RP_ROPE_FIRST(i + 2 * t), other = RP_ROPE_SECOND(i + 2 * t);
        if (RP_ROPE_NEIGHBOURS) {
            *(uint2 *)(to + (cached ? rp_in_block_of_cache(position, dim) : dim)) = make_uint2(__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632));
        } else {
            *(rp_u32 *)(to + (cached ? rp_in_block_of_cache(position, dim) : dim)) = low;
            *(rp_u32 *)(to + (cached ? rp_in_block_of_cache(position, other) : other)) = high;
        }
    }

    RP_INLINE_MEMBER void all(int group, int first_8, const float *d) const
    {
#pragma unroll
        for (int j = 0; j < T::N8; j++) put(group, first_8 + j, j, d + 4 * j);
    }

    RP_INLINE_MEMBER void end(rp_room<T> *, int, int) const {}
};

RP_KERNEL(rp_qkv_tile)
rp_batch_qkv(const char *w, const rp_u16 *x, const float *partials, int n_partials, rp_u16 *q, rp_u16 *k, rp_u16 *v, const rp_step *step,
             const int *table, const float2 *rope)
{
    rp_qkv_end e = {partials, n_partials, q, k, v, step, table, rope};
    rp_matrix<rp_qkv_tile>(w, x, 0, e);
}

/* ---- o, up, down ----------------------------------------------------------------------------------------------------------------------- */

/* Adds a matrix' rows to the residual stream; x, in tiles of READER columns, gets them times the gains of the norm behind it. */
template <class T_, int READER>
struct rp_residual_end {
    typedef T_ T;
    float *residual, *partials;
    const rp_u16 *gains;
    rp_u16 *x;
    rp_room<T> *room;

    RP_INLINE_MEMBER void begin(rp_room<T> *r, int)
    {
        room = r;
        for (int i = threadIdx.x; i < 8 * T::COLUMNS; i += RP_WORKERS_2) r->squares[0][i] = 0.0f;
        rp_sync_workers();
    }

    /* Rows of 16: all of h's 8 are there or none. */
    RP_INLINE bool has(int group, int h) { return group * 16 + h * 8 < RP_HIDDEN; }

    RP_INLINE_MEMBER float *at(int group, int n8, int h) const
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        return residual + (((group * 2 + h) * RP_ROOM + 8 * n8 + 2 * t) * 8 + g);
    }

    RP_INLINE_MEMBER void old_of(int group, int n8, float *old) const
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float *from = at(group, n8, h);
            old[2 * h] = has(group, h) ? __ldcg(from) : 0.0f;
            old[2 * h + 1] = has(group, h) ? __ldcg(from + 8) : 0.0f;
        }
    }

    RP_INLINE_MEMBER void add(int group, int n8, int j, const float *c, const float *old) const
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        float squares[2] = {0, 0};
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (!has(group, h)) break;
            float *to = at(group, n8, h);
            const float gain = rp_low(__ldg(gains + group * 16 + h * 8 + g)), a = old[2 * h] + c[2 * h], b = old[2 * h + 1] + c[2 * h + 1];
            to[0] = a;
            to[8] = b;
            squares[0] = fmaf(a, a, squares[0]);
            squares[1] = fmaf(b, b, squares[1]);
            /* Turned: column 8 n8 + g, rows 2 t and + 1. */
            *(rp_u32 *)(x + rp_x_at<READER, RP_HIDDEN>(8 * n8, group * 2 + h) + 8 * g + 2 * t) = rp_turned(rp_pack(a * gain, b * gain));
        }
        squares[0] = rp_rows_sum(squares[0]);
        squares[1] = rp_rows_sum(squares[1]);
        if (g == 0) *(float2 *)(room->squares[threadIdx.x / 32] + 8 * j + 2 * t) = make_float2(squares[0], squares[1]);
    }

    RP_INLINE_MEMBER void put(int group, int n8, int j, const float *c) const
    {
        float old[4];
        old_of(group, n8, old);
        add(group, n8, j, c, old);
    }

    /* The old values of several columns are asked for together: one by one each would take a round to memory. */
    RP_INLINE_MEMBER void all(int group, int first_8, const float *d) const
    {
        static const int BATCH = T::N8 > 16 ? 4 : T::N8 < 8 ? T::N8 : 8;
#pragma unroll
        for (int first = 0; first < T::N8; first += BATCH) {
            float old[BATCH][4];
#pragma unroll
            for (int j = 0; j < BATCH; j++) old_of(group, first_8 + first + j, old[j]);
#pragma unroll
            for (int j = 0; j < BATCH; j++) add(group, first_8 + first + j, first + j, d + 4 * (first + j), old[j]);
        }
    }

    RP_INLINE_MEMBER void end(rp_room<T> *, int tile, int column)
    {
        rp_sync_workers();
        const int part = T::SPLITS > 1 ? tile * T::SPLITS + (int)rp_rank() : tile;
        for (int i = threadIdx.x; i < T::COLUMNS; i += RP_WORKERS_2) {
            float s = 0.0f;
#pragma unroll
            for (int w = 0; w < 8; w++) s += room->squares[w][i];
            partials[(rp_u64)part * RP_ROOM + column + i] = s;
        }
        rp_sync_workers();
    }
};

RP_KERNEL(rp_o_tile)
rp_batch_o(const char *w, const rp_u16 *attention, float *residual, float *partials, const rp_u16 *gains, rp_u16 *x)
{
    rp_residual_end<rp_o_tile, rp_up_tile::COLUMNS> e = {residual, partials, gains, x};
    rp_matrix<rp_o_tile>(w, attention, 0, e);
}

RP_KERNEL(rp_down_tile)
rp_batch_down(const char *w, const rp_u16 *hidden, float *residual, float *partials, const rp_u16 *gains, rp_u16 *x)
{
    rp_residual_end<rp_down_tile, rp_qkv_tile::COLUMNS> e = {residual, partials, gains, x};
    rp_matrix<rp_down_tile>(w, hidden, 0, e);
}

/* Rows g of 16 are of the gate, g + 8 of up. */
struct rp_up_end {
    typedef rp_up_tile T;
    const float *partials;
    int n_partials;
    rp_u16 *to;
    rp_room<T> *room;

    RP_INLINE_MEMBER void begin(rp_room<T> *r, int column)
    {
        room = r;
        rp_scales<T>(r, partials, n_partials, column);
    }

    RP_INLINE_MEMBER void put(int group, int n8, int j, const float *c) const
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        float h[2];
        if (group * 8 >= RP_FFN) return;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float scale = room->scale[8 * j + 2 * t + e], gate = c[e] * scale, up = c[2 + e] * scale;
            h[e] = __fdividef(gate, 1.0f + exp2f(gate * -1.44269504f)) * up;
        }
        *(rp_u32 *)(to + rp_x_at<rp_down_tile::COLUMNS, RP_FFN>(8 * n8, group) + 8 * g + 2 * t) = rp_turned(rp_pack(h[0], h[1]));
    }

    RP_INLINE_MEMBER void all(int group, int first_8, const float *d) const
    {
#pragma unroll
        for (int j = 0; j < T::N8; j++) put(group, first_8 + j, j, d + 4 * j);
    }

    RP_INLINE_MEMBER void end(rp_room<T> *, int, int) const {}
};

RP_KERNEL(rp_up_tile)
rp_batch_up(const char *w, const rp_u16 *x, const float *partials, int n_partials, rp_u16 *to)
{
    rp_up_end e = {partials, n_partials, to};
    rp_matrix<rp_up_tile>(w, x, 0, e);
}

/* ---- head and argmax ------------------------------------------------------------------------------------------------------------------- */

struct rp_head_end {
    typedef rp_head_tile T;
    const float *partials;
    int n_partials;
    rp_room<T> *room;

    RP_INLINE_MEMBER void begin(rp_room<T> *r, int column)
    {
        const rp_best none = {-RP_INF, 0x7fffffff};
        room = r;
        for (int i = threadIdx.x; i < 8 * T::COLUMNS; i += RP_WORKERS_2) r->best[0][i] = none;
        rp_scales<T>(r, partials, n_partials, column);
    }

    RP_INLINE_MEMBER void put(int group, int, int j, const float *c) const
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int row = group * 16 + g, column = 8 * j + 2 * t + e;
            const float scale = room->scale[column];
            rp_best best = {row < RP_VOCAB ? c[e] * scale : -RP_INF, row};
            const rp_best other = {row + 8 < RP_VOCAB ? c[2 + e] * scale : -RP_INF, row + 8};
            best = rp_better(best, other);
#pragma unroll
            for (int o = 4; o < 32; o *= 2) {
                const rp_best there = {__shfl_xor_sync(~0u, best.value, o), __shfl_xor_sync(~0u, best.id, o)};
                best = rp_better(best, there);
            }
            if (g == 0) {
                rp_best *mine = room->best[threadIdx.x / 32] + column;
                *mine = rp_better(*mine, best);
            }
        }
    }

    RP_INLINE_MEMBER void all(int group, int first_8, const float *d) const
    {
#pragma unroll
        for (int j = 0; j < T::N8; j++) put(group, first_8 + j, j, d + 4 * j);
    }

    RP_INLINE_MEMBER void end(rp_room<T> *, int, int) const {}
};

/* Best of a column of n candidates; called by a warp, the result is in every lane. */
RP_INLINE rp_best rp_best_of(const volatile rp_best *c, int n)
{
    rp_best best = {-RP_INF, 0x7fffffff};
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        const rp_best one = {c[i * rp_head_tile::COLUMNS].value, c[i * rp_head_tile::COLUMNS].id};
        best = rp_better(best, one);
    }
#pragma unroll
    for (int o = 16; o; o /= 2) {
        const rp_best other = {__shfl_xor_sync(~0u, best.value, o), __shfl_xor_sync(~0u, best.id, o)};
        best = rp_better(best, other);
    }
    return best;
}

/* candidates: [blocks][columns]. The block that ends last takes the best of all, which does not depend on who that is. A decode step writes the
 * next one's record and ids by position, rows of RP_ROOM; a prefill the id behind its last token, from the tile of columns that holds it. */
RP_KERNEL(rp_head_tile)
rp_batch_head(const char *w, const rp_u16 *x, const float *partials, int n_partials, rp_best *candidates, rp_step *step, int *ids)
{
    typedef rp_head_tile T;
    rp_room<T> *room = rp_room_of<T>();
    const int first = RP_ONE_SEQUENCE ? (RP_ROWS - 1) / T::COLUMNS * T::COLUMNS : 0, n = RP_ONE_SEQUENCE ? 1 : RP_ROWS;
    const int at = RP_ONE_SEQUENCE ? (RP_ROWS - 1) % T::COLUMNS : 0; /* column of the first id */
    __shared__ unsigned arrived;
    rp_head_end e = {partials, n_partials};
    rp_matrix<T>(w, x, first, e);
    if (threadIdx.x >= RP_WORKERS_2) return;
    rp_sync_workers();
    const int warp = threadIdx.x / 32;
    for (int b = warp; b < n; b += 8) {
        rp_best best = room->best[0][at + b];
        for (int i = 1; i < 8; i++) best = rp_better(best, room->best[i][at + b]);
        if (threadIdx.x % 32 == 0) candidates[blockIdx.x * T::COLUMNS + at + b] = best;
    }
    __threadfence();
    rp_sync_workers();
    if (threadIdx.x == 0) arrived = atomicInc(&step->done, T::BLOCKS - 1);
    rp_sync_workers();
    if (arrived != T::BLOCKS - 1) return;
    __threadfence();
    for (int b = warp; b < n; b += 8) {
        const rp_best best = rp_best_of(candidates + at + b, T::BLOCKS);
        if (threadIdx.x % 32) continue;
        if (RP_ONE_SEQUENCE) {
            ids[0] = best.id;
            continue;
        }
        const int next = step->position[b] + 1;
        step->token[b] = best.id;
        step->position[b] = next;
        ids[(rp_u64)next * RP_ROOM + b] = best.id;
    }
}

/* ---- embedding ------------------------------------------------------------------------------------------------------------------------- */

/* One block a row; one of the sums of squares is the row's, the others are 0. */
extern "C" __global__ void __launch_bounds__(256)
    rp_batch_embed(const rp_u16 *rows, const rp_step *step, const rp_u16 *gains, float *residual, rp_u16 *x, float *partials, int n_partials)
{
    __shared__ float part[8];
    const int n = blockIdx.x;
    float squares = 0.0f;
    rp_launch_dependents();
    rp_wait_for_others();
    const rp_u16 *from = rows + (rp_u64)rp_load_int(step->token + n) * RP_HIDDEN;
    for (int i = threadIdx.x * 8; i < RP_HIDDEN; i += 256 * 8) {
        const uint4 v = *(const uint4 *)(from + i), gain = *(const uint4 *)(gains + i);
        const rp_u64 to = ((rp_u64)(i / 8) * RP_ROOM + n) * 8;
        uint4 out;
        out.x = rp_pack(rp_low(v.x) * rp_low(gain.x), rp_high(v.x) * rp_high(gain.x));
        out.y = rp_pack(rp_low(v.y) * rp_low(gain.y), rp_high(v.y) * rp_high(gain.y));
        out.z = rp_pack(rp_low(v.z) * rp_low(gain.z), rp_high(v.z) * rp_high(gain.z));
        out.w = rp_pack(rp_low(v.w) * rp_low(gain.w), rp_high(v.w) * rp_high(gain.w));
        const float4 a = make_float4(rp_low(v.x), rp_high(v.x), rp_low(v.y), rp_high(v.y));
        const float4 b = make_float4(rp_low(v.z), rp_high(v.z), rp_low(v.w), rp_high(v.w));
        squares += ((a.x * a.x + a.y * a.y) + (a.z * a.z + a.w * a.w)) + ((b.x * b.x + b.y * b.y) + (b.z * b.z + b.w * b.w));
        *(uint4 *)(x + rp_x_at<rp_qkv_tile::COLUMNS, RP_HIDDEN>(n, i / 8)) = out;
        *(float4 *)(residual + to) = a;
        *(float4 *)(residual + to + 4) = b;
    }
#pragma unroll
    for (int o = 16; o; o /= 2) squares += __shfl_xor_sync(~0u, squares, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
    __syncthreads();
    for (int i = threadIdx.x; i < n_partials; i += 256) {
        float s = 0.0f;
        for (int w = 0; w < 8; w++) s += part[w];
        partials[(rp_u64)i * RP_ROOM + n] = i == 0 ? s : 0.0f;
    }
}
