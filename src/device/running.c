#include "device/running.h"

/* The first threads have a line each, later ones share as many others. */
enum { OWN = 64, LINES = 2 * OWN };

static _Alignas(sizeof(device_line)) device_line lines[LINES];
static atomic_uint threads;
static _Thread_local device_thread own;

device_thread *device_thread_this(void) {
    return &own;
}

void device_thread_join(device_thread *t) {
    unsigned i = atomic_fetch_add(&threads, 1);
    t->shared = i >= OWN;
    t->line = &lines[i < OWN ? i : OWN + i % OWN];
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
