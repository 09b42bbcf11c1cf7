/* Splits loops so that the index arithmetic inside becomes affine.
 *
 * Two passes, each a rebuild through the builders, whose folding does the rest. First a LOOP of constant
 * extent whose counter meets / or % by constants becomes an outer and an inner loop; then a loop with
 * conditions (or wraps) on its counter becomes a few loops, one for each stretch. The order
 * of iterations stays, so results do. REDUCE loops are left alone: their lanes hang on the counter. */
#include "base/gcd.h"
#include "kir/affine.h"
#include "kir/rebuild.h"

#define MIN_INNER 8 /* shorter inner loops are not worth a split */
#define MAX_STRETCHES 4

typedef struct rebuild {
    const kir_func *src;
    kir_func *dst;
    kir_ref *map;     /* src ref -> dst ref */
    kir_ref *partner; /* beside src insts: the end of each begin */
    bool stretches;   /* second pass */
} rebuild;

static void copy_range(rebuild *b, kir_ref from, kir_ref to);

/* The form of an index inside loop `at` as k * counter + c, nothing else. */
static bool counter_form(const kir_func *f, kir_ref index, kir_ref at, int64_t *k, int64_t *c) {
    kir_affine a = {0};

    kir_affine_add(f, index, 1, &a);
    if (a.overflow || a.n != 1 || a.term[0].ref != at) return false;
    *k = a.term[0].k;
    *c = a.c;
    return true;
}

static bool uses_counter(const kir_func *f, kir_ref index, kir_ref at) {
    kir_affine a = {0};

    kir_affine_add(f, index, 1, &a);
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.term[i].ref == at && !a.overflow) return true;
    }
    return false;
}

/* Extent of the inner loop, or 0: the largest divisor if the second pass can take the smaller ones
 * apart, else what all have in common. */
static int64_t inner_extent(const kir_func *f, kir_ref at, kir_ref end, int64_t n) {
    int64_t common = 0, largest = 0, d;

    for (kir_ref i = at + 1; i < end; i++) {
        const kir_inst *in = &f->insts[i];
        if ((in->op != KIR_IDIV && in->op != KIR_IMOD) || !kir_const_value(f, in->in[1], &d) ||
            d < 1)
            continue;
        if (!uses_counter(f, in->in[0], at)) continue;
        common = base_gcd(common, d);
        if (d > largest && d < n && n % d == 0) largest = d;
    }
    if (largest && largest / common <= MAX_STRETCHES && largest >= MIN_INNER) return largest;
    return common >= MIN_INNER && common < n && n % common == 0 ? common : 0;
}

typedef struct stretches {
    int64_t cut[MAX_STRETCHES + 1]; /* ascending, from 0 to the extent */
    uint32_t n;                     /* stretches */
} stretches;

/* False when there are too many. */
static bool add_cut(stretches *s, int64_t at) {
    uint32_t i = 0;

    if (at <= s->cut[0] || at >= s->cut[s->n]) return true;
    while (s->cut[i] < at) i++;
    if (s->cut[i] == at) return true;
    if (s->n == MAX_STRETCHES) return false;
    for (uint32_t j = s->n + 1; j > i; j--) s->cut[j] = s->cut[j - 1];
    s->cut[i] = at;
    s->n++;
    return true;
}

static bool has_cut(const stretches *s, int64_t at) {
    if (at <= s->cut[0] || at >= s->cut[s->n]) return true;
    for (uint32_t i = 0; i <= s->n; i++) {
        if (s->cut[i] == at) return true;
    }
    return false;
}

/* First iteration from which k*i + c < 0 has its other value. */
static int64_t turn(int64_t k, int64_t c) {
    return k > 0 ? -kir_floordiv(c, k) : kir_floordiv(c, -k) + 1;
}

/* Where the comparison of an ILT, IMIN or IMAX turns. The last two may be cut on either side of the
 * iteration in which both operands are equal. */
static bool add_comparison(const kir_func *f, const kir_inst *in, kir_ref at, stretches *s) {
    kir_affine diff = {0};
    int64_t k, c;

    kir_affine_add(f, in->in[0], 1, &diff);
    kir_affine_add(f, in->in[1], -1, &diff);
    if (diff.overflow || diff.n != 1 || diff.term[0].ref != at) return true;
    k = diff.term[0].k;
    c = diff.c;
    if (c < INT64_MIN / 2 || k < INT64_MIN / 2) return true;
    if (in->op != KIR_ILT && has_cut(s, turn(k, c - 1))) return true;
    return add_cut(s, turn(k, c));
}

/* Where (i + c) / d changes. */
static bool add_wraps(const kir_func *f, const kir_inst *in, kir_ref at, stretches *s) {
    int64_t k, c, d;

    if (!kir_const_value(f, in->in[1], &d) || d < 2) return true;
    if (!counter_form(f, in->in[0], at, &k, &c) || k != 1 || c == INT64_MIN) return true;
    for (int64_t i = kir_mod(-c, d); i < s->cut[s->n]; i += d) {
        if (!add_cut(s, i)) return false;
    }
    return true;
}

