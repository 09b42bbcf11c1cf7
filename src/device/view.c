#include "device/view.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"

/* --- views of callers ---------------------------------------------------------------------- */

rp_value rp_value_view(const rp_view *v) {
    rp_value made = rp_value_strided(v->tensor, v->stride);
    bool known = (unsigned)v->tensor.dtype < RP_DTYPE_COUNT_ && v->tensor.data;
    if (known && rp_dtype_block(v->tensor.dtype) == 1) {
        uintptr_t skipped = (uintptr_t)v->offset * rp_dtype_block_bytes(v->tensor.dtype);
        made.tensor.data = (void *)((uintptr_t)v->tensor.data + skipped);
    }
    return made;
}

static rp_status check_type(const rp_buffer *b, const char *what, rp_error *err) {
    if ((unsigned)b->dtype >= RP_DTYPE_COUNT_)
        return rp_fail(err, RP_INVALID, "%s has dtype %d, which is none", what, (int)b->dtype);
    if (b->rank > RP_MAX_RANK)
        return rp_fail(err, RP_INVALID, "%s has rank %u; %d is the most", what, b->rank,
                       RP_MAX_RANK);
    for (uint32_t i = 0; i < b->rank; i++)
        if (b->dim[i] < 0)
            return rp_fail(err, RP_INVALID, "%s has size %" PRId64 " at index %u", what, b->dim[i],
                           i);
    return RP_OK;
}

static rp_status check_blocks(const rp_view *v, const char *what, rp_error *err) {
    int64_t want = 1;
    bool dense = v->offset == 0;
    for (uint32_t i = v->tensor.rank; i-- > 0;) {
        dense = dense && (v->tensor.dim[i] <= 1 || v->stride[i] == want);
        want = (int64_t)((uint64_t)want * (uint64_t)v->tensor.dim[i]);
    }
    return dense ? RP_OK
                 : rp_fail(err, RP_INVALID, "%s of %s is a strided view; give it dense", what,
                           rp_dtype_name(v->tensor.dtype));
}

static bool to_bytes(int64_t elements, size_t element, int64_t *out) {
    return !__builtin_mul_overflow(elements, (int64_t)element, out);
}

/* Within the memory that is known. */
static rp_status check_room(const rp_view *v, const char *what, const base_view *b, int64_t skipped,
                            rp_error *err) {
    int64_t begin = 0, end = 0, first, last;
    size_t bytes = 0;
    if (!base_view_bytes(b, &bytes) || !base_view_span(b, &begin, &end) ||
        __builtin_add_overflow(skipped, begin, &first) ||
        __builtin_add_overflow(skipped, end, &last))
        return rp_fail(err, RP_INVALID, "%s has sizes and strides that no memory has", what);
    if (bytes == 0) return RP_OK;
    if (!v->tensor.data) return rp_fail(err, RP_INVALID, "%s has no data", what);
    if (v->bytes && (first < 0 || (uint64_t)last > v->bytes))
        return rp_fail(err, RP_INVALID,
                       "%s is bytes %" PRId64 " to %" PRId64 " of memory that has %" PRIu64, what,
                       first, last, v->bytes);
    return RP_OK;
}

rp_status device_view_of(const rp_view *v, const char *what, base_view *out, bool *dense,
                         rp_error *err) {
    const rp_buffer *b = &v->tensor;
    int64_t skipped = 0;
    RP_TRY(check_type(b, what, err));
    *out = (base_view){.at = b->data, .element = rp_dtype_block_bytes(b->dtype)};
    *dense = true;
    if (rp_dtype_block(b->dtype) > 1) return check_blocks(v, what, err);
    bool fits = to_bytes(v->offset, out->element, &skipped);
    out->rank = b->rank;
    for (uint32_t i = 0; i < b->rank; i++) {
        out->dim[i] = b->dim[i];
        if (b->dim[i] > 1) fits = fits && to_bytes(v->stride[i], out->element, &out->stride[i]);
    }
    if (!fits) return rp_fail(err, RP_INVALID, "%s has strides that no memory has", what);
    RP_TRY(check_room(v, what, out, skipped, err));
    if (b->data) out->at = (char *)((uintptr_t)b->data + (uintptr_t)skipped);
    *dense = base_view_is_dense(out) && (uintptr_t)out->at % out->element == 0;
    return RP_OK;
}

void device_view_put(base_buf *out, rp_dtype dtype, const base_view *v) {
    base_buf_printf(out, "%s[", rp_dtype_name(dtype));
    for (uint32_t i = 0; i < v->rank; i++)
        base_buf_printf(out, "%s%" PRId64, i ? "," : "", v->dim[i]);
    base_buf_puts(out, base_view_is_dense(v) ? "] that is not aligned to its elements"
                                             : "] of strides ");
    for (uint32_t i = 0; i < v->rank && !base_view_is_dense(v); i++)
        base_buf_printf(out, "%s%" PRId64, i ? ", " : "", v->stride[i] / (int64_t)v->element);
}

void device_view_tell(const device_view_copied *c, const base_view *v) {
    base_buf b;
    size_t bytes = 0;
    if (!base_log_on(RP_LOG_CH_PERF_HINTS, c->again) || !base_view_bytes(v, &bytes)) return;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s: %s is a view, ", c->who, c->what);
    device_view_put(&b, c->dtype, v);
    base_buf_printf(&b, ": %zu bytes are copied %s dense memory at each such call", bytes,
                    c->in ? "to" : "from");
    if (!b.failed) base_log_ch(RP_LOG_CH_PERF_HINTS, c->again, "%s", b.data);
    base_buf_done(&b);
}

/* --- copies -------------------------------------------------------------------------------- */

/* By memory of the host that is dense: one copy to the device, or from it. */
static rp_status copy_by_host(hal_device *queue, const base_view *v, void *dense, bool in,
                              rp_error *err) {
    size_t bytes = 0;
    (void)base_view_bytes(v, &bytes);
    void *host = base_alloc(bytes);
    if (!host) return rp_fail(err, RP_NOMEM, "%zu bytes for a dense copy of a view", bytes);
    if (in) base_view_gather(v, host);
    rp_status st = in ? queue->ops->copy(queue, dense, host, bytes, err)
                      : queue->ops->copy(queue, host, dense, bytes, err);
    if (st == RP_OK && !in) st = queue->ops->synchronize(queue, err);
    if (st == RP_OK && !in) base_view_scatter(v, host);
    base_free(host);
    return st;
}

rp_status device_view_copy(hal_device *queue, const base_view *v, void *dense, bool in,
                           rp_error *err) {
    base_runs r;
    base_view_runs(v, in, &r);
    if (r.run == 0) return RP_OK;
    if (!device_view_reached(queue, v)) return copy_by_host(queue, v, dense, in, err);
    return queue->ops->copy_runs(queue, in ? dense : v->at, in ? v->at : dense, &r, err);
}

bool device_view_reached(const hal_device *queue, const base_view *v) {
    int64_t begin = 0, end = 0;
    if (!queue->ops->reaches) return true;
    return base_view_span(v, &begin, &end) && queue->ops->reaches(queue, v->at + begin);
}
