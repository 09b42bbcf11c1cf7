/* Writes down the stages of compiling: traced graph, split, passes, fusion, kernel IR, schedules, source, plan.
 *
 * Stages are made a second time for this, with kernel IR on; lowering is deterministic, and what the autotuner chooses for the dump is
 * what the compile then takes, so the text is that of the code that runs (a test compares both). What the inductor backend alone has is left out for eager. */
#include "compile/dump.h"

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"
#include "compile/benchmark.h"
#include "compile/tune.h"
#include "ir/site.h"
#include "pass/fuse.h"
#include "pass/inplace.h"
#include "target/target.h"

enum { MOST_NAME = 64, MOST_BODY = 24, MOST_FORMS = 512, MOST_OF_A_NAME = 64 };

/* A graph within the graph; of several that are equal the first. */
typedef struct dump_body {
    struct dump_body *next;
    ir_graph *g;
    char name[MOST_BODY + 12]; /* fit for a file name, and no other's */
    const char *where;         /* a line: what runs it */
} dump_body;

typedef struct dump_bodies {
    base_arena *arena;
    dump_body *first;
} dump_bodies;

typedef struct dump {
    const ir_graph *g;
    const compile_options *opt;
    const char *dir;                       /* NULL: channels only */
    const char *whole;                     /* name of the outermost graph, fit for a file name, */
    char name[MOST_NAME + MOST_BODY + 12]; /* and of g: "gru", of a graph within it "gru.cell" */
    const dump_body *body;                 /* or NULL */
    dump_bodies *bodies;                   /* of the whole graph */
} dump;

/* --- files ------------------------------------------------------------------------ */

rp_status compile_dump_dir(const rp_compilation_config *cfg, char **out, rp_error *err) {
    base_buf b;
    *out = NULL;
    if (!cfg->debug_dump_path || !*cfg->debug_dump_path) return RP_OK;
    base_buf_init(&b, 0);
    /* One process drives one device: the rank is 0. */
    base_buf_printf(&b, "%s/rank_0", cfg->debug_dump_path);
    rp_status st = base_buf_status(&b, err);
    rp_error why = {0};
    if (st == RP_OK && (st = base_dir_make(b.data, &why)) != RP_OK)
        st = rp_fail(err, st,
                     "%s; debug_dump_path, $REPRISE_DEBUG_DUMP_PATH or $REPRISE_DEBUG asks for it",
                     why.text);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}

/* What this process has dumped: which graph, and under which name of which folder. A function has graphs of one name, one for each
 * entry and each piece between graph breaks. Those beyond the most of a name overwrite the last. */
static struct {
    base_hash128 place, graph;
    uint32_t number;
} form[MOST_FORMS];
static uint32_t n_forms;
static pthread_mutex_t forms_lock = PTHREAD_MUTEX_INITIALIZER;

