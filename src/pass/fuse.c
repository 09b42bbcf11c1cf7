/* Builds the groups in one walk over the nodes, then orders them.
 *
 * A node joins a group only if no path leaves the group and comes back (that would be a cycle) and every
 * value it reads from the group is read row by row (LOOP) or at the same place (epilogue). */
#include "pass/fuser.h"

#include <string.h>

#include "base/alloc.h"
#include "pass/rows.h"

bool pass_is_transparent(const ir_node *n) {
    ir_kind k = ir_op_table(n->op)->kind;
    return k == IR_KIND_LEAF || k == IR_KIND_VIEW || n->op == IR_dequant;
}

bool pass_is_template_matmul(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    if (n->op != IR_matmul || !ir_attr_int(n, IR_ATTR_TRANS_B, 0)) return false;
    const ir_node *a = ir_node_at(g, n->in[0]), *b = ir_node_at(g, n->in[1]);
    if (b->op == IR_dequant) b = ir_node_at(g, b->in[0]);
    int64_t k, cols;
    if (b->op != IR_param || b->shape.rank != 2 || a->shape.rank != 2) return false;
    if (!ir_dim_is_const(ir_graph_dims(g), b->shape.dim[1], &k) ||
        !ir_dim_is_const(ir_graph_dims(g), b->shape.dim[0], &cols))
        return false;
    return rp_dtype_is_quant(b->dtype) ? k % 32 == 0 : rp_dtype_is_float(b->dtype);
}

bool pass_is_packed_matmul(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r), *a = ir_node_at(g, n->in[0]), *b = ir_node_at(g, n->in[1]);
    if (!pass_is_template_matmul(g, r) || a->op != IR_dequant || b->op != IR_dequant) return false;
    a = ir_node_at(g, a->in[0]);
    return a->dtype == RP_DTYPE_I16B32 && ir_op_table(a->op)->kind != IR_KIND_VIEW;
}

bool pass_each_source(fuser *u, ir_ref r, bool row, pass_source_fn fn, void *user) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref o = n->in[i];
        bool keeps = row && pass_keeps_row(u->g, r, i);
        if (pass_is_transparent(ir_node_at(u->g, o))) {
            if (!pass_each_source(u, o, keeps, fn, user)) return false;
        } else if (!fn(u, o, keeps, user)) {
            return false;
        }
    }
    return true;
}

bool pass_dep_get(const fuser *u, uint32_t a, uint32_t b) {
    return u->deps[(size_t)a * u->words + b / 64] >> (b % 64) & 1;
}

static bool reaches(fuser *u, uint32_t from, uint32_t to) {
    if (from == to) return true;
    if (u->seen[from]) return false;
    u->seen[from] = true;
    for (uint32_t b = 0; b < u->f->n_groups; b++)
        if (pass_dep_get(u, from, b) && reaches(u, b, to)) return true;
    return false;
}

typedef struct join_check {
    uint32_t group;
    bool shares, cycle, off_row;
} join_check;

static bool check_source(fuser *u, ir_ref p, bool row, void *user) {
    join_check *c = user;
    uint32_t h = u->f->group_of[p];
    if (h == c->group) {
        c->shares = true;
        c->off_row = c->off_row || !row;
        return true;
    }
    memset(u->seen, 0, u->cap);
    c->cycle = c->cycle || reaches(u, h, c->group);
    return true;
}

static bool add_dep(fuser *u, ir_ref p, bool row, void *user) {
    uint32_t g = *(uint32_t *)user, h = u->f->group_of[p];
    (void)row;
    if (h != g) u->deps[(size_t)g * u->words + h / 64] |= UINT64_C(1) << (h % 64);
    return true;
}

static rp_status push(fuser *u, ir_ref **list, uint32_t *n, ir_ref r) {
    /* Grown by doubling at powers of two; old arrays die with the arena. */
    if ((*n & (*n - 1)) == 0) {
        ir_ref *bigger = base_arena_array(u->f->arena, *n ? *n * 2u : 1u, sizeof *bigger);
        if (!bigger) return rp_fail(u->err, RP_NOMEM, "fusion");
        if (*n) memcpy(bigger, *list, *n * sizeof *bigger);
        *list = bigger;
    }
    (*list)[(*n)++] = r;
    return RP_OK;
}

