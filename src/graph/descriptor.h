/* Batch descriptors as keys: equality, hash, name. Pure functions, thread-safe. */
#ifndef GRAPH_DESCRIPTOR_H
#define GRAPH_DESCRIPTOR_H

#include <stddef.h>

#include "reprise/dispatch.h"

#define GRAPH_DESCRIPTOR_TEXT 64
#define GRAPH_DESCRIPTOR_WORDS 5

bool graph_descriptor_equal(const rp_batch_descriptor *a, const rp_batch_descriptor *b);
uint64_t graph_descriptor_hash(const rp_batch_descriptor *d);
/* The key as bytes without holes, for maps. */
void graph_descriptor_pack(const rp_batch_descriptor *d, uint32_t out[GRAPH_DESCRIPTOR_WORDS]);
/* "decode_r8_q1_t8", "mixed_r64_t256_l1", "piece_t256" or "head_l8"; returns out. */
const char *graph_descriptor_text(const rp_batch_descriptor *d, char out[GRAPH_DESCRIPTOR_TEXT]);

#endif
