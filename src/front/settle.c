/* The new steps of a run, compiled when it is over: each gives what it was asked for, and what later steps read of it. */
#include "front/recording.h"

#include "base/alloc.h"
#include "base/log.h"
#include "split/partition.h"

enum { MOST_PASSES = 256 };

/* By ref of the recording; path steps count from 0. */
typedef struct settling {
    front_session *s;
    const ir_graph *g;
    uint32_t n;
    uint32_t *owner;    /* the step that makes it; UINT32_MAX: none */
    uint32_t *gone;     /* that overwrites its memory, or that of what it is a view of; likewise */
    bool *live;         /* a later step reads it, */
    bool *late;         /* behind the one that overwrites it */
    uint32_t *from;     /* the ready step that gives it; UINT32_MAX: none */
    uint8_t **mark;     /* of each step; NULL of ready ones */
    front_piece *piece; /* likewise */
} settling;

/* --- what each step makes --------------------------------------------------------------------- */

static void find_owners(settling *t) {
    const front_session *s = t->s;
    uint32_t pending = 0;
    while (pending < s->n_path && s->path[pending]->ready) pending++;
    for (ir_ref r = 0; r < t->n; r++) {
        uint64_t asked = front_asked_at(s->rec, r);
        t->from[r] = UINT32_MAX;
        t->owner[r] = asked >= s->first ? (uint32_t)(asked - s->first) : pending;
    }
    for (ir_ref r = 0; r < t->n; r++) /* results of a call are made with it */
        if (ir_node_at(t->g, r)->op == IR_result)
            t->owner[r] = t->owner[ir_node_at(t->g, r)->in[0]];
    for (uint32_t j = s->n_path; j-- > 0;)
        for (uint32_t i = 0; s->path[j]->ready && i < s->path[j]->n_out; i++)
            t->from[s->path[j]->out[i]] = j;
    /* A node that was made in a ready step for that step alone is made again. */
    for (ir_ref r = 0; r < t->n; r++)
        if (t->owner[r] < s->n_path && s->path[t->owner[r]]->ready) t->owner[r] = pending;
}

/* The step that does effect e. */
static uint32_t step_of(const settling *t, ir_ref e) {
    uint64_t asked = front_asked_at(t->s->rec, e);
    return asked >= t->s->first ? (uint32_t)(asked - t->s->first) : UINT32_MAX;
}

/* A view that is made again in each step reads memory as it is then. */
static void find_gone(settling *t) {
    for (ir_ref r = 0; r < t->n; r++) {
        const ir_node *n = ir_node_at(t->g, r);
        ir_ref writer = n->memory == IR_NONE ? IR_NONE : ir_writer_of(t->g, r);
        t->gone[r] = writer == IR_NONE ? UINT32_MAX : step_of(t, writer);
        for (uint32_t i = 0; n->memory == IR_NONE && split_repeats(n) && i < n->n_in; i++)
            if (t->gone[n->in[i]] < t->gone[r]) t->gone[r] = t->gone[n->in[i]];
    }
}

/* Memory of an argument, or a version of it. */
static bool is_memory(const settling *t, ir_ref r) {
    ir_ref m = ir_node_at(t->g, r)->memory;
    return m != IR_NONE && ir_node_at(t->g, m)->op != IR_empty;
}

/* Whether the step that overwrites version r gives what it was, or will. */
static bool is_copied(const settling *t, ir_ref r) {
    if (!front_copies_old(t->s, r)) return false;
    return !t->s->path[t->gone[r]]->ready || t->from[r] == t->gone[r];
}

/* Whether r has a value when step j begins. */
static bool is_given(const settling *t, ir_ref r, uint32_t j) {
    const ir_node *n = ir_node_at(t->g, r);
    if (n->memory != IR_NONE && t->gone[r] < j) return is_copied(t, r);
    if (n->op == IR_input) return true;
    if (t->from[r] != UINT32_MAX) return t->from[r] < j;
    if (is_memory(t, r)) return step_of(t, ir_maker_of(t->g, r)) < j;
    bool again = split_repeats(n) && t->gone[r] >= j;
    return t->owner[r] < j && !again && n->op != IR_empty;
}

