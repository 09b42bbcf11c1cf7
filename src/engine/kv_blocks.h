/* Paged KV cache bookkeeping: which blocks of which sequence hold which positions. Holds no keys and
 * values itself. One thread at a time; nothing allocates after engine_kv_new. */
#ifndef ENGINE_KV_BLOCKS_H
#define ENGINE_KV_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define ENGINE_KV_BLOCK 16
/* Never handed out: padded block-table entries name it, and nothing live is ever in it. */
#define ENGINE_KV_NULL_BLOCK 0

typedef struct engine_kv_options {
    uint32_t n_blocks;   /* with the null block, so at least 2 */
    uint32_t block_size; /* positions of a block; 0 is ENGINE_KV_BLOCK */
    uint32_t max_seqs;   /* sequences at once */
    uint32_t max_blocks; /* blocks of one sequence: the stride of block_tables */
    /* (optional) Of n_blocks only the first n_ready are there; grow makes it at least n and gives how many there are now, or
     * fewer than n where there will be no more. */
    uint32_t n_ready;
    uint32_t (*grow)(void *user, uint32_t n);
    void *user;
} engine_kv_options;

typedef struct engine_kv engine_kv;

rp_status engine_kv_new(const engine_kv_options *o, engine_kv **out, rp_error *err) RP_MUST_USE;
void engine_kv_free(engine_kv *kv); /* NULL is fine */

/* A sequence of no blocks; false when max_seqs are open. */
bool engine_kv_open(engine_kv *kv, uint32_t *out_seq);
/* The same, beginning with the first n blocks of an open sequence: both name them, and they are free once neither does. Who
 * writes to them is the callers' agreement. */
bool engine_kv_fork(engine_kv *kv, uint32_t from, uint32_t n, uint32_t *out_seq);
/* Gives back all blocks of the sequence that no other names. */
void engine_kv_close(engine_kv *kv, uint32_t seq);
/* Makes room for n_tokens positions: all or, when blocks are short, nothing. */
bool engine_kv_reserve(engine_kv *kv, uint32_t seq, uint32_t n_tokens);
/* Blocks that n_tokens positions take. */
uint32_t engine_kv_blocks_for(const engine_kv *kv, uint32_t n_tokens);
/* Blocks missing for n_tokens positions of an open sequence. */
uint32_t engine_kv_missing(const engine_kv *kv, uint32_t seq, uint32_t n_tokens);

/* Borrowed until the sequence changes. */
const int32_t *engine_kv_table(const engine_kv *kv, uint32_t seq, uint32_t *out_n);
/* A number that no table of kv had before and that changes when this one does; never 0. */
uint64_t engine_kv_stamp(const engine_kv *kv, uint32_t seq);
/* block * block_size + offset; -1 for a position without a block. */
int32_t engine_kv_slot(const engine_kv *kv, uint32_t seq, uint32_t position);
uint32_t engine_kv_n_usable(const engine_kv *kv); /* without the null block */
uint32_t engine_kv_n_free(const engine_kv *kv);   /* with those that are not there yet */
uint32_t engine_kv_block_size(const engine_kv *kv);
uint32_t engine_kv_max_blocks(const engine_kv *kv);
/* Positions that one sequence can have when it is alone. */
uint32_t engine_kv_max_tokens(const engine_kv *kv);

/* Walks everything: each block is free or in as many tables as it is counted for. RP_INTERNAL names what is wrong. */
rp_status engine_kv_check(const engine_kv *kv, rp_error *err) RP_MUST_USE;

#endif
