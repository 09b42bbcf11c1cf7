/* Automatic graphs: a function over tensors is captured when it is first called and replayed from then on.
 *
 *     static rp_status layer(void *user, rp_call *call, const rp_value *args, rp_value *result, rp_error *err) {
 *         rp_buffer out;
 *         rp_status st = rp_call_compiled(call, user, &args->item[0].tensor, 1, &out, 1, err);
 *         if (st == RP_OK) *result = rp_value_tensor(out);
 *         return st;
 *     }
 *     ...
 *     rp_autograph_create(stream, NULL, &graphs, &err);
 *     rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
 *     o.name = "layer"; o.fn = layer; o.user = compiled;
 *     rp_function_new(graphs, &o, &f, &err);
 *     rp_value x = rp_value_tensor(in), args = rp_value_tuple(&x, 1);
 *     rp_autograph_run(f, &args, &y, &err);      (runs and captures; later calls of these sizes replay)
 *     rp_output_value(y, &value, &err);
 *     rp_output_free(y);
 *
 * The first call with arguments of some form (see value.h) runs the function as it is, which is what the caller gets, and then
 * once more to capture: what goes through the call's stream is noted, not run, so effects on the device happen once a
 * call; only host code of the function runs twice, in that call. A replay copies the arguments into memory of the manager,
 * launches the graph, and gives the outputs by the function's policy. A call that cannot be captured runs as it is, in
 * that call and in all later ones, and rp_output_reason says why.
 *
 * On a CPU a graph is a list of launches: what goes through rp_call_stream (rp_compiled_run_on, rp_stream_copy, rp_stream_fill)
 * is in it. The run that is captured is given memory with a pattern in place of every argument, state, output and temp: integers are small
 * numbers there that mean nothing. What plain C writes there is found out (docs/autograph.md has the exceptions); so is memory that is
 * neither an argument nor from the call or rp_device_alloc. No other thread or stream writes states, or memory that the calls name, while a call captures.
 *
 * On a GPU a graph is what the driver captures of the call's stream, so kernels of one's own and of libraries are in it, too: launch
 * them on rp_stream_handle(rp_call_stream(call)). Calls that wait, allocate or read back end the capture, and rp_call_check tells which
 * one it was; other threads go on meanwhile, and what they free is freed when no capture is under way. A kernel of one's own may
 * write outputs, temps and states; arguments are looked at after the first run, as far as docs/autograph.md says. Tensors in memory of the host are copied in each call, small ones
 * together; those that CUDA has pinned when the stream comes there. A replay is queued: read outputs behind it on the stream. */
#ifndef REPRISE_AUTOGRAPH_H
#define REPRISE_AUTOGRAPH_H

#include "reprise/device.h"
#include "reprise/graph.h"
#include "reprise/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Graphs of functions on one stream. Thread-safe: calls take turns. Managers of several streams run at once. */
typedef struct rp_autograph rp_autograph;
/* A function of a manager, as thread-safe. Two functions never share a graph, whatever their names. */
typedef struct rp_function rp_function;
/* One run of a function, given to it; its thread alone, until it returns. */
typedef struct rp_call rp_call;
/* What a call gave. One thread at a time. */
typedef struct rp_output rp_output;

/* What happens to memory of the manager when a call is larger than those before. */
typedef enum rp_growth {
    RP_GROWTH_RESERVE, /* a range of addresses much larger than the first call needs is set aside, and takes memory as calls
                          use it: graphs stay valid inside of it. Forms that never come again are not captured for ever, nor
                          are those for which the limits leave no room. */
    RP_GROWTH_EXACT /* as much memory as the largest call needs; when it grows, all graphs of the same static signature
                          become invalid and are captured again when they are next wanted. Every new form is captured. */
} rp_growth;

typedef struct rp_autograph_options {
    size_t size; /* sizeof(rp_autograph_options) */
    rp_growth growth;
    uint64_t
        max_bytes; /* of graphs and memory together (info.bytes), after each call: what nobody has goes first, then the least
                      recently used graphs. Outputs given back are kept where there is room. 0: no limit */
    uint32_t max_graphs; /* likewise. 0: no limit */
} rp_autograph_options;
#define RP_AUTOGRAPH_OPTIONS_INIT \
    { sizeof(rp_autograph_options), RP_GROWTH_RESERVE, 0, 0 }

