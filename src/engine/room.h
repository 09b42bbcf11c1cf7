/* Memory of a step that a setting decides: what does not fit is told with that setting and a value that does. One thread at a time. */
#ifndef ENGINE_ROOM_H
#define ENGINE_ROOM_H

#include "hal/hal.h"

typedef struct engine_room {
    const char *what, *setting; /* for the error */
    int64_t value;              /* of the setting */
    hal_memory kind;
    size_t size;
} engine_room;

/* RP_NOMEM names the setting that asked for it and half of the largest value that fits. */
rp_status engine_room_take(hal_device *d, const engine_room *room, void **out,
                           rp_error *err) RP_MUST_USE;
/* Whether there is room now. */
bool engine_room_fits(hal_device *d, const engine_room *room);
/* That error. */
rp_status engine_room_refuse(hal_device *d, const engine_room *room, rp_error *err);

#endif
