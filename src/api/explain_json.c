/* What compiling made of a graph, as JSON (docs/explain.md). */
#include <string.h>

#include "api/explain.h"
#include "api/seen.h"
#include "base/alloc.h"
#include "base/str.h"
#include "config/config.h"
#include "ir/site.h"
#include "pass/rebuild.h"

static json_t *text_of(base_buf *b) {
    json_t *o = b->failed ? NULL : json_stringn(b->data ? b->data : "", b->len);
    base_buf_done(b);
    return o;
}

static const char *symbol_name(const void *user, uint32_t i) {
    const plan *p = user;
    return i < p->n_symbols ? p->symbols[i].name : "?";
}

static json_t *size_of(const plan *p, const plan_size *s) {
    base_buf b;
    base_buf_init(&b, 0);
    ir_dim_code_print(s, symbol_name, p, &b);
    return text_of(&b);
}

static json_t *sites_of(const ir_graph *g, const ir_ref *r, uint32_t n) {
    base_buf b;
    base_buf_init(&b, 0);
    ir_sites_print(g, r, n, &b);
    return text_of(&b);
}

/* --- guards ----------------------------------------------------------------------------- */

static void put_guard(json_t *list, base_buf *text, json_t *by) {
    (void)json_array_append_new(list, json_pack("{s:o,s:o}", "text", text_of(text), "by", by));
}

/* Who uses a symbol first. */
static json_t *symbol_site(const ir_graph *g, uint32_t symbol) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        for (uint32_t d = 0; d < n->shape.rank; d++)
            if (ir_dim_uses(ir_graph_dims(g), n->shape.dim[d], symbol)) return sites_of(g, &r, 1);
    }
    return json_string("");
}

static json_t *guards(const ir_graph *g) {
    const ir_dims *t = ir_graph_dims(g);
    json_t *list = json_array();
    base_buf b;
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        const ir_symbol *s = ir_dims_symbol(t, i);
        base_buf_init(&b, 0);
        base_buf_printf(&b, "%lld <= %s", (long long)s->min, s->name);
        if (s->max != INT64_MAX) base_buf_printf(&b, " <= %lld", (long long)s->max);
        if (s->divisor > 1) base_buf_printf(&b, ", a multiple of %lld", (long long)s->divisor);
        put_guard(list, &b, symbol_site(g, i));
    }
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        if (n->op != IR_input && n->op != IR_param && n->op != IR_state) continue;
        base_buf_init(&b, 0);
        base_buf_printf(&b, "%s '%s' is %s", ir_op_table(n->op)->name, n->name, ir_type_of(g, r).s);
        put_guard(list, &b, sites_of(g, &r, 1));
    }
    return list;
}

/* --- kernels ------------------------------------------------------------------------------- */

static const plan_leaf *leaf_of(const plan *p, const plan_arg *a) {
    switch (a->seg) {
    case PLAN_INPUT: return &p->inputs[a->idx];
    case PLAN_OUTPUT: return &p->outputs[a->idx];
    case PLAN_PARAM: return &p->params[a->idx];
    case PLAN_STATE: return &p->states[a->idx];
    default: return NULL;
    }
}

/* At the sizes of the call. */
static int64_t arg_bytes(const api_explained_graph *x, const plan_arg *a) {
    const plan *p = x->plan;
    const plan_leaf *l = leaf_of(p, a);
    if (l) return plan_size_eval(&l->bytes, x->symbols);
    if (a->seg == PLAN_PACK) return p->packs[a->idx].size;
    return a->seg == PLAN_ARENA ? plan_size_eval(&p->values[a->idx].bytes, x->symbols) : 0;
}

static json_t *arg_json(const api_explained_graph *x, const plan_arg *a) {
    static const char *const where[PLAN_SEG_COUNT_] = {
        [PLAN_INPUT] = "input", [PLAN_OUTPUT] = "output", [PLAN_PARAM] = "param",
        [PLAN_STATE] = "state", [PLAN_PACK] = "pack",     [PLAN_CONST] = "record",
        [PLAN_ARENA] = "arena"};
    const plan_leaf *l = leaf_of(x->plan, a);
    base_buf b;
    base_buf_init(&b, 0);
    if (l)
        base_buf_puts(&b, l->name);
    else
        base_buf_printf(&b, a->seg == PLAN_ARENA ? "%%%u" : "%u", a->idx);
    return json_pack("{s:s,s:o,s:b,s:b,s:I}", "in", where[a->seg], "name", text_of(&b), "read",
                     (a->access & BASE_READS) != 0, "written", (a->access & BASE_WRITES) != 0,
                     "bytes", (json_int_t)arg_bytes(x, a));
}

/* Each once: what a kernel reads and writes of memory, at least. */
static json_t *args_json(const api_explained_graph *x, const plan_launch *l, int64_t *bytes) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < l->n_args; i++) {
        bool again = false;
        for (uint32_t k = 0; k < i; k++)
            again = again || (l->args[k].seg == l->args[i].seg && l->args[k].idx == l->args[i].idx);
        if (again) continue;
        *bytes += arg_bytes(x, &l->args[i]);
        (void)json_array_append_new(list, arg_json(x, &l->args[i]));
    }
    return list;
}

