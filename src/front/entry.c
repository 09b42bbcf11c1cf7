/* Entries: compiled once, run with the memory of each call. */
#include <stdio.h>

#include "autograph/manager.h"
#include "autograph/memory.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/log.h"
#include "front/recording.h"
#include "ir/custom.h"

enum { FEW = 32, ALIGN = 64 }; /* tensors on the stack; of an output in a block of several */

void front_entry_unref(front_entry *e) {
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
    front_guards_done(&e->guards);
    front_code_done(&e->result.code);
    front_recording_free(e->recording);
    front_dense_done(&e->dense);
    (void)pthread_mutex_destroy(&e->copying);
    base_free(e->block);
    base_free((void *)(uintptr_t)e->told);
    base_free(e->written);
    base_free(e);
}

/* --- making -------------------------------------------------------------------------------- */

/* Who computes the graph of an entry. */
typedef enum compiler { AS_CONFIGURED, AS_CAN_BE /* the last attempt */, OP_BY_OP } compiler;

/* Which tensors of the arguments g writes. */
static rp_status note_written(const front_args *a, const rp_graph *g, bool **out, front_made_of *of,
                              rp_error *err) {
    *out = base_alloc_array(a->n_tensors + 1u, sizeof **out);
    if (!*out) return rp_fail(err, RP_NOMEM, "arguments of a function");
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        bool writes = ir_node_at(g->ir, ir_leaf_at(g->ir, IR_LEAF_INPUT, i))->mutates;
        (*out)[i] = writes;
        if (!writes || a->tensor[i]->state) continue;
        of->writes = true;
        of->moving = of->moving || !front_is_view(a->tensor[i]);
    }
    return RP_OK;
}

/* The inputs of g that tell integers, which are behind the tensors. */
static rp_status note_told(const front_args *a, const front_traced *t, front_entry *e,
                           rp_error *err) {
    const ir_graph *g = t->graph->ir;
    const uint32_t n = ir_leaf_count(g, IR_LEAF_INPUT) - a->n_tensors;
    if (n == 0) return RP_OK;
    e->told = base_alloc_array(n, sizeof(const front_symbol *));
    if (!e->told) return rp_fail(err, RP_NOMEM, "entry");
    for (; e->n_told < n; e->n_told++)
        for (uint32_t i = 0; i < t->sizes.n_symbols; i++) {
            const front_symbol *y = &t->sizes.symbol[i];
            if (y->leaf == ir_leaf_at(g, IR_LEAF_INPUT, a->n_tensors + e->n_told))
                e->told[e->n_told] = y; /* where it stays, as the guards take it over */
        }
    return RP_OK;
}

/* Of splitting_ops that the user gave, once: a slip of the pen leaves one graph where there were to be pieces. Of a function that breaks
 * its graph other parts may have the op. */
static void tell_absent_ops(rp_jit *f, const rp_graph *g) {
    const config_strs *ops = &f->config->splitting_ops;
    if (f->told_ops || !ops->set || f->config->level != RP_LEVEL_PIECEWISE) return;
    f->told_ops = true;
    for (size_t i = 0; i < ops->n; i++)
        if (!ir_graph_splits_at(g->ir, ops->v[i]))
            base_log(RP_LOG_WARNING, "%s: splitting_ops: %s: no op of the graph has this name",
                     f->name, ops->v[i]);
}

/* Takes over what t has of the entry. */
static rp_status take_traced(rp_jit *f, const front_args *a, front_traced *t, compiler by,
                             front_entry **out, rp_error *err) {
    rp_status st = RP_OK;
    front_entry *e = base_alloc(sizeof *e);
    if (!e) return rp_fail(err, RP_NOMEM, "entry of %s", f->name);
    (void)pthread_mutex_init(&e->copying, NULL);
    front_made_of of = {.number = f->next_number, .last = by == AS_CAN_BE};
    atomic_init(&e->refs, 1);
    RP_TRY_OUT(front_has_own_size(f, a, &of.own_size, err));
    if (!t->recording) RP_TRY_OUT(note_written(a, t->graph, &e->written, &of, err));
    if (!t->recording) RP_TRY_OUT(note_told(a, t, e, err));
    if (!t->recording && by == OP_BY_OP)
        RP_TRY_OUT(front_code_eager(f, t->graph, &e->result.code, err));
    else if (!t->recording)
        RP_TRY_OUT(front_code_make(f, t->graph, &of, &e->result.code, err));
    if (!t->recording && by != OP_BY_OP) tell_absent_ops(f, t->graph);
    e->recording = t->recording;
    e->result.value = t->result;
    e->result.n_outputs = t->n_outputs;
    e->block = t->block;
    t->recording = NULL;
    t->block = NULL;
    *out = e;
    e = NULL;
out:
    front_entry_unref(e);
    return st;
}

