#include "support/random_maker.h"

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
