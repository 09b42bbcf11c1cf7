/* The manager, its functions and their calls, shared by the files of this room. */
#ifndef AUTOGRAPH_MANAGER_H
#define AUTOGRAPH_MANAGER_H

#include <pthread.h>

#include "autograph/before.h"
#include "autograph/graphs.h"
#include "autograph/pack.h"
#include "autograph/rows.h"
#include "autograph/stand.h"
#include "base/str.h"

enum { AUTOGRAPH_SEEN = 64 };

/* Functions of one name, and whether their forms come again, of whichever signatures. Guarded by the manager's lock. */
typedef struct autograph_family {
    struct autograph_family *next;
    uint32_t n_functions;
    uint32_t unreplayed;           /* captures since a graph was replayed for the first time */
    uint64_t seen[AUTOGRAPH_SEEN]; /* hashes of calls that were not captured */
    uint32_t n_seen;
    char name[];
} autograph_family;

struct rp_function {
    rp_autograph *a;
    rp_function *next;
    autograph_family *family;
    rp_function_options o; /* name is the family's */
    bool trusted;          /* it is the library's, whose calls all go by the stream */
    char *refused;         /* why none of its calls is captured any more, or NULL */
    uint32_t disturbed;    /* captures in a row that were given up for what other threads ran */
};

enum { AUTOGRAPH_LATE = 256 };

/* Forms for which the limits leave no room. */
typedef struct autograph_crowd {
    uint32_t wasted, full; /* graphs that went before they paid; how many there is room for */
    uint64_t late[AUTOGRAPH_LATE]; /* hashes of the last ones that were not captured for this */
    uint32_t n_late;
} autograph_crowd;

struct rp_autograph {
    rp_stream *stream;
    bool is_default; /* with a stream that goes with it */
    uint32_t users;  /* then, guarded by the device */
    rp_device *device;
    hal_device *queue; /* of the stream */
    rp_autograph_options o;
    pthread_mutex_t lock; /* held while a call runs; tells its thread that it holds it */
    rp_function *functions;
    autograph_family *families;
    autograph_graphs graphs;
    autograph_crowd crowd;
    autograph_cache *cache; /* of outputs */
    autograph_pack pack;
    base_buf key; /* of the call under way */
    uint64_t calls, replays, captures, eager;
};

/* Waits for what its calls have queued; in turn with them, since a stream that captures cannot be waited for. */
rp_status autograph_wait(rp_autograph *a, rp_error *err) RP_MUST_USE;

/* Before its first call: what it does is not looked at for plain C. */
void autograph_function_trust(rp_function *f);
/* What comes in front of a call of a function and behind it, on the manager's queue, in turn with its replay or run. before fails: there is no call. */
typedef struct autograph_around {
    rp_status (*before)(void *user, hal_device *queue, rp_error *err);
    rp_status (*after)(void *user, hal_device *queue, rp_error *err);
    void *user;
} autograph_around;
/* rp_autograph_run with that; NULL: nothing. */
rp_status autograph_run_around(rp_function *f, const rp_value *args, const autograph_around *around,
                               rp_output **out, rp_error *err) RP_MUST_USE;

/* An array of memory that belongs to a call. */
typedef struct autograph_held {
    autograph_memory **memory;
    rp_buffer *form;
    uint32_t n, cap;
} autograph_held;

struct rp_call {
    rp_autograph *a;
    /* While it captures: the run before, which asked for the same, and the slots that outputs lie in; else NULL. */
    const rp_call *first;
    autograph_outs *outs;
    autograph_stands *stands; /* likewise, where plain C can write to memory; else NULL */
    uint32_t bodies;          /* that it is in */
    hal_trace *inside; /* what is called there, once each, as far as it is asked for; or NULL */
    autograph_held out, temp; /* while it captures, out has forms alone */
};

void autograph_call_done(rp_call *call);
/* An output with a copy of `value`, and references of n memories. */
rp_status autograph_output_new(const rp_value *value, autograph_memory *const *memory, uint32_t n,
                               rp_ran ran, const char *reason, rp_output **out,
                               rp_error *err) RP_MUST_USE;
