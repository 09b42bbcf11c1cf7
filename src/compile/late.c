/* A table of few: the oldest place goes. A program is known by its path, size and time. */
#include "compile/late.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"

enum { PLACES = 8, PART = 10 };

typedef struct late {
    uint64_t program;
    int64_t limit_ns;
    uint32_t times; /* 0: no program */
    bool told;
} late;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static late all[PLACES];
static uint32_t next;

static uint64_t program_at(const char *path) {
    struct stat info;
    uint64_t h = base_hash64(path, strlen(path));
    if (stat(path, &info) != 0) return h;
    h = base_hash_mix(h, (uint64_t)info.st_size);
    h = base_hash_mix(h, (uint64_t)info.st_mtim.tv_sec);
    return base_hash_mix(h, (uint64_t)info.st_mtim.tv_nsec);
}

/* By lock; NULL: it was in time so far. */
static late *find(uint64_t program) {
    for (uint32_t i = 0; i < PLACES; i++)
        if (all[i].times && all[i].program == program) return &all[i];
    return NULL;
}

int64_t compile_late_limit(const char *path, int64_t limit_ns) {
    uint64_t program = program_at(path);
    (void)pthread_mutex_lock(&lock);
    const late *l = find(program);
    bool known = l && limit_ns && limit_ns <= l->limit_ns;
    int64_t given = !known ? limit_ns : l->times > 1 ? -1 : limit_ns / PART;
    (void)pthread_mutex_unlock(&lock);
    return given;
}

void compile_late_note(const char *path, int64_t limit_ns, bool mute) {
    uint64_t program = program_at(path);
    (void)pthread_mutex_lock(&lock);
    late *l = find(program);
    if (!l) {
        l = &all[next++ % PLACES];
        *l = (late){.program = program};
    }
    if (limit_ns > l->limit_ns) *l = (late){.program = program, .limit_ns = limit_ns};
    l->times += mute ? 2 : 1;
    (void)pthread_mutex_unlock(&lock);
}

void compile_late_clear(const char *path) {
    uint64_t program = program_at(path);
    (void)pthread_mutex_lock(&lock);
    late *l = find(program);
    if (l) *l = (late){0};
    (void)pthread_mutex_unlock(&lock);
}

bool compile_late_is_news(const char *path) {
    uint64_t program = program_at(path);
    (void)pthread_mutex_lock(&lock);
    late *l = find(program);
    bool news = !l || !l->told;
    if (l) l->told = true;
    (void)pthread_mutex_unlock(&lock);
    return news;
}
