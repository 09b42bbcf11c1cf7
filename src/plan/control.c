/* Loops and branches between lists. Sizes are bound once a run; an iteration binds addresses. */
#include "plan/control.h"

#include <string.h>

#include "base/alloc.h"

#define MAX_VALUES 64u

/* A plan that it runs. */
typedef struct inner_plan {
    const plan *p;
    plan_exec *x;
    plan_bound *list;
    uint32_t *map;    /* its symbols among those of the plan around */
    int64_t *symbols; /* of this run */
} inner_plan;

struct plan_running {
    const plan *p;
    const plan_launch *l;
    inner_plan inner[2];
    bool unified; /* memory of the device is the host's */
    /* of this run */
    hal_device *queue;
    void *const *arg;
    int64_t length, done;   /* iterations */
    void *at[MAX_VALUES];   /* where each carried value is */
    void *next[MAX_VALUES]; /* where the iteration that runs puts it */
};

/* --- made once ------------------------------------------------------------------------ */

static rp_status map_symbols(const plan *outer, inner_plan *in, rp_error *err) {
    in->map = base_alloc_array(in->p->n_symbols + 1u, sizeof *in->map);
    in->symbols = base_alloc_array(in->p->n_symbols + 1u, sizeof *in->symbols);
    if (!in->map || !in->symbols) return rp_fail(err, RP_NOMEM, "symbols of plan %s", in->p->name);
    for (uint32_t i = 0; i < in->p->n_symbols; i++)
        while (strcmp(outer->symbols[in->map[i]].name, in->p->symbols[i].name) != 0) in->map[i]++;
    return RP_OK;
}

/* opt for code of its own, or the executor whose code it shares. */
static rp_status inner_fill(const plan *outer, inner_plan *in, const plan_exec_options *opt,
                            const plan_exec *of, hal_device *device, rp_error *err) {
    plan_exec_options own = {0};
    if (opt) own = *opt;
    own.weights = NULL;
    own.arena = NULL;
    own.lent_arena = true;
    RP_TRY(map_symbols(outer, in, err));
    RP_TRY(of ? plan_exec_again(of, device, &in->x, err) : plan_exec_new(in->p, &own, &in->x, err));
    return plan_bound_new(in->x, 0, in->p->n_pieces, &in->list, err);
}

static rp_status running_new(const plan *p, const plan_launch *l, const plan_exec_options *opt,
                             const plan_running *of, hal_device *device, plan_running **out,
                             rp_error *err) {
    plan_running *r = base_alloc(sizeof *r);
    rp_status st = RP_OK;
    hal_device_info info;
    if (opt) device = opt->device;
    if (!r) return rp_fail(err, RP_NOMEM, "executor of %s", l->name);
    r->p = p;
    r->l = l;
    for (uint32_t i = 0; i < plan_control_count(l->control); i++) {
        r->inner[i].p = p->inner[l->control->inner[i]];
        RP_TRY_OUT(inner_fill(p, &r->inner[i], opt, of ? of->inner[i].x : NULL, device, err));
    }
    device->ops->info(device, &info);
    r->unified = info.unified;
    *out = r;
    return RP_OK;
out:
    plan_running_free(r);
    return st;
}

rp_status plan_running_new(const plan *p, const plan_launch *l, const plan_exec_options *opt,
                           plan_running **out, rp_error *err) {
    return running_new(p, l, opt, NULL, NULL, out, err);
}

rp_status plan_running_again(const plan_running *r, hal_device *device, plan_running **out,
                             rp_error *err) {
    return running_new(r->p, r->l, NULL, r, device, out, err);
}

void plan_running_free(plan_running *r) {
    for (int i = 0; r && i < 2; i++) {
        plan_bound_free(r->inner[i].list);
        plan_exec_free(r->inner[i].x);
        base_free(r->inner[i].map);
        base_free(r->inner[i].symbols);
    }
    base_free(r);
}

size_t plan_most_scratch(const plan *p) {
    size_t most = 0;
    for (uint32_t i = 0; i < p->n_inner; i++) {
        size_t n = plan_most_scratch(p->inner[i]);
        if (n > most) most = n;
    }
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_alts; a++)
            if ((size_t)p->launches[i].alts[a].scratch > most)
                most = (size_t)p->launches[i].alts[a].scratch;
    return most;
}

/* --- a run ------------------------------------------------------------------------------ */

static void *operand(const plan_running *r, uint32_t i) {
    return r->arg[i];
}

static void *result(const plan_running *r, uint32_t i) {
    return r->arg[r->l->control->n_operands + i];
}

/* What stands behind the results: a second place for each carried value, the answer, the arena. */
static void *work(const plan_running *r, uint32_t i) {
    return r->arg[r->l->control->n_operands + r->l->control->n_results + i];
}

static size_t bytes_of(const inner_plan *in, const plan_leaf *l) {
    return (size_t)plan_size_eval(&l->bytes, in->symbols);
}

