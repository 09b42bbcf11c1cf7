/* For the authors of back ends: what every device does alike. Each operation of a back end that
 * succeeds is reported here, so that counters, ranges and log are the same on every device. */
#ifndef HAL_DEVICE_H
#define HAL_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "hal/hal.h"

/* Prepares the embedded part; undone by hal_device_done. */
rp_status hal_device_init(hal_device *d, const hal_device_ops *ops, rp_error *err) RP_MUST_USE;
void hal_device_done(hal_device *d); /* NULL and zeroed are fine */

/* Counts and logs. The first two by the thread that uses the queue; none allocates. */
static inline void hal_note_launch(hal_device *d, const hal_launch *list, uint32_t n);
void hal_note_replay(hal_device *d, const char *label, uint32_t n_nodes);
void hal_note_build(hal_device *d, const char *label);
void hal_count_copy(hal_device *d, size_t size);
void hal_note_module(hal_device *d, const char *path);

/* The first thing that module_load does: counts and logs a load after sealing, and refuses it where that is fatal. */
rp_status hal_may_load(hal_device *d, const char *path, rp_error *err) RP_MUST_USE;

/* Memory that the back end hands out: zeroed by base, aligned, registered as a range, counted. */
rp_status hal_memory_alloc(hal_device *d, size_t size, size_t align, const char *what, void **out,
                           rp_error *err) RP_MUST_USE;
void hal_memory_release(hal_device *d, void *p, size_t size); /* NULL is fine */
/* The same for memory that the back end has from elsewhere: a range and the counts of it. */
rp_status hal_memory_enter(hal_device *d, void *p, size_t size, const char *what,
                           rp_error *err) RP_MUST_USE;
void hal_memory_leave(hal_device *d, void *p, size_t size);
/* The registered memory at p, which ends at size now, and had `before` bytes. */
rp_status hal_memory_grow(hal_device *d, void *p, size_t before, size_t size,
                          rp_error *err) RP_MUST_USE;
/* RP_INTERNAL where the range is smaller. */
rp_status hal_reserved_fits(const hal_reserved *r, size_t size, rp_error *err) RP_MUST_USE;
/* reserve, commit and unreserve, copy and fill where all memory is the host's. */
rp_status hal_memory_reserve(hal_device *d, size_t size, hal_reserved **out, rp_error *err);
rp_status hal_memory_commit(hal_reserved *r, size_t size, rp_error *err);
void hal_memory_unreserve(hal_reserved *r);
rp_status hal_memory_copy(hal_device *d, void *to, const void *from, size_t size, rp_error *err);
rp_status hal_memory_copy_runs(hal_device *d, void *to, const void *from, const base_runs *runs,
                               rp_error *err);
rp_status hal_memory_fill(hal_device *d, void *to, int byte, size_t size, rp_error *err);

/* upload where all memory is the host's. */
rp_status hal_memory_upload(hal_device *d, void *to, const hal_source *from, rp_error *err);
uint64_t hal_part_count(const hal_source *s);
size_t hal_part_size(const hal_source *s, uint64_t part);

/* What a device notes while it captures. Each member of the table that runs something asks hal_capturing first, and gives
 * what it has to one of these: where the lists are kept they are all that happens, else the back end goes on with the call. */
rp_status hal_note_capture(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                           rp_error *err) RP_MUST_USE;
rp_status hal_note_copy(hal_device *d, void *to, const void *from, size_t size,
                        rp_error *err) RP_MUST_USE;
rp_status hal_note_fill(hal_device *d, void *to, int byte, size_t size, rp_error *err) RP_MUST_USE;
rp_status hal_note_runs(hal_device *d, void *to, const void *from, const base_runs *runs,
                        rp_error *err) RP_MUST_USE;
/* What a copy of runs writes, once it is noted. */
rp_status hal_note_wrote_runs(hal_device *d, void *to, const base_runs *runs,
                              rp_error *err) RP_MUST_USE;
