/* Locks between processes: one holder, the dead and the stopped hold nothing up, a lost file is no hang. */
#include "support/check.h"
#include "support/heard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "support/trees.h"

static char path[512], count[512], absent[512];
static const char *tree_dir;

static base_lock *take(uint32_t patience_ms, bool *waited) {
    const base_lock_options o = {.path = path, .what = "a test", .patience_ms = patience_ms};
    base_lock *l = NULL;
    rp_error err = {0};
    CHECK_OK(base_lock_take(&o, &l, waited, &err), &err);
    assert_non_null(l);
    return l;
}

/* A child that holds the lock until it is killed. */
static pid_t start_holder(void) {
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool waited;
        base_lock *l = take(1000, &waited);
        if (!l || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    (void)close(ready[0]);
    return pid;
}

static void end(pid_t pid) {
    int status;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(waitpid(pid, &status, 0) == pid);
}

static void the_file_goes_with_the_lock(void **state) {
    (void)state;
    bool waited = true;
    base_lock *l = take(1000, &waited);
    assert_false(waited);
    assert_true(base_file_exists(path));
    base_lock_drop(l);
    base_lock_drop(NULL);
    assert_false(base_file_exists(path));
}

/* Each of eight adds one to a number in a file, which goes wrong where two do it at once. */
static void one_at_a_time(void **state) {
    (void)state;
    enum { N = 8, TURNS = 20 };
    rp_error err = {0};
    pid_t pid[N];
    char *text = NULL;
    size_t size;
    int status;
    CHECK_OK(base_file_write_atomic(count, "0", 1, &err), &err);
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        for (int k = 0; pid[i] == 0 && k < TURNS; k++) {
            bool waited;
            base_lock *l = take(60000, &waited);
            FILE *f = fopen(count, "r+");
            int n = 0;
            if (!f || fscanf(f, "%d", &n) != 1) _exit(1);
            rewind(f);
            if (fprintf(f, "%d", n + 1) < 1 || fclose(f) != 0) _exit(1);
            base_lock_drop(l);
        }
        if (pid[i] == 0) _exit(0);
    }
    for (int i = 0; i < N; i++) {
        assert_true(waitpid(pid[i], &status, 0) == pid[i]);
        assert_int_equal(status, 0);
    }
    CHECK_OK(base_file_read(count, 100, &text, &size, &err), &err);
    assert_int_equal(strtol(text, NULL, 10), N * TURNS);
    base_free(text);
    assert_false(base_file_exists(path));
}

static void a_dead_holder_holds_nothing(void **state) {
    (void)state;
    bool waited = true;
    end(start_holder());
    assert_true(base_file_exists(path)); /* nobody removed it */
    base_lock *l = take(600000, &waited);
    assert_false(waited);
    base_lock_drop(l);
    assert_false(base_file_exists(path));
}

/* It loses the lock, and finds so when it goes on: the lock of who took it is not removed. */
static void a_stopped_holder_loses_it(void **state) {
    (void)state;
    bool waited = false;
    pid_t pid = start_holder();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    base_lock *l = take(600000, &waited);
    assert_true(waited);
    end(pid);
    assert_true(base_file_exists(path));
    base_lock_drop(l);
}

static void who_lost_it_removes_nothing(void **state) {
    (void)state;
    bool waited = false;
    base_lock *first = take(1000, &waited);
    assert_int_equal(unlink(path), 0); /* as whoever ran out of patience does */
    base_lock *second = take(1000, &waited);
    assert_false(waited);
    base_lock_drop(first);
    assert_true(base_file_exists(path));
    base_lock_drop(second);
    assert_false(base_file_exists(path));
}

static void patience_ends(void **state) {
    (void)state;
    bool waited = false;
    char want[200];
    base_buf heard;
    pid_t pid = start_holder();
    heard_start(&heard, "cache");
    base_lock *l = take(10, &waited);
    assert_true(waited);
    (void)snprintf(want, sizeof want,
                   "[cache] process %d is making a test: waiting for it\n"
                   "process %d, which is making a test, takes too long: it is made here, too\n",
                   (int)pid, (int)pid);
    assert_string_equal(heard.data, want); /* each once */
    heard_done(&heard);
    base_lock_drop(l);
    end(pid);
}

enum { PATIENCE_MS = 200 };

typedef struct relay {
    pid_t pid;
    int64_t began, changed; /* ns; changed 0: the first has it */
} relay;

/* Well into the patience with the first holder it ends, and another takes its place. */
static bool a_second_comes(void *user) {
    relay *r = user;
    if (r->changed || base_now_ns() - r->began < PATIENCE_MS * INT64_C(700000)) return true;
    end(r->pid);
    r->pid = start_holder();
    r->changed = base_now_ns();
    return true;
}

/* Each is waited for as long as the first. */
static void patience_is_with_each_holder(void **state) {
    (void)state;
    bool waited = false;
    base_lock *l = NULL;
    rp_error err = {0};
    relay r = {.pid = start_holder()};
    const base_lock_options o = {path, "a test", PATIENCE_MS, a_second_comes, &r};
    r.began = base_now_ns();
    CHECK_OK(base_lock_take(&o, &l, &waited, &err), &err);
    int64_t had = base_now_ns() - r.changed; /* by the second, if there was time for one */
    base_lock_drop(l);
    end(r.pid);
    if (r.changed && had < PATIENCE_MS * INT64_C(1000000))
        fail_msg("the second was given %lld ms", (long long)(had / 1000000));
}

