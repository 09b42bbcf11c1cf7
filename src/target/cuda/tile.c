/* How products of floats are cut into tiles (gen/embed/tile.cu), by what was measured on an H200: a thread of 4 x 4 to 8 x 4 sums
 * in two groups where every processor has two tiles, smaller tiles and more groups where there are not so many. */
#include "target/cuda/tile.h"

#include <inttypes.h>

enum {
    CHUNK = 256,   /* RK_TILE_CHUNK */
    SLAB_K = 16,   /* RK_TILE_K */
    STAGES = 4,    /* RK_TILE_STAGES */
    THREADS = 256, /* an epilogue's at least: a warp for each of its rows */
    PROCESSORS = 132,
    LEAST_SHARED = 99 << 10, /* of any GPU that there is code for */
    BESIDE = 8 << 10         /* what an epilogue has of its own */
};

static int64_t div_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

uint32_t target_tile_rows(int64_t most_rows, int64_t beside, bool square) {
    const uint32_t least = TARGET_TILE_ROWS / 2;
    const int64_t enough = square ? PROCESSORS : 2 * PROCESSORS;
    if (most_rows <= least) return least;
    return div_up(most_rows, TARGET_TILE_ROWS) >= div_up(enough, beside) ? TARGET_TILE_ROWS : least;
}

/* k of a group's share, which is that of the first one. */
static int64_t share(int64_t k, uint32_t groups) {
    const int64_t rest = k % (CHUNK * groups);
    return k / (CHUNK * groups) * CHUNK + (rest < CHUNK ? rest : CHUNK);
}

static target_tile fastest(uint32_t rows, uint32_t columns, int64_t k, int64_t tiles, bool alone) {
    target_tile t = {rows, columns, 1, rows / 16, THREADS};
    if (k <= CHUNK || columns > 64) return t;
    t.groups = 2;
    if (rows < TARGET_TILE_ROWS) {
        t.own = 4;
        if (share(k, 4) < share(k, 2) && tiles <= 2 * PROCESSORS) t.groups = 4;
        if (!alone || tiles > PROCESSORS || columns > 32 || share(k, 8) >= share(k, 4)) return t;
        t.groups = 8;
        t.threads = 2 * THREADS;
    } else if (columns > 32) {
        t.own = 8;
    } else if (tiles < 2 * PROCESSORS && share(k, 4) * 2 == share(k, 2)) {
        t.groups = 4;
    }
    return t;
}

target_tile target_tile_of(uint32_t rows, uint32_t columns, int64_t k, int64_t tiles, bool alone,
                           uint32_t shared) {
    target_tile t = fastest(rows, columns, k, tiles, alone);
    const int64_t most = (shared ? shared : LEAST_SHARED) - BESIDE;
    if (target_tile_bytes(t) <= most) return t;
    t.threads = THREADS;
    while (t.groups > 2 && target_tile_bytes(t) > most) t.groups /= 2;
    return t;
}

uint32_t target_tile_per_sm(target_tile t, int64_t tiles) {
    const uint32_t sums = t.rows * t.columns * t.groups / t.threads;
    if (t.threads > THREADS || sums > 32) return 1;
    return sums <= 16 && tiles > 2 * PROCESSORS ? 3 : 2;
}

int64_t target_tile_bytes(target_tile t) {
    const int64_t sums = t.groups > 1 ? t.groups - 1 : 1;
    const int64_t slab = t.rows * (SLAB_K + 4) + SLAB_K * t.columns;
    return (sums * t.rows * t.columns + t.groups * STAGES * slab) * 4;
}

void target_tile_put(base_buf *b, target_tile t, uint32_t per) {
    base_buf_printf(b,
                    "rk_tile<%u, %u, %u, %u, %u, %u> tile; "
                    "static_assert(RK_TILE_ROOM(%u, %u, %u) == %" PRId64 ", \"shared memory\");\n",
                    t.rows, t.columns, t.groups, t.own, t.threads, per, t.rows, t.columns, t.groups,
                    target_tile_bytes(t));
}
