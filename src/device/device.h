/* The public device as the rooms above see it. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "config/config.h"
#include "hal/hal.h"
#include "reprise/device.h"

/* The name that it was opened by. */
const char *device_name(const rp_device *d);
/* A queue of d for one owner; hal_close before the owner's rp_device_close. */
rp_status device_queue(rp_device *d, hal_device **out, rp_error *err) RP_MUST_USE;
/* The first queue: memory and events alone, which are thread-safe. */
hal_device *device_root(const rp_device *d);
/* The library's own memory, also while calls are captured; 1 byte at least. A capture may name it where hal_capture_allow says so alone. */
rp_status device_alloc(rp_device *d, size_t size, void **out, rp_error *err) RP_MUST_USE;
void device_free(rp_device *d, void *p);
const hal_device *device_own(const rp_device *d); /* the queue that has it; NULL: none yet */
/* One thing that d knows, for a room above: NULL at first. The caller holds the lock, and what it puts there refers to d and takes itself away. */
void **device_default_lock(rp_device *d);
void device_default_unlock(rp_device *d);
/* Whether kernels of d reach p: always, but on a GPU, which knows the driver's memory alone. */
bool device_reaches(const rp_device *d, const void *p);
bool device_is_host(const rp_device *d); /* its memory is the host's */
/* The queue whose calls this thread captures from now on, NULL: none; gives the one before. rp_device_alloc
 * and rp_device_free spoil its capture. */
hal_device *device_capturing(hal_device *queue);
/* Before something runs on queue (NULL: on one of its own): RP_INVALID, which is what the capture fails with too, where this
 * thread captures another. call: what it is; hint: what to do instead. */
rp_status device_check_captured(const hal_device *queue, const char *call, const char *hint,
                                rp_error *err) RP_MUST_USE;
/* Instead of running what is compiled. */
#define DEVICE_RUN_CAPTURED "it is rp_call_compiled or rp_compiled_run_on of rp_call_stream"
uint64_t device_frees(const rp_device *d); /* times that rp_device_free had something */
/* hal's reserve, commit and unreserve, on the queue that memory of the device is from. */
rp_status device_reserve(rp_device *d, size_t size, hal_reserved **out, rp_error *err) RP_MUST_USE;
rp_status device_commit(hal_reserved *r, size_t size, rp_error *err) RP_MUST_USE;
void device_unreserve(hal_reserved *r); /* NULL is fine */
/* RP_CONFIG where `device` or `threads` are set in cfg and name another device or other threads than d has. */
rp_status device_agrees(const rp_device *d, const rp_compilation_config *cfg,
                        rp_error *err) RP_MUST_USE;

#endif
