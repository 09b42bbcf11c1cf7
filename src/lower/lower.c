/* Lowers a piece group by group, in the order that fusion gave. */
#include "lower/lower.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gen/target.h"
#include "ir/site.h"
#include "lower/target.h"

ir_dim lower_bytes(ir_dims *t, const ir_node *n) {
    ir_dim e = ir_dim_const(t, 1);
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        ir_dim d = n->shape.dim[i];
        /* Blocks run along the last dim, which is a multiple of theirs. */
        if (i + 1 == n->shape.rank && rp_dtype_is_quant(n->dtype))
            d = ir_dim_floordiv(t, d, (int64_t)rp_dtype_block(n->dtype));
        e = ir_dim_mul(t, e, d);
    }
    return ir_dim_mul_const(t, e, (int64_t)rp_dtype_block_bytes(n->dtype));
}

rp_status lower_bytes_refused(const ir_graph *g, const ir_node *n, rp_error *err) {
    const double most = 0x1p61;
    rp_status st = RP_OK;
    const char *name = ir_op_table(n->op)->name;
    const ir_dims *dims = ir_graph_dims(g);
    double bytes = (double)rp_dtype_block_bytes(n->dtype) / (double)rp_dtype_block(n->dtype);
    bool known = true;
    base_buf type;
    if (ir_dims_exhausted(dims)) return rp_fail(err, RP_NOMEM, "bytes of %s", name);
    base_buf_init(&type, 0);
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        int64_t lo, hi;
        ir_dim_bounds(dims, n->shape.dim[i], &lo, &hi);
        known = known && lo == hi;
        bytes *= (double)lo;
    }
    ir_type_print(g, n->dtype, &n->shape, &type);
    RP_TRY_OUT(base_buf_status(&type, err));
    if (known || bytes >= most)
        st = rp_fail(err, RP_UNSUPPORTED,
                     "%s %s takes %s%.3g bytes; a tensor may take 2^61 at most", name, type.data,
                     known ? "" : "at least ", bytes);
    else
        st = rp_fail(err, RP_UNSUPPORTED,
                     "%s %s: its bytes are a size of more than %d terms, %d factors of one or 2^61 "
                     "of them; give some of its symbols a value",
                     name, type.data, IR_DIM_MAX_TERMS, IR_DIM_MAX_FACTORS);
out:
    base_buf_done(&type);
    return st;
}

rp_status lower_temp_memory(lowerer *L, const ir_node *n, ir_dim bytes, lower_ref *out) {
    if (bytes == IR_DIM_BAD) return lower_bytes_refused(L->g, n, L->err);
    *out = (lower_ref){.seg = LOWER_TEMP, .idx = L->out->n_temps};
    L->out->temps[L->out->n_temps++].bytes =
        ir_dim_import(L->out->dims, ir_graph_dims(L->g), bytes);
    return RP_OK;
}

static rp_status add_temp(lowerer *L, const ir_node *n, lower_ref *out) {
    return lower_temp_memory(L, n, lower_bytes(ir_graph_dims(L->g), n), out);
}

rp_status lower_memory(lowerer *L, ir_ref r, lower_ref *out) {
    if (!L->has_memory[r]) {
        RP_TRY(add_temp(L, ir_node_at(L->g, r), &L->where[r]));
        L->has_memory[r] = true;
    }
    *out = L->where[r];
    return RP_OK;
}

ir_node lower_result_type(const ir_node *n, uint32_t i) {
    ir_node t = *n;
    if (i > 0) t.dtype = n->more[i - 1].dtype;
    if (i > 0) t.shape = n->more[i - 1].shape;
    return t;
}

rp_status lower_result_memory(lowerer *L, ir_ref r, uint32_t i, lower_ref *out) {
    ir_ref named = i ? ir_result_of(L->g, r, i) : r;
    if (named != IR_NONE) return lower_memory(L, named, out);
    ir_node type = lower_result_type(ir_node_at(L->g, r), i);
    return add_temp(L, &type, out);
}

