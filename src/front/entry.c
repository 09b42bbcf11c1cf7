/* Entries: compiled once, run with the memory of each call. */
#include "autograph/manager.h"
#include "autograph/memory.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "front/front.h"

enum { FEW = 32, ALIGN = 64 }; /* tensors on the stack; of an output in a block of several */

void front_entry_unref(front_entry *e) {
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
    front_guards_done(&e->guards);
    rp_compiled_free(e->compiled);
    base_free(e->block);
    base_free(e);
}

/* --- making -------------------------------------------------------------------------------- */

/* Takes over graph and result of t. */
static rp_status compile_traced(rp_jit *f, front_traced *t, const rp_compilation_config *config,
                                front_entry **out, rp_error *err) {
    rp_status st = RP_OK;
    rp_compilation_config *own = NULL; /* compiling resolves it */
    front_entry *e = base_alloc(sizeof *e);
    if (!e) return rp_fail(err, RP_NOMEM, "entry of %s", f->name);
    atomic_init(&e->refs, 1);
    RP_TRY_OUT(rp_config_clone(config, &own, err));
    RP_TRY_OUT(rp_compile_on(f->device, t->graph, own, &e->compiled, err));
    e->result = t->result;
    e->block = t->block;
    e->n_outputs = t->n_outputs;
    t->block = NULL;
    *out = e;
    e = NULL;
out:
    front_entry_unref(e);
    rp_config_free(own);
    return st;
}

rp_status front_entry_make(rp_jit *f, const front_args *a, front_sizes sizes, front_entry **out,
                           rp_error *err) {
    front_traced t;
    front_entry *e = NULL;
    rp_status st = front_trace(f, a, sizes, false, &t, err);
    if (st == RP_OK) st = compile_traced(f, &t, f->config, &e, err);
    if (st == RP_OK) st = front_guards_make(&e->guards, a, &t.sizes, err);
    front_traced_done(&t);
    if (st == RP_OK)
        *out = e;
    else
        front_entry_unref(e);
    return st;
}

rp_status front_entry_eager(rp_jit *f, const front_args *a, front_entry **out, rp_error *err) {
    front_traced t;
    rp_status st = front_trace(f, a, FRONT_STATIC, true, &t, err);
    if (st == RP_OK) st = compile_traced(f, &t, f->eager_config, out, err);
    front_traced_done(&t);
    return st;
}

/* --- running ---------------------------------------------------------------------------------- */

/* Memory of one call. */
typedef struct front_run {
    rp_buffer *in, *out;
    rp_buffer few[2 * FEW];
    void **copy; /* of inputs that are not given as they lie */
    uint32_t n_copies;
} front_run;

static bool overlap(const rp_value *a, const rp_value *b) {
    size_t n = 0, m = 0;
    uintptr_t p = (uintptr_t)a->tensor.data, q = (uintptr_t)b->tensor.data;
    return autograph_bytes(&a->tensor, &n) && autograph_bytes(&b->tensor, &m) && p < q + m &&
           q < p + n;
}

/* Whether the state that tensor i shares memory with lets it be read where it lies. */
static rp_status meets_state(const front_args *a, uint32_t i, bool *copied, rp_error *err) {
    const rp_value *v = a->tensor[i];
    for (uint32_t k = 0; k < a->n_tensors; k++) {
        const rp_value *w = a->tensor[k];
        if (k == i || !w->state || !overlap(v, w)) continue;
        if (v->state)
            return rp_fail(err, RP_INVALID,
                           "two states share memory, tensors %u and %u of the arguments; give one "
                           "of them, or a plain tensor where it is only read",
                           k, i);
        *copied = true;
    }
    return RP_OK;
}

static rp_status copy_input(const rp_jit *f, front_run *r, const front_args *a, uint32_t i,
                            rp_error *err) {
    const rp_value *v = a->tensor[i];
    size_t bytes = 0;
    if (!r->copy) r->copy = base_alloc_array(a->n_tensors, sizeof *r->copy);
    if (!r->copy || !autograph_bytes(&v->tensor, &bytes))
        return rp_fail(err, RP_NOMEM, "a dense copy of an argument");
    RP_TRY(device_alloc(f->device, bytes, &r->in[i].data, err));
    r->copy[r->n_copies++] = r->in[i].data;
    return autograph_copy_in(device_root(f->device), r->in[i].data, v, err);
}

static rp_status gather(const rp_jit *f, front_run *r, const front_args *a, rp_error *err) {
    bool states = false;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        r->in[i] = a->tensor[i]->tensor;
        states = states || a->tensor[i]->state;
    }
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        bool copied = a->tensor[i]->strided && !autograph_is_dense(a->tensor[i]);
        if (states) RP_TRY(meets_state(a, i, &copied, err));
        if (copied) RP_TRY(copy_input(f, r, a, i, err));
    }
    return RP_OK;
}

