/* Logging: a level, named channels, one callback for the process. Thread-safe. */
#ifndef REPRISE_LOG_H
#define REPRISE_LOG_H

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rp_log_level { RP_LOG_ERROR, RP_LOG_WARNING, RP_LOG_INFO, RP_LOG_DEBUG } rp_log_level;

/* name as in TORCH_LOGS, what it prints */
#define RP_LOG_CHANNELS(X)                                                    \
    X(DYNAMO, "dynamo", "tracing")                                            \
    X(AOT, "aot", "forward and backward graphs")                              \
    X(INDUCTOR, "inductor", "lowering and compiling of pieces")               \
    X(DYNAMIC, "dynamic", "symbolic dims")                                    \
    X(BYTECODE, "bytecode", "the recorded replay list")                       \
    X(GRAPH, "graph", "graphs as text after tracing and splitting")           \
    X(GUARDS, "guards", "guards of each traced graph")                        \
    X(RECOMPILES, "recompiles", "why something was traced or compiled again") \
    X(GRAPH_BREAKS, "graph_breaks", "breaks with reason and call site")       \
    X(FUSION, "fusion", "fusion rounds, groups and refusals")                 \
    X(SCHEDULE, "schedule", "order and memory of launches")                   \
    X(OUTPUT_CODE, "output_code", "the generated source of each piece")       \
    X(KERNEL_CODE, "kernel_code", "the generated source of each kernel")      \
    X(CUDAGRAPHS, "cudagraphs", "captures, replays, skips")                   \
    X(PERF_HINTS, "perf_hints", "what keeps a step slow")                     \
    X(AUTOTUNING, "autotuning", "candidates and timings")                     \
    X(CACHE, "cache", "keys, hits, misses")

typedef enum rp_log_channel {
#define RP_LOG_CH_ENUM(id, name, help) RP_LOG_CH_##id,
    RP_LOG_CHANNELS(RP_LOG_CH_ENUM)
#undef RP_LOG_CH_ENUM
        RP_LOG_CH_COUNT_
} rp_log_channel;

/* text is one line without newline, borrowed until the call returns. May be called
 * from any thread, one call at a time. */
typedef void (*rp_log_fn)(void *user, rp_log_level level, const char *text);

/* NULL drops everything. In a program that never calls this the library is silent, unless REPRISE_LOGS is set: then its
 * channels, and lines of no channel from RP_LOG_WARNING on, go to standard error. */
RP_API void rp_log_set_callback(rp_log_fn fn, void *user);
/* Of lines that belong to no channel. Not called: RP_LOG_INFO, to standard error RP_LOG_WARNING. */
RP_API void rp_log_set_level(rp_log_level level);
/* The level where neither rp_log_set_level nor REPRISE_LOGGING_LEVEL says one. */
RP_API void rp_log_set_default_level(rp_log_level level);
/* spec as in REPRISE_LOGS, which it overrides: "recompiles,+fusion". RP_CONFIG names an unknown channel and
 * the nearest known one. NULL or "" turns all channels off. */
RP_API rp_status rp_log_set_channels(const char *spec, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
