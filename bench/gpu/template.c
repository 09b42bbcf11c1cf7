#include "bench/gpu/template.h"

#include <stdio.h>
#include <string.h>

rp_status template_fit(template *t, uint32_t n_sm, size_t max_shared, rp_error *err) {
    t->batch = (gen_batch){.s = t->s, .rows = t->rows, .one_sequence = t->prefill};
    RP_TRY(gen_batch_fit(&t->batch, n_sm, max_shared, err));
    t->room = t->batch.room;
    return RP_OK;
}

rp_status template_check(template *t, size_t max_shared, rp_error *err) {
    gen_batch_settle(&t->batch);
    t->room = t->batch.room;
    return gen_batch_check(&t->batch, max_shared, err);
}

/* ---- settings ------------------------------------------------------------------------------------ */

enum { MAX_FIELDS = 4 };

/* Fields of matrix m, or of attention where m is GEN_STEP_MATRICES_, with their names. */
static int fields(template *t, int m, const char **names, uint32_t **at) {
    static const char *const all[][MAX_FIELDS] = {{"columns", "splits", "stages", "blocks"},
                                                  {"splits", "warps", "ahead"}};
    gen_step_attention *a = &t->batch.attention;
    gen_batch_tile *b = &t->batch.tile[m < GEN_STEP_MATRICES_ ? m : 0];
    uint32_t *const matrix[] = {&b->columns, &b->splits, &b->stages, &b->blocks};
    uint32_t *const attention[] = {&a->splits, &a->warps, &a->ahead};
    const bool is_attention = m == GEN_STEP_MATRICES_;
    const int n = is_attention ? 3 : MAX_FIELDS;
    memcpy(names, all[is_attention], (size_t)n * sizeof *names);
    memcpy(at, is_attention ? attention : matrix, (size_t)n * sizeof *at);
    return n;
}

static const char *part_name(int m) {
    return m == GEN_STEP_MATRICES_ ? "attention" : gen_step_matrix_name((gen_step_matrix)m);
}

bool template_set(template *t, const char *name, uint32_t value) {
    const char *dot = strchr(name, '.'), *names[MAX_FIELDS];
    uint32_t *at[MAX_FIELDS];
    for (int m = 0; dot && m <= GEN_STEP_MATRICES_; m++) {
        const char *part = part_name(m);
        if (strlen(part) != (size_t)(dot - name) || strncmp(part, name, strlen(part)) != 0)
            continue;
        for (int n = fields(t, m, names, at), i = 0; i < n; i++)
            if (strcmp(names[i], dot + 1) == 0) {
                *at[i] = value;
                return true;
            }
    }
    return false;
}

void template_print(const template *t) {
    template copy = *t;
    const char *names[MAX_FIELDS];
    uint32_t *at[MAX_FIELDS];
    for (int m = 0; m <= GEN_STEP_MATRICES_; m++) {
        (void)printf("%s%s:", m ? ";" : "", part_name(m));
        for (int n = fields(&copy, m, names, at), i = 0; i < n; i++)
            (void)printf("%s%u", i ? "," : "", *at[i]);
    }
}

size_t template_candidates(const template *t) {
    const gen_batch_tile *head = &t->batch.tile[GEN_STEP_HEAD];
    return (size_t)head->blocks * head->columns * 8;
}
