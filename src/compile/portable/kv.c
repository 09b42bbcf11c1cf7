/* kv_store: rows of x into the cache [block][kv head][slot][dim], rounded to its type; a negative slot skips the
 * row. Operands: x, slots, cache. Own forms: stride of the columns of x, kv heads, positions a block, head_dim. */
#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

typedef struct cache {
    int64_t step, kv_heads, size, head_dim;
} cache;

static void store_row(const cache *c, const box_operand *x, int64_t from, const box_operand *to,
                      int64_t slot) {
    float run[BOX_RUN];
    for (int64_t h = 0; h < c->kv_heads; h++) {
        int64_t place = ((slot / c->size * c->kv_heads + h) * c->size + slot % c->size) *
                        c->head_dim;
        for (int64_t d = 0; d < c->head_dim; d += BOX_RUN) {
            int64_t n = RP_MIN(c->head_dim - d, BOX_RUN);
            portable_load_f32(x, from + (h * c->head_dim + d) * c->step, c->step, n, run);
            portable_store_f32(to, place + d, 1, n, run);
        }
    }
}

static void kv_run(const box *b, const int64_t *at, void *user) {
    for (int64_t i = 0; i < b->dim[0]; i++) {
        int32_t slot;
        portable_load_i32(&b->op[1], at[1] + i * b->op[1].stride[0], 1, 1, &slot);
        if (slot >= 0) store_row(user, &b->op[0], at[0] + i * b->op[0].stride[0], &b->op[2], slot);
    }
}

void portable_kv_store(void *const *arg, const long long *dim, long long begin, long long end,
                       void *scratch) {
    const eager_record *r = arg[3];
    cache c = {eager_record_own(r, 0, dim), eager_record_own(r, 1, dim),
               eager_record_own(r, 2, dim), eager_record_own(r, 3, dim)};
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, kv_run, &c);
}
