/* Functions that compile themselves, as torch.compile does: traced at the first call, specialised to its sizes, recompiled when a
 * later call differs, with sizes that have differed as symbols.
 *
 *     static rp_status scores(void *user, rp_jit_call *call, const rp_value *args, rp_value *result, rp_error *err) {
 *         rp_tensor x = rp_jit_tensor(call, &args->item[0]), w = rp_jit_tensor(call, &args->item[1]);
 *         if (rp_dim_gt(rp_tensor_dim(x, 0), 8)) x = rp_mul_scalar(x, 0.5);
 *         *result = rp_jit_value(call, rp_softmax(rp_matmul(x, w, false), -1));
 *         return RP_OK;
 *     }
 *     ...
 *     rp_jit_options o = RP_JIT_OPTIONS(scores);
 *     rp_jit_new(&o, &f, &err);
 *     rp_value item[] = {rp_value_tensor(x), rp_value_tensor(w)}, args = rp_value_tuple(item, 2);
 *     rp_jit_run(f, &args, &out, &err);        (traces and compiles; later calls like it run what was compiled)
 *     rp_output_value(out, &value, &err);
 *     rp_output_free(out);
 *
 * What a trace relied on is its guards: kinds, literals (an integer may be a size, rp_jit_dim), names and lengths of the values, dtype and rank of each tensor, each size
 * that is a number in it, and what was asked or needed of the sizes that are symbols (rp_dim_gt(...), an addition that wants
 * two of them to be equal), which is answered as it is for the arguments of that call. A call looks for an entry whose guards hold, the most recently
 * used one first, and compiles another one where there is none. docs/jit.md has the rules; REPRISE_LOGS=recompiles,guards,dynamic tells what happens.
 *
 * The function runs while it is traced (several times where sizes are symbols) and not when an entry is found: what it does beside calls
 * of the tensor API is then not done, unless it says so (rp_jit_break): a function with graph breaks runs at every call, once. At level 0
 * it runs at every call, and its ops one by one. */
#ifndef REPRISE_JIT_H
#define REPRISE_JIT_H

#include "reprise/autograph.h"
#include "reprise/support.h"
#include "reprise/tensor.h"
#include "reprise/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function with what was compiled of it. Thread-safe: calls that find an entry run at once, those that trace take turns. */
typedef struct rp_jit rp_jit;
/* One run of the function, given to it; its thread alone, until it returns. */
typedef struct rp_jit_call rp_jit_call;

/* args has the structure and the literals of the call; tensors have dtype and rank alone: rp_jit_tensor gives what the tensor API
 * takes. *result names tensors (rp_jit_value, or those of args), literals, and lists, tuples and maps of them, whose memory must
 * stay until the caller of the function has returned. A failure is that of rp_jit_run. */
typedef rp_status (*rp_jit_fn)(void *user, rp_jit_call *call, const rp_value *args,
                               rp_value *result, rp_error *err);

typedef enum rp_dynamic {
    RP_DYNAMIC_AUTO, /* sizes are numbers until they differ from call to call, or did in an earlier process */
    RP_DYNAMIC_ALL, /* every size but 0 and 1 is a symbol from the first call on */
    RP_DYNAMIC_NONE /* sizes are numbers */
} rp_dynamic;

typedef struct rp_jit_options {
    size_t size;      /* sizeof(rp_jit_options) */
    const char *name; /* of the function, in texts and as that of its graphs. Copied */
    const char *file; /* where it is, in texts. Copied */
    int line;
    rp_jit_fn fn;
    void *user;
    const rp_compilation_config *config; /* copied; NULL: the defaults. Where it has no level, no
                                            optimization_level and no enforce_eager that is 2,
                                            compiled as a whole */
    rp_device *device; /* a reference is kept; NULL: one by `device` and `threads` of config */
    rp_dynamic dynamic;
    uint32_t recompile_limit;             /* entries; 0: that of config, 8 */
    uint32_t accumulated_recompile_limit; /* entries of all rp_jit of this fn together; 0: 256 */
    bool fullgraph;                       /* a graph break is an error */
    bool suppress_errors; /* what cannot be compiled runs op by op, with a warning and a reason,
                             which its entry remembers */
    /* As torch.compile's: NULL or "default"; "reduce-overhead": calls of what is compiled are captured and replayed; "max-autotune":
     * that, and code is chosen by measuring; "max-autotune-no-cudagraphs". Of inductor, at level 2 where config says none. Copied.
     * RP_CONFIG for another name. */
    const char *mode;
    /* Whether each request of a call has the same number of query tokens, as in rp_batch_descriptor: what cudagraph_mode
     * FULL_DECODE_ONLY and FULL_AND_PIECEWISE go by, which are RP_CONFIG without it. Asked at each call, by its thread. */
    bool (*uniform)(void *user, const rp_value *args);
    const rp_support *support; /* (optional) what a model says of itself (support.h). Copied */
} rp_jit_options;
/* Options of a function by its name; put it next to the function, whose place it tells. */
#define RP_JIT_OPTIONS(function)                                                           \
    {                                                                                      \
        sizeof(rp_jit_options), #function, __FILE__, __LINE__, function, NULL, NULL, NULL, \
            RP_DYNAMIC_AUTO, 0, 0, false, false, NULL, NULL, NULL                          \
    }

