/* The kernels that carry a step's inputs in and its results out (embed/exchange.cu), and how the host writes for them.
 *
 * A block is GEN_EXCHANGE_HEAD words of 32 bits; then token ids, positions, slots and sequences of its tokens, one array behind the other;
 * its logit rows, and a word more where their number is odd; parameters of rows whose token is drawn (gen/draw.h); and its patches, pairs of a place
 * in the block tables and what becomes of it. A token -1 - r is that of row r of the step before. Blocks lie in two places in turn, number n in place n % 2, and
 * the word behind both is the number of the one taken last, for the host. */
#ifndef GEN_EXCHANGE_H
#define GEN_EXCHANGE_H

#include "gen/draw.h"

/* Words of the head. The first GEN_EXCHANGE_STATE of the block taken last are the state, in memory of the device. */
enum {
    GEN_EXCHANGE_NUMBER, /* counted from 1 */
    GEN_EXCHANGE_ROWS,
    GEN_EXCHANGE_PLACE,  /* of the results, among those of steps in flight */
    GEN_EXCHANGE_DRAWS,  /* rows that have parameters */
    GEN_EXCHANGE_UNREAD, /* 1: nobody reads the logits, neither the host nor a draw */
    GEN_EXCHANGE_TOKENS,
    GEN_EXCHANGE_STATE = GEN_EXCHANGE_TOKENS,
    GEN_EXCHANGE_PATCHES,
    GEN_EXCHANGE_FROM, /* the place of the step before */
    GEN_EXCHANGE_HEAD = 8,
    GEN_EXCHANGE_THREADS = 512,
    GEN_EXCHANGE_LEAST = 4 * GEN_EXCHANGE_THREADS /* words that can be read from a block on */
};

/* fetch(blocks, arrays, ids, state, draws; words of a place, tokens, rows and rows of results at most), deliver(best, host, ids, state, logits, draws; rows at most, logits of each), which wants a
 * block more than there are rows. arrays: four of tokens, rows, block tables. best: of each row the largest logit, then the ids; host: the same by places, with the ids of drawn rows; ids: theirs alone. */
#define GEN_EXCHANGE_FETCH "rk_step_fetch"
#define GEN_EXCHANGE_DELIVER "rk_step_deliver"

/* All of their text in CUDA C. */
void gen_exchange_text(base_buf *out);

#endif
