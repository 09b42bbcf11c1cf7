/* A thread that adds up file sizes: package managers tell nothing while they run unseen. */
#include "model/watch.h"

#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file.h"

enum { INTERVAL_NS = 200 * 1000 * 1000, MAX_DEPTH = 8 };

struct model_watch {
    const model_resolve_options *o;
    const char *phase, *dir;
    uint64_t total;
    pthread_t thread;
    pthread_mutex_t lock; /* of stop */
    pthread_cond_t wake;
    bool stop;
};

typedef struct folder {
    const char *dir;
    int depth;
    uint64_t *size;
} folder;

static rp_status add_entry(void *user, const char *name, bool is_dir, rp_error *err) {
    const folder *f = user;
    struct stat info;
    base_buf path;
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/%s", f->dir, name);
    rp_status st = base_buf_status(&path, err);
    if (st == RP_OK && is_dir && f->depth < MAX_DEPTH) {
        folder sub = {path.data, f->depth + 1, f->size};
        st = base_dir_list(path.data, add_entry, &sub, err);
    } else if (st == RP_OK && lstat(path.data, &info) == 0 && S_ISREG(info.st_mode)) {
        *f->size += (uint64_t)info.st_size;
    }
    base_buf_done(&path);
    return st;
}

static void report(const model_watch *w) {
    uint64_t size = 0;
    folder f = {w->dir, 0, &size};
    /* files come and go meanwhile: what could be added up is good enough */
    if (base_dir_list(w->dir, add_entry, &f, NULL) != RP_OK && size == 0) return;
    w->o->progress(w->o->user, w->phase, size < w->total ? size : w->total, w->total);
}

static void *watch_main(void *user) {
    model_watch *w = user;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += INTERVAL_NS;
        if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
        (void)pthread_cond_timedwait(&w->wake, &w->lock, &until);
        if (w->stop) break;
        pthread_mutex_unlock(&w->lock);
        report(w);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void watch_free(model_watch *w) {
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    base_free(w);
}

model_watch *model_watch_start(const model_resolve_options *o, const char *phase, const char *dir,
                               uint64_t total) {
    model_watch *w = o->progress ? base_alloc(sizeof *w) : NULL;
    if (!w) return NULL;
    w->o = o;
    w->phase = phase;
    w->dir = dir;
    w->total = total;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    if (pthread_create(&w->thread, NULL, watch_main, w) == 0) return w;
    watch_free(w);
    return NULL;
}

void model_watch_stop(model_watch *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    watch_free(w);
}
