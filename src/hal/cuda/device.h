/* The cuda back end's parts, private to the folder and to its tests. */
#ifndef HAL_CUDA_DEVICE_H
#define HAL_CUDA_DEVICE_H

#include <stdatomic.h>

#include "base/parts.h"
#include "hal/cuda/chain.h"
#include "hal/cuda/gpu.h"
#include "hal/device.h"

enum {
    CUDA_MIN_CAPABILITY = 80,
    CUDA_MIN_PROGRAMMATIC = 90, /* capability from which kernels of a graph overlap */
    CUDA_ALIGN = 256
};

/* Pinned memory in which parts of an upload wait for their turn, and the events that tell when they have gone. */
enum { CUDA_SLOTS = 2 }; /* of a thread */
typedef struct cuda_staging {
    void *memory;
    void *sent[BASE_PARTS_THREADS][CUDA_SLOTS];
    uint32_t threads; /* that have slots */
} cuda_staging;

/* A copy in a graph whose ends are set before each replay. */
typedef struct cuda_move {
    void *node; /* NULL: of no bytes */
    cuda_copy_3d copy;
    bool off;
} cuda_move;
typedef struct cuda_moves {
    cuda_move *v;
    uint32_t n, cap;
} cuda_moves;

/* A branch that is being captured. */
typedef struct cuda_branch {
    void *around, *node; /* the graph that it is in, and its node there */
    uint64_t handle;     /* of its condition */
    const void *pred;
    hal_branch kind;
} cuda_branch;
enum { CUDA_BRANCHES = 8 }; /* within one another */
typedef struct cuda_captured {
    void *graph;                       /* the outermost */
    cuda_branch branch[CUDA_BRANCHES]; /* depth */
    uint32_t depth;
    void **body; /* n_bodies, of all branches */
    uint32_t n_bodies, cap_bodies;
    bool in_lists; /* launches that are lists give what comes now */
    void **copy;   /* nodes of n_copies that these made */
    uint32_t n_copies, cap_copies;
} cuda_captured;

typedef struct cuda_device {
    hal_device base;
    cuda_driver cu;
    cuda_gpu gpu;
    cuda_caller caller;
    uint32_t ordinal;
    uint32_t n_threads;       /* of the host; 0: one a granted core */
    void *stream;             /* the queue */
    struct cuda_device *next; /* of all queues (queues.h) */
    bool passed_over;
    atomic_size_t mapped;      /* bytes of its memory that are the host's */
    atomic_uint unfinished;    /* graphs that were begun, */
    atomic_size_t free_memory; /* and the GPU's memory when one of them last looked */
    cuda_staging staging;      /* since the first upload */
    cuda_moves moves;          /* of the capture under way */
    cuda_captured captured;
    void *condition_module, *condition; /* the kernel that sets one, since the first branch */
    void *runs_module, *runs;           /* the one that copies runs, since the first such copy */
} cuda_device;

/* hal_cuda_open over this table of functions, which is copied. */
rp_status cuda_device_open(const cuda_driver *cu, uint32_t ordinal, hal_device **out,
                           rp_error *err) RP_MUST_USE;

/* Makes the GPU's context that of this thread. RP_DEVICE, always the same line, where the GPU is lost (loss.h). */
rp_status cuda_device_enter(const cuda_device *d, rp_error *err) RP_MUST_USE;

/* For the line about a lost GPU: what the queue was given last, "graph" or "kernel" and its name. */
void cuda_device_last(cuda_device *d, const char *kind, const char *name);

enum { CUDA_MAX_PARAMETERS = 192 };
/* A launch of a kernel as the driver takes it: its arguments, then its dims, then its items. Points into l and to room. False for
 * one without items, which is none. RP_UNSUPPORTED for a host call. */
rp_status cuda_launch_of(const cuda_device *d, const hal_launch *l, void *room[CUDA_MAX_PARAMETERS],
                         cuda_launch *out, bool *any, rp_error *err) RP_MUST_USE;

