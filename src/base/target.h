/* Where a command writes a file that may be large. */
#ifndef BASE_TARGET_H
#define BASE_TARGET_H

#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* A regular file appears whole or not at all, links to it followed; anything else that is there (a device, a pipe) is
 * written to as it is, and so is standard output, whose path is "-". One thread at a time. */
typedef struct base_target base_target;

/* what names the contents, which a terminal is not given; mode is a new file's. */
rp_status base_target_open(const char *path, const char *what, mode_t mode, base_target **out,
                           rp_error *err) RP_MUST_USE;
rp_status base_target_write(base_target *t, const void *data, size_t size,
                            rp_error *err) RP_MUST_USE;
/* Closes, and gives a file its name when st is RP_OK; else leaves no trace of it. Gives st, or what failed here. NULL is
 * fine. */
rp_status base_target_close(base_target *t, rp_status st, rp_error *err) RP_MUST_USE;

#endif
