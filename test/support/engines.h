/* Engines for tests: open one with settings, run prompts, collect ids. */
#ifndef SUPPORT_ENGINES_H
#define SUPPORT_ENGINES_H

#include "reprise/engine.h"

/* settings: "key=value", NULL-terminated; -O2 unless a level is among them. NULL after printing the error. */
rp_engine *engine_with(const char *model, const char *const *settings, rp_error *err);
/* Same model, fails the test when it cannot be opened. */
rp_engine *engine_must(const char *model, const char *const *settings);
/* Greedy ids of one prompt; out has room for n. Returns how many. */
uint32_t engine_greedy(rp_engine *e, const int32_t *prompt, uint32_t n_prompt, uint32_t n,
                       int32_t *out);
/* One integer of the summary, by a path like "pieces.total". */
long long engine_count(rp_engine *e, const char *path);
/* One number of the summary. */
double engine_number(rp_engine *e, const char *name);
/* A text of the summary; static until the next call. */
const char *engine_text(rp_engine *e, const char *name);

#endif
