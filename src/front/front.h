/* A function that compiles itself, its entries and their guards, shared by the files of this room. */
#ifndef FRONT_FRONT_H
#define FRONT_FRONT_H

#include <pthread.h>
#include <stdatomic.h>

#include "autograph/manager.h"
#include "base/view.h"
#include "config/config.h"
#include "front/args.h"
#include "front/solver.h"
#include "reprise/view.h"

/* --- guards ----------------------------------------------------------------------------------- */

typedef struct front_range {
    uint32_t word;
    int64_t min, max, divisor;
} front_range;

/* Flat predicates over the words of a call: one compare, under a mask where sizes are symbols, then ranges, pairs of equal words, and
 * facts about several sizes. */
typedef struct front_guards {
    uint64_t hash;         /* of want */
    uint64_t *want, *mask; /* n each: of the call that was traced; 0 where a size is a symbol */
    uint32_t n;
    uint32_t n_ranges, n_pairs, n_open;
    bool exact;    /* the mask has all bits */
    bool has_rest; /* some symbol has no word */
    front_range *range;
    uint32_t (*pair)[2];
    uint32_t *fact; /* of the solver: those that no symbol has */
    int64_t *value; /* room for the symbols of a call; one thread at a time */
    front_solver sizes;
} front_guards;

/* Of a solver whose trace is done, which is taken over, also on failure. */
rp_status front_guards_make(front_guards *g, const front_args *a, front_solver *s,
                            rp_error *err) RP_MUST_USE;
void front_guards_done(front_guards *g);
/* One thread at a time. */
bool front_guards_hold(front_guards *g, const front_args *a);
/* Appends the first one that fails in torch's words, "tensor 'L['x']' size mismatch at index 0. expected 8, actual 16", and says
 * which word of the call it is about, UINT32_MAX for several. Nothing when all hold. */
uint32_t front_guards_why(front_guards *g, const front_args *a, base_buf *out);
void front_guards_print(const front_guards *g, base_buf *out);
/* The same as torch's TREE_GUARD_MANAGER: a value's guards below that of what it is an item of. */
void front_guards_tree(const front_guards *g, base_buf *out);

/* --- entries ---------------------------------------------------------------------------------- */

/* Device graphs of a function's calls. */
typedef struct front_capture {
    rp_cudagraph_mode mode; /* NONE: calls are not captured */
    bool named;             /* `mode` of the options asks for it */
    bool borrows;          /* results lie in memory of the graphs, which the next call overwrites */
    bool copies;           /* cudagraph_copy_inputs, which is not in the configuration any more */
    bool in_place;         /* arguments stay where they were when it was captured */
    bool required;         /* a call that is not captured is an error */
    rp_autograph *manager; /* NULL: none */
    autograph_lease *lease; /* with a manager; its generation counts calls that borrow */
} front_capture;

/* A compiled graph, and why it is not what the function's configuration asks for. */
typedef struct front_graphs front_graphs;
typedef struct front_chain front_chain;
typedef struct front_code {
    rp_compiled *compiled; /* NULL: nothing to do, where there is no chain */
    front_graphs *graphs;  /* its calls are captured; NULL: they are not */
    front_chain *chain;    /* the same in pieces; NULL: none */
    char *reason;          /* NULL: it is */
    bool eager;            /* it runs op by op, for that reason */
    bool writes; /* arguments that are no states: a graph is for calls where they lie still */
} front_code;

/* --- dense.c --- */
/* Memory of the device for dense copies of arguments, which graphs read and write where it lies. Zeroed: none yet. One call at a time. */
typedef struct front_dense_place front_dense_place;
typedef struct front_dense {
    rp_device *device; /* a reference; NULL: there are no places */
    front_dense_place *places;
} front_dense;
/* Where `bytes` of this tensor lie, of unknown content: always there, until front_dense_done. RP_NOMEM. */
rp_status front_dense_take(front_dense *d, rp_device *device, uint32_t tensor, size_t bytes,
                           void **out, rp_error *err) RP_MUST_USE;
