#include "bench/gpu/template.h"

#include <stdio.h>
#include <string.h>

rp_status template_fit(template *t, uint32_t n_sm, size_t max_shared, rp_error *err) {
    t->few = (gen_decode){.s = t->s, .batch = t->rows};
    t->batch = (gen_batch){.s = t->s, .rows = t->rows, .one_sequence = t->prefill};
    if (!t->many) {
        t->room = GEN_DECODE_MAX_BATCH;
        return gen_decode_fit(&t->few, n_sm, max_shared, err);
    }
    RP_TRY(gen_batch_fit(&t->batch, n_sm, max_shared, err));
    t->room = t->batch.room;
    return RP_OK;
}

rp_status template_check(template *t, size_t max_shared, rp_error *err) {
    if (t->many) {
        gen_batch_settle(&t->batch);
        t->room = t->batch.room;
        return gen_batch_check(&t->batch, max_shared, err);
    }
    for (int m = 0; m < GEN_STEP_MATRICES_; m++)
        if (t->few.tile[m].cap > t->few.tile[m].slots) t->few.tile[m].cap = t->few.tile[m].slots;
    return gen_decode_check(&t->few, max_shared, err);
}

/* ---- settings ------------------------------------------------------------------------------------ */

enum { MAX_FIELDS = 7 };

/* Fields of matrix m, or of attention where m is GEN_STEP_MATRICES_, with their names. */
static int fields(template *t, int m, const char **names, uint32_t **at) {
    static const char *const all[][MAX_FIELDS] = {
        {"rows", "blocks", "warps", "chunk", "slots", "group", "cap"},
        {"columns", "splits", "stages", "blocks"},
        {"splits", "warps", "ahead"}};
    gen_step_attention *a = t->many ? &t->batch.attention : &t->few.attention;
    gen_decode_tile *f = &t->few.tile[m];
    gen_batch_tile *b = &t->batch.tile[m];
    uint32_t *const few[] = {&f->rows,  &f->blocks, &f->warps, &f->chunk,
                             &f->slots, &f->group,  &f->cap};
    uint32_t *const many[] = {&b->columns, &b->splits, &b->stages, &b->blocks};
    uint32_t *const attention[] = {&a->splits, &a->warps, &a->ahead};
    int kind = m == GEN_STEP_MATRICES_ ? 2 : t->many, n = kind == 2   ? 3
                                                          : kind == 1 ? 4
                                                                      : MAX_FIELDS;
    memcpy(names, all[kind], (size_t)n * sizeof *names);
    memcpy(at, kind == 2 ? attention : kind == 1 ? many : few, (size_t)n * sizeof *at);
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

/* ---- either -------------------------------------------------------------------------------------- */

void template_text(const template *t, base_buf *out) {
    if (t->many)
        gen_batch_text(&t->batch, out);
    else
        gen_decode_text(&t->few, out);
}

gen_step_launch template_launch(const template *t, unsigned kernel) {
    return t->many ? gen_batch_launch_of(&t->batch, kernel) : gen_decode_launch_of(&t->few, kernel);
}

uint32_t template_rows(const template *t, gen_step_matrix m) {
    return t->many ? gen_batch_rows(&t->batch, m) : gen_decode_rows(&t->few, m);
}

size_t template_bytes(const template *t, gen_step_matrix m) {
    return t->many ? gen_batch_bytes(&t->batch, m) : gen_decode_bytes(&t->few, m);
}

uint32_t template_row(const template *t, gen_step_matrix m, uint32_t packed) {
    return t->many ? gen_batch_row(&t->batch, m, packed) : gen_decode_row(&t->few, m, packed);
}

uint32_t template_unit(const template *t, gen_step_matrix m) {
    return t->many ? GEN_BATCH_TILE_ROWS : t->few.tile[m].rows;
}

size_t template_candidates(const template *t) {
    if (t->many)
        return (size_t)t->batch.tile[GEN_STEP_HEAD].blocks * t->batch.tile[GEN_STEP_HEAD].columns *
               8;
    return (size_t)t->few.tile[GEN_STEP_HEAD].blocks * GEN_DECODE_MAX_BATCH * 8;
}
