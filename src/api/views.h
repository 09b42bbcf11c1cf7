/* Memory of a frame for dense copies of what calls are given as views. */
#ifndef API_VIEWS_H
#define API_VIEWS_H

#include "hal/hal.h"

/* Grows with the calls; zeroed: none yet. One call at a time. */
typedef struct api_views {
    char *host, *device;
    size_t host_size, device_size;
} api_views;

/* d: whose memory it is; NULL where there is none but the host's. */
void api_views_done(api_views *v, hal_device *d);

#endif
