/* The mode algebra against the seeds' table, pair by pair. */
#include "support/check.h"

#include "reprise/config.h"

#define N RP_CUDAGRAPH_NONE
#define P RP_CUDAGRAPH_PIECEWISE
#define F RP_CUDAGRAPH_FULL

static const struct {
    rp_cudagraph_mode mode;
    const char *name;
    rp_cudagraph_mode decode, mixed, max;
    bool separate, piecewise, full;
} table[] = {
    {RP_CUDAGRAPH_NONE, "NONE", N, N, N, false, false, false},
    {RP_CUDAGRAPH_PIECEWISE, "PIECEWISE", P, P, P, false, true, false},
    {RP_CUDAGRAPH_FULL, "FULL", F, F, F, false, false, true},
    {RP_CUDAGRAPH_FULL_DECODE_ONLY, "FULL_DECODE_ONLY", F, N, F, true, false, true},
    {RP_CUDAGRAPH_FULL_AND_PIECEWISE, "FULL_AND_PIECEWISE", F, P, F, true, true, true},
};
enum { N_MODES = sizeof table / sizeof table[0] };

static void helpers_follow_the_table(void **state) {
    (void)state;
    for (int i = 0; i < N_MODES; i++) {
        rp_cudagraph_mode m = table[i].mode;
        assert_int_equal(rp_cudagraph_decode_mode(m), table[i].decode);
        assert_int_equal(rp_cudagraph_mixed_mode(m), table[i].mixed);
        assert_int_equal(rp_cudagraph_max_cudagraph_mode(m), table[i].max);
        assert_int_equal(rp_cudagraph_separate_routine(m), table[i].separate);
        assert_int_equal(rp_cudagraph_requires_piecewise_compilation(m), table[i].piecewise);
        assert_int_equal(rp_cudagraph_has_full_cudagraphs(m), table[i].full);
        assert_string_equal(rp_cudagraph_mode_name(m), table[i].name);
    }
    assert_string_equal(rp_cudagraph_mode_name((rp_cudagraph_mode)9), "unknown");
}

static void has_mode_takes_simple_modes_only(void **state) {
    (void)state;
    for (int i = 0; i < N_MODES; i++)
        for (int k = 0; k < N_MODES; k++) {
            bool expected = k <= RP_CUDAGRAPH_FULL &&
                            (table[i].decode == table[k].mode || table[i].mixed == table[k].mode);
            assert_int_equal(rp_cudagraph_has_mode(table[i].mode, table[k].mode), expected);
        }
}

static void parts_are_runtime_modes(void **state) {
    (void)state;
    rp_cudagraph_mode valid[3];
    assert_int_equal(rp_cudagraph_valid_runtime_modes(valid), 3);
    for (int i = 0; i < N_MODES; i++) {
        int found = 0;
        for (int k = 0; k < 3; k++)
            found += (valid[k] == table[i].decode) + (valid[k] == table[i].mixed);
        assert_int_equal(found, 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(helpers_follow_the_table),
        cmocka_unit_test(has_mode_takes_simple_modes_only),
        cmocka_unit_test(parts_are_runtime_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
