/* Devices as the rest of the program sees them: memory, modules, launches, graphs.
 *
 * A back end implements hal_device_ops. A hal_device is a queue of a device, and hal_queue makes more of them. Thread rule:
 * a queue is used by one thread at a time, queues of one device at the same time. The launch log at this border is the
 * witness for launches, captures and replays: all counters are read from it. */
#ifndef HAL_HAL_H
#define HAL_HAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/runs.h"
#include "base/status.h"

typedef struct hal_device hal_device;
typedef struct hal_module hal_module;
typedef struct hal_graph hal_graph;
typedef struct hal_event hal_event;

/* Host kernel: see gen/gen.h. */
typedef void (*hal_host_fn)(void *const *arg, const long long *dim, long long begin, long long end,
                            void *scratch);

/* A kernel of a module: host code, or what the device knows it by. */
typedef union hal_function {
    hal_host_fn host;
    void *handle;
} hal_function;

/* Where memory lies. On a device whose memory is the host's (hal_device_info.unified) both kinds are one. */
typedef enum hal_memory {
    HAL_DEVICE_MEMORY, /* the host reaches it through ops->copy and ops->fill alone */
    HAL_MAPPED_MEMORY /* one address for kernels and the host, which sees what they wrote once it has waited for them */
} hal_memory;

/* A call of host code inside a launch list (custom ops): runs on the submitting thread alone. */
typedef rp_status (*hal_host_call)(void *user, void *const *arg, const long long *dim,
                                   rp_error *err);

enum { HAL_PART = 1 << 20 };

/* Bytes on their way to a device: fill writes n of them, from offset on, to at. It is called once for each part of HAL_PART bytes,
 * in any order, by up to `threads` threads at once. */
typedef struct hal_source {
    void (*fill)(void *user, void *at, size_t offset, size_t n);
    void *user;
    size_t size;
    uint32_t threads;
} hal_source;

/* Lists that are decided as they run (loops, branches): gives the next one, NULL behind the last. Called with turn 0 first, then
 * behind each list, on the submitting thread, when everything before it is done, or queued where d queues launches; the list is
 * borrowed until the next call. */
typedef struct hal_list {
    const struct hal_launch *v; /* n */
    uint32_t n;
} hal_list;
typedef rp_status (*hal_next_list)(void *user, hal_device *d, void *const *arg,
                                   const long long *dim, uint64_t turn, hal_list *out,
                                   rp_error *err);

/* (optional) The same lists as part of the capture under way on d: launches, copies and branches, for which replays decide without
 * the host. RP_UNSUPPORTED, in one line, where no graph can say them. */
typedef rp_status (*hal_note_lists)(void *user, hal_device *d, void *const *arg,
                                    const long long *dim, rp_error *err);

typedef enum hal_launch_kind { HAL_KERNEL, HAL_HOST_CALL, HAL_LISTS } hal_launch_kind;

/* What a body of a capture waits for: that its byte is not 0, that it is 0; as long as it is not 0. */
typedef enum hal_branch { HAL_IF, HAL_IF_NOT, HAL_WHILE } hal_branch;

/* One concrete launch. Arrays are borrowed until ops->launch returns; ops->graph_build copies them. */
typedef struct hal_launch {
    hal_launch_kind kind;
    const char *name;
    hal_function fn;     /* HAL_KERNEL */
    hal_host_call call;  /* HAL_HOST_CALL */
    hal_next_list next;  /* HAL_LISTS, */
    hal_note_lists note; /* and these */
    void *user;
    void *const *arg;
    /* (optional) Bytes that the launch may touch from each arg on, for the audit; a graph keeps no copy. */
    const size_t *arg_size;
    const long long *dim;
    long long items;             /* work items */
    long long grain;             /* cpu: smallest share worth giving to a thread, >= 1 */
    uint32_t threads, per_block; /* other devices: threads of a block, items that a block takes */
    uint32_t shared;             /* bytes of shared memory that a block has beside its own */
    uint32_t
        per_sm; /* at most so many blocks a multiprocessor, which take the items in turn; 0: any number */
    uint32_t n_arg;
    uint32_t
        n_dim; /* entries of dim that a graph copies; 0: dim is borrowed until the graph is freed */
    uint32_t attention : 1;  /* for the log: an attention launch */
    uint32_t no_barrier : 1; /* independent of the next launch: no barrier between them */
} hal_launch;

