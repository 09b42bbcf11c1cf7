/* Either template of a step behind one face: gen/decode.h for few sequences, gen/batch.h for many and for a prefill. */
#ifndef BENCH_GPU_TEMPLATE_H
#define BENCH_GPU_TEMPLATE_H

#include "gen/batch.h"
#include "gen/decode.h"

typedef struct template {
    bool many;     /* which of the two */
    uint32_t rows; /* sequences, or tokens of a prefill */
    bool prefill;  /* many, too */
    uint32_t room; /* rows of the step's record */
    gen_step s;
    gen_decode few;
    gen_batch batch;
}
template;

/* s, rows, many and prefill are set. */
rp_status template_fit(template *t, uint32_t n_sm, size_t max_shared, rp_error *err) RP_MUST_USE;
rp_status template_check(template *t, size_t max_shared, rp_error *err) RP_MUST_USE;
/* MATRIX.FIELD or attention.FIELD; false: no such setting. */
bool template_set(template *t, const char *name, uint32_t value);
void template_print(const template *t);

void template_text(const template *t, base_buf *out);
gen_step_launch template_launch(const template *t, unsigned kernel);
uint32_t template_rows(const template *t, gen_step_matrix m);
size_t template_bytes(const template *t, gen_step_matrix m);
uint32_t template_row(const template *t, gen_step_matrix m, uint32_t packed);
/* Rows of a packed unit: 8 or 16 of few's layout, 128 of batch's. */
uint32_t template_unit(const template *t, gen_step_matrix m);
/* Bytes of head's candidates. */
size_t template_candidates(const template *t);

#endif
