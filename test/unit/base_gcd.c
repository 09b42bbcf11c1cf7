/* The greatest common divisor beside one that is looked for, and where a sign cannot be turned. */
#include "support/check.h"

#include "base/gcd.h"

static int64_t looked_for(int64_t a, int64_t b) {
    for (int64_t d = 40; d > 1; d--)
        if (a % d == 0 && b % d == 0) return d;
    return 1;
}

static void small_ones(void **state) {
    (void)state;
    for (int64_t a = -40; a <= 40; a++)
        for (int64_t b = -40; b <= 40; b++)
            assert_int_equal(base_gcd(a, b), a || b ? looked_for(a, b) : 0);
}

static void the_ends(void **state) {
    (void)state;
    assert_int_equal(base_gcd(INT64_MIN, 6), 1); /* it has no positive twin */
    assert_int_equal(base_gcd(6, INT64_MIN), 1);
    assert_int_equal(base_gcd(INT64_MIN, 0), 1);
    assert_int_equal(base_gcd(INT64_MAX, INT64_MAX), INT64_MAX);
    assert_int_equal(base_gcd(-INT64_MAX, 7), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_ones), cmocka_unit_test(the_ends)};
    return cmocka_run_group_tests_name("unit/base_gcd", tests, NULL, NULL);
}
