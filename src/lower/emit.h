/* Values of nodes at an index, as kernel IR: the one place that knows what each op computes. */
#ifndef LOWER_EMIT_H
#define LOWER_EMIT_H

#include "gen/template.h"
#include "ir/custom.h"
#include "sched/sched.h"
#include "lower/product.h"
#include "pass/fuse.h"

/* Where a node's value is while one kernel is built. */
typedef enum lower_place {
    LOWER_COMPUTE, /* evaluated where it is read */
    LOWER_SSA,     /* one value a row: `value` */
    LOWER_SCRATCH, /* one row in scratch: `value` is the buffer */
    LOWER_ACC,     /* accumulator tile of a template: `value` is the buffer */
    LOWER_STORED   /* in memory: lowerer.where */
} lower_place;

typedef struct lower_local {
    lower_place place;
    uint32_t value;
    uint32_t kernel; /* in which this holds */
} lower_local;

typedef struct lower_memo {
    ir_ref ref;
    bool bits; /* of lower_bits */
    kir_ref idx[IR_MAX_RANK];
    kir_ref value, block;
    uint32_t depth;
} lower_memo;

/* What is known of a member of the group being lowered (keep.c). */
typedef struct lower_keep {
    uint32_t cost; /* operations that an evaluation takes where it is inlined */
    bool kept;     /* computed once an element, in scratch or in memory */
    bool parted;   /* a concat whose reader loops over its parts */
    bool reduced;  /* a reduction reads it, perhaps through what is computed there */
    ir_ref root;   /* the member whose loop all its readers share; IR_NONE: several */
    double evals;  /* elements that its readers ask for */
} lower_keep;

/* What the runs of a split reduction left (runs.c): of each a value, of argmax its place, too. */
typedef struct lower_partial {
    lower_ref value, place;
} lower_partial;

/* A piece being lowered. */
typedef struct lowerer {
    const ir_graph *g;
    const pass_fusion *f;
    const lower_options *opt;
    const lower_target *target;
    lower_piece *out;
    base_arena *arena; /* out->arena */
    lower_ref *where;  /* by ref: memory of stored nodes and leaves */
    bool *has_memory;  /* by ref */
    bool *moves; /* by ref: a narrow float whose bits came from somewhere; all of them are kept */
    base_buf source;
    rp_error *err;
    const pass_group *group;    /* being lowered; NULL: outputs */
    const pass_group *absorbed; /* what it does was done by the group in front */
    /* the kernel being built */
    kir_func *k;
    sched_launch launch;    /* once it is rendered */
    uint32_t may;           /* knobs of it that are not idle, so far */
    uint32_t group_at;      /* of `group`; UINT32_MAX: none whose choice counts, as of copies */
    lower_local *local;     /* by ref; read with lower_local_of */
    uint32_t n_begun;       /* kernels */
    ir_dim rows;            /* of the group being lowered: what its items are cut by */
    lower_partial *partial; /* by ref; of reductions in runs */
    lower_keep *keep;       /* by ref; members of keep_group */
    uint32_t keep_group;
    bool keep_whole;      /* items are whole rows */
    int64_t scratch_left; /* of LOWER_MAX_SCRATCH */
    uint32_t lanes;       /* scratch for the lanes of runs that wide */
    int64_t lanes_width;
    lower_ref *args; /* room for every place that there is */
    uint32_t n_args;
    kir_ref col; /* fragment: column within the tile */
    lower_memo *memo;
    uint32_t n_memo;
    /* The target's own: rows that their readers make themselves, values that lie as their reader wants them. */
    struct target_rows *own_rows;
    struct target_arranged *arranged;
} lowerer;

#define LOWER_MAX_MEMO 256

/* choice.c: lower_kernel.label of the group, in the arena; NULL when memory is exhausted. */
const char *lower_label(lowerer *L, const pass_group *gr, const char *name);
/* What was chosen for the group; the rules' own where nothing was. */
lower_choice lower_chosen(const lowerer *L);
/* The same of a group that another one asks about. */
lower_choice lower_chosen_of(const lowerer *L, const pass_group *gr);

/* Value of node r at idx (one index a dim): class f32 for floats and booleans, i64 and f64 for those, i32 for other
 * integers. KIR_NONE after a failure, which is in the kernel or in L->err. */