typedef struct reading {
    settling *t;
    const uint8_t *mark; /* of the step that reads, j */
    uint32_t j;
} reading;

static void note_read(void *user, ir_ref r) {
    const reading *k = user;
    if (!(k->mark[r] & FRONT_GIVEN)) return;
    k->t->live[r] = true;
    if (ir_node_at(k->t->g, r)->memory != IR_NONE && k->t->gone[r] < k->j) k->t->late[r] = true;
}

static void mark_step(settling *t, uint32_t j) {
    const front_session *s = t->s;
    const front_step *step = s->path[j];
    uint8_t *mark = t->mark[j];
    for (ir_ref r = 0; r < t->n; r++)
        if (is_given(t, r, j)) mark[r] = FRONT_GIVEN;
    front_mark_wanted(
        t->g,
        &(front_wish){step->wanted, step->effect, step->n_wanted, step->n_effects, step->last},
        mark);
    reading k = {t, mark, j};
    for (uint32_t i = 0; i < step->n_wanted; i++) note_read(&k, step->wanted[i]);
    if (!step->last) front_mark_effects(s, step->effect, step->n_effects, s->first + j, mark);
    for (uint32_t i = 0; i < step->n_effects; i++) mark[step->effect[i]] |= FRONT_DO;
    for (ir_ref r = 0; r < t->n; r++)
        if ((t->live[r] && t->owner[r] == j && !(mark[r] & FRONT_GIVEN)) ||
            (t->late[r] && t->gone[r] == j))
            mark[r] |= FRONT_OUT;
    front_mark_needed(t->g, mark, note_read, &k);
    for (ir_ref r = 0; r < t->n; r++) mark[r] &= (uint8_t)~FRONT_NEED;
}

/* --- sizes -------------------------------------------------------------------------------------- */

typedef struct as_known {
    front_session *s;
    rp_error *err;
} as_known;

static rp_status known_symbols(void *user, ir_dims *t, ir_dim *by, rp_error *err) {
    const as_known *k = user;
    const front_recording *rec = k->s->rec;
    front_solver *y = k->s->sizes;
    RP_TRY(front_solver_begin(y, t, err));
    ir_dims_set_assume(t, front_solver_assume, y);
    for (uint32_t i = 0; i < y->n_symbols; i++)
        if (rec->table_i[i] != UINT32_MAX) by[rec->table_i[i]] = front_solver_size(y, i);
    return RP_OK;
}

/* The pieces, on symbols that have all that is learnt, until they teach nothing more. */
static rp_status make_pieces(settling *t, rp_error *err) {
    front_session *s = t->s;
    bool again = true;
    for (uint32_t pass = 0; again; pass++) {
        again = false;
        if (pass == MOST_PASSES)
            return rp_fail(err, RP_INVALID, "the sizes of its pieces do not settle");
        for (uint32_t j = 0; j < s->n_path; j++) {
            if (s->path[j]->ready) continue;
            as_known k = {s, err};
            rp_error why = {0};
            front_piece_done(&t->piece[j]);
            s->sizes->changed = false; /* also by a step that computes nothing */
            rp_status st =
                front_piece_make(s->rec->g, t->mark[j], known_symbols, &k, &t->piece[j], &why);
            if (t->piece[j].graph)
                ir_dims_set_assume(ir_graph_dims(t->piece[j].graph->ir), NULL, NULL);
            if (st == RP_OK && why.code != RP_OK) st = why.code;
            again = again || s->sizes->changed;
            if (st != RP_OK && (!s->sizes->changed || s->sizes->refused || st == RP_NOMEM))
                return rp_fail(err, st, "%s", why.text);
        }
    }
    return RP_OK;
}

/* --- compiling ----------------------------------------------------------------------------------- */

/* Whether piece p writes arguments that are no states, and any that this run has no copy of. */
static void note_writes(const front_session *s, const front_piece *p, front_made_of *of) {
    of->writes = of->moving = false;
    for (uint32_t i = 0; p->graph && i < p->n_in; i++) {
        const ir_graph *g = p->graph->ir, *whole = s->rec->g->ir;
        ir_ref memory = ir_node_at(whole, p->in[i])->memory;
        for (uint32_t k = 0; k < s->rec->n_inputs; k++) {
            if (s->rec->input[k] != memory || s->a->tensor[k]->state ||
                !ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i))->mutates)
                continue;
            of->writes = true;
            of->moving = of->moving || s->rec->held[memory].memory == s->a->tensor[k]->tensor.data;
        }
    }
}

