/* Limits of recompilation. torch counts entries of a code object; that is the C function here. */
#include "front/limits.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "front/recording.h"

typedef struct counted {
    struct counted *next;
    rp_jit_fn fn;
    uint64_t entries;
    uint32_t functions;
    bool warned; /* of the limit of all of them */
} counted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static counted *all;

static counted **find(rp_jit_fn fn) {
    counted **c = &all;
    while (*c && (*c)->fn != fn) c = &(*c)->next;
    return c;
}

rp_status front_limits_join(rp_jit_fn fn, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&lock);
    counted **c = find(fn);
    if (!*c && (*c = base_alloc(sizeof **c))) (*c)->fn = fn;
    if (*c)
        (*c)->functions++;
    else
        st = rp_fail(err, RP_NOMEM, "function");
    (void)pthread_mutex_unlock(&lock);
    return st;
}

void front_limits_leave(rp_jit_fn fn, uint32_t entries) {
    (void)pthread_mutex_lock(&lock);
    counted **c = find(fn), *gone = *c;
    gone->entries -= entries;
    gone->warned = gone->warned && entries == 0; /* there is room again */
    if (--gone->functions == 0) {
        *c = gone->next;
        base_free(gone);
    }
    (void)pthread_mutex_unlock(&lock);
}

void front_limits_add(rp_jit_fn fn, int64_t entries) {
    (void)pthread_mutex_lock(&lock);
    counted *c = *find(fn);
    c->entries += (uint64_t)entries;
    c->warned = c->warned && entries >= 0;
    (void)pthread_mutex_unlock(&lock);
}

uint64_t front_limits_count(rp_jit_fn fn) {
    (void)pthread_mutex_lock(&lock);
    const counted *c = *find(fn); /* there as long as a function is over fn */
    uint64_t n = c ? c->entries : 0;
    (void)pthread_mutex_unlock(&lock);
    return n;
}

/* Functions over fn; 0: that their limit is reached has been said. */
static uint32_t not_warned(rp_jit_fn fn) {
    (void)pthread_mutex_lock(&lock);
    counted *c = *find(fn); /* there, as above */
    uint32_t n = c && !c->warned ? c->functions : 0;
    if (c) c->warned = true;
    (void)pthread_mutex_unlock(&lock);
    return n;
}

/* --- the warning ------------------------------------------------------------------------------- */

/* Whether word `at` of the entry is what it is in a: entries of another form have other things there. */
static bool is_same_place(const front_guards *g, const front_args *a, uint32_t at) {
    base_buf theirs, ours;
    if (at >= g->n) return false;
    base_buf_init(&theirs, 0);
    base_buf_init(&ours, 0);
    front_place p = front_describe(g->want, at, &theirs), q = front_describe(a->word, at, &ours);
    bool same = p.field == q.field && p.head == q.head && p.index == q.index &&
                front_kind(g->want[p.head]) == front_kind(a->word[q.head]) && theirs.data &&
                ours.data && strcmp(theirs.data, ours.data) == 0;
    base_buf_done(&theirs);
    base_buf_done(&ours);
    return same;
}

/* What word `at` was in the entries, the oldest first, and is now. */
static void put_values(const rp_jit *f, const front_args *a, uint32_t at, bool literal,
                       base_buf *out) {
    const front_entry *e = f->entries;
    while (e && e->behind) e = e->behind;
    for (; e; e = e->before) {
        const front_guards *g = &e->guards;
        if (!is_same_place(g, a, at)) continue;
        if (literal)
            front_put_value(g->want, at - 1, out);
        else
            base_buf_printf(out, "%" PRId64, (int64_t)g->want[at]);
        base_buf_puts(out, ", ");
    }
    if (literal)
        front_put_value(a->word, at - 1, out);
    else
        base_buf_printf(out, "%" PRId64, (int64_t)a->word[at]);
}

