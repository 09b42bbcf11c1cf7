/* The pass table and its driver: run, verify, check the text round trip, dump. */
#include "pass/pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "pass/inplace.h"
#include "pass/passes.h"

static const pass_info passes[] = {
    {"fold", NULL, "compute what is constant", pass_fold, NULL},
    {"gather", NULL, "gather what an op reads, where few rows of its result are wanted",
     pass_gather, NULL},
    {"simplify", "eliminate_noops", "rewrite by simplify.rules", pass_simplify,
     pass_simplify_counted},
    {"cse", NULL, "join nodes that have become equal", pass_dce, NULL},
    {"dce", NULL, "drop what neither an output nor an effect needs", pass_dce, NULL},
    {"attention", NULL,
     "compute attention in blocks of rows, without columns that its mask hides from them",
     pass_attention, pass_attention_counted},
    {"inplace", NULL, "put reads of memory before its next write, or copy what they read",
     pass_inplace, NULL},
    {"fuse_norm_quant", "fuse_norm_quant", "round a norm's rows in its kernel", NULL, NULL},
    {"fuse_act_quant", "fuse_act_quant", "round rows in the kernel of the activation before", NULL,
     NULL},
    {"fuse_rope_kvcache", "fuse_rope_kvcache",
     "store to the KV cache in the kernel of the rotary embedding", NULL, NULL},
    {"enable_qk_norm_rope_fusion", "enable_qk_norm_rope_fusion",
     "turn heads in the kernel of their norm", NULL, NULL},
    {"fuse_qk_norm_rope_kvcache", "fuse_qk_norm_rope_kvcache",
     "store heads to the KV cache in the kernel of their norm and rotary embedding", NULL, NULL},
    {"fuse_attn_quant", "fuse_attn_quant",
     "round what attention gives in its kernel, where that is asked for", NULL, NULL},
};
#define N_PASSES (sizeof passes / sizeof *passes)

const pass_info *pass_table(uint32_t *n) {
    *n = N_PASSES;
    return passes;
}

static const pass_info *find(const char *name) {
    if (*name == '+') name++;
    for (size_t i = 0; i < N_PASSES; i++)
        if (strcmp(passes[i].name, name) == 0 ||
            (passes[i].config && strcmp(passes[i].config, name) == 0))
            return &passes[i];
    return NULL;
}

bool pass_is_skipped(const pass_options *opt, const char *name) {
    const pass_info *p = find(name);
    assert(p);
    for (uint32_t i = 0; opt && p && i < opt->n_skip; i++)
        if (opt->skip[i][0] != '+' && find(opt->skip[i]) == p) return true;
    return false;
}

bool pass_is_asked(const pass_options *opt, const char *name) {
    bool asked = false;
    for (uint32_t i = 0; opt && i < opt->n_skip; i++)
        asked = asked || (opt->skip[i][0] == '+' && strcmp(opt->skip[i] + 1, name) == 0);
    return asked && !pass_is_skipped(opt, name);
}

/* also: names of others that there are. */
static rp_status unknown_pass(const char *name, const char *const *also, uint32_t n_also,
                              rp_error *err) {
    const char *known[N_PASSES];
    base_buf all;
    base_buf_init(&all, 0);
    for (size_t i = 0; i < N_PASSES; i++) {
        known[i] = passes[i].name;
        base_buf_printf(&all, "%s%s", i ? ", " : "", known[i]);
    }
    for (uint32_t i = 0; i < n_also; i++) base_buf_printf(&all, ", %s", also[i]);
    const char *two[2] = {base_str_nearest(name, known, N_PASSES),
                          base_str_nearest(name, also, n_also)};
    if (!two[0]) two[0] = two[1];
    const char *near = two[0] ? base_str_nearest(name, two, two[1] ? 2 : 1) : NULL;
    rp_status st = base_buf_status(&all, err);
    if (st == RP_OK)
        st = rp_fail(err, RP_CONFIG, "no pass %.60s; %s%s", name, near ? "nearest: " : "there are ",
                     near ? near : all.data);
    base_buf_done(&all);
    return st;
}

static rp_status check_names(const char *const *names, uint32_t n, const char *const *also,
                             uint32_t n_also, rp_error *err) {
    for (uint32_t i = 0; i < n; i++)
        if (!find(names[i])) return unknown_pass(names[i], also, n_also, err);
    return RP_OK;
}

