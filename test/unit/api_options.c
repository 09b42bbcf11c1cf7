/* Option structs of callers that were built against an older or a newer header, and NULL for a configuration. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/options.h"
#include "reprise/reprise.h"

/* --- the rule -------------------------------------------------------------------------------- */

typedef struct grown {
    size_t size;
    int64_t a, b, c;
} grown;

static void sizes_are_understood(void **state) {
    (void)state;
    rp_error err = {0};
    grown given = {sizeof given, 1, 2, 3}, own = {sizeof own, 7, 8, 9};
    given.size = offsetof(grown, c);
    CHECK_OK(base_options_take(&own, sizeof own, &given, "grown", &err), &err);
    assert_true(own.size == sizeof own && own.a == 1 && own.b == 2 && own.c == 9);
    given.size = sizeof given;
    own = (grown){sizeof own, 7, 8, 9};
    given.c = 0;
    CHECK_OK(base_options_take(&own, offsetof(grown, c), &given, "grown", &err), &err);
    assert_true(own.size == offsetof(grown, c) && own.b == 2 && own.c == 9);
    given.c = INT64_C(1) << 56;
    assert_int_equal(base_options_take(&own, offsetof(grown, c), &given, "grown", &err),
                     RP_UNSUPPORTED);
    assert_string_equal(err.text, "grown of 32 bytes sets a field behind the 24 that this library "
                                  "knows; use a newer library");
    /* one cuts a field in two */
    const size_t bad[] = {0, 1, sizeof(size_t) - 1, offsetof(grown, b) + 4, SIZE_MAX, 1u << 20};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        given.size = bad[i];
        err = (rp_error){0};
        assert_int_equal(base_options_take(&own, sizeof own, &given, "grown", &err), RP_INVALID);
        assert_non_null(strstr(err.text, "sizeof(grown)"));
    }
    assert_int_equal(base_options_take(&own, sizeof own, NULL, "grown", NULL), RP_INVALID);
}

/* --- every struct that has a size -------------------------------------------------------------- */

/* Struct T as a later header may have it. */
#define LATER(T)       \
    struct {           \
        T known;       \
        int64_t later; \
    }
#define REFUSED(call, name)                                            \
    do {                                                               \
        rp_error refusal = {0}, *why = &refusal;                       \
        assert_int_equal((call), RP_UNSUPPORTED);                      \
        if (!strstr(why->text, name " of")) fail_msg("%s", why->text); \
    } while (0)

static rp_engine *open_old(void) {
    rp_error err = {0};
    rp_engine *e = NULL;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = "synthetic:tiny";
    o.chat_template = "garbage that is behind the end";
    o.no_capture = true;
    o.size = offsetof(rp_engine_options, chat_template);
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    return e;
}

static void engine_options(void **state) {
    (void)state;
    size_t live = base_live();
    rp_engine *e = open_old(), *none = NULL;
    assert_int_equal(rp_config_level(rp_engine_config(e)),
                     0); /* no config: the library's defaults */
    LATER(rp_engine_options) new = {RP_ENGINE_OPTIONS_INIT, 1};
    new.known.size = sizeof new;
    new.known.model = "synthetic:tiny";
    new.known.config = rp_config_new(); /* taken over, also on failure */
    REFUSED(rp_engine_open(&new.known, &none, why), "rp_engine_options");
    assert_null(none);
    rp_engine_close(e);
    assert_int_equal(base_live(), live);
}

static void request_options(void **state) {
    (void)state;
    rp_error err = {0};
    uint64_t id = 0;
    bool more = true;
    rp_result result = RP_RESULT_INIT;
    rp_engine *engine = open_old();
    LATER(rp_request_options) new = {RP_REQUEST_OPTIONS_INIT, 1};
    new.known.size = sizeof new;
    new.known.prompt = "a";
    REFUSED(rp_engine_submit(engine, &new.known, &id, why), "rp_request_options");
    new.later = 0;
    new.known.max_tokens = 3;
    new.known.sampling.top_p = 0; /* refused where it is looked at */
    new.known.size = offsetof(rp_request_options, sampling);
    CHECK_OK(rp_engine_submit(engine, &new.known, &id, &err), &err);
    while (more) CHECK_OK(rp_engine_step(engine, &more, &err), &err);
    CHECK_OK(rp_engine_result(engine, id, &result, &err), &err);
    assert_true(result.n_output_ids > 0 && result.n_output_ids <= 3);
    rp_engine_close(engine);
}

