/* Pieces of two compilers as links of a chain. Slots hold what links read and give: inputs, params and states of the graph, then what the links
 * give, in order. */
#include "api/links.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/foreign.h"
#include "autograph/manager.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"
#include "plan/size.h"
#include "trace/trace.h"

enum { ALIGN = 64, LEAF_NAME = 16, MOST_TOLD = 3 /* reasons of a piece */ };

typedef struct link {
    rp_compiled *by;
    bool same;          /* an earlier link's */
    bool theirs;        /* the backend's */
    char *why;          /* it is not; NULL: its nodes say so */
    uint32_t *in, *out; /* slots */
    uint32_t n_in, n_out;
    uint32_t *params, *states; /* slots of those that it binds */
    uint32_t n_params, n_states;
} link;

struct api_links {
    link *link;
    uint32_t n, n_slots, n_out;
    uint32_t *out;   /* the slot of each output */
    bool *copied;    /* of each: the slot lies elsewhere */
    bool *given;     /* by slot: it lies in memory of the caller's outputs */
    rp_buffer *slot; /* n_slots, then as many each for inputs and outputs of a link */
    rp_buffer *of_in, *of_out;
    const plan *p; /* the graph's interface; borrowed */
    rp_device *device;
    char *block;
    size_t capacity;
};

void api_links_free(api_links *l) {
    if (!l) return;
    for (uint32_t i = 0; i < l->n && l->link; i++) {
        link *k = &l->link[i];
        if (!k->same) rp_compiled_free(k->by);
        base_free(k->why);
        base_free(k->in);
        base_free(k->out);
        base_free(k->params);
        base_free(k->states);
    }
    base_free(l->link);
    base_free(l->out);
    base_free(l->copied);
    base_free(l->given);
    base_free(l->slot);
    base_free(l->block);
    rp_device_close(l->device);
    base_free(l);
}

/* --- making ----------------------------------------------------------------------------------- */

typedef struct maker {
    const api_linking *of;
    const ir_graph *g;
    api_links *l;
    uint32_t *slot; /* by node, of what later links read; UINT32_MAX: none */
    uint32_t *made; /* by node, of what a link gives, likewise */
    uint32_t threads;
} maker;

static uint32_t place_of(const plan_leaf *l, uint32_t n, const char *name) {
    uint32_t i = 0;
    while (i < n && strcmp(l[i].name, name) != 0) i++;
    return i;
}

static void place_leaves(maker *m) {
    const plan *p = m->l->p;
    for (uint32_t i = 0; i < p->n_inputs; i++) m->slot[ir_leaf_at(m->g, IR_LEAF_INPUT, i)] = i;
    for (uint32_t i = 0; i < ir_leaf_count(m->g, IR_LEAF_PARAM); i++) {
        ir_ref r = ir_leaf_at(m->g, IR_LEAF_PARAM, i);
        m->slot[r] = p->n_inputs + place_of(p->params, p->n_params, ir_node_at(m->g, r)->name);
    }
    for (uint32_t i = 0; i < ir_leaf_count(m->g, IR_LEAF_STATE); i++) {
        ir_ref r = ir_leaf_at(m->g, IR_LEAF_STATE, i);
        m->slot[r] = p->n_inputs + p->n_params +
                     place_of(p->states, p->n_states, ir_node_at(m->g, r)->name);
    }
    m->l->n_slots = p->n_inputs + p->n_params + p->n_states;
}

static rp_status find_slots(const uint32_t *slot, const ir_ref *refs, uint32_t n, uint32_t **out,
                            rp_error *err) {
    *out = base_alloc_array(n + 1u, sizeof **out);
    if (!*out) return rp_fail(err, RP_NOMEM, "pieces of a graph");
    for (uint32_t i = 0; i < n; i++) (*out)[i] = slot[refs[i]];
    return RP_OK;
}

static rp_status place_link(maker *m, const split_piece *p, link *k, rp_error *err) {
    k->n_in = ir_leaf_count(p->graph, IR_LEAF_INPUT);
    k->n_out = ir_output_count(p->graph);
    k->n_params = ir_leaf_count(p->graph, IR_LEAF_PARAM);
    k->n_states = ir_leaf_count(p->graph, IR_LEAF_STATE);
    for (uint32_t i = 0; i < k->n_out; i++) {
        ir_ref r = p->outputs[i];
        m->made[r] = m->l->n_slots++;
        if (m->slot[r] == UINT32_MAX) m->slot[r] = m->made[r]; /* an argument is read where it is */
    }
    RP_TRY(find_slots(m->slot, p->inputs, k->n_in, &k->in, err));
    RP_TRY(find_slots(m->made, p->outputs, k->n_out, &k->out, err));
    RP_TRY(find_slots(m->slot, p->params, k->n_params, &k->params, err));
    return find_slots(m->slot, p->states, k->n_states, &k->states, err);
}