kir_ref lower_value(lowerer *L, ir_ref r, const kir_ref *idx);
/* Bits of element idx of r, a float of less than 32 bits: class i32, of 16 bits with their sign, of 8 without. */
kir_ref lower_bits(lowerer *L, ir_ref r, const kir_ref *idx);
/* How elements of an operand are read: values, bits, or the bytes of a block format (the last axis counts those then). */
typedef kir_ref (*lower_read)(lowerer *L, ir_ref r, const kir_ref *idx);
/* What is stored of r, and the buffer over `where` for that. */
lower_read lower_stored_as(const lowerer *L, ir_ref r);
uint32_t lower_buffer_of(lowerer *L, lower_ref where, ir_ref r);
/* Fills L->moves. */
void lower_find_moves(lowerer *L);
/* Value of a bitcast. */
kir_ref lower_bitcast(lowerer *L, const ir_node *n, const kir_ref *idx);
/* Where the value of r is in the kernel being built: what has memory when it is first asked is stored. */
lower_local *lower_local_of(lowerer *L, ir_ref r);
/* Element i of what reduction r reduces for its result at idx. */
kir_ref lower_term(lowerer *L, ir_ref r, const kir_ref *idx, kir_ref i);
/* What a reduction of the graph is in kernel IR. */
kir_reduce lower_reduce_kind(ir_op op);
/* Byte idx of r, which is of a block format and moved as it is: the last index counts bytes of the row. Class i32. */
kir_ref lower_block_byte(lowerer *L, ir_ref r, const kir_ref *idx);
/* Bytes of the last axis of a block format. */
int64_t lower_row_bytes(const lowerer *L, const ir_node *n);
/* Stores row `row` of r (of all of it, where that is its only axis) as bytes. */
void lower_store_blocks(lowerer *L, ir_ref r, lower_ref to, kir_ref row);
/* Class of lower_value. */
kir_class lower_class(rp_dtype t);
/* Row-major position of idx in shape. */
kir_ref lower_linear(lowerer *L, const ir_shape *s, const kir_ref *idx, uint32_t first);
/* The index in shape whose position, from dim first on, is lin. */
void lower_delinear(lowerer *L, const ir_shape *s, kir_ref lin, uint32_t first, kir_ref *idx);
kir_ref lower_dim(lowerer *L, ir_dim d);
/* Number of launch argument `where`, which is added where it is new. */
uint32_t lower_arg_slot(lowerer *L, lower_ref where);
/* The same of one that the launch writes; what nobody says that of is read. */
uint32_t lower_written_slot(lowerer *L, lower_ref where);
/* Arguments [from, L->n_args) are written. */
void lower_write_args(lowerer *L, uint32_t from);
/* What f, a function of the launch, does with its arguments, slot[i] for argument i of f; NULL: they are the launch's own. */
void lower_note_access(lowerer *L, const kir_func *f, const uint32_t *slot);
/* Buffer over launch argument `where`; the same one for equal (argument, dtype, offset). */
uint32_t lower_buffer(lowerer *L, lower_ref where, rp_dtype dtype, int64_t offset);
/* Stores a value of lower_class(dtype) with the conversion that the buffer's dtype needs. */
void lower_put(lowerer *L, uint32_t buf, rp_dtype dtype, kir_ref index, kir_ref value);
/* What an op of result type dtype computed, as that type: floats are rounded, integers wrap around. */
kir_ref lower_as_type(lowerer *L, rp_dtype dtype, kir_ref value);
/* Memory for a stored node; made at the first call. */
rp_status lower_memory(lowerer *L, ir_ref r, lower_ref *out);
/* Memory of an operand of library code, copied where it is none; and bytes of the arena, of some record. */
rp_status lower_operand_memory(lowerer *L, ir_ref r, lower_ref *at);
rp_status lower_add_const(lowerer *L, const void *data, uint32_t size, lower_ref *out);
/* Memory of so many bytes, IR_DIM_BAD of which n is to blame for. */
rp_status lower_temp_memory(lowerer *L, const ir_node *n, ir_dim bytes, lower_ref *out);
/* Memory for result i of r, also of one that nothing names. */
rp_status lower_result_memory(lowerer *L, ir_ref r, uint32_t i, lower_ref *out);
/* Memory of r, a version that an effect makes: that of the version before. */
rp_status lower_version(lowerer *L, ir_ref r, lower_ref *out);
/* Leading dims that make the rows of the group being lowered. */
uint32_t lower_outer(const lowerer *L, const ir_shape *s);
/* Elements of one row when known, else -1. */
int64_t lower_row_count(const lowerer *L, const ir_shape *s);
/* A buffer of scratch that holds so many elements of a class. */
uint32_t lower_add_scratch(lowerer *L, rp_dtype dtype, int64_t elements);
/* Of the class of a type: what holds its values as they are computed. */
rp_dtype lower_wide_type(rp_dtype dtype);
/* Elements of dims [first, rank) when known, else -1. */
int64_t lower_inner_count(const ir_graph *g, const ir_shape *s, uint32_t first);

