/* Calls: which entry runs, or what is made where none serves.
 *
 * A thread that is inside of a function (it traces one, or runs one with graph breaks) and calls another one never waits for a lock that another thread
 * may hold while it waits for this one: it runs op by op instead, and says so. */
#include "autograph/manager.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/decisions.h"
#include "front/limits.h"
#include "front/recording.h"
#include "front/report.h"

/* --- telling ------------------------------------------------------------------------------------ */

/* Why no entry serves a, the most recently used first. */
static void log_recompile(rp_jit *f, const front_args *a) {
    base_buf b;
    if (!base_log_on(RP_LOG_CH_RECOMPILES, false)) return;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "Recompiling function %s in %s:%d\n", f->name, f->file, f->line);
    base_buf_puts(&b, "    triggered by the following guard failure(s):");
    (void)pthread_mutex_lock(&f->lock);
    bool any = f->n_entries > 0;
    front_entries_order(f);
    for (front_entry *e = f->entries; e; e = e->behind) {
        base_buf_printf(&b, "\n    - %u/%u: ", f->id, e->number);
        (void)front_guards_why(&e->guards, a, &b);
    }
    (void)pthread_mutex_unlock(&f->lock);
    if (any && !b.failed) base_log_ch(RP_LOG_CH_RECOMPILES, false, "%s", b.data);
    base_buf_done(&b);
}

void front_log_compiled(rp_jit *f, uint32_t number, const rp_compiled_info *info, int64_t start) {
    (void)pthread_mutex_lock(&f->lock);
    f->graphs++;
    f->pieces += info->pieces;
    f->by_backend += info->by_backend;
    (void)pthread_mutex_unlock(&f->lock);
    base_log_ch(RP_LOG_CH_INDUCTOR, false,
                "[%u/%u] Step 3: %s done compiling FORWARDS graph of %s (%u kernels, %u "
                "compiler runs, %u from the cache, %.1f ms)",
                f->id, number, info->backend, f->name, info->kernels, info->compiles,
                info->cache_hits, (double)(base_now_ns() - start) / 1e6);
}

/* What made e, which is not on the list yet: why the most recently used entry does not serve a. */
static void note_cause(rp_jit *f, const front_args *a, const front_entry *e) {
    base_buf b;
    base_buf_init(&b, 0);
    (void)pthread_mutex_lock(&f->lock);
    if (f->last) {
        base_buf_printf(&b, "a call that %u/%u is not for: ", f->id, f->last->number);
        (void)front_guards_why(&f->last->guards, a, &b);
    } else {
        base_buf_puts(&b, "the first call");
    }
    (void)pthread_mutex_unlock(&f->lock);
    if (!b.failed) front_note_text(f, FRONT_NOTE_WHY, e->number, b.data);
    base_buf_done(&b);
}

/* Another thread may run e meanwhile, and add to its guards. */
static void log_guards(rp_jit *f, const front_entry *e) {
    base_buf b;
    if (!base_log_on(RP_LOG_CH_GUARDS, false)) return;
    base_buf_init(&b, 0);
    bool tree = base_log_on(RP_LOG_CH_GUARDS, true);
    base_buf_printf(&b, "[%u/%u] %s:\n", f->id, e->number, tree ? "TREE_GUARD_MANAGER" : "GUARDS");
    (void)pthread_mutex_lock(&f->lock);
    (tree ? front_guards_tree : front_guards_print)(&e->guards, &b);
    (void)pthread_mutex_unlock(&f->lock);
    if (!b.failed) base_log_ch(RP_LOG_CH_GUARDS, false, "%s", b.data);
    base_buf_done(&b);
}

/* --- who runs what ------------------------------------------------------------------------------ */

/* A function that this thread is inside of. */
typedef struct running {
    struct running *outer;
    const rp_jit *f;
    const front_recording *rec; /* NULL: it is traced, or runs at level 0 */
} running;
static _Thread_local running *innermost;

static bool is_running(const rp_jit *f, const front_recording *rec) {
    const running *r = innermost;
    while (r && !(r->f == f && r->rec == rec)) r = r->outer;
    return r != NULL;
}

/* False: another thread has it, and this one must not wait. */
static bool take(pthread_mutex_t *lock) {
    return (innermost ? pthread_mutex_trylock(lock) : pthread_mutex_lock(lock)) == 0;
}

#define BUSY                                                                                      \
    "another thread traces or runs this function, and this call is inside of a function that is " \
    "traced or run itself"