/* Takes g over. */
static rp_status compile_theirs(const maker *m, rp_graph *g, link *k, bool *refused,
                                rp_error *err) {
    rp_compiled *c = api_compiled_new(NULL);
    if (!c) {
        rp_graph_free(g);
        return rp_fail(err, RP_NOMEM, "a piece of a graph");
    }
    rp_status st =
        api_foreign_whole(c, m->of->by, g, m->threads, m->of->config->cache_dir, refused, err);
    if (st == RP_OK)
        k->by = c;
    else
        rp_compiled_free(c);
    return st;
}

static rp_status wrap(const maker *m, const ir_graph *g, rp_graph **out, rp_error *err) {
    ir_graph *own = ir_graph_share((ir_graph *)(uintptr_t)g);
    rp_status st = trace_graph_wrap(own, out, err);
    if (st != RP_OK)
        ir_graph_free(own);
    else
        (*out)->numerics = m->of->g->numerics;
    return st;
}

static rp_status compile_ours(const maker *m, const ir_graph *piece, link *k, rp_error *err) {
    rp_graph *g = NULL;
    RP_TRY(wrap(m, piece, &g, err));
    rp_status st = api_compile_piece(m->l->device, g, m->of->config, &k->by, err);
    rp_graph_free(g);
    return st;
}

/* The backend is asked: the link is its, or has why it is not. */
static rp_status offer_link(const maker *m, const split_piece *p, link *k, rp_error *err) {
    rp_graph *g = NULL;
    bool refused = false;
    rp_error why = {0};
    RP_TRY(wrap(m, p->graph, &g, err));
    rp_status st = compile_theirs(m, g, k, &refused, &why);
    k->theirs = st == RP_OK;
    if (st != RP_OK && !refused) return rp_fail(err, st, "%s", why.text);
    if (!refused) return RP_OK;
    k->why = base_strdup(why.text);
    return k->why ? RP_OK : rp_fail(err, RP_NOMEM, "%s", why.text);
}

/* Equal pieces are one, but for what they bind. */
static bool is_shared(const split_result *r, uint32_t i) {
    const split_piece *p = &r->pieces[i];
    return p->distinct < i && r->pieces[p->distinct].splitting == p->splitting &&
           ir_leaf_count(p->graph, IR_LEAF_PARAM) + ir_leaf_count(p->graph, IR_LEAF_STATE) == 0;
}

static rp_status share_link(const split_result *r, uint32_t i, link *all, rp_error *err) {
    const link *first = &all[r->pieces[i].distinct];
    link *k = &all[i];
    k->same = true;
    k->by = first->by;
    k->theirs = first->theirs;
    if (!first->why || k->why) return RP_OK;
    k->why = base_strdup(first->why);
    return k->why ? RP_OK : rp_fail(err, RP_NOMEM, "pieces of a graph");
}

static bool any_theirs(const api_links *l) {
    for (uint32_t i = 0; i < l->n; i++)
        if (l->link[i].theirs) return true;
    return false;
}

/* Inductor's wait until it is known that there are others: a graph that is all its is no pieces. */
static rp_status compile_links(const maker *m, const split_result *r, rp_error *err) {
    link *all = m->l->link;
    for (uint32_t i = 0; i < r->n_pieces; i++) {
        const split_piece *p = &r->pieces[i];
        if (p->splitting)
            RP_TRY(is_shared(r, i) ? share_link(r, i, all, err) : offer_link(m, p, &all[i], err));
    }
    if (!any_theirs(m->l)) return RP_OK;
    for (uint32_t i = 0; i < r->n_pieces; i++)
        if (!all[i].theirs)
            RP_TRY(is_shared(r, i) ? share_link(r, i, all, err)
                                   : compile_ours(m, r->pieces[i].graph, &all[i], err));
    return RP_OK;
}