/* Whether a place begins at `at`; d NULL: no. */
bool front_dense_has(const front_dense *d, const void *at);
void front_dense_done(front_dense *d);

/* A compiled graph and the value that its outputs make. */
typedef struct front_result {
    front_code code; /* without outputs there may be nothing to do */
    rp_value value;  /* tensors: the number of the output in as.integer, counted from 1 */
    uint32_t n_outputs;
} front_result;

/* What one trace gave. Shared by the list and by calls that run it. */
typedef struct front_recording front_recording;
typedef struct front_entry {
    _Atomic int64_t refs; /* this and what follows is all that a look-up reads */
    int64_t found;        /* times since it is on the list, by the function's lock */
    uint32_t number;
    uint64_t used; /* rp_jit.uses when it last came behind another one, by the function's lock */
    front_guards guards;
    struct front_entry *before, *behind; /* on the list, by the function's lock */
    bool general;                        /* made past the limit, and: */
    bool counted;                        /* of those that the limit allows then */
    bool dropped;                        /* off the list, by the function's lock */
    front_result result;
    void *block; /* behind result.value */
    const front_symbol **
        told; /* n_told: those of the guards that inputs behind the tensors tell; none with a recording */
    uint32_t n_told;
    bool *written;     /* by tensor of the arguments; NULL with a recording, whose steps tell */
    front_dense dense; /* of calls that are captured, one at a time: */
    pthread_mutex_t copying; /* held by one that has copies there, until they are copied back */
    front_recording *
        recording; /* of a function with graph breaks, which runs at each call; NULL: result is all */
} front_entry;

void front_entry_unref(front_entry *e);

/* --- sizes as users and history want them ------------------------------------------------------ */

typedef enum front_mark_kind {
    FRONT_MARK_STATIC,
    FRONT_MARK_DYNAMIC,
    FRONT_MARK_UNBACKED
} front_mark_kind;

typedef struct front_mark {
    struct front_mark *next;
    front_mark_kind kind;
    uint32_t axis;
    int64_t min, max;
    bool yields;     /* sizes of compile_sizes are numbers all the same */
    bool looked_for; /* a traced call had its axis, or was told that it has none; by turn */
    char tensor[];
} front_mark;

/* The sizes that a tensor had when it was last traced, and which of them have differed. */
typedef struct front_sizes_seen {
    uint32_t rank; /* of an integer 1, dim[0] is what it was */
    bool integer;
    bool stored; /* by an earlier process: sizes are not known */
    bool taken;  /* of an integer: as a size, by the function */
    int64_t dim[RP_MAX_RANK];
    bool wobbled[RP_MAX_RANK];
} front_sizes_seen;

typedef struct front_seen {
    struct front_seen *next;
    front_sizes_seen now, before; /* the last call */
    bool is_new;                  /* there was nothing before it */
    char source[];
} front_seen;

/* Which entry served which words, by their hash: a guess, at one of some places next to each other. */
enum { FRONT_MEMO = 512, FRONT_MEMO_NEAR = 4, FRONT_BREAKS_TOLD = 64 };
typedef struct front_memo {
    uint64_t hash;
    front_entry *entry;   /* NULL: none */
    const uint64_t *want; /* of its guards */
} front_memo;

/* --- report.c --- */
typedef struct front_note front_note;
typedef struct front_notes {
    front_note *first, *last;
    uint32_t n;
    uint64_t left_out;
} front_notes;
void front_notes_clear(front_notes *all);

