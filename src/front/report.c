/* What became of a function, in the form of torch's explain: what was noted while entries were made, and what they are now.
 *
 * Notes are for people: one that there is no memory for is left out, and so are more than MOST_NOTES. */
#include "front/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "front/limits.h"

enum { MOST_NOTES = 1024, MOST_OPS = 12 };

struct front_note {
    front_note *next;
    front_note_kind kind;
    uint32_t entry;
    uint64_t n; /* times; of a graph, its ops */
    double ms;
    char text[];
};

/* --- noting --------------------------------------------------------------------------------- */

/* One that is counted where it comes again. */
static front_note *find(const front_notes *all, front_note_kind kind, const char *text) {
    front_note *n = kind == FRONT_NOTE_BREAK || kind == FRONT_NOTE_EAGER ? all->first : NULL;
    while (n && !(n->kind == kind && strcmp(n->text, text) == 0)) n = n->next;
    return n;
}

static front_note *add(front_notes *all, front_note_kind kind, const char *text) {
    const size_t len = strlen(text) + 1;
    front_note *n = all->n < MOST_NOTES ? base_alloc(sizeof *n + len) : NULL;
    if (!n) {
        all->left_out++;
        return NULL;
    }
    n->kind = kind;
    memcpy(n->text, text, len);
    *(all->last ? &all->last->next : &all->first) = n;
    all->last = n;
    all->n++;
    return n;
}

static void note(rp_jit *f, const front_note *is, const char *text) {
    (void)pthread_mutex_lock(&f->lock);
    front_note *n = find(&f->notes, is->kind, text);
    const bool again = n != NULL;
    if (!n) n = add(&f->notes, is->kind, text);
    if (n) {
        n->entry = is->entry;
        n->n = again ? n->n + is->n : is->n;
        n->ms = is->ms;
    }
    (void)pthread_mutex_unlock(&f->lock);
}

void front_note_text(rp_jit *f, front_note_kind kind, uint32_t entry, const char *text) {
    note(f, &(front_note){.kind = kind, .entry = entry, .n = 1}, text);
}

void front_note_graph(rp_jit *f, const rp_graph *g, uint32_t entry, double ms,
                      const rp_compiled_info *info) {
    const ir_graph *ir = trace_graph_ir(g);
    front_note is = {.kind = FRONT_NOTE_GRAPH, .entry = entry, .ms = ms};
    base_buf ops;
    base_buf_init(&ops, 0);
    for (ir_ref r = 0; r < ir_graph_count(ir); r++) {
        const ir_node *x = ir_node_at(ir, r);
        if (ir_op_table(x->op)->kind == IR_KIND_LEAF || x->op == IR_result) continue;
        if (is.n < MOST_OPS)
            base_buf_printf(&ops, "%s%s", is.n ? ", " : "", ir_op_table(x->op)->name);
        if (is.n == MOST_OPS) base_buf_puts(&ops, ", ...");
        is.n++;
    }
    if (info->by_backend)
        base_buf_printf(&ops, "; %llu of %u pieces by %s", (unsigned long long)info->by_backend,
                        info->pieces, info->backend);
    note(f, &is, ops.data ? ops.data : "");
    base_buf_done(&ops);
}

void front_notes_clear(front_notes *all) {
    for (front_note *n = all->first, *next; n; n = next) {
        next = n->next;
        base_free(n);
    }
    *all = (front_notes){0};
}

/* --- telling -------------------------------------------------------------------------------- */

/* Each line of text behind lead. */
static void put_lines(base_buf *out, const char *lead, const char *text) {
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        base_buf_printf(out, "%s%.*s\n", lead, (int)(end - text), text);
    }
}

static void put_breaks(const rp_jit *f, base_buf *out) {
    uint32_t i = 0;
    for (const front_note *n = f->notes.first; n; n = n->next) {
        if (n->kind != FRONT_NOTE_BREAK) continue;
        if (i++ == 0) base_buf_puts(out, "Break Reasons:\n");
        base_buf_printf(out, "  Break Reason %u", i);
        if (n->n > 1) base_buf_printf(out, ", by %llu ways", (unsigned long long)n->n);
        base_buf_puts(out, ":\n");
        put_lines(out, "    ", n->text);
    }
}

