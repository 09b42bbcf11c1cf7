/* Private to the renderer of CUDA C: what its files share. */
#ifndef GEN_RENDER_CUDA_H
#define GEN_RENDER_CUDA_H

#include "gen/render.h"

/* Half a warp gets to `at`; a thread's number among those who do; the barrier that the step may have. */
bool gen_cuda_is_half(const gen_render *r, kir_ref at);
const char *gen_cuda_own(const gen_render *r, kir_ref at);
void gen_cuda_barrier(gen_render *r, kir_ref at);
/* Who runs `at` in step: whether it is a warp, how many they are, what their reductions are called. */
bool gen_cuda_is_warp(const gen_render *r, kir_ref at);
const char *gen_cuda_team_size(const gen_render *r, kir_ref at);
const char *gen_cuda_team_name(const gen_render *r, kir_ref at);
/* Loads at once of a thread, of an item in another kernel. */
int gen_cuda_rounds(const gen_render *r);
/* How often each of the team runs the body of a loop, where that is one small number, so that what it loads is on the way at once; 0: it is not. */
int gen_cuda_times(const gen_render *r, kir_ref at);
/* Such a loop up to its counter. */
void gen_cuda_open_times(gen_render *r, kir_ref at, int times);
/* What templates call a reduction, and what accumulates it: chains are in double precision. */
const char *gen_cuda_how(kir_reduce how);
const char *gen_cuda_sum_type(kir_reduce how, kir_class c);

/* Marks what the index at `at` is made of behind the beginning of `loop`. */
void gen_cuda_mark_index(const gen_render *r, kir_ref loop, kir_ref at, bool *needed);
/* Of a loop or reduction of which a thread takes neighbours: whether `at` is a vector of it, .. */
bool gen_cuda_is_vector(const gen_render *r, kir_ref loop, kir_ref at);
/* .. w<loop>: whether vectors may be read and written, nothing where there are none; .. */
void gen_cuda_aligned(gen_render *r, kir_ref loop);
/* .. those that are read, and where those are that are written; needed: n_insts zeros; .. */
void gen_cuda_vectors(gen_render *r, kir_ref loop, bool *needed);
/* .. one iteration, of c<at> + k<at>; used: as many. */
void gen_cuda_elements(gen_render *r, kir_ref at, kir_ref end, bool *used);

/* render_rows.c: whether a row is in registers there, and what is printed then. n: the length as text. */
bool gen_held_is(const gen_render *r, kir_ref at);
void gen_held_loop(gen_render *r, kir_ref at, kir_ref end, const char *n);
void gen_held_argmax(gen_render *r, kir_ref at, kir_ref end, const char *n);
void gen_held_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n);
/* Elements that a thread has of a temporary of that size. */
int64_t gen_held_elements(const gen_render *r, int64_t size);

/* render_ahead.c: what the loop behind the one at `at` reads is asked for, where it can be known so early and nothing stores in
 * between; that loop's end. */
void gen_ahead_ask(gen_render *r, kir_ref at, kir_ref to);
void gen_ahead_done(gen_render *r, kir_ref at);

/* render_dealt.c: a reduction whose elements are dealt to a team. */
void gen_dealt_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n);

#endif
