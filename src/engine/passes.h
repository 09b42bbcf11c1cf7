/* What the passes of a model's plans found: kept beside the plans, since a warm start runs none. */
#ifndef ENGINE_PASSES_H
#define ENGINE_PASSES_H

#include <jansson.h>

#include "cache/store.h"
#include "pass/pipeline.h"

rp_status engine_passes_store(cache_store *s, base_hash128 key, const pass_counts *c,
                              rp_error *err) RP_MUST_USE;
/* Nothing where the text is missing or damaged. */
void engine_passes_load(cache_store *s, base_hash128 key, pass_counts *out);
/* Whether one of them left a piece as it was. */
bool engine_passes_failed(const pass_counts *c);
/* [{"name", "matches"}]; NULL when memory is exhausted. */
json_t *engine_passes_json(const pass_counts *c);

#endif