static void run_done(const rp_jit *f, front_run *r) {
    for (uint32_t i = 0; i < r->n_copies; i++) device_free(f->device, r->copy[i]);
    base_free(r->copy);
    if (r->in != r->few) base_free(r->in);
}

/* Offsets in one block; the total. */
static rp_status lay_out(const rp_buffer *out, uint32_t n, char *block, rp_buffer *placed,
                         size_t *total, rp_error *err) {
    size_t at = 0, bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!autograph_bytes(&out[i], &bytes) || !base_add_size(at, bytes + ALIGN - 1, &bytes))
            return rp_fail(err, RP_NOMEM, "a result of a size that no memory has");
        if (placed) placed[i].data = block + at;
        at = bytes / ALIGN * ALIGN;
    }
    *total = at;
    return RP_OK;
}

static rp_status place(void *user, rp_value *v, rp_error *err) {
    const front_run *r = user;
    (void)err;
    v->tensor = r->out[v->as.integer - 1];
    v->as.integer = 0; /* not taken for a tensor of a trace, where a caller gives it on */
    return RP_OK;
}

static rp_status run_new(rp_jit *f, front_entry *e, const front_args *a, front_run *r,
                         const front_out *to, rp_error *err) {
    autograph_memory *m = NULL;
    rp_output *o = NULL;
    const rp_value *value = NULL;
    size_t total = 0;
    rp_status st = RP_OK;
    RP_TRY(lay_out(r->out, e->n_outputs, NULL, NULL, &total, err));
    RP_TRY(autograph_memory_new(f->device, total, false, &m, err));
    RP_TRY_OUT(lay_out(r->out, e->n_outputs, m->data, r->out, &total, err));
    RP_TRY_OUT(autograph_output_new(&e->result, &m, 1, to->ran, to->reason, &o, err));
    RP_TRY_OUT(rp_output_value(o, &value, err));
    RP_TRY_OUT(autograph_value_each((rp_value *)(uintptr_t)value, place, r, err));
    RP_TRY_OUT(rp_compiled_run(e->compiled, r->in, a->n_tensors, r->out, e->n_outputs, err));
    *to->output = o;
    o = NULL;
out:
    rp_output_free(o);
    autograph_memory_unref(m);
    return st;
}

/* The tensors of the result in order. One that is there twice is written to the first of its places and copied to the others. */
typedef struct given {
    const front_run *r;
    const front_out *to;
    uint32_t n;
} given;

static rp_status take_given(void *user, rp_value *v, rp_error *err) {
    given *g = user;
    rp_buffer *want = &g->r->out[v->as.integer - 1];
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
    given *g = user;
    const rp_buffer *from = &g->r->out[v->as.integer - 1];
    void *to = g->to->buffer[g->n++].data;
    size_t bytes = 0;
    (void)err;
    if (to != from->data && autograph_bytes(from, &bytes) && bytes) memcpy(to, from->data, bytes);
    return RP_OK;
}

static rp_status run_into(front_entry *e, const front_args *a, front_run *r, const front_out *to,
                          rp_error *err) {
    given g = {r, to, 0};
    for (uint32_t i = 0; i < e->n_outputs; i++) r->out[i].data = NULL;
    RP_TRY(autograph_value_each(&e->result, take_given, &g, err));
    if (g.n != to->n)
        return rp_fail(err, RP_INVALID, "the result has %u tensors; %u were given", g.n, to->n);
    RP_TRY(rp_compiled_run(e->compiled, r->in, a->n_tensors, r->out, e->n_outputs, err));
    g.n = 0;
    return autograph_value_each(&e->result, copy_given, &g, err);
}

rp_status front_entry_run(rp_jit *f, front_entry *e, const front_args *a, const front_out *out,
                          rp_error *err) {
    rp_status st = RP_OK;
    front_run r = {.copy = NULL};
    size_t n = (size_t)a->n_tensors + e->n_outputs;
    r.in = n <= 2 * FEW ? r.few : base_alloc_array(n, sizeof *r.in);
    if (!r.in) return rp_fail(err, RP_NOMEM, "a call of %s", f->name);
    r.out = r.in + a->n_tensors;
    RP_TRY_OUT(gather(f, &r, a, err));
    RP_TRY_OUT(rp_compiled_outputs(e->compiled, r.in, a->n_tensors, r.out, e->n_outputs, err));
    RP_TRY_OUT(out->output ? run_new(f, e, a, &r, out, err) : run_into(e, a, &r, out, err));
out:
    run_done(f, &r);
    return st;
}