static rp_status add_to_group(fuser *u, uint32_t gi, ir_ref r) {
    pass_group *gr = &u->f->groups[gi];
    RP_TRY(push(u, &gr->nodes, &gr->n_nodes, r));
    u->f->group_of[r] = gi;
    (void)pass_each_source(u, r, true, add_dep, &gi);
    return RP_OK;
}

static rp_status new_group(fuser *u, pass_group_kind kind, ir_ref r) {
    uint32_t gi = u->f->n_groups++;
    u->f->groups[gi] = (pass_group){.kind = kind, .rows = pass_rows_of(u->g, r), .lhs = IR_NONE};
    return add_to_group(u, gi, r);
}

static rp_status refuse(fuser *u, ir_ref r, uint32_t gi, const char *why) {
    pass_fusion *f = u->f;
    if ((f->n_refusals & (f->n_refusals - 1)) == 0) {
        pass_refusal *bigger =
            base_arena_array(f->arena, f->n_refusals ? f->n_refusals * 2u : 1u, sizeof *bigger);
        if (!bigger) return rp_fail(u->err, RP_NOMEM, "fusion");
        if (f->n_refusals) memcpy(bigger, f->refusals, f->n_refusals * sizeof *bigger);
        f->refusals = bigger;
    }
    f->refusals[f->n_refusals++] = (pass_refusal){r, gi, why};
    return RP_OK;
}

/* --- bytes saved ---------------------------------------------------------- */

#define NOMINAL_SIZE 256
#define MANY_BYTES (INT64_C(1) << 48)

static int64_t nominal(const ir_dims *t, ir_dim d) {
    int64_t lo, hi;
    ir_dim_bounds(t, d, &lo, &hi);
    if (lo == hi) return lo;
    return hi < NOMINAL_SIZE ? hi : lo > NOMINAL_SIZE ? lo : NOMINAL_SIZE;
}

static int64_t bytes_of(const ir_graph *g, const ir_node *n) {
    int64_t bytes = (int64_t)rp_dtype_block_bytes(n->dtype);
    for (uint32_t i = 0; i < n->shape.rank; i++)
        if (__builtin_mul_overflow(bytes, nominal(ir_graph_dims(g), n->shape.dim[i]), &bytes) ||
            bytes > MANY_BYTES)
            return MANY_BYTES;
    return bytes / (int64_t)rp_dtype_block(n->dtype);
}

/* Whether node r reads value s, through views. */
static bool reads(const fuser *u, ir_ref r, ir_ref s) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == s) return true;
        if (pass_is_transparent(ir_node_at(u->g, n->in[i])) && reads(u, n->in[i], s)) return true;
    }
    return false;
}

static bool group_has(const fuser *u, uint32_t gi, ir_ref s) {
    const pass_group *gr = &u->f->groups[gi];
    if (u->f->group_of[s] == gi) return true;
    for (uint32_t j = 0; j < gr->n_nodes; j++)
        if (reads(u, gr->nodes[j], s)) return true;
    return false;
}

static int64_t count_saved(fuser *u, const ir_node *n, uint32_t gi) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref s = n->in[i];
        const ir_node *o = ir_node_at(u->g, s);
        if (o->op == IR_const || o->dtype == RP_DTYPE_TOKEN || u->stamp[s] == u->n_stamps) continue;
        u->stamp[s] = u->n_stamps;
        if (pass_is_transparent(o) && o->n_in)
            sum += count_saved(u, o, gi);
        else if (group_has(u, gi, s))
            sum += bytes_of(u->g, o);
    }
    return sum;
}

/* Bytes that r need not load when it joins the group. */
static int64_t bytes_saved(fuser *u, ir_ref r, uint32_t gi) {
    u->n_stamps++;
    return count_saved(u, ir_node_at(u->g, r), gi);
}

