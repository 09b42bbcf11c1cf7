/* Affine forms of index values, the reasoning behind the builders' folding of div and mod.
 *
 * A form is bounded (8 terms, 16 levels deep); what does not fit is one opaque term or `overflow`,
 * and then nothing is folded. */
#include "kir/affine.h"

#define MAX_LEVELS 16

static void add_const(kir_affine *a, int64_t c) {
    if (__builtin_add_overflow(a->c, c, &a->c)) a->overflow = true;
}

static void add_term(kir_affine *a, kir_ref r, int64_t k) {
    if (!k) return;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->term[i].ref != r) continue;
        a->merged = true;
        if (__builtin_add_overflow(a->term[i].k, k, &a->term[i].k)) a->overflow = true;
        if (a->term[i].k == 0) a->term[i] = a->term[--a->n];
        return;
    }
    if (a->n == KIR_MAX_TERMS) {
        a->overflow = true;
        return;
    }
    a->term[a->n].ref = r;
    a->term[a->n++].k = k;
}

static void add_level(const kir_func *f, kir_ref r, int64_t k, int level, kir_affine *a) {
    const kir_inst *in = &f->insts[r];
    int64_t c, kc;

    if (a->overflow) return;
    if (kir_const_value(f, r, &c)) {
        if (__builtin_mul_overflow(c, k, &kc))
            a->overflow = true;
        else
            add_const(a, kc);
    } else if (level && (in->op == KIR_IADD || in->op == KIR_ISUB) && k != INT64_MIN) {
        add_level(f, in->in[0], k, level - 1, a);
        add_level(f, in->in[1], in->op == KIR_IADD ? k : -k, level - 1, a);
    } else if (level && in->op == KIR_IMUL && kir_const_value(f, in->in[1], &c) &&
               !__builtin_mul_overflow(c, k, &kc)) {
        add_level(f, in->in[0], kc, level - 1, a);
    } else {
        add_term(a, r, k);
    }
}

void kir_affine_add(const kir_func *f, kir_ref r, int64_t k, kir_affine *a) {
    add_level(f, r, k, MAX_LEVELS, a);
}

/* Whether div is y / d; where y is x / c itself, that was built as x / (c*d). */
static bool is_quotient(const kir_func *f, const kir_inst *div, kir_ref y, int64_t d) {
    const kir_inst *in = &f->insts[y];
    int64_t by, c, both;

    if (div->op != KIR_IDIV || !kir_const_value(f, div->in[1], &by)) return false;
    if (div->in[0] == y) return by == d;
    return in->op == KIR_IDIV && in->in[0] == div->in[0] && kir_const_value(f, in->in[1], &c) &&
           !__builtin_mul_overflow(c, d, &both) && both == by;
}

/* One pair (x/d with factor d*k, x%d with factor k); whether one was found. */
static bool rejoin_pair(const kir_func *f, kir_affine *a) {
    for (uint32_t i = 0; i < a->n; i++) {
        const kir_inst *mod = &f->insts[a->term[i].ref];
        int64_t d, k = a->term[i].k, kd;
        if (mod->op != KIR_IMOD || !kir_const_value(f, mod->in[1], &d)) continue;
        if (__builtin_mul_overflow(k, d, &kd)) continue;
        for (uint32_t j = 0; j < a->n; j++) {
            const kir_inst *div = &f->insts[a->term[j].ref];
            kir_ref x = mod->in[0];
            if (a->term[j].k != kd || !is_quotient(f, div, x, d)) continue;
            add_term(a, a->term[j].ref, -kd); /* moves the last term into its place */
            for (uint32_t m = 0; m < a->n; m++) {
                if (&f->insts[a->term[m].ref] == mod) {
                    a->term[m] = a->term[--a->n];
                    break;
                }
            }
            kir_affine_add(f, x, k, a);
            a->merged = true;
            return true;
        }
    }
    return false;
}

void kir_affine_rejoin(const kir_func *f, kir_affine *a) {
    while (!a->overflow && rejoin_pair(f, a)) continue;
}

kir_range kir_affine_range(const kir_func *f, const kir_affine *a) {
    kir_range sum = {a->c, a->c};

    if (a->overflow) return KIR_RANGE_ALL;
    for (uint32_t i = 0; i < a->n; i++) {
        kir_range r = f->ranges[a->term[i].ref];
        int64_t k = a->term[i].k, lo, hi;
        if (__builtin_mul_overflow(k > 0 ? r.lo : r.hi, k, &lo) ||
            __builtin_mul_overflow(k > 0 ? r.hi : r.lo, k, &hi) ||
            __builtin_add_overflow(sum.lo, lo, &sum.lo) ||
            __builtin_add_overflow(sum.hi, hi, &sum.hi)) {
            return KIR_RANGE_ALL;
        }
    }
    return sum;
}

void kir_affine_split(const kir_affine *a, int64_t d, kir_affine *quot, kir_affine *rest) {
    *quot = (kir_affine){.c = kir_floordiv(a->c, d), .overflow = a->overflow};
    *rest = (kir_affine){.c = kir_mod(a->c, d), .overflow = a->overflow};
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->term[i].k % d == 0)
            add_term(quot, a->term[i].ref, a->term[i].k / d);
        else
            add_term(rest, a->term[i].ref, a->term[i].k);
    }
}

/* Positive terms first, so that a difference needs no negation. */
kir_ref kir_affine_emit(kir_func *f, const kir_affine *a) {
    kir_ref sum = KIR_NONE;
    int64_t c = a->c;

    for (int negative = 0; negative < 2; negative++) {
        for (uint32_t i = 0; i < a->n; i++) {
            int64_t k = a->term[i].k;
            kir_ref t = a->term[i].ref;
            if ((k < 0) != negative) continue;
            if (sum == KIR_NONE && k < 0) {
                sum = kir_const_i(f, c);
                c = 0;
            }
            if (k < 0) {
                t = k == -1 ? t : kir_bin(f, KIR_IMUL, t, kir_const_i(f, -k));
                sum = kir_append_shared(f, KIR_ISUB, sum, t, KIR_NONE);
            } else {
                t = k == 1 ? t : kir_bin(f, KIR_IMUL, t, kir_const_i(f, k));
                sum = sum == KIR_NONE ? t : kir_append_shared(f, KIR_IADD, sum, t, KIR_NONE);
            }
        }
    }
    if (sum == KIR_NONE) return kir_const_i(f, c);
    if (!c || f->failed) return f->failed ? KIR_NONE : sum;
    return kir_append_shared(f, KIR_IADD, sum, kir_const_i(f, c), KIR_NONE);
}
