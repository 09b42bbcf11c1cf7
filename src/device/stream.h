/* Streams as the rooms above see them: queues that can capture.
 *
 * While a stream captures, launches on its queue are noted. Whoever launches on it says what the launches may point to
 * (hal_capture_allow), what they write (hal_capture_wrote), and keeps alive what a replay needs (device_stream_keep). */
#ifndef DEVICE_STREAM_H
#define DEVICE_STREAM_H

#include "device/graph.h"

hal_device *device_stream_queue(const rp_stream *s);
bool device_stream_capturing(const rp_stream *s);
/* From now on calls on s are noted. */
rp_status device_stream_capture(rp_stream *s, rp_error *err) RP_MUST_USE;
/* Makes the graph; with out NULL the calls are forgotten. The first failure of a noted call is that of the capture. */
rp_status device_stream_finish(rp_stream *s, const char *label, device_graph **out,
                               rp_error *err) RP_MUST_USE;

/* The part that a capture of s made for owner and keeps (one that a graph of s has already is found again where it is still
 * valid), or NULL. */
device_part *device_stream_part(rp_stream *s, const void *owner);
/* Hands p over to the graph that is being captured, also on failure. */
rp_status device_stream_keep(rp_stream *s, device_part *p, rp_error *err) RP_MUST_USE;

#endif