rp_status lower_version(lowerer *L, ir_ref r, lower_ref *out) {
    RP_TRY(lower_memory(L, ir_node_at(L->g, r)->memory, out));
    L->where[r] = *out;
    L->has_memory[r] = true;
    return RP_OK;
}

char *lower_name(lowerer *L, const char *kind, const ir_ref *nodes, uint32_t n, uint32_t index) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s_fused", kind);
    uint64_t seen[IR_OP_COUNT_ / 64 + 1] = {0};
    for (uint32_t i = 0; i < n && b.len < 80; i++) {
        ir_op op = ir_node_at(L->g, nodes[i])->op;
        if (seen[op / 64] >> (op % 64) & 1) continue;
        seen[op / 64] |= UINT64_C(1) << (op % 64);
        base_buf_printf(&b, "_%s", ir_op_table(op)->name);
    }
    base_buf_printf(&b, "_%u", index);
    char *name = b.failed ? NULL : base_arena_str(L->arena, b.data);
    base_buf_done(&b);
    return name;
}

rp_status lower_kernel_begin(lowerer *L, const char *name, kir_form form) {
    L->k = kir_new(name, form, L->out->dims);
    if (!L->k) return rp_fail(L->err, RP_NOMEM, "kernel %s", name);
    L->n_memo = 0;
    L->col = KIR_NONE;
    L->scratch_left = LOWER_MAX_SCRATCH;
    L->lanes_width = 0;
    L->may = 0;
    L->n_begun++;
    return RP_OK;
}

static lower_choice choice_at(const lowerer *L, size_t group) {
    const lower_options *o = L->opt;
    return group < o->n_choices ? o->choices[group] : (lower_choice){0};
}

lower_choice lower_chosen(const lowerer *L) {
    return choice_at(L, L->group_at);
}

lower_choice lower_chosen_of(const lowerer *L, const pass_group *gr) {
    return choice_at(L, (size_t)(gr - L->f->groups));
}

/* By the rules of t, and what was chosen in their place. */
static rp_status schedule(const lowerer *L, const sched_target *t, sched **out) {
    const lower_choice c = lower_chosen(L);
    RP_TRY(sched_make(t, L->k, out, L->err));
    sched_choose(*out, &c.sched);
    return RP_OK;
}

/* Schedules the function for t and prints it. */
static rp_status render(const lowerer *L, gen_target t, base_buf *out, sched_launch *launch,
                        uint32_t *may) {
    sched *s = NULL;
    RP_TRY(schedule(L, gen_language_of(t)->schedules, &s));
    if (launch) *launch = s->launch;
    if (may && L->k->form == KIR_KERNEL && s->target->max_threads) *may |= LOWER_MAY(THREADS);
    if (may && L->k->form == KIR_KERNEL && !s->target->max_threads)
        *may |= LOWER_MAY(VECTOR) | LOWER_MAY(GRAIN) | (sched_has_loops(s) ? LOWER_MAY(UNROLL) : 0);
    rp_status st = gen_func(s, out, L->err);
    sched_free(s);
    return st;
}

/* The forms beside the source that were asked for. */
rp_status lower_render_texts(const lowerer *L) {
    const lower_options *o = L->opt;
    sched *s = NULL;
    if (o->kir) kir_print(L->k, o->kir);
    if (o->schedule) {
        const sched_target *own = gen_language_of(L->target->id)->schedules;
        RP_TRY(schedule(L, o->scheduled ? o->scheduled : own, &s));
        sched_print(s, o->schedule);
        sched_free(s);
    }
    /* A fragment is inlined into a template, which another target has not. */
    return o->printed && L->k->form == KIR_KERNEL
               ? render(L, o->printed_for, o->printed, NULL, NULL)
               : RP_OK;
}

rp_status lower_render(lowerer *L) {
    lower_note_access(L, L->k, NULL);
    RP_TRY(lower_render_texts(L));
    return render(L, L->target->id, &L->source, &L->launch, &L->may);
}

