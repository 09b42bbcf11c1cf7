/* Attention in blocks of rows (attention.h). What is computed of the scores, a "square" of rows and columns, is computed for each block
 * again, of slices of what it reads.
 *
 * No bit changes where all that is computed is finite: a column that is left out has the weight 0, and neither it nor a score of -inf
 * changes a sum or a maximum, since the lanes of a sum (kir.h) and the chunks of a product (docs/ir.md) begin where columns do: at
 * multiples of those. What nobody sees is not read, so what is not finite there no longer makes NaN of rows. */
#include "pass/attention.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "pass/hidden.h"
#include "pass/passes.h"
#include "pass/product.h"
#include "pass/rebuild.h"
#include "pass/rules.h"

enum {
    MOST_NODES = 64,       /* of a square */
    LEAST_ROWS = 64,       /* of a block .. */
    LEAST_SHARED = 1024,   /* .. and of one in all matrices, for threads to share */
    COLUMN_STEP = 16,      /* lanes of a sum: where columns end */
    COLUMN_BEGIN = 256,    /* a chunk of a product: where they begin .. */
    COLUMN_CHUNK = 4096,   /* .. and one of a sum, where there are more */
    LEAST_SAVED = 1 << 17, /* scores, at 256 for unknown sizes */
    LEAST_SHARE = 7        /* one of so many, at least */
};

/* --- the square ------------------------------------------------------------------------ */

typedef struct part {
    ir_ref r;
    uint32_t inside;           /* readers within the square */
    bool of_scores, of_places; /* computed from scores; from nothing but iotas and constants */
    bool whole;                /* others read it, too: it is computed as it is, and sliced */
} part;

/* Who reads a node: how many, and which one last. */
typedef struct use {
    uint32_t n;
    ir_ref reader; /* IR_NONE: the graph's caller */
} use;

typedef struct square {
    const ir_graph *g;
    const use *uses;
    ir_ref root;    /* what blocks take the place of: the product, or its division by a sum */
    ir_ref product; /* of the weights with the values */
    uint32_t
        weights; /* which operand of it they are; as 1 they are transposed, and so is the result */
    ir_ref divisor; /* IR_NONE: there is none behind the product */
    ir_dim row_dim, col_dim;
    int64_t rows, cols; /* 0: symbols */
    part part[MOST_NODES];
    uint32_t n;
    bool has_exp, has_sum; /* of scores */
    bool has_weights, is_shared, is_large, is_finite;
} square;

typedef struct block {
    int64_t row, row_end, col, col_end;
} block;

static bool is_dim(const ir_graph *g, const ir_node *n, uint32_t from_last, ir_dim d) {
    return n->shape.rank >= from_last &&
           ir_dim_same(ir_graph_dims(g), n->shape.dim[n->shape.rank - from_last], d);
}

static bool is_one(const ir_graph *g, const ir_node *n, uint32_t from_last) {
    return n->shape.rank < from_last ||
           ir_dim_is(ir_graph_dims(g), n->shape.dim[n->shape.rank - from_last], 1);
}

static bool has_rows(const square *s, const ir_node *n) {
    return is_dim(s->g, n, 2, s->row_dim);
}

static bool has_cols(const square *s, const ir_node *n) {
    return is_dim(s->g, n, 1, s->col_dim);
}

/* Rows or columns may be missing, as broadcasting has it. */
static bool lies_on(const square *s, const ir_node *n) {
    bool rows = has_rows(s, n), cols = has_cols(s, n);
    return (rows || cols) && (cols || is_one(s->g, n, 1)) && (rows || is_one(s->g, n, 2));
}

static bool is_row_reduce(const square *s, const ir_node *n) {
    const ir_node *x = ir_node_at(s->g, n->in[0]);
    return ir_op_table(n->op)->kind == IR_KIND_REDUCE && x->shape.rank >= 2 && has_rows(s, x) &&
           has_cols(s, x) && ir_attr_int(n, IR_ATTR_AXIS, 0) == (int64_t)x->shape.rank - 1;
}

