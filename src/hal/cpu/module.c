/* Code objects of the cpu: shared objects opened with dlopen, symbols private to each. Whoever loads
 * one has checked it: opening it runs its constructors.
 *
 * What is opened is a copy in memory: code runs on when its file is cut short or on a mount that is noexec. The file
 * itself is for systems that execute no memory files. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/temp.h"
#include "hal/cpu/cpu.h"
#include "hal/hal.h"

struct hal_module {
    void *handle;
    int fd; /* of the copy in memory; -1: the file itself. Open as long as the name in /proc must be this one's */
};

/* The loader's text, without a newline that some versions append. */
static base_str loader_error(void) {
    base_str s = base_str_of(dlerror());
    while (s.len && s.ptr[s.len - 1] == '\n') s.len--;
    return s;
}

static bool may_map(int fd) {
    void *p = base_sys_fails() ? MAP_FAILED
                               : mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    bool refused = p == MAP_FAILED && (errno == EPERM || errno == EACCES);
    if (p != MAP_FAILED) (void)munmap(p, 1);
    return !refused;
}

/* Is it the place that cannot be executed, not the code? */
static bool is_refused(const char *path) {
    int fd = base_sys_fails() ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    bool refused = fd >= 0 && !may_map(fd);
    if (fd >= 0) (void)close(fd);
    return refused;
}

static int new_memory_file(void) {
    if (base_sys_fails()) return -1;
#ifdef MFD_EXEC
    int fd = memfd_create("reprise-code", MFD_CLOEXEC | MFD_EXEC);
    if (fd >= 0 || errno != EINVAL) return fd; /* EINVAL: a kernel without the flag */
#endif
    return memfd_create("reprise-code", MFD_CLOEXEC);
}

static rp_status copy_to_memory(const char *path, int *out_fd, rp_error *err) {
    base_mapping file = {0};
    RP_TRY(base_file_map(path, &file, err));
    int fd = new_memory_file();
    bool copied = fd >= 0 && !base_sys_fails() &&
                  write(fd, file.data, file.size) == (ssize_t)file.size;
    int code = errno;
    rp_status st =
        copied ? base_mapping_check(&file, path, false, err)
               : rp_fail(err, RP_UNSUPPORTED, "no memory file for code: %s", base_errno_text(code));
    base_file_unmap(&file);
    if (st == RP_OK)
        *out_fd = fd;
    else if (fd >= 0)
        (void)close(fd);
    return st;
}

/* Sets m->handle, or why not. */
static void load_from_memory(hal_module *m, const char *path, rp_error *why) {
    char name[64];
    if (copy_to_memory(path, &m->fd, why) != RP_OK) return;
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", m->fd);
    if (!base_sys_fails()) m->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (m->handle) return;
    base_str s = loader_error();
    (void)rp_fail(why, RP_UNSUPPORTED, "%.*s", (int)s.len, s.len ? s.ptr : "");
}

/* A copy in a folder for temporary files, gone from it as soon as it is loaded; NULL where that does not go. */
static void *open_copy_in(const char *place, const char *path) {
    void *handle = NULL;
    base_mapping file = {0};
    base_buf plain, name;
    base_buf_init(&plain, 0);
    base_buf_init(&name, 0);
    base_buf_printf(&plain, "%s/reprise-code", place);
    if (!plain.failed) base_temp_name(plain.data, &name);
    int fd = plain.failed || name.failed || base_sys_fails()
                 ? -1
                 : open(name.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        bool copied = base_file_map(path, &file, NULL) == RP_OK && !base_sys_fails() &&
                      write(fd, file.data, file.size) == (ssize_t)file.size;
        base_file_unmap(&file);
        (void)close(fd);
        if (copied && !base_sys_fails()) handle = dlopen(name.data, RTLD_NOW | RTLD_LOCAL);
        (void)unlink(name.data);
    }
    base_buf_done(&name);
    base_buf_done(&plain);
    return handle;
}

static bool load_from_place(hal_module *m, const char *path) {
    const char *place;
    for (size_t i = 0; !m->handle && (place = base_temp_place(i)); i++)
        m->handle = open_copy_in(place, path);
    return m->handle != NULL;
}

static rp_status load(hal_module *m, const char *path, rp_error *err) {
    rp_error memory = {0};
    load_from_memory(m, path, &memory);
    if (!m->handle && !base_sys_fails()) m->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (m->handle) return RP_OK;
    base_str why = loader_error();
    if (is_refused(path)) {
        if (load_from_place(m, path)) return RP_OK;
        return rp_fail(err, RP_UNSUPPORTED,
                       "code cannot be executed where %s is (noexec), nor from TMPDIR, /tmp or "
                       "/dev/shm, nor from memory: %s",
                       path, memory.text);
    }
    return rp_fail(err, RP_DEVICE, "code object %s cannot be loaded: %.*s", path, (int)why.len,
                   why.len ? why.ptr : "");
}

const char *hal_code_note(const char *dir) {
    struct statvfs info;
    if (statvfs(dir, &info) != 0 || !(info.f_flag & ST_NOEXEC)) return NULL;
    int fd = new_memory_file();
    bool good = fd >= 0 && ftruncate(fd, 1) == 0 && may_map(fd);
    if (fd >= 0) (void)close(fd);
    return good ? "mounted noexec: code is loaded from memory"
                : "mounted noexec, and memory cannot be executed, either: code is loaded from "
                  "TMPDIR, "
                  "/tmp or /dev/shm where one of them can, else the built-in portable kernels run";
}

rp_status cpu_module_load(hal_device *d, const char *path, hal_module **out, rp_error *err) {
    RP_TRY(hal_may_load(d, path, err));
    base_buf local;
    base_buf_init(&local, 0);
    rp_status st = RP_OK;
    hal_module *m = base_alloc(sizeof *m);
    if (m) m->fd = -1;
    /* Without a slash the loader would search its own folders. */
    base_buf_printf(&local, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (!m || local.failed) {
        st = rp_fail(err, RP_NOMEM, "no memory to load %s", path);
        goto out;
    }
    RP_TRY_OUT(load(m, local.data, err));
    hal_note_module(d, path);
    *out = m;
    m = NULL;
out:
    base_buf_done(&local);
    cpu_module_free(m);
    return st;
}

rp_status cpu_module_symbol(hal_module *m, const char *name, hal_function *out, rp_error *err) {
    void *p = dlsym(m->handle, name);
    if (!p) return rp_fail(err, RP_DEVICE, "code object has no kernel named %s", name);
    memcpy(&out->host, &p, sizeof out->host); /* ISO C has no cast from data to function pointers */
    return RP_OK;
}

void cpu_module_free(hal_module *m) {
    if (!m) return;
    if (m->handle) (void)dlclose(m->handle);
    if (m->fd >= 0) (void)close(m->fd);
    base_free(m);
}
