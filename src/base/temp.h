/* Temporary files and folders whose names say who made them, so that what a killed process left is known for sure. */
#ifndef BASE_TEMP_H
#define BASE_TEMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* A process as names and lock files hold it. The start tells it from a later one with the same number; the host is the
 * boot of a machine and a namespace of process numbers, outside of which these mean nothing. */
typedef struct base_maker {
    uint32_t host;
    uint64_t pid, start;
} base_maker;

typedef enum base_fate {
    BASE_ALIVE,
    BASE_STOPPED, /* by a signal or a debugger */
    BASE_DEAD,
    BASE_UNKNOWN /* of another machine, container or boot */
} base_fate;

base_maker base_maker_self(void);
base_fate base_maker_fate(const base_maker *m);
/* <host>-<pid>-<start> */
void base_maker_put(const base_maker *m, base_buf *b);
/* Reads it back from the start of text; NULL when there is none, else what follows it. */
const char *base_maker_parse(const char *text, base_maker *out);

/* What the name of everything temporary holds. */
#define BASE_TEMP_INFIX ".tmp-"
/* <path>.tmp-<maker>-<serial> into b. */
void base_temp_name(const char *path, base_buf *b);
/* Whether a file or folder of this name was left behind: its maker is dead or, where that cannot be known, it was
 * changed (mtime, seconds) more than an hour ago. False for names that are not temporary. */
bool base_temp_is_left(const char *name, int64_t mtime);
/* Where folders of the next kind are made, in order: TMPDIR, /tmp and /dev/shm, each once; NULL behind the last. */
const char *base_temp_place(size_t i);
/* A new folder <prefix>.tmp-<maker>-<serial>, mode 0700, in the first of TMPDIR, /tmp and /dev/shm that takes files.
 * Owned by the caller, who removes it. */
rp_status base_temp_dir(const char *prefix, char **out, rp_error *err) RP_MUST_USE;
/* Removes what ended processes of this user left in those folders under this prefix. Best effort. */
void base_temp_dirs_sweep(const char *prefix);
/* The same for everything temporary right in one folder whose name begins with prefix ("": all). */
void base_temp_sweep(const char *dir, const char *prefix);

#endif
