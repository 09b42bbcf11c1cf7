#include "support/random_maker.h"

#include <assert.h>
#include <stdio.h>

uint64_t random_draw(random_maker *m) {
    uint64_t z = m->rng += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t random_pick(random_maker *m, uint32_t n) {
    return (uint32_t)(random_draw(m) >> 33) % n;
}

ir_ref random_add(random_maker *m, ir_op op, const ir_ref *in, uint32_t n, const ir_attr *a,
                  uint32_t n_a) {
    ir_ref r = 0;
    if (m->st == RP_OK) m->st = ir_add(m->g, op, in, n, a, n_a, &r, m->err);
    return r;
}

ir_ref random_leaf(random_maker *m, ir_leaf kind, char letter, uint32_t at, rp_dtype t,
                   ir_shape s) {
    char name[16];
    ir_ref r = 0;
    (void)snprintf(name, sizeof name, "%c%u", letter, at);
    if (m->st == RP_OK) m->st = ir_add_leaf(m->g, kind, name, t, s, &r, m->err);
    return r;
}

ir_ref random_op1(random_maker *m, ir_op op, ir_ref a) {
    return random_add(m, op, &a, 1, NULL, 0);
}

ir_ref random_op2(random_maker *m, ir_op op, ir_ref a, ir_ref b) {
    return random_add(m, op, (ir_ref[]){a, b}, 2, NULL, 0);
}

ir_ref random_const(random_maker *m, rp_dtype t, double v) {
    ir_ref r = 0;
    if (m->st == RP_OK) m->st = ir_add_const(m->g, t, v, &r, m->err);
    return r;
}

ir_ref random_cast(random_maker *m, ir_ref a, rp_dtype t) {
    return random_add(m, IR_cast, &a, 1, &(ir_attr){.key = IR_ATTR_DTYPE, .u.i = t}, 1);
}

ir_ref random_reduce(random_maker *m, ir_op op, ir_ref a, int64_t axis, bool keep) {
    ir_attr at[2] = {{.key = IR_ATTR_AXIS, .u.i = axis}, {.key = IR_ATTR_KEEP, .u.i = keep}};
    return random_add(m, op, &a, 1, at, 2);
}

ir_ref random_slice(random_maker *m, ir_ref a, int64_t axis, ir_dim start, ir_dim stop) {
    ir_attr at[3] = {{.key = IR_ATTR_AXIS, .u.i = axis},
                     {.key = IR_ATTR_START, .u.dim = start},
                     {.key = IR_ATTR_STOP, .u.dim = stop}};
    return random_add(m, IR_slice, &a, 1, at, 3);
}

ir_ref random_reshape(random_maker *m, ir_ref a, const ir_dim *dim, uint32_t n) {
    ir_attr at = {.key = IR_ATTR_SHAPE, .n = n, .u.dims = dim};
    return random_add(m, IR_reshape, &a, 1, &at, 1);
}

void random_put(random_maker *m, random_pool *p, random_item x) {
    p->item[p->n < RANDOM_POOL ? p->n++ : random_pick(m, RANDOM_POOL)] = x;
}

random_item random_any(random_maker *m, const random_pool *p) {
    assert(p->n > 0);
    uint32_t a = random_pick(m, p->n), b = random_pick(m, p->n);
    return p->item[a > b ? a : b];
}

random_item random_exact(random_maker *m, const random_pool *p) {
    for (int i = 0; i < 8; i++) {
        random_item x = random_any(m, p);
        if (x.exact) return x;
    }
    return p->item[0];
}

rp_status random_finish(random_maker *m, const random_pool *p, uint32_t n, ir_graph **out) {
    ir_ref ret[3];
    uint32_t n_ret = 0;
    for (uint32_t i = 0; m->st == RP_OK && i < n; i++) {
        ir_ref r = i == 0 ? p->item[p->n - 1].ref : random_any(m, p).ref;
        bool twice = false;
        for (uint32_t k = 0; k < n_ret; k++) twice = twice || ret[k] == r;
        if (!twice) ret[n_ret++] = r;
    }
    if (m->st == RP_OK) m->st = ir_graph_finish(m->g, ret, n_ret, m->err);
    if (m->st == RP_OK)
        *out = m->g;
    else
        ir_graph_free(m->g);
    return m->st;
}
