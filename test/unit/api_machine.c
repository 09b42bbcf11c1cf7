/* What the report of a machine says of a GPU: its driver as the version that is told is written. */
#include "support/check.h"
#include "support/gpu.h"

#include <jansson.h>
#include <stdlib.h>

#include "reprise/machine.h"
#include "reprise/reprise.h"

static void drivers_have_the_versions_that_are_written(void **state) {
    static const char *const versions[][2] = {{"13000", "13.0"},
                                              {"12080", "12.8"},
                                              {"12090", "12.9"},
                                              {"11020", "11.2"},
                                              {"12110", "12.11"}};
    const char *why = NULL;
    (void)state;
    if (!gpu_emulate(&why)) SKIP_TEST("%s", why);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        rp_error err = {0};
        char *text = NULL;
        assert_int_equal(setenv("EMU_VERSION", versions[i][0], 1), 0);
        CHECK_OK(rp_machine_report(NULL, &text, &err), &err);
        json_t *o = json_loads(text, 0, NULL);
        const json_t *gpu = json_object_get(o, "gpu");
        const char *driver = json_string_value(json_object_get(gpu, "driver"));
        const char *arch = json_string_value(json_object_get(gpu, "arch"));
        if (driver) {
            assert_string_equal(driver, versions[i][1]);
            assert_int_equal(strncmp(arch, "sm_", 3), 0);
            assert_true(json_integer_value(json_object_get(gpu, "memory")) > 0);
        } else {
            const char *reason = json_string_value(json_object_get(gpu, "reason"));
            if (i == 0) fail_msg("%s", reason); /* older ones may be too old */
        }
        json_decref(o);
        rp_free(text);
    }
    assert_int_equal(unsetenv("EMU_VERSION"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drivers_have_the_versions_that_are_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
