/* What one step runs as: the batch descriptor (the key of a device graph) and the dispatch record.
 *
 * The record is made once a step and handed down; nothing below decides again. Plain values. */
#ifndef REPRISE_DISPATCH_H
#define REPRISE_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -1 in a count means "any": the key does not depend on it. */
typedef struct rp_batch_descriptor {
    int32_t num_tokens; /* rows of the model graph; -1 in the key of a head graph */
    int32_t num_reqs;   /* rows of block_tables; -1 for pieces, which do not depend on it */
    int32_t num_logits; /* R: rows that the head computes; -1 for pieces */
    bool uniform;       /* every request has the same number of query tokens */
    bool has_lora;      /* always false: there are no adapters */
    int32_t num_active_loras;
} rp_batch_descriptor;

typedef struct rp_dispatch {
    rp_cudagraph_mode mode;      /* NONE, PIECEWISE or FULL */
    rp_batch_descriptor key;     /* NONE: the real, unpadded sizes */
    rp_cudagraph_mode head_mode; /* FULL: the head is inside the graph of the step */
    rp_batch_descriptor head_key;
    int32_t num_tokens, num_reqs, num_logits; /* real */
    int32_t padded;                           /* token rows to run */
    int32_t padded_reqs;                      /* rows of block_tables */
    int32_t padded_logits;                    /* rows of the head; 0: no head in this step */
    /* Why mode (head_mode) is below what the configured mode promises, "" when it is not.
     * Borrowed from the dispatcher. */
    const char *reason, *head_reason;
} rp_dispatch;

#ifdef __cplusplus
}
#endif
#endif
