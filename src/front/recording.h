/* Functions with graph breaks: where the host wants values before the function has returned.
 *
 * All runs of such a function that one entry serves record into one graph: a call that records what an earlier one has recorded gives the same
 * nodes. A run is cut into segments by its breaks; what each break wants of the segment in front of it is a step, and the
 * steps of all runs are a tree, since runs go other ways from a break on when values differ. A step that is new is evaluated op by op, on
 * the sizes of the call; when the function has returned, the new steps are compiled, each giving what later ones of that
 * run read of it. Host code of the function runs once a call, at its place. */
#ifndef FRONT_RECORDING_H
#define FRONT_RECORDING_H

#include "device/repeat.h"
#include "front/front.h"
#include "trace/trace.h"

/* What one break, or the end of the function, wanted of the segment before it. */
typedef struct front_step {
    struct front_step *next,
        *child; /* other ways from the break before; ways on. The last one taken is the first */
    bool last;  /* wanted by the result */
    ir_ref *wanted, *effect; /* n_wanted; the writes of the segment, n_effects */
    uint32_t n_wanted, n_effects;
    bool ready; /* compiled, or there is nothing to compute */
    uint64_t
        changes;    /* of the path, and how far it was, when a run was last found to have what it */
    uint32_t asked; /* needs of what the effects overwrite */
    front_code code;
    ir_ref *in, *out; /* of its graph */
    uint32_t n_in, n_out;
    rp_buffer *form; /* n_in, n_out: what the last run read, and its outputs, */
    size_t *offset;  /* where each of these lies in a block of total bytes, */
    size_t total;
    uint64_t laid_out;     /* for these sizes, as front_recording.sizes_id, and held; 0: none */
    device_repeat *repeat; /* of the code; NULL: it is called in another way */
    uint64_t bound; /* for these sizes, where nothing is to be told or done beside; 0: none */
} front_step;

/* The value of a node in the present run. */
typedef struct front_held {
    uint64_t run;
    bool stale; /* a version whose memory has been written since */
    rp_buffer b;
    void *
        memory; /* that it had first: of an argument, where its versions lie, also when b is a copy */
} front_held;

/* Memory of the run under way. */
typedef struct front_room {
    rp_device *device; /* of data; NULL: none so far */
    void *data;        /* kept from run to run, size bytes; NULL: none */
    size_t size, used;
    size_t wanted; /* by the run, were there room */
    void **owned;  /* blocks of the run alone, n_owned */
    uint32_t n_owned, cap_owned;
} front_room;

struct front_recording {
    rp_graph *g;
    front_solver sizes;
    uint64_t
        sizes_id; /* another one for each run whose sizes are others than those of the run before */
    uint32_t *table_i; /* of each symbol, in g's table */
    ir_dim *dim;
    ir_ref *input; /* of the tensors of the arguments */
    uint32_t n_inputs;
    front_step root;
    trace_asked asked;
    front_held *held;
    uint32_t cap_held;
    front_room room;
    front_dense dense; /* of runs that are captured */
    front_step **path; /* room of a session, as what follows */
    uint32_t cap_path;
    bool *written;
    rp_tensor *tensor;
    uint32_t cap_tensors;
    rp_value
        args; /* as the function is given them: equal for all calls of the entry, but for integers that are symbols */
    bool has_ints; /* there are some */
    void *args_block;
    uint32_t settled;     /* nodes when steps were last compiled */
    uint32_t n_pieces;    /* compiled so far */
    pthread_mutex_t lock; /* held by a run */
};

/* A value in memory of the host, where that of the device is another. */
typedef struct front_read {
    struct front_read *next;
    _Alignas(64) char data[];
} front_read;

/* Where a break is, and why. */
typedef struct front_break {
    const char *reason, *file;
    int line;
} front_break;

enum { FRONT_KEPT_ON_THE_WAY = 256 << 20 }; /* bytes of a call */

/* A run: what has values, and how far it is. */
typedef struct front_session {
    rp_jit *f;
    const front_args *a;
    front_recording *rec;
    front_solver *sizes; /* of the trace that began it, or rec's */
    uint64_t first;      /* asked.now of its first segment */
    front_step *at;      /* NULL: beyond what is kept */
    front_step **path;   /* n_path, in room of the recording */
    uint32_t n_path;
    device_thread *thread;     /* that runs it */
    const ir_effects *effects; /* of the run */
    uint32_t n_effects;        /* of them, those that are done */
    bool *written;             /* by tensor of the arguments: one that is no state was; likewise */
    front_read *read;
    const front_out *to;
    const rp_value *result; /* that the last step gives; borrowed */
    uint32_t number;        /* of the entry */
    bool keep;              /* new steps are for later runs, too */
    bool grown;             /* there are some that are not compiled */
    front_break last_break; /* where the segment begins; file NULL: with the function */
    bool past_limit;        /* what is behind it is not kept */
    const front_code *fell; /* of a step, one that is not what was asked for; NULL: none */
    int64_t kept_bytes;     /* of what steps computed on their way, FRONT_KEPT_ON_THE_WAY at most */
} front_session;

