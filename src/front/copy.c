/* Copies between memory of the device and of the host, by a stream of the function where they are two. */
#include "autograph/manager.h"
#include "device/stream.h"
#include "front/front.h"

rp_status front_copy_in(rp_jit *f, void *to, const rp_value *v, rp_error *err) {
    if (!f->stream) return autograph_copy_in(device_root(f->device), to, v, err);
    hal_device *queue = device_stream_queue(f->stream);
    (void)pthread_mutex_lock(&f->copies);
    rp_status st = autograph_copy_in(queue, to, v, err);
    if (st == RP_OK) st = queue->ops->synchronize(queue, err);
    (void)pthread_mutex_unlock(&f->copies);
    return st;
}

rp_status front_copy_out(rp_jit *f, const rp_value *v, const void *from, rp_error *err) {
    if (!f->stream) return autograph_copy_out(device_root(f->device), v, from, err);
    hal_device *queue = device_stream_queue(f->stream);
    (void)pthread_mutex_lock(&f->copies);
    rp_status st = autograph_copy_out(queue, v, from, err);
    if (st == RP_OK) st = queue->ops->synchronize(queue, err);
    (void)pthread_mutex_unlock(&f->copies);
    return st;
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
