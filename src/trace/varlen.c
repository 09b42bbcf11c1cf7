/* Attention over sequences of several lengths that lie one behind the other: each is a row of a batch, as long as the longest, whose
 * rows and columns behind its end are nobody's. */
#include <math.h>

#include "trace/record.h"

/* Where the sequences of q, or of k and v, begin and end, i32[B] each, and how many rows each has room for. */
typedef struct spans {
    rp_tensor begin, end;
    rp_dim n, room, rows; /* sequences; of each; of all */
} spans;

/* `looked_up`: the rows of what they are taken from. */
static bool spans_of(rp_tensor cu, rp_dim most, rp_dim rows, rp_dim looked_up, spans *out) {
    int64_t given;
    if (!trace_at_least(cu.graph, rp_tensor_dim(cu, 0), 2)) return false;
    *out = (spans){.n = rp_dim_sub(rp_tensor_dim(cu, 0), 1), .rows = rows, .room = most};
    if (rp_dim_is_const(most, &given) && given <= 0) out->room = looked_up;
    cu = rp_cast(cu, RP_DTYPE_I32);
    out->begin = rp_slice(cu, 0, 0, out->n);
    out->end = rp_slice(cu, 0, 1, rp_dim_add(out->n, 1));
    return true;
}

/* i32[B,room]: the row that each place of a sequence is. */
static rp_tensor rows_of(const spans *s) {
    rp_tensor at = rp_iota(s->begin.graph, RP_DTYPE_I32, RP_SHAPE(s->room), 0);
    return rp_add(rp_unsqueeze(s->begin, 1), at);
}

/* x[rows,H,D] as [B,H,room,D]. */
static rp_tensor batch_of(rp_tensor x, rp_tensor rows) {
    return rp_transpose(rp_gather(x, rows), 1, 2);
}

/* v[rows,KV,DV] so, with zeros behind the end of each sequence: what lies there is another's, whose infinities and NaN a weight of 0 would
 * not leave out. */
static rp_tensor values_of(rp_tensor v, const spans *k, rp_tensor cols) {
    rp_tensor own = rp_unsqueeze(rp_unsqueeze(rp_lt(cols, rp_unsqueeze(k->end, 1)), 1), 3);
    return rp_where(own, batch_of(v, cols), rp_const(v.graph, rp_tensor_dtype(v), 0));
}

/* bool[B,1,room of q,room of k]. Positions count from the ends, which lie side by side, as in flash-attn: the last row of a sequence sees
 * its last column. */
static rp_tensor seen_of(const rp_varlen_args *a, const spans *q, const spans *k, rp_tensor rows,
                         rp_tensor cols) {
    rp_tensor end = rp_unsqueeze(k->end, 1), seen = rp_unsqueeze(rp_lt(cols, end), 1);
    if (a->causal || a->window > 0) {
        rp_tensor i = rp_unsqueeze(rp_sub(rows, rp_unsqueeze(q->end, 1)), 2);
        rp_tensor j = rp_unsqueeze(rp_sub(cols, end), 1);
        if (a->causal) seen = rp_and(seen, rp_le(j, i));
        if (a->window > 0) seen = rp_and(seen, rp_gt(j, rp_add_int(i, -a->window)));
        if (a->window > 0 && !a->causal) seen = rp_and(seen, rp_lt(j, rp_add_int(i, a->window)));
    }
    return rp_unsqueeze(seen, 1);
}

/* y[B,room,...] by rows, `none` in those that are in no sequence or have no room there. */
static rp_tensor unbatched(rp_tensor y, const spans *s, double none) {
    rp_graph *g = y.graph;
    rp_tensor row = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(s->rows), 0);
    rp_tensor of = rp_bucketize(row, s->end, true); /* the first that ends behind it */
    rp_tensor at = rp_sub(row, rp_gather(s->begin, of));
    rp_tensor room = rp_dim_value(g, s->room, RP_DTYPE_I32);
    rp_tensor in = rp_and(rp_ge(at, rp_const(g, RP_DTYPE_I32, 0)), rp_lt(at, room));
    in = rp_and(in, rp_lt(of, rp_dim_value(g, s->n, RP_DTYPE_I32)));
    y = rp_gather(rp_flatten(y, 0, 1), rp_add(rp_mul(of, room), at));
    while (trace_ready(g) && rp_tensor_shape(in).rank < rp_tensor_shape(y).rank)
        in = rp_unsqueeze(in, -1);
    return rp_where(in, y, rp_const(g, rp_tensor_dtype(y), none));
}