struct rp_jit_call {
    rp_jit *f;
    const front_args *a;
    rp_graph *g;
    rp_tensor *tensor; /* of the values that the function holds, by number from 1 */
    uint32_t n, cap;
    front_solver *sizes;
    front_session *session; /* NULL: nothing was wanted so far */
    const front_out *to;
    bool *dims;   /* by word of a: integers that it took as sizes are noted; NULL: nobody asks */
    bool eager;   /* nothing is kept */
    bool probing; /* what integers are for it, so that it may not break */
    bool broken;  /* at a break that is not allowed */
    front_session room;
};

/* --- recording.c --- */
/* From a trace that has come to its first break: the recording takes the graph over when the run is done. */
rp_status front_recording_new(rp_jit_call *call, front_recording **out, rp_error *err) RP_MUST_USE;
void front_recording_free(front_recording *rec);
/* A run of a begun recording, whose lock is held: its symbols have the sizes of a. */
rp_status front_session_begin(front_session *s, rp_error *err) RP_MUST_USE;
void front_session_done(front_session *s);
/* When the last run that recorded r did so first, as asked.now counts; 0: none. */
uint64_t front_asked_at(const front_recording *rec, ir_ref r);
bool front_holds(const front_session *s, ir_ref r);
static inline const rp_buffer *front_held_of(const front_session *s, ir_ref r) {
    return &s->rec->held[r].b;
}
rp_status front_hold(front_session *s, ir_ref r, const rp_buffer *b, rp_error *err) RP_MUST_USE;
/* The same of a node that was held before in a run of these sizes, and so has its form; run: the first segment of this one. */
static inline void front_hold_again(front_held *h, uint64_t run, void *data) {
    if (h->run != run) h->memory = data;
    h->run = run;
    h->stale = false;
    h->b.data = data;
}

/* --- room.c --- */
/* A block of its own. */
rp_status front_own_block(const front_session *s, size_t bytes, void **out,
                          rp_error *err) RP_MUST_USE;
/* Bytes: of the block, which is what runs take of small values, not what they need at most. */
enum { FRONT_OWN_ALIGN = 64, FRONT_MOST_KEPT = 1 << 20 };
/* Memory of the device until the run is over, of unknown content. */
RP_MUST_USE static inline rp_status front_own(const front_session *s, size_t bytes, void **out,
                                              rp_error *err) {
    front_room *m = &s->rec->room;
    if (bytes <= FRONT_MOST_KEPT) {
        size_t size = (bytes + !bytes + FRONT_OWN_ALIGN - 1) / FRONT_OWN_ALIGN * FRONT_OWN_ALIGN;
        m->wanted += size;
        if (size <= m->size - m->used) {
            *out = (char *)m->data + m->used;
            m->used += size;
            return RP_OK;
        }
    }
    return front_own_block(s, bytes, out, err);
}
/* A run on d is over. again: others like it may follow. */
void front_room_clear(front_room *m, rp_device *d, bool again);
void front_room_done(front_room *m);

/* --- piece.c --- */
/* Marks of nodes, by ref. */
enum { FRONT_GIVEN = 1, FRONT_OUT = 2, FRONT_DO = 4, FRONT_NEED = 8 };
typedef struct front_piece {
    rp_graph *graph;  /* NULL: nothing to compute */
    ir_ref *in, *out; /* of the recording's graph */
    uint32_t n_in, n_out;
} front_piece;
/* What symbol i of the recording's table is in t, by[i]. */
typedef rp_status (*front_symbols_fn)(void *user, ir_dims *t, ir_dim *by, rp_error *err);
/* Marks as NEED what the nodes that are OUT and DO are made of, back to what is GIVEN, which of a node with several results all are or none.
 * fn gets each node that is needed, the last first, before what it is made of is marked. */
typedef void (*front_needed_fn)(void *user, ir_ref r);
void front_mark_needed(const ir_graph *g, uint8_t *mark, front_needed_fn fn, void *user);
/* The graph that makes the nodes that are OUT and DO of those that are GIVEN. */
rp_status front_piece_make(const rp_graph *g, const uint8_t *mark, front_symbols_fn symbols,
                           void *user, front_piece *out, rp_error *err) RP_MUST_USE;
void front_piece_done(front_piece *p);

/* --- step.c --- */
/* Why a run beyond the ways that are kept has no graph. */
#define FRONT_PAST_LIMIT \
    "past the recompile limit: what follows a graph break differs from call to call"
/* At a break: computes what is wanted, and does the effects so far. */
rp_status front_force(front_session *s, const ir_ref *wanted, uint32_t n, const front_break *why,
                      rp_error *err) RP_MUST_USE;
/* At the end: into outputs, one for each, whose data is set by place. */
rp_status front_finish(front_session *s, const ir_ref *wanted, uint32_t n,
                       rp_error *err) RP_MUST_USE;
