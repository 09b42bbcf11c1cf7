/* flock on a file that names its holder: the kernel drops it with the holder, however that ends. The file goes when
 * the lock is dropped, so a lock counts only while its file still has its name. A file is removed under a lock of the
 * folder alone: between looking whose name it is and taking it away nobody else can have made a lock of that name. Who
 * waits polls: it must notice a holder that was stopped and a caller that no longer wants. */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/temp.h"

enum { STOPPED_MS = 1000, MIN_NAP_MS = 1, MAX_NAP_MS = 20, FOLDER_TRIES = 100 };

struct base_lock {
    int fd;
    char *path;
};

typedef struct wait_state {
    int64_t since, stopped_since; /* of the present holder; 0: not */
    base_maker holder;
    uint32_t nap_ms, n_busy; /* n_busy: times that others kept the folder */
} wait_state;

static int open_lock(const char *path) {
    return base_sys_fails() ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
}

/* Does the file still have its name? */
static bool is_current(int fd, const char *path) {
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* A lock of the folder that path is in: its descriptor; -1 and errno, EWOULDBLOCK while another has it. */
static int lock_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *dir = slash ? base_strndup(path, (size_t)(slash - path) + 1) : base_strdup(".");
    int fd = -1;
    if (!dir)
        errno = ENOMEM;
    else if (!base_sys_fails())
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    base_free(dir);
    if (fd < 0 || (!base_sys_fails() && flock(fd, LOCK_EX | LOCK_NB) == 0)) return fd;
    int code = errno;
    (void)close(fd);
    errno = code;
    return -1;
}

/* Removes an open lock file: 0; ESTALE when its name is gone or another's; EWOULDBLOCK while somebody else removes one in
 * this folder; or why it cannot be done. */
static int remove_file(int fd, const char *path) {
    int folder = lock_folder(path), code = 0;
    if (folder < 0) return errno;
    if (!is_current(fd, path))
        code = ESTALE;
    else if (unlink(path) != 0)
        code = errno;
    (void)close(folder);
    return code;
}

static bool read_holder(int fd, base_maker *m) {
    char text[80] = {0};
    return pread(fd, text, sizeof text - 1, 0) > 0 && base_maker_parse(text, m);
}

/* For those who wait; without it they only cannot tell that the holder is stopped. */
static void write_holder(int fd) {
    const base_maker self = base_maker_self();
    base_buf b;
    base_buf_init(&b, 0);
    base_maker_put(&self, &b);
    if (b.failed || ftruncate(fd, 0) != 0 || pwrite(fd, b.data, b.len, 0) < 0)
        base_log(RP_LOG_DEBUG, "a lock file does not name its holder");
    base_buf_done(&b);
}

static void nap(uint32_t ms) {
    const struct timespec t = {0, (long)ms * 1000000};
    (void)nanosleep(&t, NULL);
}

static int64_t ms_since(int64_t t0) {
    return (base_now_ns() - t0) / 1000000;
}

/* A holder that is seen for the first time. */
static void meet(wait_state *w, const base_maker *m, const char *what) {
    if (w->holder.pid == m->pid && w->holder.start == m->start) return;
    *w = (wait_state){.since = base_now_ns(), .holder = *m, .nap_ms = w->nap_ms};
    base_log_ch(RP_LOG_CH_CACHE, false, "process %llu is making %s: waiting for it",
                (unsigned long long)m->pid, what);
}

/* Why the lock is taken from its holder: it does not run, or has had it for too long. NULL: it is waited for. */
static const char *overdue(int fd, const base_lock_options *o, wait_state *w) {
    base_maker m = {0};
    bool known = read_holder(fd, &m);
    if (known) meet(w, &m, o->what);
    if (!known || base_maker_fate(&m) != BASE_STOPPED)
        w->stopped_since = 0;
    else if (!w->stopped_since)
        w->stopped_since = base_now_ns();
    if (w->stopped_since && ms_since(w->stopped_since) > STOPPED_MS) return "is stopped";
    return ms_since(w->since) > o->patience_ms ? "takes too long" : NULL;
}

/* Takes the lock of an open file; 0, or why not: EWOULDBLOCK when another holds it, ESTALE when the file lost its name. */
static int try_lock(int fd, const char *path) {
    if (base_sys_fails() || flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK && !is_current(fd, path) ? ESTALE : errno;
    return is_current(fd, path) ? 0 : ESTALE;
}

/* One turn of waiting. *code: ESTALE to try again, or why that has no sense. */
static rp_status wait_a_while(int fd, const base_lock_options *o, wait_state *w, int *code,
                              rp_error *err) {
    if (o->wanted && !o->wanted(o->user))
        return rp_fail(err, RP_CANCELLED, "waiting for %s was stopped", o->what);
    const char *why = overdue(fd, o, w);
    int removed = why ? remove_file(fd, o->path) : EWOULDBLOCK;
    *code = ESTALE;
    if (removed == EWOULDBLOCK && (!why || w->n_busy++ < FOLDER_TRIES)) {
        nap(w->nap_ms);
        if (w->nap_ms < MAX_NAP_MS) w->nap_ms *= 2;
        return RP_OK;
    }
    if (removed != ESTALE) /* its holder finds that it lost it, unless the file had to stay */
        base_log(RP_LOG_WARNING, "process %llu, which is making %s, %s: it is made here, too",
                 (unsigned long long)w->holder.pid, o->what, why);
    if (removed) *code = removed;
    *w = (wait_state){.since = base_now_ns(), .nap_ms = MIN_NAP_MS};
    return RP_OK;
}

/* *fd: the file, locked; -1 where that cannot be. */
static rp_status acquire(const base_lock_options *o, int *fd, bool *waited, rp_error *err) {
    wait_state w = {.since = base_now_ns(), .nap_ms = MIN_NAP_MS};
    for (;;) {
        rp_status st = RP_OK;
        *fd = open_lock(o->path);
        int code = *fd < 0 ? errno : try_lock(*fd, o->path);
        if (code == 0) return RP_OK;
        if (code == EWOULDBLOCK) {
            *waited = true;
            st = wait_a_while(*fd, o, &w, &code, err);
        }
        if (*fd >= 0) (void)close(*fd);
        *fd = -1;
        RP_TRY(st);
        if (code == ESTALE) continue;
        base_log_ch(RP_LOG_CH_CACHE, false, "%s is made without a lock: %s: %s", o->what, o->path,
                    base_errno_text(code));
        return RP_OK;
    }
}

rp_status base_lock_take(const base_lock_options *o, base_lock **out, bool *waited, rp_error *err) {
    *out = NULL;
    *waited = false;
    base_lock *l = base_alloc(sizeof *l);
    char *path = base_strdup(o->path);
    rp_status st = l && path ? RP_OK : rp_fail(err, RP_NOMEM, "no memory for a lock");
    if (st == RP_OK) st = acquire(o, &l->fd, waited, err);
    if (st != RP_OK || l->fd < 0) {
        base_free(path);
        base_free(l);
        return st;
    }
    write_holder(l->fd);
    l->path = path;
    *out = l;
    return RP_OK;
}

void base_lock_drop(base_lock *l) {
    if (!l) return;
    /* A file that stays, because others keep the folder, is one without a lock: the next taker has it at once. */
    for (int i = 0; i < FOLDER_TRIES && remove_file(l->fd, l->path) == EWOULDBLOCK; i++)
        nap(MIN_NAP_MS);
    (void)close(l->fd);
    base_free(l->path);
    base_free(l);
}

void base_lock_sweep(const char *path) {
    int fd = base_sys_fails() ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) (void)remove_file(fd, path);
    (void)close(fd);
}
