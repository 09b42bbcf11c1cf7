/* What batch_invariant=true promises on a GPU: a request's tokens and logits depend on nobody beside it, and not on how its prompt is cut. */
#ifndef SUPPORT_INVARIANCE_H
#define SUPPORT_INVARIANCE_H

#include <stddef.h>
#include <stdint.h>

/* Each of `requests` requests of several lengths, `tokens` greedy tokens each: the same bits of all logits that it samples from, alone, among so many at once
 * (at most 64) and in chunks of so many tokens. Fails the test where some differ. */
void invariance_check(const char *model, uint32_t requests, uint32_t tokens,
                      const uint32_t *batches, size_t n_batches, const uint32_t *chunks,
                      size_t n_chunks);

#endif