static bool serves_one_size(const front_solver *s) {
    for (uint32_t i = 0; i < s->n_symbols; i++)
        if (s->symbol[i].fixed && !s->symbol[i].literal) return true;
    return false;
}

rp_status front_entry_make(rp_jit *f, const front_args *a, front_sizes sizes, bool last,
                           const front_out *to, front_made *out, rp_error *err) {
    front_traced t = {.to = to};
    front_entry *e = NULL;
    compiler by = last ? AS_CAN_BE : AS_CONFIGURED;
    rp_status st = front_trace(f, a, sizes, false, &t, err);
    out->given = t.given;
    out->began = t.began;
    out->fell = t.fell;
    out->once = st == RP_OK && sizes == FRONT_ALL_OR_ONCE && !t.recording &&
                serves_one_size(&t.sizes);
    if (out->once) by = OP_BY_OP;
    if (st == RP_OK) st = take_traced(f, a, &t, by, &e, err);
    if (st == RP_OK && e->recording) st = front_solver_copy(&t.sizes, &e->recording->sizes, err);
    if (st == RP_OK) st = front_guards_make(&e->guards, a, &t.sizes, err);
    front_traced_done(&t);
    if (st == RP_OK)
        out->entry = e;
    else
        front_entry_unref(e);
    return st;
}

rp_status front_entry_eager(rp_jit *f, const front_args *a, const front_out *to, front_made *out,
                            rp_error *err) {
    front_traced t = {.to = to};
    rp_status st = front_trace(f, a, FRONT_STATIC, true, &t, err);
    out->given = t.given;
    out->began = t.began;
    if (st == RP_OK && !t.given) st = take_traced(f, a, &t, OP_BY_OP, &out->entry, err);
    front_traced_done(&t);
    return st;
}

/* --- running ---------------------------------------------------------------------------------- */

/* An input that is not given as it lies. */
typedef struct input_copy {
    const rp_value *from;
    void *dense;
    bool written; /* it is copied back */
} input_copy;

/* One call. */
typedef struct front_run {
    rp_jit *f;
    front_entry *e;
    const front_args *a;
    front_out *to;
    rp_buffer *in;
    rp_buffer few[FEW];
    input_copy *copy; /* n_copies */
    uint32_t n_copies;
    bool stays; /* they lie in memory of the entry, which this call has */
} front_run;

/* The bytes from the first to behind the last element of v; nothing where it is empty. */
static void span_of(const rp_value *v, uintptr_t *begin, uintptr_t *end) {
    size_t bytes = 0;
    *begin = *end = (uintptr_t)v->tensor.data;
    if (!autograph_bytes(&v->tensor, &bytes) || bytes == 0) return;
    if (autograph_is_dense(v)) {
        *end += bytes;
        return;
    }
    base_view view;
    int64_t first = 0, last = 0;
    (void)(autograph_view_of(v, &view) && base_view_span(&view, &first, &last));
    *end = *begin + (uintptr_t)last;
    *begin += (uintptr_t)first;
}

/* Spans that meet may be those of columns beside each other. */
static RP_APART base_meeting elements_meet(const rp_value *a, const rp_value *b) {
    base_view v, w;
    if ((autograph_is_dense(a) && autograph_is_dense(b)) || rp_dtype_block(a->tensor.dtype) > 1 ||
        rp_dtype_block(b->tensor.dtype) > 1)
        return BASE_MEET;
    return autograph_view_of(a, &v) && autograph_view_of(b, &w) ? base_views_meeting(&v, &w)
                                                                : BASE_UNSURE;
}

base_meeting front_meeting(const rp_value *a, const rp_value *b) {
    uintptr_t p = 0, p_end = 0, q = 0, q_end = 0;
    span_of(a, &p, &p_end);
    span_of(b, &q, &q_end);
    return p < q_end && q < p_end ? elements_meet(a, b) : BASE_APART;
}

rp_status front_refuse_shared(const front_args *a, uint32_t i, uint32_t k, rp_error *err) {
    const uint32_t first = k < i ? k : i, second = k < i ? i : k;
    const rp_value *one = a->tensor[first], *other = a->tensor[second];
    const bool states = one->state && other->state;
    base_buf names;
    base_buf_init(&names, 0);
    (void)front_describe(a->word, a->at[first], &names);
    base_buf_puts(&names, " and ");
    (void)front_describe(a->word, a->at[second], &names);
    rp_status st = base_buf_status(&names, err);
    if (st == RP_OK)
        st = rp_fail(err, RP_INVALID,
                     "%s, which are %s, share memory%s; give one of them, or a plain tensor where "
                     "it is only read",
                     names.data, states ? "states" : "written, or states",
                     front_meeting(one, other) == BASE_UNSURE
                         ? ", as far as can be told of their strides"
                         : "");
    base_buf_done(&names);
    return st;
}