rp_status hal_note_used(hal_device *d, hal_used range, rp_error *err) RP_MUST_USE;
/* The same for the range of the first queue that p lies in, if it lies in one; RP_UNSUPPORTED, the reason, for forbidden memory. */
rp_status hal_note_address(hal_device *d, const void *p, rp_error *err) RP_MUST_USE;
/* Gives err the failure of a call, which is also that of the capture, where one is under way. */
rp_status hal_note_failed(hal_device *d, rp_status st, const rp_error *why, rp_error *err);
hal_ranges *hal_capture_allowed(const hal_device *d); /* NULL when none is under way */
const hal_device *
hal_capture_forbidden(const hal_device *d); /* likewise, or when it may name all */
rp_status hal_refuse_captured(hal_device *d, const char *what, rp_error *err) RP_MUST_USE;
/* For the table of a device whose driver captures: keeps is false, and close gives the first failure and forgets the rest. */
rp_status hal_note_open(hal_device *d, bool keeps, rp_error *err) RP_MUST_USE;
uint32_t hal_note_count(const hal_device *d); /* launches, copies and fills so far */
rp_status hal_note_close(hal_device *d, rp_error *err);
const char *hal_branch_name(hal_branch kind);
/* Members of the table of devices that keep the lists. */
rp_status hal_note_branch(hal_device *d, hal_branch kind, const void *pred, rp_error *err);
rp_status hal_note_join(hal_device *d, rp_error *err);
rp_status hal_note_begin(hal_device *d, rp_error *err);
rp_status hal_note_end(hal_device *d, const char *label, hal_graph **out, uint32_t *out_n,
                       rp_error *err);

/* Events of devices that have done what they are given when the call returns. */
rp_status hal_done_event_new(hal_device *d, hal_event **out, rp_error *err);
void hal_done_event_free(hal_event *e);
rp_status hal_done_event_record(hal_device *d, hal_event *e, rp_error *err);
rp_status hal_done_event_wait(hal_device *d, hal_event *e, rp_error *err);
rp_status hal_done_event_synchronize(hal_event *e, rp_error *err);

/* What the tables of devices share whose memory is the host's and whose calls are over when they return. */
#define HAL_HOST_OPS                                                                               \
    .release = hal_memory_release, .reserve = hal_memory_reserve, .commit = hal_memory_commit,     \
    .unreserve = hal_memory_unreserve, .copy = hal_memory_copy, .copy_runs = hal_memory_copy_runs, \
    .upload = hal_memory_upload, .fill = hal_memory_fill, .capture_begin = hal_note_begin,         \
    .capture_end = hal_note_end, .capture_branch = hal_note_branch, .capture_join = hal_note_join, \
    .event_new = hal_done_event_new, .event_free = hal_done_event_free,                            \
    .event_record = hal_done_event_record, .event_wait = hal_done_event_wait,                      \
    .event_synchronize = hal_done_event_synchronize

/* Bytes that a copy of a launch list with its arrays takes; false on overflow. */
bool hal_list_bytes(const hal_launch *list, uint32_t n, size_t *out);
/* Copies list with its arg and dim arrays into dst (of that many bytes, 16-byte aligned). Names stay
 * borrowed. */
hal_launch *hal_list_copy(void *dst, const hal_launch *list, uint32_t n);

/* Parts of a device, in their own files. */
hal_ranges *hal_ranges_new(void);
void hal_ranges_free(hal_ranges *r);
/* Adds what may overlap or touch other ranges, which become one with it. */
rp_status hal_ranges_join(hal_ranges *r, const void *p, size_t size, const char *what,
                          rp_error *err) RP_MUST_USE;
bool hal_ranges_cover(hal_ranges *r, const void *p, size_t size);
bool hal_ranges_meet(hal_ranges *r, const void *p, size_t size);
enum { HAL_LOG_WIDTH = 96 };
struct hal_log {
    atomic_bool on;
    pthread_mutex_t lock; /* of what follows */
    char (*line)[HAL_LOG_WIDTH];
    size_t n; /* events since recording began */
};
hal_log *hal_log_new(void);
void hal_log_free(hal_log *log);
/* One line "verb text"; nothing unless recording is on. Thread-safe. */
void hal_log_line(hal_log *log, const char *verb, const char *text);
/* One of each launch; likewise. */
void hal_log_launches(hal_log *log, const hal_launch *list, uint32_t n);

static inline void hal_note_launch(hal_device *d, const hal_launch *list, uint32_t n) {
    d->counters.launches += n;
    for (uint32_t i = 0; i < n; i++) d->counters.attention_calls += list[i].attention;
    if (atomic_load_explicit(&d->log->on, memory_order_relaxed)) hal_log_launches(d->log, list, n);
}

#endif
