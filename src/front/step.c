/* Steps: found in the tree of a recording, or evaluated op by op where they are new. */
#include "front/recording.h"

#include "autograph/memory.h"
#include "base/alloc.h"
#include "base/log.h"
#include "front/again.h"
#include "split/partition.h"

enum { FEW = 16 };

/* --- the tree ------------------------------------------------------------------------------ */

static inline bool is_step(const front_step *s, const ir_ref *wanted, uint32_t n,
                           const ir_ref *effect, uint32_t n_effects, bool last) {
    return s->last == last && s->n_wanted == n && s->n_effects == n_effects &&
           (n == 0 || memcmp(s->wanted, wanted, n * sizeof *wanted) == 0) &&
           (n_effects == 0 || memcmp(s->effect, effect, n_effects * sizeof *effect) == 0);
}

static ir_ref *copy_refs(const ir_ref *refs, uint32_t n) {
    ir_ref *p = base_alloc_array(n + 1u, sizeof *p);
    if (p && n) memcpy(p, refs, n * sizeof *p);
    return p;
}

static uint32_t count_ways(const front_step *s) {
    uint32_t n = 0;
    for (const front_step *c = s->child; c; c = c->next) n++;
    return n;
}

/* NULL without memory, which only means that the step is not kept. */
static front_step *add_step(const front_session *s, const ir_ref *wanted, uint32_t n,
                            const ir_ref *effect, uint32_t n_effects, bool last) {
    front_step *is = base_alloc(sizeof *is);
    if (!is) return NULL;
    *is = (front_step){.last = last, .n_wanted = n, .n_effects = n_effects};
    is->wanted = copy_refs(wanted, n);
    is->effect = copy_refs(effect, n_effects);
    if (!is->wanted || !is->effect) {
        base_free(is->wanted);
        base_free(is->effect);
        base_free(is);
        return NULL;
    }
    is->next = s->at->child;
    return s->at->child = is;
}

static RP_COLD bool widen_path(front_session *s) {
    front_recording *rec = s->rec;
    uint32_t cap = rec->cap_path ? rec->cap_path * 2 : 8;
    front_step **p = base_realloc_array(rec->path, cap, sizeof(front_step *));
    if (!p) return false;
    s->path = rec->path = p;
    rec->cap_path = cap;
    return true;
}

static inline bool push(front_session *s, front_step *step) {
    if (s->n_path == s->rec->cap_path && !widen_path(s)) return false;
    s->path[s->n_path++] = step;
    return true;
}

static void warn_ways(const front_session *s, bool accumulated) {
    const front_break *b = &s->last_break;
    base_log(RP_LOG_WARNING,
             "reprise hit %s (%u); function: '%s' (%s:%d); what follows the graph break "
             "at %s:%d differs from call to call, and runs op by op from now on; keep the value in "
             "the graph (a tensor instead of rp_item), or round it",
             accumulated ? "accumulated_recompile_limit" : "recompile_limit",
             accumulated ? s->f->all_limit : s->f->limit, s->f->name, s->f->file, s->f->line,
             b->file ? b->file : s->f->file, b->file ? b->line : s->f->line);
}

/* Whether another way on from s->at is kept. All but the first of each break count, also those of recordings that are gone: one that
 * is begun anew would compile as many again, for ever. */
static bool keeps_way(const front_session *s) {
    rp_jit *f = s->f;
    const uint32_t ways = count_ways(s->at);
    (void)pthread_mutex_lock(&f->lock);
    const bool full = ways >= f->limit, all_full = ways > 0 && f->ways >= f->all_limit;
    const bool warned = f->ways_warned;
    if (full || all_full)
        f->ways_warned = true;
    else
        f->ways += ways > 0;
    (void)pthread_mutex_unlock(&f->lock);
    if ((full || all_full) && !warned) warn_ways(s, !full);
    return !full && !all_full;
}

/* --- effects --------------------------------------------------------------------------------- */

