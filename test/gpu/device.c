/* On a machine with a GPU: the public device, its streams and events, compiled graphs, and engines that share it. */
#include "support/compiled_device.h"
#include "support/devices.h"
#include "support/viewed_calls.h"

static void copies_and_events(void **state) {
    (void)state;
    device_check_copies("cuda:0");
}

static void compiled_graphs(void **state) {
    (void)state;
    compiled_device_check("cuda:0");
    compiled_device_check_loads("cuda:0");
    compiled_device_check_threads("cuda:0");
    compiled_device_check_refusals("cuda:0");
    compiled_device_check_eval();
}

static void views(void **state) {
    (void)state;
    viewed_calls_check("cuda:0", 400);
    viewed_jits_check("cuda:0", 100);
}

static void engines_share_a_device(void **state) {
    (void)state;
    device_check_engines("cuda:0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_events),
        cmocka_unit_test(compiled_graphs),
        cmocka_unit_test(views),
        cmocka_unit_test(engines_share_a_device),
    };
    return cmocka_run_group_tests_name("gpu/device", tests, NULL, NULL);
}
