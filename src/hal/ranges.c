/* The address ranges that launches may point into, the audit against them, and host memory that
 * registers itself. Kept sorted and disjoint, so a lookup is a binary search. Thread-safe. Knows
 * nothing of lifetimes beyond add and remove. */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "hal/device.h"

typedef struct range {
    uintptr_t begin, end;
    const char *what; /* static text of the owner */
    uint64_t serial;  /* among all that were ever there, since addresses come again */
} range;

struct hal_ranges {
    pthread_mutex_t lock;
    range *v;
    size_t n, cap;
    uint64_t serials; /* given so far */
};

hal_ranges *hal_ranges_new(void) {
    hal_ranges *r = base_alloc(sizeof *r);
    if (r) (void)pthread_mutex_init(&r->lock, NULL);
    return r;
}

void hal_ranges_free(hal_ranges *r) {
    if (!r) return;
    (void)pthread_mutex_destroy(&r->lock);
    base_free(r->v);
    base_free(r);
}

/* Index of the first range that begins above at. */
static size_t upper(const hal_ranges *r, uintptr_t at) {
    size_t lo = 0, hi = r->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->v[mid].begin <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static rp_status insert(hal_ranges *r, range x, rp_error *err) {
    size_t i = upper(r, x.begin);
    if ((i > 0 && r->v[i - 1].end > x.begin) || (i < r->n && r->v[i].begin < x.end)) {
        const range *y = i > 0 && r->v[i - 1].end > x.begin ? &r->v[i - 1] : &r->v[i];
        return rp_fail(err, RP_INTERNAL,
                       "range %s of %" PRIuPTR " bytes overlaps the registered range %s", x.what,
                       x.end - x.begin, y->what);
    }
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 16;
        range *v = base_realloc_array(r->v, cap, sizeof *v);
        if (!v) return rp_fail(err, RP_NOMEM, "no memory for %zu address ranges", cap);
        r->v = v;
        r->cap = cap;
    }
    memmove(r->v + i + 1, r->v + i, (r->n - i) * sizeof *r->v);
    x.serial = ++r->serials;
    r->v[i] = x;
    r->n++;
    return RP_OK;
}

static rp_status add_locked(hal_ranges *r, const void *p, size_t size, const char *what,
                            rp_error *err) {
    uintptr_t at = (uintptr_t)p;
    if (size == 0) size = 1; /* an empty block still has an address of its own */
    if (!p || at + size < at)
        return rp_fail(err, RP_INTERNAL, "range %s: no valid address range", what);
    return insert(r, (range){.begin = at, .end = at + size, .what = what}, err);
}

static void remove_locked(hal_ranges *r, const void *p) {
    size_t i = upper(r, (uintptr_t)p);
    if (i == 0 || r->v[i - 1].begin != (uintptr_t)p) return;
    memmove(r->v + i - 1, r->v + i, (r->n - i) * sizeof *r->v);
    r->n--;
}

rp_status hal_range_add(hal_device *d, const void *p, size_t size, const char *what,
                        rp_error *err) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    rp_status st = add_locked(d->ranges, p, size, what, err);
    (void)pthread_mutex_unlock(&d->ranges->lock);
    return st;
}

void hal_range_remove(hal_device *d, const void *p) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    remove_locked(d->ranges, p);
    (void)pthread_mutex_unlock(&d->ranges->lock);
}

rp_status hal_memory_enter(hal_device *d, void *p, size_t size, const char *what, rp_error *err) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    rp_status st = add_locked(d->ranges, p, size, what, err);
    if (st == RP_OK) {
        hal_counters *c = &d->counters;
        c->allocs++;
        c->live_bytes += size;
        if (c->live_bytes > c->peak_bytes) c->peak_bytes = c->live_bytes;
    }
    (void)pthread_mutex_unlock(&d->ranges->lock);
    return st;
}

void hal_memory_leave(hal_device *d, void *p, size_t size) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    assert(d->counters.live_bytes >= size);
    remove_locked(d->ranges, p);
    d->counters.frees++;
    d->counters.live_bytes -= size;
    (void)pthread_mutex_unlock(&d->ranges->lock);
}