/* --- matmul groups ------------------------------------------------------ */

static rp_status add_segment(fuser *u, uint32_t gi, ir_ref r) {
    pass_group *gr = &u->f->groups[gi];
    pass_segment *segs = base_arena_array(u->f->arena, gr->n_segs + 1u, sizeof *segs);
    if (!segs) return rp_fail(u->err, RP_NOMEM, "fusion");
    if (gr->n_segs) memcpy(segs, gr->segs, gr->n_segs * sizeof *segs);
    gr->segs = segs;
    pass_segment *s = &segs[gr->n_segs++];
    return push(u, &s->mats, &s->n_mats, r);
}

static bool same_weights(const ir_graph *g, ir_ref a, ir_ref b) {
    const ir_node *x = ir_node_at(g, ir_node_at(g, a)->in[1]),
                  *y = ir_node_at(g, ir_node_at(g, b)->in[1]);
    if (x->op != y->op) return false;
    if (x->op == IR_dequant) {
        x = ir_node_at(g, x->in[0]);
        y = ir_node_at(g, y->in[0]);
    }
    return x->dtype == y->dtype;
}

static rp_status place_matmul(fuser *u, ir_ref r) {
    ir_ref lhs = ir_node_at(u->g, r)->in[0];
    for (uint32_t i = 0; i < u->f->n_groups; i++) {
        pass_group *gr = &u->f->groups[i];
        if (gr->kind != PASS_MATMUL || gr->lhs != lhs) continue;
        if (!same_weights(u->g, r, gr->segs[0].mats[0])) {
            RP_TRY(refuse(u, r, i, "weights of another format"));
            continue;
        }
        RP_TRY(add_segment(u, i, r));
        return add_to_group(u, i, r);
    }
    uint32_t gi = u->f->n_groups;
    RP_TRY(new_group(u, PASS_MATMUL, r));
    u->f->groups[gi].lhs = lhs;
    return add_segment(u, gi, r);
}

static bool segment_has(const pass_segment *s, ir_ref r) {
    for (uint32_t i = 0; i < s->n_mats; i++)
        if (s->mats[i] == r) return true;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i] == r) return true;
    return false;
}

static uint32_t segment_of(const pass_group *gr, ir_ref r) {
    for (uint32_t i = 0; i < gr->n_segs; i++)
        if (!gr->segs[i].dead && segment_has(&gr->segs[i], r)) return i;
    return NO_GROUP;
}

static rp_status merge_segments(fuser *u, pass_group *gr, uint32_t into, uint32_t from) {
    pass_segment *a = &gr->segs[into], *b = &gr->segs[from];
    for (uint32_t i = 0; i < b->n_mats; i++) RP_TRY(push(u, &a->mats, &a->n_mats, b->mats[i]));
    for (uint32_t i = 0; i < b->n_nodes; i++) RP_TRY(push(u, &a->nodes, &a->n_nodes, b->nodes[i]));
    b->dead = true;
    return RP_OK;
}

static bool same_shape(const ir_node *a, const ir_node *b) {
    if (a->shape.rank != b->shape.rank) return false;
    for (uint32_t i = 0; i < a->shape.rank; i++)
        if (a->shape.dim[i] != b->shape.dim[i]) return false;
    return true;
}

/* Rounding rows to a block format needs whole blocks of columns, dealt 32 at a time. */
static bool epilogue_op(const ir_graph *g, const ir_node *n, const ir_node *mat) {
    int64_t cols;
    if (n->op == IR_quantize)
        return same_shape(n, mat) && ir_dim_is_const(ir_graph_dims(g), n->shape.dim[1], &cols) &&
               cols % 32 == 0;
    return ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE && same_shape(n, mat);
}

/* Every read of the group's members must be direct, and none through a view. */
static bool reads_directly(fuser *u, ir_ref r, uint32_t gi) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        join_check c = {.group = gi};
        if (pass_is_transparent(ir_node_at(u->g, n->in[i])))
            (void)pass_each_source(u, n->in[i], true, check_source, &c);
        if (c.shares) return false;
    }
    return true;
}