static rp_status refuse_inner(const rp_jit *f, rp_error *err) {
    return rp_fail(err, RP_INVALID,
                   "%s is called inside of its own trace or run, with arguments that nothing was "
                   "compiled for; call it before, or its function itself",
                   f->name);
}

/* --- calls -------------------------------------------------------------------------------------- */

/* How a call goes. */
typedef struct calling {
    rp_jit *f;
    const front_args *a;
    front_out *to;
    front_made made; /* a reference of its entry */
    bool numbers;    /* which has no symbols since the function fails with some */
    bool within;     /* the function's own limit */
    rp_error why;    /* a reason */
} calling;

static rp_status call_eager(calling *c, const char *reason, rp_error *err) {
    c->to->ran = RP_RAN_EAGER;
    c->to->reason = reason;
    running r = {innermost, c->f, NULL};
    innermost = &r;
    rp_status st = front_entry_eager(c->f, c->a, c->to, &c->made, err);
    innermost = r.outer;
    return st;
}

/* What is said of a run that has given its results. */
static void tell_ran(const calling *c, rp_ran ran, const char *reason) {
    c->to->ran = ran;
    c->to->reason = reason;
    if (c->to->output) autograph_output_set_ran(*c->to->output, ran, reason);
}

/* The same of one of whose steps something is to be said. */
static void tell_fell(const calling *c) {
    if (!c->made.fell) return;
    front_code_tell(c->made.fell, c->to);
    tell_ran(c, c->to->ran, c->to->reason);
}

/* Compiling failed: op by op, with the reason, where the user wants that. A run that gave its results is not repeated. */
static rp_status without_entry(calling *c, rp_status st, const rp_error *why, rp_error *err) {
    if (c->f->suppress_errors && (c->made.given || !c->made.began)) {
        c->why = *why;
        front_warn_suppressed(c->f, why->text);
        if (!c->made.given) return call_eager(c, c->why.text, err);
        tell_ran(c, RP_RAN_EAGER, c->why.text);
        return RP_OK;
    }
    const size_t n = strlen(c->f->name);
    if (strncmp(why->text, c->f->name, n) != 0) return front_failed(c->f, st, why, err);
    return rp_fail(err, st, "%s", why->text);
}

/* A form of symbols may be more than a plan holds, and an op may want what is true of numbers and cannot be asked of symbols. Where
 * none is asked of, that is an error (dynamic_shapes_config.type=unbacked). */
static bool numbers_may_do(const rp_jit *f, rp_status st) {
    return st == RP_UNSUPPORTED || (st == RP_INVALID && f->shapes != CONFIG_SHAPES_UNBACKED);
}

/* What the compiler says of numbers in the same words is not for the symbols, which serve more calls. */
static rp_status keep_symbols(calling *c, front_sizes sizes, rp_error *err) {
    front_entry_unref(c->made.entry);
    c->made = (front_made){0};
    return front_entry_make(c->f, c->a, sizes, true, c->to, &c->made, err);
}

/* What fails with numbers, too, is told of them: they are those of the call. */
static rp_status make_of_numbers(calling *c, front_sizes sizes, rp_status st, rp_error *why) {
    rp_error again = {0};
    rp_status now = front_entry_make(c->f, c->a, FRONT_STATIC, true, c->to, &c->made, &again);
    const front_code *code = now == RP_OK && c->made.entry ? &c->made.entry->result.code : NULL;
    if (code && code->eager && code->reason && strcmp(code->reason, why->text) == 0)
        return keep_symbols(c, sizes, why);
    if (now == RP_OK || st == RP_UNSUPPORTED)
        base_log_ch(RP_LOG_CH_DYNAMIC, false, "sizes of %s are numbers: %s", c->f->name, why->text);
    c->numbers = now == RP_OK;
    *why = again;
    return now;
}

/* Which limit a call is past. */
typedef enum past { IN_LIMITS, PAST_LIMIT, PAST_ALL } past;

static front_sizes sizes_of(const rp_jit *f, past limit) {
    if (limit == PAST_ALL) return FRONT_ALL_OR_ONCE;
    if (limit == PAST_LIMIT || f->dynamic == RP_DYNAMIC_ALL) return FRONT_ALL;
    return f->dynamic == RP_DYNAMIC_AUTO ? FRONT_BY_HISTORY : FRONT_STATIC;
}

