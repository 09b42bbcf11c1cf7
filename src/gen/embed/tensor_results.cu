/* What becomes of the sums of many rows on tensor cores, and the kernels that make them. Stands behind tensor_many.cu. */

/* Epilogues of rows first, first + step .. of a piece, whose sums the blocks of a cluster have: a lane a column, a warp a row of a unit, N of them at once. */
template <class P>
struct rk_results {
    typedef typename P::tile T;
    /* Beside the sums of wide tiles registers have room for 16 floats or so. A block of a cluster has no more than its share. */
    enum {
        WARPS = T::WORKERS / 32, MOST = T::SUM / T::ROW / (P::ASKED == 1 ? 4 : T::COLUMNS > 128 ? 16 : 8),
        SHARE = ((T::PIECE + T::SPLITS - 1) / T::SPLITS * P::UNITS + WARPS - 1) / WARPS, N = T::SPLITS > 1 && SHARE < MOST ? SHARE : MOST,
        EACH = N * WARPS
    };
    rk_job job;
    long long row0;
    int first, step, pairs; /* of a row and a unit; P::UNITS a row, some of which may be missing */
    float asked[N][P::ASKED];

    RP_INLINE_MEMBER void start(const rk_job &j, long long from, int rows, int f, int s)
    {
        job = j;
        row0 = from;
        first = f;
        step = s;
        pairs = rows > f ? (rows - f + s - 1) / s * P::UNITS : 0;
    }

    /* Of the pairs from `from` on this warp's j-th; its row within the piece. */
    RP_INLINE int pair_of(int from, int j) { return from + (int)threadIdx.x / 32 + j * (T::WORKERS / 32); }
    RP_INLINE_MEMBER int row_of(int p) const { return first + p / P::UNITS * step; }
    RP_INLINE_MEMBER bool has(int p) const { return p < pairs && p % P::UNITS < job.n_units; }

    /* Pairs from `from` on: as many as the warps take at once. WHOLE: all of them are there. */
    template <bool WHOLE>
    RP_INLINE_MEMBER void ask_all(char *const *arg, const long long *dim, int from)
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int p = pair_of(from, j);
            if (WHOLE || has(p)) P::ask(arg, dim, job.unit + p % P::UNITS, row0 + row_of(p), threadIdx.x % 32, asked[j]);
        }
    }

    /* The lane's sum, over all slices. */
    RP_INLINE float sum_of(const float *own)
    {
        float part[T::SPLITS > 1 ? (int)T::SLICES : 1];
        if (T::SPLITS == 1) return *own;
#pragma unroll
        for (int i = 0; T::SPLITS > 1 && i < T::SLICES; i++) part[T::SPLITS > 1 ? i : 0] = *rk_of_block(own + i % T::OWN * T::SUM, i / T::OWN);
#pragma unroll
        for (int i = 1; T::SPLITS > 1 && i < T::SLICES; i++) part[0] += part[T::SPLITS > 1 ? i : 0];
        return part[0];
    }

    /* What is not there is read, too, and not used: loads behind conditions would be made one after the other, and other blocks' memory is far. The cluster, if it is one,
     * meets behind the last loads. */
    template <bool WHOLE>
    RP_INLINE_MEMBER void put_all(char *const *arg, const long long *dim, int from, const float *sums) const
    {
        const int mats = job.tiles * 16 / (job.n_units * P::COLUMNS);
        float s[N][P::MATS];
        bool near = P::NEAR && WHOLE;
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int p = pair_of(from, j), row = WHOLE || row_of(p) < T::PIECE ? row_of(p) : 0;
            const int unit = WHOLE || p % P::UNITS < job.n_units ? p % P::UNITS : 0;
            const float *own = sums + row * T::ROW + unit * mats * P::COLUMNS + threadIdx.x % 32;
            s[j][0] = sum_of(own);
#pragma unroll
            for (int m = 1; m < P::MATS; m++) s[j][m] = P::PAIRS ? __shfl_xor_sync(RK_WARP, s[j][0], 1) : m < mats ? sum_of(own + m * P::COLUMNS) : 0.0f;
            near = near && P::near(s[j]);
        }
        if (T::SPLITS > 1 && from + EACH >= pairs) rk_cluster_arrive();