rp_status hal_memory_grow(hal_device *d, void *p, size_t before, size_t size, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&d->ranges->lock);
    size_t i = upper(d->ranges, (uintptr_t)p);
    range *v = d->ranges->v;
    assert(i > 0 && v[i - 1].begin == (uintptr_t)p && size >= before);
    if (i < d->ranges->n && v[i].begin < (uintptr_t)p + size)
        st = rp_fail(err, RP_INTERNAL, "range %s of %zu bytes overlaps the registered range %s",
                     v[i - 1].what, size, v[i].what);
    if (st == RP_OK) {
        hal_counters *c = &d->counters;
        v[i - 1].end = (uintptr_t)p + size;
        c->live_bytes += size - before;
        if (c->live_bytes > c->peak_bytes) c->peak_bytes = c->live_bytes;
    }
    (void)pthread_mutex_unlock(&d->ranges->lock);
    return st;
}

rp_status hal_memory_alloc(hal_device *d, size_t size, size_t align, const char *what, void **out,
                           rp_error *err) {
    void *p = base_alloc_aligned(size, align);
    if (!p) return rp_fail(err, RP_NOMEM, "device %s: no memory for %zu bytes", d->ops->name, size);
    rp_status st = hal_memory_enter(d, p, size, what, err);
    if (st == RP_OK)
        *out = p;
    else
        base_free(p);
    return st;
}

void hal_memory_release(hal_device *d, void *p, size_t size) {
    if (!p) return;
    hal_memory_leave(d, p, size);
    base_free(p);
}

rp_status hal_memory_copy(hal_device *d, void *to, const void *from, size_t size, rp_error *err) {
    if (hal_capturing(d)) return hal_note_copy(d, to, from, size, err);
    if (size == 0) return RP_OK;
    hal_trace_copy(d, to, from, size);
    memcpy(to, from, size);
    hal_count_copy(d, size);
    return RP_OK;
}

rp_status hal_memory_copy_runs(hal_device *d, void *to, const void *from, const base_runs *runs,
                               rp_error *err) {
    if (hal_capturing(d)) return hal_note_runs(d, to, from, runs, err);
    base_runs_copy(runs, to, from);
    hal_count_copy(d, base_runs_bytes(runs));
    return RP_OK;
}

rp_status hal_memory_fill(hal_device *d, void *to, int byte, size_t size, rp_error *err) {
    if (hal_capturing(d)) return hal_note_fill(d, to, byte, size, err);
    if (size == 0) return RP_OK;
    hal_trace_fill(d, to, byte, size);
    memset(to, byte, size);
    return RP_OK;
}

/* The range that p lies in, or NULL. */
static const range *range_of(const hal_ranges *r, const void *p) {
    size_t i = upper(r, (uintptr_t)p);
    return i > 0 && r->v[i - 1].end > (uintptr_t)p ? &r->v[i - 1] : NULL;
}

size_t hal_range_size(hal_device *d, const void *p) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    const range *in = range_of(d->ranges, p);
    size_t size = in && in->begin == (uintptr_t)p ? in->end - in->begin : 0;
    (void)pthread_mutex_unlock(&d->ranges->lock);
    return size;
}

uint64_t hal_range_serial(hal_device *d, const void *p) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    const range *in = range_of(d->ranges, p);
    uint64_t serial = in && in->begin == (uintptr_t)p ? in->serial : 0;
    (void)pthread_mutex_unlock(&d->ranges->lock);
    return serial;
}

bool hal_range_covers(hal_device *d, const void *p, size_t size) {
    return hal_ranges_cover(d->ranges, p, size);
}

uint64_t hal_live_bytes(hal_device *d) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    uint64_t bytes = d->counters.live_bytes;
    (void)pthread_mutex_unlock(&d->ranges->lock);
    return bytes;
}

void *hal_range_any(hal_device *d) {
    (void)pthread_mutex_lock(&d->ranges->lock);
    void *p = d->ranges->n ? (void *)d->ranges->v[0].begin : NULL;
    (void)pthread_mutex_unlock(&d->ranges->lock);
    return p;
}

