/* A trace: the function runs on fake tensors until the solver learns nothing more. */
#include <ctype.h>
#include <stdio.h>

#include "autograph/value.h"
#include "base/alloc.h"
#include "base/log.h"
#include "front/recording.h"

/* Each pass learns something about a symbol; a function whose questions depend on anything but its arguments may go on for ever. */
enum { MOST_PASSES = 256 };
/* Results of functions with graph breaks are looked at in each call. */
enum { FEW_ITEMS = 8 };
/* Sizes that are others and some more, in one function. */
enum { MOST_RESTS = 8 };

/* --- what functions call ------------------------------------------------------------------------ */

rp_graph *rp_jit_graph(const rp_jit_call *call) {
    return call ? call->g : NULL;
}

/* The number of a fake tensor, from 1; 0 for another value, or one that was kept from another run. */
static uint32_t number_of(const rp_jit_call *call, const rp_value *v) {
    const uint64_t is = v && v->kind == RP_VALUE_TENSOR ? (uint64_t)v->as.integer : 0;
    const uint32_t n = (uint32_t)is, run = (uint32_t)(is >> 32);
    return n <= call->n && (run == 0 || run == call->g->id) ? n : 0;
}

rp_tensor(rp_jit_tensor)(const rp_jit_call *call, const rp_value *v) {
    rp_tensor bad = {.ref = IR_NONE};
    if (!call) return bad;
    bad = (rp_tensor){call->g, IR_NONE, call->g->id};
    uint32_t n = number_of(call, v);
    if (n) return trace_fetched(call->tensor[n - 1]);
    (void)rp_fail(&call->g->err, RP_INVALID,
                  "rp_jit_tensor: the value is no tensor of the arguments of this call");
    return bad;
}

/* A tensor without memory, whatever its rank: a call that is given it refuses it. */
static inline void put_fake(rp_value *v, rp_dtype dtype, uint32_t rank, uint32_t number) {
    memset(v, 0, sizeof *v);
    v->kind = RP_VALUE_TENSOR;
    v->tensor.dtype = dtype;
    v->tensor.rank = rank;
    for (uint32_t i = 0; i < rank; i++) v->tensor.dim[i] = -1; /* rp_tensor_dim tells */
    v->as.integer = number;
}

static uint32_t add_tensor(rp_jit_call *call, rp_tensor x) {
    if (call->n == call->cap) {
        uint32_t cap = call->cap ? call->cap * 2 : 16;
        rp_tensor *p = base_realloc_array(call->tensor, cap, sizeof *p);
        if (!p) {
            (void)rp_fail(&call->g->err, RP_NOMEM, "tensors of a call");
            return 0;
        }
        call->tensor = p;
        call->cap = cap;
    }
    call->tensor[call->n++] = x;
    return call->n;
}

bool front_add_tensor(rp_jit_call *call, rp_tensor x) {
    return add_tensor(call, x) != 0;
}

rp_value rp_jit_value_at(rp_jit_call *call, rp_tensor x, const char *file, int line) {
    if (!call) return rp_value_none();
    if (x.graph != call->g || !trace_is_live(x)) {
        (void)rp_fail(&call->g->err, RP_INVALID,
                      "rp_jit_value: the tensor is of another graph than this call's%s",
                      trace_kept(x));
        if (file)
            (void)rp_at((rp_tensor){call->g, IR_NONE, call->g->id}, "rp_jit_value", file, line);
        return rp_value_none();
    }
    uint32_t rank = x.ref == IR_NONE ? 0 : ir_node_at(call->g->ir, x.ref)->shape.rank;
    rp_value v;
    put_fake(&v, rp_tensor_dtype(x), rank, add_tensor(call, x));
    v.as.integer |= (int64_t)((uint64_t)call->g->id << 32);
    return v;
}

rp_value(rp_jit_value)(rp_jit_call *call, rp_tensor x) {
    return rp_jit_value_at(call, x, NULL, 0);
}

/* --- arguments ------------------------------------------------------------------------------------ */

static bool is_taken(const rp_graph *g, const char *name) {
    uint32_t k = ir_leaf_count(g->ir, IR_LEAF_INPUT);
    while (k > 0 &&
           strcmp(ir_node_at(g->ir, ir_leaf_at(g->ir, IR_LEAF_INPUT, k - 1))->name, name) != 0)
        k--;
    return k > 0;
}