#pragma unroll
        for (int j = 0; near && j < N; j++) {
            const int p = pair_of(from, j);
            P::put_near(arg, dim, job.unit + p % P::UNITS, row0 + row_of(p), threadIdx.x % 32, s[j], asked[j]);
        }
#pragma unroll
        for (int j = 0; !near && j < N; j++) {
            const int p = pair_of(from, j);
            if (WHOLE || has(p)) P::put(arg, dim, job.unit + p % P::UNITS, row0 + row_of(p), threadIdx.x % 32, s[j], asked[j]);
        }
    }

    RP_INLINE_MEMBER bool whole(int from) const { return from + EACH <= pairs && job.n_units == P::UNITS; }

    RP_INLINE_MEMBER void ask(char *const *arg, const long long *dim, int from)
    {
        if (whole(from))
            ask_all<true>(arg, dim, from);
        else
            ask_all<false>(arg, dim, from);
    }

    RP_INLINE_MEMBER void put(char *const *arg, const long long *dim, int from, const float *sums) const
    {
        if (whole(from))
            put_all<true>(arg, dim, from, sums);
        else
            put_all<false>(arg, dim, from, sums);
    }
};

/* Results of the tiles of weights whose sums a warp has, without the other warps: 16 rows at a time go through shared memory of its own, from which lanes get
 * neighbouring columns of two rows. part: SETS tiles (tile(): which of the job's) of ROWS rows from row() on; the sums of an element's matrices, if there are
 * several, are in as many sets. What an element needs besides is asked for one round ahead. */
template <class P, class S>
struct rk_warp_results {
    enum {
        HIGH = S::ROWS < 32 / S::SETS ? (int)S::ROWS : 32 / S::SETS, ROW = 20, /* of a piece, and floats of one of its rows: few conflicts */
        N = P::ASKED > 1 ? 4 : HIGH / 2, /* elements of a lane at once */
        PARTS = HIGH / 2 / N, ROUNDS = S::SETS / P::MATS * PARTS, /* of a piece */
        FLOATS = S::SETS * HIGH * ROW
    };
    const rk_job &job;
    long long row0;
    int rows;
    float *room;

    RP_INLINE_MEMBER int unit(int round) const { return S::tile(round % ROUNDS / PARTS * P::MATS) / 2; }
    RP_INLINE_MEMBER int column(int round) const { return S::tile(round % ROUNDS / PARTS * P::MATS) % 2 * 16 + threadIdx.x % 16; }
    RP_INLINE_MEMBER int row(int round, int i) const { return round / ROUNDS * HIGH + (round % PARTS * N + i) * 2 + threadIdx.x % 32 / 16; }
    RP_INLINE_MEMBER bool is_whole(int round) const { return (round / ROUNDS + 1) * HIGH <= rows; } /* all rows of the piece are there */

    template <bool WHOLE>
    RP_INLINE_MEMBER void ask_some(char *const *arg, const long long *dim, int round, float (*asked)[P::ASKED]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (WHOLE || row(round, i) < rows) P::ask(arg, dim, job.unit + unit(round), row0 + row(round, i), column(round), asked[i]);
    }

    RP_INLINE_MEMBER void ask(char *const *arg, const long long *dim, int round, float (*asked)[P::ASKED]) const
    {
        if (unit(round) >= job.n_units) return;
        if (is_whole(round))
            ask_some<true>(arg, dim, round, asked);
        else
            ask_some<false>(arg, dim, round, asked);
    }

    RP_INLINE_MEMBER void stage(const S &part, int piece) const
    {
        float *const to = room + threadIdx.x % 4 * 2 * ROW + threadIdx.x % 32 / 4;
        __syncwarp(); /* the piece before has been read */
#pragma unroll
        for (int p = 0; p < S::ROWS / HIGH; p++) {
            if (p != piece) continue;
#pragma unroll
            for (int set = 0; set < S::SETS; set++)
#pragma unroll
                for (int i = 0; i < HIGH / 2; i++) to[(set * HIGH + i / 4 * 8 + i % 2) * ROW + (i & 2) * 4] = part.set(set)[HIGH / 2 * p + i];
        }
        __syncwarp();
    }

