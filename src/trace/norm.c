/* Norms and softmaxes. */
#include "trace/record.h"

/* y * weight + bias, of which each may be missing. */
static rp_tensor scaled(rp_tensor y, rp_tensor weight, rp_tensor bias) {
    if (trace_given(weight)) y = rp_mul(y, trace_core(weight));
    return trace_given(bias) ? rp_add(y, trace_core(bias)) : y;
}

rp_tensor rp_rms_norm(rp_tensor x, rp_tensor weight, double eps) {
    rp_tensor c = trace_core(x), ms = rp_mean(rp_mul(c, c), -1, true);
    rp_tensor y = rp_mul(c, rp_rsqrt(rp_add_scalar(ms, eps)));
    return trace_like(scaled(y, weight, rp_none()), x);
}

/* Over the last axis. */
static rp_tensor standardised(rp_tensor c, double eps) {
    rp_tensor d = rp_sub(c, rp_mean(c, -1, true));
    rp_tensor var = rp_mean(rp_mul(d, d), -1, true);
    return rp_mul(d, rp_rsqrt(rp_add_scalar(var, eps)));
}

rp_tensor rp_layer_norm(rp_tensor x, rp_tensor weight, rp_tensor bias, double eps) {
    return trace_like(scaled(standardised(trace_core(x), eps), weight, bias), x);
}

/* p [C] so that it broadcasts along axis 1 of `rank` axes. */
static rp_tensor by_channel(rp_tensor p, uint32_t rank) {
    rp_shape s = {.rank = rank - 1};
    if (!trace_given(p)) return p;
    s.dim[0] = rp_tensor_dim(p, 0);
    for (uint32_t i = 1; i + 1 < rank; i++) s.dim[i] = rp_dim_const(1);
    return rp_reshape(p, s);
}

static bool has_channels(const char *op, rp_tensor x) {
    if (!trace_ready(x.graph)) return false;
    if (rp_tensor_shape(x).rank >= 2) return true;
    (void)rp_fail(&x.graph->err, RP_INVALID, "%s: wants [N,C,...], not %s", op,
                  trace_type_text(x.graph, x).s);
    return false;
}

rp_tensor rp_group_norm(rp_tensor x, uint32_t groups, rp_tensor weight, rp_tensor bias,
                        double eps) {
    rp_shape s = rp_tensor_shape(x);
    rp_dim inner = rp_dim_const(1);
    int64_t c = 0;
    if (!has_channels("group_norm", x)) return trace_bad(x.graph);
    if (!trace_number(x.graph, s.dim[1], &c) || groups == 0 || c % groups != 0) {
        (void)rp_fail(&x.graph->err, RP_INVALID,
                      "group_norm: the channels of %s cannot be cut into %u groups",
                      trace_type_text(x.graph, x).s, groups);
        return trace_bad(x.graph);
    }
    for (uint32_t i = 1; i < s.rank; i++) inner = rp_dim_mul(inner, s.dim[i]);
    rp_tensor rows =
        rp_reshape(trace_core(x), RP_SHAPE(s.dim[0], groups, rp_dim_floordiv(inner, groups)));
    rp_tensor y = rp_reshape(standardised(rows, eps), s);
    return trace_like(scaled(y, by_channel(weight, s.rank), by_channel(bias, s.rank)), x);
}

rp_tensor rp_batch_norm(rp_tensor x, rp_tensor mean, rp_tensor var, rp_tensor weight,
                        rp_tensor bias, double eps) {
    uint32_t rank = rp_tensor_shape(x).rank;
    if (!has_channels("batch_norm", x)) return trace_bad(x.graph);
    rp_tensor d = rp_sub(trace_core(x), trace_core(by_channel(mean, rank)));
    rp_tensor by = rp_rsqrt(rp_add_scalar(trace_core(by_channel(var, rank)), eps));
    rp_tensor y = rp_mul(d, by);
    return trace_like(scaled(y, by_channel(weight, rank), by_channel(bias, rank)), x);
}

rp_tensor rp_l2_normalize(rp_tensor x, int axis, double eps) {
    if (!trace_wants_real("l2_normalize", x)) return trace_bad(x.graph);
    uint32_t at;
    if (!trace_axis("l2_normalize", x, axis, false, &at)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x), length = rp_sqrt(rp_sum(rp_mul(c, c), axis, true));
    return trace_like(rp_div(c, rp_max(length, rp_const(x.graph, rp_tensor_dtype(c), eps))), x);
}

