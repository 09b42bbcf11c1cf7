/* Whether elements meet is whether a sum of strides, each a bounded number of times, gives a distance: a search from the largest
 * stride on, in which what smaller ones can reach leaves few numbers of times for each. */
#include "base/view.h"

#include <string.h>

#include "base/gcd.h"

enum {
    MOST_TERMS = 2 * BASE_VIEW_RANK + 2,
    MOST_STEPS = 1 << 16 /* of a search */
};
#define FARTHEST (INT64_C(1) << 60) /* bytes of a span */

static bool is_empty(const base_view *v) {
    for (uint32_t i = 0; i < v->rank; i++)
        if (v->dim[i] == 0) return true;
    return false;
}

bool base_view_is_dense(const base_view *v) {
    int64_t want = (int64_t)v->element;
    if (is_empty(v)) return true;
    for (uint32_t i = v->rank; i-- > 0;) {
        if (v->dim[i] == 1) continue;
        if (v->stride[i] != want) return false;
        want *= v->dim[i];
    }
    return true;
}

bool base_view_bytes(const base_view *v, size_t *out) {
    size_t n = v->element;
    for (uint32_t i = 0; i < v->rank; i++)
        if (__builtin_mul_overflow(n, (size_t)v->dim[i], &n)) n = SIZE_MAX;
    if (is_empty(v)) n = 0;
    if (n > FARTHEST) return false;
    *out = n;
    return true;
}

bool base_view_span(const base_view *v, int64_t *begin, int64_t *end) {
    int64_t low = 0, high = (int64_t)v->element, step;
    *begin = *end = 0;
    if (is_empty(v)) return true;
    for (uint32_t i = 0; i < v->rank; i++) {
        if (__builtin_mul_overflow(v->dim[i] - 1, v->stride[i], &step)) return false;
        if (step < -FARTHEST || step > FARTHEST) return false;
        *(step < 0 ? &low : &high) += step;
        if (low < -FARTHEST || high > FARTHEST) return false;
    }
    *begin = low;
    *end = high;
    return true;
}

/* --- meeting ------------------------------------------------------------------------------- */

/* From 0 to `most` times a distance. */
typedef struct term {
    int64_t by, most;
} term;

typedef struct search {
    term t[MOST_TERMS]; /* the largest distance first */
    uint32_t n;
    int64_t reach[MOST_TERMS + 1]; /* of the terms from i on */
    int64_t unit[MOST_TERMS + 1];  /* what divides all their sums */
    uint32_t steps;
} search;

static void add_term(search *s, int64_t by, int64_t most) {
    uint32_t i = s->n;
    if (by == 0 || most == 0) return;
    if (by < 0) by = -by;
    for (uint32_t k = 0; k < s->n; k++)
        if (s->t[k].by == by) {
            s->t[k].most += most;
            return;
        }
    for (; i > 0 && s->t[i - 1].by < by; i--) s->t[i] = s->t[i - 1];
    s->t[i] = (term){by, most};
    s->n++;
}

static bool reaches(search *s, uint32_t i, int64_t rest) {
    if (rest < 0 || rest > s->reach[i]) return false;
    if (rest == 0 || s->steps++ > MOST_STEPS) return true;
    if (rest % s->unit[i]) return false;
    int64_t by = s->t[i].by, behind = s->reach[i + 1];
    int64_t lo = rest > behind ? (rest - behind + by - 1) / by : 0, hi = rest / by;
    if (hi > s->t[i].most) hi = s->t[i].most;
    for (int64_t x = hi; x >= lo; x--)
        if (reaches(s, i + 1, rest - x * by)) return true;
    return false;
}

/* Whether some of the terms come to `distance`. */
static bool comes_to(search *s, int64_t distance) {
    s->reach[s->n] = s->unit[s->n] = 0;
    s->steps = 0;
    for (uint32_t i = s->n; i-- > 0;) {
        s->reach[i] = s->reach[i + 1] + s->t[i].by * s->t[i].most;
        s->unit[i] = base_gcd(s->t[i].by, s->unit[i + 1]);
    }
    return reaches(s, 0, distance);
}

/* Two elements whose indices are the same in front of an axis and differ there: the one with the larger index, and every difference
 * behind it. */
static bool repeats_from(const base_view *v, uint32_t axis) {
    search s = {.n = 0};
    int64_t by = v->stride[axis] < 0 ? -v->stride[axis] : v->stride[axis], distance = -by;
    add_term(&s, by, v->dim[axis] - 2);
    add_term(&s, 1, 2 * ((int64_t)v->element - 1));
    distance += (int64_t)v->element - 1;
    for (uint32_t i = axis + 1; i < v->rank; i++) {
        if (v->dim[i] == 1) continue; /* its stride may be any number */
        int64_t step = v->stride[i] < 0 ? -v->stride[i] : v->stride[i];
        add_term(&s, step, 2 * (v->dim[i] - 1));
        distance += step * (v->dim[i] - 1);
    }
    return comes_to(&s, distance);
}

