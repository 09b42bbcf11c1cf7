/* Deals 16-row tiles of each matrix of a section in turns of two (32 rows), so that one work item
 * reads one sequential stream. */
#include "plan/pack.h"

#include "gen/pack.h"
#include "plan/exec.h"

enum { SHARE_BYTES = 1 << 18 }; /* what a thread packs at least */

static int64_t items_of(const plan_section *s) {
    return (s->rows + 31) / 32;
}

int64_t plan_pack_bytes(const plan_pack *k) {
    size_t tile = gen_pack_tile_size(k->dtype, k->k);
    int64_t tiles = 0, more, bytes;
    if (tile == 0 || tile > INT64_MAX) return -1;
    for (uint32_t i = 0; i < k->n_sections; i++)
        if (k->sections[i].rows < 0 || k->sections[i].rows > INT64_MAX - 31 ||
            __builtin_mul_overflow(items_of(&k->sections[i]), 2 * (int64_t)k->sections[i].n_params,
                                   &more) ||
            __builtin_add_overflow(tiles, more, &tiles))
            return -1;
    return __builtin_mul_overflow(tiles, (int64_t)tile, &bytes) ? -1 : bytes;
}

/* Tiles [begin, end) of a pack, in the order of their places. */
static void fill_tiles(const plan_pack *k, const void *const *params, char *dst, int64_t begin,
                       int64_t end) {
    const size_t tile = gen_pack_tile_size(k->dtype, k->k);
    int64_t base = 0;
    for (uint32_t s = 0; s < k->n_sections && base < end; s++) {
        const plan_section *sec = &k->sections[s];
        int64_t step = 2 * (int64_t)sec->n_params, next = base + items_of(sec) * step;
        for (int64_t at = begin > base ? begin : base; at < end && at < next; at++) {
            /* A last one may be past the end: zeros. */
            int64_t m = (at - base) % step / 2, t = (at - base) / step * 2 + (at - base) % 2;
            char *to = dst + (size_t)at * tile;
            (sec->by_k >> m & 1 ? gen_pack_tile_by_k : gen_pack_tile)(
                k->dtype, params[sec->params[m]], sec->rows, k->k, t, to);
            if (k->swizzled) gen_pack_swizzle(k->k, to);
        }
        base = next;
    }
}

static int64_t tiles_of(const plan_pack *k) {
    int64_t n = 0;
    for (uint32_t s = 0; s < k->n_sections; s++)
        n += items_of(&k->sections[s]) * 2 * (int64_t)k->sections[s].n_params;
    return n;
}

void plan_pack_fill(const plan *p, uint32_t i, const void *const *params, void *dst_of_pack) {
    fill_tiles(&p->packs[i], params, dst_of_pack, 0, tiles_of(&p->packs[i]));
}

/* As a kernel: the pack, the parameters and the place. */
static void fill_share(void *const *arg, const long long *dim, long long begin, long long end,
                       void *scratch) {
    (void)dim, (void)scratch;
    fill_tiles(arg[0], (const void *const *)arg[1], arg[2], begin, end);
}

rp_status plan_pack_fill_on(hal_device *d, const plan *p, uint32_t i, const void *const *params,
                            void *dst_of_pack, rp_error *err) {
    const plan_pack *k = &p->packs[i];
    void *arg[3] = {(void *)(uintptr_t)k, (void *)(uintptr_t)params, dst_of_pack};
    const int64_t tile = (int64_t)gen_pack_tile_size(k->dtype, k->k);
    const hal_launch pack = {.kind = HAL_KERNEL,
                             .name = "pack",
                             .fn.host = fill_share,
                             .arg = arg,
                             .n_arg = 3,
                             .items = tiles_of(k),
                             .grain = SHARE_BYTES / tile + 1};
    return d->ops->launch(d, &pack, 1, 0, err);
}