rp_status pass_check_names(const char *const *names, uint32_t n, rp_error *err) {
    return check_names(names, n, NULL, 0, err);
}

rp_status pass_check_skips(const char *const *names, uint32_t n, const char *const *also,
                           uint32_t n_also, rp_error *err) {
    RP_TRY(check_names(names, n, also, n_also, err));
    for (uint32_t i = 0; i < n; i++)
        if (find(names[i])->run == pass_inplace)
            return rp_fail(err, RP_CONFIG,
                           "pass %s cannot be left out: memory would be read after it is "
                           "overwritten",
                           names[i]);
    return RP_OK;
}

rp_status pass_check_text(const ir_graph *g, rp_error *err) {
    char *a = NULL, *b = NULL;
    ir_graph *again = NULL;
    rp_status st = RP_OK;
    RP_TRY_OUT(ir_print_string(g, &a, err));
    RP_TRY_OUT(ir_parse(a, strlen(a), &again, err));
    RP_TRY_OUT(ir_print_string(again, &b, err));
    if (strcmp(a, b) != 0)
        st = rp_fail(err, RP_INTERNAL, "print(parse(print(@%s))) differs", ir_graph_name(g));
out:
    base_free(a);
    base_free(b);
    ir_graph_free(again);
    return st;
}

/* Takes over g. */
static rp_status check_made(ir_graph *g, ir_graph **out, rp_error *err) {
    rp_status st = ir_verify(g, err);
#ifndef NDEBUG
    if (st == RP_OK) st = pass_check_text(g, err);
#endif
    if (st != RP_OK)
        ir_graph_free(g);
    else
        *out = g;
    return st;
}

pass_count *pass_count_of(pass_counts *c, const char *name) {
    if (!c) return NULL;
    for (uint32_t i = 0; i < c->n; i++)
        if (strcmp(c->of[i].name, name) == 0) return &c->of[i];
    if (c->n == PASS_MOST_COUNTS) return NULL;
    c->of[c->n] = (pass_count){name, 0, 0};
    return &c->of[c->n++];
}

/* counts: NULL, or what it changed is added there. */
static rp_status run_one(const pass_info *p, const ir_graph *in, pass_counts *counts,
                         ir_graph **out, rp_error *err) {
    ir_graph *g = NULL;
    pass_count *c = p->run_counted ? pass_count_of(counts, p->name) : NULL;
    RP_TRY(c ? p->run_counted(in, &g, &c->matches, err) : p->run(in, &g, err));
    return check_made(g, out, err);
}

rp_status pass_run(const char *name, const ir_graph *in, ir_graph **out, rp_error *err) {
    RP_TRY(pass_check_names(&name, 1, err));
    const pass_info *p = find(name);
    if (p->run) return run_one(p, in, NULL, out, err);
    return rp_fail(err, RP_CONFIG, "%s is a fusion: it gives kernels, not a graph", name);
}

/* PREFIX1_fold.ir: the names sort in the order of the passes; others' are number 0. */
static rp_status dump(const ir_graph *g, const pass_options *opt, size_t number, const char *name,
                      rp_error *err) {
    char *text = NULL;
    base_buf path;
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/%s%zu_%s.ir", opt->dump_dir,
                    opt->dump_prefix ? opt->dump_prefix : "", number, name);
    rp_status st = base_buf_status(&path, err);
    if (st == RP_OK) st = ir_print_string(g, &text, err);
    if (st == RP_OK) st = base_file_write_atomic(path.data, text, strlen(text), err);
    base_buf_done(&path);
    base_free(text);
    return st;
}

/* What a pass that failed leaves, in *out: nothing where the failure is one of the compile. */
static rp_status extra_failed(const pass_extra *x, const ir_graph *g, const pass_options *opt,
                              rp_status st, const rp_error *why, rp_error *err) {
    if (!opt->keep_going || st == RP_NOMEM)
        return rp_fail(err, st, "pass %s on @%s: %s", x->name, ir_graph_name(g), why->text);
    pass_count *c = pass_count_of(opt->counts, x->name);
    if (c) c->failures++;
    if (!opt->quiet)
        base_log(RP_LOG_WARNING, "pass %s on @%s: %s; the graph stays as it was", x->name,
                 ir_graph_name(g), why->text);
    return RP_OK;
}

