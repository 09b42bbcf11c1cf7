/* Mapped files that are cut short, written to, renamed and removed while they are read; and the handler of SIGBUS, which
 * must be nobody's business but ours. */
#include "support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/guard.h"

enum { PAGES = 8 };

static char path[4200];
static size_t page;

static int set_up(void **state) {
    (void)state;
    const char *tmp = getenv("REPRISE_TEST_TMP");
    page = (size_t)getpagesize();
    (void)snprintf(path, sizeof path, "%s/base_guard_%ld", tmp ? tmp : "/tmp", (long)getpid());
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return base_path_remove(path, NULL) == RP_OK ? 0 : -1;
}

/* A file of PAGES pages, all 'x', under path. */
static void write_file(void) {
    static char bytes[PAGES << 16];
    rp_error err = {0};
    memset(bytes, 'x', sizeof bytes);
    CHECK_OK(base_file_write_atomic(path, bytes, PAGES * page, &err), &err);
}

static base_mapping map_file(void) {
    rp_error err = {0};
    base_mapping m = {0};
    write_file();
    CHECK_OK(base_file_map(path, &m, &err), &err);
    CHECK_OK(base_mapping_check(&m, path, true, &err), &err);
    return m;
}

static void refused(const base_mapping *m, const char *part) {
    rp_error err = {0};
    assert_int_equal(base_mapping_check(m, "the file", true, &err), RP_IO);
    if (!strstr(err.text, part)) fail_msg("'%s' does not contain '%s'", err.text, part);
}

static size_t sum(const base_mapping *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->size; i++) n += m->data[i] == 'x';
    return n;
}

static void *sum_main(void *user) {
    return (void *)(uintptr_t)sum(user);
}

static struct sigaction handler_now(void) {
    struct sigaction a;
    assert_int_equal(sigaction(SIGBUS, NULL, &a), 0);
    return a;
}

static void missing_pages_are_zeros(void **state) {
    (void)state;
    pthread_t t;
    void *seen = NULL;
    char text[200];
    base_mapping m = map_file(), other = map_file(); /* of another file under the same name */
    assert_int_equal(truncate(path, (off_t)(2 * page)), 0);
    assert_int_equal(sum(&m), PAGES * page);
    assert_int_equal(base_mapping_check(&m, path, true, NULL), RP_OK);
    assert_int_equal(pthread_create(&t, NULL, sum_main, &other), 0);
    assert_int_equal(pthread_join(t, &seen), 0);
    assert_int_equal((size_t)(uintptr_t)seen, 2 * page);
    assert_int_equal(sum(&other), 2 * page);
    (void)snprintf(text, sizeof text,
                   "'the file' was cut short while it was in use: it had %zu bytes and has %zu",
                   PAGES * page, 2 * page);
    refused(&other, text);
    /* long again, but not what it was */
    assert_int_equal(truncate(path, (off_t)(PAGES * page)), 0);
    assert_int_equal(sum(&other), 2 * page);
    refused(&other, "'the file' was written to while it was in use");
    base_file_unmap(&m);
    base_file_unmap(&other);
}

