/* A graph as a chain of pieces, cut in front of and behind some ops: each piece is compiled by itself, and may be captured by itself. What later pieces
 * read of earlier ones lies in memory of the call. */
#include "front/front.h"

#include "autograph/manager.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "pass/inplace.h"
#include "split/split.h"
#include "trace/trace.h"

typedef struct front_link {
    front_code code;
    uint32_t *in, *out; /* slots */
    uint32_t n_in, n_out;
    bool host;     /* it is computed by the host, in memory of the host */
    bool *written; /* by input; of such */
} front_link;

/* Slots hold the values that cross a border: the inputs of the graph first. */
struct front_chain {
    front_link *link; /* n */
    uint32_t n, n_slots, n_in, n_out;
    uint32_t *out;       /* the slot of each output of the graph */
    bool *copied;        /* of each: an input that was written, or an earlier output */
    bool *given;         /* by slot: it lies where an output is wanted */
    front_places *stays; /* NULL: inputs may move */
};

void front_chain_free(front_chain *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n && c->link; i++) {
        front_code_done(&c->link[i].code);
        base_free(c->link[i].in);
        base_free(c->link[i].out);
        base_free(c->link[i].written);
    }
    front_places_free(c->stays);
    base_free(c->link);
    base_free(c->out);
    base_free(c->copied);
    base_free(c->given);
    base_free(c);
}

/* --- making --------------------------------------------------------------------------------- */

typedef struct making {
    rp_jit *f;
    const ir_graph *g;
    const front_cut *cut;
    front_chain *c;
    uint32_t *slot; /* of what later pieces read, by ref; UINT32_MAX: none */
    uint32_t *made; /* of what a piece gives, likewise */
} making;

static void note_inputs(making *m) {
    m->c->n_in = ir_leaf_count(m->g, IR_LEAF_INPUT);
    for (uint32_t i = 0; i < m->c->n_in; i++) m->slot[ir_leaf_at(m->g, IR_LEAF_INPUT, i)] = i;
    m->c->n_slots = m->c->n_in;
}

static rp_status find_slots(const making *m, const uint32_t *slot, const ir_ref *refs, uint32_t n,
                            uint32_t **out, rp_error *err) {
    *out = base_alloc_array(n + 1u, sizeof **out);
    if (!*out) return rp_fail(err, RP_NOMEM, "pieces of %s", m->f->name);
    for (uint32_t i = 0; i < n; i++) (*out)[i] = slot[refs[i]];
    return RP_OK;
}

static rp_status compile_host(const making *m, const rp_graph *g, front_link *l, rp_error *err) {
    l->host = true;
    l->written = base_alloc_array(l->n_in + 1u, sizeof *l->written);
    if (!l->written) return rp_fail(err, RP_NOMEM, "pieces of %s", m->f->name);
    for (uint32_t i = 0; i < l->n_in; i++)
        l->written[i] = ir_node_at(g->ir, ir_leaf_at(g->ir, IR_LEAF_INPUT, i))->mutates;
    return front_compile_host(m->f, g, &l->code.compiled, err);
}

/* Takes the graph of the piece over. */
static rp_status compile_link(making *m, split_piece *p, front_link *l, rp_error *err) {
    rp_graph *g = NULL;
    rp_error why = {0};
    RP_TRY(trace_graph_wrap(p->graph, &g, err));
    p->graph = NULL;
    g->numerics = m->cut->numerics;
    front_made_of of = m->cut->of;
    of.link = p->submod + 1;
    of.uncaptured = of.uncaptured || p->splitting;
    const rp_compilation_config *config = p->splitting ? m->cut->splitting : m->cut->config;
    rp_status st = front_code_link(m->f, g, config, &of, &l->code, &why);
    if (st == RP_UNSUPPORTED && p->splitting && m->cut->elsewhere) {
        front_code_done(&l->code);
        why = (rp_error){0};
        st = compile_host(m, g, l, &why);
    }
    rp_graph_free(g);
    return st == RP_OK ? RP_OK : rp_fail(err, st, "%s", why.text);
}

static rp_status make_link(making *m, split_piece *p, front_link *l, rp_error *err) {
    l->n_in = ir_leaf_count(p->graph, IR_LEAF_INPUT);
    l->n_out = ir_output_count(p->graph);
    for (uint32_t i = 0; i < l->n_out; i++) {
        ir_ref r = p->outputs[i];
        m->made[r] = m->c->n_slots++;
        if (m->slot[r] == UINT32_MAX) m->slot[r] = m->made[r]; /* an argument is read where it is */
    }
    RP_TRY(find_slots(m, m->slot, p->inputs, l->n_in, &l->in, err));
    RP_TRY(find_slots(m, m->made, p->outputs, l->n_out, &l->out, err));
    return compile_link(m, p, l, err);
}

/* An argument that was written and is returned, too. */
static bool returns_version(const making *m, ir_ref r) {
    ir_ref memory = ir_node_at(m->g, r)->memory;
    return m->made[r] == UINT32_MAX && memory != IR_NONE && ir_writer_of(m->g, r) == IR_NONE &&
           ir_node_at(m->g, memory)->op == IR_input;
}