rp_status hal_ranges_join(hal_ranges *r, const void *p, size_t size, const char *what,
                          rp_error *err) {
    uintptr_t begin = (uintptr_t)p, end = begin + size;
    if (size == 0) return RP_OK;
    (void)pthread_mutex_lock(&r->lock);
    size_t first = upper(r, begin), last;
    if (first > 0 && r->v[first - 1].end >= begin) first--;
    for (last = first; last < r->n && r->v[last].begin <= end; last++) {
        if (r->v[last].begin < begin) begin = r->v[last].begin;
        if (r->v[last].end > end) end = r->v[last].end;
    }
    if (last > first) memmove(r->v + first, r->v + last, (r->n - last) * sizeof *r->v);
    r->n -= last - first;
    rp_status st = insert(r, (range){.begin = begin, .end = end, .what = what}, err);
    (void)pthread_mutex_unlock(&r->lock);
    return st;
}

bool hal_ranges_cover(hal_ranges *r, const void *p, size_t size) {
    if (size == 0) return true;
    (void)pthread_mutex_lock(&r->lock);
    const range *in = range_of(r, p);
    bool covered = in && in->end - (uintptr_t)p >= size;
    (void)pthread_mutex_unlock(&r->lock);
    return covered;
}

bool hal_ranges_meet(hal_ranges *r, const void *p, size_t size) {
    if (size == 0) return false;
    (void)pthread_mutex_lock(&r->lock);
    size_t i = upper(r, (uintptr_t)p);
    bool meet = (i > 0 && r->v[i - 1].end > (uintptr_t)p) ||
                (i < r->n && r->v[i].begin < (uintptr_t)p + size);
    (void)pthread_mutex_unlock(&r->lock);
    return meet;
}

/* In what is registered with the queue, with the first one of its device, or allowed to a capture. */
static bool find_range(const hal_device *d, const void *p, range *out, bool *of_root) {
    hal_ranges *const places[] = {d->ranges, d->root ? d->root->ranges : NULL,
                                  hal_capture_allowed(d)};
    const range *in = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !in; i++) {
        if (!places[i]) continue;
        (void)pthread_mutex_lock(&places[i]->lock);
        in = range_of(places[i], p);
        if (in) *out = *in;
        *of_root = i == 1;
        (void)pthread_mutex_unlock(&places[i]->lock);
    }
    return in != NULL;
}

/* Memory that goes without any graph being told. */
static rp_status check_forbidden(const hal_device *d, const void *p, rp_error *err) {
    const hal_device *other = hal_capture_forbidden(d);
    if (!other || !hal_ranges_meet(other->ranges, p, 1) ||
        hal_ranges_meet(hal_capture_allowed(d), p, 1))
        return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "a kernel is given memory that is neither an argument nor from the call or "
                   "rp_device_alloc, such as another output: %p; give it as an argument",
                   p);
}

static hal_used used_of(const range *r) {
    return (hal_used){(const void *)r->begin, r->serial};
}

rp_status hal_note_address(hal_device *d, const void *p, rp_error *err) {
    hal_ranges *r = d->root ? d->root->ranges : d->ranges;
    (void)pthread_mutex_lock(&r->lock);
    const range *in = range_of(r, p);
    const hal_used used = in ? used_of(in) : (hal_used){0};
    (void)pthread_mutex_unlock(&r->lock);
    return used.at ? hal_note_used(d, used, err) : check_forbidden(d, p, err);
}

static rp_status audit_one(hal_device *d, const hal_launch *l, uint32_t idx, rp_error *err) {
    for (uint32_t a = 0; a < l->n_arg; a++) {
        range in;
        bool of_root = false;
        if (!find_range(d, l->arg[a], &in, &of_root))
            return rp_fail(err, RP_INTERNAL,
                           "launch %u (%s): argument %u (%p) lies in no registered range", idx,
                           l->name ? l->name : "?", a, l->arg[a]);
        size_t left = in.end - (uintptr_t)l->arg[a], size = l->arg_size ? l->arg_size[a] : 1;
        if (size > left)
            return rp_fail(err, RP_INTERNAL,
                           "launch %u (%s): argument %u (%p) has %zu bytes, %zu beyond the end of "
                           "the registered range %s",
                           idx, l->name ? l->name : "?", a, l->arg[a], size, size - left, in.what);
        if (of_root) RP_TRY(hal_note_used(d, used_of(&in), err));
    }
    return RP_OK;
}

rp_status hal_audit(hal_device *d, const hal_launch *list, uint32_t n, rp_error *err) {
    for (uint32_t i = 0; i < n; i++) RP_TRY(audit_one(d, &list[i], i, err));
    return RP_OK;
}
