/* reprise opt: passes over a graph in text form, and what it becomes at each later stage. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/commands.h"
#include "tools/graph.h"

static const char *const stages[] = {"graph", "fusion",        "kir",  "schedule",
                                     "c",     "schedule-cuda", "cuda", "plan"};
enum { N_STAGES = sizeof stages / sizeof *stages };

static const char *stage_at(size_t i) {
    return stages[i];
}

static int check_stage(const char *stage) {
    for (size_t i = 0; i < N_STAGES; i++)
        if (strcasecmp(stage, stages[i]) == 0) return 0;
    const char *near = tool_nearest(stage, stage_at, N_STAGES);
    return tool_usage(
        "--stage=%s: expected graph, fusion, kir, schedule, c, schedule-cuda, cuda or plan%s%s",
        stage, near ? "; the nearest is " : "", near ? near : "");
}

static rp_status stage_text(const tool_args *a, const rp_graph *g, const char *stage, char **out,
                            rp_error *err) {
    const char *passes = tool_get(a, TOOL_FLAG_PASSES);
    rp_graph *opt = NULL;
    rp_status st = RP_OK;
    if (strcasecmp(stage, "graph") != 0)
        return rp_graph_lower_text(g, stage, tool_get(a, TOOL_FLAG_ISA), out, err);
    if (passes && strcasecmp(passes, "none") == 0) return rp_graph_print(g, out, err);
    st = rp_graph_optimize(g, passes ? passes : "", &opt, err);
    if (st == RP_OK) st = rp_graph_print(opt, out, err);
    rp_graph_free(opt);
    return st;
}

int tool_opt(tool_args *a) {
    const char *stage = tool_get(a, TOOL_FLAG_STAGE);
    char *text = NULL;
    rp_error err = {0};
    int rc = 0;
    if (!stage) stage = "graph";
    if ((rc = check_stage(stage))) return rc;
    if (strcasecmp(stage, "graph") != 0 && tool_get(a, TOOL_FLAG_PASSES))
        return tool_usage("--passes goes with --stage graph; the other stages run all passes");
    rp_graph *g = tool_read_graph(a->pos[0], &rc);
    if (!g) return rc;
    rp_status st = stage_text(a, g, stage, &text, &err);
    if (st != RP_OK)
        rc = tool_fail(st, &err);
    else if (a->json)
        rc = tool_event("stage",
                        json_pack("{s:o,s:s,s:o}", "file", tool_json_text(a->pos[0]), "stage",
                                  stage, "text", tool_json_text(text)),
                        10)
                 ? 0
                 : TOOL_EXIT_FAILED;
    else
        rc = fputs(text, stdout) >= 0 ? 0 : TOOL_EXIT_FAILED;
    rp_free(text);
    rp_graph_free(g);
    return rc;
}
