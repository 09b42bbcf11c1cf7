/* What this machine offers, for `reprise doctor`. Thread-safe. */
#ifndef REPRISE_MACHINE_H
#define REPRISE_MACHINE_H

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One JSON object: cpu{model, features, isa_best, isa_granted[]}, compiler{path, version, reason} (reason: why there is
 * none), cache{dir, exists, readable, writable, reason} (a folder that does not exist is not made: writable says whether it
 * could be; readable: what it holds is used), gpu{name, arch, driver, memory, reason} (cuda:0; name null: reason says why),
 * nvrtc{path, reason}, model{name, found, path}. dir as for rp_cache_open. Owned by the caller (rp_free). */
RP_API rp_status rp_machine_report(const char *cache_dir, char **out, rp_error *err) RP_MUST_USE;
/* Milliseconds since the library was loaded: the start of a program that links it, without what exec and the loader took. */
RP_API double rp_process_age_ms(void);
/* "1.0.0" */
RP_API const char *rp_version(void);

#ifdef __cplusplus
}
#endif
#endif