/* A reduction that dropped its axis, and a reshape that puts it back. */
static bool is_kept_late(const square *s, const ir_node *n) {
    const ir_node *x = n->op == IR_reshape ? ir_node_at(s->g, n->in[0]) : NULL;
    if (!x || !x->n_in || !is_row_reduce(s, x) || ir_attr_int(x, IR_ATTR_KEEP, 0)) return false;
    uint32_t rank = n->shape.rank;
    bool same = rank == x->shape.rank + 1 && is_one(s->g, n, 1);
    for (uint32_t i = 0; same && i + 1 < rank; i++) same = n->shape.dim[i] == x->shape.dim[i];
    return same;
}

/* Axes in front of rows and columns are joined or cut. */
static bool is_same_matrices(const square *s, const ir_node *n) {
    const ir_node *x = ir_node_at(s->g, n->in[0]);
    uint32_t a = n->shape.rank, b = x->shape.rank;
    return a >= 2 && b >= 2 && n->shape.dim[a - 1] == x->shape.dim[b - 1] &&
           n->shape.dim[a - 2] == x->shape.dim[b - 2];
}

static bool is_part(const square *s, const ir_node *n) {
    if (!lies_on(s, n) || n->n_in == 0) return false;
    switch (n->op) {
    case IR_matmul: return has_rows(s, n) && has_cols(s, n);
    case IR_broadcast: return true;
    case IR_reshape: return is_kept_late(s, n) || is_same_matrices(s, n);
    default:
        return ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE ||
               (is_row_reduce(s, n) && ir_attr_int(n, IR_ATTR_KEEP, 0));
    }
}

static part *part_of(square *s, ir_ref r) {
    for (uint32_t i = 0; i < s->n; i++)
        if (s->part[i].r == r) return &s->part[i];
    return NULL;
}

static bool is_dequant(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    while (ir_op_table(n->op)->kind == IR_KIND_VIEW) n = ir_node_at(g, n->in[0]);
    return n->op == IR_dequant;
}

/* Kernels of packed weights, and of block formats, want all of an operand. */
static bool is_packed(const ir_graph *g, ir_ref product) {
    const ir_node *n = ir_node_at(g, product);
    pass_weights w;
    return pass_product_weights(g, product, &w) || is_dequant(g, n->in[0]) ||
           is_dequant(g, n->in[1]);
}

static bool only_places(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    while (ir_op_table(n->op)->kind == IR_KIND_VIEW) n = ir_node_at(g, n->in[0]);
    return n->op == IR_const || n->op == IR_iota;
}

/* -1e9 and its kind, which hide nothing from a row in which there is nothing else. */
static bool is_finite_mask(const ir_graph *g, ir_ref r) {
    ir_ref c = pass_constant_of(g, r);
    double v = c == IR_NONE ? 0 : ir_attr_float(ir_node_at(g, c), IR_ATTR_VALUE, 0);
    return v <= -1e4 && !isinf(v);
}

/* Takes r and what it is computed from, as far as that lies on the square. */
static void collect(square *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    if (s->n == MOST_NODES) s->is_large = true;
    if (s->is_large) return;
    part *own = &s->part[s->n++];
    *own = (part){.r = r, .of_scores = n->op == IR_matmul, .of_places = n->op != IR_matmul};
    if (n->op == IR_matmul) {
        s->has_weights = s->has_weights || is_packed(s->g, r);
        return;
    }
    if (is_kept_late(s, n)) n = ir_node_at(s->g, n->in[0]);
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref o = n->in[i];
        if ((n->op == IR_where || n->op == IR_add) && has_cols(s, n))
            s->is_finite = s->is_finite || is_finite_mask(s->g, o);
        if (!part_of(s, o) && is_part(s, ir_node_at(s->g, o))) collect(s, o);
        part *p = part_of(s, o);
        if (p) p->inside++;
        own->of_scores = own->of_scores || (p ? p->of_scores : s->is_large);
        own->of_places = own->of_places && (p ? p->of_places : only_places(s->g, o));
    }
    s->has_sum = s->has_sum || (n->op == IR_sum && own->of_scores);
    s->has_exp = s->has_exp || (pass_is_power(s->g, n) && own->of_scores);
}