void front_input_name(const char *source, uint32_t i, const rp_graph *g, char out[64]) {
    size_t n = 0;
    const char *z = source + 1;
    while (*z && !isalnum((unsigned char)*z)) z++;
    if (!isalpha((unsigned char)*z)) n = (size_t)snprintf(out, 64, "arg");
    for (; *z && n < 40; z++) {
        if (isalnum((unsigned char)*z))
            out[n++] = *z;
        else if (n && out[n - 1] != '_')
            out[n++] = '_';
    }
    while (n && out[n - 1] == '_') n--;
    out[n] = 0;
    for (; is_taken(g, out); i++) (void)snprintf(out + n, 64 - n, "_%u", i);
}

/* What is traced: the arguments, and the symbols that their sizes are, by word. */
typedef struct tracing {
    rp_jit *f;
    const front_args *a;
    front_sizes sizes; /* which become symbols */
    uint32_t *symbol;  /* of each word; UINT32_MAX: the number */
    bool eager;
    uint32_t poison; /* as front_fill_ints: which integers are not what they are */
    bool *dims;      /* by word: integers that were taken as sizes */
    front_traced *out;
    rp_value args; /* fake */
    void *block;
} tracing;

static rp_status make_input(const tracing *t, rp_jit_call *call, uint32_t i, rp_error *err) {
    const rp_buffer *b = &t->a->tensor[i]->tensor;
    rp_shape shape = {.rank = b->rank};
    base_buf source;
    char name[64];
    base_buf_init(&source, 0);
    (void)front_describe(t->a->word, t->a->at[i], &source);
    rp_status st = base_buf_status(&source, err);
    if (st == RP_OK) front_input_name(source.data, i, call->g, name);
    base_buf_done(&source);
    RP_TRY(st);
    for (uint32_t d = 0; d < b->rank; d++) {
        uint32_t y = t->symbol[t->a->at[i] + 1 + d];
        if (y == UINT32_MAX) {
            shape.dim[d] = rp_dim_const(b->dim[d]);
            continue;
        }
        shape.dim[d] = trace_dim_out(call->g, front_solver_size(&t->out->sizes, y));
    }
    (void)add_tensor(call, (rp_mutable_input)(call->g, name, b->dtype, shape));
    call->g->n_fresh = 0; /* its lines are those that fetch it */
    return RP_OK;
}

static rp_status number_next(void *user, rp_value *v, rp_error *err) {
    uint32_t *n = user;
    bool state = v->state;
    (void)err;
    put_fake(v, v->tensor.dtype, v->tensor.rank, ++*n);
    v->state = state;
    return RP_OK;
}

rp_status front_fake_args(const rp_jit *f, const front_args *a, rp_value *out, void **block,
                          rp_error *err) {
    uint32_t n = 0;
    *block = base_alloc(16 + autograph_value_size(a->value));
    if (!*block) return rp_fail(err, RP_NOMEM, "arguments of %s", f->name);
    *out = autograph_value_copy(a->value, *block);
    front_fill_ints(out, a, NULL, FRONT_NO_POISON);
    return autograph_value_each(out, number_next, &n, err);
}

/* --- symbols ---------------------------------------------------------------------------------------- */

/* An upper end of a range as torch has it. */
static const char *end_of(int64_t max, char out[24]) {
    (void)snprintf(out, 24, "%lld", (long long)max);
    return max == INT64_MAX ? "int_oo" : out;
}

