/* From a piece to launches: fusion groups become kernel IR or templates, and their source text.
 *
 * The result speaks of the piece's own leaves and of temporaries; the plan binds both to memory. All of it is
 * deterministic: the same piece, target and options give the same bytes. */
#ifndef LOWER_LOWER_H
#define LOWER_LOWER_H

#include "base/access.h"
#include "base/str.h"
#include "gen/axis.h"
#include "gen/builtin.h"
#include "gen/isa.h"
#include "gen/template.h"
#include "ir/graph.h"
#include "pass/pipeline.h"
#include "sched/sched.h"

/* What a launch argument refers to. */
typedef enum lower_seg {
    LOWER_INPUT, /* input leaf idx */
    LOWER_PARAM, /* param leaf idx, in its file layout */
    LOWER_PACK,  /* packed weights idx */
    LOWER_STATE, /* state leaf idx */
    LOWER_TEMP,  /* temporary idx */
    LOWER_CONST  /* constant record idx */
} lower_seg;

typedef struct lower_ref {
    lower_seg seg;
    uint32_t idx;
    uint8_t access; /* bits of base_access: of an argument of a launch; 0: not known yet */
} lower_ref;

/* Bytes that a built-in kernel reads as its parameters. */
typedef struct lower_const {
    const void *data;
    uint32_t size;
} lower_const;

/* Memory for one stored value, in the arena (or the caller's buffer when it is an output). */
typedef struct lower_temp {
    ir_dim bytes; /* over lower_piece.dims */
} lower_temp;

/* Weights of one matmul launch, repacked in 16-row tiles (gen/pack.h). Sections follow each other; the
 * matrices of one section alternate every 32 rows. */
typedef struct lower_section {
    uint32_t params[4]; /* param leaves */
    uint32_t n_params;
    uint32_t by_k; /* bit i: matrix i lies [k][n], not [n][k] */
    int64_t rows;  /* n of each matrix */
} lower_section;

typedef struct lower_pack {
    rp_dtype dtype;
    int64_t k;
    bool swizzled; /* gen_pack_swizzle */
    lower_section *sections;
    uint32_t n_sections;
} lower_pack;

/* A compiled function for values of the launch's `rows` up to max. */
typedef struct lower_alt {
    int64_t max;
    const char *
        symbol; /* in the piece's module; a built-in kernel if it starts with '@'; NULL: nothing runs */
    int64_t
        scratch; /* bytes of thread-local scratch; of a kernel of blocks: of dynamic shared memory */
    /* Of a kernel of blocks: as in hal_launch; 0: those of the launch, any number */
    uint32_t threads, per_sm, per_block;
    uint32_t blocks; /* exactly so many, whatever the items; 0: by items */
} lower_alt;

#define LOWER_MAX_ALTS 10

/* call, cond, while, scan: plans of the node's graphs, in the order of its attributes, which run as operands say. Arguments: the
 * operands, the results, a second place for each carried value, the answer of a while's condition. */
typedef struct lower_control {
    ir_op op;
    const ir_graph *graph[2]; /* or NULL; as long as the graph that the piece was split from */
    uint32_t n_operands, n_results, carried, sliced;
    int64_t limit;
    ir_dim length; /* over lower_piece.dims */
} lower_control;
#define LOWER_MAX_CONTROL_ARGS (64u + 2 * IR_MAX_RESULTS + 1)

typedef struct lower_launch {
    const char *name; /* of the kernel, for logs */
    lower_alt alts[LOWER_MAX_ALTS];
    uint32_t n_alts;
    ir_dim rows;
    ir_dim items;
    int64_t grain;
    uint32_t threads,
        per_block; /* of a kernel of blocks: threads of one, items that it takes; else 0 */
    lower_ref *args;
    uint32_t n_args;
    bool attention;
    const char *custom; /* a custom op: called on the host, no function */
    const char *attrs;  /* of a custom op: their text */
    ir_type *operands;  /* of a custom op: the types of args, with sizes over lower_piece.dims */
    const lower_control *control; /* or NULL: no function */
    /* What the function gets in place of the symbols: sizes, and behind them integers; NULL: the symbols */
    const ir_dim *sizes;
    const int64_t *words;
    uint32_t n_sizes, n_words;
    uint32_t group; /* of the fusion that it is of; UINT32_MAX: of none, it copies an output */
} lower_launch;

