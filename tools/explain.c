/* reprise explain: why a model runs as it does: settings that were overruled, pieces, and which graph serves
 * each reachable batch; with --times what each piece takes. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/input.h"

static void print_text(const json_t *o, const char *coverage, const json_t *times) {
    const json_t *p = json_object_get(o, "pieces");
    json_t *skip;
    size_t i;
    (void)printf("model %s\nlevel %lld, cudagraph_mode %s, isa %s\n",
                 json_string_value(json_object_get(o, "model")),
                 (long long)json_integer_value(json_object_get(o, "level")),
                 json_string_value(json_object_get(o, "cudagraph_mode")),
                 json_string_value(json_object_get(o, "isa")));
    (void)printf("pieces %lld, compiled %lld, distinct %lld\n",
                 (long long)json_integer_value(json_object_get(p, "total")),
                 (long long)json_integer_value(json_object_get(p, "compiled")),
                 (long long)json_integer_value(json_object_get(p, "distinct")));
    json_array_foreach(json_object_get(o, "skips"), i, skip)(void)
        printf("note %s: %s\n", json_string_value(json_object_get(skip, "what")),
               json_string_value(json_object_get(skip, "reason")));
    (void)printf("coverage\n%s", coverage);
    tool_print_times(times);
}

int tool_explain(tool_args *a) {
    int rc = 0;
    char *coverage = NULL;
    long long steps = 0;
    rp_profile_options profile = RP_PROFILE_OPTIONS_INIT;
    rp_error err = {0};
    if (!tool_int(a, TOOL_FLAG_TIMES, 0, &steps)) return TOOL_EXIT_USAGE;
    tool_interrupt_init();
    rp_engine *e = tool_open(a, false, &rc);
    if (!e) return rc;
    json_t *o = tool_summary(a, e);
    json_t *times = NULL;
    rp_status st = a->json ? rp_engine_coverage_json(e, &coverage, &err)
                           : rp_engine_coverage(e, &coverage, &err);
    profile.steps = (uint32_t)steps;
    if (steps) rc = tool_measure(e, &profile, &times);
    if (rc) {
        /* said already */
    } else if (!o) {
        rc = TOOL_EXIT_FAILED;
    } else if (st != RP_OK) {
        rc = tool_fail(st, &err);
    } else if (a->json) {
        (void)json_object_set_new(o, "coverage", json_loads(coverage, 0, NULL));
        if (times) (void)json_object_set(o, "times", times);
        rc = tool_event("summary", json_incref(o), 10) ? 0 : TOOL_EXIT_FAILED;
    } else {
        print_text(o, coverage, times);
    }
    json_decref(o);
    json_decref(times);
    rp_engine_text_free(coverage);
    rp_engine_close(e);
    return rc;
}