/* What happened at this border since the device was opened. */
typedef struct hal_counters {
    uint64_t launches;        /* launches (kernels, host calls) one by one, outside graphs */
    uint64_t attention_calls; /* of those, attention */
    uint64_t graph_builds;    /* captures */
    uint64_t graph_launches;  /* replays */
    uint64_t graph_nodes;     /* launches inside replays */
    uint64_t module_loads, late_module_loads; /* late: wanted after sealing, made or not */
    uint64_t shared_lists;  /* cpu: lists of launches with work for several threads */
    uint64_t crowded_lists; /* of those, run on one thread because other programs held the cores */
    uint64_t copied_bytes;  /* by ops->copy and copy_runs */
    uint64_t allocs, frees;
    uint64_t live_bytes, peak_bytes;
} hal_counters;

typedef struct hal_device_info {
    char name[64];
    char arch[16];      /* that its code is compiled for, such as sm_90; "": the host's */
    uint32_t n_threads; /* of the host that the device may use */
    uint32_t n_cores;   /* cpu: that this process may run on; else 0 */
    size_t alignment;
    bool unified;    /* its memory is the host's */
    uint64_t memory; /* else bytes of its own, in all */
} hal_device_info;

/* Addresses that stay while memory comes to them. Backends embed this first. */
typedef struct hal_reserved {
    hal_device *device;
    void *at;
    size_t size, committed;
} hal_reserved;

