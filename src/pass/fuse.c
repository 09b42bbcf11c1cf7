/* Builds the groups in one walk over the nodes, then orders them.
 *
 * A node joins a group only if no path leaves the group and comes back (that would be a cycle) and every
 * value it reads from the group is read row by row (LOOP) or at the same place (epilogue). */
#include "pass/fuser.h"

#include <string.h>

#include "base/alloc.h"
#include "pass/product.h"
#include "pass/rows.h"
#include "pass/runs.h"

/* A loop of fewer rows is no longer shared well by the threads of a processor; one of fewer elements need not be. */
#define FEW_ROWS 16
#define MANY_ELEMENTS 16384
/* An element is chosen from so many parts of a concat as fast as it is found in one; .. */
#define FEW_PARTS 4
/* .. but not along a concat's only dim, where runs of elements begin anywhere in a part. So many are worth a kernel for themselves. */
#define LONG_AXIS 4096

bool pass_is_transparent(const ir_node *n) {
    ir_kind k = ir_op_table(n->op)->kind;
    return k == IR_KIND_LEAF || k == IR_KIND_VIEW || n->op == IR_dequant;
}

/* reader: who reads in the end, through r. */
static bool each_source(fuser *u, ir_ref reader, ir_ref r, uint32_t keeps, pass_source_fn fn,
                        void *user) {
    const pass_rows *rows = &u->rows[reader];
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref o = n->in[i];
        uint32_t kept = 0;
        u->f->steps++;
        for (uint32_t k = 0; k < rows->n; k++)
            if (keeps >> k & 1 && pass_keeps_row(u->g, r, i, rows->at[k])) kept |= 1u << k;
        if (pass_sees_through(u, reader, o)) {
            if (!each_source(u, reader, o, kept, fn, user)) return false;
        } else if (!fn(u, o, kept, user)) {
            return false;
        }
    }
    return true;
}

bool pass_each_source(fuser *u, ir_ref r, pass_source_fn fn, void *user) {
    return each_source(u, r, r, 0, fn, user);
}

bool pass_each_row_source(fuser *u, ir_ref r, pass_source_fn fn, void *user) {
    return each_source(u, r, r, UINT32_MAX, fn, user);
}

pass_rows pass_common_rows(const pass_rows *a, const pass_rows *b, uint32_t keeps) {
    pass_rows out = {0};
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n; k++)
            if (keeps >> i & 1 && a->at[i] == b->at[k]) out.at[out.n++] = a->at[i];
    return out;
}

/* --- cycles ---------------------------------------------------------------- */

typedef struct join {
    uint32_t group;
    pass_verdict verdict;
    bool overwrites; /* memory that the group reads as it was before */
    rp_status st;
} join;

static bool check_source(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    join *j = user;
    uint32_t h = u->f->group_of[p];
    (void)keeps;
    if (h != j->group && j->verdict != PASS_CYCLE) {
        pass_verdict v = pass_order_check(u, j->group, h);
        if (v != PASS_FREE) j->verdict = v;
    }
    return true;
}

/* Calls fn for the nodes that read what effect r overwrites. */
static void each_read_before(fuser *u, ir_ref r, pass_source_fn fn, void *user) {
    const pass_reads *p = &u->overwritten;
    for (uint32_t i = p->first[r]; i != UINT32_MAX; i = p->read[i].next)
        if (!fn(u, p->read[i].reader, 0, user)) return;
}

static bool check_read_before(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    join *j = user;
    j->overwrites = j->overwrites || u->f->group_of[p] == j->group;
    return check_source(u, p, keeps, user);
}

/* Why r may not join a group because of what else it reads, or what must be read before it, or NULL. */
static const char *why_no_order(fuser *u, ir_ref r, uint32_t gi) {
    join j = {.group = gi};
    (void)pass_each_source(u, r, check_source, &j);
    each_read_before(u, r, check_read_before, &j);
    if (j.overwrites) return "overwrites what the group reads";
    return j.verdict == PASS_CYCLE ? "will create cycle"
           : j.verdict == PASS_FAR ? "nodes are too far away"
                                   : NULL;
}

