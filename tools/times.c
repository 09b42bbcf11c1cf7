/* What each piece of a decode step takes: measured by the library, printed here. */
#include <stdio.h>
#include <string.h>

#include "tools/input.h"

int tool_measure(rp_engine *e, uint32_t steps, json_t **out) {
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    rp_error err = {0};
    char *text = NULL;
    if (steps == 0) return 0;
    o.steps = steps;
    rp_status st = rp_engine_profile(e, &o, &text, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    *out = json_loads(text, 0, NULL);
    rp_engine_text_free(text);
    return *out ? 0 : tool_error("the measurement is no JSON");
}

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

static void print_cost(const char *indent, const json_t *o) {
    char bytes[2][32] = {"-", "-"};
    if (!json_is_null(json_object_get(o, "bytes"))) {
        (void)snprintf(bytes[0], sizeof bytes[0], "%.2f", number(o, "bytes") / 1e6);
        (void)snprintf(bytes[1], sizeof bytes[1], "%.1f", number(o, "gb_s"));
    }
    (void)printf("%9.4f %6.1f %% %9s %7s %4.0f %s%s\n", number(o, "ms"), number(o, "share") * 100,
                 bytes[0], bytes[1], number(o, "count"), indent,
                 json_string_value(json_object_get(o, "name")));
}

void tool_print_times(const json_t *times) {
    size_t i, k;
    json_t *piece, *launch;
    if (!times) return;
    (void)printf("times: a decode step after %.0f positions, of %.0f; %.3f ms as served (median), "
                 "%.3f ms launch by launch (mean; %.0f launches)\n"
                 "       ms    share   MB read    GB/s    n\n",
                 number(times, "context"), number(times, "steps"), number(times, "step_ms"),
                 number(times, "launches_ms"), number(times, "launches"));
    json_array_foreach(json_object_get(times, "pieces"), i, piece) {
        const json_t *launches = json_object_get(piece, "launches");
        print_cost("", piece);
        if (json_array_size(launches) > 1)
            json_array_foreach(launches, k, launch) print_cost("  ", launch);
    }
}