/* RP_CONFIG for settings that do not go together, RP_UNSUPPORTED for a device that is not there. */
RP_API rp_status rp_jit_new(const rp_jit_options *options, rp_jit **out, rp_error *err) RP_MUST_USE;
/* NULL is fine; not while it runs. Outputs that are still held keep their memory. */
RP_API void rp_jit_free(rp_jit *f);

/* Runs the function on args, usually a tuple or a map. Tensors may be strided (view.h), also backwards: the function is given dense copies, which the log tells (perf_hints); those of calls that are captured stay at one address. What the function writes
 * (rp_update) is written where it lies, in a view, too, whose elements must be places of their own. A state (value.h) is read there as well, so that a capture of the call
 * has its address; its sizes are always numbers. Of two tensors that are written, or states, none may share an element with the other (RP_INVALID; columns beside each other share none). Other tensors
 * are what they were before the call even where they lie in one.
 * On a GPU tensors may lie in memory of the host or of the device, states in the device's; tensors of *out lie in the device's.
 * Past a limit, calls that no entry serves get one with every size a symbol, and where that does not help (docs/jit.md) they run op by op; one warning
 * tells what differs, how to avoid it, and what becomes of further calls. *out is the caller's (rp_output_free): rp_output_ran says RP_RAN_REPLAY for an entry that was there,
 * RP_RAN_CAPTURE for a new one, RP_RAN_EAGER with a reason for op by op. RP_INVALID for arguments that are no values or indirect tensors, for what
 * the function does wrong, with the line of its source, and inside of a trace. */
RP_API rp_status rp_jit_run(rp_jit *f, const rp_value *args, rp_output **out,
                            rp_error *err) RP_MUST_USE;
/* The same into dense memory of the caller, one buffer for each tensor of the result in order, depth first, which overlap neither
 * each other nor an argument, but for one that is a view, which is read before; rp_jit_run_views (view.h) takes views. RP_INVALID names one that
 * does, and one whose dtype, rank or size is another. */
RP_API rp_status rp_jit_run_into(rp_jit *f, const rp_value *args, const rp_buffer *outputs,
                                 uint32_t n_outputs, rp_error *err) RP_MUST_USE;

/* What entries made from now on do with a size. tensor: the text that logs call it by, `L['x']`, or x alone for an item of a map at the top;
 * `L[0]` is the first item of a tuple. An integer that the function takes as a size (rp_jit_dim) has axis 0. RP_INVALID for an axis that no tensor has, and for a range that is none.
 * dynamic: a symbol in [min, max] (INT64_MAX: no bound), also where it is 0 or 1. A call outside of it is an error; so is a function that
 * makes it a number, or, where max is a bound, asks for less than the range.
 * At level 0 sizes are numbers, and only the range is looked at.
 * static: always a number. unbacked: a symbol in [min, max] that has no example: what its range leaves open has no answer, which is
 * an error with the line; so no guard narrows it. */
RP_API rp_status rp_jit_mark_dynamic(rp_jit *f, const char *tensor, uint32_t axis, int64_t min,
                                     int64_t max, rp_error *err) RP_MUST_USE;
RP_API rp_status rp_jit_mark_static(rp_jit *f, const char *tensor, uint32_t axis,
                                    rp_error *err) RP_MUST_USE;
RP_API rp_status rp_jit_mark_unbacked(rp_jit *f, const char *tensor, uint32_t axis, int64_t min,
                                      int64_t max, rp_error *err) RP_MUST_USE;
/* Forgets entries and which sizes differed; marks stay. Not while it runs. */
RP_API void rp_jit_reset(rp_jit *f);