static void count_tokens(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                         const int32_t *top_ids, const float *top_logits) {
    (void)position, (void)id, (void)logprob, (void)top_ids, (void)top_logits;
    assert_int_equal(k, 0);
    ++*(int *)user;
}

static void score_options(void **state) {
    (void)state;
    static const int32_t ids[] = {5, 6, 7};
    rp_error err = {0};
    int n = 0;
    double perplexity = 0;
    rp_engine *engine = open_old();
    LATER(rp_score_options) new = {RP_SCORE_OPTIONS_INIT, 1};
    new.known.size = sizeof new;
    new.known.prompt_ids = ids;
    new.known.n_prompt_ids = 1;
    new.known.continuation_ids = ids + 1;
    new.known.n_continuation_ids = 2;
    new.known.on_token = count_tokens;
    new.known.user = &n;
    REFUSED(rp_engine_score(engine, &new.known, &perplexity, why), "rp_score_options");
    new.later = 0;
    CHECK_OK(rp_engine_score(engine, &new.known, &perplexity, &err), &err);
    assert_int_equal(n, 2);
    new.known.size = offsetof(rp_score_options, step);
    CHECK_OK(rp_engine_score(engine, &new.known, &perplexity, &err), &err);
    assert_int_equal(n, 2); /* on_token is behind the end */
    rp_engine_close(engine);
}

static void model_facts(void **state) {
    (void)state;
    rp_error err = {0};
    rp_compilation_config *cfg = rp_config_new();
    LATER(rp_model_facts) new = {RP_MODEL_FACTS_INIT, 1};
    new.known.size = sizeof new;
    REFUSED(rp_config_resolve(cfg, &new.known, why), "rp_model_facts");
    new.known.attention = RP_ATTENTION_NEVER; /* behind the end: ALWAYS, so FULL stays */
    new.known.size = offsetof(rp_model_facts, attention);
    CHECK_OK(rp_config_set(cfg, "cudagraph_mode=FULL", &err), &err);
    CHECK_OK(rp_config_resolve(cfg, &new.known, &err), &err);
    assert_int_equal(rp_config_cudagraph_mode(cfg), RP_CUDAGRAPH_FULL);
    rp_config_free(cfg);
}

static rp_status nothing(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)args, (void)n, (void)err;
    return RP_OK;
}

static void op_desc(void **state) {
    (void)state;
    rp_error err = {0};
    LATER(rp_op_desc) new = {{.name = "unit::later", .cpu = nothing}, 1};
    new.known.size = sizeof new;
    REFUSED(rp_op_register(&new.known, why), "rp_op_desc");
    new.known.size = offsetof(rp_op_desc, cpu); /* no implementation, as long as nobody runs it */
    CHECK_OK(rp_op_register(&new.known, &err), &err);
}

/* --- structs that calls fill --------------------------------------------------------------------- */

static void results_are_filled_as_far_as_known(void **state) {
    (void)state;
    rp_error err = {0};
    const grown own = {sizeof own, 1, 2, 3};
    LATER(grown) out = {{offsetof(grown, c), 7, 8, 9}, 10};
    CHECK_OK(base_result_give(&out, &own, sizeof own, "grown", &err), &err);
    assert_true(out.known.size == offsetof(grown, c) && out.known.a == 1 && out.known.b == 2);
    assert_true(out.known.c == 9 && out.later == 10); /* behind the end */
    out.known.size = sizeof out;
    CHECK_OK(base_result_give(&out, &own, sizeof own, "grown", &err), &err);
    assert_true(out.known.size == sizeof out && out.known.c == 3 && out.later == 0);
    out.known = (grown){0, 7, 8, 9};
    out.later = 10;
    assert_int_equal(base_result_give(&out, &own, sizeof own, "grown", &err), RP_INVALID);
    assert_non_null(strstr(err.text, "sizeof(grown)"));
    assert_true(out.known.a == 7 && out.later == 10);
    assert_int_equal(base_result_give(NULL, &own, sizeof own, "grown", NULL), RP_INVALID);
}

