/* A small pool of frames. The lock is held while a frame is made or waited for: never while one runs. A taken
 * frame belongs to one thread, so nothing inside of it needs a lock. The frame that was given last is the spare one, which is taken
 * and given by one exchange each: calls that do not meet need no lock. */
#include "api/frames.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"

struct api_frames {
    const plan *p;
    pthread_mutex_t lock;
    pthread_cond_t given;       /* signalled when a frame is free again */
    _Atomic(api_frame *) spare; /* still `taken`; NULL: none */
    atomic_uint waiting;        /* threads that want one to be given */
    api_frame *frame;           /* `most` places, n of them made */
    uint32_t n, most;
};

static void frame_done(api_frame *f) {
    assert(!f->taken);
    api_stage_done(&f->stage, f->device);
    api_views_done(&f->views, f->device);
    plan_bound_free(f->list);
    plan_exec_free(f->exec);
    base_free(f->symbols);
    base_free(f->form);
    hal_close(f->device);
    *f = (api_frame){0};
}

static rp_status frame_fill(const plan *p, api_frame *f, rp_error *err) {
    f->symbols = base_alloc_array(p->n_symbols + 1u, sizeof *f->symbols);
    f->form = base_alloc_array((size_t)p->n_inputs + p->n_outputs + 1, sizeof *f->form);
    if (!f->symbols || !f->form) return rp_fail(err, RP_NOMEM, "frame of graph @%s", p->name);
    return plan_bound_new(f->exec, 0, p->n_pieces, &f->list, err);
}

rp_status api_frames_new(const plan *p, hal_device *device, plan_exec *exec, uint32_t most,
                         api_frames **out, rp_error *err) {
    assert(most > 0);
    rp_status st = RP_OK;
    api_frame first = {.device = device, .exec = exec};
    api_frames *f = base_alloc(sizeof *f);
    if (f) f->frame = base_alloc_array(most, sizeof *f->frame);
    if (!f || !f->frame) {
        st = rp_fail(err, RP_NOMEM, "frames of graph @%s", p->name);
        goto out;
    }
    RP_TRY_OUT(frame_fill(p, &first, err));
    f->p = p;
    f->most = most;
    f->frame[f->n++] = first;
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->given, NULL);
    atomic_init(&f->spare, NULL);
    atomic_init(&f->waiting, 0);
    *out = f;
    return RP_OK;
out:
    frame_done(&first);
    if (f) base_free(f->frame);
    base_free(f);
    return st;
}

void api_frames_free(api_frames *f) {
    if (!f) return;
    api_frame *spare = atomic_load(&f->spare);
    if (spare) spare->taken = false;
    while (f->n > 0) frame_done(&f->frame[--f->n]); /* the first one's code outlives the others */
    (void)pthread_cond_destroy(&f->given);
    (void)pthread_mutex_destroy(&f->lock);
    base_free(f->frame);
    base_free(f);
}

static rp_status make_frame(api_frames *f, rp_error *err) {
    api_frame more = {0};
    rp_status st = hal_queue(f->frame[0].device, &more.device, err);
    if (st == RP_OK) st = plan_exec_again(f->frame[0].exec, more.device, &more.exec, err);
    if (st == RP_OK) st = frame_fill(f->p, &more, err);
    if (st == RP_OK)
        f->frame[f->n++] = more;
    else
        frame_done(&more);
    return st;
}

/* By lock, but for the spare one. */
static api_frame *find_free(api_frames *f) {
    api_frame *spare = atomic_exchange(&f->spare, NULL);
    for (uint32_t i = 0; i < f->n && !spare; i++)
        if (!f->frame[i].taken) spare = &f->frame[i];
    return spare;
}

static RP_APART rp_status take_by_lock(api_frames *f, api_frame **out, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&f->lock);
    atomic_fetch_add(&f->waiting, 1); /* before it looks: who gives one looks at this behind that */
    api_frame *one = find_free(f);
    if (!one && f->n < f->most) st = make_frame(f, err);
    while (st == RP_OK && !one && !(one = find_free(f)))
        (void)pthread_cond_wait(&f->given, &f->lock);
    atomic_fetch_sub(&f->waiting, 1);
    if (one) {
        one->taken = true;
        *out = one;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

rp_status api_frames_take(api_frames *f, api_frame **out, rp_error *err) {
    api_frame *spare = atomic_exchange(&f->spare, NULL);
    if (!spare) return take_by_lock(f, out, err);
    *out = spare;
    return RP_OK;
}

/* frame NULL: it is the spare one now, for which others wait. */
static RP_APART void give_by_lock(api_frames *f, api_frame *frame) {
    (void)pthread_mutex_lock(&f->lock);
    if (frame) frame->taken = false;
    (void)pthread_cond_signal(&f->given);
    (void)pthread_mutex_unlock(&f->lock);
}

void api_frames_give(api_frames *f, api_frame *frame) {
    api_frame *none = NULL;
    if (!atomic_compare_exchange_strong(&f->spare, &none, frame))
        give_by_lock(f, frame);
    else if (atomic_load(&f->waiting) != 0)
        give_by_lock(f, NULL);
}

void api_frames_set(api_frames *f, plan_seg seg, uint32_t idx, void *p) {
    for (uint32_t i = 0; i < f->n; i++) plan_exec_set(f->frame[i].exec, seg, idx, p);
}

const plan_exec *api_frames_exec(const api_frames *f) {
    return f->frame[0].exec;
}
