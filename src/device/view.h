/* Views of callers, and copies between dense memory and a view, both of which kernels of a queue reach. */
#ifndef DEVICE_VIEW_H
#define DEVICE_VIEW_H

#include "base/str.h"
#include "base/view.h"
#include "hal/hal.h"
#include "reprise/view.h"

/* v, whose text is `what` ("input x"). *dense: kernels may have it where it lies; always of block formats, whose elements *out does not have.
 * RP_INVALID for what is no view of memory. */
rp_status device_view_of(const rp_view *v, const char *what, base_view *out, bool *dense,
                         rp_error *err) RP_MUST_USE;
/* Says on the log that a call of `who` copies the tensor. again: a call before did. */
typedef struct device_view_copied {
    const char *who, *what;
    rp_dtype dtype;
    bool in; /* to dense memory */
    bool again;
} device_view_copied;
void device_view_tell(const device_view_copied *c, const base_view *v);
/* How it is written in texts: "f32[2,3] of strides 1, 2". */
void device_view_put(base_buf *out, rp_dtype dtype, const base_view *v);
/* In turn with what is on queue. in: to dense memory of its device; else from it. A view that kernels of queue reach is copied by one launch or copy, which
 * is part of the capture under way, where there is one; another one by way of dense memory of the host, for which a copy back waits. */
rp_status device_view_copy(hal_device *queue, const base_view *v, void *dense, bool in,
                           rp_error *err) RP_MUST_USE;
/* Whether kernels of queue reach the first byte of v. */
bool device_view_reached(const hal_device *queue, const base_view *v);

#endif