static rp_status note_outputs(making *m, rp_error *err) {
    front_chain *c = m->c;
    c->n_out = ir_output_count(m->g);
    c->out = base_alloc_array(c->n_out + 1u, sizeof *c->out);
    c->copied = base_alloc_array(c->n_out + 1u, sizeof *c->copied);
    c->given = base_alloc_array(c->n_slots + 1u, sizeof *c->given);
    if (!c->out || !c->copied || !c->given)
        return rp_fail(err, RP_NOMEM, "pieces of %s", m->f->name);
    for (uint32_t i = 0; i < c->n_out; i++) {
        ir_ref r = ir_output_at(m->g, i);
        c->copied[i] = returns_version(m, r);
        c->out[i] = c->copied[i] ? m->slot[ir_node_at(m->g, r)->memory] : m->made[r];
        if (c->out[i] == UINT32_MAX)
            return rp_fail(err, RP_INTERNAL, "graph @%s: no piece makes output %u",
                           ir_graph_name(m->g), i);
        for (uint32_t k = 0; k < i; k++) c->copied[i] = c->copied[i] || c->out[k] == c->out[i];
        if (!c->copied[i]) c->given[c->out[i]] = true;
    }
    return RP_OK;
}

static rp_status make_links(making *m, split_result *r, rp_error *err) {
    m->c->link = base_alloc_array(r->n_pieces + 1u, sizeof *m->c->link);
    if (!m->c->link) return rp_fail(err, RP_NOMEM, "pieces of %s", m->f->name);
    note_inputs(m);
    for (; m->c->n < r->n_pieces; m->c->n++)
        RP_TRY(make_link(m, &r->pieces[m->c->n], &m->c->link[m->c->n], err));
    RP_TRY(note_outputs(m, err));
    return m->cut->in_place ? front_places_new(m->c->n_in, &m->c->stays, err) : RP_OK;
}

rp_status front_chain_new(rp_jit *f, const rp_graph *g, const front_cut *cut, front_chain **out,
                          rp_error *err) {
    making m = {.f = f, .cut = cut};
    split_result r = {0};
    ir_graph *made = NULL;
    /* The pieces of all versions share one memory: what is overwritten is read before that. */
    RP_TRY(pass_make_inplace(trace_graph_ir(g), &m.g, &made, err));
    rp_status st = RP_OK;
    uint32_t n = ir_graph_count(m.g);
    m.c = base_alloc(sizeof *m.c);
    m.slot = base_alloc_array(n + 1u, sizeof *m.slot);
    m.made = base_alloc_array(n + 1u, sizeof *m.made);
    if (!m.c || !m.slot || !m.made) {
        st = rp_fail(err, RP_NOMEM, "pieces of %s", f->name);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) m.slot[i] = m.made[i] = UINT32_MAX;
    RP_TRY_OUT(split_apart(m.g, cut->ops, cut->n_ops, &r, err));
    RP_TRY_OUT(make_links(&m, &r, err));
    *out = m.c;
    m.c = NULL;
out:
    if (m.c && m.c->link && m.c->n < r.n_pieces) m.c->n++; /* the one that failed */
    front_chain_free(m.c);
    split_done(&r);
    ir_graph_free(made);
    base_free(m.slot);
    base_free(m.made);
    return st;
}

const char *front_chain_reason(const front_chain *c) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->link[i].code.reason) return c->link[i].code.reason;
    return NULL;
}

/* --- calls ------------------------------------------------------------------------------------ */

typedef struct running {
    rp_buffer *slot, *in, *out; /* n_slots each; in and out: of a piece */
} running;

static rp_status begin(const front_chain *c, const rp_buffer *in, running *r, rp_error *err) {
    r->slot = base_alloc_array(3 * ((size_t)c->n_slots + 1), sizeof *r->slot);
    if (!r->slot) return rp_fail(err, RP_NOMEM, "values of pieces");
    r->in = r->slot + c->n_slots + 1;
    r->out = r->in + c->n_slots + 1;
    for (uint32_t i = 0; i < c->n_in; i++) r->slot[i] = in[i];
    return RP_OK;
}

static void gather(const front_link *l, running *r) {
    for (uint32_t i = 0; i < l->n_in; i++) r->in[i] = r->slot[l->in[i]];
    for (uint32_t i = 0; i < l->n_out; i++) r->out[i] = r->slot[l->out[i]];
}

/* Types and sizes of all values. */
static rp_status size_slots(const front_chain *c, running *r, rp_error *err) {
    for (uint32_t k = 0; k < c->n; k++) {
        const front_link *l = &c->link[k];
        gather(l, r);
        RP_TRY(rp_compiled_outputs(l->code.compiled, r->in, l->n_in, r->out, l->n_out, err));
        for (uint32_t i = 0; i < l->n_out; i++) r->slot[l->out[i]] = r->out[i];
    }
    return RP_OK;
}

