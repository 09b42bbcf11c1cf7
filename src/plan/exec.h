/* A plan with its memory: loaded code, arena, packed weights, bound pointers; makes launches for given sizes.
 *
 * One thread at a time; executors of one family (plan_exec_again) are independent of each other. No allocation after plan_exec_new but for values without a bound, in plan_exec_bind. */
#ifndef PLAN_EXEC_H
#define PLAN_EXEC_H

#include "cache/store.h"
#include "hal/hal.h"
#include "plan/plan.h"

typedef struct plan_exec plan_exec;

/* Built-in kernels are found through this. */
typedef hal_host_fn (*plan_builtin_fn)(const char *name);

typedef struct plan_exec_options {
    hal_device *device;
    cache_store *store; /* code objects come from here; may be NULL when the plan has no modules */
    plan_builtin_fn builtin;
    const uint8_t
        *weights; /* packed weights, plan->weights_size bytes; NULL when there are none; borrowed */
    void *arena;  /* shared arena of at least plan->arena_size, or NULL: one is allocated */
    bool lent_arena; /* none is: plan_exec_set_arena gives one before each bind */
    bool check_ops;  /* calls of custom ops are watched */
} plan_exec_options;

/* Borrows plan and everything in options. RP_NOT_FOUND when a code object is missing (a cache miss), RP_DEVICE when one cannot be
 * loaded. */
rp_status plan_exec_new(const plan *p, const plan_exec_options *opt, plan_exec **out,
                        rp_error *err) RP_MUST_USE;
/* The same plan for another caller at the same time: code and constants are x's, which must outlive it; arena and leaves
 * are its own, params and states being those of x now, which may run meanwhile. Its launches go to device. */
rp_status plan_exec_again(const plan_exec *x, hal_device *device, plan_exec **out,
                          rp_error *err) RP_MUST_USE;
/* Puts away stored code of p that d cannot load, made for another C library say. Returns how much: when that is why
 * plan_exec_new failed, the code is to be made again. */
uint32_t plan_exec_reject_code(const plan *p, cache_store *s, hal_device *d);
void plan_exec_free(plan_exec *x);
/* A function of its plan. RP_INTERNAL where that has none of this name. */
rp_status plan_exec_function(const plan_exec *x, const char *symbol, hal_function *out,
                             rp_error *err) RP_MUST_USE;
/* Pointers of leaves; borrowed while used. All must be set before the first bind. Changing one affects later binds only. */
void plan_exec_set(plan_exec *x, plan_seg seg, uint32_t idx, void *p);
void *plan_exec_get(const plan_exec *x, plan_seg seg, uint32_t idx);

/* What custom ops of the host see of the step that runs, from the next call on; borrowed. Not of executors made of x. */
void plan_exec_set_context(plan_exec *x, const struct rp_forward_context *context);

/* Where values lie from the next bind on; for executors that were made with lent_arena. */
void plan_exec_set_arena(plan_exec *x, void *arena);

/* RP_INVALID names a symbol whose value is not in its range. */
rp_status plan_check_symbols(const plan *p, const int64_t *symbols, rp_error *err) RP_MUST_USE;
/* Concrete launches of pieces [first, first+n) for the values of the symbols. */
typedef struct plan_bound {
    hal_launch *launches;
    uint32_t n;
    size_t scratch;
    /* A promise of who binds, for every bind anew: of what the list's attention reads, nobody stores but each row's own position while the list runs, so that a GPU may
     * read the rest before the kernels in front have ended. False at first. */
    bool settled;
    /* private storage */
    void **args;
    size_t *arg_sizes;
    long long *dims;
} plan_bound;

/* Storage for a bound list of the pieces; plan_exec_bind fills it. Binding it again changes its
 * launches, but no device graph that was built from them: those hold copies, and need x alone to stay. */
rp_status plan_bound_new(const plan_exec *x, uint32_t first_piece, uint32_t n_pieces,
                         plan_bound **out, rp_error *err) RP_MUST_USE;
void plan_bound_free(plan_bound *b);
/* symbols: one value a symbol of the plan. RP_INVALID names a symbol out of its range, or a leaf that is not set. A value
 * without a bound may get other memory than before: then lists that were bound earlier are to be bound again. */
rp_status plan_exec_bind(plan_exec *x, plan_bound *b, const int64_t *symbols,
                         rp_error *err) RP_MUST_USE;

/* Binds addresses of leaves and arena anew, for the sizes of the last bind. */
rp_status plan_exec_point(plan_exec *x, plan_bound *b, rp_error *err) RP_MUST_USE;

/* The packed weights, where they were not there yet when x was made; before anything is bound. */
void plan_exec_set_weights(plan_exec *x, const uint8_t *weights);

/* Fills the packed weights image (weights_size bytes at dst) from params in file layout; pack i only. */
void plan_pack_fill(const plan *p, uint32_t i, const void *const *params, void *dst_of_pack);
/* The same by the threads of d, whose memory is the host's. */
rp_status plan_pack_fill_on(hal_device *d, const plan *p, uint32_t i, const void *const *params,
                            void *dst_of_pack, rp_error *err) RP_MUST_USE;

size_t plan_exec_arena_bytes(const plan_exec *x); /* of its own; 0 where it was given one */
/* For executors that never run while x does (plan_exec_options.arena). */
void *plan_exec_arena(const plan_exec *x);
size_t plan_exec_const_bytes(const plan_exec *x); /* records, in device memory */
const void *plan_exec_consts(const plan_exec *x); /* where they lie; NULL when there are none */
bool plan_has_grown(
    const plan *p); /* some value has no bound, in p or within it: a bind may move it */
/* Memory of the caller, as long as x, for a value without a bound: what sizes take beyond it is of x. Before anything is bound; nothing for other values. */
void plan_exec_lend(plan_exec *x, uint32_t value, void *data, size_t size);
/* Fills every arena byte that is not alive with a NaN pattern (poison law); for tests. */
rp_status plan_exec_poison(plan_exec *x, rp_error *err) RP_MUST_USE;

#endif
