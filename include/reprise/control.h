/* Loops and branches that stay in the graph: cond, while, scan, call.
 *
 * Their bodies are C functions over tensors, which are called once, while the call is traced, and whose graph becomes an attribute of the
 * node (docs/ir.md). A function sees its arguments alone: what it needs of the graph around it, parameters and states too, is
 * handed in. A size is that of an argument (rp_tensor_dim), or a symbol made again by rp_symbol with the same range. */
#ifndef REPRISE_CONTROL_H
#define REPRISE_CONTROL_H

#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_RESULTS 8u

/* Traces one body into g: reads in[0 .. n_in) and sets each of out[0 .. n_out). user is the caller's. An argument that is memory
 * (rp_state, rp_mutable_input, or a version of one) may be written as such, by rp_update say; the call around then counts as the
 * write, and rp_written(argument, out[0]) names there what it left. Values that a loop carries or slices are no memory. Memory of the graph around that is no argument is
 * not written: that is an error, at the line of the write. */
typedef void (*rp_graph_fn)(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                            uint32_t n_out, void *user);

/* Each sets out[0 .. n_out), 1 to RP_MAX_RESULTS results, and gives the first; out may be args. args are 0 to 64 tensors (63 of
 * a cond). What a body made is of no use behind the call. An error in a body ends the trace with the line in the body. On a GPU the host reads back what decides a cond and a
 * while, which is a note of the configuration (rp_config_notes); in a captured call the GPU decides. */

/* What fn gives for args, as a piece that is compiled by itself; equal calls are one. */
RP_API rp_tensor rp_call_graph(rp_graph *g, rp_graph_fn fn, void *user, const rp_tensor *args,
                               uint32_t n_args, rp_tensor *out, uint32_t n_out);
/* pred (bool of rank 0): what then_fn gives, else what else_fn does; both take args and give the same types. One of them runs. */
RP_API rp_tensor rp_cond(rp_tensor pred, rp_graph_fn then_fn, rp_graph_fn else_fn, void *user,
                         const rp_tensor *args, uint32_t n_args, rp_tensor *out, uint32_t n_out);
/* As long as cond_fn(args) gives true (one bool of rank 0), body_fn(args) gives the next values of the first n_out args, which keep their
 * types; out is what they are at the end. A loop of more than 2^31 - 1 iterations fails the run (RP_INVALID). */
RP_API rp_tensor rp_while(rp_graph_fn cond_fn, rp_graph_fn body_fn, void *user,
                          const rp_tensor *args, uint32_t n_args, rp_tensor *out, uint32_t n_out);

/* fn gets the carried values, one slice of each sliced one, and the constants; it gives the next carried values, then what is
 * stacked. out: the last carried values, then the stacks, of which each has the axis of the slices. */
typedef struct rp_scan_args {
    const rp_tensor *carried, *sliced, *constants;
    uint32_t n_carried, n_sliced, n_constants;
    int axis;      /* of what is sliced and of the stacks; negative ones count from the last */
    rp_dim length; /* iterations where nothing is sliced; else it is not read, the slices have it */
} rp_scan_args;
RP_API rp_tensor rp_scan(rp_graph *g, rp_graph_fn fn, void *user, const rp_scan_args *args,
                         rp_tensor *out, uint32_t n_out);

#ifndef RP_NO_SITES
#define rp_call_graph(...) RP_AT("rp_call_graph", (rp_call_graph)(__VA_ARGS__))
#define rp_cond(...) RP_AT("rp_cond", (rp_cond)(__VA_ARGS__))
#define rp_while(...) RP_AT("rp_while", (rp_while)(__VA_ARGS__))
#define rp_scan(...) RP_AT("rp_scan", (rp_scan)(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif
#endif