struct rp_jit {
    uint32_t id; /* of the process, from 0, in texts */
    char *name, *file;
    int line;
    rp_jit_fn fn;
    void *user;
    rp_dynamic dynamic;
    config_shapes shapes; /* dynamic_shapes_config.type */
    int64_t *own_size;    /* n_own_sizes: compile_sizes */
    uint32_t n_own_sizes;
    uint32_t limit, all_limit;
    bool eager;          /* level 0, or: */
    bool disabled;       /* enable_if said no */
    rp_support *support; /* its own, names as front_describe has them; NULL: none */
    bool fullgraph, suppress_errors;
    bool (*uniform)(void *user, const rp_value *args);
    rp_compilation_config *config, *eager_config;
    rp_compilation_config *tuned; /* of entries for compile_sizes; NULL: config */
    rp_device *device;
    rp_device *host; /* for ops that the device has no form of; NULL: none so far. By lock */
    front_capture capture;
    rp_stream *stream;      /* for copies, where its memory is not the host's; else NULL */
    pthread_mutex_t copies; /* a copy by stream is under way */
    pthread_mutex_t
        turn; /* held while it traces; tells its thread that it holds it. Taken before lock */
    front_mark *marks;     /* read by turn or lock, written by both */
    front_seen *seen;      /* by turn */
    bool warned, told_ops; /* likewise */
    bool loaded, differed; /* likewise: history was read from the cache; it is to be stored there */
    bool had_differed;     /* before the last call */
    uint32_t next_number;  /* likewise */
    pthread_mutex_t lock;  /* what follows */
    front_entry *entries;  /* a list, in any order */
    front_entry *last;     /* of them, the one that was used last; NULL: there are none */
    uint64_t uses;         /* so far, by another entry than the one before */
    uint32_t n_entries, n_general, n_counted;
    uint32_t memo_next; /* which goes where there is no place */
    front_memo memo[FRONT_MEMO];
    uint64_t calls, hits, compiles, ran_eager;
    uint64_t graphs, breaks;
    uint64_t pieces, by_backend;         /* of the graphs */
    front_notes notes;                   /* for its report */
    struct rp_jit *next_live, **at_live; /* of those that are told at the end (report.c) */
    bool told;                           /* at the end, with so many calls */
    uint64_t told_calls;
    uint32_t ways;    /* kept behind breaks since a reset, beside the first of each */
    bool ways_warned; /* that some are not kept */
    uint64_t break_told[FRONT_BREAKS_TOLD]; /* hashes of what the log has said, the oldest goes */
    uint32_t n_breaks_told;
    uint64_t suppressed; /* hash of why the log was last told that something is not compiled */
    atomic_uint views_told
        [2]; /* of outputs, of arguments: bits of those of which the log has said that they are copied */
};

/* --- tracing ------------------------------------------------------------------------------------ */

/* How sizes are traced that nobody marked. */
typedef enum front_sizes {
    FRONT_STATIC,
    FRONT_BY_HISTORY,
    FRONT_ALL,
    FRONT_ALL_OR_ONCE /* what serves one size alone is not worth an entry */
} front_sizes;

/* Where results go, and what is said of how they came to be. */
typedef struct front_out {
    rp_output **output; /* NULL: into buffer */
    rp_ran ran;
    const char *reason; /* NULL: none */
    const rp_buffer *buffer;
    uint32_t n;
    rp_cudagraph_mode mode; /* of the call */
    rp_view_copies *copies; /* (optional) what is copied is added */
    bool no_copies;         /* of views */
} front_out;

/* What a compiled graph is called with. */
typedef struct front_io {
    const rp_buffer *in;
    rp_buffer *out;
    uint32_t n_in, n_out;
    rp_cudagraph_mode mode;         /* of the call */
    const front_args *args;         /* of the call; NULL: nothing is known of where inputs lie */
    const front_dense *own;         /* of inputs that are copies; NULL: none are */
    const autograph_around *around; /* (optional) of a call that is captured */
} front_io;

/* A trace: graph, result and what it relied on. A function with graph breaks has run when it is traced: its results have been given to `to`. */
typedef struct front_traced {
    const front_out *to;
    bool began; /* it came to a break: it must not run again */
    bool given;
    front_recording *recording; /* of such a function; graph is its */
    const front_code *fell;     /* of its steps, one that is not what was asked for */
    rp_graph *graph;
    front_solver sizes;
    rp_value result;
    void *block;
    uint32_t n_outputs;
} front_traced;

