/* Rotary embeddings and stores to the cache behind products on tensor cores.
 *
 * A layer's q, k and v are one group, and what turns q and k and stores k and v is the group behind it, which reads nothing but them, angles and slots. Here
 * that group becomes the epilogue: a product's element comes with its neighbour, so that turning the two needs no memory between. The arithmetic is that of the
 * nodes, operation by operation, so that the bits do not depend on it. Angles that the same group gathers (the first layer's) are read from the table, and where other
 * layers want them the elements of one head leave them in memory. Heads that are turned in halves and other types of cache stay a kernel of their own. */
#include "target/cuda/rotary.h"

#include <inttypes.h>

#include "pass/product.h"

enum { TURN_NODES = 7 }; /* four products, a difference, a sum, the concat of both */

typedef struct finder {
    lowerer *L;
    const pass_group *gr, *next;
    target_rotary *of; /* by segment */
    uint32_t n_nodes;  /* of next that are accounted for */
} finder;

static const ir_node *node(const finder *f, ir_ref r) {
    return ir_node_at(f->L->g, r);
}

static bool is_size(const finder *f, ir_dim d, int64_t want) {
    int64_t v;
    return ir_dim_is_const(ir_graph_dims(f->L->g), d, &v) && v == want;
}

static int64_t size_of(const finder *f, ir_dim d) {
    int64_t v;
    return ir_dim_is_const(ir_graph_dims(f->L->g), d, &v) ? v : 0;
}

static ir_ref through_reshapes(const finder *f, ir_ref r) {
    while (node(f, r)->op == IR_reshape) r = node(f, r)->in[0];
    return r;
}

static bool is_next(const finder *f, ir_ref r) {
    const uint32_t i = f->L->f->group_of[r];
    return i != UINT32_MAX && &f->L->f->groups[i] == f->next;
}

/* An op of the group behind, whose value stays within it. */
static bool is_inner(const finder *f, ir_ref r, ir_op op) {
    return node(f, r)->op == op && is_next(f, r) && !f->L->f->stored[r];
}

/* The segment whose only product r is. */
static target_rotary *segment_of(const finder *f, ir_ref r) {
    for (uint32_t i = 0; i < f->gr->n_segs; i++)
        if (!f->gr->segs[i].dead && f->gr->segs[i].mats[0] == r) return &f->of[i];
    return NULL;
}

/* --- turning -------------------------------------------------------------------------- */

/* Element `which` of pairs [rows, heads, half, 2] of a product; *out is the product. */
static bool is_half(const finder *f, ir_ref r, int64_t which, ir_ref *out) {
    const ir_node *n = node(f, r);
    if (n->op != IR_slice || ir_attr_int(n, IR_ATTR_AXIS, 0) != 3 || n->shape.rank != 4 ||
        !is_size(f, n->shape.dim[3], 1) || !is_size(f, ir_attr_get(n, IR_ATTR_START)->u.dim, which))
        return false;
    const ir_node *pairs = node(f, n->in[0]);
    if (pairs->op != IR_reshape || !is_size(f, pairs->shape.dim[3], 2) ||
        pairs->shape.dim[0] != f->gr->rows)
        return false;
    *out = pairs->in[0];
    return true;
}

/* Rows of a table of angles [positions, half], by an input of 32 bits: rk_row_of. */
static bool is_gathered(const finder *f, ir_ref r) {
    const ir_node *n = node(f, r);
    if (n->op != IR_gather || !is_next(f, r) || n->shape.rank != 2 ||
        n->shape.dim[0] != f->gr->rows)
        return false;
    const ir_node *table = node(f, n->in[0]), *at = node(f, n->in[1]);
    return table->op == IR_param && table->shape.rank == 2 && at->op == IR_input &&
           at->shape.rank == 1 && at->dtype == RP_DTYPE_I32;
}

/* Angles [rows, half], a leaf or gathered, as [rows, 1, half, 1]. */
static bool is_angle(const finder *f, ir_ref r, int64_t half, ir_ref *out) {
    const ir_node *n = node(f, r);
    if (n->op != IR_reshape || n->shape.rank != 4 || n->shape.dim[0] != f->gr->rows ||
        !is_size(f, n->shape.dim[1], 1) || !is_size(f, n->shape.dim[2], half) ||
        !is_size(f, n->shape.dim[3], 1))
        return false;
    *out = n->in[0];
    return (node(f, *out)->op == IR_input || is_gathered(f, *out)) &&
           node(f, *out)->dtype == RP_DTYPE_F32;
}