/* What others read is computed whole anyway; scores are not, and a mask of places is cheap. */
static void settle_shared(square *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        part *p = &s->part[i];
        if (s->uses[p->r].n <= p->inside) continue;
        s->is_shared = s->is_shared || p->of_scores;
        p->whole = !p->of_places;
    }
}

static bool may_be_weights(square *s, ir_ref r) {
    const ir_node *w = ir_node_at(s->g, r);
    const ir_dims *t = ir_graph_dims(s->g);
    uint32_t rank = w->shape.rank;
    if (rank < 2 || ir_op_table(w->op)->kind == IR_KIND_LEAF) return false;
    s->row_dim = w->shape.dim[rank - 2];
    s->col_dim = w->shape.dim[rank - 1];
    s->rows = s->cols = 0;
    (void)ir_dim_is_const(t, s->row_dim, &s->rows);
    (void)ir_dim_is_const(t, s->col_dim, &s->cols);
    return !is_one(s->g, w, 1) && is_part(s, w);
}

/* Whether operand `which` of the product has weights that are a softmax of scores, in any of its forms. */
static bool find_weights(square *s, uint32_t which) {
    const ir_node *n = ir_node_at(s->g, s->product);
    const bool leads = which == 0;
    if (!leads && !ir_attr_int(n, IR_ATTR_TRANS_B, 0)) return false;
    if (!may_be_weights(s, n->in[which])) return false;
    s->weights = which;
    s->n = 0;
    s->is_large = s->has_exp = s->has_sum = s->is_shared = s->is_finite = false;
    s->has_weights = is_packed(s->g, s->product);
    collect(s, n->in[which]);
    s->part[0].inside++;
    if (s->divisor != IR_NONE) {
        if (!leads || !is_part(s, ir_node_at(s->g, s->divisor))) return false;
        if (!part_of(s, s->divisor)) collect(s, s->divisor);
        part *by = part_of(s, s->divisor);
        if (!by || !by->of_scores || !s->has_sum) return false;
        by->inside++;
    }
    settle_shared(s);
    return s->part[0].of_scores && s->has_exp && (s->has_sum || s->is_shared);
}

/* A product that nothing but a division reads. */
static bool is_divided(const square *s, ir_ref r) {
    const use *u = &s->uses[r];
    if (u->n != 1 || u->reader == IR_NONE) return false;
    const ir_node *d = ir_node_at(s->g, u->reader);
    return d->op == IR_div && d->in[0] == r && ir_node_at(s->g, r)->op == IR_matmul;
}

/* Whether r ends an attention: a product with weights, or what such a product is divided by the sum of its weights. */
static bool find_square(square *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    s->root = s->product = r;
    s->divisor = IR_NONE;
    if (n->op == IR_div && is_divided(s, n->in[0])) {
        s->product = n->in[0];
        s->divisor = n->in[1];
        return find_weights(s, 0);
    }
    if (n->op != IR_matmul) return false;
    if (is_divided(s, r)) {
        square whole = {.g = s->g, .uses = s->uses};
        if (find_square(&whole, s->uses[r].reader)) return false; /* it is a part of that */
    }
    return find_weights(s, 0) || find_weights(s, 1);
}

/* --- what blocks need ---------------------------------------------------------------------- */

