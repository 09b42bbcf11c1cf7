/* See trees.h. Plain libc, so that injected failures of base do not reach it. */
#include "support/trees.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/check.h"

enum { PATH_SIZE = 1024, NAME_SIZE = 512 };
static char home[256];
static pid_t owner;

int tree_make(char *dir, size_t size) {
    const char *base = getenv("TMPDIR");
    int n = snprintf(dir, size, "%s/XXXXXX", base ? base : "/tmp");
    return n > 0 && (size_t)n < size && mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at) {
    (void)st, (void)flag, (void)at;
    (void)chmod(path, 0700);
    return remove(path);
}

void tree_remove(const char *path) {
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_home(void) {
    if (getpid() == owner) tree_remove(home);
}

const char *tree_new(const char *name) {
    static char out[NAME_SIZE];
    if (!home[0]) {
        if (tree_make(home, sizeof home) != 0) fail_msg("cannot make a folder in $TMPDIR");
        owner = getpid();
        (void)atexit(remove_home);
    }
    (void)snprintf(out, sizeof out, "%s/%s", home, name);
    tree_remove(out);
    if (mkdir(out, 0700) != 0) fail_msg("cannot make %s", out);
    return out;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void collect(tree_list *l, const char *root, const char *below) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/%s", root, below);
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char rel[NAME_SIZE];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (snprintf(rel, sizeof rel, "%s%s%s", below, *below ? "/" : "", e->d_name) >= NAME_SIZE)
            fail_msg("%s/%s: name too long", below, e->d_name);
        (void)snprintf(path, sizeof path, "%s/%s", root, rel);
        if (lstat(path, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) {
            collect(l, root, rel);
            continue;
        }
        l->path = realloc(l->path, (l->n + 1) * sizeof *l->path);
        l->path[l->n++] = strdup(rel);
    }
    (void)closedir(d);
}

tree_list tree_files(const char *root) {
    tree_list l = {0};
    collect(&l, root, "");
    if (l.n) qsort(l.path, l.n, sizeof *l.path, by_name);
    return l;
}

void tree_list_free(tree_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->path[i]);
    free(l->path);
    *l = (tree_list){0};
}

uint8_t *tree_read(const char *root, const char *path, size_t *size) {
    char full[PATH_SIZE];
    struct stat st;
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) fail_msg("cannot read %s", full);
    uint8_t *data = malloc((size_t)st.st_size + 1);
    if (!data || read(fd, data, (size_t)st.st_size) != st.st_size) fail_msg("cannot read %s", full);
    (void)close(fd);
    *size = (size_t)st.st_size;
    return data;
}

/* A new file takes the name, so that mappings of the old one stay whole. */
void tree_write(const char *root, const char *path, const void *data, size_t size) {
    char full[PATH_SIZE], at[PATH_SIZE];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        (void)snprintf(at, sizeof at, "%.*s", (int)(slash - full), full);
        (void)mkdir(at, 0700);
    }
    (void)unlink(full);
    int fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) fail_msg("cannot write %s", full);
    (void)close(fd);
}

void tree_copy(const char *from, const char *to) {
    tree_list l = tree_files(from);
    tree_remove(to);
    if (mkdir(to, 0700) != 0) fail_msg("cannot make %s", to);
    for (size_t i = 0; i < l.n; i++) {
        size_t size;
        uint8_t *data = tree_read(from, l.path[i], &size);
        tree_write(to, l.path[i], data, size);
        free(data);
    }
    tree_list_free(&l);
}

size_t tree_same(const char *a, const char *b) {
    tree_list x = tree_files(a), y = tree_files(b);
    for (size_t i = 0; i < x.n && i < y.n; i++) {
        size_t n = 0, m = 0;
        if (strcmp(x.path[i], y.path[i]) != 0)
            fail_msg("%s and %s: one folder has only the first, the other the second", x.path[i],
                     y.path[i]);
        uint8_t *p = tree_read(a, x.path[i], &n), *q = tree_read(b, y.path[i], &m);
        if (n != m || memcmp(p, q, n) != 0) fail_msg("%s differs", x.path[i]);
        free(p);
        free(q);
    }
    size_t n = x.n;
    assert_int_equal(x.n, y.n);
    tree_list_free(&x);
    tree_list_free(&y);
    return n;
}

void tree_no_temporaries(const char *root) {
    tree_list l = tree_files(root);
    for (size_t i = 0; i < l.n; i++)
        if (strstr(l.path[i], ".tmp-")) fail_msg("left behind: %s/%s", root, l.path[i]);
    tree_list_free(&l);
}

size_t tree_open_files(void) {
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) (void)closedir(d);
    return n;
}