/* last: as front_code_make. */
static rp_status compile_pieces(settling *t, bool last, rp_error *err) {
    front_session *s = t->s;
    front_made_of of = {.number = s->number, .last = last};
    RP_TRY(front_has_own_size(s->f, s->a, &of.own_size, err));
    for (uint32_t j = 0; j < s->n_path; j++) {
        front_step *step = s->path[j];
        front_piece *p = &t->piece[j];
        if (step->ready) continue;
        of.piece = ++s->rec->n_pieces;
        note_writes(s, p, &of);
        if (p->graph) RP_TRY(front_code_make(s->f, p->graph, &of, &step->code, err));
        if (step->code.reason) s->fell = &step->code;
        step->in = p->in;
        step->out = p->out;
        step->n_in = p->n_in;
        step->n_out = p->n_out;
        p->in = p->out = NULL;
        step->ready = true;
    }
    return RP_OK;
}

static rp_status make_room(settling *t, rp_error *err) {
    uint32_t steps = t->s->n_path;
    t->owner = base_alloc_array(t->n + 1u, sizeof *t->owner);
    t->gone = base_alloc_array(t->n + 1u, sizeof *t->gone);
    t->from = base_alloc_array(t->n + 1u, sizeof *t->from);
    t->live = base_alloc_array(t->n + 1u, sizeof *t->live);
    t->late = base_alloc_array(t->n + 1u, sizeof *t->late);
    t->mark = base_alloc_array(steps + 1u, sizeof(uint8_t *));
    t->piece = base_alloc_array(steps + 1u, sizeof *t->piece);
    bool ok = t->owner && t->gone && t->from && t->live && t->late && t->mark && t->piece;
    for (uint32_t j = 0; ok && j < steps; j++) ok = (t->mark[j] = base_alloc(t->n + 1u)) != NULL;
    return ok ? RP_OK : rp_fail(err, RP_NOMEM, "steps of %s", t->s->f->name);
}

static void drop_room(settling *t) {
    for (uint32_t j = 0; j < t->s->n_path; j++) {
        if (t->mark) base_free(t->mark[j]);
        if (t->piece) front_piece_done(&t->piece[j]);
    }
    base_free(t->owner);
    base_free(t->gone);
    base_free(t->from);
    base_free(t->live);
    base_free(t->late);
    base_free(t->mark);
    base_free(t->piece);
}

rp_status front_settle(front_session *s, rp_error *err) {
    settling t = {.s = s, .g = s->rec->g->ir, .n = ir_graph_count(s->rec->g->ir)};
    rp_status st = RP_OK;
    rp_error why = {0};
    RP_TRY_OUT(make_room(&t, err));
    find_owners(&t);
    find_gone(&t);
    for (uint32_t j = s->n_path; j-- > 0;)
        if (!s->path[j]->ready) mark_step(&t, j);
    st = make_pieces(&t, &why);
    if (st == RP_OK) st = compile_pieces(&t, false, &why);
    if (st == RP_UNSUPPORTED &&
        front_solver_settle(s->sizes)) { /* a form may be too much for a plan */
        base_log_ch(RP_LOG_CH_DYNAMIC, false, "sizes of %s are numbers: %s", s->f->name, why.text);
        why = (rp_error){0};
        st = make_pieces(&t, &why);
        if (st == RP_OK) st = compile_pieces(&t, false, &why);
    }
    if (st == RP_UNSUPPORTED && s->f->suppress_errors) {
        why = (rp_error){0};
        st = make_pieces(&t, &why);
        if (st == RP_OK) st = compile_pieces(&t, true, &why);
    }
    if (st != RP_OK) st = rp_fail(err, st, "%s", why.text);
    s->rec->settled = t.n;
out:
    drop_room(&t);
    return st;
}
