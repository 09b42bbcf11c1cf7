/* Text of the epilogues of products on tensor cores. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gen/gen.h"
#include "gen/pack.h"
#include "target/cuda/cuda.h"
#include "target/cuda/tensor_group.h"

#define K (L->k)

typedef target_tensor_part part;
typedef target_tensor_parts group;

static void forget_kernel(lowerer *L) {
    kir_free(L->k);
    L->k = NULL;
}

/* --- elements ---------------------------------------------------------------------- */

/* The only memory that f touches; NULL: there is more. */
static const kir_buf *only_touched(const kir_func *f) {
    const kir_buf *only = NULL;
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        if (f->bufs[i].space != KIR_ARG) continue;
        if (only) return NULL;
        only = &f->bufs[i];
    }
    return only;
}

rp_status target_tensor_find_direct(lowerer *L, const pass_group *gr, group *g) {
    g->direct = true;
    g->alone = g->n_parts == 1 && !g->rotary;
    L->rows = gr->rows;
    for (uint32_t i = 0; i < g->n_parts && g->direct && !g->rotary; i++) {
        rp_status st = lower_epilogue_build(L, g->parts[i].s, "epilogue", 1);
        g->direct = st == RP_OK && gen_is_elementwise(K);
        g->alone = g->alone && g->direct && only_touched(K) && !only_touched(K)->offset;
        forget_kernel(L);
        RP_TRY(st);
    }
    return RP_OK;
}

/* Whether another node of the segment takes what n has rounded to bf16. */
static bool is_used_rounded(const lowerer *L, const pass_segment *s, const ir_node *n) {
    for (uint32_t i = 0; i < n->n_in; i++)
        for (uint32_t j = 0; j < s->n_nodes; j++)
            if (n->in[i] == s->nodes[j] && ir_node_at(L->g, n->in[i])->dtype == RP_DTYPE_BF16)
                return true;
    return false;
}

/* Which of the sums every sigmoid is of, where rk_near changes nothing else of the segment; -1: there is none. */
static int sigmoid_of(const lowerer *L, const pass_segment *s) {
    int of = -1;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const ir_node *n = ir_node_at(L->g, s->nodes[i]);
        const char *expr = ir_op_table(n->op)->expr;
        if (is_used_rounded(L, s, n)) return -1;
        if (!expr || (!strstr(expr, "rp_exp") && !strstr(expr, "rp_over"))) continue;
        int m = 0;
        while (m < (int)s->n_mats && n->in[0] != s->mats[m]) m++;
        if (n->op != IR_sigmoid || n->dtype != RP_DTYPE_F32 || m == (int)s->n_mats ||
            (of >= 0 && of != m))
            return -1;
        of = m;
    }
    return of;
}

/* Whether all of g is one part whose elements have fewer steps near zero. */
static bool has_near(const lowerer *L, const group *g) {
    return g->n_parts == 1 && !g->rotary && sigmoid_of(L, g->parts[0].s) >= 0;
}

/* Whether elements of g are x sigmoid(x) y, as rk_swift has them. */
static bool has_swift(const lowerer *L, const group *g) {
    const pass_segment *s = g->parts[0].s;
    uint32_t n[IR_OP_COUNT_] = {0};
    if (!has_near(L, g) || !g->alone || s->n_mats != 2) return false;
    for (uint32_t i = 0; i < s->n_nodes; i++) n[ir_node_at(L->g, s->nodes[i])->op]++;
    return n[IR_sigmoid] == 1 && n[IR_mul] == 2 && n[IR_cast] == 1 && s->n_nodes == 4;
}

static const target_call element_call = {
    .columns = 1, .acc = "s", .space = "", .name = "e", .end = "[1];", .at = ""};

/* FRAG_put or FRAG_put_near: the call of a fragment, which lies in `scope`. */
static void put_element_put(lowerer *L, const part *p, const char *frag, const char *suffix,
                            const char *scope) {
    base_buf *b = &L->source;
    base_buf_printf(b,
                    "RP_INLINE void %s_put%s(char *const *arg, const long long *dim, long long "
                    "row, long long column, const float *s, const float *asked)\n{\n",
                    frag, suffix);
    target_call_temporaries(L, p->s, &element_call);
    base_buf_printf(b, "    %s%s(arg, dim, row, column", scope, frag);
    target_call_arguments(L, p->s, &element_call);
    base_buf_puts(b, ", asked);\n}\n");
}