typedef struct hal_device_ops {
    const char *name;
    void (*free)(hal_device *d);
    void (*info)(hal_device *d, hal_device_info *out);
    /* (optional) Bytes of HAL_DEVICE_MEMORY that are left for this process, UINT64_MAX where that is not known. Of the host's, memory
     * that alloc gave may count until it is written. */
    uint64_t (*available)(hal_device *d);
    /* (optional) Bytes of the queue's memory that lie on the device itself; by any thread. */
    uint64_t (*own_bytes)(hal_device *d);
    /* Zeroed, aligned memory. release waits for what is queued. */
    rp_status (*alloc)(hal_device *d, hal_memory kind, size_t size, void **out, rp_error *err);
    void (*release)(hal_device *d, void *p, size_t size);
    /* A range of size addresses, none of which is memory yet. commit makes its first bytes memory, zeroed, at least so many, and
     * never fewer than before; what there was stays where and as it is, on failure too. One thread at a time. unreserve
     * waits for what is queued. */
    rp_status (*reserve)(hal_device *d, size_t size, hal_reserved **out, rp_error *err);
    rp_status (*commit)(hal_reserved *r, size_t size, rp_error *err);
    void (*unreserve)(hal_reserved *r);
    /* In turn with launches; either address may be the host's or the device's. Memory of the host that is not
     * mapped is free for other use when copy returns, unless it is written: then after synchronize. */
    rp_status (*copy)(hal_device *d, void *to, const void *from, size_t size, rp_error *err);
    /* The same of runs, the first of which are where to and from say, in memory that kernels reach and that does not meet; one launch or copy, or a few. No
     * trace is told: who calls it knows what its ends are. */
    rp_status (*copy_runs)(hal_device *d, void *to, const void *from, const base_runs *runs,
                           rp_error *err);
    rp_status (*fill)(hal_device *d, void *to, int byte, size_t size, rp_error *err);
    /* (optional) Whether kernels may use memory at p, wherever it is from; where it is NULL, they use all of the host's. */
    bool (*reaches)(const hal_device *d, const void *p);
    /* Many bytes to memory of the device, as fast as it takes them; waits until they are there. */
    rp_status (*upload)(hal_device *d, void *to, const hal_source *from, rp_error *err);
    /* Code object from a file (cpu: shared object; cuda: cubin). RP_UNSUPPORTED when the device is sealed fatally. */
    rp_status (*module_load)(hal_device *d, const char *path, hal_module **out, rp_error *err);
    rp_status (*module_symbol)(hal_module *m, const char *name, hal_function *out, rp_error *err);
    /* (optional) A processor divides memory between its cache and what blocks share, and runs functions of different divisions one after the
     * other. Functions leave all that can be to blocks, until this is called for one: then it has the cache that its blocks leave. */
    rp_status (*function_caches)(hal_device *d, hal_function f, rp_error *err);
    void (*module_free)(hal_module *m);
    /* Runs the launches in order, with a barrier after each unless no_barrier; returns when done (cpu)
     * or queued. cuda: while it is captured, kernels of the list may overlap as those of graph_build. scratch_size: bytes of thread-local scratch the largest needs. The first error of
     * a host call stops the list: nothing behind the next barrier runs. RP_UNSUPPORTED for a host call where the device's
     * memory is not the host's; lists within a list are launched there as they are given. */
    rp_status (*launch)(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                        rp_error *err);
    /* (optional) See hal_time. */
    rp_status (*time)(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                      int64_t *ns, rp_error *err);
    /* A device graph: the list bound for replay. Copies the hal_launch records, arg and dim arrays. cuda: kernels of it may
     * overlap; until griddepcontrol.wait, which every thread executes, they touch nothing that a kernel of it writes. */
    rp_status (*graph_build)(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                             const char *label, hal_graph **out, rp_error *err);
    /* (optional) The same in two parts: what needs the queue and the list, and what any thread may do beside anything else, once, before the
     * graph is launched or its bytes are asked for, but not while the queue captures. */
    rp_status (*graph_begin)(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                             const char *label, hal_graph **out, rp_error *err);
    rp_status (*graph_finish)(hal_graph *g, rp_error *err);
    rp_status (*graph_launch)(hal_graph *g, rp_error *err);
    size_t (*graph_bytes)(const hal_graph *g);
    /* (optional) Its edges over which a kernel starts before the one in front of it ends. */
    uint32_t (*graph_programmatic)(const hal_graph *g);
    void (*graph_free)(hal_graph *g);
    /* Another queue of the device of d: see hal_queue. */
    rp_status (*queue)(hal_device *d, hal_device **out, rp_error *err);
    /* (optional) From begin on launch, copy and fill run nothing but are noted, on a GPU by its driver with whatever else goes to
     * the queue's stream; end, by the same thread, makes a graph of them, or with out NULL forgets them. What is noted is audited at once. A call that cannot be in a graph (synchronize, an address that is not
     * registered) fails, and so does end, with the first failure. *out_n: launches in it. RP_INVALID where a capture is under way, or none. */
    rp_status (*capture_begin)(hal_device *d, rp_error *err);
    rp_status (*capture_end)(hal_device *d, const char *label, hal_graph **out, uint32_t *out_n,
                             rp_error *err);
    /* (optional) Whether more is in the capture under way than was noted: calls that went to the driver. */
    bool (*capture_foreign)(const hal_device *d);
    /* (optional) Notes what memory the first queue has that calls which went to the driver name, as far as it can be seen. */
    rp_status (*capture_scan)(hal_device *d, rp_error *err);
    /* (optional) What comes between the two is a body, which runs as kind says of *pred, one byte that replays read when they come
     * there, and a loop again behind the body. Bodies may have bodies. */
    rp_status (*capture_branch)(hal_device *d, hal_branch kind, const void *pred, rp_error *err);
    rp_status (*capture_join)(hal_device *d, rp_error *err);
    /* (optional) Adds a copy, unseen by what is noted, whose ends are set anew before each replay: number i by its graph's
     * graph_move, the first is 0. *done false: a copy from there is not for a graph (memory of the host), so the caller says where
     * else it is, or, by from NULL, that the graph leaves the copy out. */
    rp_status (*capture_move)(hal_device *d, void *to, const void *from, size_t size,
                              rp_error *err);
    rp_status (*graph_move)(hal_graph *g, uint32_t i, void *to, const void *from, bool *done,
                            rp_error *err);
    /* (optional) What the driver knows the queue by; makes its context that of the thread. */
    void *(*handle)(hal_device *d);
    /* A place in a queue: record puts it behind all that d holds, wait makes what d gets from now on come after it, and
     * event_synchronize is the host's wait for it. One that was never recorded is over. */
    rp_status (*event_new)(hal_device *d, hal_event **out, rp_error *err);
    void (*event_free)(hal_event *e);
    rp_status (*event_record)(hal_device *d, hal_event *e, rp_error *err);
    rp_status (*event_wait)(hal_device *d, hal_event *e, rp_error *err);
    rp_status (*event_synchronize)(hal_event *e, rp_error *err);
    /* Waits for all that is queued. RP_DEVICE when some of it failed, which is when it shows. */
    rp_status (*synchronize)(hal_device *d, rp_error *err);
    /* (optional) See hal_lost. */
    bool (*lost)(const hal_device *d, rp_error *err);
} hal_device_ops;

/* Backends embed this first. */
typedef struct hal_ranges hal_ranges;
typedef struct hal_log hal_log;
typedef struct hal_capture hal_capture;