/* Whether tensor i, which shares memory with one that is written, is to be copied before. */
static rp_status meets_written(const front_args *a, const bool *written, uint32_t i, bool *copied,
                               rp_error *err) {
    bool own = a->tensor[i]->state || (written && written[i]);
    for (uint32_t k = 0; k < a->n_tensors; k++) {
        bool other = a->tensor[k]->state || (written && written[k]);
        if (k == i || !other || front_meeting(a->tensor[i], a->tensor[k]) == BASE_APART) continue;
        if (own) return front_refuse_shared(a, i, k, err);
        *copied = true;
    }
    return RP_OK;
}

rp_status front_check_written(const rp_value *v, uint32_t i, rp_error *err) {
    base_view view;
    if (!front_is_view(v) || !autograph_view_of(v, &view) || !base_view_repeats(&view))
        return RP_OK;
    uint32_t d = 0;
    while (d < view.rank && (view.stride[d] != 0 || view.dim[d] <= 1)) d++;
    char why[48] = "its strides overlap";
    if (d < view.rank) (void)snprintf(why, sizeof why, "stride 0 along axis %u", d);
    return rp_fail(err, RP_INVALID,
                   "tensor %u of the arguments is written, and several of its elements are one "
                   "place in memory (%s); give a copy",
                   i, why);
}

bool front_captures(const rp_jit *f, const front_out *to) {
    return f->capture.manager && to->mode != RP_CUDAGRAPH_NONE;
}

/* The first of a call. */
static rp_status begin_copying(front_run *r, rp_error *err) {
    if (r->copy) return RP_OK;
    r->copy = base_alloc_array(r->a->n_tensors, sizeof *r->copy);
    if (!r->copy) return rp_fail(err, RP_NOMEM, "a dense copy of an argument");
    r->stays = front_captures(r->f, r->to);
    if (r->stays) (void)pthread_mutex_lock(&r->e->copying);
    return RP_OK;
}

/* Memory for a copy of tensor i, which is told. */
static rp_status place_copy(front_run *r, uint32_t i, rp_error *err) {
    const rp_value *v = r->a->tensor[i];
    size_t bytes = 0;
    RP_TRY(begin_copying(r, err));
    if (!autograph_bytes(&v->tensor, &bytes))
        return rp_fail(err, RP_NOMEM, "a dense copy of an argument");
    void **at = &r->in[i].data;
    RP_TRY(r->stays ? front_dense_take(&r->e->dense, r->f->device, i, bytes, at, err)
                    : device_alloc(r->f->device, bytes, at, err));
    r->copy[r->n_copies++] = (input_copy){v, *at, r->e->written && r->e->written[i]};
    return front_note_argument(r->f, r->to, r->a, i, err);
}

rp_status front_copies(const front_args *a, const bool *written, uint32_t i, bool *out,
                       rp_error *err) {
    *out = front_is_view(a->tensor[i]);
    return meets_written(a, written, i, out, err);
}

/* Whether tensor i, of which some are written, is copied. */
static RP_APART rp_status look_at(const front_run *r, uint32_t i, bool *copied, rp_error *err) {
    const bool *written = r->e->written;
    rp_error why;
    base_error_clear(&why);
    rp_status st = front_copies(r->a, written, i, copied, &why);
    if (st == RP_OK && *copied && written && written[i])
        st = front_check_written(r->a->tensor[i], i, &why);
    if (st != RP_OK) return front_failed(r->f, st, &why, err);
    return *copied && written && written[i] ? front_into_written(r->f, r->a, i, r->to, err) : st;
}

/* Where each input is. */
static rp_status place_inputs(front_run *r, rp_error *err) {
    const front_args *a = r->a;
    const bool *written = r->e->written;
    bool any = false;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        r->in[i] = a->tensor[i]->tensor;
        any = any || a->tensor[i]->state || (written && written[i]);
    }
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        bool copied = a->tensor[i]->strided && front_is_view(a->tensor[i]);
        if (any) RP_TRY(look_at(r, i, &copied, err));
        if (copied) RP_TRY(place_copy(r, i, err));
    }
    for (uint32_t i = 0; i < r->e->n_told; i++)
        r->in[a->n_tensors + i] = front_told(r->e->told[i], a->word);
    return RP_OK;
}