/* What is said, and of what. */
typedef struct telling {
    rp_jit *f;
    const front_guards *g; /* of the entry used last */
    const front_args *a;
    const front_limits_past *past;
    base_buf *out;
} telling;

/* What becomes of further calls. */
typedef enum after { AS_SYMBOLS, ONE_BY_ONE } after;

/* Whether a mark would make this size a symbol; otherwise it is a state's, or marked static. */
static bool can_be_marked(const telling *t, front_place p, const char *source,
                          const char **why_not) {
    const uint64_t head = t->a->word[p.head];
    const front_mark *m = front_mark_locked(t->f, source, p.index, front_rank(head));
    *why_not = front_is_state(head) ? "; it is of a state, whose sizes are always numbers: use a "
                                      "function of its own for each"
               : m && m->kind == FRONT_MARK_STATIC
                   ? "; it was marked static: without that mark the second size makes it a symbol"
               : t->past->numbers ? "; the function fails with a symbol for it "
                                    "(REPRISE_LOGS=dynamic): use one of its own for each"
                                  : NULL;
    return !*why_not;
}

static const front_symbol *symbol_of(const front_solver *s, uint32_t word, uint32_t *i) {
    for (*i = 0; *i < s->n_symbols; (*i)++)
        if (s->symbol[*i].word == word) return &s->symbol[*i];
    return NULL;
}

/* A size, or an integer that is taken as one. */
static bool is_size(const telling *t, front_place p, uint32_t at) {
    uint32_t i;
    if (p.field != FRONT_LITERAL || front_kind(t->a->word[p.head]) != RP_VALUE_INT)
        return p.field == FRONT_SIZE;
    const front_symbol *y = symbol_of(&t->past->made->guards.sizes, at, &i);
    return t->g->mask[at] == 0 || (y && !y->literal);
}

static bool is_setting(const front_fact *f) {
    return f->file && f->line == 0;
}

/* Whether f is about symbol i alone. */
static bool is_about(const front_fact *f, uint32_t i) {
    uint32_t symbol;
    int64_t coef, k;
    return ir_dim_code_linear(&f->a, &symbol, &coef, &k) && symbol == i &&
           ir_dim_code_is_const(&f->b, &k);
}

/* What makes the size at `at` a number in some calls, so that no mark can make a symbol of it: a question whether it is one, or what made it that in
 * this call. NULL: nothing that is known of. */
static const front_fact *number_of(const telling *t, uint32_t at) {
    const front_solver *s = &t->past->made->guards.sizes;
    const front_fact *any = NULL;
    uint32_t i;
    const front_symbol *y = symbol_of(s, at, &i);
    for (uint32_t k = 0; y && k < s->n_facts; k++) {
        const front_fact *f = &s->fact[k];
        if (is_setting(f) || !is_about(f, i)) continue;
        if (f->r == RP_DIM_EQ) return f;
        if (!any && (y->fixed || f->r == RP_DIM_NE)) any = f;
    }
    return any;
}

/* Whether that is so, though of what no fact tells. */
static bool is_number(const telling *t, uint32_t at) {
    uint32_t i;
    const front_symbol *y = symbol_of(&t->past->made->guards.sizes, at, &i);
    return y && y->fixed;
}

/* A size that differs from what the entry was made for: ops may make two of them one. */
static bool differs(const telling *t, uint32_t first, uint32_t i, base_buf *source,
                    front_place *p) {
    const char *why_not;
    if (i != first && !((t->g->want[i] ^ t->a->word[i]) & t->g->mask[i])) return false;
    if (i != first && !is_same_place(t->g, t->a, i)) return false;
    base_buf_clear(source);
    *p = front_describe(t->a->word, i, source);
    return is_size(t, *p, i) && source->data && can_be_marked(t, *p, source->data, &why_not);
}