/* The failure st of f with what it said, if anything. */
rp_status front_failed(const rp_jit *f, rp_status st, const rp_error *why, rp_error *err);
/* Runs the function until nothing is learnt any more. By turn, unless sizes are FRONT_STATIC with marks ignored (`eager`). */
rp_status front_trace(rp_jit *f, const front_args *a, front_sizes sizes, bool eager,
                      front_traced *out, rp_error *err) RP_MUST_USE;
void front_traced_done(front_traced *t);
/* What came of it, also of a failure. */
typedef struct front_made {
    front_entry *entry; /* NULL: none */
    bool began, given;  /* as in front_traced */
    bool compiled;      /* a run of an entry that was there made steps */
    bool past_limit;    /* it went a way that is not kept */
    bool once;          /* the entry is for this call, op by op, and for no list */
    const front_code
        *fell; /* of its steps, one that is not what was asked for; as long as the entry */
} front_made;
/* Traces and compiles; not in the list yet. By turn. last: what the compiler does not take is not asked for in another way. */
rp_status front_entry_make(rp_jit *f, const front_args *a, front_sizes sizes, bool last,
                           const front_out *to, front_made *out, rp_error *err) RP_MUST_USE;
/* The same for one call, op by op: no guards, in no list. */
rp_status front_entry_eager(rp_jit *f, const front_args *a, const front_out *to, front_made *out,
                            rp_error *err) RP_MUST_USE;
/* --- code.c --- */
/* Op by op; what the device has no form of is computed by the host. */
rp_status front_code_eager(rp_jit *f, const rp_graph *g, front_code *out,
                           rp_error *err) RP_MUST_USE;
/* For the host, op by op. */
rp_status front_compile_host(rp_jit *f, const rp_graph *g, rp_compiled **out,
                             rp_error *err) RP_MUST_USE;
/* What a graph is compiled for. */
typedef struct front_made_of {
    uint32_t number;      /* of the entry */
    uint32_t piece, link; /* of its steps, and of a chain, from 1; 0: it is whole */
    bool last;            /* the last attempt */
    bool uncaptured;      /* its calls are */
    bool own_size;        /* for a size of compile_sizes */
    bool writes;          /* arguments that are no states; */
    bool moving; /* and some are not copied, so that their memory is another from call to call */
} front_made_of;
/* The same by f's configuration. What cannot be compiled runs op by op where f suppresses errors; but for RP_UNSUPPORTED
 * where this is not the last attempt. */
rp_status front_code_make(rp_jit *f, const rp_graph *g, const front_made_of *of, front_code *out,
                          rp_error *err) RP_MUST_USE;
/* One graph by a configuration, as it is. */
rp_status front_code_link(rp_jit *f, const rp_graph *g, const rp_compilation_config *config,
                          const front_made_of *of, front_code *out, rp_error *err) RP_MUST_USE;
static inline bool front_code_is_there(const front_code *c) {
    return c->compiled || c->chain;
}
/* A run of it is a call of its compiled graph, whatever the mode of the call. */
static inline bool front_code_is_plain(const front_code *c) {
    return c->compiled && !c->chain && !c->graphs;
}
/* As rp_compiled_outputs. */
rp_status front_code_outputs(const front_code *c, const rp_buffer *in, uint32_t n_in,
                             rp_buffer *out, uint32_t n_out, rp_error *err) RP_MUST_USE;
void front_code_done(front_code *c);
rp_status front_code_run(rp_jit *f, const front_code *c, const front_io *io,
                         rp_error *err) RP_MUST_USE;
/* Whether that is one call of its graphs; of a chain it is not. */
bool front_code_replays(const front_code *c, const front_io *io);
/* What is said of a run of c. */
void front_code_tell(const front_code *c, front_out *to);
/* --- chain.c --- */
/* Where a graph is cut, and by what its pieces are compiled. */
typedef struct front_cut {
    const char *const *ops; /* n_ops: names of splitting ops, which are not captured */
    uint32_t n_ops;
    const rp_compilation_config *config, *splitting; /* of pieces, and of splitting ones */
    bool elsewhere; /* those that splitting is not enough for are computed by the host */
    rp_numerics numerics;
    front_made_of of;
    bool in_place; /* as in front_capture */
} front_cut;
/* RP_UNSUPPORTED for a graph that cannot be cut so. */
rp_status front_chain_new(rp_jit *f, const rp_graph *g, const front_cut *cut, front_chain **out,
                          rp_error *err) RP_MUST_USE;