static void put_graphs(const rp_jit *f, uint32_t entry, base_buf *out) {
    uint32_t i = 0;
    for (const front_note *n = f->notes.first; n; n = n->next) {
        if (n->kind != FRONT_NOTE_GRAPH || n->entry != entry) continue;
        base_buf_printf(out, "    Graph %u: %llu ops, compiled in %.1f ms: %s\n", ++i,
                        (unsigned long long)n->n, n->ms, n->text);
    }
}

static const char *why_of(const rp_jit *f, uint32_t entry) {
    const front_note *n = f->notes.first;
    while (n && !(n->kind == FRONT_NOTE_WHY && n->entry == entry)) n = n->next;
    return n ? n->text : "not known";
}

static void put_entry(const rp_jit *f, const front_entry *e, base_buf *out) {
    base_buf guards;
    base_buf_printf(out, "  [%u/%u]%s\n    Made by: ", f->id, e->number,
                    e->general ? " past the limit, with every size a symbol" : "");
    base_buf_printf(out, "%s\n", why_of(f, e->number));
    put_graphs(f, e->number, out);
    if (e->result.code.reason)
        base_buf_printf(out, "    %s: %s\n",
                        e->result.code.eager ? "Runs op by op" : "Not as configured",
                        e->result.code.reason);
    base_buf_puts(out, "    Out Guards:\n");
    base_buf_init(&guards, 0);
    front_guards_print(&e->guards, &guards);
    put_lines(out, "      ", guards.data ? guards.data : "");
    base_buf_done(&guards);
}

/* By number. */
static void put_entries(const rp_jit *f, base_buf *out) {
    base_buf_printf(out, "Entries: %u\n", f->n_entries);
    int64_t before = -1;
    for (uint32_t i = 0; i < f->n_entries; i++) {
        const front_entry *next = NULL;
        for (const front_entry *e = f->entries; e; e = e->behind)
            if ((int64_t)e->number > before && (!next || e->number < next->number)) next = e;
        if (!next) break;
        put_entry(f, next, out);
        before = next->number;
    }
}

static void put_eager(const rp_jit *f, base_buf *out) {
    if (f->ran_eager == 0) return;
    base_buf_printf(out, "Op By Op: %llu\n", (unsigned long long)f->ran_eager);
    for (const front_note *n = f->notes.first; n; n = n->next)
        if (n->kind == FRONT_NOTE_EAGER)
            base_buf_printf(out, "  %llu: %s\n", (unsigned long long)n->n, n->text);
}

static void put_limits(const rp_jit *f, base_buf *out) {
    const uint32_t own = f->n_entries - f->n_general;
    const uint64_t all = front_limits_count(f->fn);
    base_buf_printf(out, "Limits:\n  recompile_limit: %u of %u entries%s\n", own, f->limit,
                    own >= f->limit ? ", reached" : "");
    if (f->n_general)
        base_buf_printf(out, "    past it %u, %u of them by more than questions of sizes\n",
                        f->n_general, f->n_counted);
    base_buf_printf(out, "  accumulated_recompile_limit: %llu of %u%s\n", (unsigned long long)all,
                    f->all_limit, all >= f->all_limit ? ", reached" : "");
    if (f->ways_warned)
        base_buf_puts(out, "  ways on from a graph break: reached, what follows runs op by op\n");
}

static uint64_t ops_of(const rp_jit *f) {
    uint64_t n = 0;
    for (const front_note *x = f->notes.first; x; x = x->next)
        if (x->kind == FRONT_NOTE_GRAPH) n += x->n;
    return n;
}

