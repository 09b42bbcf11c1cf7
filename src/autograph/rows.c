#include "autograph/rows.h"

#include <string.h>

#include "autograph/memory.h"
#include "base/status.h"

enum { STEP = 8, STEPS = 16 };

int64_t autograph_rows_up(int64_t n) {
    int64_t step = 1;
    if (n > INT64_MAX / 2) return n;
    if (n <= STEP / 2) {
        while (step < n) step *= 2;
        return n > 0 ? step : n;
    }
    for (step = STEP; step * STEPS * 2 < n; step *= 2) {
    }
    return (n + step - 1) / step * step;
}

static bool is_padded(const autograph_rows *r, const rp_value *v) {
    return v->rows && r->rounded && r->padded != r->n;
}

rp_status autograph_rows_meet(autograph_rows *r, const rp_value *v, rp_error *err) {
    if (!v->rows) return RP_OK;
    if (v->state || v->indirect)
        return rp_fail(err, RP_INVALID,
                       "rows of a tensor that is read where it lies; only a copy can have more");
    int64_t n = v->tensor.dim[0];
    if (r->known && r->n != n)
        return rp_fail(err, RP_INVALID,
                       "arguments have %lld and %lld rows; those that are marked as rows have "
                       "the same number",
                       (long long)r->n, (long long)n);
    r->known = true;
    r->n = n;
    r->padded = r->rounded ? autograph_rows_up(n) : n;
    return RP_OK;
}

rp_buffer autograph_rows_form(const autograph_rows *r, const rp_value *v) {
    rp_buffer b = v->tensor;
    if (is_padded(r, v)) b.dim[0] = r->padded;
    return b;
}

rp_status autograph_rows_clear(const autograph_rows *r, hal_device *queue, void *memory,
                               const rp_value *v, rp_error *err) {
    rp_buffer form = autograph_rows_form(r, v);
    size_t all = 0, given = 0;
    if (!is_padded(r, v)) return RP_OK;
    if (!autograph_bytes(&form, &all) || !autograph_bytes(&v->tensor, &given) || all == given)
        return RP_OK;
    if (queue) return queue->ops->fill(queue, (char *)memory + given, 0, all - given, err);
    memset((char *)memory + given, 0, all - given);
    return RP_OK;
}

rp_status autograph_rows_cut(const autograph_rows *r, rp_value *v, rp_error *err) {
    if (!is_padded(r, v)) return RP_OK;
    if (v->tensor.dim[0] != r->padded)
        return rp_fail(err, RP_INVALID,
                       "a tensor of the result that is marked as rows has %lld of them; the "
                       "arguments of the function have %lld",
                       (long long)v->tensor.dim[0], (long long)r->padded);
    v->tensor.dim[0] = r->n;
    return RP_OK;
}
