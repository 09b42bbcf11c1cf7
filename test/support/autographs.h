/* What tests of automatic graphs share: a device with a stream and a manager, small compiled graphs, and functions over them. */
#ifndef SUPPORT_AUTOGRAPHS_H
#define SUPPORT_AUTOGRAPHS_H

#include "support/check.h"

#include "reprise/reprise.h"

typedef struct bench {
    rp_device *device;
    rp_stream *stream;
    rp_autograph *graphs;
} bench;

void bench_open(bench *b, const char *device, rp_growth growth);
void bench_open_with(bench *b, const char *device, const rp_autograph_options *o);
void bench_close(bench *b);
rp_autograph_info bench_info(const bench *b);
char *bench_text(const bench *b); /* rp_free */

/* y = x * scale + shift of f32[B] or, with columns, f32[B, columns]; scale and shift are params of one element. On a GPU
 * it is a kernel of the user's own, which reads both from memory of the device. */
typedef struct affine {
    rp_compiled *c;
    float scale, shift;
    rp_device *device; /* of weights */
    float *weights;    /* on a GPU, else NULL */
    float moved;
} affine;
void affine_set(affine *m, float scale, float shift); /* in place */
void affine_move(affine *m, float shift);             /* to other memory, once */
void affine_open(affine *m, rp_device *d, int64_t columns, float scale, float shift);
void affine_close(affine *m);
/* A function over it: args is a tuple of one tensor. */
rp_status affine_call(void *user, rp_call *call, const rp_value *args, rp_value *result,
                      rp_error *err);

rp_function *function_of(const bench *b, const char *name, rp_function_fn fn, void *user);
/* ring: places, of RP_OUTPUT_RING alone. */
rp_function *function_giving(const bench *b, const char *name, rp_function_fn fn, void *user,
                             rp_output_policy p, uint32_t ring);
rp_function *function_with(const bench *b, rp_function_options o);

/* A tensor over these values. */
rp_value floats(float *x, int64_t n);
rp_value rows_of(float *x, int64_t rows, int64_t columns);
/* Runs and must succeed. */
rp_output *run_ok(rp_function *f, const rp_value *args);
rp_output *run_items(rp_function *f, const rp_value *items, uint32_t n); /* as a tuple */
/* The only tensor of the output, which must be readable; on a GPU a copy, until the next call. */
const float *values_of(const rp_output *o);
const rp_value *result_of(const rp_output *o);

#endif
