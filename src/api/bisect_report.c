/* What the search for a wrong kernel has found, in words. */
#include <math.h>
#include <string.h>

#include "api/bisect.h"
#include "base/alloc.h"
#include "base/status.h"
#include "compile/skips.h"
#include "hal/hal.h"
#include "ir/site.h"
#include "pass/pipeline.h"
#include "target/target.h"

typedef struct reporter {
    const api_search *s;
    const api_wrong *w;
    rp_bisection *b;
    ir_ref bad; /* of the reduced graph */
    rp_error *err;
} reporter;

static rp_status no_memory(const reporter *r) {
    return rp_fail(r->err, RP_NOMEM, "bisect");
}

/* What b holds, in the arena. */
static rp_status keep(const reporter *r, base_buf *b, const char **out) {
    rp_status st = base_buf_status(b, r->err);
    if (st == RP_OK && !(*out = base_arena_strn(r->b->arena, b->data ? b->data : "", b->len)))
        st = no_memory(r);
    base_buf_done(b);
    return st;
}

ir_ref api_wrong_node(const api_wrong *w) {
    uint32_t n_out = ir_output_count(w->graph);
    if (w->worst.value < n_out) return ir_output_at(w->graph, w->worst.value);
    for (ir_ref r = ir_graph_count(w->graph); r-- > 0;)
        if (ir_node_is_effect(ir_node_at(w->graph, r))) return r;
    return ir_graph_count(w->graph) - 1;
}

static rp_status node_line(const reporter *r, const ir_graph *g, ir_ref node, const char **out) {
    base_buf line;
    base_buf_init(&line, 0);
    ir_print_line(g, node, &line);
    return keep(r, &line, out);
}

/* --- operands ----------------------------------------------------------------------------- */

typedef struct ranges {
    ir_ref bad;
    const ir_graph *g;
    rp_bisect_operand *of;
} ranges;

static double number_at(rp_dtype t, const ir_value *v, int64_t i) {
    return t == RP_DTYPE_I64 ? (double)ir_value_int(v, i) : v->data[i];
}

static void look(void *user, const ir_graph *g, ir_ref r, ir_value *const *value) {
    const ranges *w = user;
    const ir_node *n = ir_node_at(g, r);
    if (g != w->g || r != w->bad) return;
    for (uint32_t k = 0; k < n->n_in; k++) {
        rp_dtype t = ir_node_at(g, n->in[k])->dtype;
        const ir_value *v = value[n->in[k]];
        rp_bisect_operand *o = &w->of[k];
        o->min = INFINITY;
        o->max = -(double)INFINITY;
        for (int64_t i = 0; v && v->data && i < v->n; i++) {
            o->min = fmin(o->min, number_at(t, v, i));
            o->max = fmax(o->max, number_at(t, v, i));
        }
    }
}

static rp_status put_operands(const reporter *r) {
    const ir_graph *g = r->w->graph;
    const ir_node *n = ir_node_at(g, r->bad);
    api_trial t = {0};
    api_values v = {0};
    rp_status st = RP_OK;
    rp_bisect_operand *o = base_arena_array(r->b->arena, n->n_in + 1u, sizeof *o);
    ranges w = {r->bad, g, o};
    const ir_eval_watch watch = {&w, look};
    if (!o) return no_memory(r);
    for (uint32_t k = 0; k < n->n_in; k++) {
        o[k].name = base_arena_str(r->b->arena, ir_name_of(g, n->in[k]).s);
        o[k].type = base_arena_str(r->b->arena, ir_type_of(g, n->in[k]).s);
        if (!o[k].name || !o[k].type) return no_memory(r);
    }
    r->b->info.operands = o;
    r->b->info.n_operands = n->n_in;
    RP_TRY_OUT(api_trial_init(&t, g, r->w->sizes, r->s->o.seed, r->err));
    RP_TRY_OUT(api_trial_interpret(&t, &watch, &v, r->err));
out:
    api_values_done(&v);
    api_trial_done(&t);
    return st;
}