bool lower_by_blocks(const lowerer *L) {
    return gen_language_of(L->target->id)->schedules->max_threads > 0;
}

rp_status lower_ready(lowerer *L, const char *name, size_t begin, const char **symbol) {
    *symbol = NULL;
    return L->target->ready ? L->target->ready(L, name, begin, symbol) : RP_OK;
}

rp_status lower_launch_of(const lowerer *L, lower_launch *l) {
    const sched_launch *s = &L->launch;
    l->grain = s->grain;
    if (!s->threads) { /* no blocks: temporaries are the thread's, which the launch gives it */
        l->alts[0].scratch = s->scratch;
        return RP_OK;
    }
    if (s->n_args != L->n_args) /* parameters of the kernel are counted by its buffers */
        return rp_fail(L->err, RP_INTERNAL, "kernel %s has %u of %u arguments", L->k->name,
                       s->n_args, L->n_args);
    l->threads = s->threads;
    l->per_block = s->per_block;
    l->alts[0].per_sm = s->per_sm;
    l->items = ir_dim_mul_const(L->out->dims, l->items, s->parts);
    if (l->items == IR_DIM_BAD) return rp_fail(L->err, RP_NOMEM, "items of %s", L->k->name);
    return RP_OK;
}

lower_launch *lower_add_launch(lowerer *L) {
    return &L->out->launches[L->out->n_launches++];
}

/* In the arena; NULL where none is wanted or known. */
static const char *group_sites(const lowerer *L) {
    base_buf b;
    const char *text = NULL;
    if (!L->opt->sites || !L->group || !ir_has_sites(L->g)) return NULL;
    base_buf_init(&b, 0);
    ir_sites_print(L->g, L->group->nodes, L->group->n_nodes, &b);
    if (b.len && !b.failed) text = base_arena_str(L->arena, b.data);
    base_buf_done(&b);
    return text;
}

/* As text of a comment, a line each. */
static const char *group_origins(const lowerer *L) {
    base_buf b;
    const char *text = NULL;
    if (!L->opt->origins || !L->group) return NULL;
    base_buf_init(&b, 0);
    ir_print_nodes(L->g, L->group->nodes, L->group->n_nodes, &b);
    for (char *p = b.failed ? NULL : b.data; p && (p = strstr(p, "*/"));) *p = '?';
    if (b.len && !b.failed) text = base_arena_str(L->arena, b.data);
    base_buf_done(&b);
    return text;
}

lower_kernel *lower_add_kernel(lowerer *L, const char *name, size_t begin, gen_matmul_uses uses) {
    lower_kernel *k = &L->out->kernels[L->out->n_kernels++];
    *k = (lower_kernel){.name = name,
                        .begin = begin,
                        .end = L->source.len,
                        .uses = uses,
                        .group = L->group_at,
                        .may = L->group_at == UINT32_MAX ? 0 : L->may};
    L->may = 0; /* what a copy may, the kernel that reads it does not */
    k->sites = group_sites(L);
    k->origins = group_origins(L);
    if (L->opt->labels && L->group && k->group != UINT32_MAX)
        k->label = lower_label(L, L->group, name);
    return k;
}

static void print_comment(const lower_kernel *k, base_buf *out) {
    if (!k->sites && !k->origins) return;
    base_buf_printf(out, "/* %s", k->name);
    if (k->sites) base_buf_printf(out, ": %s", k->sites);
    if (k->origins) base_buf_printf(out, "\n%s", k->origins);
    base_buf_puts(out, " */\n");
}

void lower_source_print(const lower_piece *p, base_buf *out) {
    size_t at = 0, len = strlen(p->source);
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        const lower_kernel *k = &p->kernels[i];
        base_buf_add(out, p->source + at, k->begin - at);
        print_comment(k, out);
        at = k->begin;
    }
    base_buf_add(out, p->source + at, len - at);
}

