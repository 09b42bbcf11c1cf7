/* What a model says of itself, as the arguments of vLLM's support_torch_compile: which sizes change from batch to batch, what it writes,
 * and whether it is compiled at all.
 *
 *     static const rp_arg_dim dims[] = {{"token_ids", 0}, {"positions", -1}};
 *     static const char *const caches[] = {"k", "v"};
 *     static const rp_support support = {.size = sizeof support, .dynamic_arg_dims = dims, .n_dynamic_arg_dims = 2,
 *                                        .mutates = caches, .n_mutates = 2};
 *     rp_jit_options o = RP_JIT_OPTIONS(forward);
 *     o.support = &support;
 *
 * Arguments are called as in logs, L['x'], or x alone for an item of a map at the top; L[0] is the first of a tuple. The name of a list, tuple
 * or map stands for every tensor in it. One that is None in a call is left out; a name that no argument has is RP_INVALID. */
#ifndef REPRISE_SUPPORT_H
#define REPRISE_SUPPORT_H

#include "reprise/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_arg_dim {
    const char *arg;
    int32_t axis; /* -1 is the last one */
} rp_arg_dim;

typedef struct rp_support {
    size_t size; /* sizeof(rp_support) */
    /* Sizes that are symbols from the first call on, 0 and 1 as others; a model that makes one of them a number is refused with the line. NULL:
     * axis 0 of each tensor that has one and is no state. Marks of the function (rp_jit_mark_static, ...) hold in place of it. What is not
     * named is treated as `dynamic` of the options says. */
    const rp_arg_dim *dynamic_arg_dims;
    uint32_t n_dynamic_arg_dims;
    /* Symbols without an example: a question that has no answer for all values is an error with the line. */
    const rp_arg_dim *mark_unbacked_dims;
    uint32_t n_mark_unbacked_dims;
    /* The arguments that it writes. A trace that writes another one, a state as well, is RP_INVALID with the line; NULL: it writes none. */
    const char *const *mutates;
    uint32_t n_mutates;
    /* (optional) Asked once, when the function is made, with what its configuration came to and rp_jit_options.user. False: it runs op by op at each
     * call, as at level 0, and rp_output_reason says so. */
    bool (*enable_if)(void *user, const rp_compilation_config *config);
} rp_support;

#ifdef __cplusplus
}
#endif
#endif
