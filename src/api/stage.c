#include "api/stage.h"

#include "base/alloc.h"
#include "base/status.h"
#include "plan/size.h"

enum { ALIGN = 256 }; /* of places: as memory of the device is */
enum { LOAD = 16 };   /* kernels load so many bytes at a time, at most */

bool api_stage_reached(const hal_device *d, const void *p) {
    if (!d->ops->reaches) return true;
    return ((uintptr_t)p & (LOAD - 1)) == 0 && d->ops->reaches(d, p);
}

void api_stage_done(api_stage *s, hal_device *d) {
    if (s->block) d->ops->release(d, s->block, s->capacity);
    base_free(s->moved);
    *s = (api_stage){0};
}

static rp_status add(api_stage *s, api_moved m, rp_error *err) {
    if (s->n == s->room) {
        uint32_t room = s->room ? 2 * s->room : 8;
        api_moved *more = base_realloc_array(s->moved, room, sizeof *more);
        if (!more) return rp_fail(err, RP_NOMEM, "%u buffers on their way to the device", room);
        s->moved = more;
        s->room = room;
    }
    s->moved[s->n++] = m;
    return RP_OK;
}

typedef struct leaves {
    plan_seg seg;
    const plan_leaf *leaf;
    uint32_t n;
} leaves;

static rp_status find(api_stage *s, const hal_device *d, const plan_exec *x, leaves l,
                      const int64_t *symbols, rp_error *err) {
    for (uint32_t i = 0; i < l.n; i++) {
        void *at = plan_exec_get(x, l.seg, i);
        size_t size = (size_t)plan_size_eval(&l.leaf[i].bytes, symbols);
        if (size == 0 || api_stage_reached(d, at)) continue;
        RP_TRY(add(s, (api_moved){l.seg, i, at, s->used, size}, err));
        s->used += (size + ALIGN - 1) / ALIGN * ALIGN;
    }
    return RP_OK;
}

/* Twice what there was, where there is so much. */
static rp_status fit(api_stage *s, hal_device *d, size_t bytes, rp_error *err) {
    void *block = NULL;
    if (bytes <= s->capacity) return RP_OK;
    size_t more = bytes < 2 * s->capacity ? 2 * s->capacity : bytes;
    if (s->block) d->ops->release(d, s->block, s->capacity);
    s->block = NULL;
    s->capacity = 0;
    if (more > bytes && d->ops->alloc(d, HAL_DEVICE_MEMORY, more, &block, NULL) == RP_OK)
        bytes = more;
    if (!block) RP_TRY(d->ops->alloc(d, HAL_DEVICE_MEMORY, bytes, &block, err));
    s->block = block;
    s->capacity = bytes;
    return RP_OK;
}

rp_status api_stage_in(api_stage *s, hal_device *d, hal_device *queue, const plan *p, plan_exec *x,
                       const int64_t *symbols, rp_error *err) {
    s->n = 0;
    s->used = 0;
    RP_TRY(find(s, d, x, (leaves){PLAN_INPUT, p->inputs, p->n_inputs}, symbols, err));
    RP_TRY(find(s, d, x, (leaves){PLAN_OUTPUT, p->outputs, p->n_outputs}, symbols, err));
    if (s->n == 0) return RP_OK;
    RP_TRY(fit(s, d, s->used, err));
    for (uint32_t i = 0; i < s->n; i++) {
        const api_moved *m = &s->moved[i];
        plan_exec_set(x, m->seg, m->idx, s->block + m->offset);
        if (m->seg == PLAN_INPUT)
            RP_TRY(queue->ops->copy(queue, s->block + m->offset, m->from, m->size, err));
    }
    return RP_OK;
}

rp_status api_stage_out(const api_stage *s, hal_device *queue, const bool *mutates, rp_error *err) {
    for (uint32_t i = 0; i < s->n; i++) {
        const api_moved *m = &s->moved[i];
        if (m->seg == PLAN_INPUT && !mutates[m->idx]) continue;
        RP_TRY(queue->ops->copy(queue, m->from, s->block + m->offset, m->size, err));
    }
    return RP_OK;
}