static void list_entry(calling *c, past limit, bool counted) {
    front_entry *e = c->made.entry;
    e->number = c->f->next_number;
    e->general = limit != IN_LIMITS;
    e->counted = counted;
    note_cause(c->f, c->a, e);
    front_entry_add(c->f, e);
    c->f->next_number++;
    front_limits_add(c->f->fn, 1);
    log_guards(c->f, e);
    tell_fell(c);
}

static rp_status make_entry(calling *c, past limit, bool counted, rp_error *err) {
    rp_jit *f = c->f;
    front_sizes sizes = sizes_of(f, limit);
    rp_error why = {0};
    if (f->dynamic == RP_DYNAMIC_AUTO) RP_TRY(front_decisions_load(f, err));
    RP_TRY(front_see(f, c->a, err));
    rp_status st = front_entry_make(f, c->a, sizes, sizes == FRONT_STATIC, c->to, &c->made, &why);
    if (sizes != FRONT_STATIC && !c->made.began && numbers_may_do(f, st))
        st = make_of_numbers(c, sizes, st, &why);
    if (st != RP_OK) {
        st = without_entry(c, st, &why, err);
        if (st != RP_OK) front_unsee(f);
        return st;
    }
    if (limit != IN_LIMITS && !f->warned) {
        front_limits_warn(f, c->a,
                          &(front_limits_past){c->made.entry, c->numbers, limit == PAST_ALL,
                                               c->within && limit == PAST_ALL});
        f->warned = true;
    }
    if (c->made.once) {
        c->to->ran = RP_RAN_EAGER;
        c->to->reason =
            "past the accumulated recompile limit, and an entry would serve one size alone";
        return RP_OK;
    }
    list_entry(c, limit, counted);
    return f->dynamic == RP_DYNAMIC_AUTO ? front_decisions_store(f, err) : RP_OK;
}

/* No entry served it, unless one was made meanwhile. By turn.
 *
 * Past the limit entries differ in literals, or sizes that are no symbols: of these there are as many as the limit again. Or they differ in what the
 * function's questions of sizes are answered, and the accumulated limit is theirs: however many of them serve one size alone, one that
 * serves all others can be made when it is wanted. */
static rp_status call_new(calling *c, rp_error *err) {
    rp_jit *f = c->f;
    c->made.entry = front_entry_find(f, c->a);
    if (c->made.entry) return RP_OK;
    c->to->ran = RP_RAN_CAPTURE;
    log_recompile(f, c->a);
    (void)pthread_mutex_lock(&f->lock);
    uint32_t n_counted = f->n_counted, n_own = f->n_entries - f->n_general;
    bool counted = !front_has_general(f, c->a);
    (void)pthread_mutex_unlock(&f->lock);
    bool all_full = front_limits_count(f->fn) >= f->all_limit;
    c->within = n_own < f->limit;
    if (c->within && !all_full) return make_entry(c, IN_LIMITS, false, err);
    if (all_full) counted = true;
    if (counted && n_counted >= f->limit)
        return call_eager(c,
                          "past the recompile limit, and as many entries with every size a symbol "
                          "do not serve these arguments",
                          err);
    return make_entry(c, all_full ? PAST_ALL : PAST_LIMIT, counted, err);
}

static rp_status check_names(const calling *c, rp_error *err) {
    rp_error why;
    base_error_clear(&why);
    rp_status st = front_check_names(c->a->value, &why);
    return st == RP_OK ? st : rp_fail(err, st, "arguments of %s: %s", c->f->name, why.text);
}

static rp_status find_or_make(calling *c, rp_error *err) {
    rp_jit *f = c->f;
    c->to->ran = RP_RAN_REPLAY;
    if (f->eager) {
        if (is_running(f, NULL)) return refuse_inner(f, err);
        RP_TRY(check_names(c, err));
        return call_eager(
            c, f->disabled ? "enable_if of the model says no" : "level 0 compiles nothing", err);
    }
    c->made.entry = front_entry_find(f, c->a);
    if (c->made.entry) return RP_OK;
    if (is_running(f, NULL)) return refuse_inner(f, err);
    RP_TRY(check_names(c, err));
    if (!take(&f->turn)) return call_eager(c, BUSY, err);
    running r = {innermost, f, NULL};
    innermost = &r;
    rp_status st = call_new(c, err);
    innermost = r.outer;
    (void)pthread_mutex_unlock(&f->turn);
    return st;
}

enum {
    MOST_NEW_NODES = 1 << 14
}; /* of runs that were not kept, before the recording is begun anew */