/* The same fragment once more, with the names that it calls in scope of rk_near or rk_swift. */
static rp_status put_scoped_element(lowerer *L, const part *p, const char *frag, const char *name) {
    char *scope = base_arena_printf(L->arena, "%s_%s::", frag, name);
    char *suffix = base_arena_printf(L->arena, "_%s", name);
    uint32_t n = 0;
    if (!scope || !suffix) return rp_fail(L->err, RP_NOMEM, "kernel name");
    RP_TRY(lower_epilogue_build(L, p->s, frag, 1));
    base_buf_printf(&L->source, "struct %s_%s : rk_%s {\n", frag, name, name);
    const rp_status st = target_render_element(L, &n);
    base_buf_puts(&L->source, "};\n");
    if (st == RP_OK) put_element_put(L, p, frag, suffix, scope);
    forget_kernel(L);
    return st;
}

/* FRAG_ask and FRAG of one thread, and FRAG_put, which has what they keep. s: the element's sums. */
static rp_status put_element(lowerer *L, part *p, const char *frag, uint32_t *n_asked) {
    if (p->rotary) {
        *n_asked = TARGET_ROTARY_ASKED;
        return target_rotary_text(L, p->rotary, frag, p->columns);
    }
    uint32_t n = 0;
    rp_status st = lower_epilogue_build(L, p->s, frag, 1);
    if (st == RP_OK && only_touched(K)) p->slot = only_touched(K)->slot;
    if (st == RP_OK) st = target_render_element(L, &n);
    if (n > *n_asked) *n_asked = n;
    if (st == RP_OK) put_element_put(L, p, frag, "", "");
    forget_kernel(L);
    return st;
}

/* `at`, a column of part i, and whether it is there: weights are packed in whole blocks of LOWER_COLUMNS, and units are of those. */
static void put_column(base_buf *b, const group *g, uint32_t i) {
    const part *p = &g->parts[i];
    base_buf_printf(
        b, "            const int at = (unit - %" PRId64 ") * %" PRId64 " + column;\n            ",
        p->first_unit, g->columns);
    if (p->columns % LOWER_COLUMNS) base_buf_printf(b, "if (at < %" PRId64 ") ", p->columns);
}

/* What is done for an element: `how` is ask, put or put_near. */
static void put_element_call(lowerer *L, const group *g, const char *name, uint32_t i,
                             const char *how) {
    const bool asks = strcmp(how, "ask") == 0;
    base_buf *b = &L->source;
    const part *p = &g->parts[i];
    put_column(b, g, i);
    if (g->to && !asks)
        base_buf_printf(b,
                        "%s_e%u_%s(arg, dim, rk_tile_row(row, tiles), rk_tile_column(row, at, "
                        "tiles) + below * (tiles.columns > 1 ? 8 : %" PRId64 "), s, asked);\n",
                        name, i, how, p->columns);
    else
        base_buf_printf(b, "%s_e%u_%s(arg, dim, row%s, at, %sasked);\n", name, i, how,
                        asks ? "" : " + below", asks ? "" : "s, ");
}

static void put_element_choice(lowerer *L, const group *g, const char *name, const char *how) {
    const bool asks = strcmp(how, "ask") == 0;
    base_buf *b = &L->source;
    base_buf_printf(b,
                    "    RP_INLINE void %s(char *const *arg, const long long *dim, int unit, long "
                    "long row, int column, %sfloat *asked%s)\n    {\n",
                    how, asks ? "" : "const float *s, const ", asks ? "" : ", int below = 0");
    if (g->to && !asks) base_buf_printf(b, "        const rk_tiles tiles = %s_tiles(dim);\n", name);
    for (uint32_t i = g->n_parts; i-- > 0;) {
        if (i)
            base_buf_printf(b, "        if (unit >= %" PRId64 ") {\n", g->parts[i].first_unit);
        else
            base_buf_puts(b, "        {\n");
        put_element_call(L, g, name, i, how);
        if (i) base_buf_puts(b, "            return;\n");
        base_buf_puts(b, "        }\n");
    }
    base_buf_puts(b, "    }\n");
}

/* Whether elements of two matrices go to tiles, so that rk_tile_results can place them. */
static bool is_tiled(const lowerer *L, const group *g) {
    return g->to && has_near(L, g) && g->parts[0].s->n_mats == 2;
}

