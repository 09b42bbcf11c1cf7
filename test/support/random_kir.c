/* Random kernel IR: values of every class, out of values that are there. */
#include "support/random_kir.h"

#include <math.h>
#include <stdio.h>

#include "kir/inst.h"

const rp_dtype random_kir_types[RANDOM_KIR_TYPES] = {
    RP_DTYPE_F32, RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_I64,  RP_DTYPE_I32,
    RP_DTYPE_I16, RP_DTYPE_I8,  RP_DTYPE_U8,   RP_DTYPE_BOOL, RP_DTYPE_F64};
static uint32_t pick(random_kir *p, uint32_t n) {
    p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->seed >> 33) % n;
}

static kir_class class_of(const random_kir *p, kir_ref r) {
    return p->f->insts[r].cls;
}

/* Any value of this class; there is one of each from the start. */
static kir_ref some(random_kir *p, kir_class cls) {
    for (;;) {
        kir_ref r = p->value[pick(p, (uint32_t)p->n)];
        if (class_of(p, r) == cls) return r;
    }
}

static kir_class any_class(random_kir *p) {
    static const kir_class all[] = {KIR_F32, KIR_I32, KIR_I32, KIR_I64, KIR_F64};
    return all[pick(p, 5)];
}

static kir_ref elementwise(random_kir *p) {
    kir_class cls = any_class(p);
    for (;;) {
        ir_op op = (ir_op)pick(p, IR_OP_COUNT_);
        if (kir_is_float(cls) ? !ir_op_on_floats(op) : !ir_op_on_integers(op)) continue;
        int arity = ir_op_table(op)->arity;
        kir_ref a = some(p, cls), b = arity > 1 ? some(p, cls) : KIR_NONE;
        return kir_alu(p->f, op, a, b, arity > 2 ? some(p, cls) : KIR_NONE);
    }
}

static kir_ref index_arithmetic(random_kir *p) {
    static const kir_op ops[] = {KIR_IADD, KIR_ISUB, KIR_IMIN, KIR_IMAX, KIR_ILT, KIR_IMUL};
    kir_op op = ops[pick(p, 6)];
    /* not a product of two: its bounds could be those of all numbers */
    kir_ref b = op == KIR_IMUL ? kir_const_i(p->f, (int64_t)pick(p, 9) - 4) : some(p, KIR_INDEX);
    return kir_bin(p->f, op, some(p, KIR_INDEX), b);
}

static kir_ref any_value(random_kir *p) {
    static const int64_t masks[] = {0, 1, 7, 255, 256, INT32_MAX, -2, INT32_MIN};
    static const kir_class data[] = {KIR_F32, KIR_I32, KIR_I64, KIR_F64};
    kir_func *f = p->f;
    kir_class cls = any_class(p);
    kir_ref cond, a;
    switch (pick(p, 12)) {
    case 0: return kir_cvt(f, data[pick(p, 4)], some(p, cls));
    case 1: return kir_shr(f, some(p, KIR_I32), pick(p, 32));
    case 2: return kir_band(f, some(p, KIR_I32), masks[pick(p, 8)]);
    case 3:
        a = some(p, cls);
        for (;;) {
            rp_dtype t = random_kir_types[pick(p, RANDOM_KIR_TYPES)];
            if ((cls == KIR_F64) != (t == RP_DTYPE_F64) ||
                (kir_is_int(cls) ? ir_dtype_is_real(t) : t == RP_DTYPE_I64))
                continue;
            return kir_round_to(f, t, a);
        }
    case 4:
    case 5:
        cond = kir_bin(f, KIR_ILT, some(p, KIR_INDEX), some(p, KIR_INDEX));
        a = some(p, cls);
        return kir_select(f, cond, a, some(p, cls));
    case 6: return kir_from_index(f, data[pick(p, 4)], some(p, KIR_INDEX));
    case 7: return kir_to_index(f, some(p, KIR_I32));
    case 8: return index_arithmetic(p);
    case 9: return kir_cvt_odd(f, some(p, cls == KIR_F32 ? KIR_F64 : cls));
    default: return elementwise(p);
    }
}

