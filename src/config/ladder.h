/* The capture ladder: which sizes get a device graph. Pure: same input, same lists. */
#ifndef CONFIG_LADDER_H
#define CONFIG_LADDER_H

#include "config/config.h"

typedef struct config_ladder_in {
    rp_cudagraph_mode mode;         /* decides which of the two lists are needed */
    int64_t max_num_seqs;           /* >= 1 */
    int64_t max_num_batched_tokens; /* >= 1 */
    int64_t query_len;              /* tokens of one request in a uniform decode step, >= 1 */
    const config_sizes
        *capture_sizes; /* cudagraph_capture_sizes; NULL or not set: a default ladder */
    const config_ints *cuda_graph_sizes; /* at least one value */
    config_oint max_capture_size;        /* max_cudagraph_capture_size; when set, vLLM's ladder */
    bool interactivity;                  /* every size up to 32 */
} config_ladder_in;

enum { CONFIG_LADDER_NOTES = 4 };

/* Both lists ascend without duplicates; a list that the mode does not need is empty. */
typedef struct config_ladder {
    config_ints decode; /* request counts of FULL decode graphs */
    config_ints tokens; /* token counts of PIECEWISE graphs and of FULL ones for mixed batches */
    struct {
        char what[128], reason[160];
    } notes[CONFIG_LADDER_NOTES];
    size_t n_notes;
} config_ladder;

/* RP_CONFIG when a list that the user gave cannot work: empty, above every limit, or at odds with
 * max_capture_size. Freed with config_ladder_done. */
rp_status config_ladder_build(const config_ladder_in *in, config_ladder *out,
                              rp_error *err) RP_MUST_USE;
void config_ladder_done(config_ladder *ladder);

/* Appends v to a list that was empty or built by this function. */
rp_status config_ints_add(config_ints *list, int64_t v, rp_error *err) RP_MUST_USE;
/* Ascending, each value once. */
void config_ints_sort(config_ints *list);
bool config_ints_has(const config_ints *list, int64_t v);

#endif