typedef struct rp_jit_info {
    size_t size;         /* sizeof(rp_jit_info), set by the caller */
    uint64_t calls;      /* each is one of: hits, compiles, eager, or failed */
    uint64_t hits;       /* an entry was there */
    uint64_t compiles;   /* an entry was made */
    uint64_t eager;      /* op by op */
    uint32_t entries;    /* there now */
    uint32_t general;    /* of them, made past the limit, with every size a symbol */
    uint64_t graphs;     /* compiled: one an entry, or one between two graph breaks */
    uint64_t breaks;     /* graph breaks, each once for each way that runs took to it */
    uint64_t pieces;     /* of the graphs, as rp_compiled_info counts them */
    uint64_t by_backend; /* of those, the ones of a backend of somebody else */
} rp_jit_info;
#define RP_JIT_INFO_INIT \
    { sizeof(rp_jit_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Fills *out, whose size is set. */
RP_API rp_status rp_jit_get_info(rp_jit *f, rp_jit_info *out, rp_error *err) RP_MUST_USE;
/* The guards of each entry, the most recently used first, as the log channel `guards` has them. Owned by the caller (rp_free). */
RP_API rp_status rp_jit_guards_text(rp_jit *f, char **out, rp_error *err) RP_MUST_USE;
/* A report of the function so far, in the form of torch's explain: calls, graphs, ops and breaks with the line that each is at; each entry with its number as logs have it,
 * what made it, its graphs with their ops and times, and its guards; calls that ran op by op and why; limits. It is for people, and changes. Owned by
 * the caller (rp_free). The log channel `explain` has it when the function is freed or reset, and, where REPRISE_LOGS is set and the channel was on when the function was made, when the process ends. */
RP_API rp_status rp_jit_explain(rp_jit *f, char **out, rp_error *err) RP_MUST_USE;

/* ---- for functions ---- */

/* The graph of the trace: for rp_const, rp_iota, rp_empty and rp_dim_value. The trace fails for an input, param or state: those are arguments. */
RP_API rp_graph *rp_jit_graph(const rp_jit_call *call);
/* The tensor that v, a tensor of args or from rp_jit_value, stands for. The trace fails for another value. */
RP_API rp_tensor rp_jit_tensor(const rp_jit_call *call, const rp_value *v);
/* The integer v of args as a size: a number while each call has the same, and a symbol when one has differed, so that one entry serves all; marks
 * and `dynamic` are about it as about sizes. It may be negative, and is then a size times -1; one beyond 2^40 is a number. A function that reads
 * v->as.integer of it besides has an entry for each value. The trace fails for another value. */
RP_API rp_dim rp_jit_dim(const rp_jit_call *call, const rp_value *v);
/* x as a value of the result. The trace fails for a tensor of another graph. */
RP_API rp_value rp_jit_value(rp_jit_call *call, rp_tensor x);
RP_API rp_value rp_jit_value_at(rp_jit_call *call, rp_tensor x, const char *file, int line);

/* ---- graph breaks: what the host wants to know, or to do, before the function returns ----
 *
 * The graph ends there, what was recorded so far is compiled and run, and the function goes on with another graph, of which what was made before is
 * an input. Such a function runs at each call, once, with its host code at its place; it records what it did before, so nothing is compiled as
 * long as it goes the same way. The first call evaluates op by op up to the end, and compiles then. REPRISE_LOGS=graph_breaks tells where and why.
 * After a failure these give NaN, 0 and no data, and rp_jit_failed tells. */

/* The number in x, a tensor of one element; of integers beyond 2^53 rounded. */
RP_API double rp_item_at(rp_tensor x, const char *file, int line);
#define rp_item(x) rp_item_at(x, __FILE__, __LINE__)
/* The same as an integer: floats towards zero, saturated, NaN as 0. */
RP_API int64_t rp_item_int_at(rp_tensor x, const char *file, int line);
#define rp_item_int(x) rp_item_int_at(x, __FILE__, __LINE__)
/* The value of x in memory of the host, dense, until the function returns, also where a state is written meanwhile; not to be written. */
RP_API rp_buffer rp_jit_read_at(rp_jit_call *call, rp_tensor x, const char *file, int line);
#define rp_jit_read(call, x) rp_jit_read_at(call, x, __FILE__, __LINE__)
/* Host code follows, which is done once a call: it prints, calls a library, or looks at memory of states, which has what was written so far.
 * reason: in texts, "builtin: print". */
RP_API void rp_jit_break_at(rp_jit_call *call, const char *reason, const char *file, int line);
#define rp_jit_break(call, reason) rp_jit_break_at(call, reason, __FILE__, __LINE__)
/* Whether the call has failed, which rp_jit_run will tell: for loops that wait for a value. */
RP_API bool rp_jit_failed(const rp_jit_call *call);

/* With the line of the caller, as in tensor.h. */
#ifndef RP_NO_SITES
#define rp_jit_tensor(...) RP_AT("rp_jit_tensor", (rp_jit_tensor)(__VA_ARGS__))
#define rp_jit_dim(...) RP_DIM_AT((rp_jit_dim)(__VA_ARGS__))
#define rp_jit_value(...) rp_jit_value_at(__VA_ARGS__, __FILE__, __LINE__)
#endif

#ifdef __cplusplus
}
#endif
#endif