/* The symbol that this size is to be, by marks and history; false where it is a number. */
static rp_status want_symbol(const tracing *t, const char *source, const rp_value *v, uint32_t d,
                             front_symbol *out, bool *is, rp_error *err) {
    const front_mark *m = front_mark_of(t->f, source, d, v->tensor.rank);
    int64_t hint = v->tensor.dim[d];
    *is = false;
    *out = (front_symbol){.hint = hint, .max = INT64_MAX, .divisor = 1, .table_i = UINT32_MAX};
    if (v->state || (m && m->kind == FRONT_MARK_STATIC)) return RP_OK;
    if (m && (hint < m->min || hint > m->max)) {
        char max[24];
        return rp_fail(
            err, RP_INVALID, "%s: %s.size()[%u] is %lld, which is outside of its mark, [%lld, %s]",
            t->f->name, source, d, (long long)hint, (long long)m->min, end_of(m->max, max));
    }
    if (t->eager) return RP_OK; /* a number */
    if (m && m->yields && front_has_own_code(t->f, hint)) return RP_OK;
    if (m) {
        *is = true;
        out->yields = m->yields;
        out->policy = m->kind == FRONT_MARK_DYNAMIC ? FRONT_MARKED : FRONT_UNBACKED;
        out->strict = m->max != INT64_MAX;
        out->min = m->min;
        out->max = m->max;
        return RP_OK;
    }
    /* 0 and 1 broadcast and contract as no other sizes do. */
    if ((t->f->shapes == CONFIG_SHAPES_BACKED && hint <= 1) || front_has_own_code(t->f, hint))
        return RP_OK;
    *is = t->sizes >= FRONT_ALL || (t->sizes == FRONT_BY_HISTORY && front_wobbled(t->f, source, d));
    if (t->f->shapes == CONFIG_SHAPES_UNBACKED) out->policy = FRONT_UNBACKED;
    out->yields = out->policy == FRONT_BACKED;
    return RP_OK;
}

static void log_symbol(const front_symbol *y) {
    char max[24];
    base_log_ch(RP_LOG_CH_DYNAMIC, false, "create_symbol %s = %lld for %s [%lld, %s]", y->name,
                (long long)y->hint, y->source, (long long)y->min, end_of(y->max, max));
}

static rp_status add_symbols(tracing *t, uint32_t i, rp_error *err) {
    front_solver *s = &t->out->sizes;
    const rp_value *v = t->a->tensor[i];
    rp_status st = RP_OK;
    base_buf source;
    base_buf_init(&source, 0);
    (void)front_describe(t->a->word, t->a->at[i], &source);
    RP_TRY_OUT(base_buf_status(&source, err));
    size_t len = source.len;
    for (uint32_t d = 0; d < v->tensor.rank; d++) {
        front_symbol *y = &s->symbol[s->n_symbols];
        bool is;
        source.data[source.len = len] = 0;
        RP_TRY_OUT(want_symbol(t, source.data, v, d, y, &is, err));
        if (!is) continue;
        base_buf_printf(&source, ".size()[%u]", d);
        RP_TRY_OUT(base_buf_status(&source, err));
        y->source = base_strdup(source.data);
        if (!y->source) {
            st = rp_fail(err, RP_NOMEM, "sizes of %s", t->f->name);
            goto out;
        }
        y->word = t->a->at[i] + 1 + d;
        (void)snprintf(y->name, sizeof y->name, "%c%u", y->policy == FRONT_UNBACKED ? 'u' : 's',
                       s->n_symbols);
        t->symbol[y->word] = s->n_symbols++;
        log_symbol(y);
    }
out:
    base_buf_done(&source);
    return st;
}

static rp_status make_symbols(tracing *t, bool eager, rp_error *err) {
    front_solver *s = &t->out->sizes;
    s->what = t->f->name;
    t->symbol = base_alloc_array(t->a->n, sizeof *t->symbol);
    t->dims = base_alloc_array(t->a->n, sizeof *t->dims);
    s->symbol = base_alloc_array((size_t)t->a->n_tensors * RP_MAX_RANK + front_count_ints(t->a) +
                                     MOST_RESTS + 1,
                                 sizeof *s->symbol);
    s->room = MOST_RESTS;
    if (!t->symbol || !t->dims || !s->symbol)
        return rp_fail(err, RP_NOMEM, "sizes of %s", t->f->name);
    for (uint32_t i = 0; i < t->a->n; i++) t->symbol[i] = UINT32_MAX;
    bool marked = true;
    if (eager) { /* without the turn, and without symbols: marks are only held */
        (void)pthread_mutex_lock(&t->f->lock);
        marked = t->f->marks != NULL;
        (void)pthread_mutex_unlock(&t->f->lock);
    }
    for (uint32_t i = 0; i < t->a->n_tensors && marked; i++) RP_TRY(add_symbols(t, i, err));
    return marked ? front_int_symbols(t->f, t->a, t->sizes, eager, s, err) : RP_OK;
}

/* --- results ------------------------------------------------------------------------------------------ */

