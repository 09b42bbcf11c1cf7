/* Views and moves that are made of others. */
#include <string.h>

#include "trace/record.h"

rp_tensor rp_transpose(rp_tensor a, int i, int j) {
    int axes[RP_MAX_RANK];
    uint32_t x, y, rank = rp_tensor_shape(a).rank;
    if (!trace_axis("transpose", a, i, false, &x) || !trace_axis("transpose", a, j, false, &y))
        return trace_bad(a.graph);
    for (uint32_t k = 0; k < rank; k++) axes[k] = (int)(k == x ? y : k == y ? x : k);
    return rp_permute(a, axes, rank);
}

rp_tensor rp_unsqueeze(rp_tensor a, int axis) {
    uint32_t at;
    rp_dim one = rp_dim_const(1);
    if (!trace_axis("unsqueeze", a, axis, true, &at)) return trace_bad(a.graph);
    return trace_regroup(a, at, 0, &one, 1);
}

rp_tensor rp_squeeze(rp_tensor a, int axis) {
    uint32_t at;
    if (!trace_axis("squeeze", a, axis, false, &at)) return trace_bad(a.graph);
    if (!trace_equal(a.graph, rp_tensor_dim(a, axis), rp_dim_const(1))) {
        (void)rp_fail(&a.graph->err, RP_INVALID, "squeeze: the size of axis %d of %s is not 1",
                      axis, trace_type_text(a.graph, a).s);
        return trace_bad(a.graph);
    }
    return trace_regroup(a, at, 1, NULL, 0);
}

rp_tensor rp_flatten(rp_tensor a, int first, int last) {
    uint32_t from, to;
    rp_dim all = rp_dim_const(1);
    if (!trace_axis("flatten", a, first, false, &from) ||
        !trace_axis("flatten", a, last, false, &to))
        return trace_bad(a.graph);
    if (from > to) {
        (void)rp_fail(&a.graph->err, RP_INVALID, "flatten: axis %d of %s is behind axis %d", first,
                      trace_type_text(a.graph, a).s, last);
        return trace_bad(a.graph);
    }
    for (uint32_t i = from; i <= to; i++) all = rp_dim_mul(all, rp_tensor_dim(a, (int)i));
    return trace_regroup(a, from, to - from + 1, &all, 1);
}

rp_tensor rp_stack(const rp_tensor *parts, uint32_t n, int axis) {
    if (n == 0) return trace_bad(NULL);
    if (!parts) return trace_null(NULL, "stack: the list of tensors");
    rp_graph *g = parts[0].graph;
    uint32_t at;
    if (!trace_axis("stack", parts[0], axis, true, &at)) return trace_bad(g);
    rp_tensor *rows = base_arena_array(ir_graph_arena(g->ir), n, sizeof *rows);
    if (!rows) {
        (void)rp_fail(&g->err, RP_NOMEM, "stack of %u", n);
        return trace_bad(g);
    }
    for (uint32_t i = 0; i < n; i++) rows[i] = rp_unsqueeze(parts[i], axis);
    return rp_concat(rows, n, (int)at);
}

void trace_pair(rp_tensor *a, rp_tensor *b, rp_dim lead[2]) {
    rp_tensor *both[2] = {a, b};
    rp_shape s[2];
    rp_dim ones[RP_MAX_RANK];
    for (int i = 0; i < RP_MAX_RANK; i++) ones[i] = rp_dim_const(1);
    for (int i = 0; i < 2; i++) {
        *both[i] =
            trace_regroup(*both[i], 0, 0, ones, RP_MAX_RANK - rp_tensor_shape(*both[i]).rank);
        s[i] = rp_tensor_shape(*both[i]);
    }
    for (int i = 0; i < 2; i++)
        lead[i] = rp_dim_compare(s[0].dim[i], RP_DIM_EQ, 1) == RP_YES ? s[1].dim[i] : s[0].dim[i];
    for (int i = 0; i < 2; i++) {
        memcpy(s[i].dim, lead, 2 * sizeof *lead);
        *both[i] = rp_flatten(rp_broadcast(*both[i], s[i]), 0, 1);
    }
}

/* The first of each of n runs of `step` elements along an axis, which takes an axis more in between: of as many as there may be, two
 * others are one as long. */