/* --- the worst element ------------------------------------------------------------------------ */

static rp_status put_element(const reporter *r) {
    const api_difference *d = &r->w->worst;
    const ir_graph *g = r->w->graph;
    uint32_t n_out = ir_output_count(g), states = ir_leaf_count(g, IR_LEAF_STATE);
    rp_bisect_info *i = &r->b->info;
    api_trial t = {0};
    base_buf b;
    ir_ref node;
    base_buf_init(&b, 0);
    if (d->value < n_out) {
        node = ir_output_at(g, d->value);
        base_buf_printf(&b, "out%u", d->value);
    } else {
        uint32_t k = d->value - n_out;
        bool state = k < states;
        node = ir_leaf_at(g, state ? IR_LEAF_STATE : IR_LEAF_INPUT, state ? k : k - states);
        base_buf_printf(&b, "%s:%s", state ? "state" : "input", ir_node_at(g, node)->name);
    }
    rp_status st = api_trial_init(&t, g, r->w->sizes, r->s->o.seed, r->err);
    if (st == RP_OK) {
        const ir_shape *s = &ir_node_at(g, node)->shape;
        int64_t idx[IR_MAX_RANK], rest = d->at;
        for (uint32_t k = s->rank; k-- > 0;) {
            int64_t size = ir_dim_eval(ir_graph_dims(g), s->dim[k], t.symbols);
            idx[k] = size > 0 ? rest % size : 0;
            rest = size > 0 ? rest / size : 0;
        }
        for (uint32_t k = 0; k < s->rank; k++)
            base_buf_printf(&b, "%s%lld%s", k ? "," : "[", (long long)idx[k],
                            k + 1 == s->rank ? "]" : "");
    }
    api_trial_done(&t);
    i->want = d->want;
    i->got = d->got;
    i->ulps = d->ulps;
    i->bound = d->bound;
    if (st == RP_OK) return keep(r, &b, &i->element);
    base_buf_done(&b);
    return st;
}

/* --- kernels and passes ------------------------------------------------------------------------ */

/* What decides which kernels there are. */
typedef struct naming {
    compile_skips skips;
    uint32_t threads;
} naming;

static rp_status put_names(const ir_graph *g, const naming *how, base_buf *out, rp_error *err);

/* With the kernels of the graphs that it runs. */
static rp_status put_name(const lower_launch *l, const naming *how, base_buf *out, rp_error *err) {
    const lower_control *c = l->control;
    base_buf_puts(out, l->name);
    for (uint32_t i = 0; c && i < 2 && c->graph[i]; i++) {
        base_buf_printf(out, "%s%s @%s: ", i ? "; " : " (", ir_graph_role(c->op, i),
                        ir_graph_name(c->graph[i]));
        RP_TRY(put_names(c->graph[i], how, out, err));
    }
    if (c) base_buf_putc(out, ')');
    return RP_OK;
}

static rp_status put_names(const ir_graph *g, const naming *how, base_buf *out, rp_error *err) {
    const pass_options o = {.skip = how->skips.name, .n_skip = how->skips.n, .quiet = true};
    const lower_options lo = {.isa = GEN_ISA_PORTABLE, .threads = how->threads, .passes = &o};
    ir_graph *after = NULL;
    lower_piece p = {0};
    rp_status st = RP_OK;
    RP_TRY_OUT(pass_run_all(g, &o, &after, err));
    RP_TRY_OUT(target_lower(after, &lo, &p, err));
    for (uint32_t i = 0; i < p.n_launches; i++) {
        if (i) base_buf_puts(out, ", ");
        RP_TRY_OUT(put_name(&p.launches[i], how, out, err));
    }
out:
    lower_done(&p);
    ir_graph_free(after);
    return st;
}