    template <bool WHOLE>
    RP_INLINE_MEMBER void put_some(char *const *arg, const long long *dim, int round, const float (*asked)[P::ASKED]) const
    {
        const float *const from = room + round % ROUNDS / PARTS * P::MATS * (HIGH * ROW);
        float s[N][P::MATS];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float *own = from + row(round, i) % HIGH * ROW;
#pragma unroll
            for (int m = 0; m < P::MATS; m++) s[i][m] = own[m * (HIGH * ROW) + threadIdx.x % 16];
        }
        bool near = P::NEAR && WHOLE;
#pragma unroll
        for (int i = 0; i < N; i++) near = near && P::near(s[i]);
        if (near) { /* all of them, so that the compiler has several to work at */
#pragma unroll
            for (int i = 0; i < N; i++)
                P::put_near(arg, dim, job.unit + unit(round), row0 + row(round, 0), column(round), s[i], asked[i], row(round, i) - row(round, 0));
            return;
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            if (WHOLE || row(round, i) < rows)
                P::put(arg, dim, job.unit + unit(round), row0 + row(round, 0), column(round), s[i], asked[i], row(round, i) - row(round, 0));
    }

    RP_INLINE_MEMBER void put(char *const *arg, const long long *dim, int round, const float (*asked)[P::ASKED]) const
    {
        if (unit(round) >= job.n_units) return;
        if (is_whole(round))
            put_some<true>(arg, dim, round, asked);
        else
            put_some<false>(arg, dim, round, asked);
    }

    /* What the first round needs, while nothing else waits for it. */
    RP_INLINE_MEMBER void start(char *const *arg, const long long *dim, float (*first)[P::ASKED]) const
    {
        if (rows > 0) ask(arg, dim, 0, first);
    }

    RP_INLINE_MEMBER void run(char *const *arg, const long long *dim, const S &part, float (*next)[P::ASKED]) const
    {
        const int pieces = (rows < S::ROWS ? rows + HIGH - 1 : S::ROWS) / HIGH;
        float asked[N][P::ASKED];
        for (int round = 0; round < pieces * ROUNDS; round++) {
#pragma unroll
            for (int i = 0; i < N * P::ASKED; i++) asked[i / P::ASKED][i % P::ASKED] = next[i / P::ASKED][i % P::ASKED];
            if (round + 1 < pieces * ROUNDS) ask(arg, dim, round + 1, next);
            if (round % ROUNDS == 0) stage(part, round / ROUNDS);
            put(arg, dim, round, asked);
        }
    }
};

/* What a warp does with sums of which it has all; of pairs it is another (tensor_pairs.cu). */
template <class P, class S, bool PAIRS = P::PAIRS>
struct rk_results_of_warp {
    typedef rk_warp_results<P, S> type;
};

/* A job's sums over slices of k, ascending, or over all of k at once. */
template <class P>
RP_INLINE void rk_sum_slices(rk_part<typename P::tile> &part, const rk_job &job, rp_u32 ring, rp_u32 full, rp_u32 empty, int high, int &n)
{
    typedef typename P::tile T;
    part.multiply(ring, full, empty, high, n, 0, T::SLICES > 1 ? (int)T::SLICE : (int)T::CHUNKS);
    for (int begin = T::SLICE; T::SLICES > 1 && begin < T::CHUNKS; begin += T::SLICE) {
        const int end = begin + T::SLICE < T::CHUNKS ? begin + T::SLICE : (int)T::CHUNKS;
        if (!P::sliced(job)) {
            part.multiply(ring, full, empty, high, n, begin, end, true);
            continue;
        }
        rk_part<T> next;
        next.multiply(ring, full, empty, high, n, begin, end);
        part.add(next);
    }
}

