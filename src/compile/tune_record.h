/* Tuning records in the store: what was chosen of a kernel, and the table that says why. */
#ifndef COMPILE_TUNE_RECORD_H
#define COMPILE_TUNE_RECORD_H

#include "compile/compiler.h"
#include "hal/hal.h"

/* A choice that was measured. */
typedef struct compile_measured {
    lower_choice choice;
    int64_t ns; /* median */
} compile_measured;

/* Searches whose end was reached. */
enum { COMPILE_LISTED = 1, COMPILE_DESCENDED = 2 };

typedef struct compile_record {
    lower_choice best;           /* of what was measured */
    uint32_t searched;           /* bits of the above; what is not there may find a better one */
    const compile_measured *all; /* for who reads the file; NULL from compile_record_get */
    uint32_t n;
} compile_record;

/* Adds what the times of d's kernels hang on: processor and threads. */
rp_status compile_record_device(cache_key *k, hal_device *d, rp_error *err) RP_MUST_USE;
/* What a choice makes of k in p: its text, or that of all kernels of its group where it has tiles. */
rp_status compile_record_text(const lower_piece *p, const lower_kernel *k, base_hash128 *out,
                              rp_error *err) RP_MUST_USE;
/* The device, the compiler, that text and the sizes. p: lowered by the rules. Owned by the caller. */
rp_status compile_record_key(const rp_compiler *by, const compile_host *h, hal_device *d,
                             const lower_piece *p, const lower_kernel *k, cache_key **out,
                             rp_error *err) RP_MUST_USE;
/* RP_NOT_FOUND leaves err alone: there is none, or none that can be read, which the channel `autotuning` explains. */
rp_status compile_record_get(cache_store *s, const cache_key *key, const lower_kernel *k,
                             gen_isa isa, compile_record *out, rp_error *err) RP_MUST_USE;
/* Failed writes are no errors. */
rp_status compile_record_put(cache_store *s, const cache_key *key, const lower_kernel *k,
                             const compile_record *r, rp_error *err) RP_MUST_USE;

#endif
