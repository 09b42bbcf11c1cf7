/* What an engine has of a device with memory of its own. What nobody asked for, code and graphs, is what the driver's free memory falls by
 * beside what was asked for. One thread at a time. */
#ifndef ENGINE_LEDGER_H
#define ENGINE_LEDGER_H

#include <jansson.h>

#include "engine/runner.h"

typedef struct engine_ledger {
    uint64_t total; /* bytes of the device; 0: its memory is the host's, and nothing else counts */
    uint64_t context; /* gone when the engine had opened it: the driver's, and what others have */
    uint64_t code, graphs; /* memory comes in pieces of 2 MB, whose rest is in both */
} engine_ledger;

/* Where the memory of a device stands: what is left, and what was asked for, with the set of weights (NULL: there is none yet). */
typedef struct engine_mark {
    uint64_t left, asked;
} engine_mark;

void engine_ledger_open(engine_ledger *l, hal_device *d);
engine_mark engine_mark_now(hal_device *d, const engine_weights *w);
/* Bytes gone since then that nobody asked for. */
uint64_t engine_mark_unasked(hal_device *d, const engine_weights *w, engine_mark since);

/* An object of the summary: total, free, and what is taken by whom; null where the memory is the host's. */
json_t *engine_ledger_json(const engine_ledger *l, hal_device *d, const engine_weights *w,
                           const engine_runner *r);

#endif
