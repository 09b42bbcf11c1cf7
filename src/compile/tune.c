/* Kernels of a piece without a record are measured in passes: first what lower_choices lists, then steps from the best. All kernels
 * of a pass are compiled at once, variant v having choice v of each, and measured one after the other. */
#include "compile/tune.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "compile/tune_bench.h"
#include "compile/tune_race.h"
#include "compile/tune_record.h"
#include "compile/units.h"

enum {
    MAX_MEASURED = 96, /* of a kernel, in all passes */
    MAX_PASSES = 8,
    MAX_REPEATS = 256,
    READING_NS = 100000 /* a reading is of as many launches as take so long */
};

static atomic_uint_least64_t readings;

uint64_t compile_tune_readings(void) {
    return atomic_load(&readings);
}

/* A kernel being tuned. */
typedef struct subject {
    const lower_kernel *k; /* as the rules have it */
    cache_key *key;
    uint32_t like;     /* the subject with the same key that was measured for it; itself: none */
    uint32_t searched; /* of what is asked, by this process or by a record (COMPILE_LISTED) */
    bool told;         /* by rounds enough of this process */
    bool stopped;      /* no further pass: out of time, or other programs held the cores */
    uint32_t n_read, n_crowded; /* readings, and those in which other programs held the cores */
    lower_choice best;
    uint32_t best_at; /* variant of the bench */
    compile_measured all[MAX_MEASURED];
    uint32_t n_all;
    /* of this pass: the search, choices, and the variants that have them */
    uint32_t search;
    lower_choice choice[LOWER_MAX_CHOICES + 1];
    uint32_t at[LOWER_MAX_CHOICES + 1];
    uint32_t n;
} subject;

typedef struct tuning {
    const compile_options *opt;
    char machine[BASE_MACHINE_SIZE];
    compile_host host;
    compile_tuner *t;
    const split_piece *sp;
    lower_piece base;
    subject *s;
    uint32_t n;
    compile_bench *bench;
    uint32_t n_variants;
    double compile_s, measure_s;
} tuning;

/* --- clocks --------------------------------------------------------------------------- */

static int64_t now(const tuning *g) {
    return g->t->now ? g->t->now(g->t->user) : base_now_ns();
}

/* By the device's own clock where it has one. One thread of the host, which is this one, counts what it ran: what other programs took of its core
 * is not the launch's. Several wait for each other, by the wall. */
static rp_status time_list(const compile_trial *t, int64_t *ns, rp_error *err) {
    hal_device *d = t->device;
    int64_t each[MAX_REPEATS * COMPILE_BENCH_LAUNCHES] = {0};
    hal_device_info info;
    d->ops->info(d, &info);
    const bool alone = info.unified && info.n_threads == 1;
    const int64_t t0 = alone ? base_thread_ns() : base_now_ns();
    if (!d->ops->time) {
        RP_TRY(d->ops->launch(d, t->launches, t->n, t->scratch, err));
        RP_TRY(d->ops->synchronize(d, err));
        *ns = (alone ? base_thread_ns() : base_now_ns()) - t0;
        return RP_OK;
    }
    RP_TRY(hal_time(d, t->launches, t->n, t->scratch, each, err));
    *ns = 0;
    for (uint32_t i = 0; i < t->n; i++) *ns += each[i];
    return RP_OK;
}

/* --- one kernel ------------------------------------------------------------------------ */

typedef struct heat {
    const tuning *g;
    subject *s;
    uint32_t repeats;
} heat;

static bool is_wanted(const tuning *g) {
    const compile_toolchain *t = g->host.toolchain;
    return !t || !t->wanted || t->wanted(t->user);
}

static rp_status read_choice(const tuning *g, subject *s, uint32_t i, uint32_t repeats, int64_t *ns,
                             rp_error *err) {
    hal_launch list[MAX_REPEATS * COMPILE_BENCH_LAUNCHES];
    const hal_launch *l[COMPILE_BENCH_LAUNCHES];
    compile_trial t = {.device = compile_bench_device(g->bench),
                       .label = s->k->label,
                       .choice = &s->choice[i],
                       .launches = list};
    const uint32_t n = compile_bench_launches(g->bench, s->at[i], s->k, l, &t.scratch);
    const uint64_t crowded = hal_device_counters(t.device)->crowded_lists;
    int64_t all = 0;
    if (!n) return rp_fail(err, RP_INTERNAL, "a choice of kernel %s has no launch", s->k->name);
    if (!is_wanted(g)) return rp_fail(err, RP_CANCELLED, "measuring was stopped");
    for (; t.n < repeats * n; t.n++) list[t.n] = *l[t.n % n];
    (void)atomic_fetch_add(&readings, 1);
    RP_TRY(g->t->time ? g->t->time(g->t->user, &t, &all, err) : time_list(&t, &all, err));
    *ns = all / repeats;
    s->n_read++;
    s->n_crowded += hal_device_counters(t.device)->crowded_lists > crowded;
    return RP_OK;
}

