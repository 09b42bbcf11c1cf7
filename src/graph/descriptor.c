/* Batch descriptors as keys.
 *
 * Invariant: equal descriptors have equal packed bytes, so a map over bytes and
 * graph_descriptor_equal agree. The struct itself has padding and is never hashed as memory. */
#include "graph/descriptor.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

void graph_descriptor_pack(const rp_batch_descriptor *d, uint32_t out[GRAPH_DESCRIPTOR_WORDS]) {
    out[0] = (uint32_t)d->num_tokens;
    out[1] = (uint32_t)d->num_reqs;
    out[2] = (uint32_t)d->num_logits;
    out[3] = (d->uniform ? 1u : 0u) | (d->has_lora ? 2u : 0u);
    out[4] = (uint32_t)d->num_active_loras;
}

bool graph_descriptor_equal(const rp_batch_descriptor *a, const rp_batch_descriptor *b) {
    return a->num_tokens == b->num_tokens && a->num_reqs == b->num_reqs &&
           a->num_logits == b->num_logits && a->uniform == b->uniform &&
           a->has_lora == b->has_lora && a->num_active_loras == b->num_active_loras;
}

uint64_t graph_descriptor_hash(const rp_batch_descriptor *d) {
    uint32_t w[GRAPH_DESCRIPTOR_WORDS];

    graph_descriptor_pack(d, w);
    return base_hash64(w, sizeof w);
}

const char *graph_descriptor_text(const rp_batch_descriptor *d, char out[GRAPH_DESCRIPTOR_TEXT]) {
    int n;

    if (d->num_tokens < 0) {
        n = snprintf(out, GRAPH_DESCRIPTOR_TEXT, "head_l%d", d->num_logits);
    } else if (d->num_reqs < 0) {
        n = snprintf(out, GRAPH_DESCRIPTOR_TEXT, "piece_t%d", d->num_tokens);
    } else if (d->uniform && d->num_reqs > 0) {
        n = snprintf(out, GRAPH_DESCRIPTOR_TEXT, "decode_r%d_q%d_t%d", d->num_reqs,
                     d->num_tokens / d->num_reqs, d->num_tokens);
        if (d->num_logits != d->num_tokens)
            n += snprintf(out + n, GRAPH_DESCRIPTOR_TEXT - (size_t)n, "_l%d", d->num_logits);
    } else {
        n = snprintf(out, GRAPH_DESCRIPTOR_TEXT, "mixed_r%d_t%d_l%d", d->num_reqs, d->num_tokens,
                     d->num_logits);
    }
    if (d->has_lora)
        (void)snprintf(out + n, GRAPH_DESCRIPTOR_TEXT - (size_t)n, "_a%d", d->num_active_loras);
    return out;
}
