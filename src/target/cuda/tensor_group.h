/* Inside of products on tensor cores: a group as its templates see it (tensor.c), the sizes of its parts (tensor_size.c), and
 * the text of its epilogues (tensor_text.c). */
#ifndef TARGET_TENSOR_GROUP_H
#define TARGET_TENSOR_GROUP_H

#include "target/cuda/arranged.h"
#include "target/cuda/prologue.h"
#include "target/cuda/rotary.h"

/* Part of a kernel: units of one segment. */
typedef struct target_tensor_part {
    const pass_segment *s;
    const target_rotary *rotary; /* its epilogue; NULL: that of s */
    int64_t columns;             /* of each of its matrices */
    int64_t units, first_unit, first_tile;
    uint32_t slot; /* of the argument that gets its result, where it touches no other memory */
} target_tensor_part;

typedef struct target_tensor_parts {
    target_tensor_part *parts;
    uint32_t n_parts;
    rp_dtype x;                      /* of rows */
    const target_rows *own;          /* makes few of them in the kernel; NULL: they are in memory */
    const target_gathered *gathered; /* where few of them are gathered from; NULL: they are not */
    bool apart;                      /* there may be so few that it makes, but not in the kernel */
    int64_t k, units, columns;       /* of a unit, of each of its matrices */
    int64_t tiles;                   /* of a unit, at most */
    bool direct;                     /* every epilogue is elementwise */
    bool alone;                      /* and touches no memory but its result's */
    const target_tiles *to; /* in which the result lies; NULL: rows, one behind the other */
    bool rotary;            /* every part has one */
    int64_t measured;       /* rows, where a tuner measures */
    int64_t chosen;         /* of a tile of the class of so many; 0: by the rules */
    bool
        given; /* rows lie in tiles already, which who made them chose without knowing of `direct` */
} target_tensor_parts;

enum {
    TARGET_TENSOR_WARPS = 8,
    TARGET_FEW_ROWS = 8,   /* most of the template for few rows */
    TARGET_SOME_ROWS = 64, /* more rows have one ascending sum */
    TARGET_N_MANYS = 9,
    TARGET_JOB_TILES = 8 /* of the templates for many rows, or less */
};

static inline int64_t target_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* As rk_few_rows of the template. */
typedef struct target_few {
    int64_t k, slice, chunks, chunk; /* steps of a warp, its copies a tile, steps of a copy */
    int64_t rows, tiles, slots, cap;
} target_few;

/* Sizes of the template for many rows: the most rows, tiles of weights of a job, rows of a tile, k of a chunk, chunks in flight; slices of k that are summed apart, and the blocks that
 * share them. Narrow tiles are for so few rows that a round of them takes all: wide ones would leave multiprocessors idle. Both add alike. */
typedef struct target_many {
    int64_t most, tiles, columns, chunk, stages, slices, splits;
    int64_t piece;   /* rows whose sums are in shared memory at once */
    uint32_t per_sm; /* blocks a multiprocessor */
    bool pingpong;   /* rk_pingpong_rows, not rk_many_rows */
    bool measured;   /* of the rows that a tuner measures, which may have other tiles */
    bool chosen;     /* and has */
} target_many;

/* Whether m is for many rows whose k is in two slices (rk_half_part of the template). */
static inline bool target_has_halves(const target_many *m) {
    return m->slices == 2 && m->columns == 128;
}

/* Splits g into units of so many columns. */
void target_tensor_columns(const lowerer *L, target_tensor_parts *g, int64_t columns);
rp_status target_tensor_find_parts(const lowerer *L, const pass_group *gr, target_tensor_parts *g);
/* The template for up to so many rows. */
void target_fit_few(target_few *f, const target_tensor_parts *g, int64_t rows);
int64_t target_few_bytes(const target_few *f);
/* Rows that the template for few rows takes: fewer where K is so long that they have no room. A function of K alone: what takes
 * them adds in an order of its own. */
int64_t target_few_rows(int64_t k);
/* The classes of more rows than end, of up to largest. */
void target_fit_many(target_tensor_parts *g, target_many *list, uint32_t *n, int64_t end,
                     int64_t largest);
/* As rk_many_rows or rk_pingpong_rows of the template. */
int64_t target_many_bytes(const target_many *m);
/* Rows that tiles of class m may have, ascending, where nothing but the time that they take hangs on it. */
uint32_t target_many_heights(const target_tensor_parts *g, const target_many *m,
                             uint16_t out[LOWER_MAX_TILES]);
/* Jobs of so many tiles of a template for many rows, units of one of part p, and of any at most. */
int64_t target_count_jobs(const target_tensor_parts *g, int64_t tiles);
int64_t target_job_units(const target_tensor_part *p, int64_t tiles);
int64_t target_most_job(const target_tensor_parts *g, int64_t tiles);

/* Whether sums of part p are over halves of k in the class of such tiles, and of how many parts they are. */
bool target_is_halved(const target_tensor_parts *g, const target_tensor_part *p);
uint32_t target_count_halved(const target_tensor_parts *g);

/* The epilogues of all parts for kernel NAME, and the struct NAME_units: how many units there are, where they lie (at), and what is done with their sums
 * (gen/embed/tensor_results.cu). L->args get what they read and write. */
rp_status target_tensor_units(lowerer *L, const pass_group *gr, target_tensor_parts *g,
                              const char *name);
/* Finds g->direct and g->alone. */
rp_status target_tensor_find_direct(lowerer *L, const pass_group *gr, target_tensor_parts *g);

#endif
