/* What tests of functions that compile themselves share: options over a cache of their own, arguments, results. */
#ifndef SUPPORT_JITS_H
#define SUPPORT_JITS_H

#include "support/check.h"
#include "support/elsewhere.h"

#include "base/alloc.h"
#include "reprise/reprise.h"

/* Options of a function; name, file and line are those that texts tell. */
static inline rp_jit_options jit_options(rp_jit_fn fn) {
    rp_jit_options o = RP_JIT_OPTIONS(fn);
    o.name = "forward";
    o.file = "model.c";
    o.line = 8;
    return o;
}

/* A function at a level. */
static inline rp_jit *jit_at(rp_jit_fn fn, int level, rp_dynamic dynamic, void *user) {
    rp_error err = {0};
    rp_jit *f = NULL;
    char text[16];
    rp_compilation_config *c = rp_config_new();
    rp_jit_options o = jit_options(fn);
    assert_non_null(c);
    (void)snprintf(text, sizeof text, "level=%d", level);
    CHECK_OK(rp_config_set(c, text, &err), &err);
    CHECK_OK(rp_config_set(c, "threads=1", &err), &err);
    o.user = user;
    o.config = c;
    o.dynamic = dynamic;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    rp_jit_reset(f); /* whatever an earlier run of this program left in the cache */
    rp_config_free(c);
    return f;
}

/* A function with settings, "level=1 backend=eager". */
static inline rp_status jit_of(rp_jit_options o, const char *settings, rp_jit **out,
                               rp_error *err) {
    char list[128], *at = list;
    rp_compilation_config *c = rp_config_new();
    assert_non_null(c);
    (void)snprintf(list, sizeof list, "%s", settings);
    for (char *one; (one = strtok_r(at, " ", &at));) CHECK_OK(rp_config_set(c, one, err), err);
    o.config = c;
    rp_status st = rp_jit_new(&o, out, err);
    if (st == RP_OK)
        rp_jit_reset(*out); /* whatever an earlier run of this program left in the cache */
    rp_config_free(c);
    return st;
}

static inline rp_jit *jit_by(rp_jit_options o, const char *settings) {
    rp_error err = {0};
    rp_jit *f = NULL;
    CHECK_OK(jit_of(o, settings, &f, &err), &err);
    return f;
}

/* Of functions of which no code is made, by one thread; the caller frees them. */
static inline rp_compilation_config *jit_plain_settings(void) {
    rp_error err = {0};
    rp_compilation_config *c = rp_config_new();
    assert_non_null(c);
    CHECK_OK(rp_config_set(c, "level=1", &err), &err);
    CHECK_OK(rp_config_set(c, "threads=1", &err), &err);
    return c;
}

/* life with each allocation failing once, the later ones with gaps of 1/sparse of their number (0: none): it tells RP_NOMEM or does
 * without, and nothing is left. */
static inline void jit_fail_each_allocation(rp_status (*life)(rp_error *err), uint64_t sparse) {
    if (runs_elsewhere()) (void)life(&(rp_error){0}); /* the device keeps what it first needs */
    const size_t live = base_live();
    bool failed = true;
    for (uint64_t n = 1; failed; n += 1 + (sparse ? n / sparse : 0)) {
        rp_error err = {0};
        (void)base_alloc_fail_nth(n);
        rp_status st = life(&err);
        failed = base_alloc_fail_nth(0);
        if (st != RP_OK && st != RP_NOMEM) fail_msg("allocation %d: %s", (int)n, err.text);
        if (base_live() != live) fail_msg("allocation %d leaves something: %s", (int)n, err.text);
    }
}

static inline rp_value f32_of(float *data, uint32_t rank, int64_t a, int64_t b) {
    rp_buffer x = {RP_DTYPE_F32, rank, {a, b}, data};
    return rp_value_tensor(x);
}

static inline rp_output *jit_ok(rp_jit *f, const rp_value *args) {
    rp_error err = {0};
    rp_output *o = NULL;
    CHECK_OK(rp_jit_run(f, args, &o, &err), &err);
    return o;
}

static inline const rp_value *jit_result(const rp_output *o) {
    rp_error err = {0};
    const rp_value *v = NULL;
    CHECK_OK(rp_output_value(o, &v, &err), &err);
    return v;
}

static inline rp_jit_info jit_info(rp_jit *f) {
    rp_error err = {0};
    rp_jit_info info = RP_JIT_INFO_INIT;
    CHECK_OK(rp_jit_get_info(f, &info, &err), &err);
    return info;
}

#endif
