/* reprise bisect: which kernel computes something else than the interpreter, and the smallest graph that shows it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/graph.h"
#include "tools/input.h"

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

/* Distinct pieces of a dump, in the order of their names. */
static int is_piece(const struct dirent *d) {
    size_t n = strlen(d->d_name);
    return n > 3 && strncmp(d->d_name, "1_split.", 8) == 0 && strcmp(d->d_name + n - 3, ".ir") == 0;
}

/* The graph of the model, then its head. */
static int by_graph(const struct dirent **a, const struct dirent **b) {
    int model = strncmp((*b)->d_name, "1_split.model.", 14) == 0;
    model -= strncmp((*a)->d_name, "1_split.model.", 14) == 0;
    return model ? model : strcmp((*a)->d_name, (*b)->d_name);
}

static void remove_all(const char *dir, struct dirent **names, int n) {
    char path[4700];
    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

static int any_name(const struct dirent *d) {
    return d->d_name[0] != '.';
}

static void free_names(struct dirent **names, int n) {
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

static void remove_dump(const char *folder) {
    char rank[4300];
    struct dirent **names = NULL;
    (void)snprintf(rank, sizeof rank, "%s/rank_0", folder);
    int n = scandir(rank, &names, any_name, alphasort);
    if (n >= 0) remove_all(rank, names, n);
    free_names(names, n < 0 ? 0 : n);
    (void)rmdir(folder);
}

/* Each piece alone, until one is wrong: equal layers are one piece. */
static int bisect_pieces(tool_args *a, const char *folder, const rp_compilation_config *config) {
    char rank[4300], path[4700];
    struct dirent **names = NULL;
    int rc = 0;
    (void)snprintf(rank, sizeof rank, "%s/rank_0", folder);
    int n = scandir(rank, &names, is_piece, by_graph);
    for (int i = 0; i < n && rc == 0; i++) {
        char what[300];
        (void)snprintf(path, sizeof path, "%s/%s", rank, names[i]->d_name);
        (void)snprintf(what, sizeof what, "%.*s", (int)(strlen(names[i]->d_name) - 11),
                       names[i]->d_name + 8);
        rc = bisect_file(a, what, path, config);
    }
    free_names(names, n < 0 ? 0 : n);
    return n > 0 ? rc : tool_error("%s: no piece to look at", a->pos[0]);
}

/* The engine compiles the model, and writes down its pieces. */
static int bisect_model(tool_args *a) {
    const char *tmp = getenv("TMPDIR");
    char folder[4200];
    int rc = 0;
    rp_error err = {0};
    rp_compilation_config *config = NULL;
    (void)snprintf(folder, sizeof folder, "%s/reprise-bisect-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    rp_status st = rp_config_clone(a->config, &config, &err);
    if (st == RP_OK && !mkdtemp(folder)) rc = tool_error("cannot make a folder %s", folder);
    if (st == RP_OK && rc == 0) st = rp_config_set_key(a->config, "debug_dump_path", folder, &err);
    if (st == RP_OK && rc == 0) {
        rp_engine *e = tool_open(a, true, &rc);
        rp_engine_close(e);
        if (e) rc = bisect_pieces(a, folder, config);
        remove_dump(folder);
    }
    rp_config_free(config);
    return st == RP_OK ? rc : tool_fail(st, &err);
}

int tool_bisect(tool_args *a) {
    const char *what = a->pos[0];
    size_t n = strlen(what);
    rp_error err = {0};
    const char *out = tool_get(a, TOOL_FLAG_OUT);
    if (a->json && out && strcmp(out, "-") == 0)
        return tool_usage("--json and --out - both want standard output");
    tool_interrupt_init();
    rp_status st = rp_config_apply_default_olevel(a->config, 2, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (strcmp(what, "-") == 0 || (n > 3 && strcmp(what + n - 3, ".ir") == 0))
        return bisect_file(a, what, what, a->config);
    return bisect_model(a);
}