/* options NULL: as INIT has them. stream is borrowed, must outlive the manager, and is its own meanwhile: calls use it from
 * whichever thread they come. RP_UNSUPPORTED where the device cannot capture. */
RP_API rp_status rp_autograph_create(rp_stream *stream, const rp_autograph_options *options,
                                     rp_autograph **out, rp_error *err) RP_MUST_USE;
/* The manager that a device has by itself, with a stream of its own and limits of 1 GiB and 1024 graphs: made by the first call, and
 * the same one for the others until each has given it back by rp_autograph_destroy. */
RP_API rp_status rp_autograph_default(rp_device *d, rp_autograph **out, rp_error *err) RP_MUST_USE;
/* For what is to go in turn with the manager's replays. Borrowed from the manager. */
RP_API rp_stream *rp_autograph_stream(const rp_autograph *a);
/* Frees its functions, graphs and memory; outputs that are still held keep theirs. NULL is fine; not inside of a
 * call, where it frees nothing. */
RP_API void rp_autograph_destroy(rp_autograph *a);

/* Whose memory outputs are in when a graph was replayed. A call that was not replayed gives memory of its own always. */
typedef enum rp_output_policy {
    RP_OUTPUT_COPY,     /* the caller's, until rp_output_free: one copy a call */
    RP_OUTPUT_BORROWED, /* the graph's: no copy; the next replay with outputs of this form overwrites it, which rp_output_value
                           tells */
    RP_OUTPUT_RING /* one of `ring` places in turn: one copy, no allocation; overwritten by the ring-th replay after it */
} rp_output_policy;

/* Runs the function: args are dense, and memory of the manager while it captures, on a CPU states, too, whose address it is not to keep; *result names outputs of the call and views of
 * them, arguments and parts of them, which come back as the caller's own, literals, and lists, tuples and maps of all of these, whose memory
 * must stay until the caller of the function has returned. What lies elsewhere is given as it is, without a graph. Only what goes
 * through the call's stream is in the graph. A failure of the first run is that of rp_autograph_run. */
typedef rp_status (*rp_function_fn)(void *user, rp_call *call, const rp_value *args,
                                    rp_value *result, rp_error *err);

#define RP_LAYER_NONE (-1)
typedef struct rp_function_options {
    size_t size;      /* sizeof(rp_function_options) */
    const char *name; /* in texts and errors; functions of one name share input memory. Copied */
    rp_function_fn fn;
    void *user;
    bool (*enable_if)(void *user); /* (optional) asked at each call; false: it runs as it is */
    int64_t layer;                 /* in texts, or RP_LAYER_NONE */
    rp_output_policy output;
    uint32_t ring; /* RP_OUTPUT_RING: places, at least 2 */
} rp_function_options;
#define RP_FUNCTION_OPTIONS_INIT \
    { sizeof(rp_function_options), NULL, NULL, NULL, NULL, RP_LAYER_NONE, RP_OUTPUT_COPY, 0 }

RP_API rp_status rp_function_new(rp_autograph *a, const rp_function_options *options,
                                 rp_function **out, rp_error *err) RP_MUST_USE;
/* Its graphs go with it. NULL is fine; not inside of a call. */
RP_API void rp_function_free(rp_function *f);

/* The main entry. args: usually a tuple or a map. RP_INVALID for arguments that are no values (with the place), and inside of a call of
 * the same manager, where rp_call_function is meant, or of one of another that is captured. *out is the caller's (rp_output_free). */
RP_API rp_status rp_autograph_run(rp_function *f, const rp_value *args, rp_output **out,
                                  rp_error *err) RP_MUST_USE;

/* Borrowed until rp_output_free. RP_INVALID when a later replay has overwritten it. */
RP_API rp_status rp_output_value(const rp_output *o, const rp_value **out,
                                 rp_error *err) RP_MUST_USE;
typedef enum rp_ran {
    RP_RAN_REPLAY,  /* a graph */
    RP_RAN_CAPTURE, /* the function, and a graph was made for the next time */
    RP_RAN_EAGER    /* the function: rp_output_reason says why */
} rp_ran;
RP_API rp_ran rp_output_ran(const rp_output *o);
RP_API const char *rp_output_reason(
    const rp_output *
        o); /* of what rp_jit_run gives, also why another compiler than `backend` made it; else "" unless eager; lives as long as o */