void front_chain_free(front_chain *c);
/* Why its first piece that is not what its configuration asks for is not; NULL: each is. */
const char *front_chain_reason(const front_chain *c);
rp_status front_chain_outputs(const front_chain *c, const rp_buffer *in, rp_buffer *out,
                              rp_error *err) RP_MUST_USE;
rp_status front_chain_run(rp_jit *f, const front_chain *c, const front_io *io,
                          rp_error *err) RP_MUST_USE;
/* --- places.c --- */
/* n inputs that stay where they were in the first call of each form that went well, but for those that are copies in memory of `own` (may be NULL).
 * Of the 1024 forms used last. Thread-safe; NULL is fine. */
typedef struct front_places front_places;
rp_status front_places_new(uint32_t n, front_places **out, rp_error *err) RP_MUST_USE;
void front_places_free(front_places *p);
/* Before a call: RP_INVALID names one that has moved. */
rp_status front_places_check(front_places *p, const char *name, const rp_buffer *in,
                             const front_dense *own, rp_error *err) RP_MUST_USE;
/* After it: they are to stay there. */
rp_status front_places_keep(front_places *p, const rp_buffer *in, const front_dense *own,
                            rp_error *err) RP_MUST_USE;
/* --- graphs.c --- */
/* Calls of c, which g was compiled to, captured by f's manager as `name`. in_place: its inputs stay where they are. */
rp_status front_graphs_new(rp_jit *f, rp_compiled *c, const rp_graph *g, const char *name,
                           bool in_place, front_graphs **out, rp_error *err) RP_MUST_USE;
void front_graphs_free(front_graphs *r);
/* Whether what r writes lies where it did when calls were captured: in states, and in copies of their own. */
bool front_graphs_still(const front_graphs *r, const front_io *io);
/* It does not: the call is not captured, which the log tells once. RP_UNSUPPORTED where it must be. */
rp_status front_graphs_skip(const rp_jit *f, front_graphs *r, rp_error *err) RP_MUST_USE;
/* As rp_compiled_run, with as many buffers as g has. */
rp_status front_graphs_run(rp_jit *f, front_graphs *r, const front_io *io,
                           rp_error *err) RP_MUST_USE;
/* The same, and the value of r over memory of the graph, until f's next call. */
rp_status front_graphs_lend(rp_jit *f, const front_result *r, const front_io *io,
                            const front_out *to, rp_error *err) RP_MUST_USE;
/* --- jit.c --- */
/* What config comes to; the caller's. */
rp_status front_resolve(const rp_compilation_config *config, rp_compilation_config **out,
                        rp_error *err) RP_MUST_USE;
/* --- support.c --- */
/* What a model says of itself; NULL is fine. front_support_done also after a failure. */
rp_status front_support_take(rp_jit *f, const rp_support *given, rp_error *err) RP_MUST_USE;
void front_support_done(rp_jit *f);
/* Asks enable_if. */
void front_support_ask(rp_jit *f, const rp_compilation_config *resolved);
const front_mark *front_support_mark(const rp_jit *f, const char *source, uint32_t axis,
                                     uint32_t rank);
/* RP_INVALID for a name, or an axis, that the arguments have not. */
rp_status front_support_check(const rp_jit *f, const front_args *a, rp_error *err) RP_MUST_USE;
/* --- shapes.c --- */
/* What f's configuration says of sizes; before it is resolved. */
rp_status front_shapes_take(rp_jit *f, rp_error *err) RP_MUST_USE;
/* Where there are compile_sizes: how their entries are compiled, by measurement, but for what the configuration turns off. */
rp_status front_shapes_tune(rp_jit *f, const rp_compilation_config *resolved,
                            rp_error *err) RP_MUST_USE;