static json_t *node_of(const ir_graph *g, ir_ref r) {
    base_buf b;
    base_buf_init(&b, 0);
    ir_print_line(g, r, &b);
    return json_pack("{s:s,s:o,s:o}", "op", ir_op_table(ir_node_at(g, r)->op)->name, "text",
                     text_of(&b), "sites", sites_of(g, &r, 1));
}

json_t *api_explain_attention(const ir_graph *g, const pass_attention_found *f) {
    json_t *o = node_of(g, f->product);
    if (o) (void)json_object_set_new(o, "blocks", json_integer(f->blocks));
    if (o) (void)json_object_set_new(o, "reason", json_string(f->blocks ? "" : f->why));
    return o;
}

/* The nodes that a launch computes. */
static json_t *origins(const api_explained *e, uint32_t group) {
    json_t *list = json_array();
    if (group >= e->fusion.n_groups) return list;
    const pass_group *gr = &e->fusion.groups[group];
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        (void)json_array_append_new(list, node_of(e->after, gr->nodes[i]));
    return list;
}

/* Text of the functions of a launch, with their helpers. */
static json_t *source_of(const lower_piece *p, const lower_launch *l) {
    base_buf b;
    base_buf_init(&b, 0);
    for (uint32_t k = 0; k < l->n_alts; k++)
        for (uint32_t i = 0; l->alts[k].symbol && i < p->n_kernels; i++) {
            const lower_kernel *f = &p->kernels[i];
            if (strcmp(f->name, l->alts[k].symbol) == 0)
                base_buf_add(&b, p->source + f->begin, f->end - f->begin);
        }
    return text_of(&b);
}

static json_t *graph_json(const api_explained_graph *x);

/* Those that l runs; x: the graph that it is of. */
static json_t *bodies_json(const api_explained_graph *x, const plan_launch *l,
                           const api_explained_graph *body) {
    static const ir_op op[] = {[PLAN_CALL] = IR_call,
                               [PLAN_COND] = IR_cond,
                               [PLAN_WHILE] = IR_while,
                               [PLAN_SCAN] = IR_scan};
    json_t *list = json_array();
    for (uint32_t k = 0; k < plan_control_count(l->control); k++) {
        json_t *o = graph_json(&body[k]);
        if (o)
            (void)json_object_set_new(o, "as", json_string(ir_graph_role(op[l->control->kind], k)));
        if (o && l->control->kind == PLAN_SCAN)
            (void)json_object_set_new(o, "times", size_of(x->plan, &l->control->length));
        (void)json_array_append_new(list, o);
    }
    return list;
}

static json_t *launch_json(const api_explained_graph *x, const api_explained *e,
                           const lower_piece *low, const plan_piece *q, uint32_t i) {
    const plan_launch *l = &x->plan->launches[q->first + i];
    const lower_launch *m = i < low->n_launches ? &low->launches[i] : NULL;
    int64_t bytes = 0;
    json_t *args = args_json(x, l, &bytes);
    const char *symbol = m ? m->alts[0].symbol : NULL;
    json_t *o = json_pack("{s:s,s:I,s:o,s:I,s:o,s:o,s:o,s:b,s:b}", "name", l->name, "launch",
                          (json_int_t)q->first + i, "args", args, "bytes", (json_int_t)bytes,
                          "items", size_of(x->plan, &l->items), "nodes",
                          m ? origins(e, m->group) : json_array(), "source",
                          m ? source_of(low, m) : json_string(""), "custom", l->custom != NULL,
                          "built_in", symbol && *symbol == '@');
    if (o && l->control)
        (void)json_object_set_new(o, "bodies", bodies_json(x, l, &e->bodies[2 * i]));
    return o;
}

static json_t *refusals(const api_explained *e) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < e->fusion.n_refusals; i++) {
        const pass_refusal *r = &e->fusion.refusals[i];
        json_t *o = node_of(e->after, r->node);
        if (o) (void)json_object_set_new(o, "group", json_integer(r->group));
        if (o) (void)json_object_set_new(o, "reason", json_string(r->reason));
        (void)json_array_append_new(list, o);
    }
    for (uint32_t i = 0; i < e->fusion.n_far; i++) {
        const pass_far *far = &e->fusion.far[i];
        json_t *o = node_of(e->after, far->node);
        if (o) (void)json_object_set_new(o, "groups", json_integer(far->n_groups));
        if (o)
            (void)json_object_set_new(o, "value", json_string(ir_name_of(e->after, far->value).s));
        if (o) (void)json_object_set_new(o, "reason", json_string("too far back to be looked at"));
        (void)json_array_append_new(list, o);
    }
    return list;
}