static rp_status run_heat(void *user, uint32_t i, int64_t *ns, rp_error *err) {
    const heat *h = user;
    return read_choice(h->g, h->s, i, h->repeats, ns, err);
}

static int64_t heat_now(void *user) {
    return now(((const heat *)user)->g);
}

/* Code is read, pages are mapped and threads are there after the first; the last says how long a launch takes. */
static rp_status warm_up(heat *h, int64_t deadline, rp_error *err) {
    int64_t ns = 0;
    for (uint32_t i = h->s->n + 1; i-- > 0 && now(h->g) < deadline;)
        RP_TRY(read_choice(h->g, h->s, i % h->s->n, 1, &ns, err));
    const int64_t want = READING_NS / (ns > 0 ? ns : 1);
    h->repeats = want < 1 ? 1 : want > MAX_REPEATS ? MAX_REPEATS : (uint32_t)want;
    return RP_OK;
}

static void add_measured(subject *s, const lower_choice *c, int64_t ns) {
    for (uint32_t i = 0; i < s->n_all; i++) {
        if (!lower_choice_eq(&s->all[i].choice, c)) continue;
        if (ns < s->all[i].ns) s->all[i].ns = ns;
        return;
    }
    if (s->n_all < MAX_MEASURED) s->all[s->n_all++] = (compile_measured){*c, ns};
}

/* Where threads come and go, readings say more of the neighbours than of the choices. */
static bool is_crowded(const subject *s) {
    return s->n_crowded * 4 > s->n_read;
}

static bool is_rules(const lower_choice *c) {
    return lower_choice_eq(c, &(lower_choice){0});
}

/* Choice `best` of the pass is the best now. The list has all that is near the rules. */
static void end_pass(const tuning *g, subject *s, uint32_t best) {
    const bool near = s->search == COMPILE_DESCENDED || (g->t->descend && is_rules(&s->best));
    s->told = true;
    s->stopped = false;
    if (s->search == COMPILE_LISTED) s->searched |= COMPILE_LISTED;
    if (best != 0)
        s->searched &= ~(uint32_t)COMPILE_DESCENDED;
    else if (near)
        s->searched |= COMPILE_DESCENDED;
    s->best = s->choice[best];
    s->best_at = s->at[best];
}

/* The choices of this pass against the best so far, which is the first of them. */
static rp_status measure(tuning *g, subject *s, int64_t deadline, rp_error *err) {
    compile_racer out[LOWER_MAX_CHOICES + 1];
    uint32_t best = 0;
    heat h = {.g = g, .s = s};
    if (s->n < 2) {
        end_pass(g, s, 0);
        return RP_OK;
    }
    s->stopped = true;
    if (now(g) >= deadline) return RP_OK;
    RP_TRY(warm_up(&h, deadline, err));
    const compile_race r = {run_heat, heat_now, &h, deadline};
    RP_TRY(compile_race_run(&r, s->n, out, &best, err));
    uint32_t rounds = COMPILE_RACE_ROUNDS; /* of the one with the fewest */
    for (uint32_t i = 0; i < s->n; i++) {
        if (out[i].median) add_measured(s, &s->choice[i], out[i].median);
        if (out[i].rounds < rounds) rounds = out[i].rounds;
    }
    if (!is_crowded(s) && rounds >= COMPILE_RACE_LEAST) end_pass(g, s, best);
    return RP_OK;
}

/* --- passes ------------------------------------------------------------------------------ */

static bool is_measured(const subject *s, const lower_choice *c) {
    for (uint32_t i = 0; i < s->n_all; i++)
        if (lower_choice_eq(&s->all[i].choice, c)) return true;
    return false;
}

/* Searches that are asked for and have not come to their end. */
static uint32_t searches_left(const tuning *g, const subject *s) {
    const uint32_t asked = (g->t->list ? COMPILE_LISTED : 0u) |
                           (g->t->descend ? COMPILE_DESCENDED : 0u);
    return s->like == (uint32_t)(s - g->s) ? asked & ~s->searched : 0;
}

