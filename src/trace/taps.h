/* Windows along one axis, as convolutions and pooling have them: tap i of every window is a view. */
#ifndef TRACE_TAPS_H
#define TRACE_TAPS_H

#include "trace/record.h"

typedef struct trace_taps {
    int64_t n, stride, padding, dilation;
    rp_dim out;     /* windows */
    rp_dim missing; /* behind the padded input, up to a whole step of the last window */
} trace_taps;

/* A size, stride, padding or distance of taps, so that products of two are no overflow. */
static inline bool trace_is_small(int64_t n) {
    return n >= 0 && n <= INT32_MAX;
}
/* Windows over `size` of g; false where none fits for sure. */
bool trace_taps_of(rp_graph *g, rp_dim size, int64_t n, int64_t stride, int64_t padding,
                   int64_t dilation, trace_taps *out);
/* x with `value` around it along axis, as the taps want it. */
rp_tensor trace_taps_pad(rp_tensor x, int axis, const trace_taps *t, double value);
/* Tap i of every window of the padded x along axis. */
rp_tensor trace_tap(rp_tensor x, int axis, const trace_taps *t, int64_t i);

#endif
