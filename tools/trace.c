#include "tools/trace.h"

#include <errno.h>
#include <string.h>

#include "tools/output.h"

enum { SERVED = 1, LAUNCHES = 2 }; /* tracks */

static void add_name(json_t *events, int track, const char *what, const char *name) {
    (void)json_array_append_new(events,
                                json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "name", what, "ph", "M",
                                          "pid", 1, "tid", track, "args", "name", name));
}

/* Microseconds, as the format has them. */
static void add_slice(json_t *events, int track, const char *name, double from, double us,
                      json_t *args) {
    (void)json_array_append_new(events, json_pack("{s:s,s:s,s:i,s:i,s:f,s:f,s:o}", "name", name,
                                                  "ph", "X", "pid", 1, "tid", track, "ts", from,
                                                  "dur", us, "args", args));
}

static const char *text(const json_t *o, const char *key) {
    const char *z = json_string_value(json_object_get(o, key));
    return z ? z : "?";
}

static double us_of(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key)) * 1e3;
}

/* Launches one behind the other; a piece is a slice around its own. */
static void add_launches(json_t *events, const json_t *line) {
    double at = 0.0, first = 0.0;
    const char *piece = NULL;
    size_t i;
    json_t *l;
    json_array_foreach(line, i, l) {
        if (piece && strcmp(piece, text(l, "piece")) != 0) {
            add_slice(events, LAUNCHES, piece, first, at - first, json_object());
            first = at;
        }
        piece = text(l, "piece");
        add_slice(events, LAUNCHES, text(l, "name"), at, us_of(l, "ms"),
                  json_pack("{s:O}", "bytes", json_object_get(l, "bytes")));
        at += us_of(l, "ms");
    }
    if (piece) add_slice(events, LAUNCHES, piece, first, at - first, json_object());
}

int tool_write_trace(FILE *f, const char *path, const json_t *summary, const json_t *times) {
    json_t *events = json_array();
    add_name(events, SERVED, "process_name", text(summary, "model"));
    add_name(events, SERVED, "thread_name", "a decode step as served (median)");
    add_name(events, LAUNCHES, "thread_name", "its launches one by one (mean)");
    add_slice(events, SERVED, "decode step", 0.0, us_of(times, "step_ms"),
              json_pack("{s:O,s:O}", "context", json_object_get(times, "context"), "steps",
                        json_object_get(times, "steps")));
    add_launches(events, json_object_get(times, "timeline"));
    json_t *o = json_pack("{s:s,s:{s:s,s:s},s:o}", "displayTimeUnit", "ns", "otherData", "model",
                          text(summary, "model"), "device", text(summary, "device"), "traceEvents",
                          events);
    const int rc = o ? json_dumpf(o, f, JSON_COMPACT | JSON_REAL_PRECISION(9)) : -1;
    json_decref(o);
    if (rc == 0 && fflush(f) == 0) return 0;
    return tool_error("cannot write %s: %s", path, strerror(errno));
}
