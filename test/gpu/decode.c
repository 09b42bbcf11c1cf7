/* Kernels made for a layer of Llama beside the kernels of all steps, in the shapes that their tiles were measured for: long heads and short ones, odd numbers of heads. A test a model. */
#include "support/check.h"
#include "support/decode_kernels.h"

typedef struct shape {
    const char *model;
    double most;
} shape;

static void steps_are_near(void **state) {
    const shape *s = *state;
    decode_check_scores(s->model, 3, s->most);
    decode_check_scores(s->model, 900, s->most); /* warps take several cells */
    decode_check_together(s->model, (const uint32_t[]){2, 5, 8}, 3, NULL, 0.5);
    decode_check_together(s->model, (const uint32_t[]){9, 30, 64}, 3, NULL, 0.5);
    decode_check_poisoned(s->model, 3);
    decode_check_poisoned(s->model, 20);
    decode_check_unread(s->model, 64);
}

static void prompts_in_pieces_are_near(void **state) {
    const shape *s = *state;
    decode_check_together(s->model, &(uint32_t){5}, 1, "long_prefill_token_threshold=1", 0.5);
}

int main(void) {
    static shape tiny = {"synthetic:tiny-32", 0.2},
                 small = {"synthetic:smollm2-135m,dtype=bf16", 0.7},
                 one = {"synthetic:llama-1b,layers=3", 0.7},
                 eight = {"synthetic:llama-8b,layers=2", 0.7};
    const struct CMUnitTest tests[] = {
        {"steps_of_tiny_are_near", steps_are_near, NULL, NULL, &tiny},
        {"steps_of_135m_are_near", steps_are_near, NULL, NULL, &small},
        {"steps_of_1b_are_near", steps_are_near, NULL, NULL, &one},
        {"steps_of_8b_are_near", steps_are_near, NULL, NULL, &eight},
        {"prompts_in_pieces_are_near", prompts_in_pieces_are_near, NULL, NULL, &small},
    };
    return cmocka_run_group_tests_name("gpu/decode", tests, NULL, NULL);
}
