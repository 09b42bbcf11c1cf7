/* Recordings, and the values of a run. */
#include "front/recording.h"

#include "autograph/manager.h"
#include "autograph/memory.h"
#include "base/alloc.h"

/* --- making -------------------------------------------------------------------------------- */

/* What was asked for so far is of the first segment. */
static rp_status note_first(front_recording *rec, rp_error *err) {
    rec->asked.first = rec->asked.now = 1;
    rec->g->asked = &rec->asked;
    for (ir_ref r = 0; r < ir_graph_count(rec->g->ir); r++)
        if (!trace_ask(rec->g, r)) return rp_fail(err, RP_NOMEM, "a recording");
    return RP_OK;
}

static rp_status note_symbols(front_recording *rec, front_solver *s, rp_error *err) {
    s->room = 0; /* these are all */
    rec->table_i = base_alloc_array(s->n_symbols + 1u, sizeof *rec->table_i);
    rec->dim = base_alloc_array(s->n_symbols + 1u, sizeof *rec->dim);
    if (!rec->table_i || !rec->dim) return rp_fail(err, RP_NOMEM, "a recording");
    for (uint32_t i = 0; i < s->n_symbols; i++) {
        rec->table_i[i] = s->symbol[i].table_i;
        rec->dim[i] = s->symbol[i].dim;
        rec->has_ints = rec->has_ints || s->symbol[i].integer;
    }
    return RP_OK;
}

rp_status front_recording_new(rp_jit_call *call, front_recording **out, rp_error *err) {
    rp_status st = RP_OK;
    front_recording *rec = base_alloc(sizeof *rec);
    if (!rec) return rp_fail(err, RP_NOMEM, "a recording");
    pthread_mutexattr_t a;
    (void)pthread_mutexattr_init(&a);
    (void)pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
    (void)pthread_mutex_init(&rec->lock, &a);
    (void)pthread_mutexattr_destroy(&a);
    rec->g = call->g;
    rec->n_inputs = call->a->n_tensors;
    rec->input = base_alloc_array(rec->n_inputs + 1u, sizeof *rec->input);
    rec->written = base_alloc_array(rec->n_inputs + 1u, sizeof *rec->written);
    if (!rec->input || !rec->written) {
        st = rp_fail(err, RP_NOMEM, "a recording");
        goto out;
    }
    for (uint32_t i = 0; i < rec->n_inputs; i++) rec->input[i] = call->tensor[i].ref;
    RP_TRY_OUT(note_symbols(rec, call->sizes, err));
    RP_TRY_OUT(note_first(rec, err));
    RP_TRY_OUT(ir_graph_rerun(rec->g->ir, err));
    *out = rec;
    rec = NULL;
out:
    if (rec) {
        rec->g->asked = NULL;
        rec->g = NULL; /* the caller's */
    }
    front_recording_free(rec);
    return st;
}

static void free_steps(front_step *s) {
    for (front_step *next; s; s = next) {
        next = s->next;
        free_steps(s->child);
        device_repeat_free(s->repeat);
        front_code_done(&s->code);
        base_free(s->wanted);
        base_free(s->effect);
        base_free(s->in);
        base_free(s->out);
        base_free(s->form);
        base_free(s->offset);
        base_free(s);
    }
}

void front_recording_free(front_recording *rec) {
    if (!rec) return;
    free_steps(rec->root.child);
    rp_graph_free(rec->g);
    front_solver_done(&rec->sizes);
    base_free(rec->table_i);
    base_free(rec->dim);
    base_free(rec->input);
    base_free(rec->asked.at);
    base_free(rec->asked.path.v);
    base_free(rec->held);
    front_room_done(&rec->room);
    front_dense_done(&rec->dense);
    base_free(rec->path);
    base_free(rec->written);
    base_free(rec->tensor);
    base_free(rec->args_block);
    (void)pthread_mutex_destroy(&rec->lock);
    base_free(rec);
}

uint64_t front_asked_at(const front_recording *rec, ir_ref r) {
    return r < rec->asked.cap ? rec->asked.at[r] : 0;
}

/* --- values ---------------------------------------------------------------------------------- */

bool front_holds(const front_session *s, ir_ref r) {
    return r < s->rec->cap_held && s->rec->held[r].run == s->first && !s->rec->held[r].stale;
}