/* What a tuner may decide of a kernel, as bits of lower_kernel.may: the last two of a kernel of a GPU, all but the last of the host. */
#define LOWER_KNOB_LIST(X)                                                                        \
    X(VECTOR, vector, sched.vector)    /* bits of vectors that the compiler makes of loops */     \
    X(UNROLL, unroll, sched.unroll)    /* iterations of innermost loops side by side */           \
    X(GRAIN, grain, sched.grain)       /* doublings of the items that are worth another thread */ \
    X(TILE, tile, tile)                /* doublings of the neighbours that an item has */         \
    X(ROWS, rows, rows)                /* of a work item of a float product, or of a tile */      \
    X(THREADS, threads, sched.threads) /* of a block */

typedef enum lower_knob {
#define LOWER_KNOB_ENUM(id, name, member) LOWER_##id,
    LOWER_KNOB_LIST(LOWER_KNOB_ENUM)
#undef LOWER_KNOB_ENUM
        LOWER_KNOB_COUNT_
} lower_knob;
#define LOWER_MAY(id) (UINT32_C(1) << LOWER_##id)

/* In place of the rules, 0 leaves it to them. Every choice gives the same bits. */
typedef struct lower_choice {
    sched_choice sched;
    int16_t tile;
    uint16_t rows;
} lower_choice;
#define LOWER_MAX_CHOICES 24
#define LOWER_MAX_TILES 5

/* A generated function with its helpers, a part of the source that stands for itself behind the head of a unit. */
typedef struct lower_kernel {
    const char *name;     /* of the function; those of its helpers begin with it */
    size_t begin, end;    /* of the source */
    gen_matmul_uses uses; /* of the template */
    const char *ptx;      /* a module of its own in PTX, of which source has a comment; else NULL */
    const char *entry;    /* its kernel */
    const char *
        sites; /* call sites of what it computes, where lower_options.sites asks for them; else NULL */
    const char *origins; /* the nodes that it computes, where lower_options.origins asks for them */
    double work;    /* operations of one item at nominal sizes (kir_item_cost); 0 of a template */
    uint32_t group; /* of fusion; UINT32_MAX: a copy */
    uint32_t may;   /* bits of knobs that are not idle */
    int64_t rows,
        own_rows; /* of a float product: all at nominal sizes, and those of an item by the rules */
    /* Of a product on tensor cores: rows that its tiles may have, ascending. It is measured with all launches of its group, whose kernels have other names where
     * another is chosen. */
    uint16_t tiles[LOWER_MAX_TILES];
    uint32_t n_tiles;
    const char
        *label; /* where lower_options.labels asks for it: "mm(8x2048, 2048x3072)", nominal sizes */
} lower_kernel;

typedef struct lower_piece {
    base_arena *arena;
    ir_dims *dims; /* symbols: dim[i] of every launch is symbol i */
    lower_temp *temps;
    uint32_t n_temps;
    lower_ref *outputs; /* of each output of the piece */
    uint32_t n_outputs;
    lower_const *consts;
    uint32_t n_consts;
    lower_pack *packs;
    uint32_t n_packs;
    lower_launch *launches;
    uint32_t n_launches;
    lower_kernel *kernels;
    uint32_t n_kernels;
    uint32_t n_groups;
    gen_target target;
    char *source; /* text of all kernels as one unit */
} lower_piece;

typedef struct lower_options {
    gen_isa isa;
    gen_target target; /* for target_lower */
    bool
        exact; /* products add as the host does, whatever the number of rows (docs/ir.md), where a target could else do it faster */
    /* Products that are only stored, and common functions, are launches of library code, where the target has it. */
    bool built_in;
    uint32_t threads; /* of the host, that share the items of a launch; 0: nobody says how many */
    bool packed;      /* parameters of products are packed beforehand, none is read in place */
    uint32_t
        shared; /* bytes of shared memory that a block of the GPU may have; 0: as few as any has */
    const pass_options
        *passes;  /* (optional) kinds of fusion to leave out, splits in place of the target's */
    bool sites;   /* for a text that is read: lower_source_print names call sites */
    bool origins; /* and shows the nodes, as ir_print does */
    /* (optional) Receive the same kernels: as kernel IR, in the language of `printed_for`, and as schedules of `scheduled` (NULL: of the target). */
    base_buf *kir, *printed, *schedule;
    gen_target printed_for;
    const sched_target *scheduled;
    bool labels;                 /* of kernels, for who tunes them */
    const lower_choice *choices; /* by group, n_choices; NULL: the rules decide */
    uint32_t n_choices;
} lower_options;

typedef struct lower_target lower_target; /* lower/target.h */

/* g: after the passes, for target t. RP_UNSUPPORTED names an op or type that has no lowering. Free with lower_done. */
rp_status lower_graph(const ir_graph *g, const lower_target *t, const lower_options *opt,
                      lower_piece *out, rp_error *err) RP_MUST_USE;
