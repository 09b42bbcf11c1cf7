/* Products of float rows whose results are stored as they are: what a record says, as the descriptor of a template. */
#include "gen/product.h"

#include <string.h>

#include "gen/templates.h"
#include "gen/embed/prelude.h"
#include "gen/embed/product.h"

#define COLUMNS 32 /* of a work item */

_Static_assert(GEN_PRODUCT_BATCH == RP_MMF_BATCH, "batch dims of a product");

typedef struct call {
    const gen_product_record *r;
    void *const *arg;
} call;

/* --- results ------------------------------------------------------------------------ */

static void put(const call *c, uint32_t part, long long row0, int n, long long item,
                const float *acc) {
    const int64_t columns = c->r->part[part].columns, first = item * COLUMNS;
    float *to = (float *)c->arg[3 + part] + row0 * columns + first;
    const int64_t count = RP_MIN(columns - first, COLUMNS);
    for (int i = 0; i < n; i++, to += columns, acc += COLUMNS) {
        int64_t j = 0;
        if (count == COLUMNS) {
            memcpy(to, acc, COLUMNS * sizeof *to);
            continue;
        }
        /* A call of memcpy takes longer than so few. */
        for (; j + 4 <= count; j += 4) memcpy(to + j, acc + j, 4 * sizeof *to);
        for (; j < count; j++) to[j] = acc[j];
    }
}

#define DONE(part)                                                                                 \
    static void done_##part(const void *user, long long row0, int n, long long item, float *acc) { \
        put(user, part, row0, n, item, acc);                                                       \
    }
DONE(0)
DONE(1)
DONE(2)
DONE(3)
static rp_mmf_done_fn *const done[GEN_PRODUCT_PARTS] = {done_0, done_1, done_2, done_3};

/* --- operands ------------------------------------------------------------------------- */

static rp_mmf_side side_of(const rp_templates *t, const gen_product_side *s, uint32_t dtype,
                           const void *base) {
    const int size = dtype == RP_DTYPE_F32 ? 4 : 2;
    rp_mmf_side side = {.base = (const rp_u8 *)base + s->offset * size,
                        .step = s->step,
                        .k_step = s->k_step,
                        .size = size};
    side.load = dtype == RP_DTYPE_F32   ? t->rp_mmf_load_f32
                : dtype == RP_DTYPE_F16 ? t->rp_mmf_load_f16
                                        : t->rp_mmf_load_bf16;
    for (uint32_t i = 0; i < GEN_PRODUCT_BATCH; i++) side.batch[i] = s->batch[i];
    return side;
}

static void take_tiles(const rp_templates *t, rp_dtype dtype, rp_mmf *p) {
#define FORMAT(id, fmt)                              \
    case RP_DTYPE_##id:                              \
        p->tile = t->rp_mmw_##fmt;                   \
        p->tile_size = (rp_size)RP_TILE_##fmt(p->k); \
        break;
    switch (dtype) {
        FORMAT(F16, f16)
        FORMAT(BF16, bf16)
        FORMAT(Q4_0, q4_0)
        FORMAT(Q4_1, q4_1)
        FORMAT(Q8_0, q8_0)
    default:
        p->tile = t->rp_mmw_f32;
        p->tile_size = (rp_size)RP_TILE_f32(p->k);
        break;
    }
#undef FORMAT
}

static void run(const rp_templates *t, void *const *arg, long long begin, long long end,
                void *scratch) {
    const gen_product_record *r = arg[2];
    const call c = {r, arg};
    rp_mmf_part part[GEN_PRODUCT_PARTS]; /* n_parts of them */
    rp_mmf p = {.rows = r->rows,
                .block = r->block,
                .k = r->k,
                .columns = r->columns,
                .items = r->items,
                .x = side_of(t, &r->x, r->x_dtype, arg[0]),
                .part = part,
                .user = &c};
    for (uint32_t i = 0; i < GEN_PRODUCT_BATCH; i++) p.batch[i] = r->batch[i];
    if (r->packed)
        take_tiles(t, (rp_dtype)r->w_dtype, &p);
    else
        p.w = side_of(t, &r->w, r->w_dtype, arg[1]);
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const gen_product_part *q = &r->part[i];
        part[i] = (rp_mmf_part){(q->columns + COLUMNS - 1) / COLUMNS, 1, NULL, done[i]};
        if (r->packed) part[i].tiles = (const rp_u8 *)arg[1] + (size_t)q->first_tile * p.tile_size;
    }
    t->rp_mmf_run(&p, begin, end, scratch);
}

/* --- kernels ------------------------------------------------------------------------------ */

#define KERNEL(isa)                                                                                \
    void gen_product_##isa(void *const *arg, const long long *dim, long long begin, long long end, \
                           void *scratch) {                                                        \
        (void)dim;                                                                                 \
        run(&gen_templates_##isa, arg, begin, end, scratch);                                       \
    }
KERNEL(portable)
#if defined(__x86_64__)
KERNEL(avx2)
KERNEL(avx512)
#endif
