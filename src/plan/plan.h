/* The compiled form of one graph: a flat list of launches over one planned arena.
 *
 * A plan is immutable after plan_seal and holds no pointers to memory of the step: arguments are
 * (segment, index, offset). plan_bind (exec.h) makes concrete launches. Sizes are programs over the plan's symbols. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/access.h"
#include "base/arena.h"
#include "base/hash.h"
#include "plan/size.h"
#include "reprise/dtype.h"
#include "reprise/op.h"

typedef enum plan_seg {
    PLAN_INPUT,  /* input idx, given at bind */
    PLAN_OUTPUT, /* output idx, given at bind */
    PLAN_PARAM,  /* param idx in its file layout, given at bind */
    PLAN_STATE,  /* state idx, given at bind */
    PLAN_PACK,   /* packed weights idx */
    PLAN_CONST,  /* record idx */
    PLAN_ARENA,  /* idx = value; its offset in the arena */
    PLAN_SEG_COUNT_
} plan_seg;

typedef struct plan_arg {
    plan_seg seg;
    uint32_t idx;
    uint8_t access; /* bits of base_access; 0: it is not touched */
} plan_arg;

typedef struct plan_symbol {
    const char *name;
    int64_t min, max;
} plan_symbol;

/* An input, output, param or state of the graph. */
typedef struct plan_leaf {
    const char *name;
    rp_dtype dtype;
    uint32_t rank;
    plan_size dim[RP_MAX_RANK];
    plan_size bytes;
    bool read; /* a param that some launch reads as its file has it; set by plan_seal, plan_load */
} plan_leaf;

/* A value in the arena: alive from launch `first` to `last`, both included. One whose size has no bound is outside of it, in
 * memory of its own that grows with the sizes of calls (exec.h). */
#define PLAN_GROWS (-1)
typedef struct plan_value {
    plan_size bytes;
    uint32_t first, last; /* an unused value: 0, 0 and no bytes */
    int64_t offset;       /* or PLAN_GROWS; set by plan_seal */
} plan_value;

/* Packed weights: sections follow each other; matrices of a section alternate every 32 rows. */
typedef struct plan_section {
    uint32_t params[4];
    uint32_t n_params;
    uint32_t by_k; /* bit i: matrix i lies [k][rows], not [rows][k] */
    int64_t rows;
} plan_section;

typedef struct plan_pack {
    rp_dtype dtype;
    int64_t k;
    bool swizzled; /* gen_pack_swizzle */
    plan_section *sections;
    uint32_t n_sections;
    int64_t offset, size; /* in the weights object; set by plan_seal */
} plan_pack;

typedef struct plan_const {
    const void *data;
    uint32_t size;
} plan_const;

/* A shared object of the code cache. */
typedef struct plan_module {
    base_hash128 key;
    uint32_t isa_bits; /* as the code was stored */
} plan_module;

/* A function of a module, or a built-in kernel (module = PLAN_BUILTIN). */
#define PLAN_BUILTIN UINT32_MAX
#define PLAN_NO_FUNCTION UINT32_MAX /* of a variant: nothing runs, another launch does the work */
typedef struct plan_function {
    uint32_t module;
    const char *symbol;
} plan_function;

#define PLAN_MAX_ALTS 10
#define PLAN_MAX_DEPTH 16 /* plans within plans, the outermost counted */
/* Of a custom op: 64 operands and 8 results. */
#define PLAN_MAX_CUSTOM_ARGS 72u
typedef struct plan_alt {
    int64_t max; /* of `rows` */
    uint32_t function;
    int64_t scratch; /* device code: bytes of dynamic shared memory */
    /* device code: as in hal_launch; 0: those of the launch, any number */
    uint32_t threads, per_sm, per_block;
    uint32_t blocks; /* device code: exactly so many, whatever the items; 0: by items */
} plan_alt;

/* A launch that runs plans of graphs within the graph (ir/ops.def). Its arguments: the operands, the results, and memory to work
 * in: a second place for each carried value, the answer of a while's condition, the arena of the plans. */
typedef enum plan_control_kind {
    PLAN_CALL,  /* inner[0] */
    PLAN_COND,  /* operand 0 false: inner[0], true: inner[1] */
    PLAN_WHILE, /* inner[0] as long as inner[1] says so */
    PLAN_SCAN,  /* inner[0] for each element */
    PLAN_CONTROL_COUNT_
} plan_control_kind;

typedef struct plan_control {
    plan_control_kind kind;
    uint32_t inner[2]; /* of plan.inner; the second one of cond and while */
    uint32_t n_operands, n_results, carried, sliced;
    int64_t limit;    /* while: of iterations */
    plan_size length; /* scan: iterations */
} plan_control;