static bool add_read(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    join *j = user;
    (void)keeps;
    j->st = pass_order_add(u, j->group, u->f->group_of[p]);
    return j->st == RP_OK;
}

static rp_status push(fuser *u, ir_ref **list, uint32_t *n, ir_ref r) {
    pass_list l = {*list, *n};
    RP_TRY(pass_list_push(u, &l, r));
    *list = l.at;
    *n = l.n;
    return RP_OK;
}

static rp_status add_to_group(fuser *u, uint32_t gi, ir_ref r) {
    pass_group *gr = &u->f->groups[gi];
    RP_TRY(push(u, &gr->nodes, &gr->n_nodes, r));
    u->f->group_of[r] = gi;
    join j = {.group = gi};
    (void)pass_each_source(u, r, add_read, &j);
    each_read_before(u, r, add_read, &j);
    RP_TRY(j.st);
    return pass_touch_values(u, r, gi);
}

static rp_status new_group(fuser *u, pass_group_kind kind, ir_ref r) {
    uint32_t gi = u->f->n_groups++;
    u->f->groups[gi] =
        (pass_group){.kind = kind, .by = u->rows[r], .rows = u->rows[r].at[0], .lhs = IR_NONE};
    u->position[gi] = gi;
    return add_to_group(u, gi, r);
}

rp_status pass_refuse(fuser *u, ir_ref r, uint32_t gi, const char *why) {
    pass_fusion *f = u->f;
    if ((f->n_refusals & (f->n_refusals - 1)) == 0) {
        pass_refusal *bigger =
            base_arena_array(f->arena, f->n_refusals ? f->n_refusals * 2u : 1u, sizeof *bigger);
        if (!bigger) return rp_fail(u->err, RP_NOMEM, "fusion");
        if (f->n_refusals) memcpy(bigger, f->refusals, f->n_refusals * sizeof *bigger);
        f->refusals = bigger;
    }
    f->refusals[f->n_refusals++] = (pass_refusal){r, gi, why, false};
    u->refused[gi] = r + 1;
    return RP_OK;
}

const char pass_elsewhere[] = "another group saves more";

static const char *why_elsewhere(const fuser *u, ir_ref r, uint32_t gi) {
    const ir_node *n = ir_node_at(u->g, r);
    pass_group_kind kind = u->f->groups[gi].kind, own = u->f->groups[u->f->group_of[r]].kind;
    if (kind == PASS_EXTERN || own == PASS_EXTERN) return "library code takes in no other op";
    if (n->op == IR_matmul)
        return kind == PASS_MATMUL && u->f->groups[gi].lhs == n->in[0]
                   ? "weights of another format"
                   : "a product begins a kernel";
    if (kind == PASS_MATMUL) return "no epilogue of the product";
    return own == PASS_MATMUL ? "in the epilogue of a product" : pass_elsewhere;
}

/* The other groups that share data with r have a reason, too, why it is not in them, or are counted. */
static rp_status refuse_rest(fuser *u, ir_ref r) {
    for (uint32_t i = 0; i < u->n_candidates; i++) {
        uint32_t gi = u->candidates[i].group;
        if (gi != u->f->group_of[r] && u->refused[gi] != r + 1)
            RP_TRY(pass_refuse(u, r, gi, why_elsewhere(u, r, gi)));
    }
    return pass_count_far(u, r);
}

/* --- matmul groups ------------------------------------------------------ */

static rp_status add_segment(fuser *u, uint32_t gi, ir_ref r) {
    pass_group *gr = &u->f->groups[gi];
    if ((gr->n_segs & (gr->n_segs - 1)) == 0) {
        pass_segment *segs =
            base_arena_array(u->f->arena, gr->n_segs ? gr->n_segs * 2u : 1u, sizeof *segs);
        if (!segs) return rp_fail(u->err, RP_NOMEM, "fusion");
        if (gr->n_segs) memcpy(segs, gr->segs, gr->n_segs * sizeof *segs);
        gr->segs = segs;
    }
    u->segment[r] = gr->n_segs;
    pass_segment *s = &gr->segs[gr->n_segs++];
    return push(u, &s->mats, &s->n_mats, r);
}

