/* What this machine offers: asked once a call, nothing kept, nothing changed. */
#include "reprise/machine.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/status.h"
#include "cache/store.h"
#include "compile/toolchain.h"
#include "config/table.h"
#include "gen/isa.h"
#include "hal/cuda/device.h"
#include "hal/hal.h"
#include "model/resolve.h"

#define MODEL "smollm2"

const char *rp_version(void) {
    return RP_VERSION;
}

double rp_process_age_ms(void) {
    return (double)base_process_age_ns() / 1e6;
}

static json_t *cpu_model(void) {
    char *name = base_processor();
    json_t *out = name ? config_text_json(name) : NULL;
    base_free(name);
    return out ? out : json_null();
}

static json_t *cpu_report(void) {
    json_t *granted = json_array();
    for (int i = 0; i < GEN_ISA_COUNT_; i++)
        if (gen_isa_granted() & GEN_ISA_BIT(i))
            json_array_append_new(granted, json_string(gen_isa_name((gen_isa)i)));
    return json_pack("{s:o,s:s,s:s,s:o}", "model", cpu_model(), "features", gen_isa_features(),
                     "isa_best", gen_isa_name(gen_isa_best()), "isa_granted", granted);
}

static json_t *compiler_report(void) {
    compile_toolchain t = {0};
    rp_error why = {0};
    rp_status st = compile_toolchain_find(NULL, &t, &why);
    if (st == RP_OK && !t.path) st = rp_fail(&why, RP_UNSUPPORTED, "%s; %s", t.missing, t.cure);
    json_t *o = json_pack("{s:o,s:o,s:o}", "path", config_text_json(t.path), "version",
                          config_text_json(t.version), "reason",
                          config_text_json(st == RP_OK ? NULL : why.text));
    compile_toolchain_done(&t);
    return o;
}

/* Whether a run could make dir: the nearest folder above it that is there takes new ones. */
static bool can_be_made(const char *dir) {
    struct stat info;
    char *path = base_strdup(dir), *slash = NULL;
    const char *above = ".";
    while (path && (slash = strrchr(path, '/'))) {
        *slash = 0;
        above = *path ? path : "/";
        if (stat(above, &info) == 0) break;
        above = ".";
    }
    bool good = path && stat(above, &info) == 0 && S_ISDIR(info.st_mode) &&
                access(above, W_OK | X_OK) == 0;
    base_free(path);
    return good;
}

/* Looking does not make the folder. dir NULL: there is none, for the reason why. */
static rp_status cache_report(const char *dir, const rp_error *why, json_t **out, rp_error *err) {
    cache_store *s = NULL;
    struct stat info;
    if (!dir) {
        *out = json_pack("{s:n,s:b,s:b,s:o}", "dir", "exists", 0, "writable", 0, "reason",
                         config_text_json(why->text));
        return RP_OK;
    }
    if (stat(dir, &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        bool good = can_be_made(dir);
        *out = json_pack("{s:o,s:b,s:b,s:s?}", "dir", config_text_json(dir), "exists", 0,
                         "writable", (int)good, "reason",
                         good ? NULL : "it is not there and cannot be made");
        return RP_OK;
    }
    RP_TRY(cache_store_open(dir, &s, err));
    const char *off = cache_store_read_only_reason(s);
    *out = json_pack("{s:o,s:b,s:b,s:b,s:o,s:o}", "dir", config_text_json(dir), "exists", 1,
                     "readable", cache_store_off_reason(s) == NULL, "writable", off == NULL,
                     "reason", config_text_json(off), "code", config_text_json(hal_code_note(dir)));
    cache_store_close(s);
    return RP_OK;
}

static json_t *nvrtc_report(void) {
    cuda_nvrtc rtc;
    const char *path = NULL;
    rp_error why = {0};
    if (cuda_nvrtc_open(&rtc, &path, &why) == RP_OK)
        return json_pack("{s:o}", "path", config_text_json(path));
    return json_pack("{s:o,s:o}", "path", json_null(), "reason", config_text_json(why.text));
}

/* cuda:0, without taking any of it. */
static json_t *gpu_report(void) {
    cuda_driver cu;
    cuda_gpu g;
    char arch[16], driver[16];
    rp_error why = {0};
    if (cuda_driver_open(&cu, &why) != RP_OK ||
        cuda_gpu_find(&cu, 0, CUDA_MIN_CAPABILITY, &g, &why) != RP_OK)
        return json_pack("{s:o,s:o}", "name", json_null(), "reason", config_text_json(why.text));
    (void)snprintf(arch, sizeof arch, "sm_%d", g.capability);
    (void)snprintf(driver, sizeof driver, "%d.%d", g.driver_version / 1000,
                   g.driver_version % 1000 / 10);
    return json_pack("{s:s,s:s,s:s,s:I}", "name", g.name, "arch", arch, "driver", driver, "memory",
                     (json_int_t)g.memory);
}

static json_t *model_report(const char *dir) {
    char *usual = NULL;
    rp_error none = {0};
    rp_status st = cache_default_dir(NULL, &usual, &none);
    char *found = model_find_fetched(MODEL, dir, st == RP_OK ? usual : NULL);
    char *path = found || !dir ? NULL : model_named_path(MODEL, dir);
    json_t *o = json_pack("{s:s,s:b,s:o}", "name", MODEL, "found", found != NULL, "path",
                          config_text_json(found ? found : path));
    base_free(usual);
    base_free(found);
    base_free(path);
    return o;
}

rp_status rp_machine_report(const char *cache_dir, char **out, rp_error *err) {
    base_error_clear(err);
    char *dir = NULL;
    json_t *o = json_object(), *cache = NULL;
    rp_error no_dir = {0};
    rp_status st = RP_OK;
    if (!out || !o) {
        st = out ? rp_fail(err, RP_NOMEM, "report") : rp_fail(err, RP_INVALID, "out is NULL");
        goto out;
    }
    if (cache_default_dir(cache_dir && *cache_dir ? cache_dir : NULL, &dir, &no_dir) != RP_OK)
        dir = NULL;
    RP_TRY_OUT(cache_report(dir, &no_dir, &cache, err));
    json_object_set_new(o, "cpu", cpu_report());
    json_object_set_new(o, "compiler", compiler_report());
    json_object_set_new(o, "cache", cache);
    json_object_set_new(o, "gpu", gpu_report());
    json_object_set_new(o, "nvrtc", nvrtc_report());
    json_object_set_new(o, "model", model_report(dir));
    *out = config_json_dump(o, 0);
    if (!*out) st = rp_fail(err, RP_NOMEM, "report");
out:
    base_free(dir);
    json_decref(o);
    return st;
}