/* An element as it is stored: its fragment with the one address that it touches on the stack. */
static void put_value(lowerer *L, const group *g, const char *name, const char *suffix,
                      const char *type) {
    base_buf_printf(&L->source,
                    "    RP_INLINE %s value%s(const float *s)\n    {\n        %s v;\n"
                    "        char *arg[%u];\n        arg[%u] = (char *)&v;\n"
                    "        %s_e0_put%s(arg, (const long long *)0, 0, 0, s, (const float *)0);\n"
                    "        return v;\n    }\n",
                    type, suffix, type, g->parts[0].slot + 1, g->parts[0].slot, name, suffix);
}

static void put_tiled(lowerer *L, const group *g, const char *name) {
    base_buf *b = &L->source;
    base_buf_printf(b,
                    "    enum { ACROSS = %" PRId64 ", SWIFT = %d };\n"
                    "    RP_INLINE rk_tiles tiles(const long long *dim) { return %s_tiles(dim); }\n"
                    "    RP_INLINE char *result(char *const *arg) { return arg[%u]; }\n",
                    g->parts[0].columns, has_swift(L, g), name, g->parts[0].slot);
    put_value(L, g, name, "", "rp_u16");
    put_value(L, g, name, "_near", "rp_u16");
    if (!has_swift(L, g)) return;
    base_buf_printf(b, "    RP_INLINE bool swift(const float *s) { return rk_swift::is(s[%d]); }\n",
                    sigmoid_of(L, g->parts[0].s));
    put_value(L, g, name, "_swift", "float");
}

/* For each part what its pairs ask for and become, so that a job, which is of one part, chooses once. */
static void put_pairs(lowerer *L, const group *g, const char *name) {
    base_buf *b = &L->source;
    base_buf_printf(b, "    enum { PARTS = %u };\n    RP_INLINE int part(int unit) { return ",
                    g->n_parts);
    for (uint32_t i = g->n_parts; i-- > 1;)
        base_buf_printf(b, "unit >= %" PRId64 " ? %u : ", g->parts[i].first_unit, i);
    base_buf_puts(b, "0; }\n");
    for (uint32_t i = 0; i < g->n_parts; i++)
        for (int asks = 1; asks >= 0; asks--) {
            base_buf_printf(
                b,
                "    RP_INLINE void %s(rk_number<%u>, char *const *arg, const long long *dim, int "
                "unit, long long row, int column, %sfloat *asked)\n    {\n",
                asks ? "ask_pair" : "put_pair", i, asks ? "" : "const float *s, const ");
            put_column(b, g, i);
            base_buf_printf(b, "%s_e%u_%s(arg, dim, row, at, %sasked);\n    }\n", name, i,
                            asks ? "ask" : "put_pair", asks ? "" : "s, ");
        }
}

/* --- rows --------------------------------------------------------------------------- */

/* FRAG_row: the fragment for one row of a unit, by a warp, with what it keeps in shared memory. */
static void put_row(lowerer *L, const part *p, const char *frag, int64_t columns) {
    base_buf *b = &L->source;
    char end[40];
    (void)snprintf(end, sizeof end, "[%d][%" PRId64 "];", TARGET_TENSOR_WARPS, columns);
    const target_call call = {.columns = columns,
                              .acc = "acc",
                              .space = "__shared__ ",
                              .name = "e",
                              .end = end,
                              .at = "[threadIdx.x / 32]"};
    base_buf_printf(b,
                    "RP_INLINE void %s_row(char *const *arg, const long long *dim, long long row, "
                    "long long unit, float *acc)\n{\n",
                    frag);
    target_call_temporaries(L, p->s, &call);
    base_buf_printf(b, "    %s(arg, dim, row, unit * %" PRId64, frag, columns);
    target_call_arguments(L, p->s, &call);
    base_buf_puts(b, ");\n}\n");
}

static rp_status put_rows_of(lowerer *L, const part *p, const char *frag, const group *g) {
    rp_status st = lower_epilogue(L, p->s, frag, g->columns);
    if (st == RP_OK) put_row(L, p, frag, g->columns);
    forget_kernel(L);
    return st;
}