/* In front of the run, or behind it what was written in a copy. queue NULL: by one of f's, for which it waits. */
static rp_status copy_inputs(const front_run *r, hal_device *queue, bool in, rp_error *err) {
    for (uint32_t i = 0; i < r->n_copies; i++) {
        const input_copy *c = &r->copy[i];
        if (!in && !c->written) continue;
        if (!in) front_note_back(r->to, c->from);
        RP_TRY(queue ? front_copy_value_on(queue, c->from, c->dense, in, err)
                     : front_copy_value(r->f, c->from, c->dense, in, err));
    }
    return RP_OK;
}

static rp_status before_graph(void *user, hal_device *queue, rp_error *err) {
    return copy_inputs(user, queue, true, err);
}

static rp_status after_graph(void *user, hal_device *queue, rp_error *err) {
    return copy_inputs(user, queue, false, err);
}

static void run_done(front_run *r) {
    for (uint32_t i = 0; i < r->n_copies && !r->stays; i++)
        device_free(r->f->device, r->copy[i].dense);
    if (r->stays) (void)pthread_mutex_unlock(&r->e->copying);
    base_free(r->copy);
    if (r->in != r->few) base_free(r->in);
}

rp_status front_lay_out(const rp_buffer *out, uint32_t n, char *block, rp_buffer *placed,
                        size_t *total, rp_error *err) {
    size_t at = 0, bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!autograph_bytes(&out[i], &bytes) || !base_add_size(bytes, ALIGN - 1, &bytes) ||
            !base_add_size(at, bytes, &bytes))
            return rp_fail(err, RP_NOMEM, "a result of a size that no memory has");
        if (placed) placed[i].data = (void *)((uintptr_t)block + at);
        at = bytes / ALIGN * ALIGN;
    }
    *total = at;
    return RP_OK;
}

/* Results of one call. */
typedef struct giving {
    rp_jit *f;
    const front_result *of;
    front_io io;
    rp_buffer *out; /* n_outputs of `of` */
    const front_out *to;
    uint32_t n; /* of the tensors given by the caller, those that were seen */
} giving;

/* What failed in a run is of that function. */
static RP_COLD rp_status failed_run(const rp_jit *f, rp_status st, rp_error *err) {
    rp_error why;
    const size_t n = strlen(f->name);
    if (!err || strncmp(err->text, f->name, n) == 0) return st;
    why = *err;
    base_error_clear(err);
    return front_failed(f, st, &why, err);
}

static rp_status run_graph(const giving *g, rp_error *err) {
    if (!front_code_is_there(&g->of->code)) return RP_OK;
    rp_status st = front_code_run(g->f, &g->of->code, &g->io, err);
    return st == RP_OK ? st : failed_run(g->f, st, err);
}

static rp_status place(void *user, rp_value *v, rp_error *err) {
    const giving *g = user;
    (void)err;
    v->tensor = g->out[v->as.integer - 1];
    v->as.integer = 0; /* not taken for a tensor of a trace, where a caller gives it on */
    return RP_OK;
}

static rp_status give_new(giving *g, rp_error *err) {
    autograph_memory *m = NULL;
    rp_output *o = NULL;
    const rp_value *value = NULL;
    size_t total = 0;
    uint32_t n = g->of->n_outputs;
    rp_status st = RP_OK;
    RP_TRY(front_lay_out(g->out, n, NULL, NULL, &total, err));
    RP_TRY(autograph_memory_new(g->f->device, total, false, &m, err));
    RP_TRY_OUT(front_lay_out(g->out, n, m->data, g->out, &total, err));
    RP_TRY_OUT(autograph_output_new(&g->of->value, &m, 1, g->to->ran, g->to->reason, &o, err));
    RP_TRY_OUT(rp_output_value(o, &value, err));
    RP_TRY_OUT(autograph_value_each((rp_value *)(uintptr_t)value, place, g, err));
    RP_TRY_OUT(run_graph(g, err));
    *g->to->output = o;
    o = NULL;
out:
    rp_output_free(o);
    autograph_memory_unref(m);
    return st;
}