/* Element t of what begins at p. */
static void *element(const inner_plan *in, const plan_leaf *l, void *p, int64_t t) {
    return (char *)p + (size_t)t * bytes_of(in, l);
}

static void set_input(const inner_plan *in, uint32_t i, void *p) {
    plan_exec_set(in->x, PLAN_INPUT, i, p);
}

static void set_output(const inner_plan *in, uint32_t i, void *p) {
    plan_exec_set(in->x, PLAN_OUTPUT, i, p);
}

/* Addresses for iteration r->done of `in`, which is the body or asks. */
static void set_leaves(plan_running *r, const inner_plan *in, bool asks) {
    const plan_control *c = r->l->control;
    uint32_t first = c->kind == PLAN_COND, slices = c->carried + c->sliced;
    for (uint32_t i = 0; i < in->p->n_inputs; i++) {
        void *p = operand(r, first + i);
        if (i < c->carried)
            p = r->at[i];
        else if (i < slices)
            p = element(in, &in->p->inputs[i], p, r->done);
        set_input(in, i, p);
    }
    for (uint32_t i = 0; !asks && i < c->n_results; i++) {
        void *p = result(r, i);
        if (i < c->carried)
            p = r->next[i];
        else if (c->kind == PLAN_SCAN)
            p = element(in, &in->p->outputs[i], p, r->done);
        set_output(in, i, p);
    }
    if (asks) set_output(in, 0, work(r, c->carried));
}

/* From the operand to the result and on to the other place. The last iteration of a scan, whose number is known, writes results. */
static void choose_places(plan_running *r) {
    const plan_control *c = r->l->control;
    for (uint32_t i = 0; i < c->carried; i++) {
        bool to_result = c->kind == PLAN_SCAN ? (r->length - r->done) % 2 == 1
                                              : r->at[i] != result(r, i);
        r->next[i] = to_result ? result(r, i) : work(r, i);
    }
}

static void advance(plan_running *r) {
    memcpy(r->at, r->next, r->l->control->carried * sizeof *r->at);
    r->done++;
}

/* Carried values from where they are to the results. Not by the queue where all memory is the host's: it may be in a replay of
 * another one. */
static rp_status finish(plan_running *r, rp_error *err) {
    const inner_plan *in = &r->inner[0];
    for (uint32_t i = 0; i < r->l->control->carried; i++) {
        size_t bytes = bytes_of(in, &in->p->outputs[i]);
        if (r->at[i] == result(r, i)) continue;
        if (r->unified)
            memcpy(result(r, i), r->at[i], bytes);
        else
            RP_TRY(r->queue->ops->copy(r->queue, result(r, i), r->at[i], bytes, err));
        r->at[i] = result(r, i);
    }
    return RP_OK;
}

/* What a kernel has answered. */
static rp_status read_bool(const plan_running *r, const void *at, bool *out, rp_error *err) {
    hal_device *d = r->queue;
    uint8_t byte = 0;
    if (r->unified) {
        byte = *(const uint8_t *)at;
    } else {
        RP_TRY(d->ops->copy(d, &byte, at, 1, err));
        RP_TRY(d->ops->synchronize(d, err));
    }
    *out = byte != 0;
    return RP_OK;
}

static rp_status start(plan_running *r, hal_device *d, void *const *arg, const long long *dim,
                       rp_error *err) {
    const plan_control *c = r->l->control;
    r->queue = d;
    r->arg = arg;
    r->done = 0;
    r->length = ir_dim_code_eval_ll(&c->length, dim);
    for (uint32_t i = 0; i < c->carried; i++) r->at[i] = operand(r, i);
    choose_places(r);
    for (uint32_t k = 0; k < plan_control_count(c); k++) {
        inner_plan *in = &r->inner[k];
        for (uint32_t i = 0; in->map && i < in->p->n_symbols; i++) in->symbols[i] = dim[in->map[i]];
        plan_exec_set_arena(in->x, work(r, plan_control_work(c) - 1));
        set_leaves(r, in, c->kind == PLAN_WHILE && k == 1);
        RP_TRY(plan_exec_bind(in->x, in->list, in->symbols, err));
    }
    return RP_OK;
}

static rp_status run(inner_plan *in, hal_list *out, rp_error *err) {
    RP_TRY(plan_exec_point(in->x, in->list, err));
    *out = (hal_list){in->list->launches, in->list->n};
    return RP_OK;
}

static rp_status next_of_scan(plan_running *r, uint64_t turn, hal_list *out, rp_error *err) {
    if (turn > 0) advance(r);
    if (r->done >= r->length) return finish(r, err);
    choose_places(r);
    set_leaves(r, &r->inner[0], false);
    return run(&r->inner[0], out, err);
}

