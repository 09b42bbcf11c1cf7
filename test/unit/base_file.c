/* Files and folders: what they promise, and that nothing is half-written or leaked
 * whichever system call or allocation fails. */
#include "support/check.h"
#include "support/trees.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/temp.h"
#include "base/str.h"
#include "base/target.h"

#define FOR_EACH_SYS_FAILURE(n)                                         \
    for (uint64_t n = 1, more_ = 1; more_ && (base_sys_fail_nth(n), 1); \
         more_ = base_sys_fail_nth(0), n++)

static char root[64];

static const char *at(const char *name) {
    static char path[4][128];
    static unsigned next;
    char *p = path[next++ % 4];
    (void)snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

static int make_root(void **state) {
    (void)state;
    return tree_make(root, sizeof root);
}

static int remove_root(void **state) {
    (void)state;
    return base_path_remove(root, NULL) == RP_OK ? 0 : -1;
}

static size_t count_open_files(void) {
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d)) n++;
    (void)closedir(d);
    return n;
}

static rp_status count_entry(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)name, (void)is_dir, (void)err;
    ++*(size_t *)user;
    return RP_OK;
}

static void writes_and_reads_back(void **state) {
    (void)state;
    rp_error err = {0};
    char big[100000], *back = NULL;
    size_t n = 0;
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i * 31 >> 2);
    CHECK_OK(base_file_write_atomic(at("a"), big, sizeof big, &err), &err);
    assert_true(base_file_exists(at("a")));
    CHECK_OK(base_file_read(at("a"), sizeof big, &back, &n, &err), &err);
    assert_int_equal(n, sizeof big);
    assert_memory_equal(back, big, n);
    assert_int_equal(back[n], 0);
    base_free(back);
    assert_int_equal(base_file_read(at("a"), sizeof big - 1, &back, &n, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "limit of 99999 bytes"));
    CHECK_OK(base_file_write_atomic(at("a"), "", 0, &err), &err);
    CHECK_OK(base_file_read(at("a"), 0, &back, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_string_equal(back, "");
    base_free(back);
    CHECK_OK(base_file_read("/proc/self/status", 1 << 20, &back, &n, &err), &err);
    assert_true(n > 0); /* fstat says 0 there */
    base_free(back);
}

static void says_what_is_wrong(void **state) {
    (void)state;
    rp_error err = {0};
    char *back;
    size_t n;
    base_mapping m;
    assert_int_equal(base_file_read(at("none"), 10, &back, &n, &err), RP_NOT_FOUND);
    assert_non_null(strstr(err.text, "No such file"));
    err = (rp_error){0};
    assert_int_equal(base_file_map(root, &m, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "is a folder"));
    err = (rp_error){0};
    assert_int_equal(base_file_map("/dev/zero", &m, &err), RP_INVALID);
    assert_string_equal(err.text, "'/dev/zero' is not a regular file");
    err = (rp_error){0};
    assert_int_equal(base_file_read("/dev", 10, &back, &n, &err), RP_INVALID);
    assert_string_equal(err.text, "'/dev' is a folder; give a file");
    assert_int_equal(base_file_write_atomic(at("none/x"), "y", 1, NULL), RP_NOT_FOUND);
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    CHECK_OK(base_file_read(at("fifo"), 10, &back, &n, &err), &err); /* does not wait */
    assert_int_equal(n, 0);
    base_free(back);
}

typedef struct late {
    const char *path;
    int ready;
} late;

/* Has a pipe open before anybody reads, and writes later. */
static void *write_late(void *user) {
    const late *l = user;
    int fd = open(l->path, O_RDWR);
    bool good = fd >= 0 && write(l->ready, "x", 1) == 1;
    for (int i = 0; good && i < 3; i++) {
        (void)usleep(10000);
        good = write(fd, "part ", 5) == 5;
    }
    if (fd >= 0) (void)close(fd);
    return good ? NULL : user;
}

/* A pipe is opened without waiting, and read to its end, however slowly it comes. */
static void a_slow_pipe_is_read_whole(void **state) {
    rp_error err = {0};
    pthread_t writer;
    int ready[2];
    char c, *back = NULL;
    void *failed = NULL;
    size_t n = 0;
    late l = {.path = at("late")};
    (void)state;
    assert_int_equal(mkfifo(l.path, 0600), 0);
    assert_int_equal(pipe(ready), 0);
    l.ready = ready[1];
    assert_int_equal(pthread_create(&writer, NULL, write_late, &l), 0);
    assert_int_equal(read(ready[0], &c, 1), 1);
    CHECK_OK(base_file_read(l.path, 100, &back, &n, &err), &err);
    assert_int_equal(pthread_join(writer, &failed), 0);
    assert_null(failed);
    assert_int_equal(n, 15);
    assert_memory_equal(back, "part part part ", 15);
    base_free(back);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

enum { SENT = 1 << 20 };

/* Reads all of a pipe slowly; the sum of what differs from what was sent. */
static void *drain(void *path) {
    static unsigned char part[20000];
    size_t n = 0, wrong = 0;
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    int fd = open(path, O_RDONLY);
    for (ssize_t got; fd >= 0 && (got = read(fd, part, sizeof part)) > 0; (void)usleep(300))
        for (ssize_t i = 0; i < got; i++, n++) wrong += part[i] != (unsigned char)(n * 7 % 251);
    if (fd >= 0) (void)close(fd);
    return (void *)(wrong + (n != SENT));
}

static void nothing(int sig) {
    (void)sig;
}

/* A pipe takes what it has room for, and a signal ends the wait for more: what follows begins where that ended. */
static void a_pipe_takes_parts(void **state) {
    struct sigaction before, act = {.sa_handler = nothing}; /* calls are interrupted */
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    char path[128];
    unsigned char *data = test_malloc(SENT);
    rp_error err = {0};
    base_target *t = NULL;
    pthread_t reader;
    void *wrong = NULL;
    (void)state;
    for (size_t i = 0; i < SENT; i++) data[i] = (unsigned char)(i * 7 % 251);
    (void)snprintf(path, sizeof path, "%s", at("slow"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&reader, NULL, drain, path), 0);
    CHECK_OK(base_target_open(path, "data", 0644, &t, &err), &err);
    assert_int_equal(sigaction(SIGALRM, &act, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    rp_status st = base_target_write(t, data, SENT, &err);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    CHECK_OK(base_target_close(t, st, &err), &err);
    assert_int_equal(pthread_join(reader, &wrong), 0);
    assert_null(wrong);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    test_free(data);
}

static void maps(void **state) {
    (void)state;
    rp_error err = {0};
    char page[10000];
    memset(page, 'm', sizeof page);
    base_mapping m = {0};
    CHECK_OK(base_file_write_atomic(at("m"), page, sizeof page, &err), &err);
    CHECK_OK(base_file_map(at("m"), &m, &err), &err);
    assert_int_equal(m.size, sizeof page);
    base_mapping_drop(&m, 0, 5000);
    base_mapping_drop(&m, 4096, SIZE_MAX);
    base_mapping_drop(&m, 20000, 1);
    assert_memory_equal(m.data, page, sizeof page);
    base_file_unmap(&m);
    assert_null(m.data);
    base_file_unmap(&m);
    CHECK_OK(base_file_write_atomic(at("empty"), "", 0, &err), &err);
    CHECK_OK(base_file_map(at("empty"), &m, &err), &err);
    assert_null(m.data);
    assert_int_equal(m.size, 0);
}

static void makes_lists_and_removes_folders(void **state) {
    (void)state;
    rp_error err = {0};
    struct stat info;
    size_t n = 0;
    mode_t before =
        umask(002); /* others may read; that the group may write would let no cache be used */
    CHECK_OK(base_dir_make(at("d/e/f"), &err), &err);
    (void)umask(before);
    CHECK_OK(base_dir_make(at("d/e/f/"), &err), &err);
    assert_int_equal(stat(at("d/e"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0755);
    CHECK_OK(base_file_write_atomic(at("d/file"), "x", 1, &err), &err);
    assert_int_equal(base_dir_make(at("d/file/g"), &err), RP_NOT_FOUND);
    assert_int_not_equal(base_dir_make(at("d/file"), NULL), RP_OK); /* a file is no folder */
    assert_int_equal(symlink(root, at("d/e/loop")), 0);
    CHECK_OK(base_dir_list(at("d"), count_entry, &n, &err), &err);
    assert_int_equal(n, 2);
    CHECK_OK(base_path_remove(at("d"), &err), &err);
    assert_false(base_file_exists(at("d")));
    assert_true(base_file_exists(root)); /* the link was removed, not followed */
    CHECK_OK(base_path_remove(at("d"), &err), &err);
    err = (rp_error){0};
    assert_int_equal(base_dir_list(at("d"), count_entry, &n, &err), RP_NOT_FOUND);
}

static rp_status expect_sorted(void *user, const char *name, bool is_dir, rp_error *err) {
    char *last = user;
    if (strcmp(last, name) >= 0) return base_fail(err, RP_INTERNAL, "", 0, "%s first", last);
    if (is_dir != (name[0] == 'd')) return base_fail(err, RP_INTERNAL, "", 0, "%s", name);
    (void)snprintf(last, 32, "%s", name);
    return strcmp(name, "stop") == 0 ? RP_CANCELLED : RP_OK;
}

static void lists_in_order_and_stops(void **state) {
    (void)state;
    rp_error err = {0};
    char last[32] = "";
    const char *const names[] = {"order/z", "order/stop", "order/b", "order/a"};
    CHECK_OK(base_dir_make(at("order/dir"), &err), &err);
    for (int i = 0; i < 4; i++) CHECK_OK(base_file_write_atomic(at(names[i]), "", 0, &err), &err);
    assert_int_equal(base_dir_list(at("order"), expect_sorted, last, &err), RP_CANCELLED);
    assert_string_equal(last, "stop");
    assert_string_equal(err.text, "");
}

/* The old contents stay, whole, until the new ones are there, whole. */
static rp_status replace(rp_error *err) {
    return base_file_write_atomic(at("r/keep"), "new", 3, err);
}

static void check_replace(rp_status st, const rp_error *err, size_t live, size_t files) {
    char *back;
    size_t n = 0;
    assert_int_equal(st != RP_OK, err->code != RP_OK);
    if (st != RP_OK) assert_true(err->text[0]);
    CHECK_OK(base_dir_list(at("r"), count_entry, &n, NULL), &(rp_error){0});
    assert_int_equal(n, 1); /* no temporary left */
    CHECK_OK(base_file_read(at("r/keep"), 99, &back, &n, NULL), &(rp_error){0});
    assert_string_equal(back, st == RP_OK ? "new" : "old");
    base_free(back);
    assert_int_equal(base_live(), live);
    assert_int_equal(count_open_files(), files);
}

static void replacing_survives_each_failure(void **state) {
    (void)state;
    int n_failed = 0;
    CHECK_OK(base_dir_make(at("r"), NULL), &(rp_error){0});
    size_t live = base_live(), files = count_open_files();
    for (int kind = 0; kind < 2; kind++) {
        for (uint64_t n = 1, more = 1; more; n++) {
            rp_error err = {0};
            CHECK_OK(base_file_write_atomic(at("r/keep"), "old", 3, NULL), &err);
            (void)(kind ? base_sys_fail_nth(n) : base_alloc_fail_nth(n));
            rp_status st = replace(&err);
            more = kind ? base_sys_fail_nth(0) : base_alloc_fail_nth(0);
            n_failed += st != RP_OK;
            check_replace(st, &err, live, files);
        }
    }
    assert_true(n_failed >= 5); /* the name, open, write, fsync, rename */
}

static void reading_survives_each_failure(void **state) {
    (void)state;
    int n_failed = 0;
    CHECK_OK(base_file_write_atomic(at("in"), "text", 4, NULL), &(rp_error){0});
    size_t live = base_live(), files = count_open_files();
    FOR_EACH_SYS_FAILURE (n) {
        char *back = NULL;
        size_t size;
        base_mapping m = {0};
        rp_error err = {0};
        rp_status a = base_file_read(at("in"), 99, &back, &size, &err);
        rp_status b = base_file_map(at("in"), &m, NULL);
        assert_int_equal(a == RP_OK, back != NULL);
        assert_int_equal(b == RP_OK, m.data != NULL);
        n_failed += (a != RP_OK) + (b != RP_OK);
        base_free(back);
        base_file_unmap(&m);
        assert_int_equal(base_live(), live);
        assert_int_equal(count_open_files(), files);
    }
    assert_true(n_failed >= 6);
}

static void folders_survive_each_failure(void **state) {
    (void)state;
    size_t live = base_live(), files = count_open_files();
    for (int kind = 0; kind < 2; kind++) {
        for (uint64_t n = 1, more = 1; more; n++) {
            size_t count = 0;
            (void)(kind ? base_sys_fail_nth(n) : base_alloc_fail_nth(n));
            rp_status st = base_dir_make(at("f/g/h"), NULL);
            if (st == RP_OK) st = base_dir_list(at("f"), count_entry, &count, NULL);
            if (st == RP_OK) st = base_path_remove(at("f"), NULL);
            more = kind ? base_sys_fail_nth(0) : base_alloc_fail_nth(0);
            if (!more) assert_int_equal(st, RP_OK);
            assert_int_equal(st == RP_OK, !base_file_exists(at("f")) && count == 1);
            CHECK_OK(base_path_remove(at("f"), NULL), &(rp_error){0});
            assert_int_equal(base_live(), live);
            assert_int_equal(count_open_files(), files);
        }
    }
}

/* TMPDIR first, and no place twice. */
static void temporary_places(void **state) {
    static const char *const tmpdirs[] = {NULL, "/tmp", "/dev/shm", "mine"};
    static const char *const want[][3] = {{"/tmp", "/dev/shm"},
                                          {"/tmp", "/dev/shm"},
                                          {"/dev/shm", "/tmp"},
                                          {"mine", "/tmp", "/dev/shm"}};
    char kept[512];
    const char *old = getenv("TMPDIR");
    (void)state;
    (void)snprintf(kept, sizeof kept, "%s", old ? old : "");
    for (size_t i = 0; i < 4; i++) {
        size_t n = 0;
        (void)(tmpdirs[i] ? setenv("TMPDIR", tmpdirs[i], 1) : unsetenv("TMPDIR"));
        for (; n < 3 && want[i][n]; n++) assert_string_equal(base_temp_place(n), want[i][n]);
        assert_null(base_temp_place(n));
    }
    (void)(old ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporary_places),
        cmocka_unit_test(writes_and_reads_back),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(a_slow_pipe_is_read_whole),
        cmocka_unit_test(a_pipe_takes_parts),
        cmocka_unit_test(maps),
        cmocka_unit_test(makes_lists_and_removes_folders),
        cmocka_unit_test(lists_in_order_and_stops),
        cmocka_unit_test(replacing_survives_each_failure),
        cmocka_unit_test(reading_survives_each_failure),
        cmocka_unit_test(folders_survive_each_failure),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