/* Whether what a call makes is for a size of compile_sizes: one that has differed between calls, or any of a function's first call. */
rp_status front_has_own_size(rp_jit *f, const front_args *a, bool *out, rp_error *err) RP_MUST_USE;
/* Whether this size is always a number, by compile_sizes. */
bool front_has_own_code(const rp_jit *f, int64_t size);
/* In a pass whose symbols were made. */
void front_leave_sizes(const rp_jit *f, front_solver *s);
/* --- mode.c --- */
/* What `mode` of the options (NULL: default) makes of f's configuration. */
rp_status front_mode_take(rp_jit *f, const char *mode, rp_error *err) RP_MUST_USE;
/* How calls are captured, by the configuration as it was resolved. host: the device's memory is the host's. */
rp_status front_mode_graphs(rp_jit *f, const rp_compilation_config *resolved, bool host,
                            rp_error *err) RP_MUST_USE;
/* NONE, PIECEWISE or FULL. */
rp_cudagraph_mode front_mode_of_call(const rp_jit *f, const rp_value *args);

/* Something of f cannot be compiled, and runs op by op. A cause is a warning once. */
void front_warn_suppressed(rp_jit *f, const char *why);

/* --- entries.c --- */
/* e is the one that was used last, and the list has a reference of its own. */
void front_entry_add(rp_jit *f, front_entry *e);
/* Takes it off the list. */
void front_entry_drop(rp_jit *f, front_entry *e);
/* Whether a call like a has an entry past the limit, which what is asked of sizes keeps it from. By lock. */
bool front_has_general(const rp_jit *f, const front_args *a);
/* Puts the list in order, the most recently used first. By lock. */
void front_entries_order(rp_jit *f);
/* Takes all off. By lock, or by nobody else. */
void front_entries_clear(rp_jit *f);
/* A reference of an entry whose guards hold, or NULL: the one of the last call, one that served such words before, or else the one that was used
 * last. Thread-safe. */
front_entry *front_entry_find(rp_jit *f, const front_args *a);
/* Whether e, found before, is still for these arguments: another thread's run may have learnt more, or dropped it. Thread-safe. */
bool front_entry_serves(rp_jit *f, front_entry *e, const front_args *a);

rp_status front_entry_run(rp_jit *f, front_entry *e, const front_args *a, front_out *out,
                          rp_error *err) RP_MUST_USE;
/* --- call.c --- */
rp_status front_call(rp_jit *f, const rp_value *args, front_out *out, rp_error *err) RP_MUST_USE;
/* An entry with a recording, whose lock is held: the function runs. *compiled: it took another way than before, which is compiled now. */
rp_status front_entry_replay(rp_jit *f, front_entry *e, const front_args *a, const front_out *out,
                             front_made *made, rp_error *err) RP_MUST_USE;
/* --- into.c --- */
/* Buffers of the caller, for a call whose arguments were read: RP_INVALID names one that lies over another, or over an argument that is
 * not a view. Views are copied before; those that are written are asked about by front_into_written, in front of that. */
rp_status front_into_check(const rp_jit *f, const front_args *a, const front_out *to,
                           rp_error *err) RP_MUST_USE;
rp_status front_into_written(const rp_jit *f, const front_args *a, uint32_t i, const front_out *to,
                             rp_error *err) RP_MUST_USE;
/* --- copy.c --- */
/* Whether v is copied for where its elements lie. */
bool front_is_view(const rp_value *v);
/* Tensor i is copied to dense memory: of a view that is told and counted, or refused, as `to` says. */
rp_status front_note_argument(rp_jit *f, const front_out *to, const front_args *a, uint32_t i,
                              rp_error *err) RP_MUST_USE;
/* v is copied back; of a view that is counted. */
void front_note_back(const front_out *to, const rp_value *v);
/* Between v and dense memory of the device (in: to that), where the contents are when it returns. */
rp_status front_copy_value(rp_jit *f, const rp_value *v, void *dense, bool in,
                           rp_error *err) RP_MUST_USE;
