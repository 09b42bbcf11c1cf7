/* Frames: what calls of one compiled graph that run at the same time must not share. */
#ifndef API_FRAMES_H
#define API_FRAMES_H

#include "api/stage.h"
#include "api/views.h"

/* Executor, launches and sizes of one call, on a queue of its own. Calls at once share the threads of the device: one has them,
 * the others run on the thread of their caller, which changes no result. */
typedef struct api_frame {
    hal_device *device;
    plan_exec *exec;
    plan_bound *list;
    int64_t *symbols;    /* one a symbol of the plan */
    rp_buffer *form;     /* inputs, then outputs, of the last call, for which the list is bound */
    bool bound;          /* there was one */
    unsigned generation; /* of the graph, then: params and states lay elsewhere before */
    api_stage stage;
    api_views views;
    bool taken;
} api_frame;

typedef struct api_frames api_frames;

/* Takes over device and exec, which become the first frame, also on failure. most: frames at once, at least 1; later ones
 * are made when first wanted and kept, on queues of the same device. */
rp_status api_frames_new(const plan *p, hal_device *device, plan_exec *exec, uint32_t most,
                         api_frames **out, rp_error *err) RP_MUST_USE;
void api_frames_free(api_frames *f); /* NULL is fine; no frame may be taken */

/* Thread-safe. Waits while all are taken. */
rp_status api_frames_take(api_frames *f, api_frame **out, rp_error *err) RP_MUST_USE;
void api_frames_give(api_frames *f, api_frame *frame);
/* Sets a leaf of every frame, also of those to come; no frame may be taken. */
void api_frames_set(api_frames *f, plan_seg seg, uint32_t idx, void *p);
/* The first frame's executor, for questions about leaves. */
const plan_exec *api_frames_exec(const api_frames *f);

#endif