/* Whether v can be copied: what it points to is there. */
static rp_status check_result(const rp_value *v, uint32_t depth, rp_error *err) {
    bool items = v->kind == RP_VALUE_LIST || v->kind == RP_VALUE_TUPLE || v->kind == RP_VALUE_MAP;
    if ((unsigned)v->kind > RP_VALUE_MAP)
        return rp_fail(err, RP_INVALID, "the result has kind %d, which is no kind of value",
                       (int)v->kind);
    if (v->kind == RP_VALUE_STRING && !v->as.string)
        return rp_fail(err, RP_INVALID, "the result has a string that is NULL");
    if (!items) return RP_OK;
    if (depth >= RP_MAX_VALUE_DEPTH)
        return rp_fail(err, RP_INVALID, "the result is nested deeper than %d", RP_MAX_VALUE_DEPTH);
    if (v->n && (!v->item || (v->kind == RP_VALUE_MAP && !v->name)))
        return rp_fail(err, RP_INVALID, "the result has a %s of %u items without any",
                       v->kind == RP_VALUE_MAP ? "map" : "list or tuple", v->n);
    if (!autograph_items_are_there(v, FEW_ITEMS))
        return rp_fail(err, RP_INVALID,
                       "the result has a %s of %u items, which ends where memory can no longer be "
                       "read; n is too large",
                       v->kind == RP_VALUE_MAP ? "map" : "list or tuple", v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->kind == RP_VALUE_MAP && !v->name[i])
            return rp_fail(err, RP_INVALID, "item %u of a map of the result has no name", i);
        RP_TRY(check_result(&v->item[i], depth + 1, err));
    }
    return RP_OK;
}

typedef struct outputs {
    const rp_jit_call *call;
    front_returned *r;
} outputs;

/* Gives v the number of its output, which equal tensors share. */
static rp_status number_output(void *user, rp_value *v, rp_error *err) {
    outputs *o = user;
    front_returned *r = o->r;
    uint32_t n = number_of(o->call, v), i = 0;
    if (!n)
        return rp_fail(err, RP_INVALID,
                       "the result has a tensor that is not of this call; give rp_jit_value");
    rp_tensor x = o->call->tensor[n - 1];
    while (i < r->n && r->tensor[i].ref != x.ref) i++;
    if (i == r->n) r->tensor[r->n++] = x;
    put_fake(v, v->tensor.dtype, v->tensor.rank, i + 1);
    return RP_OK;
}

rp_status front_take_result(rp_jit_call *call, const rp_value *result, front_returned *out,
                            rp_error *err) {
    outputs o = {call, out};
    out->block = NULL;
    out->tensor = NULL;
    out->n = 0;
    /* A failure of the trace comes first: it is why a value is none. */
    if (call->g->err.code != RP_OK) return rp_graph_finish(call->g, NULL, 0, err);
    RP_TRY(check_result(result, 0, err));
    size_t size = autograph_value_size(result); /* of a tensor alone: nothing */
    if (size) out->block = base_alloc(size);
    if (size && !out->block) return rp_fail(err, RP_NOMEM, "a result");
    out->value = autograph_value_copy(result, out->block);
    uint32_t n = autograph_value_tensors(result);
    out->tensor = n <= sizeof out->few / sizeof *out->few
                      ? out->few
                      : base_alloc_array(n, sizeof *out->tensor);
    if (!out->tensor) return rp_fail(err, RP_NOMEM, "a result");
    return autograph_value_each(&out->value, number_output, &o, err);
}

void front_returned_done(front_returned *r) {
    base_free(r->block);
    if (r->tensor != r->few) base_free(r->tensor);
}

rp_status front_end_of(rp_jit_call *call, front_returned *r, rp_error *err) {
    ir_ref few[16] = {0}, *refs = few;
    if (r->n > sizeof few / sizeof *few) refs = base_alloc_array(r->n, sizeof *refs);
    if (!refs) return rp_fail(err, RP_NOMEM, "a result");
    for (uint32_t i = 0; i < r->n; i++) refs[i] = r->tensor[i].ref;
    rp_status st = front_session_end(call->session, &r->value, refs, r->n, err);
    if (refs != few) base_free(refs);
    return st;
}

/* The graph declares to write what it writes; states in any case, which stay where they are. */
static void settle_inputs(const rp_jit_call *call) {
    for (uint32_t i = 0; i < call->a->n_tensors; i++)
        if (call->g->err.code == RP_OK && !call->a->tensor[i]->state)
            ir_input_settle(call->g->ir, call->tensor[i].ref);
}