static rp_status place_matmul(fuser *u, ir_ref r) {
    ir_ref lhs = ir_node_at(u->g, r)->in[0];
    pass_list *known = &u->with_left[lhs];
    pass_weights w;
    bool joins = pass_product_weights(u->g, r, &w); /* if not, nothing joins it, either */
    for (uint32_t i = 0; joins && i < known->n; i++) {
        pass_group *gr = &u->f->groups[known->at[i]];
        u->f->steps++;
        if (!pass_products_join(u->g, r, gr->segs[0].mats[0])) {
            RP_TRY(pass_refuse(u, r, known->at[i], "weights of another format"));
            continue;
        }
        RP_TRY(add_segment(u, known->at[i], r));
        return add_to_group(u, known->at[i], r);
    }
    uint32_t gi = u->f->n_groups;
    RP_TRY(new_group(u, PASS_MATMUL, r));
    u->f->groups[gi].lhs = lhs;
    if (joins) RP_TRY(pass_list_push(u, known, gi));
    return add_segment(u, gi, r);
}

/* The segment of a value in group gi; NO_GROUP when it is not there. */
static uint32_t segment_of(const fuser *u, uint32_t gi, ir_ref r) {
    return u->f->group_of[r] == gi ? u->segment[r] : NO_GROUP;
}

static rp_status merge_segments(fuser *u, pass_group *gr, uint32_t into, uint32_t from) {
    pass_segment *a = &gr->segs[into], *b = &gr->segs[from];
    for (uint32_t i = 0; i < b->n_mats; i++) {
        RP_TRY(push(u, &a->mats, &a->n_mats, b->mats[i]));
        u->segment[b->mats[i]] = into;
    }
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        RP_TRY(push(u, &a->nodes, &a->n_nodes, b->nodes[i]));
        u->segment[b->nodes[i]] = into;
    }
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
        return n->shape.rank == 2 && same_shape(n, mat) &&
               ir_dim_is_const(ir_graph_dims(g), n->shape.dim[1], &cols) && cols % 32 == 0;
    return ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE && same_shape(n, mat);
}

static bool is_of_group(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    (void)keeps;
    return u->f->group_of[p] != *(const uint32_t *)user;
}

/* Every read of the group's members must be direct, and none through a view. */
static bool reads_directly(fuser *u, ir_ref r, uint32_t gi) {
    const ir_node *n = ir_node_at(u->g, r);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (pass_is_transparent(ir_node_at(u->g, n->in[i])) &&
            !pass_each_source(u, n->in[i], is_of_group, &gi))
            return false;
    return true;
}

/* Products that r would join into one segment. */
static uint32_t products_joined(const fuser *u, uint32_t gi, const ir_node *n) {
    const pass_group *gr = &u->f->groups[gi];
    uint32_t count = 0, seen[3] = {NO_GROUP, NO_GROUP, NO_GROUP};
    for (uint32_t i = 0; i < n->n_in && i < 3; i++) {
        uint32_t s = segment_of(u, gi, n->in[i]);
        if (s == NO_GROUP || s == seen[0] || s == seen[1]) continue;
        seen[i] = s;
        count += gr->segs[s].n_mats;
    }
    return count;
}