/* By who holds f->lock. */
static void put_report(rp_jit *f, base_buf *out) {
    typedef unsigned long long number;
    base_buf_printf(out, "Function %s (%s:%d) [%u]\n", f->name, f->file, f->line, f->id);
    base_buf_printf(out,
                    "Calls: %llu: %llu by an entry, %llu made one, %llu op by op, %llu failed\n",
                    (number)f->calls, (number)f->hits, (number)f->compiles, (number)f->ran_eager,
                    (number)(f->calls - f->hits - f->compiles - f->ran_eager));
    base_buf_printf(out, "Graph Count: %llu\nGraph Break Count: %llu\nOp Count: %llu\n",
                    (number)f->graphs, (number)f->breaks, (number)ops_of(f));
    put_breaks(f, out);
    put_entries(f, out);
    put_eager(f, out);
    put_limits(f, out);
    if (f->notes.left_out)
        base_buf_printf(out, "%llu notes more were not kept\n", (number)f->notes.left_out);
}

/* Logs what was put, and frees it. */
static void log_report(base_buf *b) {
    if (!b->failed && b->len) b->data[b->len - 1] = 0; /* the log ends lines */
    if (!b->failed) base_log_ch(RP_LOG_CH_EXPLAIN, false, "%s", b->data);
    base_buf_done(b);
}

void front_report_log(rp_jit *f) {
    base_buf b;
    if (!base_log_on(RP_LOG_CH_EXPLAIN, false)) return;
    base_buf_init(&b, 0);
    (void)pthread_mutex_lock(&f->lock);
    put_report(f, &b);
    (void)pthread_mutex_unlock(&f->lock);
    log_report(&b);
}

/* --- functions that nobody frees -------------------------------------------------------------- */

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER; /* what follows */
static rp_jit *live, **live_end = &live;
static pid_t at_end_of; /* the process at whose end tell_live is to be called */

/* The process ends: a function that another thread holds is left out. A child that was forked tells nothing: these are its parent's, and
 * who holds their locks is not there. A callback of the program's may be gone, and is not called. */
static void tell_live(void) {
    if (getpid() != at_end_of || !base_log_by_environment() ||
        !base_log_on(RP_LOG_CH_EXPLAIN, false) || pthread_mutex_trylock(&live_lock) != 0)
        return;
    for (rp_jit *f = live; f; f = f->next_live) {
        base_buf b;
        if (pthread_mutex_trylock(&f->lock) != 0) continue;
        base_buf_init(&b, 0);
        put_report(f, &b);
        f->told = true;
        f->told_calls = f->calls;
        (void)pthread_mutex_unlock(&f->lock);
        log_report(&b);
    }
    (void)pthread_mutex_unlock(&live_lock);
}

void front_report_last(rp_jit *f) {
    if (!f->told || f->told_calls != f->calls) front_report_log(f);
}

void front_report_join(rp_jit *f) {
    if (!base_log_on(RP_LOG_CH_EXPLAIN, false) || !base_log_by_environment()) return;
    (void)pthread_mutex_lock(&live_lock);
    if (at_end_of != getpid() && atexit(tell_live) == 0) at_end_of = getpid();
    f->at_live = live_end;
    *live_end = f;
    live_end = &f->next_live;
    (void)pthread_mutex_unlock(&live_lock);
}

void front_report_leave(rp_jit *f) {
    (void)pthread_mutex_lock(&live_lock);
    if (f->at_live) *f->at_live = f->next_live;
    if (f->next_live) f->next_live->at_live = f->at_live;
    if (live_end == &f->next_live) live_end = f->at_live;
    (void)pthread_mutex_unlock(&live_lock);
}

rp_status rp_jit_explain(rp_jit *f, char **out, rp_error *err) {
    base_error_clear(err);
    if (!f || !out) return rp_fail(err, RP_INVALID, "rp_jit_explain: function or out is NULL");
    base_buf b;
    base_buf_init(&b, 0);
    (void)pthread_mutex_lock(&f->lock);
    put_report(f, &b);
    (void)pthread_mutex_unlock(&f->lock);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK)
        *out = base_buf_take(&b);
    else
        base_buf_done(&b);
    return st;
}
