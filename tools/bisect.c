/* reprise bisect: which kernel computes something else than the interpreter, and the smallest graph that shows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/graph.h"
#include "tools/input.h"
#include "tools/stages.h"

static bool go_on(void *user, uint32_t runs) {
    (void)user, (void)runs;
    return !tool_interrupted();
}

/* --- the report ---------------------------------------------------------------------- */

/* Flags that say where text goes or how long to search, and not what is compared. */
static bool is_of_search(tool_flag f) {
    return f == TOOL_FLAG_SIZES || f == TOOL_FLAG_OUT || f == TOOL_FLAG_MAX_RUNS ||
           f == TOOL_FLAG_JSON || f == TOOL_FLAG_QUIET || f == TOOL_FLAG_LOGS ||
           f == TOOL_FLAG_LOG_LEVEL;
}

/* As one word of a shell. */
static void put_word(FILE *to, const char *word) {
    static const char plain[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_./,:=+@%-";
    if (*word && word[strspn(word, plain)] == 0) {
        (void)fputs(word, to);
        return;
    }
    (void)fputc('\'', to);
    for (const char *c = word; *c; c++)
        if (*c == '\'')
            (void)fputs("'\\''", to);
        else
            (void)fputc(*c, to);
    (void)fputc('\'', to);
}

/* A setting as it was typed; "-cc.a.b c" is told by its name alone. */
static void put_setting(const tool_args *a, const char *value, FILE *to) {
    char *json = NULL;
    const char *is = strchr(value, '=');
    if (*value == '{' || value[strspn(value, "0123456789")] == 0) {
        (void)fputs(" -cc ", to);
        put_word(to, value);
    } else if (is) {
        (void)fprintf(to, " -cc.%.*s=", (int)(is - value), value);
        put_word(to, is + 1);
    } else if (rp_config_get_json(a->config, value, &json, NULL) == RP_OK) {
        (void)fprintf(to, " -cc.%s=", value);
        put_word(to, json);
    }
    rp_config_text_free(json);
}

/* The command that shows the fault again: the reduced graph with what it was found under. free; NULL without memory. */
static char *again_of(const tool_args *a, const rp_bisect_info *i, const char *out) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to) return NULL;
    (void)fputs("reprise bisect ", to);
    put_word(to, out);
    for (size_t k = 0; k < a->n_given; k++) {
        const tool_given *f = &a->given[k];
        if (is_of_search(f->flag)) continue;
        if (f->flag == TOOL_FLAG_CC) {
            put_setting(a, f->value, to);
        } else {
            (void)fprintf(to, " --%s=", tool_flags[f->flag].name);
            put_word(to, f->value);
        }
    }
    if (*i->sizes) {
        (void)fputs(" --sizes=", to);
        put_word(to, i->sizes);
    }
    if (fclose(to) == 0) return text;
    free(text);
    return NULL;
}

static json_t *operands(const rp_bisect_info *i) {
    json_t *list = json_array();
    for (uint32_t k = 0; k < i->n_operands; k++) {
        const rp_bisect_operand *o = &i->operands[k];
        (void)json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:o}", "name", o->name, "type",
                                                    o->type, "min", tool_json_real(o->min), "max",
                                                    tool_json_real(o->max)));
    }
    return list;
}

static int event(const rp_bisect_info *i, const char *what, const char *out, const char *again) {
    json_t *o = json_pack("{s:o,s:b,s:i,s:i}", "file", tool_json_text(what), "differs", i->differs,
                          "runs", (int)i->runs, "pieces", (int)i->pieces);
    if (o && i->differs) {
        json_t *more = json_pack(
            "{s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:i,s:i,s:s,s:b,s:b,s:o,s:o}",
            "piece", (int)i->piece, "op", i->op, "node", i->node, "sites", i->sites, "kernels",
            i->kernels, "body", i->body, "pass", i->pass, "operands", operands(i), "element",
            i->element, "want", tool_json_real(i->want), "got", tool_json_real(i->got), "ulps",
            tool_json_real(i->ulps), "bound", tool_json_real(i->bound), "nodes", (int)i->nodes,
            "inputs", (int)i->inputs, "sizes", i->sizes, "unreduced", i->unreduced, "cut_short",
            i->cut_short, "reduced", tool_json_text(out), "again", tool_json_text(again));
        if (!more || json_object_update(o, more) != 0) o = (json_decref(o), NULL);
        json_decref(more);
    }
    return tool_event("bisect", o, 17) ? 0 : TOOL_EXIT_FAILED;
}

static void print_report(const rp_bisect_info *i, const char *out, const char *again) {
    if (i->piece < i->pieces && i->pieces > 1)
        (void)printf("piece submod_%u of %u\n", i->piece, i->pieces);
    if (*i->body) (void)printf("within %s\n", i->body);
    if (*i->kernels) (void)printf("kernel %s\n", i->kernels);
    if (*i->pass)
        (void)printf("pass %s: behind it the interpreter itself gives something else\n", i->pass);
    (void)printf("node %s\n", i->node);
    if (*i->sites) (void)printf("  made at %s\n", i->sites);
    for (uint32_t k = 0; k < i->n_operands; k++)
        (void)printf("  reads %s: %s in [%.9g, %.9g]\n", i->operands[k].name, i->operands[k].type,
                     i->operands[k].min, i->operands[k].max);
    (void)printf("  %s is %.9g by the interpreter, %.9g compiled: %.3g ulps apart, %.3g allowed\n",
                 i->element, i->want, i->got, i->ulps, i->bound);
    (void)printf("%s %u node%s and %u input%s by %u run%s: %s\n",
                 i->unreduced ? "no part shows it again, all are left:" : "reduced to", i->nodes,
                 i->nodes == 1 ? "" : "s", i->inputs, i->inputs == 1 ? "" : "s", i->runs,
                 i->runs == 1 ? "" : "s", out);
    if (i->cut_short)
        (void)printf("the search ended at its %u run%s: --max-runs looks further\n", i->runs,
                     i->runs == 1 ? "" : "s");
    (void)printf("again: %s\n", again);
}