static void forget_entry(calling *c) {
    front_entry_unref(c->made.entry);
    c->made.entry = NULL;
}

/* An entry with graph breaks: the function runs. RP_OK and nothing given: the entry is not for these arguments any more. */
static rp_status run_recorded(calling *c, rp_error *err) {
    front_entry *e = c->made.entry;
    front_recording *rec = e->recording;
    rp_error why;
    base_error_clear(&why);
    if (is_running(c->f, rec)) return refuse_inner(c->f, err);
    if (!take(&rec->lock)) {
        forget_entry(c);
        return call_eager(c, BUSY, err);
    }
    if (!front_entry_serves(c->f, e, c->a)) { /* the run that this one waited for has learnt more */
        (void)pthread_mutex_unlock(&rec->lock);
        forget_entry(c);
        return RP_OK;
    }
    running r = {innermost, c->f, rec};
    innermost = &r;
    rp_status st = front_entry_replay(c->f, e, c->a, c->to, &c->made, &why);
    innermost = r.outer;
    bool full = ir_graph_count(rec->g->ir) > rec->settled + MOST_NEW_NODES;
    (void)pthread_mutex_unlock(&rec->lock);
    if (full) front_entry_drop(c->f, e);
    if (st != RP_OK)
        return c->made.given ? without_entry(c, st, &why, err) : rp_fail(err, st, "%s", why.text);
    if (c->made.past_limit)
        tell_ran(c, RP_RAN_EAGER, FRONT_PAST_LIMIT);
    else if (c->made.compiled)
        tell_ran(c, RP_RAN_CAPTURE, NULL);
    tell_fell(c);
    return RP_OK;
}

static void count(rp_jit *f, rp_status st, rp_ran ran) {
    (void)pthread_mutex_lock(&f->lock);
    f->calls++;
    if (st == RP_OK)
        *(ran == RP_RAN_REPLAY    ? &f->hits
          : ran == RP_RAN_CAPTURE ? &f->compiles
                                  : &f->ran_eager) += 1;
    (void)pthread_mutex_unlock(&f->lock);
}

rp_status front_call(rp_jit *f, const rp_value *args, front_out *out, rp_error *err) {
    front_args a;
    calling c;
    rp_error why;
    base_error_clear(&why);
    c.f = f;
    c.a = &a;
    c.to = out;
    c.made = (front_made){0};
    c.numbers = false;
    if (out->output) *out->output = NULL;
    rp_status st = front_args_read(&a, args, &why);
    if (st != RP_OK)
        st = rp_fail(err, st, "arguments of %s: %s%s", f->name, why.text,
                     innermost ? "; what a function is given while it is traced is no argument of "
                                 "a call: call the C function itself"
                               : "");
    if (st == RP_OK && !out->output) st = front_into_check(f, &a, out, err);
    if (st == RP_OK) out->mode = front_mode_of_call(f, args);
    bool again = st == RP_OK;
    while (again) {
        st = find_or_make(&c, err);
        if (st == RP_OK && !c.made.given && c.made.entry->recording) st = run_recorded(&c, err);
        again = st == RP_OK && !c.made.given && !c.made.entry;
    }
    if (st == RP_OK && !c.made.given) st = front_entry_run(f, c.made.entry, &a, out, err);
    if (st != RP_OK && out->output) { /* it may have been given before something failed */
        rp_output_free(*out->output);
        *out->output = NULL;
    }
    count(f, st, out->ran);
    if (st == RP_OK && out->ran == RP_RAN_EAGER)
        front_note_text(f, FRONT_NOTE_EAGER, 0, out->reason ? out->reason : "no reason is known");
    front_entry_unref(c.made.entry);
    front_args_done(&a);
    return st;
}

rp_status rp_jit_run(rp_jit *f, const rp_value *args, rp_output **out, rp_error *err) {
    base_error_clear(err);
    if (!f || !args || !out)
        return rp_fail(err, RP_INVALID, "rp_jit_run: function, args or out is NULL");
    return front_call(f, args, &(front_out){.output = out}, err);
}

rp_status rp_jit_run_into(rp_jit *f, const rp_value *args, const rp_buffer *outputs,
                          uint32_t n_outputs, rp_error *err) {
    base_error_clear(err);
    if (!f || !args || (n_outputs && !outputs))
        return rp_fail(err, RP_INVALID, "rp_jit_run_into: function, args or outputs is NULL");
    return front_call(f, args, &(front_out){.buffer = outputs, .n = n_outputs}, err);
}
