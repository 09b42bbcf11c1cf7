/* Builders of index arithmetic: folding by ranges and affine forms, and sharing.
 *
 * A folded value equals the unfolded one for every value the symbols and counters can take. */
#include "base/gcd.h"
#include "kir/affine.h"

bool kir_const_value(const kir_func *f, kir_ref r, int64_t *out) {
    if (r >= f->n_insts || f->insts[r].cls != KIR_INDEX || f->ranges[r].lo != f->ranges[r].hi)
        return false;
    *out = f->ranges[r].lo;
    return true;
}

kir_ref kir_append_shared(kir_func *f, kir_op op, kir_ref a, kir_ref b, kir_ref c) {
    kir_inst in = {op, KIR_INDEX, {a, b, c}, c == KIR_NONE ? 2 : 3, {0}};

    if (f->failed || a == KIR_NONE || b == KIR_NONE) return KIR_NONE;
    kir_ref r = kir_shared_find(f, &in);
    return r == KIR_NONE ? kir_append(f, in) : r;
}

static kir_ref build_sum(kir_func *f, kir_op op, kir_ref a, kir_ref b) {
    kir_affine sum = {0}, raw;
    uint32_t before;
    int64_t c;

    kir_affine_add(f, a, 1, &sum);
    raw = sum;
    kir_affine_rejoin(f, &sum);
    before = sum.n;
    kir_affine_add(f, b, op == KIR_IADD ? 1 : -1, &sum);
    kir_affine_rejoin(f, &sum);
    if (!sum.overflow && sum.n == 0) return kir_const_i(f, sum.c);
    if (!sum.overflow && (sum.merged || raw.n != before)) return kir_affine_emit(f, &sum);
    if (op == KIR_ISUB && kir_const_value(f, b, &c) && c != INT64_MIN) {
        return build_sum(f, KIR_IADD, a, kir_const_i(f, -c));
    }
    if (op == KIR_IADD && kir_const_value(f, a, &c)) {
        kir_ref t = a;
        a = b;
        b = t;
    }
    if (kir_const_value(f, b, &c)) {
        const kir_inst *in = &f->insts[a];
        int64_t c2, both;
        if (c == 0) return a;
        if (in->op == KIR_IADD && kir_const_value(f, in->in[1], &c2) &&
            !__builtin_add_overflow(c, c2, &both)) {
            return kir_bin(f, KIR_IADD, in->in[0], kir_const_i(f, both));
        }
    }
    return kir_append_shared(f, op, a, b, KIR_NONE);
}

static kir_ref build_mul(kir_func *f, kir_ref a, kir_ref b) {
    int64_t ca = 0, cb, p;
    bool const_a = kir_const_value(f, a, &ca);

    if (const_a && kir_const_value(f, b, &cb) && !__builtin_mul_overflow(ca, cb, &p)) {
        return kir_const_i(f, p);
    }
    if (const_a) return build_mul(f, b, a);
    if (kir_const_value(f, b, &cb)) {
        const kir_inst *in = &f->insts[a];
        if (cb == 0) return b;
        if (cb == 1) return a;
        if (in->op == KIR_IMUL && kir_const_value(f, in->in[1], &ca) &&
            !__builtin_mul_overflow(ca, cb, &p)) {
            return build_mul(f, in->in[0], kir_const_i(f, p));
        }
    }
    return kir_append_shared(f, KIR_IMUL, a, b, KIR_NONE);
}

static int64_t common_factor(const kir_affine *a, int64_t d) {
    for (uint32_t i = 0; i < a->n; i++) d = base_gcd(d, a->term[i].k);
    return d;
}

/* (g*x + c) / (g*d) = (x + c/g) / d, everything rounding down. */
static kir_ref div_reduced(kir_func *f, kir_affine rest, int64_t d, int64_t g) {
    for (uint32_t i = 0; i < rest.n; i++) rest.term[i].k /= g;
    rest.c = kir_floordiv(rest.c, g);
    return kir_bin(f, KIR_IDIV, kir_affine_emit(f, &rest), kir_const_i(f, d / g));
}