/* Memory that was written is where it was given, as is what is returned twice. */
static rp_status place_outputs(maker *m, rp_error *err) {
    api_links *l = m->l;
    l->n_out = ir_output_count(m->g);
    l->out = base_alloc_array(l->n_out + 1u, sizeof *l->out);
    l->copied = base_alloc_array(l->n_out + 1u, sizeof *l->copied);
    l->given = base_alloc_array(l->n_slots + 1u, sizeof *l->given);
    if (!l->out || !l->copied || !l->given) return rp_fail(err, RP_NOMEM, "pieces of a graph");
    for (uint32_t i = 0; i < l->n_out; i++) {
        ir_ref r = ir_output_at(m->g, i), memory = ir_node_at(m->g, r)->memory;
        l->out[i] = m->made[r];
        if (l->out[i] == UINT32_MAX && memory != IR_NONE) l->out[i] = m->slot[memory];
        if (l->out[i] == UINT32_MAX)
            return rp_fail(err, RP_INTERNAL, "graph @%s: no piece makes output %u",
                           ir_graph_name(m->g), i);
        l->copied[i] = m->made[r] == UINT32_MAX;
        for (uint32_t k = 0; k < i; k++) l->copied[i] = l->copied[i] || l->out[k] == l->out[i];
        if (!l->copied[i]) l->given[l->out[i]] = true;
    }
    l->slot = base_alloc_array(3 * ((size_t)l->n_slots + 1), sizeof *l->slot);
    if (!l->slot) return rp_fail(err, RP_NOMEM, "pieces of a graph");
    l->of_in = l->slot + l->n_slots + 1;
    l->of_out = l->of_in + l->n_slots + 1;
    return RP_OK;
}

static rp_status make_links(maker *m, const split_result *r, rp_error *err) {
    m->l->link = base_alloc_array(r->n_pieces + 1u, sizeof *m->l->link);
    if (!m->l->link) return rp_fail(err, RP_NOMEM, "pieces of a graph");
    place_leaves(m);
    while (m->l->n < r->n_pieces) {
        const uint32_t i = m->l->n++; /* in part, where it fails */
        RP_TRY(place_link(m, &r->pieces[i], &m->l->link[i], err));
    }
    RP_TRY(place_outputs(m, err));
    return compile_links(m, r, err);
}

/* --- telling ------------------------------------------------------------------------------------ */

/* Whether node r is of piece i and refused, for a reason that was not among the n told ones. */
static bool is_news(const api_linking *of, uint32_t i, ir_ref r, const char *const *told,
                    uint32_t n) {
    const char *why = of->offer->why[r];
    bool news = why && of->sides->piece[r] == i && ir_node_at(of->g->ir, r)->op != IR_result;
    for (uint32_t k = 0; k < n && news; k++) news = strcmp(told[k], why) != 0;
    return news;
}

/* Why the nodes of piece i are not taken. */
static void tell_nodes(const api_linking *of, uint32_t i, base_buf *b) {
    const char *told[MOST_TOLD];
    uint32_t n = 0, more = 0;
    for (ir_ref r = 0; r < ir_graph_count(of->g->ir); r++) {
        if (!is_news(of, i, r, told, n)) continue;
        if (n == MOST_TOLD) {
            more++;
            continue;
        }
        told[n] = of->offer->why[r];
        base_buf_printf(b, "%s%s", n ? ", " : "", told[n]);
        n++;
    }
    if (more) base_buf_printf(b, ", and %u node%s more", more, more > 1 ? "s" : "");
    if (n == 0) base_buf_puts(b, "it returns what the call was given");
}

/* Whether piece i is splitting ops and what is not worth a call: inductor's without a reason, as is asked for. */
static bool is_split_off(const maker *m, uint32_t i) {
    const api_offer *o = m->of->offer;
    bool split = false;
    if (m->l->link[i].why) return false;
    for (ir_ref r = 0; r < ir_graph_count(m->g); r++) {
        if (m->of->sides->piece[r] != i) continue;
        if (o->why[r]) return false;
        split = split || o->splits[r];
    }
    return split;
}

static void tell_piece(const maker *m, uint32_t i, base_buf *b) {
    base_buf_printf(b, " piece %u (", i);
    if (m->l->link[i].why)
        base_buf_puts(b, m->l->link[i].why);
    else
        tell_nodes(m->of, i, b);
    base_buf_putc(b, ')');
}

