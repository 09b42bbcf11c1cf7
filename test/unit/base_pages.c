/* Memory by the page: which can be read (base/readable.h), and huge ones (base/huge.h). */
#include "support/check.h"

#include <inttypes.h>
#include <sys/mman.h>

#include "base/huge.h"
#include "base/readable.h"

enum { PAGE = 4096, PAGES = 200, HUGE_PAGE = 2 << 20 };

static void bytes_are_readable_up_to_their_end(void **state) {
    (void)state;
    char *p = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    char *end = p + PAGES * PAGE;
    assert_int_equal(mprotect(end, PAGE, PROT_NONE), 0);
    if (base_readable(end, 1)) {
        print_message("skip: the kernel does not tell\n");
        (void)munmap(p, (PAGES + 1) * PAGE);
        skip();
    }
    assert_true(base_readable(end, 0));
    assert_true(base_readable(p, PAGES * PAGE));
    assert_true(base_readable(end - 1, 1));
    assert_true(base_readable(p + 7, PAGE - 7));
    assert_false(base_readable(p, PAGES * PAGE + 1));
    assert_false(base_readable(end - 1, 2));
    assert_false(base_readable(p, SIZE_MAX));
    assert_false(base_readable((void *)(UINTPTR_MAX - 3), 5));
    /* One page that is not there, wherever it is: they are asked for by 64. */
    for (size_t hole = 0; hole < PAGES; hole++) {
        assert_int_equal(mprotect(p + hole * PAGE, PAGE, PROT_NONE), 0);
        assert_false(base_readable(p, PAGES * PAGE));
        assert_true(base_readable(p, hole * PAGE));
        assert_true(base_readable(p + (hole + 1) * PAGE, (PAGES - hole - 1) * PAGE));
        assert_int_equal(mprotect(p + hole * PAGE, PAGE, PROT_READ), 0);
    }
    (void)munmap(p, (PAGES + 1) * PAGE);
}

/* All that this process has mapped. */
static uint64_t mapped(void) {
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    uint64_t sum = 0, from, to;
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2) sum += to - from;
    (void)fclose(f);
    return sum;
}

static void huge_pages_are_whole_and_go(void **state) {
    static const size_t sizes[] = {1, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1, 5 * HUGE_PAGE};
    rp_error err = {0};
    (void)state;
    (void)mapped(); /* what stdio takes */
    const uint64_t before = mapped();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        base_huge h = {0};
        rp_status st = base_huge_alloc(sizes[i], &h, &err);
        if (st == RP_UNSUPPORTED) {
            print_message("skip: %s\n", err.text);
            skip();
        }
        CHECK_OK(st, &err);
        assert_int_equal((uintptr_t)h.data % HUGE_PAGE, 0);
        assert_int_equal(h.size, (sizes[i] + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
        assert_int_equal(mapped(), before + h.size);
        for (size_t at = 0; at < h.size; at += PAGE) assert_int_equal(((char *)h.data)[at], 0);
        ((char *)h.data)[h.size - 1] = 1;
        base_huge_free(&h);
        assert_null(h.data);
        assert_int_equal(mapped(), before);
    }
    for (size_t less = 0; less < 5; less++) {
        base_huge h = {0};
        assert_int_equal(base_huge_alloc(SIZE_MAX - less * HUGE_PAGE / 2, &h, NULL), RP_NOMEM);
        assert_null(h.data);
    }
    base_huge_free(&(base_huge){0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_readable_up_to_their_end),
        cmocka_unit_test(huge_pages_are_whole_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