/* r = element `which` of product *mat times an angle, in either order. */
static bool is_scaled(const finder *f, ir_ref r, int64_t which, int64_t half, ir_ref *mat,
                      ir_ref *angle) {
    if (!is_inner(f, r, IR_mul)) return false;
    const ir_ref a = node(f, r)->in[0], b = node(f, r)->in[1];
    return (is_half(f, a, which, mat) && is_angle(f, b, half, angle)) ||
           (is_half(f, b, which, mat) && is_angle(f, a, half, angle));
}

/* c = concat of x0 cos - x1 sin and x1 cos + x0 sin. */
static bool is_turned(const finder *f, ir_ref c, target_rotary *out) {
    const ir_node *n = node(f, c);
    ir_ref mat[4], angle[4];
    if (n->op != IR_concat || !is_next(f, c) || n->n_in != 2 || n->shape.rank != 4 ||
        ir_attr_int(n, IR_ATTR_AXIS, 0) != 3)
        return false;
    const int64_t half = size_of(f, n->shape.dim[2]);
    if (!half || !is_inner(f, n->in[0], IR_sub) || !is_inner(f, n->in[1], IR_add)) return false;
    const ir_node *first = node(f, n->in[0]), *second = node(f, n->in[1]);
    const uint32_t other = is_scaled(f, second->in[0], 0, half, &mat[2], &angle[2]);
    if (!is_scaled(f, first->in[0], 0, half, &mat[0], &angle[0]) ||
        !is_scaled(f, first->in[1], 1, half, &mat[1], &angle[1]) ||
        !is_scaled(f, second->in[1 - other], 0, half, &mat[2], &angle[2]) ||
        !is_scaled(f, second->in[other], 1, half, &mat[3], &angle[3]))
        return false;
    *out = (target_rotary){.mat = mat[0], .cos = angle[0], .sin = angle[1], .half = half};
    return mat[1] == mat[0] && mat[2] == mat[0] && mat[3] == mat[0] && angle[3] == angle[0] &&
           angle[2] == angle[1];
}

/* --- ends ------------------------------------------------------------------------------ */

/* Enters what follows a product, once. */
static bool enter(finder *f, const target_rotary *r, uint32_t n_nodes) {
    target_rotary *of = segment_of(f, r->mat);
    if (!of || of->mat != IR_NONE) return false;
    *of = *r;
    f->n_nodes += n_nodes;
    return true;
}

/* Rows of a cache of bf16 as they are laid out in memory, which is a leaf. */
static bool is_store(finder *f, ir_ref r) {
    const ir_node *n = node(f, r), *cache = node(f, n->in[0]);
    const ir_ref x = through_reshapes(f, n->in[1]);
    target_rotary found = {.mat = x, .cos = IR_NONE, .sin = IR_NONE, .to = IR_NONE};
    const bool turned = is_turned(f, x, &found);
    found.store = r;
    found.to = IR_NONE;
    if (cache->op != IR_state || cache->dtype != RP_DTYPE_BF16 || cache->shape.rank != 4 ||
        !size_of(f, cache->shape.dim[1]) || !size_of(f, cache->shape.dim[2]) ||
        !size_of(f, cache->shape.dim[3]) || size_of(f, cache->shape.dim[3]) % 2 ||
        node(f, n->in[2])->op != IR_input || node(f, n->in[2])->dtype != RP_DTYPE_I32)
        return false;
    if (turned && f->L->f->stored[x]) return false;
    return enter(f, &found, 1 + (turned ? TURN_NODES : 0));
}

/* Enters gathered angles: the first product that is turned by them leaves them in memory where they are stored. */
static void enter_angles(finder *f, ir_ref r) {
    for (uint32_t i = 0; i < f->gr->n_segs; i++) {
        target_rotary *of = &f->of[i];
        if (of->mat == IR_NONE || (of->cos != r && of->sin != r)) continue;
        of->keeps_cos = of->keeps_cos || (of->cos == r && f->L->f->stored[r]);
        of->keeps_sin = of->keeps_sin || (of->sin == r && f->L->f->stored[r]);
        f->n_nodes++;
        return;
    }
}

static bool find_ends(finder *f) {
    for (uint32_t i = 0; i < f->next->n_nodes; i++) {
        const ir_ref r = f->next->nodes[i];
        target_rotary found;
        if (node(f, r)->op == IR_kv_store) {
            if (!is_store(f, r)) return false;
        } else if (f->L->f->stored[r] && !is_gathered(f, r)) {
            if (!is_turned(f, r, &found)) return false;
            found.to = r;
            found.store = IR_NONE;
            if (!enter(f, &found, TURN_NODES)) return false;
        }
    }
    for (uint32_t i = 0; i < f->next->n_nodes; i++)
        if (is_gathered(f, f->next->nodes[i])) enter_angles(f, f->next->nodes[i]);
    return f->n_nodes == f->next->n_nodes;
}

