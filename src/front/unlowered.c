/* Ops that have no form on the device of a function: the graph breaks there, and the op runs by itself, by the host where it must. */
#include "front/unlowered.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/site.h"
#include "split/partition.h"
#include "split/split.h"
#include "trace/trace.h"

enum { MOST_NAME = 160 };

void front_unlowered_done(front_unlowered *u) {
    for (uint32_t i = 0; i < u->n; i++) {
        base_free(u->op[i]);
        base_free(u->why[i]);
    }
    base_free(u->op);
    base_free(u->why);
    *u = (front_unlowered){0};
}

/* As splitting_ops calls it. */
static void name_of(const ir_node *n, char out[MOST_NAME]) {
    if (n->op == IR_custom)
        (void)snprintf(out, MOST_NAME, "%s", ir_attr_get(n, IR_ATTR_NAME)->u.s);
    else
        (void)snprintf(out, MOST_NAME, "reprise::%s", ir_op_table(n->op)->name);
}

static bool is_asked(const ir_node *n) {
    return n->op != IR_input && n->op != IR_param && n->op != IR_state && n->op != IR_empty &&
           n->op != IR_written && n->op != IR_result && !split_repeats(n);
}

/* --- who takes what ------------------------------------------------------------------------- */

/* RP_UNSUPPORTED: g has no form on the device. */
static rp_status try(const rp_jit *f, const rp_graph *g, rp_error *why) {
    char *text = NULL;
    rp_status st = rp_graph_lower_text(g, f->stream ? "cuda" : "c", NULL, &text, why);
    rp_free(text);
    return st;
}

static rp_status keep(front_unlowered *u, const char *op, const char *why, rp_error *err) {
    char **ops = base_realloc_array(u->op, u->n + 1u, sizeof(char *));
    if (ops) u->op = ops;
    char **texts = ops ? base_realloc_array(u->why, u->n + 1u, sizeof(char *)) : NULL;
    if (!texts) return rp_fail(err, RP_NOMEM, "ops without a form");
    u->why = texts;
    u->op[u->n] = base_strdup(op);
    u->why[u->n] = base_strdup(why);
    u->n++;
    return u->op[u->n - 1] && u->why[u->n - 1] ? RP_OK
                                               : rp_fail(err, RP_NOMEM, "ops without a form");
}

/* Asks for each different piece of this op alone. */
static rp_status ask(const rp_jit *f, const rp_graph *g, const char *op, front_unlowered *u,
                     rp_error *err) {
    split_result r = {0};
    rp_status st = split_graph(g->ir, &op, 1, &r, err);
    bool refused = false;
    for (uint32_t i = 0; i < r.n_pieces && st == RP_OK && !refused; i++) {
        rp_graph *piece = NULL;
        rp_error why = {0};
        if (!r.pieces[i].splitting || r.pieces[i].distinct != i) continue;
        st = trace_graph_wrap(r.pieces[i].graph, &piece, err);
        if (st != RP_OK) break;
        r.pieces[i].graph = NULL;
        piece->numerics = g->numerics;
        refused = try(f, piece, &why) == RP_UNSUPPORTED;
        rp_graph_free(piece);
        if (refused) st = keep(u, op, why.text, err);
    }
    split_done(&r);
    return st;
}

rp_status front_unlowered_find(const rp_jit *f, const rp_graph *g, front_unlowered *out,
                               rp_error *err) {
    rp_status st = RP_OK;
    front_unlowered u = {0};
    uint32_t count = ir_graph_count(g->ir);
    for (ir_ref r = 0; r < count && st == RP_OK; r++) {
        char name[MOST_NAME], other[MOST_NAME];
        bool seen = !is_asked(ir_node_at(g->ir, r));
        name_of(ir_node_at(g->ir, r), name);
        for (ir_ref k = 0; k < r && !seen; k++) {
            name_of(ir_node_at(g->ir, k), other);
            seen = is_asked(ir_node_at(g->ir, k)) && strcmp(name, other) == 0;
        }
        if (!seen) st = ask(f, g, name, &u, err);
    }
    if (st == RP_OK)
        *out = u;
    else
        front_unlowered_done(&u);
    return st;
}

/* --- telling ------------------------------------------------------------------------------------ */

/* The text behind the line, where it begins with that. */
static const char *without_line(const char *text, const ir_site *s) {
    char line[MOST_NAME];
    int n = s && s->file ? snprintf(line, sizeof line, "%s:%u: ", s->file, s->line) : 0;
    bool has = n > 0 && n < MOST_NAME && strncmp(text, line, (size_t)n) == 0;
    return has ? text + n : text;
}

/* The line that asked for node r, if it is known. */
static front_break break_of(const front_unlowered *u, const ir_graph *g, ir_ref r) {
    const ir_site *s = ir_site_at(g, r, 0);
    char name[MOST_NAME];
    front_break why = {.file = s ? s->file : NULL, .line = s ? (int)s->line : 0};
    name_of(ir_node_at(g, r), name);
    for (uint32_t i = 0; i < u->n; i++)
        if (is_asked(ir_node_at(g, r)) && strcmp(u->op[i], name) == 0)
            why.reason = without_line(u->why[i], s);
    return why;
}

rp_status front_unlowered_tell(rp_jit *f, const front_unlowered *u, const rp_graph *g,
                               rp_error *err) {
    for (ir_ref r = 0; r < ir_graph_count(g->ir); r++) {
        front_break why = break_of(u, g->ir, r);
        if (!why.reason) continue;
        if (f->fullgraph)
            return rp_fail(err, RP_UNSUPPORTED, "%s:%d: graph break with fullgraph: %s",
                           why.file ? why.file : f->file, why.line, why.reason);
        front_break_tell(f, &why);
    }
    return RP_OK;
}
