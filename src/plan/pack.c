/* Deals 16-row tiles of each matrix of a section in turns of two (32 rows), so that one work item
 * reads one sequential stream. */
#include "plan/pack.h"

#include "gen/pack.h"
#include "plan/exec.h"

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

void plan_pack_fill(const plan *p, uint32_t i, const void *const *params, void *dst_of_pack) {
    const plan_pack *k = &p->packs[i];
    size_t tile = gen_pack_tile_size(k->dtype, k->k);
    int64_t base = 0;
    for (uint32_t s = 0; s < k->n_sections; s++) {
        const plan_section *sec = &k->sections[s];
        int64_t tiles = 2 * items_of(sec),
                step = 2 * (int64_t)sec->n_params; /* a last one may be past the end: zeros */
        for (uint32_t m = 0; m < sec->n_params; m++)
            for (int64_t t = 0; t < tiles; t++) {
                int64_t place = base + t / 2 * step + m * 2 + t % 2;
                void *to = (char *)dst_of_pack + (size_t)place * tile;
                (sec->by_k >> m & 1 ? gen_pack_tile_by_k : gen_pack_tile)(
                    k->dtype, params[sec->params[m]], sec->rows, k->k, t, to);
                if (k->swizzled) gen_pack_swizzle(k->k, to);
            }
        base += items_of(sec) * step;
    }
}