/* Finds g that divides d and most factors, so that the form is g*hi + lo with 0 <= lo < g. Then
 * (g*hi + lo) / d is hi / (d/g), and its remainder is g * (hi % (d/g)) + lo. */
static int64_t split_by_factor(const kir_func *f, const kir_affine *a, int64_t d, kir_affine *hi,
                               kir_affine *lo) {
    for (uint32_t i = 0; i < a->n; i++) {
        int64_t g = base_gcd(a->term[i].k, d);
        kir_range r;
        if (g < 2 || g == d) continue;
        kir_affine_split(a, g, hi, lo);
        r = kir_affine_range(f, lo);
        if (r.lo >= 0 && r.hi < g) return g;
    }
    return 0;
}

static kir_ref build_div(kir_func *f, kir_ref a, kir_ref b) {
    kir_affine all = {0}, quot, rest;
    kir_range ra = f->ranges[a], rr;
    const kir_inst *in = &f->insts[a];
    int64_t d, c, p, g;
    kir_ref q;

    if (!kir_const_value(f, b, &d)) return kir_append_shared(f, KIR_IDIV, a, b, KIR_NONE);
    if (d < 1) {
        kir_fail(f, RP_INVALID, "division by %lld; a divisor must be positive", (long long)d);
        return KIR_NONE;
    }
    if (d == 1) return a;
    if (kir_floordiv(ra.lo, d) == kir_floordiv(ra.hi, d)) {
        return kir_const_i(f, kir_floordiv(ra.lo, d));
    }
    if (in->op == KIR_IDIV && kir_const_value(f, in->in[1], &c) &&
        !__builtin_mul_overflow(c, d, &p)) {
        return build_div(f, in->in[0], kir_const_i(f, p));
    }
    kir_affine_add(f, a, 1, &all);
    kir_affine_rejoin(f, &all);
    if (all.overflow) return kir_append_shared(f, KIR_IDIV, a, b, KIR_NONE);
    kir_affine_split(&all, d, &quot, &rest);
    rr = kir_affine_range(f, &rest);
    if (rr.lo >= 0 && rr.hi < d) return kir_affine_emit(f, &quot);
    if (quot.n || quot.c) {
        q = kir_affine_emit(f, &quot);
        rest.merged = false;
        return kir_bin(f, KIR_IADD, kir_bin(f, KIR_IDIV, kir_affine_emit(f, &rest), b), q);
    }
    g = common_factor(&rest, d);
    if (g > 1) return div_reduced(f, rest, d, g);
    g = split_by_factor(f, &all, d, &quot, &rest);
    if (g) return kir_bin(f, KIR_IDIV, kir_affine_emit(f, &quot), kir_const_i(f, d / g));
    return kir_append_shared(f, KIR_IDIV, a, b, KIR_NONE);
}

static kir_ref build_mod(kir_func *f, kir_ref a, kir_ref b) {
    kir_affine all = {0}, quot, rest;
    kir_range ra = f->ranges[a], rr;
    const kir_inst *in = &f->insts[a];
    int64_t d, c, g;
    kir_ref hi;

    if (!kir_const_value(f, b, &d)) return kir_append_shared(f, KIR_IMOD, a, b, KIR_NONE);
    if (d < 1) {
        kir_fail(f, RP_INVALID, "remainder by %lld; a divisor must be positive", (long long)d);
        return KIR_NONE;
    }
    if (d == 1) return kir_const_i(f, 0);
    if (ra.lo == ra.hi) return kir_const_i(f, kir_mod(ra.lo, d));
    if (ra.lo >= 0 && ra.hi < d) return a;
    if (in->op == KIR_IMOD && kir_const_value(f, in->in[1], &c) && c % d == 0) {
        return build_mod(f, in->in[0], b);
    }
    kir_affine_add(f, a, 1, &all);
    kir_affine_rejoin(f, &all);
    if (all.overflow) return kir_append_shared(f, KIR_IMOD, a, b, KIR_NONE);
    kir_affine_split(&all, d, &quot, &rest);
    rr = kir_affine_range(f, &rest);
    if (rr.lo >= 0 && rr.hi < d) return kir_affine_emit(f, &rest);
    if (quot.n || quot.c) return kir_bin(f, KIR_IMOD, kir_affine_emit(f, &rest), b);
    g = split_by_factor(f, &all, d, &quot, &rest);
    if (g) {
        hi = kir_bin(f, KIR_IMOD, kir_affine_emit(f, &quot), kir_const_i(f, d / g));
        return kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, hi, kir_const_i(f, g)),
                       kir_affine_emit(f, &rest));
    }
    return kir_append_shared(f, KIR_IMOD, a, b, KIR_NONE);
}