/* A launch of a kernel by itself, which is noted where d captures, and not counted as one of a plan. */
rp_status cuda_launch_alone(cuda_device *d, const hal_launch *l, rp_error *err) RP_MUST_USE;

/* Members of the operation table that live in their own files. */
rp_status cuda_copy_runs(hal_device *d, void *to, const void *from, const base_runs *runs,
                         rp_error *err);
void cuda_runs_close(cuda_device *d);
rp_status cuda_device_upload(hal_device *d, void *to, const hal_source *from, rp_error *err);
void cuda_staging_close(cuda_device *d);
rp_status cuda_reserve(hal_device *d, size_t size, hal_reserved **out, rp_error *err);
rp_status cuda_commit(hal_reserved *r, size_t size, rp_error *err);
void cuda_unreserve(hal_reserved *r);
rp_status cuda_module_load(hal_device *d, const char *path, hal_module **out, rp_error *err);
rp_status cuda_module_symbol(hal_module *m, const char *name, hal_function *out, rp_error *err);
rp_status cuda_function_caches(hal_device *d, hal_function f, rp_error *err);
void cuda_module_free(hal_module *m);
rp_status cuda_graph_build(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                           const char *label, hal_graph **out, rp_error *err);
rp_status cuda_graph_begin(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                           const char *label, hal_graph **out, rp_error *err);
rp_status cuda_graph_finish(hal_graph *g, rp_error *err);
rp_status cuda_graph_launch(hal_graph *g, rp_error *err);
size_t cuda_graph_bytes(const hal_graph *g);
uint32_t cuda_graph_programmatic(const hal_graph *g);
void cuda_graph_free(hal_graph *g);
/* A graph of n nodes that the driver captured, which is taken over with the moves of d, also on failure. */
rp_status cuda_graph_adopt(cuda_device *d, void *graph, uint32_t n, const char *label,
                           hal_graph **out, rp_error *err) RP_MUST_USE;
rp_status cuda_capture_begin(hal_device *d, rp_error *err);
rp_status cuda_capture_end(hal_device *d, const char *label, hal_graph **out, uint32_t *out_n,
                           rp_error *err);
/* cuda_check, but a code that tells of a capture is told in words of ours. */
rp_status cuda_capture_check(const cuda_device *d, int code, const char *what,
                             rp_error *err) RP_MUST_USE;
/* The copy that was captured last is of a launch that is lists. */
rp_status cuda_capture_keep_copy(cuda_device *d, rp_error *err) RP_MUST_USE;
/* The graph that the stream captures to and what comes next waits for; NULL once the capture has failed. */
void *cuda_capture_at(const cuda_device *d, void *const **last, size_t *n_last);
rp_status cuda_capture_branch(hal_device *d, hal_branch kind, const void *pred, rp_error *err);
rp_status cuda_capture_join(hal_device *d, rp_error *err);
void cuda_branches_close(cuda_device *d);
rp_status cuda_capture_move(hal_device *d, void *to, const void *from, size_t size, rp_error *err);
rp_status cuda_graph_move(hal_graph *g, uint32_t i, void *to, const void *from, bool *done,
                          rp_error *err);
rp_status cuda_capture_scan(hal_device *d, rp_error *err);
bool cuda_capture_foreign(const hal_device *d);
void *cuda_device_handle(hal_device *d);
/* Whether kernels of d reach what lies at p. */
bool cuda_device_reaches(const hal_device *d, const void *p);
/* Timing (time.c). */
rp_status cuda_device_time(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                           int64_t *ns, rp_error *err);
rp_status cuda_event_new(hal_device *d, hal_event **out, rp_error *err);
void cuda_event_free(hal_event *e);
rp_status cuda_event_record(hal_device *d, hal_event *e, rp_error *err);
rp_status cuda_event_wait(hal_device *d, hal_event *e, rp_error *err);
rp_status cuda_event_synchronize(hal_event *e, rp_error *err);

#endif
