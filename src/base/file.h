/* Files: whole reads, read-only maps, atomic writes, folders. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guard.h"

/* Whole file, NUL-terminated beyond *out_size, owned by the caller (base_free).
 * RP_NOT_FOUND, RP_IO; RP_INVALID when larger than max_size. */
rp_status base_file_read(const char *path, size_t max_size, char **out, size_t *out_size,
                         rp_error *err) RP_MUST_USE;

/* Read-only shared map of a file. size 0 gives data NULL. Pages that the file loses meanwhile read as zeros. */
typedef struct base_mapping {
    const uint8_t *data;
    size_t size;
    base_guard *guard; /* NULL: of no file, or of one too many */
} base_mapping;
rp_status base_file_map(const char *path, base_mapping *out, rp_error *err) RP_MUST_USE;
void base_file_unmap(base_mapping *m);
/* RP_IO when the file was cut short since it was mapped or, if times count, written to: what was read may be neither the
 * old bytes nor the new ones. path is for the text. One system call. */
rp_status base_mapping_check(const base_mapping *m, const char *path, bool times,
                             rp_error *err) RP_MUST_USE;
/* Tells the kernel that [offset, offset+size) will not be read again soon. */
void base_mapping_drop(const base_mapping *m, size_t offset, size_t size);

/* Temporary name in the same folder, fsync, rename. Nothing half-written on failure. */
rp_status base_file_write_atomic(const char *path, const void *data, size_t size,
                                 rp_error *err) RP_MUST_USE;
/* A new file, at once under its name and on no disk yet: for scratch of one's own. */
rp_status base_file_write(const char *path, const void *data, size_t size,
                          rp_error *err) RP_MUST_USE;
bool base_file_exists(const char *path);
/* mkdir -p; what it creates has mode 0755 less the umask: others may read, whatever the umask never write. */
rp_status base_dir_make(const char *path, rp_error *err) RP_MUST_USE;
/* Removes a file or a whole folder; a missing one is no error. */
rp_status base_path_remove(const char *path, rp_error *err) RP_MUST_USE;
/* Calls fn for every entry (not "." and ".."), in name order; stops at the first non-OK. */
typedef rp_status (*base_dir_fn)(void *user, const char *name, bool is_dir, rp_error *err);
rp_status base_dir_list(const char *path, base_dir_fn fn, void *user, rp_error *err) RP_MUST_USE;

/* For fault tests: fails the n-th file or process system call made through base; 0 = off. Returns whether the previous
 * setting had fired. */
bool base_sys_fail_nth(uint64_t n);
/* As base_alloc_watch, of such calls. */
void base_sys_watch(void (*seen)(void));
/* Number of such calls since process start. */
uint64_t base_sys_count(void);

#endif