/* The name of what effect e leaves of its operand i; IR_NONE: nobody asked. */
static ir_ref version_by(const ir_graph *g, ir_ref e, uint32_t i) {
    const ir_node *n = ir_node_at(g, e);
    if (!ir_op_is_call(n->op)) return e;
    for (ir_ref r = e + 1; r < ir_graph_count(g); r++) {
        const ir_node *w = ir_node_at(g, r);
        if (w->op == IR_written && w->in[0] == n->in[i] && w->in[1] == e) return r;
    }
    return IR_NONE;
}

static bool in_empty(const ir_graph *g, ir_ref version) {
    ir_ref leaf = ir_node_at(g, version)->memory;
    return ir_node_at(g, leaf)->op == IR_empty;
}

static bool is_among(const ir_ref *p, uint32_t n, ir_ref r) {
    uint32_t i = 0;
    while (i < n && p[i] != r) i++;
    return i < n;
}

/* Whether one of the effects overwrites version r. */
static bool is_overwritten(const ir_graph *g, ir_ref r, const ir_ref *effect, uint32_t n) {
    return ir_node_at(g, r)->memory != IR_NONE && is_among(effect, n, ir_writer_of(g, r));
}

static void mark_empties(const ir_graph *g, const ir_ref *effect, uint32_t n, uint8_t *mark) {
    for (uint32_t k = 0; k < n; k++) {
        const ir_node *e = ir_node_at(g, effect[k]);
        uint64_t writes = ir_node_writes(e);
        for (uint32_t i = 0; i < e->n_in && i < 64; i++) {
            if (!(writes >> i & 1) || !in_empty(g, e->in[i])) continue;
            ir_ref v = version_by(g, effect[k], i);
            if (v != IR_NONE && !is_overwritten(g, v, effect, n)) mark[v] |= FRONT_OUT;
        }
    }
}

void front_mark_wanted(const ir_graph *g, const front_wish *w, uint8_t *mark) {
    for (uint32_t i = 0; i < w->n_wanted; i++) {
        ir_ref r = w->wanted[i];
        if (w->last || !(mark[r] & FRONT_GIVEN) || is_overwritten(g, r, w->effect, w->n_effects))
            mark[r] |= FRONT_OUT;
    }
}

void front_mark_effects(const front_session *s, const ir_ref *effect, uint32_t n, uint64_t until,
                        uint8_t *mark) {
    const ir_graph *g = s->rec->g->ir;
    enum { MADE_OF = 128 }; /* of what is overwritten */
    if (n == 0) return;
    for (uint32_t i = 0; i < n; i++)
        mark[effect[i]] |= ir_node_at(g, effect[i])->memory == IR_NONE ? FRONT_DO | FRONT_OUT
                                                                       : FRONT_DO;
    mark_empties(g, effect, n, mark);
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *x = ir_node_at(g, r);
        if (x->op == IR_result && mark[x->in[0]] & FRONT_DO) mark[r] |= FRONT_OUT;
        uint64_t asked = front_asked_at(s->rec, r);
        if (x->memory != IR_NONE || asked < s->first || asked > until) continue;
        for (uint32_t i = 0; i < x->n_in; i++)
            if (mark[x->in[i]] & MADE_OF || is_overwritten(g, x->in[i], effect, n))
                mark[r] |= MADE_OF;
        if (mark[r] & MADE_OF) mark[r] |= mark[r] & FRONT_GIVEN ? FRONT_NEED : FRONT_OUT;
    }
    for (ir_ref r = 0; r < ir_graph_count(g); r++) mark[r] &= (uint8_t)~MADE_OF;
}

/* --- finding a step ------------------------------------------------------------------------------ */

/* Whether a step gives what this run has asked for and the effects overwrite, also where it was made for a run that had not. */
static RP_APART bool serves_anew(const front_session *s, front_step *step) {
    const ir_graph *g = s->rec->g->ir;
    const trace_path *p = &s->rec->asked.path;
    uint32_t n = ir_graph_count(g);
    bool all = true;
    uint8_t *mark = base_alloc(n + 1u);
    if (!mark) return true;
    for (ir_ref r = 0; r < n; r++)
        if (front_holds(s, r)) mark[r] = FRONT_GIVEN;
    front_mark_effects(s, step->effect, step->n_effects, s->rec->asked.now, mark);
    for (ir_ref r = 0; r < n && all; r++)
        all = !(mark[r] & FRONT_OUT) || is_among(step->out, step->n_out, r);
    base_free(mark);
    if (all) step->changes = p->changes;
    if (all) step->asked = p->next;
    return all;
}