static rp_status finish(front_traced *out, rp_jit_call *call, const rp_value *result,
                        rp_error *err) {
    front_returned r;
    rp_status st = front_take_result(call, result, &r, err);
    if (st == RP_OK && !call->session) st = front_support_writes(call, err);
    if (st == RP_OK && !call->session) settle_inputs(call);
    if (st == RP_OK)
        st = call->session ? front_end_of(call, &r, err)
                           : rp_graph_finish(call->g, r.tensor, r.n, err);
    if (st == RP_OK) {
        out->result = r.value;
        out->block = r.block;
        out->n_outputs = r.n;
        r.block = NULL;
    }
    front_returned_done(&r);
    return st;
}

/* --- passes ------------------------------------------------------------------------------------------- */

static void forget_pass(front_traced *out) {
    rp_graph_free(out->graph);
    base_free(out->block);
    out->graph = NULL;
    out->block = NULL;
}

/* The function was run: what it wanted is the recording's, with steps that are compiled now. */
static rp_status keep_run(front_traced *out, rp_jit_call *call, rp_status st, rp_error *err) {
    front_session *s = call->session;
    out->began = true;
    out->given = st == RP_OK;
    if (st == RP_OK && s->keep) st = front_settle(s, err);
    out->fell = s->fell;
    front_session_done(s);
    out->recording = s->rec;
    out->graph = NULL; /* the recording's */
    return st;
}

static rp_status run_pass(tracing *t, rp_error *err) {
    front_traced *out = t->out;
    front_solver *s = &out->sizes;
    trace_oracle oracle = {s,           front_solver_ask, front_solver_example, front_solver_told,
                           &s->n_facts, &s->told};
    rp_value result = rp_value_none();
    rp_status st = RP_OK;
    rp_jit_call call = {.f = t->f,
                        .a = t->a,
                        .g = rp_graph_new(t->f->name),
                        .sizes = s,
                        .dims = t->dims,
                        .eager = t->eager,
                        .probing = t->poison != FRONT_NO_POISON,
                        .to = out->to};
    out->graph = call.g;
    if (!call.g) return rp_fail(err, RP_NOMEM, "trace of %s", t->f->name);
    for (uint32_t i = 0; i < s->n_symbols; i++) s->symbol[i].leaf = IR_NONE;
    front_fill_ints(&t->args, t->a, s, t->poison);
    st = front_solver_begin(s, ir_graph_dims(call.g->ir), &call.g->err);
    if (st != RP_OK) {
        st = rp_fail(err, st, "%s", call.g->err.text);
        goto out;
    }
    call.g->oracle = &oracle;
    ir_dims_set_assume(s->t, front_solver_assume, s);
    for (uint32_t i = 0; i < t->a->n_tensors; i++) RP_TRY_OUT(make_input(t, &call, i, err));
    RP_TRY_OUT(front_tell_rests(&call, err));
    call.g->call = &call; /* no further inputs */
    front_leave_sizes(t->f, s);
    rp_graph *around = trace_enter(call.g);
    st = t->f->fn(t->f->user, &call, &t->args, &result, err);
    (void)trace_enter(around);
    RP_TRY_OUT(st);
    RP_TRY_OUT(finish(out, &call, &result, err));
out:
    call.g->oracle = NULL;
    call.g->call = NULL;
    ir_dims_set_assume(ir_graph_dims(call.g->ir), NULL, NULL);
    out->began = call.broken;
    if (call.session) st = keep_run(out, &call, st, err);
    base_free(call.tensor);
    return st;
}

rp_status front_failed(const rp_jit *f, rp_status st, const rp_error *why, rp_error *err) {
    if (why->text[0]) return rp_fail(err, st, "%s: %s", f->name, why->text);
    return rp_fail(err, st,
                   "%s: the function gave '%s' back without a text; write one to err->text",
                   f->name, rp_status_name(st));
}

/* Passes until nothing is new. */
static rp_status trace_until_known(tracing *t, rp_error *err) {
    front_traced *out = t->out;
    for (uint32_t pass = 0; pass <= MOST_PASSES; pass++) {
        rp_error why = {0};
        forget_pass(out);
        rp_status st = run_pass(t, &why);
        if (st == RP_NOMEM || out->began || out->sizes.refused || !out->sizes.changed)
            return st == RP_OK ? st : front_failed(t->f, st, &why, err);
        front_solver_again(&out->sizes);
    }
    return rp_fail(err, RP_INVALID,
                   "%s: its questions on sizes differ each time that it is traced; ask of the "
                   "arguments alone",
                   t->f->name);
}

