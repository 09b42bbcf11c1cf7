/* Kernels of decode steps, on the emulated GPU: a step by them is near the same step by the kernels of all steps, whatever the number of sequences and whoever wants
 * logits; when they run and why not is told. */
#include "support/check.h"

#include "engine/decode.h"
#include "engine/engine.h"
#include "support/decode_kernels.h"
#include "support/engines.h"
#include "support/gpu.h"

static const char *why_not;

#define NEEDS_GPU() \
    if (why_not) SKIP_TEST("%s", why_not)

static const char MODEL[] = "synthetic:tiny-32";

/* Of logits up to 8. */
static void logits_are_near_those_of_all_kernels(void **state) {
    (void)state;
    NEEDS_GPU();
    decode_check_scores(MODEL, 3, 0.2);
}

static void any_number_of_sequences_is_near(void **state) {
    (void)state;
    NEEDS_GPU();
    decode_check_together(MODEL, (const uint32_t[]){1, 2, 8}, 3, NULL,
                          0.25); /* a prompt of two tokens is no decode step */
}

/* Kernels of up to 32 rows and those of more, where the batch is in several places of a tile of rows, and of 17 not at its end; heads whose rows are read in halves. */
static void many_sequences_are_near(void **state) {
    (void)state;
    NEEDS_GPU();
    decode_check_together("synthetic:tiny-64", &(uint32_t){33}, 1, NULL, 0.25);
    decode_check_together(MODEL, &(uint32_t){17}, 1, "long_prefill_token_threshold=1", 0.25);
}

/* Prompts that come a token a step want no logits until their end, so that rows with logits are some of a step's. */
static void rows_without_logits_are_passed_over(void **state) {
    (void)state;
    NEEDS_GPU();
    decode_check_together(MODEL, &(uint32_t){5}, 1, "long_prefill_token_threshold=1", 0.25);
}

static void nobody_reads_what_is_not_there(void **state) {
    (void)state;
    NEEDS_GPU();
    decode_check_poisoned(MODEL, 3);
    decode_check_poisoned(MODEL, 9); /* rows of padding, too */
}

static void logits_are_written_for_who_reads_them(void **state) {
    (void)state;
    NEEDS_GPU();
    decode_check_unread(MODEL, 9);
}

static bool wanted(const char *setting, const char *arch) {
    rp_compilation_config *c = rp_config_new();
    rp_error err = {0};
    char key[64];
    const char *eq = strchr(setting, '=');
    assert_non_null(c);
    (void)snprintf(key, sizeof key, "%.*s", (int)(eq - setting), setting);
    CHECK_OK(rp_config_set_key(c, "optimization_level", "2", &err), &err);
    CHECK_OK(rp_config_set_key(c, key, eq + 1, &err), &err);
    CHECK_OK(rp_config_resolve(c, NULL, &err), &err);
    const engine_plans_options o = {.config = c, .arch = arch};
    const bool is = engine_decode_wanted(&o);
    rp_config_free(c);
    return is;
}

static void settings_say_whether(void **state) {
    static const char *const none[] = {"cudagraph_mode=PIECEWISE",
                                       "cudagraph_mode=NONE",
                                       "batch_invariant=true",
                                       "numerics=exact",
                                       "level=2",
                                       "decode_kernels=false",
                                       "backend=eager"};
    (void)state;
    assert_true(wanted("decode_kernels=true", "sm_90"));
    assert_true(wanted("cudagraph_mode=FULL_DECODE_ONLY", "sm_100"));
    assert_false(wanted("decode_kernels=true", ""));
    assert_false(wanted("decode_kernels=true", "sm_80"));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_false(wanted(none[i], "sm_90"));
}

/* The kernels are of a layer of Llama, so another architecture whose weights have the same names and sizes has none. */
static void other_architectures_have_none(void **state) {
    model_source *source = NULL;
    rp_compilation_config *c = rp_config_new();
    rp_error err = {0};
    int64_t most = 0;
    (void)state;
    assert_non_null(c);
    CHECK_OK(rp_config_resolve(c, NULL, &err), &err);
    CHECK_OK(model_source_open_synthetic(MODEL, &source, &err), &err);
    model_hparams *hp = (model_hparams *)(uintptr_t)model_source_hparams(source);
    const engine_plans_options o = {.config = c, .source = source, .arch = "sm_90"};
    CHECK_OK(engine_decode_can(&o, &most, &err), &err);
    (void)strcpy(hp->arch, "alpaca");
    assert_int_equal(engine_decode_can(&o, &most, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "its kernels are of llama, and the model is alpaca");
    model_source_free(source);
    rp_config_free(c);
}

static void who_has_none_says_why(void **state) {
    (void)state;
    NEEDS_GPU();
    rp_engine *e = decode_engine("synthetic:tiny,dtype=bf16", true, "max_num_batched_tokens=8");
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    assert_non_null(strstr(
        text, "\"decode_kernels\":{\"reason\":\"step: head size 16 is no multiple of 32\"}"));
    rp_engine_text_free(text);
    rp_engine_close(e);
}

static void a_warm_start_compiles_nothing(void **state) {
    (void)state;
    NEEDS_GPU();
    for (int warm = 0; warm < 2; warm++) {
        rp_engine *e = decode_engine(MODEL, true, "max_num_seqs=4");
        assert_true(warm == 0 || engine_count(e, "compiles") == 0);
        assert_true(engine_count(e, "decode_kernels.kernels") > 0);
        rp_engine_close(e);
    }
}

static int set_up(void **state) {
    (void)state;
    if (gpu_emulate(&why_not)) why_not = NULL;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_near_those_of_all_kernels),
        cmocka_unit_test(any_number_of_sequences_is_near),
        cmocka_unit_test(many_sequences_are_near),
        cmocka_unit_test(rows_without_logits_are_passed_over),
        cmocka_unit_test(nobody_reads_what_is_not_there),
        cmocka_unit_test(logits_are_written_for_who_reads_them),
        cmocka_unit_test(settings_say_whether),
        cmocka_unit_test(other_architectures_have_none),
        cmocka_unit_test(who_has_none_says_why),
        cmocka_unit_test(a_warm_start_compiles_nothing),
    };
    return cmocka_run_group_tests_name("engine_decode", tests, set_up, NULL);
}
