/* What every device has to pass by the public API, emulated, real or none. */
#ifndef SUPPORT_DEVICES_H
#define SUPPORT_DEVICES_H

#include "support/check.h"

#include "reprise/reprise.h"

rp_device *device_open_ok(const char *name, uint32_t threads);
rp_stream *stream_open_ok(rp_device *d);

/* Memory, copies both ways, fills, and an event between two streams. */
void device_check_copies(const char *name);
/* Several engines on one device, one after the other and at once: each has its own counters, all the tokens of one with a
 * device of its own. */
void device_check_engines(const char *name);

#endif