/* Whether the function makes the same where the integers `poison` are other numbers: that trace is *t->out then. */
static rp_status makes_the_same(tracing *t, uint32_t poison, bool *same, rp_error *err) {
    front_traced *out = t->out, before = *out;
    rp_error why = {0};
    out->graph = NULL;
    out->block = NULL;
    t->poison = poison;
    rp_status st = run_pass(t, &why);
    t->poison = FRONT_NO_POISON;
    out->began = false;
    *same = false;
    if (st == RP_NOMEM)
        st = rp_fail(err, st, "%s", why.text);
    else
        st = st == RP_OK ? front_same_traced(&before, out, same, err) : RP_OK;
    if (*same) {
        forget_pass(&before);
        return st;
    }
    forget_pass(out);
    out->graph = before.graph;
    out->block = before.block;
    out->result = before.result;
    out->n_outputs = before.n_outputs;
    return st;
}

static uint32_t count_open(const front_solver *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_symbols; i++) n += front_is_open_int(&s->symbol[i]);
    return n;
}

/* Symbols of integers that the function reads as numbers, too, are fixed; *again: there are some, and what else there is is not known yet. */
static rp_status try_ints(tracing *t, bool *again, rp_error *err) {
    front_solver *s = &t->out->sizes;
    const uint32_t n = count_open(s);
    bool same = true;
    *again = false;
    if (n == 0) return RP_OK;
    RP_TRY(makes_the_same(t, FRONT_ALL_POISON, &same, err));
    if (same) return RP_OK;
    *again = true;
    for (uint32_t i = 0; n > 1 && i < s->n_symbols; i++) {
        if (!front_is_open_int(&s->symbol[i])) continue;
        RP_TRY(makes_the_same(t, i, &same, err));
        if (!same) return front_int_is_number(t->f, s, i, err);
    }
    for (uint32_t i = 0; i < s->n_symbols; i++) /* all together */
        if (front_is_open_int(&s->symbol[i])) RP_TRY(front_int_is_number(t->f, s, i, err));
    return RP_OK;
}

/* History is to know. */
static rp_status note_taken(const tracing *t, rp_error *err) {
    rp_status st = RP_OK;
    base_buf source;
    base_buf_init(&source, 0);
    for (uint32_t i = 0; st == RP_OK && i < t->a->n; i++) {
        if (!t->dims[i]) continue;
        base_buf_clear(&source);
        (void)front_describe(t->a->word, i, &source);
        st = base_buf_status(&source, err);
        if (st == RP_OK) front_see_taken(t->f, source.data);
    }
    base_buf_done(&source);
    return st;
}

rp_status front_trace(rp_jit *f, const front_args *a, front_sizes sizes, bool eager,
                      front_traced *out, rp_error *err) {
    rp_status st = RP_OK;
    bool again = true;
    front_symbol *first = NULL;
    tracing t = {
        .f = f, .a = a, .sizes = sizes, .eager = eager, .poison = FRONT_NO_POISON, .out = out};
    *out = (front_traced){.to = out->to};
    RP_TRY_OUT(front_support_check(f, a, err));
    RP_TRY_OUT(make_symbols(&t, eager, err));
    RP_TRY_OUT(front_fake_args(f, a, &t.args, &t.block, err));
    const uint32_t n = out->sizes.n_symbols;
    first = base_alloc_array(n + 1u, sizeof *first);
    if (!first) {
        st = rp_fail(err, RP_NOMEM, "sizes of %s", f->name);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) first[i] = out->sizes.symbol[i];
    while (again) {
        again = false;
        RP_TRY_OUT(trace_until_known(&t, err));
        if (!out->began) RP_TRY_OUT(try_ints(&t, &again, err));
        /* What was learnt of it as a size is nothing that the next trace relies on. */
        if (again) front_solver_restart(&out->sizes, first, n);
    }
    front_ints_settle(f, &out->sizes);
    if (!eager) st = note_taken(&t, err);
out:
    base_free(first);
    base_free(t.symbol);
    base_free(t.dims);
    base_free(t.block);
    return st;
}

void front_traced_done(front_traced *t) {
    forget_pass(t);
    front_recording_free(t->recording);
    front_solver_done(&t->sizes);
}