/* Each as an older caller has it: nothing behind its end is touched; and without a size. */
static void results_of_older_callers(void **state) {
    (void)state;
    rp_error err = {0};
    uint64_t id = 0;
    rp_engine *engine = open_old();
    rp_request_options o = RP_REQUEST_OPTIONS_INIT;
    rp_result res = {.size = offsetof(rp_result, text), .text = "mine"};
    o.prompt = "a";
    CHECK_OK(rp_engine_submit(engine, &o, &id, &err), &err);
    CHECK_OK(rp_engine_result(engine, id, &res, &err), &err);
    assert_true(res.id == id && res.n_prompt_ids > 0);
    assert_string_equal(res.text, "mine");
    res.size = 0;
    assert_int_equal(rp_engine_result(engine, id, &res, &err), RP_INVALID);
    rp_engine_close(engine);

    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("old");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y = rp_neg(x);
    rp_compiled_info info = {.size = offsetof(rp_compiled_info, compiled), .compiled = 77};
    err = (rp_error){0};
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile(g, NULL, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    assert_true(info.pieces == 1 && info.compiled == 77);
    info.size = 0;
    assert_int_equal(rp_compiled_get_info(c, &info, &err), RP_INVALID);
    assert_int_equal(rp_compiled_get_info(NULL, &info, NULL), RP_INVALID);
    rp_compiled_free(c);
    rp_graph_free(g);
}

/* --- no configuration ------------------------------------------------------------------------------ */

/* rp_engine_open is above; what was compiled without a configuration is what the defaults give. */
static void null_is_the_defaults(void **state) {
    (void)state;
    rp_error err = {0};
    rp_compiled_info info[2] = {RP_COMPILED_INFO_INIT, RP_COMPILED_INFO_INIT};
    rp_graph *g = rp_graph_new("null");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
    rp_tensor y = rp_exp(rp_mul(rp_neg(x), x));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    for (int i = 0; i < 2; i++) {
        rp_compiled *c = NULL;
        rp_compilation_config *cfg = i ? rp_config_new() : NULL;
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_get_info(c, &info[i], &err), &err);
        if (i) assert_int_equal(rp_config_level(cfg), RP_LEVEL_NO_COMPILATION);
        rp_compiled_free(c);
        rp_config_free(cfg);
    }
    assert_int_equal(info[0].kernels, 0); /* built-in ones, op by op */
    assert_memory_equal(&info[0], &info[1], sizeof info[0]);
    rp_graph_free(g);
}

static void why_without_a_configuration(void **state) {
    (void)state;
    rp_error err = {0};
    rp_cache *c = NULL;
    char *text[2];
    rp_engine_close(open_old()); /* stores the plan of the defaults */
    CHECK_OK(rp_cache_open(NULL, &c, &err), &err);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rp_cache_why(c, "synthetic:tiny", i ? rp_config_new() : NULL, &text[i], &err),
                 &err);
        assert_non_null(strstr(text[i], "factors equal"));
    }
    assert_string_equal(text[0], text[1]);
    rp_engine_text_free(text[0]);
    rp_engine_text_free(text[1]);
    rp_cache_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_understood),
        cmocka_unit_test(engine_options),
        cmocka_unit_test(request_options),
        cmocka_unit_test(score_options),
        cmocka_unit_test(model_facts),
        cmocka_unit_test(op_desc),
        cmocka_unit_test(results_are_filled_as_far_as_known),
        cmocka_unit_test(results_of_older_callers),
        cmocka_unit_test(null_is_the_defaults),
        cmocka_unit_test(why_without_a_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