static bool hides(const square *s, ir_ref r, const block *b,
                  bool (*fn)(const ir_graph *g, ir_ref r, const pass_box *b)) {
    uint32_t rank = ir_node_at(s->g, r)->shape.rank;
    pass_box x = pass_box_of(s->g, r);
    x.lo[rank - 2] = b->row;
    x.hi[rank - 2] = b->row_end - 1;
    x.lo[rank - 1] = b->col;
    x.hi[rank - 1] = b->col_end - 1;
    return fn(s->g, r, &x);
}

/* Whether no row of the block needs any of the columns. */
static bool is_needless(const square *s, const block *b) {
    if (b->col >= b->col_end) return true;
    if (!hides(s, s->part[0].r, b, pass_is_zero)) return false;
    for (uint32_t i = 0; i < s->n; i++) {
        const ir_node *n = ir_node_at(s->g, s->part[i].r);
        if (n->op == IR_reshape && is_kept_late(s, n)) n = ir_node_at(s->g, n->in[0]);
        if (ir_op_table(n->op)->kind != IR_KIND_REDUCE || s->part[i].whole) continue;
        bool neutral = n->op == IR_sum    ? hides(s, n->in[0], b, pass_is_zero)
                       : n->op == IR_amax ? hides(s, n->in[0], b, pass_is_hidden)
                                          : false;
        if (!neutral) return false;
    }
    return true;
}

/* The first multiple of COLUMN_STEP from which on columns are needless. */
static int64_t last_column(const square *s, const block *rows) {
    int64_t lo = 1, hi = (s->cols + COLUMN_STEP - 1) / COLUMN_STEP;
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        block b = *rows;
        b.col = mid * COLUMN_STEP;
        b.col_end = s->cols;
        if (is_needless(s, &b))
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo * COLUMN_STEP < s->cols ? lo * COLUMN_STEP : s->cols;
}

static int64_t first_column(const square *s, const block *rows, int64_t end) {
    const int64_t step = s->cols > COLUMN_CHUNK ? COLUMN_CHUNK : COLUMN_BEGIN;
    int64_t lo = 0, hi = (end - 1) / step;
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        block b = *rows;
        b.col = 0;
        b.col_end = mid * step;
        if (is_needless(s, &b))
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo * step;
}

/* Matrices, at 256 for unknown sizes; no more than that matters. */
static int64_t count_matrices(const square *s) {
    const ir_shape *all = &ir_node_at(s->g, s->part[0].r)->shape;
    int64_t n = 1;
    for (uint32_t i = 0; i + 2 < all->rank && n < LEAST_SAVED; i++)
        n *= ir_dim_nominal(ir_graph_dims(s->g), all->dim[i]);
    return n > 0 ? n : 1;
}

static int64_t rows_of_block(const square *s, int64_t matrices) {
    int64_t rows = (s->rows + PASS_ATTENTION_BLOCKS - 1) / PASS_ATTENTION_BLOCKS;
    if (rows < LEAST_ROWS) rows = LEAST_ROWS;
    if (rows * matrices < LEAST_SHARED) rows = (LEAST_SHARED + matrices - 1) / matrices;
    return (rows + COLUMN_STEP - 1) / COLUMN_STEP * COLUMN_STEP;
}

/* Whether the mask hides columns from the first row or the last, as it does from blocks where there are enough. */
static bool hides_any(const square *s) {
    const block first = {.row_end = 1}, last = {.row = s->rows - 1, .row_end = s->rows};
    return last_column(s, &first) < s->cols || last_column(s, &last) < s->cols ||
           first_column(s, &last, s->cols) > 0;
}

static const char *why_nothing(const square *s, uint32_t n) {
    if (s->is_finite) return "what hides scores is a finite number; -inf would hide them";
    if (!hides_any(s)) return "no mask by position hides columns from whole rows";
    return n == 1 ? "too small" : "its mask hides few columns";
}

