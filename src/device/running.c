#include "device/running.h"

#include <stdatomic.h>

/* A counter's line is that of few threads, so that calls of many do not wait for each other. */
enum { LINES = 64, LINE = 64 };

typedef struct line {
    _Atomic uint64_t begun, ended;
    char rest[LINE - 2 * sizeof(uint64_t)];
} line;

static line lines[LINES];
static atomic_uint threads;
static _Thread_local struct {
    line *line;
    uint64_t begun, ended;
} own;

void device_run_begin(void) {
    if (!own.line) own.line = &lines[atomic_fetch_add(&threads, 1) % LINES];
    own.begun++;
    (void)atomic_fetch_add(&own.line->begun, 1);
}

void device_run_end(void) {
    own.ended++;
    (void)atomic_fetch_add(&own.line->ended, 1);
}

/* What ended is read first: where as much has begun afterwards, nothing was under way in between. */
device_moment device_now(void) {
    uint64_t begun = 0, ended = 0;
    for (int i = 0; i < LINES; i++) ended += atomic_load(&lines[i].ended);
    for (int i = 0; i < LINES; i++) begun += atomic_load(&lines[i].begun);
    begun -= own.begun;
    return (device_moment){begun == ended - own.ended, begun};
}

bool device_alone_since(device_moment then) {
    return then.alone && device_now().begun == then.begun;
}
