/* What the host says of itself, and what is assumed where it does not. */
#include "support/check.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/host.h"

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
    assert_true(size > 1 << 20 && size < UINT64_MAX);
    for (int i = 0; i < 2; i++) {
        hidden = names[i];
        assert_true(base_memory_size() == UINT64_MAX);
        hidden = -1;
    }
    assert_true(base_memory_size() == size);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_that_is_not_told_has_no_end)};
    return cmocka_run_group_tests_name("unit/base_host", tests, NULL, NULL);
}