static rp_tensor first_of_each(rp_tensor a, uint32_t at, rp_dim n, int64_t step) {
    const rp_shape s = rp_tensor_shape(a);
    const bool full = s.rank == RP_MAX_RANK;
    const uint32_t pair = at < 2 ? RP_MAX_RANK - 2 : 0;
    rp_dim parts[2] = {n, rp_dim_const(step)};
    if (full) {
        const rp_dim all = rp_dim_mul(s.dim[pair], s.dim[pair + 1]);
        a = trace_regroup(a, pair, 2, &all, 1);
        at -= pair == 0;
    }
    a = rp_slice(trace_regroup(a, at, 1, parts, 2), (int)at + 1, 0, 1);
    a = trace_regroup(a, at + 1, 1, NULL, 0);
    return full ? trace_regroup(a, pair, 1, &s.dim[pair], 2) : a;
}

/* Where pieces of whole steps fit behind start, every one's first element is a slice of views; else what lacks is added. */
rp_tensor(rp_slice_step)(rp_tensor a, int axis, rp_dim start, rp_dim stop, int64_t step) {
    uint32_t at;
    if (!trace_axis("slice", a, axis, false, &at)) return trace_bad(a.graph);
    if (step < 1) {
        (void)rp_fail(&a.graph->err, RP_INVALID,
                      "slice: a step of %lld; a step is positive, rp_flip turns an axis around",
                      (long long)step);
        return trace_bad(a.graph);
    }
    if (step == 1) return rp_slice(a, (int)at, start, stop);
    rp_dim n = rp_dim_ceildiv(rp_dim_sub(stop, start), step), size = rp_tensor_dim(a, (int)at);
    rp_dim end = rp_dim_add(start, rp_dim_mul(n, step));
    rp_tensor part;
    if (rp_dim_compare(end, RP_DIM_LE, size) == RP_YES) {
        part = rp_slice(a, (int)at, start, end);
    } else {
        part = rp_slice(a, (int)at, start, stop);
        part = rp_pad(part, (int)at, 0, rp_dim_sub(end, stop), 0);
    }
    return first_of_each(part, at, n, step);
}

/* `count` of value along axis `at` of x. */
static rp_tensor filled(rp_tensor x, uint32_t at, rp_dim count, double value) {
    rp_shape s = rp_tensor_shape(x);
    s.dim[at] = count;
    return rp_broadcast(rp_const(x.graph, rp_tensor_dtype(x), value), s);
}

/* How many elements a padding that is below 0 takes away; it is none then. */
static rp_dim cut_off(rp_dim *padding) {
    int64_t least, most;
    const rp_dim all = *padding, none = rp_dim_const(0);
    rp_dim_bounds(all, &least, &most);
    if (least >= 0 || most > 0) return none;
    *padding = none;
    return rp_dim_sub(none, all);
}

static bool take_away(rp_tensor *a, uint32_t at, rp_dim *before, rp_dim *after) {
    const rp_dim first = cut_off(before), last = cut_off(after), n = rp_tensor_dim(*a, (int)at);
    int64_t cut;
    if (rp_dim_is_const(rp_dim_add(first, last), &cut) && cut == 0) return true;
    if (!trace_le(a->graph, rp_dim_add(first, last), n)) {
        if (trace_ready(a->graph))
            (void)rp_fail(&a->graph->err, RP_INVALID,
                          "pad: what is taken away of %s along axis %u is not known to be there",
                          trace_type_text(a->graph, *a).s, at);
        return false;
    }
    *a = rp_slice(*a, (int)at, first, rp_dim_sub(n, last));
    return true;
}

rp_tensor(rp_pad)(rp_tensor a, int axis, rp_dim before, rp_dim after, double value) {
    uint32_t at, n = 0;
    int64_t v;
    rp_tensor part[3];
    if (!trace_axis("pad", a, axis, false, &at)) return trace_bad(a.graph);
    if (!take_away(&a, at, &before, &after)) return trace_bad(a.graph);
    if (!rp_dim_is_const(before, &v) || v != 0) part[n++] = filled(a, at, before, value);
    part[n++] = a;
    if (!rp_dim_is_const(after, &v) || v != 0) part[n++] = filled(a, at, after, value);
    return n == 1 ? a : rp_concat(part, n, (int)at);
}

/* n - 1 - i at i. An axis that may be empty gets an element that no index reads: a table has one. */
rp_tensor rp_flip(rp_tensor a, int axis) {
    uint32_t at;
    if (!trace_axis("flip", a, axis, false, &at)) return trace_bad(a.graph);
    rp_dim n = rp_tensor_dim(a, axis);
    const rp_dtype t = trace_place_type(n);
    rp_tensor last = rp_dim_value(a.graph, rp_dim_sub(n, 1), t);
    rp_tensor i = rp_iota(a.graph, t, RP_SHAPE(n), 0);
    if (!trace_at_least(a.graph, n, 1)) a = rp_pad(a, axis, 0, 1, 0);
    return rp_index_select(a, axis, rp_sub(last, i));
}