static bool same_hash(base_hash128 a, base_hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

/* Which graph of that place it is, from 1 on. */
static uint32_t number_of(base_hash128 place, base_hash128 graph) {
    uint32_t last = 0, is = 0;
    (void)pthread_mutex_lock(&forms_lock);
    for (uint32_t i = 0; i < n_forms && !is; i++) {
        if (!same_hash(form[i].place, place)) continue;
        last = form[i].number;
        if (same_hash(form[i].graph, graph)) is = last;
    }
    if (!is && n_forms < MOST_FORMS && last < MOST_OF_A_NAME) {
        last = is = form[n_forms].number = last + 1;
        form[n_forms].place = place;
        form[n_forms++].graph = graph;
    }
    (void)pthread_mutex_unlock(&forms_lock);
    return is ? is : last + !last;
}

/* At most so many characters of the name of a graph, those that a file name may have. */
static size_t plain_name(const ir_graph *g, size_t most, char *out) {
    const char *name = ir_graph_name(g);
    size_t n = 0;
    for (; name[n] && n < most; n++)
        out[n] = (char)(isalnum((unsigned char)name[n]) || name[n] == '_' ? name[n] : '-');
    out[n] = 0;
    return n;
}

/* "forward", "forward-2" where the folder has another graph of that name. */
static rp_status file_name(const ir_graph *g, const char *dir, char out[MOST_NAME], rp_error *err) {
    base_buf text, place;
    size_t n = plain_name(g, MOST_NAME - 12, out);
    if (!dir) return RP_OK;
    base_buf_init(&text, 0);
    base_buf_init(&place, 0);
    base_buf_printf(&place, "%s/%s", dir, out);
    ir_print(g, &text);
    rp_status st = base_buf_status(&text, err);
    if (st == RP_OK) st = base_buf_status(&place, err);
    uint32_t number =
        st == RP_OK ? number_of(base_hash(place.data, place.len), base_hash(text.data, text.len))
                    : 1;
    if (number > 1) (void)snprintf(out + n, MOST_NAME - n, "-%u", number);
    base_buf_done(&text);
    base_buf_done(&place);
    return st;
}

/* dir/stage.graph[.submod_NNN].ext */
static rp_status put(const char *dir, const char *stage, const char *graph, const split_piece *sp,
                     const char *ext, const base_buf *text, rp_error *err) {
    base_buf path;
    RP_TRY(base_buf_status(text, err));
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/%s.%s", dir, stage, graph);
    if (sp) base_buf_printf(&path, ".submod_%03u", sp->submod);
    base_buf_printf(&path, ".%s", ext);
    rp_status st = base_buf_status(&path, err);
    if (st == RP_OK) st = base_file_write_atomic(path.data, text->data, text->len, err);
    base_buf_done(&path);
    return st;
}

static rp_status put_graph(const dump *d, const char *stage, const ir_graph *g,
                           const split_piece *sp, rp_error *err) {
    base_buf text;
    base_buf_init(&text, 0);
    ir_print(g, &text);
    rp_status st = put(d->dir, stage, d->name, sp, "ir", &text, err);
    base_buf_done(&text);
    return st;
}

/* Beside the traced graph, whose text knows none. */
static rp_status put_sites(const dump *d, rp_error *err) {
    base_buf text;
    rp_status st = RP_OK;
    base_buf_init(&text, 0);
    ir_sites_list(d->g, &text);
    if (text.len) st = put(d->dir, "0_traced", d->name, NULL, "sites.txt", &text, err);
    base_buf_done(&text);
    return st;
}

/* As torch's fx_graph_runnable: what runs the traced graph by itself. */
static rp_status put_runnable(const dump *d, rp_error *err) {
    base_buf text;
    base_buf_init(&text, 0);
    base_buf_printf(&text,
                    "#!/bin/sh\n"
                    "# Compiles graph @%s as it was traced and runs it on seeded inputs; arguments "
                    "go to `reprise eval`:\n"
                    "#   sh 0_traced.%s.sh --seed 1 --sizes T=4\n"
                    "#   sh 0_traced.%s.sh --backend interp    (the reference)\n"
                    "exec \"${REPRISE:-reprise}\" eval \"$(dirname \"$0\")/0_traced.%s.ir\" "
                    "--backend cpu \"$@\"\n",
                    ir_graph_name(d->g), d->name, d->name, d->name);
    rp_status st = put(d->dir, "0_traced", d->name, NULL, "sh", &text, err);
    base_buf_done(&text);
    return st;
}

/* --- channels ------------------------------------------------------------------------ */

static bool channels_want(void) {
    return base_log_on(RP_LOG_CH_GRAPH, false) || base_log_on(RP_LOG_CH_KERNEL_CODE, false);
}

static void put_piece_line(const split_piece *sp, base_buf *out) {
    base_buf_printf(out, "submod_%u", sp->submod);
    if (sp->splitting)
        base_buf_puts(out, ", splitting");
    else
        base_buf_printf(out, ", graph %u", sp->graph_index);
    if (sp->distinct != sp->submod)
        base_buf_printf(out, ", same as submod_%u", sp->distinct);
    else
        base_buf_printf(out, ", %u nodes", ir_graph_count(sp->graph));
    base_buf_putc(out, '\n');
}

static rp_status log_text(rp_log_channel ch, const base_buf *text, rp_error *err) {
    RP_TRY(base_buf_status(text, err));
    if (text->data) base_log_ch(ch, false, "%s", text->data);
    return RP_OK;
}

static rp_status log_split(const dump *d, const split_result *s, rp_error *err) {
    base_buf b;
    if (!base_log_on(RP_LOG_CH_GRAPH, false)) return RP_OK;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "SPLIT GRAPH\n===== %s: %u pieces, %u compiled, %u distinct =====\n",
                    ir_graph_name(d->g), s->n_pieces, s->n_compiled, s->n_distinct);
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        put_piece_line(&s->pieces[i], &b);
        if (s->pieces[i].distinct == i) ir_print(s->pieces[i].graph, &b);
    }
    rp_status st = log_text(RP_LOG_CH_GRAPH, &b, err);
    base_buf_done(&b);
    return st;
}

