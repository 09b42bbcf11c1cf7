/* Matching is in two steps. The expression of a form is laid over that of the graph, by ops and operands alone, which says
 * what value each input has. Then the pattern is traced on those values, into the graph: as equal nodes are one node there, it is a match
 * where that gives the very node (or one whose operands commute), and sizes, attributes and constants are what they must be. */
#include "rewrite/pattern.h"

#include <string.h>

#include "base/alloc.h"
#include "ir/node.h"
#include "rewrite/rewrite.h"
#include "rewrite/type.h"

/* Trials of one form at one node: operands of commutative ops are tried in both orders. */
enum { MOST_TRIALS = 4096, MOST_PATTERN = 512 };

/* --- forms ------------------------------------------------------------------------ */

static bool writes(const ir_graph *g) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++)
        if (ir_node_is_effect(ir_node_at(g, r)) || ir_node_at(g, r)->op == IR_empty) return true;
    return false;
}

static rp_status check_form(const rp_pass_desc *d, const ir_graph *g, rp_error *err) {
    bool read[RP_MAX_PATTERN_INPUTS] = {false};
    if (writes(g)) return rp_fail(err, RP_UNSUPPORTED, "the pattern writes memory");
    if (ir_graph_count(g) > MOST_PATTERN)
        return rp_fail(err, RP_UNSUPPORTED, "a pattern of %u nodes; at most %d", ir_graph_count(g),
                       MOST_PATTERN);
    const ir_node *root = ir_node_at(g, ir_output_at(g, 0));
    if (ir_op_table(root->op)->kind == IR_KIND_LEAF)
        return rp_fail(err, RP_INVALID, "the pattern computes nothing: it is %s",
                       ir_op_table(root->op)->name);
    if (ir_leaf_count(g, IR_LEAF_INPUT) != d->n_types || ir_leaf_count(g, IR_LEAF_PARAM) ||
        ir_leaf_count(g, IR_LEAF_STATE))
        return rp_fail(err, RP_INVALID, "a pattern adds no inputs, params or states");
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        for (uint32_t i = 0; i < n->n_in; i++)
            if (n->in[i] < d->n_types) read[n->in[i]] = true; /* inputs come first */
    }
    for (uint32_t i = 0; i < d->n_types; i++)
        if (!read[i]) return rp_fail(err, RP_INVALID, "the pattern does not read input %u", i);
    return RP_OK;
}

typedef rp_tensor (*traced_fn)(void *user, rp_graph *g, const rp_tensor *in);

static rp_status trace_form(const rp_pass_desc *d, traced_fn fn, rewrite_sizes sizes,
                            rp_numerics numerics, ir_graph **out, rp_error *err) {
    rp_tensor in[RP_MAX_PATTERN_INPUTS] = {{0}};
    rp_status st = RP_OK;
    rp_tensor root = {0};
    ir_graph *ir = ir_graph_new("pattern");
    rp_graph *g = ir ? trace_graph_open(ir, numerics) : NULL;
    if (g && rewrite_type_inputs(d, sizes, g, in)) root = fn(d->user, g, in);
    if (!g)
        st = rp_fail(err, RP_NOMEM, "a pattern");
    else if (g->err.code != RP_OK)
        st = rp_fail(err, g->err.code, "%s", g->err.text);
    else if (root.graph != g || root.id != g->id || root.ref == IR_NONE)
        st = rp_fail(err, RP_INVALID, "it gives no tensor of its graph");
    else
        st = ir_graph_finish(ir, &root.ref, 1, err);
    trace_graph_close(g);
    if (st == RP_OK)
        *out = ir;
    else
        ir_graph_free(ir);
    return st;
}