/* As lowered for this host; op by op there are none. */
static rp_status put_kernels(const reporter *r) {
    const rp_compilation_config *cfg = r->s->config;
    naming how = {.threads = hal_cpu_threads((uint32_t)cfg->threads)};
    rp_error why = {0};
    base_buf b;
    base_buf_init(&b, 0);
    bool fused = cfg->level >= RP_LEVEL_DYNAMO_ONCE && strcmp(cfg->backend, "inductor") == 0;
    if (fused && compile_skips_of(cfg, &how.skips, &why) == RP_OK &&
        put_names(r->w->graph, &how, &b, &why) != RP_OK)
        base_buf_clear(&b);
    return keep(r, &b, &r->b->info.kernels);
}

/* Whether the interpreter gives something else for g than for the reduced graph, whose leaves it has. */
static rp_status pass_differs(const reporter *r, const ir_graph *g, bool *out) {
    api_trial a = {0}, b = {0};
    api_values want = {0}, got = {0};
    api_difference d = {0};
    rp_status st = RP_OK;
    RP_TRY_OUT(api_trial_init(&a, r->w->graph, r->w->sizes, r->s->o.seed, r->err));
    RP_TRY_OUT(api_trial_init(&b, g, r->w->sizes, r->s->o.seed, r->err));
    RP_TRY_OUT(api_trial_interpret(&a, NULL, &want, r->err));
    RP_TRY_OUT(api_trial_interpret(&b, NULL, &got, r->err));
    RP_TRY_OUT(api_difference_find(&a, &want, &got, &d, r->err));
    *out = d.found;
out:
    api_values_done(&want);
    api_values_done(&got);
    api_trial_done(&a);
    api_trial_done(&b);
    return st;
}

static rp_status put_pass(const reporter *r) {
    uint32_t n;
    const pass_info *table = pass_table(&n);
    ir_graph *g = ir_graph_share(r->w->graph), *next = NULL;
    rp_status st = RP_OK;
    r->b->info.pass = "";
    for (uint32_t i = 0; i < n && table[i].run; i++) {
        bool differs = false;
        RP_TRY_OUT(pass_run(table[i].name, g, &next, r->err));
        ir_graph_free(g);
        g = next;
        next = NULL;
        RP_TRY_OUT(pass_differs(r, g, &differs));
        if (!differs) continue;
        r->b->info.pass = table[i].name;
        break;
    }
out:
    ir_graph_free(g);
    return st;
}

/* --- the whole ----------------------------------------------------------------------------------- */

static void count_nodes(const api_wrong *w, rp_bisect_info *i) {
    const ir_graph *g = w->graph;
    i->nodes = i->inputs = 0;
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        bool given = n->op == IR_input || n->op == IR_param || n->op == IR_state;
        i->inputs += given;
        i->nodes += !given;
    }
}

rp_status api_bisect_report(const api_search *s, const api_wrong *w, rp_bisection *b,
                            rp_error *err) {
    reporter r = {s, w, b, api_wrong_node(w), err};
    rp_bisect_info *i = &b->info;
    base_buf sites, text;
    base_buf_init(&sites, 0);
    base_buf_init(&text, 0);
    ir_sites_print(s->g, &w->origin, 1, &sites);
    RP_TRY(keep(&r, &sites, &i->sites));
    ir_print(w->graph, &text);
    RP_TRY(keep(&r, &text, &i->reduced));
    i->op = ir_op_table(ir_node_at(w->graph, r.bad)->op)->name;
    i->sizes = base_arena_str(b->arena, w->sizes);
    if (!i->sizes) return no_memory(&r);
    count_nodes(w, i);
    RP_TRY(node_line(&r, s->g, w->origin, &i->node));
    RP_TRY(put_operands(&r));
    RP_TRY(put_element(&r));
    RP_TRY(put_kernels(&r));
    RP_TRY(put_pass(&r));
    i->body = "";
    i->differs = true;
    return RP_OK;
}