rp_status lower_take_args(lowerer *L, lower_launch *l) {
    l->n_args = L->n_args;
    l->args = base_arena_array(L->arena, L->n_args + 1u, sizeof *l->args);
    if (!l->args) return rp_fail(L->err, RP_NOMEM, "launch arguments");
    memcpy(l->args, L->args, L->n_args * sizeof *l->args);
    for (uint32_t i = 0; i < l->n_args; i++)
        if (!l->args[i].access) l->args[i].access = BASE_READS;
    return RP_OK;
}

static rp_status alloc_out(lowerer *L, uint32_t n_nodes, rp_error *err) {
    lower_piece *o = L->out;
    size_t n = (size_t)n_nodes + ir_output_count(L->g) + L->f->n_groups * 8u + 8;
    /* Each operand of code that is not generated may be copied. */
    for (ir_ref r = 0; r < n_nodes; r++) {
        const ir_node *x = ir_node_at(L->g, r);
        if (L->f->split[r]) n += 2; /* what its runs leave */
        if (ir_op_table(x->op)->kind == IR_KIND_EFFECT) n += x->n_in + 1u + x->n_more;
        if (ir_op_has_graphs(x->op)) n += lower_carried(x) + 1u;
    }
    o->dims = ir_dims_new(o->arena);
    o->temps = base_arena_array(o->arena, n, sizeof *o->temps);
    o->outputs = base_arena_array(o->arena, n, sizeof *o->outputs);
    o->consts = base_arena_array(o->arena, n, sizeof *o->consts);
    o->packs = base_arena_array(o->arena, n, sizeof *o->packs);
    o->launches = base_arena_array(o->arena, n, sizeof *o->launches);
    o->kernels = base_arena_array(o->arena, n, sizeof *o->kernels);
    L->where = base_arena_array(o->arena, n, sizeof *L->where);
    L->has_memory = base_arena_array(o->arena, n, sizeof *L->has_memory);
    L->moves = base_arena_array(o->arena, n, sizeof *L->moves);
    L->local = base_arena_array(o->arena, n, sizeof *L->local);
    L->partial = base_arena_array(o->arena, n, sizeof *L->partial);
    L->keep = base_arena_array(o->arena, n, sizeof *L->keep);
    L->memo = base_arena_array(o->arena, LOWER_MAX_MEMO, sizeof *L->memo);
    L->args = base_arena_array(o->arena, 2 * n, sizeof *L->args);
    if (!o->dims || !o->temps || !o->outputs || !o->consts || !o->packs || !o->launches ||
        !o->kernels || !L->where || !L->has_memory || !L->moves || !L->local || !L->partial ||
        !L->keep || !L->memo || !L->args)
        return rp_fail(err, RP_NOMEM, "lowering of %u nodes", n_nodes);
    const ir_dims *own = ir_graph_dims(L->g);
    for (uint32_t i = 0; i < ir_dims_symbol_count(own); i++) {
        const ir_symbol *s = ir_dims_symbol(own, i);
        if (ir_dim_symbol(o->dims, s->name, s->min, s->max, s->divisor) == IR_DIM_BAD)
            return rp_fail(err, RP_NOMEM, "symbols");
    }
    return RP_OK;
}

static void place_leaves(lowerer *L) {
    static const lower_seg seg[] = {LOWER_INPUT, LOWER_PARAM, LOWER_STATE};
    for (int kind = IR_LEAF_INPUT; kind <= IR_LEAF_STATE; kind++)
        for (uint32_t i = 0; i < ir_leaf_count(L->g, (ir_leaf)kind); i++) {
            ir_ref r = ir_leaf_at(L->g, (ir_leaf)kind, i);
            L->where[r] = (lower_ref){.seg = seg[kind], .idx = i};
            L->has_memory[r] = true;
        }
}

static bool is_taken(const lowerer *L, lower_ref at) {
    for (uint32_t i = 0; i < L->out->n_outputs; i++)
        if (L->out->outputs[i].seg == at.seg && L->out->outputs[i].idx == at.idx) return true;
    return false;
}