/* Counts what was compiled, too. */
static void note_link(rp_compiled *c, const link *k) {
    if (k->same) return;
    c->info.distinct++;
    c->info.kernels += k->by->info.kernels;
    c->info.compiles += k->by->info.compiles;
    c->info.cache_hits += k->by->info.cache_hits;
    for (uint32_t i = 0; i < k->by->passes.n; i++) {
        const pass_count *of = &k->by->passes.of[i];
        pass_count *to = pass_count_of(&c->passes, of->name);
        if (to) to->matches += of->matches;
        if (to) to->failures += of->failures;
    }
}

static rp_status tell(const maker *m, char **reason, rp_error *err) {
    const api_links *l = m->l;
    rp_compiled *c = m->of->c;
    base_buf b;
    uint32_t theirs = 0, n = 0;
    const char *missing = NULL;
    c->info = (rp_compiled_info){.size = sizeof c->info, .pieces = l->n, .compiled = l->n};
    c->passes.n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        theirs += l->link[i].theirs;
        note_link(c, &l->link[i]);
    }
    c->info.backend = m->of->by->name;
    c->info.by_backend = theirs;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "backend=%s compiles %u of %u pieces of graph @%s, inductor",
                    c->info.backend, theirs, l->n, l->p->name);
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->link[i].theirs) continue;
        if (l->link[i].by->info.reason) missing = l->link[i].by->info.reason;
        if (is_split_off(m, i)) continue;
        if (n++) base_buf_putc(&b, ',');
        tell_piece(m, i, &b);
    }
    if (n == 0) base_buf_puts(&b, " the splitting ops");
    if (missing) base_buf_printf(&b, "; %s", missing);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK && (n || missing)) *reason = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}

/* What was said of the first piece that it refused although it had taken each node. */
static rp_status refused_all(const api_links *l, char **reason, rp_error *err) {
    const char *why = NULL;
    for (uint32_t i = 0; i < l->n && !why; i++) why = l->link[i].why;
    *reason = base_strdup(why ? why : "it takes no piece");
    return *reason ? RP_OK : rp_fail(err, RP_NOMEM, "pieces of a graph");
}

rp_status api_links_new(const api_linking *of, api_links **out, char **reason, rp_error *err) {
    const uint32_t n = ir_graph_count(of->g->ir);
    rp_status st = RP_OK;
    split_result r = {0};
    hal_device_info info;
    maker m = {.of = of,
               .g = of->g->ir,
               .l = base_alloc(sizeof *m.l),
               .slot = base_alloc_array(n + 1u, sizeof *m.slot),
               .made = base_alloc_array(n + 1u, sizeof *m.made)};
    *reason = NULL;
    if (!m.l || !m.slot || !m.made) {
        st = rp_fail(err, RP_NOMEM, "pieces of a graph");
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) m.slot[i] = m.made[i] = UINT32_MAX;
    m.l->p = of->c->p;
    of->c->device->ops->info(of->c->device, &info);
    m.threads = info.n_threads;
    if (of->c->shared)
        m.l->device = rp_device_ref(of->c->shared);
    else
        RP_TRY_OUT(rp_device_open(of->config->device, m.threads, &m.l->device, err));
    RP_TRY_OUT(split_by_sides(m.g, of->sides, &r, err));
    RP_TRY_OUT(make_links(&m, &r, err));
    if (!any_theirs(m.l)) {
        st = refused_all(m.l, reason, err);
        goto out;
    }
    RP_TRY_OUT(tell(&m, reason, err));
    *out = m.l;
    m.l = NULL;
out:
    api_links_free(m.l);
    split_done(&r);
    base_free(m.slot);
    base_free(m.made);
    return st;
}

/* --- calls ---------------------------------------------------------------------------------------- */

static rp_status bind_to(link *k, const uint32_t *slots, uint32_t n, const char *prefix,
                         uint32_t slot, void *data, rp_error *err) {
    char name[LEAF_NAME];
    for (uint32_t i = 0; i < n; i++) {
        if (slots[i] != slot) continue;
        (void)snprintf(name, sizeof name, "%s%u", prefix, i);
        RP_TRY(rp_compiled_bind(k->by, name, data, err));
    }
    return RP_OK;
}

rp_status api_links_bind(api_links *l, bool param, uint32_t idx, void *data, rp_error *err) {
    const uint32_t slot = l->p->n_inputs + (param ? 0 : l->p->n_params) + idx;
    l->slot[slot].data = data;
    for (uint32_t i = 0; i < l->n; i++) {
        link *k = &l->link[i];
        RP_TRY(param ? bind_to(k, k->params, k->n_params, "p", slot, data, err)
                     : bind_to(k, k->states, k->n_states, "s", slot, data, err));
    }
    return RP_OK;
}