static inline bool serves(const front_session *s, front_step *step) {
    const trace_path *p = &s->rec->asked.path;
    if (step->n_effects == 0 || step->last || !step->ready) return true;
    return (step->changes == p->changes && step->asked == p->next) || serves_anew(s, step);
}

/* The step of these wishes behind s->at, moved to the front; NULL: there is none. */
static RP_APART front_step *search_step(const front_session *s, const ir_ref *wanted, uint32_t n,
                                        const ir_ref *effect, uint32_t n_effects, bool last) {
    for (front_step **p = &s->at->child; *p; p = &(*p)->next) {
        front_step *is = *p;
        if (!is_step(is, wanted, n, effect, n_effects, last) || !serves(s, is)) continue;
        *p = is->next;
        is->next = s->at->child;
        return s->at->child = is;
    }
    return NULL;
}

/* The same, where the run goes as the one before without a call. */
static inline front_step *find_step(const front_session *s, const ir_ref *wanted, uint32_t n,
                                    const ir_ref *effect, uint32_t n_effects, bool last) {
    front_step *first = s->at->child;
    if (first && is_step(first, wanted, n, effect, n_effects, last) && serves(s, first))
        return first;
    return search_step(s, wanted, n, effect, n_effects, last);
}

/* After a step, which did the effects: who has which memory by e, one of them. */
static rp_status note_effect(front_session *s, ir_ref e, const ir_ref *effect, uint32_t n_effects,
                             rp_error *err) {
    const ir_graph *g = s->rec->g->ir;
    const ir_node *n = ir_node_at(g, e);
    uint64_t writes = ir_node_writes(n);
    for (uint32_t i = 0; i < n->n_in && i < 64; i++) {
        if (!(writes >> i & 1)) continue;
        ir_ref v = version_by(g, e, i), leaf = ir_node_at(g, n->in[i])->memory;
        if (front_holds(s, n->in[i])) {
            front_held *h = &s->rec->held[n->in[i]];
            h->stale = h->b.data == s->rec->held[leaf].memory; /* else it is a copy */
        }
        /* A version that was overwritten at once has a value where it was wanted, a copy. */
        if (v == IR_NONE || in_empty(g, n->in[i]) || is_overwritten(g, v, effect, n_effects))
            continue;
        rp_buffer b = s->rec->held[leaf].b;
        b.data = s->rec->held[leaf].memory;
        RP_TRY(front_hold(s, v, &b, err));
    }
    return RP_OK;
}

/* --- running ------------------------------------------------------------------------------------ */

static void take_inputs(const front_session *s, const rp_buffer *in, uint32_t n, front_io *io) {
    io->in = in;
    io->n_in = n;
    io->mode = s->to->mode;
    io->args = s->a;
    io->own = &s->rec->dense;
}

/* Memory of the run for the outputs, which are then values. */
static rp_status run_held(front_session *s, const front_code *c, const rp_buffer *in, uint32_t n_in,
                          const ir_ref *refs, uint32_t n, rp_error *err) {
    rp_status st = RP_OK;
    rp_buffer few[FEW], *out = n <= FEW ? few : base_alloc_array(n, sizeof *out);
    if (!out) return rp_fail(err, RP_NOMEM, "values of %s", s->f->name);
    size_t total = 0;
    void *block = NULL;
    RP_TRY_OUT(front_code_outputs(c, in, n_in, out, n, err));
    RP_TRY_OUT(front_lay_out(out, n, NULL, NULL, &total, err));
    if (n) RP_TRY_OUT(front_own(s, total, &block, err));
    RP_TRY_OUT(front_lay_out(out, n, block, out, &total, err));
    front_io io = {.out = out, .n_out = n};
    take_inputs(s, in, n_in, &io);
    RP_TRY_OUT(front_code_run(s->f, c, &io, err));
    for (uint32_t i = 0; i < n; i++) RP_TRY_OUT(front_hold(s, refs[i], &out[i], err));
out:
    if (out != few) base_free(out);
    return st;
}