static bool never(void *user) {
    ++*(int *)user;
    return false;
}

static void waiting_can_be_called_off(void **state) {
    (void)state;
    int asked = 0;
    bool waited;
    base_lock *l = NULL;
    rp_error err = {0};
    pid_t pid = start_holder();
    const base_lock_options o = {path, "a test", 600000, never, &asked};
    assert_int_equal(base_lock_take(&o, &l, &waited, &err), RP_CANCELLED);
    assert_null(l);
    assert_int_equal(asked, 1);
    end(pid);
}

typedef struct rival {
    base_lock *lock;
    int turns;
} rival;

/* What another one does while the caller waits: loses patience first, has the lock, gives it back a turn later. */
static bool a_rival_is_first(void *user) {
    rival *r = user;
    bool waited;
    if (r->turns++ == 0) {
        r->lock = take(0, &waited);
    } else {
        base_lock_drop(r->lock);
        r->lock = NULL;
    }
    return true;
}

/* Two lose patience with one holder: the second does not remove the lock that the first has by now. */
static void the_next_to_lose_patience_waits(void **state) {
    (void)state;
    bool waited = false;
    rival r = {0};
    rp_error err = {0};
    base_lock *holder = take(1000, &waited), *l = NULL;
    const base_lock_options o = {path, "a test", 0, a_rival_is_first, &r};
    CHECK_OK(base_lock_take(&o, &l, &waited, &err), &err);
    assert_non_null(l);
    assert_null(r.lock); /* it was given back before */
    base_lock_drop(holder);
    assert_true(base_file_exists(path));
    base_lock_drop(l);
    assert_false(base_file_exists(path));
}

static bool three_turns(void *user) {
    return ++*(int *)user <= 3;
}

/* Who looks whose the file is and then removes it does so alone: while others do, one waits, and goes on in the end. */
static void one_removes_at_a_time(void **state) {
    (void)state;
    bool waited = false;
    int turns = 0, folder = open(tree_dir, O_RDONLY | O_DIRECTORY);
    rp_error err = {0};
    base_lock *holder = take(1000, &waited), *l = NULL;
    const base_lock_options o = {path, "a test", 0, three_turns, &turns};
    assert_int_equal(flock(folder, LOCK_SH), 0);
    assert_int_equal(base_lock_take(&o, &l, &waited, &err), RP_CANCELLED);
    assert_true(base_file_exists(path));
    base_lock_sweep(path); /* is held */
    base_lock_drop(holder);
    assert_true(base_file_exists(path));
    assert_int_equal(close(folder), 0);
    base_lock_sweep(path);
    assert_false(base_file_exists(path));
    base_lock_sweep(path);
}

/* Without a lock one goes on. */
static void where_no_file_can_be_made(void **state) {
    (void)state;
    bool waited = true;
    base_lock *l = NULL;
    rp_error err = {0};
    base_buf heard;
    const base_lock_options o = {.path = absent, .what = "a test", .patience_ms = 1000};
    heard_start(&heard, "cache");
    CHECK_OK(base_lock_take(&o, &l, &waited, &err), &err);
    CHECK_HEARD(&heard, "[cache] a test is made without a lock: ");
    CHECK_HEARD(&heard, absent);
    heard_done(&heard);
    assert_null(l);
    assert_false(waited);
}

static void every_failure_is_clean(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        bool (*fail_nth)(uint64_t) = kind ? base_sys_fail_nth : base_alloc_fail_nth;
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            const base_lock_options o = {.path = path, .what = "a test", .patience_ms = 1000};
            base_lock *l = NULL;
            bool waited;
            rp_error err = {0};
            size_t live = base_live();
            (void)fail_nth(n);
            rp_status st = base_lock_take(&o, &l, &waited, &err);
            fired = fail_nth(0);
            assert_true(st == RP_OK || (st == RP_NOMEM && err.text[0] && !l));
            base_lock_drop(l);
            assert_int_equal(base_live(), live);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_goes_with_the_lock),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(a_dead_holder_holds_nothing),
        cmocka_unit_test(a_stopped_holder_loses_it),
        cmocka_unit_test(who_lost_it_removes_nothing),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(patience_is_with_each_holder),
        cmocka_unit_test(waiting_can_be_called_off),
        cmocka_unit_test(the_next_to_lose_patience_waits),
        cmocka_unit_test(one_removes_at_a_time),
        cmocka_unit_test(where_no_file_can_be_made),
        cmocka_unit_test(every_failure_is_clean),
    };
    tree_dir = tree_new("locks");
    (void)snprintf(path, sizeof path, "%s/lock", tree_dir);
    (void)snprintf(count, sizeof count, "%s/count", tree_dir);
    (void)snprintf(absent, sizeof absent, "%s/nowhere/lock", tree_dir);
    return cmocka_run_group_tests_name("base_lock", tests, NULL, NULL);
}
