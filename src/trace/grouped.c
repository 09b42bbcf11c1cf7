/* Products of groups of rows, each with a matrix of its own, as of experts: the rows of a group are cut into tiles, the last of which
 * has rows of others behind its own. How many tiles there can be follows from the sizes; which matrix each wants, from the data. A loop of
 * the graph takes a tile an iteration, so that there is one copy of a matrix at a time. */
#include "trace/record.h"

#include "reprise/control.h"

enum {
    ROWS = 32,
    FEW_ROWS = 4,
    MOST_ROWS = 256
}; /* of a tile: of sizes that are no numbers, at least, at most */

/* Rows and groups; tiles of `rows` rows. */
typedef struct cut {
    rp_dim m, groups, tiles;
    int64_t rows;
} cut;

/* Half of what a group has on average: tiles have then at most half as many rows more than there are. Groups without rows have no tile. */
static cut cut_of(rp_dim m, rp_dim groups) {
    int64_t all = 0, n = 0;
    cut c = {.m = m, .groups = groups, .rows = ROWS};
    if (!rp_dim_is_const(m, &all) || !rp_dim_is_const(groups, &n)) {
        c.tiles = rp_dim_add(rp_dim_floordiv(m, ROWS), groups);
        return c;
    }
    for (c.rows = FEW_ROWS; c.rows < MOST_ROWS && c.rows * 4 * n <= all;) c.rows *= 2;
    const int64_t most = n < all ? n : all;
    c.tiles = rp_dim_const((all - most) / c.rows + most);
    return c;
}

/* In: rows of a tile, its group, the matrices. */
static void step(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                 void *trans_b) {
    (void)g, (void)n_in, (void)n_out;
    out[0] = rp_matmul(in[0], rp_gather(in[2], in[1]), *(const bool *)trans_b);
}

static bool fits(rp_tensor a, rp_tensor b, bool trans_b, rp_tensor ends) {
    rp_graph *g = a.graph;
    const rp_shape s = rp_tensor_shape(a), w = rp_tensor_shape(b), e = rp_tensor_shape(ends);
    const rp_dtype t = rp_tensor_dtype(ends);
    if (!trace_ready(g)) return false;
    if (s.rank == 2 && w.rank == 3 && e.rank == 1 && b.graph == g && ends.graph == g &&
        (t == RP_DTYPE_I32 || t == RP_DTYPE_I64) &&
        trace_equal(g, s.dim[1], w.dim[trans_b ? 2 : 1]) && trace_equal(g, e.dim[0], w.dim[0]) &&
        trace_at_least(g, w.dim[0], 1))
        return true;
    if (trace_ready(g))
        (void)rp_fail(
            &g->err, RP_INVALID,
            "grouped_mm: wants rows [M,K], matrices %s and ends i32[G] or i64[G], a group at "
            "least; not %s, %s and %s",
            trans_b ? "[G,N,K]" : "[G,K,N]", trace_type_text(g, a).s, trace_type_text(g, b).s,
            trace_type_text(g, ends).s);
    return false;
}

rp_tensor rp_grouped_mm(rp_tensor a, rp_tensor b, bool trans_b, rp_tensor ends) {
    rp_graph *g = a.graph;
    if (!fits(a, b, trans_b, ends)) return trace_bad(g);
    const cut c = cut_of(rp_tensor_dim(a, 0), rp_tensor_dim(b, 0));
    const rp_dtype t = RP_DTYPE_I32;
    ends = rp_cast(ends, t);
    rp_tensor zero = rp_const(g, t, 0), rows = rp_const(g, t, (double)c.rows);
    rp_tensor begin = rp_slice(rp_pad(ends, 0, 1, 0, 0), 0, 0, c.groups);
    rp_tensor has = rp_max(rp_sub(ends, begin), zero);
    has = rp_floor_divide(rp_add_int(has, c.rows - 1), rows); /* tiles */
    rp_tensor tile_end = rp_cumsum(has, 0), tile_begin = rp_sub(tile_end, has);

    rp_tensor tile = rp_iota(g, t, RP_SHAPE(c.tiles), 0);
    rp_tensor group = rp_bucketize(tile, tile_end, true); /* clamped where a tile has none */
    rp_tensor first = rp_mul(rp_sub(tile, rp_gather(tile_begin, group)), rows);
    first = rp_unsqueeze(rp_add(first, rp_gather(begin, group)), 1);
    rp_tensor row = rp_add(first, rp_iota(g, t, RP_SHAPE(c.rows), 0));
    if (!trace_at_least(g, c.m, 1)) a = rp_pad(a, 0, 0, 1, 0); /* for tiles of no rows */
    const rp_tensor sliced[] = {rp_gather(a, row), group};
    const rp_scan_args args = {.sliced = sliced, .n_sliced = 2, .constants = &b, .n_constants = 1};
    rp_tensor y;
    if (!trace_ready(g)) return trace_bad(g);
    (void)(rp_scan)(g, step, &trans_b, &args, &y, 1);

    row = rp_iota(g, t, RP_SHAPE(c.m), 0);
    group = rp_bucketize(row, ends, true);
    rp_tensor place = rp_mul(rp_gather(tile_begin, group), rows);
    place = rp_add(place, rp_sub(row, rp_gather(begin, group)));
    rp_tensor in = rp_unsqueeze(rp_lt(group, rp_dim_value(g, c.groups, t)), 1);
    y = rp_gather(rp_flatten(y, 0, 1), place);
    return trace_ready(g) ? rp_where(in, y, rp_const(g, rp_tensor_dtype(y), 0)) : trace_bad(g);
}