/* Who has memory that a queue was told of, which is there as long as it is held and `same`. */
typedef struct hal_owner {
    void *who;
    unsigned generation;
    bool (*same)(const void *who, unsigned generation);
    void (*drop)(void *who); /* one reference */
} hal_owner;

/* One thing that a queue was told: a call, or of the call before it a value, or memory. */
typedef enum hal_step_kind { HAL_STEP_CALL, HAL_STEP_VALUE, HAL_STEP_MEMORY } hal_step_kind;
typedef struct hal_step {
    hal_step_kind kind;
    char name[40]; /* its beginning, for a reason; */
    uint64_t hash; /* this is of all of it */
    long long value;
    const void *at;
    size_t size;
    uint32_t owner; /* of the memory: 0 none, else 1 more than its place among those of the trace */
} hal_step;
typedef struct hal_trace {
    hal_step *v; /* n of cap */
    uint32_t n, cap;
    hal_owner *owner; /* n_owners, a reference of each */
    uint32_t n_owners;
    uint32_t now; /* as a step has it; of the call that is told */
    bool failed;  /* there was no memory for all */
} hal_trace;

/* What loading a module means once start-up is over. */
typedef enum hal_seal { HAL_UNSEALED, HAL_SEALED_WARN, HAL_SEALED_FATAL } hal_seal;

struct hal_device {
    const hal_device_ops *ops;
    hal_seal seal; /* set by the owner */
    hal_counters counters;
    hal_ranges *ranges;
    hal_log *log;
    hal_device *root;     /* whose queue this is; NULL: the first one of its device */
    hal_capture *capture; /* under way, where the back end notes launches by itself (capture.c) */
    hal_trace *trace;     /* what is called, run or noted; NULL: nobody asks */
};

/* Threads of a device of the host that is asked for so many; 0: one a granted core. */
uint32_t hal_cpu_threads(uint32_t asked);
/* Parameters of a device: n_threads, of the host, as above. */
rp_status hal_cpu_open(uint32_t n_threads, hal_device **out, rp_error *err) RP_MUST_USE;
rp_status hal_null_open(hal_device **out, rp_error *err) RP_MUST_USE;
/* RP_UNSUPPORTED, one line with what to do, where there is no driver, an old one, or no such GPU. */
rp_status hal_cuda_open(uint32_t ordinal, uint32_t n_threads, hal_device **out,
                        rp_error *err) RP_MUST_USE;
/* The same text for each way to name a device: "cuda" is "cuda:0". Static, or name. */
const char *hal_full_name(const char *name);
/* By name: "cpu", "null", "cuda" (the first) or "cuda:N". */
rp_status hal_open(const char *name, uint32_t n_threads, hal_device **out,
                   rp_error *err) RP_MUST_USE;
/* Another queue of the device of d, which must outlive it: threads or context are shared, and memory of one can be used on
 * all. Counters, log, seal and registered ranges are its own; the audit knows those of the first queue, too. */
rp_status hal_queue(hal_device *d, hal_device **out, rp_error *err) RP_MUST_USE;
void hal_close(hal_device *d); /* NULL is fine; all modules, graphs and memory must be gone */
const hal_counters *hal_device_counters(const hal_device *d);

/* Whether something has failed of which the device does not recover: all that its queues are asked for fails with RP_DEVICE and the one line
 * that err gets. What they have is to be given back as ever. */
bool hal_lost(const hal_device *d, rp_error *err);

/* Registered address ranges, for the pointer audit: device memory from ops->alloc is registered;
 * mapped weights are added by their owner. Ranges are disjoint; what is static text. */
rp_status hal_range_add(hal_device *d, const void *p, size_t size, const char *what,
                        rp_error *err) RP_MUST_USE;
void hal_range_remove(hal_device *d, const void *p);
/* Whether [p, p + size) lies in one of them. */
bool hal_range_covers(hal_device *d, const void *p, size_t size);
/* Bytes of the range that begins at p; 0 when none does. */
size_t hal_range_size(hal_device *d, const void *p);
/* Tells it from each other range that d ever had, there or elsewhere; 0 when none begins at p. */
uint64_t hal_range_serial(hal_device *d, const void *p);
uint64_t hal_live_bytes(hal_device *d); /* counters.live_bytes, by any thread */
/* Any range of d, its begin; NULL when there is none. */
void *hal_range_any(hal_device *d);
/* RP_INTERNAL naming launch and argument when the bytes of an arg (its first one, where arg_size is not given) do not
 * lie in one registered range. */
