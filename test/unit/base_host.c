/* What the host says of itself and of its processes, and what is assumed where it does not. */
#include "support/check.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "base/temp.h"

static int hidden = -1; /* what sysconf does not know */

long sysconf(int name) {
    static long (*real)(int name);
    if (name == hidden) return -1;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}

static void memory_that_is_not_told_has_no_end(void **state) {
    static const int names[] = {_SC_PHYS_PAGES, _SC_PAGESIZE};
    (void)state;
    const uint64_t size = base_memory_size();
    assert_true(size == (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    for (int i = 0; i < 2; i++) {
        hidden = names[i];
        assert_true(base_memory_size() == UINT64_MAX);
        hidden = -1;
    }
    assert_true(base_memory_size() == size);
}

/* A process that has ended is dead, also before anybody has waited for it. */
static void a_zombie_is_dead(void **state) {
    int door[2];
    base_maker m;
    siginfo_t ended;
    (void)state;
    assert_int_equal(pipe(door), 0);
    const pid_t child = fork();
    if (child == 0) {
        m = base_maker_self();
        _exit(write(door[1], &m, sizeof m) == sizeof m ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(read(door[0], &m, sizeof m), sizeof m);
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    assert_int_equal(base_maker_fate(&m), BASE_DEAD);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(base_maker_fate(&m), BASE_DEAD);
    (void)close(door[0]);
    (void)close(door[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_that_is_not_told_has_no_end),
                                       cmocka_unit_test(a_zombie_is_dead)};
    return cmocka_run_group_tests_name("unit/base_host", tests, NULL, NULL);
}