/* The line on which `symbol` or one of its helpers (symbol_body) is first named; its attribute is before it. */
static const char *kernel_start(const char *source, const char *symbol) {
    const char *at = strstr(source, symbol);
    while (at && at > source && at[-1] != '\n') at--;
    for (const char *p = at; p && p - 1 > source;) {
        for (p--; p > source && p[-1] != '\n';) p--;
        if (strncmp(p, "__attribute__", 13) != 0) break;
        at = p;
    }
    return at;
}

/* Each kernel from its first helper to the end of the function itself. */
static void log_kernels(const dump *d, const split_piece *sp, const lower_piece *low,
                        const char *from) {
    const char *body = d->body ? d->body->name : "";
    if (!from || !base_log_on(RP_LOG_CH_KERNEL_CODE, false)) return;
    for (uint32_t i = 0; i < low->n_launches; i++)
        for (uint32_t k = 0; k < low->launches[i].n_alts; k++) {
            const char *symbol = low->launches[i].alts[k].symbol;
            if (low->launches[i].custom || !symbol || symbol[0] == '@') continue;
            const char *start = kernel_start(from, symbol);
            const char *at = start;
            char head[160];
            base_buf b;
            base_buf_init(&b, sizeof head);
            base_buf_printf(&b, " %s(", symbol);
            if (at && !b.failed) at = strstr(start, b.data);
            base_buf_done(&b);
            const char *end = at ? strstr(at, "\n}\n") : NULL;
            if (!end) continue;
            base_log_ch(RP_LOG_CH_KERNEL_CODE, false, "%s of %s%s%ssubmod_%u:\n%.*s", symbol,
                        *body ? "@" : "", body, *body ? ", " : "", sp->submod,
                        (int)(end + 2 - start), start);
            from = end + 2;
        }
}

void compile_log_step(const ir_graph *g, const compile_options *opt, bool done) {
    base_log_ch(RP_LOG_CH_DYNAMO, false, "Step 2: %s compiler function %s for %s",
                done ? "done" : "calling", opt->backend->name, ir_graph_name(g));
}

void compile_log_lowered(const split_piece *sp, const lower_piece *low, double ms) {
    uint32_t kernels = 0, builtin = 0;
    if (!base_log_on(RP_LOG_CH_INDUCTOR, false)) return;
    for (uint32_t i = 0; i < low->n_launches; i++) {
        const lower_launch *l = &low->launches[i];
        const char *first = l->alts[0].symbol;
        bool own = !l->custom && !(first && first[0] == '@');
        kernels += own ? l->n_alts - !first : 0;
        builtin += !own;
    }
    base_log_ch(RP_LOG_CH_INDUCTOR, false,
                "submod_%u: %u nodes lowered to %u launches: %u kernels generated, %u built in "
                "(%.1f ms)",
                sp->submod, ir_graph_count(sp->graph), low->n_launches, kernels, builtin, ms);
}

void compile_shape_text(int64_t first, int64_t last, char out[COMPILE_SHAPE]) {
    if (!last)
        (void)snprintf(out, COMPILE_SHAPE, "None");
    else if (first == last)
        (void)snprintf(out, COMPILE_SHAPE, "%" PRId64, last);
    else
        (void)snprintf(out, COMPILE_SHAPE, "(%" PRId64 ", %" PRId64 ")", first, last);
}

