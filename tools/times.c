/* What each piece of a decode step takes: measured by the library, printed here. */
#include <stdio.h>
#include <string.h>

#include "tools/input.h"

int tool_measure(rp_engine *e, const rp_profile_options *o, json_t **out) {
    rp_error err = {0};
    char *text = NULL;
    rp_status st = rp_engine_profile(e, o, &text, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    *out = json_loads(text, 0, NULL);
    rp_engine_text_free(text);
    return *out ? 0 : tool_error("the measurement is no JSON");
}

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

/* A column that is not known has a dash; the last one is there where the limit was measured. */
static void print_cost(const char *indent, const json_t *o, bool limited) {
    char bytes[2][32] = {"-", "-"}, share[32] = "";
    if (!json_is_null(json_object_get(o, "bytes"))) {
        (void)snprintf(bytes[0], sizeof bytes[0], "%.2f", number(o, "bytes") / 1e6);
        (void)snprintf(bytes[1], sizeof bytes[1], "%.1f", number(o, "gb_s"));
    }
    if (limited && json_is_null(json_object_get(o, "of_limit")))
        (void)snprintf(share, sizeof share, "%10s ", "-");
    else if (limited)
        (void)snprintf(share, sizeof share, "%8.1f %% ", number(o, "of_limit") * 100);
    (void)printf("%9.4f %6.1f %% %9s %7s %s%4.0f %s%s\n", number(o, "ms"), number(o, "share") * 100,
                 bytes[0], bytes[1], share, number(o, "count"), indent,
                 json_string_value(json_object_get(o, "name")));
}

void tool_print_times(const json_t *times) {
    size_t i, k;
    json_t *piece, *launch;
    if (!times) return;
    const bool limited = json_is_number(json_object_get(times, "read_limit_gb_s"));
    (void)printf("times: a decode step after %.0f positions, of %.0f; %.3f ms as served (median), "
                 "%.3f ms launch by launch (mean; %.0f launches)\n",
                 number(times, "context"), number(times, "steps"), number(times, "step_ms"),
                 number(times, "launches_ms"), number(times, "launches"));
    if (limited)
        (void)printf("limit: the packed weights, and nothing else, are read at %.1f GB/s\n",
                     number(times, "read_limit_gb_s"));
    (void)printf("       ms    share   MB read    GB/s %s   n\n", limited ? "  of limit " : "");
    json_array_foreach(json_object_get(times, "pieces"), i, piece) {
        const json_t *launches = json_object_get(piece, "launches");
        print_cost("", piece, limited);
        if (json_array_size(launches) > 1)
            json_array_foreach(launches, k, launch) print_cost("  ", launch, limited);
    }
}
