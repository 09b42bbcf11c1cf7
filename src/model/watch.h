/* Reports how much a folder holds while something else fills it. */
#ifndef MODEL_WATCH_H
#define MODEL_WATCH_H

#include "model/resolve.h"

typedef struct model_watch model_watch;

/* From a thread of its own, a few times a second, calls o->progress(phase, bytes below dir,
 * total), never with more than total. NULL when there is nobody to tell or no thread can be had:
 * progress is never worth a failure. Borrows all. */
model_watch *model_watch_start(const model_resolve_options *o, const char *phase, const char *dir,
                               uint64_t total);
/* Waits until the last call has returned; NULL is fine. */
void model_watch_stop(model_watch *w);

#endif
