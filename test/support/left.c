/* At the end of every test program nothing is left: no memory of ours, no open or mapped file, no thread, no temporary file of this process,
 * nothing of the emulated GPU. A test that fails leaves what it was in the middle of, so only a program that passed is looked at. */
#include <dirent.h>
#include <dlfcn.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/temp.h"
#include "support/trees.h"

static size_t files_before;
static pid_t self;

/* Values of JSON have an allocator of their own. */
static atomic_size_t json_live;

static void *json_get(size_t size) {
    void *p = malloc(size);
    if (p) (void)atomic_fetch_add(&json_live, 1);
    return p;
}

static void json_give(void *p) {
    if (p) (void)atomic_fetch_sub(&json_live, 1);
    free(p);
}

/* The driver of a GPU keeps files open until the process ends. */
static bool has_driver(void) {
    char link[64], to[64];
    for (int fd = 0; fd < 1024; fd++) {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, to, sizeof to - 1);
        to[n > 0 ? n : 0] = 0;
        if (strncmp(to, "/dev/nvidia", 11) == 0) return true;
    }
    return false;
}

/* OpenVINO's workers stay until the process ends. */
static bool has_workers(void) {
    void *tbb = dlopen("libtbb.so.12", RTLD_NOW | RTLD_NOLOAD);
    if (tbb) (void)dlclose(tbb);
    return tbb != NULL;
}

/* Besides this one. One that was joined may be there for a moment; the thread sanitizer has one of its own. */
static size_t threads(void) {
    size_t n = 2;
#ifdef __SANITIZE_THREAD__
    return 0;
#endif
    for (int turn = 0; turn < 100 && n > 1; turn++) {
        DIR *d = opendir("/proc/self/task");
        if (!d) return 0;
        n = 0;
        for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
        (void)closedir(d);
        if (n > 1) (void)usleep(1000);
    }
    return n - 1;
}

/* Where the library makes such files; which are this process's own is in their names. Prints them. */
static size_t temporaries(void) {
    size_t n = 0;
    base_buf own;
    base_maker self_maker = base_maker_self();
    base_buf_init(&own, 0);
    base_buf_puts(&own, BASE_TEMP_INFIX);
    base_maker_put(&self_maker, &own);
    for (size_t i = 0; base_temp_place(i) && !own.failed; i++) {
        DIR *d = opendir(base_temp_place(i));
        for (struct dirent *e; d && (e = readdir(d));) {
            if (!strstr(e->d_name, own.data)) continue;
            printf("left behind: %s/%s\n", base_temp_place(i), e->d_name);
            n++;
        }
        if (d) (void)closedir(d);
    }
    base_buf_done(&own);
    return n;
}

/* Files of the test's own folders that are mapped, code apart, which no loader gives back for sure, the locale of support/comma.h, which the
 * C library keeps, and what the thread sanitizer maps there. Prints them. */
static size_t mapped(void) {
    const char *const own[] = {getenv("REPRISE_TEST_TMP"), getenv("TMPDIR")};
    char line[4400];
    size_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *path = strchr(line, '/');
        bool ours = false;
        for (size_t i = 0; path && i < 2; i++)
            ours |= own[i] && *own[i] && strncmp(path, own[i], strlen(own[i])) == 0;
        if (!ours || strstr(path, ".so") || strstr(path, "/comma/LC_") ||
            strstr(path, "/tsan.rodata."))
            continue;
        printf("left behind: %s", path);
        n++;
    }
    if (f) (void)fclose(f);
    return n;
}

/* What the emulated GPU was not given back, or "". */
static const char *left_on_gpu(void) {
    static char text[256];
    void *emu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*left)(char *, size_t) = emu ? (void (*)(char *, size_t))(uintptr_t)dlsym(emu, "emu_left")
                                       : NULL;
    if (left) left(text, sizeof text);
    if (emu) (void)dlclose(emu);
    return text;
}

static void look(int status, void *unused) {
    (void)unused;
    if (status != 0 || getpid() != self) return; /* a child of a test has what its parent had */
    size_t live = base_live() + atomic_load(&json_live),
           files = has_driver() ? 0 : tree_open_files(),
           others = has_driver() || has_workers() ? 0 : threads();
    const char *gpu = left_on_gpu();
    const bool maps = mapped() > 0;
    if (live == 0 && !maps && files <= files_before && temporaries() == 0 && others == 0 && !*gpu)
        return;
    printf("left behind: %zu blocks of memory, %zu open files, %zu threads%s%s\n", live,
           files > files_before ? files - files_before : 0, others, *gpu ? ", on the GPU " : "",
           gpu);
    (void)fflush(stdout);
    _exit(1);
}

/* First of all, so that its look is the last thing that happens. */
__attribute__((constructor(150))) static void begin(void) {
    self = getpid();
    base_alloc_count_arenas(true); /* each place that may find no memory is one that can fail */
    json_set_alloc_funcs(json_get, json_give);
    files_before = tree_open_files();
    if (on_exit(look, NULL) != 0) abort();
}