static const char *why_no_epilogue(fuser *u, ir_ref r, uint32_t gi) {
    const ir_node *n = ir_node_at(u->g, r);
    const pass_group *gr = &u->f->groups[gi];
    if (n->op == IR_quantize && pass_is_skipped(u->opt, "fuse_act_quant"))
        return "fuse_act_quant is off";
    const char *order = why_no_order(u, r, gi);
    if (order) return order;
    if (!reads_directly(u, r, gi)) return "memory deps did not match";
    if (products_joined(u, gi, n) > PASS_MAX_MATS) return "too many products in one epilogue";
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
        if (!epilogue_op(u->g, n, ir_node_at(u->g, gr->segs[u->segment[n->in[i]]].mats[0])))
            continue;
        const char *why = why_no_epilogue(u, r, gi);
        int64_t saved = pass_candidate_of(u, gi)->saved;
        if (why)
            RP_TRY(pass_refuse(u, r, gi, why));
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
        uint32_t s = segment_of(u, gi, n->in[i]);
        if (s == NO_GROUP || s == into) continue;
        uint32_t lo = into < s ? into : s, hi = into < s ? s : into;
        if (hi != NO_GROUP) RP_TRY(merge_segments(u, gr, lo, hi));
        into = lo;
    }
    RP_TRY(push(u, &gr->segs[into].nodes, &gr->segs[into].n_nodes, r));
    u->segment[r] = into;
    return add_to_group(u, gi, r);
}

/* --- loop groups -------------------------------------------------------- */

static bool has_reduction(const fuser *u, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (ir_op_table(ir_node_at(u->g, gr->nodes[i])->op)->kind == IR_KIND_REDUCE) return true;
    return false;
}

/* A field of pass_config, and what refusals say where it is off. */
typedef struct fusion_switch {
    const char *name, *off;
} fusion_switch;

static const fusion_switch rope_kv = {"fuse_rope_kvcache", "fuse_rope_kvcache is off"},
                           norm_quant = {"fuse_norm_quant", "fuse_norm_quant is off"},
                           act_quant = {"fuse_act_quant", "fuse_act_quant is off"},
                           qk_rope = {"enable_qk_norm_rope_fusion",
                                      "enable_qk_norm_rope_fusion is off"},
                           qk_rope_kv = {"fuse_qk_norm_rope_kvcache",
                                         "fuse_qk_norm_rope_kvcache is off"};

static bool is_in(const fuser *u, ir_ref r, const pass_group *gr) {
    return r != IR_NONE && u->f->group_of[r] == (uint32_t)(gr - u->f->groups);
}

/* Whether it turns heads of a norm that is in it, too. */
static bool turns_norm(const fuser *u, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (is_in(u, u->turned.ends[gr->nodes[i]], gr)) return true;
    return false;
}

/* Those by which r would join the group, at most two. */
static uint32_t switches_of(const fuser *u, ir_ref r, const pass_group *gr,
                            const fusion_switch *out[2]) {
    ir_op op = ir_node_at(u->g, r)->op;
    uint32_t n = 0;
    if (is_in(u, u->turned.reads[r], gr) || is_in(u, u->turned.ends[r], gr)) out[n++] = &qk_rope;
    if (op == IR_kv_store) out[n++] = &rope_kv;
    if (op == IR_kv_store && turns_norm(u, gr)) out[n++] = &qk_rope_kv;
    if (op == IR_quantize) out[n++] = has_reduction(u, gr) ? &norm_quant : &act_quant;
    return n;
}

static const char *switched_off(const fuser *u, ir_ref r, const pass_group *gr) {
    const fusion_switch *s[2];
    uint32_t n = switches_of(u, r, gr, s);
    for (uint32_t i = 0; i < n; i++)
        if (pass_is_skipped(u->opt, s[i]->name)) return s[i]->off;
    return NULL;
}

/* What turns a head is counted once, with its last node. */
static void count_switched(const fuser *u, ir_ref r, const pass_group *gr) {
    const fusion_switch *s[2];
    uint32_t n = switches_of(u, r, gr, s);
    for (uint32_t i = 0; i < n && u->opt; i++) {
        if (s[i] == &qk_rope && u->turned.ends[r] == IR_NONE) continue;
        pass_count *c = pass_count_of(u->opt->counts, s[i]->name);
        if (c) c->matches++;
    }
}