rp_tensor rp_softmax(rp_tensor x, int axis) {
    uint32_t at;
    if (!trace_axis("softmax", x, axis, false, &at)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x), e = rp_exp(rp_sub(c, trace_greatest(c, axis)));
    return trace_like(rp_div(e, rp_sum(e, axis, true)), x);
}

rp_tensor rp_log_softmax(rp_tensor x, int axis) {
    uint32_t at;
    if (!trace_axis("log_softmax", x, axis, false, &at)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x), d = rp_sub(c, trace_greatest(c, axis));
    return trace_like(rp_sub(d, rp_log(rp_sum(rp_exp(d), axis, true))), x);
}

/* As far as is known: the rule of the ops behind asks the rest. One class does not stand for all rows. */
static bool one_a_row(rp_dim rows, rp_dim targets) {
    const rp_answer equal = rp_dim_compare(rows, RP_DIM_EQ, targets);
    return equal == RP_YES ||
           (equal == RP_UNKNOWN && rp_dim_compare(targets, RP_DIM_EQ, 1) != RP_YES);
}

static bool classes_of(rp_tensor logits, rp_tensor target, int64_t *out) {
    rp_shape s = rp_tensor_shape(logits), n = rp_tensor_shape(target);
    const rp_dtype t = rp_tensor_dtype(target);
    if (!trace_ready(logits.graph)) return false;
    if (s.rank == 2 && n.rank == 1 && (t == RP_DTYPE_I32 || t == RP_DTYPE_I64) &&
        trace_number(logits.graph, s.dim[1], out) && *out > 0 && one_a_row(s.dim[0], n.dim[0]))
        return true;
    (void)rp_fail(
        &logits.graph->err, RP_INVALID,
        "cross_entropy: wants logits [N,C] with C known, and i32[N] or i64[N], not %s and %s",
        trace_type_text(logits.graph, logits).s, trace_type_text(logits.graph, target).s);
    return false;
}

rp_tensor rp_cross_entropy(rp_tensor logits, rp_tensor target) {
    int64_t classes = 0;
    rp_graph *g = logits.graph;
    if (!classes_of(logits, target, &classes)) return trace_bad(g);
    rp_dim rows = rp_tensor_dim(logits, 0), all = rp_dim_mul(rows, classes);
    const rp_dtype t = trace_place_type(all);
    rp_tensor class = trace_clamped(target, rp_dim_const(classes), t);
    rp_tensor row = rp_iota(g, t, RP_SHAPE(rows), 0);
    rp_tensor at = rp_add(rp_mul_int(row, classes), class);
    rp_tensor flat = rp_reshape(rp_log_softmax(logits, 1), RP_SHAPE(all));
    return rp_neg(rp_gather(flat, at));
}

rp_tensor rp_cross_entropy_with(rp_tensor logits, rp_tensor target,
                                const rp_cross_entropy_args *args) {
    rp_graph *g = logits.graph;
    if (!args) return trace_null(g, "args of cross_entropy_with");
    rp_tensor loss = rp_cross_entropy(logits, target);
    if (!trace_ready(g)) return trace_bad(g);
    if (!(args->label_smoothing >= 0 && args->label_smoothing <= 1)) {
        (void)rp_fail(&g->err, RP_INVALID,
                      "cross_entropy_with: label_smoothing = %g is outside of [0, 1]",
                      args->label_smoothing);
        return trace_bad(g);
    }
    if (args->label_smoothing > 0) {
        rp_tensor all = rp_neg(rp_mean(rp_log_softmax(logits, 1), 1, false));
        loss = rp_add(rp_mul_scalar(loss, 1 - args->label_smoothing),
                      rp_mul_scalar(all, args->label_smoothing));
    }
    if (args->z_loss != 0) {
        rp_tensor z = rp_logsumexp(logits, 1, false);
        loss = rp_add(loss, rp_mul_scalar(rp_mul(z, z), args->z_loss));
    }
    if (!args->ignores) return loss;
    rp_tensor ignored =
        rp_eq(target, rp_const(g, rp_tensor_dtype(target), (double)args->ignore_index));
    return rp_where(ignored, rp_const(g, rp_tensor_dtype(loss), 0), loss);
}