/* N elements of two matrices as bf16, two of a word: those near zero together, else one by one. */
template <class P, int N>
RP_FN void rk_elements_near(const float (*s)[2], rp_u32 *two)
{
    bool near = true;
#pragma unroll
    for (int j = 0; j < N; j++) near = near && P::near(s[j]);
    if (near) {
#pragma unroll
        for (int j = 0; j < N / 2; j++) two[j] = P::value_near(s[2 * j]) | (rp_u32)P::value_near(s[2 * j + 1]) << 16;
        return;
    }
#pragma unroll 1
    for (int j = 0; j < N; j++) { /* seldom: little code, and no array that is indexed */
        float mine[2] = {s[0][0], s[0][1]};
#pragma unroll
        for (int k = 1; k < N; k++)
            if (k == j) mine[0] = s[k][0], mine[1] = s[k][1];
        const rp_u32 made = P::value(mine);
#pragma unroll
        for (int k = 0; k < N; k++)
            if (k == j) two[k / 2] = k % 2 ? (two[k / 2] & 0xffffu) | made << 16 : made;
    }
}

/* The same where a value has so few steps (P::SWIFT) that it may be rounded to another bf16, if it is close to the middle between two: those are made once more. */
template <class P, int N, int AT_ONCE, bool SWIFT = P::SWIFT>
struct rk_elements {
    enum { CLOSE = 2 * rk_swift::OFF + 4 }; /* a half may get a carry from the other */

    RP_INLINE bool is_close(rp_u32 halves, int j) { return (halves >> j % 2 * 16 & 0xffffu) < CLOSE; }

    RP_FN void run(const float (*s)[2], rp_u32 *two)
    {
        float v[N];
        rp_u32 halves[N / 2], least = 0xffffffffu, again = 0;
        bool swift = true;
#pragma unroll
        for (int j = 0; j < N; j++) {
            swift = swift && P::swift(s[j]);
            v[j] = P::value_swift(s[j]);
        }
#pragma unroll
        for (int j = 0; j < N / 2; j++) { /* what rounding drops, counted from below the middle */
            halves[j] = rk_low_halves(__float_as_uint(v[2 * j]), __float_as_uint(v[2 * j + 1])) + (0x8000u + CLOSE / 2) * 0x10001u;
            least = rk_lesser_halves(least, halves[j]);
            two[j] = rk_pack(v[2 * j], v[2 * j + 1]);
        }
        if (swift && !is_close(least, 0) && !is_close(least, 1)) return;
#pragma unroll
        for (int j = 0; j < N; j++) again |= (rp_u32)(!P::swift(s[j]) || is_close(halves[j / 2], j)) << j;
#pragma unroll 1
        for (int at = 0; at < N; at++) {
            float mine[2] = {s[0][0], s[0][1]};
            if (!(again >> at & 1)) continue;
#pragma unroll
            for (int k = 1; k < N; k++)
                if (k == at) mine[0] = s[k][0], mine[1] = s[k][1];
            const rp_u32 made = P::near(mine) ? P::value_near(mine) : P::value(mine);
#pragma unroll
            for (int k = 0; k < N; k++)
                if (k == at) two[k / 2] = k % 2 ? (two[k / 2] & 0xffffu) | made << 16 : (two[k / 2] & 0xffff0000u) | made;
        }
    }
};
template <class P, int N, int AT_ONCE>
struct rk_elements<P, N, AT_ONCE, false> {
    RP_FN void run(const float (*s)[2], rp_u32 *two)
    {
#pragma unroll
        for (int j = 0; j < N; j += AT_ONCE) rk_elements_near<P, AT_ONCE>(s + j, two + j / 2);
    }
};

/* Results of elements of two matrices that go to tiles: a thread makes eight neighbouring columns of a row, which lie side by side there, and threads behind each
 * other have rows behind each other. sums: of `rows` rows from row0 on. */
template <class P, bool TILED = P::TILED>
struct rk_pieces_of_tiles {
    enum { CAN = 0 };
    RP_INLINE void run(char *const *, const long long *, const rk_job &, long long, int, const float *) {}
};
template <class P>
struct rk_pieces_of_tiles<P, true> {
    typedef typename P::tile T;
    enum { CAN = 1, EACH = 8, OF_UNIT = P::COLUMNS / EACH };

    RP_INLINE void load(float (*s)[2], const float *own, int m, float scale)
    {
#pragma unroll
        for (int j = 0; j < EACH; j += 4) {
            const int4 four = *(const int4 *)(own + j);
            s[j][m] = __int_as_float(four.x) * scale;
            s[j + 1][m] = __int_as_float(four.y) * scale;
            s[j + 2][m] = __int_as_float(four.z) * scale;
            s[j + 3][m] = __int_as_float(four.w) * scale;
        }
    }