bool pass_loses_threads(const fuser *u, ir_ref r, const pass_group *gr, const pass_rows *left) {
    const ir_shape *s = &ir_node_at(u->g, r)->shape;
    const ir_shape *has = &ir_node_at(u->g, gr->nodes[0])->shape;
    return pass_most_rows(u->g, left) < FEW_ROWS &&
           ((pass_most_rows(u->g, &gr->by) >= FEW_ROWS &&
             pass_nominal_elements(u->g, has) >= MANY_ELEMENTS) ||
            (pass_most_rows(u->g, &u->rows[r]) >= FEW_ROWS &&
             pass_nominal_elements(u->g, s) >= MANY_ELEMENTS));
}

bool pass_is_only_axis(const ir_graph *g, const ir_node *n) {
    const uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    for (uint32_t d = 0; d < n->shape.rank; d++)
        if (d != axis && !ir_dim_is(ir_graph_dims(g), n->shape.dim[d], 1)) return false;
    return true;
}

bool pass_has_many_parts(const ir_graph *g, const ir_node *n) {
    if (n->op != IR_concat || n->n_in < 2) return false;
    return n->n_in > FEW_PARTS ||
           (pass_is_only_axis(g, n) && pass_nominal_elements(g, &n->shape) >= LONG_AXIS);
}

static bool is_not_many_parts(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    (void)keeps;
    return u->f->group_of[p] != *(const uint32_t *)user ||
           !pass_has_many_parts(u->g, ir_node_at(u->g, p));
}

/* Whether r would ask all parts of a concat of the group for each element; an effect goes by its parts. */
static bool asks_all_parts(fuser *u, ir_ref r, uint32_t gi) {
    const ir_op op = ir_node_at(u->g, r)->op;
    return op != IR_kv_store && op != IR_update && !pass_each_source(u, r, is_not_many_parts, &gi);
}

/* Whether a row of n is no longer than what lowering keeps of one. */
static bool is_short_row(const fuser *u, const ir_node *n, ir_dim rows) {
    int64_t all = 1, size;
    const uint32_t outer = pass_outer_dims(u->g, &n->shape, rows);
    for (uint32_t d = outer; d < n->shape.rank && all <= PASS_MAX_ROW; d++) {
        if (!ir_dim_is_const(ir_graph_dims(u->g), n->shape.dim[d], &size)) return false;
        all *= size;
    }
    return all <= PASS_MAX_ROW;
}

typedef struct row_search {
    uint32_t group, steps;
    ir_dim rows;
} row_search;

/* Stops at a concat of the group whose rows are long, and behind anything that is not computed where it is read. */
static bool is_not_long_concat(fuser *u, ir_ref p, uint32_t keeps, void *user) {
    row_search *s = user;
    const ir_node *n = ir_node_at(u->g, p);
    (void)keeps;
    if (u->f->group_of[p] != s->group || s->steps == 0) return true;
    s->steps--;
    if (n->op == IR_concat) return is_short_row(u, n, s->rows);
    return ir_op_table(n->op)->kind != IR_KIND_ELEMENTWISE ||
           pass_each_source(u, p, is_not_long_concat, s);
}

/* Whether reduction r would choose a part of a concat for each element, of rows too long to be kept. */
static bool reduces_parts(fuser *u, ir_ref r, uint32_t gi, ir_dim rows) {
    row_search s = {gi, PASS_MAX_FUSION, rows};
    return ir_op_table(ir_node_at(u->g, r)->op)->kind == IR_KIND_REDUCE &&
           !pass_each_source(u, r, is_not_long_concat, &s);
}