kir_func *random_kir_new(random_kir *p, const char *called) {
    kir_func *f = p->f = kir_new(called, KIR_KERNEL, NULL);
    uint32_t in[RANDOM_KIR_TYPES];
    char name[8];
    for (uint32_t i = 0; i < RANDOM_KIR_TYPES; i++) {
        (void)snprintf(name, sizeof name, "x%u", i);
        in[i] = kir_add_buf(f, name, KIR_ARG, random_kir_types[i], i, 0, 0);
    }
    uint32_t real = kir_add_buf(f, "r", KIR_ARG, RP_DTYPE_F64, RANDOM_KIR_TYPES, 0, 0),
             whole = kir_add_buf(f, "w", KIR_ARG, RP_DTYPE_I64, RANDOM_KIR_TYPES + 1, 0, 0);
    kir_ref item = kir_begin(f, KIR_PAR, kir_const_i(f, RANDOM_KIR_ITEMS)),
            column = kir_begin(f, KIR_LOOP, kir_const_i(f, RANDOM_KIR_COLUMNS));
    kir_ref at = kir_bin(f, KIR_IADD,
                         kir_bin(f, KIR_IMUL, item, kir_const_i(f, RANDOM_KIR_COLUMNS)), column);
    p->value[p->n++] = item;
    p->value[p->n++] = column;
    for (uint32_t i = 0; i < RANDOM_KIR_TYPES; i++) p->value[p->n++] = kir_load(f, in[i], at);
    p->value[p->n++] = kir_const_f(f, 2.5);
    while (p->n < RANDOM_KIR_MOST) p->value[p->n++] = any_value(p);
    for (int k = 0; k < RANDOM_KIR_MOST; k++) {
        kir_ref v = p->value[k];
        kir_ref to = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, at, kir_const_i(f, RANDOM_KIR_MOST)),
                             kir_const_i(f, k));
        if (class_of(p, v) == KIR_INDEX) v = kir_from_index(f, KIR_I64, v);
        bool is_real = kir_is_float(class_of(p, v));
        kir_store(f, is_real ? real : whole, to, kir_cvt(f, is_real ? KIR_F64 : KIR_I64, v));
    }
    kir_end(f);
    kir_end(f);
    return f;
}

static int64_t special(random_kir *p) {
    static const int64_t all[] = {0,   1,   -1,        2,         -2,        5,        127,
                                  128, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    uint32_t i = pick(p, 20);
    return i < 13 ? all[i] : (int64_t)pick(p, 2001) - 1000;
}

void random_kir_fill(random_kir *p, rp_dtype t, void *to) {
    for (int i = 0; i < RANDOM_KIR_POINTS; i++) {
        int64_t v = special(p);
        float x = pick(p, 8) ? (float)v * 0.25f : INFINITY;
        uint16_t half = (uint16_t)(pick(p, 2) ? 0x3c00 + pick(p, 512) : 0xbf80 + pick(p, 128));
        switch (t) {
        case RP_DTYPE_F32: ((float *)to)[i] = x; break;
        case RP_DTYPE_I64: ((int64_t *)to)[i] = v; break;
        case RP_DTYPE_F64: ((double *)to)[i] = pick(p, 8) ? (double)v * 0.5 : -INFINITY; break;
        case RP_DTYPE_I32: ((int32_t *)to)[i] = (int32_t)v; break;
        case RP_DTYPE_I8:
        case RP_DTYPE_U8: ((uint8_t *)to)[i] = (uint8_t)v; break;
        case RP_DTYPE_BOOL: ((uint8_t *)to)[i] = v & 1; break;
        default: ((uint16_t *)to)[i] = half; break;
        }
    }
}
