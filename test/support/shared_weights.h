/* Engines of one device over equal weights. */
#ifndef SUPPORT_SHARED_WEIGHTS_H
#define SUPPORT_SHARED_WEIGHTS_H

int shared_weights_run(const char *device, const char *group);

#endif