void compile_log_code(const split_piece *sp, const compile_options *opt, const char *hit,
                      double ms) {
    char shape[COMPILE_SHAPE];
    compile_shape_text(opt->first, opt->last, shape);
    if (hit) {
        base_log_ch(RP_LOG_CH_INDUCTOR, false, "submod_%u: fx graph cache hit for key %s",
                    sp->submod, hit);
        return;
    }
    const char *by = opt->toolchain ? opt->toolchain->version : NULL,
               *arch = gen_isa_name(opt->isa);
    if (opt->nvrtc && *opt->nvrtc->arch) by = opt->nvrtc->version, arch = opt->nvrtc->arch;
    base_log_ch(RP_LOG_CH_INDUCTOR, false,
                "submod_%u: Compiling graph %u for shape %s with %s for %s takes %.1f ms",
                sp->submod, sp->graph_index, shape, by ? by : "cc", arch, ms);
}

/* --- stages ----------------------------------------------------------------------------- */

static rp_status put_split(const dump *d, const split_result *s, rp_error *err) {
    rp_status st = RP_OK;
    base_buf list;
    base_buf_init(&list, 0);
    if (d->body) base_buf_puts(&list, d->body->where);
    for (uint32_t i = 0; i < s->n_pieces; i++) put_piece_line(&s->pieces[i], &list);
    RP_TRY_OUT(put(d->dir, "1_split", d->name, NULL, "txt", &list, err));
    for (uint32_t i = 0; i < s->n_pieces; i++)
        if (s->pieces[i].distinct == i)
            RP_TRY_OUT(put_graph(d, "1_split", s->pieces[i].graph, &s->pieces[i], err));
out:
    base_buf_done(&list);
    return st;
}

static rp_status optimise(const dump *d, const split_piece *sp, ir_graph **out, rp_error *err) {
    pass_options o = {.skip = d->opt->skip_passes,
                      .n_skip = d->opt->n_skip_passes,
                      .extra = d->opt->extra_passes,
                      .n_extra = d->opt->n_extra_passes,
                      .keep_going = d->opt->keep_going,
                      .quiet = true,
                      .piece = true};
    base_buf prefix;
    base_buf_init(&prefix, 0);
    base_buf_printf(&prefix, "2_pass.%s.submod_%03u.", d->name, sp->submod);
    rp_status st = base_buf_status(&prefix, err);
    o.dump_dir = d->dir;
    o.dump_prefix = prefix.data;
    if (st == RP_OK) st = pass_run_all(sp->graph, &o, out, err);
    base_buf_done(&prefix);
    return st;
}

static rp_status put_fusion(const dump *d, const split_piece *sp, const ir_graph *g,
                            const pass_options *o, rp_error *err) {
    pass_fusion f = {0};
    base_buf text;
    RP_TRY(pass_fuse(g, o, &f, err));
    base_buf_init(&text, 0);
    pass_fusion_print(g, &f, &text);
    rp_status st = put(d->dir, "3_fusion", d->name, sp, "txt", &text, err);
    base_buf_done(&text);
    pass_fusion_done(&f);
    return st;
}

/* Beside the source, and including it. g: after the passes. */
static rp_status put_benchmark(const dump *d, const split_piece *sp, const ir_graph *g,
                               const lower_piece *low, rp_error *err) {
    base_buf name, text;
    base_buf_init(&name, 0);
    base_buf_init(&text, 0);
    base_buf_printf(&name, "5_source.%s.submod_%03u.c", d->name, sp->submod);
    rp_status st = base_buf_status(&name, err);
    gen_cc_family family = d->opt->toolchain ? d->opt->toolchain->family : GEN_CC_GCC;
    if (st == RP_OK)
        st = compile_benchmark_print(g, low, d->opt->isa, family, name.data, &text, err);
    if (st == RP_OK && text.len) st = put(d->dir, "5_source", d->name, sp, "bench.c", &text, err);
    base_buf_done(&name);
    base_buf_done(&text);
    return st;
}

static rp_status dump_bodies_of(const dump *d, const split_piece *sp, const ir_graph *g,
                                rp_error *err);

