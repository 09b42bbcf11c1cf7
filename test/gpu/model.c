/* On a machine with a GPU: models on cuda:0 against the cpu of the same machine, bit for bit. */
#include "support/check.h"

#include "support/border.h"
#include "support/gpu.h"
#include "support/kv_growth.h"

static const char *model(void) {
    const char *path = getenv("REPRISE_TEST_MODEL");
    if (!path) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
    return path;
}

static void tiny_is_the_same_everywhere(void **state) {
    (void)state;
    gpu_check_tokens("synthetic:tiny", NULL, true, true);
    gpu_check_tokens("synthetic:tiny", "cudagraph_copy_inputs=true", false, true);
}

static void formats_give_the_bits_of_the_cpu(void **state) {
    static const char *const models[] = {"synthetic:tiny", "synthetic:tiny,dtype=f32",
                                         "synthetic:tiny,dtype=bf16"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        gpu_check_scores(models[i], "batch_invariant=true", 100, 32);
        gpu_check_scores(models[i], "batch_invariant=true", 50, 1);
        gpu_check_scores(models[i], "numerics=exact", 100, 32);
    }
}

static void tensor_cores_give_one_answer(void **state) {
    (void)state;
    gpu_check_near("synthetic:tiny,dtype=bf16", 200, 100);
    gpu_check_near("synthetic:tiny,dtype=bf16", 200, 50);
    gpu_check_near("synthetic:tiny,dtype=bf16", 40, 1);
    gpu_check_near("synthetic:smollm2-135m,dtype=bf16", 60, 1);
}

static void draws_are_those_of_the_cpu(void **state) {
    static const uint32_t sizes[] = {1, 257, 3000, 49152, 128256, 262144};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t round = 0; round < 4; round++)
            border_check_draws("cuda:0", sizes[i], 64, 100 * round + i);
    gpu_check_draws("synthetic:tiny");
}

static void the_cache_grows_in_place(void **state) {
    static const kv_growth g = {
        "synthetic:smollm2-135m,layers=4,dtype=bf16", "device=cuda:0", 24, 400, 48, 1024};
    (void)state;
    kv_growth_check(&g);
}

static void smollm2_is_the_same_everywhere(void **state) {
    (void)state;
    gpu_check_tokens(model(), NULL, true, true);
    gpu_check_scores(model(), NULL, 300, 100);
    gpu_check_scores(model(), NULL, 100, 1);
    gpu_check_scores(model(), "numerics=exact", 100, 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_is_the_same_everywhere),
        cmocka_unit_test(formats_give_the_bits_of_the_cpu),
        cmocka_unit_test(draws_are_those_of_the_cpu),
        cmocka_unit_test(tensor_cores_give_one_answer),
        cmocka_unit_test(the_cache_grows_in_place),
        cmocka_unit_test(smollm2_is_the_same_everywhere),
    };
    return cmocka_run_group_tests_name("gpu/model", tests, NULL, NULL);
}