/* The tensors of the result in order. One that is there twice is written to the first of its places and copied to the others. */
static rp_status take_given(void *user, rp_value *v, rp_error *err) {
    giving *g = user;
    rp_buffer *want = &g->out[v->as.integer - 1];
    if (g->n == g->to->n)
        return rp_fail(err, RP_INVALID, "the result has more tensors than the %u that were given",
                       g->n);
    const rp_buffer *is = &g->to->buffer[g->n];
    if (is->dtype != want->dtype || is->rank != want->rank)
        return rp_fail(err, RP_INVALID, "output %u is %s of rank %u; the result has %s of rank %u",
                       g->n, rp_dtype_name(is->dtype), is->rank, rp_dtype_name(want->dtype),
                       want->rank);
    for (uint32_t d = 0; d < is->rank; d++)
        if (is->dim[d] != want->dim[d])
            return rp_fail(err, RP_INVALID,
                           "output %u size mismatch at index %u. expected %lld, actual %lld", g->n,
                           d, (long long)want->dim[d], (long long)is->dim[d]);
    size_t bytes = 0;
    if (!is->data && autograph_bytes(is, &bytes) && bytes)
        return rp_fail(err, RP_INVALID, "output %u has no data", g->n);
    if (!want->data) want->data = is->data;
    g->n++;
    return RP_OK;
}

static rp_status copy_given(void *user, rp_value *v, rp_error *err) {
    giving *g = user;
    const rp_buffer *from = &g->out[v->as.integer - 1];
    void *to = g->to->buffer[g->n++].data;
    size_t bytes = 0;
    if (to == from->data || !autograph_bytes(from, &bytes)) return RP_OK;
    return front_copy(g->f, to, from->data, bytes, err);
}

static rp_status give_into(giving *g, rp_error *err) {
    rp_value value = g->of->value;
    for (uint32_t i = 0; i < g->of->n_outputs; i++) g->out[i].data = NULL;
    RP_TRY(autograph_value_each(&value, take_given, g, err));
    if (g->n != g->to->n)
        return rp_fail(err, RP_INVALID, "the result has %u tensors; %u were given", g->n, g->to->n);
    RP_TRY(run_graph(g, err));
    g->n = 0;
    return autograph_value_each(&value, copy_given, g, err);
}

rp_status front_give(rp_jit *f, const front_result *r, const front_io *from, const front_out *to,
                     rp_error *err) {
    rp_status st = RP_OK;
    rp_buffer few[FEW];
    giving g = {.f = f, .of = r, .io = *from, .out = few, .to = to};
    if (r->n_outputs > FEW) g.out = base_alloc_array(r->n_outputs, sizeof *g.out);
    if (!g.out) return rp_fail(err, RP_NOMEM, "a call of %s", f->name);
    g.io.out = g.out;
    g.io.n_out = r->n_outputs;
    if (front_code_is_there(&r->code))
        RP_TRY_OUT(front_code_outputs(&r->code, from->in, from->n_in, g.out, r->n_outputs, err));
    bool lent = f->capture.borrows && to->mode == RP_CUDAGRAPH_FULL &&
                front_code_replays(&r->code, from);
    RP_TRY_OUT(!to->output ? give_into(&g, err)
               : lent      ? front_graphs_lend(f, r, &g.io, to, err)
                           : give_new(&g, err));
    if (f->capture.borrows && to->output) autograph_output_lease(*to->output, f->capture.lease);
out:
    if (g.out != few) base_free(g.out);
    return st;
}

/* The inputs have places. Copies go by the queue of a graph, in turn with its replay, where there is one. */
static rp_status run_placed(front_run *r, rp_error *err) {
    const front_result *result = &r->e->result;
    const autograph_around around = {before_graph, after_graph, r};
    front_io io = {.in = r->in,
                   .n_in = r->a->n_tensors + r->e->n_told,
                   .mode = r->to->mode,
                   .args = r->a,
                   .own = &r->e->dense};
    bool with_graph = r->n_copies && front_code_replays(&result->code, &io);
    if (with_graph) io.around = &around;
    if (!with_graph) RP_TRY(copy_inputs(r, NULL, true, err));
    front_code_tell(&result->code, r->to);
    RP_TRY(front_give(r->f, result, &io, r->to, err));
    return with_graph ? RP_OK : copy_inputs(r, NULL, false, err);
}

rp_status front_entry_run(rp_jit *f, front_entry *e, const front_args *a, front_out *out,
                          rp_error *err) {
    front_run r;
    r.f = f;
    r.e = e;
    r.a = a;
    r.to = out;
    r.copy = NULL;
    r.n_copies = 0;
    r.stays = false;
    const uint32_t n_in = a->n_tensors + e->n_told;
    r.in = n_in <= FEW ? r.few : base_alloc_array(n_in, sizeof *r.in);
    if (!r.in) return rp_fail(err, RP_NOMEM, "a call of %s", f->name);
    rp_status st = place_inputs(&r, err);
    if (st == RP_OK) st = run_placed(&r, err);
    run_done(&r);
    return st;
}
