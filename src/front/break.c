/* Graph breaks: what a function calls where the host wants a value, and the runs of a function that has some. */
#include <math.h>
#include <stdio.h>

#include "autograph/memory.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "front/again.h"
#include "front/report.h"
#include "ir/site.h"

/* --- telling --------------------------------------------------------------------------------- */

/* Line `line` of a source file, where it can be read, without its indentation. */
static void put_source(const char *file, int line, base_buf *out) {
    char text[512];
    FILE *in = file ? fopen(file, "r") : NULL;
    if (!in) return;
    bool found = false;
    for (int i = 0; i < line && (found = fgets(text, sizeof text, in) != NULL);)
        i += strchr(text, '\n') != NULL;
    (void)fclose(in);
    if (!found) return;
    text[strcspn(text, "\r\n")] = 0;
    base_buf_printf(out, "\n    %s", text + strspn(text, " \t"));
}

static void put_break(const rp_jit *f, const front_break *why, base_buf *out) {
    const char *file = why->file ? why->file : f->file;
    base_buf_printf(out, "Graph break in user code at %s:%d\n", file, why->line);
    base_buf_printf(out, "Reason: Unsupported: %s\n", why->reason);
    base_buf_puts(out, "User code traceback:\n");
    base_buf_printf(out, "  File \"%s\", line %d, in %s", file, why->line, f->name);
    put_source(why->file, why->line, out);
}

/* By lock. Other entries come to the same break; torch tells it once, too. */
static bool is_new_break(rp_jit *f, const base_buf *text) {
    const uint64_t hash = base_hash64(text->data, text->len);
    const uint32_t n = f->n_breaks_told;
    for (uint32_t i = 0; i < n && i < FRONT_BREAKS_TOLD; i++)
        if (f->break_told[i] == hash) return false;
    f->break_told[n % FRONT_BREAKS_TOLD] = hash;
    f->n_breaks_told++;
    return true;
}

void front_break_tell(rp_jit *f, const front_break *why) {
    base_buf b;
    bool is_new = false;
    (void)pthread_mutex_lock(&f->lock);
    f->breaks++;
    (void)pthread_mutex_unlock(&f->lock);
    base_buf_init(&b, 0);
    put_break(f, why, &b);
    if (!b.failed) front_note_text(f, FRONT_NOTE_BREAK, 0, b.data);
    (void)pthread_mutex_lock(&f->lock);
    if (!b.failed && base_log_on(RP_LOG_CH_GRAPH_BREAKS, false)) is_new = is_new_break(f, &b);
    (void)pthread_mutex_unlock(&f->lock);
    if (!b.failed && (is_new || base_log_on(RP_LOG_CH_GRAPH_BREAKS, true)))
        base_log_ch(RP_LOG_CH_GRAPH_BREAKS, false, "%s", b.data);
    base_buf_done(&b);
}

/* --- breaking ---------------------------------------------------------------------------------- */

/* The trace comes to its first break: from here on it is a run. */
static RP_APART rp_status begin(rp_jit_call *call, rp_error *err) {
    front_session *s = &call->room;
    *s = (front_session){.f = call->f,
                         .a = call->a,
                         .sizes = call->sizes,
                         .to = call->to,
                         .number = call->eager ? 0 : call->f->next_number, /* by turn */
                         .keep = !call->eager};
    RP_TRY(front_tell_rests(call, err)); /* of this pass */
    RP_TRY(front_recording_new(call, &s->rec, err));
    call->session = s;
    return front_session_begin(s, err);
}

#define BODY                                                                                   \
    "the body of a loop or branch, which has no values while it is traced: break in front of " \
    "the loop or branch, or behind it, and hand values in as arguments"

/* In a body, or with fullgraph. */
static RP_COLD rp_status refuse(rp_jit_call *call, const front_break *why, rp_error *err) {
    if (call->g->in_body)
        return rp_fail(err, RP_INVALID, "graph break in " BODY " (%s)", why->reason);
    call->broken = true;
    return rp_fail(err, RP_UNSUPPORTED,
                   "graph break with fullgraph: %s; keep the value in the graph, or allow "
                   "breaks",
                   why->reason);
}

static rp_status force(rp_jit_call *call, const ir_ref *wanted, uint32_t n, const front_break *why,
                       rp_error *err) {
    if (call->g->in_body || call->f->fullgraph || call->probing) return refuse(call, why, err);
    if (!call->session) RP_TRY(begin(call, err));
    return front_force(call->session, wanted, n, why, err);
}

