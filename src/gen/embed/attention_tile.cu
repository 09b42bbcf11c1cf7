/* Attention of many rows, in tiles; stands behind attention.cu.
 *
 * Where a tile is of few requests, a block takes it for one head, a request at a time, so that its rows share keys and values; a
 * warp has 4 rows. Where it is of many, a block takes a row and the heads of a kv head, as there. */
#define RK_ATTN_ROWS 32
#define RK_ATTN_RUNS 4 /* requests of a tile at most */

template <class KV, int HEADS, int KV_HEADS, int HD, int BLOCK>
struct rk_attn_tile {
    typedef typename KV::type element;
    typedef rk_attn<KV, HEADS, KV_HEADS, HD, BLOCK, 1> single;
    enum {
        N = RK_ATTN_THREADS,
        C = RK_ATTN_CHUNK,
        fits = HD % 8 == 0 && HD * sizeof(element) <= 256, /* else by rows alone */
        width = fits ? HD : 8,
        tile = width * sizeof(element) > 128 ? 32 : 64, /* positions in shared memory */
        wide = 16 / (int)sizeof(element),
        pieces = width / wide,
        stride = width + wide,
        held = (tile * pieces + N - 1) / N,
        each = tile / 32,               /* positions of a lane */
        rows = 4,                       /* of a warp */
        pairs = (width / 2 + 31) / 32,  /* pairs of dims of a lane */
        singles = RK_ATTN_ROWS * single::units,
        units = singles > HEADS ? singles : HEADS /* of a tile */
    };
    typedef rk_few<element, wide> piece;
    struct tile_room {
        piece kv[tile * (pieces + 1)];
        rk_few<float, 4> query[RK_ATTN_ROWS][width / 4];
        rk_few<float, 4> s[RK_ATTN_ROWS][C / 4];
        rp_i32 seq[RK_ATTN_ROWS], pos[RK_ATTN_ROWS];
    };
    union room {
        tile_room tile;
        typename single::room row;
    };
    /* Of a warp's rows: positions that count, the result so far, a chunk's values. */
    struct state {
        int n[rows];
        float top[rows], sum[rows];
        rk_few<float, 2> all[rows][pairs], o[rows][pairs];
    };

