/* The lines of an engine's device_memory, for the tests of them on an emulated and on a real GPU. */
#ifndef SUPPORT_LEDGERS_H
#define SUPPORT_LEDGERS_H

#include "support/check.h"
#include "support/engines.h"

typedef struct ledger {
    long long total, free, context, weights, kv, steps, code, graphs;
} ledger;

static inline ledger ledger_of(rp_engine *e) {
    return (ledger){.total = engine_count(e, "device_memory.total"),
                    .free = engine_count(e, "device_memory.free"),
                    .context = engine_count(e, "device_memory.context"),
                    .weights = engine_count(e, "device_memory.weights"),
                    .kv = engine_count(e, "device_memory.kv"),
                    .steps = engine_count(e, "device_memory.steps"),
                    .code = engine_count(e, "device_memory.code"),
                    .graphs = engine_count(e, "device_memory.graphs")};
}

static inline long long ledger_sum(const ledger *l) {
    return l->context + l->weights + l->kv + l->steps + l->code + l->graphs;
}

/* Memory is given out in pieces of 2 MB: 1 %, or four of them. */
static inline void ledger_near(const char *what, long long sum, long long taken) {
    long long off = sum > taken ? sum - taken : taken - sum, least = 8 << 20;
    if (off > (taken / 100 > least ? taken / 100 : least))
        fail_msg("%s: the lines are %lld bytes, %lld are taken", what, sum, taken);
}

#endif