rp_status front_chain_outputs(const front_chain *c, const rp_buffer *in, rp_buffer *out,
                              rp_error *err) {
    running r = {.slot = NULL};
    rp_status st = begin(c, in, &r, err);
    if (st == RP_OK) st = size_slots(c, &r, err);
    for (uint32_t i = 0; i < c->n_out && st == RP_OK; i++) {
        void *data = out[i].data;
        out[i] = r.slot[c->out[i]];
        out[i].data = data;
    }
    base_free(r.slot);
    return st;
}

/* Outputs lie where they are wanted, what else crosses a border in one block. */
static rp_status place_slots(rp_jit *f, const front_chain *c, const front_io *io, running *r,
                             void **block, rp_error *err) {
    size_t total = 0;
    uint32_t n = c->n_slots - c->n_in;
    rp_buffer *made = r->slot + c->n_in, *form = r->out; /* which has room for all */
    const rp_buffer none = {.rank = 1};
    for (uint32_t i = 0; i < n; i++) form[i] = c->given[c->n_in + i] ? none : made[i];
    RP_TRY(front_lay_out(form, n, NULL, NULL, &total, err));
    RP_TRY(device_alloc(f->device, total ? total : 1, block, err));
    RP_TRY(front_lay_out(form, n, *block, made, &total, err));
    for (uint32_t i = 0; i < c->n_out; i++)
        if (!c->copied[i]) r->slot[c->out[i]].data = io->out[i].data;
    return RP_OK;
}

/* Its inputs brought to the host, its outputs to where they are wanted. */
static rp_status run_staged(rp_jit *f, const front_link *l, running *r, char *block,
                            rp_error *err) {
    rp_buffer *in = block ? r->in : NULL, *out = r->out;
    size_t total = 0, bytes = 0;
    RP_TRY(front_lay_out(in, l->n_in, block, in, &total, err));
    RP_TRY(front_lay_out(out, l->n_out, block + total, out, &bytes, err));
    for (uint32_t i = 0; i < l->n_in; i++)
        if (autograph_bytes(&in[i], &bytes))
            RP_TRY(front_copy(f, in[i].data, r->slot[l->in[i]].data, bytes, err));
    RP_TRY(rp_compiled_run(l->code.compiled, in, l->n_in, out, l->n_out, err));
    for (uint32_t i = 0; i < l->n_out; i++)
        if (autograph_bytes(&out[i], &bytes))
            RP_TRY(front_copy(f, r->slot[l->out[i]].data, out[i].data, bytes, err));
    for (uint32_t i = 0; i < l->n_in; i++)
        if (l->written[i] && autograph_bytes(&in[i], &bytes))
            RP_TRY(front_copy(f, r->slot[l->in[i]].data, in[i].data, bytes, err));
    return RP_OK;
}

static rp_status run_host(rp_jit *f, const front_link *l, running *r, rp_error *err) {
    size_t in = 0, out = 0;
    RP_TRY(front_lay_out(r->in, l->n_in, NULL, NULL, &in, err));
    RP_TRY(front_lay_out(r->out, l->n_out, NULL, NULL, &out, err));
    char *block = base_alloc_aligned(in + out + 1, 64);
    if (!block) return rp_fail(err, RP_NOMEM, "%zu bytes for an op of the host", in + out);
    rp_status st = run_staged(f, l, r, block, err);
    base_free(block);
    return st;
}

static rp_status run_links(rp_jit *f, const front_chain *c, const front_io *io, running *r,
                           rp_error *err) {
    for (uint32_t k = 0; k < c->n; k++) {
        const front_link *l = &c->link[k];
        gather(l, r);
        front_io part = {.in = r->in,
                         .out = r->out,
                         .n_in = l->n_in,
                         .n_out = l->n_out,
                         .mode = io->mode,
                         .args = io->args,
                         .own = io->own};
        RP_TRY(l->host ? run_host(f, l, r, err) : front_code_run(f, &l->code, &part, err));
    }
    for (uint32_t i = 0; i < c->n_out; i++) {
        size_t bytes = 0;
        if (c->copied[i] && autograph_bytes(&io->out[i], &bytes) && bytes)
            RP_TRY(front_copy(f, io->out[i].data, r->slot[c->out[i]].data, bytes, err));
    }
    return RP_OK;
}

rp_status front_chain_run(rp_jit *f, const front_chain *c, const front_io *io, rp_error *err) {
    running r = {.slot = NULL};
    void *block = NULL;
    RP_TRY(front_places_check(c->stays, f->name, io->in, io->own, err));
    rp_status st = begin(c, io->in, &r, err);
    if (st == RP_OK) st = size_slots(c, &r, err);
    if (st == RP_OK) st = place_slots(f, c, io, &r, &block, err);
    if (st == RP_OK) st = run_links(f, c, io, &r, err);
    if (st == RP_OK) st = front_places_keep(c->stays, io->in, io->own, err);
    device_free(f->device, block);
    base_free(r.slot);
    return st;
}