    RP_INLINE void make(rp_u16 *to, const float *own, float scale)
    {
        float s[EACH][2];
        rp_u32 two[EACH / 2];
        load(s, own, 0, scale);
        load(s, own + P::COLUMNS, 1, scale);
        rk_elements<P, EACH, EACH>::run(s, two);
        const int4 all = {(int)two[0], (int)two[1], (int)two[2], (int)two[3]};
        *(int4 *)to = all;
    }

    RP_INLINE void run(char *const *arg, const long long *dim, const rk_job &job, long long row0, int rows, const float *sums)
    {
        const rk_tiles tiles = P::tiles(dim);
        rp_u16 *const result = (rp_u16 *)P::result(arg);
#pragma unroll 1
        for (int i = threadIdx.x; i < job.n_units * OF_UNIT * T::PIECE; i += T::WORKERS) {
            const int row = i % T::PIECE, unit = i / T::PIECE / OF_UNIT, c = i / T::PIECE % OF_UNIT * EACH, column = (job.unit + unit) * P::COLUMNS + c;
            if (row >= rows || column >= P::ACROSS || (P::DEALT && !job.has(unit * 4 + c / 16))) continue;
            make(result + rk_tile_row(row0 + row, tiles) * P::ACROSS + rk_tile_column(row0 + row, column, tiles),
                 sums + row * T::ROW + unit * 2 * P::COLUMNS + c, P::scale(row0 + row));
        }
    }
};

/* The results of a job, piece by piece; r has asked for those of the first. */
template <class P>
RP_FN void rk_job_results(char *const *arg, const long long *dim, const rk_part<typename P::tile> &part, rk_results<P> &r, int rows)
{
    typedef typename P::tile T;
    float *const sums = (float *)(rk_dynamic + T::SUMS);
    const rk_job job = r.job;
    const long long row0 = r.row0;
    const int columns = job.tiles / job.n_units * 16;
    for (int p = 0; p < T::PIECES && p * T::PIECE < rows; p++) {
        const int n = rows - p * T::PIECE < T::PIECE ? rows - p * T::PIECE : (int)T::PIECE;
        if (p) {
            r.start(job, row0 + p * T::PIECE, n, 0, 1);
            if (P::DIRECT) r.ask(arg, dim, 0);
        }
        rk_sync_workers(); /* the sums before have been used */
        part.store(sums, p);
        rk_sync_workers();
        if (rk_pieces_of_tiles<P>::CAN) {
            rk_pieces_of_tiles<P>::run(arg, dim, job, row0 + p * T::PIECE, n, sums);
            continue;
        }
        for (int at = 0; P::DIRECT && at < r.pairs; at += r.EACH) {
            if (at) r.ask(arg, dim, at);
            r.put(arg, dim, at, sums);
        }
        for (int i = threadIdx.x / 32; !P::DIRECT && i < n * job.n_units; i += T::WORKERS / 32)
            P::end(arg, dim, job.unit + i % job.n_units, row0 + p * T::PIECE + i / job.n_units, sums + i / job.n_units * T::ROW + i % job.n_units * columns);
    }
}

/* The job of a cluster: every block has the sums of its slices and takes each SPLITS-th row. */
template <class P>
RP_FN void rk_run_split(char *const *arg, const long long *dim, const rk_share &s, rp_u32 ring, rp_u32 full, rp_u32 empty, int rows, typename P::facts &facts)
{
    typedef typename P::tile T;
    float *const sums = (float *)(rk_dynamic + T::SUMS);
    rk_results<P> r;
    rk_part<T> part[T::OWN];
    int n = 0;
    r.start(P::job(s.block), 0, rows, rk_cluster_rank(), T::SPLITS);
    r.ask(arg, dim, 0);
#pragma unroll
    for (int i = 0; i < T::OWN; i++) {
        const int begin = s.first + i * T::SLICE, left = T::CHUNKS - begin;
        part[i].multiply(ring, full, empty, s.high, n, begin, begin + (left < T::SLICE ? left : (int)T::SLICE));
    }
    facts.settle();
    rk_sync_workers(); /* the ring has been used */
#pragma unroll
    for (int i = 0; i < T::OWN; i++) part[i].store(sums + i * T::SUM, 0);
    rk_cluster_arrive();
    rk_cluster_wait();
    for (int at = 0; at < r.pairs; at += r.EACH) {
        if (at) r.ask(arg, dim, at);
        r.put(arg, dim, at, sums);
    }
    if (r.pairs <= 0) rk_cluster_arrive();
    rk_cluster_wait(); /* nobody ends while others read what it has */
}