/* Choices of the pass; the first is the best so far. Returns how many are new. */
static uint32_t list_choices(const tuning *g, subject *s) {
    lower_choice all[LOWER_MAX_CHOICES];
    const gen_isa isa = g->opt->isa;
    const uint32_t left = s->stopped ? 0 : searches_left(g, s);
    s->search = left & COMPILE_LISTED ? COMPILE_LISTED : left;
    const uint32_t n = s->search == COMPILE_LISTED ? lower_choices(s->k, isa, all)
                                                   : lower_choices_near(s->k, isa, &s->best, all);
    s->choice[0] = s->best;
    s->at[0] = s->best_at;
    s->n = 1;
    if (!s->search) return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!lower_choice_eq(&all[i], &s->best) && !is_measured(s, &all[i]))
            s->choice[s->n++] = all[i];
    if (s->n == 1) end_pass(g, s, 0);
    return s->n - 1;
}

/* Variant v of the pass has choice v + 1 of each kernel that has so many, and the rules' of all others. */
static rp_status add_variants(tuning *g, uint32_t n, rp_error *err) {
    rp_status st = RP_OK;
    const uint32_t extra = g->n_variants == 0; /* the best so far come first */
    const uint32_t groups = g->base.n_groups;
    lower_choice *of = base_alloc_array((size_t)(n + extra) * groups + 1, sizeof *of);
    compile_choices *variants = base_alloc_array(n + extra + 1u, sizeof *variants);
    if (!of || !variants) {
        st = rp_fail(err, RP_NOMEM, "%u variants", n);
        goto out;
    }
    for (uint32_t v = 0; v < n + extra; v++)
        variants[v] = (compile_choices){of + (size_t)v * groups, groups};
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t c = extra ? 0 : 1; c < g->s[i].n; c++) {
            const uint32_t v = c + extra - 1;
            of[(size_t)v * groups + g->s[i].k->group] = g->s[i].choice[c];
            g->s[i].at[c] = g->n_variants + v;
        }
    RP_TRY_OUT(compile_bench_add(g->bench, variants, n + extra, err));
    g->n_variants += n + extra;
out:
    base_free(of);
    base_free(variants);
    return st;
}

/* What a choice makes of the kernel: text and launches. */
typedef struct outcome {
    base_hash128 text;
    long long items, grain;
} outcome;

static rp_status outcome_of(const tuning *g, const subject *s, uint32_t i, outcome *out,
                            rp_error *err) {
    const lower_piece *p = compile_bench_piece(g->bench, s->at[i]);
    size_t scratch;
    const hal_launch *l[COMPILE_BENCH_LAUNCHES];
    const uint32_t n = compile_bench_launches(g->bench, s->at[i], s->k, l, &scratch);
    *out = (outcome){.grain = n ? l[0]->grain : 0};
    for (uint32_t k = 0; k < n; k++) out->items += l[k]->items;
    return compile_record_text(p, s->k, &out->text, err);
}

static bool same_outcome(const outcome *a, const outcome *b) {
    if (a->text.lo != b->text.lo || a->text.hi != b->text.hi || a->items != b->items) return false;
    /* Shares of all items are one share. */
    return a->grain == b->grain || (a->grain >= a->items && b->grain >= b->items);
}

/* Equal ones are measured once. */
static rp_status drop_equal(const tuning *g, subject *s, rp_error *err) {
    outcome seen[LOWER_MAX_CHOICES + 1];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t k = 0;
        RP_TRY(outcome_of(g, s, i, &seen[kept], err));
        if (seen[kept].items == 0) { /* nothing runs at these sizes */
            s->n = 1;
            return RP_OK;
        }
        while (!same_outcome(&seen[k], &seen[kept])) k++;
        if (k < kept) continue;
        s->choice[kept] = s->choice[i];
        s->at[kept++] = s->at[i];
    }
    s->n = kept;
    return RP_OK;
}

static rp_status run_pass(tuning *g, bool *more, rp_error *err) {
    uint32_t most = 0, left = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const uint32_t n = list_choices(g, &g->s[i]);
        if (n > most) most = n;
        left += n > 0;
    }
    *more = most > 0;
    if (!*more) return RP_OK;
    int64_t t0 = base_now_ns();
    RP_TRY(add_variants(g, most, err));
    g->compile_s += (double)(base_now_ns() - t0) / 1e9;
    t0 = base_now_ns();
    for (uint32_t i = 0; i < g->n; i++) {
        subject *s = &g->s[i];
        if (s->n < 2) continue;
        const int64_t began = now(g);
        RP_TRY(drop_equal(g, s, err));
        RP_TRY(measure(g, s, began + g->t->budget / (left > 1 ? left : 1), err));
        left -= left > 0;
        g->t->budget -= now(g) - began;
    }
    g->measure_s += (double)(base_now_ns() - t0) / 1e9;
    return RP_OK;
}