static bool is_leaf(ir_op op) {
    return op == IR_input || op == IR_param || op == IR_state;
}

/* Each output has memory of its own, but versions of a leaf's memory and leaves, which the plan copies. Where it
 * cannot, an output is a leaf only where passes found that it is one (others: pass_separate_outputs). */
static rp_status place_outputs(lowerer *L) {
    for (uint32_t i = 0; i < ir_output_count(L->g); i++) {
        ir_ref o = ir_output_at(L->g, i), base = o;
        while (ir_node_at(L->g, base)->op == IR_reshape) base = ir_node_at(L->g, base)->in[0];
        if (ir_node_at(L->g, base)->op == IR_written) base = ir_node_at(L->g, base)->memory;
        bool own = L->has_memory[base] && L->where[base].seg == LOWER_TEMP &&
                   !is_taken(L, L->where[base]);
        const bool leaf = is_leaf(ir_node_at(L->g, o)->op);
        lower_ref *at = &L->out->outputs[L->out->n_outputs++];
        if (leaf && L->target->copies_leaves)
            RP_TRY(lower_copy(L, o, at));
        else if (own || leaf ||
                 (L->has_memory[base] && L->where[base].seg != LOWER_TEMP &&
                  ir_node_at(L->g, o)->memory != IR_NONE))
            *at = L->where[base];
        else if (ir_node_at(L->g, o)->op == IR_empty)
            RP_TRY(lower_memory(L, o, at));
        else
            RP_TRY(lower_copy(L, o, at));
    }
    return RP_OK;
}

/* What the wanted kernels use, all of them where wanted is NULL. */
static gen_matmul_uses uses_of(const lower_piece *p, const bool *wanted) {
    gen_matmul_uses uses = {0};
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        const gen_matmul_uses *k = &p->kernels[i].uses;
        if (wanted && !wanted[i]) continue;
        uses.quant |= k->quant;
        uses.floats |= k->floats;
        uses.attention |= k->attention;
        uses.tensor |= k->tensor;
        uses.top |= k->top;
        uses.axis |= k->axis;
        uses.scatter |= k->scatter;
        uses.strided |= k->strided;
    }
    return uses;
}

static rp_status put_unit(gen_target target, gen_isa isa, const gen_matmul_uses *uses,
                          const base_buf *kernels, base_buf *out, rp_error *err) {
    RP_TRY(base_buf_status(kernels, err));
    RP_TRY(gen_language_of(target)->head(isa, uses, (base_str){kernels->data, kernels->len}, out,
                                         err));
    base_buf_add(out, kernels->data, kernels->len);
    return base_buf_status(out, err);
}

rp_status lower_unit(const lower_piece *p, gen_isa isa, const bool *wanted, base_buf *out,
                     rp_error *err) {
    gen_matmul_uses uses = uses_of(p, wanted);
    base_buf kernels;
    base_buf_init(&kernels, 0);
    for (uint32_t i = 0; i < p->n_kernels; i++)
        if (wanted[i])
            base_buf_add(&kernels, p->source + p->kernels[i].begin,
                         p->kernels[i].end - p->kernels[i].begin);
    rp_status st = put_unit(p->target, isa, &uses, &kernels, out, err);
    base_buf_done(&kernels);
    return st;
}

/* The head is known when all kernels are, and moves them. */
static rp_status finish_source(lowerer *L) {
    lower_piece *p = L->out;
    gen_matmul_uses uses = uses_of(p, NULL);
    base_buf all;
    base_buf_init(&all, 0);
    rp_status st = put_unit(p->target, L->opt->isa, &uses, &L->source, &all, L->err);
    for (uint32_t i = 0; st == RP_OK && i < p->n_kernels; i++) {
        p->kernels[i].begin += all.len - L->source.len;
        p->kernels[i].end += all.len - L->source.len;
    }
    if (st == RP_OK && !(p->source = base_arena_strn(p->arena, all.data, all.len)))
        st = rp_fail(L->err, RP_NOMEM, "source of %zu bytes", all.len);
    base_buf_done(&all);
    return st;
}

