/* Whether the iterations of a loop may run side by side, for devices that deal them to threads.
 *
 * Yes only where every element stored in the loop belongs to one iteration: all accesses to the
 * buffer (kir_same_memory) stay within a window that moves by at least its own width each iteration. */
#include "sched/rules.h"

#include "kir/affine.h"

enum {
    MOST_INDEX = 64, /* instructions that an index is looked through, .. */
    MOST_DEPTH = 8   /* .. above each other */
};

typedef struct window {
    bool known;
    int64_t step;     /* elements an iteration */
    kir_range around; /* relative to the base, inner counters included */
    kir_affine base;  /* what is the same in all iterations */
} window;

/* *left instructions are looked at. What a loop loads at a place that is the same in all iterations none of them stores: that place would
 * be no window that moves. */
static bool may_vary(const kir_func *f, kir_ref r, kir_ref loop, uint32_t *left) {
    const kir_inst *in = &f->insts[r];
    if (r < loop || kir_is_global(in->op)) return false;
    if (r == loop || kir_op_table(in->op)->shape != KIR_SHAPE_PLAIN || !*left) return true;
    --*left;
    for (uint32_t i = 0; i < in->n_in; i++)
        if (may_vary(f, in->in[i], loop, left)) return true;
    return false;
}

bool sched_varies(const kir_func *f, kir_ref r, kir_ref loop) {
    uint32_t left = MOST_INDEX;
    return may_vary(f, r, loop, &left);
}

/* The same number, computed twice; depth: instructions above each other. */
static bool is_same_number(const kir_func *f, kir_ref a, kir_ref b, uint32_t depth) {
    const kir_inst *x = &f->insts[a], *y = &f->insts[b];
    if (a == b) return true;
    if (!depth || x->op != y->op || x->cls != y->cls || x->n_in != y->n_in || !x->n_in ||
        x->op == KIR_LOAD || kir_op_table(x->op)->shape != KIR_SHAPE_PLAIN)
        return false;
    for (uint32_t i = 0; i < x->n_in; i++)
        if (!is_same_number(f, x->in[i], y->in[i], depth - 1)) return false;
    return true;
}

static bool is_inside(const kir_func *f, kir_ref r, kir_ref loop, kir_ref end) {
    return r > loop && r < end && !kir_is_global(f->insts[r].op);
}

/* False when the index is not affine in the counter, or varies in a way that ranges cannot bound. */
static bool find_window(const kir_func *f, kir_ref index, kir_ref loop, kir_ref end, window *w) {
    kir_affine a = {0}, inner = {0};

    *w = (window){0};
    kir_affine_add(f, index, 1, &a);
    if (a.overflow) return false;
    inner.c = a.c;
    for (uint32_t i = 0; i < a.n; i++) {
        kir_ref r = a.term[i].ref;
        if (r == loop)
            w->step = a.term[i].k;
        else if (is_inside(f, r, loop, end) && sched_varies(f, r, loop))
            inner.term[inner.n++] = a.term[i];
        else
            w->base.term[w->base.n++] = a.term[i];
    }
    w->around = kir_affine_range(f, &inner);
    w->known = w->around.lo > INT64_MIN / 4 && w->around.hi < INT64_MAX / 4 && w->step != 0;
    return w->known;
}

static bool same_base(const kir_func *f, const kir_affine *a, const kir_affine *b) {
    uint32_t found = 0;

    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        for (uint32_t j = 0; j < b->n; j++) {
            found += a->term[i].k == b->term[j].k &&
                     is_same_number(f, a->term[i].ref, b->term[j].ref, MOST_DEPTH);
        }
    }
    return found == a->n;
}

static bool joins(const kir_func *f, window *all, const window *w) {
    if (!all->known) {
        *all = *w;
        return true;
    }
    if (all->step != w->step || !same_base(f, &all->base, &w->base)) return false;
    if (w->around.lo < all->around.lo) all->around.lo = w->around.lo;
    if (w->around.hi > all->around.hi) all->around.hi = w->around.hi;
    return true;
}

/* The counter in two parts, x / d and x % d, gives each iteration an element of its own. */
static bool is_taken_apart(const kir_func *f, kir_ref index, kir_ref loop, kir_ref end) {
    kir_affine a = {0};
    int64_t far = 0, near = 0, d = 0, divisor;

    kir_affine_add(f, index, 1, &a);
    if (a.overflow) return false;
    for (uint32_t i = 0; i < a.n; i++) {
        const kir_inst *in = &f->insts[a.term[i].ref];
        if (a.term[i].ref != loop && !is_inside(f, a.term[i].ref, loop, end)) continue;
        if ((in->op != KIR_IDIV && in->op != KIR_IMOD) || in->in[0] != loop ||
            !kir_const_value(f, in->in[1], &divisor) || (d && divisor != d))
            return false;
        d = divisor;
        if (in->op == KIR_IDIV)
            far = a.term[i].k;
        else
            near = a.term[i].k;
    }
    return near > 0 && far / near >= d;
}

