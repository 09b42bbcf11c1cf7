/* Devices and streams, which the parts of a program share.
 *
 * A device is opened once by name and given to engines (rp_engine_options.device), compiled graphs (rp_compile_on) and
 * automatic graphs (autograph.h): they have one pool of threads on a CPU and one context on a GPU between them. Whoever is
 * given a device keeps a reference of its own; the last one gives everything back.
 *
 *     rp_device *d = NULL;
 *     rp_stream *s = NULL;
 *     rp_status st = rp_device_open("cpu", 0, &d, &err);
 *     if (st == RP_OK) st = rp_compile_on(d, graph, NULL, &c, &err);
 *     if (st == RP_OK) st = rp_stream_open(d, &s, &err);
 *     if (st == RP_OK) st = rp_compiled_run_on(c, s, &in, 1, &out, 1, &err);
 *     ...
 *     rp_stream_close(s);
 *     rp_compiled_free(c);
 *     rp_device_close(d);
 */
#ifndef REPRISE_DEVICE_H
#define REPRISE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Thread-safe. */
typedef struct rp_device rp_device;
/* Calls in order. One thread at a time; streams of one device may be used at once. */
typedef struct rp_stream rp_stream;
/* A place in a stream. Recorded by one thread at a time, waited for by any number. */
typedef struct rp_event rp_event;

/* name: "cpu", "null" (runs nothing: launches are counted), "cuda" (the first GPU) or "cuda:N"; NULL: "cpu". threads: of the
 * host, at most, that its launches may use, the caller's among them; 0: one for each core that the process may use. RP_CONFIG for
 * an unknown name, RP_UNSUPPORTED, with what to do, where there is no such GPU. The caller owns one reference. */
RP_API rp_status rp_device_open(const char *name, uint32_t threads, rp_device **out,
                                rp_error *err) RP_MUST_USE;
/* One reference more, which wants an rp_device_close of its own. Gives d; NULL stays NULL. */
RP_API rp_device *rp_device_ref(rp_device *d);
/* Gives one reference back, and with the last one the device: threads, context, and memory from rp_device_alloc that was not
 * freed (a warning tells how much). NULL is fine. */
RP_API void rp_device_close(rp_device *d);

typedef struct rp_device_info {
    size_t size;      /* sizeof(rp_device_info), set by the caller; may be an older, smaller one */
    const char *name; /* as it was opened: "cpu", "cuda:0"; borrowed from the device */
    const char *description; /* "cpu", "NVIDIA H200"; borrowed from the device */
    uint32_t threads;        /* of the host */
    bool host_memory;        /* its memory is the host's: both may read and write it */
    uint64_t allocated;      /* bytes from rp_device_alloc that were not freed yet */
} rp_device_info;
#define RP_DEVICE_INFO_INIT \
    { sizeof(rp_device_info), NULL, NULL, 0, false, 0 }
/* Fills *out, whose size is set. */
RP_API rp_status rp_device_get_info(const rp_device *d, rp_device_info *out,
                                    rp_error *err) RP_MUST_USE;

/* Zeroed memory of the device, aligned for any kernel; an address even for 0 bytes. Compiled graphs and automatic graphs
 * take it as input and output, and a captured call may name no other memory than this and what it was given. */
RP_API rp_status rp_device_alloc(rp_device *d, size_t bytes, void **out, rp_error *err) RP_MUST_USE;
/* p is from rp_device_alloc of d, and what used it is over; NULL is fine. Another address is left alone, with an error in the
 * log. */
RP_API void rp_device_free(rp_device *d, void *p);

/* Keeps a reference of d. */
RP_API rp_status rp_stream_open(rp_device *d, rp_stream **out, rp_error *err) RP_MUST_USE;
/* Waits for what it holds. NULL is fine. */
RP_API void rp_stream_close(rp_stream *s);
/* Borrowed from the stream. */
RP_API rp_device *rp_stream_device(const rp_stream *s);
/* What the driver knows the stream by, for kernels and libraries of one's own (cuLaunchKernel, cublasSetStream): the CUstream, which
 * is the cudaStream_t too, of a GPU, whose context becomes that of the thread; NULL elsewhere. */
RP_API void *rp_stream_handle(rp_stream *s);
/* In turn with the stream's other calls. Either address may be the host's or the device's: memory of the host that is read is free
 * for other use when the call returns (what CUDA has pinned: when the stream has come there), what is written there is there after rp_stream_synchronize. The ranges do not overlap. RP_INVALID inside of a call that is captured, unless s is
 * rp_call_stream. */
RP_API rp_status rp_stream_copy(rp_stream *s, void *to, const void *from, size_t bytes,
                                rp_error *err) RP_MUST_USE;
RP_API rp_status rp_stream_fill(rp_stream *s, void *to, uint8_t byte, size_t bytes,
                                rp_error *err) RP_MUST_USE;
/* Waits for what it holds. RP_DEVICE when some of it failed, which is when it shows on a GPU. On a CPU calls have ended when they
 * return. RP_INVALID inside of a call that is captured (autograph.h). */
RP_API rp_status rp_stream_synchronize(rp_stream *s, rp_error *err) RP_MUST_USE;

/* Keeps a reference of d. */
RP_API rp_status rp_event_new(rp_device *d, rp_event **out, rp_error *err) RP_MUST_USE;
RP_API void rp_event_free(rp_event *e); /* NULL is fine */
/* Puts e behind all that s holds, instead of where it was. RP_INVALID inside of a call that is captured, and for two devices. */
RP_API rp_status rp_event_record(rp_event *e, rp_stream *s, rp_error *err) RP_MUST_USE;
/* What s gets from now on comes after e; the caller does not wait. An event that was never recorded is over. RP_INVALID as
 * above. */
RP_API rp_status rp_event_wait(rp_event *e, rp_stream *s, rp_error *err) RP_MUST_USE;
/* The caller waits. */
RP_API rp_status rp_event_synchronize(rp_event *e, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