/* The line, unless text begins with it. */
static RP_COLD bool blame(rp_graph *g, rp_status st, const char *file, int line, const char *text) {
    char at[256];
    int n = file ? snprintf(at, sizeof at, "%s:%d: ", file, line) : 0;
    bool has = n > 0 && strncmp(text, at, strlen(at)) == 0;
    if (file && !has)
        (void)rp_fail(&g->err, st, "%s:%d: %s", file, line, text);
    else
        (void)rp_fail(&g->err, st, "%s", text);
    g->blamed = true;
    return false;
}

/* The first of a run, or one where the run may go another way. */
static RP_APART bool break_apart(rp_jit_call *call, const ir_ref *wanted, uint32_t n,
                                 const char *reason, const char *file, int line) {
    const front_break why = {reason, file, line};
    rp_error e;
    base_error_clear(&e);
    rp_status st = force(call, wanted, n, &why, &e);
    return st == RP_OK ? true : blame(call->g, st, file, line, e.text);
}

static RP_WITHIN bool break_at(rp_jit_call *call, const ir_ref *wanted, uint32_t n,
                               const char *reason, const char *file, int line) {
    rp_graph *g = call->g;
    front_session *s = call->session;
    rp_error e;
    if (g->err.code != RP_OK) return false;
    front_step *step = s && !g->in_body ? front_again_next(s, wanted, n) : NULL;
    if (!step) return break_apart(call, wanted, n, reason, file, line);
    base_error_clear(&e);
    rp_status st = front_again_run(s, step, &e);
    if (st != RP_OK) return blame(g, st, file, line, e.text);
    front_again_pass(s, step);
    s->last_break = (front_break){reason, file, line};
    return true;
}

bool front_break_at(rp_jit_call *call, const ir_ref *wanted, uint32_t n, const front_break *why) {
    return break_at(call, wanted, n, why->reason, why->file, why->line);
}

/* --- what functions call -------------------------------------------------------------------------- */

bool rp_jit_failed(const rp_jit_call *call) {
    return !call || call->g->err.code != RP_OK;
}

void rp_jit_break_at(rp_jit_call *call, const char *reason, const char *file, int line) {
    if (!reason || !*reason) reason = "a call of the host";
    if (call) (void)break_at(call, NULL, 0, reason, file, line);
}

/* Of a version the host gets a copy, since its memory may be written before the function returns. */
static rp_status bring(front_session *s, ir_ref ref, rp_buffer *b, rp_error *err) {
    size_t bytes = 0;
    if (!s->f->stream && ir_node_at(s->rec->g->ir, ref)->memory == IR_NONE) return RP_OK;
    if (!autograph_bytes(b, &bytes)) return rp_fail(err, RP_NOMEM, "a value");
    front_read *r = base_alloc_aligned(sizeof *r + bytes, 64);
    if (!r) return rp_fail(err, RP_NOMEM, "a value of %zu bytes", bytes);
    r->next = s->read;
    s->read = r;
    rp_status st = front_copy(s->f, r->data, b->data, bytes, err);
    b->data = r->data;
    return st;
}

/* The value of x in memory of the host; data NULL: the call has failed. */
static rp_buffer read_value(rp_tensor x, const front_break *why) {
    rp_buffer none = {.data = NULL};
    rp_graph *g = x.graph;
    if (!g || !trace_check_live(why->reason, x) || g->err.code != RP_OK) return none;
    if (!g->call && g->body) {
        (void)rp_fail(&g->err, RP_INVALID, "%s:%d: graph break in " BODY " (%s)", why->file,
                      why->line, why->reason);
        g->blamed = true;
        return none;
    }
    if (!g->call) {
        (void)rp_fail(&g->err, RP_INVALID,
                      "%s:%d: a tensor of graph @%s has no value while it is traced; values are "
                      "for functions that compile themselves",
                      why->file, why->line, ir_graph_name(g->ir));
        g->blamed = true;
        return none;
    }
    if (!front_break_at(g->call, &x.ref, 1, why)) return none;
    rp_buffer b = *front_held_of(g->call->session, x.ref);
    return bring(g->call->session, x.ref, &b, &g->err) == RP_OK ? b : none;
}