/* Forms of a list of leaves, which keep their data. */
static rp_status fill_leaves(const api_links *l, const plan_leaf *leaf, uint32_t n,
                             const char *kind, const int64_t *symbols, rp_buffer *to,
                             rp_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        if (!to[i].data)
            return rp_fail(err, RP_INVALID, "%s %s of graph @%s has no data; call rp_compiled_bind",
                           kind, leaf[i].name, l->p->name);
        to[i].dtype = leaf[i].dtype;
        to[i].rank = leaf[i].rank;
        for (uint32_t d = 0; d < leaf[i].rank; d++)
            to[i].dim[d] = plan_size_eval(&leaf[i].dim[d], symbols);
    }
    return RP_OK;
}

static void gather(const api_links *l, const link *k) {
    for (uint32_t i = 0; i < k->n_in; i++) l->of_in[i] = l->slot[k->in[i]];
    for (uint32_t i = 0; i < k->n_out; i++) l->of_out[i] = l->slot[k->out[i]];
}

static rp_status size_slots(const api_links *l, rp_error *err) {
    for (uint32_t i = 0; i < l->n; i++) {
        const link *k = &l->link[i];
        gather(l, k);
        RP_TRY(rp_compiled_outputs(k->by, l->of_in, k->n_in, l->of_out, k->n_out, err));
        for (uint32_t o = 0; o < k->n_out; o++) l->slot[k->out[o]] = l->of_out[o];
    }
    return RP_OK;
}

/* What links give, one behind the other in the block; NULL: it is counted alone. */
static rp_status lay_out(api_links *l, char *block, uint32_t first, size_t *total, rp_error *err) {
    size_t at = 0, bytes = 0;
    for (uint32_t i = first; i < l->n_slots; i++) {
        if (l->given[i]) continue;
        if (!autograph_bytes(&l->slot[i], &bytes) || !base_add_size(bytes, ALIGN - 1, &bytes) ||
            !base_add_size(at, bytes, &bytes))
            return rp_fail(err, RP_NOMEM, "a value between pieces of a size that no memory has");
        l->slot[i].data = block ? block + at : NULL;
        at = bytes / ALIGN * ALIGN;
    }
    *total = at;
    return RP_OK;
}

/* Outputs lie where they are wanted, what else crosses a border in the block. */
static rp_status place_slots(api_links *l, const rp_buffer *outputs, rp_error *err) {
    const uint32_t first = l->p->n_inputs + l->p->n_params + l->p->n_states;
    size_t total = 0;
    RP_TRY(lay_out(l, NULL, first, &total, err));
    if (total > l->capacity || !l->block) {
        char *block = base_alloc_aligned(total + ALIGN, ALIGN);
        if (!block) return rp_fail(err, RP_NOMEM, "%zu bytes between pieces", total);
        base_free(l->block);
        l->block = block;
        l->capacity = total;
    }
    RP_TRY(lay_out(l, l->block, first, &total, err));
    for (uint32_t i = 0; i < l->n_out; i++)
        if (!l->copied[i]) l->slot[l->out[i]].data = outputs[i].data;
    return RP_OK;
}

rp_status api_links_run(api_links *l, const int64_t *symbols, const rp_buffer *inputs,
                        rp_buffer *outputs, rp_error *err) {
    const plan *p = l->p;
    rp_buffer *params = l->slot + p->n_inputs, *states = params + p->n_params;
    for (uint32_t i = 0; i < p->n_inputs; i++) l->slot[i] = inputs[i];
    RP_TRY(fill_leaves(l, p->params, p->n_params, "param", symbols, params, err));
    RP_TRY(fill_leaves(l, p->states, p->n_states, "state", symbols, states, err));
    RP_TRY(size_slots(l, err));
    RP_TRY(place_slots(l, outputs, err));
    for (uint32_t i = 0; i < l->n; i++) {
        const link *k = &l->link[i];
        gather(l, k);
        RP_TRY(rp_compiled_run(k->by, l->of_in, k->n_in, l->of_out, k->n_out, err));
    }
    for (uint32_t i = 0; i < l->n_out; i++) {
        size_t bytes = 0;
        if (l->copied[i] && autograph_bytes(&outputs[i], &bytes) && bytes)
            memcpy(outputs[i].data, l->slot[l->out[i]].data, bytes);
    }
    return RP_OK;
}