/* The condition and the body in turns. */
static rp_status next_of_while(plan_running *r, uint64_t turn, hal_list *out, rp_error *err) {
    const plan_control *c = r->l->control;
    bool more = false;
    if (turn % 2 == 0) {
        if (turn > 0) advance(r);
        set_leaves(r, &r->inner[1], true);
        return run(&r->inner[1], out, err);
    }
    RP_TRY(read_bool(r, work(r, c->carried), &more, err));
    if (!more) return finish(r, err);
    if (r->done == c->limit)
        return rp_fail(err, RP_INVALID,
                       "while: cond @%s still holds after %lld iterations, its limit",
                       r->inner[1].p->name, (long long)c->limit);
    choose_places(r);
    set_leaves(r, &r->inner[0], false);
    return run(&r->inner[0], out, err);
}

rp_status plan_running_next(void *user, hal_device *d, void *const *arg, const long long *dim,
                            uint64_t turn, hal_list *out, rp_error *err) {
    plan_running *r = user;
    plan_control_kind kind = r->l->control->kind;
    bool other = false;
    *out = (hal_list){0};
    if (turn == 0) RP_TRY(start(r, d, arg, dim, err));
    if (kind == PLAN_SCAN) return next_of_scan(r, turn, out, err);
    if (kind == PLAN_WHILE) return next_of_while(r, turn, out, err);
    if (turn > 0) return RP_OK;
    if (kind == PLAN_COND) RP_TRY(read_bool(r, operand(r, 0), &other, err));
    return run(&r->inner[other], out, err);
}

/* --- as part of a graph ------------------------------------------------------------------- */

enum { MOST_IN_GRAPH = 1 << 14 }; /* launches of all iterations of a scan */

static rp_status note_list(const plan_running *r, inner_plan *in, rp_error *err) {
    hal_list list;
    RP_TRY(run(in, &list, err));
    return r->queue->ops->launch(r->queue, list.v, list.n, in->list->scratch, err);
}

static rp_status note_cond(plan_running *r, rp_error *err) {
    static const hal_branch when[] = {HAL_IF_NOT, HAL_IF};
    for (int k = 0; k < 2; k++) {
        rp_error none = {0};
        RP_TRY(hal_capture_branch(r->queue, when[k], operand(r, 0), err));
        rp_status st = note_list(r, &r->inner[k], err);
        rp_status join = hal_capture_join(r->queue, st == RP_OK ? err : &none);
        if (st != RP_OK || join != RP_OK) return st == RP_OK ? join : st;
    }
    return RP_OK;
}

static rp_status note_scan(plan_running *r, rp_error *err) {
    int64_t n = r->inner[0].list->n + 1; /* as if each had something */
    if (r->length > MOST_IN_GRAPH / n)
        return rp_fail(err, RP_UNSUPPORTED,
                       "scan: %lld iterations of @%s are more than a graph of a GPU takes, %lld",
                       (long long)r->length, r->inner[0].p->name, (long long)(MOST_IN_GRAPH / n));
    for (; r->done < r->length; advance(r)) {
        choose_places(r);
        set_leaves(r, &r->inner[0], false);
        RP_TRY(note_list(r, &r->inner[0], err));
    }
    return finish(r, err);
}

static rp_status note_condition(plan_running *r, rp_error *err) {
    set_leaves(r, &r->inner[1], true);
    return note_list(r, &r->inner[1], err);
}

/* From the results to the second places and back. */
static rp_status note_turn(plan_running *r, rp_error *err) {
    choose_places(r);
    set_leaves(r, &r->inner[0], false);
    RP_TRY(note_list(r, &r->inner[0], err));
    advance(r);
    RP_TRY(finish(r, err));
    return note_condition(r, err);
}

static rp_status note_while(plan_running *r, rp_error *err) {
    const plan_control *c = r->l->control;
    rp_error none = {0};
    if (c->limit != INT32_MAX)
        return rp_fail(err, RP_UNSUPPORTED,
                       "while: a graph of a GPU does not count iterations of @%s, whose limit is "
                       "%lld",
                       r->inner[0].p->name, (long long)c->limit);
    RP_TRY(finish(r, err)); /* from the operands */
    RP_TRY(note_condition(r, err));
    RP_TRY(hal_capture_branch(r->queue, HAL_WHILE, work(r, c->carried), err));
    rp_status st = note_turn(r, err);
    rp_status join = hal_capture_join(r->queue, st == RP_OK ? err : &none);
    return st == RP_OK ? join : st;
}

rp_status plan_running_note(void *user, hal_device *d, void *const *arg, const long long *dim,
                            rp_error *err) {
    plan_running *r = user;
    RP_TRY(start(r, d, arg, dim, err));
    switch (r->l->control->kind) {
    case PLAN_COND: return note_cond(r, err);
    case PLAN_WHILE: return note_while(r, err);
    case PLAN_SCAN: return note_scan(r, err);
    default: return note_list(r, &r->inner[0], err);
    }
}