static rp_status dump_piece(const dump *d, const split_piece *sp, rp_error *err) {
    pass_options o = {.skip = d->opt->skip_passes, .n_skip = d->opt->n_skip_passes, .quiet = true};
    rp_status st = RP_OK;
    ir_graph *g = NULL;
    lower_piece low = {0};
    base_buf kir, schedule, source;
    base_buf_init(&kir, 0);
    base_buf_init(&schedule, 0);
    base_buf_init(&source, 0);
    lower_options lo = {.isa = d->opt->isa,
                        .exact = d->opt->exact,
                        .shared = d->opt->nvrtc ? compile_nvrtc_shared(d->opt->nvrtc->arch) : 0,
                        .built_in = d->opt->built_in,
                        .threads = d->opt->launch_threads,
                        .packed = d->opt->last > 0,
                        .passes = &o,
                        .sites = true,
                        .origins = true,
                        .kir = &kir,
                        .schedule = &schedule};
    RP_TRY_OUT(compile_tune_piece(d->opt, sp, &lo.choices, &lo.n_choices, err));
    if (d->opt->passes) RP_TRY_OUT(optimise(d, sp, &g, err));
    RP_TRY_OUT(d->opt->backend->lower(g ? g : sp->graph, &lo, &low, err));
    RP_TRY_OUT(dump_bodies_of(d, sp, g ? g : sp->graph, err));
    if (!low.source[0]) goto out; /* built-in kernels: there is no text of them */
    pass_splits splits;           /* as lowering has it */
    o.splits = target_splits(low.target, d->opt->launch_threads, &splits);
    if (d->dir) RP_TRY_OUT(put_fusion(d, sp, g ? g : sp->graph, &o, err));
    lower_source_print(&low, &source);
    RP_TRY_OUT(base_buf_status(&source, err));
    log_kernels(d, sp, &low, source.data);
    if (!d->dir) goto out;
    if (kir.len) RP_TRY_OUT(put(d->dir, "4_kernels", d->name, sp, "kir", &kir, err));
    if (schedule.len) RP_TRY_OUT(put(d->dir, "4_schedule", d->name, sp, "sched", &schedule, err));
    RP_TRY_OUT(
        put(d->dir, "5_source", d->name, sp, low.target == GEN_CUDA ? "cu" : "c", &source, err));
    RP_TRY_OUT(put_benchmark(d, sp, g ? g : sp->graph, &low, err));
out:
    base_buf_done(&kir);
    base_buf_done(&schedule);
    base_buf_done(&source);
    lower_done(&low);
    ir_graph_free(g);
    return st;
}

/* As compile_graph takes it apart. */
static rp_status dump_graph(dump *d, rp_error *err) {
    split_result s = {0};
    ir_graph *made = NULL, *apart = NULL;
    rp_status st = RP_OK;
    RP_TRY_OUT(pass_make_inplace(d->g, &d->g, &made, err));
    if (d->opt->backend->alone) RP_TRY_OUT(pass_separate_outputs(d->g, &apart, err));
    if (apart) d->g = apart;
    RP_TRY_OUT(split_graph(d->g, d->opt->splitting_ops, d->opt->n_splitting_ops, &s, err));
    RP_TRY_OUT(log_split(d, &s, err));
    if (d->dir) RP_TRY_OUT(put_split(d, &s, err));
    for (uint32_t i = 0; i < s.n_pieces; i++)
        if (s.pieces[i].distinct == i) RP_TRY_OUT(dump_piece(d, &s.pieces[i], err));
out:
    split_done(&s);
    ir_graph_free(apart);
    ir_graph_free(made);
    return st;
}

/* --- graphs within the graph ------------------------------------------------------------------- */

/* What runs graph i of node r of g, a piece. */
static const char *where_of(const dump *d, const split_piece *sp, const ir_graph *g, ir_ref r,
                            uint32_t i) {
    const ir_node *n = ir_node_at(g, r);
    const char *line = NULL;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s @%s of @%s, submod_%u: ", ir_graph_role(n->op, i),
                    ir_graph_name(ir_node_graph(n, i)), ir_graph_name(d->g), sp->submod);
    ir_print_line(g, r, &b);
    base_buf_putc(&b, '\n');
    if (!b.failed) line = base_arena_strn(d->bodies->arena, b.data, b.len);
    base_buf_done(&b);
    return line;
}