    /* This thread's pieces of positions [t, t + tile), of which those before n exist. */
    RP_INLINE void bring(piece *to, const element *cache, const rp_i32 *blocks, int kv_head, int t, int n)
    {
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N, p = t + at / pieces;
            if (at < tile * pieces && p < n)
                to[i] = ((const piece *)(cache + (((rp_size)blocks[p / BLOCK] * KV_HEADS + kv_head) * BLOCK + p % BLOCK) * HD))[at % pieces];
        }
    }

    RP_INLINE void put(tile_room &r, const piece *from)
    {
        __syncthreads(); /* nobody reads what was there */
#pragma unroll
        for (int i = 0; i < held; i++) {
            const int at = (int)threadIdx.x + i * N;
            if (at < tile * pieces) r.kv[at / pieces * (pieces + 1) + at % pieces] = from[i];
        }
        __syncthreads();
    }

    /* Scores of this warp's rows and positions [t, t + tile) of a chunk. */
    RP_INLINE void score(tile_room &r, int t, float scale)
    {
        const int lane = rk_lane(), row0 = (int)threadIdx.x / 32 * rows;
        float p[rows][each][4] = {};
#pragma unroll 2
        for (int i = 0; i < pieces; i++) {
            piece k[each];
#pragma unroll
            for (int j = 0; j < each; j++) k[j] = r.kv[(lane + 32 * j) * (pieces + 1) + i];
#pragma unroll
            for (int d = 0; d < wide; d += 4)
#pragma unroll
                for (int q = 0; q < rows; q++) {
                    const rk_few<float, 4> y = r.query[row0 + q][(i * wide + d) / 4];
#pragma unroll
                    for (int j = 0; j < each; j++)
#pragma unroll
                        for (int e = 0; e < 4; e++) p[q][j][e] = p[q][j][e] + KV::get(k[j].one[d + e]) * y.one[e];
                }
        }
#pragma unroll
        for (int q = 0; q < rows; q++)
#pragma unroll
            for (int j = 0; j < each; j++)
                r.s[row0 + q][0].one[t + lane + 32 * j] = ((p[q][j][0] + p[q][j][1]) + (p[q][j][2] + p[q][j][3])) * scale;
    }

    /* o += weights times values of positions [t, t + tile) of chunk c. */
    RP_INLINE void gather(const tile_room &r, state &w, int c, int t)
    {
        const int lane = rk_lane(), row0 = (int)threadIdx.x / 32 * rows, from = c * C + t;
        int least = tile, most = 0; /* positions that count for all rows, for any */
#pragma unroll
        for (int q = 0; q < rows; q++) {
            least = w.n[q] - from < least ? w.n[q] - from : least;
            most = w.n[q] - from > most ? w.n[q] - from : most;
        }
        most = most < tile ? most : tile;
#pragma unroll 2
        for (int k = 0; k < most; k += 4) {
            rk_few<float, 4> x[rows];
#pragma unroll
            for (int q = 0; q < rows; q++) x[q] = r.s[row0 + q][(t + k) / 4];
#pragma unroll
            for (int i = 0; i < pairs; i++) {
                if (width % 64 && (lane + 32 * i) * 2 >= width) continue;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const rk_few<element, 2> v = ((const rk_few<element, 2> *)&r.kv[(k + e) * (pieces + 1)])[lane + 32 * i];
                    const float a = KV::get(v.one[0]), b = KV::get(v.one[1]);
#pragma unroll
                    for (int q = 0; q < rows; q++) {
                        if (k + 4 > least && from + k + e >= w.n[q]) continue;
                        w.o[q][i].one[0] = w.o[q][i].one[0] + x[q].one[e] * a;
                        w.o[q][i].one[1] = w.o[q][i].one[1] + x[q].one[e] * b;
                    }
                }
            }
        }
    }

    /* Chunk c, of which positions before n exist for any row of the block. */
    RP_INLINE void chunk(tile_room &r, state &w, const element *k, const element *v, const rp_i32 *blocks, int kv_head, int n, int c, float scale)
    {
        const int row0 = (int)threadIdx.x / 32 * rows, t0 = c * C, m = n - t0 < C ? n - t0 : C;
        piece key[held], value[held];
        int most = 0; /* positions that count for any row of the warp */
#pragma unroll
        for (int q = 0; q < rows; q++) most = w.n[q] - t0 > most ? w.n[q] - t0 : most;
        bring(key, k, blocks, kv_head, t0, n);
        bring(value, v, blocks, kv_head, t0, n);
        for (int t = 0; t < m; t += tile) {
            put(r, key);
            bring(key, k, blocks, kv_head, t0 + t + tile, n);
            if (t < most) score(r, t, scale);
        }
        __syncwarp();
        float a[rows], b[rows];
#pragma unroll
        for (int q = 0; q < rows; q++) {
            float top, sum;
            a[q] = b[q] = 1.0f;
            rk_attn_weigh(r.s[row0 + q][0].one, w.n[q] - t0, &top, &sum);
            if (c == 0)
                w.top[q] = top;
            else if (w.n[q] > t0)
                rk_attn_join(&w.top[q], top, &a[q], &b[q]);
            w.sum[q] = c == 0 ? sum : w.n[q] > t0 ? w.sum[q] * a[q] + sum * b[q] : w.sum[q];
#pragma unroll
            for (int i = 0; i < pairs; i++) w.o[q][i].one[0] = w.o[q][i].one[1] = 0.0f;
        }
        __syncwarp();
        for (int t = 0; t < m; t += tile) {
            put(r, value);
            bring(value, v, blocks, kv_head, t0 + t + tile, n);
            gather(r, w, c, t);
        }
#pragma unroll
        for (int q = 0; q < rows; q++)
#pragma unroll
            for (int i = 0; i < pairs; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float *all = &w.all[q][i].one[e];
                    *all = c == 0 ? w.o[q][i].one[e] : w.n[q] > t0 ? *all * a[q] + w.o[q][i].one[e] * b[q] : *all;
                }
    }

    /* Rows [first, end) of the tile that begins at row0, which are of one request, for one head. */
    RP_INLINE void request(tile_room &r, const element *k, const element *v, const rp_i32 *blocks, float *to, long long row0, int first, int end, int head,
                           float scale)
    {
        const int mine = (int)threadIdx.x / 32 * rows, lane = rk_lane();
        int n = 0;
        state w;
        for (int i = first; i < end; i++) n = r.pos[i] + 1 > n ? r.pos[i] + 1 : n;
#pragma unroll
        for (int q = 0; q < rows; q++) w.n[q] = mine + q >= first && mine + q < end ? r.pos[mine + q] + 1 : 0;
        for (int c = 0; c * C < n; c++) chunk(r, w, k, v, blocks, head / (HEADS / KV_HEADS), n, c, scale);
#pragma unroll
        for (int q = 0; q < rows; q++) {
            if (w.n[q] <= 0) continue;
            const float by = 1.0f / w.sum[q];
#pragma unroll
            for (int i = 0; i < pairs; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int d = (lane + 32 * i) * 2 + e;
                    if (d < HD) to[((row0 + mine + q) * HEADS + head) * HD + d] = w.all[q][i].one[e] * by;
                }
        }
    }

    RP_FN void run(room &all, const float *q, const element *k, const element *v, const rp_i32 *seqs, const rp_i32 *positions, const rp_i32 *tables,
                   float *to, long long n_rows, long long n_tables, rp_size table_width, float scale, long long at)
    {
        tile_room &r = all.tile;
        const long long n_tiles = (n_rows + RK_ATTN_ROWS - 1) / RK_ATTN_ROWS, row0 = (n_tiles - 1 - at / units) * RK_ATTN_ROWS;
        const int unit = (int)(at % units), id = threadIdx.x, count = n_rows - row0 < RK_ATTN_ROWS ? (int)(n_rows - row0) : RK_ATTN_ROWS;
        int runs = 1;
        __syncthreads(); /* the unit before is done with shared memory */
        if (id < RK_ATTN_ROWS) {
            const bool padding = id >= count || seqs[row0 + id] < 0 || positions[row0 + id] < 0;
            r.seq[id] = padding ? -1 : seqs[row0 + id];
            r.pos[id] = padding ? -1 : positions[row0 + id];
        }
        __syncthreads();
        for (int i = 1; i < RK_ATTN_ROWS; i++) runs += r.seq[i] != r.seq[i - 1];
        __syncthreads(); /* a row by itself uses the same memory */
        if (!fits || runs > RK_ATTN_RUNS) {
            const int row = unit / single::units;
            if (unit < singles && row < count)
                single::run(all.row, q, k, v, seqs, positions, tables, to, n_tables, table_width, scale, row0 * single::units + unit);
            return;
        }
        if (unit >= HEADS) return;
        for (int i = id; i < RK_ATTN_ROWS * width; i += N) {
            const int row = i / width, d = i % width;
            r.query[row][0].one[d] = row < count ? q[((row0 + row) * HEADS + unit) * HD + d] : 0.0f;
            if (row < count && r.seq[row] < 0) to[((row0 + row) * HEADS + unit) * HD + d] = 0.0f;
        }
        for (int i = 0, end; i < count; i = end) {
            for (end = i + 1; end < count && r.seq[end] == r.seq[i]; end++) continue;
            if (r.seq[i] >= 0) request(r, k, v, tables + r.seq[i] * table_width, to, row0, i, end, unit, scale);
        }
    }
};