static rp_status add_form(const rp_pass_desc *d, rewrite_sizes sizes, rp_numerics numerics,
                          rewrite_forms *out, base_buf *text, rp_error *err) {
    ir_graph *g = NULL, *with = NULL;
    rp_error no_form = {0};
    RP_TRY(trace_form(d, d->pattern, sizes, numerics, &g, err));
    rp_status st = check_form(d, g, err);
    if (st == RP_OK && text) {
        ir_print(g, text);
        if (trace_form(d, d->replacement, sizes, numerics, &with, &no_form) == RP_OK)
            ir_print(with, text);
        ir_graph_free(with);
    }
    if (st != RP_OK) {
        ir_graph_free(g);
        return st;
    }
    out->form[out->n].g = g;
    out->form[out->n++].numerics = numerics;
    return RP_OK;
}

rp_status rewrite_forms_make(const rp_pass_desc *d, rewrite_forms *out, base_buf *text,
                             rp_error *err) {
    static const rp_numerics numerics[] = {RP_NUMERICS_EXACT, RP_NUMERICS_DEFAULT};
    rp_error first = {0};
    *out = (rewrite_forms){.n = 0};
    for (int sizes = 0; sizes < REWRITE_SIZES; sizes++)
        for (size_t i = 0; i < sizeof numerics / sizeof *numerics; i++) {
            rp_error why = {0};
            rp_status st = add_form(d, (rewrite_sizes)sizes, numerics[i], out, text, &why);
            if (st != RP_OK && first.code == RP_OK) first = why;
            if (st == RP_NOMEM) return rp_fail(err, st, "%s", why.text);
        }
    return out->n ? RP_OK : rp_fail(err, first.code, "%s", first.text);
}

void rewrite_forms_done(rewrite_forms *f) {
    for (uint32_t i = 0; i < f->n; i++) ir_graph_free(f->form[i].g);
    f->n = 0;
}

/* --- laying a form over the graph ------------------------------------------------------ */

typedef struct overlay {
    const ir_graph *form, *g;
    ir_ref bound[MOST_PATTERN]; /* by node of the form */
    uint32_t trials;
} overlay;

static bool lay(overlay *o, ir_ref f, ir_ref r);

static bool lay_operands(overlay *o, const ir_node *f, const ir_node *n, bool swap) {
    for (uint32_t i = 0; i < f->n_in; i++)
        if (!lay(o, f->in[i], n->in[swap ? 1 - i : i])) return false;
    return true;
}

static bool lay(overlay *o, ir_ref f, ir_ref r) {
    const ir_node *a = ir_node_at(o->form, f), *b = ir_node_at(o->g, r);
    ir_ref saved[MOST_PATTERN];
    if (o->bound[f] != IR_NONE) return o->bound[f] == r;
    if (++o->trials > MOST_TRIALS || a->dtype != b->dtype) return false;
    if (a->op != IR_input && (a->op != b->op || a->n_in != b->n_in)) return false;
    if (a->op == IR_input && a->shape.rank != b->shape.rank) return false;
    size_t bytes = ir_graph_count(o->form) * sizeof *saved;
    memcpy(saved, o->bound, bytes);
    o->bound[f] = r;
    if (a->op == IR_input || lay_operands(o, a, b, false)) return true;
    memcpy(o->bound, saved, bytes);
    o->bound[f] = r;
    if (a->n_in == 2 && ir_op_commutes(a->op) && lay_operands(o, a, b, true)) return true;
    memcpy(o->bound, saved, bytes);
    return false;
}

/* --- a match ------------------------------------------------------------------------------ */

typedef struct matcher {
    const rp_pass_desc *d;
    const rewrite_forms *forms;
    pass_rebuild *b;
    rp_graph *to;
    uint32_t *n;
} matcher;

/* A failure that is no reason to fail: the values do not fit the pattern. */
static void forget_failure(rp_graph *g) {
    g->err = (rp_error){0};
    g->blamed = false;
}