/* The questions that a mark would fail at; false: something else makes numbers, and there is no cure but other functions. */
static bool put_questions(const telling *t, uint32_t first, base_buf *source) {
    const front_solver *s = &t->past->made->guards.sizes;
    const front_fact *last = NULL;
    front_place p;
    for (uint32_t i = first; i < t->g->n && i < t->a->n; i++) {
        if (!differs(t, first, i, source, &p)) continue;
        const front_fact *f = number_of(t, i);
        if (f ? f == last : !is_number(t, i)) continue;
        if (!f || f->must) {
            base_buf_puts(t->out, "; an op takes it as a number");
            if (f) base_buf_puts(t->out, ", ");
            if (f) front_fact_print(s, f, t->out);
            base_buf_puts(t->out, ": use a function of its own for each");
            return false;
        }
        base_buf_puts(t->out, last ? " and " : "; the function asks whether ");
        front_fact_print(s, f, t->out);
        last = f;
    }
    if (last)
        base_buf_puts(t->out, ": rp_dim_compare there needs no guard; with it");
    else
        base_buf_puts(t->out, ";");
    return true;
}

static void put_marks(const telling *t, uint32_t first) {
    base_buf source;
    front_place p;
    uint32_t n = 0;
    base_buf_init(&source, 0);
    const bool help = put_questions(t, first, &source);
    for (uint32_t i = first; help && i < t->g->n && i < t->a->n; i++) {
        if (!differs(t, first, i, &source, &p)) continue;
        if (n++ == 0)
            base_buf_printf(t->out, " rp_jit_mark_dynamic(f, \"%s\", %u, 0, INT64_MAX, &err)",
                            source.data, p.index);
        else
            base_buf_printf(t->out, "%s axis %u of %s", n == 2 ? ", and the same for" : ",",
                            p.index, source.data);
    }
    if (n) base_buf_puts(t->out, n == 1 ? " makes it a symbol" : ", makes them symbols");
    base_buf_done(&source);
}

/* It is a symbol already, of which something was asked. */
static void put_asked(const telling *t, uint32_t at) {
    const front_solver *s = &t->g->sizes;
    uint32_t i;
    (void)symbol_of(s, at, &i);
    for (uint32_t k = 0; k < s->n_facts; k++) {
        const front_fact *f = &s->fact[k];
        if (is_setting(f) || !is_about(f, i) || front_fact_holds(f, t->g->value)) continue;
        base_buf_puts(t->out, f->must
                                  ? "; an op needs that: use a function of its own where it "
                                    "does not hold"
                                  : "; rp_dim_compare in place of that question needs no guard");
        return;
    }
}

static after put_size_cure(const telling *t, uint32_t at) {
    base_buf source;
    const char *why_not = NULL;
    base_buf_init(&source, 0);
    front_place p = front_describe(t->a->word, at, &source);
    const char *name = source.data ? source.data : "L";
    base_buf_printf(t->out, "; %s", name);
    if (p.field == FRONT_SIZE) base_buf_printf(t->out, ".size()[%u]", p.index);
    base_buf_puts(t->out, " was ");
    put_values(t->f, t->a, at, false, t->out);
    const bool markable = can_be_marked(t, p, name, &why_not);
    if (!markable)
        base_buf_puts(t->out, why_not);
    else if (t->g->mask[at] == 0)
        put_asked(t, at);
    else
        put_marks(t, at);
    base_buf_done(&source);
    return markable ? AS_SYMBOLS : ONE_BY_ONE;
}

/* Of an integer that is no size: what would make it one. */
static void put_int_cure(const telling *t, uint32_t at) {
    uint32_t i;
    const front_symbol *y = symbol_of(&t->past->made->guards.sizes, at, &i);
    const int64_t is = (int64_t)t->a->word[at];
    if (y && y->asked)
        base_buf_puts(t->out, " the function reads it as a number beside rp_jit_dim; read it by "
                              "that alone, or");
    else if (is >= -FRONT_MOST_INT && is <= FRONT_MOST_INT)
        base_buf_puts(t->out, " read it by rp_jit_dim(call, v), which makes it a symbol, or");
    else
        base_buf_puts(t->out, " no symbol of an integer is beyond 2^40;");
}