/* in may be "-". */
static bool is_read(const char *in, const char *out) {
    struct stat x, y;
    return (strcmp(in, "-") == 0 ? fstat(STDIN_FILENO, &x) : stat(in, &x)) == 0 &&
           stat(out, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Not what is read, which the report is about. */
static const char *out_of(const tool_args *a) {
    const char *out = tool_get(a, TOOL_FLAG_OUT);
    if (out) return out;
    return is_read(a->pos[0], "reduced.ir") ? "reduced-again.ir" : "reduced.ir";
}

static int write_reduced(const char *path, const char *text) {
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    if (f && f != stdout) ok = fclose(f) == 0 && ok;
    return ok ? 0 : tool_error("cannot write %s", path);
}

static int report(const tool_args *a, const char *what, const rp_bisection *b) {
    const char *out = out_of(a);
    rp_bisect_info i = RP_BISECT_INFO_INIT;
    rp_error err = {0};
    char *again = NULL;
    int rc = 0;
    rp_status st = rp_bisection_get_info(b, &i, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (i.differs && !(again = again_of(a, &i, out))) return tool_error("out of memory");
    if (i.differs) rc = write_reduced(out, i.reduced);
    if (rc == 0 && a->json) rc = event(&i, what, out, again);
    if (rc == 0 && !a->json && !i.differs)
        (void)printf("%s: no difference beyond rounding (%u piece%s, %u run%s)\n", what, i.pieces,
                     i.pieces == 1 ? "" : "s", i.runs, i.runs == 1 ? "" : "s");
    if (rc == 0 && !a->json && i.differs) {
        (void)printf("%s: compiled code differs from the interpreter\n", what);
        print_report(&i, out, again);
    }
    free(again);
    return rc == 0 && i.differs ? TOOL_EXIT_DIFFERS : rc;
}

/* --- graphs ---------------------------------------------------------------------------- */

/* What was typed; false where a number is none, which is told. */
static bool options_of(const tool_args *a, rp_bisect_options *o) {
    long long seed = 0, max_runs = 0;
    if (!tool_int(a, TOOL_FLAG_SEED, 0, &seed) ||
        !tool_int(a, TOOL_FLAG_MAX_RUNS, RP_BISECT_MAX_RUNS, &max_runs))
        return false;
    o->seed = (uint64_t)seed;
    o->max_runs = (uint32_t)max_runs;
    o->sizes = tool_get(a, TOOL_FLAG_SIZES);
    o->wanted = go_on;
    return true;
}

static int bisect_graph(const tool_args *a, const char *what, const rp_graph *g,
                        rp_compilation_config *config) {
    rp_bisect_options o = RP_BISECT_OPTIONS_INIT;
    rp_bisection *b = NULL;
    rp_error err = {0};
    if (!options_of(a, &o)) return TOOL_EXIT_USAGE;
    rp_status st = rp_graph_bisect(g, config, &o, &b, &err);
    int rc = st == RP_OK ? report(a, what, b)
             : st == RP_CANCELLED && tool_interrupted()
                 ? tool_fail_as(tool_interrupt_exit(), "stopped while bisecting %s", what)
                 : tool_fail_at(what, 0, st, &err);
    rp_bisection_free(b);
    return rc;
}

static int bisect_file(tool_args *a, const char *what, const char *path,
                       const rp_compilation_config *config) {
    int rc = 0;
    rp_error err = {0};
    rp_compilation_config *own = NULL;
    rp_graph *g = tool_read_graph(path, &rc);
    if (!g) return rc;
    rp_status st = rp_config_clone(config, &own, &err);
    rc = st == RP_OK ? bisect_graph(a, what, g, own) : tool_fail(st, &err);
    rp_config_free(own);
    rp_graph_free(g);
    return rc;
}

/* --- models ---------------------------------------------------------------------------- */

typedef struct pieces {
    tool_args *a;
    const tool_stages *stages;
} pieces;

static int bisect_piece(void *user, const char *what, const char *path) {
    const pieces *p = user;
    return bisect_file(p->a, what, path, p->stages->config);
}

/* The engine compiles the model, and writes down its distinct pieces: each alone, until one is wrong. */
static int bisect_model(tool_args *a) {
    tool_stages s;
    pieces p = {a, &s};
    int rc = tool_stages_open(a, &s);
    if (rc == 0) {
        rp_engine *e = tool_open(a, true, &rc);
        rp_engine_close(e);
        if (e) rc = tool_stages_each(&s, "1_split.", bisect_piece, &p);
    }
    tool_stages_done(&s);
    return rc;
}

int tool_bisect(tool_args *a) {
    const char *what = a->pos[0];
    rp_error err = {0};
    const char *out = tool_get(a, TOOL_FLAG_OUT);
    if (a->json && out && strcmp(out, "-") == 0)
        return tool_usage("--json and --out - both want standard output");
    if (out && is_read(what, out))
        return tool_usage("--out %s: that is what is read; name another file", out);
    rp_bisect_options typed = RP_BISECT_OPTIONS_INIT;
    if (!options_of(a, &typed)) return TOOL_EXIT_USAGE; /* before anything is read */
    tool_interrupt_init();
    rp_status st = rp_config_apply_default_olevel(a->config, 2, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (tool_is_graph(what)) return bisect_file(a, what, what, a->config);
    return bisect_model(a);
}