/* *out stays NULL where the graph does. */
static rp_status run_extra(const pass_extra *x, const ir_graph *g, const pass_options *opt,
                           ir_graph **out, rp_error *err) {
    rp_error why = {0};
    ir_graph *made = NULL;
    uint32_t n = 0;
    rp_status st = x->run(x->self, g, &made, &n, &why);
    if (st == RP_OK) st = check_made(made, out, &why);
    if (st != RP_OK) return extra_failed(x, g, opt, st, &why, err);
    pass_count *c = pass_count_of(opt->counts, x->name);
    if (c) c->matches += n;
    if (!opt->quiet)
        base_log_ch(RP_LOG_CH_INDUCTOR, n == 0, "pass %s: %u match%s in @%s", x->name, n,
                    n == 1 ? "" : "es", ir_graph_name(g));
    return RP_OK;
}

/* *g: in, or the caller's. */
static rp_status run_extras(const ir_graph *in, const pass_options *opt, ir_graph **g,
                            rp_error *err) {
    for (uint32_t i = 0; opt && i < opt->n_extra; i++) {
        ir_graph *next = NULL;
        int64_t began = opt->ran ? base_now_ns() : 0;
        RP_TRY(run_extra(&opt->extra[i], *g ? *g : in, opt, &next, err));
        if (opt->ran) opt->ran(opt->user, opt->extra[i].name, began);
        if (!next) continue;
        ir_graph_free(*g);
        *g = next;
        if (opt->dump_dir) RP_TRY(dump(*g, opt, 0, opt->extra[i].name, err));
    }
    return RP_OK;
}

typedef struct teller {
    const ir_graph *g;
    const pass_options *opt;
    bool any; /* becomes blocks */
} teller;

static void tell_attention(void *user, const pass_attention_found *f) {
    teller *t = user;
    t->any = t->any || f->blocks > 0;
    if (t->opt && t->opt->attention) t->opt->attention(t->opt->user, t->g, f);
    if (!t->opt || t->opt->quiet) return;
    if (f->blocks)
        base_log_ch(RP_LOG_CH_INDUCTOR, false, "pass attention: %s of @%s in blocks of rows: %u",
                    ir_name_of(t->g, f->product).s, ir_graph_name(t->g), f->blocks);
    else
        base_log_ch(RP_LOG_CH_INDUCTOR, true, "pass attention: %s of @%s stays whole: %s",
                    ir_name_of(t->g, f->product).s, ir_graph_name(t->g), f->why);
}

/* *done: there is nothing for the pass to do. */
static rp_status is_done(const pass_info *p, const ir_graph *g, const pass_options *opt, bool *done,
                         rp_error *err) {
    teller t = {.g = g, .opt = opt};
    *done = false;
    if (p->run == pass_inplace) return pass_check_inplace(g, done, err);
    if (p->run != pass_attention) return RP_OK;
    rp_status st = pass_attention_each(g, tell_attention, &t, err);
    *done = !t.any;
    return st;
}

rp_status pass_run_all(const ir_graph *in, const pass_options *opt, ir_graph **out, rp_error *err) {
    ir_graph *g = NULL, *own = NULL;
    rp_status st = RP_OK;
    if (opt) RP_TRY(pass_check_skips(opt->skip, opt->n_skip, NULL, 0, err));
    RP_TRY_OUT(run_extras(in, opt, &g, err));
    for (size_t i = 0; i < N_PASSES; i++) {
        ir_graph *next = NULL;
        bool done = false;
        if (!passes[i].run || pass_is_skipped(opt, passes[i].name)) continue;
        RP_TRY_OUT(is_done(&passes[i], g ? g : in, opt, &done, err));
        if (done) continue;
        int64_t began = opt && opt->ran ? base_now_ns() : 0;
        RP_TRY_OUT(run_one(&passes[i], g ? g : in, opt ? opt->counts : NULL, &next, err));
        if (opt && opt->ran) opt->ran(opt->user, passes[i].name, began);
        ir_graph_free(g);
        g = next;
        if (opt && opt->dump_dir) RP_TRY_OUT(dump(g, opt, i + 1, passes[i].name, err));
    }
    /* The caller gets a graph of its own even where everything is left out. */
    if (!g) RP_TRY_OUT(pass_dce(in, &g, err));
    if (opt && opt->piece) RP_TRY_OUT(pass_own_outputs(in, g, &own, err));
    *out = own ? own : g;
    if (!own) g = NULL;
out:
    ir_graph_free(g);
    return st;
}
