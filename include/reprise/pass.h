/* Passes of one's own over graphs, as torch's register_replacement, its custom graph passes, and vLLM's InductorPass.
 *
 * A pass sees each piece that is compiled (level 2: the graph; level 3: what lies between splitting ops; bodies of loops and branches as
 * pieces of their own) as it was traced, in front of the library's passes, which clean up behind it. It is either a pattern with what takes its place,
 * both written in the tensor API:
 *
 *     static const char *const types[] = {"f32[T,D]", "f32[D]"};
 *     rp_pass_desc d = {.size = sizeof d, .name = "mine", .types = types, .n_types = 2,
 *                       .pattern = pattern, .replacement = replacement};
 *     rp_pass_register(&d, &err);
 *
 * or a function that reads the graph (node.h) and replaces nodes. From then on it is part of every compile from level 2 on, until
 * `inductor_passes.mine=false` leaves it out. docs/passes.md says more; examples/pass.c is a small one. */
#ifndef REPRISE_PASS_H
#define REPRISE_PASS_H

#include "reprise/node.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_PATTERN_INPUTS 16

/* A graph that is being rewritten: the one that is there and the one that takes its place. Valid within rp_pass_desc.run alone. */
typedef struct rp_rewrite rp_rewrite;

/* The graph that is there, to be read; without nodes that nothing needs. Borrowed. */
RP_API const rp_graph *rp_rewrite_graph(const rp_rewrite *r);
/* What stands for a node of it in the new graph: the argument of calls of the tensor API, which add to the new graph. All nodes in front of
 * it are there from then on. An invalid tensor for a number that no node has: the pass fails. */
RP_API rp_tensor rp_rewrite_value(rp_rewrite *r, uint32_t node);
/* Lets `with`, of the same type, stand for a node: all that read the node read `with`. Counts as a match. In ascending order: RP_INVALID for a
 * node that is in the new graph already, for one that writes, for inputs, params and states, and for another type. */
RP_API rp_status rp_rewrite_replace(rp_rewrite *r, uint32_t node, rp_tensor with,
                                    rp_error *err) RP_MUST_USE;

/* The value of a tensor that is the same number everywhere: a constant, also broadcast or reshaped. False for others. */
RP_API bool rp_tensor_number(rp_tensor x, double *value);

/* All functions come from any thread, several at once. They add no inputs, params or states. */
typedef struct rp_pass_desc {
    size_t size;      /* sizeof(rp_pass_desc); may be an older, smaller one */
    const char *name; /* letters, digits and _ */
    /* What the keys of the cache know the pass by, beside its name: change it with the code. (optional) for a pattern, whose trace and
     * that of the replacement are in the key: needed where they depend on more than the types, and with a check. */
    const char *uuid;
    void *user;
    /* A pass that is code. A failure writes why into err->text (err is never NULL). */
    rp_status (*run)(void *user, rp_rewrite *r, rp_error *err);
    /* A pass that is a pattern: one value of n_types inputs. Inputs match any value of their type, "f32[T,D]", in which sizes are numbers
     * or names that stand for one size each; ops, attributes and constants must be those that tracing the pattern on the matched values
     * gives. What the pattern computes on the way may have other readers; then it stays. A pattern writes no memory. */
    const char *const *types;
    uint32_t n_types; /* at most RP_MAX_PATTERN_INPUTS */
    rp_tensor (*pattern)(void *user, rp_graph *g, const rp_tensor *in);
    rp_tensor (*replacement)(void *user, rp_graph *g, const rp_tensor *in); /* of the same type */
    bool (*check)(void *user, const rp_tensor *in); /* (optional) false: no match */
} rp_pass_desc;

/* For the rest of the process. Copies desc. RP_INVALID for a name that is none, is taken or is that of a pass of the library, and for a pattern
 * that cannot be traced, is one of its inputs, or leaves one out; RP_UNSUPPORTED for one that writes. Thread-safe. */
RP_API rp_status rp_pass_register(const rp_pass_desc *desc, rp_error *err) RP_MUST_USE;
/* Registered passes in the order in which they run: the name at i, NULL behind the last. Thread-safe. */
RP_API const char *rp_pass_name(uint32_t i);

/* As at the end of tensor.h. */
#ifndef RP_NO_SITES
#define rp_rewrite_value(...) RP_AT("rp_rewrite_value", (rp_rewrite_value)(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif
#endif