/* NULL is fine; any thread. On a GPU a later replay may have its memory: what reads it is on the manager's stream, or over. */
RP_API void rp_output_free(rp_output *o);

/* ---- for functions ---- */

/* What belongs into the graph goes on this stream, by its rp_ calls; not to be waited for. */
RP_API rp_stream *rp_call_stream(const rp_call *call);
/* Memory for b->dtype, b->rank and b->dim, dense: fills b->data. An output can be in *result; a temp lives until the call
 * returns, or in the graph. The same ones in the same order must be asked for each time. */
RP_API rp_status rp_call_output(rp_call *call, rp_buffer *b, rp_error *err) RP_MUST_USE;
RP_API rp_status rp_call_temp(rp_call *call, rp_buffer *b, rp_error *err) RP_MUST_USE;
/* rp_compiled_outputs, rp_call_output for each, rp_compiled_run_on. */
RP_API rp_status rp_call_compiled(rp_call *call, rp_compiled *c, const rp_buffer *inputs,
                                  uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs,
                                  rp_error *err) RP_MUST_USE;
/* For calls of the driver, the runtime or a library over them on rp_stream_handle(rp_call_stream(call)): code is what the call
 * called `what` gave, 0 for success. RP_DEVICE otherwise; RP_UNSUPPORTED for one that waits, allocates or reads back while the
 * function is captured, which is then the reason why it runs as it is. */
RP_API rp_status rp_call_check(rp_call *call, const char *what, int code,
                               rp_error *err) RP_MUST_USE;
/* What a branch or a loop does, by the call's stream. It asks the call for no memory. */
typedef rp_status (*rp_body_fn)(void *user, rp_call *call, rp_error *err);
/* Runs body if pred, one bool in memory of the device, is true when the stream comes there. In a graph it is the device that decides: a
 * conditional node on a GPU. While the function is captured body is called once in any case; when it runs as it is, the
 * host waits for pred. What body alone would write is as it was where body does not run. */
RP_API rp_status rp_call_if(rp_call *call, const rp_buffer *pred, rp_body_fn body, void *user,
                            rp_error *err) RP_MUST_USE;
/* The same as long as pred is true, which body sets. */
RP_API rp_status rp_call_while(rp_call *call, const rp_buffer *pred, rp_body_fn body, void *user,
                               rp_error *err) RP_MUST_USE;
/* Another function of the same manager as part of this call, and of its graph. Its outputs are outputs of this call, too. */
RP_API rp_status rp_call_function(rp_call *call, const rp_function *f, const rp_value *args,
                                  rp_value *result, rp_error *err) RP_MUST_USE;

/* ---- looking ---- */

typedef struct rp_autograph_info {
    size_t size;                 /* sizeof(rp_autograph_info), set by the caller */
    uint64_t graph_count;        /* that can be replayed */
    uint64_t tensor_entry_count; /* static signatures of which something was captured, or tried */
    uint64_t tensor_mem_bytes;   /* of inputs and outputs of graphs, as far as calls have used it */
    uint64_t
        graph_mem_pool_bytes; /* graphs, their temps, what compiled graphs in them work in, and memory of outputs given back */
    uint64_t calls, replays, captures, eager; /* each call that does not fail is one of the three */
    uint64_t invalidated, evicted;            /* graphs; both are freed at once */
    uint64_t
        programmatic_edges; /* of these graphs: a kernel starts before the one in front of it ends, on GPUs that have them */
    uint64_t
        bytes; /* all that the manager has taken, which is what max_bytes limits: on a GPU slots take more than calls use */
} rp_autograph_info;
#define RP_AUTOGRAPH_INFO_INIT \
    { sizeof(rp_autograph_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Fills *out, whose size is set. */
RP_API rp_status rp_autograph_get_info(rp_autograph *a, rp_autograph_info *out,
                                       rp_error *err) RP_MUST_USE;
/* Every signature, its memory, output template and graphs with their state: the text of MagiCompiler's
 * formatted_cache_str. Behind a signature stands its structure where it is more than a tuple of tensors and literals, behind
 * an inconsistent graph the reason. Owned by the caller (rp_free). */
RP_API rp_status rp_autograph_text(rp_autograph *a, char **out, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