static bool is_output(const ir_graph *g, ir_ref r) {
    for (uint32_t i = 0; i < ir_output_count(g); i++)
        if (ir_output_at(g, i) == r) return true;
    return false;
}

/* Whether the group behind alone reads r, through views. */
static bool only_next_reads(const finder *f, ir_ref r) {
    const ir_graph *g = f->L->g;
    if (is_output(g, r)) return false;
    for (ir_ref d = r + 1; d < ir_graph_count(g); d++) {
        const ir_node *n = ir_node_at(g, d);
        bool reads = false;
        for (uint32_t i = 0; i < n->n_in; i++) reads = reads || n->in[i] == r;
        if (reads && !(pass_is_transparent(n) ? only_next_reads(f, d) : is_next(f, d)))
            return false;
    }
    return true;
}

/* Plain sums of f32 over the group's rows, each for a use of its own. */
static bool are_plain(const finder *f) {
    for (uint32_t i = 0; i < f->gr->n_segs; i++) {
        const pass_segment *s = &f->gr->segs[i];
        if (s->dead) continue;
        const ir_node *n = node(f, s->mats[0]);
        if (s->n_mats != 1 || n->dtype != RP_DTYPE_F32 || n->shape.rank != 2 ||
            n->shape.dim[0] != f->gr->rows || f->of[i].mat == IR_NONE ||
            !only_next_reads(f, s->mats[0]))
            return false;
    }
    return true;
}

rp_status target_rotary_find(lowerer *L, const pass_group *gr, target_rotary **out) {
    const ptrdiff_t index = gr - L->f->groups;
    finder f = {.L = L, .gr = gr, .next = gr + 1};
    *out = NULL;
    if (index + 1 >= (ptrdiff_t)L->f->n_groups || f.next->kind != PASS_LOOP) return RP_OK;
    f.of = base_arena_array(L->arena, gr->n_segs + 1u, sizeof *f.of);
    if (!f.of) return rp_fail(L->err, RP_NOMEM, "what follows a product");
    for (uint32_t i = 0; i < gr->n_segs; i++) f.of[i].mat = IR_NONE;
    if (!find_ends(&f) || !are_plain(&f)) return RP_OK;
    L->absorbed = f.next;
    *out = f.of;
    return RP_OK;
}

/* --- text ------------------------------------------------------------------------------ */

static uint32_t leaf_slot(lowerer *L, ir_ref r) {
    return lower_arg_slot(L, L->where[r]);
}

/* asked[i]: the angle of pair `turn` of a head. */
static void put_angle(lowerer *L, const target_rotary *r, ir_ref angle, int i) {
    base_buf *b = &L->source;
    const ir_node *n = ir_node_at(L->g, angle);
    const bool gathered = n->op == IR_gather;
    base_buf_printf(b, "    asked[%d] = ((const float *)arg[%u])[", i,
                    leaf_slot(L, gathered ? n->in[0] : angle));
    if (gathered) {
        const ir_dim size = ir_node_at(L->g, n->in[0])->shape.dim[0];
        base_buf_printf(b, "rk_row_of((const rp_i32 *)arg[%u], row, ", leaf_slot(L, n->in[1]));
        ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), size), "dim",
                       b);
        base_buf_putc(b, ')');
    } else {
        base_buf_puts(b, "row");
    }
    base_buf_printf(b, " * %" PRId64 " + turn];\n", r->half);
}

static void put_ask(lowerer *L, const target_rotary *r, const char *frag) {
    base_buf *b = &L->source;
    base_buf_printf(b,
                    "RP_INLINE void %s_ask(char *const *arg, const long long *dim, long long row, "
                    "long long column, float *asked)\n{\n    (void)dim, (void)column;\n",
                    frag);
    if (r->cos != IR_NONE) {
        base_buf_printf(b, "    const rp_u32 turn = (rp_u32)column / 2 %% %" PRId64 "u;\n",
                        r->half);
        put_angle(L, r, r->cos, 0);
        put_angle(L, r, r->sin, 1);
    }
    if (r->store != IR_NONE)
        base_buf_printf(b, "    asked[2] = rp_from_bits(((const rp_u32 *)arg[%u])[row]);\n",
                        leaf_slot(L, ir_node_at(L->g, r->store)->in[2]));
    base_buf_puts(b, "}\n");
}

static int64_t cache_size(const lowerer *L, const ir_node *cache, uint32_t d) {
    int64_t v = 1;
    (void)ir_dim_is_const(ir_graph_dims(L->g), cache->shape.dim[d], &v);
    return v;
}