static const char *why_no_loop(fuser *u, ir_ref r, const pass_candidate *c) {
    const pass_group *gr = &u->f->groups[c->group];
    const char *off = switched_off(u, r, gr);
    if (off) return off;
    if (pass_common_rows(&u->rows[r], &gr->by, UINT32_MAX).n == 0) return "rows differ";
    pass_rows common = pass_common_rows(&u->rows[r], &gr->by, c->keeps);
    if (common.n == 0) return "memory deps did not match";
    const char *runs = pass_why_no_runs(u, r, c, &common);
    if (runs) return runs;
    if (pass_loses_threads(u, r, gr, &common)) return "too few rows for threads";
    if (asks_all_parts(u, r, c->group)) return "each element would ask all parts of a concat";
    if (reduces_parts(u, r, c->group, common.at[common.n - 1]))
        return "a reduction would choose among the parts of a concat";
    const char *order = why_no_order(u, r, c->group);
    if (order) return order;
    return gr->n_nodes >= PASS_MAX_FUSION ? "exceeds max fusion" : NULL;
}

static rp_status place_loop(fuser *u, ir_ref r) {
    uint32_t best = NO_GROUP;
    int64_t most = -1;
    for (uint32_t i = 0; i < u->n_candidates; i++) {
        const pass_candidate *c = &u->candidates[i];
        if (u->f->groups[c->group].kind != PASS_LOOP) continue;
        if (!c->shares && c->saved == 0) continue; /* nothing to gain */
        const char *why = why_no_loop(u, r, c);
        if (why)
            RP_TRY(pass_refuse(u, r, c->group, why));
        else if (c->saved > most)
            best = c->group, most = c->saved;
    }
    if (best == NO_GROUP) return new_group(u, PASS_LOOP, r);
    pass_group *gr = &u->f->groups[best];
    count_switched(u, r, gr);
    gr->by = pass_common_rows(&u->rows[r], &gr->by, pass_candidate_of(u, best)->keeps);
    return add_to_group(u, best, r);
}

static bool is_library_code(const ir_node *n) {
    ir_kind kind = ir_op_table(n->op)->kind;
    return n->op == IR_attention || ir_op_is_call(n->op) || kind == IR_KIND_SCAN ||
           kind == IR_KIND_SCATTER;
}

static bool is_only_reader(const fuser *u, ir_ref r, ir_ref of) {
    for (uint32_t i = 0; i < ir_output_count(u->g); i++)
        if (ir_output_at(u->g, i) == of) return false;
    for (ir_ref x = of + 1; x < ir_graph_count(u->g); x++) {
        const ir_node *n = ir_node_at(u->g, x);
        for (uint32_t i = 0; i < n->n_in; i++)
            if (n->in[i] == of && x != r) return false;
    }
    return true;
}

/* Rounding of nothing but what attention gives, head by head: the only op that this library code takes in, where it is asked for. */
static bool rounds_attention(const fuser *u, ir_ref r) {
    const ir_node *n = ir_node_at(u->g, r);
    if (n->op != IR_quantize || n->dtype != RP_DTYPE_I16B32 ||
        !pass_is_asked(u->opt, "fuse_attn_quant"))
        return false;
    const ir_node *a = ir_node_at(u->g, n->in[0]);
    return a->op == IR_attention && ir_attr_int(a, IR_ATTR_HEAD_DIM, 1) % 32 == 0 &&
           is_only_reader(u, r, n->in[0]);
}

static rp_status join_attention(fuser *u, ir_ref r) {
    pass_count *c = pass_count_of(u->opt->counts, "fuse_attn_quant");
    if (c) c->matches++;
    return add_to_group(u, u->f->group_of[ir_node_at(u->g, r)->in[0]], r);
}

static rp_status place(fuser *u, ir_ref r) {
    const ir_node *n = ir_node_at(u->g, r);
    bool joined = false;
    if (pass_is_transparent(n) || !u->needed[r]) return RP_OK;
    u->rows[r] = pass_rows_of(u->g, r);
    if (u->rows[r].n == 0 || u->rows[r].at[0] == IR_DIM_BAD)
        return rp_fail(u->err, RP_NOMEM, "sizes of %s", ir_op_table(n->op)->name);
    RP_TRY(pass_find_candidates(u, r));
    if (rounds_attention(u, r)) {
        RP_TRY(join_attention(u, r));
    } else if (is_library_code(n)) {
        RP_TRY(new_group(u, PASS_EXTERN, r));
    } else if (n->op == IR_matmul) {
        RP_TRY(place_matmul(u, r));
    } else {
        RP_TRY(join_epilogue(u, r, &joined));
        if (!joined) RP_TRY(place_loop(u, r));
    }
    return refuse_rest(u, r);
}