static rp_status run_passes(tuning *g, rp_error *err) {
    bool more = true;
    RP_TRY(compile_bench_new(g->opt, g->sp, &g->base, g->t->device, &g->bench, err));
    for (uint32_t pass = 0; more && pass < MAX_PASSES && g->t->budget > 0; pass++)
        RP_TRY(run_pass(g, &more, err));
    return RP_OK;
}

/* --- the table ------------------------------------------------------------------------------ */

typedef struct row {
    compile_measured m;
    uint32_t number; /* in the order of measuring; 0: the rules' own */
} row;

static int by_time(const void *a, const void *b) {
    const int64_t x = ((const row *)a)->m.ns, y = ((const row *)b)->m.ns;
    return (x > y) - (x < y);
}

static void put_row(const subject *s, const row *r, int64_t best, base_buf *b) {
    const char *label = s->k->label;
    base_buf_printf(b, "\n  %.*s", (int)strcspn(label, "("), label);
    if (r->number) base_buf_printf(b, "_%u", r->number);
    base_buf_printf(b, " %.4f ms %.1f%%", (double)r->m.ns / 1e6,
                    100.0 * (double)best / (double)r->m.ns);
    if (!r->number) return;
    base_buf_putc(b, ' ');
    lower_choice_print(&r->m.choice, true, b);
}

/* As torch prints it: the fastest first, and how much of its speed the others have. */
static void put_table(const tuning *g, const subject *s, base_buf *b) {
    row rows[MAX_MEASURED];
    uint32_t number = 0;
    for (uint32_t i = 0; i < s->n_all; i++) {
        const bool own = is_rules(&s->all[i].choice);
        rows[i] = (row){s->all[i], own ? 0 : ++number};
    }
    qsort(rows, s->n_all, sizeof *rows, by_time);
    base_buf_printf(b, "AUTOTUNE %s", s->k->label);
    if (g->bench) compile_bench_put_sizes(g->bench, b);
    for (uint32_t i = 0; i < s->n_all; i++) put_row(s, &rows[i], rows[0].m.ns, b);
}

static void log_tables(const tuning *g) {
    uint32_t choices = 0;
    base_buf b;
    if (!base_log_on(RP_LOG_CH_AUTOTUNING, false)) return;
    for (uint32_t i = 0; i < g->n; i++) {
        const subject *s = &g->s[i];
        if (is_crowded(s))
            base_log_ch(RP_LOG_CH_AUTOTUNING, false,
                        "%s is not decided: other programs held the cores in %u of %u readings",
                        s->k->label, s->n_crowded, s->n_read);
        if (s->n_all < 2) continue;
        base_buf_init(&b, 0);
        put_table(g, s, &b);
        if (!b.failed) base_log_ch(RP_LOG_CH_AUTOTUNING, false, "%s", b.data);
        base_buf_done(&b);
        choices += s->n_all;
    }
    if (choices)
        base_log_ch(RP_LOG_CH_AUTOTUNING, false,
                    "SingleProcess AUTOTUNE benchmarking takes %.4f seconds and %.4f seconds "
                    "precompiling for %u choices",
                    g->measure_s, g->compile_s, choices);
}

/* --- a piece ---------------------------------------------------------------------------------- */

/* Launches that run something else than a function want what they run. */
static bool runs_alone(const lower_piece *p) {
    for (uint32_t i = 0; i < p->n_launches; i++)
        if (p->launches[i].custom || p->launches[i].control) return false;
    return true;
}

static bool same_key(const cache_key *a, const cache_key *b) {
    const base_hash128 x = cache_key_hash(a), y = cache_key_hash(b);
    return x.lo == y.lo && x.hi == y.hi;
}

static rp_status look_up(tuning *g, subject *s, rp_error *err) {
    compile_record r = {0};
    RP_TRY(
        compile_record_key(g->opt->backend, &g->host, g->t->device, &g->base, s->k, &s->key, err));
    s->like = (uint32_t)(s - g->s);
    for (uint32_t i = 0; i < s->like; i++)
        if (same_key(g->s[i].key, s->key)) {
            s->like = i;
            return RP_OK;
        }
    rp_status st = compile_record_get(g->host.store, s->key, s->k, g->opt->isa, &r, err);
    s->best = r.best;
    s->searched = r.searched;
    return st == RP_NOT_FOUND ? RP_OK : st;
}