/* The same in turn with what is on queue, which this thread has. */
rp_status front_copy_value_on(hal_device *queue, const rp_value *v, void *dense, bool in,
                              rp_error *err) RP_MUST_USE;
/* Between dense memory of f's device, or of the host where the view is, and a view; in: to the dense one. */
rp_status front_copy_view(rp_jit *f, const base_view *v, void *dense, bool in,
                          rp_error *err) RP_MUST_USE;
/* A view that is copied: the number-th of the arguments or of the outputs. */
typedef struct front_copied {
    const char *what;
    rp_dtype dtype;
    bool in; /* an argument */
    uint32_t number;
} front_copied;
void front_tell_copy(rp_jit *f, const front_copied *c, const base_view *v);
rp_status front_refuse_copy(const rp_jit *f, const front_copied *c, const base_view *v,
                            rp_error *err);
/* Either is the device's or the host's. */
rp_status front_copy(rp_jit *f, void *to, const void *from, size_t bytes,
                     rp_error *err) RP_MUST_USE;
/* Whether a call for `to` is captured as far as it can be, so that copies of its arguments are to stay where they are. */
bool front_captures(const rp_jit *f, const front_out *to);
/* Runs r's graph on dense inputs, those of `from`, and gives its value. */
rp_status front_give(rp_jit *f, const front_result *r, const front_io *from, const front_out *to,
                     rp_error *err) RP_MUST_USE;
/* Whether tensor i is not given as it lies. written: by tensor, beside states; may be NULL. */
rp_status front_copies(const front_args *a, const bool *written, uint32_t i, bool *out,
                       rp_error *err) RP_MUST_USE;
/* Whether tensors share an element; of views as exactly as base_views_meeting is. */
base_meeting front_meeting(const rp_value *a, const rp_value *b);
/* Tensors i and k are both written, and meet. */
rp_status front_refuse_shared(const front_args *a, uint32_t i, uint32_t k, rp_error *err);
/* Whether v, tensor i, can be written. */
rp_status front_check_written(const rp_value *v, uint32_t i, rp_error *err) RP_MUST_USE;
/* Places in one block, for placed (may be NULL); of no block (NULL) they are offsets. The total. */
rp_status front_lay_out(const rp_buffer *out, uint32_t n, char *block, rp_buffer *placed,
                        size_t *total, rp_error *err) RP_MUST_USE;
/* A graph of entry `number` was compiled since `start`, ns. */
void front_log_compiled(rp_jit *f, uint32_t number, const rp_compiled_info *info, int64_t start);

/* The mark of this axis of a tensor of that rank, the user's or the model's; NULL: none. source: what the tensor is called. */
const front_mark *front_mark_of(rp_jit *f, const char *source, uint32_t axis, uint32_t rank);
/* The same by turn or lock. */
const front_mark *front_mark_locked(const rp_jit *f, const char *source, uint32_t axis,
                                    uint32_t rank);
bool front_wobbled(const rp_jit *f, const char *source, uint32_t axis);
/* Takes the sizes of a call into the history. */
rp_status front_see(rp_jit *f, const front_args *a, rp_error *err) RP_MUST_USE;
/* That call failed: the history is what it was. */
void front_unsee(rp_jit *f);
/* The user's mark of an integer argument, as of axis 0; NULL: none. */
const front_mark *front_mark_of_int(rp_jit *f, const char *source);
/* The function took this integer as a size. By turn. */
void front_see_taken(rp_jit *f, const char *source);
/* What an earlier process saw: bit d of axes for an axis that differed. Before any call is taken in. */
rp_status front_see_stored(rp_jit *f, const char *source, uint32_t rank, unsigned axes,
                           rp_error *err) RP_MUST_USE;
/* The same of an integer. */
rp_status front_see_stored_int(rp_jit *f, const char *source, rp_error *err) RP_MUST_USE;
void front_forget(rp_jit *f);

#endif