/* What a piece reads and gives. */
typedef struct ends {
    const ir_ref *in, *out;
    uint32_t n_in, n_out;
} ends;

/* The value of the function, which the last piece computes. */
static rp_status run_last(front_session *s, const front_code *c, const rp_buffer *in, const ends *e,
                          rp_error *err) {
    front_result r = {.code = *c, .value = *s->result, .n_outputs = e->n_out};
    front_io io = {0};
    take_inputs(s, in, e->n_in, &io);
    return front_give(s->f, &r, &io, s->to, err);
}

static rp_status run_piece(front_session *s, const front_code *c, const ends *e, bool last,
                           rp_error *err) {
    rp_buffer few[FEW], *in = e->n_in <= FEW ? few : base_alloc_array(e->n_in, sizeof *in);
    if (!in) return rp_fail(err, RP_NOMEM, "values of %s", s->f->name);
    for (uint32_t i = 0; i < e->n_in; i++) in[i] = *front_held_of(s, e->in[i]);
    rp_status st = last                     ? run_last(s, c, in, e, err)
                   : front_code_is_there(c) ? run_held(s, c, in, e->n_in, e->out, e->n_out, err)
                                            : RP_OK;
    if (in != few) base_free(in);
    return st;
}

static bool reserve_forms(front_step *step) {
    uint32_t n = step->n_in + step->n_out;
    if (!step->form) step->form = base_alloc_array(n + 1u, sizeof *step->form);
    if (!step->offset) step->offset = base_alloc_array(step->n_out + 1u, sizeof *step->offset);
    return step->form && step->offset;
}

/* What a step reads, and its outputs and where they lie, for the sizes of this run: what all it reads is of forms that these decide. */
static RP_APART rp_status lay_out(front_session *s, front_step *step, rp_error *err) {
    uint32_t n = step->n_out;
    step->laid_out = step->bound = 0;
    if (!reserve_forms(step)) return rp_fail(err, RP_NOMEM, "values of %s", s->f->name);
    if (!step->repeat && front_code_is_plain(&step->code))
        RP_TRY(device_repeat_new(step->code.compiled, &step->repeat, err));
    rp_buffer *in = step->form, *out = in + step->n_in;
    for (uint32_t i = 0; i < step->n_in; i++) in[i] = *front_held_of(s, step->in[i]);
    RP_TRY(front_code_outputs(&step->code, in, step->n_in, out, n, err));
    RP_TRY(front_lay_out(out, n, NULL, out, &step->total, err));
    for (uint32_t i = 0; i < n; i++) step->offset[i] = (uintptr_t)out[i].data;
    return RP_OK;
}

/* Where it is the first time for these sizes, or no repeat can be. */
static RP_APART rp_status run_laid_out(front_session *s, front_step *step, rp_error *err) {
    const uint32_t n_in = step->n_in, n_out = step->n_out;
    const uint64_t id = s->rec->sizes_id;
    void *block = NULL;
    if (step->laid_out != id) RP_TRY(lay_out(s, step, err));
    rp_buffer *in = step->form, *out = in + n_in;
    step->laid_out = step->bound = 0;
    for (uint32_t i = 0; i < n_in; i++) in[i].data = front_held_of(s, step->in[i])->data;
    if (n_out) RP_TRY(front_own(s, step->total, &block, err));
    for (uint32_t i = 0; i < n_out; i++) out[i].data = (char *)block + step->offset[i];
    if (step->repeat) {
        RP_TRY(step->repeat->bind(step->repeat, in, out, err));
        RP_TRY(device_repeat_run(step->repeat, s->thread, err));
    } else {
        front_io io = {.out = out, .n_out = n_out};
        take_inputs(s, in, n_in, &io);
        RP_TRY(front_code_run(s->f, &step->code, &io, err));
    }
    for (uint32_t i = 0; i < n_out; i++) RP_TRY(front_hold(s, step->out[i], &out[i], err));
    step->laid_out = id;
    if (step->repeat && !step->code.reason) step->bound = id;
    return RP_OK;
}