rp_buffer rp_jit_read_at(rp_jit_call *call, rp_tensor x, const char *file, int line) {
    front_break why = {"Tensor.numpy()", file, line};
    rp_buffer none = {.data = NULL};
    if (!call || x.graph != call->g || !trace_is_live(x)) {
        if (call)
            (void)rp_fail(&call->g->err, RP_INVALID,
                          "%s:%d: rp_jit_read: the tensor is of another graph than this call's%s",
                          file, line, trace_kept(x));
        return none;
    }
    return read_value(x, &why);
}

typedef union number {
    double d;
    float f;
    int64_t l;
    int32_t i;
    uint8_t b;
} number;

/* The one element of x, in one of the types of a number; RP_DTYPE_COUNT_: the call has failed. */
static rp_dtype item_of(rp_tensor x, const char *file, int line, number *out) {
    front_break why = {"Tensor.item()", file, line};
    rp_dtype t = rp_tensor_dtype(x);
    bool narrow = t == RP_DTYPE_I16 || t == RP_DTYPE_I8 || t == RP_DTYPE_U8;
    if (t == RP_DTYPE_F16 || t == RP_DTYPE_BF16 || ir_dtype_is_f8(t)) x = rp_cast(x, RP_DTYPE_F32);
    if (narrow) x = rp_cast(x, RP_DTYPE_I32);
    rp_buffer b = read_value(x, &why);
    size_t bytes = 0;
    if (!b.data) return RP_DTYPE_COUNT_;
    if (rp_dtype_is_quant(b.dtype) || !autograph_bytes(&b, &bytes) ||
        bytes != rp_dtype_block_bytes(b.dtype)) {
        (void)rp_fail(&x.graph->err, RP_INVALID, "%s:%d: item of %s, which is not one number", file,
                      line, ir_type_of(x.graph->ir, x.ref).s);
        x.graph->blamed = true;
        return RP_DTYPE_COUNT_;
    }
    memcpy(out, b.data, bytes);
    return b.dtype;
}

double rp_item_at(rp_tensor x, const char *file, int line) {
    number n = {0};
    switch (item_of(x, file, line, &n)) {
    case RP_DTYPE_F32: return n.f;
    case RP_DTYPE_F64: return n.d;
    case RP_DTYPE_I64: return (double)n.l;
    case RP_DTYPE_I32: return n.i;
    case RP_DTYPE_BOOL: return n.b;
    default: return NAN;
    }
}

