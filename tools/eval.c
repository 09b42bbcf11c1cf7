/* reprise eval: a graph in text form on seeded random inputs, by the interpreter or compiled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/commands.h"
#include "tools/graph.h"

enum { MAX_GRAPH = 256 << 20 };

rp_graph *tool_read_graph(const char *path, int *rc) {
    size_t size = 0;
    rp_graph *g = NULL;
    rp_error err = {0};
    char *text = tool_read(path, MAX_GRAPH, &size);
    *rc = TOOL_EXIT_FAILED;
    if (!text) return NULL;
    rp_status st = rp_graph_parse(text, size, &g, &err);
    free(text);
    if (st == RP_OK) st = rp_graph_verify(g, &err);
    if (st == RP_OK) return g;
    *rc = tool_fail_at(path, 0, st, &err);
    rp_graph_free(g);
    return NULL;
}

bool tool_is_graph(const char *name) {
    size_t n = strlen(name);
    return strcmp(name, "-") == 0 || (n > 3 && strcmp(name + n - 3, ".ir") == 0);
}

static int backend_of(const tool_args *a, rp_backend *out) {
    static const char *const names[] = {"interp", "cpu", "cpu-eager", "cuda"};
    const char *name = tool_get(a, TOOL_FLAG_BACKEND);
    for (int i = 0; i < 4; i++)
        if (strcasecmp(name ? name : "interp", names[i]) == 0) {
            *out = (rp_backend)i;
            return 0;
        }
    return tool_usage("--backend=%s: expected interp, cpu, cpu-eager or cuda", name);
}

/* "out0[1,2] = 0x1.8p+1 (3)" or "out1 = 7". */
static bool event_of_line(const char *line, size_t len) {
    char copy[256], *end, *eq;
    (void)snprintf(copy, sizeof copy, "%.*s", (int)(len < sizeof copy ? len : sizeof copy - 1),
                   line);
    eq = strstr(copy, " = ");
    if (!eq) return true;
    *eq = 0;
    json_t *index = json_array();
    char *at = strchr(copy, '[');
    while (at && *at && *at != ']') {
        *at = 0;
        (void)json_array_append_new(index, json_integer(strtoll(at + 1, &end, 10)));
        at = end;
    }
    double v = strtod(eq + 3, &end);
    *end = 0;
    return tool_event("value",
                      json_pack("{s:s,s:o,s:o,s:s}", "output", copy, "index", index, "value",
                                tool_json_real(v), "text", eq + 3),
                      17);
}

static int print_values(const tool_args *a, const char *text) {
    size_t n = 0;
    if (!a->json) return fputs(text, stdout) >= 0 ? 0 : TOOL_EXIT_FAILED;
    for (const char *at = text, *end; *at; at = end + 1, n++) {
        end = strchr(at, '\n');
        if (!end || !event_of_line(at, (size_t)(end - at))) return TOOL_EXIT_FAILED;
    }
    const char *b = tool_get(a, TOOL_FLAG_BACKEND), *s = tool_get(a, TOOL_FLAG_SEED);
    return tool_event("summary",
                      json_pack("{s:o,s:s,s:s,s:I}", "file", tool_json_text(a->pos[0]), "backend",
                                b ? b : "interp", "seed", s ? s : "0", "values", (json_int_t)n),
                      10)
               ? 0
               : TOOL_EXIT_FAILED;
}

int tool_eval(tool_args *a) {
    rp_backend backend = RP_BACKEND_INTERP;
    long long seed = 0;
    char *text = NULL;
    rp_error err = {0};
    int rc = backend_of(a, &backend);
    if (rc) return rc;
    if (!tool_int(a, TOOL_FLAG_SEED, 0, &seed)) return TOOL_EXIT_USAGE;
    rp_graph *g = tool_read_graph(a->pos[0], &rc);
    if (!g) return rc;
    rp_status st =
        rp_graph_eval_text(g, backend, (uint64_t)seed, tool_get(a, TOOL_FLAG_SIZES), &text, &err);
    rc = st == RP_OK ? print_values(a, text) : tool_fail(st, &err);
    rp_free(text);
    rp_graph_free(g);
    return rc;
}