rp_status hal_audit(hal_device *d, const hal_launch *list, uint32_t n, rp_error *err) RP_MUST_USE;

/* Says on the channel bytecode what replays of a graph will run, in order. */
void hal_log_replay(const char *label, const hal_launch *list, uint32_t n);

/* While d captures by hal_capture_begin: what launches may point to beside registered ranges, and what calls have written;
 * such ranges may overlap. */
rp_status hal_capture_begin(hal_device *d, rp_error *err) RP_MUST_USE;
rp_status hal_capture_end(hal_device *d, const char *label, hal_graph **out, uint32_t *out_n,
                          rp_error *err) RP_MUST_USE;
static inline bool hal_capturing(const hal_device *d) {
    return d->capture != NULL;
}
rp_status hal_capture_branch(hal_device *d, hal_branch kind, const void *pred,
                             rp_error *err) RP_MUST_USE;
rp_status hal_capture_join(hal_device *d, rp_error *err) RP_MUST_USE;
/* Takes what bodies were noted, which the graph of the capture needs; NULL: none. */
typedef struct hal_body hal_body;
hal_body *hal_capture_bodies(hal_device *d);
size_t hal_bodies_bytes(const hal_body *b);
void hal_bodies_free(hal_body *b);
bool hal_capture_knows_all(const hal_device *d); /* false: kernels of others are in it, too */
rp_status hal_capture_allow(hal_device *d, const void *p, size_t size, const char *what,
                            rp_error *err) RP_MUST_USE;
/* For calls that went to the driver (ops->capture_scan): memory of `other`, a queue, may be named only where hal_capture_allow says so. */
void hal_capture_forbid(hal_device *d, const hal_device *other);
/* Where d keeps what is noted: addresses of [p, p + size) in it are noted as those from `real` on, which are allowed. Such ranges are
 * disjoint. hal_capture_wrote and what asks for it have them as they were given. */
rp_status hal_capture_mean(hal_device *d, const void *p, size_t size, const void *real,
                           rp_error *err) RP_MUST_USE;
rp_status hal_capture_wrote(hal_device *d, const void *p, size_t size, rp_error *err) RP_MUST_USE;
bool hal_capture_has_written(const hal_device *d, const void *p, size_t size); /* all of it */
bool hal_capture_touched(const hal_device *d, const void *p, size_t size);     /* or some */
/* A range of the first queue: where it begins, and its serial. */
typedef struct hal_used {
    const void *at;
    uint64_t serial;
} hal_used;
/* Those that noted launches point to, each once; owned by the caller (base_free). */
rp_status hal_capture_used(hal_device *d, hal_used **out, uint32_t *n, rp_error *err) RP_MUST_USE;
/* From now on t, or with NULL nobody, is told what d is called with; gives who was before. */
hal_trace *hal_trace_to(hal_device *d, hal_trace *t);
/* Nothing of no size is told. */
void hal_trace_call(hal_device *d, const char *name);
void hal_trace_value(hal_device *d, const char *what, long long value);
void hal_trace_memory(hal_device *d, const char *what, const void *at, size_t size);
/* Memory that is told from now on, until the next call, is of o, whose reference is taken over. */
void hal_trace_owner(hal_device *d, const hal_owner *o);
void hal_trace_copy(hal_device *d, const void *to, const void *from, size_t size);
void hal_trace_fill(hal_device *d, const void *to, int byte, size_t size);
void hal_trace_done(hal_trace *t);
/* Makes the capture fail for a reason of the caller's; the first one counts. */
void hal_capture_spoil(hal_device *d, const rp_error *why);

/* How the cpu executes code of a folder when not as files (static); NULL: as files. */
const char *hal_code_note(const char *dir);

/* Runs the launches of the list one by one, waits for them, and adds to ns[i] the nanoseconds that launch i took: on the clock of a GPU from the
 * end of what was in front of it to its own end, elsewhere from its call until it is done. */
rp_status hal_time(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                   int64_t *ns, rp_error *err) RP_MUST_USE;

/* The log: last events (8192 at most) as text lines, oldest first: "graph_launch decode_b1",
 * "launch red_fused_...", "graph_build L", "module_load F". Switching it on empties it; it stays off when
 * there is no memory for it. hal_log_at is NULL beyond the end. */
void hal_log_record(hal_device *d, bool on);
size_t hal_log_count(const hal_device *d);
const char *hal_log_at(const hal_device *d, size_t i);

#endif
