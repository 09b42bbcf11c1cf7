/* How much memory is left, read from files of the kernel as this test writes them. */
#include "support/check.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/trees.h"

#define MB ((uint64_t)1 << 20)

static const char *machine;

static void put(const char *path, const char *text) {
    tree_write(machine, path, text, strlen(text));
}

static int start(void **state) {
    (void)state;
    machine = tree_new("machine");
    base_memory_root(machine);
    put("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 1048576 kB\nSwapFree: 1024 kB\n");
    return 0;
}

static int end(void **state) {
    (void)state;
    base_memory_root(NULL);
    tree_remove(machine);
    return 0;
}

static void the_machine_says_what_is_available(void **state) {
    (void)state;
    assert_int_equal(base_memory_available(), 1025 * MB);
    put("proc/meminfo", "nothing of that kind\n");
    assert_true(base_memory_available() == UINT64_MAX);
}

/* The tightest group counts, and files in memory do not. */
static void a_group_of_version_2_limits(void **state) {
    (void)state;
    put("proc/self/cgroup", "0::/box/job\n");
    put("sys/fs/cgroup/box/job/memory.max", "max\n");
    put("sys/fs/cgroup/box/job/memory.current", "1048576\n");
    assert_int_equal(base_memory_available(), 1025 * MB);
    put("sys/fs/cgroup/box/memory.max", "104857600\n");
    put("sys/fs/cgroup/box/memory.current", "52428800\n");
    assert_int_equal(base_memory_available(), 50 * MB);
    put("sys/fs/cgroup/box/memory.stat",
        "anon 5\ninactive_file 10485760\nactive_file 1048576\ninactive_file_more 7\n");
    assert_int_equal(base_memory_available(), 61 * MB);
    put("sys/fs/cgroup/memory.max", "2097152\n");
    put("sys/fs/cgroup/memory.current", "3145728\n");
    assert_int_equal(base_memory_available(), 0);
}

/* In a container the path is often that of the host, and only the group at the top is there. */
static void a_group_of_version_1_limits(void **state) {
    (void)state;
    put("proc/self/cgroup", "5:devices:/\n4:memory:/host/docker/7\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "20971520\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "10485760\n");
    put("sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 1048576\n");
    assert_int_equal(base_memory_available(), 11 * MB);
}

static void a_limited_address_space_limits(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP_TEST("sanitizers need address space of their own");
#endif
    base_memory_root(NULL);
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {1, RLIM_INFINITY};
        _Exit(setrlimit(RLIMIT_AS, &none) != 0 || base_memory_available() != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_machine_says_what_is_available, start, end),
        cmocka_unit_test_setup_teardown(a_group_of_version_2_limits, start, end),
        cmocka_unit_test_setup_teardown(a_group_of_version_1_limits, start, end),
        cmocka_unit_test_setup_teardown(a_limited_address_space_limits, start, end),
    };
    return cmocka_run_group_tests_name("base_memory", tests, NULL, NULL);
}
