/* The eager compiler: every node is a launch of a kernel that is inside the library, so nothing is compiled.
 *
 * It is level 0, what levels 1 to 3 fall back to without a host compiler, and the measure that compiled code
 * must equal bit for bit. It keeps no memory of its own but what a node's value needs. */
#include "compile/eager.h"

#include "base/alloc.h"
#include "compile/compile.h"
#include "ir/site.h"
#include "pass/inplace.h"

static rp_status alloc_piece(eager *e) {
    lower_piece *o = e->out;
    uint32_t n_out = ir_output_count(e->g), n_matmuls = 1;
    for (ir_ref r = 0; r < ir_graph_count(e->g); r++)
        n_matmuls += ir_node_at(e->g, r)->op == IR_matmul;
    o->dims = ir_dims_new(o->arena);
    o->outputs = base_arena_array(o->arena, n_out + 1u, sizeof *o->outputs);
    o->packs = base_arena_array(o->arena, n_matmuls, sizeof *o->packs);
    o->source = base_arena_str(o->arena, "");
    e->view = base_arena_array(o->arena, ir_graph_count(e->g) + 1u, sizeof *e->view);
    if (!o->dims || !o->outputs || !o->packs || !o->source || !e->view)
        return rp_fail(e->err, RP_NOMEM, "lowering");
    for (uint32_t i = 0; i < ir_dims_symbol_count(e->dims); i++) {
        const ir_symbol *s = ir_dims_symbol(e->dims, i);
        if (ir_dim_symbol(o->dims, s->name, s->min, s->max, s->divisor) == IR_DIM_BAD)
            return rp_fail(e->err, RP_NOMEM, "symbols");
    }
    return RP_OK;
}

static void place_leaves(eager *e) {
    static const lower_seg seg[] = {LOWER_INPUT, LOWER_PARAM, LOWER_STATE};
    for (int kind = IR_LEAF_INPUT; kind <= IR_LEAF_STATE; kind++)
        for (uint32_t i = 0; i < ir_leaf_count(e->g, (ir_leaf)kind); i++) {
            ir_ref r = ir_leaf_at(e->g, (ir_leaf)kind, i);
            lower_view_dense(e->dims, (lower_ref){.seg = seg[kind], .idx = i}, ir_node_at(e->g, r),
                             &e->view[r]);
        }
}

static bool is_taken(const lower_piece *o, lower_ref at) {
    for (uint32_t i = 0; i < o->n_outputs; i++)
        if (o->outputs[i].seg == at.seg && o->outputs[i].idx == at.idx) return true;
    return false;
}

/* An output is the memory of the node that made it, unless it is a part of it or taken by another. Leaves are
 * copied by the plan. */
static rp_status place_outputs(eager *e) {
    for (uint32_t i = 0; i < ir_output_count(e->g); i++) {
        ir_ref o = ir_output_at(e->g, i), base = o;
        const ir_node *n = ir_node_at(e->g, o);
        while (ir_node_at(e->g, base)->op == IR_reshape) base = ir_node_at(e->g, base)->in[0];
        if (ir_node_at(e->g, base)->op == IR_written) base = ir_node_at(e->g, base)->memory;
        ir_kind kind = ir_op_table(ir_node_at(e->g, base)->op)->kind;
        lower_ref at = e->view[o].at;
        bool own = kind != IR_KIND_VIEW || ir_node_at(e->g, base)->op == IR_result;
        bool whole = own && ir_node_at(e->g, base)->op != IR_dequant && at.seg == LOWER_TEMP &&
                     e->view[base].at.seg == at.seg && e->view[base].at.idx == at.idx &&
                     !is_taken(e->out, at);
        bool leaf = n->op == IR_param || (n->memory != IR_NONE && n->op != IR_empty);
        if (!whole && !leaf) {
            lower_view to;
            RP_TRY(eager_copy_value(e, n, &e->view[o], &to));
            at = to.at;
        }
        e->out->outputs[e->out->n_outputs++] = at;
    }
    return RP_OK;
}

static rp_status eager_lower(const ir_graph *g, const lower_options *opt, lower_piece *out,
                             rp_error *err) {
    rp_status st = RP_OK;
    lower_piece p = {.arena = base_arena_new()};
    eager e = {.g = g, .dims = ir_graph_dims(g), .opt = opt, .out = &p, .err = err};
    bool in_order = false;
    if (!p.arena) return rp_fail(err, RP_NOMEM, "lowering");
    RP_TRY_OUT(pass_check_inplace(g, &in_order, err));
    if (!in_order) {
        st = rp_fail(err, RP_INTERNAL, "graph %s reads memory after its next write",
                     ir_graph_name(g));
        goto out;
    }
    RP_TRY_OUT(alloc_piece(&e));
    place_leaves(&e);
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        st = eager_node(&e, r);
        if (st == RP_OK) continue;
        ir_site_blame(g, r, err);
        goto out;
    }
    RP_TRY_OUT(place_outputs(&e));
    RP_TRY_OUT(lower_sizes_status(&p, err));
    *out = p;
    p.arena = NULL;
out:
    lower_done(&p);
    return st;
}

/* --- the compiler ------------------------------------------------------------------ */

static rp_status initialize_cache(const compile_host *h, rp_error *err) {
    (void)h;
    (void)err;
    return RP_OK;
}

/* Launches name kernels of this library and are sized for an instruction set; no tool of the machine takes part. */
static rp_status compute_hash(const compile_host *h, cache_key *k, rp_error *err) {
    RP_TRY(cache_key_add(k, "machine", h->machine, err));
    RP_TRY(cache_key_add(k, "isa", gen_isa_name(h->isa), err));
    return cache_key_add(k, "sources", compile_source_hash(), err);
}

/* There is no code, so there is nothing to find again. */
static rp_status compile(const compile_host *h, const compile_unit *u, compile_code *out,
                         char **handle, rp_error *err) {
    (void)h;
    (void)u;
    (void)out;
    (void)handle;
    (void)err;
    return RP_OK;
}

static rp_status load(const compile_host *h, const compile_unit *u, const char *handle,
                      compile_code *out, rp_error *err) {
    (void)h;
    (void)u;
    (void)handle;
    (void)out;
    (void)err;
    return RP_NOT_FOUND;
}

const rp_compiler compile_eager = {.name = "eager",
                                   .initialize_cache = initialize_cache,
                                   .compute_hash = compute_hash,
                                   .lower = eager_lower,
                                   .compile = compile,
                                   .load = load};