/* Weights are packed in whole blocks of LOWER_COLUMNS, whose last unit may have no column. */
static void put_row_choice(lowerer *L, const group *g, const char *name) {
    base_buf *b = &L->source;
    base_buf_puts(b, "    RP_INLINE void end(char *const *arg, const long long *dim, int unit, "
                     "long long row, float *acc)\n    {\n");
    for (uint32_t i = g->n_parts; i-- > 0;) {
        const part *p = &g->parts[i];
        base_buf_printf(b, "        if (unit >= %" PRId64 ") {\n            ", p->first_unit);
        if (p->units > target_div_up(p->columns, g->columns))
            base_buf_printf(b, "if (unit < %" PRId64 ") ",
                            p->first_unit + target_div_up(p->columns, g->columns));
        base_buf_printf(b,
                        "%s_e%u_row(arg, dim, row, unit - %" PRId64 ", acc);\n"
                        "            return;\n        }\n",
                        name, i, p->first_unit);
    }
    base_buf_puts(b, "    }\n");
}

/* --- units ---------------------------------------------------------------------------- */

static uint32_t most_mats(const group *g) {
    uint32_t n = g->rotary ? 2 : 1; /* an element and its neighbour */
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (g->parts[i].s->n_mats > n) n = g->parts[i].s->n_mats;
    return n;
}

static void put_places(lowerer *L, const group *g) {
    base_buf *b = &L->source;
    const int64_t per = LOWER_COLUMNS / g->columns; /* units of an item of the packed weights */
    base_buf_puts(b, "    RP_INLINE rk_unit at(int unit)\n    {\n");
    for (uint32_t i = g->n_parts; i-- > 0;) {
        const part *p = &g->parts[i];
        base_buf_printf(b,
                        "        if (unit >= %" PRId64 ") {\n"
                        "            const int u = unit - %" PRId64 ";\n"
                        "            const rk_unit at = {%" PRId64 "LL + u / %" PRId64 " * %" PRId64
                        " + u %% %" PRId64 ", %" PRId64 ", %" PRId64 "};\n"
                        "            return at;\n        }\n",
                        p->first_unit, p->first_unit, p->first_tile, per,
                        (int64_t)p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS), per,
                        p->s->n_mats * g->columns / GEN_TILE_ROWS, per);
    }
    base_buf_puts(b, "        return rk_unit();\n    }\n");
}

/* Columns after which elements need the same besides their sums: a common multiple of the parts'. */
static int64_t period(const group *g) {
    int64_t all = 1;
    for (uint32_t i = 0; i < g->n_parts && g->rotary; i++) {
        const int64_t own = target_rotary_period(g->parts[i].rotary);
        if (all % own) all = own % all ? all * own : own;
    }
    return all;
}

rp_status target_tensor_units(lowerer *L, const pass_group *gr, group *g, const char *name) {
    base_buf *b = &L->source;
    uint32_t n_asked = 1;
    L->rows = gr->rows;
    for (uint32_t i = 0; i < g->n_parts; i++) {
        char *frag = lower_epilogue_name(L, name, i);
        if (!frag) return rp_fail(L->err, RP_NOMEM, "kernel name");
        RP_TRY(g->direct ? put_element(L, &g->parts[i], frag, &n_asked)
                         : put_rows_of(L, &g->parts[i], frag, g));
        if (g->direct && has_near(L, g)) RP_TRY(put_scoped_element(L, &g->parts[i], frag, "near"));
        if (g->direct && has_swift(L, g) && is_tiled(L, g))
            RP_TRY(put_scoped_element(L, &g->parts[i], frag, "swift"));
    }
    if (g->to) RP_TRY(target_arranged_text(L, g->to, name, gr->rows));
    base_buf_printf(b,
                    "struct %s_units : %s {\n    enum { N = %" PRId64 ", COLUMNS = %" PRId64
                    ", MATS = %u, ASKED = %u, PAIRS = %d, PERIOD = %" PRId64 ", TILED = %d };\n",
                    name, g->direct ? "rk_by_elements" : "rk_by_rows", g->units, g->columns,
                    most_mats(g), n_asked, g->rotary, period(g), g->direct && is_tiled(L, g));
    put_places(L, g);
    if (g->direct) {
        put_element_choice(L, g, name, "ask");
        put_element_choice(L, g, name, "put");
        if (g->rotary) put_pairs(L, g, name);
        if (has_near(L, g)) {
            base_buf_printf(b,
                            "    enum { NEAR = 1 };\n    RP_INLINE bool near(const float *s) { "
                            "return rk_near::is(s[%d]); }\n",
                            sigmoid_of(L, g->parts[0].s));
            put_element_choice(L, g, name, "put_near");
        }
        if (is_tiled(L, g)) put_tiled(L, g, name);
    } else {
        put_row_choice(L, g, name);
    }
    base_buf_puts(b, "};\n");
    return base_buf_status(b, L->err);
}