/* What it gives, whether or not it was overwritten since. */
rp_value *autograph_output_of(rp_output *o);
/* One whose value lies in `over`, which it takes over: what it names is set afterwards. */
rp_status autograph_output_over(rp_output *over, const rp_value *value, rp_ran ran,
                                const char *reason, rp_output **out, rp_error *err) RP_MUST_USE;
/* o, which has none, is overwritten from the moment on when the next one is put under the lease. */
void autograph_output_lease(rp_output *o, autograph_lease *lease);
/* reason: copied, "" without memory; NULL: none. */
void autograph_output_set_ran(rp_output *o, rp_ran ran, const char *reason);
/* Whether a replay of e can give these arguments back, or parts of them, where its function does. */
bool autograph_output_can_give(const autograph_entry *e, const rp_value *args);
/* An output for a replay of e, by the policy of its function: made before it, since what it overwrites is told from then on, and filled
 * after it. */
rp_status autograph_output_prepare(const autograph_entry *e, const autograph_rows *rows,
                                   const rp_value *args, rp_output **out,
                                   rp_error *err) RP_MUST_USE;
/* Before the launch: *moved where the graph itself writes o, which is then not filled. */
rp_status autograph_output_aim(const autograph_entry *e, const rp_output *o, bool *moved,
                               rp_error *err) RP_MUST_USE;
rp_status autograph_output_fill(const autograph_entry *e, rp_output *o, rp_error *err) RP_MUST_USE;

/* Copies what v holds, dense or not, to dense memory; queue NULL: both are the host's. */
rp_status autograph_copy_in(hal_device *queue, void *to, const rp_value *v,
                            rp_error *err) RP_MUST_USE;

/* Bytes that the next replay takes for its place in a ring. */
uint64_t autograph_ring_need(const autograph_entry *e);
/* Frees what nobody has, and the least recently used graphs, until the limits hold, or nothing but the newest graph is left. ring: the
 * newest, which is to have its place; NULL: none. False: the limits do not hold. */
bool autograph_keep_budget(rp_autograph *a, const autograph_entry *ring);
/* After a capture of s (or NULL) that gave no graph: what was taken for it goes back, and the limits hold. */
void autograph_give_back(rp_autograph *a, autograph_static *s);
void autograph_limit_cache(rp_autograph *a); /* of outputs, to what memory now taken leaves */
/* The family of a name, with a function more; NULL without memory. A function that leaves is not named by it any more. */
autograph_family *autograph_family_join(rp_autograph *a, const char *name);
void autograph_family_leave(rp_autograph *a, autograph_family *family);
/* Why a form of f that has no graph is not to have one now; NULL: it is. e: its entry, or NULL. RP_GROWTH_EXACT captures all of them. */
const char *autograph_form_reason(const rp_function *f, const autograph_entry *e, uint64_t hash);
/* Bytes that count for max_bytes, and how many more there may be. */
uint64_t autograph_all_bytes(const rp_autograph *a);
uint64_t autograph_room(const rp_autograph *a);

bool autograph_rounds(const rp_autograph *a); /* numbers of rows, up */

/* A call that is to become a graph: its first run gave `result`. */
typedef struct autograph_wish {
    rp_function *f;
    const rp_value *args, *dense; /* the caller's, and as the function was given them */
    uint64_t hash;                /* of the manager's key */
    const rp_call *first;
    const rp_value *result;       /* with the addresses of that run, */
    const autograph_place *place; /* and what they are: one for each tensor */
    const autograph_before *before;
    const hal_trace *trace; /* what that run called; in bodies: first->inside */
    uint64_t frees;         /* device_frees before it */
} autograph_wish;
/* Runs the function again to capture it. RP_OK: there is a graph; anything else: why says why there is none. Unless
 * that is RP_NOMEM, it is noted, and holds for this form of arguments or for all of the function. */
rp_status autograph_capture(const autograph_wish *w, rp_error *why) RP_MUST_USE;

#endif
