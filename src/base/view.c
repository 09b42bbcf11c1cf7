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

base_meeting base_views_meeting(const base_view *a, const base_view *b) {
    search s = {.n = 0};
    int64_t a_begin, a_end, b_begin, b_end;
    if (is_empty(a) || is_empty(b) || !base_view_span(a, &a_begin, &a_end) ||
        !base_view_span(b, &b_begin, &b_end))
        return BASE_APART;
    uintptr_t first = (uintptr_t)a->at + (uintptr_t)a_begin;
    uintptr_t end = (uintptr_t)a->at + (uintptr_t)a_end;
    uintptr_t other = (uintptr_t)b->at + (uintptr_t)b_begin;
    uintptr_t other_end = (uintptr_t)b->at + (uintptr_t)b_end;
    if (end <= other || other_end <= first) return BASE_APART;
    add_term(&s, 1, (int64_t)a->element - 1);
    add_term(&s, 1, (int64_t)b->element - 1);
    for (uint32_t i = 0; i < a->rank; i++) add_term(&s, a->stride[i], a->dim[i] - 1);
    for (uint32_t i = 0; i < b->rank; i++) add_term(&s, b->stride[i], b->dim[i] - 1);
    if (!comes_to(&s, (int64_t)(other_end - 1 - first))) return BASE_APART;
    return s.steps > MOST_STEPS + 1 ? BASE_UNSURE : BASE_MEET;
}

/* --- copies -------------------------------------------------------------------------------- */

void base_view_runs(const base_view *v, bool in, base_runs *out) {
    int64_t packed = (int64_t)v->element;
    uint32_t at = BASE_VIEW_RANK; /* axes are put from behind */
    *out = (base_runs){.run = is_empty(v) ? 0 : v->element};
    int64_t *view = in ? out->from : out->to, *dense = in ? out->to : out->from;
    for (uint32_t i = v->rank; i-- > 0 && out->run; packed *= v->dim[i]) {
        if (v->dim[i] == 1) continue;
        if (at == BASE_VIEW_RANK && v->stride[i] == (int64_t)out->run) {
            out->run *= (size_t)v->dim[i];
        } else if (at < BASE_VIEW_RANK && v->stride[i] == view[at] * out->dim[at]) {
            out->dim[at] *= v->dim[i];
        } else {
            at--;
            out->dim[at] = v->dim[i];
            view[at] = v->stride[i];
            dense[at] = packed;
        }
    }
    out->n = BASE_VIEW_RANK - at;
    memmove(out->dim, out->dim + at, out->n * sizeof *out->dim);
    memmove(out->to, out->to + at, out->n * sizeof *out->to);
    memmove(out->from, out->from + at, out->n * sizeof *out->from);
}

void base_view_gather(const base_view *v, void *dense) {
    base_runs r;
    base_view_runs(v, true, &r);
    base_runs_copy(&r, dense, v->at);
}

void base_view_scatter(const base_view *v, const void *dense) {
    base_runs r;
    base_view_runs(v, false, &r);
    base_runs_copy(&r, v->at, dense);
}