static json_t *piece_json(const api_explained_graph *x, uint32_t i) {
    const split_piece *sp = &x->split.pieces[i];
    const plan_piece *q = i < x->plan->n_pieces ? &x->plan->pieces[i] : NULL;
    json_t *o = json_pack("{s:I,s:b,s:I,s:I}", "submod", (json_int_t)sp->submod, "splitting",
                          sp->splitting, "same_as", (json_int_t)sp->distinct, "nodes",
                          (json_int_t)ir_graph_count(sp->graph));
    if (!o || sp->distinct != i || !q) return o;
    const api_explained *e = &x->pieces[i];
    json_t *kernels = json_array();
    for (uint32_t k = 0; k < q->n; k++)
        (void)json_array_append_new(kernels, launch_json(x, e, &x->lowered[i].piece, q, k));
    (void)json_object_set_new(o, "nodes_after", json_integer(ir_graph_count(e->after)));
    (void)json_object_set_new(o, "kernels", kernels);
    (void)json_object_set_new(o, "refused", refusals(e));
    if (e->attention) (void)json_object_set(o, "attention", e->attention);
    return o;
}

/* --- memory ------------------------------------------------------------------------------------ */

static json_t *arena_json(const api_explained_graph *x) {
    const plan *p = x->plan;
    json_t *values = json_array();
    int64_t top = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *v = &p->values[i];
        int64_t bytes = plan_size_eval(&v->bytes, x->symbols);
        if (v->offset != PLAN_GROWS && v->offset + bytes > top) top = v->offset + bytes;
        (void)json_array_append_new(
            values, json_pack("{s:I,s:I,s:I,s:I,s:I,s:o}", "value", (json_int_t)i, "offset",
                              (json_int_t)v->offset, "bytes", (json_int_t)bytes, "first",
                              (json_int_t)v->first, "last", (json_int_t)v->last, "size",
                              size_of(p, &v->bytes)));
    }
    return json_pack("{s:I,s:I,s:I,s:o}", "bytes", (json_int_t)p->arena_size, "top",
                     (json_int_t)top, "weights", (json_int_t)p->weights_size, "values", values);
}

/* --- random bits, and the host --------------------------------------------------------------------- */

static void put_told(json_t *list, const ir_graph *g, ir_ref r, const char *reason) {
    json_t *o = node_of(g, r);
    if (o) (void)json_object_set_new(o, "reason", json_string(reason));
    (void)json_array_append_new(list, o);
}

/* The nodes of g, as it was given, that give random bits, and those of which the host sees something. */
static void put_facts(json_t *random, json_t *host, const ir_graph *g, const rp_compiler *by,
                      const bool *live, const bool *given) {
    static const char same[] = "the same bits at each call, since nothing given decides them";
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        const char *sees = api_host_sees(n, by);
        if (live[r] && ir_op_is_random(n->op)) put_told(random, g, r, given[r] ? "" : same);
        if (live[r] && sees) put_told(host, g, r, sees);
    }
}

/* False when memory is exhausted. */
static bool add_facts(json_t *o, const api_explained_graph *x) {
    const uint32_t n = ir_graph_count(x->g);
    bool *live = base_alloc_array(n + 1u, sizeof *live);
    bool *given = base_alloc_array(n + 1u, sizeof *given);
    json_t *random = json_array(), *host = json_array();
    const bool ok = live && given && random && host;
    if (ok) {
        pass_mark_live(x->g, live);
        api_mark_given(x->g, given);
        put_facts(random, host, x->g, x->by, live, given);
    }
    base_free(given);
    base_free(live);
    (void)json_object_set_new(o, "random", random);
    (void)json_object_set_new(o, "host", host);
    return ok;
}

/* --- graphs ------------------------------------------------------------------------------------ */

static json_t *graph_json(const api_explained_graph *x) {
    json_t *pieces = json_array();
    for (uint32_t i = 0; i < x->split.n_pieces; i++)
        (void)json_array_append_new(pieces, piece_json(x, i));
    json_t *o = json_pack("{s:s,s:I,s:I,s:o,s:o}", "name", ir_graph_name(x->g), "nodes",
                          (json_int_t)ir_graph_count(x->g), "launches",
                          (json_int_t)x->plan->n_launches, "pieces", pieces, "arena",
                          arena_json(x));
    if (o && !add_facts(o, x)) o = (json_decref(o), NULL);
    return o;
}

static json_t *sizes_json(const api_explained_graph *x) {
    const ir_dims *t = ir_graph_dims(x->g);
    json_t *o = json_object();
    for (uint32_t i = 0; o && i < ir_dims_symbol_count(t); i++)
        (void)json_object_set_new(o, ir_dims_symbol(t, i)->name, json_integer(x->symbols[i]));
    return o;
}

json_t *api_explain_json(const api_explainer *x) {
    json_t *o = graph_json(&x->whole);
    json_t *more = json_pack("{s:s,s:s,s:i,s:o,s:o,s:O}", "backend", x->backend->name, "isa",
                             x->target == GEN_CUDA ? "cuda" : gen_isa_name(x->isa), "level",
                             (int)x->config->level, "sizes", sizes_json(&x->whole), "guards",
                             guards(x->whole.g), "spans", x->spans);
    if (o && (!more || json_object_update(o, more) != 0)) o = (json_decref(o), NULL);
    json_decref(more);
    return o;
}