/* Products that r would join into one segment. */
static uint32_t products_joined(const pass_group *gr, const ir_node *n) {
    uint32_t count = 0, seen[3] = {NO_GROUP, NO_GROUP, NO_GROUP};
    for (uint32_t i = 0; i < n->n_in && i < 3; i++) {
        uint32_t s = segment_of(gr, n->in[i]);
        if (s == NO_GROUP || s == seen[0] || s == seen[1]) continue;
        seen[i] = s;
        count += gr->segs[s].n_mats;
    }
    return count;
}

static const char *why_no_epilogue(fuser *u, ir_ref r, uint32_t gi) {
    const ir_node *n = ir_node_at(u->g, r);
    const pass_group *gr = &u->f->groups[gi];
    join_check c = {.group = gi};
    (void)pass_each_source(u, r, true, check_source, &c);
    if (n->op == IR_quantize && pass_is_skipped(u->opt, "fuse_act_quant"))
        return "fuse_act_quant is off";
    if (c.cycle) return "will create cycle";
    if (!reads_directly(u, r, gi)) return "memory deps did not match";
    if (products_joined(gr, n) > PASS_MAX_MATS) return "too many products in one epilogue";
    return gr->n_nodes >= PASS_MAX_FUSION ? "exceeds max fusion" : NULL;
}

/* The best group whose member is a direct operand of r; NO_GROUP if none. */
static rp_status best_epilogue(fuser *u, ir_ref r, uint32_t *out) {
    const ir_node *n = ir_node_at(u->g, r);
    int64_t most = -1;
    *out = NO_GROUP;
    for (uint32_t i = 0; i < n->n_in; i++) {
        uint32_t gi = u->f->group_of[n->in[i]];
        bool again = false;
        for (uint32_t k = 0; k < i; k++) again = again || u->f->group_of[n->in[k]] == gi;
        if (gi == NO_GROUP || again || u->f->groups[gi].kind != PASS_MATMUL) continue;
        const pass_group *gr = &u->f->groups[gi];
        if (!epilogue_op(u->g, n, ir_node_at(u->g, gr->segs[segment_of(gr, n->in[i])].mats[0])))
            continue;
        const char *why = why_no_epilogue(u, r, gi);
        int64_t saved = bytes_saved(u, r, gi);
        if (why)
            RP_TRY(refuse(u, r, gi, why));
        else if (saved > most || (saved == most && gi > *out))
            *out = gi, most = saved;
    }
    return RP_OK;
}

static rp_status join_epilogue(fuser *u, ir_ref r, bool *joined) {
    const ir_node *n = ir_node_at(u->g, r);
    uint32_t gi, into = NO_GROUP;
    RP_TRY(best_epilogue(u, r, &gi));
    *joined = gi != NO_GROUP;
    if (!*joined) return RP_OK;
    pass_group *gr = &u->f->groups[gi];
    for (uint32_t i = 0; i < n->n_in; i++) {
        uint32_t s = segment_of(gr, n->in[i]);
        if (s == NO_GROUP || s == into) continue;
        uint32_t lo = into < s ? into : s, hi = into < s ? s : into;
        if (hi != NO_GROUP) RP_TRY(merge_segments(u, gr, lo, hi));
        into = lo;
    }
    RP_TRY(push(u, &gr->segs[into].nodes, &gr->segs[into].n_nodes, r));
    return add_to_group(u, gi, r);
}

/* --- loop groups -------------------------------------------------------- */

static bool has_reduction(const fuser *u, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (ir_op_table(ir_node_at(u->g, gr->nodes[i])->op)->kind == IR_KIND_REDUCE) return true;
    return false;
}