static bool is_taken(const dump_bodies *all, const char *name) {
    for (const dump_body *p = all->first; p; p = p->next)
        if (strcmp(p->name, name) == 0) return true;
    return false;
}

/* Where an equal one was told already *out is NULL. */
static rp_status add_body(dump_bodies *all, const ir_graph *g, const char *where, dump_body **out,
                          rp_error *err) {
    dump_body *o = base_arena_alloc(all->arena, sizeof *o);
    const char *text = ir_graph_text(g);
    uint32_t number = 1;
    *out = NULL;
    if (!o || !text || !where) return rp_fail(err, RP_NOMEM, "graphs within a graph");
    *o = (dump_body){.next = all->first, .where = where};
    const size_t n = plain_name(g, MOST_BODY, o->name);
    for (const dump_body *p = all->first; p; p = p->next) {
        const char *other = ir_graph_text(p->g);
        if (other && strcmp(text, other) == 0) return RP_OK;
    }
    while (is_taken(all, o->name)) (void)snprintf(o->name + n, sizeof o->name - n, "-%u", ++number);
    o->g = ir_graph_share(g);
    *out = all->first = o;
    return RP_OK;
}

/* Each is compiled by itself, and so it has stages of its own. g: piece sp after the passes. */
static rp_status dump_bodies_of(const dump *d, const split_piece *sp, const ir_graph *g,
                                rp_error *err) {
    const ir_graph *f;
    for (ir_ref r = 0; r < ir_graph_count(g); r++)
        for (uint32_t i = 0; (f = ir_node_graph(ir_node_at(g, r), i)); i++) {
            dump own = {
                .g = f, .opt = d->opt, .dir = d->dir, .whole = d->whole, .bodies = d->bodies};
            dump_body *body = NULL;
            RP_TRY(add_body(d->bodies, f, where_of(d, sp, g, r, i), &body, err));
            if (!body) continue;
            own.body = body;
            (void)snprintf(own.name, sizeof own.name, "%s.%s", d->whole, body->name);
            RP_TRY(dump_graph(&own, err));
        }
    return RP_OK;
}

static void bodies_done(dump_bodies *b) {
    for (dump_body *p = b->first; p; p = p->next) ir_graph_free(p->g);
    base_arena_free(b->arena);
}

rp_status compile_dump_stages(const ir_graph *g, const compile_options *opt, const char *dir,
                              rp_error *err) {
    char name[MOST_NAME];
    dump_bodies bodies = {0};
    dump d = {.g = g, .opt = opt, .dir = dir, .whole = name, .bodies = &bodies};
    rp_status st = RP_OK;
    if (!dir && !channels_want()) return RP_OK;
    RP_TRY(file_name(g, dir, name, err));
    (void)snprintf(d.name, sizeof d.name, "%s", name);
    bodies.arena = base_arena_new();
    if (!bodies.arena) return rp_fail(err, RP_NOMEM, "dump");
    if (dir) RP_TRY_OUT(put_graph(&d, "0_traced", g, NULL, err));
    if (dir) RP_TRY_OUT(put_sites(&d, err));
    if (dir) RP_TRY_OUT(put_runnable(&d, err));
    RP_TRY_OUT(dump_graph(&d, err));
out:
    bodies_done(&bodies);
    return st;
}

rp_status compile_dump_plan(const plan *p, const ir_graph *g, const char *dir, rp_error *err) {
    char name[MOST_NAME];
    base_buf text;
    rp_status st = RP_OK;
    base_buf_init(&text, 0);
    if (dir) {
        RP_TRY_OUT(file_name(g, dir, name, err));
        plan_print(p, &text);
        RP_TRY_OUT(put(dir, "6_plan", name, NULL, "txt", &text, err));
        base_buf_clear(&text);
    }
    if (base_log_on(RP_LOG_CH_SCHEDULE, false)) {
        plan_print_schedule(p, base_log_on(RP_LOG_CH_SCHEDULE, true), &text);
        RP_TRY_OUT(log_text(RP_LOG_CH_SCHEDULE, &text, err));
    }
out:
    base_buf_done(&text);
    return st;
}
