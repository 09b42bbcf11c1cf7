#include "autograph/outside.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"

/* --- which memory ---------------------------------------------------------------------------- */

static bool is_within(const void *p, size_t size, const void *of, size_t of_size) {
    uintptr_t offset = (uintptr_t)p - (uintptr_t)of;
    return (uintptr_t)p >= (uintptr_t)of && offset <= of_size && size <= of_size - offset;
}

static rp_status add(autograph_outside *o, const autograph_piece *one, rp_error *err) {
    for (uint32_t i = 0; i < o->n; i++)
        if (is_within(one->at, one->size, o->v[i].at, o->v[i].size)) return RP_OK;
    if (o->n == o->cap) {
        uint32_t cap = o->cap ? o->cap * 2 : 8;
        autograph_piece *v = base_realloc_array(o->v, cap, sizeof *v);
        if (!v) return rp_fail(err, RP_NOMEM, "memory outside of a call");
        o->v = v;
        o->cap = cap;
    }
    o->v[o->n++] = *one;
    return RP_OK;
}

static rp_status add_state(void *user, rp_value *v, rp_error *err) {
    autograph_outside *o = user;
    autograph_piece p = {.at = v->tensor.data, .size = autograph_place_extent(v)};
    if (!v->state) return RP_OK;
    p.number = o->n_states++;
    return p.size ? add(o, &p, err) : RP_OK;
}

typedef struct within {
    const autograph_piece *p;
    bool yes;
} within;

static rp_status is_argument(void *user, rp_value *v, rp_error *err) {
    within *in = user;
    size_t size = v->indirect ? sizeof(void *) : autograph_place_extent(v);
    (void)err;
    in->yes |= is_within(in->p->at, in->p->size, v->tensor.data, size);
    return RP_OK;
}

static bool is_held(const autograph_held *h, const autograph_piece *p) {
    for (uint32_t i = 0; i < h->n; i++) {
        size_t bytes = 0;
        (void)autograph_bytes(&h->form[i], &bytes);
        if (is_within(p->at, p->size, h->form[i].data, bytes)) return true;
    }
    return false;
}

static rp_status is_of_call(const autograph_wish *w, const autograph_piece *p, bool *out,
                            rp_error *err) {
    within in = {p, is_held(&w->first->out, p) || is_held(&w->first->temp, p)};
    rp_status st = autograph_value_each((rp_value *)(uintptr_t)w->dense, is_argument, &in, err);
    *out = in.yes;
    return st;
}

/* Memory that somebody may have freed is not read: a range that went and came again is not the function's. On a GPU what is
 * bound is the library's copy, or of rp_device_alloc. */
static bool is_there(const autograph_outside *o, const autograph_piece *p) {
    rp_device *d = o->w->f->a->device;
    if (!p->call) return true; /* the caller's, who gave it */
    if (p->owner) return p->owner->same(p->owner->who, p->owner->generation);
    return device_frees(d) == o->w->frees && hal_range_covers(device_root(d), p->at, p->size);
}

static rp_status add_called(autograph_outside *o, const hal_trace *t, rp_error *err) {
    rp_device *d = o->w->f->a->device;
    const char *call = "";
    for (uint32_t i = 0; i < t->n; i++) {
        const hal_step *s = &t->v[i];
        autograph_piece p = {.at = s->at, .size = s->size, .call = call, .name = s->name};
        bool known = true;
        if (s->kind == HAL_STEP_CALL) call = s->name;
        if (s->kind != HAL_STEP_MEMORY) continue;
        if (s->owner && device_is_host(d)) p.owner = &t->owner[s->owner - 1];
        RP_TRY(is_of_call(o->w, &p, &known, err));
        if (!known && is_there(o, &p)) RP_TRY(add(o, &p, err));
    }
    return RP_OK;
}

static int by_size(const void *a, const void *b) {
    size_t x = ((const autograph_piece *)a)->size, y = ((const autograph_piece *)b)->size;
    return (x > y) - (x < y);
}

rp_status autograph_outside_keep(autograph_outside *o, const autograph_wish *w, rp_error *err) {
    rp_autograph *a = w->f->a;
    o->w = w;
    if (w->trace->failed || w->first->inside->failed)
        return rp_fail(err, RP_NOMEM, "what a function calls");
    o->moment = device_now();
    autograph_before_open(&o->before, a->device, a->queue);
    RP_TRY(autograph_value_each((rp_value *)(uintptr_t)w->dense, add_state, o, err));
    RP_TRY(add_called(o, w->trace, err));
    RP_TRY(add_called(o, w->first->inside, err));
    if (o->n) qsort(o->v, o->n, sizeof *o->v, by_size);
    for (uint32_t i = 0; i < o->n; i++)
        autograph_before_keep(&o->before, o->v[i].at, o->v[i].size, i, false);
    if (o->before.n < o->n)
        base_log_ch(
            RP_LOG_CH_CUDAGRAPHS, false,
            "autograph: of %s %u pieces of memory are too large to be looked at for what is "
            "written beside the stream",
            w->f->o.name, o->n - o->before.n);
    return a->queue->ops->synchronize(a->queue, err);
}

/* --- behind the second run --------------------------------------------------------------------- */

static rp_status tell(const autograph_outside *o, const autograph_piece *p, rp_error *err) {
    static const char end[] = "beside rp_call_stream, which no graph would repeat";
    const char *who = device_is_host(o->w->f->a->device) ? "by plain C, " : "";
    if (p->call)
        return rp_fail(err, RP_UNSUPPORTED, "%s: %s is written %s%s", p->call, p->name, who, end);
    return rp_fail(err, RP_UNSUPPORTED, "state %u is written %s%s", p->number, who, end);
}

static rp_status tell_others(const autograph_outside *o, const autograph_piece *p, rp_error *err) {
    rp_error what = {0};
    rp_status st = tell(o, p, &what);
    return rp_fail(err, st, "%s; or other threads wrote it, which ran something meanwhile",
                   what.text);
}

static rp_status check_one(const autograph_outside *o, const autograph_was *was, bool *others,
                           rp_error *err) {
    const autograph_piece *p = &o->v[was->number];
    bool same = true;
    if (!is_there(o, p)) return RP_OK;
    RP_TRY(autograph_was_same(&o->before, was, &same, err));
    if (same) return RP_OK;
    *others |= !device_alone_since(o->moment);
    if (*others) return tell_others(o, p, err);
    RP_TRY(autograph_was_put_back(&o->before, was, err));
    return tell(o, p, err);
}

/* All of them are put back, as far as that is possible; the first one tells. */
rp_status autograph_outside_check(const autograph_outside *o, bool *others, rp_error *err) {
    rp_status told = RP_OK;
    *others = false;
    for (uint32_t i = 0; i < o->before.n; i++) {
        rp_error why = {0};
        rp_status st = check_one(o, &o->before.v[i], others, &why);
        if (told == RP_OK && st != RP_OK) told = rp_fail(err, st, "%s", why.text);
    }
    return told;
}

void autograph_outside_done(autograph_outside *o) {
    autograph_before_done(&o->before);
    base_free(o->v);
    *o = (autograph_outside){0};
}