/* How often the loop touches the memory of buf. */
static uint32_t accesses(const kir_func *f, uint32_t buf, kir_ref loop, kir_ref end) {
    uint32_t n = 0;

    for (kir_ref at = loop + 1; at < end; at++) {
        const kir_inst *in = &f->insts[at];
        n += (in->op == KIR_LOAD || in->op == KIR_STORE) && kir_same_memory(f, in->u.buf, buf);
    }
    return n;
}

/* All accesses in the loop to the memory of one stored buffer. */
static bool stores_stay_apart(const kir_func *f, uint32_t buf, kir_ref loop, kir_ref end) {
    window all = {0}, w;
    int64_t width, step;

    for (kir_ref at = loop + 1; at < end; at++) {
        const kir_inst *in = &f->insts[at];
        if ((in->op != KIR_LOAD && in->op != KIR_STORE) || !kir_same_memory(f, in->u.buf, buf))
            continue;
        if (f->bufs[in->u.buf].dtype != f->bufs[buf].dtype) return false;
        if (!find_window(f, in->in[0], loop, end, &w) || !joins(f, &all, &w)) return false;
    }
    width = all.around.hi - all.around.lo;
    step = all.step < 0 ? -all.step : all.step;
    return width < step;
}

bool sched_is_apart(const kir_func *f, kir_ref loop, kir_ref end) {
    for (kir_ref at = loop + 1; at < end; at++) {
        const kir_inst *in = &f->insts[at];
        if (in->op != KIR_STORE || stores_stay_apart(f, in->u.buf, loop, end)) continue;
        if (accesses(f, in->u.buf, loop, end) > 1 || !is_taken_apart(f, in->in[0], loop, end))
            return false;
    }
    return true;
}

bool sched_is_independent(const sched *s, kir_ref loop) {
    return sched_is_apart(s->f, loop, s->steps[loop].end);
}

/* Stores to the buffer meet loads or other stores somewhere in the function. */
static bool needs_order(const kir_func *f, uint32_t buf) {
    uint32_t stores = 0, loads = 0;

    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_inst *in = &f->insts[at];
        if (in->op == KIR_LOAD) loads += kir_same_memory(f, in->u.buf, buf);
        if (in->op == KIR_STORE) stores += kir_same_memory(f, in->u.buf, buf);
    }
    return loads || stores > 1;
}

/* The loop around `at` whose iterations warps take, KIR_NONE: there is none. */
static kir_ref warps_around(const sched *s, kir_ref at) {
    for (kir_ref i = at; i-- > 0;)
        if (s->steps[i].kind == SCHED_WARP && s->steps[i].end > at) return i;
    return KIR_NONE;
}

/* Something else than [at, end] in one iteration of the loop at `around` has to do with the buffer. Other iterations, which are independent,
 * have nothing to do with the same elements, unless a loop between them comes here again. */
static bool meets(const sched *s, uint32_t buf, kir_ref at, kir_ref end, kir_ref around) {
    for (kir_ref i = around + 1; i < s->steps[around].end; i++) {
        const kir_inst *in = &s->f->insts[i];
        if (i >= at && i <= end) continue;
        if (i < at && s->steps[i].end > end && (in->op == KIR_LOOP || in->op == KIR_REDUCE))
            return true;
        if ((in->op == KIR_LOAD || in->op == KIR_STORE) && kir_same_memory(s->f, in->u.buf, buf))
            return true;
    }
    return false;
}

/* What is in registers nobody else sees. */
static bool stores_need_order(const sched *s, kir_ref at, kir_ref end) {
    const bool loop = s->f->insts[at].op == KIR_LOOP;
    const kir_ref around = loop ? warps_around(s, at) : KIR_NONE;
    for (kir_ref i = at; i <= end; i++) {
        const kir_inst *in = &s->f->insts[i];
        if (in->op == KIR_STORE && s->places[in->u.buf].space != SCHED_REGISTER &&
            needs_order(s->f, in->u.buf) &&
            (around == KIR_NONE || s->steps[at].kind != SCHED_THREAD ||
             meets(s, in->u.buf, at, end, around)))
            return true;
    }
    return false;
}

/* Blocks that all of the team go through together leave it to what is inside. */
bool sched_may_wait(const sched *s, kir_ref at) {
    const sched_step *step = &s->steps[at];
    const kir_op op = s->f->insts[at].op;
    if (op == KIR_PAR) return step->kind == SCHED_BLOCK && s->launch.parts == 1;
    return step->team != SCHED_ALONE && (op == KIR_STORE || step->kind != SCHED_SERIAL);
}

/* Items of a block use its temporaries one after the other. */
bool sched_needs_barrier(const sched *s, kir_ref at) {
    const kir_op op = s->f->insts[at].op;
    if (!sched_may_wait(s, at)) return false;
    if (op == KIR_PAR) return s->launch.scratch > 0;
    return stores_need_order(s, at, op == KIR_STORE ? at : s->steps[at].end);
}