static rp_status make_room(fuser *u, uint32_t n) {
    pass_fusion *f = u->f;
    struct {
        void *field;
        size_t size;
    } const arrays[] = {
        {&f->groups, sizeof *f->groups},
        {&f->group_of, sizeof *f->group_of},
        {&f->stored, sizeof *f->stored},
        {&f->split, sizeof *f->split},
        {&u->needed, sizeof *u->needed},
        {&u->through, sizeof *u->through},
        {&u->reads, sizeof *u->reads},
        {&u->readers, sizeof *u->readers},
        {&u->position, sizeof *u->position},
        {&u->mark, sizeof *u->mark},
        {&u->forward.at, sizeof *u->forward.at},
        {&u->backward.at, sizeof *u->mark},
        {&u->group_at, sizeof *u->group_at},
        {&u->moved, sizeof *u->moved},
        {&u->touched, sizeof *u->touched},
        {&u->n_touched, sizeof *u->n_touched},
        {&u->round, sizeof *u->round},
        {&u->candidate_of, sizeof *u->candidate_of},
        {&u->stamp, sizeof *u->stamp},
        {&u->segment, sizeof *u->segment},
        {&u->with_left, sizeof *u->with_left},
        {&u->rows, sizeof *u->rows},
        {&u->refused, sizeof *u->refused},
        {&u->into, sizeof *u->into},
        {&u->turned.reads, sizeof *u->turned.reads},
        {&u->turned.ends, sizeof *u->turned.ends},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        void *p = base_arena_array(f->arena, n, arrays[i].size);
        if (!p) return rp_fail(u->err, RP_NOMEM, "fusion of %u nodes", n - 1);
        memcpy(arrays[i].field, &p, sizeof p);
    }
    memset(f->group_of, 0xff, n * sizeof *f->group_of);
    memset(u->into, 0xff, n * sizeof *u->into);
    for (uint32_t r = 0; r < n; r++) u->turned.reads[r] = u->turned.ends[r] = IR_NONE;
    return RP_OK;
}

static rp_status find_reads(fuser *u) {
    RP_TRY(pass_reads_find(u->g, u->f->arena, &u->overwritten, u->err));
    if (pass_reads_before(u->g, &u->overwritten)) return RP_OK;
    return rp_fail(u->err, RP_INTERNAL, "graph %s reads memory after its next write",
                   ir_graph_name(u->g));
}

rp_status pass_fuse(const ir_graph *g, const pass_options *opt, pass_fusion *out, rp_error *err) {
    uint32_t n = ir_graph_count(g);
    rp_status st = RP_OK;
    pass_fusion f = {.arena = base_arena_new()};
    fuser u = {.g = g, .opt = opt, .f = &f, .cap = n + 1, .err = err};
    u.touches = base_map_new();
    if (!f.arena || !u.touches) {
        st = rp_fail(err, RP_NOMEM, "fusion of %u nodes", n);
        goto out;
    }
    RP_TRY_OUT(make_room(&u, n + 1));
    RP_TRY_OUT(find_reads(&u));
    pass_turned_find(g, &u.turned);
    pass_find_runs(&u);
    for (ir_ref r = 0; r < n; r++) RP_TRY_OUT(place(&u, r));
    RP_TRY_OUT(pass_settle_groups(&u));
    *out = f;
    f.arena = NULL;
out:
    base_map_free(u.touches);
    pass_fusion_done(&f);
    return st;
}

void pass_fusion_done(pass_fusion *f) {
    base_arena_free(f->arena);
    *f = (pass_fusion){0};
}
