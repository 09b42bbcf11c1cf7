/* The passes and fusions that a configuration leaves out: skip_passes and the switches of pass_config. */
#ifndef COMPILE_SKIPS_H
#define COMPILE_SKIPS_H

#include "config/config.h"

#define COMPILE_MAX_SKIPS 64

typedef struct compile_skips {
    const char *name[COMPILE_MAX_SKIPS]; /* borrowed from the configuration */
    uint32_t n;
} compile_skips;

/* For compile_options.skip_passes. RP_CONFIG names what is no pass. */
rp_status compile_skips_of(const rp_compilation_config *cfg, compile_skips *out,
                           rp_error *err) RP_MUST_USE;

#endif