static after put_cure(const telling *t, uint32_t at) {
    base_buf source;
    base_buf_init(&source, 0);
    front_place p = front_describe(t->a->word, at, &source);
    const char *name = source.data ? source.data : "L";
    rp_value_kind kind = front_kind(t->a->word[p.head]);
    after then = ONE_BY_ONE;
    if (is_size(t, p, at)) {
        then = put_size_cure(t, at);
    } else if (p.field == FRONT_LITERAL && kind != RP_VALUE_STRING) {
        base_buf_printf(t->out, "; %s was ", name);
        put_values(t->f, t->a, at, true, t->out);
        base_buf_puts(t->out, ";");
        if (kind == RP_VALUE_INT) put_int_cure(t, at);
        base_buf_printf(t->out, " give %s as a tensor of rank 0, whose value is no guard", name);
    } else {
        base_buf_printf(t->out, "; give %s in one form, or use a function of its own for each",
                        name);
    }
    base_buf_done(&source);
    return then;
}

/* Whether entries with symbols are told apart by anything but what they were made for. */
static bool is_asked(const front_solver *s) {
    for (uint32_t i = 0; i < s->n_symbols; i++)
        if (s->symbol[i].fixed && !s->symbol[i].literal) return true;
    for (uint32_t i = 0; i < s->n_facts; i++)
        if (!is_setting(&s->fact[i])) return true;
    return false;
}

static void put_after(const telling *t, after then) {
    const rp_jit *f = t->f;
    if (then == ONE_BY_ONE)
        base_buf_printf(t->out,
                        "; %u further forms are compiled as they come, those behind run op by op",
                        f->limit);
    else if (!is_asked(&t->past->made->guards.sizes))
        base_buf_puts(t->out, "; further sizes run as symbols");
    else if (t->past->all)
        base_buf_printf(t->out,
                        "; further sizes run as symbols, by %u entries for as many ways that what "
                        "is asked of them is answered; those behind, and what serves one size "
                        "alone, run op by op",
                        f->limit);
    else
        base_buf_printf(t->out,
                        "; further sizes run as symbols, by an entry for each way that what is "
                        "asked of them is answered, up to accumulated_recompile_limit (%u)",
                        f->all_limit);
}

void front_limits_warn(rp_jit *f, const front_args *a, const front_limits_past *past) {
    base_buf b;
    after then = AS_SYMBOLS;
    uint32_t functions = past->accumulated ? not_warned(f->fn) : 1;
    if (!functions) return;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "reprise hit %s (%u); function: '%s' (%s:%d)",
                    past->accumulated ? "accumulated_recompile_limit" : "recompile_limit",
                    past->accumulated ? f->all_limit : f->limit, f->name, f->file, f->line);
    (void)pthread_mutex_lock(&f->lock);
    front_entries_order(f);
    telling t = {f, f->entries ? &f->entries->guards : NULL, a, past, &b};
    if (f->entries) {
        base_buf_printf(&b, "; last reason: %u/%u: ", f->id, f->entries->number);
        uint32_t at = front_guards_why(&f->entries->guards, a, &b);
        if (at != UINT32_MAX)
            then = put_cure(&t, at);
        else
            base_buf_puts(&b, "; ask less of sizes (rp_dim_compare needs no guard)");
    }
    (void)pthread_mutex_unlock(&f->lock);
    if (past->accumulated && functions > 1)
        base_buf_printf(&b, "; %u rp_jit are over that C function: make one, and call it",
                        functions);
    put_after(&t, then);
    if (!b.failed) base_log(RP_LOG_WARNING, "%s", b.data);
    base_buf_done(&b);
}
