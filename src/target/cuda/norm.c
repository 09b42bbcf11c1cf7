/* An RMS norm in front of products on tensor cores, which has a template of its own (gen/embed/norm.cu): what would be read twice is read once, and
 * gains before the wait. Its operations are those of the nodes, so that the bits are those of the kernel that the group would be. */
#include "target/cuda/norm.h"

#include <inttypes.h>

#include "pass/rules.h"

enum { NODES = 8, MOST_K = 4096 }; /* two squares' worth of a sum, a cast; one chunk of a sum */

typedef struct finder {
    const lowerer *L;
    const pass_group *gr;
} finder;

static const ir_node *node(const finder *f, ir_ref r) {
    return ir_node_at(f->L->g, r);
}

static bool is_op(const finder *f, ir_ref r, ir_op op) {
    const uint32_t i = f->L->f->group_of[r];
    return node(f, r)->op == op && i != UINT32_MAX && &f->L->f->groups[i] == f->gr;
}

/* r = a op b in either order, b a number; *a is the other operand. */
static bool with_number(const finder *f, ir_ref r, ir_op op, ir_ref *a, double *b) {
    if (!is_op(f, r, op)) return false;
    for (uint32_t i = 0; i < 2; i++) {
        const ir_ref c = pass_constant_of(f->L->g, node(f, r)->in[i]);
        if (c == IR_NONE) continue;
        *a = node(f, r)->in[1 - i];
        *b = ir_attr_float(node(f, c), IR_ATTR_VALUE, 0.0);
        return true;
    }
    return false;
}

/* r = 1 / sqrt(scale * sum(x * x) + eps) over the last axis, which stays. */
static bool is_factor(const finder *f, ir_ref r, target_norm *out) {
    ir_ref mean, sum;
    if (!is_op(f, r, IR_rsqrt) || !with_number(f, node(f, r)->in[0], IR_add, &mean, &out->eps) ||
        !with_number(f, mean, IR_mul, &sum, &out->scale) || !is_op(f, sum, IR_sum))
        return false;
    const ir_ref squares = node(f, sum)->in[0];
    if (ir_attr_int(node(f, sum), IR_ATTR_AXIS, 0) != node(f, squares)->shape.rank - 1 ||
        node(f, sum)->shape.rank != node(f, squares)->shape.rank || !is_op(f, squares, IR_mul))
        return false;
    out->x = node(f, squares)->in[0];
    return node(f, squares)->in[1] == out->x;
}

/* r = x * factor. */
static bool is_scaled(const finder *f, ir_ref r, target_norm *out) {
    if (!is_op(f, r, IR_mul)) return false;
    for (uint32_t i = 0; i < 2; i++)
        if (is_factor(f, node(f, r)->in[i], out) && node(f, r)->in[1 - i] == out->x) return true;
    return false;
}

static bool is_gain(const finder *f, ir_ref r, int64_t k) {
    const ir_node *n = node(f, r);
    int64_t size;
    return n->op == IR_param && n->dtype == RP_DTYPE_F32 && n->shape.rank == 1 &&
           ir_dim_is_const(ir_graph_dims(f->L->g), n->shape.dim[0], &size) && size == k &&
           f->L->has_memory[r] && f->L->where[r].seg == LOWER_PARAM;
}

bool target_norm_find(const lowerer *L, const pass_group *gr, ir_ref made, target_norm *out) {
    const finder f = {L, gr};
    const ir_node *n = node(&f, made);
    if (gr->n_nodes != NODES || !is_op(&f, made, IR_cast) || n->dtype != RP_DTYPE_BF16 ||
        n->shape.rank != 2 || !is_op(&f, n->in[0], IR_mul) ||
        !ir_dim_is_const(ir_graph_dims(L->g), n->shape.dim[1], &out->k) || out->k > MOST_K)
        return false;
    const ir_node *last = node(&f, n->in[0]);
    const uint32_t gain = is_gain(&f, last->in[0], out->k) ? 0 : 1;
    out->gain = last->in[gain];
    if (!is_gain(&f, out->gain, out->k) || !is_scaled(&f, last->in[1 - gain], out)) return false;
    const ir_node *x = node(&f, out->x);
    return x->dtype == RP_DTYPE_F32 && x->shape.rank == 2 && x->shape.dim[0] == n->shape.dim[0] &&
           x->shape.dim[1] == n->shape.dim[1] && L->has_memory[out->x];
}

void target_norm_text(lowerer *L, const target_norm *n, const char *name, uint32_t threads) {
    const uint32_t x = lower_arg_slot(L, L->where[n->x]),
                   gain = lower_arg_slot(L, L->where[n->gain]);
    base_buf_printf(
        &L->source,
        "struct %s : rk_rows_in_memory {\n    enum { MADE = 1 };\n    struct maker : "
        "rk_norm<%" PRId64 ", %u> {\n"
        "        RP_INLINE_MEMBER void start(char *const *arg, char *room, int bytes) { "
        "this->before((const float *)arg[%u], room, bytes); }\n"
        "        RP_INLINE_MEMBER void row(char *const *arg, const long long *, char *to, long "
        "long "
        "row) const\n        {\n"
        "            this->make((const float *)arg[%u] + row * %" PRId64
        ", (rp_u16 *)to, %af, %af);\n        }\n    };\n};\n",
        name, n->k, threads, gain, x, n->k, (double)(float)n->scale, (double)(float)n->eps);
}

/* Shared memory of rk_norm: the squares of a row, how much further apart its 16 lanes are at most, what is read behind the last,
 * the sum and where it is aligned. */
int64_t target_norm_bytes(const target_norm *n) {
    enum { APART = 16 * 7 * 4, BEHIND = 2 * 4 * 16, SUM = 64 };
    return n->k * 4 + APART + BEHIND + SUM;
}
