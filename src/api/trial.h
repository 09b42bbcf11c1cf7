/* A graph on seeded random inputs, by the interpreter and compiled: what each gives.
 *
 * All ways of running get the same bytes. Integer inputs stay where the graph may use them: below what a gather,
 * a KV store or attention reads with them. */
#ifndef API_TRIAL_H
#define API_TRIAL_H

#include "api/api.h"
#include "ir/eval.h"

enum { API_LEAF_KINDS = 3 };

/* One thread. */
typedef struct api_trial {
    const ir_graph *g; /* borrowed */
    int64_t *symbols;
    ir_value *leaf[API_LEAF_KINDS];
    uint32_t n[API_LEAF_KINDS]; /* values made so far */
} api_trial;

/* What a run gave: its outputs, then the memory that it may have written: all states, then all inputs. */
typedef struct api_values {
    ir_value *v;
    uint32_t n;
} api_values;
void api_values_done(api_values *v);

/* sizes as in rp_graph_eval_text. api_trial_done also after a failure, of one that was zeroed. */
rp_status api_trial_init(api_trial *t, const ir_graph *g, const char *sizes, uint64_t seed,
                         rp_error *err) RP_MUST_USE;
void api_trial_done(api_trial *t);
/* *out has the graph's outputs and memory; watch may be NULL. */
rp_status api_trial_interpret(const api_trial *t, const ir_eval_watch *watch, api_values *out,
                              rp_error *err) RP_MUST_USE;
/* The same by rp_compile_on; device NULL: the host's. What the interpreter refuses is not to be run as code. */
rp_status api_trial_compiled(const api_trial *t, rp_device *device, rp_compilation_config *config,
                             api_values *out, rp_error *err) RP_MUST_USE;
/* The type of value i of an api_values. */
rp_dtype api_trial_type(const api_trial *t, uint32_t i);

#endif
