/* Who made a temporary file is in its name: <name>.tmp-<host>-<pid>-<start>-<serial>. A maker of this
 * host is dead or not, whatever the age of the file; one of another host (a folder may be shared by machines
 * and containers) is taken for dead after an hour. Reading /proc here is never made to fail: an unknown maker
 * is an old one, no more. Thread-safe. */
#include "base/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sys.h"

enum { LEFT_SECONDS = 3600, ROOM = 65536 };

/* ---- makers ---- */

static size_t read_small(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) (void)close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

static uint32_t this_host(void) {
    static _Atomic uint32_t known;
    uint32_t host = atomic_load(&known);
    char text[256];
    if (host) return host;
    size_t n = read_small("/proc/sys/kernel/random/boot_id", text, 64);
    ssize_t m = readlink("/proc/self/ns/pid", text + n, sizeof text - n);
    if (m > 0) n += (size_t)m;
    host = (uint32_t)base_hash64(text, n) | 1u;
    atomic_store(&known, host);
    return host;
}

/* State letter and start of a process; false when /proc shows none. The name before them may hold anything. */
static bool read_stat(uint64_t pid, char *state, uint64_t *start) {
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    const char *p = read_small(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (!p || !p[1]) return false;
    *state = *(p += 2);
    for (int field = 3; p && field < 22; field++) p = strchr(p + 1, ' ');
    *start = p ? strtoull(p, NULL, 10) : 0;
    return p != NULL;
}

base_maker base_maker_self(void) {
    base_maker m = {this_host(), (uint64_t)getpid(), 0};
    char state;
    (void)read_stat(m.pid, &state, &m.start);
    return m;
}

static bool is_gone(uint64_t pid) {
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

base_fate base_maker_fate(const base_maker *m) {
    char state = 0;
    uint64_t start = 0;
    if (m->host != this_host() || m->pid == 0) return BASE_UNKNOWN;
    if (is_gone(m->pid)) return BASE_DEAD;
    /* hidden, or gone by now */
    if (!read_stat(m->pid, &state, &start)) return is_gone(m->pid) ? BASE_DEAD : BASE_UNKNOWN;
    if (start != m->start || state == 'Z' || state == 'X') return BASE_DEAD;
    return state == 'T' || state == 't' ? BASE_STOPPED : BASE_ALIVE;
}

void base_maker_put(const base_maker *m, base_buf *b) {
    base_buf_printf(b, "%08x-%" PRIu64 "-%" PRIu64, m->host, m->pid, m->start);
}

static const char *parse_number(const char *p, int base, uint64_t *out) {
    char *end = NULL;
    if (!(*p >= '0' && *p <= '9') && !(base == 16 && *p >= 'a' && *p <= 'f')) return NULL;
    *out = strtoull(p, &end, base);
    return end;
}

const char *base_maker_parse(const char *text, base_maker *out) {
    uint64_t host = 0;
    const char *p = parse_number(text, 16, &host);
    if (!p || p != text + 8 || *p++ != '-') return NULL;
    if (!(p = parse_number(p, 10, &out->pid)) || *p++ != '-') return NULL;
    if (!(p = parse_number(p, 10, &out->start))) return NULL;
    out->host = (uint32_t)host;
    return p;
}

/* ---- names ---- */

void base_temp_name(const char *path, base_buf *b) {
    static _Atomic uint64_t serial;
    const base_maker self = base_maker_self();
    base_buf_printf(b, "%s" BASE_TEMP_INFIX, path);
    base_maker_put(&self, b);
    base_buf_printf(b, "-%" PRIu64, atomic_fetch_add(&serial, 1));
}

bool base_temp_is_left(const char *name, int64_t mtime) {
    base_maker m;
    const char *p = strstr(name, BASE_TEMP_INFIX);
    if (!p) return false;
    base_fate fate = base_maker_parse(p + sizeof BASE_TEMP_INFIX - 1, &m) ? base_maker_fate(&m)
                                                                          : BASE_UNKNOWN;
    return fate == BASE_DEAD || (fate == BASE_UNKNOWN && time(NULL) - mtime > LEFT_SECONDS);
}

/* ---- folders ---- */

const char *base_temp_place(size_t i) {
    static const char *const fixed[] = {"/tmp", "/dev/shm"};
    const char *tmp = base_env_get(BASE_ENV_TMPDIR);
    if (tmp && i-- == 0) return tmp;
    for (size_t j = 0; j < sizeof fixed / sizeof *fixed; j++)
        if (!(tmp && strcmp(tmp, fixed[j]) == 0) && i-- == 0) return fixed[j];
    return NULL;
}

/* A folder that can be made may still be on a disk that is full. */
static bool takes_files(const char *dir) {
    static const char zeros[ROOM];
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/room", dir);
    int fd = b.failed || base_sys_fails()
                 ? -1
                 : open(b.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && !base_sys_fails() && write(fd, zeros, ROOM) == ROOM;
    int code = errno;
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(b.data);
    }
    base_buf_done(&b);
    errno = code;
    return good;
}

static rp_status make_in(const char *where, const char *prefix, char **out, rp_error *err) {
    base_buf path, name;
    base_buf_init(&path, 0);
    base_buf_init(&name, 0);
    base_buf_printf(&path, "%s/%s", where, prefix);
    if (!path.failed) base_temp_name(path.data, &name);
    rp_status st = path.failed ? base_buf_status(&path, err) : base_buf_status(&name, err);
    if (st == RP_OK) {
        bool made = !base_sys_fails() && mkdir(name.data, 0700) == 0;
        if (!made || !takes_files(name.data)) {
            st = rp_fail(err, RP_IO, "%s: %s", where, base_errno_text(errno));
            if (made) (void)rmdir(name.data);
        }
    }
    if (st == RP_OK) *out = base_buf_take(&name);
    base_buf_done(&path);
    base_buf_done(&name);
    return st;
}

rp_status base_temp_dir(const char *prefix, char **out, rp_error *err) {
    rp_error first = {0};
    for (size_t i = 0; base_temp_place(i); i++) {
        rp_error why = {0};
        rp_status st = make_in(base_temp_place(i), prefix, out, &why);
        if (st == RP_NOMEM) return rp_fail(err, st, "%s", why.text);
        if (st == RP_OK && i > 0)
            base_log(RP_LOG_WARNING, "no temporary folder can be made in %s; %s is used",
                     first.text, base_temp_place(i));
        if (st == RP_OK) return RP_OK;
        if (i == 0) first = why;
    }
    return rp_fail(err, RP_IO,
                   "no temporary folder can be made in %s (nor in /dev/shm); set TMPDIR",
                   first.text);
}

/* ---- what was left ---- */

typedef struct sweep {
    const char *dir, *prefix;
} sweep;

static rp_status visit(void *user, const char *name, bool is_dir, rp_error *err) {
    const sweep *w = user;
    struct stat info;
    (void)is_dir;
    if (strncmp(name, w->prefix, strlen(w->prefix)) != 0 || !strstr(name, BASE_TEMP_INFIX))
        return RP_OK;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/%s", w->dir, name);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK && lstat(b.data, &info) == 0 && info.st_uid == geteuid() &&
        base_temp_is_left(name, info.st_mtime)) {
        base_log(RP_LOG_DEBUG, "%s was left by a process that was killed: removed", b.data);
        st = base_path_remove(b.data, err);
    }
    base_buf_done(&b);
    return st;
}

void base_temp_sweep(const char *dir, const char *prefix) {
    rp_error why = {0};
    sweep w = {dir, prefix};
    rp_status st = base_dir_list(dir, visit, &w, &why);
    if (st != RP_OK && st != RP_NOT_FOUND)
        base_log(RP_LOG_DEBUG, "what killed processes left stays: %s", why.text);
}

void base_temp_dirs_sweep(const char *prefix) {
    for (size_t i = 0; base_temp_place(i); i++) base_temp_sweep(base_temp_place(i), prefix);
}