/* Compiles the new steps of a run that is over. */
rp_status front_settle(front_session *s, rp_error *err) RP_MUST_USE;
/* What a step is to give and to do. */
typedef struct front_wish {
    const ir_ref *wanted, *effect;
    uint32_t n_wanted, n_effects;
    bool last;
} front_wish;
/* Marks what must be kept because the effects overwrite what it was made of, OUT, or NEED where it is GIVEN; and nodes whose value is a version's, as the last in
 * memory that no argument is. */
void front_mark_effects(const front_session *s, const ir_ref *effect, uint32_t n, uint64_t until,
                        uint8_t *mark);
/* Marks what a break or the end wants: OUT where it has no value, is a result, or is overwritten by the step itself. */
void front_mark_wanted(const ir_graph *g, const front_wish *w, uint8_t *mark);

/* --- written.c --- */
/* Whether a copy is made of version r where it is overwritten and read later: it is of an argument, and of no state. */
bool front_copies_old(const front_session *s, ir_ref r);
/* Around a step that does these effects. */
rp_status front_before_effects(front_session *s, const ir_ref *effect, uint32_t n,
                               rp_error *err) RP_MUST_USE;
rp_status front_after_effects(front_session *s, rp_error *err) RP_MUST_USE;

/* --- break.c --- */
/* A break: what is wanted has values then. False: the call has failed. */
bool front_break_at(rp_jit_call *call, const ir_ref *wanted, uint32_t n, const front_break *why);
/* Counts and logs it. */
void front_break_tell(rp_jit *f, const front_break *why);
/* The function has returned: its result, in which tensors are numbered as in refs, and as the last step's outputs from then on. */
rp_status front_session_end(front_session *s, rp_value *result, const ir_ref *refs, uint32_t n,
                            rp_error *err) RP_MUST_USE;

/* --- trace.c --- */
/* The function has run on call: its result is copied, its tensors numbered; refs: [number of tensors of it + 1]. */
typedef struct front_returned {
    rp_value value;
    void *block;
    rp_tensor *tensor, few[8];
    uint32_t n;
} front_returned;
rp_status front_take_result(rp_jit_call *call, const rp_value *result, front_returned *out,
                            rp_error *err) RP_MUST_USE;
void front_returned_done(front_returned *r);
/* The last step of call's session. */
rp_status front_end_of(rp_jit_call *call, front_returned *r, rp_error *err) RP_MUST_USE;
/* The arguments as the function is given them; *block is the caller's. */
rp_status front_fake_args(const rp_jit *f, const front_args *a, rp_value *out, void **block,
                          rp_error *err) RP_MUST_USE;
bool front_add_tensor(rp_jit_call *call, rp_tensor x);
/* A name for the graph's text: L['x'][0] is x_0, L[0] is arg0; another one with a number from i on where it is taken. */
void front_input_name(const char *source, uint32_t i, const rp_graph *g, char out[64]);

/* --- ints.c --- */
/* The size of an integer is told by an input of this type, [0, size], without memory. Symbols of integers go up to FRONT_MOST_INT. */
#define FRONT_TOLD_TYPE RP_DTYPE_U8
#define FRONT_MOST_INT (INT64_C(1) << 40)
rp_buffer front_told(const front_symbol *y, const uint64_t *word);
/* Such inputs for sizes that are what others have beyond something, where they have none in this pass. */
rp_status front_tell_rests(const rp_jit_call *call, rp_error *err) RP_MUST_USE;
/* Adds the symbols that integers are to be, for which there is room. */
rp_status front_int_symbols(rp_jit *f, const front_args *a, front_sizes sizes, bool eager,
                            front_solver *s, rp_error *err) RP_MUST_USE;
/* Integers of what the function is given, a copy of the arguments: where they are, and what they are, but for symbol `poison`. */
enum { FRONT_NO_POISON = UINT32_MAX, FRONT_ALL_POISON = UINT32_MAX - 1 };
void front_fill_ints(rp_value *args, const front_args *a, const front_solver *s, uint32_t poison);
/* Whether the function might read it as a number as well. */
bool front_is_open_int(const front_symbol *y);
/* Whether two passes have given the same graph and result. */
rp_status front_same_traced(const front_traced *a, const front_traced *b, bool *out,
                            rp_error *err) RP_MUST_USE;
/* The function reads symbol i as a number, too. RP_INVALID where it is marked. */
rp_status front_int_is_number(const rp_jit *f, front_solver *s, uint32_t i,
                              rp_error *err) RP_MUST_USE;
/* What the function did not take as a size is a number. */
void front_ints_settle(const rp_jit *f, front_solver *s);

/* --- support.c --- */
/* Effect e of g writes tensor k of the arguments. RP_INVALID where it may not. */
rp_status front_support_write(const rp_jit *f, const front_args *a, uint32_t k, const ir_graph *g,
                              ir_ref e, rp_error *err) RP_MUST_USE;
/* All effects of a run that had no graph break. */
rp_status front_support_writes(const rp_jit_call *call, rp_error *err) RP_MUST_USE;

#endif
