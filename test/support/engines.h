/* Engines for tests: open one with settings, run prompts, collect ids. */
#ifndef SUPPORT_ENGINES_H
#define SUPPORT_ENGINES_H

#include "reprise/engine.h"

/* settings: "key=value", NULL-terminated; -O2 unless a level is among them. NULL after printing the error. */
rp_engine *engine_with(const char *model, const char *const *settings, rp_error *err);
/* Same model, fails the test when it cannot be opened. */
rp_engine *engine_must(const char *model, const char *const *settings);
/* Five ids, and a request for exactly n greedy tokens after them. */
extern const int32_t plain_prompt[5];
rp_request_options plain_request(uint32_t n);
uint64_t must_submit(rp_engine *e, const rp_request_options *r);
/* So many steps as long as there is something to do; steps < 0: to the end. */
void must_run(rp_engine *e, int steps);
rp_result must_result(const rp_engine *e, uint64_t id);
/* Scores ids behind the first n_prompt; gives the perplexity. */
double must_score(rp_engine *e, const int32_t *ids, uint32_t n_prompt, uint32_t n,
                  rp_score_options how);
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