/* x with a row of zeros behind it where it may have none, since something is looked up in it. */
static rp_tensor with_a_row(rp_tensor x) {
    return trace_at_least(x.graph, rp_tensor_dim(x, 0), 1) ? x : rp_pad(x, 0, 0, 1, 0);
}

static bool fits(const rp_varlen_args *a) {
    rp_graph *g = a->q.graph;
    rp_shape q = rp_tensor_shape(a->q), k = rp_tensor_shape(a->k), v = rp_tensor_shape(a->v);
    int64_t h = 0, kv = 0;
    if (!trace_ready(g)) return false;
    bool ok = q.rank == 3 && k.rank == 3 && v.rank == 3 && trace_equal(g, k.dim[0], v.dim[0]) &&
              trace_equal(g, k.dim[1], v.dim[1]) && trace_equal(g, q.dim[2], k.dim[2]) &&
              trace_number(g, q.dim[1], &h) && trace_number(g, k.dim[1], &kv) && kv > 0 &&
              h % kv == 0;
    if (!ok && trace_ready(g))
        (void)rp_fail(&g->err, RP_INVALID,
                      "varlen_attention: wants q [T,H,D], k [S,KV,D] and v [S,KV,DV] with KV "
                      "dividing H; not %s, %s and %s",
                      trace_type_text(g, a->q).s, trace_type_text(g, a->k).s,
                      trace_type_text(g, a->v).s);
    return ok;
}

static bool are_cuts(rp_tensor a, rp_tensor b) {
    rp_graph *g = a.graph;
    const rp_tensor both[] = {a, b};
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        const rp_dtype t = rp_tensor_dtype(both[i]);
        ok = ok && both[i].graph == g && rp_tensor_shape(both[i]).rank == 1 &&
             (t == RP_DTYPE_I32 || t == RP_DTYPE_I64);
    }
    return ok && trace_equal(g, rp_tensor_dim(a, 0), rp_tensor_dim(b, 0));
}

rp_tensor rp_varlen_attention(const rp_varlen_args *a, rp_tensor *lse) {
    spans q, k;
    rp_tensor of_rows;
    if (!a) return trace_null(NULL, "varlen_attention: args");
    rp_graph *g = a->q.graph;
    if (lse) *lse = trace_bad(g);
    if (!fits(a)) return trace_bad(g);
    rp_tensor from_q = with_a_row(a->q), from_k = with_a_row(a->k), from_v = with_a_row(a->v);
    if (!are_cuts(a->cu_q, a->cu_k) ||
        !spans_of(a->cu_q, a->max_q, rp_tensor_dim(a->q, 0), rp_tensor_dim(from_q, 0), &q) ||
        !spans_of(a->cu_k, a->max_k, rp_tensor_dim(a->k, 0), rp_tensor_dim(from_k, 0), &k) ||
        a->window < 0) {
        if (trace_ready(g))
            (void)rp_fail(
                &g->err, RP_INVALID,
                "varlen_attention: wants cu_q and cu_k of one type i32[B+1] or i64[B+1], B "
                "at least 1, and a window of 0 or more; not %s, %s and %lld",
                trace_type_text(g, a->cu_q).s, trace_type_text(g, a->cu_k).s, (long long)a->window);
        return trace_bad(g);
    }
    rp_tensor rows = rows_of(&q), cols = rows_of(&k);
    rp_sdpa_args one = {.q = batch_of(from_q, rows),
                        .k = batch_of(from_k, cols),
                        .v = values_of(from_v, &k, cols),
                        .mask = seen_of(a, &q, &k, rows, cols),
                        .scale = a->scale,
                        .softcap = a->softcap};
    rp_tensor y = rp_sdpa_lse(&one, lse ? &of_rows : NULL);
    if (!trace_ready(g)) return trace_bad(g);
    if (lse) *lse = rp_transpose(unbatched(rp_transpose(of_rows, 1, 2), &q, -HUGE_VAL), 0, 1);
    return unbatched(rp_transpose(y, 1, 2), &q, 0);
}
