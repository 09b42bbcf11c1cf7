/* reprise doctor: what this machine offers. Exit 1 when something is missing that a fast first run needs. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/output.h"

static const char *text(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

static void line(bool ok, const char *what, const char *detail, const char *more) {
    (void)printf("%-4s %-9s %s%s%s\n", ok ? "ok" : "BAD", what, detail ? detail : "?",
                 more && *more ? ": " : "", more ? more : "");
}

static void print_cpu(const json_t *cpu) {
    char granted[128] = "";
    size_t i, at = 0;
    json_t *v;
    json_array_foreach(json_object_get(cpu, "isa_granted"), i, v) {
        int n =
            snprintf(granted + at, sizeof granted - at, "%s%s", i ? " " : "", json_string_value(v));
        if (n > 0 && at + (size_t)n < sizeof granted) at += (size_t)n;
    }
    line(true, "cpu", text(cpu, "model"), text(cpu, "features"));
    line(true, "isa", granted, NULL);
}

static void print_gpu(const json_t *gpu, const json_t *nvrtc) {
    char facts[96] = "";
    if (text(gpu, "name"))
        (void)snprintf(facts, sizeof facts, "%s, driver of CUDA %s, %.1f GB", text(gpu, "arch"),
                       text(gpu, "driver"),
                       (double)json_integer_value(json_object_get(gpu, "memory")) / 1e9);
    line(true, "gpu", text(gpu, "name") ? text(gpu, "name") : "none",
         text(gpu, "name") ? facts : text(gpu, "reason"));
    if (text(nvrtc, "path"))
        line(true, "nvrtc", text(nvrtc, "path"), NULL);
    else
        line(true, "nvrtc", "nothing can be compiled for a GPU", text(nvrtc, "reason"));
}

static void print_cache(const json_t *cache, bool writable) {
    const char *dir = text(cache, "dir") ? text(cache, "dir") : "none",
               *why = text(cache, "reason");
    char more[1024];
    if (writable && json_is_false(json_object_get(cache, "exists")))
        why = "not there yet; the first run makes it";
    (void)snprintf(more, sizeof more, "%s%s",
                   !writable && json_is_true(json_object_get(cache, "readable"))
                       ? "what it holds is used, nothing is added: "
                       : "",
                   why ? why : "");
    line(writable, "cache", dir, more);
}

static void print_report(const json_t *o) {
    const json_t *cc = json_object_get(o, "compiler"), *cache = json_object_get(o, "cache");
    const json_t *model = json_object_get(o, "model");
    bool has_cc = text(cc, "path") && !text(cc, "reason"),
         has_cache = json_is_true(json_object_get(cache, "writable"));
    print_cpu(json_object_get(o, "cpu"));
    line(has_cc, "compiler", has_cc ? text(cc, "path") : text(cc, "reason"),
         has_cc ? text(cc, "version") : NULL);
    print_cache(cache, has_cache);
    if (text(cache, "code")) line(true, "code", text(cache, "dir"), text(cache, "code"));
    line(true, "model", text(model, "name"),
         json_is_true(json_object_get(model, "found"))
             ? text(model, "path")
             : "not fetched yet; reprise run smollm2 does it");
    print_gpu(json_object_get(o, "gpu"), json_object_get(o, "nvrtc"));
}

static int problems_of(const json_t *o) {
    const json_t *cc = json_object_get(o, "compiler");
    return !(text(cc, "path") && !text(cc, "reason")) +
           !json_is_true(json_object_get(json_object_get(o, "cache"), "writable"));
}

int tool_doctor(tool_args *a) {
    char *report = NULL;
    rp_error err = {0};
    rp_status st = rp_machine_report(tool_get(a, TOOL_FLAG_CACHE_DIR), &report, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    json_t *o = json_loads(report, 0, NULL);
    rp_free(report);
    if (!o) return tool_error("the report is no JSON");
    int bad = problems_of(o);
    if (a->json) {
        (void)json_object_set_new(o, "problems", json_integer(bad));
        if (!tool_event("doctor", o, 10)) return TOOL_EXIT_FAILED;
    } else {
        print_report(o);
        json_decref(o);
    }
    if (!bad) return 0;
    return tool_error("%d problem%s; see the %s", bad, bad == 1 ? "" : "s",
                      a->json ? "reasons in the report" : "lines marked BAD");
}