/* Half of the rows of a job, whose sums over half of k the other block of the cluster has sent: a thread those of the same rows and columns as its own. */
template <class T>
struct rk_half_part {
    enum { SETS = 1, APART = 0, ROWS = T::HIGH / 2, BYTES = ROWS / 2 * 4 * 32 /* of a warp */ };
    static_assert(BYTES * (T::WORKERS / 32) <= T::SUM * 4, "room for what is sent");
    float d[ROWS / 2];

    RP_INLINE int tile(int set) { return rk_part<T>::tile(set); }
    RP_INLINE_MEMBER const float *set(int) const { return d; }
    RP_INLINE int4 *at(int i) { return (int4 *)(rk_dynamic + T::SUMS + threadIdx.x / 32 * BYTES + i / 4 * 512 + threadIdx.x % 32 * 16); }

    /* Keeps half `rank` and sends the other. */
    RP_INLINE_MEMBER void take(const rk_part<T> &all, int rank)
    {
        int4 *const there = rk_of_block(at(0), 1 - rank);
#pragma unroll
        for (int i = 0; i < ROWS / 2; i += 4) {
            int sent[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float low = all.set(0)[i + j], high = all.set(0)[ROWS / 2 + i + j];
                d[i + j] = rank ? high : low;
                sent[j] = (int)__float_as_uint(rank ? low : high);
            }
            const int4 four = {sent[0], sent[1], sent[2], sent[3]};
            there[at(i) - at(0)] = four;
        }
    }
    RP_INLINE_MEMBER void add_sent()
    {
#pragma unroll
        for (int i = 0; i < ROWS / 2; i += 4) {
            const int4 four = *at(i);
            d[i] += __int_as_float(four.x);
            d[i + 1] += __int_as_float(four.y);
            d[i + 2] += __int_as_float(four.z);
            d[i + 3] += __int_as_float(four.w);
        }
        __syncwarp(); /* a warp's results go through the same room */
    }
};

/* The job of a cluster, if there is one. */
template <class P, int BLOCKS = P::tile::SPLITS, bool HALVES = P::tile::HALVES>
struct rk_shared_job {
    RP_FN void run(char *const *arg, const long long *dim, const rk_share &s, rp_u32 ring, rp_u32 full, rp_u32 empty, long long rows, typename P::facts &facts)
    {
        rk_run_split<P>(arg, dim, s, ring, full, empty, (int)rows, facts);
    }
};
template <class P>
struct rk_shared_job<P, 1, false> {
    RP_INLINE void run(char *const *, const long long *, const rk_share &, rp_u32, rp_u32, rp_u32, long long, typename P::facts &) {}
};

/* Of many rows, by two who have a half of k each, and of whose threads all have arrived once before. */
template <class P>
struct rk_shared_job<P, 2, true> {
    typedef typename P::tile T;
    typedef rk_half_part<T> half_of;
    typedef typename rk_results_of_warp<P, half_of>::type results;
    static_assert(P::DIRECT && !P::TOGETHER && !P::KEEPS && !P::DEALT && results::FLOATS * 4 <= half_of::BYTES, "results of a warp");

    RP_FN void run(char *const *arg, const long long *dim, const rk_share &s, rp_u32 ring, rp_u32 full, rp_u32 empty, long long rows, typename P::facts &facts)
    {
        if (s.block >= s.jobs) return;
        const int rank = rk_cluster_rank();
        const rk_job job = P::job(s.block / s.row_tiles);
        const long long row0 = (long long)(s.block % s.row_tiles) * T::COLUMNS + rank * half_of::ROWS;
        const results r = {job, row0, rows - row0 < half_of::ROWS ? (int)(rows - row0) : (int)half_of::ROWS,
                           (float *)(rk_dynamic + T::SUMS + threadIdx.x / 32 * half_of::BYTES)};
        float asked[results::N][P::ASKED];
        rk_part<T> part;
        half_of half;
        int n = 0;
        r.start(arg, dim, asked);
        part.multiply(ring, full, empty, s.high, n, s.first, s.first + s.chunks);
        facts.settle();
        rk_cluster_wait(); /* the other block is there */
        half.take(part, rank);
        rk_cluster_arrive();
        rk_cluster_wait();
        half.add_sent();
        r.run(arg, dim, half, asked);
    }
};

