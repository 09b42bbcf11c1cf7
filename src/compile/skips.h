/* Which passes and fusions a configuration leaves out, and which registered passes it keeps: skip_passes, inductor_passes and the
 * switches of pass_config. */
#ifndef COMPILE_SKIPS_H
#define COMPILE_SKIPS_H

#include "cache/key.h"
#include "config/config.h"
#include "pass/pipeline.h"
#include "rewrite/registry.h"

#define COMPILE_MAX_SKIPS 64
#define COMPILE_LOWERED_NAMES 40

typedef struct compile_skips {
    const char *name[COMPILE_MAX_SKIPS]; /* borrowed from the configuration */
    uint32_t n;
    pass_extra extra[REWRITE_MOST + 1];
    uint32_t n_extra;
    char lowered[COMPILE_LOWERED_NAMES]; /* uuid of the last one */
} compile_skips;

/* For compile_options.skip_passes and extra_passes; *out stays where it is, and cfg lives as long. Behind passes of users comes one that lowers
 * the registered ops that they put there and custom_ops does not keep, or that have no implementation for the device. RP_CONFIG names what is no pass. */
rp_status compile_skips_of(const rp_compilation_config *cfg, compile_skips *out,
                           rp_error *err) RP_MUST_USE;
/* A factor for each: "pass.NAME" with its uuid. */
rp_status compile_skips_key(const pass_extra *extra, uint32_t n, cache_key *k,
                            rp_error *err) RP_MUST_USE;

#endif