/* The field of pass_config that keeps r out of the group, or NULL. */
static const char *switched_off(const fuser *u, ir_ref r, const pass_group *gr) {
    ir_op op = ir_node_at(u->g, r)->op;
    if (op == IR_kv_store && pass_is_skipped(u->opt, "fuse_rope_kvcache"))
        return "fuse_rope_kvcache is off";
    if (op != IR_quantize) return NULL;
    if (has_reduction(u, gr))
        return pass_is_skipped(u->opt, "fuse_norm_quant") ? "fuse_norm_quant is off" : NULL;
    return pass_is_skipped(u->opt, "fuse_act_quant") ? "fuse_act_quant is off" : NULL;
}

static const char *why_no_loop(fuser *u, ir_ref r, uint32_t gi, const join_check *c) {
    const pass_group *gr = &u->f->groups[gi];
    const char *off = switched_off(u, r, gr);
    if (off) return off;
    if (gr->rows != pass_rows_of(u->g, r)) return "rows differ";
    if (c->off_row) return "memory deps did not match";
    if (c->cycle) return "will create cycle";
    return gr->n_nodes >= PASS_MAX_FUSION ? "exceeds max fusion" : NULL;
}

static rp_status place_loop(fuser *u, ir_ref r) {
    uint32_t best = NO_GROUP;
    int64_t most = -1;
    for (uint32_t i = u->f->n_groups; i-- > 0;) {
        if (u->f->groups[i].kind != PASS_LOOP) continue;
        join_check c = {.group = i};
        (void)pass_each_source(u, r, true, check_source, &c);
        int64_t saved = bytes_saved(u, r, i);
        if (!c.shares && saved == 0) continue; /* nothing to gain: no candidate */
        const char *why = why_no_loop(u, r, i, &c);
        if (why)
            RP_TRY(refuse(u, r, i, why));
        else if (saved > most)
            best = i, most = saved;
    }
    return best == NO_GROUP ? new_group(u, PASS_LOOP, r) : add_to_group(u, best, r);
}

static rp_status place(fuser *u, ir_ref r) {
    const ir_node *n = ir_node_at(u->g, r);
    bool joined = false;
    if (pass_is_transparent(n)) return RP_OK;
    if (n->op == IR_attention || n->op == IR_custom || ir_op_table(n->op)->kind == IR_KIND_SCAN)
        return new_group(u, PASS_EXTERN, r);
    if (pass_is_template_matmul(u->g, r)) return place_matmul(u, r);
    RP_TRY(join_epilogue(u, r, &joined));
    return joined ? RP_OK : place_loop(u, r);
}

rp_status pass_fuse(const ir_graph *g, const pass_options *opt, pass_fusion *out, rp_error *err) {
    uint32_t n = ir_graph_count(g);
    rp_status st = RP_OK;
    pass_fusion f = {.arena = base_arena_new()};
    fuser u = {.g = g, .opt = opt, .f = &f, .words = n / 64 + 1, .cap = n + 1, .err = err};
    if (!f.arena) return rp_fail(err, RP_NOMEM, "fusion of %u nodes", n);
    f.groups = base_arena_array(f.arena, n + 1u, sizeof *f.groups);
    f.group_of = base_arena_array(f.arena, n + 1u, sizeof *f.group_of);
    f.stored = base_arena_array(f.arena, n + 1u, sizeof *f.stored);
    u.deps = base_arena_array(f.arena, ((size_t)n + 1) * u.words, sizeof *u.deps);
    u.seen = base_arena_array(f.arena, n + 1u, sizeof *u.seen);
    u.stamp = base_arena_array(f.arena, n + 1u, sizeof *u.stamp);
    if (!f.groups || !f.group_of || !f.stored || !u.deps || !u.seen || !u.stamp) {
        st = rp_fail(err, RP_NOMEM, "fusion of %u nodes", n);
        goto out;
    }
    for (ir_ref r = 0; r < n; r++) f.group_of[r] = NO_GROUP;
    for (ir_ref r = 0; r < n; r++) RP_TRY_OUT(place(&u, r));
    RP_TRY_OUT(pass_settle_groups(&u));
    *out = f;
    f.arena = NULL;
out:
    pass_fusion_done(&f);
    return st;
}

void pass_fusion_done(pass_fusion *f) {
    base_arena_free(f->arena);
    *f = (pass_fusion){0};
}