/* The file is whole again, down to its time, but the pages were not there when they were read. */
static void what_was_missing_once_is_remembered(void **state) {
    (void)state;
    struct stat info;
    base_mapping m = map_file();
    assert_int_equal(stat(path, &info), 0);
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    assert_int_equal(truncate(path, (off_t)page), 0);
    assert_int_equal(sum(&m), page);
    assert_int_equal(truncate(path, (off_t)(PAGES * page)), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    refused(&m, "'the file' could not be read while it was in use");
    base_file_unmap(&m);
}

static void written_in_place(void **state) {
    (void)state;
    base_mapping m = map_file();
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    const struct timespec later[2] = {{0, UTIME_OMIT}, {4000000000, 5}};
    assert_int_equal(pwrite(fd, "y", 1, 0), 1);
    assert_int_equal(futimens(fd, later), 0); /* the clock of files is coarse */
    (void)close(fd);
    refused(&m, "was written to");
    assert_int_equal(base_mapping_check(&m, path, false, NULL), RP_OK); /* times do not count */
    base_file_unmap(&m);
}

static void renamed_or_removed_is_whole(void **state) {
    (void)state;
    rp_error err = {0};
    base_mapping m = map_file();
    write_file(); /* another one takes its name */
    CHECK_OK(base_mapping_check(&m, path, true, &err), &err);
    assert_int_equal(unlink(path), 0);
    CHECK_OK(base_mapping_check(&m, path, true, &err), &err);
    assert_int_equal(sum(&m), PAGES * page);
    base_file_unmap(&m);
}

/* --- the handler --------------------------------------------------------------------- */

static sigjmp_buf back;
static volatile sig_atomic_t calls, with_info;

static void on_bus(int sig) {
    (void)sig;
    calls++;
    siglongjmp(back, 1);
}

static void on_bus_info(int sig, siginfo_t *info, void *context) {
    (void)sig;
    (void)context;
    with_info = info->si_addr != NULL;
    calls++;
    siglongjmp(back, 1);
}

/* A map that is not ours, of a file that is cut short. */
static const volatile char *foreign(void) {
    write_file();
    int fd = open(path, O_RDONLY);
    const char *p = mmap(NULL, PAGES * page, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    (void)close(fd);
    assert_int_equal(truncate(path, 0), 0);
    return p;
}

static void check_foreign(struct sigaction *theirs, int flags) {
    struct sigaction was;
    base_mapping m = map_file();
    base_file_unmap(&m);
    theirs->sa_flags = flags;
    (void)sigemptyset(&theirs->sa_mask);
    assert_int_equal(sigaction(SIGBUS, theirs, &was), 0);
    m = map_file();
    const volatile char *p = foreign();
    calls = 0;
    if (sigsetjmp(back, 1) == 0) (void)p[0];
    assert_int_equal(calls, 1);
    if (sigsetjmp(back, 1) == 0) (void)p[page];
    assert_int_equal(calls, 2);
    (void)munmap((void *)(uintptr_t)p, PAGES * page);
    base_file_unmap(&m);
    /* it is theirs again after the last guard */
    struct sigaction now = handler_now();
    if (flags & SA_SIGINFO)
        assert_true(now.sa_sigaction == theirs->sa_sigaction);
    else
        assert_true(now.sa_handler == theirs->sa_handler);
    assert_int_equal(sigaction(SIGBUS, &was, NULL), 0);
}

static void faults_elsewhere_are_handed_on(void **state) {
    (void)state;
    struct sigaction plain = {.sa_handler = on_bus}, info = {.sa_sigaction = on_bus_info};
    check_foreign(&plain, 0);
    check_foreign(&info, SA_SIGINFO);
    assert_true(with_info);
}

/* The pages in front of a guarded map and behind it are somebody else's. */
static void faults_beside_are_handed_on(void **state) {
    (void)state;
    struct sigaction theirs = {.sa_handler = on_bus}, was;
    rp_error err = {0};
    assert_int_equal(sigaction(SIGBUS, &theirs, &was), 0);
    write_file();
    int whole = open(path, O_RDONLY);
    write_file(); /* another one */
    int cut = open(path, O_RDONLY);
    char *p = mmap(NULL, 4 * page, PROT_READ, MAP_SHARED, cut, 0);
    assert_true(p != MAP_FAILED);
    assert_true(mmap(p + page, 2 * page, PROT_READ, MAP_SHARED | MAP_FIXED, whole, 0) == p + page);
    base_guard *g = base_guard_up(p + page, 2 * page, whole);
    assert_non_null(g);
    assert_int_equal(truncate(path, 0), 0);
    calls = 0;
    if (sigsetjmp(back, 1) == 0) (void)*(volatile char *)(p + 3 * page);
    assert_int_equal(calls, 1);
    if (sigsetjmp(back, 1) == 0) (void)*(volatile char *)(p + page - 1);
    assert_int_equal(calls, 2);
    CHECK_OK(base_guard_check(g, "the file", false, &err), &err);
    assert_true(p[page] == 'x' && p[3 * page - 1] == 'x');
    (void)close(cut);
    base_guard_down(g);
    assert_int_equal(munmap(p, 4 * page), 0);
    assert_int_equal(sigaction(SIGBUS, &was, NULL), 0);
}

/* How a child ends that does `what` with a guard up and `handler` underneath. */
static int end_of(void (*what)(void), void (*handler)(int)) {
    int state = 0;
    base_mapping m = {0};
    pid_t pid;
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)signal(SIGBUS, handler);
        m = map_file();
        what();
        _exit(m.data[0] == 'x' ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &state, 0), pid);
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

static void read_foreign(void) {
    (void)foreign()[0];
}

static void send_it(void) {
    (void)raise(SIGBUS);
}

static void without_a_handler_the_default_holds(void **state) {
    (void)state;
    assert_int_equal(end_of(read_foreign, SIG_DFL), 128 + SIGBUS);
    assert_int_equal(end_of(read_foreign, SIG_IGN), 128 + SIGBUS);
    assert_int_equal(end_of(send_it, SIG_DFL), 128 + SIGBUS);
    assert_int_equal(end_of(send_it, SIG_IGN), 0);
}

/* Who comes after us stays, and may hand on to us, who then hand on to who was before. */
static struct sigaction under;

static void hands_on(int sig, siginfo_t *info, void *context) {
    calls++;
    under.sa_sigaction(sig, info, context);
}

static void later_handler(void) {
    struct sigaction theirs = {.sa_sigaction = hands_on, .sa_flags = SA_SIGINFO};
    base_mapping m = {0};
    (void)signal(SIGBUS, SIG_DFL); /* not the test's own */
    m = map_file();
    calls = 0;
    if (sigaction(SIGBUS, &theirs, &under) != 0 || !(under.sa_flags & SA_SIGINFO)) _exit(2);
    if (truncate(path, 0) != 0 || sum(&m) != 0 || calls != 1) _exit(3);
    base_file_unmap(&m);
    if (handler_now().sa_sigaction != hands_on) _exit(4);
    m = map_file();
    if (handler_now().sa_sigaction != hands_on) _exit(5);
    if (truncate(path, 0) != 0 || sum(&m) != 0 || calls != 2) _exit(6);
    read_foreign(); /* through both, to the default */
    _exit(7);
}

static int first_guard_is_later(void) {
    int state = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) later_handler();
    assert_int_equal(waitpid(pid, &state, 0), pid);
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

static void a_later_handler_stays(void **state) {
    (void)state;
    assert_int_equal(first_guard_is_later(), 128 + SIGBUS);
}

static void the_handler_is_there_only_while_needed(void **state) {
    (void)state;
    void (*before)(int) = handler_now().sa_handler;
    base_mapping a = map_file(), b = map_file();
    assert_true(handler_now().sa_handler != before);
    base_file_unmap(&a);
    assert_true(handler_now().sa_handler != before);
    base_file_unmap(&b);
    assert_true(handler_now().sa_handler == before);
}

/* More maps than there are places: the rest is as it was without guards. */
static void too_many_maps(void **state) {
    (void)state;
    static base_mapping m[400];
    rp_error err = {0};
    bool without = false;
    write_file();
    for (int i = 0; i < 400; i++) {
        CHECK_OK(base_file_map(path, &m[i], &err), &err);
        without |= !m[i].guard;
        CHECK_OK(base_mapping_check(&m[i], path, true, &err), &err);
    }
    assert_true(without);
    for (int i = 0; i < 400; i++) base_file_unmap(&m[i]);
    m[0] = map_file();
    assert_non_null(m[0].guard);
    base_file_unmap(&m[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_pages_are_zeros),
        cmocka_unit_test(what_was_missing_once_is_remembered),
        cmocka_unit_test(written_in_place),
        cmocka_unit_test(renamed_or_removed_is_whole),
        cmocka_unit_test(faults_elsewhere_are_handed_on),
        cmocka_unit_test(faults_beside_are_handed_on),
        cmocka_unit_test(without_a_handler_the_default_holds),
        cmocka_unit_test(a_later_handler_stays),
        cmocka_unit_test(the_handler_is_there_only_while_needed),
        cmocka_unit_test(too_many_maps),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