static bool add_cuts_of(const kir_func *f, const kir_inst *in, kir_ref at, bool clamps,
                        stretches *s) {
    switch (in->op) {
    case KIR_ILT: return clamps || add_comparison(f, in, at, s);
    case KIR_IDIV:
    case KIR_IMOD: return clamps || add_wraps(f, in, at, s);
    case KIR_IMIN:
    case KIR_IMAX: return !clamps || add_comparison(f, in, at, s);
    default:
        return kir_op_table(in->op)->shape != KIR_SHAPE_BEGIN; /* copies would grow too large */
    }
}

/* One stretch when the loop stays whole. Clamps come last, since they can use cuts of the others. */
static void find_stretches(const kir_func *f, kir_ref at, kir_ref end, int64_t n, stretches *s) {
    *s = (stretches){.cut = {0, n}, .n = 1};
    for (int clamps = 0; clamps < 2; clamps++) {
        for (kir_ref i = at + 1; i < end; i++) {
            if (add_cuts_of(f, &f->insts[i], at, clamps, s)) continue;
            *s = (stretches){.cut = {0, n}, .n = 1};
            return;
        }
    }
}

static void copy_loop(rebuild *b, kir_ref at, kir_ref end, int64_t n) {
    kir_func *f = b->dst;
    int64_t inner = b->stretches ? 0 : inner_extent(b->src, at, end, n);
    stretches s = {.cut = {0, n}, .n = 1};

    if (inner) {
        kir_ref o = kir_begin(f, KIR_LOOP, kir_const_i(f, n / inner));
        kir_ref i = kir_begin(f, KIR_LOOP, kir_const_i(f, inner));
        b->map[at] = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, o, kir_const_i(f, inner)), i);
        copy_range(b, at + 1, end);
        kir_end(f);
        kir_end(f);
        return;
    }
    if (b->stretches) find_stretches(b->src, at, end, n, &s);
    for (uint32_t i = 0; i < s.n; i++) {
        kir_ref k = kir_begin(f, KIR_LOOP, kir_const_i(f, s.cut[i + 1] - s.cut[i]));
        b->map[at] = kir_bin(f, KIR_IADD, k, kir_const_i(f, s.cut[i]));
        copy_range(b, at + 1, end);
        kir_end(f);
    }
}

static void copy_block(rebuild *b, kir_ref at, kir_ref end) {
    const kir_inst *in = &b->src->insts[at];
    kir_ref x = b->map[in->in[0]];
    int64_t n;

    if (in->op == KIR_LOOP && kir_const_value(b->src, in->in[0], &n) && n > 0) {
        copy_loop(b, at, end, n);
    } else if (in->op == KIR_REDUCE) {
        b->map[at] = kir_begin_reduce(b->dst, in->u.reduce, x);
        copy_range(b, at + 1, end);
        b->map[end] = kir_yield(b->dst, b->map[b->src->insts[end].in[0]]);
    } else {
        if (in->op == KIR_IF)
            kir_begin_if(b->dst, x);
        else
            b->map[at] = kir_begin(b->dst, in->op, x);
        copy_range(b, at + 1, end);
        kir_end(b->dst);
    }
}

/* Globals stay where they are made; a block that was copied twice finds them again. */
static void copy_range(rebuild *b, kir_ref from, kir_ref to) {
    for (kir_ref at = from; at < to && !b->dst->failed; at++) {
        const kir_inst *in = &b->src->insts[at];
        if (kir_op_table(in->op)->shape == KIR_SHAPE_BEGIN) {
            copy_block(b, at, b->partner[at]);
            at = b->partner[at];
        } else {
            b->map[at] = kir_rebuild_inst(b->dst, b->src, in, b->map);
        }
    }
}

static void find_partners(rebuild *b) {
    kir_ref open[KIR_MAX_DEPTH];
    uint32_t n = 0;

    for (kir_ref at = 0; at < b->src->n_insts; at++) {
        kir_shape shape = kir_op_table(b->src->insts[at].op)->shape;
        if (shape == KIR_SHAPE_BEGIN) open[n++] = at;
        if (shape == KIR_SHAPE_END && n > 0) b->partner[open[--n]] = at;
    }
}

static rp_status rebuild_once(const kir_func *f, bool second, kir_func **out, rp_error *err) {
    rebuild b = {.src = f, .stretches = second};
    rp_status st = RP_OK;

    RP_TRY(kir_rebuild_new(f, &b.dst, &b.map, err));
    b.partner = base_arena_array(b.dst->arena, f->n_insts + 1, sizeof *b.partner);
    if (!b.partner) {
        st = rp_fail(err, RP_NOMEM, "kernel %s: splitting loops", f->name);
        goto out;
    }
    find_partners(&b);
    copy_range(&b, 0, f->n_insts);
    RP_TRY_OUT(kir_status(b.dst, err));
    *out = b.dst;
    b.dst = NULL;
out:
    kir_free(b.dst);
    return st;
}

rp_status kir_split_loops(const kir_func *f, kir_func **out, rp_error *err) {
    kir_func *first = NULL;
    rp_status st;

    RP_TRY(kir_verify(f, err));
    RP_TRY(rebuild_once(f, false, &first, err));
    st = rebuild_once(first, true, out, err);
    kir_free(first);
    return st;
}
