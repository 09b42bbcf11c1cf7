/* Private to the room: the part of a decode step's template that is for many rows (embed/decode_many.cu, decode_stream.cu), and what both parts share. */
#ifndef GEN_DECODE_MANY_H
#define GEN_DECODE_MANY_H

#include "gen/decode.h"

/* Fills job, attention and cells. RP_UNSUPPORTED names what the template cannot take. */
rp_status gen_decode_many_fit(gen_decode *d, uint32_t n_sm, size_t max_shared,
                              rp_error *err) RP_MUST_USE;
gen_decode_launch gen_decode_many_launch(const gen_decode *d, gen_decode_kernel k);
/* Behind decode.cu and decode_attention.cu. */
rp_status gen_decode_many_text(const gen_decode *d, base_buf *out, rp_error *err) RP_MUST_USE;

/* Of a matrix: elements of a row, columns of the result. */
uint32_t gen_decode_k(const gen_decode *d, gen_decode_kernel m);
uint32_t gen_decode_columns(const gen_decode *d, gen_decode_kernel m);
/* The head of kernel k, in clusters of so many blocks (0: none), and its first line. */
void gen_decode_head(const gen_decode *d, gen_decode_kernel k, uint32_t per_sm, uint32_t blocks,
                     base_buf *out);
/* `out`, where results of attention go. */
void gen_decode_put_out(const gen_decode *d, gen_decode_kernel k, base_buf *out);
/* What scores are multiplied by, to powers of 2. */
double gen_decode_score_scale(const gen_decode *d);

#endif
