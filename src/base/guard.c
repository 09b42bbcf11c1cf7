/* The handler of SIGBUS behind guards, and the watch over their files.
 *
 * The handler runs on whichever thread reads, so it takes no lock and calls nothing but the kernel: places are fixed and
 * their borders are atomic. A place is filled and cleared under the lock. */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

enum { MAX_GUARDS = 256 };

struct base_guard {
    _Atomic uintptr_t start, end; /* whole pages; start 0: a free place */
    atomic_bool hit;
    int fd;
    off_t size;
    bool stamped; /* written is known */
    struct timespec written;
};

static base_guard places[MAX_GUARDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of taking places */
static unsigned n_up;
static enum { ABSENT, PRESENT, DISPLACED } handler;
static struct sigaction before; /* written while the handler is absent */

/* --- the handler --------------------------------------------------------------------- */

/* Zeros from the missing page to the end of the map: what a file lost at its end it lost to the end. */
static bool fill_in(uintptr_t at) {
    for (int i = 0; i < MAX_GUARDS; i++) {
        uintptr_t start = atomic_load(&places[i].start), end = atomic_load(&places[i].end);
        if (!start || at < start || at >= end) continue;
        at -= at % (uintptr_t)getpagesize();
        atomic_store(&places[i].hit, true);
        return mmap((void *)at, end - at, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

/* As if we were not here. */
static void hand_on(int sig, siginfo_t *info, void *context) {
    sigset_t mask;
    bool plain = !(before.sa_flags & SA_SIGINFO);
    bool sent = info->si_code <= 0; /* by a process: nothing is executed again on return */
    if (plain && before.sa_handler == SIG_IGN && sent) return;
    if (plain && (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)) {
        (void)signal(sig, SIG_DFL); /* the same access faults again and has the default effect */
        if (sent) (void)raise(sig);
        return;
    }
    (void)pthread_sigmask(SIG_BLOCK, &before.sa_mask, &mask);
    if (plain)
        before.sa_handler(sig);
    else
        before.sa_sigaction(sig, info, context);
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void on_fault(int sig, siginfo_t *info, void *context) {
    int code = errno;
    if (info->si_code != BUS_ADRERR || !fill_in((uintptr_t)info->si_addr))
        hand_on(sig, info, context);
    errno = code;
}

static void add_handler(void) {
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (handler != ABSENT) return;
    ours.sa_sigaction = on_fault;
    (void)sigemptyset(&ours.sa_mask);
    /* read first, so that the handler finds it */
    if (sigaction(SIGBUS, NULL, &before) == 0 && sigaction(SIGBUS, &ours, NULL) == 0)
        handler = PRESENT;
}

/* Somebody who came after us may hand faults on to us: then there is no way back in either direction. */
static void remove_handler(void) {
    struct sigaction now;
    if (handler != PRESENT) return;
    if (sigaction(SIGBUS, NULL, &now) != 0 || !(now.sa_flags & SA_SIGINFO) ||
        now.sa_sigaction != on_fault)
        handler = DISPLACED;
    else if (sigaction(SIGBUS, &before, NULL) == 0)
        handler = ABSENT;
}

/* --- guards ------------------------------------------------------------------------------ */

base_guard *base_guard_up(const void *start, size_t size, int fd) {
    struct stat info;
    base_guard *g = NULL;
    size_t page = (size_t)getpagesize();
    (void)pthread_mutex_lock(&lock);
    for (int i = 0; !g && i < MAX_GUARDS; i++)
        if (!atomic_load(&places[i].start)) g = &places[i];
    if (g) {
        g->fd = fd;
        g->size = (off_t)size;
        g->stamped = !base_sys_fails() && fstat(fd, &info) == 0;
        if (g->stamped) g->written = info.st_mtim;
        atomic_store(&g->hit, false);
        atomic_store(&g->end, (uintptr_t)start + (size + page - 1) / page * page);
        atomic_store(&g->start, (uintptr_t)start);
        if (n_up++ == 0) add_handler();
    }
    (void)pthread_mutex_unlock(&lock);
    if (!g) (void)close(fd);
    return g;
}

void base_guard_down(base_guard *g) {
    if (!g) return;
    (void)pthread_mutex_lock(&lock);
    (void)close(g->fd);
    atomic_store(&g->start, 0);
    if (--n_up == 0) remove_handler();
    (void)pthread_mutex_unlock(&lock);
}

rp_status base_guard_check(const base_guard *g, const char *name, bool times, rp_error *err) {
    struct stat now;
    if (!g) return RP_OK;
    if (base_sys_fails() || fstat(g->fd, &now) != 0)
        return rp_fail(err, RP_IO, "cannot look at '%s', which is in use: %s", name,
                       base_errno_text(errno));
    if (now.st_size < g->size)
        return rp_fail(err, RP_IO,
                       "'%s' was cut short while it was in use: it had %lld bytes and has %lld",
                       name, (long long)g->size, (long long)now.st_size);
    if (times && g->stamped &&
        (now.st_mtim.tv_sec != g->written.tv_sec || now.st_mtim.tv_nsec != g->written.tv_nsec))
        return rp_fail(err, RP_IO, "'%s' was written to while it was in use", name);
    if (atomic_load(&g->hit))
        return rp_fail(err, RP_IO, "'%s' could not be read while it was in use", name);
    return RP_OK;
}