/* Blocks; 0 with the reason where they would not pay. */
static uint32_t plan_blocks(const square *s, block *out, const char **why) {
    const int64_t matrices = count_matrices(s), size = rows_of_block(s, matrices);
    int64_t kept = 0, saved;
    uint32_t n = 0;
    for (int64_t row = 0; row < s->rows; row += size) {
        block b = {.row = row, .row_end = row + size < s->rows ? row + size : s->rows};
        b.col_end = last_column(s, &b);
        b.col = first_column(s, &b, b.col_end);
        kept += (b.row_end - b.row) * (b.col_end - b.col);
        out[n++] = b;
    }
    saved = s->rows * s->cols - kept;
    *why = saved == 0 ? why_nothing(s, n) : "its mask hides few columns";
    if (saved == 0 || saved < s->rows * s->cols / LEAST_SHARE) return 0;
    *why = "too small";
    return saved < LEAST_SAVED / matrices ? 0 : n;
}

static const char *why_whole(const square *s) {
    if (s->is_large) return "too many ops between the products";
    if (!s->rows || !s->cols) return "how many rows or columns there are is a symbol";
    if (s->has_weights) return "an operand of a product is packed, or of a block format";
    return s->is_shared ? "its scores or weights are read elsewhere, too" : NULL;
}

static uint32_t blocks_of(const square *s, block *out, const char **why) {
    *why = why_whole(s);
    return *why ? 0 : plan_blocks(s, out, why);
}

/* --- building ---------------------------------------------------------------------------- */

typedef struct builder {
    pass_rebuild *b;
    square *s;
    block at;
    ir_ref made[MOST_NODES]; /* by part, in this block */
} builder;

static rp_status add_slice(pass_rebuild *b, ir_ref r, uint32_t axis, int64_t start, int64_t stop,
                           ir_ref *out) {
    ir_dims *t = ir_graph_dims(b->out);
    ir_attr a[] = {{.key = IR_ATTR_AXIS, .u.i = axis},
                   {.key = IR_ATTR_START, .u.dim = ir_dim_const(t, start)},
                   {.key = IR_ATTR_STOP, .u.dim = ir_dim_const(t, stop)}};
    *out = r;
    if (ir_dim_is(t, ir_node_at(b->out, r)->shape.dim[axis], stop - start)) return RP_OK;
    return ir_add(b->out, IR_slice, &r, 1, a, 3, out, b->err);
}

/* Of a value that is there: its rows, its columns, or both. */
static rp_status add_cut(const builder *u, ir_ref r, ir_ref *out) {
    const ir_node *n = ir_node_at(u->s->g, r);
    const uint32_t rank = n->shape.rank;
    *out = u->b->map[r];
    if (has_rows(u->s, n)) RP_TRY(add_slice(u->b, *out, rank - 2, u->at.row, u->at.row_end, out));
    if (has_cols(u->s, n)) RP_TRY(add_slice(u->b, *out, rank - 1, u->at.col, u->at.col_end, out));
    return RP_OK;
}

static rp_status add_part(builder *u, ir_ref r, ir_ref *out);

/* shape of n, in this block. */
static ir_shape cut_shape(const builder *u, const ir_node *n) {
    ir_dims *t = ir_graph_dims(u->b->out);
    ir_shape s = n->shape;
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = ir_dim_import(t, ir_graph_dims(u->s->g), s.dim[i]);
    if (has_rows(u->s, n)) s.dim[s.rank - 2] = ir_dim_const(t, u->at.row_end - u->at.row);
    if (has_cols(u->s, n)) s.dim[s.rank - 1] = ir_dim_const(t, u->at.col_end - u->at.col);
    return s;
}