/* Floats towards zero, those that do not fit saturated. */
static int64_t to_integer(double d) {
    if (d != d) return 0;
    if (d >= 0x1p63) return INT64_MAX;
    return d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

int64_t rp_item_int_at(rp_tensor x, const char *file, int line) {
    number n = {0};
    switch (item_of(x, file, line, &n)) {
    case RP_DTYPE_F32: return to_integer(n.f);
    case RP_DTYPE_F64: return to_integer(n.d);
    case RP_DTYPE_I64: return n.l;
    case RP_DTYPE_I32: return n.i;
    case RP_DTYPE_BOOL: return n.b;
    default: return 0;
    }
}

/* --- runs -------------------------------------------------------------------------------------------- */

typedef struct ranking {
    const ir_ref *refs;
    uint32_t n;
} ranking;

/* Outputs of a piece are in the order of the graph. */
static rp_status rank(void *user, rp_value *v, rp_error *err) {
    const ranking *k = user;
    ir_ref r = k->refs[v->as.integer - 1];
    int64_t at = 1;
    (void)err;
    for (uint32_t i = 0; i < k->n; i++) at += k->refs[i] < r;
    v->as.integer = at;
    return RP_OK;
}

rp_status front_session_end(front_session *s, rp_value *result, const ir_ref *refs, uint32_t n,
                            rp_error *err) {
    ranking k = {refs, n};
    s->result = result;
    RP_TRY(autograph_value_each(result, rank, &k, err));
    return front_finish(s, refs, n, err);
}

static rp_status call_function(rp_jit_call *call, rp_error *err) {
    front_recording *rec = call->session->rec;
    rp_value result = rp_value_none();
    front_returned r;
    rp_graph *around = trace_enter(call->g);
    rp_status st = call->f->fn(call->f->user, call, &rec->args, &result, err);
    (void)trace_enter(around);
    RP_TRY(st);
    st = front_take_result(call, &result, &r, err);
    if (st == RP_OK) st = front_end_of(call, &r, err);
    front_returned_done(&r);
    return st;
}

/* The function, on the recording's graph. */
static rp_status run_function(rp_jit_call *call, rp_error *err) {
    front_session *s = call->session;
    front_recording *rec = s->rec;
    trace_oracle oracle = {s->sizes,          front_solver_ask,   front_solver_example,
                           front_solver_told, &s->sizes->n_facts, &s->sizes->told};
    rp_status st = RP_OK;
    call->g->oracle = &oracle;
    call->g->call = call;
    call->tensor = rec->tensor;
    call->cap = rec->cap_tensors;
    ir_dims_set_assume(s->sizes->t, front_solver_assume, s->sizes);
    for (uint32_t i = 0; i < rec->n_inputs; i++) {
        (void)trace_ask(call->g, rec->input[i]);
        (void)front_add_tensor(call, (rp_tensor){call->g, rec->input[i], call->g->id});
    }
    if (!rec->args_block) st = front_fake_args(call->f, call->a, &rec->args, &rec->args_block, err);
    if (rec->has_ints && st == RP_OK)
        front_fill_ints(&rec->args, call->a, call->sizes, FRONT_NO_POISON);
    if (st == RP_OK) st = call_function(call, err);
    call->g->oracle = NULL;
    call->g->call = NULL;
    ir_dims_set_assume(ir_graph_dims(call->g->ir), NULL, NULL);
    rec->tensor = call->tensor;
    rec->cap_tensors = call->cap;
    return st;
}

/* What is known of sizes now is the entry's. */
static rp_status renew_guards(rp_jit *f, front_entry *e, const front_args *a, rp_error *err) {
    front_solver copy = {0};
    front_guards made = {0}, old;
    RP_TRY(front_solver_copy(&e->recording->sizes, &copy, err));
    rp_status st = front_guards_make(&made, a, &copy, err);
    if (st != RP_OK) {
        front_guards_done(&made);
        return st;
    }
    (void)pthread_mutex_lock(&f->lock);
    old = e->guards;
    e->guards = made;
    (void)pthread_mutex_unlock(&f->lock);
    front_guards_done(&old);
    return RP_OK;
}

static rp_status run_again(rp_jit_call *call, front_made *made, rp_error *err) {
    front_session *s = call->session;
    front_recording *rec = s->rec;
    base_error_clear(&rec->g->err);
    rec->g->blamed = false;
    trace_graph_renew(rec->g);
    rec->asked.first = ++rec->asked.now;
    rec->asked.known = ir_graph_count(rec->g->ir);
    rec->asked.path.next = 0;
    RP_TRY(ir_graph_rerun(rec->g->ir, err));
    RP_TRY(front_session_begin(s, err));
    RP_TRY(run_function(call, err));
    made->given = true;
    made->past_limit = s->past_limit;
    if (s->grown) RP_TRY(front_settle(s, err));
    made->compiled = s->grown;
    made->fell = s->fell;
    return RP_OK;
}

/* The run has learnt something of sizes. An entry whose guards cannot say so lets in what it is not for. */
static rp_status keep_learnt(rp_jit *f, front_entry *e, const front_args *a, rp_status st,
                             rp_error *err) {
    rp_error none = {0};
    rp_status renewed = renew_guards(f, e, a, &none);
    if (renewed == RP_OK) return st;
    front_entry_drop(f, e);
    return st == RP_OK ? rp_fail(err, renewed, "%s", none.text) : st;
}

rp_status front_entry_replay(rp_jit *f, front_entry *e, const front_args *a, const front_out *out,
                             front_made *made, rp_error *err) {
    front_recording *rec = e->recording;
    uint32_t learnt = rec->sizes.learnt + rec->sizes.n_facts;
    rp_jit_call call;
    rp_error why;
    base_error_clear(&why);
    call.room = (front_session){.f = f,
                                .a = a,
                                .rec = rec,
                                .sizes = &rec->sizes,
                                .to = out,
                                .number = e->number,
                                .keep = true};
    call.f = f;
    call.a = a;
    call.g = rec->g;
    call.tensor = NULL;
    call.n = call.cap = 0;
    call.sizes = &rec->sizes;
    call.session = &call.room;
    call.to = out;
    call.dims = NULL;
    call.eager = call.probing = call.broken = false;
    rp_status st = run_again(&call, made, &why);
    front_session_done(&call.room);
    if (rec->sizes.learnt + rec->sizes.n_facts != learnt) st = keep_learnt(f, e, a, st, &why);
    return st == RP_OK ? st : front_failed(f, st, &why, err);
}
