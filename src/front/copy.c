/* Copies between memory of the device and of the host, by a stream of the function where they are two; what is said of those of views. */
#include <stdio.h>

#include "autograph/value.h"
#include "base/alloc.h"
#include "base/status.h"
#include "device/stream.h"
#include "device/view.h"
#include "front/front.h"

bool front_is_view(const rp_value *v) {
    if (!v->strided || rp_dtype_block(v->tensor.dtype) > 1) return false;
    return !autograph_is_dense(v) ||
           (uintptr_t)v->tensor.data % rp_dtype_block_bytes(v->tensor.dtype) != 0;
}

/* --- memory of two kinds --------------------------------------------------------------------- */

rp_status front_copy_view(rp_jit *f, const base_view *v, void *dense, bool in, rp_error *err) {
    if (!f->stream) {
        if (in)
            base_view_gather(v, dense);
        else
            base_view_scatter(v, dense);
        return RP_OK;
    }
    hal_device *queue = device_stream_queue(f->stream);
    (void)pthread_mutex_lock(&f->copies);
    rp_status st = device_view_copy(queue, v, dense, in, err);
    if (st == RP_OK) st = queue->ops->synchronize(queue, err);
    (void)pthread_mutex_unlock(&f->copies);
    return st;
}

rp_status front_copy_value(rp_jit *f, const rp_value *v, void *dense, bool in, rp_error *err) {
    base_view view;
    size_t bytes = 0;
    if (autograph_is_dense(v)) {
        if (!autograph_bytes(&v->tensor, &bytes)) return rp_fail(err, RP_NOMEM, "a copy");
        return in ? front_copy(f, dense, v->tensor.data, bytes, err)
                  : front_copy(f, v->tensor.data, dense, bytes, err);
    }
    (void)autograph_view_of(v, &view); /* which was asked when it was read */
    return front_copy_view(f, &view, dense, in, err);
}

rp_status front_copy_value_on(hal_device *queue, const rp_value *v, void *dense, bool in,
                              rp_error *err) {
    base_view view;
    size_t bytes = 0;
    (void)autograph_view_of(v, &view);
    (void)base_view_bytes(&view, &bytes);
    if (autograph_is_dense(v))
        return queue->ops->copy(queue, in ? dense : v->tensor.data, in ? v->tensor.data : dense,
                                bytes, err);
    return device_view_copy(queue, &view, dense, in, err);
}

rp_status front_copy(rp_jit *f, void *to, const void *from, size_t bytes, rp_error *err) {
    if (bytes == 0) return RP_OK;
    if (!f->stream) {
        memcpy(to, from, bytes);
        return RP_OK;
    }
    (void)pthread_mutex_lock(&f->copies);
    rp_status st = rp_stream_copy(f->stream, to, from, bytes, err);
    if (st == RP_OK) st = rp_stream_synchronize(f->stream, err);
    (void)pthread_mutex_unlock(&f->copies);
    return st;
}

/* --- arguments ---------------------------------------------------------------------------------- */

rp_status front_refuse_copy(const rp_jit *f, const front_copied *c, const base_view *v,
                            rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    device_view_put(&b, c->dtype, v);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK)
        st = rp_fail(err, RP_INVALID,
                     "%s: %s, %s, would be copied; give it dense and aligned, or without no_copies",
                     f->name, c->what, b.data);
    base_buf_done(&b);
    return st;
}

void front_tell_copy(rp_jit *f, const front_copied *c, const base_view *v) {
    const unsigned most = 8 * sizeof(unsigned) - 1,
                   bit = 1u << (c->number < most ? c->number : most);
    bool again = atomic_fetch_or(&f->views_told[c->in], bit) & bit;
    device_view_tell(&(device_view_copied){f->name, c->what, c->dtype, c->in, again}, v);
}

rp_status front_note_argument(rp_jit *f, const front_out *to, const front_args *a, uint32_t i,
                              rp_error *err) {
    const rp_value *v = a->tensor[i];
    base_view view;
    size_t bytes = 0;
    char what[48];
    if (!front_is_view(v) || !autograph_view_of(v, &view) || !base_view_bytes(&view, &bytes) ||
        bytes == 0)
        return RP_OK;
    (void)snprintf(what, sizeof what, "tensor %u of the arguments", i);
    front_copied c = {what, v->tensor.dtype, true, i};
    if (to->no_copies) return front_refuse_copy(f, &c, &view, err);
    front_tell_copy(f, &c, &view);
    if (to->copies) {
        to->copies->gathered++;
        to->copies->bytes += bytes;
    }
    return RP_OK;
}

void front_note_back(const front_out *to, const rp_value *v) {
    size_t bytes = 0;
    if (to->copies && front_is_view(v) && autograph_bytes(&v->tensor, &bytes) && bytes) {
        to->copies->scattered++;
        to->copies->bytes += bytes;
    }
}
