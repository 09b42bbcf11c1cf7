/* The border of a step: its inputs come out of the host's memory, which this GPU reads over the bus, and its results go there.
 *
 * The host writes a block of numbers (gen/exchange.h) and launches; nobody copies. A block is taken once: a launch that finds none
 * behind the last one taken, such as a warm-up, leaves everything as it is. One block of threads each. */
struct alignas(16) rk_words {
    rp_i32 of[4];
};

/* Word `at` of a block goes where kernels look for it. Negative tokens are rows of the step before, whose ids are there. */
RP_INLINE void rk_place(const rp_i32 *head, long long at, const rp_i32 *word, const rp_i32 *ids, rp_i32 *arrays,
                        rp_i32 *draws, long long max_tokens, long long max_rows)
{
    const long long tokens = head[GEN_EXCHANGE_TOKENS], rows = head[GEN_EXCHANGE_ROWS], i = at - GEN_EXCHANGE_HEAD;
    const long long of_rows = i - 4 * tokens, of_draws = of_rows - rows - (rows & 1);
    const long long of_patches = of_draws - GEN_DRAW_WORDS * (long long)head[GEN_EXCHANGE_DRAWS];
    if (i < 0) return;
    if (of_rows < 0) {
        const long long array = (i >= tokens) + (i >= 2 * tokens) + (i >= 3 * tokens);
        arrays[array * max_tokens + i - array * tokens] = array == 0 && *word < 0 ? ids[-1 - *word] : *word;
    } else if (of_rows < rows) {
        arrays[4 * max_tokens + of_rows] = *word;
    } else if (of_draws >= 0 && of_patches < 0) {
        draws[of_draws] = *word;
    } else if (of_patches >= 0 && of_patches % 2 == 0) {
        if (of_patches < 2 * (long long)head[GEN_EXCHANGE_PATCHES]) arrays[4 * max_tokens + max_rows + word[0]] = word[1];
    }
}

extern "C" __global__ void __launch_bounds__(GEN_EXCHANGE_THREADS) rk_step_fetch(rp_i32 *blocks, rp_i32 *arrays, const rp_i32 *ids, rp_i32 *state, rp_i32 *draws, long long size, long long max_tokens, long long max_rows, long long max_results, long long items)
{
    __shared__ rp_i32 head[GEN_EXCHANGE_HEAD];
    rk_launch_dependents();
    rk_wait();
    const rp_u32 number = (rp_u32)state[GEN_EXCHANGE_NUMBER] + 1;
    const rk_words *block = (const rk_words *)(blocks + (number & 1) * size);
    long long at = threadIdx.x;
    rk_words four = block[at]; /* together with the head: the way over the bus is long */
    if (at < GEN_EXCHANGE_HEAD / 4)
        for (int e = 0; e < 4; e++) head[at * 4 + e] = four.of[e];
    __syncthreads();
    if ((rp_u32)head[GEN_EXCHANGE_NUMBER] != number) return;
    ids += max_results * head[GEN_EXCHANGE_FROM];
    const long long end = GEN_EXCHANGE_HEAD + 4 * (long long)head[GEN_EXCHANGE_TOKENS] + head[GEN_EXCHANGE_ROWS] +
                          (head[GEN_EXCHANGE_ROWS] & 1) + GEN_DRAW_WORDS * (long long)head[GEN_EXCHANGE_DRAWS] +
                          2 * (long long)head[GEN_EXCHANGE_PATCHES];
    for (;;) {
        for (int e = 0; e < 4; e++) rk_place(head, at * 4 + e, four.of + e, ids, arrays, draws, max_tokens, max_rows);
        at += GEN_EXCHANGE_THREADS;
        if (at * 4 >= end) break;
        four = block[at];
    }
    __syncthreads();
    if (threadIdx.x < GEN_EXCHANGE_STATE) state[threadIdx.x] = head[threadIdx.x];
    if (threadIdx.x == 0) blocks[2 * size] = (rp_i32)number; /* its place is free for the next but one */
}

/* The first block takes the rows whose token is that of the largest logit, each other one draws the token of a row, where that is drawn. */
extern "C" __global__ void __launch_bounds__(GEN_EXCHANGE_THREADS) rk_step_deliver(const rp_i32 *best, rp_i32 *host, rp_i32 *ids, const rp_i32 *state, const float *logits, const rp_i32 *draws, long long max_rows, long long vocab, long long items)
{
    __shared__ rk_draw_room room;
    rk_launch_dependents();
    rk_wait();
    const long long rows = state[GEN_EXCHANGE_ROWS] < max_rows ? state[GEN_EXCHANGE_ROWS] : max_rows;
    const long long place = state[GEN_EXCHANGE_PLACE], drawn = state[GEN_EXCHANGE_DRAWS];
    rp_i32 *to = host + 2 * max_rows * place;
    ids += max_rows * place;
    if (blockIdx.x == 0) {
        for (long long i = threadIdx.x; i < rows; i += GEN_EXCHANGE_THREADS) {
            to[i] = best[i];
            if (i >= drawn || draws[i * GEN_DRAW_WORDS + GEN_DRAW_SCALE] == 0) to[max_rows + i] = ids[i] = best[max_rows + i];
        }
        return;
    }
    const long long row = (long long)blockIdx.x - 1;
    const rp_i32 *p = draws + row * GEN_DRAW_WORDS;
    if (row >= rows || row >= drawn || p[GEN_DRAW_SCALE] == 0) return;
    const float top = rp_from_bits((rp_u32)best[row]);
    const bool sound = top > -RP_INF && top < RP_INF;
    if (sound) rk_draw(room, logits + row * vocab, vocab, top, p);
    if (threadIdx.x == 0) to[max_rows + row] = ids[row] = sound ? room.id : best[max_rows + row];
}
