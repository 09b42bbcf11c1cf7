/* Inside of products on tensor cores: a group as its templates see it (tensor.c), the sizes of its parts (tensor_size.c), and
 * the text of its epilogues (tensor_text.c). */
#ifndef LOWER_TENSOR_GROUP_H
#define LOWER_TENSOR_GROUP_H

#include "lower/arranged.h"
#include "lower/prologue.h"
#include "lower/rotary.h"

/* Part of a kernel: units of one segment. */
typedef struct lower_tensor_part {
    const pass_segment *s;
    const lower_rotary *rotary; /* its epilogue; NULL: that of s */
    int64_t columns;            /* of each of its matrices */
    int64_t units, first_unit, first_tile;
    uint32_t slot; /* of the argument that gets its result, where it touches no other memory */
} lower_tensor_part;

typedef struct lower_tensor_parts {
    lower_tensor_part *parts;
    uint32_t n_parts;
    rp_dtype x;                     /* of rows */
    const lower_rows *own;          /* makes few of them in the kernel; NULL: they are in memory */
    const lower_gathered *gathered; /* where few of them are gathered from; NULL: they are not */
    int64_t k, units, columns;      /* of a unit, of each of its matrices */
    int64_t tiles;                  /* of a unit, at most */
    bool direct;                    /* every epilogue is elementwise */
    bool alone;                     /* and touches no memory but its result's */
    const lower_tiles *to;          /* in which the result lies; NULL: rows, one behind the other */
    bool rotary;                    /* every part has one */
} lower_tensor_parts;

enum {
    LOWER_TENSOR_WARPS = 8,
    LOWER_FEW_ROWS = 8,   /* most of the template for few rows */
    LOWER_SOME_ROWS = 64, /* more rows have one ascending sum */
    LOWER_N_MANYS = 9,
    LOWER_JOB_TILES = 8 /* of the templates for many rows, or less */
};

static inline int64_t lower_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* As rk_few_rows of the template. */
typedef struct lower_few {
    int64_t k, slice, chunks, chunk; /* steps of a warp, its copies a tile, steps of a copy */
    int64_t rows, tiles, slots, cap;
} lower_few;

/* Sizes of the template for many rows: the most rows, tiles of weights of a job, rows of a tile, k of a chunk, chunks in flight; slices of k that are summed apart, and the blocks that
 * share them. Narrow tiles are for so few rows that a round of them takes all: wide ones would leave multiprocessors idle. Both add alike. */
typedef struct lower_many {
    int64_t most, tiles, columns, chunk, stages, slices, splits;
    int64_t piece;   /* rows whose sums are in shared memory at once */
    uint32_t per_sm; /* blocks a multiprocessor */
    bool pingpong;   /* rk_pingpong_rows, not rk_many_rows */
} lower_many;

/* Whether m is for many rows whose k is in two slices (rk_half_part of the template). */
static inline bool lower_has_halves(const lower_many *m) {
    return m->slices == 2 && m->columns == 128;
}

/* Splits g into units of so many columns. */
void lower_tensor_columns(const lowerer *L, lower_tensor_parts *g, int64_t columns);
rp_status lower_tensor_find_parts(const lowerer *L, const pass_group *gr, lower_tensor_parts *g);
/* The template for up to so many rows. */
void lower_fit_few(lower_few *f, const lower_tensor_parts *g, int64_t rows);
int64_t lower_few_bytes(const lower_few *f);
/* Rows that the template for few rows takes: fewer where K is so long that they have no room. A function of K alone: what takes
 * them adds in an order of its own. */
int64_t lower_few_rows(int64_t k);
/* The classes of more rows than end, of up to largest. */
void lower_fit_many(lower_tensor_parts *g, lower_many *list, uint32_t *n, int64_t end,
                    int64_t largest);
/* As rk_many_rows or rk_pingpong_rows of the template. */
int64_t lower_many_bytes(const lower_many *m);
/* Jobs of so many tiles of a template for many rows, units of one of part p, and of any at most. */
int64_t lower_count_jobs(const lower_tensor_parts *g, int64_t tiles);
int64_t lower_job_units(const lower_tensor_part *p, int64_t tiles);
int64_t lower_most_job(const lower_tensor_parts *g, int64_t tiles);

/* Whether sums of part p are over halves of k in the class of such tiles, and of how many parts they are. */
bool lower_is_halved(const lower_tensor_parts *g, const lower_tensor_part *p);
uint32_t lower_count_halved(const lower_tensor_parts *g);

/* The epilogues of all parts for kernel NAME, and the struct NAME_units: how many units there are, where they lie (at), and what is done with their sums
 * (gen/embed/tensor_results.cu). L->args get what they read and write. */
rp_status lower_tensor_units(lowerer *L, const pass_group *gr, lower_tensor_parts *g,
                             const char *name);
/* Finds g->direct and g->alone. */
rp_status lower_tensor_find_direct(lowerer *L, const pass_group *gr, lower_tensor_parts *g);

#endif