rp_status front_hold(front_session *s, ir_ref r, const rp_buffer *b, rp_error *err) {
    front_recording *rec = s->rec;
    if (r >= rec->cap_held) {
        uint32_t cap = r < 32 ? 64 : r * 2;
        front_held *p = base_realloc_array(rec->held, cap, sizeof *p);
        if (!p) return rp_fail(err, RP_NOMEM, "values of %s", s->f->name);
        memset(p + rec->cap_held, 0, (cap - rec->cap_held) * sizeof *p);
        rec->held = p;
        rec->cap_held = cap;
    }
    front_held *h = &rec->held[r];
    *h = (front_held){s->first, false, *b, h->run == s->first ? h->memory : b->data};
    return RP_OK;
}

/* --- runs -------------------------------------------------------------------------------------- */

/* The solver answers for the table of the recording, with the sizes of this call as examples. */
static rp_status aim_solver(front_session *s, rp_error *err) {
    front_recording *rec = s->rec;
    front_solver *y = s->sizes;
    uint32_t n = ir_dims_symbol_count(ir_graph_dims(rec->g->ir));
    bool same = rec->sizes_id != 0;
    if (!front_solver_reserve(y, n + 1u)) return rp_fail(err, RP_NOMEM, "sizes of %s", s->f->name);
    int64_t *value = y->value;
    memset(value, 0, (n + 1u) * sizeof *value);
    y->t = ir_graph_dims(rec->g->ir);
    y->err = &rec->g->err;
    y->changed = y->runs = true; /* what is known is not asked for again: pieces are made with it */
    for (uint32_t i = 0; i < y->n_symbols; i++) {
        front_symbol *x = &y->symbol[i];
        x->table_i = rec->table_i[i];
        x->dim = rec->dim[i];
        const int64_t is = front_symbol_value(x, s->a->word);
        same = same && x->hint == is;
        x->hint = is;
        if (x->table_i < n) value[x->table_i] = x->hint;
    }
    rec->sizes_id += !same;
    return RP_OK;
}

/* The memory of tensor i, of this form, as the run has it. */
static rp_status copy_input(front_session *s, uint32_t i, rp_buffer *b, rp_error *err) {
    const rp_value *v = s->a->tensor[i];
    size_t bytes = 0;
    if (!autograph_bytes(b, &bytes)) return rp_fail(err, RP_NOMEM, "a dense copy");
    RP_TRY(s->keep && front_captures(s->f, s->to)
               ? front_dense_take(&s->rec->dense, s->f->device, i, bytes, &b->data, err)
               : front_own(s, bytes, &b->data, err));
    RP_TRY(front_note_argument(s->f, s->to, s->a, i, err));
    return front_copy_value(s->f, v, b->data, true, err);
}

static rp_status hold_inputs(front_session *s, rp_error *err) {
    const front_args *a = s->a;
    bool any = false; /* that is written where it lies; else nothing meets it */
    for (uint32_t i = 0; i < a->n_tensors; i++)
        any = any || a->tensor[i]->state || a->tensor[i]->strided;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        rp_buffer b = a->tensor[i]->tensor;
        bool copied = false;
        if (any) RP_TRY(front_copies(a, NULL, i, &copied, err));
        if (copied) RP_TRY(copy_input(s, i, &b, err));
        RP_TRY(front_hold(s, s->rec->input[i], &b, err));
    }
    for (uint32_t i = 0; i < s->sizes->n_symbols; i++) {
        const front_symbol *y = &s->sizes->symbol[i];
        const rp_buffer b = front_told(y, a->word);
        if (y->leaf != IR_NONE) RP_TRY(front_hold(s, y->leaf, &b, err));
    }
    return RP_OK;
}

rp_status front_session_begin(front_session *s, rp_error *err) {
    front_recording *rec = s->rec;
    s->first = rec->asked.now;
    s->at = s->keep ? &rec->root : NULL;
    s->thread = device_thread_this();
    s->effects = ir_run_effects(rec->g->ir);
    s->path = rec->path;
    s->written = rec->written;
    memset(s->written, 0, rec->n_inputs * sizeof *s->written);
    RP_TRY(aim_solver(s, err));
    return hold_inputs(s, err);
}

void front_session_done(front_session *s) {
    front_room_clear(&s->rec->room, s->f->device, s->keep);
    for (front_read *r = s->read, *next; r; r = next) {
        next = r->next;
        base_free(r);
    }
    s->read = NULL;
    s->n_path = 0;
}