/* Kernels with something to choose. *missing: some have no record that went as far as is asked. */
static rp_status find_subjects(tuning *g, bool *missing, rp_error *err) {
    lower_choice all[LOWER_MAX_CHOICES];
    g->s = base_alloc_array(g->base.n_kernels + 1u, sizeof *g->s);
    if (!g->s) return rp_fail(err, RP_NOMEM, "%u kernels to tune", g->base.n_kernels);
    for (uint32_t i = 0; i < g->base.n_kernels; i++) {
        const lower_kernel *k = &g->base.kernels[i];
        if (!k->may || !k->label || lower_choices(k, g->opt->isa, all) < 2) continue;
        subject *s = &g->s[g->n++];
        s->k = k;
        RP_TRY(look_up(g, s, err));
        *missing = *missing || searches_left(g, s);
    }
    return RP_OK;
}

/* What was too little to tell is measured again by the next process, which begins with the best so far. */
static rp_status keep_records(const tuning *g, rp_error *err) {
    for (uint32_t i = 0; i < g->n; i++) {
        const subject *s = &g->s[i];
        if (!s->told || is_crowded(s)) continue;
        const compile_record r = {s->best, s->searched, s->all, s->n_all};
        RP_TRY(compile_record_put(g->host.store, s->key, s->k, &r, err));
    }
    return RP_OK;
}

/* Tuning is of no need: a failure other than of memory, or of the user's patience, costs it alone. What cannot be measured never can. */
static rp_status tune(tuning *g, rp_error *err) {
    rp_error why = {0};
    rp_status st = RP_OK;
    if (!runs_alone(&g->base))
        st = rp_fail(&why, RP_UNSUPPORTED, "a custom op or a graph is within it");
    else if (g->t->budget > 0)
        st = run_passes(g, &why);
    log_tables(g);
    if (st == RP_NOMEM || st == RP_CANCELLED) return rp_fail(err, st, "%s", why.text);
    if (st != RP_OK)
        base_log_ch(RP_LOG_CH_AUTOTUNING, false, "submod_%u keeps the rules' choices: %s",
                    g->sp->submod, why.text);
    for (uint32_t i = 0; i < g->n && st != RP_UNSUPPORTED; i++)
        g->t->undecided += searches_left(g, &g->s[i]) != 0;
    return keep_records(g, err);
}

static rp_status take_choices(const tuning *g, lower_choice **out, uint32_t *n, rp_error *err) {
    bool any = false;
    for (uint32_t i = 0; i < g->n; i++) any = any || !is_rules(&g->s[g->s[i].like].best);
    if (!any) return RP_OK;
    *out = base_alloc_array(g->base.n_groups + 1u, sizeof **out);
    if (!*out) return rp_fail(err, RP_NOMEM, "%u choices", g->base.n_groups);
    *n = g->base.n_groups;
    for (uint32_t i = 0; i < g->n; i++) (*out)[g->s[i].k->group] = g->s[g->s[i].like].best;
    return RP_OK;
}

static rp_status tune_piece(tuning *g, lower_choice **out, uint32_t *n, rp_error *err) {
    bool missing = false;
    RP_TRY(compile_lower(g->opt, g->sp, &(compile_choices){NULL, 0}, true, &g->base, err));
    RP_TRY(find_subjects(g, &missing, err));
    if (missing) RP_TRY(tune(g, err));
    return take_choices(g, out, n, err);
}

rp_status compile_tune_piece(const compile_options *opt, const split_piece *sp,
                             const lower_choice **out, uint32_t *n, rp_error *err) {
    tuning g = {.opt = opt, .t = opt->tuner, .sp = sp};
    lower_choice *found = NULL;
    uint32_t n_found = 0;
    *out = NULL;
    *n = 0;
    if (!g.t || sp->splitting || compile_tuner_find(g.t, sp->hash, out, n)) return RP_OK;
    base_machine(g.machine);
    g.host = (compile_host){opt->isa, g.machine, opt->toolchain, opt->store, opt->nvrtc};
    rp_status st = tune_piece(&g, &found, &n_found, err);
    compile_bench_free(g.bench);
    for (uint32_t i = 0; g.s && i < g.n; i++) cache_key_free(g.s[i].key);
    base_free(g.s);
    lower_done(&g.base);
    if (st == RP_OK) st = compile_tuner_keep(g.t, sp->hash, found, n_found, err);
    if (st == RP_OK) (void)compile_tuner_find(g.t, sp->hash, out, n);
    return st;
}