/* By one thread: the barriers of each stage, one for those who fill it and one for those who read it. */
template <class T>
RP_FN void rk_ring_open(rp_u32 full, rp_u32 empty)
{
    for (int i = 0; i < T::STAGES; i++) {
        rk_barrier_init(full + 8 * i, T::FETCHERS);
        rk_barrier_init(empty + 8 * i, T::READERS);
    }
}

/* P: tile, an epilogue, JOBS and job(), whether there is but one tile of rows, so that weights are read ONCE, and whether jobs are DEALT: the last of a block may be none, or have some of its tiles. x: as rk_arrange_rows leaves it. */
template <class P>
RP_FN void rk_run_many(char *const *arg, const long long *dim, const char *x, const char *w, long long rows)
{
    typedef typename P::tile T;
    enum { OF_WARPS = P::DIRECT && !P::TOGETHER && (P::PAIRS || P::MATS == 1) };
    static_assert(!P::KEEPS || (OF_WARPS && T::SPLITS == 1), "whole sums");
    const rk_share s = rk_share_of<P>(rows);
    const rp_u32 ring = rk_shared(rk_dynamic), full = ring + T::BARS, empty = full + T::STAGES * 8;
    if (threadIdx.x == 0) {
        rk_ring_open<T>(full, empty);
        rk_barriers_visible();
    }
    __syncthreads();
    if (T::HALVES) rk_cluster_arrive();
    if (threadIdx.x >= T::WORKERS) {
        if (T::BUSY) rk_give_registers<24>();
        const rk_source<P> source = {w, x, ring, full, empty, s};
        source.run();
        return;
    }
    if (T::BUSY) rk_take_registers<240>();
    typename P::facts facts;
    typename P::kept kept;
    facts.before(arg, dim);
    rk_wait();
    facts.ask(arg, dim);
    if (T::SPLITS > 1) {
        rk_shared_job<P>::run(arg, dim, s, ring, full, empty, rows, facts);
        return;
    }
    int n = 0;
    for (int at = s.block; at < s.jobs; at += s.blocks) {
        const long long row0 = (long long)(at % s.row_tiles) * T::COLUMNS;
        const int here = rows - row0 < T::COLUMNS ? (int)(rows - row0) : (int)T::COLUMNS;
        const rk_job job = P::job(at / s.row_tiles);
        if (P::DEALT && !job.tiles) break;
        rk_part<T> part;
        if (OF_WARPS) {
            typedef typename rk_results_of_warp<P, rk_part<T>>::type results;
            const results r = {job, row0 + part.row(), here - part.row(), (float *)(rk_dynamic + T::SUMS) + threadIdx.x / 32 * results::FLOATS};
            static_assert(!OF_WARPS || results::FLOATS * (T::WORKERS / 32) <= T::SUM, "room of warps");
            float asked[results::N][P::ASKED];
            if (!part.again()) r.start(arg, dim, asked);
            rk_sum_slices<P>(part, job, ring, full, empty, s.high, n);
            if (at == s.block) facts.settle();
            if (T::ONE) rk_sync_workers(); /* the ring has been used */
            if (part.again()) continue;
            if (!facts.unread()) r.run(arg, dim, part, asked);
            kept.take(part, job);
            continue;
        }
        rk_results<P> r;
        r.start(job, row0, here < T::PIECE ? here : (int)T::PIECE, 0, 1);
        if (P::DIRECT) r.ask(arg, dim, 0);
        rk_sum_slices<P>(part, job, ring, full, empty, s.high, n);
        if (at == s.block) facts.settle();
        rk_job_results<P>(arg, dim, part, r, here);
    }
    kept.template leave<rk_part<T> >(arg, rk_dynamic + T::SUMS);
}
