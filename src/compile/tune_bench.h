/* A piece in several variants, compiled and bound to memory of its own, so that single launches of each can be run. */
#ifndef COMPILE_TUNE_BENCH_H
#define COMPILE_TUNE_BENCH_H

#include "compile/manager.h"
#include "hal/hal.h"

typedef struct compile_bench compile_bench;

#define COMPILE_BENCH_LAUNCHES 4

/* rules: sp as the rules have it. RP_UNSUPPORTED, in one line, for a piece that cannot be run alone, before anything is compiled.
 * What is compiled goes with the bench. */
rp_status compile_bench_new(const compile_options *opt, const split_piece *sp,
                            const lower_piece *rules, hal_device *device, compile_bench **out,
                            rp_error *err) RP_MUST_USE;
void compile_bench_free(compile_bench *b);
/* Compiles n more variants, each with a choice a group; their numbers follow on those that are there. */
rp_status compile_bench_add(compile_bench *b, const compile_choices *variants, uint32_t n,
                            rp_error *err) RP_MUST_USE;
/* What runs kernel k of the rules' piece in a variant by its number, or what has its place there, and the bytes of scratch that it needs: where k has tiles all
 * launches of its group, in their order. Returns how many; 0 where nothing runs at these sizes. */
uint32_t compile_bench_launches(const compile_bench *b, uint32_t number, const lower_kernel *k,
                                const hal_launch *out[COMPILE_BENCH_LAUNCHES], size_t *scratch);
const lower_piece *compile_bench_piece(const compile_bench *b, uint32_t number);
/* Appends " at s0=60" for the symbols that a call told the size of; nothing for others. */
void compile_bench_put_sizes(const compile_bench *b, base_buf *out);
/* The queue that its launches are for. */
hal_device *compile_bench_device(const compile_bench *b);

#endif
