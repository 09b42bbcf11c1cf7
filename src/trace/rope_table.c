/* Angles of rotary embeddings: position times frequency, and what models do to the frequencies to see further than they were trained.
 *
 * In double precision, so that late positions have the angles that they are due. Frequencies are ops over an iota: constants of a graph
 * are scalars. */
#include <math.h>

#include "trace/record.h"

static double base_of(const rp_rope_args *a) {
    return a->base != 0 ? a->base : 10000;
}

static rp_tensor number(rp_tensor like, double v) {
    return rp_const(like.graph, RP_DTYPE_F64, v);
}

/* Peng et al., YaRN (arXiv 2309.00071), as transformers has it: frequencies that turn more than beta_fast times within `original` positions
 * stay, those that turn less than beta_slow times are divided by the factor, by a ramp in between. */
static rp_tensor yarn(rp_tensor i, rp_tensor f, const rp_rope_args *a) {
    const double d = (double)a->dim, turns = (double)a->original / (2 * M_PI);
    const double fast = a->beta_fast != 0 ? a->beta_fast : 32;
    const double slow = a->beta_slow != 0 ? a->beta_slow : 1;
    double low = floor(d * log(turns / fast) / (2 * log(base_of(a))));
    double high = ceil(d * log(turns / slow) / (2 * log(base_of(a))));
    low = fmax(low, 0);
    high = fmin(high, d - 1);
    if (high == low) high += 0.001;
    rp_tensor ramp = rp_clamp(rp_mul(rp_sub(i, number(i, low)), number(i, 1 / (high - low))), 0, 1);
    rp_tensor slower = rp_mul(f, number(i, 1 / a->factor));
    return rp_add(rp_mul(slower, ramp), rp_mul(f, rp_sub(number(i, 1), ramp)));
}

/* Llama 3.1: by the length of a wave, original / low and original / high, with a share of each in between. */
static rp_tensor llama3(rp_tensor f, const rp_rope_args *a) {
    const double low = a->low_freq_factor != 0 ? a->low_freq_factor : 1;
    const double high = a->high_freq_factor != 0 ? a->high_freq_factor : 4;
    rp_tensor turns = rp_mul(f, number(f, (double)a->original / (2 * M_PI)));
    rp_tensor share =
        rp_clamp(rp_mul(rp_sub(turns, number(f, low)), number(f, 1 / (high - low))), 0, 1);
    rp_tensor slower = rp_mul(f, number(f, 1 / a->factor));
    return rp_add(rp_mul(slower, rp_sub(number(f, 1), share)), rp_mul(f, share));
}

/* f64[D/2] of pairs i. */
static rp_tensor frequencies(rp_tensor i, const rp_rope_args *a) {
    rp_tensor f = rp_exp(rp_mul(i, number(i, -2 * log(base_of(a)) / (double)a->dim)));
    switch (a->scaling) {
    case RP_ROPE_PLAIN: return f;
    case RP_ROPE_LINEAR: return rp_mul(f, number(i, 1 / a->factor));
    case RP_ROPE_LLAMA3: return llama3(f, a);
    case RP_ROPE_YARN: return yarn(i, f, a);
    }
    return f;
}

static double mscale(double factor, double by) {
    return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

/* What cos and sin are multiplied by. */
static double magnitude(const rp_rope_args *a) {
    if (a->attention_factor != 0) return a->attention_factor;
    if (a->scaling != RP_ROPE_YARN) return 1;
    if (a->mscale != 0 && a->mscale_all_dim != 0)
        return mscale(a->factor, a->mscale) / mscale(a->factor, a->mscale_all_dim);
    return mscale(a->factor, 1);
}

/* f64[...,1], or [...,D/2] where each section of the pairs has positions of its own. */
static rp_tensor positions_of(rp_tensor x, rp_tensor i, const rp_rope_args *a) {
    x = rp_cast(x, RP_DTYPE_F64);
    if (a->sections[0] == 0) return rp_unsqueeze(x, -1);
    rp_tensor all = rp_none();
    int64_t end = a->dim / 2;
    for (int s = RP_ROPE_SECTIONS; s-- > 0;) {
        if (a->sections[s] == 0) continue;
        rp_tensor own = rp_unsqueeze(rp_squeeze(rp_slice(x, 0, s, s + 1), 0), -1);
        all = trace_given(all) ? rp_where(rp_lt(i, number(i, (double)end)), own, all) : own;
        end -= a->sections[s];
    }
    return all;
}

static bool are_sections(rp_tensor positions, const rp_rope_args *a) {
    int64_t sum = 0, n = 0, given = 0;
    for (int s = 0; s < RP_ROPE_SECTIONS; s++) {
        if (a->sections[s] && n < s) return false; /* behind one that is not given */
        sum += a->sections[s];
        n += a->sections[s] != 0;
    }
    if (n == 0) return true;
    return sum == a->dim / 2 && rp_tensor_shape(positions).rank > 0 &&
           trace_number(positions.graph, rp_tensor_dim(positions, 0), &given) && given == n;
}

static bool are_settings(const rp_rope_args *a) {
    const bool far = a->scaling == RP_ROPE_YARN || a->scaling == RP_ROPE_LLAMA3;
    if (a->dim < 2 || a->dim % 2 != 0 || a->dim > INT32_MAX) return false;
    if (!(a->base >= 0) || a->base == 1) return false;
    if (a->scaling != RP_ROPE_PLAIN && !(a->factor > 0)) return false;
    return !far || a->original > 0;
}

void(rp_rope_tables)(rp_tensor positions, const rp_rope_args *a, rp_tensor *cos, rp_tensor *sin) {
    rp_graph *g = positions.graph;
    if (cos) *cos = trace_bad(g);
    if (sin) *sin = trace_bad(g);
    if (!a) {
        (void)trace_null(g, "rope_tables: args");
        return;
    }
    if (!trace_ready(g)) return;
    if (!are_settings(a) || !are_sections(positions, a)) {
        if (trace_ready(g))
            (void)rp_fail(
                &g->err, RP_INVALID,
                "rope_tables: positions %s with dim %lld, which is even, a base above 1, "
                "sections %u, %u, %u and %u, whose sum is dim/2 and of which positions has "
                "as many along its first axis, and, where it scales, a factor and the "
                "original positions (%g and %lld)",
                trace_type_text(g, positions).s, (long long)a->dim, a->sections[0], a->sections[1],
                a->sections[2], a->sections[3], a->factor, (long long)a->original);
        return;
    }
    rp_tensor i = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(a->dim / 2), 0);
    i = rp_cast(i, RP_DTYPE_F64);
    rp_tensor angle = rp_mul(positions_of(positions, i, a), frequencies(i, a));
    const double by = magnitude(a);
    rp_tensor c = rp_cos(angle), s = rp_sin(angle);
    if (by != 1) {
        c = rp_mul(c, number(i, by));
        s = rp_mul(s, number(i, by));
    }
    if (cos) *cos = rp_cast(c, RP_DTYPE_F32);
    if (sin) *sin = rp_cast(s, RP_DTYPE_F32);
}