/* Emitters of the kinds of group. */
rp_status lower_loop_group(lowerer *L, const pass_group *gr, uint32_t index);
rp_status lower_matmul_group(lowerer *L, const pass_group *gr, uint32_t index);
rp_status lower_extern_group(lowerer *L, const pass_group *gr);
rp_status lower_along_axis(lowerer *L, ir_ref r);
rp_status lower_graphs(lowerer *L, const ir_node *n, ir_ref r); /* call, cond, while, scan */
/* The kernels of the runs of a group's split reductions, in front of its own. */
rp_status lower_runs(lowerer *L, const pass_group *gr, uint32_t index);
/* What they left, joined: the value of split reduction r at idx, but for its rounding. */
kir_ref lower_joined_runs(lowerer *L, ir_ref r, const kir_ref *idx);
/* Enters the kernel of that name, which is built, with so many items. A dim of the graph. */
rp_status lower_finish_items(lowerer *L, char *name, ir_dim items);
/* A copy of a view or leaf that the piece returns, into memory of its own. */
rp_status lower_copy(lowerer *L, ir_ref r, lower_ref *out);

/* Starts and ends a kernel: finish renders k into the source and fills name, args and scratch of *launch. */
rp_status lower_kernel_begin(lowerer *L, const char *name, kir_form form);
/* Schedules k, as L->launch says then, and renders it into the source and into the other forms that were asked for. */
rp_status lower_render(lowerer *L);
/* Into the other forms alone. */
rp_status lower_render_texts(const lowerer *L);
/* Whether the items of a kernel are shared by the threads of blocks, neighbours side by side. */
bool lower_by_blocks(const lowerer *L);
/* Enters the kernel whose text began at `begin` of the source. */
lower_kernel *lower_add_kernel(lowerer *L, const char *name, size_t begin, gen_matmul_uses uses);
/* lower_target.ready, where the target has one. */
rp_status lower_ready(lowerer *L, const char *name, size_t begin, const char **symbol);
rp_status lower_take_args(lowerer *L, lower_launch *launch);
lower_launch *lower_add_launch(lowerer *L);
/* How the kernel that was rendered is launched; its first alternative is there. */
rp_status lower_launch_of(const lowerer *L, lower_launch *l);
/* Names kernels kind, origin ops, index: red_fused_mean_mul_3. In the arena. */
char *lower_name(lowerer *L, const char *kind, const ir_ref *nodes, uint32_t n, uint32_t index);

/* Scratch of one item of a kernel, in elements of 4 bytes. */
#define LOWER_MAX_SCRATCH PASS_MAX_ROW
#define LOWER_RUN 256 /* elements of a run at most */
/* Whether the inner elements of such a value have room in scratch. */
bool lower_fits_scratch(const lowerer *L, const ir_node *n);
/* tile.c: a run of neighbouring results of a reduction. */
typedef struct lower_run {
    kir_ref first;  /* of the flattened result */
    kir_ref offset; /* of the first, where they go */
    int64_t width;
    uint32_t lanes;  /* scratch of 16 * width */
    uint32_t totals; /* of a sum with chunks: f64 scratch of width */
} lower_run;
/* idx: of the element; at: offset + its number in the run. */
typedef void (*lower_element_fn)(lowerer *L, const kir_ref *idx, kir_ref at, kir_ref value,
                                 void *user);
/* How many neighbours of a result of r are made from neighbours; 0 where that is no reduction over another dim. */
int64_t lower_neighbours(const lowerer *L, ir_ref r);
/* The same, also of one in runs, whose runs are what is made so. */
int64_t lower_side_by_side(const lowerer *L, ir_ref r);
/* A sum that may have more than one chunk. */
bool lower_has_chunks(const lowerer *L, ir_ref r);
void lower_reduce_run(lowerer *L, ir_ref r, const lower_run *t, lower_element_fn fn, void *user);
/* The same of terms [from, from + n) alone, fewer than a chunk has: values are stored side by side from `at` on. */
void lower_reduce_terms(lowerer *L, ir_ref r, const lower_run *t, kir_ref from, kir_ref n,
                        uint32_t buf, kir_ref at);
/* Largest divisor of n up to `most`. */
int64_t lower_divisor(int64_t n, int64_t most);

/* members.c: emits the members of a group inside an open item: one row; in a fragment, columns [col0, col0+n_cols) of it;
 * in a tile, as many consecutive elements of flattened values. */
typedef struct lower_space {
    kir_ref row;
    bool fragment, tile;
    kir_ref col0, n_cols;
    int64_t width; /* n_cols at most */
} lower_space;
/* keep.c: fills L->keep of the members. */
void lower_plan_keeps(lowerer *L, const lower_space *s, const ir_ref *nodes, uint32_t n);
rp_status lower_members(lowerer *L, const lower_space *s, const ir_ref *nodes, uint32_t n);

#endif
