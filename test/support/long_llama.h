/* A Llama of two layers for long sequences, as a GGUF file: float32 weights that test/model/oracle/make_long.py makes, too,
 * and one of the ways to turn positions. Its attention is sharp, so that a wrong position shows in the logits. */
#ifndef SUPPORT_LONG_LLAMA_H
#define SUPPORT_LONG_LLAMA_H

#include "base/str.h"

typedef enum long_rope {
    LONG_PLAIN,
    LONG_LINEAR,  /* positions divided by 4 */
    LONG_FREQS,   /* rope_freqs.weight, as llama3 has */
    LONG_PARTIAL, /* the first half of each head is turned */
    LONG_ROPE_COUNT_
} long_rope;

enum { LONG_POSITIONS = 4096, LONG_VOCAB = 108 };

/* As the oracle calls it: "plain", "linear", "freqs", "partial". */
const char *long_rope_name(long_rope rope);
/* Writes the model to dir/NAME.gguf and gives the path; static until the next call. Fails the test. */
const char *long_llama_write(const char *dir, long_rope rope);
/* The token at a position of the oracle's one sequence. */
int32_t long_llama_token(uint32_t position);

#endif