/* FRAG_at: where an element goes; NULL: nowhere, as a row of kv_store without a slot. */
static rp_status put_place(lowerer *L, const target_rotary *r, const char *frag, int64_t columns) {
    base_buf *b = &L->source;
    lower_ref at;
    base_buf_printf(b,
                    "RP_INLINE %s *%s_at(char *const *arg, long long row, long long column, "
                    "const float *asked)\n{\n",
                    r->store == IR_NONE ? "float" : "rp_u16", frag);
    if (r->store == IR_NONE) {
        RP_TRY(lower_memory(L, r->to, &at));
        base_buf_printf(
            b, "    (void)asked;\n    return (float *)arg[%u] + row * %" PRId64 " + column;\n}\n",
            lower_written_slot(L, at), columns);
        return RP_OK;
    }
    const ir_node *cache = ir_node_at(L->g, ir_node_at(L->g, r->store)->in[0]);
    const int64_t heads = cache_size(L, cache, 1), block = cache_size(L, cache, 2),
                  dims = cache_size(L, cache, 3);
    RP_TRY(lower_version(L, r->store, &at));
    base_buf_printf(
        b,
        "    (void)row;\n    const rp_i32 slot = (rp_i32)rp_bits(asked[2]);\n"
        "    const rp_u32 at = (rp_u32)column, place = (rp_u32)slot;\n"
        "    const rp_u32 cell = place / %" PRId64 "u * %" PRId64 "u + at / %" PRId64 "u;\n"
        "    return slot < 0 ? (rp_u16 *)0 : (rp_u16 *)arg[%u] + (rp_size)cell * %" PRId64
        "u + place %% %" PRId64 "u * %" PRId64 "u + at %% %" PRId64 "u;\n}\n",
        block, heads, dims, lower_written_slot(L, at), block * dims, block, dims, dims);
    return RP_OK;
}

/* The elements of the first head, of each pair the first, leave the row's angles in memory. */
static rp_status put_kept(lowerer *L, const target_rotary *r) {
    const ir_ref angle[] = {r->keeps_cos ? r->cos : IR_NONE, r->keeps_sin ? r->sin : IR_NONE};
    lower_ref at;
    for (int i = 0; i < 2; i++) {
        if (angle[i] == IR_NONE) continue;
        RP_TRY(lower_memory(L, angle[i], &at));
        base_buf_printf(&L->source,
                        "    if (column < %" PRId64 " && column %% 2 == 0) ((float *)arg[%u])[row "
                        "* %" PRId64 " + column / 2] = asked[%d];\n",
                        2 * r->half, lower_written_slot(L, at), r->half, i);
    }
    return RP_OK;
}

/* FRAG_put, of an element and its neighbour, and FRAG_put_pair, of both. */
rp_status target_rotary_text(lowerer *L, const target_rotary *r, const char *frag,
                             int64_t columns) {
    static const char *const head =
        "RP_INLINE void %s_put%s(char *const *arg, const long long *, long long row, "
        "long long column, const float *s, const float *asked)\n{\n";
    base_buf *b = &L->source;
    const bool turned = r->cos != IR_NONE, stored = r->store != IR_NONE;
    put_ask(L, r, frag);
    RP_TRY(put_place(L, r, frag, columns));
    base_buf_printf(b, head, frag, "");
    base_buf_puts(b, turned ? "    const float own = s[0] * asked[0], other = s[1] * asked[1];\n"
                              "    const float v = column % 2 ? own + other : own - other;\n"
                            : "    const float v = s[0];\n");
    base_buf_printf(b,
                    "    %s *const to = %s_at(arg, row, column, asked);\n"
                    "    if (to) *to = %s(v);\n",
                    stored ? "rp_u16" : "float", frag, stored ? "rp_f32_to_bf16" : "");
    RP_TRY(put_kept(L, r));
    base_buf_puts(b, "}\n");
    base_buf_printf(b, head, frag, "_pair");
    base_buf_puts(
        b, turned ? "    const float a = s[0] * asked[0] - s[1] * asked[1], c = s[1] * asked[0] + "
                    "s[0] * asked[1];\n"
                  : "    const float a = s[0], c = s[1];\n");
    base_buf_printf(b,
                    "    %s *const to = %s_at(arg, row, column, asked);\n"
                    "    if (to) rk_put_pair(to, a, c);\n",
                    stored ? "rp_u16" : "float", frag);
    RP_TRY(put_kept(L, r));
    base_buf_puts(b, "}\n");
    return base_buf_status(b, L->err);
}

int64_t target_rotary_period(const target_rotary *r) {
    return r->cos != IR_NONE ? 2 * r->half : 2;
}