#define PLAN_NUMBERS UINT32_MAX /* in the place of a dim map: numbers of the launch's own */
typedef struct plan_launch {
    const char *name;
    plan_alt alts[PLAN_MAX_ALTS];
    uint32_t n_alts;
    plan_size rows, items;
    int64_t grain;
    uint32_t threads, per_block; /* device code: threads of a block, items that it takes; else 0 */
    uint32_t dim_map;            /* which symbol order the function expects, or PLAN_NUMBERS */
    plan_arg *args;
    uint32_t n_args;
    bool attention;
    bool no_barrier;     /* as hal_launch; set by plan_seal, plan_load */
    const char *custom;  /* registered op called on the host, or NULL */
    const char *attrs;   /* custom: "{eps=0x1p-3}", all that its schema names */
    plan_leaf *operands; /* custom: types of the args */
    plan_control *control;
    plan_size *numbers; /* PLAN_NUMBERS: what the function gets, n_numbers of them */
    uint32_t n_numbers;
} plan_launch;

/* Symbol i of the function is symbol map[i] of the plan. */
typedef struct plan_dim_map {
    uint32_t *map;
    uint32_t n;
} plan_dim_map;

typedef struct plan_piece {
    uint32_t submod;      /* position among all pieces */
    uint32_t graph_index; /* among the compiled ones; UINT32_MAX for a splitting piece */
    uint32_t distinct;    /* first piece of the same text */
    bool splitting;
    uint32_t first, n; /* launches */
} plan_piece;

typedef struct plan {
    base_arena *arena; /* owns everything below */
    const char *name;
    plan_symbol *symbols;
    uint32_t n_symbols;
    plan_leaf *inputs, *outputs, *params, *states;
    uint32_t n_inputs, n_outputs, n_params, n_states;
    plan_value *values;
    uint32_t n_values;
    plan_pack *packs;
    uint32_t n_packs;
    plan_const *consts;
    uint32_t n_consts;
    plan_module *modules;
    uint32_t n_modules;
    plan_function *functions;
    uint32_t n_functions;
    plan_dim_map *dim_maps;
    uint32_t n_dim_maps;
    plan_launch *launches;
    uint32_t n_launches;
    plan_piece *pieces;
    uint32_t n_pieces, n_compiled, n_distinct;
    struct plan **inner; /* what control launches run; without params, states and packs */
    uint32_t n_inner;
    int64_t arena_size;   /* bytes at the largest symbols */
    int64_t weights_size; /* bytes of all packs */
    uint64_t steps;       /* of work on making it, for tests: they grow with its launches */
} plan;

/* An empty plan; NULL when memory is exhausted. Arrays are allocated from ->arena by whoever fills them. */
plan *plan_new(const char *name);
void plan_free(plan *p);
/* Plans that l runs: 1 or 2. */
uint32_t plan_control_count(const plan_control *c);
/* Arguments behind the results. */
uint32_t plan_control_work(const plan_control *c);
/* Whether l runs something other than a function. */
static inline bool plan_launch_is_plain(const plan_launch *l) {
    return !l->custom && !l->control;
}
/* Lays out arena (greedy by size, first fit, values that are alive together never share) and packs; checks all indices. */
rp_status plan_seal(plan *p, rp_error *err) RP_MUST_USE;
/* Every index in range, every use of a value within its life and behind a write of it, values that are alive together disjoint, what nothing may write left alone, pieces in order.
 * RP_CORRUPT names what is wrong. */
rp_status plan_verify(const plan *p, rp_error *err) RP_MUST_USE;

/* Code that no launch of p names and that is stored and loaded with it: functions of one module (plan_exec_function). */
rp_status plan_add_code(plan *p, const plan_module *m, const char *const *symbols, uint32_t n,
                        rp_error *err) RP_MUST_USE;

/* Bytes that plan_load reads back; equal plans give equal bytes. Owned by the caller. */
rp_status plan_save(const plan *p, char **out, size_t *out_size, rp_error *err) RP_MUST_USE;
/* RP_CORRUPT for anything that plan_save did not write. */
rp_status plan_load(const void *data, size_t size, plan **out, rp_error *err) RP_MUST_USE;
/* Text for people: launches with arguments, values with offsets. */
void plan_print(const plan *p, base_buf *out);
/* What runs when and where it lies: launches in order with their grids, then the arena with the places that values take
 * over from dead ones. Pieces equal to an earlier one are named only, unless all. */
void plan_print_schedule(const plan *p, bool all, base_buf *out);

#endif