void lower_done(lower_piece *p);
/* RP_NOMEM where a size of p found no memory: nothing that it stands in may be used. */
rp_status lower_sizes_status(const lower_piece *p, rp_error *err) RP_MUST_USE;
/* The source with a comment before each kernel of which there are sites or origins: for readers, never compiled. */
void lower_source_print(const lower_piece *p, base_buf *out);
/* Appends a unit of some kernels of p: wanted[i] for kernel i. With all of them it is p->source. */
rp_status lower_unit(const lower_piece *p, gen_isa isa, const bool *wanted, base_buf *out,
                     rp_error *err) RP_MUST_USE;

/* choice.c: what else than the rules' own choice, which is the first, is worth a measurement of k. Returns how many. */
uint32_t lower_choices(const lower_kernel *k, gen_isa isa, lower_choice out[LOWER_MAX_CHOICES]);
/* Choices that differ from c by one step of one knob. */
uint32_t lower_choices_near(const lower_kernel *k, gen_isa isa, const lower_choice *c,
                            lower_choice out[LOWER_MAX_CHOICES]);
bool lower_choice_eq(const lower_choice *a, const lower_choice *b);
/* "vector=256 unroll=4", nothing for the rules' own. upper: "VECTOR=256, UNROLL=4". */
void lower_choice_print(const lower_choice *c, bool upper, base_buf *out);
/* Reads it back; false where it names a knob or value that k has not. */
bool lower_choice_parse(const lower_kernel *k, gen_isa isa, const char *text, lower_choice *out);
/* A node that stands for the type of result i of n. */
ir_node lower_result_type(const ir_node *n, uint32_t i);
/* Bytes of one stored value of a node's type; IR_DIM_BAD on overflow or out of memory. i16b32 has the row layout of
 * gen/embed/prelude.h. */
ir_dim lower_bytes(ir_dims *t, const ir_node *n);
/* Why lower_bytes gave IR_DIM_BAD. */
rp_status lower_bytes_refused(const ir_graph *g, const ir_node *n, rp_error *err);
/* The text of a custom op's attributes, in the arena; NULL when memory is exhausted. */
const char *lower_custom_attrs(const ir_node *n, base_arena *arena);
/* Types of the operands and the results of custom op r of g. */
rp_status lower_operand_types(const ir_graph *g, ir_ref r, lower_piece *p, ir_type **out,
                              rp_error *err) RP_MUST_USE;
/* What a launch of n does with its arguments, of which the first are the operands: reads them, but for those that n writes as well; writes all
 * behind them, but the last n_read, which it reads. */
void lower_node_access(const ir_node *n, lower_ref *args, uint32_t n_args, uint32_t n_read);
/* A launch of call, cond, while or scan but for its arguments. */
rp_status lower_control_launch(const ir_graph *g, ir_ref r, lower_piece *p, lower_launch *out,
                               rp_error *err) RP_MUST_USE;
/* Its first results that are carried, each of which wants a second place. */
uint32_t lower_carried(const ir_node *n);
/* Whether operand i is carried, so that it may be a result as it is, and has bools of which others may have written any byte. */
bool lower_carries_given(const ir_graph *g, const ir_node *n, uint32_t i);
/* What the built-in kernel of attention node n of g reads, with symbols of `dims`. */
rp_status lower_attention_record(const ir_graph *g, const ir_node *n, ir_dims *dims,
                                 gen_attention_record *r, rp_error *err) RP_MUST_USE;
/* What the kernel of a SCAN node of g reads, with symbols of `dims`. */
rp_status lower_axis_record(const ir_graph *g, const ir_node *n, ir_dims *dims, gen_axis_record *r,
                            rp_error *err) RP_MUST_USE;
/* Bytes of memory that such a kernel works in, for operand x; 0 and no argument but of sort. IR_DIM_BAD as lower_bytes. */
ir_dim lower_axis_work(ir_dims *t, const ir_node *n, const ir_node *x);
/* A launch of such a kernel but for its arguments: the operand, the results, the work, the record. */
void lower_axis_launch(const ir_graph *g, const ir_node *n, ir_dims *dims, const gen_axis_record *r,
                       lower_launch *out);
/* The same of a SCATTER node; the arguments are its operands, the result, the record. */
rp_status lower_scatter_record(const ir_graph *g, const ir_node *n, ir_dims *dims,
                               gen_scatter_record *r, rp_error *err) RP_MUST_USE;
void lower_scatter_launch(const ir_graph *g, const ir_node *n, ir_dims *dims, lower_launch *out);

#endif