/* A compiled one. */
static rp_status run_step(front_session *s, front_step *step, rp_error *err) {
    ends e = {step->in, step->out, step->n_in, step->n_out};
    if (step->last) return run_piece(s, &step->code, &e, true, err);
    if (step->bound == s->rec->sizes_id) return front_again_run(s, step, err);
    return front_code_is_there(&step->code) ? run_laid_out(s, step, err) : RP_OK;
}

/* The sizes of the call. */
static rp_status as_numbers(void *user, ir_dims *t, ir_dim *by, rp_error *err) {
    const front_session *s = user;
    (void)err;
    for (uint32_t i = 0; i < s->sizes->n_symbols; i++)
        if (s->rec->table_i[i] != UINT32_MAX)
            by[s->rec->table_i[i]] = ir_dim_const(t, s->sizes->symbol[i].hint);
    return RP_OK;
}

/* --- op by op ------------------------------------------------------------------------------------ */

/* Bytes of r in this run; 0 of what has none that are known. */
static int64_t bytes_of(const front_session *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->rec->g->ir, r);
    int64_t bytes = (int64_t)rp_dtype_block_bytes(n->dtype), size;
    if (rp_dtype_is_quant(n->dtype) || n->dtype == RP_DTYPE_I16B32) return 0;
    for (uint32_t d = 0; d < n->shape.rank; d++)
        if (!front_solver_example(s->sizes, n->shape.dim[d], &size) ||
            __builtin_mul_overflow(bytes, size, &bytes))
            return 0;
    return bytes;
}

/* Whether it has a value of its own, which takes time to make. */
static bool is_computed(const ir_node *n) {
    const ir_kind kind = ir_op_table(n->op)->kind;
    if (n->op == IR_result) return true;
    if (kind == IR_KIND_LEAF || kind == IR_KIND_VIEW || kind == IR_KIND_QUANT) return false;
    return n->memory == IR_NONE && !ir_node_is_effect(n);
}

typedef struct keeping {
    front_session *s;
    uint8_t *mark;
} keeping;

static void keep_of(const keeping *k, ir_ref r) {
    const int64_t bytes = bytes_of(k->s, r);
    if (bytes == 0 || bytes > FRONT_KEPT_ON_THE_WAY - k->s->kept_bytes) return;
    k->s->kept_bytes += bytes;
    k->mark[r] |= FRONT_OUT;
}

static bool is_to_compute(const keeping *k, ir_ref r) {
    return !(k->mark[r] & (FRONT_GIVEN | FRONT_OUT)) &&
           is_computed(ir_node_at(k->s->rec->g->ir, r));
}

/* What is computed on the way to what is wanted is kept for the steps behind this one, which would compute it again, as far as there is room. */
static void keep(void *user, ir_ref r) {
    const keeping *k = user;
    if (is_to_compute(k, r) && !ir_node_at(k->s->rec->g->ir, r)->n_more) keep_of(k, r);
}

/* The host may write memory of arguments, as soon as it runs: what was asked for before has values of before, as it has in the graph that is
 * made when it is known what is read. */
static void keep_asked(const keeping *k) {
    for (ir_ref r = 0; r < ir_graph_count(k->s->rec->g->ir); r++)
        if (front_asked_at(k->s->rec, r) >= k->s->first && is_to_compute(k, r)) keep_of(k, r);
}

/* What the effects overwrite of arguments may be read behind them. */
static void keep_overwritten(const keeping *k, const ir_ref *effect, uint32_t n) {
    for (uint32_t e = 0; e < n; e++) {
        const ir_node *x = ir_node_at(k->s->rec->g->ir, effect[e]);
        const uint64_t writes = ir_node_writes(x);
        for (uint32_t i = 0; i < x->n_in && i < 64; i++)
            if (writes >> i & 1 && !(k->mark[x->in[i]] & FRONT_OUT) &&
                front_copies_old(k->s, x->in[i]))
                keep_of(k, x->in[i]);
    }
}

