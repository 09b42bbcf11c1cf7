/* What users said of sizes, and what calls showed. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "front/front.h"

/* --- marks --------------------------------------------------------------------------------- */

#define MOST (INT64_C(1) << 61) /* a bound of a symbol */

/* "L['x']" or, in short, "x". */
static bool is_called(const char *mark, const char *source) {
    size_t n = strlen(mark);
    if (strcmp(mark, source) == 0) return true;
    return strlen(source) == n + 5 && strncmp(source, "L['", 3) == 0 &&
           strncmp(source + 3, mark, n) == 0 && strcmp(source + 3 + n, "']") == 0;
}

const front_mark *front_mark_locked(const rp_jit *f, const char *source, uint32_t axis,
                                    uint32_t rank) {
    const front_mark *m = f->marks;
    while (m && !(m->axis == axis && is_called(m->tensor, source))) m = m->next;
    return m ? m : front_support_mark(f, source, axis, rank);
}

const front_mark *front_mark_of(rp_jit *f, const char *source, uint32_t axis, uint32_t rank) {
    (void)pthread_mutex_lock(&f->lock);
    const front_mark *m = front_mark_locked(f, source, axis, rank); /* what is in the list stays */
    (void)pthread_mutex_unlock(&f->lock);
    return m;
}

const front_mark *front_mark_of_int(rp_jit *f, const char *source) {
    (void)pthread_mutex_lock(&f->lock);
    const front_mark *m = f->marks;
    while (m && !(m->axis == 0 && is_called(m->tensor, source))) m = m->next;
    (void)pthread_mutex_unlock(&f->lock);
    return m;
}

/* The last mark of an axis counts. */
static rp_status add_mark(rp_jit *f, front_mark_kind kind, const char *tensor, uint32_t axis,
                          int64_t min, int64_t max, rp_error *err) {
    if (!f || !tensor || !*tensor)
        return rp_fail(err, RP_INVALID, "mark: function and tensor must be given");
    if (axis >= RP_MAX_RANK)
        return rp_fail(err, RP_INVALID, "mark: axis %u of %s; tensors have %d at most", axis,
                       tensor, RP_MAX_RANK);
    if (min < 0 || min > max)
        return rp_fail(err, RP_INVALID,
                       "mark: axis %u of %s in [%lld, %lld]; give [min, max] with 0 <= min <= max",
                       axis, tensor, (long long)min, (long long)max);
    if (min > MOST || (max > MOST && max != INT64_MAX))
        return rp_fail(err, RP_INVALID,
                       "mark: axis %u of %s in [%lld, %lld]; a bound is at most 2^61, or INT64_MAX "
                       "for none",
                       axis, tensor, (long long)min, (long long)max);
    size_t n = strlen(tensor) + 1;
    front_mark *m = base_alloc(sizeof *m + n);
    if (!m) return rp_fail(err, RP_NOMEM, "mark of %s", tensor);
    m->kind = kind;
    m->axis = axis;
    m->min = min;
    m->max = max;
    m->looked_for = m->yields = false;
    memcpy(m->tensor, tensor, n);
    if (pthread_mutex_lock(&f->turn) != 0) {
        base_free(m);
        return rp_fail(err, RP_INVALID, "mark of %s inside of a trace of %s; do it before", tensor,
                       f->name);
    }
    (void)pthread_mutex_lock(&f->lock);
    m->next = f->marks;
    f->marks = m;
    (void)pthread_mutex_unlock(&f->lock);
    (void)pthread_mutex_unlock(&f->turn);
    return RP_OK;
}

rp_status rp_jit_mark_dynamic(rp_jit *f, const char *tensor, uint32_t axis, int64_t min,
                              int64_t max, rp_error *err) {
    base_error_clear(err);
    return add_mark(f, FRONT_MARK_DYNAMIC, tensor, axis, min, max, err);
}

rp_status rp_jit_mark_static(rp_jit *f, const char *tensor, uint32_t axis, rp_error *err) {
    base_error_clear(err);
    return add_mark(f, FRONT_MARK_STATIC, tensor, axis, 0, INT64_MAX, err);
}

rp_status rp_jit_mark_unbacked(rp_jit *f, const char *tensor, uint32_t axis, int64_t min,
                               int64_t max, rp_error *err) {
    base_error_clear(err);
    return add_mark(f, FRONT_MARK_UNBACKED, tensor, axis, min, max, err);
}

/* --- history --------------------------------------------------------------------------------- */

static front_seen *find_seen(const rp_jit *f, const char *source) {
    front_seen *s = f->seen;
    while (s && strcmp(s->source, source) != 0) s = s->next;
    return s;
}

bool front_wobbled(const rp_jit *f, const char *source, uint32_t axis) {
    const front_seen *s = find_seen(f, source);
    return s && s->now.wobbled[axis];
}

/* What a call shows of a tensor, or of an integer. */
typedef struct shown {
    const int64_t *dim;
    uint32_t rank;
    bool integer;
} shown;

