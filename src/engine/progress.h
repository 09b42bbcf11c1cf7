/* Reports of an engine that is being opened. Calls come one at a time, from whatever thread has something to tell. */
#ifndef ENGINE_PROGRESS_H
#define ENGINE_PROGRESS_H

#include "engine/engine.h"

/* For those who work for an engine, which is `user`: of each stage. False where there may be no more: loading was cancelled. */
void engine_fetch_progress(void *user, const char *phase, uint64_t done, uint64_t total);
bool engine_pack_progress(void *user, uint64_t done, uint64_t total);
void engine_compile_progress(void *user, uint32_t done, uint32_t total);
bool engine_capture_progress(void *user, uint32_t done, uint32_t total);
/* Asked while a child process runs, or another engine or process does the work, and nothing else happens: who listens hears the last
 * report again and may cancel. */
bool engine_still_wanted(void *user);
/* RP_CANCELLED once it was. */
rp_status engine_check_cancelled(const rp_engine *e, rp_error *err) RP_MUST_USE;

#endif