/* One node, or equal but for the order of operands that commute. */
static bool same_value(const ir_graph *g, ir_ref a, ir_ref b, uint32_t *trials) {
    const ir_node *x = ir_node_at(g, a), *y = ir_node_at(g, b);
    if (a == b) return true;
    if (++*trials > MOST_TRIALS || x->op != y->op || x->n_in != y->n_in || x->n_in == 0 ||
        x->n_more || y->n_more || x->n_attrs != y->n_attrs || ir_node_is_effect(x) ||
        !ir_attrs_equal(x->attrs, y->attrs, x->n_attrs))
        return false;
    bool same = true;
    for (uint32_t i = 0; i < x->n_in && same; i++) same = same_value(g, x->in[i], y->in[i], trials);
    if (same || x->n_in != 2 || !ir_op_commutes(x->op)) return same;
    return same_value(g, x->in[0], y->in[1], trials) && same_value(g, x->in[1], y->in[0], trials);
}

static bool confirm(const matcher *m, uint32_t form, ir_ref r, const rp_tensor *in) {
    uint32_t trials = 0;
    m->to->numerics = m->forms->form[form].numerics;
    rp_tensor made = m->d->pattern(m->d->user, m->to, in);
    bool same = m->to->err.code == RP_OK && made.graph == m->to && made.id == m->to->id &&
                made.ref != IR_NONE && same_value(m->b->out, made.ref, r, &trials);
    forget_failure(m->to);
    return same;
}

static bool find(const matcher *m, ir_ref r, rp_tensor *in) {
    overlay o = {.g = m->b->out};
    ir_ref value[RP_MAX_PATTERN_INPUTS];
    for (uint32_t i = 0; i < m->forms->n; i++) {
        o.form = m->forms->form[i].g;
        o.trials = 0;
        memset(o.bound, 0xff, sizeof o.bound);
        if (!lay(&o, ir_output_at(o.form, 0), r)) continue;
        for (uint32_t k = 0; k < m->d->n_types; k++) {
            value[k] = o.bound[ir_leaf_at(o.form, IR_LEAF_INPUT, k)];
            in[k] = (rp_tensor){m->to, value[k], m->to->id};
        }
        if (rewrite_type_fits(m->d, m->b->out, value) && confirm(m, i, r, in)) return true;
    }
    return false;
}

static rp_status replace(const matcher *m, const rp_tensor *in, ir_ref *r, rp_error *err) {
    const rp_tensor with = m->d->replacement(m->d->user, m->to, in);
    if (m->to->err.code != RP_OK)
        return rp_fail(err, m->to->err.code, "the replacement: %s", m->to->err.text);
    if (with.graph != m->to || with.id != m->to->id || with.ref == IR_NONE)
        return rp_fail(err, RP_INVALID, "the replacement gives no tensor of its graph");
    if (!rewrite_same_type(m->b->out, with.ref, *r))
        return rp_fail(err, RP_INVALID, "the replacement gives %s for a pattern of %s",
                       ir_type_of(m->b->out, with.ref).s, ir_type_of(m->b->out, *r).s);
    *m->n += with.ref != *r;
    *r = with.ref;
    return RP_OK;
}

static rp_status rewrite_node(pass_rebuild *b, ir_ref r, ir_ref *out) {
    const matcher *m = b->user;
    rp_tensor in[RP_MAX_PATTERN_INPUTS];
    const ir_node *n = ir_node_at(b->in, r);
    RP_TRY(ir_copy_node(b->out, b->in, r, b->map, out, b->err));
    if (ir_node_is_effect(n) || n->n_more || !find(m, *out, in)) return RP_OK;
    if (m->d->check && !m->d->check(m->d->user, in)) return RP_OK;
    return replace(m, in, out, b->err);
}

rp_status rewrite_match_all(const rp_pass_desc *d, const rewrite_forms *f, pass_rebuild *b,
                            rp_graph *to, uint32_t *n, rp_error *err) {
    matcher m = {d, f, b, to, n};
    (void)err; /* b's */
    b->user = &m;
    return pass_rebuild_until(b, ir_graph_count(b->in), rewrite_node);
}