bool base_view_repeats(const base_view *v) {
    if (is_empty(v)) return false;
    for (uint32_t i = 0; i < v->rank; i++)
        if (v->dim[i] > 1 && (v->stride[i] == 0 || repeats_from(v, i))) return true;
    return false;
}

bool base_views_meet(const base_view *a, const base_view *b) {
    search s = {.n = 0};
    int64_t a_begin, a_end, b_begin, b_end;
    if (is_empty(a) || is_empty(b) || !base_view_span(a, &a_begin, &a_end) ||
        !base_view_span(b, &b_begin, &b_end))
        return false;
    uintptr_t first = (uintptr_t)a->at + (uintptr_t)a_begin;
    uintptr_t end = (uintptr_t)a->at + (uintptr_t)a_end;
    uintptr_t other = (uintptr_t)b->at + (uintptr_t)b_begin;
    uintptr_t other_end = (uintptr_t)b->at + (uintptr_t)b_end;
    if (end <= other || other_end <= first) return false;
    add_term(&s, 1, (int64_t)a->element - 1);
    add_term(&s, 1, (int64_t)b->element - 1);
    for (uint32_t i = 0; i < a->rank; i++) add_term(&s, a->stride[i], a->dim[i] - 1);
    for (uint32_t i = 0; i < b->rank; i++) add_term(&s, b->stride[i], b->dim[i] - 1);
    return comes_to(&s, (int64_t)(other_end - 1 - first));
}

/* --- copies -------------------------------------------------------------------------------- */

void base_view_loops_of(const base_view *v, base_view_loops *out) {
    int64_t dense = (int64_t)v->element;
    uint32_t at = BASE_VIEW_RANK; /* axes are put from behind */
    *out = (base_view_loops){.run = is_empty(v) ? 0 : v->element};
    for (uint32_t i = v->rank; i-- > 0 && out->run; dense *= v->dim[i]) {
        if (v->dim[i] == 1) continue;
        if (at == BASE_VIEW_RANK && v->stride[i] == (int64_t)out->run) {
            out->run *= (size_t)v->dim[i];
        } else if (at < BASE_VIEW_RANK && v->stride[i] == out->view[at] * out->dim[at]) {
            out->dim[at] *= v->dim[i];
        } else {
            at--;
            out->dim[at] = v->dim[i];
            out->view[at] = v->stride[i];
            out->dense[at] = dense;
        }
    }
    out->n = BASE_VIEW_RANK - at;
    memmove(out->dim, out->dim + at, out->n * sizeof *out->dim);
    memmove(out->view, out->view + at, out->n * sizeof *out->view);
    memmove(out->dense, out->dense + at, out->n * sizeof *out->dense);
}

/* n runs. A size that is known makes each copy a move. */
static void copy_runs(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                      size_t run) {
#define RUNS(size) \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, size)
    switch (run) {
    case 1: RUNS(1); return;
    case 2: RUNS(2); return;
    case 4: RUNS(4); return;
    case 8: RUNS(8); return;
    default: RUNS(run);
    }
#undef RUNS
}

static void copy_all(const base_view *v, char *dense, bool in) {
    base_view_loops l;
    int64_t at[BASE_VIEW_RANK] = {0};
    base_view_loops_of(v, &l);
    const uint32_t last = l.n ? l.n - 1 : 0, outer = last;
    const int64_t n = l.n ? l.dim[last] : 1;
    for (bool more = l.run > 0; more;) {
        char *view = v->at, *packed = dense;
        for (uint32_t i = 0; i < outer; i++) {
            view += at[i] * l.view[i];
            packed += at[i] * l.dense[i];
        }
        if (in)
            copy_runs(packed, l.dense[last], view, l.view[last], n, l.run);
        else
            copy_runs(view, l.view[last], packed, l.dense[last], n, l.run);
        more = false;
        for (uint32_t i = outer; i-- > 0 && !more;) {
            more = ++at[i] < l.dim[i];
            if (!more) at[i] = 0;
        }
    }
}

void base_view_gather(const base_view *v, void *dense) {
    copy_all(v, dense, true);
}

void base_view_scatter(const base_view *v, const void *dense) {
    copy_all(v, (char *)(uintptr_t)dense, false);
}