static rp_status lower_group(lowerer *L, const pass_group *gr, uint32_t index) {
    switch (gr->kind) {
    case PASS_LOOP: return lower_loop_group(L, gr, index);
    case PASS_MATMUL: return lower_matmul_group(L, gr, index);
    case PASS_EXTERN: break;
    }
    return lower_extern_group(L, gr);
}

static rp_status lower_groups(lowerer *L) {
    for (uint32_t i = 0; i < L->f->n_groups; i++) {
        L->group = &L->f->groups[i];
        L->group_at = i;
        L->may = 0;
        if (L->group == L->absorbed) continue;
        uint32_t before = L->out->n_launches;
        rp_status st = lower_group(L, L->group, i);
        for (; before < L->out->n_launches; before++) L->out->launches[before].group = i;
        if (st != RP_OK && L->group->n_nodes) ir_site_blame(L->g, L->group->nodes[0], L->err);
        if (st != RP_OK) return st;
    }
    L->group = NULL;
    L->group_at = UINT32_MAX;
    uint32_t copies = L->out->n_launches;
    RP_TRY(place_outputs(L));
    for (; copies < L->out->n_launches; copies++) L->out->launches[copies].group = UINT32_MAX;
    return RP_OK;
}

rp_status lower_sizes_status(const lower_piece *p, rp_error *err) {
    return ir_dims_exhausted(p->dims) ? rp_fail(err, RP_NOMEM, "sizes of a piece") : RP_OK;
}

const pass_splits *lower_splits(const lower_target *t, uint32_t threads, pass_splits *out) {
    *out = t->splits;
    if (t->split_for_threads) out->most = (int64_t)threads - 1;
    return out->least && out->most > 0 ? out : NULL;
}

rp_status lower_graph(const ir_graph *g, const lower_target *t, const lower_options *opt,
                      lower_piece *out, rp_error *err) {
    rp_status st = RP_OK;
    pass_fusion fusion = {0};
    lower_piece p = {.arena = base_arena_new(), .target = t->id};
    rp_error local = {0};
    lowerer L = {.g = g,
                 .f = &fusion,
                 .opt = opt,
                 .target = t,
                 .out = &p,
                 .arena = p.arena,
                 .err = &local,
                 .col = KIR_NONE};
    pass_options passes = opt->passes ? *opt->passes : (pass_options){0};
    pass_splits own;
    if (!passes.splits) passes.splits = lower_splits(t, opt->threads, &own);
    base_buf_init(&L.source, 0);
    if (!p.arena) return rp_fail(err, RP_NOMEM, "lowering");
    RP_TRY_OUT(pass_fuse(g, &passes, &fusion, &local));
    RP_TRY_OUT(alloc_out(&L, ir_graph_count(g), &local));
    lower_find_moves(&L);
    p.n_groups = fusion.n_groups;
    place_leaves(&L);
    RP_TRY_OUT(lower_groups(&L));
    RP_TRY_OUT(finish_source(&L));
    RP_TRY_OUT(lower_sizes_status(&p, &local));
    *out = p;
    p.arena = NULL;
out:
    /* What a size that found no memory led to says nothing of the graph. */
    if (st != RP_OK &&
        (ir_dims_exhausted(ir_graph_dims(g)) || (p.dims && ir_dims_exhausted(p.dims)))) {
        local.code = RP_OK;
        st = rp_fail(&local, RP_NOMEM, "sizes of a piece");
    }
    if (st != RP_OK) st = rp_fail(err, local.code != RP_OK ? local.code : st, "%s", local.text);
    base_buf_done(&L.source);
    if (t->done) t->done(&L);
    pass_fusion_done(&fusion);
    lower_done(&p);
    return st;
}

void lower_done(lower_piece *p) {
    base_arena_free(p->arena);
    *p = (lower_piece){0};
}