/* From what has a value. */
static RP_APART rp_status evaluate(front_session *s, const ir_ref *wanted, uint32_t n,
                                   const ir_ref *effect, uint32_t n_effects, bool last,
                                   rp_error *err) {
    rp_status st = RP_OK;
    front_piece piece = {0};
    front_code c = {0};
    uint32_t count = ir_graph_count(s->rec->g->ir);
    uint8_t *mark = base_alloc(count + 1u);
    if (!mark) return rp_fail(err, RP_NOMEM, "values of %s", s->f->name);
    for (ir_ref r = 0; r < count; r++)
        if (front_holds(s, r)) mark[r] = FRONT_GIVEN;
    front_mark_wanted(s->rec->g->ir, &(front_wish){wanted, effect, n, n_effects, last}, mark);
    front_mark_effects(s, effect, n_effects, s->rec->asked.now, mark);
    if (!last) {
        keeping k = {s, mark};
        keep_overwritten(&k, effect, n_effects);
        keep_asked(&k);
        front_mark_needed(s->rec->g->ir, mark, keep, &k);
    }
    /* A result is no value of later steps, and there are none. */
    for (ir_ref r = 0; r < count; r++) {
        if (last && !is_among(wanted, n, r)) mark[r] &= (uint8_t)~FRONT_OUT;
        mark[r] &= (uint8_t)~FRONT_NEED; /* it has a value */
    }
    RP_TRY_OUT(front_piece_make(s->rec->g, mark, as_numbers, s, &piece, err));
    if (piece.graph) RP_TRY_OUT(front_code_eager(s->f, piece.graph, &c, err));
    RP_TRY_OUT(run_piece(s, &c, &(ends){piece.in, piece.out, piece.n_in, piece.n_out}, last, err));
out:
    front_code_done(&c);
    front_piece_done(&piece);
    base_free(mark);
    return st;
}

/* Where the run goes on that took no step that is there: a new one; NULL beyond what is kept. */
static RP_APART front_step *new_step(front_session *s, const ir_ref *wanted, uint32_t n,
                                     const ir_ref *effect, uint32_t n_effects, bool last,
                                     const front_break *why) {
    if (!keeps_way(s)) {
        s->past_limit = true;
        return NULL;
    }
    front_step *step = add_step(s, wanted, n, effect, n_effects, last);
    s->grown = true;
    if (why) front_break_tell(s->f, why);
    return step;
}

/* The one that is there, or a new one; NULL beyond what is kept. */
static inline front_step *next_step(front_session *s, const ir_ref *wanted, uint32_t n,
                                    const ir_ref *effect, uint32_t n_effects, bool last,
                                    const front_break *why) {
    if (!s->at) return NULL;
    front_step *step = find_step(s, wanted, n, effect, n_effects, last);
    if (!step) step = new_step(s, wanted, n, effect, n_effects, last, why);
    if (!step) return NULL;
    if (!step->ready) s->grown = true; /* also where the run that made it failed */
    return push(s, step) ? step : NULL;
}

static rp_status force(front_session *s, const ir_ref *wanted, uint32_t n, bool last,
                       const front_break *why, rp_error *err) {
    const ir_ref *effect = s->effects->ref + s->n_effects;
    uint32_t all = s->effects->n, n_effects = all - s->n_effects;
    if (n_effects) RP_TRY(front_before_effects(s, effect, n_effects, err));
    front_step *step = next_step(s, wanted, n, effect, n_effects, last, why);
    if (step && step->code.reason) s->fell = &step->code;
    if (step && step->ready)
        RP_TRY(run_step(s, step, err));
    else
        RP_TRY(evaluate(s, wanted, n, effect, n_effects, last, err));
    for (uint32_t i = 0; i < n_effects; i++)
        RP_TRY(note_effect(s, effect[i], effect, n_effects, err));
    if (n_effects) RP_TRY(front_after_effects(s, err));
    s->n_effects = all;
    s->at = step;
    if (why) s->last_break = *why;
    s->rec->asked.now++;
    return RP_OK;
}

rp_status front_force(front_session *s, const ir_ref *wanted, uint32_t n, const front_break *why,
                      rp_error *err) {
    return force(s, wanted, n, false, why, err);
}

rp_status front_finish(front_session *s, const ir_ref *wanted, uint32_t n, rp_error *err) {
    return force(s, wanted, n, true, NULL, err);
}
