/* The template of a step of many rows (gen/batch.h), with settings by name. */
#ifndef BENCH_GPU_TEMPLATE_H
#define BENCH_GPU_TEMPLATE_H

#include "gen/batch.h"

typedef struct template {
    uint32_t rows; /* sequences, or tokens of a prefill */
    bool prefill;
    uint32_t room; /* rows of the step's record */
    gen_step s;
    gen_batch batch;
}
template;

/* s, rows and prefill are set. */
rp_status template_fit(template *t, uint32_t n_sm, size_t max_shared, rp_error *err) RP_MUST_USE;
rp_status template_check(template *t, size_t max_shared, rp_error *err) RP_MUST_USE;
/* MATRIX.FIELD or attention.FIELD; false: no such setting. */
bool template_set(template *t, const char *name, uint32_t value);
void template_print(const template *t);
/* Bytes of head's candidates. */
size_t template_candidates(const template *t);

#endif