static rp_status add_scores(const builder *u, const ir_node *n, ir_ref *out) {
    const bool trans_b = ir_attr_int(n, IR_ATTR_TRANS_B, 0) != 0;
    ir_ref in[2] = {u->b->map[n->in[0]], u->b->map[n->in[1]]};
    uint32_t a = ir_node_at(u->b->out, in[0])->shape.rank - 2,
             b = ir_node_at(u->b->out, in[1])->shape.rank - (trans_b ? 2 : 1);
    RP_TRY(add_slice(u->b, in[0], a, u->at.row, u->at.row_end, &in[0]));
    RP_TRY(add_slice(u->b, in[1], b, u->at.col, u->at.col_end, &in[1]));
    return ir_add(u->b->out, IR_matmul, in, 2, n->attrs, n->n_attrs, out, u->b->err);
}

static rp_status add_shaped(builder *u, const ir_node *n, ir_ref *out) {
    const ir_shape s = cut_shape(u, n);
    const ir_attr shape = {.key = IR_ATTR_SHAPE, .n = s.rank, .u.dims = s.dim};
    ir_ref x;
    RP_TRY(add_part(u, n->in[0], &x));
    return ir_add(u->b->out, n->op, &x, 1, &shape, 1, out, u->b->err);
}

/* A reduction, whose axis stays. */
static rp_status add_reduce(builder *u, const ir_node *n, ir_ref *out) {
    ir_ref x;
    RP_TRY(add_part(u, n->in[0], &x));
    const ir_attr a[] = {{.key = IR_ATTR_AXIS, .u.i = ir_attr_int(n, IR_ATTR_AXIS, 0)},
                         {.key = IR_ATTR_KEEP, .u.i = true}};
    return ir_add(u->b->out, n->op, &x, 1, a, 2, out, u->b->err);
}

static rp_status add_elements(builder *u, const ir_node *n, ir_ref *out) {
    ir_ref in[3];
    for (uint32_t i = 0; i < n->n_in; i++) RP_TRY(add_part(u, n->in[i], &in[i]));
    return ir_add(u->b->out, n->op, in, n->n_in, n->attrs, n->n_attrs, out, u->b->err);
}

static rp_status add_part(builder *u, ir_ref r, ir_ref *out) {
    const part *p = part_of(u->s, r);
    const ir_node *n = ir_node_at(u->s->g, r);
    if (!p || p->whole) return lies_on(u->s, n) ? add_cut(u, r, out) : (*out = u->b->map[r], RP_OK);
    ir_ref *made = &u->made[p - u->s->part];
    if (*made == IR_NONE) {
        if (n->op == IR_matmul)
            RP_TRY(add_scores(u, n, made));
        else if (is_kept_late(u->s, n))
            RP_TRY(add_reduce(u, ir_node_at(u->s->g, n->in[0]), made));
        else if (n->op == IR_reshape || n->op == IR_broadcast)
            RP_TRY(add_shaped(u, n, made));
        else if (ir_op_table(n->op)->kind == IR_KIND_REDUCE)
            RP_TRY(add_reduce(u, n, made));
        else
            RP_TRY(add_elements(u, n, made));
    }
    *out = *made;
    return RP_OK;
}

/* The other operand has the columns along axis -1 or -2. */
static rp_status add_product(builder *u, ir_ref *out) {
    const ir_node *n = ir_node_at(u->s->g, u->s->product);
    const uint32_t weights = u->s->weights, other = 1 - weights;
    const bool last = weights == 1 || ir_attr_int(n, IR_ATTR_TRANS_B, 0) != 0;
    ir_ref in[2];
    in[other] = u->b->map[n->in[other]];
    uint32_t axis = ir_node_at(u->b->out, in[other])->shape.rank - (last ? 1 : 2);
    RP_TRY(add_part(u, n->in[weights], &in[weights]));
    RP_TRY(add_slice(u->b, in[other], axis, u->at.col, u->at.col_end, &in[other]));
    return ir_add(u->b->out, IR_matmul, in, 2, n->attrs, n->n_attrs, out, u->b->err);
}