static kir_ref build_minmax(kir_func *f, kir_op op, kir_ref a, kir_ref b) {
    kir_range ra = f->ranges[a], rb = f->ranges[b];

    if (a == b) return a;
    if (ra.hi <= rb.lo) return op == KIR_IMIN ? a : b;
    if (rb.hi <= ra.lo) return op == KIR_IMIN ? b : a;
    return kir_append_shared(f, op, a, b, KIR_NONE);
}

static kir_ref build_lt(kir_func *f, kir_ref a, kir_ref b) {
    kir_range ra = f->ranges[a], rb = f->ranges[b];

    if (a == b || ra.lo >= rb.hi) return kir_const_i(f, 0);
    if (ra.hi < rb.lo) return kir_const_i(f, 1);
    return kir_append_shared(f, KIR_ILT, a, b, KIR_NONE);
}

static bool is_true(kir_range r) {
    return r.lo > 0 || r.hi < 0;
}
static bool is_false(kir_range r) {
    return r.lo == 0 && r.hi == 0;
}

static kir_ref build_and(kir_func *f, kir_ref a, kir_ref b) {
    kir_range ra = f->ranges[a], rb = f->ranges[b];

    if (is_false(ra) || is_false(rb)) return kir_const_i(f, 0);
    if (is_true(ra) && is_true(rb)) return kir_const_i(f, 1);
    if (a == b && ra.lo >= 0 && ra.hi <= 1) return a;
    if (is_true(ra) && rb.lo >= 0 && rb.hi <= 1) return b;
    if (is_true(rb) && ra.lo >= 0 && ra.hi <= 1) return a;
    return kir_append_shared(f, KIR_IAND, a, b, KIR_NONE);
}

static bool check_index(kir_func *f, const char *op, kir_ref r) {
    if (f->failed) return false;
    if (!kir_is_visible(f, r)) {
        kir_fail(f, RP_INVALID, "%s: operand %%%u is not visible here", op, r);
        return false;
    }
    if (f->insts[r].cls == KIR_INDEX) return true;
    kir_fail(f, RP_INVALID, "%s: operand %%%u is %s, expected index", op, r,
             kir_class_name(f->insts[r].cls));
    return false;
}

kir_ref kir_bin(kir_func *f, kir_op op, kir_ref a, kir_ref b) {
    const char *text = kir_op_table(op)->text;

    if (!check_index(f, text, a) || !check_index(f, text, b)) return KIR_NONE;
    switch (op) {
    case KIR_IADD:
    case KIR_ISUB: return build_sum(f, op, a, b);
    case KIR_IMUL: return build_mul(f, a, b);
    case KIR_IDIV: return build_div(f, a, b);
    case KIR_IMOD: return build_mod(f, a, b);
    case KIR_IMIN:
    case KIR_IMAX: return build_minmax(f, op, a, b);
    case KIR_ILT: return build_lt(f, a, b);
    case KIR_IAND: return build_and(f, a, b);
    default: kir_fail(f, RP_INVALID, "%s is no binary index op", text); return KIR_NONE;
    }
}

kir_ref kir_iselect(kir_func *f, kir_ref c, kir_ref a, kir_ref b) {
    kir_range rc;

    if (!check_index(f, "iselect", c) || !check_index(f, "iselect", a) ||
        !check_index(f, "iselect", b)) {
        return KIR_NONE;
    }
    rc = f->ranges[c];
    if (a == b || is_true(rc)) return a;
    if (is_false(rc)) return b;
    return kir_append_shared(f, KIR_ISELECT, c, a, b);
}
