/* reprise bisect: which kernel computes something else than the interpreter, and the smallest graph that shows it. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/graph.h"
#include "tools/input.h"
#include "tools/stages.h"

static bool go_on(void *user, uint32_t runs) {
    (void)user, (void)runs;
    return !tool_interrupted();
}

/* --- the report ---------------------------------------------------------------------- */

/* Flags that say where text goes, and not what is compared. */
static bool is_of_output(tool_flag f) {
    return f == TOOL_FLAG_SIZES || f == TOOL_FLAG_OUT || f == TOOL_FLAG_JSON ||
           f == TOOL_FLAG_QUIET || f == TOOL_FLAG_LOGS || f == TOOL_FLAG_LOG_LEVEL;
}

/* A setting as it was typed; "-cc.a.b c" is told by its name alone. */
static void put_setting(const tool_args *a, const char *value, char *to, size_t size) {
    char *json = NULL;
    if (*value == '{')
        (void)snprintf(to, size, " -cc '%s'", value);
    else if (strchr(value, '=') || value[strspn(value, "0123456789")] == 0)
        (void)snprintf(to, size, strchr(value, '=') ? " -cc.%s" : " -cc %s", value);
    else if (rp_config_get_json(a->config, value, &json, NULL) == RP_OK)
        (void)snprintf(to, size, " -cc.%s='%s'", value, json);
    rp_config_text_free(json);
}

/* The command that shows the fault again: the reduced graph with what it was found under. */
static void put_command(const tool_args *a, const rp_bisect_info *i, const char *out, char *to,
                        size_t size) {
    (void)snprintf(to, size, "reprise bisect %s", out);
    for (size_t k = 0; k < a->n_given; k++) {
        const tool_given *f = &a->given[k];
        size_t n = strlen(to);
        if (is_of_output(f->flag)) continue;
        if (f->flag == TOOL_FLAG_CC)
            put_setting(a, f->value, to + n, size - n);
        else
            (void)snprintf(to + n, size - n, " --%s=%s", tool_flags[f->flag].name, f->value);
    }
    size_t n = strlen(to);
    if (*i->sizes) (void)snprintf(to + n, size - n, " --sizes=%s", i->sizes);
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
            "{s:i,s:s,s:s,s:s,s:s,s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:i,s:i,s:s,s:o,s:o}", "piece",
            (int)i->piece, "op", i->op, "node", i->node, "sites", i->sites, "kernels", i->kernels,
            "pass", i->pass, "operands", operands(i), "element", i->element, "want",
            tool_json_real(i->want), "got", tool_json_real(i->got), "ulps", tool_json_real(i->ulps),
            "bound", tool_json_real(i->bound), "nodes", (int)i->nodes, "inputs", (int)i->inputs,
            "sizes", i->sizes, "reduced", tool_json_text(out), "again", tool_json_text(again));
        if (!more || json_object_update(o, more) != 0) o = (json_decref(o), NULL);
        json_decref(more);
    }
    return tool_event("bisect", o, 17) ? 0 : TOOL_EXIT_FAILED;
}

static void print_report(const rp_bisect_info *i, const char *out, const char *again) {
    if (i->pieces > 1) (void)printf("piece submod_%u of %u\n", i->piece, i->pieces);
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
    (void)printf("reduced to %u node%s and %u input%s by %u runs: %s\n", i->nodes,
                 i->nodes == 1 ? "" : "s", i->inputs, i->inputs == 1 ? "" : "s", i->runs, out);
    (void)printf("again: %s\n", again);
}

static int write_reduced(const char *path, const char *text) {
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    if (f && f != stdout) ok = fclose(f) == 0 && ok;
    return ok ? 0 : tool_error("cannot write %s", path);
}

static int report(const tool_args *a, const char *what, const rp_bisection *b) {
    const char *out = tool_get(a, TOOL_FLAG_OUT);
    rp_bisect_info i = RP_BISECT_INFO_INIT;
    rp_error err = {0};
    char again[2048] = "";
    int rc = 0;
    rp_status st = rp_bisection_get_info(b, &i, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (!out) out = "reduced.ir";
    if (i.differs) {
        rc = write_reduced(out, i.reduced);
        put_command(a, &i, out, again, sizeof again);
    }
    if (rc == 0 && a->json) rc = event(&i, what, out, again);
    if (rc == 0 && !a->json && !i.differs)
        (void)printf("%s: no difference beyond rounding (%u piece%s, %u run%s)\n", what, i.pieces,
                     i.pieces == 1 ? "" : "s", i.runs, i.runs == 1 ? "" : "s");
    if (rc == 0 && !a->json && i.differs) {
        (void)printf("%s: compiled code differs from the interpreter\n", what);
        print_report(&i, out, again);
    }
    return rc == 0 && i.differs ? TOOL_EXIT_DIFFERS : rc;
}

/* --- graphs ---------------------------------------------------------------------------- */

static int bisect_graph(const tool_args *a, const char *what, const rp_graph *g,
                        rp_compilation_config *config) {
    rp_bisect_options o = RP_BISECT_OPTIONS_INIT;
    rp_bisection *b = NULL;
    rp_error err = {0};
    long long seed = 0;
    if (!tool_int(a, TOOL_FLAG_SEED, 0, &seed)) return TOOL_EXIT_USAGE;
    o.seed = (uint64_t)seed;
    o.sizes = tool_get(a, TOOL_FLAG_SIZES);
    o.wanted = go_on;
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
    tool_interrupt_init();
    rp_status st = rp_config_apply_default_olevel(a->config, 2, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (tool_is_graph(what)) return bisect_file(a, what, what, a->config);
    return bisect_model(a);
}