static rp_status add_block(builder *u, ir_ref *out) {
    const ir_node *n = ir_node_at(u->s->g, u->s->root);
    ir_ref in[2];
    memset(u->made, 0xff, sizeof u->made);
    if (u->s->divisor == IR_NONE) return add_product(u, out);
    RP_TRY(add_product(u, &in[0]));
    RP_TRY(add_part(u, u->s->divisor, &in[1]));
    return ir_add(u->b->out, n->op, in, 2, n->attrs, n->n_attrs, out, u->b->err);
}

static rp_status add_blocks(pass_rebuild *b, square *s, const block *blocks, uint32_t n,
                            ir_ref *out) {
    builder u = {.b = b, .s = s};
    ir_ref made[PASS_ATTENTION_BLOCKS];
    const ir_attr axis = {.key = IR_ATTR_AXIS,
                          .u.i = (int64_t)ir_node_at(s->g, s->root)->shape.rank -
                                 (s->weights ? 1 : 2)};
    for (uint32_t i = 0; i < n; i++) {
        u.at = blocks[i];
        RP_TRY(add_block(&u, &made[i]));
    }
    *out = made[0];
    return n == 1 ? RP_OK : ir_add(b->out, IR_concat, made, n, &axis, 1, out, b->err);
}

/* --- the pass -------------------------------------------------------------------------------- */

/* Readers of each node, outputs among them; the caller's. */
static rp_status count_uses(const ir_graph *g, use **out, rp_error *err) {
    uint32_t n = ir_graph_count(g);
    use *uses = base_alloc_array(n + 1u, sizeof *uses);
    if (!uses) return rp_fail(err, RP_NOMEM, "attention: %u nodes", n);
    for (ir_ref r = 0; r < n; r++) {
        const ir_node *x = ir_node_at(g, r);
        for (uint32_t i = 0; i < x->n_in; i++) uses[x->in[i]] = (use){uses[x->in[i]].n + 1, r};
    }
    for (uint32_t i = 0; i < ir_output_count(g); i++) {
        ir_ref o = ir_output_at(g, i);
        uses[o] = (use){uses[o].n + 1, IR_NONE};
    }
    *out = uses;
    return RP_OK;
}

typedef struct cutter {
    const use *uses;
    uint32_t n;
} cutter;

static rp_status cut(pass_rebuild *b, ir_ref r, ir_ref *out) {
    cutter *c = b->user;
    block blocks[PASS_ATTENTION_BLOCKS];
    const char *why;
    square s = {.g = b->in, .uses = c->uses};
    if (!find_square(&s, r)) return RP_OK;
    uint32_t n = blocks_of(&s, blocks, &why);
    c->n += n != 0;
    return n ? add_blocks(b, &s, blocks, n, out) : RP_OK;
}

rp_status pass_attention_counted(const ir_graph *in, ir_graph **out, uint32_t *n, rp_error *err) {
    use *uses = NULL;
    RP_TRY(count_uses(in, &uses, err));
    cutter c = {uses, 0};
    ir_graph *g = NULL;
    rp_status st = pass_rebuild_graph(in, cut, &c, &g, err);
    base_free(uses);
    *n += c.n;
    if (st == RP_OK) st = pass_dce(g, out, err);
    ir_graph_free(g);
    return st;
}

rp_status pass_attention(const ir_graph *in, ir_graph **out, rp_error *err) {
    uint32_t n = 0;
    return pass_attention_counted(in, out, &n, err);
}

rp_status pass_attention_each(const ir_graph *g, pass_attention_fn fn, void *user, rp_error *err) {
    use *uses = NULL;
    RP_TRY(count_uses(g, &uses, err));
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        block blocks[PASS_ATTENTION_BLOCKS];
        square s = {.g = g, .uses = uses};
        pass_attention_found f = {.product = r};
        if (!find_square(&s, r)) continue;
        f.blocks = blocks_of(&s, blocks, &f.why);
        fn(user, &f);
    }
    base_free(uses);
    return RP_OK;
}
