/* Logging: a level, named channels, one callback for the process. Thread-safe. */
#ifndef REPRISE_LOG_H
#define REPRISE_LOG_H

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rp_log_level { RP_LOG_ERROR, RP_LOG_WARNING, RP_LOG_INFO, RP_LOG_DEBUG } rp_log_level;

/* Name as in TORCH_LOGS, what it prints, a line of it (docs/logs.md has more); "" where it is silent. */
/* clang-format off */
#define RP_LOG_CHANNELS(X) \
    X(DYNAMO, "dynamo", "begin and end of each trace, and of each call of a compiler", \
      "Step 1: start tracing model") \
    X(AOT, "aot", "nothing: there is no backward graph", "") \
    X(INDUCTOR, "inductor", "what each piece was lowered to, and how long its compiler took", \
      "submod_0: 53 nodes lowered to 8 launches: 7 kernels generated, 1 built in (1.0 ms)") \
    X(DYNAMIC, "dynamic", "symbolic sizes with their ranges", \
      "create_symbol T in [1, 512] for model") \
    X(BYTECODE, "bytecode", "the recorded launch list of each graph, at its capture", \
      "   3 LAUNCH attention items 4 grain 1, barrier") \
    X(GRAPH, "graph", "each graph as text, as traced and in pieces", \
      "submod_1, splitting, 10 nodes") \
    X(GUARDS, "guards", "the assumptions of each traced graph", \
      "- tensor 'token_ids' (input): i32[T]") \
    X(RECOMPILES, "recompiles", "which factor of the key made it compile or trace again", \
      "Recompiling synthetic:tiny,layers=1,dtype=q4_1,seed=0 triggered by the following guard failure(s):") \
    X(GRAPH_BREAKS, "graph_breaks", "where a function of `rp_jit_*` breaks its graph, or the op that ended a trace, and why", \
      "Graph break in user code at op 2 of half") \
    X(EXPLAIN, "explain", "a report of each function of `rp_jit_*` when it is freed or reset, or the process ends: graphs, breaks, entries with why they were made and their guards, what ran op by op", \
      "Graph Break Count: 1") \
    X(FUSION, "fusion", "rounds, groups and refusals of fusion", \
      "cannot fuse mul with group 1: will create cycle") \
    X(SCHEDULE, "schedule", "launches in order, and the memory they share", \
      "  1 mm_fused_matmul_1(%1, pack:0, out %2, out %3, out %4) items 4") \
    X(OUTPUT_CODE, "output_code", "the generated source of each piece", \
      "void mm_fused_matmul_add_4(void *const *arg, const long long *dim, long long begin, long long end, void *scratch)") \
    X(KERNEL_CODE, "kernel_code", "the generated source of each kernel", \
      "    rp_mmf_run(&p, begin, end, scratch);") \
    X(CUDAGRAPHS, "cudagraphs", "captures, and what runs without a graph and why", \
      "skipping cudagraphs for prefill or mixed step: more tokens than the largest graph (4)") \
    X(PERF_HINTS, "perf_hints", "what keeps a step slow, with the setting that changes it", \
      "level 0 runs op by op with portable kernels; --level 3 compiles") \
    X(AUTOTUNING, "autotuning", "ways to make a kernel that were measured; products and attention that a GPU could make on tensor cores but for a size or type", "") \
    X(CACHE, "cache", "keys, hits and misses", \
      "hit plan/5dfa8040fbffeb6ed1ba9ed5382156b1")
/* clang-format on */

typedef enum rp_log_channel {
#define RP_LOG_CH_ENUM(id, name, help, line) RP_LOG_CH_##id,
    RP_LOG_CHANNELS(RP_LOG_CH_ENUM)
#undef RP_LOG_CH_ENUM
        RP_LOG_CH_COUNT_
} rp_log_channel;

/* text is one line without newline, borrowed until the call returns. May be called
 * from any thread, one call at a time. */
typedef void (*rp_log_fn)(void *user, rp_log_level level, const char *text);

/* NULL drops everything. In a program that never calls this the library is silent, unless REPRISE_LOGS is set: then its
 * channels, and lines of no channel from RP_LOG_WARNING on, go to standard error. What rp_print asks for is told whatever the level is, and
 * on standard error in a program that never calls this. */
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