/* A tensor of another rank begins anew. Of an integer that was never taken as a size it is for nobody to know that it differs. */
static void merge(rp_jit *f, front_sizes_seen *s, const shown *is) {
    bool same = s->rank == is->rank && s->integer == is->integer;
    for (uint32_t d = 0; d < is->rank; d++) {
        bool differs = same && !s->stored && s->dim[d] != is->dim[d];
        f->differed = f->differed || (differs && !s->wobbled[d] && (!is->integer || s->taken));
        s->wobbled[d] = same && (s->wobbled[d] || differs);
        s->dim[d] = is->dim[d];
    }
    s->taken = s->taken && same;
    s->rank = is->rank;
    s->integer = is->integer;
    s->stored = false;
}

static rp_status add_seen(rp_jit *f, const char *source, uint32_t rank, front_seen **out,
                          rp_error *err) {
    size_t n = strlen(source) + 1;
    front_seen *s = base_alloc(sizeof *s + n);
    if (!s) return rp_fail(err, RP_NOMEM, "sizes of %s", source);
    memcpy(s->source, source, n);
    s->now.rank = rank;
    s->next = f->seen;
    f->seen = *out = s;
    return RP_OK;
}

static rp_status see_one(rp_jit *f, const char *source, const shown *is, rp_error *err) {
    front_seen *s = find_seen(f, source);
    if (!s) {
        RP_TRY(add_seen(f, source, is->rank, &s, err));
        memcpy(s->now.dim, is->dim, is->rank * sizeof *is->dim);
        s->now.integer = is->integer;
        s->is_new = true;
    }
    merge(f, &s->now, is);
    return RP_OK;
}

void front_see_taken(rp_jit *f, const char *source) {
    front_seen *s = find_seen(f, source);
    if (s && s->now.integer) s->now.taken = true;
}

rp_status front_see_stored_int(rp_jit *f, const char *source, rp_error *err) {
    front_seen *s = find_seen(f, source);
    if (s) return RP_OK;
    RP_TRY(add_seen(f, source, 1, &s, err));
    s->now.integer = s->now.stored = s->now.taken = s->now.wobbled[0] = true;
    return RP_OK;
}

rp_status front_see_stored(rp_jit *f, const char *source, uint32_t rank, unsigned axes,
                           rp_error *err) {
    front_seen *s = find_seen(f, source);
    if (s) return RP_OK;
    RP_TRY(add_seen(f, source, rank, &s, err));
    s->now.stored = true;
    for (uint32_t d = 0; d < rank; d++) s->now.wobbled[d] = axes >> d & 1;
    return RP_OK;
}

static void find_marked(rp_jit *f, const char *source, uint32_t rank) {
    for (front_mark *m = f->marks; m; m = m->next)
        if (m->axis < rank && is_called(m->tensor, source)) m->looked_for = true;
}

/* A mark of nothing is a misspelt one, or one of another form of arguments: it is told once. */
static void tell_missing(rp_jit *f) {
    for (front_mark *m = f->marks; m; m = m->next) {
        if (m->looked_for) continue;
        base_log(RP_LOG_WARNING,
                 "%s: a mark is about axis %u of %s, which no tensor of this call has; the first "
                 "of a tuple is called L[0], an item of a map L['x']",
                 f->name, m->axis, m->tensor);
        m->looked_for = true;
    }
}

static void begin_seeing(rp_jit *f) {
    f->had_differed = f->differed;
    for (front_seen *s = f->seen; s; s = s->next) {
        s->before = s->now;
        s->is_new = false;
    }
}

void front_unsee(rp_jit *f) {
    f->differed = f->had_differed;
    for (front_seen **p = &f->seen; *p;) {
        front_seen *s = *p;
        if (s->is_new) {
            *p = s->next;
            base_free(s);
            continue;
        }
        s->now = s->before;
        p = &s->next;
    }
}

/* The value at word `at`. */
static rp_status see_word(rp_jit *f, const front_args *a, uint32_t at, const shown *is,
                          base_buf *source, rp_error *err) {
    base_buf_clear(source);
    (void)front_describe(a->word, at, source);
    RP_TRY(base_buf_status(source, err));
    find_marked(f, source->data, is->rank);
    return see_one(f, source->data, is, err);
}

rp_status front_see(rp_jit *f, const front_args *a, rp_error *err) {
    rp_status st = RP_OK;
    base_buf source;
    begin_seeing(f);
    base_buf_init(&source, 0);
    for (uint32_t i = 0; i < a->n_tensors && st == RP_OK; i++) {
        const rp_buffer *b = &a->tensor[i]->tensor;
        st = see_word(f, a, a->at[i], &(shown){b->dim, b->rank, false}, &source, err);
    }
    for (uint32_t head = 0, word; st == RP_OK && front_next_int(a, &head, &word);) {
        const int64_t is = (int64_t)a->word[word];
        st = see_word(f, a, word, &(shown){&is, 1, true}, &source, err);
    }
    if (st == RP_OK) tell_missing(f);
    base_buf_done(&source);
    return st;
}

void front_forget(rp_jit *f) {
    for (front_seen *s = f->seen, *next; s; s = next) {
        next = s->next;
        base_free(s);
    }
    f->seen = NULL;
}
